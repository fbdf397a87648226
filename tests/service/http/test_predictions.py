"""Clients of the Open Inference Protocol, written from its specification alone."""

from __future__ import annotations

import json
import uuid

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableRegressor, load
from erasable.estimators import TableEncoder
from erasable.schemas import Category, Number, Schema
from erasable.service.requests import Case, Filing
from tests.service.http.conftest import IDS, PEOPLE, X, Y
from tests.waiting import until


@pytest.fixture
def http(site):
    return site.as_("predict")


def infer(http, name, inputs, **more):
    return http.post(f"/v2/models/{name}/infer", json={"inputs": inputs, **more})


def tensor(rows, name="X", kind="FP64"):
    return {"name": name, "shape": list(np.shape(rows)), "datatype": kind, "data": np.ravel(rows).tolist()}


def test_the_journey_of_an_inference_client(site, http):
    assert site.plain.get("/v2/health/live").json() == {"live": True}
    assert site.plain.get("/v2/health/ready").json() == {"ready": True}
    assert http.get("/v2").json()["name"] == "erasable"
    assert http.get("/v2/models/credit/ready").json() == {"ready": True}
    known = http.get("/v2/models/credit").json()
    assert known["inputs"] == [{"name": "X", "datatype": "FP64", "shape": [-1, 4]}]
    answer = infer(http, "credit", [tensor(X[:7])], id="seven").json()
    assert (answer["id"], answer["model_name"], answer["model_version"]) == ("seven", "credit", known["versions"][0])
    clf = load(site.configuration.model_files()["credit"])
    by_name = {one["name"]: one for one in answer["outputs"]}
    assert by_name["predict"]["datatype"] == "BYTES"
    assert by_name["predict"]["data"] == clf.predict(X[:7]).tolist()
    assert by_name["predict_proba"]["shape"] == [7, 2]
    np.testing.assert_array_equal(np.reshape(by_name["predict_proba"]["data"], (7, 2)), clf.predict_proba(X[:7]))


def test_many_rows_and_one_row_are_answered_alike(site, http):
    together = infer(http, "credit", [tensor(X)]).json()["outputs"][0]["data"]
    assert together[:5] == [
        infer(http, "credit", [tensor(X[i : i + 1])]).json()["outputs"][0]["data"][0] for i in range(5)
    ]


def test_outputs_can_be_chosen_and_versions_asked_for(http):
    version = http.get("/v2/models/credit").json()["versions"][0]
    answer = infer(http, "credit", [tensor(X[:2])], outputs=[{"name": "predict_proba"}]).json()
    assert [one["name"] for one in answer["outputs"]] == ["predict_proba"]
    assert http.get(f"/v2/models/credit/versions/{version}/ready").status_code == 200
    assert http.get("/v2/models/credit/versions/other").status_code == 404
    assert infer(http, "credit", [tensor(X[:2])], outputs=[{"name": "weights"}]).status_code == 400


def test_columns_with_names_come_as_tensors_of_their_names(site, http):
    columns = [tensor(X[:3, j], name) for j, name in reversed(list(enumerate("abcd")))]
    clf = load(site.configuration.model_files()["named"])
    assert infer(http, "named", columns).json()["outputs"][0]["data"] == clf._model.predict(X[:3]).tolist()


@pytest.mark.parametrize(
    "inputs",
    [
        [tensor(X[:2, :3])],
        [{**tensor(X[:2]), "shape": [3, 4]}],
        [tensor(X[:2]), tensor(X[:2], "Z")],
        [{**tensor(X[:1]), "data": [1, 2, None, 4]}],
        [{**tensor(X[:1]), "data": ["canary", 2, 3, 4]}],
        [{**tensor(X[:1]), "data": ["1", 2, 3, 4]}],
        [{**tensor(X[:1]), "shape": ["1", 4]}],
        [{**tensor(X[:1]), "shape": [True, 4]}],
        [{**tensor(X[:1]), "datatype": "FP128"}],
        [],
    ],
    ids=["narrow", "shape", "two", "missing", "text", "number", "height", "one", "type", "none"],
)
def test_tensors_that_do_not_fit_are_refused_in_the_words_of_the_protocol(http, inputs):
    answer = infer(http, "credit", inputs)
    assert answer.status_code == 400
    assert set(answer.json()) == {"error"}
    assert "canary" not in answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"d": ["1", 2, 3]},
        {"d": [None, 2, 3]},
        {"e": [1, 2, 3], "d": None},
        {"d": [1, 2]},
    ],
    ids=["text", "missing", "unknown", "short"],
)
def test_columns_that_do_not_fit_are_refused(http, change):
    columns = {name: X[:3, j].tolist() for j, name in enumerate("abcd")} | change
    given = [
        {"name": name, "shape": [len(data)], "datatype": "FP64", "data": data} for name, data in columns.items() if data
    ]
    assert infer(http, "named", given).status_code == 400


@pytest.mark.parametrize("cell", ["NaN", "Infinity", "1e999", '"canary"', "[", "{}", ""])
def test_cells_that_are_no_numbers_of_json_are_refused(http, cell):
    body = json.dumps({"inputs": [tensor(X[:1])]}).replace(str(X[0, 3].item()), cell)
    answer = http.post("/v2/models/credit/infer", content=body, headers={"Content-Type": "application/json"})
    assert (answer.status_code, set(answer.json())) == (400, {"error"})
    assert "canary" not in answer.text


