"""Working memory of an estimator: the core rows in pages, their exact sums, and a cache of the weights.

Truth: the pages, ``H`` and ``class_sums``. Tables made from the pages: ``place``, ``of_subject``, ``class_counts``.
Caches: ``_weights`` and ``_coefficients``, dropped on every change. Learning works on a copy of ``H`` and swaps it in
at the end, so a refused call changes nothing. Should an interrupt hit while a change is being written, ``moment``
stays None and the memory is not used again. Changes leave gaps in pages, pages of any length and tables in the order
of history; a snapshot *settles* all of it first, so that from then on what is held is a function of the state.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Integers
from erasable.core.layout import Key, Label
from erasable.core.selector import Decisions, Progress, Rows, select
from erasable.core.shards import Files, to_files
from erasable.core.state import (
    Configuration,
    State,
    assemble,
    classes_of,
    digest,
    gram_of,
    stack_sums,
    to_pieces,
    weights_of,
)
from erasable.core.sums import add_rows, empty_gram, sums_by_class
from erasable.core.weights import Float32s
from erasable.errors import ChangedMeanwhileError
from erasable.estimators._keys import Column, pick

_PAGE = 512  # rows: closing a gap copies a page


@dataclass(eq=False, repr=False)
class Page:
    """A run of core rows. A forgotten row's slot is zeroed and has no label until the page is closed up."""

    rows: Integers
    ids: list[Any]
    subjects: list[Any]
    labels: list[Any]
    gaps: int = 0

    def close_up(self) -> None:
        """Remove the gaps; the rows move to a fresh array and the old one is overwritten."""
        kept = [i for i, label in enumerate(self.labels) if label is not None]
        old, self.rows = self.rows, self.rows[kept]
        old.fill(0)
        self.ids = [self.ids[i] for i in kept]
        self.subjects = [self.subjects[i] for i in kept]
        self.labels = [self.labels[i] for i in kept]
        self.gaps = 0


