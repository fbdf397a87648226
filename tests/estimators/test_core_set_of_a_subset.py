"""Any learner on a random subset: what is left of the subset is all there ever was, also for a refit on all rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import event, given
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from erasable import CoreSetUnlearner
from erasable.core.fingerprint import fingerprint
from erasable.coresets import RandomSubsample
from erasable.errors import NoRowsError
from erasable.estimators.learners import selected_rows
from tests.research.baselines.cases import facts

contents = functools.partial(fingerprint, contents_only=True)
LEARNERS = {
    "ridge": RidgeClassifier(),
    "SGD": SGDClassifier(),
    "tree": DecisionTreeClassifier(max_features=1),
    "logistic": LogisticRegression(max_iter=1000),
    "neighbours": KNeighborsClassifier(1),
}
IDS = {"int": lambda i: 7 * i - 50, "str": lambda i: f"é{i}", "bytes": lambda i: b"\0%d" % i}


def make_rows(n=60, n_classes=3, random_state=0):
    X = np.random.default_rng(random_state).standard_normal((n, 3))
    return X, np.arange(n) % n_classes


def on_subset(fraction, learner="ridge", drawn=0):
    return CoreSetUnlearner(RandomSubsample(fraction, drawn), LEARNERS[learner])


def learnt(model):
    """All that a model has learnt, as values."""
    return {
        "classes": facts(model.classes_),
        "ids": facts(model.core_ids_),
        "features": model.n_features_in_,
        "rows": facts([selected_rows(model._model).rows, selected_rows(model._model).labels]),
        "learner": contents(model._model.cache["learner"]),
        "digest": model.state_digest() if model.n_core_ else None,
    }


# -- the law -------------------------------------------------------------------------------------------------------


@st.composite
def histories(draw):
    n, n_classes = draw(st.integers(1, 24)), draw(st.integers(1, 4))
    X, _ = make_rows(n, random_state=draw(st.integers(0, 3)))
    X = X.round(1).astype(draw(st.sampled_from([np.float32, np.float64])))
    X = draw(st.sampled_from([np.array, np.asfortranarray, sp.csr_array]))(X)
    labels = draw(st.sampled_from([np.arange(4), np.array(["a", "b", "c", "d"]), np.array([2.0, -1.0, 5.0, 0.0])]))
    y = labels[draw(st.lists(st.integers(0, n_classes - 1), min_size=n, max_size=n))]
    name = IDS[draw(st.sampled_from(sorted(IDS)))]
    core_set = RandomSubsample(draw(st.sampled_from([0.3, 0.6, 0.9, 1.0])), draw(st.integers(0, 5)))
    model = CoreSetUnlearner(core_set, LEARNERS[draw(st.sampled_from(sorted(LEARNERS)))])
    some = st.lists(st.integers(0, n - 1), max_size=n)
    a_class = st.sampled_from(y.tolist()).map(lambda c: [i for i in range(n) if y[i] == c])
    requests = draw(st.lists(st.one_of(some, a_class), min_size=1, max_size=3))
    return model, X, y, [name(i) for i in range(n)], requests


@given(histories())
def test_forgetting_equals_refitting_all_remaining_rows(history):
    model, X, y, ids, requests = history
    drawn = {ids[i] for i in model.core_set.select(X, y, ids).tolist()}
    if not drawn:
        event("none drawn")
        with pytest.raises(NoRowsError):
            model.fit(X, y, ids=ids)
        return
    model.fit(X, y, ids=ids)
    gone = set()
    for request in requests:
        asked = {ids[i] for i in request}
        report = model.forget(ids=[ids[i] for i in request])
        assert report.requested == len(asked)
        assert report.core_rows_removed == len(asked & drawn - gone)
        gone |= asked
        left = [i for i, key in enumerate(ids) if key not in gone]
        assert set(model.core_ids_.tolist()) == drawn - gone
        assert report.core_rows == model.stored_rows_ == len(drawn - gone)
        trained = report.core_rows_removed and len(model.classes_) > 1
        assert report.rows_retrained == (report.core_rows if trained else 0)
        if drawn - gone:
            assert learnt(model) == learnt(clone(model).fit(X[left], y[left], ids=[ids[i] for i in left]))
        else:
            event("nothing left")
            assert len(model.classes_) == 0
            with pytest.raises(NoRowsError):
                model.predict(X)


def test_the_learner_is_trained_on_the_subset_and_nothing_else():
    X, y = make_rows(200)
    model = on_subset(0.3).fit(X, y)
    subset = model.core_ids_.tolist()
    right = RidgeClassifier().fit(X[subset], y[subset])
    assert facts(model._model.cache["learner"].coef_) == facts(right.coef_)
    assert facts(model._model.cache["learner"].intercept_) == facts(right.intercept_)
    assert (model.predict(X) == right.predict(X)).all()
    model.forget(ids=subset[:5])
    right = RidgeClassifier().fit(X[subset[5:]], y[subset[5:]])
    assert facts(model._model.cache["learner"].coef_) == facts(right.coef_)


def test_when_none_is_drawn_the_message_says_what_to_do_and_the_old_model_stays():
    X, y = make_rows(100)
    model = on_subset(1e-9)
    with pytest.raises(NoRowsError, match=r"none of 3 rows.*keep more.*more rows"):
        model.fit(X[:3], y[:3])
    assert not model.__sklearn_is_fitted__()
    model = on_subset(0.3).fit(X, y)
    before, subset = learnt(model), set(model.core_ids_.tolist())
    outside = [i for i in range(100) if i not in subset][:3]
    with pytest.raises(NoRowsError):
        model.fit(X[outside][:, :2], y[outside], ids=outside)
    assert learnt(model) == before
