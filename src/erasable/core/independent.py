"""Independent selection: whether a row is kept depends on that row and on public constants alone.

A row on the grid with id ``i`` and label ``y`` is kept where

    hash(i) < 2**64 * min(1, slope * rarity(x)) * tilt(y)

``rarity(x)`` is ``sum_j x_j**2 / 2**e_j`` with public exponents, ``x'Wx`` with a public matrix, or one; ``slope`` and
``tilt`` are float64 numbers. Both sides are dyadic rationals, so the comparison has one answer on every machine: it is
made in float64 with a proven bound on the error, and in rationals for the few rows that the bound leaves open.
:class:`IndependentRule` holds the public constants.

Changes nothing it is given.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Booleans, Float32s, Float64s, Matrix, summed
from erasable.core.grid import Grid
from erasable.core.kernels import Points
from erasable.core.names import Hashes, Label
from erasable.core.selector import Decisions, Progress, RawRows
from erasable.core.sums import factorise, solve_weights
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.validation import real_numbers

#: Exponents of public moments: far beyond what rows on a grid can have, and far inside what float64 holds.
LEAST_EXPONENT, MOST_EXPONENT = -100, 20
_INVERSE_BITS = 40  # of the moments that are inverted
_BLOCK = 2**20  # numbers looked at together
_LEAST_SHARE, _LARGEST_MEAN = 2.0**-100, 2.0**200  # so that no slope and no tilt overflows
_U32, _U64 = 2.0**-24, 2.0**-53

#: How rows become integers: on a grid in the unit ball, or as points of a kernel.
Lattice = Grid | Points


@dataclass(frozen=True)
class Rarity:
    """How unusual a row is, by public second moments of the columns."""

    exponents: tuple[int, ...] | None = None  # column j has the second moment ``2**exponents[j]``
    # Second moments of pairs of columns, in float32, row by row: rarity is ``x'Wx``, or zero where that is negative,
    # with ``W`` their :func:`inverse_moments`. At most one of the two is given; without either, every row has rarity
    # one.
    matrix: bytes | None = None

    def __post_init__(self) -> None:
        if self.exponents is not None and not all(LEAST_EXPONENT <= e <= MOST_EXPONENT for e in self.exponents):
            raise ConfigurationError(
                f"a public second moment must lie between 2**{LEAST_EXPONENT} and 2**{MOST_EXPONENT}."
            )
        if self.matrix is not None:
            _regularised(self.moments)

    @property
    def moments(self) -> Float64s:
        """The matrix of second moments, shape (d, d)."""
        assert self.matrix is not None
        found = np.frombuffer(self.matrix, dtype="<f4").astype(np.float64)
        return found.reshape(math.isqrt(len(found)), -1)

    @cached_property
    def weights(self) -> Float64s:
        """``W``, made when first needed; float32 numbers in float64."""
        return inverse_moments(self.moments).astype(np.float64)

    @property
    def uniform(self) -> bool:
        """Whether every row has rarity one."""
        return self.exponents is None and self.matrix is None

    def approximate(self, rows: Matrix, grid: Lattice) -> tuple[Float64s, Float64s]:
        """The rarity of grid rows in float64, and how far each may be off.

        Errors follow Higham, sections 3.1 and 3.5, for any order of summation. Squares of grid integers are exact, and
        so is a product with a power of two; all terms of the diagonal form are positive.
        """
        n, d = rows.shape[0], grid.n_features
        if self.matrix is None:
            scale = self._scales(grid)
            if sp.issparse(rows):
                squares = sp.csr_array((np.square(rows.data, dtype=np.float64), rows.indices, rows.indptr), rows.shape)
                found = np.asarray(squares @ scale)
            else:
                found = np.square(rows[:, :d], dtype=np.float64) @ scale
            return found, 2.0 * (d + 2) * _U64 * found
        W = self.weights
        X = rows[:, :d].astype(np.float64)
        step = math.ldexp(1.0, -2 * grid.bits)
        found = (
            np.asarray((X.multiply(X @ W)).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X @ W, X)) * step
        )
        norms = np.asarray(X.multiply(X).sum(axis=1) if sp.issparse(X) else np.einsum("ij,ij->i", X, X)) * step
        # |x|'|W||x| is at most the squared norm of x times the Frobenius norm of W.
        bound = 2.1 * (2 * d + 4) * _U64 * norms * float(np.sqrt(np.square(W).sum()))
        return found.reshape(n), bound.reshape(n)

    def exact(self, row: npt.NDArray[np.int64], grid: Lattice) -> Fraction:
        """The rarity of one dense grid row of features."""
        if self.uniform:
            return Fraction(1)
        g = [int(v) for v in row]
        if self.exponents is not None:
            total = sum((Fraction(2) ** -e * v * v for v, e in zip(g, self.exponents, strict=True) if v), Fraction(0))
        else:
            W, used = self.weights.tolist(), [j for j, v in enumerate(g) if v]
            total = sum((Fraction(W[j][k]) * g[j] * g[k] for j in used for k in used), Fraction(0))
        found: Fraction = max(Fraction(total), Fraction(0)) / 4**grid.bits
        return found

    def _scales(self, grid: Lattice) -> Float64s:
        assert self.exponents is not None
        return np.ldexp(1.0, -np.array(self.exponents, dtype=np.int64) - 2 * grid.bits)


def nearest_power(moment: float) -> int:
    """The exponent of the power of two that is nearest to a positive number, in ratio."""
    part, exponent = math.frexp(moment)
    return exponent - 1 if part * part < 0.5 else exponent


def inverse_moments(S: Float64s) -> Float32s:
    """The inverse of public second moments, regularised, every entry the float32 nearest to the exact one.

    *Definition*: ``2**40 S``, rounded to integers, plus ``floor(2**30 trace(S) / d)`` on the diagonal, which is
    ``2**-10`` of its mean; ``2**40`` times the inverse of that, rounded to float32.

    Raises ConfigurationError when ``S`` cannot be a matrix of second moments of rows in the unit ball: not symmetric or
    not positive semidefinite, or with moments above one.
    """
    H, least = _regularised(S)
    return solve_weights(H, np.eye(len(S)), _INVERSE_BITS, least)


def _regularised(S: Float64s) -> tuple[Float64s, int]:
    """The integers that are inverted, and a lower bound on their eigenvalues; refused if there is none."""
    d = len(S)
    with np.errstate(invalid="ignore"):  # NaN fails every comparison
        fits = bool((S == S.T).all() and np.abs(S).max() <= 1.0)
    trace = sum(map(Fraction, S.diagonal().tolist()), Fraction(0)) if fits else Fraction(0)
    units = int(trace * 2 ** (_INVERSE_BITS - 10) / d)
    H = np.asfortranarray(np.rint(np.ldexp(S, _INVERSE_BITS)))
    H.flat[:: d + 1] += units
    least = units // 2  # rounding has moved the eigenvalues by at most d / 2
    lowered = H.copy(order="F")
    lowered.flat[:: d + 1] -= least
    if trace * 2**20 < d or factorise(lowered) is None:
        raise ConfigurationError(
            "moments must be second moments of rows in the unit ball: a positive semidefinite matrix, none above 1."
        )
    return H, least


def kept(
    rows: Matrix, hashes: Hashes, tilts: Float64s | float, rarity: Rarity, slope: float, grid: Lattice
) -> tuple[Booleans, Decisions]:
    """Which grid rows are kept, and how they were decided.

    Parameters
    ----------
    rows : grid rows, dense or sparse
        Their intercept does not count. Not looked at where rarity is uniform.
    hashes : array of shape (n,), uint64
        The keyed hash of each row's id.
    tilts : array of shape (n,), or float
        In (0, 1]: the factor of each row's label.
    rarity, slope : see the module

    Notes
    -----
    *Law*: entry i is a function of row i, its hash, its tilt and the public constants; it is that of the comparison in
    rational arithmetic. *Cost*: O(nnz) for exponents, O(n d^2) for a matrix.
    """
    n = len(hashes)
    if rarity.uniform:
        found, error = np.ones(n), np.zeros(n)
    else:
        found, error = rarity.approximate(rows, grid)
    drawn = hashes.astype(np.float64)
    with np.errstate(over="ignore"):
        low = _limit(found - error, tilts, slope) * (1.0 - 2.0**-50)
        high = _limit(found + error, tilts, slope) * (1.0 + 2.0**-50)
    # A hash above 2**53 was rounded: by less than one part in 2**52.
    keep = drawn * (1.0 + 2.0**-52) < low
    open_rows = np.flatnonzero(~keep & (drawn * (1.0 - 2.0**-52) <= high))
    for i in open_rows.tolist():
        tilt = float(tilts) if np.ndim(tilts) == 0 else float(tilts[i])  # type: ignore[index]
        keep[i] = keeps_exactly(
            _dense(rows, i, grid) if not rarity.uniform else None, int(hashes[i]), tilt, rarity, slope, grid
        )
    return keep, Decisions(certified=n - len(open_rows), exact=len(open_rows))


def screened(
    roots: Float64s, hashes: Hashes, tilts: Float64s | float, rarity: Rarity, slope: float, grid: Grid
) -> tuple[Booleans, Booleans]:
    """Which rows are kept for sure, and which are left open, before rows are put on the grid.

    Parameters
    ----------
    roots : array of shape (n,)
        The root of each row's rarity, as :func:`root_of_rarity` returns it.

    Notes
    -----
    *Law*: no row is called sure that :func:`kept` decides otherwise. The root of rarity is a norm, so a row that the
    grid moves by ``slack`` changes it by at most ``slack`` times the root of the largest weight of a column; sums in
    float32 are off by a part of about ``n_features * 2**-24``.
    """
    heaviest = math.ldexp(1.0, -min(rarity.exponents or (0,)))
    with np.errstate(over="ignore", invalid="ignore"):
        error = 2.0 * (grid.n_features + 8) * _U32
        moved = math.ldexp(1.01 * grid.slack * math.sqrt(heaviest), -grid.bits)
        low = np.maximum(roots * (1.0 - error) - moved, 0.0) ** 2
        high = (roots * (1.0 + error) + moved) ** 2
        drawn = hashes.astype(np.float64)
        sure = drawn * (1.0 + 2.0**-52) < _limit(low, tilts, slope) * (1.0 - 2.0**-48)
        out = drawn * (1.0 - 2.0**-52) > _limit(high, tilts, slope) * (1.0 + 2.0**-48)
    return sure, ~(sure | out)  # a row that is NaN is left open


def root_of_rarity(rows: RawRows, low: int, high: int, rarity: Rarity) -> Float64s:
    """The root of the rarity of some raw rows, by exponents, about; NaN where it must not be relied on.

    *Cost*: one pass over the numbers of the rows, in float32 if they are dense.
    """
    assert rarity.exponents is not None
    weights, grid = np.ldexp(1.0, -np.array(rarity.exponents, dtype=np.int64)), rows.grid
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        if not rows.sparse:
            X, factors = rows.approximate(low, high)
            np.square(X, out=X)
            roots: Float64s = np.abs(factors) * np.sqrt((X @ weights.astype(np.float32)).astype(np.float64))
            return roots
        part = summed(sp.csr_array(rows.numbers(slice(low, high))))
        values = part.data.astype(np.float64)
        if isinstance(grid.scaling, tuple | float):
            scales = np.array(grid.scaling)
            values /= scales[part.indices] if scales.ndim else scales
        squares = sp.csr_array((np.square(values, out=values), part.indices, part.indptr), shape=part.shape)
        found, length = squares @ weights, squares @ np.ones(len(weights)) if grid.normalises else np.ones(high - low)
        length[~((length > 1e-200) & (length < 1e200))] = np.nan
        size = math.ldexp(grid.reach if grid.normalises else grid.unit, -grid.bits)
        roots = size * np.sqrt(found / length)
        return roots


def keeps_exactly(
    row: npt.NDArray[np.int64] | None, drawn: int, tilt: float, rarity: Rarity, slope: float, grid: Lattice
) -> bool:
    """The comparison itself, in rationals, for the features of one grid row."""
    r = Fraction(1) if row is None else rarity.exact(row, grid)
    return drawn < 2**64 * min(Fraction(1), Fraction(slope) * r) * Fraction(tilt)


def _limit(rarity: Float64s, tilts: Float64s | float, slope: float) -> Float64s:
    limit: Float64s = np.minimum(1.0, slope * np.maximum(rarity, 0.0)) * tilts * 2.0**64
    return limit


def _width(rows: Any, lattice: Lattice) -> int:
    """About how many numbers a row has."""
    X = rows.X if isinstance(rows, RawRows) else rows
    return int(X.nnz // max(1, X.shape[0]) if sp.issparse(X) else lattice.n_features) + 1


def _dense(rows: Matrix, i: int, grid: Lattice) -> npt.NDArray[np.int64]:
    row: Any = rows[[i]]
    row = row.toarray() if sp.issparse(row) else np.asarray(row)
    features: npt.NDArray[np.int64] = row[0, : grid.n_features].astype(np.int64)
    return features


def public_mean(rarity: Rarity, n_features: int, squared_length: float) -> float:
    """The mean rarity of rows whose second moments are the public ones.

    ``squared_length`` is what rows of norm one have as rows of integers, in units of the lattice.
    """
    return 1.0 if rarity.uniform else n_features * squared_length


def tilts_of(shares: tuple[float, ...], balance: float) -> tuple[tuple[float, ...], float]:
    """The tilt of each class, divided by the largest, and the factor ``c`` that keeps the expected number of rows.

    Parameters
    ----------
    shares : tuple of float
        The public share of each class, in the order of the classes.
    balance : float
        0, 0.5 or 1: how much a rare class is favoured.

    Notes
    -----
    *Definition*, in float64, each step rounded once: ``(1 / (C * share)) ** balance``, where a power of one half is a
    square root; ``c = largest / sum of share * tilt`` over the classes in their order.
    """
    plain = [1.0 / (len(shares) * share) for share in shares]
    tilts = [1.0 if balance == 0.0 else math.sqrt(t) if balance == 0.5 else t for t in plain]
    largest = max(tilts)
    total = 0.0
    for share, tilt in zip(shares, tilts, strict=True):
        total += share * tilt
    return tuple(t / largest for t in tilts), largest / total


@dataclass(frozen=True)
class IndependentRule:
    """The public constants by which each row is kept or not."""

    rate: float  # in (0, 1]: about the share of all rows that is kept. At 1 every row is.
    key: int  # the key of the hashes, which is that of the order of rows
    rarity: Rarity = field(default_factory=Rarity)  # the public second moments of the columns
    mean_rarity: float = 1.0  # the public mean of the rarity of rows
    balance: float = 0.0  # 0, 0.5 or 1: how much rows of rare classes are favoured
    class_shares: tuple[tuple[Label, float], ...] | None = None  # each class with its public share, sorted by class

    def __post_init__(self) -> None:
        if not 0.0 < self.rate <= 1.0:
            raise ConfigurationError("rate must be above 0, and at most 1, which keeps every row.")
        if self.balance not in (0.0, 0.5, 1.0):
            raise ConfigurationError("balance must be 0, 0.5 or 1.")
        if self.balance and self.class_shares is None:
            raise ConfigurationError("balance needs class_shares: the public share of each class.")
        if self.balance and self.rate == 1.0:
            raise ConfigurationError("rate=1 keeps every row, so there is nothing to balance: leave balance out.")
        if self.class_shares is not None and not all(_LEAST_SHARE <= share <= 1.0 for _, share in self.class_shares):
            raise ConfigurationError("every share in class_shares must be above 0 (2**-100 or more) and at most 1.")
        if not 1.0 / _LARGEST_MEAN <= self.mean_rarity <= _LARGEST_MEAN:
            raise ConfigurationError("the mean rarity must be between 2**-200 and 2**200.")

    @cached_property
    def tilts(self) -> tuple[dict[Label, float], float]:
        """The factor of each class, and what makes up for it; see :func:`tilts_of`."""
        if self.class_shares is None:
            return {}, 1.0
        labels, shares = zip(*self.class_shares, strict=True)
        tilts, c = tilts_of(shares, self.balance)
        return dict(zip(labels, tilts, strict=True)), c

    @property
    def looks_at_rows(self) -> bool:
        """Whether the chance of being kept depends on the features of a row."""
        return self.rate < 1.0 and not self.rarity.uniform

    @property
    def slope(self) -> float:
        """The chance of being kept, divided by rarity and tilt."""
        return self.tilts[1] * self.rate / self.mean_rarity

    def tilts_of(self, classes: Sequence[Label]) -> Float64s | None:
        """The factor of each of these classes; None without balance."""
        of_class, _ = self.tilts
        return np.array([of_class[label] for label in classes]) if self.balance else None

    def decided(
        self,
        rows: Any,
        lattice: Lattice,
        hashes: Hashes,
        labels: npt.NDArray[Any],
        progress: Progress | None = None,
    ) -> tuple[Booleans, Decisions]:
        """Which rows are kept, and how they were decided; a block at a time.

        ``rows`` are raw rows of a grid, or points.
        """
        n, total = len(rows), Decisions()
        mask = np.zeros(n, dtype=bool)
        raw: RawRows | None = rows if isinstance(rows, RawRows) else None
        step = max(1, _BLOCK // _width(rows, lattice) if self.looks_at_rows else n)
        quick = self.looks_at_rows and self.rarity.exponents is not None
        for low in range(0, n, step):
            left = np.arange(low, min(n, low + step))
            tilts = self.tilts_of_rows(labels[left].tolist() if self.balance else ())
            if quick and raw is not None:
                roots = root_of_rarity(raw, low, int(left[-1]) + 1, self.rarity)
                sure, is_open = screened(roots, hashes[left], tilts, self.rarity, self.slope, raw.grid)
                mask[left] = sure
                total.screened += int(np.count_nonzero(~is_open))
                left, tilts = left[is_open], tilts[is_open] if isinstance(tilts, np.ndarray) else tilts
            G: Any = None
            if self.looks_at_rows:
                G = rows[left] if raw is None else raw.take(left)
            mask[left], how = self.kept(G, lattice, hashes[left], tilts)
            total += how
            if progress is not None:
                progress(min(n, low + step), n)
        return mask, total

    def tilts_of_rows(self, labels: Sequence[Any]) -> Float64s | float:
        """The factors of these labels; one without balance."""
        if not self.balance:
            return 1.0
        return np.fromiter(map(self.tilts[0].__getitem__, labels), dtype=np.float64, count=len(labels))

    def kept(
        self, rows: Matrix | None, lattice: Lattice, hashes: Hashes, tilts: Float64s | float
    ) -> tuple[Booleans, Decisions]:
        """Which rows of integers are kept; None in their place if none is looked at."""
        if self.rate == 1.0:
            return np.ones(len(hashes), dtype=bool), Decisions(certified=len(hashes))
        return kept(rows, hashes, tilts, self.rarity, self.slope, lattice)


def rarity_of(moments: Any, n_features: int) -> Rarity:
    """Return how unusual rows are by public second moments (none, one a column, a matrix); or ConfigurationError."""
    if moments is None:
        return Rarity()
    found: Float64s = np.empty(0)
    with suppress(InputError, InputTypeError):
        found = real_numbers(moments, "moments")
    if found.shape == (n_features,) and (found > 0).all():
        return Rarity(tuple(map(nearest_power, found.tolist())))
    if found.shape == (n_features, n_features) and (found == found.T).all():
        return Rarity(matrix=found.astype("<f4").tobytes())
    raise ConfigurationError(
        f"moments must be a positive number for each of the {n_features} columns, or a symmetric matrix of their "
        f"second moments; got {f'shape {found.shape}' if found.size else 'something else'}."
    )
