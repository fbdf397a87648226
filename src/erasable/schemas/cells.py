"""The rules by which one cell is read, whatever container it came in and whatever stands next to it.

A cell is a text, a number, a date, a time of day, or a vector. Categories are compared by the canonical text of a
cell. CSV holds nothing but text while other containers have types, and the same table must mean the same in both:

- text loses ASCII spaces at its ends;
- a number is its digits, without an exponent and without trailing zeros: 39, 39.0 and "39.00" are "39", "5e-01" is
  "0.5", and minus zero is "0". A float stands for the shortest text that reads back as the same float;
- a truth value is "true" or "false", in CSV in any mixture of capitals;
- a date is "2020-01-31 10:30:00", and "2020-01-31" at midnight; a time of day is "10:30:00".

The meaning of a cell never depends on another cell. Lower case is that of :func:`lowered`, because the Unicode tables
of Python change with its version. Pure.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s

VERSION = 2  # of new schemas
NO_TIME = np.iinfo(np.int64).min  # the seconds of a missing date or time of day
DAY = 86400
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_SPACES = " \t\n\r\x0b\x0c"
_WHOLE = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_NUMERAL = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?([eE][+-][0-9]{1,3})?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_TRUTHS = ("true", "false")
_WORDS = {"true": 1.0, "false": 0.0, **{s + w: float(s + w) for s in ("", "+", "-") for w in ("inf", "infinity")}}
_DATES = {
    "ymd": r"(?P<y>[0-9]{4})(?P<s>[-/.])(?P<m>[0-9]{1,2})(?P=s)(?P<d>[0-9]{1,2})",
    "dmy": r"(?P<d>[0-9]{1,2})(?P<s>[-/.])(?P<m>[0-9]{1,2})(?P=s)(?P<y>[0-9]{4})",
    "mdy": r"(?P<m>[0-9]{1,2})(?P<s>[-/.])(?P<d>[0-9]{1,2})(?P=s)(?P<y>[0-9]{4})",
}
ORDERS = tuple(_DATES)
_CLOCK = r"(?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.[0-9]+)?)?"
_ZONE = r" ?(?P<Z>Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"
_DATE = {order: re.compile(rf"{date}(?:[T ]{_CLOCK}(?:{_ZONE})?)?") for order, date in _DATES.items()}
_TIME = re.compile(_CLOCK)
# First and last capital and the distance to its small letter: ASCII, Latin-1 (without the multiplication sign), Greek
# without accents, Cyrillic.
_CAPITALS = (
    (0x41, 0x5A, 32),
    (0xC0, 0xD6, 32),
    (0xD8, 0xDE, 32),
    (0x391, 0x3A9, 32),
    (0x410, 0x42F, 32),
    (0x400, 0x40F, 80),
)
_LOWER = {c: c + by for low, high, by in _CAPITALS for c in range(low, high + 1)}
_ASCII_LOWER = {c: c + 32 for c in range(0x41, 0x5B)}


class Kind(StrEnum):
    """What a cell is. Schemas of version 1 know decimals as such: their text depends on the type of the column."""

    TEXT = "text"
    NUMBER = "numbers"
    DATE = "dates"
    TIME = "times of day"
    VECTOR = "vectors"
    DECIMAL = "decimals"


@dataclass(frozen=True)
class Cells:
    """The cells of one column."""

    kind: str  # the form of the values
    # Texts as given; numbers of any NumPy type, NaN where missing; seconds since 1970 (UTC where a zone is known) or
    # since midnight, ``NO_TIME`` where missing; vectors as rows of float64, or a list of them, with None.
    values: Any
    # For each row the position of its cell in ``values``; without it, there is one value per row.
    inverse: Array | None = None
    missing: Booleans | None = None  # which numbers or vectors are missing, where the values do not show it
    # The original kinds of the cells, where some that are not texts are written as texts.
    holds: frozenset[str] = frozenset()

    def __len__(self) -> int:
        return len(self.values if self.inverse is None else self.inverse)

    @property
    def kinds(self) -> frozenset[str]:
        """The original kinds of the cells."""
        return self.holds or frozenset((self.kind,))

    def are_all_missing(self) -> bool:
        """Whether every cell is missing, so that the column may be of any kind."""
        if self.kind in (Kind.DATE, Kind.TIME):
            return bool(np.all(self.values == NO_TIME))
        if self.kind == Kind.NUMBER:
            return bool(_missing_numbers(self).all())
        absent = [False] * len(self.values) if self.missing is None else self.missing.tolist()
        return all(a or v is None for v, a in zip(self.values, absent, strict=True))

    def distinct(self) -> Cells:
        """The same cells with each number, date or time kept once."""
        v = self.values
        if self.kind not in (Kind.NUMBER, Kind.DATE, Kind.TIME) or self.inverse is not None or not len(v):
            return self
        if self.kind != Kind.NUMBER:
            return Cells(self.kind, *np.unique(v, return_inverse=True))
        if v.dtype.kind in "iu" and int(v.max()) - int(v.min()) < min(2**16, len(v)):
            low = int(v.min())
            inverse = (v - v.dtype.type(low)).astype(np.int32)
            kept: Array = np.arange(low, int(v.max()) + 1, dtype=v.dtype)
        else:
            kept, inverse = np.unique(v, return_inverse=True)
        if self.missing is None:
            return Cells(Kind.NUMBER, kept, inverse)
        inverse = np.where(self.missing, len(kept), inverse)
        return Cells(Kind.NUMBER, np.append(kept, kept[:1]), inverse, np.arange(len(kept) + 1) == len(kept))


def _missing_numbers(cells: Cells) -> Booleans:
    missing = np.zeros(len(cells.values), dtype=bool) if cells.missing is None else cells.missing
    return missing | np.isnan(cells.values) if cells.values.dtype.kind == "f" else missing


def distinct_values(values: Iterable[Any]) -> tuple[list[Any], Int64s]:
    """The distinct hashable values in order of appearance, and for each value the position of its own."""
    positions: dict[Any, int] = {}
    inverse = np.array([positions.setdefault(v, len(positions)) for v in values], dtype=np.int64)
    return list(positions), inverse


def text_cells(values: Sequence[str | None]) -> Cells:
    """Texts, each kept once."""
    return Cells(Kind.TEXT, *distinct_values(values))


# -- texts and numbers -------------------------------------------------------------------------------------------------


def stripped(text: str) -> str:
    """A text without ASCII spaces at its ends."""
    return text.strip(_SPACES)


def lowered(text: str) -> str:
    """A text with the capitals of ASCII, Latin-1, Greek and Cyrillic as small letters, and all else unchanged.

    Accented capitals beyond these stay: the ranges are U+0041 to 5A, C0 to DE (not D7), 391 to 3A9, 400 to 42F.
    """
    return text.lower() if text.isascii() else text.translate(_LOWER)


def folded(text: str) -> str:
    """A text as spellings of missing, yes and no are compared: stripped, with ASCII capitals as small letters."""
    text = stripped(text)
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


def canonical_text(cell: Any, version: int = VERSION) -> str:
    """The canonical text of a text, a number or a truth value, for a schema of this version."""
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer):
        return str(int(cell)) if -(2**63) <= cell < 2**64 else str(decimal.Decimal(int(cell)))  # of any length
    if not isinstance(cell, str):
        number = float(cell)
        if version == 1:
            return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)
        cell = str(cell) if isinstance(cell, decimal.Decimal) and cell.is_finite() else repr(number)
    text = stripped(cell)
    if version == 1:
        if (found := _WHOLE.fullmatch(text)) is not None:
            return "0" if found[1] == "-0" else found[1]
    elif (found := _NUMERAL.fullmatch(text)) is not None:
        plain = format(decimal.Decimal(text), "f") if found[1] else text
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return "0" if plain == "-0" else plain
    elif (date := _date_or_time_text(text)) is not None:
        return date
    return folded(text) if len(text) in (4, 5) and folded(text) in _TRUTHS else text


def parse_number(text: str) -> float | None:
    """The float64 that a stripped text stands for; None where it is no number.

    A sign, digits with a point, an exponent; or inf, infinity, true (1) or false (0), in any capitals. No commas.
    """
    return float(text) if _NUMBER.fullmatch(text) else _WORDS.get(folded(text))


def widen(values: Array, version: int = VERSION) -> Float64s:
    """float32 and float16 numbers as the float64 of their shortest text, which is what a CSV would hold.

    In version 1, float16 numbers have the shortest text of the same float32.
    """
    read: Float64s = (values.astype(np.float32) if version == 1 else values).astype("U16").astype(np.float64)
    return read


def missing_texts(missing: Iterable[str], version: int = VERSION) -> frozenset[str]:
    """Spellings of a missing cell with their canonical texts: where -999 is missing, -999.0 is too."""
    given = frozenset(missing)
    return given if version == 1 else given | {folded(canonical_text(m)) for m in given}


def canonical_texts(cells: Cells, missing: Collection[str], version: int = VERSION) -> list[str | None]:
    """The canonical texts of cells that are not vectors, None where they are missing."""
    if cells.kind == Kind.TEXT:
        found = [None if t is None else canonical_text(t, version) for t in stripped_texts(cells, missing)]
    elif cells.kind == Kind.NUMBER:
        absent = _missing_numbers(cells).tolist()
        found = [None if a else canonical_text(v, version) for v, a in zip(cells.values.tolist(), absent, strict=True)]
    else:
        write = date_text if cells.kind == Kind.DATE else time_text
        found = [None if v == NO_TIME else write(v) for v in cells.values.tolist()]
    return found if version == 1 else stripped_texts(Cells(Kind.TEXT, found), missing)


def stripped_texts(cells: Cells, missing: Collection[str]) -> list[str | None]:
    """Texts without spaces at their ends, None where they are missing; numbers as their canonical text."""
    if cells.kind != Kind.TEXT:
        return canonical_texts(cells, missing, 1)
    longest = max(map(len, missing), default=0)
    texts = [None if t is None else t.strip(_SPACES) for t in cells.values]
    return [None if t is None or (len(t) <= longest and folded(t) in missing) else t for t in texts]


def read_numbers(cells: Cells, missing: Collection[str], version: int = VERSION) -> tuple[Float64s, Booleans]:
    """Texts or numbers as float64, NaN where there is none; and which of the texts are not numbers."""
    if cells.kind == Kind.NUMBER:
        values: Float64s = cells.values.astype(np.float64)
        if cells.missing is not None:
            values[cells.missing] = np.nan
        bad = np.zeros(len(values), dtype=bool)
    else:
        texts = [None if t is None or (s := folded(t)) in missing or s == "nan" else stripped(t) for t in cells.values]
        found = [None if t is None else parse_number(t) for t in texts]
        values = np.array([np.nan if f is None else f for f in found], dtype=np.float64)
        bad = np.array([t is not None and f is None for t, f in zip(texts, found, strict=True)], dtype=bool)
    if version > 1:
        truths = cells.kind == Kind.NUMBER and cells.values.dtype == bool
        absent = [x for m in missing if (truths or m not in _TRUTHS) and (x := parse_number(m)) is not None]
        if absent:
            values[np.isin(values, absent)] = np.nan
    return values, bad


# -- dates and times of day --------------------------------------------------------------------------------------------


def parse_date(text: str, order: str) -> int | None:
    """Seconds since 1970 of a date with or without a time, in UTC where it has a zone; None where it is no date."""
    found = _DATE[order].fullmatch(text)
    if found is None:
        return None
    try:
        day = datetime.date(int(found["y"]), int(found["m"]), int(found["d"])).toordinal() - EPOCH_DAY
    except ValueError:
        return None
    clock = 0 if found["H"] is None else _since_midnight(found)
    return None if clock is None else day * DAY + clock - _zone_offset(found["Z"])


def date_parser(order: str) -> Callable[[str], int | None]:
    """:func:`parse_date` for a column: days, and times after a space, are parsed once each."""
    days: dict[str, int | None] = {}
    clocks: dict[str, int | None] = {"": 0}
    first = "1970-01-01" if order == "ymd" else "01-01-1970"

    def parse(text: str) -> int | None:
        head, gap, tail = text.partition(" ")
        tail = gap + tail
        if head not in days:
            days[head] = None if "T" in head else parse_date(head, order)
        if tail not in clocks:
            clocks[tail] = parse_date(first + tail, order)
        day, clock = days[head], clocks[tail]
        return parse_date(text, order) if day is None or clock is None else day + clock

    return parse


def parse_time(text: str) -> int | None:
    """Seconds since midnight of a time of day; None where it is none."""
    found = _TIME.fullmatch(text)
    return None if found is None else _since_midnight(found)


def date_text(seconds: int) -> str:
    """The canonical text of seconds since 1970."""
    return str(np.datetime64(seconds, "s")).replace("T", " ").removesuffix(" 00:00:00")


def time_text(seconds: int) -> str:
    """The canonical text of seconds since midnight."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _date_or_time_text(text: str) -> str | None:
    """The canonical text of a date or time of day that is written with its seconds, as programs write them."""
    if text[2:3] == text[5:6] == ":":
        seconds = parse_time(text)
        return None if seconds is None else time_text(seconds)
    if text[4:5] == text[7:8] == "-" and text[13:14] == text[16:17] == ":":
        seconds = parse_date(text, "ymd")
        return None if seconds is None else date_text(seconds)
    return None


def _since_midnight(found: re.Match[str]) -> int | None:
    hour, minute, second = int(found["H"]), int(found["M"]), int(found["S"] or 0)
    return hour * 3600 + minute * 60 + second if hour < 24 and minute < 60 and second < 60 else None


def _zone_offset(zone: str | None) -> int:
    if zone is None or zone in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60)


def label_in(text: str, kind: type) -> Any:
    """The label of a type that has this canonical text; the text if there is none."""
    if kind is bool:
        return {"true": True, "false": False}.get(text, text)
    try:
        return kind(text) if kind in (int, float) else text
    except ValueError:
        return text
