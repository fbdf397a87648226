"""How long learning with independent selection takes, next to ridge regression, sparse sums and reading a file.

make bench ARGS="--only independent_speed --data DIR"
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from sklearn.linear_model import RidgeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.datasets import correlated
from benchmarks.tools import table
from erasable import ErasableClassifier

RATE, MILLIONS, WIDTH, BLOCK = 0.1, 20, 64, 100_000
INTRODUCTION = f"""## Independent selection: speed

`fit` and the weights at `rate={RATE:g}`, in one process, contestants taking turns, one BLAS thread. Processor seconds,
medians of {{rounds}} rounds, and in brackets the ratio to the peer: `RidgeClassifier(solver="cholesky")` on all rows,
or for sparse rows the sparse matrix X'X of all rows and one solve. Moments are those of the rows, rounded to powers
of two.

"""
FROM_FILE = f"""
{MILLIONS} million rows of {WIDTH} float32 columns in a Parquet file, each in a process of its own with one thread.
"Reading" decodes all columns, block by block, and drops them. Peak memory is that of the process, Python and libraries
included.

"""
READER = """
import re, sys, time
from pathlib import Path
import pyarrow as pa, pyarrow.parquet as pq
pa.set_cpu_count(1)
start = time.process_time()
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(2**16):
    for column in batch.columns:
        column.to_numpy(zero_copy_only=False)
took, said = time.process_time() - start, 0
"""
LEARNER = """
import contextlib, io, json, re, sys, tempfile, time
from pathlib import Path
import pyarrow as pa
from erasable.cli.app import run
pa.set_cpu_count(1)
with tempfile.TemporaryDirectory() as folder:
    out, file = io.StringIO(), Path(folder, "m.erasable")
    start = time.process_time()
    with contextlib.redirect_stdout(out):
        code = run(["learn", sys.argv[1], "-o", str(file), "--id", "id", *sys.argv[2:], "--json"])
    took = time.process_time() - start
    report = json.loads(out.getvalue())
    said = report["core_rows"]
    assert code == 0
"""
ENDING = """
# Not ru_maxrss, which remembers the process that this one was started from.
peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
print("FOUND", took, peak / 1024, said)
"""


def in_turns(contestants, rounds):
    """Processor seconds of each contestant: the median over rounds, of which the first is not counted."""
    times = {name: [] for name in contestants}
    for _ in range(rounds + 1):
        for name, work in contestants.items():
            start = time.process_time()
            work()
            times[name].append(time.process_time() - start)
    return {name: float(np.median(found[1:])) for name, found in times.items()}


def moments_of(X):
    """Second moments of the columns of rows of norm one."""
    squares = X.multiply(X) if sp.issparse(X) else np.square(X[:50_000])
    means = np.asarray(squares.mean(axis=0)).ravel()
    return np.maximum(means / means.sum(), 2.0**-40)


def learners(X, y):
    """The ways to learn these rows, by name."""

    def fit(**options):
        return lambda: ErasableClassifier(selection="independent", rate=RATE, **options).fit(X, y).coef_

    moments = moments_of(X)
    return {
        "squared": fit(loss="squared"),
        "squared, moments": fit(loss="squared", moments=moments),
        "logistic": fit(loss="logistic", alpha=0.1),
        "logistic, moments": fit(loss="logistic", alpha=0.1, moments=moments),
    }


def sparse_peer(X, y):
    """The sparse Gram matrix of all rows and one solve."""

    def solved():
        G = (X.T @ X).toarray()
        G.flat[:: len(G) + 1] += 1.0
        return cho_solve(cho_factor(G), X.T @ y)

    return solved


def in_memory(folder, rounds):
    """Rows of the first table."""
    X, y = correlated()
    sets = [("correlated, 249,215 x 600, dense", X, y, lambda: RidgeClassifier(solver="cholesky").fit(X, y))]
    for name in ("retail600_kmeans2", "diabetes130") if folder else ():
        S = sp.csr_array(sp.load_npz(folder / f"{name}_train.npz"))
        target = np.load(folder / f"{name}_labels.npz")["y_train"]
        sets.append((f"{name}, {S.shape[0]:,} x {S.shape[1]:,}, sparse", S, target, sparse_peer(S, target)))
    for name, rows, target, peer in sets:
        found = in_turns({"peer": peer, **learners(rows, target)}, rounds)
        yield [name, *(f"{t:.3f} ({t / found['peer']:.2f})" for t in found.values())]


def write_rows(path):
    """A Parquet file of random rows, with ids and a label."""
    rng, columns = np.random.default_rng(1), [f"f{j}" for j in range(WIDTH)]
    schema = pa.schema([*((c, pa.float32()) for c in columns), ("id", pa.int64()), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as out:
        for k in range(MILLIONS * 10**6 // BLOCK):
            X = rng.standard_normal((BLOCK, WIDTH), dtype=np.float32)
            ids, y = np.arange(k * BLOCK, (k + 1) * BLOCK), (X[:, 0] > 0).astype(np.int8)
            out.write_table(pa.table([*map(pa.array, X.T), ids, y], schema=schema))


def from_file(where=None):
    """Rows of the second table."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        path = Path(folder, "rows.parquet")
        write_rows(path)
        alone = {**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        rule = ["--selection", "independent", "--rate"]
        for name, code, words in (
            ("reading", READER, []),
            ("learn, rate 0.01, squared", LEARNER, [*rule, "0.01", "--loss", "squared"]),
            ("learn, rate 0.1, squared", LEARNER, [*rule, "0.1", "--loss", "squared"]),
            ("learn, rate 0.01, logistic", LEARNER, [*rule, "0.01", "--loss", "logistic"]),
        ):
            command = [sys.executable, "-c", code + ENDING, str(path), *words]
            done = subprocess.run(command, capture_output=True, text=True, check=True, env=alone)
            took, peak, core = map(float, done.stdout.split("FOUND")[1].split())
            yield [name, f"{took:.0f}", f"{peak:,.0f}", f"{int(core):,}", f"{2 * core * (WIDTH + 1) / 2**20:,.0f}"]


def independent_speed(options):
    """The section."""
    folder = Path(options.data) if options.data else None
    text = INTRODUCTION.format(rounds=options.rounds)
    head = ["rows", "peer", "squared", "squared, moments", "logistic", "logistic, moments"]
    with threadpool_limits(limits=1):
        text += table(head, list(in_memory(folder, options.rounds)))
    head = [f"{MILLIONS} million x {WIDTH}", "processor s", "peak MiB", "rows stored", "MiB of their numbers"]
    return text + FROM_FILE + table(head, list(from_file()))
