"""Certified logistic functions: in two words of float64, and to any precision with flint's balls.

*Two words.* ``e^-t`` is an entry of a table, ``e^(-k/256)``, times a short series; only sums, products, quotients and
exact roundings are used, never a library's exponential, so every machine has the same bits. A number is an unevaluated
sum ``high + low`` of two float64.

*Balls* settle what two words could not round. The point is kept as big integers over a power of two, so its margins
are exact; sigmoids come from ball arithmetic, rounded down to multiples of ``2**-K``; sums of them are exact again, and
``|v - v*| <= (|gradient| + 2 R sum of c_i 2**-K) / alpha`` for rows no longer than R. Newton steps with a factor of
float64 add some thirty bits each. Where they do not approach the minimiser, steps with a Hessian of integers do, from
any point: each as long as is sure to lead down.

:func:`settle_in_balls` writes the entries it settles into the arrays it is given; all else is pure.
"""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from erasable.core.arrays import Booleans, Float32s, Float64s
from erasable.core.newton import Factor, Problems, length_along
from erasable.core.sums import to_float32

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


_FIRST_BITS = 128
_FINER = 32  # how many more bits points have than sigmoids: rounding a point is no obstacle
_GRAM_ROWS = 64  # whose products with each other are summed in float64


def settle_in_balls(
    problem: Problems, w: Float64s, factor: Factor, published: Float32s, settled: Booleans, q: int
) -> None:
    """Write the published float32 of every entry that is not settled.

    Parameters
    ----------
    w : array of shape (d,)
        A point; the nearer to the minimiser, the faster.
    factor : Factor
        Of about the Hessian there; only speed depends on it.
    published, settled : arrays of shape (d,)

    Notes
    -----
    *Law*: it ends from any point, with any factor, for any problem without a tie; docs/exactness.md says why there is
    none.
    *Cost*: a step is n sigmoids of K bits, some microseconds each; one with a Hessian of integers also some ten Gram
    matrices in float64 and a system of equations in big floats.
    """
    precision, fresh, exact = _FIRST_BITS, False, False
    start = w if problem.better_than_nothing(w) else np.zeros_like(w)
    current = _Place.at(problem, _integers(start, precision + _FINER), precision)
    while True:
        _settle(current, published, settled, q)
        if settled.all():
            return
        if current.length < 4 * current.noise:
            current = _Place.at(problem, [x << precision for x in current.W], 2 * precision)
            precision *= 2
            continue
        moved = _Place.at(problem, current.after(current.newton_step() if exact else current.step(factor)), precision)
        if exact or 4 * moved.length <= current.length:
            current = moved
        elif fresh:
            exact = True
        else:
            factor, fresh = problem.factor(current.float_margins(), double=True), True


