"""From rows and targets to a recommendation: try all candidates, then take the least storage that meets every target.

Where none does, :func:`why_not` says which target binds, what comes closest, and what would do.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from erasable.core.arrays import Float64s
from erasable.errors import ConfigurationError
from erasable.operations.plan.candidates import (
    Band,
    Candidate,
    Make,
    SelectionScore,
    Trial,
    average,
    equal_storage,
    grid_of_candidates,
    learnt,
    leverage_like,
    observe,
    observe_whole,
    scored_selection,
    stores_all,
    weighs_classes,
    with_rate,
)
from erasable.operations.plan.deletions import deletable, simulate, survival
from erasable.operations.plan.rows import SMALL, Estimator, HeldOut, Parameters, Sample
from erasable.operations.plan.targets import AnyScores, Effort, Metric, Targets

Watch = Callable[[str, int, int], None]
_FEW = 10  # core rows of a class
_MOST = 0.8  # share of rows stored from which on nothing is tried but to store them all
_SLACK = 1.05  # storage known from a part of the rows may be off by this factor
_DOUBT = 0.5  # a loss known from few divisions may be off by this much of what is tolerated,
_ERRORS = 2.0  # or by so many standard errors
_RUNS = 6  # simulated sequences of deletions at least
_FEW_ROWS, _MORE = 1_000, 2.0  # with fewer rows there are more divisions, up to so many times as many
_FURTHER = 1.2  # after a candidate that survives too few deletions, the next one stores this many times as much
_AS_GOOD = 0.25  # a selection that loses at most this share of what is tolerated is as good as the other
_COMPARED = 3  # divisions on which both selections are compared
_WORTH = 0.02  # of what is much of a metric: less over a constant is not worth a plan


class Planner:
    """Working memory of one plan."""

    def __init__(
        self,
        sample: Sample,
        make: Make,
        targets: Targets,
        effort: Effort,
        random_state: int,
        watch: Watch,
        **tried: Any,
    ) -> None:
        self.sample, self.make, self.targets, self.metric = sample, make, targets, targets.by
        self.tried = tried  # further arguments of :func:`grid_of_candidates`
        # Classifiers are judged by their probabilities, too, unless classes get weights: these move probabilities.
        self.judges: tuple[Metric, ...] = (self.metric,)
        of_probabilities = sample.kind.metrics.get("logloss")
        if of_probabilities not in (None, self.metric) and not weighs_classes(self.metric.name):
            self.judges += (of_probabilities,)
        self.effort, self.random_state, self.watch = effort, random_state, watch
        self.n_tried, self.n_splits = effort.tried, effort.splits
        if sample.n_rows < SMALL:
            more = min(_MORE, max(1.0, _FEW_ROWS / sample.n_rows))
            self.n_tried, self.n_splits = (round(more * n) for n in (effort.small_tried, effort.small_splits))
        self.trials: list[Trial] = []
        self._parts: dict[int, tuple[Sample, HeldOut]] = {}

    def search(self) -> Trial | None:
        """The candidate with the least storage that meets all targets; None where none does.

        Raises ConfigurationError when no candidate stores any rows, or there are fewer rows to delete than are expected
        to be deleted.
        """
        self._check_there_are_enough()
        self._try_candidates()
        if not self.trials:
            raise ConfigurationError(
                "no candidate selects any rows: the rows are all zero, or far shorter than scaling= says. Give more "
                "rows, or a smaller number."
            )
        if self.useless() is not None:
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

    # -- measuring -----------------------------------------------------------------------------------------------

    def part(self, i: int) -> tuple[Sample, HeldOut]:
        """The i-th division of the rows."""
        if i in self._parts:
            return self._parts[i]
        found = self.sample.divide(np.random.default_rng([self.random_state, 1, i]), self.effort.numbers)
        if i < self.n_tried:
            self._parts[i] = found
        return found

    def _try_candidates(self) -> None:
        """Score the candidates of each path on the first divisions, until they store most of the rows."""
        kind, sample = self.sample.kind, self.sample
        paths = grid_of_candidates(self.effort, kind, metric=self.targets.metric, **self.tried)
        steps = [(k, step) for k, path in enumerate(paths) for step in path]
        most, path = 0.0, -1
        for done, (k, step) in enumerate(steps):
            self.watch("trying candidates", done, len(steps))
            most, path = (most if k == path else 0.0), k
            if most > _MOST * sample.horizon and not stores_all(step[0]):
                continue
            if trials := self._try_step(step):
                self.trials += trials
                most = trials[0].stored_rows
        self.watch("trying candidates", len(steps), len(steps))

    def _try_step(self, step: list[Parameters]) -> list[Trial]:
        """Trials of candidates that store the same rows, selected once for all; none where no row is stored."""
        trials = [Trial(parameters) for parameters in step]
        for i in range(self.n_tried):
            part, _ = self.part(i)
            first = self._fitted(step[0], part)
            if first is None:
                return []
            core = np.asarray(first.core_ids_)
            self._observe(trials[0], first, i)
            for trial in trials[1:]:
                clf = learnt(self.make, trial.parameters, part.X[core], part.y[core], core)
                assert clf is not None  # a model is what learning its own core rows gives
                self._observe(trial, clf, i)
        return trials

    def _fitted(self, parameters: Parameters, part: Sample) -> Estimator | None:
        return learnt(self.make, parameters, part.X, part.y, part.ids)

    def _observe(self, trial: Trial, clf: Estimator, i: int) -> None:
        observe(trial, clf, *self.part(i))

    def _score(self, trial: Trial, n: int) -> None:
        """Score a candidate on the first n divisions."""
        for i in range(len(trial.scores), n):
            self.watch("scoring again", i, n)
            found = self._fitted(trial.parameters, self.part(i)[0])
            if found is None:
                trial.whole = np.zeros(self.sample.n_groups)  # it may store nothing, so there is no more to measure
                return
            self._observe(trial, found, i)

    def look_closer(self, trial: Trial) -> None:
        """Score a candidate on all divisions, and see what learning all rows stores."""
        if not trial.closely:
            self._score(trial, self.n_splits)
        if not trial.closely:
            observe_whole(trial, self.make, self.sample, np.random.default_rng([self.random_state, 3]))
            self.watch("scoring again", 1, 1)

    def _simulate(self, trial: Trial) -> None:
        t, orders = self.targets, max(self.effort.orders, math.ceil(_RUNS / self.n_splits))
        runs = []
        for i in range(self.n_splits):
            part, held_out = self.part(i)
            clf = self._fitted(trial.parameters, part)
            for order in range(orders if clf is not None else 0):
                assert clf is not None
                self.watch("simulating deletions", i * orders + order, self.n_splits * orders)
                rng = np.random.default_rng([self.random_state, 2, i, order])
                runs.append(simulate(clf, part, held_out, t.distribution, metric=t.by, max_loss=t.max_loss, rng=rng))
        limit, unit = deletable(self.sample, t.distribution, trial.stored_rows)
        about = {"horizon": self.sample.horizon, "random_state": self.random_state}
        trial.survival = survival(runs, max_loss=t.max_loss, limit=limit, unit=unit, **about)
        self.watch("simulating deletions", 1, 1)

    def compare(self, trial: Trial) -> tuple[SelectionScore, ...]:
        """Both selections with the head of a candidate and about its storage; none if it stores all rows.

        Each learns all rows that are not scored: of a part, leverage stores a larger share than of all rows.
        """
        own, sample = trial.parameters, self.sample
        leverage = leverage_like(trial, self.trials, at_horizon=sample.horizon == sample.n_rows)
        if stores_all(own) or leverage is None:
            return ()
        large = sample.n_rows * sample.grid.n_columns > self.effort.numbers
        found: dict[str, list[SelectionScore]] = {"leverage": [], "independent": []}
        for i in range(n := 1 if large else min(_COMPARED, self.n_splits)):
            self.watch("comparing selections", i, n)
            part, held_out = sample.divide(np.random.default_rng([self.random_state, 1, i]), math.inf)
            pair = equal_storage(self.make, own, leverage, part)
            if pair is None:
                return ()
            for clf, parameters in pair:
                rng = np.random.default_rng([self.random_state, 5, i])
                scored = scored_selection(clf, parameters, part, held_out, self.metric, rng)
                found[parameters["selection"]].append(scored)
        self.watch("comparing selections", 1, 1)
        return tuple(average(some) for some in found.values())

    def promising_more(self, trial: Trial, compared: tuple[SelectionScore, ...]) -> Trial:
        """Return independent selection in place of leverage where it is as good at the same storage: it promises more.

        It must meet every target, too; otherwise the candidate stays the recommended one.
        """
        if not compared or "threshold" not in trial.parameters:
            return trial
        leverage, independent = (selection.scores[self.metric.name] for selection in compared)
        if self.metric.lost(independent, leverage) > _AS_GOOD * self.targets.max_loss:
            return trial
        other = Trial(compared[1].parameters)
        self.trials.append(other)
        self.look_closer(other)
        if self.is_able(other):
            self._simulate(other)
            if self.survives(other):
                return other
        self.trials.remove(other)
        return trial

    # -- comparing -----------------------------------------------------------------------------------------------

    def _storing_all(self, parameters: Parameters, n: int) -> list[AnyScores]:
        """Scores of the same model with every row stored, on the first divisions."""
        wanted = with_rate(parameters, 1.0)
        trial = next(trial for trial in self.trials if trial.parameters == wanted)
        self._score(trial, n)
        return trial.scores[:n]

    def _reference(self, n: int, by: Metric) -> list[AnyScores]:
        bases = [trial for trial in self.trials if stores_all(trial.parameters)]
        best = min(bases, key=lambda base: by.lost(by.mean(base.scores[: self.n_tried]), 0.0))
        return self._storing_all(best.parameters, n)

    def reference(self, n: int, metric: Metric | None = None) -> float:
        """The best that any of these models does with every row stored: what a loss is counted from."""
        by = metric or self.metric
        return by.mean(self._reference(n, by))

    def constant(self, n: int, metric: Metric | None = None) -> float:
        """The metric of the best constant on the first divisions."""
        by = metric or self.metric
        return float(np.mean([by.of_constant(s) for s in self._reference(n, by)]))

    def gain(self, metric: Metric | None = None) -> float:
        """By how much every row stored is better than a constant, on all divisions."""
        by = metric or self.metric
        return by.lost(self.constant(self.n_splits, by), self.reference(self.n_splits, by))

    def useless(self) -> Metric | None:
        """The judge by which a constant would do; None if there is none."""
        return next(
            (m for m in self.judges if self.gain(m) <= (self.targets.max_loss if m == self.metric else 0)), None
        )

    def losses(self, trial: Trial, metric: Metric | None = None) -> Float64s:
        """What a candidate loses against every row stored, division by division."""
        by = metric or self.metric
        whole = self._reference(len(trial.scores), by)
        return np.array([by.lost(by.of(s), by.of(w)) for s, w in zip(trial.scores, whole, strict=False)])

    def _next(self, least: float, *, last: bool) -> Trial | None:
        """What to look at next: of the candidates that seem able and store as much as ``least``, the smallest.

        Where none does, the ``last`` is the one that comes closest: before all are refused, it is measured closely.
        """
        able = [t for t in self.by_storage() if t.stored_rows >= least and not t.closely and self.is_able(t)]
        if able or not last:
            return able[0] if able else None
        closest = self.closest()
        return None if closest is None or closest.closely else closest

    def closest(self) -> Trial | None:
        """The candidate that stores little and comes closest to the other targets; None where all store too much.

        Of those that lose little, the one that misses least of the classes; otherwise the one that loses least, if
        possible among those that miss no class.
        """
        little = [trial for trial in self.by_storage() if self.stores_little(trial)]
        good = [trial for trial in little if self.is_good(trial)]
        if good:
            return max(good, key=lambda trial: (-len(self.missing(trial)), min(trial.core_rows)))
        whole = [trial for trial in little if not self.missing(trial)]
        return min(whole or little, key=lambda trial: self.losses(trial).mean(), default=None)

    def by_storage(self) -> list[Trial]:
        """All candidates, those that store least first; of those that store the same rows, the best first."""
        by = self.judges[-1]
        return sorted(self.trials, key=lambda trial: (trial.stored_rows, by.lost(by.mean(trial.scores), 0.0)))

    def is_able(self, trial: Trial) -> bool:
        """Whether a candidate meets all targets but deletions, as far as is known."""
        return self.stores_little(trial) and self.is_good(trial) and not self.missing(trial)

    def stores_little(self, trial: Trial) -> bool:
        """Whether it stores no more than it may."""
        t = self.targets
        slack = 1.0 if trial.closely else _SLACK
        share, most = trial.stored_rows / self.sample.horizon, 1.0 if t.max_stored is None else t.max_stored
        return share <= slack * most and (t.max_bytes is None or trial.stored_bytes <= slack * t.max_bytes)

    def is_good(self, trial: Trial) -> bool:
        """Whether it loses at most what is tolerated, and is no constant by any judge, as far as is known."""
        return all(self.loses_little(trial, by) for by in self.judges) and not self.fails(trial)

    def loses_little(self, trial: Trial, by: Metric) -> bool:
        """Whether it loses at most half of what there is to gain over a constant; of the metric, what is tolerated."""
        losses, doubt, most = self.losses(trial, by), 0.0, self.half(trial, by)
        if not trial.closely:
            error = losses.std(ddof=1) / np.sqrt(len(losses)) if len(losses) > 1 else 0.0
            doubt = max(_DOUBT * self.targets.max_loss, _ERRORS * error)
        if by == self.metric:
            most = min(self.targets.max_loss, most)
        return bool(losses.mean() <= most + doubt)

    def half(self, trial: Trial, metric: Metric | None = None) -> float:
        """Half of what every row stored gains over a constant: the most that any candidate may lose."""
        n, by = len(trial.scores), metric or self.metric
        return by.lost(self.constant(n, by), self.reference(n, by)) / 2.0

    def fails(self, trial: Trial) -> Metric | None:
        """The judge by which the model of all rows is hardly better than a constant, though parts made better ones."""
        final = trial.final
        if final is None:
            return None
        poor = (m for m in self.judges if m.lost(m.of_constant(final), m.of(final)) < self.half(trial, m))
        return next(poor, None)

    def missing(self, trial: Trial) -> list[int]:
        """Classes that have no core row, or fewer than ten where there are more than ten to choose from."""
        wanted = np.where(self.sample.group_counts > _FEW, _FEW, 1)
        return [int(c) for c in np.flatnonzero(np.round(trial.core_rows) < wanted)]

    def survives(self, trial: Trial) -> bool:
        """Whether it survives as many deletions as are expected."""
        wanted = self.targets.deletions
        return wanted is None or (trial.survival is not None and wanted <= trial.survival.lasting)

    def record(self, trial: Trial) -> Candidate:
        """The measurements of a candidate.

        Few divisions may be easier or harder than all of them. By how much, the reference says, which was scored on
        all: figures from few are moved by that, so that all may be compared.
        """
        n, by, metrics = len(trial.scores), self.metric, self.sample.kind.metrics
        reference = self._reference(self.n_splits, by)
        easier = {name: m.mean(reference[:n]) - m.mean(reference) for name, m in metrics.items()}
        moved = easier[by.name]
        return Candidate(
            trial.parameters,
            round(trial.stored_rows),
            trial.stored_rows / self.sample.horizon,
            round(trial.stored_bytes),
            Band.of([by.of(s) - moved for s in trial.scores]),
            by.mean(self._storing_all(trial.parameters, n)) - moved,
            {name: m.mean(trial.scores) - easier[name] for name, m in metrics.items()},
            tuple(round(rows) for rows in trial.core_rows.tolist()),
            None if trial.final is None else by.of(trial.final),
            trial.seconds,
            trial.survival,
        )


def why_not(planner: Planner) -> str:
    """Which target no candidate meets, and what would meet it."""
    t = planner.targets
    if (judge := planner.useless()) is not None:
        return _tells_too_little(planner, judge)
    lasting = [trial for trial in planner.trials if trial.survival is not None]
    if lasting:
        return _too_short(planner, lasting)
    closest = planner.closest()
    if closest is not None:
        return (_without_classes if planner.is_good(closest) else _too_much_lost)(planner, closest)
    least = min(planner.trials, key=lambda trial: trial.stored_bytes)
    return (
        f"no candidate meets the storage target ({_limits(t)}): the smallest stores {_share(planner, least)} of the "
        f"rows, {math.ceil(least.stored_bytes):,} bytes. Allow that much, or give fewer features."
    )


def _tells_too_little(planner: Planner, by: Metric) -> str:
    """A constant would meet the target: the metric cannot tell a model from it, or no model is any good."""
    t, gain, n = planner.targets, planner.gain(by), planner.n_splits
    facts = (
        f"{by.title} is {by.text(planner.reference(n, by))} with every row stored, and "
        f"{by.text(planner.constant(n, by))} for a constant"
    )
    advice = [text for m in planner.sample.kind.metrics.values() if m != by and (text := _other_metric(planner, m))]
    if gain <= 0.0:
        advice += [planner.sample.kind.otherwise]
        return f"no candidate is better than a constant: {facts}. What would do: {'; or '.join(advice)}."
    advice += [f"max_loss={_rounded(gain / 2.0, math.floor)}, half of that difference"]
    return (
        f"max_loss={t.max_loss:g} would recommend a model that is no better than a constant: {facts}. What would do: "
        f"{'; or '.join(advice)}."
    )


def _other_metric(planner: Planner, m: Metric) -> str:
    """The advice to plan by another metric; nothing where it cannot tell a model from a constant either."""
    n, gain, other_units = planner.n_splits, planner.gain(m), m.in_units != planner.metric.in_units
    least = _WORTH * m.scale(planner.constant(n, m))
    if gain <= (least if other_units else max(least, planner.targets.max_loss)):
        return ""
    tolerating = f" with max_loss={_rounded(gain / 4.0, math.floor)}" if other_units else ""
    figures = f"({m.text(planner.reference(n, m))}, a constant {m.text(planner.constant(n, m))})"
    return f"metric={m.name!r}{tolerating} {figures}"


def _too_short(planner: Planner, lasting: list[Trial]) -> str:
    t = planner.targets
    (survives, unit), most = max(
        (((s.lasting, s.unit), trial) for trial in lasting if (s := trial.survival) is not None), key=lambda x: x[0][0]
    )
    advice = [f"months={_rounded(survives / float(t.deletions_per_month or 1.0), math.floor)}", "a larger max_loss"]
    advice += [] if t.max_stored is None and t.max_bytes is None else ["more storage"]
    return (
        f"{t.deletions or 0.0:,.0f} deletions ({t.distribution}) cannot be survived with max_loss={t.max_loss:g} and "
        f"{_limits(t)}: the candidate that lasts longest ({_described(most)}) survives {survives:,} {unit} (lower end "
        f"of the band), storing {_share(planner, most)} of the rows. What would do: {'; or '.join(advice)}."
    )


def _without_classes(planner: Planner, closest: Trial) -> str:
    t, sample = planner.targets, planner.sample
    short = min(planner.missing(closest), key=lambda c: closest.core_rows[c])
    advice = _enough_storage(planner)
    if sample.n_groups == 1:
        fault, whose, advice = "stores too few rows", "", [*advice, "more rows"]
    else:
        fault = "misses a class"
        whose = f" of class {short + 1} of {sample.n_groups} (in sorted order), which has"
        whose += f" {sample.group_counts[short]:,} rows"
        advice += ["more rows of that class", "a smaller max_loss"]
        advice += ["metric='balanced'"] if t.metric in ("auc", "accuracy") else []
    return (
        f"every candidate that loses at most max_loss={t.max_loss:g} with {_limits(t)} {fault}: the closest "
        f"({_described(closest)}) would hold {round(closest.core_rows[short])} core rows{whose}; {_FEW} are wanted. "
        f"What would do: {'; or '.join(advice)}."
    )


def _too_much_lost(planner: Planner, best: Trial) -> str:
    """No candidate of little storage is good: the best of them loses too much, or fails as a model of all rows."""
    t = planner.targets
    by = next((m for m in planner.judges if not planner.loses_little(best, m)), planner.fails(best) or planner.metric)
    n, lost, half = len(best.scores), float(planner.losses(best, by).mean()), planner.half(best, by)
    facts = (
        f"the best {by.title} there is {by.text(by.mean(best.scores))} ({_described(best)}), with every row stored "
        f"it is {by.text(planner.reference(n, by))}"
    )
    advice = _enough_storage(planner)
    if lost > half:
        fault = f"with {_limits(t)} no candidate keeps half of what there is to gain over a constant"
        facts += f", and {by.text(planner.constant(n, by))} for a constant"
    elif by == planner.metric and lost > t.max_loss:
        tolerable = not planner.fails(best) and not planner.missing(best)
        advice += [f"max_loss={_rounded(lost, math.ceil)}"] if tolerable else []
        fault = f"max_loss={t.max_loss:g} cannot be met with {_limits(t)}"
    else:
        assert best.final is not None
        fault = f"with {_limits(t)} no candidate makes a good model of all rows"
        facts += (
            f"; but learnt from all rows, on those it does not store, it is {by.text(by.of(best.final))}, and for a "
            f"constant {by.text(by.of_constant(best.final))}"
        )
    advice = advice or ["more rows", planner.sample.kind.otherwise]
    return f"{fault}: {facts}. What would do: {'; or '.join(advice)}."


def _enough_storage(planner: Planner) -> list[str]:
    """The storage of the smallest candidate that is good and misses no class, measured closely; none if none is."""
    for trial in planner.by_storage():
        if planner.is_good(trial) and not planner.missing(trial):
            planner.look_closer(trial)
            if planner.is_good(trial) and not planner.missing(trial):
                share, size = _share(planner, trial), math.ceil(trial.stored_bytes)
                limited = planner.targets.max_bytes is not None
                return [f"max_stored={share}" + (f" and max_bytes={size}" if limited else f" ({size:,} bytes)")]
    return []


def _described(trial: Trial) -> str:
    """Parameters as a call has them."""
    values = trial.parameters.items()
    return ", ".join(f"{name}={v!r}" if isinstance(v, str) else f"{name}={v:g}" for name, v in values)


def _limits(t: Targets) -> str:
    parts = [] if t.max_stored is None else [f"max_stored={t.max_stored:g}"]
    parts += [] if t.max_bytes is None else [f"max_bytes={t.max_bytes}"]
    return " and ".join(parts) or "any storage tried"


def _share(planner: Planner, trial: Trial) -> str:
    return _rounded(trial.stored_rows / planner.sample.horizon, math.ceil)


def _rounded(value: float, to: Callable[[float], int]) -> str:
    """A number that may be typed as a target: rounded up or down to three figures."""
    digits = 2 - math.floor(math.log10(value)) if value > 0.0 else 3
    return f"{to(value * 10**digits) / 10**digits:.{max(digits, 0)}f}"
