"""Pictures of an experiment, each as PNG and SVG."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.svm import SVC

from erasable.operations.rendering import BLUE, GREY, INK, RED, pyplot, save
from erasable.research.reproduce.report import Results

COLOURS = {
    "erasable": RED,
    "logistic": "#e39a8d",
    "retrained": BLUE,
    "sums": "#4fa3b5",
    "sisa": "#3d8b5f",
    "newton": "#7d6aa8",
    "certified": "#b8862b",
    "subsample": GREY,
}
LINES = {"logistic": (0, (6, 2)), "retrained": "--", "sums": (0, (1, 3)), "newton": ":", "subsample": "-."}


def check_available() -> None:
    """Refuse now rather than after an hour when pictures could not be drawn."""
    pyplot()


def draw_all(results: Results, folder: Path) -> dict[str, str]:
    """Draw every picture into a folder; the SVG text of each by name."""
    plt = pyplot()
    pictures: dict[str, Any] = {}
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.1), layout="constrained")
    data = results["data"]
    _curves(axes[0], results, "accuracy", "test accuracy", data["majority"])
    _curves(axes[1], results, "balanced", "balanced accuracy", 1 / data["classes"])
    lines, titles = axes[0].get_legend_handles_labels()
    axes[0].legend(lines[::-1], titles[::-1], frameon=False, fontsize=8.5)
    figure.suptitle(f"Accuracy while rows are deleted: {results['dataset']}", x=0.01, ha="left", weight="bold")
    pictures["accuracy"] = figure
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.9), layout="constrained")
    _tradeoff(axes[0], results)
    _sweep(axes[1], results)
    figure.suptitle("What forgetting costs, and what has to be stored", x=0.01, ha="left", weight="bold")
    pictures["tradeoff"] = figure
    pictures["figure1"] = _figure_1(plt, figure_1())
    return {name: save(plt, picture, folder / name) for name, picture in pictures.items()}


def draw_figure_1(folder: Path) -> dict[str, str]:
    """Draw the paper's Figure 1 alone."""
    plt = pyplot()
    return {"figure1": save(plt, _figure_1(plt, figure_1()), folder / "figure1")}


def _curves(axis: Any, results: Results, key: str, label: str, guess: float) -> None:
    for name, m in reversed(results["methods"].items()):
        x, band = np.array(m["deleted"]), m[key]
        ours = name == "erasable"
        style = {"color": COLOURS[name], "linestyle": LINES.get(name, "-"), "linewidth": 2.4 if ours else 1.5}
        axis.plot(x, band["mean"], label=m["title"], zorder=3 if ours else 2, **style)
        if len(band["repeats"]) > 2:
            axis.fill_between(x, band["low"], band["high"], color=COLOURS[name], alpha=0.15, linewidth=0)
    axis.set_xlabel("rows deleted")
    axis.set_ylabel(label)
    axis.xaxis.get_major_locator().set_params(nbins=5, integer=True)
    axis.xaxis.set_major_formatter(lambda v, _: f"{int(v):,}")
    everything = np.array([m[key]["mean"] for m in results["methods"].values()])
    if len(everything) > 1 and np.ptp(everything, axis=0).max() < 5e-4:
        axis.annotate("all methods lie on one line", (0.98, 0.82), xycoords="axes fraction", ha="right", fontsize=9)
    _fit(axis, everything[everything > 0.0])  # 0 is for a method that cannot predict any more
    axis.axhline(guess, color=GREY, linewidth=1, linestyle=":", zorder=1)
    axis.set_title(f"always guessing the largest class: {guess:.3f}", fontsize=9, loc="left", color=GREY)


def _fit(axis: Any, values: Any) -> None:
    """Let the axis of accuracies show these values, however close to each other they are."""
    low, high = (float(values.min()), float(values.max())) if len(values) else (0.0, 1.0)
    room = max(0.08 * (high - low), 0.005)
    axis.set_ylim(max(0.0, low - room), min(1.0 + room / 2, high + room))
    axis.yaxis.set_major_formatter(lambda v, _: "" if v > 1.0 + 1e-9 else f"{v:.4g}")


