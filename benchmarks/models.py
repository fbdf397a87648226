"""What a model is worth that stores a tenth of the rows: our heads, beside the usual peers on all rows.

    make bench ARGS="--only models --data DIR"

Figures are of held-out rows, means over random splits. LightGBM takes part where it is installed.
"""

from __future__ import annotations

import math
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from rich.progress import track
from sklearn.datasets import make_classification
from sklearn.dummy import DummyClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from benchmarks.schema import ADULT_NUMBERS, usual
from benchmarks.sets import Set, binned_adult, prepared
from benchmarks.tools import console, table
from erasable import ErasableClassifier

try:
    from lightgbm import LGBMClassifier
except ImportError:
    LGBMClassifier = None

HEAD = ["model", "stored", "accuracy", "balanced accuracy", "AUC", "log-loss"]
THRESHOLDS = (0.1, 0.05)  # on adult
INTRODUCTION = """## Models

Our models on held-out rows, 30% of each set, beside peers that need every row. Means over random splits. Rows are
one-hot with public bins, divided by their norms; `ids` are the numbers of the rows in the file. Samples keep rows by
the hash of their ids and no others (`threshold=math.inf`). On adult the capacity is 0.01. Parameters for diabetes130
were picked on the first of its splits.
"""
RARE = """Classes of unequal size. The first set is adult with most of the positive rows left out, the second is made
(20 features, 3% of the labels turned around). "Constant" guesses the larger class for every row. The squared loss
puts its decision halfway between the classes' mean scores in the core set. Rows stored for their leverage are unusual,
and the unusual rows of a class may be the easy ones: their mean then lies beyond that of the others. A sample has no
such bias, and the logistic loss weighs rows rather than means.
"""


def figures(scores, y, classes, chances=None):
    """Accuracy, balanced accuracy, AUC and log-loss (nan without probabilities)."""
    scores = scores.reshape(len(y), -1)
    best = (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)
    if scores.shape[1] == 1:
        area = roc_auc_score(y == classes[1], scores[:, 0])
    else:
        area = np.mean([roc_auc_score(y == label, scores[:, k]) for k, label in enumerate(classes)])
    loss = np.nan if chances is None else log_loss(y, chances, labels=classes)
    return np.array([np.mean(classes[best] == y), balanced_accuracy_score(y, classes[best]), area, loss])


def judged(model, X, y, share):
    """Accuracy, balanced accuracy, AUC, log-loss on these rows, and the stored share as it came."""
    chances = model.predict_proba(X)
    scores = model.decision_function(X) if hasattr(model, "decision_function") else chances[:, 1] - 0.5
    return [*figures(scores, y, model.classes_, chances), share]


def ours(data, train, test, **parameters):
    """Figures of one of our models."""
    clf = ErasableClassifier(**{"feature_map": None, **parameters}).fit(data.X[train], data.y[train], ids=train)
    return judged(clf, data.X[test], data.y[test], clf.n_core_ / len(train))


def logistic(alpha, **parameters):
    return {"loss": "logistic", "alpha": alpha, **parameters}


def on_adult(data, frame, train, test):
    """Figures of all contestants on adult, by name, for one split."""
    y, found = data.y, {}
    texts = [name for name in frame if name not in ADULT_NUMBERS]
    peer = make_pipeline(usual(texts, [n for n in ADULT_NUMBERS if n in frame]), LogisticRegression(max_iter=2000))
    peer.fit(frame.iloc[train], y[train])
    found["scikit-learn: one-hot, scaler, logistic regression"] = judged(peer, frame.iloc[test], y[test], 1.0)
    boosted = {"LightGBM": train}
    for threshold in THRESHOLDS:
        at = {"capacity": 0.01, "threshold": threshold}
        found[f"ours, squared, threshold {threshold:g}"] = ours(data, train, test, loss="squared", **at)
        name = f"ours, logistic, alpha 0.1, threshold {threshold:g}"
        found[name] = ours(data, train, test, **logistic(0.1, **at))
        share = found[name][-1]
        sample = {"threshold": math.inf, "sample_rate": share}
        found[f"ours, logistic, alpha 0.1, a sample as large as at {threshold:g}"] = ours(
            data, train, test, **logistic(0.1, **sample)
        )
        rows = np.random.default_rng(0).permutation(train)[: round(share * len(train))]
        boosted[f"LightGBM, random rows, as many as at {threshold:g}"] = rows
    for name, rows in boosted.items() if LGBMClassifier else ():
        trees = LGBMClassifier(verbose=-1, n_jobs=1).fit(frame.iloc[rows], y[rows])
        found[name] = judged(trees, frame.iloc[test], y[test], len(rows) / len(train))
    return found


