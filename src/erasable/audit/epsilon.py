"""Lower bounds on the epsilon of Definitions 2.1 and 2.3 that hold with a stated confidence, from runs of an estimator.

Two distributions are (epsilon, delta)-indistinguishable if ``P(E) <= exp(epsilon) Q(E) + delta`` and
``Q(E) <= exp(epsilon) P(E) + delta`` for every event E. An event seen often under one of them and seldom under the
other bounds epsilon from below. No number of runs bounds it from above.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit.definitions import Forgetting, Id, Rows, as_rows, core_of, fitted, forget, without
from erasable.audit.statistics import highest, lowest
from erasable.core.arrays import Float64s
from erasable.errors import InputError
from erasable.validation import number_between, probability, seed, whole_number


@dataclass(frozen=True)
class EpsilonBound:
    """A lower bound on epsilon, and the event that it comes from."""

    epsilon: float  # the algorithm is not (smaller, delta)-indistinguishable, with this confidence. Zero says nothing.
    delta: float
    confidence: float
    threshold: float  # the event: a score at or above it, or below it
    above: bool  # which of the two
    # first_hits, first_runs, second_hits, second_runs: how often it happened in the runs that were kept for counting.
    first_hits: int
    first_runs: int
    second_hits: int
    second_runs: int


def estimate_epsilon(
    build: Callable[[int], Forgetting],
    rows: Rows | Sequence[Any],
    gone: Collection[Id],
    *,
    runs: int = 200,
    score: Callable[[Any], Any] | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    random_state: int = 0,
) -> EpsilonBound:
    """Return a lower bound on epsilon with this confidence: learning S and forgetting U, against learning S' - U.

    Parameters
    ----------
    build : callable
        Takes a seed for all random numbers and returns an unfitted estimator.
    rows : Rows, or tuple (X, y) or (X, y, ids)
    gone : collection of ids
    runs : int, default=200
        Of each kind. Half of them choose what to look at, the others are counted, so with all runs told apart
        epsilon is bounded by about log(runs / 8) and no more.
    score : callable, optional
        What an attacker sees of a model: a number, or an array of numbers. By default the published weights.
    delta, confidence, random_state

    Notes
    -----
    S' is read from a first model (``core_ids_``; all rows if it has none), since Definition 2.3 fixes it before U. An
    array is turned into a number by the difference of means over the runs that choose. The bound is on what ``score``
    sees: another score may see more.
    """
    S, n = as_rows(rows), whole_number(runs, "runs", 8)
    seeds = np.random.SeedSequence(seed(random_state)).generate_state(2 * n + 1).tolist()
    left = without(S, core_of(fitted(build(seeds[-1]), S), S), gone)
    look = _weights if score is None else score
    first, second = [], []
    for one, other in zip(seeds[:n], seeds[n : 2 * n], strict=True):
        model = fitted(build(one), S)
        forget(model, gone)
        first.append(np.ravel(look(model)).astype(np.float64))
        second.append(np.ravel(look(fitted(build(other), left))).astype(np.float64))
    if len({len(seen) for seen in first + second}) > 1:
        raise InputError("score must give the same number of numbers for every model: look at something else.")
    a, b = np.array(first), np.array(second)
    direction = a[::2].mean(axis=0) - b[::2].mean(axis=0) if a.shape[1] > 1 else np.ones(1)
    return epsilon_lower_bound(a @ direction, b @ direction, delta=delta, confidence=confidence)


def epsilon_from_counts(
    hits: int, runs: int, other_hits: int, other_runs: int, *, delta: float = 0.0, confidence: float = 0.95
) -> float:
    """Return the lower bound on epsilon from one event, chosen before these runs, that is likelier under the first.

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
    """Return a lower bound on epsilon from the scores of runs of two kinds.

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


def _weights(model: object) -> Float64s:
    """Return the published weights and intercepts."""
    if not hasattr(model, "coef_"):
        raise InputError(f"{type(model).__name__} has no coef_ to look at: give score=.")
    return np.append(np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", ())))


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
