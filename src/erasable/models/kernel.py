"""Algorithm 2 over the ball of a kernel space as a model: core points, their kernel matrix, and weights.

Truth: the core points. Caches: ``_H``, the kernel matrix, of which forgetting keeps what is left, and ``_weights``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float32s, Float64s, Integers
from erasable.core.kernel_selector import StalePoints, kernel_matrix, select_points
from erasable.core.kernels import KERNEL_BITS
from erasable.core.names import Key
from erasable.core.selector import Decisions, Progress
from erasable.models.arrays import in_blocks
from erasable.models.guarantee import BITWISE, Guarantee
from erasable.models.kernel_state import KernelConfiguration, KernelState, kernel_weights
from erasable.models.model import Model
from erasable.models.rows import CoreRows


class KernelModel(Model):
    """Core points, kernel matrix and weights of one kernel model."""

    KIND = "kernel"
    configuration: KernelConfiguration

    def __init__(self, configuration: KernelConfiguration) -> None:
        self.configuration = configuration
        self.core = CoreRows(np.empty((0, configuration.points.n_features), dtype=np.int32))
        self._H: Float64s | None = None
        self._weights: Float32s | None = None
        self.moment = object()

    @classmethod
    def restore(cls, state: KernelState) -> Self:
        """The model that a state is of; the weights are taken over, for ``verify`` to judge."""
        model = cls(state.configuration)
        model.core = CoreRows(state.rows.copy(), state.ids, state.subjects, state.labels)
        model._weights = state.weights.copy()
        return model

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def prepared(self, X: Any) -> Integers:
        """Rows as points of the grid."""
        return self.configuration.points.of_rows(X)

    def screening(self) -> Callable[[Integers], npt.NDArray[np.bool_]]:
        """Points about which the core points say enough already are ruled out."""
        c = self.configuration
        return StalePoints(self.core.rows(), c.kernel, c.points, c.units, c.threshold)

    def select(
        self, rows: Integers, labels: npt.NDArray[Any], keys: Any, progress: Progress | None, **sizes: int | None
    ) -> tuple[npt.NDArray[np.intp], list[npt.NDArray[Any]], Decisions, None]:
        """Algorithm 2, line 7, with the single pass."""
        c = self.configuration
        index, decisions = select_points(
            rows,
            self.core.rows(),
            kernel=c.kernel,
            points=c.points,
            units=c.units,
            tau=c.threshold,
            progress=progress,
            **sizes,
        )
        return index, [rows[index]] if len(index) else [], decisions, None

    def take_out(self, keys: list[Key]) -> int:
        """These core points leave; what is left of the kernel matrix stays at hand."""
        left, H = None, self._H
        if H is not None and keys:
            gone = set(keys)
            left = _without(H, [i for i, key in enumerate(self.core.ids()) if key in gone])
        retrained = super().take_out(keys)
        if left is not None:
            self._H = left
        return retrained

    def drop_caches(self) -> None:
        """Overwrite and drop kernel matrix and weights."""
        for cache in (self._H, self._weights):
            if cache is not None:
                cache.fill(0.0)
        self._H = self._weights = None

    # -- what is derived -----------------------------------------------------------------------------------------

    def weights(self) -> Float32s:
        """Weights of the core points, solved for when first asked."""
        weights = self._weights
        return self.read(self._solved, self._keep)[1] if weights is None else weights

    def _keep(self, solved: tuple[Float64s, Float32s] | None) -> None:
        self._H, self._weights = solved or (None, None)

    def _solved(self) -> tuple[Float64s, Float32s]:
        c, H = self.configuration, self._H
        if H is None:
            H = kernel_matrix(self.core.rows(), c.kernel, c.points, c.units)
        return H, kernel_weights(c, H, tuple(self.core.labels()), self.classes)

    def state(self) -> KernelState:
        """See :class:`Model`."""
        return KernelState(self.configuration, *self.core.names(), self.core.rows(), self.weights().copy())

    @property
    def nbytes(self) -> int:
        """Bytes of numbers held: points, kernel matrix and weights."""
        n, k = len(self.core), len(self.classes)
        return self.core.nbytes + 8 * n**2 + 4 * (k if k > 2 else 1) * n

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return self.configuration.points.n_features

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise."""
        return kernel_guarantee(custom=self.configuration.kernel.name == "custom")

    # -- predicting ----------------------------------------------------------------------------------------------

    def scores(self, X: Any) -> Float64s:
        """``f(x)`` for each row."""
        c = self.configuration
        rows, W = self.read(lambda: (self.core.rows(), self.weights().astype(np.float64)))
        scores = np.empty((X.shape[0], len(W)))
        for block in in_blocks(X, len(rows)):
            K = c.kernel.approximate(rows, c.points.of_rows(X[block]), c.points)
            scores[block] = np.ldexp(K.T @ W.T, -KERNEL_BITS)
        return scores


def kernel_guarantee(*, custom: bool) -> Guarantee:
    """Exact system-aware unlearning, bitwise; a caller's kernel function has to be a function."""
    assumptions = ("the kernel function returns the same value for a pair of rows in every call",)
    return replace(BITWISE, assumptions=assumptions if custom else ())


def _without(H: Float64s, leaving: list[int]) -> Float64s:
    """The matrix without these rows and columns, ascending, copied in whole blocks."""
    cuts = [-1, *leaving, len(H)]
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
