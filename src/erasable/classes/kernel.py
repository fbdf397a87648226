"""The ball of a kernel's space as a function class: closed form through the kernel matrix, decided exactly.

It uses the kernels and the selection of ``core``, and calls a kernel function where one is given.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.linalg import blas

from erasable.core.arrays import Array, Booleans, Float64s, Integers, Positions
from erasable.core.grid import described_scaling, plain_scaling
from erasable.core.kernel_selector import (
    check_eigenvalues,
    check_points,
    kernel_matrix,
    select_points,
    smallest_eigenvalue,
)
from erasable.core.kernels import KERNEL_BITS, ONE, REACH, Kernel, Points
from erasable.core.sums import factorise, solve_weights
from erasable.errors import InputError
from erasable.validation import number_between, whole_number

_RADII = 2.0**-10, 2.0**13  # mu is then a number of units that kernel matrices can hold


@dataclass(frozen=True)
class KernelBall:
    """Functions ``f = (1 + h) / 2`` with h in the ball of radius B of a kernel's space.

    ``D²(x; Q) = (k(x, x) - k'(K + mu I)^-1 k) / mu`` with ``mu = 1 / (4 B²)``, for the differences of functions h; it
    is what ``ErasableKernelClassifier`` selects by, on the same integers.

    Parameters
    ----------
    kernel : "rbf", "matern", "poly", "linear" or callable, default="rbf"
    radius : float, default=1.0
        B.
    gamma, nu, degree, coef0, scaling, grid_bits
        As in ``ErasableKernelClassifier``.

    Examples
    --------
    >>> import numpy as np
    >>> ball = KernelBall(radius=0.5)
    >>> measure = ball.start(1)
    >>> x = ball.encode(np.array([[0.0], [3.0]]))
    >>> measure.squared(x)
    array([1., 1.])
    >>> measure.add(x[:1])
    >>> measure.squared(x).round(4)
    array([0.5, 1. ])
    """

    kernel: str | Callable[[Float64s, Float64s], Any] = "rbf"
    radius: float = 1.0
    gamma: float = 1.0
    nu: float = 1.5
    degree: int = 3
    coef0: float = 1.0
    scaling: Any = None
    grid_bits: int = 12
    exact = True

    def __post_init__(self) -> None:
        kernel = Kernel.of(self.kernel, gamma=self.gamma, nu=self.nu, degree=self.degree, coef0=self.coef0)
        plain = {
            "radius": number_between(self.radius, "radius", *_RADII, closed="both"),
            "gamma": kernel.gamma,
            "nu": kernel.nu,
            "degree": kernel.degree,
            "coef0": kernel.coef0,
            "scaling": plain_scaling(self.scaling),
            "grid_bits": whole_number(self.grid_bits, "grid_bits", 1, 20),
        }
        for name, value in plain.items():
            object.__setattr__(self, name, value)
        self._points(max(1, len(self.scaling)) if isinstance(self.scaling, tuple) else 1)  # refuses what cannot work

    @functools.cached_property
    def of_points(self) -> Kernel:
        """The kernel as a function of integer points."""
        return Kernel.of(self.kernel, gamma=self.gamma, nu=self.nu, degree=self.degree, coef0=self.coef0)

    @property
    def units(self) -> int:
        """``mu`` in units of ``2**-30``."""
        return round(ONE / (4.0 * self.radius**2))

    @property
    def assumptions(self) -> tuple[str, ...]:
        """What a kernel function of the caller's has to keep."""
        own = ("the kernel function returns the same value for a pair of rows in every call",)
        return own if callable(self.kernel) else ()

    def _points(self, n_features: int) -> Points:
        return Points(n_features, self.grid_bits, self.scaling)

    def empty(self, n_features: int) -> Array:
        """No points."""
        _ = self._points(n_features)
        return np.empty((0, n_features), dtype=np.int32)

    def encode(self, X: Array) -> Array:
        """Rows as integer points, int32."""
        return self._points(X.shape[1]).of_rows(X)

    def embed(self, X: Array) -> Array:
        """Rows as integer points; too long ones are moved to the edge of what can be measured exactly."""
        points = self._points(X.shape[1])
        Z = np.asarray(X, dtype=np.float64)
        with np.errstate(over="ignore"):
            scaled = Z / np.asarray(1.0 if self.scaling is None else self.scaling)
        scaled = np.nan_to_num(scaled, posinf=np.finfo(float).max, neginf=-np.finfo(float).max)
        largest = np.abs(scaled).max(axis=1, initial=1.0)
        norm = largest * np.sqrt(((scaled / largest[:, None]) ** 2).sum(axis=1))
        shrink = np.minimum(1.0, 0.999 * points.radius / np.maximum(norm, 1e-300))
        return Points(X.shape[1], self.grid_bits).of_rows(scaled * shrink[:, None])

    def holds(self, rows: Array) -> Booleans:
        """Whether each is a point within reach."""
        if rows.dtype != np.int32:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.int64) <= REACH**2)

    def start(self, n_features: int) -> KernelMeasure:
        """The measure for no points."""
        return KernelMeasure(self.of_points, self._points(n_features), self.units)

    def fit(self, rows: Array, y01: Integers) -> Callable[[Array], Float64s]:
        """Kernel ridge regression, the penalised form of the fit over the ball: ``1/2 + k(x)'(K + mu I)^-1 y / 2``."""
        points, kernel = self._points(rows.shape[1]), self.of_points
        check_points(len(rows), self.units)
        H = kernel_matrix(rows, kernel, points, self.units)
        check_eigenvalues(H, kernel, self.units)
        B = 2.0 * np.asarray(y01, dtype=np.float64)[:, None] - 1.0
        w = solve_weights(H, B, KERNEL_BITS, smallest_eigenvalue(self.units))[0].astype(np.float64)

        def predictor(X: Array) -> Float64s:
            scores = np.empty(len(X))
            for low in range(0, len(X), 4096):
                K = kernel.approximate(rows, X[low : low + 4096], points)
                scores[low : low + 4096] = np.ldexp(w @ K, -KERNEL_BITS)
            return 0.5 + 0.5 * scores

        return predictor

    def widest(self, n_features: int) -> float:
        """``k(x, x) / mu``: 1 / mu for kernels of the distance; without limit for others."""
        return ONE / self.units if self.of_points.of_distance else math.inf

    def dimension(self, rows: Array) -> float:
        """``log det(I + K / mu)``: the sum of ``log(1 + D²(x_t; x_1 ... x_{t-1}))`` over the rows, in any order.

        A term of D(F, S) has x_t itself in its denominator and is therefore ``D² / (1 + D²) <= log(1 + D²)``.
        """
        if not len(rows):
            return 0.0
        H = kernel_matrix(rows, self.of_points, self._points(rows.shape[1]), self.units)
        L = factorise(H)
        if L is None:
            raise InputError("the kernel is not positive definite on these rows.")
        return float(2.0 * np.log(np.diagonal(L)).sum() - len(rows) * math.log(self.units))

    def rate(self, n_rows: int, delta: float, n_features: int) -> float | None:
        """Not known without the data: it depends on how fast the eigenvalues of the kernel matrix fall."""
        return None

    def stability(self, n_rows: int) -> float | None:
        """Not known to fall with n: the regulariser ``mu`` is fixed while rows are added."""
        return None

    def describe(self) -> dict[str, Any]:
        """The configuration as plain values."""
        return {
            "class": "kernel-ball",
            "kernel": getattr(self.kernel, "__qualname__", "custom") if callable(self.kernel) else self.kernel,
            "radius": self.radius.hex(),
            "gamma": self.gamma.hex(),
            "nu": self.nu.hex(),
            "degree": self.degree,
            "coef0": self.coef0.hex(),
            "scaling": described_scaling(self.scaling),
            "grid_bits": self.grid_bits,
        }


