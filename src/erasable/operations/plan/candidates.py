"""Candidates and what is measured of each: rows stored, classes among them, how good it is, time per deletion."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike, Float64s, Matrix
from erasable.core.keyed_hash import hashed_order
from erasable.operations.plan.deletions import Survival
from erasable.operations.plan.rows import Estimator, HeldOut, Kind, Parameters, Sample
from erasable.operations.plan.targets import AnyScores, Effort

_JUDGED = 200  # rows that the model of all rows does not store, to judge it by; of few rows, half
_SCORED = 5_000  # rows that the model of all rows is scored on
_TIMED = 15  # core rows forgotten one at a time to see how long one takes


@dataclass(frozen=True)
class Band:
    """A mean over divisions of the rows, and the lowest and highest value among them."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Band:
        """The band of these values."""
        return cls(float(np.mean(values)), float(np.min(values)), float(np.max(values)))


@dataclass(frozen=True)
class Candidate:
    """A choice of parameters and what was measured of it.

    Attributes
    ----------
    parameters : dict
        Of ``ErasableClassifier`` or ``ErasableRegressor``.
    stored_rows, stored_bytes : int
        At the horizon.
    stored_share : float
    value : Band
        The metric of the targets on rows not learnt, before any deletion.
    all_rows, random_rows : float
        The same metric of the same model with every row stored, and with as many random rows as this one stores.
    scores : dict
        Every metric, in the mean over the divisions.
    core_rows : tuple of int
        Core rows of each class, in the order of the sorted classes; for numbers, all core rows.
    final : float, optional
        The metric of the model learnt from all rows, on rows that it does not store. Selection never looks at labels,
        so those rows tell as much as new ones. None where it was not measured, or too few rows are left.
    seconds_per_deletion : float, optional
        Until the model can predict again after one core row was forgotten, on this machine.
    survival : Survival, optional
        None where deletions were not simulated.
    """

    parameters: Parameters
    stored_rows: int
    stored_share: float
    stored_bytes: int
    value: Band
    all_rows: float
    random_rows: float
    scores: dict[str, float]
    core_rows: tuple[int, ...]
    final: float | None = None
    seconds_per_deletion: float | None = field(default=None, compare=False)
    survival: Survival | None = None


@dataclass(eq=False, repr=False)
class Trial:
    """Measurements of one candidate as they come in; each list has one entry for a division of the rows."""

    parameters: Parameters
    scores: list[AnyScores] = field(default_factory=list)
    random: list[AnyScores] = field(default_factory=list)
    by_class: list[Float64s] = field(default_factory=list)  # core rows of each class at the horizon
    whole: Float64s | None = None  # the same, from all rows
    row_bytes: float = 0.0
    other_bytes: int = 0
    seconds: float | None = None
    final: AnyScores | None = None  # of the model of all rows, on rows that it does not store
    survival: Survival | None = None

    @property
    def core_rows(self) -> Float64s:
        """Rows of each class stored at the horizon."""
        return np.asarray(np.mean(self.by_class, axis=0) if self.whole is None else self.whole)

    @property
    def stored_rows(self) -> float:
        """Rows stored at the horizon."""
        return float(self.core_rows.sum())

    @property
    def stored_bytes(self) -> float:
        """Bytes stored at the horizon."""
        return self.other_bytes + self.row_bytes * self.stored_rows

    @property
    def closely(self) -> bool:
        """Whether it was scored on all divisions, and learnt all rows."""
        return self.whole is not None


def grid_of_candidates(effort: Effort, kind: Kind, *, metric: str, named: bool) -> list[list[list[Parameters]]]:
    """The parameters to try, and the one place that says which selections and heads are compared.

    Along each path more and more rows are stored; the last step of those by leverage stores all. The candidates of one
    step store the same rows and differ in their head alone. A sample is drawn by ids, so it is tried only where rows
    are ``named``.
    """
    extra = {"class_weight": "balanced"} if metric == "balanced" else {}
    paths = []
    for capacity in effort.capacities:
        thresholds = [*(t for t in effort.thresholds if t < 1 / capacity), 0.0]
        selections: list[list[Parameters]] = [[{"threshold": t} for t in thresholds]]
        selections += [[{"threshold": math.inf, "sample_rate": r} for r in effort.rates]] if named else []
        paths += [
            [[{**head, "capacity": capacity, **selection, **extra} for head in kind.heads] for selection in path]
            for path in selections
        ]
    return paths


