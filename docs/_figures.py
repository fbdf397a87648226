"""Figures that are drawn from the tables of ``benchmarks/RESULTS.md`` at build time, and the social card."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt

Table = list[dict[str, str]]
THEMES = {
    "light": {"ink": "#1b1f24", "grey": "#6b7480", "pale": "#d5dae1", "ours": "#1b4f72", "peer": "#c2402c"},
    "dark": {"ink": "#e6e9ee", "grey": "#a3acb8", "pale": "#3a414b", "ours": "#6fb3e0", "peer": "#f08a6c"},
}
OURS = "**defaults**"
PEERS = {"LightGBM": "LightGBM, all rows", "LightGBM, as many random rows": "LightGBM, as many random rows"}


def tables(text: str) -> dict[str, list[Table]]:
    """Every table of the results, as lists of lines by column, under the name of its section."""
    found: dict[str, list[Table]] = {}
    for part in re.split(r"<!-- section: ", text)[1:]:
        name, body = part.split(" -->", 1)
        for block in re.findall(r"(?:^\|.*\n)+", body, re.MULTILINE):
            head, _, *lines = (
                [cell.strip() for cell in line.strip().strip("|").split("|")] for line in block.splitlines()
            )
            found.setdefault(name, []).append([dict(zip(head, line, strict=True)) for line in lines])
    return found


def number(cell: str) -> float:
    """The first number of a cell: ``0.907 (0.005)`` is 0.907."""
    return float(re.search(r"-?[\d,]*\.?\d+", cell.replace("**", ""))[0].replace(",", ""))  # type: ignore[index]


def write(results: Path, folder: Path) -> None:
    """Draw every figure for light and for dark pages, and the card, into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    last = folder / "card.png"
    newest = max(path.stat().st_mtime for path in (results, Path(__file__)))
    if last.exists() and last.stat().st_mtime > newest:
        return  # nothing to draw anew
    found = tables(results.read_text(encoding="utf-8"))
    for name, draw in FIGURES.items():
        for theme, colours in THEMES.items():
            with plt.rc_context(_style(colours)):
                figure = draw(found, colours)
                figure.savefig(folder / f"{name}-{theme}.svg", transparent=True, metadata={"Date": None})
                plt.close(figure)
    (folder.parent / "choose.inc").write_text("\n".join(_choices(found)) + "\n", encoding="utf-8")
    _card(folder / "card.png")


def _style(colours: dict[str, str]) -> dict[str, Any]:
    ink = dict.fromkeys(("text.color", "axes.labelcolor", "xtick.color", "ytick.color"), colours["ink"])
    spines = {f"axes.spines.{side}": False for side in ("top", "right")}
    grid = {"axes.grid": True, "grid.color": colours["pale"], "grid.linewidth": 0.6, "axes.axisbelow": True}
    fonts = {"font.size": 10, "svg.fonttype": "path", "svg.hashsalt": "erasable", "axes.titlesize": 11}
    return {**ink, **spines, **grid, **fonts, "axes.edgecolor": colours["grey"], "axes.titlelocation": "left"}


# -- figures ----------------------------------------------------------------------------------------------------------


def _accuracy(found: dict[str, list[Table]], c: dict[str, str]) -> Any:
    """AUC on held-out rows for every classification set, ours next to peers."""
    by_set: dict[str, dict[str, dict[str, str]]] = {}
    for line in found["comparison"][0]:
        if line["AUC"]:
            by_set.setdefault(line["data"], {})[line["model"]] = line
    names = sorted(by_set, key=lambda name: number(by_set[name][OURS]["AUC"]))
    figure, axis = plt.subplots(figsize=(8, 0.32 * len(names) + 1.6), layout="constrained")
    marks = {"LightGBM, as many random rows": ("s", c["grey"]), "LightGBM": ("D", c["peer"]), OURS: ("o", c["ours"])}
    for model, (mark, colour) in marks.items():
        points = [(number(by_set[n][model]["AUC"]), i) for i, n in enumerate(names) if model in by_set[n]]
        axis.scatter(
            *zip(*points, strict=True), marker=mark, color=colour, s=34, label=PEERS.get(model, "erasable, defaults")
        )
    labels = [f"{name}  ({number(by_set[name][OURS]['stored']):.0f}% stored)" for name in names]
    axis.set_yticks(range(len(names)), labels)
    axis.set_xlabel("AUC on rows that were not learnt")
    axis.legend(loc="upper left", frameon=False)
    return figure


