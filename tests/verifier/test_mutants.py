"""Files altered on purpose, the checksum made to fit: what both verifiers see, and what neither can."""

from __future__ import annotations

import functools
import math
import struct
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from tests.formats.tampering import altered, opened, rebuilt, sealed, tensors
from tests.verifier.pair import bytes_of, first, second
from verifier import erasable_verify

WIDTH = {"I64": 8, "I32": 4, "I16": 2, "U16": 2, "U8": 1, "F32": 4}
N = 9
ONE = 0x3F800000  # the bits of a float32


@functools.cache
def small(kind: str) -> bytes:
    """A file of a few rows: every tensor is there in one of them."""
    rng = np.random.default_rng(3)
    X, y = rng.standard_normal((N, 2)), np.array(["ape", "bee", "cow"])[np.arange(N) % 3]
    ids, people = [f"row {i}" for i in range(N)], [[], ["ann"], ["ann", "bob"]]
    named = {"ids": ids, "subjects": [people[i % 3] for i in range(N)], "allow_no_subject": True}
    weights = {"sample_weight": [1.0 + i % 2 for i in range(N)]}
    match kind:
        case "squared":
            model = ErasableClassifier(
                threshold=0.05, feature_names=["a", "b"], sample_rate=0.4, loss="squared", feature_map=None
            )
            model.fit(X, y, **named, **weights)
        case "two classes":
            model = ErasableClassifier(
                threshold=0.05, class_weight={"ape": 2.0}, classes=["ape", "bee"], loss="squared", feature_map=None
            )
            model.fit(X, ["ape", "bee"] * 4 + ["ape"], ids=range(N), subjects=range(N))
        case "logistic":
            model = ErasableClassifier(
                threshold=0.05, loss="logistic", alpha=0.5, class_weight={"ape": 2.0}, feature_map=None
            )
            model.fit(X, y, **named, **weights)
        case "spread":
            model = ErasableClassifier(threshold=0.05, head_scaling="spread", alpha=0.5).fit(
                X * [1.0, 0.01], y, **named
            )
        case "balance by spread":
            shares = {"ape": 0.5, "bee": 0.25, "cow": 0.25}
            model = ErasableClassifier(
                selection="independent", rate=0.8, balance=0.5, class_shares=shares, head_scaling="spread"
            )
            model.fit(X * [1.0, 0.01], y, **named, **weights)
        case "sample":
            model = ErasableClassifier(threshold=math.inf, sample_rate=0.7, loss="squared", feature_map=None)
            model.fit(X, y, ids=range(N))
        case "sparse":
            wide = np.zeros((N, 12))
            wide[np.arange(N), np.arange(N) % 5], wide[np.arange(N), 11] = X.T
            ids = [b"\xfe%d" % i for i in range(N)]
            model = ErasableClassifier(threshold=0.05, loss="squared", feature_map=None).fit(
                wide, y, ids=ids, subjects=["ann"] * N
            )
        case "regression":
            model = ErasableRegressor((-9.0, 9.0), threshold=0.05, feature_map=None).fit(X, X[:, 0], **named, **weights)
        case "balance":
            shares = {"ape": 0.5, "bee": 0.25, "cow": 0.25}
            model = ErasableClassifier(
                selection="independent",
                rate=0.8,
                moments=[0.5, 0.25],
                balance=0.5,
                class_shares=shares,
                loss="squared",
                feature_map=None,
            )
            model.fit(X, y, **named, **weights)
        case "matrix":
            moments = np.array([[4, 1], [1, 2]]) / 8
            model = ErasableRegressor((-9.0, 9.0), selection="independent", rate=0.5, moments=moments, feature_map=None)
            model.fit(X, X[:, 0], ids=range(N), subjects=range(N))
        case _:
            model = ErasableKernelClassifier(kind, 0.1, threshold=0.3, gamma=0.5).fit(X, y, **named)
    return bytes_of(model)


KINDS = ["squared", "two classes", "logistic", "spread", "sample", "sparse", "regression", "rbf", "poly"]
KINDS += ["balance", "matrix"]


@pytest.mark.parametrize("kind", KINDS)
def test_every_altered_byte_is_noticed_by_both(kind, tmp_path):
    raw = small(kind)
    for at in range(0, len(raw), 5):
        mutant = bytearray(raw)
        mutant[at] ^= 1 << at % 8
        assert not first(bytes(mutant))
        assert second(bytes(mutant), tmp_path)[0] == 4


