"""Linear functions in a ball: the class for which the general algorithms are Algorithm 1 again.

``F = { x -> 1/2 + u'x : |u| <= B }``. Two of its functions differ by ``v'x`` with ``|v| <= 2B``. The ratio in D² grows
with the length of v, so the supremum is taken at ``|v| = 2B``, where the 1 in the denominator is ``|v|² / (4B²)``::

    D²(x; Q) = sup over v of (v'x)² / v'(sum qq' + I / (4B²)) v = x'(sum qq' + lambda I)^-1 x,   lambda = 1 / (4B²)

That is the leverage of Algorithm 1, on the same grid and decided by the same exact comparison. Pure functions of
``core`` do all of the arithmetic.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float32s, Float64s, Integers, Positions
from erasable.core.deciding import Factor, exceeds, factor, gram_error, whiten
from erasable.core.grid import Grid, described_scaling, scale_rows, to_grid
from erasable.core.selector import GridRows, RawRows, grid_of, select
from erasable.core.sums import (
    LARGEST_EXACT,
    add_rows,
    empty_gram,
    guard_exactness,
    regulariser,
    solve_exactly,
    solve_weights,
    symmetric,
)
from erasable.core.threads import few_threads
from erasable.validation import number_between


@dataclass(frozen=True)
class LinearBall:
    """Linear functions ``1/2 + u'x`` with ``|u| <= radius``, on rows in the unit ball; decided exactly.

    Selecting with a threshold tau keeps exactly the rows that ``ErasableClassifier(capacity=1 / (4 * radius**2),
    threshold=tau)`` keeps. With ``radius=0.5`` all values are probabilities, as the paper assumes of a class.

    Parameters
    ----------
    radius : float, default=1.0
        B, the length that u may have.
    fit_intercept : bool, default=False
        Append a constant to every row.
    scaling : "row", None, float or sequence of float, default="row"
        How rows get into the unit ball; as in ``ErasableClassifier``. Configuration, never fitted on rows.
    grid_bits : int, default=15
        Rows are rounded to multiples of ``2**-grid_bits``.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.classes import LinearBall
    >>> ball = LinearBall(radius=0.5, scaling=None)
    >>> rows = ball.encode(np.array([[0.5, 0.0], [0.0, 0.5]]))
    >>> measure = ball.start(2)
    >>> measure.squared(rows)
    array([0.25, 0.25])
    >>> measure.add(rows[:1])
    >>> measure.exceeds(rows, 0.2)
    array([False,  True])
    """

    radius: float = 1.0
    fit_intercept: bool = False
    scaling: Any = "row"
    grid_bits: int = 15
    exact = True
    assumptions = ()

    def __init__(
        self, radius: float = 1.0, *, fit_intercept: bool = False, scaling: Any = "row", grid_bits: int = 15
    ) -> None:
        grid = grid_of(None, fit_intercept=fit_intercept, scaling=scaling, grid_bits=grid_bits)
        # The regulariser 1 / (4 radius²) has to be a number of squared grid steps that sums of rows can hold.
        least, most = (math.sqrt(4.0**grid.bits / (4.0 * steps)) for steps in (LARGEST_EXACT // 2, 1))
        object.__setattr__(self, "radius", number_between(radius, "radius", least, most, closed="both"))
        object.__setattr__(self, "fit_intercept", grid.intercept)
        object.__setattr__(self, "scaling", grid.scaling)
        object.__setattr__(self, "grid_bits", grid.bits)
        regulariser(self.capacity, grid)  # at the very edge it may be refused

    @property
    def capacity(self) -> float:
        """The regulariser ``1 / (4 radius²)``: the capacity of an ``ErasableClassifier`` that selects the same rows."""
        return 1.0 / (4.0 * self.radius * self.radius)

    def grid(self, n_features: int) -> Grid:
        """How rows of so many features become integers."""
        return Grid(n_features, self.grid_bits, self.fit_intercept, self.scaling)

    def _grid_of(self, rows: Array) -> Grid:
        return self.grid(rows.shape[1] - int(self.fit_intercept))

    def empty(self, n_features: int) -> Array:
        """Grid rows, none of them."""
        grid = self.grid(n_features)
        return np.empty((0, grid.n_columns), dtype=grid.dtype)

    def encode(self, X: Array) -> Array:
        """Rows as grid integers, the constant appended where there is an intercept."""
        grid = self.grid(X.shape[1])
        RawRows(X, grid).check_ball()
        return np.asarray(to_grid(X, grid))

    def embed(self, X: Array) -> Float64s:
        """Rows in grid units before rounding, as float64; a linear function is defined outside the ball too."""
        grid = self.grid(X.shape[1])
        Z = np.full((len(X), grid.n_columns), float(grid.constant))
        np.multiply(scale_rows(X, grid), math.ldexp(grid.stretch, grid.bits), out=Z[:, : grid.n_features])
        return Z

    def holds(self, rows: Array) -> Booleans:
        """Whether each is a row of the grid: inside the ball, the constant in its place."""
        grid = self._grid_of(rows)
        if rows.dtype != grid.dtype:
            return np.zeros(len(rows), dtype=bool)
        inside = np.einsum("ij,ij->i", rows, rows, dtype=np.int64) <= grid.radius**2
        return np.asarray(inside & (rows[:, grid.n_features :] == grid.constant).all(axis=1))

    def start(self, n_features: int) -> LinearMeasure:
        """Leverage against no rows."""
        grid = self.grid(n_features)
        return LinearMeasure(grid, regulariser(self.capacity, grid))

    def fit(self, rows: Array, y01: Integers) -> LinearFit:
        """``f(x) = 1/2 + w'x / 2`` with w the ridge solution ``A^-1 b`` of Algorithm 1 for labels ``2 y - 1``.

        Departure: Algorithm 2, line 4 minimises over the ball. Here the ball's constraint is a penalty: u = w / 2
        minimises ``sum (y - 1/2 - u'x)² + lambda |u|²``, with the lambda of the measure. For some multiplier in place
        of lambda that is the solution of the constrained problem; with lambda itself, ``sign(f(x) - 1/2)`` is
        ``sign(w'x)``, the prediction of Algorithm 1. w is correctly rounded to float32.
        """
        grid = self._grid_of(rows)
        units = regulariser(self.capacity, grid)
        guard_exactness(len(rows), grid, units)
        H = empty_gram(grid, units)
        add_rows(H, rows)
        signs = 2 * np.asarray(y01, dtype=np.int64) - 1
        b = np.einsum("i,ij->j", signs, rows, dtype=np.int64).astype(np.float64)
        return LinearFit(solve_weights(H, b[:, None], grid.bits, units)[0], grid.bits)

    def widest(self, n_features: int) -> float:
        """The leverage of the longest row against nothing: about ``4 radius²``."""
        grid = self.grid(n_features)
        return grid.longest / regulariser(self.capacity, grid)

    def dimension(self, rows: Array) -> float:
        """``log det(I + 4B² sum xx')``, which is at most ``d log(1 + 4B² T / d)``.

        The t-th term of D(F, S) is ``x'A_t^-1 x`` with x in ``A_t``, which equals ``1 - det A_{t-1} / det A_t`` and so
        is at most ``log(det A_t / det A_{t-1})``. These telescope to ``log det(A_T / lambda)``, in which the order of
        the rows plays no part; the second bound is the inequality of arithmetic and geometric means for the
        eigenvalues, with rows of norm at most one. Section 5 states the order, O(d log T).
        """
        grid = self._grid_of(rows)
        Z = np.ldexp(rows.astype(np.float64), -grid.bits) * (2.0 * self.radius)
        small = Z @ Z.T if len(Z) < grid.n_columns else Z.T @ Z
        return float(np.log1p(np.maximum(np.linalg.eigvalsh(small), 0.0)).sum())

    def rate(self, n_rows: int, delta: float, n_features: int) -> float:
        """``1 + (1 + sqrt(d log(1 + 4B² T / d) + 2 log(T / delta)))² / 4``.

        Suppose ``P(label = +1 | x) = 1/2 + u*'x`` with ``|u*| <= B``. The noise of the targets has range 1, so it is
        sub-Gaussian with constant 1/2 (Hoeffding). The self-normalised bound for ridge regression (Abbasi-Yadkori, Pal
        and Szepesvari 2011, theorem 2) at confidence ``delta / T`` gives ``|u - u*|_A <= 1/2 sqrt(log det(A / lambda) +
        2 log(T / delta)) + sqrt(lambda) B``; the last term is 1/2, and the sum of squares is at most ``|u - u*|_A²``.
        """
        d = n_features + int(self.fit_intercept)
        spread = d * math.log1p(4.0 * self.radius**2 * n_rows / d)
        return 1.0 + 0.25 * (1.0 + math.sqrt(spread + 2.0 * math.log(n_rows / delta))) ** 2

    def stability(self, n_rows: int) -> float:
        """``(1 + B sqrt(n))² / (2 sqrt(lambda (1 + lambda)))``: true for all data, and it does not fall with n.

        Removing row i moves the fit by ``A^-1 x_i r``, r being the residual at i without it, so a prediction by at
        most ``|r| sqrt(x'A^-1x x_i'A^-1x_i) <= |r| / sqrt(lambda (1 + lambda))`` (Lemma D.5). Targets less 1/2 have
        size 1/2, hence ``|u| <= sqrt(n) / (4 sqrt(lambda)) = B sqrt(n) / 2``, and r and both errors of the loss are at
        most ``(1 + B sqrt(n)) / 2``. With lambda fixed nothing better than a constant is possible: a row orthogonal to
        all others moves its own prediction by as much for any n. ``beta(n)`` of order 1 / n, which the paper calls
        typical, needs lambda of order n: a regulariser per row.
        """
        ridge = self.capacity
        return (1.0 + self.radius * math.sqrt(n_rows)) ** 2 / (2.0 * math.sqrt(ridge * (1.0 + ridge)))

    def describe(self) -> dict[str, Any]:
        """The four parameters."""
        return {
            "class": "linear-ball",
            "radius": self.radius.hex(),
            "fit_intercept": self.fit_intercept,
            "scaling": described_scaling(self.scaling),
            "grid_bits": self.grid_bits,
        }


class LinearMeasure:
    """Leverage ``g'H^-1g`` of grid rows, ``H`` being ``units * I`` plus the sum of ``g g'`` over the rows added."""

    def __init__(self, grid: Grid, units: int) -> None:
        self.grid, self.units, self.n_rows = grid, units, 0
        self.H = empty_gram(grid, units)
        self._factor: Factor | None = None
        self._factored = False  # whether _factor is that of H as it is

    def _whitened(self, rows: Array) -> tuple[Factor, Float64s] | None:
        """A factor and the rounded leverages; None where float64 is too coarse to bound their errors."""
        if not self._factored:
            self._factor, self._factored = factor(self.H, self.units), True
        if self._factor is None:
            return None
        with few_threads(float(len(rows)) * len(self.H) ** 2):
            Y = whiten(self._factor, rows.astype(np.float64, order="C"))
        return self._factor, np.einsum("ij,ij->j", Y, Y)

    def squared(self, rows: Array) -> Float64s:
        """Leverages, rounded."""
        found = self._whitened(rows)
        if found is not None:
            return found[1]
        H = symmetric(self.H)
        solved = (zip(g.tolist(), solve_exactly(H, g), strict=True) for g in rows.astype(np.int64))
        totals = (sum((a * z for a, z in pairs), start=0) for pairs in solved)
        return np.array([t if isinstance(t, int) else int(t.p) / int(t.q) for t in totals], dtype=np.float64)

    def exceeds(self, rows: Array, tau: float) -> Booleans:
        """Whether each leverage is above ``tau``, decided exactly.

        Notes
        -----
        *Law*: the answer is that of ``g'H^-1g > tau`` in exact arithmetic.
        *Cost*: d^2 flops a row, and one exact decision for a row that float64 cannot tell from the threshold.
        *Source*: Algorithm 1, line 4.
        """
        if tau == 0.0:  # H is positive definite
            return np.asarray(rows.any(axis=1))
        found = self._whitened(rows) if len(rows) else None
        eta = math.inf if found is None else gram_error(found[0], float(found[1].max()), 1)  # relative, of each pivot
        if found is None or eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            return np.array([exceeds(g, self.H, self.units, tau)[0] for g in rows], dtype=bool)
        pivots = 1.0 + found[1]
        above = pivots > (1.0 + tau) * (1.0 + 2.0 * eta)
        for i in np.flatnonzero(~above & ~(pivots <= (1.0 + tau) * (1.0 - 2.0 * eta))):
            above[i] = exceeds(rows[i], self.H, self.units, tau)[0]
        return above

    def add(self, rows: Array) -> None:
        """These rows join the sum."""
        guard_exactness(self.n_rows + len(rows), self.grid, self.units)
        add_rows(self.H, rows)
        self.n_rows += len(rows)
        self._factor, self._factored = None, False

    def select(self, rows: Array, tau: float) -> Positions:
        """Positions that one pass over the rows selects; the selected rows join the sum."""
        H = self.H.copy(order="F")  # a refused selection leaves the measure as it was
        selection = select(GridRows(rows, self.grid), H, self.n_rows, grid=self.grid, units=self.units, tau=tau)
        self.H, self.n_rows = H, self.n_rows + len(selection.index)
        self._factor, self._factored = None, False
        return selection.index


@dataclass(frozen=True, eq=False, repr=False)
class LinearFit:
    """``1/2 + w'x / 2`` for rows x in grid units."""

    w: Float32s
    bits: int

    def __call__(self, rows: Array) -> Float64s:
        """The value for each row."""
        scores: Float64s = rows.astype(np.float64) @ self.w.astype(np.float64)
        return 0.5 + np.ldexp(scores, -self.bits - 1)

    def erase(self) -> None:
        """Overwrite the weights."""
        self.w.fill(0.0)
