"""A random subset as a core-set map, drawn so that forgetting can equal a refit. Reads the ids alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Positions
from erasable.core.keyed_hash import keyed_hash
from erasable.core.names import Key
from erasable.validation import number_between, seed


@dataclass(frozen=True)
class RandomSubsample:
    """Each row with a given probability, drawn from its id and ``random_state`` alone: the paper's motivating example.

    *Stable*: a row's hash does not depend on which other rows there are. Departure: a share of the rows is drawn, not a
    number m of them. The m lowest hashes would be stable too, but whether a row is among them depends on the others,
    and a core set of fewer than m rows tells how many were forgotten (of this map the core set tells no more about
    deleted rows than the data do, as Theorem 2.4 has it). Features and labels play no part, so the core rows have, on
    average, the class shares of the data.

    Parameters
    ----------
    fraction : float in (0, 1]
        Probability with which a row is kept; 1 keeps all of them.
    random_state : int, default=0
        Draws the subset. Whoever chooses both this and the ids can choose the subset.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.coresets import RandomSubsample
    >>> X, y, ids = np.zeros((8, 1)), np.zeros(8), np.arange(100, 108).tolist()
    >>> core_set = RandomSubsample(0.5, random_state=1)
    >>> core = core_set.select(X, y, ids)
    >>> left = core[1:]  # C(C(S) - U) = C(S) - U
    >>> core_set.select(X[left], y[left], [ids[i] for i in left]).tolist() == list(range(len(left)))
    True
    """

    fraction: float
    random_state: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", number_between(self.fraction, "fraction", 0.0, 1.0, closed="high"))
        object.__setattr__(self, "random_state", seed(self.random_state))

    @property
    def stable(self) -> bool:
        """True: whether a row is kept depends on its id and ``random_state`` alone."""
        return True

    def select(self, X: Any, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, ascending."""
        ids = keys.tolist() if hasattr(keys, "tolist") else keys  # a NumPy integer would have another hash
        highest = np.uint64(min(int(self.fraction * 2**64), 2**64 - 1))
        return np.flatnonzero(keyed_hash(ids, self.random_state) <= highest)

    def describe(self) -> dict[str, Any]:
        """The configuration; ``random_state`` as text, since it may be of any size."""
        return {"map": "random-subsample", "fraction": self.fraction.hex(), "random_state": str(self.random_state)}
