"""Dense or sparse: a function of the rows, the same however they are held; read back only as it was written."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from erasable.core import grid as grid_module
from erasable.core.grid import Grid, dense_rows, laid_out, position_type, row_sizes, sparse_rows
from erasable.core.layout import DTYPES, read_rows, row_tensors
from erasable.errors import StateFormatError
from tests import oracle


@st.composite
def grid_rows(draw: Any) -> tuple[Grid, Any]:
    """A grid and dense rows on it, of any density."""
    d = draw(st.sampled_from([1, 2, 3, 4, 5, 9, 30]))
    grid = Grid(d, draw(st.sampled_from([8, 15, 16])), draw(st.booleans()))
    n, density = draw(st.integers(0, 9)), draw(st.sampled_from([0.0, 0.1, 0.2, 0.25, 0.3, 0.5, 1.0]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    rows = rng.integers(-90, 91, (n, d)) * (rng.random((n, d)) < density)
    return grid, np.hstack([rows, np.full((n, grid.n_columns - d), grid.constant)]).astype(grid.dtype)


def as_bytes(rows: Any, grid: Grid) -> list[Any]:
    """Name, type, shape and bytes of what rows are written as."""
    tensors = {name: (t, np.asarray(a, DTYPES[t])) for name, (t, a) in row_tensors(rows, grid).items()}
    return [(name, t, list(a.shape), a.tobytes()) for name, (t, a) in tensors.items()]


@given(grid_rows())
def test_rows_are_written_as_the_rule_says_however_they_are_held(problem):
    grid, rows = problem
    right = oracle.row_tensors(rows.tolist(), grid.n_features, grid.intercept, grid.bits)
    for held in (rows, sparse_rows(rows, grid), laid_out(rows, grid)):
        found = laid_out(held, grid)
        assert as_bytes(found, grid) == right
        assert int(row_sizes(found, grid).sum()) == sum(len(data) for *_, data in right)


@given(grid_rows())
def test_reading_undoes_writing(problem):
    grid, rows = problem
    for held in (rows, sparse_rows(rows, grid)):
        again = read_rows({name: np.asarray(a) for name, (_, a) in row_tensors(held, grid).items()}, grid)
        assert sp.issparse(again) == sp.issparse(held)
        assert (dense_rows(again, grid) if sp.issparse(again) else again).tolist() == rows.tolist()


@given(grid_rows(), st.integers(1, 40))
def test_counting_stops_early_and_decides_the_same(problem, block):
    grid, rows = problem
    right = sp.issparse(laid_out(rows, grid))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grid_module, "_BLOCK", block)
        assert sp.issparse(laid_out(rows, grid)) == right


def test_exactly_half_the_bytes_is_dense():
    grid = Grid(12, intercept=False)  # 24 bytes a row; one, and three for each entry
    rows = np.zeros((3, 12), dtype=np.int16)
    rows[0, :11] = 1  # 36 of 72 bytes
    assert isinstance(laid_out(rows, grid), np.ndarray)
    rows[0, 0] = 0
    assert sp.issparse(laid_out(rows, grid))


def test_no_rows_are_dense():
    grid = Grid(50)
    for rows in (np.empty((0, 51), np.int16), sp.csr_array((0, 50), dtype=np.int16)):
        assert laid_out(rows, grid).shape == (0, 51)


@pytest.mark.parametrize("d", [255, 256, 65_535, 65_536])
def test_columns_and_lengths_are_of_the_narrowest_type(d):
    grid = Grid(d, 20)
    rows = sp.csr_array(([7] * d + [1], ([0] * d + [4], [*range(d), d - 1])), shape=(5, d), dtype=np.int32)
    kind = {255: "U8", 256: "U16", 65_535: "U16", 65_536: "I32"}[d]
    tensors = row_tensors(laid_out(rows, grid), grid)
    assert [t for t, _ in tensors.values()] == [kind, kind, "I32"]
    assert position_type(grid) == tensors["rows.columns"][1].dtype
    assert tensors["rows.lengths"][1].tolist() == [d, 0, 0, 0, 1]
    assert int(tensors["rows.columns"][1][-1]) == d - 1


def test_a_row_with_another_constant_stays_dense_for_verify_to_see():
    grid = Grid(30)
    rows = np.zeros((4, 31), dtype=np.int16)
    rows[:, -1] = grid.constant
    assert sp.issparse(laid_out(rows, grid))
    rows[2, -1] += 1
    assert laid_out(rows, grid) is rows


# -- what is refused ---------------------------------------------------------------------------------------------

GRID = Grid(300)
ROWS = sparse_rows(np.pad([[0, 5, 0, 6], [7, 0, 0, 0], [0, 0, 0, 0], [1, 2, 3, 0]], ((0, 0), (0, 297))), GRID)


def tampered(**changes: Any) -> dict[str, Any]:
    """The arrays of :data:`ROWS`, some of them replaced."""
    tensors = {name: np.array(a) for name, (_, a) in row_tensors(ROWS, GRID).items()}
    return {**tensors, **{f"rows.{name}": array for name, array in changes.items()}}


U16, I16 = np.uint16, np.int16
REFUSED = {
    "lengths too many": {"lengths": np.array([2, 1, 0, 4], U16)},
    "lengths too few": {"lengths": np.array([2, 1, 0, 2], U16)},
    "lengths of another type": {"lengths": np.array([2, 1, 0, 3], np.uint8)},
    "negative lengths": {"lengths": np.array([3, -1, 1, 3], np.int16)},
    "lengths in a table": {"lengths": np.array([[2, 1], [0, 3]], U16)},
    "a column twice": {"columns": np.array([1, 1, 0, 0, 1, 2], U16)},
    "columns in disorder": {"columns": np.array([3, 1, 0, 0, 1, 2], U16)},
    "a column past the last": {"columns": np.array([1, 3, 0, 0, 1, 300], U16)},
    "columns of another type": {"columns": np.array([1, 3, 0, 0, 1, 2], np.int32)},
    "a column too few": {"columns": np.array([1, 3, 0, 0, 1], U16)},
    "columns in a table": {"columns": np.array([[1, 3, 0], [0, 1, 2]], U16)},
    "a zero": {"values": np.array([5, 6, 7, 1, 0, 3], I16)},
    "values of another type": {"values": np.array([5, 6, 7, 1, 2, 3], np.int32)},
    "a value too many": {"values": np.array([5, 6, 7, 1, 2, 3, 4], I16)},
    "values in a table": {"values": np.array([[5, 6, 7], [1, 2, 3]], I16)},
}


def test_what_is_altered_below_is_right_before():
    assert (read_rows(tampered(), GRID) != ROWS).nnz == 0


@pytest.mark.parametrize("how", REFUSED)
def test_arrays_that_are_no_sparse_rows_are_refused(how):
    with pytest.raises(StateFormatError, match=r"sparse rows|do not fit together"):
        read_rows(tampered(**REFUSED[how]), GRID)


def test_lengths_below_zero_and_columns_below_zero_are_refused_where_their_type_has_them():
    grid = Grid(70_000, 20)
    one = {"rows.values": np.array([1, 2], np.int32)}
    wide = {name: np.array(v, np.int32) for name, v in {"rows.lengths": [3, -1], "rows.columns": [0, 1]}.items()}
    with pytest.raises(StateFormatError, match="do not fit together"):
        read_rows({**one, **wide}, grid)
    wide = {name: np.array(v, np.int32) for name, v in {"rows.lengths": [2], "rows.columns": [-1, 1]}.items()}
    with pytest.raises(StateFormatError, match="outside their columns"):
        read_rows({**one, **wide}, grid)


@pytest.mark.parametrize("missing", ["lengths", "columns", "values"])
def test_an_array_that_is_missing_is_refused(missing):
    tensors = tampered()
    del tensors[f"rows.{missing}"]
    with pytest.raises(KeyError):
        read_rows(tensors, GRID)
