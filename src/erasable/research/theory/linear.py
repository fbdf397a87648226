"""How many core rows there are at most, and how many of them may go: two bounds of the paper.

Letters: T rows of norm at most 1 in d dimensions, regulariser ``lam`` (K in the paper), threshold ``tau = T**-kappa``,
N core rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import lambertw

from erasable.errors import InputError
from erasable.validation import count, number_between, number_not_negative, positive_number, probability

NORM = "rows have norm at most 1"
REALISABLE = "E[y|x] = u'x with |u| at most 1, y in {-1, +1}"
MARTINGALE = "whether a row is kept does not depend on labels, and labels are independent given the rows"


@dataclass(frozen=True)
class Bound:
    """A number that a theorem promises, with what the promise rests on.

    Attributes
    ----------
    value : float
        The bound.
    vacuous : bool
        Whether it says nothing for these numbers: a probability or a risk of one or more, a capacity below one row,
        a core set as large as the data.
    source : str
        Theorem or equation of the paper, or the argument given in the docstring of the function.
    assumptions : tuple of str
        What has to be true of the data for the promise to hold.

    Examples
    --------
    >>> from erasable.research.theory.linear import core_set_size
    >>> bound = core_set_size(1_000_000, 10, lam=10.0, tau=0.01)
    >>> float(bound), bound.vacuous
    (3639.0, False)
    >>> print(bound)
    3639 [Theorem 4.3 with Theorem D.7, explicit] if rows have norm at most 1
    """

    value: float
    vacuous: bool
    source: str
    assumptions: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        text = f"{self.value:.6g} [{self.source}]"
        if self.vacuous:
            text += ", which says nothing for these numbers"
        return text + (f" if {'; '.join(self.assumptions)}" if self.assumptions else "")


def core_set_size(T: int, d: int, *, lam: float, tau: float) -> Bound:
    """A number of core rows that Algorithm 1 never exceeds: the memory of Theorem 4.3.

    A kept row multiplies ``det A`` by one plus its leverage, so by more than ``1 + tau``. With the inequality of
    arithmetic and geometric means for the eigenvalues of A::

        N log(1 + tau)  <=  log det(A / lam)  <=  d log(1 + N / (lam d)).

    The value is the largest N that satisfies it, by Lambert's W, and at most T. For ``lam >= 1`` it is of the order
    ``d T**kappa log T`` of the paper; the steps there need ``lam >= 1`` and mix leverages with and without the row.
    """
    T, d = count(T, "T"), count(d, "d")
    lam, tau = positive_number(lam, "lam"), positive_number(tau, "tau")
    a = lam * math.log1p(tau)
    N = 0.0  # a >= 1 means tau >= 1 / lam, and no leverage is larger than that
    if a < 1.0 and tau * lam < 1.0:
        v = -float(lambertw(-a * math.exp(-a), -1).real) / a if a > 1e-290 else math.inf  # v = 1 + N / (lam d)
        N = float(math.floor(min(float(T), lam * d * max(v - 1.0, 0.0) * (1.0 + 1e-9))))
    return Bound(N, N >= T, "Theorem 4.3 with Theorem D.7, explicit", (NORM,))


def capacity(epsilon: float, *, T: int, d: int, tau: float, delta: float) -> Bound:
    """How many core deletions leave the best sign on every row with ``|u'x| > epsilon`` that was not kept.

    The largest K for which, with ``lam = K``, the error before deletion and the shift by it are together at most
    epsilon: ``sqrt(tau) |w - u|_A + score_shift(K) <= epsilon``, with probability at least 1 - delta. Both are bounded
    from above by expressions that grow with K (the core set size is taken for ``lam = 1``).

    For large T it approaches ``epsilon**2 T**kappa / (1 + 3 sqrt(2))**2``. The printed capacity is smaller by the
    factor ``d log T log(1 / delta)``, which the additive confidence radius of :func:`score_shift` makes unnecessary.
    """
    epsilon = number_between(epsilon, "epsilon", 0.0, 1.0, closed="both")
    tau, delta = positive_number(tau, "tau"), probability(delta, "delta")
    N = core_set_size(T, d, lam=1.0, tau=tau).value
    noise = math.sqrt(d * math.log1p(N / d) + 2.0 * math.log(1.0 / delta))

    def error(K: int) -> float:
        radius = noise + math.sqrt(K)
        return math.sqrt(tau) * (radius + math.sqrt(2.0 * K) * (2.0 + radius / math.sqrt(K + 1.0)))

    low, high = 0, math.ceil(epsilon * epsilon / tau) + 1  # error(K) > sqrt(tau K)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if error(middle) <= epsilon else (low, middle)
    assumptions = (NORM, REALISABLE, MARTINGALE, "lam = K")
    return Bound(float(low), low < 1, "Theorem 4.3, capacity, explicit", assumptions)


IID = "rows and labels are independent draws from one distribution"


def threshold(T: int, kappa: float) -> float:
    """``tau = T**-kappa``, the leverage above which Algorithm 1 keeps a row (line 4)."""
    return math.pow(count(T, "T"), -number_between(kappa, "kappa", 0.0, 1.0, closed="both"))


def confidence_radius(N: int, d: int, *, lam: float, delta: float) -> Bound:
    """A bound on ``|w - u|_A``, at all times together, with probability at least 1 - delta (Proposition G.1).

    ``sqrt(d log(1 + N / (lam d)) + 2 log(1 / delta)) + sqrt(lam)``: theorem 2 of Abbasi-Yadkori, Pal and Szepesvari
    (2011), for noise of range 2 and so sub-Gaussian with constant 1, and ``|u| <= 1``. The paper's order, ``sqrt(d log
    T log(1 / delta))``, leaves out ``sqrt(lam)``, which is ``sqrt(K)`` there.
    """
    N, d = count(N, "N", 0), count(d, "d")
    lam, delta = positive_number(lam, "lam"), probability(delta, "delta")
    value = math.sqrt(d * math.log1p(N / (lam * d)) + 2.0 * math.log(1.0 / delta)) + math.sqrt(lam)
    # |w - u|_A = |sum of noise times rows - lam u| in the norm of A^-1, and the noise is at most 2.
    trivial = 2.0 * math.sqrt(N * min(1.0, N / lam)) + math.sqrt(lam)
    return Bound(value, value >= trivial, "Proposition G.1, explicit", (NORM, REALISABLE, MARTINGALE))


def own_leverage(lam: float) -> Bound:
    """``1 / (lam + 1)``: no row has a larger leverage against a set that holds it (Lemma D.5).

    With leverage a <= 1 / lam without the row it is ``a / (1 + a)`` with it. A single row of norm 1 attains the bound.
    The lemma is printed with I in place of ``lam I``.
    """
    lam = positive_number(lam, "lam")
    return Bound(1.0 / (lam + 1.0), False, "Lemma D.5", (NORM,))


def leverage_after_deletions(leverage: float, K: int, *, lam: float) -> Bound:
    """What the leverage of any row can grow to when K core rows are deleted: by at most ``1 + K / lam``.

    The deleted rows have ``sum of xx' <= K I <= (K / lam) A_U`` where A_U is A without them, so ``A <= (1 + K / lam)
    A_U``. That is below the ``(1 + 1 / lam)**K`` of Lemma D.3, and with ``lam = K`` it is 2 where Corollary D.4 has e;
    K deleted copies of one row of norm 1, and no other core rows, attain it.
    """
    leverage, K = number_not_negative(leverage, "leverage"), count(K, "K", 0)
    lam = positive_number(lam, "lam")
    value = leverage * (1.0 + K / lam)
    return Bound(value, value >= 1.0 / lam, "Lemma D.3, sharpened", (NORM,))


def printed_leverage_after_deletions(leverage: float, K: int, *, lam: float) -> Bound:
    """``(1 + 1 / lam)**K`` times the leverage: Lemma D.3; with ``lam = K`` at most e times it, Corollary D.4."""
    leverage, K = number_not_negative(leverage, "leverage"), count(K, "K", 0)
    lam = positive_number(lam, "lam")
    growth = K * math.log1p(1.0 / lam)
    value = leverage * math.exp(growth) if growth < 700.0 else math.inf
    return Bound(value, value >= 1.0 / lam, "Lemma D.3", (NORM,))


def score_shift(K: int, *, T: int, d: int, lam: float, tau: float, delta: float) -> Bound:
    """How far K core deletions, however chosen, can move the score ``w'x`` of a row that was not kept.

    With ``r_i = y_i - w'x_i`` for the deleted rows, ``w_U - w = -A_U^-1 sum of r_i x_i``. By Cauchy-Schwarz, ``A <= (1
    + K / lam) A_U`` and ``X_U A_U^-1 X_U' <= K / lam``::

        |w_U'x - w'x|  <=  sqrt((1 + K / lam) (K / lam) x'A^-1x)  sqrt(sum of r_i**2),   x'A^-1x <= tau,
        |r_i|  <=  2 + |w - u|_A / sqrt(lam + 1)                                  (Lemma D.5).

    The confidence radius enters for the w before the deletions alone, so the rows to delete may be chosen by
    looking at labels. Theorem D.1 applies Proposition G.1 to the w after them, which such a choice invalidates,
    and takes noise for at most 1 where it may be 2.
    """
    K, lam, tau = count(K, "K", 0), positive_number(lam, "lam"), positive_number(tau, "tau")
    N = int(core_set_size(T, d, lam=lam, tau=tau).value)
    radius = confidence_radius(N, d, lam=lam, delta=delta).value
    residual = 2.0 + radius / math.sqrt(lam + 1.0)
    value = math.sqrt((1.0 + K / lam) * (K / lam) * tau * K) * residual
    return Bound(value, value >= 1.0, "Theorem D.1, explicit", (NORM, REALISABLE, MARTINGALE))


def printed_score_shift(K: int, *, T: int, d: int, tau: float, delta: float) -> Bound:
    """``2 sqrt(e (K + 1) tau d log T log(1 / delta))``: Theorem D.1, for ``lam = K``."""
    K, T, d = count(K, "K"), count(T, "T"), count(d, "d")
    tau, delta = positive_number(tau, "tau"), probability(delta, "delta")
    value = 2.0 * math.sqrt(math.e * (K + 1) * tau * d * math.log(T) * math.log(1.0 / delta))
    assumptions = (NORM, REALISABLE, MARTINGALE, "lam = K", "the hidden constant of Proposition G.1 is one")
    return Bound(value, value >= 1.0, "Theorem D.1", assumptions)


def printed_capacity(epsilon: float, *, T: int, d: int, tau: float, delta: float) -> Bound:
    """``epsilon**2 T**kappa / (16 e d log T log(1 / delta)) - 1``: the capacity in the proof of Theorem 4.3."""
    epsilon = number_between(epsilon, "epsilon", 0.0, 1.0, closed="both")
    T, d = count(T, "T", 2), count(d, "d")
    tau, delta = positive_number(tau, "tau"), probability(delta, "delta")
    value = epsilon**2 / (16.0 * math.e * tau * d * math.log(T) * math.log(1.0 / delta)) - 1.0
    large = "T is so large that sqrt(tau d log T log(1 / delta)) <= epsilon / 2"
    assumptions = (NORM, REALISABLE, MARTINGALE, "lam = K", large, "the hidden constant of Proposition G.1 is one")
    return Bound(value, value < 1.0, "Theorem 4.3, capacity", assumptions)


def compression_risk(T: int, N: int, delta: float) -> float:
    """A bound on the probability that a fit from N of T rows errs, given that it errs on none of the other T - N.

    The fit uses survivors of N core rows out of T, whatever N turns out to be: there are at most ``C(T, N) 2**N``
    choices for each of T values of N. A fit that errs with probability p is right on the rest with probability ``(1 -
    p)**(T - N)``, so ``p <= (log C(T, N) + N log 2 + log T + log(1 / delta)) / (T - N)`` for all of them at once.
    """
    T, N = count(T, "T"), count(N, "N", 0)
    if N >= T:
        return math.inf
    if T <= 10**9:
        choices = math.lgamma(T + 1.0) - math.lgamma(N + 1.0) - math.lgamma(T - N + 1.0)
    else:  # the difference would cancel; C(T, N) <= (e T / N)**N
        choices = N * (1.0 + math.log(T) - math.log(max(N, 1)))
    return (choices + N * math.log(2.0) + math.log(T) + math.log(1.0 / probability(delta, "delta"))) / (T - N)


def excess_risk(T: int, N: int, T_eps: int, *, epsilon: float, delta: float) -> Bound:
    """A bound on the excess risk after deletions, with probability at least 1 - delta.

    ``epsilon (T_eps / T + sqrt(log(2 / delta) / (2 T))) + compression_risk(T, N, delta / 2)``, for N core rows before
    the deletions, all of which may be misclassified, and ``T_eps`` rows with ``|u'x| <= epsilon``. A wrong sign costs
    ``|u'x|``, so rows near the boundary cost at most epsilon; their share is at most the observed one plus the second
    term (Dvoretzky, Kiefer, Wolfowitz; Massart's constant). It holds for all epsilon at once, also one chosen by the
    data.
    """
    T, N, T_eps = count(T, "T"), count(N, "N", 0), count(T_eps, "T_eps", 0)
    epsilon, delta = number_between(epsilon, "epsilon", 0.0, 1.0, closed="both"), probability(delta, "delta")
    near = min(1.0, T_eps / T + math.sqrt(math.log(2.0 / delta) / (2.0 * T)))
    value = epsilon * near + compression_risk(T, N, delta / 2.0)
    signs = "rows not kept with |u'x| > epsilon have the best sign (promised up to `capacity` deletions)"
    return Bound(value, value >= 1.0, "Theorem 4.3, risk, repaired", (IID, REALISABLE, signs))


def printed_excess_risk(T: int, N: int, T_eps: int, *, delta: float) -> Bound:
    """``((N + 1) log T + log(1 / delta)) / (T - N - T_eps)``: the risk in Theorem 4.3, which needs a small ``T_eps``.

    The proof bounds the probability of at most k errors among m rows by ``(1 - p)**(m - k)``, without the factor ``C(m,
    k) <= T**k``. With it, ``N + 1 + T_eps`` takes the place of ``N + 1``, and the order stands where ``T_eps`` is of
    order N. Where more rows are near the boundary, they can cost more than the bound. Let x be e1 or e2 with equal
    probability, ``u = (0.9, a)`` with ``a = T**(-kappa / 2)``, and kappa below 2/3. About ``T**kappa`` rows e2 are
    kept, the sign of their label sum is wrong with probability near 0.16, and then the excess risk is ``a / 2 =
    T**(-kappa / 2) / 2``, while the bound is of order ``T**(kappa - 1) log T``; the minimising epsilon of the regret
    bound, ``T**(-kappa / (2 + kappa))``, is above a, so that ``T_eps`` is about T / 2.
    """
    T, N, T_eps = count(T, "T"), count(N, "N", 0), count(T_eps, "T_eps", 0)
    delta = probability(delta, "delta")
    left = T - N - T_eps
    value = ((N + 1) * math.log(T) + math.log(1.0 / delta)) / left if left > 0 else math.inf
    return Bound(value, value >= 1.0, "Theorem 4.3, risk", (IID, REALISABLE, "T_eps = 0"))


@dataclass(frozen=True)
class Margin:
    """The epsilon that minimises the regret bound, the number of rows within it, and that bound."""

    epsilon: float
    T_eps: int
    regret: Bound


def minimising_epsilon(scores: Any, *, d: int, lam: float, kappa: float, delta: float) -> Margin:
    """The epsilon of Theorem 4.3: the one that minimises the regret bound of Theorem D.7 on these rows.

    ``epsilon T_eps + c1 / epsilon + c2 / epsilon**(2 / kappa)`` with ``T_eps`` the number of scores of size at most
    epsilon, ``c1 = 4 (lam / 2 + 2 d log(1 + N / (lam d)) + 144 log(T / delta))`` and ``c2 = (2 + e) ceil(1 / kappa)!
    8**(1 / kappa)``. These constants are those of the proof, which loses a factor 2 in the last step for c1; its two
    citations (Dekel et al. 2012, lemmas 23 to 25; Cesa-Bianchi et al. 2009, theorem 1, stated for ``lam = 1``) are
    taken as they are.

    Parameters
    ----------
    scores : array of shape (T,)
        ``u'x`` of the rows; or ``w'x`` of a fit, for an estimate.

    Returns
    -------
    Margin
        The minimum is over (0, 1]; where it is approached at a score from below, the float just below that score.
    """
    s = margins_of("scores", scores)
    T, kappa = len(s), probability(kappa, "kappa")
    lam, delta = positive_number(lam, "lam"), probability(delta, "delta")
    N = core_set_size(T, d, lam=lam, tau=threshold(T, kappa)).value
    c1 = 4.0 * (lam / 2.0 + 2.0 * d * math.log1p(N / (lam * d)) + 144.0 * math.log(T / delta))
    log_c2 = math.log(2.0 + math.e) + math.lgamma(math.ceil(1.0 / kappa) + 1.0) + math.log(8.0) / kappa

    def terms(epsilon: npt.NDArray[np.float64]) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """The bound at each epsilon, and epsilon times its slope."""
        with np.errstate(over="ignore"):
            first, second = c1 / epsilon, np.exp(log_c2 - 2.0 / kappa * np.log(epsilon))
        near = epsilon * np.searchsorted(s, epsilon, side="right")
        return near + first + second, near - first - 2.0 / kappa * second

    inside = s[(s > 0.0) & (s <= 1.0)]
    ends = np.concatenate([inside, np.nextafter(inside, 0.0), [1.0]])
    ends = np.unique(ends[ends > 0.0])
    # Between two ends T_eps is constant and the bound convex; its slope grows from each end to the next, so the bound
    # has a minimum between ends in one place at most: after the last end where it still falls.
    falling = int(np.count_nonzero(terms(ends)[1] < 0.0))
    low = float(ends[falling - 1]) if falling else min(float(ends[0]), math.sqrt(c1 / T))
    high = float(ends[min(falling, len(ends) - 1)])
    fine = np.concatenate([ends, np.geomspace(low, high, 4097)])
    values = terms(fine)[0]
    at = int(np.argmin(values))
    epsilon, value = float(fine[at]), float(values[at])
    bound = Bound(
        value, value >= float(s.sum()), "Theorem D.7, regret", (NORM, REALISABLE, "the two results it cites hold")
    )
    return Margin(epsilon, int(np.searchsorted(s, epsilon, side="right")), bound)


def regret(scores: Any, *, d: int, lam: float, kappa: float, delta: float) -> Bound:
    """The regret bound of Theorem D.7 at its best epsilon; see :func:`minimising_epsilon`.

    The regret is the sum, over all rows in order, of ``|u'x|`` where the fit before the row has the other sign.
    """
    return minimising_epsilon(scores, d=d, lam=lam, kappa=kappa, delta=delta).regret


def margins_of(name: str, values: Any) -> npt.NDArray[np.float64]:
    """Absolute values, ascending.

    Raises InputError when they are not one or more finite numbers in one dimension.
    """
    s = np.asarray(values)
    if s.ndim != 1 or len(s) == 0 or s.dtype.kind not in "iuf" or not np.isfinite(s).all():
        raise InputError(f"{name} must be a non-empty one-dimensional array of finite numbers; got shape {s.shape}.")
    return np.sort(np.abs(s.astype(np.float64)))
