"""Blocks of rows out of Parquet files, CSV text and Arrow streams, one in memory at a time."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from erasable.errors import InputError
from erasable.tables._arrow import (
    Columns,
    cells,
    copy_out,
    csv_columns,
    open_parquet,
    pyarrow_part,
    refuse_csv,
    row_width,
    typed_columns,
)
from erasable.tables._columns import fitting_kinds
from erasable.tables._reading import read_or_refuse
from erasable.tables._roles import Kinds, Roles
from erasable.tables._rows import Rows
from erasable.tables._source import Source, block_rows, refused_each, where_in

# Text that pyarrow parses at once. It reads some tens of these ahead, so a block of ours is put together from them.
TEXT_BLOCK = 2**20
_PAGE_BUFFER = 2**16  # of each column: without it, pyarrow would read column chunks whole


class ParquetSource(Source):
    """A Parquet file."""

    def __init__(self, path: Path, name: str, roles: Roles, block_bytes: int) -> None:
        self._path, self._name = path, name

        def look() -> tuple[Any, int]:
            with open_parquet(path) as file:
                return file.schema_arrow, file.metadata.num_rows

        schema, self.n_rows = read_or_refuse(look, path, "Parquet")
        self._columns = typed_columns(schema, roles, path)
        if not self.n_rows:
            raise InputError(f"{path.name}: there are no rows.")
        self.feature_names = self._columns.features
        self._rows = block_rows(block_bytes, row_width(schema, self._columns))

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return len(self._columns.features)

    def blocks(self) -> Iterator[Rows]:
        """Row groups are decoded page by page, so their size does not matter."""
        wanted = [*self._columns.roles.columns, *self._columns.features]
        options = {"pre_buffer": False, "buffer_size": _PAGE_BUFFER}
        with read_or_refuse(lambda: open_parquet(self._path, **options), self._path, "Parquet") as file:
            # In eighths of a block: while the next one is decoded, the one before it is still held.
            batches = file.iter_batches(batch_size=-(-self._rows // 8), columns=wanted)
            tables = _regrouped(refused_each(batches, self._path, "Parquet"), self._rows)
            yield from _copied(tables, self._columns, self._path, self._name)


class CsvSource(Source):
    """A CSV file, plain or compressed. It is read once more before where types of labels or keys have to be found."""

    typed = False

    def __init__(self, path: Path, name: str, roles: Roles, block_bytes: int, kinds: Kinds) -> None:
        self._path, self._name, self._given = path, name, kinds
        self._columns, self._options, self._shown = csv_columns(path, path, roles)
        self.feature_names = self._columns.features
        self._rows = _csv_rows(block_bytes, self._columns)

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return len(self._columns.features)

    def count_rows(self) -> int:
        """The number of rows, by a pass that converts no features."""
        return self._first_pass[0]

    @cached_property
    def _first_pass(self) -> tuple[int, Kinds]:
        """The number of rows, and what labels, ids and subjects are: integers only when all of them are."""
        csv, roles = pyarrow_part("csv"), self._columns.roles
        looked_at = [r for r in ("label", "id", "subject") if roles.of(r) is not None]
        names = roles.columns or [self._columns.features[0]]
        convert = csv.ConvertOptions(
            strings_can_be_null=False,
            column_types=dict.fromkeys(names, pyarrow_part().string()),
            include_columns=names,
        )
        n, fitting = 0, {role: [int, bool, float, str] for role in looked_at}
        for batch in _csv_batches(self._path, self._path, {**self._options, "convert_options": convert}, self._shown):
            for role in looked_at:
                found = fitting_kinds(cells(batch, self._columns, role, self._path.name), keys=role != "label")
                fitting[role] = [kind for kind in fitting[role] if kind in found]
            n += batch.num_rows
        if not n:
            raise InputError(f"{self._path.name}: there are no rows.")
        self.n_rows = n
        return n, {role: kinds[0] for role, kinds in fitting.items()}

    def blocks(self) -> Iterator[Rows]:
        """Blocks; labels, ids and subjects are of one type in all of them."""
        roles = self._columns.roles
        unknown = [r for r in ("label", "id", "subject") if roles.of(r) is not None and r not in self._given]
        kinds = {**(self._first_pass[1] if unknown else {}), **self._given}
        tables = _regrouped(_csv_batches(self._path, self._path, self._options, self._shown), self._rows)
        yield from _copied(tables, self._columns, self._path, self._name, _Settled(self._columns, kinds, self._given))


class CsvPipe(Source):
    """CSV text that can be read but once: types are settled by the first block and have to hold for all."""

    typed = False
    once = True

    def __init__(self, head: bytes, rest: BinaryIO, path: Path, roles: Roles, block_bytes: int, kinds: Kinds) -> None:
        self._path, self._given = path, kinds
        # Up to the last line break, as pyarrow would cut it. Should that stand inside quotes, the row before it is
        # short and is skipped here; short rows are refused when the text is read.
        whole = head[: max(head.rfind(b"\n"), head.rfind(b"\r")) + 1] if len(head) >= TEXT_BLOCK else b""
        first = io.BytesIO(whole or head)
        self._columns, self._options, self._shown = csv_columns(
            first, path, roles, invalid_row_handler=lambda row: "skip"
        )
        self._stream = chained(head, rest)
        self.feature_names = self._columns.features
        self._rows = _csv_rows(block_bytes, self._columns)

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return len(self._columns.features)

    def blocks(self) -> Iterator[Rows]:
        """Blocks as the text comes in."""
        batches = _csv_batches(self._stream, self._path, self._options, self._shown)
        settled = _Settled(self._columns, dict(self._given), self._given, once=True)
        yield from _copied(_regrouped(batches, self._rows), self._columns, self._path, self._path.name, settled)


class ArrowPipe(Source):
    """An Arrow IPC stream."""

    once = True

    def __init__(self, head: bytes, rest: BinaryIO, path: Path, roles: Roles, block_bytes: int) -> None:
        self._path = path
        stream = chained(head, rest)
        self._reader = read_or_refuse(lambda: pyarrow_part("ipc").open_stream(stream), path, "an Arrow stream")
        self._columns = typed_columns(self._reader.schema, roles, path)
        self.feature_names = self._columns.features
        self._rows = block_rows(block_bytes, row_width(self._reader.schema, self._columns))

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return len(self._columns.features)

    def blocks(self) -> Iterator[Rows]:
        """Blocks as the batches come in."""

        def checked() -> Iterator[Any]:
            for batch in self._reader:
                batch.validate(full=True)  # what comes out of a pipe may be anything
                yield batch

        with self._reader:
            tables = _regrouped(refused_each(checked(), self._path, "an Arrow stream"), self._rows)
            yield from _copied(tables, self._columns, self._path, self._path.name)


def chained(head: bytes, rest: BinaryIO) -> BinaryIO:
    """Bytes that were read to look at them, then the rest; reads are short only at the end, as pyarrow expects."""
    return io.BufferedReader(_Chained(head, rest), 2**16)


class _Chained(io.RawIOBase):
    """A head, then the rest; closing it leaves the rest open."""

    def __init__(self, head: bytes, rest: BinaryIO) -> None:
        self._head, self._rest = memoryview(head), rest

    def readable(self) -> bool:
        """Always."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Bytes of the head while there are some."""
        if self._head:
            n = min(len(buffer), len(self._head))
            buffer[:n], self._head = self._head[:n], self._head[n:]
            return n
        data = self._rest.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)


