"""Lower bounds on the epsilon of unlearning: found where there is a leak, not found where there is none."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.audit.definitions import Rows
from erasable.audit.epsilon import one_run_unlearning_epsilon
from erasable.audit.estimates import estimate_epsilon, estimate_epsilon_in_one_run
from erasable.errors import ConfigurationError, InputError
from erasable.research.baselines import CertifiedRemovalClassifier, NewtonUnlearner
from erasable.research.controls import ForgetsNothing, RidgeStore

RNG = np.random.default_rng(0)
X = RNG.standard_normal((60, 3))
y = np.where(X[:, 0] > 0, 1, -1)


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
    estimator = ErasableClassifier(threshold=0.2, capacity=0.1)
    core = estimator.fit(X, y).core_ids_.tolist()
    found = estimate_epsilon(lambda seed: estimator, (X, y), core[:4], runs=8)
    assert found.epsilon == 0.0
    assert found.first_hits == found.first_runs or found.first_hits == 0  # one number, whatever the run


def test_one_run_against_what_forgets_nothing_and_what_forgets() -> None:
    canaries = Rows(RNG.standard_normal((200, 100)), RNG.choice([-1, 1], 200), range(1000, 1200))
    base = Rows(RNG.standard_normal((50, 100)), RNG.choice([-1, 1], 50), range(50))

    def fit_of(model: Any, rows: Rows) -> Any:
        return -np.abs(1.0 - rows.y * model.decision_function(rows.X))

    bad, good = (
        estimate_epsilon_in_one_run(kind(), base, canaries, fit_of, guesses=100)
        for kind in (ForgetsNothing, RidgeStore)
    )
    assert bad.epsilon > 5.0
    assert bad.epsilon > bad.epsilon_of_privacy > 0.5
    assert good.epsilon == good.epsilon_of_privacy == 0.0
    assert (bad.canaries, bad.guesses) == (200, 100)


def test_the_bound_for_all_forgotten_rows_together() -> None:
    assert one_run_unlearning_epsilon(20, 20) == pytest.approx(math.log(0.05) + 20 * math.log(2))
    assert one_run_unlearning_epsilon(20, 20, delta=0.01) == pytest.approx(math.log(0.04) + 20 * math.log(2))
    assert one_run_unlearning_epsilon(20, 10) == one_run_unlearning_epsilon(20, 20, delta=0.05) == 0.0
    probability_of_fifteen = sum(math.comb(20, k) for k in range(15, 21)) / 2**20
    assert one_run_unlearning_epsilon(20, 15) == pytest.approx(math.log(0.05 / probability_of_fifteen))


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
