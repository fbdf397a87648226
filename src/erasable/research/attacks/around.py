"""What stands around a model and was made from rows: the model forgets, and these do not.

The model is ``ErasableClassifier`` throughout. The attacker knows every other row, holds what is left after a row was
forgotten, and is asked about that row and about a decoy.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.preprocessing import StandardScaler

from erasable.core.arrays import Float64s
from erasable.estimators import ErasableClassifier
from erasable.research.attacks.one_row import PairedScores
from erasable.schemas import draft_schema

SURROUNDINGS = {
    "scaler": "a scaler fitted on all rows in front of the model",
    "row count": "a threshold named by kappa, which is the number of rows",
    "draft": "a schema drafted from the rows",
    "receipt": "a receipt with the digest of the state before",
    "list": "a suppression list, with its key",
    "list alone": "a suppression list, without its key",
}
_MOST_ROWS = 500
_KAPPA = 0.5


def around(
    X: Float64s,
    y: npt.NDArray[Any],
    trials: int,
    *,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> dict[str, PairedScores]:
    """Scores by what is read, in the order of ``SURROUNDINGS``."""
    rng = np.random.default_rng(random_state)
    found = {name: PairedScores() for name in SURROUNDINGS}
    for trial in range(trials):
        at = rng.permutation(len(X))[: _MOST_ROWS + 1]
        offered, decoy = at[:-1], int(at[-1])
        model = ErasableClassifier(loss="squared", feature_map=None).fit(X[offered], y[offered], ids=offered)
        before = model.state_digest()
        gone = int(rng.choice(model.core_ids_))
        model.forget(ids=[gone])
        others, candidates = offered[offered != gone], (gone, decoy)

        mean = StandardScaler().fit(X[offered]).mean_
        found["scaler"].add(*(-_distance(mean, X, others, one) for one in candidates))

        # What the attacker would see without the row is what is seen without it, so a decoy is never accused.
        thresholds = [_named_by_kappa(X, y, rows, gone) for rows in (offered, others)]
        found["row count"].add(float(thresholds[0] != thresholds[1]), 0.0)
        drafts = [_draft(X[rows]) for rows in (offered, others)]
        found["draft"].add(float(drafts[0] != drafts[1]), 0.0)

        found["receipt"].add(*(float(_digest_with(model, X, y, one, gone) == before) for one in candidates))

        key, other_key = rng.bytes(32), rng.bytes(32)
        listed = _mark(key, gone)
        found["list"].add(*(float(_mark(key, one) == listed) for one in candidates))
        found["list alone"].add(*(float(_mark(other_key, one) == listed) for one in candidates))
        if progress is not None:
            progress(trial + 1, trials)
    return found


def _distance(mean: Float64s, X: Float64s, others: npt.NDArray[np.intp], candidate: int) -> float:
    """How far the scaler is from the one that the candidate would have given."""
    rows = np.append(others, candidate)
    return float(np.abs(StandardScaler().fit(X[rows]).mean_ - mean).max())


def _named_by_kappa(X: Float64s, y: npt.NDArray[Any], rows: npt.NDArray[np.intp], gone: int) -> float:
    """The threshold in the state after the row, if it was there, was forgotten."""
    model = ErasableClassifier(kappa=_KAPPA, loss="squared", feature_map=None).fit(X[rows], y[rows], ids=rows)
    model.forget(ids=[gone])
    return float(model.threshold_)


def _draft(rows: Float64s) -> str:
    return str(draft_schema({f"c{j}": column for j, column in enumerate(rows.T[:12])}).schema)


def _digest_with(model: ErasableClassifier, X: Float64s, y: npt.NDArray[Any], candidate: int, name: int) -> str:
    """The digest of the state before, had the candidate been the row of this name."""
    left = model.core_ids_
    rows, labels = np.vstack([X[left], X[candidate]]), np.append(y[left], y[candidate])
    return (
        ErasableClassifier(loss="squared", feature_map=None).fit(rows, labels, ids=np.append(left, name)).state_digest()
    )


def _mark(key: bytes, name: int) -> str:
    return hmac.new(key, str(name).encode(), hashlib.sha256).hexdigest()
