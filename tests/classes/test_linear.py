"""Linear functions in a ball: the closed form of D², its exact comparison, and the bounds."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from erasable import ErasableClassifier
from erasable.classes import FunctionClass, LinearBall
from erasable.errors import ConfigurationError, InputError
from tests.oracle import gram_matrix, leverage


def in_ball(rng, n, d):
    X = rng.standard_normal((n, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True) * rng.uniform(0.1, 0.99, (n, 1))


def measured(ball, rows):
    measure = ball.start(rows.shape[1] - int(ball.fit_intercept))
    measure.add(rows)
    return measure


def ratio(v, x, Q):
    """(f(x) - g(x))² / (1 + sum over Q of (f - g)²) for f - g = v'x."""
    return (v @ x) ** 2 / (1.0 + ((Q @ v) ** 2).sum(axis=0))


@pytest.mark.parametrize("seed", range(60))
def test_the_closed_form_is_the_supremum_over_pairs_in_the_plane(seed):
    rng = np.random.default_rng(seed)
    ball = LinearBall(float(rng.choice([0.25, 0.5, 1.0, 3.0])), scaling=None)
    rows = ball.encode(in_ball(rng, 1 + seed % 7, 2))
    measure = measured(ball, rows[:-1])
    real = rows * 2.0**-15
    angles = np.linspace(0.0, np.pi, 20_001)
    directions = 2.0 * ball.radius * np.array([np.cos(angles), np.sin(angles)])  # of f - g, which lie in a ball of 2B
    x, Q = real[-1], real[:-1]
    best = 0.0
    for length in (0.3, 0.9, 1.0):
        v = length * directions
        best_here = ((x @ v) ** 2 / (1.0 + ((Q @ v) ** 2).sum(axis=0))).max()
        assert best_here >= best  # the ratio grows with the length of v
        best = best_here
    assert measure.squared(rows[-1:])[0] == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize("seed", range(8))
def test_the_closed_form_is_what_an_optimiser_finds(seed):
    rng = np.random.default_rng(seed)
    d = 3 + seed % 3
    ball = LinearBall(1.0, scaling=None)
    rows = ball.encode(in_ball(rng, 6, d))
    real = rows * 2.0**-15
    x, Q = real[-1], real[:-1]

    def negative(z):
        v = 2.0 * ball.radius * z / np.linalg.norm(z)
        return -((v @ x) ** 2) / (1.0 + ((Q @ v) ** 2).sum())

    best = max(-minimize(negative, z, method="BFGS").fun for z in rng.standard_normal((6, d)))
    assert measured(ball, rows[:-1]).squared(rows[-1:])[0] == pytest.approx(best, rel=1e-5)


@pytest.mark.parametrize("intercept", [False, True])
def test_the_measure_only_falls(intercept):
    rng = np.random.default_rng(3)
    ball = LinearBall(fit_intercept=intercept)
    rows = ball.encode(rng.standard_normal((40, 3)))
    measure = ball.start(3)
    before = measure.squared(rows)
    for i in range(20):
        measure.add(rows[i : i + 1])
        after = measure.squared(rows)
        assert (after <= before * (1.0 + 1e-12)).all()
        assert after[i] < before[i]
        before = after


@pytest.mark.parametrize("steps", [-1, 0, 1])
def test_above_means_above(steps):
    """|x|² / lambda = 1/4 exactly; then 1/5 beside a copy of itself; with lambda = 1."""
    ball = LinearBall(0.5, scaling=None)
    rows = ball.encode(np.array([[0.5, 0.0]]))
    tau = 0.25 if steps == 0 else math.nextafter(0.25, steps)
    assert ball.start(2).exceeds(rows, tau).tolist() == [steps < 0]
    tie = measured(ball, ball.encode(np.array([[0.5, 0.5]] * 2)))  # A = [[3/2, 1/2], [1/2, 3/2]]: x'A^-1x = 3/16
    tau = 0.1875 if steps == 0 else math.nextafter(0.1875, steps)
    assert tie.exceeds(rows, tau).tolist() == [steps < 0]


@pytest.mark.parametrize(("bits", "intercept", "radius"), [(15, False, 1.0), (15, True, 0.3), (8, True, 2.0)])
def test_comparisons_are_those_of_rational_arithmetic(bits, intercept, radius):
    rng = np.random.default_rng(bits)
    ball = LinearBall(radius, fit_intercept=intercept, grid_bits=bits)
    rows = ball.encode(rng.standard_normal((12, 3)))
    rows[6:9] = rows[:3]
    units = round(ball.capacity * 4**bits)
    measure, seen = ball.start(3), 0
    for i in range(12):
        H = gram_matrix(rows[:i].tolist(), units, rows.shape[1])
        exact = [leverage(H, g) for g in rows.tolist()]
        for near in exact[:6]:
            nearest = float(near)
            for tau in (nearest, math.nextafter(nearest, 0.0), math.nextafter(nearest, 9.0)):
                assert measure.exceeds(rows, tau).tolist() == [q > Fraction(tau) for q in exact]
                seen += 1
        np.testing.assert_allclose(measure.squared(rows), [float(q) for q in exact], rtol=1e-9)
        measure.add(rows[i : i + 1])
    assert seen == 216


