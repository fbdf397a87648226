"""Blocks of rows out of a NumPy archive: dense rows are unpacked as they are needed."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.lib import format as npy

from erasable.errors import InputError
from erasable.tables._columns import as_rows
from erasable.tables._npz import (
    PLAIN,
    array_names,
    checked_columns,
    is_sparse,
    known_names,
    read_arrays,
    read_npz_rows,
)
from erasable.tables._reading import read_or_refuse
from erasable.tables._rows import Rows
from erasable.tables._source import Source, WholeSource, block_rows, refused_each, where_in

_MEMBER = "X.npy"


def npz_source(path: Path, block_bytes: int, *, labelled: bool) -> Source:
    """Rows of an archive. Those that are sparse, or stored column by column, are read whole."""
    if is_sparse(path):
        return WholeSource(read_npz_rows(path, labelled=labelled), block_bytes)
    names = known_names(path, *array_names(labelled))

    def look() -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
        with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as file:
            return _header(file)

    shape, by_columns, dtype = read_or_refuse(look, path, PLAIN)
    if by_columns or len(shape) != 2 or dtype.hasobject or not dtype.itemsize or 0 in shape:
        return WholeSource(read_npz_rows(path, labelled=labelled), block_bytes)  # or its refusal
    return _DenseSource(path, names, shape, dtype, block_bytes)


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come one after the other, and dtype, by the public functions of NumPy."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    return found


class _DenseSource(Source):
    """Rows one after the other in an archive, compressed or not; labels, ids and subjects are read whole."""

    def __init__(
        self, path: Path, names: list[str], shape: tuple[int, ...], dtype: np.dtype[Any], block_bytes: int
    ) -> None:
        self._path, self._shape, self._dtype = path, shape, dtype
        arrays = read_arrays(path, [name for name in names if name != "X"])
        self._columns = checked_columns(arrays, shape[0], path.name)
        as_rows(np.zeros((1, shape[1]), dtype), path.name)  # refuses what is no number
        self.n_rows = shape[0]
        self._rows = block_rows(block_bytes, shape[1] * dtype.itemsize)

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._shape[1]

    def blocks(self) -> Iterator[Rows]:
        """Blocks as they are unpacked."""
        first = 0
        for X in refused_each(self._unpacked(), self._path, PLAIN):
            columns = {part: values[first : first + len(X)].copy() for part, values in self._columns.items()}
            rows = as_rows(X, where_in(self._path, first, len(X)))
            first += len(X)
            yield Rows(rows, **columns, name=self._path.stem)

    def _unpacked(self) -> Iterator[np.ndarray[Any, Any]]:
        n, d = self._shape
        with zipfile.ZipFile(self._path) as archive, archive.open(_MEMBER) as file:
            if _header(file) != (self._shape, False, self._dtype):
                raise InputError(f"{self._path.name} was changed while it was being read: read it again.")
            for low in range(0, n, self._rows):
                count = min(self._rows, n - low)
                data = file.read(count * d * self._dtype.itemsize)
                yield np.frombuffer(data, self._dtype, count * d).reshape(count, d)
            file.read(1)  # at the end the checksum is compared
