"""Small sets and games for the tests of attacks."""

from __future__ import annotations

import numpy as np

from erasable.research.attacks.one_row import one_row
from erasable.research.attacks.suite import measure
from erasable.research.attacks.targets import Target


def make_pool(n: int = 240, d: int = 6, seed: int = 0):
    """Rows of norm one with labels -1 and 1 that a plane nearly separates."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    return X, np.where(X[:, 0] + 0.3 * rng.standard_normal(n) > 0, 1, -1)


def play(target: Target, trials: int = 20):
    """Figures of every attacker of the game of one row, and what came out of the game."""
    X, y = make_pool()
    game = one_row(target, X, y, trials)
    return {name: measure(*told.pairs()) for name, told in game.scores.items() if told.left}, game
