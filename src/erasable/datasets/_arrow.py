"""Tables in CSV and Parquet files, read by pyarrow and copied out of it at once.

Copying matters: dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.datasets._columns import (
    as_rows,
    check_keys,
    check_labels,
    plain_array,
    row_dtype,
    values_of_texts,
)
from erasable.datasets._reading import read_or_refuse
from erasable.datasets._table import Table
from erasable.errors import ConfigurationError, InputError, InputTypeError

_NUMERIC = ("integer", "floating", "decimal", "boolean", "null")
_LABELS = ("integer", "floating", "boolean", "string", "large_string", "string_view", "null")
_KEYS = ("integer", "string", "large_string", "string_view", "binary", "large_binary", "binary_view", "null")
_AT = re.compile(r"CSV column #(\d+)")
_NUMBER = re.compile(r"\s*[+-]?[\d.]+([eE][+-]?\d+)?\s*")


@dataclass(frozen=True)
class Roles:
    """Names of the columns that are no features."""

    label: str
    id: str | None = None
    subject: str | None = None

    def __post_init__(self) -> None:
        for role in ("label", "id", "subject"):
            column = getattr(self, role)
            if not (isinstance(column, str) or (column is None and role != "label")):
                raise InputTypeError(f"{role} must be the name of a column, a string; got {type(column).__name__}.")
        if self.label in (self.id, self.subject):
            raise ConfigurationError("label must be another column than id and subject: name one column for each.")

    @property
    def columns(self) -> list[str]:
        """All of them, each once: id and subject may be the same."""
        return list(dict.fromkeys(c for c in (self.label, self.id, self.subject) if c is not None))


def read_csv(path: Path, name: str, roles: Roles) -> Table:
    """The table in a text file with a line of column names, plain or compressed."""
    csv = _pyarrow("csv")
    parse = csv.ParseOptions(newlines_in_values=True)
    kinds = dict.fromkeys(roles.columns, _pyarrow().string())

    def first_block() -> Any:
        convert = csv.ConvertOptions(strings_can_be_null=False, column_types=kinds)
        with csv.open_csv(path, parse_options=parse, convert_options=convert) as stream:
            return stream.schema

    def whole() -> Any:
        convert = csv.ConvertOptions(strings_can_be_null=False, column_types=kinds)
        return csv.read_csv(path, parse_options=parse, convert_options=convert)

    schema = read_or_refuse(first_block, path, "CSV")
    shown = _shown(schema.names)
    features = _feature_columns(schema, roles, path, shown)
    # What follows the first block has to be the same kind of number.
    kinds |= {schema.names[j]: "bool" if _is(schema.types[j], "boolean") else "float64" for j in features}
    return _table(_read_whole(whole, path, shown), features, roles, shown, path, name, text=True)


def _read_whole(read: Callable[[], Any], path: Path, shown: list[str]) -> Any:
    """The whole CSV file, or an error that names the column that is not numeric all the way down."""
    try:
        return read()
    except Exception as error:
        found = _AT.search(str(error))
        kind = type(error).__name__
    if found and int(found[1]) < len(shown):
        raise _not_numeric(path, shown[int(found[1])], "something else in some rows")
    raise InputError(
        f"{path.name} cannot be read as CSV ({kind}): it may be cut short or damaged, or its lines may have different "
        "numbers of cells."
    )


def read_parquet(path: Path, name: str, roles: Roles) -> Table:
    """The table in a Parquet file."""
    parquet = _pyarrow("parquet")

    def read() -> Any:
        with parquet.ParquetFile(path) as file:  # read_table would make columns of the names of folders
            return file.read()

    table = read_or_refuse(read, path, "Parquet")
    shown = [repr(n) for n in table.schema.names]
    features = _feature_columns(table.schema, roles, path, shown)
    stored_index = (table.schema.pandas_metadata or {}).get("index_columns", [])
    if any(table.schema.names[j] in stored_index for j in features):
        raise InputError(
            f"{path.name} has a row index of pandas among its columns: name it with id=, or leave it out "
            "(in pandas: to_parquet(index=False))."
        )
    return _table(table, features, roles, shown, path, name, text=False)


def _pyarrow(part: str = "") -> Any:
    """The pyarrow module, or a part of it."""
    try:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet
    except ImportError:
        problem = "reading CSV and Parquet needs pyarrow: pip install 'erasable[tables]', or store the table as .npz."
    else:
        return getattr(pyarrow, part) if part else pyarrow
    raise ConfigurationError(problem)


def _is(kind: Any, *wanted: str) -> bool:
    types = _pyarrow("types")
    return any(getattr(types, f"is_{w}")(kind) for w in wanted)


def _shown(names: list[str]) -> list[str]:
    """How messages name the columns of a CSV: by place when the first line may hold a row instead of names."""
    if any(map(_NUMBER.fullmatch, names)):
        return [f"column {j}" for j in range(len(names))]
    return [repr(n) for n in names]


def _feature_columns(schema: Any, roles: Roles, path: Path, shown: list[str]) -> list[int]:
    """Places of the feature columns, which are numeric; the others are all there, and no name is there twice."""
    names = schema.names
    absent = [column for column in roles.columns if column not in names]
    if absent:
        listed = ", ".join(shown[:10]) + (f" and {len(shown) - 10} more" if len(shown) > 10 else "")
        hint = " The first line must hold the names of the columns." if shown[:1] == ["column 0"] else ""
        raise InputError(
            f"{path.name} has no column {' and no column '.join(map(repr, absent))}; it has {listed}.{hint} "
            "Name the right ones with label=, id= and subject=."
        )
    seen: set[str] = set()
    for j, column in enumerate(names):
        if column in seen:
            raise InputError(f"{path.name}: {shown[j]} has the name of an earlier column: rename one of them.")
        seen.add(column)
    features = [j for j, column in enumerate(names) if column not in roles.columns]
    if not features:
        raise InputError(f"{path.name}: there are no feature columns beside {', '.join(map(repr, roles.columns))}.")
    for j in features:
        if not names[j]:
            raise InputError(
                f"{path.name}: column {j} has no name, like a row index that was saved along: name it, or leave it out "
                "(in pandas: to_csv(index=False))."
            )
        if not _is(schema.types[j], *_NUMERIC):
            raise _not_numeric(path, shown[j], str(schema.types[j]).partition("<")[0])
    return features


def _not_numeric(path: Path, column: str, found: str) -> InputTypeError:
    return InputTypeError(
        f"{path.name}: {column} must be numeric or boolean to be a feature; it holds {found}. Encode it with a coding "
        "that is fixed and public: one fitted on rows would be a trace of them."
    )


def _table(
    table: Any, features: list[int], roles: Roles, shown: list[str], path: Path, name: str, *, text: bool
) -> Table:
    """What pyarrow has read, copied out of it."""
    if not table.num_rows:
        raise InputError(f"{path.name}: there are no rows.")
    X = read_or_refuse(lambda: _rows(table, features, shown, path), path, "numbers")

    def column(role: str, which: str, allowed: tuple[str, ...]) -> npt.NDArray[Any]:
        where = f"{path.name}, column {which!r}"
        values = read_or_refuse(lambda: _values(table.column(which), where, allowed, text), path, "text in UTF-8")
        array = plain_array(values, role)
        return check_labels(array, where) if role == "label" else check_keys(array, where, optional=role == "subject")

    return Table(
        X,
        column("label", roles.label, _LABELS),
        None if roles.id is None else column("id", roles.id, _KEYS),
        None if roles.subject is None else column("subject", roles.subject, _KEYS),
        name,
        tuple(table.schema.names[j] for j in features),
    )


def _rows(table: Any, features: list[int], shown: list[str], path: Path) -> npt.NDArray[Any]:
    """The feature columns as one array."""
    columns = [table.column(j) for j in features]
    names = [shown[j] for j in features]
    # As float64, missing entries become NaN, and are refused below.
    columns = [c.cast("float64") if c.null_count or _is(c.type, "decimal") else c for c in columns]
    small = row_dtype([np.dtype("bool" if _is(c.type, "boolean") else c.type.to_pandas_dtype()) for c in columns])
    X = np.empty((table.num_rows, len(columns)), small)
    for j, c in enumerate(columns):
        X[:, j] = c.to_numpy()
    return as_rows(X, path.name, names)  # type: ignore[no-any-return]


def _values(column: Any, where: str, allowed: tuple[str, ...], text: bool) -> list[Any]:
    """Labels, ids or subjects as plain Python values; the cells of a CSV as what they stand for."""
    kind = column.type.value_type if _is(column.type, "dictionary") else column.type
    if not _is(kind, *allowed):
        wanted = "integers or strings" if allowed is _KEYS else "integers, strings, booleans or floats"
        raise InputTypeError(f"{where}: must hold {wanted}; it holds {str(kind).partition('<')[0]}: convert it first.")
    values: list[Any] = column.to_pylist()
    return values_of_texts(values, keys=allowed is _KEYS) if text else values
