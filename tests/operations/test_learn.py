"""learn: the same model as fit and partial_fit, and a report that adds up."""

import dataclasses
import pickle

import numpy as np
import pytest

from erasable import ErasableClassifier, learn, load, verify
from erasable.errors import ErasableError
from erasable.models.reports import LearnReport
from erasable.operations.learn import learn_table
from tests.estimators.cases import N, assert_no_traces, classifier, make_classes, make_rows

X, Y = make_rows()
IDS = [f"SECRET-{i}" for i in range(N)]


def decided(report):
    d = report.decisions
    return d.screened + d.certified + d.enclosed + d.exact


def test_an_unfitted_model_learns_as_with_fit():
    for parameters in ({"kappa": 0.5}, {"threshold": 0.05}, {"kappa": 0.5, "horizon": 77}):
        clf = ErasableClassifier(**parameters)
        report = learn(clf, X, Y, ids=IDS, subjects=IDS)
        expected = ErasableClassifier(**parameters).fit(X, Y, ids=IDS, subjects=IDS)
        assert clf.state_digest() == expected.state_digest()
        assert clf.n_features_in_ == 3
        assert isinstance(report, LearnReport)
        assert report.rows == N
        assert report.core_rows_added == report.core_rows == clf.n_core_
        assert decided(report) == N


def test_a_fitted_model_learns_on_as_with_partial_fit():
    clf, expected = classifier().fit(X[:100], Y[:100]), classifier().fit(X[:100], Y[:100])
    before = clf.n_core_
    report = learn(clf, X[100:], Y[100:], ids=np.arange(100, N))
    expected.partial_fit(X[100:], Y[100:], ids=np.arange(100, N))
    assert clf.state_digest() == expected.state_digest()
    assert report.rows == N - 100
    assert report.core_rows == clf.n_core_ == before + report.core_rows_added
    assert 0 < report.core_rows_added < N - 100
    assert decided(report) == N - 100
    assert sorted(vars(clf)) == sorted(vars(expected))
    verify(clf)


def test_classes_can_be_fixed():
    clf = classifier()
    learn(clf, X, Y, classes=[0, 1, 2])
    assert clf.classes_.tolist() == [0, 1, 2]
    assert clf.state_digest() == classifier(classes=[0, 1, 2]).fit(X, Y).state_digest()


@pytest.mark.parametrize("n", [1, 95, 97, 3000])
@pytest.mark.parametrize("threshold", [0.0, 0.02, 0.4])
def test_every_row_is_decided_once(n, threshold):
    rows, _ = make_rows(n, 5)
    report = learn(classifier(threshold=threshold), rows, np.arange(n) % 3)
    assert decided(report) == report.rows == n
    assert min(dataclasses.astuple(report.decisions)) >= 0
    if n == 3000 and threshold == 0.4:
        assert report.decisions.screened > n // 2


def test_ties_with_the_threshold_are_decided_exactly():
    """A row of length 1/2 has leverage exactly 1/4 against the empty core: a tie is not above, nor are its equals."""
    clf = ErasableClassifier(threshold=0.25, capacity=1.0, scaling=None, fit_intercept=False, grid_bits=10)
    report = learn(clf, np.full((3, 1), 0.5), [0, 1, 0])
    assert report.core_rows_added == 0
    assert report.decisions.exact + report.decisions.enclosed == 1
    assert decided(report) == 3


def test_progress_rises_to_all_rows():
    rows, labels = make_rows(5000, 4)
    calls = []
    report = learn(classifier(), rows, labels, progress=lambda done, total: calls.append((done, total)))
    done = [d for d, _ in calls]
    assert done == sorted(set(done))
    assert calls[-1] == (5000, 5000)
    assert {total for _, total in calls} == {5000}
    assert len(calls) > 1
    assert report.rows == 5000


def test_the_model_keeps_no_report():
    with_report, without = classifier(), classifier().fit(X, make_classes(3), ids=IDS)
    learn(with_report, X, make_classes(3), ids=IDS, progress=lambda *_: None)
    assert vars(with_report).keys() == vars(without).keys()
    assert pickle.dumps(with_report) == pickle.dumps(without)


def test_a_report_shows_counts_and_no_ids():
    report = learn(classifier(), X, Y, ids=IDS, subjects=IDS)
    assert_no_traces(repr(report) + str(report))
    assert pickle.loads(pickle.dumps(report)) == report
    with pytest.raises(dataclasses.FrozenInstanceError):
        report.rows = 1


# -- from a table into a file --------------------------------------------------------------------------------------


def csv(path, low, high, width=3):
    rows = np.random.default_rng(0).standard_normal((high, width))[low:]
    names = [*(f"f{j}" for j in range(width)), "label", "row"]
    lines = [",".join(names), *(",".join(map(str, [*r, int(r[0] > 0), f"{i:04}"])) for i, r in enumerate(rows, low))]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_a_table_is_learnt_into_a_new_file_and_into_one_that_is_there(tmp_path):
    path, whole = tmp_path / "m.erasable", tmp_path / "whole.erasable"
    options = {"id": "row", "id_type": str, "label_type": int, "parameters": {"threshold": 0.02}}
    seen = []
    first = learn_table(path, csv(tmp_path / "a.csv", 0, 40), **options, progress=lambda *done: seen.append(done))
    assert (first.report.rows, first.report.core_rows) == (40, load(path).n_core_)
    assert first.bytes == path.stat().st_size
    assert seen[-1] == (40, 40)
    second = learn_table(path, csv(tmp_path / "b.csv", 40, 90), id="row")  # the file says what kind names are
    assert second.report.rows == 50
    learn_table(whole, csv(tmp_path / "c.csv", 0, 90), **options)
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"id_type": int}, "id_type= says int, and the model's are str"),
        ({"parameters": {"threshold": 0.5}}, "threshold"),
        ({"kernel": "rbf"}, "kernel= names a kernel, and the file holds a linear model"),
        ({"parameters": {"kappa": 0.3}}, "kappa= does not name a threshold without horizon="),
        ({"ignore": ["f0"]}, "other columns of features"),
    ],
)
def test_what_differs_from_the_model_in_the_file_is_refused_and_changes_nothing(tmp_path, options, says):
    path = tmp_path / "m.erasable"
    learn_table(path, csv(tmp_path / "a.csv", 0, 40), id="row", id_type=str, parameters={"threshold": 0.02})
    before = path.read_bytes()
    with pytest.raises(ErasableError, match=says):
        learn_table(path, csv(tmp_path / "b.csv", 40, 50), id="row", **options)
    assert path.read_bytes() == before
