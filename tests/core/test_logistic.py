"""Logistic weights are the minimiser of the oracle, rounded as defined: from any start, in any order, at any level."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import erasable.core.logistic as logistic
from erasable.core.grid import Grid
from erasable.core.logistic import Enclosure, logistic_weights
from tests.logistic_oracle import LogisticOracle


def bits_of(W):
    return W.view(np.uint32).tolist()


def random_problem(rng, *, most_rows=24):
    """Rows on a grid, signs, counts and alpha: mirrored rows, empty columns, duplicates, one side only, separable."""
    bits = int(rng.choice([4, 8, 11, 15, 15, 15, 16, 20]))
    d, n, k = int(rng.integers(1, 6)), int(rng.integers(1, most_rows)), int(rng.integers(1, 4))
    grid = Grid(d, bits, bool(rng.integers(2)))
    X = rng.standard_normal((n, d)) * rng.random()
    X[rng.random(n) < 0.2] = X[0]
    if rng.random() < 0.3:
        X[n - n // 2 :] = -X[: n // 2]
    if rng.random() < 0.3:
        X[:, rng.integers(d)] = 0.0
    X /= np.maximum(1.0, np.linalg.norm(X, axis=1, keepdims=True))
    rows = np.zeros((n, grid.n_columns), dtype=grid.dtype)
    rows[:, :d] = np.trunc(X * grid.reach)
    rows[:, d:] = grid.constant
    signs = rng.choice([-1, 1], (k, n))
    if rng.random() < 0.3:
        signs[:] = np.where(rows[:, 0] > 0, 1, -1)
    if rng.random() < 0.1:
        signs[0] = 1
    counts = np.ones(n)
    if rng.random() < 0.5:
        counts = rng.integers(1, 257, n) / 16.0 * float(np.float32(2.0 ** rng.uniform(-8.0, 12.0)))
    units = max(1, round(10.0 ** rng.uniform(-8.0, 1.0) * 4**bits))
    return rows, signs, counts, grid, units


def expected(rows, signs, counts, grid, units):
    return [LogisticOracle(rows, y, counts, grid.bits, units).weights(rows.shape[1]) for y in signs]


def assert_published(problem, **options):
    W = logistic_weights(*problem, **options)
    assert W.dtype == np.float32
    assert bits_of(W) == expected(*problem)


@pytest.mark.parametrize("seed", range(150))
def test_weights_are_the_rounded_minimiser(seed):
    assert_published(random_problem(np.random.default_rng([1, seed])))


@pytest.mark.parametrize("seed", range(60))
def test_balls_say_the_same(seed, monkeypatch):
    """Every entry left to the last level."""
    monkeypatch.setattr(logistic.Point, "enclosure", lambda self, s: Enclosure(np.inf, s, np.inf))
    assert_published(random_problem(np.random.default_rng([2, seed])))


@given(st.integers(0, 2**32))
def test_neither_start_nor_order_nor_storage_matters(seed):
    rng = np.random.default_rng(seed)
    rows, signs, counts, grid, units = random_problem(rng)
    W = logistic_weights(rows, signs, counts, grid, units)
    start = rng.standard_normal(W.shape) * 10.0 ** rng.integers(-3, 3)
    assert bits_of(logistic_weights(rows, signs, counts, grid, units, start)) == bits_of(W)
    order = rng.permutation(len(rows))
    assert bits_of(logistic_weights(rows[order], signs[:, order], counts[order], grid, units)) == bits_of(W)
    features = sparse.csr_array(rows[:, : grid.n_features])
    assert bits_of(logistic_weights(features, signs, counts, grid, units)) == bits_of(W)
    for j, y in enumerate(signs):
        assert bits_of(logistic_weights(rows, y[None, :], counts, grid, units)[0]) == bits_of(W[j])
