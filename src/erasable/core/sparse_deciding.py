"""Decide sparse rows without making them dense: leverages through an explicit inverse of ``H``, with an error bound.

A row with k entries meets k^2 entries of ``H^-1``; a triangular solve would meet d^2 of ``L``. Columns that many rows
hold, the intercept's constant among them, are multiplied as a dense matrix, which is that much faster an entry; of a
row few entries are left.

``H = LL'`` up to the factor's error, ``M`` inverts ``L`` from the left, ``A = M'M``. The rounding of the last product,
and of all that is multiplied by ``A``, is bounded through the *reach* of a row, ``sum_j |g_j| sqrt(A_jj)``, because
``|A_jk| <= sqrt(A_jj A_kk)``. When rows join ``H``, ``A`` follows: the formula of Woodbury does not make its relative
error larger, so that only what is rounded on the way adds to it. See docs/exactness.md; bounds hold for any order of
summation.

The inverse follows ``H`` from chunk to chunk, and is made anew once its error could leave rows open; a row that it
leaves open is enclosed by the solution that it gives. Rows are screened against the last one made, and again while they
wait, once many of them turn out too low. Selected rows are added to the sums that :class:`SparseRun` is given.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from erasable.core.arrays import Booleans, Float64s, Integers, Positions, added_up, stacked
from erasable.core.deciding import U32, U64, Run, factor
from erasable.core.grid import Grid, dense_rows
from erasable.core.split_rows import SplitRows, frequent_columns, split
from erasable.core.sums import alone, factorise, guard_exactness

_SOLVED_AT_ONCE = 96  # columns of a triangle that is inverted without being split
_BLOCK = 40  # rows of a triangle that is inverted to divide by it
_BELOW = np.tri(128, k=-1, dtype=bool)
_LARGEST_ERROR = 0.1
_NEGLIGIBLE = 1e-6
_FAR_FROM_UNDERFLOW = 1e-12


@dataclass
class Inverse:
    """``A``, close to ``H^-1``, with what is needed to bound its errors.

    ``|x'(B - H^-1)x| <= error * x'H^-1x`` for every x and some B with ``|A - B|_jk <= entrywise * a_j a_k``, and
    ``(sum_j |x_j| a_j)^2 <= farthest * x'H^-1x``, where ``a_j = sqrt(A_jj)``.
    """

    A: Float64s  # symmetric, C order
    roots: Float64s  # square roots of the diagonal
    error: float
    entrywise: float
    farthest: float

    def reach(self, rows: SplitRows) -> Float64s:
        """``sum_j |g_j| sqrt(A_jj)`` for each row."""
        listed = added_up(np.abs(rows.rest.data) * self.roots.take(rows.rest.indices), rows.numbers, len(rows))
        return np.asarray(np.abs(rows.dense) @ self.roots[rows.frequent] + listed)

    def rounding(self, squared_reach: Float64s | float, entries: int = 0) -> Float64s | float:
        """Bound on ``|g'Ah - g'Bh|`` and the rounding of ``g'Ah`` together, for rows g and h of such reach.

        ``entries`` is the most that a row has where products are in float32: those with zero are not rounded.
        """
        coarse = 2.0 * (2 * entries + 8) * U32 if entries else 0.0
        return (self.entrywise + 2.0 * (2 * len(self.A) + 8) * U64 + coarse) * squared_reach

    def leverages(self, rows: SplitRows) -> Float64s:
        """``g'Ag`` for each row; products with frequent columns are in the precision of the rows."""
        of_frequent = np.ascontiguousarray(self.A[rows.frequent].astype(rows.dense.dtype).T)
        halfway = rows.dense @ of_frequent[rows.frequent]
        if rows.rest.nnz:
            halfway += 2.0 * (rows.rest @ of_frequent)
        return np.asarray(np.einsum("ij,ij->i", halfway, rows.dense) + self._of_rest(rows))

    def _of_rest(self, rows: SplitRows) -> Float64s:
        """``r'Ar`` for the listed parts r of rows, pair by pair."""
        rest, flat, d = rows.rest, self.A.reshape(-1), len(self.A)
        later = rest.indptr[1:].take(rows.numbers) - np.arange(1, rest.nnz + 1, dtype=rest.indptr.dtype)
        # Entries with most others after them in their row first; few bits are sorted faster.
        order = np.argsort(~later.astype(np.min_scalar_type(d)), kind="stable")
        column, value = rest.indices.astype(np.int64), rest.data
        start, mine = d * column.take(order), value.take(order)
        total, other = np.zeros(rest.nnz), order.copy()
        for count in np.cumsum(np.bincount(later)[:0:-1])[::-1].tolist():  # entries with one after them, with two, ...
            other = other[:count]
            other += 1
            at = column.take(other)
            at += start[:count]
            pairs = flat.take(at)
            pairs *= value.take(other)
            total[:count] += pairs
        total *= 2.0
        total += mine * self.A.diagonal().take(column.take(order))
        total *= mine
        return added_up(total, rows.numbers.take(order), rest.shape[0])

    def products(self, rows: SplitRows) -> Float64s:
        """``A g`` for each row, as rows: shape (n, n_columns), C order."""
        return rows.times(self.A)

    def follow(self, P: Float64s, C: Float64s, size: float, squared_reach: float, entries: int) -> bool:
        """Become the inverse of ``H + G'G``; whether that went well. If not, it is of no more use.

        Parameters
        ----------
        P : array of shape (k, n_columns), C order
            ``G A``, computed; overwritten.
        C : array of shape (k, k), Fortran order
            The lower Cholesky factor of ``I + G A G'``, computed.
        size : float
            The trace of ``I + G A G'``.
        squared_reach : float
            At least the sum of the squares of the reach of the rows G.
        entries : int
            The most entries that a row of G has.

        Notes
        -----
        *Law*: :class:`Inverse`'s, for ``H + G'G``. What is rounded adds to ``error``, relative to ``x'(H + G'G)^-1x``:
        an entrywise error ``c a_j a_k`` at most ``c * farthest``; docs/exactness.md has the steps one by one.
        *Cost*: k d^2 + k^2 d flops.
        """
        k, A = len(C), self.A
        of_blocks = _divide(C, P)
        blas.dsyrk(-1.0, P.T, beta=1.0, c=A.T, lower=1, overwrite_c=1)
        _mirror(A)
        self.farthest += squared_reach
        rounded = U64 * (
            2.0 * (k + 2) * self.farthest  # of A - V'V
            + 2.0 * entries * math.sqrt(squared_reach * self.farthest)  # of P
            + 2.0 * entries * squared_reach  # of I + GAG'
            + (k + 3) * size  # of C
            + 2.0 * ((k + 2) * math.sqrt(size) + 2.0 * of_blocks) * math.sqrt(self.farthest)  # of V
        )
        self.error += self.entrywise * self.farthest + 2.0 * rounded
        self.entrywise = 0.0
        diagonal = A.diagonal()
        if not (self.error < _LARGEST_ERROR and (diagonal > 0.0).all()):
            return False
        self.roots = np.sqrt(diagonal)
        return True


