"""Leverages of sparse rows through an explicit inverse of ``H``, with a bound on their errors.

A row with k entries meets k^2 entries of ``H^-1``; a triangular solve would meet d^2 of ``L``. Columns that many rows
hold, the intercept's constant among them, are multiplied as a dense matrix, which is that much faster an entry; of a
row few entries are left.

``H = LL'`` up to the factor's error, ``M`` inverts ``L`` from the left, ``A = M'M``. The rounding of the last product,
and of all that is multiplied by ``A``, is bounded through the *reach* of a row, ``sum_j |g_j| sqrt(A_jj)``, because
``|A_jk| <= sqrt(A_jj A_kk)``; see docs/exactness.md. Bounds hold for any order of summation.

Pure.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from erasable.core.arrays import Booleans, Float64s
from erasable.core.grid import Grid
from erasable.core.leverage import U64, factor
from erasable.core.solve import alone
from erasable.core.sparse import added_up, rows_of, stacked

Columns = npt.NDArray[np.intp]
_OFTEN = 1 / 24  # of the rows: a column that more of them hold is cheaper as a dense one
_SOLVED_AT_ONCE = 96  # columns of a triangle that is inverted without being split


def frequent_columns(rows: sp.csr_array, grid: Grid) -> Columns:
    """Columns that many of these rows hold, the constant's included."""
    held = np.bincount(rows.indices, minlength=grid.n_columns)
    held[grid.n_features :] = rows.shape[0] + 1
    return np.flatnonzero(held > _OFTEN * rows.shape[0])


@dataclass(frozen=True)
class SplitRows:
    """Sparse grid rows in two parts: the frequent columns dense, shape (n, len(frequent)), the rest listed."""

    frequent: Columns
    dense: Float64s
    rest: sp.csr_array  # of shape (n, n_columns), float64

    def __len__(self) -> int:
        return len(self.dense)

    def __getitem__(self, some: Columns) -> SplitRows:
        return SplitRows(self.frequent, self.dense[some], self.rest[some])

    def joined(self, others: SplitRows) -> SplitRows:
        """These rows and then others, split alike."""
        dense = np.concatenate([self.dense, others.dense])
        return SplitRows(self.frequent, dense, stacked([self.rest, others.rest]))

    def times(self, B: Float64s) -> Float64s:
        """The product with a matrix of shape (n_columns, k), C order."""
        out: Float64s = self.dense @ B[self.frequent]
        if self.rest.nnz:
            out += self.rest @ B
        return out


def split(rows: sp.csr_array, grid: Grid, frequent: Columns | None = None) -> SplitRows:
    """Sparse grid rows in two parts; by default those columns are dense that many of these rows hold."""
    n, d = rows.shape[0], grid.n_columns
    frequent = frequent_columns(rows, grid) if frequent is None else frequent
    position = np.full(d, -1, dtype=np.intp)
    position[frequent] = np.arange(len(frequent))
    at = position[rows.indices]
    often = at >= 0
    dense = np.zeros((n, len(frequent)))
    dense[rows_of(rows)[often], at[often]] = rows.data[often]
    if grid.intercept:
        dense[:, -1] = grid.constant
    seldom = ~often
    indptr = np.concatenate([[0], np.cumsum(seldom)])[rows.indptr]
    listed = (rows.data[seldom].astype(np.float64), rows.indices[seldom], indptr)
    return SplitRows(frequent, dense, sp.csr_array(listed, shape=(n, d)))


