"""Exact sums: the Gram matrix and the class sums of integer rows, held in float64.

As long as no partial sum passes ``2**53`` every number below is an integer that float64 holds exactly, so BLAS
returns the same bits in any order, block size, thread count or machine, and subtraction undoes addition.

The Gram matrix is kept as the lower triangle of a Fortran-ordered array; what stands above the diagonal is unspecified.

:func:`add_rows` and :func:`add_sums` change the sums they are given; all else is pure.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas

from erasable.core.arrays import Float64s, Integers
from erasable.core.grid import Grid
from erasable.core.sparse import added_up, rows_of
from erasable.errors import ConfigurationError, ExactnessError

LARGEST_EXACT = 2**53
_PAIRS_AT_ONCE = 2**16  # of entries of sparse rows
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


def add_rows(H: Float64s, rows: Any, sign: float = 1.0, grid: Grid | None = None) -> None:
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
        _add_sparse_rows(H, rows, sign, grid)
    elif k == 1:
        blas.dsyr(sign, np.asarray(rows[0], dtype=np.float64), lower=1, a=H, overwrite_a=1)
    elif k > 1:
        R = np.asarray(rows, dtype=np.float64, order="C")
        blas.dsyrk(sign, R.T, beta=1.0, c=H, lower=1, overwrite_c=1)


def _add_sparse_rows(H: Float64s, rows: sp.csr_array, sign: float, grid: Grid) -> None:
    """For each row the products of its pairs of entries, columns i <= j, to entry (j, i); columns are sorted."""
    values, column, flat = rows.data.astype(np.float64), rows.indices.astype(np.int64), H.reshape(-1, order="F")
    later = np.repeat(rows.indptr[1:], np.diff(rows.indptr)) - np.arange(rows.nnz)  # entries of the row from here on
    pairs = np.cumsum(later)
    low = 0
    while low < rows.nnz:
        before = pairs[low] - later[low]
        high = max(low + 1, int(np.searchsorted(pairs, before + _PAIRS_AT_ONCE)))
        left = np.repeat(np.arange(low, high), later[low:high])
        first = np.repeat(pairs[low:high] - later[low:high], later[low:high])  # pairs up to those of the left entry
        right = left + np.arange(before, pairs[high - 1]) - first
        np.add.at(flat, column[left] * len(H) + column[right], sign * values[left] * values[right])
        low = high
    if grid.intercept:
        H[-1, :-1] += sign * grid.constant * added_up(values, rows.indices, rows.shape[1])
        H[-1, -1] += sign * float(grid.constant**2 * rows.shape[0])


def sums_by_class(rows: Any, labels: Sequence[L], grid: Grid | None = None) -> dict[L, Float64s]:
    """For each label the sum of its rows, exact, as float64 of shape (d,); sparse rows need their grid."""
    n = len(labels)
    if n == 1 and isinstance(rows, np.ndarray):  # one request after another: the most frequent call
        return {labels[0]: rows[0].astype(np.float64)}
    codes = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    which = np.fromiter(map(codes.__getitem__, labels), dtype=np.intp, count=n)
    if isinstance(rows, np.ndarray):
        of_each = sp.csr_array((np.ones(n), which, np.arange(n + 1)), shape=(n, len(codes)))
        return dict(zip(codes, combined(rows, of_each), strict=True))
    assert grid is not None
    total, d = np.zeros((len(codes), grid.n_columns)), grid.n_features
    total[:, :d] = added_up(rows.data, which[rows_of(rows)] * d + rows.indices, len(codes) * d).reshape(-1, d)
    total[:, d:] = np.bincount(which, minlength=len(codes))[:, None] * float(grid.constant)
    return {label: total[code].copy() for label, code in codes.items()}


def combined(rows: Integers | Float64s, times: Any) -> list[Float64s]:
    """Sums in which row i counts ``times[i, k]`` times, for each k: exact, as float64, each in memory of its own.

    Parameters
    ----------
    rows : array of shape (n, d)
        Integer-valued rows of any dtype.
    times : array of shape (n, k), float64 integers; or CSR
    """
    total, step = np.zeros((times.shape[1], rows.shape[1])), max(1, _NUMBERS_AT_ONCE // max(1, rows.shape[1]))
    for low in range(0, len(rows), step):
        part, of_part = (rows, times) if len(rows) <= step else (rows[low : low + step], times[low : low + step])
        total += of_part.T @ part
    return [row.copy() for row in total]


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
    with np.errstate(invalid="ignore"):  # above the diagonal there may be anything; it is overwritten below
        whole = H.astype(np.int64, order="F")
    step = 128
    for low in range(0, len(H), step):  # block by block: a transposed copy of the whole would miss every cache
        high = low + step
        whole[low:high, high:] = whole[high:, low:high].T
        corner = np.tril(whole[low:high, low:high])
        whole[low:high, low:high] = corner + np.tril(corner, -1).T
    return whole.T  # in C order, and the same


def packed(H: Float64s) -> npt.NDArray[np.int64]:
    """The lower triangle row by row as int64, shape (d (d + 1) / 2,): the canonical form of the Gram matrix."""
    return H[np.tril_indices(len(H))].astype(np.int64)


def unpacked(triangle: Integers, d: int) -> Float64s:
    """Inverse of :func:`packed`; the strict upper triangle is zero."""
    H = np.zeros((d, d), order="F")
    H[np.tril_indices(d)] = triangle
    return H
