"""Forgetting: the report, the state it leaves, and the empty model."""

import copy
import gc
import pickle
import weakref

import numpy as np
import pytest
from sklearn.base import clone

from erasable import learn, verify
from erasable.errors import StaleReportError
from erasable.models.heads import losses
from tests.estimators.cases import SECRET_ID, N, assert_no_traces, classifier, make_rows
from tests.memory import held_rows

X, Y = make_rows()
TEXTS = [f"row-{i}" for i in range(N)]


def refit(clf, rows, labels, ids, **more):
    """A model learnt from nothing on the rows that ``clf`` still holds."""
    place = {key: i for i, key in enumerate(ids)}
    kept = [place[key] for key in clf.core_ids_.tolist()]
    fresh = clone(clf).set_params(threshold=clf.threshold_, kappa=None, horizon=None)
    return fresh.fit(rows[kept], labels[kept], ids=[ids[i] for i in kept], **more)


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


def test_an_emptied_model_learns_again():
    clf = classifier().fit(X, Y, ids=TEXTS)
    clf.forget(ids=TEXTS)
    labels = np.array(["no", "yes"])[Y]
    clf.partial_fit(X, labels, ids=np.arange(N))  # other kinds of ids and labels than before: nothing remembers
    assert clf.state_digest() == classifier().fit(X, labels).state_digest()
    assert clf.predict(X).dtype.kind == "U"


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