def _storage(found: dict[str, list[Table]], c: dict[str, str]) -> Any:
    """AUC against the share of rows that is kept, on adult."""
    figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
    lines = [line for line in found["alternatives"][0] if line["AUC"]]
    lines.sort(key=lambda line: number(line["AUC"]))
    low, high = (number(lines[k]["AUC"]) for k in (0, -1))
    free = {True: low, False: low}  # the lowest place for the next label, of stored and of all rows
    for line in lines:
        ours = line["way"].startswith("**")
        kept, auc = max(number(line["rows kept"]), 0.1), number(line["AUC"])
        axis.scatter(kept, auc, color=c["ours"] if ours else c["peer"], marker="o" if ours else "D", s=40, zorder=3)
        name = line["way"].strip("*").replace("`", "").replace("erasable, ", "")
        place = max(auc, free[kept < 50])
        free[kept < 50] = place + (high - low) / 18
        side, shift = ("left", 1.25) if kept < 1 else ("right", 1 / 1.25)
        axis.text(shift * kept, place, name, ha=side, va="center")
    axis.set_xscale("log")
    axis.set_xlim(0.07, 160)
    axis.set_ylim(top=high + (high - low) / 7)
    axis.set_xticks([0.1, 1, 10, 100], ["none", "1%", "10%", "all"])
    axis.set_xlabel("rows of adult that must be kept; circles are models of ours, diamonds other ways")
    axis.set_ylabel("AUC on rows that were not learnt")
    return figure


def _forgetting(found: dict[str, list[Table]], c: dict[str, str]) -> Any:
    """Processor seconds to forget one person and predict again, on adult."""
    lines = [line for line in found["alternatives"][0] if re.match(r"[\d.]+$", line["forget, s"])]
    lines.sort(key=lambda line: number(line["forget, s"]), reverse=True)
    figure, axis = plt.subplots(figsize=(8, 0.34 * len(lines) + 1.2), layout="constrained")
    ours = [line["way"].startswith("**") for line in lines]
    bars = axis.barh(
        [line["way"].strip("*").replace("`", "") for line in lines],
        [1e3 * number(line["forget, s"]) for line in lines],
        color=[c["ours"] if own else c["peer"] for own in ours],
        height=0.62,
    )
    axis.bar_label(bars, [f"{1e3 * number(line['forget, s']):.3g}" for line in lines], padding=4)
    axis.set_xlabel("processor milliseconds to forget one person and predict again")
    axis.grid(visible=False, axis="y")
    return figure


def _speed(found: dict[str, list[Table]], c: dict[str, str]) -> Any:
    """How long a fit takes compared with ridge regression, the literal loop, and the sparse Gram matrix."""
    bars = [
        (f"fit, {line['data']}\nagainst RidgeClassifier", number(line["ratio to ridge"]))
        for line in found["fit"][0]
        if line.get("what", "`fit`") == "`fit`"
    ]
    bars += [
        (f"fit, {line['rows'].split(' (')[0]}\nagainst the literal loop", 1 / number(line["times faster"]))
        for line in found["loop"][0]
    ]
    peer = [line for line in found["forget"][0] if line["peer"].startswith(("`A", "Cholesky"))]
    bars += [
        (
            f"forget: {line['what']}\nagainst {line['peer']}".replace("`", ""),
            float(line["peer's time, and our ratio to it"].split("**")[1]),
        )
        for line in peer
    ]
    bars.reverse()
    figure, axis = plt.subplots(figsize=(8, 0.55 * len(bars) + 1.0), layout="constrained")
    shown = axis.barh(
        [name for name, _ in bars],
        [value for _, value in bars],
        color=[c["ours"] if v <= 1 else c["peer"] for _, v in bars],
        height=0.6,
    )
    axis.bar_label(shown, [f"{value:.2g}" for _, value in bars], padding=4)
    axis.axvline(1.0, color=c["ink"], linewidth=1)
    axis.set_xscale("log")
    axis.set_xlim(0.05, 5)
    axis.set_xticks([0.1, 0.3, 1, 3], ["0.1", "0.3", "as long", "3 times"])
    axis.minorticks_off()
    axis.set_xlabel("our time divided by the peer's: left of the line we are faster")
    axis.grid(visible=False, axis="y")
    return figure


