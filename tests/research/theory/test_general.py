"""Bounds for Algorithm 2, held against classes and samplers of the package and against a class done by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from erasable.classes import FiniteClass, LinearBall
from erasable.coresets import SinglePass, Staged
from erasable.errors import ConfigurationError, InputError
from erasable.research.theory.general import (
    general_capacity,
    general_excess_risk,
    printed_general_excess_risk,
    single_pass_size,
    stage_threshold,
    staged_size,
)
from erasable.research.theory.linear import excess_risk


@pytest.mark.parametrize("tau", [0.5, 0.1, 0.02])
@pytest.mark.parametrize("seed", range(3))
def test_one_pass_over_a_linear_class_keeps_no_more_than_promised(tau: float, seed: int) -> None:
    X = np.random.default_rng(seed).standard_normal((300, 4)) * 2.0 ** -np.arange(4)
    ball = LinearBall(radius=1.0)
    kept = SinglePass(ball, threshold=tau).select(X)
    assert len(kept) <= single_pass_size(300, dimension=ball.dimension(ball.encode(X)), tau=tau).value


def test_one_pass_over_constants_keeps_almost_as_many_as_promised() -> None:
    # F holds the constants 0 and 1: D² is 1 / (1 + n) after n rows, and D(F, S) the sum of 1 / (1 + t).
    T, tau = 1000, 0.01
    n = 0
    while 1 / (1 + n) > tau:
        n += 1
    D = sum(1 / (1 + t) for t in range(1, n + 1))  # the rows kept are all that matters to the argument
    assert n <= single_pass_size(T, dimension=D, tau=tau).value
    two = FiniteClass([lambda X: np.zeros(len(X)), lambda X: np.ones(len(X))])
    kept = SinglePass(two, threshold=tau).select(np.zeros((T, 1)))
    assert len(kept) == n
    rows = two.encode(np.zeros((T, 1)))
    assert len(kept) <= single_pass_size(T, dimension=two.dimension(rows), tau=tau).value


def test_a_pass_that_keeps_all_is_reported_as_saying_nothing() -> None:
    assert single_pass_size(10, dimension=5.0, tau=0.1).vacuous
    assert not single_pass_size(1000, dimension=5.0, tau=0.1).vacuous


def test_stages_over_two_constants_keep_no_more_than_promised() -> None:
    T, rate = 30_000, 1.0
    two = FiniteClass([lambda X: np.full(len(X), 0.2), lambda X: np.full(len(X), 0.8)])
    y = np.where(np.random.default_rng(0).uniform(size=T) < 0.8, 1, 0)
    run = Staged(two, rate=rate).stages(np.zeros((T, 1)), y)
    D = two.dimension(two.encode(np.zeros((T, 1))))
    bound = staged_size(np.full(T, 0.3), dimension=D, rate=rate)
    assert run.stopped_by_rule
    assert len(run.stages) >= 3
    assert not bound.vacuous
    assert len(run.positions) <= bound.value


def test_the_staged_size_is_the_least_over_epsilon() -> None:
    rng = np.random.default_rng(2)
    margins = np.concatenate([rng.uniform(0.0, 0.4, 2000), -rng.uniform(0.4, 0.5, 398_000)])
    found = staged_size(margins, dimension=2.0, rate=1.5).value
    grid = np.geomspace(1e-3, 1.0, 5001)
    near = np.searchsorted(np.sort(np.abs(margins)), grid, side="right")
    values = 64 * near + 256 * 3.0 / grid**2
    assert found <= values.min()
    assert found >= 0.98 * values.min()


def test_refits_of_a_stable_oracle_keep_signs_within_the_capacity() -> None:
    # Constants in [0, 1]: the fit is the mean, and D² at any row is 1 / (1 + N).
    N, stage = 400, 2
    rate = (N + 1) / 4**stage
    K = max(K for K in range(1, N) if general_capacity(N, rate=rate, beta=2 / (N - K)).value >= K)
    assert K >= 20
    for ones in range(0, N + 1, 20):
        before = ones / N
        for removed in (min(K, ones), -min(K, N - ones)):  # ones, or zeros
            after = (ones - max(removed, 0)) / (N - abs(removed))
            assert abs(after - before) <= 2.0**-stage
            assert (after - before) ** 2 <= (K**2 * N * (2 / (N - K)) ** 2 + 1) / (N + 1)


def test_ridge_with_a_fixed_regulariser_has_no_capacity_by_this_theorem() -> None:
    ball, T, N = LinearBall(radius=0.5), 10**6, 10**4
    bound = general_capacity(N, rate=ball.rate(T, 0.05, 10), beta=ball.stability(N))
    assert bound.vacuous


@pytest.mark.parametrize("per_row", [False, True])
def test_the_stability_of_ridge_falls_with_n_where_the_regulariser_is_per_row(per_row: bool) -> None:
    rng = np.random.default_rng(0)
    changes = {}
    for n in (100, 10_000):
        X = np.zeros((n, 3))
        X[1:, :2] = rng.standard_normal((n - 1, 2))
        X[1:] /= np.linalg.norm(X[1:], axis=1, keepdims=True)
        X[0, 2] = 1.0  # the row that leaves is orthogonal to all others
        y = np.append(1.0, rng.integers(0, 2, n - 1)) - 0.5
        at, without = (
            np.linalg.solve(A.T @ A + (len(A) if per_row else 1.0) * np.eye(3), A.T @ b)
            for A, b in ((X, y), (X[1:], y[1:]))
        )
        changes[n] = max(abs((X[i] @ at - t) ** 2 - (X[i] @ without - t) ** 2) for i in range(50) for t in (-0.5, 0.5))
    ratio = changes[100] / changes[10_000]
    assert ratio == pytest.approx(100, rel=0.2) if per_row else ratio == pytest.approx(1, rel=0.01)


def test_a_rate_that_leaves_no_room_gives_no_capacity() -> None:
    assert general_capacity(100, rate=1.0, beta=0.01).value == 0.0


def test_the_general_risk_is_the_linear_one_for_linear_probabilities() -> None:
    # f* = (1 + u'x) / 2: margins are half the scores.
    general = general_excess_risk(5000, 40, 300, epsilon=0.05, delta=0.1).value
    assert general == pytest.approx(excess_risk(5000, 40, 300, epsilon=0.1, delta=0.1).value)
    assert not general_excess_risk(5000, 40, 300, epsilon=0.05, delta=0.1).vacuous
    assert general_excess_risk(50, 40, 30, epsilon=0.5, delta=0.1).vacuous


def test_the_printed_general_risk_needs_more_than_twice_the_core_set() -> None:
    assert printed_general_excess_risk(100, 50, delta=0.1).value == math.inf
    value = printed_general_excess_risk(10_000, 50, delta=0.1).value
    assert value == pytest.approx((51 * math.log(10_000) + math.log(10)) / 9900)


def test_stage_thresholds_quarter() -> None:
    assert stage_threshold(1, rate=2.0) == 0.125
    assert stage_threshold(3, rate=2.0) == stage_threshold(2, rate=2.0) / 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: single_pass_size(-1, dimension=1.0, tau=0.1),
        lambda: single_pass_size(10, dimension=-1.0, tau=0.1),
        lambda: single_pass_size(10, dimension=1.0, tau=0.0),
        lambda: staged_size([0.1], dimension=1.0, rate=0.5),
        lambda: general_capacity(0, rate=2.0, beta=0.1),
        lambda: general_capacity(10, rate=2.0, beta=0.0),
        lambda: general_capacity(10, rate=math.nan, beta=0.1),
        lambda: general_excess_risk(10, 2, 1, epsilon=0.6, delta=0.1),
        lambda: general_excess_risk(10, 2, 1, epsilon=0.5, delta=1.0),
        lambda: printed_general_excess_risk(10, -2, delta=0.1),
        lambda: stage_threshold(0, rate=2.0),
        lambda: stage_threshold(2000, rate=2.0),
    ],
)
def test_numbers_that_cannot_be_are_refused(call: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must (not )?be"):
        call()


def test_margins_that_are_no_list_of_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="margins must be"):
        staged_size([], dimension=1.0, rate=2.0)
