"""What a cell of a table is, whatever container it came in: a text, a number, a moment, a time of day, or a vector.

The canonical text of a cell is what categories are compared by. CSV has nothing but text, other containers have types,
and the same table must mean the same in both:

- text loses the spaces at its ends (those of ASCII; no others are known here);
- a whole number is its digits, and so is a float without a fraction below ``2**53``: 39, 39.0 and "39.00" are "39",
  and minus zero is "0";
- any other float is its shortest text that reads back as the same float64, as Python writes it;
- truth is "true" or "false", in CSV in any mixture of capitals.

Lower case, where it is asked for, is that of :func:`lowered`, which knows the alphabets listed there and no Unicode
tables: those of Python change with its version. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s

TEXT, NUMBER, MOMENT, CLOCK, VECTOR = "text", "numbers", "dates", "times of day", "vectors"
NO_MOMENT = np.iinfo(np.int64).min  # where there is no date or time
_SPACES = " \t\n\r\x0b\x0c"
_ROUND = re.compile(r"(-?(?:0|[1-9][0-9]*))(?:\.0+)?")
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_WORDS = {"true": 1.0, "false": 0.0, **{s + w: float(s + w) for s in ("", "+", "-") for w in ("inf", "infinity")}}
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
        TEXT, NUMBER, MOMENT, CLOCK or VECTOR.
    values : list of str or None, or array
        Texts as they came; numbers of any NumPy type, NaN where missing; seconds since 1970 (UTC where a zone is known)
        or since midnight, ``NO_MOMENT`` where missing; vectors as rows of float64, or a list of them, with None.
    inverse : array of int, optional
        For each row the place of its cell in ``values``; without it, there is one value for each row.
    missing : array of bool, optional
        Which numbers or rows are missing, where the values do not say it themselves.
    """

    kind: str
    values: Any
    inverse: Array | None = None
    missing: Booleans | None = None

    def __len__(self) -> int:
        return len(self.values if self.inverse is None else self.inverse)

    def are_all_missing(self) -> bool:
        """Whether no cell holds anything, so that the column may be of any kind."""
        if self.kind == TEXT:
            return all(v is None for v in self.values)
        return self.kind == NUMBER and bool(_gone(self).all())

    def distinct(self) -> Cells:
        """The same, with few values where whole numbers or truths repeat."""
        if self.kind != NUMBER or self.inverse is not None or not len(self.values):
            return self
        v = self.values
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


def canonical_text(cell: Any) -> str:
    """The canonical text of a text, a number or a truth."""
    if isinstance(cell, str):
        text = stripped(cell)
        if (found := _ROUND.fullmatch(text)) is not None:
            return "0" if found[1] == "-0" else found[1]
        return spelling(text) if len(text) in (4, 5) and spelling(text) in ("true", "false") else text
    if isinstance(cell, bool | np.bool_):
        return "true" if cell else "false"
    if isinstance(cell, int | np.integer):
        return str(int(cell))
    number = float(cell)
    return str(int(number)) if number.is_integer() and abs(number) < 2**53 else repr(number)


def number_of(text: str) -> float | None:
    """The float64 that a text in canonical spelling stands for; None where it stands for none.

    A sign, digits with a point, an exponent; or inf, infinity, true (1) or false (0), in any capitals. No commas.
    """
    if _NUMBER.fullmatch(text):
        return float(text)
    return _WORDS.get(spelling(text))


def texts_of(cells: Cells, missing: Collection[str]) -> list[str | None]:
    """Canonical texts of cells that are texts or numbers, None where they are missing."""
    if cells.kind == TEXT:
        return [None if t is None or spelling(t) in missing else canonical_text(t) for t in cells.values]
    gone = _gone(cells)
    return [None if g else canonical_text(v) for v, g in zip(cells.values.tolist(), gone.tolist(), strict=True)]


def raw_texts_of(cells: Cells, missing: Collection[str]) -> list[str | None]:
    """Texts without spaces at their ends, None where they are missing; numbers as their canonical text."""
    if cells.kind != TEXT:
        return texts_of(cells, missing)
    longest = max(map(len, missing), default=0)
    texts = [None if t is None else t.strip(_SPACES) for t in cells.values]
    return [None if t is None or (len(t) <= longest and spelling(t) in missing) else t for t in texts]


def numbers_of(cells: Cells, missing: Collection[str]) -> tuple[Float64s, Booleans]:
    """Cells that are texts or numbers as float64, NaN where there is none; and which of those texts are no numbers."""
    if cells.kind == NUMBER:
        values: Float64s = cells.values.astype(np.float64)
        if cells.missing is not None:
            values[cells.missing] = np.nan
        return values, np.zeros(len(values), dtype=bool)
    texts = [None if t is None or (s := spelling(t)) in missing or s == "nan" else stripped(t) for t in cells.values]
    found = [None if t is None else number_of(t) for t in texts]
    bad = [t is not None and f is None for t, f in zip(texts, found, strict=True)]
    return np.array([np.nan if f is None else f for f in found]), np.array(bad, dtype=bool)


def _gone(cells: Cells) -> Booleans:
    gone = np.zeros(len(cells.values), dtype=bool) if cells.missing is None else cells.missing
    return gone | np.isnan(cells.values) if cells.values.dtype.kind == "f" else gone


def by_shortest_text(values: Array) -> Float64s:
    """Numbers of float32 or less as the float64 of their shortest text, which is what a CSV would hold."""
    read: Float64s = values.astype(np.float32).astype("U16").astype(np.float64)
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
