"""Learning: what fit and partial_fit take, keep and let go."""

import warnings
from copy import deepcopy

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from erasable import (
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
    verify,
)
from erasable.classes import LinearBall
from erasable.engines import Local
from erasable.errors import EmptiedClassWarning, ErasableError, InputError
from erasable.estimators import validated
from tests.estimators.cases import N, classifier, make_classes, make_rows, refused
from tests.laws.test_same_digest import CONTAINERS as EVERY_CONTAINER

X, Y = make_rows()
X32 = X.astype(np.float32)
COLUMNS = list("abc")


def test_fit_takes_changed_parameters_and_other_widths():
    clf = classifier().fit(pd.DataFrame(X, columns=COLUMNS), Y)
    wide, labels = make_rows(d=7, seed=2)
    clf.set_params(threshold=0.3, capacity=0.5, fit_intercept=False, grid_bits=12).fit(wide, labels)
    fresh = classifier(threshold=0.3, capacity=0.5, fit_intercept=False, grid_bits=12).fit(wide, labels)
    assert clf.state_digest() == fresh.state_digest()
    assert clf.n_features_in_ == 7
    assert not hasattr(clf, "feature_names_in_")
    assert sorted(vars(clf)) == sorted(vars(fresh))


CONTAINERS = {
    **EVERY_CONTAINER,
    "pandas nullable": lambda A: pd.DataFrame(A, columns=COLUMNS).convert_dtypes(),
    "pandas pyarrow": lambda A: pd.DataFrame(A, columns=COLUMNS).convert_dtypes(dtype_backend="pyarrow"),
}


@pytest.mark.parametrize("form", CONTAINERS)
@pytest.mark.parametrize("parameters", [{}, {"scaling": 10.0}, {"scaling": [1.0, 2.0, 3.0]}], ids=str)
def test_a_container_of_rows_changes_nothing(form, parameters):
    """Numbers that float32 holds, and those that only float64 does, on a grid so fine that this shows."""
    for A in [X32.astype(np.float64), *([] if "float32" in form or "mixed" in form else [X])]:
        expected = classifier(**parameters, grid_bits=20).fit(A, Y)
        given = CONTAINERS[form](A)
        clf = classifier(**parameters, grid_bits=20).fit(given, Y)
        assert clf.state_digest() == expected.state_digest()
        np.testing.assert_array_equal(clf.predict(given), expected.predict(A))
        scores = expected.decision_function(A)
        np.testing.assert_allclose(clf.decision_function(given), scores, rtol=1e-13, atol=1e-15)


def test_integer_and_boolean_features_are_numbers():
    whole = np.rint(5 * X)
    assert classifier().fit(whole.astype(np.int8), Y).state_digest() == classifier().fit(whole, Y).state_digest()
    assert classifier().fit(X > 0, Y).state_digest() == classifier().fit((X > 0).astype(float), Y).state_digest()


def test_the_callers_arrays_are_neither_changed_nor_kept():
    rows, labels, ids = X.copy(), Y.copy(), np.arange(N)
    rows.setflags(write=False)
    labels.setflags(write=False)
    ids.setflags(write=False)
    clf = classifier(threshold=0.0).fit(rows, labels, ids=ids, subjects=ids)
    assert rows.tobytes() == X.tobytes()
    rows, labels = X.copy(), Y.copy()
    clf = classifier(threshold=0.0).fit(rows, labels)
    before, scores = clf.state_digest(), clf.decision_function(X)
    rows[:], labels[:] = 0.0, 0
    assert clf.state_digest() == before
    assert clf.decision_function(X).tobytes() == scores.tobytes()
    verify(clf)


def test_scales_given_as_an_array_are_copied():
    scales = np.array([1.0, 2.0, 3.0])
    clf = classifier(scaling=scales).fit(X, Y)
    before, scores = clf.state_digest(), clf.decision_function(X)
    scales[:] = 50.0
    assert clf.state_digest() == before
    assert clf.decision_function(X).tobytes() == scores.tobytes()


@pytest.mark.parametrize(
    "change",
    [
        {"capacity": 1.5},
        {"threshold": 0.06},
        {"grid_bits": 14},
        {"fit_intercept": False},
        {"scaling": [1.0, 1.0, 1.0]},
        {"classes": [0, 1]},
    ],
    ids=str,
)
def test_the_configuration_is_part_of_the_state(change):
    assert classifier(**change).fit(X, Y).state_digest() != classifier().fit(X, Y).state_digest()


