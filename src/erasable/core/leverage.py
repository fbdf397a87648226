"""Is ``g' H^-1 g`` above the threshold? Three levels, each certified, the last one exact.

1. *Screening* (float32): one triangular product over a big block; a row whose upper bound is at or below the
   threshold is out. Safe with a stale factor, because ``H`` only grows while learning and leverage only falls.
2. *Certified decision* (float64): Schur complements with an a-priori error bound, in :mod:`erasable.core.deciding`.
3. *Enclosure*, then *exact*: :func:`exceeds` narrows ``g'H^-1g`` with exact residuals and, for a true tie, solves in
   rationals.

Sparse rows take another way through the first two: :mod:`erasable.core.sparse_leverage`.

Bounds follow Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed.: theorems 8.5 (triangular systems), 10.3
(Cholesky) and section 3.5 (products); they hold for any order of summation. ``u`` is the unit roundoff. Every
first-order bound is taken twice (the float32 product 1.1 times, plus spare terms) to cover second-order terms; see
docs/exactness.md.

Overwrites the rows handed to :func:`whiten` and :func:`survivors`, and nothing else.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas, lapack

from erasable.core.arrays import Float64s, Integers
from erasable.core.grid import Grid
from erasable.core.solve import component, factorise, refine, solve_exactly
from erasable.core.sums import symmetric

U32, U64 = 2.0**-24, 2.0**-53


@dataclass(frozen=True)
class Factor:
    """A Cholesky factor of ``H`` with what is needed to bound its errors.

    ``spread`` is ``tr(H) / lambda``, an upper bound on the condition number of ``H``.
    """

    L: Float64s
    spread: float

    @property
    def error(self) -> float:
        """``|v'(LL' - H)v| <= error * v'Hv`` for every v (Higham, theorem 10.3)."""
        return 2.0 * (len(self.L) + 4) * U64 * self.spread


def factor(H: Float64s, units: int) -> Factor | None:
    """Factor ``H`` (lower triangle, Fortran order); None where float64 is too coarse for its errors to be bounded."""
    trace = float(np.trace(H))
    if trace == units * len(H):  # a Gram matrix of trace zero is zero
        root = np.zeros_like(H)
        np.fill_diagonal(root, math.sqrt(units))
        return Factor(root, float(len(H)))
    L = factorise(H)
    if L is None:
        return None
    made = Factor(L, trace / units)
    return made if made.error < 0.1 else None


def whiten(f: Factor, rows: Float64s) -> Float64s:
    """``L^-1 rows'``, shape (d, m), Fortran order: the squared norm of a column is that row's leverage.

    ``rows`` is float64 of shape (m, d), C order, and is overwritten.
    """
    Y: Float64s = blas.dtrsm(1.0, f.L, rows.T, lower=1, overwrite_b=1)
    return Y


def gram_error(f: Factor, trace: float, size: int) -> float:
    """``eta`` with ``|v'(computed - true)v| <= eta * v'(I + K)v`` for Cholesky factors of I + K through ``f``.

    ``K = G H^-1 G'`` for at most ``size`` rows G, ``trace`` the computed trace of K. The pivots of ``I + K`` are one
    plus the sequential leverages, and a pivot is a minimum of ``v'(I + K)v``, so eta is also their relative error.
    """
    d = len(f.L)
    solving = 2.0 * (d + 8) * U64 * math.sqrt(f.spread * max(trace, 1.0))
    products = 2.0 * (d + 4) * U64 * trace
    pivots = 2.0 * (size + 4) * U64 * (size + trace)
    return 1.01 * (f.error + solving + products + pivots)


@dataclass(frozen=True)
class Screen:
    """All a worker needs to discard rows: a float32 inverse factor and the largest squared norm to discard.

    ``M`` (d, d) acts on the features; ``tail`` and ``offset`` give the last whitened coordinate where there is an
    intercept.
    """

    M: npt.NDArray[np.float32]
    tail: npt.NDArray[np.float32] | None
    offset: float
    limit: float


