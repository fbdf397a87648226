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
from tests.formats.make import LIMITS, MODELS, main, raw_rows
from tests.formats.models import rows, wide_rows

HERE = Path(__file__).parent
# Digest of the state; SHA-256 of the file, which is another where there are several.
KEPT = {
    "linear-v1": (
        "245bf40113f023d9116d11123b9947633148fddde4c4de3bfc856377f40150d7",
        "245bf40113f023d9116d11123b9947633148fddde4c4de3bfc856377f40150d7",
    ),
    "sparse-v1": (
        "45c9e68bb4621b57c7bb1af04b0b2249cde91f17dcbd7714392c7c4972c76abe",
        "45c9e68bb4621b57c7bb1af04b0b2249cde91f17dcbd7714392c7c4972c76abe",
    ),
    "shared-v1": (
        "583c8a0e51a4185354b25c222df0946cd160c8385663763d9a3a6aa4cafb4102",
        "583c8a0e51a4185354b25c222df0946cd160c8385663763d9a3a6aa4cafb4102",
    ),
    "logistic-v1": (
        "33279dd08d5464c8776291a2fb44224bd3d2355fd4d845470b56c63ec3882b16",
        "33279dd08d5464c8776291a2fb44224bd3d2355fd4d845470b56c63ec3882b16",
    ),
    "weighted-v1": (
        "4ce69ca74f38eeee2a505a20c185e2e9e92e1b4e4239f17d340568d62b714a5d",
        "4ce69ca74f38eeee2a505a20c185e2e9e92e1b4e4239f17d340568d62b714a5d",
    ),
    "regression-v1": (
        "85bb834dc73d442592b3b645714d4642f47ca35a907eaee27614b5c3713b90b5",
        "85bb834dc73d442592b3b645714d4642f47ca35a907eaee27614b5c3713b90b5",
    ),
    "kernel-v1": (
        "2338d4025e445fcbfedd4154b9dafa5e14e4e1025b40ca6dc89fecc1366dcb60",
        "2338d4025e445fcbfedd4154b9dafa5e14e4e1025b40ca6dc89fecc1366dcb60",
    ),
    "general-v1": (
        "b24e54e37a55bfd1feea3c289e8997755762ccbec65067389a18efb296fe01e2",
        "b24e54e37a55bfd1feea3c289e8997755762ccbec65067389a18efb296fe01e2",
    ),
    "core-set-v1": (
        "deb1d4e32305f26437de2edb0c9002ec88d1fc743b98b279f956fd8b9b50cfd7",
        "deb1d4e32305f26437de2edb0c9002ec88d1fc743b98b279f956fd8b9b50cfd7",
    ),
    "mapped-v1": (
        "a133bdb93d8138930ff4733c98ed29f06032c5403520f360439895df0203c5b6",
        "a133bdb93d8138930ff4733c98ed29f06032c5403520f360439895df0203c5b6",
    ),
    "schema-v1": (
        "d5f3c015b35812b4c5cfb98dc5da38aa41993092faa1fed71dd8ddb9e93a4f18",
        "d5f3c015b35812b4c5cfb98dc5da38aa41993092faa1fed71dd8ddb9e93a4f18",
    ),
    "sharded-v1": (
        "e9a1724591a1a61493d7ac7b0fdcdf08154a3bb8ec78edb84257112b0f4393b2",
        "6b8d615e39b5d5c5f1d6e7c072534ef5ab4083c68b8f372158c8490253091c17",
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
    X = {"general-v1": rows(20) / 16, "sparse-v1": wide_rows(), "schema-v1": raw_rows()}.get(name, rows(20))
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
