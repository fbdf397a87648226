#!/usr/bin/env python3
"""A second verifier for model files of erasable: one file, the standard library, nothing of erasable imported.

    python erasable_verify.py model.erasable

It follows two pages, docs/format.md (what stands in a file) and docs/exactness.md (what follows from what), and uses no
code of the program that writes such files. Where the pages did not say enough, the answer was looked up in that program
and its tests, and written into the pages: which places these were, docs/verifier.md says.

It reads the stored rows, learns them again from nothing, and compares all that is stored with what comes out. The claim
that it checks:

    every sum, every decision to keep a row and every bit of the weights is what the stored rows, in their order, give.

How to read it, in an hour:

    1  Verdicts            the two ways in which a file can fail
    2  The container       bytes to metadata and tensors, and back
    3  Metadata            every member, its type and its range
    4  Rows and names      what belongs to a row
    5  Certified algebra   guess in floats, prove in integers
    6  Linear models       sums, decisions, weights of the squared loss
    7  Logistic weights    the minimiser enclosed
    8  Kernel models       kernel values, decisions, weights
    9  Shards              a state in several files
    10 One file            all of it, in order; how long it takes; the command line

*Rational arithmetic.* Nothing is decided by a float. Rows, sums, thresholds and weights are integers or fractions.
Floats serve to guess solutions of linear systems; what a guess is worth is then proved in integers, and a guess that
proves nothing is replaced by exact determinants. Of transcendental functions there is one, exp, which Python's decimal
module rounds correctly to as many digits as are asked for.

*What no program can see from a file alone* is listed in docs/verifier.md: that rows are true, whose they are, what was
passed over, and parameters that nothing stored follows from.

Exit codes: 0 all of it holds; 2 wrong usage; 4 it does not hold, or is no model file; 5 the file cannot be read; 8 this
kind of model needs code that a file cannot hold: layout, checksum and names hold, and nothing else was checked.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import math
import operator
import re
import struct
import sys
import time
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NoReturn

# ---------------------------------------------------------------------------------------------------- 1 Verdicts


class WrongError(Exception):
    """The file is not what the pages say, or not what its rows give. ``part`` says what was being checked."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(reason)
        self.part = part


class NeedsCodeError(Exception):
    """A kind of model whose state follows from code that is not in the file."""


def wrong(part: str, reason: str) -> NoReturn:
    """The file fails."""
    raise WrongError(part, reason)


def need(condition: object, part: str, reason: str) -> None:
    """Go on only if the condition holds."""
    if not condition:
        wrong(part, reason)


# ----------------------------------------------------------------------------------------------- 2 The container
# 8 bytes: the length of the header. The header: JSON, padded with spaces. Then the tensors, without gaps.

LONGEST_HEADER = 8_388_608
MOST_MARKS = 524_288  # of the characters , [ { in a text that is parsed as JSON
WIDTHS = {"I64": 8, "I32": 4, "I16": 2, "U16": 2, "U8": 1, "F32": 4}
LETTERS = {"I64": "q", "I32": "i", "I16": "h", "U16": "H", "U8": "B", "F32": "I"}  # F32: the bits, compared as such

SUMS = ["gram", "class_sums", "weighted_gram", "weighted_class_sums"]
TARGET_SUMS = ["gram", "target_sums", "weighted_gram", "weighted_target_sums"]
ROWS = ["rows", "rows.lengths", "rows.columns", "rows.values", "row_weights"]
NAMES = ["ids.ends", "ids", "subjects.lengths", "subjects.present", "subjects.ends", "subjects"]
# The order of the tables of docs/format.md. In a file, wider entries come first, else as here.
ORDER = {
    "erasable-linear": [*SUMS, "weights", "labels", *ROWS, *NAMES],
    "erasable-linear-sharded": [*SUMS, "weights", "order"],
    "erasable-regression": [*TARGET_SUMS, "weights", "targets", *ROWS, *NAMES],
    "erasable-regression-sharded": [*TARGET_SUMS, "weights", "order"],
    "erasable-shard": ["labels", "targets", *ROWS, *NAMES],
    "erasable-kernel": ["weights", "labels", "rows", *NAMES],
    "erasable-general": ["labels", "rows", *NAMES],
    "erasable-core-set": ["rows", "rows.data", "rows.indices", "rows.ends", "labels", *NAMES],
}


class Tensor:
    """A type, a shape, and the numbers, one row after the other."""

    def __init__(self, dtype: str, shape: Sequence[int], values: Iterable[int]) -> None:
        self.dtype, self.shape, self.values = dtype, list(shape), array(LETTERS[dtype], values)

    def to_bytes(self) -> bytes:
        """Little endian, whatever this machine is."""
        numbers = array(self.values.typecode, self.values)
        if sys.byteorder == "big":
            numbers.byteswap()
        return numbers.tobytes()

    def lines(self) -> list[Sequence[int]]:
        """The rows of a tensor of two dimensions."""
        n, width = self.shape
        return [self.values[i * width : (i + 1) * width] for i in range(n)]


def compact(value: Any, *, sort: bool) -> str:
    """JSON without white space, escaped only where JSON demands it.

    All our member names are ASCII, so that sorting them by code points is the order of RFC 8785.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort)


def parsed(text: str, what: str) -> dict[str, Any]:
    """The object that a text holds, if it is within the limit of what may be parsed."""
    need(sum(map(text.count, ",[{")) <= MOST_MARKS, "layout", f"{what} has more than {MOST_MARKS} members")

    def refuse(number: str) -> NoReturn:
        wrong("layout", f"{what} has a number that is no integer")

    try:
        value = json.loads(text, parse_float=refuse, parse_constant=refuse)
    except (ValueError, RecursionError):
        wrong("layout", f"{what} is no JSON")
    need(isinstance(value, dict), "layout", f"{what} is no JSON object")
    return value  # type: ignore[no-any-return]


def written(meta: dict[str, Any], tensors: dict[str, Tensor]) -> bytes:
    """The file that holds this: a pure function of it, checksum included."""
    listed = sorted((t for t in ORDER[meta["format"]] if t in tensors), key=lambda t: -WIDTHS[tensors[t].dtype])
    entries, body = {}, bytearray()
    for name in listed:
        part = tensors[name].to_bytes()
        offsets = [len(body), len(body) + len(part)]
        entries[name] = {"dtype": tensors[name].dtype, "shape": tensors[name].shape, "data_offsets": offsets}
        body += part

    def whole(checksum: str) -> bytes:
        inner = compact({**meta, "checksum": checksum}, sort=True)
        header = compact({"__metadata__": {"erasable": inner}, **entries}, sort=False).encode()
        header += b" " * (-len(header) % 8)
        return struct.pack("<Q", len(header)) + header + bytes(body)

    return whole(hashlib.sha256(whole("0" * 64)).hexdigest())


def read_container(raw: bytes) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Metadata and tensors of a file, which must be exactly what :func:`written` makes of them.

    That one comparison finds damage, gaps, slack space, unknown members and every other way to write the same thing.
    """
    need(len(raw) >= 8, "layout", "the file is shorter than 8 bytes")
    (length,) = struct.unpack("<Q", raw[:8])
    need(length <= min(LONGEST_HEADER, len(raw) - 8), "layout", "the header does not fit the file or its limit")
    try:
        text = raw[8 : 8 + length].decode()
    except UnicodeDecodeError:
        wrong("layout", "the header is no UTF-8")
    header = parsed(text, "the header")
    outer = header.pop("__metadata__", None)
    need(isinstance(outer, dict) and list(outer) == ["erasable"], "layout", "there is no metadata of erasable")
    need(isinstance(outer["erasable"], str), "layout", "the metadata is no text")
    meta = parsed(outer["erasable"], "the metadata")
    name, version = meta.get("format"), meta.get("version")
    if not isinstance(name, str) or name not in ORDER:
        wrong("layout", "the format is not known")
    need(type(version) is int and version == 1, "layout", "this program reads version 1 of the format, and no other")
    tensors, body = {}, memoryview(raw)[8 + length :]
    for tensor, entry in header.items():
        need(tensor in ORDER[name], "layout", "there is a tensor that is not known")
        tensors[tensor] = read_tensor(entry, body)
    try:
        same = written(meta, tensors) == raw
    except UnicodeEncodeError:  # half of a surrogate pair in a text
        same = False
    need(same, "layout", "writing what was read gives other bytes: the checksum does not fit, or it is not canonical")
    return meta, tensors


