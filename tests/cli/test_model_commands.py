"""``learn``, ``forget``, ``verify``, ``predict`` and ``inspect`` as a user types them."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import os
import stat
import sys
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from sklearn.datasets import dump_svmlight_file

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableMappedClassifier, load, verify
from erasable.classes.feature_maps import HashedText, RandomFourierFeatures
from erasable.cli.app import run
from erasable.core import shards
from tests.formats.models import CASES, rows, texts
from tests.formats.tampering import altered, opened, rebuilt, tensors

N = 60
MODEL = "model.erasable"
LEARN = ["--label", "churned", "--id", "row_id", "--subject", "user_id", "-o", MODEL]


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    """The working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def table(low=0, high=N, **changes):
    """Columns of a table; ids are text, some rows have no subject."""
    X = rows(N)[low:high]
    columns = {
        "row_id": [f"row {i}" for i in range(low, high)],
        "age": X[:, 0],
        "user_id": [None if i % 4 == 0 else f"user {i % 9}" for i in range(low, high)],
        "weight": X[:, 1],
        "height": X[:, 2],
        "churned": np.where(X[:, 0] + X[:, 1] > 0, "yes", "no"),
    }
    columns.update(changes)
    return pa.table({name: values for name, values in columns.items() if values is not None})


def put(found, name="data.parquet"):
    """The table as a file."""
    if name.endswith(".csv"):
        pyarrow.csv.write_csv(found, name)
    else:
        pq.write_table(found, name)
    return name


def learnt(low=0, high=N, out=MODEL, threshold="0.1", **changes):
    """A model file that learnt these rows."""
    data = put(table(low, high, **changes), "learnt.parquet")
    options = [v if v != MODEL else out for v in LEARN]
    assert run(["learn", data, *options, "--threshold", threshold]) == 0
    return out


def content(name=MODEL):
    with open(name, "rb") as file:
        return file.read()


def said(capsys):
    """What a command printed, as JSON."""
    return json.loads(capsys.readouterr().out)


def core_ids(name=MODEL):
    return load(name).core_ids_.tolist()


class refused:  # noqa: N801
    """The commands in this block are refused with one line, and leave every file as it was."""

    def __init__(self, capsys, folder, *, new=()):
        self.capsys, self.folder, self.new = capsys, folder, set(new)

    def files(self):
        found = {p: p.read_bytes() for p in self.folder.rglob("*") if p.is_file()}
        return {p.name: data for p, data in found.items() if not p.name.endswith(".lock")}

    def __enter__(self):
        self.before = self.files()
        self.capsys.readouterr()
        return self

    def __call__(self, arguments, code, *says):
        assert run(arguments) == code
        out, err = self.capsys.readouterr()
        assert out == ""
        assert err.startswith("error: ")
        assert err.count("\n") == 1
        for part in says:
            assert part in err
        assert self.files() == self.before

    def __exit__(self, *_):
        if sys.exc_info()[0] is None:
            assert self.files() == self.before


# -- learn -------------------------------------------------------------------------------------------------------


def test_learning_gives_the_file_of_the_classifier(capsys, folder):
    data = put(table())
    assert run(["learn", data, *LEARN]) == 0
    text = capsys.readouterr().out
    model = load(MODEL)
    assert f"{N} rows learnt; {model.n_core_} " in text
    assert MODEL in text
    found = table()
    X = np.column_stack([found[c].to_numpy() for c in ("age", "weight", "height")])
    names = ["age", "weight", "height"]
    owners = found["user_id"].to_pylist()
    same = ErasableClassifier(threshold=N**-0.2, feature_names=names)
    same.fit(X, found["churned"].to_pylist(), ids=found["row_id"].to_pylist(), subjects=owners)
    assert hashlib.sha256(content()).hexdigest() == same.state_digest()
    assert sorted(p.name for p in folder.iterdir()) == [f".{MODEL}.lock", "data.parquet", MODEL]


@pytest.mark.parametrize("form", ["csv", "stdin csv", "stdin arrow", "csv.gz"])
def test_every_form_of_the_same_table_gives_the_same_file(form, monkeypatch, folder):
    learnt(out="right.erasable")
    found = table()
    if form == "stdin arrow":
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, found.schema) as stream:
            stream.write_table(found)
        piped = sink.getvalue().to_pybytes()
    else:
        piped = content(put(found, "data.csv"))
    if form == "csv.gz":
        import gzip

        (folder / "data.csv.gz").write_bytes(gzip.compress(piped))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    source = {"csv": "data.csv", "csv.gz": "data.csv.gz"}.get(form, "-")
    assert run(["learn", source, *LEARN, "--threshold", "0.1"]) == 0
    assert content() == content("right.erasable")


