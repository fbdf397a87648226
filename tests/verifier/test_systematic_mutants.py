"""Every field, region and row of a file altered in turn, the checksum made to fit: both verifiers say the same."""

from __future__ import annotations

import math
import struct
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, load
from erasable.errors import StateFormatError, VerificationError
from erasable.models import files as shards
from tests.formats.tampering import altered, closed, opened, rebuilt, sealed, tensors
from tests.verifier.pair import bytes_of, first, second
from tests.verifier.test_mutants import KINDS, WIDTH, N, small
from verifier import erasable_verify

LETTER = {"I64": "q", "I32": "i", "I16": "h", "U16": "H", "U8": "B", "F32": "I"}


def accepted(raw, folder):
    """What both say, which must be the same."""
    code = second(raw, folder)[0]
    assert code in (0, 4)
    assert first(raw) is (code == 0)
    return code == 0


# -- the header ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_no_entry_of_the_header_can_be_another(kind, tmp_path):
    header, meta, body = opened(small(kind))
    for name, entry in header.items():
        shape, (begin, end) = entry["shape"], entry["data_offsets"]
        others = [{**entry, "dtype": dtype} for dtype in (*WIDTH, "F64", "") if dtype != entry["dtype"]]
        others += [{**entry, "shape": other} for other in (shape[::-1], [math.prod(shape)], [*shape, 1], [], [0])]
        others += [{**entry, "shape": [side + step for side in shape]} for step in (-1, 1)]
        others += [{**entry, "data_offsets": [begin + i, end + j]} for i, j in ((0, 1), (1, 1), (-1, -1), (0, -1))]
        others += [{**entry, "more": 1}, {key: value for key, value in entry.items() if key != "shape"}, None]
        for other in others:
            if other != entry:
                assert not accepted(closed({**header, name: other}, meta, body), tmp_path), (name, other)


@pytest.mark.parametrize("kind", KINDS)
def test_no_tensor_can_be_missing_renamed_doubled_or_elsewhere(kind, tmp_path):
    _, meta, _ = opened(small(kind))
    parts = tensors(small(kind))
    known = {name for order in erasable_verify.ORDER.values() for name in order}
    for name, part in parts.items():
        rest = {key: value for key, value in parts.items() if key != name}
        # Nine subjects of nine rows, no matter how many each has, can also be one for each: a name, and no more.
        assert not accepted(rebuilt(meta, rest), tmp_path) or name == "subjects.lengths", name
        assert not accepted(rebuilt(meta, {**rest, name: part}), tmp_path) or name == list(parts)[-1]
        for other in sorted(known - set(parts)):
            renamed = {other if key == name else key: value for key, value in parts.items()}
            assert not accepted(rebuilt(meta, renamed), tmp_path), (name, other)
    for other in [*sorted(known - set(parts)), "unknown"]:
        for more in (("I64", [0], b""), ("U8", [N], b"\1" * N)):
            assert not accepted(rebuilt(meta, {**parts, other: more}), tmp_path), other


@pytest.mark.parametrize("kind", KINDS)
def test_they_agree_about_bits_of_the_header(kind, tmp_path):
    raw = small(kind)
    length = 8 + int.from_bytes(raw[:8], "little")
    for at in range(0, length, 3):
        mutant = bytearray(raw)
        mutant[at] ^= 1 << at // 3 % 7
        accepted(sealed(bytes(mutant)), tmp_path)


