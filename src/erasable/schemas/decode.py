"""From a stored row back to the cells of the table, as far as the row allows. Pure.

A stored row is an encoded row that was scaled and rounded. So each feature lies within two bounds, and every cell that
fits within them may have been the original: the true one always does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Float64s
from erasable.schemas.cells import Cells
from erasable.schemas.columns import Category, Column, Number, Ordered, YesNo
from erasable.schemas.crosses import Cross
from erasable.schemas.dates import Date
from erasable.schemas.encode import STEPS, Circle, Group, OneHot, Thermometer, join_features
from erasable.schemas.schema import Schema
from erasable.schemas.texts import Text, Vector

_MOST_SHOWN = 8  # of a list, in a text
_MOST_NUMBERS = 16  # of a vector, in a text
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_TINY = 2.0**-1000
_SLACK = 2.0**-30  # for the rounding of float64; encoded numbers are multiples of 2**-20
_ROUNDING = 2.0**-48  # more than a few operations in float64 lose; logarithms may reach 2**10
_HALF = 0.5 / STEPS  # by which encoded numbers were rounded
Scales = tuple[float, float]


@dataclass(frozen=True, repr=False)
class DecodedCell:
    """What a stored row says of one cell.

    Attributes
    ----------
    text : str
        For people.
    missing : bool or None
        Whether the cell was missing, or could not be read as the kind of its column; None where that is unknown.
    facts : dict
        The same as values for JSON, by the kind of the column; empty where the cell was missing.

        - a number: ``low`` and ``high``, between which it was; None where there is no bound;
        - a category, levels, yes/no: ``one_of``, the possible values, and ``others``, whether it may have been a value
          that the schema does not list; for hashed categories ``places``, and ``of``, how many there are;
        - a date or a time: ``parts``, for each part the possible numbers, or ``low`` and ``high``;
        - a vector: ``low`` and ``high``, a list each, and ``clipped``, whether it may have been longer.
    """

    text: str
    missing: bool | None = False
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"text": self.text, "missing": self.missing, **self.facts}

    def __repr__(self) -> str:
        return "<DecodedCell>"


@dataclass(frozen=True)
class Bounds:
    """The numbers between which features lie."""

    low: Float64s
    high: Float64s

    def __getitem__(self, which: Any) -> Bounds:
        """The bounds of some of the features."""
        return Bounds(self.low[which], self.high[which])

    def __len__(self) -> int:
        return len(self.low)

    def allow(self, values: Any) -> Booleans:
        """Which features may have these values."""
        return np.asarray((self.low <= values) & (values <= self.high))

    def norms(self) -> tuple[float, float]:
        """The smallest and the largest norm that the features may have."""
        nearest = np.maximum(np.maximum(self.low, -self.high), 0.0)
        return float(np.linalg.norm(nearest)), float(np.linalg.norm(np.maximum(-self.low, self.high)))

    def scaled(self, least: float, most: float) -> Bounds:
        """The bounds of the features times a number between two non-negative ones."""
        return Bounds(
            np.where(self.low >= 0, least, most) * self.low,
            np.where(self.high >= 0, most, least) * self.high,
        )

    def scales_to(self, value: float) -> Scales:
        """The bounds of the factor that makes all features which cannot be zero equal to ``value``."""
        low, high = self.low[self.low > 0], self.high[self.low > 0]
        return (value / float(high.min()), value / float(low.max())) if len(low) else (0.0, math.inf)

    def scales_to_norm(self, least: float, most: float) -> Scales:
        """The bounds of the factor that gives the features, unless all are zero, a norm between these two."""
        short, long = self.norms()
        return (least / long, most / short) if short > 0 else (0.0, math.inf)


def decode_raw(schema: Schema, raw: Float64s) -> dict[str, DecodedCell]:
    """What the raw numbers of one row, shape (1, n), say of each cell: numbers and codes as they were read.

    Returns
    -------
    dict of DecodedCell
        By the names of columns, in the order of the schema.
    """
    encoded = schema.encode_raw(raw).toarray()[0].astype(np.float64)
    cells = decode_row(schema, encoded, encoded, (1.0, 1.0))
    values = dict(zip(schema.raw_names, raw[0].tolist(), strict=True))
    for column in schema.features:
        if isinstance(column, Number):
            value = values[column.name]
            facts = {"low": value, "high": value} if math.isfinite(value) else {}
            absent = math.isnan(value)
            cells[column.name] = DecodedCell(column.ABSENT if absent else f"{value:.15g}", absent, facts)
    return cells


def decode_row(schema: Schema, low: Float64s, high: Float64s, scale: Scales) -> dict[str, DecodedCell]:
    """What a stored row says of each cell that it was encoded from; the words of texts are hashed and not stored.

    Parameters
    ----------
    schema : Schema
    low, high : arrays of shape (n_features_out,)
        The bounds of the encoded row, divided by an unknown number.
    scale : pair of float
        The bounds of that number, which may be 0 and infinity. Features of known size narrow it down: the feature of a
        category is one unless it is zero.

    Returns
    -------
    dict of DecodedCell
        By the names of columns, in the order of the schema.

    Notes
    -----
    *Law*: the decoded cell contains the true one: it lies within the bounds, or is among the values that are listed.

    *Cost*: O(n_features_out) time and memory.

    Examples
    --------
    >>> from erasable.schemas import Category, Number, Schema, decode_row
    >>> schema = Schema([Number(name="age", range=[0, 100]), Category(name="town", values=["Bern", "Oslo"])])
    >>> row = schema.encode({"age": [39], "town": ["Oslo"]})[0][0]
    >>> stored = (row / 2).round(2)
    >>> for name, cell in decode_row(schema, stored - 0.005, stored + 0.005, (0.0, 10.0)).items():
    ...     print(f"{name}: {cell.text}")
    age: 39.0 ± 0.7
    town: Oslo
    """
    stored = Bounds(low, high)
    ends = np.cumsum([0, *schema.widths]).tolist()
    parts: list[Column | Cross] = [*schema.features, *schema.crosses]
    bounds = [stored[first:last] for first, last in pairwise(ends)]
    least, most = scale[0], min(scale[1], schema.bound / max(stored.norms()[0], _TINY))
    for part, own in zip(parts, bounds, strict=True):
        for smallest, largest in _scales(part, own):
            least, most = max(least, smallest), min(most, largest)
    cells = {}
    for column, own in zip(schema.features, bounds, strict=False):
        row = own.scaled(least, max(least, most))
        row = Bounds(np.maximum(row.low, -1.0) - _SLACK, np.minimum(row.high, 1.0) + _SLACK)
        cells[column.name] = _decode_column(column, row)
    return cells


def _groups(column: Column, own: Bounds) -> Iterator[tuple[Group, Bounds]]:
    """The groups of a column with the bounds of their features."""
    first = 0
    for group in column.groups:
        yield group, own[first : first + group.width]
        first += group.width


def _scales(part: Column | Cross, stored: Bounds) -> Iterator[Scales]:
    """The bounds of the number that the row was divided by, from features of known size."""
    if isinstance(part, Cross):
        yield stored.scales_to(1.0)
        return
    if part.indicator:
        yield stored[-1:].scales_to(1.0)
    for group, own in _groups(part, stored):
        if isinstance(group, OneHot | Thermometer):
            yield own.scales_to(group.level)
        elif isinstance(group, Circle):
            yield own.scales_to_norm(1.0 - 1.0 / STEPS, 1.0 + 1.0 / STEPS)
        elif isinstance(part, Text):  # of norm one, but for what was rounded down
            yield own.scales_to_norm(1.0 - math.sqrt(part.places) / STEPS, 1.0)


def _codes(group: Group, own: Bounds) -> list[int]:
    """The codes whose features lie within the bounds."""
    if isinstance(group, Circle):
        cosines, sines = group.points
        return list(np.flatnonzero(own[:1].allow(cosines) & own[1:].allow(sines)).tolist())
    if isinstance(group, Thermometer):  # some features have the level, from the first on, and the others are zero
        reached = np.concatenate([[True], np.logical_and.accumulate(own.allow(group.level))])
        rest = np.concatenate([np.logical_and.accumulate(own.allow(0.0)[::-1])[::-1], [True]])
        return list(np.flatnonzero(reached & rest).tolist())
    level = group.level if isinstance(group, OneHot) else 1.0
    fit, never_zero = own.allow(level), np.flatnonzero(~own.allow(0.0))  # one feature is this, and the others are zero
    if len(never_zero):
        return [int(never_zero[0])] if len(never_zero) == 1 and fit[never_zero[0]] else []
    return list(np.flatnonzero(fit).tolist())


def _decode_column(column: Column, row: Bounds) -> DecodedCell:
    """The cell that the features of a column stand for."""
    own = row[: column.own_width]
    if column.indicator:
        may_be_missing, may_be_present = (bool(row[-1:].allow(v)[0]) for v in (1.0, 0.0))
    else:
        features = column.encode(Cells(column.HOLDS[0], [None]), ())
        empty = join_features(1, [(features, None, column.own_width)]).toarray()[0].astype(np.float64)
        may_be_missing, may_be_present = bool(own.allow(empty).all()), True
    cell = _decode_present(column, own) if may_be_present else None
    if cell is None:
        return DecodedCell(column.ABSENT, missing=True)
    return replace(cell, text=f"{cell.text}; or {column.ABSENT}", missing=None) if may_be_missing else cell


def _decode_present(column: Column, own: Bounds) -> DecodedCell | None:
    """The cell that features without the indicator stand for; None where they are those of no cell.

    *Law*: every cell whose features lie within the bounds is among those that are returned.
    """
    match column:
        case Number() if column.edges is None:
            return _decode_number(column, own)
        case Date():
            return _decode_date(column, own)
        case Text():
            return DecodedCell("a text, whose words were hashed and are not stored")
        case Vector():
            return _decode_vector(column, own)
    codes = _codes(column.groups[0], own[: column.groups[0].width])  # further groups join codes: they add nothing
    if not codes:
        return None
    match column:
        case Number():
            edges = [None, *(column.edges or ()), None]
            low, high = edges[min(codes)], edges[max(codes) + 1]
            text = "any number" if low is high is None else f"{low:.15g} or more" if high is None else ""
            text = text or (f"below {high:.15g}" if low is None else f"{low:.15g} to below {high:.15g}")
            return DecodedCell(text, facts={"low": low, "high": high})
        case Category(values=None):
            text = f"place {_one_of([str(c) for c in codes])} of {column.n_codes:,}: the hashed text is not stored"
            return DecodedCell(text, facts={"places": codes, "of": column.n_codes})
        case Category():
            listed = column.values or ()
            values = [listed[c] for c in codes if c < len(listed)]
            return _decoded_values(values, others=len(values) < len(codes))
        case Ordered():
            return _decoded_values([column.levels[c] for c in codes])
        case YesNo():
            return _decoded_values([("no", "yes")[c] for c in codes])
    raise TypeError(column.KIND)


def _decode_number(column: Number, own: Bounds) -> DecodedCell:
    """The bounds of a scaled number."""
    ends = column.ends
    below, above = float(own.low[0]) - _HALF, float(own.high[0]) + _HALF
    low = None if below <= -1.0 else _unscaled(column, below, -_ROUNDING)
    high = None if above >= 1.0 else _unscaled(column, above, _ROUNDING)
    if low is not None and high is not None:
        text = with_margin(low, high)
    elif low is not None:
        text = f"at or above {_six_digits(low, math.floor)} (clipped at {ends[1]:.15g})"
    elif high is not None:
        text = f"at or below {_six_digits(high, math.ceil)} (clipped at {ends[0]:.15g})"
    else:
        text = "any number"
    return DecodedCell(text, facts={"low": low, "high": high})


def _unscaled(column: Number, t: float, rounding: float) -> float:
    """The number that is scaled to t, moved by its rounding and that of the scaling."""
    (low, high), share = column.ends, (t + 1.0) / 2.0
    if column.spacing == "log":
        return low * math.exp(share * math.log(high / low)) * (1.0 + 2**8 * rounding)
    if column.spacing == "log1p":
        return math.expm1(share * math.log1p(high)) * (1.0 + 2**8 * rounding)
    return (low + share * (high - low)) + rounding * max(abs(low), abs(high))


def _decode_date(column: Date, own: Bounds) -> DecodedCell | None:
    """The parts of a date, each as far as it is known."""
    texts: list[str] = []
    facts: dict[str, Any] = {}
    first_year, last_year = column.years or (0, 0)
    for part, (group, mine) in zip(column.parts, _groups(column, own), strict=True):
        if isinstance(group, OneHot | Circle):
            codes = _codes(group, mine)
            if not codes:
                return None
            least, most = min(codes), max(codes)
        else:  # a year, or days, from a number between -1 and 1
            span = last_year - first_year if part == "year" else 2 * (column.days or 1)
            low, high = ((float(end[0]) + 1.0) / 2.0 * span for end in (mine.low, mine.high))
            least, most = (
                max(0, min(n, span)) for n in (math.ceil(low - _HALF * span), math.floor(high + _HALF * span))
            )
        if part == "year":
            ends = (
                None if least == 0 else first_year + least,
                None if most == last_year - first_year else first_year + most,
            )
            text = f"year {_span_text(*ends)}"
        elif part == "days":
            days = column.days or 1
            ends = None if least == 0 else least - days, None if most == 2 * days else most - days
            text = f"{_span_text(*ends)} days since {column.since}"
        else:
            first = 1 if part in ("month", "day") else 0
            facts[part] = [first + c for c in codes]
            names = _one_of([_WEEKDAYS[c] if part == "weekday" else str(first + c) for c in codes])
            texts.append(names if part == "weekday" else f"{part} {names}")
            continue
        texts.append(text)
        facts[part] = {"low": ends[0], "high": ends[1]}
    return DecodedCell(", ".join(texts), facts={"parts": facts})


def _span_text(low: int | None, high: int | None) -> str:
    if low is None or high is None:
        return "any" if low is high is None else f"{low} or more" if high is None else f"{high} or less"
    return str(low) if low == high else f"{low} to {high}"


def _decode_vector(column: Vector, own: Bounds) -> DecodedCell:
    """The bounds of each number; where the vector may have been shortened, those of the shortened one."""
    step = (2.0 + 2.0**-20) / STEPS  # rounded, and cut off where it was shortened
    low, high = ((own.low - step) * column.scale).tolist(), ((own.high + step) * column.scale).tolist()
    clipped = own.norms()[1] >= 1.0 - column.length * 2.0 / STEPS
    numbers = _first((with_margin(a, b) for a, b in zip(low, high, strict=True)), _MOST_NUMBERS)
    longer = "; or longer, in this direction (clipped)" if clipped else ""
    return DecodedCell(f"{numbers}{longer}", facts={"low": low, "high": high, "clipped": clipped})


# -- texts for people --------------------------------------------------------------------------------------------------


def with_margin(low: float, high: float) -> str:
    """Two bounds as a number with its margin, in few digits, never narrower than the bounds."""
    half = (high - low) / 2
    if not 0 < half < math.inf:
        return f"{low:.15g}"
    digits = -math.floor(math.log10(half))
    middle = round((low + high) / 2, digits)
    unit = 10.0**-digits
    margin = math.ceil(max(high - middle, middle - low) / unit * (1 - 2.0**-40)) * unit
    if digits < -15 or digits > 15:
        return f"{middle:.3g} ± {margin:.1g}"
    return f"{middle:.{max(0, digits)}f} ± {margin:.{max(0, digits)}f}"


def _six_digits(value: float, rounded: Callable[[float], int]) -> str:
    if not value:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 5)
    return f"{rounded(value / unit) * unit:.6g}" if unit > 0 else f"{value:.15g}"


def _one_of(names: Sequence[str]) -> str:
    """A name, or several of which one holds."""
    return names[0] if len(names) == 1 else f"one of {_first(names, _MOST_SHOWN)}"


def _first(names: Iterable[str], most: int) -> str:
    """The first names of a list, and how many more there are."""
    names = list(names)
    more = f" and {len(names) - most:,} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _decoded_values(values: Sequence[str], *, others: bool = False) -> DecodedCell:
    """A cell that was one of these values, or perhaps one that the schema does not list."""
    names = [*values, "none of the values that the schema lists"] if others else values
    return DecodedCell(_one_of(names), facts={"one_of": list(values), "others": others})
