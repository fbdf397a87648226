"""Finite classes: D² and the best fit by enumeration, in integers."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeRegressor

from erasable.classes import FiniteClass, FunctionClass, given
from erasable.errors import ConfigurationError, ExactnessError
from tests.estimators.cases import SECRET, assert_no_traces, everything_said

STEPS = 2**20


def table(values):
    """A class whose k-th function gives the row (i,) the value ``values[k][i]``."""
    return FiniteClass([lambda X, v=v: v[X[:, 0].astype(int)] for v in np.array(values)])


def random_table(rng, functions, rows, denominator):
    return rng.integers(0, denominator + 1, (functions, rows)) / denominator


def disagreement(row, queried):
    """D² by its definition, as a fraction."""
    best = Fraction(0)
    for a, b in itertools.combinations(range(len(row)), 2):
        s = sum((Fraction(int(q[a]) - int(q[b]), STEPS) ** 2 for q in queried), Fraction(0))
        best = max(best, Fraction(int(row[a]) - int(row[b]), STEPS) ** 2 / (1 + s))
    return best


@pytest.mark.parametrize("seed", range(50))
def test_disagreement_and_comparisons_are_those_of_fractions(seed):
    rng = np.random.default_rng(seed)
    n, denominator = 6, int(rng.choice([1, 2, 4, 7]))
    classes = table(random_table(rng, int(rng.integers(2, 6)), n, denominator))
    rows = classes.encode(np.arange(n)[:, None])
    measure = classes.start(1)
    before = np.full(n, np.inf)
    for i in range(n):
        exact = [disagreement(row, rows[:i]) for row in rows]
        squared = measure.squared(rows)
        np.testing.assert_allclose(squared, [float(q) for q in exact], rtol=1e-14)
        assert (squared <= before).all()
        for q in exact:
            nearest = float(q)
            for tau in (nearest, math.nextafter(nearest, 0.0), math.nextafter(nearest, 9.0), 0.0, 1e-300):
                assert measure.exceeds(rows, tau).tolist() == [e > Fraction(tau) for e in exact]
        before = squared
        measure.add(rows[i : i + 1])


@pytest.mark.parametrize("steps", [-1, 0, 1])
def test_above_means_above(steps):
    """After three copies of a row that splits the pair, the fourth has D² = 1 / 4 exactly."""
    classes = table([[1.0], [0.0]])
    rows = classes.encode(np.zeros((4, 1)))
    measure = classes.start(1)
    measure.add(rows[:3])
    tau = 0.25 if steps == 0 else math.nextafter(0.25, steps)
    assert measure.exceeds(rows[3:], tau).tolist() == [steps < 0]


def test_sums_of_many_rows_are_compared_without_rounding():
    """Numbers past 2**53: float64 alone would call these two ties."""
    classes = table([[1.0], [0.0]])
    measure = classes.start(1)
    row = classes.encode(np.zeros((1, 1)))
    for k in (0, 1, -1):
        measure.sums[:] = 2**60 + k
        tau = float(Fraction(STEPS**2, 2**60 + STEPS**2))
        exact = Fraction(STEPS**2, 2**60 + k + STEPS**2)
        assert measure.exceeds(row, tau).tolist() == [exact > Fraction(tau)]


def test_predictions_are_rounded_to_the_grid():
    classes = table([[0.1, 1.0, 1.0 + 1e-12], [1 / 3, 0.0, -1e-12]])
    rows = classes.encode(np.arange(3)[:, None])
    assert rows.tolist() == [[round(0.1 * STEPS), round(STEPS / 3)], [STEPS, 0], [STEPS, 0]]
    assert rows.dtype == np.int32
    assert classes.holds(rows).all()
    assert not classes.holds(rows + 1)[1]
    assert not classes.holds(rows.astype(np.int64)).any()


def test_a_row_does_not_depend_on_the_rows_beside_it():
    """A library whose last bits change with the batch, on values halfway between two steps."""
    halves = (np.arange(64) + 0.5) / STEPS

    def shaky(X):
        return halves[X[:, 0].astype(int)] + (1e-13 if len(X) % 2 else -1e-13)

    classes = FiniteClass([shaky, lambda X: np.zeros(len(X))])
    X = np.arange(64)[:, None]
    alone = np.concatenate([classes.encode(X[i : i + 1]) for i in range(64)])
    for size in (2, 3, 7, 64):
        parts = [classes.encode(X[i : i + size]) for i in range(0, 64, size)]
        np.testing.assert_array_equal(np.concatenate(parts), alone)


def test_the_fit_is_the_first_best():
    classes = table([[0.0, 0.0], [0.5, 0.5], [0.5, 0.5], [1.0, 0.25]])
    rows = classes.encode(np.array([[0], [1]]))
    assert classes.fit(rows, np.array([1, 0])).column == 3
    assert classes.fit(rows, np.array([0, 0])).column == 0
    assert classes.fit(rows[[0, 0, 1]], np.array([0, 1, 1])).column == 1  # a tie with the next function
    assert classes.fit(rows[:0], np.array([], dtype=int)).column == 0
    assert classes.fit(rows, np.array([1, 0]))(rows).tolist() == [1.0, 0.25]


def test_fitted_estimators_are_functions():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((80, 2))
    y = (X[:, 0] > 0).astype(int)
    models = [
        LogisticRegression().fit(X, y),
        RandomForestClassifier(5, random_state=0).fit(X, y),
        DecisionTreeRegressor(max_depth=2).fit(X, y),
    ]
    rows = FiniteClass(models).encode(X)
    np.testing.assert_array_equal(rows[:, 0], np.rint(models[0].predict_proba(X)[:, 1] * STEPS))
    np.testing.assert_array_equal(rows[:, 2], np.rint(models[2].predict(X) * STEPS))


# -- bounds ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_the_dimension_is_bounded(seed):
    rng = np.random.default_rng(seed)
    n = 4
    classes = table(random_table(rng, 3, n, 4))
    rows = classes.encode(np.arange(n)[:, None])
    largest = 0.0
    for order in itertools.permutations(range(n)):
        terms = [disagreement(rows[i], rows[list(order[:k])]) for k, i in enumerate(order)]
        largest = max(largest, float(sum(q / (1 + q) for q in terms)))
    assert largest <= classes.dimension(rows) * (1 + 1e-12)
    assert classes.dimension(rows) <= n / 2
    pairs = 3
    assert classes.dimension(np.tile(rows, (50, 1))) <= pairs * math.log1p(50 * n)


def test_the_rate_holds_for_labels_drawn_from_the_class():
    rng = np.random.default_rng(1)
    n = 50
    values = random_table(rng, 8, n, 10)
    classes = table(values)
    rows = classes.encode(np.arange(n)[:, None])
    sums = []
    for _ in range(200):
        y = (rng.uniform(size=n) < values[3]).astype(int)
        sums.append(((classes.fit(rows, y)(rows) - values[3]) ** 2).sum())
    assert max(sums) + 1.0 <= classes.rate(n, 0.5, 1) == pytest.approx(1 + 2 * math.log(8 * n / 0.5))
    assert classes.stability(n) is None
    assert classes.widest(1) == 1.0


# -- refusals ----------------------------------------------------------------------------------------------------


def fails(X):
    raise RuntimeError(f"no good: {X[0, 0]}")


def half(X):
    return np.full(len(X), 0.5)


@pytest.mark.parametrize(
    ("function", "says"),
    [
        (fails, "failed with RuntimeError on 3 rows of 2 features"),
        (lambda X: X, r"shape \(3, 2\)"),
        (lambda X: 0.5, r"shape \(\)"),
        (lambda X: np.full(len(X) + 1, 0.5), r"shape \(4,\)"),
        (lambda X: np.where(np.arange(len(X)) == 1, np.nan, 0.5), r"1 of 3 values leave it or are NaN"),
        (lambda X: np.full(len(X), np.inf), "3 of 3"),
        (lambda X: np.full(len(X), 1.001), r"stay in \[0, 1\]"),
        (lambda X: np.full(len(X), -1e-5), r"stay in \[0, 1\]"),
        (lambda X: ["yes"] * len(X), "failed with ValueError"),
        (lambda X: None, "shape"),
        (RandomForestClassifier(), "failed with NotFittedError"),
    ],
)
def test_functions_that_fail_are_named(function, says):
    X = np.full((3, 2), SECRET)
    with pytest.raises(ConfigurationError, match="function 2 of 3 ") as caught:
        FiniteClass([half, function, half]).encode(X)
    assert caught.match(says)
    assert_no_traces(everything_said(caught.value))


def test_an_estimator_of_three_classes_is_refused():
    X = np.eye(3)
    with pytest.raises(ConfigurationError, match=r"shape \(3, 3\)"):
        FiniteClass([half, RandomForestClassifier(2).fit(X, [0, 1, 2])]).encode(X)


def test_a_function_cannot_change_the_rows():
    def spoils(X):
        X[:] = 0.0
        return np.zeros(len(X))

    class Spoiler:
        def predict_proba(self, X):
            return np.column_stack([spoils(X), spoils(X)])

    X = np.array([[0.25], [0.75]])
    rows = FiniteClass([spoils, Spoiler(), lambda X: X[:, 0]]).encode(X)
    assert rows[:, 2].tolist() == [STEPS // 4, 3 * STEPS // 4]
    assert X.tolist() == [[0.25], [0.75]]


@pytest.mark.parametrize(
    ("functions", "says"),
    [
        ([], "at least two functions"),
        ([half], "at least two functions"),
        ("ab", "list of functions"),
        (half, "list of functions"),
        ([half, 3.0], "function 2 of 2 must be a callable"),
        ([half, RandomForestClassifier], "function 2 of 2 must be a callable or a fitted estimator; got a class"),
    ],
)
def test_lists_that_cannot_work_are_refused(functions, says):
    with pytest.raises(ConfigurationError, match=says):
        FiniteClass(functions)


def test_sums_that_could_overflow_are_refused(monkeypatch):
    classes = table([[1.0], [0.0]])
    rows = classes.encode(np.zeros((5, 1)))
    monkeypatch.setattr(given, "MOST_ROWS", 4)
    measure = classes.start(1)
    measure.add(rows[:4])
    with pytest.raises(ExactnessError, match="5 rows"):
        measure.add(rows[:1])
    assert measure.n_rows == 4
    with pytest.raises(ExactnessError):
        classes.fit(rows, np.zeros(5, dtype=int))


def test_a_description_has_name_and_number():
    one, two = FiniteClass([half, half]), FiniteClass([half, half], name="v2")
    assert json.dumps(one.describe()) != json.dumps(two.describe())
    assert one.describe() == FiniteClass((half, half)).describe() != FiniteClass([half] * 3).describe()
    assert isinstance(one, FunctionClass)
    assert "2 functions" in repr(one)
    with pytest.raises(ConfigurationError, match="name"):
        FiniteClass([half, half], name=3)