OTHERS = [
    *(None, 0, 1, 3, 21, -1, True, False, 2**53, "", "0", "5", "007", "inf", "nan", "row", "balanced", "logistic"),
    *("0x0.0p+0", "-0x0.0p+0", "0x1.0p+0", "0x1.0000000000000p+0", "0x1.0000000000000p-4", "0x1.8000000000000p+1"),
    *("int", "bytes", "float", "matern", "custom", [], {}, [[]], ["a"], ["0x1.0000000000000p+0"] * 2, ["b", "a"]),
    *({"kind": "str", "weights": [["ape", w]]} for w in ("0x1.0000000000000p+1", "0x1.199999999999ap+0")),
    *("99999999999999999999", str(2**128), "erasable-linear", "erasable-kernel", "erasable-shard"),
]
# Members of which some other value passes, and why. What is not here must have the value that it has.
NOTHING_FOLLOWS = {
    "alpha_units": "by so little that every weight rounds alike",
    "balance": "every row is still kept",
    "capacity_units": "by so little that every weight rounds alike; with the logistic loss, any that keeps each row",
    "class_weight": "with the squared loss it moves the decision, which is not stored",
    "class_shares": "every row is still kept",
    "classes": "names: their order alone is used",
    "classes_fixed": "true and false say the same where every class has rows",
    "coef0": "the kernel has no use for it",
    "degree": "the kernel has no use for it",
    "feature_map": "rows are stored as they came out of it",
    "feature_names": "names",
    "gamma": "the kernel has no use for it, or every kernel value is rounded to the same number",
    "id_kind": "names: a text may be called bytes",
    "moments": "every row is still kept",
    "nu": "the kernel has no use for it",
    "order_key": "rows may have come in several calls, in any order",
    "rate": "a higher one keeps the same rows",
    "sample_rate": "the threshold would keep the rows that are not drawn, and a higher rate draws the same",
    "scaling": "rows are stored as they came out of it",
    "subject_kind": "names: a text may be called bytes",
    "target_ranges": "targets are stored as they came out of them",
    "threshold": "any below the smallest leverage",
}


RANGE = [["-0x1.8000000000000p+3", "0x1.8000000000000p+3"]]
HONEST = {  # values that another honest model has
    "class_shares": [["0x1.0000000000000p-1", "0x1.0000000000000p-2", "0x1.0000000000001p-2"]],
    "classes": [["ant", "bat", "cat"], ["ant", "bat"]],
    "feature_map": ['{"map":{"map":"frozen"},"n_features":7}'],
    "moments": [[-20] * columns for columns in range(1, 9)],
    "nu": ["0x1.4000000000000p+1"],
    "order_key": ["12345"],
    "target_ranges": [RANGE, RANGE * 2],
}


def test_every_member_that_may_be_another_is_known(tmp_path):
    seen = set()
    for kind in KINDS:
        _, meta, _ = opened(small(kind))
        for name in sorted(set(meta) - {"checksum"}):
            close = [] if not isinstance(meta[name], str) else [near(meta[name], step) for step in (-1, 1, 2**20)]
            for other in [*OTHERS, *close, *HONEST.get(name, [])]:
                if repr(other) == repr(meta[name]) or (name, other) == ("kernel", "custom"):  # which needs code
                    continue
                raw = altered(small(kind), lambda header, meta, name=name, other=other: meta.update({name: other}))
                if accepted(raw, tmp_path):
                    seen.add(name)
    assert seen == set(NOTHING_FOLLOWS)
    page = (Path(__file__).parents[2] / "docs" / "verifier.md").read_text()
    assert [name for name in NOTHING_FOLLOWS if f"`{name}`" not in page] == []


def near(text, step):
    """The next float or integer, where a text is one."""
    if text.lstrip("-").isdigit():
        return str(int(text) + step)
    if text.lstrip("-").startswith("0x"):
        return math.nextafter(float.fromhex(text), step * math.inf).hex()
    return f"{text}x"


# -- thresholds ----------------------------------------------------------------------------------------------------


def turning_point(raw, name, low, high, folder):
    """From a value that passes and one that does not, halves to the last bit: both turn at the same float."""

    def passes(bits):
        value = struct.unpack("<d", struct.pack("<q", bits))[0]
        return accepted(altered(raw, lambda header, meta: meta.update({name: value.hex()})), folder)

    low, high = (int.from_bytes(struct.pack("<d", value), "little") for value in (low, high))
    assert (passes(low), passes(high)) == (True, False)
    while abs(high - low) > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if passes(middle) else (low, middle)