def _tradeoff(axis: Any, results: Results) -> None:
    for name, m in results["methods"].items():
        x, y = m["stored_bytes"] / 1e6, m["deletion_s"]
        inside = "white" if m["deletion_estimated"] else COLOURS[name]
        axis.scatter(x, y, s=70, facecolor=inside, edgecolor=COLOURS[name], linewidth=1.8, zorder=3)
        axis.annotate(m["title"], (x, y), xytext=(7, 4), textcoords="offset points", fontsize=8.5)
    axis.set_xscale("log")
    axis.set_yscale("log")
    low, high = axis.get_xlim()
    axis.set_xlim(low, high * 12)
    low, high = axis.get_ylim()
    axis.set_ylim(low / 2, high * 2)
    axis.set_xlabel("stored, MB")
    axis.set_ylabel("accumulated deletion time, s")
    axis.grid(color="#e6e9ee", zorder=0)


def _sweep(axis: Any, results: Results) -> None:
    """Accuracy against what is stored, one point for each kappa."""
    sweep, chosen = results["sweep"], results["settings"]["kappa"]
    stored, accuracy = [100 * v["share"] for v in sweep], [v["accuracy"] for v in sweep]
    axis.plot(stored, accuracy, "o-", color=COLOURS["erasable"], markersize=4, linewidth=1.2)
    _fit(axis, np.array(accuracy))
    if max(stored) > 20 * min(stored):
        axis.set_xscale("log")
        axis.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
        axis.xaxis.set_minor_formatter("")
    axis.margins(x=0.15)
    named = {"textcoords": "offset points", "ha": "center", "fontsize": 8}
    last = np.full(2, -np.inf)
    for v, x, y in zip(sweep, stored, accuracy, strict=True):
        at = axis.transAxes.inverted().transform(axis.transData.transform((x, y)))
        if v["kappa"] == chosen:
            axis.scatter(x, y, s=80, color=COLOURS["erasable"], zorder=3)
            axis.annotate(f"kappa {chosen:g}, used here", (x, y), xytext=(0, 9), weight="bold", **named)
        elif np.abs(at - last).max() > 0.07:  # others would be written over each other
            axis.annotate(f"{v['kappa']:g}", (x, y), xytext=(0, -14), color=GREY, **named)
            last = at
    axis.set_xlabel("rows stored, %")
    axis.set_ylabel("test accuracy before deletions")
    axis.grid(color="#e6e9ee", zorder=0)


def _figure_1(plt: Any, f: Figure1) -> Any:
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.9), sharex=True, sharey=True, layout="constrained")
    everything = np.arange(len(f.y))
    left = np.setdiff1d(everything, [f.deleted])
    core = np.setdiff1d(f.before.support, [f.deleted])
    panels = [
        ("before: trained on all points", f.before, everything, f.before.support),
        ("traditional: all but the deleted point", f.traditional, left, f.traditional.support),
        ("system-aware: the other support vectors", f.system_aware, core, core),
    ]
    for axis, (title, separator, seen, support) in zip(axes, panels, strict=True):
        for sign, marker in ((-1, "o"), (1, "^")):
            mine = everything[f.y == sign]
            faint = [i for i in mine if i not in seen and i != f.deleted]
            strong = [i for i in mine if i in seen and i not in support]
            axis.scatter(*f.X[faint].T, marker=marker, s=26, facecolors="none", edgecolors="#d7dbe1")
            axis.scatter(*f.X[strong].T, marker=marker, s=26, color="#9fb6cc")
            held = [i for i in mine if i in support and i not in f.newly_supporting]
            new = [i for i in mine if i in support and i in f.newly_supporting]
            axis.scatter(*f.X[held].T, marker=marker, s=60, color=BLUE, zorder=3)
            axis.scatter(*f.X[new].T, marker=marker, s=60, color="#3d8b5f", zorder=3)
        axis.scatter(*f.X[f.deleted], marker="x", s=90, color=RED, linewidths=2.2, zorder=4)
        if separator is not f.before:
            _line(axis, f.before, color="#d7dbe1")
        _line(axis, separator, color=INK, margins=True)
        axis.set_title(title, fontsize=10, loc="left")
        axis.set_xticks([])
        axis.set_yticks([])
    reach = np.abs(f.X).max(axis=0) * 1.1
    axes[0].set_xlim(-reach[0], reach[0])
    axes[0].set_ylim(-reach[1], reach[1])
    figure.suptitle(
        "Deleting a support vector (red cross): dark points hold the boundary, green ones are drawn in anew",
        x=0.01,
        ha="left",
        weight="bold",
        fontsize=10.5,
    )
    return figure


