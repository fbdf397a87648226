"""Drafts of schemas from rows, in which no few people show.

A draft made from rows is a trace of them. So nothing goes into it that fewer than k subjects have, all numbers are
round, and lists are sorted; and for each entry it is known how many subjects would have to be absent for it to change.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans
from erasable.errors import InputError
from erasable.schemas._base import Column
from erasable.schemas._cells import (
    CLOCK,
    DAY,
    MOMENT,
    NUMBER,
    ORDERS,
    TEXT,
    VECTOR,
    clock_of,
    moment_of,
    spelling,
)
from erasable.schemas._facts import (
    NEVER,
    Decisions,
    Facts,
    covered,
    draft_edges,
    draft_range,
    kth,
    many,
    nearly_all_differ,
)
from erasable.schemas._gathered import Gathered
from erasable.schemas._moments import Date, Time
from erasable.schemas._number import Number
from erasable.schemas._others import Role
from erasable.schemas._placed import Category, YesNo
from erasable.schemas._texts import Text, Vector
from erasable.schemas.schema import MISSING_SPELLINGS, Schema
from erasable.validation import whole_number

_IDENTIFIER = re.compile(r"(?:.*[^A-Za-z])?(?:id|ids|uuid|guid|key|index)|.*[a-z](?:Id|ID|Key|Index)", re.ASCII)
_ANY_CASE = re.compile(r"id|uuid|guid|index|unnamed: 0", re.ASCII | re.IGNORECASE)
_MOST_CATEGORIES = 200
_HASHED, _PLACES = 64, 128
Entry = tuple[str, str, Any]
_CELLS = 5  # steps of a range, at least


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
        """What a file should say at its head."""
        return (
            "Drafted from rows. Kinds, edges, ranges, categories, years and indicators are those that at least\n"
            f"{self.k} subjects share; names of columns and everything else are not from rows. Read it, edit it, and\n"
            "then keep it: a schema is part of every model that is learnt through it."
        )

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
    table : Arrow table, pandas or polars dataframe, or dict of columns
    label, target, id, subject, weight, ignore : names of columns
        What they are. Without subjects every row is one of its own. There may be several columns of them, or one of
        lists: then what is asked of k subjects is asked of each column, and of the first, second, ... of a list.
    k : int, default=20
        Nothing that fewer subjects have goes into the draft.

    Raises
    ------
    InputError, ConfigurationError
        When columns are not there, or nothing can be drafted from so few subjects.

    Notes
    -----
    *Law*: without any m - 1 subjects, and all rows that they are in, the draft has the same entries wherever their
    margin is m or more.

    - A column is a number, a date, a time, or yes or no where fewer than k subjects have cells that are none.
    - Numbers get bins with round edges, with at least k subjects on either side.
    - Texts are categories where half of the subjects or more have a value that k subjects have; those values are
      listed. Otherwise texts of several words are hashed by their words; identifiers are ignored, but for whether they
      are there; and what is left is hashed as a whole.
    - Cells that are missing have an indicator where k subjects have any.
    - Targets get a range from the k-th smallest to the k-th largest subject, rounded outwards to a 1-2-5 step.

    *Cost*: memory for each different cell of a column, once; where subjects are named, one, two or four bytes for each
    cell and four for each row beside that, and some forty for each row while one column is looked at.
    """
    return draft_blocks([table], label=label, target=target, id=id, subject=subject, weight=weight, ignore=ignore, k=k)


def draft_blocks(
    blocks: Iterable[Any],
    *,
    label: str | None = None,
    target: str | Sequence[str] = (),
    id: str | None = None,
    subject: str | Sequence[str] = (),
    weight: str | None = None,
    ignore: Sequence[str] = (),
    k: int = 20,
) -> Draft:
    """The schema that :func:`draft_schema` makes of a table which comes in blocks, one of which is held at a time."""
    k = whole_number(k, "k", 1)
    subjects = (subject,) if isinstance(subject, str) else tuple(subject)
    targets = (target,) if isinstance(target, str) else tuple(target)
    roles = {
        **dict.fromkeys(ignore, "ignore"),
        **dict.fromkeys(subjects, "subject"),
        **dict.fromkeys(targets, "target"),
    }
    once = {"label": label, "id": id, "weight": weight}
    roles |= {name: role for role, name in once.items() if name is not None}
    return draft_gathered(gathered_blocks(blocks, roles), roles, k=k)