@pytest.mark.parametrize("kind", sorted({*KINDS} - {"sample", "balance", "matrix"}))
def test_they_agree_to_the_last_bit_of_a_threshold(kind, tmp_path):
    turning_point(small(kind), "threshold", float.fromhex(opened(small(kind))[1]["threshold"]), 1e300, tmp_path)


def test_they_agree_to_the_last_bit_of_a_rate(tmp_path):
    turning_point(small("sample"), "sample_rate", 0.7, 1e-9, tmp_path)


@pytest.mark.parametrize("kind", ["balance", "matrix"])
def test_they_agree_to_the_last_bit_of_a_chance(kind, tmp_path):
    turning_point(small(kind), "rate", 0.8, 1e-9, tmp_path)


# -- rows ----------------------------------------------------------------------------------------------------------


def numbers(parts, name):
    dtype, _, body = parts[name]
    return list(struct.unpack(f"<{len(body) // WIDTH[dtype]}{LETTER[dtype]}", body))


def put(parts, name, values, shape):
    dtype = parts[name][0]
    return {**parts, name: (dtype, shape, struct.pack(f"<{len(values)}{LETTER[dtype]}", *values))}


def learnt(order="given", threshold=0.02):
    """Integer ids and subjects, so that rows can be moved by hand."""
    rng = np.random.default_rng(8)
    X, y = rng.standard_normal((N, 2)), ["a", "b"] * 4 + ["a"]
    return ErasableClassifier(1.0, threshold=threshold, order=order, classes=["a", "b"], feature_map=None).fit(
        X, y, subjects=range(N)
    )


