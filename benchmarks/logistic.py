"""Logistic weights after one deletion, against scikit-learn's refit of the same rows from where it stood."""

from __future__ import annotations

import time

import numpy as np
import scipy.sparse as sp
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.datasets import correlated, local_sets
from benchmarks.tools import console, spread, table
from erasable import ErasableClassifier
from erasable.core.grid import Grid, to_grid
from erasable.core.logistic import logistic_weights

ALPHA = 0.1
TEXT = f"""## Logistic weights after one deletion

Milliseconds of processor time on one BLAS thread: median (fastest to slowest) over deletions; alpha {ALPHA}. Ours are
certified, bit for bit, and keep no factor and no iterate: they begin at the float32 weights that were published before
the deletion, or at nothing (a sample of the rows is then solved first). The peer is
`LogisticRegression(solver="newton-cholesky", tol=1e-8)`, warm-started from the same weights."""


def cases(folder):
    """Name, rows, labels and threshold: dense rows in two sizes, and sparse ones where their files are."""
    yield "correlated, d = 150", *correlated(60_000, 150), 0.029
    yield "correlated, d = 600", *correlated(100_000, 600), 0.028
    for name, ((X, _, y, _),) in local_sets(folder) if folder else ():
        yield name, X.astype(np.float64), y > 0, 0.02 if X.shape[1] <= 600 else 0.1


def core_of(X, y, threshold):
    """Grid rows and signs of the core set that the classifier selects."""
    clf = ErasableClassifier(capacity=ALPHA, threshold=threshold).fit(X, y)
    ids = clf.core_ids_
    rows = X[ids].toarray() if sp.issparse(X) else X[ids]
    grid = Grid(X.shape[1])
    return to_grid(rows, grid), np.where(np.asarray(y)[ids], 1, -1), grid


def contestants(rows, signs, grid, before, gone):
    """Calls that solve the problem without one row; only ``before``, the weights with it, is given to them."""
    left = np.delete(rows, gone, axis=0)
    y, ones, units = np.delete(signs, gone), np.ones(len(left)), round(ALPHA * 4**grid.bits)
    ours = {
        "published": lambda: logistic_weights(left, y[None, :], ones, grid, units, before),
        "nothing": lambda: logistic_weights(left, y[None, :], ones, grid, units),
    }
    sparse = np.count_nonzero(left) < 0.1 * left.size
    if sparse:
        features = sp.csr_array(left[:, :-1])
        ours["sparse"] = lambda: logistic_weights(features, y[None, :], ones, grid, units, before)

    def refit(X):
        peer = LogisticRegression(
            solver="newton-cholesky", tol=1e-8, C=1.0 / ALPHA, fit_intercept=False, warm_start=True, max_iter=1000
        )
        peer.coef_, peer.intercept_, peer.classes_ = before.astype(np.float64), np.zeros(1), np.array([-1, 1])
        return peer.fit(X, y)

    dense = left / 2.0**grid.bits
    peers = {"peer": lambda: refit(dense)}
    if sparse:
        csr = sp.csr_array(dense)
        peers["peer, sparse"] = lambda: refit(csr)
    return {**ours, **peers}


def logistic(options):
    """Certified logistic weights after one deletion, nothing kept but the weights published before it."""
    lines = []
    for name, X, y, threshold in cases(options.data):
        rows, signs, grid = core_of(X, y, threshold)
        with threadpool_limits(1):
            ones, units = np.ones(len(rows)), round(ALPHA * 4**grid.bits)
            before = logistic_weights(rows, signs[None, :], ones, grid, units)
            times = {}
            rng = np.random.default_rng(0)
            for _ in track(range(options.rounds), description=f"logistic, {name}", console=console, transient=True):
                for who, work in contestants(rows, signs, grid, before, rng.integers(len(rows))).items():
                    work()
                    start = time.process_time()
                    work()
                    times.setdefault(who, []).append(time.process_time() - start)
        text = {who: spread(v, 1e3, 1) for who, v in times.items()}
        middle = {who: float(np.median(v)) for who, v in times.items()}
        sparsely = f" / **{middle['sparse'] / middle['peer, sparse']:.2f}**" if "sparse" in middle else ""
        lines.append(
            [
                f"{name}, {rows.shape[0]:,} x {rows.shape[1]}",
                text["published"],
                text.get("sparse", ""),
                text["nothing"],
                text["peer"],
                text.get("peer, sparse", ""),
                f"**{middle['published'] / middle['peer']:.2f}**{sparsely}",
            ]
        )
    head = [
        "core rows",
        "ours, from the published weights",
        "the same, rows given sparse",
        "ours, from nothing",
        "newton-cholesky",
        "the same, rows sparse",
        "ratio, from the published weights: dense rows / sparse rows",
    ]
    return f"{TEXT}\n\n" + table(head, lines)
