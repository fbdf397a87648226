"""Rows from Parquet that are more than memory holds, and workers that screen them: memory, speed, and the cost model.

    python benchmarks/engines.py [--millions 1 2 5 10] [--folder DIR] [--picture FILE] [--only memory ...]

Each measurement of memory is a process of its own. The files of 10 million rows x 64 take 2.5 GB in the folder.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.tools import alone, spread, table
from erasable import ErasableClassifier
from erasable.core.names import hashed_order, keyed_hash
from erasable.core.selector import RawRows
from erasable.engines import Dask, Local
from erasable.models import row_source
from erasable.models.row_source import Rows
from erasable.tables import stream_table

MILLION, GROUP = 1_000_000, 125_000
MILLIONS = (1, 2, 5, 10)
PARTS = ("memory", "workers", "model", "rounds")
COLUMNS = {"label": "y", "id": "id", "subject": "who"}

LEARNER = """
from erasable import load
from erasable.operations.learn import Columns, learn_table
with tempfile.TemporaryDirectory() as folder:
    path, start = Path(folder, "m.erasable"), time.process_time()
    columns = Columns("y", id="id", subject="who")
    done = learn_table(path, sys.argv[2:], columns, parameters={"threshold": float(sys.argv[1])})
    took, core = time.process_time() - start, load(path).stored_bytes_
said = {"core_bytes": core, "core_rows": done.report.core_rows, "rounds": [vars(one) for one in done.report.rounds]}
"""


def written(folder, millions, d):
    """Files of a million rows each, made where they are missing; each has its own seed."""
    names = [f"f{j}" for j in range(d)]
    kinds = [*((name, pa.float32()) for name in names), ("y", pa.int8()), ("id", pa.int64()), ("who", pa.int64())]
    files = []
    for k in range(millions):
        path = Path(folder, f"{d}-{k:03d}.parquet")
        files.append(str(path))
        if path.exists():
            continue
        rng = np.random.default_rng(k)
        with pq.ParquetWriter(path.with_suffix(".part"), pa.schema(kinds), use_dictionary=False) as out:
            for low in range(0, MILLION, GROUP):
                X = rng.standard_normal((GROUP, d), dtype=np.float32) * np.geomspace(1, 0.1, d, dtype=np.float32)
                ids = np.arange(k * MILLION + low, k * MILLION + low + GROUP)
                rest = [pa.array((X[:, 0] > 0).astype(np.int8)), pa.array(ids), pa.array(ids // 20)]
                out.write_table(pa.table([*(pa.array(c) for c in X.T), *rest], schema=pa.schema(kinds)))
        path.with_suffix(".part").rename(path)
    return files


def memory(folder, millions, d=64, threshold=0.06):
    """Peak memory of learning so many million rows, each in a process of its own; and of one that learns a hundred."""
    small = Path(folder, "small.parquet")
    pq.write_table(pq.ParquetFile(written(folder, 1, d)[0]).read_row_group(0).slice(0, 100), small)
    found = {}
    for n in (0, *millions):
        files = [str(small)] if n == 0 else written(folder, n, d)
        said, took, peak = alone(LEARNER, threshold, *files)
        found[n] = said | {"took_s": took, "peak": 1e6 * peak}
    base = found.pop(0)["peak"]
    for one in found.values():
        one["beyond"] = one["peak"] - one["core_bytes"]
        one["imports"] = base
    return found


def picture(found, path):
    """Peak memory against the number of rows."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    n = sorted(found)
    figure, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    table_mb = [k * MILLION * 64 * 4 / 1e6 for k in n]
    axes.plot(n, table_mb, color="#c9ced6", marker="o", label="the rows themselves, float32")
    axes.plot(n, [found[k]["beyond"] / 1e6 for k in n], color="#2f6f9f", marker="o", label="peak, beyond the core set")
    axes.axhline(found[n[0]]["imports"] / 1e6, color="#1b1f24", lw=0.8, ls=":", label="a process that learns 100 rows")
    axes.set(xscale="log", yscale="log", xlabel="million rows x 64, from Parquet", ylabel="MB")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(path, dpi=130)
    plt.close(figure)


