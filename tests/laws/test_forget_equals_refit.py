"""The law of the whole: after any learning and forgetting, the state is that of learning its own rows from nothing."""

from __future__ import annotations

import copy
import pickle
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sklearn.base import clone

from erasable import ErasableClassifier, verify
from erasable.errors import ErasableError, InputError, NoRowsError
from tests.oracle import each_owner, owners
from tests.regressions import tasks
from tests.strategies import Batch, Setting, assert_identical, problems, splits


def refit(clf: ErasableClassifier, batch: Batch) -> ErasableClassifier:
    """A fresh model with the same threshold that learns the original rows of ``clf``'s core, and nothing else."""
    kept = set(clf.core_ids_.tolist())
    survivors = batch.part([i for i, key in enumerate(batch.ids) if key in kept])
    assert len(survivors) == len(kept)
    fresh = clone(clf).set_params(threshold=clf.threshold_)
    return fresh.fit(
        np.array(survivors.X),
        survivors.y,
        ids=survivors.ids,
        subjects=survivors.subjects,
        sample_weight=survivors.weights,
        allow_no_subject=True,
    )


def subsets(batch: Batch):
    return st.lists(st.sampled_from(batch.ids), unique=True)


BOTH = ["squared", "logistic"]


@given(tasks(BOTH), st.data())
def test_forgetting_equals_refitting_the_survivors(problem, data):
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    gone = data.draw(subsets(batch))
    report = clf.forget(ids=gone)
    assert report.digest == clf.state_digest() == verify(clf).digest
    event(f"core rows removed: {min(report.core_rows_removed, 3)}")
    if clf.n_core_:
        again, X = refit(clf, batch), np.array(batch.X)
        assert again.state_digest() == clf.state_digest()
        assert np.array_equal(again.predict(X), clf.predict(X))


@given(tasks(), st.data())
def test_forgetting_equals_the_oracles_refit(problem, data):
    setting, batch = problem
    clf, oracle = batch.learnt_by(setting.estimator()), batch.learnt_by(setting.oracle())
    assert_identical(clf, oracle)
    for _ in range(data.draw(st.integers(1, 3))):
        gone = data.draw(subsets(batch))
        before = oracle.ids
        clf.forget(ids=gone)
        oracle.forget(ids=gone)
        assert oracle.ids == [k for k in before if k not in set(gone)]  # stability: nobody else leaves
        assert_identical(clf, oracle)


@given(tasks(), st.data())
def test_learning_goes_on_after_forgetting(problem, data):
    setting, batch = problem
    clf, oracle = setting.estimator(), setting.oracle()
    for part in data.draw(splits(len(batch))):
        rows = batch.part(part)
        rows.learnt_by(clf)
        rows.learnt_by(oracle)
        if not clf.__sklearn_is_fitted__():  # so far no row has had a weight
            continue
        gone = data.draw(subsets(batch))
        clf.forget(ids=gone)
        oracle.forget(ids=gone)
        assert_identical(clf, oracle)
        verify(clf)
        if data.draw(st.booleans()):
            clf = data.draw(st.sampled_from([copy.deepcopy, lambda c: pickle.loads(pickle.dumps(c))]))(clf)
            assert_identical(clf, oracle)


@given(tasks(["logistic"], max_rows=12, max_features=3), st.data())
def test_a_row_that_left_can_come_back(problem, data):
    setting, batch = problem
    clf, oracle = batch.learnt_by(setting.estimator()), batch.learnt_by(setting.oracle())
    gone = data.draw(st.lists(st.integers(0, len(batch) - 1), unique=True, min_size=1))
    names = [batch.ids[i] for i in gone]
    clf.forget(ids=names)
    oracle.forget(ids=names)
    again = batch.part(gone)
    again.learnt_by(clf)
    again.learnt_by(oracle)
    assert_identical(clf, oracle)


