"""What all measurements share: turns, peaks, processes of their own, tables, and lines of the table of goals."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import Progress

from erasable.operations.rendering import TextTable
from erasable.research import measuring

console = Console(stderr=True)
ROOT = Path(__file__).resolve().parent.parent
_PROGRAM = """
import json, re, sys, tempfile, time
from pathlib import Path
{}
# Not ru_maxrss, which remembers the process that this one was started from.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024 / 1e6
print(json.dumps([said, took, peak]))
"""


def take_turns(contestants, rounds, label):
    """Seconds of each contestant by the clock, with a bar that moves."""
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(label)
        return measuring.take_turns(contestants, rounds, lambda done, of: bar.update(task, completed=done, total=of))


def processor_turns(contestants, rounds):
    """Seconds of the processor of each contestant, in turns; a first round to warm up does not count."""
    times = {name: [] for name in contestants}
    for k in range(rounds + 1):
        for name, work in contestants.items():
            start = time.process_time()
            work()
            if k:
                times[name].append(time.process_time() - start)
    return times


def peak_of(work):
    """The most that Python and NumPy hold during a call above what they held before it, in MB; the call is untimed."""
    gc.collect()
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1] / 1e6
    finally:
        tracemalloc.stop()


class Stages:
    """Seconds that a call spends in some functions, added up over all threads: each a module or class, and a name."""

    def __init__(self, functions):
        self.functions, self.seconds, self.real = functions, dict.fromkeys(functions, 0.0), {}

    def __enter__(self):
        for name, (owner, attribute) in self.functions.items():
            self.real[name] = getattr(owner, attribute)
            setattr(owner, attribute, self._timed(name, self.real[name]))
        return self

    def _timed(self, name, real):
        def timed(*given, **named):
            began = time.perf_counter()
            try:
                return real(*given, **named)
            finally:
                self.seconds[name] += time.perf_counter() - began

        return timed

    def __exit__(self, *_):
        for name, (owner, attribute) in self.functions.items():
            setattr(owner, attribute, self.real[name])


def where_time_goes(what, work, functions):
    """A line of text: the seconds of a further call, and those of some functions that it calls, see :class:`Stages`."""
    with Stages(functions) as watched:
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
    parts = ", ".join(f"{name} {seconds:.3f}" for name, seconds in watched.seconds.items())
    return f"- {what}, {took:.3f} s: {parts}.\n"


def one_thread():
    """The environment of a process with one BLAS thread."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


def alone(program, *arguments):
    """Run a program in a process of its own, with one BLAS thread.

    It sets ``said``, what it found out, and ``took``, its seconds of the processor. Both come back, with the peak of
    the process in MB, imports included.
    """
    command = [sys.executable, "-W", "ignore", "-c", _PROGRAM.format(program), *map(str, arguments)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=one_thread())
    return json.loads(done.stdout.splitlines()[-1])


def code_state():
    """The commit, and whether what is measured or measures differs from it."""

    def git(*words):
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()

    try:
        commit = git("rev-parse", "--short=8", "HEAD")
        changed = git("status", "--porcelain", "--", "src", "benchmarks", ":!benchmarks/RESULTS.*")
    except (OSError, subprocess.CalledProcessError):
        return "an unknown commit"
    return f"{commit} + changes" if changed else commit


def stamp(seconds, state, day):
    """What the last line of a section says."""
    return f"*Made in {seconds:,.0f} s at {state}, {day}.*"


def table(head, rows):
    return TextTable("", tuple(head), [tuple(map(str, row)) for row in rows]).markdown()


def spread(values, scale=1.0, digits=2):
    low, middle, high = min(values), float(np.median(values)), max(values)
    return f"{middle * scale:.{digits}f} ({low * scale:.{digits}f} to {high * scale:.{digits}f})"


def goal(what, ours, reference=None, times=None, *, seconds=None, peak=None):
    """A line for the table of goals, hidden in the section that measured it: run.py collects them.

    Parameters
    ----------
    what : str
        The call.
    ours : list of float
        Its seconds.
    reference : tuple of str and list of float, optional
        What it is held against, and its seconds.
    times, seconds : float, optional
        The goal: at most so many times the reference, or so many seconds.
    peak : float, optional
        MB at the peak of our call.
    """
    middle = float(np.median(ours))
    name, other = reference or ("", None)
    ratio = None if other is None else middle / float(np.median(other))
    wanted = "" if times is None and seconds is None else f"{times:g}" if seconds is None else f"{seconds:g} s"
    found = ratio if seconds is None else middle
    met = "" if not wanted else "yes" if found <= (times if seconds is None else seconds) else "no"
    cells = [what, _duration(middle), name, "" if other is None else _duration(float(np.median(other)))]
    cells += ["" if ratio is None else f"{ratio:.2f}", wanted, met, "" if peak is None else f"{peak:.0f}"]
    return f"<!-- goal: {' | '.join(cells)} -->\n"


def _duration(seconds):
    scale, unit = next((s, u) for s, u in ((1, "s"), (1e3, "ms"), (1e6, "µs")) if seconds * s >= 1 or s == 1e6)
    return f"{seconds * scale:.3g} {unit}"
