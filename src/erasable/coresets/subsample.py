"""A random subset as a core-set map, drawn so that forgetting can equal a refit."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Key
from erasable.core.lots import lots
from erasable.coresets._protocol import check_number
from erasable.errors import ConfigurationError


@dataclass(frozen=True)
class RandomSubsample:
    """Each row with a given probability, drawn from its id and the seed alone: the paper's motivating example.

    *Stable*: a row's lot does not depend on which other rows there are. Departure: a share of the rows is drawn, not a
    number m of them. The m lowest lots would be stable too, but whether a row is among them depends on the others, and
    a core set of fewer than m rows tells how many were forgotten (of this map the core set tells no more about deleted
    rows than the data do, as Theorem 2.4 has it). Features and labels play no part, so the core rows have, on average,
    the class shares of the data.

    Parameters
    ----------
    fraction : float in (0, 1]
        Probability with which a row is kept; 1 keeps all of them.
    seed : int, default=0
        Draws the subset. Whoever chooses both the seed and the ids can choose the subset.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.coresets import RandomSubsample
    >>> X, y, ids = np.zeros((8, 1)), np.zeros(8), np.arange(100, 108).tolist()
    >>> core_set = RandomSubsample(0.5, seed=1)
    >>> core = core_set.select(X, y, ids)
    >>> left = core[1:]  # C(C(S) - U) = C(S) - U
    >>> core_set.select(X[left], y[left], [ids[i] for i in left]).tolist() == list(range(len(left)))
    True
    """

    fraction: float
    seed: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "fraction", check_number(self.fraction, "fraction", above=0.0, at_most=1.0))
        seed = self.seed
        if isinstance(seed, bool | np.bool_) or not isinstance(seed, numbers.Integral) or seed < 0:
            raise ConfigurationError(f"seed must be a non-negative integer; got {seed!r}.")
        object.__setattr__(self, "seed", int(seed))

    @property
    def stable(self) -> bool:
        """True: whether a row is kept depends on its id and the seed alone."""
        return True

    def select(self, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> npt.NDArray[np.intp]:
        """Positions of the core rows, ascending."""
        ids = keys.tolist() if hasattr(keys, "tolist") else keys  # a NumPy integer would draw another lot
        highest = np.uint64(min(int(self.fraction * 2**64), 2**64 - 1))
        return np.flatnonzero(lots(ids, self.seed) <= highest)

    def describe(self) -> dict[str, Any]:
        """The configuration; the seed as text, since it may be of any size."""
        return {"map": "RandomSubsample", "fraction": self.fraction.hex(), "seed": str(self.seed)}
