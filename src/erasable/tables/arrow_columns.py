"""Tables that pyarrow reads: what their columns are, and how they are copied out. Parquet files and Arrow streams.

Copying matters: dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from erasable.arrow import BYTES, NUMERIC, TEXTS, is_kind, open_parquet, pyarrow
from erasable.errors import InputError, InputTypeError
from erasable.schemas import EncodingReport
from erasable.tables.columns import Kinds, Roles, as_rows, checked_column, row_dtype
from erasable.tables.encoding import check_classes, encoded, encoded_bytes, targets_of
from erasable.tables.reading import Source, block_rows, listed, read_or_refuse, refused_each, where_in
from erasable.tables.table import Table
from erasable.validation import did_you_mean

_LABELS = ("integer", "floating", "boolean", *TEXTS, "null")
_KEYS = ("integer", *TEXTS, *BYTES, "null")
_WEIGHTS = ("integer", "floating", *TEXTS, "null")  # text is that of CSV, which is read as numbers later
_HELD = {_LABELS: "integers, strings, booleans or floats", _KEYS: "integers or strings", _WEIGHTS: "numbers"}
_TYPES: Kinds = {
    "integer": int,
    "boolean": bool,
    "floating": float,
    **dict.fromkeys(TEXTS, str),
    **dict.fromkeys(BYTES, bytes),
}
_LISTS = ("list", "large_list", "fixed_size_list")  # of the subjects of a row
_TILE = 1024  # rows
_PART_BYTES = 2**25  # of rows: row groups that are smaller are read together
_PAGE_BUFFER = 2**16  # of each column: without it, pyarrow would read column chunks whole


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are what; ``shown`` is how messages name the features."""

    roles: Roles
    features: tuple[str, ...]
    shown: tuple[str, ...]
    unused: tuple[str, ...]
    booleans: frozenset[str]


class ArrowSource(Source):
    """Rows that pyarrow reads; ``row_bytes`` is about what one takes once it is copied out."""

    _first_row = 0  # of the file, where this is a part of it

    def __init__(self, path: Path, name: str, columns: Columns, row_bytes: int) -> None:
        self._path, self.name, self._columns, self._row_bytes = path, name, columns, row_bytes
        self.feature_names, self.unused, self.booleans = columns.features, columns.unused, columns.booleans
        self.roles = tuple(columns.roles.given)

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        schema = self._columns.roles.schema
        return len(self._columns.features) if schema is None else schema.n_features_out

    @abstractmethod
    def raw(self, rows: int | None) -> Iterator[Any]:
        """The cells as pyarrow reads them, in tables of so many rows, or in one."""

    def blocks(self, block_bytes: int | None) -> Iterator[Table]:
        """Blocks, copied out of pyarrow."""
        return self._copied(block_bytes, lambda cells, role, where: cells)

    def _copied(self, block_bytes: int | None, read: Callable[[list[Any], str, str], list[Any]]) -> Iterator[Table]:
        """Blocks; ``read`` says what the cells of a label, id or subject stand for."""
        first = begun = self._first_row
        for table in self.raw(None if block_bytes is None else block_rows(block_bytes, self._row_bytes)):
            n = table.num_rows
            if not n:
                continue
            where = self._path.name if block_bytes is None else where_in(self._path, first, n)
            block = self._copy(table, where, first, read)
            first += n
            del table  # not held while the caller works with its copy
            yield block
        if first == begun:
            raise InputError(f"{self._path.name}: there are no rows.")

    def _copy(self, table: Any, where: str, first: int, read: Callable[[list[Any], str, str], list[Any]]) -> Table:
        schema, found = self._columns.roles.schema, {}
        if schema is None:
            X = read_or_refuse(lambda: _rows(table, self._columns, where, first), self._path, "numbers")
        else:
            X = encoded(schema, table.select(list(self._columns.features)), where, self._columns.unused)
        for role, names in self._columns.roles.given.items():
            places = [f"{where}, column {name!r}" for name in names]
            parts = [self._cells(table, name, role, place) for name, place in zip(names, places, strict=True)]
            place = places[0] if len(names) == 1 else f"{where}, columns {' and '.join(map(repr, names))}"
            values = read(list(chain.from_iterable(parts)), role, place)  # of several columns all are of one kind
            if len(names) > 1:
                n = table.num_rows
                values = joined_subjects([values[low : low + n] for low in range(0, len(values), n)])
            found[role] = checked_column(values, role, place, first)
        y, ids, subjects = (found.get(role) for role in ("label", "id", "subject"))
        if schema is not None and y is not None:
            check_classes(schema, y, where)
        if self._columns.roles.target:
            y, beyond = targets_of(self._columns.roles, table, where, first)
            X.report += EncodingReport(0, {name: {"clipped": n} for name, n in beyond.items()})
        called = self._columns.features if schema is None else None
        return Table(X, y, ids, subjects, self.name, called, weights=found.get("weight"))

    def _cells(self, table: Any, name: str, role: str, where: str) -> list[Any]:
        return read_or_refuse(lambda: cells(table, name, role, where), self._path, "text in UTF-8")