def by_row(parts, n):
    """The bytes of each row in the tensors that have one entry for each."""
    return {
        name: [body[i * len(body) // n : (i + 1) * len(body) // n] for i in range(n)]
        for name, (_, shape, body) in parts.items()
        if name in ("rows", "labels", "ids", "subjects")
    }


def rows_replaced(raw, lines):
    """The file with these rows; sums and weights as they were."""
    _, meta, _ = opened(raw)
    parts = tensors(raw)
    for name, each in lines.items():
        dtype, shape, _ = parts[name]
        parts[name] = (dtype, [len(each), *shape[1:]], b"".join(each))
    return meta, parts


def test_any_two_rows_swapped_pass_with_both_or_with_neither(tmp_path):
    verdicts = set()
    for threshold in (0.02, 0.3):
        model = learnt(threshold=threshold)
        raw, n = bytes_of(model), len(model.core_ids_)
        lines = by_row(tensors(raw), n)
        for i in range(n):
            for j in range(i):
                swapped = {name: list(each) for name, each in lines.items()}
                for each in swapped.values():
                    each[i], each[j] = each[j], each[i]
                verdicts.add(accepted(rebuilt(*rows_replaced(raw, swapped)), tmp_path))
    assert verdicts == {True, False}  # true where each is still kept at its turn: an order of several calls


def with_shares(parts, g, label, sign, c):
    """The sums with a row's share added or taken off."""
    gram, sums = numbers(parts, "gram"), numbers(parts, "class_sums")
    outer = [g[i] * g[j] for i in range(c) for j in range(i + 1)]
    gram = [x + sign * y for x, y in zip(gram, outer, strict=True)]
    for j in range(c):
        sums[label * c + j] += sign * g[j]
    return put(put(parts, "gram", gram, parts["gram"][1]), "class_sums", sums, parts["class_sums"][1])


@pytest.mark.parametrize("i", range(N))
def test_a_row_taken_out_by_hand_passes_only_as_forgetting_makes_it(i, tmp_path):
    model = learnt()
    raw, c = bytes_of(model), 3
    parts = tensors(raw)
    lines = {name: each[:i] + each[i + 1 :] for name, each in by_row(parts, N).items()}
    g, label = numbers(parts, "rows")[i * c : (i + 1) * c], numbers(parts, "labels")[i]
    meta, hidden = rows_replaced(raw, lines)
    assert not accepted(rebuilt(meta, hidden), tmp_path)  # sums left as they were
    summed = with_shares(hidden, g, label, -1, c)
    assert not accepted(rebuilt(meta, summed), tmp_path)  # weights left as they were
    model.forget(ids=[model.core_ids_.tolist()[i]])
    honest = bytes_of(model)
    assert rebuilt(meta, {**summed, "weights": tensors(honest)["weights"]}) == honest
    assert accepted(honest, tmp_path)


def test_a_row_put_in_by_hand_passes_only_as_learning_makes_it(tmp_path):
    raw, c = bytes_of(learnt()), 3
    parts = tensors(raw)
    lines = {name: [*each, each[0]] for name, each in by_row(parts, N).items()}
    lines["ids"][-1] = struct.pack("<q", 77)
    meta, more = rows_replaced(raw, lines)
    assert not accepted(rebuilt(meta, more), tmp_path)
    summed = with_shares(more, numbers(parts, "rows")[:c], numbers(parts, "labels")[0], 1, c)
    assert not accepted(rebuilt(meta, summed), tmp_path)
    lines["ids"][-1] = lines["ids"][0]
    assert not accepted(rebuilt(*rows_replaced(raw, lines)), tmp_path)  # two rows of one id


@pytest.mark.parametrize("kind", KINDS)
def test_every_weight_is_seen_one_unit_in_the_last_place_off(kind, tmp_path):
    _, meta, _ = opened(small(kind))
    parts = tensors(small(kind))
    values = numbers(parts, "weights")
    for k in range(len(values)):
        for step in (-1, 1):
            moved = [*values[:k], max(0, values[k] + step), *values[k + 1 :]]
            if moved != values:
                assert not accepted(rebuilt(meta, put(parts, "weights", moved, parts["weights"][1])), tmp_path), k


# -- shards --------------------------------------------------------------------------------------------------------


def test_they_agree_about_bits_of_shards(tmp_path, monkeypatch):
    """A bit of a shard, its checksum, its name and the head that names it all made to fit."""
    for name, value in {"LARGEST_FILE": 40, "LARGEST_SHARD": 20}.items():
        monkeypatch.setattr(shards, name, value)
        monkeypatch.setattr(erasable_verify, name, value)
    model, path = learnt(threshold=1e-9), tmp_path / "m.erasable"
    model.save(path)
    folder, head = tmp_path / ".m.erasable.parts", path.read_bytes()
    parts = {part.name: part.read_bytes() for part in folder.iterdir()}
    assert len(parts) > 2
    verdicts = {}
    for name, raw in parts.items():
        length = 8 + int.from_bytes(raw[:8], "little")
        for at in range(length, len(raw), 3):
            mutant = bytearray(raw)
            mutant[at] ^= 1 << at % 8
            shard = sealed(bytes(mutant))
            other = erasable_verify.hashlib.sha256(shard).hexdigest()
            for each, data in {**parts, other: shard}.items():  # opening a file erases parts that it does not name
                (folder / each).write_bytes(data)
            path.write_bytes(sealed(head.replace(name.encode(), other.encode())))
            code = erasable_verify.verdict(path, lambda line: None, lambda done, total: None, False)[0]
            try:
                load(path).model_.verify()
            except (StateFormatError, VerificationError):
                assert code == 4
            else:
                assert code == 0
            verdicts.setdefault(code, set()).add(tensor_at(raw, at - length))
    assert verdicts[0] <= {"ids", "subjects"}  # another name, in a shard where it may be
    assert {"rows", "labels", "ids"} <= verdicts[4]


def tensor_at(raw, at):
    header, _, _ = opened(raw)
    return next(name for name, entry in header.items() if entry["data_offsets"][0] <= at < entry["data_offsets"][1])
