"""The map of ordinary arrays: every cell through a piecewise linear logarithm, and a constant next to the cells.

Dividing rows by their norms suits columns of one size. Behind this map columns may differ in size and have heavy tails,
and the constant keeps the size of a row, which division by the norm would lose. Only additions, divisions and powers
of two are used, each correctly rounded, so every bit is the same on any machine; logarithms of mathematical libraries
differ in their last bits.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Float64s
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.features._base import MOST_FEATURES, NUMBERS, FeatureMap, Raw, as_numbers, dense_blocks, set_field
from erasable.validation import choice, finite_number, number_not_negative, positive_number, real_numbers, whole_number

DEFAULT_CONSTANT = 3.0
INDICATOR, ZERO = "indicator", "zero"
_ROUNDING = 2.0**-48  # more than a few operations in float64 lose
_TEMPORARIES = 8  # arrays of the size of a block while it is mapped


def piecewise_log(x: Float64s) -> Float64s:
    """``x`` where ``|x| < 1``, and ``sign(x) (k + 1 + f)`` where ``|x| = 2**k (1 + f)`` with ``0 <= f < 1``.

    Continuous, increasing and odd: a logarithm to base 2 that is linear between powers of two. One addition is
    rounded. NaN stays NaN.
    """
    mantissa, exponent = np.frexp(x)  # x = mantissa * 2**exponent with 0.5 <= |mantissa| < 1
    mantissa *= 2.0
    mantissa += np.copysign(exponent - 1.0, x)
    return np.where(np.abs(x) < 1.0, x, mantissa)


def inverse_log(t: Float64s) -> Float64s:
    """The number whose :func:`piecewise_log` is ``t``, rounded; infinite beyond float64."""
    size = np.abs(t)
    power = np.clip(np.floor(size) - 1.0, 0.0, 2.0**12)  # float64 ends long before
    with np.errstate(over="ignore"):
        return np.copysign(np.ldexp(size - power, power.astype(np.int32)), t)


@dataclass(frozen=True, eq=False)
class LogFeatures(FeatureMap):
    """A map of rows of numbers: each cell through a piecewise linear logarithm, and a constant as the last column.

    A cell ``x`` becomes ``t((x - centre) / scale)`` with ``t(x) = x`` for ``|x| < 1`` and ``t(x) = sign(x) (k + 1 +
    f)`` for ``|x| = 2**k (1 + f)``. Columns of different sizes, heavy tails and outliers then need no scaling, and
    zeros stay zeros. A column whose values lie close together compared with their distance from zero, such as a year,
    needs a public ``centres``; one whose values are all far below 1 needs a public ``scales``.

    Parameters
    ----------
    n_features : int
        Columns of the rows.
    constant : float, default=3.0
        The last column of every mapped row, which takes the place of an intercept; 0 for none.
    centres : sequence of float, optional
        Public numbers that are subtracted from the columns.
    scales : sequence of float, optional
        Public positive numbers that the columns are divided by, after the centres are subtracted.
    missing : None, "indicator" or "zero", default=None
        Take NaN, which becomes 0. With ``"indicator"`` each column has another one that is 1 where it is missing and 0
        elsewhere. All columns have one, so that nothing follows from the rows. ``"zero"`` is for rows whose raw numbers
        are stored as well, for a learner that sees what is missing.

    Notes
    -----
    *Law*: bitwise. A mapped row depends on that row and the parameters alone, not on the other rows, the container,
    threads or the machine.

    Examples
    --------
    >>> from erasable.features import LogFeatures
    >>> LogFeatures(2)([[0.5, 1000.0], [-3.0, 0.0]]).tolist()
    [[0.5, 10.953125, 3.0], [-2.5, 0.0, 3.0]]
    """

    n_features: int
    constant: float = DEFAULT_CONSTANT
    centres: Sequence[float] | None = None
    scales: Sequence[float] | None = None
    missing: str | None = None
    n_features_out: int = field(init=False)
    takes = NUMBERS

    def __post_init__(self) -> None:
        set_field(self, "n_features", whole_number(self.n_features, "n_features", 1, MOST_FEATURES))
        set_field(self, "constant", number_not_negative(self.constant, "constant") + 0.0)
        set_field(self, "centres", public_numbers(self.centres, "centres", self.n_features))
        set_field(self, "scales", public_numbers(self.scales, "scales", self.n_features))
        for scale in self.scales or ():
            positive_number(scale, "every scale in scales")
        if self.missing is not None:
            set_field(self, "missing", choice(self.missing, "missing", (INDICATOR, ZERO)))
        width = self.n_features * (2 if self.missing == INDICATOR else 1) + bool(self.constant)
        set_field(self, "n_features_out", whole_number(width, "the number of mapped columns", 1, MOST_FEATURES))

    def __call__(self, X: Raw) -> Any:
        """Mapped rows, float64: dense, or CSR where a sparse matrix was given and no column has a centre."""
        X = as_numbers(X, self.n_features, allow_nan=self.missing is not None)
        if sp.issparse(X) and not any(self.centres or ()):
            return self._sparse(X)
        Z = np.zeros((X.shape[0], self.n_features_out))
        for rows, part in dense_blocks(X, _TEMPORARIES * self.n_features_out):
            Z[rows, : self.n_features] = self._mapped(part, slice(None))
            if self.missing is not None:
                absent = np.isnan(part)
                Z[rows, : self.n_features][absent] = 0.0
            if self.missing == INDICATOR:
                Z[rows, self.n_features : 2 * self.n_features] = absent
        if self.constant:
            Z[:, -1] = self.constant
        return Z

    def _sparse(self, X: Any) -> Any:
        """Mapped CSR rows: zeros stay zeros, so only the stored entries are mapped."""
        data = self._mapped(X.data, X.indices)
        indices, indptr = X.indices.astype(np.int64), X.indptr.astype(np.int64)
        parts = [sp.csr_array((data, indices, indptr), shape=X.shape)]
        absent = np.isnan(data)
        data[absent] = 0.0
        if self.missing == INDICATOR:
            parts.append(sp.csr_array((absent.astype(np.float64), indices.copy(), indptr.copy()), shape=X.shape))
        if self.constant:
            parts.append(sp.csr_array(np.full((X.shape[0], 1), self.constant)))
        Z = sp.csr_array(sp.hstack(parts, format="csr"))
        Z.eliminate_zeros()
        return Z

    def _mapped(self, values: Float64s, columns: Any) -> Float64s:
        """Cells of these columns, centred, scaled and tamed."""
        with np.errstate(over="ignore", under="ignore"):
            if self.centres is not None:
                values = values - np.asarray(self.centres)[columns]
            if self.scales is not None:
                values = values / np.asarray(self.scales)[columns]
        if np.isinf(values).any():
            raise InputError(
                "a cell overflows float64 when it is centred and divided by its scale (scaling=): use larger scales."
            )
        return piecewise_log(values)

    def undo(self, low: Float64s, high: Float64s) -> tuple[Float64s, Float64s]:
        """Bounds of the cells of a row whose mapped cells, one for each column, lie between these numbers.

        *Law*: cells that are mapped to numbers within the bounds lie within the bounds returned. Infinite where there
        is no bound.
        """
        scales = 1.0 if self.scales is None else np.asarray(self.scales)
        centres = 0.0 if self.centres is None else np.asarray(self.centres)
        ends = []
        for end, outwards in ((low, -_ROUNDING), (high, _ROUNDING)):
            with np.errstate(over="ignore"):
                cell = inverse_log(end + outwards * np.abs(end)) * scales
                cell = cell + centres
                ends.append(cell + outwards * (np.abs(cell) + np.abs(centres)))
        return ends[0], ends[1]

    def names_out(self, names: Sequence[str]) -> list[str]:
        """The names of mapped columns, for columns with these names."""
        absent = [f"{name} is missing" for name in names] if self.missing == INDICATOR else []
        return [*names, *absent, *(["constant"] if self.constant else [])]

    def describe(self) -> dict[str, Any]:
        """The parameters, ready for JSON; floats in hexadecimal, so that nothing is rounded."""
        return {
            "map": "log",
            "n_features": self.n_features,
            "constant": self.constant.hex(),
            "centres": None if self.centres is None else [c.hex() for c in self.centres],
            "scales": None if self.scales is None else [s.hex() for s in self.scales],
            "missing": self.missing,
        }

    @classmethod
    def read(cls, described: Mapping[str, Any]) -> LogFeatures:
        """The map that :meth:`describe` describes like this; values of other types may raise anything."""
        return cls(
            described["n_features"],
            float.fromhex(described["constant"]),
            _read_numbers(described["centres"]),
            _read_numbers(described["scales"]),
            described["missing"],
        )


def public_numbers(values: Any, name: str, n_features: int) -> tuple[float, ...] | None:
    """One finite number for each column, as plain values; None stays None. Raises ConfigurationError."""
    if values is None:
        return None
    try:
        array = real_numbers(values, name)
    except (InputError, InputTypeError):
        array = np.empty((0, 0))
    if array.ndim != 1:
        raise ConfigurationError(f"{name} must be one number per column; got {type(values).__name__}.")
    if len(array) != n_features:
        raise ConfigurationError(f"{name} gives {len(array)} numbers for {n_features} columns: give one per column.")
    return tuple(finite_number(value, f"every number in {name}") + 0.0 for value in array.tolist())


def _read_numbers(written: Sequence[str] | None) -> tuple[float, ...] | None:
    return None if written is None else tuple(map(float.fromhex, written))
