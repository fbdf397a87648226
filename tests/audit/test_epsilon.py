"""Lower bounds on epsilon: closed forms, found where there is a leak, and seldom too high."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.audit.definitions import Rows
from erasable.audit.epsilon import epsilon_from_counts, epsilon_lower_bound, estimate_epsilon
from erasable.errors import ConfigurationError, InputError
from erasable.research.baselines import CertifiedRemovalClassifier, NewtonUnlearner
from erasable.research.controls import ForgetsNothing, RidgeStore

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
y = np.where(X[:, 0] > 0, 1, -1)


def test_the_bound_from_counts_in_closed_form() -> None:
    low, high = 0.025 ** (1 / 500), 1 - 0.025 ** (1 / 500)
    assert epsilon_from_counts(500, 500, 0, 500) == pytest.approx(math.log(low / high))
    assert epsilon_from_counts(500, 500, 0, 500, delta=0.1) == pytest.approx(math.log((low - 0.1) / high))
    assert epsilon_from_counts(0, 500, 0, 500) == epsilon_from_counts(10, 500, 10, 500) == 0.0


@pytest.mark.parametrize(("swap", "sign"), [(False, 1), (False, -1), (True, 1), (True, -1)])
def test_an_event_is_found_on_either_side_and_in_either_direction(swap: bool, sign: int) -> None:
    rng = np.random.default_rng(0)
    rare = sign * np.where(rng.random(2000) < 0.2, 9.0, rng.random(2000))  # nine is never seen on the other side
    never = sign * rng.random(2000)
    found = epsilon_lower_bound(never, rare) if swap else epsilon_lower_bound(rare, never)
    assert found.epsilon > 3.0
    assert (found.first_runs, found.second_runs) == (1000, 1000)


def test_a_laplace_mechanism_is_bounded_below_and_seldom_above_its_epsilon() -> None:
    rng = np.random.default_rng(3)
    bounds = [
        epsilon_lower_bound(rng.laplace(1.0, 1.0, 1000), rng.laplace(0.0, 1.0, 1000), confidence=0.9).epsilon
        for _ in range(100)
    ]
    assert np.quantile(bounds, 0.05) > 0.5  # the luckiest event of those that choose would be far below
    assert np.mean(np.array(bounds) > 1.0) <= 0.1


def test_two_of_the_same_are_seldom_told_apart() -> None:
    rng = np.random.default_rng(4)
    bounds = [epsilon_lower_bound(rng.random(40), rng.random(40), confidence=0.9).epsilon for _ in range(500)]
    assert np.mean(np.array(bounds) > 0.0) <= 0.1
    assert epsilon_lower_bound(np.zeros(9), np.zeros(7)).epsilon == 0.0
    with pytest.raises(InputError, match="four scores"):
        epsilon_lower_bound([1.0], [2.0, 3.0, 4.0, 5.0])


class NoisySum:
    """Publishes a sum with Laplace noise of scale one, and forgets by taking the row out, or not at all."""

    def __init__(self, seed: int, forgets: bool) -> None:
        self.rng, self.forgets = np.random.default_rng(seed), forgets

    def fit(self, X: Any, y: Any, ids: Any) -> Self:
        self.values = dict(zip(ids, X[:, 0], strict=True))
        return self._publish()

    def forget(self, *, ids: Any) -> None:
        if self.forgets:
            for key in ids:
                del self.values[key]
        self._publish()

    def _publish(self) -> Self:
        self.coef_ = np.array([sum(self.values.values()) + self.rng.laplace()])
        return self


def test_a_mechanism_whose_epsilon_is_known() -> None:
    """The forgotten row is one, noise has scale one: kept, epsilon is one exactly; taken out, zero."""
    rows = np.zeros((5, 1))
    rows[2] = 1.0
    kept, out = (
        estimate_epsilon(lambda seed, f=f: NoisySum(seed, f), (rows, [0] * 5), [2], runs=2000) for f in (False, True)
    )
    assert 0.5 < kept.epsilon <= 1.0
    assert out.epsilon == 0.0
    assert kept.first_runs == kept.second_runs == 1000


def test_forgetting_nothing_is_found_and_exact_forgetting_is_not() -> None:
    outlier = Rows(np.vstack([X, 5 * np.ones(3)]), np.append(y, -1))

    def looked_at(kind: Any) -> float:
        def noisy(seed: int) -> Any:
            store = kind()
            store.noise = np.random.default_rng(seed).normal(0.0, 1e-3, 4)
            return store

        return estimate_epsilon(noisy, outlier, [60], runs=100, score=lambda m: m.weights + m.noise).epsilon

    assert looked_at(ForgetsNothing) > 2.0
    assert looked_at(RidgeStore) == 0.0


@pytest.mark.parametrize("kind", [NewtonUnlearner, CertifiedRemovalClassifier])
def test_what_the_peers_publish_is_not_found_to_break_their_promise(kind: Any) -> None:
    gone = [int(np.argmax(np.abs(X).sum(axis=1)))]
    found = estimate_epsilon(lambda seed: kind(alpha=0.1, random_state=seed), (X, y), gone, runs=60, delta=1e-4)
    assert found.epsilon <= 1.0


class Noise:
    """Publishes nothing but noise, in many coordinates."""

    def __init__(self, seed: int) -> None:
        self.coef_ = np.random.default_rng(seed).standard_normal(400)

    def fit(self, X: Any, y: Any, ids: Any) -> Self:
        return self

    def forget(self, *, ids: Any) -> None:
        pass


def test_the_direction_to_look_in_is_not_chosen_on_the_runs_that_are_counted() -> None:
    assert estimate_epsilon(Noise, (X, y), [0], runs=40).epsilon == 0.0


def test_core_rows_are_what_is_compared_with() -> None:
    estimator = ErasableClassifier(threshold=0.2, capacity=0.1, feature_map=None)
    core = estimator.fit(X, y).core_ids_.tolist()
    found = estimate_epsilon(lambda seed: estimator, (X, y), core[:4], runs=8)
    assert found.epsilon == 0.0
    assert found.first_hits == found.first_runs or found.first_hits == 0  # one number, whatever the run


def test_what_cannot_be_estimated_is_refused() -> None:
    with pytest.raises(InputError, match="no coef_"):
        estimate_epsilon(lambda seed: _Blank(), (X, y), [0], runs=8)
    with pytest.raises(ConfigurationError, match="runs"):
        estimate_epsilon(lambda seed: RidgeStore(), (X, y), [0], runs=3)


class _Blank:
    def fit(self, X: Any, y: Any, ids: Any) -> Self:
        return self

    def forget(self, *, ids: Any) -> None:
        pass
