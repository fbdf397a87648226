"""``erasable predict`` as a user types it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from erasable import load
from erasable.cli.app import run
from erasable.operations.scoring import scores_of
from tests.cli.session import MODEL, N, answered, content, learnt, nan, put, read_csv, refused, said, table
from tests.formats.models import rows

pytestmark = pytest.mark.usefixtures("folder")


def test_predict_finds_columns_by_name(folder, capsys):
    learnt()
    mixed = table().select(["height", "churned", "user_id", "age", "row_id", "weight"])
    mixed = mixed.append_column("note", pa.array(["anything"] * N))
    for name in ("mixed.parquet", "mixed.csv"):
        put(mixed, name)
        assert run(["predict", MODEL, name, "--id", "row_id", "--label", "churned", "-o", "p.csv"]) == 0
        found = read_csv("p.csv")
        X = rows(N)
        assert [r["prediction"] for r in found] == load(MODEL).predict(X).tolist()
        assert [r["id"] for r in found] == [f"row {i}" for i in range(N)]
        assert [r["known"] for r in found] == table()["churned"].to_pylist()
        right = np.mean([r["known"] == r["prediction"] for r in found])
        err = capsys.readouterr().err
        assert re.search(rf"accuracy +│ +{right:.4f} │", err)
        assert f"{N} rows with known labels" in err
        os.unlink("p.csv")


def test_probabilities_and_json_lines(folder, capsys):
    learnt()
    data = put(table())
    capsys.readouterr()
    assert run(["predict", MODEL, data, "--probabilities", "-o", "p.jsonl"]) == 0
    with open("p.jsonl", encoding="utf-8") as file:
        found = [json.loads(line) for line in file]
    assert set(found[0]) == {"prediction", "probability no", "probability yes"}
    P = np.array([[r["probability no"], r["probability yes"]] for r in found])
    assert P.tobytes() == load(MODEL).predict_proba(rows(N)).tobytes()
    assert run(["predict", MODEL, data, "--probabilities"]) == 0
    out, err = capsys.readouterr()
    printed = list(csv.DictReader(io.StringIO(out)))
    assert [float(r["probability yes"]) for r in printed] == P[:, 1].tolist()
    assert f"{N} rows" in err


def test_predict_as_json(folder, capsys):
    learnt()
    data = put(table())
    told = answered(capsys, ["predict", MODEL, data, "--label", "churned", "-o", "p.csv", "--json"])
    clf, known = load(MODEL), table()["churned"].to_numpy()
    scores = scores_of(known, clf.classes_, clf.predict_proba(rows(N)), clf.predict(rows(N)))
    expected = {"model": MODEL, "rows": N, "out": "p.csv", "scores": scores.as_json(), "warnings": []}
    assert told == {**expected, "unused_columns": ["row_id", "user_id"]}
    assert run(["predict", MODEL, data, "--json"]) == 2
    assert "-o FILE" in said(capsys)["error"]["message"]


def test_predicting_from_a_pipe_and_from_arrays(folder, monkeypatch):
    learnt()
    piped = content(put(table(), "data.csv"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    assert run(["predict", MODEL, "-", "-o", "p.csv"]) == 0
    np.savez("data.npz", X=rows(N), ids=np.arange(N))
    assert run(["predict", MODEL, "data.npz", "-o", "q.csv"]) == 0
    a, b = read_csv("p.csv"), read_csv("q.csv")
    assert [r["prediction"] for r in a] == [r["prediction"] for r in b]


def test_labels_that_the_model_does_not_know_are_counted(folder, capsys):
    learnt()
    known = table()["churned"].to_pylist()
    odd = pa.array([f"{c}?" if i < 7 else str(c) for i, c in enumerate(known)])
    data = put(table().drop_columns(["churned"]).append_column("churned", odd), "odd.csv")
    capsys.readouterr()
    assert run(["predict", MODEL, data, "--label", "churned", "-o", "p.csv"]) == 0
    assert f"warning: the labels of 7 of the {N} rows are none of the model's classes" in " ".join(
        capsys.readouterr().err.split()
    )
    told = answered(capsys, ["predict", MODEL, data, "--label", "churned", "-o", "p.csv", "--json"])
    assert told["scores"]["unknown_labels"] == 7
    assert len(told["warnings"]) == 1


def test_what_cannot_be_predicted(folder, capsys):
    learnt()
    put(table().drop_columns(["age"]), "less.csv")
    put(nan(table()), "nan.csv")
    data = put(table())
    (folder / "p.csv").write_text("old")
    with refused(capsys, folder) as no:
        no(["predict", MODEL, "less.csv", "-o", "p.csv"], 2)
        no(["predict", MODEL, "nan.csv", "-o", "p.csv"], 2)
        no(["predict", MODEL, data, "--id", "nothing", "-o", "p.csv"], 2, "nothing")
        no(["predict", MODEL, data, "-o", "p.xlsx"], 2, ".csv")
        no(["predict", MODEL, data, "-o", "nowhere/p.csv"], 5, "error: nowhere/p.csv: No such file")
        no(["predict", MODEL, "nowhere.csv"], 2, "nowhere.csv")
        no(["predict", "nowhere.erasable", data], 5, "nowhere.erasable")
    np.savez("wide.npz", X=np.zeros((3, 5)))
    with refused(capsys, folder) as no:
        no(["predict", MODEL, "wide.npz", "-o", "p.csv"], 2, "5", "3")
