"""Which rows of a chunk are selected: the bracket that decides as the one-row-at-a-time algorithm does.

Of the facts that :mod:`erasable.core.selector` rests on two are at work here: pivots are leverages, and bracketing.
What float64 cannot tell is decided exactly.

Adds the rows it selects to the sums it is given.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from erasable.core.arrays import Booleans, Float64s, Integers, Positions
from erasable.core.grid import Grid, not_zero
from erasable.core.leverage import Factor, Screen, exceeds, factor, gram_error, screen, survivors, whiten
from erasable.core.solve import factorise, few_threads
from erasable.core.sums import add_rows, guard_exactness


class RowSource(Protocol):
    """Rows in learning order, as the selector reads them."""

    on_grid: bool

    @property
    def sparse(self) -> bool:
        """Whether ``take`` gives sparse grid rows."""
        ...

    def __len__(self) -> int: ...

    def approximate(self, low: int, high: int) -> tuple[npt.NDArray[np.float32], Float64s]:
        """Rows low..high as fresh float32 up to a factor per row, and those factors (see ``survivors``).

        Dense rows only.
        """
        ...

    def take(self, index: npt.NDArray[np.intp]) -> Any:
        """The named rows on the grid."""
        ...


@dataclass
class Decisions:
    """How many rows each level decided."""

    screened: int = 0  # discarded in float32
    certified: int = 0  # decided in float64, with a bound
    enclosed: int = 0  # decided by an enclosure with exact residuals
    exact: int = 0  # decided in rational arithmetic

    def __add__(self, other: Decisions) -> Decisions:
        return Decisions(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Run(ABC):
    """Working memory of one selection: rows queue up, and are decided and selected a chunk at a time."""

    def __init__(
        self, rows: RowSource, H: Float64s, n_core: int, grid: Grid, units: int, tau: float, forced: Booleans
    ) -> None:
        self.rows, self.H, self.n_core, self.forced = rows, H, n_core, forced
        self.grid, self.units, self.tau = grid, units, tau
        self.chunk = min(1024, max(96, 3 * len(H) // 4))  # rows decided at once
        self.crowded = True  # whether most rows met last were selected
        self.waiting = 0
        self.selected: list[Positions] = []
        self.batches: list[Any] = []
        self.decisions = Decisions()
        self.pivoted: tuple[Positions, Float64s] | None = None  # rows of a chunk, and the factor of their I + K
        self.ties: set[bytes] = set()  # rows decided against exactly; leverage only falls, so their equals are out too

    @abstractmethod
    def queue(self, low: int, high: int) -> None:
        """Put the rows low..high that may be selected into the queue."""

    @abstractmethod
    def next_chunk(self, size: int) -> tuple[Positions, Any]:
        """Take the first ``size`` rows out of the queue: their positions, and the rows on the grid."""

    @abstractmethod
    def decided(self, G: Any, forced: Booleans) -> Booleans:
        """Which rows of a chunk are selected, in order, where the threshold is neither zero nor infinite."""

    @abstractmethod
    def keys(self, G: Any) -> list[bytes]:
        """For each row bytes that its equals alone have."""

    @abstractmethod
    def dense_row(self, G: Any, i: int) -> Integers:
        """One row, dense."""

    def turn_of(self, low: int, high: int) -> Positions:
        """The rows low..high, without those that an infinite threshold rules out."""
        index = np.arange(low, high, dtype=np.intp)
        if self.tau == np.inf:
            index = index[self.forced[low:high]]
            self.decisions.certified += high - low - len(index)
        return index

    def decide(self, size: int) -> None:
        """Decide the first ``size`` rows of the queue and select those above the threshold."""
        index, G = self.next_chunk(size)
        if self.ties:
            known = np.fromiter((key in self.ties for key in self.keys(G)), dtype=bool, count=len(index))
            known &= ~self.forced[index]
            self.decisions.certified += int(np.count_nonzero(known))
            index, G = index[~known], G[~known]
        if not len(index):
            return
        with few_threads(float(len(index)) * len(self.H) ** 2):
            forced = self.forced[index]
            if 0.0 < self.tau < np.inf:
                chosen = self.decided(G, forced)  # Algorithm 1, line 4
            else:
                self.decisions.certified += len(index)
                chosen = forced if self.tau else not_zero(G, self.grid) | forced  # H is positive definite
            self._select(index, G, chosen)

    def _select(self, index: Positions, G: Any, chosen: Booleans) -> None:
        """Take the chosen rows into ``H``."""
        k = int(np.count_nonzero(chosen))
        self.crowded = self.crowded and 2 * k > len(index)
        if k:
            guard_exactness(self.n_core + k, self.grid, self.units)
            self.add(G, chosen)  # Algorithm 1, line 6
            self.n_core += k
            self.selected.append(index[chosen])
        self.taken(chosen)

    def add(self, G: Any, chosen: Booleans) -> None:
        """Add the chosen rows to ``H``; where they wait to be added, :meth:`settled` does it."""
        G = G[chosen]
        add_rows(self.H, G, 1.0, self.grid)
        self.batches.append(G)

    def settled(self) -> Float64s:
        """``H`` with all rows selected so far."""
        return self.H

    def taken(self, chosen: Booleans) -> None:  # noqa: B027
        """The chosen rows of a chunk were taken into ``H``."""

    def one_by_one(self, G: Any, forced: Booleans) -> Booleans:
        """Which rows of a chunk are selected, every one decided exactly."""
        chosen = np.zeros(len(forced), dtype=bool)
        self.decisions.certified += int(np.count_nonzero(forced))
        for i in range(len(forced)):
            chosen[i] = forced[i] or self._exceeds(G, i, np.flatnonzero(chosen[:i]))
        return chosen

    def bracketed(
        self, q: Float64s, gram: Callable[[Positions], Float64s], eta: float, G: Any, forced: Booleans
    ) -> Booleans:
        """Which rows of a chunk are selected, from leverages ``q`` and ``I + K`` with relative error ``eta``.

        ``gram`` gives ``I + K`` for some of the rows, lower triangle, Fortran order.
        """
        chosen = np.zeros(len(forced), dtype=bool)
        candidates = np.flatnonzero((1.0 + q > (1.0 + self.tau) * (1.0 - 2.0 * eta)) | forced)
        self.decisions.certified += len(forced) - len(candidates)
        if len(candidates):
            chosen[candidates] = self._bracket(gram(candidates), eta, G, candidates, forced[candidates])
        return chosen

    def _bracket(self, B: Float64s, eta: float, G: Any, candidates: Positions, sure: Booleans) -> Booleans:
        """Close the bracket ``sure <= selected <= possible`` over the candidates with matrix ``B = I + K``.

        ``sure`` starts as the forced rows.
        """
        above, below = (1.0 + self.tau) * (1.0 + 2.0 * eta), (1.0 + self.tau) * (1.0 - 2.0 * eta)
        possible = np.ones(len(B), dtype=bool)
        while True:
            open_rows = np.flatnonzero(possible & ~sure)
            if not len(open_rows):
                self.decisions.certified += len(B)
                return sure
            before = len(open_rows)
            pivots = self._pivots(B, candidates, possible, open_rows)  # lower bounds: too many assumed selected
            sure[open_rows[pivots > above]] = True
            open_rows = np.flatnonzero(possible & ~sure)
            if len(open_rows):
                pivots = self._pivots(B, candidates, sure, open_rows)  # upper bounds: too few assumed selected
                possible[open_rows[pivots <= below]] = False
                open_rows = np.flatnonzero(possible & ~sure)
            if len(open_rows) == before:  # float64 cannot tell: the first open row is decided exactly
                i = open_rows[0]
                self.decisions.certified -= 1
                if self._exceeds(G, int(candidates[i]), candidates[np.flatnonzero(sure[:i])]):
                    sure[i] = True
                else:
                    keys = self.keys(G[candidates[open_rows]])  # the first of them is i
                    possible[open_rows[[key == keys[0] for key in keys]]] = False

    def _pivots(self, B: Float64s, candidates: Positions, taken: Booleans, asked: Positions) -> Float64s:
        pivots, C = pivots_of(B, np.flatnonzero(taken), asked)
        self.pivoted = candidates[taken], C
        return pivots

    def _exceeds(self, G: Any, i: int, earlier: Positions) -> bool:
        guard_exactness(self.n_core + len(earlier), self.grid, self.units)
        H = self.settled().copy(order="F")
        add_rows(H, G[earlier], 1.0, self.grid)
        verdict, rational = exceeds(self.dense_row(G, i), H, self.units, self.tau)
        if not verdict:
            self.ties.update(self.keys(G[[i]]))
        if rational:
            self.decisions.exact += 1
        else:
            self.decisions.enclosed += 1
        return verdict


class DenseRun(Run):
    """Dense rows: screened in float32, decided through a Cholesky factor of ``H``."""

    def __init__(self, *of_run: Any) -> None:
        super().__init__(*of_run)
        self._factor: Factor | None = None
        self.factored = False  # whether _factor is that of H as it is
        self.screen: Screen | None = None
        self.wasted = 0  # candidates decided against since the screen was made: how stale it is
        self.outdated = True  # whether H changed since the screen was made
        self.pending: list[Positions] = []

    @property
    def factor(self) -> Factor | None:
        """The factor of ``H`` as it is, made when first needed."""
        if not self.factored:
            self._factor, self.factored = factor(self.H, self.units), True
        return self._factor

    def queue(self, low: int, high: int) -> None:
        """See :class:`Run`; while most rows are selected, screening them first would be work for nothing."""
        index = self.turn_of(low, high)
        if 0.0 < self.tau < np.inf and not self.crowded:
            if self.outdated and (self.screen is None or self.wasted > 64) and self.factor is not None:
                self.screen = screen(self.factor, self.grid, self.units, self.tau, on_grid=self.rows.on_grid)
                self.wasted, self.outdated = 0, False
            if self.screen is not None:
                X, factors = self.rows.approximate(low, high)
                index = index[survivors(X, factors, self.screen) | self.forced[low:high]]
                self.decisions.screened += high - low - len(index)
        if len(index):
            self.pending.append(index)
            self.waiting += len(index)
        self.crowded = 2 * len(index) > high - low

    def next_chunk(self, size: int) -> tuple[Positions, Integers]:
        """See :class:`Run`."""
        joined = np.concatenate(self.pending)
        index, rest = joined[:size], joined[size:]
        self.pending, self.waiting = [rest], len(rest)
        return index, self.rows.take(index)

    def taken(self, chosen: Booleans) -> None:
        """See :class:`Run`."""
        self.wasted += int(np.count_nonzero(~chosen))
        if chosen.any():
            self._factor, self.factored, self.outdated = None, False, True

    def decided(self, G: Integers, forced: Booleans) -> Booleans:
        """See :class:`Run`."""
        eta, current = np.inf, self.factor
        if current is not None:
            Y = whiten(current, G.astype(np.float64, order="C"))
            q = np.einsum("ij,ij->j", Y, Y)
            eta = gram_error(current, float(q.sum()), len(G))
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            return self.one_by_one(G, forced)

        def gram(candidates: Positions) -> Float64s:
            B: Float64s = blas.dsyrk(1.0, Y if len(candidates) == len(G) else Y[:, candidates], trans=1, lower=1)
            B.flat[:: len(B) + 1] += 1.0
            return B

        return self.bracketed(q, gram, eta, G, forced)

    def keys(self, G: Integers) -> list[bytes]:
        """See :class:`Run`."""
        return [g.tobytes() for g in G]

    def dense_row(self, G: Integers, i: int) -> Integers:
        """See :class:`Run`."""
        return np.asarray(G[i])


def pivots_of(B: Float64s, taken: Positions, asked: Positions) -> tuple[Float64s, Float64s]:
    """For each asked row: its Cholesky pivot in ``B`` restricted to the taken rows before it and itself.

    The factor of the taken rows comes with them.
    """
    part = B if len(taken) == len(B) else B.T.take(taken, axis=0).take(taken, axis=1).T
    C = factorise(part, overwrite=part is not B)
    assert C is not None  # I plus a Gram matrix
    position = np.searchsorted(taken, asked)
    inside = position < len(taken)
    inside[inside] = taken[position[inside]] == asked[inside]
    out = np.empty(len(asked))
    out[inside] = C.diagonal()[position[inside]] ** 2
    outside = asked[~inside]
    if len(outside):
        later = taken[:, None] > outside[None, :]
        # A row asked about sees the rows before it alone; B holds its lower triangle.
        cross = np.where(later, 0.0, B[outside[None, :], taken[:, None]])
        if len(taken):
            cross = blas.dtrsm(1.0, C, np.asfortranarray(cross), lower=1)
            cross[later] = 0.0
        out[~inside] = B[outside, outside] - np.einsum("ij,ij->j", cross, cross)
    return out, C