def storing_all(parameters: Parameters) -> Parameters:
    """The parameters with which the same model stores every row."""
    return {name: value for name, value in parameters.items() if name != "sample_rate"} | {"threshold": 0.0}


def learnt(model: Estimator, parameters: Parameters, X: Matrix, y: npt.ArrayLike, ids: object) -> Estimator | None:
    """A model of these rows; None where it stores none."""
    fresh = type(model)(**{**model.get_params(), **parameters})
    with warnings.catch_warnings(action="ignore"):  # a candidate that is only tried warns of nothing
        fresh.fit(X, y, ids=ids)
    return fresh if fresh.n_core_ else None


def observe(trial: Trial, found: Estimator, part: Sample, held_out: HeldOut, *, rng: np.random.Generator) -> None:
    """Enter what one division shows of a candidate, and of as many random rows."""
    core = np.asarray(found.core_ids_)
    trial.scores.append(held_out.scores(found))
    trial.by_class.append(_rows_at_horizon(found, core, part))
    c, classes = found.model_.configuration, found.model_.classes_with_rows()
    sums, functions, columns = len(c.head.sum_order(c, classes)), c.head.n_functions(c, classes), part.grid.n_columns
    trial.other_bytes = (8 * columns + 8 * sums + 4 * functions) * columns  # sums and weights
    trial.row_bytes = (found.stored_bytes_ - trial.other_bytes) / found.n_core_  # of sparse rows, on average
    if trial.parameters["threshold"] == math.inf or len(core) == part.n_rows:  # these are random rows
        trial.random.append(trial.scores[-1])
        return
    drawn = np.sort(rng.permutation(part.n_rows)[: len(core)])
    other = learnt(found, storing_all(trial.parameters), part.X[drawn], part.y[drawn], drawn)
    trial.random.append(trial.scores[-1] if other is None else held_out.scores(other))  # None: all of them are zero


def observe_whole(trial: Trial, model: Estimator, sample: Sample, rng: np.random.Generator) -> None:
    """Enter what learning all rows stores, how good that model is, and how long forgetting a core row of it takes."""
    clf = learnt(model, trial.parameters, sample.X, sample.y, sample.ids)
    if clf is None:
        trial.whole = np.zeros(sample.n_groups)
        return
    position = {key: i for i, key in enumerate(_listed(sample.ids))}
    keys = _listed(clf.core_ids_)
    core = np.array([position[key] for key in keys])
    trial.whole = _rows_at_horizon(clf, core, sample)
    others = rng.permutation(np.setdiff1d(np.arange(sample.n_rows), core))
    if len(others) >= min(_JUDGED, sample.n_rows / 2) and sample.kind.differ(sample.y[others[:_SCORED]]):
        trial.final = HeldOut(sample.X[others[:_SCORED]], sample.y[others[:_SCORED]]).scores(clf)
    seconds = []
    _ = clf.coef_
    time.sleep(0.1)  # threads of BLAS libraries fall asleep: awake they take a core from the calls that are timed
    for i in rng.permutation(len(keys))[: min(_TIMED, len(keys) - 1)].tolist():
        start = time.perf_counter()
        clf.forget_quietly([keys[i]])
        _ = clf.coef_
        seconds.append(time.perf_counter() - start)
    trial.seconds = float(np.median(seconds)) if seconds else None


def _listed(keys: ColumnLike) -> list[Any]:
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys)


def _rows_at_horizon(clf: Estimator, core: npt.NDArray[np.intp], sample: Sample) -> Float64s:
    """Core rows of each class after ``horizon`` rows, from the positions of those of the sample."""
    counts = np.bincount(sample.groups[core], minlength=sample.n_groups).astype(np.float64)
    if clf.threshold_ == math.inf:  # a sample grows with the rows
        return counts * (sample.horizon / sample.n_rows)
    order = np.arange(sample.n_rows)
    if clf.model_.order_key is not None:
        order[hashed_order(sample.ids, clf.model_.order_key)] = np.arange(sample.n_rows)
    return counts * (rows_at(order[core], sample.n_rows, sample.horizon) / len(core))


def rows_at(core: npt.NDArray[np.intp], n: int, horizon: int) -> float:
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
