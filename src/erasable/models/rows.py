"""Core rows of one model with their names, in learning order, and the tables that find them.

Truth: the pages. Tables made from them: ``place``, ``of_subject``, ``class_counts``, ``id_type``, ``subject_type``. A
row that leaves is overwritten and leaves a gap in its page; :meth:`CoreRows.settle` closes the gaps and makes pages and
tables anew, so that they look as if the surviving rows had been the only ones. ``_unsettled`` is a fresh token while a
change has not been settled: it counts nothing.
"""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from erasable.core.arrays import Array
from erasable.core.grid import Grid, sparse_rows
from erasable.core.names import Key, Label, Owners, owners_of
from erasable.core.row_layout import laid_out
from erasable.errors import ChangedMeanwhileError, InputError
from erasable.models.keys import as_keys, same_kind
from erasable.models.sparse_rows import SparseRows
from erasable.models.weighting import ONE

_PAGE = 512  # rows: closing a gap copies a page


@dataclass(eq=False, repr=False)
class Page:
    """A run of core rows. A forgotten row's slot is zeroed and has no label until the page is closed up."""

    rows: Array | SparseRows
    ids: list[Any]
    subjects: list[Any]
    labels: list[Any]
    weights: list[int]  # in sixteenths
    gaps: int = 0

    def close_up(self) -> None:
        """Remove the gaps; the rows move to a fresh array and the old one is overwritten."""
        kept = [i for i, label in enumerate(self.labels) if label is not None]
        old, self.rows = self.rows, self.rows[kept]
        old.fill(0)
        self.ids = [self.ids[i] for i in kept]
        self.subjects = [self.subjects[i] for i in kept]
        self.labels = [self.labels[i] for i in kept]
        self.weights = [self.weights[i] for i in kept]
        self.gaps = 0


