"""What only sparse rows have: inverses as bad as their bounds allow, chunks, streams; laws are in test_selector."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

import erasable.core.deciding as deciding
import erasable.core.sparse_deciding as sparse_deciding
from erasable.core.deciding import exceeds
from erasable.core.grid import Grid, to_grid
from erasable.core.selector import RawRows, select, stale_screen
from erasable.core.sparse_deciding import Inverse, invert, may_exceed
from erasable.core.sums import add_rows, empty_gram, symmetric
from tests import oracle
from tests.core.test_selector import SIZES, assert_selects_as_the_oracle, cases, parts, run
from tests.strategies import problems


@given(cases(max_rows=16), SIZES, SIZES)
def test_a_screen_that_is_never_renewed_selects_the_same(case, block, chunk):
    """The inverse of the first moment stays valid for screening, because leverage only falls."""
    _, grid, units, _ = case[True]
    first = invert(empty_gram(grid, units), units)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sparse_deciding, "may_exceed", lambda G, _, grid, tau: may_exceed(G, first, grid, tau))
        assert_selects_as_the_oracle(*case[True], block_rows=block, chunk_rows=chunk)


@given(problems(max_rows=16), st.integers(0, 8))
def test_a_stale_screen_rules_out_nothing_that_is_above_now(problem, n):
    X, grid, units, tau = parts(problem)
    n %= len(X)
    older, now = empty_gram(grid, units), oracle.gram_matrix(to_grid(X[:n], grid).tolist(), units, grid.n_columns)
    add_rows(older, to_grid(X[: n // 2], grid))
    stale = stale_screen(older, grid, units, tau)
    if stale is None:
        assert tau == 0.0
        return
    above = [tau == 0.0 or oracle.leverage(now, g) > tau for g in to_grid(X, grid).tolist()]
    for rows in (RawRows(sp.csr_array(X), grid), RawRows(X, grid)):
        assert (stale(rows) >= above).all()


# -- inverses as bad as their bound allows -----------------------------------------------------------------------


@pytest.mark.parametrize("sign", [-1, 1])
@pytest.mark.parametrize(("copies", "shift"), [(1, 4), (1, 8), (16, 8), (120, 8), (1000, 6), (4000, 4)])
def test_an_inverse_as_bad_as_its_bound_allows_changes_no_decision(copies, shift, sign, monkeypatch):
    grid, units = Grid(2, 10 + shift, False, None), 1
    learnt = np.tile([2 ** (9 + shift), 2 ** (9 + shift) - 3], (copies, 1))
    exact = oracle.gram_matrix(learnt.tolist(), units, 2)
    made = []

    def worst(H, units):
        right = invert(H, units)
        if right is None:
            return None
        made.append(right.error)
        return replace(right, A=right.A * (1 + 0.4 * sign * right.error))

    monkeypatch.setattr(sparse_deciding, "invert", worst)
    asked = sp.csr_array(np.array([[1, -1], [3, -2], [40, -41], [200, -201], [2, 2]]) / 2.0**grid.bits)
    for q in [oracle.leverage(exact, g) for g in to_grid(asked.toarray(), grid).tolist()]:
        for stretch in (0.3, 0.9, 0.999, 1.0, 1.001, 1.1, 3.0):
            for chunk in (1, None):
                assert_selects_as_the_oracle(
                    asked, grid, units, float(q) * stretch, learnt=learnt, chunk_rows=chunk, block_rows=5
                )
    assert made or copies >= 120


# -- an inverse that follows ---------------------------------------------------------------------------------------


def exact_indices(X, grid, units, tau):
    inverse = oracle.GrowingInverse(grid.n_columns, units)
    return [i for i, g in enumerate(to_grid(X, grid).tolist()) if inverse.take_if_above(g, tau)]


@pytest.mark.parametrize("sign", [-1, 0, 1])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize(("bits", "units"), [(15, 2**30), (15, 2**16), (18, 2**9), (20, 1)])
def test_near_ties_after_many_chunks_are_decided_right(bits, units, intercept, sign, monkeypatch):
    """Also where the inverse is about as bad as its bound allows after every chunk."""
    X, grid = a_stream(120, 6, 0.3, bits + intercept), Grid(6, bits, intercept)
    follow, lasted = Inverse.follow, []

    def worst(inverse, *told):
        before = inverse.error
        went_well = follow(inverse, *told)
        lasted.append(went_well)
        inverse.A *= 1.0 + 0.4 * sign * (inverse.error - before)
        return went_well

    monkeypatch.setattr(Inverse, "follow", worst)
    G = to_grid(X, grid).tolist()
    for at in (60, 119):
        inverse = oracle.GrowingInverse(grid.n_columns, units)
        for g in G[:at]:
            inverse.take_if_above(g, 0.05)
        q = float(inverse.leverage(G[at]))
        for tau in (q, math.nextafter(q, 0.0)) if q else (0.01,):
            expected = exact_indices(X, grid, units, tau)
            for chunk in (5, None):
                found, _ = run(sp.csr_array(X), grid, units, tau, chunk_rows=chunk, block_rows=40)
                assert found.index.tolist() == expected
    assert any(lasted)


def test_exact_ties_after_many_chunks():
    """The last four columns are a problem of their own, whose fourth row and all later ones are ties."""
    grid, units, tau = Grid(10, 15, False, None), 2**24 - 3 * 2**22, 2.0**-2
    rng = np.random.default_rng(8)
    X = np.zeros((400, 10))
    X[:, :6] = rng.standard_normal((400, 6)) * (rng.random((400, 6)) < 0.4) * 10.0 ** rng.uniform(-4, -1, (400, 1))
    tied = np.arange(20, 400, 20)
    X[tied] = 0.0
    X[np.ix_(tied, [6, 7, 8, 9])] = np.array([2**10, -(2**10), 2**10, 2**10]) / 2.0**15
    for chunk in (3, 16, None):
        found, _ = run(sp.csr_array(X), grid, units, tau, chunk_rows=chunk, block_rows=50)
        assert found.index.tolist() == exact_indices(X, grid, units, tau)
        assert set(tied) & set(found.index.tolist()) == {20, 40, 60}
        lower, _ = run(sp.csr_array(X), grid, units, math.nextafter(tau, 0.0), chunk_rows=chunk, block_rows=50)
        assert {20, 40, 60, 80} <= set(lower.index.tolist())


@pytest.mark.parametrize(("units", "most"), [(2**30, 1), (2**12, 200)])
def test_the_inverse_is_made_anew_only_where_its_error_could_leave_rows_open(units, most, monkeypatch):
    made = []
    monkeypatch.setattr(sparse_deciding, "invert", lambda *of: made.append(1) or invert(*of))
    X, grid = a_stream(900, 20, 0.1, 4), Grid(20, 15, False)
    found, _ = run(sp.csr_array(X), grid, units, 0.02, chunk_rows=10, block_rows=100)
    assert len(found.index) > 100
    assert 1 <= len(made) <= most
    assert found.decisions.enclosed + found.decisions.exact < 12


@pytest.mark.parametrize("follows", [0, 10**9])
def test_chunks_grow_where_inverses_do_not_last(follows, monkeypatch):
    monkeypatch.setattr(sparse_deciding, "_SMALL_CHUNK", 16)
    monkeypatch.setattr(sparse_deciding, "_FOLLOWS", follows)
    monkeypatch.setattr(Inverse, "follow", lambda *_: False)
    X, grid, made = a_stream(300, 60, 0.05, 6), Grid(60), []
    monkeypatch.setattr(sparse_deciding, "invert", lambda *of: made.append(1) or invert(*of))
    found, _ = run(sp.csr_array(X), grid, 2**30, 0.1)
    expected = select(RawRows(X, grid), empty_gram(grid, 2**30), 0, grid=grid, units=2**30, tau=0.1)
    assert found.index.tolist() == expected.index.tolist()
    assert len(made) > 8 if follows == 0 else 2 < len(made) < 12


@pytest.mark.parametrize("follows", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_rows_left_open_are_decided_without_a_factor(intercept, follows, monkeypatch):
    """The bound on the error is taken a million times as large as it is, so that rows are left open."""
    eta = sparse_deciding.sparse_gram_error
    monkeypatch.setattr(sparse_deciding, "sparse_gram_error", lambda *of: 1e-3 + eta(*of))
    if not follows:
        monkeypatch.setattr(Inverse, "follow", lambda *_: False)
    X, grid, units = a_stream(300, 12, 0.2, 7), Grid(12, 15, intercept), 2**28
    expected = exact_indices(X, grid, units, 0.1)
    asked = []
    monkeypatch.setattr(deciding, "exceeds", lambda *of: asked.append(1) or exceeds(*of))
    for chunk in (7, 60, None):
        found, _ = run(sp.csr_array(X), grid, units, 0.1, chunk_rows=chunk, block_rows=100)
        assert found.index.tolist() == expected
        assert found.decisions.enclosed > 3
    assert not asked


# -- paths -------------------------------------------------------------------------------------------------------


def a_stream(n, d, density, seed):
    """Rows with few entries, a few columns in many of them; copies, empty rows and entries of every size."""
    rng = np.random.default_rng(seed)
    held = rng.random((n, d)) < density * np.where(np.arange(d) < 3, 10.0, 1.0)
    X = np.where(held, rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, (n, 1)), 0.0)
    X[n // 2 : n // 2 + 9] = X[0]
    X[n // 3 : n // 3 + 5] = 0.0
    return X


@pytest.mark.parametrize("scaling", ["row", None, 3.0, "columns"])
@pytest.mark.parametrize("bits", [15, 18])
@pytest.mark.parametrize("intercept", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_and_dense_rows_have_one_selection(scaling, bits, intercept, dtype):
    X = a_stream(1500, 40, 0.06, bits)
    if scaling in (None, 3.0):
        X /= np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-9) * (1.0 if scaling is None else 1 / 3)
        X *= 0.999
    X = X.astype(dtype)
    grid = Grid(40, bits, intercept, tuple(np.linspace(0.5, 2.0, 40).tolist()) if scaling == "columns" else scaling)
    units = 4**bits // 8
    for tau in (0.3, 0.05):
        H = empty_gram(grid, units)
        expected = select(RawRows(X, grid), H, 0, grid=grid, units=units, tau=tau)
        for on_grid in (False, True):
            for chunk in (None, 17):
                found, sparse_H = run(sp.csr_array(X), grid, units, tau, on_grid=on_grid, chunk_rows=chunk)
                assert found.index.tolist() == expected.index.tolist()
                assert (symmetric(sparse_H) == symmetric(H)).all()
        assert 20 < len(found.index) < 1480
        assert found.decisions.screened > 0
        assert found.decisions.enclosed + found.decisions.exact < 10


@pytest.mark.parametrize("block", [1, 5, 64, 700, None])
@pytest.mark.parametrize("chunk", [1, 13, 700, None])
def test_block_and_chunk_change_nothing(block, chunk):
    X, grid = a_stream(700, 8, 0.2, 3), Grid(8)
    inverse = oracle.GrowingInverse(9, 2**30)
    expected = [i for i, g in enumerate(to_grid(X, grid).tolist()) if inverse.take_if_above(g, 0.07)]
    assert 50 < len(expected) < 350
    found, _ = run(sp.csr_array(X), grid, 2**30, 0.07, block_rows=block, chunk_rows=chunk)
    assert found.index.tolist() == expected


def test_no_block_is_made_dense(monkeypatch):
    X = sp.csr_array(a_stream(400, 30, 0.05, 5))
    for kind in (sp.csr_array, sp.csr_matrix):
        monkeypatch.setattr(kind, "toarray", None)
        monkeypatch.setattr(kind, "todense", None)
    found, _ = run(X, Grid(30), 2**28, 0.1)
    assert len(found.index) > 10