@dataclass(eq=False, repr=False)
class CoreMemory:
    """Core rows, sums and weights of one model."""

    configuration: Configuration
    H: Float64s
    pages: list[Page] = field(default_factory=list)
    place: dict[Key, tuple[Page, int]] = field(default_factory=dict)
    of_subject: dict[Key, dict[Key, None]] = field(default_factory=dict)
    class_sums: dict[Label, Float64s] = field(default_factory=dict)
    class_counts: dict[Label, int] = field(default_factory=dict)
    id_type: type | None = None  # of the ids and subjects held: the first key of a dictionary is slow to find after
    subject_type: type | None = None  # many others before it were deleted
    _weights: Float32s | None = None
    _coefficients: Float64s | None = None
    moment: object | None = field(default_factory=object)  # a fresh token after every change: it counts nothing
    _settled: object | None = None  # the moment at which pages and tables were last made a function of the state

    @classmethod
    def empty(cls, configuration: Configuration) -> CoreMemory:
        """Memory that holds no rows."""
        return cls(configuration, empty_gram(configuration.grid, configuration.units))

    @classmethod
    def restore(cls, state: State) -> CoreMemory:
        """Memory holding a state as it is; sums and weights are taken over, for ``verify`` to judge."""
        pages = _pages(state.rows, list(state.ids), list(state.subjects), list(state.labels))
        memory = cls(state.configuration, gram_of(state), pages)
        memory._make_tables()
        memory.class_sums = {c: s.astype(np.float64) for c, s in zip(state.classes, state.class_sums, strict=True)}
        memory._weights = state.weights.copy()
        return memory

    @property
    def n_core(self) -> int:
        """Number of core rows."""
        return len(self.place)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows."""
        return classes_of(self.configuration, list(self.class_counts))

    @property
    def nbytes(self) -> int:
        """Bytes of numbers held: rows, sums and weights."""
        grid = self.configuration.grid
        rows = self.n_core * grid.n_columns * grid.dtype.itemsize
        k = len(self.classes)
        return rows + self.H.nbytes + k * grid.n_columns * 8 + (k if k > 2 else 1) * grid.n_columns * 4

    def learn(
        self,
        rows: Rows,
        labels: npt.NDArray[Any],
        ids: Column | None,
        subjects: Column | None,
        *,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> Decisions:
        """Stream rows through the selector; those selected become core rows, the others leave no trace."""
        c, before = self.configuration, self.moment
        H = self.H.copy(order="F")
        selection = select(
            rows, H, self.n_core, grid=c.grid, units=c.units, tau=c.threshold, progress=progress, **sizes
        )
        pages, start = [], 0
        for batch in selection.batches:
            index = selection.index[start : start + len(batch)]
            keys = index.tolist() if ids is None else pick(ids, index)
            owners = [None] * len(batch) if subjects is None else pick(subjects, index)
            pages.append(Page(batch, keys, owners, pick(labels, index)))
            start += len(batch)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        self.moment = None
        self.H, self.pages = H, [*self.pages, *pages]
        for page in pages:
            self._enter(page)
            for label, total in sums_by_class(page.rows, page.labels).items():
                self.class_sums[label] = self.class_sums[label] + total if label in self.class_sums else total
        self._changed()
        return selection.decisions

    def _enter(self, page: Page) -> None:
        """Put a page's rows into the tables by id, subject and class."""
        self._place_rows(page)
        self.id_type = type(page.ids[0]) if page.ids else self.id_type
        self._count_rows(page)

    def _place_rows(self, page: Page) -> None:
        self.place.update(zip(page.ids, zip(repeat(page), range(len(page.ids)), strict=False), strict=True))
        self.place.pop(None, None)  # type: ignore[call-overload]  # the gaps

    def _count_rows(self, page: Page) -> None:
        if page.subjects.count(None) < len(page.subjects):
            for key, subject in zip(page.ids, page.subjects, strict=True):
                if subject is not None:
                    self.of_subject.setdefault(subject, {})[key] = None
                    self.subject_type = type(subject)
        for label, count in Counter(label for label in page.labels if label is not None).items():
            self.class_counts[label] = self.class_counts.get(label, 0) + count

    def _make_tables(self) -> None:
        """The tables anew: they then look as if only the surviving rows had ever been entered."""
        self.place, self.of_subject, self.class_counts = {}, {}, {}
        self.id_type = self.subject_type = None
        for page in self.pages:
            self._enter(page)

    def forget(self, ids: list[Key]) -> int:
        """Rows of these ids leave; the number that were core rows. Algorithm 1, procedure DeletionUpdate."""
        place = self.place
        found = {key: place[key] for key in ids if key in place}
        if found:
            self._remove(found)
        return len(found)

    def _remove(self, found: dict[Key, tuple[Page, int]]) -> None:
        rows = np.empty((len(found), len(self.H)))
        for k, (page, i) in enumerate(found.values()):
            rows[k] = page.rows[i]
        self.moment = None
        add_rows(self.H, rows, -1.0)  # Algorithm 1, line 14
        touched = {}
        for row, (key, (page, i)) in zip(rows, found.items(), strict=True):
            self._remove_names(page, i, row)
            del self.place[key]
            touched[id(page)] = page
        rows.fill(0.0)
        for page in touched.values():
            if 2 * page.gaps > len(page.ids):
                page.close_up()
                self._place_rows(page)
        self.id_type = self.id_type if self.place else None
        self.subject_type = self.subject_type if self.of_subject else None
        if not all(page.ids for page in touched.values()):
            self.pages = [p for p in self.pages if p.ids]
        self._changed()

    def _remove_names(self, page: Page, i: int, row: Float64s) -> None:
        """Take one row out of its page and out of the tables by subject and by class."""
        label, subject = page.labels[i], page.subjects[i]
        if subject is not None:
            rest = self.of_subject[subject]
            del rest[page.ids[i]]
            if not rest:
                del self.of_subject[subject]
        total = self.class_sums[label]
        total -= row
        self.class_counts[label] -= 1
        if not self.class_counts[label]:
            del self.class_sums[label], self.class_counts[label]
        page.rows[i] = 0
        page.ids[i] = page.subjects[i] = page.labels[i] = None
        page.gaps += 1

    def _changed(self) -> None:
        for cache in (self._weights, self._coefficients):
            if cache is not None:
                cache.fill(0.0)
        self._weights, self._coefficients, self.moment = None, None, object()

    def stacked_class_sums(self) -> Float64s:
        """Class sums in the order of the classes, shape (n_classes, n_columns)."""
        return stack_sums(self.classes, self.class_sums, self.configuration.grid)

    def weights(self) -> Float32s:
        """Weights of the current sums, solved for when first asked."""
        if self._weights is None:
            self._weights = weights_of(self.configuration, self.H, self.stacked_class_sums())
        return self._weights

    def coefficients(self) -> Float64s:
        """Weights of the features for rows of norm one, shape (n_functions, n_features); a copy for the caller."""
        if self._coefficients is None:
            grid = self.configuration.grid
            # 24 and 15 bits: exact
            self._coefficients = self.weights()[:, : grid.n_features].astype(np.float64) * grid.stretch
        return self._coefficients.copy()

    def snapshot(self) -> State:
        """The state as a frozen record; the memory is settled first."""
        self._settle()
        rows, ids, subjects, labels = self._in_one()
        return assemble(
            self.configuration,
            tuple(ids),
            tuple(subjects),
            tuple(labels),
            rows,
            self.H,
            self.stacked_class_sums(),
            self.weights().copy(),
        )

    def _settle(self) -> None:
        """Full pages without gaps, and tables in which only the rows left have ever been."""
        moment = self.moment
        if self._settled is moment:
            return
        fresh = CoreMemory(self.configuration, self.H, _pages(*self._in_one()))
        fresh._make_tables()
        order = {label: i for i, label in enumerate(fresh.class_counts)}
        sums = sorted(self.class_sums.items(), key=lambda entry: order.get(entry[0], len(order)))
        made = {name: getattr(fresh, name) for name in ("pages", "place", "of_subject", "class_counts")}
        if self.moment is not moment:
            raise ChangedMeanwhileError("the model changed while its state was being read: read it again.")
        old = self.pages
        vars(self).update(made, class_sums=dict(sums), _settled=moment)  # in one step: an interrupt tears nothing
        for page in old:
            page.rows.fill(0)

    def _in_one(self) -> tuple[Integers, list[Key], list[Key | None], list[Label]]:
        """Copies of all rows, and their ids, subjects and labels."""
        grid = self.configuration.grid
        kept = [[i for i, v in enumerate(p.labels) if v is not None] if p.gaps else slice(None) for p in self.pages]
        rows = [p.rows[k] for p, k in zip(self.pages, kept, strict=True)]
        ids = [key for p in self.pages for key in p.ids if key is not None]
        subjects = [owner for p in self.pages for owner, key in zip(p.subjects, p.ids, strict=False) if key is not None]
        labels = [label for p in self.pages for label in p.labels if label is not None]
        return np.concatenate(rows or [np.empty((0, grid.n_columns), dtype=grid.dtype)]), ids, subjects, labels

    def digest(self) -> str:
        """SHA-256 of the state."""
        return digest(self.snapshot())

    def to_bytes(self) -> bytes:
        """The canonical bytes of the state."""
        return b"".join(to_pieces(self.snapshot()))

    def to_files(self) -> Files:
        """The canonical bytes as they are to be written."""
        return to_files(self.snapshot())

    def ids(self) -> list[Key]:
        """Ids of the core rows in learning order."""
        return [key for p in self.pages for key, label in zip(p.ids, p.labels, strict=True) if label is not None]

    def tables_agree(self) -> bool:
        """Whether the tables by id, subject and class name exactly the rows in the pages.

        To be asked before a snapshot, which makes them anew.
        """
        fresh = CoreMemory(self.configuration, self.H, self.pages)
        try:
            fresh._make_tables()
        except ValueError:  # a page with fewer names than rows
            return False
        tables = ("place", "of_subject", "class_counts")
        return all(getattr(self, name) == getattr(fresh, name) for name in tables)

    def erase(self) -> None:
        """Overwrite every array this memory holds."""
        self.H.fill(0.0)
        for page in self.pages:
            page.rows.fill(0)
        for total in self.class_sums.values():
            total.fill(0.0)
        self._changed()


def _pages(rows: Integers, ids: list[Key], subjects: list[Key | None], labels: list[Label]) -> list[Page]:
    """Copies of rows in full pages; the last one holds what is left over."""
    cuts = [slice(low, low + _PAGE) for low in range(0, len(ids), _PAGE)]
    return [Page(rows[c].copy(), ids[c], subjects[c], labels[c]) for c in cuts]
