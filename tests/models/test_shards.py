"""Shards: a function of the state, small changes for small requests, and nothing but what the head names."""

from __future__ import annotations

import hashlib
import itertools
import os

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from erasable import ErasableClassifier, ErasableRegressor, ModelFile, load, verify
from erasable.core.layout import read_meta
from erasable.errors import ChangedMeanwhileError, StateFormatError, StoreError
from erasable.estimators.files import estimator_of
from erasable.models import files as shards
from erasable.models.files import files_of, from_files, model_of, shards_of
from erasable.operations.inspect import inspect
from erasable.store import side_files
from tests.formats.tampering import altered, opened, rebuilt, sealed, tensors
from tests.strategies import problems

WIDTH = 4  # of the rows below, with the intercept


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Everything above 120 bytes of rows is divided, into shards of four rows of :func:`fitted`."""
    monkeypatch.setattr(shards, "LARGEST_FILE", 120)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 4 * 2 * WIDTH)


def fitted(n=60, key="int", seed=0, **parameters):
    """A model that keeps all of its rows."""
    X = np.random.default_rng(seed).standard_normal((n, WIDTH - 1))
    names = {"int": lambda i: i - 7, "str": lambda i: f"rów {i}", "bytes": lambda i: b"\0%d" % i}[key]
    ids, y = [names(i) for i in range(n)], np.array(["a", "b", "c"])[np.arange(n) % 3]
    model = ErasableClassifier(**{"threshold": 0.0, **parameters}, feature_map=None)
    half = n // 2
    model.partial_fit(X[:half], y[:half], ids=ids[:half])
    return model.partial_fit(X[half:], y[half:], ids=ids[half:], subjects=[f"s{i % 5}" for i in range(half, n)])


def written(files):
    """Head and shards as bytes."""
    return b"".join(files.head), {name: b"".join(pieces) for name, pieces in files.parts.items()}


def divided(model):
    return written(files_of(model._model.snapshot()))


def leaves(ids, most, sizes=None):
    """Which ids stand together: an independent account, by the digits of the hashes; rows are of one size, or these."""

    def name(key):
        kind = {int: "i", str: "s", bytes: "b"}[type(key)].encode()
        return kind + (key if isinstance(key, bytes) else str(key).encode())

    digits = {key: f"{int(hashlib.sha256(name(key)).hexdigest(), 16):0256b}" for key in ids}

    def split(prefix):
        here = [key for key in ids if digits[key].startswith(prefix)]
        if len(here) <= 1 or sum(sizes[key] if sizes else 1 for key in here) <= most:
            return [here] if here else []
        return split(prefix + "0") + split(prefix + "1")

    return split("")


def bytes_of_rows(state):
    """How many bytes each row takes in one file, by its id."""
    found, n = tensors(state.to_bytes()), len(state.ids)
    if "rows" in found:
        return dict.fromkeys(state.ids, len(found["rows"][2]) // max(1, n))
    (kind, _, raw), value = found["rows.lengths"], {"I16": 2, "I32": 4}[found["rows.values"][0]]
    width = {"U8": 1, "U16": 2}[kind]
    lengths = [int.from_bytes(raw[i : i + width], "little") for i in range(0, len(raw), width)]
    return {key: width + k * (width + value) for key, k in zip(state.ids, lengths, strict=True)}


def ids_of(shard):
    meta, found = opened(shard)[1], tensors(shard)
    raw = found["ids"][2]
    if meta["id_kind"] == "int":
        return np.frombuffer(raw, "<i8").tolist()
    ends = [0, *np.frombuffer(found["ids.ends"][2], "<i8").tolist()]
    texts = [raw[a:b] for a, b in itertools.pairwise(ends)]
    return [t.decode() for t in texts] if meta["id_kind"] == "str" else texts


# -- format version 2 --------------------------------------------------------------------------------------------


def independent(kind, n=60):
    """A model of independent selection with most of the rows, and some that are weighted."""
    options = {"selection": "independent", "rate": 0.9, "random_state": 5}
    X = np.random.default_rng(3).standard_normal((n, WIDTH - 1))
    y, names = (
        np.array(["a", "b", "c"])[np.arange(n) % 3],
        {"ids": range(n), "subjects": [f"s{i % 5}" for i in range(n)]},
    )
    match kind:
        case "matrix":
            moments = np.array([[3, 1, 0], [1, 3, -1], [0, -1, 2]]) / 8
            return ErasableClassifier(
                **options, moments=moments, class_weight={"a": 2.0, "z": 3.0}, feature_map=None
            ).fit(X, y, **names)
        case "balance":
            shares = {"a": 0.5, "b": 0.25, "c": 0.125, "d": 0.125}
            model = ErasableClassifier(**options, loss="logistic", balance=0.5, class_shares=shares, feature_map=None)
            return model.fit(X, y, **names)
        case _:
            model = ErasableRegressor([(-9.0, 9.0)] * 2, **options, feature_map=None)
            return model.fit(X, X[:, :2], **names, sample_weight=1.0 + np.arange(n) % 2)


@pytest.mark.parametrize("kind", ["matrix", "balance", "regression"])
def test_rows_of_independent_selection_are_divided_too(kind, tmp_path):
    model, path = independent(kind), tmp_path / "m.erasable"
    state = model._model.snapshot()
    head, parts = divided(model)
    meta = read_meta(head)
    assert (meta["format"], meta["version"]) == ("erasable-model", 2)
    assert [ids_of(part) for part in parts.values()] == leaves(state.ids, 4)
    again = from_files(head, parts.__getitem__)
    assert again.to_bytes() == state.to_bytes()
    assert written(files_of(again)) == (head, parts)
    model.save(path)
    assert inspect(path).digest == model.state_digest() == verify(load(path)).digest
    assert inspect(path).files == len(parts) + 1
    gone = state.ids[7]
    report = ModelFile(path).forget(ids=[gone])
    assert report.core_rows_removed == 1
    model.forget(ids=[gone])
    assert path.read_bytes() == divided(model)[0]
    assert len(set(divided(model)[1]) - set(parts)) <= 1  # one shard is another, or none is left of it
    assert load(path).state_digest() == model.state_digest()


# -- the law -----------------------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(problems(max_rows=24), st.sampled_from([0, 1, 20, 60]), st.sampled_from([1, 10, 40]))
def test_reading_undoes_writing_for_any_state(problem, whole, part):
    setting, batch = problem
    state = batch.learnt_by(setting.classifier())._model.snapshot()
    shards.LARGEST_FILE, shards.LARGEST_SHARD = whole, part
    head, parts = written(files_of(state))
    again = from_files(head, parts.__getitem__)
    assert again.to_bytes() == state.to_bytes()
    assert written(files_of(again)) == (head, parts)
    assert shards_of(head) == list(parts)
    assert all(hashlib.sha256(data).hexdigest() == name for name, data in parts.items())
    sizes = bytes_of_rows(state)
    assert bool(parts) == (sum(sizes.values()) > whole)
    if parts:
        assert [ids_of(p) for p in parts.values()] == leaves(state.ids, part, sizes)
    else:
        assert head == state.to_bytes()


@pytest.mark.parametrize("key", ["int", "str", "bytes"])
def test_a_node_is_divided_if_and_only_if_it_holds_more_rows_than_a_shard(key):
    model = fitted(key=key)
    _, parts = divided(model)
    groups = [ids_of(p) for p in parts.values()]
    assert groups == leaves(model.core_ids_.tolist(), 4)
    assert len(groups) > 10
    assert max(map(len, groups)) <= 4
    for group in groups:  # within a shard, rows are in the order in which they were learnt
        assert group == [k for k in model.core_ids_.tolist() if k in group]


def test_history_leaves_no_trace():
    kept = [i - 7 for i in range(60) if i % 3]
    model = fitted()
    model.forget(ids=[i - 7 for i in range(0, 60, 3)])
    X = np.random.default_rng(0).standard_normal((60, WIDTH - 1))
    y = np.array(["a", "b", "c"])[np.arange(60) % 3]
    fresh = ErasableClassifier(threshold=0.0, feature_map=None)
    for half, owners in ((range(30), False), (range(30, 60), True)):
        at = [i for i in half if i % 3]
        fresh.partial_fit(X[at], y[at], ids=[i - 7 for i in at], subjects=[f"s{i % 5}" for i in at] if owners else None)
    assert sorted(model.core_ids_.tolist()) == kept
    assert divided(model) == divided(fresh)
    assert divided(model) == divided(estimator_of(model_of(*fetched(model))))


def fetched(model):
    head, parts = divided(model)
    return head, parts.__getitem__


def test_growing_over_the_limit_and_shrinking_again_gives_what_was_never_large(tmp_path):
    path = tmp_path / "m.erasable"
    model = fitted(10)
    small_one = divided(model)
    assert not small_one[1]
    model.save(path)
    X = np.random.default_rng(9).standard_normal((50, WIDTH - 1))
    more = [1000 + i for i in range(50)]
    model.partial_fit(X, ["c", "d"] * 25, ids=more)
    model.save(path)
    assert len(list(side_files(path).parts.iterdir())) == len(divided(model)[1]) > 5
    ModelFile(path).forget(ids=more)
    assert path.read_bytes() == small_one[0]
    assert [p.name for p in sorted(tmp_path.rglob("*"))] == [side_files(path).lock.name, path.name]


def test_the_digest_is_that_of_the_form_in_one_file(tmp_path, monkeypatch):
    model = fitted()
    path = tmp_path / "m.erasable"
    model.save(path)
    found = load(path)
    report = inspect(path)
    assert report.files == 1 + len(divided(model)[1])
    assert report.bytes == sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file())
    monkeypatch.setattr(shards, "LARGEST_FILE", 10**9)
    whole = b"".join(model._model.snapshot().pieces)
    assert hashlib.sha256(whole).hexdigest() == model.state_digest() == found.state_digest() == report.digest
    assert verify(found).digest == report.digest


@pytest.mark.parametrize("key", ["int", "str", "bytes"])
def test_forgetting_one_row_changes_one_shard_and_the_head(key):
    model = fitted(key=key)
    head, parts = divided(model)
    groups = {ids_of(p)[0]: name for name, p in parts.items()}
    checked = 0
    for group in leaves(model.core_ids_.tolist(), 4):
        one = fitted(key=key)
        one.forget(ids=[group[-1]])
        if len(leaves(one.core_ids_.tolist(), 4)) != len(parts):
            continue  # two nodes became one
        after, changed = divided(one)
        gone = set(parts) - set(changed)
        assert gone == {groups[group[0]]}
        assert len(set(changed) - set(parts)) == 1
        assert after != head
        checked += 1
    assert checked > 3


def test_forgetting_the_last_row_of_a_class_renumbers_the_others():
    """Classes are numbered in the head; that is why then more shards change, and still a function of the state."""
    model = fitted()
    model.partial_fit([[1.0, 2.0, 3.0]], ["A"], ids=[999])
    model.forget(ids=[999])
    assert divided(model) == divided(fitted())


# -- damage ------------------------------------------------------------------------------------------------------


def read(head, parts):
    def fetch(name):
        if name not in parts:
            raise StoreError("a part is missing")
        return parts[name]

    return from_files(head, fetch)


def test_a_shard_that_is_missing_or_another_or_swapped_is_refused():
    head, parts = divided(fitted())
    read(head, parts)
    first, second, *_ = parts
    with pytest.raises((StoreError, StateFormatError)):
        read(head, {n: p for n, p in parts.items() if n != second})
    with pytest.raises(StateFormatError):
        read(head, {**parts, first: parts[second], second: parts[first]})
    with pytest.raises(StateFormatError):
        read(head, {**parts, first: parts[second]})
    other = divided(fitted(seed=1))[1]
    for name, data in zip(parts, other.values(), strict=False):
        with pytest.raises(StateFormatError):
            read(head, {**parts, name: data})
    with pytest.raises(StateFormatError):
        read(head, {**parts, first: head})
    for junk in (b"", b"\0" * 100, parts[first][:-1], parts[first] + b"\0"):
        with pytest.raises(StateFormatError):
            read(head, {**parts, first: junk})


def test_no_flipped_bit_of_a_shard_changes_what_is_read():
    """The store compares names with bytes; here nothing is rehashed, and yet no other state can come of it."""
    head, parts = divided(fitted(20))
    name, data = next(iter(parts.items()))
    right = read(head, parts).to_bytes()
    for position in range(len(data)):
        bad = bytearray(data)
        bad[position] ^= 1 << position % 8
        for shard in (bytes(bad), sealed(bytes(bad))):
            try:
                state = read(head, {**parts, name: shard})
            except StateFormatError:
                continue
            assert state.to_bytes() == right


def test_flipped_bits_of_the_head_are_refused_or_found():
    model = fitted(20)
    head, parts = divided(model)
    for position in range(0, len(head), 3):
        bad = bytearray(head)
        bad[position] ^= 1 << position % 8
        with pytest.raises((StateFormatError, StoreError)):
            read(bytes(bad), parts)
        again = sealed(bytes(bad))
        if again == head:
            continue
        try:
            state = read(again, parts)
        except (StateFormatError, StoreError):
            continue
        assert state.digest != model.state_digest()
        assert b"".join(files_of(state).head) == again


HEADS = {
    "shards in another order": lambda h, m: m.update(shards=m["shards"][::-1]),
    "a shard less": lambda h, m: m["shards"].pop(),
    "a shard twice": lambda h, m: m["shards"].append(m["shards"][0]),
    "no shards": lambda h, m: m.update(shards=[]),
    "a shard by path": lambda h, m: m["shards"].insert(0, "../../etc/passwd"),
    "a shard in capitals": lambda h, m: m["shards"].insert(0, m["shards"].pop(0).upper()),
    "a shard by number": lambda h, m: m["shards"].append(7),
    "shards that are a text": lambda h, m: m.update(shards="ab" * 32),
    "shards that are nothing": lambda h, m: m.update(shards=None),
    "another format": lambda h, m: m.update(format="erasable-linear"),
    "more columns": lambda h, m: m.update(n_features=m["n_features"] + 1),
    "very many columns": lambda h, m: m.update(n_features=10**15),
    "no columns": lambda h, m: m.update(n_features=0),
    "columns that are nothing": lambda h, m: m.update(n_features=None),
}


@pytest.mark.parametrize("what", HEADS)
def test_a_head_that_does_not_fit_its_shards_is_refused(what):
    head, parts = divided(fitted())
    bad = altered(head, HEADS[what])
    assert bad != head
    with pytest.raises((StateFormatError, StoreError)):
        read(bad, parts)
    assert all(len(name) == 64 for name in shards_of(bad))


def test_a_newer_version_of_head_or_shard_is_named():
    head, parts = divided(fitted())
    with pytest.raises(StateFormatError, match=r"version 2 .*install a newer erasable"):
        model_of(altered(head, lambda h, m: m.update(version=2)), parts.__getitem__)
    name = next(iter(parts))
    newer = altered(parts[name], lambda h, m: m.update(version=2))
    with pytest.raises(StateFormatError, match=r"version 2 .*install a newer erasable"):
        read(head, {**parts, name: newer})


def test_a_shard_that_claims_to_be_wide_costs_nothing():
    """No rows, and each of them a terabyte: the head must not be believed to have room for it."""
    head, parts = divided(fitted())
    meta, found = opened(head)[1], tensors(head)
    name = next(iter(parts))
    shard_meta, shard = opened(parts[name])[1], tensors(parts[name])
    empty = rebuilt(
        shard_meta, {**shard, "rows": ("I16", [0, 2**39], b""), "labels": ("I32", [0], b""), "ids": ("I64", [0], b"")}
    )
    meta["shards"] = [name, *meta["shards"]]
    order = np.frombuffer(found["order"][2], "<i4") + 1
    bad = rebuilt(meta, {**found, "order": ("I32", found["order"][1], order.astype("<i4").tobytes())})
    with pytest.raises(StateFormatError):
        read(bad, {**parts, name: empty})


def test_a_head_smaller_than_it_may_be_is_refused(monkeypatch):
    """A state that fits into one file has one form, and shards are not it."""
    head, parts = divided(fitted(30))
    monkeypatch.setattr(shards, "LARGEST_FILE", 10**6)
    with pytest.raises(StateFormatError):
        read(head, parts)


@pytest.mark.parametrize("data", [b"", b"\0" * 8, b"{}", b"\xff" * 64])
def test_what_is_no_head_names_no_shards(data):
    assert shards_of(data) == []


# -- on disk -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", ["int", "str", "bytes"])
def test_through_a_file_with_shards_on_disk(tmp_path, key):
    path = tmp_path / "m.erasable"
    model = fitted(key=key)
    model.save(path)
    folder = side_files(path).parts
    file = ModelFile(path)
    leaving = model.core_ids_[::7].tolist()
    for k in leaving:
        rest = model.core_ids_.tolist()
        report = file.forget(ids=[k])
        model.forget(ids=[k])
        assert report.core_rows == len(rest) - 1
        head, parts = divided(model)
        assert path.read_bytes() == head
        assert {p.name: p.read_bytes() for p in folder.iterdir()} == parts
    file.forget(subjects=["s2"])
    model.forget(subjects=["s2"])
    again = load(path)
    assert again.state_digest() == model.state_digest() == file.verify().digest
    assert divided(again) == divided(model)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == divided(model)[1]
    model.save(path, overwrite=True)
    again.forget(ids=again.core_ids_[:1].tolist())
    with pytest.raises(ChangedMeanwhileError):
        again.save(path)  # another file than the one that it was loaded from, though with the same bytes
    again.save(path, overwrite=True)
    with pytest.raises(ChangedMeanwhileError):
        model.save(path)


def test_learning_more_through_a_file_with_shards(tmp_path):
    class Block:
        def __init__(self, low, high):
            X = np.random.default_rng(3).standard_normal((80, WIDTH - 1))
            self.X, self.y = X[low:high], ["a", "b"] * ((high - low) // 2)
            self.ids, self.subjects = list(range(low, high)), None

    two, one = tmp_path / "two", tmp_path / "one"
    new = ErasableClassifier(threshold=0.0, order="given", feature_map=None)
    for low in (0, 40):
        ModelFile(two).learn([Block(low, low + 40)], new=new)
    ModelFile(one).learn([Block(0, 30), Block(30, 80)], new=new)
    assert two.read_bytes() == one.read_bytes()
    assert {p.name for p in side_files(two).parts.iterdir()} == {p.name for p in side_files(one).parts.iterdir()}
    assert shards.is_sharded(read_meta(one.read_bytes()))


def test_shards_on_disk_that_are_damaged_or_gone_are_refused_and_extra_ones_left_alone(tmp_path):
    path = tmp_path / "m.erasable"
    model = fitted()
    model.save(path)
    folder = side_files(path).parts
    first, second, *_ = sorted(folder.iterdir())
    extra = folder / "notes.txt"
    extra.write_text("mine")
    assert load(path).state_digest() == model.state_digest()
    whole = first.read_bytes()
    for bad in (whole[:-1], whole[:-1] + b"x", b"", second.read_bytes()):
        first.write_bytes(bad)
        for look in (load, inspect):
            with pytest.raises((StateFormatError, StoreError)):
                look(path)
    os.unlink(first)
    for look in (load, inspect):
        with pytest.raises(StoreError, match="part"):
            look(path)
    first.write_bytes(whole)
    assert load(path).state_digest() == model.state_digest()
    assert extra.read_text() == "mine"


def test_a_shard_named_again_and_again_is_refused_before_it_is_read(monkeypatch):
    """Otherwise a small head and one small file would fill the memory."""
    monkeypatch.setattr(shards, "LARGEST_FILE", 60)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 40)
    X = np.random.default_rng(4).standard_normal((30, 3))
    files = files_of(ErasableClassifier(threshold=1e-6, feature_map=None).fit(X, X[:, 0] > 0).model_.snapshot())
    head = b"".join(files.head)
    name = next(iter(files.parts))
    again = altered(head, lambda header, meta: meta.update(shards=[name] * len(meta["shards"])))
    read = []

    def fetch(wanted):
        read.append(wanted)
        return b"".join(files.parts[wanted])

    with pytest.raises(StateFormatError, match="twice"):
        shards.from_files(again, fetch)
    assert read == []
    assert len(shards.from_files(head, fetch).ids) == len(X)
