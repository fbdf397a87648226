"""How many deletions a candidate survives: simulated, and as the paper bounds it."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from erasable.core.arrays import Float64s
from erasable.operations.plan._kinds import Estimator, Index
from erasable.operations.plan._metrics import Metric
from erasable.operations.plan._owners import n_subjects, requests
from erasable.operations.plan._sample import HeldOut, Sample
from erasable.operations.plan.bounds import capacity

# Shares of what can be deleted at which a model is scored: dense where few are deleted and where few are left.
STEPS = np.array(
    [
        *(0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4),
        *(0.48, 0.56, 0.64, 0.72, 0.8, 0.86, 0.91, 0.95, 0.98, 1.0),
    ]
)
_RESAMPLES = 200
_CONFIDENCE = 0.8


@dataclass(frozen=True)
class Survival:
    """Deletions until the tolerated loss is reached, from simulations.

    Attributes
    ----------
    deletions : int, optional
        Where the mean loss over all runs first reaches the tolerance, whatever it does after that. None: not within
        ``limit``.
    low, high : int, optional
        80% confidence band of that number, from resampling the runs. None: not within ``limit``.
    limit : int
        How many could be deleted at most: all rows, rows of the class, subjects or core rows.
    rows : int, optional
        Rows that go with those deletions, where a deletion is a subject.
    unit : str
        What a deletion is: ``rows``, ``subjects`` or ``core rows``.
    runs : int
        Simulated sequences of deletions.
    curve : tuple of (deletions, mean loss)
    """

    deletions: int | None
    low: int | None
    high: int | None
    limit: int
    rows: int | None
    unit: str
    runs: int
    curve: tuple[tuple[int, float], ...]

    def reaches(self, wanted: float) -> bool:
        """Whether so many deletions are survived, with the caution of the band's lower end."""
        return wanted <= (self.limit if self.low is None else self.low)

    def text(self) -> str:
        """The number with its band, or that it was never reached."""
        if self.deletions is None:
            after = "" if self.low is None else f" (possibly after {self.low:,})"
            return f"never within {self.limit:,}{after}"
        high = f"> {self.limit:,}" if self.high is None else f"{self.high:,}"
        return f"{self.deletions:,} ({self.low:,} to {high})"


@dataclass(frozen=True)
class Run:
    """One simulated sequence: losses and shares of rows gone at ``STEPS``, as shares of what could be deleted."""

    loss: Float64s
    rows: Float64s


@dataclass(frozen=True)
class Theoretical:
    """Core deletions that a bound allows.

    Attributes
    ----------
    core_deletions : float
        Below 1 where the bound says nothing.
    vacuous : bool
    source : str
        Which bound, and what was put in.
    """

    core_deletions: float
    vacuous: bool
    source: str


def simulate(
    clf: Estimator,
    part: Sample,
    held_out: HeldOut,
    distribution: str,
    *,
    metric: Metric,
    max_loss: float,
    rng: np.random.Generator,
) -> Run:
    """What is lost of a metric while rows are deleted from a copy of a model; of one without rows, all but a constant.

    Parameters
    ----------
    clf : ErasableClassifier or ErasableRegressor
        Learnt from ``part``, its rows named 0, 1, 2, ...; left as it is.
    part : Sample
        The rows it learnt.
    held_out : HeldOut
        The rows to score with.
    distribution : str
        One of ``DISTRIBUTIONS``.
    max_loss : float
        The simulation ends when several times this is lost.
    """
    rows, ends = draw_requests(clf, part, distribution, rng)
    model = copy.deepcopy(clf)
    core = np.zeros(part.n_rows, dtype=bool)
    core[clf.core_ids_] = True
    before = held_out.scores(model)
    share, loss, gone = [0.0], [0.0], [0.0]
    enough = max(5.0 * max_loss, 0.05)
    done = 0
    for step in np.unique(np.maximum(1, np.round(STEPS * len(ends)).astype(np.intp))).tolist():
        batch, done = rows[done : ends[step - 1]], int(ends[step - 1])
        batch = batch[core[batch]]
        if len(batch):
            model.forget_quietly(batch)  # a simulation warns of nothing
        share.append(step / len(ends))
        gone.append(done / part.n_rows)
        if not model.n_core_:
            loss.append(metric.lost(metric.of_constant(before), metric.of(before)))
        else:
            loss.append(metric.lost(metric.of(held_out.scores(model)), metric.of(before)) if len(batch) else loss[-1])
        if loss[-1] >= enough:
            break
    return Run(np.interp(STEPS, share, loss), np.interp(STEPS, share, gone))


