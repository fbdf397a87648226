"""Types of ids, subjects and labels: stated, or texts as they stand in a CSV; none follows from rows."""

from __future__ import annotations

import io

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest
from sklearn.datasets import dump_svmlight_file

from erasable import load
from erasable.cli.app import run
from tests.cli.session import LEARN, MODEL, content, core_ids, put, refused, table
from tests.formats.models import rows

pytestmark = pytest.mark.usefixtures("folder")


TYPED = ["--label", "bought", "--id", "row_id", "--subject", "who", "--threshold", "1e-6", "-o"]


def csv_file(name, lines):
    with open(name, "w") as file:
        file.write("\n".join(["row_id,who,a,b,bought", *lines]) + "\n")
    return name


def of_odd_types():
    """A table whose last row alone says that ids, subjects and labels are text."""
    X = rows(4)
    keys = [("1", "10", "1"), ("2", "11", "0"), ("3", "10", "1"), ("A7", "ann", "maybe")]
    lines = [f"{i},{who},{x[0]!r},{x[1]!r},{y}" for (i, who, y), x in zip(keys, X[:, :2].tolist(), strict=True)]
    return csv_file("all.csv", lines), csv_file("survivors.csv", lines[:3])


@pytest.mark.parametrize("stated", [True, False])
def test_a_forgotten_row_leaves_no_trace_in_types(folder, stated):
    whole, survivors = of_odd_types()
    types = ["--id-type", "str", "--subject-type", "str", "--label-type", "str"]
    assert run(["learn", whole, *types, *TYPED, MODEL]) == 0
    assert run(["learn", survivors, *(types if stated else []), *TYPED, "again.erasable"]) == 0
    assert "A7" in core_ids()
    assert run(["forget", MODEL, "--id", "A7"]) == 0
    assert content() == content("again.erasable")


def test_types_follow_from_no_row_of_the_model_either(folder, capsys):
    """Rows that were forgotten would otherwise decide how those of a CSV are read."""
    _, survivors = of_odd_types()
    types = ["--id-type", "int", "--subject-type", "int", "--label-type", "int"]
    assert run(["learn", survivors, *types, *TYPED, MODEL]) == 0
    more = csv_file("more.csv", ["4,12,0.5,0.25,1", "5,13,-0.5,1.5,0"])
    with refused(capsys, folder) as no:
        no(["learn", more, *types[:2], "--label-type", "int", *TYPED, MODEL], 2, "subjects are", "--subject-type int.")
        no(["learn", more, *types[2:], *TYPED, MODEL], 2, "ids are integers", "for a CSV give --id-type int.")
        no(["learn", more, *types[:4], *TYPED, MODEL], 2, "classes are of type int", "for a CSV give --label-type int.")
    assert run(["learn", more, *types, *TYPED, MODEL]) == 0
    assert run(["forget", MODEL, *(word for i in range(1, 6) for word in ("--id", str(i)))]) == 0
    assert run(["learn", more, *TYPED, MODEL]) == 0  # nothing is left of the integers
    assert run(["learn", more, *TYPED, "again.erasable"]) == 0
    assert content() == content("again.erasable")


@pytest.mark.parametrize("packed", [False, True])
def test_types_are_those_that_were_said(folder, monkeypatch, packed):
    _, survivors = of_odd_types()
    with open(survivors, "rb") as file:
        data = file.read()
    types = ["--id-type", "str", "--subject-type", "int", "--label-type", "bool"]
    text = data.replace(b",1\n", b",true\n").replace(b",0\n", b",false\n")
    if packed:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text)))
        assert run(["learn", "-", *types, *TYPED, MODEL]) == 0
    else:
        with open("other.csv", "wb") as file:
            file.write(text)
        assert run(["learn", "other.csv", *types, *TYPED, MODEL]) == 0
    model = load(MODEL)
    assert sorted(model.core_ids_.tolist()) == ["1", "2", "3"]
    assert model._model.core.subject_type is int
    assert model.classes_.tolist() == [False, True]