@dataclass(frozen=True)
class Inverse:
    """``A``, close to ``H^-1``, with what is needed to bound its errors.

    ``error`` bounds ``|x'(M'M - H^-1)x| / x'H^-1x`` for every x.
    """

    A: Float64s  # symmetric, C order
    roots: Float64s  # square roots of the diagonal
    error: float

    def reach(self, rows: SplitRows) -> Float64s:
        """``sum_j |g_j| sqrt(A_jj)`` for each row."""
        listed = added_up(np.abs(rows.rest.data) * self.roots[rows.rest.indices], rows_of(rows.rest), len(rows))
        return np.asarray(np.abs(rows.dense) @ self.roots[rows.frequent] + listed)

    def rounding(self, squared_reach: Float64s | float) -> Float64s | float:
        """Bound on what the roundings of ``A = M'M`` and of ``g'Ah`` sum up to, for rows g and h of such reach."""
        return 2.0 * (3 * len(self.A) + 16) * U64 * squared_reach

    def leverages(self, rows: SplitRows) -> Float64s:
        """``g'Ag`` for each row."""
        of_frequent = self.A[:, rows.frequent]
        halfway = rows.dense @ of_frequent[rows.frequent]
        if rows.rest.nnz:
            halfway += 2.0 * (rows.rest @ of_frequent)
        return np.asarray(np.einsum("ij,ij->i", halfway, rows.dense) + self._of_rest(rows.rest))

    def _of_rest(self, rest: sp.csr_array) -> Float64s:
        """``r'Ar`` for the listed parts r of rows, pair by pair."""
        flat, d = self.A.reshape(-1), np.int64(len(self.A))
        column, value = rest.indices.astype(np.int64), rest.data
        total = value * value * flat[column * (d + 1)]
        last = np.repeat(rest.indptr[1:], np.diff(rest.indptr))
        left, step = np.arange(rest.nnz), 1
        while len(left := left[left + step < last[left]]):
            right = left + step
            total[left] += 2.0 * value[left] * value[right] * flat[column[left] * d + column[right]]
            step += 1
        return added_up(total, rows_of(rest), rest.shape[0])

    def products(self, rows: SplitRows) -> Float64s:
        """``A g`` for each row, as columns: shape (n_columns, n), C order."""
        return np.ascontiguousarray(rows.times(self.A).T)


def invert(H: Float64s, units: int) -> Inverse | None:
    """The inverse of ``H`` (lower triangle, Fortran order); None where float64 is too coarse to bound its errors.

    *Cost*: d^3 flops, three d x d arrays.
    """
    with alone(H):
        f = factor(H, units)
        if f is None:
            return None
        d = len(H)
        M = np.zeros_like(H)
        _invert_triangle(f.L, M, 0, d)
        size_M = math.sqrt(float(np.einsum("ij,ij->", M, M)))
        residual = 2.0 * (d + 8) * U64 * size_M * math.sqrt(f.spread * units)
        error = f.error + 2.0 * residual
        if not error < 0.1:
            return None
        lower, _ = lapack.dlauum(M, lower=1, overwrite_c=1)
    A = _mirrored(lower)
    return Inverse(A, np.sqrt(A.diagonal()), error)


def _invert_triangle(L: Float64s, M: Float64s, low: int, high: int) -> None:
    """Write the inverse of a diagonal block of ``L`` into ``M``, with ``|ML - I| <= gamma |M||L|``.

    LAPACK's own inverse does not say on which side its residual is small, and on the wrong one it counts for more.
    """
    if high - low <= _SOLVED_AT_ONCE:
        block = np.asfortranarray(L[low:high, low:high])
        M[low:high, low:high] = blas.dtrsm(1.0, block, np.eye(high - low, order="F"), side=1, lower=1, overwrite_b=1)
        return
    middle = (low + high) // 2
    _invert_triangle(L, M, low, middle)
    _invert_triangle(L, M, middle, high)
    corner = np.asfortranarray(M[middle:high, middle:high] @ L[middle:high, low:middle])
    block = np.asfortranarray(L[low:middle, low:middle])
    M[middle:high, low:middle] = blas.dtrsm(-1.0, block, corner, side=1, lower=1, overwrite_b=1)


def _mirrored(lower: Float64s) -> Float64s:
    """A symmetric matrix, C order, from its lower triangle in Fortran order."""
    whole, step = lower.T, 128  # its upper triangle, in C order
    for low in range(0, len(whole), step):
        high = low + step
        whole[high:, low:high] = whole[low:high, high:].T
        corner = np.triu(whole[low:high, low:high])
        whole[low:high, low:high] = corner + np.triu(corner, 1).T
    return whole


def sparse_gram_error(inverse: Inverse, squared_reach: float, trace: float, size: int) -> float:
    """``eta`` as in :func:`erasable.core.leverage.gram_error`, for ``I + K`` with ``K = G A G'``.

    ``squared_reach`` is the sum of the squares of the reach of at most ``size`` rows G.
    """
    pivots = 2.0 * (size + 4) * U64 * (size + trace)
    return 1.01 * (inverse.error + float(inverse.rounding(squared_reach)) + pivots)


def may_exceed(G: sp.csr_array, inverse: Inverse, grid: Grid, tau: float) -> Booleans:
    """Which sparse grid rows may have a leverage above ``tau``.

    *Law*: the others are at or below it against the ``H`` that was inverted, and against any that it is a part of.
    """
    rows = split(G, grid)
    most = inverse.leverages(rows) + inverse.rounding(inverse.reach(rows) ** 2)
    return np.asarray(~(most <= tau * (1.0 - 2.0 * inverse.error)))
