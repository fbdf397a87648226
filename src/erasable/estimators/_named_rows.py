"""Core rows with their names in working memory: what models that hold few rows in one array share.

Truth: ``rows``, ``ids_``, ``subjects``, ``labels``. Tables made from them: ``place``, ``of_subject``, ``class_counts``.
Arrays are replaced, never left with gaps, and what they replace is overwritten. Should an interrupt hit while a change
is being written, ``moment`` stays None and the memory is not used again.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.layout import Key, Label
from erasable.errors import ChangedMeanwhileError
from erasable.estimators._keys import Column, pick


class NamedRows:
    """Core rows of one model in learning order. Subclasses add what they select by and what they cache."""

    configuration: Any

    def __init__(self, rows: npt.NDArray[Any], ids: list[Key], subjects: list[Key | None], labels: list[Label]) -> None:
        self.rows, self.ids_, self.subjects, self.labels = rows, ids, subjects, labels
        self.moment: object | None = object()  # a fresh token after every change: it counts nothing
        self._make_tables()

    @abstractmethod
    def _drop_caches(self) -> None:
        """Overwrite and drop whatever was derived from the rows."""

    def _keep_of_caches(self, leaving: set[int]) -> dict[str, Any]:
        """Caches that survive the leaving of these rows, by attribute; computed before anything is dropped."""
        return {}

    def _make_tables(self) -> None:
        self.place: dict[Key, int] = {key: i for i, key in enumerate(self.ids_)}
        self.of_subject: dict[Key, list[Key]] = {}
        for key, owner in zip(self.ids_, self.subjects, strict=True):
            if owner is not None:
                self.of_subject.setdefault(owner, []).append(key)
        self.class_counts = Counter(self.labels)
        self.id_type = type(self.ids_[0]) if self.ids_ else None
        self.subject_type = type(next(iter(self.of_subject))) if self.of_subject else None

    @property
    def n_core(self) -> int:
        """Number of core rows."""
        return len(self.ids_)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows."""
        fixed: tuple[Label, ...] | None = self.configuration.classes
        return fixed if fixed is not None else tuple(sorted(self.class_counts))

    def ids(self) -> list[Key]:
        """Ids of the core rows in learning order."""
        return list(self.ids_)

    def _append(
        self,
        rows: npt.NDArray[Any],
        index: npt.NDArray[np.intp],
        labels: npt.NDArray[Any],
        ids: Column | None,
        subjects: Column | None,
        before: object,
    ) -> None:
        """Selected rows, at these positions of what was learnt, join; refused when the model changed meanwhile."""
        keys = index.tolist() if ids is None else pick(ids, index)
        owners: list[Key | None] = [None] * len(index) if subjects is None else pick(subjects, index)
        named: list[Label] = pick(labels, index)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        self._replace(np.concatenate([self.rows, rows]), self.ids_ + keys, self.subjects + owners, self.labels + named)

    def _replace(
        self,
        rows: npt.NDArray[Any],
        ids: list[Key],
        subjects: list[Key | None],
        labels: list[Label],
        caches: dict[str, Any] | None = None,
    ) -> None:
        self.moment = None
        self.rows.fill(0)
        self._drop_caches()
        self.rows, self.ids_, self.subjects, self.labels = rows, ids, subjects, labels
        vars(self).update(caches or {})
        self._make_tables()
        self.moment = object()

    def forget(self, ids: list[Key]) -> int:
        """Rows of these ids leave; the number that were core rows. Algorithm 2, procedure DeletionUpdate."""
        leaving = {self.place[key] for key in ids if key in self.place}  # Algorithm 2, line 2
        if leaving:
            kept = [i for i in range(self.n_core) if i not in leaving]
            self._replace(  # Algorithm 2, line 3
                self.rows[kept],
                [self.ids_[i] for i in kept],
                [self.subjects[i] for i in kept],
                [self.labels[i] for i in kept],
                self._keep_of_caches(leaving),
            )
        return len(leaving)

    def tables_agree(self) -> bool:
        """Whether the tables by id, subject and class name exactly the rows."""
        found = self.place, self.of_subject, self.class_counts
        try:
            self._make_tables()
            return found == (self.place, self.of_subject, self.class_counts)
        finally:
            self.place, self.of_subject, self.class_counts = found

    def erase(self) -> None:
        """Overwrite every array this memory holds."""
        self.rows.fill(0)
        self._drop_caches()
        self.moment = object()
