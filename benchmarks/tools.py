"""Clocks, turns and tables that all measurements share."""

from __future__ import annotations

import gc
import time

import numpy as np
from rich.console import Console
from rich.progress import track

console = Console(stderr=True)


def clock(work):
    """Seconds that one call takes; threads of the BLAS libraries get a moment to fall asleep first."""
    gc.collect()
    time.sleep(0.1)
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def take_turns(contestants, rounds, label):
    """Times of each contestant, one after the other in every round.

    Each timed call directly follows an untimed one of the same contestant: otherwise who allocates most pays for fresh
    memory pages that the operating system took back meanwhile.
    """
    times = {name: [] for name in contestants}
    for _ in track(range(rounds), description=label, console=console, transient=True):
        for name, work in contestants.items():
            work()
            times[name].append(clock(work))
    return times


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(str(c) for c in row) + " |" for row in rows]) + "\n"


def spread(values, scale=1.0, digits=2):
    low, middle, high = min(values), float(np.median(values)), max(values)
    return f"{middle * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"
