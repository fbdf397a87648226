"""Classes given by numeric oracles: what they answer is checked, and their failures are told without values."""

from __future__ import annotations

import math

import numpy as np
import pytest

from erasable.classes import FunctionClass, LinearBall, NumericClass
from erasable.errors import ConfigurationError
from tests.estimators.cases import SECRET, assert_no_traces, everything_said

X = np.random.default_rng(0).uniform(-0.5, 0.5, (6, 2))
Y = np.array([0, 1, 0, 1, 1, 0])


def ball_sup(X, Q):
    """The closed form for linear functions of radius 1/2."""
    A = np.eye(X.shape[1]) + Q.T @ Q
    return np.einsum("ij,ij->i", X, np.linalg.solve(A, X.T).T)


def mean_erm(X, y):
    level = y.mean()
    return lambda X: np.full(len(X), level)


def test_it_answers_what_the_oracles_answer():
    classes, ball = NumericClass(ball_sup, mean_erm), LinearBall(0.5, scaling=None)
    measure, exact = classes.start(2), ball.start(2)
    rows, grid_rows = classes.encode(X), ball.encode(X)
    for i in range(4):
        np.testing.assert_allclose(measure.squared(rows), exact.squared(grid_rows), rtol=1e-3)
        assert measure.exceeds(rows, 0.1).tolist() == exact.exceeds(grid_rows, 0.1).tolist()
        measure.add(rows[i : i + 1])
        exact.add(grid_rows[i : i + 1])
    np.testing.assert_array_equal(measure.rows, rows[:4])
    assert classes.fit(rows, Y)(rows[:2]).tolist() == [0.5, 0.5]
    assert isinstance(classes, FunctionClass)
    assert not classes.exact


def test_rows_are_stored_as_they_are():
    classes = NumericClass(ball_sup, mean_erm)
    rows = classes.encode(np.array([[-0.0, 1.5]], dtype=np.float32))
    assert rows.dtype == np.float64
    assert not np.signbit(rows).any()
    assert classes.holds(rows).all()
    assert not classes.holds(np.array([[np.nan, 1.0]])).any()
    assert not classes.holds(rows.astype(np.float32)).any()
    assert classes.empty(2).shape == (0, 2)


def test_what_is_not_known_is_not_claimed():
    classes = NumericClass(ball_sup, mean_erm)
    assert classes.rate(10, 0.1, 2) is None
    assert classes.stability(10) is None
    assert classes.widest(2) == math.inf
    assert classes.dimension(X) == 3.0
    known = NumericClass(ball_sup, mean_erm, rate=2, dimension=lambda X: 1.5, name="mine")
    assert known.rate(10, 0.1, 2) == 2.0
    assert known.dimension(X) == 1.5
    assert known.describe() == {"class": "numeric", "name": "mine"}


def fails(*_):
    raise RuntimeError(f"no good: {SECRET}")


@pytest.mark.parametrize(
    ("sup", "says"),
    [
        (fails, "sup failed with RuntimeError on 6 rows"),
        (lambda X, Q: ball_sup(X, Q)[:-1], r"one number a row: for 6 rows it gave an array of shape \(5,\)"),
        (lambda X, Q: SECRET, "it gave float"),
        (lambda X, Q: [[SECRET]] * 6, "one number a row"),
        (lambda X, Q: ["SECRET"] * 6, "one number a row"),
        (lambda X, Q: None, "one number a row"),
        (lambda X, Q: np.full(len(X), np.nan), "finite numbers; 6 of 6"),
        (lambda X, Q: np.full(len(X), np.inf), "finite numbers"),
        (lambda X, Q: np.full(len(X), -SECRET), "negative; 6 of 6"),
    ],
)
def test_a_supremum_that_fails_is_told(sup, says):
    measure = NumericClass(sup, mean_erm).start(2)
    for ask in (lambda: measure.squared(X), lambda: measure.exceeds(X, 0.1)):
        with pytest.raises(ConfigurationError, match=says) as caught:
            ask()
        assert_no_traces(everything_said(caught.value))
    assert len(measure.rows) == 0


@pytest.mark.parametrize(
    ("erm", "says"),
    [
        (fails, "erm failed with RuntimeError on 6 rows"),
        (lambda X, y: SECRET, "must give a function of X; it gave float"),
        (lambda X, y: fails, "the function that erm gave failed with RuntimeError"),
        (lambda X, y: lambda X: X, r"shape \(6, 2\)"),
        (lambda X, y: lambda X: np.full(len(X), np.nan), "finite"),
    ],
)
def test_a_fit_that_fails_is_told(erm, says):
    with pytest.raises(ConfigurationError, match=says) as caught:
        NumericClass(ball_sup, erm).fit(X, Y)(X)
    assert_no_traces(everything_said(caught.value))


def test_oracles_cannot_change_the_rows():
    def spoils(X, Q):
        X[:] = Q[:] = 0.0
        return np.ones(len(X))

    def erm(X, y):
        X[:], y[:] = 0.0, 0
        return lambda X: X.fill(0.0) or np.zeros(len(X))

    classes = NumericClass(spoils, erm)
    rows, before, y = classes.encode(X), X.copy(), Y.copy()
    measure = classes.start(2)
    measure.add(rows)
    measure.squared(rows)
    classes.fit(rows, y)(rows)
    for array in (rows, measure.rows, X):
        np.testing.assert_array_equal(array, before)
    np.testing.assert_array_equal(y, Y)


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"dimension": 3}, "dimension must be callable"),
        ({"rate": 0.0}, "rate"),
    ],
    ids=str,
)
def test_parameters_that_cannot_work_are_refused(parameters, says):
    with pytest.raises(ConfigurationError, match=says):
        NumericClass(**{"sup": ball_sup, "erm": mean_erm, **parameters})


def test_a_dimension_that_fails_is_told():
    with pytest.raises(ConfigurationError, match="dimension failed"):
        NumericClass(ball_sup, mean_erm, dimension=fails).dimension(X)
    with pytest.raises(ConfigurationError, match="finite"):
        NumericClass(ball_sup, mean_erm, dimension=lambda X: math.nan).dimension(X)
