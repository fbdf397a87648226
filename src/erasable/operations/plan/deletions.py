"""How many deletions a candidate survives: simulated, until the tolerated loss is reached."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Float64s
from erasable.operations.plan.rows import Estimator, HeldOut, Index, Sample
from erasable.operations.plan.targets import AnyScores, Metric

# Shares of what can be deleted at which a model is scored: dense where few are deleted and where few are left.
STEPS = np.array(
    [
        *(0.005, 0.01, 0.02, 0.03, 0.05, 0.07, 0.1, 0.14, 0.19, 0.25, 0.32, 0.4),
        *(0.48, 0.56, 0.64, 0.72, 0.8, 0.86, 0.91, 0.95, 0.98, 1.0),
    ]
)
#: Deletions after which both selections are compared: of which rows, and how many of them.
SCENARIOS = {
    "half of all rows": ("uniform", 0.5),
    "half of the stored rows": ("worst", 0.5),
    "the rarest tenth": ("rarest", 0.1),
}
_RESAMPLES = 200
_CONFIDENCE = 0.8


@dataclass(frozen=True)
class Survival:
    """Deletions until the tolerated loss is reached, from simulations."""

    # Where the mean loss over all runs first reaches the tolerance, whatever it does after that. None: not within
    # ``limit``.
    deletions: int | None
    # low, high: 80% confidence band of that number, from resampling the runs. None: not within ``limit``.
    low: int | None
    high: int | None
    limit: int  # how many could be deleted at most: all rows, rows of the class, subjects or core rows
    rows: int | None  # rows that those deletions remove, where a deletion is a subject
    unit: str  # what a deletion is: ``rows``, ``subjects`` or ``core rows``
    runs: int  # simulated sequences of deletions
    curve: tuple[tuple[int, float], ...]

    @property
    def lasting(self) -> int:
        """Deletions that are survived, with the caution of the band's lower end."""
        return self.limit if self.low is None else self.low

    def text(self) -> str:
        """The number with its band, or that it was never reached."""
        if self.deletions is None:
            after = "" if self.low is None else f" (possibly after {self.low:,})"
            return f"never within {self.limit:,}{after}"
        high = f"> {self.limit:,}" if self.high is None else f"{self.high:,}"
        return f"{self.deletions:,} ({self.low:,} to {high})"


class Run(NamedTuple):
    """One simulated sequence: losses and shares of rows deleted at ``STEPS``, as shares of what could be deleted."""

    loss: Float64s
    rows: Float64s


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
    """What is lost of a metric while rows are deleted from a copy of ``clf``, which learnt ``part``.

    A model without rows is scored as a constant. The simulation ends when several times ``max_loss`` is lost.
    """
    rows, ends = draw_requests(clf, part, distribution, rng)
    model = copy.deepcopy(clf)
    core = np.zeros(part.n_rows, dtype=bool)
    core[clf.core_ids_] = True
    before = held_out.scores(model)
    share, loss, deleted = [0.0], [0.0], [0.0]
    enough = max(5.0 * max_loss, 0.05)
    done = 0
    for step in np.unique(np.maximum(1, np.round(STEPS * len(ends)).astype(np.intp))).tolist():
        batch, done = rows[done : ends[step - 1]], int(ends[step - 1])
        batch = batch[core[batch]]
        if len(batch):
            model.forget_quietly(batch)  # a simulation warns of nothing
        share.append(step / len(ends))
        deleted.append(done / part.n_rows)
        if not model.n_core_:
            loss.append(metric.lost(metric.of_constant(before), metric.of(before)))
        else:
            loss.append(metric.lost(metric.of(held_out.scores(model)), metric.of(before)) if len(batch) else loss[-1])
        if loss[-1] >= enough:
            break
    return Run(np.interp(STEPS, share, loss), np.interp(STEPS, share, deleted))


def score_after(clf: Estimator, part: Sample, held_out: HeldOut, rng: np.random.Generator) -> dict[str, AnyScores]:
    """Scores of a model that learnt ``part`` after each of the fixed deletions of :data:`SCENARIOS`.

    A model without rows is not scored.
    """
    found = {}
    for name, (distribution, share) in SCENARIOS.items():
        rows, _ = draw_requests(clf, part, distribution, rng)
        model = copy.deepcopy(clf)
        model.forget_quietly(rows[: round(share * len(rows))])
        if model.n_core_:
            found[name] = held_out.scores(model)
    return found


def draw_requests(clf: Estimator, part: Sample, distribution: str, rng: np.random.Generator) -> tuple[Index, Index]:
    """Positions of rows in the order in which they are deleted, and where in it each request ends."""
    match distribution:
        case "worst":
            rows = rng.permutation(clf.core_ids_).astype(np.intp)
        case "label":
            rows = rng.permutation(np.flatnonzero(part.groups == part.delete_class))
        case "weights":
            assert part.weights is not None
            positive = np.flatnonzero(part.weights > 0.0)
            # The order of exponential waiting times is that of drawing without replacement.
            waits = rng.standard_exponential(len(positive)) / part.weights[positive]
            rows = positive[np.argsort(waits, kind="stable")]
        case "rarest":
            rows = np.argsort(-part.rarity(), kind="stable")
        case "subject":
            assert part.owners is not None
            return subject_requests(part.owners, rng)
        case _:
            rows = rng.permutation(part.n_rows)
    return rows, np.arange(1, len(rows) + 1)


def subject_requests(owners: sp.csr_array, rng: np.random.Generator) -> tuple[Index, Index]:
    """Rows in the order in which subjects, asking in a random order, have them deleted, and where each request ends.

    A row of several subjects is deleted when the first of them asks; a later request may find no row left.
    """
    there, codes = np.unique(owners.indices, return_inverse=True)
    owned = np.flatnonzero(np.diff(owners.indptr))
    turn = np.minimum.reduceat(rng.permutation(len(there))[codes], owners.indptr[owned])
    return owned[np.argsort(turn, kind="stable")], np.cumsum(np.bincount(turn, minlength=len(there)))


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
        case "subject":  # the rows are a sample of subjects, whose number grows with the rows
            assert sample.owners is not None
            return round(growth * len(np.unique(sample.owners.indices))), "subjects"
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
    rows = None
    if unit == "subjects" and math.isfinite(typical):
        deleted = np.mean([r.rows for r in runs], axis=0)
        rows = round(horizon * float(np.interp(typical, np.append(0.0, STEPS), np.append(0.0, deleted))))
    curve = [(round(limit * s), round(float(v), 6)) for s, v in zip(STEPS, losses.mean(axis=0), strict=True)]
    number = [None if math.isinf(x) else int(x * limit) for x in (typical, low, high)]
    return Survival(number[0], number[1], number[2], limit, rows, unit, len(runs), tuple(curve))


def crossing(loss: Float64s, max_loss: float) -> float:
    """The share of deletions at which a loss first reaches the tolerance; infinite if it does not.

    Between two steps the loss is taken to be linear, as it is drawn. That it falls again later does not count.
    """
    loss, share = np.append(0.0, loss), np.append(0.0, STEPS)
    above = np.flatnonzero(loss >= max_loss)
    if not len(above):
        return math.inf
    i = int(above[0])
    step = (max_loss - loss[i - 1]) / (loss[i] - loss[i - 1])
    return float(share[i - 1] + step * (share[i] - share[i - 1]))
