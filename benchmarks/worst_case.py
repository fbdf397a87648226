"""The worst that people may do who choose what is deleted; requests that read the state first; and who is stored.

    python benchmarks/worst_case.py                    # Markdown for docs/audit.md: digits and Margin
    python benchmarks/worst_case.py --data DIR         # and NAME_{train,test,labels}.npz in DIR: retail600_kmeans2,
                                                       # and diabetes130 for who is stored

Deletions are of core rows only, in the worst order that was found: a greedy adversary who knows the rows that accuracy
is measured on, and deletes next those core rows whose absence hurts most, one hundredth of the core at a time.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.tools import console, table
from erasable import ErasableClassifier
from erasable.research.attacks.groups import kept_by_group
from erasable.research.controls import with_constant
from erasable.research.sets import load_bundled, make_margin
from erasable.tables import load_split

SHARES = (0.0, 0.05, 0.1, 0.25, 0.5, 0.75)
REQUESTS = 60


def data(name, folder=None):
    """Rows to learn and rows to test with, labels -1 and 1; of retail600, 4,000 and 2,000 are drawn."""
    if name == "retail600":
        split, rng = load_split(Path(folder) / "retail600_kmeans2_train.npz"), np.random.default_rng(0)
        found = []
        for part, n in ((split.train, 4000), (split.test, 2000)):
            at = np.sort(rng.permutation(part.n_rows)[:n])
            found += [part.numbers[at].toarray().astype(np.float64), np.asarray(part.y)[at]]
        return tuple(found)
    table = load_bundled() if name == "digits" else make_margin(20_000, 100)
    X, y = table.X, table.y
    at = np.random.default_rng(0).permutation(len(X))
    cut = int(0.8 * len(X))
    return X[at[:cut]], y[at[:cut]], X[at[cut:]], y[at[cut:]]


def names(folder):
    """The sets that can be had."""
    return ["digits", "margin", *(["retail600"] if folder else [])]


# -- deletions ---------------------------------------------------------------------------------------------------


def most_harmful(model, X, y, Xt, yt, wanted):
    """Core rows whose absence lowers the margins of rows near the boundary most, by one step each of ridge."""
    ids = model.core_ids_
    Z, s, T = with_constant(X[ids]), y[ids].astype(float), with_constant(Xt)
    A = 2.0 * model.capacity * np.eye(Z.shape[1]) + Z.T @ Z
    w = np.linalg.solve(A, Z.T @ s)
    margins = yt * (T @ w)
    pull = T.T @ (yt * np.exp(-np.clip(8.0 * np.abs(margins), 0.0, 50.0)))  # rows near the boundary count
    solved = np.linalg.solve(A, Z.T)
    leverage = np.einsum("ij,ji->i", Z, solved)
    harm = (pull @ solved) * (s - Z @ w) / np.maximum(1.0 - leverage, 1e-6)
    return ids[np.argsort(-harm)[:wanted]]


def deletions(X, y, Xt, yt, order):
    """Accuracy as core rows go, and milliseconds for one request with new weights."""
    model = ErasableClassifier(classes=[-1, 1], loss="squared", feature_map=None).fit(X, y)
    rng, core = np.random.default_rng(1), model.n_core_
    step, found, times = max(1, core // 100), [], []
    lined_up = {
        "core rows at random": rng.permutation(model.core_ids_),
        "core rows of one class first": model.core_ids_[np.argsort(y[model.core_ids_], kind="stable")],
    }.get(order)
    gone = 0
    for share in SHARES:
        while gone < share * core:
            chosen = lined_up is None
            leaving = most_harmful(model, X, y, Xt, yt, step) if chosen else lined_up[gone : gone + step]
            start = time.process_time()
            model.forget(ids=leaving[:1])
            model.coef_  # noqa: B018
            times.append(time.process_time() - start)
            model.forget(ids=leaving[1:])
            gone += len(leaving)
        found.append(model.score(Xt, yt))
    return core, found, 1e3 * float(np.median(times))


def deletions_table(folder):
    """Accuracy under each order of deletions."""
    rows = []
    for name in names(folder):
        sets = data(name, folder)
        console.log(name)
        for order in ("core rows at random", "core rows of one class first", "most harmful core rows first"):
            core, found, ms = deletions(*sets, order)
            rows.append([f"{name}, {core:,} core rows", order, *(f"{a:.3f}" for a in found), f"{ms:.2f} ms"])
    head = ["set", "order", *(f"{100 * s:.0f}% gone" for s in SHARES), "one request, weights included"]
    return table(head, rows)


# -- requests that depend on the model ---------------------------------------------------------------------------


def weightiest(model, X, y):
    """The stored row of the largest leverage."""
    Z = with_constant(X[model.core_ids_])
    A = 2.0 * model.capacity * np.eye(Z.shape[1]) + Z.T @ Z
    return np.argmax(np.einsum("ij,ji->i", Z, np.linalg.solve(A, Z.T)))


def surest(model, X, y):
    """The stored row that the model is surest of."""
    return np.argmax(y[model.core_ids_] * model.decision_function(X[model.core_ids_]))


def by_digest(model, X, y):
    """One that every bit of the state has a say in."""
    return int(model.state_digest()[:12], 16) % model.n_core_


def newest(model, X, y):
    """The row that was selected last."""
    return model.n_core_ - 1


CONFIGURATIONS = {
    "defaults": {},
    "and a sample of 10%": {"sample_rate": 0.1},
    "a sample of 10% alone": {"threshold": np.inf, "sample_rate": 0.1},
}


def adaptive(X, y, configuration):
    """After how many of the requests the state was, bitwise, that of learning its rows in order.

    Half of the rows are learnt; then rows leave that are chosen by the state, the four ways taking turns, and before
    each tenth of the requests a tenth of the other rows is learnt.
    """

    def fresh():
        return ErasableClassifier(order="given", classes=[-1, 1], **configuration, loss="squared", feature_map=None)

    first, rest = np.split(np.random.default_rng(4).permutation(len(X)), [len(X) // 2])
    model = fresh().fit(X[first], y[first], ids=first)
    later, same = iter(np.array_split(rest, 10)), 0
    for i in range(REQUESTS):
        if i % (REQUESTS // 10) == 0:
            some = next(later)
            model.partial_fit(X[some], y[some], ids=some)
        choose = (weightiest, surest, by_digest, newest)[i % 4]
        model.forget(ids=[model.core_ids_[choose(model, X, y)]])
        left = model.core_ids_
        same += fresh().fit(X[left], y[left], ids=left).state_digest() == model.state_digest()
    return same


def adaptive_table(folder):
    """Sequences of requests that read the state first."""
    rows = []
    for name in names(folder):
        X, y, _, _ = data(name, folder)
        console.log(name)
        for words, configuration in CONFIGURATIONS.items():
            rows.append([name, words, f"{adaptive(X, y, configuration)} of {REQUESTS}"])
    return table(["set", "ErasableClassifier", "states equal to learning the rows left, bit for bit"], rows)


# -- who is stored -----------------------------------------------------------------------------------------------


def groups(name, folder):
    """Rows, labels, and a group for each row that means something."""
    if name == "digits":
        table = load_bundled()
        X, y = table.X, table.y
        return X, y, "digit", load_digits(return_X_y=True)[1].astype(str)
    if name == "margin":
        table = make_margin(20_000, 100)
        X, y = table.X, table.y
        return X, y, "label", np.where(y > 0, "1", "-1")
    whole = load_split(Path(folder) / f"{name}_train.npz").train
    if name == "diabetes130":
        _, at, stays = np.unique(np.asarray(whole.subjects), return_inverse=True, return_counts=True)
        return whole.numbers, np.asarray(whole.y), "stays of the patient", banded(stays[at], "1", "2")
    return whole.numbers, np.asarray(whole.y), "items in the basket", banded(np.diff(whole.numbers.indptr), "1 to 2")


def banded(counts, *low):
    """Counts in words; bands start at what follows ``low``."""
    words = np.array([*low, "3 to 5", "6 to 10", "11 to 20", "more than 20"])
    return words[np.searchsorted([2, 3, 6, 11, 21][-len(words) + 1 :], counts, side="right")]


def groups_table(folder):
    """The share stored by group, with the interval of Clopper and Pearson."""
    rows = []
    for name in ("digits", "margin", *(("retail600_kmeans2", "diabetes130") if folder else ())):
        X, y, column, group = groups(name, folder)
        model = ErasableClassifier(loss="squared", feature_map=None).fit(X, y)
        overall = model.n_core_ / X.shape[0]
        for kept in kept_by_group(model.core_ids_.tolist(), range(X.shape[0]), group.tolist()):
            share = kept.share
            rows.append(
                [
                    f"{name}, {overall:.1%} stored",
                    f"{column}: {kept.group}",
                    f"{kept.offered:,}",
                    f"{share.value:.1%} ({share.low:.1%} to {share.high:.1%})",
                    f"{share.value / overall:.2f}×",
                ]
            )
    return table(["set", "group", "rows", "share stored (99% interval)", "of the average"], rows)


def worst_case(options):
    """The section: deletions, adaptive requests, who is stored."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        head = "## Worst cases\n\nCore rows leave in the worst order found (docs/audit.md); times are of the processor."
        return (
            f"{head}\n\n{deletions_table(options.data)}\n\n"
            f"Requests that read the state first:\n\n{adaptive_table(options.data)}\n\n"
            f"Who is stored:\n\n{groups_table(options.data)}\n"
        )


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", help="folder with real sets")
    print(worst_case(parser.parse_args()))


if __name__ == "__main__":
    main()
