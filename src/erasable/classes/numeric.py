"""A class given by two numeric oracles: one that estimates D², one that fits. Nothing about it is exact.

It calls the oracles given, and touches nothing else.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Integers
from erasable.core.function_class import Predictor
from erasable.errors import ConfigurationError
from erasable.validation import function, positive_number, text


@dataclass(frozen=True, init=False)
class NumericClass:
    """Any class for which you can compute the two things that selection and prediction need; approximate.

    Parameters
    ----------
    sup : callable
        ``sup(X, Q)`` gives ``D²(x; Q)`` for each row of ``X``, shape (n,): the supremum over f, g in F of ``(f(x) -
        g(x))² / (1 + sum over Q of (f - g)²)``. ``Q`` has shape (q, n_features); q may be 0.
    erm : callable
        ``erm(X, y)`` gives a function of ``X`` with values in [0, 1] that minimises the sum of ``(y - f(x))²`` over F
        for ``y`` in {0, 1}. It has to be deterministic: predictors are refitted, never stored.
    rate : float, optional
        R(T, delta), where you know it: the staged sampler needs one.
    dimension : callable, optional
        ``dimension(X)``, an upper bound on D(F, S). By default half the number of rows, which holds for every class
        with values in [0, 1].
    name : str, default=""
        Goes into the digest of states, which cannot hold the oracles themselves.

    Notes
    -----
    Whether ``sup`` is above a threshold is decided by its rounded, perhaps not even converged, answer. Another machine,
    another batch or another run may answer otherwise, so no core set chosen this way is claimed to be stable.
    """

    sup: Callable[[Any, Any], Any]
    erm: Callable[[Any, Any], Any]
    given_rate: float | None
    given_dimension: Callable[[Any], float] | None
    name: str
    exact = False
    assumptions = ()

    def __init__(
        self,
        sup: Callable[[Any, Any], Any],
        erm: Callable[[Any, Any], Any],
        *,
        rate: float | None = None,
        dimension: Callable[[Any], float] | None = None,
        name: str = "",
    ) -> None:
        object.__setattr__(self, "sup", function(sup, "sup"))
        object.__setattr__(self, "erm", function(erm, "erm"))
        object.__setattr__(self, "given_rate", None if rate is None else positive_number(rate, "rate"))
        object.__setattr__(self, "given_dimension", None if dimension is None else function(dimension, "dimension"))
        object.__setattr__(self, "name", text(name, "name"))

    def __repr__(self) -> str:
        return f"NumericClass(name={self.name!r})"

    def empty(self, n_features: int) -> Array:
        """Rows, none of them."""
        return np.empty((0, n_features))

    def encode(self, X: Array) -> Array:
        """Rows as they are, as float64; minus zero is zero."""
        return np.array(X, dtype=np.float64) + 0.0

    embed = encode

    def holds(self, rows: Array) -> Booleans:
        """Whether each is a row of finite float64 numbers."""
        if rows.dtype != np.float64:
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(np.isfinite(rows).all(axis=1))

    def start(self, n_features: int) -> NumericMeasure:
        """The oracle, asked about an empty Q."""
        return NumericMeasure(self.sup, self.empty(n_features))

    def fit(self, rows: Array, y01: Integers) -> Predictor:
        """What ``erm`` returns, its answers checked."""
        fitted = _asked(self.erm, "erm", rows.copy(), np.array(y01))
        if not callable(fitted):
            raise ConfigurationError(f"erm must give a function of X; it gave {type(fitted).__name__}.")

        def predict(X: Array) -> Float64s:
            return _numbers(_asked(fitted, "the function that erm gave", np.array(X)), len(X), "what erm gave")

        return predict

    def widest(self, n_features: int) -> float:
        """Infinity: nothing is known."""
        return math.inf

    def dimension(self, rows: Array) -> float:
        """The bound given, or half the number of rows: one with ``a = (f - g)² <= 1`` adds at most ``a / (1 + a)``."""
        if self.given_dimension is None:
            return 0.5 * len(rows)
        value = _asked(self.given_dimension, "dimension", rows.copy())
        return float(_numbers([value], 1, "dimension")[0])

    def rate(self, n_rows: int, delta: float, n_features: int) -> float | None:
        """The number given, or None."""
        return self.given_rate

    def stability(self, n_rows: int) -> float | None:
        """None: nothing is known."""
        return None

    def describe(self) -> dict[str, Any]:
        """Its name."""
        return {"class": "numeric", "name": self.name}


class NumericMeasure:
    """``D²( . ; Q)`` as the oracle computes it."""

    def __init__(self, sup: Callable[[Any, Any], Any], nothing: Array) -> None:
        self.sup, self._parts = sup, [nothing]

    @property
    def rows(self) -> Array:
        """Q, in the order in which rows joined."""
        if len(self._parts) > 1:
            self._parts = [np.concatenate(self._parts)]
        return self._parts[0]

    def squared(self, rows: Array) -> Float64s:
        """What the oracle says."""
        values = _numbers(_asked(self.sup, "sup", rows.copy(), self.rows.copy()), len(rows), "sup")
        negative = int(np.count_nonzero(values < 0.0))
        if negative:
            raise ConfigurationError(f"sup must not be negative; {negative} of {len(rows)} values are.")
        return values

    def exceeds(self, rows: Array, tau: float) -> Booleans:
        """Whether what the oracle says is above ``tau``."""
        return np.asarray(self.squared(rows) > tau)

    def add(self, rows: Array) -> None:
        """These rows join Q."""
        self._parts.append(np.array(rows))


def _asked(oracle: Callable[..., Any], name: str, *arguments: Any) -> Any:
    """The oracle's answer, or an error that does not quote its own."""
    try:
        return oracle(*arguments)
    except Exception as error:
        refusal = ConfigurationError(
            f"{name} failed with {type(error).__name__} on {len(arguments[0])} rows: try it on such arrays by itself."
        )
    raise refusal  # here and not above, where it would carry the original, and with it values, along


def _numbers(values: Any, n: int, name: str) -> Float64s:
    """Finite numbers, one a row."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.empty((0, 0))
    if array.shape != (n,):
        raise ConfigurationError(f"{name} must give one number a row: for {n} rows it gave {_shape(values)}.")
    unfit = int(np.count_nonzero(~np.isfinite(array)))
    if unfit:
        raise ConfigurationError(f"{name} must give finite numbers; {unfit} of {n} are not.")
    return array


def _shape(values: Any) -> str:
    shape = getattr(values, "shape", None)
    return f"an array of shape {shape}" if isinstance(shape, tuple) else type(values).__name__
