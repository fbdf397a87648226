"""``erasable learn`` as a user types it."""

from __future__ import annotations

import hashlib
import io
import os
import re
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from erasable import ErasableClassifier, load
from erasable.cli.app import run
from erasable.models.configuration import DEFAULT_THRESHOLD
from erasable.operations.model_file import BUDGET_BYTES, LearnOptions
from erasable.tables import stream_table
from tests.cli.session import (
    LEARN,
    MODEL,
    N,
    answered,
    content,
    core_ids,
    learnt,
    nan,
    printed,
    put,
    read_csv,
    refused,
    said,
    table,
)
from tests.formats.models import rows

pytestmark = pytest.mark.usefixtures("folder")


def test_learning_gives_the_file_of_the_classifier(capsys, folder):
    data = put(table())
    text = printed(capsys, ["learn", data, *LEARN]).out
    model = load(MODEL)
    assert f"{N} rows learnt; {model.n_core_} " in text
    assert MODEL in text
    found = table()
    X = np.column_stack([found[c].to_numpy() for c in ("age", "weight", "height")])
    names = ["age", "weight", "height"]
    owners = found["user_id"].to_pylist()
    same = ErasableClassifier(feature_names=names)
    ids = found["row_id"].to_pylist()
    same.fit(X, found["churned"].to_pylist(), ids=ids, subjects=owners, allow_no_subject=True)
    assert hashlib.sha256(content()).hexdigest() == same.state_digest()
    assert sorted(p.name for p in folder.iterdir()) == [f".{MODEL}.lock", "data.parquet", MODEL]


def test_rows_of_several_people_in_columns_and_in_lists(folder, capsys):
    kin = [f"user {i % 5}" if i % 3 else None for i in range(N)]
    users = table()["user_id"].to_pylist()
    lists = [[k, u] for k, u in zip(kin, users, strict=True)]
    more = ["--subject", "kin"]
    assert run(["learn", put(table(kin=kin), "columns.csv"), *LEARN, *more]) == 0
    right = content()
    for data, options in (
        (put(table(kin=kin), "columns.parquet"), [*LEARN, *more]),
        (put(table(user_id=lists), "lists.parquet"), LEARN),
        (put(table(user_id=lists, kin=users), "both.parquet"), [*LEARN, *more]),
    ):
        os.unlink(MODEL)
        assert run(["learn", data, *options]) == 0
        assert content() == right
    owners = dict(zip(core_ids(), load(MODEL).model_.core.subjects(), strict=True))
    theirs = {key for key, who in owners.items() if who == "user 2" or (isinstance(who, tuple) and "user 2" in who)}
    assert run(["forget", MODEL, "--subject", "user 2", "--json"]) == 0
    assert set(owners) - theirs == set(core_ids()) < set(owners)
    assert run(["verify", MODEL]) == 0
    with refused(capsys, folder) as no:
        no(["learn", "columns.csv", *LEARN, "--subject", "user_id", *more], 2, "twice")
        no(["learn", "columns.csv", *LEARN, "--subject", "nobody"], 2, "nobody")
        no(["learn", "columns.csv", *LEARN, "--subject", "churned", *more], 2, "label must be another column")
        whole = [option for option in LEARN if option != "--allow-no-subject"]
        no(["learn", "columns.csv", *whole, *more, "-o", "new.erasable"], 2, "rows have no subject")


