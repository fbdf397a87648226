"""Deciding sparse rows without making them dense: through an explicit inverse of ``H``.

The inverse follows ``H`` from chunk to chunk, and is made anew once its error could leave rows open. Rows are screened
against whichever is at hand, and again while they wait for their turn, once many of them turn out too low.

Adds the rows it selects to the sums it is given.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Booleans, Float64s, Integers, Positions
from erasable.core.deciding import Run
from erasable.core.grid import dense_rows
from erasable.core.solve import alone, factorise
from erasable.core.sparse import stacked
from erasable.core.sparse_leverage import Inverse, frequent_columns, invert, may_exceed, sparse_gram_error, split

_SMALL_CHUNK = 160  # rows that are decided at once where the inverse follows
_OFTEN = 1 / 7  # of the rows of a chunk: a column that more of them hold is cheaper as a dense one
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
        index = self.turn_of(low, high)
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
        self.inverse = invert(self.settled(), self.units)
        self.outdated, self.doubt, self.lasted, self.wasted = False, 0.0, 0, _RESCREEN + 1

    def add(self, G: sp.csr_array, chosen: Booleans) -> None:
        """See :class:`Run`."""
        self.unsummed.append((G, chosen))

    def settled(self) -> Float64s:
        """See :class:`Run`."""
        if self.unsummed:
            rows, chosen = zip(*self.unsummed, strict=True)
            self.unsummed = []
            super().add(stacked(rows), np.concatenate(chosen))
        return self.H

    def taken(self, chosen: Booleans) -> None:
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
            rows = split(G, self.grid, frequent_columns(G, self.grid, _OFTEN))
            P, reach = inverse.products(rows), inverse.reach(rows)
            K = rows.times(np.ascontiguousarray(P.T))
            q = K.diagonal()
            eta = sparse_gram_error(inverse, float((reach**2).sum()), float(q.sum()), len(K))
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            return self.one_by_one(G, forced)
        self.at_hand = P, K, reach, rows.entries

        with alone(K):  # set once, and not for every factor
            return self.bracketed(q, lambda candidates: _gram(K, candidates), eta, G, forced)

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
