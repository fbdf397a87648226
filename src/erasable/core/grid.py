"""The grid: real rows become vectors of small integers inside a ball.

Every row is scaled into the unit ball by a rule that looks at that row alone (the public parameter ``scaling``), then
put on the multiples of ``2**-bits``. From here on a row *is* its integer vector ``g`` (the real row is
``g * 2**-bits``), and integers of this size are what makes sums exact: see :mod:`erasable.core.sums`.

Three radii, all in grid units, keep ``|g| <= 2**bits - 1`` whatever the rounding does:

- ``ball``: the largest norm the features may have next to the intercept's constant;
- ``unit``: what a row of norm one is multiplied by when ``scaling`` is ``None`` or a number;
- ``reach``: what a row is multiplied by when its norm is made equal to it (``scaling="row"``), so far inside the ball
  that rounding every coordinate by half a step cannot leave it.

Grid rows come in two forms. *Dense*: an integer array of shape (n, n_columns), the intercept's constant in its last
column. *Sparse*: a canonical ``csr_array`` of shape (n, n_features) of the same integers, sorted, without zeros, and
without the constant, which is the same for all rows. The form in which rows are stored is a
function of the rows and the grid, so that a state has one form: :func:`laid_out`.

Changes nothing it is given.
"""

from __future__ import annotations

import math
import numbers
from contextlib import suppress
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Array, Booleans, Float64s, Int64s, Integers, Matrix, added_up, rows_of, summed
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.validation import finite_number, positive_number, real_numbers, whole_number

Scaling = str | float | tuple[float, ...] | None


def plain_scaling(scaling: object) -> Scaling:
    """``scaling`` as the caller gave it, as a value that can be hashed and written down; see :func:`check_scaling`.

    Raises ConfigurationError for anything but None, a text, a finite number or a sequence of numbers.
    """
    if scaling is None or isinstance(scaling, str):
        return scaling
    if isinstance(scaling, numbers.Real) and not isinstance(scaling, bool):
        return finite_number(scaling, "scaling")
    scales: npt.NDArray[np.float64] = np.empty((0, 0))
    with suppress(InputError, InputTypeError):
        scales = real_numbers(scaling, "scaling")
    if scales.ndim != 1:
        raise ConfigurationError(
            f"scaling must be 'row', None, a positive number or one positive number per feature; "
            f"got {type(scaling).__name__}."
        )
    return tuple(float(scale) for scale in scales)


def described_scaling(scaling: Scaling) -> Any:
    """A plain scaling as a value that JSON can hold; floats in hexadecimal, so that nothing is rounded."""
    if isinstance(scaling, tuple):
        return [s.hex() for s in scaling]
    return scaling.hex() if isinstance(scaling, float) else scaling


def read_scaling(written: Any) -> Scaling:
    """The plain scaling that :func:`described_scaling` describes like this."""
    if written is None or written == "row":
        return written  # type: ignore[no-any-return]
    return tuple(map(float.fromhex, written)) if isinstance(written, list) else float.fromhex(written)


def check_scaling(scaling: Scaling, n_features: int, *, by_row: bool) -> None:
    """Raise ConfigurationError for a plain scaling that rows of so many features cannot be divided by.

    Parameters
    ----------
    by_row : bool
        Whether ``"row"``, which divides each row by its own norm, is among the choices.
    """
    if scaling is None or (by_row and isinstance(scaling, str) and scaling == "row"):
        return
    if isinstance(scaling, tuple):
        if len(scaling) != n_features:
            raise ConfigurationError(
                f"scaling gives {len(scaling)} scales for {n_features} features: pass one positive number per feature."
            )
        for scale in scaling:
            positive_number(scale, "every scale in scaling")
    elif isinstance(scaling, float):
        positive_number(scaling, "scaling")
    else:
        row = "'row', " if by_row else ""
        raise ConfigurationError(
            f"scaling must be None, {row}a positive number or one positive number per feature; got {scaling!r}."
        )


MIN_BITS, MAX_BITS = 4, 20
_NARROW, _WIDE = np.dtype(np.int16), np.dtype(np.int32)
# ``reach`` is a multiple of this where there is room: rows with 4, 16, ..., 4096 entries of one size then never land
# halfway between integers, which would have to be decided in exact arithmetic.
_REACH_MULTIPLE = 64


