"""Files as a scan reads them: block by block, and models and Parquet files by what their headers say.

The header of a model is read on its own, so a file that was cut off while it was written can be searched as well.
"""

from __future__ import annotations

import fnmatch
import math
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit._scan_rows import Bytes, RowType
from erasable.audit._scan_text import as_text
from erasable.core.layout import DTYPES, LONGEST_HEADER, read_json
from erasable.errors import InputError
from erasable.validation import ARROW_BYTES, ARROW_NUMBERS, ARROW_TEXTS, is_kind, open_parquet

Interval = tuple[int, int]
TextColumns = list[tuple[str, list[bytes | None]]]  # name and cells, as a text file has them; None if missing

BLOCK = 1 << 23
_ROW_BYTES = 1 << 23  # of the stored rows that are compared at once
_CELLS = 1 << 20  # of a Parquet file that are decoded at once
_PARQUET_NAMES = (*ARROW_TEXTS, *ARROW_BYTES, "fixed_size_binary")
_NO_NAMES = {"checksum", "capacity_units", "alpha_units"}  # digits that the format writes as text
_BETWEEN = "\n" * 8  # texts of a header, so that none stands next to another
PARQUET = b"PAR1"
_PACKED = (
    b"PAR1",
    b"ORC",
    b"Obj\x01",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\x00",
    b"BZh",
    b"\x04\x22\x4d\x18",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"\xff\x06\x00\x00sNaPpY",
    b"\x89HDF\r\n\x1a\n",
)


# -- the folder ----------------------------------------------------------------------------------------------------


class ChangedError(Exception):
    """A file changed while it was read."""


@dataclass
class Listing:
    """The entries of a folder: (path to open, path shown, bytes) of its files, and why others are left out."""

    files: list[tuple[str, str, int]] = field(default_factory=list)
    unreadable: dict[str, str] = field(default_factory=dict)
    skipped: list[str] = field(default_factory=list)
    links: int = 0


def shown(path: str) -> str:
    """Return a path for display, with bytes that are no text escaped."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def reason(error: OSError) -> str:
    """Return what the system says of a failure, without the path."""
    return (error.strerror or type(error).__name__).lower()


def list_files(
    folder: str | os.PathLike[str], skip: Sequence[str | os.PathLike[str]], exclude: Sequence[str]
) -> Listing:
    """Return all files below a folder, hidden ones too, in order; links are not followed.

    Raises InputError if there is no such folder.

    Parameters
    ----------
    skip : paths
        Files to leave out, by whatever name or link they are found.
    exclude : glob patterns
        Left out if one fits the path below the folder or the name alone.
    """
    root = Path(folder)
    try:
        is_folder = stat.S_ISDIR(os.stat(root).st_mode)
    except OSError as error:
        problem = f"{os.fspath(folder)!r} cannot be looked through: {error.strerror}. Give a folder that exists."
        raise InputError(problem) from None
    left_out = {(s.st_dev, s.st_ino) for s in (os.stat(p) for p in skip)}
    found = Listing()
    if not is_folder:
        _add_entry(found, str(root), root.name, left_out, exclude)
        return found

    def unreadable(error: OSError) -> None:
        found.unreadable[shown(os.path.relpath(error.filename, root))] = reason(error)

    for where, folders, names in os.walk(root, onerror=unreadable):
        below = "" if where == str(root) else os.path.relpath(where, root) + "/"
        paths = {name: (os.path.join(where, name), below + name) for name in sorted([*folders, *names])}
        folders[:] = [name for name, path in paths.items() if _add_entry(found, *path, left_out, exclude)]
    return found


def _add_entry(
    found: Listing, path: str, relative: str, left_out: set[tuple[int, int]], exclude: Sequence[str]
) -> bool:
    """Add an entry of a folder to the listing; return whether it is a folder itself."""
    name = relative.rpartition("/")[2]
    if any(fnmatch.fnmatchcase(relative, e) or fnmatch.fnmatchcase(name, e) for e in exclude):
        found.skipped.append(shown(relative))
        return False
    try:
        facts = os.lstat(path)
    except OSError as error:
        found.unreadable[shown(relative)] = reason(error)
        return False
    if stat.S_ISDIR(facts.st_mode):
        return True
    if not stat.S_ISREG(facts.st_mode):
        found.links += 1
    elif (facts.st_dev, facts.st_ino) in left_out:
        found.skipped.append(shown(relative))
    else:
        found.files.append((path, relative, facts.st_size))
    return False


@contextmanager
def open_file(path: str) -> Iterator[int]:
    """Open a plain file and yield its descriptor; refuse a link or a pipe that took its place meanwhile."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ChangedError
        yield fd
    finally:
        os.close(fd)


