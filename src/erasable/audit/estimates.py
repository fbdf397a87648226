"""How far a randomised estimator is from forgetting, at least: epsilon of Definitions 2.1 and 2.3 from runs of it."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.audit.definitions import Rows, as_rows, core_of, fitted, forget, without
from erasable.audit.epsilon import (
    EpsilonBound,
    epsilon_lower_bound,
    one_run_epsilon,
    one_run_guesses,
    one_run_unlearning_epsilon,
)
from erasable.core.arrays import Float64s
from erasable.errors import InputError
from erasable.validation import seed, whole_number


@dataclass(frozen=True)
class OneRunBound:
    """What one run says.

    Attributes
    ----------
    epsilon : float
        Lower bound on the epsilon of Definition 2.1, for forgetting all canaries that were in.
    epsilon_of_privacy : float
        Lower bound on the epsilon of differential privacy of learning and forgetting together, towards each canary
        (Steinke et al. 2023).
    canaries, guesses, right : int
    """

    epsilon: float
    epsilon_of_privacy: float
    canaries: int
    guesses: int
    right: int


def estimate_epsilon(
    build: Callable[[int], Any],
    rows: Any,
    gone: Collection[Any],
    *,
    runs: int = 200,
    score: Callable[[Any], Any] | None = None,
    delta: float = 0.0,
    confidence: float = 0.95,
    random_state: int = 0,
) -> EpsilonBound:
    """A lower bound on epsilon, sound with this confidence: learn S and forget U, against learning S' - U.

    Parameters
    ----------
    build : callable
        An unfitted estimator from a seed, which all its random numbers come from.
    rows : Rows, or tuple (X, y) or (X, y, ids)
    gone : collection of ids
    runs : int, default=200
        Of each kind. Half of them choose what to look at, the others are counted, so with all runs told apart
        epsilon is bounded by about log(runs / 8) and no more.
    score : callable, optional
        What an attacker looks at: a number, or an array of numbers, of a model. By default the published weights.
    delta, confidence, random_state

    Notes
    -----
    S' is read from a first model (``core_ids_``; all rows where there is none), which Definition 2.3 wants fixed before
    U. An array is turned into a number by the difference of means over the runs that choose. The bound is on what
    ``score`` sees: another score may see more.
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


def estimate_epsilon_in_one_run(
    estimator: Any,
    rows: Any,
    canaries: Any,
    score: Callable[[Any, Rows], Any],
    *,
    guesses: int,
    delta: float = 0.0,
    confidence: float = 0.95,
    random_state: int = 0,
) -> OneRunBound:
    """Lower bounds on epsilon from one run: canaries join by fair coins, are learnt, forgotten, and then looked for.

    Parameters
    ----------
    estimator
        Whatever randomness it has it draws itself.
    rows, canaries : Rows, or tuple (X, y, ids)
        Rows that stay, and rows of which each is learnt or not. Ids of both together are distinct.
    score : callable
        From the model after forgetting, and the canaries, a number for each: higher where it seems to have been in.
    guesses : int
        How many canaries to guess about: half of them in, those with the highest scores, half out.
    delta, confidence
    random_state : int, default=0
        Of the coins; no business of the estimator.
    """
    S, C = as_rows(rows), as_rows(canaries)
    m = len(C.named())
    half = whole_number(guesses, "guesses", 2, m) // 2
    inside = np.random.default_rng(seed(random_state)).random(m) < 0.5
    chosen = C.take(np.flatnonzero(inside))
    together = Rows(np.concatenate([S.X, chosen.X]), np.concatenate([S.y, chosen.y]), S.named() + chosen.named())
    model = fitted(estimator, together)
    forget(model, chosen.named())
    made, right = one_run_guesses(score(model, C), inside, half, half)
    return OneRunBound(
        one_run_unlearning_epsilon(made, right, delta=delta, confidence=confidence),
        one_run_epsilon(m, made, right, delta=delta, confidence=confidence),
        m,
        made,
        right,
    )


def _weights(model: Any) -> Float64s:
    """The published weights and intercepts."""
    if not hasattr(model, "coef_"):
        raise InputError(f"{type(model).__name__} has no coef_ to look at: give score=.")
    return np.append(np.ravel(model.coef_), np.ravel(getattr(model, "intercept_", ())))