def read_tensor(entry: Any, body: memoryview) -> Tensor:
    """One tensor, of the type and shape that its entry in the header says."""
    need(isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}, "layout", "a tensor's entry")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    need(isinstance(dtype, str) and dtype in WIDTHS, "layout", "the type of a tensor is not known")
    for numbers in (shape, offsets):
        fit = isinstance(numbers, list) and all(type(i) is int and 0 <= i < 2**53 for i in numbers)
        need(fit and len(numbers) in (1, 2), "layout", "shape or offsets of a tensor")
    need(len(offsets) == 2, "layout", "offsets of a tensor")
    begin, end = offsets
    need(begin <= end <= len(body), "layout", "a tensor lies outside of the file")
    need(end - begin == math.prod(shape) * WIDTHS[dtype], "layout", "a tensor is not as long as its shape says")
    values = array(LETTERS[dtype])
    values.frombytes(bytes(body[begin:end]))
    if sys.byteorder == "big":
        values.byteswap()
    return Tensor(dtype, shape, values)


# ---------------------------------------------------------------------------------------------------- 3 Metadata


def hexadecimal(text: Any, what: str) -> Fraction:
    """The number that a float's text stands for, exactly."""
    try:
        value = float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        wrong("metadata", f"{what} is no float in hexadecimal")
    fit = math.isfinite(value) and value.hex() == text and text != "-0x0.0p+0"
    need(fit, "metadata", f"{what} is not written as floats are")
    return Fraction(value)


def digits(text: Any, what: str) -> int:
    """An integer that is written as decimal digits."""
    fit = isinstance(text, str) and len(text) < 4000 and re.fullmatch(r"-?[0-9]+", text) and str(int(text)) == text
    need(fit, "metadata", f"{what} is not written as decimal digits")
    return int(text)


def is_text(value: Any) -> bool:
    """Whether it is a text."""
    return isinstance(value, str)


def is_flag(value: Any) -> bool:
    """Whether it is true or false."""
    return value is True or value is False


def one_of(*values: Any) -> Callable[[Any], bool]:
    """Whether it is one of these."""
    return lambda value: any(value is v or (is_text(v) and value == v) for v in values)


def threshold_of(text: Any) -> Fraction | None:
    """tau, or None where it is infinite."""
    if text == "inf":
        return None
    value = hexadecimal(text, "the threshold")
    need(value >= 0, "metadata", "the threshold is negative")
    return value


def check_scaling(meta: dict[str, Any]) -> None:
    """Null, "row", a positive float, or one for each column."""
    scaling = meta["scaling"]
    if scaling is None or (scaling == "row" and "intercept" in meta):
        return
    scales = scaling if isinstance(scaling, list) else [scaling]
    if isinstance(scaling, list):
        need(len(scales) == meta["n_features"], "metadata", "there is not one scale for each column")
    need(all(hexadecimal(s, "a scale") > 0 for s in scales), "metadata", "a scale is not positive")


def check_feature_names(meta: dict[str, Any]) -> None:
    """Null, or one text for each column."""
    names = meta["feature_names"]
    if names is not None:
        need(isinstance(names, list) and all(map(is_text, names)), "metadata", "feature_names are no texts")
        need(len(names) == meta["n_features"], "metadata", "there is not one name for each column")


def check_feature_map(meta: dict[str, Any]) -> None:
    """Null, or the canonical text of an object of a map and the number of columns before it.

    The rows that are stored have gone through the map already, so nothing here follows from it.
    """
    text = meta["feature_map"]
    if text is None:
        return
    need(is_text(text), "metadata", "feature_map is no text")
    described = parsed(text, "feature_map")
    need(set(described) == {"map", "n_features"}, "metadata", "feature_map has other members")
    need(isinstance(described["map"], dict), "metadata", "the map is not described")
    before = described["n_features"]
    need(before is None or (type(before) is int and before > 0), "metadata", "the columns before the map")
    need(compact(described, sort=True) == text, "metadata", "feature_map is not canonical")
    need(meta["feature_names"] is None, "metadata", "there are feature_names beside a feature_map")


def class_values(texts: list[str], kind: str) -> list[Any]:
    """The classes as values that can be compared; their texts must be the only ones for them."""
    if kind == "bool":
        need(set(texts) <= {"true", "false"}, "metadata", "a class is neither true nor false")
        return [text == "true" for text in texts]
    if kind == "int":
        values = [digits(text, "a class") for text in texts]
        need(all(-(2**63) <= v < 2**63 for v in values), "metadata", "a class is no integer of 64 bits")
        return values
    if kind == "float":
        return [hexadecimal(text, "a class") for text in texts]
    return texts


def check_classes(meta: dict[str, Any]) -> None:
    """Distinct, in ascending order, of one kind."""
    classes, kind = meta["classes"], meta["class_kind"]
    need(isinstance(classes, list) and all(map(is_text, classes)), "metadata", "classes are no list of texts")
    need(one_of(None, "bool", "int", "float", "str")(kind), "metadata", "class_kind")
    need((kind is None) == (not classes), "metadata", "class_kind is null if and only if there are no classes")
    need(is_flag(meta["classes_fixed"]), "metadata", "classes_fixed is neither true nor false")
    need(classes or not meta["classes_fixed"], "metadata", "no classes are fixed")
    values = class_values(classes, kind) if kind else []
    need(all(a < b for a, b in itertools.pairwise(values)), "metadata", "classes are not in ascending order")


def class_weight_of(meta: dict[str, Any]) -> dict[Any, Fraction] | str | None:
    """None, "balanced", or the weights of some classes by their values."""
    given = meta["class_weight"]
    if given is None or given == "balanced":
        return given  # type: ignore[no-any-return]
    need(isinstance(given, dict) and set(given) == {"kind", "weights"}, "metadata", "class_weight")
    pairs = given["weights"]
    fit = isinstance(pairs, list) and pairs and all(isinstance(p, list) and len(p) == 2 for p in pairs)
    need(fit and all(is_text(label) for label, _ in pairs), "metadata", "class_weight is no list of pairs")
    need(one_of("bool", "int", "float", "str")(given["kind"]), "metadata", "the kind of class_weight")
    values = class_values([label for label, _ in pairs], given["kind"])
    need(all(a < b for a, b in itertools.pairwise(values)), "metadata", "class_weight is not in ascending order")
    if meta["classes_fixed"]:
        fit = given["kind"] == meta["class_kind"] and {label for label, _ in pairs} <= set(meta["classes"])
        need(fit, "metadata", "class_weight has a label that is none of the fixed classes")
    weights = {value: hexadecimal(pair[1], "a class weight") for value, pair in zip(values, pairs, strict=True)}
    fit = all(Fraction(1, 2**16) <= w <= 2**16 and is_float32(w) for w in weights.values())
    need(fit, "metadata", "a class weight is no float32 from 2^-16 to 2^16")
    return weights


def is_float32(value: Fraction) -> bool:
    """Whether a float32 holds the number."""
    return from_bits(bits_of_float32(value)) == value


def from_bits(bits: int) -> Fraction:
    """The number that a float32 holds, given its bits."""
    return Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])


CLASSES = {"classes", "class_kind", "classes_fixed"}
EVERY = {"format", "version", "checksum", "n_features", "id_kind", "subject_kind"}
SELECTION = {"bits", "intercept", "scaling", "capacity_units", "threshold", "feature_names", "feature_map"}
SELECTION |= {"order_key", "sample_rate", "sample_key"}
LINEAR = EVERY | SELECTION | CLASSES | {"loss", "alpha_units", "class_weight"}
REGRESSION = EVERY | SELECTION | {"target_ranges"}
KERNEL = EVERY | CLASSES | {"bits", "scaling", "kernel", "function", "gamma", "nu", "degree", "coef0"}
KERNEL |= {"capacity_units", "threshold", "feature_names", "order_key"}
MEMBERS = {
    "erasable-linear": LINEAR,
    "erasable-linear-sharded": LINEAR | {"shards"},
    "erasable-regression": REGRESSION,
    "erasable-regression-sharded": REGRESSION | {"shards"},
    "erasable-kernel": KERNEL,
    "erasable-general": EVERY | CLASSES | {"sampler", "rows", "order_key"},
    "erasable-core-set": EVERY | CLASSES | {"core_set", "learner", "one_shot", "reproducible", "layout"},
}


def check_metadata(meta: dict[str, Any]) -> None:
    """All members that there must be and no others, each of its type and in its range."""
    need(set(meta) == MEMBERS[meta["format"]], "metadata", "there are other members than the format has")
    need(type(meta["n_features"]) is int and meta["n_features"] > 0, "metadata", "n_features is no positive integer")
    for name in ("id_kind", "subject_kind"):
        need(one_of(None, "int", "str", "bytes")(meta[name]), "metadata", f"{name} is not known")
    if "classes" in meta:
        check_classes(meta)
    if meta["format"] in ("erasable-general", "erasable-core-set"):
        return
    least = (1, 2, 2**50) if "kernel" in meta else (4, 1, 2**52)  # of bits, of units; of units, the first too many
    need(type(meta["bits"]) is int and least[0] <= meta["bits"] <= 20, "metadata", "bits are out of their range")
    units = digits(meta["capacity_units"], "capacity_units")
    need(least[1] <= units < least[2], "metadata", "capacity_units are out of their range")
    need(threshold_of(meta["threshold"]) is not None or "sample_rate" in meta, "metadata", "an infinite threshold")
    check_scaling(meta)
    check_feature_names(meta)
    if meta["order_key"] is not None:
        need(0 <= digits(meta["order_key"], "order_key") < 2**128, "metadata", "order_key is out of its range")
    if "kernel" in meta:
        check_kernel(meta)
    else:
        check_linear(meta)


