"""The logistic function in two words of float64, with a proven error and the same bits on every machine.

``e^-t`` is an entry of a table, ``e^(-k/256)``, times a short series; only sums, products, quotients and exact
roundings are used, never a library's exponential. A number is an unevaluated sum ``high + low`` of two float64.

Changes nothing it is given; the table is made when first asked for.
"""

from __future__ import annotations

import functools

import numpy as np

from erasable.core.arrays import Float64s

Pair = tuple[Float64s, Float64s]

SIGMOID_ERROR = 2.0**-76  # relative to the smaller of sigma(t) and sigma(-t)
FARTHEST = 128.0  # beyond this sigma(-t) is taken to be sigma(-128), which is below TINY
TINY = 2.0**-184
_STEPS = 256  # of the table, per unit


def two_sum(a: Float64s, b: Float64s) -> Pair:
    """``a + b`` exactly, as its rounding and what that left out (Knuth)."""
    s = a + b
    v = s - a
    return s, (a - (s - v)) + (b - v)


def fast_two_sum(a: Float64s, b: Float64s) -> Pair:
    """The same where ``|a| >= |b|`` (Dekker)."""
    s = a + b
    return s, b - (s - a)


def _halves(a: Float64s) -> Pair:
    """``a`` as a sum of two numbers of 26 bits (Veltkamp)."""
    c = a * 134217729.0  # 2**27 + 1
    high = c - (c - a)
    return high, a - high


def two_product(a: Float64s, b: Float64s) -> Pair:
    """``a * b`` exactly, as its rounding and what that left out (Dekker), far from overflow and underflow."""
    p = a * b
    a1, a2 = _halves(a)
    b1, b2 = _halves(b)
    return p, ((a1 * b1 - p) + a1 * b2 + a2 * b1) + a2 * b2


@functools.cache
def _table() -> Pair:
    """``e^(-k/256)`` for k = 0, ..., 128 * 256, right to ``2**-100`` of itself."""
    from flint import arb, ctx  # only where logistic weights are computed

    def words(steps: int, count: int) -> Pair:
        before = ctx.prec
        try:
            ctx.prec = 256
            values = [(arb(-k) / steps).exp() for k in range(count)]
            high = [float(v.mid()) for v in values]
            low = [float((v - h).mid()) for v, h in zip(values, high, strict=True)]
        finally:
            ctx.prec = before
        return np.array(high), np.array(low)

    (a, a_low), (b, b_low) = words(1, int(FARTHEST) + 1), words(_STEPS, _STEPS)
    high, low = two_product(a[:, None], b)
    low = low + (a[:, None] * b_low + a_low[:, None] * b)
    high, low = fast_two_sum(high, low)
    return high.ravel(), low.ravel()


def exponential(t: Float64s) -> Pair:
    """``e^-t`` for ``0 <= t <= 128``, in two words.

    *Law*: right to ``2**-77`` of itself. With ``k = rint(256 t)`` the difference ``r = k/256 - t`` is exact and at most
    ``2**-9``. ``e^r = 1 + r + r^2/2 + r^3 (1/6 + r/24 + r^2/120 + r^3/720 + r^4/5040)`` up to ``2**-87``; the cubic
    part is below ``2**-29.5`` and is computed to 8 roundings, ``2**-79.5``; adding it rounds by less than ``2**-80``;
    the rest is exact or rounds below ``2**-100``.
    """
    k = np.rint(t * float(_STEPS))
    r = k * (1.0 / _STEPS) - t
    square, square_low = two_product(r, r)
    series = ((r * (1.0 / 5040.0) + 1.0 / 720.0) * r + 1.0 / 120.0) * r + 1.0 / 24.0
    cubic = (series * r + 1.0 / 6.0) * r * square
    high, low = fast_two_sum(np.ones_like(r), r)
    high, rest = fast_two_sum(high, 0.5 * square)
    high, low = fast_two_sum(high, cubic + (low + rest + 0.5 * square_low))
    table, table_low = (words.take(k.astype(np.intp)) for words in _table())
    product, product_low = two_product(high, table)
    return fast_two_sum(product, product_low + (high * table_low + low * table))


def smaller_sigmoid(t: Float64s) -> Pair:
    """``sigma(-t) = e^-t / (1 + e^-t)`` for ``t >= 0``, in two words.

    *Law*: right to ``SIGMOID_ERROR`` of itself up to t = 128, and to ``TINY`` beyond.
    *Cost*: about a hundred operations an entry.
    """
    x, x_low = exponential(np.minimum(t, FARTHEST))
    y, y_low = fast_two_sum(np.ones_like(x), x)
    y_low = y_low + x_low
    quotient = x / y
    product, product_low = two_product(quotient, y)
    rest = ((x - product) - product_low) + (x_low - quotient * y_low)
    return fast_two_sum(quotient, rest / y)
