"""The game of one row: a model learns rows, forgets one of them, and its whole state is asked about that row.

A trial draws the rows, picks one that is stored, forgets it, and gives what is left to five attackers. Each of them is
also asked about a decoy, a row like it that was never learnt, under the same circumstances.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.keyed_hash import keyed_hash
from erasable.research.attacks.reading import SAME_DIRECTION, Contents, read, read_stored
from erasable.research.attacks.selection import absences_explained, would_be_kept
from erasable.research.attacks.targets import Target, stored_ids, weights_of
from erasable.research.controls import with_constant

KNOWN = {"half": 0.5, "tenth": 0.1, "none": 0.0}  # of the other rows, to those who do not know all of them
ATTACKERS = ("residue", "row", "name", "gap", "snapshots", "weights", "selection", *KNOWN)
_TRIES = 25  # decoys that are drawn before one is found that could have been there


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
    trials : int
    replays : int
        Trials in which a decoy was found that could have been there, so that a replay can be judged.
    same_as_refit : int
        Trials after which the state was, in every bit that can be read, that of learning the stored rows.
    missing : list of int
        For each trial, how many rows are stored or not stored because the row had been there.
    stored_share : float
        The share of offered rows that was stored, on average.
    """

    scores: dict[str, Told]
    cosines: list[float] = field(default_factory=list)
    trials: int = 0
    replays: int = 0
    same_as_refit: int = 0
    missing: list[int] = field(default_factory=list)
    stored_share: float = 0.0


