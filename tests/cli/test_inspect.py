"""``erasable inspect`` as a user types it."""

from __future__ import annotations

import csv
import hashlib
import io
import os
import re
import stat

import pytest

from erasable import ErasableClassifier, load
from erasable.cli.app import run
from tests.cli.session import LEARN, MODEL, N, answered, content, learnt, printed, put, refused, said, table
from tests.formats.models import rows

pytestmark = pytest.mark.usefixtures("folder")


def test_inspect_hides_rows(folder, capsys):
    learnt()
    model = load(MODEL)
    capsys.readouterr()
    for options in ([], ["--json"]):
        text = printed(capsys, ["inspect", MODEL, *options]).out
        assert model.state_digest() in text
        assert "age" in text
        for hidden in ("row ", "user ", "yes"):
            assert hidden not in text


def test_inspect_shows_rows_when_asked(folder, capsys):
    learnt()
    model = load(MODEL)
    told = answered(capsys, ["inspect", MODEL, "--rows", "--json"])["rows"]
    assert [r["id"] for r in told] == model.core_ids_.tolist()
    assert {r["label"] for r in told} == {"yes", "no"}
    assert any(r["subject"] is None for r in told)
    text = printed(capsys, ["inspect", MODEL, "--rows"]).out
    for key in model.core_ids_.tolist():
        assert f"{key}\t" in text


