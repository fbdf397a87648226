"""Checks of parameters and cells that callers give, and optional packages: only here is pyarrow imported.

A check of a parameter returns it as a plain Python value, or raises ``ConfigurationError`` with the name of the
parameter, what is required and what was found. :func:`odd_cells` checks the cells of arrays, tables and lists.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from decimal import Decimal
from difflib import get_close_matches
from importlib import import_module
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.errors import ConfigurationError, InputError, InputTypeError

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")


def finite_number(value: object, name: str) -> float:
    """Return a finite number as a float."""
    return _number(value, name, "a finite number", math.isfinite)


def positive_number(value: object, name: str) -> float:
    """Return a positive finite number as a float."""
    return _number(value, name, "a positive finite number", lambda number: 0.0 < number < math.inf)


def number_not_negative(value: object, name: str) -> float:
    """Return a finite number, zero or more, as a float; minus zero is zero."""
    return _number(value, name, "a finite number that is not negative", lambda number: 0.0 <= number < math.inf) + 0.0


def number_between(value: object, name: str, low: float, high: float, *, closed: str = "") -> float:
    """Return a finite number between two limits, which count themselves if ``closed`` is "low", "high" or "both"."""
    left, right = "at least" if closed == "low" else "above", "at most" if closed == "high" else "below"
    limits = f"{left} {low:g}" if high == math.inf else f"{left} {low:g} and {right} {high:g}"
    limits = f"between {low:g} and {high:g}" if closed == "both" else limits

    def within(number: float) -> bool:
        above = number >= low if closed in ("low", "both") else number > low
        below = number <= high if closed in ("high", "both") else number < high
        return above and below and math.isfinite(number)

    return _number(value, name, f"a number {limits}", within)


def probability(value: object, name: str) -> float:
    """Return a number above 0 and below 1."""
    return number_between(value, name, 0.0, 1.0)


def count(value: Any, name: str, least: int = 1) -> int:
    """Return an integer that float64 arithmetic can use: at most 1e300."""
    if whole_number(value, name, least) > 10**300:
        raise ConfigurationError(f"{name} must be at most 1e300, so that float64 holds it; got a larger integer.")
    return int(value)


def whole_number(value: object, name: str, least: int = 1, most: int | None = None) -> int:
    """Return an integer in a range."""
    required = {0: "a non-negative integer", 1: "a positive integer"}.get(least, f"an integer, at least {least}")
    return _integer(value, name, required if most is None else f"an integer between {least} and {most}", least, most)


def seed(value: object, name: str = "random_state", most: int | None = None) -> int:
    """Return an integer to draw random numbers from. None and generators are refused: a refit has to draw the same."""
    limit = "" if most is None else f" up to {most}"
    return _integer(value, name, f"a non-negative integer{limit}, for a refit to draw the same", 0, most)


def switch(value: object, name: str) -> bool:
    """Return True or False, also for NumPy's."""
    if not _is_bool(value):
        raise ConfigurationError(f"{name} must be True or False; got {_shown(value)}.")
    return bool(value)


def choice(value: object, name: str, among: Sequence[T]) -> T:
    """Return the choice that the value equals."""
    for known in among:
        if isinstance(value, type(known)) and value == known:
            return known
    raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, among))}; got {_shown(value)}.")


