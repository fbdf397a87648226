"""docs/format.md is enough to read a file: an independent reader agrees with ours on every kind."""

from __future__ import annotations

import hashlib
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, load
from erasable.models import shards
from tests.formats.models import CASES
from tests.formats.reader import File, node_of, read_sharded, sums


@pytest.mark.parametrize("name", CASES)
def test_every_kind_of_file_is_what_the_page_says(name):
    model = CASES[name].fitted()
    raw = b"".join(model._model.snapshot().pieces)
    file = File(raw)
    assert file.names("ids") == model.core_ids_.tolist()
    assert file.names("subjects") == list(model.model_.snapshot().subjects)
    assert ("subjects.lengths" in file.tensors) == (CASES[name].key == "bytes")
    assert hashlib.sha256(raw).hexdigest() == model.state_digest()
    if "gram" in file.tensors:
        width = file.meta["n_features"] + file.meta["intercept"]
        found = sums(file.rows(), list(file.tensors["labels"]), len(file.meta["classes"]), width)
        assert ("rows" in file.tensors) == ("sparse" not in name)
        assert found == (list(file.tensors["gram"]), list(file.tensors["class_sums"]))
        weights = file.tensors.get("row_weights")
        assert (weights is None) == (not CASES[name].weighted)
        assert ("weighted_gram" in file.tensors) == (weights is not None and file.meta["loss"] == "squared")
        if "weighted_gram" in file.tensors:
            wide = sums(
                file.rows(), list(file.tensors["labels"]), len(file.meta["classes"]), len(file.rows()[0]), weights
            )
            assert wide == (list(file.tensors["weighted_gram"]), list(file.tensors["weighted_class_sums"]))


def test_kept_files_are_what_the_page_says():
    for path in sorted(Path(__file__).parent.glob("*-v1.erasable")):
        assert File(path.read_bytes()).meta["version"] == 1


def test_an_empty_model_is_what_the_page_says():
    clf = ErasableClassifier(threshold=0.1).fit(np.eye(3), [0, 1, 0])
    clf.forget(ids=[0, 1, 2])
    file = File(b"".join(clf._model.snapshot().pieces))
    assert (file.meta["id_kind"], file.meta["class_kind"], file.shapes["rows"]) == (None, None, [0, 4])
    assert "ids" not in file.tensors
    assert file.tensors["weights"] == (0.0,) * 4


@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
def test_sparse_shards_are_what_the_page_says(kind, tmp_path, monkeypatch):
    """Some rows are dense, so that some shards are, in a state that is sparse."""
    n, d = 100, 300
    monkeypatch.setattr(shards, "LARGEST_FILE", 1000)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 700)
    rng = np.random.default_rng(2)
    ids = [{"int": i - 30, "str": f"é{i}", "bytes": b"\0%d" % i}[kind] for i in range(n)]
    X, y = rng.standard_normal((n, d)) * (rng.random((n, d)) < 0.03), np.arange(n) % 3
    X[::40] = 1.0
    clf = ErasableClassifier(threshold=1e-9).fit(X, y, ids)
    clf.forget(ids=ids[::9])
    clf.save(tmp_path / "m.erasable")
    head, parts = read_sharded(tmp_path / "m.erasable")
    found: dict = {}
    for k, part in enumerate(parts):
        places = [i for i, shard in enumerate(head.tensors["order"]) if shard == k]
        rows = part.rows(head.meta)
        found |= dict(zip(places, zip(part.names("ids"), rows, part.tensors["labels"], strict=True), strict=True))
    assert {"rows" in part.tensors for part in parts} == {False, True}
    keys, rows, labels = (list(column) for column in zip(*(found[i] for i in range(len(found))), strict=True))
    assert keys == load(tmp_path / "m.erasable").core_ids_.tolist() == clf.core_ids_.tolist()
    at = [0, 1, d // 2, d]
    some = [tuple(row[j] for j in at) for row in rows]
    gram, by_class = sums(some, labels, 3, len(at))
    assert gram == [head.tensors["gram"][i * (i + 1) // 2 + j] for i in at for j in at if j <= i]
    assert by_class == [head.tensors["class_sums"][c * (d + 1) + j] for c in range(3) for j in at]
    sizes = {key: 2 + 4 * sum(1 for v in row[:d] if v) for key, row in zip(keys, rows, strict=True)}
    assert _nodes(sorted(keys, key=lambda key: node_of(key, kind)), kind, sizes, 700, 255) == [
        sorted(part.names("ids"), key=lambda key: node_of(key, kind)) for part in parts
    ]


def _nodes(keys, kind, sizes, most, bit):
    if len(keys) <= 1 or sum(sizes[key] for key in keys) <= most:
        return [keys] if keys else []
    halves = [[key for key in keys if (node_of(key, kind) >> bit & 1) == half] for half in (0, 1)]
    return [node for half in halves for node in _nodes(half, kind, sizes, most, bit - 1)]


@pytest.mark.parametrize("kind", ["int", "str", "bytes"])
def test_shards_are_what_the_page_says(kind, tmp_path, monkeypatch):
    """Nodes of a tree of hashes, divided if and only if they hold more rows than a shard may."""
    most, width, n = 6, 5, 100
    monkeypatch.setattr(shards, "LARGEST_FILE", 50 * 2 * width)
    monkeypatch.setattr(shards, "LARGEST_SHARD", most * 2 * width + 3)
    rng = np.random.default_rng(2)
    ids = [{"int": i - 30, "str": f"é{i}", "bytes": b"\0%d" % i}[kind] for i in range(n)]
    owners = [[None, f"o{i}", ["all", f"o{i}"]][i % 3] for i in range(n)]
    X, y = rng.standard_normal((n, width - 1)), np.arange(n) % 3
    clf = ErasableClassifier(threshold=1e-9).fit(X, y, ids, owners, allow_no_subject=True)
    clf.forget(ids=ids[::9])
    clf.save(tmp_path / "m.erasable")
    head, parts = read_sharded(tmp_path / "m.erasable")
    found: dict = {}
    for k, part in enumerate(parts):
        places = [i for i, shard in enumerate(head.tensors["order"]) if shard == k]
        held = part.names("ids"), part.rows(), part.tensors["labels"], part.names("subjects")
        found |= dict(zip(places, zip(*held, strict=True), strict=True))
    columns = (list(column) for column in zip(*(found[i] for i in range(len(found))), strict=True))
    keys, rows, labels, people = columns
    assert {"subjects.lengths" in part.tensors for part in parts} == {False, True}
    assert (
        people == list(clf.model_.snapshot().subjects) == list(load(tmp_path / "m.erasable").model_.snapshot().subjects)
    )
    assert keys == load(tmp_path / "m.erasable").core_ids_.tolist() == clf.core_ids_.tolist()
    assert sorted(keys) == sorted(key for key in ids if key not in ids[::9])
    assert sums(rows, labels, 3, width) == (list(head.tensors["gram"]), list(head.tensors["class_sums"]))
    assert _tree(sorted(keys, key=lambda key: node_of(key, kind)), kind, most, 255) == [
        sorted(part.names("ids"), key=lambda key: node_of(key, kind)) for part in parts
    ]


def _tree(keys, kind, most, bit):
    if len(keys) <= most:
        return [keys] if keys else []
    halves = [[key for key in keys if (node_of(key, kind) >> bit & 1) == half] for half in (0, 1)]
    return _tree(halves[0], kind, most, bit - 1) + _tree(halves[1], kind, most, bit - 1)
