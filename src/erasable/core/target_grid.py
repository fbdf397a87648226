"""Targets of a regression as integers: a declared range of numbers on the same grid as the rows.

A target ``y`` of the range ``low`` to ``high`` becomes ``t = rint((y - centre) / half * radius)``, with ``centre`` and
``half`` the middle and half the width of the range, and ``radius = 2**bits - 1`` the largest norm of a row. So a sum of
``t g`` is bounded by the sum of ``|g|^2`` in the worst case, and is exact wherever the Gram matrix is: the guards of
:mod:`erasable.core.sums` hold for both.

Changes nothing it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Float64s, Integers, Matrix
from erasable.core.grid import Grid
from erasable.core.sums import combined
from erasable.errors import ConfigurationError

Range = tuple[float, float]
LARGEST = 1e300  # of the ends of a range: predictions beyond them stay finite


def check_range(ends: Range) -> None:
    """Raise ConfigurationError unless these are two finite numbers, the lower first, with room between them."""
    low, high = ends
    if not (math.isfinite(low) and math.isfinite(high) and max(abs(low), abs(high)) <= LARGEST):
        raise ConfigurationError(f"a target range must have finite ends, no larger than {LARGEST:g}.")
    if not low < high or not _half(ends) > 0.0:
        raise ConfigurationError("a target range must have its lower end first, and some room up to the other.")


def _half(ends: Range) -> float:
    return ends[1] / 2.0 - ends[0] / 2.0


def centre_of(ends: Range) -> float:
    """The middle of a range."""
    return ends[0] / 2.0 + ends[1] / 2.0


def span_of(ends: Range, grid: Grid) -> float:
    """What ``w'x`` is multiplied by to be a distance from the centre: weights are those of targets ``t * 2**-bits``."""
    return math.ldexp(_half(ends) / grid.radius, grid.bits)


def outside(y: Float64s, ranges: Sequence[Range]) -> int:
    """How many of the targets, shape (n, n_targets), are outside of their range, or no numbers."""
    low, high = np.array(ranges).T
    return int(np.count_nonzero(~((y >= low) & (y <= high))))


def on_grid(y: Float64s, ranges: Sequence[Range], grid: Grid) -> Integers:
    """Targets within their ranges, shape (n, n_targets), as integers of at most ``grid.radius`` in size.

    *Law*: a function of each number alone, by operations that IEEE 754 rounds alike everywhere.
    """
    centre, half = np.array([centre_of(r) for r in ranges]), np.array([_half(r) for r in ranges])
    steps = np.rint((y - centre) / half * grid.radius)
    # A narrow range may have no middle of its own.
    found: Integers = np.clip(steps, -grid.radius, grid.radius).astype(grid.dtype)
    return found


def off_grid(t: int, ends: Range, grid: Grid) -> float:
    """The number that a target on the grid stands for."""
    return centre_of(ends) + t / grid.radius * _half(ends)


def sums_by_target(rows: Matrix, targets: Sequence[Sequence[int]], grid: Grid) -> dict[int, Float64s]:
    """For each target the sum of ``t g`` over the grid rows, dense or sparse; exact, as float64 of shape (d,)."""
    n = rows.shape[0]
    if not n:
        return {}
    T = np.array(targets, dtype=np.float64).reshape(n, -1)
    if isinstance(rows, np.ndarray):
        return dict(enumerate(combined(rows, T)))
    features = (sp.csr_array(rows, dtype=np.float64).T @ T).T
    constant = np.full((T.shape[1], grid.n_columns - grid.n_features), float(grid.constant))
    sums = np.hstack([features, constant * T.sum(axis=0)[:, None]])
    return {k: total + 0.0 for k, total in enumerate(sums)}  # no negative zeros, and each in memory of its own
