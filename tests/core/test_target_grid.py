"""Targets as integers: bounded, nearest, and exact in their sums."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.grid import Grid, to_grid
from erasable.core.target_grid import centre_of, check_range, off_grid, on_grid, outside, span_of, sums_by_target
from erasable.errors import ConfigurationError
from tests.regressions import RANGES


@given(st.sampled_from(RANGES), st.sampled_from([4, 12, 15, 20]), st.data())
def test_a_target_is_the_nearest_point_of_its_grid_within_rounding(ends, bits, data):
    grid = Grid(2, bits)
    y = data.draw(st.lists(st.one_of(st.floats(*ends), st.sampled_from(ends)), min_size=1))
    t = on_grid(np.array(y)[:, None], [ends], grid)
    assert t.dtype == grid.dtype
    assert np.abs(t).max() <= grid.radius
    low, high = map(Fraction, ends)
    if high - low < abs(low) / 2**30:  # neighbours among float64 numbers have no middle
        return
    for value, found in zip(y, t[:, 0].tolist(), strict=True):
        exact = (2 * Fraction(value) - low - high) / (high - low) * grid.radius
        assert abs(exact - found) <= Fraction(1, 2) + Fraction(1, 2**10)


def test_the_ends_and_the_middle_are_points():
    grid = Grid(3, 15)
    y = np.array([[0.0], [200.0], [400.0]])
    t = on_grid(y, [(0.0, 400.0)], grid)
    assert t[:, 0].tolist() == [-32767, 0, 32767]
    assert [off_grid(v, (0.0, 400.0), grid) for v in t[:, 0].tolist()] == y[:, 0].tolist()
    assert centre_of((0.0, 400.0)) == 200.0
    assert span_of((0.0, 400.0), grid) * 32767 / 32768 == pytest.approx(200.0)


def test_what_is_outside_is_counted():
    y = np.array([[0.0, 5.0], [1.0, np.nan], [1.1, np.inf], [-0.1, 6.0]])
    assert outside(y, [(0.0, 1.0), (5.0, 6.0)]) == 4


@pytest.mark.parametrize("ends", [(1.0, 1.0), (2.0, 1.0), (0.0, np.inf), (np.nan, 1.0), (-1e301, 0.0), (0.0, 5e-324)])
def test_what_is_no_range_is_refused(ends):
    with pytest.raises(ConfigurationError, match="target range"):
        check_range(ends)


@pytest.mark.parametrize("intercept", [True, False])
def test_sums_are_those_of_integers_for_dense_and_sparse_rows(intercept):
    rng = np.random.default_rng(0)
    grid = Grid(20, 20, intercept)
    X = rng.standard_normal((40, 20)) * (rng.random((40, 20)) < 0.2)
    T = rng.integers(-grid.radius, grid.radius + 1, (40, 3))
    rows = to_grid(X, grid)
    right = T.astype(object).T @ rows.astype(object)
    for some in (rows, sp.csr_array(rows[:, :20])):
        found = sums_by_target(some, [tuple(t) for t in T.tolist()], grid)
        assert [[int(v) for v in found[k]] for k in range(3)] == right.tolist()
    assert sums_by_target(rows[:0], [], grid) == {}
