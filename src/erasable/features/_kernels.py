"""Maps whose inner products approximate a kernel: random Fourier features, and Nyström features of public landmarks.

Every bit of a mapped row is the same for a row alone, in a batch, and on any machine. A product by BLAS sums in an
order that depends on the shape of the batch and on the processor, and the cosine and the exponential of NumPy differ
in the last bit between processors. After rounding to the grid such a bit is nearly always gone, but not always, and
then a refit of the same rows would have another digest. So here

- products are split into parts whose products with integer weights are integers below ``2**53``: no operation rounds,
  so order, threads and fused multiply-add make no difference;
- everything else is additions, multiplications, divisions, roots and roundings entry by entry, each correctly
  rounded as IEEE 754 has it.
"""

from __future__ import annotations

import functools
import hashlib
import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Float64s
from erasable.core.threads import few_threads
from erasable.errors import ConfigurationError, InputError
from erasable.features._base import MOST_FEATURES, NUMBERS, FeatureMap, Raw, as_numbers, dense_blocks, set_field
from erasable.validation import choice, number_between, positive_number, seed, whole_number

WEIGHT_BITS = 20  # integer weights are at most 2**20 in size
_KEPT_BITS = 46  # a row's entries are used to this many bits below its largest, or more
_SINE = [(-1) ** k / math.factorial(2 * k + 1) for k in range(11)]  # Taylor, enough for |u| <= pi / 2
_EXPONENTIAL = [1 / math.factorial(k) for k in range(15)]  # Taylor, enough for |r| <= log(2) / 2


# log(2) in two parts, the first with so few bits that its products with small integers are exact.
_LN2_HIGH, _LN2_LOW = float.fromhex("0x1.62e42feep-1"), float.fromhex("0x1.a39ef35793c76p-33")


_PER_LN2 = 1.4426950408889634


