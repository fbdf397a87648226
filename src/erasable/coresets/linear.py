"""Algorithm 1's selection as a core-set map: rows whose direction the rows kept so far say little about."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Grid
from erasable.core.layout import Key
from erasable.core.selector import RawRows, select
from erasable.core.sums import empty_gram, regulariser
from erasable.coresets._protocol import check_number
from erasable.errors import ConfigurationError


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
        threshold = check_number(self.threshold, "threshold", above=-np.inf) + 0.0  # minus zero is zero
        if threshold < 0.0:
            raise ConfigurationError(f"threshold must not be negative; got {self.threshold!r}.")
        if not isinstance(self.fit_intercept, bool | np.bool_):
            raise ConfigurationError(f"fit_intercept must be True or False; got {self.fit_intercept!r}.")
        if isinstance(self.grid_bits, bool) or not isinstance(self.grid_bits, numbers.Integral):
            raise ConfigurationError(f"grid_bits must be an integer; got {self.grid_bits!r}.")
        scaling = _plain_scaling(self.scaling)
        plain = {
            "threshold": threshold,
            "capacity": check_number(self.capacity, "capacity", above=0.0),
            "fit_intercept": bool(self.fit_intercept),
            "scaling": scaling,
            "grid_bits": int(self.grid_bits),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        grid = self._grid(len(scaling) if isinstance(scaling, tuple) else 1)  # refuses what does not fit together
        if regulariser(self.capacity, grid) * threshold >= grid.longest:
            raise ConfigurationError(
                f"nothing could ever be selected: no row's leverage exceeds 1 / capacity = "
                f"{1 / self.capacity:.6g}, and the threshold is {threshold:.6g}. Lower the threshold or the capacity."
            )

    @property
    def stable(self) -> bool:
        """True: Theorem 4.2."""
        return True

    def select(self, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> npt.NDArray[np.intp]:
        """Positions of the core rows, ascending.

        Raises
        ------
        InputError
            When ``scaling`` leaves rows outside the unit ball.
        """
        grid = self._grid(X.shape[1])
        rows, units = RawRows(X, grid), regulariser(self.capacity, grid)
        rows.check_ball()
        return select(rows, empty_gram(grid, units), 0, grid=grid, units=units, tau=self.threshold).index

    def describe(self) -> dict[str, Any]:
        """The configuration; floats in hexadecimal."""
        scaling = self.scaling
        if isinstance(scaling, tuple):
            scaling = [s.hex() for s in scaling]
        return {
            "map": "LeverageThreshold",
            "threshold": self.threshold.hex(),
            "capacity": self.capacity.hex(),
            "fit_intercept": self.fit_intercept,
            "scaling": scaling.hex() if isinstance(scaling, float) else scaling,
            "grid_bits": self.grid_bits,
        }

    def _grid(self, n_features: int) -> Grid:
        return Grid(n_features, self.grid_bits, self.fit_intercept, self.scaling)


def _plain_scaling(scaling: Any) -> str | float | tuple[float, ...] | None:
    """A scaling that can be hashed and written down; whether it makes sense is the grid's to say."""
    if scaling is None or isinstance(scaling, str):
        return scaling
    if isinstance(scaling, numbers.Real):
        return check_number(scaling, "scaling", above=0.0)
    try:
        scales = np.empty((0, 0)) if np.iscomplexobj(scaling) else np.asarray(scaling, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        scales = np.empty((0, 0))
    if scales.ndim != 1:
        raise ConfigurationError("scaling must be 'row', None, a positive number or one positive number per feature.")
    return tuple(scales.tolist())
