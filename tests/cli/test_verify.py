"""``erasable verify`` as a user types it."""

from __future__ import annotations

import pytest

from erasable import load, verify
from erasable.cli.app import run
from tests.cli.session import LEARN, MODEL, answered, content, learnt, printed, refused, said
from tests.formats.models import CASES
from tests.formats.tampering import altered, opened, rebuilt, tensors

pytestmark = pytest.mark.usefixtures("folder")


def test_verify(folder, capsys):
    learnt()
    model = load(MODEL)
    assert model.state_digest() in printed(capsys, ["verify", MODEL]).out
    assert run(["verify", MODEL, "--json"]) == 0
    report = verify(model)
    assert said(capsys) == {
        "model": MODEL,
        "verified": True,
        "core_rows": report.core_rows,
        "sums": report.sums,
        "weights": report.weights,
        "digest": report.digest,
        "left_behind": [],
        "not_compared": [],
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
    assert answered(capsys, ["verify", MODEL, "--json"], 4)["error"]["kind"] == "VerificationError"
    for damaged in (right[:-1], right[:-1] + bytes([right[-1] ^ 1]), b"", b"PK\x03\x04"):
        (folder / MODEL).write_bytes(damaged)
        with refused(capsys, folder) as no:
            no(["verify", MODEL], 4, "not a state")
            no(["inspect", MODEL], 2, "not a state")
            no(["forget", MODEL, "--id", "row 1"], 2, "not a state")
            no(["predict", MODEL, "learnt.parquet"], 2, "not a state")


def test_a_newer_file_is_named_by_every_command(folder, capsys):
    learnt()
    (folder / MODEL).write_bytes(altered(content(), lambda header, meta: meta.update(version=9)))
    with refused(capsys, folder) as no:
        no(["verify", MODEL], 4, "version 9", "install a newer erasable")
        for arguments in (
            ["inspect", MODEL],
            ["forget", MODEL, "--id", "row 1"],
            ["predict", MODEL, "learnt.parquet"],
            ["learn", "learnt.parquet", *LEARN],
        ):
            no(arguments, 2, "version 9", "install a newer erasable")


def test_models_that_need_code_say_so(folder, capsys):
    for name in ("general", "core set, ridge", "kernel function"):
        CASES[name].fitted().save("code.erasable", overwrite=True)
        with refused(capsys, folder) as no:
            for arguments in (["verify", "code.erasable"], ["forget", "code.erasable", "--id", "x"]):
                no(arguments, 2, "which a file cannot hold")
        assert run(["inspect", "code.erasable"]) == 0
        capsys.readouterr()