@dataclass(frozen=True)
class Grid:
    """How rows become integers: pure configuration, never fitted on rows.

    Parameters
    ----------
    n_features : int
        Columns of the input.
    bits : int
        Grid steps are ``2**-bits``. With 15 a coordinate fits an ``int16`` and 8.4 million core rows stay exact.
    intercept : bool
        Append a constant, about ``2**-0.5``, and shrink the features so that the whole row stays in the ball.
    scaling : None, "row", float or tuple of float
        ``None``: rows must have norm at most one. ``"row"``: each row is divided by its own norm. A number: rows are
        divided by it and must then have norm at most one. A tuple: public scales, one per feature, that
        divide the columns before each row is divided by its norm.
    """

    n_features: int
    bits: int = 15
    intercept: bool = True
    scaling: Scaling = "row"

    def __post_init__(self) -> None:
        whole_number(self.bits, "grid_bits", MIN_BITS, MAX_BITS)
        whole_number(self.n_features, "the number of features")
        check_scaling(self.scaling, self.n_features, by_row=True)
        if self.reach < 1:
            raise ConfigurationError(
                f"{self.n_features} features do not fit a grid of {self.bits} bits: raise grid_bits."
            )

    @property
    def normalises(self) -> bool:
        """Whether each row is divided by its own norm."""
        return self.scaling == "row" or isinstance(self.scaling, tuple)

    @property
    def n_columns(self) -> int:
        """Length of a grid row: the features, and the constant where there is an intercept."""
        return self.n_features + int(self.intercept)

    @property
    def constant(self) -> int:
        """The intercept's constant in grid units; 0 without intercept."""
        return math.isqrt(2 ** (2 * self.bits - 1)) if self.intercept else 0

    @property
    def radius(self) -> int:
        """No grid row, constant included, has a norm above this."""
        return int(2**self.bits) - 1

    @property
    def ball(self) -> int:
        """No grid row has features of a norm above this."""
        return math.isqrt(self.radius**2 - self.constant**2)

    @property
    def unit(self) -> int:
        """What features of norm one become, when rows are not divided by their norm."""
        return self.ball if self.intercept else int(2**self.bits)

    @property
    def reach(self) -> int:
        """What every row's features are stretched to, when rows are divided by their norm."""
        half_diagonal = (math.isqrt(max(self.n_features - 1, 0)) + 2) // 2
        inner = self.ball - 1 - half_diagonal
        return inner - inner % _REACH_MULTIPLE if inner >= 256 * _REACH_MULTIPLE else inner

    @property
    def longest(self) -> float:
        """The square of the largest norm a grid row can have, constant included."""
        if not self.normalises:
            return float(self.radius**2)
        return (self.reach + 0.5 * math.sqrt(self.n_features)) ** 2 + self.constant**2

    @property
    def stretch(self) -> float:
        """The length that features of norm one have on the grid: about 1, or 0.7 with an intercept."""
        return math.ldexp(self.reach if self.normalises else self.unit, -self.bits)

    @property
    def slack(self) -> float:
        """Bound on the distance between a scaled row before and after it is put on the grid."""
        shrink = 0.0 if self.normalises else 1.01 * (self.unit - self.reach)
        return shrink + 0.5 * math.sqrt(self.n_features) + 1.0

    @property
    def dtype(self) -> np.dtype[Any]:
        """The narrowest integer type that holds every coordinate."""
        return _NARROW if self.bits <= 15 else _WIDE


_IN_CACHE = 2**15  # numbers of dense rows put on the grid together: in larger parts it takes three times as long