def check_linear(meta: dict[str, Any]) -> None:
    """What linear models and regressions have besides."""
    need(is_flag(meta["intercept"]), "metadata", "intercept is neither true nor false")
    check_feature_map(meta)
    rate = hexadecimal(meta["sample_rate"], "sample_rate")
    need(0 <= rate <= 1, "metadata", "sample_rate is not between 0 and 1")
    need((rate == 0) == (meta["sample_key"] is None), "metadata", "sample_key is null if and only if the rate is 0")
    if meta["sample_key"] is not None:
        need(0 <= digits(meta["sample_key"], "sample_key") < 2**128, "metadata", "sample_key is out of its range")
        need(meta["order_key"] in (None, meta["sample_key"]), "metadata", "sample_key is not order_key")
    need(meta["threshold"] != "inf" or rate > 0, "metadata", "an infinite threshold without a sample keeps nothing")
    if "target_ranges" in meta:
        ranges = meta["target_ranges"]
        fit = isinstance(ranges, list) and ranges and all(isinstance(r, list) and len(r) == 2 for r in ranges)
        need(fit, "metadata", "target_ranges are no pairs")
        ends = [[hexadecimal(end, "the end of a range") for end in pair] for pair in ranges]
        fit = all(-Fraction(1e300) <= low < high <= Fraction(1e300) for low, high in ends)
        need(fit and all(float(high) / 2 > float(low) / 2 for low, high in ends), "metadata", "a range of targets")
        return
    need(one_of("squared", "logistic")(meta["loss"]), "metadata", "the loss is not known")
    need((meta["alpha_units"] is None) == (meta["loss"] == "squared"), "metadata", "alpha_units do not fit the loss")
    if meta["alpha_units"] is not None:
        need(0 < digits(meta["alpha_units"], "alpha_units") < 2**52, "metadata", "alpha_units are out of their range")
    class_weight_of(meta)


# ------------------------------------------------------------------------------------------------ 4 Rows and names


class Names:
    """What all files say of their rows, in learning order: labels, or targets on their grid; ids; subjects."""

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        self.expected: set[str] = set()  # every tensor that was asked for
        self.meta, self.tensors = meta, tensors
        self.numeric = "target_ranges" in meta
        self.integers = "I16" if meta.get("bits", 0) <= 15 and "kernel" not in meta else "I32"
        self.width: int = meta["n_features"] + bool(meta.get("intercept"))
        first = tensors.get("targets" if self.numeric else "labels")
        need(first is not None and first.shape, "rows", "there are no labels or targets")
        self.n: int = first.shape[0]  # type: ignore[union-attr]
        self.answers = self.read_answers()
        self.ids = self.read_names("ids", meta["id_kind"])
        self.subjects = self.read_names("subjects", meta["subject_kind"])

    def take(self, name: str, dtype: str, shape: list[int]) -> Sequence[int]:
        """The numbers of a tensor that must be there, of this type and shape."""
        self.expected.add(name)
        tensor = self.tensors.get(name)
        fit = tensor is not None and tensor.dtype == dtype and tensor.shape == shape
        need(fit, "rows", f"the tensor {name} is not there, or not of its type and shape")
        return tensor.values  # type: ignore[union-attr]

    def read_answers(self) -> list[Any]:
        """The position of each row's class, or the targets of each row."""
        if not self.numeric:
            labels = list(self.take("labels", "I32", [self.n]))
            k = len(self.meta["classes"])
            need(all(0 <= label < k for label in labels), "rows", "a label is none of the classes")
            return labels
        k, most = len(self.meta["target_ranges"]), 2 ** self.meta["bits"] - 1
        values = self.take("targets", self.integers, [self.n, k])
        need(all(abs(t) <= most for t in values), "rows", "a target lies outside of its grid")
        return [tuple(values[i * k : (i + 1) * k]) for i in range(self.n)]

    def read_names(self, what: str, kind: str | None) -> list[Any]:
        """For each row its id, or the tuple of its subjects."""
        if kind is None:
            need(what == "subjects" or self.n == 0, "names", "rows have no ids")
            return [()] * self.n
        need(self.n, "names", f"there is a kind of {what} without rows")
        lengths, present = self.tensors.get("subjects.lengths"), self.tensors.get("subjects.present")
        if what == "ids" or (lengths is None and present is None):
            keys = self.read_keys(what, kind, self.n)
            if what == "subjects":
                return [(key,) for key in keys]
            need(len(set(keys)) == self.n, "names", "two rows have one id")
            return keys
        if lengths is None:
            there = self.take("subjects.present", "U8", [self.n])
            need(set(there) == {0, 1}, "names", "subjects.present is not 0 for some rows and 1 for others")
            keys = self.read_keys(what, kind, self.n)
            need(all(t or not key for t, key in zip(there, keys, strict=True)), "names", "an absent subject is named")
            return [(key,) if t else () for t, key in zip(there, keys, strict=True)]
        counts = self.take("subjects.lengths", "I32", [self.n])
        need(min(counts) >= 0 and max(counts) > 1, "names", "subjects.lengths without a row that has several")
        left = iter(self.read_keys(what, kind, sum(counts)))
        owners = [tuple(itertools.islice(left, count)) for count in counts]
        for several in owners:
            fit = all(a < b for a, b in itertools.pairwise(several)) and (
                len(several) < 2 or several[0] not in ("", b"")
            )
            need(fit, "names", "the subjects of a row do not ascend, or one is empty")
        return owners

    def read_keys(self, what: str, kind: str, count: int) -> list[Any]:
        """So many integers, texts or byte strings."""
        if kind == "int":
            return list(self.take(what, "I64", [count]))
        ends = list(self.take(f"{what}.ends", "I64", [count]))
        need(all(a <= b for a, b in itertools.pairwise([0, *ends])), "names", f"{what}.ends do not ascend")
        blob = bytes(self.take(what, "U8", [ends[-1] if ends else 0]))
        keys: list[Any] = [blob[a:b] for a, b in itertools.pairwise([0, *ends])]
        if kind == "bytes":
            return keys
        try:
            return [key.decode() for key in keys]
        except UnicodeDecodeError:
            wrong("names", f"{what} are no UTF-8")

    def check_classes_have_rows(self) -> None:
        """Classes that the caller did not fix are those of the rows."""
        if not self.numeric and not self.meta["classes_fixed"]:
            need(set(self.answers) == set(range(len(self.meta["classes"]))), "rows", "a class has no rows")


class Rows(Names):
    """The rows of a linear or kernel model: grid integers, and how much each counts."""

    def __init__(self, meta: dict[str, Any], tensors: dict[str, Tensor]) -> None:
        super().__init__(meta, tensors)
        self.rows = self.read_rows()
        self.weights = self.read_weights()

    def read_rows(self) -> list[Sequence[int]]:
        """Grid integers of each row, the constant of an intercept last."""
        sparse = "rows.lengths" in self.tensors
        if sparse:
            rows = self.read_sparse()
        else:
            self.take("rows", self.integers, [self.n, self.width])
            rows = self.tensors["rows"].lines()
        if "kernel" in self.meta:
            need(all(sum(v * v for v in g) <= 4**25 for g in rows), "rows", "a row is longer than 2^25 steps")
            return rows
        most, constant = (2 ** self.meta["bits"] - 1) ** 2, self.constant()
        need(all(sum(v * v for v in g) <= most for g in rows), "rows", "a row lies outside of the unit ball")
        if self.meta["intercept"]:
            need(all(g[-1] == constant for g in rows), "rows", "a row has another constant for the intercept")
        need(
            sparse == (2 * self.sizes(rows, sparse=True)[0] < self.sizes(rows, sparse=False)[0]),
            "rows",
            "rows are dense where they must be sparse, or sparse where they must be dense",
        )
        return rows

    def constant(self) -> int:
        """floor(2^p / sqrt 2)."""
        return math.isqrt(2 ** (2 * self.meta["bits"] - 1))

    def sizes(self, rows: list[Sequence[int]], *, sparse: bool) -> tuple[int, list[int]]:
        """How many bytes all rows take in a layout, and how many each of them takes."""
        v, u = WIDTHS[self.integers], WIDTHS[self.narrowest()]
        if not sparse:
            each = [self.width * v] * len(rows)
        else:
            features = self.meta["n_features"]
            each = [u + sum(1 for x in itertools.islice(g, features) if x) * (u + v) for g in rows]
        return sum(each), each

    def narrowest(self) -> str:
        """The type of lengths and columns of sparse rows."""
        return "U8" if self.meta["n_features"] < 256 else "U16" if self.meta["n_features"] < 65_536 else "I32"

    def read_sparse(self) -> list[Sequence[int]]:
        """Whole rows from the entries that are not zero."""
        d, small = self.meta["n_features"], self.narrowest()
        lengths = self.take("rows.lengths", small, [self.n])
        need(all(0 <= length <= d for length in lengths), "rows", "the length of a sparse row")
        columns = self.take("rows.columns", small, [sum(lengths)])
        values = self.take("rows.values", self.integers, [sum(lengths)])
        rows, at = [], 0
        for length in lengths:
            g = [0] * d + [self.constant()] * self.meta["intercept"]
            for column, value in zip(columns[at : at + length], values[at : at + length], strict=True):
                need(0 <= column < d and value, "rows", "an entry of a sparse row")
                g[column] = value
            at += length
            own = columns[at - length : at]
            need(all(a < b for a, b in itertools.pairwise(own)), "rows", "columns of a sparse row do not ascend")
            rows.append(array(LETTERS[self.integers], g))
        return rows  # type: ignore[return-value]

    def read_weights(self) -> list[int] | None:
        """How much each row counts, in sixteenths; None where all count 16."""
        if "row_weights" not in self.tensors or "kernel" in self.meta:
            return None
        weights = list(self.take("row_weights", "I16", [self.n]))
        need(all(1 <= s <= 256 for s in weights), "rows", "the weight of a row is not from 1 to 256")
        need(any(s != 16 for s in weights), "rows", "weights of rows are stored although all are 16")
        return weights


