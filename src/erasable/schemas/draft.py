"""Drafts of schemas from rows, in which no few people show.

A draft made from rows is a trace of them. So nothing goes into it that fewer than k subjects have, all numbers are
round, and lists are sorted; and for each entry it is known how many subjects would have to be absent for it to change.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Float64s
from erasable.errors import ConfigurationError, InputError
from erasable.schemas.cells import DAY, ORDERS, Kind, folded, parse_date, parse_time
from erasable.schemas.columns import Category, Column, Number, YesNo
from erasable.schemas.dates import Date, Time
from erasable.schemas.draft_crosses import ProposedCross, propose_crosses
from erasable.schemas.draft_notes import is_calendar, is_code_name, is_identifier, note_on
from erasable.schemas.draft_numbers import Fineness, draft_edges, draft_fineness, draft_range
from erasable.schemas.draft_selection import with_selection
from erasable.schemas.schema import MISSING_SPELLINGS, Role, Schema
from erasable.schemas.statistics import (
    NEVER,
    ColumnStatistics,
    Margin,
    TableStatistics,
)
from erasable.schemas.texts import Text, Vector
from erasable.validation import whole_number

_MOST_CATEGORIES = 200
_HASHED, _PLACES = 64, 128
_SUGGESTED = 3  # crosses, as comments
_ZEROS = re.compile(r"0\d")
Entry = tuple[str, str, Any]


@dataclass(frozen=True)
class Draft:
    """A schema that was drafted from rows, and how firmly each of its entries stands."""

    schema: Schema
    # How many subjects would have to be absent, at least, for the entry to change; infinity where nothing can change
    # it. Entries are "kind", "indicator", "parts", "years", "classes", "range", "bins" and "encoding", with None, and
    # each "edge" and "value". To be shown, not stored: they say more about the rows than the schema does.
    margins: Mapping[Entry, float]
    k: int
    bins: int = 8  # about how many bins numbers have
    notes: Mapping[str, str] = field(default_factory=dict)  # what was decided for each column, and what to do about it
    # crosses, suggested: the crosses of the schema, and those that stand in its file as comments. How much they helped
    # is to be shown, not stored.
    crosses: Sequence[ProposedCross] = ()
    suggested: Sequence[ProposedCross] = ()
    # The size of the table, and what learning would refuse in it, by count. To be shown, not stored.
    n_rows: int = 0
    n_subjects: int = 0
    refusals: Sequence[str] = ()

    @property
    def head(self) -> str:
        """The comment for the head of a schema file."""
        return (
            "Drafted from rows. Kinds, edges, ranges, categories, years and indicators are those that at least "
            f"{self.k} subjects share; names of columns and everything else are not from rows. Read it, edit it, and "
            "then keep it: a schema is part of every model that is learnt through it.\n"
            f"Numbers have about {self.bins} bins, by the number of subjects.\n"
            "Without the rows of a few people, a draft has the same kinds, edges, ranges, categories, years and "
            "indicators. `erasable schema` prints how many people would have to leave before one of these could "
            "change, and --json lists it for each. The numbers are not in this file, since they would change with "
            "every one of these people.\n"
            "Rate, moments and class shares, for independent selection, are rounded to powers of two; features that "
            f"fewer than {self.k} subjects have get the smallest moment. They are public: models keep them when rows "
            "are forgotten. Delete the moments of a column whose features you edit, or all of [selection]."
        )

    @property
    def after(self) -> str:
        """The comment below the columns: the suggested crosses, ready to be taken."""
        if not self.suggested:
            return ""
        tables = "\n\n".join(cross.toml for cross, _ in self.suggested)
        return (
            "Crosses that helped most on a sample, the best first: a feature for each pair of values of two columns.\n"
            "Remove the # in front of those that you want, or draft again with --crosses.\n\n"
        ) + tables

    def save(self, path: str | os.PathLike[str], *, head: str = "") -> None:
        """Write the schema to a file, with a note on each column; ``head`` stands above that of the draft."""
        self.schema.save(path, head=head + self.head, notes=self.notes, after=self.after)

    def with_crosses(self, blocks: Iterable[Any], n: int) -> Draft:
        """The draft with the n crosses that help most, from the same rows read again.

        See :func:`erasable.schemas.draft_crosses.propose_crosses`; moments and class shares have to be drafted
        afterwards.
        """
        found = tuple(self._propose(blocks, n))
        schema = replace(self.schema, crosses=tuple(cross for cross, _ in found))
        notes = {cross.name: "A cross that helped on a sample, after those above it." for cross, _ in found}
        return replace(self, schema=schema, notes={**self.notes, **notes}, crosses=found)

    def with_suggestions(self, blocks: Iterable[Any]) -> Draft:
        """The draft with a few crosses as comments, from the same rows read again."""
        return replace(self, suggested=tuple(self._propose(blocks, _SUGGESTED)))

    def _propose(self, blocks: Iterable[Any], n: int) -> list[ProposedCross]:
        return propose_crosses(self.schema, blocks, n, k=self.k)

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
    crosses: int = 0,
) -> Draft:
    """A schema for a table, drafted from its rows.

    Raises InputError or ConfigurationError when columns are missing, or nothing can be drafted from so few subjects.

    Parameters
    ----------
    table : Arrow table, pandas or polars dataframe, or dict of columns; or an iterator of these
        An iterator has the blocks of one table, of which one is held at a time.
    label, target, id, subject, weight, ignore : names of columns
        Their roles. Without subjects every row is a subject of its own. There may be several columns of subjects, or
        one of lists: then k subjects are required in each column, and among the first, second, ... of a list.
    k : int, default=20
        Nothing that fewer subjects have goes into the draft.
    crosses : int, default=0
        Add up to so many crosses, those that help most on a sample; not for an iterator, which is read once.

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
    cell and four for each row in addition, and some forty for each row while one column is drafted. Eight bytes for
    each row where ids are named.
    """
    k = whole_number(k, "k", 1)
    several = {"ignore": ignore, "subject": subject, "target": target}
    roles = {name: role for role, names in several.items() for name in ([names] if isinstance(names, str) else names)}
    roles |= {name: role for role, name in (("label", label), ("id", id), ("weight", weight)) if name is not None}
    blocks = table if isinstance(table, Iterator) else [table]
    if whole_number(crosses, "crosses", 0) and isinstance(table, Iterator):
        raise ConfigurationError("crosses are measured on rows that are read again: give a table, not an iterator.")
    draft = draft_from(TableStatistics(blocks, roles, is_identifier, MISSING_SPELLINGS), roles, k=k)
    draft = draft.with_crosses([table], crosses) if crosses else draft
    return draft if isinstance(table, Iterator) else draft.with_selection([table])


def draft_from(statistics: TableStatistics, roles: Mapping[str, str], *, k: int) -> Draft:
    """The draft of a table whose statistics were gathered with these roles."""
    if statistics.n_subjects < 2 * k:
        raise InputError(
            f"a draft needs at least 2 k = {2 * k} subjects; got {statistics.n_subjects}: lower k, or write it by hand."
        )
    n_columns = sum(name in statistics and name not in roles for name in statistics.names)
    fineness, margin = draft_fineness(statistics.n_subjects, n_columns)
    drafting = _Drafting(k, statistics, fineness, margin, labelled="target" not in roles.values())
    for name in statistics.names:
        if name in roles:
            drafting.add_role(name, roles[name])
        else:
            drafting.add_column(name)
    margins = {entry: statistics.absent_subjects(margin) for entry, margin in drafting.margins.items()}
    notes = {c.name: note_on(c, drafting.reasons.get(c.name, ""), k) for c in drafting.columns}
    return Draft(
        Schema(tuple(drafting.columns)),
        margins,
        k,
        fineness.bins,
        notes,
        n_rows=statistics.n_rows,
        n_subjects=statistics.n_subjects,
        refusals=statistics.refusals,
    )


@dataclass
class _Drafting:
    """The columns drafted so far, with the margins of their entries."""

    k: int
    statistics: TableStatistics
    fineness: Fineness
    of_fineness: float  # its margin
    labelled: bool
    columns: list[Column | Role] = field(default_factory=list)
    margins: dict[Entry, float] = field(default_factory=dict)
    reasons: dict[str, str] = field(default_factory=dict)  # of decisions that the notes explain

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
        if role == "ignore":
            self.reasons[name] = "asked"

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
        if name not in self.statistics or is_identifier(name):
            self.columns.append(Role(name=name, role="ignore"))
            self.margins[name, "kind", None] = NEVER
            self.reasons[name] = "identifier" if is_identifier(name) else ""
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
            self.reasons[name] = "missing"
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
                if self._is_code(name, column, numbers, margin):
                    return self._category(column, margin, extra, self._least_of_codes) or self._hashed(column, margin)
                found = self._edges(name, column, numbers)
                extra["bins", None] = self.of_fineness
                extra.update({("edge", edge): own for edge, own in found})
                if not found:
                    margin.lower_to(1)
                    return None
                margin.lower_to(max(own for _, own in found))  # without any edge it would be no number
                bins = "multiscale" if self.labelled and not self.fineness.is_for_small_tables else "one-hot"
                return {"kind": Number, "edges": tuple(edge for edge, _ in found), "bins": bins}
        if column.kind in (Kind.TEXT, Kind.DATE):
            for order in ORDERS if column.kind == Kind.TEXT else ("ymd",):
                dates = values if column.kind == Kind.DATE else [v and parse_date(v, order) for v in values]
                seconds = np.array([np.nan if d is None or d == "" else d for d in dates], dtype=np.float64)
                if self._fits(column, ~np.isnan(seconds), margin):
                    return self._date(column, seconds, order, extra)
        if column.kind in (Kind.TEXT, Kind.TIME):
            times = values if column.kind == Kind.TIME else [v and parse_time(v) for v in values]
            if self._fits(column, np.array([t is not None and t != "" for t in times], dtype=bool), margin):
                extra["encoding", None] = self.of_fineness
                return {"kind": Time, "encoding": self._encoding}
        return self._text(column, margin, extra)

    def _is_code(self, name: str, column: ColumnStatistics, numbers: Float64s, margin: Margin) -> bool:
        """Whether numbers are codes: zeros are in front of k subjects' numbers, or they are whole and named so."""
        zeros = np.array([v is not None and bool(_ZEROS.match(v)) for v in column.values], dtype=bool)
        fractions = ~np.isnan(numbers) & (numbers != np.rint(numbers))
        is_code = margin.at_least(column.count(zeros), self.k)
        is_code = is_code or (is_code_name(name) and not margin.at_least(column.count(fractions), self.k))
        if is_code:
            self.reasons[name] = "code"
        return is_code

    def _edges(self, name: str, column: ColumnStatistics, numbers: Float64s) -> list[tuple[float, float]]:
        """Edges and their margins; months, weekdays and hours have a bin each."""
        calendar = is_calendar(name)
        found = draft_edges(column, numbers, self.fineness, each_whole=calendar)
        if calendar and all(b - a == 1 for (a, _), (b, _) in pairwise(found)):
            self.reasons[name] = "calendar"
        return [(edge, min(margin, self.of_fineness)) for edge, margin in found]

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
        extra["encoding", None] = self.of_fineness
        years = {"years": (first, last)} if first < last else {}
        return {"kind": Date, "parts": tuple(parts), "order": order, "encoding": self._encoding, **years}

    @property
    def _encoding(self) -> str:
        """How parts of dates and times are encoded: on circles where subjects are too few for bins."""
        return "cyclic" if self.fineness.is_for_small_tables else "bins"

    def _text(
        self, column: ColumnStatistics, margin: Margin, extra: dict[tuple[str, Any], float]
    ) -> dict[str, Any] | None:
        if (listed := self._category(column, margin, extra, self.k)) is not None:
            return listed
        words = np.array([v is not None and len(v.split(" ")) > 1 for v in column.values], dtype=bool)
        several = column.pairs(words)
        if margin.is_more(several, column.pairs(column.present) - several, column.most_taken):
            return {"kind": Text, "words": (1, 1), "places": _PLACES}
        return self._hashed(column, margin)

    @property
    def _least_of_codes(self) -> int:
        """How many subjects must have a code for it to be listed: rare ones would only make models larger."""
        return max(self.k, -(-self.statistics.n_subjects // _MOST_CATEGORIES))

    def _category(
        self, column: ColumnStatistics, margin: Margin, extra: dict[tuple[str, Any], float], least: int
    ) -> dict[str, Any] | None:
        """A list of the values that so many subjects have, hashed if they are too many; None if most have others."""
        common = column.common(margin, least)
        if common is None:
            return None
        if least == self.k and column.has_more_common_than(_MOST_CATEGORIES, margin):
            return {"kind": Category, "hashed": 4 * _HASHED}
        count = column.count_each()
        listed = sorted((column.values[j], int(count[j])) for j in np.flatnonzero(common).tolist())
        extra.update({("value", value): n - least + 1 for value, n in listed})
        return {"kind": Category, "values": tuple(value for value, _ in listed)}

    def _hashed(self, column: ColumnStatistics, margin: Margin) -> dict[str, Any] | None:
        """A hashed category; None where nearly all values differ."""
        return None if column.nearly_all_differ(margin) else {"kind": Category, "hashed": _HASHED}


def _year(seconds: float) -> int:
    return int(np.datetime64(int(seconds), "s").astype("datetime64[Y]").astype(np.int64)) + 1970
