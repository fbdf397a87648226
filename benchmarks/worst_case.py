"""The worst that people may do who choose what is deleted, or send rows: accuracy, latency, and what is kept.

    python benchmarks/worst_case.py            # Markdown for docs/audit.md

Deletions are of core rows only, in the worst order that was found: a greedy adversary who knows the rows that accuracy
is measured on, and deletes next those core rows whose absence hurts most, one hundredth of the core at a time. Poison
is sent by somebody who knows the direction of the weights.
"""

from __future__ import annotations

import time
import warnings

import numpy as np
from sklearn.linear_model import RidgeClassifier

from benchmarks.tools import table
from erasable import ErasableClassifier
from erasable.research.controls import with_constant
from erasable.research.sets import load_bundled, make_margin

SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75)
POISON = (0.001, 0.01, 0.05)


def data(name):
    """Rows to learn and rows to test with."""
    X, y = load_bundled(return_X_y=True) if name == "digits" else make_margin(20_000, 100, return_X_y=True)
    at = np.random.default_rng(0).permutation(len(X))
    cut = int(0.8 * len(X))
    return X[at[:cut]], y[at[:cut]], X[at[cut:]], y[at[cut:]]


def most_harmful(model, X, y, Xt, yt, wanted):
    """Core rows whose absence lowers the margins of rows near the boundary most, by one step each of ridge."""
    ids = model.core_ids_
    Z, s, T = with_constant(X[ids]), y[ids].astype(float), with_constant(Xt)
    A = 2.0 * model.capacity * np.eye(Z.shape[1]) + Z.T @ Z
    w = np.linalg.solve(A, Z.T @ s)
    margins = yt * (T @ w)
    pull = T.T @ (yt * np.exp(-np.clip(8.0 * np.abs(margins), 0.0, 50.0)))  # rows near the boundary count
    solved = np.linalg.solve(A, Z.T)
    leverage = np.einsum("ij,ji->i", Z, solved)
    harm = (pull @ solved) * (s - Z @ w) / np.maximum(1.0 - leverage, 1e-6)
    return ids[np.argsort(-harm)[:wanted]]


def deletions(name, order):
    """Accuracy as core rows go, and milliseconds for one request with new weights."""
    X, y, Xt, yt = data(name)
    model = ErasableClassifier(classes=[-1, 1]).fit(X, y)
    rng, core = np.random.default_rng(1), model.n_core_
    step, found, times = max(1, core // 100), [], []
    lined_up = {
        "core rows at random": rng.permutation(model.core_ids_),
        "core rows of one class first": model.core_ids_[np.argsort(y[model.core_ids_], kind="stable")],
    }.get(order)
    gone = 0
    for share in SHARES:
        while gone < share * core:
            chosen = lined_up is None
            leaving = most_harmful(model, X, y, Xt, yt, step) if chosen else lined_up[gone : gone + step]
            start = time.process_time()
            model.forget(ids=leaving[:1])
            model.coef_  # noqa: B018
            times.append(time.process_time() - start)
            model.forget(ids=leaving[1:])
            gone += len(leaving)
        found.append(model.score(Xt, yt))
    return core, found, 1e3 * float(np.median(times))


def poisoned(kind, share, X, y, w, rng):
    """Rows that somebody sends, and the labels that go with them: wrong ones."""
    m = max(1, round(share * len(X)))
    if kind == "genuine rows, labels turned":
        at = rng.permutation(len(X))[:m]
        return X[at], -y[at]
    noise = rng.standard_normal((m, X.shape[1]))
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    signs = rng.choice([-1, 1], m)
    P = noise + (signs[:, None] * w / np.linalg.norm(w) if kind == "new directions along the weights" else 0.0)
    return P, np.where(P @ w > 0, -1, 1)


def poisoning(name, kind, share):
    """How much of the poison is kept, its share of the core set, and both accuracies."""
    X, y, Xt, yt = data(name)
    rng = np.random.default_rng(2)
    w = ErasableClassifier(classes=[-1, 1]).fit(X, y).coef_[0]
    P, s = poisoned(kind, share, X, y, w, rng)
    rows, labels = np.vstack([X, P]), np.append(y, s)
    model = ErasableClassifier(classes=[-1, 1]).fit(rows, labels)
    kept = int((model.core_ids_ >= len(X)).sum())
    ridge = RidgeClassifier(0.02).fit(with_constant(rows)[:, :-1], labels)
    return kept / len(P), kept / model.n_core_, model.score(Xt, yt), ridge.score(with_constant(Xt)[:, :-1], yt)


def main():
    warnings.simplefilter("ignore")
    rows = []
    for name in ("digits", "margin"):
        for order in ("core rows at random", "core rows of one class first", "most harmful core rows first"):
            core, found, ms = deletions(name, order)
            rows.append([f"{name}, {core:,} core rows", order, *(f"{a:.3f}" for a in found), f"{ms:.2f} ms"])
    print(table(["set", "order", *(f"{100 * s:.0f}% gone" for s in SHARES), "one request, weights included"], rows))
    rows = []
    for name in ("digits", "margin"):
        for kind in ("genuine rows, labels turned", "random directions", "new directions along the weights"):
            for share in POISON:
                kept, part, ours, ridge = poisoning(name, kind, share)
                rows.append(
                    [name, kind, f"{100 * share:g}%", f"{kept:.0%}", f"{part:.1%}", f"{ours:.3f}", f"{ridge:.3f}"]
                )
    head = ["set", "what is sent", "of all rows", "kept of it", "its part of the core", "accuracy", "ridge on all rows"]
    print(table(head, rows))


if __name__ == "__main__":
    main()
