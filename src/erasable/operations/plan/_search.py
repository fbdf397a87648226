"""From rows and targets to a plan: try all candidates, then the least storage that meets every target."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from erasable.core.arrays import Float64s
from erasable.errors import ConfigurationError
from erasable.operations.plan._candidates import (
    FEW,
    Candidate,
    Trial,
    fitted,
    grid_of_candidates,
    mean_of,
    observe,
    observe_whole,
    storing_all,
    try_candidates,
)
from erasable.operations.plan._kinds import AnyScores, Estimator, Parameters
from erasable.operations.plan._metrics import Metric
from erasable.operations.plan._sample import SMALL, HeldOut, Sample
from erasable.operations.plan._survival import deletable, simulate, survival
from erasable.operations.plan._targets import Effort, Targets

Watch = Callable[[str, int, int], None]
_SLACK = 1.05  # storage known from a part of the rows may be off by this factor
_DOUBT = 0.5  # a loss known from few divisions may be off by this much of what is tolerated,
_ERRORS = 2.0  # or by so many standard errors
_RUNS = 6  # simulated sequences of deletions at least
_FEW_ROWS, _MORE = 1_000, 2.0  # with fewer rows there are more divisions, up to so many times as many
_FURTHER = 1.2  # after a candidate that lasts too short a time, the next one stores this many times as much


class Planner:
    """Working memory of one plan."""

    def __init__(
        self,
        sample: Sample,
        model: Estimator,
        targets: Targets,
        effort: Effort,
        random_state: int,
        watch: Watch,
    ) -> None:
        self.sample, self.model, self.targets, self.metric = sample, model, targets, targets.by
        self.effort, self.random_state, self.watch = effort, random_state, watch
        self.n_tried, self.n_splits = effort.tried, effort.splits
        if sample.n_rows < SMALL:
            more = min(_MORE, max(1.0, _FEW_ROWS / sample.n_rows))
            self.n_tried, self.n_splits = (round(more * n) for n in (effort.small_tried, effort.small_splits))
        self.paths = grid_of_candidates(effort, sample.kind, metric=targets.metric, named=sample.named)
        self.trials: list[Trial] = []
        self._parts: dict[int, tuple[Sample, HeldOut]] = {}

    def part(self, i: int) -> tuple[Sample, HeldOut]:
        """The i-th division of the rows."""
        if i in self._parts:
            return self._parts[i]
        found = self.sample.divide(np.random.default_rng([self.random_state, 1, i]), self.effort.numbers)
        if i < self.n_tried:
            self._parts[i] = found
        return found

    def _storing_all(self, parameters: Parameters, n: int) -> Sequence[AnyScores]:
        """Scores of the same model with every row stored, on the first divisions."""
        wanted = storing_all(parameters)
        trial = next(trial for trial in self.trials if trial.parameters == wanted)
        self._score(trial, n)
        return trial.scores[:n]

    def _reference(self, n: int, by: Metric) -> Sequence[AnyScores]:
        bases = [trial for trial in self.trials if trial.parameters["threshold"] == 0.0]
        best = min(bases, key=lambda base: by.lost(mean_of(by, base.scores[: self.n_tried]), 0.0))
        return self._storing_all(best.parameters, n)

    def reference(self, n: int, metric: Metric | None = None) -> float:
        """The best that any of these models does with every row stored: what a loss is counted from."""
        by = metric or self.metric
        return mean_of(by, self._reference(n, by))

    def constant(self, n: int, metric: Metric | None = None) -> float:
        """The metric of the best constant on the first divisions."""
        by = metric or self.metric
        return float(np.mean([by.of_constant(s) for s in self._reference(n, by)]))

    def gain(self, metric: Metric | None = None) -> float:
        """By how much every row stored is better than a constant, on all divisions."""
        by = metric or self.metric
        return by.lost(self.constant(self.n_splits, by), self.reference(self.n_splits, by))

    def losses(self, trial: Trial) -> Float64s:
        """What a candidate loses against every row stored, division by division."""
        by, whole = self.metric, self._reference(len(trial.scores), self.metric)
        return np.array([by.lost(by.of(s), by.of(w)) for s, w in zip(trial.scores, whole, strict=False)])

    # -- trying --------------------------------------------------------------------------------------------------

    def search(self) -> Trial | None:
        """The candidate with the least storage that meets all targets; None where none does.

        Raises
        ------
        ConfigurationError
            When no candidate stores any rows, or there are fewer rows to delete than are expected to be deleted.
        """
        self._check_there_are_enough()
        self.trials = try_candidates(
            self.paths,
            [self.part(i) for i in range(self.n_tried)],
            self.model,
            max_loss=self.targets.max_loss,
            random_state=self.random_state,
            watch=self.watch,
        )
        if not self.trials:
            raise ConfigurationError(
                "no candidate selects any rows: the rows are all zero, or far shorter than scaling= says. Give more "
                "rows, or a smaller number."
            )
        if self.gain() <= self.targets.max_loss:  # a constant would do
            return None
        least, simulated = 0.0, 0
        while simulated < self.effort.simulated and (trial := self._next(least, last=not simulated)) is not None:
            self.look_closer(trial)
            if not self.is_able(trial):
                continue
            self._simulate(trial)
            if self.survives(trial):
                return trial
            least, simulated = _FURTHER * trial.stored_rows, simulated + 1
        return None

    def _next(self, least: float, *, last: bool) -> Trial | None:
        """What to look at next: of the candidates that seem able and store as much as ``least``, the smallest.

        Where none does, the ``last`` is the one that comes closest, unless that was looked at already: before no
        candidate is called good enough, that one is known as well as it can be.
        """
        able = [t for t in self.by_storage() if t.stored_rows >= least and not t.closely and self.is_able(t)]
        if able or not last:
            return able[0] if able else None
        closest = self.closest()
        return None if closest is None or closest.closely else closest

    def closest(self) -> Trial | None:
        """The candidate that stores little and comes closest to the other targets; None where all store too much.

        Of those that lose little, the one that misses least of the classes; otherwise the one that loses least, and
        misses none if there is such a one.
        """
        little = [trial for trial in self.by_storage() if self.stores_little(trial)]
        good = [trial for trial in little if self.is_good(trial)]
        if good:
            return max(good, key=lambda trial: (-len(self.missing(trial)), min(trial.core_rows)))
        whole = [trial for trial in little if self.holds_classes(trial)]
        return min(whole or little, key=lambda trial: self.losses(trial).mean(), default=None)

    def by_storage(self) -> list[Trial]:
        """All candidates, those that store least first."""
        return sorted(self.trials, key=lambda trial: trial.stored_rows)

    def record(self, trial: Trial) -> Candidate:
        """What was measured of a candidate."""
        all_rows = mean_of(self.metric, self._storing_all(trial.parameters, len(trial.scores)))
        reference = self._reference(self.n_splits, self.metric)
        return trial.record(self.sample.horizon, self.metric, self.sample.kind, all_rows, reference)

    def _score(self, trial: Trial, n: int) -> None:
        """Score a candidate on the first n divisions."""
        for i in range(len(trial.scores), n):
            self.watch("scoring again", i, n)
            part, held_out = self.part(i)
            found = fitted(self.model, trial.parameters, part)
            if found is None:
                trial.whole = np.zeros(self.sample.n_groups)  # it may store nothing, so there is no more to see
                return
            rng = np.random.default_rng([self.random_state, 4, i])
            observe(trial, found, part, held_out, model=self.model, max_loss=self.targets.max_loss, rng=rng)

    def look_closer(self, trial: Trial) -> None:
        """Score a candidate on all divisions, and see what learning all rows stores."""
        if not trial.closely:
            self._score(trial, self.n_splits)
        if not trial.closely:
            observe_whole(trial, self.model, self.sample, np.random.default_rng([self.random_state, 3]))
            self.watch("scoring again", 1, 1)

    def _simulate(self, trial: Trial) -> None:
        t, orders = self.targets, max(self.effort.orders, math.ceil(_RUNS / self.n_splits))
        for i in range(self.n_splits):
            part, held_out = self.part(i)
            clf = fitted(self.model, trial.parameters, part)
            for order in range(orders if clf is not None else 0):
                assert clf is not None
                self.watch("simulating deletions", i * orders + order, self.n_splits * orders)
                rng = np.random.default_rng([self.random_state, 2, i, order])
                trial.runs.append(
                    simulate(clf, part, held_out, t.distribution, metric=t.by, max_loss=t.max_loss, rng=rng)
                )
        limit, unit = deletable(self.sample, t.distribution, trial.stored_rows)
        trial.survival = survival(
            trial.runs,
            max_loss=t.max_loss,
            limit=limit,
            unit=unit,
            horizon=self.sample.horizon,
            random_state=self.random_state,
        )
        self.watch("simulating deletions", 1, 1)

    # -- targets -------------------------------------------------------------------------------------------------

    def _check_there_are_enough(self) -> None:
        """Refuse to plan for more deletions than there are rows or subjects to delete."""
        t = self.targets
        if t.deletions is None or t.distribution == "worst":
            return
        limit, unit = deletable(self.sample, t.distribution, 0.0)
        if t.deletions > limit:
            raise ConfigurationError(
                f"{t.deletions:,.0f} deletions are expected (deletions_per_month times months), but only {limit:,} "
                f"{unit} could be deleted ({t.distribution}): ask for fewer months, or give horizon= where the rows "
                "are a sample."
            )

    def is_able(self, trial: Trial) -> bool:
        """Whether a candidate meets all targets but deletions, as far as is known."""
        return self.stores_little(trial) and self.is_good(trial) and self.holds_classes(trial)

    def stores_little(self, trial: Trial) -> bool:
        """Whether it stores no more than it may."""
        t = self.targets
        slack = 1.0 if trial.closely else _SLACK
        share, most = trial.stored_rows / self.sample.horizon, 1.0 if t.max_stored is None else t.max_stored
        return share <= slack * most and (t.max_bytes is None or trial.stored_bytes <= slack * t.max_bytes)

    def is_good(self, trial: Trial) -> bool:
        """Whether it loses at most what is tolerated, and is no constant, as far as is known."""
        losses, doubt = self.losses(trial), 0.0
        if not trial.closely:
            error = losses.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else 0.0
            doubt = max(_DOUBT * self.targets.max_loss, _ERRORS * error)
        return losses.mean() <= min(self.targets.max_loss, self.half(trial)) + doubt and not self.fails(trial)

    def half(self, trial: Trial) -> float:
        """Half of what every row stored gains over a constant: what a candidate may lose at most, whatever is said."""
        n = len(trial.scores)
        return self.metric.lost(self.constant(n), self.reference(n)) / 2.0

    def fails(self, trial: Trial) -> bool:
        """Whether the model of all rows is hardly better than a constant, though parts of them made better ones."""
        by, final = self.metric, trial.final
        return final is not None and by.lost(by.of_constant(final), by.of(final)) < self.half(trial)

    def missing(self, trial: Trial) -> list[int]:
        """Classes that have no core row, or fewer than ten where there are more than ten to choose from."""
        wanted = np.where(self.sample.group_counts > FEW, FEW, 1)
        return [int(c) for c in np.flatnonzero(np.round(trial.core_rows) < wanted)]

    def holds_classes(self, trial: Trial) -> bool:
        """Whether every class of the rows has core rows enough."""
        return not self.missing(trial)

    def survives(self, trial: Trial) -> bool:
        """Whether it survives as many deletions as are expected."""
        wanted = self.targets.deletions
        return wanted is None or (trial.survival is not None and trial.survival.reaches(wanted))
