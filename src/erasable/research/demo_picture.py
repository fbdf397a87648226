"""The picture of the demo: what is stored of a raw table, who left, and accuracy as forgetting goes on."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from erasable.operations.rendering import BLUE, GREY, INK, PALE, RED, pyplot

Curve = Sequence[tuple[int, int, float]]

_SHOWN = 15  # rows of the table
_WIDE = 320  # rows side by side in the map of all of them
_COLUMNS = {"customer": 18, "placed": 12, "town": 13, "goods": 9, "price": 9, "note": 45, "returned": 8}
_PASSED_OVER, _STORED = "#b3bac4", "#4d5a69"


def draw(
    rows: Sequence[dict[str, Any]], stored: set[str], leaving: set[str], curve: Curve, usual: float, path: Path
) -> None:
    """Draw it into a PNG file.

    Raises
    ------
    ConfigurationError
        When matplotlib is missing.
    """
    plt = pyplot()
    kinds = np.array([_kind(row, stored, leaving) for row in rows])
    with plt.rc_context({"font.size": 10, "axes.edgecolor": PALE}):
        figure = plt.figure(figsize=(13, 5.6), layout="constrained")
        left, right = figure.subfigures(1, 2, width_ratios=(1.75, 1), wspace=0.03)
        table, everything = left.subplots(2, 1, height_ratios=(1.5, 1))
        _table(table, rows, kinds)
        _everything(everything, kinds)
        _accuracy(right.subplots(), curve, usual)
        try:
            figure.savefig(path, dpi=120)
        finally:
            plt.close(figure)


def _kind(row: dict[str, Any], stored: set[str], leaving: set[str]) -> int:
    """0: passed over; 1: stored; 2: stored, of somebody who left."""
    return 0 if row["order"] not in stored else 2 if row["customer"] in leaving else 1


def _table(axis: Any, rows: Sequence[dict[str, Any]], kinds: Any) -> None:
    """Some lines of the table, as it came: those where most left."""
    left = np.convolve(kinds == 2, np.ones(_SHOWN, dtype=int), "valid")
    first = int(np.argmax(left))
    lines = rows[first : first + _SHOWN]
    axis.set_xlim(0, sum(_COLUMNS.values()))
    axis.set_ylim(_SHOWN + 0.1, -1.8)
    font = {"family": "monospace", "size": 8, "va": "center"}
    at = 0
    for name, width in _COLUMNS.items():
        axis.text(at, -1.2, name, color=GREY, weight="bold", **font)
        for k, row in enumerate(lines):
            axis.text(at, k, _cell(row[name], width), color=(_PASSED_OVER, INK, RED)[kinds[first + k]], **font)
        at += width
    for k in np.flatnonzero(kinds[first : first + _SHOWN] == 2).tolist():
        axis.plot([0, at - 5], [k, k], color=RED, lw=1)
    axis.set_axis_off()
    axis.set_title(
        "A raw table. Grey rows were learnt from and not stored; struck ones are of customers who left.",
        loc="left",
        size=10,
    )


def _cell(value: Any, width: int) -> str:
    if isinstance(value, float):
        return f"{value:.2f}"
    text = "·" if value is None else str(value)
    text = text.split(" ")[0] if text[4:5] == "-" else text  # of a moment the day
    return text if len(text) < width else text[: width - 2] + "…"


def _everything(axis: Any, kinds: Any) -> None:
    """Every row a dot."""
    from matplotlib.colors import ListedColormap

    tall = -(-len(kinds) // _WIDE)
    canvas = np.zeros(tall * _WIDE)
    canvas[: len(kinds)] = kinds
    colours = ListedColormap(["#f1f3f5", _STORED, RED])
    axis.imshow(canvas.reshape(tall, _WIDE), cmap=colours, interpolation="nearest", aspect="auto")
    gone = np.flatnonzero(kinds == 2)
    axis.scatter(gone % _WIDE, gone // _WIDE, marker="s", color=RED, s=22, lw=0)
    axis.set_axis_off()
    n = np.count_nonzero(kinds)
    title = f"All {len(kinds):,} rows, each a dot: {n:,} are stored (dark), of which {len(gone)} left (red)."
    axis.set_title(title, loc="left", size=10)


def _accuracy(axis: Any, curve: Curve, usual: float) -> None:
    people = [left for left, _, _ in curve]
    axis.axhline(usual, color=GREY, lw=1, ls="--")
    axis.text(people[0], usual + 0.004, "scikit-learn, fitted on all rows", color=GREY, size=9, ha="left", va="bottom")
    axis.plot(people, [auc for _, _, auc in curve], color=BLUE, lw=2, marker="o", ms=5)
    axis.set_ylim(0.5, 0.85)
    axis.set_xlim(people[0] * 1.03, 0)
    axis.xaxis.set_major_formatter("{x:,.0f}")
    axis.set_xlabel("customers left in the model")
    axis.set_ylabel("AUC on later orders")
    axis.grid(color=PALE, lw=0.5, alpha=0.6)
    axis.set_title("Forgetting goes on.\nAt every dot the state was verified, bit for bit.", loc="left", size=10)
