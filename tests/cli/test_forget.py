"""``erasable forget`` where something goes wrong, or nothing was there to forget."""

from __future__ import annotations

import errno
import json
import os
import signal
from unittest import mock

import numpy as np
import pytest

from erasable import ErasableClassifier, ModelFile, load
from erasable.audit.keys import new_key, read_public_key
from erasable.audit.receipts import check_receipt, check_state
from erasable.cli.app import run
from erasable.errors import VerificationError
from erasable.operations.model_file import undisturbed
from erasable.store import half_written
from erasable.store._disk import Disk
from tests.cli.session import answered, printed

RNG = np.random.default_rng(1)
X = RNG.standard_normal((60, 4))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ids, owners = [f"row-{i}" for i in range(60)], [f"owner-{i % 7}" for i in range(60)]
    ErasableClassifier(threshold=0.01).fit(X, X[:, 0] > 0, ids, owners).save("m.erasable")
    assert run(["keys", "new", "-o", "signer"]) == 0
    return tmp_path


SIGN = ["--receipt", "r.json", "--key", "signer.pem"]


def test_a_receipt_that_cannot_be_written_after_all_is_not_lost(folder, capsys):
    """Room for it is taken before; should the disk fail all the same, it is printed, and it is said what happened."""
    key = load("m.erasable").core_ids_[0]
    synced = os.fsync
    capsys.readouterr()

    def fails_for_the_receipt(descriptor):
        if os.path.samestat(os.fstat(descriptor), os.stat(".r.json.new")) and key not in load("m.erasable").core_ids_:
            raise OSError(errno.EIO, "injected")
        synced(descriptor)

    with mock.patch("erasable.store._disk.os.fsync", fails_for_the_receipt):
        assert run(["forget", "m.erasable", "--id", key, *SIGN]) == 5
    text = capsys.readouterr().err
    assert "the rows are forgotten, but r.json could not be written" in text
    assert key not in load("m.erasable").core_ids_
    assert not [p.name for p in folder.iterdir() if "r.json" in p.name]
    receipt = next(line for line in text.splitlines() if line.startswith("{"))
    check_state(check_receipt(receipt + "\n", read_public_key("signer.pub.pem")), load("m.erasable").state_digest())


def test_no_room_for_a_receipt_is_found_before_anything_is_forgotten(folder):
    key, before = load("m.erasable").core_ids_[0], (folder / "m.erasable").read_bytes()
    with mock.patch("erasable.store._disk.os.fsync", side_effect=OSError(errno.ENOSPC, "No space left on device")):
        assert run(["forget", "m.erasable", "--id", key, *SIGN]) == 5
    assert (folder / "m.erasable").read_bytes() == before
    assert not [p.name for p in folder.iterdir() if "r.json" in p.name]
    assert run(["forget", "m.erasable", "--id", key, *SIGN]) == 0
    assert len((folder / "r.json").read_text().splitlines()) == 1


def test_only_the_receipt_of_the_same_request_is_taken_for_it(folder, capsys):
    """A command that was killed after its last step is asked again: its receipt is there, and stays."""
    first, second = map(str, load("m.erasable").core_ids_[:2])
    forget = ["forget", "m.erasable", *SIGN]
    assert run([*forget, "--id", first, "--request-id", "one"]) == 0
    receipt = (folder / "r.json").read_bytes()
    assert "it was kept" in printed(capsys, [*forget, "--id", first, "--request-id", "one"]).out
    state = (folder / "m.erasable").read_bytes()
    for other in (
        ["--id", first],  # it may be of another request
        ["--id", "nobody"],
        ["--id", first, "--request-id", "two"],
        ["--id", first, "--after-only"],
        ["--id", second],
        ["--id", first, "--id", second, "--request-id", "one"],
    ):
        assert "never overwritten" in printed(capsys, [*forget, *other], 5).err
    assert run(["keys", "new", "-o", "another"]) == 0
    assert run(["forget", "m.erasable", "--id", first, "--receipt", "r.json", "--key", "another.pem"]) == 5
    assert (folder / "m.erasable").read_bytes() == state
    assert run(["forget", "m.erasable", "--id", second]) == 0  # another state
    assert run([*forget, "--id", first, "--request-id", "one"]) == 5
    assert (folder / "r.json").read_bytes() == receipt