def test_where_float64_is_too_coarse_the_answer_is_still_exact():
    rng = np.random.default_rng(0)
    ball = LinearBall(2.0**19, scaling=None, grid_bits=20)  # lambda is one squared grid step
    many = ball.encode(np.tile([[0.7, 0.7]], (120, 1)))
    rows = ball.encode(np.concatenate([in_ball(rng, 3, 2), [[0.5, 0.5], [0.5, -0.5], [0.0, 0.0]]]))
    measure = measured(ball, many)
    assert measure._whitened(rows) is None
    H = gram_matrix(many.tolist(), 1, 2)
    exact = [leverage(H, g) for g in rows.tolist()]
    np.testing.assert_allclose(measure.squared(rows), [float(q) for q in exact], rtol=1e-15)
    for tau in (0.0, *(float(q) for q in exact)):
        assert measure.exceeds(rows, tau).tolist() == [q > Fraction(tau) for q in exact]


def test_no_rows_are_no_problem():
    ball = LinearBall()
    measure, none = ball.start(3), ball.empty(3)
    assert measure.exceeds(none, 0.1).shape == measure.squared(none).shape == measure.select(none, 0.1).shape == (0,)
    measure.add(none)
    assert none.shape == (0, 3)
    assert none.dtype == np.int16
    assert LinearBall(fit_intercept=True, grid_bits=20).empty(3).shape == (0, 4)


