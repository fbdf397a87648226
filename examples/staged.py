"""Why the staged sampler of the paper is not stable: eight points in the plane, drawn from the sampler itself.

    python examples/staged.py [--out FOLDER]

Algorithm 3 queries points in stages. Delete one queried point, run it again on the others, and another is no longer
queried. A single pass over the same points keeps everybody.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from erasable.classes import LinearBall
from erasable.coresets import SinglePass, Staged

POINTS = np.array(
    [[-0.45, -0.6], [-0.55, -0.5], [0.25, 0.8], [0.45, -0.75], [0.5, 0.85], [0.25, -0.1], [-0.35, 0.6], [-0.6, -0.6]]
)
LABELS = np.array([1, -1, 1, -1, 1, -1, 1, -1])  # they play no part in the first two stages
ROWS = list(range(1, len(POINTS) + 1))
DELETED = 5
INK, RED, GREY = "#1b1f24", "#c2402c", "#c9ced6"
STAGE = ["#1b4f72", "#3d8b5f"]
PROBABILITIES = LinearBall(0.5, scaling=None)  # on rows of norm at most one: values in [0, 1], as the paper assumes
OFFSETS = {1: (9, -4), 2: (2, 10), 3: (-9, 6), 8: (-9, -12)}  # where a number would cover its neighbour


def staged(rows: list[int]) -> list[list[int]]:
    """Rows queried in each stage, when the sampler is run on these rows (numbered from 1)."""
    at = np.array(rows) - 1
    run = Staged(PROBABILITIES, rate=1).stages(POINTS[at], LABELS[at])  # epsilon is 1/2, then 1/4
    return [[rows[i] for i in stage.queried] for stage in run.stages]


def single_pass(rows: list[int]) -> list[int]:
    """Rows kept by one pass in order, at the threshold of the last stage."""
    at = np.array(rows) - 1
    kept = SinglePass(PROBABILITIES, 0.25**2).select(POINTS[at], LABELS[at], rows)
    return [rows[i] for i in kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    out = parser.parse_args().out
    before = staged(ROWS)
    core = sorted(i for stage in before for i in stage)
    left = [i for i in core if i != DELETED]
    after = staged(left)
    dropped = sorted(set(left) - {i for stage in after for i in stage})
    kept = single_pass(ROWS)
    kept_after = single_pass([i for i in kept if i != DELETED])

    table = Table("sampler", "on all rows", f"on its core set without row {DELETED}", "dropped")
    table.add_row("staged", _stages(before), _stages(after), ", ".join(map(str, dropped)) or "none")
    table.add_row(
        "single pass", _list(kept), _list(kept_after), _list(set(kept) - {DELETED} - set(kept_after)) or "none"
    )
    Console().print(table)

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.8), sharex=True, sharey=True, layout="constrained")
    for axis, stages, seen, title in (
        (axes[0], before, ROWS, "all eight rows"),
        (axes[1], after, left, f"the core set without row {DELETED}"),
    ):
        axis.add_patch(plt.Circle((0, 0), 1.0, fill=False, color=GREY))
        for i in ROWS:
            place = POINTS[i - 1]
            stage = next((k for k, queried in enumerate(stages) if i in queried), None)
            if i not in seen:
                axis.scatter(*place, marker="x", s=90, color=RED, linewidths=2)
                note = "deleted"
            elif stage is None:
                axis.scatter(*place, s=110, facecolors="none", edgecolors=RED, linewidths=2)
                note = "DROPPED"
            else:
                axis.scatter(*place, s=110, color=STAGE[stage])
                note = f"stage {stage + 1}"
            offset = OFFSETS.get(i, (9, 5))
            side = "right" if offset[0] < 0 else "left"
            text = axis.annotate(f"{i} · {note}", place, offset, textcoords="offset points", fontsize=9, ha=side)
            text.set(color=INK, bbox={"facecolor": "white", "edgecolor": "none", "pad": 1})
        axis.set_title(title, loc="left", fontsize=10.5)
        axis.set_aspect("equal")
        axis.set_xlim(-1.1, 1.1)
        axis.set_ylim(-1.1, 1.1)
        axis.axis("off")
    figure.suptitle(
        "Algorithm 3, ε = 1/2 and then 1/4: who is queried, and in which stage", x=0.01, ha="left", weight="bold"
    )
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "staged.png", dpi=130)
    print(f"picture: {out / 'staged.png'}")


def _list(rows) -> str:
    return ", ".join(str(i) for i in sorted(rows))


def _stages(stages: list[list[int]]) -> str:
    return " | ".join(", ".join(map(str, stage)) for stage in stages)


if __name__ == "__main__":
    main()
