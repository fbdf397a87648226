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
being Schur complements, lie within the same factors. Four times the first-order bound is taken. The theorem is about a
factor whose columns are divided by the entry on its diagonal. A pivot computed once more, in another order, to divide
by, and not put on the diagonal, would differ from the square of that entry by up to ``2 gamma tr(M)``, with ``gamma``
about ``(N + 1) u``, and so add ``2 gamma tr(M) / floor`` to eta. Here one number is both.

*Screening in float32.* Let L be the factor, so that ``(1 - eta) H <= LL' <= (1 + eta) H``, for the first m points of Q.
What float32 makes of ``L^-1 k``, in any order of its sums, is v with ``(L + D) v = k + d``, where ``|D| <= gamma |L|``
and gamma is about ``(m + 6) 2**-24`` (Higham, theorem 8.5; rounding L and k is in it) and ``|d| <= off sqrt(m)``. With
``s^2 = (1 + eta) / ((1 - eta) floor)`` then ``|L^-1 k| >= |v| (1 - gamma s sqrt(tr H)) - s off sqrt(m)``. With c the
largest of ``k(x, x) + mu``, a pivot is less than what ``c - |v|^2`` computes to plus ``c (eta + gamma + 2 gamma s
sqrt(tr H)) + 2 s off sqrt(m c)``, first for ``|v|^2 <= c``. Beyond that the bound on ``|L^-1 k|`` only rises: ``gamma s
sqrt(tr H)`` is below 1/16, since what is added is at most an eighth of the limit, and no pivot is above a limit that is
above c. Where the bound on ``|L^-1 k|`` is negative, ``|v|^2`` is at most half of what is added, so even ``k(x, x) +
mu`` of a point that is ruled out is at or below the limit. Points are ruled out when even this is at or below the
limit. Numbers too small for float32 move nothing by as much as a
tenth of ``off``. Where float32 is too coarse, float64 goes on.

*The premise.* Rounding moves the eigenvalues of a kernel matrix of n points by at most n / 2, so as long as n is at
most ``most_points``, those of ``H`` are at least ``smallest_eigenvalue``, which does not depend on n: what holds for
points holds for any of them. A function of the caller's may round more coarsely, or not be positive definite; for it
the bound is checked.

Changes nothing it is given.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from erasable.core.arrays import Float64s, Integers
from erasable.core.deciding import U32, U64, exceeds
from erasable.core.kernels import Kernel, Points
from erasable.core.selector import Decisions, Progress
from erasable.core.sums import factorise, symmetric
from erasable.core.threads import few_threads
from erasable.errors import ConfigurationError, InputError

Mask = npt.NDArray[np.bool_]
_STEP = 96  # core points that new ones meet at once while they are screened


def kernel_matrix(G: Integers, kernel: Kernel, points: Points, units: int) -> Float64s:
    """``H = K + mu I`` of points in units of ``2**-30``, whole, Fortran order."""
    H = kernel.matrix(G, points)
    H.flat[:: len(H) + 1] += units
    return H


def smallest_eigenvalue(units: int) -> int:
    """A lower bound on the eigenvalues of ``H`` for up to :func:`most_points` points: half of ``mu``."""
    return units // 2


def most_points(units: int) -> int:
    """How many points may be kept: rounding a kernel matrix of n points moves its eigenvalues by at most n / 2."""
    return 2 * (units - smallest_eigenvalue(units))


def check_points(n: int, units: int) -> None:
    """Raise ConfigurationError for more points than rounded kernel values can tell apart."""
    if n > most_points(units):
        raise ConfigurationError(
            f"{n:,} core rows are too many for this capacity: kernel values are rounded to 2**-30, which is fine "
            f"enough for up to {most_points(units):,} rows. Raise capacity, or have fewer rows stored."
        )


def check_eigenvalues(H: Float64s, kernel: Kernel, units: int) -> None:
    """Raise InputError if a kernel function gives ``H`` an eigenvalue below :func:`smallest_eigenvalue`.

    *Law*: decided exactly, and hereditary: a principal submatrix of a matrix that passes does too. *Cost*: one or two
    Cholesky factors; a matrix within rounding of the bound costs a characteristic polynomial over the integers.
    """
    if kernel.function is None or not len(H):
        return
    floor = smallest_eigenvalue(units)
    slack = 4.0 * (len(H) + 8) * U64 * float(np.trace(H))
    if factorise(_shifted(H, floor + slack), overwrite=True) is not None:
        return
    if factorise(_shifted(H, floor - slack), overwrite=True) is None or not _no_negative_eigenvalue(H, floor):
        raise _not_positive_definite()