def test_what_is_not_there_is_said(http):
    assert infer(http, "nobody", [tensor(X[:1])]).status_code == 404
    assert http.get("/v2/models/nobody").json().keys() == {"error"}


def test_an_inference_request_with_a_key_twice_is_refused(http):
    whole = json.dumps({"inputs": [tensor(X[:1])]})
    for body in (whole.replace('"data"', '"data": [1, 2, 3, 4], "data"'), '{"inputs": [], ' + whole[1:]):
        answer = http.post("/v2/models/credit/infer", content=body, headers={"Content-Type": "application/json"})
        assert (answer.status_code, answer.json()) == (400, {"error": "body: is not JSON, or has a key twice"})


def test_truth_values_are_0_and_1_as_in_the_tables_that_are_learnt(http):
    answers = [infer(http, "credit", [{**tensor([[1, 0, 1, 1]]), "data": [True, False, 1, True], "datatype": "BOOL"}])]
    answers += [infer(http, "credit", [tensor([[1, 0, 1, 1]])])]
    assert answers[0].json()["outputs"] == answers[1].json()["outputs"]


def test_raw_tables_go_to_models_with_a_schema_and_numbers_come_from_regressions(site, http):
    folder = site.configuration.models[0]
    schema = Schema([Category(name="town", values=["Bern", "Oslo"]), Number(name="age", range=(0, 100))])
    frame = {"town": ["Bern", "Oslo", None] * 100, "age": [30, 60.5, None] * 100}
    clf = ErasableClassifier(feature_map=TableEncoder(schema), threshold=0.02).fit(frame, Y, ids=IDS)
    reg = ErasableRegressor((-5, 5), threshold=0.05, feature_map=None).fit(X, np.clip(X[:, 0], -5, 5), ids=IDS)
    clf.save(folder / "credit.erasable", overwrite=True)
    reg.save(folder / "named.erasable", overwrite=True)
    until(lambda: http.get("/v2/models/credit").json()["inputs"][0]["name"] == "town")
    until(lambda: [one["name"] for one in http.get("/v2/models/named").json()["outputs"]] == ["predict"])
    columns = [
        {"name": "town", "shape": [3], "datatype": "BYTES", "data": ["Bern", "Rome", None]},
        {"name": "age", "shape": [3], "datatype": "FP64", "data": [30, 140, None]},
    ]
    raw = {"town": ["Bern", "Rome", None], "age": [30, 140, None]}
    assert infer(http, "credit", columns).json()["outputs"][0]["data"] == clf.predict(raw).tolist()
    for cell in (10**400, [], {}, "x" * 10_000, 1e308, True):
        odd = [
            {"name": "town", "shape": [2], "datatype": "BYTES", "data": [cell, "Bern"]},
            {"name": "age", "shape": [2], "datatype": "FP64", "data": [1, cell]},
        ]
        assert infer(http, "credit", odd).status_code in (200, 400)
    answer = infer(http, "named", [tensor(X[:3])]).json()
    assert [one["name"] for one in answer["outputs"]] == ["predict"]
    np.testing.assert_array_equal(answer["outputs"][0]["data"], reg.predict(X[:3]))
    assert json.dumps(answer)


def test_a_default_model_of_numbers_takes_missing_cells_and_answers_in_their_units(site, http, visitor):
    folder = site.configuration.models[0]
    before = http.get("/v2/models/named").json()["versions"]
    holes = np.where(X > 1.5, np.nan, X) * [1.0, 1e3, 1e-3, 20.0]
    clf = ErasableClassifier(missing="indicator", feature_names=["a", "b", "c", "d"])
    clf.fit(holes, Y, ids=IDS, subjects=PEOPLE).save(folder / "named.erasable", overwrite=True)
    until(lambda: http.get("/v2/models/named").json()["versions"] != before)
    right = clf.predict([[1.0, np.nan, 3.0, 1e300]]).tolist()
    cells = [1.0, None, 3.0, 1e300]
    assert infer(http, "named", [{**tensor([[0.0] * 4]), "data": cells}]).json()["outputs"][0]["data"] == right
    everything = site.as_("all")
    lines = "a,b,c,d,label,id,who\n12.5,94000,-0.25,7,yes,new-1,new@example.org\n"
    sent = {"content": lines, "headers": {"Content-Type": "text/csv"}}
    learnt = everything.post("/v1/learn?model=named&label=label&id=id&subject=who", **sent)
    assert learnt.status_code == 200, learnt.text
    asked = str(uuid.uuid4())
    who = (site.service.identity("email", "raw", "new@example.org"),)
    site.service.accept_each([Filing(asked, "access", who, asked.encode(), (), "all", Case("units"))])
    until(lambda: site.service.ledger.entry(asked).settled)
    (row,) = everything.get(f"/v1/access/{asked}").json()["named"]["rows"]
    shown = {name: cell["text"] for name, cell in row["cells"].items()}
    assert shown == {"a": "12.502 ± 0.006", "b": "94000 ± 200", "c": "-0.2498 ± 0.0004", "d": "7.000 ± 0.003"}
    visitor.enter(site.tokens["all"])
    page = visitor.get(f"/requests/{asked}/stored").text
    assert "the log map" in page
    assert f"<dt>b</dt><dd>{shown['b']}</dd>" in page
