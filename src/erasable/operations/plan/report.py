"""A plan for its reader: a record of numbers with nothing of the rows, its tables, warnings and picture."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from erasable.operations.plan.candidates import Candidate, SelectionScore, stores_all
from erasable.operations.plan.deletions import Survival
from erasable.operations.plan.rows import CLASSES, NUMBERS, Kind, Parameters
from erasable.operations.plan.targets import Targets
from erasable.operations.rendering import BLUE, GREY, INK, PALE, RED, TextTable, pyplot, save
from erasable.pages import facts, percent

_SKEW = 2.0  # a class that is this many times rarer or more common among the core rows is worth a warning
_FEW = 30  # core rows
_VISIBLE = 10  # rows that the tolerated loss should amount to
_GAP = 0.05  # between accuracy and balanced accuracy
_NEAR = 6.0  # tolerated losses that the second panel of the picture shows
_DELETED = {
    "uniform": "rows deleted, drawn at random",
    "subject": "subjects deleted, all rows of each",
    "label": "rows of one class deleted",
    "worst": "core rows deleted",
    "rarest": "rows deleted, the rarest first",
    "weights": "rows deleted, drawn by weight",
}


@dataclass(frozen=True)
class Plan:
    """Recommended parameters and what to expect of them. Two plans are equal when all but measured times are."""

    # Parameters, and what was measured: rows and bytes stored, how good it is, time per deletion, deletions survived.
    recommended: Candidate
    # Of ``ErasableClassifier`` or ``ErasableRegressor``: what was recommended, and what the caller gave.
    parameters: Parameters
    horizon: int  # rows the model is to see
    # reference, constant: the metric with every row stored, of the model that was best at that in a first look, and of
    # a constant. Losses are counted from the former.
    reference: float
    constant: float
    class_rows: tuple[int, ...]  # rows of each class, in the order of the sorted classes; for numbers, all rows
    candidates: tuple[Candidate, ...]  # everything measured, the least storage first
    # Leverage and independent selection with the recommended head at about the recommended storage, before and after
    # deletions; empty if all rows are stored.
    selections: tuple[SelectionScore, ...]
    # Which of ``moments`` and ``class_shares``, as the caller gave them, the recommended model uses.
    public: tuple[str, ...]
    targets: Targets
    effort: str
    random_state: int
    # rows, features: of the data.
    rows: int
    features: int
    scored: int  # different rows that the metric was measured with

    @property
    def kind(self) -> Kind:
        """What is planned for: classes or numbers."""
        return CLASSES if self.targets.metric in CLASSES.metrics else NUMBERS

    @property
    def line(self) -> str:
        """Python that builds the recommended model; ``scales`` and ``moments`` stand for what the caller gave."""
        typed = [f"{name}={_typed(name, value)}" for name, value in self.parameters.items()]
        typed += [f"{name}={name}" for name in self.public]
        return f"{self.kind.estimator.__name__}({', '.join(typed)})"

    @property
    def frontier(self) -> tuple[Candidate, ...]:
        """Candidates that no other beats in both storage and the metric, and all that deletions were simulated for."""
        return self._better_by(0.0)

    def _better_by(self, least: float) -> tuple[Candidate, ...]:
        """Candidates better by more than ``least`` than all that store less, and those with simulated deletions."""
        best, kept = math.inf, []
        for c in self.candidates:
            lost = self.targets.by.lost(c.value.mean, 0.0)
            if c.survival is not None or lost < best - least:
                kept.append(c)
                best = min(best, lost)
        return tuple(kept)

    @property
    def survival(self) -> Survival:
        """Simulated deletions until a refresh."""
        assert self.recommended.survival is not None
        return self.recommended.survival

    @property
    def months_until_refresh(self) -> float | None:
        """How long the simulated deletions last; None where none are expected or the loss is never reached."""
        rate, found = self.targets.deletions_per_month, self.survival.deletions
        return None if rate is None or found is None else found / rate

    @property
    def warnings(self) -> tuple[str, ...]:
        """What a reader should know before believing the plan."""
        return tuple(_warnings(self))

    def as_json(self) -> dict[str, Any]:
        """The plan as plain values, which ``json.dumps`` takes; None stands for what is not known or never reached."""
        plain: dict[str, Any] = dataclasses.asdict(self)
        for holder in (plain, plain["recommended"], *plain["candidates"], *plain["selections"]):
            holder["parameters"] = {name: _plain(value) for name, value in holder["parameters"].items()}
        lasting = {"line": self.line, "months_until_refresh": self.months_until_refresh}
        return {**plain, "warnings": list(self.warnings), **lasting}

    def predictions(self) -> TextTable:
        """What to expect of the recommended model, each number with where it comes from."""
        r, s, by = self.recommended, self.survival, self.targets.by
        measured, stored = "measured on rows not learnt", "measured on all rows"
        if self.horizon > self.rows:
            stored = "extrapolated from the sample"
        times = "unknown" if r.seconds_per_deletion is None else f"{1e3 * r.seconds_per_deletion:.3g} ms"
        band = "{} ({} to {})".format(*(by.text(v) for v in (r.value.mean, r.value.low, r.value.high)))
        simulated = f"simulated, {self.targets.distribution}, {s.runs} runs, 80% band"
        rows = [
            ("rows stored", f"{r.stored_rows:,} ({percent(r.stored_share)})", stored),
            ("bytes stored", f"{r.stored_bytes / 1e6:,.3g} MB", "rows, sums and weights"),
            (by.title, band, measured),
            ("  with every row stored", by.text(r.all_rows), "the same parameters"),
            ("  that a loss is counted from", by.text(self.reference), "every row stored, the best in a first look"),
        ]
        if r.final is not None:
            rows.append(("  on the rows it does not store", by.text(r.final), "learnt from all rows"))
        rows += [
            ("  of a constant", by.text(self.constant), "the best one on the same rows"),
            *((m.title, m.text(r.scores[m.name]), measured) for m in self.kind.metrics.values() if m != by),
            ("time per core deletion", times, "measured here, ready to predict again"),
            (f"{s.unit} deleted until {self.targets.max_loss:g} is lost", s.text(), simulated),
        ]
        if s.rows is not None:
            rows.append(("rows that go with them", f"{s.rows:,}", "simulated"))
        if self.months_until_refresh is not None:
            rows.append(("months until refresh", f"{self.months_until_refresh:,.1f}", "simulated"))
        return TextTable("What to expect", ("what", "prediction", "where it comes from"), rows)

    def table(self) -> TextTable:
        """The frontier without steps hardly better than the one before: what storing more would buy."""
        shown, by, classes = self._better_by(self.targets.max_loss / 4.0), self.targets.by, self.kind is CLASSES
        names = list(dict.fromkeys(name for c in shown for name in c.parameters))
        rarest = ("of the rarest class",) if classes else ()
        until = f"{self.survival.unit} deleted until loss"
        also = [m for m in self.kind.metrics.values() if classes and m.name == "logloss" and m != by]
        head = ("", *names, "stored", "MB", *rarest, by.title, "all rows", *(m.title for m in also), until)
        rows = [
            (
                "→" if c == self.recommended else "",
                *(_shown(c.parameters.get(name, "")) for name in names),
                percent(c.stored_share),
                f"{c.stored_bytes / 1e6:,.3g}",
                *([f"{min(c.core_rows):,}"] if classes else []),
                *(by.text(value) for value in (c.value.mean, c.all_rows)),
                *(m.text(c.scores[m.name]) for m in also),
                "" if c.survival is None else c.survival.text(),
            )
            for c in shown
        ]
        title = f"The frontier of {len(self.candidates)} candidates ({self.rows:,} x {self.features}"
        return TextTable(f"{title}, horizon {self.horizon:,})" if self.horizon > self.rows else f"{title})", head, rows)

    def compared(self) -> TextTable:
        """Both selections at equal storage, before and after deletions."""
        by, metrics = self.targets.by, list(self.kind.metrics.values())[:2]  # of classes those that look at all scores
        after = [f"{by.title} without {name}" for name in (self.selections[0].after if self.selections else ())]
        head = ("selection", "by", "stored", by.title, *(m.title for m in metrics if m != by), *after)
        rows = [
            (
                s.parameters["selection"],
                next(f"{name} {_shown(s.parameters[name])}" for name in ("rate", "threshold") if name in s.parameters),
                percent(s.stored_share),
                by.text(s.scores[by.name]),
                *(m.text(s.scores[m.name]) for m in metrics if m != by),
                *("no rows left" if value is None else by.text(value) for value in s.after.values()),
            )
            for s in self.selections
        ]
        return TextTable("Both selections at equal storage, with the same head", head, rows)

    def _repr_html_(self) -> str:
        expected = [(name.replace("  ", "\u2026 "), value) for name, value, _ in self.predictions().rows]
        notes = [("note", text) for text in self.warnings]
        return facts("Plan", [("recommended", self.line), *expected, *notes])


def number_text(value: float) -> str:
    """A number as it may be typed, with all its digits.

    Examples
    --------
    >>> from erasable.operations.plan import number_text
    >>> number_text(1000000.0), number_text(0.05)
    ('1000000', '0.05')
    """
    return repr(float(value)).removesuffix(".0")


def _typed(name: str, value: object) -> str:
    """A parameter as Python has it."""
    if name == "target_range":
        ends = np.asarray(value, dtype=np.float64).reshape(-1, 2).tolist()
        pairs = [f"({number_text(low)}, {number_text(high)})" for low, high in ends]
        return pairs[0] if np.ndim(value) == 1 else f"[{', '.join(pairs)}]"  # type: ignore[arg-type]
    if isinstance(value, np.ndarray | list | tuple):
        return "scales"
    return 'float("inf")' if value == math.inf else number_text(value) if isinstance(value, float) else repr(value)


def _shown(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray | list | tuple):
        return np.asarray(value).tolist()
    return "inf" if value == math.inf else value


def _warnings(plan: Plan) -> Iterator[str]:
    r, t, by = plan.recommended, plan.targets, plan.targets.by
    yield from _class_warnings(plan)
    if stores_all(r.parameters):
        yield "all rows are stored: no candidate that stores less meets the targets. The table shows what less costs."
    yield from _selection_hints(plan)
    if r.stored_rows < _FEW:
        yield f"the core set has only {r.stored_rows} rows: results vary much with the rows it happens to hold."
    if plan.scored * t.max_loss < _VISIBLE * by.scale(plan.constant):
        yield (
            f"{by.title} was measured with {plan.scored:,} different rows, too few to see a loss of {t.max_loss:g} "
            "well: give more rows."
        )
    if plan.horizon > plan.rows:
        yield (
            f"storage is extrapolated from {plan.rows:,} rows to {plan.horizon:,}, and {by.title} is that of the "
            "smaller sample: plan again with more rows when you have them."
        )
    if plan.survival.deletions is None:
        yield (
            f"the loss of {t.max_loss:g} was never reached within all {plan.survival.limit:,} {plan.survival.unit} "
            "that could be deleted: that is no promise beyond them."
        )


def _selection_hints(plan: Plan) -> Iterator[str]:
    """Leverage, where it is better than the independent selection that is recommended, at the same storage."""
    if not plan.selections or "rate" not in plan.recommended.parameters:
        return
    by, (leverage, independent) = plan.targets.by, plan.selections
    score, independent_score = leverage.scores[by.name], independent.scores[by.name]
    if by.lost(independent_score, score) > plan.targets.max_loss:
        yield (
            f"leverage with threshold {leverage.parameters['threshold']:g} is better at the same storage ({by.title} "
            f"{by.text(score)} against {by.text(independent_score)}), but promises less: after forgetting, the state "
            "is that of learning the surviving core rows."
        )


def _class_warnings(plan: Plan) -> Iterator[str]:
    """Classes rarer in the core set than in the data, or predicted worse than the metric shows."""
    core, data = ([n / sum(counts) for n in counts] for counts in (plan.recommended.core_rows, plan.class_rows))
    ratios = [max(c / d, d / c) for c, d in zip(core, data, strict=True)]
    worst = max(range(len(ratios)), key=ratios.__getitem__)
    if ratios[worst] >= _SKEW:
        yield (
            f"classes are skewed in the core set, since selection never looks at labels: class {worst + 1} of "
            f"{len(data)} (in sorted order) is {percent(data[worst])} of the rows and {percent(core[worst])} of the "
            "core rows."
        )
    scores, metric = plan.recommended.scores, plan.targets.metric
    if "balanced" not in scores:
        return
    balanced = f"balanced accuracy is {scores['balanced']:.4f}"
    if metric == "balanced":
        yield (
            "classes are given their weight, so probabilities are not calibrated: rare classes get more than their "
            f"share (log-loss {scores['logloss']:.4f}). Use the predicted classes; for probabilities, plan with "
            "metric='logloss'."
        )
    elif metric in ("auc", "accuracy") and scores["balanced"] < scores["accuracy"] - _GAP:
        yield (
            f"{balanced}, and accuracy {scores['accuracy']:.4f}: rare classes are predicted worse than common ones. "
            "Where that matters, plan with metric='balanced'."
        )
    elif scores["balanced"] < (1.0 + _GAP) / len(plan.class_rows):
        yield (
            f"{balanced}: the predicted classes are hardly better than a constant, however good the probabilities are. "
            "Use those, or plan with metric='balanced'."
        )


def draw_frontier(plan: Plan, folder: str | Path) -> str:
    """Draw ``frontier.png`` and ``frontier.svg`` into a folder, and return the SVG as text.

    Raises ConfigurationError when matplotlib is missing or the folder cannot be written.
    """
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 5), layout="constrained")
    by = plan.targets.by
    reach = abs(plan.reference - plan.constant)
    close = min(_NEAR * plan.targets.max_loss, reach)
    best = min(plan.candidates, key=lambda c: by.lost(c.value.mean, 0.0)).value.mean
    above = max(0.0, by.lost(plan.reference, best))  # candidates may be better than every row stored
    near = [c for c in plan.candidates if by.lost(c.value.mean, plan.reference) <= close]
    for axis, shown, below, span in ((axes[0], plan.candidates, 1.15, reach), (axes[1], near, 1.0, close)):
        _draw_candidates(axis, plan, shown)
        axis.set_ylim(*sorted(by.worse(plan.reference, lost) for lost in (below * span, -above - 0.1 * span)))
    _draw_deletions(axes[2], plan)
    for axis, title in zip(
        axes, ("the whole frontier", "close to every row stored", "what deletions cost"), strict=True
    ):
        axis.set_title(title, loc="left", fontsize=11)
    named = {name: mark for axis in axes for mark, name in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=5, frameon=False)
    chosen = ", ".join(f"{name} {_shown(value)}" for name, value in plan.recommended.parameters.items())
    figure.suptitle(f"Recommended: {chosen}", x=0.008, ha="left", weight="bold")
    return save(plt, figure, Path(folder) / "frontier")


def _draw_candidates(axis: Any, plan: Plan, shown: Sequence[Candidate]) -> None:
    def points(candidates: Sequence[Candidate]) -> tuple[list[float], list[float]]:
        return [100.0 * c.stored_share for c in candidates], [c.value.mean for c in candidates]

    t, by = plan.targets, plan.targets.by
    frontier = [c for c in plan.frontier if c in shown]
    axis.axhspan(*sorted((plan.reference, by.worse(plan.reference, t.max_loss))), color=PALE, alpha=0.4, lw=0)
    axis.axhline(plan.reference, color=INK, linestyle="--", linewidth=1, label="every row stored, and what may be lost")
    axis.axhline(plan.constant, color=INK, linestyle=":", linewidth=1, label="a constant")
    alone = [c for c in shown if "rate" in c.parameters]
    others = [c for c in shown if c not in alone]
    marks = {"alpha": 0.5, "linewidth": 0, "zorder": 2}
    axis.scatter(*points(others), s=16, color=BLUE, label="rows stored by leverage", **marks)
    axis.scatter(*points(alone), s=16, color=GREY, marker="s", label="independent selection", **marks)
    axis.plot(*points(frontier), "-", color=BLUE, linewidth=1.4, label="the best of them", zorder=3)
    axis.scatter(*points([plan.recommended]), s=110, color=RED, label="recommended", zorder=4)
    axis.set_ylabel(f"{by.title} on rows not learnt" + (",\nlower is better" if by.sign < 0 else ""))
    axis.set_xlabel("rows stored, %")
    if t.max_stored is not None:
        axis.axvline(100 * t.max_stored, color=RED, linestyle=":", linewidth=1, label="rows that may be stored")
    shares = [share for share in points(shown)[0] if share > 0.0]
    if max(shares) > 10 * min(shares):
        axis.set_xscale("log")
        few = (1.0,) if max(shares) > 1000 * min(shares) else (1.0, 3.0)
        axis.xaxis.get_major_locator().set_params(subs=few, numticks=12)
        axis.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.xaxis.set_minor_formatter("")  # its own labels would run into these
    else:
        axis.set_xlim(0, None)


def _draw_deletions(axis: Any, plan: Plan) -> None:
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
