"""Why the staged sampler of the paper is not stable: five points in the plane, drawn from the sampler itself.

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

POINTS = np.array([[0.53, -0.71], [-0.09, -0.61], [0.24, -0.63], [0.19, 0.83], [0.88, -0.26]])
LABELS = np.array([1, -1, 1, -1, 1])
EPSILON = 1.5  # of the first stage; half of it in the second
DELETED = 5
INK, RED, GREY = "#1b1f24", "#c2402c", "#c9ced6"
STAGE = ["#1b4f72", "#3d8b5f"]


def staged(rows: list[int]) -> list[list[int]]:
    """Rows queried in each stage, when the sampler is run on these rows (numbered from 1)."""
    ball = LinearBall(1.0, scaling=None)
    at = np.array(rows) - 1
    run = Staged(ball, rate=(0.5 / EPSILON) ** 2).stages(POINTS[at], LABELS[at])
    return [[rows[i] for i in stage.queried] for stage in run.stages]


def single_pass(rows: list[int]) -> list[int]:
    """Rows kept by one pass in order, at the threshold of the last stage."""
    at = np.array(rows) - 1
    kept = SinglePass(LinearBall(1.0, scaling=None), (EPSILON / 2) ** 2).select(POINTS[at], LABELS[at], rows)
    return [rows[i] for i in kept]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    out = parser.parse_args().out
    before = staged([1, 2, 3, 4, 5])
    core = sorted(i for stage in before for i in stage)
    left = [i for i in core if i != DELETED]
    after = staged(left)
    dropped = sorted(set(left) - {i for stage in after for i in stage})
    kept = single_pass([1, 2, 3, 4, 5])
    kept_after = single_pass([i for i in kept if i != DELETED])

    table = Table("sampler", "on all rows", f"on its core set without row {DELETED}", "dropped")
    table.add_row("staged", _stages(before), _stages(after), ", ".join(map(str, dropped)) or "none")
    table.add_row(
        "single pass", _list(kept), _list(kept_after), _list(set(kept) - {DELETED} - set(kept_after)) or "none"
    )
    Console().print(table)

    figure, axes = plt.subplots(1, 2, figsize=(9, 4.4), sharex=True, sharey=True, layout="constrained")
    for axis, stages, seen, title in (
        (axes[0], before, [1, 2, 3, 4, 5], "all five rows"),
        (axes[1], after, left, f"the core set without row {DELETED}"),
    ):
        axis.add_patch(plt.Circle((0, 0), 1.0, fill=False, color=GREY))
        for i in range(1, 6):
            x, y = POINTS[i - 1]
            stage = next((k for k, queried in enumerate(stages) if i in queried), None)
            if i not in seen:
                axis.scatter(x, y, marker="x", s=90, color=RED if i == DELETED else GREY, linewidths=2)
            elif stage is None:
                axis.scatter(x, y, s=110, facecolors="none", edgecolors=RED if i in dropped else GREY, linewidths=2)
            else:
                axis.scatter(x, y, s=110, color=STAGE[stage])
            note = {None: "", 0: " · stage 1", 1: " · stage 2"}[stage]
            note = (
                " · deleted"
                if i == DELETED and i not in seen
                else " · DROPPED"
                if i in dropped and i in left and seen is left
                else note
            )
            below = {"xytext": (0, -20), "ha": "center"} if i == 3 else {"xytext": (9, 5)}
            axis.annotate(f"{i}{note}", (x, y), textcoords="offset points", color=INK, fontsize=9, **below)
        axis.set_title(title, loc="left", fontsize=10.5)
        axis.set_aspect("equal")
        axis.set_xlim(-1.1, 1.55)
        axis.set_ylim(-1.1, 1.1)
        axis.axis("off")
    figure.suptitle(
        "Algorithm 3, ε = 1.5 and then 0.75: who is queried, and in which stage", x=0.02, ha="left", weight="bold"
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
