"""Candidates and what is measured of each: rows stored, classes among them, accuracy, time per deletion."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_solve

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid
from erasable.core.keyed_hash import hashed_order
from erasable.core.solve import factorise
from erasable.errors import ConfigurationError
from erasable.estimators import ErasableClassifier
from erasable.operations.plan._sample import HeldOut, Sample, blocks
from erasable.operations.plan._survival import Run, Survival

SLACK = 1.05  # storage known from a part of the rows may be off by this factor
_TIMED = 15  # core rows forgotten one at a time to see how long one takes
_CEILING = 0.5  # share of rows beyond which storing a core set has little point, where the caller sets no limit
_FURTHER = 1.5  # a path is left once it stores so many times as much as an accurate candidate of another


@dataclass(frozen=True)
class Band:
    """A mean over divisions of the rows, and the lowest and highest value met."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band:
        """The band of these values."""
        return cls(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


@dataclass(frozen=True)
class Candidate:
    """A choice of parameters and what it was measured to give.

    Attributes
    ----------
    capacity, kappa, threshold : float
        Of ``ErasableClassifier``.
    stored_rows, stored_bytes : int
        At the horizon.
    stored_share : float
    accuracy, balanced : Band
        Accuracy and balanced accuracy on rows not learnt, before any deletion.
    core_shares : tuple of float
        Share of each class among the core rows, in the order of the sorted classes.
    seconds_per_deletion : float, optional
        Until the model can predict again after one core row was forgotten; measured here and now.
    survival : Survival, optional
        None where deletions were not simulated.
    """

    capacity: float
    kappa: float
    threshold: float
    stored_rows: int
    stored_share: float
    stored_bytes: int
    accuracy: Band
    balanced: Band
    core_shares: tuple[float, ...]
    seconds_per_deletion: float | None = field(default=None, compare=False)
    survival: Survival | None = None


@dataclass(eq=False, repr=False)
class Trial:
    """Measurements of one candidate as they come in."""

    capacity: float
    kappa: float
    threshold: float = 0.0
    stored: list[float] = field(default_factory=list)  # rows at the horizon, from each division
    accuracy: list[float] = field(default_factory=list)
    balanced: list[float] = field(default_factory=list)
    core_shares: list[Float64s] = field(default_factory=list)
    margins: list[float] = field(default_factory=list)
    runs: list[Run] = field(default_factory=list)
    whole: float | None = None  # rows at the horizon, from all rows
    row_bytes: float = 0.0
    other_bytes: int = 0
    seconds: float | None = None
    survival: Survival | None = None

    @property
    def stored_rows(self) -> float:
        """Rows stored at the horizon."""
        return float(np.mean(self.stored)) if self.whole is None else self.whole

    @property
    def stored_bytes(self) -> float:
        """Bytes stored at the horizon."""
        return self.other_bytes + self.row_bytes * self.stored_rows

    @property
    def mean_accuracy(self) -> float:
        """Mean accuracy over the divisions."""
        return float(np.mean(self.accuracy))

    def record(self, horizon: int) -> Candidate:
        """The measurements as a frozen record."""
        shares = np.mean(self.core_shares, axis=0)
        return Candidate(
            self.capacity,
            self.kappa,
            self.threshold,
            round(self.stored_rows),
            self.stored_rows / horizon,
            round(self.stored_bytes),
            Band.of(self.accuracy),
            Band.of(self.balanced),
            tuple(float(s) for s in shares),
            self.seconds,
            self.survival,
        )


@dataclass(eq=False, repr=False)
class Path:
    """Candidates of one capacity with rising kappa, and so rising storage."""

    capacity: float
    kappas: tuple[float, ...]
    at: int = 0
    reached: int = 0  # candidates in a row that are accurate enough
    ended: bool = False

    def step(self) -> float | None:
        """The next kappa, or None at the end."""
        if self.ended or self.at == len(self.kappas):
            return None
        self.at += 1
        return self.kappas[self.at - 1]


def fitted(model: ErasableClassifier, part: Sample, capacity: float, kappa: float) -> ErasableClassifier | None:
    """A model learnt from the rows with the horizon's threshold; None where nothing is selected."""
    parameters = {**model.get_params(), "capacity": capacity, "kappa": kappa, "horizon": part.horizon}
    clf = ErasableClassifier(**parameters)
    try:
        clf.fit(part.X, part.y)
    except ConfigurationError:  # the threshold is above every leverage
        return None
    return clf if clf.n_core_ else None


def observe(trial: Trial, clf: ErasableClassifier, part: Sample, held_out: HeldOut, max_loss: float) -> None:
    """Enter what one division shows."""
    accuracy, balanced = held_out.scores(clf)
    trial.threshold = clf.threshold_
    trial.accuracy.append(accuracy)
    trial.balanced.append(balanced)
    trial.margins.append(held_out.margin(clf, max_loss))
    core = clf.core_ids_
    trial.core_shares.append(np.bincount(part.y[core], minlength=part.n_classes) / len(core))
    trial.stored.append(rows_at(turns_of(clf, part.n_rows), part.n_rows, part.horizon))
    columns, k = part.grid.n_columns, len(clf.classes_)
    trial.other_bytes = 8 * columns**2 + (8 * k + 4 * (k if k > 2 else 1)) * columns  # sums and weights
    trial.row_bytes = (clf.stored_bytes_ - trial.other_bytes) / clf.n_core_  # of sparse rows, on average


def observe_whole(trial: Trial, model: ErasableClassifier, sample: Sample, rng: np.random.Generator) -> None:
    """Enter what learning all rows stores, and how long forgetting a core row of that takes."""
    clf = fitted(model, sample, trial.capacity, trial.kappa)
    if clf is None:
        return
    core = clf.core_ids_
    trial.whole = rows_at(turns_of(clf, sample.n_rows), sample.n_rows, sample.horizon)
    seconds = []
    _ = clf.coef_
    time.sleep(0.1)  # threads of BLAS libraries fall asleep: awake they take a core from whoever comes next
    for key in rng.permutation(core)[: min(_TIMED, len(core) - 1)].tolist():
        start = time.perf_counter()
        clf.forget_quietly([key])
        _ = clf.coef_
        seconds.append(time.perf_counter() - start)
    trial.seconds = float(np.median(seconds)) if seconds else None


def turns_of(clf: ErasableClassifier, n: int) -> npt.NDArray[np.intp]:
    """When the core rows had their turns among n rows, which are known by their positions."""
    core, key, turns = clf.core_ids_, clf.model_.order_key, np.arange(n)
    if key is not None:
        turns[hashed_order(range(n), key)] = np.arange(n)
    found: npt.NDArray[np.intp] = turns[core]
    return found


def rows_at(core: npt.NDArray[Any], n: int, horizon: int) -> float:
    """Rows that will have been selected after ``horizon`` rows, from the turns of those selected among ``n``.

    With a fixed threshold the number of selected rows grows ever more slowly: from one doubling of the rows to the
    next, its logarithm grows by less. The ratio of the last two growths is taken to stay as it is.
    """
    counts = [int(np.count_nonzero(core < n / k)) for k in (1, 2, 4)]
    if horizon == n or not counts[1]:
        return float(counts[0]) * (1.0 if horizon == n else horizon / n)
    doublings = math.log2(horizon / n)
    growth = math.log2(counts[0] / counts[1])
    before = math.log2(counts[1] / counts[2]) if counts[2] else 1.0
    ratio = min(1.0, growth / before) if before > 0.0 else 0.0
    if counts[2] < 30:
        ratio = 1.0  # too few to tell
    ahead = doublings if ratio == 1.0 else ratio * (1.0 - ratio**doublings) / (1.0 - ratio)
    return float(min(horizon, counts[0] * 2.0 ** (growth * ahead)))


def explore(
    paths: list[Path],
    parts: Sequence[tuple[Sample, HeldOut]],
    model: ErasableClassifier,
    *,
    reference: float,
    max_loss: float,
    max_share: float | None,
    steps: int | None = None,
    watch: Any = lambda *_: None,
) -> list[Trial]:
    """Measure candidates along each path, until it stores too much or more storage is not needed for accuracy.

    Parameters
    ----------
    steps : int, optional
        Go on so many steps on each path whatever the accuracy: more storage may still survive more deletions.
    """
    found: list[Trial] = []
    most = _CEILING if max_share is None else max_share
    least = math.inf  # storage of the smallest candidate that is accurate enough
    for i, path in enumerate(paths):
        taken = 0
        while True:
            if (taken == steps if steps is not None else path.reached >= 2) or (kappa := path.step()) is None:
                break
            watch("trying candidates", i * len(path.kappas) + path.at, len(paths) * len(path.kappas))
            taken += 1
            trial = Trial(path.capacity, kappa)
            for part, held_out in parts:
                clf = fitted(model, part, path.capacity, kappa)
                if clf is not None:
                    observe(trial, clf, part, held_out, max_loss)
            if len(trial.accuracy) < len(parts):
                continue
            found.append(trial)
            accurate = trial.mean_accuracy >= reference - max_loss
            path.reached = path.reached + 1 if accurate else 0
            least = min(least, trial.stored_rows) if accurate else least
            path.ended = trial.stored_rows > SLACK * most * parts[0][0].horizon
            if path.ended or (steps is None and trial.stored_rows > _FURTHER * least):
                break
    watch("trying candidates", 1, 1)
    return found


def pareto(trials: Sequence[Trial]) -> list[Trial]:
    """Those that no other beats in both storage and accuracy, with the least storage first."""
    best, kept = -1.0, []
    for trial in sorted(trials, key=lambda t: (t.stored_rows, -t.mean_accuracy)):
        if trial.mean_accuracy > best:
            kept.append(trial)
            best = trial.mean_accuracy
    return kept


def ridge_on_all(part: Sample, held_out: HeldOut, capacities: Sequence[float]) -> list[float]:
    """Accuracy of the same classifier with every row stored, for each capacity: what storing less is compared with."""
    A, B = _sums(part)
    signs = 2.0 * B - B.sum(axis=1, keepdims=True)
    found = []
    for capacity in capacities:
        H = A.copy(order="F")
        H.flat[:: len(H) + 1] += capacity
        factor = factorise(H, overwrite=True)
        assert factor is not None  # a Gram matrix plus a positive diagonal
        W = cho_solve((factor, True), signs)
        found.append(held_out.judge(np.argmax(_rows_with_constant(held_out.Z, part.grid) @ W, axis=1))[0])
    return found


def _sums(part: Sample) -> tuple[Float64s, Float64s]:
    """The Gram matrix of all rows, and their sums by class, one column each."""
    d = part.grid.n_columns
    A, B = np.zeros((d, d)), np.zeros((d, part.n_classes))
    for low, scaled in blocks(part.X, part.grid):
        Z = _rows_with_constant(scaled, part.grid)
        A += Z.T @ Z
        B += Z.T @ (part.y[low : low + len(Z), None] == np.arange(part.n_classes))
    return A, B


def _rows_with_constant(Z: npt.NDArray[Any], grid: Grid) -> Float64s:
    Z = Z.astype(np.float64) * grid.stretch
    if not grid.intercept:
        return Z
    return np.column_stack([Z, np.full(len(Z), math.ldexp(grid.constant, -grid.bits))])