def invert(H: Float64s, units: int) -> Inverse | None:
    """The inverse of ``H`` (lower triangle, Fortran order); None where float64 is too coarse to bound its errors.

    *Cost*: d^3 flops, three d x d arrays.
    """
    d = len(H)
    if H.trace() == units * d:  # a Gram matrix of trace zero is zero
        A = np.zeros((d, d))
        np.fill_diagonal(A, 1.0 / units)
        return Inverse(A, np.sqrt(A.diagonal()), 2.0 * U64, 0.0, float(d))
    with alone(H):
        f = factor(H, units)
        if f is None:
            return None
        M = np.zeros_like(H)
        _invert_triangle(f.L, M, 0, d)
        size_M = math.sqrt(float(np.einsum("ij,ij->", M, M)))
        residual = 2.0 * (d + 8) * U64 * size_M * math.sqrt(f.spread * units)
        error = f.error + 2.0 * residual
        if not error < _LARGEST_ERROR:
            return None
        del f
        lower, _ = lapack.dlauum(M, lower=1, overwrite_c=1)
        A = lower.T  # its upper triangle, in C order
        _mirror(A)
        roots = np.sqrt(A.diagonal())
        farthest = float(roots @ blas.dsymv(1.0, np.abs(H), roots, lower=1))  # a'|H|a
    return Inverse(A, roots, error, 2.0 * (d + 8) * U64, farthest)


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