def _growth(found: dict[str, list[Table]], c: dict[str, str]) -> Any:
    """Seconds of a fit against the number of rows and of columns."""
    figure, axes = plt.subplots(1, 2, figsize=(8, 3.2), layout="constrained")
    for axis, (line,), unit in zip(axes, found["growth"], ("rows, 100 columns", "columns, 20,000 rows"), strict=True):
        points = [(number(size), number(value)) for size, value in list(line.items())[1:]]
        axis.loglog(*zip(*points, strict=True), "o-", color=c["ours"])
        axis.set_xticks([x for x, _ in points][::2], [f"{x:,.0f}" for x, _ in points][::2])
        axis.set_yticks([0.03, 0.1, 0.3, 1.0], ["0.03", "0.1", "0.3", "1"])
        axis.minorticks_off()
        axis.set_xlabel(unit)
    axes[0].set_ylabel("seconds to fit")
    return figure


FIGURES: dict[str, Callable[[dict[str, list[Table]], dict[str, str]], Any]] = {
    "accuracy": _accuracy,
    "storage": _storage,
    "forgetting": _forgetting,
    "speed": _speed,
    "growth": _growth,
}


# -- the table of "Choose a model" -------------------------------------------------------------------------------------

ALL, STORED = "*all* surviving rows", "the surviving *stored* rows"
CHOICES = {  # model in the comparison: selection, head, what the state is that of learning after forgetting
    OURS: ("independent", "logistic", ALL),
    "squared loss": ("independent", "squared", ALL),
    '`learner="lightgbm"`': ("independent", "LightGBM", ALL),
    'Algorithm 1 (`selection="leverage"`)': ("leverage", "logistic", STORED),
    "every row (`rate=1.0`)": ("every row (`rate=1.0`)", "logistic", ALL),
    '`learner="lightgbm"`, every row (`rate=1.0`)': ("every row (`rate=1.0`)", "LightGBM", ALL),
}


def _choices(found: dict[str, list[Table]]) -> Iterator[str]:
    """Selections and heads on adult, from the comparison."""
    lines = {line["model"]: line for line in found["comparison"][0] if line["data"] == "adult"}
    yield "| selection | head | rows stored | AUC | log-loss | forget, s | forgetting equals learning |"
    yield "|---|---|---|---|---|---|---|"
    for model, (selection, head, promise) in CHOICES.items():
        line = lines[model]
        figures = f"{number(line['AUC']):.3f} | {number(line['log-loss']):.3f} | {number(line['forget, s']):.2g}"
        yield f"| {selection} | {head} | {line['stored']} | {figures} | {promise} |"
    best = lines["LightGBM"]
    figures = f"{number(best['AUC']):.3f} | {number(best['log-loss']):.3f}"
    yield f"| *LightGBM, which cannot forget* | | 100.0% | {figures} | | |"


# -- the social card --------------------------------------------------------------------------------------------------


def _card(path: Path) -> None:
    """The picture that other sites show for a link: 1200 x 630 dots."""
    c = THEMES["dark"]
    with plt.rc_context({"text.color": c["ink"]}):
        figure = plt.figure(figsize=(12, 6.3), dpi=100, facecolor="#14181d")
        figure.text(0.07, 0.68, "erasable", fontsize=74, weight="bold", color=c["ours"])
        figure.text(0.07, 0.52, "Machine learning that can forget, bit for bit", fontsize=33)
        figure.text(0.07, 0.40, "Store a tenth of the rows. Delete the raw table.", fontsize=22, color=c["grey"])
        figure.text(
            0.07, 0.32, "Erase a person in a fraction of a second. Let anyone check it.", fontsize=22, color=c["grey"]
        )
        axis = figure.add_axes((0.07, 0.08, 0.86, 0.14))
        for x, y, colour in _dots(c):
            axis.plot(x, y, "s", color=colour, markersize=9)
        axis.set(xlim=(-0.6, 59.6), ylim=(-0.6, 4.6))
        axis.axis("off")
        figure.savefig(path, facecolor=figure.get_facecolor())
        plt.close(figure)


def _dots(c: dict[str, str]) -> Iterator[tuple[int, int, str]]:
    """Rows of a table: most are not stored, some are, one leaves."""
    for i in range(300):
        stored = i * 2654435761 % 2**32 < 0.12 * 2**32
        yield i // 5, i % 5, c["peer"] if i == 144 else c["ours"] if stored else c["pale"]
