"""Two layouts of grid rows, the rule which of them a set of rows has, and the arrays that each is written as.

*Dense*: integers of shape (n, n_columns), the intercept's constant in the last column. *Sparse*: a CSR array of the
same integers, shape (n, n_features), columns ascending, no entry zero; the constant, the same in every row, is implied.
Which one is a function of the rows and the grid, so that a state has one form: ``docs/format.md``.

Changes nothing it is given.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Int64s, Integers
from erasable.core.grid import Grid, dense_rows, sparse_rows
from erasable.core.layout import Tensors
from erasable.errors import StateFormatError

_U8, _U16, _I16, _I32 = (np.dtype(kind) for kind in (np.uint8, np.uint16, np.int16, np.int32))
_NAMES = {_U8: "U8", _U16: "U16", _I16: "I16", _I32: "I32"}
_BLOCK = 2**20  # entries counted at once


@dataclass(frozen=True)
class SparseColumns:
    """Stands for a grid where rows are float64 numbers that are always stored sparse, and have no constant."""

    n_features: int
    intercept = False
    constant = 0
    dtype = np.dtype(np.float64)

    @property
    def n_columns(self) -> int:
        """As many as features."""
        return self.n_features


def position_type(grid: Grid) -> np.dtype[Any]:
    """The narrowest type that holds the number of features: of columns, and of how many entries a row has."""
    return _U8 if grid.n_features < 2**8 else _U16 if grid.n_features < 2**16 else _I32


def sparse_bytes(n_rows: int, n_entries: int, grid: Grid) -> int:
    """Bytes of rows in the sparse layout: for each row its number of entries, for each entry column and value."""
    position = position_type(grid).itemsize
    return n_rows * position + n_entries * (position + grid.dtype.itemsize)


def dense_bytes(n_rows: int, grid: Grid) -> int:
    """Bytes of rows in the dense layout."""
    return n_rows * grid.n_columns * grid.dtype.itemsize


def is_sparse(n_rows: int, n_entries: int, grid: Grid) -> bool:
    """The rule: rows are sparse where that takes less than half the bytes."""
    return isinstance(grid, SparseColumns) or 2 * sparse_bytes(n_rows, n_entries, grid) < dense_bytes(n_rows, grid)


def count_entries(rows: Any, grid: Grid) -> int:
    """Numbers of grid rows, in either layout, that are not zero; the constant is none of them."""
    if not isinstance(rows, np.ndarray):
        return int(rows.nnz)
    if rows.size <= _BLOCK:
        return int(np.count_nonzero(rows[:, : grid.n_features]))
    step = max(1, _BLOCK // grid.n_columns)
    parts = (rows[low : low + step, : grid.n_features] for low in range(0, len(rows), step))
    return sum(int(np.count_nonzero(part)) for part in parts)


def has_constant(rows: Any, grid: Grid) -> bool:
    """Whether every row has the constant of the grid in its place: a sparse one always does."""
    return sp.issparse(rows) or bool((rows[:, grid.n_features :] == grid.constant).all())


def laid_out(rows: Any, grid: Grid) -> Any:
    """The rows in the layout that they have by the rule.

    A row that is none of the grid's, by its constant, is held as it is, for ``verify`` to see.

    *Law*: a pure function of the rows, in whichever layout they come.
    """
    wanted = is_sparse(rows.shape[0], count_entries(rows, grid), grid)
    if wanted == sp.issparse(rows) or (wanted and not has_constant(rows, grid)):
        return rows
    return sparse_rows(rows, grid) if wanted else dense_rows(rows, grid)


def row_sizes(rows: Any, grid: Grid) -> Int64s:
    """Bytes of each row in the layout that the rows are in."""
    if not sp.issparse(rows):
        return np.full(rows.shape[0], dense_bytes(1, grid))
    position = position_type(grid).itemsize
    lengths: Int64s = np.diff(rows.indptr).astype(np.int64)
    return position + lengths * (position + grid.dtype.itemsize)


def row_tensors(rows: Any, grid: Grid) -> Tensors:
    """The arrays that rows, laid out as they should be, are written as."""
    if not sp.issparse(rows):
        return {"rows": (_NAMES[grid.dtype], rows)}
    narrow = position_type(grid)
    return {
        "rows.lengths": (_NAMES[narrow], np.diff(rows.indptr).astype(narrow)),
        "rows.columns": (_NAMES[narrow], rows.indices.astype(narrow)),
        "rows.values": (_NAMES[grid.dtype], rows.data),
    }


def read_rows(tensors: dict[str, npt.NDArray[Any]], grid: Grid) -> Any:
    """The rows that these arrays are of, in the layout that the arrays are in.

    Raises
    ------
    StateFormatError
        When the arrays do not fit together, or their entries are not in order.
    """
    if "rows" in tensors:
        rows = tensors["rows"]
        if rows.shape[1:] != (grid.n_columns,) or rows.dtype != grid.dtype:
            raise StateFormatError("its parts do not fit together.")
        return rows
    lengths, columns, values = (tensors[f"rows.{name}"] for name in ("lengths", "columns", "values"))
    narrow = position_type(grid)
    starts = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
    fits = (
        lengths.shape == (len(lengths),)
        and columns.shape == values.shape == (len(values),)
        and (lengths.dtype, columns.dtype, values.dtype) == (narrow, narrow, grid.dtype)
        and lengths.min(initial=0) >= 0
        and starts[-1] == len(values)
    )
    if not fits:
        raise StateFormatError("its sparse rows do not fit together.")
    if columns.min(initial=0) < 0 or columns.max(initial=0) >= grid.n_features:
        raise StateFormatError("its sparse rows have entries outside their columns.")
    indices = columns.astype(np.int32)
    inside = np.ones(len(indices), dtype=bool)
    inside[starts[:-1][starts[:-1] < len(indices)]] = False  # where a row begins, its column may be any
    if (np.diff(indices, prepend=-1)[inside] <= 0).any() or not values.all():
        raise StateFormatError("its sparse rows are not in canonical form: ascending columns, no zeros.")
    return csr(values, indices, starts, grid)


def csr(values: Integers, columns: Integers, starts: npt.NDArray[np.int64], grid: Grid) -> Any:
    """Sparse rows from their entries, in canonical form, and where each row begins and the last one ends."""
    wide = np.int32 if len(values) < 2**31 else np.int64
    rows = sp.csr_array(
        (values, columns.astype(wide, copy=False), starts.astype(wide, copy=False)),
        shape=(len(starts) - 1, grid.n_features),
    )
    rows.has_canonical_format = True
    return rows
