"""Theorem 3.1 as properties: for any rows, core set and requests, forgetting is training on what survives."""

from __future__ import annotations

import functools

import numpy as np
from hypothesis import event, given, settings
from hypothesis import strategies as st
from sklearn.base import clone
from sklearn.neighbors import KNeighborsClassifier
from sklearn.tree import DecisionTreeClassifier

from erasable import ErasableClassifier, verify
from erasable.core.fingerprint import fingerprint
from erasable.coresets import LeverageThreshold, RandomSubsample
from erasable.errors import NoRowsError
from erasable.estimators.core_set import CoreSetUnlearner
from erasable.research.baselines import RetrainedRidge, SISAClassifier
from erasable.research.baselines.interpolated import InterpolatedClassifier
from tests.research.baselines.cases import facts
from tests.strategies import keys, splits

contents = functools.partial(fingerprint, contents_only=True)
MAPS = st.one_of(
    st.sampled_from([0.0, 0.1, 0.3, 0.5]).map(lambda t: LeverageThreshold(t, fit_intercept=t < 0.2)),
    st.builds(RandomSubsample, st.sampled_from([0.3, 0.6, 0.9, 1.0]), st.integers(0, 3)),
)
LEARNERS = st.sampled_from(
    [
        DecisionTreeClassifier(max_features=1),
        KNeighborsClassifier(1),
        RetrainedRidge(),
        ErasableClassifier(threshold=0.2),
        SISAClassifier(DecisionTreeClassifier(), n_shards=2, n_slices=1),
        CoreSetUnlearner(RandomSubsample(0.7, random_state=5), DecisionTreeClassifier()),
    ]
)


@st.composite
def problems(draw, most=16):
    """Few distinct rows, so that duplicates and zero rows abound, with labels and ids."""
    n, d = draw(st.integers(2, most)), draw(st.integers(1, 3))
    rows = draw(st.lists(st.lists(st.integers(-2, 2), min_size=d, max_size=d), min_size=n, max_size=n))
    labels = draw(st.sampled_from([("a", "b"), (0, 1, 2), (False, True), ("only",)]))
    y = [labels[i % len(labels)] for i in draw(st.lists(st.integers(0, 5), min_size=n, max_size=n))]
    return np.array(rows, dtype=float), np.array(y), draw(keys(n, distinct=True))


def fitted(model, X, y, ids):
    try:
        return model.fit(X, y, ids=ids)
    except NoRowsError:
        return None


def refitted(model, X, y, ids):
    at = [ids.index(key) for key in model.core_ids_.tolist()]
    return clone(model).fit(X[at], y[at], ids=[ids[i] for i in at])


@settings(max_examples=250)
@given(problems(), MAPS, LEARNERS, st.data())
def test_forgetting_is_training_on_the_surviving_core_rows(problem, core_set, learner, data):
    X, y, ids = problem
    model = fitted(CoreSetUnlearner(core_set, learner), X, y, ids)
    if model is None:
        event("empty")
        return
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True))
    for part in data.draw(splits(len(gone), most=3)):
        before = model.core_ids_.tolist()
        model.forget(ids=gone[part])
        assert model.core_ids_.tolist() == [key for key in before if key not in gone[part]]
    event(f"rows left: {min(model.n_core_, 3)}")
    report = verify(model)
    assert (report.core_rows, report.digest) == (model.n_core_, model.state_digest())
    if model.n_core_:
        again = refitted(model, X, y, ids)
        assert again.state_digest() == model.state_digest()
        assert contents(again._model.cache["learner"]) == contents(model._model.cache["learner"])
        assert facts(again._model.cache["learner"]) == facts(model._model.cache["learner"])
        assert (again.predict(X) == model.predict(X)).all()


@settings(max_examples=150)
@given(problems(), MAPS, st.data())
def test_order_and_batches_of_requests_do_not_matter(problem, core_set, data):
    X, y, ids = problem
    learner = data.draw(st.sampled_from([RetrainedRidge(), KNeighborsClassifier(1)]))
    at_once = fitted(CoreSetUnlearner(core_set, learner), X, y, ids)
    if at_once is None:
        return
    in_turn = fitted(CoreSetUnlearner(core_set, learner), X, y, ids)
    gone = data.draw(st.lists(st.sampled_from(ids), unique=True))
    at_once.forget(ids=gone)
    order = data.draw(st.permutations(gone))
    for part in data.draw(splits(len(gone))):
        in_turn.forget(ids=order[part])
    assert in_turn.state_digest() == at_once.state_digest()
    assert contents(in_turn._model.cache["learner"]) == contents(at_once._model.cache["learner"])


@settings(max_examples=150)
@given(problems(), MAPS, st.sampled_from([0.0, 0.3, 1.0]), st.data())
def test_the_mixture_follows_the_core_and_nothing_else(problem, core_set, gamma, data):
    """The core part is that of the survivors, bitwise; the noised part moves only when a class is emptied."""
    X, y, ids = problem
    model = InterpolatedClassifier(core_set, private_share=gamma, epsilon=1.0, alpha=0.3, random_state=1)
    if fitted(model, X, y, ids) is None:
        return
    noised, n_classes = model._noised.copy(), len(model.classes_)
    model.forget(ids=data.draw(st.lists(st.sampled_from(ids), unique=True)))
    if not model.n_core_:
        assert not len(model._noised)
        return
    again = refitted(model, X, y, ids)
    assert again.classes_.tolist() == model.classes_.tolist()
    if len(model.classes_) < n_classes:
        event("a class was emptied")
        assert facts(again.__getstate__()) == facts(model.__getstate__())
        return
    assert model._noised.tobytes() == noised.tobytes()
    alone = clone(model).set_params(private_share=0.0)
    at = [ids.index(key) for key in model.core_ids_.tolist()]
    core_part = alone.fit(X[at], y[at], ids=[ids[i] for i in at])._weights
    right = (1.0 - gamma) * core_part + noised if len(noised) else core_part
    assert model._weights.tobytes() == (noised if gamma == 1.0 and len(noised) else right).tobytes()
