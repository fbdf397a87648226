"""Bodies of HTTP requests as rows: to predict from, in JSON, and to learn, in JSON Lines, CSV or Arrow.

A small Arrow body can unpack to all of memory, so its unpacked size is computed first. It can grow in three ways.
Buffers may be compressed: the unpacked length of each is in its first 8 bytes, and pyarrow allocates that and no more.
Several buffers may be the same bytes of the body. And a dictionary, or a view, may repeat one long text in many rows.
Source: the Arrow columnar format, its IPC part (``Message.fbs``), and the layout of FlatBuffers.
"""

from __future__ import annotations

import io
import itertools
import json
import re
import struct
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import ErasableError, InputError
from erasable.models.model import Model
from erasable.operations.schemas import schema_of
from erasable.schemas import Schema
from erasable.service.http.problems import Refused
from erasable.service.http.site import no_constant, unique_keys
from erasable.service.processes import Packed
from erasable.tables import stream_table
from erasable.validation import ARROW_BYTES, ARROW_TEXTS, is_kind, pyarrow

ARROW, JSON_LINES = "application/vnd.apache.arrow.stream", "application/jsonl"
_BLOCK = 4096  # rows predicted at a time
_LINES, _CELLS = 500, 50_000  # read from one sign of life to the next
_CELL = 8  # bytes
_NUMBERS = 2  # the bytes of rows as numbers, at most, by the bytes of the unpacked stream; a bit becomes one
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_LISTS = ("list", "large_list", "fixed_size_list")
_TEXT = ("string", "large_string", "binary", "large_binary", "fixed_size_binary")
_FLAT = ("null", "boolean", "integer", "floating", "decimal", "temporal")


# -- rows to predict from ----------------------------------------------------------------------------------------


def columns_of(model: Model) -> list[str] | None:
    """The columns that a model finds by name; None if it takes them by position."""
    schema = schema_of(model)
    if schema is not None:
        return [column.name for column in schema.features]
    return None if model.feature_names is None else list(model.feature_names)


def rows_of_table(model: Model, table: Mapping[str, Sequence[Any]]) -> Any:
    """A table of named columns as rows that the model predicts from; ``InputError`` if it does not fit."""
    names = columns_of(model) or list(table)
    if missing := [name for name in names if name not in table]:
        raise InputError(
            f"{len(missing)} of {len(names)} columns that the model needs are missing: /v2/models/{{name}} lists them."
        )
    if len({len(table[name]) for name in names}) > 1:
        raise InputError("the columns are of different lengths.")
    if schema_of(model) is not None:
        return _encoded(model, {name: list(table[name]) for name in names})
    return rows_of_numbers(model, [list(row) for row in zip(*(table[name] for name in names), strict=True)])


