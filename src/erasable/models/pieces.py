"""Grid rows as bytes, each row in a piece of memory of its own, so that one can go and the others stay where they are.

The piece of a dense row is its numbers. That of a sparse one is the columns of its entries and then their values.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.core.grid import Grid
from erasable.core.row_layout import csr, position_type

Bytes = npt.NDArray[np.uint8]


def cut(rows: Any, grid: Grid | None) -> list[bytearray]:
    """The pieces of dense or sparse rows, which are overwritten."""
    if isinstance(rows, np.ndarray):
        flat = np.ascontiguousarray(rows)
        ends = range(0, flat.nbytes + 1, flat.nbytes // len(flat)) if flat.nbytes else [0] * (len(flat) + 1)
        pieces = _pieces_of(flat.reshape(-1).view(np.uint8), ends)
        given = [rows, flat]
    else:
        assert grid is not None
        columns = rows.indices.astype(position_type(grid))
        lengths = np.diff(rows.indptr).astype(np.int64)
        text = np.empty(columns.nbytes + rows.data.nbytes, dtype=np.uint8)
        of_columns = _columns_in(lengths, grid)
        text[of_columns] = columns.view(np.uint8)
        text[~of_columns] = rows.data.view(np.uint8)
        pieces = _pieces_of(text, [0, *np.cumsum(lengths * entry_bytes(grid)).tolist()])
        given = [rows.data, rows.indices, columns, text]
    for array in given:
        array.fill(0)
    return pieces


def whole(pieces: Sequence[bytearray], none: Array) -> Array:
    """The dense rows of these pieces; ``none`` is an array of no rows of this kind."""
    rows: Array = np.frombuffer(bytearray().join(pieces), dtype=none.dtype)
    return rows.reshape(len(pieces), *none.shape[1:])


def whole_sparse(pieces: Sequence[bytearray], grid: Grid) -> sp.csr_array:
    """The sparse rows of these pieces."""
    text = np.frombuffer(bytearray().join(pieces), dtype=np.uint8)
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces)) // entry_bytes(grid)
    of_columns = _columns_in(lengths, grid)
    columns, values = text[of_columns].view(position_type(grid)), text[~of_columns].view(grid.dtype)
    text.fill(0)
    return csr(values, columns, np.concatenate([[0], np.cumsum(lengths)]), grid)


def one(piece: bytearray, none: Array) -> Float64s:
    """One dense row, shape (1, n_columns); ``none`` as in :func:`whole`."""
    return np.frombuffer(piece, dtype=none.dtype).astype(np.float64).reshape(1, -1)


def spread_out(piece: bytearray, grid: Grid) -> Float64s:
    """One sparse row as a dense one, shape (1, n_columns)."""
    n = len(piece) // entry_bytes(grid)
    columns = np.frombuffer(piece, dtype=position_type(grid), count=n)
    row = np.zeros((1, grid.n_columns))
    row[0, columns] = np.frombuffer(piece, dtype=grid.dtype, offset=columns.nbytes, count=n)
    row[0, grid.n_features :] = grid.constant
    return row


def entry_bytes(grid: Grid) -> int:
    """Bytes of an entry of a sparse row: its column and its value."""
    return position_type(grid).itemsize + grid.dtype.itemsize


def _pieces_of(text: Bytes, ends: Iterable[int]) -> list[bytearray]:
    """Copies of these bytes, from each end to the next."""
    view = text.data  # is cut faster than the array
    return [bytearray(view[a:b]) for a, b in pairwise(ends)]


def _columns_in(lengths: Int64s, grid: Grid) -> Booleans:
    """Which bytes of pieces, one after the other, are those of columns."""
    sizes = np.multiply.outer(lengths, np.array([position_type(grid).itemsize, grid.dtype.itemsize]))
    return np.repeat(np.tile([True, False], len(lengths)), sizes.ravel())