@given(tasks(BOTH), st.data())
def test_the_order_and_batching_of_forgetting_do_not_matter(problem, data):
    setting, batch = problem
    gone = data.draw(subsets(batch))
    at_once = batch.learnt_by(setting.estimator())
    at_once.forget(ids=gone)
    in_parts = batch.learnt_by(setting.estimator())
    order = data.draw(st.permutations(gone))
    for part in data.draw(splits(len(gone))):
        in_parts.forget(ids=order[part])
        if data.draw(st.booleans()):
            in_parts.coef_  # noqa: B018  reading weights in between must not matter either
    assert in_parts.state_digest() == at_once.state_digest()


@given(tasks(), st.data())
def test_forgetting_a_subject_is_forgetting_its_rows(problem, data):
    setting, batch = problem
    if batch.subjects is None:
        batch = replace(batch, subjects=[i % 3 for i in range(len(batch))])
    of_rows = [set(each_owner([owners(s)])) for s in batch.subjects]
    leaving = data.draw(st.lists(st.sampled_from(sorted(set().union(*of_rows)) or [0]), max_size=3))
    by_subject, by_id = batch.learnt_by(setting.estimator()), batch.learnt_by(setting.estimator())
    report = by_subject.forget(subjects=leaving)
    names = [k for k, s in zip(batch.ids, of_rows, strict=True) if s & set(leaving)]
    assert by_id.forget(ids=names).core_rows_removed == report.core_rows_removed
    assert by_subject.state_digest() == by_id.state_digest()


@given(tasks(), st.data())
def test_forgetting_again_or_the_unknown_changes_nothing(problem, data):
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    gone = data.draw(subsets(batch))
    clf.forget(ids=gone)
    before = clf.state_digest()
    assert clf.forget(ids=gone).core_rows_removed == 0
    unknown = {int: -77, str: "nobody", bytes: b"nobody"}[type(batch.ids[0])]
    assert clf.forget(ids=[unknown]).core_rows_removed == 0
    assert clf.forget(ids=[]).core_rows_removed == 0
    assert clf.state_digest() == before


def test_forgetting_a_subject_again_changes_nothing():
    """Even when no other row has a subject: the second answer must not tell that the first found the last one."""
    clf = ErasableClassifier(threshold=0.01).fit(np.eye(3)[:1], ["a"], ids=["r0"], subjects=["s"])
    clf.partial_fit(np.eye(3)[1:], ["b", "a"], ids=["r1", "r2"])
    assert clf.forget(subjects=["s"]).core_rows_removed == 1
    before = clf.state_digest()
    assert clf.forget(subjects=["s"]).core_rows_removed == 0
    assert clf.state_digest() == before


@given(tasks())
def test_forgetting_a_row_that_was_not_selected_changes_nothing(problem):
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    before, core = clf.state_digest(), set(clf._model.snapshot().ids)
    clf.forget(ids=[k for k in batch.ids if k not in core])
    assert clf.state_digest() == before


@given(tasks(max_rows=12))
def test_forgetting_everything_leaves_the_state_of_nothing(problem):
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    clf.forget(ids=batch.ids)
    assert clf.n_core_ == 0
    assert_identical(clf, setting.oracle())
    assert verify(clf).core_rows == 0
    with pytest.raises(NoRowsError):
        clf.predict(np.array(batch.X))
    batch.learnt_by(clf)
    assert clf.state_digest() == batch.learnt_by(setting.estimator()).state_digest()


@given(problems(max_rows=12))
def test_emptying_a_class_gives_the_model_of_the_other_classes(problem):
    setting, batch = problem
    clf, oracle = batch.learnt_by(setting.estimator()), batch.learnt_by(setting.oracle())
    for label in sorted(set(batch.y)):
        names = [k for k, v in zip(batch.ids, batch.y, strict=True) if v == label]
        clf.forget(ids=names)
        oracle.forget(ids=names)
        assert clf.classes_.tolist() == list(oracle.classes)
        assert_identical(clf, oracle)