def _divide(C: Float64s, P: Float64s) -> float:
    """``P = C^-1 P`` in place, C lower triangular, P in C order; in blocks, for products are faster than solving.

    Returns the largest ``(l + 2) |D|^2 |D^-1|`` of a diagonal block D of l rows, in Frobenius norms: its inverse is
    made explicitly, with ``|D D^-1 - I| <= gamma_l |D||D^-1|``, so that it counts.
    """
    k = len(C)
    if k <= _BLOCK:
        D = np.asfortranarray(C)
        inverse = blas.dtrsm(1.0, D, np.eye(k, order="F"), lower=1, overwrite_b=1)
        blas.dtrmm(1.0, inverse, P.T, side=1, lower=1, trans_a=1, overwrite_b=1)
        return (k + 2) * float(np.vdot(D, D)) * math.sqrt(float(np.vdot(inverse, inverse)))
    half = k // 2
    above = _divide(C[:half, :half], P[:half])
    corner = np.asfortranarray(C[half:, :half])
    blas.dgemm(-1.0, P[:half].T, corner, trans_b=1, beta=1.0, c=P[half:].T, overwrite_c=1)
    return max(above, _divide(C[half:, half:], P[half:]))


def _mirror(A: Float64s) -> None:
    """Copy the upper triangle of ``A``, C order, to the lower one."""
    d, step = len(A), len(_BELOW)
    for low in range(0, d, step):
        high = min(d, low + step)
        A[high:, low:high] = A[low:high, high:].T
        corner = A[low:high, low:high]
        np.copyto(corner, corner.T, where=_BELOW[: high - low, : high - low])


def sparse_gram_error(inverse: Inverse, squared_reach: float, trace: float, size: int) -> float:
    """``eta`` as in :func:`erasable.core.deciding.gram_error`, for ``I + K`` with ``K = G A G'``.

    ``squared_reach`` is the sum of the squares of the reach of at most ``size`` rows G.
    """
    pivots = 2.0 * (size + 4) * U64 * (size + trace)
    return 1.01 * (inverse.error + float(inverse.rounding(squared_reach)) + pivots)


def enclosed_leverage(
    g: Float64s, z: Float64s, H: Float64s, E: sp.csr_array, grid: Grid, units: int
) -> tuple[float, float]:
    """Bounds on ``g'(H + E'E)^-1g`` from any z; the better z solves ``(H + E'E) z = g``, the narrower they are.

    Parameters
    ----------
    g, z : arrays of shape (n_columns,), float64
    H : array of shape (n_columns, n_columns), float64 integers, lower triangle, Fortran order
    E : sparse grid rows
    units : int
        A lower bound on the eigenvalues of H.

    Notes
    -----
    *Law*: with ``rho = g - (H + E'E) z`` the leverage is ``g'z + z'rho``, and between 0 and ``|rho|^2 / units`` more.
    With h the roots of the diagonal of ``H + E'E``, entries of ``|H| + |E|'|E|`` are at most ``h_j h_k``, so that
    rounding moves ``rho_j`` by ``unit (|g_j| + h_j s)`` at most, ``s = sum_j h_j |z_j|``; see docs/arithmetic.md.
    *Cost*: 2 d^2 flops.
    """
    n, values = grid.n_features, E.data.astype(np.float64)
    features = sp.csr_array((values, E.indices, E.indptr), shape=E.shape)
    of_rows = features @ z[:n] + grid.constant * z[n:].sum()
    rho = blas.dsymv(-1.0, H, z, beta=1.0, y=g, lower=1)
    rho[:n] -= features.T @ of_rows
    rho[n:] -= grid.constant * of_rows.sum()
    diagonal = H.diagonal().copy()
    diagonal[:n] += added_up(values * values, E.indices, n)
    diagonal[n:] += float(grid.constant**2 * E.shape[0])
    lengths, s = np.abs(z), float(np.sqrt(diagonal) @ np.abs(z))
    unit = 2.0 * (2 * len(g) + E.shape[0] + 8) * U64
    middle = float(g @ z + z @ rho)
    rounded = 2.0 * unit * (float(lengths @ np.abs(g) + lengths @ np.abs(rho)) + s * s)
    moved = unit * (math.sqrt(float(g @ g)) + math.sqrt(float(diagonal.sum())) * s)
    rest = 2.0 * (math.sqrt(float(rho @ rho)) + moved) ** 2 / units
    return middle - rounded, middle + rounded + rest


