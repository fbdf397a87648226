#!/usr/bin/env python3
"""A second verifier for model files of erasable: one file, the standard library, nothing of erasable imported.

    python erasable_verify.py model.erasable
    python erasable_verify.py --receipt receipt.json --key signer.pub.pem model.erasable

It was written from three pages, docs/format.md (what stands in a file), docs/exactness.md (what follows from what) and
docs/receipts.md (what stands in a receipt), and uses no code of the program that writes such files. It is meant to be
read before it is believed, from top to bottom, in an hour.

**What a model file is.** A model learns from rows and keeps some of them, the core rows. The file holds these rows,
with their ids and to whom they belong; sums over them; weights, with which the model predicts; and configuration. To
forget somebody is to take their rows out and to leave what learning the others alone would have made. So every honest
file, whatever was forgotten before, has one property, and a file that kept a trace of a forgotten row in its sums or
weights does not have it:

    all that is stored is what the stored rows, learnt again from nothing in the order in which they stand, give.

**What is checked**, in this order:

    layout     the bytes are the only way to write what they hold, checksum included             parts 2 to 5
    decisions  each row is kept: by its id and what is public, or with enough that is new in it  parts 7 and 9
    sums       every sum, as an integer                                                          part 7
    weights    every bit                                                                         parts 7 to 9
    receipt    signature, form, and that it speaks of this state; the model may be left out      part 11

**What that does not prove**: that the rows are true, whose they are, that there is no copy elsewhere, and parameters
that nothing stored follows from. ``NOT_PROVED`` says it in full, and docs/verifier.md has a table.

**Exact.** Nothing is decided by a float. Rows, sums, thresholds and weights are integers or fractions. Floats only
guess solutions, and what a guess is worth is proved in integers (part 6). The one transcendental function is exp, which
Python's decimal module rounds correctly to as many digits as one asks for.

Exit codes: 0 all of it holds; 2 wrong usage; 3 it is no receipt, or its signature is wrong; 4 the model
does not hold, is not the state of the receipt, or is no model file; 5 a file cannot be read; 8 this kind of model needs
code that a file cannot hold, or a library that trains its learner: what was not checked is named, and the rest holds.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import hashlib
import itertools
import json
import math
import operator
import re
import struct
import sys
import time
import tomllib
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

__version__ = "0.1.0"

Meta = dict[str, Any]

# ----------------------------------------------------------------------------------- 1 What is said about a file

PROVED = """Proved: the file is well formed, and all that follows from rows in it is what its own rows give: learnt
again from nothing, in their order, each of them is kept, and every sum and every bit of the weights comes out as
stored. So sums and weights hold no trace of any row that is not stored."""
NOT_PROVED = """Not proved, because no program can see it in the file alone: that the rows are true, that they are those
of the people named, or that none was invented or taken out together with its share of the sums; that no copy lies
elsewhere; which rows were passed over, and what the choice of those that are stored tells of others. Nothing stored
follows from names (subjects, columns, classes; ids, unless a row was drawn by its id), from scaling, order_key,
feature_map or target_ranges, nor from class_weight with the squared loss: others would verify as well, and so would a
lower threshold, a higher sample_rate, and any rate, moments and shares that keep the same rows. Compare the digest with
that in a signed receipt."""


class WrongError(Exception):
    """The file is not what the pages say, or not what its rows give. ``part`` says what was being checked."""

    def __init__(self, part: str, reason: str) -> None:
        super().__init__(reason)
        self.part = part


class NeedsCodeError(Exception):
    """A kind of model whose state follows from code that is not in the file."""


class NeedsLibraryError(Exception):
    """A learner that a library trains on the stored rows, and that is in no file."""


def need(condition: object, part: str, reason: str) -> None:
    """Go on only if the condition holds; else the file fails."""
    if not condition:
        raise WrongError(part, reason)


# ----------------------------------------------------------------------------------------------- 2 The container
# 8 bytes: the length of the header. The header: JSON, padded with spaces. Then the tensors, one after the other.
# *Proves* that no byte is damaged, and that nothing stands between what is read: no gap, no second spelling. *Not* who
# wrote it: whoever alters a file can make the checksum fit.

LONGEST_HEADER = 8_388_608
MOST_MARKS = 524_288  # of the characters , [ { in a text that is parsed as JSON: so parsing takes bounded memory
WIDTHS = {"I64": 8, "I32": 4, "I16": 2, "U16": 2, "U8": 1, "F32": 4}
LETTERS = {"I64": "q", "I32": "i", "I16": "h", "U16": "H", "U8": "B", "F32": "I"}  # F32: the bits, compared as such

SUMS = ["gram", "class_sums", "weighted_gram", "weighted_class_sums"]
TARGET_SUMS = ["gram", "target_sums", "weighted_gram", "weighted_target_sums"]
ROWS = ["rows", "rows.lengths", "rows.columns", "rows.values", "row_weights"]
NAMES = ["ids.ends", "ids", "subjects.lengths", "subjects.present", "subjects.ends", "subjects"]
# Every format with its tensors, in the order of the tables of docs/format.md. In a file, wider entries come first.
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
# Version 2 has one format for all selections and heads; that with the member shards is the head of several files.
MODEL = "erasable-model"
PUBLIC_AND_DERIVED = ["moments", *dict.fromkeys(itertools.chain(*zip(SUMS, TARGET_SUMS, strict=True))), "weights"]


def order_of(meta: Meta) -> list[str]:
    """The tensors that a file may have, in their order."""
    if meta["format"] != MODEL:
        return ORDER[meta["format"]]
    return [*PUBLIC_AND_DERIVED, *(["order"] if "shards" in meta else ["labels", "targets", *ROWS, *NAMES])]


class Tensor(NamedTuple):
    """A type, a shape, and the numbers as bytes: little endian, one row after the other."""

    dtype: str
    shape: list[int]
    body: bytes


Tensors = dict[str, Tensor]


def tensor(dtype: str, shape: list[int], numbers: Iterable[int]) -> Tensor:
    """A tensor of these numbers."""
    body = array(LETTERS[dtype], numbers)
    if sys.byteorder == "big":
        body.byteswap()
    return Tensor(dtype, shape, body.tobytes())


def take(tensors: Tensors, name: str, dtype: str, shape: list[int]) -> array[int]:
    """The numbers of a tensor that must be there, of this type and shape."""
    there = tensors.get(name, Tensor("", [], b""))
    need((there.dtype, there.shape) == (dtype, shape), "rows", f"{name} is not there, or not of its type and shape")
    numbers = array(LETTERS[dtype])
    numbers.frombytes(there.body)
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def compact(value: Any, *, sort: bool) -> str:
    """JSON without white space, escaped only where JSON demands it. Names are ASCII, so sorting is as in RFC 8785."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False, sort_keys=sort)


def parsed(text: str, what: str) -> dict[str, Any]:
    """The JSON object that a text holds. Its numbers must be integers below 2**53."""
    need(sum(map(text.count, ",[{")) <= MOST_MARKS, "layout", f"{what} has more than {MOST_MARKS} members")

    def refuse(number: str) -> NoReturn:
        raise ValueError

    def small(number: str) -> int:
        if abs(int(number)) >= 2**53:
            raise ValueError
        return int(number)

    try:
        value = json.loads(text, parse_int=small, parse_float=refuse, parse_constant=refuse)
    except (ValueError, RecursionError):
        value = None
    need(isinstance(value, dict), "layout", f"{what} is no JSON object, or has a number that is no integer below 2^53")
    return value  # type: ignore[no-any-return]


def written(meta: Meta, tensors: Tensors) -> bytes:
    """The file that holds this: a pure function of it, checksum included."""
    listed = sorted((t for t in order_of(meta) if t in tensors), key=lambda t: -WIDTHS[tensors[t].dtype])
    entries, end = {}, 0
    for name in listed:
        dtype, shape, body = tensors[name]
        entries[name] = {"dtype": dtype, "shape": shape, "data_offsets": [end, end + len(body)]}
        end += len(body)

    def whole(checksum: str) -> bytes:
        inner = compact({**meta, "checksum": checksum}, sort=True)
        header = compact({"__metadata__": {"erasable": inner}, **entries}, sort=False).encode()
        header += b" " * (-len(header) % 8)
        return b"".join([struct.pack("<Q", len(header)), header, *(tensors[name].body for name in listed)])

    return whole(hashlib.sha256(whole("0" * 64)).hexdigest())


def read_container(raw: bytes) -> tuple[Meta, Tensors]:
    """Metadata and tensors of a file, which must be exactly what :func:`written` makes of them.

    That one comparison finds damage, gaps, slack space and every other way to write the same thing.
    """
    length = int.from_bytes(raw[:8], "little")
    need(8 + length <= len(raw) and length <= LONGEST_HEADER, "layout", "the header does not fit the file or its limit")
    try:
        header = parsed(raw[8 : 8 + length].decode(), "the header")
        outer = header.pop("__metadata__", None)
        fit = isinstance(outer, dict) and list(outer) == ["erasable"] and isinstance(outer["erasable"], str)
        need(fit, "layout", "there is no metadata of erasable")
        meta = parsed(outer["erasable"], "the metadata")
        name, version = meta.get("format"), meta.get("version")
        need(isinstance(name, str) and name in {*ORDER, MODEL}, "layout", f"the format {name!r:.40} is not known")
        right = 2 if name == MODEL else 1
        said = f"it is version {version!r:.20} of {name}, and this program reads {right}"
        need(is_integer(version, right, right), "layout", said)
        need(set(header) <= set(order_of(meta)), "layout", "there is a tensor that is not known")
        body = raw[8 + length :]
        tensors = {key: read_tensor(entry, body) for key, entry in header.items()}
        same = written(meta, tensors) == raw
    except UnicodeError:  # the header is no UTF-8, or has half of a surrogate pair in a text
        same = False
    need(same, "layout", "writing what was read gives other bytes: the checksum does not fit, or it is not canonical")
    return meta, tensors


def read_tensor(entry: Any, body: bytes) -> Tensor:
    """One tensor, of the type and shape that its entry in the header says."""
    need(isinstance(entry, dict) and set(entry) == {"dtype", "shape", "data_offsets"}, "layout", "a tensor's entry")
    dtype, shape, offsets = entry["dtype"], entry["shape"], entry["data_offsets"]
    need(isinstance(dtype, str) and dtype in WIDTHS, "layout", "the type of a tensor is not known")
    for numbers, lengths in ((shape, (1, 2)), (offsets, (2,))):
        fit = isinstance(numbers, list) and len(numbers) in lengths
        need(fit and all(is_integer(i, 0, 2**53 - 1) for i in numbers), "layout", "shape or offsets of a tensor")
    part = body[offsets[0] : offsets[1]]
    need(len(part) == math.prod(shape) * WIDTHS[dtype], "layout", "a tensor is not as long as its shape says")
    return Tensor(dtype, shape, part)


# -------------------------------------------------------------------------------------------------- 3 The metadata
# Every format has its members, no others, and every member has one rule below: of which type it is, in which range,
# and what it has to do with others. Floats are texts in hexadecimal, integers that may be large are decimal digits.
# *Proves* that there is no setting but those of the page. *Not* that they are those in use when rows were learnt; where
# decisions, sums and weights follow from one, the parts below find that out.


def is_integer(value: Any, low: int, high: int) -> bool:
    """Whether it is a number of JSON (which true is not) within these ends."""
    return type(value) is int and low <= value <= high


def are_texts(values: Any) -> bool:
    """Whether it is a list of texts."""
    return isinstance(values, list) and all(isinstance(v, str) for v in values)


def are_pairs(values: Any) -> bool:
    """Whether it is a list of pairs, and not empty."""
    return isinstance(values, list) and values != [] and all(isinstance(p, list) and len(p) == 2 for p in values)


def ascend(values: Iterable[Any]) -> bool:
    """Whether each value is greater than the one before it."""
    return all(a < b for a, b in itertools.pairwise(values))


def hexadecimal(text: Any) -> Fraction:
    """The number that a float's text stands for, exactly. There is one text for each number, and no minus zero."""
    try:
        value = float.fromhex(text)
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    fit = math.isfinite(value) and value.hex() == text and text != "-0x0.0p+0"
    need(fit, "metadata", "a float is not written as floats are")
    return Fraction(value)


def digits(text: Any) -> int:
    """The integer that is written as decimal digits."""
    fit = isinstance(text, str) and len(text) < 4000 and re.fullmatch(r"-?[0-9]+", text) and str(int(text)) == text
    need(fit, "metadata", "an integer is not written as decimal digits")
    return int(text)


