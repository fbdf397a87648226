"""learn: the same model as fit and partial_fit, and a report that adds up."""

import dataclasses
import functools
import gzip
import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.datasets import dump_svmlight_file

from erasable import ErasableClassifier, ErasableKernelClassifier, learn, load, verify
from erasable.errors import ErasableError, InputError
from erasable.models.reports import LearnReport
from erasable.operations import learn as learning
from erasable.operations.learn import Columns, LearnOptions, learn_table
from erasable.tables import stream_table
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
    columns, seen = Columns(id="row", types={"id": str, "label": int}), []
    rows = csv(tmp_path / "a.csv", 0, 40)
    first = learn_table(path, rows, columns, parameters={"threshold": 0.02}, watch=lambda *done: seen.append(done))
    assert (first.report.rows, first.report.core_rows) == (40, load(path).n_core_)
    assert first.bytes == path.stat().st_size
    assert seen[-1] == ("learning", 40, 40)
    second = learn_table(path, csv(tmp_path / "b.csv", 40, 90), columns)
    assert second.report.rows == 50
    parts = ErasableClassifier(threshold=0.02, feature_names=["f0", "f1", "f2"])
    for low, high in ((0, 40), (40, 90)):  # one call each
        rows = np.random.default_rng(0).standard_normal((high, 3))[low:]
        parts.partial_fit(rows, (rows[:, 0] > 0).astype(int), ids=[f"{i:04}" for i in range(low, high)])
    parts.save(whole)
    assert path.read_bytes() == whole.read_bytes()


@pytest.mark.parametrize(
    ("columns", "parameters", "says"),
    [
        ({"types": {"id": int}}, {}, "10 of 10 ids are not integers"),
        ({}, {"threshold": 0.5}, "threshold"),
        ({}, {"kernel": "rbf"}, "kernel= names a kernel, and the file holds a linear model"),
        ({}, {"kappa": 0.3}, "kappa= does not name a threshold without horizon="),
        ({"ignore": ["f0"]}, {}, "other columns of features"),
    ],
)
def test_what_differs_from_the_model_in_the_file_is_refused_and_changes_nothing(tmp_path, columns, parameters, says):
    path = tmp_path / "m.erasable"
    first = Columns(id="row", types={"id": str})
    learn_table(path, csv(tmp_path / "a.csv", 0, 40), first, parameters={"threshold": 0.02})
    before = path.read_bytes()
    with pytest.raises(ErasableError, match=says):
        learn_table(path, csv(tmp_path / "b.csv", 40, 50), Columns(id="row", **columns), parameters=parameters)
    assert path.read_bytes() == before


# -- any order of rows, any format, any budget ---------------------------------------------------------------------

ROWS = 300
FORMATS = ("csv", "parquet", "npz", "sparse npz", "svmlight", "csv.gz")


def sorted_rows():
    """Rows sorted by class, of few digits, so that text holds them exactly."""
    rng = np.random.default_rng(5)
    rows = rng.integers(-64, 65, (ROWS, 4)) / 16.0
    rows[rng.random(rows.shape) < 0.3] = 0.0
    rows[:, 3] = 1.0
    labels = np.array([0, 1, 2])[np.digitize(rows[:, 0] + rows[:, 1], [-1.0, 1.0])]
    order = np.argsort(labels, kind="stable")
    return rows[order], labels[order], np.arange(ROWS) * 3 - 100, np.arange(ROWS) % 11


