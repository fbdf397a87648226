"""Rows to be learnt as they come in over HTTP: JSON Lines, CSV or an Arrow stream, read a block at a time."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Collection
from typing import Any

from erasable.arrow import pyarrow
from erasable.errors import ErasableError, InputError
from erasable.schemas import Schema
from erasable.service.beside import Parcel
from erasable.service.http.problems import Refused
from erasable.service.http.tables import no_constant, unique_keys
from erasable.service.http.unpacking import check_unpacked, is_arrow
from erasable.tables import stream_table

ARROW, JSON_LINES = "application/vnd.apache.arrow.stream", "application/jsonl"
_LINES, _CELLS = 500, 50_000  # read from one sign of life to the next
_CELL = 8  # bytes
_NUMBERS = 2  # times what a stream may be once it is unpacked: what its rows may be as numbers; a bit becomes one
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


def read_blocks(
    kind: str,
    body: Parcel,
    schema: Schema | None,
    columns: dict[str, Any],
    known: Collection[str],
    most_bytes: int,
    most_rows: int,
    progress: Callable[..., None],
) -> None:
    """Read a body, and hand on its blocks; see ``ErasureService.read``.

    Parameters
    ----------
    kind : str
        Its media type.
    body : Parcel
    schema, columns
        As ``stream_table`` takes them.
    known : collection of str
        Names of columns that an error may quote: those of the model.
    most_bytes, most_rows : int
        What an Arrow stream may be once it is unpacked, which bounds all blocks too, and how many rows they may be.
    progress : callable

    Raises
    ------
    Refused
        Of another kind, or too large.
    InputError
        It cannot be read.
    """
    data = bytes(body)
    if kind in (JSON_LINES, "application/x-ndjson"):
        data = _arrow_of_lines(data, most_bytes // _CELL, most_rows, progress)
    elif kind not in (ARROW, "text/csv"):
        raise Refused(415, f"give {JSON_LINES}, text/csv or {ARROW}.")
    if is_arrow(data):
        check_unpacked(data, most_bytes, most_rows)
    rows = size = 0
    try:
        with stream_table(io.BytesIO(data), schema=schema, **columns) as stream:
            for block in stream:
                rows += len(block.y)
                _few(rows, most_rows)
                parcel = Parcel.of(block)
                size += len(parcel)
                if size > (most := _NUMBERS * most_bytes):
                    raise Refused(413, f"the rows are more than {most:,} bytes as numbers: send fewer.")
                progress(parcel)
    except UnicodeError:  # in names of columns; its text quotes them
        raise InputError("the table could not be read: it has names that are not UTF-8.") from None
    except ErasableError as error:
        raise InputError(_discreet(str(error), known)) from error


def _arrow_of_lines(body: bytes, most_cells: int, most_rows: int, progress: Callable[..., None]) -> bytes:
    """JSON Lines as an Arrow stream, so that one reader reads both.

    Not by pyarrow's own reader: objects within objects, deep enough, would be the end of the process.
    """
    pa, out = pyarrow(), io.BytesIO()
    try:
        objects: list[Any] = []
        for i, line in enumerate(io.BytesIO(body)):
            if i % _LINES == 0:
                progress()
            if not line.isspace():
                _few(len(objects) + 1, most_rows)
                objects.append(json.loads(line, parse_constant=no_constant, object_pairs_hook=unique_keys))
        if any(not isinstance(one, dict) or not one.keys() <= objects[0].keys() for one in objects):
            raise ValueError("other keys than the first line")
        if len(objects[0]) * len(objects) > most_cells:  # also of lines that lack most of them
            raise Refused(413, f"at most {most_cells:,} cells are learnt in one request: send fewer rows.")
        columns, since = {}, 0
        for name in objects[0]:
            columns[name] = pa.array([one.get(name) for one in objects])
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


def _discreet(text: str, known: Collection[str]) -> str:
    """What is wrong with a table, less names of columns that the model does not have.

    Of a table without a line of names, its first row is taken for one.
    """
    shown = {repr(name) for name in known}
    text = _QUOTED.sub(lambda found: found[0] if found[0] in shown else "'…'", text)
    return text.replace("standard input", "the body")


def _few(n: int, most: int) -> None:
    if n > most:
        raise Refused(413, f"at most {most:,} rows are learnt in one request.")
