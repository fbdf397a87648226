"""Models in files: size, load, durable forgets, verify, of dense and of sparse rows; and files that are learnt.

``python -m benchmarks.files DIR NAME KAPPA`` measures one model of sparse rows: by itself, for the sake of its peak.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp

from benchmarks.datasets import correlated
from benchmarks.tools import alone, goal, one_thread, peak_of, table, where_time_goes
from erasable import ErasableClassifier, ModelFile, load, verify
from erasable.audit.keys import new_key
from erasable.audit.scan import scan
from erasable.models.selections import leverage
from erasable.models.state import State
from erasable.research.sets import make_orders, write_orders
from erasable.schemas import draft_schema
from erasable.store._writing import Writer

FEATURES = 600
MILLIONS = (0.3, 1.25)  # orders


def model(rounds=1):
    """A model with about 33,000 core rows of 600 features out of 249,215, and the times of its fit."""
    X, y = correlated()
    X = X.astype(np.float32)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        clf = ErasableClassifier(1.0, kappa=0.306, loss="squared", feature_map=None).fit(X, y)
        clf.coef_  # noqa: B018
        times.append(time.perf_counter() - start)
    return clf, X, times


def peer(path, data):
    """The disk's share of a durable forget: the same bytes written, synced, renamed and zeroed, nothing computed."""
    start = time.perf_counter()
    folder = os.open(path.parent, os.O_RDONLY)
    new = os.open(path.with_suffix(".new"), os.O_WRONLY | os.O_CREAT)
    old = os.open(path, os.O_WRONLY)
    os.write(new, data)
    os.fsync(new)
    os.rename(path.with_suffix(".new"), path)
    os.fsync(folder)
    zeros = bytes(1 << 20)
    for _ in range(0, len(data), len(zeros)):
        os.write(old, zeros)
    os.fsync(old)
    os.fsync(folder)
    for descriptor in (new, old, folder):
        os.close(descriptor)
    return time.perf_counter() - start


