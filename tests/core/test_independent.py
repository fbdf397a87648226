"""Independent selection decides every row as rational arithmetic does, dense or sparse, alone or among others."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from flint import fmpq, fmpq_mat
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.grid import Grid, sparse_rows
from erasable.core.independent import (
    IndependentRule,
    Rarity,
    inverse_moments,
    kept,
    nearest_power,
    root_of_rarity,
    screened,
    tilts_of,
)
from erasable.core.kernels import REACH, Points
from erasable.core.selector import RawRows
from erasable.core.sums import to_float32
from erasable.errors import ConfigurationError
from tests import independent_oracle as oracle

D, BITS = 4, 12
GRID = Grid(D, BITS, True, "row")


def grid_rows(features):
    """Dense grid rows with the intercept's constant."""
    G = np.full((len(features), GRID.n_columns), GRID.constant, dtype=GRID.dtype)
    G[:, :D] = features
    return G


def matrices():
    entries = st.lists(st.integers(-40, 40), min_size=D * D, max_size=D * D)

    def built(values):
        A = np.array(values, dtype=np.float64).reshape(D, D) / 8
        return (A @ A.T / (1 + (A * A).sum()) + np.eye(D) / 64).astype(np.float32).tobytes()

    return entries.map(built)


rarities = st.one_of(
    st.just(Rarity()),
    st.lists(st.integers(-12, 3), min_size=D, max_size=D).map(lambda e: Rarity(tuple(e))),
    matrices().map(lambda W: Rarity(matrix=W)),
)
features = st.lists(st.lists(st.integers(-700, 700), min_size=D, max_size=D), min_size=1, max_size=12)
slopes = st.one_of(st.floats(1e-4, 100.0), st.sampled_from([0.125, 1.0, 2.0**-7]))


def matrix(r):
    return None if r.matrix is None else r.weights


def moments(r):
    return None if r.exponents is None else [Fraction(2) ** e for e in r.exponents]


def tied(g, tilt, slope, r):
    """The hash at which this row is not kept any more, and the one before it."""
    limit = 2**64 * min(Fraction(1), Fraction(slope) * oracle.rarity(g, BITS, moments(r), matrix(r))) * Fraction(tilt)
    return [h for h in (math.ceil(limit), math.ceil(limit) - 1, math.floor(limit)) if 0 <= h < 2**64]


@given(features, rarities, slopes, st.data())
def test_every_row_is_decided_as_in_rational_arithmetic(rows, r, slope, data):
    n = len(rows)
    tilts = np.array(data.draw(st.lists(st.sampled_from([1.0, 0.5, 0.3, 2.0**-9]), min_size=n, max_size=n)))
    hashes = [
        data.draw(st.sampled_from([*tied(g, t, slope, r), 0, 2**63, 2**64 - 1]) | st.integers(0, 2**64 - 1))
        for g, t in zip(rows, tilts, strict=True)
    ]
    expected = [
        oracle.keeps(g, h, t, slope, BITS, moments(r), matrix(r)) for g, h, t in zip(rows, hashes, tilts, strict=True)
    ]
    drawn, dense = np.array(hashes, dtype=np.uint64), grid_rows(rows)
    found, decisions = kept(dense, drawn, tilts, r, slope, GRID)
    assert found.tolist() == expected
    assert decisions.certified + decisions.exact == n
    sparse = sparse_rows(dense, GRID)
    assert sp.issparse(sparse)
    assert kept(sparse, drawn, tilts, r, slope, GRID)[0].tolist() == expected
    for i in range(n):  # alone as among others
        assert kept(dense[[i]], drawn[[i]], tilts[[i]], r, slope, GRID)[0].tolist() == [expected[i]]


@pytest.mark.parametrize(
    "r", [Rarity(), Rarity((-2, -7, 0, 3)), Rarity(matrix=np.diag([0.1, 0.2, 0.02, 0.05]).astype(np.float32).tobytes())]
)
def test_ten_thousand_rows_are_decided_as_in_rational_arithmetic(r):
    rng = np.random.default_rng(0)
    rows = rng.integers(-700, 700, size=(10_000, D))
    hashes = rng.integers(0, 2**64, size=len(rows), dtype=np.uint64)
    hashes[::5] = [tied(g, 0.5, 0.7, r)[0] for g in rows[::5]]
    found, decisions = kept(grid_rows(rows), hashes, 0.5, r, 0.7, GRID)
    expected = [oracle.keeps(g, h, 0.5, 0.7, BITS, moments(r), matrix(r)) for g, h in zip(rows, hashes, strict=True)]
    assert found.tolist() == expected
    assert 2_000 <= decisions.exact < 2_100  # the ties, and hardly anything else
    assert 0.1 < found.mean() < 0.9


