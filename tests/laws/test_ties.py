"""Ties with the threshold, and gaps of one part in 2**102, through the front door of the classifier."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from erasable import ErasableClassifier, learn, verify
from erasable.models.row_source import Rows
from tests.oracle import leverage
from tests.strategies import Batch, Setting, assert_identical


def assert_law(setting: Setting, X, expected_core):
    """The core is the expected one, in the oracle too; and each of its rows can leave without moving another.

    Rows are decided as they are given: which copy of a row is the first is part of what is expected.
    """
    setting = replace(setting, order_key=None)
    n = len(X)
    batch = Batch([tuple(x) for x in X], [i % 2 for i in range(n)], list(range(n)), None)
    for size in (None, 1, 2):
        clf = setting.classifier()
        clf._learn(Rows(np.array(batch.X), batch.y, batch.ids), fresh=True, block_rows=size, chunk_rows=size)
        assert clf.core_ids_.tolist() == expected_core
    assert_identical(clf, batch.learnt_by(setting.oracle()))
    for gone in expected_core:
        clf, oracle = batch.learnt_by(setting.classifier()), batch.learnt_by(setting.oracle())
        clf.forget(ids=[gone])
        oracle.forget(ids=[gone])
        assert clf.core_ids_.tolist() == [i for i in expected_core if i != gone]
        assert_identical(clf, oracle)
        verify(clf)


@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("steps", [-1, 0, 1])
def test_a_row_whose_leverage_is_the_threshold(n_features, steps):
    """|x|^2 / K = 1/4 exactly. Above means above: at the tie the row stays out."""
    tau = 0.25 if steps == 0 else math.nextafter(0.25, steps)
    X = np.zeros((1, n_features))
    X[0, 0] = 0.5
    assert_law(Setting(n_features, threshold=tau, scaling=None), X, [0] if steps < 0 else [])


@pytest.mark.parametrize("steps", [-1, 0, 1])
def test_a_tie_whose_solution_is_no_binary_fraction(steps):
    """A is 3/16 on the diagonal after two copies of each axis: A^-1 x has thirds, and yet x'A^-1x = 1/4."""
    tau = 0.25 if steps == 0 else math.nextafter(0.25, steps)
    X = np.concatenate([np.eye(3), np.eye(3), [[0.5, 0.5, 0.5]]]) * 0.25
    setting = Setting(3, threshold=tau, capacity=0.0625, scaling=None)  # the axes' leverages are 1, then 1/2
    assert_law(setting, X, [*range(6), 6] if steps < 0 else [*range(6)])


# (2**k - 1)(2**k + 1) = 2**2k - 1 and (2**k - 2**j + 1)(2**k + 2**j + 1) = 2**2k + 1 for k = 2j - 1: see
# tests/core/test_leverage.py.
NEAR = [(2**k - 1, 2**k + 1, 2 * k) for k in (45, 51)]
NEAR += [(2**k - 2 ** ((k + 1) // 2) + 1, 2**k + 2 ** ((k + 1) // 2) + 1, 2 * k) for k in (45, 51)]


@pytest.mark.parametrize(("m", "D", "exponent"), NEAR)
@pytest.mark.parametrize("bits", [15, 20])
def test_a_row_within_one_part_in_1e27_or_1e31_of_the_threshold(m, D, exponent, bits):
    k = bits - 2  # the row's grid integer is 2**k
    tau = math.ldexp(m, 2 * k - exponent)
    gap = Fraction(4**k, D) - Fraction(tau)
    assert 0 < abs(gap) < min(Fraction(1, 10**18), Fraction(tau) / 10**26)
    setting = Setting(2, threshold=tau, capacity=math.ldexp(D, -2 * bits), bits=bits, scaling=None)
    assert_law(setting, [[0.25, 0.0], [0.0, -0.25]], [0, 1] if gap > 0 else [])


@pytest.mark.parametrize(("m", "D", "exponent"), NEAR)
def test_a_copy_within_one_part_in_1e27_or_1e31_of_the_threshold(m, D, exponent):
    """The second of three copies of a row v has leverage V / (K + V); the first is above, the third below."""
    bits, k = 20, 18
    x = np.array([1.0, -1.0, -1.0, 1.0]) * 2.0 ** (k - 1 - bits)
    tau = math.ldexp(m, 2 * k - exponent)
    setting = Setting(4, threshold=tau, capacity=math.ldexp(D - 4**k, -2 * bits), bits=bits, scaling=None)
    above = Fraction(4**k, D) > Fraction(tau)
    assert_law(setting, [x, x, x], [0, 1] if above else [0])


@pytest.mark.parametrize("scaling", ["row", None])
@pytest.mark.parametrize("intercept", [False, True])
def test_every_row_in_turn_next_to_the_threshold(scaling, intercept):
    """Real-valued rows; the threshold is the float nearest to one row's leverage, or a neighbour of that float."""
    rng = np.random.default_rng(17)
    X = rng.standard_normal((12, 3))
    X[6:9] = X[0:3]
    if scaling is None:
        X /= 1.01 * np.linalg.norm(X, axis=1, keepdims=True)
    base = Setting(3, threshold=0.05, scaling=scaling, intercept=intercept, capacity=0.7)
    oracle = base.oracle()
    batch = Batch([tuple(x) for x in X], [i % 3 for i in range(12)], list(range(12)), None)
    taus, met = set(), []
    for i in range(12):
        g = oracle.grid.put(X[i])
        q = float(leverage(oracle.H, g))
        taus |= {q, math.nextafter(q, 0.0), math.nextafter(q, 9.0)}
        oracle.learn([X[i]], [0], [i])
    for tau in sorted(taus):
        setting = Setting(3, threshold=tau, scaling=scaling, intercept=intercept, capacity=0.7)
        clf, oracle = batch.learnt_by(setting.classifier()), batch.learnt_by(setting.oracle())
        assert_identical(clf, oracle)
        met.append(tuple(oracle.ids))
    assert len(set(met)) > 6  # the thresholds do tell rows apart


def test_ties_are_counted_as_decided_exactly():
    clf = ErasableClassifier(1.0, threshold=0.25, fit_intercept=False, scaling=None)
    report = learn(clf, [[0.5, 0.0], [0.0, 0.5], [0.5, 0.5]], [0, 1, 0])
    assert report.core_rows_added == 1
    assert report.decisions.enclosed + report.decisions.exact >= 2
