"""Rows go on the grid exactly as the rational oracle puts them, whatever they are stored in."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.sparse import csr_array

from erasable.core.grid import Grid, count_outside_ball, dense_rows, scale_rows, to_grid
from erasable.core.selector import RawRows
from erasable.errors import ConfigurationError, InputError
from tests.oracle import OracleGrid
from tests.strategies import any_rows, ball_rows

BITS = range(4, 21)


def assert_on_grid(X, grid):
    """``to_grid`` agrees with the oracle, keeps to the ball and uses the declared type."""
    G = to_grid(np.asarray(X), grid)
    oracle = OracleGrid(grid.n_features, grid.bits, grid.intercept, grid.scaling)
    assert G.tolist() == [list(oracle.put(row)) for row in np.asarray(X, dtype=np.float64).tolist()]
    assert G.dtype == (np.int16 if grid.bits <= 15 else np.int32)
    square = (G.astype(np.int64) ** 2).sum(axis=1)
    assert (square <= min((2**grid.bits - 1) ** 2, grid.longest)).all()
    return G


@st.composite
def grids_and_rows(draw):
    n_features = draw(st.integers(1, 6))
    bits, intercept = draw(st.integers(4, 20)), draw(st.booleans())
    scales = tuple(
        draw(st.lists(st.sampled_from([1e-3, 0.1, 1.0, 3.0, 1e4]), min_size=n_features, max_size=n_features))
    )
    scaling = draw(st.sampled_from(["row", "row", None, 1.0, 3.0, 0.07, scales]))
    grid = Grid(n_features, bits, intercept, scaling)
    one = any_rows(n_features, most=900) if grid.normalises else ball_rows(n_features, bits, scaling or 1.0)
    return grid, draw(st.lists(one, min_size=1, max_size=6))


@given(grids_and_rows())
def test_rows_land_where_the_oracle_puts_them(case):
    grid, rows = case
    assert_on_grid(rows, grid)


@given(grids_and_rows(), st.randoms(use_true_random=False))
def test_each_row_depends_on_itself_alone(case, random):
    grid, rows = case
    together = to_grid(np.array(rows), grid)
    order = list(range(len(rows)))
    random.shuffle(order)
    assert (to_grid(np.array([rows[i] for i in order]), grid) == together[order]).all()
    for row, g in zip(rows, together, strict=True):
        assert (to_grid(np.array([row]), grid)[0] == g).all()


@given(grids_and_rows())
def test_type_order_strides_and_container_do_not_matter(case):
    grid, rows = case
    with np.errstate(over="ignore"):
        X = np.array(rows, dtype=np.float32).astype(np.float64)  # numbers that both types hold
    X[~np.isfinite(X)] = 1.0
    if count_outside_ball(X, grid):
        X = X / 2.0
    expected = assert_on_grid(X, grid)
    wide = np.full((2 * len(X), 3 * X.shape[1]), np.nan)
    wide[::2, 1::3] = X
    backwards = X[::-1].copy()[::-1]
    for variant in (X.astype(np.float32), np.asfortranarray(X), wide[::2, 1::3], backwards, X.astype(">f8")):
        assert (to_grid(variant, grid) == expected).all()
    everything = np.arange(len(X))
    assert (dense_rows(RawRows(csr_array(X), grid).take(everything), grid) == expected).all()
    assert (RawRows(np.asfortranarray(X), grid).take(everything[::-1]) == expected[::-1]).all()


# -- ties of rounding --------------------------------------------------------------------------------------------


def rows_of_norm(norm, count=12):
    """Integer rows of five coordinates, four of them odd, whose norm is this power of two."""
    found = []
    odd = range(1, norm, 2)
    for a, b, c in itertools.combinations(odd, 3):
        rest = norm**2 - a * a - b * b - c * c
        for d in range(1, math.isqrt(max(rest, 0)) + 1, 2):
            e = math.isqrt(rest - d * d)
            if e * e == rest - d * d:
                found.append((a, -b, c, d, e))
                if len(found) == count:
                    return found
    return found


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bits", BITS)
def test_halves_of_a_normalised_row_go_to_even(bits, intercept):
    grid = Grid(5, bits, intercept)
    twos = (grid.reach & -grid.reach).bit_length() - 1
    rows = [r for r in rows_of_norm(2 ** (twos + 1)) if r]
    if twos >= 2:  # a smaller norm has no such rows
        assert rows
        halves = [Fraction(grid.reach * v, 2 ** (twos + 1)) for row in rows for v in row]
        assert any(h.denominator == 2 and math.floor(abs(h)) % 2 == 0 for h in halves)
        assert any(h.denominator == 2 and math.floor(abs(h)) % 2 == 1 for h in halves)
    X = np.array(rows, dtype=np.float64).reshape(-1, 5)
    for shifted in (X, np.ldexp(X, -1060), np.ldexp(X, 1000)):
        assert_on_grid(shifted, grid)
    # One unit in the last place away from the tie, on either side and in any coordinate.
    for j in range(5):
        for direction in (-np.inf, np.inf):
            Z = X.copy()
            Z[:, j] = np.nextafter(Z[:, j], direction)
            assert_on_grid(Z, grid)


@pytest.mark.parametrize("scaling", [None, 4.0, 0.75])
@pytest.mark.parametrize("bits", BITS)
def test_halves_without_normalising_go_to_even(bits, scaling):
    for intercept in (False, True):
        grid = Grid(2, bits, intercept, scaling)
        k = np.arange(-7.5, 8.0)
        X = np.column_stack([k, k[::-1]]) / grid.unit * (scaling or 1.0)
        X = np.concatenate([X, np.nextafter(X, np.inf), np.nextafter(X, -np.inf)])
        X = X[np.abs(X).max(axis=1) <= 0.7 * (scaling or 1.0)]
        assert_on_grid(X, grid)


# -- staying in the ball -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bits", BITS)
def test_no_row_leaves_the_ball(bits, intercept):
    rng = np.random.default_rng(bits)
    for n_features in (1, 2, 3, 4, 7, 16, 50):
        for scaling in ("row", None):
            try:
                grid = Grid(n_features, bits, intercept, scaling)
            except ConfigurationError:
                assert bits < 8
                continue
            X = rng.standard_normal((20, n_features))
            X[::4] = np.sign(X[::4])  # all coordinates alike: rounding pulls them all one way
            X[1::4] = np.round(X[1::4])
            X[2, 1:] = 0.0
            norm = np.linalg.norm(X, axis=1, keepdims=True)
            X = np.divide(X, norm, out=np.zeros_like(X), where=norm > 0)
            if scaling is None:
                # as long as a row may be: one grid step beyond the unit ball, less what float64 rounds
                X = np.concatenate([X, X * (1 + 2.0**-bits) * (1 - 1e-14), X * (1 - 2.0**-bits)])
            assert count_outside_ball(X, grid) == 0
            assert_on_grid(X, grid)


@pytest.mark.parametrize(("n_features", "bits"), [(5000, 9), (5000, 15), (300, 8)])
def test_many_equal_features_stay_in_the_ball(n_features, bits):
    for scaling in ("row", None):
        grid = Grid(n_features, bits, True, scaling)
        X = np.full((1, n_features), n_features**-0.5)
        assert_on_grid(X, grid)


def test_as_many_features_as_fit_and_one_too_many():
    for bits in (4, 5, 6):
        fits = [d for d in range(1, 9000) if OracleGrid(d, bits, True).reach >= 1]
        most = max(fits)
        assert Grid(most, bits, True).reach >= 1
        with pytest.raises(ConfigurationError, match="raise grid_bits"):
            Grid(most + 1, bits, True)


@pytest.mark.parametrize("bits", BITS)
def test_the_largest_norm_is_decided_exactly(bits):
    grid = Grid(2, bits, False, None)
    longest = 1.0 + 2.0**-bits
    limit = Fraction(longest) ** 2
    assert count_outside_ball(np.array([[longest, 0.0], [0.0, -longest]]), grid) == 0
    assert count_outside_ball(np.array([[np.nextafter(longest, 2.0), 0.0]]), grid) == 1
    assert count_outside_ball(np.array([[longest, 5e-324]]), grid) == 1  # beyond by 1e-647
    rng = np.random.default_rng(bits)
    angle = rng.uniform(0, 2 * np.pi, 300)
    X = longest * np.column_stack([np.cos(angle), np.sin(angle)])  # on the limit, up to the last bit
    truth = [sum(Fraction(v) ** 2 for v in row) > limit for row in X.tolist()]
    assert 0 < sum(truth) < len(truth)
    assert [count_outside_ball(row[None], grid) for row in X] == truth
    assert count_outside_ball(X, grid) == sum(truth)


def test_rows_far_outside_are_counted_without_a_warning():
    X = np.array([[1e308, 1e308], [1e200, 0.0], [0.5, 0.5], [1e-320, 0.0]])
    for grid in (Grid(2, scaling=None), Grid(2, scaling=2.0)):
        assert count_outside_ball(X, grid) == 2
        assert count_outside_ball(np.array([[1e38, 1e38]], dtype=np.float32), grid) == 1
    assert count_outside_ball(X, Grid(2)) == 0


# -- magnitudes --------------------------------------------------------------------------------------------------


@given(any_rows(3), st.integers(4, 20), st.booleans())
@example((5e-324, 0.0, 0.0), 15, True)
@example((5e-324, -5e-324, 1e-323), 20, False)
@example((1.7976931348623157e308, -1.7976931348623157e308, 1.7976931348623157e308), 15, False)
@example((1.7976931348623157e308, 5e-324, 0.0), 15, False)
@example((-0.0, 0.0, -0.0), 15, False)
@example((2.2250738585072014e-308, 2.225073858507201e-308, 1e-310), 20, True)
def test_magnitude_does_not_matter(row, bits, intercept):
    assert_on_grid([row], Grid(3, bits, intercept))


@pytest.mark.parametrize("shift", [-1074, -1073, -1022, -1000, -537, -150, 0, 127, 128, 511, 1020])
def test_powers_of_two_cancel(shift):
    grid = Grid(4)
    X = np.array([[1.0, 2.0, -3.0, 7.0], [0.0, 0.0, 0.0, 1.0], [4.0, 4.0, 4.0, 4.0]])
    assert (to_grid(np.ldexp(X, shift), grid) == to_grid(X, grid)).all()


def test_a_zero_row_is_zero_and_keeps_its_constant():
    assert to_grid(np.zeros((2, 3)), Grid(3, intercept=False)).tolist() == [[0, 0, 0]] * 2
    assert to_grid(-np.zeros((1, 3)), Grid(3)).tolist() == [[0, 0, 0, 23170]]
    assert to_grid(np.zeros((0, 3)), Grid(3)).shape == (0, 4)


def test_scales_divide_before_the_row_is_normalised():
    X = np.array([[3.0, 400.0], [1.0, 1.0]])
    assert (to_grid(X, Grid(2, scaling=(1.0, 100.0))) == to_grid(X / [1.0, 100.0], Grid(2))).all()
    assert (to_grid(X / 800, Grid(2, scaling=None)) == to_grid(X, Grid(2, scaling=800.0))).all()


@pytest.mark.parametrize("scaling", [1e-300, (1e-300, 1.0)])
def test_overflow_in_scaling_is_refused(scaling):
    grid = Grid(2, scaling=scaling)
    for call in (to_grid, scale_rows, *([] if grid.normalises else [count_outside_ball])):
        with pytest.raises(InputError, match="overflows"):
            call(np.array([[1e10, 0.0]]), grid)


# -- rows as predictions see them --------------------------------------------------------------------------------


@given(grids_and_rows())
def test_scaled_rows_stay_within_slack_of_the_grid(case):
    grid, rows = case
    exact, rounded = scale_rows(np.array(rows), grid), to_grid(np.array(rows), grid)
    apart = np.ldexp(exact * grid.stretch, grid.bits) - rounded[:, : grid.n_features]
    assert (np.linalg.norm(apart, axis=1) <= grid.slack).all()


@given(grids_and_rows())
def test_inputs_are_not_written_to(case):
    grid, rows = case
    X = np.array(rows)
    before = X.copy()
    for call in (to_grid, scale_rows, count_outside_ball):
        call(X, grid)
    assert (X.view(np.int64) == before.view(np.int64)).all()


# -- configuration -----------------------------------------------------------------------------------------------


SCALES = ["column", 0.0, -1.0, math.nan, math.inf, (1.0,), (1.0, 0.0), (1.0, math.inf), (1.0, math.nan)]


@pytest.mark.parametrize(
    ("name", "value"), [("bits", 3), ("bits", 21), ("n_features", 0), *(("scaling", wrong) for wrong in SCALES)]
)
def test_an_impossible_grid_is_refused(name, value):
    with pytest.raises(ConfigurationError):
        Grid(**{"n_features": 2, name: value})


def test_sign_vectors_do_not_land_on_halves():
    """Sign vectors are ordinary data: on the default grid 4, 16, ..., 4,096 of them need no exact arithmetic."""
    for d in (4, 16, 64, 256, 1024, 4096):
        for intercept in (True, False):
            assert (Grid(d, intercept=intercept).reach % math.isqrt(d)) == 0


def test_rows_of_signs_that_are_all_halves():
    """Every coordinate is reach / 10, halfway between integers: all are decided exactly."""
    grid = Grid(100, bits=13)
    assert grid.reach % 10 == 5
    signs = np.where(np.arange(100) % 3 == 0, -1.0, 1.0)
    assert_on_grid(np.stack([signs, -signs, 3.0 * signs]), grid)
