"""Why there is no plan: which target binds, what comes closest, and what would do."""

from __future__ import annotations

import math
from collections.abc import Callable

from erasable.operations.plan._candidates import FEW, Trial
from erasable.operations.plan._kinds import Parameters
from erasable.operations.plan._metrics import Metric
from erasable.operations.plan._search import Planner
from erasable.operations.plan._targets import Targets

_WORTH = 0.02  # of what is much of a metric: less over a constant is not worth a plan


def why_not(planner: Planner) -> str:
    """Which target no candidate meets, and what would meet it."""
    t = planner.targets
    if planner.gain() <= t.max_loss:
        return _says_too_little(planner)
    lasting = [trial for trial in planner.trials if trial.survival is not None]
    if lasting:
        return _too_short(planner, lasting)
    closest = planner.closest()
    if closest is not None:
        return (_without_classes if planner.is_good(closest) else _too_much_lost)(planner, closest)
    least = min(planner.trials, key=lambda trial: trial.stored_bytes)
    return (
        f"no candidate meets the storage target ({_limits(t)}): the smallest stores "
        f"{_up(least.stored_rows / planner.sample.horizon)} of the rows, {math.ceil(least.stored_bytes):,} bytes. "
        "Allow that much, or give fewer features."
    )


def described(parameters: Parameters) -> str:
    """Parameters as a call has them."""
    return ", ".join(
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value:g}" for name, value in parameters.items()
    )


def _says_too_little(planner: Planner) -> str:
    """A constant would meet the target: the metric cannot tell a model from it, or no model is any good."""
    t, by, gain, n = planner.targets, planner.metric, planner.gain(), planner.n_splits
    facts = (
        f"{by.title} is {by.text(planner.reference(n))} with every row stored, and {by.text(planner.constant(n))} "
        "for a constant"
    )
    others = [_instead(planner, m) for m in planner.sample.kind.metrics.values() if m != by and _tells(planner, m)]
    if gain <= 0.0:
        advice = [*others, planner.sample.kind.otherwise]
        return f"no candidate is better than a constant: {facts}. What would do: {'; or '.join(advice)}."
    advice = [*others, f"max_loss={_down(gain / 2.0)}, half of that difference"]
    return (
        f"max_loss={t.max_loss:g} would recommend a model that is no better than a constant: {facts}. What would do: "
        f"{'; or '.join(advice)}."
    )


def _tells(planner: Planner, m: Metric) -> bool:
    """Whether another metric tells a model from a constant by more than is tolerated to be lost."""
    least = _WORTH * m.scale(planner.constant(planner.n_splits, m))
    return planner.gain(m) > (least if _other_units(planner, m) else max(least, planner.targets.max_loss))


def _instead(planner: Planner, m: Metric) -> str:
    n = planner.n_splits
    figures = f"({m.text(planner.reference(n, m))}, a constant {m.text(planner.constant(n, m))})"
    tolerating = f" with max_loss={_down(planner.gain(m) / 4.0)}" if _other_units(planner, m) else ""
    return f"metric={m.name!r}{tolerating} {figures}"


def _other_units(planner: Planner, m: Metric) -> bool:
    return m.in_units != planner.metric.in_units


def _too_short(planner: Planner, lasting: list[Trial]) -> str:
    t = planner.targets
    most = max(lasting, key=_lasting)
    assert most.survival is not None
    assert t.deletions is not None
    advice = [f"months={_down(_lasting(most) / float(t.deletions_per_month or 1.0))}", "a larger max_loss"]
    advice += [] if t.max_stored is None and t.max_bytes is None else ["more storage"]
    return (
        f"{t.deletions:,.0f} deletions ({t.distribution}) cannot be survived with max_loss={t.max_loss:g} and "
        f"{_limits(t)}: the candidate that lasts longest ({described(most.parameters)}) survives {_lasting(most):,.0f} "
        f"{most.survival.unit} (lower end of the band), storing {_up(most.stored_rows / planner.sample.horizon)} of "
        f"the rows. What would do: {'; or '.join(advice)}."
    )