@given(problems(), st.data())
def test_looking_changes_nothing(problem, data):
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    clf.forget(ids=data.draw(subsets(batch)))
    X = np.array(batch.X)
    before = clf.state_digest()
    if clf.n_core_:
        for look in (clf.predict, clf.predict_proba, clf.decision_function):
            look(X)
        clf.score(X, batch.y)
    for name in ("classes_", "coef_", "intercept_", "core_ids_", "n_core_", "stored_rows_", "stored_bytes_"):
        getattr(clf, name)
    repr(clf)
    verify(clf)
    clf.coef_[:] = 7.0  # a copy: writing to it does not reach the model
    clf.core_ids_[:] = clf.core_ids_[::-1]
    assert clf.state_digest() == before


@given(tasks(max_rows=10), st.data())
def test_what_is_held_is_a_function_of_the_surviving_rows(problem, data):
    """Sizes too: a gap where a row was would tell that there was one."""
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    clf.forget(ids=data.draw(subsets(batch)))
    held = clf.stored_bytes_
    clf.state_digest()
    assert clf.stored_bytes_ == held


# -- stability of the selection map ------------------------------------------------------------------------------


@given(tasks(), st.data())
def test_the_selection_map_is_stable(problem, data):
    """C(C(S) - U) = C(S) - U, by learning and by no code that forgets."""
    setting, batch = problem
    core = batch.learnt_by(setting.estimator())._model.snapshot().ids
    gone = set(data.draw(subsets(batch)))
    left = [i for i, k in enumerate(batch.ids) if k in set(core) - gone]
    if left:
        again = batch.part(left).learnt_by(setting.estimator())._model.snapshot().ids
        assert again == tuple(k for k in core if k not in gone)


@given(tasks(max_rows=14))
def test_rows_that_were_not_selected_might_as_well_not_have_been_there(problem):
    setting, batch = problem
    clf = batch.learnt_by(setting.estimator())
    core = set(clf._model.snapshot().ids)
    if core:
        alone = batch.part([i for i, k in enumerate(batch.ids) if k in core])
        assert alone.learnt_by(setting.estimator()).state_digest() == clf.state_digest()


# -- labels that compare equal -----------------------------------------------------------------------------------


def test_negative_zero_is_zero_as_a_label():
    """0.0 and -0.0 are one class: a saved model must not treat them differently from the one in memory."""
    X = np.eye(4)
    for first, second in ((0.0, -0.0), (-0.0, 0.0)):
        clf = ErasableClassifier(threshold=0.01).fit(X, [first, 1.0, second, 1.0])
        loaded = pickle.loads(pickle.dumps(clf))
        assert loaded.state_digest() == clf.state_digest()
        clf.forget(ids=[0])
        loaded.forget(ids=[0])
        assert loaded.state_digest() == clf.state_digest()
        refitted = ErasableClassifier(threshold=0.01).fit(X[1:], [1.0, second, 1.0], ids=[1, 2, 3])
        assert clf.state_digest() == refitted.state_digest()
        assert not np.signbit(clf.classes_).any()


def test_a_label_that_has_no_bytes_is_refused():
    """A lone surrogate cannot be written: better refused when learning than found out when the state is read."""
    with pytest.raises(InputError):
        ErasableClassifier(threshold=0.01).fit(np.eye(2), np.array(["\ud800", "b"], dtype=object))
    with pytest.raises(ErasableError):
        ErasableClassifier(threshold=0.01, classes=["\ud800", "b"]).fit(np.eye(2), ["b", "b"])


@pytest.mark.parametrize("threshold", [0, 0.0, -0.0])
def test_equal_thresholds_are_equal_states(threshold):
    clf = Setting(2, threshold=0.0).classifier().fit(np.eye(2), [0, 1])
    other = ErasableClassifier(1.0, threshold=threshold, fit_intercept=False, loss="squared", feature_map=None).fit(
        np.eye(2), [0, 1]
    )
    assert clf.state_digest() == other.state_digest()
