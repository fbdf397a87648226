"""Sparse grid rows in two parts: columns that many rows hold as a dense matrix, the other entries listed.

Products of a dense matrix are that much faster an entry, and of a row few entries are left. The intercept's constant,
which sparse rows leave out, is a column of the dense part.

:func:`add_sparse_rows` changes the sums it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas

from erasable.core.arrays import Float64s, added_up, rows_of
from erasable.core.grid import Grid

Columns = npt.NDArray[np.intp]
_OFTEN = 1 / 24  # of the rows: a column that more of them hold is cheaper as a dense one where pairs are met
_SHORT = 12  # entries of a row on average: to split it is not worth the while
_PAIRS_AT_ONCE = 2**16  # of entries of sparse rows
_FEW_ROWS = 256  # sparse ones, whose pairs of entries are fewer than what products of dense matrices would touch
_NUMBERS_AT_ONCE = 2**18  # of frequent columns, that are turned into float64


def frequent_columns(rows: sp.csr_array, grid: Grid, often: float = _OFTEN) -> Columns:
    """Columns that more than such a share of these rows hold, the constant's included; that alone for short rows."""
    if rows.nnz <= _SHORT * rows.shape[0]:
        return np.arange(grid.n_features, grid.n_columns)
    held = np.bincount(rows.indices, minlength=grid.n_columns)
    held[grid.n_features :] = rows.shape[0] + 1
    return np.flatnonzero(held > often * rows.shape[0])


@dataclass(frozen=True)
class SplitRows:
    """Sparse grid rows in two parts: the frequent columns dense, shape (n, len(frequent)), the rest listed."""

    frequent: Columns
    dense: Any
    rest: sp.csr_array  # of shape (n, n_columns)
    entries: int  # the most that a row has

    @cached_property
    def numbers(self) -> Columns:
        """The row of each listed entry."""
        return rows_of(self.rest)

    def __len__(self) -> int:
        return len(self.dense)

    def times(self, B: Float64s) -> Float64s:
        """The product with a matrix of shape (n_columns, k), C order."""
        out: Float64s = self.rest @ B
        if len(self.frequent):
            blas.dgemm(1.0, B[self.frequent].T, self.dense.T, beta=1.0, c=out.T, overwrite_c=1)
        return out


def split(rows: sp.csr_array, grid: Grid, frequent: Columns | None = None, kind: Any = np.float64) -> SplitRows:
    """Sparse grid rows in two parts; by default those columns are dense that many of these rows hold.

    ``kind`` is float64, or float32, which holds grid integers exactly, too.
    """
    n, d = rows.shape[0], grid.n_columns
    frequent = frequent_columns(rows, grid) if frequent is None else frequent
    entries = int(np.diff(rows.indptr).max(initial=0)) + int(grid.intercept)
    if len(frequent) == d - grid.n_features:  # the constant alone
        listed = rows.data.astype(kind), rows.indices, rows.indptr
        constant = np.full((n, len(frequent)), float(grid.constant), dtype=kind)
        return SplitRows(frequent, constant, sp.csr_array(listed, shape=(n, d)), entries)
    # Listed entries are put into the column of the constant, which is filled last, or into one too many.
    width = len(frequent) + (not grid.intercept)
    position = np.full(d, width - 1)
    position[frequent] = np.arange(len(frequent))
    at = position.take(rows.indices)
    seldom = np.flatnonzero(at == width - 1)
    at += np.repeat(np.arange(0, n * width, width), np.diff(rows.indptr))
    dense = np.zeros((n, width), dtype=kind)
    dense.reshape(-1)[at] = rows.data
    if grid.intercept:
        dense[:, -1] = grid.constant
    dense = dense[:, : len(frequent)]
    indptr = np.searchsorted(seldom, rows.indptr).astype(rows.indptr.dtype)
    listed = (rows.data[seldom].astype(kind), rows.indices[seldom], indptr)
    return SplitRows(frequent, dense, sp.csr_array(listed, shape=(n, d)), entries)


def add_sparse_rows(H: Float64s, rows: sp.csr_array, sign: float, grid: Grid) -> None:
    """``H += sign * rows' rows`` in place, on the lower triangle.

    Frequent columns are multiplied as dense matrices, the other entries pair by pair.
    """
    n, frequent = rows.shape[0], frequent_columns(rows, grid)
    if n <= _FEW_ROWS or len(frequent) == grid.n_columns - grid.n_features:  # the constant alone
        _add_pairs(H, rows, sign)
        if grid.intercept:
            H[-1, :-1] += sign * grid.constant * added_up(rows.data, rows.indices, rows.shape[1])
            H[-1, -1] += sign * float(grid.constant**2 * n)
        return
    step = max(1, _NUMBERS_AT_ONCE // len(frequent))
    below = np.arange(len(H))[:, None] > frequent
    for low in range(0, n, step):
        part = split(rows if n <= step else rows[low : low + step], grid, frequent)
        H[np.ix_(frequent, frequent)] += blas.dsyrk(sign, part.dense.T, lower=1)
        cross = sign * (part.rest.T @ part.dense)  # of a listed column and a frequent one
        H[:, frequent] += np.where(below, cross, 0.0)
        H[frequent] += np.where(below, 0.0, cross).T
        _add_pairs(H, part.rest, sign)


def _add_pairs(H: Float64s, rows: sp.csr_array, sign: float) -> None:
    """For each row the products of its pairs of entries, columns i <= j, to entry (j, i); columns are sorted."""
    values, column, flat = rows.data.astype(np.float64), rows.indices, H.reshape(-1, order="F")
    later = np.repeat(rows.indptr[1:], np.diff(rows.indptr)) - np.arange(rows.nnz)  # entries of the row from here on
    pairs, start = np.cumsum(later), column.astype(np.int64) * len(H)
    low = 0
    while low < rows.nnz:
        before = pairs[low] - later[low]
        high = max(low + 1, int(np.searchsorted(pairs, before + _PAIRS_AT_ONCE)))
        left, times = slice(low, high), later[low:high]
        first = pairs[left] - times  # pairs up to those of the left entry
        right = np.arange(before, pairs[high - 1])
        right -= np.repeat(first - np.arange(low, high), times)
        place, product = np.repeat(start[left], times), np.repeat(sign * values[left], times)
        place += column[right]
        product *= values[right]
        np.add.at(flat, place, product)
        low = high