def gathered_blocks(
    blocks: Iterable[Any], roles: Mapping[str, str] = MappingProxyType({}), *, everything: bool = False
) -> Gathered:
    """What a draft needs of a table in blocks, given the roles of columns by their names.

    With ``everything``, also of columns that are identifiers by their names, of which a draft needs nothing.

    Raises
    ------
    ConfigurationError, InputError, InputTypeError
        When columns are not there, or hold what cannot be.
    """

    def unread(name: str) -> bool:
        return roles[name] not in ("label", "target") if name in roles else not everything and _is_identifier(name)

    gathered = Gathered([name for name in roles if roles[name] == "subject"], unread, MISSING_SPELLINGS)
    for block in blocks:
        gathered.add(block, needed=roles)
    return gathered.closed()


def draft_gathered(gathered: Gathered, roles: Mapping[str, str] = MappingProxyType({}), *, k: int = 20) -> Draft:
    """The draft of a table that was gathered with these roles."""
    if gathered.n_subjects < 2 * k:
        raise InputError(
            f"a draft needs at least 2 k = {2 * k} subjects; got {gathered.n_subjects}: lower k, or write it by hand."
        )
    drafting = _Drafting(k, gathered)
    for name in gathered.names:
        if name in roles:
            drafting.role(name, roles[name])
        else:
            drafting.column(name)
    margins = {entry: gathered.absent(margin) for entry, margin in drafting.margins.items()}
    return Draft(Schema(tuple(drafting.columns)), margins, k)


