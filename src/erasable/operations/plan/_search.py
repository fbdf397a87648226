"""From rows and targets to a plan: try all candidates, then the least storage that meets every target."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from erasable.errors import ConfigurationError
from erasable.estimators import ErasableClassifier
from erasable.operations.plan._candidates import (
    FEW,
    Candidate,
    Parameters,
    Trial,
    fitted,
    grid_of_candidates,
    mean_of,
    observe,
    observe_whole,
    score_all,
    storing_all,
    try_candidates,
)
from erasable.operations.plan._metrics import Metric
from erasable.operations.plan._sample import SMALL, HeldOut, Sample
from erasable.operations.plan._survival import deletable, simulate, survival
from erasable.operations.plan._targets import Effort, Targets
from erasable.operations.scoring import Scores

Watch = Callable[[str, int, int], None]
_SLACK = 1.05  # storage known from a part of the rows may be off by this factor
_DOUBT = 1.5  # and so may a loss known from few divisions
_LAST = 3  # candidates that are looked at more closely although they seem to lose too much
_FURTHER = 1.2  # after a candidate that lasts too short a time, the next one stores this many times as much


class Planner:
    """Working memory of one plan."""

    def __init__(
        self,
        sample: Sample,
        model: ErasableClassifier,
        targets: Targets,
        effort: Effort,
        random_state: int,
        watch: Watch,
    ) -> None:
        self.sample, self.model, self.targets, self.metric = sample, model, targets, targets.by
        self.effort, self.random_state, self.watch = effort, random_state, watch
        small = sample.n_rows < SMALL
        self.n_tried = effort.small_tried if small else effort.tried
        self.n_splits = effort.small_splits if small else effort.splits
        self.paths = grid_of_candidates(effort, metric=targets.metric, named=sample.named)
        self.trials: list[Trial] = []
        self._parts: dict[int, tuple[Sample, HeldOut]] = {}
        self._all: dict[tuple[tuple[str, object], ...], list[Scores]] = {}

    def part(self, i: int) -> tuple[Sample, HeldOut]:
        """The i-th division of the rows."""
        if i in self._parts:
            return self._parts[i]
        found = self.sample.divide(np.random.default_rng([self.random_state, 1, i]), self.effort.numbers)
        if i < self.n_tried:
            self._parts[i] = found
        return found

    def all_rows(self, parameters: Parameters, n: int, metric: Metric | None = None) -> float:
        """The metric of the same classifier with every row stored, over the first divisions."""
        key = tuple(sorted(storing_all(parameters).items()))
        found = self._all.setdefault(key, [])
        while len(found) < n:
            found.append(score_all(self.model, parameters, *self.part(len(found))))
        return mean_of(metric or self.metric, found[:n])

    def reference(self, n: int, metric: Metric | None = None) -> float:
        """The best that any of these classifiers does with every row stored: what a loss is counted from."""
        by = metric or self.metric
        bases = [parameters for path in self.paths if path for parameters in path[0]]
        best = min(bases, key=lambda base: by.lost(self.all_rows(base, self.n_tried, by), 0.0))
        return self.all_rows(best, n, by)

    def constant(self, metric: Metric | None = None) -> float:
        """The metric of the best constant."""
        by = metric or self.metric
        return float(np.mean([by.of_constant(s) for s in self.trials[0].scores[: self.n_tried]]))

    def gain(self, metric: Metric | None = None) -> float:
        """By how much every row stored is better than a constant."""
        by = metric or self.metric
        return by.lost(self.constant(by), self.reference(self.n_tried, by))

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
        for trial in self._worth_a_closer_look():
            if trial.stored_rows < least:
                continue
            self.look_closer(trial)
            if not self.is_able(trial):
                continue
            self._simulate(trial)
            if self.survives(trial):
                return trial
            least, simulated = _FURTHER * trial.stored_rows, simulated + 1
            if simulated == self.effort.simulated:
                break
        return None

    def _worth_a_closer_look(self) -> Iterator[Trial]:
        """Candidates that seem able, those that store least first; then the best of those that do not."""
        yield from [trial for trial in self.by_storage() if self.is_able(trial)]
        others = [t for t in self.trials if t.whole is None and self.stores_little(t) and self.holds_classes(t)]
        yield from sorted(others, key=lambda trial: self.metric.lost(trial.value(self.metric), 0.0))[:_LAST]

    def by_storage(self) -> list[Trial]:
        """All candidates, those that store least first."""
        return sorted(self.trials, key=lambda trial: trial.stored_rows)

    def record(self, trial: Trial) -> Candidate:
        """What was measured of a candidate."""
        return trial.record(self.sample.horizon, self.metric, self.all_rows(trial.parameters, len(trial.scores)))

    def look_closer(self, trial: Trial) -> None:
        """Score a candidate on all divisions, and see what learning all rows stores."""
        if trial.whole is not None:
            return
        for i in range(len(trial.scores), self.n_splits):
            self.watch("scoring again", i, self.n_splits)
            part, held_out = self.part(i)
            clf = fitted(self.model, trial.parameters, part)
            if clf is not None:
                rng = np.random.default_rng([self.random_state, 4, i])
                observe(trial, clf, part, held_out, model=self.model, max_loss=self.targets.max_loss, rng=rng)
        observe_whole(trial, self.model, self.sample, np.random.default_rng([self.random_state, 3]))
        self.watch("scoring again", 1, 1)

    def _simulate(self, trial: Trial) -> None:
        t, total = self.targets, self.n_splits * self.effort.orders
        for i in range(self.n_splits):
            part, held_out = self.part(i)
            clf = fitted(self.model, trial.parameters, part)
            for order in range(self.effort.orders if clf is not None else 0):
                assert clf is not None
                self.watch("simulating deletions", i * self.effort.orders + order, total)
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
        slack = 1.0 if trial.whole is not None else _SLACK
        share, most = trial.stored_rows / self.sample.horizon, 1.0 if t.max_stored is None else t.max_stored
        return share <= slack * most and (t.max_bytes is None or trial.stored_bytes <= slack * t.max_bytes)

    def is_good(self, trial: Trial) -> bool:
        """Whether it loses at most what is tolerated, and keeps half of what there is to gain over a constant."""
        by, reference = self.metric, self.reference(len(trial.scores))
        half = by.lost(self.constant(), reference) / 2.0
        tolerated = (1.0 if trial.whole is not None else _DOUBT) * self.targets.max_loss
        if trial.final is not None and by.lost(by.of_constant(trial.final), by.of(trial.final)) < half:
            return False  # other parts of the rows made better models than all of them do
        return by.lost(trial.value(by), reference) <= min(tolerated, half)

    def missing(self, trial: Trial) -> list[int]:
        """Classes that have no core row, or fewer than ten where there are more than ten to choose from."""
        wanted = np.where(self.sample.class_counts > FEW, FEW, 1)
        return [int(c) for c in np.flatnonzero(np.round(trial.core_rows) < wanted)]

    def holds_classes(self, trial: Trial) -> bool:
        """Whether every class of the rows has core rows enough."""
        return not self.missing(trial)

    def survives(self, trial: Trial) -> bool:
        """Whether it survives as many deletions as are expected."""
        wanted = self.targets.deletions
        return wanted is None or (trial.survival is not None and trial.survival.reaches(wanted))
