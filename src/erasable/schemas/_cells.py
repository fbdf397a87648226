"""What a cell of a table is, whatever container it came in: a text, a number, a moment, a time of day, or a vector.

The canonical text of a cell is what categories are compared by. CSV has nothing but text, other containers have types,
and the same table must mean the same in both:

- text loses the spaces at its ends (those of ASCII; no others are known here);
- a number is its digits, without an exponent and without zeros at the end of a fraction: 39, 39.0 and "39.00" are "39",
  0.5, "0.50" and "5e-01" are "0.5", and minus zero is "0". A float stands for its shortest text that reads back as the
  same float;
- truth is "true" or "false", in CSV in any mixture of capitals;
- a moment is "2020-01-31 10:30:00", and "2020-01-31" at midnight; a time of day is "10:30:00".

What a cell means never depends on another cell. In version 1 of schemas it did in a few places; :func:`check_alone`
refuses these.

Lower case, where it is asked for, is that of :func:`lowered`, which knows the alphabets listed there and no Unicode
tables: those of Python change with its version. Pure.
"""

from __future__ import annotations

import datetime
import decimal
import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.errors import InputError

VERSION = 2  # of schemas that are written now
TEXT, NUMBER, MOMENT, CLOCK, VECTOR = "text", "numbers", "dates", "times of day", "vectors"
NO_MOMENT = np.iinfo(np.int64).min  # where there is no date or time
DAY = 86400
EPOCH_DAY = datetime.date(1970, 1, 1).toordinal()
_SPACES = " \t\n\r\x0b\x0c"
_ROUND = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
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
_TIME = r"(?P<H>[0-9]{1,2}):(?P<M>[0-9]{2})(?::(?P<S>[0-9]{2})(?:\.[0-9]+)?)?"
_ZONE = r" ?(?P<Z>Z|UTC|[+-][0-9]{2}(?::?[0-9]{2})?)"
_MOMENTS = {order: re.compile(rf"{date}(?:[T ]{_TIME}(?:{_ZONE})?)?") for order, date in _DATES.items()}
_CLOCK = re.compile(_TIME)
# First and last capital, and how far away its small letter is: ASCII, Latin-1 (but for the sign of multiplication
# between its halves), Greek without accents, Cyrillic.
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


@dataclass(frozen=True)
class Cells:
    """The cells of one column.

    Attributes
    ----------
    kind : str
        TEXT, NUMBER, MOMENT, CLOCK or VECTOR: how the values are written here.
    values : list of str or None, or array
        Texts as they came; numbers of any NumPy type, NaN where missing; seconds since 1970 (UTC where a zone is known)
        or since midnight, ``NO_MOMENT`` where missing; vectors as rows of float64, or a list of them, with None.
    inverse : array of int, optional
        For each row the place of its cell in ``values``; without it, there is one value for each row.
    missing : array of bool, optional
        Which numbers or rows are missing, where the values do not say it themselves.
    holds : frozenset of str
        The kinds of the cells, where some that are no texts are written as texts.
    doubts : list of int, optional
        Of cells that a schema of version 1 reads, where it may have to refuse some: one of the following for each text.
        NUMERIC stands for a number among texts, RESPELT for one whose text other cells changed, PADDED for a cell of
        which they changed what a column of the kind text reads.
    """

    kind: str
    values: Any
    inverse: Array | None = None
    missing: Booleans | None = None
    holds: frozenset[str] = frozenset()
    doubts: Sequence[int] | None = None

    def __len__(self) -> int:
        return len(self.values if self.inverse is None else self.inverse)

    @property
    def kinds(self) -> frozenset[str]:
        """The kinds of the cells as they came."""
        return self.holds or frozenset((self.kind,))

    def are_all_missing(self) -> bool:
        """Whether no cell holds anything, so that the column may be of any kind."""
        if self.kind in (MOMENT, CLOCK):
            return bool(np.all(self.values == NO_MOMENT))
        if self.kind == NUMBER:
            return bool(_gone(self).all())
        gone = [False] * len(self.values) if self.missing is None else self.missing.tolist()
        return all(g or v is None for v, g in zip(self.values, gone, strict=True))

    def distinct(self) -> Cells:
        """The same, with few values where numbers or moments repeat."""
        if self.kind not in (NUMBER, MOMENT, CLOCK) or self.inverse is not None or not len(self.values):
            return self
        v = self.values
        if self.kind != NUMBER:
            return Cells(self.kind, *np.unique(v, return_inverse=True))
        if v.dtype.kind in "iu" and int(v.max()) - int(v.min()) < min(2**16, len(v)):
            low = int(v.min())
            inverse = (v - v.dtype.type(low)).astype(np.int32)
            kept: Array = np.arange(low, int(v.max()) + 1, dtype=v.dtype)
        else:
            kept, inverse = np.unique(v, return_inverse=True)
        if self.missing is None:
            return Cells(NUMBER, kept, inverse)
        inverse = np.where(self.missing, len(kept), inverse)
        gone = np.zeros(len(kept) + 1, dtype=bool)
        gone[-1] = True
        return Cells(NUMBER, np.append(kept, kept[:1]), inverse, gone)