def test_rows_are_shown_whole_and_as_they_are(folder, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    X = rows(4)
    ids = ["long " * 60, "[bold]", "\x1b[2Jnasty", "plain"]
    names = ["[red]x", "\x1b[31my", "0x1p-3"]
    model = ErasableClassifier(threshold=0.0, feature_names=names)
    model.fit(X, [0, 1, 0, 1], ids=ids, subjects=[0, 1, 2, 3]).save(MODEL)
    text = printed(capsys, ["inspect", MODEL, "--rows"]).out
    assert ids[0] + "\t0\t0" in text  # a subject that is zero is no missing one
    assert "[bold]\t1\t1" in text
    assert "[red]x" in text
    assert "0x1p-3" in text  # a name of a column, and no number
    assert "\x1b" not in text


def test_inspect_as_json(folder, capsys):
    learnt()
    model = load(MODEL)
    told = answered(capsys, ["inspect", MODEL, "--learnt", str(N), "--json"])
    assert {k: told[k] for k in ("kind", "format", "version", "features", "classes", "ids", "subjects", "files")} == {
        "kind": "leverage selection, logistic-spread head",
        "format": "erasable-model",
        "version": 2,
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
    capacity = round(0.005 * 4**15) / 4**15  # on the grid
    assert float.fromhex(told["configuration"]["capacity"]) == capacity
    assert (told["threshold"], told["capacity"], told["gamma"]) == (0.1, capacity, None)
    assert told["configuration"]["feature_names"] == ["age", "weight", "height"]
    assert "rows" not in told
    shown = printed(capsys, ["inspect", MODEL, "--learnt", str(N)]).out
    assert f"{model.n_core_ / N:.2%} of {N} learnt" in shown
    assert re.search(r"^capacity +0\.005$", shown, re.MULTILINE)  # as it was given, and not as the grid has it
    learnt(out="fine.erasable", threshold="0.00012345678912")
    assert " 0.00012345678912\n" in printed(capsys, ["inspect", "fine.erasable"]).out  # only a capacity is rounded
    with refused(capsys, folder) as no:
        no(["inspect", MODEL, "--learnt", "0"], 2, "must be positive; got 0")
        no(["inspect", MODEL, "--learnt", str(model.n_core_ - 1)], 2, f"{model.n_core_} core rows")
        no(["inspect", "nowhere.erasable"], 5)


def test_looking_makes_no_files(folder):
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


def people():
    """A model file of two columns of subjects, and in which rows each person is named."""
    kin = [f"user {i % 5}" if i % 3 else "" for i in range(N)]
    data = put(table(kin=kin), "shared.csv")
    assert run(["learn", data, *LEARN, "--subject", "kin", "--threshold", "0.01"]) == 0
    users = [None if i % 4 == 0 else f"user {i % 9}" for i in range(N)]
    return {f"row {i}": {users[i], kin[i] or None} - {None} for i in range(N)}


def test_what_is_stored_of_somebody(folder, capsys):
    named = people()
    model = load(MODEL)
    theirs = [key for key in model.core_ids_.tolist() if "user 2" in named[key]]
    assert any(len(named[key]) > 1 for key in theirs)
    told = answered(capsys, ["inspect", MODEL, "--subject", "user 2", "--json"])
    assert [row["id"] for row in told["rows"]] == theirs
    assert [row["other_subjects"] for row in told["rows"]] == [len(named[key]) - 1 for key in theirs]
    assert all(list(row["values"]) == ["age", "weight", "height", "constant"] for row in told["rows"])
    assert (told["requested"], told["not_stored"], told["warnings"]) == (1, 0, [])
    assert all(list(row["cells"]) == ["age", "weight", "height"] for row in told["rows"])
    assert "the log map" in told["values_are"]
    assert run(["inspect", MODEL, "--subject", "user 2", "--csv"]) == 0
    lines = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert [line["id"] for line in lines] == theirs
    assert [line["cells.weight"] for line in lines] == [row["cells"]["weight"]["text"] for row in told["rows"]]
    assert {line["weight"] for line in lines} == {"1.0"}
    text = printed(capsys, ["inspect", MODEL, "--subject", "user 2", "--id", "nothing"]).out
    assert "the log map" in text
    assert "Of 1 of the 2 names nothing is stored" in text
    for key in theirs:
        assert f"id: {key}\n" in text
    for other in named[theirs[0]] - {"user 2"}:
        assert other not in text
    assert run(["forget", MODEL, "--subject", "user 2"]) == 0
    assert not set(theirs) & set(load(MODEL).core_ids_.tolist())


def test_nothing_stored_is_an_answer(folder, capsys):
    people()
    assert "Nothing is stored" in printed(capsys, ["inspect", MODEL, "--subject", "user 99"]).out
    told = answered(capsys, ["inspect", MODEL, "--subject", "user 99", "--json"])
    assert (told["rows"], told["not_stored"]) == ([], 1)
    assert run(["inspect", MODEL, "--id", "row 99", "--csv"]) == 0
    assert capsys.readouterr().out == "id,label,weight,other_subjects\n"
    ErasableClassifier().fit(rows(4), [0, 1, 0, 1]).save("nameless.erasable")
    assert run(["inspect", "nameless.erasable", "--subject", "user 2", "--json"]) == 0
    assert "stores no subjects" in said(capsys)["warnings"][0]


def test_what_is_asked_has_to_fit(folder, capsys):
    people()
    ErasableClassifier().fit(rows(4), [0, 1, 0, 1]).save("numbers.erasable")
    with refused(capsys, folder) as no:
        no(["inspect", MODEL, "--csv"], 2, "--subject or --id")
        no(["inspect", MODEL, "--subject", "user 2", "--rows"], 2, "--rows")
        no(["inspect", MODEL, "--id", "row 1", "--learnt", "9"], 2, "--learnt")
        no(["inspect", "numbers.erasable", "--id", "one"], 2, "whole numbers")
        no(["inspect", "nowhere.erasable", "--id", "1"], 5)


def test_rows_of_several_are_listed_with_all_their_people(folder, capsys):
    named = people()
    capsys.readouterr()
    assert run(["inspect", MODEL, "--rows", "--json"]) == 0
    told = {row["id"]: row["subject"] for row in said(capsys)["rows"]}
    plain = {key: sorted(who) if len(who) > 1 else next(iter(who), None) for key, who in named.items()}
    assert told == {key: plain[key] for key in told}
    text = printed(capsys, ["inspect", MODEL, "--rows"]).out
    key = next(key for key, who in told.items() if isinstance(who, list))
    assert f"{key}\t{', '.join(told[key])}\t" in text
    assert "layout of rows  dense" in text


def test_a_damaged_file_is_named(folder, capsys):
    (folder / "notes.txt").write_text("no model")
    for options in ([], ["--id", "row 1"], ["--schema"]):
        assert run(["inspect", "notes.txt", *options]) == 2
        assert capsys.readouterr().err.startswith("error: notes.txt: not a state")


def test_a_schema_is_printed_alone(folder, capsys):
    learnt()
    with refused(capsys, folder) as no:
        for also in (["--rows"], ["--csv"], ["--learnt", "9"], ["--id", "row 1"], ["--subject", "user 1"]):
            no(["inspect", MODEL, "--schema", *also], 2, "nothing else")