def test_classes_may_come_in_any_order_and_form():
    y = make_classes(3)
    forms = [[0, 1, 2], (2, 0, 1), range(3), np.array([2, 1, 0, 0]), np.arange(3, dtype=np.uint8), pd.Series([2, 1, 0])]
    digests = {classifier(classes=form).fit(X, y).state_digest() for form in forms}
    digests.add(classifier().partial_fit(X, y, classes=[1, 2, 0]).state_digest())
    digests.add(classifier(classes=[0, 1, 2]).partial_fit(X, y, classes=[2, 1, 0]).state_digest())
    assert len(digests) == 1


LABELS = {
    "int": (np.array([-3, 7]), "i"),
    "int8": (np.array([-3, 7], dtype=np.int8), "i"),
    "uint64": (np.array([3, 7], dtype=np.uint64), "i"),
    "bool": (np.array([False, True]), "b"),
    "float": (np.array([-1.0, 1.0]), "f"),
    "float32": (np.array([-1.0, 1.0], dtype=np.float32), "f"),
    "text": (np.array(["no", "yes, please"]), "U"),
    "object text": (np.array(["no", "yes, please"], dtype=object), "U"),
    "unicode": (np.array(["い", "\U0001f600"]), "U"),
    "empty text": (np.array(["", "x"]), "U"),
}


@pytest.mark.parametrize("case", LABELS)
def test_labels_keep_their_type(case):
    names, kind = LABELS[case]
    clf = classifier().fit(X, names[Y])
    assert clf.classes_.dtype.kind == kind
    assert clf.classes_.tolist() == names.tolist()
    predicted = clf.predict(X)
    assert predicted.dtype == clf.classes_.dtype
    np.testing.assert_array_equal(predicted, names[classifier().fit(X, Y).predict(X)])
    fixed = classifier(classes=names).fit(X, names[Y])
    np.testing.assert_array_equal(fixed.predict(X), predicted)
    fixed.forget(ids=np.flatnonzero(Y == 1))
    assert fixed.classes_.tolist() == names.tolist()
    verify(fixed)


def test_feature_names_are_kept_and_dropped_with_fit():
    clf = classifier().fit(pd.DataFrame(X, columns=COLUMNS), Y)
    assert clf.feature_names_in_.tolist() == COLUMNS
    assert clf.state_digest() == classifier().fit(X, Y).state_digest()
    with pytest.warns(UserWarning, match="valid feature names"):
        clf.predict(X)


