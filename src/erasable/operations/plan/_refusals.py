"""Why there is no plan: which target binds, what comes closest, and what would do."""

from __future__ import annotations

import math
from collections.abc import Callable

from erasable.operations.plan._candidates import FEW, Parameters, Trial
from erasable.operations.plan._metrics import METRICS
from erasable.operations.plan._search import Planner
from erasable.operations.plan._targets import Targets

_ELSE = (
    "give columns of different size public scales (scaling in Python), use a feature_map, or ErasableKernelClassifier"
)


def why_not(planner: Planner) -> str:
    """Which target no candidate meets, and what would meet it."""
    t = planner.targets
    if planner.gain() <= t.max_loss:
        return _says_too_little(planner)
    little = [trial for trial in planner.trials if planner.stores_little(trial)]
    if not little:
        least = min(planner.trials, key=lambda trial: trial.stored_bytes)
        return (
            f"no candidate meets the storage target ({_limits(t)}): the smallest stores "
            f"{_up(least.stored_rows / planner.sample.horizon)} of the rows, {math.ceil(least.stored_bytes):,} bytes. "
            "Allow that much, or give fewer features."
        )
    able = [trial for trial in little if planner.is_able(trial)]
    if able:
        return _too_short(planner, [trial for trial in able if trial.survival is not None])
    good = [trial for trial in little if planner.is_good(trial)]
    if good:
        closest = max(good, key=lambda trial: (-len(planner.missing(trial)), min(trial.core_rows)))
        return _without_classes(planner, closest)
    return _too_much_lost(planner, little)


def described(parameters: Parameters) -> str:
    """Parameters as a call has them."""
    return ", ".join(
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value:g}" for name, value in parameters.items()
    )


def _says_too_little(planner: Planner) -> str:
    """A constant would meet the target: the metric cannot tell a model from it, or no model is any good."""
    t, by, gain = planner.targets, planner.metric, planner.gain()
    facts = (
        f"{by.title} is {planner.reference(planner.n_tried):.4f} with every row stored, and {planner.constant():.4f} "
        "for a constant"
    )
    others = [
        f"metric={m.name!r} ({planner.reference(planner.n_tried, m):.3f}, a constant {planner.constant(m):.3f})"
        for m in METRICS.values()
        if m != by and planner.gain(m) > max(t.max_loss, 0.02)
    ]
    if gain <= 0.0:
        advice = [*others, _ELSE]
        return f"no candidate is better than a constant: {facts}. What would do: {'; or '.join(advice)}."
    advice = [*others, f"max_loss={_down(gain / 2.0)}, half of that difference"]
    return (
        f"max_loss={t.max_loss:g} would recommend a model that is no better than a constant: {facts}. What would do: "
        f"{'; or '.join(advice)}."
    )


def _too_short(planner: Planner, lasting: list[Trial]) -> str:
    t = planner.targets
    most = max(lasting, key=_lasting)
    assert most.survival is not None
    assert t.deletions is not None
    return (
        f"{t.deletions:,.0f} deletions ({t.distribution}) cannot be survived with max_loss={t.max_loss:g} and "
        f"{_limits(t)}: the candidate that lasts longest ({described(most.parameters)}) survives {_lasting(most):,.0f} "
        f"{most.survival.unit} (lower end of the band), storing {_up(most.stored_rows / planner.sample.horizon)} of "
        f"the rows. What would do: months={_down(_lasting(most) / float(t.deletions_per_month or 1.0))}, a larger "
        "max_loss, or a larger max_stored."
    )


def _without_classes(planner: Planner, closest: Trial) -> str:
    t, sample = planner.targets, planner.sample
    short = min(planner.missing(closest), key=lambda c: closest.core_rows[c])
    enough = _least_that_does(planner)
    more = f"{_storage(planner, enough)}; or " if enough else ""
    return (
        f"every candidate that loses at most max_loss={t.max_loss:g} with {_limits(t)} misses a class: the closest "
        f"({described(closest.parameters)}) would hold {round(closest.core_rows[short])} core rows of class "
        f"{short + 1} of {sample.n_classes} (in sorted order), which has {sample.class_counts[short]:,} rows; {FEW} "
        f"are wanted. "
        f"What would do: {more}more rows of that class, a smaller max_loss"
        + ("." if t.metric != "accuracy" else ", or metric='balanced'.")
    )


def _too_much_lost(planner: Planner, little: list[Trial]) -> str:
    t, by = planner.targets, planner.metric
    best = min(little, key=lambda trial: by.lost(trial.value(by), 0.0))
    planner.look_closer(best)
    whole = planner.reference(len(best.scores))
    enough = _least_that_does(planner)
    advice = [_storage(planner, enough)] if enough else []
    lost = by.lost(best.value(by), whole)
    if 2.0 * lost < by.lost(planner.constant(), whole):
        advice.append(f"max_loss={_up(lost)}")
    return (
        f"max_loss={t.max_loss:g} cannot be met with {_limits(t)}: the best {by.title} there is {best.value(by):.4f} "
        f"({described(best.parameters)}), with every row stored it is {whole:.4f}. What would do: "
        f"{', or '.join(advice) or 'more rows; or ' + _ELSE}."
    )


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
