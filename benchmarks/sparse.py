"""Selecting and fitting sparse rows against a sparse Gram matrix and one solve, on one BLAS thread."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from scipy.linalg import cho_factor, cho_solve
from threadpoolctl import threadpool_limits

from benchmarks.datasets import local_sets
from benchmarks.tools import console, goal, peak_of, processor_turns, spread, table, where_time_goes
from erasable import ErasableClassifier
from erasable.core import deciding, sparse_deciding
from erasable.core.grid import Grid
from erasable.core.selector import RawRows, select
from erasable.core.sparse_deciding import Inverse
from erasable.core.sums import empty_gram, regulariser

# Thresholds, capacity 1, and the goals: at most so many times the peer.
CASES = {
    "retail600_kmeans2": {0.108: 4.0, 0.0356: 8.0},
    "diabetes130": {0.104: 0.9, 0.0336: 1.8},
}
PEER = "sparse Gram matrix, one solve"


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
    clf = ErasableClassifier(threshold=tau, capacity=1.0, loss="squared", feature_map=None).fit(X, y)
    clf.coef_  # noqa: B018
    return clf


def measure(name, X, y, goals, rounds):
    """Rows of the table, and lines of that of goals; everybody takes turns."""
    order = np.random.default_rng(0).permutation(X.shape[0])
    X, y = X[order], y[order]
    Z = unit_rows(X)
    contestants = {PEER: lambda: peer(Z, y)}
    for tau in goals:
        contestants[f"select, threshold {tau}"] = lambda tau=tau: selected(X, tau)
        contestants[f"fit, threshold {tau}"] = lambda tau=tau: fitted(X, y, tau)
    times = processor_turns(contestants, rounds)
    peaks = {who: peak_of(work) for who, work in contestants.items()}
    shares = {tau: f"{len(selected(X, tau).index) / X.shape[0]:.1%}" for tau in goals}
    whole, rows, lines = float(np.median(times[PEER])), [], ""
    for who, found in times.items():
        share = next((share for tau, share in shares.items() if who.endswith(f" {tau}")), "")
        rows.append([name, who, share, spread(found, digits=3), f"{np.median(found) / whole:.1f}", f"{peaks[who]:.0f}"])
    parts = ""
    for tau, most in goals.items():
        parts += where_time_goes(f"{name}, {shares[tau]} stored", contestants[f"fit, threshold {tau}"], STAGES)
        who = f"fit, threshold {tau}"
        what = f"sparse fit, {name}, {shares[tau]} stored, one thread"
        lines += goal(what, times[who], (PEER, times[PEER]), most, peak=peaks[who])
    return rows, parts, lines


STAGES = {
    "screening": (sparse_deciding, "may_exceed"),
    "inverse following the core set": (Inverse, "follow"),
    "of which substitution": (sparse_deciding, "_divide"),
    "and mirroring": (sparse_deciding, "_mirror"),
    "products of candidates with the inverse": (Inverse, "products"),
    "their Gram matrices": (sparse_deciding, "_gram"),
    "pivots": (deciding, "pivots_of"),
    "new inverses": (sparse_deciding, "invert"),
}


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
    (taken,) = processor_turns({"select": lambda: selected(X, tau)}, 1)["select"]
    share = f"{len(selected(X, tau).index) / X.shape[0]:.1%}"
    peak = peak_of(lambda: selected(X, tau))
    return "hashed 20,000 x 4,096", f"select, threshold {tau}", share, f"{taken:.3f}", "", f"{peak:.0f}"


def sparse(options):
    """Sparse rows; the sets come from the folder with further data."""
    rows, parts, lines = [], "", ""
    with threadpool_limits(1):
        for name, [(X, _, y, _)] in local_sets(options.data) if options.data else ():
            if name in CASES:
                console.log(name)
                found, where, more = measure(name, X, y, CASES[name], options.rounds)
                rows, parts, lines = rows + found, parts + where, lines + more
        rows.append(wide())
    text = "## Sparse rows\n\nProcessor seconds on one BLAS thread: median (fastest to slowest), contestants in turn; "
    text += "capacity 1. `select` is Algorithm 1's pass alone; `fit` has input checks, the order of rows and the "
    text += "weights beside it. The peer is the sparse Gram matrix of all rows of norm one, and one solve. Peaks are "
    text += "those of Python and NumPy above the input.\n\n"
    text += table(["set", "what", "stored", "seconds", "times the peer", "peak, MB"], rows)
    return text + f"\nWhere the time of `fit` goes, in one more call, seconds by the clock:\n\n{parts}" + lines
