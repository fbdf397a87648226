"""What a reader of a plan should know before believing it."""

from __future__ import annotations

from erasable.operations.plan._record import Plan
from erasable.pages import percent

_SKEW = 2.0  # a class that is this many times rarer or more common among the core rows is worth a word
_FEW = 30  # core rows
_SEEN = 10  # rows that the tolerated loss should be
_GAP = 0.05  # between accuracy and balanced accuracy


def cautions(plan: Plan, scored: int) -> tuple[str, ...]:
    """The warnings that belong to a plan.

    Parameters
    ----------
    scored : int
        Different rows that the metric was measured with.
    """
    r, t = plan.recommended, plan.targets
    found = [*_skew(plan), *_classes(plan)]
    if r.parameters["threshold"] == 0.0:
        found.append(
            "all rows are stored: no candidate that stores less meets the targets. What storing less costs is in the "
            "table."
        )
    if t.by.lost(r.value.mean, r.random_rows) > t.max_loss / 2.0:
        tried = any("sample_rate" in c.parameters for c in plan.candidates)
        how = f"threshold=inf with sample_rate={r.stored_share:.2g} stores such rows"
        figures = f"{t.by.title} {t.by.text(r.random_rows)}, not {t.by.text(r.value.mean)}"
        found.append(
            f"as many random rows do better here ({figures}): {how}"
            + ("." if tried else "; name the rows with ids= to have it tried.")
        )
    if r.stored_rows < _FEW:
        found.append(f"the core set has only {r.stored_rows} rows: results vary much with the rows it happens to hold.")
    if scored * t.max_loss < _SEEN * t.by.scale(plan.constant):
        found.append(
            f"{t.by.title} was measured with {scored:,} different rows, too few to see a loss of {t.max_loss:g} well: "
            "give more rows."
        )
    if plan.horizon > plan.rows:
        found.append(
            f"storage is extrapolated from {plan.rows:,} rows to {plan.horizon:,}, and {t.by.title} is that of the "
            "smaller sample: plan again with more rows when you have them."
        )
    if plan.survival.deletions is None:
        found.append(
            f"the loss of {t.max_loss:g} was never reached within all {plan.survival.limit:,} {plan.survival.unit} "
            "that could be deleted: that is no promise beyond them."
        )
    return tuple(found)


def _classes(plan: Plan) -> list[str]:
    """Where a plan looks good by one metric and bad by another."""
    scores = plan.recommended.scores
    if "balanced" not in scores:
        return []
    if plan.targets.metric == "accuracy" and scores["balanced"] < scores["accuracy"] - _GAP:
        return [
            f"balanced accuracy is {scores['balanced']:.4f} beside an accuracy of {scores['accuracy']:.4f}: rare "
            "classes are predicted worse than common ones. Where that matters, plan with metric='balanced'."
        ]
    if scores["balanced"] < (1.0 + _GAP) / len(plan.class_rows):
        return [
            f"balanced accuracy is {scores['balanced']:.4f}: the classes that it predicts are hardly better than a "
            "constant, whatever its probabilities are. Use those, or class_weight='balanced'."
        ]
    return []


def _skew(plan: Plan) -> list[str]:
    """Selection never looks at labels, so classes can be rarer among the core rows than in the data."""
    core, data = ([n / sum(counts) for n in counts] for counts in (plan.recommended.core_rows, plan.class_rows))
    ratios = [max(c / d, d / c) for c, d in zip(core, data, strict=True)]
    worst = max(range(len(ratios)), key=ratios.__getitem__)
    if ratios[worst] < _SKEW:
        return []
    return [
        f"classes are skewed in the core set, since selection never looks at labels: class {worst + 1} of {len(data)} "
        f"(in sorted order) is {percent(data[worst])} of the rows and {percent(core[worst])} of the core rows."
    ]
