"""Losses, weights and samples on the command line: the file is that of the classifier with these parameters."""

from __future__ import annotations

import io
import math
import sys

import numpy as np
import pytest

from erasable import ErasableClassifier, load, verify
from erasable.cli.app import run
from tests.cli.session import LEARN, MODEL, N, answered, content, printed, put, refused, table

pytestmark = pytest.mark.usefixtures("folder")

WEIGHTS = np.arange(N) % 5 / 2
NAMES = ["age", "weight", "height"]


def same(weights=None, **parameters):
    """The classifier that learns the same rows in Python."""
    found = table()
    X = np.column_stack([found[c].to_numpy() for c in NAMES])
    clf = ErasableClassifier(**{"threshold": 0.1, "feature_names": NAMES, **parameters})
    names = {"ids": found["row_id"].to_pylist(), "subjects": found["user_id"].to_pylist()}
    return clf.fit(X, found["churned"].to_pylist(), **names, sample_weight=weights, allow_no_subject=True)


CASES = {
    "logistic": (["--loss", "logistic", "--alpha", "0.25"], {"loss": "logistic", "alpha": 0.25}),
    "spread": (["--head-scaling", "spread"], {"head_scaling": "spread", "alpha": 1.0}),
    "balanced": (["--class-weight", "balanced"], {"class_weight": "balanced"}),
    "class weights": (
        ["--class-weight", "yes=2", "--class-weight", "no=0.5"],
        {"class_weight": {"yes": 2.0, "no": 0.5}},
    ),
    "a sample": (["--sample-rate", "0.3", "--random-state", "5"], {"sample_rate": 0.3, "random_state": 5}),
    "only a sample": (
        ["--sample-rate", "0.3", "--threshold", "inf", "--order", "given", "--random-state", "5"],
        {"sample_rate": 0.3, "threshold": math.inf, "order": "given", "random_state": 5},
    ),
}


@pytest.mark.parametrize(
    ("name", "form"),
    [
        *zip(CASES, ["pipe", "csv", "parquet", "csv", "csv", "parquet"], strict=True),
        ("class weights", "pipe"),
        ("a sample", "pipe"),
    ],
)
def test_a_head_is_that_of_the_classifier(monkeypatch, capsys, name, form):
    options, parameters = CASES[name]
    data = put(table(much=WEIGHTS), f"data.{'csv' if form != 'parquet' else form}")
    if form == "pipe":
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content(data))))
        data = "-"
        options = [*options, "--label-type", "str"]
    options = options if "--threshold" in options else [*options, "--threshold", "0.1"]
    text = printed(capsys, ["learn", data, *LEARN, "--weight", "much", *options]).out
    assert "12 of these rows have a weight that rounds to zero, and were left out." in text
    clf = load(MODEL)
    assert clf.state_digest() == same(WEIGHTS, **parameters).state_digest() == verify(clf).digest
    for parameter, value in parameters.items():
        assert getattr(clf, parameter) == value


