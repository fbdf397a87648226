"""Is ``g' H^-1 g`` above the threshold? Three levels, each certified, the last one exact.

1. *Screening* (float32): one triangular product over a big block; a row whose upper bound is at or below the
   threshold is out. Safe with a stale factor, because ``H`` only grows while learning and leverage only falls.
2. *Certified decision* (float64): Schur complements with an a-priori error bound, in :class:`Run`. Two facts make them
   BLAS-3, pivots are leverages, and bracketing: see :mod:`erasable.core.selector`.
3. *Enclosure*, then *exact*: :func:`exceeds` narrows ``g'H^-1g`` with exact residuals and, for a true tie, solves in
   rationals.

Sparse rows take another way through the first two: :mod:`erasable.core.sparse_deciding`.

Bounds follow Higham, *Accuracy and Stability of Numerical Algorithms*, 2nd ed.: theorems 8.5 (triangular systems), 10.3
(Cholesky) and section 3.5 (products); they hold for any order of summation. ``u`` is the unit roundoff. Every
first-order bound is taken twice (the float32 product 1.1 times, plus spare terms) to cover second-order terms; see
docs/exactness.md.

Overwrites the rows handed to :func:`whiten` and :func:`survivors`, and adds selected rows to the sums it is given.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import astuple, dataclass
from fractions import Fraction
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from erasable.core.arrays import Booleans, Float64s, Integers, Matrix, Positions
from erasable.core.grid import Grid, not_zero
from erasable.core.products import add_gram, divide_by_triangle, gram_of_rows, invert_triangle, multiply_by_triangle
from erasable.core.sums import add_rows, component, factorise, guard_exactness, solutions, solve_exactly, symmetric
from erasable.core.threads import Shared, few_threads, in_threads, limited, n_threads, numbers_at_once

U32, U64 = 2.0**-24, 2.0**-53


@dataclass(frozen=True)
class Factor:
    """A Cholesky factor of ``H`` with what is needed to bound its errors.

    ``spread`` is ``tr(H) / lambda``, an upper bound on the condition number of ``H``.
    """

    L: Float64s
    spread: float

    @property
    def error(self) -> float:
        """``|v'(LL' - H)v| <= error * v'Hv`` for every v (Higham, theorem 10.3)."""
        return 2.0 * (len(self.L) + 4) * U64 * self.spread


def factor(H: Float64s, units: int) -> Factor | None:
    """Factor ``H`` (lower triangle, Fortran order); None where float64 is too coarse for its errors to be bounded."""
    trace = float(np.trace(H))
    if trace == units * len(H):  # a Gram matrix of trace zero is zero
        root = np.zeros_like(H)
        np.fill_diagonal(root, math.sqrt(units))
        return Factor(root, float(len(H)))
    L = factorise(H)
    if L is None:
        return None
    made = Factor(L, trace / units)
    return made if made.error < 0.1 else None


def whiten(f: Factor, rows: Float64s) -> Float64s:
    """``L^-1 rows'``, shape (d, m), Fortran order: the squared norm of a column is that row's leverage.

    ``rows`` is float64 of shape (m, d), C order, and is overwritten.
    """
    divide_by_triangle(f.L, rows)
    return rows.T


def gram_error(f: Factor, trace: float, size: int) -> float:
    """``eta`` with ``|v'(computed - true)v| <= eta * v'(I + K)v`` for Cholesky factors of I + K through ``f``.

    ``K = G H^-1 G'`` for at most ``size`` rows G, ``trace`` the computed trace of K. The pivots of ``I + K`` are one
    plus the sequential leverages, and a pivot is a minimum of ``v'(I + K)v``, so eta is also their relative error.
    """
    d = len(f.L)
    solving = 2.0 * (d + 8) * U64 * math.sqrt(f.spread * max(trace, 1.0))
    products = 2.0 * (d + 4) * U64 * trace
    pivots = 2.0 * (size + 4) * U64 * (size + trace)
    return 1.01 * (f.error + solving + products + pivots)


@dataclass(frozen=True)
class Screen:
    """All a worker needs to discard rows: a float32 inverse factor and the largest squared norm to discard.

    ``M`` (d, d) acts on the features; ``tail`` and ``offset`` give the last whitened coordinate where there is an
    intercept.
    """

    M: npt.NDArray[np.float32]
    tail: npt.NDArray[np.float32] | None
    offset: float
    limit: float