class KernelMeasure:
    """``D²( . ; Q)`` for points Q, by a Cholesky factor that grows with Q."""

    def __init__(self, kernel: Kernel, points: Points, units: int) -> None:
        self.kernel, self.points, self.units = kernel, points, units
        self.Q = np.empty((0, points.n_features), dtype=np.int32)
        self._L: Float64s | None = None

    def squared(self, rows: Array) -> Float64s:
        """D² of each point, in float64."""
        left = self.kernel.diagonal(rows, self.points)
        if len(self.Q):
            V = blas.dtrsm(1.0, self._factor(), self.kernel.exact(self.Q, rows, self.points), lower=1)
            left = left - np.einsum("ij,ij->j", V, V)
        return np.asarray(np.maximum(left, 0.0) / self.units)

    def exceeds(self, rows: Array, tau: float) -> Booleans:
        """Whether ``D² > tau``, for each point by itself, decided exactly."""
        return np.array([len(self._kept(rows[i : i + 1], tau)) == 1 for i in range(len(rows))], dtype=bool)

    def select(self, rows: Array, tau: float) -> Positions:
        """Positions of the points that one pass keeps; they join Q."""
        index = self._kept(rows, tau)
        self.add(rows[index])
        return index

    def add(self, rows: Array) -> None:
        """These points join Q."""
        if len(rows):
            self.Q, self._L = np.concatenate([self.Q, rows]), None

    def _kept(self, rows: Array, tau: float) -> Positions:
        return select_points(rows, self.Q, kernel=self.kernel, points=self.points, units=self.units, tau=tau)[0]

    def _factor(self) -> Float64s:
        if self._L is None:
            self._L = factorise(kernel_matrix(self.Q, self.kernel, self.points, self.units), overwrite=True)
            if self._L is None:
                raise InputError("the kernel is not positive definite on these rows.")
        return self._L
