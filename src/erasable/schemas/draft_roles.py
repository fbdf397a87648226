"""Rows of a table that learning would refuse: counted while a schema is drafted, over the whole table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Int64s
from erasable.schemas.cells import Cells, Kind, canonical_texts, missing_texts, read_numbers
from erasable.schemas.encode import for_each_row
from erasable.schemas.reading import Columns


class RoleCounts:
    """Counts of missing ids, labels, targets, weights and subjects, and of repeated ids. They hold no cell.

    Parameters
    ----------
    roles : mapping of str to str
        The roles of columns by name.
    missing : sequence of str
        Spellings of a missing number. A label may have any spelling, such as ``none``; only an empty one is missing.

    Notes
    -----
    *Cost*: eight bytes for each row, if ids are named.
    """

    def __init__(self, roles: Mapping[str, str], missing: tuple[str, ...]) -> None:
        self._by_role: dict[str, list[str]] = {}
        for name, role in roles.items():
            self._by_role.setdefault(role, []).append(name)
        self._missing = missing_texts(missing)
        self._rows = 0
        self._counts: dict[tuple[str, str], int] = {}
        self._hashes: list[Int64s] = []  # of ids

    def add(self, columns: Columns) -> None:
        """Count the rows of the next block."""
        self._rows += columns.n_rows
        for role in ("id", "label"):
            for name in filter(columns.has_readable_type, self._by_role.get(role, ())):
                cells = columns[name]
                self._note(role, name, _absent(cells))
                if role == "id":
                    self._hashes.append(_hashes(cells))
        for role in ("target", "weight"):
            for name in filter(columns.has_readable_type, self._by_role.get(role, ())):
                cells = columns[name]
                if cells.kind in (Kind.TEXT, Kind.NUMBER):
                    numbers = for_each_row(read_numbers(cells, self._missing)[0], cells.inverse)
                    self._note(role, name, ~np.isfinite(numbers))
        subjects = self._by_role.get("subject", [])
        if subjects:
            nobody = [_named_nobody(columns, name) for name in subjects]
            self._note("subject", " and ".join(map(repr, subjects)), np.all(nobody, axis=0))

    def _note(self, role: str, name: str, rows: Booleans) -> None:
        self._counts[role, name] = self._counts.get((role, name), 0) + int(np.count_nonzero(rows))

    @property
    def refusals(self) -> tuple[str, ...]:
        """What learning would refuse, one line for each reason; no line quotes a cell."""
        lacking = {
            "id": "have no id in {}: give every row an id",
            "label": "have no label in {}: leave them out",
            "target": "have no number as a target in {}: leave them out",
            "weight": "have no number as a weight in {}: fill it in, or leave them out",
            "subject": "have no subject in {}: leave them out, or learn them with allow_no_subject=",
        }
        found = []
        for (role, name), count in self._counts.items():
            if count:
                shown = name if role == "subject" else repr(name)
                found.append(f"{count:,} of {self._rows:,} rows {lacking[role].format(shown)}.")
        repeated = self._repeated()
        if repeated:
            found.append(f"{repeated:,} of {self._rows:,} rows have the id of an earlier row: give every row its own.")
        return tuple(found)

    def _repeated(self) -> int:
        if not self._hashes:
            return 0
        hashes = np.concatenate(self._hashes)
        return len(hashes) - len(np.unique(hashes))


def _values(cells: Cells) -> list[Any]:
    """The different cells as they are compared; None where one is missing."""
    if cells.kind == Kind.TEXT:
        return [text or None for text in cells.values]
    if cells.kind == Kind.VECTOR:
        return [None if v is None else 0 for v in cells.values]
    return list(canonical_texts(cells, ("",)))


def _absent(cells: Cells) -> Booleans:
    """Which rows have no cell."""
    absent: Booleans = for_each_row(np.array([v is None for v in _values(cells)], dtype=bool), cells.inverse)
    return absent


def _hashes(cells: Cells) -> Int64s:
    """The hash of each row's cell, of those that have one; an integer is its own hash."""
    if cells.kind == Kind.NUMBER and cells.missing is None and cells.values.dtype.kind in "iu":
        numbers: Int64s = for_each_row(cells.values.astype(np.int64), cells.inverse)
        return numbers
    values = _values(cells)
    hashes = np.fromiter((hash(v) for v in values), dtype=np.int64, count=len(values))
    found: Int64s = for_each_row(hashes, cells.inverse)[~_absent(cells)]
    return found


def _named_nobody(columns: Columns, name: str) -> Booleans:
    """Which rows have no subject in a column, of single subjects or of lists of them."""
    lists = columns.lists(name)
    if lists is None:
        return _absent(columns[name])
    return np.array([all(v is None or v == "" for v in row or ()) for row in lists], dtype=bool)
