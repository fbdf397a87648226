"""Kernel selection, slow and obvious: decimal kernel values, rational pivots. Imports nothing from the package."""

from __future__ import annotations

from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

CONTEXT = Context(prec=80)
UNITS = 2**30


def points(rows, bits, scaling=None):
    """Rows as integer points; ``scaling`` divides the columns."""
    scales = scaling if isinstance(scaling, (list, tuple)) else None
    out = []
    for row in rows:
        divided = [float(v) / (scales[j] if scales else (scaling or 1.0)) for j, v in enumerate(row)]
        out.append([round(Fraction(v) * 2**bits) for v in divided])
    return out


def kernel(p, q, bits, *, name, gamma=1.0, nu=1.5, degree=3, coef0=1.0):
    """The integer nearest to ``2**30 k(p, q)``."""
    unit = Fraction(1, 4**bits)
    if name in ("poly", "linear"):
        inner = sum(a * b for a, b in zip(p, q, strict=True)) * unit
        value = inner if name == "linear" else (Fraction(gamma) * inner + Fraction(coef0)) ** degree
        return round(UNITS * value)
    square = sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) * unit
    if name == "rbf":
        value = CONTEXT.exp(-_decimal(Fraction(gamma) * square))
    else:
        t = CONTEXT.sqrt(_decimal(Fraction(gamma) ** 2 * int(2 * nu) * square))
        factor = {0.5: Decimal(1), 1.5: CONTEXT.add(1, t)}.get(nu)
        if factor is None:
            factor = CONTEXT.add(CONTEXT.add(1, t), CONTEXT.divide(CONTEXT.multiply(t, t), Decimal(3)))
        value = CONTEXT.multiply(factor, CONTEXT.exp(-t))
    return int(CONTEXT.multiply(value, Decimal(UNITS)).to_integral_value(rounding=ROUND_HALF_EVEN))


def _decimal(value):
    return CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def solve(A, b):
    """Gaussian elimination in rationals."""
    n = len(A)
    M = [[Fraction(v) for v in row] + [Fraction(w)] for row, w in zip(A, b, strict=True)]
    for i in range(n):
        pivot = next(r for r in range(i, n) if M[r][i] != 0)
        M[i], M[pivot] = M[pivot], M[i]
        for r in range(n):
            if r != i and M[r][i] != 0:
                f = M[r][i] / M[i][i]
                M[r] = [a - f * c for a, c in zip(M[r], M[i], strict=True)]
    return [M[i][n] / M[i][i] for i in range(n)]


def select(P, bits, units, tau, **options):
    """Positions kept by the literal single pass: D^2(x; Q) > tau."""
    kept = []
    for i, p in enumerate(P):
        k = [kernel(P[j], p, bits, **options) for j in kept]
        itself = kernel(p, p, bits, **options)
        reduction = Fraction(0)
        if kept:
            H = [[kernel(P[a], P[b], bits, **options) + (units if a == b else 0) for b in kept] for a in kept]
            reduction = sum(a * b for a, b in zip(k, solve(H, k), strict=True))
        if (itself - reduction) / units > Fraction(tau):
            kept.append(i)
    return kept
