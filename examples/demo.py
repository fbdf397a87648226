"""Learn, forget, verify: the whole idea in one short run, on handwritten digits bundled with scikit-learn.

    python examples/demo.py [--out FOLDER]

A hundred people wrote 1,797 digits. A classifier learns to read them, ten people ask to be forgotten, and the state
that is left is compared, byte for byte, with that of a fresh model that learns the surviving core rows alone.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from erasable import ErasableClassifier, learn, verify

INK, RED, BLUE, GREY = "#1b1f24", "#c2402c", "#2f6f9f", "#c9ced6"
N_PEOPLE, N_LEAVING = 100, 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    out = parser.parse_args().out
    console = Console()

    # The data has no names, so people are drawn by lot: row i was written by people[i].
    X, y = load_digits(return_X_y=True)
    people = np.array([f"person-{k:02d}" for k in np.random.default_rng(0).integers(N_PEOPLE, size=len(X))])
    ids = np.arange(len(X))
    X, X_test, y, y_test, people, _, ids, _ = train_test_split(X, y, people, ids, test_size=0.3, random_state=0)
    row_of = {int(key): i for i, key in enumerate(ids)}
    table = Table("step", "rows stored", "accuracy", "took", "state digest", title="Learn, forget, verify")

    def timed(step, work):
        start = time.perf_counter()
        result = work()
        took = time.perf_counter() - start
        accuracy = f"{clf.score(X_test, y_test):.3f}"
        table.add_row(step, f"{clf.n_core_:,} of {len(X):,}", accuracy, f"{took * 1e3:.2f} ms", clf.state_digest()[:12])
        return result

    clf = ErasableClassifier(capacity=0.1, kappa=0.25)
    report = timed("learn", lambda: learn(clf, X, y, ids=ids, subjects=people))
    before = clf.core_ids_
    leaving = [f"person-{k:02d}" for k in range(N_LEAVING)]
    forgotten = timed(f"forget {N_LEAVING} people", lambda: clf.forget(subjects=leaving))
    verified = timed("verify", lambda: verify(clf))
    digest = clf.state_digest()

    kept = [row_of[int(key)] for key in clf.core_ids_]
    refit = clone(clf).set_params(threshold=clf.threshold_)
    refit.fit(X[kept], y[kept], ids=ids[kept], subjects=people[kept])
    same = refit.state_digest() == digest
    table.add_row(
        "fresh fit on survivors",
        f"{refit.n_core_:,}",
        f"{refit.score(X_test, y_test):.3f}",
        "",
        refit.state_digest()[:12],
    )
    console.print(table)
    levels = report.decisions
    console.print(
        f"{report.rows:,} rows met: {levels.screened + levels.certified:,} decided in floating point with a proof, "
        f"{levels.enclosed + levels.exact} in exact arithmetic."
    )
    console.print(f"{forgotten.core_rows_removed} core rows of {N_LEAVING} people left. {verified}")
    verdict = "byte for byte the state" if same else "NOT the state"
    console.print(f"[bold]{verdict}[/] of a fresh model that learnt the surviving core rows alone.")

    # Go on until almost everybody has left, checking the claim at every step.
    order = np.random.default_rng(1).permutation([f"person-{k:02d}" for k in range(N_LEAVING, N_PEOPLE)])
    curve = [(0, clf.n_core_, clf.score(X_test, y_test))]
    for k in track(range(0, 85, 5), description="more people leave", console=console, transient=True):
        clf.forget(subjects=order[k : k + 5])
        verify(clf)
        curve.append((k + 5, clf.n_core_, clf.score(X_test, y_test)))

    out.mkdir(parents=True, exist_ok=True)
    gone = [key for key in before.tolist() if people[row_of[key]] in leaving]
    draw(X, [row_of[int(key)] for key in before], {row_of[key] for key in gone}, curve, len(X), out / "demo.png")
    console.print(f"picture: {out / 'demo.png'}")
    if not same:
        raise SystemExit(1)


def draw(X, core, gone, curve, n_rows, path) -> None:
    """The core rows with those forgotten crossed out, and what happens as more people leave."""
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.edgecolor": GREY, "axes.labelcolor": INK})
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), width_ratios=(1.35, 1), layout="constrained")
    columns = 24
    lines = -(-len(core) // columns)
    canvas = np.full((lines * 10, columns * 10), np.nan)
    for k, i in enumerate(core):
        r, c = divmod(k, columns)
        canvas[r * 10 + 1 : r * 10 + 9, c * 10 + 1 : c * 10 + 9] = X[i].reshape(8, 8)
    left.imshow(canvas, cmap="Greys", vmin=0, vmax=20)
    for k, i in enumerate(core):
        if i in gone:
            r, c = divmod(k, columns)
            left.add_patch(plt.Rectangle((c * 10, r * 10), 9, 9, color=RED, alpha=0.85, lw=0))
            left.plot([c * 10 + 2, c * 10 + 7], [r * 10 + 2, r * 10 + 7], color="white", lw=1)
            left.plot([c * 10 + 2, c * 10 + 7], [r * 10 + 7, r * 10 + 2], color="white", lw=1)
    left.set_axis_off()
    left.set_title(
        f"All that is stored: {len(core)} of {n_rows:,} digits.\n{len(gone)} of them (red) belong to people who left.",
        loc="left",
    )
    left_people = [100 - N_LEAVING - k for k, _, _ in curve]
    right.plot(left_people, [a for _, _, a in curve], color=BLUE, lw=2, marker="o", ms=4)
    right.set_ylim(0, 1)
    right.set_xlim(N_PEOPLE - N_LEAVING + 2, 0)
    right.set_xlabel("people left in the model")
    right.set_ylabel("test accuracy")
    right.grid(color=GREY, lw=0.5, alpha=0.6)
    right.spines[["top", "right"]].set_visible(False)
    right.set_title("Forgetting goes on.\nAt every dot the state was verified, bit for bit.", loc="left")
    figure.savefig(path, dpi=130)
    plt.close(figure)


if __name__ == "__main__":
    main()
