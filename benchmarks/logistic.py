"""Logistic weights after deletions, against scikit-learn's refit of the same rows from where it stood."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from rich.progress import track
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits

from benchmarks.datasets import correlated, local_sets
from benchmarks.tools import console, goal, peak_of, processor_turns, spread, table
from erasable import ErasableClassifier
from erasable.core.grid import Grid, to_grid
from erasable.core.logistic import logistic_weights

ALPHA = 0.1
LARGE = 0.0253  # the threshold at which about 33,000 of 100,000 rows are stored
MANY = 100
MODEL_MANY, PEER_MANY = f"model, {MANY}", f"peer, {MANY}"
COLUMNS = {
    "model": "the model",
    MODEL_MANY: f"the model, {MANY} rows",
    "gram": "solver, Gram matrix given",
    "gram, sparse": "the same, rows given sparse",
    "nothing": "from nothing",
    "published": "from the published weights",
    "published, sparse": "the same, rows given sparse",
    "peer": "newton-cholesky",
    "peer, sparse": "the same, rows sparse",
    PEER_MANY: f"newton-cholesky, {MANY} rows (sparse where they are)",
}
TEXT = f"""## Logistic weights after deletions

Milliseconds of processor time on one BLAS thread: median (fastest to slowest) over deletions; alpha {ALPHA}. Ours are
certified, bit for bit, and keep no factor and no iterate. "The model" is `clf.forget(ids=[id])`, then `clf.coef_`. Its
weights were read before, so `forget` begins with them, and overwrites them before it returns. The next column is the
same for {MANY} rows at once. Then the solver alone: from nothing with the Gram matrix of the rows that are left,
without it (that of a sample is then formed first), and from the float32 weights before the deletion. The peer is
`LogisticRegression(solver="newton-cholesky", tol=1e-8)`, warm-started from those weights. It stops after one iteration
or two, by the rows that went, so that its times vary. Ratios are those of the model to the peer, after one deletion and
after {MANY}, and where rows are sparse that of the solver to the peer, both given sparse rows. Peaks are those of
Python and NumPy above what they held before the call."""


def cases(folder):
    """Name, rows, labels and threshold: dense rows in two sizes, and sparse ones where their files are."""
    yield "correlated, d = 150", *correlated(60_000, 150), 0.029
    yield "correlated, d = 600", *correlated(100_000, 600), LARGE
    for name, ((X, _, y, _),) in local_sets(folder) if folder else ():
        yield name, X.astype(np.float64), y > 0, 0.02 if X.shape[1] <= 600 else 0.1


def core_of(clf, X, y):
    """Grid rows and signs of the core set that the classifier selected."""
    ids = clf.core_ids_
    rows = X[ids].toarray() if sp.issparse(X) else X[ids]
    grid = Grid(X.shape[1])
    return to_grid(rows, grid), np.where(np.asarray(y)[ids], 1, -1), grid


def without(rows, signs, gone):
    """Rows and labels that are left, and whether they are sparse."""
    left = np.delete(rows, gone, axis=0)
    return left, np.delete(signs, gone), np.count_nonzero(left) < 0.1 * left.size


def contestants(rows, signs, grid, before, gone):
    """Our solver without a row; ``before``, the weights with it, is given to some of the calls."""
    left, y, sparse = without(rows, signs, gone)
    gram = np.asfortranarray(left.T.astype(np.float64) @ left.astype(np.float64))
    problem = y[None, :], np.ones(len(left)), grid, round(ALPHA * 4**grid.bits)
    found = {
        "gram": lambda: logistic_weights(left, *problem, gram=gram),
        "nothing": lambda: logistic_weights(left, *problem),
        "published": lambda: logistic_weights(left, *problem, before),
    }
    if sparse:
        features = sp.csr_array(left[:, :-1])
        found["gram, sparse"] = lambda: logistic_weights(features, *problem, gram=gram)
        found["published, sparse"] = lambda: logistic_weights(features, *problem, before)
    return found


def peers(rows, signs, grid, before, gone):
    """Refits of the peer without some rows, from the weights with them; of sparse rows, too, where they are."""
    left, y, sparse = without(rows, signs, gone)

    def refit(X):
        peer = LogisticRegression(
            solver="newton-cholesky", tol=1e-8, C=1.0 / ALPHA, fit_intercept=False, warm_start=True, max_iter=1000
        )
        peer.coef_, peer.intercept_, peer.classes_ = before.astype(np.float64), np.zeros(1), np.array([-1, 1])
        return peer.fit(X, y)

    dense = left / 2.0**grid.bits
    csr = sp.csr_array(dense) if sparse else None
    return {"peer": lambda: refit(dense), **({"peer, sparse": lambda: refit(csr)} if sparse else {})}


def weights_after_forgetting(clf, ids, n):
    """So many rows less, and the weights of those that are left; ``ids`` gives every row once."""
    clf.forget(ids=[next(ids) for _ in range(n)])
    return clf.coef_


def calls_of(clf, ids, core, before, rng):
    """All calls of one round: one row leaves, and then a hundred."""
    n, gone = len(core[0]), rng.integers(len(core[0]))
    calls = {"model": lambda: weights_after_forgetting(clf, ids, 1)}
    calls |= contestants(*core, before, gone) | peers(*core, before, gone)
    calls[MODEL_MANY] = lambda: weights_after_forgetting(clf, ids, MANY)
    after = peers(*core, before, rng.choice(n, MANY, replace=False))
    return calls | {PEER_MANY: after.get("peer, sparse", after["peer"])}


def measured(clf, core, rounds, name):
    """Seconds of all calls, and peaks of the model and of the peer."""
    rows, signs, grid = core
    before = logistic_weights(rows, signs[None, :], np.ones(len(rows)), grid, round(ALPHA * 4**grid.bits))
    times, rng = {}, np.random.default_rng(0)
    ids = iter(rng.permutation(clf.core_ids_))
    for _ in track(range(rounds), description=f"logistic, {name}", console=console, transient=True):
        calls = calls_of(clf, ids, core, before, rng)
        for who, found in processor_turns(calls, 1).items():
            times.setdefault(who, []).extend(found)
    return times, {who: peak_of(calls[who]) for who in ("model", "peer")}


def logistic(options):
    """Certified logistic weights after deletions, nothing kept."""
    lines, hidden = [], ""
    for name, X, y, threshold in cases(options.data):
        clf = ErasableClassifier(alpha=ALPHA, capacity=ALPHA, threshold=threshold, feature_map=None).fit(X, y)
        core = core_of(clf, X, y)
        with threadpool_limits(1):
            times, peaks = measured(clf, core, options.rounds, name)
        middle = {who: float(np.median(v)) for who, v in times.items()}
        ratios = [middle["model"] / middle["peer"], middle[MODEL_MANY] / middle[PEER_MANY]]
        if "peer, sparse" in middle:
            ratios.append(middle["gram, sparse"] / middle["peer, sparse"])
        size = "{:,} x {}".format(*core[0].shape)
        cells = [spread(times[who], 1e3, 1) if who in times else "" for who in COLUMNS]
        cells += [" / ".join(f"**{ratio:.2f}**" for ratio in ratios), " / ".join(f"{v:.0f}" for v in peaks.values())]
        lines.append([f"{name}, {size}", *cells])
        if threshold == LARGE:
            ours, peer = f"logistic weights after a deletion, {size}", "newton-cholesky, warm"
            hidden += goal(ours, times["model"], (peer, times["peer"]), 0.3, peak=peaks["model"])
            hidden += goal(f"the same after {MANY} at once", times[MODEL_MANY], (peer, times[PEER_MANY]))
    head = ["core rows", *COLUMNS.values(), "ratios", "peak, MB: the model / newton-cholesky"]
    return f"{TEXT}\n\n" + table(head, lines) + hidden
