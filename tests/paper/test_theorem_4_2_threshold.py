"""Theorem 4.2 needs a fixed threshold: with ``T**-kappa`` and T the rows given, no core set selects itself again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from erasable.coresets import LeverageThreshold

SETS = 50
KAPPA = 0.2


def core(X: Any, T: int) -> list[int]:
    """Positions that Algorithm 1 selects with the threshold of T rows."""
    found = LeverageThreshold(T**-KAPPA, fit_intercept=False).select(X, np.zeros(len(X)), range(len(X)))
    return [int(i) for i in found]


@pytest.mark.parametrize("gone", [0, 1])
def test_a_core_set_selects_itself_again_only_with_t_frozen(gone: int) -> None:
    sizes, stable_as_printed, stable_with_t_frozen = [], 0, 0
    for seed in range(SETS):
        X = np.random.default_rng(seed).standard_normal((200, 5))  # each row is divided by its norm
        left = X[core(X, len(X))][gone:]
        again = core(left, len(left))
        sizes.append((len(left), len(again)))
        stable_as_printed += again == list(range(len(left)))
        stable_with_t_frozen += core(left, len(X)) == list(range(len(left)))
    assert (stable_as_printed, stable_with_t_frozen) == (0, SETS)
    if not gone:  # the figures of docs/departures.md
        assert np.mean(sizes, axis=0).round(1).tolist() == [15.6, 8.0]
