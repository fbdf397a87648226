"""Are all rows of a state selected again? A certified yes in less time than selecting them takes, by two threads.

Three facts make it quick:

- *Later rows only lower a leverage.* A row whose leverage against all rows up to the end of its chunk, without itself,
  is above the threshold was above it in its turn, too. One float32 product settles most rows of a chunk.
- *Lower bounds.* Without later rows R a leverage is ``y'(I - Q)^-1 y`` for whitened rows, ``Q = R'R``, so at least
  ``y'y + y'Qy + y'QQy``. For what is open then, ``g'A^-1g >= 2 g'z - z'A z`` for every z, where ``A`` has the rows
  before g alone. The first z is ``H^-1 g`` with ``H`` at the end of the chunk; Newton's steps improve it.
- *Two ends.* One thread adds chunks to nothing, the other subtracts chunks from the claimed sums, from the last row
  backwards. The claim is right if and only if their sums are equal where they meet: sums are exact.

Where the two meet depends on their speed, which decides no more than how many rows are confirmed. Rows that are not
have to be selected by :mod:`erasable.core.selector`, which decides every row. Changes nothing it is given.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Float32s, Float64s, Integers, Positions
from erasable.core.deciding import U32, U64, exceeds
from erasable.core.grid import Grid
from erasable.core.products import add_gram, cholesky, invert_triangle, multiply_by_triangle
from erasable.core.sums import empty_gram, exact_rows
from erasable.core.threads import Shared, few_threads

_LEAST, _MOST = 128, 4096  # rows of a chunk
_AT_ONCE = 2**18  # numbers of rows that are turned into float64
_STEPS = 3  # evaluations of the lower bound
_FEW = 4  # rows of a chunk that are decided exactly
_TOGETHER = 192  # rows that are multiplied by those after the first of them
_TURNS = 4  # of a power iteration


def all_selected(
    rows: Integers,
    claimed: Float64s,
    *,
    grid: Grid,
    units: int,
    tau: float,
    forced: Booleans | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> bool:
    """Whether it is certain that all rows are selected in order, and that ``claimed`` is their ``H``.

    Parameters
    ----------
    rows : array of shape (n, n_columns)
        Dense rows on the grid.
    claimed : array of shape (n_columns, n_columns), float64
        Lower triangle of what is said to be ``units * I`` plus the Gram matrix of the rows.
    tau : float
        The threshold; neither zero nor infinite.
    forced : array of shape (n,), bool, optional
        Rows that are selected whatever their leverage.

    Notes
    -----
    *Law*: if true, ``select`` of these rows selects all of them and gives this ``H``. If false, it may do so all the
    same.
    *Cost*: about ``2 n d^2`` flops, half of them in float32.
    """
    n, H = len(rows), np.asfortranarray(np.tril(claimed))
    if 2 * n > exact_rows(grid, units) or not (np.abs(H) <= 2.0**52).all() or (np.rint(H) != H).any():
        return False
    walk = _Walk(rows, grid, units, tau, np.zeros(n, dtype=bool) if forced is None else forced, progress)
    start, first = empty_gram(grid, units), walk.taken(walk.first_size, first=True) if n >= _LEAST else None
    with few_threads(0.0), Shared(partial(walk.gone, walk.backward), [H], helpers=1) as other:
        forward = walk.gone(walk.forward, start, first)
        confirmed = walk.gone(lambda: other.results()[0]) and forward and np.array_equal(start, H)
    if confirmed and progress is not None:
        progress(n, n)
    return confirmed


@dataclass
class _Walk:
    """Two ways through the rows, until they meet or one of them finds a row that is not confirmed."""

    rows: Integers
    grid: Grid
    units: int
    tau: float
    forced: Booleans
    progress: Callable[[int, int], None] | None
    stopped: bool = False

    def __post_init__(self) -> None:
        self.left = deque(range(0, len(self.rows), _LEAST))  # where pieces begin that no thread has taken

    def gone(self, way: Callable[..., bool], *given: Any) -> bool:
        """What a way returns; if it raises, the other one stops."""
        try:
            return way(*given)
        except BaseException:
            self.stopped = True
            raise

    def forward(self, H: Float64s, part: slice | None) -> bool:
        """Add the chunks to ``H``, a lower triangle, and confirm each; ``part`` is the first."""
        size = self.first_size
        while part is not None:
            self._add(H, part, 1.0)
            size = self._confirm(H, part, size)
            if self.progress is not None:
                self.progress(max(0, len(self.rows) - max(1, len(self.left) * _LEAST)), len(self.rows))
            part = self.taken(size, first=True)
        return not self.stopped

    def backward(self, H: Float64s) -> bool:
        """Confirm the chunks from the last to the first and subtract each from ``H``, a lower triangle."""
        size = self.first_size
        while (part := self.taken(size, first=False)) is not None:
            size = self._confirm(H, part, size)
            self._add(H, part, -1.0)
        return not self.stopped

    @property
    def first_size(self) -> int:
        """How many rows to take first."""
        return min(_MOST, max(_LEAST, 2 * self.grid.n_columns))

    def taken(self, size: int, *, first: bool) -> slice | None:
        """The next chunk, or None where nothing is left; smaller ones near the end, for the threads to end alike."""
        left, least = len(self.left), max(_LEAST, self.grid.n_columns) // _LEAST
        pieces = min(max(1, size // _LEAST), max(least, left // 2))
        pieces = left if left - pieces < least else pieces
        begins = list[int]()
        # No lock is held: an interrupted thread would leave it locked. The other thread may take pieces meanwhile.
        while self.left and len(begins) < pieces and not self.stopped:
            try:
                begins.append(self.left.popleft() if first else self.left.pop())
            except IndexError:
                break
        return slice(min(begins), min(max(begins) + _LEAST, len(self.rows))) if begins else None

    def _add(self, H: Float64s, part: slice, sign: float) -> None:
        step = max(1, _AT_ONCE // len(H))
        for low in range(part.start, part.stop, step):
            rows = self.rows[low : min(low + step, part.stop)].astype(np.float64, order="C")
            add_gram(H, rows, sign, shared=False)

    def _confirm(self, H: Float64s, part: slice, size: int) -> int:
        """Confirm a chunk, or stop both ways; how many rows to take next, so that factors and products cost alike."""
        rows, least = self.rows[part], max(len(H), _LEAST) ** 2
        sure, opened = self._sure(rows, H, self.forced[part].copy())
        if not sure.all():
            self.stopped = True
        if opened * len(rows) > 4 * least:
            return max(_LEAST, size // 2)
        return min(_MOST, size * 2) if 2 * opened * len(rows) < least else size

    def _sure(self, rows: Integers, H: Float64s, sure: Booleans) -> tuple[Booleans, int]:
        """The rows that are certainly selected, and how many were open after the first product."""
        M = H.copy(order="F")
        if not (cholesky(M) and invert_triangle(M)):
            return sure, len(rows)
        white = _whitened(rows, M, H, self.grid, self.units)
        if white is None:
            return sure, len(rows)
        # A leverage of tau against the other rows is one of tau / (1 + tau) against H, which includes the row.
        limit = self.tau / (1.0 + self.tau) * (1.0 + 2.0**-40)
        least = white.lengths_at_least() ** 2
        sure |= least > limit
        asked = np.flatnonzero(~sure)
        opened = len(asked)
        if opened:
            asked, W = white.not_above(asked, limit - least[asked])
            sure[:] = True
            if len(asked):
                sure[self._open(rows, H, M, asked, W.astype(np.float64) @ M)] = False
        return sure, opened

    def _open(self, rows: Integers, H: Float64s, M: Float64s, asked: Positions, Z: Float64s) -> Positions:
        """Those of the rows asked about that a lower bound of their leverage does not confirm.

        ``M'M`` is about the inverse of ``H`` and ``Z`` about that of ``A`` times the rows; results do not depend on
        their quality.
        """
        first, trace = int(asked[0]), float(H.trace())
        G = rows[first:].astype(np.float64)  # those before are before every row asked about
        at = asked - first
        g, places = G[at], np.arange(len(G))
        for _ in range(_STEPS):
            HZ, U = Z @ H + Z @ H.T - Z * H.diagonal(), Z @ G.T
            U[places < at[:, None]] = 0.0  # of the row itself and those after it: they are not in A
            bound = 2.0 * np.einsum("ij,ij->i", g, Z) - np.einsum("ij,ij->i", HZ, Z) + np.einsum("ij,ij->i", U, U)
            length, norm = (np.sqrt(np.einsum("ij,ij->i", part, part)) for part in (Z, g))
            doubt = 16.0 * (len(H) + len(G) + 8) * U64 * (norm * length + length * length * trace)
            left: Booleans = ~(bound - doubt > self.tau * (1.0 + 2.0**-50))
            if not left.any():
                return asked[left]
            asked, at, g, Z, HZ, U = asked[left], at[left], g[left], Z[left], HZ[left], U[left]
            Z = Z + ((g - HZ + U @ G) @ M.T) @ M
        if len(asked) > _FEW:
            return asked
        left = np.array([not self._exceeds(G, H, int(i)) for i in at], dtype=bool)
        return asked[left]

    def _exceeds(self, G: Float64s, H: Float64s, i: int) -> bool:
        before = np.asfortranarray(H - G[i:].T @ G[i:])
        if not cholesky(before.copy(order="F")):  # a false claim, or too coarse: it cannot be solved, so not confirmed
            return False
        return exceeds(G[i].astype(np.int64), before, self.units, self.tau)[0]


@dataclass(frozen=True)
class _Whitened:
    """Rows g of a chunk as float32 vectors near ``N g`` for a matrix with ``N'N <= H^-1``.

    Attributes
    ----------
    Y : array of shape (m, d)
    length : array of shape (m,)
        Their computed lengths.
    product, inverse : float
        How far a vector is from ``(1 + inverse) N g`` at most.
    rounding : float
        Of lengths and of products of two vectors, relative.
    """

    Y: Float32s
    length: Float64s
    product: float
    inverse: float
    rounding: float

    def lengths_at_least(self) -> Float64s:
        """For each row a number that the length of ``N g`` is not below."""
        return np.maximum(self.length * (1.0 - self.rounding) - self.product, 0.0) / (1.0 + self.inverse)

    def not_above(self, asked: Positions, missing: Float64s) -> tuple[Positions, Float32s]:
        """Those of the rows asked about whose leverage the rows after them do not certainly lower by more than this.

        With rows R that come later ``g'(H - R'R)^-1 g >= |y|^2 + |k|^2 + |v|^2``, where ``y = Ng``, ``k = RN'y`` and
        ``v = NR'k``. Also returned is about ``y + v`` for each. The factors 1.01 and 1.2 below cover the rounding of
        lengths up to 300,000 columns.
        """
        parts = (slice(low, low + _TOGETHER) for low in range(0, len(asked), _TOGETHER))
        with np.errstate(invalid="ignore"):  # some float32 kernels raise the flag over lanes that they do not use
            found = [self._not_above(asked[part], missing[part]) for part in parts]
        return np.concatenate([left for left, _ in found]), np.concatenate([W for _, W in found])

    def _not_above(self, asked: Positions, missing: Float64s) -> tuple[Positions, Float32s]:
        first, last, m = int(asked[0]), int(asked[-1]), len(self.Y)
        later = self.Y[first:]
        K = self.Y[asked] @ later.T
        K[:, : last + 1 - first] *= np.arange(first, last + 1) > asked[:, None]  # of rows before, and of itself
        k = np.sqrt(np.einsum("ij,ij->i", K, K).astype(np.float64))
        # How far a vector is from N g, all of them are, and how long all are; |NR'| <= 1, because R'R <= H.
        one = (1.0 + self.inverse) * self.product + 1.2 * self.inverse * float(self.length.max())
        off, norm = math.sqrt(m) * one, math.sqrt(float(np.sum(self.length**2)))
        of_k = 1.01 * (one + (off + self.rounding * norm) * self.length[asked])
        missing = missing - np.maximum(k * (1.0 - (m + 8) * U32) - of_k, 0.0) ** 2
        left = np.flatnonzero(~(missing < 0.0))
        V = K[left] @ later
        v = np.sqrt(np.einsum("ij,ij->i", V, V).astype(np.float64))
        of_v = of_k[left] + 1.01 * (off + 2.0 * (m + 8) * U32 * norm) * k[left]
        open_still = ~(missing[left] - np.maximum(v * (1.0 - self.rounding) - of_v, 0.0) ** 2 < 0.0)
        left = asked[left[open_still]]
        return left, self.Y[left] + V[open_still]


def _whitened(rows: Integers, M: Float64s, H: Float64s, grid: Grid, units: int) -> _Whitened | None:
    """Rows as float32 vectors by an approximate inverse of the factor of ``H``; None where errors are not bounded.

    The bounds are those of :mod:`erasable.core.deciding`, where ``screen`` discards rows, but for that of the product:
    an entry i of ``M g`` is a sum of i + 1 products, so that it is ``(i + 9) u |M||g|`` off at most.
    """
    d, trace = len(M), float(H.trace())
    norm_M = math.sqrt(float(np.einsum("ij,ij->", M, M)))
    # Of the inverse, and of the factor.
    inverse = 2.0 * (d + 5) * U64 * norm_M**2 * trace + 2.0 * (d + 4) * U64 * trace / units
    if not inverse < 0.1:
        return None
    rounding = 2.0 * (d + 8) * U32
    B = np.abs(M) * np.arange(9.0, d + 9.0)[:, None]
    features = _norm(B[:, : grid.n_features]) * (grid.ball + 1.0)
    product = 1.1 * U32 * (features + float(B[-1, -1]) * grid.constant)  # the constant is in the last entry alone
    Y = np.multiply(rows, np.float32(2.0**-grid.bits), dtype=np.float32, casting="same_kind")
    with np.errstate(invalid="ignore"):  # as above
        multiply_by_triangle(np.ldexp(M, grid.bits).astype(np.float32, order="F"), Y)
    length = np.sqrt(np.einsum("ij,ij->i", Y, Y).astype(np.float64))
    return _Whitened(Y, length, product, inverse, rounding)


def _norm(B: Float64s) -> float:
    """A bound on the 2-norm of a matrix without negative entries, hardly above it.

    For every positive x no eigenvalue of ``B'B`` is above the largest ratio of entries of ``B'Bx`` and x (Collatz and
    Wielandt).
    """
    x = np.ones(B.shape[1])
    for _ in range(_TURNS):
        product = B.T @ (B @ x)
        largest = float((product / x).max())
        x = np.maximum(product / product.max(), 1e-30)
    return 1.01 * math.sqrt(largest)
