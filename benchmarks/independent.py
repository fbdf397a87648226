"""Independent selection next to Algorithm 1 and all rows, at equal storage, and while rows leave."""

from __future__ import annotations

import warnings
from copy import deepcopy
from itertools import product
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, roc_auc_score

from benchmarks.sets import arrays
from benchmarks.tools import console, table
from erasable import ErasableClassifier
from erasable.core.grid import scale_rows
from erasable.operations.rendering import BLUE, GREY, RED, pyplot, save

ALPHA = 0.1
AS_THEY_ARE = {"feature_map": None, "loss": "logistic"}  # rows as they are: both selections see the same
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
    options = {"selection": "independent", "alpha": ALPHA, "scaling": scaling, **AS_THEY_ARE, **options}
    rate = share
    for _ in range(3):
        model = ErasableClassifier(rate=min(rate, 0.999), random_state=key, **options).fit(X, y)
        rate = min(0.999, rate * share * len(y) / max(1, model.n_core_))
    return model


def accuracy(folder):
    """Rows of the table."""
    for data in arrays(folder):
        console.log(data.name)
        figures = {}
        for train, test in data.splits(3):
            X, y, classes = data.X[train], data.y[train], np.unique(data.y)
            for key in KEYS:
                first = ErasableClassifier(alpha=ALPHA, scaling=data.scaling, random_state=key, **AS_THEY_ARE)
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
        console.log(data.name)
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


# -- deletions -----------------------------------------------------------------------------------------------------

THRESHOLD = 0.1
STEPS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHOWN = (0.0, 0.1, 0.5, 0.9)
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "img" / "deletions"
DELETIONS = f"""## Independent selection: deletions

The AUC on held-out rows of adult while rows leave, logistic head with alpha {ALPHA:g}. Leverage has the threshold
{THRESHOLD:g}; independent selection (moments, balance 0.5) stores as many rows. "Fresh" is a fit on all survivors with
the same settings; for independent selection it is the same state, byte for byte, which every point checks.
`docs/img/deletions.png` draws the curves.

"""


def rarest_first(X, grid):
    """Rows by their leverage against all rows, the highest first."""
    rows = scale_rows(X, grid)
    rows = rows.toarray() if hasattr(rows, "toarray") else rows
    inverse = np.linalg.inv(rows.T @ rows + 0.1 * np.eye(rows.shape[1]))
    return np.argsort(-np.einsum("ij,ij->i", rows @ inverse, rows))


def group(X):
    """The rows that have a value which about a third of the rows share."""
    X = X.toarray() if hasattr(X, "toarray") else np.asarray(X)
    j = int(np.argmin(np.abs((X != 0).mean(axis=0) - 1 / 3)))
    return np.flatnonzero(X[:, j] != 0)


def orders(X, model, rng):
    """For each way to delete, the rows in the order in which they leave."""
    return {
        "random rows": rng.permutation(len(X) if isinstance(X, np.ndarray) else X.shape[0]),
        "the stored rows first": rng.permutation(model.core_ids_),
        "the rarest rows first": rarest_first(X, model.model_.selection.grid),
        "one group (a third of the rows)": rng.permutation(group(X)),
    }


def curve(model, order, X, y, area):
    """Stored rows left and the areas after each step, of the model that forgot and of a fresh fit."""
    for share in STEPS:
        leaving = order[: int(share * len(order))]
        left = np.setdiff1d(np.arange(len(y)), leaving)
        after, fresh = deepcopy(model), clone(model).fit(X[left], y[left], ids=left)
        after.forget_quietly(ids=leaving)
        if model.selection == "independent":
            assert after.state_digest() == fresh.state_digest()
        yield len(leaving), after.n_core_, area(after), area(fresh)


def measured(folder):
    """Each selection's curves by the way to delete."""
    data = next(data for data in arrays(folder) if data.name == "adult")
    train, test = next(data.splits(1))
    X, y = data.X[train], data.y[train]

    def area(model):
        if len(model.classes_) < 2 or not model.n_core_:
            return 0.5
        return roc_auc_score(data.y[test], model.predict_proba(data.X[test])[:, 1])

    first = ErasableClassifier(selection="leverage", threshold=THRESHOLD, alpha=ALPHA, **AS_THEY_ARE).fit(X, y)
    public = {"moments": moments(X, first), "balance": 0.5, "class_shares": shares(y)}
    models = {"leverage": first, "independent": fitted(first.n_core_ / len(y), 0, X, y, data.scaling, public)}
    found = {}
    for name, model in models.items():
        for way, order in orders(X, model, np.random.default_rng(0)).items():
            console.print(name, way)
            found[way, name] = list(curve(model, order, X, y, area))
    return found


def draw(found):
    """One panel for each way to delete."""
    plt = pyplot()
    ways = list(dict.fromkeys(way for way, _ in found))
    figure, axes = plt.subplots(1, len(ways), figsize=(15, 4), layout="constrained", sharey=True)
    for axis, way in zip(axes, ways, strict=True):
        gone, _, after, fresh = zip(*found[way, "leverage"], strict=True)
        axis.plot(gone, fresh, "--", color=GREY, linewidth=1.4, label="leverage, fresh fit on all survivors")
        axis.plot(gone, after, "o-", color=BLUE, markersize=4, label="leverage, after forgetting")
        gone, _, after, _ = zip(*found[way, "independent"], strict=True)
        axis.plot(gone, after, "s-", color=RED, markersize=4, label="independent, after forgetting = fresh fit")
        axis.set_title(way, loc="left", fontsize=11)
        axis.set_xlabel("rows deleted")
        axis.xaxis.set_major_formatter(lambda v, _: f"{int(v):,}")
        axis.locator_params(axis="x", nbins=4)
    axes[0].set_ylabel("AUC on held-out rows")
    axes[0].set_ylim(0.78, 0.92)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False)
    save(plt, figure, PICTURE)
    PICTURE.with_suffix(".svg").unlink(missing_ok=True)


def independent_deletions(options):
    """The section; the picture is drawn, too."""
    if not options.data:
        return DELETIONS + "Not measured: it needs `--data`."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = measured(Path(options.data))
    draw(found)
    rows = []
    for (way, name), points in found.items():
        for share, (gone, stored, after, fresh) in zip(STEPS, points, strict=True):
            if share in SHOWN:
                rows.append([way, name, f"{gone:,} ({share:.0%})", f"{stored:,}", f"{after:.4f}", f"{fresh:.4f}"])
    rows.sort(key=lambda row: list(dict.fromkeys(w for w, _ in found)).index(row[0]))
    return DELETIONS + table(
        ["what leaves", "rows stored by", "deleted", "stored rows left", "AUC", "AUC, fresh"], rows
    )
