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
    "state-v1": (
        "49caa512d3b0917333f6204b19c41ce3efb0851502fcef384e6bcabf874faaa8",
        "49caa512d3b0917333f6204b19c41ce3efb0851502fcef384e6bcabf874faaa8",
    ),
    "kernel-state-v1": (
        "4a901679baaea9cfc8777414c8d6065cfd0bfb2f67671e1253ffe13b1ee0ba82",
        "4a901679baaea9cfc8777414c8d6065cfd0bfb2f67671e1253ffe13b1ee0ba82",
    ),
    "general-state-v1": (
        "fc43af2b5dbdcfc2668eead0466771801cb27c78053589639fb45674589ef1d5",
        "fc43af2b5dbdcfc2668eead0466771801cb27c78053589639fb45674589ef1d5",
    ),
    "core-set-v1": (
        "0f81480ebb2d90a9bcab3d2c1694b02ab79406737e37925828c6904d42da1502",
        "0f81480ebb2d90a9bcab3d2c1694b02ab79406737e37925828c6904d42da1502",
    ),
    "mapped-state-v1": (
        "c141e0f9044093f8e65e2a0edb71435317008842c9a1bd12f07c23704f830ccc",
        "c141e0f9044093f8e65e2a0edb71435317008842c9a1bd12f07c23704f830ccc",
    ),
    "sharded-state-v1": (
        "f2f8d67dc86e2115685d0828c59b0e0b6049b3b2668e9f841d3d3f043af04fee",
        "8392126001622a77ff0e57cefcad7a9e13f01ec77b41517bee7b1e4b45279aa4",
    ),
}
NEEDED = {"general-state-v1", "core-set-v1", "mapped-state-v1"}  # like= is needed to load, or to predict


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
    X = rows(20) / 16 if name == "general-state-v1" else rows(20)
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
