"""From rows and targets to a plan: try, simulate, choose the least storage that meets all targets."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from erasable.errors import ConfigurationError
from erasable.estimators import ErasableClassifier
from erasable.operations.plan._frontier import (
    SLACK,
    Path,
    Trial,
    explore,
    fitted,
    observe,
    observe_whole,
    pareto,
    ridge_on_all,
)
from erasable.operations.plan._record import Plan
from erasable.operations.plan._sample import SMALL, HeldOut, Sample
from erasable.operations.plan._survival import as_theoretical, bound_of_theorem_4_3, deletable, simulate, survival
from erasable.operations.plan._targets import Effort, Targets
from erasable.operations.plan._warnings import cautions

Watch = Callable[[str, int, int], None]
_ROUNDS = 4  # times that paths are followed further when too few deletions are survived
_MOST_BATCHES = 3  # batches of simulated candidates


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
        self.sample, self.model, self.targets = sample, model, targets
        self.effort, self.random_state, self.watch = effort, random_state, watch
        small, heavy = sample.n_rows < SMALL, sample.n_rows * sample.grid.n_columns > effort.heavy
        self.n_splits = effort.small_splits if small else max(1, effort.splits // (1 + heavy))
        self.batch = max(2, effort.simulated // 2) if heavy else effort.simulated
        tried = effort.small_tried if small else effort.tried
        self.kept = [self._divide(i) for i in range(tried)]
        self.trials: list[Trial] = []
        self.simulated: list[Trial] = []
        self.all_rows: list[list[float]] = []  # accuracy with all rows stored, of each division and capacity

    def _divide(self, i: int) -> tuple[Sample, HeldOut]:
        return self.sample.divide(np.random.default_rng([self.random_state, 1, i]))

    def part(self, i: int) -> tuple[Sample, HeldOut]:
        """The i-th division of the rows."""
        return self.kept[i] if i < len(self.kept) else self._divide(i)

    def search(self) -> Trial:
        """The candidate with the least storage that meets all targets.

        Raises
        ------
        ConfigurationError
            When none does: it says which target binds, and what would meet it.
        """
        self._check_there_are_enough()
        self.all_rows = [ridge_on_all(*part, self.effort.capacities) for part in self.kept]
        paths = [Path(capacity, self.effort.kappas) for capacity in self.effort.capacities]
        most, steps = self._most_stored(), None
        for _ in range(_ROUNDS):
            self.trials += self._explore(paths, most, steps)
            while waiting := self._worth_simulating():
                self._simulate(waiting)
                chosen = [trial for trial in self.simulated if self._meets(trial)]
                if chosen:
                    return min(chosen, key=_stored)
            if most is None:  # there is no storage target, so what seemed much is tried after all
                most = 1.0
                for path in paths:
                    path.ended = False
            if all(path.ended or path.at == len(path.kappas) for path in paths):
                break
            steps = 2  # more storage may survive more deletions, and be more accurate
        if not self.trials:
            raise ConfigurationError(
                "no candidate selects any rows: the rows are all zero, or the horizon is too small. Give more rows, "
                "or a larger horizon."
            )
        self._look_beyond(paths)
        raise ConfigurationError(self._why_not())

    def _look_beyond(self, paths: list[Path]) -> None:
        """Where the storage targets leave no accurate candidate: find out how much storage one would need."""
        if self._most_stored() is None or any(self._is_accurate(trial) for trial in self.trials):
            return
        little = [trial for trial in self.trials if self._stores_little(trial)]
        for path in paths:
            path.ended = False
        self.trials += self._explore(paths, 1.0)
        if little:
            self._score_again(max(little, key=lambda trial: trial.mean_accuracy))
        for trial in sorted(self.trials, key=_stored):
            if self._is_accurate(trial):
                self._score_again(trial)
                if self._is_accurate(trial):
                    break

    def _score_again(self, trial: Trial) -> None:
        """Score a candidate on the divisions that it has not been tried on."""
        for i in range(len(trial.accuracy), self.n_splits):
            part, held_out = self.part(i)
            if i == len(self.all_rows):
                self.all_rows.append(ridge_on_all(part, held_out, self.effort.capacities))
            clf = fitted(self.model, part, trial.capacity, trial.kappa)
            if clf is not None:
                observe(trial, clf, part, held_out, self.targets.max_loss)
        observe_whole(trial, self.model, self.sample, np.random.default_rng([self.random_state, 3]))

    def _explore(self, paths: list[Path], most: float | None, steps: int | None = None) -> list[Trial]:
        return explore(
            paths,
            self.kept,
            self.model,
            reference=self.reference(len(self.kept)),
            max_loss=self.targets.max_loss,
            max_share=most,
            steps=steps,
            watch=self.watch,
        )

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

    def reference(self, n_splits: int) -> float:
        """Accuracy with every row stored, over the first divisions."""
        best = int(np.argmax(np.mean(self.all_rows[: len(self.kept)], axis=0)))
        return float(np.mean([found[best] for found in self.all_rows[:n_splits]]))

    def _most_stored(self) -> float | None:
        """The largest share of rows that both storage targets allow."""
        t, grid = self.targets, self.sample.grid
        if t.max_bytes is None:
            return t.max_stored
        left = t.max_bytes - 8 * grid.n_columns**2
        share = max(0.0, left / (grid.n_columns * grid.dtype.itemsize) / self.sample.horizon)
        return min(share, 1.0 if t.max_stored is None else t.max_stored)

    # -- simulating ----------------------------------------------------------------------------------------------

    def _worth_simulating(self) -> list[Trial]:
        """Candidates that store little enough and are accurate enough, as far as is known.

        First the smallest of the frontier; when those survive too few deletions, some that store more.
        """
        able = [t for t in self.trials if self._stores_little(t) and self._is_accurate(t)]
        size = self.batch
        if not self.simulated:
            first = pareto(able)[:size]
            larger = [t for t in able if first and t.stored_rows > first[0].stored_rows]
            smaller = pareto([t for t in self.trials if first and t.stored_rows < first[0].stored_rows])
            # For the picture: what storing more would buy and, where little else is able, what storing less would cost.
            others = [*sorted(larger, key=_stored), *reversed(smaller)]
            return [*first, *(t for t in others if t not in first)][:size]
        if len(self.simulated) >= _MOST_BATCHES * size:
            return []
        largest = max(t.stored_rows for t in self.simulated)
        larger = sorted((t for t in able if t.stored_rows > largest and t not in self.simulated), key=_stored)
        if not larger:
            return []
        return [larger[i] for i in np.unique(np.linspace(0, len(larger) - 1, size).round().astype(int))]

    def _simulate(self, trials: Sequence[Trial]) -> None:
        t = self.targets
        total = len(trials) * self.n_splits
        for i in range(self.n_splits if trials else 0):
            part, held_out = self.part(i)
            if i == len(self.all_rows):
                self.all_rows.append(ridge_on_all(part, held_out, self.effort.capacities))
            for k, trial in enumerate(trials):
                self.watch("simulating deletions", i * len(trials) + k, total)
                clf = fitted(self.model, part, trial.capacity, trial.kappa)
                if clf is None:
                    continue
                if i >= len(self.kept):
                    observe(trial, clf, part, held_out, t.max_loss)
                for order in range(self.effort.orders):
                    rng = np.random.default_rng([self.random_state, 2, i, order])
                    trial.runs.append(simulate(clf, part, held_out, t.distribution, max_loss=t.max_loss, rng=rng))
        for trial in trials:
            observe_whole(trial, self.model, self.sample, np.random.default_rng([self.random_state, 3]))
            limit, unit = deletable(self.sample, t.distribution, trial.stored_rows)
            trial.survival = survival(
                trial.runs,
                max_loss=t.max_loss,
                limit=limit,
                unit=unit,
                horizon=self.sample.horizon,
                random_state=self.random_state,
            )
        self.simulated += trials
        if trials:
            self.watch("simulating deletions", 1, 1)

    # -- targets -------------------------------------------------------------------------------------------------

    def _stores_little(self, trial: Trial) -> bool:
        t = self.targets
        slack = 1.0 if trial.whole is not None else SLACK
        share, most = trial.stored_rows / self.sample.horizon, 1.0 if t.max_stored is None else t.max_stored
        return share <= slack * most and (t.max_bytes is None or trial.stored_bytes <= slack * t.max_bytes)

    def _is_accurate(self, trial: Trial) -> bool:
        return trial.mean_accuracy >= self.reference(len(trial.accuracy)) - self.targets.max_loss

    def _survives(self, trial: Trial) -> bool:
        wanted = self.targets.deletions
        return wanted is None or (trial.survival is not None and trial.survival.reaches(wanted))

    def _meets(self, trial: Trial) -> bool:
        return self._stores_little(trial) and self._is_accurate(trial) and self._survives(trial)

    def _least_stored(self, trials: Sequence[Trial]) -> Trial:
        """The candidate that stores least once all rows are learnt: what parts of them store is an estimate."""
        least = min(trials, key=_stored)
        while least.whole is None:
            observe_whole(least, self.model, self.sample, np.random.default_rng([self.random_state, 3]))
            if least.whole is None:  # nothing is selected
                break
            least = min(trials, key=_stored)
        return least

    def _why_not(self) -> str:
        """Which target binds, and what would meet it."""
        t, horizon = self.targets, self.sample.horizon
        little = [trial for trial in self.trials if self._stores_little(trial)]
        accurate = [trial for trial in self.trials if self._is_accurate(trial)]
        limits = _storage_limits(t)
        if not little:
            least = min(self.trials, key=lambda trial: trial.stored_bytes)
            return (
                f"no candidate meets the storage target ({limits}): the smallest stores "
                f"{_up(least.stored_rows / horizon)} of the rows, {math.ceil(least.stored_bytes):,} bytes. Allow that "
                "much, or give fewer features."
            )
        both = [trial for trial in little if trial in accurate]
        lasting = [trial for trial in self.simulated if trial in both]
        if not lasting or t.deletions is None:
            best = max(little, key=lambda trial: trial.mean_accuracy)
            whole = self.reference(len(best.accuracy))
            more = ""
            if accurate:
                least = self._least_stored(accurate)
                more = f"max_stored={_up(least.stored_rows / horizon)} ({math.ceil(least.stored_bytes):,} bytes), or "
            return (
                f"max_loss={t.max_loss:g} cannot be met with {limits}: the best accuracy there is "
                f"{best.mean_accuracy:.4f}, with every row stored it is {whole:.4f}. What would do: {more}"
                f"max_loss={_up(whole - best.mean_accuracy)}."
            )
        most = max(lasting, key=_lasting)
        reach = _lasting(most)
        wanted, rate = t.deletions, float(t.deletions_per_month or 1.0)
        return (
            f"{wanted:,.0f} deletions ({t.distribution}) cannot be survived with max_loss={t.max_loss:g} and {limits}: "
            f"the candidate that lasts longest survives {reach:,.0f} {_unit(most)} (lower end of the band), storing "
            f"{_up(most.stored_rows / horizon)} of the rows. What would do: months={_down(reach / rate)}, a larger "
            "max_loss, or a larger max_stored."
        )


def make_plan(
    planner: Planner, *, effort: str, line: Callable[[Trial], str], theoretical: Callable[..., Any] | None
) -> Plan:
    """The plan that a search gives."""
    chosen = planner.search()
    sample = planner.sample
    bound = theoretical or bound_of_theorem_4_3
    allowed = bound(sample.horizon, chosen.kappa, sample.grid.n_columns, float(np.mean(chosen.margins)))
    shown = sorted({id(t): t for t in [*pareto(planner.trials), *planner.simulated]}.values(), key=_stored)
    plan = Plan(
        chosen.record(sample.horizon),
        line(chosen),
        sample.horizon,
        as_theoretical(allowed),
        planner.reference(len(chosen.accuracy)),
        tuple(float(s) for s in sample.class_shares),
        tuple(t.record(sample.horizon) for t in shown),
        (),
        planner.targets,
        effort,
        planner.random_state,
        sample.given,
        sample.n_rows,
        sample.grid.n_features,
        sample.n_classes,
    )
    scored = min(sample.n_rows, planner.n_splits * len(planner.kept[0][1].y))
    return cautions(plan, scored)


def _stored(trial: Trial) -> float:
    return trial.stored_rows


def _lasting(trial: Trial) -> float:
    assert trial.survival is not None
    s = trial.survival
    return float(s.limit if s.low is None else s.low)


def _unit(trial: Trial) -> str:
    return "" if trial.survival is None else trial.survival.unit


def _storage_limits(t: Targets) -> str:
    parts = [] if t.max_stored is None else [f"max_stored={t.max_stored:g}"]
    parts += [] if t.max_bytes is None else [f"max_bytes={t.max_bytes:,}"]
    return " and ".join(parts) or "any storage tried"


def _up(value: float) -> str:
    """A number that may be typed as a target: rounded up to three figures."""
    digits = 2 - math.floor(math.log10(value)) if value > 0.0 else 3
    return f"{math.ceil(value * 10**digits) / 10**digits:.{max(digits, 0)}f}"


def _down(value: float) -> str:
    digits = 2 - math.floor(math.log10(value)) if value > 0.0 else 3
    return f"{math.floor(value * 10**digits) / 10**digits:.{max(digits, 0)}f}"
