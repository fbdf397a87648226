"""How long learning with independent selection takes, next to ridge regression, sparse sums and reading a file."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from sklearn.linear_model import RidgeClassifier
from threadpoolctl import threadpool_limits

from benchmarks.datasets import correlated
from benchmarks.tools import alone, peak_of, processor_turns, table
from erasable import ErasableClassifier

RATE, MILLIONS, WIDTH, BLOCK = 0.1, 5, 64, 100_000
INTRODUCTION = f"""## Independent selection: speed

`fit` and the weights at `rate={RATE:g}`, in one process, contestants taking turns, one BLAS thread. Processor seconds,
medians of {{rounds}} rounds, in brackets the ratio to the peer, and MB of Python and NumPy above the input at the peak
of a further call. The peer is `RidgeClassifier(solver="cholesky")` on all rows, or for sparse rows the sparse matrix
X'X of all rows and one solve. Moments are those of the rows, rounded to powers of two.

"""
FROM_FILE = f"""
{MILLIONS} million rows of {WIDTH} float32 columns in a Parquet file, each in a process of its own with one thread.
"Reading" decodes all columns, block by block, and drops them. Peak memory is that of the process, Python and libraries
included.

"""
READER = """
import pyarrow as pa, pyarrow.parquet as pq
pa.set_cpu_count(1)
start = time.process_time()
for batch in pq.ParquetFile(sys.argv[1]).iter_batches(2**16):
    for column in batch.columns:
        column.to_numpy(zero_copy_only=False)
took, said = time.process_time() - start, 0
"""
LEARNER = """
import contextlib, io
import pyarrow as pa
from erasable.cli.app import run
pa.set_cpu_count(1)
with tempfile.TemporaryDirectory() as folder:
    out, file = io.StringIO(), Path(folder, "m.erasable")
    start = time.process_time()
    with contextlib.redirect_stdout(out):
        code = run(["learn", sys.argv[1], "-o", str(file), "--id", "id", *sys.argv[2:], "--json"])
    took = time.process_time() - start
said = json.loads(out.getvalue())["core_rows"]
assert code == 0
"""


def moments_of(X):
    """Second moments of the columns of rows of norm one."""
    squares = X.multiply(X) if sp.issparse(X) else np.square(X[:50_000])
    means = np.asarray(squares.mean(axis=0)).ravel()
    return np.maximum(means / means.sum(), 2.0**-40)


def learners(X, y):
    """The ways to learn these rows, by name."""

    def fit(**options):
        return lambda: (
            ErasableClassifier(selection="independent", rate=RATE, feature_map=None, **options).fit(X, y).coef_
        )

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
        contestants = {"peer": peer, **learners(rows, target)}
        found = {who: float(np.median(times)) for who, times in processor_turns(contestants, rounds).items()}
        peaks = {who: peak_of(work) for who, work in contestants.items()}
        yield [name, *(f"{t:.3f} ({t / found['peer']:.2f}), {peaks[who]:.0f}" for who, t in found.items())]


def write_rows(path):
    """A Parquet file of random rows, with ids and a label."""
    rng, columns = np.random.default_rng(1), [f"f{j}" for j in range(WIDTH)]
    schema = pa.schema([*((c, pa.float32()) for c in columns), ("id", pa.int64()), ("label", pa.int8())])
    with pq.ParquetWriter(path, schema) as out:
        for k in range(int(MILLIONS * 10**6) // BLOCK):
            X = rng.standard_normal((BLOCK, WIDTH), dtype=np.float32)
            ids, y = np.arange(k * BLOCK, (k + 1) * BLOCK), (X[:, 0] > 0).astype(np.int8)
            out.write_table(pa.table([*map(pa.array, X.T), ids, y], schema=schema))


def from_file(where=None):
    """Rows of the second table."""
    with tempfile.TemporaryDirectory(dir=where) as folder:
        path = Path(folder, "rows.parquet")
        write_rows(path)
        rule = ["--selection", "independent", "--rate"]
        for name, code, words in (
            ("reading", READER, []),
            ("learn, rate 0.01, squared", LEARNER, [*rule, "0.01", "--loss", "squared"]),
            ("learn, rate 0.1, squared", LEARNER, [*rule, "0.1", "--loss", "squared"]),
            ("learn, rate 0.01, logistic", LEARNER, [*rule, "0.01", "--loss", "logistic"]),
        ):
            core, took, peak = alone(code, path, *words)
            yield [name, f"{took:.0f}", f"{peak:,.0f}", f"{core:,}", f"{2 * core * (WIDTH + 1) / 1e6:,.0f}"]


def independent_speed(options):
    """The section."""
    folder = Path(options.data) if options.data else None
    text = INTRODUCTION.format(rounds=options.rounds)
    head = ["rows", "peer", "squared", "squared, moments", "logistic", "logistic, moments"]
    with threadpool_limits(limits=1):
        text += table(head, list(in_memory(folder, options.rounds)))
    head = [f"{MILLIONS} million x {WIDTH}", "processor s", "peak, MB", "rows stored", "MB of their numbers"]
    return text + FROM_FILE + table(head, list(from_file()))
