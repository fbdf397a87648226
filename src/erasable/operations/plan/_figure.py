"""The frontier as a picture: what storing more buys in accuracy and in deletions survived."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from erasable.operations.plan._frontier import Candidate
from erasable.operations.plan._record import Plan
from erasable.operations.rendering import BLUE, GREY, INK, RED, pyplot, save

_OURS, _OTHER = RED, BLUE
_DELETED = {
    "uniform": "rows deleted, drawn at random",
    "subject": "subjects deleted, all rows of each",
    "label": "rows of one class deleted",
    "worst": "core rows deleted",
    "weights": "rows deleted, drawn by weight",
}


def draw_frontier(plan: Plan, folder: str | Path) -> str:
    """Draw ``frontier.png`` and ``frontier.svg`` into a folder; the SVG as text.

    Raises
    ------
    ConfigurationError
        When matplotlib is missing or the folder cannot be written.
    """
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.9), layout="constrained")
    _accuracy(axes[0], plan)
    _deletions(axes[1], plan)
    _curve(axes[2], plan)
    figure.suptitle("Stored rows, accuracy, and deletions survived", x=0.01, ha="left", weight="bold")
    return save(plt, figure, Path(folder) / "frontier")


def _accuracy(axis: Any, plan: Plan) -> None:
    x = [_percent(c) for c in plan.frontier]
    middle = [c.accuracy.mean for c in plan.frontier]
    below = [c.accuracy.mean - c.accuracy.low for c in plan.frontier]
    above = [c.accuracy.high - c.accuracy.mean for c in plan.frontier]
    axis.errorbar(x, middle, yerr=[below, above], fmt="o-", color=_OTHER, markersize=4, linewidth=1.2, elinewidth=0.8)
    axis.axhline(plan.reference, color=GREY, linestyle="--", linewidth=1)
    axis.annotate(
        "all rows stored",
        (0.02, plan.reference),
        xycoords=("axes fraction", "data"),
        ha="left",
        va="bottom",
        fontsize=8.5,
    )
    r = plan.recommended
    axis.scatter(_percent(r), r.accuracy.mean, s=90, color=_OURS, zorder=4)
    axis.set_title(f"recommended: capacity {r.capacity:g}, kappa {r.kappa:g}", fontsize=9, loc="left", color=_OURS)
    axis.set_ylabel("accuracy on rows not learnt")
    _stored(axis, plan, list(plan.frontier))


def _deletions(axis: Any, plan: Plan) -> None:
    for c in plan.frontier:
        s = c.survival
        if s is None:
            continue
        colour = _OURS if c == plan.recommended else _OTHER
        middle = s.limit if s.deletions is None else s.deletions
        low, high = (s.limit if v is None else v for v in (s.low, s.high))
        axis.plot([_percent(c)] * 2, [low, high], color=colour, linewidth=1)
        axis.scatter(_percent(c), middle, s=45, marker="o" if s.deletions is not None else "^", color=colour, zorder=3)
    if plan.targets.deletions is not None:
        axis.axhline(plan.targets.deletions, color=GREY, linestyle="--", linewidth=1)
        axis.annotate(
            "wanted",
            (0.98, plan.targets.deletions),
            xycoords=("axes fraction", "data"),
            ha="right",
            va="bottom",
            fontsize=8.5,
        )
    axis.set_ylim(0, None)
    axis.set_ylabel(f"{plan.survival.unit} deleted until {plan.targets.max_loss:g} is lost")
    axis.yaxis.set_major_formatter(lambda v, _: f"{int(v):,}")
    _stored(axis, plan, [c for c in plan.frontier if c.survival is not None])


def _curve(axis: Any, plan: Plan) -> None:
    s = plan.survival
    seen = [(0, 0.0), *s.curve]
    axis.plot([k for k, _ in seen], [loss for _, loss in seen], color=_OURS, linewidth=2)
    axis.axhline(plan.targets.max_loss, color=GREY, linestyle="--", linewidth=1)
    if s.deletions is not None:
        high = s.limit if s.high is None else s.high
        axis.axvspan(s.low, high, color=_OURS, alpha=0.12, linewidth=0)
        axis.axvline(s.deletions, color=INK, linewidth=1, linestyle=":")
    axis.set_ylim(min(-0.1 * plan.targets.max_loss, *(loss for _, loss in seen)), 5 * plan.targets.max_loss)
    axis.set_xlabel(_DELETED[plan.targets.distribution])
    axis.set_ylabel("accuracy lost, recommended")
    axis.xaxis.set_major_formatter(lambda v, _: f"{int(v):,}")
    axis.locator_params(axis="x", nbins=5)


def _stored(axis: Any, plan: Plan, shown: list[Candidate]) -> None:
    axis.set_xlabel("rows stored, %")
    shares = [_percent(c) for c in shown]
    if max(shares) > 20 * min(shares) > 0:
        axis.set_xscale("log")
        few = (1.0,) if max(shares) > 1000 * min(shares) else (1.0, 3.0)
        axis.xaxis.get_major_locator().set_params(subs=few, numticks=12)
        axis.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.xaxis.set_minor_formatter("")  # its own labels would run into these
    else:
        axis.set_xlim(0, None)
    if plan.targets.max_stored is not None:
        axis.axvline(100 * plan.targets.max_stored, color=GREY, linestyle=":", linewidth=1)


def _percent(c: Candidate) -> float:
    return 100.0 * c.stored_share
