"""What the stored rows, and the absence of others, reveal about a row that was removed.

Rows are decided in the order of a keyed hash, and key and threshold stand in the state. A known row that is not stored,
although the stored rows before it would have let it in, was kept out by a row that was removed since. A candidate that
explains such absences was present; one that would have kept a stored row out was not. About a candidate that would not
have been kept itself, nothing is revealed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.classes import LinearBall
from erasable.core.arrays import Float64s
from erasable.core.grid import Grid, to_grid
from erasable.core.names import keyed_hash
from erasable.core.sums import capacity_of
from erasable.models.selections import Leverage
from erasable.research.attacks.reading import Contents

_BLOCK = 32  # rows that share one product with the inverse
_SLACK = 1e-7  # of the threshold: rows are those of the grid, inverses are kept up to date in float64


def would_be_kept(
    model: Any, X: Float64s, names: npt.NDArray[Any], stored: npt.NDArray[np.intp], candidates: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp] | None:
    """The candidates that would be stored in addition to these rows; the state reveals nothing about the others.

    None where rows are not decided by leverage in hashed order.
    """
    way = _SelectionRule.of(model)
    if way is None:
        return None
    rows, order = way.in_order(X, names, np.append(stored, candidates))
    leverage, _ = _leverages(rows[order], order < len(stored), rows[:0], way.units)
    kept = order[(order >= len(stored)) & (leverage > way.threshold)] - len(stored)
    return candidates[np.sort(kept)]


def absences_explained(
    model: Any,
    X: Float64s,
    names: npt.NDArray[Any],
    stored: npt.NDArray[np.intp],
    known: Sequence[npt.NDArray[np.intp]],
    candidates: Sequence[int],
) -> list[list[float]] | None:
    """For each candidate, how many known absent rows its presence explains; -1 where a stored row rules it out.

    Parameters
    ----------
    model : estimator
        After forgetting; only its configuration is read.
    X, names
        All rows, and their ids.
    stored, candidates : positions
        Of the rows that are stored, and of those asked about.
    known : sequence of positions
        Of rows that an attacker knows were offered and are not stored: one entry for each attacker.

    Returns
    -------
    list of lists of float, or None
        For each attacker, one number for each candidate. None where rows are not decided by leverage in hashed order.

    Notes
    -----
    A candidate c that joins takes ``(x'A^-1 c)^2 / (1 + c'A^-1 c)`` from the leverage of every row x after it.

    *Cost*: one walk over all of these rows, d^2 each.
    """
    way = _SelectionRule.of(model)
    if way is None:
        return None
    n, absent = len(stored), np.unique(np.concatenate([np.empty(0, np.intp), *known]))
    at = np.concatenate([stored, absent, np.asarray(candidates, np.intp)])
    rows, order = way.in_order(X, names, at)
    turn = np.empty(len(at), np.intp)
    turn[order] = np.arange(len(at))
    leverage, taken = (
        a[turn] for a in _leverages(rows[order], order < n, rows[len(at) - len(candidates) :], way.units)
    )
    most, least = way.threshold * (1.0 + _SLACK), way.threshold * (1.0 - _SLACK)
    own = np.arange(len(candidates)) + len(at) - len(candidates)
    joins = (turn[:, None] > turn[own]) & (leverage[own] > way.threshold)  # one that is not kept changes nothing
    with_it = leverage[:, None] - np.where(joins, taken, 0.0)
    ruled_out = (joins & (with_it < least))[:n].any(axis=0)
    explains = ((leverage[:, None] > most) & (with_it <= most))[n : n + len(absent)]
    counts = [explains[np.isin(absent, each)].sum(axis=0) for each in known]
    return [np.where(ruled_out, -1.0, count).tolist() for count in counts]


def _leverages(
    rows: Float64s, joins: npt.NDArray[np.bool_], asked: Float64s, units: float
) -> tuple[Float64s, Float64s]:
    """The leverage of each row against those before it that join, and what each row asked about would take from it.

    Blocks of rows share one product with the inverse; within a block, a row that joins is taken out of the small matrix
    of what is left.
    """
    n, k, d = len(rows), len(asked), rows.shape[1]
    inverse = np.eye(d) / units
    leverage, taken = np.empty(n), np.empty((n, k))
    for low in range(0, n, _BLOCK):
        block = np.vstack([rows[low : low + _BLOCK], asked])
        solved = block @ inverse
        G = solved @ block.T
        size = len(block) - k
        for i in range(size):
            leverage[low + i] = G[i, i]
            taken[low + i] = G[i, size:] ** 2 / (1.0 + np.diagonal(G)[size:])
            if joins[low + i]:
                G -= np.outer(G[i], G[i] / (1.0 + G[i, i]))
        inside = np.flatnonzero(joins[low : low + _BLOCK])
        V = solved[inside]
        inverse -= V.T @ np.linalg.solve(np.eye(len(inside)) + V @ block[inside].T, V)
    return leverage, taken


@dataclass(frozen=True)
class _SelectionRule:
    """How a model selects, as its state says."""

    key: int
    grid: Grid
    threshold: float
    units: float  # the regulariser

    @classmethod
    def of(cls, model: Any) -> _SelectionRule | None:
        held = getattr(model, "_model", None)
        selection = None if held is None else held.configuration.selection
        if held is None or held.order_key is None or not isinstance(selection, Leverage):
            return None
        if not 0.0 < selection.threshold < math.inf:
            return None
        return cls(held.order_key, selection.grid, selection.threshold, float(selection.units))

    def in_order(
        self, X: Float64s, names: npt.NDArray[Any], at: npt.NDArray[np.intp]
    ) -> tuple[Float64s, npt.NDArray[np.intp]]:
        """Rows on the grid, and the order in which they are decided."""
        hashes = keyed_hash(names[at].tolist(), self.key)
        return to_grid(X[at], self.grid).astype(np.float64), np.argsort(hashes, kind="stable")


_RIDGE = 0.02  # of methods that have no capacity: small compared with the sums, so it hardly matters
_PLACES = 4  # in the order of rows, that are tried for the one that left


def best_of_what_vanished(before: Contents, after: Contents, x: Float64s) -> float:
    """The best cosine of a row with anything that stood in the first state and does not stand in the second.

    1 where rows are stored: the row itself is what vanished. Everything of its width counts, sums and weights too.
    """
    best = 0.0
    left = {row.tobytes() for rows in after.rows_as_wide_as(len(x)) for row in rows}
    unit = x / max(float(np.linalg.norm(x)), 1e-300)
    for rows in before.rows_as_wide_as(len(x)):
        gone = np.array([row.tobytes() not in left for row in rows], bool)
        V = rows[gone]
        length = np.linalg.norm(V, axis=1)
        if (length > 0).any():
            best = max(best, float((np.abs(V @ unit)[length > 0] / length[length > 0]).max()))
    if before.holds_row(x) and not after.holds_row(x):  # as bytes, in a checkpoint
        best = max(best, 1.0)
    return min(best, 1.0)


def weights_of(estimator: Any) -> Float64s:
    """The weights of the one function that two classes need, as far as they can be read or asked for.

    Weights of features and constant; of kernel models those of the core rows; of SISA one row for each voter. A linear
    function that shows no weights is asked at the unit vectors.
    """
    if hasattr(estimator, "_shards"):
        voters = [shard.voter for shard in estimator._shards]
        nothing = np.zeros(estimator.n_features_in_ + 1)
        return np.array([weights_of(voter) if hasattr(voter, "coef_") else nothing for voter in voters])
    if hasattr(estimator, "dual_coef_"):
        return np.asarray(estimator.dual_coef_[0], np.float64)
    if not hasattr(estimator, "coef_"):
        return np.asarray(estimator.decision_function(np.eye(estimator.n_features_in_)), np.float64)
    coef = np.atleast_2d(estimator.coef_)[0]
    return np.append(coef, np.atleast_1d(estimator.intercept_)[0]).astype(np.float64)


def row_from_weights(before: Float64s, model: Any, rows: Float64s, inversion: str) -> Float64s:
    """The row, up to a factor and perhaps with its constant, from the weights before and the state after.

    Parameters
    ----------
    before : array
        ``weights_of`` the model that still had the row.
    model : estimator
        After forgetting.
    rows : array
        Those that are left.
    inversion : {"squared", "logistic", "kernel", "voters"}
        - ``"squared"``, ``"logistic"``: curvature over the rows that are left, times the step of the weights. For the
          squared loss ``A w0 = b`` and ``(A + zz') w1 = b + s z``, so ``A (w1 - w0) = (s - z'w1) z``. For the logistic
          loss it holds in the first order.
        - ``"kernel"``: rows of ``(H + mu I) a = s`` with the row in it give its kernel values with all that are left,
          and those of a Gaussian kernel give its place.
        - ``"voters"``: the step of those voters that changed, as it is: of one pass of stochastic gradients no more is
          known in closed form.
    """
    if inversion == "kernel":
        return _from_kernel_weights(before, model)
    after = weights_of(model)
    step = before - after
    if inversion == "voters":
        changed: Float64s = step[np.argmax(np.linalg.norm(step, axis=1))]
        return changed
    constant = len(after) > rows.shape[1] and getattr(model, "fit_intercept", True)
    Z = np.column_stack([rows, np.ones(len(rows))])[:, : rows.shape[1] + constant]
    after, step = after[: Z.shape[1]], step[: Z.shape[1]]
    of = (model.function_class or LinearBall()) if hasattr(model, "function_class") else model
    # A capacity counts for rows of norm one; those of Z have norm sqrt 2 where the constant is among them.
    ridge = (1 + constant) * _capacity_of(of)
    weight = np.ones(len(Z))
    if inversion == "logistic":
        share = 1.0 / (1.0 + np.exp(-np.clip(Z @ after, -700, 700)))
        weight = share * (1.0 - share)
    found: Float64s = ridge * step + Z.T @ (weight * (Z @ step))
    return found


def _capacity_of(of: Any) -> float:
    """The regulariser: as the caller gave it, the default that the model found for its rows, or that of baselines."""
    given = getattr(of, "capacity", _RIDGE)
    if given is not None:
        return float(given)
    c = of.model_.configuration
    return capacity_of(c.units, 4**c.grid.bits)


def _from_kernel_weights(before: Float64s, model: Any) -> Float64s:
    """Where in the order of rows it stood is not known: of places whose kernel values could be such, the best fit."""
    held = model._model
    rows = held.core.rows() * 2.0**-model.grid_bits
    squares = (rows**2).sum(axis=1)
    if len(before) != len(rows) + 1:
        return np.zeros(rows.shape[1])
    H = np.exp(-model.gamma * np.maximum(squares[:, None] + squares - 2.0 * rows @ rows.T, 0.0))
    H[np.diag_indices_from(H)] += model.capacity
    signs = np.where(np.array([label == held.classes[-1] for label in held.core.labels()]), 1.0, -1.0)
    # Column p: what the other rows' weights leave over, where the p-th weight is that of the row that left.
    early = np.cumsum(np.column_stack([np.zeros(len(rows)), H * before[:-1]]), axis=1)
    late = np.cumsum(np.column_stack([np.zeros(len(rows)), (H * before[1:])[:, ::-1]]), axis=1)[:, ::-1]
    with np.errstate(divide="ignore", invalid="ignore"):
        values = np.nan_to_num((signs[:, None] - early - late) / before, nan=np.inf, posinf=np.inf, neginf=np.inf)
    outside = np.maximum(values - 1.0, -values).max(axis=0)
    best, misfit = np.zeros(rows.shape[1]), np.inf
    for p in np.argsort(outside, kind="stable")[:_PLACES]:
        seen = np.clip(values[:, p], 1e-9, 1.0)
        # 2 x'z - |z|^2 = |x|^2 + log(value) / gamma for every x that is left, small values being the least certain.
        left = np.column_stack([2.0 * rows, -np.ones(len(rows))]) * seen[:, None]
        z = np.linalg.lstsq(left, (squares + np.log(seen) / model.gamma) * seen, rcond=None)[0][:-1]
        away = float(np.abs(np.exp(-model.gamma * ((rows - z) ** 2).sum(axis=1)) - seen).max())
        if away < misfit:
            best, misfit = z, away
    return best


def cosine(found: Float64s, x: Float64s) -> float:
    """Between what was found and a row, with its constant if that was found too; without its sign."""
    row = np.append(x, 1.0)[: len(found)]
    length = float(np.linalg.norm(found) * np.linalg.norm(row))
    return min(abs(float(found @ row)) / length, 1.0) if length else 0.0
