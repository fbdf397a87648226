"""Bounds for Algorithm 2: core sets chosen by the disagreement of a class of functions (section 5).

Letters: ``dimension`` is D(F, S), ``rate`` is R(T, delta) with the one of Lemma F.1 in it (``sum of (f* - f)**2 + 1 <=
rate`` over the core rows), ``beta`` is the stability of Definition 5.4. A class in ``erasable.classes`` gives these
numbers where it knows them (``dimension(rows)``, ``rate(T, delta, d)``, ``stability(n)``). Labels: ``P(y = +1 | x) =
f*(x)``, which the paper writes as ``E[y | x]``; a *margin* is ``|f*(x) - 1/2|``.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from erasable.errors import ConfigurationError
from erasable.research.theory.linear import IID, Bound, compression_risk, margins_of
from erasable.validation import count, number_between, number_not_negative, positive_number, probability

REALISABLE = "P(y = +1 | x) = f*(x) for a function f* of the class"
RATE = "sum of (f* - f)**2 over the core rows, plus one, is at most the rate"


def single_pass_size(T: int, *, dimension: float, tau: float) -> Bound:
    """``(1 + 1 / tau) D(F, S)``: how many of T rows one pass with threshold tau keeps at most.

    A kept row has ``D**2 > tau`` against the rows kept before it; with itself in the denominator the same supremum is
    at least ``D**2 / (1 + D**2) > tau / (1 + tau)``, and these are terms of D(F, S) along an order that starts with the
    kept rows. It takes the place of Theorem 5.3 for the single pass; with the threshold of the stage at which Algorithm
    3 itself would stop, it is of the order of :func:`staged_size`.
    """
    T = count(T, "T")
    dimension, tau = number_not_negative(dimension, "dimension"), positive_number(tau, "tau")
    value = float(math.floor(min(float(T), (1.0 + 1.0 / tau) * dimension * (1.0 + 1e-12))))
    return Bound(value, value >= T, "Theorem 5.3 for the single pass", ("dimension is at least D(F, S)",))


def staged_size(margins: Any, *, dimension: float, rate: float) -> Bound:
    """How many rows Algorithm 3 keeps at most: the least ``64 T_eps + 256 rate dimension / epsilon**2``, over epsilon.

    Theorem 5.3 with its constants. Let L be the last stage. Theorem G.3 gives ``N <= 4**(L + 1) R D``. Stage L - 1 did
    not stop, so ``4**(L - 2) R D`` is at most the number of rows left then, all of which have a margin of at most
    ``2**(3 - L)``. Either ``2**(3 - L) <= epsilon``, and that number is at most ``T_eps``, or ``4**L < 64 /
    epsilon**2``. (The proof in the paper uses the rows left at stage L, for which the inequality points the other way,
    and so has 16 and 64.)

    Parameters
    ----------
    margins : array of shape (T,)
        ``f*(x) - 1/2`` of the rows, or of a fit for an estimate; ``T_eps`` counts those of size at most epsilon.
    """
    m = margins_of("margins", margins)
    dimension = number_not_negative(dimension, "dimension")
    rate = number_between(rate, "rate", 1.0, math.inf, closed="both")
    # Where T_eps is constant the expression falls: the infimum is approached at the next margin, T_eps being k there.
    ends, counts = np.append(m[m < 1.0], 1.0), np.append(np.arange(np.count_nonzero(m < 1.0)), len(m))
    positive = ends > 0.0
    with np.errstate(over="ignore", divide="ignore"):
        values = 64.0 * counts[positive] + 256.0 * rate * dimension / ends[positive] ** 2
    value = float(math.floor(min(float(len(m)), float(values.min()))))
    return Bound(value, value >= len(m), "Theorem 5.3, explicit", (REALISABLE, RATE, "dimension is at least D(F, S)"))


def general_capacity(N: int, *, rate: float, beta: float) -> Bound:
    """``sqrt(rate - 1) / (sqrt(N) beta)``: how many core deletions keep the signs on rows that were not kept.

    Theorem 5.5: K refits move the function by ``K**2 N beta**2`` in sum of squares over the core rows (Lemma F.3), so
    at a row of stage l by at most ``eps_l sqrt(K**2 N beta**2 + 1)`` with ``eps_l = 2**-l / sqrt(rate)``, and that must
    be at most the margin ``2**-l``. The paper loses the one under the root and has ``sqrt(rate)``. Beta must be valid
    for every size from ``N - K + 1`` to N, where the paper takes it at N. It is of the order 1 / N that the paper calls
    typical for ridge with a regulariser per row; with a fixed one it does not fall with N.
    """
    N = count(N, "N")
    rate, beta = number_between(rate, "rate", 1.0, math.inf, closed="both"), positive_number(beta, "beta")
    value = math.sqrt(rate - 1.0) / (math.sqrt(N) * beta)
    stable = "beta bounds the change of squared loss when one of N - K + 1 to N rows is removed"
    return Bound(value, value < 1.0, "Theorem 5.5, capacity", (REALISABLE, RATE, stable))


def general_excess_risk(T: int, N: int, T_eps: int, *, epsilon: float, delta: float) -> Bound:
    """A bound on the excess risk after deletions, with probability at least 1 - delta.

    As ``excess_risk`` of linear functions; a wrong sign costs ``2 |f*(x) - 1/2|``, so rows with a margin of at most
    epsilon cost at most twice that.
    """
    T, N, T_eps = count(T, "T"), count(N, "N", 0), count(T_eps, "T_eps", 0)
    epsilon, delta = number_between(epsilon, "epsilon", 0.0, 0.5, closed="both"), probability(delta, "delta")
    near = min(1.0, T_eps / T + math.sqrt(math.log(2.0 / delta) / (2.0 * T)))
    value = 2.0 * epsilon * near + compression_risk(T, N, delta / 2.0)
    signs = "rows not kept with a margin above epsilon have the best sign (promised up to `general_capacity` deletions)"
    return Bound(value, value >= 1.0, "Theorem 5.5, risk, repaired", (IID, REALISABLE, signs))


def printed_general_excess_risk(T: int, N: int, *, delta: float) -> Bound:
    """``((N + 1) log T + log(1 / delta)) / (T - 2 N)``: the risk in Theorem 5.5.

    The proof allows N errors outside the core set, taking the rows left over by Algorithm 3 for at most N, and like
    that of Theorem 4.3 leaves out the number of ways to place them. That is at most ``T**N`` here: ``2 N + 1`` in place
    of ``N + 1`` is enough, so the order stands where the number of rows left over is at most N.
    """
    T, N = count(T, "T"), count(N, "N", 0)
    delta = probability(delta, "delta")
    value = ((N + 1) * math.log(T) + math.log(1.0 / delta)) / (T - 2 * N) if T > 2 * N else math.inf
    right = "no row outside the core set has the wrong sign"
    return Bound(value, value >= 1.0, "Theorem 5.5, risk", (IID, REALISABLE, right))


def stage_threshold(stage: int, *, rate: float) -> float:
    """``eps_l**2 = 4**-l / rate``: the threshold on D**2 of stage l of Algorithm 3, and of a single pass as fine."""
    stage, rate = count(stage, "stage"), number_between(rate, "rate", 1.0, math.inf, closed="both")
    tau = 4.0**-stage / rate if stage < 500 else 0.0
    if tau == 0.0:
        raise ConfigurationError(f"stage must be below 500, where thresholds are too small for float64; got {stage}.")
    return tau
