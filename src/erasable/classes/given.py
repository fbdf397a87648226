"""Function classes given by the caller: a finite list of functions, or two numeric oracles."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s, Integers
from erasable.core.function_class import Predictor
from erasable.errors import ConfigurationError, ExactnessError
from erasable.validation import function, positive_number, text

BITS = 20
STEPS = 2**BITS  # a prediction of 1
ONE = 4**BITS  # the 1 in the denominator of D², in squared steps
MOST_ROWS = 2**22  # sums of squares then stay below 2**63
_DOUBT = 2.0**-10  # in steps: a value so close to halfway between two of them is asked for again, row by row
_NUMBERS = 2**20  # handled at once


@dataclass(frozen=True, init=False, repr=False)
class FiniteClass:
    """A list of given functions with values in [0, 1]; decided exactly.

    Parameters
    ----------
    functions : iterable of at least two callables or fitted estimators
        Each gives a row of ``X`` a number in [0, 1]: ``f(X)``, or ``predict_proba(X)[:, 1]`` of an estimator with two
        classes, or ``predict(X)``. They must come from public data: a function fitted on a row that is forgotten
        later would remember it.
    name : str, default=""
        Goes into the digest of states, which cannot hold the functions themselves. Change it with them.

    Notes
    -----
    A prediction is rounded to a multiple of ``2**-20``, and the rounded functions are the class. Libraries give a row
    slightly different values in calls with other rows. A value nearer than ``2**-30`` to where rounding changes is
    therefore asked for again with the row alone, so that an encoded row does not depend on other rows.
    """

    functions: tuple[Any, ...]
    name: str
    exact = True
    assumptions = (
        "the functions of the class were not fitted on rows that may have to be forgotten",
        "a function gives a row the same value whenever asked alone, and among other rows one within 2**-30 of it",
    )

    def __init__(self, functions: Iterable[Any], *, name: str = "") -> None:
        if isinstance(functions, str | bytes) or not isinstance(functions, Iterable):
            raise ConfigurationError(f"functions must be a list of functions; got {type(functions).__name__}.")
        given = tuple(functions)
        if len(given) < 2:
            raise ConfigurationError(f"at least two functions are required, for two to disagree; got {len(given)}.")
        for k, one in enumerate(given):
            able = callable(one) or hasattr(one, "predict") or hasattr(one, "predict_proba")
            if isinstance(one, type) or not able:
                raise ConfigurationError(
                    f"function {k + 1} of {len(given)} must be a callable or a fitted estimator; "
                    f"got {'a class' if isinstance(one, type) else type(one).__name__}."
                )
        object.__setattr__(self, "functions", given)
        object.__setattr__(self, "name", text(name, "name"))

    def __repr__(self) -> str:
        return f"FiniteClass({len(self.functions)} functions, name={self.name!r})"

    def empty(self, n_features: int) -> Array:
        """Vectors of predictions, none of them."""
        return np.empty((0, len(self.functions)), dtype=np.int32)

    def encode(self, X: Array) -> Array:
        """What each function predicts for each row, in steps of ``2**-20``; shape (n, number of functions), int32."""
        X = np.ascontiguousarray(X, dtype=np.float64)
        steps = np.zeros((len(X), len(self.functions)), dtype=np.int32)
        if len(X):
            for k in range(len(self.functions)):
                values = self._ask(k, X)
                rounded = np.rint(values)
                if len(X) > 1:
                    for i in np.flatnonzero(np.abs(values - rounded) > 0.5 - _DOUBT):
                        rounded[i] = np.rint(self._ask(k, X[i : i + 1])[0])
                steps[:, k] = rounded
        return steps

    embed = encode

    def _ask(self, k: int, X: Float64s) -> Float64s:
        """The values of function k, in steps, not rounded."""
        function, label = self.functions[k], f"function {k + 1} of {len(self.functions)}"
        refusal: ConfigurationError | None = None
        try:
            if hasattr(function, "predict_proba"):
                table = np.asarray(function.predict_proba(X.copy()), dtype=np.float64)
                values = table[:, 1] if table.ndim == 2 and table.shape[1] == 2 else table
            else:
                ask = function.predict if hasattr(function, "predict") else function
                values = np.asarray(ask(X.copy()), dtype=np.float64)
        except Exception as error:
            refusal = ConfigurationError(
                f"{label} failed with {type(error).__name__} on {len(X)} rows of {X.shape[1]} features: "
                "try it on such an array by itself."
            )
        if refusal is not None:
            raise refusal  # here and not above, where it would carry the original, and with it values, along
        if values.shape != (len(X),):
            raise ConfigurationError(
                f"{label} must give one number a row (or two columns of probabilities): for {len(X)} rows it gave an "
                f"array of shape {values.shape}."
            )
        scaled: Float64s = values * STEPS
        unfit = ~((np.rint(scaled) >= 0) & (np.rint(scaled) <= STEPS))
        if unfit.any():
            raise ConfigurationError(
                f"{label} must stay in [0, 1]: {int(np.count_nonzero(unfit))} of {len(X)} values leave it or are NaN."
            )
        return scaled

    def holds(self, rows: Array) -> Booleans:
        """Whether each is a vector of predictions."""
        if rows.dtype != np.int32 or rows.shape[1] != len(self.functions):
            return np.zeros(len(rows), dtype=bool)
        return np.asarray(((rows >= 0) & (rows <= STEPS)).all(axis=1))

    def start(self, n_features: int) -> FiniteMeasure:
        """Disagreement of all pairs before any row."""
        return FiniteMeasure(len(self.functions))

    def fit(self, rows: Array, y01: Integers) -> FiniteFit:
        """The function with the smallest sum of squares, found by enumeration; of equals the first."""
        _guard(len(rows))
        errors = np.asarray(y01, dtype=np.int64)[:, None] * STEPS - rows
        return FiniteFit(int(np.argmin(np.einsum("ij,ij->j", errors, errors))))  # Algorithm 2, line 4

    def widest(self, n_features: int) -> float:
        """One: values lie in [0, 1]."""
        return 1.0

    def dimension(self, rows: Array) -> float:
        """The sum over pairs of ``log(1 + sum of (f - g)²)``, or half the number of rows where that is less.

        For one pair, a row with ``a = (f - g)²`` adds ``a / (1 + s + a) <= log((1 + s + a) / (1 + s))`` to D(F, S), s
        being the sum so far; these telescope in any order of the rows, and the supremum over pairs is at most the sum.
        No row adds more than 1/2, since ``a <= 1``.
        """
        measure = self.start(0)
        measure.add(rows)
        return min(float(np.log1p(measure.sums / ONE).sum()), 0.5 * len(rows))

    def rate(self, n_rows: int, delta: float, n_features: int) -> float:
        """``1 + 2 log(|F| T / delta)``.

        Suppose ``P(label = +1 | x)`` is one of the functions, f*. The best fit f has ``V = sum (f - f*)² <= 2 sum noise
        (f - f*)``. The noise is sub-Gaussian with constant 1/2, so with probability ``1 - delta / T`` that is at most
        ``sqrt(2 V log(|F| T / delta))`` for all functions at once, whence ``V <= 2 log(|F| T / delta)``.
        """
        return 1.0 + 2.0 * math.log(len(self.functions) * n_rows / delta)

    def stability(self, n_rows: int) -> float | None:
        """None: one row can decide between two functions that are far apart, for any n."""
        return None

    def describe(self) -> dict[str, Any]:
        """Name and number of the functions, and the grid of predictions."""
        return {"class": "finite", "name": self.name, "functions": len(self.functions), "bits": BITS}


class FiniteMeasure:
    """For every pair of functions the sum of squared differences over the rows added, in squared steps."""

    def __init__(self, n_functions: int) -> None:
        self.first, self.second = np.triu_indices(n_functions, 1)
        self.sums: Int64s = np.zeros(len(self.first), dtype=np.int64)
        self.n_rows = 0

    def _squares(self, rows: Array) -> Int64s:
        """Squared differences, shape (n, pairs)."""
        steps = rows.astype(np.int64)
        differences: Int64s = steps[:, self.first] - steps[:, self.second]
        return differences * differences

    def _blocks(self, n: int) -> range:
        return range(0, n, self._step)

    @property
    def _step(self) -> int:
        return max(1, _NUMBERS // len(self.first))

    def squared(self, rows: Array) -> Float64s:
        """``D²`` of each row, rounded."""
        out = np.zeros(len(rows))
        for low in self._blocks(len(rows)):
            part = slice(low, low + self._step)
            out[part] = (self._squares(rows[part]) / (self.sums + ONE)).max(axis=1)
        return out

    def exceeds(self, rows: Array, tau: float) -> Booleans:
        """Whether ``D² > tau``: for some pair ``(f - g)² > tau (1 + sum)``, compared as integers.

        Notes
        -----
        *Law*: the answer is that of the comparison in exact arithmetic; ``tau`` is the float64 it is.
        *Cost*: one float64 comparison a row and pair; integers of any size where rounding could matter.
        """
        above, below = float(tau).as_integer_ratio()
        limit = float(tau) * (self.sums + ONE)  # two roundings: off by less than 2**-51 of itself
        out = np.zeros(len(rows), dtype=bool)
        for low in self._blocks(len(rows)):
            part = slice(low, low + self._step)
            squares = self._squares(rows[part])
            sure = squares > limit * (1.0 + 2.0**-50)
            verdict = sure.any(axis=1)
            near = (squares > 0) & (squares >= limit * (1.0 - 2.0**-50)) & ~sure & ~verdict[:, None]
            for i, p in zip(*np.nonzero(near), strict=True):
                verdict[i] |= int(squares[i, p]) * below > above * (int(self.sums[p]) + ONE)
            out[part] = verdict
        return out

    def add(self, rows: Array) -> None:
        """These rows join the sums."""
        _guard(self.n_rows + len(rows))
        for low in self._blocks(len(rows)):
            self.sums += self._squares(rows[low : low + self._step]).sum(axis=0)
        self.n_rows += len(rows)


@dataclass(frozen=True)
class FiniteFit:
    """One of the functions, for rows that are vectors of predictions."""

    column: int

    def __call__(self, rows: Array) -> Float64s:
        """The predictions of that function, as fractions of one."""
        return np.ldexp(rows[:, self.column].astype(np.float64), -BITS)


def _guard(n_rows: int) -> None:
    if n_rows > MOST_ROWS:
        raise ExactnessError(
            f"sums over {n_rows:,} rows could pass 64 bits; up to {MOST_ROWS:,} are exact: raise the threshold."
        )


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
        fitted = _called(self.erm, "erm", rows.copy(), np.array(y01))
        if not callable(fitted):
            raise ConfigurationError(f"erm must give a function of X; it gave {type(fitted).__name__}.")

        def predict(X: Array) -> Float64s:
            return _numbers(_called(fitted, "the function that erm gave", np.array(X)), len(X), "what erm gave")

        return predict

    def widest(self, n_features: int) -> float:
        """Infinity: nothing is known."""
        return math.inf

    def dimension(self, rows: Array) -> float:
        """The bound given, or half the number of rows: one with ``a = (f - g)² <= 1`` adds at most ``a / (1 + a)``."""
        if self.given_dimension is None:
            return 0.5 * len(rows)
        value = _called(self.given_dimension, "dimension", rows.copy())
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
        values = _numbers(_called(self.sup, "sup", rows.copy(), self.rows.copy()), len(rows), "sup")
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


def _called(oracle: Callable[..., Any], name: str, *arguments: Any) -> Any:
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
