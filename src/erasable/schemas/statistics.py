"""The statistics of a table that a draft needs: for each column its different cells, and how many subjects have them.

Each different cell is kept once. Where subjects are named, one, two or four bytes per cell say which one it is;
otherwise every row is a subject of its own, and the count of each cell is enough.

An absent subject takes all of its rows along, so counts of subjects can only fall. Every test of a count therefore has
a margin: of how many subjects rows would have to be absent, some or all, for its outcome to change. Margins are never
too large.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas.cells import (
    ORDERS,
    Cells,
    Kind,
    canonical_text,
    canonical_texts,
    date_parser,
    parse_number,
    parse_time,
)
from erasable.schemas.draft_roles import RoleCounts
from erasable.schemas.reading import Columns
from erasable.validation import did_you_mean

NEVER = math.inf
_NOBODY = -1
_LONG_AGO = -(2**60)  # seconds; earlier ones stand for missing dates


class Margin:
    """The smallest margin of several tests."""

    def __init__(self) -> None:
        self.value: float = NEVER

    def lower_to(self, margin: float) -> None:
        """Note the margin of a test."""
        self.value = min(self.value, max(1, margin))

    def at_least(self, count: int, k: int) -> bool:
        """Whether there are so many subjects."""
        if count >= k:
            self.lower_to(count - k + 1)
        return count >= k

    def is_more(self, first: int, second: int, taken: Array) -> bool:
        """Whether the first count exceeds the second, where j absent subjects take up to ``taken[j]`` of either."""
        lead = abs(first - second) if first > second else second - first + 1
        self.lower_to(first_change(lambda j: taken[j] >= lead, len(taken)))
        return first > second

    def kth(self, values: Callable[[int], Any], n: int, k: int) -> Any:
        """The value of the k-th of n subjects; its margin is the distance to a subject with another value."""
        found = values(k - 1)
        self.lower_to(first_change(lambda j: values(k - 1 + j) != found, n - k + 1))
        return found


def first_change(changes: Callable[[int], bool], n: int) -> float:
    """The smallest of 1, ..., n - 1 absent subjects that changes something, where larger numbers change it, too."""
    found = bisect.bisect_left(range(1, max(1, n)), True, key=changes) + 1
    return found if found < n else NEVER


class SubjectValues(NamedTuple):
    """Which subjects have which values of a column, by one column of subjects.

    ``subjects`` and ``places`` have each subject with the position of each of its values, once, in the order of
    subjects; ``alone`` has for each value how many rows have it that are subjects of their own.
    """

    subjects: Int64s
    places: Int64s
    alone: Int64s


class ColumnStatistics:
    """The distinct values of one column, and how many subjects have them.

    With several columns of subjects, a count is the smallest of theirs. An absent subject then takes rows of several
    subjects of a column along, so margins here are numbers of subjects, of any one column, of whom rows are absent.

    Attributes
    ----------
    values : list
        Canonical texts, seconds of dates or times of day, or lengths of vectors; None for missing cells.
    parts : list of SubjectValues
        One for each column of subjects.
    present : array of bool
        Which values are not missing.
    most_taken : array of int
        The most pairs of a subject and a value that none, one, two, ... absent subjects can take along.
    """

    def __init__(self, kind: str, values: list[Any], parts: list[SubjectValues], k: int) -> None:
        self.kind, self.values, self.parts, self.k = kind, values, parts, k
        self.present = np.array([v is not None for v in values], dtype=bool)
        first = parts[0]
        named = np.bincount(first.subjects[self.present[first.places]])
        each = np.concatenate([named, np.ones(int(first.alone[self.present].sum()), dtype=np.int64)])
        self.most_taken = np.concatenate([[0], np.cumsum(np.sort(each)[::-1])])
        self._counts = np.array([p.alone + np.bincount(p.places, minlength=len(p.alone)) for p in parts])

    def count(self, mask: Booleans) -> int:
        """How many subjects have one of these values."""
        named = (np.count_nonzero(np.diff(p.subjects[mask[p.places]], prepend=-1)) for p in self.parts)
        return min(int(p.alone[mask].sum()) + int(n) for p, n in zip(self.parts, named, strict=True))

    def count_each(self) -> Int64s:
        """How many subjects have each value."""
        counts: Int64s = self._counts.min(axis=0)
        return counts

    def pairs(self, mask: Booleans) -> int:
        """How many pairs of a subject of the first column and one of these values there are."""
        return int(self._counts[0][mask].sum())

    def numbers(self) -> Float64s:
        """Values as numbers, NaN for those that are none, or not finite."""
        found = [None if v is None else parse_number(v) for v in self.values]
        return np.array([f if f is not None and math.isfinite(f) else np.nan for f in found], dtype=np.float64)

    def extremes(self, numbers: Float64s) -> tuple[Float64s, Float64s]:
        """The smallest number of each subject that has any, ascending, and the largest, descending.

        With several columns of subjects, position by position those that lie furthest inwards.
        """
        known, lows, highs = ~np.isnan(numbers), list[Float64s](), list[Float64s]()
        for part in self.parts:
            pairs = known[part.places]
            who, x = part.subjects[pairs], numbers[part.places[pairs]]
            low = high = np.repeat(numbers[known], part.alone[known])
            if len(who):
                first = np.flatnonzero(np.diff(who, prepend=-1))
                low = np.concatenate([low, np.minimum.reduceat(x, first)])
                high = np.concatenate([high, np.maximum.reduceat(x, first)])
            lows.append(np.sort(low))
            highs.append(np.sort(high)[::-1])
        n = min(map(len, lows))
        return np.max([low[:n] for low in lows], axis=0), np.min([high[:n] for high in highs], axis=0)

    def common(self, margin: Margin, least: int) -> Booleans | None:
        """The values that so many subjects or more have, if at least half have one of them; else None."""
        count = self.count_each()
        common: Booleans = (count >= least) & self.present
        present, having = self.count(self.present), self.count(common)
        if 2 * having < present or not common.any():
            margin.lower_to(present - 2 * having if having else NEVER)
            return None
        order = np.argsort(count[common], kind="stable")
        sizes = count[common][order]
        lost = np.concatenate([[0], np.cumsum(self._counts.max(axis=0)[common][order])])

        def falls(j: int) -> bool:
            fallen = int(lost[np.searchsorted(sizes, least + j)])  # of values that j absent subjects can make rare
            return 2 * (having - fallen - j) < present

        margin.lower_to(first_change(falls, len(self.most_taken)))
        return common

    def has_more_common_than(self, limit: int, margin: Margin) -> bool:
        """Whether k subjects or more have each of more values than that."""
        count = np.sort(self.count_each()[self.present])[::-1]
        if len(count) <= limit or count[limit] < self.k:
            return False
        margin.lower_to(int(count[limit]) - self.k + 1)
        return True

    def nearly_all_differ(self, margin: Margin) -> bool:
        """Whether two thirds of the pairs of subjects and values have a value of their own, as identifiers do."""
        lead = 3 * int(np.count_nonzero(self.present)) - 2 * self.pairs(self.present)
        taken = self.most_taken
        if lead >= 0:
            margin.lower_to(first_change(lambda j: taken[j] > lead, len(taken)))
        else:  # absent subjects take pairs along whose values others have
            margin.lower_to(first_change(lambda j: 2 * taken[j] >= -lead, len(taken)))
        return lead >= 0


class TableStatistics:
    """The different cells of a table and the subjects that have them, gathered block by block.

    Raises ConfigurationError when a column with a role is missing. Raises InputError or InputTypeError when cells of
    one column have different kinds, or cannot name subjects.

    Parameters
    ----------
    blocks : iterable of tables
    roles : mapping of str to str
        The roles of columns by name. Those of the role "subject" hold texts or whole numbers, or lists of them; a row
        without any is a subject of its own. Of ids and weights, only those that are missing or repeated are counted.
    is_skipped : callable
        From the name of a column without a role to whether it need not be read.
    missing : sequence of str
        Spellings of a missing cell, other than a label: ``none`` may be a class.
    """

    def __init__(
        self,
        blocks: Iterable[Any],
        roles: Mapping[str, str],
        is_skipped: Callable[[str], bool],
        missing: Sequence[str],
    ) -> None:
        self.names: list[str] = []
        self.n_rows = 0
        self._missing = missing
        self._columns: dict[str, _DistinctCells] = {}
        self._numbers: dict[str, int] = {}  # of subjects, by name
        owners: dict[str, list[list[Array]]] = {name: [] for name in roles if roles[name] == "subject"}
        self._roles = RoleCounts(roles, tuple(missing))
        for block in blocks:
            self._add(Columns(block), roles, is_skipped, owners)
        self.owners = [np.concatenate(part) for parts in owners.values() for part in parts]
        self._reach = self._reaches()
        named = [len(np.unique(o[o >= 0])) + int(np.count_nonzero(o < 0)) for o in self.owners]
        self.n_subjects = min(named, default=self.n_rows)

    def _add(
        self,
        columns: Columns,
        roles: Mapping[str, str],
        is_skipped: Callable[[str], bool],
        owners: dict[str, list[list[Array]]],
    ) -> None:
        """Add the next block."""
        absent = [name for name in roles if name not in columns.names]
        if absent:
            one = " It has one column: sep= says what stands between cells of a CSV." if len(columns.names) == 1 else ""
            more = f" and {len(columns.names) - 10} more" * (len(columns.names) > 10)
            raise ConfigurationError(
                f"the table has no column {' and no column '.join(map(repr, absent))}; it has "
                f"{', '.join(map(repr, columns.names[:10]))}{more}.{one} {did_you_mean(absent, columns.names)}".strip()
            )
        if not self.names:
            self.names = columns.names
            read = [n for n in self.names if (roles[n] in ("label", "target") if n in roles else not is_skipped(n))]
            self._columns = {
                n: _DistinctCells(n, keeps_rows=bool(owners)) for n in read if columns.has_readable_type(n)
            }
        self._roles.add(columns)
        for name, column in self._columns.items():
            column.add(columns[name], ("",) if roles.get(name) == "label" else self._missing)
        for name, parts in owners.items():
            self._add_owners(name, columns, parts)
        self.n_rows += columns.n_rows

    def _add_owners(self, name: str, columns: Columns, parts: list[list[Array]]) -> None:
        lists = columns.lists(name)
        if lists is None:
            cells = columns[name]
            if not cells.kinds <= {Kind.TEXT, Kind.NUMBER}:
                raise InputError(f"column {name!r} must hold texts or whole numbers to name subjects.")
            codes = np.array([self._number(t) for t in canonical_texts(cells, ("",))], dtype=np.int32)
            found = [codes if cells.inverse is None else codes[cells.inverse]]
        else:  # the first subject of a row, the second, ... in the order of their names
            sets = [sorted({canonical_text(v) for v in row or () if v is not None and v != ""}) for row in lists]
            found = [
                np.array([self._number(row[j]) if j < len(row) else _NOBODY for row in sets], dtype=np.int32)
                for j in range(max(1, *map(len, sets)) if sets else 1)
            ]
        while len(parts) < len(found):
            parts.append([np.full(self.n_rows, _NOBODY, dtype=np.int32)] if self.n_rows else [])
        for j, part in enumerate(parts):
            part.append(found[j] if j < len(found) else np.full(columns.n_rows, _NOBODY, dtype=np.int32))

    @property
    def refusals(self) -> tuple[str, ...]:
        """What learning would refuse in the table: ids that are missing or repeat, labels that are missing, ..."""
        return self._roles.refusals

    def _number(self, name: str | None) -> int:
        return _NOBODY if name is None else self._numbers.setdefault(name, len(self._numbers))

    def __contains__(self, name: str) -> bool:
        """Whether the cells of a column were read."""
        return name in self._columns

    def kind(self, name: str) -> str:
        """The kind of the cells of a column."""
        return self._columns[name].kind or Kind.TEXT

    def read_as(self, name: str) -> str:
        """What all texts of a column can be read as; empty where it holds no texts, or they are nothing but texts."""
        texts = [str(value) for value in self._columns[name].positions if value is not None]
        if self.kind(name) != Kind.TEXT or not texts:
            return ""
        numbers = [parse_number(text) for text in texts]
        if None not in numbers:
            return "whole numbers" if all(x is not None and x.is_integer() for x in numbers) else "numbers"
        if any(None not in map(date_parser(order), texts) for order in ORDERS):
            return "dates"
        return "times of day" if all(parse_time(text) is not None for text in texts) else ""

    def counts(self, name: str) -> tuple[int, int]:
        """How many different cells a column has, and how many are missing."""
        column = self._columns[name]
        return len(column.positions) - (None in column.positions), column.n_missing

    def column(self, name: str, k: int) -> ColumnStatistics:
        """Which subjects have which cells of a column."""
        column = self._columns[name]
        values, n, parts = list(column.positions), len(column.positions), []
        if not self.owners:
            nobody = np.empty(0, dtype=np.int64)
            parts = [SubjectValues(nobody, nobody, column.row_counts)]
        else:
            codes = np.concatenate(column.codes or [np.empty(0)]).astype(np.int64)
        for owners in self.owners:
            alone = owners < 0
            pairs = np.unique(owners[~alone].astype(np.int64) * n + codes[~alone])
            parts.append(SubjectValues(pairs // max(1, n), pairs % max(1, n), np.bincount(codes[alone], minlength=n)))
        return ColumnStatistics(self.kind(name), values, parts, k)

    def _reaches(self) -> Int64s | None:
        """Of how many subjects of any one column, at most, rows are absent when one, two, ... subjects are.

        A row of several people is absent with any of them. So an absent subject takes rows of all subjects along who
        share a row with it, in any column.
        """
        if len(self.owners) < 2:
            return None
        n, width = len(self._numbers), len(self._numbers) + self.n_rows
        most = np.zeros(n, dtype=np.int64)
        for owners in self.owners:
            whose = np.where(owners < 0, n + np.arange(self.n_rows), owners)
            sharing = [o[o >= 0].astype(np.int64) * width + whose[o >= 0] for o in self.owners]
            most = np.maximum(most, np.bincount(np.unique(np.concatenate(sharing)) // width, minlength=n))
        nobody = np.all([o < 0 for o in self.owners], axis=0)
        each = np.concatenate([most, np.ones(int(np.count_nonzero(nobody)), dtype=np.int64)])
        return np.cumsum(np.sort(each)[::-1])

    def absent_subjects(self, margin: float) -> float:
        """How many subjects would have to be absent, at least, to affect rows of so many subjects of one column."""
        if self._reach is None or margin == NEVER:
            return margin
        return int(np.searchsorted(self._reach, margin)) + 1


class _DistinctCells:
    """The different cells of a column, and which of them each row has, or how many rows have each."""

    def __init__(self, name: str, *, keeps_rows: bool) -> None:
        self.name, self.kind, self.n_missing = name, "", 0
        self.positions: dict[Hashable, int] = {}  # canonical texts, seconds, or lengths of vectors; None if missing
        self.codes: list[Array] | None = [] if keeps_rows else None
        self.row_counts: Int64s = np.zeros(0, dtype=np.int64)

    def add(self, cells: Cells, missing: Sequence[str]) -> None:
        values, inverse = _different(cells, missing)
        often = np.bincount(inverse, minlength=len(values))
        present = [v for v, n in zip(values, often.tolist(), strict=True) if n and v is not None]
        if present and cells.kind != self.kind:
            if self.kind and {cells.kind, self.kind} != {Kind.TEXT, Kind.NUMBER}:
                raise InputTypeError(
                    f"column {self.name!r} holds {self.kind} in some rows and {cells.kind} in others: write them alike."
                )
            self.kind = Kind.TEXT if self.kind else cells.kind
        place = np.zeros(len(values), dtype=np.int64)
        for j in np.flatnonzero(often).tolist():
            place[j] = self.positions.setdefault(values[j], len(self.positions))
            self.n_missing += int(often[j]) if values[j] is None else 0
        if self.codes is None:
            new = np.zeros(len(self.positions) - len(self.row_counts), np.int64)
            self.row_counts = np.concatenate([self.row_counts, new])
            np.add.at(self.row_counts, place[often > 0], often[often > 0])
        else:
            small = next(t for t in (np.uint8, np.uint16, np.uint32) if len(self.positions) <= np.iinfo(t).max + 1)
            self.codes.append(place.astype(small)[inverse])


def _different(cells: Cells, missing: Sequence[str]) -> tuple[list[Any], Array]:
    """The different cells, some perhaps twice, and for each row the position of its own."""
    if cells.kind in (Kind.TEXT, Kind.NUMBER):
        cells = cells.distinct()
        values: list[Any] = list(canonical_texts(cells, missing))
        return values, np.arange(len(values)) if cells.inverse is None else cells.inverse
    if cells.kind == Kind.VECTOR:
        absent = np.zeros(len(cells), dtype=bool) if cells.missing is None else cells.missing
        lengths = [-1 if v is None or a else len(v) for v, a in zip(cells.values, absent.tolist(), strict=True)]
        kept, inverse = np.unique(np.array(lengths, dtype=np.int64), return_inverse=True)
        return [None if v < 0 else v for v in kept.tolist()], inverse
    kept, inverse = np.unique(cells.values, return_inverse=True)
    return [None if v < _LONG_AGO else v for v in kept.tolist()], inverse
