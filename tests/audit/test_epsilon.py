"""Bounds on epsilon: published values, closed forms, and that they are no more often too high than stated."""

from __future__ import annotations

import math
from fractions import Fraction
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as hs
from scipy.stats import binom

from erasable.audit.epsilon import (
    epsilon_from_counts,
    epsilon_lower_bound,
    one_run_epsilon,
    one_run_guesses,
    one_run_p_value,
)
from erasable.errors import ConfigurationError, InputError


def test_one_run_gives_what_the_paper_prints() -> None:
    assert one_run_epsilon(1000, 100, 75, delta=1e-4) == pytest.approx(0.673, abs=5e-4)  # Appendix D
    assert one_run_epsilon(100_000, 1510, 1439, delta=1e-5) == pytest.approx(2.675, abs=1e-3)  # section 7


@given(hs.integers(1, 25).flatmap(lambda r: hs.tuples(hs.just(r), hs.integers(0, r))), hs.integers(0, 30))
def test_the_p_value_in_rational_arithmetic(counts: tuple[int, int], extra: int) -> None:
    (r, v), m = counts, counts[0] + extra
    odds, delta = Fraction(7, 2), Fraction(1, 500)  # exp(epsilon)
    q = odds / (1 + odds)
    mass = [comb(r, k) * q**k * (1 - q) ** (r - k) for k in range(r + 1)]
    shares = [sum(mass[v - i : v], Fraction(0)) / i for i in range(1, v + 1)]
    right = min(Fraction(1), sum(mass[v:], Fraction(0)) + 2 * m * delta * max(shares, default=Fraction(0)))
    assert one_run_p_value(m, r, v, math.log(odds), float(delta)) == pytest.approx(float(right), rel=1e-9)


@pytest.mark.parametrize("delta", [0.0, 1e-3])
def test_what_is_refuted_is_refuted_for_every_smaller_epsilon(delta: float) -> None:
    for v in (60, 75, 90, 100):
        found = one_run_epsilon(200, 100, v, delta=delta)
        grid = np.linspace(0.0, found, 50) if found else [0.0]
        assert all(one_run_p_value(200, 100, v, e, delta) < 0.05 for e in grid) or found == 0.0
        assert one_run_p_value(200, 100, v, found + 1e-9, delta) >= 0.05


def test_randomised_response_is_not_found_to_leak_more_than_it_does() -> None:
    """The worst case of the theorem, and the level is kept: 100 coins told truly with odds e."""
    found = np.array([one_run_epsilon(100, 100, v) for v in range(101)])
    mass = binom.pmf(np.arange(101), 100, math.e / (1 + math.e))
    assert mass[found > 1.0].sum() <= 0.05
    assert mass[found > 0.5].sum() > 0.5


def test_guesses_are_the_highest_and_the_lowest_scores() -> None:
    assert one_run_guesses([5, 1, 4, 2, 3], [True, True, False, False, True], 2, 1) == (3, 1)
    assert one_run_guesses([5, 1, 4, 2, 3], [True, False, True, False, True], 3, 0) == (3, 3)
    with pytest.raises(InputError, match="no more guesses"):
        one_run_guesses([1, 2, 3, 4], [True] * 4, 3, 2)
    with pytest.raises(ConfigurationError, match="right"):
        one_run_p_value(10, 5, 6, 1.0)


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
