"""Linear classifiers on rows in the unit ball, one function against the rest for each class, with the logistic loss.

The loss of one function on one row is ``log(1 + exp(-s x'w))`` with ``s = 1`` for its class and ``s = -1`` for others.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from scipy.linalg import blas, lapack
from scipy.special import expit, log_expit, softmax

from erasable.core.arrays import Float64s, Matrix
from erasable.core.grid import Grid, scale_rows
from erasable.core.names import Key
from erasable.core.selector import RawRows
from erasable.core.sums import alone
from erasable.core.threads import few_threads
from erasable.errors import ConfigurationError
from erasable.models.configuration import check_memory, grid_of_parameters
from erasable.models.core_rows import overwrite
from erasable.models.strategies import n_bytes
from erasable.research.baselines.rows_classifier import RowsClassifier

LIPSCHITZ_CURVATURE = 1.0 / (6.0 * math.sqrt(3.0))  # the largest third derivative of log(1 + exp(-t))
_BLOCK = 2**18  # numbers made dense, or weighted, at once
_HALF = math.sqrt(0.5)  # features and constant share the unit ball evenly
_PRECISION = 1e-12  # training ends at a gradient of this size per row
_MOST_STEPS = 200


@dataclass(eq=False, repr=False)
class UnitRows:
    """Rows of norm at most one, the intercept's constant included, as a float64 array or as CSR."""

    X: Any

    @classmethod
    def scaled(cls, X: Matrix, grid: Grid) -> UnitRows:
        """Rows ``x`` as the scaling leaves them; with an intercept ``(x, 1) / sqrt 2``."""
        raw = RawRows(X, grid)
        raw.check_ball()
        n, d, p = len(raw), grid.n_features, grid.n_columns
        dense = isinstance(X, np.ndarray)
        rows = np.empty((n, p) if dense else (0, p))
        step, parts = max(1, _BLOCK // p), []
        for low in range(0, n, step):
            part = rows[low : low + step] if dense else np.empty((min(step, n - low), p))
            part[:, :d] = scale_rows(raw.dense(slice(low, low + step)), grid)
            if grid.intercept:
                part[:, :d] *= _HALF
                part[:, d] = _HALF
            if not dense:
                parts.append(sp.csr_array(part))
        return cls(rows if dense else sp.vstack(parts, format="csr"))

    @property
    def n_columns(self) -> int:
        """Features, and the constant where there is an intercept."""
        return int(self.X.shape[1])

    def blocks(self) -> Iterator[tuple[int, Float64s]]:
        """Dense pieces of a few MB with the position of their first row."""
        step = max(1, _BLOCK // self.n_columns)
        for low in range(0, self.X.shape[0], step):
            part = self.X[low : low + step]
            yield low, part if isinstance(part, np.ndarray) else part.toarray()

    def take(self, at: npt.NDArray[np.intp]) -> Float64s:
        """A dense copy of the rows at these positions."""
        part = self.X[at]
        return part if isinstance(part, np.ndarray) else part.toarray()

    def erase(self, at: npt.NDArray[np.intp]) -> None:
        """Overwrite these rows with zeros, which add nothing to any gradient or Hessian."""
        if isinstance(self.X, np.ndarray):
            self.X[at] = 0.0
            return
        for low, high in zip(self.X.indptr[at].tolist(), self.X.indptr[at + 1].tolist(), strict=True):
            self.X.data[low:high] = 0.0
            self.X.indices[low:high] = 0

    def weighted_gram(self, weight: Float64s | None = None, diagonal: float = 0.0) -> Float64s:
        """``X' diag(weight) X + diagonal I``: its lower triangle, in Fortran order. Cost: n p^2 flops."""
        p = self.n_columns
        H = np.zeros((p, p), order="F")
        root = None if weight is None else np.sqrt(weight)
        with few_threads(float(min(_BLOCK, self.X.shape[0] * p)) * p):  # threads would share one block at a time
            for low, part in self.blocks():
                if root is not None:
                    part = part * root[low : low + len(part), None]
                H = blas.dsyrk(1.0, part.T, beta=1.0, c=H, lower=1, overwrite_c=1)
        diagonal_of(H)[:] += diagonal
        return H


def diagonal_of(H: Float64s) -> Float64s:
    """The diagonal as a view that can be written to."""
    view: Float64s = np.einsum("ii->i", H)
    return view


def solve(H: Float64s, R: Float64s) -> Float64s | None:
    """``H^-1 R`` for a positive definite lower triangle; None where float64 cannot factor it. ``H`` stays as it is."""
    with alone(H):
        _, Z, info = lapack.dposv(H, R, lower=1)
    return Z if info == 0 else None


def targets(codes: npt.NDArray[np.intp], n_classes: int) -> Float64s:
    """+1 where a row is of the function's class, -1 elsewhere; one line per function.

    Two classes need one function, one class needs none.
    """
    if n_classes < 2:
        return np.empty((0, len(codes)))
    positive = np.arange(n_classes) if n_classes > 2 else np.ones(1, dtype=np.intp)
    return np.where(codes == positive[:, None], 1.0, -1.0)


def minimise(rows: UnitRows, signs: Float64s, ridge: float, b: Float64s | None = None) -> tuple[Float64s, float]:
    """The minimiser of ``sum log(1 + exp(-s x'w)) + ridge/2 |w|^2 + b'w``, and the norm of the gradient left there.

    Newton's method with halved steps: the objective is strongly convex, so it converges also on separable rows. The
    gradient ends at ``1e-12`` per row, or where float64 cannot lower it any more. Cost: n p^2 a step, some ten steps.
    """
    X = rows.X
    n, p = X.shape
    b = np.zeros(p) if b is None else b
    tolerance = _PRECISION * (n + float(np.linalg.norm(b)))
    w, best, smallest = np.zeros(p), np.zeros(p), math.inf

    def value(z: Float64s, at: Float64s) -> float:
        return float(-log_expit(z).sum() + 0.5 * ridge * (at @ at) + b @ at)

    for _ in range(_MOST_STEPS):
        z = signs * (X @ w)
        gradient = ridge * w + b - X.T @ (signs * expit(-z))
        size = float(np.linalg.norm(gradient))
        stuck = size > 0.5 * smallest
        if size < smallest:
            best, smallest = w, size
        if size <= tolerance:
            break
        step = solve(rows.weighted_gram(expit(z) * expit(-z), ridge), -gradient)
        now = value(z, w)
        rounding = 1e-14 * (n + abs(now))
        if step is None or (stuck and -gradient @ step < rounding):
            break
        dz, t = signs * (X @ step), 1.0
        while t > 1e-12 and value(z + t * dz, w + t * step) > now + 0.1 * t * float(gradient @ step) + rounding:
            t *= 0.5
        w = w + t * step
    return best, smallest


def noise_for_unit_shift(epsilon: float, delta: float, constant: float = 1.25) -> float:
    """Standard deviation of Gaussian noise that makes points a distance one apart (epsilon, delta)-indistinguishable.

    Up to ``epsilon = 1``, where its proof ends, this is the papers' ``sqrt(2 log(constant / delta)) / epsilon``; above,
    it is what concentrated differential privacy gives (``epsilon = rho + 2 sqrt(rho log(1/delta))`` with
    ``rho = 1 / (2 sigma^2)``), which holds for every epsilon.
    """
    if epsilon <= 1.0:
        return math.sqrt(2.0 * math.log(constant / delta)) / epsilon
    log = -math.log(delta)
    return (math.sqrt(log + epsilon) + math.sqrt(log)) / (math.sqrt(2.0) * epsilon)


def check_generator(random_state: Any) -> np.random.Generator:
    """A generator of noise; None takes its seed from the operating system."""
    try:
        return np.random.default_rng(random_state)
    except (TypeError, ValueError):
        kind = type(random_state).__name__
    raise ConfigurationError(
        f"random_state must be None, a non-negative integer or a numpy.random.Generator; got {kind}."
    )


class UnitBallScores(RowsClassifier):
    """What linear functions of unit-ball rows answer. Subclasses say where the functions come from."""

    fit_intercept: Any
    scaling: Any
    grid_bits = 20  # only decides how far above one the norm of a row may be

    classes_: npt.NDArray[Any]
    _grid: Grid
    _weights: Float64s  # one line per function; zeros where there is but one class

    def decision_function(self, X: Matrix) -> Float64s:
        """``w'x`` for each row: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        X = self._rows_to_predict(X)
        W, offset, raw = self.coef_, self.intercept_, RawRows(X, self._grid)
        scores = np.empty((len(raw), len(W)))
        step = max(1, _BLOCK // self._grid.n_columns)
        for low in range(0, len(raw), step):
            scores[low : low + step] = scale_rows(raw.dense(slice(low, low + step)), self._grid) @ W.T + offset
        return scores if len(W) > 1 else scores[:, 0]

    def predict(self, X: Matrix) -> npt.NDArray[Any]:
        """The class of each row: the sign of ``w'x``, or the class with the largest one."""
        scores = self.decision_function(X)
        winner = np.argmax(scores, axis=1) if scores.ndim > 1 else (scores > 0).astype(np.intp)
        chosen: npt.NDArray[Any] = self.classes_[winner]
        return chosen

    def predict_proba(self, X: Matrix) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes): the logistic function of the scores, normalised."""
        scores = self.decision_function(X)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        if scores.ndim > 1:
            shares: Float64s = softmax(log_expit(scores), axis=1)
            return shares
        return np.column_stack([expit(-scores), expit(scores)])

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        self._check_attribute("coef_")
        return self._weights[:, : self._grid.n_features] * (_HALF if self._grid.intercept else 1.0)

    @property
    def intercept_(self) -> Float64s:
        """The constant that the appended coordinate adds to ``w'x``."""
        self._check_attribute("intercept_")
        return self._weights[:, -1] * _HALF if self._grid.intercept else np.zeros(len(self._weights))


class UnitBallClassifier(UnitBallScores):
    """Linear functions of unit-ball rows. Subclasses say how they are trained and what a removal does to them."""

    alpha: Any
    epsilon: Any
    delta: Any
    random_state: Any

    _place: dict[Key, int]
    _plan: Any
    _rng: np.random.Generator
    _rows: UnitRows
    _codes: npt.NDArray[np.intp]
    _counts: npt.NDArray[np.intp]

    @abstractmethod
    def _plan_of_parameters(self) -> Any:
        """The constructor arguments, checked; a fitted model keeps to them whatever ``set_params`` does later."""

    @abstractmethod
    def _train(
        self, rows: UnitRows, codes: npt.NDArray[np.intp], n_classes: int, plan: Any, rng: np.random.Generator
    ) -> dict[str, Any]:
        """What training on these rows from nothing gives; one class, or none, needs no function."""

    @abstractmethod
    def _update(self, Z: Float64s, codes: npt.NDArray[np.intp]) -> int:
        """Bring the functions up to date after these rows have left; the number of rows trained on again."""

    @abstractmethod
    def _statistics(self) -> list[Float64s]:
        """The arrays held in addition to rows, labels and weights."""

    def _check_parameters(self) -> None:
        self._plan_of_parameters()

    def _learn(self, X: Matrix, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        plan, rng = self._plan_of_parameters(), check_generator(self.random_state)
        grid = grid_of_parameters(cast(Any, self), X.shape[1])
        check_memory(grid)
        rows = UnitRows.scaled(X, grid)
        classes, codes = np.unique(y, return_inverse=True)
        fitted = {"_plan": plan, "_rng": rng, "_grid": grid, "_place": {key: i for i, key in enumerate(keys)}}
        return fitted | self._fitted_to(rows, codes.astype(np.intp), classes, plan, rng)

    def _fitted_to(
        self,
        rows: UnitRows,
        codes: npt.NDArray[np.intp],
        classes: npt.NDArray[Any],
        plan: Any,
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        counts = np.bincount(codes, minlength=len(classes))
        fitted = {"classes_": classes, "_rows": rows, "_codes": codes, "_counts": counts}
        return fitted | self._train(rows, codes, len(classes), plan, rng)

    def _erase(self) -> None:
        overwrite(self._rows.X)

    def _remove(self, keys: list[Key]) -> int:
        at = np.array([self._place.pop(key) for key in keys], dtype=np.intp)
        Z, codes = self._rows.take(at), self._codes[at]
        self._rows.erase(at)
        self._codes[at] = 0
        self._counts -= np.bincount(codes, minlength=len(self._counts))
        if not self._counts.all():
            return self._refit()
        return self._update(Z, codes) if len(self.classes_) > 1 else 0

    def _refit(self) -> int:
        """Train on the remaining rows from nothing; their number."""
        at = np.fromiter(self._place.values(), dtype=np.intp, count=len(self._place))
        left = np.flatnonzero(self._counts)
        rows, codes = UnitRows(self._rows.X[at]), np.searchsorted(left, self._codes[at])
        fitted = self._fitted_to(rows, codes, self.classes_[left], self._plan, self._rng)
        for array in [self._weights, *self._statistics()]:  # sums over forgotten rows, too
            array.fill(0.0)
        self._place = {key: i for i, key in enumerate(self._place)}
        self.__dict__.update(fitted)
        return len(at)

    @property
    def stored_bytes_(self) -> int:
        """Bytes of rows, labels, weights and the sums kept for forgetting."""
        self._check_attribute("stored_bytes_")
        return n_bytes(self._rows.X) + sum(a.nbytes for a in [self._codes, self._weights, *self._statistics()])