# -------------------------------------------------------------------------------------------- 5 Certified algebra
# For a symmetric H whose eigenvalues are at least `floor`, a vector b and any vector z whatsoever, let r = b - Hz:
#
#     b'H^-1 b = b'z + z'r + r'H^-1 r,   0 <= r'H^-1 r <= |r|^2 / floor,       |(H^-1 b)_j - z_j| <= |r| / floor.
#
# z comes from floats and is worth nothing by itself. It is then taken as integers over a power of two, r is computed
# without rounding, and both ends are fractions. While they do not decide, z is corrected by (H^-1 in floats) r.

Matrix = list[list[int]]
Floats = list[list[float]]
CORRECTIONS = 14


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """The sum of products."""
    return sum(map(operator.mul, a, b))


def add_outer(H: Matrix, g: Sequence[int], times: int = 1) -> None:
    """H becomes H + times g g'."""
    there = [(j, v) for j, v in enumerate(g) if v]
    for i, v in there:
        line, u = H[i], times * v
        for j, x in there:
            line[j] += u * x


def float_inverse(H: Matrix) -> Floats:
    """Something like H^-1, by Gauss and Jordan; entries may be anything where H is nearly singular."""
    d = len(H)
    size = max((abs(H[i][i]) for i in range(d)), default=1)
    M = [[x / size for x in line] + [float(i == j) for j in range(d)] for i, line in enumerate(H)]
    for i in range(d):
        pivot = M[i][i] if abs(M[i][i]) > 1e-300 else 1e-300
        top = M[i] = [x / pivot for x in M[i]]
        for j in range(d):
            if j != i and M[j][i]:
                factor = M[j][i]
                M[j] = [x - factor * t for x, t in zip(M[j], top, strict=True)]
    return [[x / size for x in line[d:]] for line in M]


def to_integers(values: Iterable[float], shift: int) -> list[int]:
    """Floats in units of 2^-shift; what is no number is taken as zero, since guesses may be wrong."""
    scaled = (math.ldexp(v, shift) if abs(v) < 1e250 else 0.0 for v in values)
    return [round(v) if math.isfinite(v) else 0 for v in scaled]


def to_floats(values: Iterable[int], shift: int) -> list[float]:
    """Integers in units of 2^-shift as floats, however large they are."""
    found = []
    for v in values:
        spare = max(0, v.bit_length() - 60)
        found.append(math.ldexp(float(v >> spare), spare - shift))
    return found


def corrections(H: Matrix, P: Floats, b: Sequence[int]) -> Iterable[tuple[list[int], list[int], int]]:
    """Better and better solutions of Hz = b: z and the residual b - Hz, exact, both in units of 2^-shift."""
    z, residual, shift = [0] * len(b), list(b), 0
    for step in range(CORRECTIONS):
        finer = 90 if step == 0 else 30
        error = to_floats(residual, shift)
        shift += finer
        guess = to_integers((dot(line, error) for line in P), shift)
        z = [(x << finer) + y for x, y in zip(z, guess, strict=True)]
        residual = [(x << shift) - dot(line, z) for x, line in zip(b, H, strict=True)]
        yield z, residual, shift


def compare_form(H: Matrix, P: Floats, b: Sequence[int], limit: Fraction, floor: Fraction) -> int:
    """Whether b'H^-1 b is below (-1), at (0) or above (1) the limit. Always decided, and never by a float."""
    for again in (False, True):
        for z, r, shift in corrections(H, float_inverse(H) if again else P, b):
            low = Fraction((dot(b, z) << shift) + dot(z, r), 1 << 2 * shift)
            if low > limit:
                return 1
            if low + Fraction(dot(r, r), 1 << 2 * shift) / floor < limit:
                return -1
    bordered = [[*line, x] for line, x in zip(H, b, strict=True)] + [[*b, 0]]
    value = Fraction(-determinant(bordered), determinant(H))  # |H b; b' 0| = -|H| b'H^-1 b
    return (value > limit) - (value < limit)


