"""Working memory of a model over a general function class: core rows, tables by name, and a cache of the predictors.

Truth: ``rows``, ``ids_``, ``subjects``, ``labels``. Tables made from them: ``place``, ``of_subject``, ``class_counts``.
Cache: the predictors, dropped on every change. Arrays are replaced, never left with gaps, and what they replace is
overwritten. Should an interrupt hit while a change is being written, ``moment`` stays None and the memory is not used
again.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.classes._protocol import Predictor
from erasable.core.layout import Key, Label
from erasable.core.selector import Decisions, Progress
from erasable.coresets.single_pass import SinglePass
from erasable.errors import ChangedMeanwhileError
from erasable.estimators._general_state import (
    GeneralConfiguration,
    GeneralState,
    general_digest,
    general_to_bytes,
)
from erasable.estimators._keys import Column, pick


class GeneralMemory:
    """Core rows of one model, and predictors fitted when asked for."""

    def __init__(
        self,
        configuration: GeneralConfiguration,
        rows: npt.NDArray[Any],
        ids: list[Key],
        subjects: list[Key | None],
        labels: list[Label],
    ) -> None:
        self.configuration = configuration
        self.rows, self.ids_, self.subjects, self.labels = rows, ids, subjects, labels
        self._predictors: list[Predictor] | None = None
        self.moment: object | None = object()  # a fresh token after every change: it counts nothing
        self._make_tables()

    @classmethod
    def empty(cls, configuration: GeneralConfiguration) -> GeneralMemory:
        """Memory that holds no rows."""
        return cls(configuration, configuration.function_class.empty(configuration.n_features), [], [], [])

    @classmethod
    def restore(cls, state: GeneralState) -> GeneralMemory:
        """Memory holding a state."""
        return cls(state.configuration, state.rows.copy(), list(state.ids), list(state.subjects), list(state.labels))

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
        fixed = self.configuration.classes
        return fixed if fixed is not None else tuple(sorted(self.class_counts))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self.rows.nbytes)

    def learn(
        self,
        X: Any,
        labels: npt.NDArray[Any],
        ids: Column | None,
        subjects: Column | None,
        *,
        progress: Progress | None = None,
        **_: int | None,
    ) -> Decisions:
        """Rows that the sampler selects become core rows, the others leave no trace. Algorithm 2, line 7.

        The decisions reported are not counted: all are zero.
        """
        c, before = self.configuration, self.moment
        if isinstance(c.sampler, SinglePass):
            measure = c.function_class.start(c.n_features)
            measure.add(self.rows)
            index, rows = c.sampler.gather(X, measure, progress)
        else:
            encoded = c.function_class.encode(X if isinstance(X, np.ndarray) else X.toarray())
            index = c.select(encoded, pick(labels, np.arange(len(labels))))
            rows = encoded[index]
            if progress is not None:
                progress(len(encoded), len(encoded))
        keys = index.tolist() if ids is None else pick(ids, index)
        owners: list[Key | None] = [None] * len(index) if subjects is None else pick(subjects, index)
        named: list[Label] = pick(labels, index)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        self._replace(np.concatenate([self.rows, rows]), self.ids_ + keys, self.subjects + owners, self.labels + named)
        rows.fill(0)
        return Decisions()

    def _replace(self, rows: npt.NDArray[Any], ids: list[Key], subjects: list[Key | None], labels: list[Label]) -> None:
        self.moment = None
        self.rows.fill(0)
        self._drop_predictors()
        self.rows, self.ids_, self.subjects, self.labels = rows, ids, subjects, labels
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
            )
        return len(leaving)

    def forget_subjects(self, subjects: list[Key]) -> int:
        """Rows of these subjects leave; the number of core rows among them."""
        return self.forget([key for s in subjects for key in self.of_subject.get(s, ())])

    def predictors(self) -> list[Predictor]:
        """The fit on the core rows: one function for one or two classes, one for each class against the rest otherwise.

        Departure: Algorithm 2, line 4 refits at once; here the fit waits until it is asked for, and is not stored.
        """
        if self._predictors is None:
            positive = self.classes if len(self.classes) > 2 else self.classes[-1:]
            fit = self.configuration.function_class.fit
            self._predictors = [
                fit(self.rows, np.array([int(label == c) for label in self.labels], dtype=np.int64)) for c in positive
            ]
        return self._predictors

    def _drop_predictors(self) -> None:
        for predictor in self._predictors or ():
            if hasattr(predictor, "erase"):
                predictor.erase()
        self._predictors = None

    def snapshot(self) -> GeneralState:
        """The state as a frozen record."""
        return GeneralState(
            self.configuration, tuple(self.ids_), tuple(self.subjects), tuple(self.labels), self.rows.copy()
        )

    def digest(self) -> str:
        """SHA-256 of the state."""
        return general_digest(self.snapshot())

    def to_bytes(self) -> bytes:
        """The canonical bytes of the state."""
        return general_to_bytes(self.snapshot())

    def ids(self) -> list[Key]:
        """Ids of the core rows in learning order."""
        return list(self.ids_)

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
        self._drop_predictors()
        self.moment = object()