def test_inspect_shows_it(capsys):
    options = ["--loss", "logistic", "--class-weight", "yes=2", "--sample-rate", "0.3", "--threshold", "inf"]
    assert run(["learn", put(table()), *LEARN, *options, "--alpha", "0.25"]) == 0
    capsys.readouterr()
    assert run(["inspect", MODEL]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    told = {name.strip(): value.strip() for name, value in lines.items()}
    assert told["head"] == "logistic-spread"
    assert (told["alpha"], told["threshold"], told["sample rate"]) == ("0.25", "inf", "0.3")
    assert told["class weight"] == "given for 1 classes"
    found = answered(capsys, ["inspect", MODEL, "--json"])
    assert found["threshold"] is None  # JSON has no number for it
    assert found["configuration"]["threshold"] == "inf"
    assert float.fromhex(found["configuration"]["alpha"]) == 0.25
    assert found["configuration"]["class_weight"]["weights"] == [["yes", "0x1.0000000000000p+1"]]


def test_labels_of_class_weights_are_read_as_those_of_the_table(capsys, folder):
    numbers = [i % 3 for i in range(N)]
    data = put(table(churned=numbers), "data.csv")
    options = ["--threshold", "0.1", "--class-weight", "2=4", "--class-weight", "7=1"]
    told = printed(capsys, ["learn", data, *LEARN, *options]).err
    assert "warning: no row learnt has 1 of the labels that --class-weight names: check how they are written." in told
    assert "7" not in told
    assert load(MODEL).class_weight == {"2": 4.0, "7": 1.0}
    more = put(table(churned=numbers, row_id=[f"more {i}" for i in range(N)]), "more.csv")
    assert run(["learn", more, *LEARN, *options]) == 0  # in agreement with the file
    capsys.readouterr()
    again = put(table(churned=numbers, row_id=[f"again {i}" for i in range(N)]), "again.csv")
    with refused(capsys, folder) as no:
        no(["learn", again, *LEARN, "--class-weight", "2=5"], 2, "class_weight changed")
        no(["learn", again, *LEARN, "--class-weight", "two=5"], 2, "class_weight changed")
        new = ["learn", again, *LEARN[:-1], "new.erasable", "--label-type", "int"]
        no([*new, "--class-weight", "two=5"], 2, "names a label that is no int")


def test_what_cannot_be_is_refused(monkeypatch, capsys, folder):
    data = put(table(much=[-1.0] * N, none=[None] * N, text=["x"] * N), "data.csv")
    rest = ["--ignore", "none", "--ignore", "text"]
    for options, words in (
        (["--threshold", "inf", "--ignore", "much", *rest], "Give --sample-rate above 0, or a finite --threshold."),
        (["--loss", "squared", "--alpha", "1", "--ignore", "much", *rest], "alpha is the regulariser"),
        (["--loss", "squared", "--head-scaling", "spread", "--ignore", "much", *rest], "regularises all columns alike"),
        (["--head-scaling", "other", "--ignore", "much", *rest], "--head-scaling"),
        (["--kernel", "rbf", "--head-scaling", "spread", *rest], "--head-scaling is for linear models"),
        (["--loss", "logistic", "--alpha", "0", "--ignore", "much", *rest], "alpha must be"),
        (["--sample-rate", "2", "--ignore", "much", *rest], "sample_rate must be"),
        (["--class-weight", "yes", "--ignore", "much", *rest], "--class-weight must be"),
        (["--class-weight", "yes=x", "--ignore", "much", *rest], "--class-weight must be"),
        (["--class-weight", "balanced", "--class-weight", "no=2", "--ignore", "much", *rest], "--class-weight must be"),
        (["--class-weight", "yes=1", "--class-weight", "yes=2", "--ignore", "much", *rest], "a class twice"),
        (["--class-weight", "yes=-1", "--ignore", "much", *rest], "class_weight must be a positive"),
        (["--weight", "much", *rest], "weights (--weight) must be between 0 and 16, and 60 of 60"),
        (["--weight", "none", "--ignore", "much", "--ignore", "text"], "weights are missing"),
        (["--weight", "text", "--ignore", "much", "--ignore", "none"], "60 of 60 weights are not numbers"),
        (["--weight", "churned", "--ignore", "much", *rest], "weight must be another column"),
        (["--weight", "absent", "--ignore", "much", *rest], "--subject, --weight and --ignore."),
        (["--kernel", "rbf", "--loss", "logistic", *rest], "--loss is for linear models"),
        (["--kernel", "rbf", "--weight", "much", *rest], "--weight is for linear models"),
    ):
        with refused(capsys, folder) as no:
            no(["learn", data, *LEARN, *options], 2, words)
    unnamed = ["learn", put(table(row_id=None, user_id=None)), "--label", "churned", "-o", MODEL]
    with refused(capsys, folder) as no:
        no([*unnamed, "--sample-rate", "0.5"], 2, "ids are required")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content(put(table(), "plain.csv")))))
    assert run(["learn", "-", *LEARN, "--threshold", "0.1", "--class-weight", "yes=2"]) == 0
    assert load(MODEL).class_weight == {"yes": 2.0}  # a pipe of CSV is read once, and its labels are texts


def test_another_head_than_that_of_the_file_is_refused(capsys, folder):
    assert run(["learn", put(table()), *LEARN, "--loss", "logistic", "--sample-rate", "0.3"]) == 0
    more = put(table(row_id=[f"more {i}" for i in range(N)]), "more.parquet")
    for options, name in (
        (["--loss", "squared"], "loss"),
        (["--alpha", "3"], "alpha"),
        (["--head-scaling", "flat"], "head_scaling"),
        (["--class-weight", "balanced"], "class_weight"),
        (["--sample-rate", "0.2"], "sample_rate"),
        (["--sample-rate", "0.3", "--threshold", "inf"], "threshold, kappa or horizon"),
    ):
        with refused(capsys, folder) as no:
            no(["learn", more, *LEARN, *options], 2, f"{name} changed", "start over with fit or another file")
    assert run(["learn", more, *LEARN, "--loss", "logistic", "--sample-rate", "0.3"]) == 0


def test_weights_in_an_archive(capsys, folder):
    found = table()
    X = np.column_stack([found[c].to_numpy() for c in NAMES])
    np.savez("data.npz", X=X, y=np.arange(N) % 2, ids=np.arange(N), weights=WEIGHTS)
    assert answered(capsys, ["learn", "data.npz", "--threshold", "0.1", "-o", MODEL, "--json"])["rows"] == N
    clf = ErasableClassifier(threshold=0.1).fit(X, np.arange(N) % 2, ids=np.arange(N), sample_weight=WEIGHTS)
    assert load(MODEL).state_digest() == clf.state_digest()
    with refused(capsys, folder) as no:
        no(["learn", "data.npz", "--weight", "w", "-o", "other.erasable"], 2, "store arrays")
