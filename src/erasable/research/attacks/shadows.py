"""Membership by likelihood ratio, with shadow models: LiRA, and U-LiRA for rows that were learnt and forgotten.

Each shadow learns a random half of a pool, and then forgets those candidates that are in its half. For a candidate,
half of all shadows learnt and forgot it and half never saw it; what the attacker measures in a state has one normal
law in the first half and another in the second, fitted for each candidate by itself. One set of shadows serves all
candidates, and each shadow is judged by laws fitted to others (Carlini et al. 2022, *Membership inference attacks from
first principles*, online attack; Hayes et al. 2024, *Inexact unlearning needs more careful evaluations*, U-LiRA).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.research.attacks.targets import Target, novelty, outputs, stored_ids
from erasable.research.attacks.work import repeat

GROUPS = ("random", "unusual", "mislabelled", "retained")  # the last are learnt and not forgotten
STATISTICS = ("score", "novelty")  # the model's answer to the candidate; how new it is to the stored rows
_FOLDS = 8


@dataclass(frozen=True)
class Shadows:
    """What was measured in all shadows."""

    statistics: Float64s  # shape (n_shadows, n_candidates, 2), in the order of STATISTICS
    member: npt.NDArray[np.bool_]  # shape (n_shadows, n_candidates): whether the shadow learnt the candidate
    group: npt.NDArray[np.intp]  # of each candidate, into GROUPS
    stores_all: bool  # all remaining rows are stored
    worker_seconds: float = 0.0  # seconds of processor time in other processes

    def ratios(
        self, groups: Sequence[str], statistics: Sequence[str]
    ) -> tuple[Float64s, npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
        """Log-likelihood ratios for all pairs of a shadow and a candidate of these groups; the truth; the candidates.

        Each fold of shadows is judged by the laws of the others.
        """
        chosen = np.flatnonzero(np.isin(self.group, [GROUPS.index(name) for name in groups]))
        T = self.statistics[:, chosen][..., [STATISTICS.index(name) for name in statistics]]
        M, n = self.member[:, chosen], len(T)
        scores = np.empty((n, len(chosen)))
        for fold in range(_FOLDS):
            tested = np.arange(n) % _FOLDS == fold
            inside = _law(T[~tested], M[~tested])
            outside = _law(T[~tested], ~M[~tested])
            scores[tested] = _log_density(T[tested], *inside) - _log_density(T[tested], *outside)
        return scores.ravel(), M.ravel(), np.tile(np.arange(len(chosen)), n)


def train_shadows(
    target: Target,
    X: Float64s,
    y: npt.NDArray[Any],
    n_shadows: int,
    candidates: int,
    *,
    random_state: int = 0,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> Shadows:
    """Train the shadows on a pool of rows with labels -1 and 1, and measure each of them.

    Each group has so many ``candidates``; the labels of the mislabelled ones are turned. Figures to be published need
    512 shadows or more.
    """
    rng = np.random.default_rng(random_state)
    n = len(X)
    unusual = np.argsort(-novelty(X, X))[:candidates]
    rest = rng.permutation(np.setdiff1d(np.arange(n), unusual))[: 3 * candidates].reshape(3, -1)
    at = np.concatenate([rest[0], unusual, rest[1], rest[2]])
    group = np.repeat(np.arange(4), candidates)
    y = y.copy()
    y[at[group == GROUPS.index("mislabelled")]] *= -1
    member = np.zeros((n_shadows, len(at)), bool)
    for j in range(len(at)):  # each is in exactly half of the shadows
        member[rng.permutation(n_shadows)[: n_shadows // 2], j] = True
    task = _Shadow(target, X, y, at, member, group < GROUPS.index("retained"), random_state)
    done = repeat(task, n_shadows, workers=workers, progress=progress)
    found = np.array([statistics for statistics, _ in done.results])
    return Shadows(found, member, group, all(stores_all for _, stores_all in done.results), done.worker_seconds)


@dataclass(frozen=True)
class _Shadow:
    """A shadow by its number: what is measured in it, and whether it stores all rows that are left."""

    target: Target
    X: Float64s
    y: npt.NDArray[Any]
    at: npt.NDArray[np.intp]
    member: npt.NDArray[np.bool_]
    leaves: npt.NDArray[np.bool_]
    random_state: int

    def __call__(self, i: int) -> tuple[Float64s, bool]:
        X, y, at, member = self.X, self.y, self.at, self.member[i]
        inside = np.random.default_rng([self.random_state, i]).random(len(X)) < 0.5
        inside[at] = member
        offered = np.flatnonzero(inside)
        model = self.target.build(1 + i).fit(X[offered], y[offered], ids=offered)
        leaving = at[member & self.leaves]
        model.forget(ids=leaving)
        left = np.setdiff1d(offered, leaving)
        stored = np.array(stored_ids(model, left.tolist()), np.intp)
        return np.column_stack([outputs(model, X[at]), novelty(X[stored], X[at])]), len(stored) >= len(left)


def _law(T: Float64s, wanted: npt.NDArray[np.bool_]) -> tuple[Float64s, Float64s]:
    """Mean and covariance of the statistics of each candidate over the wanted shadows."""
    weight = wanted.astype(np.float64)
    count = weight.sum(axis=0)
    mean = np.einsum("sc,sck->ck", weight, T) / count[:, None]
    away = T - mean
    covariance = np.einsum("sc,sck,scl->ckl", weight, away, away) / (count - 1)[:, None, None]
    # A statistic that does not vary at all must not divide by zero; it then tells by its mean alone.
    floor = 1e-9 * T.var(axis=0).mean(axis=0) + 1e-24
    return mean, covariance + np.eye(T.shape[2]) * floor


def _log_density(T: Float64s, mean: Float64s, covariance: Float64s) -> Float64s:
    """Of a normal law, without the constant that cancels; shape (n_shadows, n_candidates)."""
    away = T - mean
    solved = np.einsum("ckl,scl->sck", np.linalg.inv(covariance), away)
    found: Float64s = -0.5 * np.einsum("sck,sck->sc", away, solved) - 0.5 * np.linalg.slogdet(covariance)[1]
    return found
