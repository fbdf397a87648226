"""What a plan recommends or refuses follows from the figures that it prints."""

from __future__ import annotations

import re

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris

from erasable import ErasableClassifier
from erasable.errors import ConfigurationError
from erasable.operations.plan import EFFORTS, METRICS, Targets, plan
from erasable.operations.plan.candidates import stores_all
from erasable.operations.plan.rows import check_sample
from erasable.operations.plan.search import Planner


def noisy(n=1000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 5))
    return X, X[:, 0] + rng.standard_normal(n) > 0


def diabetes():
    X, y = load_diabetes(return_X_y=True)
    return {"X": X, "y": y, "target_range": (0, 400), "scaling": 0.5}


CASES = {
    "iris": ({"X": load_iris().data, "y": load_iris().target}, "accuracy", 0.01),
    "noise": (dict(zip("Xy", noisy(), strict=True)), "logloss", 0.02),
    "diabetes": (diabetes(), "r2", 0.02),
    "diabetes, in units": (diabetes(), "mae", 1.0),
}


@pytest.mark.parametrize("case", CASES)
def test_what_is_recommended_meets_the_targets_and_nothing_that_is_clearly_smaller_does(case):
    rows, metric, max_loss = CASES[case]
    found = plan(**rows, metric=metric, max_loss=max_loss, effort="quick")
    by, r = METRICS[metric], found.recommended

    def meets(c):
        lost = by.lost(c.value.mean, found.reference)
        half = by.lost(found.constant, found.reference) / 2
        return lost <= min(max_loss, half) and min(c.core_rows) >= 10

    assert meets(r)
    smaller = [c for c in found.candidates if c.stored_share < r.stored_share / 1.05]
    assert smaller
    assert not any(meets(c) for c in smaller)
    assert any(c.stored_rows == found.rows and meets(c) for c in found.candidates)  # to store all rows always does


@pytest.mark.parametrize("seed", range(2))
def test_without_a_limit_on_storage_a_loss_is_never_refused(seed):
    """On iris the best of a few candidates used to be refused by its own figures, for some seeds and not for others."""
    X, y = load_iris(return_X_y=True)
    found = plan(X, y, effort="quick", max_loss=0.001, random_state=seed, encoded=True)
    assert found.reference - found.recommended.value.mean <= 0.001
    everything = stores_all(found.recommended.parameters)
    assert everything == any("all rows are stored" in w for w in found.warnings)


@pytest.mark.parametrize("case", ["iris", "diabetes, in units"])
def test_a_refusal_follows_from_its_figures_and_what_it_proposes_does(case):
    rows, metric, _ = CASES[case]
    options = {**rows, "metric": metric, "effort": "quick", "max_stored": 0.08, "encoded": True}
    tiny = 0.01 if METRICS[metric].in_units else 0.0001
    with pytest.raises(ConfigurationError, match=r"max_loss=\S+ cannot be met with max_stored=0\.08") as refused:
        plan(**options, max_loss=tiny)
    text = str(refused.value)
    best, whole = (float(re.search(rf"{words} (\d+\.\d+)", text)[1]) for words in (r"there is", r"row stored it is"))
    assert METRICS[metric].lost(best, whole) > tiny
    storage = float(re.search(r"would do: max_stored=(\d+\.\d+)", text)[1])
    found = plan(**{**options, "max_stored": storage}, max_loss=tiny)
    assert 0.08 < found.recommended.stored_share <= storage
    proposed = re.search(r"or max_loss=(\d+\.\d+)", text)
    if proposed:
        found = plan(**options, max_loss=float(proposed[1]))
        assert found.recommended.stored_share <= 0.08
        assert METRICS[metric].lost(found.recommended.value.mean, found.reference) <= float(proposed[1])


def test_the_fewer_the_rows_the_more_often_they_are_divided():
    def divisions(n):
        sample = check_sample(*noisy(n), model=ErasableClassifier(feature_map=None))
        planner = Planner(
            sample, ErasableClassifier(feature_map=None), Targets(), EFFORTS["default"], 0, lambda *_: None
        )
        return planner.n_tried, planner.n_splits

    assert [divisions(n) for n in (150, 800, 2000, 12_000)] == [(10, 40), (6, 25), (5, 20), (1, 6)]
