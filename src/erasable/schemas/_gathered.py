"""What a draft needs of a table that comes in blocks: of each column its different cells, and who has which.

Each different cell is kept once. Where subjects are named, one, two or four bytes for each cell say which one it is;
where they are not, every row is a subject of its own, and how often each cell comes is enough.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Int64s
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas._cells import (
    NUMBER,
    ORDERS,
    TEXT,
    VECTOR,
    Cells,
    canonical_text,
    clock_of,
    moments_in,
    number_of,
    texts_of,
)
from erasable.schemas._containers import Columns
from erasable.schemas._facts import NEVER, Facts, Having
from erasable.validation import did_you_mean

_NOBODY = -1
_LONG_AGO = -(2**60)  # seconds: earlier is no moment


class Gathered:
    """The cells of a table, gathered block by block.

    Parameters
    ----------
    subjects : sequence of str
        Columns that say whose row it is: texts or whole numbers, or lists of them. A row without any is one of its own.
    unread : callable
        From the name of a column to whether nothing need be known of it.
    missing : sequence of str
        Spellings of a missing cell.
    """

    def __init__(self, subjects: Sequence[str], unread: Callable[[str], bool], missing: Sequence[str]) -> None:
        self.names: list[str] = []
        self._unread = unread
        self.n_rows = 0
        self._missing = missing
        self._columns: dict[str, _Column] = {}
        self._subjects: dict[str, int] = {}  # each name with its number
        self._owners: dict[str, list[list[Array]]] = {name: [] for name in subjects}

    def add(self, table: Any, needed: Iterable[str] = ()) -> None:
        """The next block.

        Raises
        ------
        ConfigurationError
            When a column that is needed is not there.
        InputTypeError
            When cells of one column are of different kinds.
        """
        columns = Columns(table)
        absent = [name for name in needed if name not in columns.names]
        if absent:
            one = " It has one column: sep= says what stands between cells of a CSV." if len(columns.names) == 1 else ""
            more = f" and {len(columns.names) - 10} more" * (len(columns.names) > 10)
            raise ConfigurationError(
                f"the table has no column {' and no column '.join(map(repr, absent))}; it has "
                f"{', '.join(map(repr, columns.names[:10]))}{more}.{one} {did_you_mean(absent, columns.names)}".strip()
            )
        if not self.names:
            self.names = columns.names
            read = [n for n in self.names if n not in self._owners and not self._unread(n) and columns.holds_cells(n)]
            self._columns = {name: _Column(name, keeps_rows=bool(self._owners)) for name in read}
        for name, column in self._columns.items():
            column.add(columns[name], self._missing)
        for name, parts in self._owners.items():
            self._add_owners(name, columns, parts)
        self.n_rows += columns.n_rows

    def _add_owners(self, name: str, columns: Columns, parts: list[list[Array]]) -> None:
        lists = columns.lists(name)
        if lists is None:
            cells = columns[name]
            if not cells.kinds <= {TEXT, NUMBER}:
                raise InputError(f"column {name!r} must hold texts or whole numbers to name subjects.")
            codes = np.array([self._number(t) for t in texts_of(cells, ("",))], dtype=np.int32)
            found = [codes if cells.inverse is None else codes[cells.inverse]]
        else:  # who is the first of a row, and the second, whatever order they are listed in
            sets = [sorted({canonical_text(v) for v in row or () if v is not None and v != ""}) for row in lists]
            found = [
                np.array([self._number(row[j]) if j < len(row) else _NOBODY for row in sets], dtype=np.int32)
                for j in range(max(1, *map(len, sets)) if sets else 1)
            ]
        while len(parts) < len(found):
            parts.append([np.full(self.n_rows, _NOBODY, dtype=np.int32)] if self.n_rows else [])
        for j, part in enumerate(parts):
            part.append(found[j] if j < len(found) else np.full(columns.n_rows, _NOBODY, dtype=np.int32))

    def _number(self, name: str | None) -> int:
        return _NOBODY if name is None else self._subjects.setdefault(name, len(self._subjects))

    # -- once all blocks are there -------------------------------------------------------------------------------

    def closed(self) -> Gathered:
        """The same, with blocks put together; nothing is added after that."""
        self.owners = [np.concatenate(part) for parts in self._owners.values() for part in parts]
        self._reach = self._reaches()
        named = [len(np.unique(o[o >= 0])) + int(np.count_nonzero(o < 0)) for o in self.owners]
        self.n_subjects = min(named, default=self.n_rows)
        return self

    def __contains__(self, name: str) -> bool:
        """Whether the cells of a column were looked at, and could be."""
        return name in self._columns

    def kind(self, name: str) -> str:
        """What the cells of a column are."""
        return self._columns[name].kind or TEXT

    def read_as(self, name: str) -> str:
        """What all texts of a column can be read as; empty where it holds no texts, or they are nothing but texts."""
        texts = [value for value in self._columns[name].values if value is not None]
        if self.kind(name) != TEXT or not texts:
            return ""
        numbers = [number_of(text) for text in texts]
        if None not in numbers:
            return "whole numbers" if all(x is not None and x.is_integer() for x in numbers) else "numbers"
        if any(None not in map(moments_in(order), texts) for order in ORDERS):
            return "dates"
        return "times of day" if all(clock_of(text) is not None for text in texts) else ""

    def counts(self, name: str) -> tuple[int, int]:
        """How many different cells a column has, and how many are missing."""
        column = self._columns[name]
        return len(column.values) - (None in column.places), column.n_missing

    def facts(self, name: str, k: int) -> Facts:
        """Who has which cells of a column."""
        column = self._columns[name]
        if not self.owners:
            nobody = np.empty(0, dtype=np.int64)
            return Facts(self.kind(name), column.values, [Having(nobody, nobody, column.counts())], k)
        n, codes = len(column.values), column.codes()
        parts = []
        for owners in self.owners:
            alone = owners < 0
            pairs = np.unique(owners[~alone].astype(np.int64) * n + codes[~alone])
            parts.append(Having(pairs // max(1, n), pairs % max(1, n), np.bincount(codes[alone], minlength=n)))
        return Facts(self.kind(name), column.values, parts, k)

    def _reaches(self) -> Int64s | None:
        """Of how many subjects of any one column, at most, rows go when so many subjects are absent, from one on.

        A row of several people goes with any of them. So one who is absent takes rows of all along who stand beside
        them, in any column.
        """
        if len(self.owners) < 2:
            return None
        n, width = len(self._subjects), len(self._subjects) + self.n_rows
        most = np.zeros(n, dtype=np.int64)
        for owners in self.owners:
            whose = np.where(owners < 0, n + np.arange(self.n_rows), owners)
            beside = [o[o >= 0].astype(np.int64) * width + whose[o >= 0] for o in self.owners]
            most = np.maximum(most, np.bincount(np.unique(np.concatenate(beside)) // width, minlength=n))
        nobody = np.all([o < 0 for o in self.owners], axis=0)
        each = np.concatenate([most, np.ones(int(np.count_nonzero(nobody)), dtype=np.int64)])
        return np.cumsum(np.sort(each)[::-1])

    def absent(self, margin: float) -> float:
        """How many subjects would have to be absent, at least, for rows of so many of one column to go."""
        if self._reach is None or margin == NEVER:
            return margin
        return int(np.searchsorted(self._reach, margin)) + 1


class _Column:
    """The different cells of a column, and for each row, or in all, which of them it has."""

    def __init__(self, name: str, *, keeps_rows: bool) -> None:
        self.name, self.kind = name, ""
        self.places: dict[Hashable, int] = {}
        self._parts: list[Array] | None = [] if keeps_rows else None
        self._counts: Int64s = np.zeros(0, dtype=np.int64)
        self.n_missing = 0

    @property
    def values(self) -> list[Any]:
        """The different cells: canonical texts, seconds, or lengths of vectors; None where there is nothing."""
        return list(self.places)

    def add(self, cells: Cells, missing: Sequence[str]) -> None:
        values, inverse = _different(cells, missing)
        often = np.bincount(inverse, minlength=len(values))
        there = [v for v, n in zip(values, often.tolist(), strict=True) if n and v is not None]
        if there and cells.kind != self.kind:
            if self.kind and {cells.kind, self.kind} != {TEXT, NUMBER}:
                raise InputTypeError(
                    f"column {self.name!r} holds {self.kind} in some rows and {cells.kind} in others: write them alike."
                )
            self.kind = TEXT if self.kind else cells.kind
        place = np.zeros(len(values), dtype=np.int64)
        for j in np.flatnonzero(often).tolist():
            place[j] = self.places.setdefault(values[j], len(self.places))
            self.n_missing += int(often[j]) if values[j] is None else 0
        if self._parts is None:
            self._counts = np.concatenate([self._counts, np.zeros(len(self.places) - len(self._counts), np.int64)])
            np.add.at(self._counts, place[often > 0], often[often > 0])
        else:
            small = next(t for t in (np.uint8, np.uint16, np.uint32) if len(self.places) <= np.iinfo(t).max + 1)
            self._parts.append(place.astype(small)[inverse])

    def counts(self) -> Int64s:
        return self._counts

    def codes(self) -> Int64s:
        return np.concatenate(self._parts or [np.empty(0)]).astype(np.int64)


def _different(cells: Cells, missing: Sequence[str]) -> tuple[list[Any], Array]:
    """The different cells, of which some may come twice, and for each row the place of its own."""
    if cells.kind in (TEXT, NUMBER):
        cells = cells.distinct()
        values: list[Any] = list(texts_of(cells, missing))
        return values, np.arange(len(values)) if cells.inverse is None else cells.inverse
    if cells.kind == VECTOR:
        gone = np.zeros(len(cells), dtype=bool) if cells.missing is None else cells.missing
        lengths = [-1 if v is None or g else len(v) for v, g in zip(cells.values, gone.tolist(), strict=True)]
        kept, inverse = np.unique(np.array(lengths, dtype=np.int64), return_inverse=True)
        return [None if v < 0 else v for v in kept.tolist()], inverse
    kept, inverse = np.unique(cells.values, return_inverse=True)
    return [None if v < _LONG_AGO else v for v in kept.tolist()], inverse
