"""Algorithm 1's selection as a core-set map: rows whose direction the rows kept so far say little about.

A front of ``core.selector``, configured by ``core.linear_selection`` as the linear models are. Touches no files.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

from erasable.core.arrays import Array, Positions
from erasable.core.grid import Grid, described_scaling
from erasable.core.names import Key
from erasable.core.selector import RawRows, grid_of, select, selecting_units
from erasable.core.sums import empty_gram
from erasable.validation import number_not_negative, positive_number


@dataclass(frozen=True)
class LeverageThreshold:
    """Rows whose leverage against the rows kept before them is above a threshold: Algorithm 1's sampler.

    *Stable* (Theorem 4.2): leverage only falls as rows are kept, so without some of them the others pass all the more.
    Decisions are exact for the grid rows, never those of a rounded leverage, so stability holds bitwise. Labels and
    ids play no part.

    Parameters
    ----------
    threshold : float
        Rows are kept while ``x'A^-1x`` is above it. Zero keeps every row but zero.
    capacity : float, default=1.0
        The paper's K: ``A`` starts as ``capacity * I``.
    fit_intercept : bool, default=True
        Append a constant to every row.
    scaling : "row", None, float or sequence of float, default="row"
        How rows get into the unit ball, as in ``ErasableClassifier``.
    grid_bits : int, default=15
        Rows are rounded to multiples of ``2**-grid_bits`` for the decision; the core rows stay as they came.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.coresets import LeverageThreshold
    >>> X = np.array([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [-1.0, 0.0]])
    >>> y, ids = np.array([0, 0, 1, 1]), [10, 11, 12, 13]
    >>> core_set = LeverageThreshold(0.6, fit_intercept=False)
    >>> core_set.select(X, y, ids)
    array([0, 2])
    >>> core_set.select(X[[2]], y[[2]], ids[2:3])  # C(C(S) - U) = C(S) - U
    array([0])
    """

    threshold: float
    capacity: float = 1.0
    _: KW_ONLY
    fit_intercept: bool = True
    scaling: Any = "row"
    grid_bits: int = 15

    def __post_init__(self) -> None:
        grid = self._grid(None)
        plain = {
            "threshold": number_not_negative(self.threshold, "threshold"),
            "capacity": positive_number(self.capacity, "capacity"),
            "fit_intercept": grid.intercept,
            "scaling": grid.scaling,
            "grid_bits": grid.bits,
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        known = isinstance(grid.scaling, tuple)  # how many features there are
        selecting_units(self.capacity, self.threshold, grid, longest=None if known else float(grid.radius**2))

    @property
    def stable(self) -> bool:
        """True: Theorem 4.2."""
        return True

    def select(self, X: Any, y: Array, keys: Sequence[Key]) -> Positions:
        """Positions of the core rows, ascending.

        Raises
        ------
        InputError
            When ``scaling`` leaves rows outside the unit ball.
        """
        grid = self._grid(X.shape[1])
        rows, units = RawRows(X, grid), selecting_units(self.capacity, self.threshold, grid)
        rows.check_ball()
        return select(rows, empty_gram(grid, units), 0, grid=grid, units=units, tau=self.threshold).index

    def describe(self) -> dict[str, Any]:
        """The configuration; floats in hexadecimal."""
        return {
            "map": "leverage-threshold",
            "threshold": self.threshold.hex(),
            "capacity": self.capacity.hex(),
            "fit_intercept": self.fit_intercept,
            "scaling": described_scaling(self.scaling),
            "grid_bits": self.grid_bits,
        }

    def _grid(self, n_features: int | None) -> Grid:
        return grid_of(n_features, fit_intercept=self.fit_intercept, scaling=self.scaling, grid_bits=self.grid_bits)
