"""What a reader of a plan should know before believing it."""

from __future__ import annotations

import dataclasses

from erasable.operations.plan._record import Plan
from erasable.operations.rendering import percent

_SKEW = 2.0  # a class that is this many times rarer or more common among the core rows is worth a word
_FEW = 30  # core rows
_SEEN = 10  # rows that the tolerated loss should be
_GAP = 0.05  # between accuracy and balanced accuracy


def cautions(plan: Plan, scored: int) -> Plan:
    """The plan with its warnings.

    Parameters
    ----------
    scored : int
        Different rows that accuracy was measured with.
    """
    r, found = plan.recommended, []
    found += _skew(plan)
    largest = max(plan.class_shares)
    if r.accuracy.mean <= largest:
        found.append(
            f"accuracy {r.accuracy.mean:.4f} is no better than always guessing the largest class ({largest:.4f}): a "
            "linear model of these columns does not help. Give columns of different size public scales, or use "
            "a feature_map, or ErasableKernelClassifier."
        )
    if r.balanced.mean < r.accuracy.mean - _GAP:
        found.append(
            f"balanced accuracy is {r.balanced.mean:.4f} beside an accuracy of {r.accuracy.mean:.4f}: rare classes are "
            "predicted worse than common ones. Judge the plan by what such an error costs."
        )
    if r.stored_rows < _FEW:
        found.append(f"the core set has only {r.stored_rows} rows: results vary much with the order of the rows.")
    if scored * plan.targets.max_loss < _SEEN:
        found.append(
            f"accuracy was measured with {scored:,} different rows, too few to see a loss of "
            f"{plan.targets.max_loss:g} well: give more rows."
        )
    if plan.horizon > plan.rows_used:
        found.append(
            f"storage is extrapolated from {plan.rows_used:,} rows to {plan.horizon:,}, and accuracy is that of the "
            "smaller sample: plan again with more rows when you have them."
        )
    if plan.survival.deletions is None:
        found.append(
            f"the loss of {plan.targets.max_loss:g} was never reached within all {plan.survival.limit:,} "
            f"{plan.survival.unit} that could be deleted: that is no promise beyond them."
        )
    return dataclasses.replace(plan, warnings=tuple(found))


def _skew(plan: Plan) -> list[str]:
    """Selection never looks at labels, so classes can be rarer among the core rows than in the data."""
    core, data = plan.recommended.core_shares, plan.class_shares
    ratios = [max(c / d, d / c) if c > 0.0 else float("inf") for c, d in zip(core, data, strict=True)]
    worst = max(range(len(ratios)), key=ratios.__getitem__)
    if ratios[worst] < _SKEW:
        return []
    return [
        f"classes are skewed in the core set, since selection never looks at labels: class {worst + 1} of "
        f"{plan.classes} (in sorted order) is {percent(data[worst])} of the rows and {percent(core[worst])} of the "
        "core rows. Watch balanced accuracy, also after deletions; public column scales, a lower capacity or a "
        "higher kappa help."
    ]
