"""Candidates and what is measured of each: rows stored, classes among them, how good it is, time per deletion."""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike, Float64s, Matrix
from erasable.core.independent import rarity_of
from erasable.core.names import hashed_order
from erasable.errors import ConfigurationError
from erasable.estimators.trained import named_learner
from erasable.operations.plan.deletions import SCENARIOS, Survival, score_after
from erasable.operations.plan.rows import CLASSES, Estimator, HeldOut, Kind, Parameters, Sample
from erasable.operations.plan.targets import AnyScores, Effort, Metric

Make = Callable[[Parameters], Estimator]  # an estimator with these parameters and those that the caller fixed
LEVERAGE, INDEPENDENT = {"selection": "leverage"}, {"selection": "independent"}
BALANCE = 0.5  # tried where class shares are public
_MATCHES, _ALIKE = 2, 0.05  # thresholds tried to store as many rows, and how far the numbers may differ
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
    all_rows : float
        The same metric of the same model with every row stored.
    scores : dict
        Every metric, in the mean over the divisions.
    core_rows : tuple of int
        Core rows of each class, in the order of the sorted classes; for numbers, all core rows.
    final : float, optional
        The metric of the model learnt from all rows, on rows that it does not store. Without ``balance``, selection
        never looks at labels, so those rows tell as much as new ones. None where it was not measured, or too few rows
        are left.
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
    by_class: list[Float64s] = field(default_factory=list)  # core rows of each class at the horizon
    shares: list[float] = field(default_factory=list)  # of the rows learnt in each division
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
    def share(self) -> float:
        """The share of the rows learnt that is stored, in the mean over divisions."""
        return float(np.mean(self.shares))

    @property
    def stored_bytes(self) -> float:
        """Bytes stored at the horizon."""
        return self.other_bytes + self.row_bytes * self.stored_rows

    @property
    def closely(self) -> bool:
        """Whether it was scored on all divisions, and learnt all rows."""
        return self.whole is not None


@dataclass(frozen=True)
class SelectionScore:
    """One of both selections at about the storage of what is recommended, with the same head."""

    parameters: Parameters
    stored_share: float
    scores: dict[str, float]  # every metric on rows not learnt, in the mean over a few divisions
    # The metric of the targets after each of several deletions, in words; None if no row was left.
    after: dict[str, float | None]


def grid_of_candidates(
    effort: Effort, kind: Kind, *, metric: str, balances: Sequence[float] = (0.0,), learners: Sequence[Any] = ()
) -> list[list[list[Parameters]]]:
    """The parameters to try, and the one place that says which selections and heads are compared.

    Along each path more and more rows are stored; the last step of independent selection stores all. The candidates of
    one step store the same rows and differ in their head alone.
    """
    extra = {"class_weight": "balanced"} if weighs_classes(metric) else {}
    linear = {c: [head | extra for head in kind.heads(c)] for c in effort.capacities}
    trained: list[Parameters] = [{"learner": name} for name in learners]
    paths: list[list[list[Parameters]]] = []
    for c in effort.capacities:
        thresholds = [t for t in effort.thresholds if t < 1 / c]
        own = LEVERAGE | {"capacity": c}
        paths.append([[{**own, "threshold": t, **head} for head in (*linear[c], *trained)] for t in thresholds])
    heads = [*chain.from_iterable(linear.values()), *trained]
    for balance in balances:
        drawn = {"balance": balance} if balance else {}
        rates = effort.rates if balance else (*effort.rates, 1.0)
        paths.append([[{**INDEPENDENT, "rate": r, **drawn, **head} for head in heads] for r in rates])
    return paths


def weighs_classes(metric: str) -> bool:
    """Whether candidates give classes their weight: balanced accuracy asks for that, and probabilities suffer."""
    return metric == "balanced"


