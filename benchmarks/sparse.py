"""Selecting and fitting sparse rows against a sparse Gram matrix and one solve, on one BLAS thread.

    OMP_NUM_THREADS=1 python -m benchmarks.sparse FOLDER

``FOLDER`` holds sparse sets as ``benchmarks.datasets.local_sets`` reads them. Times are processor seconds.
"""

from __future__ import annotations

import sys
import time
import tracemalloc

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from benchmarks.datasets import local_sets
from benchmarks.tools import console, spread, table
from erasable import ErasableClassifier
from erasable.core.grid import Grid
from erasable.core.selector import RawRows, select
from erasable.core.sums import empty_gram, regulariser

ROUNDS = 5
CASES = {"retail600_kmeans2": (0.1, 0.036), "diabetes130": (0.1, 0.032)}  # thresholds, capacity 1


def unit_rows(X):
    lengths = np.sqrt(np.asarray(X.multiply(X).sum(axis=1)).ravel())
    return sp.csr_array(sp.diags_array(1.0 / np.maximum(lengths, 1e-30)) @ X.astype(np.float64))


def peer(Z, y):
    """Sums of all rows and the solution of one system: what a linear model costs that cannot forget."""
    A = (Z.T @ Z).toarray()
    A.flat[:: len(A) + 1] += 1.0
    return cho_solve(cho_factor(A), Z.T @ y)


def selected(X, tau):
    grid = Grid(X.shape[1])
    units = regulariser(1.0, grid)
    return select(RawRows(X, grid), empty_gram(grid, units), 0, grid=grid, units=units, tau=tau)


def fitted(X, y, tau):
    clf = ErasableClassifier(threshold=tau, capacity=1.0, loss="squared").fit(X, y)
    clf.coef_  # noqa: B018
    return clf


def seconds(work):
    start = time.process_time()
    work()
    return time.process_time() - start


def measure(name, X, y, thresholds, rounds=ROUNDS):
    """Rows of a table; everybody takes turns."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    X, y = X[order], y[order]
    Z = unit_rows(X)
    contestants = {"peer": lambda: peer(Z, y)}
    for tau in thresholds:
        contestants[f"select {tau}"] = lambda tau=tau: selected(X, tau)
        contestants[f"fit {tau}"] = lambda tau=tau: fitted(X, y, tau)
    times = {who: [] for who in contestants}
    for _ in range(rounds):
        for who, work in contestants.items():
            times[who].append(seconds(work))
    whole = float(np.median(times["peer"]))
    yield name, "sparse Gram matrix, one solve", "", spread(times["peer"], digits=3), "1"
    for tau in thresholds:
        share = len(selected(X, tau).index) / X.shape[0]
        for what in ("select", "fit"):
            found = times[f"{what} {tau}"]
            yield name, f"{what}, threshold {tau}", f"{share:.1%}", spread(found), f"{np.median(found) / whole:.1f}"


def hashed(n=20_000, d=4096, entries=50, seed=0):
    """Rows of ``entries`` hashed features, some far more frequent than others."""
    rng = np.random.default_rng(seed)
    columns = (d * rng.random((n, entries)) ** 3).astype(np.int64)
    X = sp.csr_array((np.ones(columns.size), columns.ravel(), np.arange(n + 1) * entries), shape=(n, d))
    X.sum_duplicates()
    return X


def wide(tau=0.3):
    """Time and peak memory of a selection among 4,096 hashed features."""
    X = hashed()
    taken = seconds(lambda: selected(X, tau))
    tracemalloc.start()
    found = selected(X, tau)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    share = f"{len(found.index) / X.shape[0]:.1%}"
    return "hashed 20,000 x 4,096", f"select, threshold {tau}", share, f"{taken:.1f}", f"peak {peak / 2**20:.0f} MiB"


def figures(folder, rounds=ROUNDS):
    """The table, as Markdown."""
    rows = []
    with threadpool_limits(1):
        for name, [(X, _, y, _)] in local_sets(folder) if folder else ():
            if name in CASES:
                console.log(name)
                rows += measure(name, X, y, CASES[name], rounds)
        rows.append(wide())
    return table(["set", "what", "stored", "seconds", "times the peer"], rows)


def sparse(options):
    """Sparse rows; the sets come from the folder with further data."""
    text = "## Sparse rows\n\nProcessor seconds on one BLAS thread: median (fastest to slowest), contestants in turn; "
    text += (
        "capacity 1. `select` is Algorithm 1's pass alone; `fit` has input checks, the order of rows and the weights "
    )
    text += "beside it. The peer is the sparse Gram matrix of all rows of norm one, and one solve.\n\n"
    return text + figures(options.data, options.rounds)


if __name__ == "__main__":
    print(figures(sys.argv[1]))
