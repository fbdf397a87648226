"""The experiment measures what it says, continues where it stopped, and refuses early what cannot work."""

from __future__ import annotations

import dataclasses
import json
import shutil

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.datasets import dump_svmlight_file

from erasable import ErasableClassifier
from erasable.errors import ConfigurationError, ErasableError, InputError
from erasable.research import measuring
from erasable.research.baselines import RetrainedRidge
from erasable.research.reproduce import (
    METHODS,
    ORDERS,
    SHARDS,
    Settings,
    as_in_the_paper,
    hints,
    in_detail,
    reproduce,
)
from erasable.research.reproduce import experiment as engine
from erasable.research.reproduce.figures import draw_all
from erasable.research.reproduce.requests import leverages, load, requests
from erasable.research.reproduce.settings import complete
from erasable.tables import Split
from tests.research.reproduce.cases import no_pictures, small, table_file


@pytest.fixture(autouse=True)
def _quickly(hurried, monkeypatch):
    monkeypatch.setattr("erasable.research.reproduce.draw_all", no_pictures)


@pytest.fixture
def path(tmp_path):
    return table_file(tmp_path)


@pytest.fixture(scope="module")
def run_once(tmp_path_factory):
    """A finished run and the folder of its data and its results."""
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(measuring, "settle", lambda: None)
        patch.setattr("erasable.research.reproduce.draw_all", no_pictures)
        return reproduce(small(table_file(folder)), folder / "out"), folder


@pytest.fixture
def finished(run_once, tmp_path):
    """The same run, to be changed: path of its data, folder of its results, the results."""
    results, folder = run_once
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True)
    return str(tmp_path / "small.npz"), tmp_path / "out", results


def test_every_method_is_measured_from_training_to_the_last_deletion(path, tmp_path):
    results = reproduce(small(path, methods=tuple(METHODS), quick=False), tmp_path / "out")
    assert list(results["methods"]) == list(METHODS)
    n = results["data"]["rows"]
    for m in results["methods"].values():
        assert m["training_s"] > 0.0
        assert m["deletion_s"] > 0.0
        assert m["requests"] == 60
        assert m["deleted"] == [0, 20, 40, 60]
        assert len(m["accuracy"]["mean"]) == len(m["balanced"]["mean"]) == len(m["accuracy_one_at_a_time"]) == 4
        assert m["stored_bytes"] > 0
        assert m["peak_training_bytes"] > 0
    assert results["methods"]["retrained"]["stored_rows"] == n
    assert results["methods"]["sisa"]["stored_rows"] == n
    assert 0 < results["methods"]["erasable"]["stored_rows"] < n
    ours, logistic = (results["methods"][name] for name in ("erasable", "logistic"))
    assert logistic["stored_rows"] == ours["stored_rows"]  # the same core rows
    assert logistic["accuracy"]["mean"] != ours["accuracy"]["mean"]
    assert {c["method"] for c in results["checks"] if c["what"].startswith("state digest")} >= {"erasable", "logistic"}
    sums, retrained, subsample = (results["methods"][name] for name in ("sums", "retrained", "subsample"))
    assert sums["accuracy"] == retrained["accuracy"]  # the same model, bit for bit
    assert (sums["stored_rows"], sums["stored_bytes"] < ours["stored_bytes"]) == (0, True)
    assert 0 < subsample["stored_rows"] < n
    for name in ("sums", "newton", "sisa"):  # what makes the comparison fair stands below the table
        assert any(results["methods"][name]["note"] in note for note in as_in_the_paper(results).notes)
    assert all(check["same"] for check in results["checks"])
    assert json.loads((tmp_path / "out" / "results.json").read_text()) == results