def _shifted(H: Float64s, by: float) -> Float64s:
    M = H.copy(order="F")
    M.flat[:: len(M) + 1] -= by
    return M


def _no_negative_eigenvalue(H: Float64s, floor: int) -> bool:
    """Whether ``H - floor I`` has none: its characteristic polynomial, all of whose roots are real, alternates."""
    from flint import fmpz_mat  # only here: hardly ever needed, and slow to load

    M = symmetric(_shifted(H, floor))
    coefficients = fmpz_mat(len(M), len(M), [int(v) for v in M.ravel()]).charpoly().coeffs()
    return all(c * (-1) ** (len(M) - power) >= 0 for power, c in enumerate(coefficients))


def _not_positive_definite() -> InputError:
    return InputError(
        "the kernel function is not positive definite on these rows, or its values are too coarse for this capacity "
        "(float32, perhaps): use another function, compute it in float64, or raise capacity."
    )


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
    *Law*: the selection is that of the literal loop ``if D^2(x; Q) > tau: add x to Q`` in exact arithmetic, and so are
    refusals: points in one call or in several are refused alike.
    *Cost*: at most n m^2 flops to screen with m core rows, memory m^2 + block x m.
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
    if run.selected:
        check_eigenvalues(kernel_matrix(run.Q, kernel, points, units), kernel, units)
    return np.array(run.selected, dtype=np.intp), run.decisions


class StalePoints:
    """A test of points: which of them these core points, as they are, do not rule out. It can be sent.

    *Law*: the others are at or below the threshold after the core points, and after any that these are a part of. With
    a function of the caller's none is ruled out: whether a point proves the function unfit shows at its turn only.
    """

    def __init__(self, core: Integers, kernel: Kernel, points: Points, units: int, tau: float) -> None:
        self.given = core, kernel, points, units, tau
        self.run: _Run | None = None

    def __call__(self, G: Integers) -> Mask:
        """Which points are not ruled out."""
        run = self.run = self.run or _Run(*self.given)
        if run.own or not len(run.Q):
            return np.ones(len(G), dtype=bool)
        return np.concatenate([run._may_be_kept(G[low : low + 4096]) for low in range(0, len(G), 4096)])

    def __getstate__(self) -> dict[str, Any]:
        return {"given": self.given, "run": None}