@contextmanager
def _collector_at_rest() -> Iterator[None]:
    """A block that makes so many objects that Python would look through all there are for garbage, several times."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class Named(NamedTuple):
    """What a request names: how many ids and subjects, how many of them no row has, and the ids of all rows found."""

    requested: int
    not_stored: int
    found: list[Key]


@dataclass(eq=False, repr=False)
class Outline:
    """What is asked about core rows by who checks others: their names, and no row. When it is sent, only that is."""

    place: Any = ()
    subject_type: type | None = None
    class_counts: dict[Label, int] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.place)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "place": frozenset(self.place)}


class CoreRows:
    """Core rows in pages.

    Parameters
    ----------
    rows : array of shape (n, n_columns), or sparse grid rows
        Becomes this object's own: it is overwritten when rows leave.
    ids, subjects, labels : sequences of length n
    grid : Grid, optional
        Of rows that are held in the layout that the rule names (see ``core.row_layout``); without it, all are dense.
    weights : sequence of length n, optional
        In sixteenths; by default every row has weight one.
    classed : bool, default=True
        Whether labels are classes, whose rows are counted.
    """

    def __init__(
        self,
        rows: Any,
        ids: Sequence[Key] = (),
        subjects: Sequence[Owners] = (),
        labels: Sequence[Any] = (),
        grid: Grid | None = None,
        weights: Sequence[int] | None = None,
        *,
        classed: bool = True,
    ) -> None:
        self._grid: Any = grid
        self._classed = classed
        self._none = rows[:0].copy() if grid is None else np.empty((0, grid.n_columns), dtype=grid.dtype)
        stored = self._held(rows if grid is None else laid_out(rows, grid))
        self._fill(stored, list(ids), list(subjects), list(labels), list(weights or [ONE] * len(ids)))

    def _held(self, rows: Any) -> Any:
        """Rows as a page holds them."""
        return rows if isinstance(rows, np.ndarray) else SparseRows.of(rows, self._grid)

    def _fill(
        self, rows: Array | SparseRows, ids: list[Any], subjects: list[Any], labels: list[Any], weights: list[int]
    ) -> None:
        cuts = [slice(low, low + _PAGE) for low in range(0, len(ids), _PAGE)]
        self.pages = [Page(rows[c], ids[c], subjects[c], labels[c], weights[c]) for c in cuts]
        self._make_tables()

    def _make_tables(self) -> None:
        self.place: dict[Key, tuple[Page, int]] = {}
        self.of_subject: dict[Key, dict[Key, None]] = {}
        self.class_counts: dict[Label, int] = {}
        self.class_totals: dict[Label, int] = {}  # the weights of their rows, added up
        self.uneven = 0  # rows whose weight is not one
        self.id_type: type | None = None  # of the ids and subjects held: the first key of a dictionary is slow to find
        self.subject_type: type | None = None  # after many others before it were deleted
        with _collector_at_rest():
            for page in self.pages:
                self._enter(page)
        self._unsettled: object | None = None

    def __len__(self) -> int:
        return len(self.place)

    # -- changing ------------------------------------------------------------------------------------------------

    def append(
        self,
        batches: Iterable[Any],
        ids: list[Key],
        subjects: list[Owners],
        labels: list[Any],
        weights: list[int] | None = None,
    ) -> None:
        """Rows join, in order, in either layout; the batches become this object's own."""
        self._unsettled, low = object(), 0
        weights = weights or [ONE] * len(ids)
        with _collector_at_rest():
            for batch in batches:
                held = self._held(batch)
                for first in range(0, len(held), _PAGE):
                    rows = held[first : first + _PAGE]
                    cut = slice(low, low + len(rows))
                    page = Page(rows, ids[cut], subjects[cut], labels[cut], weights[cut])
                    self.pages.append(page)
                    self._enter(page)
                    low = cut.stop

    def gather(self, keys: Sequence[Key]) -> tuple[Any, list[Any]]:
        """The rows of these ids and their labels, in that order: dense float64; sparse where all of several are."""
        places = [self.place[key] for key in keys]
        labels = [page.labels[i] for page, i in places]
        parts = [page.rows[i : i + 1] for page, i in places if isinstance(page.rows, SparseRows)]
        if len(parts) == len(places) > 1:
            return SparseRows.joined(parts).csr(self._grid), labels
        found = np.zeros((len(places), self._none.shape[1]))
        for row, (page, i) in zip(found, places, strict=True):
            if isinstance(page.rows, SparseRows):
                page.rows.scatter(i, row)
                row[self._grid.n_features :] = self._grid.constant
            else:
                row[:] = page.rows[i]
        return found, labels

    def weights_of(self, keys: Sequence[Key]) -> list[int]:
        """The weights of the rows of these ids, in sixteenths, in that order."""
        places = (self.place[key] for key in keys)
        return [page.weights[i] for page, i in places]

    def remove(self, keys: Sequence[Key]) -> None:
        """Rows of these ids, all of which are here, leave; their slots are overwritten."""
        self._unsettled = object()
        touched = {}
        for key in keys:
            page, i = self.place.pop(key)
            self._leave(page, i)
            touched[id(page)] = page
        for page in touched.values():
            if 2 * page.gaps > len(page.ids):
                page.close_up()
                self._place_rows(page)
        self.id_type = self.id_type if self.place else None
        self.subject_type = self.subject_type if self.of_subject else None
        if not all(page.ids for page in touched.values()):
            self.pages = [p for p in self.pages if p.ids]

    def settle(self) -> None:
        """Pages and tables as if only the surviving rows had ever been entered.

        Raises
        ------
        ChangedMeanwhileError
            When rows came or left meanwhile: what was made of the others is dropped.
        """
        before = self._unsettled
        if before is None:
            return
        fresh = self.copy()
        if self._unsettled is not before:
            raise ChangedMeanwhileError("the model changed while its state was being read: read it again.")
        old = self.pages
        vars(self).update(vars(fresh))  # in one step: an interrupt tears nothing
        for page in old:
            page.rows.fill(0)

    def erase(self) -> None:
        """Overwrite the rows."""
        for page in self.pages:
            page.rows.fill(0)

    # -- looking -------------------------------------------------------------------------------------------------

    def named(self, ids: Any = None, subjects: Any = None) -> Named:
        """What a request names; refused if no row could have such names."""
        if ids is None and subjects is None:
            raise InputError("forget needs ids= or subjects=.")
        keys = [] if ids is None else as_keys(ids, "ids")
        same_kind(keys, self.id_type, "ids")
        if subjects is None and len(keys) == 1:  # one request after another: the most frequent call
            return Named(1, 0, keys) if keys[0] in self.place else Named(1, 1, [])
        owners = [] if subjects is None else as_keys(subjects, "subjects")
        same_kind(owners, self.subject_type, "subjects")
        theirs = [key for owner in owners for key in self.of_subject.get(owner, ())]
        absent = sum(key not in self.place for key in keys) + sum(owner not in self.of_subject for owner in owners)
        found = [key for key in dict.fromkeys([*keys, *theirs]) if key in self.place]
        return Named(len(keys) + len(owners), absent, found)

    def copy(self) -> CoreRows:
        """The same rows under the same names, in other memory and without gaps."""
        names = self.ids(), self.subjects(), self.labels()
        return CoreRows(self.rows(), *names, self._grid, self.weights(), classed=self._classed)

    def counted(self) -> CoreRows:
        """How many rows there are, of which classes and weights, and none of them."""
        return _Counted(self)

    def rows(self) -> Any:
        """A copy of all rows in learning order; dense where all are held so."""
        kept = [
            [i for i, label in enumerate(p.labels) if label is not None] if p.gaps else slice(None) for p in self.pages
        ]
        parts = [page.rows[index] for page, index in zip(self.pages, kept, strict=True)]
        if not any(isinstance(part, SparseRows) for part in parts):
            return np.concatenate([self._none, *parts])
        sparse = [p if isinstance(p, SparseRows) else self._held(sparse_rows(p, self._grid)) for p in parts]
        return SparseRows.joined(sparse).csr(self._grid)

    def ids(self) -> list[Key]:
        """Ids in learning order."""
        return self._column("ids")

    def subjects(self) -> list[Owners]:
        """Subjects in learning order; None for a row without one, a sorted tuple for a row with several."""
        return self._column("subjects")

    def labels(self) -> list[Any]:
        """Labels in learning order: classes, or targets."""
        return self._column("labels")

    def weights(self) -> list[int]:
        """Weights in learning order, in sixteenths."""
        return self._column("weights")

    def _column(self, name: str) -> list[Any]:
        found: list[Any] = []
        for page in self.pages:
            column = getattr(page, name)
            if page.gaps:
                column = [v for v, label in zip(column, page.labels, strict=True) if label is not None]
            found += column
        return found

    def tables_agree(self) -> bool:
        """Whether the tables by id, subject and class name exactly the rows in the pages.

        To be asked before a snapshot, which makes them anew.
        """
        fresh = CoreRows(self._none, grid=self._grid, classed=self._classed)
        fresh.pages = self.pages
        try:
            fresh._make_tables()
        except (IndexError, ValueError):  # a page with fewer names than rows
            return False
        tables = "place", "of_subject", "class_counts", "class_totals", "uneven"
        return all(getattr(self, name) == getattr(fresh, name) for name in tables)

    # -- tables --------------------------------------------------------------------------------------------------

    def _enter(self, page: Page) -> None:
        """Put a page's rows into the tables by id, subject and class."""
        self._place_rows(page)
        ids, subjects, labels, weights = page.ids, page.subjects, page.labels, page.weights
        if page.gaps:
            kept = [i for i, label in enumerate(labels) if label is not None]
            ids, subjects, labels, weights = ([column[i] for i in kept] for column in (ids, subjects, labels, weights))
        self.id_type = type(ids[0]) if ids else self.id_type
        if subjects.count(None) < len(subjects):
            for key, subject in zip(ids, subjects, strict=True):
                for owner in owners_of(subject):
                    self.of_subject.setdefault(owner, {})[key] = None
                    self.subject_type = type(owner)
        uneven = len(weights) - weights.count(ONE)
        self.uneven += uneven
        if not self._classed:
            return
        for label, count in Counter(labels).items():
            self.class_counts[label] = self.class_counts.get(label, 0) + count
            self.class_totals[label] = self.class_totals.get(label, 0) + count * ONE
        if uneven:
            for label, weight in zip(labels, weights, strict=True):
                self.class_totals[label] += weight - ONE

    def _place_rows(self, page: Page) -> None:
        places = zip(page.ids, zip(repeat(page), range(len(page.ids)), strict=False), strict=True)
        self.place.update(entry for entry in places if entry[0] is not None) if page.gaps else self.place.update(places)

    def _leave(self, page: Page, i: int) -> None:
        """Take one row out of its page and out of the tables by subject and by class."""
        label = page.labels[i]
        for owner in owners_of(page.subjects[i]):
            rest = self.of_subject[owner]
            del rest[page.ids[i]]
            if not rest:
                del self.of_subject[owner]
        self.uneven -= page.weights[i] != ONE
        if self._classed:
            self.class_counts[label] -= 1
            self.class_totals[label] -= page.weights[i]
            if not self.class_counts[label]:
                del self.class_counts[label], self.class_totals[label]
        page.rows[i] = 0
        page.weights[i] = 0
        page.ids[i] = page.subjects[i] = page.labels[i] = None
        page.gaps += 1


class _Counted(CoreRows):
    """As many rows as others, and none of them."""

    def __init__(self, rows: CoreRows) -> None:
        super().__init__(rows._none)
        self._n = len(rows)
        self.class_counts, self.class_totals = dict(rows.class_counts), dict(rows.class_totals)

    def __len__(self) -> int:
        return self._n
