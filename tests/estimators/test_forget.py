"""Forgetting: the report, the state it leaves, and the empty model."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from sklearn.base import clone

from erasable import learn, verify
from erasable.errors import NoRowsError, StaleReportError
from erasable.models.heads import losses
from tests.estimators.cases import SECRET_ID, N, assert_no_traces, classifier, make_classes, make_rows, refused
from tests.memory import held_rows

X, Y = make_rows()
TEXTS = [f"row-{i}" for i in range(N)]


def refit(clf, rows, labels, ids, **more):
    """A model learnt from nothing on the rows that ``clf`` still holds."""
    place = {key: i for i, key in enumerate(ids)}
    kept = [place[key] for key in clf.core_ids_.tolist()]
    fresh = clone(clf).set_params(threshold=clf.threshold_, kappa=None, horizon=None)
    return fresh.fit(rows[kept], labels[kept], ids=[ids[i] for i in kept], **more)


def test_forgetting_equals_a_refit_of_the_survivors():
    clf = classifier(threshold=None, kappa=0.5).fit(X, Y, ids=TEXTS)
    clf.forget(ids=clf.core_ids_[::3])
    clf.forget(ids=clf.core_ids_[::5])
    assert clf.n_core_ > 20
    again = refit(clf, X, Y, TEXTS)
    assert again.state_digest() == clf.state_digest()
    assert again.core_ids_.tolist() == clf.core_ids_.tolist()
    for left, right in ((again.coef_, clf.coef_), (again.intercept_, clf.intercept_), (again.classes_, clf.classes_)):
        assert left.tobytes() == right.tobytes()


@pytest.mark.parametrize("unknown", [[-1], [10**9, -5, 10**9], range(10_000, 10_500)])
def test_unknown_ids_change_nothing(unknown):
    clf = classifier().fit(X, Y, subjects=np.arange(N))
    before, moment, weights = clf.state_digest(), clf._model.version_token, clf._model.weights()
    for argument in ("ids", "subjects"):
        report = clf.forget(**{argument: unknown})
        assert (report.requested, report.core_rows_removed, report.core_rows) == (len(set(unknown)), 0, clf.n_core_)
        assert report.digest == before
    assert clf.state_digest() == before
    assert clf._model.version_token is moment
    assert clf._model.weights() is weights  # not even solved for again


def test_a_hundred_thousand_ids_outside_the_core_touch_nothing():
    """Each costs one look-up: no row or sum is read or written."""
    clf = classifier().fit(X, Y)
    memory, before = clf._model, clf.state_digest()
    rows, tables = held_rows(memory.core), list(memory.core.place._parts)
    for array in [memory.sums.H, memory.weights(), *memory.sums.by_label.values()]:
        array.setflags(write=False)
    strangers = np.arange(N, N + 100_000)
    report = clf.forget(ids=strangers)
    assert (report.requested, report.core_rows_removed) == (100_000, 0)
    assert all(a is b for a, b in zip(held_rows(memory.core), rows, strict=True))
    assert all(a is b for a, b in zip(memory.core.place._parts, tables, strict=True))
    assert clf.state_digest() == report.digest == before


def test_a_batch_is_one_downdate(monkeypatch):
    from erasable.models.heads import linear as exact_sums

    calls = []
    real = exact_sums.add_rows
    monkeypatch.setattr(exact_sums, "add_rows", lambda H, rows, *rest: calls.append(len(rows)) or real(H, rows, *rest))
    clf = classifier().fit(X, Y)
    calls.clear()
    clf.forget(ids=np.arange(N // 2))
    assert len(calls) == 1
    assert calls[0] > 20


def test_the_weights_are_solved_for_only_when_read(monkeypatch):
    from erasable.models.heads import losses as squared

    clf = classifier().fit(X, Y)
    clf.predict(X)
    monkeypatch.setattr(squared, "solve_weights", lambda *_: pytest.fail("solved"))
    clf.forget(ids=clf.core_ids_[:3])
    assert clf.n_core_ == len(clf.core_ids_)


# -- the report ----------------------------------------------------------------------------------------------------


def test_the_digest_is_read_lazily_and_then_kept():
    clf = classifier().fit(X, Y)
    report = clf.forget(ids=clf.core_ids_[:5])
    digest = clf.state_digest()
    assert report.digest == digest
    clf.forget(ids=clf.core_ids_[:5])
    assert clf.state_digest() != digest
    assert report.digest == digest


CHANGES = {
    "forget": lambda clf: clf.forget(ids=clf.core_ids_[:1]),
    "partial_fit": lambda clf: clf.partial_fit(X, Y, ids=np.arange(N) + 5000),
    "fit": lambda clf: clf.fit(X, Y),
    "learn": lambda clf: learn(clf, X, Y, ids=np.arange(N) + 5000),
}


@pytest.mark.parametrize("change", CHANGES)
def test_an_unread_report_is_stale_after_a_change(change):
    clf = classifier().fit(X, Y)
    report = clf.forget(ids=clf.core_ids_[:5])
    CHANGES[change](clf)
    with pytest.raises(StaleReportError, match="changed since"):
        _ = report.digest
    assert report.core_rows_removed == 5  # the counts stay


def test_a_report_survives_what_changes_nothing():
    clf = classifier().fit(X, Y)
    report = clf.forget(ids=clf.core_ids_[:5])
    clf.forget(ids=[-1, -2])
    clf.predict(X)
    _ = clf.coef_, clf.state_digest(), pickle.dumps(clf), verify(clf)
    assert report.digest == clf.state_digest()


def test_a_report_keeps_no_model_alive():
    clf = classifier().fit(X, Y)
    report = clf.forget(ids=clf.core_ids_[:5])
    model, memory = weakref.ref(clf), weakref.ref(clf._model)
    del clf
    gc.collect()
    assert model() is None
    assert memory() is None
    with pytest.raises(StaleReportError):
        _ = report.digest


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy, lambda r: pickle.loads(pickle.dumps(r))])
def test_a_report_can_be_copied_and_pickled(duplicate):
    clf = classifier().fit(X, Y, ids=np.arange(N) + SECRET_ID)
    report = clf.forget(ids=clf.core_ids_[:5])
    same = duplicate(report)
    for name in ("requested", "core_rows_removed", "core_rows", "digest"):
        assert getattr(same, name) == getattr(report, name)
    assert repr(same) == repr(report)
    clf.forget(ids=clf.core_ids_[:1])
    assert same.digest == report.digest  # the copy has taken the digest along


def test_a_report_shows_counts_and_no_ids():
    ids = [f"SECRET-{i}" for i in range(N)]
    clf = classifier().fit(X, Y, ids=ids, subjects=ids)
    report = clf.forget(ids=clf.core_ids_[:5], subjects=ids[:9])
    text = repr(report) + str(report) + repr(vars(type(report))) + pickle.dumps(report).decode("latin1")
    assert "requested=14" in repr(report)
    assert_no_traces(text)


# -- everything forgotten ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [1, 2, 4])
@pytest.mark.parametrize("fixed", [False, True])
@pytest.mark.parametrize("intercept", [False, True])
def test_forgetting_everything_leaves_a_valid_empty_state(n_classes, fixed, intercept):
    y = make_classes(n_classes)
    classes = np.unique(y) if fixed else None
    clf = classifier(classes=classes, fit_intercept=intercept).fit(X, y, subjects=np.arange(N))
    report = clf.forget(subjects=np.arange(N))
    assert (report.core_rows, clf.n_core_, clf.stored_rows_, len(clf.core_ids_)) == (0, 0, 0, 0)
    assert clf.classes_.tolist() == (classes.tolist() if fixed else [])
    assert not clf.coef_.any()
    assert not clf.intercept_.any()
    assert report.digest == clf.state_digest() == verify(clf).digest
    assert verify(clf).core_rows == 0
    for call in (clf.predict, clf.predict_proba, clf.decision_function):
        with refused(clf, NoRowsError, "no rows remain"):
            call(X)
    with refused(clf, NoRowsError, "no rows remain"):
        clf.score(X, y)
    assert clf.forget(ids=[1, 2, 3]).core_rows_removed == 0


def test_the_empty_state_depends_on_nothing_that_was_learnt():
    digests = set()
    for seed in (1, 2):
        rows, labels = make_rows(100 * seed, seed=seed)
        names = [[f"{seed}-{i}" for i in range(len(rows))], np.arange(len(rows))][seed - 1]
        clf = classifier().fit(rows, np.array(["a", "b"])[labels] if seed == 1 else labels, ids=names, subjects=names)
        clf.forget(ids=names)
        digests.add(clf.state_digest())
    clf = classifier().fit(np.ones((2, 3)), [True, False])
    digests.add(clf.forget(ids=[0, 1]).digest)
    assert len(digests) == 1


def test_an_emptied_model_learns_again():
    clf = classifier().fit(X, Y, ids=TEXTS)
    clf.forget(ids=TEXTS)
    labels = np.array(["no", "yes"])[Y]
    clf.partial_fit(X, labels, ids=np.arange(N))  # other kinds of ids and labels than before: nothing remembers
    assert clf.state_digest() == classifier().fit(X, labels).state_digest()
    assert clf.predict(X).dtype.kind == "U"


# -- classes -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_class_without_rows_disappears(n_classes):
    y = make_classes(n_classes)
    clf = classifier().fit(X, y)
    clf.forget(ids=np.flatnonzero(y == 1))
    assert clf.classes_.tolist() == [c for c in range(n_classes) if c != 1]
    assert 1 not in clf.predict(X)
    assert clf.predict_proba(X).shape == (N, n_classes - 1)
    assert refit(clf, X, y, range(N)).state_digest() == clf.state_digest()
    verify(clf)
    clf.partial_fit(X, y, ids=np.arange(N) + 1000)
    assert clf.classes_.tolist() == list(range(n_classes))


@pytest.mark.parametrize("n_classes", [2, 3, 5])
def test_a_fixed_class_stays_without_rows(n_classes):
    y = make_classes(n_classes)
    clf = classifier(classes=range(n_classes)).fit(X, y)
    clf.forget(ids=np.flatnonzero(y == 1))
    assert clf.classes_.tolist() == list(range(n_classes))
    assert clf.predict_proba(X).shape == (N, n_classes)
    assert refit(clf, X, y, range(N)).state_digest() == clf.state_digest()
    verify(clf)


def test_the_sign_of_a_zero_label_leaves_no_trace():
    """-0.0 == 0.0, so both are one class; which of the two was met first must not be remembered."""
    labels = Y.astype(float)
    first = int(np.flatnonzero(Y == 0)[0])
    labels[first] = -0.0
    clf = classifier(threshold=0.0).fit(X, labels)
    twin = pickle.loads(pickle.dumps(clf))
    clf.forget(ids=first)
    twin.forget(ids=first)
    rest = np.delete(np.arange(len(X)), first)
    plain = classifier(threshold=0.0).fit(X[rest], labels[rest], ids=rest)
    assert twin.state_digest() == clf.state_digest() == plain.state_digest()
    assert not np.signbit(clf.classes_).any()


# -- learning and forgetting in turns ------------------------------------------------------------------------------


def test_learning_and_forgetting_interleave():
    y = make_classes(3)
    clf = classifier(order="given").partial_fit(X[:100], y[:100], ids=TEXTS[:100])
    clf.forget(ids=TEXTS[:50:2])
    clf.partial_fit(X[100:200], y[100:200], ids=TEXTS[100:200])
    clf.forget(ids=TEXTS[90:140])
    clf.partial_fit(X[200:], y[200:], ids=TEXTS[200:])
    assert refit(clf, X, y, TEXTS).state_digest() == clf.state_digest()
    verify(clf)


def test_a_forgotten_id_may_be_learnt_again():
    clf = classifier(threshold=0.0, order="given").fit(X, Y, ids=TEXTS)
    clf.forget(ids=TEXTS[7])
    clf.partial_fit(X[7:8], Y[7:8], ids=TEXTS[7:8])
    assert clf.core_ids_.tolist() == [*TEXTS[:7], *TEXTS[8:], TEXTS[7]]
    assert refit(clf, X, Y, TEXTS).state_digest() == clf.state_digest()


@pytest.mark.parametrize("order", ["forwards", "backwards", "shuffled", "one call"])
def test_the_order_of_forgetting_does_not_show(order):
    clf = classifier().fit(X, Y, ids=TEXTS)
    reference = clone(clf).fit(X, Y, ids=TEXTS)
    gone = clf.core_ids_[5:70].tolist()
    reference.forget(ids=gone)
    if order == "backwards":
        gone = gone[::-1]
    elif order == "shuffled":
        gone = np.random.default_rng(1).permutation(gone).tolist()
    for part in [gone[::-1]] if order == "one call" else [[key] for key in gone]:
        clf.forget(ids=part)
        if len(part) == 1 and int(part[0][4:]) % 17 == 0:
            clf.predict(X[:2])
    assert clf.state_digest() == reference.state_digest()
    assert clf.core_ids_.tolist() == reference.core_ids_.tolist()


def test_weights_are_solved_for_in_forget_only_if_they_were_read_since_the_last_change(monkeypatch):
    solved, solve = [], losses.logistic_weights

    def counted(*arguments):
        solved.append(arguments[5] is not None)  # whether there is a start
        return solve(*arguments)

    monkeypatch.setattr(losses, "logistic_weights", counted)
    clf = classifier().fit(X, Y, ids=TEXTS)
    clf.forget(ids=clf.core_ids_[:2])
    assert solved == []
    clf.predict(X[:2])
    assert solved == [False]
    clf.predict(X[:2])
    for _ in range(30):
        clf.forget(ids=clf.core_ids_[:1])
    assert solved == [False, True]
    clf.predict(X[:2])
    assert solved == [False, True, False]
    for _ in range(3):
        clf.forget(ids=clf.core_ids_[:2])
        clf.predict(X[:2])
        clf.state_digest()
    assert solved == [False, True, False, True, True, True]
    assert refit(clf, X, Y, TEXTS).state_digest() == clf.state_digest()
