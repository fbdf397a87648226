"""Independent selection the obvious way: one row at a time, in rational arithmetic. Imports nothing of the package."""

from __future__ import annotations

from fractions import Fraction


def rarity(g, bits, moments=None, matrix=None):
    """``sum x_j^2 / m_j``, ``max(0, x'Wx)``, or one; ``g`` are the integers of the features."""
    x = [Fraction(int(v), 2**bits) for v in g]
    if moments is not None:
        return sum((v * v / Fraction(m) for v, m in zip(x, moments, strict=True)), Fraction(0))
    if matrix is not None:
        d = range(len(x))
        return max(Fraction(0), sum((Fraction(float(matrix[j][k])) * x[j] * x[k] for j in d for k in d), Fraction(0)))
    return Fraction(1)


def keeps(g, drawn, tilt, slope, bits, moments=None, matrix=None):
    """Whether a row with this hash is kept."""
    chance = min(Fraction(1), Fraction(slope) * rarity(g, bits, moments, matrix)) * Fraction(tilt)
    return Fraction(int(drawn), 2**64) < chance
