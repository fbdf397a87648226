"""Bodies of HTTP requests as rows: to predict from, in JSON, and to learn, in JSON Lines or CSV.

Text alone is read: binary formats, such as Arrow streams, may be compressed or refer to one buffer many times, so that
a small body takes all of memory.
"""

from __future__ import annotations

import io
import itertools
import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np

from erasable.errors import ErasableError, InputError
from erasable.models.model import Model
from erasable.operations.schemas import schema_of
from erasable.schemas import Schema
from erasable.service.http.problems import Refused
from erasable.service.http.site import no_constant, unique_keys
from erasable.service.processes import Packed
from erasable.tables import Dialect, TableStream, stream_table
from erasable.validation import pyarrow

JSON_LINES = "application/jsonl"
_BLOCK = 4096  # rows predicted at a time
_LINES, _CELLS = 500, 50_000  # read from one sign of life to the next
_CELL = 8  # bytes
_NUMBERS = 2  # times the bytes of cells: the rows as numbers, with labels, ids and subjects
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")


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
    missing = getattr(model.feature_map, "missing", None) is not None  # null, or an empty cell of CSV
    types = {int, float, bool, type(None)} if missing else {int, float, bool}
    try:
        if not types.issuperset(map(type, itertools.chain.from_iterable(rows))):
            raise InputError("rows must be lists of numbers: a text is none.")
        X = np.array(rows, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError("rows must be lists of numbers, all of one length.") from error
    if X.ndim != 2 or (width is not None and X.shape[1] != width):
        raise InputError(f"rows must be of {width} numbers each.")
    if np.isinf(X).any() or not (missing or np.isfinite(X).all()):
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
    others. ``most_bytes`` bounds the cells of JSON Lines, at 8 bytes each, and twice that all blocks. Raises
    ``Refused`` for another media type (415) or too many rows or bytes (413), ``InputError`` if it cannot be read.
    """
    rows = size = 0
    try:
        with _opened(kind, bytes(body), schema, columns, most_bytes // _CELL, most_rows, progress) as stream:
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


def _opened(
    kind: str,
    body: bytes,
    schema: Schema | None,
    columns: dict[str, Any],
    most_cells: int,
    most_rows: int,
    progress: Callable[..., None],
) -> TableStream:
    if kind == "text/csv":
        # With a dialect, an Arrow stream is refused, which would otherwise be recognised by its first bytes.
        return stream_table(io.BytesIO(body), schema=schema, dialect=Dialect(), **columns)
    if kind in (JSON_LINES, "application/x-ndjson"):
        label = columns.get("label") or next(iter(() if schema is None else schema.names_of("label")), None)
        table = _table_of_lines(body, label, most_cells, most_rows, progress)
        return stream_table(table, schema=schema, **columns)
    raise Refused(415, f"give {JSON_LINES} or text/csv.")


def _table_of_lines(
    body: bytes, label: str | None, most_cells: int, most_rows: int, progress: Callable[..., None]
) -> Any:
    """JSON Lines as an Arrow table, so that one reader reads both forms.

    pyarrow's own reader is not used: deeply nested objects would crash the process.
    """
    pa = pyarrow()
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
        return pa.table(columns)
    except MemoryError:  # also pyarrow's, which is an error of each kind
        raise
    except (pa.ArrowException, ArithmeticError, LookupError, RecursionError, TypeError, ValueError) as error:
        raise InputError(
            "JSON Lines could not be read: one object on each line, with the keys of the first, columns of one type."
        ) from error


def _without_names(text: str, known: Collection[str]) -> str:
    """An error about a table without the names of columns that the model does not have.

    If a table has no line of names, its first row would be quoted as one.
    """
    shown = {repr(name) for name in known}
    text = _QUOTED.sub(lambda found: found[0] if found[0] in shown else "'…'", text)
    return text.replace("standard input", "the body").replace("Arrow data", "the body")


def _check_rows(n: int, most: int) -> None:
    if n > most:
        raise Refused(413, f"at most {most:,} rows are learnt in one request.")