def checked_public(given: Parameters, sample: Sample) -> Parameters:
    """Public moments and class shares, checked; the latter by the codes of the classes.

    Raises ConfigurationError.
    """
    public = dict(given)
    if "moments" in public:
        rarity_of(public["moments"], int(sample.X.shape[1]))
    if "class_shares" in public:
        shares = public["class_shares"]
        named = {str(label): share for label, share in shares.items()} if isinstance(shares, Mapping) else {}
        if set(named) != {str(label) for label in sample.classes.tolist()}:
            raise ConfigurationError(
                f"class_shares must be a dictionary with the public share of each of the {sample.n_groups} classes of "
                "the rows, and of no others."
            )
        public["class_shares"] = {code: named[str(label)] for code, label in enumerate(sample.classes.tolist())}
    return public


def checked_learner(name: Any, kind: Kind) -> str:
    """The name of a learner that may be tried. Raises ConfigurationError if it is not of the allow-list."""
    return named_learner(str(name), classifies=kind is CLASSES)[0]


def used_of(public: Parameters, parameters: Parameters) -> Parameters:
    """The public parameters that a candidate uses."""
    names = ["moments"] if parameters.get("selection") == "independent" else []
    names += ["class_shares"] if parameters.get("balance") else []
    return {name: public[name] for name in names if name in public}


def maker(kind: Kind, fixed: Parameters, public: Parameters) -> Make:
    """The function that makes the estimator of a candidate, with what the caller fixed and what is public."""
    return lambda parameters: kind.estimator(**fixed, **used_of(public, parameters), **parameters)


def stores_all(parameters: Parameters) -> bool:
    """Whether every row is stored."""
    return bool(parameters.get("rate") == 1.0)


def head_of(parameters: Parameters) -> Parameters:
    """The parameters of the head alone; the capacity is one of them where nothing else regularises."""
    names = ["loss", "class_weight", "learner", "alpha"]
    names += [] if {"alpha", "learner"} & parameters.keys() else ["capacity"]
    return {name: parameters[name] for name in names if name in parameters}


def with_rate(parameters: Parameters, rate: float) -> Parameters:
    """The parameters of the same head behind independent selection; with rate 1 every row is stored."""
    return {**INDEPENDENT, "rate": rate, **head_of(parameters)}


def leverage_like(trial: Trial, trials: Sequence[Trial], *, at_horizon: bool) -> Parameters | None:
    """Leverage with the head and about the storage of a candidate, by the thresholds that were tried; or None."""
    own, head = trial.parameters, head_of(trial.parameters)
    if "threshold" in own:
        return own
    tried = [t for t in trials if "threshold" in t.parameters and head_of(t.parameters) == head]
    tried = [t for t in tried if t.parameters["capacity"] == tried[-1].parameters["capacity"]]
    sizes = {(t.stored_rows if at_horizon else t.share): t.parameters["threshold"] for t in tried}
    if not sizes:
        return None
    stored, thresholds = (np.log(v) for v in zip(*sorted(sizes.items()), strict=True))
    wanted = trial.stored_rows if at_horizon else trial.share
    threshold = float(np.exp(np.interp(math.log(wanted), stored, thresholds)))
    return {**tried[0].parameters, "threshold": float(f"{threshold:.3g}")}


def equal_storage(
    make: Make, own: Parameters, leverage: Parameters, part: Sample
) -> list[tuple[Estimator, Parameters]] | None:
    """A model by each selection that store about as many rows of a part; None if one of them stores none.

    Where ``own`` is not by leverage, the threshold of ``leverage`` is corrected once or twice.
    """
    rows = part.X, part.y, part.ids
    first = learnt(make, leverage, *rows)
    alone = own
    if "rate" not in own and first is not None:
        alone = with_rate(own, float(f"{first.n_core_ / part.n_rows:.3g}"))
    second = learnt(make, alone, *rows)
    for _ in range(_MATCHES if alone is own else 0):
        ratio = 1.0 if first is None or second is None else first.n_core_ / second.n_core_
        if abs(ratio - 1.0) > _ALIKE:
            leverage = {**leverage, "threshold": float(f"{leverage['threshold'] * ratio:.3g}")}
            first = learnt(make, leverage, *rows)
    return None if first is None or second is None else [(first, leverage), (second, alone)]