@pytest.mark.parametrize("form", ["csv", "arrow"])
def test_standard_input_gives_the_file_of_the_same_table(form, monkeypatch, folder):
    learnt(out="right.erasable")
    found = table()
    if form == "arrow":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as stream:
            stream.write_table(found)
        piped = sink.getvalue().to_pybytes()
    else:
        piped = content(put(found, "data.csv"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    assert run(["learn", "-", *LEARN, "--threshold", "0.1"]) == 0
    assert content() == content("right.erasable")


def test_svmlight_rows_whose_last_columns_are_zero_are_learnt_and_predicted(folder):
    X, y = rows(N), np.arange(N) % 2
    dump_svmlight_file(X, y, "a.svmlight")
    assert run(["learn", "a.svmlight", "-o", MODEL, "--threshold", "0.1"]) == 0
    X[:, -1] = 0.0
    dump_svmlight_file(X, y, "b.svmlight")
    assert run(["learn", "b.svmlight", "-o", MODEL]) == 0
    assert run(["predict", MODEL, "b.svmlight", "-o", "p.csv"]) == 0
    assert len(read_csv("p.csv")) == N


def test_options_that_agree_may_be_given_again_and_others_are_refused(capsys, folder):
    learnt(0, 30)
    more = put(table(30))
    again = ["learn", more, *LEARN]
    with refused(capsys, folder) as no:
        no([*again, "--threshold", "0.2"], 2, "threshold")
        no([*again, "--capacity", "3"], 2, "capacity")
        no([*again, "--no-intercept"], 2, "fit_intercept")
        no([*again, "--scaling", "8"], 2, "scaling")
        no([*again, "--kappa", "0.9"], 2, "--kappa")
        no([*again, "--horizon", "60"], 2, "horizon")
        no([*again, "--kappa", "0.9", "--horizon", "60"], 2, "kappa")
        no([*again, "--kernel", "rbf"], 2, "--kernel")
        no([*again, "--gamma", "2"], 2, "--gamma")
    assert run([*again, "--threshold", "0.1", "--capacity", "0.005", "--intercept"]) == 0


def test_digits_in_a_csv_are_what_the_model_has_them_for(folder):
    """Texts that look like numbers: the next table is text altogether, and its digits must not become integers."""
    digits = {"row_id": [str(i) for i in range(N)], "user_id": [str(i % 9) for i in range(N)]}
    digits["churned"] = [str(i % 2) for i in range(N)]
    learnt(out="one.erasable", order="given", **digits)
    learnt(0, 30, order="given", **{name: values[:30] for name, values in digits.items()})
    more = put(table(30, N, **{name: values[30:] for name, values in digits.items()}), "more.csv")
    assert run(["learn", more, *LEARN]) == 0
    assert content() == content("one.erasable")
    (folder / "ids.txt").write_text("7\n8\n")
    assert run(["forget", MODEL, "--ids-file", "ids.txt", "--id", "9", "--subject", "3"]) == 0
    assert not {"7", "8", "9", "3", "12"} & set(core_ids())


def test_a_threshold_named_by_horizon_and_kappa_may_be_named_again(capsys, folder):
    data = put(table(0, 30))
    assert run(["learn", data, *LEARN, "--kappa", "0.5", "--horizon", "100"]) == 0
    assert load(MODEL).threshold_ == 0.1
    more = put(table(30))
    with refused(capsys, folder) as no:
        no(["learn", more, *LEARN, "--kappa", "0.5", "--horizon", "101"], 2, "horizon")
    assert run(["learn", more, *LEARN, "--kappa", "0.5", "--horizon", "100"]) == 0


def test_two_names_for_a_threshold_are_one_too_many(capsys, folder):
    data = put(table())
    with refused(capsys, folder) as no:
        no(["learn", data, *LEARN, "--threshold", "0.1", "--kappa", "0.3"], 2, "--kappa")
        no(["learn", data, *LEARN, "--threshold", "0.1", "--horizon", "3"], 2, "--horizon")
        no(["learn", data, *LEARN, "--kernel", "rbf", "--kappa", "0.3"], 2, "--kappa")
        no(["learn", data, *LEARN, "--kernel", "sigmoid"], 2, "kernel")
        no(["learn", data, *LEARN, "--threshold", "-1"], 2, "threshold")
        no(["learn", data, *LEARN, "--capacity", "500"], 2, "nothing could ever be selected")


def test_a_pipe_must_say_how_many_rows_it_has_where_kappa_names_the_threshold(capsys, folder, monkeypatch):
    piped = content(put(table(), "data.csv"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    with refused(capsys, folder) as no:
        no(["learn", "-", *LEARN, "--kappa", "0.5"], 2, "--horizon", "--threshold")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    assert run(["learn", "-", *LEARN]) == 0
    assert load(MODEL).threshold_ == DEFAULT_THRESHOLD


BAD_TABLES = {
    "another order": lambda t: t.select(["row_id", "weight", "age", "height", "user_id", "churned"]),
    "a column less": lambda t: t.drop_columns(["height"]),
    "a column more": lambda t: t.append_column("shoe", t["age"]),
    "a column of another name": lambda t: t.rename_columns(["row_id", "Age", "user_id", "weight", "height", "churned"]),
    "no labels": lambda t: t.drop_columns(["churned"]),
    "no ids": lambda t: t.drop_columns(["row_id"]),
    "no subjects": lambda t: t.drop_columns(["user_id"]),
    "labels of another type": lambda t: t.set_column(5, "churned", pa.array([i % 2 for i in range(len(t))])),
    "ids of another type": lambda t: t.set_column(0, "row_id", pa.array(range(len(t)))),
    "subjects of another type": lambda t: t.set_column(2, "user_id", pa.array(range(len(t)))),
    "an id twice": lambda t: t.set_column(0, "row_id", pa.array(["x", "x", *[f"y{i}" for i in range(len(t) - 2)]])),
    "an id missing": lambda t: t.set_column(0, "row_id", pa.array([None, *[f"y{i}" for i in range(len(t) - 1)]])),
    "ids that are there": lambda t: table(0, 30),
    "not a number": nan,
    "text": lambda t: t.set_column(1, "age", pa.array(["old"] * len(t))),
    "no rows": lambda t: t.slice(0, 0),
}


@pytest.mark.parametrize("form", ["parquet", "csv"])
def test_a_table_that_does_not_fit_is_refused_and_the_file_is_as_it_was(form, capsys, folder):
    learnt(0, 30, threshold="0.0")
    for k, (what, spoilt) in enumerate(BAD_TABLES.items()):
        if form == "parquet" or "of another type" not in what:  # text has no types: it is read as the model has them
            bad = put(spoilt(table(30)), f"{k}.{form}")
            with refused(capsys, folder) as no:
                no(["learn", bad, *LEARN], 2)


def test_a_new_file_is_not_made_for_a_table_that_cannot_be_used(capsys, folder):
    for what in ("no labels", "no ids", "an id twice", "an id missing", "not a number", "text"):
        bad = put(BAD_TABLES[what](table()))
        with refused(capsys, folder) as no:
            no(["learn", bad, *LEARN, "--threshold", "0.1"], 2)
    assert os.listdir(folder) == [bad]


def test_places_that_cannot_be_read_or_written(capsys, folder):
    data = put(table())
    (folder / "notes.erasable").write_bytes(b"my notes")
    with refused(capsys, folder) as no:
        no(["learn", "nowhere.parquet", *LEARN], 2, "nowhere.parquet")
        no(["learn", data, *LEARN[:-1], "nowhere/m.erasable", "--threshold", "0.1"], 5, "nowhere")
        no(
            ["learn", data, "--label", "churned", "-o", "notes.erasable", "--threshold", "0.1"],
            2,
            "no file of erasable",
        )
        no(["learn", "data.xyz", *LEARN], 2, ".parquet")
        no(["learn", data, "--label", "churned", "-o", ".", "--threshold", "0.1"], 5, "folder")


def test_learning_reports_the_share_next_to_the_rate(capsys, folder):
    data = put(table())
    options = [*LEARN, "--selection", "independent", "--rate", "0.5"]
    assert run(["learn", data, *options]) == 0
    share = f"{100 * load(MODEL).n_core_ / N:.3g}% of these rows are stored, for a rate of 0.5. "
    assert f"\n{share}Chance explains the difference.\n" in capsys.readouterr().out
    assert run(["learn", data, *options, "--skip-known", "--json"]) == 0  # stored rows still count
    found = said(capsys)
    assert (found["rate"], found["share"]) == (0.5, load(MODEL).n_core_ / N)
    assert found["share_text"].startswith(share)


def test_learn_as_json(capsys, folder):
    data = put(table())
    assert run(["learn", data, *LEARN, "--json"]) == 0
    model = load(MODEL)
    assert said(capsys) == {
        "model": MODEL,
        "rows": N,
        "core_rows_added": model.n_core_,
        "core_rows": model.n_core_,
        "rows_known": 0,
        "rows_replaced": 0,
        "rows_suppressed": 0,
        "bytes": len(content()),
        "score": None,
        "test": None,
        "warnings": [],
    }
    error = answered(capsys, ["learn", "nowhere.csv", *LEARN, "--json"], 2)
    assert error["exit"] == 2
    assert set(error["error"]) == {"kind", "message"}


def test_a_kernel_model(capsys, folder):
    data = put(table(0, 40))
    options = ["--kernel", "rbf", "--gamma", "0.5", "--scaling", "8", "--threshold", "0.5", "--order", "given"]
    assert run(["learn", data, *LEARN, *options]) == 0
    model = load(MODEL)
    assert (model.kernel, model.gamma, model.scaling, model.threshold) == ("rbf", 0.5, 8.0, 0.5)
    more = put(table(40))
    with refused(capsys, folder) as no:
        no(["learn", more, *LEARN, "--kernel", "poly"], 2)
        no(["learn", more, *LEARN, "--kernel", "rbf", "--gamma", "2"], 2)
        no(["learn", more, *LEARN, "--no-intercept"], 2, "linear models")
        no(["learn", more, *LEARN, "--kappa", "0.3", "--horizon", "5"], 2, "linear models")
    assert run(["learn", more, *LEARN]) == 0
    first = content()
    os.unlink(MODEL)
    assert run(["learn", put(table()), *LEARN, *options]) == 0
    assert content() == first
    assert run(["verify", MODEL]) == 0
    key = core_ids()[0]
    assert run(["forget", MODEL, "--id", key]) == 0
    assert key not in core_ids()
    assert run(["predict", MODEL, data, "-o", "p.csv"]) == 0
    text = printed(capsys, ["inspect", MODEL]).out
    assert "rbf" in text
    assert "0.5" in text


def test_the_memory_of_learning_does_not_grow_with_the_table(folder, monkeypatch):
    """Peaks of what NumPy and Python allocate, with few core rows and small row groups."""
    rng = np.random.default_rng(0)

    def peak(name, groups):
        schema = pa.schema([*((f"x{i}", pa.float64()) for i in range(40)), ("label", pa.int64()), ("id", pa.int64())])
        with pq.ParquetWriter(name, schema) as file:
            for k in range(groups):
                n = 5_000
                X = rng.standard_normal((n, 2)) @ np.ones((2, 40)) / 8
                columns = [pa.array(X[:, i]) for i in range(40)]
                ids = pa.array(range(k * n, k * n + n))
                file.write_table(pa.table([*columns, pa.array((X[:, 0] > 0).astype(int)), ids], schema=schema))
        tracemalloc.start()
        try:
            assert run(["learn", name, "--id", "id", "-o", f"{name}.erasable", "--threshold", "0.3"]) == 0
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 2**20)
    small = tuple(2**21 if default == BUDGET_BYTES else default for default in LearnOptions.__init__.__defaults__)
    monkeypatch.setattr(LearnOptions.__init__, "__defaults__", small)
    peak("warm.parquet", 1)
    few, many = peak("few.parquet", 2), peak("many.parquet", 12)
    assert (folder / "many.parquet").stat().st_size > 3 * (folder / "few.parquet").stat().st_size
    assert many < 1.5 * few
    assert many < 12 * 5_000 * 40 * 8 / 2


@pytest.mark.parametrize("form", ["data.parquet", "data.csv", "pipe"])
def test_rows_that_lack_a_subject_are_refused_unless_that_is_allowed(form, capsys, folder, monkeypatch):
    """Also where they come late, and many blocks were learnt before."""
    monkeypatch.setitem(stream_table.__kwdefaults__, "block_bytes", 240)
    owners = [f"user {i % 9}" for i in range(N - 2)]
    data = put(table(user_id=[*owners, None, None]), "data.csv" if form == "pipe" else form)
    strict = [v for v in LEARN if v != "--allow-no-subject"]

    def source():
        if form != "pipe":
            return data
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((folder / data).read_bytes())))
        return "-"

    with refused(capsys, folder) as no:
        no(["learn", source(), *strict, "--threshold", "0"], 2, "rows have no subject", "--allow-no-subject")
    assert os.listdir(folder) == [data]
    assert run(["learn", source(), *LEARN, "--threshold", "0"]) == 0
    capsys.readouterr()
    assert run(["inspect", MODEL]) == 0
    assert re.search(r"^no subject +2 core rows", capsys.readouterr().out, re.MULTILINE)
    assert answered(capsys, ["inspect", MODEL, "--json"])["rows_without_subject"] == 2


def test_subjects_are_not_left_out_where_a_model_has_them(capsys, folder):
    learnt(0, 30, user_id=[f"user {i % 9}" for i in range(30)])
    more = put(table(30))
    plain = ["--label", "churned", "--id", "row_id", "--ignore", "user_id", "-o", MODEL]
    with refused(capsys, folder) as no:
        no(["learn", more, *plain], 2, "--subject", "--allow-no-subject")
    assert run(["learn", more, *plain, "--allow-no-subject"]) == 0


# -- the order of rows ---------------------------------------------------------------------------------------------


def test_the_order_is_an_option_and_part_of_the_file(capsys, folder):
    data = put(table())
    for options, key in (([], "0"), (["--random-state", "7"], "7"), (["--order", "given"], None)):
        out = f"{key}.erasable"
        assert run(["learn", data, *LEARN[:-1], out, "--threshold", "0.1", *options]) == 0
        assert answered(capsys, ["inspect", out, "--json"])["configuration"]["order_key"] == key
        assert ("as given" if key is None else f"hashed, random state {key}") in printed(capsys, ["inspect", out]).out
    assert len({content("0.erasable"), content("7.erasable"), content("None.erasable")}) == 3


def test_a_secret_key_is_drawn_anew_for_each_file_and_never_for_one_that_has_its_own(capsys, folder):
    data, keys = put(table()), set()
    for out in ("one.erasable", "two.erasable"):
        assert run(["learn", data, *LEARN[:-1], out, "--threshold", "0.1", "--random-state", "secret"]) == 0
        capsys.readouterr()
        assert run(["inspect", out, "--json"]) == 0
        keys.add(int(said(capsys)["configuration"]["order_key"]))
        assert run(["verify", out]) == 0
    assert len(keys) == 2
    assert min(keys) >= 2**64  # a smaller one is drawn once in 2**64 times
    learnt()
    more = put(table(0, 5, row_id=[f"more {i}" for i in range(5)]))
    with refused(capsys, folder) as no:
        no(["learn", more, *LEARN, "--random-state", "secret"], 2, "for a new file")


def test_an_order_that_is_none_is_refused(capsys, folder):
    data = put(table())
    with refused(capsys, folder) as no:
        no(["learn", data, *LEARN, "--threshold", "0.1", "--order", "random"], 2, "hashed")
        no(["learn", data, *LEARN, "--threshold", "0.1", "--random-state", "-1"], 2, "random-state")
        no(["learn", data, *LEARN, "--threshold", "0.1", "--order", "given", "--random-state", "1"], 2, "--order given")
    learnt()
    more = put(table(0, 5, row_id=[f"more {i}" for i in range(5)]))
    with refused(capsys, folder) as no:
        no(["learn", more, *LEARN, "--order", "given"], 2, "order or random_state")
        no(["learn", more, *LEARN, "--random-state", "3"], 2, "order or random_state")


def test_a_sorted_table_in_the_order_given_is_told_what_to_do(capsys, folder):
    n = 200
    rows = np.random.default_rng(0).standard_normal((n, 3))
    lines = ["a,b,c,label", *(",".join(map(str, [*r, int(i >= n // 2)])) for i, r in enumerate(rows))]
    (folder / "sorted.csv").write_text("\n".join(lines) + "\n")
    for order, told in (("given", True), ("hashed", False)):
        warnings = answered(
            capsys, ["learn", "sorted.csv", "-o", order, "--threshold", "0.1", "--order", order, "--json"]
        )["warnings"]
        assert sum(bool(re.search("long runs.*--order at", w)) for w in warnings) == told


@pytest.mark.parametrize("kernel", [[], ["--kernel", "rbf", "--scaling", "8"]], ids=["linear", "kernel"])
def test_independent_selection_forgets_to_the_file_of_all_other_rows(capsys, folder, kernel):
    np.save("moments.npy", np.full(3, 1 / 3))
    shares = ["--balance", "0.5", "--class-share", "yes=0.25", "--class-share", "no=0.75"]
    options = [*kernel, "--selection", "independent", "--rate", "0.5", "--moments", "moments.npy", *shares]
    learn = ["learn", put(table()), *LEARN, *options, "--capacity", "0.25"]
    assert run(learn) == 0
    said_of_model = printed(capsys, ["inspect", MODEL]).out
    assert "independent" in said_of_model
    assert re.search(r"capacity +0\.25\n", said_of_model)
    leaving = core_ids()[:3]
    assert run(["forget", MODEL, *(word for i in leaving for word in ("--id", str(i)))]) == 0
    rest = table().filter(pa.compute.invert(pa.compute.is_in(table()["row_id"], pa.array(leaving))))
    fresh = ["learn", put(rest, "rest.parquet"), *LEARN[:-1], "rest.erasable", *options, "--capacity", "0.25"]
    assert run(fresh) == 0
    assert content() == content("rest.erasable")
    with refused(capsys, folder) as no:
        no([*learn, "--skip-known", "--rate", "0.4"], 2, "changed since")
        by_leverage = ["--selection", "leverage", "--rate", "0.4"]
        no(["learn", "data.parquet", *LEARN[:-1], "new.erasable", *by_leverage], 2, "for independent selection")
        no(
            ["learn", "data.parquet", *LEARN[:-1], "new.erasable", *options, "--threshold", "1"],
            2,
            "threshold cannot be set",
        )
        no(["learn", "data.parquet", *LEARN[:-1], "new.erasable", *options, "--class-share", "no"], 2, "LABEL=SHARE")
        no(
            ["learn", "data.parquet", *LEARN[:-1], "new.erasable", *options[:-6], "--moments", "data.parquet"],
            2,
            ".npy",
        )
