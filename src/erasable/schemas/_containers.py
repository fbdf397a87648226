"""Tables of any container as columns of cells: Arrow, pandas, polars, or a dict of columns.

What becomes of a cell depends on the cell and the type of its column, never on other cells: where cells of a column are
of several types, each is read by its own, and is then written as a text.

A column of text is coded: each different text is kept once, and read once. pyarrow does that fast where it is
installed; without it the cells are gone through one by one, with the same result.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
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
    PADDED,
    RESPELT,
    TEXT,
    VECTOR,
    VERSION,
    Cells,
    by_shortest_text,
    canonical_text,
    text_cells,
)
from erasable.schemas._objects import moments_of, of_lists, of_objects, refused, without_mask

_LISTS = ("list", "large_list", "fixed_size_list")
_CELLS = ("decimal", "null", "timestamp", "date", "time", "integer", "boolean", "floating")
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


class Columns:
    """The columns of a table by name.

    Parameters
    ----------
    table : Arrow table or batch, pandas or polars dataframe, or dict of columns
        Columns of a dict are lists, arrays or series of one length.
    version : int, default=2
        Of the schema that reads the cells.

    Raises
    ------
    InputError, InputTypeError
        For anything else, and where two columns have one name.
    """

    def __init__(self, table: Any, version: int = VERSION) -> None:
        self._version = version
        self._get, names, self.n_rows = _opened(table)
        self.names: list[str] = [str(n) for n in names]
        if len(set(self.names)) < len(self.names):
            twice = sorted({n for n in self.names if self.names.count(n) > 1})
            raise InputError(f"the table has several columns {', '.join(map(repr, twice))}: rename all but one.")
        self._given = dict(zip(self.names, names, strict=True))

    def __getitem__(self, name: str) -> Cells:
        """The cells of a column."""
        cells = _cells(self._get(self._given[name]), name, self._version)
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
        for name, column in table.items():
            odd = isinstance(column, str | bytes | Mapping | Set) or getattr(column, "ndim", 1) == 0
            if odd or not hasattr(column, "__len__") or not hasattr(column, "__iter__"):
                kind = type(column).__name__
                raise InputTypeError(f"column {str(name)!r} must be a list, an array or a series; got {kind}.")
        names = list(table)
        return table.__getitem__, names, len(table[names[0]]) if names else 0
    if hasattr(table, "column_names") and hasattr(table, "num_rows"):  # pyarrow's; a batch has no such names
        return table.column, list(table.column_names), table.num_rows
    if hasattr(table, "columns") and hasattr(table, "shape") and hasattr(table, "__getitem__"):
        return table.__getitem__, list(table.columns), int(table.shape[0])
    if hasattr(table, "__arrow_c_stream__") and not hasattr(table, "dtype") and not hasattr(table, "type"):
        return _opened(pyarrow().table(table))
    one = " Give it a name: a table of one column, such as {'name': column}." if hasattr(table, "__len__") else ""
    raise InputTypeError(
        f"a table with named columns is required (Arrow, pandas, polars, or a dict of columns); got "
        f"{type(table).__name__}.{one}"
    )


def _cells(column: Any, name: str, version: int) -> Cells:
    dtype = getattr(column, "dtype", None)
    if hasattr(column, "type") and hasattr(column, "null_count"):  # an Arrow array
        return _of_arrow(column, name, version)
    if isinstance(column, np.ma.MaskedArray) and column.ndim == 1:
        gone = np.ma.getmaskarray(column).tolist()
        return of_objects([None if g else v for v, g in zip(column.data, gone, strict=True)], name, version)
    if isinstance(dtype, np.dtype) and dtype.kind in "biufMmU":
        return _of_array(without_mask(column), name, version)
    arrow = _to_arrow(column)
    if arrow is not None:
        return _of_arrow(arrow, name, version)
    if isinstance(column, np.ndarray) and column.ndim > 1:
        return _of_array(column, name, version)
    return of_objects(_listed(column, version), name, version, pandas=hasattr(column, "isna"))


def _listed(column: Any, version: int) -> list[Any]:
    """The cells of a column as objects, those of float32 as such."""
    small = str(getattr(column, "dtype", "")).lower() in ("float32", "float16")
    if small and version > 1:
        return list(column.to_numpy(**({"na_value": np.nan, "dtype": "float32"} if hasattr(column, "isna") else {})))
    for way in ("tolist", "to_list"):
        if hasattr(column, way) and not isinstance(column, np.ndarray):
            return list(getattr(column, way)())
    return list(column)


def _to_arrow(column: Any) -> Any | None:
    """A series of pandas or polars as an Arrow array; None where it is none, holds objects, or there is no pyarrow.

    Arrow gives objects a type that depends on all of them.
    """
    dtype = getattr(column, "dtype", None)
    dtype = getattr(getattr(dtype, "categories", None), "dtype", dtype)  # of pandas' categories
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


# -- arrays --------------------------------------------------------------------------------------------------------


def _of_array(values: Array, name: str, version: int) -> Cells:
    if values.ndim == 2 and values.dtype.kind in "biuf":
        return Cells(VECTOR, values.astype(np.float64))
    if values.ndim != 1:
        raise InputError(f"column {name!r} must have one dimension; got {values.ndim}.")
    match values.dtype.kind:
        case "M":
            return Cells(MOMENT, moments_of(values, name))
        case "U":
            return text_cells(values.tolist())
        case "b" | "i" | "u":
            return Cells(NUMBER, values)
        case "f":
            small = values.dtype.itemsize < 8
            return Cells(NUMBER, by_shortest_text(values, version) if small else values.astype(np.float64, copy=False))
    raise refused(str(values.dtype), name)


# -- Arrow ---------------------------------------------------------------------------------------------------------


def _of_arrow(column: Any, name: str, version: int) -> Cells:
    pa = pyarrow()
    column = column if isinstance(column, pa.ChunkedArray) else pa.chunked_array([column])
    kind = column.type
    if is_kind(kind, "dictionary") and not is_kind(kind.value_type, *TEXTS):
        column = column.cast(kind.value_type)
        kind = column.type
    if is_kind(kind, "decimal"):
        return _decimals(_coded(column.cast(pa.string()).dictionary_encode()), version)
    if is_kind(kind, "dictionary", *TEXTS):
        return _coded(column if is_kind(kind, "dictionary") else column.dictionary_encode())
    if is_kind(kind, "null"):
        return Cells(TEXT, [None], np.zeros(len(column), dtype=np.int32))
    gone = np.asarray(column.is_null()) if column.null_count else None
    if is_kind(kind, "timestamp", "date"):
        values = moments_of(np.asarray(column.to_numpy(zero_copy_only=False)), name)
        return Cells(MOMENT, values)
    if is_kind(kind, "time"):
        per = _PER_SECOND[kind.unit]
        whole = column.cast(pa.int32() if is_kind(kind, "time32") else pa.int64())
        return Cells(CLOCK, _filled(whole, gone, NO_MOMENT, per))
    if is_kind(kind, "integer", "boolean"):
        values = np.asarray((column.fill_null(False if is_kind(kind, "boolean") else 0)).to_numpy())
        return Cells(NUMBER, values, None, gone)
    if is_kind(kind, "floating"):
        return _of_array(np.asarray(column.to_numpy()), name, version)  # missing ones are NaN
    if is_kind(kind, "fixed_size_list") and is_kind(kind.value_type, "integer", "floating"):
        return _fixed_lists(column, gone)
    if is_kind(kind, *_LISTS):
        return of_lists(column.to_pylist(), name)
    raise refused(str(kind).partition("<")[0], name)


def _decimals(cells: Cells, version: int) -> Cells:
    """Numbers that Arrow has written with as many digits as their column has."""
    if version > 1:
        return replace(cells, holds=frozenset((NUMBER,)))
    points = (w is not None and "." in w and (RESPELT if "." in canonical_text(w) else PADDED) for w in cells.values)
    return replace(cells, doubts=[int(p) for p in points])


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
