"""What the planner predicts against what a fit and a simulation with other seeds give on held-out rows."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
from rich.progress import track
from sklearn.datasets import load_diabetes, make_friedman1

from benchmarks.datasets import correlated
from benchmarks.tools import console, table
from erasable import ErasableClassifier, ErasableRegressor, plan
from erasable.operations.plan.deletions import deletable, simulate, survival
from erasable.operations.plan.rows import HeldOut, check_sample
from erasable.research.sets import load_bundled, make_margin
from erasable.tables import Table, load_split


def cases(folder):
    """Name, split, distribution, tolerated loss and targets of each case."""
    margin = make_margin(110_000).split(10_000, random_state=0)
    for distribution in ("uniform", "worst"):
        yield "Margin, 100,000 x 100", margin, distribution, 0.01, {}
    for seed in range(3):
        yield f"digits, two classes, split {seed}", load_bundled().split(0.3, random_state=seed), "uniform", 0.02, {}
    for name, (X, y), ends, scaling in (
        ("diabetes", load_diabetes(return_X_y=True), (0, 400), 0.5),
        ("friedman", make_friedman1(20_000, noise=1.0, random_state=0), (-10, 40), 3.0),
    ):
        targets = {"target_range": ends, "scaling": scaling}
        yield f"{name}, R²", Table(X, y).split(0.3, random_state=0), "uniform", 0.01, targets
    X, y = correlated(44_000, 200)
    yield "correlated, 40,000 x 200", Table(X, y.astype(int)).split(4_000, random_state=0), "uniform", 0.01, {}
    for path in sorted(Path(folder).glob("*_train.npz")) if folder else ():
        split = load_split(str(path))
        by_subject = split.train.subjects is not None
        targets = {} if by_subject else {"max_stored": 0.2}
        yield split.train.name, split, "subject" if by_subject else "uniform", 0.01, targets


def row(name, split, distribution, loss, targets, random_state):
    """One case: predicted and found, side by side."""
    train, test = split.train, split.test
    start = time.process_time()
    made = plan(
        train.X,
        train.y,
        subjects=train.subjects,
        distribution=distribution,
        max_loss=loss,
        random_state=random_state,
        **targets,
    )
    took = time.process_time() - start
    known = {"ErasableClassifier": ErasableClassifier, "ErasableRegressor": ErasableRegressor}
    recommended = eval(made.line, known)
    sample = check_sample(train.X, train.y, subjects=train.subjects, model=recommended)
    clf = recommended.fit(train.X, sample.y)
    classes = isinstance(clf, ErasableClassifier)
    held_out = HeldOut(test.X, np.searchsorted(np.unique(train.y), test.y) if classes else test.y)
    rngs = (np.random.default_rng([991 + random_state, k]) for k in range(6))
    by = made.targets.by
    runs = [simulate(clf, sample, held_out, distribution, metric=by, max_loss=loss, rng=rng) for rng in rngs]
    limit, unit = deletable(sample, distribution, clf.n_core_)
    found = survival(runs, max_loss=loss, limit=limit, unit=unit, horizon=sample.horizon, random_state=5)
    value = by.of(held_out.scores(clf))
    predicted = made.recommended
    off = "never reached"
    if made.survival.deletions is not None and found.deletions is not None:
        off = f"{100 * (made.survival.deletions / found.deletions - 1):+.0f}%"
    return [
        name,
        distribution,
        loss,
        f"`{made.line}`",
        f"{100 * predicted.stored_share:.3g}% / {100 * clf.n_core_ / train.n_rows:.3g}%",
        f"{by.text(predicted.value.mean)} / {by.text(value)}",
        f"{made.survival.text().split(' (')[0]} / {found.text().split(' (')[0]} ({off})",
        f"{took:.0f}",
    ]


def planning(options):
    """The planner's predictions against what happens."""
    text = "## Planner\n\nPlans made on the training rows; what they predict / what a fit on those rows gives on the "
    text += "test rows, deletions simulated with other seeds.\n\n"
    found = [
        row(*case, random_state=i)
        for i, case in enumerate(track(list(cases(options.data)), "planner", console=console))
    ]
    head = ["data", "deletions", "loss", "plan", "rows stored", "measure", "deletions until that loss", "processor s"]
    return text + table(head, found)