def timed(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def measure(rounds=9, where=None):
    """Rows of a table, what, wanted, found; and the line of the goal."""
    clf, X, fit_times = model(3)
    n = clf.n_core_
    ids = clf.core_ids_.tolist()
    with tempfile.TemporaryDirectory(dir=where) as folder:
        path = Path(folder, "m.erasable")
        clf.save(path)
        size = path.stat().st_size
        beside = Path(folder, "peer.bin")
        data = path.read_bytes()
        beside.write_bytes(data)
        loads, forgets, peers, reads, signed = [], [], [], [], []
        file, other = ModelFile(path), Path(folder, "signed.erasable")
        other.write_bytes(data)
        signer = ModelFile(other, key=new_key())
        for each in (file, signer):
            each.forget(ids=ids[-1:])
        for k in range(rounds):
            loads.append(timed(lambda: load(path))[0])
            reads.append(timed(path.read_bytes)[0])
            forgets.append(timed(lambda k=k: file.forget(ids=[ids[k]]))[0])
            peers.append(peer(beside, data))
            signed.append(timed(lambda k=k: signer.forget(ids=[ids[k]]))[0])
        peaks = [peak_of(lambda who=who, k=k: who.forget(ids=[ids[k]])) for who, k in ((signer, 56), (file, 57))]
        stages = where_time_goes("in one more call", lambda: signer.forget(ids=[ids[58]]), STAGES)
        other.unlink()
        requests = [{"ids": [key]} for key in ids[100:10_100]]
        group, reports = timed(lambda: file.forget_together(requests))
        assert sum(r.core_rows_removed for r in reports) == 10_000
        clf.save(path, overwrite=True)
        verifies = [timed(lambda: verify(load(path)))[0] for _ in range(3)]
        gone = X[[int(key) for key in ids[:1000]]]
        ModelFile(path).forget(ids=ids[:1000])
        scans = [timed(lambda: scan(folder, gone, ids=ids[:1000], exclude=["peer.bin"])) for _ in range(3)]
        assert all(report.clean for _, report in scans)
        scanned = scans[0][1].bytes
    half = 0.5 * n * FEATURES * 4 + FEATURES * FEATURES * 8
    ms = [np.median(v) * 1e3 for v in (loads, reads, forgets, peers)]
    found = [
        ("core rows", "33,000 × 600", f"{n:,} × {FEATURES} of {len(X):,}"),
        ("file", "at most 44 MB", f"{size / 1e6:.1f} MB"),
        (
            "against the training set as float32",
            f"at most {half / X.nbytes:.3f} (half the stored share, and d × d statistics)",
            f"{size / X.nbytes:.3f} ({n / len(X):.3f} of the rows are stored)",
        ),
        ("peak of a durable forget, and with a receipt", "", f"{peaks[1]:.0f} and {peaks[0]:.0f} MB"),
        ("`load`", "under 150 ms", f"{ms[0]:.0f} ms; reading the bytes alone takes {ms[1]:.0f} ms"),
        (
            "one durable forget",
            "under 150 ms",
            f"{ms[2]:.0f} ms (median of {rounds}, {min(forgets) * 1e3:.0f} to {max(forgets) * 1e3:.0f}); "
            f"the same writes and fsyncs alone {ms[3]:.0f} ms",
        ),
        (
            "the same with a receipt, verified before it is signed",
            "",
            f"{np.median(signed):.2f} s (median of {len(signed)}); requests that share a rewrite share this",
        ),
        ("10,000 requests in one group commit", "under 1.5 s", f"{group:.2f} s"),
        (
            "`load` and `verify`",
            "under the time of the fit",
            f"{np.median(verifies):.2f} s; the fit took {np.median(fit_times):.2f} s",
        ),
        (
            "`scan` for 1,000 rows and ids",
            "40 MB in under 1 s",
            f"{scanned / 1e6:.0f} MB in {np.median([t for t, _ in scans]):.2f} s",
        ),
    ]
    what = f"durable forget with a receipt, {n:,} x {FEATURES}"
    return found, stages, goal(what, signed, ("the same without a receipt", forgets), seconds=0.5, peak=peaks[0])


STAGES = {
    "hashing the file that is there": (Writer, "holds"),
    "verifying the new state": (State, "verify"),
    "of which confirming that its rows are selected": (leverage, "all_selected"),
    "writing and erasing": (Writer, "replace"),
}


def file_growth(rounds=5):
    """How size, load, one durable forget and memory grow with the number of core rows and of features."""
    for n, d in ((1_000, 100), (10_000, 100), (100_000, 100), (10_000, 200), (10_000, 400), (10_000, 800)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d), dtype=np.float32)
        clf = ErasableClassifier(threshold=0.0, loss="squared", feature_map=None).fit(X, X[:, 0] > 0)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "m.erasable")
            clf.save(path)
            file = ModelFile(path)
            file.forget(ids=[0])
            forgets = [timed(lambda k=k, file=file: file.forget(ids=[k + 1]))[0] for k in range(rounds)]
            loads = [timed(lambda path=path: load(path))[0] for _ in range(rounds)]
            size = path.stat().st_size
            tracemalloc.start()
            held = load(path)
            after_load, peak_load = tracemalloc.get_traced_memory()
            tracemalloc.stop()
            del held
        ms = [np.median(v) * 1e3 for v in (loads, forgets)]
        yield [
            f"{n:,} × {d}",
            f"{size / 1e6:.1f}",
            f"{ms[0]:.0f}",
            f"{ms[1]:.0f}",
            f"{after_load / size:.1f}",
            f"{peak_load / size:.1f}",
        ]


LEARN = """
from erasable.cli.app import run
with tempfile.TemporaryDirectory() as folder:
    start = time.process_time()
    said = run(["learn", sys.argv[1], "-o", str(Path(folder, "m.erasable")), "--threshold", sys.argv[2], "--json"])
    took = time.process_time() - start
assert said == 0
"""