def test_npz_and_svmlight(folder):
    X, y = rows(N), np.arange(N) % 3
    np.savez("data.npz", X=X, y=y, ids=np.arange(N) + 5, subjects=np.arange(N) % 7)
    assert run(["learn", "data.npz", "-o", "n.erasable", "--threshold", "0.1"]) == 0
    same = ErasableClassifier(threshold=0.1).fit(X, y, ids=range(5, N + 5), subjects=np.arange(N) % 7)
    assert load("n.erasable").state_digest() == same.state_digest()
    dump_svmlight_file(X, y, "data.svmlight", query_id=np.arange(N) % 7)
    assert run(["learn", "data.svmlight", "--subject", "qid", "-o", "s.erasable", "--threshold", "0.1"]) == 0
    same = ErasableClassifier(threshold=0.1).fit(X, y, subjects=np.arange(N) % 7)
    assert load("s.erasable").state_digest() == same.state_digest()


def test_svmlight_rows_whose_last_columns_are_zero_are_learnt_and_predicted(folder, capsys):
    X, y = rows(N), np.arange(N) % 2
    dump_svmlight_file(X, y, "a.svmlight")
    assert run(["learn", "a.svmlight", "-o", MODEL, "--threshold", "0.1"]) == 0
    X[:, -1] = 0.0
    dump_svmlight_file(X, y, "b.svmlight")
    assert run(["learn", "b.svmlight", "-o", MODEL]) == 0
    assert run(["predict", MODEL, "b.svmlight", "-o", "p.csv"]) == 0
    assert len(read_csv("p.csv")) == N


@pytest.mark.parametrize("cut", [1, 17, 59])
def test_learning_in_two_goes_is_learning_in_one(cut, folder):
    learnt(out="one.erasable")
    learnt(0, cut)
    more = put(table(cut), "more.csv")
    assert run(["learn", more, *LEARN]) == 0
    assert content() == content("one.erasable")


def test_options_that_agree_may_be_given_again_and_others_are_refused(capsys, folder):
    learnt(0, 30)
    more = put(table(30))
    again = ["learn", more, *LEARN]
    with refused(capsys, folder) as no:
        no([*again, "--threshold", "0.2"], 2, "threshold")
        no([*again, "--capacity", "3"], 2, "capacity")
        no([*again, "--no-intercept"], 2, "fit_intercept")
        no([*again, "--scale", "8"], 2, "scaling")
        no([*again, "--kappa", "0.9"], 2, "--kappa")
        no([*again, "--horizon", "60"], 2, "horizon")
        no([*again, "--kappa", "0.9", "--horizon", "60"], 2, "kappa")
        no([*again, "--kernel", "rbf"], 2, "--kernel")
        no([*again, "--gamma", "2"], 2, "--gamma")
    assert run([*again, "--threshold", "0.1", "--capacity", "1", "--intercept"]) == 0


def test_digits_in_a_csv_are_what_the_model_has_them_for(folder):
    """Texts that look like numbers: the next table is text altogether, and its digits must not become integers."""
    digits = {"row_id": [str(i) for i in range(N)], "user_id": [str(i % 9) for i in range(N)]}
    digits["churned"] = [str(i % 2) for i in range(N)]
    learnt(out="one.erasable", **digits)
    learnt(0, 30, **{name: values[:30] for name, values in digits.items()})
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