def screen(f: Factor, grid: Grid, units: int, tau: float, *, on_grid: bool = False) -> Screen | None:
    """A certified float32 screen from a factor; None where float32 is too coarse to discard anything.

    Parameters
    ----------
    f : Factor
        Of ``H`` now or at any earlier moment of the same learning run.
    on_grid : bool
        Whether the rows to screen are already grid rows; otherwise the limit also covers putting them on the grid.

    Notes
    -----
    *Law*: a row that :func:`survivors` discards has ``g'H^-1g <= tau``.
    *Cost*: d^3 / 3 flops and two d x d arrays.
    """
    d = grid.n_features
    M = f.L.copy(order="F")  # zero above the diagonal
    if not invert_triangle(M):
        return None
    norm_M = math.sqrt(float(np.einsum("ij,ij->", M, M)))
    # ``|M g|`` against ``|L^-1 g|``: residual of the inverse, in whichever side LAPACK leaves it small.
    inverse = 2.0 * (d + 5) * U64 * (norm_M * math.sqrt(f.spread * units)) ** 2 + f.error
    rounding = 2.0 * (d + 8) * U32  # of sums of squares and of the row's norm, relative
    product = 1.1 * (d + 8) * U32 * norm_M * (grid.radius + 1.0)  # of the float32 product, absolute
    moved = 0.0 if on_grid else grid.slack / math.sqrt(units)
    root = (math.sqrt(tau) * (1.0 - inverse) - moved - product) * (1.0 - rounding)
    if inverse >= 0.5 or root <= 0.0:
        return None
    np.ldexp(M, grid.bits, out=M)  # in units of one; a power of two does not round
    tail = M[d, :d].astype(np.float32) if grid.intercept else None
    offset = float(np.float32(M[d, d])) * math.ldexp(grid.constant, -grid.bits) if grid.intercept else 0.0
    return Screen(M[:d, :d].astype(np.float32, order="F"), tail, offset, root * root * (1.0 - 2.0**-40))


def survivors_among(rows: OrderedRows, low: int, high: int, s: Screen) -> npt.NDArray[np.bool_]:
    """Which of the rows low..high the screen cannot discard; several threads share them."""
    with few_threads(0.0):
        return np.concatenate(screening(rows, low, high, s).results())


