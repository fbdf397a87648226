"""Tables in CSV text: files, plain or compressed, and pipes. Parsed by pyarrow; the first line holds names of columns.

In text nothing has a type. Features are numbers all the way down; labels, ids and subjects are integers only when all
of them are written like integers, so that what they are shows at the end alone.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from pathlib import Path
from typing import Any, BinaryIO

from erasable.arrow import is_kind, pyarrow
from erasable.errors import InputError
from erasable.tables.arrow_columns import ArrowSource, columns_of, not_numeric, regrouped
from erasable.tables.columns import Kinds, Roles, fitting_kinds, is_number, read_texts
from erasable.tables.encoding import encoded_bytes
from erasable.tables.reading import read_or_refuse
from erasable.tables.table import Table

# Text that pyarrow parses at once. It reads some tens of these ahead, so a block of ours is put together from them.
TEXT_BLOCK = 2**20
_AT = re.compile(r"CSV column #(\d+)")
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
    pipe : (bytes, file object), optional
        The first bytes of a pipe, and a stream of all of them.
    """

    typed = False

    def __init__(
        self, path: Path, name: str, roles: Roles, kinds: Kinds, pipe: tuple[bytes, BinaryIO] | None = None
    ) -> None:
        weights: Kinds = {} if roles.weight is None else {"weight": float}
        self._path, self._given, self.once = path, {**kinds, **weights}, pipe is not None
        self._text: Any = path if pipe is None else pipe[1]
        schema = self._first_block(roles, None if pipe is None else pipe[0])
        # By place when the first line may hold a row instead of names.
        by_place = any(map(is_number, schema.names))
        self._shown = [f"column {j}" if by_place else repr(n) for j, n in enumerate(schema.names)]
        columns = columns_of(schema, roles, path, self._shown)
        # What follows the first block has to be the same kind of number.
        kind_of = {f: "bool" if is_kind(schema.field(f).type, "boolean") else "float64" for f in columns.features}
        kind_of = dict.fromkeys(columns.features, "string") if roles.untyped else kind_of
        self._convert = _convert(columns.roles, kind_of, include=True)
        row_bytes = encoded_bytes(roles) if roles.untyped else 8 * len(columns.features)
        super().__init__(path, name, columns, row_bytes + 64 * len(columns.roles.columns))

    def _first_block(self, roles: Roles, head: bytes | None) -> Any:
        """The names and types of columns, as the first block shows them."""
        csv = pyarrow().csv
        source: Any = self._text
        options: dict[str, Any] = {}
        if head is not None:
            # Up to the last line break, as pyarrow would cut it. Should that stand inside quotes, the row before it is
            # short and is skipped here; short rows are refused when the text is read.
            whole = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1] if len(head) >= TEXT_BLOCK else b""
            source, options = io.BytesIO(whole or head), {"invalid_row_handler": lambda row: "skip"}

        def look() -> Any:
            parse = csv.ParseOptions(newlines_in_values=True, **options)
            convert = _convert(roles, {}, include=False)
            with csv.open_csv(source, parse_options=parse, convert_options=convert) as reader:
                return reader.schema

        return read_or_refuse(look, self._path, "CSV")

    def count_rows(self) -> int | None:
        """The number of rows of a file, by a pass that converts no features."""
        return None if self.once else self._first_pass[0]

    @cached_property
    def _first_pass(self) -> tuple[int, Kinds]:
        """The number of rows, and what labels, ids and subjects are."""
        roles = self._columns.roles
        convert = _convert(roles, {} if roles.columns else {self._columns.features[0]: "string"}, include=True)
        n, fitting = 0, {role: [int, bool, float, str] for role in roles.given}
        for batch in self._batches(convert):
            for role, column in roles.given.items():
                found = fitting_kinds(self._cells(batch, column, role, self._path.name), keys=role in ("id", "subject"))
                fitting[role] = [kind for kind in fitting[role] if kind in found]
            n += batch.num_rows
        if not n:
            raise InputError(f"{self._path.name}: there are no rows.")
        self.n_rows = n
        return n, {role: kinds[0] for role, kinds in fitting.items()}

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
        if any(text.endswith(("\n", "\r")) for text in texts):  # the lines after it would be no rows
            raise InputError(
                f"{where}: a cell ends with a line break, as the last one does where a quote is not closed: "
                "correct the file."
            )
        if role in self._given or role not in found:
            fitting = fitting_kinds(texts, keys=role in ("id", "subject"))
            if role not in kinds and any(texts):  # a block without subjects says nothing about them
                kinds[role] = fitting[0]
            if kinds.get(role, str) not in fitting:
                reason, advice = "as the first block has it", "give a file instead, which can be read twice"
                if role in self._given:
                    reason, advice = "as it has to be here", "correct the column, or name another one"
                raise InputError(f"{where}: not every {role} is {_WANTED[kinds[role]]}, {reason}: {advice}.")
        kind = kinds.get(role, str)
        return read_or_refuse(lambda: read_texts(texts, kind), self._path, f"the same {role}s as a moment ago")

    def _tables(self, rows: int | None) -> Iterator[Any]:
        if rows is None:
            parse = pyarrow().csv.ParseOptions(newlines_in_values=True)
            yield self._refused(
                lambda: pyarrow().csv.read_csv(self._text, parse_options=parse, convert_options=self._convert)
            )
            return
        yield from regrouped(self._batches(self._convert), rows)

    def _batches(self, convert: Any) -> Iterator[Any]:
        csv = pyarrow().csv
        parse, read = csv.ParseOptions(newlines_in_values=True), csv.ReadOptions(block_size=TEXT_BLOCK)
        with self._refused(
            lambda: csv.open_csv(self._text, read_options=read, parse_options=parse, convert_options=convert)
        ) as reader:
            while (batch := self._refused(lambda: next(reader, None))) is not None:
                yield batch

    def _refused(self, read: Callable[[], Any]) -> Any:
        """What ``read`` gives, or an error that names the column that is not numeric all the way down."""
        try:
            return read()
        except Exception as error:
            found = _AT.search(str(error))
            kind = type(error).__name__
        if found and int(found[1]) < len(self._shown):
            raise not_numeric(self._path, {self._shown[int(found[1])]: "something else in some rows"})
        raise InputError(
            f"{self._path.name} cannot be read as CSV ({kind}): it may be cut short or damaged, or its lines may have "
            "different numbers of cells."
        )


def _convert(roles: Roles, features: dict[str, str], *, include: bool) -> Any:
    """How cells are read: those that have a role as text; with ``include``, none that are not named."""
    kinds: dict[str, Any] = {**dict.fromkeys(roles.columns, pyarrow().string()), **features}
    only = {"include_columns": list(kinds)} if include else {}
    return pyarrow().csv.ConvertOptions(strings_can_be_null=False, column_types=kinds, **only)
