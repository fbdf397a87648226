"""Files of this package under the eyes of a scan: which rows, ids and subjects they hold, by their own account.

The header is read on its own, so a file that was cut off while it was written can be looked into as well.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit._needles import Form, form_of
from erasable.core.layout import DTYPES, LONGEST_HEADER

_AT_ONCE = 1 << 23  # bytes of rows


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
    """

    meta: dict[str, Any]
    tensors: dict[str, Tensor]
    data: int
    size: int

    @property
    def whole(self) -> bool:
        """Whether the file is as long as its header says, or longer."""
        return all(t.high <= self.size for t in self.tensors.values())

    @property
    def form(self) -> Form | None:
        """How the model makes integers of rows, if it says so."""
        return form_of(self.meta)

    @property
    def rows(self) -> list[Tensor]:
        """The arrays that hold core rows: one with a line for each, three where the rows are sparse, or none."""
        if "rows" in self.tensors:
            found = self.tensors["rows"]
            return [found] if len(found.shape) == 2 and found.shape[1] else []
        sparse = [self.tensors.get(f"rows.{name}") for name in ("data", "indices", "ends")]
        return [t for t in sparse if t is not None and t.dtype == "<i8"] if None not in sparse else []

    @property
    def row_type(self) -> tuple[str, int] | None:
        """As what the stored rows are to be read: type and number of entries. 64-bit integers stand for float64."""
        match self.rows:
            case [one]:
                return "<f8" if one.dtype == "<i8" else one.dtype, one.shape[1]
            case [_, _, _] if isinstance(d := self.meta.get("n_features"), int) and 0 < d < 2**31:
                return "<f8", d
        return None

    def stored_rows(self, fd: int) -> Iterator[tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        """Number of the first, bytes, and (offset, length) in the file, of rows that are wholly there, by the block."""
        if self.row_type is None:
            return
        if len(self.rows) == 3:
            yield from self._sparse_rows(fd, self.row_type[1])
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

    def _sparse_rows(self, fd: int, d: int) -> Iterator[tuple[int, npt.NDArray[np.uint8], npt.NDArray[np.int64]]]:
        values, columns, ends = (self._array(fd, t) for t in self.rows)
        m = min(len(values), len(columns))
        fits = (
            len(ends) and ends[0] == 0 and (np.diff(ends) >= 0).all() and (columns >= 0).all() and (columns < d).all()
        )
        if not fits:
            return
        n = int(np.searchsorted(ends, m, side="right")) - 1  # rows that are wholly there
        step = max(1, _AT_ONCE // (8 * d))
        for i in range(0, n, step):
            k = min(step, n - i)
            low, high = int(ends[i]), int(ends[i + k])
            dense = np.zeros((k, d), dtype="<f8")
            row = np.repeat(np.arange(k), np.diff(ends[i : i + k + 1]))
            dense[row, columns[low:high]] = values[low:high].view("<f8")
            places = np.stack([self.rows[0].low + 8 * ends[i : i + k], 8 * np.diff(ends[i : i + k + 1])], axis=1)
            yield i, dense.view(np.uint8), places

    def keys(self, fd: int, name: str) -> list[tuple[int | bytes, int, int]] | None:
        """Ids or subjects with their offset and length in the file; None where there are none to be read."""
        tensor, ends = self.tensors.get(name), self.tensors.get(name + ".ends")
        if tensor is None or max(tensor.high, ends.high if ends else 0) > self.size:
            return None
        if tensor.dtype == "<i8" and len(tensor.shape) == 1:
            values = self._array(fd, tensor).tolist()
            return [(v, tensor.low + 8 * i, 8) for i, v in enumerate(values)]
        if tensor.dtype != "|u1" or ends is None or ends.dtype != "<i8":
            return None
        blob = os.pread(fd, tensor.high - tensor.low, tensor.low)
        stops = self._array(fd, ends)
        starts = np.concatenate([[0], stops[:-1]]) if len(stops) else stops
        if len(stops) and (starts[0] < 0 or (stops < starts).any() or stops[-1] > len(blob)):
            return None
        pairs = zip(starts.tolist(), stops.tolist(), strict=True)
        return [(blob[a:b], tensor.low + a, b - a) for a, b in pairs]

    @staticmethod
    def _array(fd: int, tensor: Tensor) -> npt.NDArray[Any]:
        data = os.pread(fd, tensor.high - tensor.low, tensor.low)
        return np.frombuffer(data[: len(data) // 8 * 8], "<i8")

    @property
    def without_text(self) -> list[tuple[int, int]]:
        """Stretches of the file in which no text can stand: the header, numbers, and ids that were read one by one."""
        if not self.whole:  # what a header says of bytes that are not there proves nothing about those that are
            return [(0, self.data)]
        names = ("ids", "subjects", "ids.present", "subjects.present")
        known = [(t.low, t.high) for name, t in self.tensors.items() if t.dtype != "|u1" or name in names]
        return [(0, self.data), *known]


def read_header(fd: int, size: int) -> Ours | None:
    """What a file says about itself; None when it is not in our layout."""
    first = os.pread(fd, 8, 0)
    length = int.from_bytes(first, "little")
    if len(first) < 8 or not 2 <= length <= min(LONGEST_HEADER, size - 8):
        return None
    try:
        header = json.loads(os.pread(fd, length, 8).decode())
        meta = json.loads(header.pop("__metadata__")["erasable"])
        tensors = {name: _tensor(entry, 8 + length) for name, entry in header.items()}
    except (AttributeError, KeyError, OverflowError, RecursionError, TypeError, ValueError):
        return None
    return Ours(meta, tensors, 8 + length, size) if isinstance(meta, dict) else None


def _tensor(entry: dict[str, Any], data: int) -> Tensor:
    dtype = DTYPES[entry["dtype"]]
    shape = tuple(int(n) for n in entry["shape"])
    low, high = map(int, entry["data_offsets"])
    if min(shape, default=0) < 0 or low < 0 or high - low != math.prod(shape) * np.dtype(dtype).itemsize:
        raise ValueError("its parts do not fit together")
    return Tensor(dtype, shape, data + low, data + high)