def product(X: Float64s, W: Float64s) -> Float64s:
    """``X @ W`` for weights that are integers of size at most ``2**20``.

    Entries of ``X`` are cut off ``_KEPT_BITS`` or more bits below the largest of their row; what is left is multiplied
    without error and rounded when the parts are put together.

    *Law*: row ``i`` of the result depends on row ``i`` of ``X`` and on ``W`` alone, bitwise.
    *Cost*: two products by BLAS, three for more than 1,024 features.
    """
    bits = 53 - WEIGHT_BITS - (X.shape[1] - 1).bit_length()
    _, exponent = np.frexp(np.max(np.abs(X), axis=1, initial=0.0))
    rest = np.ldexp(X, (bits - exponent)[:, None])
    total = np.zeros((X.shape[0], W.shape[1]))
    quiet = np.errstate(over="ignore", under="ignore", invalid="ignore")
    with quiet, few_threads(float(X.size) * W.shape[1]):
        for k in range(1, -(-_KEPT_BITS // bits) + 1):
            part = np.rint(rest)
            total += (part @ W) * np.ldexp(1.0, exponent - k * bits)[:, None]
            rest = (rest - part) * 2.0**bits
    return total


def cosine_of_turns(t: Float64s) -> Float64s:
    """``cos(2 pi t)`` within a few units of ``2**-53``, for finite ``t``."""
    u = t - np.rint(t)
    np.abs(u, out=u)
    np.subtract(0.25, u, out=u)  # cos(2 pi t) = sin(2 pi (1/4 - |t|)) for |t| <= 1/2
    u *= 2.0 * math.pi
    square = u * u
    value = np.full_like(u, _SINE[-1])
    for c in reversed(_SINE[:-1]):
        value *= square
        value += c
    value *= u
    return value


def exponential_of_minus(t: Float64s) -> Float64s:
    """``exp(-t)`` within a few units of the last place, for ``t >= 0``; infinity gives zero."""
    t = np.minimum(t, 800.0)
    k = np.rint(t * _PER_LN2)
    r = (k * _LN2_HIGH - t) + k * _LN2_LOW
    value = np.full_like(r, _EXPONENTIAL[-1])
    for c in reversed(_EXPONENTIAL[:-1]):
        value *= r
        value += c
    with np.errstate(under="ignore"):
        scaled: Float64s = np.ldexp(value, -k.astype(np.int64))
    return scaled


def cholesky(K: Float64s, tolerance: float) -> tuple[Float64s, list[int]]:
    """A lower factor of ``K`` restricted to the rows kept, and which rows those are.

    A row whose pivot is at most ``tolerance`` is, as far as float64 can tell, a combination of those before it; it is
    left out. *Cost*: m^3 / 3 multiplications entry by entry.
    """
    K, kept = K.copy(), []
    factor = np.zeros_like(K)
    for k in range(len(K)):
        if K[k, k] <= tolerance:
            continue
        factor[k:, k] = K[k:, k] / np.sqrt(K[k, k])
        column = factor[k + 1 :, k]
        K[k + 1 :, k + 1 :] -= column[:, None] * column[None, :]
        kept.append(k)
    return factor[np.ix_(kept, kept)], kept


def solve_lower(factor: Float64s, rows: Float64s) -> Float64s:
    """``rows @ inv(factor).T``, by substitution; ``rows`` is overwritten. *Cost*: m^2 / 2 multiplications a row."""
    for k in range(len(factor)):
        rows[:, k] /= factor[k, k]
        rows[:, k + 1 :] -= rows[:, k, None] * factor[k + 1 :, k]
    return rows


_FREQUENCY_BITS = 16  # frequencies are multiples of 2**-16; none is above 8.3, so they fit 20 bits


@dataclass(frozen=True, eq=False)
class RandomFourierFeatures(FeatureMap):
    """A map of rows of numbers whose inner products approximate ``exp(-gamma |x - y|^2)``; no row is needed to make it.

    Feature ``k`` is ``sqrt(2 / n_features_out) * cos(w_k' x + b_k)``, with ``w_k`` normal of variance ``2 gamma`` and
    ``b_k`` uniform (Rahimi and Recht, 2007). The error of an inner product falls like ``1 / sqrt(n_features_out)``.

    Parameters
    ----------
    n_features_out : int, default=500
        The model holds matrices of this size squared.
    gamma : float, default=1.0
        Of the kernel. The columns should have sizes that fit it: divide them by public numbers first.
    random_state : int, default=0
        Between 0 and ``2**64 - 1``.

    Notes
    -----
    *Generator*: Philox-4x64-10 with key ``random_state``, counter from zero, its raw 64-bit numbers ``r`` in order: one
    for each phase, then one for each frequency, input feature by input feature. A phase is ``floor(r / 2**11) /
    2**53`` turns. A frequency is the normal quantile of ``(floor(r / 2**12) + 1/2) / 2**52``, rounded to a multiple of
    ``2**-16``, times ``sqrt(2 gamma)``. NumPy promises to keep the raw numbers of Philox, and not its normal numbers;
    the rounding swallows last bits in which versions of SciPy differ, but for about one frequency in ``10**10``.

    *Law*: bitwise. A mapped row depends on that row and the parameters alone, not on the other rows, the container,
    threads or the machine. *Cost*: two BLAS products and some forty passes over the result, in small blocks.

    Rows get a norm of about one, at most ``sqrt(2)``.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.features import RandomFourierFeatures
    >>> Z = RandomFourierFeatures(4000, gamma=0.5)(np.array([[0.0, 0.0], [1.0, 1.0]]))
    >>> Z.shape, bool(abs(Z[0] @ Z[1] - np.exp(-1.0)) < 0.05)
    ((2, 4000), True)
    """

    n_features_out: int = 500
    gamma: float = 1.0
    random_state: int = 0
    takes = NUMBERS

    def __post_init__(self) -> None:
        set_field(self, "n_features_out", whole_number(self.n_features_out, "n_features_out", 1, MOST_FEATURES))
        set_field(self, "gamma", number_between(self.gamma, "gamma", 0.0, 1e300, closed="high"))
        set_field(self, "random_state", seed(self.random_state, most=2**64 - 1))

    def __call__(self, X: Raw) -> Float64s:
        """Mapped rows, shape (n, n_features_out)."""
        X = as_numbers(X)
        phases, W = _draw(self.n_features_out, X.shape[1], self.random_state)
        turns = math.ldexp(math.sqrt(2.0 * self.gamma) / (2.0 * math.pi), -_FREQUENCY_BITS)
        Z = np.empty((X.shape[0], self.n_features_out))
        for rows, part in dense_blocks(X, self.n_features_out):
            with np.errstate(over="ignore", invalid="ignore"):
                t = product(part, W)
                t *= turns
            if not np.isfinite(t).all():
                raise InputError("a row is so large that its phase overflows float64: divide the columns first.")
            t += phases
            Z[rows] = cosine_of_turns(t)
        Z *= math.sqrt(2.0 / self.n_features_out)
        return Z

    def describe(self) -> dict[str, Any]:
        """The parameters, ready for JSON."""
        return {
            "map": "random-fourier-features",
            "n_features_out": self.n_features_out,
            "gamma": self.gamma,
            "random_state": self.random_state,
        }


@functools.lru_cache(maxsize=4)
def _draw(n_features_out: int, n_features: int, key: int) -> tuple[Float64s, Float64s]:
    """Phases in turns, and frequencies as integers of shape (n_features, n_features_out)."""
    from scipy.special import ndtri  # only here: a model without such a map does not wait for it

    raw = np.random.Philox(key=key).random_raw(n_features_out * (n_features + 1))
    phases = (raw[:n_features_out] >> np.uint64(11)).astype(np.float64) * 2.0**-53
    middle = ((raw[n_features_out:] >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52  # never 0 or 1
    W: Float64s = np.rint(ndtri(middle) * 2.0**_FREQUENCY_BITS).reshape(n_features, n_features_out)
    for array in (phases, W):
        array.flags.writeable = False
    return phases, W


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
        Rows that will never have to be forgotten: public, invented, or of a fixed pattern. They are part of the map
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

    def __call__(self, X: Raw) -> Float64s:
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
    """A read-only copy; minus zero becomes zero."""
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
