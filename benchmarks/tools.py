"""Turns with a progress bar, and tables, for all measurements."""

from __future__ import annotations

import numpy as np
from rich.console import Console
from rich.progress import Progress

from erasable.operations.rendering import TextTable
from erasable.research import measuring

console = Console(stderr=True)


def take_turns(contestants, rounds, label):
    """Times of each contestant, with a bar that moves."""
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(label)
        return measuring.take_turns(contestants, rounds, lambda done, of: bar.update(task, completed=done, total=of))


def table(head, rows):
    return TextTable("", tuple(head), [tuple(map(str, row)) for row in rows]).markdown()


def made_by(section, options):
    """The command that makes a section by itself."""
    return f'Made by `make bench ARGS="--only {section}{" --data DIR" if options.data else ""}"`.'


def spread(values, scale=1.0, digits=2):
    low, middle, high = min(values), float(np.median(values)), max(values)
    return f"{middle * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"
