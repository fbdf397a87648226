"""Grid rows in blocks of float64, dense or sparse: what a function of their products needs, in bounded memory.

Changes nothing it is given. A record of this kind lives no longer than the call that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from erasable.core.arrays import Float64s, Floats
from erasable.core.grid import Grid

MOST_ROWS = 1024  # of a block
_BLOCK_ENTRIES = 2**18  # of a dense block: two megabytes stay in a cache
_SLAB = 32  # blocks of sparse rows whose products with each other are summed at once
_SPARSE = 1 / 8  # rows with fewer entries than this, of all, are multiplied as sparse ones
_VERY_SPARSE = 1 / 16  # and their products with each other are, too


@dataclass(frozen=True)
class RowBlocks:
    """Rows of integers, of norm below ``2**bits``, the constant included, a block at a time."""

    n: int
    d: int
    parts: tuple[tuple[slice, Any], ...]  # positions of rows; dense integers, or sparse float64
    sparse: bool
    very_sparse: bool

    @classmethod
    def of(cls, rows: Any, grid: Grid) -> RowBlocks:
        """The blocks of dense rows of shape (n, n_columns), or of CSR rows of shape (n, n_features).

        Sparse rows come without the intercept's constant. Dense rows that hold mostly zeros are taken as sparse ones.
        """
        n, d = rows.shape[0], grid.n_columns
        dense = isinstance(rows, np.ndarray)
        entries = int(np.count_nonzero(rows)) if dense else rows.nnz + n * int(grid.intercept)
        density = entries / max(n * d, 1)
        sparse = not dense or density < _SPARSE
        step = MOST_ROWS if sparse else min(MOST_ROWS, max(64, _BLOCK_ENTRIES // max(d, 1)))
        if sparse:
            rows = _nonzeros(rows) if dense else _with_constant(rows, grid)
        places = [slice(low, min(low + step, n)) for low in range(0, n, step)]
        parts = [(p, _sparse_slice(rows, p.start, p.stop) if sparse else rows[p]) for p in places]
        return cls(n, d, tuple(parts), sparse, sparse and density < _VERY_SPARSE)

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        """Positions of rows and the block itself: something that has ``block @ W`` and ``block.T @ V``, in float64."""
        return self.blocks(np.float64)

    def blocks(self, dtype: Any) -> Iterator[tuple[slice, Any]]:
        """The same, dense blocks in a type of one's choice."""
        for where, part in self.parts:
            yield where, part if self.sparse else part.astype(dtype)

    @property
    def gram_in_passes(self) -> float:
        """About how many products with all rows, back and forth, cost as much as a Gram matrix."""
        if self.very_sparse:
            return 4.0 + float(sum(part.nnz for _, part in self.parts)) / max(self.n, 1)
        return 1.0 + self.d / 64.0

    def sample(self, every: int) -> RowBlocks:
        """One block of so many."""
        return RowBlocks(self.n, self.d, self.parts[::every], self.sparse, self.very_sparse)

    def gram(self, D: Float64s, dtype: type) -> Floats:
        """About ``sum of D_i g_i g_i'`` over the blocks: the lower triangle of a Fortran-ordered array."""
        if self.very_sparse:
            return self._sparse_gram(D).astype(dtype, order="F")
        H: Floats = np.zeros((self.d, self.d), dtype=dtype, order="F")
        rank_k = blas.ssyrk if dtype is np.float32 else blas.dsyrk
        roots: Floats = np.sqrt(D).astype(dtype)
        for where, part in self.parts:
            dense = part.toarray() if self.sparse else part
            scaled = dense.astype(dtype)
            scaled *= roots[where, None]
            H = rank_k(1.0, scaled.T, beta=1.0, c=H, lower=1, overwrite_c=1)
        return H

    def _sparse_gram(self, D: Float64s) -> Float64s:
        from scipy.sparse import vstack

        H = np.zeros((self.d, self.d))
        for low in range(0, len(self.parts), _SLAB):
            some = self.parts[low : low + _SLAB]
            slab = vstack([part for _, part in some], format="csr")
            weights = np.concatenate([D[where] for where, _ in some])
            scaled = slab.copy()
            scaled.data *= np.repeat(weights, np.diff(slab.indptr))
            H += (slab.T @ scaled).toarray()
        return H


def _nonzeros(rows: Any) -> Any:
    """Dense integers as sparse float64."""
    from scipy.sparse import csr_array

    n, d = rows.shape
    data, columns, lengths = [], [], [np.zeros(1, dtype=np.int64)]
    for low in range(0, n, MOST_ROWS):
        part = rows[low : low + MOST_ROWS]
        flat = np.flatnonzero(part.reshape(-1) != 0)
        at, column = np.divmod(flat, d)
        data.append(part.reshape(-1)[flat].astype(np.float64))
        columns.append(column.astype(np.int32))
        lengths.append(np.bincount(at, minlength=len(part)))
    starts = np.cumsum(np.concatenate(lengths))
    return csr_array((np.concatenate(data), np.concatenate(columns), starts), shape=(n, d))


def _with_constant(rows: Any, grid: Grid) -> Any:
    """Sparse rows as float64, the constant as their last column."""
    from scipy.sparse import csr_array, hstack

    features = csr_array(rows, dtype=np.float64)
    if not grid.intercept:
        return features
    return hstack([features, csr_array(np.full((rows.shape[0], 1), float(grid.constant)))], format="csr")


def _sparse_slice(rows: Any, low: int, high: int) -> Any:
    """Some rows, their numbers shared."""
    first, last = int(rows.indptr[low]), int(rows.indptr[high])
    pieces = rows.data[first:last], rows.indices[first:last], rows.indptr[low : high + 1] - first
    return type(rows)(pieces, shape=(high - low, rows.shape[1]))
