"""Poison: the gradient against differences, rows that crowd others out, and ids whose turn comes first."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.poison_rows import Ridge, ascending_rows, crowding_rows, early_ids
from erasable import ErasableClassifier
from erasable.core.names import keyed_hash
from erasable.research.controls import with_constant
from tests.research.attacks.cases import make_pool

CAPACITY, THRESHOLD = 0.02, 0.06


def test_the_slope_is_what_differences_give():
    X, y = make_pool(60, 4)
    ridge = Ridge(X, y, np.arange(0, 60, 2), CAPACITY)
    rng = np.random.default_rng(1)
    P, signs = rng.standard_normal((3, 5)), np.array([1.0, -1.0, -1.0])
    found = ridge.after(P, signs)
    for i in range(3):
        for j in range(5):
            step = np.zeros_like(P)
            step[i, j] = 1e-5
            change = (ridge.after(P + step, signs).loss - ridge.after(P - step, signs).loss) / 2e-5
            assert found.slope[i, j] == pytest.approx(change, rel=1e-5, abs=1e-9)


def test_without_poison_the_weights_are_those_of_ridge_regression():
    X, y = make_pool(80, 4)
    Z = with_constant(X)
    weights = Ridge(X, y, np.arange(80), CAPACITY).after(Z[:0], np.empty(0)).weights
    assert np.allclose((2 * CAPACITY * np.eye(5) + Z.T @ Z) @ weights, Z.T @ y)


def test_ascent_hurts_more_than_turned_labels_and_both_than_nothing():
    X, y = make_pool(300, 8)
    ridge = Ridge(X, y, np.arange(300), CAPACITY)
    Z, s = ridge.rows, ridge.signs
    worst = ridge.most_harmful(15)
    turned = ridge.after(Z[worst], -s[worst]).loss
    P, signs = ascending_rows(X, y, np.arange(300), 15, capacity=CAPACITY)
    assert np.allclose(np.linalg.norm(P, axis=1), 1.0)
    assert ridge.after(with_constant(P), signs.astype(float)).loss > turned > ridge.after(Z[:0], s[:0]).loss


def test_rows_that_crowd_are_kept_and_keep_more_others_out_than_random_ones():
    X, y = make_pool(800, 12)
    core = ErasableClassifier(feature_map=None).fit(X, y).core_ids_
    rng = np.random.default_rng(2)
    crowd, signs = crowding_rows(X, y, core, 40, capacity=CAPACITY, threshold=THRESHOLD)
    random = rng.standard_normal((40, 12))
    others = []
    for P in (crowd, random):
        ids = np.append(np.arange(800), early_ids(800, 40, key=0))
        model = ErasableClassifier(feature_map=None).fit(np.vstack([X, P]), np.append(y, signs), ids=ids)
        others.append(int((model.core_ids_ < 800).sum()))
        assert (model.core_ids_ >= 800).sum() >= 35
    assert others[0] <= others[1] < len(core)


def test_early_ids_come_before_nearly_all_others():
    found = early_ids(1000, 10, key=7)
    assert len(set(found.tolist())) == 10
    assert found.min() >= 1000
    assert keyed_hash(found, 7).max() < np.quantile(keyed_hash(np.arange(1000), 7).astype(float), 0.02)
