"""Test accuracy beside ridge regression on all rows, and of rows sorted by class beside shuffled ones."""

from __future__ import annotations

import warnings

import numpy as np
from rich.progress import track
from sklearn.datasets import load_digits
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.datasets import local_sets, small_sets
from benchmarks.tools import console, spread, table
from erasable import ErasableClassifier
from erasable.errors import SortedRowsWarning

SORTED = {"capacity": 0.1, "threshold": 0.1}


def accuracy(options):
    """Test accuracy and stored share against ridge regression on all rows."""
    rows = []
    sets = list(small_sets()) + (list(local_sets(options.data)) if options.data else [])
    for name, splits in track(sets, description="accuracy", console=console, transient=True):
        scores, stored = {}, {}
        for X, X_test, y, y_test in splits:
            # Breast cancer's columns differ in size ten-thousandfold; their orders of magnitude are public knowledge.
            scaling = 10.0 ** np.round(np.log10(X.max(axis=0))) if name == "breast cancer" else "row"
            ridge = make_pipeline(StandardScaler(with_mean=isinstance(X, np.ndarray)), RidgeClassifier())
            scores.setdefault("ridge", []).append(ridge.fit(X, y).score(X_test, y_test))
            for setting in ((1.0, 0.2), (1.0, 0.4), (0.1, 0.2), (0.1, 0.4)):
                clf = ErasableClassifier(
                    setting[0], kappa=setting[1], scaling=scaling, loss="squared", feature_map=None
                ).fit(X, y)
                scores.setdefault(setting, []).append(clf.score(X_test, y_test))
                stored.setdefault(setting, []).append(clf.n_core_ / X.shape[0])
        size, middle = f"{X.shape[0]:,} x {X.shape[1]}", float(np.median(scores["ridge"]))
        for setting, share in stored.items():
            gap = f"{float(np.median(scores[setting])) - middle:+.3f}"
            kept = f"{100 * np.median(share):.1f}%"
            row = [name, size, len(splits), *setting, kept, spread(scores[setting], digits=3)]
            rows.append([*row, spread(scores["ridge"], digits=3), gap])
    head = ["data", "train rows", "splits", "capacity", "kappa", "rows stored", "accuracy", "ridge on all rows", "gap"]
    text = "## Accuracy\n\nMedian (worst to best) over random splits. Ridge is `RidgeClassifier()` behind a "
    text += "`StandardScaler`, both fitted on all rows, which cannot forget; ours sees rows divided by their own norm "
    text += "(breast cancer: by public column scales first). Small core sets vary much with the order of the rows.\n\n"
    return text + table(head, rows)


def sorted_sets(folder):
    """Name, and train and test rows and labels: digits, and what a folder has."""
    yield "digits", train_test_split(*load_digits(return_X_y=True), test_size=0.3, random_state=0)
    for name, splits in local_sets(folder) if folder else ():
        yield name, splits[0]


def sortedness(folder):
    """Accuracy and digests of rows sorted by class, and shuffled."""
    for name, (X, X_test, y, y_test) in sorted_sets(folder):
        ids = np.arange(X.shape[0])
        ways = {"sorted": np.argsort(y, kind="stable"), "shuffled": np.random.default_rng(0).permutation(len(ids))}
        line = [name, f"{X.shape[0]:,} x {X.shape[1]}"]
        for order in ("hashed", "given"):
            models = {}
            for way, index in ways.items():
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", SortedRowsWarning)  # of which this is the measure
                    clf = ErasableClassifier(**SORTED, order=order, loss="squared", feature_map=None).fit(
                        X[index], y[index], ids=ids[index]
                    )
                models[way] = clf
            line += [f"{clf.score(X_test, y_test):.4f}" for clf in models.values()]
            line.append("equal" if len({clf.state_digest() for clf in models.values()}) == 1 else "differ")
        yield line


def order(options):
    """Rows sorted by class against the same rows shuffled."""
    text = '## Order\n\nRows are decided in the order of a keyed hash of their ids; `order="given"` takes them as they '
    text += f"come. Rows sorted by class against the same rows shuffled, capacity {SORTED['capacity']}, threshold "
    text += f"{SORTED['threshold']}: accuracy on test rows, and whether the state digests are equal. What "
    text += 'hashing costs is in "Fit".\n\n'
    head = ["data", "train rows", "hashed: sorted", "shuffled", "digests", "given: sorted", "shuffled", "digests"]
    return text + table(head, list(sortedness(options.data)))
