"""Tables in CSV and Parquet files, read by pyarrow and copied out of it at once.

Copying matters: dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.tables._columns import (
    as_rows,
    check_keys,
    check_labels,
    fitting_kinds,
    plain_array,
    read_texts,
    row_dtype,
)
from erasable.tables._reading import read_or_refuse
from erasable.tables._roles import Roles
from erasable.tables._rows import Rows
from erasable.tables._table import Table

_NUMERIC = ("integer", "floating", "decimal", "boolean", "null")
_LABELS = ("integer", "floating", "boolean", "string", "large_string", "string_view", "null")
_KEYS = ("integer", "string", "large_string", "string_view", "binary", "large_binary", "binary_view", "null")
_AT = re.compile(r"CSV column #(\d+)")
_NUMBER = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Columns:
    """Which columns of a file are what; ``shown`` is how messages name the features."""

    roles: Roles
    features: tuple[str, ...]
    shown: tuple[str, ...]


def read_csv(path: Path, name: str, roles: Roles) -> Table:
    """The table in a text file with a line of column names, plain or compressed."""
    columns, options, shown = csv_columns(path, path, roles)
    table = refuse_csv(lambda: pyarrow_part("csv").read_csv(path, **options), path, shown)
    return copy_out(table, columns, path, path.name, name, kinds={}).table()


def csv_columns(source: Any, path: Path, roles: Roles, **parse: Any) -> tuple[Columns, dict[str, Any], list[str]]:
    """What the columns of a CSV are, by its first block; how to read it on; and how messages name all its columns."""
    csv = pyarrow_part("csv")
    kinds: dict[str, Any] = dict.fromkeys(roles.columns, pyarrow_part().string())

    def first_block() -> Any:
        convert = csv.ConvertOptions(strings_can_be_null=False, column_types=kinds)
        options = csv.ParseOptions(newlines_in_values=True, **parse)
        with csv.open_csv(source, parse_options=options, convert_options=convert) as stream:
            return stream.schema

    schema = read_or_refuse(first_block, path, "CSV")
    shown = _shown(schema.names)
    columns = columns_of(schema, roles, path, shown)
    # What follows the first block has to be the same kind of number.
    kinds |= {f: "bool" if _is(schema.field(f).type, "boolean") else "float64" for f in columns.features}
    convert = csv.ConvertOptions(
        strings_can_be_null=False,
        column_types=kinds,
        include_columns=[*columns.roles.columns, *columns.features],
    )
    options = {"parse_options": csv.ParseOptions(newlines_in_values=True), "convert_options": convert}
    return columns, options, shown


def refuse_csv(read: Callable[[], Any], path: Path, shown: list[str]) -> Any:
    """What ``read`` gives of a CSV, or an error that names the column that is not numeric all the way down."""
    try:
        return read()
    except Exception as error:
        found = _AT.search(str(error))
        kind = type(error).__name__
    if found and int(found[1]) < len(shown):
        raise _not_numeric(path, {shown[int(found[1])]: "something else in some rows"})
    raise InputError(
        f"{path.name} cannot be read as CSV ({kind}): it may be cut short or damaged, or its lines may have different "
        "numbers of cells."
    )


def read_parquet(path: Path, name: str, roles: Roles) -> Table:
    """The table in a Parquet file."""

    def read() -> Any:
        with open_parquet(path) as file:
            return file.read()

    table = read_or_refuse(read, path, "Parquet")
    columns = typed_columns(table.schema, roles, path)
    return copy_out(table, columns, path, path.name, name).table()


def open_parquet(path: Path, **options: Any) -> Any:
    """A Parquet file, to be closed by the caller; read_table would make columns of the names of folders."""
    return pyarrow_part("parquet").ParquetFile(path, **options)


def typed_columns(schema: Any, roles: Roles, path: Path) -> Columns:
    """What the columns of Parquet or Arrow data are."""
    columns = columns_of(schema, roles, path, [repr(n) for n in schema.names])
    stored_index = (schema.pandas_metadata or {}).get("index_columns", [])
    found = [f for f in columns.features if f in stored_index]
    if roles.features is None and found:
        raise InputError(
            f"{path.name} has a row index of pandas among its columns, {_listed([repr(f) for f in found])}: leave it "
            "out with ignore=, or name it with id= (in pandas: to_parquet(index=False))."
        )
    return columns


def pyarrow_part(part: str = "") -> Any:
    """The pyarrow module, or a part of it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        problem = "reading CSV and Parquet needs pyarrow: pip install 'erasable[tables]', or store the table as .npz."
    else:
        return getattr(pyarrow, part) if part else pyarrow
    raise ConfigurationError(problem)


def _is(kind: Any, *wanted: str) -> bool:
    types = pyarrow_part("types")
    return any(getattr(types, f"is_{w}")(kind) for w in wanted)


def _shown(names: list[str]) -> list[str]:
    """How messages name the columns of a CSV: by place when the first line may hold a row instead of names."""
    if any(map(_NUMBER.fullmatch, names)):
        return [f"column {j}" for j in range(len(names))]
    return [repr(n) for n in names]


def columns_of(schema: Any, roles: Roles, path: Path, shown: list[str]) -> Columns:
    """What the columns are: those that are named are there, no name is there twice, and features are numeric."""
    names = schema.names
    roles = roles.present(names)
    wanted = [*roles.columns, *roles.ignore, *(roles.features or ())]
    absent = [column for column in wanted if column not in names]
    if absent:
        raise _no_column(absent, roles, path, shown)
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
    unfit = {shown[j]: str(schema.types[j]).partition("<")[0] for j in places if not _is(schema.types[j], *_NUMERIC)}
    if unfit:
        raise _not_numeric(path, unfit)
    return Columns(roles, features, tuple(shown[j] for j in places))


