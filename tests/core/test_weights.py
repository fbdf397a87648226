"""Weights are the rational solution, rounded once to float32: at halfway points, at zero and with a hopeless matrix."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import erasable.core.sums as weights
from erasable.core.grid import Grid
from erasable.core.sums import add_rows, empty_gram, solve_weights, symmetric, to_float32
from tests.oracle import float32_bits, solve


def bits_of(W):
    return W.view(np.uint32).tolist()


def expected_bits(H, B, bits):
    exact = symmetric(H).tolist()
    columns = np.asarray(B).T.astype(np.int64).tolist()
    return [[float32_bits(2**bits * z) for z in solve(exact, column)] for column in columns]


def assert_rounded(H, B, grid, units):
    H = np.asfortranarray(H, dtype=np.float64)
    W = solve_weights(H, np.asarray(B, dtype=np.float64), grid.bits, units)
    assert W.dtype == np.float32
    assert W.flags.c_contiguous
    assert bits_of(W) == expected_bits(H, B, grid.bits)
    return W


@st.composite
def systems(draw):
    bits, d, k = draw(st.sampled_from([4, 15, 20])), draw(st.integers(1, 5)), draw(st.sampled_from([1, 2, 3, 6]))
    size = 2 ** draw(st.integers(0, bits)) - 1
    rows = draw(st.lists(st.lists(st.integers(-size, size), min_size=d, max_size=d), max_size=6))
    copies = draw(st.sampled_from([1, 1, 2, 50]))
    units = draw(st.one_of(st.just(4**bits), st.integers(1, 9), st.integers(1, 2**45)))
    grid = Grid(d, bits, False)
    H = empty_gram(grid, units)
    for _ in range(copies):
        add_rows(H, np.array(rows, dtype=np.float64).reshape(-1, d))
    top = 2 ** draw(st.integers(0, 30))
    B = draw(st.lists(st.lists(st.integers(-top, top), min_size=k, max_size=k), min_size=d, max_size=d))
    return H, np.array(B), grid, units


@given(systems())
def test_weights_are_the_rounded_rational_solution(system):
    assert_rounded(*system)


@given(systems())
def test_weights_do_not_depend_on_the_factor(system):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "factorise", lambda H: None)
        assert_rounded(*system)


@given(systems(), st.sampled_from([1.0, 0.9, 1e-9]))
def test_weights_are_the_same_by_a_factor_in_float32_of_any_quality(system, stretch):
    coarse, used = weights._coarse_factor, []

    def stretched(*of):
        L = coarse(*of)
        used.append(L)
        return None if L is None else np.asfortranarray(L * np.float32(stretch))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "_SMALL", 0)
        patch.setattr(weights, "_WELL_CONDITIONED", np.inf)
        patch.setattr(weights, "_coarse_factor", stretched)
        W = assert_rounded(*system)
    assert used or not W.any()
    assert all(L is None or L.dtype == np.float32 for L in used)


@given(systems(), st.sampled_from([0.5, 0.9, 1.1, 2.0]))
def test_weights_do_not_depend_on_the_quality_of_the_factor(system, stretch):
    factorise = weights.factorise

    def stretched(H):
        L = factorise(H)
        return None if L is None else np.asfortranarray(L * stretch)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(weights, "factorise", stretched)
        assert_rounded(*system)


# -- halfway between two float32 numbers -------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("odd", [2**24 + 1, 2**24 + 3, 2**25 - 1, 2**24 + 12345])
def test_a_number_exactly_halfway_goes_to_even(odd, sign):
    assert (odd.bit_length(), odd % 2) == (25, 1)  # halfway between two floats of 24 significant bits
    grid, units = Grid(1, 15, False), 2**30
    W = assert_rounded([[units]], [[sign * odd]], grid, units)
    assert Fraction(float(W[0, 0])) != Fraction(sign * odd, 2**15)
    assert bits_of(W)[0][0] % 2 == 0


@pytest.mark.parametrize("odd", [2**24 + 1, 2**24 + 3])
def test_a_halfway_point_beside_a_third_needs_rationals(odd):
    """The second coordinate is no binary fraction, so the residual of their common column never vanishes."""
    grid, units = Grid(2, 15, False), 3 * 2**20
    assert_rounded(np.diag([units, units]), [[3 * odd], [1]], grid, units)
    H = np.array([[3 * 2**20, 0.0], [0.0, 7 * 2**20]])
    assert_rounded(H, [[3 * odd, 5], [1, 7 * odd]], grid, units)


@pytest.mark.parametrize("side", [1, -1])
@pytest.mark.parametrize("odd", [2**24 + 1, 2**24 + 3, 2**25 - 1])
@pytest.mark.parametrize("k", [35, 45, 50])
def test_a_number_next_to_a_halfway_point_goes_to_its_side(odd, side, k):
    """``B / D = odd / 2**k + side / (D 2**k)``: off the halfway point by one part in 2**75 at k = 50."""
    B = side * pow(pow(2, k, odd), -1, odd) % odd
    D, rest = divmod(B * 2**k - side, odd)
    assert rest == 0
    assert 0 < D < 2**53
    grid = Grid(1, 15, False)
    W = assert_rounded([[D]], [[B]], grid, D)
    assert (Fraction(float(W[0, 0])) > 2**15 * Fraction(B, D)) == (
        Fraction(float(W[0, 0])) > 2**15 * Fraction(odd, 2**k)
    )
    assert_rounded(np.diag([D, D, D]), [[B], [-B], [1]], grid, D)
    # The same number where coordinates are linked and lambda is far below the matrix.
    c = 2**20
    linked = np.array([[D + c, c], [c, D + c]])
    assert_rounded(linked, [[B], [-B]], grid, D)


# -- zero and next to it -----------------------------------------------------------------------------------------


def test_zeros_are_exact_and_positive():
    grid, units = Grid(3, 15, False), 1000
    H = np.diag([1000.0, 1003.0, 1007.0])
    W = assert_rounded(H, [[-5, 0, 0], [0, 0, -1], [0, 0, 3]], grid, units)
    assert (W[W == 0].view(np.uint32) == 0).all()
    assert bits_of(solve_weights(np.asfortranarray(H), np.zeros((3, 2)), grid.bits, units)) == [[0] * 3] * 2


def test_a_zero_among_linked_coordinates():
    # (2, 1; 1, 2) z = (2, 1): z = (1, 0)
    H = np.array([[2.0, 1.0], [1.0, 2.0]]) * 3
    W = assert_rounded(H, [[2], [1]], Grid(2, 4, False), 3)
    assert bits_of(W)[0][1] == 0
    assert_rounded(H, [[-2], [-1]], Grid(2, 4, False), 3)


def chain(d, diagonal):
    """Each coordinate linked to the next by a one: far entries of the inverse are diagonal**-d, signs alternating."""
    H = np.eye(d) * diagonal
    H[np.arange(d - 1), np.arange(1, d)] = H[np.arange(1, d), np.arange(d - 1)] = 1.0
    return H


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("exponent", [36, 40, 48, 50, 52])
def test_weights_down_to_the_smallest_float32_and_below_it(exponent, sign):
    H = chain(6, 2.0**exponent)
    W = assert_rounded(H, sign * np.eye(6)[:, :1], Grid(6, 15, False), 2**exponent - 2)
    smallest = np.finfo(np.float32).smallest_normal
    assert any(0 < abs(w) < smallest for w in W[0])
    assert (W[W == 0].view(np.uint32) == 0).all()
    assert (W == 0).any()  # underflows, half of them from below


def test_subnormal_halves_through_the_solver():
    rng = np.random.default_rng(0)
    for _ in range(20):
        diagonal = float(rng.integers(2**41, 2**42))
        B = rng.integers(-(2**30), 2**30, (4, 2))
        assert_rounded(chain(4, diagonal), B, Grid(4, 15, False), int(diagonal) - 2)


# -- hopeless matrices -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copies", [1, 100, 4000])
def test_the_smallest_capacity(copies):
    """lambda is one squared grid step beside thousands of long rows: condition numbers up to 2**53."""
    grid = Grid(3, 20, False)
    long = np.array([[500_001, -400_003, 300_007]])
    H = empty_gram(grid, 1)
    add_rows(H, np.repeat(long, copies, axis=0))
    for B in ([[5], [7], [-9]], [[500_001], [-400_003], [300_007]], [[2**30], [0], [1]]):
        assert_rounded(H, B, grid, 1)


def test_rank_one_and_nothing_else():
    grid = Grid(4, 15, False)
    H = empty_gram(grid, 1)
    add_rows(H, np.array([[32767, 0, 0, 0]] * 5 + [[0, 0, 0, 1]]))
    assert_rounded(H, [[32767 * 5], [0], [3], [1]], grid, 1)


# -- rounding a rational -----------------------------------------------------------------------------------------

fractions = st.builds(
    lambda m, e, tiny, s: (Fraction(m) + Fraction(tiny, 2**90)) * Fraction(2) ** e * s,
    st.integers(0, 2**26),
    st.integers(-180, 90),
    st.sampled_from([0, 0, 1, -1]),
    st.sampled_from([1, -1]),
)


@given(st.one_of(fractions, st.fractions()))
def test_a_rational_rounds_to_the_nearest_float32(value):
    rounded = np.atleast_1d(to_float32(value)) + np.float32(0.0)
    assert int(rounded.view(np.uint32)[0]) == float32_bits(value)