@dataclass
class _Drafting:
    k: int
    gathered: Gathered
    columns: list[Column | Role] = field(default_factory=list)
    margins: dict[Entry, float] = field(default_factory=dict)

    def role(self, name: str, role: str) -> None:
        """A column that the caller named, with the classes of a label and the range of a target."""
        found: dict[str, Any] = {}
        if role in ("label", "target") and name in self.gathered and self.gathered.kind(name) in (TEXT, NUMBER):
            facts = self.gathered.facts(name, self.k)
            found = self._classes(name, facts) if role == "label" else self._range(name, facts)
        self.columns.append(Role(name=name, role=role, **found))

    def _classes(self, name: str, facts: Facts) -> dict[str, Any]:
        """All classes, where k subjects have each of them."""
        count = facts.of_each()[facts.there]
        rare = count[count < self.k]
        self.margins[name, "classes", None] = float(rare.max()) if len(rare) else int(count.min()) - self.k + 1
        if len(count) - len(rare) > _MOST_CATEGORIES or len(count) < 2:
            self.margins[name, "classes", None] = 1
        if len(rare) or not 1 < len(count) <= _MOST_CATEGORIES:
            return {}
        return {"classes": tuple(sorted(v for v in facts.values if v is not None))}

    def _range(self, name: str, facts: Facts) -> dict[str, Any]:
        """From the k-th smallest to the k-th largest subject."""
        numbers = facts.numbers()
        if facts.having(~np.isnan(numbers)) < self.k:
            raise InputError(
                f"column {name!r} cannot be a target: fewer than k = {self.k} subjects have a number there. Name "
                "another one, or give it as the label; numbers with decimal commas are read with decimal=."
            )
        found = draft_range(facts, numbers, _CELLS)
        ends, self.margins[name, "range", None] = (None, 1) if found is None else found
        return {"range": ends}

    def column(self, name: str) -> None:
        """A feature, or a column that is better ignored."""
        if name not in self.gathered or _is_identifier(name):
            self.columns.append(Role(name=name, role="ignore"))
            self.margins[name, "kind", None] = NEVER
            return
        facts = self.gathered.facts(name, self.k)
        if facts.kind == VECTOR:
            self._vector(name, facts)
        else:
            self._drafted(name, facts)

    def _vector(self, name: str, facts: Facts) -> None:
        lengths = np.array([v or 0 for v in facts.values], dtype=np.int64)
        having = {n: facts.having(lengths == n) for n in set(lengths.tolist()) - {0}}
        length = max(having, key=lambda n: (having[n], n), default=0)
        odd = facts.having(facts.there & (lengths != length))
        usable = length > 0 and having[length] >= self.k > odd
        self.margins[name, "kind", None] = having[length] - self.k + 1 if usable else 1
        self.columns.append(Vector(name=name, length=length) if usable else Role(name=name, role="ignore"))

    def _drafted(self, name: str, facts: Facts) -> None:
        decisions = Decisions()
        extra: dict[tuple[str, Any], float] = {}
        made = self._kind(name, facts, decisions, extra)
        gone = Decisions()
        indicator = gone.at_least(facts.having(~facts.there), self.k)
        if made is None and indicator and decisions.at_least(facts.having(facts.there), self.k):
            decisions.took(gone.margin)
            made = {"kind": Category, "hashed": 1}  # whether it is there is all that it says
        self.margins[name, "kind", None] = decisions.margin
        if made is None:
            self.columns.append(Role(name=name, role="ignore"))
            return
        kind = made.pop("kind")
        self.columns.append(kind(name=name, indicator=indicator, **made))
        self.margins[name, "indicator", None] = min(gone.margin, decisions.margin)
        for (entry, value), margin in extra.items():
            self.margins[name, entry, value] = min(margin, decisions.margin)

    def _kind(
        self, name: str, facts: Facts, decisions: Decisions, extra: dict[tuple[str, Any], float]
    ) -> dict[str, Any] | None:
        """The kind and its parameters; None where nothing can be made of the column."""
        k = self.k
        if not decisions.at_least(facts.having(facts.there), k):
            return None
        if facts.kind in (TEXT, NUMBER):
            known = YesNo(name=name)
            spelt = np.array(
                [v is not None and spelling(v) in (*known.yes, *known.no) for v in facts.values], dtype=bool
            )
            if self._fits(facts, spelt, decisions):
                return {"kind": YesNo}
            numbers = facts.numbers()
            if self._fits(facts, ~np.isnan(numbers), decisions):
                found = draft_edges(facts, numbers, _CELLS)
                extra.update({("edge", edge): margin for edge, margin in found})
                if not found:
                    decisions.took(1)
                    return None
                decisions.took(max(margin for _, margin in found))  # without any edge it would be no number
                return {"kind": Number, "edges": tuple(edge for edge, _ in found)}
        if facts.kind in (TEXT, MOMENT):
            for order in ORDERS if facts.kind == TEXT else ("ymd",):
                moments = facts.values if facts.kind == MOMENT else [v and moment_of(v, order) for v in facts.values]
                seconds = np.array([np.nan if m is None or m == "" else m for m in moments], dtype=np.float64)
                if self._fits(facts, ~np.isnan(seconds), decisions):
                    return self._date(facts, seconds, order, extra)
        if facts.kind in (TEXT, CLOCK):
            clocks = facts.values if facts.kind == CLOCK else [v and clock_of(v) for v in facts.values]
            if self._fits(facts, np.array([c is not None and c != "" for c in clocks], dtype=bool), decisions):
                return {"kind": Time}
        return self._text(facts, decisions, extra)

    def _fits(self, facts: Facts, fitting: Booleans, decisions: Decisions) -> bool:
        """Whether k subjects have such values, and fewer have others."""
        odd = facts.having(facts.there & ~fitting)
        if odd >= self.k:
            decisions.took(odd - self.k + 1)
            return False
        return decisions.at_least(facts.having(fitting), self.k)

    def _date(self, facts: Facts, seconds: Any, order: str, extra: dict[tuple[str, Any], float]) -> dict[str, Any]:
        low, high = facts.extremes(np.array([np.nan if np.isnan(s) else _year(s) for s in seconds]))
        span = Decisions()
        first = kth(lambda j: int(low[j]), len(low), self.k, span)
        last = kth(lambda j: int(high[j]), len(high), self.k, span)
        clock = Decisions()
        hours = clock.at_least(facts.having(~np.isnan(seconds) & (seconds % DAY != 0)), self.k)
        parts = [*(["year"] if first < last else []), "month", "weekday", *(["hour"] if hours else [])]
        extra["parts", None] = min(clock.margin, span.margin)
        extra["years", None] = span.margin
        years = {"years": (first, last)} if first < last else {}
        return {"kind": Date, "parts": tuple(parts), "order": order, **years}

    def _text(self, facts: Facts, decisions: Decisions, extra: dict[tuple[str, Any], float]) -> dict[str, Any] | None:
        common = covered(facts, decisions)
        if common is not None:
            if many(facts, _MOST_CATEGORIES, decisions):
                return {"kind": Category, "hashed": 4 * _HASHED}
            count = facts.of_each()
            listed = sorted((facts.values[j], int(count[j])) for j in np.flatnonzero(common).tolist())
            extra.update({("value", value): n - self.k + 1 for value, n in listed})
            return {"kind": Category, "values": tuple(value for value, _ in listed)}
        words = np.array([v is not None and len(v.split(" ")) > 1 for v in facts.values], dtype=bool)
        several = facts.pairs(words)
        if decisions.most(several, facts.pairs(facts.there) - several, facts.most_taken):
            return {"kind": Text, "words": (1, 1), "places": _PLACES}
        return None if nearly_all_differ(facts, decisions) else {"kind": Category, "hashed": _HASHED}


def _is_identifier(name: str) -> bool:
    return bool(_IDENTIFIER.fullmatch(name) or _ANY_CASE.fullmatch(name))


def _year(seconds: float) -> int:
    return int(np.datetime64(int(seconds), "s").astype("datetime64[Y]").astype(np.int64)) + 1970
