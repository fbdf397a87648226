"""How good a model is, as ``erasable learn`` says it."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, load
from erasable.cli.app import run
from erasable.core.names import keyed_hash
from erasable.operations.scoring import scores_of
from tests.cli.session import answered, content, printed, refused

pytestmark = pytest.mark.usefixtures("folder")
NAMES = ["a", "b", "c", "d"]
TYPES = ["--id-type", "int", "--label-type", "int"]
OPTIONS = ["--id", "id", *TYPES, "--threshold", "0.01", "-o", "m.erasable"]


def made(n, *, seed=0, classes=2, first=0):
    X = np.random.default_rng(seed).standard_normal((n, len(NAMES)))
    y = np.digitize(X[:, 0] + X[:, 1], np.linspace(-1.5, 1.5, classes - 1)) if classes > 2 else X[:, 0] > 0
    return X, y.astype(int), np.arange(first, first + n)


def put(name, X, y, ids, names=NAMES):
    lines = [",".join([*names, "label", "id"])]
    lines += [",".join(map(repr, [*row, int(label), int(i)])) for row, label, i in zip(X.tolist(), y, ids, strict=True)]
    with open(name, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    return name


def learnt(*options, data="data.csv"):
    return run(["learn", data, *OPTIONS, *options])


@pytest.mark.parametrize("order", ["hashed", "given"])
def test_rows_are_scored_before_they_are_learnt_and_the_file_is_the_same(capsys, order):
    X, y, ids = made(2000)
    put("data.csv", X, y, ids)
    assert learnt("--no-score", "--order", order, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert told["score"] is None
    without = content("m.erasable")
    os.unlink("m.erasable")
    assert learnt("--order", order, "--json") == 0
    assert content("m.erasable") == without
    late = keyed_hash(ids, 0) >= np.uint64(7 * 2**61) if order == "hashed" else ids >= 1024
    early = ErasableClassifier(threshold=0.01, order=order).fit(X[~late], y[~late], ids=ids[~late])
    scores = scores_of(y[late], early.classes_, early.predict_proba(X[late]), early.predict(X[late]))
    told, wanted = json.loads(capsys.readouterr().out)["score"], scores.as_json()
    assert {name: told.pop(name) for name in ("classes", "confusion")} == {
        name: wanted.pop(name) for name in ("classes", "confusion")
    }
    assert told == pytest.approx(wanted)


def test_the_score_is_a_line_at_the_end(capsys):
    put("data.csv", *made(2000))
    assert learnt() == 0
    out, err = capsys.readouterr()
    assert re.search(r"Before they were learnt, 2\d\d of the last rows were predicted: accuracy 0\.9\d+ \(the la", out)
    assert err == ""


def test_a_table_to_test_with(capsys):
    put("data.csv", *made(500))
    X, y, ids = made(300, seed=1)
    put("test.csv", X[:, ::-1], y, ids, NAMES[::-1])  # columns are found by name
    assert learnt("--test", "test.csv", "--json") == 0
    clf = load("m.erasable")
    scores = scores_of(y, clf.classes_, clf.predict_proba(X), clf.predict(X))
    assert json.loads(capsys.readouterr().out)["test"] == scores.as_json()
    assert learnt("--test", "test.csv", data=put("more.csv", *made(200, first=500))) == 0
    clf, out = load("m.erasable"), capsys.readouterr().out
    assert "300 rows of test.csv" in out
    assert all(name in out for name in ("accuracy", "balanced accuracy", "AUC", "log-loss", "a constant"))
    assert re.search(rf"│ 0 +│ +{((clf.predict(X) == 0) & (y == 0)).sum()} │", out)


def test_many_classes_are_told_by_what_is_confused_most(capsys):
    put("data.csv", *made(600, classes=12))
    assert learnt("--test", "data.csv") == 0
    assert "predicted as" in capsys.readouterr().out


def test_a_table_that_cannot_be_tested_with_stops_learning_before_it_begins(folder, capsys):
    X, y, ids = made(200)
    put("data.csv", X, y, ids)
    put("other.csv", X, y, ids, ["a", "b", "c", "x"])
    with open("plain.csv", "w", encoding="utf-8") as file:
        file.write("a,b,c,d\n1,2,3,4\n")
    with refused(capsys, folder) as refuse:
        for test, says in (
            ("nowhere.csv", "nowhere.csv"),
            ("other.csv", "column"),
            ("plain.csv", "label"),
            ("-", "file"),
        ):
            refuse(["learn", "data.csv", *OPTIONS, "--test", test], 2, says)


def test_a_weak_model_is_a_warning(capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    put("noise.csv", X, rng.random(2000) < 0.1, np.arange(2000))
    err = printed(capsys, ["learn", "noise.csv", "--id", "id", "--threshold", "0.2", "-o", "weak"]).err
    assert "warning: the rows learnt are of 2 classes, and the core set holds" in err
    assert "warning: predictions are no better than a constant: lower --threshold" in err
    put("good.csv", *made(2000))
    assert (
        answered(capsys, ["learn", "good.csv", "--id", "id", "--threshold", "0.01", "-o", "good", "--json"])["warnings"]
        == []
    )


@pytest.mark.parametrize(("rows", "kernel"), [(3, []), (600, []), (3, ["--kernel", "rbf"])])
def test_a_table_of_one_class_is_refused_unless_others_are_to_come(capsys, rows, kernel):
    X, _, ids = made(rows)
    put("data.csv", X, np.ones(rows, dtype=int), ids)
    Path("model").unlink(missing_ok=True)
    command = ["learn", "data.csv", "--id", "id", *TYPES, *kernel, "-o", "model"]
    assert run(command) == 2
    assert "all labels are the same" in (told := capsys.readouterr().err)
    assert "--label" in told
    assert "--classes" in told
    assert not Path("model").exists()
    assert run([*command, "--classes", "0,1", "--json"]) == 0
    assert "all labels are the same" in json.loads(capsys.readouterr().out)["warnings"][0]
    assert load("model").classes_.tolist() == [0, 1]
    put("data.csv", X, np.zeros(rows, dtype=int), ids + rows)
    assert run([*command, "--classes", "0,2"]) == 2
    assert run(command) == 0
    assert run(["learn", "data.csv", "--target", "label", "--target-range", "0:2", "--classes", "0,1", "-o", "n"]) == 2


def test_probabilities_that_are_worse_than_a_constant_give_a_hint(capsys):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((2000, 4))
    put("data.csv", X, rng.random(2000) < 0.1, np.arange(2000))
    hint = 'hint: probabilities are worse than those of a constant (log-loss): --loss "logistic" makes better ones'
    for name, options in {"a": ["--loss", "squared"], "b": [], "c": ["--class-weight", "balanced"]}.items():
        assert run(["learn", "data.csv", "--id", "id", "--threshold", "0.2", "-o", name, *options]) == 0
        assert (hint in capsys.readouterr().err) is (name == "a")


def test_a_call_that_added_next_to_nothing_is_told_why(capsys):
    put("data.csv", *made(2000))
    put("more.csv", *made(2000, seed=1, first=2000))
    assert run(["learn", "data.csv", "--id", "id", "--threshold", "0.2", "-o", "m"]) == 0
    assert "next to nothing" not in capsys.readouterr().err  # of a new file
    text = printed(capsys, ["learn", "more.csv", "--id", "id", "-o", "m"]).err
    assert "hint: next to nothing was added: rows in known directions are not stored" in text
