"""Look for remains of the rows of a table: which rows, ids and identifying cells to search for.

Most cells identify nobody: ages, towns and amounts are everywhere. Searched for are texts of eight bytes or more, and
numbers of seven significant digits or more; shorter ones are counted.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.audit.scan import ScanColumns, ScanReport, scan
from erasable.core.layout import read_meta
from erasable.errors import ConfigurationError, InputError, StateFormatError
from erasable.models.configuration import describe_map, described_map
from erasable.models.files import read_header
from erasable.operations.schemas import raw_table
from erasable.schemas import Category, Number, Role, Schema, Text, canonical_text
from erasable.tables import Dialect, Table, files_of, load_table, nameless_form, stream_table
from erasable.validation import ARROW_TEXTS, is_kind

_Path = str | os.PathLike[str]
_TEXT_BYTES = 8  # of a text that is unlikely elsewhere by chance
_DIGITS = 7  # of such a number, without zeros at its ends
_CELLS_PER_ROW = 16
_CELLS_IN_ALL = 200_000  # unless there are more rows
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


def scan_for(
    folder: _Path,
    table_path: _Path | Sequence[_Path],
    *,
    label: str | None = None,
    id: str | None = None,
    subject: str | Sequence[str] | None = None,
    ignore: Sequence[str] = (),
    schema: Schema | _Path | None = None,
    exclude: Sequence[str] = (),
    dialect: Dialect | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    r"""Return what is left of the rows of a table in the files below a folder; ``docs/scan.md`` says what is found.

    Raises InputError, InputTypeError or ConfigurationError if the folder or the table is missing or cannot be used.

    Parameters
    ----------
    folder, table_path : str, path; the latter also a list of these
        Where to search, and the rows: a CSV, Parquet, NumPy or SVMlight file, which is not searched itself.
    label, id, subject, ignore : str, optional; the last two also sequences
        Columns of labels (which may be missing), of ids, of subjects that are searched for too, and columns that
        are no features. Without ids, stored rows with the same features count as remains.
    schema : Schema or path, optional
        Of a raw table. By default that of the models, if they agree.
    exclude, dialect, progress
        Glob patterns of paths that are not searched, how CSV text is written, a function of (bytes done, bytes in all).

    Examples
    --------
    >>> import tempfile, pathlib
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     table = pathlib.Path(folder, "gone.csv")
    ...     size = table.write_text("age,weight,who\n41,80.5,ann-lee\n52,71,bob-ray\n")
    ...     size = pathlib.Path(folder, "service.log").write_text("predicted for bob-ray\n")
    ...     scan_for(folder, table, id="who").remains
    (Remain(file='service.log', offset=14, length=7, what='id', row=1),)
    """
    given = {"label": label, "id": id, "subject": subject, "dialect": dialect}
    rows, encoder = _encoded_rows(folder, table_path, given, ignore, schema)
    X = rows.numbers if isinstance(rows.numbers, np.ndarray) else rows.numbers.toarray()
    cells = (
        numbers_of(X)
        if encoder is None
        else cells_of(encoder, raw_table(table_path, dialect, [column.name for column in encoder.columns]))
    )
    subjects = (subject,) if isinstance(subject, str) else tuple(subject or ())
    report = scan(
        folder,
        X,
        ids=rows.ids,
        subjects=rows.subjects,
        skip=files_of(table_path),
        exclude=exclude,
        progress=progress,
        columns=ScanColumns(rows.feature_names, id, subjects, getattr(rows.X, "raw", None)),
        feature_map=None if encoder is None else describe_map(encoder, None),
        texts={"cell": cells.texts, "number": cells.numbers},
    )
    return replace(report, too_short=report.too_short | cells.left_out)


# -- rows ----------------------------------------------------------------------------------------------------------


def _encoded_rows(
    folder: _Path,
    table: _Path | Sequence[_Path],
    given: dict[str, Any],
    ignore: Sequence[str],
    asked: Schema | _Path | None,
) -> tuple[Table, Schema | None]:
    """Return the rows of the table, and the schema that encoded them if there is one."""
    schema = _schema(folder, asked)
    if schema is not None and any("raw_columns" in meta for meta in _headers(Path(folder))):
        schema = schema.keeping_raw  # models with learners store rows as they were read
    if schema is not None:
        # A table of other columns than the models' is searched for as it is.
        unfit = nullcontext() if asked is not None else suppress(InputError, ConfigurationError)
        with unfit, stream_table(table, labelled=False, schema=schema, **given) as stream:
            return stream.read(), schema
    return _plain_rows(folder, table, given, ignore), None


def _schema(folder: _Path, asked: Schema | _Path | None) -> Schema | None:
    """Return the given schema, or the one that all models below the folder with a schema share."""
    if asked is not None:
        return asked if isinstance(asked, Schema) else Schema.load(asked)
    found = {meta["feature_map"] for meta in _headers(Path(folder)) if isinstance(meta.get("feature_map"), str)}
    schemas = []
    for text in found:
        with suppress(ConfigurationError, StateFormatError, KeyError, TypeError):
            schemas.append(Schema.parse(described_map(text)["map"]["text"]))
    return schemas[0] if len(schemas) == 1 else None


def _plain_rows(folder: _Path, table: _Path | Sequence[_Path], given: dict[str, Any], ignore: Sequence[str]) -> Table:
    """Return the rows of the table, with the features that models below the folder name, if they agree."""
    given = {**given, "label": given["label"] or "label"}
    known = {tuple(m["feature_names"]) for m in _headers(Path(folder)) if isinstance(m.get("feature_names"), list)}
    if len(known) == 1 and nameless_form(table) is None:
        with suppress(InputError, ConfigurationError):  # a table of other columns is searched for as it is
            return load_table(table, features=known.pop(), labelled=False, **given)
    return load_table(table, ignore=ignore, labelled=False, **given)


def _headers(folder: Path) -> Iterator[dict[str, Any]]:
    """Yield the metadata of all models below a folder."""
    for path in sorted(folder.rglob("*.erasable")):
        with suppress(OSError, StateFormatError):
            yield read_meta(read_header(path)[0])


# -- identifying cells ---------------------------------------------------------------------------------------------


@dataclass
class IdentifyingCells:
    """Cells to search for as text, and how many are left out."""

    n_rows: int
    # texts, numbers: numbers in all their spellings.
    texts: list[tuple[int, str]] = field(default_factory=list)
    numbers: list[tuple[int, str]] = field(default_factory=list)
    # How many ``"texts"`` and ``"numbers"`` are too short, and how many ``"cells"`` are too many.
    left_out: dict[str, int] = field(default_factory=lambda: {"texts": 0, "numbers": 0, "cells": 0})

    def __post_init__(self) -> None:
        self.per_row = min(_CELLS_PER_ROW, max(1, _CELLS_IN_ALL // max(1, self.n_rows)))
        self._free = np.full(self.n_rows, self.per_row)

    def add_text(self, row: int, text: str) -> None:
        """Add a text, unless it is too short or the row has enough."""
        if len(text.encode("utf-8", "surrogatepass")) < _TEXT_BYTES:
            self.left_out["texts"] += 1
        elif self._takes(row):
            self.texts.append((row, text))

    def add_number(self, row: int, value: float, written: str | None = None) -> None:
        """Add a number, unless it is too short or the row has enough."""
        if _digits(canonical_text(value, 1)) < _DIGITS:
            self.left_out["numbers"] += 1
        elif self._takes(row):
            self.numbers += ((row, text) for text in spellings(value, written))

    def _takes(self, row: int) -> bool:
        taken = bool(self._free[row] > 0)
        self._free[row] -= taken
        self.left_out["cells"] += not taken
        return taken


def spellings(value: float, written: str | None = None) -> set[str]:
    """Return how a number is written in CSV, JSON and logs, and how it stands in the table.

    These are the shortest text that reads back as the same float64, that of the nearest float32 and, if that is the
    same number, one or two decimals: 2156461, 2156461.0 and 2156461.00; 1234567.5 and 1234567.50.
    """
    found = {canonical_text(value), canonical_text(value, 1), *([] if written is None else [written])}
    number = float(value)
    with np.errstate(over="ignore"):
        single = canonical_text(float(str(np.float32(number))), 1)
    if _digits(single) >= _DIGITS:
        found.add(single)
    if abs(number) < 2**53:
        found |= {text for text in (f"{number:.1f}", f"{number:.2f}") if float(text) == number}
    return found


def _digits(text: str) -> int:
    """Return the number of significant digits of a number."""
    return len(text.lower().partition("e")[0].replace(".", "").lstrip("+-").strip("0"))


def numbers_of(X: npt.NDArray[Any]) -> IdentifyingCells:
    """Return the identifying cells of a table of numbers."""
    found = IdentifyingCells(len(X))
    digits = 10.0 ** (_DIGITS - 2)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        sizes = np.abs(X.astype(np.float64))
        scaled = sizes * 10.0 ** -np.floor(np.log10(sizes)) * digits  # one digit less than needed before the point
        near = np.abs(scaled - np.rint(scaled)) < (0.07 if X.dtype == np.float32 else 1e-6)
    long = ~near & np.isfinite(scaled)
    taken = long & (np.cumsum(long, axis=1) <= found.per_row)
    found.left_out["numbers"] += int(np.count_nonzero(~long))
    found.left_out["cells"] += int(np.count_nonzero(long & ~taken))
    for row, column in np.argwhere(taken).tolist():
        value = X[row, column]
        found.add_number(row, float(str(value)) if X.dtype == np.float32 else float(value), repr(float(value)))
    return found


def cells_of(schema: Schema, table: Any) -> IdentifyingCells:
    """Return the identifying cells of a raw table, each cell of a column once.

    Of columns of numbers, texts, hashed categories and ignored ones these are all cells; of listed categories those
    that are not listed. Many people share levels, yes and no, dates and times.
    """
    found = IdentifyingCells(table.num_rows)
    for name in table.column_names:
        kind = schema.by_name.get(name)
        ignored = isinstance(kind, Role) and kind.role == "ignore"
        if not (ignored or isinstance(kind, Number | Text | Category)):
            continue
        listed = set(getattr(kind, "values", None) or ())
        for row, cell in _distinct_cells(table.column(name)):
            if not isinstance(cell, str):
                if canonical_text(cell, schema.version) not in listed:
                    found.add_number(row, cell)
                continue
            text = cell.strip()
            if text.lower() in schema.missing or canonical_text(text, schema.version) in listed:
                continue
            if _NUMBER.fullmatch(text) and (isinstance(kind, Number) or _digits(text) >= _DIGITS):
                found.add_number(row, int(text) if text.lstrip("+-").isdigit() else float(text), text)
            else:
                found.add_text(row, text)
    return found


def _distinct_cells(column: Any) -> Iterator[tuple[int, str | float]]:
    """Yield the texts and finite numbers of a column, each with the first row that has it."""
    if not is_kind(column.type, "integer", "floating", *ARROW_TEXTS):
        return
    single = is_kind(column.type, "float32", "float16")
    seen: set[Any] = set()
    for row, cell in enumerate(column.to_pylist()):
        if cell is None or cell in seen or (isinstance(cell, float) and not np.isfinite(cell)):
            continue
        seen.add(cell)
        yield row, float(str(np.float32(cell))) if single else cell
