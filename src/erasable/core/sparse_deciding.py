"""Deciding sparse rows without making them dense: through an explicit inverse of an older ``H``, and what came since.

With ``A`` the inverse of ``H`` as it once was, ``S`` the rows selected since and ``C`` the Cholesky factor of ``I + S A
S'``, a chunk's ``I + K`` against ``H`` as it is now is the Schur complement ``I + G A G' - W'W``, ``W = C^-1 S A G'``:
one growing matrix is factored, chunk by chunk. The inverse is renewed when continuing has become as dear as inverting.

Adds the rows it selects to the sums it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.linalg import blas

from erasable.core.arrays import Booleans, Float64s, Integers, Positions
from erasable.core.deciding import Run
from erasable.core.grid import dense_rows
from erasable.core.solve import factorise
from erasable.core.sparse import stacked
from erasable.core.sparse_leverage import Inverse, SplitRows, invert, may_exceed, sparse_gram_error, split

_RENEWED_AFTER = 1.0  # times d rows decided


class Continued:
    """An inverse of ``H`` as it once was, and the Cholesky factor of ``I + S A S'`` for the rows S selected since."""

    def __init__(self, inverse: Inverse) -> None:
        self.inverse = inverse
        self.since: SplitRows | None = None
        self.blocks: list[tuple[Float64s, Float64s]] = []  # W of the rows of each chunk, and their own factor
        self.squared_reach, self.trace = 0.0, 0.0

    def __len__(self) -> int:
        return 0 if self.since is None else len(self.since)

    def whitened(self, K: Float64s) -> Float64s:
        """``C^-1 K`` for K of as many rows as there are in S."""
        W, low = np.empty_like(K), 0
        for before, own in self.blocks:
            high = low + len(own)
            part = np.asfortranarray(K[low:high] - before.T @ W[:low])
            W[low:high] = blas.dtrsm(1.0, own, part, lower=1, overwrite_b=1)
            low = high
        return W

    def append(self, rows: SplitRows, W: Float64s, B: Float64s, squared_reach: float, trace: float) -> None:
        """Rows join S: ``W`` is what :meth:`whitened` gives for them, ``B`` their Schur complement."""
        own = factorise(B, overwrite=True)
        assert own is not None  # I plus a Gram matrix
        self.blocks.append((W, own))
        self.since = rows if self.since is None else self.since.joined(rows)
        self.squared_reach, self.trace = self.squared_reach + squared_reach, self.trace + trace


class SparseRun(Run):
    """Sparse rows: screened in float64 against the inverse, whenever it was made, and decided by continuing from it."""

    def __init__(self, *of_run: Any) -> None:
        super().__init__(*of_run)
        self.pending: list[tuple[Positions, sp.csr_array]] = []
        self.base: Continued | None = None
        self.made = False  # whether base was asked for since H last grew without it
        self.wasted = 0  # candidates decided against since then

    def queue(self, low: int, high: int) -> None:
        """See :class:`Run`."""
        index = self.turn_of(low, high)
        G = self.rows.take(index)
        if 0.0 < self.tau < np.inf:
            if self.base is None and not self.made:
                self._renew()
            index, G = self._not_ruled_out(index, G)
        if len(index):
            self.pending.append((index, G))
            self.waiting += len(index)
        self.crowded = False

    def _renew(self) -> None:
        """Invert ``H`` as it is."""
        inverse = invert(self.H, self.units)
        self.base, self.made, self.wasted = None if inverse is None else Continued(inverse), True, 0

    def _not_ruled_out(self, index: Positions, G: sp.csr_array) -> tuple[Positions, sp.csr_array]:
        if self.base is None:
            return index, G
        left = may_exceed(G, self.base.inverse, self.grid, self.tau) | self.forced[index]
        self.decisions.screened += len(index) - int(np.count_nonzero(left))
        return index[left], G[left]

    def next_chunk(self, size: int) -> tuple[Positions, sp.csr_array]:
        """See :class:`Run`."""
        index, G = np.concatenate([part[0] for part in self.pending]), stacked([part[1] for part in self.pending])
        if 0.0 < self.tau < np.inf and self._stale():
            self._renew()
            index, G = self._not_ruled_out(index, G)
        self.pending = [(index[size:], G[size:])]
        self.waiting = max(0, len(index) - size)
        return index[:size], G[:size]

    def _stale(self) -> bool:
        grown = self.base is None or len(self.base) > 0
        since = 0 if self.base is None else len(self.base)
        return not self.made or (grown and since + self.wasted >= _RENEWED_AFTER * len(self.H))

    def noted(self, out: int, taken: int) -> None:
        """See :class:`Run`."""
        self.wasted += out
        self.made = self.made and not (taken and self.base is None)

    def decided(self, G: sp.csr_array, forced: Booleans) -> Booleans:
        """See :class:`Run`."""
        base = self.base
        if base is None:
            return self.one_by_one(G, forced)
        inverse, k = base.inverse, len(base)
        rows = split(G, self.grid, None if base.since is None else base.since.frequent)
        K = (rows if base.since is None else base.since.joined(rows)).times(inverse.products(rows))
        squared_reach = inverse.reach(rows) ** 2
        own = K[k:].diagonal()
        eta = sparse_gram_error(
            inverse, base.squared_reach + float(squared_reach.sum()), base.trace + float(own.sum()), len(K)
        )
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            if k:
                self._renew()
                return self.decided(G, forced)
            self.base, self.made = None, False
            return self.one_by_one(G, forced)
        W = base.whitened(K[:k])
        B = np.asfortranarray(K[k:])
        B.flat[:: len(B) + 1] += 1.0
        B = blas.dsyrk(-1.0, W.T, beta=1.0, c=B, lower=1, overwrite_c=1) if k else B
        chosen = self.bracketed(
            B.diagonal() - 1.0, lambda some: np.asfortranarray(B[np.ix_(some, some)]), eta, G, forced
        )
        if chosen.any():
            some = np.flatnonzero(chosen)
            own_B = np.asfortranarray(B[np.ix_(some, some)])
            base.append(rows[some], W[:, some], own_B, float(squared_reach[some].sum()), float(own[some].sum()))
        return chosen

    def keys(self, G: sp.csr_array) -> list[bytes]:
        """See :class:`Run`."""
        cuts = zip(G.indptr[:-1], G.indptr[1:], strict=True)
        return [G.indices[a:b].astype(np.int64).tobytes() + G.data[a:b].tobytes() for a, b in cuts]

    def dense_row(self, G: sp.csr_array, i: int) -> Integers:
        """See :class:`Run`."""
        return np.asarray(dense_rows(G[[i]], self.grid)[0])