def streaming():
    """Peak memory of learning Parquet files of growing size in a process of their own."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "t.parquet")
        for millions in (0.25, 1, 4):
            n, d = int(millions * 1e6), 50
            columns = [f"f{j}" for j in range(d)]
            rng = np.random.default_rng(1)
            schema = pa.schema([*((c, pa.float32()) for c in columns), ("label", pa.int8())])
            with pq.ParquetWriter(path, schema) as out:
                for _ in range(n // 50_000):
                    X = rng.standard_normal((50_000, d), dtype=np.float32)
                    y = pa.array((X[:, 0] > 0).astype(np.int8))
                    out.write_table(pa.table([*(pa.array(c) for c in X.T), y], schema=schema))
            _, took, peak = alone(LEARN, path, 0.01)
            yield [f"{n:,} × {d}", f"{n * d * 4 / 1e6:,.0f}", f"{peak:,.0f}", f"{took:.1f}"]


def files(options):
    """A model in a file: what the disk and the arithmetic take."""
    text = "## A model in a file\n\nOn the file system of the temporary folder; medians, one process, a durable forget "
    text += "in turn with the same bytes written, synced, renamed and zeroed without computing anything.\n\n"
    found, stages, line = measure(options.rounds + 4)
    text += table(["what", "wanted", "measured"], found)
    text += f"\nWhere the time of a durable forget with a receipt goes, in seconds:\n\n{stages}"
    text += "\nGrowth, every row in the core; memory as multiples of the file, held after `load` and at its peak:\n\n"
    head = ["core rows", "file, MB", "`load`, ms", "durable forget, ms", "held", "peak"]
    text += table(head, file_growth(options.rounds))
    text += "\n`erasable learn` of Parquet files, each in a process of its own (imports included in the peak), one "
    text += "BLAS thread:\n\n"
    return text + table(["rows", "as float32, MB", "peak memory, MB", "processor time, s"], streaming()) + line


# -- sparse rows ---------------------------------------------------------------------------------------------------

SPARSE = [("retail600_kmeans2", 0.2), ("retail600_kmeans2", 0.3), ("diabetes130", 0.2), ("diabetes130", 0.3)]
SPARSE_HEAD = [
    "data",
    "kappa",
    "rows stored",
    "file, MB",
    "with dense rows, MB",
    "file / training set as CSR",
    "fit, s",
    "durable forget, ms",
    "in memory, µs",
    "`load`, ms",
    "`load` and `verify`, s",
    "peak of fit and save, MB",
]


def peak_mb():
    """Peak of this process; ru_maxrss would remember the one that started it."""
    return int(re.search(r"VmHWM:\s+(\d+)", Path("/proc/self/status").read_text())[1]) / 1024


def measure_sparse(folder, name, kappa, rounds=9):
    """A line of the table."""
    X = sp.csr_array(sp.load_npz(Path(folder, f"{name}_train.npz")))
    y = np.load(Path(folder, f"{name}_labels.npz"))["y_train"]
    ErasableClassifier(threshold=0.1, loss="squared", feature_map=None).fit(X[:500], y[:500]).state_digest()
    before = peak_mb()
    clf = ErasableClassifier(kappa=kappa, loss="squared", feature_map=None)
    fit, _ = timed(lambda: clf.fit(X, y))
    ids = clf.core_ids_.tolist()
    with tempfile.TemporaryDirectory() as at:
        path = Path(at, "m.erasable")
        clf.save(path)
        peak, size = peak_mb() - before, path.stat().st_size
        file = ModelFile(path)
        file.forget(ids=ids[:1])
        durable = [timed(lambda k=k: file.forget(ids=[ids[k]]))[0] for k in range(1, rounds + 1)]
        loads = [timed(lambda: load(path))[0] for _ in range(rounds)]
        verifies = [timed(lambda: verify(load(path)))[0] for _ in range(rounds // 3)]
    state = clf._model.snapshot()
    entries, n = state.rows.nnz, len(ids)
    dense = size + 2 * n * (X.shape[1] + 1) - 2 * n - 4 * entries
    in_memory = [timed(lambda k=k: clf.forget(ids=[ids[k]]))[0] for k in range(min(200, n // 2))]
    as_csr = X.data.nbytes + X.indices.nbytes + X.indptr.nbytes
    medians = [float(np.median(v)) for v in (durable, in_memory, loads, verifies)]
    return [
        f"{name}, {X.shape[0]:,} × {X.shape[1]:,}, {X.nnz / X.shape[0]:.1f} non-zeros a row",
        kappa,
        f"{n / X.shape[0]:.1%}",
        f"{size / 1e6:.2f}",
        f"{dense / 1e6:.2f}",
        f"{size / as_csr:.2f}",
        f"{fit:.2f}",
        f"{medians[0] * 1e3:.0f}",
        f"{medians[1] * 1e6:.0f}",
        f"{medians[2] * 1e3:.0f}",
        f"{medians[3]:.2f}",
        f"{peak:.0f}",
    ]


def sparse_files(options):
    """Models of sparse rows in files, each measured in a process of its own."""
    rows = []
    for name, kappa in SPARSE if options.data else ():
        program = [sys.executable, "-W", "ignore", "-m", "benchmarks.files", str(options.data), name, str(kappa)]
        root = Path(__file__).parents[1]
        done = subprocess.run(program, stdout=subprocess.PIPE, text=True, check=True, cwd=root, env=one_thread())
        rows.append(json.loads(done.stdout))
    text = "## Sparse rows in a file\n\nStored rows that are sparse are stored sparse. The file also holds the sums, "
    text += "which no sparsity makes smaller. The training set as CSR: float32 values, int32 columns and ends. One "
    text += "BLAS thread; each line from a process of its own, medians.\n\n"
    return text + table(SPARSE_HEAD, rows)


# -- a large raw table ---------------------------------------------------------------------------------------------

ORDERS = """
from erasable.operations.learn import Columns, learn_table
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder, "m.erasable")
    start = time.process_time()
    told = learn_table(path, sys.argv[1], Columns(schema=sys.argv[2]), parameters=dict(threshold=0.1, loss="logistic"))
    took = time.process_time() - start
