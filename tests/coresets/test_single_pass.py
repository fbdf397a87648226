"""One pass: the decisions of one row at a time, stable for every exact class, and never more rows than the bound."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.sparse import csr_array

from erasable import ErasableClassifier
from erasable.classes import FiniteClass, LinearBall, NumericClass
from erasable.coresets import CoreSetMap, SinglePass, samplers
from erasable.errors import ConfigurationError


def sigmoid(w, b):
    return lambda X: 1.0 / (1.0 + np.exp(-(X @ w + b)))


def sup(X, Q):
    A = np.eye(X.shape[1]) + Q.T @ Q
    return np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T)


RNG = np.random.default_rng(0)
X = RNG.standard_normal((400, 3))
CLASSES = {
    "linear": LinearBall(),
    "linear with intercept": LinearBall(0.5, fit_intercept=True, grid_bits=11),
    "finite": FiniteClass([sigmoid(RNG.standard_normal(3), b) for b in (-1.0, 0.0, 0.5, 1.0)]),
    "numeric": NumericClass(sup, lambda X, y: lambda X: np.full(len(X), 0.5)),
}


class Plain:
    """A measure without its own ``select``."""

    def __init__(self, measure):
        self.squared, self.exceeds, self.add = measure.squared, measure.exceeds, measure.add


def literal(function_class, rows, n_features, tau):
    """One row after the other."""
    measure, kept = function_class.start(n_features), []
    for i in range(len(rows)):
        if measure.exceeds(rows[i : i + 1], tau)[0]:
            measure.add(rows[i : i + 1])
            kept.append(i)
    return kept


@pytest.mark.parametrize("size", [1, 7, 1024])
@pytest.mark.parametrize("tau", [0.0, 0.02, 0.1, 0.3])
@pytest.mark.parametrize("name", CLASSES)
def test_blocks_decide_like_one_row_at_a_time(name, tau, size, monkeypatch):
    function_class = CLASSES[name]
    rows = function_class.encode(X)
    expected = literal(function_class, rows, 3, tau)
    assert 0 < len(expected) < len(X) or tau == 0.0
    monkeypatch.setattr(samplers, "_SCREENED", size)
    monkeypatch.setattr(samplers, "_ENCODED", 3 * 50 * size)
    core = SinglePass(function_class, tau)
    assert core.select(X).tolist() == expected
    assert core.pick(rows, Plain(function_class.start(3))).tolist() == expected
    index, kept = core.gather(X, function_class.start(3))
    assert index.tolist() == expected
    np.testing.assert_array_equal(kept, rows[expected])


@pytest.mark.parametrize("name", CLASSES)
def test_a_pass_goes_on_where_another_ended(name):
    function_class = CLASSES[name]
    core, measure = SinglePass(function_class, 0.05), function_class.start(3)
    first, _ = core.gather(X[:150], measure)
    second, _ = core.gather(X[150:], measure)
    assert [*first, *(150 + second)] == core.select(X).tolist()


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("scaling", ["row", 10.0, [1.0, 2.0, 0.5]])
@pytest.mark.parametrize("tau", [0.0, 0.01, 0.05, 0.2])
def test_linear_functions_select_what_algorithm_1_selects(tau, scaling, intercept):
    ball = LinearBall(0.8, fit_intercept=intercept, scaling=scaling)
    clf = ErasableClassifier(
        1 / (4 * 0.8**2), threshold=tau, fit_intercept=intercept, scaling=scaling, order="given", feature_map=None
    ).fit(X, X[:, 0] > 0)
    assert SinglePass(ball, tau).select(X).tolist() == clf.core_ids_.tolist()


@pytest.mark.parametrize("name", CLASSES)
def test_containers_do_not_matter(name):
    core = SinglePass(CLASSES[name], 0.05)
    sparse = X * (np.abs(X) > 0.5)
    expected = core.select(sparse).tolist()
    assert core.select(csr_array(sparse)).tolist() == expected == core.select(sparse.tolist()).tolist()
    assert core.select(sparse, np.zeros(400), range(400)).tolist() == expected
    assert core.select(sparse[:0]).tolist() == []
    assert core.select(sparse).dtype == np.intp


@pytest.mark.parametrize("tau", [0.003, 0.01, 0.05, 0.2, 0.5])
@pytest.mark.parametrize("name", ["linear", "linear with intercept", "finite"])
def test_fewer_rows_than_the_dimension_allows(name, tau):
    """A selected row adds D² / (1 + D²) > tau / (1 + tau) to the dimension."""
    function_class = CLASSES[name]
    kept = SinglePass(function_class, tau).select(X)
    rows = function_class.encode(X)
    for sample in (rows[kept], rows):
        assert len(kept) < function_class.dimension(sample) * (1.0 + 1.0 / tau)
    if name != "finite":
        d = rows.shape[1]
        assert len(kept) < d * math.log1p(4 * function_class.radius**2 * len(X) / d) * (1.0 + 1.0 / tau)


def test_many_copies_come_close_to_the_bound():
    """Copies of one row about which a pair disagrees fully: D² is 1, 1/2, 1/3, ..., so 1 / tau of them are kept."""
    pair = FiniteClass([lambda X: np.zeros(len(X)), lambda X: np.ones(len(X))])
    kept = SinglePass(pair, 1 / 64).select(np.zeros((200, 1)))
    assert kept.tolist() == list(range(63))
    assert SinglePass(pair, math.nextafter(1 / 64, 0)).select(np.zeros((200, 1))).tolist() == list(range(64))


@pytest.mark.parametrize("name", CLASSES)
def test_stable_where_the_class_is_exact(name):
    core = SinglePass(CLASSES[name], 0.05)
    assert isinstance(core, CoreSetMap)
    assert core.stable == (name != "numeric")
    assert core.describe()["function_class"] == CLASSES[name].describe()
    assert core.describe()["threshold"] == (0.05).hex()


@pytest.mark.parametrize("threshold", [-1e-300, math.nan, math.inf, "0.1", None, True, [0.1]])
def test_thresholds_out_of_range_are_refused(threshold):
    with pytest.raises(ConfigurationError, match="threshold must be a finite number that is not negative"):
        SinglePass(LinearBall(), threshold)


def test_minus_zero_is_zero():
    assert math.copysign(1.0, SinglePass(LinearBall(), -0.0).threshold) == 1.0
    assert SinglePass(LinearBall(), 0) == SinglePass(LinearBall(), 0.0)
