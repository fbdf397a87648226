"""Learners on the core rows, next to the same learner on all rows: quality, and what learning and forgetting cost.

    make bench ARGS="--only learners --data DIR"

Adult is a raw table behind the draft of a schema that the training rows give. The regression is made up.
"""

from __future__ import annotations

import statistics
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from lightgbm import LGBMClassifier, LGBMRegressor
from rich.progress import track
from sklearn.datasets import make_friedman1
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit

from benchmarks.tools import console, table
from erasable import ErasableClassifier, ErasableRegressor, ModelFile, load, verify
from erasable.schemas import draft_schema

SPLITS = 5
SMALL = {"learner": "lightgbm", "num_leaves": 15, "learning_rate": 0.05, "n_estimators": 200}
SHARES = {"<=50K": 0.75, ">50K": 0.25}  # public, to the nearest quarter
BALANCED = {"selection": "independent", "rate": 0.22, "balance": 0.5}
OURS = {
    "ours, lightgbm, every row (`rate=1.0`)": {"learner": "lightgbm", "selection": "independent", "rate": 1.0},
    "ours, lightgbm, `rate=0.25`": {"learner": "lightgbm", "selection": "independent", "rate": 0.25},
    "ours, lightgbm, `rate=0.22, balance=0.5`": {"learner": "lightgbm", **BALANCED},
    "ours, lightgbm of 200 small trees, `rate=0.22, balance=0.5`": {"learner": SMALL, **BALANCED},
    "ours, lightgbm of 200 small trees, leverage": {"learner": SMALL},
    "ours, hist_gradient_boosting, `rate=0.22, balance=0.5`": {
        "learner": "hist_gradient_boosting",
        **BALANCED,
    },
    "ours, random_forest, `rate=0.22, balance=0.5`": {
        "learner": {"learner": "random_forest", "min_samples_leaf": 5},
        **BALANCED,
    },
    "ours, logistic head, `rate=0.22, balance=0.5`": {**BALANCED},
}
INTRODUCTION = f"""## Learners

[Learners](../docs/learners.md) on the core rows. Adult: 30% of the rows held out, {SPLITS} random splits, mean
(standard deviation) on these. The schema is the draft of the training rows, with the moments in it; `class_shares` are
0.75 and 0.25. LightGBM by itself takes the table with pandas' categories. "Small trees" have 15 leaves and a learning
rate of 0.05.
"""
MADE = """Friedman's first regression, made up, with interactions: 40,000 rows of 10 columns, 30% held out, five splits.
The last learner has 1,000 trees of four leaves and a learning rate of 0.05, picked on one split.
"""
MADE_LEARNERS = {
    "linear": None,
    "lightgbm": "lightgbm",
    "lightgbm of 200 small trees": SMALL,
    "lightgbm of 1,000 tiny trees": {
        "learner": "lightgbm",
        "num_leaves": 4,
        "learning_rate": 0.05,
        "n_estimators": 1000,
    },
}
COSTS = """What it costs on adult, seconds of processor time, medians of five, LightGBM with its default parameters,
`rate=0.22, balance=0.5`: learning the table in memory, forgetting one stored row in the file, the first prediction
after that, which trains, and verifying. On one thread.
"""


def adult(folder):
    """The table, its labels, and the features as LightGBM takes them."""
    raw = pd.read_csv(folder / "adult_raw.csv.gz").drop(columns=["fnlwgt"])
    plain = raw.drop(columns=["row_id", "salary"]).replace("?", np.nan)
    for name in plain.select_dtypes(exclude="number"):
        plain[name] = plain[name].astype("category")
    return raw, raw["salary"].to_numpy(), plain


def judged(chances, truth, share):
    return [share, accuracy_score(truth, chances > 0.5), roc_auc_score(truth, chances), log_loss(truth, chances)]


def learnt(raw, schema, rows, parameters):
    parameters = parameters | ({"class_shares": SHARES} if parameters.get("balance") else {})
    clf = ErasableClassifier(feature_map=schema, **parameters)
    return clf.fit(raw.iloc[rows], raw["salary"].to_numpy()[rows], ids=raw["row_id"].to_numpy()[rows])


def draft(raw, rows):
    return draft_schema(raw.iloc[rows], label="salary", id="row_id").schema