def screening(rows: OrderedRows, low: int, high: int, s: Screen) -> Shared[Any, Booleans]:
    """The same in parts, which other threads begin."""
    step = max(1, min(numbers_at_once() // len(s.M), -(-(high - low) // n_threads())))
    parts = [slice(first, min(high, first + step)) for first in range(low, high, step)]
    if rows.shared:
        return Shared(lambda part: survivors(*rows.approximate(part.start, part.stop), s), parts)
    X, factors = rows.approximate(low, high)
    parts = [slice(part.start - low, part.stop - low) for part in parts]
    return Shared(lambda part: survivors(X[part], factors[part], s), parts)


def survivors(X: npt.NDArray[np.float32], factors: Float64s, s: Screen) -> npt.NDArray[np.bool_]:
    """Rows that the screen cannot discard.

    Parameters
    ----------
    X : array of shape (n, n_features), float32, C order
        Rows up to a factor; overwritten.
    factors : array of shape (n,), float64
        ``factors[i] * X[i]`` is row i in units of one; NaN where the row must not be screened.

    Notes
    -----
    *Cost*: n d^2 flops in one float32 triangular product.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # of rows that must not be screened
        last = factors * (X @ s.tail) + s.offset if s.tail is not None else 0.0
    multiply_by_triangle(s.M, X)
    square: Float64s = factors * factors * np.einsum("ij,ij->i", X, X) + last * last
    return ~(square <= s.limit)


def exceeds(
    g: Integers, H: Float64s, units: int, tau: float | Fraction, *, or_equals: bool = False
) -> tuple[bool, bool]:
    """Whether ``g'H^-1g > tau`` (or ``>= tau``), decided exactly; and whether rational arithmetic was needed.

    Parameters
    ----------
    g : array of shape (d,), integers
    H : array of shape (d, d), float64 integers, lower triangle
    units : int
        A lower bound on the eigenvalues of H.

    Notes
    -----
    *Law*: for any z and rho = g - H z: ``g'H^-1g = g'z + z'rho + rho'H^-1rho`` and ``0 <= rho'H^-1rho <= |rho|^2 /
    units``.
    *Cost*: one Cholesky factor and a few O(d^2) steps; a true tie costs an exact solve over the coordinates linked
    to g.
    """
    above, below = tau.as_integer_ratio()  # tau = above / below
    if not g.any():
        return above < 0 or (or_equals and above == 0), False
    g_int = g.astype(np.int64)
    for r in solutions(H, g_int[:, None], units):
        z = r.Z[:, 0].tolist()
        rho = r.residual[:, 0].tolist()
        scale = 1 << r.exponent
        lower = scale * sum(a * b for a, b in zip(g_int.tolist(), z, strict=True)) + sum(
            a * b for a, b in zip(z, rho, strict=True)
        )  # over scale^2
        width = sum(a * a for a in rho)  # over scale^2 * units
        margin = lower * below - above * scale * scale
        if margin > 0 or (or_equals and margin == 0):
            return True, False
        margin = (lower * units + width) * below - above * scale * scale * units
        if margin < 0 or (margin == 0 and not or_equals):
            return False, False
    margin = _leverage_rationally(g_int, symmetric(H)) * below - above
    return bool(margin > 0 or (or_equals and margin == 0)), True


def _leverage_rationally(g: npt.NDArray[np.int64], H: npt.NDArray[np.int64]) -> Any:
    linked = component(H, np.flatnonzero(g))
    z = solve_exactly(H[np.ix_(linked, linked)], g[linked])
    return sum((int(a) * b for a, b in zip(g[linked], z, strict=True)), start=0 * z[0])


class OrderedRows(Protocol):
    """Rows in learning order, as the selector reads them."""

    on_grid: bool

    @property
    def shared(self) -> bool:
        """Whether threads may read rows at the same time."""
        ...

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
    enclosed: int = 0  # decided by an enclosure
    exact: int = 0  # decided in rational arithmetic

    def __add__(self, other: Decisions) -> Decisions:
        return Decisions(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Run(ABC):
    """Working memory of one selection: rows queue up, and are decided and selected a chunk at a time."""

    def __init__(
        self, rows: OrderedRows, H: Float64s, n_core: int, grid: Grid, units: int, tau: float, forced: Booleans
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

    def look_ahead(self, low: int, high: int) -> None:  # noqa: B027
        """Other threads may begin what ``queue`` of these rows will need, while chunks of the queue are decided."""

    def stop(self) -> None:  # noqa: B027
        """Let no other thread go on."""

    @abstractmethod
    def next_chunk(self, size: int) -> tuple[Positions, Any]:
        """Take the first ``size`` rows out of the queue: their positions, and the rows on the grid."""

    @abstractmethod
    def decided(self, G: Matrix, forced: Booleans) -> Booleans:
        """Which rows of a chunk are selected, in order, where the threshold is neither zero nor infinite."""

    @abstractmethod
    def keys(self, G: Matrix) -> list[bytes]:
        """For each row, bytes that equal rows share and no others."""

    @abstractmethod
    def dense_row(self, G: Matrix, i: int) -> Integers:
        """One row, dense."""

    def candidates_in(self, low: int, high: int) -> Positions:
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

    def _select(self, index: Positions, G: Matrix, chosen: Booleans) -> None:
        """Add the chosen rows to ``H`` and to the result."""
        k = int(np.count_nonzero(chosen))
        self.crowded = self.crowded and 2 * k > len(index)
        if k:
            guard_exactness(self.n_core + k, self.grid, self.units)
            self.add(G, chosen)  # Algorithm 1, line 6
            self.n_core += k
            self.selected.append(index[chosen])
        self.after_chunk(chosen)

    def add(self, G: Matrix, chosen: Booleans) -> None:
        """Add the chosen rows to ``H``; where they wait to be added, :meth:`add_pending_rows` does it."""
        G = G[chosen]
        add_rows(self.H, G, 1.0, self.grid)
        self.batches.append(G)

    def add_pending_rows(self) -> Float64s:
        """``H`` with all rows selected so far."""
        return self.H

    def after_chunk(self, chosen: Booleans) -> None:  # noqa: B027
        """Called when the chosen rows of a chunk are in ``H``."""

    def one_by_one(self, G: Matrix, forced: Booleans) -> Booleans:
        """Which rows of a chunk are selected, every one decided exactly."""
        chosen = np.zeros(len(forced), dtype=bool)
        self.decisions.certified += int(np.count_nonzero(forced))
        for i in range(len(forced)):
            chosen[i] = forced[i] or self._exceeds(G, i, np.flatnonzero(chosen[:i]))
        return chosen

    def bracketed(
        self, q: Float64s, gram: Callable[[Positions], Float64s], eta: float, G: Matrix, forced: Booleans
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

    def _bracket(self, B: Float64s, eta: float, G: Matrix, candidates: Positions, sure: Booleans) -> Booleans:
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

    def _exceeds(self, G: Matrix, i: int, earlier: Positions) -> bool:
        guard_exactness(self.n_core + len(earlier), self.grid, self.units)
        H = self.add_pending_rows().copy(order="F")
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
        self.begun: Shared[Any, Booleans] | None = None  # screening of the rows to come

    @property
    def factor(self) -> Factor | None:
        """The factor of ``H`` as it is, made when first needed."""
        if not self.factored:
            self._factor, self.factored = factor(self.H, self.units), True
        return self._factor

    def queue(self, low: int, high: int) -> None:
        """See :class:`Run`; while most rows are selected, screening them first would be work for nothing."""
        index = self.candidates_in(low, high)
        if self.begun is None:
            self._screen(low, high)
        if self.begun is not None:
            index = index[np.concatenate(self.begun.results()) | self.forced[low:high]]
            self.decisions.screened += high - low - len(index)
            self.begun = None
        if len(index):
            self.pending.append(index)
            self.waiting += len(index)
        self.crowded = 2 * len(index) > high - low

    def look_ahead(self, low: int, high: int) -> None:
        """See :class:`Run`; of no use where this thread alone reads the rows, or where BLAS shall have its threads."""
        if low < high and self.rows.shared and limited():
            self._screen(low, high)

    def _screen(self, low: int, high: int) -> None:
        """Begin to screen these rows, by the factor of this moment or a little older one."""
        if not 0.0 < self.tau < np.inf or self.crowded:
            return
        if self.outdated and (self.screen is None or self.wasted > 64) and self.factor is not None:
            self.screen = screen(self.factor, self.grid, self.units, self.tau, on_grid=self.rows.on_grid)
            self.wasted, self.outdated = 0, False
        if self.screen is not None:
            self.begun = screening(self.rows, low, high, self.screen)

    def stop(self) -> None:
        """See :class:`Run`."""
        if self.begun is not None:
            self.begun.stop()

    def next_chunk(self, size: int) -> tuple[Positions, Integers]:
        """See :class:`Run`; the factor that the chunk needs is made meanwhile."""
        joined = np.concatenate(self.pending)
        index, rest = joined[:size], joined[size:]
        self.pending, self.waiting = [rest], len(rest)
        parts = max(1, min(n_threads(), 2 * index.size * len(self.H) // numbers_at_once())) if self.rows.shared else 1
        work: list[Positions | None] = list(np.array_split(index, parts))
        if parts > 1 and 0.0 < self.tau < np.inf:
            work.insert(0, None)  # the factor
        taken: list[Any] = in_threads(lambda part: self.factor if part is None else self.rows.take(part), work)
        return index, np.concatenate(taken[-parts:])

    def add(self, G: Integers, chosen: Booleans) -> None:
        """See :class:`Run`."""
        G = G[chosen]
        add_gram(self.H, G.astype(np.float64, order="C"))
        self.batches.append(G)

    def after_chunk(self, chosen: Booleans) -> None:
        """See :class:`Run`."""
        self.wasted += int(np.count_nonzero(~chosen))
        if chosen.any():
            self._factor, self.factored, self.outdated = None, False, True

    def decided(self, G: Integers, forced: Booleans) -> Booleans:
        """See :class:`Run`."""
        eta, current = np.inf, self.factor
        if current is not None:
            Y = whiten(current, G.astype(np.float64, order="C"))
            q = np.einsum("ij,ij->i", Y.T, Y.T)
            eta = gram_error(current, float(q.sum()), len(G))
        if eta >= 0.25:  # float64 is too coarse for the bounds to mean anything
            return self.one_by_one(G, forced)

        def gram(candidates: Positions) -> Float64s:
            B = gram_of_rows(Y.T if len(candidates) == len(G) else Y.T[candidates])
            B.flat[:: len(B) + 1] += 1.0
            return B

        chosen = self.bracketed(q, gram, eta, G, forced)
        self.pivoted = None
        return chosen

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
