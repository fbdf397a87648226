"""Stores that forget badly, each in its own way: an attack that does not catch the one it names is worthless.

All of them learn ridge regression in float64 on rows of norm one, with labels -1 and 1, and have the protocol of the
house: ``fit(X, y, ids=...)`` and ``forget(ids=...)``. What they store are their attributes.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from scipy.linalg.blas import dger

from erasable.core.arrays import Booleans, Float64s, Matrix


class RidgeStore:
    """Keeps all rows; forgetting takes rows out and solves again. Nothing is wrong with it."""

    rows: Float64s
    labels: Float64s
    ids: list[Any]
    weights: Float64s
    audit_labels = (-1, 1)

    def __init__(self, ridge: float = 0.02) -> None:
        self.ridge = ridge

    def fit(self, X: Matrix, y: npt.ArrayLike, ids: Sequence[Any] | None = None) -> Self:
        """Learn from nothing."""
        self.rows, self.labels = with_constant(X), np.array(y, np.float64)
        self.ids = list(range(len(self.rows))) if ids is None else list(ids)
        self._begin()
        self._solve()
        return self

    def _begin(self) -> None:
        """Everything stored in addition to the rows, before anything is forgotten."""

    def forget(self, *, ids: Collection[Any]) -> None:
        """Take these rows out."""
        left = ~self._named(ids)
        self.rows, self.labels = self.rows[left], self.labels[left]
        self.ids = [key for key, stays in zip(self.ids, left, strict=True) if stays]
        self._solve()

    def _named(self, ids: Collection[Any]) -> Booleans:
        gone = set(ids)
        return np.array([key in gone for key in self.ids], bool)

    def _solve(self) -> None:
        self.weights = _ridge(self.rows, self.labels, self.ridge)

    def decision_function(self, X: Matrix) -> Float64s:
        """``w'x`` for each row."""
        scores: Float64s = with_constant(X) @ self.weights
        return scores

    def predict(self, X: Matrix) -> Float64s:
        """-1 or 1 for each row."""
        return np.where(self.decision_function(X) > 0.0, 1.0, -1.0)

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, shape (1, n_features)."""
        return self.weights[None, :-1]

    @property
    def intercept_(self) -> Float64s:
        """The weight of the constant, shape (1,)."""
        return self.weights[-1:]


class ForgetsNothing(RidgeStore):
    """Says that it forgot, and does nothing."""

    def forget(self, *, ids: Collection[Any]) -> None:
        """Do nothing."""


class ForgetsLate(RidgeStore):
    """Carries out a request when the next one comes: a queue that is emptied at night."""

    queue: list[Any]

    def _begin(self) -> None:
        self.queue = []

    def forget(self, *, ids: Collection[Any]) -> None:
        """Carry out what was asked before."""
        waiting, self.queue = self.queue, list(ids)
        super().forget(ids=waiting)


class KeepsLog(RidgeStore):
    """Forgets, and keeps the rows that left for the record."""

    log: list[Float64s]

    def _begin(self) -> None:
        self.log = []

    def forget(self, *, ids: Collection[Any]) -> None:
        """Take these rows out, and log them."""
        self.log += list(self.rows[self._named(ids)])
        super().forget(ids=ids)


class LeavesTombstone(RidgeStore):
    """Forgets, and remembers whom, so that they are not learnt again."""

    tombstones: set[Any]

    def _begin(self) -> None:
        self.tombstones = set()

    def forget(self, *, ids: Collection[Any]) -> None:
        """Take these rows out, and put up a stone for each."""
        super().forget(ids=ids)
        self.tombstones.update(ids)


class SoftDeletes(RidgeStore):
    """Marks rows as deleted; queries leave them out, and the table still holds them."""

    deleted: Booleans

    def _begin(self) -> None:
        self.deleted = np.zeros(len(self.rows), bool)

    def forget(self, *, ids: Collection[Any]) -> None:
        """Mark these rows."""
        self.deleted = self.deleted | self._named(ids)
        self._solve()

    def _solve(self) -> None:
        self.weights = _ridge(self.rows[~self.deleted], self.labels[~self.deleted], self.ridge)


class PlainAlgorithm1(RidgeStore):
    """Algorithm 1 as one would write it down: float64 sums, and the inverse by Sherman and Morrison both ways.

    In real arithmetic it forgets exactly. In floating point the last bits of the sums and of the inverse remember what
    left them.
    """

    sums: Float64s
    inverse: Float64s
    moments: Float64s

    def __init__(self, threshold: float = 0.06, ridge: float = 0.02) -> None:
        super().__init__(ridge)
        self.threshold = threshold

    def fit(self, X: Matrix, y: npt.ArrayLike, ids: Sequence[Any] | None = None) -> Self:
        """Learn from nothing, row after row."""
        Z, s = with_constant(X), np.array(y, np.float64)
        d = Z.shape[1]
        self.sums, self.inverse, self.moments = (
            _scaled_eye(d, self.ridge),
            _scaled_eye(d, 1.0 / self.ridge),
            np.zeros(d),
        )
        kept = []
        for i, z in enumerate(Z):
            v = self.inverse @ z
            leverage = float(z @ v)
            if leverage > self.threshold:  # Algorithm 1, line 4
                self.sums = dger(1.0, z, z, a=self.sums, overwrite_a=1)
                self.moments += s[i] * z
                self.inverse = dger(-1.0 / (1.0 + leverage), v, v, a=self.inverse, overwrite_a=1)
                kept.append(i)
        self.rows, self.labels = Z[kept], s[kept]
        self.ids = [i if ids is None else ids[i] for i in kept]
        self._solve()
        return self

    def forget(self, *, ids: Collection[Any]) -> None:
        """Downdate by each row in turn."""
        gone = self._named(ids)
        for z, s in zip(self.rows[gone], self.labels[gone], strict=True):
            v = self.inverse @ z
            self.sums = dger(-1.0, z, z, a=self.sums, overwrite_a=1)
            self.moments -= s * z
            self.inverse = dger(1.0 / (1.0 - float(z @ v)), v, v, a=self.inverse, overwrite_a=1)
        super().forget(ids=ids)

    def _solve(self) -> None:
        self.weights = self.inverse @ self.moments

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the rows that are kept."""
        return np.array(self.ids)


#: What each of them is caught by: ``erasable.audit.definitions.check_exact``, and an attack of its own.
CONTROLS = (ForgetsNothing, ForgetsLate, KeepsLog, LeavesTombstone, SoftDeletes, PlainAlgorithm1)


def with_constant(X: Matrix) -> Float64s:
    """Rows of norm one, and a one behind them."""
    X = np.asarray(X, np.float64)
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), np.finfo(np.float64).tiny)
    return np.column_stack([X, np.ones(len(X))])


def _scaled_eye(d: int, scale: float) -> Float64s:
    return np.asfortranarray(scale * np.eye(d))  # as BLAS wants what it changes in place


def _ridge(Z: Float64s, s: Float64s, ridge: float) -> Float64s:
    return np.asarray(np.linalg.solve(ridge * np.eye(Z.shape[1]) + Z.T @ Z, Z.T @ s), np.float64)
