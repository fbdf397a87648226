"""What the absence of rows tells: somebody knows a share of the rows that were offered, and looks which are stored.

Rows are decided in the order of a keyed hash, and key and threshold stand in the state. A known row that is not stored,
although the stored rows before it would have let it in, was kept out by a row that is not there any more. A candidate
that explains such absences was there; one that would have kept a stored row out was not; of one that would not have
been kept itself nothing can be told.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import to_grid
from erasable.core.keyed_hash import keyed_hash
from erasable.models.linear import LinearModel

_SLACK = 1e-7  # of the threshold: rows are those of the grid, inverses are kept up to date in float64


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
    held = getattr(model, "_model", None)
    if not isinstance(held, LinearModel) or held.order_key is None or not 0.0 < model.threshold_ < math.inf:
        return None
    key, grid = held.order_key, held.configuration.grid
    turns = np.concatenate([stored, known, np.asarray(candidates, np.intp)])
    is_known = np.repeat([False, True, False], [len(stored), len(known), len(candidates)])
    candidate = np.append(np.full(len(stored) + len(known), -1), np.arange(len(candidates)))
    order = np.argsort(keyed_hash(names[turns].tolist(), key), kind="stable")
    Z, tau = to_grid(X[turns], grid).astype(np.float64), float(model.threshold_)
    # One inverse without any candidate, and one with each of them from its turn on.
    start = np.eye(Z.shape[1]) / float(held.configuration.units)
    inverses = np.repeat(start[None], 1 + len(candidates), axis=0)
    explained = np.zeros(len(candidates))
    ruled_out = np.zeros(len(candidates), bool)
    for i in order:
        V = inverses @ Z[i]
        leverage = V @ Z[i]
        if is_known[i]:
            if leverage[0] > tau * (1.0 + _SLACK):
                explained += leverage[1:] <= tau * (1.0 + _SLACK)
            continue
        if candidate[i] < 0:
            ruled_out |= leverage[1:] < tau * (1.0 - _SLACK)
            joins = slice(None)
        elif leverage[1 + candidate[i]] > tau:
            joins = slice(1 + candidate[i], 2 + candidate[i])
        else:
            continue  # it would not have been kept, and nothing would be different
        V, leverage = V[joins], leverage[joins]
        inverses[joins] -= V[:, :, None] * (V / (1.0 + leverage)[:, None])[:, None, :]
    return [-1.0 if out else float(count) for out, count in zip(ruled_out, explained, strict=True)]