def draw_requests(clf: Estimator, part: Sample, distribution: str, rng: np.random.Generator) -> tuple[Index, Index]:
    """Positions of rows in the order in which they are deleted, and where in it each request ends."""
    n = part.n_rows
    match distribution:
        case "worst":
            rows = rng.permutation(clf.core_ids_).astype(np.intp)
        case "label":
            rows = rng.permutation(np.flatnonzero(part.groups == part.delete_class))
        case "weights":
            assert part.weights is not None
            there = np.flatnonzero(part.weights > 0.0)
            # The order of exponential waiting times is that of drawing without replacement.
            rows = there[np.argsort(rng.standard_exponential(len(there)) / part.weights[there], kind="stable")]
        case "subject":
            return requests(part.owners, rng)
        case _:
            rows = rng.permutation(n)
    return rows, np.arange(1, len(rows) + 1)


def deletable(sample: Sample, distribution: str, stored_rows: float) -> tuple[int, str]:
    """How many deletions there can be at most at the horizon, and of what."""
    growth = sample.horizon / sample.n_rows
    match distribution:
        case "worst":
            return max(1, round(stored_rows)), "core rows"
        case "label":
            return round(growth * np.count_nonzero(sample.groups == sample.delete_class)), "rows"
        case "weights":
            assert sample.weights is not None
            return round(growth * np.count_nonzero(sample.weights)), "rows"
        case "subject":
            # Horizon over rows given: a sample of subjects, so that their number grows with the rows.
            return round(growth * n_subjects(sample.owners)), "subjects"
        case _:
            return sample.horizon, "rows"


def survival(
    runs: Sequence[Run], *, max_loss: float, limit: int, unit: str, horizon: int, random_state: int
) -> Survival:
    """What simulated runs say together."""
    losses = np.array([r.loss for r in runs])
    rng = np.random.default_rng(random_state)
    typical = crossing(losses.mean(axis=0), max_loss)
    drawn = rng.integers(len(runs), size=(_RESAMPLES, len(runs)))
    found = np.sort([crossing(losses[d].mean(axis=0), max_loss) for d in drawn])
    tail = round((1.0 - _CONFIDENCE) / 2.0 * _RESAMPLES)
    low, high = min(found[tail], typical), max(found[_RESAMPLES - 1 - tail], typical)
    gone = np.mean([r.rows for r in runs], axis=0)
    rows = None
    if unit == "subjects" and math.isfinite(typical):
        rows = round(horizon * float(np.interp(typical, np.append(0.0, STEPS), np.append(0.0, gone))))
    curve = [(round(limit * s), round(float(v), 6)) for s, v in zip(STEPS, losses.mean(axis=0), strict=True)]
    number = [None if math.isinf(x) else int(x * limit) for x in (typical, low, high)]
    return Survival(number[0], number[1], number[2], limit, rows, unit, len(runs), tuple(curve))


def crossing(loss: Float64s, max_loss: float) -> float:
    """The share of deletions at which a loss first reaches the tolerance; infinite if it does not.

    Between two looks the loss is taken to be linear, as it is drawn. A loss that falls again later does not count for
    it: who deletes that many has lost that much.
    """
    loss, share = np.append(0.0, loss), np.append(0.0, STEPS)
    above = np.flatnonzero(loss >= max_loss)
    if not len(above):
        return math.inf
    i = int(above[0])
    step = (max_loss - loss[i - 1]) / (loss[i] - loss[i - 1])
    return float(share[i - 1] + step * (share[i] - share[i - 1]))


def bound_of_theorem_4_3(
    horizon: int, threshold: float, n_columns: int, margin: float, delta: float = 0.05
) -> Theoretical:
    """Core deletions K that Theorem 4.3 allows, with explicit constants (:func:`capacity` in ``bounds``).

    Parameters
    ----------
    horizon, threshold, n_columns
        The paper's T, tau and d.
    margin : float
        The paper's epsilon: how far from the boundary rows are, at most 1.
    delta : float
        The probability that the bound fails.
    """
    bound = capacity(min(1.0, max(0.0, margin)), T=max(horizon, 2), d=n_columns, tau=threshold, delta=delta)
    put_in = f"with epsilon = {margin:.3g} (of the rows scored) and delta = {delta:g}"
    return Theoretical(bound.value, bound.vacuous, f"{bound.source} {put_in}")
