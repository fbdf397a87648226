"""Stores that forget badly, each in its own way: an attack that does not catch the one that it names is worthless.

All of them learn ridge regression in float64 on rows scaled to norm one, with labels -1 and 1, and answer as the
estimators of the house do. Attacks read them as they read any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s

RIDGE = 0.02


def with_constant(X: Any) -> Float64s:
    """Rows of norm one, and a one behind them."""
    X = np.asarray(X, np.float64)
    X = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    return np.column_stack([X, np.ones(len(X))])


class RidgeStore:
    """All rows are kept; forgetting leaves rows out and solves again. Nothing is wrong with it."""

    def fit(self, X: Any, y: Any, ids: Sequence[Any]) -> Self:
        """Learn from nothing."""
        self.rows, self.labels, self.ids = with_constant(X), np.asarray(y, np.float64), list(ids)
        self._solve()
        return self

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Leave these rows out."""
        gone = set(ids)
        left = [i for i, key in enumerate(self.ids) if key not in gone]
        self.rows, self.labels, self.ids = self.rows[left], self.labels[left], [self.ids[i] for i in left]
        self._solve()

    def _solve(self) -> None:
        A = RIDGE * np.eye(self.rows.shape[1]) + self.rows.T @ self.rows
        self.weights: npt.NDArray[Any] = np.linalg.solve(A, self.rows.T @ self.labels)

    def decision_function(self, X: Any) -> Float64s:
        """``w'x`` for each row."""
        scores: Float64s = with_constant(X) @ self.weights
        return scores

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, shape (1, n_features)."""
        coef: Float64s = self.weights[None, :-1]
        return coef

    @property
    def intercept_(self) -> Float64s:
        """The weight of the constant."""
        constant: Float64s = self.weights[-1:]
        return constant


class ForgetsNothing(RidgeStore):
    """Says that it forgot, and does nothing."""

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Do nothing."""


class ForgetsLate(RidgeStore):
    """Carries out a request when the next one comes: a queue that is emptied at night."""

    def fit(self, X: Any, y: Any, ids: Sequence[Any]) -> Self:
        """Learn from nothing, with an empty queue."""
        self.queue: list[Any] = []
        return super().fit(X, y, ids)

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Carry out what was asked before."""
        waiting, self.queue = self.queue, list(ids)
        super().forget(ids=waiting)


class KeepsLog(RidgeStore):
    """Forgets, and keeps the rows that left for the record."""

    def fit(self, X: Any, y: Any, ids: Sequence[Any]) -> Self:
        """Learn from nothing, with an empty log."""
        self.log: list[Float64s] = []
        return super().fit(X, y, ids)

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Leave these rows out, and log them."""
        gone = set(ids)
        self.log += [row.copy() for row, key in zip(self.rows, self.ids, strict=True) if key in gone]
        super().forget(ids=ids)


class LeavesTombstone(RidgeStore):
    """Forgets, and remembers whom, so that they are not learnt again."""

    def fit(self, X: Any, y: Any, ids: Sequence[Any]) -> Self:
        """Learn from nothing, with no tombstones."""
        self.tombstones: set[Any] = set()
        return super().fit(X, y, ids)

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Leave these rows out, and put up a stone for each."""
        super().forget(ids=ids)
        self.tombstones.update(ids)


class SoftDeletes(RidgeStore):
    """Marks rows as deleted; queries leave them out, and the table still holds them."""

    def fit(self, X: Any, y: Any, ids: Sequence[Any]) -> Self:
        """Learn from nothing; no row is marked."""
        self.deleted = np.zeros(len(ids), bool)
        return super().fit(X, y, ids)

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Mark these rows."""
        gone = set(ids)
        self.deleted |= np.array([key in gone for key in self.ids], bool)
        self._solve()

    def _solve(self) -> None:
        Z, s = self.rows[~self.deleted], self.labels[~self.deleted]
        self.weights = np.linalg.solve(RIDGE * np.eye(Z.shape[1]) + Z.T @ Z, Z.T @ s)


class PlainAlgorithm1(RidgeStore):
    """Algorithm 1 as one would write it down: float64 sums, and the inverse by Sherman and Morrison both ways.

    In real arithmetic it forgets exactly. In floating point the sums keep, in their last bits, what left them.
    """

    def __init__(self, threshold: float = 0.06) -> None:
        self.threshold = threshold

    def fit(self, X: Any, y: Any, ids: Sequence[Any]) -> Self:
        """Learn from nothing, row after row."""
        Z, s = with_constant(X), np.asarray(y, np.float64)
        d = Z.shape[1]
        self.sums, self.inverse = RIDGE * np.eye(d), np.eye(d) / RIDGE
        self.moments = np.zeros(d)
        kept = []
        for i, z in enumerate(Z):
            v = self.inverse @ z
            leverage = float(z @ v)
            if leverage > self.threshold:
                self.sums += np.outer(z, z)
                self.moments += s[i] * z
                self.inverse -= np.outer(v, v / (1.0 + leverage))
                kept.append(i)
        self.rows, self.labels, self.ids = Z[kept], s[kept], [ids[i] for i in kept]
        self._solve()
        return self

    def forget(self, *, ids: Sequence[Any]) -> None:
        """Downdate by each row in turn."""
        gone = set(ids)
        at = [i for i, key in enumerate(self.ids) if key in gone]
        for z, s in zip(self.rows[at], self.labels[at], strict=True):
            v = self.inverse @ z
            self.sums -= np.outer(z, z)
            self.moments -= s * z
            self.inverse += np.outer(v, v / (1.0 - float(z @ v)))
        left = [i for i in range(len(self.ids)) if i not in set(at)]
        self.rows, self.labels, self.ids = self.rows[left], self.labels[left], [self.ids[i] for i in left]
        self._solve()

    def _solve(self) -> None:
        self.weights = self.inverse @ self.moments

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the rows that are kept."""
        return np.array(self.ids)