said = told.report.rows, told.report.core_rows, told.bytes, told.score.auc
"""


def orders(options):
    """A table of each length; the schema is drafted from orders of another shop, so that no table is read whole."""
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        data, schema = Path(folder, "orders.csv"), Path(folder, "schema.toml")
        roles = {"label": "returned", "id": "order", "subject": "customer"}
        draft_schema(make_orders(20_000, random_state=1), **roles).schema.save(schema)
        for millions in MILLIONS:
            write_orders(data, int(millions * 1e6))
            (n, core, size, auc), took, peak = alone(ORDERS, data, schema)
            line = [f"{n:,}", f"{data.stat().st_size / 1e6:,.0f}", f"{peak:,.0f}", f"{took:.0f}"]
            line += [f"{1e6 * took / n:.1f}", f"{core:,} ({100 * core / n:.2f}%)", f"{size / 1e6:.1f}", f"{auc:.3f}"]
            rows.append(line)
    head = ["orders", "CSV, MB", "peak memory, MB", "processor, s", "µs for each row"]
    head += ["rows stored", "model, MB", "AUC of rows before they were learnt"]
    text = (
        "## A large raw table\n\n`write_orders` of `erasable.research.sets`: 18 columns of CSV, 15 of them features "
        "(dates, categories with rare values, numbers, free text, missing cells), through a schema drafted from 20,000 "
        "orders of another seed; `learn` with `--threshold 0.1 --loss logistic`, in the order of hashes, so a file is "
        "read several times. Each line is a process of its own, one BLAS thread; imports are in its peak.\n\n"
    )
    return text + table(head, rows)


if __name__ == "__main__":
    print(json.dumps(measure_sparse(sys.argv[1], sys.argv[2], float(sys.argv[3]))))
