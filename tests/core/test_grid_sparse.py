"""Sparse rows become the integers that the same rows become when they are dense, and are checked and scaled alike."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.arrays import stacked
from erasable.core.grid import Grid, count_outside_ball, dense_rows, scale_rows, sparse_rows, to_grid
from erasable.errors import InputError
from tests.core.test_grid import grids_and_rows, rows_of_norm


@st.composite
def as_sparse(draw, X):
    """CSR rows of an array: entries in any order, zeros listed, entries listed in two parts, wide or narrow indices."""
    kind = draw(st.sampled_from([sp.csr_array, sp.csr_matrix, sp.csc_array]))
    entries = []
    for i, row in enumerate(X.tolist()):
        listed = [(j, v) for j, v in enumerate(row) if v or draw(st.booleans())]
        listed = [part for j, v in listed for part in ([(j, v), (j, 0.0)] if draw(st.booleans()) else [(j, v)])]
        entries += [(i, j, v) for j, v in draw(st.permutations(listed))]
    if kind is sp.csc_array:
        entries.sort(key=lambda e: e[1])
    rows, columns = (np.array([e[k] for e in entries], dtype=int) for k in (0, 1))
    inner, outer, n = (rows, columns, X.shape[1]) if kind is sp.csc_array else (columns, rows, X.shape[0])
    indptr = np.concatenate([[0], np.cumsum(np.bincount(outer, minlength=n))])
    made = kind((np.array([e[2] for e in entries], dtype=X.dtype), inner, indptr), shape=X.shape)
    width = draw(st.sampled_from([np.int32, np.int64]))
    made.indices, made.indptr = made.indices.astype(width), made.indptr.astype(width)
    assert (made.toarray() == X).all()
    return made


def assert_sparse_grid_rows(S, grid):
    """The one form of sparse grid rows."""
    assert type(S) is sp.csr_array
    assert S.dtype == grid.dtype
    assert sp.csr_array((S.data, S.indices, S.indptr), shape=S.shape).has_canonical_format
    assert (S.data != 0).all()


@given(grids_and_rows(), st.data())
def test_sparse_rows_become_the_same_integers(case, data):
    grid, rows = case
    X = np.array(rows)
    listed = data.draw(as_sparse(X))
    before = [a.copy() for a in (listed.data, listed.indices, listed.indptr)]
    assert count_outside_ball(listed, grid) == count_outside_ball(X, grid) == 0
    S, G = to_grid(listed, grid), to_grid(X, grid)
    assert_sparse_grid_rows(S, grid)
    assert (dense_rows(S, grid) == G).all()
    again = sparse_rows(G, grid)
    assert_sparse_grid_rows(again, grid)
    assert (again != S).nnz == 0
    scaled = scale_rows(listed, grid)
    assert sp.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray(), scale_rows(X, grid), rtol=1e-15, atol=0)
    for a, b in zip(before, (listed.data, listed.indices, listed.indptr), strict=True):
        assert a.tobytes() == b.tobytes()


@pytest.mark.parametrize("bits", [8, 15, 20])
def test_halves_of_a_sparse_row_go_to_even(bits):
    grid = Grid(5, bits)
    X = np.array(rows_of_norm(2 * (grid.reach & -grid.reach)), dtype=np.float64).reshape(-1, 5)
    assert len(X) or bits < 15
    for Z in (X, np.ldexp(X, -1060), np.ldexp(X, 1000), np.nextafter(X, np.inf), np.nextafter(X, 0.0)):
        assert (dense_rows(to_grid(sp.csr_array(Z), grid), grid) == to_grid(Z, grid)).all()


@given(st.lists(st.lists(st.sampled_from([0.0, 0.6, 0.8, 1.0, 1.0 + 2.0**-15, 1e200]), min_size=3, max_size=3)))
def test_sparse_rows_outside_the_ball_are_counted_alike(rows):
    X = np.array(rows).reshape(-1, 3)
    for scaling in (None, 2.0):
        grid = Grid(3, scaling=scaling)
        assert count_outside_ball(sp.csr_array(X), grid) == count_outside_ball(X, grid)


def test_overflow_in_scaling_is_refused_for_sparse_rows_too():
    X = sp.csr_array(np.array([[1e10, 0.0]]))
    for call in (to_grid, scale_rows):
        for scaling in (1e-300, (1e-300, 1.0)):
            with pytest.raises(InputError, match="overflows"):
                call(X, Grid(2, scaling=scaling))


def test_batches_are_stacked_in_the_form_they_have():
    G = to_grid(np.eye(3), Grid(3))
    S = sparse_rows(G, Grid(3))
    assert (stacked([G[:1], G[1:]]) == G).all()
    assert (stacked([S[:1], S[1:]]) != S).nnz == 0
    assert stacked([S[:1], S[1:]]).dtype == S.dtype
