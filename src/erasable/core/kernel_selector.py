"""The single pass over points with a kernel: a point is kept while the kept ones say little about it.

For the ball of radius B in the kernel's space and ``mu = 1 / (4 B^2)`` the disagreement is ``D^2(x; Q) = (k(x, x) - k'
(K + mu I)^-1 k) / mu`` with ``K`` the kernel matrix of Q and ``k`` the values of x against Q. Adding ``mu`` turns the
bracket into the next pivot of a Cholesky factorisation of ``H = K + mu I``, so x is kept when that pivot is above
``mu (1 + tau)``.

``H`` consists of integers (:mod:`erasable.core.kernels`), so the condition is a statement about integers and is
decided exactly: in float64 with a bound, else with exact residuals, else in rationals. Pivots only fall when points are
added, for any positive definite ``H``: that makes the pass stable, and screening whole blocks against an older ``Q``
safe.

*The bound.* Whatever the order of its sums, a Cholesky factorisation in float64 of an N x N matrix M is the exact one
of M + E with ``|E|_2 <= (N + 1) u tr(M) (1 + O(N u))`` (Higham, theorem 10.3, and ``| |L||L'| |_2 <= tr``). With every
eigenvalue of M at least ``floor``, ``(1 - eta) M <= M + E <= (1 + eta) M`` for ``eta = |E|_2 / floor``, and pivots,
being Schur complements, lie within the same factors. Four times the first-order bound is taken.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from erasable.core.grid import Float64s, Integers
from erasable.core.kernels import Kernel, Points
from erasable.core.leverage import U64, exceeds
from erasable.core.selector import Decisions, Progress
from erasable.core.solve import factorise
from erasable.errors import ConfigurationError, InputError

Mask = npt.NDArray[np.bool_]
Choose = Callable[[Integers, int, Mask], bool]


def kernel_matrix(G: Integers, kernel: Kernel, points: Points, units: int) -> Float64s:
    """``H = K + mu I`` of points in units of ``2**-30``, whole, Fortran order."""
    H = kernel.exact(G, G, points)
    H.flat[:: len(H) + 1] += units
    return H


def smallest_eigenvalue(n: int, units: int) -> int:
    """A lower bound on the eigenvalues of ``H`` for n points: rounding a kernel matrix moves them by at most n / 2.

    Raises
    ------
    ConfigurationError
        When so many points would leave no room.
    """
    floor = units - (n + 1) // 2
    if floor < max(1, units // 2):
        raise ConfigurationError(
            f"{n:,} core rows are too many for this capacity: kernel values are rounded to 2**-30, which is fine "
            f"enough for up to {units:,} rows. Raise capacity or threshold."
        )
    return floor


def select_points(
    G: Integers,
    core: Integers,
    *,
    kernel: Kernel,
    points: Points,
    units: int,
    tau: float,
    block_rows: int | None = None,
    chunk_rows: int | None = None,
    progress: Progress | None = None,
) -> tuple[npt.NDArray[np.intp], Decisions]:
    """Positions of the points to keep, in order, after those in ``core``.

    Parameters
    ----------
    G : array of shape (n, d), integers
        Points to learn, in order.
    core : array of shape (m, d), integers
        Points kept before.
    units : int
        ``mu`` in units of ``2**-30``.
    tau : float
        Threshold on D^2.
    block_rows, chunk_rows : int, optional
        Points screened at once and points decided at once. They change the speed and nothing else.

    Notes
    -----
    *Law*: the selection is that of the literal loop ``if D^2(x; Q) > tau: add x to Q`` in exact arithmetic.
    *Cost*: n m^2 flops to screen with m core rows, memory m^2 + block x m.
    *Source*: Algorithm 3 with one stage and points in order; see docs/departures.md.
    """
    run = _Run(core, kernel, points, units, tau)
    low, n = 0, len(G)
    while low < n:
        m = len(run.Q)
        chunk = chunk_rows or max(64, min(512, m // 4))
        high = min(n, low + (block_rows or max(128, min(8192, 4 * m, 2**22 // max(m, 1)))))
        run.queue(G, low, high)
        while run.waiting >= chunk:
            run.decide(G, chunk)
        low = high
        if progress is not None:
            progress(low, n)
    while run.waiting:
        run.decide(G, chunk_rows or 512)
    return np.array(run.selected, dtype=np.intp), run.decisions


class _Run:
    """Working memory of one call of :func:`select_points`."""

    def __init__(self, core: Integers, kernel: Kernel, points: Points, units: int, tau: float) -> None:
        self.kernel, self.points, self.units = kernel, points, units
        self.Q = core
        self.tau = tau
        self.limit = units * (1.0 + tau)
        H = kernel_matrix(core, kernel, points, units)
        self.trace = float(np.trace(H))
        L = factorise(H, overwrite=True) if len(core) else np.empty((0, 0), order="F")
        self.L = self._factor_or_refuse(L)
        self.pending: list[int] = []
        self.selected: list[int] = []
        self.decisions = Decisions()

    @staticmethod
    def _factor_or_refuse(L: Float64s | None) -> Float64s:
        if L is None:
            raise InputError(
                "the kernel is not positive definite on these rows: use another kernel function, or raise capacity."
            )
        return L

    def _check_pivots(self, pivot: Float64s, eta: float, n: int) -> None:
        """Refuse pivots below what every positive definite kernel gives."""
        if float(pivot.min()) < smallest_eigenvalue(n, self.units) * (1.0 - 2.0 * eta):
            self._factor_or_refuse(None)

    @property
    def waiting(self) -> int:
        return len(self.pending)

    def _eta(self, more: int, trace: float) -> float:
        N = len(self.Q) + more
        floor = smallest_eigenvalue(N, self.units)
        return 4.0 * (N + 8) * U64 * (self.trace + trace) / floor

    def queue(self, G: Integers, low: int, high: int) -> None:
        """Put the points low..high that may be kept into the queue."""
        m = len(self.Q)
        index = np.arange(low, high)
        if m:
            part = G[low:high]
            diagonal = self.kernel.diagonal(part, self.points)
            K = self.kernel.approximate(self.Q, part, self.points)
            off = 0.51 + 2.0**-44 * float(np.abs(K).max())  # how far values before rounding are from those after it
            V = blas.dtrsm(1.0, self.L, K, lower=1, overwrite_b=1)
            pivot = diagonal + self.units - np.einsum("ij,ij->j", V, V)
            # Moving the m values of one point by that much moves H by at most sqrt(m) of it.
            eta = self._eta(1, float(diagonal.max()) + self.units)
            eta += 2.0 * np.sqrt(m) * off / smallest_eigenvalue(m, self.units)
            if eta < 0.25:
                self._check_pivots(pivot, eta, m + 1)
                index = index[pivot > self.limit * (1.0 - 2.0 * eta)]
            self.decisions.screened += high - low - len(index)
        self.pending.extend(index.tolist())

    def decide(self, G: Integers, size: int) -> None:
        """Decide the first ``size`` points of the queue and keep those above the threshold."""
        index, self.pending = self.pending[:size], self.pending[size:]
        X = G[index]
        K, S = (self.kernel.exact(Z, X, self.points) for Z in (self.Q, X))
        S.flat[:: len(S) + 1] += self.units
        added = float(np.trace(S))
        V = blas.dtrsm(1.0, self.L, K, lower=1) if len(self.Q) else K
        if len(self.Q):
            S = blas.dgemm(-1.0, V, V, trans_a=1, beta=1.0, c=S, overwrite_c=1)
        eta = self._eta(len(X), added)
        kept, C = self._pass(X, S, eta)
        if not kept:
            return
        m, k = len(self.Q), len(kept)
        L = np.zeros((m + k, m + k), order="F")
        L[:m, :m], L[m:, :m], L[m:, m:] = self.L, V[:, kept].T, C[kept][:, :k]
        self.Q, self.L = np.concatenate([self.Q, X[kept]]), L
        self.trace += float((self.kernel.diagonal(X[kept], self.points) + self.units).sum())
        self.selected.extend(index[i] for i in kept)

    def _pass(self, X: Integers, S: Float64s, eta: float) -> tuple[list[int], Float64s]:
        """Points of a chunk that are kept, in order, and their factor: Cholesky's, leaving out the rest.

        ``S`` is the Schur complement of the chunk against Q.
        """
        c = len(X)
        C = np.zeros((c, c), order="F")
        pivot = S.diagonal().copy()
        kept: list[int] = []
        for i in range(c):
            k = len(kept)
            if eta < 0.25:
                self._check_pivots(pivot[i : i + 1], eta, len(self.Q) + c)
            if eta < 0.25 and pivot[i] * (1.0 - 2.0 * eta) > self.limit:
                above = True
                self.decisions.certified += 1
            elif eta < 0.25 and pivot[i] * (1.0 + 2.0 * eta) <= self.limit:
                above = False
                self.decisions.certified += 1
            else:
                above = self._exceeds(X, i, kept)
            if above:
                column = (S[i:, i] - C[i:, :k] @ C[i, :k]) / np.sqrt(pivot[i])
                C[i:, k] = column
                pivot[i + 1 :] -= column[1:] ** 2
                kept.append(i)
        return kept, C

    def _exceeds(self, X: Integers, i: int, kept: list[int]) -> bool:
        """Whether the pivot of point i after Q and the kept points is above the limit, decided exactly."""
        Q = np.concatenate([self.Q, X[kept]])
        itself = int(self.kernel.diagonal(X[i : i + 1], self.points)[0])
        rest = itself - Fraction(self.tau) * self.units  # above the limit: k'H^-1 k < rest
        if not len(Q):
            self.decisions.enclosed += 1
            return rest > 0
        H = kernel_matrix(Q, self.kernel, self.points, self.units)
        k = self.kernel.exact(Q, X[i : i + 1], self.points)[:, 0].astype(np.int64)
        reached, rational = exceeds(k, H, smallest_eigenvalue(len(Q), self.units), rest, or_equals=True)
        if rational:
            self.decisions.exact += 1
        else:
            self.decisions.enclosed += 1
        return not reached
