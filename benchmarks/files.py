"""A model in a file: size, load, one durable forget, a group commit, verify, against the parts it is made of."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.datasets import correlated
from erasable import ErasableClassifier, ModelFile, load, verify
from erasable.audit.keys import new_key
from erasable.audit.scan import scan

CORE, FEATURES = 33_000, 600


def model(rounds=1):
    """A model with about 33,000 core rows of 600 features out of 249,215, and the times of its fit."""
    X, y = correlated()
    X = X.astype(np.float32)
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        clf = ErasableClassifier(1.0, kappa=0.306, loss="squared").fit(X, y)
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
    """Rows of a table: what, wanted, found."""
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
        loads, forgets, peers, reads = [], [], [], []
        file = ModelFile(path)
        file.forget(ids=ids[-1:])
        for k in range(rounds):
            loads.append(timed(lambda: load(path))[0])
            reads.append(timed(path.read_bytes)[0])
            forgets.append(timed(lambda k=k: file.forget(ids=[ids[k]]))[0])
            peers.append(peer(beside, data))
        signed = []
        signer = ModelFile(path, key=new_key())
        signer.forget(ids=[ids[50]])
        for k in range(51, 56):
            signed.append(timed(lambda k=k: signer.forget(ids=[ids[k]]))[0])
        file.forget(ids=[ids[56]])  # it reads what the other one wrote
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
    return [
        ("core rows", "33,000 × 600", f"{n:,} × {FEATURES} of {len(X):,}"),
        ("file", "at most 44 MB", f"{size / 1e6:.1f} MB"),
        (
            "against the training set as float32",
            f"at most {half / X.nbytes:.3f} (half the stored share, and d × d statistics)",
            f"{size / X.nbytes:.3f} ({n / len(X):.3f} of the rows are stored)",
        ),
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


def file_growth(rounds=5):
    """How size, load, one durable forget and memory grow with the number of core rows and of features."""
    for n, d in ((1_000, 100), (10_000, 100), (100_000, 100), (10_000, 200), (10_000, 400), (10_000, 800)):
        rng = np.random.default_rng(0)
        X = rng.standard_normal((n, d), dtype=np.float32)
        clf = ErasableClassifier(threshold=0.0, loss="squared").fit(X, X[:, 0] > 0)
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


LEARNER = """
import re, sys, tempfile, time
from pathlib import Path
from erasable.cli.app import run
with tempfile.TemporaryDirectory() as folder:
    start = time.process_time()
    code = run(["learn", sys.argv[1], "-o", str(Path(folder, "m.erasable")), "--threshold", sys.argv[2], "--json"])
# Not ru_maxrss, which remembers the process that this one was started from.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print("PEAK", peak / 1024, time.process_time() - start)
sys.exit(code)
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
            command = [sys.executable, "-c", LEARNER, str(path), "0.01"]
            alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
            peak, took = map(float, done.stdout.split("PEAK")[1].split())
            yield [f"{n:,} × {d}", f"{n * d * 4 / 1e6:,.0f}", f"{peak:,.0f}", f"{took:.1f}"]
