"""Files of every released version: each must be readable for ever, and rewriting it must give the same bytes.

Should one of these tests fail, it is the program that is wrong, not the file.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest
from sklearn.base import clone

from erasable import ModelFile, load, verify
from erasable.models import shards
from erasable.operations.inspect import inspect
from tests.formats.make import LIMITS, MODELS, main
from tests.formats.models import rows

HERE = Path(__file__).parent
# Digest of the state; SHA-256 of the file, which is another where there are several.
KEPT = {
    "linear-v1": (
        "fbf834fc7180730f878b730fd8d6d83946be905ca18e02518d3c420d3064eec5",
        "fbf834fc7180730f878b730fd8d6d83946be905ca18e02518d3c420d3064eec5",
    ),
    "kernel-v1": (
        "8825ce4a006cf8bfd0f2bef7ff33193f79047ac54fbee5bc22db1f06677854d1",
        "8825ce4a006cf8bfd0f2bef7ff33193f79047ac54fbee5bc22db1f06677854d1",
    ),
    "general-v1": (
        "81a82ed58b97c274970c26d2fbef9fa1bbb654487247decc52f5eff0e0442d60",
        "81a82ed58b97c274970c26d2fbef9fa1bbb654487247decc52f5eff0e0442d60",
    ),
    "core-set-v1": (
        "deb1d4e32305f26437de2edb0c9002ec88d1fc743b98b279f956fd8b9b50cfd7",
        "deb1d4e32305f26437de2edb0c9002ec88d1fc743b98b279f956fd8b9b50cfd7",
    ),
    "mapped-v1": (
        "1c1493cafb2cf4c8180028390e077bc4827588f4a286f1f99a5d2d01f3cc54a7",
        "1c1493cafb2cf4c8180028390e077bc4827588f4a286f1f99a5d2d01f3cc54a7",
    ),
    "sharded-v1": (
        "7e5e9951e354a35986d2368b5d00e94e567e87597354d82648dcd2d8ba6dea46",
        "062d4e34757eab2050a01f56465e8fda9589923e52af3946c71307e64758f10f",
    ),
}
NEEDED = {"general-v1", "core-set-v1", "mapped-v1"}  # like= is needed to load, or to predict


@pytest.fixture(params=KEPT)
def kept(request, monkeypatch):
    """The name of a kept file, and its path."""
    if request.param.startswith("sharded"):
        for name, value in LIMITS.items():
            monkeypatch.setattr(shards, name, value)
    return request.param, HERE / f"{request.param}.erasable"


def like(name):
    return clone(MODELS[name]()) if name in NEEDED else None


def test_the_file_is_the_one_that_was_kept(kept):
    name, path = kept
    digest, whole = KEPT[name]
    assert hashlib.sha256(path.read_bytes()).hexdigest() == whole
    assert inspect(path).digest == digest
    assert inspect(path).version == 1


def test_a_file_of_this_version_is_read_and_verified(kept):
    name, path = kept
    model = load(path, like=like(name))
    assert model.state_digest() == KEPT[name][0] == verify(model).digest


def test_rewriting_it_gives_the_same_bytes(kept, tmp_path):
    name, path = kept
    load(path, like=like(name)).save(tmp_path / path.name)
    assert (tmp_path / path.name).read_bytes() == path.read_bytes()
    folder = f".{path.name}.parts"
    left, right = ({p.name: p.read_bytes() for p in (at / folder).glob("*")} for at in (HERE, tmp_path))
    assert left == right
    assert bool(left) == name.startswith("sharded")


def test_it_says_what_it_said(kept):
    name, path = kept
    model, made = load(path, like=like(name)), MODELS[name]()
    X = rows(20) / 16 if name == "general-v1" else rows(20)
    assert model.predict(X).tolist() == made.predict(X).tolist()
    assert model.core_ids_.tolist() == made.core_ids_.tolist()


def test_rows_are_forgotten_in_it(kept, tmp_path):
    name, path = kept
    copy = tmp_path / path.name
    shutil.copy(path, copy)
    if (HERE / f".{path.name}.parts").exists():
        shutil.copytree(HERE / f".{path.name}.parts", tmp_path / f".{path.name}.parts")
    made = MODELS[name]()
    leaving = made.core_ids_[1:4].tolist()
    made.forget(ids=leaving)
    report = ModelFile(copy, like=like(name)).forget(ids=leaving, digests=True)
    assert report.core_rows_removed == 3
    assert report.digest == made.state_digest()


def test_the_program_still_writes_them(tmp_path):
    """As long as this version is the newest: what is kept is what is written today."""
    main(str(tmp_path))
    for name in KEPT:
        path = tmp_path / f"{name}.erasable"
        assert path.read_bytes() == (HERE / path.name).read_bytes()
