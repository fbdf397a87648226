"""Raw tables through a schema, against scikit-learn's fitted encoders: time, and what models make of the rows.

All sides run in one process, in turns, on one thread, and medians of processor time are compared.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
from sklearn.compose import ColumnTransformer
from sklearn.feature_extraction.text import HashingVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import accuracy_score, balanced_accuracy_score, log_loss, roc_auc_score
from sklearn.model_selection import StratifiedKFold, train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import KBinsDiscretizer, Normalizer, OneHotEncoder, StandardScaler, normalize
from threadpoolctl import threadpool_limits

from benchmarks.tools import processor_turns, table
from erasable import ErasableClassifier
from erasable.estimators import TableEncoder
from erasable.schemas import Category, Number, Schema, Text, draft_schema

HAS_SKRUB = importlib.util.find_spec("skrub") is not None
ROUNDS = 7
SPLITS = range(1, 7)
TIMES = 20  # how often the table is repeated
TEXTS = 20_000
ADULT_NUMBERS = ["age", "fnlwgt", "education-num", "capital-gain", "capital-loss", "hours-per-week"]
TITANIC = ["Pclass", "Sex", "Embarked"], ["Age", "SibSp", "Parch", "Fare"]


def timed(head, contestants):
    """The table of processor times."""
    medians = {name: statistics.median(times) for name, times in processor_turns(contestants, ROUNDS).items()}
    first = next(iter(medians.values()))
    return table(
        [head, "seconds", "times the first"], [(n, f"{t:.3f}", f"{t / first:.2f}") for n, t in medians.items()]
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
    return timed(
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
    vocabulary = np.array([f"word{i}" for i in range(20_000)])
    rank = np.minimum(rng.zipf(1.3, (TEXTS, 30)), len(vocabulary)) - 1
    lines = [" ".join(row) for row in vocabulary[rank]]
    schema = Schema([Text(name="t", words=(1, 1), places=1024)])
    characters = Schema([Text(name="t", characters=(3, 4), places=1024)])
    peer = HashingVectorizer(n_features=1024)
    short = HashingVectorizer(n_features=1024, analyzer="char", ngram_range=(3, 4))
    words = timed(
        f"{TEXTS:,} texts of 30 words",
        {"HashingVectorizer": lambda: peer.transform(lines), "Schema.encode": lambda: schema.encode({"t": lines})},
    )
    runs = timed(
        f"{TEXTS // 4:,} texts of 30 words, runs of 3 and 4 characters",
        {
            "HashingVectorizer": lambda: short.transform(lines[: TEXTS // 4]),
            "Schema.encode": lambda: characters.encode({"t": lines[: TEXTS // 4]}),
        },
    )

    return f"{words}\n{runs}"


def usual(categories, numbers):
    """What most people put in front of a logistic regression, fitted on rows."""
    return ColumnTransformer(
        [
            ("c", OneHotEncoder(handle_unknown="ignore"), categories),
            ("n", make_pipeline(SimpleImputer(strategy="median"), StandardScaler()), numbers),
        ]
    )


def skrub_models():
    """What skrub makes of a raw table, fitted on rows, in front of two linear models; nothing where it is not there."""
    if not HAS_SKRUB:
        return {}
    from skrub import tabular_pipeline

    return {
        "skrub's TableVectorizer, ridge": tabular_pipeline(RidgeClassifier()),
        "skrub's TableVectorizer, logistic regression": tabular_pipeline(LogisticRegression(max_iter=2000)),
    }


class Scored:
    """Figures of models on held-out rows, by name."""

    FIGURES = ("rows stored", "accuracy", "balanced accuracy", "AUC", "log-loss")

    def __init__(self):
        self.found = {}

    def add(self, name, model, X, y, train, test, turn):
        """Fit and score one; the figures of one turn are averaged first."""
        take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
        fitted, rows, truth = model.fit(take(train), y[train]), take(test), y[test]
        labels = fitted.predict(rows)
        probable = hasattr(fitted, "predict_proba")
        figures = (
            getattr(fitted, "n_core_", len(train)) / len(train),
            accuracy_score(truth, labels),
            balanced_accuracy_score(truth, labels),
            roc_auc_score(truth, fitted.decision_function(rows)),
            log_loss(truth, fitted.predict_proba(rows)) if probable else np.nan,
        )
        self.found.setdefault(name, {}).setdefault(turn, []).append(figures)

    def table(self, head, spread_of):
        """One line for each model, in the mean over turns; of one figure also the lowest and the highest turn."""
        rows, at = [], self.FIGURES.index(spread_of)
        for name, turns in self.found.items():
            figures = np.array([np.mean(each, axis=0) for each in turns.values()])
            cells = ["" if np.isnan(mean) else f"{mean:.4f}" for mean in figures.mean(axis=0)]
            cells[0] = f"{figures[:, 0].mean():.1%}"
            cells[at] += f" ({figures[:, at].min():.4f} to {figures[:, at].max():.4f})"
            rows.append([name, *cells])
        return table([head, *self.FIGURES], rows)


def quality_adult(adult):
    """Figures on held-out rows; drafts are made from the training rows of each split alone."""
    y, scored = adult["salary"].to_numpy(str), Scored()
    raw = adult.drop(columns=["salary", "row_id"])
    for seed in SPLITS:
        rows = train_test_split(np.arange(len(adult)), test_size=0.3, random_state=seed, stratify=y)
        schema = draft_schema(adult.iloc[rows[0]], label="salary", id="row_id").schema
        X = schema.encode(adult)[0]
        categories = [c.name for c in schema.features if isinstance(c, Category)]
        before = usual(categories, [n for n in ADULT_NUMBERS if n != "fnlwgt"])
        logistic = LogisticRegression(max_iter=2000)
        scored.add(
            "fitted one-hot and scaler, logistic regression", make_pipeline(before, logistic), adult, y, *rows, seed
        )
        for name, model in skrub_models().items():
            scored.add(name, model, raw, y, *rows, seed)
        scored.add("draft, logistic regression", logistic, X, y, *rows, seed)
        scored.add("draft, rows divided by their norms, logistic regression", logistic, normalize(X), y, *rows, seed)
        models = {
            "draft, ErasableClassifier, defaults": ErasableClassifier(feature_map=schema),
            "draft, ErasableClassifier, threshold 0.1": ErasableClassifier(threshold=0.1, feature_map=schema),
            "draft, ErasableClassifier, threshold 0.1, scaling=schema.bound": ErasableClassifier(
                threshold=0.1, feature_map=schema, scaling=schema.bound
            ),
            "draft, ErasableClassifier, threshold 0.06": ErasableClassifier(threshold=0.06, feature_map=schema),
            "draft, ErasableClassifier, threshold 0.06, squared loss": ErasableClassifier(
                threshold=0.06, feature_map=schema, loss="squared"
            ),
        }
        for name, model in models.items():
            scored.add(name, model, adult, y, *rows, seed)
    return scored.table(f"adult, 30% held out, {len(SPLITS)} splits", "AUC")


def quality_titanic(folder):
    """Figures of ten folds; drafts are made from the training rows of each fold alone."""
    typed = pd.read_csv(folder / "titanic_raw.csv")
    y, scored = typed["Survived"].to_numpy(), Scored()
    raw = typed.drop(columns=["Survived", "PassengerId"])
    for seed in SPLITS:
        for rows in StratifiedKFold(10, shuffle=True, random_state=seed).split(typed, y):
            encoder = TableEncoder(draft_schema(typed.iloc[rows[0]], label="Survived", id="PassengerId").schema)
            logistic = LogisticRegression(max_iter=2000)
            models = {
                "fitted one-hot and scaler, logistic regression": make_pipeline(usual(*TITANIC), logistic),
                **skrub_models(),
                "draft, logistic regression": make_pipeline(encoder, logistic),
                "draft, rows divided by their norms, logistic regression": make_pipeline(
                    encoder, Normalizer(), logistic
                ),
                "draft, ErasableClassifier, defaults": ErasableClassifier(feature_map=encoder),
                "draft, ErasableClassifier, every row stored, squared loss": ErasableClassifier(
                    threshold=1e-6, feature_map=encoder, loss="squared"
                ),
            }
            for name, model in models.items():
                scored.add(name, model, raw if "skrub" in name else typed, y, *rows, seed)
    return scored.table(f"titanic, ten folds, {len(SPLITS)} times", "accuracy")


def schema(options):
    """Raw tables through a schema against fitted encoders; the tables are among the further data sets."""
    text = "## Raw tables through a schema\n\n"
    if not options.data:
        return text + "Not measured: the tables are in the folder that `--data` names.\n"
    folder = Path(options.data)
    adult = pd.read_csv(folder / "adult_raw.csv.gz", na_values="?")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        drafted = draft_schema(adult, label="salary", id="row_id").schema
        took = time.process_time() - start
        parts = [encoding(adult, drafted), texts(), quality_adult(adult), quality_titanic(folder)]
    text += "Seconds of the processor, medians of turns on one thread. Encoders of scikit-learn are fitted before. "
    text += f"A draft for adult ({len(adult):,} rows) took {took:.2f} s. Drafts are used unedited. "
    said = "skrub's models are its `tabular_pipeline`: a fitted TableVectorizer, imputer and scaler before them."
    text += said if HAS_SKRUB else "Without skrub, which is not installed: its lines are missing."
    return f"{text}\n\n" + "\n".join(parts)