def written(folder, form, index):
    """The rows at these places in a file, and the options that read it; SVMlight has no ids."""
    rows, labels, ids, owners = (column[index] for column in sorted_rows())
    path = folder / {"sparse npz": "t.npz"}.get(form, f"t.{form}")
    names = Columns(id="row", subject="owner", label="class")
    match form:
        case "csv" | "csv.gz":
            head = ",".join([*(f"f{j}" for j in range(4)), "class", "row", "owner"])
            lines = [",".join(map(str, [*r, c, i, o])) for r, c, i, o in zip(rows, labels, ids, owners, strict=True)]
            text = "\n".join([head, *lines, ""]).encode()
            path.write_bytes(gzip.compress(text) if form == "csv.gz" else text)
            return path, dataclasses.replace(names, types={"label": int, "id": int, "subject": int})
        case "parquet":
            columns = {f"f{j}": rows[:, j] for j in range(4)} | {"class": labels, "row": ids, "owner": owners}
            pq.write_table(pa.table(columns), path, row_group_size=70)
            return path, names
        case "npz":
            np.savez(path, X=rows, y=labels, ids=ids, subjects=owners)
            return path, Columns()
        case "sparse npz":
            sparse.save_npz(path, sparse.csr_matrix(rows))
            np.savez(folder / "t_labels.npz", y=labels, ids=ids, subjects=owners)
            return path, Columns()
        case _:
            dump_svmlight_file(rows, labels, str(path), zero_based=False, query_id=owners)
            return path, Columns(subject="qid")


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("kernel", [None, "rbf"])
def test_the_order_of_a_file_and_the_budget_do_not_matter(tmp_path, form, kernel, monkeypatch):
    """The state is that of ``fit`` on the whole table, in memory."""
    rows, labels, ids, owners = sorted_rows()
    make = ErasableKernelClassifier(scaling=4.0, threshold=0.5) if kernel else ErasableClassifier(threshold=0.1)
    parameters = {"threshold": 0.5, "scaling": 4.0, "kernel": kernel} if kernel else {"threshold": 0.1}
    shuffles = [np.arange(ROWS), np.random.default_rng(1).permutation(ROWS)]
    for k, index in enumerate(shuffles):
        folder = tmp_path / str(k)
        folder.mkdir()
        path, columns = written(folder, form, index)
        if form == "svmlight":  # rows are known by their positions: another order is another table
            expected = clone(make).fit(rows[index], labels[index], subjects=owners[index])
        else:
            expected = clone(make).fit(rows, labels, ids=ids, subjects=owners)
        for block_bytes, budget in ((2**26, 2**28), (2**26, 3_000), (1_000, 1_500), (1_000, 2**28)):
            monkeypatch.setattr(learning, "stream_table", functools.partial(stream_table, block_bytes=block_bytes))
            model = folder / f"{block_bytes}-{budget}"
            done = learn_table(model, path, columns, parameters=parameters, options=LearnOptions(budget_bytes=budget))
            found = load(model)
            assert done.report.rows == ROWS
            assert found.core_ids_.tolist() == expected.core_ids_.tolist()
            if form in ("npz", "sparse npz", "svmlight"):  # without names of columns
                assert found.state_digest() == expected.state_digest()
            else:
                named = clone(expected).set_params(feature_names=["f0", "f1", "f2", "f3"])
                assert found.state_digest() == named.fit(rows, labels, ids=ids, subjects=owners).state_digest()
            assert done.hints == []


def test_a_pipe_is_learnt_in_hashed_order_where_it_fits_and_refused_where_not(tmp_path):
    path, columns = written(tmp_path, "csv", np.arange(ROWS))
    whole = tmp_path / "whole"
    learn_table(whole, path, columns, parameters={"threshold": 0.1})
    piped = tmp_path / "piped"
    learn_table(piped, io.BytesIO(path.read_bytes()), columns, parameters={"threshold": 0.1})
    assert piped.read_bytes() == whole.read_bytes()
    refused, small = tmp_path / "refused", LearnOptions(budget_bytes=5_000)
    with pytest.raises(InputError, match=r'only once.*order= "given"'):
        learn_table(refused, io.BytesIO(path.read_bytes()), columns, parameters={"threshold": 0.1}, options=small)
    assert not refused.exists()
    given = {"threshold": 0.1, "order": "given"}
    done = learn_table(refused, io.BytesIO(path.read_bytes()), columns, parameters=given, options=small)
    assert load(refused).order == "given"
    assert "long runs" in done.hints[0]
