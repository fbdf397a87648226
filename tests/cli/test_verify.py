"""``erasable verify`` as a user types it."""

from __future__ import annotations

import numpy as np
import pytest

from erasable import ErasableClassifier, load, verify
from erasable.cli.app import run
from erasable.features import HashedText, RandomFourierFeatures
from tests.cli.session import LEARN, MODEL, N, content, learnt, refused, said
from tests.formats.models import CASES, rows, texts
from tests.formats.tampering import altered, opened, rebuilt, tensors

pytestmark = pytest.mark.usefixtures("folder")


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
        "core_rows": report.core_rows,
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
            no(["verify", MODEL], 4, "not a state")
            no(["inspect", MODEL], 2, "not a state")
            no(["forget", MODEL, "--id", "row 1"], 2, "not a state")
            no(["predict", MODEL, "learnt.parquet"], 2, "not a state")


def test_a_flipped_bit_anywhere_does_not_verify(folder, capsys):
    learnt()
    right = content()
    length = int.from_bytes(right[:8], "little")
    places = {*range(0, 8), *range(8, 8 + length, 7), *range(8 + length, len(right), len(right) // 40), len(right) - 1}
    version = right.index(b"version")
    for at in sorted(places | set(range(version, version + 14))):
        bad = bytearray(right)
        bad[at] ^= 1
        (folder / MODEL).write_bytes(bad)
        assert run(["verify", MODEL]) == 4, at
    capsys.readouterr()
    assert run(["verify", MODEL, "--json"]) == 4
    assert said(capsys)["error"]["kind"] == "VerificationError"
    assert run(["verify", "nowhere.erasable"]) == 5


def test_a_newer_file_is_named_by_every_command(folder, capsys):
    learnt()
    (folder / MODEL).write_bytes(altered(content(), lambda header, meta: meta.update(version=2)))
    with refused(capsys, folder) as no:
        no(["verify", MODEL], 4, "version 2", "install a newer erasable")
        for arguments in (
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
    numbers = ErasableClassifier(feature_map=RandomFourierFeatures(6), threshold=0.1)
    words = ErasableClassifier(feature_map=HashedText(8), threshold=0.1)
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