def test_types_that_do_not_fit_are_refused(folder, capsys, monkeypatch):
    whole, survivors = of_odd_types()
    assert run(["learn", survivors, *TYPED, MODEL]) == 0
    put(table())
    X = rows(6)
    np.savez("data.npz", X=X, y=X[:, 0] > 0)
    dump_svmlight_file(X, X[:, 0] > 0, "data.svmlight")
    arrow = io.BytesIO()
    with pa.ipc.new_stream(arrow, table().schema) as writer:
        writer.write_table(table())
    with refused(capsys, folder) as no:
        no(["learn", whole, "--id-type", "int", *TYPED, "new.erasable"], 2, "'row_id': 1 of 4 ids are not integers")
        no(["learn", whole, "--label-type", "bool", *TYPED, "new.erasable"], 2, "'bought': 4 of 4", "true or false")
        no(["learn", whole, "--id-type", "float", *TYPED, "new.erasable"], 2, "--id-type")
        no(["learn", survivors, "--id-type", "int", *TYPED, MODEL], 2, "ids are strings", "give --id-type str.")
        no(["learn", survivors, "--label-type", "float", *TYPED, MODEL], 2, "type float", "give --label-type str.")
        no(["learn", whole, "--id-type", "str", "-o", "new.erasable"], 2, "--id-type is for --id")
        no(["learn", whole, "--subject-type", "str", "-o", "new.erasable"], 2, "--subject-type is for --subject")
        no(["learn", "data.parquet", "--id-type", "str", *LEARN[:-1], "new.erasable"], 2, "types of its own")
        no(["learn", "data.npz", "--label-type", "int", "-o", "new.erasable"], 2, "types of its own")
        no(["learn", "data.svmlight", "--label-type", "int", "-o", "new.erasable"], 2, "types of its own")
        no(["learn", whole, "--features", "2", *TYPED, "new.erasable"], 2, "is for SVMlight")
        no(["learn", "data.svmlight", "--features", "2", "-o", "new.erasable"], 2)
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(arrow.getvalue())))
        no(["learn", "-", "--id-type", "str", *LEARN[:-1], "new.erasable", "--threshold", "0.1"], 2, "types of its own")


def test_types_that_agree_with_the_model_are_accepted(folder):
    whole, survivors = of_odd_types()
    with open(whole) as file:
        _, *lines = file.read().splitlines()
    csv_file("first.csv", lines[:2])
    csv_file("third.csv", lines[2:3])
    types = ["--id-type", "str", "--subject-type", "int", "--label-type", "int"]
    given = ["--order", "given"]
    assert run(["learn", "first.csv", *types, *given, *TYPED, MODEL]) == 0
    assert run(["learn", "third.csv", *types, *TYPED, MODEL]) == 0
    assert run(["learn", survivors, *types, *given, *TYPED, "again.erasable"]) == 0
    assert content() == content("again.erasable")


def test_the_number_of_features_of_svmlight_can_be_said(folder, capsys):
    """The last ones may be zero in all rows; or in all that remain."""
    X = rows(12).copy()
    X[1:, -1] = 0.0
    d = X.shape[1]
    dump_svmlight_file(X, X[:, 0] > 0, "all.svmlight", zero_based=False)
    dump_svmlight_file(X[1:], X[1:, 0] > 0, "survivors.svmlight", zero_based=False)
    options = ["--threshold", "1e-6", "--features", str(d), "-o"]
    assert run(["learn", "survivors.svmlight", *options, MODEL]) == 0
    assert load(MODEL).n_features_in_ == d
    assert run(["learn", "survivors.svmlight", *options[:2], "-o", "narrow.erasable"]) == 0
    assert load("narrow.erasable").n_features_in_ == d - 1
    with refused(capsys, folder) as no:
        no(["learn", "all.svmlight", "--features", str(d + 1), "-o", MODEL], 2, "--features is", f"has {d}")


def test_labels_of_svmlight_are_whole_whatever_else_the_file_holds(folder, capsys):
    """One that is no whole number would make floats of all, and they would stay floats when its row is gone."""
    X = rows(12)
    y = (X[:, 0] > 0).astype(float)
    dump_svmlight_file(X, y, "whole.svmlight")
    y[3] = 1.5
    dump_svmlight_file(X, y, "odd.svmlight")
    options = ["--threshold", "1e-6", "-o"]
    assert run(["learn", "whole.svmlight", *options, MODEL]) == 0
    assert load(MODEL).classes_.tolist() == [0, 1]
    with refused(capsys, folder) as no:
        no(
            ["learn", "odd.svmlight", *options, "new.erasable"],
            2,
            "1 of 12 labels are no whole numbers",
            "--target-range",
        )
    assert run(["learn", "odd.svmlight", "--target-range", "0:2", *options, "new.erasable"]) == 0
