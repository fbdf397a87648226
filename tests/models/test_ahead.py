"""Rows that are shown before they are learnt: to the model of all rows before them, bit for bit, without a trace."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone

from erasable import ErasableClassifier, verify
from erasable.core.names import keyed_hash
from tests.models.test_rounds import IDS, MODELS, OWNERS, N, X, Y, in_blocks

LATE = keyed_hash(list(IDS), 0) >= np.uint64(7 * 2**61)
IN_TURN = IDS[LATE][np.argsort(keyed_hash(list(IDS[LATE]), 0))]


class Seen:
    """What was shown: digests of the models, and ids of the rows."""

    def __init__(self):
        self.digests, self.ids, self.classes = [], [], []

    def __call__(self, model, rows):
        if len(model.core) and rows.X.dtype != object:
            model.predict(rows.X)  # solves weights, and changes nothing
        self.digests.append(model.snapshot().digest)
        self.ids.append(list(rows.ids))
        self.classes.append(rows.y.tolist())


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(("cuts", "budget"), [("one", 2**28), ("many", 2**28), ("many", 20_000)])
def test_the_last_eighth_is_shown_to_the_model_of_the_rows_before_it(name, cuts, budget):
    model, rows = MODELS[name]
    whole = clone(model).fit(rows, Y, ids=IDS, subjects=OWNERS)
    early = clone(model).fit(rows[~LATE], Y[~LATE], ids=IDS[~LATE], subjects=OWNERS[~LATE])
    clf, seen = clone(model), Seen()
    clf.learn_blocks(in_blocks(rows, cuts), budget_bytes=budget, ahead=seen)
    assert clf.state_digest() == whole.state_digest() == verify(clf).digest
    assert seen.digests == [early.state_digest()]
    shown = len(seen.ids[0])
    assert set(seen.ids[0]) == set(IN_TURN[:shown])
    assert shown == len(IN_TURN) or (budget == 20_000 and shown > 2)
    assert seen.classes[0] == [Y[IDS.tolist().index(i)] for i in seen.ids[0]]


def test_rows_that_were_there_before_stay_in_the_model_that_is_shown_others():
    clf, again = (ErasableClassifier(threshold=0.05).fit(X[:50], Y[:50], ids=IDS[:50]) for _ in range(2))
    seen, late = Seen(), LATE[50:]
    clf.learn_blocks([_part(slice(50, N))], ahead=seen)
    again.partial_fit(X[50:][~late], Y[50:][~late], ids=IDS[50:][~late])
    assert seen.digests == [again.state_digest()]


@pytest.mark.parametrize("cuts", ["one", "two", "many"])
def test_as_they_come_rows_are_shown_at_doublings(cuts):
    clf, seen = ErasableClassifier(threshold=0.05, order="given"), Seen()
    whole = clone(clf).fit(X, Y, ids=IDS, subjects=OWNERS)
    clf.learn_blocks(in_blocks(X, cuts), ahead=seen)
    assert clf.state_digest() == whole.state_digest()
    places = [IDS.tolist().index(ids[0]) for ids in seen.ids]
    assert places == {"one": [128, 256], "two": [128, 256], "many": []}[cuts]
    for place, digest, ids in zip(places, seen.digests, seen.ids, strict=True):
        early = clone(clf).fit(X[:place], Y[:place], ids=IDS[:place], subjects=OWNERS[:place])
        assert digest == early.state_digest()
        assert ids == IDS[place : place + len(ids)].tolist()


def _part(rows):
    from tests.models.test_rounds import Rows

    return Rows(X[rows], Y[rows], IDS[rows])
