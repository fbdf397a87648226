"""In which order rows are decided: by a keyed hash of their ids, or as they come.

Whether a row is selected depends on the rows decided before it, and the paper's theorems assume that rows come in
random order, which tables do not. So the rows of one call are decided in ascending order of the keyed hash of their ids
(:mod:`erasable.core.keyed_hash`), after the core rows already there: the order of the input plays no part. The key is
configuration.

The same hash draws a sample: with ``sample_rate`` a row is also kept when the hash of its id falls below that share of
all hashes, whatever other rows there are.
"""

from __future__ import annotations

import math
import warnings
from collections import Counter
from fractions import Fraction
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.keyed_hash import keyed_hash
from erasable.errors import ConfigurationError, SortedRowsWarning
from erasable.validation import choice, number_between, seed

ORDERS = ("hashed", "given")
_LARGEST_KEY = 2**128 - 1
_FEW = 100  # rows: in fewer, runs of labels say little
SORTED = (
    "labels come in long runs, as in a table sorted by class, and rows are decided as they are given, so the first "
    'classes take the core set: leave order= at "hashed", or shuffle the rows.'
)


def order_key(given: Any) -> int | None:
    """The key that ``order`` and ``random_state`` of an estimator name; None for the order in which rows are given.

    Raises
    ------
    ConfigurationError
    """
    key = seed(given.random_state, most=_LARGEST_KEY)
    return key if choice(given.order, "order", ORDERS) == "hashed" else None


def sample_of(given: Any) -> tuple[float, int | None]:
    """Rate and key of the sample that ``sample_rate`` and ``random_state`` of an estimator name; no key, no sample.

    Raises
    ------
    ConfigurationError
    """
    rate = number_between(given.sample_rate, "sample_rate", 0.0, 1.0, closed="both") + 0.0
    return rate, seed(given.random_state, most=_LARGEST_KEY) if rate else None


def in_sample(ids: Any, rate: float, key: int) -> npt.NDArray[np.bool_]:
    """Which ids are in the sample: those with a keyed hash ``h < rate * 2**64``, compared as integers."""
    limit = math.ceil(Fraction(rate) * 2**64)
    hashes = keyed_hash(ids, key)
    return hashes <= np.uint64(limit - 1) if limit else np.zeros(len(hashes), dtype=bool)


def order_of(key: int | None, sample_key: int | None = None) -> dict[str, Any]:
    """The parameters of an estimator that name these keys."""
    if key is not None:
        return {"order": "hashed", "random_state": key}
    return {"order": "given"} | ({} if sample_key is None else {"random_state": sample_key})


def check_order_key(key: int | None) -> None:
    """Refuse a key that no estimator has.

    Raises
    ------
    ConfigurationError
    """
    if key is not None and not 0 <= key <= _LARGEST_KEY:
        raise ConfigurationError("the key of the order of rows is out of range.")


def check_sample(rate: float, key: int | None, order_key: int | None) -> None:
    """Refuse a sample that no estimator has: one without a key, or with another than that of the order.

    Raises
    ------
    ConfigurationError
    """
    if not 0.0 <= rate <= 1.0 or math.copysign(1.0, rate) < 0.0 or (key is None) != (rate == 0.0):
        raise ConfigurationError("the rate of the sample must be between 0 and 1, and above 0 have a key.")
    check_order_key(key)
    if None not in (key, order_key) and key != order_key:
        raise ConfigurationError("the sample has another key than the order of rows.")


def described_order(key: int | None) -> str | None:
    """The key as the header of a file has it: digits, since it may be of any size."""
    return None if key is None else str(key)


def read_order(written: Any) -> int | None:
    """What :func:`described_order` wrote."""
    return None if written is None else int(written)


class LabelRuns:
    """How often labels change from one row to the next, block after block.

    *Law*: among n rows, ``n_c`` of class c, a random order has ``n - sum(n_c ** 2) / n`` changes in the mean.
    """

    def __init__(self) -> None:
        self.counts: Counter[Any] = Counter()
        self.changes = 0
        self.last: list[Any] = []

    def add(self, y: npt.NDArray[Any]) -> Self:
        """Labels that follow those before."""
        labels, counts = np.unique(y, return_counts=True)
        self.counts.update(dict(zip(labels.tolist(), counts.tolist(), strict=True)))
        self.changes += int(np.count_nonzero(y[1:] != y[:-1])) + (self.last != y[:1].tolist() and bool(self.last))
        self.last = y[-1:].tolist()
        return self

    def warn(self, *, stacklevel: int) -> None:
        """Say so when labels change less than a tenth as often as they would in random order."""
        n = self.counts.total()
        if n >= _FEW and 10 * self.changes < n - sum(count**2 for count in self.counts.values()) / n:
            warnings.warn(SORTED, SortedRowsWarning, stacklevel=stacklevel + 1)
