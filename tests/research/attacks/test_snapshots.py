"""Snapshots before and after: what vanished is the row, where rows are stored, and weights give it by a formula."""

from __future__ import annotations

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier
from erasable.research.attacks.inference import best_of_what_vanished, cosine, row_from_weights, weights_of
from erasable.research.attacks.reading import read
from erasable.research.attacks.targets import TARGETS
from tests.research.attacks.cases import make_pool, play

STILL_THERE = ("soft-delete", "keeps-log", "forgets-nothing", "forgets-late")  # see (b)
BY_FORMULA = ("linear", "regressor", "sample", "general", "retrained", "plain")  # of the squared loss


@pytest.mark.parametrize("name", TARGETS)
def test_the_row_is_read_from_the_state_before_and_computed_from_the_weights(name):
    figures, game = play(TARGETS[name], trials=4)
    assert game.trials == len(game.cosines) == 4
    assert game.plain == (0 if name in STILL_THERE else 4)
    assert name in STILL_THERE or figures["snapshots"].auc.value == 1.0
    assert name not in BY_FORMULA or min(game.cosines) > 0.99
    if name.startswith("forgets-"):
        assert figures["snapshots"].tied  # nothing changed, so nothing vanished


def test_weights_of_a_kernel_give_the_row_by_its_distances():
    X, y = make_pool(120)
    found = []
    for gone in range(8):
        model = ErasableKernelClassifier(gamma=2.0).fit(X, y)
        name = model.core_ids_[gone]
        before = weights_of(model)
        model.forget(ids=[name])
        found.append(cosine(row_from_weights(before, model, X, "kernel"), X[name]))
    assert min(found) > 0.99
    assert cosine(row_from_weights(before[:-3], model, X, "kernel"), X[0]) == 0.0  # another model's weights


@pytest.mark.parametrize("parameters", [{"capacity": 5.0}, {"capacity": 1.0, "fit_intercept": False}])
def test_the_formula_is_that_of_the_parameters_of_the_model(parameters):
    X, y = make_pool(200)
    X = X / np.linalg.norm(X, axis=1, keepdims=True)
    model = ErasableClassifier(threshold=0.01, loss="squared", **parameters, feature_map=None).fit(X, y)
    name = model.core_ids_[3]
    before = weights_of(model)
    model.forget(ids=[name])
    assert cosine(row_from_weights(before, model, X[model.core_ids_], "squared"), X[name]) > 0.999


def test_only_what_is_gone_counts():
    rows = np.eye(4)
    before, after = read({"rows": rows}), read({"rows": rows[1:]})
    assert best_of_what_vanished(before, after, rows[0]) == 1.0
    assert best_of_what_vanished(before, after, rows[1]) == 0.0
    assert best_of_what_vanished(before, after, rows[0] + rows[1]) == pytest.approx(0.5**0.5)
    assert best_of_what_vanished(read({"was": rows[0].tobytes()}), after, rows[0]) == 1.0
