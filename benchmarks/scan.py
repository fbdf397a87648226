"""Looking for remains of rows: ``erasable.audit.scan`` against one ``bytes.find`` for each row and encoding.

Both sides run in one process, one after the other, and the medians are compared.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.tools import table
from erasable.audit.scan import scan as look_for
from erasable.core.grid import Grid, to_grid
from erasable.core.layout import parts

FEATURES = 600
REPEATS = 5


def naive(path, X):
    """Offsets of rows as float32, float64 and on the default grids: what the scan looks for, whole rows only."""
    data = Path(path).read_bytes()
    found = 0
    for rows in (X.astype("<f4"), X.astype("<f8"), to_grid(X, Grid(FEATURES)), to_grid(X, Grid(FEATURES, 15, False))):
        for row in rows:
            found += data.find(row.tobytes()) >= 0
    return found


def file_of(folder, size, kind, seed=0):
    """A file of that size: random bytes, rows of float32 numbers or of yes-or-no features, a log, or a model."""
    rng = np.random.default_rng(seed)
    path = folder / kind.replace(" ", "_")
    if kind == "random bytes":
        path.write_bytes(rng.bytes(size))
    elif kind == "other float32 rows":
        path.write_bytes(rng.standard_normal(size // 4, dtype=np.float32).tobytes())
    elif kind == "other yes-or-no rows":
        path.write_bytes((rng.random(size // 4) < 0.1).astype(np.float32).tobytes())
    elif kind == "log":
        line = "2026-01-01 12:00:{:02d} GET /predict user-{:07d} 200 1.3 ms\n"
        path.write_text("".join(line.format(i % 60, 5_000_000 + i) for i in range(size // 55)))
    else:
        rows = to_grid(rng.standard_normal((size // 1202, FEATURES)), Grid(FEATURES))
        meta = {"format": "erasable-linear", "n_features": FEATURES, "bits": 15, "intercept": True, "scaling": "row"}
        path.write_bytes(b"".join(parts(meta, {"ids": ("I64", np.arange(len(rows))), "rows": ("I16", rows)})))
    return path


def timed(call):
    start, used = time.perf_counter(), time.process_time()
    call()
    return time.perf_counter() - start, time.process_time() - used


def measure(size, n_rows, kind, *, binary=False, peer=False, repeats=REPEATS):
    """Median seconds (wall, CPU) of the scan and of the peer, which take turns."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((n_rows, FEATURES))
    if binary:
        X = (X > 1.3).astype(float)
    ids = [f"user-{i:07d}" for i in range(n_rows)]
    with tempfile.TemporaryDirectory() as folder:
        path = file_of(Path(folder), size, kind)
        assert not look_for(folder, X, ids=ids).found  # also warms the page cache
        mine, others = [], []
        for _ in range(repeats):
            mine.append(timed(lambda: look_for(folder, X, ids=ids)))
            if peer:
                others.append(timed(lambda: naive(path, X)))
    medians = [tuple(statistics.median(t) for t in zip(*all_of, strict=True)) for all_of in (mine, others) if all_of]
    return medians if peer else [*medians, (float("nan"), float("nan"))]


def scanned(size, n, kind, binary=False, repeats=REPEATS):
    """Seconds of the scan alone, in words."""
    return in_words(measure(size * 10**6, n, kind, binary=binary, repeats=repeats)[0])


def in_words(pair):
    return f"{pair[0]:.2f} ({pair[1]:.2f})"


def against():
    """Rows of the table against the peer."""
    for size, kind, n, binary in (
        (10, "random bytes", 100, False),
        (10, "other float32 rows", 100, False),
        (10, "other yes-or-no rows", 100, True),
        (40, "random bytes", 1000, False),
    ):
        mine, other = measure(size * 10**6, n, kind, binary=binary, peer=True, repeats=3)
        yield [f"{n:,} rows in {size} MB, {kind}", in_words(mine), in_words(other), f"{other[1] / mine[1]:.0f}"]


def scan(options):
    """The forensic scan against looking for one row after the other."""
    kinds = ("random bytes", "other float32 rows", "other yes-or-no rows", "log", "model")
    binary = "other yes-or-no rows"
    tables = [
        table(["whole rows at any offset", "scan", "`bytes.find` each", "ratio of CPU"], against()),
        table(["1,000 rows in 40 MB", "scan"], ([k, scanned(40, 1000, k, k == binary)] for k in kinds)),
        table(
            ["1,000 rows in random bytes", "scan"],
            ([f"{size} MB", scanned(size, 1000, kinds[0])] for size in (1, 10, 40, 160)),
        ),
        table(
            ["rows in 40 MB of random bytes", "scan"],
            ([f"{n:,}", scanned(40, n, kinds[0], repeats=3)] for n in (1, 100, 1000, 10_000)),
        ),
    ]
    text = f"## The forensic scan\n\nRows of {FEATURES} features, with ids; seconds of the wall and (of the CPU), "
    text += f"medians of {REPEATS}, in the first and the last table of 3.\n\n"
    return text + "\n".join(tables)
