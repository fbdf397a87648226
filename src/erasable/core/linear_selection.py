"""What Algorithm 1's selection is configured by, from parameters as callers give them: one reading of them for all.

``ErasableClassifier``, ``LeverageThreshold`` and ``LinearBall`` select alike because each asks here. Pure.
"""

from __future__ import annotations

from typing import Any

from erasable.core.grid import MAX_BITS, MIN_BITS, Grid
from erasable.core.scaling import plain_scaling
from erasable.core.sums import regulariser
from erasable.errors import ConfigurationError
from erasable.validation import positive_number, switch, whole_number


def grid_of(n_features: int | None, *, fit_intercept: Any, scaling: Any, grid_bits: Any) -> Grid:
    """How rows become integers under these parameters.

    Parameters
    ----------
    n_features : int or None
        None before the first row: as many as there are scales, or one.

    Raises
    ------
    ConfigurationError
    """
    scales = plain_scaling(scaling)
    if n_features is None:
        n_features = max(1, len(scales)) if isinstance(scales, tuple) else 1
    bits = whole_number(grid_bits, "grid_bits", MIN_BITS, MAX_BITS)
    return Grid(n_features, bits, switch(fit_intercept, "fit_intercept"), scales)


def selecting_units(
    capacity: Any,
    tau: float,
    grid: Grid,
    *,
    longest: float | None = None,
    threshold: str = "the threshold",
    advice: str = "Lower the threshold or the capacity.",
) -> int:
    """``capacity`` in squared grid steps, once it is known that some row's leverage can be above ``tau``.

    Parameters
    ----------
    longest : float, optional
        No row has a larger squared norm; by default that of the grid. Before the number of features is known, a bound
        for all of them.
    threshold, advice : str
        How a refusal names the threshold, and what it says to do.

    Raises
    ------
    ConfigurationError
    """
    K = positive_number(capacity, "capacity")
    units = regulariser(K, grid)
    if units * tau >= (grid.longest if longest is None else longest):
        raise ConfigurationError(
            f"nothing could ever be selected: no row's leverage exceeds 1 / capacity = {1 / K:.6g} (a little less on "
            f"the grid), and {threshold} is {tau:.6g}. {advice}"
        )
    return units