class _Entries:
    """The numbers of rows, float64: all of them, shape (n, d), or those that a sparse array lists, shape (nnz,)."""

    def __init__(self, X: Matrix, grid: Grid) -> None:
        """Rows divided by the configured constants (correctly rounded, so the same on every machine)."""
        self.width, self.n_rows = grid.n_features, int(X.shape[0])
        self.layout: Any = summed(sp.csr_array(X)) if sp.issparse(X) else None
        self.row: Any = None  # of each listed number
        listed = X if self.layout is None else self.layout.data
        self.values = np.asarray(listed, dtype=np.float64)
        if self.layout is not None:
            self.row = rows_of(self.layout)
        if isinstance(grid.scaling, tuple | float):
            scales = np.array(grid.scaling)
            if scales.ndim and self.layout is not None:
                scales = scales[self.layout.indices]
            with np.errstate(over="ignore"):
                self.values = self.values / scales
        if self.values is not listed and not np.isfinite(self.values).all():
            raise InputError("a row overflows float64 when divided by scaling: use larger scales.")

    def place(self, i: Any) -> Any:
        """The positions of the numbers of row i, or of the rows in a mask."""
        if self.layout is None:
            return i
        return i[self.row] if isinstance(i, np.ndarray) else slice(self.layout.indptr[i], self.layout.indptr[i + 1])

    def each(self, of_row: Array) -> Array:
        """A value of each row, repeated for each of its numbers."""
        return of_row[:, None] if self.layout is None else of_row[self.row]

    def squares(self, values: Float64s) -> Float64s:
        """For each row the sum of the squares of these numbers in it."""
        if self.layout is None:
            return np.asarray(np.einsum("ij,ij->i", values, values))
        return added_up(values * values, self.row, self.n_rows)

    def exponents(self, rows: Booleans) -> npt.NDArray[np.int32]:
        """The exponent of the largest number of each row in the mask; 0 for other rows."""
        largest = np.zeros(self.n_rows)
        if self.layout is None:
            largest[rows] = np.max(np.abs(self.values[rows]), axis=1, initial=0.0)
        else:
            mine = self.place(rows)
            np.maximum.at(largest, self.row[mine], np.abs(self.values[mine]))
        return np.frexp(largest)[1]

    def as_rows(self, values: Float64s) -> Any:
        """Rows with these numbers instead of their own, dense or sparse as the rows were given."""
        if self.layout is None:
            return values
        return sp.csr_array((values, self.layout.indices, self.layout.indptr), shape=self.layout.shape)


def _with_norms(rows: _Entries) -> tuple[Float64s, Float64s]:
    """Numbers of rows and the rows' norms, a row multiplied by a power of two where its square would leave float64."""
    Z = rows.values
    with np.errstate(over="ignore", under="ignore"):
        square = rows.squares(Z)
    extreme = ~((square > 1e-200) & (square < 1e200))
    if extreme.any():
        Z, mine = Z.copy(), rows.place(extreme)
        with np.errstate(under="ignore"):
            Z[mine] = np.ldexp(Z[mine], -rows.each(rows.exponents(extreme))[mine])
            square = rows.squares(Z)
    return Z, np.sqrt(square)


