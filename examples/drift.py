"""A model that goes on learning while the world changes: what leverage alone stores of it, and what a sample does.

    python examples/drift.py [--out FOLDER]

A row in a known direction is not stored for its leverage, whatever its label. So when labels come to mean something
else and rows do not, a model that keeps rows for their leverage alone goes on as before. One that also keeps a share of
all rows, by the hash of their ids, follows; how fast depends on how much of the old world it holds, and forgetting that
helps at once.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.table import Table

from erasable import ErasableClassifier, learn, verify

FEATURES, BATCH, OLD_BATCHES, NEW_BATCHES = 10, 2_000, 3, 10
MODELS = {
    "leverage alone": {},
    "leverage and 5% sample": {"sample_rate": 0.05},
    "5% sample alone": {"threshold": math.inf, "sample_rate": 0.05},
}
COLOURS = ["#c2402c", "#3d8b5f", "#1b4f72"]


def worlds(seed: int = 0):
    """What labels mean in the old world and in the new one: two directions at a right angle."""
    rng = np.random.default_rng(seed)
    return np.linalg.qr(rng.standard_normal((FEATURES, 2)))[0].T


def batch(rng, meaning):
    X = rng.standard_normal((BATCH, FEATURES))
    return X, X @ meaning > 0


def follow(parameters, old, new):
    """Rows stored of each batch and accuracy in the new world after it, and the model."""
    rng = np.random.default_rng(1)
    X_test, y_test = batch(np.random.default_rng(2), new)
    clf = ErasableClassifier(feature_map=None, **parameters)  # columns are of one size
    added, accuracy = [], []
    for k in range(OLD_BATCHES + NEW_BATCHES):
        X, y = batch(rng, old if k < OLD_BATCHES else new)
        report = learn(clf, X, y, ids=np.arange(k * BATCH, (k + 1) * BATCH))
        added.append(report.core_rows_added)
        accuracy.append(clf.score(X_test, y_test))
    return clf, added, accuracy, (X_test, y_test)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    out = parser.parse_args().out
    old, new = worlds()
    shown = [0, 2, 10]  # batches of the new world
    table = Table(
        "model",
        "stored\nold",
        "new",
        *(f"{k}" for k in shown),
        "old rows\nforgotten",
        title="Accuracy in the new world after so many of its batches",
    )
    figure, axis = plt.subplots(figsize=(8, 4.2), layout="constrained")
    for (name, parameters), colour in zip(MODELS.items(), COLOURS, strict=True):
        clf, added, accuracy, test = follow(parameters, old, new)
        stored = sum(added[:OLD_BATCHES]), sum(added[OLD_BATCHES:])
        after = accuracy[OLD_BATCHES - 1 :]
        clf.forget(ids=np.arange(OLD_BATCHES * BATCH))
        verify(clf)
        last = f"{clf.score(*test):.3f}" if clf.n_core_ else "none left"
        table.add_row(name, *(f"{n:,}" for n in stored), *(f"{after[k]:.3f}" for k in shown), last)
        axis.plot(range(1, len(accuracy) + 1), accuracy, "o-", color=colour, label=name)
    Console().print(table)
    axis.axvline(OLD_BATCHES + 0.5, color="#c9ced6")
    axis.set_xlabel(f"batches of {BATCH:,} rows; the world changes at the line")
    axis.set_ylabel("accuracy in the new world")
    axis.legend(frameon=False)
    axis.set_title("Labels that change, rows that do not", loc="left", weight="bold")
    out.mkdir(parents=True, exist_ok=True)
    figure.savefig(out / "drift.png", dpi=130)
    print(f"picture: {out / 'drift.png'}")


if __name__ == "__main__":
    main()
