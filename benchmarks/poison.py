"""What somebody can do who may send rows: to the core set, and to accuracy beside ridge regression on all rows.

    python benchmarks/poison.py                        # Markdown for docs/audit.md: digits and Margin
    python benchmarks/poison.py --data DIR             # and retail600_kmeans2_{train,test,labels}.npz in DIR

The sender knows all rows that are learnt, the parameters and, where it says so, the key of the order: ids can then be
chosen whose turn comes first. The rows that accuracy is measured on are not known.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from pathlib import Path

import numpy as np
from sklearn.linear_model import RidgeClassifier

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.poison_rows import ascending_rows, crowding_rows, early_ids
from benchmarks.tools import console, table
from benchmarks.worst_case import data, names
from erasable import ErasableClassifier
from erasable.research.controls import with_constant

SHARES = (0.01, 0.05)
SPREADS = (0.0, 0.1, 0.2, 0.4, 0.7, 1.0)
RIDGE = 0.02  # the default capacity; for rows of norm sqrt 2, twice that
THRESHOLD = 0.06  # the default


def genuine_turned(X, y, core, m, rng):
    """Rows like the others, with wrong labels."""
    at = rng.permutation(len(X))[:m]
    return X[at], -y[at]


def random_directions(X, y, core, m, rng):
    """Rows unlike the others, with labels against the weights."""
    w = ridge(with_constant(X), y)
    P = rng.standard_normal((m, X.shape[1]))
    return P, np.where(with_constant(P) @ w > 0, -1, 1)


def along_the_weights(X, y, core, m, rng):
    """New directions that lean on the weights, with labels against them."""
    w = ridge(with_constant(X), y)[:-1]
    P = rng.standard_normal((m, X.shape[1]))
    P /= np.linalg.norm(P, axis=1, keepdims=True)
    P += rng.choice([-1, 1], m)[:, None] * w / np.linalg.norm(w)
    return P, np.where(P @ w > 0, -1, 1)


def crowding(X, y, core, m, rng):
    """Rows that take most leverage from others."""
    return crowding_rows(X, y, core, m, capacity=RIDGE, threshold=THRESHOLD)


def against_ridge(X, y, core, m, rng):
    """Gradient ascent against ridge regression on all rows."""
    return ascending_rows(X, y, np.arange(len(X)), m, capacity=RIDGE)


def against_ours(X, y, core, m, rng):
    """Gradient ascent against ridge regression on the core set."""
    return ascending_rows(X, y, core, m, capacity=RIDGE)


UNKNOWN = 2**127 + 1  # stands for a key that was drawn; the sender takes it for 0
ATTACKS = {  # and whether ids are chosen by the key 0, and the key of the model
    "genuine rows, labels turned": (genuine_turned, False, 0),
    "random directions": (random_directions, False, 0),
    "new directions along the weights": (along_the_weights, False, 0),
    "crowding out": (crowding, False, 0),
    "crowding out, ids chosen by the key": (crowding, True, 0),
    "crowding out, ids chosen by another key than the model's": (crowding, True, UNKNOWN),
    "gradient ascent against ridge on all rows": (against_ridge, False, 0),
    "gradient ascent against the core set": (against_ours, False, 0),
    "gradient ascent against the core set, ids chosen by the key": (against_ours, True, 0),
    "gradient ascent against the core set, ids chosen by another key than the model's": (against_ours, True, UNKNOWN),
}


def ridge(Z, y):
    """Weights of ridge regression as all of these have it."""
    return np.linalg.solve(2.0 * RIDGE * np.eye(Z.shape[1]) + Z.T @ Z, Z.T @ y)


def best_spread(X, P, labels, ids, key):
    """Rows of one direction keep each other out: the sender spreads them as far as hurts most, in a rehearsal."""
    noise = with_constant(np.random.default_rng(5).standard_normal(P.shape))[:, :-1]
    tried = [P + spread * noise for spread in SPREADS]
    y = labels[: len(X)]
    scores = [
        ErasableClassifier(classes=[-1, 1], random_state=key, loss="squared", feature_map=None)
        .fit(np.vstack([X, Q]), labels, ids=ids)
        .score(X, y)
        for Q in tried
    ]
    return tried[int(np.argmin(scores))]


def poisoned(sets, kind, share):
    """Shares kept of the poison and of the others, its part of the core set, and both accuracies."""
    X, y, Xt, yt, core = sets
    make, early, key = ATTACKS[kind]
    m = max(1, round(share * len(X)))
    P, s = make(X, y, core, m, np.random.default_rng(2))
    ids = np.append(np.arange(len(X)), early_ids(len(X), m, key=0) if early else np.arange(len(X), len(X) + m))
    labels = np.append(y, s)
    if make is against_ours:
        P = best_spread(X, P, labels, ids, key=0 if early else 1)
    rows = np.vstack([X, P])
    model = ErasableClassifier(classes=[-1, 1], random_state=key, loss="squared", feature_map=None).fit(
        rows, labels, ids=ids
    )
    kept = int((model.core_ids_ >= len(X)).sum())
    other = RidgeClassifier(RIDGE).fit(with_constant(rows)[:, :-1], labels)
    return (
        kept / m,
        (model.n_core_ - kept) / len(X),
        kept / model.n_core_,
        model.score(Xt, yt),
        other.score(with_constant(Xt)[:, :-1], yt),
    )


def rows_of(name, folder=None):
    """Lines of the table for one set; the first is without poison."""
    X, y, Xt, yt = data(name, folder)
    clean = ErasableClassifier(classes=[-1, 1], loss="squared", feature_map=None).fit(X, y)
    plain = RidgeClassifier(RIDGE).fit(with_constant(X)[:, :-1], y).score(with_constant(Xt)[:, :-1], yt)
    found = [
        [name, "nothing", "", "", f"{clean.n_core_ / len(X):.1%}", "", f"{clean.score(Xt, yt):.3f}", f"{plain:.3f}"]
    ]
    for kind in ATTACKS:
        console.log(f"{name}, {kind}")
        for share in SHARES:
            kept, others, part, ours, theirs = poisoned((X, y, Xt, yt, clean.core_ids_), kind, share)
            found.append(
                [
                    "",
                    kind,
                    f"{share:.0%}",
                    f"{kept:.0%}",
                    f"{others:.1%}",
                    f"{part:.1%}",
                    f"{ours:.3f}",
                    f"{theirs:.3f}",
                ]
            )
    return found


def filled(name, folder=None):
    """How much of what is sent is stored, and what becomes of rows that come later, where one sends only new rows."""
    X, y, Xt, yt = data(name, folder)
    d, rng = X.shape[1] + 1, np.random.default_rng(3)
    sent = 10 * len(X)
    P = rng.standard_normal((sent, X.shape[1]))
    model = ErasableClassifier(classes=[-1, 1], loss="squared", feature_map=None).fit(
        P, rng.choice([-1, 1], sent), ids=np.arange(len(X), len(X) + sent)
    )
    full = model.n_core_
    model.partial_fit(X, y, ids=np.arange(len(X)))
    genuine = model.n_core_ - full
    most = full
    for _ in range(200):  # N log(1 + threshold) <= d log(1 + N / (d capacity)): the determinant grows by each row kept
        most = d * np.log1p(most / (d * RIDGE)) / np.log1p(THRESHOLD)
    first = ErasableClassifier(classes=[-1, 1], loss="squared", feature_map=None).fit(X, y, ids=np.arange(len(X)))
    own = set(first.core_ids_.tolist())
    first.partial_fit(P, rng.choice([-1, 1], sent), ids=np.arange(len(X), len(X) + sent))
    lost = len(own - set(first.core_ids_.tolist()))
    return [
        name, f"{sent:,}", f"{full:,}", f"{int(most):,}", f"{genuine / len(X):.1%}", f"{len(own) / len(X):.1%}",
        f"{model.score(Xt, yt):.3f}", f"{lost}", f"{first.score(Xt, yt):.3f}",
    ]  # fmt: skip


def poison(options):
    """The section: what is kept of poison, what it does, and what a flood of rows does."""
    sets = names(options.data)
    head = [
        "set", "what is sent", "of all rows", "kept of it", "kept of the others", "its part of the core", "accuracy",
        "ridge on all rows",
    ]  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        first = table(head, [row for name in sets for row in rows_of(name, options.data)])
        head = [
            "set", "random rows sent", "stored of them", "at most", "others kept after them", "without them",
            "accuracy then", "others evicted where they came first", "accuracy then",
        ]  # fmt: skip
        second = table(head, [filled(name, options.data) for name in sets])
    text = (
        "## Poison\n\nRows sent by somebody who means harm, in one call with the others; then a flood of random ones "
    )
    text += "in a call of its own, before or after them (docs/audit.md)."
    return f"{text}\n\n{first}\n\n{second}\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with real sets")
    print(poison(parser.parse_args()))


if __name__ == "__main__":
    main()
