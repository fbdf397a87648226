"""Tables in NumPy archives: dense rows, or sparse ones with their labels in a file beside."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numpy.lib import format as npy

from erasable.errors import InputError
from erasable.tables.columns import as_rows, check_shape, checked_column
from erasable.tables.reading import Source, block_rows, existing_file, listed, read_or_refuse, refused_each, where_in
from erasable.tables.table import Split, Table

_SIDES = ("train", "test")
_ROLES = {"y": "label", "ids": "id", "subjects": "subject", "weights": "weight"}
_BESIDE = {"ids", "subjects", "weights"}
_MEMBER = "X.npy"
_PLAIN = "an .npz archive of plain arrays (objects are not read, as that could run code)"


class NpzSource(Source):
    """An archive of arrays ``X`` and ``y`` (``ids``, ``subjects``, ``weights``), or of ``scipy.sparse.save_npz``.

    Dense rows are unpacked as they are needed, compressed or not. Sparse ones are read whole, and so are labels, ids,
    subjects, and rows that are stored column by column.
    """

    def __init__(self, path: Path, *, labelled: bool) -> None:
        self._path, self.name = path, path.stem
        self._sparse: Table | None = None
        if "format" in _names(path):
            self._sparse = _sparse_table(path, labelled=labelled)
            self.n_rows, self._width = self._sparse.n_rows, self._sparse.n_features
            return
        required, optional = ({"X", "y"}, _BESIDE) if labelled else ({"X"}, {"y", *_BESIDE})
        names = _known_names(path, required, optional)

        def look() -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
            with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as file:
                return _header(file)

        self._shape, self._by_columns, self._dtype = read_or_refuse(look, path, _PLAIN)
        # Objects are left for NumPy to refuse.
        beside = _arrays(path, [name for name in names if name != "X" or self._dtype.hasobject])
        check_shape(self._shape, self._dtype, path.name)
        self._columns = _checked_columns(beside, self._shape[0], path.name)
        self.n_rows, self._width = self._shape

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self._width

    def blocks(self, block_bytes: int | None) -> Iterator[Table]:
        """Blocks as they are unpacked, or slices of what is read whole."""
        if self._sparse is not None:
            yield from _sliced(self._sparse, block_bytes)
        elif block_bytes is None or self._by_columns:
            X = as_rows(_arrays(self._path, ["X"])["X"], self._path.name)
            yield from _sliced(Table(X, **self._columns, name=self.name), block_bytes)
        else:
            first = 0
            for X in refused_each(self._unpacked(block_bytes), self._path, _PLAIN):
                columns = {part: values[first : first + len(X)].copy() for part, values in self._columns.items()}
                rows = as_rows(X, where_in(self._path, first, len(X)), first=first)
                first += len(X)
                yield Table(rows, **columns, name=self.name)

    def _unpacked(self, block_bytes: int) -> Iterator[npt.NDArray[Any]]:
        n, d = self._shape
        step = block_rows(block_bytes, d * self._dtype.itemsize)
        with zipfile.ZipFile(self._path) as archive, archive.open(_MEMBER) as file:
            if _header(file) != (self._shape, False, self._dtype):
                raise InputError(f"{self._path.name} was changed while it was being read: read it again.")
            for low in range(0, n, step):
                count = min(step, n - low)
                data = file.read(count * d * self._dtype.itemsize)
                yield np.frombuffer(data, self._dtype, count * d).reshape(count, d)
            file.read(1)  # at the end the checksum is compared


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether columns come one after the other, and dtype, by the public functions of NumPy."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    return found


def _sliced(table: Table, block_bytes: int | None) -> Iterator[Table]:
    if block_bytes is None:
        yield table
        return
    total = table.X.data.nbytes + (table.X.indices.nbytes if sp.issparse(table.X) else 0)
    step = block_rows(block_bytes, total // table.n_rows)
    for low in range(0, table.n_rows, step):
        yield table.take(slice(low, low + step))


def _sparse_table(path: Path, *, labelled: bool) -> Table:
    """Sparse rows, with what stands in the file beside."""
    X = read_sparse(path)
    beside = path.with_name(f"{path.stem}_labels.npz")
    if beside.exists():
        arrays = _arrays(beside, _known_names(beside, {"y"}, _BESIDE))
        return Table(X, **_checked_columns(arrays, X.shape[0], beside.name), name=path.stem)
    name, _, side = path.stem.rpartition("_")
    shared = path.with_name(f"{name}_labels.npz")
    if side in _SIDES and shared.exists():
        return _side_table(X, _split_arrays(shared), side, name, shared.name)
    if not labelled:
        return Table(X, name=path.stem)
    raise InputError(
        f"{path.name} holds sparse rows without labels: put {beside.name} beside it, an .npz with the array y "
        "(and, if there are, ids and subjects)."
    )


def read_sparse(path: Path) -> Any:
    """The csr_array that ``scipy.sparse.save_npz`` wrote."""

    def read() -> Any:
        with existing_file(path).open("rb") as file:
            return as_rows(sp.load_npz(file), path.name)

    return read_or_refuse(read, path, "sparse rows of scipy.sparse.save_npz")


def is_half_of_split(path: Path) -> bool:
    """Whether this is ``NAME_train.npz`` with a test or labels file beside it."""
    return path.name.endswith("_train.npz") and any(beside.exists() for beside in _siblings(path))


def read_split(path: Path) -> Split:
    """The rows of ``NAME_train.npz`` and ``NAME_test.npz``, with labels from ``NAME_labels.npz``."""
    name = path.stem.removesuffix("_train")
    test, labels = _siblings(path)
    missing = [p.name for p in (path, test, labels) if not p.exists()]
    if missing:
        raise InputError(
            f"{' and '.join(missing)} missing in {path.parent}: a split is three files, "
            f"{path.name}, {test.name} and {labels.name}."
        )
    arrays = _split_arrays(labels)
    sides = zip((path, test), _SIDES, strict=True)
    return Split(*(_side_table(read_sparse(p), arrays, side, name, labels.name) for p, side in sides))


def _siblings(path: Path) -> tuple[Path, Path]:
    name = path.stem.removesuffix("_train")
    return path.with_name(f"{name}_test.npz"), path.with_name(f"{name}_labels.npz")


def _split_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    keys = {f"{what}_{side}" for what in ("ids", "subject") for side in _SIDES}
    return _arrays(path, _known_names(path, {"y_train", "y_test"}, keys))


def _side_table(X: Any, arrays: dict[str, npt.NDArray[Any]], side: str, name: str, where: str) -> Table:
    names = {"y": f"y_{side}", "ids": f"ids_{side}", "subjects": f"subject_{side}"}
    columns = {part: arrays[theirs] for part, theirs in names.items() if theirs in arrays}
    return Table(X, **_checked_columns(columns, X.shape[0], where), name=name)


def _names(path: Path) -> list[str]:
    """The names of the arrays of an archive."""

    def read() -> list[str]:
        # Opened here: of an archive that is cut short, NumPy would leave the file open.
        with existing_file(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return list(archive.files)  # a bare .npy has no such attribute, and no context

    return read_or_refuse(read, path, "an .npz archive")


def _known_names(path: Path, required: set[str], optional: set[str]) -> list[str]:
    """The names of the arrays, when those that are required are there, and no others than are known."""
    names = _names(path)
    if not required <= set(names) or not set(names) <= required | optional:
        may = f" and may hold {listed(sorted(optional))}" if optional else ""
        raise InputError(
            f"{path.name} must hold the arrays {listed(sorted(required))}{may}; "
            f"it holds {listed(sorted(names)) or 'nothing'}: rename them, or leave the others out."
        )
    return names


def _arrays(path: Path, names: list[str]) -> dict[str, npt.NDArray[Any]]:
    """Some arrays of an archive."""

    def read() -> dict[str, npt.NDArray[Any]]:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return {name: np.asarray(archive[name]) for name in names}

    return read_or_refuse(read, path, _PLAIN)


def _checked_columns(arrays: dict[str, npt.NDArray[Any]], n: int, where: str) -> dict[str, Any]:
    """The arrays ``y``, ``ids``, ``subjects`` and ``weights``, where they are there, as they belong to ``n`` rows."""
    for part, values in arrays.items():
        if values.shape != (n,) and not (part == "subjects" and values.ndim == 2 and len(values) == n):
            raise InputError(f"{where}: {part} has the shape {values.shape} for {n} rows: give one per row.")
    return {part: checked_column(values, _ROLES[part], f"{where}, {part}") for part, values in arrays.items()}