@pytest.mark.parametrize("there", [b"", b" " * 8192, b"{}", b"\xff" * 100, b"x" * 10**6, "folder", "link", "pipe"])
def test_what_is_no_receipt_is_not_overwritten(there, folder, capsys):
    path = folder / "r.json"
    if there == "folder":
        path.mkdir()
    elif there == "link":
        path.symlink_to("nowhere")
    elif there == "pipe":
        os.mkfifo(path)
    else:
        path.write_bytes(there)
    before = (folder / "m.erasable").read_bytes()
    for named in ([], ["--request-id", "one"]):
        text = printed(
            capsys, ["forget", "m.erasable", "--id", str(load("m.erasable").core_ids_[0]), *SIGN, *named], 5
        ).err
        assert "never overwritten" in text
    assert (folder / "m.erasable").read_bytes() == before
    assert isinstance(there, str) or path.read_bytes() == there


def test_room_that_killed_commands_left_is_removed_by_the_next(folder):
    rooms, others = (
        [".a.json.new", ".r.json.new"],
        {".b.json.new": b"{}", ".c.new": b"\xff" * 8192, "d.new": b" " * 8192},
    )
    for name in rooms:
        (folder / name).write_bytes(b" " * 8192)
    for name, content in others.items():
        (folder / name).write_bytes(content)
    with half_written(folder / "busy.json") as busy:
        busy.write(" " * 8192)
        busy.flush()
        assert run(["forget", "m.erasable", "--id", "nobody", *SIGN]) == 0
        assert run(["forget", "m.erasable", "--id", "nobody", *SIGN[2:], "--receipt", "busy.json"]) == 5
        assert (folder / ".busy.json.new").exists()
    assert not [name for name in rooms if (folder / name).exists()]
    assert all((folder / name).read_bytes() == content for name, content in others.items())


def test_no_receipt_for_a_state_that_does_not_verify(folder):
    """Somebody altered a sum and made the checksum fit."""
    clf = load("m.erasable")
    clf._model.sums.H[0, 0] += 1
    clf.save("m.erasable", overwrite=True)
    before, key = (folder / "m.erasable").read_bytes(), str(clf.core_ids_[3])
    assert run(["forget", "m.erasable", "--id", key, *SIGN]) == 4
    assert run(["forget", "m.erasable", "--id", "unknown", *SIGN]) == 4
    assert (folder / "m.erasable").read_bytes() == before
    assert not (folder / "r.json").exists()
    with pytest.raises(VerificationError):
        ModelFile("m.erasable", key=new_key()).forget(ids=[key])
    ModelFile("m.erasable", key=new_key(), verify_first=False).forget(ids=[key])
    assert key not in load("m.erasable").core_ids_


def test_who_expects_rows_to_leave_is_told_that_none_were_there(folder, capsys):
    ErasableClassifier(threshold=0.01).fit(X, X[:, 0] > 0).save("plain.erasable")
    assert "stores no subjects" in printed(capsys, ["forget", "plain.erasable", "--subject", "ann"]).err
    assert run(["forget", "m.erasable", "--id", "row-0 "]) == 0
    why = "they were never learnt, were not kept, or are forgotten already"
    assert capsys.readouterr().err == f"note: 1 of 1 named rows are not stored: {why}.\n"
    core = [str(k) for k in load("m.erasable").core_ids_]
    ids = [f"--id={k}" for k in ("a", core[0], "b", core[1], "c")]
    assert run(["forget", "m.erasable", *ids]) == 0
    assert capsys.readouterr().err == f"note: 3 of 5 named rows are not stored: {why}.\n"
    assert run(["forget", "m.erasable", "--subject", "owner-1", "--subject", "nobody"]) == 0
    assert capsys.readouterr().err == f"note: 1 of 2 named subjects are not stored: {why}.\n"
    assert run(["forget", "m.erasable", "--subject", "owner-1", "--id", core[2]]) == 0
    assert capsys.readouterr().err == f"note: 1 of 2 named rows and subjects are not stored: {why}.\n"
    told = answered(capsys, ["forget", "m.erasable", "--id", "nobody", "--id", core[3], "--json"])
    assert (told["requested"], told["not_stored"], told["warnings"]) == (2, 1, [])
    assert run(["forget", "m.erasable", "--id", str(load("m.erasable").core_ids_[0])]) == 0
    assert capsys.readouterr().err == ""


