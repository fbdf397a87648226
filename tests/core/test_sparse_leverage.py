"""Errors of leverages of sparse rows stay within their bounds; the truth is computed in rationals."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import erasable.core.split_rows as split_rows
from erasable.core.grid import Grid, dense_rows, sparse_rows, to_grid
from erasable.core.sparse_deciding import enclosed_leverage, invert, may_exceed, sparse_gram_error
from erasable.core.split_rows import frequent_columns, split
from erasable.core.sums import add_rows, empty_gram, factorise, sums_by_class, symmetric
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
        found = rows.times(np.ascontiguousarray(inverse.products(rows).T))
        for i in range(len(G)):
            error = abs(Fraction(q[i]) - K[i][i])
            assert error <= inverse.error * K[i][i] + Fraction(inverse.rounding(reach[i] ** 2))
            for j in range(len(G)):
                error = abs(Fraction(found[i, j]) - K[i][j])
                # Relative in the sense of quadratic forms: by Cauchy and Schwarz for a pair of rows.
                limit = inverse.error * float(K[i][i] * K[j][j]) ** 0.5 + inverse.rounding(reach[i] * reach[j])
                assert error <= limit
        assert (np.diag(found) >= q * (1 - 1e-6) - 1e-12).all()
        coarse = split(asked, grid, columns, np.float32)
        assert coarse.dense.dtype == coarse.rest.dtype == np.float32
        for i, value in enumerate(inverse.leverages(coarse).tolist()):
            limit = inverse.error * K[i][i] + Fraction(inverse.rounding(reach[i] ** 2, coarse.entries))
            assert abs(Fraction(value) - K[i][i]) <= limit


@pytest.mark.parametrize("kind", ["any", "copies", "lengths"])
@pytest.mark.parametrize("units", [2**8, 2**30])
def test_how_far_rows_reach_is_bounded_by_their_leverage(kind, units):
    grid = Grid(4, 15, True, None)
    H = learnt(to_grid(sp.csr_array(nasty_rows(kind, 30, np.random.default_rng(3))), grid), grid, units)
    H[np.triu_indices(5, 1)] = np.nan  # unspecified
    inverse = invert(H, units)
    limit = farthest(inverse, symmetric(H).tolist())
    assert limit <= inverse.farthest * (1 + 1e-12)
    assert inverse.farthest <= 10 * limit  # the bound is not an empty one


@given(st.integers(0, 10**6), st.sampled_from([1e-9, 1e-12]), st.sampled_from([0, 12]))
def test_a_row_just_above_the_threshold_may_exceed_it(seed, below, short):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_rows, "_SHORT", short)  # with none, columns are frequent, and products are in float32
        assert_may_exceed(seed, below)


def assert_may_exceed(seed, below):
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


# -- a row that is left open ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bits", [15, 20])
@pytest.mark.parametrize("units", [1, 2**12, 2**30])
@pytest.mark.parametrize("later", [0, 1, 9])
def test_any_solution_encloses_the_leverage(bits, intercept, units, later):
    grid, rng = Grid(5, bits, intercept), np.random.default_rng(bits + later)
    core, E, asked = (to_grid(sp.csr_array(some_rows(n, 5, 0.5, bits + n)), grid) for n in (12, later, 6))
    H = learnt(core, grid, units)
    H[np.triu_indices(len(H), 1)] = np.nan  # unspecified
    exact = symmetric(learnt(E, grid, 0) + np.tril(H)).tolist()
    for g in dense_rows(asked, grid):
        q, x = oracle.leverage(exact, g.tolist()), oracle.solve(exact, g.tolist())
        solution = np.array([float(value) for value in x])
        for noise in (0.0, 1e-15, 1e-8, 1e-2, 1.0, 100.0):
            z = solution * (1.0 + noise * rng.standard_normal(len(g)))
            low, high = enclosed_leverage(g.astype(float), z, H, E, grid, units)
            assert Fraction(low) <= q <= Fraction(high)
        low, high = enclosed_leverage(g.astype(float), solution, H, E, grid, units)
        assert units < 2**30 or high - low <= 1e-11 * float(q)  # the bounds are not empty ones


@given(st.integers(0, 10**6), st.integers(0, 40))
def test_a_product_that_cancels_is_rounded_within_the_bound(seed, n):
    """Near copies of one row, and one along which they hardly differ: of products with its solution little is left."""
    grid, units, rng = Grid(4, 20, False, None), 1, np.random.default_rng(seed)
    X = np.array([1.0, -2.0, 3.0, 0.5]) / 4.0 + 1e-3 * rng.standard_normal((41, 4))
    X[40] = 1e-3 * rng.standard_normal(4)
    G = to_grid(sp.csr_array(X), grid)
    H, exact = learnt(G[:n], grid, units), symmetric(learnt(G[:40], grid, units)).tolist()
    g = dense_rows(G[[40]], grid)[0]
    q, z = oracle.leverage(exact, g.tolist()), np.array([float(value) for value in oracle.solve(exact, g.tolist())])
    low, high = enclosed_leverage(g.astype(float), z, H, G[n:40], grid, units)
    assert Fraction(low) <= q <= Fraction(high)


# -- an inverse that follows --------------------------------------------------------------------------------------


def followed(inverse, rows, grid):
    """Let the inverse follow a chunk of sparse grid rows; whether it went well."""
    parts = split(rows, grid)
    P = inverse.products(parts)
    B = np.asfortranarray(parts.times(np.ascontiguousarray(P.T)) + np.eye(len(P)))
    C = factorise(B)
    squared_reach = float((inverse.reach(parts) ** 2).sum())
    return C is not None and inverse.follow(P, C, float(B.trace()), squared_reach, parts.entries)


def is_positive(M):
    """Whether a symmetric matrix of rationals has no negative eigenvalue."""
    M = [list(row) for row in M]
    for i, row in enumerate(M):
        if row[i] < 0 or (row[i] == 0 and any(row[i:])):
            return False
        for below in M[i + 1 :]:
            if row[i] != 0 and below[i] != 0:
                times = below[i] / row[i]
                below[i:] = [b - times * a for a, b in zip(row[i:], below[i:], strict=True)]
    return True


def true_error_is_within(inverse, exact, bound):
    """Whether ``|x'(A - H^-1)x| <= bound * x'H^-1x`` for every x, in rationals."""
    d, bound = len(exact), Fraction(bound)
    right = [oracle.solve(exact, [int(i == j) for i in range(d)]) for j in range(d)]
    A = [[Fraction(v) for v in row] for row in inverse.A.tolist()]
    above = [[(1 + bound) * r - a for r, a in zip(*rows, strict=True)] for rows in zip(right, A, strict=True)]
    below = [[a - (1 - bound) * r for r, a in zip(*rows, strict=True)] for rows in zip(right, A, strict=True)]
    return is_positive(above) and is_positive(below)


def farthest(inverse, exact):
    """The largest ``(sum_j |x_j| sqrt(A_jj))^2 / x'H^-1x``: of ``y'Hy``, where ``|y_j| = sqrt(A_jj)``; rational."""
    roots = [Fraction(root) for root in inverse.roots.tolist()]
    squares = []
    for signs in product([-1, 1], repeat=len(roots)):
        y = [sign * root for sign, root in zip(signs, roots, strict=True)]
        Hy = [sum(h * v for h, v in zip(row, y, strict=True)) for row in exact]
        squares.append(sum(v * w for v, w in zip(y, Hy, strict=True)))
    return max(squares)


def nasty_rows(kind, n, rng):
    """Rows of four entries: any, near copies of one row, or of very different lengths."""
    X = rng.standard_normal((n, 4)) * (rng.random((n, 4)) < 0.6)
    if kind == "copies":
        X = np.tile([1.0, -2.0, 3.0, 0.5], (n, 1)) + 1e-4 * X
    if kind == "lengths":
        X *= 10.0 ** rng.uniform(-4, 0, (n, 1))
    return X / max(1.0, np.linalg.norm(X, axis=1).max(initial=0.0))


@pytest.mark.parametrize("kind", ["any", "copies", "lengths"])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("bits", [15, 20])
@pytest.mark.parametrize("units", [1, 2**8, 2**20, 2**30])
def test_the_error_of_an_inverse_that_follows_stays_within_its_bound(kind, intercept, bits, units):
    grid, rng = Grid(4, bits, intercept, None), np.random.default_rng(bits)
    H = learnt(to_grid(sp.csr_array(nasty_rows(kind, 7 if bits == 20 else 0, rng)), grid), grid, units)
    inverse, n = invert(H, units), 0
    while inverse is not None and n < 40:
        rows = to_grid(sp.csr_array(nasty_rows(kind, int(rng.integers(1, 9)), rng)), grid)
        add_rows(H, rows, 1.0, grid)
        if not followed(inverse, rows, grid):
            break
        n += 1
        assert (inverse.A == inverse.A.T).all()
        if n in (1, 3, 20, 40):
            exact = symmetric(H).tolist()
            assert true_error_is_within(inverse, exact, inverse.error)
            assert farthest(inverse, exact) <= inverse.farthest * (1 + 1e-12)
    assert n == 40 or units < 2**20 or bits == 20
    if units == 2**30 and bits == 15:
        assert inverse.error < 1e-10  # the bound is not an empty one


@pytest.mark.parametrize("kind", ["any", "copies", "lengths"])
@pytest.mark.parametrize("n", [40, 41, 150, 301])
def test_chunks_of_any_size_stay_within_the_bound(kind, n):
    grid, rng, units = Grid(4, 15, True, None), np.random.default_rng(n), 2**24
    H = learnt(to_grid(sp.csr_array(nasty_rows(kind, 7, rng)), grid), grid, units)
    inverse = invert(H, units)
    for _ in range(3):
        rows = to_grid(sp.csr_array(nasty_rows(kind, n, rng)), grid)
        assert followed(inverse, rows, grid)
        add_rows(H, rows, 1.0, grid)
        exact = symmetric(H).tolist()
        assert true_error_is_within(inverse, exact, inverse.error)
        assert farthest(inverse, exact) <= inverse.farthest * (1 + 1e-12)
    assert inverse.error < 1e-7


def test_an_inverse_that_cannot_follow_says_so():
    grid, units = Grid(3), 1
    inverse = invert(empty_gram(grid, units), units)
    rows = sparse_rows(np.full((400, 4), 16000), grid)
    assert not followed(inverse, rows, grid)


def test_an_error_that_is_too_large_is_seen_by_the_judge():
    grid, units = Grid(4), 2**30
    H = learnt(to_grid(sp.csr_array(some_rows(9, 4, 0.6, 1)), grid), grid, units)
    inverse, exact = invert(H, units), symmetric(H).tolist()
    assert true_error_is_within(inverse, exact, inverse.error + 1e-14)
    assert not true_error_is_within(inverse, exact, 1e-22)
    inverse.A[1, 1] *= 1 + 1e-6
    assert not true_error_is_within(inverse, exact, 1e-9)


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
    X = np.zeros((100, 20))
    X[:, :14], X[:3, 15], X[:50, 17] = 1.0, 1.0, 1.0
    grid = Grid(20)
    rows = to_grid(sp.csr_array(X), grid)
    assert frequent_columns(rows, grid).tolist() == [*range(14), 17, 20]
    assert frequent_columns(rows, grid, 0.6).tolist() == [*range(14), 20]
    parts = split(rows, grid)
    assert parts.rest.nnz == 3
    assert (parts.dense[:, -1] == grid.constant).all()
    assert parts.entries == 17


def test_short_rows_are_listed_but_for_the_constant():
    for intercept in (False, True):
        grid = Grid(5, intercept=intercept)
        rows = to_grid(sp.csr_array(np.ones((9, 5))), grid)
        parts = split(rows, grid)
        assert parts.frequent.tolist() == [5][: int(intercept)]
        assert parts.rest.nnz == 45
        assert parts.entries == 5 + intercept
        assert (parts.times(np.eye(grid.n_columns)) == dense_rows(rows, grid)).all()


# -- sums ----------------------------------------------------------------------------------------------------------


@given(st.integers(0, 10**6), st.sampled_from([15, 20]), st.booleans(), st.sampled_from([1, 3, 17, 2**16]))
def test_sums_of_sparse_rows_are_those_of_dense_ones(seed, bits, intercept, pairs_at_once):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(split_rows, "_PAIRS_AT_ONCE", pairs_at_once)
        assert_sums_are_those_of_dense_rows(seed, bits, intercept)


def assert_sums_are_those_of_dense_rows(seed, bits, intercept):
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


@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("at_once", [1, 700, 2**18])
def test_sums_of_frequent_columns_are_those_of_dense_rows_and_leave_nothing(at_once, intercept, monkeypatch):
    monkeypatch.setattr(split_rows, "_NUMBERS_AT_ONCE", at_once)
    monkeypatch.setattr(split_rows, "_FEW_ROWS", 20)
    grid = Grid(40, 15, intercept)
    X = some_rows(150, 40, 0.5, 3)
    X[:, ::3] *= some_rows(150, 14, 0.02, 4) != 0  # listed columns between the frequent ones
    S = to_grid(sp.csr_array(X), grid)
    frequent = frequent_columns(S, grid)
    assert 20 < len(frequent) < 35
    assert set(S.indices.tolist()) - set(frequent.tolist())
    sparse, dense = learnt(S, grid, 5), learnt(dense_rows(S, grid), grid, 5)
    assert (np.tril(sparse) == np.tril(dense)).all()
    for part in (S[:9], S[9:100], S[100:]):  # few rows, which are summed pair by pair, and many
        add_rows(sparse, part, -1.0, grid)
    assert (sparse == empty_gram(grid, 5)).all()  # above the diagonal, too