def on_sparse(data, train, test, settings):
    """Figures of a constant, of logistic regression on all rows and of ours, by name, for one split."""
    rows, asked, y, truth = normalize(data.X[train]), normalize(data.X[test]), data.y[train], data.y[test]
    found = {"constant": judged(DummyClassifier(strategy="prior").fit(rows, y), asked, truth, 0.0)}
    peer = LogisticRegression(max_iter=2000).fit(rows, y)
    found["scikit-learn: logistic regression"] = judged(peer, asked, truth, 1.0)
    return found | {name: ours(data, train, test, **parameters) for name, parameters in settings.items()}


DIABETES = {
    "ours, squared, capacity 0.1, threshold 0.1": {"loss": "squared", "capacity": 0.1, "threshold": 0.1},
    "ours, logistic, capacity 0.1, threshold 0.1, alpha 0.1": logistic(0.1, capacity=0.1, threshold=0.1),
    "ours, logistic, capacity 0.1, threshold 0.1, alpha 1": logistic(1.0, capacity=0.1, threshold=0.1),
    "ours, logistic, sample of 0.15, alpha 0.3": logistic(0.3, threshold=math.inf, sample_rate=0.15),
    "ours, logistic, sample of 0.19, alpha 0.3": logistic(0.3, threshold=math.inf, sample_rate=0.19),
}
RETAIL = {
    "ours, squared, capacity 0.02, threshold 0.2": {"loss": "squared", "threshold": 0.2},
    "ours, logistic, capacity 0.02, threshold 0.2, alpha 0.02": logistic(0.02, threshold=0.2),
    "ours, logistic, sample of 0.05, alpha 0.02": logistic(0.02, threshold=math.inf, sample_rate=0.05),
}
HEADS = {"squared": {"loss": "squared"}, "logistic, alpha 0.02": logistic(0.02)}


def rare_sets(folder):
    """Two sets with six or seven positive rows in a hundred."""
    if folder:
        whole = binned_adult(folder)
        rng = np.random.default_rng(0)
        positive = rng.permutation(np.flatnonzero(whole.y))
        negative = np.flatnonzero(~whole.y)
        kept = np.sort(np.concatenate([negative, positive[: round(len(negative) * 0.065 / 0.935)]]))
        yield Set("adult, 6.5% positive", whole.X[kept], whole.y[kept])
    X, y = make_classification(20_000, 20, n_informative=8, weights=[0.95], flip_y=0.03, class_sep=1.2, random_state=0)
    yield Set(f"made, {100 * y.mean():.1f}% positive", X, y)


def on_rare(data, train, test):
    """Figures of both heads with and without weights of classes, for one split."""
    guess = DummyClassifier(strategy="prior").fit(data.X[train], data.y[train])
    found = {"constant": judged(guess, data.X[test], data.y[test], 0.0)}
    for name, head in HEADS.items():
        for class_weight in (None, "balanced"):
            found[f"ours, {name}, class_weight={class_weight!r}"] = ours(
                data, train, test, class_weight=class_weight, **head
            )
    found["ours, squared, sample of 0.15 alone, class_weight='balanced'"] = ours(
        data, train, test, loss="squared", class_weight="balanced", threshold=math.inf, sample_rate=0.15
    )
    return found


def means(data, n_splits, contestants):
    """The table of a set: the mean of each figure of each contestant over the splits."""
    found = {}
    splits = data.splits(n_splits)
    for train, test in track(splits, data.name, total=n_splits, console=console, transient=True):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name, values in contestants(train, test).items():
                found.setdefault(name, []).append(values)
    rows = []
    for name, values in found.items():
        *scores, share = np.mean(values, axis=0)
        rows.append([name, f"{100 * share:.1f}%", *(f"{v:.4f}" for v in scores)])
    title = f"**{data.name}**, {len(train):,} x {data.X.shape[1]}, {n_splits} splits\n\n"
    return title + table(HEAD, rows)


def models(options):
    """How good models are that store a small share of the rows, and how good their peers."""
    folder = Path(options.data) if options.data else None
    parts = [INTRODUCTION]
    if folder:
        census, (diabetes, retail) = binned_adult(folder), prepared(folder)
        frame = pd.read_csv(folder / "adult_raw.csv.gz", na_values="?").drop(columns=["row_id", "salary", "fnlwgt"])
        for name in frame.select_dtypes(exclude="number"):
            frame[name] = frame[name].astype("category")
        parts.append(means(census, 10, lambda *rows: on_adult(census, frame, *rows)))
        if LGBMClassifier is None:
            parts.append("LightGBM is not installed, and was left out.\n")
        parts.append(means(diabetes, 5, lambda *rows: on_sparse(diabetes, *rows, DIABETES)))
        parts.append(means(retail, 3, lambda *rows: on_sparse(retail, *rows, RETAIL)))
    else:
        parts.append(
            "Adult, diabetes130 and retail600 were not measured: they are in the folder that `--data` names.\n"
        )
    parts.append(RARE)
    parts += [means(data, 5, lambda *rows, data=data: on_rare(data, *rows)) for data in rare_sets(folder)]
    return "\n".join(parts)
