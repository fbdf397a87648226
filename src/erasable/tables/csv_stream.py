"""Tables in CSV text: files, plain or compressed, and pipes. Parsed by pyarrow.

The first line holds the names of columns, unless the dialect says otherwise. A first line that looks like a row is
refused, since its cells would go into public schemas; so are numbers with marks that the dialect does not name, since
they would be taken for texts.

Text has no types. Features and targets are numbers in all rows. Labels, ids and subjects are texts, spelt as they
stand, unless the caller or a schema states another type: a type that followed from the cells would be a trace of rows.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import partial
from itertools import chain, pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from erasable.errors import ErasableError, InputError
from erasable.models.row_source import Rows, RowSource
from erasable.schemas import Number
from erasable.schemas.cells import parse_number
from erasable.tables.arrow_rows import ArrowStream, checked_targets, columns_of, encoded_bytes, not_numeric, regrouped
from erasable.tables.columns import Kinds, Roles, fits, read_texts
from erasable.tables.reading import listed, read_or_refuse
from erasable.tables.text import THOUSANDS, Dialect, open_text, whole_rows
from erasable.validation import ARROW_NUMBERS, ArrowBatch, ArrowColumn, ArrowSchema, ArrowTable, is_kind, pyarrow

TEXT_BLOCK = 2**20  # bytes that are parsed at once: a block of ours is put together from these
_AT = re.compile(r"CSV column #(\d+)")
_CELLS = re.compile(r"Expected (\d+) columns, got (\d+)")
_LOOKED_AT = 1000  # rows, at most, from which it is seen whether the first line holds names
_SWAPPED = str.maketrans(",.", ".,")
_NUMBER_WITH = r"^[ \t\n\r\v\f]*[+-]?([0-9]+{0}[0-9]*|{0}[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\r\v\f]*$"
_WANTED = {int: "integers", bool: "true or false", float: "numbers"}
_NUMBER = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*")
_PLAIN = re.compile(r"0|[1-9][0-9]*")
_COUNTED, _YEARS = 3, range(1900, 2101)
_MISSING = {"", "#n/a", "<na>", "?", "n/a", "na", "nan", "nat", "none", "null"}


class CsvStream(ArrowStream):
    """CSV text of a file, or of a ``pipe`` in UTF-8; ``path`` is what messages call it.

    ``kinds`` are the types of labels, ids and subjects.
    """

    typed = False

    def __init__(
        self, path: Path, name: str, roles: Roles, kinds: Kinds, dialect: Dialect, pipe: BinaryIO | None = None
    ) -> None:
        self._path, self._kinds, self.once = path, {**kinds, "weight": float}, pipe is not None
        self._dialect, self._shown = dialect, list[str]()
        self._keys = {*roles.given.get("id", ()), *roles.given.get("subject", ())}
        self._pipe: Iterator[bytes] | None = None if pipe is None else self._rows_of(pipe)
        schema, self._names, first = self._first_block(roles)
        # By place when the first line may hold a row instead of names.
        by_place = any(map(is_number, self._names))
        self._shown = [f"column {j}" if by_place else repr(n) for j, n in enumerate(self._names)]
        self._check_first_rows(schema, roles, first)
        columns = columns_of(schema, roles, path, self._shown, text_targets=True)
        # What follows the first block has to be the same kind of number.
        kind_of = {f: "bool" if f in columns.booleans else "float64" for f in columns.features}
        kind_of = dict.fromkeys(columns.features, "string") if roles.untyped else kind_of
        self._convert = self._converted(columns.roles, kind_of, include=True)
        row_bytes = encoded_bytes(roles) if roles.untyped else 8 * len(columns.features)
        super().__init__(path, name, columns, row_bytes + 64 * len(columns.roles.columns))

    def _first_block(self, roles: Roles) -> tuple[ArrowSchema, list[str], bytes]:
        """The names and types of columns, as the first block shows them, and its text."""

        def look() -> bytes:
            parts = self._parts()
            first = next(parts, b"")
            if self.once:
                self._pipe = chain([first], parts)
            else:
                parts.close()
            return first

        def read() -> tuple[ArrowSchema, list[str]]:
            schema = self._table(first, self._converted(roles, {}, include=False), self._names_given(first)).schema
            return schema, schema.names  # pyarrow decodes names when they are asked for

        first = self._refused(look)
        return *self._refused(read, first), first

    def _names_given(self, first: bytes) -> Sequence[str] | None:
        """The names of the columns, where the first line does not hold them."""
        given = self._dialect.columns
        if given is None and self._dialect.header is not False:
            return None
        n = self._parsed(first, None, []).num_columns
        if given is not None and n != len(given):
            raise InputError(f"{self._path.name}: columns= has {len(given)} names, and the first row has {n} cells.")
        return given or [f"column_{j}" for j in range(1, n + 1)]

    def _check_first_rows(self, schema: ArrowSchema, roles: Roles, text: bytes) -> None:
        """Refuse a first line that looks like a row, unless it has names the caller gave; and odd numbers."""
        names, dialect = self._names, self._dialect
        wanted = [*roles.columns, *roles.ignore, *(roles.features or ())]
        known = any(name in names and not is_number(name) for name in (*wanted, *roles.named))
        unnamed = dialect.header is None and dialect.columns is None and not known
        if roles.schema is not None:
            numbers = {c.name for c in roles.schema.features if isinstance(c, Number)} | {*roles.target}
        else:
            typed = {n for n, t in zip(names, schema.types, strict=True) if is_kind(t, *ARROW_NUMBERS)}
            others = {*wanted} - {*(roles.features or ()), *roles.target}
            numbers = {*(roles.features or names), *roles.target} - others - typed
        numbers = {*names} & numbers if dialect.thousands is None else set()
        if not (unnamed or numbers):
            return
        table = self._refused(lambda: self._texts(text, self._names_given(text)))
        table = table.slice(0, max(20, min(_LOOKED_AT, _LOOKED_AT * 200 // len(names))))
        cells = [column.to_pylist() for column in table.columns]
        if unnamed:
            self._check_names(like_a_row(names, cells), roles)
        looked_at = {self._shown[j]: cells[j] for j, name in enumerate(names) if name in numbers}
        odd, way = odd_numbers(looked_at, dialect.decimal)
        if odd:
            raise InputError(
                f"{self._path.name}: {listed(odd)} hold{'s' * (len(odd) == 1)} numbers with marks that are not read as "
                f"such: give {way}. To keep them as texts, give thousands= ''."
            )

    def _check_names(self, why: str, roles: Roles) -> None:
        if roles.raw and len(self._names) == 1 and any(mark in self._names[0] for mark in ";|\t"):
            raise InputError(f"{self._path.name} has one column: give sep=, the character that stands between cells.")
        if why:
            raise InputError(
                f"{self._path.name}: the first line looks like a row and not like names of columns, since {why}. If it "
                "is a row, give columns=, the names, or header=False. If these are names, which must differ, give "
                "header=True."
            )

    def _parts(self) -> Generator[bytes, None, None]:
        """The text in runs of whole rows. Not read by pyarrow, whose threads may still read after an error."""
        if self._pipe is not None:
            yield from self._pipe
            return
        with open_text(self._path, self._dialect.encoding) as text:
            yield from self._rows_of(text)

    def _rows_of(self, text: BinaryIO) -> Iterator[bytes]:
        """Whole rows, in UTF-8; ``_line`` is where the last part begins."""
        self._line = 1
        for part in whole_rows(text, self._dialect.sep, self._path.name, TEXT_BLOCK):
            at = _not_utf8(part)
            if at is not None:
                line = self._line + part.count(b"\n", 0, at)
                raise InputError(
                    f"{self._path.name} is not text in UTF-8: line {line:,} has a byte that is none of it. Give "
                    "encoding=, such as latin-1 or cp1252, which many spreadsheets write."
                )
            yield part
            self._line += part.count(b"\n")

    def _table(self, text: bytes, convert: Any, names: Sequence[str] | None = None) -> ArrowTable:
        """Some rows parsed by pyarrow; the first line holds names, unless they are given."""
        return self._parsed(self._unmarked(text, names) if self._dialect.thousands else text, convert, names)

    def _texts(self, text: bytes, names: Sequence[str] | None) -> ArrowTable:
        """The same, with all cells as texts."""
        kinds = dict.fromkeys(names or self._parsed(text, None, None).column_names, pyarrow().string())
        return self._parsed(text, pyarrow().csv.ConvertOptions(column_types=kinds, strings_can_be_null=False), names)

    def _parsed(self, text: bytes, convert: Any, names: Sequence[str] | None) -> ArrowTable:
        csv = pyarrow().csv
        read = csv.ReadOptions(block_size=len(text) + 1, column_names=names, autogenerate_column_names=names == [])
        parse = csv.ParseOptions(newlines_in_values=True, delimiter=self._dialect.sep)
        return csv.read_csv(
            pyarrow().BufferReader(text), read_options=read, parse_options=parse, convert_options=convert
        )

    def _unmarked(self, text: bytes, names: Sequence[str] | None) -> bytes:
        """The text without the marks between thousands, but for ids and subjects."""
        table, compute, dialect = self._texts(text, names), pyarrow().compute, self._dialect
        for j, name in enumerate(table.column_names):
            if name not in self._keys:
                column = table.column(j)
                numbers = compute.match_substring_regex(column, grouped(dialect.thousands or "", dialect.decimal))
                bare = compute.replace_substring_regex(column, THOUSANDS[dialect.thousands or ""], "")
                table = table.set_column(j, name, compute.if_else(numbers, bare, column))
        written = io.BytesIO()
        options = pyarrow().csv.WriteOptions(include_header=names is None, delimiter=dialect.sep)
        pyarrow().csv.write_csv(table, written, options)
        return written.getvalue()

    def _converted(self, roles: Roles, features: dict[str, str], *, include: bool) -> Any:
        """How cells are read: those that have a role as text; with ``include``, none that are not named."""
        kinds: dict[str, Any] = {**dict.fromkeys(roles.columns, pyarrow().string()), **features}
        only = {"include_columns": list(kinds)} if include else {}
        options = {"decimal_point": self._dialect.decimal, "strings_can_be_null": False}
        return pyarrow().csv.ConvertOptions(column_types=kinds, **options, **only)

    def parts(self) -> Sequence[RowSource] | None:
        """The file as one part; the number of rows without ids is found before it is sent."""
        if self.once:
            return None
        if "id" not in self._columns.roles.given:
            self.count_rows()
        return [self]

    def count_rows(self) -> int | None:
        """The number of rows of a file, by a pass that reads one column."""
        if self.n_rows is None and not self.once:
            column = pyarrow().csv.ConvertOptions(
                column_types={self._columns.features[0]: pyarrow().string()},
                include_columns=[self._columns.features[0]],
            )
            self.n_rows = sum(batch.num_rows for batch in self._batches(column))
            if not self.n_rows:
                raise InputError(f"{self._path.name}: there are no rows.")
        return self.n_rows

    def kinds(self) -> Kinds:
        """See :class:`TableStream`."""
        return {role: self._kinds[role] for role in self.roles if role != "weight"}

    def blocks(self, block_bytes: int | None) -> Iterator[Rows]:
        """Blocks; labels, ids and subjects are of one type in all of them."""
        return self._copied(block_bytes, self._read_cells)

    def _read_cells(self, texts: list[str], role: str, where: str) -> list[Any]:
        """Cells as values of the type of their role."""
        kind = self._kinds[role]
        written = self._with_points(texts) if kind is float else texts
        odd = sum(not fits(text, kind) for text in written)
        if odd:
            raise InputError(
                f"{where}: {odd:,} of {len(texts):,} {role}s are not {_WANTED[kind]}, as required: correct the column, "
                "or name another one."
            )
        return read_texts(written, kind)

    def _with_points(self, texts: list[str]) -> list[str]:
        """Numbers with points before decimals; columns of a schema have them already."""
        if self._dialect.decimal == "." or self._columns.roles.untyped:
            return texts
        return [text.translate(_SWAPPED) for text in texts]

    def _targets(self, table: ArrowTable, where: str, first: int) -> npt.NDArray[np.float64]:
        """The targets of rows; a cell that is no number is counted."""
        names = self._columns.roles.target
        y = np.empty((table.num_rows, len(names)))
        for j, name in enumerate(names):
            found = [parse_number(text.strip()) for text in self._with_points(table.column(name).to_pylist())]
            y[:, j] = [np.nan if x is None else x for x in found]
        return checked_targets(y, names, where, first)

    def arrow_tables(self, rows: int | None) -> Iterator[ArrowTable]:
        """The text, parsed."""
        return regrouped(self._batches(self._convert), rows)

    def _batches(self, convert: Any) -> Iterator[ArrowBatch]:
        bare = self._dialect.columns is not None or self._dialect.header is False
        names = self._names if bare else None
        with closing(self._parts()) as parts:
            while (text := self._refused(lambda: next(parts, None))) is not None:
                if names is None or text.strip(b"\r\n"):
                    table = self._refused(partial(self._table, text, convert, names), text)
                    names = self._names
                    yield from self._pointed(table).to_batches()

    def _pointed(self, table: ArrowTable) -> ArrowTable:
        """Cells that may hold anything, with a point in numbers that are written with a comma, and the other way round.

        So ``1,5`` is the number that it is in other files, and ``1.500``, which may mean a thousand and a half, none.
        """
        roles = self._columns.roles
        if self._dialect.decimal == "." or not roles.untyped:
            return table
        for j, name in enumerate(table.column_names):
            if name not in self._keys:
                table = table.set_column(j, name, _swapped(table.column(j)))
        return table

    def _refused(self, read: Callable[[], Any], text: bytes = b"") -> Any:
        """What ``read`` returns, or an error that says how the text would have to be written."""
        form = f"CSV in {self._dialect.encoding or 'utf-8'} with {self._dialect.sep!r} between cells"
        hint = " Say how it is written with sep= and encoding=."
        return read_or_refuse(read, self._path, form, hint, partial(self._explained, text))

    def _explained(self, text: bytes, message: str) -> ErasableError | None:
        """A better error for pyarrow's message: a column that is not numeric everywhere, or lines that do not match."""
        if (found := _AT.search(message)) and int(found[1]) < len(self._shown):
            return not_numeric(self._path, {self._shown[int(found[1])]: "something else in some rows"})
        if found := _CELLS.search(message):
            commas = " (and with decimal= that decimals have a comma)" if found[1] == "1" else ""
            return InputError(
                f"{self._path.name} cannot be read as CSV: its lines have different numbers of cells, {found[1]} in "
                f"the first and {found[2]} in {self._ragged(text, int(found[1]))}. Correct it, or say with sep= what "
                f"stands between cells{commas}."
            )
        return None

    def _ragged(self, text: bytes, n: int) -> str:
        """The first line with another number of cells."""
        lines = csv.reader(io.StringIO(text.decode(), newline=""), delimiter=self._dialect.sep)
        begun = self._line
        with suppress(csv.Error):  # a cell may be longer than it reads
            for line in lines:
                if line and len(line) != n:
                    return f"line {begun:,}"
                begun = self._line + lines.line_num
        return "another"