def _exact_multiple(value: float, square_norm: Fraction, reach: int) -> int:
    """``reach * value / norm`` rounded to the nearest integer, halves to even, in exact arithmetic."""
    target = Fraction(value) ** 2 * reach**2 / square_norm  # the square of the number to round
    below = math.isqrt(target.numerator // target.denominator)
    half = Fraction(2 * below + 1, 2) ** 2
    rounded = below + (target > half or (target == half and below % 2 == 1))
    return rounded if value >= 0 else -rounded


def _normalised(rows: _Entries, reach: int) -> Float64s:
    """``reach * z / |z|`` row by row, correctly rounded to integers; a zero row stays zero."""
    scaled, norm = _with_norms(rows)
    V = scaled * rows.each(np.divide(reach, norm, out=np.zeros_like(norm), where=norm > 0))
    G = np.rint(V)
    distance = np.abs(np.subtract(V, G, out=V), out=V)
    doubt = (rows.width + 16) * 2.0**-52 * reach
    near_half = distance > 0.5 - doubt  # too close to a half to trust the rounding
    if not near_half.any():
        return G
    for i in np.unique(near_half.nonzero()[0] if rows.row is None else rows.row[near_half]):
        mine = rows.place(int(i))
        z, near = rows.values[mine], near_half[mine]
        square_norm = sum((Fraction(v) ** 2 for v in z[z != 0].tolist()), Fraction(0))
        values, where = np.unique(z[near], return_inverse=True)
        G[mine][near] = np.array([_exact_multiple(float(v), square_norm, reach) for v in values])[where]
    return G


def count_outside_ball(X: Matrix, grid: Grid) -> int:
    """Number of rows whose norm, after scaling, exceeds one by more than a grid step; decided exactly.

    Cost: O(n d) or O(nnz), with a temporary of the size of ``X`` only where ``X`` is not float64.
    """
    if grid.normalises:
        return 0
    rows = _Entries(X, grid)
    with np.errstate(over="ignore", under="ignore"):
        square = rows.squares(rows.values)
    limit = Fraction(2**grid.bits + 1, 2**grid.bits) ** 2
    doubt = (rows.width + 16) * 2.0**-51
    outside = square > float(limit) * (1 + doubt)
    for i in np.flatnonzero(~outside & (square > float(limit) * (1 - doubt))).tolist():
        outside[i] = sum((Fraction(z) ** 2 for z in rows.values[rows.place(i)].tolist()), Fraction(0)) > limit
    return int(np.count_nonzero(outside))


def to_grid(X: Matrix, grid: Grid) -> Any:
    """Rows on the grid: dense with the intercept's constant appended, sparse without it.

    Parameters
    ----------
    X : array of shape (n, n_features), float32 or float64, finite; or sparse
        Rows; with ``scaling`` None or a number, none may be counted by :func:`count_outside_ball`.

    Returns
    -------
    array of shape (n, n_columns), ``grid.dtype``; or sparse grid rows
        Integer rows ``g`` of norm at most ``2**bits - 1``.

    Notes
    -----
    *Law*: row ``i`` of the result depends on row ``i`` of ``X`` and on ``grid`` alone, not on dtype, memory layout,
    machine or the other rows; dividing by the norm is correctly rounded. Sparse rows become the same integers.
    *Cost*: O(n d) or O(nnz) time; of sparse rows, a few float64 temporaries of the size of ``X``.
    """
    if sp.issparse(X):
        rows = _Entries(X, grid)
        sparse = rows.as_rows(_on_grid(rows, grid).astype(grid.dtype)).copy()
        sparse.eliminate_zeros()
        return sparse
    G = np.empty((X.shape[0], grid.n_columns), dtype=grid.dtype)
    step = max(1, _IN_CACHE // grid.n_columns)
    for low in range(0, len(G), step):
        G[low : low + step, : grid.n_features] = _on_grid(_Entries(X[low : low + step], grid), grid)
    G[:, grid.n_features :] = grid.constant
    return G


def _on_grid(rows: _Entries, grid: Grid) -> Float64s:
    """The numbers of rows as integers of the grid."""
    if grid.normalises:
        return _normalised(rows, grid.reach)
    features: Float64s = np.rint(rows.values * grid.unit)
    too_long = rows.squares(features) > float(grid.ball) ** 2
    if too_long.any():  # rounding pushed a row of norm about one out of the ball: use the safe radius for it
        mine = rows.place(too_long)
        features[mine] = np.rint(rows.values[mine] * grid.reach)
    return features


def scale_rows(X: Matrix, grid: Grid) -> Any:
    """Rows as the model sees them when it predicts: scaled into the unit ball, not rounded, without the constant.

    *Law*: ``to_grid`` is ``stretch * 2**bits`` times this, rounded, for rows it does not have to shrink.

    Parameters
    ----------
    X : array of shape (n, n_features), or sparse
        Finite rows. None is refused for its norm: a linear function is defined everywhere.

    Returns
    -------
    array of shape (n, n_features), float64; or CSR
    """
    rows = _Entries(X, grid)
    if not grid.normalises:
        return rows.as_rows(rows.values)
    Z, norm = _with_norms(rows)
    return rows.as_rows(Z * rows.each(np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)))


def dense_rows(rows: sp.csr_array, grid: Grid) -> Integers:
    """Sparse grid rows as dense ones, the intercept's constant appended."""
    G = np.full((rows.shape[0], grid.n_columns), grid.constant, dtype=grid.dtype)
    G[:, : grid.n_features] = rows.toarray()
    return G


def sparse_rows(rows: Integers, grid: Grid) -> sp.csr_array:
    """Dense grid rows as sparse ones; the constant is left out."""
    return sp.csr_array(rows[:, : grid.n_features], dtype=grid.dtype)


def not_zero(rows: Matrix, grid: Grid) -> Booleans:
    """Which grid rows, dense or sparse, are not zero."""
    if sp.issparse(rows):
        return np.asarray((np.diff(rows.indptr) > 0) | grid.intercept)
    return np.asarray(rows.any(axis=1))


_U8, _U16, _I32 = (np.dtype(kind) for kind in (np.uint8, np.uint16, np.int32))
_BLOCK = 2**20  # entries counted at once


@dataclass(frozen=True)
class SparseColumns:
    """Stands for a grid where rows are float64 numbers that are always stored sparse, and have no constant."""

    n_features: int
    intercept = False
    constant = 0
    dtype = np.dtype(np.float64)

    @property
    def n_columns(self) -> int:
        """As many as features."""
        return self.n_features


def position_type(grid: Grid) -> np.dtype[Any]:
    """The narrowest type that holds the number of features: of columns, and of how many entries a row has."""
    return _U8 if grid.n_features < 2**8 else _U16 if grid.n_features < 2**16 else _I32


def sparse_bytes(n_rows: int, n_entries: int, grid: Grid) -> int:
    """Bytes of rows in the sparse layout: for each row its number of entries, for each entry column and value."""
    position = position_type(grid).itemsize
    return n_rows * position + n_entries * (position + grid.dtype.itemsize)


def dense_bytes(n_rows: int, grid: Grid) -> int:
    """Bytes of rows in the dense layout."""
    return n_rows * grid.n_columns * grid.dtype.itemsize


def is_sparse(n_rows: int, n_entries: int, grid: Grid) -> bool:
    """The rule: rows are sparse where that takes less than half the bytes."""
    return isinstance(grid, SparseColumns) or 2 * sparse_bytes(n_rows, n_entries, grid) < dense_bytes(n_rows, grid)


def count_entries(rows: Matrix, grid: Grid) -> int:
    """Numbers of grid rows, in either layout, that are not zero; the constant is none of them."""
    if not isinstance(rows, np.ndarray):
        return int(rows.nnz)
    if rows.size <= _BLOCK:
        return int(np.count_nonzero(rows[:, : grid.n_features]))
    step = max(1, _BLOCK // grid.n_columns)
    parts = (rows[low : low + step, : grid.n_features] for low in range(0, len(rows), step))
    return sum(int(np.count_nonzero(part)) for part in parts)


def has_constant(rows: Matrix, grid: Grid) -> bool:
    """Whether every row has the constant of the grid in its place: a sparse one always does."""
    return sp.issparse(rows) or bool((rows[:, grid.n_features :] == grid.constant).all())


def laid_out(rows: Matrix, grid: Grid) -> Any:
    """The rows in the layout that they have by the rule.

    A row that is none of the grid's, by its constant, is held as it is, for ``verify`` to see.

    *Law*: a pure function of the rows, in whichever layout they come.
    """
    wanted = is_sparse(rows.shape[0], count_entries(rows, grid), grid)
    if wanted == sp.issparse(rows) or (wanted and not has_constant(rows, grid)):
        return rows
    return sparse_rows(rows, grid) if wanted else dense_rows(rows, grid)


def row_sizes(rows: Matrix, grid: Grid) -> Int64s:
    """Bytes of each row in the layout that the rows are in."""
    if not sp.issparse(rows):
        return np.full(rows.shape[0], dense_bytes(1, grid))
    position = position_type(grid).itemsize
    lengths: Int64s = np.diff(rows.indptr).astype(np.int64)
    return position + lengths * (position + grid.dtype.itemsize)


def csr(values: Integers, columns: Integers, starts: npt.NDArray[np.int64], grid: Grid) -> Any:
    """Sparse rows from their entries, in canonical form, and where each row begins and the last one ends."""
    wide = np.int32 if len(values) < 2**31 else np.int64
    rows = sp.csr_array(
        (values, columns.astype(wide, copy=False), starts.astype(wide, copy=False)),
        shape=(len(starts) - 1, grid.n_features),
    )
    rows.has_canonical_format = True
    return rows
