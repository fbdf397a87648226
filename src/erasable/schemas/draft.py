"""Drafts of schemas from rows, in which no few people show.

A draft made from rows is a trace of them. So nothing goes into it that fewer than k subjects have, all numbers are
round, and lists are sorted; and for each entry it is known how many subjects would have to be absent for it to change.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Float64s, Int64s
from erasable.errors import InputError
from erasable.schemas.cells import DAY, ORDERS, Kind, folded, parse_date, parse_time
from erasable.schemas.columns import Category, Column, Number, YesNo
from erasable.schemas.dates import Date, Time
from erasable.schemas.draft_selection import with_selection
from erasable.schemas.schema import MISSING_SPELLINGS, Role, Schema
from erasable.schemas.statistics import (
    NEVER,
    ColumnStatistics,
    Margin,
    SubjectValues,
    TableStatistics,
    first_change,
)
from erasable.schemas.texts import Text, Vector
from erasable.validation import whole_number

_IDENTIFIER = re.compile(r"(?:.*[^A-Za-z])?(?:id|ids|uuid|guid|key|index)|.*[a-z](?:Id|ID|Key|Index)", re.ASCII)
_ANY_CASE = re.compile(r"id|uuid|guid|index|unnamed: 0", re.ASCII | re.IGNORECASE)
_MOST_CATEGORIES = 200
_HASHED, _PLACES = 64, 128
_STEPS = 5  # of a range, at least
_LARGEST_EXPONENT = 15
_DENSE_SHARE = 10  # a dense bin has one of so many subjects
Entry = tuple[str, str, Any]


@dataclass(frozen=True)
class Draft:
    """A schema that was drafted from rows, and how firmly each of its entries stands.

    Attributes
    ----------
    schema : Schema
    margins : mapping of (column, entry, value) to number
        How many subjects would have to be absent, at least, for the entry to change; infinity where nothing can change
        it. Entries are "kind", "indicator", "parts", "years", "classes" and "range", with None, and each "edge" and
        "value". To be shown, not stored: they say more about the rows than the schema does.
    """

    schema: Schema
    margins: Mapping[Entry, float]
    k: int

    @property
    def head(self) -> str:
        """The comment for the head of a schema file."""
        return (
            "Drafted from rows. Kinds, edges, ranges, categories, years and indicators are those that at least\n"
            f"{self.k} subjects share; names of columns and everything else are not from rows. Read it, edit it, and\n"
            "then keep it: a schema is part of every model that is learnt through it.\n"
            "Moments and class shares, for independent selection, are rounded to powers of two; features that\n"
            f"fewer than {self.k} subjects have get the smallest moment. They are public: models keep them when rows\n"
            "are forgotten. Delete the entry of a column whose features you edit, or both tables."
        )

    def with_selection(self, blocks: Iterable[Any]) -> Draft:
        """The draft with moments and class shares for independent selection, from the same rows read again."""
        return replace(self, schema=with_selection(self.schema, blocks, self.k))

    def __str__(self) -> str:
        lines = []
        for (column, entry, value), margin in self.margins.items():
            named = entry if value is None else f"{entry} {value:g}" if isinstance(value, float) else f"{entry} {value}"
            lines.append(f"{column}, {named}: {'any number' if margin == NEVER else f'{margin:,.0f}'}")
        return "\n".join(lines)


def draft_schema(
    table: Any,
    *,
    label: str | None = None,
    target: str | Sequence[str] = (),
    id: str | None = None,
    subject: str | Sequence[str] = (),
    weight: str | None = None,
    ignore: Sequence[str] = (),
    k: int = 20,
) -> Draft:
    """A schema for a table, drafted from its rows.

    Parameters
    ----------
    table : Arrow table, pandas or polars dataframe, or dict of columns; or an iterator of these
        An iterator has the blocks of one table, of which one is held at a time.
    label, target, id, subject, weight, ignore : names of columns
        Their roles. Without subjects every row is a subject of its own. There may be several columns of subjects, or
        one of lists: then k subjects are required in each column, and among the first, second, ... of a list.
    k : int, default=20
        Nothing that fewer subjects have goes into the draft.

    Raises
    ------
    InputError, ConfigurationError
        When columns are missing, or nothing can be drafted from so few subjects.

    Notes
    -----
    *Law*: without any m - 1 subjects, and all rows that they are in, the draft has the same entries wherever their
    margin is m or more.

    - A column is a number, a date, a time, or yes or no where fewer than k subjects have cells that are none.
    - Numbers get bins with round edges, with at least k subjects on either side.
    - Texts are categories where half of the subjects or more have a value that k subjects have; those values are
      listed. Otherwise texts of several words are hashed by their words; identifiers are ignored, but for whether they
      are missing; and what is left is hashed as a whole.
    - Missing cells have an indicator where k subjects have any.
    - Targets get a range from the k-th smallest to the k-th largest subject, rounded outwards to a 1-2-5 step.
    - Moments and class shares for independent selection are powers of two. They need a second pass, so an iterator of
      blocks gets none. They have no margins: rows count, not subjects, so one subject may change one by a factor of 2.

    *Cost*: memory for each different cell of a column, once; where subjects are named, one, two or four bytes for each
    cell and four for each row in addition, and some forty for each row while one column is drafted.
    """
    k = whole_number(k, "k", 1)
    subjects = (subject,) if isinstance(subject, str) else tuple(subject)
    targets = (target,) if isinstance(target, str) else tuple(target)
    roles = {
        **dict.fromkeys(ignore, "ignore"),
        **dict.fromkeys(subjects, "subject"),
        **dict.fromkeys(targets, "target"),
        **{name: role for role, name in (("label", label), ("id", id), ("weight", weight)) if name is not None},
    }
    blocks = table if isinstance(table, Iterator) else [table]
    draft = draft_from(TableStatistics(blocks, roles, _is_identifier, MISSING_SPELLINGS), roles, k=k)
    return draft if isinstance(table, Iterator) else draft.with_selection([table])


def draft_from(statistics: TableStatistics, roles: Mapping[str, str], *, k: int) -> Draft:
    """The draft of a table whose statistics were gathered with these roles."""
    if statistics.n_subjects < 2 * k:
        raise InputError(
            f"a draft needs at least 2 k = {2 * k} subjects; got {statistics.n_subjects}: lower k, or write it by hand."
        )
    drafting = _Drafting(k, statistics)
    for name in statistics.names:
        if name in roles:
            drafting.add_role(name, roles[name])
        else:
            drafting.add_column(name)
    margins = {entry: statistics.absent_subjects(margin) for entry, margin in drafting.margins.items()}
    return Draft(Schema(tuple(drafting.columns)), margins, k)


@dataclass
class _Drafting:
    """The columns drafted so far, with the margins of their entries."""

    k: int
    statistics: TableStatistics
    columns: list[Column | Role] = field(default_factory=list)
    margins: dict[Entry, float] = field(default_factory=dict)

    def add_role(self, name: str, role: str) -> None:
        """A column that the caller named, with the classes of a label and the range of a target."""
        found: dict[str, Any] = {}
        if (
            role in ("label", "target")
            and name in self.statistics
            and self.statistics.kind(name) in (Kind.TEXT, Kind.NUMBER)
        ):
            column = self.statistics.column(name, self.k)
            found = self._classes(name, column) if role == "label" else self._range(name, column)
        self.columns.append(Role(name=name, role=role, **found))

    def _classes(self, name: str, column: ColumnStatistics) -> dict[str, Any]:
        """All classes, where k subjects have each of them."""
        count = column.count_each()[column.present]
        rare = count[count < self.k]
        self.margins[name, "classes", None] = float(rare.max()) if len(rare) else int(count.min()) - self.k + 1
        if len(count) - len(rare) > _MOST_CATEGORIES or len(count) < 2:
            self.margins[name, "classes", None] = 1
        if len(rare) or not 1 < len(count) <= _MOST_CATEGORIES:
            return {}
        return {"classes": tuple(sorted(v for v in column.values if v is not None))}

    def _range(self, name: str, column: ColumnStatistics) -> dict[str, Any]:
        """From the k-th smallest to the k-th largest subject."""
        numbers = column.numbers()
        if column.count(~np.isnan(numbers)) < self.k:
            raise InputError(
                f"column {name!r} cannot be a target: fewer than k = {self.k} subjects have a number there. Name "
                "another one, or give it as the label; numbers with decimal commas are read with decimal=."
            )
        found = draft_range(column, numbers)
        ends, self.margins[name, "range", None] = (None, 1) if found is None else found
        return {"range": ends}

    def add_column(self, name: str) -> None:
        """A feature, or a column that is better ignored."""
        if name not in self.statistics or _is_identifier(name):
            self.columns.append(Role(name=name, role="ignore"))
            self.margins[name, "kind", None] = NEVER
            return
        column = self.statistics.column(name, self.k)
        if column.kind == Kind.VECTOR:
            self._add_vector(name, column)
            return
        margin, extra = Margin(), dict[tuple[str, Any], float]()
        made = self._kind(name, column, margin, extra)
        missing = Margin()
        indicator = missing.at_least(column.count(~column.present), self.k)
        if made is None and indicator and margin.at_least(column.count(column.present), self.k):
            margin.lower_to(missing.value)
            made = {"kind": Category, "hashed": 1}  # all that it says is whether the cell is missing
        self.margins[name, "kind", None] = margin.value
        if made is None:
            self.columns.append(Role(name=name, role="ignore"))
            return
        kind = made.pop("kind")
        self.columns.append(kind(name=name, indicator=indicator, **made))
        self.margins[name, "indicator", None] = min(missing.value, margin.value)
        for (entry, value), own in extra.items():
            self.margins[name, entry, value] = min(own, margin.value)

    def _add_vector(self, name: str, column: ColumnStatistics) -> None:
        lengths = np.array([v or 0 for v in column.values], dtype=np.int64)
        having = {n: column.count(lengths == n) for n in set(lengths.tolist()) - {0}}
        length = max(having, key=lambda n: (having[n], n), default=0)
        odd = column.count(column.present & (lengths != length))
        usable = length > 0 and having[length] >= self.k > odd
        self.margins[name, "kind", None] = having[length] - self.k + 1 if usable else 1
        self.columns.append(Vector(name=name, length=length) if usable else Role(name=name, role="ignore"))

    def _kind(
        self, name: str, column: ColumnStatistics, margin: Margin, extra: dict[tuple[str, Any], float]
    ) -> dict[str, Any] | None:
        """The kind and its parameters; None where nothing can be made of the column."""
        if not margin.at_least(column.count(column.present), self.k):
            return None
        values = column.values
        if column.kind in (Kind.TEXT, Kind.NUMBER):
            known = YesNo(name=name)
            spelt = np.array([v is not None and folded(v) in (*known.yes, *known.no) for v in values], dtype=bool)
            if self._fits(column, spelt, margin):
                return {"kind": YesNo}
            numbers = column.numbers()
            if self._fits(column, ~np.isnan(numbers), margin):
                found = draft_edges(column, numbers)
                extra.update({("edge", edge): own for edge, own in found})
                if not found:
                    margin.lower_to(1)
                    return None
                margin.lower_to(max(own for _, own in found))  # without any edge it would be no number
                return {"kind": Number, "edges": tuple(edge for edge, _ in found)}
        if column.kind in (Kind.TEXT, Kind.DATE):
            for order in ORDERS if column.kind == Kind.TEXT else ("ymd",):
                dates = values if column.kind == Kind.DATE else [v and parse_date(v, order) for v in values]
                seconds = np.array([np.nan if d is None or d == "" else d for d in dates], dtype=np.float64)
                if self._fits(column, ~np.isnan(seconds), margin):
                    return self._date(column, seconds, order, extra)
        if column.kind in (Kind.TEXT, Kind.TIME):
            times = values if column.kind == Kind.TIME else [v and parse_time(v) for v in values]
            if self._fits(column, np.array([t is not None and t != "" for t in times], dtype=bool), margin):
                return {"kind": Time}
        return self._text(column, margin, extra)

    def _fits(self, column: ColumnStatistics, fitting: Booleans, margin: Margin) -> bool:
        """Whether k subjects have such values, and fewer have others."""
        odd = column.count(column.present & ~fitting)
        if odd >= self.k:
            margin.lower_to(odd - self.k + 1)
            return False
        return margin.at_least(column.count(fitting), self.k)

    def _date(
        self, column: ColumnStatistics, seconds: Float64s, order: str, extra: dict[tuple[str, Any], float]
    ) -> dict[str, Any]:
        low, high = column.extremes(np.array([np.nan if np.isnan(s) else _year(s) for s in seconds]))
        span, clock = Margin(), Margin()
        first = span.kth(lambda j: int(low[j]), len(low), self.k)
        last = span.kth(lambda j: int(high[j]), len(high), self.k)
        hours = clock.at_least(column.count(~np.isnan(seconds) & (seconds % DAY != 0)), self.k)
        parts = [*(["year"] if first < last else []), "month", "weekday", *(["hour"] if hours else [])]
        extra["parts", None] = min(clock.value, span.value)
        extra["years", None] = span.value
        years = {"years": (first, last)} if first < last else {}
        return {"kind": Date, "parts": tuple(parts), "order": order, **years}

    def _text(
        self, column: ColumnStatistics, margin: Margin, extra: dict[tuple[str, Any], float]
    ) -> dict[str, Any] | None:
        common = column.common(margin)
        if common is not None:
            if column.has_more_common_than(_MOST_CATEGORIES, margin):
                return {"kind": Category, "hashed": 4 * _HASHED}
            count = column.count_each()
            listed = sorted((column.values[j], int(count[j])) for j in np.flatnonzero(common).tolist())
            extra.update({("value", value): n - self.k + 1 for value, n in listed})
            return {"kind": Category, "values": tuple(value for value, _ in listed)}
        words = np.array([v is not None and len(v.split(" ")) > 1 for v in column.values], dtype=bool)
        several = column.pairs(words)
        if margin.is_more(several, column.pairs(column.present) - several, column.most_taken):
            return {"kind": Text, "words": (1, 1), "places": _PLACES}
        return None if column.nearly_all_differ(margin) else {"kind": Category, "hashed": _HASHED}


def _is_identifier(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name) or _ANY_CASE.fullmatch(name))


def _year(seconds: float) -> int:
    return int(np.datetime64(int(seconds), "s").astype("datetime64[Y]").astype(np.int64)) + 1970


# -- edges and ranges of numbers ---------------------------------------------------------------------------------------


def round_step(width: float) -> tuple[int, int]:
    """The largest of 1, 2, 5, 10, ... and their tenths that is at most a width: digit and exponent."""
    exponent = math.floor(math.log10(width)) + 1
    while True:
        for digit in (5, 2, 1):
            if as_number(digit, exponent) <= width:
                return digit, exponent
        exponent -= 1


def as_number(digits: int, exponent: int) -> float:
    """The float64 nearest to digits times a power of ten."""
    return float(f"{digits}e{exponent}")


def draft_edges(column: ColumnStatistics, numbers: Float64s) -> list[tuple[float, float]]:
    """Round edges with k subjects on either side, each with its margin.

    Multiples of a 1-2-5 step, five or more of which fit between the k-th smallest and the k-th largest subject; or 1,
    2, 5, 10, ... where most subjects are below a tenth of that range. An edge stays out where neither of the bins next
    to it has k subjects. Where subjects are many, there are further edges: see :func:`dense_edges`.
    """
    k = column.k
    low, high = column.extremes(numbers)
    enough, shape = Margin(), Margin()
    if not enough.at_least(len(low), 2 * k) or not high[k - 1] > low[k - 1]:
        return []
    whole = not shape.at_least(column.count(~np.isnan(numbers) & (numbers != np.rint(numbers))), k)
    dense = [dense_edges(part, k, numbers, whole, shape.value) for part in column.parts]
    found = {edge: min(edges[edge] for edges in dense) for edge in dense[0] if all(edge in edges for edges in dense)}
    if _is_skewed(low, high, k, shape):
        exponents = range(0 if whole else -6, _LARGEST_EXPONENT + 1)
        edges = [as_number(d, e) for e in exponents for d in (1, 2, 5)]
    else:
        edges = _multiples(low, high, k, whole, shape)
    bounds = np.array([-np.inf, *edges, np.inf])
    place = np.searchsorted(bounds, numbers, side="right")
    place[np.isnan(numbers)] = 0
    in_bin = [column.count(place == j) for j in range(1, len(bounds))]
    for i, edge in enumerate(edges):
        below, above = int(np.searchsorted(low, edge)), int(np.count_nonzero(high >= edge))
        least = min(below, above, max(in_bin[i], in_bin[i + 1]))
        if least >= k:
            found[edge] = max(min(least - k + 1, shape.value), found.get(edge, 0))
    return sorted((edge, min(margin, enough.value)) for edge, margin in found.items())


def dense_edges(part: SubjectValues, k: int, numbers: Float64s, whole: bool, of_whole: float) -> dict[float, float]:
    """Multiples of 1-2-5 steps with many subjects within one step on either side, each with its margin.

    Many are k, and a tenth of the subjects that have another than the commonest number: of gains, which most people do
    not have, the edges are where those of the others are. No other test is made, so absent subjects can only remove
    edges: as many have to be absent as there are more than many.
    """
    known = np.flatnonzero(~np.isnan(numbers))
    order = known[np.argsort(numbers[known], kind="stable")]
    values, rank = numbers[order], np.full(len(numbers), -1)
    rank[order] = np.arange(len(order))
    pairs = rank[part.places] >= 0
    ranks, subjects = rank[part.places[pairs]], part.subjects[pairs]
    _, who = np.unique(subjects, return_inverse=True)
    of_one = np.bincount(who)[who] == 1  # subjects that have one number
    own = part.alone[order]
    commonest = int((own + np.bincount(ranks[of_one], minlength=len(values))).max(initial=0))
    many = max(k, -(-(int(who.max(initial=-1)) + 1 + int(own.sum()) - commonest) // _DENSE_SHARE))
    named = np.concatenate([[0], np.cumsum(np.bincount(ranks, minlength=len(values)))])  # pairs below each value
    single = np.concatenate([[0], np.cumsum(own)])
    at = named + single
    by_rank = who[np.argsort(ranks, kind="stable")]
    found: dict[float, float] = {}
    for exponent in range(_LARGEST_EXPONENT, (0 if whole else -6) - 1, -1):
        for digit in (5, 2, 1):
            edges = _steps_around(values, np.diff(at), many, digit, exponent)
            below = np.searchsorted(values, edges)
            cut = at[below]
            for i in np.flatnonzero((np.diff(cut[:-1]) >= many) & (np.diff(cut[1:]) >= many)).tolist():
                bins = [(below[j], below[j + 1]) for j in (i, i + 1)]
                least = min(len(np.unique(by_rank[named[a] : named[b]])) + int(single[b] - single[a]) for a, b in bins)
                if least >= many:
                    margin = min(least - many + 1, NEVER if exponent >= 0 else of_whole)
                    found[float(edges[i + 1])] = max(margin, found.get(float(edges[i + 1]), 0))
    return found


def _steps_around(values: Float64s, often: Int64s, many: int, digit: int, exponent: int) -> Float64s:
    """The multiples of a step around bins that may have so many; a quotient may be rounded into the next bin."""
    step = as_number(digit, exponent)
    within = np.abs(values) < 2.0**52 * step
    bins, places = np.unique(np.floor(values[within] / step), return_inverse=True)
    count = np.bincount(places, weights=often[within], minlength=len(bins))
    left, right = np.diff(bins, prepend=-np.inf) == 1, np.diff(bins, append=np.inf) == 1
    near = count + np.where(left, np.roll(count, 1), 0) + np.where(right, np.roll(count, -1), 0)
    dense = bins[near >= many]
    multiples = np.unique(np.concatenate([dense + d for d in (-2, -1, 0, 1, 2, 3)])) if len(dense) else dense
    return np.array([as_number(int(i) * digit, exponent) for i in multiples.tolist()])


def _is_skewed(low: Float64s, high: Float64s, k: int, shape: Margin) -> bool:
    """Whether most subjects are below a tenth of the range, which begins with zero or more."""
    n = len(low)
    if low[k - 1] < 0:
        shape.lower_to(first_change(lambda j: low[k - 1 + j] >= 0, n - k + 1))
        return False
    below = int(np.searchsorted(low, high[k - 1] / 10))
    if 2 * below <= n:
        shape.lower_to(n - 2 * below + 1)
        return False
    # The top falls as subjects are absent, and with it how many are below its tenth; they may leave other rows behind.
    shape.lower_to(first_change(lambda j: 2 * (int(np.searchsorted(low, high[k - 1 + j] / 10)) - j) <= n, n - k + 1))
    return True


def _multiples(low: Float64s, high: Float64s, k: int, whole: bool, shape: Margin) -> list[float]:
    """Multiples of a step within the range from the k-th smallest to the k-th largest subject."""

    def step_of(j: int) -> tuple[int, int]:
        width = (high[k - 1 + j] - low[k - 1 + j]) / _STEPS
        digit, exponent = round_step(width) if width > 0 else (1, -400)
        return (1, 0) if whole and exponent < 0 else (digit, exponent)

    digit, exponent = step_of(0)
    shape.lower_to(first_change(lambda j: step_of(j) != (digit, exponent), len(low) - k + 1))
    step = as_number(digit, exponent)
    # One more on either side, so that both bins next to an edge are one step wide.
    first, last = math.floor(low[k - 1] / step) - 1, math.ceil(high[k - 1] / step) + 1
    return sorted({as_number(i * digit, exponent) for i in range(first, last + 1)})


def draft_range(column: ColumnStatistics, numbers: Float64s) -> tuple[tuple[float, float], float] | None:
    """The range from the k-th smallest to the k-th largest subject, rounded outwards to multiples of a 1-2-5 step.

    Five steps or more fit between these two. The range, and its margin; None where there is no room in it.
    """
    k = column.k
    low, high = column.extremes(numbers)

    def rounded(j: int) -> tuple[float, float] | None:
        width = high[k - 1 + j] - low[k - 1 + j]
        if not 0 < width < math.inf:
            return None
        digit, exponent = round_step(width / _STEPS)
        step = as_number(digit, exponent)
        first, last = math.floor(low[k - 1 + j] / step), math.ceil(high[k - 1 + j] / step)
        return as_number(first * digit, exponent), as_number(last * digit, exponent)

    enough = Margin()
    if not enough.at_least(len(low), 2 * k) or (found := rounded(0)) is None:
        return None
    enough.lower_to(first_change(lambda j: rounded(j) != found, len(low) - k + 1))
    return found, enough.value
