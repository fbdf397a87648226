"""A deleted row that is still there, in the last bits of the state: the attack that finds it, and a state without it.

    python examples/leak.py [--out FOLDER] [--trials 20]

Two models learn the same rows by Algorithm 1 and forget one of them. The first works in plain float64: sums A and b,
and A^-1 kept up to date by Sherman-Morrison. The second is ErasableClassifier. An attacker reads the state that is
left, surviving rows included, and holds ten candidates for the row that was deleted. The attack: learn the survivors
with a candidate in the gap, forget the candidate, and compare the outcome with the state bit by bit.

Every candidate is one that could have been there: it would have been selected, and so would every surviving row after
it. What the attacker learns, it learns from rounding errors alone.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.colors import LinearSegmentedColormap
from rich.console import Console
from rich.progress import track
from rich.table import Table

from erasable import ErasableClassifier

N_ROWS, N_FEATURES, N_CANDIDATES = 2000, 16, 10
CAPACITY, THRESHOLD = 1.0, 0.2
INK, RED, PALE = "#1b1f24", "#c2402c", "#cfe3f1"


class PlainModel:
    """Algorithm 1 as one would write it down: float64, Sherman-Morrison both ways."""

    def __init__(self) -> None:
        self.A = CAPACITY * np.eye(N_FEATURES)
        self.inverse = np.eye(N_FEATURES) / CAPACITY
        self.b = np.zeros(N_FEATURES)
        self.core: list[tuple[np.ndarray, float]] = []

    def learn(self, x: np.ndarray, y: float) -> bool:
        """Whether the row was selected."""
        z = self.inverse @ x
        leverage = x @ z
        if leverage <= THRESHOLD:
            return False
        self.A += np.outer(x, x)
        self.b += y * x
        self.inverse -= np.outer(z, z) / (1.0 + leverage)
        self.core.append((x, y))
        return True

    def forget(self, place: int) -> None:
        """Downdate everything by the core row in this place."""
        x, y = self.core.pop(place)
        z = self.inverse @ x
        self.A -= np.outer(x, x)
        self.b -= y * x
        self.inverse += np.outer(z, z) / (1.0 - x @ z)

    def state(self) -> dict[str, np.ndarray]:
        """What someone who reads the model sees, beside the core rows."""
        w = self.inverse @ self.b
        return {"A⁻¹": self.inverse, "A": self.A, "b": self.b, "w": w, "w, float32": w.astype(np.float32)}


def learn_plainly(rows, labels) -> PlainModel | None:
    """A model whose core set is all of these rows; None where one of them would not be selected."""
    model = PlainModel()
    return model if all(model.learn(x, y) for x, y in zip(rows, labels, strict=True)) else None


def learn_erasably(rows, labels, ids) -> ErasableClassifier:
    model = ErasableClassifier(
        CAPACITY, threshold=THRESHOLD, scaling=None, fit_intercept=False, classes=[-1.0, 1.0], order="given"
    )
    return model.fit(rows, labels, ids=ids)


def draw_rows(rng, n):
    """Rows inside the unit ball, with labels."""
    X = rng.standard_normal((n, N_FEATURES))
    X *= rng.uniform(0.9, 0.999, (n, 1)) / np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X[:, 0] + 0.2 * rng.standard_normal(n) > 0, 1.0, -1.0)


def attack(rng):
    """One trial: for each part of each state, the share of numbers that differ from it after replaying a candidate.

    Returns the shares, {part: array of N_CANDIDATES}, and which candidate is the deleted row.
    """
    X, y = draw_rows(rng, N_ROWS)
    core = learn_erasably(X, y, np.arange(N_ROWS)).core_ids_
    X, y, ids = X[core], y[core], np.arange(len(core))
    victim, truth = int(rng.integers(len(core))), int(rng.integers(N_CANDIDATES))

    plain = learn_plainly(X, y)
    if plain is None:  # a row so near the threshold that the models disagree about it: draw other rows
        return attack(rng)
    plain.forget(victim)
    left_plain = plain.state()
    erasable = learn_erasably(X, y, ids)
    erasable.forget(ids=[victim])
    left, weights = erasable.state_digest(), erasable.coef_
    survivors = np.delete(ids, victim)
    assert learn_erasably(X[survivors], y[survivors], survivors).state_digest() == left  # forget equals refit

    shares = {part: np.empty(N_CANDIDATES) for part in [*left_plain, "coef_", "digest"]}
    for k in range(N_CANDIDATES):
        while True:
            X_replay, y_replay = X.copy(), y.copy()
            if k != truth:
                X_replay[[victim]], y_replay[[victim]] = draw_rows(rng, 1)
            plain = learn_plainly(X_replay, y_replay)
            if plain is None:
                continue  # the survivors themselves rule this candidate out: draw another
            erasable = learn_erasably(X_replay, y_replay, ids)
            if erasable.n_core_ == len(ids):
                break
        plain.forget(victim)
        for part, numbers in plain.state().items():
            shares[part][k] = np.mean(numbers != left_plain[part])
        erasable.forget(ids=[victim])
        shares["coef_"][k] = np.mean(erasable.coef_ != weights)
        shares["digest"][k] = erasable.state_digest() != left
    return shares, truth


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("examples/output"), help="folder for the picture")
    parser.add_argument("--trials", type=int, default=20)
    arguments = parser.parse_args()
    console, rng, n = Console(), np.random.default_rng(0), arguments.trials
    trials = [attack(rng) for _ in track(range(n), description="attacking", console=console, transient=True)]

    table = Table("model", "what is read", "candidates that fit", "attacker right", title="Which row was deleted?")
    for part in trials[0][0]:
        ours = part in ("coef_", "digest")
        # The attacker takes the candidate that comes closest. Among equals it has to guess: these are expected hits.
        best = [(shares[part] == shares[part].min(), truth) for shares, truth in trials]
        right = sum(equals[truth] / equals.sum() for equals, truth in best)
        sizes = sorted({int(np.sum(shares[part] == 0.0)) for shares, _ in trials})
        size = f"{sizes[0]}" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]}"
        read = {"coef_": "w", "digest": "everything"}.get(part, part)
        table.add_row(
            "ErasableClassifier" if ours else "plain float64",
            read,
            f"{size} of {N_CANDIDATES}",
            f"{right:.1f} of {n}",
            style="bold" if ours else None,
            end_section=part == "w, float32",
        )
    console.print(table)
    console.print(f"Guessing blindly is right {n / N_CANDIDATES:.1f} times in {n}.")
    arguments.out.mkdir(parents=True, exist_ok=True)
    draw(trials, arguments.out / "leak.png")
    console.print(f"picture: {arguments.out / 'leak.png'}")


def draw(trials, path) -> None:
    """Two grids, trials by candidates: how far the replay of a candidate is from the state that was left."""
    plt.rcParams.update({"font.size": 10, "text.color": INK, "axes.labelcolor": INK})
    figure, axes = plt.subplots(1, 2, figsize=(9, 6.2), sharey=True, layout="constrained")
    colours = LinearSegmentedColormap.from_list("share", [PALE, "#f0d9d2", "#dd8f80", RED])
    titles = {
        "A⁻¹": "Plain float64, reading A⁻¹: one candidate fits.\nThe deleted row is recognised.",
        "digest": "ErasableClassifier, reading everything: all fit.\nNothing is left to recognise.",
    }
    for axis, (part, title) in zip(axes, titles.items(), strict=True):
        shares = np.array([s[part] for s, _ in trials])
        image = axis.imshow(shares, cmap=colours, vmin=0, vmax=1, aspect="auto")
        axis.scatter([truth for _, truth in trials], range(len(trials)), s=70, facecolor="none", edgecolor=INK, lw=1.4)
        axis.set_title(title, loc="left")
        axis.set_xlabel("candidate (a ring marks the deleted row)")
        axis.set_xticks(range(N_CANDIDATES), range(1, N_CANDIDATES + 1))
        axis.set_yticks(range(len(trials)), range(1, len(trials) + 1))
        axis.set_xticks(np.arange(-0.5, N_CANDIDATES), minor=True)
        axis.set_yticks(np.arange(-0.5, len(trials)), minor=True)
        axis.grid(which="minor", color="white", lw=1.5)
        axis.tick_params(which="both", length=0)
        axis.spines[:].set_visible(False)
    axes[0].set_ylabel("trial")
    bar = figure.colorbar(image, ax=axes, shrink=0.5, aspect=25, location="bottom", pad=0.02)
    bar.set_label("numbers in the state that a replay of the candidate does not reproduce")
    bar.ax.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    bar.outline.set_visible(False)
    figure.savefig(path, dpi=110)
    plt.close(figure)


if __name__ == "__main__":
    main()
