"""The oracle: a slow, obvious second implementation in integers and fractions. It imports nothing from the package.

Everything follows the documents, not the code: rows go on the grid one coordinate at a time, Algorithm 1 takes one row
at a time and compares ``g'H^-1g > tau`` as rationals, forgetting throws the model away and learns the survivors again,
and the weights are the rational solution rounded once.
"""

from __future__ import annotations

import hashlib
import math
import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import lru_cache
from typing import Any

Vector = Sequence[int]
Matrix = list[list[int]]


# -- the grid ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OracleGrid:
    """Rows to integers, as the docstring of ``core/grid.py`` says."""

    n_features: int
    bits: int = 15
    intercept: bool = True
    scaling: Any = "row"

    @property
    def normalises(self) -> bool:
        return self.scaling == "row" or isinstance(self.scaling, tuple)

    @property
    def n_columns(self) -> int:
        return self.n_features + 1 if self.intercept else self.n_features

    @property
    def radius(self) -> int:
        return 2**self.bits - 1

    @property
    def constant(self) -> int:
        """The largest integer at most ``2**bits / sqrt(2)``."""
        return largest_root(Fraction(4**self.bits, 2)) if self.intercept else 0

    @property
    def ball(self) -> int:
        return largest_root(Fraction(self.radius**2 - self.constant**2))

    @property
    def unit(self) -> int:
        return self.ball if self.intercept else 2**self.bits

    @property
    def reach(self) -> int:
        root = largest_root(Fraction(self.n_features))
        diagonal = root if root**2 == self.n_features else root + 1  # sqrt(n_features), rounded up
        inner = self.ball - 1 - (diagonal + 1) // 2
        return inner if inner < 2**14 else 64 * (inner // 64)

    @property
    def longest(self) -> float:
        """No grid row has a larger squared norm: the reach and half a step in every coordinate, and the constant."""
        if not self.normalises:
            return float(self.radius**2)
        return (self.reach + 0.5 * math.sqrt(self.n_features)) ** 2 + self.constant**2

    def put(self, row: Iterable[float]) -> tuple[int, ...]:
        """One row on the grid, the constant appended."""
        z = [float(v) for v in row]
        if isinstance(self.scaling, tuple):
            z = [divided(v, s) for v, s in zip(z, self.scaling, strict=True)]
        elif isinstance(self.scaling, float):
            z = [divided(v, self.scaling) for v in z]
        if self.normalises:
            features = normalised(z, self.reach)
        else:
            features = [round(multiplied(v, self.unit)) for v in z]
            if sum(v * v for v in features) > self.ball**2:
                features = [round(multiplied(v, self.reach)) for v in z]
        return (*features, self.constant) if self.intercept else tuple(features)


def divided(a: float, b: float) -> float:
    """``a / b`` rounded once to float64."""
    return math.copysign(float(abs(Fraction(a)) / Fraction(b)), a)


def multiplied(a: float, b: int) -> float:
    """``a * b`` rounded once to float64."""
    return float(Fraction(a) * b)


def largest_root(square: Fraction) -> int:
    """The largest integer whose square is at most ``square``."""
    return math.isqrt(square.numerator // square.denominator)


def normalised(z: Sequence[float], reach: int) -> list[int]:
    """``reach * z / |z|`` with every coordinate rounded to the nearest integer, halves to even."""
    exact = [Fraction(v) for v in z]
    square_norm = sum((v * v for v in exact), Fraction(0))
    if square_norm == 0:
        return [0] * len(exact)
    out = []
    for v in exact:
        square = reach**2 * v * v / square_norm
        k = largest_root(square)
        middle = (k + Fraction(1, 2)) ** 2
        if square > middle or (square == middle and k % 2 == 1):
            k += 1
        out.append(k if v >= 0 else -k)
    return out


# -- exact linear algebra ----------------------------------------------------------------------------------------


def scaled_identity(d: int, units: int) -> Matrix:
    return [[units if i == j else 0 for j in range(d)] for i in range(d)]


def add_outer(H: Matrix, g: Vector, times: int = 1) -> None:
    for i, a in enumerate(g):
        for j, b in enumerate(g):
            H[i][j] += times * a * b


def gram_matrix(rows: Iterable[Vector], units: int, d: int) -> Matrix:
    """``units * I`` plus the sum of ``g g'``."""
    H = scaled_identity(d, units)
    for g in rows:
        add_outer(H, g)
    return H


def solve(H: Matrix, rhs: Vector) -> list[Fraction]:
    """``H^-1 rhs`` by Bareiss' elimination: integers all the way, divisions without remainder."""
    d = len(H)
    M = [[*map(int, row), int(b)] for row, b in zip(H, rhs, strict=True)]
    previous = 1
    for k in range(d):
        assert M[k][k] != 0, "a leading minor vanishes: H is not positive definite"
        for i in range(k + 1, d):
            for j in range(k + 1, d + 1):
                M[i][j], remainder = divmod(M[i][j] * M[k][k] - M[i][k] * M[k][j], previous)
                assert remainder == 0
            M[i][k] = 0
        previous = M[k][k]
    x = [Fraction(0)] * d
    for i in reversed(range(d)):
        x[i] = (M[i][d] - sum((M[i][j] * x[j] for j in range(i + 1, d)), Fraction(0))) / M[i][i]
    return x


def leverage(H: Matrix, g: Vector) -> Fraction:
    """``g'H^-1g``."""
    return sum((int(a) * z for a, z in zip(g, solve(H, g), strict=True)), Fraction(0))


def select(rows: Iterable[Vector], H: Matrix, tau: float, forced: Sequence[bool] | None = None) -> list[int]:
    """Algorithm 1, lines 3 to 6, as printed; ``H`` grows in place. Forced rows are taken whatever their leverage."""
    selected = []
    for i, g in enumerate(rows):
        if (forced is not None and forced[i]) or (tau != math.inf and leverage(H, g) > Fraction(tau)):
            add_outer(H, g)
            selected.append(i)
    return selected


class GrowingInverse:
    """``H^-1 = adjugate / determinant`` in integers while ``H`` grows: what :func:`leverage` gives, for larger d.

    With ``a = adj(H) g`` and ``q = g'a``: ``det(H + gg') = det + q`` and ``adj(H + gg') = ((det + q) adj - a a') /
    det``, where the division leaves no remainder.
    """

    def __init__(self, d: int, units: int) -> None:
        self.determinant = units**d
        self.adjugate = scaled_identity(d, units ** (d - 1))

    def _applied(self, g: Vector) -> tuple[list[int], int]:
        a = [sum(m * v for m, v in zip(row, g, strict=True)) for row in self.adjugate]
        return a, sum(v * w for v, w in zip(g, a, strict=True))

    def leverage(self, g: Vector) -> Fraction:
        return Fraction(self._applied(g)[1], self.determinant)

    def take_if_above(self, g: Vector, tau: float) -> bool:
        a, q = self._applied(g)
        above, below = tau.as_integer_ratio()
        if q * below <= above * self.determinant:
            return False
        determinant = self.determinant + q
        for i, row in enumerate(self.adjugate):
            for j in range(i + 1):
                value, remainder = divmod(determinant * row[j] - a[i] * a[j], self.determinant)
                assert remainder == 0
                row[j] = self.adjugate[j][i] = value
        self.determinant = determinant
        return True


# -- rounding ----------------------------------------------------------------------------------------------------


def float32_bits(value: Fraction) -> int:
    """The float32 nearest to a rational as its 32 bits: ties to even, and a zero is positive."""
    size = abs(value)
    if size == 0:
        return 0
    last_place = size.numerator.bit_length() - size.denominator.bit_length() - 24
    if size >= Fraction(2) ** (last_place + 24):
        last_place += 1
    last_place = max(last_place, -149)
    steps = size / Fraction(2) ** last_place
    whole, rest = divmod(steps.numerator, steps.denominator)
    if 2 * rest > steps.denominator or (2 * rest == steps.denominator and whole % 2 == 1):
        whole += 1
    pattern = ((last_place + 149) << 23) + whole  # the hidden bit carries into the exponent
    assert pattern < 0x7F800000, "too large for float32"
    return pattern if value > 0 or pattern == 0 else pattern | 1 << 31


# -- the order of rows -------------------------------------------------------------------------------------------


def siphash(text: bytes, key: bytes) -> int:
    """SipHash-2-4 as its paper writes it down, in integers of any size."""

    def rotated(word: int, by: int) -> int:
        return (word << by | word >> (64 - by)) % 2**64

    def mixed(a: int, b: int, c: int, d: int) -> tuple[int, int, int, int]:
        a = (a + b) % 2**64
        b = rotated(b, 13) ^ a
        a = rotated(a, 32)
        c = (c + d) % 2**64
        d = rotated(d, 16) ^ c
        a = (a + d) % 2**64
        d = rotated(d, 21) ^ a
        c = (c + b) % 2**64
        b = rotated(b, 17) ^ c
        c = rotated(c, 32)
        return a, b, c, d

    k0, k1 = (int.from_bytes(key[i : i + 8], "little") for i in (0, 8))
    v = (
        int.from_bytes(b"somepseu") ^ k0,
        int.from_bytes(b"dorandom") ^ k1,
        int.from_bytes(b"lygenera") ^ k0,
        int.from_bytes(b"tedbytes") ^ k1,
    )
    padded = text + bytes(-(len(text) + 1) % 8) + bytes([len(text) % 256])
    for low in range(0, len(padded), 8):
        word = int.from_bytes(padded[low : low + 8], "little")
        v = mixed(*mixed(v[0], v[1], v[2], v[3] ^ word))
        v = (v[0] ^ word, *v[1:])
    v = mixed(*mixed(*mixed(*mixed(v[0], v[1], v[2] ^ 0xFF, v[3]))))
    return v[0] ^ v[1] ^ v[2] ^ v[3]


def turn(key: Any, order_key: int) -> int:
    """The hash of an id under a key, by which its row's turn comes."""
    salt = hashlib.blake2b(str(order_key).encode(), digest_size=16).digest()
    if isinstance(key, int):
        return siphash(key.to_bytes(8, "little", signed=True), salt)
    key = key.encode() if isinstance(key, str) else key
    return int.from_bytes(hashlib.blake2b(key, digest_size=8, key=salt).digest(), "little")


def in_turn(keys: Sequence[Any], order_key: int | None) -> list[int]:
    """Positions of the ids in the order in which their rows are decided."""
    if order_key is None:
        return list(range(len(keys)))
    plain = [k.encode() if isinstance(k, str) else k for k in keys]
    return sorted(range(len(keys)), key=lambda i: (turn(keys[i], order_key), plain[i]))


# -- the model ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class CoreRow:
    id: Any
    subject: Any  # one, None, or a sorted tuple of several
    label: Any
    g: tuple[int, ...]
    weight: int = 16  # in sixteenths


@dataclass
class OracleModel:
    """Algorithm 1 with forgetting by starting again."""

    grid: OracleGrid
    units: int
    threshold: float
    fixed_classes: tuple[Any, ...] | None = None
    order_key: int | None = 0
    class_weight: Any = None
    sample_rate: float = 0.0
    sample_key: int = 0
    alpha_units: int | None = None  # where the loss is logistic
    spread: bool = False  # whether columns are regularised by their spread
    core: list[CoreRow] = field(default_factory=list)

    @classmethod
    def of(
        cls,
        n_features: int,
        *,
        threshold: float,
        capacity: float = 1.0,
        bits: int = 15,
        intercept: bool = True,
        scaling: Any = "row",
        classes: Iterable[Any] | None = None,
        order_key: int | None = 0,
        class_weight: Any = None,
        sample_rate: float = 0.0,
        sample_key: int = 0,
        loss: str = "squared",
        alpha: float | None = None,
        head_scaling: str | None = None,
    ) -> OracleModel:
        """From the parameters a user gives."""
        grid = OracleGrid(n_features, bits, intercept, scaling)
        fixed = None if classes is None else tuple(sorted(set(classes)))
        units = round(Fraction(capacity) * 4**bits)
        alpha_units = units if alpha is None else round(Fraction(alpha) * 4**bits)
        head = class_weight, sample_rate, sample_key, None if loss == "squared" else alpha_units
        return cls(grid, units, threshold, fixed, order_key, *head, head_scaling == "spread")

    def learn(
        self,
        X: Iterable[Iterable[float]],
        y: Sequence[Any],
        ids: Sequence[Any],
        subjects: Sequence[Any] | None = None,
        weights: Sequence[float] | None = None,
    ) -> None:
        """The rows of one call, in turn, after the core rows already there; one of weight nearest to 0 is left out."""
        of_rows = [None] * len(y) if subjects is None else subjects
        counted = [16] * len(y) if weights is None else [round(Fraction(w) * 16) for w in weights]
        rows = list(zip(X, y, ids, of_rows, counted, strict=True))
        for i in in_turn(ids, self.order_key):
            x, label, key, owner, weight = rows[i]
            if weight:
                self.offer(CoreRow(key, owners(owner), label, self.grid.put(x), weight))

    def offer(self, row: CoreRow) -> None:
        drawn = turn(row.id, self.sample_key) < Fraction(self.sample_rate) * 2**64
        if drawn or (self.threshold != math.inf and leverage(self.H, row.g) > Fraction(self.threshold)):
            self.core.append(row)

    def forget(self, ids: Iterable[Any] = (), subjects: Iterable[Any] = ()) -> None:
        gone, leaving = set(ids), set(subjects)
        survivors = [r for r in self.core if r.id not in gone and not leaving & set(each_owner([r.subject]))]
        self.core = []
        for row in survivors:
            self.offer(row)

    @property
    def H(self) -> Matrix:  # noqa: N802
        return gram_matrix((r.g for r in self.core), self.units, self.grid.n_columns)

    @property
    def is_weighted(self) -> bool:
        return any(r.weight != 16 for r in self.core)

    @property
    def weighted_gram(self) -> list[int]:
        """Lower triangle of the sum of ``s g g'``, s the weight in sixteenths."""
        G = scaled_identity(self.grid.n_columns, 0)
        for r in self.core:
            add_outer(G, r.g, r.weight)
        return [G[i][j] for i in range(len(G)) for j in range(i + 1)]

    @property
    def weighted_class_sums(self) -> list[list[int]]:
        d = self.grid.n_columns
        return [[sum(r.weight * r.g[j] for r in self.core if r.label == c) for j in range(d)] for c in self.classes]

    @property
    def ids(self) -> list[Any]:
        return [r.id for r in self.core]

    @property
    def subjects(self) -> list[Any]:
        return [r.subject for r in self.core]

    @property
    def labels(self) -> list[Any]:
        return [r.label for r in self.core]

    @property
    def rows(self) -> list[tuple[int, ...]]:
        return [r.g for r in self.core]

    @property
    def classes(self) -> tuple[Any, ...]:
        return tuple(sorted(set(self.labels))) if self.fixed_classes is None else self.fixed_classes

    @property
    def gram(self) -> list[int]:
        """Lower triangle of the sum of ``g g'``, row by row."""
        G = gram_matrix(self.rows, 0, self.grid.n_columns)
        return [G[i][j] for i in range(len(G)) for j in range(i + 1)]

    @property
    def class_sums(self) -> list[list[int]]:
        d = self.grid.n_columns
        return [[sum(r.g[j] for r in self.core if r.label == c) for j in range(d)] for c in self.classes]

    @property
    def targets(self) -> list[list[int]]:
        """One vector ``sum of y g`` per linear function, y = +1 or -1 row by row."""
        positives = self.classes if len(self.classes) > 2 else self.classes[-1:]
        d = self.grid.n_columns
        return [[sum(r.g[j] if r.label == c else -r.g[j] for r in self.core) for j in range(d)] for c in positives]

    @property
    def weighted_targets(self) -> list[list[int]]:
        """The same with every row as often as its weight has sixteenths."""
        positives = self.classes if len(self.classes) > 2 else self.classes[-1:]
        d = self.grid.n_columns
        return [
            [sum(r.weight * (r.g[j] if r.label == c else -r.g[j]) for r in self.core) for j in range(d)]
            for c in positives
        ]

    @property
    def weight_bits(self) -> list[list[int]]:
        """Bits of ``w = A^-1 b = 2**bits * H^-1 (sum of s y g)``, both in sixteenths; a zero vector without classes."""
        if not self.classes:
            return [[0] * self.grid.n_columns]
        if self.alpha_units is not None:
            return self._logistic_bits()
        rows = tuple((tuple(r.g), r.weight) for r in self.core)
        d, targets = self.grid.n_columns, self.weighted_targets
        return [list(ridge_bits(rows, tuple(b), 16 * self.units, self.grid.bits, d)) for b in targets]

    def class_weights(self) -> list[float]:
        """The weight of each class: given, one, or balanced by the weights of the core rows."""
        if self.class_weight != "balanced":
            return [(self.class_weight or {}).get(c, 1.0) for c in self.classes]
        totals = [sum(r.weight for r in self.core if r.label == c) for c in self.classes]
        there = sum(t > 0 for t in totals)
        shares = [Fraction(sum(totals), there * t) if t else Fraction(1) for t in totals]
        nearest = [struct.unpack("<f", struct.pack("<I", float32_bits(s)))[0] for s in shares]
        return [min(max(w, 2.0**-16), 2.0**16) for w in nearest]

    def _logistic_bits(self) -> list[list[int]]:
        from tests.logistic_oracle import logistic_bits, spread_of

        assert self.alpha_units is not None
        weights = dict(zip(self.classes, self.class_weights(), strict=True))
        counts = [float(Fraction(weights[r.label]) * Fraction(r.weight, 16)) for r in self.core]
        positives = self.classes if len(self.classes) > 2 else self.classes[-1:]
        signs = [tuple(1 if label == c else -1 for label in self.labels) for c in positives]
        rows, how = tuple(map(tuple, self.rows)), (self.grid.bits, self.alpha_units, self.grid.n_columns)
        exponents = tuple(spread_of(rows, [r.weight for r in self.core])) if self.spread and rows else None
        return [list(logistic_bits(rows, y, tuple(counts), *how, exponents)) for y in signs]

    # -- canonical bytes, as docs/format.md says -----------------------------------------------------------------

    def to_bytes(self) -> bytes:
        tensors = self._tensors()
        blank = self._to_bytes("0" * 64, tensors)
        return self._to_bytes(hashlib.sha256(blank).hexdigest(), tensors)

    def _to_bytes(self, checksum: str, tensors: list[tuple[str, str, list[int], bytes]]) -> bytes:
        entries = ['"__metadata__":{"erasable":' + json_string(self._metadata(checksum)) + "}"]
        offset = 0
        for name, dtype, shape, data in tensors:
            sizes = ",".join(map(str, shape))
            end = offset + len(data)
            entries.append(f'"{name}":{{"dtype":"{dtype}","shape":[{sizes}],"data_offsets":[{offset},{end}]}}')
            offset = end
        header = ("{" + ",".join(entries) + "}").encode("utf-8")
        header += b" " * ((8 - len(header)) % 8)
        return struct.pack("<Q", len(header)) + header + b"".join(data for *_, data in tensors)

    def digest(self) -> str:
        return hashlib.sha256(self.to_bytes()).hexdigest()

    def _metadata(self, checksum: str) -> str:
        return "{" + ",".join(f'"{name}":{text}' for name, text in sorted(self._fields(checksum).items())) + "}"

    def _fields(self, checksum: str) -> dict[str, str]:
        scaling = self.grid.scaling
        if isinstance(scaling, tuple):
            scaling_text = "[" + ",".join(json_string(s.hex()) for s in scaling) + "]"
        else:
            scaling_text = json_value(scaling.hex() if isinstance(scaling, float) else scaling)
        return self._named_head() | {
            "alpha_units": json_value(None if self.alpha_units is None else str(self.alpha_units)),
            "bits": json_value(self.grid.bits),
            "capacity_units": json_string(str(self.units)),
            "checksum": json_string(checksum),
            "class_kind": json_value(kind(self.classes)),
            "class_weight": self._class_weight(),
            "classes": "[" + ",".join(json_string(plain_text(c)) for c in self.classes) + "]",
            "classes_fixed": json_value(self.fixed_classes is not None),
            "feature_map": "null",
            "feature_names": "null",
            "id_kind": json_value(kind(self.ids)),
            "intercept": json_value(self.grid.intercept),
            "n_features": json_value(self.grid.n_features),
            "order_key": json_value(None if self.order_key is None else str(self.order_key)),
            "sample_key": json_value(str(self.sample_key) if self.sample_rate else None),
            "sample_rate": json_string(self.sample_rate.hex()),
            "scaling": scaling_text,
            "subject_kind": json_value(kind(each_owner(self.subjects))),
            "threshold": json_string(self.threshold.hex()),
        }

    def _named_head(self) -> dict[str, str]:
        """The format and the members that name selection and head."""
        if self.spread:
            names = {"format": "erasable-model", "selection": "leverage", "head": "logistic-spread"}
            return {name: json_string(text) for name, text in names.items()} | {"version": json_value(2)}
        loss = "squared" if self.alpha_units is None else "logistic"
        return {"format": json_string("erasable-linear"), "loss": json_string(loss), "version": json_value(1)}

    def _class_weight(self) -> str:
        if not isinstance(self.class_weight, dict):
            return json_value(self.class_weight)
        entries = [
            f"[{json_string(plain_text(c))},{json_string(w.hex())}]" for c, w in sorted(self.class_weight.items())
        ]
        return f'{{"kind":{json_value(kind(self.class_weight))},"weights":[{",".join(entries)}]}}'

    def _tensors(self) -> list[tuple[str, str, list[int], bytes]]:
        n, d = len(self.core), self.grid.n_columns
        of_ids, of_subjects = key_tensors("ids", self.ids), key_tensors("subjects", self.subjects)
        codes = [self.classes.index(c) for c in self.labels]
        weights = self.weight_bits
        sums_with_weights, weights_of_rows = [], []
        if self.is_weighted and self.alpha_units is None:
            sums = packed("q", flat(self.weighted_class_sums))
            sums_with_weights = [
                ("weighted_gram", "I64", [d * (d + 1) // 2], packed("q", self.weighted_gram)),
                ("weighted_class_sums", "I64", [len(self.classes), d], sums),
            ]
        if self.is_weighted:
            weights_of_rows = [("row_weights", "I16", [n], packed("h", [r.weight for r in self.core]))]
        tensors = [
            ("gram", "I64", [d * (d + 1) // 2], packed("q", self.gram)),
            ("class_sums", "I64", [len(self.classes), d], packed("q", flat(self.class_sums))),
            *sums_with_weights,
            ("weights", "F32", [len(weights), d], packed("I", flat(weights))),
            ("labels", "I32", [n], packed("i", codes)),
            *row_tensors(self.rows, self.grid.n_features, self.grid.intercept, self.grid.bits),
            *weights_of_rows,
            *of_ids,
            *of_subjects,
        ]
        return sorted(tensors, key=lambda tensor: -WIDTHS[tensor[1]])  # stable


@lru_cache(maxsize=256)  # a function of these numbers alone, asked for over and over while nothing changes
def ridge_bits(
    rows: tuple[tuple[tuple[int, ...], int], ...], targets: tuple[int, ...], units: int, bits: int, d: int
) -> tuple[int, ...]:
    """Bits of the weights of weighted rows and one vector of sums."""
    H = scaled_identity(d, units)
    for g, weight in rows:
        add_outer(H, g, weight)
    return tuple(float32_bits(2**bits * z) for z in solve(H, targets))


WIDTHS = {"I64": 8, "F32": 4, "I32": 4, "I16": 2, "U16": 2, "U8": 1}


def row_tensors(rows: Sequence[Sequence[int]], n_features: int, intercept: bool, bits: int) -> list[Any]:
    """Rows whole; or, where that takes less than half the bytes, what is not zero of them, without the constant."""
    n, d = len(rows), n_features + intercept
    letter, name = ("h", "I16") if bits <= 15 else ("i", "I32")
    narrow, narrow_name = ("B", "U8") if n_features < 256 else ("H", "U16") if n_features < 65_536 else ("i", "I32")
    entries = [[(j, v) for j, v in enumerate(g[:n_features]) if v] for g in rows]
    lengths, m = [len(e) for e in entries], sum(map(len, entries))
    whole = packed(letter, flat(rows))
    less = [
        ("rows.lengths", narrow_name, [n], packed(narrow, lengths)),
        ("rows.columns", narrow_name, [m], packed(narrow, [j for e in entries for j, _ in e])),
        ("rows.values", name, [m], packed(letter, [v for e in entries for _, v in e])),
    ]
    return less if 2 * sum(len(data) for *_, data in less) < len(whole) else [("rows", name, [n, d], whole)]


def key_tensors(name: str, keys: Sequence[Any]) -> list[Any]:
    """Tensors that hold ids or subjects: numbers, or ends and text; None only among subjects."""
    known = [k for k in keys if k is not None]
    if not known:
        return []
    if any(isinstance(k, tuple) for k in known):
        lengths = packed("i", [len(each_owner([k])) for k in keys])
        return [(f"{name}.lengths", "I32", [len(keys)], lengths), *key_tensors(name, each_owner(keys))]
    n, present = len(keys), []
    if len(known) < n:
        present.append((f"{name}.present", "U8", [n], bytes(k is not None for k in keys)))
    if isinstance(known[0], int):
        return [*present, (name, "I64", [n], packed("q", [0 if k is None else k for k in keys]))]
    texts = [b"" if k is None else k.encode("utf-8") if isinstance(k, str) else k for k in keys]
    ends = [sum(len(t) for t in texts[: i + 1]) for i in range(n)]
    blob = b"".join(texts)
    return [*present, (f"{name}.ends", "I64", [n], packed("q", ends)), (name, "U8", [len(blob)], blob)]


def owners(given: Any) -> Any:
    """Whose a row is, as it came: one subject or a collection of them, in which None and empty texts are nobody."""
    if not isinstance(given, list | tuple | set):
        return None if given in ("", b"") else given
    distinct = sorted({s for s in given if s not in (None, "", b"")})
    return tuple(distinct) if len(distinct) > 1 else distinct[0] if distinct else None


def each_owner(subjects: Iterable[Any]) -> list[Any]:
    return [s for of_row in subjects for s in (of_row if isinstance(of_row, tuple) else [of_row]) if s is not None]


def packed(code: str, values: Sequence[int]) -> bytes:
    return struct.pack(f"<{len(values)}{code}", *values)


def flat(rows: Iterable[Iterable[int]]) -> list[int]:
    return [v for row in rows for v in row]


def kind(values: Iterable[Any]) -> str | None:
    return next((type(v).__name__ for v in values if v is not None), None)


def plain_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, float | bytes) else str(value)


def json_value(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    return json_string(value) if isinstance(value, str) else str(value)


def json_string(text: str) -> str:
    """RFC 8785: only the quote, the backslash and control characters are escaped, the short way where there is one."""
    return f'"{text.translate(ESCAPED)}"'


SHORT = {"\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
ESCAPED = str.maketrans({chr(i): f"\\u{i:04x}" for i in range(32)} | SHORT)
