"""How many deletions it takes to exhaust the capacity, held against enumeration and simulation."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import hypergeom

from erasable.errors import ConfigurationError, InputError
from erasable.research.theory.deletions import (
    core_deletions,
    deletion_probabilities,
    deletion_time,
    encounters,
    exhaustion_probability,
    leverage_core_deletions,
    printed_core_deletions,
    printed_total_deletions,
    printed_total_deletions_uniform,
    total_deletions,
    total_deletions_uniform,
)
from erasable.research.theory.linear import Bound, core_set_size, threshold

Array = np.ndarray[Any, np.dtype[np.float64]]


def ball(seed: int, T: int, d: int) -> Array:
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((T, d)) * 1.5 ** -np.arange(d)
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(0.3, 1.0, (T, 1))


def every_order(T: int) -> list[tuple[int, ...]]:
    return list(itertools.permutations(range(T)))


def literal(X: Array, order: Any, lam: float, tau: float) -> tuple[Array, set[int], Array]:
    """Algorithm 1, one row at a time: leverages when met, rows kept, sum of the inverses."""
    d = X.shape[1]
    A, met, keep, inverses = lam * np.eye(d), np.zeros(len(X)), set(), np.zeros((d, d))
    for i in order:
        M = np.linalg.inv(A)
        inverses += M
        met[i] = X[i] @ M @ X[i]
        if met[i] > tau:
            keep.add(int(i))
            A = A + np.outer(X[i], X[i])
    return met, keep, inverses


@pytest.mark.parametrize(("T", "d"), [(300, 3), (130, 70), (5, 2)])
def test_encounters_are_those_of_the_literal_loop(T: int, d: int) -> None:
    X, lam, tau = ball(0, T, d), 0.5, 0.05
    orders = [np.random.default_rng(s).permutation(T) for s in range(3)]
    found = encounters(X, lam=lam, tau=tau, orders=orders)
    runs = [literal(X, order, lam, tau) for order in orders]
    M = sum(run[2] for run in runs) / (3 * T)
    np.testing.assert_allclose(found.leverage, np.mean([run[0] for run in runs], axis=0), rtol=1e-8)
    np.testing.assert_allclose(found.mean_inverse, M, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.form, np.einsum("ij,jk,ik->i", X, M, X), rtol=1e-8)
    assert found.size == np.mean([len(run[1]) for run in runs])
    assert {i for i in range(T) if found.frequency[i] > 0} == set().union(*(run[1] for run in runs))


def test_the_same_seed_gives_the_same_encounters() -> None:
    X = ball(1, 100, 3)
    a, b, c = (encounters(X, lam=1.0, tau=0.1, n_orders=2, random_state=s) for s in (5, 5, 6))
    assert (a.leverage == b.leverage).all()
    assert not (a.leverage == c.leverage).all()


@pytest.mark.parametrize("K_total", [1, 2, 3])
def test_deletion_probabilities_are_those_of_drawing_without_replacement(K_total: int) -> None:
    mu = np.array([0.5, 0.3, 0.15, 0.05, 0.0])
    exact = np.zeros(5)
    for drawn in itertools.permutations(range(4), K_total):
        p, left = 1.0, 1.0
        for i in drawn:
            p, left = p * mu[i] / left, left - mu[i]
        exact[list(drawn)] += p
    found = deletion_probabilities(10 * mu, K_total, n_draws=20_000, random_state=1)
    np.testing.assert_allclose(found, exact, atol=0.006)
    assert found[4] == 0.0


def test_equal_weights_and_full_draws_need_no_chance() -> None:
    assert (deletion_probabilities(np.full(8, 3.0), 2) == 0.25).all()
    assert (deletion_probabilities([1.0, 2.0, 0.0], 2) == [1.0, 1.0, 0.0]).all()
    assert (deletion_probabilities([1.0, 2.0], 0) == 0.0).all()


def test_a_row_is_kept_no_more_often_than_its_leverage_when_met_allows() -> None:
    for seed in range(5):
        found = encounters(ball(seed, 200, 4), lam=1.0, tau=0.08, random_state=seed)
        assert (found.frequency <= found.leverage / found.tau).all()


@pytest.mark.parametrize("kind", ["uniform", "rare directions", "the other way round"])
def test_core_deletions_of_simulated_requests_are_as_expected_and_capacity_lasts(kind: str) -> None:
    T, K, c = 300, 12, 0.5
    X, lam = ball(3, T, 4), 1.0
    tau = threshold(T, 0.45)
    met = encounters(X, lam=lam, tau=tau, n_orders=60)
    mu = {"uniform": np.ones(T), "rare directions": met.leverage**2, "the other way round": met.leverage**-2.0}[kind]
    total = int(total_deletions(met, mu, K=K, c=c, n_draws=256).value)
    assert total > K / 4
    rng = np.random.default_rng(11)
    counts = []
    for _ in range(300):
        mask = encounters(X, lam=lam, tau=tau, orders=[rng.permutation(T)]).frequency > 0
        gone = np.argsort(rng.standard_exponential(T) / mu)[:total]
        counts.append(int(mask[gone].sum()))
    expected = core_deletions(met, mu, total, n_draws=256)
    assert np.mean(counts) == pytest.approx(expected.value, abs=4 * np.std(counts) / math.sqrt(300) + 0.02 * total)
    assert np.mean(counts) <= leverage_core_deletions(met, mu, total, n_draws=256).value
    assert np.mean(np.array(counts) > K) <= exhaustion_probability(expected, K).value + 0.05 <= c + 0.05
    assert core_deletions(met, mu, total + 1, n_draws=256).value > c * (K + 1)


def test_the_exhaustion_probability_is_attained_by_certain_exhaustion() -> None:
    assert exhaustion_probability(Bound(6.0, False, "", ()), 5).value == 1.0
    assert exhaustion_probability(Bound(6.0, False, "", ()), 5).vacuous
    assert exhaustion_probability(Bound(0.6, False, "", ()), 5).value == pytest.approx(0.1)


# -- the second half of Theorem 4.4, as printed ----------------------------------------------------------------------


def test_two_orthogonal_rows_have_more_core_deletions_than_the_printed_number() -> None:
    # A step of the proof; no violation of the theorem, since one deletion cannot be more than K = 1 core deletions.
    met = encounters(np.eye(2), lam=1.0, tau=threshold(2, 0.1), orders=every_order(2))
    assert (met.frequency == 1.0).all()
    assert core_deletions(met, [1, 1], 1).value == 1.0
    assert printed_core_deletions(met, [1, 1], 1).value == pytest.approx(2**0.1 * 0.875)  # 0.938


def test_a_capacity_is_exhausted_for_certain_where_the_printed_probability_is_below_one() -> None:
    # Eight orthogonal rows, all kept; all are deleted, 8 > K = 7, for certain. Here K is not lam.
    rng = np.random.default_rng(0)
    met = encounters(np.eye(8), lam=1.0, tau=threshold(8, 0.01), orders=[rng.permutation(8) for _ in range(400)])
    assert (met.frequency == 1.0).all()
    assert printed_core_deletions(met, np.ones(8), 8).value / 7 < 0.93


@pytest.mark.parametrize("kappa", [0.1, 0.5, 0.9])
def test_weights_that_avoid_the_core_set_break_the_printed_probability(kappa: float) -> None:
    # Rows e1, e2, 0 and lam = K = 1: three deletions hit two core rows, more than K, for certain.
    weights = [0.01, 0.01, 0.98]
    met = encounters([[1, 0], [0, 1], [0, 0]], lam=1.0, tau=threshold(3, kappa), orders=every_order(3))
    assert met.frequency.tolist() == [1.0, 1.0, 0.0]
    assert core_deletions(met, weights, 3).value == 2.0
    assert printed_core_deletions(met, weights, 3).value / 1 == pytest.approx(0.05 * 3**kappa)  # 0.056 at kappa = 0.1


def test_equal_weights_did_not_break_the_printed_probability_on_small_sets() -> None:
    rng = np.random.default_rng(0)
    tried = 0
    for _ in range(100):
        T, d, K = (int(rng.integers(low, high)) for low, high in ((2, 5), (1, 4), (1, 3)))
        X = rng.standard_normal((T, d))
        X = X / np.linalg.norm(X, axis=1, keepdims=True) * rng.choice([1.0, rng.uniform(0.3, 1.0)])
        tau = threshold(T, rng.uniform(0.01, 0.99))
        sizes = [len(literal(X, order, K, tau)[1]) for order in every_order(T)]
        met = encounters(X, lam=K, tau=tau, orders=every_order(T))
        for total in range(K + 1, T + 1):
            found = np.mean([hypergeom.sf(K, T, size, total) for size in sizes])
            assert found <= printed_core_deletions(met, np.ones(T), total).value / K
            tried += found > 0
    assert tried > 20


def test_copies_of_one_row_refute_the_step_in_the_proof_of_the_uniform_lemma() -> None:
    T, kappa = 2000, 0.4
    met = encounters(np.ones((T, 1)), lam=1.0, tau=threshold(T, kappa), n_orders=1)
    assert met.form.sum() > 5 * math.log(T)  # the proof says at most d log T
    assert met.form.sum() == pytest.approx(T ** (1 - kappa), rel=0.1)
    assert printed_total_deletions(met, np.ones(T), K=10, c=0.1).vacuous
    assert total_deletions_uniform(T, met.size, K=10, c=0.1).value > 10


# -- uniform deletions, and time ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("T", "N", "K", "c"), [(1000, 50, 5, 0.1), (100_000, 300, 20, 0.3), (50, 10, 1, 0.9)])
def test_uniform_deletions_exhaust_the_capacity_no_more_often_than_promised(T: int, N: int, K: int, c: float) -> None:
    total = int(total_deletions_uniform(T, N, K=K, c=c).value)
    assert hypergeom.sf(K, T, N, total) <= c


def test_the_uniform_lemma_and_the_general_bound_agree() -> None:
    T = 400
    met = encounters(ball(4, T, 3), lam=1.0, tau=threshold(T, 0.5), n_orders=20)
    general = total_deletions(met, np.ones(T), K=9, c=0.2).value
    assert general == pytest.approx(total_deletions_uniform(T, met.size, K=9, c=0.2).value, abs=1)


def test_the_printed_uniform_number_is_the_smaller_one_where_the_size_bound_holds() -> None:
    T, d, kappa = 10**6, 5, 0.4
    N = core_set_size(T, d, lam=1.0, tau=threshold(T, kappa)).value
    assert d * T**kappa * math.log(T) >= N
    printed = printed_total_deletions_uniform(T, d, kappa=kappa, K=10, c=0.1).value
    assert printed <= total_deletions_uniform(T, N, K=10, c=0.1).value
    assert total_deletions_uniform(T, 0.0, K=10, c=0.1).value == T


def test_time_per_deletion_is_the_share_of_core_deletions() -> None:
    T, K, N = 1000, 9, 100
    total = int(total_deletions_uniform(T, N, K=K, c=K / (K + 1)).value)
    assert total * N / T <= K  # expected core deletions
    assert deletion_time(K, total, core_time=2.0).value >= N / T * 2.0
    assert deletion_time(10, 10).vacuous
    assert not deletion_time(10, 1000).vacuous


# -- what is refused ----------------------------------------------------------------------------------------------

MET = encounters(np.eye(3), lam=1.0, tau=0.5, n_orders=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: encounters(np.ones(3), lam=1.0, tau=0.1),
        lambda: encounters(np.ones((0, 3)), lam=1.0, tau=0.1),
        lambda: encounters(np.full((2, 2), np.nan), lam=1.0, tau=0.1),
        lambda: encounters(np.ones((2, 2)), lam=1.0, tau=0.1),
        lambda: encounters(np.eye(3), lam=1.0, tau=0.1, orders=[[0, 1, 1]]),
        lambda: encounters(np.eye(3), lam=1.0, tau=0.1, orders=[]),
        lambda: core_deletions(MET, [1, 1], 1),
        lambda: core_deletions(MET, [1, 1, -1], 1),
        lambda: core_deletions(MET, [0, 0, 0], 1),
        lambda: core_deletions(MET, [1, 1, math.inf], 1),
        lambda: printed_core_deletions(MET, [[1, 1, 1]], 1),
        lambda: total_deletions(MET, ["a", "b", "c"], K=1, c=0.1),
    ],
)
def test_rows_and_weights_that_do_not_match_are_refused(call: Any) -> None:
    with pytest.raises(InputError, match=r"must (have|hold|be)"):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: encounters(np.eye(3), lam=0.0, tau=0.1),
        lambda: encounters(np.eye(3), lam=1.0, tau=0.1, n_orders=0),
        lambda: encounters(np.eye(3), lam=1.0, tau=0.1, random_state=-1),
        lambda: encounters(np.eye(3), lam=1.0, tau=0.1, random_state=None),
        lambda: core_deletions(MET, [1, 1, 0], 3),
        lambda: core_deletions(MET, [1, 1, 1], -1),
        lambda: total_deletions(MET, [1, 1, 1], K=-1, c=0.1),
        lambda: total_deletions(MET, [1, 1, 1], K=1, c=0.0),
        lambda: printed_total_deletions(MET, [1, 1, 1], K=0, c=0.1),
        lambda: total_deletions_uniform(10, 11, K=1, c=0.1),
        lambda: total_deletions_uniform(-10, 1, K=1, c=0.1),
        lambda: printed_total_deletions_uniform(10, 1, kappa=1.5, K=1, c=0.1),
        lambda: exhaustion_probability(Bound(1.0, False, ""), -1),
        lambda: deletion_time(0, 10),
        lambda: deletion_time(1, 0),
    ],
)
def test_numbers_that_cannot_be_are_refused(call: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"must (not )?be"):
        call()
