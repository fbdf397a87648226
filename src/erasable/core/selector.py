"""Algorithm 1's sampler, a block at a time, with the decisions of the one-row-at-a-time algorithm.

A row is selected when its leverage against the rows selected before it is above the threshold. Three facts make that
BLAS-3:

- *Monotone screening.* Leverage only falls as rows are selected, so a row at or below the threshold against an older
  ``H`` is out.
- *Pivots are leverages.* If rows S are selected from a chunk, the pivots of the Cholesky factor of ``I + G_S H^-1
  G_S'`` are one plus their sequential leverages.
- *Bracketing.* Assuming more rows selected can only lower a leverage. So the rows selected even if all candidates
  were taken are surely in, those not selected even if only the sure ones were taken are surely out, and repeating
  this closes the bracket: each round settles at least the first open row, in practice two or three rounds settle all.

Adds the rows it selects to the sums it is given.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import astuple, dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from erasable.core.arrays import Float64s, Integers
from erasable.core.grid import Grid, count_outside_ball, to_grid
from erasable.core.leverage import (
    Factor,
    Screen,
    exceeds,
    factor,
    gram_error,
    screen,
    survivors,
    whiten,
)
from erasable.core.solve import factorise, few_threads
from erasable.core.sums import add_rows, guard_exactness
from erasable.errors import InputError

Progress = Callable[[int, int], None]
Mask = npt.NDArray[np.bool_]
_BLOCK = 2**20  # numbers looked at together


class RowSource(Protocol):
    """Rows in learning order, as the selector reads them."""

    on_grid: bool

    def __len__(self) -> int: ...

    def approximate(self, low: int, high: int) -> tuple[npt.NDArray[np.float32], Float64s]:
        """Rows low..high as fresh float32 up to a factor per row, and those factors (see ``survivors``)."""
        ...

    def take(self, index: npt.NDArray[np.intp]) -> Integers:
        """The named rows on the grid."""
        ...


@dataclass(frozen=True)
class GridRows:
    """Rows that already are grid integers, shape (n, n_columns)."""

    G: Integers
    grid: Grid
    on_grid = True

    def __len__(self) -> int:
        return len(self.G)

    def approximate(self, low: int, high: int) -> tuple[npt.NDArray[np.float32], Float64s]:
        """See :class:`RowSource`."""
        X = self.G[low:high, : self.grid.n_features].astype(np.float32)
        return X, np.full(high - low, 2.0**-self.grid.bits)

    def take(self, index: npt.NDArray[np.intp]) -> Integers:
        """See :class:`RowSource`."""
        return self.G[index]


@dataclass(frozen=True)
class RawRows:
    """Rows as the caller gave them: a dense array or anything sliceable with ``toarray`` (SciPy CSR).

    ``order`` has the position of each row in learning order; None where that is the order of ``X``. Rows are gathered a
    block at a time: there is no other copy of ``X``.
    """

    X: Any
    grid: Grid
    order: npt.NDArray[np.intp] | None = None
    on_grid = False

    def __len__(self) -> int:
        return int(self.X.shape[0])

    def gathered(self, rows: Any) -> Any:
        """The named rows as the caller gave them; where there is an order, ``rows`` are turns in it."""
        return self.X[rows if self.order is None else self.order[rows]]

    def dense(self, rows: Any) -> npt.NDArray[Any]:
        """The named rows as a dense array."""
        part = self.gathered(rows)
        return part if isinstance(part, np.ndarray) else part.toarray()

    def approximate(self, low: int, high: int) -> tuple[npt.NDArray[np.float32], Float64s]:
        """See :class:`RowSource`."""
        grid, part = self.grid, self.dense(slice(low, high))
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            if not grid.normalises:
                factor = np.ldexp(grid.unit, -grid.bits) / (1.0 if grid.scaling is None else grid.scaling)
                return (part * factor).astype(np.float32, order="C"), np.ones(high - low)
            if isinstance(grid.scaling, tuple):
                part = part / np.array(grid.scaling)
            X = part.astype(np.float32, order="C")
            square = np.einsum("ij,ij->i", X, X).astype(np.float64)
            # Outside this range float32 may have lost the row: NaN sends it on unscreened.
            square[~((square > 1e-20) & (square < 1e20))] = np.nan
            return X, np.ldexp(grid.reach, -grid.bits) / np.sqrt(square)

    def take(self, index: npt.NDArray[np.intp]) -> Integers:
        """See :class:`RowSource`."""
        return to_grid(self.dense(index), self.grid)

    def check_ball(self) -> None:
        """Refuse rows outside the unit ball where the scaling does not bring every row into it.

        Raises
        ------
        InputError
        """
        if self.grid.normalises:
            return
        step = max(1, _BLOCK // self.grid.n_columns)
        parts = (self.dense(slice(low, low + step)) for low in range(0, len(self), step))
        outside = sum(count_outside_ball(part, self.grid) for part in parts)
        if outside:
            required = "1 when scaling=None" if self.grid.scaling is None else f"scaling={self.grid.scaling!r}"
            raise InputError(
                f"{outside} of {len(self)} rows have a norm above {required}: use scaling='row', or a larger number."
            )


def stale_screen(H: Float64s, grid: Grid, units: int, tau: float) -> Screen | None:
    """A screen for raw rows of which ``H`` is the core now or at any earlier moment; None where there is none."""
    current = factor(H, units) if 0.0 < tau < np.inf else None
    return None if current is None else screen(current, grid, units, tau)


def not_ruled_out(rows: RowSource, stale: Screen) -> Mask:
    """Which rows the screen cannot discard.

    *Law*: the others are at or below the threshold against the core that the screen was made from, and against every
    core that it is a part of. *Cost*: n d^2 flops in float32; memory: one block.
    """
    left = np.empty(len(rows), dtype=bool)
    step = max(1, _BLOCK // stale.M.shape[0])
    for low in range(0, len(rows), step):
        high = min(len(rows), low + step)
        left[low:high] = survivors(*rows.approximate(low, high), stale)
    return left


@dataclass
class Decisions:
    """How many rows each level decided."""

    screened: int = 0  # discarded in float32
    certified: int = 0  # decided in float64, with a bound
    enclosed: int = 0  # decided by an enclosure with exact residuals
    exact: int = 0  # decided in rational arithmetic

    def __add__(self, other: Decisions) -> Decisions:
        return Decisions(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


@dataclass(frozen=True)
class Selection:
    """What learning a run of rows selects.

    ``index`` are positions in the run, ascending; ``batches`` the selected grid rows in that order, split anyhow.
    """

    index: npt.NDArray[np.intp]
    batches: list[Integers]
    decisions: Decisions = field(compare=False)


def select(
    rows: RowSource,
    H: Float64s,
    n_core: int,
    *,
    grid: Grid,
    units: int,
    tau: float,
    forced: Mask | None = None,
    block_rows: int | None = None,
    chunk_rows: int | None = None,
    progress: Progress | None = None,
) -> Selection:
    """Select rows in order, updating ``H`` in place.

    Parameters
    ----------
    rows : RowSource
        The rows to learn, in order.
    H : array of shape (n_columns, n_columns), float64, Fortran order
        ``units * I`` plus the Gram matrix of the core rows so far (lower triangle). Updated in place.
    n_core : int
        Number of core rows in ``H``.
    tau : float
        The threshold; ``math.inf`` where only forced rows are to be selected.
    forced : array of shape (n,), bool, optional
        Rows that are selected whatever their leverage, in their turn: those after them see them.
    block_rows, chunk_rows : int, optional
        Rows screened at once and rows decided at once. They change the speed and nothing else.

    Notes
    -----
    *Law*: the selection is that of the literal loop ``if g'H^-1g > tau: select; H += g g'`` in exact arithmetic,
    ``g'H^-1g > tau or forced`` where some are forced.
    *Cost*: n d^2 float32 flops to screen and about 3 d^2 + d^3 / chunk flops a candidate; memory beside the result:
    three d x d matrices and one block.
    *Source*: Algorithm 1, procedure BBQSampler.
    """
    d = grid.n_columns
    chunk = chunk_rows or min(1024, max(96, (3 * d) // 4))
    block = block_rows or max(chunk, min(32768, 2**21 // d))
    if tau == 0.0:  # every row but zero is selected: large chunks, nothing to screen
        chunk = chunk_rows or block
    low, n = 0, len(rows)
    run = _Run(rows, H, n_core, grid, units, tau, np.zeros(n, dtype=bool) if forced is None else forced)
    while low < n:
        # While most rows are selected, screening them first would be work for nothing.
        high = min(n, low + (chunk if run.crowded else block))
        run.queue(low, high, screening=tau > 0.0 and not run.crowded)
        while run.waiting >= chunk:
            run.decide(chunk)
        low = high
        if progress is not None:
            progress(low, n)
    while run.waiting:
        run.decide(chunk)
    index = np.concatenate(run.selected) if run.selected else np.empty(0, dtype=np.intp)
    return Selection(index, run.batches, run.decisions)


class _Run:
    """Working memory of one call of :func:`select`."""

    def __init__(
        self, rows: RowSource, H: Float64s, n_core: int, grid: Grid, units: int, tau: float, forced: Mask
    ) -> None:
        self.rows, self.H, self.n_core, self.forced = rows, H, n_core, forced
        self.grid, self.units, self.tau = grid, units, tau
        self._factor: Factor | None = None
        self.factored = False  # whether _factor is that of H as it is
        self.screen: Screen | None = None
        self.wasted = 0  # candidates decided against since the screen was made: how stale it is
        self.outdated = True  # whether H changed since the screen was made
        self.crowded = True  # whether most rows met last were selected
        self.pending: list[npt.NDArray[np.intp]] = []
        self.waiting = 0
        self.selected: list[npt.NDArray[np.intp]] = []
        self.batches: list[Integers] = []
        self.decisions = Decisions()
        self.ties: set[bytes] = set()  # rows decided against exactly; leverage only falls, so their equals are out too

    @property
    def factor(self) -> Factor | None:
        """The factor of ``H`` as it is, made when first needed."""
        if not self.factored:
            self._factor, self.factored = factor(self.H, self.units), True
        return self._factor

    def queue(self, low: int, high: int, *, screening: bool) -> None:
        """Put the rows low..high that may be selected into the queue."""
        index = np.arange(low, high, dtype=np.intp)
        if self.tau == np.inf:
            index = index[self.forced[low:high]]
            self.decisions.certified += high - low - len(index)
        elif screening:
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

    def decide(self, size: int) -> None:
        """Decide the first ``size`` rows of the queue and select those above the threshold."""
        joined = np.concatenate(self.pending)
        index, rest = joined[:size], joined[size:]
        self.pending, self.waiting = [rest], len(rest)
        G = self.rows.take(index)
        if self.ties:
            known = np.fromiter((g.tobytes() in self.ties for g in G), dtype=bool, count=len(G)) & ~self.forced[index]
            self.decisions.certified += int(np.count_nonzero(known))
            index, G = index[~known], G[~known]
            if not len(index):
                return
        with few_threads(float(len(index)) * len(self.H) ** 2):
            self._select(index, G, self._decide(G, self.forced[index]))

    def _select(self, index: npt.NDArray[np.intp], G: Integers, chosen: Mask) -> None:
        """Take the chosen rows into ``H``."""
        k = int(np.count_nonzero(chosen))
        self.wasted += len(index) - k
        self.crowded = self.crowded and 2 * k > len(index)
        if k == 0:
            return
        guard_exactness(self.n_core + k, self.grid, self.units)
        G = G[chosen]
        add_rows(self.H, G)  # Algorithm 1, line 6
        self.n_core += k
        self._factor, self.factored, self.outdated = None, False, True
        self.selected.append(index[chosen])
        self.batches.append(G)

    def _decide(self, G: Integers, forced: Mask) -> Mask:
        """Which rows of a chunk are selected, in order. Algorithm 1, line 4."""
        if self.tau == 0.0 or forced.all():  # H is positive definite
            self.decisions.certified += len(G)
            return np.asarray(G.any(axis=1)) | forced
        chosen = np.zeros(len(G), dtype=bool)
        eta, current = np.inf, self.factor
        if current is not None:
            Y = whiten(current, G.astype(np.float64, order="C"))
            q = np.einsum("ij,ij->j", Y, Y)
            eta = gram_error(current, float(q.sum()), len(G))
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything: every row is decided exactly
            self.decisions.certified += int(np.count_nonzero(forced))
            for i in range(len(G)):
                chosen[i] = forced[i] or self._exceeds(G, i, np.flatnonzero(chosen[:i]))
            return chosen
        candidates = np.flatnonzero((1.0 + q > (1.0 + self.tau) * (1.0 - 2.0 * eta)) | forced)
        self.decisions.certified += len(G) - len(candidates)
        if len(candidates):
            if len(candidates) < len(G):
                Y = Y[:, candidates]
            B = blas.dsyrk(1.0, Y, trans=1, lower=1)
            B.flat[:: len(B) + 1] += 1.0
            chosen[candidates] = self._bracket(B, eta, G, candidates, forced[candidates])
        return chosen

    def _bracket(self, B: Float64s, eta: float, G: Integers, candidates: npt.NDArray[np.intp], sure: Mask) -> Mask:
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
            pivots = _pivots(B, np.flatnonzero(possible), open_rows)  # lower bounds: too many assumed selected
            sure[open_rows[pivots > above]] = True
            open_rows = np.flatnonzero(possible & ~sure)
            if len(open_rows):
                pivots = _pivots(B, np.flatnonzero(sure), open_rows)  # upper bounds: too few assumed selected
                possible[open_rows[pivots <= below]] = False
                open_rows = np.flatnonzero(possible & ~sure)
            if len(open_rows) == before:  # float64 cannot tell: the first open row is decided exactly
                i = open_rows[0]
                self.decisions.certified -= 1
                if self._exceeds(G, int(candidates[i]), candidates[np.flatnonzero(sure[:i])]):
                    sure[i] = True
                else:
                    equals = (G[candidates[open_rows]] == G[candidates[i]]).all(axis=1)
                    possible[open_rows[equals]] = False

    def _exceeds(self, G: Integers, i: int, earlier: npt.NDArray[np.intp]) -> bool:
        guard_exactness(self.n_core + len(earlier), self.grid, self.units)
        H = self.H.copy(order="F")
        add_rows(H, G[earlier])
        verdict, rational = exceeds(G[i], H, self.units, self.tau)
        if not verdict:
            self.ties.add(G[i].tobytes())
        if rational:
            self.decisions.exact += 1
        else:
            self.decisions.enclosed += 1
        return verdict


def _pivots(B: Float64s, taken: npt.NDArray[np.intp], asked: npt.NDArray[np.intp]) -> Float64s:
    """For each asked row: its Cholesky pivot in ``B`` restricted to the taken rows before it and itself."""
    part = B if len(taken) == len(B) else np.asfortranarray(B[np.ix_(taken, taken)])
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
    return out