class _Settled:
    """What the cells of labels, ids and subjects stand for.

    What no first pass has found, the first block says. What no first pass has checked, is checked in every block.
    """

    def __init__(self, columns: Columns, kinds: Kinds, given: Kinds, *, once: bool = False) -> None:
        self._columns, self.kinds, self._given, self._once = columns, kinds, given, once

    def check(self, table: Any, where: str, path: Path) -> None:
        """Refuse a block that contradicts what is settled."""
        for role in ("label", "id", "subject"):
            column = self._columns.roles.of(role)
            if column is None or not (self._once or role in self._given):
                continue
            texts = read_or_refuse(lambda r=role: cells(table, self._columns, r, where), path, "text in UTF-8")  # type: ignore[misc]
            fitting = fitting_kinds(texts, keys=role != "label")
            if role not in self.kinds:
                if any(texts):  # a block without subjects says nothing about them
                    self.kinds[role] = fitting[0]
            elif self.kinds[role] not in fitting:
                wanted = {int: "an integer", bool: "true or false", float: "a number"}[self.kinds[role]]
                reason, advice = "as the first block has it", "give a file instead, which can be read twice"
                if role in self._given:
                    reason, advice = "as it has to be here", "correct the column, or name another one"
                raise InputError(f"{where}, column {column!r}: not every {role} is {wanted}, {reason}: {advice}.")


def _csv_rows(block_bytes: int, columns: Columns) -> int:
    return block_rows(block_bytes, 8 * len(columns.features) + 64 * len(columns.roles.columns))


def _csv_batches(source: Any, path: Path, options: dict[str, Any], shown: list[str]) -> Iterator[Any]:
    csv = pyarrow_part("csv")
    read = csv.ReadOptions(block_size=TEXT_BLOCK)
    open_csv: Callable[[], Any] = lambda: csv.open_csv(source, read_options=read, **options)  # noqa: E731
    with refuse_csv(open_csv, path, shown) as reader:
        while (batch := refuse_csv(lambda: next(reader, None), path, shown)) is not None:
            yield batch


def _regrouped(batches: Iterator[Any], rows: int) -> Iterator[Any]:
    """Record batches put together, or cut, to tables of so many rows; the last one has what is left."""
    held: list[Any] = []
    room = rows
    for batch in batches:
        rest = batch
        while rest.num_rows:
            part, rest = rest.slice(0, room), rest.slice(room)
            held.append(part)
            room -= part.num_rows
            if not room:
                yield _emptied(held)
                room = rows
    if held:
        yield _emptied(held)


def _emptied(held: list[Any]) -> Any:
    """One table of the batches, which are then held no longer."""
    table = pyarrow_part().Table.from_batches(held)
    held.clear()
    return table


def _copied(
    tables: Iterator[Any], columns: Columns, path: Path, name: str, settled: _Settled | None = None
) -> Iterator[Rows]:
    """Blocks copied out of pyarrow; there is at least one row."""
    first = 0
    for table in tables:
        where = where_in(path, first, table.num_rows)
        if settled is not None:
            settled.check(table, where, path)
        rows = copy_out(table, columns, path, where, name, settled.kinds if settled else None)
        first += table.num_rows
        del table
        yield rows
    if not first:
        raise InputError(f"{path.name}: there are no rows.")
