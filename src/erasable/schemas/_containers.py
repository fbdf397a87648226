"""Tables of any container as columns of cells: Arrow, pandas, polars, or a dict of columns.

A column of text is coded: each different text is kept once, and read once. pyarrow does that fast where it is
installed; without it the cells are gone through one by one, with the same result.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from erasable.arrow import TEXTS, is_kind, pyarrow
from erasable.core.arrays import Array, Booleans
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas._cells import (
    CLOCK,
    MOMENT,
    NO_MOMENT,
    NUMBER,
    TEXT,
    VECTOR,
    Cells,
    by_shortest_text,
    canonical_text,
    text_cells,
)

_LISTS = ("list", "large_list", "fixed_size_list")
_CELLS = ("decimal", "null", "timestamp", "date", "time", "integer", "boolean", "floating")
_EPOCH = datetime.datetime(1970, 1, 1)
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Columns:
    """The columns of a table by name.

    Parameters
    ----------
    table : Arrow table or batch, pandas or polars dataframe, or dict of columns
        Columns of a dict are lists, arrays or series of one length.

    Raises
    ------
    InputError, InputTypeError
        For anything else, and where two columns have one name.
    """

    def __init__(self, table: Any) -> None:
        self._get, names, self.n_rows = _opened(table)
        self.names: list[str] = [str(n) for n in names]
        if len(set(self.names)) < len(self.names):
            twice = sorted({n for n in self.names if self.names.count(n) > 1})
            raise InputError(f"the table has several columns {', '.join(map(repr, twice))}: rename all but one.")
        self._given = dict(zip(self.names, names, strict=True))

    def __getitem__(self, name: str) -> Cells:
        """The cells of a column."""
        cells = _cells(self._get(self._given[name]), name)
        if len(cells) != self.n_rows:
            raise InputError(
                f"column {name!r} has {len(cells)} cells, and the first one {self.n_rows}: they must be as long."
            )
        return cells

    def holds_cells(self, name: str) -> bool:
        """Whether the type of a column of Arrow is one that cells have; of others their cells have to be looked at."""
        kind = getattr(self._get(self._given[name]), "type", None)
        if kind is None or not hasattr(kind, "id"):
            return True
        kind = kind.value_type if is_kind(kind, "dictionary") else kind
        if is_kind(kind, *_LISTS):
            return is_kind(kind.value_type, "integer", "floating", "boolean")
        return is_kind(kind, *_CELLS, *TEXTS)

    def lists(self, name: str) -> list[Any] | None:
        """The cells of a column that holds lists of texts or whole numbers, as Python's lists; None for any other."""
        column = self._get(self._given[name])
        if hasattr(column, "type") and hasattr(column, "null_count"):
            return column.to_pylist() if is_kind(column.type, *_LISTS) else None
        if getattr(getattr(column, "dtype", None), "kind", "O") in "biufMmU":
            return None
        cells = column.to_list() if hasattr(column, "to_list") else list(column)
        return cells if any(isinstance(c, list | tuple | np.ndarray) for c in cells) else None


def _opened(table: Any) -> tuple[Callable[[Any], Any], list[Any], int]:
    """How a column is had from a table, the names, and the number of rows."""
    if isinstance(table, Mapping):
        names = list(table)
        return table.__getitem__, names, len(table[names[0]]) if names else 0
    if hasattr(table, "column_names") and hasattr(table, "num_rows"):  # pyarrow's; a batch has no such names
        return table.column, list(table.column_names), table.num_rows
    if hasattr(table, "columns") and hasattr(table, "shape") and hasattr(table, "__getitem__"):
        return table.__getitem__, list(table.columns), int(table.shape[0])
    if hasattr(table, "__arrow_c_stream__"):
        return _opened(pyarrow().table(table))
    raise InputTypeError(
        f"a table with named columns is required (Arrow, pandas, polars, or a dict of columns); got "
        f"{type(table).__name__}."
    )


def _cells(column: Any, name: str) -> Cells:
    dtype = getattr(column, "dtype", None)
    if hasattr(column, "type") and hasattr(column, "null_count"):  # an Arrow array
        return _of_arrow(column, name)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufMmU":
        return _of_array(np.asarray(column), name)
    arrow = _to_arrow(column)
    if arrow is not None:
        return _of_arrow(arrow, name)
    if hasattr(column, "isna"):  # pandas, whose NaN, NaT and NA are none of Python's
        gone = np.asarray(column.isna())
        return _of_objects([None if g else v for v, g in zip(column.tolist(), gone.tolist(), strict=True)], name)
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return _of_array(column, name)
    if isinstance(column, str | bytes) or not hasattr(column, "__iter__"):
        raise InputTypeError(f"column {name!r} must be a list, an array or a series; got {type(column).__name__}.")
    return _of_objects(column.to_list() if hasattr(column, "to_list") else list(column), name)