def screen(f: Factor, grid: Grid, units: int, tau: float, *, on_grid: bool = False) -> Screen | None:
    """A certified float32 screen from a factor; None where float32 is too coarse to discard anything.

    Parameters
    ----------
    f : Factor
        Of ``H`` now or at any earlier moment of the same learning run.
    on_grid : bool
        Whether the rows to screen are already grid rows; otherwise the limit also covers putting them on the grid.

    Notes
    -----
    *Law*: a row that :func:`survivors` discards has ``g'H^-1g <= tau``.
    *Cost*: d^3 / 3 flops and two d x d arrays.
    """
    d = grid.n_features
    M, info = lapack.dtrtri(f.L, lower=1)  # zero above the diagonal, as L is
    if info != 0:
        return None
    norm_M = math.sqrt(float(np.einsum("ij,ij->", M, M)))
    # ``|M g|`` against ``|L^-1 g|``: residual of the inverse, in whichever side LAPACK leaves it small.
    inverse = 2.0 * (d + 5) * U64 * (norm_M * math.sqrt(f.spread * units)) ** 2 + f.error
    rounding = 2.0 * (d + 8) * U32  # of sums of squares and of the row's norm, relative
    product = 1.1 * (d + 8) * U32 * norm_M * (grid.radius + 1.0)  # of the float32 product, absolute
    moved = 0.0 if on_grid else grid.slack / math.sqrt(units)
    root = (math.sqrt(tau) * (1.0 - inverse) - moved - product) * (1.0 - rounding)
    if inverse >= 0.5 or root <= 0.0:
        return None
    np.ldexp(M, grid.bits, out=M)  # in units of one; a power of two does not round
    tail = M[d, :d].astype(np.float32) if grid.intercept else None
    offset = float(np.float32(M[d, d])) * math.ldexp(grid.constant, -grid.bits) if grid.intercept else 0.0
    return Screen(M[:d, :d].astype(np.float32, order="F"), tail, offset, root * root * (1.0 - 2.0**-40))


def survivors(X: npt.NDArray[np.float32], factors: Float64s, s: Screen) -> npt.NDArray[np.bool_]:
    """Rows that the screen cannot discard.

    Parameters
    ----------
    X : array of shape (n, n_features), float32, C order
        Rows up to a factor; overwritten.
    factors : array of shape (n,), float64
        ``factors[i] * X[i]`` is row i in units of one; NaN where the row must not be screened.

    Notes
    -----
    *Cost*: n d^2 flops in one float32 triangular product.
    """
    last = factors * blas.sgemv(1.0, X.T, s.tail, trans=1) + s.offset if s.tail is not None else 0.0
    Y = blas.strmm(1.0, s.M, X.T, lower=1, overwrite_b=1).T
    square: Float64s = factors * factors * np.einsum("ij,ij->i", Y, Y) + last * last
    return ~(square <= s.limit)


def exceeds(
    g: Integers, H: Float64s, units: int, tau: float | Fraction, *, or_equals: bool = False
) -> tuple[bool, bool]:
    """Whether ``g'H^-1g > tau`` (or ``>= tau``), decided exactly; and whether rational arithmetic was needed.

    Parameters
    ----------
    g : array of shape (d,), integers
    H : array of shape (d, d), float64 integers, lower triangle
    units : int
        A lower bound on the eigenvalues of H.

    Notes
    -----
    *Law*: for any z and rho = g - H z: ``g'H^-1g = g'z + z'rho + rho'H^-1rho`` and ``0 <= rho'H^-1rho <= |rho|^2 /
    units``.
    *Cost*: one Cholesky factor and a few O(d^2) steps; a true tie costs an exact solve over the coordinates linked
    to g.
    """
    above, below = tau.as_integer_ratio()  # tau = above / below
    if not g.any():
        return above < 0 or (or_equals and above == 0), False
    g_int = g.astype(np.int64)
    L = factorise(H)
    for r in refine(H, L, g_int[:, None]) if L is not None else ():
        z = r.Z[:, 0].tolist()
        rho = r.residual[:, 0].tolist()
        scale = 1 << r.exponent
        lower = scale * sum(a * b for a, b in zip(g_int.tolist(), z, strict=True)) + sum(
            a * b for a, b in zip(z, rho, strict=True)
        )  # over scale^2
        width = sum(a * a for a in rho)  # over scale^2 * units
        margin = lower * below - above * scale * scale
        if margin > 0 or (or_equals and margin == 0):
            return True, False
        margin = (lower * units + width) * below - above * scale * scale * units
        if margin < 0 or (margin == 0 and not or_equals):
            return False, False
    margin = _leverage_rationally(g_int, symmetric(H)) * below - above
    return bool(margin > 0 or (or_equals and margin == 0)), True


def _leverage_rationally(g: npt.NDArray[np.int64], H: npt.NDArray[np.int64]) -> Any:
    linked = component(H, np.flatnonzero(g))
    z = solve_exactly(H[np.ix_(linked, linked)], g[linked])
    return sum((int(a) * b for a, b in zip(g[linked], z, strict=True)), start=0 * z[0])
