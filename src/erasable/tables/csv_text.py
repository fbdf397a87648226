"""Tables in CSV text: files, plain or compressed, and pipes. Parsed by pyarrow; the first line holds names of columns.

In text nothing has a type. Features are numbers all the way down; labels, ids and subjects are integers only when all
of them are written like integers, so that what they are shows at the end alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import cached_property, partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

from erasable.arrow import pyarrow
from erasable.errors import ErasableError, InputError
from erasable.tables.arrow_columns import ArrowSource, columns_of, not_numeric, regrouped
from erasable.tables.columns import Kinds, Roles, fitting_kinds, is_number, read_texts
from erasable.tables.encoding import encoded_bytes
from erasable.tables.opening import Dialect, open_text
from erasable.tables.quotes import whole_rows
from erasable.tables.reading import Source, read_or_refuse
from erasable.tables.table import Table

TEXT_BLOCK = 2**20  # bytes that are parsed at once: a block of ours is put together from these
_AT = re.compile(r"CSV column #(\d+)")
_CELLS = re.compile(r"Expected (\d+) columns, got (\d+)")
_SWAPPED = str.maketrans(",.", ".,")
_NUMBER_WITH = r"^[ \t\n\r\v\f]*[+-]?([0-9]+{0}[0-9]*|{0}[0-9]+)([eE][+-]?[0-9]+)?[ \t\n\r\v\f]*$"
_WANTED = {int: "an integer", bool: "true or false", float: "a number"}


class CsvSource(ArrowSource):
    """CSV text.

    A file is read once more before where types of labels or keys have to be found, and it is not read whole. In a pipe
    they are settled by the first block and have to hold for all.

    Parameters
    ----------
    path : Path
        The file, or what messages call the pipe.
    name : str
    roles : Roles
    kinds : dict
        What labels, ids or subjects are, where that is known.
    dialect : Dialect
    pipe : binary file object, optional
        The text of a pipe, in UTF-8.
    """

    typed = False

    def __init__(
        self,
        path: Path,
        name: str,
        roles: Roles,
        kinds: Kinds,
        dialect: Dialect,
        pipe: BinaryIO | None = None,
    ) -> None:
        weights: Kinds = {} if roles.weight is None else {"weight": float}
        self._path, self._given, self.once = path, {**kinds, **weights}, pipe is not None
        self._dialect, self._shown = dialect, list[str]()
        self._pipe: Iterator[bytes] | None = None if pipe is None else self._rows_of(pipe)
        schema, self._names = self._first_block(roles)
        # By place when the first line may hold a row instead of names.
        by_place = any(map(is_number, self._names))
        self._shown = [f"column {j}" if by_place else repr(n) for j, n in enumerate(self._names)]
        columns = columns_of(schema, roles, path, self._shown)
        # What follows the first block has to be the same kind of number.
        kind_of = {f: "bool" if f in columns.booleans else "float64" for f in columns.features}
        kind_of = dict.fromkeys(columns.features, "string") if roles.untyped else kind_of
        self._convert = self._converted(columns.roles, kind_of, include=True)
        row_bytes = encoded_bytes(roles) if roles.untyped else 8 * len(columns.features)
        super().__init__(path, name, columns, row_bytes + 64 * len(columns.roles.columns))

    def _first_block(self, roles: Roles) -> Any:
        """The names and types of columns, as the first block shows them."""
        convert = self._converted(roles, {}, include=False)

        def look() -> Any:
            parts = self._parts()
            first = next(parts, b"")
            if self.once:
                self._pipe = chain([first], parts)
            else:
                parts.close()
            schema = self._table(first, convert).schema
            return schema, schema.names  # pyarrow decodes names when they are asked for

        return self._refused(look)

    def _parts(self) -> Generator[bytes, None, None]:
        """The text in runs of whole rows. They are read here, since what pyarrow's threads read they may read late."""
        if self._pipe is not None:
            yield from self._pipe
            return
        with open_text(self._path, self._dialect.encoding) as text:
            yield from self._rows_of(text)

    def _rows_of(self, text: BinaryIO) -> Iterator[bytes]:
        return whole_rows(text, self._dialect.sep, self._path.name, TEXT_BLOCK)

    def _table(self, text: bytes, convert: Any, names: Sequence[str] | None = None) -> Any:
        """What pyarrow makes of some rows; the first one holds names, unless they are given."""
        csv = pyarrow().csv
        read = csv.ReadOptions(block_size=len(text) + 1, column_names=names)
        parse = csv.ParseOptions(newlines_in_values=True, delimiter=self._dialect.sep)
        return csv.read_csv(
            pyarrow().BufferReader(text), read_options=read, parse_options=parse, convert_options=convert
        )

    def _converted(self, roles: Roles, features: dict[str, str], *, include: bool) -> Any:
        """How cells are read: those that have a role as text; with ``include``, none that are not named."""
        kinds: dict[str, Any] = {**dict.fromkeys(roles.columns, pyarrow().string()), **features}
        only = {"include_columns": list(kinds)} if include else {}
        options = {"decimal_point": self._dialect.decimal, "strings_can_be_null": False}
        return pyarrow().csv.ConvertOptions(column_types=kinds, **options, **only)

    def parts(self) -> list[Source] | None:
        """The file as one part; what labels, ids and subjects are, and how many rows without ids, is found before."""
        if self.once:
            return None
        self.kinds()
        if "id" not in self._columns.roles.given:
            self.count_rows()
        return [self]

    def count_rows(self) -> int | None:
        """The number of rows of a file, by a pass that converts no features."""
        return None if self.once else self._first_pass[0]

    @cached_property
    def _first_pass(self) -> tuple[int, Kinds]:
        """The number of rows, and what labels, ids and subjects are."""
        roles = self._columns.roles
        named = {} if roles.columns else {self._columns.features[0]: "string"}
        convert = self._converted(roles, named, include=True)
        n, fitting = 0, dict[str, list[type]]()
        for batch in self._batches(convert):
            for role, columns in roles.given.items():
                for column in columns:
                    texts = self._cells(batch, column, role, self._path.name)
                    if any(texts):  # a column without subjects says nothing about them
                        found = self._fitting(texts, role)
                        fitting[role] = [kind for kind in fitting.get(role, found) if kind in found]
            n += batch.num_rows
        if not n:
            raise InputError(f"{self._path.name}: there are no rows.")
        self.n_rows = n
        return n, {role: kinds[0] for role, kinds in fitting.items()}

    def kinds(self) -> Kinds:
        """What labels, ids and subjects are: as the caller said, or found by a pass over the file."""
        unknown = self._columns.roles.given.keys() - self._given and not self.once
        kinds = {**(self._first_pass[1] if unknown else {}), **self._given}
        return {role: kind for role, kind in kinds.items() if role != "weight"}

    def _fitting(self, texts: Sequence[str], role: str) -> list[type]:
        return fitting_kinds(self._with_points(texts, role), keys=role in ("id", "subject"))

    def _with_points(self, texts: Sequence[str], role: str) -> Sequence[str]:
        """Cells of labels and weights with points before decimals."""
        commas = self._dialect.decimal == "," and role in ("label", "weight") and not self._columns.roles.untyped
        return [text.translate(_SWAPPED) for text in texts] if commas else texts

    def blocks(self, block_bytes: int | None) -> Iterator[Table]:
        """Blocks; labels, ids and subjects are of one type in all of them."""
        found: Kinds = {}
        if block_bytes is not None and not self.once and self._columns.roles.given.keys() - self._given:
            found = self._first_pass[1]
        return self._copied(block_bytes, partial(self._read_cells, {**found, **self._given}, found))

    def _read_cells(self, kinds: Kinds, found: Kinds, texts: list[str], role: str, where: str) -> list[Any]:
        """Cells as what they stand for.

        ``kinds`` says what that is. What no first pass has found, the first block says, and every block is checked.
        """
        if role in self._given or role not in found:
            fitting = self._fitting(texts, role)
            if role not in kinds and any(texts):  # a block without subjects says nothing about them
                kinds[role] = fitting[0]
            if kinds.get(role, str) not in fitting:
                reason, advice = "as the first block has it", "give a file instead, which can be read twice"
                if role in self._given:
                    reason, advice = "as it has to be here", "correct the column, or name another one"
                raise InputError(f"{where}: not every {role} is {_WANTED[kinds[role]]}, {reason}: {advice}.")
        kind = kinds.get(role, str)
        texts = [*self._with_points(texts, role)] if kind is float else texts
        return read_or_refuse(lambda: read_texts(texts, kind), self._path, f"the same {role}s as a moment ago")

    def raw(self, rows: int | None) -> Iterator[Any]:
        """The text, parsed."""
        return regrouped(self._batches(self._convert), rows)

    def _batches(self, convert: Any) -> Iterator[Any]:
        names = None
        with closing(self._parts()) as parts:
            while (text := self._refused(lambda: next(parts, None))) is not None:
                if names is None or text.strip(b"\r\n"):
                    table = self._refused(partial(self._table, text, convert, names))
                    names = self._names
                    yield from self._pointed(table).to_batches()

    def _pointed(self, table: Any) -> Any:
        """Cells that may hold anything, with a point in numbers that are written with a comma, and the other way round.

        So ``1,5`` is the number that it is in other files, and ``1.500``, which may mean a thousand and a half, none.
        """
        roles = self._columns.roles
        if self._dialect.decimal == "." or not roles.untyped:
            return table
        keys = {*roles.given.get("id", ()), *roles.given.get("subject", ())}
        for j, name in enumerate(table.column_names):
            if name not in keys:
                table = table.set_column(j, name, _swapped(table.column(j)))
        return table

    def _refused(self, read: Callable[[], Any]) -> Any:
        """What ``read`` gives, or an error that says how the text would have to be written."""
        form = f"CSV in {self._dialect.encoding or 'utf-8'} with {self._dialect.sep!r} between cells"
        hint = " Say how it is written with sep= and encoding=."
        return read_or_refuse(read, self._path, form, hint, self._explained)

    def _explained(self, text: str) -> ErasableError | None:
        """What pyarrow's message tells: a column that is not numeric all the way down, or lines that do not match."""
        if (found := _AT.search(text)) and int(found[1]) < len(self._shown):
            return not_numeric(self._path, {self._shown[int(found[1])]: "something else in some rows"})
        if found := _CELLS.search(text):
            return InputError(
                f"{self._path.name} cannot be read as CSV: its lines have different numbers of cells, {found[1]} in "
                f"the first and {found[2]} in another. Correct it, or say with sep= what stands between cells."
            )
        return None


def _swapped(column: Any) -> Any:
    """Texts, with a point for the comma in those that are numbers, and a comma for the point."""
    compute = pyarrow().compute
    out = column
    for mark, other in ((",", "."), (".", ",")):
        numbers = compute.match_substring_regex(column, _NUMBER_WITH.format(f"[{mark}]"))
        out = compute.if_else(numbers, compute.replace_substring(column, mark, other), out)
    return out