def stripped(text: str) -> str:
    """A text without spaces of ASCII at its ends."""
    return text.strip(_SPACES)


def lowered(text: str) -> str:
    """A text with the capitals of ASCII, Latin-1, Greek and Cyrillic as small letters; all else as it was.

    Without accents beyond these: U+0041 to 5A, C0 to DE (not D7), 391 to 3A9, 400 to 42F.
    """
    return text.lower() if text.isascii() else text.translate(_LOWER)


def spelling(text: str) -> str:
    """How spellings of missing, yes and no are compared: without spaces around, in small letters of ASCII."""
    text = stripped(text)
    return text.lower() if text.isascii() else text.translate(_ASCII_LOWER)


def canonical_text(cell: Any, version: int = VERSION) -> str:
    """The canonical text of a text, a number or a truth, for a schema of this version."""
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
        if (found := _ROUND.fullmatch(text)) is not None:
            return "0" if found[1] == "-0" else found[1]
    elif (found := _NUMERAL.fullmatch(text)) is not None:
        plain = format(decimal.Decimal(text), "f") if found[1] else text
        plain = plain.rstrip("0").rstrip(".") if "." in plain else plain
        return "0" if plain == "-0" else plain
    elif (moment := _moment_text(text)) is not None:
        return moment
    return spelling(text) if len(text) in (4, 5) and spelling(text) in _TRUTHS else text


def _moment_text(text: str) -> str | None:
    """The canonical text of a moment or a time of day that is written with its seconds, as programs write them."""
    if text[2:3] == text[5:6] == ":":
        seconds = clock_of(text)
        return None if seconds is None else clock_text(seconds)
    if text[4:5] == text[7:8] == "-" and text[13:14] == text[16:17] == ":":
        seconds = moment_of(text, "ymd")
        return None if seconds is None else moment_text(seconds)
    return None


def moment_text(seconds: int) -> str:
    """The canonical text of seconds since 1970."""
    return str(np.datetime64(seconds, "s")).replace("T", " ").removesuffix(" 00:00:00")


def clock_text(seconds: int) -> str:
    """The canonical text of seconds since midnight."""
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def number_of(text: str) -> float | None:
    """The float64 that a text in canonical spelling stands for; None where it stands for none.

    A sign, digits with a point, an exponent; or inf, infinity, true (1) or false (0), in any capitals. No commas.
    """
    if _NUMBER.fullmatch(text):
        return float(text)
    return _WORDS.get(spelling(text))


def missing_texts(missing: Iterable[str], version: int = VERSION) -> frozenset[str]:
    """Spellings of a missing cell, and what their canonical texts are: where -999 is missing, -999.0 is."""
    given = frozenset(missing)
    return given if version == 1 else given | {spelling(canonical_text(m)) for m in given}


def texts_of(cells: Cells, missing: Collection[str], version: int = VERSION) -> list[str | None]:
    """Canonical texts of cells that are no vectors, None where they are missing."""
    if cells.kind == TEXT:
        found = [None if t is None else canonical_text(t, version) for t in raw_texts_of(cells, missing)]
    elif cells.kind == NUMBER:
        gone = _gone(cells).tolist()
        found = [None if g else canonical_text(v, version) for v, g in zip(cells.values.tolist(), gone, strict=True)]
    else:
        write = moment_text if cells.kind == MOMENT else clock_text
        found = [None if v == NO_MOMENT else write(v) for v in cells.values.tolist()]
    return found if version == 1 else raw_texts_of(Cells(TEXT, found), missing)


def raw_texts_of(cells: Cells, missing: Collection[str]) -> list[str | None]:
    """Texts without spaces at their ends, None where they are missing; numbers as their canonical text."""
    if cells.kind != TEXT:
        return texts_of(cells, missing, 1)
    longest = max(map(len, missing), default=0)
    texts = [None if t is None else t.strip(_SPACES) for t in cells.values]
    return [None if t is None or (len(t) <= longest and spelling(t) in missing) else t for t in texts]


