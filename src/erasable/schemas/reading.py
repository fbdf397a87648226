"""Tables of any container as cells: Arrow, pandas, polars, or a dict of columns.

A cell is read by its own value and the type of its column, never by other cells: where the cells of a column have
several types, each is read by its own and then written as a text. Each different text of a column is kept, and read,
once. pyarrow finds them fast where it is installed; without it, cells are read one by one, with the same result.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import replace
from typing import Any

import numpy as np

from erasable.core.arrays import Array
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas.cells import (
    DAY,
    EPOCH_DAY,
    NO_TIME,
    VERSION,
    Cells,
    Kind,
    canonical_text,
    date_text,
    distinct_values,
    text_cells,
    time_text,
    widen,
)
from erasable.validation import ARROW_TEXTS, is_kind, pyarrow

_LISTS = ("list", "large_list", "fixed_size_list")
_TYPES = ("decimal", "null", "timestamp", "date", "time", "integer", "boolean", "floating")  # of Arrow, for cells
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_BOOL = (bool, np.bool_)
_WHOLE = (int, np.integer)
_SMALL_FLOAT = (np.float16, np.float32)
_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    (Kind.TEXT, (str,)),
    (Kind.NUMBER, (*_BOOL, *_WHOLE, float, np.floating, decimal.Decimal)),
    (Kind.DATE, (datetime.date, np.datetime64)),
    (Kind.TIME, (datetime.time,)),
    (Kind.VECTOR, (list, tuple, np.ndarray)),
)
_NA = ("NAType", "MaskedConstant")  # the types of missing cells of pandas and NumPy
_COARSE = ("Y", "M", "W", "D", "h", "m")  # units of dates that may overflow as seconds


class Columns:
    """The columns of a table by name.

    Raises InputError or InputTypeError for anything else, and where two columns have one name.

    Parameters
    ----------
    table : Arrow table or batch, pandas or polars dataframe, or dict of columns
        Columns of a dict are lists, arrays or series of one length.
    version : int, default=2
        The version of the schema that reads the cells.
    """

    def __init__(self, table: Any, version: int = VERSION) -> None:
        self._version = version
        self._get, names, self.n_rows = _open_table(table)
        self.names: list[str] = [str(n) for n in names]
        if len(set(self.names)) < len(self.names):
            twice = sorted({n for n in self.names if self.names.count(n) > 1})
            raise InputError(f"the table has several columns {', '.join(map(repr, twice))}: rename all but one.")
        self._given = dict(zip(self.names, names, strict=True))

    def __getitem__(self, name: str) -> Cells:
        """The cells of a column."""
        cells = _read_column(self._get(self._given[name]), name, self._version)
        if len(cells) != self.n_rows:
            raise InputError(
                f"column {name!r} has {len(cells)} cells, and the first one {self.n_rows}: all columns must have the "
                "same length."
            )
        return cells

    def has_readable_type(self, name: str) -> bool:
        """Whether cells can have the Arrow type of a column; other containers show it only when cells are read."""
        kind = getattr(self._get(self._given[name]), "type", None)
        if kind is None or not hasattr(kind, "id"):
            return True
        kind = kind.value_type if is_kind(kind, "dictionary") else kind
        if is_kind(kind, *_LISTS):
            return is_kind(kind.value_type, "integer", "floating", "boolean")
        return is_kind(kind, *_TYPES, *ARROW_TEXTS)

    def lists(self, name: str) -> list[Any] | None:
        """The cells of a column of lists as Python lists; None for any other column."""
        column = self._get(self._given[name])
        if hasattr(column, "type") and hasattr(column, "null_count"):
            return column.to_pylist() if is_kind(column.type, *_LISTS) else None
        if getattr(getattr(column, "dtype", None), "kind", "O") in "biufMmU":
            return None
        cells = column.to_list() if hasattr(column, "to_list") else list(column)
        return cells if any(isinstance(c, list | tuple | np.ndarray) for c in cells) else None


def _open_table(table: Any) -> tuple[Callable[[Any], Any], list[Any], int]:
    """A function that returns a column by name, the names, and the number of rows."""
    if isinstance(table, Mapping):
        for name, column in table.items():
            odd = isinstance(column, str | bytes | Mapping | Set) or getattr(column, "ndim", 1) == 0
            if odd or not hasattr(column, "__len__") or not hasattr(column, "__iter__"):
                kind = type(column).__name__
                raise InputTypeError(f"column {str(name)!r} must be a list, an array or a series; got {kind}.")
        names = list(table)
        return table.__getitem__, names, len(table[names[0]]) if names else 0
    if hasattr(table, "column_names") and hasattr(table, "num_rows"):  # pyarrow; a batch has no `columns` by name
        return table.column, list(table.column_names), table.num_rows
    if hasattr(table, "columns") and hasattr(table, "shape") and hasattr(table, "__getitem__"):
        return table.__getitem__, list(table.columns), int(table.shape[0])
    if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "dtype") and not hasattr(table, "type"):
        return _open_table(pyarrow().table(table))
    one = " Give it a name: a table of one column, such as {'name': column}." if hasattr(table, "__len__") else ""
    raise InputTypeError(
        f"a table with named columns is required (Arrow, pandas, polars, or a dict of columns); got "
        f"{type(table).__name__}.{one}"
    )


def _read_column(column: Any, name: str, version: int) -> Cells:
    dtype = getattr(column, "dtype", None)
    if hasattr(column, "type") and hasattr(column, "null_count"):  # an Arrow array
        return _read_arrow(column, name, version)
    if isinstance(column, np.ma.MaskedArray) and column.ndim == 1:
        masked = np.ma.getmaskarray(column).tolist()
        return _read_objects([None if m else v for v, m in zip(column.data, masked, strict=True)], name, version)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufMmU":
        return _read_array(_unmasked(column), name, version)
    arrow = _to_arrow(column)
    if arrow is not None:
        return _read_arrow(arrow, name, version)
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return _read_array(column, name, version)
    return _read_objects(_as_list(column, version), name, version, pandas=hasattr(column, "isna"))


def _as_list(column: Any, version: int) -> list[Any]:
    """The cells of a column as objects; small floats keep their type."""
    small = str(getattr(column, "dtype", "")).lower() in ("float32", "float16")
    if small and version > 1:
        return list(column.to_numpy(**({"na_value": np.nan, "dtype": "float32"} if hasattr(column, "isna") else {})))
    for method in ("tolist", "to_list"):
        if hasattr(column, method) and not isinstance(column, np.ndarray):
            return list(getattr(column, method)())
    return list(column)


def _to_arrow(column: Any) -> Any | None:
    """A pandas or polars series as an Arrow array; None if it is neither, holds objects, or pyarrow is missing.

    Objects are left out because Arrow gives them a type that depends on all of them.
    """
    dtype = getattr(column, "dtype", None)
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # the type of pandas categories
    if dtype == np.dtype(object):
        return None
    try:
        pa = pyarrow()
    except ConfigurationError:
        return None
    try:
        if hasattr(column, "isna"):
            return pa.Array.from_pandas(column)
        return column.to_arrow() if hasattr(column, "to_arrow") else None
    except (pa.ArrowException, OverflowError, UnicodeError, TypeError, ValueError, NotImplementedError):
        return None


def _unreadable(kind: str, name: str) -> InputTypeError:
    return InputTypeError(
        f"column {name!r} holds {kind}: a cell must be a text, a number, a date, a time or a list of numbers. "
        "Give it the role 'ignore', or convert it first."
    )


# -- arrays and Arrow columns ------------------------------------------------------------------------------------------


def _unmasked(column: Any) -> Array:
    """An array; NaN where it is masked, if it has several dimensions."""
    if isinstance(column, np.ma.MaskedArray) and np.ma.getmaskarray(column).any():
        return np.where(np.ma.getmaskarray(column), np.nan, column.data.astype(np.float64))
    return np.asarray(column)


def _read_array(values: Array, name: str, version: int) -> Cells:
    if values.ndim == 2 and values.dtype.kind in "biuf":
        return Cells(Kind.VECTOR, values.astype(np.float64))
    if values.ndim != 1:
        raise InputError(f"column {name!r} must have one dimension; got {values.ndim}.")
    match values.dtype.kind:
        case "M":
            return Cells(Kind.DATE, _date_seconds(values, name))
        case "U":
            return text_cells(values.tolist())
        case "b" | "i" | "u":
            return Cells(Kind.NUMBER, values)
        case "f":
            small = values.dtype.itemsize < 8
            return Cells(Kind.NUMBER, widen(values, version) if small else values.astype(np.float64, copy=False))
    raise _unreadable(str(values.dtype), name)


def _date_seconds(values: Array, name: str) -> Array:
    """Seconds since 1970 of NumPy datetimes, rounded down."""
    with np.errstate(over="ignore"):
        dates = values.astype("datetime64[s]")
    present = ~np.isnat(values)
    if np.datetime_data(values.dtype)[0] in _COARSE and (dates.astype(values.dtype) != values)[present].any():
        raise InputError(f"column {name!r} has dates so far away that 64 bits do not hold their seconds: correct them.")
    seconds = dates.view(np.int64).copy()
    seconds[~present] = NO_TIME
    return seconds


def _read_arrow(column: Any, name: str, version: int) -> Cells:
    pa = pyarrow()
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    kind = column.type
    if is_kind(kind, "dictionary") and not is_kind(kind.value_type, *ARROW_TEXTS):
        column = column.cast(kind.value_type)
        kind = column.type
    if is_kind(kind, "decimal"):
        texts = _read_dictionary(column.cast(pa.string()).dictionary_encode())
        return replace(texts, holds=frozenset((Kind.NUMBER if version > 1 else Kind.DECIMAL,)))
    if is_kind(kind, "dictionary", *ARROW_TEXTS):
        return _read_dictionary(column if is_kind(kind, "dictionary") else column.dictionary_encode())
    if is_kind(kind, "null"):
        return Cells(Kind.TEXT, [None], np.zeros(len(column), dtype=np.int32))
    absent = np.asarray(column.is_null()) if column.null_count else None
    if is_kind(kind, "timestamp", "date"):
        return Cells(Kind.DATE, _date_seconds(np.asarray(column.to_numpy(zero_copy_only=False)), name))
    if is_kind(kind, "time"):
        whole = column.cast(pa.int32() if is_kind(kind, "time32") else pa.int64())
        seconds = np.asarray(whole.fill_null(0).to_numpy()).astype(np.int64) // _PER_SECOND[kind.unit]
        if absent is not None:
            seconds[absent] = NO_TIME
        return Cells(Kind.TIME, seconds)
    if is_kind(kind, "integer", "boolean"):
        values = np.asarray((column.fill_null(False if is_kind(kind, "boolean") else 0)).to_numpy())
        return Cells(Kind.NUMBER, values, None, absent)
    if is_kind(kind, "floating"):
        return _read_array(np.asarray(column.to_numpy()), name, version)  # missing ones are NaN
    if is_kind(kind, "fixed_size_list") and is_kind(kind.value_type, "integer", "floating"):
        whole = _one_chunk(column)
        length = whole.type.list_size
        flat = whole.values.slice(whole.offset * length, len(whole) * length)
        rows = np.asarray(flat.to_numpy(zero_copy_only=False), dtype=np.float64).reshape(len(whole), length)
        return Cells(Kind.VECTOR, rows, None, absent)
    if is_kind(kind, *_LISTS):
        return _read_vectors(column.to_pylist(), name)
    raise _unreadable(str(kind).partition("<")[0], name)


def _one_chunk(column: Any) -> Any:
    """A chunked column as one array."""
    whole = column.combine_chunks()
    if hasattr(whole, "chunks"):  # some versions of pyarrow return chunks here, and others an array
        whole = pyarrow().concat_arrays(whole.chunks) if whole.num_chunks else pyarrow().array([], column.type)
    return whole


def _read_dictionary(column: Any) -> Cells:
    """A dictionary column, whose chunks may have dictionaries of their own, as texts that are kept once."""
    whole = _one_chunk(column.unify_dictionaries())
    words: list[str | None] = whole.dictionary.to_pylist()
    inverse = whole.indices
    if inverse.null_count:
        inverse = inverse.cast("int64").fill_null(len(words))
        words.append(None)
    return Cells(Kind.TEXT, words, np.asarray(inverse.to_numpy(zero_copy_only=False)))


# -- columns of Python objects -----------------------------------------------------------------------------------------


def _read_objects(values: list[Any], name: str, version: int, *, pandas: bool = False) -> Cells:
    """Cells of any types, each read by its own type."""
    kinds = {t: _kind_of(t) for t in set(map(type, values)) - {type(None)}}
    if all(issubclass(t, str) for t in kinds):
        return text_cells(values)
    values = [None if v is None or _is_missing(v, kinds[type(v)]) else v for v in values]
    given = frozenset(k for k in kinds.values() if k is not None)  # with the kinds of missing cells
    kinds = {t: kinds[t] for t in set(map(type, values)) - {type(None)}}
    holds = frozenset(k for k in kinds.values() if k is not None)
    if None in kinds.values() or (len(holds) > 1 and Kind.VECTOR in holds):
        raise _unreadable(", ".join(sorted(k.__name__ for k in kinds)), name)
    numbers = _number_array(values, set(kinds)) if holds == {Kind.NUMBER} else None
    if version == 1:
        small = any(issubclass(t, _SMALL_FLOAT) for t in kinds)
        mixed = len(kinds) > 1 or (pandas and any(issubclass(t, np.float16) for t in kinds))
        together = holds if pandas else given
        if (holds == {Kind.NUMBER} and numbers is None) or len(together) > 1 or (small and mixed):
            raise InputError(
                f"column {name!r} mixes types, which a schema of version 1 reads by the cells next to them. Convert "
                "the column to one type, or learn a new model with version = 2 in the schema."
            )
    if holds <= {Kind.TEXT}:
        return text_cells(values)
    if holds == {Kind.VECTOR}:
        return _read_vectors(values, name)
    if holds == {Kind.DATE} or holds == {Kind.TIME}:
        seconds = [NO_TIME if v is None else _seconds(v, name) for v in values]
        return Cells(next(iter(holds)), np.array(seconds, dtype=np.int64))
    if numbers is not None:
        return numbers
    return Cells(Kind.TEXT, *distinct_values(None if v is None else _text_of(v, name) for v in values), None, holds)


def _kind_of(kind: type) -> str | None:
    if kind.__name__ in _NA:
        return Kind.TEXT
    found = (k for k, types in _KINDS if issubclass(kind, types))
    return None if issubclass(kind, np.timedelta64) else next(found, None)


def _is_missing(value: Any, kind: str | None) -> bool:
    """Whether a cell is NaN, or a value that a library has for missing cells."""
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return type(value).__name__ in _NA or (kind in (Kind.NUMBER, Kind.DATE) and bool(value != value))


def _number_array(values: list[Any], types: set[type]) -> Cells | None:
    """Numbers as an array; None if an array of one type would change some of them."""
    absent = np.array([v is None for v in values], dtype=bool)
    missing = absent if absent.any() else None
    if all(issubclass(t, _BOOL) for t in types):
        return Cells(Kind.NUMBER, np.array([bool(v) for v in values], dtype=bool), None, missing)
    if any(issubclass(t, (*_BOOL, decimal.Decimal)) for t in types):
        return None
    whole = [int(v) for v in values if isinstance(v, _WHOLE)]
    low, high = min(whole, default=0), max(whole, default=0)
    if all(issubclass(t, _WHOLE) for t in types):
        if not -(2**63) <= low <= high < 2**63:
            return None
        return Cells(Kind.NUMBER, np.array([0 if v is None else int(v) for v in values], dtype=np.int64), None, missing)
    if not -(2**53) < low <= high < 2**53:
        return None
    floats = [np.nan if v is None else float(str(v)) if isinstance(v, _SMALL_FLOAT) else float(v) for v in values]
    return Cells(Kind.NUMBER, np.array(floats, dtype=np.float64))


def _text_of(value: Any, name: str) -> str:
    """A text that reads as the same cell."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.time):
        return time_text(_seconds(value, name))
    if isinstance(value, datetime.date | np.datetime64):
        return date_text(_seconds(value, name))
    if isinstance(value, _SMALL_FLOAT):
        return canonical_text(float(str(value)))
    return canonical_text(value)


