"""Products, cosines and exponentials whose every bit is the same for a row alone, in a batch, and on any machine.

A product by BLAS sums in an order that depends on the shape of the batch and on the processor, and the cosine and the
exponential of NumPy differ in the last bit between processors. After rounding to the grid such a bit is nearly always
gone, but not always, and then a refit of the same rows would have another digest. So here

- products are split into parts whose products with integer weights are integers below ``2**53``: no operation rounds,
  so order, threads and fused multiply-add make no difference;
- everything else is additions, multiplications, divisions, roots and roundings entry by entry, each correctly
  rounded as IEEE 754 has it.

Pure, but for :func:`solve_lower`, which overwrites its rows.
"""

from __future__ import annotations

import math

import numpy as np

from erasable.core.arrays import Float64s
from erasable.core.sums import few_threads

WEIGHT_BITS = 20  # integer weights are at most 2**20 in size
_KEPT_BITS = 46  # a row's entries are used to this many bits below its largest, or more
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(11)]  # Taylor, enough for |u| <= pi / 2
_EXPONENTIAL = [1 / math.factorial(k) for k in range(15)]  # Taylor, enough for |r| <= log(2) / 2
# log(2) in two parts, the first with so few bits that its products with small integers are exact.
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")
_PER_LN2 = 1.4426950408889634


def product(X: Float64s, W: Float64s) -> Float64s:
    """``X @ W`` for weights that are integers of size at most ``2**20``.

    Entries of ``X`` are cut off ``_KEPT_BITS`` or more bits below the largest of their row; what is left is multiplied
    without error and rounded when the parts are put together.

    *Law*: row ``i`` of the result depends on row ``i`` of ``X`` and on ``W`` alone, bitwise.
    *Cost*: two products by BLAS, three for more than 1,024 features.
    """
    bits = 53 - WEIGHT_BITS - (X.shape[1] - 1).bit_length()
    _, exponent = np.frexp(np.max(np.abs(X), axis=1, initial=0.0))
    rest = np.ldexp(X, (bits - exponent)[:, None])
    total = np.zeros((X.shape[0], W.shape[1]))
    quiet = np.errstate(over="ignore", under="ignore", invalid="ignore")
    with quiet, few_threads(float(X.size) * W.shape[1]):
        for k in range(1, -(-_KEPT_BITS // bits) + 1):
            part = np.rint(rest)
            total += (part @ W) * np.ldexp(1.0, exponent - k * bits)[:, None]
            rest = (rest - part) * 2.0**bits
    return total


def cosine_of_turns(t: Float64s) -> Float64s:
    """``cos(2 pi t)`` within a few units of ``2**-53``, for finite ``t``."""
    u = t - np.rint(t)
    np.abs(u, out=u)
    np.subtract(0.25, u, out=u)  # cos(2 pi t) = sin(2 pi (1/4 - |t|)) for |t| <= 1/2
    u *= 2.0 * math.pi
    square = u * u
    value = np.full_like(u, _SINE[-1])
    for c in reversed(_SINE[:-1]):
        value *= square
        value += c
    value *= u
    return value


def exponential_of_minus(t: Float64s) -> Float64s:
    """``exp(-t)`` within a few units of the last place, for ``t >= 0``; infinity gives zero."""
    t = np.minimum(t, 800.0)
    k = np.rint(t * _PER_LN2)
    r = (k * _LN2_HIGH - t) + k * _LN2_LOW
    value = np.full_like(r, _EXPONENTIAL[-1])
    for c in reversed(_EXPONENTIAL[:-1]):
        value *= r
        value += c
    with np.errstate(under="ignore"):
        scaled: Float64s = np.ldexp(value, -k.astype(np.int64))
    return scaled


def cholesky(K: Float64s, tolerance: float) -> tuple[Float64s, list[int]]:
    """A lower factor of ``K`` restricted to the rows kept, and which rows those are.

    A row whose pivot is at most ``tolerance`` is, as far as float64 can tell, a combination of those before it; it is
    left out. *Cost*: m^3 / 3 multiplications entry by entry.
    """
    K, kept = K.copy(), []
    factor = np.zeros_like(K)
    for k in range(len(K)):
        if K[k, k] <= tolerance:
            continue
        factor[k:, k] = K[k:, k] / np.sqrt(K[k, k])
        column = factor[k + 1 :, k]
        K[k + 1 :, k + 1 :] -= column[:, None] * column[None, :]
        kept.append(k)
    return factor[np.ix_(kept, kept)], kept


def solve_lower(factor: Float64s, rows: Float64s) -> Float64s:
    """``rows @ inv(factor).T``, by substitution; ``rows`` is overwritten. *Cost*: m^2 / 2 multiplications a row."""
    for k in range(len(factor)):
        rows[:, k] /= factor[k, k]
        rows[:, k + 1 :] -= rows[:, k, None] * factor[k + 1 :, k]
    return rows
