"""Regressions at the command line: learn, predict, forget, verify, inspect, export."""

from __future__ import annotations

import csv
import json
import re

import numpy as np
import pyarrow as pa
import pytest

from erasable import ErasableRegressor, load
from erasable.cli.app import run
from erasable.operations.scoring import regression_scores_of
from tests.cli.session import answered, content, printed, put, refused

pytestmark = pytest.mark.usefixtures("folder")
OPTIONS = ["--id", "id", "--subject", "who", "--scaling", "10", "-o", "m"]
ONE = ["--target", "price", "--target-range", "0:1000", "--ignore", "area"]
TWO = ["--target", "price", "--target", "area", "--target-range", "0:1000", "--target-range=-20:20"]


def homes(n=600, seed=0, first=0, **changes):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 3))
    columns = {
        "a": X[:, 0],
        "price": 500 + 100 * X[:, 0] - 30 * X[:, 1] + 5 * rng.standard_normal(n),
        "b": X[:, 1],
        "area": 3 * X[:, 2],
        "c": X[:, 2],
        "id": np.arange(first, first + n),
        "who": [f"u{i % 50}" for i in range(n)],
    }
    return pa.table({**columns, **changes})


def numbers(table):
    return tuple(np.stack([table[name].to_numpy() for name in names], axis=1) for names in ("abc", ["price", "area"]))


@pytest.mark.parametrize("form", ["data.csv", "data.parquet"])
def test_a_table_gives_the_model_that_python_gives(form, capsys):
    X, y = numbers(homes())
    put(homes(), form)
    types = ["--id-type", "int"] if form == "data.csv" else []
    out = printed(capsys, ["learn", form, *ONE, *OPTIONS, *types]).out
    assert "R² 0.9" in out
    made = ErasableRegressor((0, 1000), scaling=10.0, feature_names=["a", "b", "c"])
    made.fit(X, y[:, 0], ids=np.arange(600), subjects=[f"u{i % 50}" for i in range(600)])
    assert load("m").state_digest() == made.state_digest()
    assert run(["learn", form, *TWO, *OPTIONS[:-1], "two", *types]) == 0
    assert load("two").get_params()["target_range"] == ((0.0, 1000.0), (-20.0, 20.0))
    assert np.array_equal(load("two").coef_[0], load("m").coef_)


def test_a_label_is_a_target_where_a_range_is_declared_and_archives_have_theirs(capsys):
    X, y = numbers(homes())
    put(homes(), "data.csv")
    assert run(["learn", "data.csv", "--label", "price", "--target-range", "0:1000", "--ignore", "area", *OPTIONS]) == 0
    made = load("m")
    np.savez("data.npz", X=X, y=y, ids=np.arange(600))
    assert run(["learn", "data.npz", "--target-range=-2000:2000", "--scaling", "10", "-o", "n"]) == 0
    assert load("n").predict(X).shape == (600, 2)
    assert made.predict(X).shape == (600,)
    assert (
        answered(capsys, ["predict", "n", "data.npz", "--label", "label", "--json", "-o", "p.csv"])["scores"]
        == regression_scores_of(y, load("n").predict(X)).as_json()
    )


def test_it_is_scored_forgotten_and_verified(capsys):
    put(homes(), "data.csv")
    put(homes(200, seed=1, first=1000), "test.csv")
    X, y = numbers(homes(200, seed=1))
    told = answered(capsys, ["learn", "data.csv", *ONE, *OPTIONS, "--test", "test.csv", "--json"])
    assert told["test"] == regression_scores_of(y[:, 0], load("m").predict(X)).as_json()
    assert told["score"]["r2"] > 0.95
    assert told["warnings"] == []
    out = printed(
        capsys, ["learn", "test.csv", "--target", "price", "--ignore", "area", *OPTIONS, "--test", "test.csv"]
    ).out
    assert all(words in out for words in ("R²", "mean absolute error", "a constant"))
    before = load("m").n_core_
    owner = load("m").model_.core.subjects()[0]
    told = answered(capsys, ["forget", "m", "--subject", owner, "--json"])
    assert told["core_rows_removed"] == before - load("m").n_core_ > 0
    assert told["warnings"] == []
    assert load("m").state_digest() in printed(capsys, ["verify", "m"]).out


