"""The game of one row: a model learns rows, forgets one of them, and its whole state is asked about that row.

A trial draws the rows, picks one that is stored, forgets it, and gives what is left to the attackers. Each of them is
also asked about a decoy, a row like it that was never learnt, under the same circumstances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.research.attacks.inference import (
    absences_explained,
    best_of_what_vanished,
    cosine,
    row_from_weights,
    weights_of,
    would_be_kept,
)
from erasable.research.attacks.reading import SAME_DIRECTION, read, read_stored
from erasable.research.attacks.targets import Target, stored_ids
from erasable.research.attacks.work import repeat

KNOWN = {"half": 0.5, "tenth": 0.1, "none": 0.0}  # of the other rows, to those who do not know all of them
ATTACKERS = ("residue", "row", "name", "snapshots", "weights", "selection", *KNOWN)
_TRIES = 5  # decoys that are drawn before one is made that could have been there
_BLENDS = (0.3, 0.1, 0.03, 0.01, 0.003)  # of a decoy, mixed into the row that left


@dataclass
class PairedScores:
    """Scores of one attacker, one for the row that left and one for a decoy in each trial."""

    left: list[float] = field(default_factory=list)
    decoy: list[float] = field(default_factory=list)

    def add(self, left: float, decoy: float) -> None:
        """The scores of one trial."""
        self.left.append(left)
        self.decoy.append(decoy)

    def pairs(self) -> tuple[Float64s, npt.NDArray[np.bool_], npt.NDArray[np.intp]]:
        """Scores, which of them are of rows that left, and the trial of each."""
        n = len(self.left)
        return np.array(self.left + self.decoy), np.arange(2 * n) < n, np.tile(np.arange(n), 2)


@dataclass
class OneRow:
    """The results of all trials."""

    scores: dict[str, PairedScores]  # by attacker, in the order of ATTACKERS
    cosines: list[float] = field(default_factory=list)  # between the row and what its weights before and after give
    plain: int = 0  # trials in which the row itself stood in the state before and not in the state after
    trials: int = 0
    replays: int = 0  # trials with a decoy that could have been there, so that a replay can be judged
    same_as_refit: int = 0  # trials after which the state was, in every bit, that of learning the stored rows
    missing: list[int] = field(default_factory=list)  # rows stored or not because the row had been there
    stored_share: float = 0.0  # of the offered rows, on average
    worker_seconds: float = 0.0  # seconds of processor time in other processes

    def join(self, other: OneRow) -> None:
        """Add the results of other trials."""
        for name, scores in other.scores.items():
            self.scores[name].left += scores.left
            self.scores[name].decoy += scores.decoy
        total = self.trials + other.trials
        self.stored_share = (self.trials * self.stored_share + other.trials * other.stored_share) / total
        self.trials = total
        self.cosines += other.cosines
        self.missing += other.missing
        self.plain += other.plain
        self.replays += other.replays
        self.same_as_refit += other.same_as_refit


def no_trials() -> OneRow:
    """The results of no trials."""
    return OneRow({name: PairedScores() for name in ATTACKERS})


def one_row(
    target: Target,
    X: Float64s,
    y: npt.NDArray[Any],
    trials: int,
    *,
    random_state: int = 0,
    workers: int = 1,
    progress: Callable[[int, int], None] | None = None,
) -> OneRow:
    """Play the game; half of the rows are offered in each trial, and the others are decoys.

    Only rows without a twin are candidates: that a twin of somebody is stored says nothing about them.
    """
    game = _Game(target, X, y, _without_twin(X), random_state)
    done = repeat(game, trials, workers=workers, progress=progress)
    found = no_trials()
    for trial in done.results:
        found.join(trial)
    found.worker_seconds = done.worker_seconds
    return found


@dataclass(frozen=True)
class _Game:
    """A trial by its number."""

    target: Target
    X: Float64s
    y: npt.NDArray[Any]
    alone: npt.NDArray[np.bool_]  # rows without a twin
    random_state: int

    def __call__(self, number: int) -> OneRow:
        trial = _Trial(self, np.random.default_rng([self.random_state, number]), 1000 * self.random_state + 10 * number)
        trial.forget()
        trial.search_memory()
        trial.compare_snapshots()
        trial.compare_selection()
        trial.replay()
        return trial.found


class _Trial:
    """One trial: a model learns half of the rows and forgets ``gone``; ``decoy`` is a row like it, never learnt."""

    def __init__(self, game: _Game, rng: np.random.Generator, seed: int) -> None:
        self.target, self.X, self.y, self.rng, self.seed = game.target, game.X, game.y, rng, seed
        self.found = no_trials()
        n, alone = len(self.X), game.alone
        shuffled = rng.permutation(n)
        self.offered, others = np.sort(shuffled[: n // 2]), shuffled[n // 2 :]
        self.names = np.array([f"r{number:013x}" for number in rng.integers(2**52, size=n)])
        self.model = self.learn(self.offered, seed)
        self.stored = np.array(self.positions_stored(self.model, self.offered))
        self.gone = int(rng.choice(self.stored[alone[self.stored]]))
        self.never_learnt = others[alone[others]]
        self.decoys = rng.permutation(self.never_learnt)
        self.decoy = int(self.decoys[0])
        self.survivors = np.sort(self.stored[self.stored != self.gone])
        self.found.trials = 1
        self.found.stored_share = len(self.stored) / len(self.offered)

    def learn(self, at: npt.NDArray[np.intp], seed: int) -> Any:
        """A model of the rows at these positions."""
        return self.target.build(seed).fit(self.X[at], self.y[at], ids=self.names[at])

    def positions_stored(self, model: Any, offered: npt.NDArray[np.intp]) -> list[int]:
        """Positions of the rows that a model stores."""
        position = {name: i for i, name in enumerate(self.names.tolist())}
        return [position[name] for name in stored_ids(model, self.names[offered].tolist())]

    def forget(self) -> None:
        """Forget the row, and compare the state with that of learning the stored rows, which is the definition."""
        self.before = read_stored(self.model)
        self.weights = weights_of(self.model) if self.target.inversion else None
        self.model.forget(ids=[self.names[self.gone].item()])
        self.live, self.after = read(self.model), read_stored(self.model)
        relearnt = self.learn(self.survivors, self.seed + 2)
        self.there_anyway = read(relearnt), read_stored(relearnt)
        self.found.same_as_refit = int(self.after.share_that_differs(self.there_anyway[1]) == 0.0)

    def search_memory(self) -> None:
        """(b) The row or its name, anywhere in memory; sums of few rows may look like another one all the same."""
        both = self.live, self.after

        def holds(i: int) -> float:
            x = self.X[i]
            return float(any(c.holds_row(x) for c in both) and not any(c.holds_row(x) for c in self.there_anyway))

        pair = self.gone, self.decoy
        self.found.scores["row"].add(*(holds(i) for i in pair))
        self.found.scores["name"].add(*(float(any(c.holds_name(self.names[i].item()) for c in both)) for i in pair))

    def compare_snapshots(self) -> None:
        """(d) What was there before and is not there now; then weights alone, with the state that is left."""
        pair = self.gone, self.decoy
        vanished = [best_of_what_vanished(self.before, self.after, self.X[i]) for i in pair]
        self.found.scores["snapshots"].add(*vanished)
        self.found.plain = int(vanished[0] > SAME_DIRECTION)
        if self.weights is not None:
            row = row_from_weights(self.weights, self.model, self.X[self.survivors], str(self.target.inversion))
            cosines = [cosine(row, self.X[i]) for i in pair]
            self.found.scores["weights"].add(*cosines)
            self.found.cosines.append(cosines[0])

    def compare_selection(self) -> None:
        """(e) Whether the stored rows are those that would be stored had the row never been there.

        One attacker knows every other row; some know a part of them, or none, and are asked about rows that would be
        stored, since nothing can be told of others.
        """
        without = self.offered[self.offered != self.gone]
        would_be = set(self.positions_stored(self.learn(without, self.seed + 1), without))
        different = len(would_be ^ set(self.survivors.tolist()))
        self.found.missing.append(different)
        self.found.scores["selection"].add(float(different > 0), 0.0)  # without the row, it is what it would be
        X, names, survivors, rng = self.X, self.names, self.survivors, self.rng
        absent = np.setdiff1d(self.offered, self.stored)
        likely = would_be_kept(self.model, X, names, survivors, rng.permutation(self.never_learnt)[:50])
        if likely is not None and len(likely):
            known = [absent[rng.random(len(absent)) < share] for share in KNOWN.values()]
            explained = absences_explained(self.model, X, names, survivors, known, (self.gone, int(likely[0])))
            for name, scores in zip(KNOWN, explained or (), strict=True):
                self.found.scores[name].add(*scores)

    def replay(self) -> None:
        """(a) Put a candidate into the gap, forget it, and compare the last bits."""
        X, y, gone = self.X, self.y, self.gone
        candidates = [(X[i], y[i]) for i in self.decoys[:_TRIES]]
        candidates += [((1.0 - share) * X[gone] + share * X[self.decoy], y[gone]) for share in _BLENDS]
        true = self._replayed(X[gone], y[gone])
        for x, label in candidates if true is not None else ():
            false = self._replayed(x, label)
            if true is not None and false is not None:
                self.found.scores["residue"].add(true, false)
                self.found.replays = 1
                break

    def _replayed(self, x: Float64s, label: object) -> float | None:
        """How close the state comes to the real one with this row in the gap.

        None where the row would not have been stored, or would have kept others out: that is no replay, see (e).
        """
        at = np.sort(np.append(self.survivors, self.gone))
        rows, labels = self.X[at], self.y[at]
        gap = int(np.searchsorted(at, self.gone))
        rows[gap], labels[gap] = x, label
        again = self.target.build(self.seed + 3).fit(rows, labels, ids=self.names[at])
        if len(stored_ids(again, self.names[at].tolist())) <= len(self.survivors):
            return None
        again.forget(ids=[self.names[self.gone].item()])
        return -self.after.share_that_differs(read_stored(again))


def _without_twin(X: Float64s) -> npt.NDArray[np.bool_]:
    """Rows whose direction no other row has."""
    Z = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    alone: npt.NDArray[np.bool_] = np.linalg.norm(X, axis=1) > 0
    for low in range(0, len(Z), 2048):
        near = np.abs(Z[low : low + 2048] @ Z.T) > SAME_DIRECTION
        alone[low : low + 2048] &= near.sum(axis=1) <= 1
    return alone
