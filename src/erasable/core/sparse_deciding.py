"""Deciding sparse rows without making them dense: through an explicit inverse of ``H``.

The inverse is made anew for every chunk, after rows were selected; rows are screened against whichever is at hand, and
again while they wait for their turn.

Adds the rows it selects to the sums it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Booleans, Float64s, Integers, Positions
from erasable.core.deciding import Run
from erasable.core.grid import dense_rows
from erasable.core.sparse import stacked
from erasable.core.sparse_leverage import Inverse, invert, may_exceed, sparse_gram_error, split


class SparseRun(Run):
    """Sparse rows: screened in float64 against an inverse, whenever it was made, and decided through that of ``H``."""

    def __init__(self, *of_run: Any) -> None:
        super().__init__(*of_run)
        self.pending: list[tuple[Positions, sp.csr_array]] = []
        self.inverse: Inverse | None = None
        self.outdated = True  # whether H changed since the inverse was made
        self.crowded = False  # screening costs next to nothing

    def queue(self, low: int, high: int) -> None:
        """See :class:`Run`."""
        index = self.turn_of(low, high)
        self._wait(index, self.rows.take(index))

    def _wait(self, index: Positions, G: sp.csr_array) -> None:
        """Put those of the rows into the queue that the inverse does not rule out."""
        if self.inverse is not None:
            left = may_exceed(G, self.inverse, self.grid, self.tau) | self.forced[index]
            self.decisions.screened += len(index) - int(np.count_nonzero(left))
            index, G = index[left], G[left]
        if len(index):
            self.pending.append((index, G))
            self.waiting += len(index)

    def next_chunk(self, size: int) -> tuple[Positions, sp.csr_array]:
        """See :class:`Run`."""
        if self.outdated and 0.0 < self.tau < np.inf:
            self.inverse, self.outdated = invert(self.H, self.units), False
            again, self.pending, self.waiting = self.pending, [], 0
            for index, G in again:
                self._wait(index, G)
            if not self.pending:
                return np.empty(0, dtype=np.intp), self.rows.take(np.empty(0, dtype=np.intp))
        index, G = np.concatenate([part[0] for part in self.pending]), stacked([part[1] for part in self.pending])
        self.pending, self.waiting = [(index[size:], G[size:])], max(0, len(index) - size)
        return index[:size], G[:size]

    def noted(self, out: int, taken: int) -> None:
        """See :class:`Run`."""
        self.outdated = self.outdated or taken > 0

    def decided(self, G: sp.csr_array, forced: Booleans) -> Booleans:
        """See :class:`Run`."""
        eta, inverse = np.inf, self.inverse
        if inverse is not None:
            rows = split(G, self.grid)
            K = rows.times(inverse.products(rows))
            q = K.diagonal()
            eta = sparse_gram_error(inverse, float((inverse.reach(rows) ** 2).sum()), float(q.sum()), len(K))
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            return self.one_by_one(G, forced)

        def gram(candidates: Positions) -> Float64s:
            B = np.asfortranarray(K if len(candidates) == len(K) else K[np.ix_(candidates, candidates)])
            B.flat[:: len(B) + 1] += 1.0
            return B

        return self.bracketed(q, gram, eta, G, forced)

    def keys(self, G: sp.csr_array) -> list[bytes]:
        """See :class:`Run`."""
        cuts = zip(G.indptr[:-1], G.indptr[1:], strict=True)
        return [G.indices[a:b].astype(np.int64).tobytes() + G.data[a:b].tobytes() for a, b in cuts]

    def dense_row(self, G: sp.csr_array, i: int) -> Integers:
        """See :class:`Run`."""
        return np.asarray(dense_rows(G[[i]], self.grid)[0])
