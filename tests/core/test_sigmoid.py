"""Sigmoids in two words are as near to the true ones as they claim, everywhere, and nearly as far as they claim."""

from __future__ import annotations

import numpy as np
import pytest
from flint import arb, ctx

from erasable.core.logistic_balls import (
    FARTHEST,
    SIGMOID_ERROR,
    TINY,
    exponential,
    smaller_sigmoid,
    two_product,
    two_sum,
)


@pytest.fixture(autouse=True)
def _precision():
    before, ctx.prec = ctx.prec, 400
    yield
    ctx.prec = before


def true_exponential(t):
    return (-arb(t)).exp()


def true_sigmoid(t):
    return 1 / (1 + arb(t).exp())


def worst(approximate, true, points):
    """The largest relative error, as a float that is no smaller."""
    high, low = approximate(points)
    return max(
        float(abs((arb(float(h)) + arb(float(r))) / true(float(t)) - 1).abs_upper())
        for t, h, r in zip(points, high, low, strict=True)
    )


def neighbours(points):
    return np.concatenate([np.nextafter(points, -1.0), points, np.nextafter(points, 1e3)]).clip(0.0, FARTHEST)


K = np.arange(0, 256 * 128, 7, dtype=np.float64)
PLACES = {
    "entries of the table": neighbours(K / 256.0),
    "between its entries": neighbours((K + 0.5) / 256.0),
    "even": np.linspace(0.0, 20.0, 5001),
    "tiny": 2.0 ** -np.arange(0.0, 1074.0),
    "random": np.random.default_rng(0).random(5000) * FARTHEST,
    "random, small": np.random.default_rng(1).random(5000) * 2.0,
}


@pytest.mark.parametrize("place", PLACES)
def test_the_sigmoid_is_within_its_bound(place):
    assert worst(smaller_sigmoid, true_sigmoid, PLACES[place]) <= SIGMOID_ERROR


@pytest.mark.parametrize("place", PLACES)
def test_the_exponential_is_within_its_bound(place):
    assert worst(exponential, true_exponential, PLACES[place]) <= 2.0**-77


def test_the_bound_is_not_far_from_what_happens():
    """A lost low word would be seen a million times over."""
    assert worst(smaller_sigmoid, true_sigmoid, PLACES["random, small"]) >= SIGMOID_ERROR / 2**6


def test_far_away_the_sigmoid_is_below_tiny():
    t = np.array([FARTHEST, 129.0, 1e3, 1e12])
    high, low = smaller_sigmoid(t)
    for x, h, r in zip(t, high, low, strict=True):
        assert abs(arb(float(h)) + arb(float(r)) - true_sigmoid(float(x))) < TINY
    assert 0.0 < high[0] < TINY


def test_the_words_do_not_overlap():
    high, low = smaller_sigmoid(PLACES["random"])
    assert np.array_equal(high + low, high)
    assert smaller_sigmoid(np.zeros(1)) == (0.5, 0.0)


def test_sums_and_products_lose_nothing():
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(500) * 2.0 ** rng.integers(-60, 60, 500) for _ in range(2))
    for pair, exact in ((two_sum(a, b), "sum"), (two_product(a, b), "product")):
        for x, y, h, r in zip(a.tolist(), b.tolist(), *(w.tolist() for w in pair), strict=True):
            true = arb(x) + arb(y) if exact == "sum" else arb(x) * arb(y)
            assert arb(h) + arb(r) == true