def may_exceed(G: sp.csr_array, inverse: Inverse, grid: Grid, tau: float) -> Booleans:
    """Which sparse grid rows may have a leverage above ``tau``.

    *Law*: the others are at or below it against the ``H`` that was inverted, and against any that it is a part of.
    """
    frequent, limit = frequent_columns(G, grid), tau * (1.0 - 2.0 * inverse.error)
    if len(frequent) > 1 and tau > _FAR_FROM_UNDERFLOW:
        rows = split(G, grid, frequent, np.float32)
        rounding = inverse.rounding(inverse.reach(rows) ** 2, rows.entries)
    else:
        rows = split(G, grid, frequent)
        # By Cauchy and Schwarz; mostly this is enough, and no row needs a bound of its own.
        rounding = inverse.rounding(rows.entries * (grid.radius * float(inverse.roots.max())) ** 2)
        if not rounding <= _NEGLIGIBLE * limit:
            rounding = inverse.rounding(inverse.reach(rows) ** 2)
    return np.asarray(~(inverse.leverages(rows) + rounding <= limit))


_SMALL_CHUNK = 160  # rows that are decided at once where the inverse follows
_OFTEN_IN_CHUNK = 1 / 7  # of the rows of a chunk: a column that more of them hold is cheaper as a dense one
_FOLLOWS = 4  # chunks that an inverse has to last: otherwise large chunks, and one for each, are faster
_RESCREEN = 64  # rows decided against that make it worth while to screen again those that wait