def sample_rate(meta: Meta) -> Fraction:
    """The share of rows that are kept by their ids alone."""
    return hexadecimal(meta["sample_rate"]) if "sample_rate" in meta else Fraction(0)


def loss(meta: Meta) -> Any:
    """What weights minimise: "squared", of regressions too, or "logistic"; version 2 calls it the head."""
    named = meta.get("loss", meta.get("head"))
    return "logistic" if named in ("logistic", "logistic-spread") else "squared"


def is_independent(meta: Meta) -> bool:
    """Whether each row is kept or not by itself."""
    return str(meta.get("selection", "")).startswith("independent")


def class_values(texts: list[str], kind: Any) -> list[Any]:
    """Classes, or labels of class_weight, as values that can be compared. Each value has one text."""
    if kind == "int":
        values = [digits(text) for text in texts]
        need(all(-(2**63) <= v < 2**63 for v in values), "metadata", "a class is no integer of 64 bits")
        return values
    need(kind != "bool" or set(texts) <= {"true", "false"}, "metadata", "a class is neither true nor false")
    return (
        [text == "true" for text in texts]
        if kind == "bool"
        else list(map(hexadecimal, texts))
        if kind == "float"
        else texts
    )


def fits_scaling(scaling: Any, meta: Meta) -> bool:
    """Null, "row" (of linear models), a positive float, or one for each column."""
    if scaling is None or (scaling == "row" and "kernel" not in meta):
        return True
    scales = scaling if isinstance(scaling, list) else [scaling]
    return (scales is not scaling or len(scales) == meta["n_features"]) and all(hexadecimal(s) > 0 for s in scales)


def fits_feature_map(text: Any, meta: Meta) -> bool:
    """Null, or the canonical text of a description. Rows are stored as they came out of the map."""
    if text is None:
        return True
    described = parsed(text, "feature_map") if isinstance(text, str) else {}
    if set(described) != {"map", "n_features"} or not isinstance(described["map"], dict):
        return False
    before = described["n_features"]
    fit = before is None or is_integer(before, 1, 2**53 - 1)
    kind = described["map"].get("map")
    if kind == "schema":
        fit = fit and fits_schema(described["map"])
    elif kind == "log":
        fit = fit and fits_log(described, meta)
    else:
        fit = fit and "raw_columns" not in meta
    fit = fit and "kernel" not in meta and (kind == "log" or meta["feature_names"] is None)
    return fit and compact(described, sort=True) == text


def fits_log(described: dict[str, Any], meta: Meta) -> bool:
    """The parameters of the log map, which keeps columns apart, and the number of columns that they make."""
    log, before = described["map"], described["n_features"]
    if set(log) != {"map", "n_features", "constant", "centres", "scales", "missing"}:
        return False
    if not is_integer(log["n_features"], 1, 2**24) or log["n_features"] != before or not is_integer(before, 1, 2**24):
        return False
    if log["missing"] not in (None, "indicator", "zero") or hexadecimal(log["constant"]) < 0:
        return False
    for name, least in (("centres", -math.inf), ("scales", 0.0)):
        numbers = log[name]
        if numbers is not None:
            if not isinstance(numbers, list) or len(numbers) != before:
                return False
            if not all(least < hexadecimal(v) < math.inf for v in numbers):
                return False
    constant = hexadecimal(log["constant"]) > 0
    columns = before * (2 if log["missing"] == "indicator" else 1) + constant
    return bool(columns == meta["n_features"]) and not (constant and meta["intercept"])


def columns_of(meta: Meta) -> int:
    """The number of columns of rows as they are given, which have the names."""
    text = meta.get("feature_map")
    found = meta["n_features"] if text is None else 0
    if isinstance(text, str):
        found = parsed(text, "feature_map").get("n_features")
    return found if isinstance(found, int) else 0


def fits_schema(described: dict[str, Any]) -> bool:
    """A map's name and a text in TOML: its version, and tables for columns. What these say of cells is not checked."""
    text = described.get("text")
    if set(described) != {"map", "text"} or not isinstance(text, str) or len(text) > 2**24:
        return False
    try:
        schema = tomllib.loads(text)
    except (ValueError, RecursionError):
        return False
    fit = re.match(r"version = [12]\n", text) and set(schema) <= SCHEMA
    columns = schema.get("columns")
    if not fit or not isinstance(columns, dict) or not all(isinstance(c, dict) for c in columns.values()):
        return False
    kinds = [c.get("kind") for c in columns.values() if "role" not in c]
    roles = [c["role"] for c in columns.values() if "role" in c]
    return kinds != [] and all(k in KINDS_OF_COLUMNS for k in kinds) and all(r in ROLES for r in roles)


def fits_class_weight(given: Any, meta: Meta) -> bool:
    """Null, "balanced", or pairs of a label and a float32 from 2^-16 to 2^16; of fixed classes, where these are."""
    if given is None or given == "balanced":
        return True
    if not isinstance(given, dict) or set(given) != {"kind", "weights"} or not are_pairs(given["weights"]):
        return False
    kind, labels = given["kind"], [label for label, _ in given["weights"]]
    if not are_texts(labels) or kind not in KINDS_OF_CLASSES[1:] or not ascend(class_values(labels, kind)):
        return False
    weights = [hexadecimal(weight) for _, weight in given["weights"]]
    known = not meta["classes_fixed"] or (kind == meta["class_kind"] and set(labels) <= set(meta["classes"]))
    return known and all(Fraction(1, 2**16) <= w <= 2**16 and float32(float32_bits(w)) == w for w in weights)


def fits_target_ranges(ranges: Any, meta: Meta) -> bool:
    """Pairs of ends, at most 1e300 in size, the lower first; half of the width, a divisor, must not round to zero."""
    ends = [list(map(hexadecimal, pair)) for pair in ranges] if are_pairs(ranges) else []
    fit = all(max(-low, high) <= Fraction(1e300) and float(low) / 2 < float(high) / 2 for low, high in ends)
    return fit and ends != []


def fits_sample_key(key: Any, meta: Meta) -> bool:
    """Null if and only if no sample is drawn; else digits, those of order_key unless that is null."""
    if key is None or sample_rate(meta) == 0:
        return key is None and sample_rate(meta) == 0
    return 0 <= digits(key) < 2**128 and meta["order_key"] in (None, key)


def fits_moments(moments: Any, meta: Meta) -> bool:
    """Null, an exponent from -100 to 20 for each column, or the word matrix, where there is a tensor."""
    if not isinstance(moments, list):
        return moments is None or (moments == "matrix" and "kernel" not in meta)
    return len(moments) == meta["n_features"] and all(is_integer(e, -100, 20) for e in moments)


def fits_class_shares(shares: Any, meta: Meta) -> bool:
    """Null, or a share from 2^-100 to 1 of each class, which are then fixed."""
    if shares is None:
        return True
    fit = isinstance(shares, list) and meta.get("classes_fixed") is True and len(shares) == len(meta["classes"])
    return fit and all(Fraction(1, 2**100) <= hexadecimal(share) <= 1 for share in shares)


def fits_balance(balance: Any, meta: Meta) -> bool:
    """0, one half or 1; 0 where every row is kept, and without shares."""
    value = hexadecimal(balance)
    return value * 2 in (0, 1, 2) and (value == 0 or (hexadecimal(meta["rate"]) < 1 and bool(meta["class_shares"])))


def length_of_unit_rows(meta: Meta) -> int:
    """What rows of norm one are stretched to on the grid, before they are rounded; at least 1, or nothing fits it."""
    radius = 2 ** meta["bits"] - 1
    ball = math.isqrt(radius**2 - (math.isqrt(2 ** (2 * meta["bits"] - 1)) if meta["intercept"] else 0) ** 2)
    reach = ball - 1 - (math.isqrt(meta["n_features"] - 1) + 2) // 2
    need(reach >= 1, "metadata", "so many features do not fit a grid of so few bits")
    if meta["scaling"] == "row" or isinstance(meta["scaling"], list):
        return reach - reach % 64 if reach >= 256 * 64 else reach
    return ball if meta["intercept"] else radius + 1


def fits_mean_rarity(mean: Any, meta: Meta) -> bool:
    """That of rows with these moments: 1, or the number of columns times the squared length of unit rows; a float."""
    length = Fraction(1) if "kernel" in meta else Fraction(length_of_unit_rows(meta), 2 ** meta["bits"])
    right = 1.0 if meta["moments"] is None else float(meta["n_features"] * length**2)
    return hexadecimal(mean) == Fraction(right)


def fits_learner(name: Any, meta: Meta) -> bool:
    """One that is known, for classes or numbers as the head says, and for rows as they are stored."""
    if "head" not in meta:  # the learner of a core set is the caller's
        return is_description(name)
    if not isinstance(name, str) or name not in LEARNERS:
        return False
    sees_raw, purposes = LEARNERS[name]
    need(sees_raw == ("raw_columns" in meta), "metadata", "rows are not stored as the learner sees them")
    ranges = meta.get("target_ranges")
    return ("classes" if ranges is None else "number" if len(ranges) == 1 else "numbers") in purposes


def is_description(value: Any) -> bool:
    """Whether it describes code of the caller's: an object. What it says is not checked."""
    return isinstance(value, dict)


def fits_parameters(values: Any, meta: Meta) -> bool:
    """Names with whole numbers, truth values, words or floats as texts. Which ones a learner has is not checked."""
    if not isinstance(values, dict) or not all(is_plain(value) for value in values.values()):
        return False
    return "class_weight" not in values or meta.get("balance", NO_BALANCE) == NO_BALANCE


def is_plain(value: Any) -> bool:
    """Whether it is a value that a parameter may have."""
    return value is None or isinstance(value, bool | str) or is_integer(value, -(2**53) + 1, 2**53 - 1)


