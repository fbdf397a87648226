"""Errors of leverages of sparse rows stay within their bounds; the truth is computed in rationals."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.grid import Grid, dense_rows, sparse_rows, to_grid
from erasable.core.sparse_leverage import frequent_columns, invert, may_exceed, sparse_gram_error, split
from erasable.core.sums import add_rows, empty_gram, sums_by_class, symmetric
from tests import oracle


def some_rows(n, d, density, seed):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, d)) * (rng.random((n, d)) < density)


def learnt(rows, grid, units):
    H = empty_gram(grid, units)
    add_rows(H, rows, 1.0, grid)
    return H


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bits", [15, 20])
@pytest.mark.parametrize("units", [7, 2**20, 2**30])
def test_leverages_and_products_are_within_their_bounds(bits, intercept, units):
    grid = Grid(12, bits, intercept)
    core, asked = (to_grid(sp.csr_array(some_rows(n, 12, 0.3, bits + n)), grid) for n in (40, 25))
    H = learnt(core, grid, units)
    inverse = invert(H, units)
    if inverse is None:  # float64 is too coarse
        assert units == 7
        return
    exact = symmetric(H).tolist()
    G = dense_rows(asked, grid).tolist()
    solved = [oracle.solve(exact, g) for g in G]
    K = [[sum((a * b for a, b in zip(g, z, strict=True)), Fraction(0)) for z in solved] for g in G]
    for columns in (None, np.arange(grid.n_columns), np.array([grid.n_columns - 1])):
        rows = split(asked, grid, columns)
        reach, q = inverse.reach(rows), inverse.leverages(rows)
        found = rows.times(inverse.products(rows))
        for i in range(len(G)):
            error = abs(Fraction(q[i]) - K[i][i])
            assert error <= inverse.error * K[i][i] + Fraction(inverse.rounding(reach[i] ** 2))
            for j in range(len(G)):
                error = abs(Fraction(found[i, j]) - K[i][j])
                # Relative in the sense of quadratic forms: by Cauchy and Schwarz for a pair of rows.
                limit = inverse.error * float(K[i][i] * K[j][j]) ** 0.5 + inverse.rounding(reach[i] * reach[j])
                assert error <= limit
        assert (np.diag(found) >= q * (1 - 1e-6) - 1e-12).all()


@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-12]))
def test_a_row_just_above_the_threshold_may_exceed_it(seed, below):
    grid, units = Grid(6), 2**28
    core, asked = (to_grid(sp.csr_array(some_rows(n, 6, 0.5, seed + n)), grid) for n in (9, 4))
    H = learnt(core, grid, units)
    inverse = invert(H, units)
    exact = symmetric(H).tolist()
    for i, g in enumerate(dense_rows(asked, grid).tolist()):
        q = oracle.leverage(exact, g)
        tau = float(q) * (1 - below)
        assert Fraction(tau) < q
        assert may_exceed(asked, inverse, grid, tau)[i]
        assert not may_exceed(asked, inverse, grid, float(q) * 1.001)[i]


def test_the_inverse_is_symmetric_and_its_residual_is_on_the_left():
    grid = Grid(300)
    H = learnt(to_grid(sp.csr_array(some_rows(500, 300, 0.05, 1)), grid), grid, 2**20)
    inverse = invert(H, 2**20)
    assert (inverse.A == inverse.A.T).all()
    assert np.abs(inverse.A @ symmetric(H).astype(float) - np.eye(301)).max() < 1e-9
    assert 0 < inverse.error < 1e-6


def test_bounds_grow_with_what_they_depend_on():
    grid = Grid(3)
    inverse = invert(empty_gram(grid, 2**30), 2**30)
    assert 0 < sparse_gram_error(inverse, 1.0, 1.0, 4) < 1e-12
    assert sparse_gram_error(inverse, 1e10, 1.0, 4) > 1e-5
    assert sparse_gram_error(inverse, 1.0, 1e12, 4) > 1e-4
    assert invert(learnt(sparse_rows(np.full((60_000, 4), 16000), grid), grid, 1), 1) is None


def test_columns_that_many_rows_hold_are_dense():
    X = np.zeros((100, 5))
    X[:, 1], X[:3, 2], X[:50, 4] = 1.0, 1.0, 1.0
    grid = Grid(5)
    rows = to_grid(sp.csr_array(X), grid)
    assert frequent_columns(rows, grid).tolist() == [1, 4, 5]
    parts = split(rows, grid)
    assert parts.rest.nnz == 3
    assert (parts.dense[:, -1] == grid.constant).all()


# -- sums ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([15, 20]), st.booleans())
def test_sums_of_sparse_rows_are_those_of_dense_ones(seed, bits, intercept):
    grid = Grid(4, bits, intercept, None)
    G = to_grid(some_rows(30, 4, 0.4, seed) * 0.2, grid)
    G[:2, : grid.n_features] = [grid.ball, 0, 0, 0]  # products and sums that int16 and int32 cannot hold
    S = sparse_rows(G, grid)
    dense, sparse = learnt(G, grid, 5), learnt(S, grid, 5)
    assert (symmetric(dense) == symmetric(sparse)).all()
    assert symmetric(sparse).tolist() == oracle.gram_matrix(G.tolist(), 5, grid.n_columns)
    add_rows(sparse, S[:20], -1.0, grid)
    add_rows(sparse, S[20:], -1.0, grid)
    assert (symmetric(sparse) == 5 * np.eye(grid.n_columns)).all()
    labels = [i % 3 for i in range(30)]
    of_dense, of_sparse = sums_by_class(G, labels), sums_by_class(S, labels, grid)
    assert {c: v.tolist() for c, v in of_dense.items()} == {c: v.tolist() for c, v in of_sparse.items()}
