"""Measure `erasable` beside its peers and write benchmarks/RESULTS.md.

    make bench ARGS="--data DIR"                 everything; DIR has adult, titanic, diabetes130 and retail600
    make bench ARGS="--data DIR --only fit"      some sections; the others stay as they are
    make bench ARGS="--data DIR --resume"        what is missing, failed or is of another code state

A section is a function of its name in a module of this folder: it takes the options and returns Markdown, or None to
keep what is there. Each runs in a process of its own and is written when it is done, with its seconds, the code
state and the date. One that raises is reported as failed, and the others go on. In a section contestants take turns,
figures are medians, and ratios are of medians.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
import threading
import time
import traceback
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor, as_completed
from datetime import UTC, datetime
from multiprocessing import get_context, parent_process
from pathlib import Path

from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.tools import code_state, console, stamp, table
from erasable.research.measuring import in_words, machine

SECTIONS = {  # in the order of the file: the name of the section, and the module that has it
    "fit": "speed",
    "loop": "speed",
    "forget": "speed",
    "memory": "speed",
    "growth": "speed",
    "sparse": "sparse",
    "logistic": "logistic",
    "kernel": "kernel",
    "independent_speed": "independent_speed",
    "files": "files",
    "sparse_files": "files",
    "orders": "files",
    "engines": "engines",
    "gpu": "gpu_tables",
    "service": "service",
    "scan": "scan",
    "first_hour": "first_hour",
    "accuracy": "accuracy",
    "order": "accuracy",
    "defaults": "defaults",
    "comparison": "comparison",
    "alternatives": "alternatives",
    "models": "models",
    "learners": "learners",
    "regression": "regression",
    "schema": "schema",
    "drafts": "drafts",
    "planning": "planning",
    "worst_case": "worst_case",
    "independent": "independent",
    "independent_deletions": "independent",
    "poison": "poison",
    "reproduction": "reproduction",
}
# What models are worth, not how fast they are: two at a time, after the others, on one BLAS thread each.
ASIDE = {
    "first_hour",
    "accuracy",
    "order",
    "defaults",
    "comparison",
    "models",
    "learners",
    "regression",
    "drafts",
    "planning",
}
ASIDE |= {"worst_case", "independent", "independent_deletions", "poison"}
MARK = re.compile(r"<!-- section: (\w+) -->\n")
STAMP = re.compile(r"^\*Made in ([\d,]+) s at (.+), (\d{4}-\d\d-\d\d)\.\*$", re.MULTILINE)
GOAL = re.compile(r"<!-- goal: (.+) -->")
FAILED = "**Failed**"


def made(name, options):
    """A section's text."""
    work = getattr(importlib.import_module(f"benchmarks.{SECTIONS[name]}"), name)
    with threadpool_limits(1 if name in ASIDE else None):
        return work(options)


def leave_with_parent():
    """End this process when the one that started it has ended, however that was."""
    threading.Thread(target=lambda: (parent_process().join(), os._exit(1)), daemon=True).start()


def in_own_process(name, options):
    """The same in a process of its own: one that is killed fails alone, and none leaves settings to the next."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), initializer=leave_with_parent) as pool:
        return pool.submit(made, name, options).result()


def section(name, options, earlier, state, make=in_own_process):
    """A section with its stamp; the earlier one where there is nothing new, or a report of the failure."""
    start = time.perf_counter()
    try:
        text = make(name, options)
    except Exception as error:
        traceback.print_exc()
        title = re.search(r"^## .+$", earlier, re.MULTILINE)
        text = f"{title[0] if title else f'## {name}'}\n\n{FAILED}: {type(error).__name__}."
    if text is None:
        return earlier or f"## {name}\n\nNot measured.\n\n"
    text = text.strip() + "\n\n"
    if STAMP.search(text) is None:  # else of another machine, at another time
        text += stamp(time.perf_counter() - start, state, f"{datetime.now(UTC):%Y-%m-%d}") + "\n\n"
    return text


def sections_of(text):
    """Sections of an earlier file by name."""
    parts = MARK.split(text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def is_done(part, state):
    """Whether a section is of this code state and did not fail."""
    stamp = STAMP.search(part)
    return stamp is not None and stamp[2] == state and FAILED not in part


def goals(parts):
    """The table of goals, from the lines that sections hide in their text."""
    lines = [
        (*(cell.strip() for cell in line.split("|")), name)
        for name, part in parts.items()
        for line in GOAL.findall(part)
    ]
    if not lines:
        return ""
    head = ["what", "ours", "reference", "its time", "ratio", "goal", "met", "our peak, MB", "section"]
    text = "## Goals of speed\n\nMedians; ours and the reference take turns in one run. The goal is the ratio, or the "
    text += "seconds, at most; lines without one are for comparison. The section says which clock and how many "
    return text + "threads.\n\n" + table(head, lines) + "\n"


def page(parts, state, command):
    """The file: which code most of it is of, the goals, the sections."""
    stamps = {name: STAMP.search(part) for name, part in parts.items()}
    counts = Counter(found[2] for found in stamps.values() if found)
    state = max(counts, key=lambda one: (counts[one], one == state), default=state)
    seconds = sum(int(found[1].replace(",", "")) for found in stamps.values() if found and found[2] == state)
    others = [name for name, found in stamps.items() if not found or found[2] != state]
    text = f"# Results\n\nMade by `{command}` at {state}, {datetime.now(UTC):%Y-%m-%d}: {seconds / 60:.0f} minutes in "
    text += f"all sections. Of another code state, as each says at its end: {', '.join(others) or 'none'}. "
    text += f"{in_words(machine())}.\n\n{goals(parts)}"
    return text + "".join(f"<!-- section: {name} -->\n{parts[name]}" for name in parts).rstrip() + "\n"


def in_turn(run, names):
    """What a call gives for each name: those of speed by themselves, and then the others, two at a time."""
    yield from (run(name) for name in names if name not in ASIDE)
    with ThreadPoolExecutor(2) as pool:
        for done in as_completed([pool.submit(run, name) for name in names if name in ASIDE]):
            yield done.result()


def main(argv=None, make=in_own_process):
    """Run sections; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=SECTIONS, help="sections to run; the others stay as they are")
    parser.add_argument("--resume", action="store_true", help="leave out sections that are of this code state")
    parser.add_argument("--rounds", type=int, default=5, help="rounds per comparison (default 5)")
    parser.add_argument("--data", help="folder with further data sets, for the sections that can use them")
    parser.add_argument("--gpu", type=Path, help="what benchmarks/gpu.py wrote where there is a GPU")
    parser.add_argument("--out", default=Path(__file__).with_name("RESULTS.md"), type=Path)
    options = parser.parse_args(argv)
    state = code_state()
    parts = sections_of(options.out.read_text(encoding="utf-8")) if options.out.exists() else {}
    command = 'make bench ARGS="--data DIR"' if options.data else "make bench"
    wanted = [n for n in options.only or SECTIONS if not (options.resume and is_done(parts.get(n, ""), state))]
    failed = []

    def run(name):
        console.print(f"{datetime.now(UTC):%H:%M:%S} {name}")
        return name, section(name, options, parts.get(name, ""), state, make)

    for name, text in in_turn(run, wanted):
        parts = {known: text if known == name else parts[known] for known in SECTIONS if known in {name, *parts}}
        failed += [name] if FAILED in text else []
        written = options.out.with_suffix(".new")
        written.write_text(page(parts, state, command), encoding="utf-8")
        written.replace(options.out)
    console.print(f"written: {options.out}" + (f"; failed: {', '.join(failed)}" if failed else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
