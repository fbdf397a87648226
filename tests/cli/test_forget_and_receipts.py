"""``erasable forget`` as a user types it, and the receipts it writes."""

from __future__ import annotations

import hashlib
import io
import json
import os
import sys

import pyarrow as pa
import pyarrow.csv
import pytest

from erasable import load
from erasable.cli.app import run
from erasable.store import NOT_KNOWN
from tests.cli.session import LEARN, MODEL, N, answered, content, core_ids, learnt, printed, put, refused, said, table

pytestmark = pytest.mark.usefixtures("folder")


@pytest.mark.parametrize("key", ["str", "int", "bytes"])
def test_forgetting_gives_the_file_of_the_survivors(key, folder):
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


def test_by_subject_and_by_lists(folder, monkeypatch):
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
        "not_stored": 1,
        "core_rows": after.n_core_,
        "digest_before": before,
        "digest": after.state_digest(),
        "old_bytes": NOT_KNOWN,
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


@pytest.fixture
def signer(folder, capsys):
    assert run(["keys", "new", "-o", "signer"]) == 0
    learnt()
    capsys.readouterr()
    return ["--key", "signer.pem"]


def test_a_receipt_is_written_and_holds(signer, folder, capsys):
    key, before = core_ids()[0], load(MODEL).state_digest()
    text = printed(
        capsys, ["forget", MODEL, "--id", key, "--receipt", "r.json", *signer, "--request-id", "ticket-7"]
    ).out
    assert "erasable receipt verify r.json" in text
    told = answered(capsys, ["receipt", "verify", "r.json", "--key", "signer.pub.pem", "--state", MODEL, "--json"])
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
    told = answered(capsys, ["forget", MODEL, "--id", "nobody", "--receipt", "r.json", *signer, "--json"])
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
        no([*forget, "--receipt", "r" * 300 + ".json", *signer], 5)  # the folder is there, and yet the file cannot be
        no([*forget, "--receipt", "r.json", "--key", "nowhere.pem"], 5, "nowhere.pem")
        no([*forget, "--receipt", "r.json", "--key", "other.pem"], 2)
        no([*forget, "--receipt", "r.json", "--key", "signer.pub.pem"], 2)
        no([*forget, "--receipt", "r.json", "--key", "locked.pem"], 2, "passphrase")
        no([*forget, "--receipt", "r.json", *signer, "--request-id", "é" * 10], 2)
        no([*forget, "--receipt", "r.json", *signer, "--request-id", "x" * 10_000], 2)
        no(["forget", "nowhere.erasable", "--id", "x", "--receipt", "r.json", *signer], 5, "nowhere.erasable")
    good = ["--receipt", "r.json", "--key", "locked.pem", "--passphrase-file", "pass.txt"]
    for secret in ("locked.pem", "pass.txt"):
        os.chmod(secret, 0o644)
        with refused(capsys, folder) as no:
            no([*forget, *good], 5, secret, "mode 0644", "chmod 600")
        os.chmod(secret, 0o600)
    assert run([*forget, *good]) == 0


def put_text(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(name, 0o600)
    return name