def test_the_accuracies_are_those_of_the_models(finished):
    path, _, results = finished
    settings = small(path)
    split = load(settings)
    full = complete(settings, split)
    gone = [key for request in requests(full, split, np.array([], dtype=int)) for key in request]
    train, test = split.train, split.test
    ours = ErasableClassifier(1.0, kappa=0.4, order="given", loss="squared", feature_map=None)
    for name, model in (("erasable", ours), ("retrained", RetrainedRidge())):
        curve = results["methods"][name]["accuracy"]["mean"]
        model.fit(train.X, train.y, ids=train.ids)
        assert curve[0] == model.score(test.X, test.y)
        model.forget(ids=gone)
        assert curve[-1] == model.score(test.X, test.y)


def test_pictures_and_a_page_that_needs_nothing_else(path, tmp_path, monkeypatch):
    monkeypatch.setattr("erasable.research.reproduce.draw_all", draw_all)
    out = tmp_path / "out"
    reproduce(small(path, repeats=3), out, command="erasable reproduce <small>")
    for name in ("accuracy", "tradeoff", "figure1"):
        assert (out / f"{name}.png").stat().st_size > 10_000
        assert "<svg" in (out / f"{name}.svg").read_text()
    page = (out / "report.html").read_text()
    assert page.count("<svg") == 3
    assert "erasable reproduce &lt;small&gt;" in page
    for foreign in ("<script", "http-equiv", "src=", "@import", "url(http"):
        assert foreign not in page


def test_a_stopped_run_continues_and_measures_nothing_twice(path, tmp_path, monkeypatch):
    out, settings = tmp_path / "out", small(path)
    real, calls = engine.timed_requests, []

    def stopping(model, part, method, limit):
        calls.append(method.title)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return real(model, part, method, limit)

    monkeypatch.setattr(engine, "timed_requests", stopping)
    with pytest.raises(KeyboardInterrupt):
        reproduce(settings, out)
    kept = json.loads((out / "journal.json").read_text())["entries"]
    assert "one/0" in kept
    assert "one/1" not in kept
    calls.clear()
    calls.extend([""] * 10)  # no more stopping
    results = reproduce(settings, out)
    assert len(calls) == 10 + 2 * 2  # two stretches were left, two methods each
    again = json.loads((out / "journal.json").read_text())["entries"]
    assert {key: again[key] for key in kept} == kept
    assert all(check["same"] for check in results["checks"])
    monkeypatch.setattr(engine, "timed_requests", None)
    assert reproduce(settings, out) == results  # nothing left to measure


def test_a_folder_with_another_run_is_refused_and_fresh_starts_over(finished):
    path, out, _ = finished
    with pytest.raises(ConfigurationError, match=r"other settings \(random_state\).*--fresh"):
        reproduce(small(path, random_state=1), out)
    assert reproduce(small(path, random_state=1), out, fresh=True)["settings"]["random_state"] == 1


def test_other_data_under_the_same_name_is_another_run(finished, tmp_path):
    path, out, _ = finished
    table_file(tmp_path, seed=1)
    with pytest.raises(ConfigurationError, match=r"other settings \(file\)"):
        reproduce(small(path), out)


