"""Cells that are Python's objects, or NumPy's: each read by its own type, whatever stands beside it.

An array holds numbers of one type as they are. Where cells of a column are of several types, each is written as a text
that means the same.
"""

from __future__ import annotations

import datetime
import decimal
from collections.abc import Sequence
from typing import Any

import numpy as np

from erasable.core.arrays import Array
from erasable.errors import InputError, InputTypeError
from erasable.schemas._cells import (
    CLOCK,
    DAY,
    EPOCH_DAY,
    MOMENT,
    NO_MOMENT,
    NUMBER,
    NUMERIC,
    PADDED,
    RESPELT,
    TEXT,
    VECTOR,
    Cells,
    canonical_text,
    clock_text,
    coded,
    moment_text,
    text_cells,
)

_KINDS: tuple[tuple[str, tuple[type, ...]], ...] = (
    (TEXT, (str,)),
    (NUMBER, (bool, int, float, np.bool_, np.integer, np.floating, decimal.Decimal)),
    (MOMENT, (datetime.date, np.datetime64)),
    (CLOCK, (datetime.time,)),
    (VECTOR, (list, tuple, np.ndarray)),
)
_NOTHING = ("NAType", "MaskedConstant")  # missing cells of pandas and of NumPy
_SMALL = (np.float16, np.float32)
_COARSE = ("Y", "M", "W", "D", "h", "m")


def of_objects(values: list[Any], name: str, version: int, *, pandas: bool = False) -> Cells:
    """Cells of any types, each read by its own."""
    kinds = {t: _kind_of(t) for t in set(map(type, values)) - {type(None)}}
    if all(issubclass(t, str) for t in kinds):
        return text_cells(values)
    values = [None if v is None or _is_nothing(v, kinds[type(v)]) else v for v in values]
    mixed = version == 1 and not pandas and NUMBER in kinds.values()  # also where all of the numbers are NaN
    kinds = {t: kinds[t] for t in set(map(type, values)) - {type(None)}}
    holds = frozenset(k for k in kinds.values() if k is not None)
    if None in kinds.values() or (
        len(holds) > 1 and (VECTOR in holds or (version == 1 and not holds <= {TEXT, NUMBER}))
    ):
        raise refused(", ".join(sorted(k.__name__ for k in kinds)), name)
    if holds <= {TEXT} and not mixed:
        return text_cells(values)
    if holds == {VECTOR}:
        return of_lists(values, name)
    if holds == {MOMENT} or holds == {CLOCK}:
        seconds = [NO_MOMENT if v is None else _seconds(v, name) for v in values]
        return Cells(next(iter(holds)), np.array(seconds, dtype=np.int64))
    if version == 1:
        _check_small(values, name, pandas=pandas)
    numbers = _as_array(values, set(kinds)) if holds == {NUMBER} else None
    return _as_texts(values, holds, name, version, pandas=pandas) if numbers is None else numbers


def _kind_of(kind: type) -> str | None:
    if kind.__name__ in _NOTHING:
        return TEXT
    found = (k for k, types in _KINDS if issubclass(kind, types))
    return None if issubclass(kind, np.timedelta64) else next(found, None)


def _is_nothing(value: Any, kind: str | None) -> bool:
    """Whether a cell is NaN, or one of the other words that libraries have for nothing."""
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    return type(value).__name__ in _NOTHING or (kind in (NUMBER, MOMENT) and bool(value != value))


def _check_small(values: list[Any], name: str, *, pandas: bool) -> None:
    """Refuse small floats among others, which schemas of version 1 read by what stands beside them."""
    small = [v for v in values if isinstance(v, _SMALL) and float(str(v)) != float(v)]
    others = {type(v) for v in values if v is not None and not isinstance(v, _SMALL)}
    texts = any(issubclass(t, str | bool | np.bool_ | decimal.Decimal) for t in others)
    if small and (texts or (pandas and (others or any(isinstance(v, np.float16) for v in small)))):
        raise InputError(
            f"column {name!r} mixes float32 with other types, which a schema of version 1 reads by the cells beside "
            "them. Convert the column to one type, or learn a new model with version = 2 in the schema."
        )


def _as_array(values: list[Any], types: set[type]) -> Cells | None:
    """Numbers as an array, where it holds each of them as it is; None where it does not."""
    gone = np.array([v is None for v in values], dtype=bool)
    if all(issubclass(t, bool | np.bool_) for t in types):
        return Cells(NUMBER, np.array([bool(v) for v in values], dtype=bool), None, gone if gone.any() else None)
    if any(issubclass(t, bool | np.bool_ | decimal.Decimal) for t in types):
        return None
    whole = [int(v) for v in values if isinstance(v, int | np.integer)]
    low, high = int(min(whole, default=0)), int(max(whole, default=0))
    if all(issubclass(t, int | np.integer) for t in types):
        if not -(2**63) <= low <= high < 2**63:
            return None
        plain = np.array([0 if v is None else int(v) for v in values], dtype=np.int64)
        return Cells(NUMBER, plain, None, gone if gone.any() else None)
    if not -(2**53) < low <= high < 2**53:
        return None
    floats = [np.nan if v is None else float(str(v)) if isinstance(v, _SMALL) else float(v) for v in values]
    return Cells(NUMBER, np.array(floats, dtype=np.float64))


