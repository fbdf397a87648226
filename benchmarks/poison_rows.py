"""Poisoned rows: an attacker sends them to push others out of the core set, or to turn the weights.

Rows count as ``ErasableClassifier`` sees them: scaled to norm one, with a constant. The attacker knows the rows that
are learnt, their labels (-1 and 1) and the parameters. For ``benchmarks/poison.py``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.special import expit

from erasable.core.arrays import Float64s, Positions
from erasable.core.names import keyed_hash
from erasable.research.controls import with_constant

_STEEP = 8.0  # how sharply the sender's loss tells right from wrong
Signs = npt.NDArray[np.int64]


def early_ids(first: int, wanted: int, key: int, *, of_each: int = 400) -> npt.NDArray[np.int64]:
    """Whole numbers, none below ``first``, whose turn comes before nearly all others, for who knows the key.

    They are the earliest of ``of_each * wanted``.
    """
    many = np.arange(first, first + of_each * wanted)
    found: npt.NDArray[np.int64] = many[np.argsort(keyed_hash(many, key), kind="stable")[:wanted]]
    return found


def crowding_rows(
    X: Float64s, y: Signs, core: Positions, wanted: int, *, capacity: float, threshold: float
) -> tuple[Float64s, Signs]:
    """Rows that take most leverage from those that are yet to be stored; their labels are against the weights.

    A row z takes ``(x'A^-1 z)^2 / (1 + z'A^-1 z)`` from the leverage of x. Halfway, with half of the core set stored, z
    is the best direction for all x that would still be stored: a generalised eigenvector, of either sign; then the next
    one, with z stored too.
    """
    Z = with_constant(X) / np.sqrt(2.0)
    half = Z[core[: len(core) // 2]]
    inverse = np.linalg.inv(capacity * np.eye(Z.shape[1]) + half.T @ half)
    chosen = np.empty((wanted, X.shape[1]))
    C = np.empty_like(inverse)
    for i in range(wanted):
        if i % max(1, wanted // 20) == 0:
            yet = Z[np.einsum("ij,ij->i", Z @ inverse, Z) > threshold]
            C = yet.T @ yet
        taken = inverse @ C @ inverse
        top = eigh(taken, np.eye(len(C)) + inverse, subset_by_index=[len(C) - 1] * 2)[1][:-1, 0]
        both = with_constant(np.array([top, -top])) / np.sqrt(2.0)
        leverage = np.einsum("ij,jk,ik->i", both, inverse, both)
        z = both[int(np.argmax(np.einsum("ij,jk,ik->i", both, taken, both) / (1.0 + leverage)))]
        v = inverse @ z
        inverse -= np.outer(v, v / (1.0 + v @ z))
        chosen[i] = z[:-1]
    weights = Ridge(X, y, np.arange(len(X)), capacity).after(np.empty((0, Z.shape[1])), np.empty(0)).weights
    return chosen, np.where(with_constant(chosen) @ weights > 0, -1, 1)


class Answer(NamedTuple):
    """Ridge regression with some poison, and the sender's loss: how it changes with the moments, and with each row."""

    weights: Float64s
    loss: float
    toward: Float64s
    slope: Float64s


class Ridge:
    """Ridge regression on some rows, as somebody sees it who adds rows to it.

    The sender's loss is the mean over all rows of ``1 / (1 + exp(8 s w'z))``: nearly the share of wrong answers.
    """

    def __init__(self, X: Float64s, y: Signs, learnt: Positions, capacity: float) -> None:
        self.rows, self.signs = with_constant(X), y.astype(np.float64)
        Z, s = self.rows[learnt], self.signs[learnt]
        self._sums, self._moments = 2.0 * capacity * np.eye(Z.shape[1]) + Z.T @ Z, Z.T @ s

    def after(self, poison: Float64s, signs: Float64s) -> Answer:
        """With poison, whose last column is the constant.

        With ``A w = b``, g the gradient of the loss in w and ``h = A^-1 g``, a change of a row z of label s changes the
        loss by ``(s - z'w) h - (h'z) w``: Jagielski, Oprea, Biggio, Liu, Nita-Rotaru and Li, *Manipulating machine
        learning: poisoning attacks and countermeasures for regression learning*, 2018, for this loss.
        """
        A = self._sums + poison.T @ poison
        w = np.asarray(np.linalg.solve(A, self._moments + poison.T @ signs), np.float64)
        wrong = expit(-_STEEP * self.signs * (self.rows @ w))
        g = -_STEEP * self.rows.T @ (self.signs * wrong * (1.0 - wrong)) / len(self.rows)
        h = np.asarray(np.linalg.solve(A, g), np.float64)
        slope: Float64s = (signs - poison @ w)[:, None] * h - np.outer(poison @ h, w)
        return Answer(w, float(wrong.mean()), h, slope)

    def most_harmful(self, wanted: int) -> Positions:
        """Rows that hurt most if they were sent again with their labels turned, by one step each."""
        clean = self.after(self.rows[:0], self.signs[:0])
        harm = (self.rows @ clean.toward) * (-self.signs - self.rows @ clean.weights)
        found: Positions = np.argsort(-harm, kind="stable")
        return found[:wanted]


def ascending_rows(
    X: Float64s, y: Signs, learnt: Positions, wanted: int, *, capacity: float, steps: int = 40
) -> tuple[Float64s, Signs]:
    """Rows by gradient ascent on the loss of ridge regression on the rows ``learnt`` and them, all at once.

    They start at the most harmful rows with their labels turned, and move on the sphere; a step that does not help is
    taken back and halved.
    """
    ridge = Ridge(X, y, learnt, capacity)
    start = ridge.most_harmful(wanted)
    P, signs, size = ridge.rows[start], -ridge.signs[start], 0.5
    at = ridge.after(P, signs)
    for _ in range(steps):
        slope = at.slope[:, :-1]
        slope = slope / np.maximum(np.linalg.norm(slope, axis=1, keepdims=True), 1e-300)
        tried = with_constant(P[:, :-1] + size * slope)
        found = ridge.after(tried, signs)
        if found.loss > at.loss:
            at, P = found, tried
        else:
            size /= 2.0
    return P[:, :-1], signs.astype(np.int64)