@pytest.mark.parametrize("kind", KINDS)
def test_they_agree_about_bits_of_every_tensor(kind, tmp_path):
    """Names apart, of which nothing follows, every bit of every tensor is seen."""
    _, meta, _ = opened(small(kind))
    parts = tensors(small(kind))
    for name, (dtype, shape, body) in parts.items():
        width = WIDTH[dtype]
        places = range(len(body) // width)
        for k in places if len(places) < 30 else places[:: len(places) // 15]:
            bit = (5 * k + 1) % (8 * width)
            mutant = bytearray(body)
            mutant[k * width + bit // 8] ^= 1 << bit % 8
            raw = rebuilt(meta, {**parts, name: (dtype, shape, bytes(mutant))})
            seen = second(raw, tmp_path)[0] == 4
            assert first(raw) is not seen, (name, k, bit)
            # Ids of a sample may be seen, too, and moments by which a row would not be kept, or that are none.
            assert seen or name.startswith(("ids", "subjects", "moments")), (name, k, bit)


@pytest.mark.parametrize(
    ("kind", "name", "value"),
    [
        ("regression", "target_ranges", [["-0x0.0p+0", (9.0).hex()]]),
        ("poly", "coef0", "-0x0.0p+0"),
        ("two classes", "sample_rate", "-0x0.0p+0"),
        ("matrix", "balance", "-0x0.0p+0"),
    ],
)
def test_minus_zero_is_refused_by_both(kind, name, value, tmp_path):
    raw = altered(small(kind), lambda header, meta: meta.update({name: value}))
    assert not first(raw)
    assert second(raw, tmp_path)[0] == 4


def test_more_rows_than_a_kernel_model_may_have_are_refused_by_both(tmp_path):
    raw = altered(small("rbf"), lambda header, meta: meta.update(capacity_units=str(N - 2)))
    assert not first(raw)
    assert second(raw, tmp_path)[1]["part"] == "decisions"


@pytest.mark.parametrize("kind", KINDS)
def test_no_member_of_the_metadata_can_be_missing(kind, tmp_path):
    _, meta, _ = opened(small(kind))
    for name in sorted(set(meta) - {"checksum"}):
        raw = altered(small(kind), lambda header, meta, name=name: meta.pop(name))
        assert not first(raw)
        assert second(raw, tmp_path)[0] == 4


# -- the table of docs/verifier.md ---------------------------------------------------------------------------------


def member(name, value):
    return lambda raw: altered(raw, lambda header, meta: meta.update({name: value(meta[name])}))


def entry(name, k, change):
    """The k-th number of a tensor, changed."""

    def mutated(raw):
        _, meta, _ = opened(raw)
        parts = tensors(raw)
        dtype, shape, body = parts[name]
        letter, width = {"I64": "q", "I32": "i", "I16": "h", "U8": "B", "F32": "i"}[dtype], WIDTH[dtype]
        numbers = list(struct.unpack(f"<{len(body) // width}{letter}", body))
        numbers[k] = change(numbers[k])
        return rebuilt(meta, {**parts, name: (dtype, shape, struct.pack(f"<{len(numbers)}{letter}", *numbers))})

    return mutated


def without_its_last_row(raw):
    """A row taken out by hand, and nothing else: what a program that only hides a row would leave."""
    _, meta, _ = opened(raw)
    parts = tensors(raw)
    for name, (dtype, shape, body) in parts.items():
        if shape[0] == N and name != "gram":
            parts[name] = (dtype, [N - 1, *shape[1:]], body[: len(body) * (N - 1) // N])
    return rebuilt(meta, parts)


def reversed_rows(raw):
    """Rows, labels and ids in the opposite order: the sums are the same."""
    _, meta, _ = opened(raw)
    parts = tensors(raw)
    for name in {"rows", "labels", "targets", "ids", "subjects"} & parts.keys():
        dtype, shape, body = parts[name]
        n = parts["ids"][1][0]
        size = len(body) // n
        lines = [body[i * size : (i + 1) * size] for i in range(n)]
        parts[name] = (dtype, shape, b"".join(reversed(lines)))
    return rebuilt(meta, parts)


def not_drawn(kind):
    """An id whose row the sample would leave out."""
    _, meta, _ = opened(small(kind))
    return next(key for key in range(100, 200) if not erasable_verify.is_drawn(meta, key))


def not_kept(kind):
    """An id whose hash is above the chance of a usual row: at the end, it is where its turn is."""
    _, meta, _ = opened(small(kind))
    return max(range(100, 2000), key=lambda key: erasable_verify.hash_of(key, meta["order_key"]))


def float_of(text):
    return float.fromhex(text)


SEEN = {
    "a number of a row": ("two classes", entry("rows", 0, lambda g: g - 1)),
    "the constant of an intercept": ("two classes", entry("rows", 2, lambda g: g + 1)),
    "a label": ("two classes", entry("labels", 3, lambda k: 1 - k)),
    "a sum, by one": ("two classes", entry("gram", 0, lambda s: s + 1)),
    "a sum of a class, by one": ("squared", entry("class_sums", 2, lambda s: s - 1)),
    "a weighted sum, by one": ("squared", entry("weighted_gram", 1, lambda s: s + 1)),
    "a weight, by one ulp": ("two classes", entry("weights", 1, lambda bits: bits + 1)),
    "a logistic weight, by one ulp": ("logistic", entry("weights", 1, lambda bits: bits - 1)),
    "a weight of a kernel model, by one ulp": ("rbf", entry("weights", 3, lambda bits: bits + 1)),
    "the weight of a row": ("squared", entry("row_weights", 0, lambda s: s + 1)),
    "the weight of a row, logistic loss": ("logistic", entry("row_weights", 0, lambda s: s + 1)),
    "a target of a regression": ("regression", entry("targets", 0, lambda t: t + 1)),
    "a row taken out, sums left as they were": ("two classes", without_its_last_row),
    "the capacity": ("two classes", member("capacity_units", lambda units: str(2 * int(units)))),
    "alpha": ("logistic", member("alpha_units", lambda units: str(2 * int(units)))),
    "the head, from a regulariser by spread to a flat one": (
        "balance by spread",
        member("head", lambda _: "logistic"),
    ),
    "a weight by spread, by one ulp": ("spread", entry("weights", 1, lambda bits: bits + 1)),
    "alpha, by spread": ("spread", member("alpha_units", lambda units: str(2 * int(units)))),
    "a threshold so high that a row would not be kept": ("two classes", member("threshold", lambda _: (0.5).hex())),
    "class_weight, logistic loss": (
        "logistic",
        member("class_weight", lambda _: {"kind": "str", "weights": [["ape", (3.0).hex()]]}),
    ),
    "an id for which a row was drawn, to one that is not": ("sample", entry("ids", 0, lambda key: not_drawn("sample"))),
    "an id of independent selection, to one that is not kept": (
        "matrix",
        entry("ids", -1, lambda key: not_kept("matrix")),
    ),
    "rows of independent selection, in another order": ("matrix", reversed_rows),
    "a rate so low that a row would not be kept": ("balance", member("rate", lambda _: (1e-9).hex())),
    "class_shares by which a row would not be kept": (
        "balance",
        member("class_shares", lambda shares: [(1.0).hex(), (1.0).hex(), (2.0**-90).hex()]),
    ),
    "moments by which a row would not be kept": ("balance", member("moments", lambda _: [20, 20])),
    "a matrix of moments, to one that is not symmetric": ("matrix", entry("moments", 1, lambda bits: bits + 1)),
    "a matrix of moments, to one that has a negative square": (
        "matrix",
        lambda raw: entry("moments", 1, lambda _: ONE)(entry("moments", 2, lambda _: ONE)(raw)),
    ),
    "the kernel's gamma": ("rbf", member("gamma", lambda gamma: (float_of(gamma) * 2).hex())),
}
UNSEEN = {
    "an id, where no row is drawn by its id": ("two classes", entry("ids", 0, lambda key: key + 100)),
    "whose a row is": ("two classes", entry("subjects", 0, lambda key: key + 100)),
    "names of columns": ("squared", member("feature_names", lambda names: ["b", "a"])),
    "names of classes, in their order": ("squared", member("classes", lambda names: ["ant", "bat", "cat"])),
    "scaling": ("two classes", member("scaling", lambda _: (2.0).hex())),
    "order_key": ("two classes", member("order_key", lambda _: "12345")),
    "a lower threshold": ("two classes", member("threshold", lambda tau: (float_of(tau) / 2).hex())),
    "a raised sample_rate": ("squared", member("sample_rate", lambda _: (0.9).hex())),
    "a raised rate": ("balance", member("rate", lambda _: (0.9).hex())),
    "class_weight, squared loss": ("two classes", member("class_weight", lambda _: "balanced")),
    "the range of targets": (
        "regression",
        member("target_ranges", lambda _: [[(-1.0).hex(), (1.0).hex()]]),
    ),
}


@pytest.mark.parametrize("what", SEEN)
def test_both_see(what, tmp_path):
    kind, mutation = SEEN[what]
    raw = mutation(small(kind))
    assert sealed(raw) == raw != small(kind)
    assert not first(raw)
    assert second(raw, tmp_path)[0] == 4


@pytest.mark.parametrize("what", UNSEEN)
def test_neither_can_see(what, tmp_path):
    """Another honest model has these very bytes: nothing stored follows from what was changed."""
    kind, mutation = UNSEEN[what]
    raw = mutation(small(kind))
    assert raw != small(kind)
    assert first(raw)
    assert second(raw, tmp_path)[0] == 0


def test_swapped_rows_are_seen_where_a_row_would_then_not_be_kept(tmp_path):
    """Rows one after the other with falling leverage: in the opposite order the last would be passed over."""
    X = np.array([[1.0, 0.1 * i] for i in range(N)])
    model = ErasableClassifier(1.0, threshold=0.05, order="given", loss="squared", feature_map=None).fit(
        X, ["a", "b"] * 4 + ["a"], subjects=range(N)
    )
    raw = bytes_of(model)
    verdicts = []
    for tau in (0.05, 0.2):
        mutant = reversed_rows(altered(raw, lambda header, meta, tau=tau: meta.update(threshold=tau.hex())))
        verdicts.append((first(mutant), second(mutant, tmp_path)[0]))
    assert verdicts[0] in ((True, 0), (False, 4))
    assert verdicts[1] == (False, 4)


def test_the_page_has_the_same_table():
    page = (Path(__file__).parents[2] / "docs" / "verifier.md").read_text()
    for what in (*SEEN, *UNSEEN):
        assert f"| {what} |" in page, what
