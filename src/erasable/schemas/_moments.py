"""Columns of dates, of moments, and of times of day: parts on circles or in bins. Pure.

A moment with a zone is taken in UTC; one without a zone as it stands. What is finer than a second is cut off.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.schemas._base import ONE, STEPS, Block, Column, Entry, Flags, code_entries, numbers_entry
from erasable.schemas._cells import (
    CLOCK,
    DAY,
    EPOCH_DAY,
    MOMENT,
    NO_MOMENT,
    ORDERS,
    TEXT,
    Cells,
    clock_of,
    clock_text,
    moment_of,
    moments_in,
    raw_texts_of,
)
from erasable.schemas._told import Bounds, Told, one_of, scale_of_length, scales_of
from erasable.validation import choice, whole_number

_CIRCLES = {"month": 12, "day": 31, "weekday": 7, "hour": 24}
PARTS = ("year", "month", "day", "weekday", "hour", "days")
_HALF = 0.5 / STEPS  # by which encoded numbers were rounded, of the whole width from -1 to 1
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def circle(n: int) -> tuple[Float64s, Float64s]:
    """Cosines and sines of the n-th parts of a circle, to the nearest multiples of ``2**-20``.

    None of them is near the middle of two such multiples, so every library rounds them alike; a test sees to it.
    """
    turns = [2 * math.pi * k / n for k in range(n)]
    cosines, sines = ([round(f(t) * STEPS) / STEPS for t in turns] for f in (math.cos, math.sin))
    return np.array(cosines), np.array(sines)


@dataclass(frozen=True, kw_only=True)
class Date(Column):
    """A date, or a moment: some of its parts.

    Parameters
    ----------
    parts : list
        Of "year", "month", "day" (of the month), "weekday", "hour", and "days", the days since a date.
    years : pair of int, optional
        The first and the last year, for the part "year"; what is beyond is clipped, and counted.
    since : str, optional
        A date, as 2020-01-31, for the part "days".
    days : int, optional
        How many days after ``since`` become 1, and before it -1; what is beyond is clipped, and counted.
    encoding : "cyclic" or "bins", default="cyclic"
        Months, days, weekdays and hours: cosine and sine on a circle, or one-hot. Years: scaled into [-1, 1], or
        one-hot.
    order : "ymd", "dmy" or "mdy", default="ymd"
        How dates are written where they are text: 2020-01-31, 31.1.2020 or 1/31/2020, with any of - / . between. A
        time may follow, 10:30 or 10:30:59, and a zone: Z, +02:00. Dates with the year first are read in every order.
    """

    KIND = "date"
    ABSENT = "missing, or no date"
    HOLDS = (TEXT, MOMENT)

    parts: tuple[str, ...] = ()
    years: tuple[int, int] | None = None
    since: str | None = None
    days: int | None = None
    encoding: str = "cyclic"
    order: str = "ymd"

    def check(self) -> None:
        """Parts, and what they need."""
        choice(self.encoding, f"{self.where}: encoding", ("cyclic", "bins"))
        choice(self.order, f"{self.where}: order", ORDERS)
        parts: Any = self.parts
        known = isinstance(parts, list | tuple) and all(isinstance(p, str) and p in self.known_parts for p in parts)
        if not known or not parts or len(set(parts)) < len(parts):
            raise self.refused(f"parts must list some of {', '.join(map(repr, self.known_parts))}, each once.")
        self.set("parts", tuple(p for p in self.known_parts if p in parts))
        for part, needed in (("year", ("years",)), ("days", ("since", "days"))):
            for parameter in needed:
                if (part in parts) != (getattr(self, parameter) is not None):
                    raise self.refused(f"the part {part!r} and {', '.join(needed)} go together: give all, or none.")
        if self.years is not None:
            pair: Any = self.years
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise self.refused("years must be the first and the last year.")
            first, last = (whole_number(year, f"{self.where}: years", 1, 9999) for year in pair)
            if first >= last:
                raise self.refused(f"years must be two different years, the first one first; got [{first}, {last}].")
            self.set("years", (first, last))
        if self.since is not None:
            self.set("since", self._written(self.since, "since"))
            self.set("days", whole_number(self.days, f"{self.where}: days", 1, 4_000_000))

    @property
    def known_parts(self) -> tuple[str, ...]:
        """Parts that this kind has."""
        return PARTS

    def _written(self, given: Any, parameter: str) -> str:
        if isinstance(given, datetime.date) and not isinstance(given, datetime.datetime):
            given = given.isoformat()  # TOML has dates of its own
        seconds = moment_of(given, "ymd") if isinstance(given, str) else None
        if seconds is None or seconds % DAY:
            raise self.refused(f"{parameter} must be a date, written as 2020-01-31.")
        return datetime.date.fromordinal(seconds // DAY + EPOCH_DAY).isoformat()

    def checked_fill(self) -> str:
        """A date, written with the year first, whatever the order of the cells."""
        return self._written(self.fill, "fill")

    def fill_cell(self) -> Cells:
        """The fill as a cell."""
        return Cells(MOMENT, np.array([moment_of(self.fill, "ymd")], dtype=np.int64))

    def _span(self, part: str) -> int:
        """How many places a part has in bins; 0 where it has none."""
        if part == "year" and self.years is not None:
            return self.years[1] - self.years[0] + 1
        return _CIRCLES.get(part, 0)

    def _part_names(self, part: str) -> list[str]:
        head = f"{self.name}.{part}"
        if part == "days" or (part == "year" and self.encoding == "cyclic"):
            return [head]
        if self.encoding == "cyclic":
            return [f"{head}.cos", f"{head}.sin"]
        first = {"year": (self.years or (0,))[0], "month": 1, "day": 1}.get(part, 0)
        return [f"{head}={first + j}" for j in range(self._span(part))]

    def names(self) -> list[str]:
        """Name and part."""
        return [n for part in self.parts for n in self._part_names(part)]

    @property
    def square(self) -> int:
        """Of all parts together."""
        total = 0
        for part in self.parts:
            if self.encoding == "bins" or part not in _CIRCLES:
                total += ONE
            else:
                cosines, sines = circle(_CIRCLES[part])
                total += int(((cosines * STEPS) ** 2 + (sines * STEPS) ** 2).max())
        return total

    @property
    def most(self) -> int:
        """One or two numbers a part."""
        return sum(min(2, len(self._part_names(part))) if self.encoding == "cyclic" else 1 for part in self.parts)

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        """Seconds since 1970."""
        return self.seconds(cells, missing, self._reader())

    def _reader(self) -> Callable[[str], int | None]:
        """A function from texts to seconds, None for those that are no moments."""
        own, iso = moments_in(self.order), moments_in("ymd")
        if self.order == "ymd" or self.version == 1:
            return own
        return lambda text: seconds if (seconds := own(text)) is not None else iso(text)

    def seconds(
        self, cells: Cells, missing: Collection[str], read: Callable[[str], int | None]
    ) -> tuple[Int64s, Flags]:
        """Cells as seconds, by a function that reads texts."""
        if cells.kind != TEXT:
            values, flags = cells.values.copy(), dict[str, Booleans]()
        else:
            values, flags = _read_texts(cells, missing, read)
        if self.version > 1:
            gone = [s for m in missing if (s := read(m.upper())) is not None]
            values[np.isin(values, gone)] = NO_MOMENT
        return values, flags

    def is_empty(self, values: Int64s) -> Booleans:
        """Which are no moments."""
        empty: Booleans = values == NO_MOMENT
        return empty

    def encode(self, values: Int64s, flags: Flags) -> Block:
        """Parts, one after the other."""
        empty = self.is_empty(values)
        numbers = self._numbers(np.where(empty, 0, values))
        entries: list[Entry] = []
        clipped = np.zeros(len(values), dtype=bool)
        place = 0
        for part in self.parts:
            number = numbers[part]
            if part == "year":
                low, high = self.years or (0, 1)
                clipped |= ((number < low) | (number > high)) & ~empty
                number = np.clip(number, low, high) - low
                scaled = number / (high - low) * 2.0 - 1.0
            elif part == "days":
                clipped |= (np.abs(number) > (self.days or 1)) & ~empty
                scaled = np.clip(number / (self.days or 1), -1.0, 1.0)
            if part == "days" or (part == "year" and self.encoding == "cyclic"):
                entries.append(numbers_entry(np.where(empty, np.nan, scaled), place))
            elif self.encoding == "cyclic":
                for k, table in enumerate(circle(_CIRCLES[part])):
                    entries.append(numbers_entry(np.where(empty, np.nan, table[number]), place + k))
            else:
                codes = np.where(empty, -1, number + place)
                entries += code_entries(codes, 0, thermometer=False)
            place += len(self._part_names(part))
        flags["clipped"] = clipped
        return Block(entries, {})

    def told(self, own: Bounds) -> Told | None:
        """Its parts, each as far as it is known."""
        shown: list[str] = []
        facts: dict[str, Any] = {}
        for part, mine in self._stored_parts(own):
            if self.encoding == "bins" and part != "days":
                codes = mine.one_hot()
            elif part in _CIRCLES:
                cosines, sines = circle(_CIRCLES[part])
                codes = np.flatnonzero(mine[:1].may_be(cosines) & mine[1:].may_be(sines)).tolist()
            else:
                text, facts[part] = self._told_span(part, float(mine.low[0]), float(mine.high[0]))
                shown.append(text)
                continue
            if not codes:
                return None
            if part == "year":
                text, facts[part] = self._told_years(min(codes), max(codes))
            else:
                first = 1 if part in ("month", "day") else 0
                facts[part] = [first + c for c in codes]
                text = one_of([_WEEKDAYS[c] if part == "weekday" else str(first + c) for c in codes])
                text = text if part == "weekday" else f"{part} {text}"
            shown.append(text)
        return Told(", ".join(shown), facts={"parts": facts})

    def _stored_parts(self, own: Bounds) -> Iterator[tuple[str, Bounds]]:
        place = 0
        for part in self.parts:
            width = len(self._part_names(part))
            yield part, own[place : place + width]
            place += width

    def _told_span(self, part: str, low: float, high: float) -> tuple[str, dict[str, int | None]]:
        """A year, or days, from a number between -1 and 1."""
        span = self._span("year") - 1 if part == "year" else 2 * (self.days or 1)
        least, most = (
            math.ceil((low + 1.0) / 2.0 * span - _HALF * span),
            math.floor((high + 1.0) / 2.0 * span + _HALF * span),
        )
        least, most = max(0, min(least, span)), max(0, min(most, span))
        if part == "year":
            return self._told_years(least, most)
        days = self.days or 1
        low_day, high_day = (None if least == 0 else least - days), (None if most == span else most - days)
        return f"{_span_text(low_day, high_day)} days since {self.since}", {"low": low_day, "high": high_day}

    def _told_years(self, first: int, last: int) -> tuple[str, dict[str, int | None]]:
        """Years by their numbers in the range, of which the first and the last may be beyond it."""
        low, high = self.years or (0, 0)
        years = (None if first == 0 else low + first), (None if last == high - low else low + last)
        return f"year {_span_text(*years)}", {"low": years[0], "high": years[1]}

    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """One-hot parts are one, and those on circles have a norm of one."""
        for part, mine in self._stored_parts(own):
            if self.encoding == "bins" and part != "days":
                yield scales_of(mine, 1.0)
            elif part in _CIRCLES:
                yield scale_of_length(mine, 1.0 - 1.0 / STEPS, 1.0 + 1.0 / STEPS)

    def _numbers(self, seconds: Int64s) -> dict[str, Array]:
        """Parts of moments as whole numbers, from zero."""
        days = seconds // DAY
        dates = days.astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        since = 0 if self.since is None else datetime.date.fromisoformat(self.since).toordinal() - EPOCH_DAY
        return {
            "year": dates.astype("datetime64[Y]").astype(np.int64) + 1970,
            "month": months.astype(np.int64) % 12,
            "day": (dates - months.astype("datetime64[D]")).astype(np.int64),
            "weekday": (days + 3) % 7,  # 1970 began on a Thursday; Monday is 0
            "hour": seconds % DAY // 3600,
            "days": days - since,
        }


@dataclass(frozen=True, kw_only=True)
class Time(Date):
    """A time of day: its hour.

    Parameters
    ----------
    encoding : "cyclic" or "bins", default="cyclic"
        Cosine and sine on a circle of 24 hours, or one-hot. Text is 9:05, 09:05:59 or 09:05:59.123.
    """

    KIND = "time"
    ABSENT = "missing, or no time of day"
    HOLDS = (TEXT, CLOCK)

    parts: tuple[str, ...] = ("hour",)

    @property
    def known_parts(self) -> tuple[str, ...]:
        """The hour."""
        return ("hour",)

    def check(self) -> None:
        """No order of days, months and years."""
        super().check()
        if self.order != "ymd":
            raise self.refused("order is for dates.")

    def checked_fill(self) -> str:
        """A time of day."""
        seconds = clock_of(self.fill) if isinstance(self.fill, str) else None
        if seconds is None:
            raise self.refused("fill must be a time of day, written as 09:05 or 09:05:59.")
        return clock_text(seconds)

    def fill_cell(self) -> Cells:
        """The fill as a cell."""
        return Cells(CLOCK, np.array([clock_of(self.fill)], dtype=np.int64))

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        """Seconds since midnight."""
        return self.seconds(cells, missing, clock_of)


def _span_text(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "any" if low is high is None else f"{low} or more" if high is None else f"{high} or less"
    return str(low) if low == high else f"{low} to {high}"


def _read_texts(cells: Cells, missing: Collection[str], read: Callable[[str], int | None]) -> tuple[Int64s, Flags]:
    """Texts as whole numbers, by a function that gives None for those that are none."""
    texts = raw_texts_of(cells, missing)
    found = [None if t is None else read(t) for t in texts]
    bad = [t is not None and f is None for t, f in zip(texts, found, strict=True)]
    values = np.array([NO_MOMENT if f is None else f for f in found], dtype=np.int64)
    return values, {"unparsable": np.array(bad, dtype=bool)}