def on_adult(raw, labels, plain):
    """The table of all contestants."""
    found, y = {}, labels == ">50K"
    splits = StratifiedShuffleSplit(SPLITS, test_size=0.3, random_state=0).split(plain, y)
    for train, test in track(splits, "learners, adult", total=SPLITS, console=console, transient=True):
        schema = draft(raw, train)
        some = np.random.default_rng(0).permutation(train)[: round(0.2 * len(train))]
        for name, rows in (("LightGBM, all rows", train), ("LightGBM, 20% of the rows at random", some)):
            trees = LGBMClassifier(verbose=-1, n_jobs=1).fit(plain.iloc[rows], y[rows])
            chances = trees.predict_proba(plain.iloc[test])[:, 1]
            found.setdefault(name, []).append(judged(chances, y[test], len(rows) / len(train)))
        for name, parameters in OURS.items():
            clf = learnt(raw, schema, train, parameters)
            chances = clf.predict_proba(raw.iloc[test])[:, 1]
            found.setdefault(name, []).append(judged(chances, y[test], clf.n_core_ / len(train)))
    rows = []
    for name, values in found.items():
        (share, *means), (_, *spreads) = np.mean(values, axis=0), np.std(values, axis=0)
        figures = [f"{m:.4f} ({s:.4f})" for m, s in zip(means, spreads, strict=True)]
        rows.append([name, f"{100 * share:.1f}%", *figures])
    return table(["model", "stored", "accuracy", "AUC", "log-loss"], rows)


def on_made():
    """R² of the made regression."""
    X, y = make_friedman1(40_000, 10, noise=1.0, random_state=0)
    found = {}
    for train, test in ShuffleSplit(5, test_size=0.3, random_state=0).split(X):
        trees = LGBMRegressor(verbose=-1, n_jobs=1).fit(X[train], y[train])
        found.setdefault("LightGBM, all rows", []).append((1.0, r2_score(y[test], trees.predict(X[test]))))
        for name, learner in MADE_LEARNERS.items():
            reg = ErasableRegressor((-10, 40), selection="independent", rate=0.08, learner=learner, feature_map=None)
            reg.fit(X[train], y[train], ids=train)
            figures = reg.n_core_ / len(train), r2_score(y[test], reg.predict(X[test]))
            found.setdefault(f"ours, {name}, `rate=0.08`", []).append(figures)
    rows = [(n, f"{100 * np.mean(v, 0)[0]:.1f}%", f"{np.mean(v, 0)[1]:.4f}") for n, v in found.items()]
    return table(["model", "stored", "R²"], rows)


def costs(raw, labels):
    """Processor time of learning, forgetting one row, the first prediction after it, and verifying."""
    rows = np.arange(len(labels))
    schema = draft(raw, rows)
    parameters = OURS["ours, lightgbm, `rate=0.22, balance=0.5`"]
    times = {name: [] for name in ("learn", "forget one row", "first prediction", "verify")}

    def timed(name, call):
        start = time.process_time()
        found = call()
        times[name].append(time.process_time() - start)
        return found

    with tempfile.TemporaryDirectory() as folder:
        for k in range(5):
            path = Path(folder) / f"{k}.erasable"
            clf = timed("learn", lambda: learnt(raw, schema, rows, parameters))
            clf.save(path)
            file = ModelFile(path)
            file.predictor()  # in memory, as a service has it
            timed("forget one row", lambda file=file, clf=clf: file.forget(ids=[clf.core_ids_[k]]))  # noqa: B023
            model = load(path)
            timed("first prediction", lambda model=model: model.predict(raw.iloc[:10]))
            timed("verify", lambda model=model: verify(model))
    return table(list(times), [[f"{statistics.median(values):.2f}" for values in times.values()]])


def learners(options):
    """Quality and cost of learners on core rows."""
    parts = [INTRODUCTION]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if options.data:
            raw, labels, plain = adult(Path(options.data))
            parts += [on_adult(raw, labels, plain), COSTS, costs(raw, labels)]
        else:
            parts.append("Adult was not measured: it is in the folder that `--data` names.\n")
        parts += [MADE, on_made()]
    return "\n".join(parts)
