"""The frontier as a picture: what storing more buys, all of it and close to every row stored; what deletions cost."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from erasable.operations.plan._candidates import Candidate
from erasable.operations.plan._record import Plan
from erasable.operations.rendering import BLUE, GREY, INK, PALE, RED, pyplot, save

_NEAR = 6.0  # tolerated losses that the second panel shows
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
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    by, most = plan.targets.by, plan.targets.max_loss
    reach = abs(plan.reference - plan.constant)
    best = min(plan.candidates, key=lambda c: by.lost(c.value.mean, 0.0)).value.mean
    top = max(0.0, by.lost(plan.reference, best))  # candidates may be better than every row stored
    _candidates(axes[0], plan, plan.candidates)
    axes[0].set_ylim(*sorted(by.worse(plan.reference, by_much) for by_much in (1.15 * reach, -top - 0.1 * reach)))
    axes[0].set_title("the whole frontier", loc="left", fontsize=11)
    close = min(_NEAR * most, reach)
    near = [c for c in plan.candidates if by.lost(c.value.mean, plan.reference) <= close]
    _candidates(axes[1], plan, near)
    axes[1].set_ylim(*sorted(by.worse(plan.reference, by_much) for by_much in (close, -top - 0.1 * close)))
    axes[1].set_title("close to every row stored", loc="left", fontsize=11)
    _deletions(axes[2], plan)
    axes[2].set_title("what deletions cost", loc="left", fontsize=11)
    named = {name: mark for axis in axes for mark, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=5, frameon=False)
    chosen = plan.recommended.parameters.items()
    named_so = ", ".join(
        f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in chosen
    )
    figure.suptitle(f"Recommended: {named_so}", x=0.008, ha="left", weight="bold")
    return save(plt, figure, Path(folder) / "frontier")


def _candidates(axis: Any, plan: Plan, shown: Sequence[Candidate]) -> None:
    by, r = plan.targets.by, plan.recommended
    frontier = [c for c in plan.frontier if c in shown]
    axis.axhspan(
        *sorted((plan.reference, by.worse(plan.reference, plan.targets.max_loss))), color=PALE, alpha=0.4, lw=0
    )
    axis.axhline(plan.reference, color=INK, linestyle="--", linewidth=1, label="every row stored, and what may be lost")
    axis.axhline(plan.constant, color=INK, linestyle=":", linewidth=1, label="a constant")
    axis.scatter(*_points(shown), s=16, color=BLUE, alpha=0.35, linewidth=0, label="candidates", zorder=2)
    axis.plot(*_points(frontier), "o-", color=BLUE, markersize=4, linewidth=1.4, label="the best of them", zorder=3)
    random = [c.random_rows for c in frontier]
    axis.plot(_points(frontier)[0], random, "s--", color=GREY, markersize=3, linewidth=1, label="as many random rows")
    axis.scatter([_percent(r)], [r.value.mean], s=110, color=RED, label="recommended", zorder=4)
    axis.set_ylabel(f"{by.title} on rows not learnt" + (",\nlower is better" if by.sign < 0 else ""))
    axis.set_xlabel("rows stored, %")
    if plan.targets.max_stored is not None:
        axis.axvline(
            100 * plan.targets.max_stored, color=RED, linestyle=":", linewidth=1, label="rows that may be stored"
        )
    shares = [_percent(c) for c in shown if c.stored_share > 0.0]
    if max(shares) > 10 * min(shares):
        axis.set_xscale("log")
        few = (1.0,) if max(shares) > 1000 * min(shares) else (1.0, 3.0)
        axis.xaxis.get_major_locator().set_params(subs=few, numticks=12)
        axis.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.xaxis.set_minor_formatter("")  # its own labels would run into these
    else:
        axis.set_xlim(0, None)


def _deletions(axis: Any, plan: Plan) -> None:
    s, most = plan.survival, plan.targets.max_loss
    axis.plot(*zip((0, 0.0), *s.curve, strict=True), color=RED, linewidth=2, zorder=3)
    for c in plan.candidates:
        if c.survival is not None and c != plan.recommended:
            axis.plot(*zip((0, 0.0), *c.survival.curve, strict=True), color=GREY, linewidth=1, label="others simulated")
    axis.axhspan(0.0, most, color=PALE, alpha=0.4, linewidth=0)
    if s.deletions is not None:
        high = s.limit if s.high is None else s.high
        axis.axvspan(s.low, high, color=RED, alpha=0.12, linewidth=0, label="until that much is lost: 80% band")
    if plan.targets.deletions is not None:
        axis.axvline(plan.targets.deletions, color=RED, linestyle="--", linewidth=1, label="deletions expected")
    axis.set_ylim(min(-0.2 * most, *(loss for _, loss in s.curve)), 5 * most)
    axis.set_xlabel(_DELETED[plan.targets.distribution])
    axis.set_ylabel(f"{plan.targets.by.title} lost, recommended")
    axis.xaxis.set_major_formatter(lambda v, _: f"{int(v):,}")
    axis.locator_params(axis="x", nbins=5)


def _points(shown: Sequence[Candidate]) -> tuple[list[float], list[float]]:
    return [_percent(c) for c in shown], [c.value.mean for c in shown]


def _percent(c: Candidate) -> float:
    return 100.0 * c.stored_share
