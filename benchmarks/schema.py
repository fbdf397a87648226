"""Raw tables through a schema, against scikit-learn's fitted encoders: time, and what models make of the rows.

Run it with ``python -m benchmarks.schema FOLDER``, a folder with ``adult_raw.csv.gz`` and ``titanic_raw.csv``; it
prints Markdown. All sides run in one process, in turns, on one thread, and medians of processor time are compared.
"""

from __future__ import annotations

import statistics
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, Normalizer, OneHotEncoder, StandardScaler, normalize

from benchmarks.tools import table
from erasable import ErasableClassifier
from erasable.estimators import TableEncoder
from erasable.schemas import Category, Number, Schema, Text, draft_schema

ROUNDS = 7
SPLITS = range(1, 7)
TIMES = 20  # how often the table is repeated
TEXTS = 20_000
ADULT_NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
TITANIC = ["Pclass", "Sex", "Embarked"], ["Age", "SibSp", "Parch", "Fare"]


def in_turns(contestants):
    """The median processor time of each."""
    times = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, call in contestants.items():
            start = time.process_time()
            call()
            times[name].append(time.process_time() - start)
    return {name: statistics.median(ts) for name, ts in times.items()}


def timed(head, contestants):
    medians = in_turns(contestants)
    first = next(iter(medians.values()))
    print(
        table([head, "seconds", "times the first"], [(n, f"{t:.3f}", f"{t / first:.2f}") for n, t in medians.items()])
    )


def encoding(adult, schema):
    """The same columns into the same kinds of features: one-hot categories, and bins."""
    categories = [c.name for c in schema.features if isinstance(c, Category)]
    numbers = [c.name for c in schema.features if isinstance(c, Number)]
    bins = KBinsDiscretizer(8, quantile_method="averaged_inverted_cdf")
    peer = ColumnTransformer([("c", OneHotEncoder(handle_unknown="ignore"), categories), ("n", bins, numbers)]).fit(
        adult
    )
    large = pd.concat([adult] * TIMES, ignore_index=True)
    arrow = pa.Table.from_pandas(large)
    texts = pa.table({n: c.cast(pa.string()) for n, c in zip(arrow.column_names, arrow.columns, strict=True)})
    timed(
        f"encoding {len(large):,} rows of {len(categories) + len(numbers)} columns",
        {
            "ColumnTransformer(OneHotEncoder, KBinsDiscretizer), pandas": lambda: peer.transform(large),
            "Schema.encode, pandas": lambda: schema.encode(large),
            "Schema.encode, Arrow": lambda: schema.encode(arrow),
            "Schema.encode, Arrow, all cells as text": lambda: schema.encode(texts),
        },
    )


