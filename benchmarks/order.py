"""The order of rows: what hashing it costs, and that a sorted table is as good as a shuffled one."""

from __future__ import annotations

import warnings

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from benchmarks.datasets import correlated, local_sets, margin
from benchmarks.tools import spread, table, take_turns
from erasable import ErasableClassifier
from erasable.errors import SortedRowsWarning

SORTED = {"capacity": 0.1, "threshold": 0.1}


def cost(rounds, cases):
    """Seconds of a fit in the order of hashes and in the order given."""
    for name, make, config in cases:
        X, y = make()
        contestants = {
            order: lambda X=X, y=y, config=config, order=order: (
                ErasableClassifier(**config, order=order, loss="squared").fit(X, y).coef_
            )
            for order in ("hashed", "given")
        }
        times = take_turns(contestants, rounds, f"order, {name}")
        ratio = float(np.median(times["hashed"]) / np.median(times["given"]))
        yield [name, spread(times["hashed"]), spread(times["given"]), f"**{ratio:.2f}**"]
        del X, y, contestants


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
                    clf = ErasableClassifier(**SORTED, order=order, loss="squared").fit(
                        X[index], y[index], ids=ids[index]
                    )
                models[way] = clf
            line += [f"{clf.score(X_test, y_test):.4f}" for clf in models.values()]
            line.append("equal" if len({clf.state_digest() for clf in models.values()}) == 1 else "differ")
        yield line


def order(options, settings):
    """Order of rows."""
    cases = (
        ("correlated, 249,215 x 600", correlated, settings["correlated"]),
        ("Margin, 200,000 x 100", margin, settings["margin"]),
    )
    text = '## Order\n\nRows are decided in the order of a keyed hash of their ids; `order="given"` takes them as they '
    text += "come. Seconds of `fit`: median (fastest to slowest).\n\n"
    text += table(["data", "hashed, s", "given, s", "ratio"], list(cost(options.rounds, cases)))
    text += f"\nRows sorted by class against the same rows shuffled, capacity {SORTED['capacity']}, threshold "
    text += f"{SORTED['threshold']}: accuracy on test rows, and whether the state digests are equal.\n\n"
    head = ["data", "train rows", "hashed: sorted", "shuffled", "digests", "given: sorted", "shuffled", "digests"]
    return text + table(head, list(sortedness(options.data)))