NO_BALANCE = "0x0.0p+0"
TREES = {"classes", "number"}
LEARNERS = {  # whether rows are stored as they were read; and what it predicts: classes, a number, or several
    "lightgbm": (True, TREES),
    "hist_gradient_boosting": (True, TREES),
    "random_forest": (True, TREES | {"numbers"}),
    "extra_trees": (True, TREES | {"numbers"}),
    "sklearn_logistic": (False, {"classes"}),
    "sklearn_ridge": (False, {"number", "numbers"}),
    "xgboost": (True, TREES),
    "hessboost": (True, TREES),
}
KINDS = (None, "int", "str", "bytes")
KINDS_OF_CLASSES = (None, "bool", "int", "float", "str")
KINDS_OF_COLUMNS = ("number", "category", "ordered", "yes/no", "date", "time", "text", "vector")
SCHEMA = {"version", "missing", "identity", "columns", "crosses"}
ROLES = ("label", "target", "id", "subject", "weight", "ignore")
MOST_RAW_COLUMNS = 8192
KERNELS = ("rbf", "matern", "poly", "linear", "custom")
RULES: dict[str, Callable[[Any, Meta], Any]] = {  # format, version and checksum: see read_container
    "n_features": lambda v, m: is_integer(v, 1, 2**53 - 1),
    "class_kind": lambda v, m: v in KINDS_OF_CLASSES,
    "classes": lambda v, m: (
        are_texts(v) and bool(v) is bool(m["class_kind"]) and ascend(class_values(v, m["class_kind"]))
    ),
    "classes_fixed": lambda v, m: v is False or (v is True and m["classes"] and "core_set" not in m),
    "id_kind": lambda v, m: v in KINDS,
    "subject_kind": lambda v, m: v in KINDS,
    "bits": lambda v, m: is_integer(v, 1 if "kernel" in m else 4, 20),
    "intercept": lambda v, m: v is True or v is False,
    "scaling": lambda v, m: fits_scaling(v, m) and ("kernel" in m or length_of_unit_rows(m) > 0),
    "capacity_units": lambda v, m: 2 <= digits(v) < 2**50 if "kernel" in m else 1 <= digits(v) < 2**52,
    "sample_rate": lambda v, m: 0 <= hexadecimal(v) <= 1,
    "threshold": lambda v, m: sample_rate(m) > 0 if v == "inf" else hexadecimal(v) >= 0,
    "feature_names": lambda v, m: v is None or (are_texts(v) and len(v) == columns_of(m)),
    "feature_map": fits_feature_map,
    "order_key": lambda v, m: not is_independent(m) if v is None else 0 <= digits(v) < 2**128,
    "sample_key": fits_sample_key,
    "loss": lambda v, m: v in ("squared", "logistic"),
    "alpha_units": lambda v, m: v is None if loss(m) == "squared" else 1 <= digits(v) < 2**52,
    "class_weight": fits_class_weight,
    "target_ranges": fits_target_ranges,
    "kernel": lambda v, m: v in KERNELS and ("threshold" not in m or hexadecimal(m["threshold"]) > 0),
    "function": lambda v, m: v is None or (isinstance(v, str) and m["kernel"] == "custom"),
    "gamma": lambda v, m: Fraction(1e-100) <= hexadecimal(v) <= Fraction(1e100),
    "nu": lambda v, m: hexadecimal(v) * 2 in (1, 3, 5),
    "degree": lambda v, m: is_integer(v, 1, 64),
    "coef0": lambda v, m: hexadecimal(v) >= 0,
    "rate": lambda v, m: 0 < hexadecimal(v) <= 1,
    "moments": fits_moments,
    "mean_rarity": fits_mean_rarity,
    "class_shares": fits_class_shares,
    "balance": fits_balance,
    "raw_columns": lambda v, m: (
        is_integer(v, 1, MOST_RAW_COLUMNS) and (m["feature_map"] is not None or v == m["n_features"])
    ),
    "learner": fits_learner,
    "learner_parameters": fits_parameters,
    "sampler": lambda v, m: is_description(v),
    "core_set": lambda v, m: is_description(v),
    "rows": lambda v, m: v in ("float64", "int32", "int16"),
    "layout": lambda v, m: v in ("dense", "csr"),
    "one_shot": lambda v, m: v is True or v is False,
    "reproducible": lambda v, m: v is True or v is False,
    "shards": lambda v, m: are_texts(v) and len({*v}) == len(v) > 0 and all(re.fullmatch("[0-9a-f]{64}", x) for x in v),
}
CLASSES = {"classes", "class_kind", "classes_fixed"}
EVERY = {"format", "version", "checksum", "n_features", "id_kind", "subject_kind"}
GRID = {"bits", "scaling", "capacity_units", "threshold", "feature_names", "order_key"}
SELECTION = GRID | {"intercept", "feature_map", "sample_rate", "sample_key"}
LINEAR = EVERY | CLASSES | SELECTION | {"loss", "alpha_units", "class_weight"}
REGRESSION = EVERY | SELECTION | {"target_ranges"}
MEMBERS = {
    "erasable-linear": LINEAR,
    "erasable-linear-sharded": LINEAR | {"shards"},
    "erasable-regression": REGRESSION,
    "erasable-regression-sharded": REGRESSION | {"shards"},
    "erasable-kernel": EVERY | CLASSES | GRID | {"kernel", "function", "gamma", "nu", "degree", "coef0"},
    # Some members describe code. Nothing follows from them here: these formats are not checked further.
    "erasable-general": EVERY | CLASSES | {"sampler", "rows", "order_key"},
    "erasable-core-set": EVERY | CLASSES | {"core_set", "learner", "one_shot", "reproducible", "layout"},
}
PAIR = {"selection", "head"}
RULE = {"rate", "moments", "mean_rarity", "balance", "class_shares"}
INDEPENDENT = RULE | GRID - {"threshold"} | {"intercept", "feature_map"}
KERNEL = {"kernel", "function", "gamma", "nu", "degree", "coef0"}
OF_SELECTION = {
    "leverage": SELECTION,
    "leverage-raw": SELECTION | {"raw_columns"},
    "independent": INDEPENDENT,
    "independent-raw": INDEPENDENT | {"raw_columns"},
    "independent-kernel": INDEPENDENT - {"intercept"} | KERNEL,
}
OF_HEAD = {
    "squared": CLASSES | {"class_weight"},
    "logistic": CLASSES | {"class_weight", "alpha_units"},
    "logistic-spread": CLASSES | {"class_weight", "alpha_units"},
    "regression": {"target_ranges"},
    "kernel": CLASSES,
    "named-learner": CLASSES | {"learner", "learner_parameters"},
    "named-learner-regression": {"target_ranges", "learner", "learner_parameters"},
}


def are_a_pair(selection: str, head: str) -> bool:
    """Whether a selection and a head go together in version 2."""
    if head.startswith("named-learner"):
        return selection != "independent-kernel"
    if head == "logistic-spread":
        return selection in ("leverage", "independent")
    return selection == ("independent-kernel" if head == "kernel" else "independent")


def members_of(meta: Meta) -> set[str]:
    """The members that there must be."""
    if meta["format"] != MODEL:
        need(meta["format"] in MEMBERS, "layout", "this is a part of a model; give the file that names it")
        return MEMBERS[meta["format"]]
    selection, head = meta.get("selection"), meta.get("head")
    texts = isinstance(selection, str) and isinstance(head, str) and selection in OF_SELECTION and head in OF_HEAD
    known = texts and are_a_pair(str(selection), str(head))
    need(known, "metadata", f"the selection {selection!r:.40} with the head {head!r:.40} is not known")
    members = EVERY | PAIR | OF_SELECTION[str(selection)] | OF_HEAD[str(head)]
    is_grid = not {"raw_columns", "kernel"} & members
    return members | ({"shards"} & set(meta) if is_grid else set())


def check_metadata(meta: Meta) -> None:
    """All members that there must be and no others, each as its rule says."""
    need(set(meta) == members_of(meta), "metadata", "there are other members than the format has")
    for name, rule in RULES.items():
        need(name not in meta or rule(meta[name], meta), "metadata", f"{name} is not as docs/format.md says")


class Letters:
    """What the metadata says about numbers of rows and columns, and types: letters as in docs/format.md."""

    def __init__(self, meta: Meta) -> None:
        self.kernel, self.regression = "kernel" in meta, "target_ranges" in meta
        self.p: int = meta["bits"]
        self.features: int = meta["n_features"]
        # The constant of an intercept, floor(2^p / sqrt 2), is the last column; c counts it.
        self.constant = [math.isqrt(2 ** (2 * self.p - 1))] if meta.get("intercept") else []
        self.c: int = self.features + len(self.constant)
        self.k = len(meta["target_ranges"] if self.regression else meta["classes"])
        self.problems = self.k if self.regression or self.k > 2 else 1  # rows of weights
        self.units = digits(meta["capacity_units"])
        self.grid_type = "I16" if not self.kernel and self.p <= 15 else "I32"  # v in the page
        self.narrow = "U8" if self.features < 256 else "U16" if self.features < 65_536 else "I32"  # u in the page


# ------------------------------------------------------------------------------------------------------ 4 The rows
# What belongs to each row: its grid integers, its label or targets, its weight, its id, and its subjects. They are
# read, checked, and written again: the tensors must be those that the page gives for these rows, and no others.
# *Proves* that how rows and names are laid out says nothing but what they are. *Not* that they are true.

Keys = list[Any]  # integers, texts or byte strings
Owners = list[tuple[Any, ...]]


class Rows(NamedTuple):
    """All rows in learning order, one entry of each list for each."""

    grid: list[array[int]]
    answers: list[array[int]]  # the position of the class; or the targets on their grid
    row_weights: list[int]  # in sixteenths
    ids: Keys
    subjects: Owners


def cut(numbers: array[int], n: int, width: int) -> list[array[int]]:
    """A tensor of n rows as a list of them."""
    return [numbers[i * width : (i + 1) * width] for i in range(n)]


def layout_of(meta: Meta, grid: list[array[int]]) -> tuple[bool, list[int]]:
    """Whether rows must be sparse, and how many bytes each then takes: sparse if 2 S < D."""
    a = Letters(meta)
    v, u = WIDTHS[a.grid_type], WIDTHS[a.narrow]
    dense = [a.c * v] * len(grid)
    sparse = [u + sum(1 for x in g[: a.features] if x) * (u + v) for g in grid]
    return (True, sparse) if 2 * sum(sparse) < sum(dense) and not a.kernel else (False, dense)


def read_grid(meta: Meta, tensors: Tensors, n: int) -> list[array[int]]:
    """The grid integers of each row, the constant of an intercept last."""
    a = Letters(meta)
    if "rows.lengths" not in tensors:
        return cut(take(tensors, "rows", a.grid_type, [n, a.c]), n, a.c)
    lengths = take(tensors, "rows.lengths", a.narrow, [n])
    need(min(lengths, default=0) >= 0, "rows", "the length of a sparse row is negative")
    columns = take(tensors, "rows.columns", a.narrow, [sum(lengths)])
    need(all(0 <= j < a.features for j in columns), "rows", "a column of a sparse row is none of the features")
    entries = zip(columns, take(tensors, "rows.values", a.grid_type, [sum(lengths)]), strict=True)
    grid = []
    for length in lengths:
        grid.append(array(LETTERS[a.grid_type], [0] * a.features + a.constant))
        for column, value in itertools.islice(entries, length):
            grid[-1][column] = value
    return grid


def write_grid(meta: Meta, grid: list[array[int]]) -> Tensors:
    """The tensors of grid integers: the constant as it must be, columns of sparse rows ascending and without zeros."""
    a, n = Letters(meta), len(grid)
    if not layout_of(meta, grid)[0]:
        return {"rows": tensor(a.grid_type, [n, a.c], (v for g in grid for v in [*g[: a.features], *a.constant]))}
    entries = [[(j, v) for j, v in enumerate(g[: a.features]) if v] for g in grid]
    m = sum(map(len, entries))
    return {
        "rows.lengths": tensor(a.narrow, [n], map(len, entries)),
        "rows.columns": tensor(a.narrow, [m], (j for line in entries for j, _ in line)),
        "rows.values": tensor(a.grid_type, [m], (v for line in entries for _, v in line)),
    }


def read_keys(tensors: Tensors, what: str, kind: str, count: int) -> Keys:
    """So many integers, texts or byte strings: ids, or subjects."""
    if kind == "int":
        return list(take(tensors, what, "I64", [count]))
    ends = [0, *take(tensors, f"{what}.ends", "I64", [count])]
    need(all(x <= y for x, y in itertools.pairwise(ends)), "names", f"{what}.ends do not ascend")
    blob = take(tensors, what, "U8", [ends[-1]]).tobytes()
    try:
        return [blob[x:y].decode() if kind == "str" else blob[x:y] for x, y in itertools.pairwise(ends)]
    except UnicodeDecodeError:
        raise WrongError("names", f"{what} are no UTF-8") from None


def write_keys(what: str, kind: str, keys: Keys) -> Tensors:
    """The tensors of ids, or of subjects."""
    if kind == "int":
        return {what: tensor("I64", [len(keys)], keys)}
    raw = [key.encode() if kind == "str" else key for key in keys]
    ends = list(itertools.accumulate(map(len, raw)))
    return {f"{what}.ends": tensor("I64", [len(ends)], ends), what: tensor("U8", [sum(map(len, raw))], b"".join(raw))}


def read_subjects(tensors: Tensors, kind: str | None, n: int) -> Owners:
    """The subjects of each row: none, one or several."""
    if kind is None:
        return [()] * n
    if "subjects.lengths" in tensors:
        lengths = take(tensors, "subjects.lengths", "I32", [n])
        need(min(lengths, default=0) >= 0, "names", "a row has fewer than no subjects")
        keys = iter(read_keys(tensors, "subjects", kind, sum(lengths)))
        return [tuple(itertools.islice(keys, length)) for length in lengths]
    named = read_keys(tensors, "subjects", kind, n)
    present = take(tensors, "subjects.present", "U8", [n]) if "subjects.present" in tensors else [1] * n
    return [(key,) if there else () for key, there in zip(named, present, strict=True)]


def write_subjects(kind: str, subjects: Owners) -> Tensors:
    """No tensor where nobody has any; lengths where a row has several; else present, where some have and some not."""
    counts = list(map(len, subjects))
    if not any(counts):
        return {}
    if max(counts) > 1:
        keys = write_keys("subjects", kind, list(itertools.chain(*subjects)))
        return {"subjects.lengths": tensor("I32", [len(counts)], counts), **keys}
    nobody = {"int": 0, "str": "", "bytes": b""}[kind]
    keys = write_keys("subjects", kind, [owners[0] if owners else nobody for owners in subjects])
    return keys if all(counts) else {"subjects.present": tensor("U8", [len(counts)], counts), **keys}