def test_a_pipe_must_say_how_many_rows_it_has(capsys, folder, monkeypatch):
    piped = content(put(table(), "data.csv"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    with refused(capsys, folder) as no:
        no(["learn", "-", *LEARN], 2, "--horizon", "--threshold")


def nan(found):
    ages = found["age"].to_numpy().copy()
    ages[-1] = np.nan
    return found.set_column(found.schema.get_field_index("age"), "age", pa.array(ages))


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


@pytest.mark.parametrize("form", ["bad.parquet", "bad.csv"])
@pytest.mark.parametrize("what", BAD_TABLES)
def test_a_table_that_does_not_fit_is_refused_and_the_file_is_as_it_was(what, form, capsys, folder):
    learnt(0, 30, threshold="0.0")
    if form.endswith("csv") and what in ("ids of another type", "subjects of another type", "labels of another type"):
        return  # text has no types: they are read as the model has them
    bad = put(BAD_TABLES[what](table(30)), form)
    with refused(capsys, folder) as no:
        no(["learn", bad, *LEARN], 2)


@pytest.mark.parametrize("what", ["no labels", "no ids", "an id twice", "an id missing", "not a number", "text"])
def test_a_new_file_is_not_made_for_a_table_that_cannot_be_used(what, capsys, folder):
    bad = put(BAD_TABLES[what](table()))
    with refused(capsys, folder) as no:
        no(["learn", bad, *LEARN, "--threshold", "0.1"], 2)
    assert not (folder / MODEL).exists()


def test_a_bad_row_after_many_good_blocks_leaves_everything_as_it_was(capsys, folder, monkeypatch):
    import erasable.datasets._stream as streams

    monkeypatch.setattr(
        streams.stream_table, "__kwdefaults__", {**streams.stream_table.__kwdefaults__, "block_bytes": 240}
    )
    learnt(0, 30)
    bad = put(nan(table(30)), "bad.parquet")
    with refused(capsys, folder) as no:
        no(["learn", bad, *LEARN], 2)


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


def test_learn_as_json(capsys, folder):
    data = put(table())
    assert run(["learn", data, *LEARN, "--json"]) == 0
    model = load(MODEL)
    assert said(capsys) == {
        "model": MODEL,
        "rows": N,
        "core_rows_added": model.n_core_,
        "core_rows": model.n_core_,
        "bytes": len(content()),
        "warnings": [],
    }
    assert run(["learn", "nowhere.csv", *LEARN, "--json"]) == 2
    error = said(capsys)
    assert error["exit"] == 2
    assert set(error["error"]) == {"kind", "message"}


def test_a_kernel_model(capsys, folder):
    data = put(table(0, 40))
    options = ["--kernel", "rbf", "--gamma", "0.5", "--scale", "8", "--threshold", "0.5"]
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
    assert run(["inspect", MODEL]) == 0
    text = capsys.readouterr().out
    assert "rbf" in text
    assert "0.5" in text


def test_the_memory_of_learning_does_not_grow_with_the_table(capsys, folder):
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

    import erasable.datasets._stream as streams

    usual = streams.stream_table.__kwdefaults__
    streams.stream_table.__kwdefaults__ = {**usual, "block_bytes": 2**20}
    try:
        peak("warm.parquet", 1)
        few, many = peak("few.parquet", 2), peak("many.parquet", 12)
    finally:
        streams.stream_table.__kwdefaults__ = usual
    assert (folder / "many.parquet").stat().st_size > 3 * (folder / "few.parquet").stat().st_size
    assert many < 1.5 * few
    assert many < 12 * 5_000 * 40 * 8 / 2


# -- forget ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["str", "int", "bytes"])
def test_forgetting_gives_the_file_of_the_survivors(key, folder, capsys):
    names = {
        "str": [f"row {i}" for i in range(N)],
        "int": [i - 30 for i in range(N)],
        "bytes": [b"\0%d" % i for i in range(N)],
    }[key]
    learnt(row_id=pa.array(names))
    leaving = core_ids()[::3]
    typed = [k.hex() if key == "bytes" else str(k) for k in leaving]
    unknown = {"str": "nobody", "int": "999999", "bytes": "ffff"}[key]
    for text in [*typed, unknown]:
        assert run(["forget", MODEL, f"--id={text}"]) == 0
    kept = [i for i, name in enumerate(names) if name in set(core_ids())]
    found = table(row_id=pa.array(names)).take(kept)
    assert run(["learn", put(found), *[v if v != MODEL else "kept.erasable" for v in LEARN], "--threshold", "0.1"]) == 0
    assert content() == content("kept.erasable")
    assert run(["verify", MODEL]) == 0
    assert not set(leaving) & set(core_ids())


def test_by_subject_and_by_lists(folder, capsys, monkeypatch):
    learnt()
    model = load(MODEL)
    ids = core_ids()
    (folder / "ids.txt").write_text("\n".join([ids[0], "", ids[1], "unknown"]) + "\n")
    put(pa.table({"subject": ["user 3", "user 5"]}), "subjects.csv")
    assert (
        run(["forget", MODEL, "--ids-file", "ids.txt", "--subjects-file", "subjects.csv", "--subject", "user 1"]) == 0
    )
    model.forget(ids=[*ids[:2], "unknown"], subjects=["user 3", "user 5", "user 1"])
    assert hashlib.sha256(content()).hexdigest() == model.state_digest()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO((core_ids()[0] + "\n").encode())))
    assert run(["forget", MODEL, "--ids-file", "-"]) == 0
    model.forget(ids=model.core_ids_[:1])
    assert hashlib.sha256(content()).hexdigest() == model.state_digest()
    put(pa.table({"id": core_ids()[:2]}), "ids.parquet")
    assert run(["forget", MODEL, "--ids-file", "ids.parquet"]) == 0
    model.forget(ids=model.core_ids_[:2].tolist())
    assert hashlib.sha256(content()).hexdigest() == model.state_digest()


def test_everything_can_be_forgotten_and_learnt_anew(folder, capsys):
    learnt()
    data = content()
    (folder / "all.txt").write_text("\n".join(f"row {i}" for i in range(N)))
    assert run(["forget", MODEL, "--ids-file", "all.txt"]) == 0
    assert load(MODEL).n_core_ == 0
    assert b"row 1" not in content()
    assert run(["verify", MODEL]) == 0
    with refused(capsys, folder) as no:
        no(["predict", MODEL, "learnt.parquet"], 2, "no rows remain")
    assert run(["forget", MODEL, "--id", "anything", "--subject", "anybody"]) == 0
    assert run(["learn", "learnt.parquet", *LEARN]) == 0
    assert content() == data


