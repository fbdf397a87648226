"""How good a regression on a core set is, beside ridge regression on all rows, on as many random rows, and the mean."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
from sklearn.datasets import load_diabetes, make_regression
from sklearn.linear_model import Ridge
from sklearn.metrics import mean_absolute_error, r2_score
from sklearn.model_selection import train_test_split

from benchmarks.tools import table
from erasable import ErasableRegressor, verify

SPLITS = 10


def hours(folder):
    """Hours worked a week from all columns of categories, one-hot, and public bins of age, of the adult table."""
    import pandas as pd

    with gzip.open(Path(folder, "adult_raw.csv.gz"), "rt", encoding="utf-8") as file:
        people = pd.read_csv(file, na_values="?")
    texts = people.select_dtypes(exclude="number").drop(columns="row_id")
    y = people["hours-per-week"].to_numpy(float)
    ages = pd.cut(people["age"], [0, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 200]).astype(str)
    X = pd.get_dummies(texts.assign(age_group=ages).fillna("missing")).to_numpy(float)
    return X, y


def cases(folder):
    """Name, rows, targets, their range as it is publicly known, the public scale of rows, and thresholds."""
    X, y = load_diabetes(return_X_y=True)
    yield "diabetes", X, y, (0.0, 400.0), 0.5, (0.06, 0.02)
    X, y = make_regression(20_000, 40, n_informative=20, noise=50.0, random_state=0)
    yield "made, 20,000 x 40", X, y, (-2000.0, 2000.0), 16.0, (0.06, 0.02)
    if folder is not None:
        X, y = hours(folder)
        yield f"adult, hours a week, {len(X):,} x {X.shape[1]}", X, y, (0.0, 100.0), 4.0, (0.2, 0.06)


def figures(y, predicted):
    """R squared and the mean absolute error."""
    return r2_score(y, predicted), mean_absolute_error(y, predicted)


def measured(X, y, ends, scale, threshold, seed):
    """One division of the rows: stored share, and the figures of ours, ridge on all, ridge on random rows, the mean."""
    X_train, X_test, y_train, y_test = train_test_split(X, y, test_size=0.3, random_state=seed)
    reg = ErasableRegressor(ends, threshold=threshold, scaling=scale, feature_map=None).fit(X_train, y_train)
    reg.forget(ids=reg.core_ids_[:1])
    verify(reg)
    drawn = np.random.default_rng(seed).permutation(len(X_train))[: reg.n_core_]
    ridges = [Ridge(0.02).fit(X_train[at] / scale, y_train[at]) for at in (slice(None), drawn)]
    others = [figures(y_test, ridge.predict(X_test / scale)) for ridge in ridges]
    mean = figures(y_test, np.full(len(y_test), y_train.mean()))
    return [reg.n_core_ / len(X_train), *figures(y_test, reg.predict(X_test)), *others[0], *others[1], *mean]


TEXT = """## Regression

`ErasableRegressor` with the default capacity, thresholds as said, targets on the grid of a publicly known range;
scikit-learn's `Ridge` with the same regulariser and scaling on all rows, and on as many random rows as the core set
holds. Mean of ten splits, 30% held out, after one core row was forgotten and the state verified. Adult: hours worked a
week from 116 one-hot columns (categories, public bins of age); most people work 40 hours, so that in absolute errors
little is to be gained over the mean."""
HEAD = ["rows", "threshold", "stored", "R², ours", "ridge, all rows", "ridge, as many random rows"]
HEAD += ["MAE, ours", "ridge, all rows", "random rows", "the mean"]


def regression(options):
    """Quality beside ridge regression, on public sets."""
    lines = []
    for name, X, y, ends, scale, thresholds in cases(options.data):
        for threshold in thresholds:
            found = np.mean([measured(X, y, ends, scale, threshold, seed) for seed in range(SPLITS)], axis=0)
            stored, r2, mae, r2_all, mae_all, r2_random, mae_random, _, mae_mean = found
            r2s, maes = (r2, r2_all, r2_random), (mae, mae_all, mae_random, mae_mean)
            figures_of = [*(f"{v:.4f}" for v in r2s), *(f"{v:.3f}" for v in maes)]
            lines.append([name, f"{threshold:g}", f"{stored:.1%}", *figures_of])
    return f"{TEXT}\n\n" + table(HEAD, lines)
