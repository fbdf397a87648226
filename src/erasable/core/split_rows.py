"""Sparse grid rows in two parts: columns that many rows hold as a dense matrix, the other entries listed.

Products of a dense matrix are that much faster an entry, and of a row few entries are left. The intercept's constant,
which sparse rows leave out, is a column of the dense part.

Changes nothing it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas

from erasable.core.arrays import Float64s, rows_of
from erasable.core.grid import Grid

Columns = npt.NDArray[np.intp]
_OFTEN = 1 / 24  # of the rows: a column that more of them hold is cheaper as a dense one where pairs are met
_SHORT = 12  # entries of a row on average: to split it is not worth the while


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
    dense: Float64s
    rest: sp.csr_array  # of shape (n, n_columns), float64
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


def split(rows: sp.csr_array, grid: Grid, frequent: Columns | None = None) -> SplitRows:
    """Sparse grid rows in two parts; by default those columns are dense that many of these rows hold."""
    n, d = rows.shape[0], grid.n_columns
    frequent = frequent_columns(rows, grid) if frequent is None else frequent
    entries = int(np.diff(rows.indptr).max(initial=0)) + int(grid.intercept)
    if len(frequent) == d - grid.n_features:  # the constant alone
        listed = rows.data.astype(np.float64), rows.indices, rows.indptr
        constant = np.full((n, len(frequent)), float(grid.constant))
        return SplitRows(frequent, constant, sp.csr_array(listed, shape=(n, d)), entries)
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
    return SplitRows(frequent, dense, sp.csr_array(listed, shape=(n, d)), entries)