def _without_classes(planner: Planner, closest: Trial) -> str:
    t, sample = planner.targets, planner.sample
    short = min(planner.missing(closest), key=lambda c: closest.core_rows[c])
    held = f"({described(closest.parameters)}) would hold {round(closest.core_rows[short])} core rows"
    enough = _least_that_does(planner)
    advice = [_storage(planner, enough)] if enough else []
    if sample.n_groups == 1:
        fault, whose, advice = "stores too few rows", "", [*advice, "more rows"]
    else:
        fault = "misses a class"
        whose = f" of class {short + 1} of {sample.n_groups} (in sorted order), which has"
        whose += f" {sample.group_counts[short]:,} rows"
        advice += ["more rows of that class", "a smaller max_loss"]
        advice += ["metric='balanced'"] if t.metric == "accuracy" else []
    return (
        f"every candidate that loses at most max_loss={t.max_loss:g} with {_limits(t)} {fault}: the closest {held}"
        f"{whose}; {FEW} are wanted. What would do: {'; or '.join(advice)}."
    )


def _too_much_lost(planner: Planner, best: Trial) -> str:
    """No candidate of little storage is good: the best of them loses too much, or fails as a model of all rows."""
    t, by = planner.targets, planner.metric
    n, lost, half = len(best.scores), float(planner.losses(best).mean()), planner.half(best)
    facts = (
        f"the best {by.title} there is {by.text(best.value(by))} ({described(best.parameters)}), with every row stored "
        f"it is {by.text(planner.reference(n))}"
    )
    enough = _least_that_does(planner)
    advice = [_storage(planner, enough)] if enough else []
    if lost > t.max_loss:
        tolerable = lost < half and not planner.fails(best) and planner.holds_classes(best)
        advice += [f"max_loss={_up(lost)}"] if tolerable else []
        fault = f"max_loss={t.max_loss:g} cannot be met with {_limits(t)}"
    elif lost > half:
        fault = f"with {_limits(t)} no candidate keeps half of what there is to gain over a constant"
        facts += f", and {by.text(planner.constant(n))} for a constant"
    else:
        assert best.final is not None
        fault = f"with {_limits(t)} no candidate makes a good model of all rows"
        facts += (
            f"; but learnt from all rows, on those it does not store, it is {by.text(by.of(best.final))}, and for a "
            f"constant {by.text(by.of_constant(best.final))}"
        )
    advice = advice or ["more rows", planner.sample.kind.otherwise]
    return f"{fault}: {facts}. What would do: {'; or '.join(advice)}."


def _least_that_does(planner: Planner) -> Trial | None:
    """The candidate with the least storage that is good and misses no class, looked at closely."""
    for trial in planner.by_storage():
        if planner.is_good(trial) and planner.holds_classes(trial):
            planner.look_closer(trial)
            if planner.is_good(trial) and planner.holds_classes(trial):
                return trial
    return None


def _storage(planner: Planner, trial: Trial) -> str:
    share, size = _up(trial.stored_rows / planner.sample.horizon), math.ceil(trial.stored_bytes)
    if planner.targets.max_bytes is None:
        return f"max_stored={share} ({size:,} bytes)"
    return f"max_stored={share} and max_bytes={size}"


def _lasting(trial: Trial) -> float:
    s = trial.survival
    return -1.0 if s is None else float(s.limit if s.low is None else s.low)


def _limits(t: Targets) -> str:
    parts = [] if t.max_stored is None else [f"max_stored={t.max_stored:g}"]
    parts += [] if t.max_bytes is None else [f"max_bytes={t.max_bytes}"]
    return " and ".join(parts) or "any storage tried"


def _up(value: float) -> str:
    """A number that may be typed as a target: rounded up to three figures."""
    return _rounded(value, math.ceil)


def _down(value: float) -> str:
    return _rounded(value, math.floor)


def _rounded(value: float, to: Callable[[float], int]) -> str:
    digits = 2 - math.floor(math.log10(value)) if value > 0.0 else 3
    return f"{to(value * 10**digits) / 10**digits:.{max(digits, 0)}f}"