@dataclass(frozen=True)
class _Place:
    """A point ``v = W / 2**e``, its exact margins, and its gradient over ``2**scale``."""

    problem: Problems
    W: list[int]
    e: int
    margins: list[int]
    gradient: list[int]
    scale: int
    length: Fraction  # of the gradient, rounded up
    noise: Fraction  # how far the gradient may be from the true one

    @classmethod
    def at(cls, problem: Problems, W: list[int], precision: int) -> _Place:
        """With sigmoids of so many bits."""
        e, bits, of_column = precision + _FINER, problem.bits, problem.exponents.tolist()
        margins = _margins(problem, [x << (bits - k) for x, k in zip(W, of_column, strict=True)])
        gradient, scale = _gradient(problem, W, e, margins, precision)
        length = Fraction(math.isqrt(sum(g * g for g in gradient)) + 1, 2**scale)
        noise = 2 * Fraction(problem.reach) * _at_most(problem.counts) / 2**precision
        return cls(problem, W, e, margins, gradient, scale, length, noise)

    def after(self, step: list[Fraction]) -> list[int]:
        """The point after a step, given in units of the gradient's, shortened where its whole length may lead up."""
        s, share = np.array([-float(x / 2**self.scale) for x in step]), 1.0
        along = self.problem.margins_and_gradient(s[:, None])[0][:, 0]
        reach = float(np.abs(along).max())
        if reach > 1.0:  # this much is sure to lead down, and further along a line search may
            share = math.log1p(reach) / reach
            w, g = (
                np.array([_ratio(x, e) for x in numbers])
                for numbers, e in ((self.W, self.e), (self.gradient, self.scale))
            )
            if -float(g @ s) > 2.0**-44 * float(self.problem.counts @ np.abs(along)):
                share = max(share, length_along(self.problem, w, s, self.float_margins(), self.float_margins() + along))
        times = Fraction(share) * Fraction(2) ** (self.e - self.scale)
        return [x - round(times * v) for x, v in zip(self.W, step, strict=True)]

    def float_margins(self) -> Float64s:
        """Margins as float64, those of the labels' signs."""
        return np.array([_ratio(m, self.problem.bits + self.e) for m in self.margins]) * self.problem.signs[:, 0]

    def step(self, factor: Factor) -> list[Fraction]:
        """About ``H^-1 g``, by a factor of about ``H``; in units of the gradient's."""
        top = max(abs(g).bit_length() for g in self.gradient)
        s = factor.solve(np.array([_ratio(v, top) for v in self.gradient]))
        return [Fraction(float(x)) * 2**top for x in s]

    def newton_step(self) -> list[Fraction]:
        """``H^-1 g`` but for some ``2**-32`` of it: sigmoids of ``H`` are rounded down, and its inverse is rounded."""
        from flint import arb_mat, ctx, fmpz_mat  # only here: hardly ever needed

        problem = self.problem
        longest = Fraction(problem.reach) ** 2 * _at_most(problem.counts)
        K = 32 + math.ceil(longest * 4**problem.bits / problem.units).bit_length()
        P = _sigmoids(self.margins, problem.bits + self.e, K)
        bends = [int(Fraction(float(c)) * p * (2**K - p)) >> K for c, p in zip(problem.counts, P, strict=True)]
        H = _gram(problem, bends)
        for j in range(len(H)):
            H[j][j] += problem.units << K
        times, before = 4**problem.bits << K, ctx.prec
        try:
            ctx.prec = 3 * K  # many more bits than H is ill-conditioned by
            g = arb_mat(fmpz_mat([[times * v] for v in self.gradient]))
            found = [x.mid().man_exp() for x in arb_mat(fmpz_mat(H)).solve(g, algorithm="approx").entries()]
        finally:
            ctx.prec = before
        return [Fraction(int(mantissa)) * Fraction(2) ** int(exponent) for mantissa, exponent in found]


def _settle(place: _Place, published: Float32s, settled: Booleans, q: int) -> None:
    """Publish the entries for which both ends of their enclosure are one float32."""
    radius = (place.length + place.noise) * 4**place.problem.bits / place.problem.units
    stretch = (2 ** (place.problem.bits - k) for k in place.problem.exponents.tolist())
    for j, times in enumerate(stretch):
        if settled[j]:
            continue
        low, high = (_published((Fraction(place.W[j], 2**place.e) + end) * times, q) for end in (-radius, radius))
        if low == high:
            published[j], settled[j] = low, True


def _at_most(counts: Float64s) -> Fraction:
    """A bound on the sum of these numbers."""
    return Fraction(math.nextafter(math.fsum(counts), math.inf))


def _published(value: Fraction, q: int) -> np.float32:
    return to_float32(Fraction(round(value * 2**q), 2**q))


def _ratio(numerator: int, exponent: int) -> float:
    """``numerator / 2**exponent``, whatever their size."""
    excess = max(numerator.bit_length() - 64, 0)
    return math.ldexp(float(numerator >> excess), excess - exponent)


def _integers(w: Float64s, e: int) -> list[int]:
    return [round(Fraction(float(x)) * 2**e) for x in w]