class SparseRun(Run):
    """Sparse rows: screened in float64 against an inverse, whenever it was made, and decided through that of ``H``."""

    def __init__(self, *of_run: Any) -> None:
        super().__init__(*of_run)
        self.chunk = _SMALL_CHUNK
        none = np.empty(0, dtype=np.intp)
        self._wait(none, self.rows.take(none))
        self.unsummed: list[tuple[sp.csr_array, Booleans]] = []  # rows, some of them chosen, that H does not have yet
        self.inverse: Inverse | None = None
        self.outdated = True  # whether H changed and the inverse did not
        self.doubt = 0.0  # how many rows, about, the error of the inverse may have left open since it was made
        self.lasted = _FOLLOWS  # chunks that the inverse has followed
        self.unfollowed: Booleans | None = None  # the rows chosen last, which the inverse does not have yet
        self.wasted = 0  # candidates decided against since those that wait were screened
        self.at_hand: tuple[Float64s, Float64s, Float64s, int] | None = None  # of the chunk: see decided
        self.crowded = False  # screening costs next to nothing

    def queue(self, low: int, high: int) -> None:
        """See :class:`Run`."""
        self._follow()
        index = self.candidates_in(low, high)
        index, G = self._left(index, self.rows.take(index))
        if self.waiting and len(index):
            earlier, G_earlier = self._waiting_rows()
            index, G = np.concatenate([earlier, index]), stacked([G_earlier, G])
        if len(index):
            self._wait(index, G)

    def _left(self, index: Positions, G: sp.csr_array) -> tuple[Positions, sp.csr_array]:
        """Those of the rows that the inverse does not rule out."""
        if self.inverse is None:
            return index, G
        left = np.flatnonzero(may_exceed(G, self.inverse, self.grid, self.tau) | self.forced[index])
        self.decisions.screened += len(index) - len(left)
        return index[left], G[left]

    def _wait(self, index: Positions, G: sp.csr_array) -> None:
        """Let these rows, and no others, wait."""
        self.pending: tuple[Positions, sp.csr_array] = index, G
        self.waiting = len(index)  # the last of these

    def _waiting_rows(self) -> tuple[Positions, sp.csr_array]:
        index, G = self.pending
        first = len(index) - self.waiting
        return index[first:], G[first:]

    def next_chunk(self, size: int) -> tuple[Positions, sp.csr_array]:
        """See :class:`Run`."""
        self._follow()
        if 0.0 < self.tau < np.inf:
            if self.inverse is not None:
                self.doubt += 4.0 * self.inverse.error * size * (1.0 + 1.0 / self.tau)
            if self.outdated or self.doubt > 1.0:
                self._renew()
            if self.wasted > _RESCREEN:
                self.wasted = 0
                self._wait(*self._left(*self._waiting_rows()))
        index, G = self.pending
        first = len(index) - self.waiting
        self.waiting -= min(size, self.waiting)
        return index[first : first + size], G[first : first + size]

    def _renew(self) -> None:
        """Make the inverse of ``H`` from nothing; where they do not last, for larger chunks from now on."""
        if self.lasted < _FOLLOWS:
            self.chunk = max(_SMALL_CHUNK, 2 * len(self.H) // 3)
        self.inverse = None
        self.inverse = invert(self.add_pending_rows(), self.units)
        self.outdated, self.doubt, self.lasted, self.wasted = False, 0.0, 0, _RESCREEN + 1

    def add(self, G: sp.csr_array, chosen: Booleans) -> None:
        """See :class:`Run`."""
        self.unsummed.append((G, chosen))

    def add_pending_rows(self) -> Float64s:
        """See :class:`Run`."""
        if self.unsummed:
            rows, chosen = zip(*self.unsummed, strict=True)
            self.unsummed = []
            super().add(stacked(rows), np.concatenate(chosen))
        return self.H

    def after_chunk(self, chosen: Booleans) -> None:
        """See :class:`Run`; the inverse follows when it is next asked, which after the last chunk it is not."""
        k = int(np.count_nonzero(chosen))
        self.wasted += len(chosen) - k
        if k:
            self.outdated, self.unfollowed = True, chosen

    def _follow(self) -> None:
        """Let the inverse have the rows chosen last, where it can."""
        chosen, self.unfollowed = self.unfollowed, None
        if chosen is None or self.inverse is None or self.at_hand is None or self.chunk != _SMALL_CHUNK:
            return
        P, K, reach, entries = self.at_hand
        if self.pivoted is None or not np.array_equal(self.pivoted[0], np.flatnonzero(chosen)):
            C = factorise(_gram(K, chosen), overwrite=True)
        else:
            C = self.pivoted[1]
        size = np.count_nonzero(chosen) + float(K.diagonal()[chosen].sum())
        squared_reach = float((reach[chosen] ** 2).sum())
        self.outdated = C is None or not self.inverse.follow(P[chosen], C, size, squared_reach, entries)
        self.lasted += 1

    def decided(self, G: sp.csr_array, forced: Booleans) -> Booleans:
        """See :class:`Run`."""
        eta, inverse, self.at_hand, self.pivoted = np.inf, self.inverse, None, None
        if inverse is not None:
            rows = split(G, self.grid, frequent_columns(G, self.grid, _OFTEN_IN_CHUNK))
            P, reach = inverse.products(rows), inverse.reach(rows)
            K = rows.times(np.ascontiguousarray(P.T))
            q = K.diagonal()
            eta = sparse_gram_error(inverse, float((reach**2).sum()), float(q.sum()), len(K))
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            return self.one_by_one(G, forced)
        self.at_hand = P, K, reach, rows.entries

        with alone(K):  # set once, and not for every factor
            return self.bracketed(q, lambda candidates: _gram(K, candidates), eta, G, forced)

    def _exceeds(self, G: sp.csr_array, i: int, earlier: Positions) -> bool:
        """See :class:`Run`; the inverse mostly gives a solution that is good enough, without a factor of ``H``."""
        if self.at_hand is not None:
            guard_exactness(self.n_core + len(earlier), self.grid, self.units)
            g, z, H = self.dense_row(G, i).astype(np.float64), self._solved(i, earlier), self.add_pending_rows()
            low, high = enclosed_leverage(g, z, H, G[earlier], self.grid, self.units)
            if low > self.tau or high <= self.tau:
                self.decisions.enclosed += 1
                if high <= self.tau:
                    self.ties.update(self.keys(G[[i]]))
                return low > self.tau
        return super()._exceeds(G, i, earlier)

    def _solved(self, i: int, earlier: Positions) -> Float64s:
        """About ``(H + E'E)^-1 g`` for row i of the chunk and earlier rows E of it."""
        assert self.at_hand is not None
        P, K, _, _ = self.at_hand
        C = factorise(_gram(K, earlier), overwrite=True) if len(earlier) else None
        weights = np.zeros(len(earlier)) if C is None else lapack.dpotrs(C, K[i, earlier], lower=1)[0]
        return np.asarray(P[i] - weights @ P[earlier])

    def keys(self, G: sp.csr_array) -> list[bytes]:
        """See :class:`Run`."""
        cuts = zip(G.indptr[:-1], G.indptr[1:], strict=True)
        return [G.indices[a:b].astype(np.int64).tobytes() + G.data[a:b].tobytes() for a, b in cuts]

    def dense_row(self, G: sp.csr_array, i: int) -> Integers:
        """See :class:`Run`."""
        return np.asarray(dense_rows(G[[i]], self.grid)[0])


def _gram(K: Float64s, some: Any) -> Float64s:
    """``I + K`` for some of the rows, Fortran order."""
    B = np.array(K[some][:, some].T, order="F")
    B.flat[:: len(B) + 1] += 1.0
    return B
