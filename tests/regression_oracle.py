"""A regression in exact arithmetic: the oracle of the linear model with targets in place of labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from tests.oracle import (
    WIDTHS,
    OracleModel,
    flat,
    json_string,
    key_tensors,
    packed,
    ridge_bits,
    row_tensors,
)
from tests.strategies import Setting


@dataclass
class RegressionOracle(OracleModel):
    """Labels of core rows are tuples of integers: the targets on their grid."""

    ranges: tuple[tuple[float, float], ...] = ()

    @classmethod
    def of_setting(cls, setting: Setting, ranges: Sequence[tuple[float, float]]) -> RegressionOracle:
        return cls(**vars(setting.oracle()), ranges=tuple(ranges))

    def put_targets(self, y: Any) -> tuple[int, ...]:
        """In float64, operation by operation as docs/exactness.md says."""
        targets, radius = [], 2**self.grid.bits - 1
        for value, (low, high) in zip(y if isinstance(y, tuple) else (y,), self.ranges, strict=True):
            centre, half = low / 2 + high / 2, high / 2 - low / 2
            assert low <= value <= high
            targets.append(max(-radius, min(radius, round((value - centre) / half * radius))))
        return tuple(targets)

    def learn(self, X: Any, y: Any, ids: Any, subjects: Any = None, weights: Any = None) -> None:
        super().learn(X, [self.put_targets(v) for v in y], ids, subjects, weights)

    def sums(self, *, weighted: bool) -> list[list[int]]:
        d, k = self.grid.n_columns, len(self.ranges)
        return [
            [sum((r.weight if weighted else 1) * r.label[c] * r.g[j] for r in self.core) for j in range(d)]
            for c in range(k)
        ]

    @property
    def class_sums(self) -> list[list[int]]:
        return self.sums(weighted=False)

    @property
    def weight_bits(self) -> list[list[int]]:
        """Bits of ``w = A^-1 b`` for targets ``t * 2**-bits``: ``H^-1 (sum of s t g)``, both in sixteenths."""
        rows = tuple((tuple(r.g), r.weight) for r in self.core)
        sums = self.sums(weighted=True)
        return [list(ridge_bits(rows, tuple(b), 16 * self.units, 0, self.grid.n_columns)) for b in sums]

    def _fields(self, checksum: str) -> dict[str, str]:
        fields = super()._fields(checksum)
        for name in ("classes", "class_kind", "classes_fixed", "loss", "alpha_units", "class_weight"):
            del fields[name]
        pairs = [f"[{json_string(low.hex())},{json_string(high.hex())}]" for low, high in self.ranges]
        return fields | {"format": json_string("erasable-regression"), "target_ranges": f"[{','.join(pairs)}]"}

    def _tensors(self) -> list[tuple[str, str, list[int], bytes]]:
        n, d, k = len(self.core), self.grid.n_columns, len(self.ranges)
        letter, name = ("h", "I16") if self.grid.bits <= 15 else ("i", "I32")
        wide, counted = [], []
        if self.is_weighted:
            wide = [
                ("weighted_gram", "I64", [d * (d + 1) // 2], packed("q", self.weighted_gram)),
                ("weighted_target_sums", "I64", [k, d], packed("q", flat(self.sums(weighted=True)))),
            ]
            counted = [("row_weights", "I16", [n], packed("h", [r.weight for r in self.core]))]
        tensors = [
            ("gram", "I64", [d * (d + 1) // 2], packed("q", self.gram)),
            ("target_sums", "I64", [k, d], packed("q", flat(self.class_sums))),
            *wide,
            ("weights", "F32", [k, d], packed("I", flat(self.weight_bits))),
            ("targets", name, [n, k], packed(letter, flat(self.labels))),
            *row_tensors(self.rows, self.grid.n_features, self.grid.intercept, self.grid.bits),
            *counted,
            *key_tensors("ids", self.ids),
            *key_tensors("subjects", self.subjects),
        ]
        return sorted(tensors, key=lambda tensor: -WIDTHS[tensor[1]])  # stable