def rows_of_numbers(model: Model, rows: Any) -> Any:
    """Lists of numbers as rows that the model predicts from; ``InputError`` if they do not fit."""
    names, width = columns_of(model), model.n_features
    if schema_of(model) is not None:
        assert names is not None
        if any(not isinstance(row, list) or len(row) != len(names) for row in rows):
            raise InputError(f"each row must have the {len(names)} columns of the model's schema, in its order.")
        return _encoded(model, {name: [row[j] for row in rows] for j, name in enumerate(names)})
    try:
        if not {int, float, bool}.issuperset(map(type, itertools.chain.from_iterable(rows))):
            raise InputError("rows must be lists of numbers: a text is none.")
        X = np.array(rows, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError("rows must be lists of numbers, all of one length.") from error
    if X.ndim != 2 or (width is not None and X.shape[1] != width):
        raise InputError(f"rows must be of {width} numbers each.")
    if not np.isfinite(X).all():
        raise InputError("rows must be of finite numbers.")
    return X


def _encoded(model: Model, table: dict[str, list[Any]]) -> Any:
    schema = schema_of(model)
    assert schema is not None
    try:
        return schema.prepared(table)
    except OverflowError:
        raise InputError("a cell is a number that is larger than float64 has.") from None


def predicted(
    model: Model, rows: Any, stop: Callable[[], None] = lambda: None
) -> tuple[list[Any], list[list[float]] | None]:
    """Predictions, and the probability of every class if the model classifies; ``stop`` is called between blocks."""
    answers: list[Any] = []
    shares: list[list[float]] = []
    for low in range(0, max(1, rows.shape[0]), _BLOCK):
        stop()
        scores = model.decision(rows[low : low + _BLOCK])
        answers += model.predictions_for_scores(scores).tolist()
        shares += model.probabilities_for_scores(scores).tolist() if model.classifies else []
    return answers, shares if model.classifies else None


# -- rows to learn -----------------------------------------------------------------------------------------------


def read_blocks(
    kind: str,
    body: Packed,
    schema: Schema | None,
    columns: dict[str, Any],
    known: Collection[str],
    most_bytes: int,
    most_rows: int,
    progress: Callable[..., None],
) -> None:
    """Read a body and pass its blocks to ``progress``; see ``ErasureService.read``.

    ``schema`` and ``columns`` are those of ``stream_table``. An error may quote the ``known`` names of columns and no
    others. ``most_bytes`` bounds an unpacked Arrow stream, and all blocks. Raises ``Refused`` for another media type
    (415) or too many rows or bytes (413), ``InputError`` if it cannot be read.
    """
    data = bytes(body)
    if kind in (JSON_LINES, "application/x-ndjson"):
        label = columns.get("label") or next(iter(() if schema is None else schema.names_of("label")), None)
        data = _arrow_of_lines(data, label, most_bytes // _CELL, most_rows, progress)
    elif kind not in (ARROW, "text/csv"):
        raise Refused(415, f"give {JSON_LINES}, text/csv or {ARROW}.")
    if data.startswith(b"\xff\xff\xff\xff"):  # read as an Arrow stream, whatever its media type
        check_unpacked(data, most_bytes, most_rows)
    rows = size = 0
    try:
        with stream_table(io.BytesIO(data), schema=schema, **columns) as stream:
            if stream.typed and columns.get("kinds"):
                raise InputError("id_type, subject_type and label_type are for CSV: leave them out.")
            for block in stream:
                rows += len(block.y)
                _check_rows(rows, most_rows)
                packed = Packed.of(block)
                size += len(packed)
                if size > (most := _NUMBERS * most_bytes):
                    raise Refused(413, f"the rows are more than {most:,} bytes as numbers: send fewer.")
                progress(packed)
    except UnicodeError:  # in names of columns; its text quotes them
        raise InputError("the table could not be read: it has names that are not UTF-8.") from None
    except ErasableError as error:
        raise InputError(_without_names(str(error), known)) from error


def _arrow_of_lines(
    body: bytes, label: str | None, most_cells: int, most_rows: int, progress: Callable[..., None]
) -> bytes:
    """JSON Lines as an Arrow stream, so that one reader reads both.

    pyarrow's own reader is not used: deeply nested objects would crash the process.
    """
    pa, out = pyarrow(), io.BytesIO()
    try:
        objects: list[Any] = []
        for i, line in enumerate(io.BytesIO(body)):
            if i % _LINES == 0:
                progress()
            if not line.isspace():
                _check_rows(len(objects) + 1, most_rows)
                objects.append(json.loads(line, parse_constant=no_constant, object_pairs_hook=unique_keys))
        if any(not isinstance(one, dict) or not one.keys() <= objects[0].keys() for one in objects):
            raise ValueError("other keys than the first line")
        if len(objects[0]) * len(objects) > most_cells:  # also of lines that lack most of them
            raise Refused(413, f"at most {most_cells:,} cells are learnt in one request: send fewer rows.")
        columns, since = {}, 0
        for name in objects[0]:
            cells = [one.get(name) for one in objects]
            if name == label and len({*map(type, cells)} & {int, float}) > 1:
                # As decimals, whole labels would show that there was another one.
                raise ValueError("labels of two types")
            columns[name] = pa.array(cells)
            since += len(objects)
            if since >= _CELLS:
                progress()
                since = 0
        table = pa.table(columns)
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table)
    except (pa.ArrowException, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            "JSON Lines could not be read: one object on each line, with the keys of the first, columns of one type."
        ) from error
    return out.getvalue()


def _without_names(text: str, known: Collection[str]) -> str:
    """An error about a table without the names of columns that the model does not have.

    If a table has no line of names, its first row would be quoted as one.
    """
    shown = {repr(name) for name in known}
    text = _QUOTED.sub(lambda found: found[0] if found[0] in shown else "'…'", text)
    return text.replace("standard input", "the body")


def _check_rows(n: int, most: int) -> None:
    if n > most:
        raise Refused(413, f"at most {most:,} rows are learnt in one request.")


# -- the unpacked size of an Arrow stream ------------------------------------------------------------------------


def check_unpacked(body: bytes, most_bytes: int, most_rows: int) -> None:
    """Refuse (413) an Arrow stream that unpacks to more bytes or rows; ``InputError`` if it is no such stream.

    *Cost*: the memory of one batch, once its size is known to be bounded.
    """
    pa = pyarrow()
    try:
        size = 0
        for message in pa.ipc.MessageReader.open_stream(pa.BufferReader(body)):
            size += _unpacked_bytes(message)
            _check_size(size, most_bytes, "bytes")
        size = rows = 0
        with pa.ipc.open_stream(pa.BufferReader(body)) as reader:
            for batch in reader:
                rows += batch.num_rows
                _check_size(rows, most_rows, "rows")
                batch.validate()  # the lengths of buffers; their content is checked by the reader
                size += sum(_text_bytes(column) for column in batch.columns)
                _check_size(size, most_bytes, "bytes")
    except ErasableError:
        raise
    except (pa.ArrowException, ArithmeticError, LookupError, OSError, ValueError, struct.error) as error:
        raise InputError("this is no Arrow stream that can be read: write it with pyarrow.ipc.new_stream.") from error


def _check_size(n: int, most: int, what: str) -> None:
    if n > most:
        raise Refused(413, f"the Arrow stream unpacks to more than the {most:,} {what} that are read at once.")


class _FlatTable:
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
        """Where a field is; None if it has its default."""
        entry = self._fields + 4 + 2 * field
        offset = self._number("<H", entry) if entry + 2 <= self._end else 0
        return self.at + offset if offset else None

    def byte(self, field: int) -> int:
        """A number of one byte, by default 0."""
        place = self.place(field)
        return 0 if place is None else self._number("<B", place)

    def reference(self, field: int) -> int | None:
        """The place that a field refers to."""
        place = self.place(field)
        return None if place is None else place + self._number("<I", place)

    def table(self, field: int) -> _FlatTable:
        """The table that a field refers to."""
        at = self.reference(field)
        if at is None:
            raise ValueError
        return _FlatTable(self.data, at)


def _unpacked_bytes(message: Any) -> int:
    """The unpacked bytes of all buffers of a message."""
    data = bytes(message.metadata)
    root = _FlatTable(data, struct.unpack_from("<I", data, 0)[0])
    kind = root.byte(1)  # header_type
    if kind not in (2, 3):  # a schema has no buffers
        return 0
    header = root.table(2)
    batch = header.table(1) if kind == 2 else header  # that of a dictionary is in its ``data``
    at = batch.reference(2)  # buffers: offset and length, 8 bytes each
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
    """The bytes of all cells of a column that may repeat one buffer: texts."""
    kind = column.type
    if is_kind(kind, *_LISTS):
        return _text_bytes(column.values)
    if is_kind(kind, "struct"):
        return sum(_text_bytes(column.field(i)) for i in range(kind.num_fields))
    if is_kind(kind, *_FLAT):
        return 0
    return int(np.maximum(_lengths(column), 0).sum())


def _lengths(column: Any) -> npt.NDArray[np.int64]:
    """The bytes of each cell of a column of texts; 0 if it is missing."""
    pa, kind = pyarrow(), column.type
    if is_kind(kind, "dictionary"):
        if is_kind(kind.value_type, *_FLAT):
            return np.zeros(0, np.int64)
        index = np.asarray(column.indices.drop_null().to_numpy(zero_copy_only=False), dtype=np.intp)
        return _lengths(column.dictionary)[index]
    if is_kind(kind, *_TEXT):
        found = pa.compute.binary_length(column).fill_null(0).to_numpy(zero_copy_only=False)
        return np.asarray(found, dtype=np.int64)
    if is_kind(kind, *ARROW_TEXTS, *ARROW_BYTES):  # views: 16 bytes each, a length first
        views = np.frombuffer(column.buffers()[1], dtype="<i4")[4 * column.offset :: 4]
        return views[: len(column)].astype(np.int64)
    raise InputError(
        "a column is of a type that is not read here: send numbers, texts, dictionaries or lists of these."
    )
