"""Columns of dates and of times of day: parts on circles or in bins. Pure.

A date with a zone is taken in UTC; one without a zone as it stands. Fractions of a second are cut off.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.errors import ConfigurationError
from erasable.schemas.cells import (
    DAY,
    EPOCH_DAY,
    NO_TIME,
    ORDERS,
    Cells,
    Kind,
    date_parser,
    parse_date,
    parse_time,
    stripped_texts,
    time_text,
)
from erasable.schemas.columns import Column, one_of, parameter, whole
from erasable.schemas.encode import Circle, Entry, Features, Flags, Group, OneHot, Scaled
from erasable.validation import whole_number

CIRCLES = {"month": 12, "day": 31, "weekday": 7, "hour": 24}
_MOST_DAYS = 8_000_000  # between any two dates


def _year_range(pair: Any, name: str) -> tuple[int, int]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ConfigurationError(f"{name} must be the first and the last year.")
    first, last = (whole_number(year, name, 1, 9999) for year in pair)
    if first >= last:
        raise ConfigurationError(f"{name} must be two different years, the first one first; got [{first}, {last}].")
    return first, last


def _iso_date(given: Any, name: str) -> str:
    if isinstance(given, datetime.date) and not isinstance(given, datetime.datetime):
        given = given.isoformat()  # TOML has dates of its own
    seconds = parse_date(given, "ymd") if isinstance(given, str) else None
    if seconds is None or seconds % DAY:
        raise ConfigurationError(f"{name} must be a date, written as 2020-01-31.")
    return datetime.date.fromordinal(seconds // DAY + EPOCH_DAY).isoformat()


@dataclass(frozen=True, kw_only=True)
class Date(Column):
    """A date, with or without a time: some of its parts.

    Parameters
    ----------
    parts : list
        Of "year", "month", "day" (of the month), "weekday", "hour", and "days", the days since a date.
    years : pair of int, optional
        The first and the last year, for the part "year"; years beyond are clipped, and counted.
    since : str, optional
        A date, such as 2020-01-31, for the part "days".
    days : int, optional
        How many days after ``since`` become 1, and before it -1; dates beyond are clipped, and counted.
    encoding : "cyclic" or "bins", default="cyclic"
        Months, days, weekdays and hours: cosine and sine on a circle, or one-hot. Years: scaled into [-1, 1], or
        one-hot.
    order : "ymd", "dmy" or "mdy", default="ymd"
        How dates are written where they are text: 2020-01-31, 31.1.2020 or 1/31/2020, with any of - / . between. A
        time may follow, 10:30 or 10:30:59, and a zone: Z, +02:00. Dates with the year first are read in every order.
    """

    KIND = "date"
    ABSENT = "missing, or no date"
    HOLDS = HOLDS_IN_VERSION_1 = (Kind.TEXT, Kind.DATE)
    EMPTY = NO_TIME
    PARTS: ClassVar[tuple[str, ...]] = ("year", "month", "day", "weekday", "hour", "days")

    parts: tuple[str, ...] = ()
    years: tuple[int, int] | None = parameter(None, _year_range)
    since: str | None = parameter(None, _iso_date)
    days: int | None = parameter(None, whole(1, 4_000_000))
    encoding: str = parameter("cyclic", one_of("cyclic", "bins"))
    order: str = parameter("ymd", one_of(*ORDERS))

    def _check(self) -> None:
        parts: Any = self.parts
        known = isinstance(parts, list | tuple) and all(isinstance(p, str) and p in self.PARTS for p in parts)
        if not known or not parts or len(set(parts)) < len(parts):
            raise self._refused(f"parts must list some of {', '.join(map(repr, self.PARTS))}, each once.")
        self._set("parts", tuple(p for p in self.PARTS if p in parts))
        for part, needed in (("year", ("years",)), ("days", ("since", "days"))):
            if any((part in parts) != (getattr(self, name) is not None) for name in needed):
                raise self._refused(f"the part {part!r} and {', '.join(needed)} go together: give all, or none.")

    def _canonical_fill(self) -> str:
        return _iso_date(self.fill, f"{self.where}: fill")  # the year first, whatever the order of the cells

    def _fill_cell(self) -> Cells:
        return Cells(Kind.DATE, np.array([parse_date(self.fill, "ymd")], dtype=np.int64))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """A group for each part."""
        return tuple(self._group(part) for part in self.parts)

    def _group(self, part: str) -> Group:
        if part == "days" or (part == "year" and self.encoding == "cyclic"):
            return Scaled(1)
        if part == "year":
            first, last = self.years or (0, 0)
            return OneHot(last - first + 1)
        return Circle.of(CIRCLES[part]) if self.encoding == "cyclic" else OneHot(CIRCLES[part])

    def names(self) -> list[str]:
        """Name and part."""
        names: list[str] = []
        for part, group in zip(self.parts, self.groups, strict=True):
            head = f"{self.name}.{part}"
            first = {"year": (self.years or (0,))[0], "month": 1, "day": 1}.get(part, 0)
            if isinstance(group, OneHot):
                names += [f"{head}={first + j}" for j in range(group.width)]
            else:
                names += [head] if isinstance(group, Scaled) else [f"{head}.cos", f"{head}.sin"]
        return names

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        own, iso = date_parser(self.order), date_parser("ymd")
        if self.order == "ymd" or self.version == 1:
            return self._seconds(cells, missing, own)
        return self._seconds(cells, missing, lambda text: s if (s := own(text)) is not None else iso(text))

    def _seconds(
        self, cells: Cells, missing: Collection[str], parse: Callable[[str], int | None]
    ) -> tuple[Int64s, Flags]:
        """Seconds since 1970 or since midnight, by a function that parses texts."""
        if cells.kind != Kind.TEXT:
            values, flags = cells.values.copy(), Flags()
        else:
            texts = stripped_texts(cells, missing)
            found = [None if t is None else parse(t) for t in texts]
            bad = [t is not None and f is None for t, f in zip(texts, found, strict=True)]
            values = np.array([NO_TIME if f is None else f for f in found], dtype=np.int64)
            flags = {"unparsable": np.array(bad, dtype=bool)}
        if self.version > 1:
            absent = [s for m in missing if (s := parse(m.upper())) is not None]
            values[np.isin(values, absent)] = NO_TIME
        return values, flags

    def raw_names(self) -> list[str]:
        """Name and part."""
        return [f"{self.name}.{part}" for part in self.parts]

    def to_raw(self, values: Int64s) -> Float64s:
        """The parts as whole numbers: no more of a date than the schema names."""
        empty = self._is_empty(values)
        numbers = self._numbers(np.where(empty, 0, values))
        return np.where(empty[:, None], np.nan, np.stack([numbers[part] for part in self.parts], axis=1))

    def raw_fits(self, raw: Float64s) -> Booleans:
        """None, or whole numbers that the parts of a date can be."""
        low = [1 if part == "year" else -_MOST_DAYS if part == "days" else 0 for part in self.parts]
        high = [{"year": 9999, "days": _MOST_DAYS}.get(part, CIRCLES.get(part, 1) - 1) for part in self.parts]
        with np.errstate(invalid="ignore"):
            fits = (raw == np.rint(raw)) & (raw >= low) & (raw <= high)
        return np.asarray(np.isnan(raw).all(axis=1) | fits.all(axis=1))

    def raw_features(self, raw: Float64s) -> Features:
        """See :class:`Column`."""
        empty = np.isnan(raw[:, 0])
        absent, whole = empty, np.where(empty[:, None], 0.0, raw).astype(np.int64)
        if self.fill is not None:
            whole[empty] = self.to_raw(self._read(self._fill_cell(), ())[0])[0]
            absent = np.zeros(len(raw), dtype=bool)
        numbers = {part: whole[:, j] for j, part in enumerate(self.parts)}
        entries: list[Entry] = []
        first = 0
        for group, part in zip(self.groups, self._encoded(numbers, absent, {}), strict=True):
            entries += group.entries(part, first)
            first += group.width
        return self._indicated(Features(entries), empty)

    def _parts(self, values: Int64s, flags: Flags) -> Sequence[Array]:
        empty = self._is_empty(values)
        return self._encoded(self._numbers(np.where(empty, 0, values)), empty, flags)

    def _encoded(self, numbers: dict[str, Array], empty: Booleans, flags: Flags) -> Sequence[Array]:
        """For each group its codes or numbers."""
        clipped, found = np.zeros(len(empty), dtype=bool), list[Array]()
        for part, group in zip(self.parts, self.groups, strict=True):
            number = numbers[part]
            if part == "year":
                low, high = self.years or (0, 1)
                clipped |= ((number < low) | (number > high)) & ~empty
                number = np.clip(number, low, high) - low
                scaled = number / (high - low) * 2.0 - 1.0
            elif part == "days":
                clipped |= (np.abs(number) > (self.days or 1)) & ~empty
                scaled = np.clip(number / (self.days or 1), -1.0, 1.0)
            found.append(np.where(empty, np.nan, scaled) if isinstance(group, Scaled) else np.where(empty, -1, number))
        flags["clipped"] = clipped
        return found

    def _numbers(self, seconds: Int64s) -> dict[str, Array]:
        """The parts of dates as whole numbers; years as they are, the others from zero."""
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
    HOLDS = HOLDS_IN_VERSION_1 = (Kind.TEXT, Kind.TIME)
    PARTS = ("hour",)

    parts: tuple[str, ...] = ("hour",)

    def _check(self) -> None:
        super()._check()
        if self.order != "ymd":
            raise self._refused("order is for dates.")

    def _canonical_fill(self) -> str:
        seconds = parse_time(self.fill) if isinstance(self.fill, str) else None
        if seconds is None:
            raise self._refused("fill must be a time of day, written as 09:05 or 09:05:59.")
        return time_text(seconds)

    def _fill_cell(self) -> Cells:
        return Cells(Kind.TIME, np.array([parse_time(self.fill)], dtype=np.int64))

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        return self._seconds(cells, missing, parse_time)