class _Run:
    """Working memory of one call of :func:`select_points`."""

    def __init__(self, core: Integers, kernel: Kernel, points: Points, units: int, tau: float) -> None:
        self.kernel, self.points, self.units = kernel, points, units
        self.Q = core
        self.tau = tau
        self.limit = units * (1.0 + tau)
        self.floor = smallest_eigenvalue(units)
        self.own = kernel.function is not None  # a function of the caller's, to be checked
        diagonal = kernel.diagonal(core, points)
        self.largest = float(diagonal.max(initial=0.0))
        self.trace = float((diagonal + units).sum())
        self._L: Float64s | None = None
        self.pending: list[int] = []
        self.selected: list[int] = []
        self.decisions = Decisions()

    def factor(self) -> Float64s:
        """A Cholesky factor of ``H``, made when first needed; with an eta below one there is one."""
        if self._L is None:
            L: Float64s | None = np.empty((0, 0), order="F")
            if len(self.Q):
                L = factorise(kernel_matrix(self.Q, self.kernel, self.points, self.units), overwrite=True)
            if L is None:
                raise _not_positive_definite()
            self._L = L  # whole, for other threads
        return self._L

    @property
    def waiting(self) -> int:
        return len(self.pending)

    def _eta(self, more: int, trace: float) -> float:
        return 4.0 * (len(self.Q) + more + 8) * U64 * (self.trace + trace) / self.floor

    def queue(self, G: Integers, low: int, high: int) -> None:
        """Put the points low..high that may be kept into the queue.

        With a function of the caller's these are all: whether a point proves the function unfit shows at its turn only.
        """
        index = np.arange(low, high)
        if len(self.Q) and not self.own:
            index = index[self._may_be_kept(G[low:high])]
            self.decisions.screened += high - low - len(index)
        self.pending.extend(index.tolist())

    def _may_be_kept(self, X: Integers) -> Mask:
        """Points that Q as it is does not rule out."""
        m, diagonal = len(self.Q), self.kernel.diagonal(X, self.points)
        largest = float(diagonal.max())
        # How far values before rounding are from those after it: see Kernel.doubt. Moving the m values of one point by
        # that much moves H by at most sqrt(m) of it.
        off = 0.51 + 2.0**-44 * max(self.largest, largest)
        eta = self._eta(1, largest + self.units) + 2.0 * np.sqrt(m) * off / self.floor
        kept = np.ones(len(X), dtype=bool)
        if eta >= 0.25:
            return kept
        limits = self._coarse_limits(largest + self.units, off, eta)
        with few_threads(0.0):  # steps are short, and threads would wait for each other
            kept = self._above(X, diagonal, limits, np.float32)
            if len(limits) * _STEP < m:
                limits = [self.limit * (1.0 - 2.0 * eta)] * -(-m // _STEP)
                kept[kept] = self._above(X[kept], diagonal[kept], limits, np.float64)
        return kept

    def _coarse_limits(self, largest: float, off: float, eta: float) -> list[float]:
        """What pivots in float32 are compared with, for each part of Q that is met, as long as it is fine enough.

        ``largest`` is that of ``k(x, x) + mu``, and a tenth more is taken than the bound above to first order.
        """
        limits: list[float] = []
        scale = ((1.0 + eta) / ((1.0 - eta) * self.floor)) ** 0.5
        for low in range(0, len(self.Q), _STEP):
            m = min(low + _STEP, len(self.Q))
            gamma = 1.1 * (m + 10) * U32
            slack = largest * (eta + gamma * (1.0 + 2.0 * scale * self.trace**0.5))
            slack += 2.2 * scale * off * (m * largest) ** 0.5
            if slack > self.limit / 8.0:
                break
            limits.append(self.limit - slack)
        return limits

    def _above(self, X: Integers, diagonal: Float64s, limits: list[float], kind: Any) -> Mask:
        """Points whose pivots, in this precision, stay above the limits: one for each part of Q that they meet."""
        L, pivot, V = self.factor(), diagonal + self.units, np.empty((len(X), 0), dtype=kind)
        multiply, divide = (blas.dgemm, blas.dtrsm) if kind == np.float64 else (blas.sgemm, blas.strsm)
        left = np.arange(len(X))
        for step, limit in enumerate(limits):  # most points are ruled out by the first of Q, and meet no more of them
            low, high = step * _STEP, min(len(self.Q), (step + 1) * _STEP)
            W = self.kernel.approximate(X[left], self.Q[low:high], self.points).astype(kind, copy=False)
            T = np.asfortranarray(L[low:high, :high], dtype=kind)
            if low:
                W = multiply(-1.0, V.T, T[:, :low], trans_a=1, trans_b=1, beta=1.0, c=W, overwrite_c=1)
            W = divide(1.0, T[:, low:], W, side=1, lower=1, trans_a=1, overwrite_b=1)
            pivot[left] -= np.einsum("ij,ij->i", W, W)
            kept = np.flatnonzero(~(pivot[left] <= limit))
            left, V = left[kept], np.concatenate([V[kept], W[kept]], axis=1)
            if not len(left):
                break
        above = np.zeros(len(X), dtype=bool)
        above[left] = True
        return above

    def decide(self, G: Integers, size: int) -> None:
        """Decide the first ``size`` points of the queue and keep those above the threshold."""
        index, self.pending = self.pending[:size], self.pending[size:]
        X = G[index]
        diagonal = self.kernel.diagonal(X, self.points)
        eta = self._eta(len(X), float((diagonal + self.units).sum()))
        with few_threads(0.0):  # most of its products are of single rows
            kept = self._pass(X, eta) if eta < 0.25 else self._pass_exactly(X)
        if not kept:
            return
        self.Q = np.concatenate([self.Q, X[kept]])
        self.largest = max(self.largest, float(diagonal[kept].max()))
        self.trace += float((diagonal[kept] + self.units).sum())
        self.selected.extend(index[i] for i in kept)

    def _pass_exactly(self, X: Integers) -> list[int]:
        """Points of a chunk that are kept, in order, where float64 is too coarse for its errors to be bounded."""
        kept: list[int] = []
        for i in range(len(X)):
            if self.own:
                self._check_pivot(X, i, kept)
            if self._exceeds(X, i, kept):
                self._keep(i, kept)
        self._L = None if kept else self._L
        return kept

    def _pass(self, X: Integers, eta: float) -> list[int]:
        """Points of a chunk that are kept, in order, by Cholesky's algorithm, leaving out the rest; the factor grows.

        ``S`` is the Schur complement of the chunk against Q.
        """
        m, c = len(self.Q), len(X)
        S = kernel_matrix(X, self.kernel, self.points, self.units)
        V = self.kernel.exact(self.Q, X, self.points)
        if m:
            V = blas.dtrsm(1.0, self.factor(), V, lower=1, overwrite_b=1)
            S = blas.dgemm(-1.0, V, V, trans_a=1, beta=1.0, c=S, overwrite_c=1)
        C = np.zeros((c, c), order="F")
        pivot = S.diagonal().copy()
        kept: list[int] = []
        for i in range(c):
            k = len(kept)
            if self.own and pivot[i] * (1.0 - 2.0 * eta) < self.floor:
                self._check_pivot(X, i, kept)
            if pivot[i] * (1.0 - 2.0 * eta) > self.limit:
                above = True
                self.decisions.certified += 1
            elif pivot[i] * (1.0 + 2.0 * eta) <= self.limit:
                above = False
                self.decisions.certified += 1
            else:
                above = self._exceeds(X, i, kept)
            if above:
                root = np.sqrt(pivot[i])
                column = (S[i + 1 :, i] - C[i + 1 :, :k] @ C[i, :k]) / root
                C[i, k], C[i + 1 :, k] = root, column
                pivot[i + 1 :] -= column**2
                self._keep(i, kept)
        if kept:
            k = len(kept)
            L = np.zeros((m + k, m + k), order="F")
            L[:m, :m], L[m:, :m], L[m:, m:] = self.factor(), V[:, kept].T, C[kept][:, :k]
            self._L = L
        return kept

    def _keep(self, i: int, kept: list[int]) -> None:
        kept.append(i)
        check_points(len(self.Q) + len(kept), self.units)

    def _exceeds(self, X: Integers, i: int, kept: list[int]) -> bool:
        """Whether the pivot of point i after Q and the kept points is above the limit, decided exactly."""
        # H has mu on its diagonal: the pivot is above mu (1 + tau) when k'H^-1 k < k(x, x) - tau mu.
        reached, rational = self._explained(X, i, kept, Fraction(self.tau) * self.units, or_equals=True)
        if rational:
            self.decisions.exact += 1
        else:
            self.decisions.enclosed += 1
        return not reached

    def _check_pivot(self, X: Integers, i: int, kept: list[int]) -> None:
        """Refuse a point whose pivot is below what every positive definite kernel gives, decided exactly."""
        if self._explained(X, i, kept, Fraction(self.floor - self.units), or_equals=False)[0]:
            raise _not_positive_definite()

    def _explained(self, X: Integers, i: int, kept: list[int], rest: Fraction, *, or_equals: bool) -> tuple[bool, bool]:
        """Whether ``k'H^-1 k > k(x, x) - rest`` (or ``>=``) for point i after Q and the kept; see ``exceeds``."""
        Q = np.concatenate([self.Q, X[kept]])
        most = int(self.kernel.diagonal(X[i : i + 1], self.points)[0]) - rest
        if not len(Q):
            return most < 0 or (or_equals and most == 0), False
        H = kernel_matrix(Q, self.kernel, self.points, self.units)
        check_eigenvalues(H, self.kernel, self.units)
        k = self.kernel.exact(Q, X[i : i + 1], self.points)[:, 0].astype(np.int64)
        return exceeds(k, H, self.floor, most, or_equals=or_equals)
