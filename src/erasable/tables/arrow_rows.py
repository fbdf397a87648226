"""Tables that pyarrow reads: which columns are what, and how they become rows. Parquet files and Arrow streams.

Rows are copied, since dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from erasable.errors import ErasableError, InputError, InputTypeError
from erasable.models.row_source import Rows, RowSource
from erasable.schemas import EncodedTable, EncodingReport, Schema, canonical_text
from erasable.tables.columns import Kinds, Roles, as_rows, checked_column, classes_of, row_dtype
from erasable.tables.reading import TableStream, block_rows, listed, read_or_refuse, refused_each, where_in
from erasable.validation import (
    ARROW_BYTES,
    ARROW_NUMBERS,
    ARROW_TEXTS,
    ArrowBatch,
    ArrowSchema,
    ArrowTable,
    ArrowType,
    did_you_mean,
    is_kind,
    open_parquet,
    pyarrow,
)

_LABELS = ("integer", "floating", "boolean", *ARROW_TEXTS, "null")
_KEYS = ("integer", *ARROW_TEXTS, *ARROW_BYTES, "null")
_WEIGHTS = ("integer", "floating", *ARROW_TEXTS, "null")  # the text of CSV is read as numbers later
_ALLOWED = {_LABELS: "integers, strings, booleans or floats", _KEYS: "integers or strings", _WEIGHTS: "numbers"}
_TYPES: Kinds = {
    "integer": int,
    "boolean": bool,
    "floating": float,
    **dict.fromkeys(ARROW_TEXTS, str),
    **dict.fromkeys(ARROW_BYTES, bytes),
}
_LISTS = ("list", "large_list", "fixed_size_list")  # of the subjects of a row
_FAMILIES = {
    "texts": ARROW_TEXTS,
    "numbers": ("integer", "floating", "decimal"),
    "truths": ("boolean",),
    "dates": ("timestamp", "date"),
    "times of day": ("time",),
    "lists": _LISTS,
    "": ("null",),
}
_CELL_BYTES = 16  # about what a cell takes before it is encoded
_TILE = 1024  # rows
_PART_BYTES = 2**25  # of rows: smaller row groups are read together
_PAGE_BUFFER = 2**16  # of each column: without it, pyarrow would read column chunks whole

ReadCells = Callable[[list[Any], str, str], list[Any]]  # from cells, a role and a place to values


@dataclass(frozen=True)
class ColumnsByRole:
    """Which columns of a file are what; ``shown`` is how messages name the features."""

    roles: Roles
    features: tuple[str, ...]
    shown: tuple[str, ...]
    unused: tuple[str, ...]
    booleans: frozenset[str]


class ArrowStream(TableStream):
    """Rows that pyarrow reads; ``row_bytes`` is about what one takes once it is copied."""

    _first_row = 0  # of the file, where this is a part of it

    def __init__(self, path: Path, name: str, columns: ColumnsByRole, row_bytes: int) -> None:
        self._path, self.name, self._columns, self._row_bytes = path, name, columns, row_bytes
        self.feature_names, self.unused, self.booleans = columns.features, columns.unused, columns.booleans
        self.roles = tuple(columns.roles.given)

    @property
    def n_features(self) -> int:
        """The number of numbers in a row."""
        schema = self._columns.roles.schema
        return len(self._columns.features) if schema is None else schema.n_features_out

    @property
    def _columns_read(self) -> list[str]:
        return [*self._columns.roles.columns, *self._columns.features]

    def blocks(self, block_bytes: int | None) -> Iterator[Rows]:
        """See :class:`TableStream`."""
        return self._copied(block_bytes, lambda cells, role, where: cells)

    def _copied(self, block_bytes: int | None, read: ReadCells) -> Iterator[Rows]:
        """Blocks; ``read`` says what the cells of a label, id or subject stand for."""
        first = begun = self._first_row
        for table in self.arrow_tables(None if block_bytes is None else block_rows(block_bytes, self._row_bytes)):
            n = table.num_rows
            if not n:
                continue
            where = self._path.name if block_bytes is None else where_in(self._path, first, n)
            block = self._rows(table, where, first, read)
            first += n
            del table  # not kept while the caller works with its copy
            yield block
        if first == begun:
            raise InputError(f"{self._path.name}: there are no rows.")

    def _rows(self, table: ArrowTable, where: str, first: int, read: ReadCells) -> Rows:
        """The rows of an Arrow table, all columns checked."""
        columns, roles = self._columns, self._columns.roles
        if roles.schema is None:
            X = self._numbers(table, columns.features, columns.shown, where, first)
            y = self._targets(table, where, first) if roles.target else None
        else:
            X = _encoded(roles.schema, table.select(list(columns.features)), where, columns.unused)
            y = None if not roles.target else _targets(roles, table, where, first, X)
        found: dict[str, Any] = {}
        for role, names in roles.given.items():
            places = [f"{where}, column {name!r}" for name in names]
            parts = [self._cells(table, name, role, place) for name, place in zip(names, places, strict=True)]
            place = places[0] if len(names) == 1 else f"{where}, columns {' and '.join(map(repr, names))}"
            values = read(list(chain.from_iterable(parts)), role, place)  # several columns are of one kind
            if len(names) > 1:
                n = table.num_rows
                values = _joined_subjects([values[low : low + n] for low in range(0, len(values), n)])
            found[role] = checked_column(values, role, place, first)
        if roles.schema is not None and "label" in found:
            _check_classes(roles.schema, found["label"], where)
        return Rows(X, found.get("label", y), found.get("id"), found.get("subject"), found.get("weight"))

    def _numbers(self, table: ArrowTable, names: Sequence[str], shown: Sequence[str], where: str, first: int) -> Any:
        return read_or_refuse(partial(_numbers, table, names, shown, where, first), self._path, "numbers")

    def _targets(self, table: ArrowTable, where: str, first: int) -> npt.NDArray[np.float64]:
        """The targets of rows that no schema reads."""
        names = self._columns.roles.target
        y: npt.NDArray[np.float64] = self._numbers(table, names, [repr(name) for name in names], where, first)
        return _squeezed(y.astype(np.float64))

    def _cells(self, table: ArrowTable, name: str, role: str, where: str) -> list[Any]:
        found = read_or_refuse(lambda: cells(table, name, role, where), self._path, "text in UTF-8")
        schema = self._columns.roles.schema
        if role != "label" or schema is None or classes_of(schema) is None:
            return found
        # The schema lists canonical texts: to it, True is true, and 1.0 is 1.
        spelt = {text: canonical_text(text, schema.version) for text in {*found} if isinstance(text, str)}
        return [spelt.get(label, label) for label in found]


class ParquetStream(ArrowStream):
    """A Parquet file, or some of its row groups."""

    _groups: list[int] | None = None  # all of them

    def __init__(self, path: Path, name: str, roles: Roles) -> None:
        def look() -> tuple[ArrowSchema, int]:
            with open_parquet(path) as file:
                return file.schema_arrow, file.metadata.num_rows

        schema, self.n_rows = read_or_refuse(look, path, "Parquet")
        columns = typed_columns(schema, roles, path)
        if not self.n_rows:
            raise InputError(f"{path.name}: there are no rows.")
        if roles.untyped:
            found = {feature: _family(schema.field(feature).type) for feature in columns.features}
            self.families = {feature: family for feature, family in found.items() if family}
        self._types = {role: _cell_type(schema.field(c[0]).type, role) for role, c in columns.roles.given.items()}
        super().__init__(path, name, columns, row_bytes(schema, columns))

    def kinds(self) -> Kinds:
        """See :class:`TableStream`."""
        of = {role: [kind for name, kind in _TYPES.items() if is_kind(t, name)] for role, t in self._types.items()}
        return {role: kinds[0] for role, kinds in of.items() if kinds and role != "weight"}

    def parts(self) -> Sequence[RowSource] | None:
        """Row groups, small ones together; see :class:`~erasable.models.row_source.RowSource`."""

        def look() -> list[int]:
            with open_parquet(self._path) as file:
                return [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]

        parts: list[ParquetStream] = []
        first = 0
        for i, n in enumerate(read_or_refuse(look, self._path, "Parquet")):
            if not parts or (parts[-1].n_rows or 0) * self._row_bytes >= _PART_BYTES:
                parts.append(copy(self))
                parts[-1]._groups, parts[-1]._first_row, parts[-1].n_rows = [], first, 0
            part = parts[-1]
            assert part._groups is not None
            part._groups.append(i)
            part.n_rows = (part.n_rows or 0) + n
            first += n
        return [part for part in parts if part.n_rows]

    def arrow_tables(self, rows: int | None) -> Iterator[ArrowTable]:
        """Row groups, decoded page by page, so that their size does not matter."""
        options = {} if rows is None else {"pre_buffer": False, "buffer_size": _PAGE_BUFFER}
        with read_or_refuse(lambda: open_parquet(self._path, **options), self._path, "Parquet") as file:
            if rows is None:
                yield read_or_refuse(lambda: file.read(columns=self._columns_read), self._path, "Parquet")
                return
            if self._groups is not None and self._groups[-1] >= file.num_row_groups:
                raise InputError(f"{self._path.name} changed while it was read: it has fewer row groups than before.")
            # In eighths of a block: while the next one is decoded, the one before it is still in memory.
            batches = file.iter_batches(batch_size=-(-rows // 8), row_groups=self._groups, columns=self._columns_read)
            yield from regrouped(refused_each(batches, self._path, "Parquet"), rows)


class BatchStream(ArrowStream):
    """An Arrow table in memory, or record batches of a reader or an IPC stream, which can be read once."""

    def __init__(self, batches: Any, path: Path, roles: Roles, *, unchecked: bool = False) -> None:
        self._batches, self._unchecked, self.once = batches, unchecked, not hasattr(batches, "to_batches")
        self.n_rows = None if self.once else batches.num_rows
        columns = typed_columns(batches.schema, roles, path)
        super().__init__(path, path.name, columns, row_bytes(batches.schema, columns))

    @classmethod
    def of_pipe(cls, stream: BinaryIO, path: Path, roles: Roles) -> BatchStream:
        """The batches of an Arrow IPC stream, which may hold anything."""
        reader = read_or_refuse(lambda: pyarrow().ipc.open_stream(stream), path, "an Arrow stream")
        return cls(reader, path, roles, unchecked=True)

    def arrow_tables(self, rows: int | None) -> Iterator[ArrowTable]:
        """The batches, regrouped."""

        def validated() -> Iterator[ArrowBatch]:
            for batch in self._batches if self.once else self._batches.to_batches():
                if self._unchecked:
                    batch.validate(full=True)
                yield batch

        form = "an Arrow stream" if self._unchecked else "Arrow batches"
        yield from regrouped(refused_each(validated(), self._path, form), rows)


# -- which columns are what ----------------------------------------------------------------------------------------


def columns_of(
    schema: ArrowSchema, roles: Roles, path: Path, shown: list[str], *, text_targets: bool = False
) -> ColumnsByRole:
    """The columns of a file: those that are named exist, no name repeats, and features and targets are numeric.

    With ``text_targets``, targets are texts that are read as numbers later.
    """
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
        raise InputError(f"{path.name}: there are no feature columns besides {', '.join(map(repr, sorted(others)))}.")
    places = [names.index(column) for column in features]
    for j in places:
        if not names[j]:
            raise InputError(
                f"{path.name}: column {j} has no name, like a row index that was saved along: name it, or leave it out "
                "(in pandas: to_csv(index=False))."
            )
    known = () if roles.schema is None else roles.schema.by_name
    unused = tuple(name for name in names if name not in others and name not in features and name not in known)
    booleans: frozenset[str] = frozenset()  # with a schema columns are read as it says, whatever their types
    if not roles.untyped:
        numbers = [*places, *(names.index(column) for column in roles.target if not text_targets)]
        unfit = {shown[j]: _called(schema.types[j]) for j in numbers if not is_kind(schema.types[j], *ARROW_NUMBERS)}
        if unfit:
            raise not_numeric(path, unfit)
        booleans = frozenset(names[j] for j in numbers if is_kind(schema.types[j], "boolean"))
    return ColumnsByRole(roles, features, tuple(shown[j] for j in places), unused, booleans)


def typed_columns(schema: ArrowSchema, roles: Roles, path: Path) -> ColumnsByRole:
    """The columns of Parquet or Arrow data."""
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
    options = "label=, id=, subject=, weight= and ignore=" if not roles.target else "targets=, id= and subject="
    return InputError(
        f"{path.name} has no column {' and no column '.join(map(repr, absent))}; it has {listed(shown)}.{hint} "
        + near(of_schema or f"Name the right ones with {options}.")
    )


def not_numeric(path: Path, unfit: Mapping[str, str]) -> InputTypeError:
    """The error about columns that are not numeric, each with what it holds."""
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


def _family(kind: ArrowType) -> str:
    """What cells of a type are; empty where all of them are missing."""
    kind = _value_type(kind)
    return next((family for family, names in _FAMILIES.items() if is_kind(kind, *names)), _called(kind))


def _called(kind: ArrowType) -> str:
    """The name of a type, without the names of its parts."""
    return str(kind).partition("<")[0]


def _value_type(kind: ArrowType) -> ArrowType:
    return kind.value_type if is_kind(kind, "dictionary") else kind


def _cell_type(kind: ArrowType, role: str) -> ArrowType:
    """The type of a label, id, weight or subject; several subjects of a row may come as a list."""
    return _value_type(kind.value_type if role == "subject" and is_kind(kind, *_LISTS) else kind)


def row_bytes(schema: ArrowSchema, columns: ColumnsByRole) -> int:
    """About how many bytes a row takes once it is copied."""
    if columns.roles.untyped:
        return encoded_bytes(columns.roles)
    types = [schema.field(f).type for f in columns.features]
    narrow = all(is_kind(t, "boolean", "int8", "uint8", "int16", "uint16", "float16", "float32") for t in types)
    return len(types) * (4 if narrow else 8) + 32 * len(columns.roles.columns)


def encoded_bytes(roles: Roles) -> int:
    """About how many bytes a row takes with a schema: cells, and the numbers they become."""
    schema = roles.schema
    if schema is None:
        return _CELL_BYTES * 8
    return _CELL_BYTES * len(schema.features) + 8 * (sum(c.most for c in schema.features) + len(schema.crosses))


# -- from Arrow to arrays ------------------------------------------------------------------------------------------


def _numbers(table: ArrowTable, names: Sequence[str], shown: Sequence[str], where: str, first: int) -> Any:
    """Columns of numbers as one array."""
    parts = [table.column(name) for name in names]
    # As float64, missing entries become NaN, and are refused below.
    parts = [c.cast("float64") if c.null_count or is_kind(c.type, "decimal") else c for c in parts]
    numbers = [c.to_numpy() for c in parts]
    # The types of the arrays, not Arrow's to_pandas_dtype(), which imports pandas in old releases.
    X = np.empty((table.num_rows, len(parts)), row_dtype([column.dtype for column in numbers]))
    for low in range(0, len(X), _TILE):  # as many rows at a time as the cache holds
        tile = X[low : low + _TILE]
        for j, column in enumerate(numbers):
            tile[:, j] = column[low : low + _TILE]
    return as_rows(X, where, shown, first)


def _encoded(schema: Schema, table: ArrowTable, where: str, extra: tuple[str, ...]) -> EncodedTable:
    """The rows of an Arrow table, encoded; the report names the columns that are extra."""
    try:
        found = schema.encoded(table)
    except ErasableError as error:
        raise type(error)(f"{where}: {error}") from None
    assert found.report is not None
    found.report = replace(found.report, extra=extra)
    return found


def _targets(roles: Roles, table: ArrowTable, where: str, first: int, X: EncodedTable) -> npt.NDArray[np.float64]:
    """The targets of rows by a schema, none missing, clipped to its ranges in a table to learn; noted in X's report."""
    schema = roles.schema
    assert schema is not None
    assert X.report is not None
    try:
        y, beyond = schema.read_targets(table.select(list(roles.target)), roles.target)
    except ErasableError as error:
        raise type(error)(f"{where}: {error}") from None
    checked_targets(y, roles.target, where, first)
    for j, name in enumerate(roles.target if roles.clipped else ()):
        ends = getattr(schema.by_name.get(name), "range", None)
        if ends is not None:
            y[:, j] = np.clip(y[:, j], *ends)
    X.report += EncodingReport(0, {name: {"clipped": n} for name, n in beyond.items() if n})
    return _squeezed(y)