class ParquetSource(ArrowSource):
    """A Parquet file, or some of its row groups."""

    _groups: list[int] | None = None  # all of them

    def __init__(self, path: Path, name: str, roles: Roles) -> None:
        def look() -> tuple[Any, int]:
            with open_parquet(path) as file:
                return file.schema_arrow, file.metadata.num_rows

        schema, self.n_rows = read_or_refuse(look, path, "Parquet")
        columns = typed_columns(schema, roles, path)
        if not self.n_rows:
            raise InputError(f"{path.name}: there are no rows.")
        if roles.untyped:
            self.held = {f: held for f in columns.features if (held := _held(schema.field(f).type))}
        self._types = {role: _cell_type(schema.field(c[0]).type, role) for role, c in columns.roles.given.items()}
        super().__init__(path, name, columns, row_bytes(schema, columns))

    def kinds(self) -> Kinds:
        """What labels, ids and subjects are, as the file says."""
        of = {role: [kind for name, kind in _TYPES.items() if is_kind(t, name)] for role, t in self._types.items()}
        return {role: kinds[0] for role, kinds in of.items() if kinds and role != "weight"}

    def parts(self) -> list[Source] | None:
        """Row groups, so many of them together that a part is not small; see :class:`Source`."""

        def look() -> list[int]:
            with open_parquet(self._path) as file:
                return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

        parts: list[ParquetSource] = []
        first = 0
        for i, n in enumerate(read_or_refuse(look, self._path, "Parquet")):
            if parts and (parts[-1].n_rows or 0) * self._row_bytes < _PART_BYTES:
                part = parts[-1]
                part.n_rows = (part.n_rows or 0) + n
            else:
                part = copy(self)
                part._groups, part._first_row, part.n_rows = [], first, n
                parts.append(part)
            assert part._groups is not None
            part._groups.append(i)
            first += n
        return [part for part in parts if part.n_rows]

    def raw(self, rows: int | None) -> Iterator[Any]:
        """Row groups are decoded page by page, so their size does not matter."""
        wanted = [*self._columns.roles.columns, *self._columns.features]
        options = {} if rows is None else {"pre_buffer": False, "buffer_size": _PAGE_BUFFER}
        with read_or_refuse(lambda: open_parquet(self._path, **options), self._path, "Parquet") as file:
            if rows is None:
                yield read_or_refuse(lambda: file.read(columns=wanted), self._path, "Parquet")
                return
            if self._groups is not None and self._groups[-1] >= file.num_row_groups:
                raise InputError(f"{self._path.name} changed while it was read: it has fewer row groups than before.")
            # In eighths of a block: while the next one is decoded, the one before it is still held.
            batches = file.iter_batches(batch_size=-(-rows // 8), row_groups=self._groups, columns=wanted)
            yield from regrouped(refused_each(batches, self._path, "Parquet"), rows)


class ArrowPipe(ArrowSource):
    """An Arrow IPC stream."""

    once = True

    def __init__(self, stream: BinaryIO, path: Path, roles: Roles) -> None:
        self._reader = read_or_refuse(lambda: pyarrow().ipc.open_stream(stream), path, "an Arrow stream")
        columns = typed_columns(self._reader.schema, roles, path)
        super().__init__(path, path.name, columns, row_bytes(self._reader.schema, columns))

    def raw(self, rows: int | None) -> Iterator[Any]:
        """What comes, checked."""

        def checked() -> Iterator[Any]:
            for batch in self._reader:
                batch.validate(full=True)  # what comes out of a pipe may be anything
                yield batch

        with self._reader:
            yield from regrouped(refused_each(checked(), self._path, "an Arrow stream"), rows)


class ArrowBatches(ArrowSource):
    """An Arrow table in memory, or record batches of a reader, which can be gone through once."""

    def __init__(self, batches: Any, path: Path, roles: Roles) -> None:
        self._batches, self.once = batches, not hasattr(batches, "to_batches")
        self.n_rows = None if self.once else batches.num_rows
        columns = typed_columns(batches.schema, roles, path)
        super().__init__(path, path.name, columns, row_bytes(batches.schema, columns))

    def raw(self, rows: int | None) -> Iterator[Any]:
        """The batches, regrouped."""
        batches = self._batches if self.once else self._batches.to_batches()
        yield from regrouped(refused_each(iter(batches), self._path, "Arrow batches"), rows)


def columns_of(schema: Any, roles: Roles, path: Path, shown: list[str]) -> Columns:
    """What the columns are: those that are named are there, no name is there twice, and features are numeric."""
    names = schema.names
    roles = roles.present(names)
    wanted = [*roles.columns, *roles.ignore, *(roles.features or ())]
    absent = [column for column in wanted if column not in names]
    if absent:
        raise _no_column(absent, roles, path, shown, names)
    seen: set[str] = set()
    for j, column in enumerate(names):
        if column in seen and (roles.features is None or column in wanted):
            raise InputError(f"{path.name}: {shown[j]} has the name of an earlier column: rename one of them.")
        seen.add(column)
    others = {*roles.columns, *roles.ignore}
    features = tuple(roles.features or (column for column in names if column not in others))
    if not features:
        raise InputError(f"{path.name}: there are no feature columns beside {', '.join(map(repr, sorted(others)))}.")
    places = [names.index(column) for column in features]
    for j in places:
        if not names[j]:
            raise InputError(
                f"{path.name}: column {j} has no name, like a row index that was saved along: name it, or leave it out "
                "(in pandas: to_csv(index=False))."
            )
    unfit = {shown[j]: _called(schema.types[j]) for j in places if not is_kind(schema.types[j], *NUMERIC)}
    if unfit and not roles.untyped:
        raise not_numeric(path, unfit)
    known = () if roles.schema is None else roles.schema.by_name
    unused = tuple(name for name in names if name not in others and name not in features and name not in known)
    booleans = frozenset(names[j] for j in places if is_kind(schema.types[j], "boolean"))
    if roles.untyped:
        booleans = frozenset()  # of whatever type a column is, it is read as the schema says
    return Columns(roles, features, tuple(shown[j] for j in places), unused, booleans)


def typed_columns(schema: Any, roles: Roles, path: Path) -> Columns:
    """What the columns of Parquet or Arrow data are."""
    columns = columns_of(schema, roles, path, [repr(n) for n in schema.names])
    stored_index = (schema.pandas_metadata or {}).get("index_columns", [])
    found = [f for f in columns.features if f in stored_index]
    if roles.features is None and found:
        raise InputError(
            f"{path.name} has a row index of pandas among its columns, {listed([repr(f) for f in found])}: leave it "
            "out with ignore=, or name it with id= (in pandas: to_parquet(index=False))."
        )
    return columns


def _no_column(absent: list[str], roles: Roles, path: Path, shown: list[str], names: list[str]) -> InputError:
    by_place = shown[:1] == ["column 0"]
    hint = " The first line must hold the names of the columns." if by_place else ""
    if len(shown) == 1 and any(mark in shown[0] for mark in (";", "|", r"\t")):
        hint = " Its cells may be separated by another character: give sep=."
    of_schema = "" if roles.schema is None else "Give a file with the columns that the schema names, or correct it."
    near = partial(did_you_mean, absent, () if by_place else names)
    missing = [column for column in absent if column in (roles.features or ())]
    if missing:
        return InputError(
            f"{path.name} lacks {len(missing)} of {len(roles.features or ())} features: "
            f"{listed([repr(m) for m in missing])}; it has {listed(shown)}.{hint} "
            + near(of_schema or "Give a file with the columns that the model learnt from.")
        )
    return InputError(
        f"{path.name} has no column {' and no column '.join(map(repr, absent))}; it has {listed(shown)}.{hint} "
        + near(of_schema or "Name the right ones with label=, id=, subject=, weight= and ignore=.")
    )


def not_numeric(path: Path, unfit: Mapping[str, str]) -> InputTypeError:
    """The error about columns, each with what it holds."""
    if len(unfit) == 1:
        ((column, kind),) = unfit.items()
        problem, need = f"{column} must be numeric or boolean to be a feature; it holds {kind}", "It needs"
    else:
        found = ", ".join(f"{column} ({kind})" for column, kind in unfit.items())
        problem, need = f"{len(unfit)} columns must be numeric or boolean to be features: {found}", "They need"
    return InputTypeError(
        f"{path.name}: {problem}. {need} a public schema, which `erasable schema` drafts (a coding fitted "
        "on rows would be a trace of them); ids and subjects are named with id= and subject=, and others can be left "
        "out with ignore=."
    )


def _held(kind: Any) -> str:
    """What cells of a type are; nothing where all of them are missing."""
    families = {
        "texts": TEXTS,
        "numbers": ("integer", "floating", "decimal"),
        "truths": ("boolean",),
        "dates": ("timestamp", "date"),
        "times of day": ("time",),
        "lists": _LISTS,
        "": ("null",),
    }
    kind = value_type(kind)
    return next((family for family, names in families.items() if is_kind(kind, *names)), _called(kind))


def _called(kind: Any) -> str:
    """The name of a type, without the names of its parts."""
    return str(kind).partition("<")[0]


def _rows(table: Any, columns: Columns, where: str, first: int) -> Any:
    """The feature columns as one array."""
    parts = [table.column(f) for f in columns.features]
    # As float64, missing entries become NaN, and are refused below.
    parts = [c.cast("float64") if c.null_count or is_kind(c.type, "decimal") else c for c in parts]
    small = row_dtype([np.dtype("bool" if is_kind(c.type, "boolean") else c.type.to_pandas_dtype()) for c in parts])
    X, numbers = np.empty((table.num_rows, len(parts)), small), [c.to_numpy() for c in parts]
    for low in range(0, len(X), _TILE):  # so many rows at a time that what is written stays in the cache
        tile = X[low : low + _TILE]
        for j, column in enumerate(numbers):
            tile[:, j] = column[low : low + _TILE]
    return as_rows(X, where, columns.shown, first)


def joined_subjects(columns: list[list[Any]]) -> list[list[Any]]:
    """The subjects of each row, from columns of subjects and of lists of them."""
    rows = zip(*columns, strict=True)
    return [[key for cell in row for key in (cell if isinstance(cell, list) else [cell])] for row in rows]


def cells(table: Any, name: str, role: str, where: str) -> list[Any]:
    """Labels, ids, subjects or weights as plain Python values; those of a CSV are text still."""
    column, allowed = table.column(name), {"label": _LABELS, "weight": _WEIGHTS}.get(role, _KEYS)
    kind = _cell_type(column.type, role)
    if not is_kind(kind, *allowed):
        raise InputTypeError(f"{where}: must hold {_HELD[allowed]}; it holds {_called(kind)}: convert it first.")
    values: list[Any] = column.to_pylist()
    return values


def value_type(kind: Any) -> Any:
    """The type of the values, which those of a dictionary have, too."""
    return kind.value_type if is_kind(kind, "dictionary") else kind


def _cell_type(kind: Any, role: str) -> Any:
    """The type of a label, id, weight or subject; several subjects of a row may come as a list."""
    return value_type(kind.value_type if role == "subject" and is_kind(kind, *_LISTS) else kind)


def row_bytes(schema: Any, columns: Columns) -> int:
    """About how many bytes a row takes once it is copied out."""
    if columns.roles.untyped:
        return encoded_bytes(columns.roles)
    types = [schema.field(f).type for f in columns.features]
    narrow = all(is_kind(t, "boolean", "int8", "uint8", "int16", "uint16", "float16", "float32") for t in types)
    return len(types) * (4 if narrow else 8) + 32 * len(columns.roles.columns)


def regrouped(batches: Iterator[Any], rows: int | None) -> Iterator[Any]:
    """Record batches put together, or cut, to tables of so many rows, or to one; the last one has what is left."""
    held: list[Any] = []
    room = rows
    for batch in batches:
        rest = batch
        while rest.num_rows:
            part = rest if room is None else rest.slice(0, room)
            rest = rest.slice(part.num_rows)
            held.append(part)
            if room is not None:
                room -= part.num_rows
            if room == 0:
                yield _emptied(held)
                room = rows
    if held:
        yield _emptied(held)


def _emptied(held: list[Any]) -> Any:
    """One table of the batches, which are then held no longer."""
    table = pyarrow().Table.from_batches(held)
    held.clear()
    return table
