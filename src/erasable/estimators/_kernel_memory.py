"""Working memory of a kernel classifier: core points, their kernel matrix, and a cache of the weights.

Truth: ``rows``, ``ids_``, ``subjects``, ``labels``. Tables made from them: ``place``, ``of_subject``, ``class_counts``.
Caches: ``H``, the kernel matrix of the points, and the weights. Arrays are replaced, never left with gaps, and what
they replace is overwritten. Should an interrupt hit while a change is being written, ``moment`` stays None and the
memory is not used again.
"""

from __future__ import annotations

import itertools
from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Integers
from erasable.core.kernel_selector import kernel_matrix, select_points
from erasable.core.kernel_state import (
    KernelConfiguration,
    KernelState,
    kernel_digest,
    kernel_to_bytes,
    kernel_weights,
)
from erasable.core.layout import Key, Label
from erasable.core.selector import Decisions, Progress
from erasable.core.weights import Float32s
from erasable.errors import ChangedMeanwhileError
from erasable.estimators._keys import Column, pick


class KernelMemory:
    """Core points, kernel matrix and weights of one model."""

    def __init__(
        self,
        configuration: KernelConfiguration,
        rows: Integers,
        ids: list[Key],
        subjects: list[Key | None],
        labels: list[Label],
    ) -> None:
        self.configuration = configuration
        self.rows, self.ids_, self.subjects, self.labels = rows, ids, subjects, labels
        self._H: Float64s | None = None
        self._weights: Float32s | None = None
        self.moment: object | None = object()
        self._make_tables()

    @classmethod
    def empty(cls, configuration: KernelConfiguration) -> KernelMemory:
        """Memory that holds no rows."""
        return cls(configuration, np.empty((0, configuration.points.n_features), dtype=np.int32), [], [], [])

    @classmethod
    def restore(cls, state: KernelState) -> KernelMemory:
        """Memory holding a state as it is; the weights are taken over, for ``verify`` to judge."""
        memory = cls(state.configuration, state.rows.copy(), list(state.ids), list(state.subjects), list(state.labels))
        memory._weights = state.weights.copy()
        return memory

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
        """Bytes of numbers held: points, kernel matrix and weights."""
        k = len(self.classes)
        return int(self.rows.nbytes + 8 * self.n_core**2 + 4 * (k if k > 2 else 1) * self.n_core)

    def learn(
        self,
        rows: Integers,
        labels: npt.NDArray[Any],
        ids: Column | None,
        subjects: Column | None,
        *,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> Decisions:
        """Stream points through the single pass; those kept become core points, the others leave no trace."""
        c, before = self.configuration, self.moment
        index, decisions = select_points(
            rows,
            self.rows,
            kernel=c.kernel,
            points=c.points,
            units=c.units,
            tau=c.threshold,
            progress=progress,
            **sizes,
        )
        keys = index.tolist() if ids is None else pick(ids, index)
        owners: list[Key | None] = [None] * len(index) if subjects is None else pick(subjects, index)
        named: list[Label] = pick(labels, index)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        old = self.rows
        self.moment = None
        self.rows = np.concatenate([old, rows[index]])
        old.fill(0)
        self.ids_, self.subjects, self.labels = self.ids_ + keys, self.subjects + owners, self.labels + named
        self._make_tables()
        self._drop_caches()
        self.moment = object()
        return decisions

    def forget(self, ids: list[Key]) -> int:
        """Rows of these ids leave; the number that were core rows. Algorithm 2, procedure DeletionUpdate."""
        leaving = {self.place[key] for key in ids if key in self.place}
        if not leaving:
            return 0
        kept = [i for i in range(self.n_core) if i not in leaving]
        rows, H = self.rows[kept], None
        if self._H is not None:
            H = _without(self._H, leaving)
        self.moment = None
        self.rows.fill(0)
        self._drop_caches()
        self.rows, self._H = rows, H
        self.ids_ = [self.ids_[i] for i in kept]
        self.subjects = [self.subjects[i] for i in kept]
        self.labels = [self.labels[i] for i in kept]
        self._make_tables()
        self.moment = object()
        return len(leaving)

    def forget_subjects(self, subjects: list[Key]) -> int:
        """Rows of these subjects leave; the number of core rows among them."""
        return self.forget([key for s in subjects for key in self.of_subject.get(s, ())])

    def _drop_caches(self) -> None:
        for cache in (self._H, self._weights):
            if cache is not None:
                cache.fill(0.0)
        self._H = self._weights = None

    def weights(self) -> Float32s:
        """Weights of the core points, solved for when first asked."""
        if self._weights is None:
            c = self.configuration
            if self._H is None:
                self._H = kernel_matrix(self.rows, c.kernel, c.points, c.units)
            self._weights = kernel_weights(c, self._H, tuple(self.labels), self.classes)
        return self._weights

    def snapshot(self) -> KernelState:
        """The state as a frozen record."""
        return KernelState(
            self.configuration,
            tuple(self.ids_),
            tuple(self.subjects),
            tuple(self.labels),
            self.rows.copy(),
            self.weights().copy(),
        )

    def digest(self) -> str:
        """SHA-256 of the state."""
        return kernel_digest(self.snapshot())

    def to_bytes(self) -> bytes:
        """The canonical bytes of the state."""
        return kernel_to_bytes(self.snapshot())

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
        self._drop_caches()
        self.moment = object()


def _without(H: Float64s, leaving: set[int]) -> Float64s:
    """The matrix without these rows and columns, copied in whole blocks."""
    cuts = [-1, *sorted(leaving), len(H)]
    runs = [(a + 1, b) for a, b in itertools.pairwise(cuts) if b > a + 1]
    if len(runs) > 32:
        kept = np.concatenate([np.arange(a, b) for a, b in runs])
        return np.asfortranarray(H[np.ix_(kept, kept)])
    left = np.empty((len(H) - len(leaving),) * 2, order="F")
    column = 0
    for a, b in runs:
        row = 0
        for c, d in runs:
            left[row : row + d - c, column : column + b - a] = H[c:d, a:b]
            row += d - c
        column += b - a
    return left
