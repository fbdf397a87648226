"""Kernels whose values are the same integers on every machine.

Rows become integer points: multiples of ``2**-bits``. Inner products and squared distances of points are then integers
that float64 holds exactly, whatever BLAS does, and a kernel is a function of one such integer. Its value is rounded to
a multiple of ``2**-30``: float64 decides where it can (its error is bounded), ball arithmetic where it cannot. So a
kernel matrix is a matrix of integers, a mathematical function of the points.

Changes nothing it is given; a kernel function of the caller's is called.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas

from erasable.core.arrays import Float64s, Integers, Matrix, on_host
from erasable.core.grid import Scaling, check_scaling
from erasable.errors import ConfigurationError, InputError
from erasable.validation import choice, finite_number, number_between, number_not_negative, whole_number

KERNEL_BITS = 30
ONE = 1 << KERNEL_BITS  # the kernel value 1
REACH = 2**25  # no point is longer than this, so squared distances stay below 2**53
_BLOCK = 2**20  # numbers looked at together
_LARGEST = 2.0**50  # no kernel value may be larger than this
_DOUBT = 2.0**-12  # float64 values of kernels of the distance, in units, are right to within this
_GAMMAS = 1e-100, 1e100  # far beyond use, and no power of what they lead to leaves float64
KERNELS = ("rbf", "matern", "poly", "linear")


@dataclass(frozen=True)
class Points:
    """How rows become integer points: pure configuration, never fitted on rows.

    Parameters
    ----------
    n_features : int
    bits : int
        Coordinates are rounded to multiples of ``2**-bits``.
    scaling : None, float or tuple of float
        A public number, or one per feature, that divides the columns first.
    """

    n_features: int
    bits: int = 12
    scaling: Scaling = None

    def __post_init__(self) -> None:
        whole_number(self.bits, "grid_bits", 1, 20)
        check_scaling(self.scaling, self.n_features, by_row=False)

    @property
    def radius(self) -> float:
        """Rows longer than this, after scaling, are refused."""
        return math.ldexp(REACH, -self.bits)

    def of_rows(self, X: Matrix) -> npt.NDArray[np.int32]:
        """Rows, dense, sparse or on a device, as points, shape (n, n_features); they are looked at a block at a time.

        *Law*: a row's point depends on that row alone; division and rounding are those of IEEE arithmetic.

        Raises
        ------
        InputError
            When a row is too long for exact distances, or rows have another number of columns.
        """
        n, outside = X.shape[0], 0
        if X.shape[1] != self.n_features:
            raise InputError(
                f"rows must have {self.n_features} columns, as those that were learnt; got {X.shape[1]}: give the "
                "same columns."
            )
        points, step = np.empty((n, self.n_features), dtype=np.int32), max(1, _BLOCK // max(1, self.n_features))
        for low in range(0, n, step):
            part = on_host(X[low : low + step])
            Z = np.asarray(part if isinstance(part, np.ndarray) else part.toarray(), dtype=np.float64)
            with np.errstate(over="ignore", invalid="ignore"):
                if self.scaling is not None:
                    Z = Z / np.asarray(self.scaling)
                G = np.rint(np.ldexp(Z, self.bits))
                outside += int(np.count_nonzero(~(np.einsum("ij,ij->i", G, G) <= float(REACH) ** 2)))
                points[low : low + step] = G
        if outside:
            raise InputError(
                f"{outside} of {n} rows are longer than {self.radius:g} after scaling, too long for exact "
                "distances: divide the columns by larger public scales (scaling=), or lower grid_bits."
            )
        return points


@dataclass(frozen=True)
class Kernel:
    """A positive definite kernel of points.

    Parameters
    ----------
    name : "rbf", "matern", "poly", "linear" or "custom"
        ``exp(-gamma |x - z|^2)``; Matern of order ``nu`` in {0.5, 1.5, 2.5} with length ``1 / gamma``;
        ``(gamma x'z + coef0) ** degree``; ``x'z``; a function of the caller's.
    function : callable, only for "custom"
        Takes two arrays of rows and returns their kernel matrix. The value for a pair of rows must not depend on what
        else is in the call: a matrix product with BLAS may not keep to that in its last bits, which is harmless unless
        a value then falls on the other side of a rounding boundary; ``verify`` would tell.
    """

    name: str = "rbf"
    gamma: float = 1.0
    nu: float = 1.5
    degree: int = 3
    coef0: float = 1.0
    function: Callable[[Float64s, Float64s], Any] | None = None

    def __post_init__(self) -> None:
        if self.name != "custom":
            choice(self.name, "kernel", KERNELS)
        number_between(self.gamma, "gamma", *_GAMMAS, closed="both")
        choice(self.nu, "nu", (0.5, 1.5, 2.5))
        whole_number(self.degree, "degree", 1, 64)
        number_not_negative(self.coef0, "coef0")  # a kernel would not be positive definite otherwise

    @classmethod
    def of(cls, kernel: object, *, gamma: object, nu: object, degree: object, coef0: object) -> Kernel:
        """Return the kernel of these parameters; ``kernel`` is a name or a function. ConfigurationError for others."""
        if not callable(kernel) and not isinstance(kernel, str):
            raise ConfigurationError(f"kernel must be a name or a function; got {type(kernel).__name__}.")
        return cls(
            "custom" if callable(kernel) else kernel,
            finite_number(gamma, "gamma"),
            finite_number(nu, "nu"),
            whole_number(degree, "degree", 1, 64),
            number_not_negative(coef0, "coef0"),
            kernel if callable(kernel) else None,
        )

    @property
    def of_distance(self) -> bool:
        """Whether the kernel depends on the distance alone; its values are then at most 1, and 1 at distance 0."""
        return self.name in ("rbf", "matern")

    def approximate(self, Q: Integers, X: Integers, points: Points) -> Float64s:
        """Kernel values in units of ``2**-30``, before rounding, shape (len(Q), len(X)), Fortran order."""
        if self.name == "custom":
            return self._custom(Q, X, points)
        return self._values(self._integers(Q, X), points)

    def exact(self, Q: Integers, X: Integers, points: Points) -> Float64s:
        """Kernel values rounded to units of ``2**-30``: float64 integers, shape (len(Q), len(X)), Fortran order.

        *Law*: entry (i, j) is the integer nearest to ``2**30 k(q_i, x_j)``, whatever the machine (custom kernels: what
        the function returned, rounded). *Cost*: one matrix product and a few passes over the result.
        """
        if self.name == "custom":
            return np.rint(self._custom(Q, X, points))
        T = self._integers(Q, X)
        V = self._values(T, points)
        K = np.rint(V)
        if self.name == "linear":
            return K  # before this a product by a power of two: nothing was rounded
        unsure = np.abs(V - K) > 0.5 - self._doubt(T, points)
        if unsure.any():
            values, where = np.unique(T[unsure], return_inverse=True)
            K[unsure] = np.array([self._settle(int(t), points) for t in values])[where]
        return K if self.of_distance else self._checked(K)

    def matrix(self, X: Integers, points: Points) -> Float64s:
        """``exact(X, X)``, its own transpose: of a custom function the values for the earlier point first."""
        K = self.exact(X, X, points)
        if self.name == "custom":
            K = np.asfortranarray(np.triu(K) + np.triu(K, 1).T)
        return K

    def diagonal(self, X: Integers, points: Points) -> Float64s:
        """``exact(x, x)`` for each point."""
        if self.of_distance:
            return np.full(len(X), float(ONE))
        step = 64
        pieces = [np.diagonal(self.exact(X[i : i + step], X[i : i + step], points)) for i in range(0, len(X), step)]
        return np.concatenate(pieces) if pieces else np.empty(0)

    def _integers(self, Q: Integers, X: Integers) -> Float64s:
        """Squared distances or inner products, exact in float64."""
        A, B = np.asarray(Q, dtype=np.float64), np.asarray(X, dtype=np.float64)
        if not len(A) or not len(B):
            return np.empty((len(A), len(B)), order="F")
        T: Float64s = blas.dgemm(-2.0 if self.of_distance else 1.0, A.T, B.T, trans_a=1)
        if self.of_distance:
            T += np.einsum("ij,ij->i", A, A)[:, None]
            T += np.einsum("ij,ij->i", B, B)[None, :]
        return T

    def _values(self, T: Float64s, points: Points) -> Float64s:
        """``2**30 k`` in float64 for exact integers T."""
        if self.name == "rbf":
            V = T * math.ldexp(-self.gamma, -2 * points.bits)
            np.exp(V, out=V)
        elif self.name == "matern":
            t = np.sqrt(T) * math.ldexp(self.gamma * math.sqrt(2.0 * self.nu), -points.bits)
            V = np.exp(-t)
            if self.nu > 0.5:
                V *= 1.0 + t if self.nu == 1.5 else 1.0 + t + t * t / 3.0
        elif self.name == "linear":
            V = np.ldexp(T, -2 * points.bits)
        else:
            return self._checked(self._polynomial(T, points))
        V *= float(ONE)
        return V if self.of_distance else self._checked(V)

    def _polynomial(self, T: Float64s, points: Points) -> Float64s:
        with np.errstate(over="ignore"):
            return _power(T * math.ldexp(self.gamma, -2 * points.bits) + self.coef0, self.degree) * float(ONE)

    def _doubt(self, T: Float64s, points: Points) -> Float64s:
        """A bound on the error of ``_values``, in units.

        Polynomials of degree p: the product ``gamma t`` and the sum ``s = gamma t + coef0`` round once each, which
        moves s by at most ``2 u m``, with ``m = gamma |t| + coef0``; t may be negative and s far smaller than m. That
        moves ``s ** p`` by at most ``p m ** (p - 1)`` times as much, and its p - 1 products round by ``(p - 1) u m **
        p``. Together less than ``3 p u m ** p``; ``4 p u m ** p`` is taken. ``m ** p`` is the kernel's value for |t|.
        For two points it is at most the larger of ``k(x, x)`` and ``k(z, z)``, and the bound ``2**-45`` of that.
        """
        if self.of_distance:
            return np.full(T.shape, _DOUBT)
        return np.maximum(_DOUBT, 4.0 * self.degree * 2.0**-53 * self._polynomial(np.abs(T), points))

    def _checked(self, V: Float64s) -> Float64s:
        """The values, none of which is too large for the kernel matrix to stay exact."""
        if len(V) and not float(np.abs(V).max(initial=0.0)) <= _LARGEST:
            raise InputError(
                f"kernel values reach beyond {_LARGEST / ONE:g}: divide the columns by larger public scales "
                "(scaling=), or lower gamma, degree or coef0."
            )
        return V

    def _custom(self, Q: Integers, X: Integers, points: Points) -> Float64s:
        assert self.function is not None
        A, B = (np.ldexp(np.asarray(Z, dtype=np.float64), -points.bits) for Z in (Q, X))
        if not len(A) or not len(B):
            return np.empty((len(A), len(B)), order="F")
        K = np.asarray(self.function(A, B), dtype=np.float64)
        if K.shape != (len(A), len(B)) or not np.isfinite(K).all():
            raise InputError(
                "the kernel function must return a finite array of shape (rows of the first, rows of the second); "
                f"got shape {K.shape} for ({len(A)}, {len(B)})."
            )
        if float(np.abs(K).max()) * ONE > _LARGEST:
            raise InputError(f"kernel values reach beyond {_LARGEST / ONE:g}: scale the kernel function down.")
        return np.asfortranarray(K * float(ONE))

    def _settle(self, t: int, points: Points) -> int:
        """The rounded kernel value of one exact integer, with as much precision as it takes."""
        unit = Fraction(1, 4**points.bits)
        if not self.of_distance:
            value = ONE * (Fraction(self.gamma) * t * unit + Fraction(self.coef0)) ** self.degree
            return round(value if self.name == "poly" else ONE * t * unit)
        import flint  # only here: hardly ever needed, and slow to load

        before = flint.ctx.prec
        try:
            for precision in (128, 512, 4096):
                flint.ctx.prec = precision
                rounded = (self._ball(t, unit) * ONE + flint.arb(0.5)).floor().unique_fmpz()
                if rounded is not None:
                    return int(rounded)
        finally:
            flint.ctx.prec = before
        raise AssertionError("a transcendental number halfway between two integers")

    def _ball(self, t: int, unit: Fraction) -> Any:
        import flint

        if self.name == "rbf":
            x = Fraction(self.gamma) * t * unit
            return (-flint.arb(flint.fmpq(x.numerator, x.denominator))).exp()
        square = Fraction(self.gamma) ** 2 * int(2 * self.nu) * t * unit
        r = flint.arb(flint.fmpq(square.numerator, square.denominator)).sqrt()
        polynomial: Any = {0.5: 1, 1.5: 1 + r, 2.5: 1 + r + r * r / 3}[self.nu]
        return (-r).exp() * polynomial


def _power(base: Float64s, degree: int) -> Float64s:
    """``base ** degree`` by at most ``degree - 1`` rounded products: the same on every machine, rising in |base|."""
    out = base
    for bit in bin(degree)[3:]:
        out = out * out
        if bit == "1":
            out = out * base
    return out