def test_unknown_names_change_nothing_and_say_so_in_no_other_way(folder, capsys):
    learnt()
    before = content()
    facts = os.stat(MODEL)
    assert run(["forget", MODEL, "--id", "nobody", "--subject", "no user", "--json"]) == 0
    capsys.readouterr()
    assert content() == before
    assert os.stat(MODEL).st_ino == facts.st_ino


def test_forget_as_json(folder, capsys):
    learnt()
    key, before = core_ids()[0], load(MODEL).state_digest()
    capsys.readouterr()
    assert run(["forget", MODEL, "--id", key, "--id", "nobody", "--json"]) == 0
    after = load(MODEL)
    assert said(capsys) == {
        "model": MODEL,
        "requested": 2,
        "core_rows_removed": 1,
        "core_rows": after.n_core_,
        "digest_before": before,
        "digest": after.state_digest(),
        "receipt": None,
        "warnings": [],
    }


def test_names_that_cannot_be_meant_are_refused(folder, capsys):
    learnt(row_id=list(range(N)))
    (folder / "ids.txt").write_text("1\nx\n")
    with refused(capsys, folder) as no:
        no(["forget", MODEL], 2, "--id")
        for text in ("abc", "1.0", "1_0", " 1", "", "\uff11", "+1", "0x1"):
            no(["forget", MODEL, f"--id={text}"], 2, "whole numbers")
        no(["forget", MODEL, f"--id={10**30}"], 2, "64 bits")
        no(["forget", MODEL, "--ids-file", "ids.txt"], 2, "ids.txt")
        no(["forget", MODEL, "--ids-file", "nowhere.txt"], 2, "nowhere.txt")
        no(["forget", MODEL, "--ids-file", "-", "--subjects-file", "-"], 2, "standard input")
        no(["forget", "nowhere.erasable", "--id", "1"], 5, "nowhere.erasable")
    learnt(out="bytes.erasable", row_id=pa.array([b"%d" % i for i in range(N)]))
    with refused(capsys, folder) as no:
        no(["forget", "bytes.erasable", "--id", "xyz"], 2, "hexadecimal")


# -- receipts ----------------------------------------------------------------------------------------------------


@pytest.fixture
def signer(folder, capsys):
    assert run(["keys", "new", "-o", "signer"]) == 0
    learnt()
    capsys.readouterr()
    return ["--key", "signer.pem"]


def test_a_receipt_is_written_and_holds(signer, folder, capsys):
    key, before = core_ids()[0], load(MODEL).state_digest()
    assert run(["forget", MODEL, "--id", key, "--receipt", "r.json", *signer, "--request-id", "ticket-7"]) == 0
    assert "erasable receipt verify r.json" in capsys.readouterr().out
    assert run(["receipt", "verify", "r.json", "--key", "signer.pub.pem", "--state", MODEL, "--json"]) == 0
    told = said(capsys)
    text = json.dumps(told)
    assert load(MODEL).state_digest() in text
    assert before in text
    assert "ticket-7" in text
    assert key.encode() not in content("r.json")
    assert run(["forget", MODEL, "--id", core_ids()[0], "--receipt", "s.json", *signer, "--after-only"]) == 0
    capsys.readouterr()
    assert run(["receipt", "verify", "s.json", "--key", "signer.pub.pem", "--state", MODEL, "--json"]) == 0
    assert run(["receipt", "verify", "r.json", "--key", "signer.pub.pem", "--state", MODEL]) == 4


def test_a_receipt_for_nothing_says_that_the_state_is_the_same(signer, folder, capsys):
    assert run(["forget", MODEL, "--id", "nobody", "--receipt", "r.json", *signer, "--json"]) == 0
    told = said(capsys)
    assert told["digest_before"] == told["digest"]
    assert told["receipt"] == "r.json"
    assert run(["receipt", "verify", "r.json", "--key", "signer.pub.pem", "--state", MODEL]) == 0


def test_a_receipt_that_could_not_be_written_is_refused_before_anything_changes(signer, folder, capsys):
    key = core_ids()[0]
    (folder / "there.json").write_text("{}")
    (folder / "other.pem").write_text("no key")
    assert run(["keys", "new", "-o", "locked", "--passphrase-file", put_text("pass.txt", "correct horse")]) == 0
    forget = ["forget", MODEL, "--id", key]
    with refused(capsys, folder) as no:
        no([*forget, "--receipt", "r.json"], 2, "--key")
        no([*forget, *signer], 2, "--receipt")
        no([*forget, "--request-id", "7"], 2, "--receipt")
        no([*forget, "--after-only"], 2, "--receipt")
        no([*forget, "--receipt", "there.json", *signer], 5, "there.json", "never overwritten")
        no([*forget, "--receipt", "nowhere/r.json", *signer], 5, "nowhere")
        no([*forget, "--receipt", "r.json", "--key", "nowhere.pem"], 5, "nowhere.pem")
        no([*forget, "--receipt", "r.json", "--key", "other.pem"], 2)
        no([*forget, "--receipt", "r.json", "--key", "signer.pub.pem"], 2)
        no([*forget, "--receipt", "r.json", "--key", "locked.pem"], 2, "passphrase")
        no([*forget, "--receipt", "r.json", *signer, "--request-id", "é" * 10], 2)
        no([*forget, "--receipt", "r.json", *signer, "--request-id", "x" * 10_000], 2)
        no(["forget", "nowhere.erasable", "--id", "x", "--receipt", "r.json", *signer], 5, "nowhere.erasable")
    good = ["--receipt", "r.json", "--key", "locked.pem", "--passphrase-file", "pass.txt"]
    assert run([*forget, *good]) == 0