def test_a_name_that_comes_again_is_counted_once(folder, capsys):
    core = load("m.erasable").core_ids_.tolist()
    (folder / "list.txt").write_text(f"{core[0]}\n{core[1]}\n{core[0]}\n")
    twice = ["--subject", "nobody", "--subject", "nobody", "--id", core[0], "--ids-file", "list.txt"]
    assert answered(capsys, ["inspect", "m.erasable", *twice[:6], "--json"])["requested"] == 2
    told = answered(capsys, ["forget", "m.erasable", *twice, "--json"])
    assert (told["requested"], told["not_stored"], told["core_rows_removed"]) == (3, 1, 2)


def test_a_column_of_a_list_of_names_can_be_named(folder, capsys):
    core = load("m.erasable").core_ids_.tolist()
    (folder / "list.csv").write_text("ticket,row\n1," + core[0] + "\n2," + core[1] + "\n")
    assert "--column" in printed(capsys, ["forget", "m.erasable", "--ids-file", "list.csv"], 2).err
    assert run(["forget", "m.erasable", "--ids-file", "list.csv", "--column", "row"]) == 0
    assert load("m.erasable").core_ids_.tolist() == core[2:]


def test_a_passphrase_can_be_typed_in(folder, monkeypatch):
    (folder / "word.txt").touch(0o600)
    (folder / "word.txt").write_text("open sesame\n")
    assert run(["keys", "new", "-o", "locked", "--passphrase-file", "word.txt"]) == 0
    sign = ["--receipt", "r.json", "--key", "locked.pem", "--ask-passphrase"]
    monkeypatch.setattr("typer.prompt", lambda *_, **__: "open sesame")
    assert run(["forget", "m.erasable", "--id", "row-1", *sign, "--passphrase-file", "word.txt"]) == 2
    assert run(["forget", "m.erasable", "--id", "row-1", *sign]) == 0
    assert run(["receipt", "verify", "r.json", "--key", "locked.pub.pem", "--state", "m.erasable"]) == 0


def test_an_interrupt_waits_until_the_file_is_written_and_erased(folder, capsys):
    """Ctrl-C right after the rename: the old file is erased all the same, and the exit code says what happened."""
    key = str(load("m.erasable").core_ids_[0])
    renamed = Disk.rename

    def rename(self, *paths):
        renamed(self, *paths)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored, where this runs in the background
    try:
        with mock.patch.object(Disk, "rename", rename):
            assert run(["forget", "m.erasable", "--id", key]) == 130
    finally:
        signal.signal(signal.SIGINT, before)
    assert "every file is as before the command or as after it" in capsys.readouterr().err
    assert sorted(p.name for p in folder.iterdir() if "erasable" in p.name) == [".m.erasable.lock", "m.erasable"]
    assert key not in load("m.erasable").core_ids_
    with undisturbed():
        pass
    assert signal.getsignal(signal.SIGINT) is before


def test_a_model_whose_rows_had_names_says_that_its_file_has_none(folder):
    import pandas as pd

    frame = pd.DataFrame(X, columns=list("abcd"))
    with pytest.warns(UserWarning, match="feature_names="):
        ErasableClassifier(threshold=0.01).fit(frame, X[:, 0] > 0).save("named.erasable")


@pytest.mark.parametrize("as_json", [False, True])
@pytest.mark.parametrize(
    ("left", "says"),
    [
        (0, "forgetting took the last stored row of a class, which this model no longer predicts."),
        (9, "forgetting left fewer than 10 stored rows of a class, so predictions rest on few rows"),
    ],
)
def test_a_class_that_few_or_no_rows_are_left_of_is_told_in_one_line_and_not_named(folder, capsys, as_json, left, says):
    positive = {f"row-{i}" for i in np.flatnonzero(X[:, 0] > 0)}
    ids = [key for key in load("m.erasable").core_ids_ if key in positive]
    assert len(ids) > 10
    capsys.readouterr()
    named = [word for key in ids[left:] for word in ("--id", key)]
    assert run(["forget", "m.erasable", *named, *["--json"] * as_json]) == 0
    out, err = capsys.readouterr()
    (warning,) = json.loads(out)["warnings"] if as_json else [err.removeprefix("warning: ").removesuffix("\n")]
    assert warning.startswith(says)
    assert "True" not in warning
    assert err.count("\n") == (not as_json)
    assert len(load("m.erasable").classes_) == 1 + bool(left)
