"""Logistic weights to any precision: what two words of float64 could not round is settled with flint's balls.

The point is kept as big integers over a power of two, so its margins are exact; sigmoids come from ball arithmetic,
rounded down to multiples of ``2**-K``; sums of them are exact again. Newton steps with a factor of float64 add some
thirty bits each, and ``|w - w*| <= (|gradient| + 2 sum of c_i 2**-K) / alpha``.

:func:`settle_in_balls` writes the entries it settles into the arrays it is given; all else is pure.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from erasable.core.arrays import Booleans, Float32s, Float64s
from erasable.core.newton import Factor, Problems
from erasable.core.weights import to_float32
from erasable.errors import ConfigurationError, ExactnessError

MOST_BITS = 4096
_STEPS = 400  # in all


def settle_in_balls(
    problem: Problems, w: Float64s, factor: Factor, published: Float32s, settled: Booleans, q: int
) -> None:
    """Write the published float32 of every entry that is not settled.

    Parameters
    ----------
    w : array of shape (d,)
        A point near the minimiser.
    factor : Factor
        Of about the Hessian there; only speed depends on it.
    published, settled : arrays of shape (d,)

    Raises
    ------
    ExactnessError
        When 4096 bits cannot tell an entry from a tie.
    ConfigurationError
        When the steps do not approach the minimiser.

    Notes
    -----
    *Cost*: a step is n sigmoids of K bits, some microseconds each.
    """
    precision, last, steps = 128, math.inf, 0
    W, e = _integers(w, precision), precision
    alpha = Fraction(problem.units, 4**problem.bits)
    total = sum((Fraction(float(c)) for c in problem.counts), Fraction(0))
    while precision <= MOST_BITS:
        margins = _margins(problem, W)
        gradient, scale = _gradient(problem, W, e, margins, precision)
        length = Fraction(math.isqrt(sum(g * g for g in gradient)) + 1, 2**scale)
        noise = 2 * total / 2**precision
        radius = (length + noise) / alpha
        for j in np.flatnonzero(~settled):
            low, high = (_published(Fraction(W[j], 2**e) + end, q) for end in (-radius, radius))
            if low == high:
                published[j], settled[j] = low, True
        if settled.all():
            return
        if length < 4 * noise:
            precision *= 2
            W, e, last = [x << precision // 2 for x in W], precision, math.inf
            continue
        size = math.log2(length)
        if size > last - 2.0:
            approximate = np.array([_ratio(m, problem.bits + e) for m in margins])
            factor = problem.factor(approximate * problem.signs[:, 0], double=True)
        if steps == _STEPS:
            break
        last, steps = size, steps + 1
        W = [x - s for x, s in zip(W, _step(factor, gradient, scale, e), strict=True)]
    if precision > MOST_BITS:
        raise ExactnessError(
            f"a logistic weight lies so near to a rounding boundary that {MOST_BITS} bits do not tell its side: "
            "change alpha by a little."
        )
    raise ConfigurationError(
        f"no minimum was found with alpha = {problem.alpha:.3g}: the rows determine the weights too poorly for so "
        "small an alpha; raise it."
    )


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
    for w, line in zip(W, sums.tolist(), strict=True):
        total = 0
        for digit in reversed(line):
            total = (total << piece) + digit
        gradient.append((problem.units * w << (scale - 2 * bits - e)) - (total << (scale - bits - precision - below)))
    return gradient, scale


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


def _step(factor: Factor, gradient: list[int], scale: int, e: int) -> list[int]:
    """``H^-1 g`` over ``2**e``, about."""
    top = max(abs(g).bit_length() for g in gradient)
    g = np.array([_ratio(v, top) for v in gradient])
    s = factor.solve(g)
    return [round(Fraction(float(x)) * Fraction(2) ** (top - scale + e)) for x in s]
