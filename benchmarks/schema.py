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
from sklearn.model_selection import StratifiedKFold, cross_val_score, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, OneHotEncoder, StandardScaler, normalize

from benchmarks.tools import table
from erasable import ErasableClassifier
from erasable.estimators import TableEncoder
from erasable.schemas import Category, Number, Schema, Text, draft_schema

ROUNDS = 7
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
    print()


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


def quality_adult(adult, schema):
    y = (adult["salary"] == ">50K").to_numpy()
    train, test = train_test_split(np.arange(len(adult)), test_size=0.3, random_state=0, stratify=y)
    categories = [c.name for c in schema.features if isinstance(c, Category)]
    X = schema.encode(adult)[0]
    rows = []

    def scored(name, model, data, stored="100%"):
        take = (lambda i: data.iloc[i]) if isinstance(data, pd.DataFrame) else (lambda i: data[i])
        fitted = model.fit(take(train), y[train])
        if stored is None:
            stored = f"{fitted.n_core_ / len(train):.1%}"
        rows.append((name, stored, f"{roc_auc_score(y[test], fitted.decision_function(take(test))):.4f}"))

    logistic = LogisticRegression(max_iter=2000)
    numbers = [n for n in ADULT_NUMBERS if n != "fnlwgt"]
    scored("fitted one-hot and scaler, logistic regression", make_pipeline(usual(categories, numbers), logistic), adult)
    scored("draft, logistic regression", logistic, X)
    scored(
        "draft, rows divided by their norms, logistic regression", LogisticRegression(C=10, max_iter=2000), normalize(X)
    )
    for threshold in (0.04, 0.05, 0.06):
        model = ErasableClassifier(threshold=threshold, feature_map=TableEncoder(schema))
        scored(f"draft, ErasableClassifier, threshold {threshold}", model, adult, None)
    print(table(["adult, 30% held out", "rows stored", "AUC"], rows))


def quality_titanic(folder):
    typed = pd.read_csv(folder / "titanic_raw.csv")
    y = typed["Survived"].to_numpy()
    schema = Schema.draft(typed, label="Survived", id="PassengerId")
    X = normalize(schema.encode(typed)[0])
    folds = StratifiedKFold(10, shuffle=True, random_state=0)
    logistic = LogisticRegression(max_iter=2000)
    models = {
        "fitted one-hot and scaler, logistic regression": (make_pipeline(usual(*TITANIC), logistic), typed),
        "draft, rows divided by their norms, logistic regression": (LogisticRegression(C=10, max_iter=2000), X),
        "draft, ErasableClassifier, threshold 1e-6": (
            ErasableClassifier(threshold=1e-6, feature_map=TableEncoder(schema)),
            typed,
        ),
    }
    rows = [(name, f"{cross_val_score(model, data, y, cv=folds).mean():.4f}") for name, (model, data) in models.items()]
    print(table(["titanic, ten folds", "accuracy"], rows))


def main(folder):
    warnings.simplefilter("ignore")
    folder = Path(folder)
    adult = pd.read_csv(folder / "adult_raw.csv.gz", na_values="?")
    start = time.process_time()
    schema = draft_schema(adult, label="salary", id="row_id").schema
    took = time.process_time() - start
    print("Seconds of the processor, medians of turns on one thread. Encoders of scikit-learn are fitted before.")
    print(
        f"The draft for adult ({len(adult):,} rows) took {took:.2f} s; it is used unedited, and so is that for titanic.\n"
    )
    encoding(adult, schema)
    texts()
    quality_adult(adult, schema)
    quality_titanic(folder)


if __name__ == "__main__":
    main(sys.argv[1])