def _no_column(absent: list[str], roles: Roles, path: Path, shown: list[str]) -> InputError:
    listed = _listed(shown)
    hint = " The first line must hold the names of the columns." if shown[:1] == ["column 0"] else ""
    missing = [column for column in absent if column in (roles.features or ())]
    if missing:
        return InputError(
            f"{path.name} lacks {len(missing)} of {len(roles.features or ())} features: "
            f"{_listed([repr(m) for m in missing])}; it has {listed}.{hint} "
            "Give a file with the columns that the model learnt from."
        )
    return InputError(
        f"{path.name} has no column {' and no column '.join(map(repr, absent))}; it has {listed}.{hint} "
        "Name the right ones with label=, id=, subject= and ignore=."
    )


def _listed(names: list[str]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _not_numeric(path: Path, unfit: Mapping[str, str]) -> InputTypeError:
    """The error about columns, each with what it holds."""
    if len(unfit) == 1:
        ((column, kind),) = unfit.items()
        problem, them = f"{column} must be numeric or boolean to be a feature; it holds {kind}", "it"
    else:
        found = ", ".join(f"{column} ({kind})" for column, kind in unfit.items())
        problem, them = f"{len(unfit)} columns must be numeric or boolean to be features: {found}", "them"
    return InputTypeError(
        f"{path.name}: {problem}. Leave {them} out with ignore=, or encode {them} with a coding that is fixed and "
        "public: one fitted on rows would be a trace of them."
    )


def copy_out(
    table: Any, columns: Columns, path: Path, where: str, name: str, kinds: Mapping[str, type] | None = None
) -> Rows:
    """What pyarrow has read, copied out of it.

    ``kinds`` is None where columns have types of their own. For text it says what cells stand for; a role that it
    leaves out is settled by the cells at hand.
    """
    if not table.num_rows:
        raise InputError(f"{where}: there are no rows.")
    X = read_or_refuse(lambda: _rows(table, columns, where), path, "numbers")

    def column(role: str) -> npt.NDArray[Any] | None:
        which = columns.roles.of(role)
        if which is None:
            return None
        place = f"{where}, column {which!r}"
        values = read_or_refuse(lambda: cells(table, columns, role, place), path, "text in UTF-8")
        if kinds is not None:
            if any(text.endswith(("\n", "\r")) for text in values):  # the lines after it would be no rows
                raise InputError(
                    f"{place}: a cell ends with a line break, as the last one does where a quote is not closed: "
                    "correct the file."
                )
            kind = kinds.get(role) or fitting_kinds(values, keys=role != "label")[0]
            values = read_or_refuse(lambda: read_texts(values, kind), path, f"the same {role}s as a moment ago")
        array = plain_array(values, role)
        return check_labels(array, place) if role == "label" else check_keys(array, place, optional=role == "subject")

    y, ids, subjects = (column(role) for role in ("label", "id", "subject"))
    return Rows(X, ids, subjects, y, name, columns.features)


def _rows(table: Any, columns: Columns, where: str) -> npt.NDArray[Any]:
    """The feature columns as one array."""
    parts = [table.column(f) for f in columns.features]
    # As float64, missing entries become NaN, and are refused below.
    parts = [c.cast("float64") if c.null_count or _is(c.type, "decimal") else c for c in parts]
    small = row_dtype([np.dtype("bool" if _is(c.type, "boolean") else c.type.to_pandas_dtype()) for c in parts])
    X = np.empty((table.num_rows, len(parts)), small)
    for j, c in enumerate(parts):
        X[:, j] = c.to_numpy()
    return as_rows(X, where, columns.shown)  # type: ignore[no-any-return]


def cells(table: Any, columns: Columns, role: str, where: str) -> list[Any]:
    """Labels, ids or subjects as plain Python values; those of a CSV are text still."""
    column, allowed = table.column(columns.roles.of(role)), _LABELS if role == "label" else _KEYS
    kind = column.type.value_type if _is(column.type, "dictionary") else column.type
    if not _is(kind, *allowed):
        wanted = "integers or strings" if allowed is _KEYS else "integers, strings, booleans or floats"
        raise InputTypeError(f"{where}: must hold {wanted}; it holds {str(kind).partition('<')[0]}: convert it first.")
    values: list[Any] = column.to_pylist()
    return values


def row_width(schema: Any, columns: Columns) -> int:
    """About how many bytes a row takes once it is copied out."""
    types = [schema.field(f).type for f in columns.features]
    narrow = all(_is(t, "boolean", "int8", "uint8", "int16", "uint16", "float16", "float32") for t in types)
    return len(types) * (4 if narrow else 8) + 32 * len(columns.roles.columns)


def key_column(path: Path, choose: Callable[[list[str]], str]) -> list[Any]:
    """The cells of the column of a Parquet file that ``choose`` takes from the names, as in :func:`cells`."""

    def look() -> Any:
        with open_parquet(path) as file:
            return file.schema_arrow

    which = choose(read_or_refuse(look, path, "Parquet").names)

    def read() -> Any:
        with open_parquet(path) as file:
            return file.read(columns=[which])

    table = read_or_refuse(read, path, "Parquet")
    columns = Columns(Roles(None, which, labelled=False), (), ())
    return read_or_refuse(lambda: cells(table, columns, "id", f"{path.name}, column {which!r}"), path, "text in UTF-8")