def _swapped(column: ArrowColumn) -> ArrowColumn:
    """Texts, in which numbers have a point for their comma, and a comma for their point."""
    compute = pyarrow().compute
    out = column
    for mark, other in ((",", "."), (".", ",")):
        numbers = compute.match_substring_regex(column, _NUMBER_WITH.format(f"[{mark}]"))
        out = compute.if_else(numbers, compute.replace_substring(column, mark, other), out)
    return out


def _not_utf8(text: bytes) -> int | None:
    """The place of the first byte that is not UTF-8; None if there is none."""
    try:
        text.decode()
    except UnicodeDecodeError as error:
        return error.start
    return None


# -- what the first rows show -----------------------------------------------------------------------------------------


def is_number(name: str) -> bool:
    """Whether the name of a column is written like a number: a row may stand where names should."""
    return _NUMBER.fullmatch(name) is not None


def like_a_row(names: Sequence[str], cells: Sequence[Sequence[str]]) -> str:
    """Why a first line looks like a row, given the cells of each column below it; empty if it looks like names.

    The reason names a cell by its place: if the line is a row, its text is data. Numbers are names where they count the
    columns, or grow from column to column, as years do.
    """
    numbers = [name.strip() for name in names if is_number(name)]
    values = [int(n) for n in numbers if _PLAIN.fullmatch(n)]
    counting = values in ([*range(len(numbers))], [*range(1, len(numbers) + 1)])
    growing = len(values) == len(numbers) and all(a < b for a, b in pairwise(values))
    many = len(values) >= _COUNTED or all(value in _YEARS for value in values)
    if numbers and not counting and not (growing and many):
        return f"cell {1 + next(j for j, name in enumerate(names) if is_number(name))} of it is a number"
    places: dict[str, int] = {}
    for j, name in enumerate(names, 1):
        if name and places.setdefault(name, j) < j:
            return f"cells {places[name]} and {j} of it are the same"
    skipped = {*numbers} if counting and len(numbers) >= _COUNTED else set()
    for j, (name, below) in enumerate(zip(names, cells, strict=True), 1):
        if name and name.strip() not in skipped and like_a_cell(name, below):
            return f"cell {j} of it comes again below, or is written like the cells below it"
    return ""