def read_names(meta: Meta, tensors: Tensors, n: int) -> tuple[Keys, Owners]:
    """Ids and subjects of all rows, written as the page says, in any format."""
    id_kind, subject_kind = meta["id_kind"], meta["subject_kind"]
    need((id_kind is None) == (n == 0), "names", "id_kind is null if and only if there are no rows")
    ids = read_keys(tensors, "ids", id_kind, n) if n else []
    need(len(set(ids)) == n, "names", "two rows have one id")
    subjects = read_subjects(tensors, subject_kind, n)
    need((subject_kind is None) == (not any(subjects)), "names", "subject_kind is null without subjects, and only then")
    several = [owners for owners in subjects if len(owners) > 1]
    need(all(map(ascend, several)), "names", "the subjects of a row do not ascend")
    need(not any(owners[0] in ("", b"") for owners in several), "names", "one of several subjects is an empty text")
    again = {**(write_keys("ids", id_kind, ids) if n else {}), **write_subjects(subject_kind, subjects)}
    stored = {name: t for name, t in tensors.items() if name in NAMES}
    need(again == stored, "names", "names are not written as docs/format.md says for such names")
    return ids, subjects


def check_labels(meta: Meta, labels: Iterable[int]) -> None:
    """Each label is a class; classes that the caller did not fix are those of the rows."""
    there, k = set(labels), len(meta["classes"])
    need(there <= set(range(k)), "rows", "a label is none of the classes")
    need(meta["classes_fixed"] or len(there) == k, "rows", "a class has no rows")


def check_numbers(meta: Meta, rows: Rows) -> None:
    """Every number in its range."""
    a, most = Letters(meta), 2 ** meta["bits"] - 1
    if a.regression:
        need(all(abs(t) <= most for line in rows.answers for t in line), "rows", "a target lies outside of its grid")
    else:
        check_labels(meta, (label for (label,) in rows.answers))
    longest = 2**25 if a.kernel else most  # a row, constant included: so the sums of the program stay exact
    on_grid = [] if "raw_columns" in meta else rows.grid
    need(all(dot(g, g) <= longest**2 for g in on_grid), "rows", "a row is longer than rows may be")
    need(all(1 <= s <= 256 for s in rows.row_weights), "rows", "the weight of a row is not from 1 to 256")


def write_rows(meta: Meta, rows: Rows) -> Tensors:
    """All tensors of rows, names excepted, that a file with these rows has."""
    a, n = Letters(meta), len(rows.ids)
    weights = {} if set(rows.row_weights) <= {16} else {"row_weights": tensor("I16", [n], rows.row_weights)}
    name, dtype, shape = ("targets", a.grid_type, [n, a.k]) if a.regression else ("labels", "I32", [n])
    answers = {name: tensor(dtype, shape, itertools.chain(*rows.answers))}
    if "raw_columns" in meta:
        return {**answers, "rows": tensor("I64", [n, meta["raw_columns"]], itertools.chain(*rows.grid)), **weights}
    return {**answers, **write_grid(meta, rows.grid), **weights}


NAN = 0x7FF8000000000000  # the one that is used, for a missing cell
INFINITY = 0x7FF0000000000000


def read_raw(meta: Meta, tensors: Tensors, n: int) -> list[array[int]]:
    """The bits of rows that are stored as they were read: float64 numbers, with one zero and one NaN."""
    rows = take(tensors, "rows", "I64", [n, meta["raw_columns"]])
    sizes = (bits & (2**63 - 1) for bits in rows)
    fit = all(size < INFINITY or (bits == NAN and meta["feature_map"]) for bits, size in zip(rows, sizes, strict=True))
    need(fit and -(2**63) not in rows, "rows", "a row holds numbers that no row can have")
    return cut(rows, n, meta["raw_columns"])


def read_rows(meta: Meta, tensors: Tensors) -> Rows:
    """The rows of a linear, regression or kernel model or of a shard, each number in its range, and nothing else."""
    a, name = Letters(meta), "targets" if "target_ranges" in meta else "labels"
    n = tensors[name].shape[0] if name in tensors else 0
    dtype, shape = (a.grid_type, [n, a.k]) if a.regression else ("I32", [n])
    answers = cut(take(tensors, name, dtype, shape), n, a.k if a.regression else 1)
    need("row_weights" not in tensors or not a.kernel, "rows", "rows of a kernel model have no weights")
    weights = list(take(tensors, "row_weights", "I16", [n])) if "row_weights" in tensors else [16] * n
    grid = read_raw(meta, tensors, n) if "raw_columns" in meta else read_grid(meta, tensors, n)
    rows = Rows(grid, answers, weights, *read_names(meta, tensors, n))
    check_numbers(meta, rows)
    stored = {name: t for name, t in tensors.items() if name in [*ROWS, "labels", "targets"]}
    need(write_rows(meta, rows) == stored, "rows", "rows are not written as docs/format.md says for such rows")
    return rows


# --------------------------------------------------------------------------------- 5 Shards: a state in several files
# More than 200 MiB of rows are divided by hashes of their ids. The head says of each row in which shard it stands.
# *Proves* that where a row stands follows from the rows that are there, and not from what was there before.

LARGEST_FILE = 209_715_200
LARGEST_SHARD = 16_777_216


def read_shard(path: Path, head: Meta) -> Rows:
    """The rows of one shard, whose name is the SHA-256 of its bytes."""
    raw = path.read_bytes()
    need(hashlib.sha256(raw).hexdigest() == path.name, "shards", "the name of a shard is not the SHA-256 of its bytes")
    meta, tensors = read_container(raw)
    members = {"format", "version", "checksum", "id_kind", "subject_kind"}
    members |= {"n_features"} if "rows.lengths" in tensors else set()
    need(meta["format"] == "erasable-shard" and set(meta) == members, "shards", "a shard is of another format")
    for name, others in (("n_features", ()), ("id_kind", ()), ("subject_kind", (None,))):
        need(meta.get(name, head[name]) in (head[name], *others), "shards", f"a shard has another {name}")
    # A shard need not have rows of every class: classes_fixed is true here so that none is asked for.
    rows = read_rows({**head, "subject_kind": meta["subject_kind"], "classes_fixed": True}, tensors)
    need(rows.ids, "shards", "a shard has no rows")
    return rows


def shard_hash(key: Any) -> int:
    """The hash that sorts a row into the tree."""
    text = b"i%d" % key if isinstance(key, int) else b"s" + key.encode() if isinstance(key, str) else b"b" + key
    return int.from_bytes(hashlib.sha256(text).digest(), "big")


def divided(rows: list[int], hashes: list[int], sizes: list[int], bit: int = 255) -> list[list[int]]:
    """Which rows stand in which shard: a node that is too large is divided by the next bit of the hash."""
    if len(rows) < 2 or sum(sizes[i] for i in rows) <= LARGEST_SHARD:
        return [rows] if rows else []
    halves = ([i for i in rows if hashes[i] >> bit & 1 == half] for half in (0, 1))
    return [node for half in halves for node in divided(half, hashes, sizes, bit - 1)]


def joined(path: Path, head: Meta, tensors: Tensors) -> tuple[Meta, Tensors]:
    """Head and shards as the one file that they stand for, whose SHA-256 is the state digest."""
    parts = [read_shard(path.with_name(f".{path.name}.parts") / name, head) for name in head["shards"]]
    order = take(tensors, "order", "I32", [sum(len(part.ids) for part in parts)])
    need(
        Counter(order) == {k: len(part.ids) for k, part in enumerate(parts)}, "shards", "order does not fit the shards"
    )
    places: list[list[int]] = [[] for _ in parts]
    for i, k in enumerate(order):
        places[k].append(i)
    turns = [zip(*part, strict=True) for part in parts]  # the rows of a shard are in learning order
    rows = Rows(*map(list, zip(*(next(turns[k]) for k in order), strict=True)))
    sizes = layout_of(head, rows.grid)[1]
    need(sum(sizes) > LARGEST_FILE, "shards", "so few rows belong into one file")
    tree = divided(list(range(len(order))), [shard_hash(key) for key in rows.ids], sizes)
    need(places == tree, "shards", "rows stand in other shards than their ids say")
    meta = {name: value for name, value in head.items() if name != "shards"}
    meta["format"] = head["format"].removesuffix("-sharded")
    names = {**write_keys("ids", meta["id_kind"], rows.ids), **write_subjects(meta["subject_kind"], rows.subjects)}
    derived = {name: t for name, t in tensors.items() if name != "order"}
    return meta, {**derived, **write_rows(meta, rows), **names}


# ------------------------------------------------------------------------------------------------ 6 Exact arithmetic
# Whether b'H^-1 b exceeds a limit, and to which float32 an entry of H^-1 b rounds, is decided without rounding. H is
# symmetric with integer entries, its eigenvalues are at least `floor`. For any vector z whatsoever let r = b - Hz. Then
#
#     b'H^-1 b = b'z + z'r + r'H^-1 r,   0 <= r'H^-1 r <= |r|^2 / floor,       |(H^-1 b)_j - z_j| <= |r| / floor.
#
# So z may come from floats, worth nothing by themselves. It is taken as integers over a power of two, r is computed
# without rounding, and both ends are fractions. While they do not decide, z is corrected by (H^-1 in floats) r. What
# no correction decides, a tie, is solved in integers.

Matrix = list[list[int]]
Floats = list[list[float]]
CORRECTIONS = 14


def dot(a: Iterable[Any], b: Iterable[Any]) -> Any:
    """The sum of products."""
    return sum(map(operator.mul, a, b))


def identity(d: int, times: int) -> Matrix:
    """A multiple of the identity."""
    return [[times * (i == j) for j in range(d)] for i in range(d)]


def add_outer(H: Matrix, g: Sequence[int], times: int = 1) -> None:
    """H becomes H + times g g'."""
    there = [(j, v) for j, v in enumerate(g) if v]
    for i, v in there:
        line, u = H[i], times * v
        for j, x in there:
            line[j] += u * x


def float_inverse(H: Sequence[Sequence[float]]) -> Floats:
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
    spares = ((v, max(0, v.bit_length() - 60)) for v in values)
    return [math.ldexp(float(v >> spare), spare - shift) for v, spare in spares]


def approached(H: Matrix, P: Floats, b: Sequence[int]) -> Iterator[tuple[list[int], list[int], int]]:
    """Better and better solutions of Hz = b: z and the residual r, exact, both in units of 2^-shift.

    P is a guess of H^-1. Where it leads nowhere, a fresh one is tried.
    """
    for fresh in (False, True):
        guess = float_inverse(H) if fresh else P
        z, r, shift = [0] * len(b), list(b), 0
        for finer in [90] + [30] * (CORRECTIONS - 1):
            error = to_floats(r, shift)
            shift += finer
            step = to_integers((dot(line, error) for line in guess), shift)
            z = [(x << finer) + y for x, y in zip(z, step, strict=True)]
            r = [(x << shift) - dot(line, z) for x, line in zip(b, H, strict=True)]
            yield z, r, shift