# -- the fit -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scaling", ["row", None, 4.0, (1.0, 2.0, 0.5)])
@pytest.mark.parametrize("intercept", [False, True])
def test_the_fit_is_that_of_algorithm_1(scaling, intercept):
    rng = np.random.default_rng(5)
    X = in_ball(rng, 80, 3)
    y = (X[:, 0] + 0.2 * rng.standard_normal(80) > 0).astype(int)
    ball = LinearBall(0.7, fit_intercept=intercept, scaling=scaling)
    clf = ErasableClassifier(
        ball.capacity, threshold=0.0, fit_intercept=intercept, scaling=scaling, loss="squared", feature_map=None
    ).fit(X, y)
    f = ball.fit(ball.encode(X), y)
    np.testing.assert_array_equal(f.w, clf._model.weights()[0])
    new = in_ball(rng, 50, 3) * 3.0
    np.testing.assert_allclose(2.0 * f(ball.embed(new)) - 1.0, clf.decision_function(new), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(f(ball.encode(X)), f(ball.embed(X)), atol=1e-3)  # up to the rounding to the grid


def test_the_fit_minimises_the_penalised_sum_of_squares():
    rng = np.random.default_rng(6)
    ball = LinearBall(1.0, scaling=None)
    rows = ball.encode(in_ball(rng, 30, 2))
    y = rng.integers(0, 2, 30)
    f, real = ball.fit(rows, y), rows * 2.0**-15

    def cost(u):
        return ((y - 0.5 - real @ u) ** 2).sum() + ball.capacity * (u @ u)

    u = f.w.astype(float) / 2.0
    np.testing.assert_allclose(f(rows), 0.5 + real @ u, rtol=1e-14)
    assert all(cost(u) <= cost(u + step) for step in 1e-3 * rng.standard_normal((200, 2)))


# -- bounds ------------------------------------------------------------------------------------------------------


def dimension_by_hand(ball, rows):
    """The definition: the largest over all orders of the sum of D² / (1 + D²), each row against those before it."""
    best = 0.0
    for order in itertools.permutations(range(len(rows))):
        measure, total = ball.start(rows.shape[1]), 0.0
        for i in order:
            D2 = measure.squared(rows[i : i + 1])[0]
            total += D2 / (1.0 + D2)
            measure.add(rows[i : i + 1])
        best = max(best, total)
    return best


@pytest.mark.parametrize("seed", range(10))
def test_the_dimension_is_bounded(seed):
    rng = np.random.default_rng(seed)
    d = 1 + seed % 3
    ball = LinearBall(float(rng.choice([0.5, 1.0, 5.0])), scaling=None)
    rows = ball.encode(in_ball(rng, 4, d))
    bound = ball.dimension(rows)
    assert dimension_by_hand(ball, rows) <= bound <= d * math.log1p(4 * ball.radius**2 * 4 / d)
    many = ball.encode(in_ball(rng, 200, d))
    A = np.eye(d) + 4 * ball.radius**2 * (many * 2.0**-15).T @ (many * 2.0**-15)
    assert ball.dimension(many) == pytest.approx(np.linalg.slogdet(A)[1], rel=1e-12)


def test_the_rate_holds_for_labels_drawn_from_the_class():
    rng = np.random.default_rng(9)
    T, d, delta = 60, 3, 0.5
    ball = LinearBall(0.5, scaling=None)
    rows = ball.encode(in_ball(rng, T, d))
    real, u = rows * 2.0**-15, np.array([0.4, -0.2, 0.1])
    rate = ball.rate(T, delta, d)
    sums = []
    for _ in range(200):
        y = (rng.uniform(size=T) < 0.5 + real @ u).astype(int)
        sums.append(((ball.fit(rows, y)(rows) - 0.5 - real @ u) ** 2).sum())
    assert max(sums) + 1.0 <= rate
    assert ball.rate(10 * T, delta, d) > rate < ball.rate(T, delta / 2, d)
    assert rate < ball.rate(T, delta, 10 * d)
    assert rate == pytest.approx(1 + 0.25 * (1 + math.sqrt(3 * math.log(1 + 20) + 2 * math.log(120))) ** 2)


@pytest.mark.parametrize("radius", [0.5, 1.0, 4.0])
def test_the_stability_bound_holds(radius):
    rng = np.random.default_rng(11)
    ball = LinearBall(radius, scaling=None)
    worst = 0.0
    for n in (1, 2, 5, 20):
        for _ in range(40):
            X = in_ball(rng, n, 2) if rng.uniform() < 0.5 else np.tile(in_ball(rng, 1, 2), (n, 1))
            rows, y = ball.encode(X), rng.integers(0, 2, n)
            probe = ball.encode(in_ball(rng, 20, 2))
            f, g = ball.fit(rows, y)(probe), ball.fit(rows[1:], y[1:])(probe)
            for target in (0, 1):
                change = np.abs((f - target) ** 2 - (g - target) ** 2).max()
                assert change <= ball.stability(n)
                worst = max(worst, change / ball.stability(n))
    assert worst > 0.01
    assert ball.stability(100) > ball.stability(10)


def test_no_row_disagrees_more_than_the_widest():
    rng = np.random.default_rng(2)
    for ball in (LinearBall(), LinearBall(3.0, fit_intercept=True), LinearBall(0.5, scaling=None)):
        X = rng.standard_normal((200, 3))
        X /= np.linalg.norm(X, axis=1, keepdims=True)
        largest = ball.start(3).squared(ball.encode(X)).max()
        assert 0.99 * ball.widest(3) < largest <= ball.widest(3)
        assert ball.widest(3) == pytest.approx(4 * ball.radius**2, rel=1e-2)


# -- configuration -----------------------------------------------------------------------------------------------


def test_a_description_tells_configurations_apart():
    balls = [
        LinearBall(),
        LinearBall(2.0),
        LinearBall(fit_intercept=True),
        LinearBall(scaling=None),
        LinearBall(scaling=2),
        LinearBall(scaling=[2.0, 1.0]),
        LinearBall(grid_bits=12),
    ]
    assert len({json.dumps(b.describe(), sort_keys=True) for b in balls}) == len(balls)
    assert LinearBall(2) == LinearBall(2.0)
    assert LinearBall(scaling=np.array([2.0, 1.0])) == LinearBall(scaling=(2, 1))
    assert all(isinstance(b, FunctionClass) and b.exact and not b.assumptions for b in balls)
    assert LinearBall(0.5).capacity == 1.0


def test_what_could_be_a_stored_row():
    ball = LinearBall(fit_intercept=True)
    rows = ball.encode(np.random.default_rng(0).standard_normal((5, 3)))
    assert ball.holds(rows).all()
    rows[1, -1] += 1
    rows[3, :3] = 2**15 - 1
    assert ball.holds(rows).tolist() == [True, False, True, False, True]
    assert not ball.holds(rows.astype(float)).any()


BAD = {
    "radius": [0, -1.0, math.nan, math.inf, "1", True, 10**400, 1e6, 1e-6],
    "grid_bits": [3, 15.0],
    "fit_intercept": [1],
    "scaling": ["rows", 0.0, [1.0, -1.0], [], [[1.0]], True, ...],
}


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in BAD.items() for value in values], ids=lambda v: str(v)[:20]
)
def test_parameters_that_cannot_work_are_refused(name, value):
    with pytest.raises(ConfigurationError, match="scal" if name == "scaling" else name):
        LinearBall(**{name: value})


def test_rows_outside_the_ball_are_counted():
    ball = LinearBall(scaling=None)
    with pytest.raises(InputError, match="2 of 3 rows have a norm above 1"):
        ball.encode(np.array([[0.1, 0.0], [3.0, 0.0], [0.0, 3.0]]))
    assert ball.embed(np.array([[3.0, 0.0]])).shape == (1, 2)
    with pytest.raises(ConfigurationError, match="2 scales for 3 features"):
        LinearBall(scaling=[1.0, 2.0]).empty(3)
