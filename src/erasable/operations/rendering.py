"""What operations leave for people to look at: tables of text, pictures, and a folder for them.

The only file that imports matplotlib, which is optional: pictures are refused where it is missing.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from erasable.errors import ConfigurationError
from erasable.store import write_text

INK, GREY, PALE, RED, BLUE = "#1b1f24", "#8a93a0", "#c9ced6", "#c2402c", "#1b4f72"


@dataclass(frozen=True)
class TextTable:
    """A title, a line of column names, and lines of cells."""

    title: str
    head: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def markdown(self) -> str:
        """The table as Markdown, without its title."""
        lines = ["| " + " | ".join(self.head) + " |", "|" + "---|" * len(self.head)]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        return "\n".join([*lines, *("" if not self.notes else ("", *self.notes))]) + "\n"


def make_folder(folder: Path) -> None:
    """Make a folder for results; ConfigurationError if it cannot be used."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"--out {folder} cannot be used: {error.strerror}.") from None


def pyplot() -> Any:
    """Matplotlib's pyplot, without a screen and in the colours of the house.

    Raises ConfigurationError when matplotlib is missing.
    """
    try:
        import matplotlib as mpl
        import matplotlib.pyplot as plt
    except ImportError:
        raise ConfigurationError("figures need matplotlib: pip install 'erasable[figures]'.") from None
    mpl.use("Agg")
    plt.rcParams.update(
        {
            "font.size": 10,
            "axes.edgecolor": INK,
            "axes.labelcolor": INK,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "xtick.color": INK,
            "ytick.color": INK,
            "text.color": INK,
            "svg.fonttype": "none",
            "svg.hashsalt": "erasable",
        }
    )
    return plt


def save(plt: Any, figure: Any, path: Path) -> str:
    """Write a figure as PNG and SVG under a path without its ending, and close it; the SVG as text.

    Raises ConfigurationError when a file cannot be written.
    """
    try:
        figure.savefig(path.with_suffix(".png"), dpi=150)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None})
        write_text(path.with_suffix(".svg"), text.getvalue())
    except OSError as error:
        raise ConfigurationError(f"{path.with_suffix('.png')} cannot be written: {error.strerror}.") from None
    finally:
        plt.close(figure)
    return text.getvalue()
