"""What the stored rows, and the absence of others, tell about a row that is not there.

Rows are decided in the order of a keyed hash, and key and threshold stand in the state. A known row that is not stored,
although the stored rows before it would have let it in, was kept out by a row that is not there any more. A candidate
that explains such absences was there; one that would have kept a stored row out was not; of one that would not have
been kept itself nothing can be told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid, to_grid
from erasable.core.keyed_hash import keyed_hash
from erasable.models.selections import Leverage

_BLOCK = 32  # rows that share one product with the inverse
_SLACK = 1e-7  # of the threshold: rows are those of the grid, inverses are kept up to date in float64


def would_be_kept(
    model: Any, X: Float64s, names: npt.NDArray[Any], stored: npt.NDArray[np.intp], candidates: npt.NDArray[np.intp]
) -> npt.NDArray[np.intp] | None:
    """Those candidates that would be stored beside these rows; of the others the state cannot tell anything.

    None where rows are not decided by leverage in hashed order.
    """
    way = _Way.of(model)
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
    way = _Way.of(model)
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
class _Way:
    """How a model selects, as its state says."""

    key: int
    grid: Grid
    threshold: float
    units: float  # the regulariser

    @classmethod
    def of(cls, model: Any) -> _Way | None:
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
