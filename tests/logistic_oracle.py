"""The oracle of logistic weights, in ball arithmetic: slow, obvious, and without anything from the package.

It follows the definition: entry j is the float32 nearest to ``rint(2**q w_j) / 2**q``, where w minimises
``sum of lambda_j/2 w_j^2 + sum of c_i log(1 + exp(-y_i w'x_i))`` with ``x_i = g_i / 2**bits`` and
``q = 24 + max(0, ceil(log2 alpha))``. Every lambda_j is alpha, or ``alpha 4**(e_j - bits)`` by the column's spread.
Newton's method finds some w; the function is strongly convex, so the minimiser is no farther than the gradient's length
over the smallest lambda, and the gradient at that w is enclosed by balls. Where that does not decide an entry, the
precision doubles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from flint import arb, arb_mat, ctx, fmpq

from tests.oracle import float32_bits


def digits_after_the_point(alpha: Fraction) -> int:
    """``q``."""
    q = 24
    while Fraction(2) ** (q - 24) < alpha:
        q += 1
    return q


def spread_of(rows: Sequence[Sequence[int]], weights: Sequence[int] | None = None) -> list[int]:
    """The largest e >= 0 with ``4**e <= variance`` for each column of integers, and 0 where the variance is below 1."""
    found, often = [], [1] * len(rows) if weights is None else weights
    for column in zip(*rows, strict=True):
        weighted = [(int(g), int(s)) for g, s in zip(column, often, strict=True)]
        mean = Fraction(sum(g * s for g, s in weighted), sum(often))
        variance = sum((g - mean) ** 2 * s for g, s in weighted) / sum(often)
        e = 0
        while 4 ** (e + 1) <= variance:
            e += 1
        found.append(e)
    return found


def published(value: Fraction, q: int) -> int:
    """The 32 bits published for a weight that is known exactly."""
    return float32_bits(Fraction(round(value * 2**q), 2**q))


class LogisticOracle:
    """One problem: rows of integers, signs, weights of rows, the number of bits and ``alpha * 4**bits``."""

    def __init__(
        self,
        rows: Sequence[Sequence[int]],
        signs: Sequence[int],
        counts: Sequence[float],
        bits: int,
        units: int,
        exponents: Sequence[int] | None = None,
    ) -> None:
        self.rows = [[Fraction(int(y) * int(g), 2**bits) for g in row] for row, y in zip(rows, signs, strict=True)]
        self.counts = [Fraction(float(c)) for c in counts]
        self.alpha = Fraction(int(units), 4**bits)
        self.of_column = None if exponents is None else [self.alpha / 4 ** (bits - e) for e in exponents]

    def regularisers(self, d: int) -> list[Any]:
        """The lambda of each column as a ball."""
        return [ball(x) for x in self.of_column or [self.alpha] * d]

    def weights(self, d: int, precision: int = 320) -> list[int]:
        """The published bits of each of the d weights."""
        q = digits_after_the_point(self.alpha)
        before = ctx.prec
        try:
            w = [arb(0)] * d
            while True:
                w, radius = self.enclosure(w, precision)
                ends = [[published(x + s * radius, q) for s in (-1, 1)] for x in map(as_fraction, w)]
                if all(low == high for low, high in ends):
                    return [low for low, _ in ends]
                precision *= 2
                assert precision < 10**4, "a tie"
        finally:
            ctx.prec = before

    def minimiser(self, d: int, precision: int = 320) -> tuple[list[Fraction], Fraction]:
        """A rational point and a bound on its distance from the minimiser."""
        before = ctx.prec
        try:
            w, radius = self.enclosure([arb(0)] * d, precision)
        finally:
            ctx.prec = before
        return [as_fraction(x) for x in w], radius

    def gradient(self, w: Sequence[Fraction], precision: int = 320) -> list[Fraction]:
        """The gradient at a rational point, to about so many bits."""
        before = ctx.prec
        try:
            ctx.prec = precision
            rows, counts = [[ball(x) for x in row] for row in self.rows], [ball(c) for c in self.counts]
            found, _ = self._derivatives(rows, counts, self.regularisers(len(w)), [ball(x) for x in w])
        finally:
            ctx.prec = before
        return [as_fraction(g) for g in found]

    def enclosure(self, w: list[Any], precision: int) -> tuple[list[Any], Fraction]:
        """A point, of balls without width, and a bound on its distance from the minimiser: some half of the bits."""
        ctx.prec = precision
        rows, counts = [[ball(x) for x in row] for row in self.rows], [ball(c) for c in self.counts]
        of_column, least = self.regularisers(len(w)), ball(min(self.of_column or [self.alpha]))
        for _ in range(1000):
            gradient, hessian = self._derivatives(rows, counts, of_column, w)
            radius = as_fraction((sum((g.abs_upper() for g in gradient), arb(0)) / least).abs_upper())
            if radius < Fraction(1, 2 ** (precision // 2)):
                return w, radius
            step = arb_mat(len(w), len(w), [h.mid() for line in hessian for h in line]).solve(
                arb_mat(len(w), 1, [g.mid() for g in gradient])
            )
            s = [step[j, 0].mid() for j in range(len(w))]
            reach = max((abs(float(dot(row, s))) for row in rows), default=0.0)
            damping = math.log1p(reach) / reach if reach > 1e-3 else 1.0
            w = [(x - damping * t).mid() for x, t in zip(w, s, strict=True)]
        raise AssertionError("no convergence")

    @staticmethod
    def _derivatives(rows: Any, counts: Any, of_column: Any, w: list[Any]) -> tuple[list[Any], list[list[Any]]]:
        d = len(w)
        gradient = [alpha * x for alpha, x in zip(of_column, w, strict=True)]
        hessian = [[of_column[i] if i == j else arb(0) for j in range(d)] for i in range(d)]
        for row, c in zip(rows, counts, strict=True):
            p = 1 / (1 + dot(row, w).exp())
            for i in range(d):
                gradient[i] -= c * p * row[i]
                for j in range(d):
                    hessian[i][j] += c * p * (1 - p) * row[i] * row[j]
        return gradient, hessian


@lru_cache(maxsize=256)  # a function of these numbers alone, asked for over and over while nothing changes
def logistic_bits(
    rows: tuple[tuple[int, ...], ...],
    signs: tuple[int, ...],
    counts: tuple[float, ...],
    bits: int,
    units: int,
    d: int,
    exponents: tuple[int, ...] | None = None,
) -> tuple[int, ...]:
    """The published bits of the weights of one problem."""
    return tuple(LogisticOracle(rows, signs, counts, bits, units, exponents).weights(d))


def degenerate_problem(seed: int) -> tuple[Any, Any, Any, int, int]:
    """Rows, signs, counts, bits and units: rows in few directions, much weight, little alpha; the same anywhere."""
    rng = np.random.default_rng([11, seed])
    bits, n, d = int(rng.choice([8, 15, 15, 20])), int(rng.integers(2, 40)), int(rng.integers(1, 5))
    most = 2 ** (bits - 2)
    rows = rng.integers(-most // 4, most // 4 + 1, (2, d))[rng.integers(0, 1 + seed % 2, n, endpoint=False)]
    rows *= rng.integers(-3, 4, (n, 1))
    kind = rng.integers(4)
    if kind == 0:  # nearly on a line
        rows += rng.integers(-2, 3, (n, d))
    elif kind == 1:  # most of them
        rows[: n // 5] = rng.integers(-most, most, (n // 5, d))
    elif kind == 2:  # one row over and over
        rows[:] = rows[0]
    if rng.integers(2):
        rows = np.hstack([rows, np.full((n, 1), most)])
    signs, counts = rng.choice([-1, 1], n), np.ones(n)
    if rng.integers(2):
        counts = np.where(signs > 0, 1.0, 2.0 ** rng.integers(-16, 17)) * rng.integers(1, 257, n) / 16.0
    units = max(1, 4**bits >> int(rng.integers(6, 45)))
    return rows.astype(np.int16 if bits < 16 else np.int32), signs, counts, bits, units


SPREADS = [
    *("plain", "one row", "two rows", "one class", "duplicates", "much weight", "separable", "offset", "constant"),
    *("tiny next to large", "steps of one", "all equal", "a rare column"),
]


def spread_problem(seed: int) -> tuple[Any, Any, Any, int, int]:
    """Rows, signs, counts, bits and units, with columns of unlike spreads: the same anywhere."""
    rng, kind = np.random.default_rng([12, seed]), SPREADS[seed % len(SPREADS)]
    bits, d = int(rng.choice([8, 15, 15, 20])), int(rng.integers(1, 5))
    n = {"one row": 1, "two rows": 2}.get(kind, int(rng.integers(3, 30)))
    most = 2 ** (bits - 2)
    sizes = np.maximum(1, most >> rng.integers(0, bits - 2, d))
    rows = rng.integers(-sizes, sizes + 1, (n, d))
    match kind:
        case "duplicates":
            rows = rows[rng.integers(0, 2, n)]
        case "offset":
            rows = np.full((n, d), most) - rng.integers(0, 4, (n, d)) * (rng.random(d) < 0.7)
        case "constant":
            rows[:, 0] = most
        case "tiny next to large":
            rows[:, 0] = rng.integers(-1, 2, n)
            rows[:, -1] = rng.integers(-most, most, n)
        case "steps of one":
            rows = rng.integers(0, 2, (n, d))
        case "all equal":
            rows[:] = rows[0]
        case "a rare column":
            rows[1:, 0] = 0
    if rng.integers(2):
        rows = np.hstack([rows, np.full((n, 1), most)])
    signs, counts = rng.choice([-1, 1], n), np.ones(n)
    if kind == "one class":
        signs[:] = 1
    if kind == "separable":
        signs = np.where(rows[:, 0] > 0, 1, -1)
    if kind == "much weight" or rng.integers(3) == 0:
        counts = np.where(signs > 0, 1.0, 2.0 ** rng.integers(-16, 17)) * rng.integers(1, 257, n) / 16.0
    units = int(rng.choice([1, 4**bits >> 8, 4**bits >> 3, 4**bits, 4**bits, 4**bits << 6]))
    return rows.astype(np.int16 if bits < 16 else np.int32), signs, counts, bits, units


def dot(a: Sequence[Any], b: Sequence[Any]) -> Any:
    return sum((x * y for x, y in zip(a, b, strict=True)), arb(0))


def ball(value: Fraction) -> Any:
    return arb(fmpq(value.numerator, value.denominator))


def as_fraction(x: Any) -> Fraction:
    """A ball without width as a rational."""
    mantissa, exponent = x.mid().man_exp()
    return Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