def _line(axis: Any, s: Separator, *, color: str, margins: bool = False) -> None:
    x = np.array([-20.0, 20.0])
    for level in (-1.0, 0.0, 1.0) if margins else (0.0,):
        style = {"linewidth": 1.6} if level == 0.0 else {"linewidth": 0.8, "linestyle": "--"}
        axis.plot(x, (level - s.b - s.w[0] * x) / s.w[1], color=color, zorder=1, **style)


Points = npt.NDArray[np.float64]
_POINTS = 40


@dataclass(frozen=True)
class Separator:
    """A hard-margin SVM: ``w'x + b``, and which of the points are its support vectors."""

    w: Points
    b: float
    support: npt.NDArray[np.intp]

    @property
    def angle(self) -> float:
        """Direction of the boundary in degrees."""
        return float(np.degrees(np.arctan2(self.w[1], self.w[0])))


@dataclass(frozen=True)
class Figure1:
    """Points of two classes, the deleted one, and the three separators.

    ``before``: trained on all points. ``traditional``: on all but the deleted one, ``A(S - U, {})``. ``system_aware``:
    on the other support vectors alone, ``A(S' - U, {})``. ``support`` of each are positions in ``X``.
    """

    X: Points
    y: npt.NDArray[np.intp]
    deleted: int
    before: Separator
    traditional: Separator
    system_aware: Separator

    @property
    def newly_supporting(self) -> npt.NDArray[np.intp]:
        """Points that become support vectors under traditional unlearning."""
        return np.setdiff1d(self.traditional.support, self.before.support)


def separate(X: Points, y: npt.NDArray[np.intp], index: npt.NDArray[np.intp]) -> Separator:
    """The hard-margin SVM of the points named by ``index``."""
    svm = SVC(kernel="linear", C=1e9, tol=1e-8).fit(X[index], y[index])
    return Separator(svm.coef_[0], float(svm.intercept_[0]), np.sort(index[svm.support_]))


def figure_1() -> Figure1:
    """Two separable clouds of points, drawn so that a support vector's leaving lets another point in.

    Draws are tried one after the other until one shows it: one class has two support vectors, one of which is deleted,
    and retraining on all other points turns the boundary.
    """
    everything = np.arange(_POINTS)
    y = np.where(everything % 2, 1, -1)
    draws = count()
    while True:
        X = np.random.default_rng(next(draws)).standard_normal((_POINTS, 2)) * [1.3, 0.8] + np.outer(y, [0.6, 1.6])
        if (y * (X @ [0.35, 1.0]) < 0.25).any():
            continue
        before = separate(X, y, everything)
        two = [i for i in before.support if np.count_nonzero(y[before.support] == y[i]) == 2]
        for deleted in two if len(before.support) == 3 else []:
            traditional = separate(X, y, np.setdiff1d(everything, [deleted]))
            system_aware = separate(X, y, np.setdiff1d(before.support, [deleted]))
            found = Figure1(X, y, int(deleted), before, traditional, system_aware)
            turns = [abs(found.before.angle - s.angle) for s in (traditional, system_aware)]
            if len(found.newly_supporting) and 12.0 < turns[0] < 60.0 and turns[1] < 50.0:
                return found
