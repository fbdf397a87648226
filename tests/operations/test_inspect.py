"""``inspect``: what a file says of itself, for every kind of model, and never an error that nobody foresaw."""

from __future__ import annotations

import hashlib
import json

import numpy as np
import pytest

from erasable import ErasableClassifier
from erasable.errors import StateFormatError, StoreError
from erasable.operations.inspect import inspect
from tests.formats.models import CASES, N, rows
from tests.formats.tampering import opened, rebuilt, tensors

KINDS = {
    "linear": "linear",
    "ridge": "linear",
    "mapped": "linear",
    "independent, moments, int ids": "independent selection, logistic head",
    "independent, matrix, bytes ids": "independent selection, squared head",
    "rbf": "kernel",
    "kernel function": "kernel",
    "general, int ids": "general function class",
    "core set, ridge": "learner on a core set",
    "core set, tree on sparse": "learner on a core set",
}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "model.erasable"


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_of_model_is_inspected_without_its_code(name, path):
    case = CASES[name]
    model = case.fitted()
    model.save(path)
    found = inspect(path, rows=True, learnt=N)
    assert found.kind == KINDS[name]
    assert found.digest == model.state_digest() == hashlib.sha256(path.read_bytes()).hexdigest()
    assert found.core_rows == model.n_core_ == len(found.rows)
    assert found.stored_share == model.n_core_ / N
    assert found.bytes == path.stat().st_size
    assert found.files == 1
    assert found.version == (2 if name.startswith("independent") else 1)
    assert found.classes == len(model.classes_)
    owned = any(owner is not None for owner in model.model_.snapshot().subjects)
    assert (found.ids, found.subjects) == (case.key, "str" if owned else None)
    assert found.rows_without_subject == sum(row["subject"] is None for row in found.rows)
    ids = model.core_ids_.tolist()
    assert [r["id"] for r in found.rows] == [k.hex() if case.key == "bytes" else k for k in ids]
    assert {r["label"] for r in found.rows} == {"ape", "bee", "cow"}
    plain = [list(s) if isinstance(s, tuple) else s for s in model.model_.snapshot().subjects]
    assert [r["subject"] for r in found.rows] == plain
    told = json.loads(json.dumps(found.as_json(), allow_nan=False))
    assert told["digest"] == found.digest
    assert "ids" not in told["configuration"]


@pytest.mark.parametrize("name", ["linear", "rbf", "core set, ridge"])
def test_rows_labels_and_classes_are_not_in_it_unless_asked_for(name, path):
    CASES[name].fitted().save(path)
    found = inspect(path)
    assert found.rows is None
    assert "rows" not in found.as_json()
    text = (json.dumps(found.as_json(), ensure_ascii=False) + repr(found)).replace(
        found.digest, ""
    )  # which is hexadecimal
    for hidden in ("rów", "owner", "ape", "bee"):
        assert hidden not in text


def test_the_capacity_is_the_one_that_the_caller_gave(path):
    for name, capacity in (("linear, bytes ids", 2.0), ("ridge", 0.5), ("rbf", 0.1)):
        CASES[name].fitted().save(path, overwrite=True)
        configuration = inspect(path).configuration
        assert float.fromhex(configuration["capacity"]) == pytest.approx(capacity, rel=1e-8)


def test_an_empty_model_is_inspected(path):
    model = ErasableClassifier(threshold=0.1, feature_map=None).fit(rows(), np.arange(N) % 2)
    model.forget(ids=range(N))
    model.save(path)
    found = inspect(path, rows=True, learnt=7)
    assert (found.core_rows, found.rows, found.ids, found.subjects, found.stored_share) == (0, [], None, None, 0.0)


def test_what_is_no_model(path, tmp_path):
    with pytest.raises(StoreError):
        inspect(path)
    with pytest.raises(StoreError):
        inspect(tmp_path)
    for data in (b"", b"\0" * 100, b"x" * 1000):
        path.write_bytes(data)
        with pytest.raises(StateFormatError):
            inspect(path)


def test_ids_of_a_sealed_file_do_not_multiply_in_memory(path):
    CASES["linear"].fitted().save(path)
    raw = path.read_bytes()
    n, size = 20_000, 500_000
    found = tensors(raw) | {
        "ids": ("U8", [size], b"x" * size),
        "ids.ends": ("I64", [n], np.tile([size, 0], n // 2).astype("<i8").tobytes()),
        "labels": ("I32", [n], bytes(4 * n)),
    }
    path.write_bytes(rebuilt(opened(raw)[1], found))
    with pytest.raises(StateFormatError):
        inspect(path, rows=True)


def test_numbers_stand_beside_the_hexadecimal_ones(path):
    for name, gamma in (("linear, bytes ids", None), ("rbf", 1.0)):
        CASES[name].fitted().save(path, overwrite=True)
        found = inspect(path)
        for number in ("capacity", "threshold"):
            assert getattr(found, number) == float.fromhex(found.configuration[number]) > 0
        assert found.gamma == gamma
    CASES["general"].fitted().save(path, overwrite=True)
    found = inspect(path)
    assert (found.capacity, found.threshold, found.gamma) == (None, None, None)
