"""Exact sums of integer rows, held in float64, and weights solved from them.

As long as no partial sum passes ``2**53`` every number below is an integer that float64 holds exactly, so BLAS
returns the same bits in any order, block size, thread count or machine, and subtraction undoes addition.

The Gram matrix is kept as the lower triangle of a Fortran-ordered array; what stands above the diagonal is unspecified.

*Solving.* ``H Z = R`` is solved to any precision. The solution is kept as big integers over a power of two; the
residual ``R * 2**e - H Z`` is tracked *exactly* modulo ``2**64``, which is the true residual as long as that is below
``2**63`` in size (checked). Each step solves for a correction in float64 and adds some twenty bits. What comes out is
exact data about an approximate solution, whatever the accuracy of the floating-point factor.

*Weights* are the exact solution of ``A w = b``, correctly rounded to float32. Whatever path led to ``A`` and ``b``, and
whatever machine solves for ``w``, the published numbers are the same bits.

:func:`add_rows` and :func:`add_sums` change the sums they are given; BLAS threads are limited while solving.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Hashable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas, lapack

from erasable.core.arrays import Float32s, Float64s, Int64s, Integers, Matrix, added_up, rows_of
from erasable.core.grid import Grid
from erasable.core.products import cholesky
from erasable.core.split_rows import add_sparse_rows
from erasable.core.threads import few_threads, in_threads
from erasable.errors import ConfigurationError, ExactnessError

_FACTOR_ALONE = 5000  # factor smaller matrices than this on one thread
_BITS_PER_STEP = 26
_FEW_COLUMNS = 4  # of right-hand sides
_FEWEST_BITS = 4  # of a part of a number: with fewer there would be too many parts
_ALMOST_2_53 = 2.0**53 * (1.0 - 2.0**-20)  # what was rounded and is below this is below 2**53
_SMALL = 256  # rows of a matrix: smaller ones are factored in no time
_WELL_CONDITIONED = 2.0**17  # a condition number with which a factor in float32 has some bits left
_MOST_BITS = 400  # past this the number sought is taken to be special (a tie), and is computed as a rational


@dataclass(frozen=True)
class Refined:
    """``Z * 2**-exponent`` solves the system up to the exact residual ``residual * 2**-exponent``."""

    Z: npt.NDArray[np.object_]
    exponent: int
    residual: npt.NDArray[np.int64]


def alone(H: Float64s) -> AbstractContextManager[None]:
    """One BLAS thread for factorising ``H`` and solving with it, unless it is very large.

    A threaded factorisation synchronises often: it gains little below some thousand rows, and a busy machine slows it
    down tenfold.
    """
    return few_threads(0.0 if len(H) < _FACTOR_ALONE else np.inf)


def factorise(H: Float64s, *, overwrite: bool = False) -> Float64s | None:
    """Lower Cholesky factor of the lower triangle of ``H`` (Fortran order), or None where float64 cannot factor it.

    What stands above the diagonal is zero.
    """
    L = H if overwrite else H.copy(order="F")
    with alone(H):
        return L if cholesky(L) else None


def _coarse_factor(H: Float64s, units: int, columns: int) -> Float32s | None:
    """A factor in float32, made in half the time; None where it would not be faster to solve for the columns by it."""
    if len(H) < _SMALL * max(1.0, columns / 8) or float(np.trace(H)) > _WELL_CONDITIONED * units:
        return None
    with alone(H):
        L, info = lapack.spotrf(H.astype(np.float32), lower=1, clean=0, overwrite_a=1)
    return L if info == 0 else None


def _less_product(C: Float64s, H: Float64s, X: Float64s) -> Float64s:
    """``C - H X`` in float64. BLAS multiplies a few columns faster one by one than together."""
    if X.shape[1] <= _FEW_COLUMNS:
        columns = zip(C.T, X.T, strict=True)
        return np.array([blas.dsymv(-1.0, H, x, beta=1.0, y=c, lower=1) for c, x in columns]).T
    return np.asarray(blas.dsymm(-1.0, H, X, beta=1.0, c=C, lower=1))


def _divided(L: Float64s | Float32s, R: Float64s) -> Float64s:
    """``(LL')^-1 R`` in the precision of ``L``."""
    right, coarse = R.astype(L.dtype), L.dtype == np.float32
    if R.shape[1] <= _FEW_COLUMNS:
        divide = blas.strsv if coarse else blas.dtrsv
        Z = np.array([divide(L, divide(L, r, lower=1), lower=1, trans=1) for r in right.T]).T
    else:
        Z, _ = (lapack.spotrs if coarse else lapack.dpotrs)(L, right, lower=1)
    return np.asarray(Z, dtype=np.float64)


def _solve(H: Float64s, L: Float64s | Float32s, R: Float64s) -> Float64s:
    """About ``H^-1 R`` by the factor ``L``; by one in float32 twice, which has half of the bits."""
    Z = _divided(L, R)
    if L.dtype == np.float32:
        with np.errstate(over="ignore", invalid="ignore"):
            Z += _divided(L, _less_product(R, H, Z))
    return Z


class _Multiplier:
    """``H X`` for integers X: modulo ``2**64``, in float64, and a bound on the error of that less any number.

    X is cut into parts of so few bits that no partial sum of their products with ``H`` passes ``2**53``: in float64
    these products are exact, in any order. Where the entries of ``H`` are too large for that, int64 is used.
    """

    def __init__(self, H: Float64s) -> None:
        self.H = H
        self.root = np.sqrt(np.diagonal(H))[:, None]  # |H[i, j]| <= root[i] * root[j], for H is positive definite
        self.most = _ALMOST_2_53 / float(self.root.max())  # that sums of root[j] * |X[j]| may reach
        self.bits = math.frexp(self.most / float(self.root.sum()))[1]  # half of 2**bits is at most that ratio
        self.whole = None if self.bits >= _FEWEST_BITS else symmetric(H).view(np.uint64)

    def __call__(self, X: Int64s) -> tuple[npt.NDArray[np.uint64], Float64s, Float64s]:
        """The three arrays, each of the shape of X.

        *Law*: the sum of p exact products differs from ``H X`` by at most ``(p - 1) u (1 + O(p u))`` times the sum of
        their sizes; one product in float64, by ``(d + 1) u (1 + O(d u))`` times ``|H||X|``. A difference from another
        number rounds by u times that, which the bound has room for, and u times the number, which it has not.
        """
        product, zero = np.zeros(X.shape, dtype=np.uint64), np.zeros(X.shape)
        if self.whole is not None:
            far = self.root * (self.root * np.abs(X)).sum(axis=0)
            product = np.einsum("ij,jk->ik", self.whole, X.view(np.uint64))  # unsigned integers wrap around
            return product, -_less_product(zero, self.H, X.astype(np.float64)), 2.0**-53 * (len(X) + 4) * far
        estimate, far, low, half = zero.copy(), zero.copy(), 0, 1 << (self.bits - 1)
        while X.any():
            last = float((self.root * np.abs(X)).sum(axis=0).max()) <= self.most
            part = X if last else ((X + half) & (2 * half - 1)) - half
            exact = -_less_product(zero, self.H, part.astype(np.float64))
            product += exact.astype(np.int64).view(np.uint64) << np.uint64(low)
            estimate += np.ldexp(exact, low)
            far += np.ldexp(np.abs(exact), low)
            X, low = (X - part) >> self.bits, low + self.bits
        return product, estimate, 2.0**-53 * (low // self.bits + 4) * far


def refine(H: Float64s, L: Float64s | Float32s, R: npt.NDArray[np.int64]) -> Iterator[Refined]:
    """Ever better solutions of ``H Z = R``; ends early when float64 cannot improve them any more.

    Parameters
    ----------
    H : array of shape (d, d), float64 integers, positive definite
        Lower triangle, Fortran order.
    L : array of shape (d, d), float64 or float32
        Approximate lower Cholesky factor of ``H``; only speed depends on its quality.
    R : array of shape (d, k), int64

    Notes
    -----
    *Law*: for every record yielded, ``R * 2**exponent == H @ Z + residual`` in integers.
    *Cost*: O(d^2 k) a step after O(d^2) set-up; one record adds about 26 correct bits.
    """
    times_H = _Multiplier(H)
    Z = np.zeros(R.shape, dtype=object)
    exponent, residual = 0, R
    size = float(np.abs(R).max(initial=0))
    while exponent <= _MOST_BITS:
        if not residual.any():
            yield Refined(Z, exponent, residual)
            return
        correction = _solve(H, L, residual.astype(np.float64))
        peak = float(np.abs(correction).max())
        if not 0.0 < peak < 2.0**40:
            return  # no use as a correction
        shift = max(0, min(60, _BITS_PER_STEP - int(np.frexp(peak)[1])))
        step = np.rint(np.ldexp(correction, shift)).astype(np.int64)
        product, estimate, doubt = times_H(step)
        moved = np.ldexp(residual.astype(np.float64), shift)
        new_size = float((np.abs(moved - estimate) + doubt + 2.0**-51 * np.abs(moved)).max())
        if not (new_size < 2.0**62 and new_size < 0.5 * size * 2.0**shift):
            return  # the residual might wrap around, or float64 is too coarse for this matrix
        # Unsigned integers wrap around by definition.
        residual = ((residual.view(np.uint64) << np.uint64(shift)) - product).view(np.int64)
        Z = Z * (1 << shift) + step.astype(object)
        exponent, size = exponent + shift, float(np.abs(residual).max())
        yield Refined(Z, exponent, residual)
        if size == 0.0:
            return


def component(H: npt.NDArray[np.int64], support: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Coordinates that ``H`` links, directly or not, to those in ``support``: the rest cannot influence a solve."""
    from scipy.sparse import csr_array  # only here: hardly ever needed, and slow to load
    from scipy.sparse.csgraph import connected_components

    _, label = connected_components(csr_array(H != 0), directed=False)
    return np.flatnonzero(np.isin(label, label[support]))


def solve_exactly(H: npt.NDArray[np.int64], rhs: npt.NDArray[np.int64]) -> list[Any]:
    """``H^-1 rhs`` as rationals (flint's ``fmpq``), for one right-hand side.

    Cost: multimodular elimination, about 0.1 s at d = 100 and 12 s at d = 600 when ``H`` is one connected block.
    """
    from flint import fmpz_mat  # only here: hardly ever needed, and slow to load

    d = H.shape[0]
    x = fmpz_mat(d, d, [int(v) for v in H.ravel()]).solve(fmpz_mat(d, 1, [int(v) for v in rhs]))
    return [x[i, 0] for i in range(d)]


LARGEST_EXACT = 2**53
_FEW_CLASSES = 8
_NUMBERS_AT_ONCE = 2**18  # of rows that are turned into float64
L = TypeVar("L", bound=Hashable)


def regulariser(capacity: float, grid: Grid, name: str = "capacity") -> int:
    """``lambda`` in squared grid units: ``capacity * 4**bits`` rounded to an integer; an error calls it ``name``.

    Departure: Algorithm 1, line 2 sets lambda = K; here lambda is the multiple of ``4**-bits`` (about 1e-9) nearest
    to K, so that ``A`` consists of integers.
    """
    limit = LARGEST_EXACT // 2 / 4**grid.bits
    units: int = round(min(capacity, limit) * 4**grid.bits)
    if units < 1:
        raise ConfigurationError(f"{name} must be at least 4**-grid_bits = {4.0**-grid.bits:.3g}; got {capacity!r}.")
    if units >= LARGEST_EXACT // 2:
        raise ConfigurationError(f"{name} must be below {limit:.3g} on a grid of {grid.bits} bits; got {capacity!r}.")
    return units


def capacity_of(units: int, steps: int) -> float:
    """The shortest decimal that is these units when it is multiplied by ``steps`` and rounded.

    Examples
    --------
    >>> from erasable.core.sums import capacity_of
    >>> capacity_of(round(0.02 * 4**15), 4**15), 21474836 / 4**15
    (0.02, 0.019999999552965164)
    """
    short = (float(f"{units / steps:.{digits}g}") for digits in range(1, 17))
    return next((number for number in short if round(number * steps) == units), units / steps)


def exact_rows(grid: Grid, units: int) -> int:
    """How many core rows the sums hold exactly: every partial sum stays at or below ``2**53``."""
    return (LARGEST_EXACT - units) // grid.radius**2


def guard_exactness(n_rows: int, grid: Grid, units: int) -> None:
    """Refuse a core set so large that a sum could round.

    Raises
    ------
    ExactnessError
        When ``n_rows`` rows could push a partial sum past ``2**53``.
    """
    limit = exact_rows(grid, units)
    if n_rows > limit:
        raise ExactnessError(
            f"the core set would reach {n_rows:,} rows, but sums on a grid of {grid.bits} bits are exact only up to "
            f"{limit:,} rows: raise the threshold (fewer core rows) or lower grid_bits."
        )


def empty_gram(grid: Grid, units: int = 0) -> Float64s:
    """``units * I`` as a Fortran-ordered array of shape (n_columns, n_columns)."""
    H = np.zeros((grid.n_columns, grid.n_columns), order="F")
    np.fill_diagonal(H, units)
    return H


def add_rows(H: Float64s, rows: Matrix, sign: float = 1.0, grid: Grid | None = None) -> None:
    """``H += sign * rows' rows`` in place, on the lower triangle.

    Parameters
    ----------
    H : array of shape (d, d), float64, Fortran order
    rows : array of shape (k, d), or sparse grid rows
        Integer-valued rows of any dtype.
    sign : float
        1.0 or -1.0, update or downdate; or an integer, for rows that count so often.
    grid : Grid, optional
        Needed with sparse rows: it has the constant that they leave out.

    Notes
    -----
    *Law*: ``add_rows(H, R); add_rows(H, R, -1)`` leaves H as it was, bit for bit, and so does any other batching.
    *Cost*: k d^2 flops in BLAS; for sparse rows the number of pairs of entries that share a row.
    *Source*: Algorithm 1, line 6 (update) and line 14 (downdate).
    """
    k = rows.shape[0]
    if not isinstance(rows, np.ndarray):
        assert grid is not None
        add_sparse_rows(H, rows, sign, grid)
    elif k == 1:
        with few_threads(float(H.size)):  # where a processor is busy, two threads take hundreds of times as long
            blas.dsyr(sign, np.asarray(rows[0], dtype=np.float64), lower=1, a=H, overwrite_a=1)
    elif k > 1:
        R = np.asarray(rows, dtype=np.float64, order="C")
        blas.dsyrk(sign, R.T, beta=1.0, c=H, lower=1, overwrite_c=1)


def sums_by_class(rows: Matrix, labels: Sequence[L], grid: Grid | None = None) -> dict[L, Float64s]:
    """For each label the sum of its rows, exact, as float64 of shape (d,); sparse rows need their grid."""
    n = len(labels)
    if n == 1 and isinstance(rows, np.ndarray):  # one request after another: the most frequent call
        return {labels[0]: rows[0].astype(np.float64)}
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    which = np.fromiter(map(codes.__getitem__, labels), dtype=np.intp, count=n)
    if isinstance(rows, np.ndarray):
        if len(codes) <= _FEW_CLASSES:  # BLAS keeps no other thread waiting
            of_each: Any = (which[:, None] == np.arange(len(codes))).astype(np.float64)
        else:
            of_each = sp.csr_array((np.ones(n), which, np.arange(n + 1)), shape=(n, len(codes)))
        return dict(zip(codes, combined(rows, of_each), strict=True))
    assert grid is not None
    total, d = np.zeros((len(codes), grid.n_columns)), grid.n_features
    total[:, :d] = added_up(rows.data, which[rows_of(rows)] * d + rows.indices, len(codes) * d).reshape(-1, d)
    total[:, d:] = np.bincount(which, minlength=len(codes))[:, None] * float(grid.constant)
    return {label: total[code].copy() for label, code in codes.items()}


def squares(rows: Integers) -> Float64s:
    """The squared norm of each dense row; exact up to ``2**53``, and never below that where it is not."""

    def of(part: slice) -> Float64s:
        few = rows[part].astype(np.float64)
        return np.asarray(np.einsum("ij,ij->i", few, few))

    return np.concatenate([np.empty(0), *in_threads(of, _parts(rows))])


def combined(rows: Integers | Float64s, times: Any) -> list[Float64s]:
    """Sums in which row i counts ``times[i, k]`` times, for each k: exact, as float64, each in memory of its own.

    Parameters
    ----------
    rows : array of shape (n, d)
        Integer-valued rows of any dtype.
    times : array of shape (n, k), float64 integers; or CSR
    """
    total, lock = np.zeros((times.shape[1], rows.shape[1])), threading.Lock()

    def add(part: slice) -> None:
        more = times[part].T @ rows[part].astype(np.float64)
        with lock:
            np.add(total, more, out=total)

    in_threads(add, _parts(rows))
    return [row.copy() for row in total]


def _parts(rows: Integers | Float64s) -> list[slice]:
    """Some rows at a time, for one thread each."""
    step = max(1, _NUMBERS_AT_ONCE // max(1, rows.shape[1]))
    return [slice(low, low + step) for low in range(0, len(rows), step)]


def add_sums(sums: dict[L, Float64s], more: dict[L, Float64s], times: float = 1.0) -> None:
    """``sums += times * more`` by label, in place, so that what a sum was is left nowhere; ``more`` is used up."""
    for label, total in more.items():
        total *= times
        if label in sums:
            sums[label] += total
        else:
            sums[label] = total


def targets(class_sums: Float64s) -> Float64s:
    """``b`` in grid units, one column per linear function: ``sum of y * g`` with y in {-1, +1}.

    Parameters
    ----------
    class_sums : array of shape (n_classes, d)
        Sum of the rows of each class, in the order of the classes.

    Returns
    -------
    array of shape (d, 1) for one or two classes (y = +1 for the last class), (d, n_classes) one-against-rest otherwise.
    """
    total = class_sums.sum(axis=0)
    B = 2.0 * class_sums - total
    return np.ascontiguousarray((B if len(class_sums) > 2 else B[-1:]).T)


def symmetric(H: Float64s) -> npt.NDArray[np.int64]:
    """The whole matrix as int64, from its lower triangle."""
    d, step = len(H), 128
    whole, below = np.empty((d, d), dtype=np.int64, order="F"), np.tri(step, dtype=bool)
    with np.errstate(invalid="ignore"):  # above the diagonal there may be anything; it is overwritten
        for low in range(0, d, step):  # block by block: a transposed copy of the whole would miss every cache
            high = low + step
            whole[low:, low:high] = H[low:, low:high]
            whole[low:high, high:] = whole[high:, low:high].T
            corner = whole[low:high, low:high]
            corner[:] = np.where(below[: len(corner), : len(corner)], corner, corner.T)
    return whole.T  # in C order, and the same


def packed(H: Float64s) -> npt.NDArray[np.int64]:
    """The lower triangle row by row as int64, shape (d (d + 1) / 2,): the canonical form of the Gram matrix."""
    return H[np.tril_indices(len(H))].astype(np.int64)


def unpacked(triangle: Integers, d: int) -> Float64s:
    """Inverse of :func:`packed`; the strict upper triangle is zero."""
    H = np.zeros((d, d), order="F")
    H[np.tril_indices(d)] = triangle
    return H


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
            for r in solutions(H, R, units):
                _round_certain(W, undecided, r, bits, units)
                if not undecided.any():
                    break
    if undecided.any():
        _round_rationally(W, undecided, symmetric(H), R, bits)
    return np.ascontiguousarray(W.T) + np.float32(0.0)  # no negative zeros


def solutions(H: Float64s, R: npt.NDArray[np.int64], units: int) -> Iterator[Refined]:
    """Ever better solutions of ``H Z = R``: by a factor in float32 as far as it goes, then by one in float64.

    ``units`` is a lower bound on the eigenvalues of ``H``; only speed depends on it.
    """
    for make in (lambda: _coarse_factor(H, units, R.shape[1]), lambda: factorise(H)):
        L = make()
        if L is not None:
            yield from refine(H, L, R)


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