def is_packed(fd: int) -> bool:
    """Return whether a file is compressed or an archive, by its first bytes."""
    return os.pread(fd, 16, 0).startswith(_PACKED)


def blocks(fd: int, size: int, reach: int, without: Sequence[Interval]) -> Iterator[tuple[int, Bytes, int, int]]:
    """Yield, block by block, the offset in the file, the bytes, and the stretch of these bytes that is new.

    A block holds ``reach`` bytes more on both sides if the file has them. Blocks that lie wholly in one of the
    intervals ``without`` are left out, and bytes of other such intervals are zero.
    """
    step = max(BLOCK, 4 * reach)
    for start in range(0, size, step):
        stop = min(start + step, size)
        low, high = max(0, start - reach), min(size, stop + reach)
        if any(a <= low and high <= b for a, b in without):
            continue
        buffer = bytearray(high - low)
        view, done = memoryview(buffer), 0
        while done < len(buffer):
            got = os.preadv(fd, [view[done:]], low + done)
            if not got:
                raise ChangedError
            done += got
        block = np.frombuffer(buffer, dtype=np.uint8)
        blank(block, low, without)
        yield low, block, start - low, stop - low


def blank(block: Bytes, low: int, intervals: Sequence[Interval]) -> None:
    """Overwrite the bytes that lie in the intervals of the file with zeros."""
    for a, b in intervals:
        block[max(0, a - low) : max(0, b - low)] = 0


# -- files of this package -----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Tensor:
    """An array in a file: its type and shape, and the offsets where it begins and ends."""

    dtype: str
    shape: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True)