def texts(seed=0):
    rng = np.random.default_rng(seed)
    words = np.array([f"word{i}" for i in range(20_000)])
    rank = np.minimum(rng.zipf(1.3, (TEXTS, 30)), len(words)) - 1
    lines = [" ".join(row) for row in words[rank]]
    schema = Schema([Text(name="t", words=(1, 1), places=1024)])
    characters = Schema([Text(name="t", characters=(3, 4), places=1024)])
    peer = HashingVectorizer(n_features=1024)
    short = HashingVectorizer(n_features=1024, analyzer="char", ngram_range=(3, 4))
    timed(
        f"{TEXTS:,} texts of 30 words",
        {"HashingVectorizer": lambda: peer.transform(lines), "Schema.encode": lambda: schema.encode({"t": lines})},
    )
    timed(
        f"{TEXTS // 4:,} texts of 30 words, runs of 3 and 4 characters",
        {
            "HashingVectorizer": lambda: short.transform(lines[: TEXTS // 4]),
            "Schema.encode": lambda: characters.encode({"t": lines[: TEXTS // 4]}),
        },
    )


def usual(categories, numbers):
    """What most people put in front of a logistic regression, fitted on rows."""
    return ColumnTransformer(
        [
            ("c", OneHotEncoder(handle_unknown="ignore"), categories),
            ("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        ]
    )


def averaged(scores, digits=4):
    return f"{np.mean(scores):.{digits}f} ({min(scores):.{digits}f} to {max(scores):.{digits}f})"


def quality_adult(adult):
    """Areas under the curve on held-out rows; drafts are made from the training rows of each split alone."""
    y = (adult["salary"] == ">50K").to_numpy()
    scores, stored = {}, {}

    def scored(name, model, X, rows):
        train, test = rows
        take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
        fitted = model.fit(take(train), y[train])
        scores.setdefault(name, []).append(roc_auc_score(y[test], fitted.decision_function(take(test))))
        stored.setdefault(name, []).append(getattr(fitted, "n_core_", len(train)) / len(train))

    for seed in SPLITS:
        rows = train_test_split(np.arange(len(adult)), test_size=0.3, random_state=seed, stratify=y)
        schema = Schema.draft(adult.iloc[rows[0]], label="salary", id="row_id")
        X = schema.encode(adult)[0]
        categories = [c.name for c in schema.features if isinstance(c, Category)]
        before = usual(categories, [n for n in ADULT_NUMBERS if n != "fnlwgt"])
        logistic = LogisticRegression(max_iter=2000)
        scored("fitted one-hot and scaler, logistic regression", make_pipeline(before, logistic), adult, rows)
        scored("draft, logistic regression", logistic, X, rows)
        scored("draft, rows divided by their norms, logistic regression", logistic, normalize(X), rows)
        for threshold in (0.04, 0.06, 0.08):
            model = ErasableClassifier(threshold=threshold, feature_map=TableEncoder(schema))
            scored(f"draft, ErasableClassifier, threshold {threshold}", model, adult, rows)
        for threshold in (0.06, 0.1, 0.15):
            model = ErasableClassifier(loss="logistic", threshold=threshold, feature_map=TableEncoder(schema))
            scored(f"draft, ErasableClassifier, logistic, threshold {threshold}", model, adult, rows)
        bound = ErasableClassifier(loss="logistic", threshold=0.1, feature_map=schema, scaling=schema.bound)
        scored("draft, ErasableClassifier, logistic, threshold 0.1, scaling=schema.bound", bound, adult, rows)
    head = [f"adult, 30% held out, {len(SPLITS)} splits", "rows stored", "AUC: mean (lowest to highest)"]
    print(table(head, [(name, f"{np.mean(stored[name]):.1%}", averaged(found)) for name, found in scores.items()]))


def quality_titanic(folder):
    """Accuracies of ten folds; drafts are made from the training rows of each fold alone."""
    typed = pd.read_csv(folder / "titanic_raw.csv")
    y = typed["Survived"].to_numpy()
    scores = {}
    for seed in SPLITS:
        found = {}
        for train, test in StratifiedKFold(10, shuffle=True, random_state=seed).split(typed, y):
            encoder = TableEncoder(Schema.draft(typed.iloc[train], label="Survived", id="PassengerId"))
            logistic = LogisticRegression(max_iter=2000)
            models = {
                "fitted one-hot and scaler, logistic regression": make_pipeline(usual(*TITANIC), logistic),
                "draft, logistic regression": make_pipeline(encoder, logistic),
                "draft, rows divided by their norms, logistic regression": make_pipeline(
                    encoder, Normalizer(), logistic
                ),
                "draft, ErasableClassifier, every row stored": ErasableClassifier(threshold=1e-6, feature_map=encoder),
                "draft, ErasableClassifier, logistic": ErasableClassifier(
                    loss="logistic", alpha=0.1, feature_map=encoder
                ),
            }
            for name, model in models.items():
                fitted = model.fit(typed.iloc[train], y[train])
                found.setdefault(name, []).append(fitted.score(typed.iloc[test], y[test]))
        for name, folds in found.items():
            scores.setdefault(name, []).append(np.mean(folds))
    head = [f"titanic, ten folds, {len(SPLITS)} times", "accuracy: mean (lowest to highest)"]
    print(table(head, [(name, averaged(found)) for name, found in scores.items()]))


def main(folder):
    warnings.simplefilter("ignore")
    folder = Path(folder)
    adult = pd.read_csv(folder / "adult_raw.csv.gz", na_values="?")
    start = time.process_time()
    schema = draft_schema(adult, label="salary", id="row_id").schema
    took = time.process_time() - start
    print("Seconds of the processor, medians of turns on one thread. Encoders of scikit-learn are fitted before.")
    print(f"A draft for adult ({len(adult):,} rows) took {took:.2f} s. Drafts are used unedited.\n")
    encoding(adult, schema)
    texts()
    quality_adult(adult)
    quality_titanic(folder)


if __name__ == "__main__":
    main(sys.argv[1])
