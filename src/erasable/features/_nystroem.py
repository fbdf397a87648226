"""Nyström features: a kernel seen from landmarks that are public, which the map holds."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Float64s
from erasable.errors import ConfigurationError, InputError
from erasable.features._base import NUMBERS, FeatureMap, as_numbers, dense_blocks, set_field
from erasable.features._rowwise import cholesky, exponential_of_minus, solve_lower
from erasable.validation import choice, positive_number

_KERNELS = ("rbf", "laplacian")
_TOLERANCE = 2.0**-30  # of one, which is what the kernel of a row with itself is


@dataclass(frozen=True, eq=False)
class NystroemFeatures(FeatureMap):
    """A map of rows of numbers whose inner products are a kernel's, as far as public landmarks can tell.

    With landmarks ``L``, the kernel matrix ``K = C C'`` among them, and ``k(x)`` the kernel of ``x`` with each, the
    features are ``C^-1 k(x)``. Inner products with a landmark are those of the kernel, up to rounding; others are
    approximate, and good where landmarks are near.

    Parameters
    ----------
    landmarks : array of shape (n_landmarks, n_features)
        Rows that nobody can ask to have forgotten: public, invented, or of a fixed pattern. They are part of the map
        and stay when training rows are forgotten, so they must not be training rows, nor centres fitted to those.
    kernel : "rbf" or "laplacian", default="rbf"
        ``exp(-gamma |x - y|^2)`` with the Euclidean norm, or ``exp(-gamma |x - y|)`` with the sum of absolute values.
    gamma : float, default=1.0

    Attributes
    ----------
    n_features_out : int
        Landmarks less those that are, to within ``2**-30``, combinations of the ones before them.

    Notes
    -----
    *Law*: bitwise. A mapped row depends on that row and the parameters alone, not on the other rows, the container,
    threads or the machine. *Cost*: ``n_landmarks * (3 n_features + n_landmarks)`` operations a row, entry by entry and
    not by BLAS.

    Rows get a norm of at most one, near zero when they are far from all landmarks.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.features import NystroemFeatures
    >>> corners = np.array([[0.0, 0.0], [0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    >>> Z = NystroemFeatures(corners, gamma=0.5)(corners)
    >>> np.allclose(Z @ Z.T, np.exp(-0.5 * ((corners[:, None] - corners) ** 2).sum(axis=2)))
    True
    """

    landmarks: Any = field(default=None, repr=False)
    kernel: str = "rbf"
    gamma: float = 1.0
    n_features_out: int = field(init=False)
    _factor: Float64s = field(init=False, repr=False)  # these two follow from the parameters and are not pickled
    _kept: Float64s = field(init=False, repr=False)
    takes = NUMBERS
    assumptions: ClassVar[tuple[str, ...]] = (
        "the landmarks are public: neither they nor their choice come from rows that may have to be forgotten",
    )

    def __post_init__(self) -> None:
        set_field(self, "kernel", choice(self.kernel, "kernel", _KERNELS))
        set_field(self, "gamma", positive_number(self.gamma, "gamma"))
        landmarks = _check_landmarks(self.landmarks)
        factor, kept = cholesky(self._kernel(landmarks, landmarks), _TOLERANCE)
        set_field(self, "landmarks", landmarks)
        set_field(self, "n_features_out", len(kept))
        set_field(self, "_factor", factor)
        set_field(self, "_kept", landmarks[kept])

    def __call__(self, X: Any) -> Float64s:
        """Mapped rows, shape (n, n_features_out)."""
        X = as_numbers(X, self.landmarks.shape[1])
        Z = np.empty((X.shape[0], self.n_features_out))
        for rows, part in dense_blocks(X, self.n_features_out):
            Z[rows] = solve_lower(self._factor, self._kernel(part, self._kept))
        return Z

    def _kernel(self, X: Float64s, landmarks: Float64s) -> Float64s:
        """The kernel between rows and landmarks; sums feature by feature, so that no row depends on another."""
        distance = np.zeros((len(X), len(landmarks)))
        with np.errstate(over="ignore"):
            for x, mark in zip(X.T, landmarks.T, strict=True):
                gap = x[:, None] - mark[None, :]
                distance += gap * gap if self.kernel == "rbf" else np.abs(gap)
            distance *= self.gamma
        return exponential_of_minus(distance)

    def describe(self) -> dict[str, Any]:
        """The parameters, ready for JSON; of the landmarks their shape and the SHA-256 of their float64 bytes."""
        return {
            "map": "nystroem-features",
            "n_features_out": self.n_features_out,
            "kernel": self.kernel,
            "gamma": self.gamma,
            "landmarks": {
                "shape": list(self.landmarks.shape),
                "sha256": hashlib.sha256(self.landmarks.astype("<f8").tobytes()).hexdigest(),
            },
        }


def _check_landmarks(landmarks: Any) -> Float64s:
    """A copy that nobody can change, minus zero made zero."""
    if landmarks is None:
        raise ConfigurationError(
            "landmarks are required, and they must be public rows: landmarks taken from the training rows would stay "
            "in the map after those rows are forgotten. Give public or invented rows, or use RandomFourierFeatures, "
            "which needs none."
        )
    refusal: str | None = None
    try:
        rows = as_numbers(landmarks)
    except InputError as error:
        refusal = str(error)
    if refusal is not None:
        raise ConfigurationError(f"landmarks cannot be used: {refusal}")
    fixed: Float64s = (rows.toarray() if sp.issparse(rows) else np.array(rows, order="C")) + 0.0
    if 0 in fixed.shape:
        raise ConfigurationError(f"at least one landmark with one feature is required; got shape {fixed.shape}.")
    fixed.flags.writeable = False
    return fixed