def solved(H: Matrix, b: Sequence[int]) -> list[Fraction]:
    """H^-1 b in integers: Gauss and Jordan with the divisions of Bareiss, which leave no remainder."""
    M, last = [[*line, x] for line, x in zip(H, b, strict=True)], 1
    for k in range(len(M)):
        top = M[k]  # its k-th entry is a leading minor of H, which is not zero, since H is positive definite
        for i in (i for i in range(len(M)) if i != k):
            factor = M[i][k]
            M[i] = [(top[k] * x - factor * y) // last for x, y in zip(M[i], top, strict=True)]
        last = top[k]
    return [Fraction(line[-1], last) for line in M]


def compared(H: Matrix, P: Floats, b: Sequence[int], limit: Fraction, floor: Fraction) -> int:
    """Whether b'H^-1 b is below (-1), at (0) or above (1) the limit."""
    for z, r, shift in approached(H, P, b):
        low = Fraction((dot(b, z) << shift) + dot(z, r), 1 << 2 * shift)
        if low > limit:
            return 1
        if low + Fraction(dot(r, r), 1 << 2 * shift) / floor < limit:
            return -1
    value = dot(b, solved(H, b))
    return int(value > limit) - int(value < limit)


def rounded_solution(H: Matrix, P: Floats, b: Sequence[int], floor: Fraction) -> list[int]:
    """The bits of each entry of H^-1 b, rounded to the nearest float32."""
    if not any(b):
        return [0] * len(b)
    for z, r, shift in approached(H, P, b):
        radius = Fraction(math.isqrt(dot(r, r)) + 1, 1 << shift) / floor
        low, high = ([float32_bits(Fraction(x, 1 << shift) + side * radius) for x in z] for side in (-1, 1))
        if low == high:
            return low
    return [float32_bits(x) for x in solved(H, b)]  # an entry lies halfway between two float32 numbers


def float32_bits(value: Fraction) -> int:
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


def float32(bits: int) -> Fraction:
    """The number that a finite float32 holds, given its bits."""
    return Fraction(struct.unpack("<f", struct.pack("<I", bits))[0])


# ------------------------------------------------------- 7 Linear models and regressions: decisions, sums and weights
# H = L I + sum of g g' over the rows before, L being capacity_units: its eigenvalues are at least L. A row is kept if
# its id is drawn (a sample), or if its leverage g'H^-1 g, how much is new in it, exceeds the threshold tau.
# *Proves* that each stored row would be stored if these alone had been offered. *Not* that there were no others.

Tick = Callable[[int, int], None]


def siphash(data: bytes, key: bytes) -> int:
    """SipHash-2-4 (Aumasson and Bernstein), 64 bits."""
    mask = 2**64 - 1
    k0, k1 = struct.unpack("<2Q", key)
    a, b, c, d = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D, k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def rotated(x: int, by: int) -> int:
        return (x << by | x >> (64 - by)) & mask

    padded = data + b"\0" * (7 - len(data) % 8) + bytes([len(data) & 0xFF])
    words = [word for (word,) in struct.iter_unpack("<Q", padded)]
    for word, rounds in [*((word, 2) for word in words), (None, 4)]:  # two rounds for each word, four at the end
        c, d = (c ^ 0xFF, d) if word is None else (c, d ^ word)
        for _ in range(rounds):
            a, c = (a + b) & mask, (c + d) & mask
            b, d = rotated(b, 13) ^ a, rotated(d, 16) ^ c
            a = rotated(a, 32)
            c, a = (c + b) & mask, (a + d) & mask
            b, d = rotated(b, 17) ^ c, rotated(d, 21) ^ a
            c = rotated(c, 32)
        a ^= word or 0
    return int(a ^ b ^ c ^ d)


def hash_of(key: Any, under: str) -> int:
    """64 bits of a hash of an id, under a key that is written as decimal digits."""
    salt = hashlib.blake2b(under.encode(), digest_size=16).digest()
    if isinstance(key, int):
        return siphash(struct.pack("<q", key), salt)
    data = key.encode() if isinstance(key, str) else key
    return int.from_bytes(hashlib.blake2b(data, digest_size=8, key=salt).digest(), "little")


def is_drawn(meta: Meta, key: Any) -> bool:
    """Whether a row is kept by its id alone: 64 bits of a keyed hash of it, as a fraction, are below sample_rate."""
    return sample_rate(meta) > 0 and hash_of(key, meta["sample_key"]) < sample_rate(meta) * 2**64


def check_decisions(meta: Meta, rows: Rows, tick: Tick) -> Matrix:
    """Learn the rows from nothing in their order: each must be kept at its turn. Gives H of all rows."""
    a, n = Letters(meta), len(rows.ids)
    tau = None if meta["threshold"] == "inf" else hexadecimal(meta["threshold"])
    H, P = identity(a.c, a.units), [[x / a.units**2 for x in line] for line in identity(a.c, a.units)]
    for i, (g, key) in enumerate(zip(rows.grid, rows.ids, strict=True), 1):
        kept = is_drawn(meta, key) or (tau is not None and compared(H, P, g, tau, Fraction(a.units)) > 0)
        need(kept, "decisions", f"row {i} of {n} would not be kept: its leverage is not above the threshold")
        add_outer(H, g)
        if tau is not None:
            follow(P, g)
        tick(i, n)
    return H


# Independent selection: whether a row is kept depends on that row and on public numbers alone. It is if
#
#     hash(id) < 2^64 min(1, slope rarity(x)) tilt(y),
#
# x being its features. Slope and tilts are floats by definition: single operations in the order of docs/exactness.md.
# Rarity is 1; or the sum of x_j^2 / 2^e_j; or x'Wx, at least zero. W is the inverse of public second moments, in units
# of 2^-40 and with something on the diagonal, rounded to float32.

MOMENT_BITS = 40


def check_independent(meta: Meta, rows: Rows, tensors: Tensors, tick: Tick) -> Matrix:
    """Each row passes its own test, and they stand in the order of their hashes. Gives H of all rows."""
    a, n = Letters(meta), len(rows.ids)
    hashes = [hash_of(key, meta["order_key"]) for key in rows.ids]
    turns = [(h, key.encode() if isinstance(key, str) else key) for h, key in zip(hashes, rows.ids, strict=True)]
    need(ascend(turns), "decisions", "the rows are not in the order of the hashes of their ids")
    slope, tilts = slope_and_tilts(meta)
    rarity = rarity_of(meta, tensors)
    H = identity(0 if a.kernel else a.c, a.units)
    for i, (g, answer, h) in enumerate(zip(rows.grid, rows.answers, hashes, strict=True), 1):
        if hexadecimal(meta["rate"]) < 1:  # else every row is kept
            tilt = tilts[answer[0]] if tilts else Fraction(1)
            kept = h < 2**64 * min(Fraction(1), slope * rarity(g[: a.features])) * tilt
            need(kept, "decisions", f"row {i} of {n} would not be kept: its hash is not below its chance")
        if not a.kernel:
            add_outer(H, g)
        tick(i, n)
    return H


def slope_and_tilts(meta: Meta) -> tuple[Fraction, list[Fraction]]:
    """The factor of rarity, and that of each class; no factors where there are no shares."""
    rate, mean, balance = (float(hexadecimal(meta[name])) for name in ("rate", "mean_rarity", "balance"))
    shares = [float(hexadecimal(share)) for share in meta["class_shares"] or []]
    if not shares:
        return Fraction(rate / mean), []
    whole = [1.0 / (len(shares) * share) for share in shares]
    tilts = [1.0 if balance == 0 else x if balance == 1 else math.sqrt(x) for x in whole]
    total = 0.0  # not sum(), which rounds in another way since Python 3.12
    for share, tilt in zip(shares, tilts, strict=True):
        total += share * tilt
    c = max(tilts) / total
    return Fraction(c * rate / mean), [Fraction(tilt / max(tilts)) for tilt in tilts]


def rarity_of(meta: Meta, tensors: Tensors) -> Callable[[Sequence[int]], Fraction]:
    """How unusual the features of a row are, by what is public."""
    unit, exponents, d = Fraction(1, 4 ** meta["bits"]), meta["moments"], meta["n_features"]
    if exponents is None:
        return lambda g: Fraction(1)
    if exponents != "matrix":
        low = max(0, *exponents)
        return lambda g: unit * Fraction(sum(v * v << (low - e) for v, e in zip(g, exponents, strict=True)), 1 << low)
    W = inverse_moments(cut(take(tensors, "moments", "F32", [d, d]), d, d))
    most = max(x.denominator for line in W for x in line)  # powers of two
    whole = [[int(x * most) for x in line] for line in W]

    def by_matrix(g: Sequence[int]) -> Fraction:
        there = [(j, v) for j, v in enumerate(g) if v]
        return unit * max(Fraction(0), Fraction(sum(whole[j][k] * v * x for j, v in there for k, x in there), most))

    return by_matrix


def inverse_moments(bits: list[array[int]]) -> list[list[Fraction]]:
    """W, from the bits of the matrix of second moments, which must be one: else the file fails."""
    d, said = len(bits), "moments are no second moments of rows in the unit ball"
    need(all(b >> 23 & 0xFF <= 127 for line in bits for b in line), "moments", said)  # below 2 in size, and numbers
    S = [[float32(b) for b in line] for line in bits]
    trace = sum((S[i][i] for i in range(d)), Fraction(0))
    fit = all(abs(x) <= 1 for line in S for x in line) and [list(column) for column in zip(*S, strict=True)] == S
    need(fit and trace * 2**20 >= d, "moments", said)
    more = int(trace * 2 ** (MOMENT_BITS - 10) / d)
    H = [[round(x * 2**MOMENT_BITS) + more * (i == j) for j, x in enumerate(line)] for i, line in enumerate(S)]
    floor = proved_floor(H, more // 2)
    need(floor, "moments", said)
    P = float_inverse(H)
    return [[float32(b) for b in rounded_solution(H, P, side, floor)] for side in identity(d, 1 << MOMENT_BITS)]


def proved_floor(H: Matrix, least: int) -> Fraction:
    """Half of ``least``, if no eigenvalue of H is smaller; zero if H - least I has no factor L in floats.

    L is taken as integers over 2^shift. If |H - least I - LL'| is at most least / 2, eigenvalues of H are at least
    that, since those of LL' are not negative.
    """
    L: Floats = []
    M = [[x - least * (i == j) for j, x in enumerate(line)] for i, line in enumerate(H)]
    for i, line in enumerate(M):
        row: list[float] = []
        for j in range(i):
            row.append((line[j] - dot(row, L[j])) / L[j][j])
        pivot = line[i] - dot(row, row)
        if not pivot > 0:
            return Fraction(0)
        L.append([*row, math.sqrt(pivot)])
    shift = 40
    K = [to_integers(row, shift) for row in L]
    left = [(M[i][j] << 2 * shift) - dot(K[i], K[j]) for i in range(len(M)) for j in range(i + 1)]
    return Fraction(least, 2) if 2 * (math.isqrt(2 * dot(left, left)) + 1) <= least << 2 * shift else Fraction(0)


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


# Sums: gram is the sum of g g', class_sums that of g for each class, target_sums that of t g for each target. Where
# rows have weights s and the loss is squared, there are also the same sums with every row s times.
# *Proves* that no row that is gone is left in a sum, not even in its last digit.


def sums_there(meta: Meta, tensors: Tensors) -> list[str]:
    """The names of all sums that the file must have."""
    if "learner" in meta:
        return []
    weighted = "row_weights" in tensors and loss(meta) == "squared"
    return (TARGET_SUMS if "target_ranges" in meta else SUMS)[: 4 if weighted else 2]


def check_shapes(meta: Meta, tensors: Tensors) -> None:
    """Sums and weights have their types and shapes."""
    a = Letters(meta)
    for name in [name for name in tensors if name in {*SUMS, *TARGET_SUMS}]:
        take(tensors, name, "I64", [a.c * (a.c + 1) // 2] if name.endswith("gram") else [a.k, a.c])
    n = tensors["labels"].shape[0] if "labels" in tensors else 0
    need("weights" not in tensors or "learner" not in meta, "rows", "a model with a learner has no weights")
    if "learner" not in meta:
        take(tensors, "weights", "F32", [a.problems, n if a.kernel else a.c])
    need(("moments" in tensors) == (meta.get("moments") == "matrix"), "rows", "moments are missing, or must not be")
    if "moments" in tensors:
        take(tensors, "moments", "F32", [a.features, a.features])


def check_sums(meta: Meta, rows: Rows, tensors: Tensors, H: Matrix, names: list[str], times: Sequence[int]) -> Matrix:
    """Gram matrix and sums by class or target, each row so many times; the latter are returned.

    H is the Gram matrix with a multiple of the identity added, which is taken off again.
    """
    a = Letters(meta)
    diagonal = a.units * (16 if names[0] == "weighted_gram" else 1)
    # No sum can exceed 2^53, up to which the program that wrote the file counts without rounding.
    fit = diagonal + sum(times) * (2**a.p - 1) ** 2 <= 2**53
    need(fit, "sums", "there are more rows, or heavier ones, than the sums can hold")
    gram = [x - diagonal * (i == j) for i, line in enumerate(H) for j, x in enumerate(line[: i + 1])]
    need(take(tensors, names[0], "I64", [len(gram)]).tolist() == gram, "sums", f"{names[0]} is not that of the rows")
    sums = [[0] * a.c for _ in range(a.k)]
    for g, answer, s in zip(rows.grid, rows.answers, times, strict=True):
        for k, factor in enumerate(answer) if a.regression else [(answer[0], 1)]:
            sums[k] = [x + s * factor * v for x, v in zip(sums[k], g, strict=True)]
    stored = take(tensors, names[1], "I64", [a.k, a.c]).tolist()
    need(stored == list(itertools.chain(*sums)), "sums", f"{names[1]} are not those of the rows")
    return sums


# Weights of the squared loss: 2^p H^-1 (sum of y g), y = 1 for the rows of a class and -1 for all others; of the last
# class alone where there are two or one. Regressions: H^-1 (sum of t g). Each entry is rounded to float32.
# *Proves* that weights are those of the stored rows, however they were computed.


def right_sides(meta: Meta, sums: Matrix) -> Matrix:
    """The right-hand side for each row of weights, from the sums by class or target."""
    a = Letters(meta)
    if a.regression:
        return sums
    total = [sum(column) for column in zip(*sums, strict=True)]
    against = [[(2 * x - t) << a.p for x, t in zip(line, total, strict=True)] for line in sums]
    return against[-a.problems :] or [[0] * a.c]


def check_weights(tensors: Tensors, found: Matrix) -> str:
    """Every bit."""
    stored = take(tensors, "weights", "F32", [len(found), len(found[0])]).tolist()
    need(stored == list(itertools.chain(*found)), "weights", "they are not what the rows give, to the last bit")
    return f"{len(stored)} weights are right to the last bit"


def check_linear_model(state: State, tick: Tick) -> Iterator[tuple[str, str]]:
    """Decisions, sums and weights of a linear model or a regression; says what holds as it goes."""
    _, meta, tensors, rows, _ = state
    names, ones, units = sums_there(meta, tensors), [1] * len(rows.ids), Letters(meta).units
    fit = set(tensors) & {*SUMS, *TARGET_SUMS} == set(names)
    need(fit, "rows", "sums are missing, or there are some that must not be there")
    H = check_independent(meta, rows, tensors, tick) if is_independent(meta) else check_decisions(meta, rows, tick)
    yield "decisions", f"each of {len(rows.ids)} rows is kept, in the order in which they stand"
    if "learner" in meta:
        raise NeedsLibraryError("decisions")
    sums = check_sums(meta, rows, tensors, H, names[:2], ones)
    if names[2:]:
        units *= 16
        H = identity(len(H), units)
        for g, s in zip(rows.grid, rows.row_weights, strict=True):
            add_outer(H, g, s)
        sums = check_sums(meta, rows, tensors, H, names[2:], rows.row_weights)
    yield "sums", f"{', '.join(names)} are those of the rows"
    if loss(meta) == "logistic":
        found = logistic_weights(meta, rows, take(tensors, "weights", "F32", [Letters(meta).problems, len(H)]))
    else:
        P = float_inverse(H)
        found = [rounded_solution(H, P, b, Fraction(units)) for b in right_sides(meta, sums)]
    yield "weights", check_weights(tensors, found)


# ---------------------------------------------------------------------------------------------- 8 Logistic weights
# F(w) = alpha/2 |w|^2 + sum of c_i log(1 + exp(-a_i.w)), a_i = y_i g_i / 2^p, |a_i| < 1, c_i the weight of the row
# times that of its class. It has one minimiser w*, and for every w
#
#     |w* - w| <= |grad F(w)| / alpha,     grad F(w) = alpha w - sum of c_i p_i a_i,     p_i = 1 / (1 + exp(a_i.w)).
#
# w is taken as integers over 2^K. Margins a_i.w are then exact, each p_i is known within 2^-K, sums are exact again.
# As in part 6, w may come from anywhere: it starts at the stored weights, and Newton's method in floats moves it.
#
# The head logistic-spread regularises column j by alpha 4^(e_j - p), by the spread of the column. In v_j = 2^(e_j - p)
# w_j it is the same problem: rows are b_ij = a_ij 2^(p - e_j), integers over 2^p again, but longer, R at most.

C_BITS = 43  # c_i in units of 2^-43: weights of classes are float32 from 2^-16, 24 bits long, those of rows sixteenths


def class_weights(meta: Meta, rows: Rows) -> list[Fraction]:
    """How much each class counts."""
    given, k = meta["class_weight"], len(meta["classes"])
    if given is None:
        return [Fraction(1)] * k
    if given != "balanced":
        labels = class_values([label for label, _ in given["weights"]], given["kind"])
        weights = dict(zip(labels, (hexadecimal(weight) for _, weight in given["weights"]), strict=True))
        return [weights.get(value, Fraction(1)) for value in class_values(meta["classes"], meta["class_kind"])]
    masses: Counter[int] = Counter()
    for (label,), s in zip(rows.answers, rows.row_weights, strict=True):
        masses[label] += s
    shares = [Fraction(masses.total(), len(masses) * masses[c]) if c in masses else Fraction(1) for c in range(k)]
    return [min(max(float32(float32_bits(share)), Fraction(1, 2**16)), Fraction(2**16)) for share in shares]


def logistic_weights(meta: Meta, rows: Rows, stored: Sequence[int]) -> Matrix:
    """The bits of each class against the rest where there are more than two classes, else of the last one."""
    a = Letters(meta)
    if not rows.ids:
        return [[0] * a.c] * a.problems
    of_class, labels = class_weights(meta, rows), [label for (label,) in rows.answers]
    shifts = [a.p - e for e in spread_exponents(rows)] if meta.get("head") == "logistic-spread" else [0] * a.c
    counts = [int(of_class[label] * s * 2 ** (C_BITS - 4)) for label, s in zip(labels, rows.row_weights, strict=True)]
    found = []
    for i, positive in enumerate(range(a.k)[-a.problems :]):
        signed = [
            [(v if label == positive else -v) << shift for v, shift in zip(g, shifts, strict=True)]
            for g, label in zip(rows.grid, labels, strict=True)
        ]
        start = [struct.unpack("<f", struct.pack("<I", bits))[0] for bits in stored[i * a.c : (i + 1) * a.c]]
        found.append(Logistic(signed, counts, meta, shifts).published_bits(start))
    return found


def spread_exponents(rows: Rows) -> list[int]:
    """For each column the largest e >= 0 with 4^e n^2 <= n (sum of s g^2) - (sum of s g)^2; 0 where there is none.

    s is the weight of a row in sixteenths, n the sum of these.
    """
    n, found = sum(rows.row_weights), []
    for column in zip(*rows.grid, strict=True):
        spread, e = n * dot(rows.row_weights, [v * v for v in column]) - dot(rows.row_weights, column) ** 2, 0
        while 4 ** (e + 1) * n * n <= spread:
            e += 1
        found.append(e)
    return found


class Logistic:
    """One class against the rest: rows with the label multiplied in, and their weights c_i.

    Column j is shifted to the left by so many bits: weights of the rows as they are are those found, shifted as far.
    """

    def __init__(self, signed: Matrix, counts: list[int], meta: Meta, shifts: list[int]) -> None:
        self.signed, self.counts, self.p, self.d = signed, counts, meta["bits"], len(signed[0])
        self.shifts = shifts
        self.reach = (math.isqrt(max(dot(a, a) for a in signed)) >> self.p) + 1  # R
        self.alpha = Fraction(digits(meta["alpha_units"]), 4 ** meta["bits"])

    def published_bits(self, start: list[float]) -> list[int]:
        """Both roundings of :meth:`published` keep order, so a weight is known once both ends have the same bits."""
        for w in ([math.ldexp(x, -s) for x, s in zip(start, self.shifts, strict=True)], [0.0] * self.d):
            K = 128
            W = to_integers(w, K)
            for _ in range(100):
                gradient, error = self.gradient(W, K)
                length = math.isqrt(dot(gradient, gradient)) + 1
                radius = Fraction(length + error, 1 << (2 * K + C_BITS)) / self.alpha
                ends = [[Fraction(x, 1 << K) + side * radius for x in W] for side in (-1, 1)]
                low, high = ([self.published(x * 2**s) for x, s in zip(end, self.shifts, strict=True)] for end in ends)
                if low == high:
                    return low
                # What is left may come from rounding, of the gradient or of W: then more bits, else another step.
                if length >> 20 <= error + self.d * math.ceil(self.alpha * 2 ** (K + C_BITS)):
                    W, K = [x << K for x in W], 2 * K
                    need(K <= 4096, "weights", "4096 bits do not decide a weight")
                else:
                    step = self.newton_step(to_floats(W, K), to_floats(gradient, 2 * K + C_BITS))
                    W = [x + s for x, s in zip(W, to_integers(step, K), strict=True)]
        raise WrongError("weights", "no way was found from the stored weights, nor from zero, to the minimiser")

    def published(self, value: Fraction) -> int:
        """float32(rint(2^q value) / 2^q), q = 24 + max(0, ceil(log2 alpha))."""
        q = 24 + max(0, (math.ceil(self.alpha) - 1).bit_length())
        return float32_bits(Fraction(round(value * 2**q), 2**q))

    def gradient(self, W: list[int], K: int) -> tuple[list[int], int]:
        """The gradient at W / 2^K in units of 2^-(2K + 43), and how long its error may be."""
        sums = [0] * self.d
        for a, c in zip(self.signed, self.counts, strict=True):
            factor = c * sigmoid(dot(a, W), K + self.p, K)
            sums = [x + factor * v for x, v in zip(sums, a, strict=True)]
        up = 1 << (K + C_BITS)
        exact = [self.alpha * x * up - Fraction(s << K, 1 << self.p) for x, s in zip(W, sums, strict=True)]
        # Each sigmoid is wrong by 2^-K at most, and |a_i| < R; rounding the line below adds less than one to each.
        return [math.floor(x) for x in exact], (sum(self.counts) * self.reach << K) + self.d

    def newton_step(self, w: list[float], gradient: list[float]) -> list[float]:
        """A step towards the minimiser, in floats, shortened where it is long. Nothing is promised."""
        unit, alpha = 2.0**-self.p, float(self.alpha)
        H = [[alpha * (i == j) for j in range(self.d)] for i in range(self.d)]
        for a, c in zip(self.signed, self.counts, strict=True):
            there = [(j, v * unit) for j, v in enumerate(a) if v]
            p = 1 / (1 + math.exp(min(700.0, max(-700.0, sum(w[j] * v for j, v in there)))))
            for i, v in there:
                line, factor = H[i], math.ldexp(c, -C_BITS) * p * (1 - p) * v
                for j, x in there:
                    line[j] += factor * x
        step = [-dot(line, gradient) for line in float_inverse(H)]
        reach = max(abs(dot(a, step)) * unit for a in self.signed)
        shorter = math.log1p(reach) / reach if 1e-3 < reach < math.inf else 1.0
        return [shorter * s for s in step]


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


# ---------------------------------------------------------------------------------------------- 9 Kernel models
# K has the kernel values of pairs of rows, each rounded to a multiple of 2^-30, as integers. H = K + mu I, mu being
# capacity_units. A row is kept if its pivot in H, h - k'H^-1 k, exceeds mu (1 + tau). Weights are 2^30 H^-1 y, y = 1 or
# -1. Rounding moves eigenvalues of K by n/2 at most, and n is at most mu: those of H are at least mu/2.

KERNEL_BITS = 30
LARGEST_KERNEL = 2**50


def kernel_value(x: Sequence[int], z: Sequence[int], meta: Meta) -> int:
    """The kernel of two rows in units of 2^-30, the nearest integer, halves to even."""
    name, unit, gamma = meta["kernel"], Fraction(1, 4 ** meta["bits"]), hexadecimal(meta["gamma"])
    if name in ("linear", "poly"):
        inner: Fraction = dot(x, z) * unit
        power = (gamma * inner + hexadecimal(meta["coef0"])) ** int(meta["degree"]) if name == "poly" else inner
        return int(round(Fraction(power) * 2**KERNEL_BITS))  # noqa: RUF046
    square: Fraction = sum((a - b) ** 2 for a, b in zip(x, z, strict=True)) * unit
    order, precision = 0 if name == "rbf" else int(hexadecimal(meta["nu"]) * 2), 40
    while square:  # exponentials of such numbers are transcendental, never halfway: so this ends
        value, error = kernel_of_distance(order, gamma, square, Context(prec=precision))
        low, high = (int(round((value + side * error) * 2**KERNEL_BITS)) for side in (-1, 1))  # noqa: RUF046
        if low == high:
            return low
        precision *= 2
    return 1 << KERNEL_BITS


def kernel_of_distance(order: int, gamma: Fraction, square: Fraction, context: Context) -> tuple[Fraction, Fraction]:
    """A kernel at a squared distance, and how wrong it may be: order 0 is rbf, else it is Matern's with 2 nu.

    Each operation is wrong by a share of 10^(1 - prec); the argument t of the exponential comes from two of them, so
    exp(-t) is wrong by (2t + 1) of these and what is multiplied with it by less than six more. That is less than 100 of
    them, since (2t + 7) (1 + t + t^2) e^-t is.
    """
    argument = gamma * square if order == 0 else gamma * gamma * order * square
    t = context.divide(Decimal(argument.numerator), Decimal(argument.denominator))
    t = t if order == 0 else context.sqrt(t)
    factor = Decimal(1)
    if order >= 3:
        factor = context.add(factor, t)
    if order == 5:
        factor = context.add(factor, context.divide(context.multiply(t, t), Decimal(3)))
    value = context.multiply(factor, context.exp(-t))
    # A number far below all errors here would be a long fraction: zero stands in for it.
    return Fraction(value) if value.adjusted() > -1000 else Fraction(0), Fraction(100, 10 ** (context.prec - 1))


def check_kernel_model(state: State, tick: Tick) -> Iterator[tuple[str, str]]:
    """Decisions and weights of a kernel model, which has no sums; says what holds as it goes."""
    _, meta, tensors, rows, _ = state
    a, n = Letters(meta), len(rows.ids)
    tau = None if is_independent(meta) else hexadecimal(meta["threshold"])
    if tau is None:
        check_independent(meta, rows, tensors, tick)
    mu, floor = a.units, Fraction(a.units, 2)
    need(n <= mu, "decisions", "there are more rows than the capacity allows")
    H: Matrix = []
    P: Floats = []
    for i, g in enumerate(rows.grid):
        k, own = [kernel_value(other, g, meta) for other in rows.grid[:i]], kernel_value(g, g, meta)
        need(max(map(abs, [*k, own])) <= LARGEST_KERNEL, "decisions", "kernel values are larger than they may be")
        # That is, own + mu - k'H^-1 k > mu + mu tau.
        kept = tau is None or compared(H, P, k, own - mu * tau, floor) < 0
        need(kept, "decisions", f"row {i + 1} of {n} would not be kept: its pivot is not above the threshold")
        H = [[*line, x] for line, x in zip(H, k, strict=True)] + [[*k, own + mu]]
        P = bordered(P, k, own + mu)
        tick(i + 1, n)
    yield "decisions", f"each of {n} rows is kept, in the order in which they stand"
    positive = range(max(a.k, 1))[-a.problems :]
    sides = [[(1 if label == c else -1) << KERNEL_BITS for (label,) in rows.answers] for c in positive]
    yield "weights", check_weights(tensors, [rounded_solution(H, P, b, floor) for b in sides])


def bordered(P: Floats, k: Sequence[int], own: int) -> Floats:
    """From a guess of H^-1 one of the inverse of H with one more row k and diagonal entry: in floats."""
    v = [dot(line, k) for line in P]
    pivot = own - dot(k, v)
    pivot = pivot if abs(pivot) > 1e-300 else 1e-300
    grown = [[p + x * y / pivot for p, y in zip(line, v, strict=True)] for line, x in zip(P, v, strict=True)]
    return [[*line, -x / pivot] for line, x in zip(grown, v, strict=True)] + [[*(-x / pivot for x in v), 1 / pivot]]


# ----------------------------------------------------------------------------------------------- 10 How long it takes
# What is done to one entry of a matrix is timed here and now; the rest is counting entries.


def seconds_of(work: Callable[[], Any]) -> float:
    """Seconds of this processor that some work takes: the least of several times."""
    times: list[float] = []
    begin = time.process_time()
    while not times or (len(times) < 20 and time.process_time() < begin + 0.02):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def estimate(state: State) -> float:
    """Seconds that the check will take."""
    _, meta, tensors, rows, _ = state
    a, n, some = Letters(meta), len(rows.ids), rows.grid[:12]
    if n == 0:
        return 0.0
    d = min(n, 40) if a.kernel else min(a.c, 60)
    H, g = identity(d, 2**30), [(37 * j) % 101 + 1 for j in range(d)]
    P = float_inverse(H)
    guess, proof = seconds_of(lambda: follow(P, g)) / d / d, seconds_of(lambda: next(approached(H, P, g))) / d / d
    add = seconds_of(lambda: add_outer(H, g)) / d / d
    if a.kernel:
        a_pair = seconds_of(lambda: kernel_value(some[-1], some[0], meta))
        return n * n / 2 * a_pair + n * n * n / 3 * (guess + proof) + 6 * a.problems * n * n * proof
    filled = sum(1 for row in some for v in row if v) / len(some)
    seconds = n * filled * filled * add * len(sums_there(meta, tensors)) / 2
    if not is_independent(meta):
        seconds += 0.0 if meta["threshold"] == "inf" else n * a.c * a.c * (guess + proof)
    elif meta["moments"] == "matrix":
        seconds += a.c * a.c * a.c * (3 * guess + 3 * proof) + n * filled * filled * add
    if "learner" in meta:
        return seconds
    if loss(meta) != "logistic":
        return seconds + 2 * a.c * a.c * a.c * guess + 5 * a.problems * a.c * a.c * proof
    probe = Logistic([list(row) for row in some], [1 << C_BITS] * len(some), meta, [0] * a.c)
    a_row = seconds_of(lambda: probe.gradient([1 << 100] * a.c, 128)) / len(some)
    return seconds + a.problems * (n * (2 * a_row + filled * filled * add) + 2 * a.c * a.c * a.c * guess)


# ---------------------------------------------------------------------------------------------------- 11 Receipts
# A receipt is a DSSE envelope around an in-toto statement: that a request was carried out and left a state of this
# digest. *Proves* that the holder of the key said so, and that nobody has changed a character since. *Not* that the
# request named the right rows, nor its times.

P = 2**255 - 19
ORDER_OF_BASE = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
Point = tuple[int, int, int, int]  # x = X / Z, y = Y / Z, T = X Y / Z
NEUTRAL: Point = (0, 1, 1, 0)
PUBLIC_KEY = bytes.fromhex("302a300506032b6570032100")  # how the DER of an Ed25519 public key begins; 32 bytes follow
STATEMENT, PAYLOAD = "https://in-toto.io/Statement/v1", "application/vnd.in-toto+json"
SAID = {"requestId", "requestedAt", "completedAt", "stateAfter", "guarantee", "erasableVersion", "formatVersion"}
NEWER = {"model", "asked", "normalisation"}  # names of version 2; version 3 is that of models with a learner
MAY_BE_SAID = {"1": {"stateBefore"}, "2": {"stateBefore", *NEWER}, "3": {"stateBefore", "learner", *NEWER}}
MAY_BE_SAID["4"] = {"oldBytes", *MAY_BE_SAID["3"]}  # where overwritten bytes may stay on the medium
OLD_BYTES = {"copies", "layer", "elsewhere", "journal"}
IDENTITY_FORMATS = ["raw", "sha256", "sha1", "md5"]
CHARACTER_KINDS = ["small letters", "capitals", "digits", "separators", "other characters"]
SPELLING_STEPS = ["trim", "nfc", "casefold"]


class UsageError(Exception):
    """The key cannot be used."""


def added(p: Point, q: Point) -> Point:
    """The sum of two points of the curve -x² + y² = 1 + d x² y² (RFC 8032, 5.1.4)."""
    a, b = (p[1] - p[0]) * (q[1] - q[0]) % P, (p[1] + p[0]) * (q[1] + q[0]) % P
    c, d = 2 * p[3] * q[3] * D % P, 2 * p[2] * q[2] % P
    e, f, g, h = b - a, d - c, d + c, b + a
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(k: int, p: Point) -> Point:
    """The point added to itself k times."""
    total = NEUTRAL
    for bit in bin(k)[2:]:
        total = added(total, total)
        total = added(total, p) if bit == "1" else total
    return total


def encoded(p: Point) -> bytes:
    """The 32 bytes of a point."""
    inverse = pow(p[2], -1, P)
    x, y = p[0] * inverse % P, p[1] * inverse % P
    return (y | (x & 1) << 255).to_bytes(32, "little")


def decoded(raw: bytes) -> Point | None:
    """The point of 32 bytes; None if there is none, it has other bytes too, or eight times it is zero."""
    y, sign = int.from_bytes(raw, "little") % 2**255, raw[31] >> 7
    square = (y * y - 1) * pow(D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    if x * x % P != square:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or x * x % P != square or (x == 0 and sign):
        return None
    x = P - x if x & 1 != sign else x
    point = x, y, 1, x * y % P
    return None if encoded(times(8, point)) == encoded(NEUTRAL) else point


BASE = decoded(bytes.fromhex("58" + "66" * 31))


def is_signed(key: bytes, signature: bytes, message: bytes) -> bool:
    """Whether this is the Ed25519 signature of the message by the holder of the key: s B = R + h A."""
    if len(signature) != 64:
        return False
    a, r, s = decoded(key), decoded(signature[:32]), int.from_bytes(signature[32:], "little")
    if a is None or r is None or BASE is None or s >= ORDER_OF_BASE:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + key + message).digest(), "little") % ORDER_OF_BASE
    return encoded(times(s, BASE)) == encoded(added(r, times(h, a)))


def read_key(text: str) -> bytes:
    """The 32 bytes of an Ed25519 public key in PEM."""
    found = re.fullmatch(r"\s*-----BEGIN PUBLIC KEY-----([A-Za-z0-9+/=\s]+)-----END PUBLIC KEY-----\s*", text)
    try:
        der = base64.b64decode("".join(found[1].split()), validate=True) if found else b""
    except binascii.Error:
        der = b""
    if len(der) != 44 or not der.startswith(PUBLIC_KEY) or decoded(der[12:]) is None:
        raise UsageError("the key is no Ed25519 public key in PEM, or one that no private key has")
    return der[12:]


def members(value: Any, required: set[str], optional: set[str], what: str) -> dict[str, Any]:
    """The object, if it has these names and no others."""
    fit = isinstance(value, dict) and required <= value.keys() <= required | optional
    need(fit, "receipt", f"{what} does not have the names that it must have, and no others")
    return value  # type: ignore[no-any-return]


def from_base64(text: Any) -> bytes:
    """The bytes; either alphabet is allowed, and padding and unused bits have one form."""
    need(isinstance(text, str), "receipt", "a text is no base64")
    usual = text if set("+/") & set(text) else text.replace("-", "+").replace("_", "/")
    try:
        data = binascii.a2b_base64(usual, strict_mode=True)
    except ValueError:
        raise WrongError("receipt", "a text is no base64") from None
    need(base64.b64encode(data).decode() == usual, "receipt", "a text is base64, but not in its one form")
    return data


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON in which no name occurs twice."""
    if len(dict(pairs)) < len(pairs):
        raise ValueError
    return dict(pairs)


def json_of(text: str | bytes) -> Any:
    """What a text of JSON holds."""
    try:
        return json.loads(text, object_pairs_hook=without_repetition)
    except (ValueError, RecursionError):
        raise WrongError("receipt", "it is no JSON in UTF-8, or has a name twice") from None


def is_line(value: Any, most: int) -> bool:
    """Whether it is one line of printable characters."""
    return isinstance(value, str) and 1 <= len(value) <= most and value.isprintable()


def is_time(value: Any) -> bool:
    """Whether it is a time in UTC with whole seconds."""
    if not isinstance(value, str) or not re.fullmatch(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}Z", value):
        return False
    try:
        return datetime.fromisoformat(value).isoformat() != ""
    except ValueError:
        return False


def is_digest(value: Any) -> bool:
    """Whether it is an object with a SHA-256 in it."""
    return isinstance(value, dict) and list(value) == ["sha256"] and is_hash(value["sha256"])


def is_hash(value: Any) -> bool:
    """Whether it is 64 hexadecimal digits in lower case."""
    return isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None


def is_in_order(values: Any, known: list[str]) -> bool:
    """Whether it is a list of some of the known texts, each once, in their order."""
    return isinstance(values, list) and values == [k for k in known if k in values]


def is_shape(asked: Any) -> bool:
    """Whether it describes a request by number, formats, a range of lengths and kinds, and by nothing else."""
    if not isinstance(asked, dict) or set(asked) != {"identities", "formats", "characters", "kinds"}:
        return False
    ends, kinds = asked["characters"], asked["kinds"]
    if not is_in_order(asked["formats"], IDENTITY_FORMATS) or not is_in_order(kinds, CHARACTER_KINDS):
        return False
    raw = "raw" in asked["formats"]
    if not is_integer(asked["identities"], 1, MOST_IDENTITIES) or raw != bool(kinds) or raw != (ends is not None):
        return False
    highs = [2**k for k in range(2, 13)]  # 1 to 4, 5 to 8, 9 to 16, up to 4096
    lows = [1, *(high + 1 for high in highs[:-1])]
    pair = isinstance(ends, list) and len(ends) == 2 and all(type(end) is int for end in ends)
    return ends is None or (pair and ends[0] in lows and ends[1] in highs and ends[0] < ends[1])


def is_normalisation(value: Any) -> bool:
    """Whether it lists steps for ids, subjects or both; a role without steps is left out."""
    return (
        isinstance(value, dict)
        and set(value) <= {"id", "subject"}
        and all(steps != [] and is_in_order(steps, SPELLING_STEPS) for steps in value.values())
    )


def is_learner(value: Any) -> bool:
    """Whether it names a learner, its library and version, and the digest of what it became."""
    said = {"name", "library", "version", "sha256"}
    if not isinstance(value, dict) or set(value) != said:
        return False
    return is_digest({"sha256": value["sha256"]}) and all(is_line(value[name], 64) for name in said - {"sha256"})


def is_doubt(value: Any) -> bool:
    """Whether it names a file system, and why overwritten bytes may stay on its medium."""
    if not isinstance(value, dict) or set(value) != {"fileSystem", "reason"}:
        return False
    name, why = value["fileSystem"], value["reason"]
    named = isinstance(name, str) and re.fullmatch("[a-z0-9][a-z0-9._-]{0,31}", name) is not None
    return named and isinstance(why, str) and why in OLD_BYTES


MOST_IDENTITIES = 2**53
RECEIPT_RULES: dict[str, Callable[[Any], bool]] = {
    "requestId": lambda v: is_line(v, 128) and v.isascii() and v == v.strip(),
    "requestedAt": is_time,
    "completedAt": is_time,
    "stateBefore": is_digest,
    "stateAfter": is_digest,
    "guarantee": lambda v: is_line(v, 1000),
    "erasableVersion": lambda v: is_line(v, 64),
    "formatVersion": lambda v: is_integer(v, 1, 1_000_000),
    "model": lambda v: is_line(v, 255),
    "asked": is_shape,
    "normalisation": is_normalisation,
    "learner": is_learner,
    "oldBytes": is_doubt,
}


def read_receipt(text: str, key: bytes) -> dict[str, Any]:
    """The predicate of a receipt whose signature is good and whose statement has its one form."""
    need(len(text) <= 65_536, "receipt", "it has more than 65,536 characters")
    envelope = members(json_of(text), {"payloadType", "payload", "signatures"}, set(), "the envelope")
    kind, listed = envelope["payloadType"], envelope["signatures"]
    need(isinstance(listed, list) and 1 <= len(listed) <= 16, "receipt", "there are not 1 to 16 signatures")
    signatures = [members(one, {"sig"}, {"keyid"}, "a signature") for one in listed]
    need(all(isinstance(one.get("keyid", ""), str) for one in signatures), "receipt", "a keyid is no text")
    payload, raw = from_base64(envelope["payload"]), [from_base64(one["sig"]) for one in signatures]
    need(kind == PAYLOAD, "receipt", "it is a signed text of another kind")
    signed = b"DSSEv1 %d %b %d %b" % (len(kind), kind.encode(), len(payload), payload)
    said = "no signature is by the holder of this key over this statement: another key signed it, or it was altered"
    need(any(is_signed(key, signature, signed) for signature in raw), "signature", said)
    statement = members(json_of(payload), {"_type", "subject", "predicateType", "predicate"}, set(), "the statement")
    need(statement["_type"] == STATEMENT, "receipt", "it is a statement of another type")
    version = re.fullmatch("urn:erasable:forget-receipt:v([1234])", str(statement["predicateType"]))
    if version is None:
        raise WrongError("receipt", "it is of a kind or version that this program does not read")
    predicate = members(statement["predicate"], SAID, MAY_BE_SAID[version[1]], "the predicate")
    for name, value in predicate.items():
        need(RECEIPT_RULES[name](value), "receipt", f"{name} does not have the form that it must have")
    subject = [{"name": "state", "digest": predicate["stateAfter"]}]
    if "oldBytes" in predicate:
        named = "4"
    elif "learner" in predicate:
        named = "3"
    else:
        named = "2" if NEWER & predicate.keys() else "1"
    need(version[1] == named, "receipt", "its version is not the one of the names in it")
    need(statement["subject"] == subject, "receipt", "its subject is not the state after, and that alone")
    need(compact(statement, sort=True).encode() == payload, "receipt", "the statement is not in canonical form")
    return predicate


# -------------------------------------------------------------------------------------------- 12 All of it, in order


class State(NamedTuple):
    """What a model file, or a head with its shards, holds; and its digest."""

    format: str  # that of the file given; of a head with shards, meta has the format of the one file
    meta: Meta
    tensors: Tensors
    rows: Rows
    digest: str


def read_state(path: Path) -> State:
    """Parts 2 to 5: the layout. Raises :class:`NeedsCodeError` for what a file cannot hold."""
    if path.exists() and not path.is_file():
        raise OSError(0, "it is no regular file")
    raw = path.read_bytes()
    meta, tensors = read_container(raw)
    check_metadata(meta)
    form = meta["format"]
    if "bits" not in meta:  # erasable-general, erasable-core-set
        n = tensors["labels"].shape[0] if "labels" in tensors else 0
        check_labels(meta, take(tensors, "labels", "I32", [n]))
        read_names(meta, tensors, n)
        raise NeedsCodeError(form)
    check_shapes(meta, tensors)  # first, since it bounds the number of columns by the length of the file
    if "shards" in meta:
        meta, tensors = joined(path, meta, tensors)
        raw = written(meta, tensors)
    elif not {"kernel", "raw_columns"} & set(meta):
        size = sum(len(tensors[name].body) for name in ROWS[:4] if name in tensors)
        need(size <= LARGEST_FILE, "layout", "so many rows must be written in several files")
    rows = read_rows(meta, tensors)
    if "raw_columns" in meta:
        raise NeedsLibraryError("names")
    if meta.get("kernel") == "custom":
        raise NeedsCodeError("erasable-kernel with a function of the caller's")
    return State(form, meta, tensors, rows, hashlib.sha256(raw).hexdigest())


LEARNER_NOT_CHECKED = {
    "names": "a library trains the learner, which is in no file; layout, checksum and names hold, and rows were not "
    "selected again. Altered rows, labels and parameters would not be noticed: compare the digest with that in a "
    "signed receipt",
    "decisions": "a library trains the learner, which is in no file; layout, checksum and names hold, and every row is "
    "kept. Altered labels and parameters, and altered rows that are still kept, would not be noticed: compare the "
    "digest with that in a signed receipt",
}
HOLDS, USAGE, BAD_RECEIPT, DOES_NOT_HOLD, UNREADABLE, NEEDS_CODE = 0, 2, 3, 4, 5, 8


def verdict(path: Path, say: Callable[[str], None], tick: Tick, estimate_only: bool) -> tuple[int, dict[str, Any]]:
    """The exit code and what was found, as a dictionary; ``say`` is told as it goes."""
    start, code = time.process_time(), DOES_NOT_HOLD
    found: dict[str, Any] = {"model": str(path), "verified": False, "holds": []}
    try:
        state = read_state(path)
        meta, n, columns, seconds = state.meta, len(state.rows.ids), Letters(state.meta).c, estimate(state)
        found |= {"format": state.format, "core_rows": n, "columns": columns, "digest": state.digest}
        found["estimated_seconds"] = seconds
        say(f"{path}: {state.format}, {n} rows, {columns} columns")
        memory = 100 * (n if "kernel" in meta else columns) ** 2 / 2**30  # two matrices of Python's numbers
        needs = f" It needs some {memory:.1f} GiB of memory." if memory > 0.5 else ""
        about = timedelta(seconds=max(1, round(seconds)))
        say(f"This takes about {about} (hours:minutes:seconds) of one processor, longer where it is busy.{needs}")
        if not estimate_only:
            check = check_kernel_model if "kernel" in meta else check_linear_model
            layout = ("layout", "layout, checksum and metadata are as docs/format.md says")
            for part, line in itertools.chain([layout], check(state, tick)):
                found["holds"].append(part)
                say(f"{part:<10} {line}")
        code, found["verified"] = HOLDS, None if estimate_only else True
    except WrongError as error:
        found |= {"part": error.part, "reason": str(error)}
    except NeedsCodeError as error:
        reason = f"{error}: what is stored follows from code that a file cannot hold; layout, checksum and names hold"
        code, found = NEEDS_CODE, {**found, "part": "code", "reason": reason}
    except NeedsLibraryError as error:
        code, found = NEEDS_CODE, {**found, "part": "learner", "reason": LEARNER_NOT_CHECKED[str(error)]}
    except OSError as error:
        code, found = UNREADABLE, {**found, "part": "file", "reason": str(error.strerror)}
    return code, {**found, "seconds": round(time.process_time() - start, 3), "exit": code}


def progress(done: int, total: int) -> None:
    """So many rows are decided: a line on standard error, where that is a terminal."""
    if sys.stderr.isatty() and (done % 10 == 0 or done == total):
        print(f"\r{done} of {total} rows decided", end="\n" if done == total else "", file=sys.stderr, flush=True)


def receipt_verdict(path: Path, key: Path) -> tuple[int, dict[str, Any]]:
    """The exit code and what was found of a receipt alone."""
    try:
        public = read_key(key.read_text(encoding="utf-8"))
        found = {"receipt": str(path), "keyid": hashlib.sha256(PUBLIC_KEY + public).hexdigest()}
        return HOLDS, {**found, "signed": True, "statement": read_receipt(path.read_text(encoding="utf-8"), public)}
    except WrongError as error:
        return BAD_RECEIPT, {**found, "signed": False, "part": error.part, "reason": str(error)}
    except UnicodeError:
        reason = "the receipt or the key is no text in UTF-8"
        return BAD_RECEIPT, {"receipt": str(path), "signed": False, "part": "receipt", "reason": reason}
    except OSError as error:
        reason = str(error.strerror)
        return UNREADABLE, {"receipt": str(path), "signed": False, "part": "file", "reason": reason}


def both_verdicts(options: argparse.Namespace, say: Callable[[str], None], tick: Tick) -> tuple[int, dict[str, Any]]:
    """The exit code and what was found of the receipt, the model, or both."""
    code, found = HOLDS, dict[str, Any]()
    if options.receipt is not None:
        code, found = receipt_verdict(options.receipt, options.key)
        if code == HOLDS:
            say(f"receipt    signed with key {found['keyid'][:16]}; the statement has its one form")
            for name, value in found["statement"].items():
                say(f"           {name}: {compact(value, sort=True) if isinstance(value, dict) else value}")
    if code == HOLDS and options.model is not None:
        code, model = verdict(options.model, say, tick, options.estimate)
        found |= model
        if options.receipt is not None and "digest" in found:
            found["same_state"] = found["digest"] == found["statement"]["stateAfter"]["sha256"]
            if not found["same_state"] and code in (HOLDS, NEEDS_CODE):
                reason = "the model is not in the state that the receipt is about: any later change makes another state"
                code, found = DOES_NOT_HOLD, {**found, "part": "state", "reason": reason}
    return code, {**found, "exit": code}


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line."""
    about = (__doc__ or "").split("\n\n")
    parser = argparse.ArgumentParser(prog="erasable-verify", description=about[0], epilog=about[-1].strip())
    parser.add_argument("model", type=Path, nargs="?", help="the model file; shards are found next to it")
    parser.add_argument("--receipt", type=Path, help="a receipt; without a model its signature and form are checked")
    parser.add_argument("--key", type=Path, help="the public key of the signer of the receipt (PEM)")
    parser.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    parser.add_argument("--estimate", action="store_true", help="say how long it will take, and stop")
    parser.add_argument("--version", action="version", version=__version__)
    options = parser.parse_args(arguments)
    if options.model is None and options.receipt is None:
        parser.error("give a model, a receipt, or both")
    if (options.receipt is None) != (options.key is None):
        parser.error("a receipt is checked with a key: give --receipt and --key")
    try:
        if options.json:
            code, found = both_verdicts(options, lambda line: None, lambda done, total: None)
            print(json.dumps(found))
            return code
        code, found = both_verdicts(options, lambda line: print(line, flush=True), progress)
    except UsageError as error:
        parser.error(str(error))
    if code == HOLDS and options.model is None:
        print("The receipt holds. Give the model too to see that it is in the state that the receipt is about.")
    elif code == HOLDS and not options.estimate:
        same = " It is the state that the receipt is about." if options.receipt is not None else ""
        print(f"It holds. State digest {found['digest']}, {found['seconds']:.1f} s.{same}\n\n{PROVED}\n\n{NOT_PROVED}")
    elif code == NEEDS_CODE:
        print(f"Not checked: {found['reason']}.")
    elif code == UNREADABLE:
        print(f"It cannot be read: {found['reason']}.")
    elif code:
        print(f"It does not hold, {found['part']}: {found['reason']}.")
    return code


def command() -> NoReturn:
    """The command ``erasable-verify``."""
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    command()