def one_row(
    target: Target,
    X: Float64s,
    y: npt.NDArray[Any],
    trials: int,
    *,
    random_state: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> OneRow:
    """Play the game; half of the rows are offered in each trial, and the others are decoys.

    Only rows without a twin are candidates: that a twin of somebody is stored says nothing about them.
    """
    rng = np.random.default_rng(random_state)
    found = OneRow({name: Told() for name in ATTACKERS})
    alone = _without_twin(X)
    for trial in range(trials):
        _trial(found, target, X, y, alone, rng, seed=1000 * random_state + 10 * trial)
        if progress is not None:
            progress(trial + 1, trials)
    found.stored_share /= max(trials, 1)
    return found


def _trial(
    found: OneRow,
    target: Target,
    X: Float64s,
    y: npt.NDArray[Any],
    alone: npt.NDArray[np.bool_],
    rng: np.random.Generator,
    seed: int,
) -> None:
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
    decoys = iter(rng.permutation(others[alone[others]]).tolist())
    decoy = next(decoys)
    found.trials += 1
    found.stored_share += len(stored) / len(offered)

    before, weights = read_stored(model), weights_of(model) if target.curvature else None
    model.forget(ids=[names[gone].item()])
    live = read(model)
    gaps = gaps_in_memory(model)
    after = read_stored(model)
    survivors = np.sort(stored[stored != gone])

    # (b) the row or its name, anywhere in memory
    both = (live, after)
    found.scores["row"].add(*(float(any(c.holds_row(X[i]) for c in both)) for i in (gone, decoy)))
    found.scores["name"].add(*(float(any(c.holds_name(names[i].item()) for c in both)) for i in (gone, decoy)))
    if gaps is not None:
        found.scores["gap"].add(*(float(gaps(names[i].item())) for i in (gone, decoy)))

    # (d) what was there before and is not there now; then weights alone, with the state that is left
    found.scores["snapshots"].add(*(_vanished(before, after, X[i]) for i in (gone, decoy)))
    if weights is not None:
        row = _from_weights(weights, weights_of(model), with_constant(X[survivors]), str(target.curvature))
        cosines = [_cosine(row, with_constant(X[[i]])[0]) for i in (gone, decoy)]
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
        for name, share in KNOWN.items():
            known = absent[rng.random(len(absent)) < share]
            told = absences_explained(model, X, names, survivors, known, (gone, int(likely[0])))
            if told is not None:
                found.scores[name].add(*told)

    # the definition itself: is it the state that learning the stored rows gives?
    found.same_as_refit += after.share_that_differs(read_stored(learnt(survivors, y, X, seed + 2))) == 0.0

    # (a) put a candidate into the gap, forget it, and compare the last bits
    at, gap = np.append(survivors, gone), len(survivors)
    at = at[np.argsort(at, kind="stable")]

    def replayed(candidate: int) -> float | None:
        rows, labels = X.copy() if candidate != gone else X, y.copy() if candidate != gone else y
        if candidate != gone:
            rows[gone], labels[gone] = X[candidate], y[candidate]
        again = learnt(at, labels, rows, seed + 3)
        if len(stored_ids(again, names[at].tolist())) <= gap:
            return None  # it would not have been stored, or would have kept others out: no replay, see (e)
        again.forget(ids=[names[gone].item()])
        return -after.share_that_differs(read_stored(again))

    true = replayed(gone)
    for candidate in [decoy, *(next(decoys, decoy) for _ in range(_TRIES))]:
        false = replayed(candidate)
        if true is not None and false is not None:
            found.scores["residue"].add(true, false)
            found.replays += 1
            break


def gaps_in_memory(model: Any) -> Callable[[Any], bool] | None:
    """Whether an id fits a gap in the memory of a model of ours: its hash lies between those of the gap's neighbours.

    Who reads the memory of the process would see by a gap that there was a row, and between which others. There is
    none: rows are linked, and the two beside one that leaves meet at once.
    """
    held = getattr(model, "_model", None)
    key = getattr(held, "order_key", None)
    if held is None or key is None:
        return None
    slots: list[Any] = held.core.ids()
    hashes = iter(keyed_hash([name for name in slots if name is not None], key).tolist())
    placed = [None if name is None else next(hashes) for name in slots]
    gaps = []
    for i, there in enumerate(placed):
        if there is None:
            low = max((h for h in placed[:i] if h is not None), default=-1)
            high = next((h for h in placed[i:] if h is not None), 2**64)
            gaps.append((low, high))
    return lambda name: any(low < int(keyed_hash([name], key)[0]) < high for low, high in gaps)


def _vanished(before: Contents, after: Contents, x: Float64s) -> float:
    """Whether the row was there before and is not there now."""
    return float(before.holds_row(x) and not after.holds_row(x))


def _from_weights(w1: Float64s, w0: Float64s, Z: Float64s, loss: str, ridge: float = 0.04) -> Float64s:
    """The row, up to a factor: curvature over the rows that are left, times the step of the weights.

    For the squared loss ``A w0 = b`` and ``(A + zz') w1 = b + s z``, so ``A (w1 - w0) = (s - z'w1) z``. For the
    logistic loss it holds in the first order. ``ridge`` counts for rows of norm sqrt 2, the constant included.
    """
    weight = np.ones(len(Z))
    if loss == "logistic":
        share = 1.0 / (1.0 + np.exp(-np.clip(Z @ w0, -700, 700)))
        weight = share * (1.0 - share)
    step = w1 - w0
    found: Float64s = ridge * step + Z.T @ (weight * (Z @ step))
    return found


def _cosine(a: Float64s, b: Float64s) -> float:
    length = float(np.linalg.norm(a) * np.linalg.norm(b))
    return abs(float(a @ b)) / length if length else 0.0


def _without_twin(X: Float64s) -> npt.NDArray[np.bool_]:
    """Rows whose direction no other row has."""
    Z = X / np.maximum(np.linalg.norm(X, axis=1, keepdims=True), 1e-300)
    alone: npt.NDArray[np.bool_] = np.linalg.norm(X, axis=1) > 0
    for low in range(0, len(Z), 2048):
        near = np.abs(Z[low : low + 2048] @ Z.T) > SAME_DIRECTION
        alone[low : low + 2048] &= near.sum(axis=1) <= 1
    return alone
