"""What the stored rows, and the absence of others, tell about a row that is not there.

Rows are decided in the order of a keyed hash, and key and threshold stand in the state. A known row that is not stored,
although the stored rows before it would have let it in, was kept out by a row that is not there any more. A candidate
that explains such absences was there; one that would have kept a stored row out was not; of one that would not have
been kept itself nothing can be told.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid, to_grid
from erasable.core.keyed_hash import keyed_hash
from erasable.models.linear import LinearModel

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
    asked = np.repeat([False, True], [len(stored), len(candidates)])
    kept = []
    inverse = way.start
    for i, z in way.in_order(X, names, np.append(stored, candidates)):
        v = inverse @ z
        leverage = float(z @ v)
        if not asked[i]:
            inverse = inverse - np.outer(v, v / (1.0 + leverage))
        elif leverage > way.threshold:
            kept.append(i - len(stored))
    return candidates[np.sort(kept)] if kept else candidates[:0]


def absences_explained(
    model: Any,
    X: Float64s,
    names: npt.NDArray[Any],
    stored: npt.NDArray[np.intp],
    known: npt.NDArray[np.intp],
    candidates: Sequence[int],
) -> list[float] | None:
    """For each candidate, how many known absent rows its presence explains; -1 where a stored row rules it out.

    Parameters
    ----------
    model : estimator
        After forgetting; only its configuration is read.
    X, names
        All rows, and their ids.
    stored, known, candidates : positions
        Of the rows that are stored, of rows that the attacker knows were offered and are not stored, and of those asked
        about.

    Returns
    -------
    list of float, or None
        None where rows are not decided by leverage in hashed order.

    Notes
    -----
    *Cost*: one update of an inverse for each stored row and candidate, d^2 each.
    """
    way = _Way.of(model)
    if way is None:
        return None
    turns = np.concatenate([stored, known, np.asarray(candidates, np.intp)])
    is_known = np.repeat([False, True, False], [len(stored), len(known), len(candidates)])
    candidate = np.append(np.full(len(stored) + len(known), -1), np.arange(len(candidates)))
    # One inverse without any candidate, and one with each of them from its turn on.
    inverses = np.repeat(way.start[None], 1 + len(candidates), axis=0)
    most, least = way.threshold * (1.0 + _SLACK), way.threshold * (1.0 - _SLACK)
    explained = np.zeros(len(candidates))
    ruled_out = np.zeros(len(candidates), bool)
    for i, z in way.in_order(X, names, turns):
        V = inverses @ z
        leverage = V @ z
        if is_known[i]:
            if leverage[0] > most:
                explained += leverage[1:] <= most
            continue
        if candidate[i] < 0:
            ruled_out |= leverage[1:] < least
            joins = slice(None)
        elif leverage[1 + candidate[i]] > way.threshold:
            joins = slice(1 + candidate[i], 2 + candidate[i])
        else:
            continue  # it would not have been kept, and nothing would be different
        V, leverage = V[joins], leverage[joins]
        inverses[joins] -= V[:, :, None] * (V / (1.0 + leverage)[:, None])[:, None, :]
    return [-1.0 if out else float(count) for out, count in zip(ruled_out, explained, strict=True)]


@dataclass(frozen=True)
class _Way:
    """How a model selects, as its state says."""

    key: int
    grid: Grid
    threshold: float
    start: Float64s  # the inverse before any row

    @classmethod
    def of(cls, model: Any) -> _Way | None:
        held = getattr(model, "_model", None)
        if not isinstance(held, LinearModel) or held.order_key is None or not 0.0 < model.threshold_ < math.inf:
            return None
        grid = held.configuration.grid
        return cls(
            held.order_key, grid, float(model.threshold_), np.eye(grid.n_columns) / float(held.configuration.units)
        )

    def in_order(
        self, X: Float64s, names: npt.NDArray[Any], at: npt.NDArray[np.intp]
    ) -> Iterator[tuple[int, Float64s]]:
        """Places in ``at`` and rows on the grid, in the order in which rows are decided."""
        rows = to_grid(X[at], self.grid).astype(np.float64)
        for i in np.argsort(keyed_hash(names[at].tolist(), self.key), kind="stable").tolist():
            yield i, rows[i]
