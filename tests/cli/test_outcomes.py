"""What became of the file: unchanged, changed, changed but not erased, unknown; and what else is said of it."""

from __future__ import annotations

import errno
import json
import os
import stat
from pathlib import Path
from unittest import mock

import numpy as np
import pandas as pd
import pytest

from erasable import load
from erasable.cli.app import run
from erasable.store import locked
from erasable.store._disk import Disk
from tests.cli.session import printed

RNG = np.random.default_rng(2)


@pytest.fixture
def model(folder):
    rows = pd.DataFrame(RNG.standard_normal((40, 4)), columns=list("abcd"))
    rows["id"] = [f"row-{i}" for i in range(40)]
    rows["label"] = ["yes", "no"] * 20
    rows.to_csv("rows.csv", index=False)
    assert run(["learn", "rows.csv", "--id", "id", "--threshold", "0.05", "-o", "m.erasable"]) == 0
    return folder / "m.erasable"


@pytest.fixture
def signer(folder):
    assert run(["keys", "new", "-o", "signer"]) == 0
    return folder / "signer.pem"


def broken(name, when):
    """A call of the disk that fails at the moments that ``when`` names."""
    real, seen = getattr(Disk, name), {"renamed": False}
    rename = Disk.rename

    def renamed(self, source, target):
        rename(self, source, target)
        seen["renamed"] = True

    def call(self, *arguments):
        if name == "rename" or when(seen["renamed"], arguments):
            raise OSError(errno.EIO, "injected")
        return real(self, *arguments)

    others = {} if name == "rename" else {"rename": renamed}
    return mock.patch.multiple(Disk, **others, **{name: call})


@pytest.mark.parametrize(
    ("name", "when", "kind", "code", "gone"),
    [
        ("rename", None, "StoreError", 5, False),
        ("fsync", lambda renamed, _: not renamed, "StoreError", 5, False),
        ("close", lambda renamed, _: True, None, 0, True),
        ("unlock", lambda renamed, _: True, None, 0, True),
        ("unlink", lambda renamed, _: renamed, "NotErasedError", 6, True),
        ("write", lambda renamed, _: renamed, "NotErasedError", 6, True),
        ("fsync_folder", lambda renamed, _: renamed, "UnknownOutcomeError", 7, True),
    ],
)
def test_each_outcome_has_its_exit_code(model, capsys, name, when, kind, code, gone):
    key = load(model).core_ids_[0]
    capsys.readouterr()
    with broken(name, when):
        assert run(["forget", str(model), "--id", key, "--json"]) == code
    said = json.loads(capsys.readouterr().out)
    assert (said["error"]["kind"] if code else None) == kind
    assert (key not in load(model).core_ids_) == gone
    assert run(["forget", str(model), "--id", key]) == 0  # again, as it says
    assert key not in load(model).core_ids_
    assert {p.name for p in model.parent.glob(".m.*")} == {".m.erasable.lock"}


def test_a_new_model_is_private_unless_mode_says_otherwise(model, capsys):
    learn = ["learn", "rows.csv", "--id", "id", "--threshold", "0.05"]
    before = os.umask(0o077)
    try:
        assert run([*learn, "-o", "team.erasable", "--mode", "660"]) == 0
    finally:
        os.umask(before)
    team = model.parent / "team.erasable"
    assert stat.S_IMODE(team.stat().st_mode) == 0o660
    for wrong in ("9", "rw", "0o1777", "044"):
        assert run([*learn, "-o", "wrong.erasable", "--mode", wrong]) == 2
    assert "octal" in capsys.readouterr().err
    assert not (model.parent / "wrong.erasable").exists()


@pytest.mark.parametrize("command", ["learn", "forget", "export"])
def test_commands_do_not_wait_for_ever(model, capsys, command):
    rest = {
        "learn": ["rows.csv", "-o", str(model), "--id", "id"],
        "forget": [str(model), "--id", "row-0"],
        "export": [str(model), "-o", "w.safetensors"],
    }[command]
    with locked(model if command != "export" else model.parent / "w.safetensors"):
        assert run([command, *rest, "--timeout", "0.05"]) == 5
    assert "within 0.05 seconds" in capsys.readouterr().err
    with mock.patch("erasable.store._writing.holding_lock", side_effect=ZeroDivisionError) as held:
        with pytest.raises(ZeroDivisionError):
            run([command, *rest])
        assert 59 < held.call_args[0][1] <= 60
    assert run([command, *rest, "--timeout", "-1"]) == 2


def test_commands_that_change_a_file_say_once_where_blocks_may_stay(model, capsys, on_btrfs):
    for command, name in (
        (["learn", "rows.csv", "--id", "id", "--threshold", "0.05", "-o", "new.erasable"], "new.erasable"),
        (["forget", str(model), "--id", "row-0"], str(model)),
        (["forget", str(model), "--id", "row-1", "--json"], str(model)),
        (["export", str(model), "-o", "w.safetensors"], "w.safetensors"),
    ):
        capsys.readouterr()
        assert run(command) == 0
        said = capsys.readouterr()
        assert said.err.count(f"note: {name} is on a file system where overwritten bytes may stay") == 1
        assert said.err.count(on_btrfs.why) == 1
        assert ("--json" in command) == (str(on_btrfs) in said.out)
    for command in (["verify", str(model)], ["inspect", str(model)]):
        assert on_btrfs.why not in printed(capsys, command).err


def test_old_bytes_are_never_said_to_be_gone(model, capsys, signer):
    forget = ["forget", str(model), "--id"]
    for command in ([*forget, "row-0", "--json"], ["inspect", str(model), "--json"]):
        assert "not known" in json.loads(printed(capsys, command).out)["old_bytes"]
    assert "not known" in printed(capsys, ["inspect", str(model)]).out
    printed(capsys, [*forget, "row-1", "--receipt", "r.json", "--key", str(signer)])
    key = ["--key", str(signer.with_suffix(".pub.pem"))]
    assert "not known" in printed(capsys, ["receipt", "verify", "r.json", *key]).out
    printed(capsys, ["evidence", str(model), "--receipts", "r.json", *key, "-o", "pack"])
    assert "not known" in Path("pack", "evidence.html").read_text()


def test_a_receipt_and_the_evidence_carry_the_doubt(model, capsys, signer, on_btrfs):
    printed(capsys, ["forget", str(model), "--id", "row-1", "--receipt", "r.json", "--key", str(signer)])
    key = ["--key", str(signer.with_suffix(".pub.pem"))]
    assert str(on_btrfs) in printed(capsys, ["receipt", "verify", "r.json", *key]).out
    assert str(on_btrfs) in printed(capsys, ["inspect", str(model)]).out
    printed(capsys, ["evidence", str(model), "--receipts", "r.json", *key, "-o", "pack"])
    assert str(on_btrfs) in Path("pack", "evidence.html").read_text()
