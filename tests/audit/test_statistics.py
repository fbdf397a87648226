"""Figures of attacks against closed forms, SciPy and exact binomial sums."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations
from math import comb

import numpy as np
import pytest
import scipy.stats as st
from hypothesis import given
from hypothesis import strategies as hs

from erasable.audit.statistics import clopper_pearson, measure
from erasable.errors import ConfigurationError, InputError

NORMAL = st.norm()


@given(
    hs.integers(1, 60).flatmap(lambda n: hs.tuples(hs.integers(0, n), hs.just(n))), hs.sampled_from([0.8, 0.95, 0.999])
)
def test_clopper_pearson_is_that_of_scipy(counts: tuple[int, int], confidence: float) -> None:
    k, n = counts
    right = st.binomtest(k, n).proportion_ci(confidence, method="exact")
    assert clopper_pearson(k, n, confidence) == pytest.approx((right.low, right.high), rel=1e-9, abs=1e-12)


def test_clopper_pearson_where_there_is_a_closed_form() -> None:
    assert clopper_pearson(0, 20) == pytest.approx((0.0, 1 - 0.025 ** (1 / 20)))
    assert clopper_pearson(20, 20) == pytest.approx((0.025 ** (1 / 20), 1.0))


@pytest.mark.parametrize("n", [1, 5, 12])
def test_each_end_is_missed_no_more_often_than_stated(n: int) -> None:
    ends = [clopper_pearson(k, n, 0.9) for k in range(n + 1)]
    for p in (Fraction(i, 40) for i in range(1, 40)):
        mass = [comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(n + 1)]
        assert sum(w for w, (low, _) in zip(mass, ends, strict=True) if low > p) <= Fraction(1, 20)
        assert sum(w for w, (_, high) in zip(mass, ends, strict=True) if high < p) <= Fraction(1, 20)


scored = hs.lists(hs.tuples(hs.integers(-3, 3), hs.booleans()), min_size=2, max_size=30).filter(
    lambda pairs: len({m for _, m in pairs}) == 2
)


@given(scored)
def test_area_is_the_share_of_pairs_in_the_right_order(pairs: list[tuple[int, bool]]) -> None:
    members, others = [s for s, m in pairs if m], [s for s, m in pairs if not m]
    won = sum(Fraction(a > b) + Fraction(int(a == b), 2) for a in members for b in others)
    found = measure(*zip(*pairs, strict=True), resamples=1).auc.value
    assert found == pytest.approx(float(won / (len(members) * len(others))))
    assert found == pytest.approx(st.mannwhitneyu(members, others).statistic / (len(members) * len(others)))


@given(scored)
def test_every_threshold_is_a_point_of_the_curve(pairs: list[tuple[int, bool]]) -> None:
    members, others = [s for s, m in pairs if m], [s for s, m in pairs if not m]
    wanted = {(0.0, 0.0)}
    for t in {s for s, _ in pairs}:
        wanted.add((sum(s >= t for s in others) / len(others), sum(s >= t for s in members) / len(members)))
    points = measure(*zip(*pairs, strict=True), resamples=1).roc
    assert points.tolist() == sorted(map(list, wanted))


def test_power_of_two_normals_is_that_of_neyman_and_pearson() -> None:
    n = 100_000
    grid = (np.arange(n) + 0.5) / n
    scores = np.concatenate([NORMAL.ppf(grid) + 1.5, NORMAL.ppf(grid)])
    member = np.arange(2 * n) < n
    found = measure(scores, member, resamples=1)
    assert list(found.power) == [0.0001, 0.001, 0.01]
    for rate, power in found.power.items():
        assert power.value == pytest.approx(NORMAL.cdf(1.5 + NORMAL.ppf(rate)), abs=5e-4)
    assert found.auc.value == pytest.approx(NORMAL.cdf(1.5 / np.sqrt(2)), abs=1e-4)


def test_scores_that_say_nothing_are_at_chance_exactly() -> None:
    figures = measure(np.zeros(400), np.arange(400) % 2 == 0)
    assert figures.tied
    assert figures.at_chance
    assert figures.auc.value == figures.auc.low == figures.auc.high == 0.5
    assert figures.advantage.value == 0.0
    assert {rate: p.value for rate, p in figures.power.items()} == pytest.approx({0.001: 0.001, 0.01: 0.01})


def test_an_attack_without_error_has_no_more_certainty_than_its_rows_give() -> None:
    rows = np.repeat(np.arange(20), 50)
    member = np.arange(1000) % 2 == 0
    figures = measure(np.where(member, np.inf, -np.inf), member, rows)
    assert figures.auc.value == figures.advantage.value == figures.power[0.01].value == 1.0
    assert figures.auc.low == pytest.approx(0.025 ** (1 / 20))
    assert not figures.at_chance
    assert (figures.rows, figures.pairs) == (20, 1000)


@pytest.mark.parametrize(("trials", "told"), [(3, False), (7, False), (8, True), (24, True)])
def test_an_attack_that_is_always_right_is_believed_from_eight_trials_on(trials: int, told: bool) -> None:
    member = np.arange(2 * trials) < trials
    figures = measure(member * 1.0, member, np.tile(np.arange(trials), 2), confidence=0.99, resamples=50)
    assert figures.at_chance != told


def test_few_members_among_many_others_are_no_more_certain_than_they_are() -> None:
    member = np.arange(500) < 10
    figures = measure(np.where(member, 1.0, 0.0), member)
    assert figures.power[0.01].low == figures.auc.low == pytest.approx(0.025 ** (1 / 10))


def test_scores_that_say_nothing_are_seldom_called_better_than_chance() -> None:
    rng = np.random.default_rng(7)
    rows, member = np.tile(np.arange(24), 2), np.arange(48) < 24
    found = [measure(rng.standard_normal(48), member, rows, confidence=0.99, resamples=200) for _ in range(150)]
    assert sum(not figures.at_chance for figures in found) <= 4  # with powers of so few judged, 8 of them


@pytest.mark.parametrize("seed", range(8))
def test_an_attack_that_is_certain_of_some_rows_is_not_at_chance(seed: int) -> None:
    member, scores = np.arange(240) < 120, np.random.default_rng(seed).random(240)
    scores[:12] = np.inf
    assert not measure(scores, member, confidence=0.99, resamples=100).at_chance
    scores[-1] = np.inf  # one decoy, and nothing is certain
    assert not measure(scores, member, confidence=0.99, resamples=2).certain


@pytest.mark.parametrize(("n_members", "n_others"), [(4, 4), (6, 3), (3, 9)])
def test_what_is_called_certain_happens_by_luck_no_more_often_than_stated(n_members: int, n_others: int) -> None:
    n = n_members + n_others
    orders = [np.isin(np.arange(n), at) for at in combinations(range(n), n_members)]  # equally probable
    for confidence in (0.6, 0.8, 0.95):
        found = [measure(-np.arange(n), m, confidence=confidence, resamples=1).certain for m in orders]
        assert 2 * sum(found) <= (1 - confidence) * len(orders)


def test_many_scores_of_few_rows_are_as_certain_as_the_rows_are_many() -> None:
    """Each row has one score in all models: were scores counted, one row that leads would be fifty."""
    rng, rows = np.random.default_rng(3), np.repeat(np.arange(40), 50)
    member = rows < 20
    found = [measure(rng.random(40)[rows], member, rows, confidence=0.9, resamples=1).certain for _ in range(100)]
    assert sum(found) <= 10


def test_a_power_is_judged_by_the_number_of_others_and_not_of_pairs() -> None:
    member = np.arange(2000) < 1990
    found = [
        measure(np.random.default_rng(seed).random(2000), member, confidence=0.99, resamples=100) for seed in range(60)
    ]
    assert all(figures.others == 10 for figures in found)
    assert any(figures.power[0.01].low > 0.01 for figures in found)  # and is not judged
    assert sum(not figures.at_chance for figures in found) <= 4


def test_a_rare_rate_is_told_where_enough_pairs_are_pooled() -> None:
    rng = np.random.default_rng(0)
    member = np.arange(100_000) % 2 == 0
    assert 1e-4 in measure(rng.standard_normal(100_000), member, resamples=2).power
    assert 1e-4 not in measure(rng.standard_normal(99_998), member[:99_998], resamples=2).power


def test_intervals_hold_the_truth_as_often_as_stated_and_know_that_scores_of_one_row_are_alike() -> None:
    rng = np.random.default_rng(1)
    truth, held, alone = NORMAL.cdf(1 / np.sqrt(2)), 0, 0
    rows = np.repeat(np.arange(80), 8)
    for _ in range(100):
        member = rng.permuted(np.arange(80) % 2 == 0)
        mean = rng.standard_normal(80) * np.sqrt(0.9) + member
        scores, of = mean[rows] + rng.standard_normal(640) * np.sqrt(0.1), member[rows]
        by_row, by_score = (measure(scores, of, r, resamples=100).auc for r in (rows, None))
        held += by_row.low <= truth <= by_row.high
        alone += by_score.low <= truth <= by_score.high
    assert held >= 86  # 95 expected; fewer than 86 of 100 has probability 0.0002
    assert alone <= 75


def test_the_threshold_of_the_advantage_is_chosen_on_other_rows() -> None:
    rng = np.random.default_rng(2)
    found = [measure(rng.standard_normal(60), np.arange(60) % 2 == 0, resamples=1).advantage.value for _ in range(300)]
    assert abs(np.mean(found)) < 0.03  # the best threshold on the rows themselves would give 0.2


def test_what_is_no_scores_is_refused() -> None:
    with pytest.raises(InputError, match="members and of others"):
        measure([1.0, 2.0], [True, True])
    with pytest.raises(InputError, match="without NaN"):
        measure([1.0, np.nan], [True, False])
    with pytest.raises(InputError, match="row of each"):
        measure([1.0, 2.0], [True, False], [1, 2, 3])
    with pytest.raises(ConfigurationError, match="successes"):
        clopper_pearson(3, 2)
