"""Logistic weights are the minimiser of the oracle, rounded as defined: from any start, in any order, at any level."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from threadpoolctl import threadpool_limits

import erasable.core.logistic as logistic
import erasable.core.logistic_balls as balls
import erasable.core.newton as newton
import erasable.core.newton as row_blocks
from erasable.core.grid import Grid
from erasable.core.logistic import Enclosure, Point, logistic_weights, rounding_digits
from erasable.core.logistic_balls import SIGMOID_ERROR
from erasable.core.newton import Problems, RowBlocks
from erasable.core.sums import to_float32
from erasable.errors import ConfigurationError, ExactnessError, InputError
from tests.logistic_oracle import LogisticOracle, degenerate_problem, digits_after_the_point, published


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
    monkeypatch.setattr(logistic.Point, "enclosure", lambda self, s: Enclosure(np.inf, s))
    assert_published(random_problem(np.random.default_rng([2, seed])))


# -- what must not matter ----------------------------------------------------------------------------------------


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


GRAMS = {
    "true": lambda rows, rng: rows.T @ rows,
    "lower triangle": lambda rows, rng: np.tril(rows.T @ rows) + np.triu(rng.standard_normal(2 * rows.shape[1:]), 1),
    "of other rows": lambda rows, rng: (R := rng.standard_normal(rows.shape) * 2.0**15).T @ R,
    "indefinite": lambda rows, rng: rng.standard_normal(2 * rows.shape[1:]) * 4.0**15,
    "negative": lambda rows, rng: -(rows.T @ rows) - 1.0,
    "zero": lambda rows, rng: np.zeros(2 * rows.shape[1:]),
    "far too small": lambda rows, rng: (rows.T @ rows) * 1e-300,
    "far too large": lambda rows, rng: (rows.T @ rows) * 1e12,
    "beyond float32": lambda rows, rng: (rows.T @ rows) * 1e280,
    "one long direction": lambda rows, rng: np.ones(2 * rows.shape[1:]) * 1e30,
}


@pytest.mark.parametrize("kind", GRAMS)
def test_the_gram_matrix_does_not_matter(kind, larger):
    """Not a true one, and not garbage."""
    rng = np.random.default_rng([6, len(kind)])
    for _ in range(12):
        problem = random_problem(rng)
        gram = GRAMS[kind](problem[0].astype(np.float64), rng)
        assert bits_of(logistic_weights(*problem, gram=gram)) == bits_of(logistic_weights(*problem))
    problem, W = larger
    assert bits_of(logistic_weights(*problem, gram=GRAMS[kind](problem[0].astype(np.float64), rng))) == bits_of(W)


@pytest.fixture(scope="module")
def larger():
    """Enough rows for several blocks and samples, three problems; and their weights."""
    rng = np.random.default_rng(5)
    grid = Grid(12)
    rows = np.zeros((5000, 13), dtype=grid.dtype)
    rows[:, :12] = rng.integers(-5000, 5000, (5000, 12)) * (rng.random((5000, 12)) < 0.5)
    rows[:, 12] = grid.constant
    score = rows[:, :12] @ rng.standard_normal((12, 3)) / 5000.0 + rng.standard_normal((5000, 3))
    problem = rows, np.where(score > 0.5, 1, -1).T, rng.integers(1, 17, 5000) / 16.0, grid, 4**15 // 10
    return problem, logistic_weights(*problem)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("entries", [1, 2**12, 2**18])
def test_neither_blocks_nor_threads_matter(larger, threads, entries, monkeypatch):
    problem, W = larger
    monkeypatch.setattr(row_blocks, "_BLOCK_ENTRIES", entries)
    with threadpool_limits(threads):
        assert bits_of(logistic_weights(*problem)) == bits_of(W)


@pytest.mark.parametrize("density", [0.0, 1.0])
def test_taking_rows_as_sparse_does_not_matter(larger, density, monkeypatch):
    problem, W = larger
    monkeypatch.setattr(row_blocks, "_SPARSE", 2.0)
    monkeypatch.setattr(row_blocks, "_VERY_SPARSE", density)
    assert RowBlocks.of(problem[0], problem[3]).very_sparse == bool(density)
    assert bits_of(logistic_weights(*problem)) == bits_of(W)


def test_neither_samples_nor_groups_matter(larger, monkeypatch):
    problem, W = larger
    monkeypatch.setattr(newton, "_LEAST_SAMPLE", 10**9)
    monkeypatch.setattr(logistic, "_GROUP", 1)
    assert bits_of(logistic_weights(*problem)) == bits_of(W)


@pytest.mark.parametrize("error", [0.3, 3.0])
@pytest.mark.parametrize("passes", [12, 1])
def test_samples_for_hessians_do_not_matter(larger, error, passes, monkeypatch):
    """Be they large or small, and their steps improved or not."""
    problem, W = larger
    monkeypatch.setattr(newton, "_MANY_PASSES", 0.0)
    monkeypatch.setattr(newton, "_SAMPLE_ERROR", error)
    monkeypatch.setattr(newton, "_MOST_PASSES", passes)
    made, hessian = [], RowBlocks.sampled_gram
    monkeypatch.setattr(RowBlocks, "sampled_gram", lambda self, D: made.append(D) or hessian(self, D))
    start = W + np.float32(0.01)
    assert bits_of(logistic_weights(*problem)) == bits_of(logistic_weights(*problem, start)) == bits_of(W)
    assert made


def test_balls_say_the_same_of_many_rows(larger, monkeypatch):
    (rows, signs, counts, grid, units), W = larger
    monkeypatch.setattr(logistic.Point, "enclosure", lambda self, s: Enclosure(np.inf, s))
    assert bits_of(logistic_weights(rows, signs[:1], counts, grid, units)) == bits_of(W[:1])


@pytest.mark.parametrize("distort", [0.7, 1.3])
def test_the_quality_of_factors_does_not_matter(larger, distort, monkeypatch):
    (rows, signs, counts, grid, units), W = larger
    solve = newton.Factor.solve
    monkeypatch.setattr(newton.Factor, "solve", lambda self, g: distort * solve(self, g))
    assert bits_of(logistic_weights(rows, signs[:1], counts, grid, units)) == bits_of(W[:1])


# -- bounds ------------------------------------------------------------------------------------------------------


def near_the_minimiser(seed):
    """A problem, its oracle, the minimiser to 150 bits, and a point at some distance from it."""
    rng = np.random.default_rng([3, seed])
    rows, signs, counts, grid, units = random_problem(rng)
    oracle = LogisticOracle(rows, signs[0], counts, grid.bits, units)
    w, radius = oracle.minimiser(rows.shape[1])
    assert radius < Fraction(1, 2**150)
    problem = Problems(RowBlocks.of(rows, grid), signs[:1].T.astype(float), counts, grid.bits, units)
    distance = 2.0 ** -rng.uniform(4.0, 50.0) * rng.standard_normal(len(w))
    return problem, oracle, w, np.array([float(x) for x in w]) + distance


@pytest.mark.parametrize("seed", range(80))
def test_the_gradient_is_within_its_bound(seed):
    problem, oracle, _, w = near_the_minimiser(seed)
    point = Point.at(problem, w)
    true = oracle.gradient([Fraction(float(x)) for x in point.w])
    error = math.sqrt(sum((Fraction(float(a)) - b) ** 2 for a, b in zip(point.gradient, true, strict=True)))
    assert error <= point.error + SIGMOID_ERROR * point.smaller
    assert point.error < 2.0**-45 * (1.0 + problem.counts.sum() + problem.alpha * np.linalg.norm(w))


@pytest.mark.parametrize("seed", range(80))
def test_the_minimiser_is_in_its_enclosure(seed):
    problem, _, w_star, w = near_the_minimiser(seed)
    point = Point.at(problem, w)
    factor = problem.factor(point.margins)
    s = -factor.solve(point.gradient)
    for _ in range(3):
        found = point.enclosure(s)
        centre = [Fraction(float(a)) + Fraction(float(b)) for a, b in zip(point.w, s, strict=True)]
        distance = math.sqrt(sum((a - b) ** 2 for a, b in zip(centre, w_star, strict=True)))
        assert distance <= found.radius
        s = s - factor.solve(found.eta)


@pytest.mark.parametrize("seed", range(60))
def test_balls_settle_nothing_too_early(seed):
    """From points that are still far away, which say little about the minimiser."""
    problem, oracle, w_star, w = near_the_minimiser(seed)
    out, settled = np.zeros(len(w), dtype=np.float32), np.zeros(len(w), dtype=bool)
    margins = problem.margins_and_gradient(w[:, None])[0][:, 0]
    digits = rounding_digits(problem.units, problem.bits)
    balls.settle_in_balls(problem, w, problem.factor(margins), out, settled, digits)
    assert settled.all()
    assert bits_of(out + np.float32(0.0)) == oracle.weights(len(w_star))


@pytest.mark.parametrize("precision", [64, 128, 1024])
def test_sigmoids_of_balls_are_less_than_two_units_off(precision):
    values = [0, 1, -1, 2**40, -(2**40), 2**47, -(2**47), 3 * 2**60, -(3 * 2**60)]
    for v, found in zip(values, balls._sigmoids(values, 40, precision), strict=True):
        before, ctx.prec = ctx.prec, precision + 400
        true = 2**precision / (1 + (arb(-v) / 2**40).exp())
        ctx.prec = before
        assert abs(true - found) < 2


def test_margins_of_balls_are_exact():
    rng = np.random.default_rng(0)
    for bits, d in ((15, 700), (20, 3), (4, 40)):
        grid = Grid(d, bits, False)
        rows = rng.integers(-(2**bits) // 30, 2**bits // 30, (20, d)).astype(grid.dtype)
        W = [int(v) * 2**200 + int(r) for v, r in zip(*rng.integers(-(2**62), 2**62, (2, d)), strict=True)]
        problem = Problems(RowBlocks.of(rows, grid), np.ones((20, 1)), np.ones(20), bits, 4**bits)
        assert balls._margins(problem, W) == [sum(int(g) * w for g, w in zip(row, W, strict=True)) for row in rows]


def test_enclosures_are_small():
    """Small enough to settle nearly all entries: the median, for points 2**-20 or nearer, is below 2**-40."""
    radii = []
    for seed in range(60):
        problem, _, w_star, w = near_the_minimiser(seed)
        if np.linalg.norm(w - [float(x) for x in w_star]) < 2.0**-20:
            point = Point.at(problem, w)
            s = -problem.factor(point.margins, double=True).solve(point.gradient)
            radii.append(point.enclosure(s).radius)
    assert len(radii) > 20
    assert np.median(radii) < 2.0**-40


@given(st.integers(0, 2**32), st.floats(-30.0, 30.0))
def test_points_are_rounded_so_that_products_are_exact(seed, size):
    rng = np.random.default_rng(seed)
    bits, d = int(rng.integers(4, 21)), int(rng.integers(1, 700))
    w = rng.standard_normal(d) * 2.0**size
    W, e = logistic._rounded(w, bits, 24, float(np.linalg.norm(w)))
    assert np.array_equal(W, np.rint(W))
    assert np.linalg.norm(W) <= 2.0 ** (53 - bits)
    assert np.abs(np.ldexp(W, -e) - w).max() <= 2.0 ** (bits - 51) * np.linalg.norm(w)


def test_digits_of_the_rounding():
    for bits in (4, 15, 20):
        for units in [1, 2, 3, 4**bits - 1, 4**bits, 4**bits + 1, 2 * 4**bits, 2 * 4**bits + 1, 10 * 4**bits]:
            assert rounding_digits(units, bits) == digits_after_the_point(Fraction(units, 4**bits))


@given(st.integers(0, 2**32))
def test_an_entry_is_settled_only_where_the_whole_enclosure_is_published_alike(seed):
    """Entries at, next to and far from boundaries, with radii that reach across them or do not."""
    rng = np.random.default_rng(seed)
    q = 24 + int(rng.integers(0, 4))
    w = (rng.integers(-(2**30), 2**30, 8) + rng.choice([0.0, 0.5, 0.25], 8)) / 2.0**q
    s = rng.choice([0.0, 1.0, -1.0], 8) * 2.0 ** -rng.uniform(30, 60, 8)
    radius = 2.0 ** -rng.uniform(20, 60)
    out, settled = np.full(8, np.nan, dtype=np.float32), np.zeros(8, dtype=bool)
    logistic._settle(w, s, radius, q, out, settled)
    for j in range(8):
        centre = Fraction(float(w[j])) + Fraction(float(s[j]))
        ends = {published(centre + side * Fraction(radius), q) for side in (-1, 1)}
        if settled[j]:
            assert ends == {int((out[j : j + 1] + np.float32(0.0)).view(np.uint32)[0])}
    far = np.abs(w * 2.0**q - np.floor(w * 2.0**q) - 0.5) > 2.0**q * (radius + np.abs(s) + 2.0**-50 * np.abs(w))
    assert settled[far].all()


# -- zeros, ties, trouble ----------------------------------------------------------------------------------------


def test_no_rows_no_weights():
    grid = Grid(3)
    W = logistic_weights(np.zeros((0, 4), dtype=np.int16), np.zeros((2, 0)), np.zeros(0), grid, 4**15)
    assert bits_of(W) == [[0] * 4] * 2


def test_mirrored_rows_and_empty_columns_have_weights_of_exactly_zero():
    rng = np.random.default_rng(0)
    half = rng.integers(-5000, 5000, (40, 5))
    half[:, 2] = 0
    rows, grid = np.vstack([half, -half]).astype(np.int16), Grid(5, 15, False)
    W = logistic_weights(rows, np.ones((1, 80)), np.ones(80), grid, 4**15)
    assert bits_of(W) == [[0] * 5]
    W = logistic_weights(rows, np.repeat([[1, -1]], 40, axis=1), np.ones(80), grid, 4**15)
    assert W[0, 2] == 0.0
    assert np.count_nonzero(W) == 4


@pytest.mark.parametrize("units", [1, 11, 1074])
def test_separable_rows_with_tiny_alpha(units):
    rng = np.random.default_rng(1)
    rows, grid = rng.integers(-9000, 9000, (60, 3)).astype(np.int16), Grid(3, 15, False)
    assert_published((rows, np.sign(rows[:, 0] + 0.5)[None, :].astype(int), np.ones(60), grid, units))


@pytest.mark.parametrize("seed", range(40))
def test_rows_in_few_directions_have_weights(seed):
    """Hessians that float32 and then float64 cannot tell from singular ones."""
    rows, signs, counts, bits, units = degenerate_problem(seed)
    assert_published((rows, signs[None, :], counts, Grid(rows.shape[1], bits, False), units))


@pytest.mark.parametrize("seed", range(25))
def test_balls_find_the_minimiser_from_any_point_with_any_factor(seed):
    rows, signs, counts, bits, units = degenerate_problem(seed)
    grid, d, rng = Grid(rows.shape[1], bits, False), rows.shape[1], np.random.default_rng(seed)
    problem = Problems(RowBlocks.of(rows, grid), signs[:, None].astype(float), counts, bits, units)
    w = rng.standard_normal(d) * 10.0 ** rng.integers(-3, 6)
    w[0] = rng.choice([w[0], np.nan, np.inf])
    factor = newton.Factor(np.asfortranarray(np.eye(d) * 10.0 ** rng.integers(-15, 9)), True)
    out, settled = np.zeros(d, dtype=np.float32), np.zeros(d, dtype=bool)
    balls.settle_in_balls(problem, w, factor, out, settled, rounding_digits(units, bits))
    assert bits_of(out + np.float32(0.0)) == LogisticOracle(rows, signs, counts, bits, units).weights(d)


def test_hessians_of_balls_are_exact():
    for bits, n in ((15, 2000), (20, 100), (4, 70)):
        rng, grid = np.random.default_rng(bits), Grid(3, bits, False)
        rows = rng.integers(-(2 ** (bits - 1)), 2 ** (bits - 1), (n, 3)).astype(grid.dtype)
        weights = [int(v) << 70 for v in rng.integers(0, 2**62, n)]
        whole = rows.astype(object)
        for some in (rows, sparse.csr_array(rows)):
            problem = Problems(RowBlocks.of(some, grid), np.ones((n, 1)), np.ones(n), bits, 4**bits)
            assert balls._gram(problem, weights) == (whole.T @ (whole * np.array(weights)[:, None])).tolist()


@pytest.mark.parametrize("steps", [0, 2])
def test_what_newton_leaves_open_is_settled(steps, monkeypatch):
    monkeypatch.setattr(newton, "_MOST_STEPS", steps)
    rows, grid = np.array([[900, 20], [-70, 1000]], dtype=np.int16), Grid(2, 15, False)
    assert_published((rows, np.array([[1, 1], [1, -1]]), np.ones(2), grid, 1))


def test_no_number_of_bits_is_the_last(monkeypatch):
    """An entry this near to a boundary is not to be met: one is made by asking for so many digits."""

    class Finer(float):
        def __new__(cls, value, q):
            self = super().__new__(cls, to_float32(Fraction(round(value * 2**q), 2**q)))
            self.digits = round(value * 2**5000)
            return self

        def __eq__(self, other):
            return self.digits == other.digits

        __hash__ = None

    monkeypatch.setattr(balls, "_published", Finer)
    monkeypatch.setattr(logistic.Point, "enclosure", lambda self, s: Enclosure(np.inf, s))
    rows, grid = np.array([[900, 20], [-70, 1000]], dtype=np.int16), Grid(2, 15, False)
    assert_published((rows, np.array([[1, -1]]), np.ones(2), grid, 4**15))


GOOD = {"rows": np.ones((2, 3), dtype=np.int16), "signs": [[1, -1]], "counts": np.ones(2), "alpha_units": 4**15}


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"signs": [[1, 0]]}, InputError, "signs"),
        ({"signs": [1, -1]}, InputError, "signs"),
        ({"counts": np.array([1.0, 0.0])}, InputError, "weights of rows"),
        ({"counts": np.array([1.0, -1.0])}, InputError, "weights of rows"),
        ({"counts": np.array([1.0, np.nan])}, InputError, "weights of rows"),
        ({"counts": np.array([1.0, 2.0**21])}, InputError, "weights of rows"),
        ({"counts": np.ones(3)}, InputError, "weights of rows"),
        ({"rows": np.ones((2, 4), dtype=np.int16)}, InputError, "columns"),
        ({"rows": np.ones((2, 3))}, InputError, "integers"),
        ({"alpha_units": 0}, ConfigurationError, "alpha must be at least"),
        ({"alpha_units": 2**53}, ConfigurationError, "alpha must be at least"),
        ({"start": np.zeros((1, 2))}, InputError, "start"),
        ({"start": np.full((1, 3), np.inf)}, InputError, "start"),
        ({"gram": np.zeros((3, 2))}, InputError, "gram"),
        ({"gram": np.full((3, 3), np.nan)}, InputError, "gram"),
    ],
)
def test_bad_input_is_refused(wrong, error, says):
    with pytest.raises(error, match=says):
        logistic_weights(**{**GOOD, **wrong}, grid=Grid(3, 15, False))


def test_more_rows_than_sums_hold_are_refused(monkeypatch):
    monkeypatch.setattr(logistic, "MOST_ROWS_AT_ONCE", 1)
    with pytest.raises(ExactnessError, match="would reach 2 rows, but logistic weights are certified for at most 1"):
        logistic_weights(**GOOD, grid=Grid(3, 15, False))


def test_the_largest_sums_are_exact():
    """All rows as long as can be, in one direction, with the largest weights: the budgets of integers are used up."""
    for bits in (15, 20):
        grid = Grid(1, bits, False)
        rows = np.full((4096, 1), grid.radius, dtype=grid.dtype)
        counts = np.full(4096, 2.0**20 - 2.0**-4)
        signs = np.where(np.arange(4096) < 4000, 1, -1)[None, :]
        problem = Problems(RowBlocks.of(rows, grid), signs.T.astype(float), counts, bits, 4**bits)
        oracle = LogisticOracle(rows, signs[0], counts, bits, 4**bits)
        point = Point.at(problem, np.array([1.7]))
        (true,) = oracle.gradient([Fraction(float(point.w[0]))])
        assert abs(Fraction(float(point.gradient[0])) - true) <= point.error + SIGMOID_ERROR * point.smaller
        assert_published((rows, signs, counts, grid, 4**bits))