def test_predictions_stand_beside_what_is_known(capsys):
    put(homes(), "data.csv")
    assert run(["learn", "data.csv", *TWO, *OPTIONS]) == 0
    X, y = numbers(homes())
    text = printed(
        capsys, ["predict", "m", "data.csv", "--id", "id", "--target", "price", "--target", "area", "-o", "p.csv"]
    ).err
    assert "R²" in text
    with open("p.csv", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == ["id", "prediction price", "prediction area", "known price", "known area"]
    found = np.array([[float(r["prediction price"]), float(r["prediction area"])] for r in rows])
    assert np.array_equal(found, load("m").predict(X))
    assert [float(r["known area"]) for r in rows] == y[:, 1].tolist()
    assert run(["predict", "m", "data.csv", "-o", "q.jsonl"]) == 0
    with open("q.jsonl", encoding="utf-8") as file:
        assert list(json.loads(file.readline())) == ["prediction 1", "prediction 2"]


def test_what_a_file_says_of_itself(capsys):
    put(homes(), "data.csv")
    assert run(["learn", "data.csv", *TWO, *OPTIONS]) == 0
    out = printed(capsys, ["inspect", "m", "--rows"]).out
    assert "linear regression" in out
    assert re.search("target ranges +0 to 1000, -20 to 20", out)
    assert "classes" not in out
    assert "id, subject, targets" in out
    told = answered(capsys, ["inspect", "m", "--rows", "--json"])
    assert (told["classes"], told["target_ranges"]) == (0, [[0.0, 1000.0], [-20.0, 20.0]])
    y = dict(zip(map(str, range(600)), numbers(homes())[1].tolist(), strict=True))
    first = told["rows"][0]
    text = printed(capsys, ["inspect", "m", "--id", first["id"]]).out
    assert f"label: {first['targets'][0]!r}, {first['targets'][1]!r}" in text
    for row in told["rows"]:
        assert row["targets"] == pytest.approx(y[row["id"]], abs=1000 / 2**16)


def test_what_cannot_be_learnt_is_refused(folder, capsys):
    put(homes(), "data.csv")
    put(homes(price=[None] + [1.0] * 599), "gaps.csv")
    put(homes(label=np.arange(600) % 2), "classes.csv")
    assert run(["learn", "data.csv", *ONE, *OPTIONS]) == 0
    assert run(["learn", "classes.csv", "--ignore", "price", *OPTIONS[:-1], "c"]) == 0
    before = content("m")
    new = [*OPTIONS[:-1], "new", "--ignore", "area"]
    with refused(capsys, folder) as refuse:
        for options, says in (
            (["data.csv", "--target", "price", *new], "--target-range is required"),
            (["data.csv", "--target", "price", "--target-range", "0:600", *new], "outside of the declared range"),
            (["data.csv", "--target", "price", "--target-range", "600", *new], "two numbers with a colon"),
            (["data.csv", "--target", "price", "--target-range", "9:1", *new], "lower end first"),
            (["data.csv", "--target", "cost", "--target-range", "0:1000", *new], "no column 'cost'"),
            (["data.csv", "--target", "id", "--target-range", "0:1000", *new], "another role"),
            (["gaps.csv", "--target", "price", "--target-range", "0:1000", *new], "missing"),
            (["data.csv", *ONE, "--loss", "logistic", *OPTIONS[:-1], "new"], "loss"),
            (["data.csv", *ONE, "--kernel", "rbf", *OPTIONS[:-1], "new"], "leave one of them out"),
            (["data.csv", *ONE, "--label-type", "int", *OPTIONS[:-1], "new"], "for labels"),
            (
                ["data.csv", "--target", "price", "--target-range", "0:999", *OPTIONS, "--ignore", "area"],
                "target_range",
            ),
            (["data.csv", *TWO, *OPTIONS], "target_range"),
            (["classes.csv", "--target", "price", *OPTIONS[:-1], "c"], "holds a classifier"),
        ):
            refuse(["learn", *options], 2, says)
        refuse(["predict", "m", "data.csv", "--probabilities"], 2, "no probabilities")
        refuse(["predict", "c", "data.csv", "--target", "price"], 2, "for regressions")
    assert content("m") == before