def _digits(values: list[int], bits: int) -> list[Float64s]:
    """Arrays whose entries, with weights ``1, 2**bits, 4**bits, ...``, sum to the values; signs in every digit."""
    signs = np.array([-1.0 if v < 0 else 1.0 for v in values])
    sizes = np.array([abs(v) for v in values], dtype=object)
    count = max(1, -(-max((abs(v).bit_length() for v in values), default=1) // bits))
    mask = (1 << bits) - 1
    return [((sizes >> (bits * t)) & mask).astype(np.float64) * signs for t in range(count)]


def _margins(problem: Problems, W: list[int]) -> list[int]:
    """``g_i . W`` exactly."""
    size = 53 - problem.bits - (len(W).bit_length() + 1) // 2 - 1  # a vector of digits is shorter than 2**(53 - bits)
    digits = np.stack(_digits(W, size), axis=1)
    out: list[int] = []
    for _, X in problem.rows:
        products = (X @ digits).astype(np.int64).astype(object)
        whole = products[:, -1]
        for t in range(digits.shape[1] - 2, -1, -1):
            whole = (whole << size) + products[:, t]
        out += [int(v) for v in whole]
    return out


def _gradient(problem: Problems, W: list[int], e: int, margins: list[int], precision: int) -> tuple[list[int], int]:
    """The gradient over ``2**scale``, exact but for sigmoids that are each less than ``2 * 2**-precision`` off."""
    bits, piece = problem.bits, min(28, 43 - problem.bits)
    signs = [int(y) for y in problem.signs[:, 0]]
    P = _sigmoids([-m * y for m, y in zip(margins, signs, strict=True)], bits + e, precision)
    ratios = [float(c).as_integer_ratio() for c in problem.counts]
    below = max(b.bit_length() - 1 for _, b in ratios)
    V = [y * p * (a << below) // b for (a, b), p, y in zip(ratios, P, signs, strict=True)]
    digits = np.stack(_digits(V, piece), axis=1)
    sums = np.zeros((problem.rows.d, digits.shape[1]), dtype=np.int64)
    for where, X in problem.rows:
        sums += (X.T @ digits[where]).astype(np.int64)
    scale = max(2 * bits + e, bits + precision + below)
    gradient = []
    for w, line, k in zip(W, sums.tolist(), problem.exponents.tolist(), strict=True):
        total = 0
        for digit in reversed(line):
            total = (total << piece) + digit
        gradient.append((problem.units * w << (scale - 2 * bits - e)) - (total << (scale - k - precision - below)))
    return gradient, scale


def _gram(problem: Problems, weights: list[int]) -> list[list[int]]:
    """``sum of weights_i b_i b_i'`` exactly, in units of ``4**-bits``."""
    n, d, rows = problem.rows.n, problem.rows.d, _GRAM_ROWS
    piece = min(53 - rows.bit_length(), 63 - n.bit_length()) - 2 * problem.bits
    digits = _digits(weights, piece)
    sums = [np.zeros((d, d), dtype=np.int64) for _ in digits]
    for where, X in problem.rows:
        for low in range(0, X.shape[0], rows):
            part = X[low : low + rows] if isinstance(X, np.ndarray) else X[low : low + rows].toarray()
            for total, digit in zip(sums, digits, strict=True):
                total += (part.T @ (part * digit[where][low : low + rows, None])).astype(np.int64)
    whole = sums[-1].astype(object)
    for total in reversed(sums[:-1]):
        whole = (whole << piece) + total
    shifts = problem.bits - problem.exponents
    lines: list[list[int]] = (whole << (shifts[:, None] + shifts).astype(object)).tolist()
    return lines


def _sigmoids(numerators: list[int], exponent: int, precision: int) -> list[int]:
    """About ``floor(2**precision sigma(v / 2**exponent))``: less than two units off."""
    from flint import arb, ctx  # only here: hardly ever needed

    before = ctx.prec
    try:
        ctx.prec = precision + 128  # arguments below 2**64 lose no more than 64 bits
        unit, one = arb(2) ** -exponent, arb(1) * 2**precision
        return [int((one / (1 + (-(arb(v) * unit)).exp())).mid().floor().fmpz()) for v in numerators]
    finally:
        ctx.prec = before