def workers(folder, d=256, millions=1, rounds=2, threshold=0.2):
    """Seconds of the last pass, in which all rows are screened, with one worker and with two, taking turns."""
    files = written(folder, millions, d)
    times, digests = {1: [], 2: []}, set()
    engines = {n: Dask(workers=n) for n in times}
    try:
        for k in range(rounds + 1):
            for n, engine in engines.items():
                clf = ErasableClassifier(threshold=threshold, engine=engine, loss="squared", feature_map=None)
                with stream_table(files, **COLUMNS) as stream:
                    report = clf.learn_blocks(stream, budget_bytes=2**25)
                if k:  # the first is to warm up
                    times[n].append(report.rounds[-1].screening_seconds)
                digests.add(clf.state_digest())
    finally:
        for engine in engines.values():
            engine.close()
    assert len(digests) == 1
    last = report.rounds[-1]
    return {
        "rows": last.rows,
        "columns": d,
        "times": times,
        "ratio": float(np.median(times[1]) / np.median(times[2])),
        "rounds": [vars(one) for one in report.rounds],
    }


def rounds_of(n=400_000, d=64, threshold=0.06, budgets=(2**20, 2**22, 2**24, 2**26)):
    """Rounds and survivors against the formula of docs/scale.md, its c taken from the core set of one call."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, d), dtype=np.float32) * np.arange(1, d + 1, dtype=np.float32) ** -0.5
    y, turn = X[:, 0] > 0, np.empty(n, dtype=np.int64)
    turn[hashed_order(range(n), 0)] = np.arange(n)
    whole = ErasableClassifier(threshold=threshold, loss="squared", feature_map=None).fit(X, y)
    kept = np.sort(turn[whole.core_ids_])
    found = []
    with mock.patch.multiple(row_source, _FIRST_BYTES=2**18, _FIRST_ROWS=10):  # else the first round holds most rows
        for budget in budgets:
            clf = ErasableClassifier(threshold=threshold, loss="squared", feature_map=None)
            blocks = [Rows(X[low : low + 20_000], y[low : low + 20_000]) for low in range(0, n, 20_000)]
            report = clf.learn_blocks(blocks, budget_bytes=budget)
            assert clf.state_digest() == whole.state_digest()
            first = report.rounds[0].survivors  # the rows of lowest hash: nothing screened them
            c = (len(kept) - np.searchsorted(kept, first)) / np.log(n / first)
            rows = 0.75 * budget / (4 * d + 24)  # what is left of a full budget, by the bytes that Held counts
            found.append(
                {
                    "budget": budget,
                    "c": float(c),
                    "formula": float(1 + np.log(n / first) / np.log(1 + rows / c)),
                    "survivors": [one.survivors for one in report.rounds],
                }
            )
    return found


STEPS = ("reading", "checking", "hashing", "screening")


def rates(folder, d):
    """What a pass is made of, each step alone: seconds of a processor for a row."""
    (file,) = written(folder, 1, d)
    X = np.random.default_rng(0).standard_normal((2**22 // d, d), dtype=np.float32)
    clf = ErasableClassifier(threshold=0.2, loss="squared", feature_map=None).fit(X[: 20 * d], X[: 20 * d, 0] > 0)
    screen, raw = clf.model_.screening(), RawRows(X, clf.model_.configuration.grid)
    y, ids = X[:, 0] > 0, np.arange(2**20)

    def read():
        with stream_table(file, **COLUMNS) as stream:
            for _ in stream:
                pass

    steps = {
        "reading": (read, MILLION),
        "checking": (lambda: clf._check_rows_to_learn(X, y, first=False), len(X)),
        "hashing": (lambda: keyed_hash(ids, 0), len(ids)),
        "screening": (lambda: screen(raw), len(X)),
    }
    found = {}
    for name, (work, rows) in steps.items():
        work()
        began = time.process_time()
        work()
        found[name] = (time.process_time() - began) / rows
    return found


def model(folder, widths=(64, 256)):
    """The cost model against runs: steps measured alone, and what they say a pass takes of a processor."""
    found = []
    for d in widths:
        rate = rates(folder, d)
        clf = ErasableClassifier(threshold=0.2, engine=Local(), loss="squared", feature_map=None)
        with stream_table(written(folder, 1, d), **COLUMNS) as stream:
            report = clf.learn_blocks(stream, budget_bytes=2**25)
        last = report.rounds[-1]
        predicted = last.rows * sum(rate.values())
        found.append({"columns": d, **rate, "predicted_s": predicted, "measured_s": last.driver_seconds})
    return found


def as_text(found):
    """What was measured, as a section of the results."""
    text = "## Engines\n\n"
    if "memory" in found:
        text += "Peak memory of learning Parquet files of 64 float32 columns, each in a process of its own:\n\n"
        head = ["rows", "core rows", "peak, MB", "beyond the core set, MB", "rounds", "processor s"]
        text += table(
            head,
            [
                (
                    f"{n} million",
                    f"{one['core_rows']:,}",
                    *(f"{one[k] / 1e6:,.0f}" for k in ("peak", "beyond")),
                    len(one["rounds"]),
                    f"{one['took_s']:.0f}",
                )
                for n, one in found["memory"].items()
            ],
        )
        beyond = [one["beyond"] for one in found["memory"].values()]
        base = next(iter(found["memory"].values()))["imports"]
        text += (
            f"\nMost against least, beyond the core set: {max(beyond) / min(beyond):.3f}; less the {base / 1e6:.0f} MB "
        )
        text += f"of a process that learns 100 rows, {(max(beyond) - base) / (min(beyond) - base):.3f}.\n"
    if "workers" in found:
        one = found["workers"]
        text += (
            f"\nA pass that screens {one['rows']:,} x {one['columns']} from Parquet, on a Dask cluster of this machine:"
        )
        text += " seconds with one worker and with two, one BLAS thread each, the driver beside them:\n\n"
        rows = [[n, spread(times)] for n, times in one["times"].items()]
        text += table(["workers", "seconds"], rows) + f"\nTwo against one: {one['ratio']:.2f} times.\n"
    if "model" in found:
        text += "\nThe cost model of docs/scale.md: microseconds of a processor for a row in each step alone, and "
        text += "seconds of it for the last round of a million rows, decisions included:\n\n"
        head = ["columns", *STEPS, "predicted, s", "measured, s"]
        text += table(
            head,
            [
                (
                    one["columns"],
                    *(f"{1e6 * one[s]:.2f}" for s in STEPS),
                    *(f"{one[s]:.2f}" for s in ("predicted_s", "measured_s")),
                )
                for one in found["model"]
            ],
        )
    if "rounds" in found:
        text += "\nRounds of 400,000 x 64 by the formula of docs/scale.md, and as they were:\n\n"
        head = ["budget, MiB", "c", "formula", "rounds", "survivors by round"]
        text += table(
            head,
            [
                (
                    one["budget"] >> 20,
                    f"{one['c']:.0f}",
                    f"{one['formula']:.2f}",
                    len(one["survivors"]),
                    ", ".join(f"{s:,}" for s in one["survivors"]),
                )
                for one in found["rounds"]
            ],
        )
    return text


def measured(folder, where=None, millions=MILLIONS, only=PARTS, rounds=2):
    """All figures; the picture is written where somebody says where."""
    found = {}
    if "memory" in only:
        found["memory"] = memory(folder, millions)
        if where is not None:
            picture(found["memory"], where)
    if "workers" in only:
        found["workers"] = workers(folder, rounds=rounds)
    if "model" in only:
        found["model"] = model(folder)
    if "rounds" in only:
        found["rounds"] = rounds_of()
    return found


def engines(options):
    """Memory that does not grow with the rows, workers, the cost model. A GPU has benchmarks/gpu.py."""
    with tempfile.TemporaryDirectory() as folder:
        return as_text(measured(Path(folder)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--millions", type=int, nargs="+", default=MILLIONS)
    parser.add_argument("--folder", type=Path, help="where the files are, or are made; they stay")
    parser.add_argument("--only", nargs="+", choices=PARTS)
    parser.add_argument("--rounds", type=int, default=2, help="how often workers take turns")
    parser.add_argument("--out", type=Path, help="JSON of all figures")
    parser.add_argument("--picture", type=Path, help="where to draw memory against rows: docs/img/scale.png")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        only = given.only or PARTS
        found = measured(folder, given.picture, given.millions, only, given.rounds)
    if given.out is not None:
        given.out.write_text(json.dumps(found, indent=1, default=float))
    print(as_text(found))


if __name__ == "__main__":
    main()