def test_a_damaged_journal_is_refused(path, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal.json").write_text("{")
    with pytest.raises(ConfigurationError, match="damaged"):
        reproduce(small(path), out)


def test_a_method_past_its_time_limit_is_estimated_and_says_so(path, tmp_path):
    results = reproduce(small(path, time_limit=1e-9), tmp_path / "out")
    for m in results["methods"].values():
        assert m["deletion_estimated"]
        assert m["requests_timed"] == 3  # one in each stretch
        assert m["stored_rows"] > 0
    assert all(check["same"] for check in results["checks"])  # the rest was deleted all the same


@pytest.mark.parametrize("order", ORDERS)
def test_requests_name_the_rows_of_the_order(order, tmp_path):
    settings = small(table_file(tmp_path, subjects=True), order=order)
    split = load(settings)
    settings = complete(settings, split)
    core = np.array([7, 3, 9])
    wanted = requests(settings, split, core)
    place = {key: i for i, key in enumerate(split.train.ids.tolist())}
    rows = [place[key] for request in wanted for key in request]
    assert len(rows) == len(set(rows)) >= 60
    assert wanted == requests(settings, split, core)
    if order not in ("oldest", "newest"):
        assert wanted != requests(settings, split, core, repeat=1)
    if order == "label":
        assert set(split.train.y[rows].tolist()) == {-1}
    if order == "core-first":
        assert rows[:3] == [7, 3, 9]
    if order == "oldest":
        assert rows == list(range(60))
    if order == "newest":
        assert rows == list(range(split.train.n_rows))[::-1][:60]
    if order == "weights":
        found = leverages(split.train.X, 1.0)
        X = split.train.X
        np.testing.assert_allclose(found, np.diag(X @ np.linalg.inv(X.T @ X + np.eye(X.shape[1])) @ X.T))
        assert found[rows].mean() > found.mean()
    if order == "subject":
        owners = np.asarray(split.train.subjects)
        for request in wanted:
            mine = {owners[place[key]] for key in request}
            assert len(mine) == 1
            assert len(request) == np.count_nonzero(owners == mine.pop())


@pytest.mark.parametrize("order", [order for order in ORDERS if order != "subject"])
def test_another_class_can_be_the_one_that_leaves(path, order):
    settings = small(path, order=order, delete_label="1")
    split = load(settings)
    rows = [r[0] for r in requests(complete(settings, split), split, np.array([7, 3, 9]))]
    place = {key: i for i, key in enumerate(split.train.ids.tolist())}
    rows = [place[r] for r in rows]
    assert set(split.train.y[rows].tolist()) == {1}
    assert len(set(rows)) == 60
    if order in ("oldest", "newest"):
        assert rows == sorted(rows, reverse=order == "newest")


def test_rows_of_zeros_can_be_drawn_by_their_weight_too():
    X = np.array([[1.0, 0.0], [0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    found = leverages(X, 1.0)
    np.testing.assert_allclose(found, [1 / 3, 0.0, 1 / 3, 1 / 2], atol=1e-300)
    assert found[1] > 0.0
    np.testing.assert_allclose(leverages(sp.csr_array(X), 1.0), found)


def test_a_file_is_learnt_in_its_own_order_where_rows_leave_by_age(path):
    with np.load(path) as file:
        X = file["X"]
    for order, sorted_ in (("oldest", True), ("newest", True), ("uniform", False)):
        train = load(small(path, order=order)).train
        place = {tuple(np.round(row / np.linalg.norm(row), 9)): i for i, row in enumerate(X)}
        rows = [place[tuple(np.round(row, 9))] for row in train.X]
        assert (rows == sorted(rows)) is sorted_


def test_who_has_an_intercept_and_what_the_shards_train_can_be_chosen():
    for intercept, ours, theirs in (("all", True, True), ("peers", False, True), ("none", False, False)):
        for shards in SHARDS:
            s = Settings("margin", kappa=0.2, capacity=1.0, intercept=intercept, shards=shards)
            models = {name: METHODS[name].build(s, 1000, 0.1) for name in METHODS}
            assert models["erasable"].fit_intercept is models["logistic"].fit_intercept is ours
            assert models["sisa"].estimator.fit_intercept is theirs
            assert (
                type(models["sisa"].estimator).__name__ == {"sgd": "SGDClassifier", "ridge": "RidgeClassifier"}[shards]
            )
            peers = ("retrained", "sums", "newton", "certified", "subsample")
            assert {models[m].fit_intercept for m in peers} == {theirs}


def test_the_falling_curves_of_the_paper_where_the_peers_have_an_intercept():
    s = Settings("margin-uniform", quick=True, intercept="peers", shards="ridge")
    split = load(s)
    s = complete(s, split)
    gone = [key for request in requests(s, split, np.array([], dtype=int)) for key in request]
    last = {}
    for name in ("erasable", "retrained", "sisa"):
        model = METHODS[name].build(s, split.train.n_rows, 0.1)
        model.fit(split.train.X, split.train.y, ids=split.train.ids)
        assert model.score(split.test.X, split.test.y) > 0.99
        model.forget(ids=gone)
        last[name] = model.score(split.test.X, split.test.y)
    assert last["erasable"] > 0.99 > 0.985 > max(last["retrained"], last["sisa"])


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"methods": ("erasable", "sisa2")}, "--methods must be among erasable, .*; got sisa2"),
        ({"methods": ()}, "--methods must be among"),
        ({"methods": ("sisa", "sisa")}, "twice"),
        ({"order": "random"}, "--order must be one of label, uniform"),
        ({"intercept": "some"}, "--intercept must be one of all, none, peers; got 'some'"),
        ({"shards": "svm"}, "--shards must be one of sgd, ridge"),
        ({"order": "subject", "delete_label": "1"}, "leave --delete-label out"),
        ({"deletions": 300, "order": "newest", "delete_label": "1"}, "training rows of that class"),
        ({"deletions": 0}, "--deletions must be a positive integer"),
        ({"deletions": 300}, r"--deletions 300 is more than the \d+ training rows of that class"),
        ({"deletions": 320, "order": "uniform"}, "of which one must stay"),
        ({"order": "subject"}, "--subject"),
        ({"delete_label": "7"}, "none of the 2 classes"),
        ({"kappa": 1.5}, "--kappa must be a number .* 0 and .*1"),
        ({"capacity": 0.0}, "--capacity must be (a )?positive"),
        ({"capacity": 1e5}, "erasable cannot take this data: nothing could ever be selected"),
        ({"time_limit": 0.0}, "--time-limit must be (a )?positive"),
        ({"repeats": 0}, "--repeats must be a positive integer"),
        ({"random_state": -1}, "--random-state must be a non-negative integer"),
        ({"random_state": None}, "--random-state must be a non-negative integer"),
        ({"label": "churned"}, "an .npz file does not have"),
    ],
)
def test_what_cannot_work_is_refused_before_any_long_work(path, tmp_path, monkeypatch, changes, message):
    monkeypatch.setattr(engine._Experiment, "training", lambda *_: pytest.fail("work has started"))
    settings = small(path, **changes)
    with pytest.raises(ErasableError, match=message):
        reproduce(settings, tmp_path / "out")


def test_a_model_whose_rows_are_all_gone_counts_as_always_wrong(path, tmp_path):
    results = reproduce(small(path, order="core-first", deletions=300), tmp_path / "out")
    ours, retrained = results["methods"]["erasable"], results["methods"]["retrained"]
    assert ours["stored_rows"] < 300
    assert ours["accuracy"]["mean"][-1] == 0.0
    assert retrained["accuracy"]["mean"][-1] > 0.5
    assert "cannot predict" in in_detail(results).notes[0]


def test_purchase_without_its_files_says_what_to_get(tmp_path):
    with pytest.raises(ConfigurationError, match=r"--data FOLDER with data1.npz and data2.npz"):
        reproduce(small("purchase"), tmp_path / "out")
    with pytest.raises(InputError, match=r"data1\.npz"):
        reproduce(small("purchase", data=str(tmp_path)), tmp_path / "out")


def test_one_class_is_refused(tmp_path):
    np.savez(tmp_path / "one.npz", X=np.eye(20), y=np.ones(20, dtype=int))
    with pytest.raises(ConfigurationError, match="one class"):
        reproduce(small(str(tmp_path / "one.npz")), tmp_path / "out")


def test_a_folder_that_cannot_be_written_is_refused(path, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="cannot be used"):
        reproduce(small(path), tmp_path / "file" / "out")


def test_few_subjects_make_few_points_and_the_count_is_that_of_their_rows(tmp_path):
    path = table_file(tmp_path, subjects=True)
    results = reproduce(small(path, order="subject", deletions=25, points=40), tmp_path / "out")
    ours = results["methods"]["erasable"]
    assert results["settings"]["points"] == ours["requests"] < 25
    assert ours["deleted"][-1] == results["settings"]["deletions"] >= 25
    assert str(ours["deleted"][-1]) in as_in_the_paper(results).title


def test_a_row_of_nobody_is_a_request_of_its_own(tmp_path):
    settings = small(table_file(tmp_path, subjects=True), order="subject")
    split = load(settings)
    owners = np.asarray(split.train.subjects, dtype=object)
    owners[:50] = ""
    split = Split(dataclasses.replace(split.train, subjects=owners), split.test)
    nobody = set(split.train.ids[:50].tolist())
    for request in requests(complete(settings, split), split, np.array([], dtype=int)):
        assert len(request) == 1 or not set(request) & nobody


def test_a_row_of_several_goes_with_the_first_of_them(tmp_path):
    settings = small(table_file(tmp_path, subjects=True), order="subject")
    split = load(settings)
    owners = [[f"p{i % 40}", f"q{i % 30}"] for i in range(split.train.n_rows)]
    split = Split(dataclasses.replace(split.train, subjects=owners), split.test)
    people = {key: set(who) for key, who in zip(split.train.ids.tolist(), owners, strict=True)}
    asked = requests(complete(settings, split), split, np.array([], dtype=int))
    gone: set = set()
    for request in asked:  # all that is left of one of them
        theirs = [{key for key in people if who in people[key]} - gone for who in people[request[0]]]
        assert set(request) in theirs
        gone |= set(request)
    assert len(gone) == sum(map(len, asked))


def test_fresh_throws_nothing_away_before_the_settings_are_checked(finished):
    path, out, _ = finished
    before = (out / "journal.json").read_bytes()
    with pytest.raises(ConfigurationError):
        reproduce(small(path, order="bogus"), out, fresh=True)
    assert (out / "journal.json").read_bytes() == before


def test_a_run_that_was_stopped_before_its_digests_still_compares_them(finished):
    path, out, results = finished
    journal = json.loads((out / "journal.json").read_text())
    del journal["entries"]["digests/one"]
    (out / "journal.json").write_text(json.dumps(journal))
    again = reproduce(small(path), out)
    assert again["checks"] == results["checks"]
    assert "digest" in again["checks"][0]["what"]


def test_quick_leaves_alone_what_the_caller_chose(path):
    split = load(small(path))
    quick = complete(Settings(path, quick=True), split)
    chosen = complete(Settings(path, quick=True, repeats=5, points=30, time_limit=9.0), split)
    assert (quick.repeats, quick.points, quick.time_limit) == (1, 10, 1.0)
    assert (chosen.repeats, chosen.points, chosen.time_limit) == (5, 30, 9.0)


def test_quick_looks_at_a_part_of_a_file(tmp_path, monkeypatch):
    path = table_file(tmp_path, n=2000, d=5)
    assert load(small(path, quick=False)).train.n_rows == 1600
    monkeypatch.setattr("erasable.research.reproduce.requests._QUICK_ROWS", 300)
    split = load(small(path, quick=True))
    assert (split.train.n_rows, split.test.n_rows) == (300, 300)
    assert len(set(split.train.ids.tolist())) == 300
    assert complete(Settings(path, quick=True), split).deletions == 120
    monkeypatch.setattr("erasable.research.reproduce.requests._QUICK_NUMBERS", 500)
    assert load(small(path, quick=True)).train.n_rows == 100
    assert load(small(path, quick=False)).train.n_rows == 1600


def test_sparse_rows_with_wide_indices_reach_every_method(tmp_path):
    rng = np.random.default_rng(0)
    X = sp.random_array((300, 30), density=0.2, rng=rng, format="csr")
    dump_svmlight_file(X, np.where(X.sum(axis=1) > 3.0, 1, -1), str(tmp_path / "wide.svmlight"))
    settings = small(str(tmp_path / "wide.svmlight"), methods=tuple(METHODS), deletions=8, points=2)
    assert all(check["same"] for check in reproduce(settings, tmp_path / "out")["checks"])


def test_a_hint_says_which_kappa_would_do_better(tmp_path):
    results = reproduce(small(table_file(tmp_path, n=800, d=12), kappa=0.05), tmp_path / "out")
    assert "--kappa" in hints(results)[0]
    assert hints(results)[0].split(". ")[0] in (tmp_path / "out" / "report.html").read_text()
