"""Independent selection next to Algorithm 1 and all rows, at equal storage.

make bench ARGS="--only independent --data DIR"
"""

from __future__ import annotations

import warnings
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.sets import arrays
from benchmarks.tools import table
from erasable import ErasableClassifier
from erasable.core.grid import scale_rows

ALPHA = 0.1
KEYS = (0, 1, 2)
LEVERAGE = "leverage (Algorithm 1)"
INTRODUCTION = f"""## Independent selection

Which rows are stored, at equal storage: Algorithm 1 at its default threshold sets it, and the rates of the others are
scaled to it. Logistic head with alpha {ALPHA:g}; three random splits with 30% of the rows held out (of diabetes130 by
patient), three keys each: mean (standard deviation). Moments are those of the training rows rounded
to powers of two, class shares too: a stand-in for public ones. AUC of two classes, otherwise accuracy. "All rows" is
`LogisticRegression(C=1 / alpha)` on all training rows, scaled alike.
"""

EXPONENTS = """
A public power of rarity: the chance of being kept is in proportion to it. About {share:.0%} of the rows are stored,
with the same draws for every power (a simulation: `LogisticRegression(C=1 / alpha)` on the rows drawn). AUC or accuracy
/ log-loss; three splits, three keys.

"""
SHARE = 0.1


def shares(y):
    """The share of each class, rounded to a power of two."""
    labels, counts = np.unique(y, return_counts=True)
    rounded = 2.0 ** np.round(np.log2(counts / counts.sum()))
    return dict(zip(labels.tolist(), rounded.tolist(), strict=True))


def moments(X, model):
    """Second moments of the columns of rows scaled as the model does, at least that of one row in the set."""
    rows = scale_rows(X, model.model_.selection.grid)
    squares = rows.multiply(rows).mean(axis=0) if hasattr(rows, "multiply") else np.square(rows).mean(axis=0)
    return np.maximum(np.asarray(squares).ravel(), 1.0 / (X.shape[0] * X.shape[1]))


def contestants(X, y, model):
    """Arguments by name."""
    found, of_class = moments(X, model), shares(y)
    yield "independent, uniform", {}
    yield "independent, moments", {"moments": found}
    for balance in (0.5, 1.0):
        yield (
            f"independent, moments, balance {balance:g}",
            {
                "moments": found,
                "balance": balance,
                "class_shares": of_class,
            },
        )
    yield "independent, uniform, balance 1", {"balance": 1.0, "class_shares": of_class}


def judged(y, P, classes):
    """AUC or accuracy, and log-loss."""
    P = np.clip(P, 1e-15, 1.0)
    first = roc_auc_score(y, P[:, 1]) if len(classes) == 2 else np.mean(classes[P.argmax(axis=1)] == y)
    return first, log_loss(y, P / P.sum(axis=1, keepdims=True), labels=classes)


def fitted(share, key, X, y, scaling, options):
    """A model that stores about this share of the rows: its rate is corrected once."""
    options = {"selection": "independent", "loss": "logistic", "alpha": ALPHA, "scaling": scaling, **options}
    rate = share
    for _ in range(3):
        model = ErasableClassifier(rate=min(rate, 0.999), random_state=key, **options).fit(X, y)
        rate = min(0.999, rate * share * len(y) / max(1, model.n_core_))
    return model


def accuracy(folder):
    """Rows of the table."""
    for data in arrays(folder):
        figures = {}
        for train, test in data.splits(3):
            X, y, classes = data.X[train], data.y[train], np.unique(data.y)
            for key in KEYS:
                first = ErasableClassifier(loss="logistic", alpha=ALPHA, scaling=data.scaling, random_state=key)
                first.fit(X, y)
                share = first.n_core_ / len(y)
                models = {LEVERAGE: first}
                for name, options in contestants(X, y, first):
                    models[name] = fitted(share, key, X, y, data.scaling, options)
                for name, model in models.items():
                    P = np.zeros((len(test), len(classes)))
                    P[:, np.searchsorted(classes, model.classes_)] = model.predict_proba(data.X[test])
                    figures.setdefault(name, []).append((model.n_core_ / len(y), *judged(data.y[test], P, classes)))
            grid = first.model_.selection.grid
            peer = LogisticRegression(C=1 / ALPHA, max_iter=2000).fit(scale_rows(X, grid) * grid.stretch, y)
            P = peer.predict_proba(scale_rows(data.X[test], grid) * grid.stretch)
            figures.setdefault("all rows", []).append((1.0, *judged(data.y[test], P, classes)))
        for name, found in figures.items():
            stored, first, loss = np.mean(found, axis=0)
            _, spread, spread_loss = np.std(found, axis=0)
            yield [data.name, name, f"{stored:.1%}", f"{first:.4f} ({spread:.4f})", f"{loss:.4f} ({spread_loss:.4f})"]


def exponents(folder):
    """Rows of the table of powers of rarity: 0 is uniform, 1 is the definition."""
    for data in arrays(folder):
        figures = {power: [] for power in (0.0, 0.5, 1.0)}
        for (train, test), key in product(data.splits(3), KEYS):
            X, y, classes = data.X[train], data.y[train], np.unique(data.y)
            rows, held_out = (scale_rows(part, data.grid) * data.grid.stretch for part in (X, data.X[test]))
            squares = rows.multiply(rows) if hasattr(rows, "multiply") else np.square(rows)
            found = np.maximum(np.asarray(squares.mean(axis=0)).ravel(), 1.0 / (X.shape[0] * X.shape[1]))
            rarity = squares @ (1.0 / 2.0 ** np.round(np.log2(found)))
            drawn = np.random.default_rng(key).random(len(y))
            for power in figures:
                chance = SHARE * rarity**power / np.mean(rarity**power)
                kept = drawn < chance
                if len(np.unique(y[kept])) == len(classes):
                    peer = LogisticRegression(C=1 / ALPHA, max_iter=2000).fit(rows[kept], y[kept])
                    figures[power].append(judged(data.y[test], peer.predict_proba(held_out), classes))
        if all(len(found) == len(figures[0.0]) for found in figures.values()):
            yield [data.name, *("{:.4f} / {:.4f}".format(*np.mean(found, axis=0)) for found in figures.values())]


def independent(options):
    """The section."""
    folder = Path(options.data) if options.data else None
    text = INTRODUCTION + "\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        text += table(["data", "rows stored by", "stored", "AUC or accuracy", "log-loss"], list(accuracy(folder)))
        text += EXPONENTS.format(share=SHARE) + table(
            ["data", "uniform", "square root", "rarity"], list(exponents(folder))
        )
    return text
