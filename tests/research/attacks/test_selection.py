"""What absent rows tell about one that left, against an oracle that learns again."""

from __future__ import annotations

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier
from erasable.research.attacks.inference import absences_explained, would_be_kept
from tests.research.attacks.cases import make_pool


def forgotten(seed):
    """A model that forgot a row, all rows and names, what is stored, what is absent, and the row."""
    X, y = make_pool(500, 6, seed)
    names = np.array([f"name {i}" for i in range(len(X))])
    offered = np.arange(400)
    model = ErasableClassifier(feature_map=None).fit(X[offered], y[offered], ids=names[offered])
    stored = np.array([int(name.split()[1]) for name in model.core_ids_])
    gone = int(np.random.default_rng(seed).choice(stored))
    model.forget(ids=[names[gone]])
    return model, X, y, names, stored[stored != gone], np.setdiff1d(offered, stored), gone


@pytest.mark.parametrize("seed", range(6))
def test_who_knows_all_rows_sees_what_learning_again_without_the_row_would_show(seed):
    model, X, y, names, stored, absent, gone = forgotten(seed)
    others = np.append(stored, absent)
    never = ErasableClassifier(feature_map=None).fit(X[others], y[others], ids=names[others])
    differs = set(never.core_ids_) != set(names[stored])
    ((found,),) = absences_explained(model, X, names, stored, [absent], [gone])
    assert (found > 0) == differs  # the first row that would be stored and is not is explained by the row that left


@pytest.mark.parametrize("seed", range(3))
def test_a_row_that_left_is_never_ruled_out_and_nothing_is_told_without_known_rows(seed):
    model, X, _, names, stored, absent, gone = forgotten(seed)
    assert absences_explained(model, X, names, stored, [absent], [gone])[0][0] >= 0
    decoys = list(range(400, 420))
    assert max(absences_explained(model, X, names, stored, [absent[:0]], [gone, *decoys])[0]) == 0


def test_where_nothing_was_forgotten_nothing_has_to_be_explained():
    X, y = make_pool(500)
    names = np.array([f"name {i}" for i in range(len(X))])
    model = ErasableClassifier(feature_map=None).fit(X[:400], y[:400], ids=names[:400])
    stored = np.array([int(name.split()[1]) for name in model.core_ids_])
    (told,) = absences_explained(model, X, names, stored, [np.setdiff1d(np.arange(400), stored)], range(400, 410))
    assert max(told) <= 0


def test_who_would_be_kept_is_who_is_kept_when_learnt_with_the_stored_rows():
    model, X, y, names, stored, _, _ = forgotten(0)
    decoys = np.arange(400, 430)
    told = would_be_kept(model, X, names, stored, decoys)
    for one in decoys:
        rows = np.append(stored, one)
        again = ErasableClassifier(feature_map=None).fit(X[rows], y[rows], ids=names[rows])
        assert (names[one] in again.core_ids_) == (one in told)
        out = set(names[stored]) - set(again.core_ids_)
        assert (absences_explained(model, X, names, stored, [stored[:0]], [one]) == [[-1.0]]) == bool(out)


def test_other_ways_to_select_are_left_alone():
    X, y = make_pool()
    names, some = np.arange(len(X)), np.arange(3)
    for model in (
        ErasableClassifier(order="given", feature_map=None),
        ErasableClassifier(threshold=np.inf, sample_rate=0.5, feature_map=None),
        ErasableKernelClassifier(),
    ):
        assert absences_explained(model.fit(X, y, ids=names), X, names, some, [some], [5]) is None
