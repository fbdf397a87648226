"""The game of one row: stores that forget badly are caught, ours is not, and what works against ours is told."""

from __future__ import annotations

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.research.attacks.one_row import one_row
from erasable.research.attacks.targets import TARGETS, Target, made
from erasable.research.controls import RidgeStore
from tests.research.attacks.cases import make_pool, play

NAMED = {
    "plain": "residue",
    "soft-delete": "row",
    "forgets-nothing": "row",
    "forgets-late": "row",
    "keeps-log": "row",
    "tombstone": "name",
}
OURS = [name for name, target in TARGETS.items() if target.ours]


def test_every_control_has_an_attack_that_names_it():
    assert set(NAMED) == {name for name, target in TARGETS.items() if target.control}


@pytest.mark.parametrize("name", NAMED)
def test_a_control_is_caught_by_the_attack_that_names_it(name):
    figures, _ = play(TARGETS[name])
    assert figures[NAMED[name]].power[0.01].value >= 0.95
    assert not figures[NAMED[name]].at_chance


@pytest.mark.parametrize("name", [*OURS, "retrained"])
def test_ours_shows_nothing_in_bits_memory_or_file(name):
    figures, game = play(TARGETS[name], trials=5)
    assert all(figures[attacker].tied for attacker in ("residue", "row", "name"))
    assert game.same_as_refit == game.trials == 5


def test_a_store_with_nothing_wrong_is_not_accused():
    figures, _ = play(Target("store", "RidgeStore", lambda seed: RidgeStore()), trials=8)
    assert all(figures[attacker].tied for attacker in ("residue", "row", "name", "selection"))


def test_newton_steps_are_seen_in_what_they_store():
    figures, game = play(TARGETS["newton"], trials=8)
    assert figures["residue"].power[0.01].value >= 0.95
    assert game.same_as_refit == 0


def test_snapshots_before_and_after_give_the_row_away():
    figures, game = play(TARGETS["linear"], trials=8)
    assert figures["snapshots"].power[0.01].value == figures["weights"].power[0.01].value == 1.0
    assert min(game.cosines) > 0.999


def test_rows_that_are_held_sparse_are_read_too():
    rng = np.random.default_rng(0)
    X = rng.random((240, 60)) * (rng.random((240, 60)) < 0.08)
    X[np.arange(240), np.arange(240) % 60] += 0.1
    target = Target("linear", "", lambda seed: ErasableClassifier(feature_map=None), ours=True)
    game = one_row(target, X, np.where(X[:, 0] > X[:, 1], 1, -1), 6)
    assert game.scores["snapshots"].left == [1.0] * 6  # it was found before
    assert game.scores["row"].left == [0.0] * 6


@pytest.mark.parametrize("name", ["linear", "sample", "independent", "independent, with moments"])
def test_selection_leaks_with_leverage_and_not_where_rows_are_chosen_one_by_one(name):
    X, y = make_pool(400)
    moments = np.full(X.shape[1], 1 / X.shape[1])
    target = TARGETS.get(name) or Target(
        name, "", made(ErasableClassifier, selection="independent", moments=moments), ours=True
    )
    leaks = sum(map(bool, one_row(target, X, y, 10).missing))
    assert leaks > 0 if name == "linear" else leaks == 0


def test_sums_that_look_like_a_row_are_no_presence_of_it():
    rng = np.random.default_rng(1)  # baskets of one or two things: of sums of few rows, many are in their directions
    X = np.zeros((200, 60))
    for row in X:
        row[rng.choice(60, size=rng.integers(1, 3), replace=False)] = 1.0
    target = Target(
        "linear", "", lambda seed: ErasableClassifier(threshold=np.inf, sample_rate=0.3, feature_map=None), ours=True
    )
    game = one_row(target, X, np.where(X[:, :30].any(axis=1), 1, -1), 12)
    assert game.scores["row"].left + game.scores["row"].decoy == [0.0] * 24
