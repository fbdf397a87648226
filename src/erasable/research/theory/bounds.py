"""How many core rows there are at most, and how many of them may go: two bounds of the paper.

Letters: T rows of norm at most 1 in d dimensions, regulariser ``lam`` (K in the paper), threshold ``tau = T**-kappa``,
N core rows.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from scipy.special import lambertw

from erasable.validation import count, number_between, positive_number, probability

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
    >>> from erasable.research.theory.bounds import core_set_size
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
