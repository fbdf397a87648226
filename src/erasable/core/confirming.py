"""Are all rows of a state selected again? A certified yes in less time than selecting them takes, by two threads.

Three facts make it quick:

- *Later rows only lower a leverage.* A row whose leverage against all rows up to the end of its chunk, without itself,
  is above the threshold was above it in its turn, too. One float32 product settles most rows of a chunk.
- *Lower bounds.* For the others, ``g'A^-1g >= 2 g'z - z'A z`` for every z, where ``A`` has the rows before g alone. The
  first z is ``H^-1 g`` with ``H`` at the end of the chunk; Newton's steps improve it.
- *Two ends.* One thread adds chunks to nothing, the other subtracts chunks from the claimed sums, from the last row
  backwards. The claim is right if and only if their sums are equal where they meet: sums are exact.

Rows that are not confirmed have to be selected by :mod:`erasable.core.selector`, which decides every row. NumPy's
products are used because most of SciPy's keep other threads waiting. Changes nothing it is given.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import numpy as np
from scipy.linalg import lapack

from erasable.core.arrays import Booleans, Float32s, Float64s, Integers, Positions
from erasable.core.deciding import U32, U64, exceeds
from erasable.core.grid import Grid
from erasable.core.products import multiply_by_triangle
from erasable.core.sums import empty_gram, exact_rows
from erasable.core.threads import few_threads

_LEAST, _MOST = 128, 2048  # rows of a chunk
_STEPS = 3  # evaluations of the lower bound
_FEW = 4  # rows of a chunk that are decided exactly
_STRIPES = 4  # of a triangle of products: most of those above it are left out


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
    n, H = len(rows), np.tril(claimed) + np.tril(claimed, -1).T
    if 2 * n > exact_rows(grid, units) or not (np.abs(H) <= 2.0**52).all() or (np.rint(H) != H).any():
        return False
    walk = _Walk(rows, grid, units, tau, np.zeros(n, dtype=bool) if forced is None else forced, progress)
    start, middle = empty_gram(grid, units), n // 2 if n >= _LEAST else 0
    with few_threads(0.0), ThreadPoolExecutor(1) as other:
        backward = other.submit(walk.backward, H, middle, n)
        try:
            forward = walk.forward(start, 0, middle)
        except BaseException:
            walk.stop.set()
            raise
        confirmed = backward.result() and forward and np.array_equal(start, H)
    if confirmed and progress is not None:
        progress(n, n)
    return confirmed


@dataclass
class _Walk:
    """Two ways through the rows, until one of them meets a row that is not confirmed."""

    rows: Integers
    grid: Grid
    units: int
    tau: float
    forced: Booleans
    progress: Callable[[int, int], None] | None
    stop: threading.Event = field(default_factory=threading.Event)

    def forward(self, H: Float64s, low: int, high: int) -> bool:
        """Add the chunks to ``H`` and confirm each."""
        size = self._first_size
        while low < high and not self.stop.is_set():
            part = slice(low, min(low + size, high))
            G = self.rows[part].astype(np.float64)
            H += G.T @ G
            size = self._confirm(G, H, part, size)
            low = part.stop
            if self.progress is not None:
                self.progress(min(2 * low, len(self.rows) - 1), len(self.rows))
        return not self.stop.is_set()

    def backward(self, H: Float64s, low: int, high: int) -> bool:
        """Confirm the chunks from the last to the first and subtract each from ``H``."""
        size = max(_LEAST, self._first_size // 2)  # the last rows have the smallest leverages
        while low < high and not self.stop.is_set():
            part = slice(max(low, high - size), high)
            G = self.rows[part].astype(np.float64)
            size = self._confirm(G, H, part, size)
            H -= G.T @ G
            high = part.start
        return not self.stop.is_set()

    @property
    def _first_size(self) -> int:
        return min(_MOST, max(_LEAST, 3 * self.grid.n_columns))

    def _confirm(self, G: Float64s, H: Float64s, part: slice, size: int) -> int:
        """Confirm a chunk, or stop both ways; how many rows to take next, by how many took more than one product."""
        sure, opened = self._sure(G, H, self.forced[part].copy())
        if not sure.all():
            self.stop.set()
        if 2 * opened > len(G):
            return max(_LEAST, size // 2)
        return min(_MOST, size * 2) if 8 * opened < len(G) else size

    def _sure(self, G: Float64s, H: Float64s, sure: Booleans) -> tuple[Booleans, int]:
        """The rows that are certainly selected, and how many were open after the first product.

        The bounds are those of :mod:`erasable.core.deciding`, where ``screen`` discards rows.
        """
        d, trace = len(H), float(H.trace())
        error = 2.0 * (d + 4) * U64 * trace / self.units  # of the factor
        try:
            L = np.linalg.cholesky(H)
        except np.linalg.LinAlgError:
            return sure, len(G)
        inverted, info = lapack.dtrtri(L.T, lower=0, overwrite_c=1)
        M: Float64s = inverted.T
        norm_M = math.sqrt(float(np.einsum("ij,ij->", M, M)))
        inverse = 2.0 * (d + 5) * U64 * norm_M**2 * trace + error
        if info != 0 or not inverse < 0.1:
            return sure, len(G)
        rounding, product = 2.0 * (d + 8) * U32, 1.1 * (d + 8) * U32 * norm_M * (self.grid.radius + 1.0)
        Y = _whitened(np.ldexp(G, -self.grid.bits), np.ldexp(M, self.grid.bits))
        length = np.sqrt(np.einsum("ij,ij->i", Y, Y).astype(np.float64))
        least = np.maximum(length * (1.0 - rounding) - product, 0.0) / (1.0 + inverse)
        # A leverage of tau against the other rows is one of tau / (1 + tau) against H, which includes the row.
        limit = self.tau / (1.0 + self.tau) * (1.0 + 2.0**-40)
        sure |= least * least > limit
        asked = np.flatnonzero(~sure)
        opened = len(asked)
        if opened:
            top = float(length.max())
            off = product + 1.1 * (inverse + rounding) * top  # how far a whitened row may be from the true one
            off = 2.0 * top * off + off * off + rounding * top * top  # and a product of two of them
            later = _later(Y, asked) * (1.0 - (len(G) + 8) * U32) - math.sqrt(len(G)) * off
            asked = asked[~(least[asked] ** 2 + np.maximum(later, 0.0) ** 2 > limit)]
            sure[:] = True
            sure[self._open(G, H, M, asked)] = False
        return sure, opened

    def _open(self, G: Float64s, H: Float64s, M: Float64s, asked: Positions) -> Positions:
        """Those of the rows asked about that a lower bound of their leverage does not confirm.

        ``M'M`` is about the inverse of ``H``; results do not depend on its quality.
        """
        trace, places = float(H.trace()), np.arange(len(G))
        rows = G[asked]
        Z = (rows @ M.T) @ M
        for _ in range(_STEPS):
            HZ, U = Z @ H, Z @ G.T
            U[places < asked[:, None]] = 0.0  # of the row itself and those after it: they are not in A
            bound = 2.0 * np.einsum("ij,ij->i", rows, Z) - np.einsum("ij,ij->i", HZ, Z) + np.einsum("ij,ij->i", U, U)
            length, norm = (np.sqrt(np.einsum("ij,ij->i", part, part)) for part in (Z, rows))
            doubt = 16.0 * (len(H) + len(G) + 8) * U64 * (norm * length + length * length * trace)
            left: Booleans = ~(bound - doubt > self.tau * (1.0 + 2.0**-50))
            if not left.any():
                return asked[left]
            asked, rows, Z, HZ, U = asked[left], rows[left], Z[left], HZ[left], U[left]
            Z = Z + ((rows - HZ + U @ G) @ M.T) @ M
        if len(asked) > _FEW:
            return asked
        left = np.array([not self._exceeds(G, H, int(i)) for i in asked], dtype=bool)
        return asked[left]

    def _exceeds(self, G: Float64s, H: Float64s, i: int) -> bool:
        before = np.asfortranarray(H - G[i:].T @ G[i:])
        return exceeds(G[i].astype(np.int64), before, self.units, self.tau)[0]


def _whitened(X: Float64s, M: Float64s) -> Float32s:
    """``M x`` for each row, by products in float32; M is a lower triangle."""
    Y = X.astype(np.float32)
    with np.errstate(invalid="ignore"):  # some float32 kernels raise the flag over lanes that they do not use
        multiply_by_triangle(M.astype(np.float32, order="F"), Y)
    return Y


def _later(Y: Float32s, asked: Positions) -> Float64s:
    """For each whitened row asked about, the norm of its products with the rows after it.

    Without those rows the square of its length is larger, at least by the square of this.
    """
    found, step = np.zeros(len(asked)), -(-len(Y) // _STRIPES)
    with np.errstate(invalid="ignore"):  # as above
        for low in range(0, len(Y), step):
            mine = slice(*np.searchsorted(asked, (low, low + step)))
            K = Y[asked[mine]] @ Y[low:].T
            K[np.arange(low, len(Y)) <= asked[mine, None]] = 0.0
            found[mine] = np.sqrt(np.einsum("ij,ij->i", K, K))
    return found
