"""Working memory of a kernel classifier: named points, their kernel matrix, and a cache of the weights."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Float64s, Integers
from erasable.core.kernel_selector import kernel_matrix, select_points
from erasable.core.kernel_state import (
    KernelConfiguration,
    KernelState,
    kernel_digest,
    kernel_to_pieces,
    kernel_weights,
)
from erasable.core.layout import Key, Label
from erasable.core.selector import Decisions, Progress
from erasable.core.shards import Files
from erasable.core.weights import Float32s
from erasable.estimators._keys import Column
from erasable.estimators._named_rows import NamedRows


class KernelMemory(NamedRows):
    """Core points, kernel matrix and weights of one model."""

    configuration: KernelConfiguration

    def __init__(
        self,
        configuration: KernelConfiguration,
        rows: Integers,
        ids: list[Key],
        subjects: list[Key | None],
        labels: list[Label],
    ) -> None:
        self.configuration = configuration
        self._H: Float64s | None = None  # the kernel matrix of the points
        self._weights: Float32s | None = None
        super().__init__(rows, ids, subjects, labels)

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
        self._append(rows[index], index, labels, ids, subjects, before)
        return decisions

    def _keep_of_caches(self, leaving: set[int]) -> dict[str, Any]:
        return {} if self._H is None else {"_H": _without(self._H, leaving)}

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
        return b"".join(kernel_to_pieces(self.snapshot()))

    def to_files(self) -> Files:
        """The canonical bytes as they are to be written."""
        return Files(kernel_to_pieces(self.snapshot()))


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
