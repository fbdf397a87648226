"""How many deletions it takes to exhaust the core-set capacity, when people ask at random.

Letters: the rows S are learnt in a uniformly random order, deletions are drawn without replacement with probabilities
proportional to weights mu, ``K_total`` of them in all, and ``K_csd`` of these fall on core rows. Order and deletions
are independent. S is given: an expectation over S in the paper is an average over samples.

Theorem 4.4 has two halves. The first, ``E[K_csd] = sum over rows of P(row is kept) P(row is deleted)`` with Markov's
inequality, holds. The second bounds ``P(row is kept)`` by ``T**kappa x'Mbar x`` and the deletions by draws with
replacement, and neither step is valid in general: see :func:`printed_core_deletions`. In their place stand
the frequency with which a row is kept, or the leverage that it has *when it is met*, which is above tau whenever the
row is kept, and draws without replacement as they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from erasable.core.arrays import Float64s, Matrix
from erasable.errors import ConfigurationError, InputError
from erasable.research.theory.linear import Bound, threshold
from erasable.validation import count, number_between, number_not_negative, positive_number, probability, seed

ORDER = "rows are learnt in a uniformly random order, independent of the deletions"
AVERAGED = "averages over the orders tried stand for expectations"
WEIGHTED = "deletions are drawn without replacement, with probabilities proportional to the weights"


@dataclass(frozen=True, eq=False, repr=False)
class Encounters:
    """How Algorithm 1 meets each row, averaged over orders of the rows."""

    leverage: Float64s  # x'A^-1x of each row when it is met, whether it is then kept or not
    frequency: Float64s  # how often each row is kept
    mean_inverse: Float64s  # Mbar of Theorem 4.4: the average of A_{s-1}^-1 over all positions s
    form: Float64s  # x'Mbar x: of a kept row smaller than its leverage, since Mbar includes positions after it joined
    size: float  # average number of core rows
    tau: float

    def __repr__(self) -> str:
        return f"Encounters(T={len(self.leverage)}, d={len(self.mean_inverse)}, size={self.size:g}, tau={self.tau:g})"


def encounters(
    X: Matrix, *, lam: float, tau: float, orders: Any = None, n_orders: int = 8, random_state: int = 0
) -> Encounters:
    """Run Algorithm 1 on the rows in several orders and average what it meets.

    Parameters
    ----------
    X : array of shape (T, d)
        Rows, of norm at most 1.
    orders : array of shape (m, T), optional
        The orders to try; ``n_orders`` random ones when not given.

    Notes
    -----
    A changes only when a row is kept, so Mbar is summed exactly: each ``A^-1`` counts as often as rows meet it. Rows go
    in blocks; inside one, keeping a row updates ``A^-1`` and the leverages of the rows after it by a rank-one formula,
    and each block that kept rows starts from a fresh Cholesky factor. float64: a statistic, not the exact selection of
    ``core``. *Cost*: T d^2 and, for each row kept, d^2 + d * block, for each order.
    """
    X = _rows(X)
    T = len(X)
    lam, tau = positive_number(lam, "lam"), positive_number(tau, "tau")
    if orders is None:
        rng = np.random.default_rng(seed(random_state))
        orders = [rng.permutation(T) for _ in range(count(n_orders, "n_orders"))]
    run = _Run(X, lam, tau)
    m = 0
    for order in orders:
        order = np.asarray(order)
        if order.shape != (T,) or not np.array_equal(np.sort(order), np.arange(T)):
            raise InputError(f"each of orders must hold the numbers 0 to {T - 1} once; got shape {order.shape}.")
        run.learn(order)
        m += 1
    if m == 0:
        raise InputError("orders must hold at least one order of the rows; got none.")
    M = run.inverses / (m * T)
    frequency = run.kept / m
    return Encounters(
        run.leverage / m, frequency, M, np.einsum("ij,jk,ik->i", X, M, X, optimize=True), float(run.kept.sum()) / m, tau
    )


class _Run:
    """Sums over the orders learnt so far."""

    def __init__(self, X: Float64s, lam: float, tau: float) -> None:
        T, d = X.shape
        self.X, self.lam, self.tau = X, lam, tau
        self.block = max(64, d)
        self.leverage, self.kept, self.inverses = np.zeros(T), np.zeros(T), np.zeros((d, d))

    def learn(self, order: npt.NDArray[np.integer[Any]]) -> None:
        d = self.X.shape[1]
        A, M = self.lam * np.eye(d), np.eye(d) / self.lam
        for low in range(0, len(order), self.block):
            index = order[low : low + self.block]
            Z = self.X[index]
            leverage = np.einsum("ij,ij->i", Z @ M, Z)
            kept = np.zeros(len(index), dtype=bool)
            at = 0  # rows before it are settled
            while True:
                above = np.flatnonzero(leverage[at:] > self.tau)
                if not len(above):
                    self.inverses += (len(index) - at) * M
                    break
                j = at + int(above[0])
                self.inverses += (j + 1 - at) * M
                kept[j] = True
                v, s = M @ Z[j], 1.0 + leverage[j]
                leverage[j + 1 :] -= (Z[j + 1 :] @ v) ** 2 / s
                M = M - np.outer(v, v) / s
                at = j + 1
            self.leverage[index] += leverage
            self.kept[index] += kept
            if kept.any():
                A += Z[kept].T @ Z[kept]
                M = cho_solve(cho_factor(A, lower=True), np.eye(d))


def deletion_probabilities(
    weights: npt.ArrayLike, K_total: int, *, n_draws: int = 64, random_state: int = 0
) -> Float64s:
    """For each row the probability that it is among ``K_total`` deletions drawn without replacement.

    Equal weights give ``K_total`` over their number. Otherwise: give each row an exponential clock with its weight as
    rate; the first ``K_total`` to ring are such a draw. Given the other clocks, a row is among them with probability
    ``1 - exp(-weight * c)``, c being the ``K_total``-th of the others; that is averaged over ``n_draws`` sets of
    clocks.
    """
    mu = _weights(weights)
    K_total, open_rows = count(K_total, "K_total", 0), int(np.count_nonzero(mu))
    if K_total > open_rows:
        raise ConfigurationError(
            f"K_total must be at most the number of rows with a positive weight, {open_rows}; got {K_total}."
        )
    if K_total in (0, open_rows) or len(np.unique(mu[mu > 0.0])) == 1:
        return np.where(mu > 0.0, K_total / open_rows, 0.0)
    rng = np.random.default_rng(seed(random_state))
    rates = mu[mu > 0.0]
    found = np.zeros(len(rates))
    for _ in range(count(n_draws, "n_draws")):
        clocks = rng.standard_exponential(len(rates)) / rates
        last, following = np.partition(clocks, [K_total - 1, K_total])[K_total - 1 : K_total + 1]
        found -= np.expm1(-rates * np.where(clocks <= last, following, last))
    out = np.zeros(len(mu))
    out[mu > 0.0] = found / n_draws
    return out


def core_deletions(
    met: Encounters, weights: npt.ArrayLike, K_total: int, *, n_draws: int = 64, random_state: int = 0
) -> Bound:
    """The expected number of core rows among ``K_total`` deletions, for any weights.

    ``sum over rows of P(kept) P(deleted)``, with the frequencies of the orders tried: the first half of Theorem 4.4.
    """
    P = deletion_probabilities(_matching(weights, met), K_total, n_draws=n_draws, random_state=random_state)
    value = float(met.frequency @ P)
    return Bound(value, value >= K_total, "Theorem 4.4, first half", (ORDER, WEIGHTED, AVERAGED))


def leverage_core_deletions(
    met: Encounters, weights: npt.ArrayLike, K_total: int, *, n_draws: int = 64, random_state: int = 0
) -> Bound:
    """A bound on the expected number of core rows among ``K_total`` deletions by leverages alone, for any weights.

    ``sum over rows of min(1, leverage when met / tau) P(deleted)``: the second half of Theorem 4.4, repaired. A row
    that is kept had a leverage above tau when it was met, so the frequency is at most the mean of leverage / tau. Once
    A has grown, rows are met with a leverage of about tau, kept or not, so this tells little.
    """
    P = deletion_probabilities(_matching(weights, met), K_total, n_draws=n_draws, random_state=random_state)
    value = float(np.minimum(1.0, met.leverage / met.tau) @ P)
    return Bound(value, value >= K_total, "Theorem 4.4, second half, repaired", (ORDER, WEIGHTED, AVERAGED))


def printed_core_deletions(met: Encounters, weights: npt.ArrayLike, K_total: int) -> Bound:
    """``K_total T**kappa`` times the mean of ``x'Mbar x`` under the weights: second half of Theorem 4.4, times K.

    It bounds the expected number only under conditions the theorem does not state:

    - Rows more likely to be deleted are more likely to be kept (Theorem G.2). The proof takes that for the worst case,
      and it is not: for rows e1, e2 and 0 with weights .01, .01 and .98, ``lam = K = 1`` and kappa = 0.1, three
      deletions take two core rows for certain, more than K, and the printed probability is .056. The theorem fails.
    - Mbar averages over positions after x itself was kept. Two orthogonal rows of norm 1 with ``lam = 1`` and kappa =
      0.1 are both kept in either order, so one deletion takes a core row for certain; this expression is 0.938. That
      refutes a step of the proof, not the theorem: one deletion never makes more than K = 1 core deletions.
    """
    mu = _matching(weights, met)
    K_total = count(K_total, "K_total", 0)
    value = K_total / met.tau * float(met.form @ mu)
    agree = "rows more likely to be deleted are more likely to be kept"
    rare = "no row is kept often enough for its own presence in A to matter"
    return Bound(value, value >= K_total, "Theorem 4.4, second half", (ORDER, WEIGHTED, AVERAGED, agree, rare))


def exhaustion_probability(expected: Bound, K: int) -> Bound:
    """A bound on the probability of more than K core deletions, given a bound on their expected number.

    ``expected / (K + 1)``: Markov's inequality for a whole number, where Theorem 4.4 has ``expected / K``.
    """
    value = expected.value / (count(K, "K", 0) + 1)
    return Bound(value, value >= 1.0, expected.source + ", Markov", expected.assumptions)


def total_deletions(
    met: Encounters, weights: npt.ArrayLike, *, K: int, c: float, n_draws: int = 64, random_state: int = 0
) -> Bound:
    """How many deletions there may be before the probability of more than K core deletions passes c (Theorem 4.4)."""
    K, c = count(K, "K", 0), probability(c, "c")
    mu = _matching(weights, met)
    low, high = 0, int(np.count_nonzero(mu)) + 1
    while high - low > 1:  # with one seed the clocks are the same, and the bound grows with K_total
        middle = (low + high) // 2
        expected = core_deletions(met, mu, middle, n_draws=n_draws, random_state=random_state)
        low, high = (middle, high) if expected.value <= c * (K + 1) else (low, middle)
    return Bound(float(low), low <= K, "Theorem 4.4, first half, Markov", (ORDER, WEIGHTED, AVERAGED))


def printed_total_deletions(met: Encounters, weights: npt.ArrayLike, *, K: int, c: float) -> Bound:
    """``c K`` over the expected core deletions of one draw: Theorem 4.4 as printed, solved for ``K_total``."""
    K, c = count(K, "K"), probability(c, "c")
    one = printed_core_deletions(met, weights, 1)
    value = math.inf if one.value == 0.0 else float(math.floor(c * K / one.value))
    return Bound(value, value <= K, "Theorem 4.4, second half", one.assumptions)


def total_deletions_uniform(T: int, N: float, *, K: int, c: float) -> Bound:
    """How many uniform deletions there may be before more than K core deletions have probability c (Lemma 4.5).

    ``c (K + 1) T / N``: a uniform deletion hits one of N core rows with probability ``N / T``, in any order of the
    rows. N may be the actual size or the bound of :func:`erasable.research.theory.linear.core_set_size`.

    The lemma is right where ``N <= d T**kappa log T``, but its proof is not: it says ``sum of x'Mbar x <= d log T``,
    and rows that are not kept have leverages up to ``T**-kappa`` each. T copies of one row of norm 1 make that sum
    about ``T**(1 - kappa)``; through the second half of Theorem 4.4 one gets no more than about ``c K`` deletions then.
    """
    T, N = count(T, "T"), number_between(N, "N", 0.0, float(T), closed="both")
    K, c = count(K, "K", 0), probability(c, "c")
    value = float(T) if N == 0.0 else float(min(T, math.floor(c * (K + 1) * T / N)))
    return Bound(value, value <= K, "Lemma 4.5, explicit", ("deletions are uniform and do not depend on the core set",))


def printed_total_deletions_uniform(T: int, d: int, *, kappa: float, K: int, c: float) -> Bound:
    """``c K T / (d T**kappa log T)``: Lemma 4.5."""
    T, d, K = count(T, "T", 2), count(d, "d"), count(K, "K")
    value = probability(c, "c") * K * T * threshold(T, kappa) / (d * math.log(T))
    needs = ("deletions are uniform and do not depend on the core set", "N is at most d T**kappa log T")
    return Bound(value, value <= K, "Lemma 4.5", needs)


def deletion_time(K: int, K_total: float, *, core_time: float = 1.0) -> Bound:
    """A bound on the expected time of one deletion: ``K / K_total`` times that of a core deletion (Theorem 4.6).

    It rests on ``E[K_csd] <= K``, which a ``K_total`` from :func:`total_deletions` with c up to ``K / (K + 1)``
    ensures.
    """
    K, K_total = count(K, "K"), positive_number(K_total, "K_total")
    share = K / K_total
    value = share * number_not_negative(core_time, "core_time")
    return Bound(value, share >= 1.0, "Theorem 4.6", ("at most K of K_total deletions are expected in the core set",))


def _rows(X: Matrix) -> Float64s:
    X = np.asarray(X)
    if X.ndim != 2 or 0 in X.shape or X.dtype.kind not in "biuf" or not np.isfinite(X).all():
        raise InputError(f"X must be a two-dimensional array of finite numbers with a row and a column; got {X.shape}.")
    Z: Float64s = X.astype(np.float64)
    outside = int(np.count_nonzero(np.einsum("ij,ij->i", Z, Z) > 1.0 + 1e-9))
    if outside:
        raise InputError(f"rows of X must have norm at most 1; {outside} of {len(X)} have more: scale them first.")
    return Z


def _weights(weights: npt.ArrayLike) -> Float64s:
    mu = np.asarray(weights)
    right = mu.ndim == 1 and mu.dtype.kind in "iuf" and len(mu) > 0 and bool(np.isfinite(mu).all())
    if not right or (mu < 0).any() or not mu.any():
        raise InputError(
            "weights must be a one-dimensional array of finite numbers of at least 0, not all 0; "
            f"got an array of shape {mu.shape}."
        )
    scaled = mu / mu.max()
    return np.asarray(scaled / scaled.sum(), dtype=np.float64)


def _matching(weights: npt.ArrayLike, met: Encounters) -> Float64s:
    mu = _weights(weights)
    if len(mu) != len(met.leverage):
        raise InputError(f"weights must hold one number for each of {len(met.leverage)} rows; got {len(mu)}.")
    return mu
