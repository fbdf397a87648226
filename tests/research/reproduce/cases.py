"""A small experiment that takes a second."""

from __future__ import annotations

import numpy as np

from erasable.research.reproduce import Settings


def table_file(folder, n=400, d=5, seed=0, subjects=False):
    """A dense .npz file with two classes that a plane separates."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    y = np.where(X[:, 0] + 0.2 * X[:, 1] > 0.1, 1, -1)
    extra = {"subjects": np.array([f"p{i % 40}" for i in range(n)])} if subjects else {}
    path = folder / "small.npz"
    np.savez(path, X=X, y=y, **extra)
    return str(path)


def small(path, **changes):
    """Every step of an experiment, each once: ``quick`` trains one time and not three."""
    chosen = {"deletions": 60, "repeats": 1, "points": 3, "methods": ("erasable", "retrained"), "kappa": 0.4}
    return Settings(path, **{**chosen, "quick": True, "time_limit": 60.0, **changes})


def no_pictures(*_):
    """In place of ``draw_all``, which takes longer than a small experiment."""
    return {"accuracy": "<svg/>", "tradeoff": "<svg/>", "figure1": "<svg/>"}