def put_text(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    return name


def test_a_receipt_in_a_place_where_no_file_can_be_made_leaves_the_model_as_it_was(signer, folder, capsys):
    """A name that is too long: the folder is there, and yet the file cannot be."""
    long = "r" * 300 + ".json"
    with refused(capsys, folder) as no:
        no(["forget", MODEL, "--id", core_ids()[0], "--receipt", long, *signer], 5)


def test_when_forgetting_fails_no_empty_receipt_is_left(signer, folder, capsys, monkeypatch):
    from erasable.store import Writer

    def full(*_):
        raise OSError(28, "No space left on device")

    key = core_ids()[0]
    monkeypatch.setattr(Writer, "replace", full)
    with refused(capsys, folder) as no:
        no(["forget", MODEL, "--id", key, "--receipt", "r.json", *signer], 5)


# -- verify ------------------------------------------------------------------------------------------------------


def test_verify(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    assert run(["verify", MODEL]) == 0
    assert model.state_digest() in capsys.readouterr().out
    assert run(["verify", MODEL, "--json"]) == 0
    report = verify(model)
    assert said(capsys) == {
        "model": MODEL,
        "verified": True,
        "core_rows": report.rows,
        "sums": report.sums,
        "weights": report.weights,
        "digest": report.digest,
    }


def forged(name, at=0):
    """The model file with one number of a tensor changed, and sealed again."""
    data = content()
    found = tensors(data)
    dtype, shape, raw = found[name]
    changed = bytearray(raw)
    changed[at] ^= 1
    return rebuilt(opened(data)[1], {**found, name: (dtype, shape, bytes(changed))})


@pytest.mark.parametrize("name", ["gram", "class_sums", "weights", "rows", "labels"])
def test_an_altered_model_is_told_from_a_damaged_one(name, folder, capsys):
    learnt()
    right, bad = content(), forged(name)
    (folder / MODEL).write_bytes(bad)
    with refused(capsys, folder) as no:
        no(["verify", MODEL], 4)
    assert run(["verify", MODEL, "--json"]) == 4
    assert said(capsys)["error"]["kind"] == "VerificationError"
    for damaged in (right[:-1], right[:-1] + bytes([right[-1] ^ 1]), b"", b"PK\x03\x04"):
        (folder / MODEL).write_bytes(damaged)
        with refused(capsys, folder) as no:
            no(["verify", MODEL], 2, "not a state")
            no(["inspect", MODEL], 2, "not a state")
            no(["forget", MODEL, "--id", "row 1"], 2, "not a state")
            no(["predict", MODEL, "learnt.parquet"], 2, "not a state")


def test_a_newer_file_is_named_by_every_command(folder, capsys):
    learnt()
    (folder / MODEL).write_bytes(altered(content(), lambda header, meta: meta.update(version=2)))
    with refused(capsys, folder) as no:
        for arguments in (
            ["verify", MODEL],
            ["inspect", MODEL],
            ["forget", MODEL, "--id", "row 1"],
            ["predict", MODEL, "learnt.parquet"],
            ["learn", "learnt.parquet", *LEARN],
        ):
            no(arguments, 2, "version 2", "install a newer erasable")


def test_models_that_need_code_say_so(folder, capsys):
    for name in ("general", "core set, ridge", "kernel function"):
        CASES[name].fitted().save("code.erasable", overwrite=True)
        with refused(capsys, folder) as no:
            for arguments in (["verify", "code.erasable"], ["forget", "code.erasable", "--id", "x"]):
                no(arguments, 2, "which a file cannot hold")
        assert run(["inspect", "code.erasable"]) == 0
        capsys.readouterr()


def test_mapped_models_forget_and_verify_and_do_no_more(folder, capsys):
    numbers = ErasableMappedClassifier(RandomFourierFeatures(6), threshold=0.1)
    words = ErasableMappedClassifier(HashedText(8), threshold=0.1)
    numbers.fit(rows(N), np.arange(N) % 2)
    words.fit(texts(N), np.arange(N) % 2)
    np.savez("data.npz", X=rows(N), y=np.arange(N) % 2, ids=np.arange(N) + 1000)
    for model in (numbers, words):
        model.save("mapped.erasable", overwrite=True)
        key = int(model.core_ids_[0])
        assert run(["forget", "mapped.erasable", "--id", str(key)]) == 0
        assert run(["verify", "mapped.erasable"]) == 0
        with refused(capsys, folder) as no:
            no(["predict", "mapped.erasable", "data.npz"], 2, "feature map")
            no(["learn", "data.npz", "-o", "mapped.erasable"], 2, "map")


# -- predict -----------------------------------------------------------------------------------------------------


def read_csv(name):
    with open(name, newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


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
        assert f"{right:.4f} of {N} known labels" in capsys.readouterr().err
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
    capsys.readouterr()
    assert run(["predict", MODEL, data, "--label", "churned", "-o", "p.csv", "--json"]) == 0
    told = said(capsys)
    accuracy = np.mean(load(MODEL).predict(rows(N)) == table()["churned"].to_numpy())
    assert told == {"model": MODEL, "rows": N, "out": "p.csv", "accuracy": pytest.approx(accuracy), "warnings": []}
    assert run(["predict", MODEL, data, "--json"]) == 2
    assert "-o FILE" in said(capsys)["error"]["message"]


def test_predicting_from_a_pipe_and_from_arrays(folder, capsys, monkeypatch):
    learnt()
    piped = content(put(table(), "data.csv"))
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(piped)))
    assert run(["predict", MODEL, "-", "-o", "p.csv"]) == 0
    np.savez("data.npz", X=rows(N), ids=np.arange(N))
    assert run(["predict", MODEL, "data.npz", "-o", "q.csv"]) == 0
    a, b = read_csv("p.csv"), read_csv("q.csv")
    assert [r["prediction"] for r in a] == [r["prediction"] for r in b]


def test_known_labels_are_compared_as_the_model_has_them(folder, capsys):
    """A column of digits is numbers in a CSV, though the model's classes are texts."""
    X = rows(N)
    kinds = np.array(["1", "2"])[(X[:, 0] > 0).astype(int)]
    ErasableClassifier(threshold=0.05, feature_names=["a", "b", "c"]).fit(X, kinds).save(MODEL)
    put(pa.table({"a": X[:, 0], "b": X[:, 1], "c": X[:, 2], "kind": kinds.astype(int)}), "data.csv")
    assert run(["predict", MODEL, "data.csv", "--label", "kind", "-o", "p.csv", "--json"]) == 0
    assert said(capsys)["accuracy"] > 0.8


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
        no(["predict", MODEL, data, "-o", "nowhere/p.csv"], 5, "nowhere")
        no(["predict", MODEL, "nowhere.csv"], 2, "nowhere.csv")
        no(["predict", "nowhere.erasable", data], 5, "nowhere.erasable")
    np.savez("wide.npz", X=np.zeros((3, 5)))
    with refused(capsys, folder) as no:
        no(["predict", MODEL, "wide.npz", "-o", "p.csv"], 2, "5", "3")


# -- inspect -----------------------------------------------------------------------------------------------------


def test_inspect_hides_rows(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    for options in ([], ["--json"]):
        assert run(["inspect", MODEL, *options]) == 0
        text = capsys.readouterr().out
        assert model.state_digest() in text
        assert "age" in text
        for hidden in ("row ", "user ", "yes"):
            assert hidden not in text


def test_inspect_shows_rows_when_asked(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    assert run(["inspect", MODEL, "--rows", "--json"]) == 0
    told = said(capsys)["rows"]
    assert [r["id"] for r in told] == model.core_ids_.tolist()
    assert {r["label"] for r in told} == {"yes", "no"}
    assert any(r["subject"] is None for r in told)
    assert run(["inspect", MODEL, "--rows"]) == 0
    text = capsys.readouterr().out
    for key in model.core_ids_.tolist():
        assert f"{key}\t" in text


def test_rows_are_shown_whole_and_as_they_are(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    X = rows(4)
    ids = ["long " * 60, "[bold]", "\x1b[2Jnasty", "plain"]
    names = ["[red]x", "\x1b[31my", "0x1p-3"]
    model = ErasableClassifier(threshold=0.0, feature_names=names)
    model.fit(X, [0, 1, 0, 1], ids=ids, subjects=[0, 1, 2, 3]).save(MODEL)
    assert run(["inspect", MODEL, "--rows"]) == 0
    text = capsys.readouterr().out
    assert ids[0] + "\t0\t0" in text  # a subject that is zero is no missing one
    assert "[bold]\t1\t1" in text
    assert "[red]x" in text
    assert "0x1p-3" in text  # a name of a column, and no number
    assert "\x1b" not in text


def test_inspect_as_json(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    assert run(["inspect", MODEL, "--learnt", str(N), "--json"]) == 0
    told = said(capsys)
    assert {k: told[k] for k in ("kind", "format", "version", "features", "classes", "ids", "subjects", "files")} == {
        "kind": "linear",
        "format": "erasable-state",
        "version": 1,
        "features": 3,
        "classes": 2,
        "ids": "str",
        "subjects": "str",
        "files": 1,
    }
    assert told["digest"] == model.state_digest() == hashlib.sha256(content()).hexdigest()
    assert told["core_rows"] == model.n_core_
    assert told["stored_share"] == model.n_core_ / N
    assert told["bytes"] == len(content())
    assert float.fromhex(told["configuration"]["threshold"]) == 0.1
    assert float.fromhex(told["configuration"]["capacity"]) == 1.0
    assert (told["threshold"], told["capacity"], told["gamma"]) == (0.1, 1.0, None)
    assert told["configuration"]["feature_names"] == ["age", "weight", "height"]
    assert "rows" not in told
    assert run(["inspect", MODEL, "--learnt", str(N)]) == 0
    assert f"{model.n_core_ / N:.2%} of {N} learnt" in capsys.readouterr().out
    with refused(capsys, folder) as no:
        no(["inspect", MODEL, "--learnt", "0"], 2)
        no(["inspect", MODEL, "--learnt", str(model.n_core_ - 1)], 2, f"{model.n_core_} core rows")
        no(["inspect", "nowhere.erasable"], 5)


def test_looking_makes_no_files(folder, capsys):
    learnt(out="other.erasable")
    os.unlink(".other.erasable.lock")
    before = sorted(os.listdir())
    mode = os.stat(folder).st_mode
    os.chmod(folder, stat.S_IRUSR | stat.S_IXUSR)
    try:
        assert run(["inspect", "other.erasable"]) == 0
        assert run(["verify", "other.erasable"]) == 0
        assert run(["predict", "other.erasable", "learnt.parquet"]) == 0
    finally:
        os.chmod(folder, mode)
    assert sorted(os.listdir()) == before


# -- types that are said, and types that are found ---------------------------------------------------------------

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


@pytest.mark.parametrize("fixed", [True, False])
def test_with_types_fixed_a_forgotten_row_leaves_no_trace_in_them(folder, fixed):
    whole, survivors = of_odd_types()
    types = ["--id-type", "str", "--subject-type", "str", "--label-type", "str"] if fixed else []
    assert run(["learn", whole, *types, *TYPED, MODEL]) == 0
    assert run(["learn", survivors, *types, *TYPED, "again.erasable"]) == 0
    assert "A7" in core_ids()
    assert run(["forget", MODEL, "--id", "A7"]) == 0
    assert (content() == content("again.erasable")) is fixed  # without them, the types are those of all rows


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
    assert model._memory.subject_type is int
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
        no(["learn", whole, "--id-type", "int", *TYPED, "new.erasable"], 2, "'row_id'", "an integer")
        no(["learn", whole, "--label-type", "bool", *TYPED, "new.erasable"], 2, "'bought'", "true or false")
        no(["learn", whole, "--id-type", "float", *TYPED, "new.erasable"], 2, "--id-type")
        no(["learn", survivors, "--id-type", "str", *TYPED, MODEL], 2, "--id-type says str", "the model's are int")
        no(["learn", survivors, "--label-type", "float", *TYPED, MODEL], 2, "--label-type says float")
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
    assert run(["learn", "first.csv", *types, *TYPED, MODEL]) == 0
    assert run(["learn", "third.csv", *types, *TYPED, MODEL]) == 0
    assert run(["learn", survivors, *types, *TYPED, "again.erasable"]) == 0
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
        no(["learn", "all.svmlight", "--features", str(d + 1), "-o", MODEL], 2, "--features says", f"has {d}")


# -- receipts ----------------------------------------------------------------------------------------------------


def test_a_receipt_is_on_the_disk_when_the_command_ends(folder, monkeypatch):
    learnt()
    assert run(["keys", "new", "-o", "signer"]) == 0
    synced, real = [], os.fsync

    def fsync(descriptor):
        real(descriptor)
        synced.append((os.fstat(descriptor).st_ino, os.fstat(descriptor).st_size))

    monkeypatch.setattr(os, "fsync", fsync)
    assert run(["forget", MODEL, "--id", core_ids()[0], "--receipt", "out.json", "--key", "signer.pem"]) == 0
    made = os.stat("out.json")
    assert made.st_size > 100
    assert (made.st_ino, made.st_size) in synced


# -- what a new user stumbles over -------------------------------------------------------------------------------


def nameless():
    """A model file without names of columns."""
    X = rows(N)
    ErasableClassifier(threshold=0.05).fit(X, np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")).save(MODEL)


@pytest.mark.parametrize("link", [None, os.symlink, os.link])
def test_predictions_never_replace_what_they_are_made_from(folder, capsys, link):
    learnt()
    data = put(table(), "t.csv")
    for out, source in (("t.csv", data), ("./t.csv", str(folder / data))):
        if link is not None:
            link(source, out := f"{len(out)}.csv")
        with refused(capsys, folder) as no:
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
    assert run(["predict", MODEL, "data.npz", "-o", "p.csv"]) == 0
    assert "warning" not in capsys.readouterr().err
    learnt(out="named.erasable")
    put(table(), "named.csv")
    capsys.readouterr()
    assert run(["predict", "named.erasable", "named.csv", "--ignore", "user_id", "-o", "p.csv"]) == 0
    assert "warning" not in capsys.readouterr().err
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
        (["--threshold", "1e-9"], 1000, "a lower --kappa or a higher --threshold stores fewer (erasable plan tries "),
        (["--threshold", "1e-9"], 999, None),
        (["--threshold", "0.5"], 1000, None),
        (["--threshold", "0"], 1000, None),  # whoever says so wants all of them
        (["--kernel", "rbf", "--gamma", "100"], 1000, "give --scale, a smaller --gamma or a higher --threshold"),
    ],
)
def test_a_model_that_stores_most_rows_gives_a_hint(folder, capsys, options, n, hint):
    data = wide(n, 2)
    assert run(["learn", data, *options, "-o", MODEL]) == 0
    said_then = capsys.readouterr().err
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


def test_a_hint_for_a_model_that_is_there_says_that_it_takes_a_new_one(folder, capsys):
    data = wide(2100, 2)
    whole = pq.read_table(data).append_column("id", pa.array(range(2100)))
    for low, there in ((0, False), (1050, True)):
        put(whole.slice(low, 1050), "part.parquet")
        assert run(["learn", "part.parquet", "--id", "id", "--threshold", "1e-9", "-o", MODEL, "--json"]) == 0
        assert [w.endswith("; that takes a new model file") for w in said(capsys)["warnings"]] == [there]


def test_learn_help_tells_linear_models_from_kernels(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")
    linear, kernel = ErasableClassifier().get_params(), ErasableKernelClassifier().get_params()
    assert run(["learn", "--help"]) == 0
    text = capsys.readouterr().out
    assert f"[default: {linear['capacity']:g} for a linear model, {kernel['capacity']:g} for a kernel]" in text
    assert f"[default: rows ** -kappa for a linear model, {kernel['threshold']:g} for a kernel]" in text
    assert f"not for kernels. [default: {linear['kappa']:g}]" in text


def test_learn_reports_the_bytes_of_all_files(folder, capsys, monkeypatch):
    monkeypatch.setattr(shards, "LARGEST_FILE", 50)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 50)
    assert run(["learn", put(table()), *LEARN, "--threshold", "0.01", "--json"]) == 0
    told = said(capsys)
    assert run(["inspect", MODEL, "--json"]) == 0
    looked = said(capsys)
    assert looked["files"] > 2
    assert told["bytes"] == looked["bytes"] > 2 * len(content())


def test_whether_a_file_can_be_read_is_not_asked_beforehand(folder, capsys, monkeypatch):
    """The answer would be a wrong usage; trying to read gives exit code 5."""
    learnt(0, 30)
    put(table(30, N), "data.csv")
    monkeypatch.setattr(os, "access", lambda *_, **__: False)
    ids = ["--label", "churned", "--id", "row_id", "--subject", "user_id"]
    for arguments in (
        ["inspect", MODEL],
        ["predict", MODEL, "data.csv", "-o", "p.csv"],
        ["export", MODEL, "-o", "m.safetensors"],
        ["export", MODEL, "-o", "m.safetensors"],
        ["learn", "data.csv", *ids, "-o", MODEL],
        ["plan", "digits", "--effort", "quick", "--max-loss", "0.1", "--out", "."],
        ["reproduce", "svm", "--out", "."],
    ):
        assert run(arguments) == 0, arguments
    assert run(["scan", ".", "--for", "data.csv", *ids]) == 1


def test_a_capacity_is_shown_as_it_was_given(folder, capsys):
    data = put(table().drop_columns(["row_id", "user_id"]))
    assert run(["learn", data, "--label", "churned", "--kernel", "rbf", "--gamma", "0.3", "-o", MODEL]) == 0
    capsys.readouterr()
    assert run(["inspect", MODEL]) == 0
    shown = dict(line.split(None, 1) for line in capsys.readouterr().out.splitlines())
    assert (shown["capacity"], shown["threshold"], shown["gamma"]) == ("0.1", "1", "0.3")
    assert run(["inspect", MODEL, "--json"]) == 0
    told = said(capsys)
    assert told["capacity"] == pytest.approx(0.1, abs=1e-9)
    assert told["capacity"] == float.fromhex(told["configuration"]["capacity"])
    assert (told["threshold"], told["gamma"]) == (1.0, 0.3)
    assert run(["learn", data, "--label", "churned", "--threshold", "0.00012345678912", "-o", "b.erasable"]) == 0
    capsys.readouterr()
    assert run(["inspect", "b.erasable"]) == 0
    assert "0.00012345678912\n" in capsys.readouterr().out  # only a capacity is rounded
