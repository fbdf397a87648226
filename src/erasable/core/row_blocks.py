"""Grid rows in blocks of float64, dense or sparse: what a function of their products needs, in bounded memory.

Changes nothing it is given. A record of this kind lives no longer than the call that made it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import blas

from erasable.core.arrays import Float64s, Floats
from erasable.core.grid import Grid

MOST_ROWS = 1024  # of a block
_BLOCK_ENTRIES = 2**18  # of a dense block: two megabytes stay in a cache
_SPARSE = 1 / 8  # rows with fewer entries than this, of all, are multiplied as sparse ones
_VERY_SPARSE = 1 / 25  # and their products with each other are, too


class RowBlocks:
    """Rows of integers, of norm below ``2**bits``, the constant included, a block at a time.

    Parameters
    ----------
    rows : integers of shape (n, n_columns), or ``csr_array`` of integers of shape (n, n_features)
        Sparse rows come without the intercept's constant.
    """

    def __init__(self, rows: Any, grid: Grid) -> None:
        self.n, self.d = rows.shape[0], grid.n_columns
        self.blocks: list[tuple[slice, Any]] = []
        sparse = not isinstance(rows, np.ndarray)
        step = MOST_ROWS if sparse else min(MOST_ROWS, max(64, _BLOCK_ENTRIES // max(self.d, 1)))
        entries = rows.nnz + self.n * grid.intercept if sparse else int(np.count_nonzero(rows))
        density = entries / max(self.n * self.d, 1)
        self.sparse = sparse or density < _SPARSE
        self.very_sparse = density < _VERY_SPARSE
        self.sources: list[tuple[slice, Any]] = []
        if self.sparse:
            step = MOST_ROWS
        for low in range(0, self.n, step):
            high = min(low + step, self.n)
            part = rows[low:high]
            if self.sparse:
                part = _sparse_block(part, grid.constant if sparse and grid.intercept else None)
            self.sources.append((slice(low, high), part))

    def __iter__(self) -> Iterator[tuple[slice, Any]]:
        """Positions of rows and the block itself: something that has ``block @ W`` and ``block.T @ V``, in float64."""
        for where, part in self.sources:
            yield where, part if self.sparse else part.astype(np.float64)

    def gram(self, D: Float64s, dtype: type, every: int = 1) -> Floats:
        """About ``sum of D_i g_i g_i'``: the lower triangle of a Fortran-ordered array, of ``every``-th blocks only."""
        H: Floats = np.zeros((self.d, self.d), dtype=dtype, order="F")
        rank_k = blas.ssyrk if dtype is np.float32 else blas.dsyrk
        for where, part in self.sources[::every]:
            weights = D[where]
            if self.very_sparse:
                H += _sparse_gram(part, weights).astype(dtype)
                continue
            dense = part.toarray() if self.sparse else part
            scaled = dense.astype(dtype) * np.sqrt(weights).astype(dtype)[:, None]
            H = rank_k(1.0, scaled.T, beta=1.0, c=H, lower=1, overwrite_c=1)
        return H


def _sparse_block(part: Any, constant: int | None) -> Any:
    """A block as a sparse array of float64, with the constant as its last column."""
    from scipy.sparse import csr_array, hstack

    block = csr_array(part, dtype=np.float64)
    if constant is None:
        return block
    return csr_array(hstack([block, np.full((block.shape[0], 1), float(constant))], format="csr"))


def _sparse_gram(part: Any, weights: Float64s) -> Float64s:
    scaled = part.copy()
    scaled.data = scaled.data * np.repeat(weights, np.diff(part.indptr))
    product: Float64s = (part.T @ scaled).toarray()
    return product