def test_points_are_decided_as_in_rational_arithmetic_up_to_the_longest():
    rng, r = np.random.default_rng(1), Rarity((-2, 9, 0, 20))
    rows = rng.integers(-REACH // 2, REACH // 2, size=(2_000, D), dtype=np.int32) >> rng.integers(
        0, 24, size=(2_000, 1)
    )
    rows[0] = REACH, 0, 0, 0
    rule = IndependentRule(0.7, 0, r, 64.0)
    hashes = rng.integers(0, 2**64, size=len(rows), dtype=np.uint64)
    hashes[::5] = [tied(g, 1.0, rule.slope, r)[0] for g in rows[::5]]
    found, decisions = rule.decided(rows, Points(D, BITS), hashes, np.zeros(len(rows)))
    expected = [oracle.keeps(g, h, 1.0, rule.slope, BITS, moments(r), None) for g, h in zip(rows, hashes, strict=True)]
    assert found.tolist() == expected
    assert decisions.screened == 0
    assert 0.1 < found.mean() < 0.9


def test_a_class_that_is_rare_is_kept_more_and_the_number_of_rows_stays():
    shares = (0.875, 0.125)
    for balance in (0.0, 0.5, 1.0):
        tilts, c = tilts_of(shares, balance)
        assert max(tilts) == 1.0
        assert sum(s * t for s, t in zip(shares, tilts, strict=True)) * c == pytest.approx(1.0)
        assert tilts[0] == pytest.approx((0.125 / 0.875) ** balance)


@given(matrices())
def test_the_inverse_of_public_moments_is_correctly_rounded(written):
    S = np.frombuffer(written, dtype=np.float32).astype(np.float64).reshape(D, D)
    W = inverse_moments(S)
    units = int(sum(map(Fraction, S.diagonal().tolist())) * 2**30 / D)
    exact = fmpq_mat(D, D, [fmpq(int(v), 1) for v in np.rint(S * 2**40).ravel()]) + units * fmpq_mat(
        D, D, [fmpq(int(i == j), 1) for i in range(D) for j in range(D)]
    )
    inverse = exact.inv()
    for i in range(D):
        for j in range(D):
            value = Fraction(int(inverse[i, j].p), int(inverse[i, j].q)) * 2**40
            assert W[i, j] == to_float32(value)


@pytest.mark.parametrize("entries", [(1.0, 0.0, -0.1), (0.1, 0.5, 0.1), (2.0, 0.0, 2.0), (0.0, 0.0, 0.0)])
def test_a_matrix_that_cannot_be_second_moments_is_refused(entries):
    S = np.array([[entries[0], entries[1]], [entries[1], entries[2]]])
    for refused in (lambda: inverse_moments(S), lambda: Rarity(matrix=S.astype("<f4").tobytes())):
        with pytest.raises(ConfigurationError, match="positive semidefinite"):
            refused()


@pytest.mark.parametrize("other", [0.0, math.nan, math.inf])
def test_a_matrix_that_is_not_symmetric_or_not_finite_is_refused(other):
    S = np.array([[0.5, 0.25], [other, 0.5]], dtype="<f4")
    with pytest.raises(ConfigurationError, match="positive semidefinite"):
        Rarity(matrix=S.tobytes())


@given(st.floats(1e-20, 1e5))
def test_a_moment_is_rounded_to_the_nearest_power_of_two(moment):
    e = nearest_power(moment)
    assert Fraction(2) ** (2 * e - 1) <= Fraction(moment) ** 2 * (1 + Fraction(1, 2**50))
    assert Fraction(moment) ** 2 <= Fraction(2) ** (2 * e + 1) * (1 + Fraction(1, 2**50))


def test_moments_that_no_grid_could_have_are_refused():
    with pytest.raises(ConfigurationError, match="public second moment must lie between"):
        Rarity((0, 21))


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
@given(st.data(), st.sampled_from(["row", 3.0, (1.0, 0.5, 2.0, 8.0)]), st.sampled_from([6, 12, 15]), st.booleans())
def test_what_is_sure_before_the_grid_is_what_the_grid_decides(container, data, scaling, bits, intercept):
    grid = Grid(D, bits, intercept, scaling)
    numbers = st.floats(-1.0, 1.0, width=32) | st.sampled_from([0.0, 1e-30, 1e-12, 0.5])
    X = np.array(data.draw(st.lists(st.lists(numbers, min_size=D, max_size=D), min_size=1, max_size=8)))
    r = Rarity(tuple(data.draw(st.lists(st.integers(-14, 3), min_size=D, max_size=D))))
    slope, rows = data.draw(slopes), RawRows(container(X), grid)
    G = RawRows(X, grid).take(np.arange(len(X)))
    limits = [2**64 * min(1, Fraction(slope) * r.exact(g[:D].astype(np.int64), grid)) for g in G]
    near = [
        data.draw(
            st.sampled_from([math.floor(v), math.ceil(v) - 1, v // 2, v * 2]).map(
                lambda h: min(max(int(h), 0), 2**64 - 1)
            )
        )
        for v in limits
    ]
    hashes = np.array(near, dtype=np.uint64)
    expected, _ = kept(G, hashes, 1.0, r, slope, grid)
    sure, is_open = screened(root_of_rarity(rows, 0, len(X), r), hashes, 1.0, r, slope, grid)
    assert not (sure & is_open).any()
    assert (expected[~is_open] == sure[~is_open]).all()
