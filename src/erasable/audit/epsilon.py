"""Lower bounds on epsilon that hold with a stated confidence, from runs of a randomised algorithm.

Two distributions are (epsilon, delta)-indistinguishable when ``P(E) <= exp(epsilon) Q(E) + delta`` and
``Q(E) <= exp(epsilon) P(E) + delta`` for every event E. An event seen often under one of them and seldom under the
other bounds epsilon from below. No number of runs bounds it from above.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.stats import binom

from erasable.audit.statistics import highest, lowest
from erasable.core.arrays import Float64s
from erasable.errors import InputError
from erasable.validation import number_between, number_not_negative, probability, whole_number

_STEPS = 60  # of bisection


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on epsilon, and the event that it comes from.

    Attributes
    ----------
    epsilon : float
        The algorithm is not (smaller, delta)-indistinguishable, with this confidence. Zero says nothing.
    delta, confidence : float
    threshold : float
        The event: a score at or above it, or below it.
    above : bool
        Which of the two.
    first_hits, first_runs, second_hits, second_runs : int
        How often it happened in the runs that were kept for counting.
    """

    epsilon: float
    delta: float
    confidence: float
    threshold: float
    above: bool
    first_hits: int
    first_runs: int
    second_hits: int
    second_runs: int


def epsilon_from_counts(
    hits: int, runs: int, other_hits: int, other_runs: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """The lower bound on epsilon from one event that was chosen before these runs, more likely under the first.

    ``log((p - delta) / q)``, with p below the probability of the event in the first kind of runs and q above that in
    the other: the ends of Clopper and Pearson, each wrong with probability (1 - confidence) / 2 at most.

    Source: Jagielski, Ullman and Oprea, Auditing Differentially Private Machine Learning (NeurIPS 2020);
    delta moves to the other side of the definition.
    """
    runs, other_runs = whole_number(runs, "runs"), whole_number(other_runs, "other_runs")
    hits = whole_number(hits, "hits", 0, runs)
    other_hits = whole_number(other_hits, "other_hits", 0, other_runs)
    tail = (1.0 - probability(confidence, "confidence")) / 2.0
    delta = number_between(delta, "delta", 0.0, 1.0, closed="low")
    return float(_bounds(np.array([hits]), runs, np.array([other_hits]), other_runs, delta, tail)[0])


def epsilon_lower_bound(
    first: npt.ArrayLike, second: npt.ArrayLike, *, delta: float = 0.0, confidence: float = 0.95
) -> EpsilonBound:
    """A lower bound on epsilon from the scores of runs of two kinds.

    The even runs choose a threshold, a side of it and a direction; the odd ones, which had no say, are counted. So one
    event is tested, and no correction for many is needed.

    Parameters
    ----------
    first, second : array of shape (n_runs,)
        One number for each independent run: after forgetting a row, and without it, say. Four of each at least.
    """
    a, b = _scores(first, "first"), _scores(second, "second")
    delta = number_between(delta, "delta", 0.0, 1.0, closed="low")
    tail = (1.0 - probability(confidence, "confidence")) / 2.0
    (a_choosing, a_counted), (b_choosing, b_counted) = (a[::2], a[1::2]), (b[::2], b[1::2])
    thresholds = np.unique(np.concatenate([a_choosing, b_choosing]))
    careful = tail / (4 * len(thresholds))  # of so many events the luckiest would be chosen, not the best
    best, chosen = -1.0, (thresholds[0], True, True)
    for above in (True, False):
        n, m = len(a_choosing), len(b_choosing)
        in_a, in_b = _hits(a_choosing, thresholds, above), _hits(b_choosing, thresholds, above)
        for forward in (True, False):
            found = _bounds(in_a, n, in_b, m, delta, careful) if forward else _bounds(in_b, m, in_a, n, delta, careful)
            at = int(np.argmax(found))
            if found[at] > best:
                best, chosen = found[at], (thresholds[at], above, forward)
    threshold, above, forward = chosen
    (in_a,), (in_b,) = (_hits(part, np.array([threshold]), above) for part in (a_counted, b_counted))
    counts = (int(in_a), len(a_counted)), (int(in_b), len(b_counted))
    (hits, runs), (other_hits, other_runs) = counts if forward else counts[::-1]
    epsilon = epsilon_from_counts(hits, runs, other_hits, other_runs, delta=delta, confidence=confidence)
    return EpsilonBound(epsilon, delta, confidence, float(threshold), above, *counts[0], *counts[1])


def one_run_p_value(canaries: int, guesses: int, right: int, epsilon: float, delta: float = 0.0) -> float:
    """How probable so many right guesses are, at most, if the algorithm is (epsilon, delta)-differentially private.

    Each of the canaries was put in by a fair coin of its own; of some the auditor guesses whether they were, after one
    run, and of the others nothing.

    Source: Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run (NeurIPS 2023), the algorithm of
    Appendix D: ``P(B >= v) + 2 m delta max_i P(v > B >= v - i) / i`` for B binomial over the guesses
    with probability ``1 / (1 + exp(-epsilon))``.
    """
    m, r, v = _counted(canaries, guesses, right)
    q = 1.0 / (1.0 + math.exp(-number_not_negative(epsilon, "epsilon")))
    p = float(binom.sf(v - 1, r, q))
    delta = number_between(delta, "delta", 0.0, 1.0, closed="low")
    if delta and v:
        i = np.arange(1, v + 1)
        between = np.cumsum(binom.pmf(v - i, r, q))
        p += 2.0 * m * delta * float(np.max(between / i))
    return min(p, 1.0)


def one_run_epsilon(canaries: int, guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """The largest epsilon that one run refutes, with all smaller ones: a lower bound with this confidence.

    The number of guesses has to be fixed before the truth is looked at.

    Examples
    --------
    The paper's example: 75 of 100 guesses right among 1,000 canaries.

    >>> round(one_run_epsilon(1000, 100, 75, delta=1e-4), 3)
    0.673
    """
    level = 1.0 - probability(confidence, "confidence")

    def refuted(epsilon: float) -> bool:
        return one_run_p_value(canaries, guesses, right, epsilon, delta) < level

    if not refuted(0.0):
        return 0.0
    high = 1.0
    while refuted(high):
        high += 1.0
    low = high - 1.0
    for _ in range(_STEPS):
        middle = (low + high) / 2.0
        low, high = (middle, high) if refuted(middle) else (low, middle)
    return low


def one_run_unlearning_epsilon(guesses: int, right: int, *, delta: float = 0.0, confidence: float = 0.95) -> float:
    """The lower bound on the epsilon of unlearning from one run in which all canaries that were in are forgotten.

    Definition 2.1 says that the model is then (epsilon, delta)-indistinguishable from one that never saw any canary,
    whatever the coins were; and of that one every guess is right with probability one half. So this many right
    guesses have probability ``exp(epsilon) P(B >= v) + delta`` at most, B binomial with probability one half. It is
    larger than a bound on differential privacy, since the definition is about all forgotten rows together.
    """
    r = whole_number(guesses, "guesses", 0)
    v = whole_number(right, "right", 0, r)
    level = 1.0 - probability(confidence, "confidence")
    delta = number_between(delta, "delta", 0.0, 1.0, closed="low")
    if delta >= level:
        return 0.0
    return max(0.0, math.log(level - delta) - float(binom.logsf(v - 1, r, 0.5)))


def one_run_guesses(scores: npt.ArrayLike, included: npt.ArrayLike, likely_in: int, likely_out: int) -> tuple[int, int]:
    """How many guesses, and how many of them right, when the highest scores are guessed in and the lowest out."""
    s, truth = _scores(scores, "scores"), np.asarray(included, bool)
    likely_in, likely_out = whole_number(likely_in, "likely_in", 0), whole_number(likely_out, "likely_out", 0)
    if truth.shape != s.shape or likely_in + likely_out > len(s):
        raise InputError(
            f"one truth for each score and no more guesses than scores are needed; got {s.shape} scores, "
            f"{truth.shape} truths and {likely_in + likely_out} guesses."
        )
    order = np.argsort(-s, kind="stable")
    right = truth[order[:likely_in]].sum() + (~truth[order[len(s) - likely_out :]]).sum()
    return likely_in + likely_out, int(right)


def _bounds(
    hits: npt.ArrayLike, runs: int, other_hits: npt.ArrayLike, other_runs: int, delta: float, tail: float
) -> Float64s:
    p, q = lowest(hits, runs, tail) - delta, highest(other_hits, other_runs, tail)
    found: Float64s = np.log(np.maximum(p, q) / q)  # the event as a whole says nothing below zero
    return found


def _hits(scores: Float64s, thresholds: Float64s, above: bool) -> npt.NDArray[np.intp]:
    below = np.searchsorted(np.sort(scores), thresholds, side="left")
    return len(scores) - below if above else below


def _scores(scores: npt.ArrayLike, name: str) -> Float64s:
    s = np.asarray(scores, np.float64)
    if s.ndim != 1 or len(s) < 4 or np.isnan(s).any():
        raise InputError(f"{name} must be four scores or more in one dimension, without NaN; got shape {s.shape}.")
    return s


def _counted(canaries: int, guesses: int, right: int) -> tuple[int, int, int]:
    m = whole_number(canaries, "canaries")
    r = whole_number(guesses, "guesses", 0, m)
    return m, r, whole_number(right, "right", 0, r)
