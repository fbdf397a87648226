"""What a new user stumbles over."""

from __future__ import annotations

import json
import os
import sys

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier, load
from erasable.cli.app import run
from erasable.models import files as shards
from erasable.models.configuration import (
    DEFAULT_CAPACITY,
    DEFAULT_KERNEL_THRESHOLD,
    DEFAULT_THRESHOLD,
    LOG_CAPACITY,
    LOG_TARGET_CAPACITY,
)
from tests.cli.session import LEARN, MODEL, N, answered, content, learnt, printed, put, read_csv, refused, said, table
from tests.formats.models import rows

pytestmark = pytest.mark.usefixtures("folder")


def nameless():
    """A model file without names of columns."""
    X = rows(N)
    ErasableClassifier(threshold=0.05).fit(X, np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")).save(MODEL)


def test_predictions_never_replace_what_they_are_made_from(folder, capsys):
    learnt()
    data = put(table(), "t.csv")
    os.symlink(str(folder / data), "link.csv")
    os.link(data, "hard.csv")
    with refused(capsys, folder) as no:
        for out in (data, f"./{data}", str(folder / data), "link.csv", "hard.csv"):
            no(["predict", MODEL, data, "-o", out], 2, "is read here", "another file")
    os.link(MODEL, "model.csv")
    with refused(capsys, folder) as no:
        no(["predict", MODEL, data, "-o", "model.csv"], 2, "is read here")
    with open(data) as file, pytest.MonkeyPatch.context() as patch, refused(capsys, folder) as no:
        patch.setattr(sys, "stdin", file)
        no(["predict", MODEL, "-", "-o", data], 2, "is read here")
    put(table(), "other.csv")
    assert run(["predict", MODEL, data, "-o", "other.csv"]) == 0  # the same rows in another file


def test_columns_that_are_taken_by_position_are_warned_of(folder, capsys):
    nameless()
    X = rows(N)
    put(pa.table({"note": ["x"] * N, "a": X[:, 0], "b": X[:, 1], "c": X[:, 2]}), "data.csv")
    warning = "this model stores no names of columns (give feature_names= when it is made, or make it with erasable "
    assert run(["predict", MODEL, "data.csv", "--ignore", "note", "-o", "p.csv"]) == 0
    out, err = capsys.readouterr()
    assert err.startswith(f"warning: {warning}learn): columns are taken in the order of the table\n")
    assert (err.count("\n"), out) == (2, "")
    assert [r["prediction"] for r in read_csv("p.csv")] == load(MODEL).predict(X).tolist()
    assert run(["predict", MODEL, "data.csv", "--ignore", "note", "-o", "p.csv", "--json"]) == 0
    out, err = capsys.readouterr()
    assert [w[: len(warning)] for w in json.loads(out)["warnings"]] == [warning]
    assert err == ""
    np.savez("data.npz", X=X)  # has no names that could be of other columns
    assert "warning" not in printed(capsys, ["predict", MODEL, "data.npz", "-o", "p.csv"]).err
    learnt(out="named.erasable")
    put(table(), "named.csv")
    text = printed(capsys, ["predict", "named.erasable", "named.csv", "--ignore", "user_id", "-o", "p.csv"]).err
    assert "warning" not in text
    with refused(capsys, folder) as no:
        no(["predict", MODEL, "data.csv", "-o", "p.csv"], 2, "'note'", "ignore")
        no(["predict", "named.erasable", "named.csv", "--ignore", "age", "-o", "p.csv"], 2, "'age'")


def wide(n, d):
    """Rows of which nearly all become core rows where there are as many columns as rows; few where there are two."""
    X = np.random.default_rng(0).standard_normal((n, d)) * 10
    return put(pa.table({**{f"f{j}": X[:, j] for j in range(d)}, "label": (X[:, 0] > 0).astype(int)}), "wide.parquet")


@pytest.mark.parametrize(
    ("options", "n", "hint"),
    [
        (["--threshold", "1e-9"], 1000, "a higher --threshold stores fewer (erasable plan tries "),
        (["--threshold", "1e-9"], 999, None),
        (["--threshold", "0.05"], 1000, None),
        (["--threshold", "0"], 1000, None),  # whoever says so wants all of them
        (["--kernel", "rbf", "--gamma", "100"], 1000, "give --scaling, a smaller --gamma or a higher --threshold"),
    ],
)
def test_a_model_that_stores_most_rows_gives_a_hint(folder, capsys, options, n, hint):
    data = wide(n, 2)
    said_then = printed(capsys, ["learn", data, *options, "-o", MODEL]).err
    if hint is None:
        assert said_then == ""
    else:
        assert said_then.startswith(f"hint: more than half of the rows are stored: {hint}")
        assert said_then.count("\n") == 1
    os.unlink(MODEL)
    assert run(["learn", data, *options, "-o", MODEL, "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    assert [f"hint: {w}\n" for w in json.loads(out)["warnings"]] == ([said_then] if said_then else [])


def test_one_feature_of_which_the_sign_alone_is_learnt_gives_a_hint(folder, capsys):
    data = wide(40, 1)
    said = printed(capsys, ["learn", data, "--no-intercept", "-o", MODEL]).err
    assert "hint: there is one feature, and each row is divided by its own norm" in said
    assert "--scaling" in said
    os.unlink(MODEL)
    assert "hint: there is one feature" not in printed(capsys, ["learn", data, "-o", MODEL]).err
    os.unlink(MODEL)
    assert run(["learn", data, "--scaling", "100", "-o", MODEL]) == 0
    assert capsys.readouterr().err == ""


def test_a_hint_for_a_model_that_is_there_says_that_it_takes_a_new_one(folder, capsys):
    data = wide(2100, 2)
    whole = pq.read_table(data).append_column("id", pa.array(range(2100)))
    for low, there in ((0, False), (1050, True)):
        put(whole.slice(low, 1050), "part.parquet")
        assert run(["learn", "part.parquet", "--id", "id", "--threshold", "1e-9", "-o", MODEL, "--json"]) == 0
        assert [w.endswith("; that takes a new model file") for w in said(capsys)["warnings"]] == [there]


def test_learn_help_tells_linear_models_from_kernels(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    kernel = ErasableKernelClassifier().get_params()
    text = printed(capsys, ["learn", "--help"]).out
    log, other = f"{LOG_CAPACITY:g} ({LOG_TARGET_CAPACITY:g} for --target)", f"{DEFAULT_CAPACITY:g} with --schema"
    assert f"[default: for a linear model {log}, {other} or --scaling; {kernel['capacity']:g} for a kernel]" in text
    assert f"[default: {DEFAULT_THRESHOLD:g} for a linear model, {DEFAULT_KERNEL_THRESHOLD:g} for a kernel]" in text


def test_learn_reports_the_bytes_of_all_files(folder, capsys, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", 50)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 50)
    told = answered(capsys, ["learn", put(table()), *LEARN, "--threshold", "0.01", "--json"])
    assert run(["inspect", MODEL, "--json"]) == 0
    looked = said(capsys)
    assert looked["files"] > 2
    assert told["bytes"] == looked["bytes"] > 2 * len(content())


def test_whether_a_file_can_be_read_is_not_asked_beforehand(folder, monkeypatch):
    """The answer would be a wrong usage; trying to read gives exit code 5."""
    learnt(0, 30)
    put(table(30, N), "data.csv")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    ids = ["--label", "churned", "--id", "row_id", "--subject", "user_id"]
    for arguments in (
        ["inspect", MODEL],
        ["predict", MODEL, "data.csv", "-o", "p.csv"],
        ["export", MODEL, "-o", "m.safetensors"],
        ["learn", "data.csv", *ids, "--allow-no-subject", "-o", MODEL],
    ):
        assert run(arguments) == 0, arguments
    assert run(["scan", ".", "--for", "data.csv", *ids]) == 1


def test_lost_columns_are_reported_with_what_a_command_can_be_given(folder, capsys):
    tiny = {"year": 2010.0 + rows(N)[:, 0] / 1e3, "tiny": rows(N)[:, 1] * 1e-9}
    data = put(table(**tiny))
    text = printed(capsys, ["learn", data, *LEARN])
    warned = [line for line in (text.err + text.out).splitlines() if line.startswith("warning: columns")]
    assert [line.partition(" lie ")[0].partition(" vary ")[0] for line in warned] == [
        "warning: columns 'year' (1 of 5)",
        "warning: columns 'tiny' (1 of 5)",
    ]
    assert all(line.endswith("differences: give a --schema, which `erasable schema` drafts.") for line in warned)


def test_inspect_shows_the_log_map_and_cells_in_the_units_of_the_table(folder, capsys):
    learnt(threshold="0.01")
    assert "log map         constant 3\n" in printed(capsys, ["inspect", MODEL]).out
    text = printed(capsys, ["inspect", MODEL, "--id", "row 4"]).out
    assert "the log map" in text
    for name, value in zip(("age", "weight", "height"), rows(N)[4].tolist(), strict=True):
        (shown,) = (line.split(": ")[1].split(" ± ") for line in text.splitlines() if line.startswith(f"  {name}: "))
        assert abs(float(shown[0]) - value) <= float(shown[1]) + 1e-9
    X = rows(N)
    ErasableClassifier(missing="indicator", centres=[1.0, 0, 0], threshold=0.05).fit(X, X[:, 0] > 0).save("named")
    wanted = "log map         constant 3, centres of columns, missing cells as indicator\n"
    assert wanted in printed(capsys, ["inspect", "named"]).out
    ErasableClassifier(feature_map=None).fit(X, X[:, 0] > 0).save("plain")
    assert "log map" not in printed(capsys, ["inspect", "plain"]).out