def like_a_cell(name: str, cells: Iterable[str]) -> bool:
    """Whether a name comes again in its column, or has digits and is built like the cells there, as ids are."""
    filled = [cell for cell in cells if cell]
    if name in filled:
        return True
    coded = re.search(r"\d", name) is not None and not is_number(name)
    return coded and bool(filled) and all(_shape(cell) == _shape(name) for cell in filled)


def _shape(text: str) -> str:
    return re.sub(r"[^\W\d_]+", "a", re.sub(r"\d+", "9", text))


def grouped(thousands: str, decimal: str) -> str:
    """A regular expression for numbers with marks between thousands, from the first to the last character."""
    mark, point = THOUSANDS[thousands], re.escape(decimal)
    return rf"^[ \t]*[+-]?[1-9][0-9]{{0,2}}({mark}[0-9]{{3}})+({point}[0-9]*)?[ \t]*$"


def odd_numbers(cells: Mapping[str, Sequence[str]], decimal: str) -> tuple[list[str], str]:
    """Columns of numbers with marks that would not be read as such; and the arguments that name the marks."""
    found: dict[str, list[str]] = {}
    for name, column in cells.items():
        filled = [cell.strip() for cell in column if cell.strip().lower() not in _MISSING]
        if way := _way(filled, decimal):
            found.setdefault(way, []).append(name)
    way = max(found, key=lambda one: len(found[one]), default="")
    return found.get(way, []), way


def _way(filled: Sequence[str], decimal: str) -> str:
    """The arguments with which all of these would be numbers; empty if they are already, or never would be."""
    other = "," if decimal == "." else "."
    odd = [cell for cell in filled if not _fits(cell, _undivided(decimal))]
    if not odd:
        return ""
    commas = all(_fits(cell, _undivided(other)) for cell in filled)
    for mark in THOUSANDS:
        if mark != decimal and all(_fits(cell, grouped(mark, decimal)) for cell in odd):
            return f"thousands= {mark!r}" + (f", or decimal= {other!r}" if commas else "")
    if commas:
        return f"decimal= {other!r}"
    for mark in THOUSANDS:
        if mark != other and all(_fits(cell, _undivided(other), grouped(mark, other)) for cell in filled):
            return f"decimal= {other!r} and thousands= {mark!r}"
    return ""


def _undivided(decimal: str) -> str:
    point = re.escape(decimal)
    return rf"^[+-]?([0-9]+{point}?[0-9]*|{point}[0-9]+)([eE][+-]?[0-9]+)?$"


def _fits(cell: str, *patterns: str) -> bool:
    return any(re.match(pattern, cell) for pattern in patterns)