def numbers_of(cells: Cells, missing: Collection[str], version: int = VERSION) -> tuple[Float64s, Booleans]:
    """Cells that are texts or numbers as float64, NaN where there is none; and which of those texts are no numbers."""
    if cells.kind == NUMBER:
        values: Float64s = cells.values.astype(np.float64)
        if cells.missing is not None:
            values[cells.missing] = np.nan
        bad = np.zeros(len(values), dtype=bool)
    else:
        texts = [
            None if t is None or (s := spelling(t)) in missing or s == "nan" else stripped(t) for t in cells.values
        ]
        found = [None if t is None else number_of(t) for t in texts]
        values = np.array([np.nan if f is None else f for f in found], dtype=np.float64)
        bad = np.array([t is not None and f is None for t, f in zip(texts, found, strict=True)], dtype=bool)
    if version > 1:
        truths = cells.kind == NUMBER and cells.values.dtype == bool
        gone = [x for m in missing if (truths or m not in _TRUTHS) and (x := number_of(m)) is not None]
        if gone:
            values[np.isin(values, gone)] = np.nan
    return values, bad


NUMERIC, RESPELT, PADDED = 1, 2, 3


def check_alone(cells: Cells, missing: Collection[str], where: str, doubts: Collection[int]) -> None:
    """Refuse cells whose meaning depends on other cells of their column, as it did in schemas of version 1.

    Raises
    ------
    InputError
    """
    n = sum(
        d in doubts or (d == NUMERIC and spelling(t) in missing)
        for t, d in zip(cells.values, cells.doubts or (), strict=cells.doubts is not None)
    )
    if n:
        raise InputError(
            f"{where} holds {n} different numbers that a schema of version 1 reads by the cells beside them. Convert "
            "the column to texts first, or learn a new model with version = 2 in the schema."
        )


def _gone(cells: Cells) -> Booleans:
    gone = np.zeros(len(cells.values), dtype=bool) if cells.missing is None else cells.missing
    return gone | np.isnan(cells.values) if cells.values.dtype.kind == "f" else gone


def by_shortest_text(values: Array, version: int = VERSION) -> Float64s:
    """Numbers of float32 or less as the float64 of their shortest text, which is what a CSV would hold.

    In version 1, those of float16 have the shortest text of the same float32.
    """
    read: Float64s = (values.astype(np.float32) if version == 1 else values).astype("U16").astype(np.float64)
    return read


def coded(values: Iterable[Any]) -> tuple[list[Any], Int64s]:
    """The distinct ones of hashable values in order of appearance, and for each value the place of its own."""
    places: dict[Any, int] = {}
    inverse = np.array([places.setdefault(v, len(places)) for v in values], dtype=np.int64)
    return list(places), inverse


def text_cells(values: Sequence[str | None]) -> Cells:
    """Texts, each kept once."""
    words, inverse = coded(values)
    return Cells(TEXT, words, inverse)


ONE_EACH = Cells(NUMBER, ())  # stands for cells that were spread already


# -- moments as texts --------------------------------------------------------------------------------------------------


def moment_of(text: str, order: str) -> int | None:
    """Seconds since 1970 of a date with or without a time, in UTC where it has a zone; None where it is none."""
    found = _MOMENTS[order].fullmatch(text)
    if found is None:
        return None
    try:
        day = datetime.date(int(found["y"]), int(found["m"]), int(found["d"])).toordinal() - EPOCH_DAY
    except ValueError:
        return None
    clock = 0 if found["H"] is None else _since_midnight(found)
    return None if clock is None else day * DAY + clock - _offset(found["Z"])


def moments_in(order: str) -> Callable[[str], int | None]:
    """As :func:`moment_of`, for a column: days and times of day with a space between them are read once each."""
    days: dict[str, int | None] = {}
    clocks: dict[str, int | None] = {"": 0}
    first = "1970-01-01" if order == "ymd" else "01-01-1970"

    def read(text: str) -> int | None:
        head, gap, tail = text.partition(" ")
        tail = gap + tail
        if head not in days:
            days[head] = None if "T" in head else moment_of(head, order)
        if tail not in clocks:
            clocks[tail] = moment_of(first + tail, order)
        day, clock = days[head], clocks[tail]
        return moment_of(text, order) if day is None or clock is None else day + clock

    return read


def clock_of(text: str) -> int | None:
    """Seconds since midnight of a time of day; None where it is none."""
    found = _CLOCK.fullmatch(text)
    return None if found is None else _since_midnight(found)


def _since_midnight(found: re.Match[str]) -> int | None:
    hour, minute, second = int(found["H"]), int(found["M"]), int(found["S"] or 0)
    return hour * 3600 + minute * 60 + second if hour < 24 and minute < 60 and second < 60 else None


def _offset(zone: str | None) -> int:
    if zone is None or zone in ("Z", "UTC"):
        return 0
    digits = zone[1:].replace(":", "")
    return (1 if zone[0] == "+" else -1) * (int(digits[:2]) * 3600 + int(digits[2:] or 0) * 60)