def _to_arrow(column: Any) -> Any | None:
    """A series of pandas or polars as an Arrow array; None where it is none, mixes types, or pyarrow is not there."""
    try:
        pa = pyarrow()
    except ConfigurationError:
        return None
    try:
        if hasattr(column, "isna"):
            return pa.Array.from_pandas(column)
        return column.to_arrow() if hasattr(column, "to_arrow") else None
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError, UnicodeError):
        return None


# -- arrays --------------------------------------------------------------------------------------------------------


def _of_array(values: Array, name: str) -> Cells:
    if values.ndim == 2 and values.dtype.kind in "biuf":
        return Cells(VECTOR, values.astype(np.float64))
    if values.ndim != 1:
        raise InputError(f"column {name!r} must have one dimension; got {values.ndim}.")
    match values.dtype.kind:
        case "M":
            return Cells(MOMENT, _moments(values))
        case "U":
            return text_cells(values.tolist())
        case "b" | "i" | "u":
            return Cells(NUMBER, values)
        case "f":
            small = values.dtype.itemsize < 8
            return Cells(NUMBER, by_shortest_text(values) if small else values.astype(np.float64, copy=False))
    raise _refused(str(values.dtype), name)


def _moments(values: Array) -> Array:
    """Seconds since 1970 of NumPy's datetimes; what is finer is cut off, downwards."""
    with np.errstate(over="ignore"):
        seconds = values.astype("datetime64[s]").view(np.int64).copy()
    seconds[np.isnat(values)] = NO_MOMENT
    return seconds


# -- Python's objects ----------------------------------------------------------------------------------------------


def _of_objects(values: list[Any], name: str) -> Cells:
    kinds = {type(v) for v in values} - {type(None)}
    if all(issubclass(k, str) for k in kinds):
        return text_cells(values)
    if all(issubclass(k, bool | int | float | np.number | np.bool_ | str | decimal.Decimal) for k in kinds):
        if all(issubclass(k, bool | np.bool_) for k in kinds) or not any(
            issubclass(k, bool | np.bool_ | str | decimal.Decimal) for k in kinds
        ):
            return _of_numbers(values)
        return text_cells([None if v is None or v != v else _text_of(v) for v in values])
    if all(issubclass(k, datetime.date) for k in kinds):
        return Cells(MOMENT, np.array([NO_MOMENT if v is None else _seconds(v) for v in values], dtype=np.int64))
    if all(issubclass(k, datetime.time) for k in kinds):
        return Cells(CLOCK, np.array([NO_MOMENT if v is None else _clock(v) for v in values], dtype=np.int64))
    if all(issubclass(k, list | tuple | np.ndarray) for k in kinds):
        return _of_lists([None if v is None else np.asarray(v) for v in values], name)
    found = ", ".join(sorted(k.__name__ for k in kinds))
    raise _refused(found, name)


def _text_of(value: Any) -> str:
    return str(value) if isinstance(value, decimal.Decimal) else canonical_text(value)


def _of_numbers(values: list[Any]) -> Cells:
    """Numbers, whole ones exactly where they fit 64 bits; as texts otherwise."""
    gone = np.array([v is None or v != v for v in values], dtype=bool)
    whole = all(isinstance(v, int | np.integer | np.bool_) or g for v, g in zip(values, gone, strict=True))
    if not whole:
        small = (np.float32, np.float16)
        texts = [float(str(v)) if isinstance(v, small) else v for v in values]
        return Cells(NUMBER, np.array([np.nan if g else v for v, g in zip(texts, gone, strict=True)], dtype=np.float64))
    plain = [0 if g else v for v, g in zip(values, gone, strict=True)]
    if plain and not (min(plain) >= -(2**63) and max(plain) < 2**63):
        return text_cells([None if g else str(int(v)) for v, g in zip(values, gone, strict=True)])
    truths = any(isinstance(v, bool | np.bool_) for v in values)
    return Cells(NUMBER, np.array(plain, dtype=bool if truths else np.int64), None, gone if gone.any() else None)