def text(value: object, name: str) -> str:
    """Return a text."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be text; got {type(value).__name__}.")
    return str(value)


def function(value: object, name: str) -> Callable[..., Any]:
    """Return a callable."""
    if not callable(value):
        raise ConfigurationError(f"{name} must be callable; got {type(value).__name__}.")
    called: Callable[..., Any] = value
    return called


def optional_module(name: str, missing: str) -> ModuleType:
    """Return a module of an optional package; ConfigurationError with the message ``missing`` if there is none."""
    with suppress(ImportError):
        return import_module(name)
    raise ConfigurationError(missing)


def missing_module(error: ImportError, task: str) -> ConfigurationError:
    """Return the error of a task that failed because a module is missing or broken; it blames no file."""
    named = f"the module {error.name}" if error.name else "a module"
    return ConfigurationError(f"{task} needs {named}, which cannot be imported: install it in this environment.")


def did_you_mean(absent: Iterable[str], names: Sequence[str], otherwise: str = "") -> str:
    """Return the existing names nearest to absent ones, as a question; ``otherwise`` if none is near.

    Examples
    --------
    >>> from erasable.validation import did_you_mean
    >>> did_you_mean(["survived", "Agee"], ["Survived", "Age", "Fare"])
    "Did you mean 'Survived', 'Age'?"
    """
    small = {name.casefold(): name for name in names}
    near = [small[found] for name in absent for found in get_close_matches(name.casefold(), small, 1, 0.75)]
    return f"Did you mean {', '.join(map(repr, dict.fromkeys(near)))}?" if near else otherwise


def _number(value: object, name: str, required: str, good: Callable[[float], bool]) -> float:
    """Return a real number as a float; one too large for float64 counts as infinite."""
    number = math.nan
    if isinstance(value, numbers.Real) and not _is_bool(value):
        try:
            number = float(value)
        except OverflowError:
            number = math.inf
    if not good(number):
        raise ConfigurationError(f"{name} must be {required}; got {_shown(value)}.")
    return number


def _integer(value: Any, name: str, required: str, least: int, most: int | None) -> int:
    whole = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if not whole or int(value) < least or (most is not None and int(value) > most):
        raise ConfigurationError(f"{name} must be {required}; got {_shown(value)}.")
    return int(value)


def _is_bool(value: object) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # the others are NumPy's


def _shown(value: object) -> str:
    """Return a short plain value for a message; of anything else only its type, since it may be rows."""
    plain = isinstance(value, str | bytes | numbers.Number | None)
    large = isinstance(value, int) and value.bit_length() > 1000  # Python refuses to write the longest
    shown = repr(value) if plain and not large else ""
    return shown if 0 < len(shown) <= 60 else type(value).__name__


# -- cells ---------------------------------------------------------------------------------------------------------

MISSING, DATES, COMPLEX, TEXT = "missing entries", "dates or times", "complex numbers", "text"
_OF_DTYPE = {**dict.fromkeys("biuf", ""), **dict.fromkeys("mM", DATES), "c": COMPLEX, **dict.fromkeys("UST", TEXT)}
_OTHER_TIMES = ("Period", "MonthDayNano", "DateOffset")
_NUMBERS = ("int", "uint", "halffloat", "float", "double", "bool", "decimal")  # as pyarrow writes its types
_TIMES = ("date", "time", "duration", "month")


def odd_cells(values: object) -> tuple[str, list[str]] | None:
    """Return what cells hold that is no real number, and the names of those columns; None if all are numbers.

    NumPy would silently turn some of it into numbers: masked entries into what the mask hides, dates into counts of a
    unit, complex numbers into their real parts, text into what it spells. The first value is ``DATES``, ``COMPLEX``,
    ``TEXT`` or ``MISSING``, otherwise names of types. NaN counts as a number. *Cost*: columns of numbers are known by
    their type; others are read once.
    """
    found: dict[str, list[str]] = {}
    for name, column in _columns(values):
        for what in _odd(column):
            found.setdefault(what, []).append(name)
    if not found:
        return None
    what = next((known for known in (DATES, COMPLEX, TEXT, MISSING) if known in found), ", ".join(sorted(found)))
    return what, [repr(name) for name in found.get(what, ()) if name]


def real_numbers(values: object, name: str) -> npt.NDArray[np.float64]:
    """Return the numbers of a list, array, column or dataframe as float64; NaN and infinities pass.

    Raises InputError or InputTypeError when some are missing or are no real numbers.
    """
    if not is_listed(values) and not (hasattr(values, "__array__") and getattr(values, "shape", True)):
        dense = ": convert it with toarray()" if hasattr(values, "toarray") else ""
        raise InputTypeError(f"{name} must be a list or an array of numbers; got {type(values).__name__}{dense}.")
    found = odd_cells(values)
    if found is not None and found[0] == MISSING:
        raise InputError(f"there are missing entries in {name}: give a number for every row, or leave these rows out.")
    if found is not None:
        raise InputTypeError(f"{name} must hold real numbers; got {found[0]}: convert them first.")
    with suppress(TypeError, ValueError, OverflowError):
        return np.asarray(values).astype(np.float64)
    raise InputError(f"{name} must hold numbers that float64 has, as many for each row: correct those that are not.")


def is_listed(values: object) -> bool:
    """Return whether the values are a list, tuple, range or similar sequence, and no text."""
    return isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray | memoryview)


def _columns(values: Any) -> Iterable[tuple[str, Any]]:
    """Return the named columns of a dataframe; anything else is one column without a name."""
    if hasattr(values, "itercolumns"):  # pyarrow
        return zip(values.schema.names, values.itercolumns(), strict=True)
    if hasattr(values, "iter_columns"):  # polars
        return zip(values.columns, values.iter_columns(), strict=True)
    if hasattr(values, "items") and hasattr(values, "dtypes") and len(getattr(values, "shape", ())) == 2:  # pandas
        plain = [isinstance(dtype, np.dtype) and dtype.kind in "biuf" for dtype in values.dtypes]
        return ((str(values.columns[j]), values.iloc[:, j]) for j, is_plain in enumerate(plain) if not is_plain)
    return [("", values)]


def _odd(column: Any) -> set[str]:
    if isinstance(column, np.ma.MaskedArray) and np.ma.is_masked(column):
        return {MISSING}
    dtype: Any = getattr(column, "dtype", getattr(column, "type", None))
    kind = getattr(dtype, "kind", None)
    if hasattr(dtype, "is_numeric"):  # polars
        kind = "f" if dtype.is_numeric() else "M" if dtype.is_temporal() else None
    elif hasattr(dtype, "to_pandas_dtype"):  # pyarrow
        kind = "f" if str(dtype).startswith(_NUMBERS) else "M" if str(dtype).startswith(_TIMES) else None
    if kind in _OF_DTYPE:
        gone = hasattr(dtype, "na_value") and hasattr(column, "isna") and column.isna().any()  # pandas' own types
        return {_OF_DTYPE[kind] or (MISSING if gone else "")} - {""}
    if dtype is None and is_listed(column):
        rows = set(map(type, column))
        if rows <= {list, tuple}:
            return _of_types(set(map(type, chain.from_iterable(column))))
        if rows and all(hasattr(row, "dtype") and getattr(row, "shape", ()) for row in column):
            return set().union(*map(_odd, column))
        return _of_types(rows)
    if isinstance(column, np.ndarray):
        column = column.ravel()
    listed = next((getattr(column, how) for how in ("to_pylist", "to_list", "tolist") if hasattr(column, how)), None)
    return _of_types(set(map(type, listed()))) if listed is not None else set()


def _of_types(types: set[type]) -> set[str]:
    """Return what cells of these types are; nothing for real numbers."""
    return set(map(_of_type, types)) - {""}


def _of_type(kind: type) -> str:
    of_python = any(base.__module__ == "datetime" for base in kind.__mro__)  # not imported: core is to know no clock
    of_others = issubclass(kind, np.datetime64 | np.timedelta64) or kind.__name__ in _OTHER_TIMES
    if of_python or of_others:
        return DATES
    if issubclass(kind, numbers.Real | Decimal | np.bool_):
        return ""
    if issubclass(kind, numbers.Complex):
        return COMPLEX
    if issubclass(kind, str | bytes):
        return TEXT
    is_missing = issubclass(kind, type(None) | np.ma.MaskedArray) or kind.__name__ == "NAType"
    return MISSING if is_missing else kind.__name__


ArrowBatch: TypeAlias = "pa.RecordBatch"
ArrowColumn: TypeAlias = "pa.ChunkedArray"
ArrowSchema: TypeAlias = "pa.Schema"
ArrowTable: TypeAlias = "pa.Table"
ArrowType: TypeAlias = "pa.DataType"

ARROW_NUMBERS = ("integer", "floating", "decimal", "boolean", "null")
ARROW_TEXTS = ("string", "large_string", "string_view")
ARROW_BYTES = ("binary", "large_binary", "binary_view")


def pyarrow() -> ModuleType:
    """The module pyarrow, with its parts for CSV, Parquet, streams and computing.

    Raises ConfigurationError when it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.ipc
        import pyarrow.parquet
    except ImportError:
        problem = "reading CSV and Parquet needs pyarrow: pip install 'erasable[tables]', or store the table as .npz."
    else:
        module: ModuleType = pyarrow
        return module
    raise ConfigurationError(problem)


def open_parquet(source: Any, **options: Any) -> Any:
    """A Parquet file, to be closed by the caller; read_table would make columns of the names of folders.

    ``source`` is a path, a file object, or something that ``opened`` makes a file object of.
    """
    source = source.opened() if hasattr(source, "opened") else source
    return pyarrow().parquet.ParquetFile(source, **options)


def is_kind(kind: ArrowType, *wanted: str) -> bool:
    """Whether a type of pyarrow is one of those that ``pyarrow.types`` calls so."""
    types = pyarrow().types
    return any(getattr(types, f"is_{name}")(kind) for name in wanted)
