"""The oracle itself, against arithmetic that can be checked by eye or by another route."""

from __future__ import annotations

import struct
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.oracle import (
    CoreRow,
    GrowingInverse,
    OracleGrid,
    OracleModel,
    float32_bits,
    gram_matrix,
    leverage,
    normalised,
    select,
    solve,
)


def test_a_row_by_hand():
    # reach 100, row (3, -4) / 5
    assert normalised([3.0, -4.0], 100) == [60, -80]
    # 100 / sqrt(2) = 70.71
    assert normalised([1e-300, 1e-300], 100) == [71, 71]
    # 16 * 1 / 32 and 16 * 31 / 32: halves go to the even neighbour
    assert normalised([1.0, 31.0, 7.0, 3.0, 2.0], 16) == [0, 16, 4, 2, 1]


def test_the_radii_by_hand():
    grid = OracleGrid(3, bits=4, intercept=True)
    assert (grid.radius, grid.constant, grid.ball) == (
        15,
        11,
        10,
    )  # 11 = floor(16 / 1.414), 10 = floor(sqrt(225 - 121))
    assert grid.reach == 10 - 1 - 1
    assert OracleGrid(3, bits=15, intercept=False).reach == 32704  # 32767 - 1 - 1 down to a multiple of 64
    assert OracleGrid(3, bits=4, intercept=False, scaling=None).put([0.5, 0.0, -0.25]) == (8, 0, -4)


def test_a_leverage_by_hand():
    H = gram_matrix([(1, 1)], units=1, d=2)  # [[2, 1], [1, 2]], inverse [[2, -1], [-1, 2]] / 3
    assert leverage(H, (1, 0)) == Fraction(2, 3)
    assert leverage(H, (1, -1)) == 2
    assert solve(H, (0, 3)) == [-1, 2]
    assert select([(1, 0), (1, -1)], H, tau=0.7) == [1]


small = st.integers(-9, 9)


@given(
    st.integers(1, 4).flatmap(lambda d: st.lists(st.tuples(*[small] * d), min_size=1, max_size=6)), st.integers(1, 9)
)
def test_solutions_solve_and_the_growing_inverse_agrees(rows, units):
    d = len(rows[0])
    H, inverse = gram_matrix([], units, d), GrowingInverse(d, units)
    for g in rows:
        z = solve(H, g)
        assert [sum(a * b for a, b in zip(row, z, strict=True)) for row in H] == list(g)
        assert inverse.leverage(g) == leverage(H, g)
        assert inverse.take_if_above(g, 0.25) == bool(select([g], H, 0.25))


@given(st.floats(-(2.0**100), 2.0**100, width=32))
def test_float32_numbers_round_to_themselves(x):
    expected = struct.unpack("<I", struct.pack("<f", x + 0.0))[0]
    assert float32_bits(Fraction(x)) == expected % 2**32 or x == 0.0


@given(st.floats(-1e30, 1e30))
def test_float64_numbers_round_as_the_machine_rounds_them(x):
    expected = struct.unpack("<I", struct.pack("<f", x))[0]
    assert float32_bits(Fraction(x)) == (0 if expected == 2**31 else expected)


@pytest.mark.parametrize(
    ("value", "bits"),
    [
        (Fraction(2**24 + 1), 0x4B800000),  # halfway, down to even
        (Fraction(2**24 + 3), 0x4B800002),  # halfway, up to even
        (Fraction(2**25 + 2) + Fraction(1, 2**200), 0x4C000001),
        (Fraction(1, 2**150), 0),  # half of the smallest number
        (Fraction(-1, 2**150), 0),
        (Fraction(-3, 2**150), 0x80000002),
        (Fraction(1, 2**150) + Fraction(1, 2**400), 1),
        (1 - Fraction(1, 2**30), 0x3F800000),  # carries into the exponent
        (Fraction(2**23 - 1, 2**149) + Fraction(1, 2**150), 0x00800000),  # from subnormal to normal
    ],
)
def test_rounding_to_float32_by_hand(value, bits):
    assert float32_bits(value) == bits


def test_a_model_by_hand():
    model = OracleModel.of(2, threshold=0.3, capacity=1.0, bits=4, intercept=False, scaling=None, order_key=None)
    model.learn([(0.5, 0.0), (0.75, 0.0), (0.0, 0.875), (0.875, 0.0)], ["a", "b", "a", "b"], [1, 2, 3, 4])
    # lambda 256; leverages 64/256, 144/256, 196/256, 196/(256 + 144) = 0.49
    assert model.ids == [2, 3, 4]
    assert model.gram == [144 + 196, 0, 196]
    assert model.class_sums == [[0, 14], [26, 0]]
    assert model.targets == [[26, -14]]
    assert model.weight_bits == [[float32_bits(Fraction(16 * 26, 596)), float32_bits(Fraction(-16 * 14, 452))]]
    model.forget(ids=[2, 99])
    assert model.core == [CoreRow(3, None, "a", (0, 14)), CoreRow(4, None, "b", (14, 0))]
    model.forget(ids=[4])
    assert model.classes == ("a",)
    assert model.targets == [[0, 14]]
    model.forget(ids=[3])
    assert (model.classes, model.weight_bits) == ((), [[0, 0]])