class ModelHeader:
    """The header of a file in our layout."""

    meta: dict[str, Any]
    tensors: dict[str, Tensor]
    data: int  # where the header ends
    size: int  # bytes of the file
    written: bytes  # the header as it stands in the file, without its length
    # Every text in the header, escapes undone: classes, names of features, descriptions. Numbers are left out.
    text: bytes

    @property
    def is_whole(self) -> bool:
        """Whether the file is as long as its header says, or longer."""
        return all(t.high <= self.size for t in self.tensors.values())

    def place(self, text: bytes) -> tuple[int, int]:
        """Return offset and length of a text in the header; those of the whole header if it is written escaped."""
        at = self.written.find(text)
        return (8 + at, len(text)) if at >= 0 else (8, len(self.written))

    @property
    def rows(self) -> list[Tensor]:
        """The arrays that hold core rows: one, three if the rows are sparse, or none."""
        if (one := self.tensors.get("rows")) is not None:
            return [one] if len(one.shape) == 2 and one.shape[1] else []
        for names in (("data", "indices", "ends"), ("values", "columns", "lengths")):
            found = [t for n in names if (t := self.tensors.get(f"rows.{n}")) is not None and len(t.shape) == 1]
            if len(found) == 3 and "<f4" not in {t.dtype for t in found}:
                return found
        return []

    @property
    def n_rows(self) -> int:
        """How many rows the file claims to hold."""
        match self.rows:
            case [one]:
                return one.shape[0]
            case [_, _, last]:
                return last.shape[0] if "rows.lengths" in self.tensors else max(0, last.shape[0] - 1)
        return 0

    @property
    def row_type(self) -> RowType | None:
        """The type of the stored rows; 64-bit integers stand for float64."""
        match self.rows:
            case [one]:
                return RowType("<f8" if one.dtype == "<i8" else one.dtype, one.shape[1])
            case [values, _, _] if isinstance(d := self.meta.get("n_features"), int) and 0 < d < 2**31:
                return RowType("<f8", d) if values.dtype == "<i8" else RowType(values.dtype, d, features_alone=True)
        return None

    def stored_rows(self, fd: int) -> Iterator[tuple[int, Bytes, npt.NDArray[np.int64]]]:
        """Yield first number, bytes, and (offset, length) of rows that are wholly in the file, block by block."""
        if self.row_type is None:
            return
        if len(self.rows) == 3:
            yield from self._sparse_rows(fd, self.row_type)
            return
        (tensor,) = self.rows
        width = tensor.shape[1] * np.dtype(tensor.dtype).itemsize
        n = max(0, min(tensor.high, self.size) - tensor.low) // width
        step = max(1, _ROW_BYTES // width)
        for i in range(0, n, step):
            data = os.pread(fd, min(step, n - i) * width, tensor.low + i * width)
            rows = np.frombuffer(data[: len(data) // width * width], np.uint8).reshape(-1, width)
            offsets = tensor.low + (i + np.arange(len(rows))) * width
            yield i, rows, np.stack([offsets, np.full(len(rows), width)], axis=1)

    def _sparse_rows(self, fd: int, kind: RowType) -> Iterator[tuple[int, Bytes, npt.NDArray[np.int64]]]:
        """Yield the same of sparse rows, made dense; nothing if their parts do not fit together."""
        values, columns, ends = (self._array(fd, t) for t in self.rows)
        if "rows.lengths" in self.tensors:
            ends = np.concatenate([[0], np.cumsum(ends, dtype=np.int64)])
        columns, d, width = columns.astype(np.int64), kind.columns, values.itemsize
        lengths = np.diff(ends)
        if not len(ends) or ends[0] != 0 or (lengths < 0).any() or (columns < 0).any() or (columns >= d).any():
            return
        again = np.flatnonzero(np.diff(columns) <= 0) + 1  # a column that comes again in a row would hide a number
        if not np.isin(again, ends).all():
            return
        n = int(np.searchsorted(ends, min(len(values), len(columns)), side="right")) - 1  # rows that are wholly there
        step = max(1, _ROW_BYTES // (width * d))
        for i in range(0, n, step):
            k = min(step, n - i)
            low, high = int(ends[i]), int(ends[i + k])
            dense = np.zeros((k, d), dtype=kind.dtype)
            dense[np.repeat(np.arange(k), lengths[i : i + k]), columns[low:high]] = values[low:high].view(kind.dtype)
            places = np.stack([self.rows[0].low + width * ends[i : i + k], width * lengths[i : i + k]], axis=1)
            yield i, dense.view(np.uint8), places

    def keys(self, fd: int, name: str) -> list[tuple[int | bytes, int, int]] | None:
        """Return ids or subjects with their offset and length in the file; None if they cannot be read.

        A row without a subject has a zero, or no byte, in the place of one: that is nobody's name, and left out.
        """
        tensor, ends, there = (self.tensors.get(name + part) for part in ("", ".ends", ".present"))
        if tensor is None or any(t is not None and t.high > self.size for t in (tensor, ends, there)):
            return None
        keys: list[tuple[int | bytes, int, int]]
        if tensor.dtype == "<i8" and len(tensor.shape) == 1:
            keys = [(v, tensor.low + 8 * i, 8) for i, v in enumerate(self._array(fd, tensor).tolist())]
        elif tensor.dtype == "|u1" and ends is not None and ends.dtype == "<i8":
            blob = os.pread(fd, tensor.high - tensor.low, tensor.low)
            stops = self._array(fd, ends)
            starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
            if (starts > stops).any() or (stops[-1] if len(stops) else 0) != len(blob):  # else some bytes are in no key
                return None
            pairs = zip(starts.tolist(), stops.tolist(), strict=True)
            keys = [(blob[a:b], tensor.low + a, b - a) for a, b in pairs]
        else:
            return None
        present = [True] * len(keys) if there is None else self._array(fd, there).tolist()
        return [k for k, p in zip(keys, present, strict=True) if p] if len(present) == len(keys) else None

    @staticmethod
    def _array(fd: int, tensor: Tensor) -> npt.NDArray[Any]:
        """Return an array of the file, or its beginning if the file was cut off."""
        data = os.pread(fd, tensor.high - tensor.low, tensor.low)
        width = np.dtype(tensor.dtype).itemsize
        return np.frombuffer(data[: len(data) // width * width], tensor.dtype)

    @property
    def without_text(self) -> list[Interval]:
        """Stretches without text, or that are searched by themselves: header, numbers, ids, subjects."""
        if not self.is_whole:  # what a header says of bytes that are missing proves nothing about the others
            return [(0, self.data)]
        names, rows = ("ids", "subjects"), self.rows
        known = [(t.low, t.high) for n, t in self.tensors.items() if t.dtype != "|u1" or n in names or t in rows]
        return [(0, self.data), *known]


def read_header(fd: int, size: int) -> ModelHeader | None:
    """Return what a file says about itself; None if it is not in our layout."""
    first = os.pread(fd, 8, 0)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or not 2 <= length <= min(LONGEST_HEADER, size - 8):
        return None
    if length % 8 and os.pread(fd, 1, 8 + length) == b" ":  # spaces at the end are cut off: tensors would be misplaced
        return None
    try:
        written = os.pread(fd, length, 8)
        header = read_json(written)
        meta = read_json(header.pop("__metadata__")["erasable"])
        tensors = {name: _tensor(entry, 8 + length) for name, entry in header.items()}
        text = _BETWEEN.join(_texts(written.decode())).encode("utf-8", "surrogatepass")
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    return ModelHeader(meta, tensors, 8 + length, size, written, text) if isinstance(meta, dict) else None


def _texts(written: str) -> Iterator[str]:
    """Yield all texts in JSON, and those inside of texts that are JSON themselves."""
    waiting = [_pairs(written)]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case list() as entries:
                waiting += entries
            case tuple() as members:
                for name, value in members:
                    yield name
                    if name in ("erasable", "feature_map") and isinstance(value, str):
                        with suppress(ValueError):  # else it is a text like any other
                            value = _pairs(value)
                    if name not in _NO_NAMES:
                        waiting.append(value)


def _pairs(written: str) -> Any:
    """Return JSON with objects as tuples of pairs: of a key that occurs twice, both values count."""
    return read_json(written, object_pairs_hook=tuple)


def _tensor(entry: dict[str, Any], data: int) -> Tensor:
    """Return an array that a header describes; ValueError if its parts do not fit together."""
    dtype = DTYPES[entry["dtype"]]
    shape = tuple(int(n) for n in entry["shape"])
    low, high = map(int, entry["data_offsets"])
    if min(shape, default=0) < 0 or low < 0 or high - low != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError("its parts do not fit together")
    return Tensor(dtype, shape, data + low, data + high)


# -- Parquet -------------------------------------------------------------------------------------------------------


class UndecodedError(Exception):
    """A Parquet file, or a part of it, could not be decoded."""


class Parquet:
    """A Parquet file that is open for reading.

    Raises UndecodedError if it is none, is damaged or encrypted, or pyarrow is not installed.

    Parameters
    ----------
    fd : int
        Its descriptor, which stays open.
    features : sequence of str, optional
        The columns of features. If one is missing, all columns of numbers are read.
    """

    def __init__(self, fd: int, features: Sequence[str] | None) -> None:
        self._source = os.fdopen(os.dup(fd), "rb")
        try:
            self._file = open_parquet(self._source)
            self._schema = self._file.schema_arrow
        except Exception:
            self._source.close()
            raise UndecodedError from None
        columns = self._schema.names
        numeric = [j for j, kind in enumerate(self._schema.types) if is_kind(kind, *ARROW_NUMBERS)]
        given = [columns.index(f) for f in features or () if columns.count(f) == 1]
        self.has_features = features is not None and len(given) == len(features) and set(given) <= set(numeric)
        self._numbers = given if self.has_features else numeric

    def __enter__(self) -> Parquet:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._source.close()

    @property
    def is_flat(self) -> bool:
        """Whether no column holds lists, structs or maps, which are not searched."""
        return not any(is_kind(kind, "nested") for kind in self._schema.types)

    def rows(self) -> Iterator[tuple[int, npt.NDArray[np.float64], TextColumns]]:
        """Yield some rows at a time: the number of the first, their numbers, and their columns of text.

        Numbers are the columns of features, or all columns of numbers if some feature is missing. Texts are the columns
        of texts and bytes, and those of integers that are no features. UndecodedError if some row cannot be decoded.
        """
        step, first = max(1, _CELLS // max(1, len(self._schema.names))), 0
        try:
            for batch in self._file.iter_batches(batch_size=step, use_threads=False):
                yield first, *self._decoded(batch)
                first += batch.num_rows
        except Exception:
            raise UndecodedError from None

    def _decoded(self, batch: Any) -> tuple[npt.NDArray[np.float64], TextColumns]:
        """Return the numbers and the columns of text of a record batch."""
        numbers = np.empty((batch.num_rows, len(self._numbers)))
        for k, j in enumerate(self._numbers):
            numbers[:, k] = batch.column(j).cast("float64", safe=False).to_numpy(zero_copy_only=False)
        texts = []
        for j, column in enumerate(self._schema.names):
            kind = self._schema.types[j]
            kind = kind.value_type if is_kind(kind, "dictionary") else kind
            is_feature = self.has_features and j in self._numbers
            if is_kind(kind, *_PARQUET_NAMES) or (is_kind(kind, "integer") and not is_feature):
                texts.append((column, [None if v is None else as_text(v) for v in batch.column(j).to_pylist()]))
        return numbers, texts