def checked_targets(
    y: npt.NDArray[np.float64], names: Sequence[str], where: str, first: int
) -> npt.NDArray[np.float64]:
    """Targets that are all finite; the error counts the others, and names the first column that has any."""
    for column, name in zip(y.T, names, strict=True):
        odd = ~np.isfinite(column)
        if odd.any():
            raise InputError(
                f"{where}: {int(odd.sum()):,} of {len(y):,} rows have a target in {name!r} that is missing, or is no "
                f"number, the first in row {first + int(odd.argmax()) + 1:,}: leave those rows out."
            )
    return _squeezed(y)


def _squeezed(y: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Targets, of one dimension where there is one."""
    return y if y.shape[1] > 1 else y[:, 0]


def _check_classes(schema: Schema, y: npt.NDArray[Any], where: str) -> None:
    """Refuse labels that are none of the classes, where the schema lists them."""
    classes = classes_of(schema)
    if classes is None:
        return
    values, counts = np.unique(y, return_counts=True)
    texts = (canonical_text(v, schema.version) for v in values.tolist())
    odd = sum(n for text, n in zip(texts, counts.tolist(), strict=True) if text not in classes)
    if odd:
        raise InputError(f"{where}: {odd} labels are none of the {len(classes)} classes of the schema.")


def _joined_subjects(columns: list[list[Any]]) -> list[list[Any]]:
    """The subjects of each row, from columns of subjects and of lists of them."""
    rows = zip(*columns, strict=True)
    return [[key for cell in row for key in (cell if isinstance(cell, list) else [cell])] for row in rows]


def cells(table: ArrowTable, name: str, role: str, where: str) -> list[Any]:
    """Labels, ids, subjects or weights as plain Python values; those of a CSV are text still."""
    column, allowed = table.column(name), {"label": _LABELS, "weight": _WEIGHTS}.get(role, _KEYS)
    kind = _cell_type(column.type, role)
    if not is_kind(kind, *allowed):
        raise InputTypeError(f"{where}: must hold {_ALLOWED[allowed]}; it holds {_called(kind)}: convert it first.")
    values: list[Any] = column.to_pylist()
    return values


def regrouped(batches: Iterator[ArrowBatch], rows: int | None) -> Iterator[ArrowTable]:
    """Record batches in tables of so many rows, or in one; the last one has the rest."""
    waiting: list[ArrowBatch] = []
    room = rows

    def emptied() -> ArrowTable:
        """The waiting batches as a table; the list does not keep them while the caller works with it."""
        table = pyarrow().Table.from_batches(waiting)
        waiting.clear()
        return table

    for batch in batches:
        rest = batch
        while rest.num_rows:
            part = rest if room is None else rest.slice(0, room)
            rest = rest.slice(part.num_rows)
            waiting.append(part)
            if room is not None:
                room -= part.num_rows
            if room == 0:
                yield emptied()
                room = rows
    if waiting:
        yield emptied()
