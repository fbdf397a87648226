"""Heads of a linear model: from core rows and their sums to the weights that are published, and on to probabilities.

``"squared"`` is Algorithm 1's ridge solution, a function of the sums. ``"logistic"`` is a function of the core rows
themselves. Both are rounded in a way that does not depend on how they were solved for. All here is pure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from scipy.linalg import blas

from erasable.core.arrays import Float32s, Float64s, Integers
from erasable.core.logistic import logistic_weights
from erasable.core.names import Label
from erasable.core.weights import solve_weights
from erasable.models.state import classes_of
from erasable.models.weighting import ONE, RowWeights, class_weights_of

if TYPE_CHECKING:
    from erasable.models.linear_configuration import LinearConfiguration

LOSSES = ("squared", "logistic")
Sums = tuple[Float64s, Float64s]  # H, and class sums in the order of the classes; or sums by target


def squared_weights(c: LinearConfiguration, plain: Sums, weighted: Sums | None = None) -> Float32s:
    """Weights from the sums, the weighted ones where there are any; zero where there are no classes yet.

    *Source*: Algorithm 1, lines 7 and 14.
    """
    (H, class_sums), times = (plain, 1) if weighted is None else (weighted, ONE)
    if len(class_sums) == 0:
        return np.zeros((1, c.grid.n_columns), dtype=np.float32)
    return solve_weights(H, *c.system(class_sums), times * c.units)


def logistic_weights_of(
    c: LinearConfiguration, rows: Integers, labels: Sequence[Label], row_weights: RowWeights | None, H: Float64s
) -> Float32s:
    """Weights from the core rows, one class against the rest; zero where there are no rows.

    A row counts as often as its weight times that of its class says: a product that float64 holds exactly. Only time
    depends on ``H``, which leads the first steps.
    """
    assert c.alpha_units is not None
    classes = classes_of(c.classes, labels)
    place = {label: k for k, label in enumerate(classes)}
    codes = np.fromiter((place[label] for label in labels), dtype=np.intp, count=len(labels))
    sixteenths = np.full(len(labels), ONE, dtype=np.int64) if row_weights is None else row_weights.astype(np.int64)
    totals = {label: int(sixteenths[codes == k].sum()) for label, k in place.items()}
    counts = class_weights_of(c.class_weight, classes, totals)[codes] * (sixteenths / ONE)
    positive = np.arange(len(classes)) if len(classes) > 2 else np.array([len(classes) - 1])
    signs = np.where(codes == positive[:, None], 1.0, -1.0)
    return logistic_weights(rows, signs, counts, c.grid, c.alpha_units, gram=H)


def shifts(
    c: LinearConfiguration,
    classes: Sequence[Label],
    totals: Mapping[Label, int],
    W: Float32s,
    plain: Sums,
    weighted: Sums | None = None,
) -> Float64s:
    """What class weights take off each score of the squared loss, where they move the decision and nothing else.

    Parameters
    ----------
    totals : mapping
        The weights of the core rows of each class, added up, in sixteenths.

    Notes
    -----
    *Definition*: of the scores of the core rows, the sums tell the mean ``m_k`` in each class and the variance ``v``
    within classes, pooled. Give class k the mass ``q_k``, in proportion to its weight times the weight of its rows, and
    regress the label, +1 or -1, on the score: the line crosses zero at the shift. With equal masses of two classes that
    is halfway between their means; with the masses that the rows have, about zero. There is none where the positive
    class has no rows, no other class has, or its mean is not above that of the others. In float64, not stored.
    """
    if c.class_weight is None or c.loss != "squared":
        return np.zeros(len(W))
    (H, class_sums), units, one = (plain, c.units, ONE) if weighted is None else (weighted, ONE * c.units, 1)
    n = np.array([totals.get(label, 0) for label in classes]) / one
    masses = n * class_weights_of(c.class_weight, classes, totals)
    present = n > 0
    if np.count_nonzero(present) < 2:
        return np.zeros(len(W))
    V = W.astype(np.float64) * math.ldexp(1.0, -c.grid.bits)
    q = masses / masses.sum()
    means = np.divide(V @ class_sums.T, n, out=np.zeros((len(W), len(n))), where=present)
    square = np.einsum("ij,ji->i", V, blas.dsymm(1.0, H, V.T, lower=1)) - units * np.einsum("ij,ij->i", V, V)
    within = np.maximum(0.0, square - means**2 @ n) / n.sum()
    found = np.zeros(len(W))
    for k, m in enumerate(means):
        positive = k if len(W) > 1 else len(classes) - 1
        share = q[positive]
        centre = float(q @ m)
        slope = 2.0 * share * (m[positive] - centre)  # the covariance of label and score
        if 0.0 < share < 1.0 and slope > 0.0:
            found[k] = centre - (2.0 * share - 1.0) * (within[k] + q @ (m - centre) ** 2) / slope
    return found


def sigmoids(scores: Float64s) -> Float64s:
    """Probabilities of all classes: the sigmoid and its complement, or sigmoids that are made to add up to one."""
    if scores.ndim == 1:
        return np.exp(_log_sigmoid(np.column_stack([-scores, scores])))
    logs = _log_sigmoid(scores)
    P = np.exp(logs - logs.max(axis=1, keepdims=True))
    total: Float64s = P / P.sum(axis=1, keepdims=True)
    return total


def _log_sigmoid(scores: Float64s) -> Float64s:
    found: Float64s = np.minimum(scores, 0.0) - np.log1p(np.exp(-np.abs(scores)))
    return found


def nearest_probabilities(P: Float64s) -> Float64s:
    """Euclidean projection of each row onto the probability simplex."""
    ordered = -np.sort(-P, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, P.shape[1] + 1)
    last = np.count_nonzero(ordered > excess, axis=1) - 1
    projected: Float64s = np.maximum(P - excess[np.arange(len(P)), last][:, None], 0.0)
    projected /= projected.sum(axis=1, keepdims=True)
    return projected
