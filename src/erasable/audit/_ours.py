"""Files of this package under the eyes of a scan: which rows, ids and subjects they hold, by their own account.

The header is read on its own, so a file that was cut off while it was written can be looked into as well.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit._needles import Form, RowType, form_of
from erasable.core.layout import DTYPES, LONGEST_HEADER, read_json

_AT_ONCE = 1 << 23  # bytes of rows
_NO_NAMES = {"checksum", "capacity_units", "alpha_units"}  # digits that the format writes as text
_BETWEEN = "\n" * 8  # texts of a header: none stands beside another


@dataclass(frozen=True)
class Tensor:
    """Where an array lies in a file."""

    dtype: str
    shape: tuple[int, ...]
    low: int
    high: int


@dataclass(frozen=True)
class Ours:
    """The header of a file in our layout.

    Attributes
    ----------
    meta : dict
    tensors : dict of Tensor
    data : int
        Where the header ends.
    size : int
        Bytes of the file.
    header : bytes
        As it stands in the file, without the length before it.
    text : bytes
        Every text in the header, escapes undone: classes, names of features, descriptions. Numbers are left out.
    """

    meta: dict[str, Any]
    tensors: dict[str, Tensor]
    data: int
    size: int
    header: bytes
    text: bytes

    @property
    def whole(self) -> bool:
        """Whether the file is as long as its header says, or longer."""
        return all(t.high <= self.size for t in self.tensors.values())

    def place(self, text: bytes) -> tuple[int, int]:
        """Offset and length of a text in the header; of the whole header where it is written with escapes."""
        at = self.header.find(text)
        return (8 + at, len(text)) if at >= 0 else (8, len(self.header))

    def form(self, feature_map: str | None) -> Form | None:
        """How the model makes integers of rows that went through this map, if it says so."""
        return form_of(self.meta, feature_map)

    @property
    def rows(self) -> list[Tensor]:
        """The arrays that hold core rows: one with a line for each, three where the rows are sparse, or none."""
        if (one := self.tensors.get("rows")) is not None:
            return [one] if len(one.shape) == 2 and one.shape[1] else []
        for names in (("data", "indices", "ends"), ("values", "columns", "lengths")):
            found = [t for n in names if (t := self.tensors.get(f"rows.{n}")) is not None and len(t.shape) == 1]
            if len(found) == 3 and "<f4" not in {t.dtype for t in found}:
                return found
        return []

    @property
    def n_rows(self) -> int:
        """How many rows the file says that it holds."""
        match self.rows:
            case [one]:
                return one.shape[0]
            case [_, _, last]:
                return last.shape[0] if "rows.lengths" in self.tensors else max(0, last.shape[0] - 1)
        return 0

    @property
    def row_type(self) -> RowType | None:
        """As what the stored rows are to be read; 64-bit integers stand for float64."""
        match self.rows:
            case [one]:
                return RowType("<f8" if one.dtype == "<i8" else one.dtype, one.shape[1])
            case [values, _, _] if isinstance(d := self.meta.get("n_features"), int) and 0 < d < 2**31:
                return RowType("<f8", d) if values.dtype == "<i8" else RowType(values.dtype, d, features_alone=True)
        return None

    def stored_rows(self, fd: int) -> Iterator[tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """Number of the first, bytes, and (offset, length) in the file, of rows that are wholly there, by the block."""
        if self.row_type is None:
            return
        if len(self.rows) == 3:
            yield from self._sparse_rows(fd, self.row_type)
            return
        (tensor,) = self.rows
        width = tensor.shape[1] * np.dtype(tensor.dtype).itemsize
        n = max(0, min(tensor.high, self.size) - tensor.low) // width
        step = max(1, _AT_ONCE // width)
        for i in range(0, n, step):
            data = os.pread(fd, min(step, n - i) * width, tensor.low + i * width)
            rows = np.frombuffer(data[: len(data) // width * width], np.uint8).reshape(-1, width)
            offsets = tensor.low + (i + np.arange(len(rows))) * width
            yield i, rows, np.stack([offsets, np.full(len(rows), width)], axis=1)

    def _sparse_rows(
        self, fd: int, kind: RowType
    ) -> Iterator[tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        values, columns, ends = (self._array(fd, t) for t in self.rows)
        if "rows.lengths" in self.tensors:
            ends = np.concatenate([[0], np.cumsum(ends, dtype=np.int64)])
        columns, d, width = columns.astype(np.int64), kind.columns, values.itemsize
        m = min(len(values), len(columns))
        fits = (
            len(ends) and ends[0] == 0 and (np.diff(ends) >= 0).all() and (columns >= 0).all() and (columns < d).all()
        )
        if not fits:
            return
        again = np.flatnonzero(np.diff(columns) <= 0) + 1  # a column that comes again in a row would hide a number
        if not np.isin(again, ends).all():
            return
        n = int(np.searchsorted(ends, m, side="right")) - 1  # rows that are wholly there
        step = max(1, _AT_ONCE // (width * d))
        for i in range(0, n, step):
            k = min(step, n - i)
            low, high = int(ends[i]), int(ends[i + k])
            dense = np.zeros((k, d), dtype=kind.dtype)
            row = np.repeat(np.arange(k), np.diff(ends[i : i + k + 1]))
            dense[row, columns[low:high]] = values[low:high].view(kind.dtype)
            lengths = np.diff(ends[i : i + k + 1])
            places = np.stack([self.rows[0].low + width * ends[i : i + k], width * lengths], axis=1)
            yield i, dense.view(np.uint8), places

    def keys(self, fd: int, name: str) -> list[tuple[int | bytes, int, int]] | None:
        """Ids or subjects with their offset and length in the file; None where there are none to be read.

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
        data = os.pread(fd, tensor.high - tensor.low, tensor.low)
        width = np.dtype(tensor.dtype).itemsize
        return np.frombuffer(data[: len(data) // width * width], tensor.dtype)

    @property
    def without_text(self) -> list[tuple[int, int]]:
        """Stretches in which no text can stand, or that are searched by themselves: header, numbers, ids, subjects."""
        if not self.whole:  # what a header says of bytes that are not there proves nothing about those that are
            return [(0, self.data)]
        names = ("ids", "subjects")
        rows = self.rows
        known = [(t.low, t.high) for n, t in self.tensors.items() if t.dtype != "|u1" or n in names or t in rows]
        return [(0, self.data), *known]


def read_header(fd: int, size: int) -> Ours | None:
    """What a file says about itself; None when it is not in our layout."""
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
    return Ours(meta, tensors, 8 + length, size, written, text) if isinstance(meta, dict) else None


def _texts(written: str) -> Iterator[str]:
    """All texts in JSON, and those inside of texts that are JSON themselves."""
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
    """JSON with objects as tuples of pairs: of a key that stands there twice, both values count."""
    return read_json(written, object_pairs_hook=tuple)


def _tensor(entry: dict[str, Any], data: int) -> Tensor:
    dtype = DTYPES[entry["dtype"]]
    shape = tuple(int(n) for n in entry["shape"])
    low, high = map(int, entry["data_offsets"])
    if min(shape, default=0) < 0 or low < 0 or high - low != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError("its parts do not fit together")
    return Tensor(dtype, shape, data + low, data + high)