def scored_selection(
    clf: Estimator, parameters: Parameters, part: Sample, held_out: HeldOut, by: Metric, rng: np.random.Generator
) -> SelectionScore:
    """What a model that learnt ``part`` stores, how good it is, and how good after deletions."""
    scores = held_out.scores(clf)
    left = score_after(clf, part, held_out, rng)
    figures = {name: m.of(scores) for name, m in part.kind.metrics.items()}
    after = {name: by.of(left[name]) if name in left else None for name in SCENARIOS}
    return SelectionScore(parameters, clf.n_core_ / part.n_rows, figures, after)


def average(found: Sequence[SelectionScore]) -> SelectionScore:
    """The mean over divisions; what no row was left for in one of them has none."""
    scores = {name: float(np.mean([f.scores[name] for f in found])) for name in found[0].scores}
    after: dict[str, float | None] = {}
    for name in found[0].after:
        values = [value for f in found if (value := f.after[name]) is not None]
        after[name] = float(np.mean(values)) if len(values) == len(found) else None
    return SelectionScore(found[0].parameters, float(np.mean([f.stored_share for f in found])), scores, after)


def learnt(make: Make, parameters: Parameters, X: Matrix, y: npt.ArrayLike, ids: object) -> Estimator | None:
    """A model of these rows; None where it stores none."""
    with warnings.catch_warnings(action="ignore"):  # a candidate that is only tried warns of nothing
        fresh = make(parameters).fit(X, y, ids=ids)
    return fresh if fresh.n_core_ else None


def observe(trial: Trial, found: Estimator, part: Sample, held_out: HeldOut) -> None:
    """Enter what one division shows of a candidate."""
    trial.scores.append(held_out.scores(found))
    trial.by_class.append(_rows_at_horizon(found, np.asarray(found.core_ids_), part))
    trial.shares.append(found.n_core_ / part.n_rows)
    _measure_bytes(trial, found)


def _measure_bytes(trial: Trial, found: Estimator) -> None:
    rows = found.model_.core.nbytes
    trial.other_bytes, trial.row_bytes = found.stored_bytes_ - rows, rows / found.n_core_  # of sparse rows, on average


def observe_whole(trial: Trial, make: Make, sample: Sample, rng: np.random.Generator) -> None:
    """Enter what learning all rows stores, how good that model is, and how long forgetting a core row of it takes."""
    clf = learnt(make, trial.parameters, sample.X, sample.y, sample.ids)
    if clf is None:
        trial.whole = np.zeros(sample.n_groups)
        return
    position = {key: i for i, key in enumerate(_listed(sample.ids))}
    keys = _listed(clf.core_ids_)
    core = np.array([position[key] for key in keys])
    trial.whole = _rows_at_horizon(clf, core, sample)
    _measure_bytes(trial, clf)  # targets grow with the rows
    others = rng.permutation(np.setdiff1d(np.arange(sample.n_rows), core))
    if len(others) >= min(_JUDGED, sample.n_rows / 2) and sample.kind.differ(sample.y[others[:_SCORED]]):
        trial.final = HeldOut(sample.X[others[:_SCORED]], sample.y[others[:_SCORED]]).scores(clf)
    seconds = []
    clf.predict(sample.X[:1])
    time.sleep(0.1)  # threads of BLAS libraries fall asleep: awake they take a core from the calls that are timed
    for i in rng.permutation(len(keys))[: min(_TIMED, len(keys) - 1)].tolist():
        start = time.perf_counter()
        clf.forget_quietly([keys[i]])
        clf.predict(sample.X[:1])
        seconds.append(time.perf_counter() - start)
    trial.seconds = float(np.median(seconds)) if seconds else None


def _listed(keys: ColumnLike) -> list[Any]:
    return keys.tolist() if isinstance(keys, np.ndarray) else list(keys)


def _rows_at_horizon(clf: Estimator, core: npt.NDArray[np.intp], sample: Sample) -> Float64s:
    """Core rows of each class after ``horizon`` rows, from the positions of those of the sample."""
    counts = np.bincount(sample.groups[core], minlength=sample.n_groups).astype(np.float64)
    if clf.model_.selection.independent:  # what is stored grows with the rows
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
