"""A reader written from docs/format.md alone: the standard library, and nothing of this package."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import struct
from pathlib import Path
from typing import Any

TYPES = {"I64": ("q", 8), "I32": ("i", 4), "I16": ("h", 2), "U16": ("H", 2), "U8": ("B", 1), "F32": ("f", 4)}
EVERY = {
    "format",
    "version",
    "checksum",
    "n_features",
    "classes",
    "class_kind",
    "classes_fixed",
    "id_kind",
    "subject_kind",
}
LINEAR = {"bits", "intercept", "scaling", "capacity_units", "threshold", "feature_names", "feature_map", "order_key"}
LINEAR |= {"loss", "alpha_units", "class_weight", "sample_rate", "sample_key"}
KERNEL = {"bits", "scaling", "kernel", "function", "gamma", "nu", "degree", "coef0", "capacity_units", "threshold"}
MEMBERS = {
    "erasable-linear": EVERY | LINEAR,
    "erasable-linear-sharded": EVERY | LINEAR | {"shards"},
    "erasable-shard": {"format", "version", "checksum", "id_kind", "subject_kind"},
    "erasable-kernel": EVERY | KERNEL | {"feature_names", "order_key"},
    "erasable-general": EVERY | {"sampler", "rows", "order_key"},
    "erasable-core-set": EVERY | {"core_set", "learner", "one_shot", "reproducible", "layout"},
}
SUMS = ["gram", "class_sums", "weighted_gram", "weighted_class_sums"]
SPARSE = ["rows.lengths", "rows.columns", "rows.values"]
NAMES = ["ids", "ids.ends", "subjects.lengths", "subjects.present", "subjects", "subjects.ends"]
ORDER = {
    "erasable-linear": [*SUMS, "weights", "labels", "rows", *SPARSE, "row_weights", *NAMES],
    "erasable-linear-sharded": [*SUMS, "weights", "order"],
    "erasable-shard": ["labels", "rows", *SPARSE, "row_weights", *NAMES],
    "erasable-kernel": ["weights", "labels", "rows", *NAMES],
    "erasable-general": ["labels", "rows", *NAMES],
    "erasable-core-set": ["rows", "rows.data", "rows.indices", "rows.ends", "labels", *NAMES],
}


def canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


class File:
    """Metadata and tensors of one file, everything on the page checked that can be checked without learning."""

    def __init__(self, raw: bytes) -> None:
        (length,) = struct.unpack("<Q", raw[:8])
        assert length <= 8_388_608
        assert length % 8 == 0
        text = raw[8 : 8 + length].decode()
        assert sum(map(text.count, ",[{")) <= 524_288
        header = json.loads(text)
        plain = json.dumps(header, separators=(",", ":"), ensure_ascii=False)
        assert plain.encode() + b" " * (-len(plain.encode()) % 8) == text.encode()
        assert next(iter(header)) == "__metadata__"
        (self.written,) = header.pop("__metadata__").values()
        self.meta = json.loads(self.written)
        assert canonical(self.meta) == self.written
        assert self.meta["version"] == 1
        sparse_shard = self.meta["format"] == "erasable-shard" and "rows.lengths" in header
        assert set(self.meta) == MEMBERS[self.meta["format"]] | ({"n_features"} if sparse_shard else set())
        self._check_sum(raw)
        self.shapes: dict[str, list[int]] = {}
        self.types: dict[str, str] = {}
        self.tensors: dict[str, tuple[Any, ...]] = {}
        end = 0
        for name, entry in header.items():
            assert list(entry) == ["dtype", "shape", "data_offsets"]
            begin, stop = entry["data_offsets"]
            assert begin == end
            letter, width = TYPES[entry["dtype"]]
            count = (stop - begin) // width
            self.shapes[name], self.types[name] = entry["shape"], entry["dtype"]
            self.tensors[name] = struct.unpack(f"<{count}{letter}", raw[8 + length + begin : 8 + length + stop])
            end = stop
        assert 8 + length + end == len(raw)
        listed = [name for name in ORDER[self.meta["format"]] if name in header]
        assert list(header) == sorted(listed, key=lambda name: -TYPES[header[name]["dtype"]][1])

    def _check_sum(self, raw: bytes) -> None:
        digits = self.meta["checksum"].encode()
        assert raw.count(digits) == 1
        assert hashlib.sha256(raw.replace(digits, b"0" * 64)).hexdigest() == digits.decode()

    def names(self, what: str) -> list[Any]:
        kind, n = self.meta[{"ids": "id_kind", "subjects": "subject_kind"}[what]], len(self.tensors["labels"])
        if kind is None:
            return [None] * n
        keys: list[Any] = list(self.tensors[what])
        if kind != "int":
            blob = bytes(keys)
            keys = [blob[a:b] for a, b in itertools.pairwise([0, *self.tensors[f"{what}.ends"]])]
            keys = [key.decode() for key in keys] if kind == "str" else keys
        if what == "subjects" and "subjects.lengths" in self.tensors:
            return self._owners(keys)
        present = self.tensors.get(f"{what}.present", (1,) * n)
        return [key if there else None for key, there in zip(keys, present, strict=True)]

    def _owners(self, keys: list[Any]) -> list[Any]:
        """Subjects of rows, of which one at least has several."""
        lengths, left = self.tensors["subjects.lengths"], iter(keys)
        assert self.types["subjects.lengths"] == "I32"
        assert len(lengths) == len(self.tensors["labels"])
        assert max(lengths) > 1
        assert "subjects.present" not in self.tensors
        of_rows = [tuple(itertools.islice(left, length)) for length in lengths]
        assert not list(left)
        assert all(list(several) == sorted(set(several)) and several[0] for several in of_rows if len(several) > 1)
        return [several if len(several) > 1 else several[0] if several else None for several in of_rows]

    def rows(self, grid: dict[str, Any] | None = None) -> list[tuple[int, ...]]:
        """Whole rows; ``grid`` is the metadata of the head where this is a shard."""
        grid = grid or self.meta
        if "rows" in self.tensors:
            n, width = self.shapes["rows"]
            whole = [self.tensors["rows"][i * width : (i + 1) * width] for i in range(n)]
        else:
            whole = self._from_entries(grid)
        if "bits" in grid and "intercept" in grid:  # a linear model
            assert ("rows" not in self.tensors) == is_sparse(whole, grid)
        return whole

    def _from_entries(self, grid: dict[str, Any]) -> list[tuple[int, ...]]:
        d, rows = grid["n_features"], []
        assert self.types["rows.lengths"] == self.types["rows.columns"] == narrowest(d)
        assert self.types["rows.values"] == ("I16" if grid["bits"] <= 15 else "I32")
        entries = iter(zip(self.tensors["rows.columns"], self.tensors["rows.values"], strict=True))
        for length in self.tensors["rows.lengths"]:
            row, last = [0] * d, -1
            for column, value in itertools.islice(entries, length):
                assert last < column < d
                assert value
                row[column], last = value, column
            rows.append((*row, *[math.isqrt(2 ** (2 * grid["bits"] - 1))] * grid["intercept"]))
        assert not list(entries)
        return rows


def narrowest(n_features: int) -> str:
    """The type of columns and lengths."""
    return "U8" if n_features < 256 else "U16" if n_features < 65_536 else "I32"


def is_sparse(rows: list[tuple[int, ...]], grid: dict[str, Any]) -> bool:
    """The layout that rows must have."""
    n, d = len(rows), grid["n_features"]
    v, u = 2 if grid["bits"] <= 15 else 4, TYPES[narrowest(d)][1]
    m = sum(1 for row in rows for value in row[:d] if value)
    return 2 * (n * u + m * (u + v)) < n * (d + grid["intercept"]) * v


def sums(
    rows: list[tuple[int, ...]], labels: list[int], classes: int, width: int, weights: Any = None
) -> tuple[list[int], list[int]]:
    """The lower triangle of the sum of s g g', and the sum of s g over the rows of each class; s is 1 by default."""
    counted = list(zip(rows, labels, weights or [1] * len(rows), strict=True))
    gram = [sum(s * g[i] * g[j] for g, _, s in counted) for i in range(width) for j in range(i + 1)]
    by_class = [sum(s * g[j] for g, label, s in counted if label == c) for c in range(classes) for j in range(width)]
    return gram, by_class


def node_of(key: Any, kind: str) -> int:
    """The hash by which an id is sorted into the tree."""
    text = {"int": lambda: b"i%d" % key, "str": lambda: b"s" + key.encode(), "bytes": lambda: b"b" + key}[kind]()
    return int.from_bytes(hashlib.sha256(text).digest())


def read_sharded(path: Path) -> tuple[File, list[File]]:
    """The head and its shards, in the order of the head."""
    head = File(path.read_bytes())
    folder = path.with_name(f".{path.name}.parts")
    assert {p.name for p in folder.iterdir()} == set(head.meta["shards"])
    shards = []
    for name in head.meta["shards"]:
        raw = (folder / name).read_bytes()
        assert hashlib.sha256(raw).hexdigest() == name
        shards.append(File(raw))
    return head, shards
