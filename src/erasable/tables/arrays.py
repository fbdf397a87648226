"""Tables without names of columns: NumPy archives, and the text format of SVMlight and LIBSVM."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from numpy.lib import format as npy

from erasable.core.arrays import MatrixLike
from erasable.errors import InputError
from erasable.models.row_source import Rows
from erasable.tables.columns import as_rows, check_shape, checked_column, number_columns
from erasable.tables.reading import (
    TableStream,
    block_rows,
    existing_file,
    listed,
    read_or_refuse,
    refused_each,
    where_in,
)
from erasable.tables.table import Split, Table
from erasable.tables.text import open_unpacked

_SIDES = ("train", "test")
_ROLES = {"y": "label", "ids": "id", "subjects": "subject", "weights": "weight"}
_OPTIONAL = {"ids", "subjects", "weights"}
_MEMBER = "X.npy"
_PLAIN = "an .npz archive of plain arrays (objects are not read, as that could run code)"
_FORM = "SVMlight text"
_LOOKED_AT = 2**22  # bytes of text that the first pass parses at once


class NpzStream(TableStream):
    """An archive of arrays ``X`` and ``y`` (``ids``, ``subjects``, ``weights``), or of ``scipy.sparse.save_npz``.

    Only dense rows stored row by row are unpacked as they are needed, compressed or not. The rest is read whole.
    """

    def __init__(self, path: Path, *, labelled: bool) -> None:
        self._path, self.name = path, path.stem
        self._sparse: Rows | None = None
        if "format" in _names(path):
            self._sparse, self.name = _sparse_rows(path, labelled=labelled)
            self.n_rows, self._width = self._sparse.X.shape
            return
        required, optional = ({"X", "y"}, _OPTIONAL) if labelled else ({"X"}, {"y", *_OPTIONAL})
        names = _known_names(path, required, optional)

        def look() -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
            with zipfile.ZipFile(path) as archive, archive.open(_MEMBER) as file:
                return _header(file)

        self._shape, self._by_columns, self._dtype = read_or_refuse(look, path, _PLAIN)
        # NumPy refuses objects.
        columns = _arrays(path, [name for name in names if name != "X" or self._dtype.hasobject])
        check_shape(self._shape, self._dtype, path.name)
        self._columns = _checked_columns(columns, self._shape[0], path.name)
        self.n_rows, self._width = self._shape

    @property
    def n_features(self) -> int:
        """The number of numbers in a row."""
        return int(self._width)

    def blocks(self, block_bytes: int | None) -> Iterator[Rows]:
        """Blocks as they are unpacked, or slices of what is read whole."""
        if self._sparse is not None:
            yield from _sliced(self._sparse, block_bytes)
        elif block_bytes is None or self._by_columns:
            X = as_rows(_arrays(self._path, ["X"])["X"], self._path.name)
            yield from _sliced(Rows(X, **{"y": None, **self._columns}), block_bytes)
        else:
            first = 0
            for X in refused_each(self._unpacked(block_bytes), self._path, _PLAIN):
                columns = {part: values[first : first + len(X)].copy() for part, values in self._columns.items()}
                rows = as_rows(X, where_in(self._path, first, len(X)), first=first)
                first += len(X)
                yield Rows(rows, **{"y": None, **columns})

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
    """Shape, whether rows are stored column by column, and dtype."""
    version = npy.read_magic(file)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    found: tuple[tuple[int, ...], bool, np.dtype[Any]] = read(file)
    return found


def _sliced(rows: Rows, block_bytes: int | None) -> Iterator[Rows]:
    """Copies of runs of rows."""
    n, X = len(rows), rows.X
    step = n
    if block_bytes is not None:
        step = block_rows(block_bytes, (X.data.nbytes + (X.indices.nbytes if sp.issparse(X) else 0)) // n)
    columns = rows.y, rows.ids, rows.subjects, rows.weights
    for low in range(0, n, step):
        at = np.arange(low, min(n, low + step))
        yield rows if step == n else Rows(X[at], *(None if c is None else c[at] for c in columns))


def _sparse_rows(path: Path, *, labelled: bool) -> tuple[Rows, str]:
    """Sparse rows, with the labels of the file next to theirs, and the name of the table."""
    X = read_sparse(path)
    labels = path.with_name(f"{path.stem}_labels.npz")
    if labels.exists():
        arrays = _arrays(labels, _known_names(labels, {"y"}, _OPTIONAL))
        return Rows(X, **_checked_columns(arrays, X.shape[0], labels.name)), path.stem
    name, _, side = path.stem.rpartition("_")
    shared = path.with_name(f"{name}_labels.npz")
    if side in _SIDES and shared.exists():
        return Rows(X, **_side_columns(_split_arrays(shared), X.shape[0], side, shared.name)), name
    if not labelled:
        return Rows(X, None), path.stem
    raise InputError(
        f"{path.name} holds sparse rows without labels: put {labels.name} next to it, an .npz with the array y "
        "(and optionally ids and subjects)."
    )


def read_sparse(path: Path) -> Any:
    """The csr_array that ``scipy.sparse.save_npz`` wrote."""

    def read() -> Any:
        with existing_file(path).open("rb") as file:
            return as_rows(sp.load_npz(file), path.name)

    return read_or_refuse(read, path, "sparse rows of scipy.sparse.save_npz")


def is_half_of_split(path: Path) -> bool:
    """Whether this is ``NAME_train.npz`` with a test or labels file next to it."""
    return path.name.endswith("_train.npz") and any(file.exists() for file in _siblings(path))


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

    def table(side: str, rows: Path) -> Table:
        X = read_sparse(rows)
        return Table(X, **_side_columns(arrays, X.shape[0], side, labels.name), name=name)

    return Split(table("train", path), table("test", test))


def _siblings(path: Path) -> tuple[Path, Path]:
    name = path.stem.removesuffix("_train")
    return path.with_name(f"{name}_test.npz"), path.with_name(f"{name}_labels.npz")


def _split_arrays(path: Path) -> dict[str, npt.NDArray[Any]]:
    keys = {f"{what}_{side}" for what in ("ids", "subject") for side in _SIDES}
    return _arrays(path, _known_names(path, {"y_train", "y_test"}, keys))


def _side_columns(arrays: dict[str, npt.NDArray[Any]], n: int, side: str, where: str) -> dict[str, Any]:
    names = {"y": f"y_{side}", "ids": f"ids_{side}", "subjects": f"subject_{side}"}
    columns = {part: arrays[theirs] for part, theirs in names.items() if theirs in arrays}
    return _checked_columns(columns, n, where)


def _names(path: Path) -> list[str]:
    """The names of the arrays of an archive."""

    def read() -> list[str]:
        # Opened by us, since NumPy would leave the file of a truncated archive open.
        with existing_file(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
            return list(archive.files)  # a bare .npy has no such attribute, and no context

    return read_or_refuse(read, path, "an .npz archive")


def _known_names(path: Path, required: set[str], optional: set[str]) -> list[str]:
    """The names of the arrays, if all required ones exist, and no unknown ones."""
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
    """The arrays ``y``, ``ids``, ``subjects`` and ``weights`` of n rows, as far as they exist, checked."""
    for part, values in arrays.items():
        wide = values.ndim == 2 and len(values) == n and (part == "subjects" or (part == "y" and values.shape[1] > 1))
        if values.shape != (n,) and not wide:
            raise InputError(f"{where}: {part} has the shape {values.shape} for {n} rows: give one per row.")
    return {
        part: number_columns(values, f"{where}, {part}")
        if part == "y" and values.ndim > 1
        else checked_column(values, _ROLES[part], f"{where}, {part}")
        for part, values in arrays.items()
    }


# -- SVMlight ---------------------------------------------------------------------------------------------------------


class SvmlightStream(TableStream):
    """A file, plain or compressed; with ``subjects``, the query id of every row (``qid:7``) is its subject.

    In blocks it is read twice: the largest feature, whether features are counted from zero, and whether labels are
    integers is known only at the end. With ``whole_labels``, others than integers are refused.
    """

    def __init__(
        self, path: Path, name: str, *, subjects: bool, n_features: int | None, whole_labels: bool = False
    ) -> None:
        self._path, self.name, self._subjects, self._given = path, name, subjects, n_features
        self._whole_labels = whole_labels

    @property
    def n_features(self) -> int:
        """The number of numbers in a row."""
        return self._first_pass.n_features

    def count_rows(self) -> int:
        """The number of rows, by the first pass."""
        return self._first_pass.n_rows

    @cached_property
    def _first_pass(self) -> _TextFacts:
        return self._look(self._parsed(_LOOKED_AT))

    def blocks(self, block_bytes: int | None) -> Iterator[Rows]:
        """Blocks of whole lines."""
        path, first = self._path, 0
        parts: Iterable[list[Any]] = self._parsed(block_bytes)
        if block_bytes is None:
            parts = list(parts)
            found = self._look(parts)
        else:
            found = self._first_pass
        for X, y, *query in parts:
            n = len(y)
            where = path.name if block_bytes is None else where_in(path, first, n)
            owners = query[0] if query else None
            if owners is not None and len(owners) != n:
                raise InputError(f"{where}: {len(owners)} of {n} rows have a query id: every row needs one.")
            y = checked_column(y, "label", where, first)
            if self._whole_labels and (odd := int(np.count_nonzero(~_whole(y)))):
                raise InputError(
                    f"{where}: {odd:,} of {n:,} labels are no whole numbers: correct them, or predict numbers with "
                    "target_range=."
                )
            rows = read_or_refuse(partial(_rows, X, found, where, first), path, _FORM)
            whole = self._whole_labels or found.whole
            yield Rows(rows, y.astype(np.int64) if whole else y, subjects=owners)
            first += n

    def _look(self, parts: Iterable[list[Any]]) -> _TextFacts:
        """Properties of the whole file, found by reading all of it."""
        path, n, smallest, largest, whole = self._path, 0, np.inf, 0, True
        for X, y, *_ in parts:
            n, whole = n + len(y), whole and bool(_whole(y).all())
            if len(X.indices):
                smallest, largest = min(smallest, X.indices.min()), max(largest, int(X.indices.max()))
        if not n:
            raise InputError(f"{path.name}: there are no rows.")
        from_one = 0 < smallest < np.inf  # as scikit-learn decides
        width = largest + (not from_one)
        if self._given is not None and width > self._given:
            raise InputError(f"{path.name} has {width} features, more than the {self._given} that n_features allows.")
        self.n_rows = n
        return _TextFacts(n, self._given or width, from_one, whole)

    def _parsed(self, block_bytes: int | None) -> Iterator[list[Any]]:
        """Rows with features counted from zero, labels, and query ids where wanted, of runs of lines."""
        from sklearn.datasets import load_svmlight_file  # here, as only this format needs scikit-learn

        texts = [None] if block_bytes is None else refused_each(_lines(self._path, block_bytes), self._path, _FORM)
        for text in texts:

            def read(text: bytes | None = text) -> list[Any]:
                with open_unpacked(self._path) if text is None else io.BytesIO(text) as source:
                    return list(load_svmlight_file(source, zero_based=True, query_id=self._subjects))

            part = read_or_refuse(read, self._path, _FORM)
            if len(part[1]):
                yield part


@dataclass(frozen=True)
class _TextFacts:
    n_rows: int
    n_features: int
    from_one: bool
    whole: bool


def _rows(X: MatrixLike, found: _TextFacts, where: str, first: int) -> Any:
    """Rows with features counted from zero, as wide as the whole file; indices outside are refused."""
    indices = X.indices - X.indices.dtype.type(found.from_one)
    return as_rows(sp.csr_array((X.data, indices, X.indptr), shape=(X.shape[0], found.n_features)), where, first=first)


def _whole(y: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which labels are integers."""
    whole: npt.NDArray[np.bool_] = (np.abs(y) < 2**53) & (y == np.floor(y))
    return whole


def _lines(path: Path, size: int) -> Iterator[bytes]:
    """Whole lines of about so many bytes, unpacked."""
    with open_unpacked(path) as file:
        while text := file.read(size):
            yield text + file.readline()
