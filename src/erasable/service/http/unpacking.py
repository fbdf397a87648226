"""How large an Arrow stream is once it is unpacked, asked before it is: a small body can stand for all of memory.

Three ways in which it grows, each bounded here. Buffers may be compressed: how long each of them becomes stands in its
first 8 bytes, and pyarrow allocates that, no more. Several buffers may be the same bytes of the body. And a dictionary,
or a view, may have one long text stand in many rows.

Source: the Arrow columnar format, its IPC part (``Message.fbs``), and the layout of FlatBuffers.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.arrow import BYTES, TEXTS, is_kind, pyarrow
from erasable.errors import ErasableError, InputError
from erasable.service.http.problems import Refused

_LISTS = ("list", "large_list", "fixed_size_list")
_TEXT = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
_FLAT = ("null", "boolean", "integer", "floating", "decimal", "temporal")


def is_arrow(body: bytes) -> bool:
    """Whether a body is read as an Arrow stream, whatever it is said to be."""
    return body.startswith(b"\xff\xff\xff\xff")


def check_unpacked(body: bytes, most_bytes: int, most_rows: int) -> None:
    """Refuse an Arrow stream that is more, unpacked, than so many bytes or rows.

    *Cost*: the memory of one batch, once its size is known to be bounded.

    Raises
    ------
    Refused
        413.
    InputError
        When it is no such stream.
    """
    pa = pyarrow()
    try:
        size = 0
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            size += _unpacked_bytes(message)
            _few(size, most_bytes, "bytes")
        size = rows = 0
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            for batch in reader:
                rows += batch.num_rows
                _few(rows, most_rows, "rows")
                batch.validate()  # that buffers are long enough; what is in them is looked at by whoever reads them
                size += sum(_text_bytes(column) for column in batch.columns)
                _few(size, most_bytes, "bytes")
    except ErasableError:
        raise
    except (pa.ArrowException, ArithmeticError, LookupError, OSError, ValueError, struct.error) as error:
        raise InputError("this is no Arrow stream that can be read: write it with pyarrow.ipc.new_stream.") from error


def _few(n: int, most: int, what: str) -> None:
    if n > most:
        raise Refused(413, f"the Arrow stream unpacks to more than the {most:,} {what} that are read at once.")


class _Table:
    """A table of a FlatBuffer: where it is, and where its fields are."""

    def __init__(self, data: bytes, at: int) -> None:
        self.data, self.at = data, at
        self._fields = at - self._number("<i", at)
        self._end = self._fields + self._number("<H", self._fields)

    def _number(self, form: str, at: int) -> int:
        if at < 0:  # struct would count from the end
            raise ValueError
        return int(struct.unpack_from(form, self.data, at)[0])

    def place(self, field: int) -> int | None:
        """Where a field is; None where it has its default."""
        entry = self._fields + 4 + 2 * field
        offset = self._number("<H", entry) if entry + 2 <= self._end else 0
        return self.at + offset if offset else None

    def number(self, field: int, form: str) -> int:
        """A number, by default 0."""
        place = self.place(field)
        return 0 if place is None else self._number(form, place)

    def behind(self, field: int) -> int | None:
        """Where that is which a field refers to."""
        place = self.place(field)
        return None if place is None else place + self._number("<I", place)

    def table(self, field: int) -> _Table:
        """The table that a field refers to."""
        at = self.behind(field)
        if at is None:
            raise ValueError
        return _Table(self.data, at)


def _unpacked_bytes(message: Any) -> int:
    """How many bytes the buffers of a message are, unpacked."""
    data = bytes(message.metadata)
    root = _Table(data, struct.unpack_from("<I", data, 0)[0])
    kind = root.number(1, "<B")  # header_type
    if kind not in (2, 3):  # a schema has no buffers
        return 0
    header = root.table(2)
    batch = header.table(1) if kind == 2 else header  # that of a dictionary is in its ``data``
    at = batch.behind(2)  # buffers: offset and length, 8 bytes each
    if at is None:
        return 0
    n = struct.unpack_from("<I", data, at)[0]
    spans = np.frombuffer(data, dtype="<i8", count=2 * n, offset=at + 4).reshape(n, 2)
    if batch.place(3) is None:  # no compression
        return int(sum(map(int, spans[:, 1])))
    body, total = message.body, 0
    for offset, length in spans.tolist():
        if length < 8:  # an empty one has no length of its own
            continue
        unpacked = struct.unpack("<q", bytes(body.slice(offset, 8)))[0]
        total += length if unpacked == -1 else unpacked  # -1: this one is not compressed
        if unpacked < -1:
            raise ValueError
    return total


def _text_bytes(column: Any) -> int:
    """How many bytes the cells of a column are that can be many times the same: texts."""
    kind = column.type
    if is_kind(kind, *_LISTS):
        return _text_bytes(column.values)
    if is_kind(kind, "struct"):
        return sum(_text_bytes(column.field(i)) for i in range(kind.num_fields))
    if is_kind(kind, *_FLAT):
        return 0
    return int(np.maximum(_lengths(column), 0).sum())


def _lengths(column: Any) -> npt.NDArray[np.int64]:
    """How many bytes each cell of a column of texts is; 0 where it is missing."""
    pa, kind = pyarrow(), column.type
    if is_kind(kind, "dictionary"):
        if is_kind(kind.value_type, *_FLAT):
            return np.zeros(0, np.int64)
        index = np.asarray(column.indices.drop_null().to_numpy(zero_copy_only=False), dtype=np.intp)
        return _lengths(column.dictionary)[index]
    if is_kind(kind, *_TEXT):
        found = pa.compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(found, dtype=np.int64)
    if is_kind(kind, *TEXTS, *BYTES):  # views: 16 bytes each, a length first
        views = np.frombuffer(column.buffers()[1], dtype="<i4")[4 * column.offset :: 4]
        return views[: len(column)].astype(np.int64)
    raise InputError(
        "a column is of a type that is not read here: send numbers, texts, dictionaries or lists of these."
    )
