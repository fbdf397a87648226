"""The demo as a picture: all that is stored, who left, and the accuracy as more people leave."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.research.reproduce.figures import INK, _pyplot

RED, BLUE, PALE = "#c2402c", "#2f6f9f", "#c9ced6"
_COLUMNS = 24


def draw(
    X: npt.NDArray[Any], core: Sequence[int], gone: set[int], curve: Sequence[tuple[int, int, float]], path: Path
) -> None:
    """Draw the core rows, those forgotten crossed out, and what happens as more people leave.

    Raises
    ------
    ConfigurationError
        When matplotlib is missing.
    """
    plt = _pyplot()
    with plt.rc_context({"font.size": 10, "text.color": INK, "axes.edgecolor": PALE, "axes.labelcolor": INK}):
        figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.35, 1), layout="constrained")
        _stored(plt, left, X, core, gone)
        _accuracy(right, curve)
        try:
            figure.savefig(path, dpi=130)
        finally:
            plt.close(figure)


def _stored(plt: Any, axis: Any, X: npt.NDArray[Any], core: Sequence[int], gone: set[int]) -> None:
    canvas = np.full((-(-len(core) // _COLUMNS) * 10, _COLUMNS * 10), np.nan)
    for k, i in enumerate(core):
        r, c = (10 * v for v in divmod(k, _COLUMNS))
        canvas[r + 1 : r + 9, c + 1 : c + 9] = X[i].reshape(8, 8)
    axis.imshow(canvas, cmap="Greys", vmin=0, vmax=20)
    for k, i in enumerate(core):
        if i in gone:
            r, c = (10 * v for v in divmod(k, _COLUMNS))
            axis.add_patch(plt.Rectangle((c, r), 9, 9, color=RED, alpha=0.85, lw=0))
            axis.plot([c + 2, c + 7], [r + 2, r + 7], color="white", lw=1)
            axis.plot([c + 2, c + 7], [r + 7, r + 2], color="white", lw=1)
    axis.set_axis_off()
    axis.set_title(
        f"All that is stored: {len(core)} of {len(X):,} digits.\n{len(gone)} of them (red) belong to people who left.",
        loc="left",
    )


def _accuracy(axis: Any, curve: Sequence[tuple[int, int, float]]) -> None:
    people = [left for left, _, _ in curve]
    axis.plot(people, [accuracy for _, _, accuracy in curve], color=BLUE, lw=2, marker="o", ms=4)
    axis.set_ylim(0, 1)
    axis.set_xlim(people[0] + 2, 0)
    axis.set_xlabel("people left in the model")
    axis.set_ylabel("test accuracy")
    axis.grid(color=PALE, lw=0.5, alpha=0.6)
    axis.set_title("Forgetting goes on.\nAt every dot the state was verified, bit for bit.", loc="left")
