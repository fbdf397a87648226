"""Random Fourier features: the RBF kernel as an inner product of cosines, drawn from an integer alone."""

from __future__ import annotations

import functools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Float64s
from erasable.errors import InputError
from erasable.features._base import MOST_FEATURES, NUMBERS, FeatureMap, as_numbers, dense_blocks, set_field
from erasable.features._rowwise import cosine_of_turns, product
from erasable.validation import number_between, seed, whole_number

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

    def __call__(self, X: Any) -> Float64s:
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