def _as_texts(values: list[Any], holds: frozenset[str], name: str, version: int, *, pandas: bool) -> Cells:
    """Cells of several types as texts that mean the same."""
    texts = [None if v is None else _text_of(v, name, version) for v in values]
    if version > 1:
        words, inverse = coded(texts)
        return Cells(TEXT, words, inverse, None, holds)
    apart = holds == {NUMBER} and not any(isinstance(v, decimal.Decimal) for v in values)
    truths = any(isinstance(v, bool | np.bool_) for v in values)
    floats = apart and not truths and any(isinstance(v, float | np.floating) for v in values)
    scaled = pandas and any(isinstance(v, decimal.Decimal) and not str(v).isdigit() for v in values)
    known, inverse = coded(
        (t, 0 if t is None else _doubt(v, t, floats, pandas and apart, scaled))
        for v, t in zip(values, texts, strict=True)
    )
    return Cells(TEXT, [t for t, _ in known], inverse, doubts=[d for _, d in known])


def _doubt(value: Any, text: str, floats: bool, truths: bool, scaled: bool) -> int:
    """What other cells changed in a cell, in version 1: numbers became floats, numbers or decimals all together."""
    if isinstance(value, str):
        return PADDED if canonical_text(text, 1) != text else 0
    if isinstance(value, decimal.Decimal):
        plain = canonical_text(text)
        return 0 if not scaled else RESPELT if "." in plain or canonical_text(text, 1) != plain else PADDED
    if isinstance(value, bool | np.bool_):
        return RESPELT if truths else NUMERIC
    if floats:
        return RESPELT if isinstance(value, int | np.integer) and abs(int(value)) >= 2**53 else NUMERIC
    return RESPELT if canonical_text(text, 1) != text else NUMERIC


def _text_of(value: Any, name: str, version: int) -> str:
    """A text that reads as the same cell."""
    if isinstance(value, str):
        return value
    if isinstance(value, datetime.time):
        return clock_text(_seconds(value, name))
    if isinstance(value, datetime.date | np.datetime64):
        return moment_text(_seconds(value, name))
    if isinstance(value, _SMALL):
        return canonical_text(float(str(value)), version)
    return str(value) if version == 1 and isinstance(value, decimal.Decimal) else canonical_text(value, version)


def _seconds(value: datetime.date | datetime.time | np.datetime64, name: str) -> int:
    """Seconds since midnight of a time of day; since 1970 of a date, in UTC where it has a zone."""
    if isinstance(value, np.datetime64):
        return int(moments_of(np.array([value]), name)[0])
    if not isinstance(value, datetime.datetime | datetime.time):
        return (value.toordinal() - EPOCH_DAY) * DAY
    clock = value.hour * 3600 + value.minute * 60 + value.second
    if isinstance(value, datetime.time):
        return clock
    ahead = value.utcoffset() or datetime.timedelta()
    finer = datetime.timedelta(microseconds=value.microsecond) - ahead
    return (value.toordinal() - EPOCH_DAY) * DAY + clock + finer // datetime.timedelta(seconds=1)


def of_lists(values: Sequence[Any], name: str) -> Cells:
    """Vectors, of whatever lengths."""
    return Cells(VECTOR, [None if v is None else _numeric(v, name) for v in values])


def _numeric(values: Any, name: str) -> Array:
    """A vector as float64, NaN where it has gaps."""
    try:
        given = without_mask(values) if isinstance(values, np.ndarray) else np.asarray(values)
        if given.ndim == 1 and given.dtype.kind not in "Mmc":
            return np.array([np.nan if v is None else v for v in given.tolist()], dtype=np.float64)
    except (TypeError, ValueError, OverflowError, ArithmeticError):
        pass
    raise refused("lists of other things than numbers", name)


def without_mask(column: Any) -> Array:
    """An array; of one of several dimensions that is masked, NaN where it is."""
    if isinstance(column, np.ma.MaskedArray) and np.ma.getmaskarray(column).any():
        return np.where(np.ma.getmaskarray(column), np.nan, column.data.astype(np.float64))
    return np.asarray(column)


def moments_of(values: Array, name: str) -> Array:
    """Seconds since 1970 of NumPy's datetimes; what is finer is cut off, downwards."""
    with np.errstate(over="ignore"):
        moments = values.astype("datetime64[s]")
    there = ~np.isnat(values)
    if np.datetime_data(values.dtype)[0] in _COARSE and (moments.astype(values.dtype) != values)[there].any():
        raise InputError(f"column {name!r} has dates so far away that 64 bits do not hold their seconds: correct them.")
    seconds = moments.view(np.int64).copy()
    seconds[~there] = NO_MOMENT
    return seconds


def refused(kind: str, name: str) -> InputTypeError:
    return InputTypeError(
        f"column {name!r} holds {kind}: a cell must be a text, a number, a date, a time or a list of numbers. "
        "Give it the role 'ignore', or convert it first."
    )
