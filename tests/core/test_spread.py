"""Logistic weights with a regulariser by the spread of each column: those of the oracle, at any level."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

import erasable.core.logistic as logistic
import erasable.core.logistic_balls as balls
import erasable.core.newton as newton
from erasable.core.grid import Grid
from erasable.core.logistic import (
    Enclosure,
    Point,
    logistic_weights,
    rounding_digits,
    spread_exponents,
    weighted_squares,
)
from erasable.core.logistic_balls import SIGMOID_ERROR
from erasable.core.newton import Problems, RowBlocks
from tests.core.test_logistic import bits_of, random_problem
from tests.logistic_oracle import SPREADS, LogisticOracle, spread_of, spread_problem


def exponents_of(rows):
    rows = np.asarray(rows)
    return spread_exponents(*weighted_squares(rows, np.ones(len(rows), dtype=np.int64)), len(rows))


def drawn(seed):
    """A problem as ``logistic_weights`` takes it: one of unlike columns, or one of those of the flat regulariser."""
    if seed % 3 == 0:
        return random_problem(np.random.default_rng([21, seed]))
    rows, signs, counts, bits, units = spread_problem(seed)
    return rows, signs[None, :], counts, Grid(rows.shape[1], bits, False), units


def expected(rows, signs, counts, grid, units):
    return [
        LogisticOracle(rows, y, counts, grid.bits, units, spread_of(rows.tolist())).weights(rows.shape[1])
        for y in signs
    ]


# -- exponents -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(3 * len(SPREADS)))
def test_exponents_are_those_of_the_definition(seed):
    rows, *_ = spread_problem(seed)
    assert exponents_of(rows).tolist() == spread_of(rows.tolist())


def test_exponents_are_exact_where_float64_is_not():
    """Of a million rows and the largest sums, at the power of four and one below it."""
    n = 2**20 - 1
    for e in range(1, 12):
        for total in (0, 1, n - 1, n * 3 + 1):
            square, rest = divmod(4**e * n * n + total**2, n)
            at_least = square + (rest > 0)
            assert at_least < 2**53
            found = spread_exponents([at_least, at_least - 1], [total, total], n)
            assert found.tolist() == [e, e - 1]


def test_without_rows_and_of_one_row_exponents_are_zero():
    assert spread_exponents([0, 0], [0, 0], 0).tolist() == [0, 0]
    assert exponents_of([[2**14, -3]]).tolist() == [0, 0]
    assert spread_exponents([], [], 5).tolist() == []


def test_weighted_sums_are_exact_where_int64_is_not():
    """Of the longest rows of 20 bits with the largest weights, dense and sparse, and of rows that count once."""
    rng = np.random.default_rng(0)
    rows = rng.integers(2**20 - 9, 2**20, (2500, 3)).astype(np.int32) * np.int32([1, -1, 0])
    for times in (np.full(2500, 256), rng.integers(1, 257, 2500), np.ones(2500, dtype=int)):
        whole = rows.astype(object)
        right = [(whole**2 * times[:, None]).sum(axis=0).tolist(), (whole * times[:, None]).sum(axis=0).tolist()]
        for some in (rows, sparse.csr_array(rows)):
            assert list(weighted_squares(some, times)) == right
        assert spread_exponents(*right, int(times.sum())).tolist() == spread_of(rows.tolist(), times.tolist())


# -- weights -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(180))
def test_weights_are_the_rounded_minimiser(seed):
    problem = drawn(seed)
    assert bits_of(logistic_weights(*problem, exponents=exponents_of(problem[0]))) == expected(*problem)


@pytest.mark.parametrize("seed", range(180, 240))
def test_balls_say_the_same(seed, monkeypatch):
    """Every entry left to the last level."""
    monkeypatch.setattr(logistic.Point, "enclosure", lambda self, s: Enclosure(np.inf, s))
    problem = drawn(seed)
    assert bits_of(logistic_weights(*problem, exponents=exponents_of(problem[0]))) == expected(*problem)


@pytest.mark.parametrize("seed", range(240, 270))
def test_balls_find_the_minimiser_from_any_point_with_any_factor(seed):
    rows, signs, counts, grid, units = drawn(seed)
    d, rng = rows.shape[1], np.random.default_rng(seed)
    problem = problem_of(rows, signs[:1], counts, grid, units)
    w = rng.standard_normal(d) * 10.0 ** rng.integers(-3, 6)
    w[0] = rng.choice([w[0], np.nan, np.inf])
    factor = newton.Factor(np.asfortranarray(np.eye(d) * 10.0 ** rng.integers(-15, 9)), True)
    out, settled = np.zeros(d, dtype=np.float32), np.zeros(d, dtype=bool)
    balls.settle_in_balls(problem, w, factor, out, settled, rounding_digits(units, grid.bits))
    assert bits_of((out + np.float32(0.0))[None, :]) == expected(rows, signs[:1], counts, grid, units)


@given(st.integers(0, 2**20))
def test_neither_start_nor_order_nor_storage_matters(seed):
    rng = np.random.default_rng(seed)
    rows, signs, counts, grid, units = random_problem(rng)
    how = {"exponents": exponents_of(rows)}
    W = logistic_weights(rows, signs, counts, grid, units, **how)
    start = rng.standard_normal(W.shape) * 10.0 ** rng.integers(-3, 6)
    assert bits_of(logistic_weights(rows, signs, counts, grid, units, start, **how)) == bits_of(W)
    order = rng.permutation(len(rows))
    assert bits_of(logistic_weights(rows[order], signs[:, order], counts[order], grid, units, **how)) == bits_of(W)
    features = sparse.csr_array(rows[:, : grid.n_features])
    assert bits_of(logistic_weights(features, signs, counts, grid, units, **how)) == bits_of(W)
    gram = rng.standard_normal(2 * rows.shape[1:]) * 4.0**15
    assert bits_of(logistic_weights(rows, signs, counts, grid, units, gram=gram, **how)) == bits_of(W)


@pytest.fixture(scope="module")
def larger():
    """Enough rows for several blocks and samples, columns from one step to many, one of them with an offset."""
    rng = np.random.default_rng(6)
    grid = Grid(12)
    rows = np.zeros((4000, 13), dtype=grid.dtype)
    rows[:, :12] = np.rint(rng.standard_normal((4000, 12)) * 2.0 ** np.arange(12)) * (rng.random((4000, 12)) < 0.6)
    score = rows[:, :12] / 2.0 ** np.arange(12) @ rng.standard_normal((12, 2)) + rng.standard_normal((4000, 2))
    rows[:, 8] += 9000
    rows[:, 12] = grid.constant
    problem = rows, np.where(score > 0.5, 1, -1).T, rng.integers(1, 17, 4000) / 16.0, grid, 4**15
    return problem, logistic_weights(*problem, exponents=exponents_of(rows))


def test_balls_say_the_same_of_many_rows(larger, monkeypatch):
    (rows, signs, counts, grid, units), W = larger
    monkeypatch.setattr(logistic.Point, "enclosure", lambda self, s: Enclosure(np.inf, s))
    found = logistic_weights(rows, signs[:1], counts, grid, units, exponents=exponents_of(rows))
    assert bits_of(found) == bits_of(W[:1])


def test_many_rows_need_no_balls(larger, monkeypatch):
    problem, W = larger
    monkeypatch.setattr(logistic, "settle_in_balls", None)
    assert bits_of(logistic_weights(*problem, exponents=exponents_of(problem[0]))) == bits_of(W)


@pytest.mark.parametrize("density", [0.0, 1.0])
def test_taking_rows_as_sparse_does_not_matter(larger, density, monkeypatch):
    problem, W = larger
    monkeypatch.setattr(newton, "_SPARSE", 2.0)
    monkeypatch.setattr(newton, "_VERY_SPARSE", density)
    assert bits_of(logistic_weights(*problem, exponents=exponents_of(problem[0]))) == bits_of(W)


def test_samples_for_hessians_do_not_matter(larger, monkeypatch):
    problem, W = larger
    monkeypatch.setattr(newton, "_MANY_PASSES", 0.0)
    made, hessian = [], RowBlocks.sampled_gram
    monkeypatch.setattr(RowBlocks, "sampled_gram", lambda self, D: made.append(D) or hessian(self, D))
    assert bits_of(logistic_weights(*problem, exponents=exponents_of(problem[0]))) == bits_of(W)
    assert made


@pytest.mark.parametrize("spread", [False, True])
def test_a_flat_regulariser_is_that_of_equal_exponents(spread):
    """What exponents mean: those of all bits are the definition without any."""
    rows, signs, counts, grid, units = random_problem(np.random.default_rng(3))
    exponents = np.full(grid.n_columns, grid.bits - spread)
    found = logistic_weights(rows, signs, counts, grid, 4 * units if spread else units, exponents=exponents)
    flat = logistic_weights(rows, signs, counts, grid, units)
    assert spread or bits_of(found) == bits_of(flat)
    np.testing.assert_allclose(found, flat, rtol=1e-6, atol=2.0**-24)


# -- bounds --------------------------------------------------------------------------------------------------------


def problem_of(rows, signs, counts, grid, units):
    """The problem in its own coordinates."""
    flat = Problems(RowBlocks.of(rows, grid), signs.T.astype(float), counts, grid.bits, units)
    return flat.by_spread(exponents_of(rows))


def near_the_minimiser(seed):
    """A problem, its oracle, the minimiser to many bits, and a point at some distance from it."""
    rows, signs, counts, grid, units = drawn(seed)
    problem = problem_of(rows, signs[:1], counts, grid, units)
    oracle = LogisticOracle(rows, signs[0], counts, grid.bits, units, spread_of(rows.tolist()))
    w, radius = oracle.minimiser(rows.shape[1], 480)
    assert radius < Fraction(1, 2**200)
    v = [x / Fraction(float(s)) for x, s in zip(w, problem.stretch, strict=True)]
    rng = np.random.default_rng([13, seed])
    distance = 2.0 ** -rng.uniform(4.0, 50.0) * rng.standard_normal(len(v))
    return problem, oracle, v, np.array([float(x) for x in v]) + distance


def in_steps(values):
    return [Fraction(float(x)) for x in values]


@pytest.mark.parametrize("seed", range(300, 380))
def test_the_gradient_is_within_its_bound(seed):
    problem, oracle, _, v = near_the_minimiser(seed)
    point = Point.at(problem, v)
    stretch = in_steps(problem.stretch)
    true = oracle.gradient([x * s for x, s in zip(in_steps(point.w), stretch, strict=True)], 480)
    true = [g * s for g, s in zip(true, stretch, strict=True)]
    error = math.sqrt(sum((a - b) ** 2 for a, b in zip(in_steps(point.gradient), true, strict=True)))
    assert error <= point.error + SIGMOID_ERROR * point.smaller * problem.reach


@pytest.mark.parametrize("seed", range(300, 420))
def test_the_minimiser_is_in_its_enclosure(seed):
    problem, _, v_star, v = near_the_minimiser(seed)
    point = Point.at(problem, v)
    factor = problem.factor(point.margins, double=True)
    s = -factor.solve(point.gradient)
    for _ in range(3):
        found = point.enclosure(s)
        ends = zip(in_steps(point.w), in_steps(s), v_star, strict=True)
        assert math.sqrt(sum((a + b - c) ** 2 for a, b, c in ends)) <= found.radius
        s = s - factor.solve(found.eta)


@pytest.mark.parametrize("seed", range(300, 339))
def test_points_are_rounded_so_that_products_are_exact(seed):
    """Every partial sum of a row and a point, in any order."""
    problem, _, _, v = near_the_minimiser(seed)
    rows = np.concatenate([X if isinstance(X, np.ndarray) else X.toarray() for _, X in problem.rows])
    w = Point.at(problem, v).w * problem.stretch
    unit = max((Fraction(x).denominator for x in w.tolist()), default=1)
    whole = [int(Fraction(x) * unit) for x in w.tolist()]
    for row in rows.astype(np.int64).tolist():
        products = [g * x for g, x in zip(row, whole, strict=True)]
        assert max(sum(p for p in products if p > 0), -sum(p for p in products if p < 0)) <= 2**53


def test_no_row_is_longer_than_the_reach():
    for seed in range(39):
        rows, signs, counts, grid, units = drawn(seed)
        problem = problem_of(rows, signs[:1], counts, grid, units)
        assert (problem.widest * 2**grid.bits).tolist() == np.abs(rows.astype(int)).max(axis=0).tolist()
        squares = [
            sum(Fraction(int(g), 2 ** int(e)) ** 2 for g, e in zip(row, problem.exponents, strict=True)) for row in rows
        ]
        assert max(squares) <= Fraction(problem.reach) ** 2


def test_enclosures_are_small(larger):
    """Small enough to settle nearly all entries in the coordinates of the weights, the intercept among them."""
    (rows, signs, counts, grid, units), W = larger
    problem = problem_of(rows, signs[:1], counts, grid, units)
    point = Point.at(problem, W[0].astype(np.float64) / problem.stretch)
    factor = problem.factor(point.margins, double=True)
    point = Point.at(problem, point.w - factor.solve(point.gradient))
    s = -factor.solve(point.gradient)
    s = s - factor.solve(point.enclosure(s).eta)
    assert point.enclosure(s).radius * problem.stretch.max() < 2.0**-36


@pytest.mark.parametrize("seed", range(300, 339))
def test_the_gradient_of_balls_is_within_its_noise(seed):
    """With so few bits that sigmoids are coarse, and rows are long."""
    problem, oracle, _, v = near_the_minimiser(seed)
    place = balls._Place.at(problem, balls._integers(v, 12 + balls._FINER), 12)
    stretch = in_steps(problem.stretch)
    w = [Fraction(x, 2**place.e) * s for x, s in zip(place.W, stretch, strict=True)]
    true = [g * s for g, s in zip(oracle.gradient(w, 480), stretch, strict=True)]
    found = [Fraction(g, 2**place.scale) for g in place.gradient]
    assert sum((a - b) ** 2 for a, b in zip(found, true, strict=True)) <= place.noise**2


def test_weights_from_before_are_where_the_search_starts(larger):
    """In the coordinates of the exponents as they are now, which need not be those from before."""
    (rows, signs, counts, grid, units), W = larger
    problem = problem_of(rows, signs, counts, grid, units)
    _, _, gradient = newton._begin(problem, W.T.astype(np.float64))
    _, _, at_zero = newton._begin(problem, None)
    assert np.linalg.norm(gradient) < 1e-3 * np.linalg.norm(at_zero)
