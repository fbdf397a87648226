"""The kernel classifier against its peers."""

from __future__ import annotations

import time

import numpy as np
from rich.progress import track
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import train_test_split
from sklearn.svm import SVC

from benchmarks.datasets import curved, kernel_cases
from benchmarks.tools import console, goal, peak_of, spread, table, take_turns
from erasable import ErasableClassifier, ErasableKernelClassifier, verify

CURVED = {"gamma": 0.2, "threshold": 1.0}


def kernel(options):
    """The kernel classifier: selection, forgetting against refits, memory, accuracy against its peers."""
    X, y = curved()
    clf = ErasableKernelClassifier(**CURVED)
    peak = peak_of(lambda: clf.fit(X, y))
    times = take_turns({"fit": lambda: clf.fit(X, y).dual_coef_}, 3, "kernel, fit")["fit"]
    m = clf.n_core_
    core, rng = clf.core_ids_.tolist(), np.random.default_rng(0)
    rng.shuffle(core)
    rows, labels, ours = X[core], np.where(y[core], 1.0, -1.0), []
    peers = {
        "GaussianProcessRegressor": lambda k: GaussianProcessRegressor(shape, alpha=0.1, optimizer=None).fit(
            rows[k:], labels[k:]
        ),
        "GaussianProcessClassifier": lambda k: GaussianProcessClassifier(shape, optimizer=None).fit(
            rows[k:], labels[k:]
        ),
    }
    shape = RBF((2 * CURVED["gamma"]) ** -0.5)
    refits = {name: [] for name in peers}
    for k in track(range(100), description="kernel, forget", console=console, transient=True):
        start = time.perf_counter()
        clf.forget(ids=[core[k]])
        _ = clf.dual_coef_
        ours.append(time.perf_counter() - start)
        for name, refit in peers.items():
            if k % 20 == 0:  # the cost of a refit hardly changes over the sequence: every twentieth is timed
                start = time.perf_counter()
                refit(k + 1)
                refits[name].append(time.perf_counter() - start)
    clf.fit(X, y)
    start = time.perf_counter()
    for key in core[:100]:
        clf.forget(ids=[key])
    _ = clf.dual_coef_
    lazily = time.perf_counter() - start
    start = time.perf_counter()
    verify(clf)
    verifying = time.perf_counter() - start
    bound = 3 * 8 * m * m + min(8192, 4 * m, 2**22 // m) * m * 8 * 2
    text = f"## Kernel\n\nNon-linear rows, {len(X):,} x {X.shape[1]}, RBF, {m:,} core rows.\n\n"
    rows_ = [
        ["fit, s", spread(times)],
        ["forget one core row, weights read, ms", spread(ours, 1e3, 1)],
        *([f"`{name}.fit` on the remaining core rows, ms", spread(v, 1e3, 1)] for name, v in refits.items()),
        ["100 deletions, ready after each, s", f"{sum(ours):.2f}"],
        ["100 deletions, weights read after the last, s", f"{lazily:.2f}"],
        *(
            [
                f"100 refits of `{name}` take so many times as long (ready after each / read after the last)",
                f"**{100 * np.median(v) / sum(ours):.1f}** / **{100 * np.median(v) / lazily:.1f}**",
            ]
            for name, v in refits.items()
        ),
        [f"`verify`, {clf.n_core_:,} core rows, s", f"{verifying:.2f}"],
        ["peak of fit above the input, MB", f"{peak:.0f}"],
        ["three core x core matrices and two blocks x core, MB", f"{bound / 1e6:.0f}"],
    ]
    text += table(["what", "measured"], rows_)
    text += goal(f"kernel fit, {len(X):,} x {X.shape[1]}, {m:,} core rows", times, peak=peak)
    regressor = "GaussianProcessRegressor"
    text += goal("kernel forget of a core row, and weights", ours, (f"`{regressor}.fit`", refits[regressor]))
    text += "\nAccuracy on held-out rows (30%, one split for the large set, medians of five for the small ones):\n\n"
    return text + table(
        [
            "data",
            "train rows",
            "stored",
            "kernel, ours",
            "after 20% of its core rows left",
            "SVC",
            "KernelRidge",
            "linear, ours",
        ],
        [kernel_accuracy(*case) for case in kernel_cases()],
    )


def kernel_accuracy(name, X, y, scale, config, splits):
    """One row of the table: medians over splits."""
    found = {key: [] for key in ("share", "ours", "later", "svc", "ridge", "linear")}
    for seed in track(range(splits), description=f"kernel, {name}", console=console, transient=True):
        A, B, a, b = train_test_split(X, y, test_size=0.3, random_state=seed, stratify=y)
        clf = ErasableKernelClassifier(scaling=scale, **config).fit(A, a)
        found["share"].append(clf.n_core_ / len(A))
        found["ours"].append(clf.score(B, b))
        clf.forget(ids=np.random.default_rng(seed).permutation(clf.core_ids_)[: clf.n_core_ // 5])
        found["later"].append(clf.score(B, b))
        found["linear"].append(
            ErasableClassifier(0.1, kappa=0.4, scaling=np.full(X.shape[1], scale), loss="squared", feature_map=None)
            .fit(A, a)
            .score(B, b)
        )
        if len(A) < 5000:
            found["svc"].append(SVC(C=10.0, gamma=config["gamma"]).fit(A / scale, a).score(B / scale, b))
            Y = np.where(a[:, None] == np.unique(y)[None, :], 1.0, -1.0)
            ridge = KernelRidge(alpha=0.1, kernel="rbf", gamma=config["gamma"]).fit(A / scale, Y)
            found["ridge"].append(np.mean(np.unique(y)[ridge.predict(B / scale).argmax(axis=1)] == b))
    text = {k: f"{np.median(v):.3f}" if v else "too large" for k, v in found.items()}
    return [
        name,
        f"{len(A):,}",
        f"{100 * np.median(found['share']):.1f}%",
        *(text[k] for k in ("ours", "later", "svc", "ridge", "linear")),
    ]
