"""What deletions cost with each selection, next to fresh fits on the survivors: docs/img/deletions.png.

make bench ARGS="--only independent_deletions --data DIR"
"""

from __future__ import annotations

import warnings
from copy import deepcopy
from pathlib import Path

import numpy as np
from sklearn.base import clone
from sklearn.metrics import roc_auc_score

from benchmarks.independent import fitted, moments, shares
from benchmarks.sets import arrays
from benchmarks.tools import console, table
from erasable import ErasableClassifier
from erasable.core.grid import scale_rows
from erasable.operations.rendering import BLUE, GREY, RED, pyplot, save

THRESHOLD, ALPHA = 0.1, 0.1
STEPS = (0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
SHOWN = (0.0, 0.1, 0.5, 0.9)
PICTURE = Path(__file__).resolve().parent.parent / "docs" / "img" / "deletions"
INTRODUCTION = f"""## Independent selection: deletions

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

    first = ErasableClassifier(selection="leverage", threshold=THRESHOLD, loss="logistic", alpha=ALPHA).fit(X, y)
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
        return INTRODUCTION + "Not measured: it needs `--data`."
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
    return INTRODUCTION + table(
        ["what leaves", "rows stored by", "deleted", "stored rows left", "AUC", "AUC, fresh"], rows
    )
