"""Weights as a mathematical function of the sums: the exact solution of ``A w = b``, correctly rounded to float32.

Whatever path led to ``A`` and ``b``, and whatever machine solves for ``w``, the published numbers are the same bits.

Changes nothing it is given.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float32s, Float64s
from erasable.core.sums import Refined, alone, component, factorise, refine, solve_exactly, symmetric


def solve_weights(H: Float64s, B: Float64s, bits: int, units: int) -> Float32s:
    """``w = A^-1 b``, every entry the float32 nearest to the exact solution (ties to even, zero positive).

    Parameters
    ----------
    H : array of shape (d, d), float64 integers, Fortran order
        ``A`` in squared grid units (lower triangle): ``H = 4**bits * A``.
    B : array of shape (d, k), float64 integers
        ``b`` in grid units: ``B = 2**bits * b``. The solution is ``2**bits H^-1 B``.
    units : int
        A lower bound on the eigenvalues of H.

    Returns
    -------
    array of shape (k, d), float32

    Notes
    -----
    *Law*: a pure function of the integers in H and B. Certified by ``|w - w*| <= |b - A w| / lambda`` with exact
    residuals; an entry exactly halfway between two float32 numbers is settled in rational arithmetic.
    *Cost*: one Cholesky factor and a few O(d^2 k) refinement steps. *Source*: Algorithm 1, lines 7 and 14.
    """
    W = np.zeros(B.shape, dtype=np.float32)
    R = B.astype(np.int64)
    undecided = np.zeros(B.shape, dtype=bool)
    if R.any():
        undecided[:] = True
        with alone(H):
            L = factorise(H)
            for r in refine(H, L, R) if L is not None else ():
                _round_certain(W, undecided, r, bits, units)
                if not undecided.any():
                    break
    if undecided.any():
        _round_rationally(W, undecided, symmetric(H), R, bits)
    return np.ascontiguousarray(W.T) + np.float32(0.0)  # no negative zeros


def _round_certain(W: Float32s, undecided: npt.NDArray[np.bool_], r: Refined, bits: int, units: int) -> None:
    """Write the entries of W whose float32 rounding the refined solution already determines."""
    i, j = np.nonzero(undecided)
    residual = r.residual.astype(np.float64)
    norm = np.sqrt(np.einsum("ij,ij->j", residual, residual)) * (1.0 + 1e-9)
    scale = bits - r.exponent
    centre = np.ldexp(r.Z[i, j].astype(np.float64), scale)
    distance = np.ldexp(norm[j] / units, scale) * (1.0 + 1e-9)
    coarseness = np.abs(centre) * 2.0**-51
    error = distance + coarseness
    with np.errstate(under="ignore"):
        low = np.nextafter(centre - error, -np.inf).astype(np.float32)
        high = np.nextafter(centre + error, np.inf).astype(np.float32)
    certain = low == high
    W[i[certain], j[certain]] = low[certain]
    undecided[i[certain], j[certain]] = False
    # Where only float64's own coarseness stands in the way (a number next to a halfway point), compare as rationals.
    close = ~certain & (distance < coarseness)
    for a, b in zip(i[close], j[close], strict=True):
        width = Fraction(math.isqrt(sum(int(v) ** 2 for v in r.residual[:, b])) + 1, units)
        unit = Fraction(2) ** scale
        low_32, high_32 = (to_float32((int(r.Z[a, b]) + s * width) * unit) for s in (-1, 1))
        if low_32 == high_32:
            W[a, b], undecided[a, b] = low_32, False


def _round_rationally(
    W: Float32s, undecided: npt.NDArray[np.bool_], H: npt.NDArray[np.int64], R: npt.NDArray[np.int64], bits: int
) -> None:
    """Settle the remaining entries from the exact rational solution."""
    for b in np.flatnonzero(undecided.any(axis=0)):
        linked = component(H, np.flatnonzero(undecided[:, b]))
        z = solve_exactly(H[np.ix_(linked, linked)], R[linked, b])
        for a, value in zip(linked, z, strict=True):
            if undecided[a, b]:
                W[a, b] = to_float32(Fraction(int(value.p), int(value.q)) * 2**bits)
                undecided[a, b] = False


def to_float32(value: Fraction) -> np.float32:
    """The float32 nearest to a rational, ties to even."""
    with np.errstate(over="ignore"):
        guess = np.float32(float(value))  # rounded twice: right, or one step off near a halfway point
    candidates = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]
    finite = [c for c in candidates if np.isfinite(c)]
    return min(finite, key=lambda c: (abs(Fraction(float(c)) - value), int(c.view(np.int32)) & 1))
