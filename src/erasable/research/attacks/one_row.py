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
class Told:
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
    """What came out of all trials.

    Attributes
    ----------
    scores : dict from str to Told
        By attacker, in the order of ``ATTACKERS``.
    cosines : list of float
        Between the row that left and what was computed from the weights before and after.
    plain : int
        Trials in which the row itself stood in the state before and not in the state after.
    trials : int
    replays : int
        Trials in which a decoy was found that could have been there, so that a replay can be judged.
    same_as_refit : int
        Trials after which the state was, in every bit that can be read, that of learning the stored rows.
    missing : list of int
        For each trial, how many rows are stored or not stored because the row had been there.
    stored_share : float
        The share of offered rows that was stored, on average.
    elsewhere : float
        Seconds of processor time that trials took in other processes.
    """

    scores: dict[str, Told]
    cosines: list[float] = field(default_factory=list)
    plain: int = 0
    trials: int = 0
    replays: int = 0
    same_as_refit: int = 0
    missing: list[int] = field(default_factory=list)
    stored_share: float = 0.0
    elsewhere: float = 0.0

    def join(self, other: OneRow) -> None:
        """Add what came out of other trials."""
        for name, told in other.scores.items():
            self.scores[name].left += told.left
            self.scores[name].decoy += told.decoy
        total = self.trials + other.trials
        self.stored_share = (self.trials * self.stored_share + other.trials * other.stored_share) / total
        self.trials = total
        self.cosines += other.cosines
        self.missing += other.missing
        self.plain += other.plain
        self.replays += other.replays
        self.same_as_refit += other.same_as_refit


def no_trials() -> OneRow:
    """What came out of no trial."""
    return OneRow({name: Told() for name in ATTACKERS})


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
    found.elsewhere = done.elsewhere
    return found


@dataclass(frozen=True)
class _Game:
    """A trial by its number."""

    target: Target
    X: Float64s
    y: npt.NDArray[Any]
    alone: npt.NDArray[np.bool_]
    random_state: int

    def __call__(self, trial: int) -> OneRow:
        rng = np.random.default_rng([self.random_state, trial])
        return _trial(self.target, self.X, self.y, self.alone, rng, seed=1000 * self.random_state + 10 * trial)


def _trial(
    target: Target,
    X: Float64s,
    y: npt.NDArray[Any],
    alone: npt.NDArray[np.bool_],
    rng: np.random.Generator,
    seed: int,
) -> OneRow:
    found = no_trials()
    n = len(X)
    shuffled = rng.permutation(n)
    offered, others = np.sort(shuffled[: n // 2]), shuffled[n // 2 :]
    names = np.array([f"r{number:013x}" for number in rng.integers(2**52, size=n)])

    def learnt(at: npt.NDArray[np.intp], labels: npt.NDArray[Any], rows: Float64s, seed: int) -> Any:
        return target.build(seed).fit(rows[at], labels[at], ids=names[at])

    model = learnt(offered, y, X, seed)
    place = {name: i for i, name in enumerate(names.tolist())}
    stored = np.array([place[name] for name in stored_ids(model, names[offered].tolist())])
    gone = int(rng.choice(stored[alone[stored]]))
    decoys = rng.permutation(others[alone[others]])
    decoy = int(decoys[0])
    found.trials = 1
    found.stored_share = len(stored) / len(offered)

    before, weights = read_stored(model), weights_of(model) if target.inversion else None
    model.forget(ids=[names[gone].item()])
    live = read(model)
    after = read_stored(model)
    survivors = np.sort(stored[stored != gone])

    # the definition itself: is it the state that learning the stored rows gives?
    relearnt = learnt(survivors, y, X, seed + 2)
    there_anyway = read(relearnt), read_stored(relearnt)
    found.same_as_refit = int(after.share_that_differs(there_anyway[1]) == 0.0)

    # (b) the row or its name, anywhere in memory; sums of few rows may look like another one, whoever was there
    def present(i: int) -> bool:
        return any(c.holds_row(X[i]) for c in (live, after)) and not any(c.holds_row(X[i]) for c in there_anyway)

    found.scores["row"].add(*(float(present(i)) for i in (gone, decoy)))
    both = (live, after)
    found.scores["name"].add(*(float(any(c.holds_name(names[i].item()) for c in both)) for i in (gone, decoy)))

    # (d) what was there before and is not there now; then weights alone, with the state that is left
    vanished = [best_of_what_vanished(before, after, X[i]) for i in (gone, decoy)]
    found.scores["snapshots"].add(*vanished)
    found.plain = int(vanished[0] > SAME_DIRECTION)
    if weights is not None:
        row = row_from_weights(weights, model, X[survivors], str(target.inversion))
        cosines = [cosine(row, X[i]) for i in (gone, decoy)]
        found.scores["weights"].add(*cosines)
        found.cosines.append(cosines[0])

    # (e) one who knows every other row: is stored what would be stored had the row never been there?
    never = learnt(offered[offered != gone], y, X, seed + 1)
    would_be = {place[name] for name in stored_ids(never, names[offered[offered != gone]].tolist())}
    different = len(would_be ^ set(survivors.tolist()))
    found.missing.append(different)
    found.scores["selection"].add(float(different > 0), 0.0)  # without the row, it is what it would be

    # and those who know some of them, or none; about rows that would be stored, since of others nothing can be told
    absent = np.setdiff1d(offered, stored)
    likely = would_be_kept(model, X, names, survivors, rng.permutation(others[alone[others]])[:50])
    if likely is not None and len(likely):
        known = [absent[rng.random(len(absent)) < share] for share in KNOWN.values()]
        told = absences_explained(model, X, names, survivors, known, (gone, int(likely[0])))
        for name, scores in zip(KNOWN, told or (), strict=True):
            found.scores[name].add(*scores)

    # (a) put a candidate into the gap, forget it, and compare the last bits
    at, gap = np.sort(np.append(survivors, gone)), len(survivors)

    def replayed(x: Float64s, label: Any) -> float | None:
        rows, labels = X.copy(), y.copy()
        rows[gone], labels[gone] = x, label
        again = learnt(at, labels, rows, seed + 3)
        if len(stored_ids(again, names[at].tolist())) <= gap:
            return None  # it would not have been stored, or would have kept others out: no replay, see (e)
        again.forget(ids=[names[gone].item()])
        return -after.share_that_differs(read_stored(again))

    true = replayed(X[gone], y[gone])
    candidates = [(X[i], y[i]) for i in decoys[:_TRIES]]
    candidates += [((1.0 - share) * X[gone] + share * X[decoy], y[gone]) for share in _BLENDS]
    for x, label in candidates if true is not None else ():
        false = replayed(x, label)
        if true is not None and false is not None:
            found.scores["residue"].add(true, false)
            found.replays = 1
            break
    return found


def _without_twin(X: Float64s) -> npt.NDArray[np.bool_]:
    """Rows whose direction no other row has."""
    Z = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    alone: npt.NDArray[np.bool_] = np.linalg.norm(X, axis=1) > 0
    for low in range(0, len(Z), 2048):
        near = np.abs(Z[low : low + 2048] @ Z.T) > SAME_DIRECTION
        alone[low : low + 2048] &= near.sum(axis=1) <= 1
    return alone