def test_what_is_stored_is_counted():
    clf = classifier().fit(X, Y)
    held, bytes_held = clf.stored_rows_, clf.stored_bytes_
    assert held == clf.n_core_ == len(clf.core_ids_)
    assert bytes_held == held * 4 * 2 + 4 * 4 * 8 + 2 * 4 * 8 + 4 * 4  # rows, A, class sums, weights
    clf.forget(ids=clf.core_ids_[: held // 2 + 1])
    _ = clf.state_digest()
    assert clf.stored_bytes_ < bytes_held


@pytest.mark.parametrize(
    "make",
    [
        lambda **how: ErasableClassifier(threshold=0.001, **how, feature_map=None),
        lambda **how: ErasableGeneralClassifier(LinearBall(fit_intercept=True, **how), threshold=0.001),
    ],
    ids=["linear", "general"],
)
def test_one_feature_of_which_the_sign_alone_is_left_is_warned_of(make):
    x = np.random.default_rng(0).uniform(1.0, 9.0, size=(400, 1))
    y = x[:, 0] > 5.0
    for how in ({}, {"scaling": [3.0]}):
        with pytest.warns(UserWarning, match="only the sign of the feature is left") as noted:
            clf = make(**how).fit(x, y)
        assert [w.filename for w in noted] == [__file__]  # who called fit is told
        assert clf.score(x, y) < 0.6
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # told once
            clf.forget(ids=clf.core_ids_[:1])
            clf.partial_fit(x[:5], y[:5], ids=range(1000, 1005))
            verify(clf)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert make(scaling=10.0).fit(x, y).score(x, y) > 0.9
        make().fit(np.column_stack([x, x]), y)


@pytest.mark.parametrize("rows", [np.zeros((5, 2)), np.zeros((1, 1)), sp.csr_array((4, 3))])
def test_zero_rows_have_no_direction_and_are_not_kept(rows):
    labels = np.arange(rows.shape[0]) % 2
    clf = classifier(fit_intercept=False).fit(rows, labels)
    assert clf.n_core_ == 0
    assert clf.classes_.tolist() == []
    verify(clf)
    assert classifier().fit(rows, labels).n_core_ > 0  # the constant is a direction


def test_one_row_one_feature_and_more_features_than_rows():
    for n, d in ((1, 1), (1, 9), (2, 40), (30, 1)):
        rows, labels = make_rows(n, d)
        clf = ErasableClassifier(threshold=0.001).fit(rows, labels)
        assert 1 <= clf.n_core_ <= n
        assert clf.predict(rows).shape == (n,)
        clf.forget(ids=clf.core_ids_[:1])
        verify(clf)


def test_of_many_rows_several_threads_look_whether_all_are_finite(monkeypatch):
    monkeypatch.setattr(validated, "_MANY", 0)
    monkeypatch.setattr(validated, "_SUMMED", 16)
    plain = classifier().fit(X, Y).state_digest()
    assert validated._has_finite_sums(X)
    assert classifier().fit(X, Y).state_digest() == plain
    assert classifier().fit(X32[:, ::-1], Y).n_core_ > 0  # in any layout
    large = np.full_like(X32, 3e38)
    assert not validated._has_finite_sums(large)  # their sums overflow: scikit-learn looks at each
    assert classifier().fit(large, Y).n_core_ > 0
    for value, message in ((np.nan, "contains NaN: "), (np.inf, "contains infinity"), (-np.inf, "infinity")):
        wrong = X.copy()
        wrong[7, 1] = value
        with pytest.raises(InputError, match=message):
            classifier().fit(wrong, Y)


CORRECTED = {
    "leverage": classifier(),
    "leverage, engine": classifier(engine=Local(threads=1)),
    "logistic, in the given order": classifier(loss="logistic", order="given"),
    "regression": ErasableRegressor((-9.0, 9.0), threshold=0.05),
    "kernel": ErasableKernelClassifier(threshold=0.3),
    "general": ErasableGeneralClassifier(LinearBall()),
    "independent": ErasableClassifier(selection="independent", rate=0.5),
    "independent, engine": ErasableClassifier(selection="independent", rate=0.5, engine=Local(threads=1)),
}


@pytest.mark.parametrize("kind", CORRECTED)
def test_correcting_rows_is_forgetting_and_learning_them(kind):
    start, n = clone(CORRECTED[kind]), 60
    names = np.array([f"row {i}" for i in range(n)])
    start.partial_fit(X[:n], Y[:n], ids=names)
    sent = np.arange(0, n, 2)  # some of them were never stored
    other, labels = X[n : n + len(sent)], Y[n : n + len(sent)]
    judge = deepcopy(start)
    gone = judge.forget(ids=names[sent]).core_rows_removed
    judge.partial_fit(other, labels, ids=names[sent])
    report = deepcopy(start).learn(other, labels, ids=names[sent], streaming=True, replace=True)
    assert start.partial_fit(pd.DataFrame(other), labels, ids=pd.Series(names[sent]), replace=True) is start
    assert start.state_digest() == judge.state_digest()
    assert 0 < report.rows_replaced == gone
    verify(start)


@pytest.mark.parametrize(
    ("selection", "nameless"),
    [("leverage", "replace=True knows rows by their ids"), ("independent", "partial_fit needs ids")],
)
def test_a_refused_correction_changes_nothing(selection, nameless):
    clf = ErasableClassifier(selection=selection).partial_fit(X, Y, ids=np.arange(N))
    stored = clf.core_ids_[:3]
    bad = X[:3].copy()
    bad[2, 0] = np.nan
    with refused(clf, InputError, nameless):
        clf.partial_fit(X[:3], Y[:3], replace=True)
    with refused(clf, ErasableError):
        clf.partial_fit(bad, Y[:3], ids=stored, replace=True)
    with refused(clf, InputError, "distinct"):
        clf.partial_fit(X[:3], Y[:3], ids=stored[[0, 1, 0]], replace=True)
    with refused(clf, ErasableError, "ids are integers"):
        clf.partial_fit(X[:3], Y[:3], ids=["a", "b", "c"], replace=True)
    with refused(clf, ErasableError, "labels"):
        clf.partial_fit(X[:3], np.array(["a", "b", "c"]), ids=stored, replace=True)
    with refused(clf, InputError, "rounds to zero"):
        clf.partial_fit(X[:3], Y[:3], ids=stored, sample_weight=[0.0] * 3, replace=True)


def test_a_correction_that_empties_a_class_warns():
    clf = classifier().fit(X[:40], np.arange(40) == 0, ids=np.arange(40))
    assert 0 in clf.core_ids_
    with pytest.warns(EmptiedClassWarning, match="last stored row of a class") as caught:
        clf.partial_fit(X[:1], [False], ids=[0], replace=True)
    assert caught[0].filename == __file__