def _seconds(value: datetime.date | datetime.time | np.datetime64, name: str) -> int:
    """Seconds since midnight of a time of day; since 1970 of a date, in UTC where it has a zone."""
    if isinstance(value, np.datetime64):
        return int(_date_seconds(np.array([value]), name)[0])
    if not isinstance(value, datetime.datetime | datetime.time):
        return (value.toordinal() - EPOCH_DAY) * DAY
    clock = value.hour * 3600 + value.minute * 60 + value.second
    if isinstance(value, datetime.time):
        return clock
    ahead = value.utcoffset() or datetime.timedelta()
    finer = datetime.timedelta(microseconds=value.microsecond) - ahead
    return (value.toordinal() - EPOCH_DAY) * DAY + clock + finer // datetime.timedelta(seconds=1)


def _read_vectors(values: Sequence[Any], name: str) -> Cells:
    """Vectors of any lengths."""
    return Cells(Kind.VECTOR, [None if v is None else _vector(v, name) for v in values])


def _vector(values: Any, name: str) -> Array:
    """A vector as float64, NaN where it has gaps."""
    try:
        given = _unmasked(values) if isinstance(values, np.ndarray) else np.asarray(values)
        if given.ndim == 1 and given.dtype.kind not in "Mmc":
            return np.array([np.nan if v is None else v for v in given.tolist()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        pass
    raise _unreadable("lists of other things than numbers", name)