def determinant(H: Matrix) -> int:
    """By elimination without fractions (Bareiss): every division is one without remainder."""
    M, sign, last = [list(line) for line in H], 1, 1
    for k in range(len(M) - 1):
        if M[k][k] == 0:
            other = next((i for i in range(k + 1, len(M)) if M[i][k]), None)
            if other is None:
                return 0
            M[k], M[other], sign = M[other], M[k], -sign
        for i in range(k + 1, len(M)):
            a, b = M[k][k], M[i][k]
            M[i] = [(a * x - b * y) // last for x, y in zip(M[i], M[k], strict=True)]
        last = M[k][k]
    return sign * M[-1][-1] if M else 1


def bits_of_float32(value: Fraction) -> int:
    """The 32 bits of the float32 nearest to a number, halves to even; zero has no sign."""
    sign, value = (1 << 31, -value) if value < 0 else (0, value)
    # The exponent e with 2^e <= value < 2^(e+1); steps of float32 there are 2^(e-23), and 2^-149 at least.
    e = value.numerator.bit_length() - value.denominator.bit_length()
    e -= value < Fraction(2) ** e
    step = max(e, -126) - 23
    count = round(value / Fraction(2) ** step)  # Python rounds halves to even
    if count == 0:
        return 0
    if count == 2**24:
        count, step = 2**23, step + 1
    if step > 127 - 23:
        return sign | 0x7F800000
    return sign | (count if count < 2**23 else ((step + 150) << 23) + count - 2**23)


def solved_bits(H: Matrix, P: Floats, b: Sequence[int], floor: Fraction) -> list[int]:
    """The bits of each entry of H^-1 b, correctly rounded to float32."""
    found: list[int | None] = [None] * len(b)
    if not any(b):
        return [0] * len(b)
    for again in (False, True):
        for z, r, shift in corrections(H, float_inverse(H) if again else P, b):
            radius = Fraction(math.isqrt(dot(r, r)) + 1, 1 << shift) / floor
            for j in (j for j, bits in enumerate(found) if bits is None):
                low, high = (bits_of_float32(Fraction(z[j], 1 << shift) + side * radius) for side in (-1, 1))
                found[j] = low if low == high else None
            if None not in found:
                return found  # type: ignore[return-value]
    whole = determinant(H)
    for j in (j for j, bits in enumerate(found) if bits is None):  # halfway between two float32: Cramer's rule
        replaced = [[b[i] if k == j else x for k, x in enumerate(line)] for i, line in enumerate(H)]
        found[j] = bits_of_float32(Fraction(determinant(replaced), whole))
    return found  # type: ignore[return-value]


# ----------------------------------------------------------------------------------------------- 6 Linear models
# H = L I + sum of g g'. A row is kept if its hash says so (a sample) or if g'H^-1 g > tau, H being that of the rows
# before it. Weights are 2^p H^-1 (sum of y g), with the weights of rows where there are any.


def siphash(data: bytes, key: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein), 64 bits."""
    mask = 2**64 - 1

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & mask

    def rounds(v: list[int], count: int) -> None:
        a, b, c, d = v
        for _ in range(count):
            a, c = (a + b) & mask, (c + d) & mask
            b, d = rotated(b, 13) ^ a, rotated(d, 16) ^ c
            a = rotated(a, 32)
            c, a = (c + b) & mask, (a + d) & mask
            b, d = rotated(b, 17) ^ c, rotated(d, 21) ^ a
            c = rotated(c, 32)
        v[:] = [a, b, c, d]

    k0, k1 = struct.unpack("<2Q", key)
    v: list[int] = [k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573]
    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", padded):
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xFF
    rounds(v, 4)
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def hash_of(key: Any, random_state: str) -> int:
    """The 64 bits that put rows in order and draw the sample."""
    salt = hashlib.blake2b(random_state.encode(), digest_size=16).digest()
    if isinstance(key, int):
        return siphash(struct.pack("<q", key), salt)
    data = key.encode() if isinstance(key, str) else key
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=salt).digest(), "little")


def drawn(rows: Rows) -> list[bool]:
    """Which rows are kept by their ids."""
    rate = hexadecimal(rows.meta["sample_rate"], "sample_rate")
    if rate == 0:
        return [False] * rows.n
    return [hash_of(key, rows.meta["sample_key"]) < rate * 2**64 for key in rows.ids]


def triangle(H: Matrix, diagonal: int) -> list[int]:
    """The lower triangle of H, the multiple of the identity taken off."""
    return [x - diagonal * (i == j) for i, line in enumerate(H) for j, x in enumerate(line[: i + 1])]


def identity(d: int, times: int) -> Matrix:
    """A multiple of the identity."""
    return [[times * (i == j) for j in range(d)] for i in range(d)]


def replay(rows: Rows, tick: Callable[[int, int], None]) -> tuple[Matrix, Floats]:
    """Learn the rows from nothing in their order: every one must be kept. H and a guess of its inverse."""
    d, tau = rows.width, threshold_of(rows.meta["threshold"])
    units = digits(rows.meta["capacity_units"], "capacity_units")
    H, P = identity(d, units), [[float(i == j) / units for j in range(d)] for i in range(d)]
    for i, (g, by_id) in enumerate(zip(rows.rows, drawn(rows), strict=True)):
        kept = by_id or (tau is not None and compare_form(H, P, g, tau, Fraction(units)) > 0)
        need(kept, "decisions", f"row {i + 1} of {rows.n} would not be kept: its leverage is not above the threshold")
        add_outer(H, g)
        follow(P, g)
        tick(i + 1, rows.n)
    return H, P


def follow(P: Floats, g: Sequence[int]) -> None:
    """P, a guess of H^-1, becomes one of (H + g g')^-1: Sherman and Morrison, in floats."""
    there = [(j, v) for j, v in enumerate(g) if v]
    sparse = 3 * len(there) < len(g)
    v = [sum(line[j] * x for j, x in there) if sparse else dot(line, g) for line in P]
    scale = 1 + dot(v, g)
    for i, x in enumerate(v):
        if x:
            factor = x / scale
            P[i] = [p - factor * y for p, y in zip(P[i], v, strict=True)]


def sums_of(rows: Rows, weights: Sequence[int], groups: int) -> list[list[int]]:
    """For each class the sum of s g, or for each target that of s t g."""
    sums = [[0] * rows.width for _ in range(groups)]
    for g, answer, s in zip(rows.rows, rows.answers, weights, strict=True):
        factors = [(k, s * t) for k, t in enumerate(answer)] if rows.numeric else [(answer, s)]
        for k, factor in factors:
            sums[k] = [x + factor * v for x, v in zip(sums[k], g, strict=True)]
    return sums


def right_sides(sums: list[list[int]], numeric: bool) -> list[list[int]]:
    """The sum of y g for each row of weights.

    y is 1 for the rows of a class and -1 for the rest: of each class where there are more than two, else of the last.
    """
    if numeric:
        return sums
    total = [sum(column) for column in zip(*sums, strict=True)]
    against = [[2 * x - t for x, t in zip(line, total, strict=True)] for line in sums]
    return against if len(sums) > 2 else against[-1:]


def check_linear_model(rows: Rows, tick: Callable[[int, int], None], say: Callable[[str, str], None]) -> None:
    """Sums, decisions and weights of a linear model or a regression."""
    meta, bits = rows.meta, rows.meta["bits"]
    units = digits(meta["capacity_units"], "capacity_units")
    groups = len(meta["target_ranges"] if rows.numeric else meta["classes"])
    by_group = "target_sums" if rows.numeric else "class_sums"
    need(units + rows.n * (2**bits - 1) ** 2 <= 2**53, "sums", "there are more rows than the sums can hold")
    d, squared = rows.width, rows.numeric or meta["loss"] == "squared"
    triangular = [d * (d + 1) // 2]
    # Tensors must be there before anything long is begun.
    stored = {name: rows.take(name, "I64", shape) for name, shape in ((by_group, [groups, d]), ("gram", triangular))}
    weighted = squared and rows.weights is not None
    if weighted:
        stored |= {
            "weighted_gram": rows.take("weighted_gram", "I64", triangular),
            f"weighted_{by_group}": rows.take(f"weighted_{by_group}", "I64", [groups, d]),
        }
    count = groups if rows.numeric or groups > 2 else 1
    weights = rows.take("weights", "F32", [count, d])
    nothing_else(rows)

    H, P = replay(rows, tick)
    say("decisions", f"each of {rows.n} rows is kept, in the order in which they stand")
    sums = sums_of(rows, [1] * rows.n, groups)
    need(list(stored["gram"]) == triangle(H, units), "sums", "gram is not the sum over the rows")
    need(list(stored[by_group]) == list(itertools.chain(*sums)), "sums", f"{by_group} are not the sums over the rows")
    if weighted:
        assert rows.weights is not None
        need(16 * units + sum(rows.weights) * (2**bits - 1) ** 2 <= 2**53, "sums", "rows weigh more than sums can hold")
        H, units = identity(d, 16 * units), 16 * units
        for g, s in zip(rows.rows, rows.weights, strict=True):
            add_outer(H, g, s)
        sums, P = sums_of(rows, rows.weights, groups), float_inverse(H)
        need(list(stored["weighted_gram"]) == triangle(H, units), "sums", "weighted_gram is not the sum over the rows")
        fit = list(stored[f"weighted_{by_group}"]) == list(itertools.chain(*sums))
        need(fit, "sums", f"weighted_{by_group} are not the sums over the rows")
    say("sums", f"{sum(map(len, stored.values()))} sums are those of the rows")

    if squared:
        sides = right_sides(sums, rows.numeric) or [[0] * d]
        scale = 0 if rows.numeric else bits  # a target t stands for t 2^-p, where a label stands for 1 or -1
        found = [solved_bits(H, P, [x << scale for x in side], Fraction(units)) for side in sides]
    else:
        found = logistic_bits(rows, weights)
    need(list(weights) == list(itertools.chain(*found)), "weights", "they are not what the rows give, to the last bit")
    say("weights", f"{len(weights)} weights are right to the last bit")


def nothing_else(rows: Rows) -> None:
    """No tensor may be there that nothing asks for."""
    need(set(rows.tensors) == rows.expected, "rows", "there is a tensor that must not be there")


# ------------------------------------------------------------------------------------------- 7 Logistic weights
# F(w) = alpha/2 |w|^2 + sum of c_i log(1 + exp(-a_i.w)), a_i = y_i g_i / 2^p, |a_i| < 1, has one minimiser w*, and
#
#     |w* - w| <= |grad F(w)| / alpha   for every w,
#     grad F(w) = alpha w - sum of c_i p_i a_i,   p_i = 1 / (1 + exp(a_i.w)).
#
# w is taken as integers over 2^K. Margins a_i.w are then exact, each p_i is known within 2^-K, sums are exact again.

WEIGHT_SCALE = 43  # weights of classes are float32 from 2^-16, 24 bits long, those of rows sixteenths: 16 + 23 + 4


def class_weights(rows: Rows) -> list[Fraction]:
    """How much each class counts."""
    given, classes = class_weight_of(rows.meta), rows.meta["classes"]
    if given is None:
        return [Fraction(1)] * len(classes)
    if isinstance(given, dict):
        values = class_values(classes, rows.meta["class_kind"]) if classes else []
        return [given.get(value, Fraction(1)) for value in values]
    masses: Counter[int] = Counter()
    for label, s in zip(rows.answers, rows.weights or [16] * rows.n, strict=True):
        masses[label] += s
    low, high = Fraction(1, 2**16), Fraction(2**16)
    total, present = sum(masses.values()), len(masses)
    shares = [Fraction(total, present * masses[k]) if masses[k] else Fraction(1) for k in range(len(classes))]
    return [min(max(from_bits(bits_of_float32(share)), low), high) for share in shares]


def logistic_bits(rows: Rows, stored: Sequence[int]) -> list[list[int]]:
    """The published bits of each class against the rest where there are more than two classes, else of the last one."""
    k, d = len(rows.meta["classes"]), rows.width
    if rows.n == 0:
        return [[0] * d] * (k if k > 2 else 1)
    of_class, of_rows = class_weights(rows), rows.weights or [16] * rows.n
    scale = Fraction(1 << WEIGHT_SCALE, 16)
    counts = [int(of_class[label] * s * scale) for label, s in zip(rows.answers, of_rows, strict=True)]
    problems = list(range(k)) if k > 2 else [k - 1]
    found = []
    for i, positive in enumerate(problems):
        signed = [
            list(g) if label == positive else [-v for v in g] for g, label in zip(rows.rows, rows.answers, strict=True)
        ]
        guess = [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in stored[i * d : (i + 1) * d]]
        found.append(Logistic(signed, counts, rows.meta, d).bits(guess))
    return found


class Logistic:
    """One problem: rows with the label multiplied in, and weights of rows in units of 2^-43."""

    def __init__(self, signed: list[list[int]], counts: list[int], meta: dict[str, Any], d: int) -> None:
        self.signed, self.counts, self.grid, self.d = signed, counts, meta["bits"], d
        self.alpha = Fraction(digits(meta["alpha_units"], "alpha_units"), 4 ** meta["bits"])

    def bits(self, guess: list[float]) -> list[int]:
        """What is published: two roundings, both of which never turn the order of two numbers round."""
        w, P = self.newton(guess)
        for K in (128, 256, 512, 1024, 2048, 4096):
            W, last = to_integers(w, K), None
            while True:
                gradient, slack = self.gradient(W, K)
                length = math.isqrt(dot(gradient, gradient)) + 1 + slack
                radius = Fraction(length, 1 << (2 * K + WEIGHT_SCALE)) / self.alpha
                ends = [[self.published(Fraction(x, 1 << K) + s * radius) for s in (-1, 1)] for x in W]
                if all(low == high for low, high in ends):
                    return [low for low, _ in ends]
                if last is not None and 2 * radius > last:
                    break
                last, slope = radius, to_floats(gradient, 2 * K + WEIGHT_SCALE)
                W = [x - s for x, s in zip(W, to_integers((dot(line, slope) for line in P), K), strict=True)]
        wrong("weights", "4096 bits do not decide a weight")

    def published(self, value: Fraction) -> int:
        """float32(rint(2^q value) / 2^q), q = 24 + max(0, ceil(log2 alpha))."""
        q = 24 + max(0, (math.ceil(self.alpha) - 1).bit_length())
        return bits_of_float32(Fraction(round(value * 2**q), 2**q))

    def gradient(self, W: list[int], K: int) -> tuple[list[int], int]:
        """The gradient at W / 2^K in units of 2^-(2K + 43), and how wrong it may be."""
        sums = [0] * self.d
        for a, c in zip(self.signed, self.counts, strict=True):
            factor = c * sigmoid(dot(a, W), K + self.grid, K)
            sums = [x + factor * v for x, v in zip(sums, a, strict=True)]
        up = 1 << (K + WEIGHT_SCALE)
        exact = [self.alpha * x * up - Fraction(s << K, 1 << self.grid) for x, s in zip(W, sums, strict=True)]
        # Each sigmoid is wrong by 2^-K at most, and |a_i| < 1; rounding the line below adds less than one to each.
        return [math.floor(x) for x in exact], (sum(self.counts) << K) + self.d

    def newton(self, w: list[float]) -> tuple[list[float], Floats]:
        """Something near the minimiser, and something like the inverse of the Hessian there. Nothing is promised.

        It starts from the weights in the file: a guess may come from anywhere.
        """
        w = w if all(math.isfinite(x) and abs(x) < 1e6 for x in w) else [0.0] * self.d
        unit, alpha = 2.0**-self.grid, float(self.alpha)
        counts = [math.ldexp(c, -WEIGHT_SCALE) for c in self.counts]
        for _ in range(200):
            H = [[alpha * (i == j) for j in range(self.d)] for i in range(self.d)]
            slope = [alpha * x for x in w]
            for a, c in zip(self.signed, counts, strict=True):
                there = [(j, v * unit) for j, v in enumerate(a) if v]
                p = 1 / (1 + math.exp(min(700.0, max(-700.0, sum(w[j] * v for j, v in there)))))
                for i, v in there:
                    slope[i] -= c * p * v
                    line, factor = H[i], c * p * (1 - p) * v
                    for j, x in there:
                        line[j] += factor * x
            P = float_inverse(H)  # type: ignore[arg-type]
            step = [-dot(line, slope) for line in P]
            reach = max((abs(dot(a, step)) * unit for a in self.signed), default=0.0)
            damped = math.log1p(reach) / reach if reach > 1e-3 else 1.0
            w = [x + damped * s for x, s in zip(w, step, strict=True)]
            if reach <= 1e-6 and max(map(abs, step)) <= 1e-6 * (1 + max(map(abs, w))):
                break
        return w, P


def sigmoid(margin: int, scale: int, K: int) -> int:
    """1 / (1 + exp(margin / 2^scale)) in units of 2^-K, wrong by one at most.

    With D digits: t = |margin| / 2^scale and exp(-t) are rounded once each, so exp(-t) is wrong by a share of
    (t + 1) 10^(1-D) at most, and the result, which is at most 1, by (t e^-t + 3) 10^(1-D) < 4 / 10^(D-1) < 2^-K / 2.
    Rounding it down adds less than one.
    """
    context = Context(prec=K * 3 // 10 + 8, Emin=MIN_EMIN, Emax=MAX_EMAX)
    t = context.divide(Decimal(abs(margin)), Decimal(1 << scale))
    e = context.exp(-t)
    value = context.divide(e if margin > 0 else Decimal(1), context.add(e, Decimal(1)))
    return int(context.multiply(value, Decimal(1 << K)))


# ---------------------------------------------------------------------------------------------- 8 Kernel models
# K has the kernel values of pairs of rows, each rounded to a multiple of 2^-30, as integers. H = K + mu I. A row is
# kept if its pivot in H, h - k'H^-1 k, exceeds mu (1 + tau). Weights are 2^30 H^-1 y, y = 1 or -1.

KERNEL_BITS = 30
LARGEST_KERNEL = 2**50


def check_kernel(meta: dict[str, Any]) -> None:
    """The kernel and its parameters."""
    if meta["kernel"] == "custom":
        raise NeedsCodeError("a kernel function of the caller's")
    need(meta["function"] is None, "metadata", "a function is named beside a kernel that has a name")
    need(one_of("rbf", "matern", "poly", "linear")(meta["kernel"]), "metadata", "the kernel is not known")
    gamma, nu, coef0 = (hexadecimal(meta[name], name) for name in ("gamma", "nu", "coef0"))
    need(Fraction(1e-100) <= gamma <= Fraction(1e100), "metadata", "gamma is not between 1e-100 and 1e100")
    need(nu * 2 in (1, 3, 5), "metadata", "nu is none of 1/2, 3/2, 5/2")
    need(coef0 >= 0, "metadata", "coef0 is negative")
    need(type(meta["degree"]) is int and 1 <= meta["degree"] <= 64, "metadata", "degree is no integer from 1 to 64")
    need(threshold_of(meta["threshold"]), "metadata", "the threshold of a kernel model is not positive")


def kernel_value(x: Sequence[int], z: Sequence[int], meta: dict[str, Any]) -> int:
    """The kernel of two rows in units of 2^-30, the nearest integer."""
    name, unit = meta["kernel"], Fraction(1, 4 ** meta["bits"])
    gamma = Fraction(1) if name == "linear" else hexadecimal(meta["gamma"], "gamma")
    if name in ("linear", "poly"):
        inner: Any = dot(x, z) * unit
        if name == "poly":
            inner = (gamma * inner + hexadecimal(meta["coef0"], "coef0")) ** int(meta["degree"])
        return int(round(inner * 2**KERNEL_BITS))  # noqa: RUF046
    square: Fraction = sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) * unit
    if square == 0:
        return 1 << KERNEL_BITS
    prec = 40
    while True:  # exponentials of such numbers are transcendental, so this ends
        value, error = kernel_of_distance(name, gamma, meta["nu"], square, Context(prec=prec))
        ends: list[int] = [round((value + side * error) * 2**KERNEL_BITS) for side in (-1, 1)]
        if ends[0] == ends[1]:
            return ends[0]
        prec *= 2


def kernel_of_distance(
    name: str, gamma: Fraction, nu: Any, square: Fraction, context: Context
) -> tuple[Fraction, Fraction]:
    """A kernel at a squared distance, and how wrong it may be.

    Each operation is wrong by a share of 10^(1 - prec); the argument t of the exponential comes from two of them, so
    exp(-t) is wrong by (2t + 1) of these and what is multiplied with it by less than six more. That is less than 100 of
    them, since (2t + 7) (1 + t + t^2) e^-t is.
    """
    error = Fraction(100, 10 ** (context.prec - 1))
    if name == "rbf":
        return as_fraction(context.exp(-as_decimal(gamma * square, context))), error
    order = hexadecimal(nu, "nu") * 2
    t = context.sqrt(as_decimal(gamma * gamma * order * square, context))
    factor = Decimal(1)
    if order >= 3:
        factor = context.add(factor, t)
    if order == 5:
        factor = context.add(factor, context.divide(context.multiply(t, t), Decimal(3)))
    return as_fraction(context.multiply(factor, context.exp(-t))), error


def as_fraction(value: Decimal) -> Fraction:
    """A decimal number, exactly; zero in place of one far below all errors here, which would be a long fraction."""
    return Fraction(value) if value.adjusted() > -1000 else Fraction(0)


def as_decimal(value: Fraction, context: Context) -> Decimal:
    """A fraction, rounded once."""
    return context.divide(Decimal(value.numerator), Decimal(value.denominator))


def check_kernel_model(rows: Rows, tick: Callable[[int, int], None], say: Callable[[str, str], None]) -> None:
    """Decisions and weights of a kernel model."""
    meta, n = rows.meta, rows.n
    mu, tau = digits(meta["capacity_units"], "capacity_units"), threshold_of(meta["threshold"])
    assert tau is not None
    groups = len(meta["classes"])
    count = groups if groups > 2 else 1
    weights = rows.take("weights", "F32", [count, n])
    nothing_else(rows)
    need(n <= mu, "decisions", "there are more rows than the capacity allows")
    floor = Fraction(mu, 2)  # rounding moves eigenvalues of K by n/2 at most
    H: Matrix = []
    P: Floats = []
    for i, g in enumerate(rows.rows):
        k = [kernel_value(other, g, meta) for other in rows.rows[:i]]
        own = kernel_value(g, g, meta)
        kept = compare_form(H, P, k, own - mu * tau, floor) < 0 if i else own > mu * tau
        need(kept, "decisions", f"row {i + 1} of {n} would not be kept: its pivot is not above the threshold")
        H = [[*line, x] for line, x in zip(H, k, strict=True)] + [[*k, own + mu]]
        need(max(map(abs, [*k, own])) <= LARGEST_KERNEL, "decisions", "kernel values are larger than they may be")
        P = bordered(P, k, own + mu)
        tick(i + 1, n)
    say("decisions", f"each of {n} rows is kept, in the order in which they stand")
    positive = range(groups) if groups > 2 else [groups - 1]
    signs = [[1 if label == c else -1 for label in rows.answers] for c in positive]
    found = [solved_bits(H, P, [y << KERNEL_BITS for y in line], floor) for line in signs]
    need(list(weights) == list(itertools.chain(*found)), "weights", "they are not what the rows give, to the last bit")
    say("weights", f"{len(weights)} weights are right to the last bit")


def bordered(P: Floats, k: Sequence[int], own: int) -> Floats:
    """From a guess of H^-1 one of the inverse of H with one more row k and diagonal entry: in floats."""
    v = [dot(line, k) for line in P]
    pivot = own - dot(k, v)
    pivot = pivot if abs(pivot) > 1e-300 else 1e-300
    grown = [[p + a * b / pivot for p, b in zip(line, v, strict=True)] for line, a in zip(P, v, strict=True)]
    return [[*line, -a / pivot] for line, a in zip(grown, v, strict=True)] + [[*(-a / pivot for a in v), 1 / pivot]]


# ----------------------------------------------------------------------------------------------------- 9 Shards

LARGEST_FILE = 209_715_200
LARGEST_SHARD = 16_777_216


def joined(path: Path, head: dict[str, Any], tensors: dict[str, Tensor]) -> tuple[dict[str, Any], dict[str, Tensor]]:
    """Head and shards as the one file that they stand for: its metadata and its tensors."""
    names, order = head["shards"], tensors.get("order")
    fit = isinstance(names, list) and names and all(is_text(s) and re.fullmatch("[0-9a-f]{64}", s) for s in names)
    need(fit and len(set(names)) == len(names), "shards", "the names of shards")
    need(order is not None and order.dtype == "I32" and len(order.shape) == 1, "shards", "the tensor order")
    assert order is not None
    parts = [read_shard(path.with_name(f".{path.name}.parts") / name, name, head) for name in names]
    lengths = Counter(order.values)
    need(lengths == {k: part.n for k, part in enumerate(parts)}, "shards", "order does not fit the shards")
    turns = [iter(range(part.n)) for part in parts]
    found = [(parts[k], next(turns[k])) for k in order.values]
    meta = {name: value for name, value in head.items() if name != "shards"}
    meta["format"] = head["format"].removesuffix("-sharded")
    whole = {name: tensor for name, tensor in tensors.items() if name != "order"}
    whole |= tensors_of(found, meta)
    rows = Rows(meta, whole)
    total, sizes = rows.sizes(rows.rows, sparse="rows.lengths" in whole)
    need(total > LARGEST_FILE, "shards", "so few rows belong into one file")
    hashes = [shard_hash(key) for key in rows.ids]
    tree = divided(sorted(range(rows.n), key=hashes.__getitem__), hashes, sizes, 255)
    held = [
        sorted((i for i, k in enumerate(order.values) if k == s), key=hashes.__getitem__) for s in range(len(parts))
    ]
    need(tree == held, "shards", "rows stand in other shards than their ids say")
    return meta, whole


def read_shard(path: Path, name: str, head: dict[str, Any]) -> Rows:
    """The rows of one shard, whose name is the SHA-256 of its bytes."""
    raw = path.read_bytes()
    need(hashlib.sha256(raw).hexdigest() == name, "shards", "the name of a shard is not the SHA-256 of its bytes")
    meta, tensors = read_container(raw)
    need(meta["format"] == "erasable-shard", "shards", "a shard is of another format")
    members = {"format", "version", "checksum", "id_kind", "subject_kind"}
    members |= {"n_features"} if "rows.lengths" in tensors else set()
    need(set(meta) == members, "shards", "a shard has other members")
    need(meta.get("n_features", head["n_features"]) == head["n_features"], "shards", "a shard has other columns")
    rows = Rows({**head, "id_kind": meta["id_kind"], "subject_kind": meta["subject_kind"]}, tensors)
    nothing_else(rows)
    need(rows.n and meta["id_kind"] == head["id_kind"], "shards", "a shard has no rows, or ids of another kind")
    need(meta["subject_kind"] in (None, head["subject_kind"]), "shards", "a shard has subjects of another kind")
    return rows


def shard_hash(key: Any) -> int:
    """The hash that sorts a row into the tree."""
    text = b"i%d" % key if isinstance(key, int) else b"s" + key.encode() if isinstance(key, str) else b"b" + key
    return int.from_bytes(hashlib.sha256(text).digest(), "big")


def divided(rows: list[int], hashes: list[int], sizes: list[int], bit: int) -> list[list[int]]:
    """The shards of these rows: a node that is too large is divided by the next bit."""
    if len(rows) < 2 or sum(sizes[i] for i in rows) <= LARGEST_SHARD:
        return [rows] if rows else []
    halves = ([i for i in rows if hashes[i] >> bit & 1 == half] for half in (0, 1))
    return [node for half in halves for node in divided(half, hashes, sizes, bit - 1)]


def tensors_of(places: list[tuple[Rows, int]], meta: dict[str, Any]) -> dict[str, Tensor]:
    """The tensors of rows, names and answers that one file would have."""
    n, one = len(places), places[0][0]
    lines = [part.rows[i] for part, i in places]
    dense, sparse = one.sizes(lines, sparse=False)[0], one.sizes(lines, sparse=True)[0]
    found: dict[str, Tensor] = {}
    if one.numeric:
        answers = [t for part, i in places for t in part.answers[i]]
        found["targets"] = Tensor(one.integers, [n, len(meta["target_ranges"])], answers)
    else:
        found["labels"] = Tensor("I32", [n], [part.answers[i] for part, i in places])
    if 2 * sparse < dense:
        entries = [[(j, v) for j, v in enumerate(g[: meta["n_features"]]) if v] for g in lines]
        flat = list(itertools.chain(*entries))
        found["rows.lengths"] = Tensor(one.narrowest(), [n], map(len, entries))
        found["rows.columns"] = Tensor(one.narrowest(), [len(flat)], (j for j, _ in flat))
        found["rows.values"] = Tensor(one.integers, [len(flat)], (v for _, v in flat))
    else:
        found["rows"] = Tensor(one.integers, [n, one.width], itertools.chain(*lines))
    weights = [part.weights[i] if part.weights else 16 for part, i in places]
    if any(s != 16 for s in weights):
        found["row_weights"] = Tensor("I16", [n], weights)
    put_keys(found, "ids", meta["id_kind"], [part.ids[i] for part, i in places])
    owners = [part.subjects[i] for part, i in places]
    if any(len(several) > 1 for several in owners):
        found["subjects.lengths"] = Tensor("I32", [n], map(len, owners))
        put_keys(found, "subjects", meta["subject_kind"], list(itertools.chain(*owners)))
    elif any(owners):
        if not all(owners):
            found["subjects.present"] = Tensor("U8", [n], (len(several) for several in owners))
        nobody = {"int": 0, "str": "", "bytes": b""}[meta["subject_kind"]]
        put_keys(found, "subjects", meta["subject_kind"], [several[0] if several else nobody for several in owners])
    return found


def put_keys(found: dict[str, Tensor], what: str, kind: str, keys: list[Any]) -> None:
    """The tensors of ids or subjects."""
    if kind == "int":
        found[what] = Tensor("I64", [len(keys)], keys)
        return
    raw = [key.encode() if kind == "str" else key for key in keys]
    found[f"{what}.ends"] = Tensor("I64", [len(keys)], itertools.accumulate(map(len, raw)))
    found[what] = Tensor("U8", [sum(map(len, raw))], b"".join(raw))


# --------------------------------------------------------------------------------------------------- 10 One file


class Check:
    """All of it, in order. ``said`` holds what was found to be right."""

    def __init__(self, path: Path, notify: Callable[[str], None], tick: Callable[[int, int], None]) -> None:
        self.path, self.notify, self.tick = path, notify, tick
        self.said: list[tuple[str, str]] = []
        self.facts: dict[str, Any] = {}

    def say(self, part: str, line: str) -> None:
        """Remember, and tell, that a part holds."""
        self.said.append((part, line))
        self.notify(f"{part:<10} {line}")

    def run(self, *, estimate_only: bool = False) -> None:
        """Raises :class:`WrongError` or :class:`NeedsCodeError`, unless everything holds."""
        if self.path.exists() and not self.path.is_file():
            raise OSError(0, "it is no regular file")
        raw = self.path.read_bytes()
        meta, tensors = read_container(raw)
        self.facts["format"] = meta["format"]
        need(meta["format"] != "erasable-shard", "layout", "this is a part of a model; give the file that names it")
        check_metadata(meta)
        if meta["format"] in ("erasable-general", "erasable-core-set"):
            Names(meta, tensors).check_classes_have_rows()
            raise NeedsCodeError(meta["format"])
        if meta["format"].endswith("-sharded"):
            meta, tensors = joined(self.path, meta, tensors)
            raw = written(meta, tensors)
        rows = Rows(meta, tensors)
        rows.check_classes_have_rows()
        if "kernel" not in meta:
            size = rows.sizes(rows.rows, sparse="rows.lengths" in tensors)[0]
            sharded = self.facts["format"].endswith("-sharded")
            need(sharded or size <= LARGEST_FILE, "layout", "so many rows must be written in several files")
        self.facts |= {"core_rows": rows.n, "columns": rows.width, "digest": hashlib.sha256(raw).hexdigest()}
        self.facts["estimated_seconds"] = estimate(rows)
        self.notify(f"{self.path}: {self.facts['format']}, {rows.n} rows, {rows.width} columns")
        about = spoken(self.facts["estimated_seconds"])
        self.notify(f"This takes {about} of one processor, going by a small probe; longer where it is busy.")
        if (
            size := 100 * (rows.n if "kernel" in meta else rows.width) ** 2
        ) > 2**29:  # two matrices of Python's numbers
            self.notify(f"It needs some {size / 2**30:.1f} GiB of memory.")
        if estimate_only:
            return
        self.say("layout", "layout, checksum and metadata are as docs/format.md says")
        (check_kernel_model if "kernel" in meta else check_linear_model)(rows, self.tick, self.say)


def estimate(rows: Rows) -> float:
    """Seconds that the check will take: the same code timed on a few rows, and how its work grows."""
    n, d = rows.n, rows.width
    if n == 0:
        return 0.0
    problems = max(1, len(rows.meta["target_ranges"] if rows.numeric else rows.meta["classes"]))
    some = rows.rows[:12]
    if "kernel" in rows.meta:
        a_pair = timed(lambda: [kernel_value(x, some[0], rows.meta) for x in some]) / len(some)
        guess, proof, _ = seconds_a_step(min(n, 40))
        return float(n * n / 2 * a_pair + n**3 / 3 * (guess + proof) + 6 * problems * n * n * proof)
    guess, proof, sums = seconds_a_step(min(d, 60))
    filled: float = sum(sum(1 for v in g if v) for g in some) / len(some)
    decided = 0 if rows.meta["threshold"] == "inf" else n
    seconds: float = decided * d * d * proof + n * d * d * guess + n * filled**2 * sums
    if rows.weights is not None and rows.meta.get("loss") != "logistic":
        seconds += n * filled**2 * sums + 2 * d**3 * guess
    if rows.meta.get("loss") == "logistic":
        probe = Logistic([list(g) for g in some], [1 << WEIGHT_SCALE] * len(some), rows.meta, d)
        a_row = timed(lambda: probe.gradient([1 << 100] * d, 128)) / len(some)
        return seconds + (problems if problems > 2 else 1) * (n * (3 * a_row + filled**2 * sums) + 2 * d**3 * guess)
    return seconds + 5 * problems * d * d * proof


def seconds_a_step(d: int) -> tuple[float, float, float]:
    """Seconds, for each entry of a matrix, of following an inverse in floats, of a proof, and of a sum."""
    H, g = identity(d, 2**30), [(37 * j) % 101 + 1 for j in range(d)]
    P = float_inverse(H)
    guess, sums = timed(lambda: follow(P, g)), timed(lambda: add_outer(H, g))
    return guess / d**2, timed(lambda: next(iter(corrections(H, P, g)))) / d**2, sums / d**2


def timed(work: Callable[[], Any]) -> float:
    """Seconds of this processor that some work takes: the least of several times."""
    times: list[float] = []
    begin = time.process_time()
    while not times or (len(times) < 20 and time.process_time() < begin + 0.02):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def spoken(seconds: float) -> str:
    """So many seconds, roughly, in words."""
    if seconds < 1:
        return "less than a second"
    for unit, size in (("days", 86400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {seconds:.0f} seconds"


class Progress:
    """A line on standard error that says how many rows are decided, where that is a terminal."""

    def __init__(self, quiet: bool) -> None:
        self.shown, self.start, self.last = not quiet and sys.stderr.isatty(), time.monotonic(), 0.0

    def tick(self, done: int, total: int) -> None:
        """So many of all rows are decided."""
        now = time.monotonic()
        if self.shown and (now - self.last > 0.5 or done == total):
            self.last = now
            end = "\n" if done == total else ""
            print(f"\r{done} of {total} rows decided, {now - self.start:.0f} s", end=end, file=sys.stderr, flush=True)


HOLDS, USAGE, DOES_NOT_HOLD, UNREADABLE, NEEDS_CODE = 0, 2, 4, 5, 8


def verdict(path: Path, notify: Callable[[str], None], tick: Callable[[int, int], None], estimate_only: bool) -> Any:
    """The exit code and what is to be said about a file, as a dictionary."""
    check, start = Check(path, notify, tick), time.process_time()
    found: dict[str, Any] = {"model": str(path), "verified": False}
    try:
        check.run(estimate_only=estimate_only)
    except WrongError as error:
        code, found["part"], found["reason"] = DOES_NOT_HOLD, error.part, str(error)
    except NeedsCodeError as error:
        code, found["part"] = NEEDS_CODE, "code"
        found["reason"] = f"{error}: what is stored follows from code that a file cannot hold; layout and names hold"
    except OSError as error:
        code, found["part"], found["reason"] = UNREADABLE, "file", str(error.strerror)
    else:
        code, found["verified"] = HOLDS, None if estimate_only else True
    found |= {"holds": [part for part, _ in check.said], **check.facts}
    return code, {**found, "seconds": round(time.process_time() - start, 3), "exit": code}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    words = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(
        prog="erasable_verify.py",
        description="Check a model file of erasable: learn its rows again from nothing, in exact arithmetic, and "
        "compare sums, decisions and weights with what is stored. Independent of erasable; slow.",
        epilog=words[-1].strip(),
    )
    parser.add_argument("model", type=Path, help="the model file; shards are found beside it")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--estimate", action="store_true", help="say how long it will take, and stop")
    options = parser.parse_args(arguments)
    notify = (lambda line: None) if options.json else (lambda line: print(line, flush=True))
    code, found = verdict(options.model, notify, Progress(options.json).tick, options.estimate)
    if options.json:
        print(json.dumps(found))
    elif code == HOLDS and not options.estimate:
        print(f"It holds. State digest {found['digest']}, {found['seconds']:.1f} s.")
    elif code == NEEDS_CODE:
        print(f"Not checked: {found['reason']}.")
    elif code:
        print(f"It does not hold, {found['part']}: {found['reason']}.")
    return int(code)


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