def _seconds(value: datetime.date) -> int:
    if not isinstance(value, datetime.datetime):
        return (value.toordinal() - _EPOCH.toordinal()) * 86400
    if value.tzinfo is not None:
        value = value.astimezone(datetime.UTC).replace(tzinfo=None)
    return (value.replace(microsecond=0) - _EPOCH) // datetime.timedelta(seconds=1)


def _clock(value: datetime.time) -> int:
    return value.hour * 3600 + value.minute * 60 + value.second


def _of_lists(values: Sequence[Array | None], name: str) -> Cells:
    """Vectors, of whatever lengths."""
    return Cells(VECTOR, [None if v is None else _numeric(v, name) for v in values])


def _numeric(values: Array, name: str) -> Array:
    """A vector as float64, NaN where it has gaps."""
    try:
        return np.array([np.nan if v is None else v for v in values.tolist()], dtype=np.float64)
    except (TypeError, ValueError):
        pass
    raise _refused("lists of other things than numbers", name)


# -- Arrow ---------------------------------------------------------------------------------------------------------


def _of_arrow(column: Any, name: str) -> Cells:
    pa = pyarrow()
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    kind = column.type
    if is_kind(kind, "dictionary") and not is_kind(kind.value_type, *TEXTS):
        column = column.cast(kind.value_type)
        kind = column.type
    if is_kind(kind, "decimal"):
        column, kind = column.cast(pa.string()), pa.string()
    if is_kind(kind, "dictionary", *TEXTS):
        return _coded(column if is_kind(kind, "dictionary") else column.dictionary_encode())
    if is_kind(kind, "null"):
        return Cells(TEXT, [None], np.zeros(len(column), dtype=np.int32))
    gone = np.asarray(column.is_null()) if column.null_count else None
    if is_kind(kind, "timestamp", "date"):
        values = _moments(np.asarray(column.to_numpy(zero_copy_only=False)))
        return Cells(MOMENT, values)
    if is_kind(kind, "time"):
        per = _PER_SECOND[kind.unit]
        whole = column.cast(pa.int32() if is_kind(kind, "time32") else pa.int64())
        return Cells(CLOCK, _filled(whole, gone, NO_MOMENT, per))
    if is_kind(kind, "integer", "boolean"):
        values = np.asarray((column.fill_null(False if is_kind(kind, "boolean") else 0)).to_numpy())
        return Cells(NUMBER, values, None, gone)
    if is_kind(kind, "floating"):
        return _of_array(np.asarray(column.to_numpy()), name)  # missing ones are NaN
    if is_kind(kind, "fixed_size_list") and is_kind(kind.value_type, "integer", "floating"):
        return _fixed_lists(column, gone)
    if is_kind(kind, *_LISTS):
        return _of_lists([None if v is None else np.asarray(v) for v in column.to_pylist()], name)
    raise _refused(str(kind).partition("<")[0], name)


def _filled(column: Any, gone: Booleans | None, filler: int, per: int) -> Array:
    values: Array = np.asarray(column.fill_null(0).to_numpy()).astype(np.int64) // per
    if gone is not None:
        values[gone] = filler
    return values


def _coded(column: Any) -> Cells:
    """A dictionary column, whose chunks may have dictionaries of their own, as texts that are kept once."""
    whole = column.unify_dictionaries().combine_chunks()
    if hasattr(whole, "chunks"):  # some versions of pyarrow give one chunk here, and others an array
        whole = whole.chunk(0) if whole.num_chunks else pyarrow().array([], column.type)
    words: list[str | None] = whole.dictionary.to_pylist()
    inverse = whole.indices
    if inverse.null_count:
        inverse = inverse.cast("int64").fill_null(len(words))
        words.append(None)
    return Cells(TEXT, words, np.asarray(inverse.to_numpy(zero_copy_only=False)))


def _fixed_lists(column: Any, gone: Booleans | None) -> Cells:
    whole = column.combine_chunks()
    if hasattr(whole, "chunks"):
        whole = pyarrow().concat_arrays(whole.chunks) if whole.num_chunks else pyarrow().array([], column.type)
    length = whole.type.list_size
    start = whole.offset * length
    flat = whole.values.slice(start, len(whole) * length)
    rows = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(len(whole), length)
    return Cells(VECTOR, rows, None, gone)


def _refused(kind: str, name: str) -> InputTypeError:
    return InputTypeError(
        f"column {name!r} holds {kind}: a cell must be a text, a number, a date, a time or a list of numbers. "
        "Give it the role 'ignore', or convert it first."
    )
