"""Exact retraining on all rows, as fast as it can be: every row is kept and the exact sums are downdated."""

from __future__ import annotations

from collections import Counter
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin

from erasable.core.arrays import Array, ColumnLike, Float32s, Float64s, Matrix
from erasable.core.grid import Grid, scale_rows
from erasable.core.selector import RawRows, grid_of
from erasable.core.sums import (
    add_rows,
    add_sums,
    empty_gram,
    guard_exactness,
    regulariser,
    solve_weights,
    sums_by_class,
    targets,
)
from erasable.errors import InputError, NoRowsError
from erasable.estimators import ErasableClassifier
from erasable.estimators.validated import check_rows
from erasable.models.inputs import array_of, pick
from erasable.models.reports import Guarantee
from erasable.validation import positive_number


class RetrainedRidge(ErasableClassifier):
    """Ridge classification on all rows; forgetting downdates exact sums and equals a refit, bitwise.

    This is the paper's *exact retraining*: all rows are stored and each deletion pays for an update and a solve. It
    is ``ErasableClassifier`` with a threshold of zero, which every row passes (only a row of zeros, which adds nothing
    to any sum, is not kept), so it has the same grid, the same kernels and the same canonical state.

    *Guarantee*: exact unlearning in the traditional sense (epsilon = delta = 0, Definition 2.1 of the paper), bitwise:
    the state equals that of a model that never saw the forgotten rows. No assumptions. All rows stay stored.

    Parameters
    ----------
    alpha : float, default=1.0
        The regulariser, lambda.
    fit_intercept, scaling, classes, grid_bits
        As in ``ErasableClassifier``.

    Attributes
    ----------
    classes_, coef_, intercept_, n_features_in_
        As in ``ErasableClassifier``.
    stored_rows_, stored_bytes_ : int
        All remaining rows; bytes of rows, sums and weights.
    guarantee : Guarantee

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from erasable.research.baselines import RetrainedRidge
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RetrainedRidge().fit(X, y)
    >>> _ = model.forget(ids=[3, 70])
    >>> kept = [i for i in range(150) if i not in (3, 70)]
    >>> model.state_digest() == RetrainedRidge().fit(X[kept], y[kept], ids=kept).state_digest()
    True
    """

    def __init__(
        self,
        alpha: float = 1.0,
        *,
        fit_intercept: bool = True,
        scaling: Any = "row",
        classes: ColumnLike = None,
        grid_bits: int = 15,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.classes = classes
        self.grid_bits = grid_bits

    def _check_parameters(self, classes: ColumnLike) -> None:
        positive_number(self.alpha, "alpha")

    # What ErasableClassifier takes as parameters is fixed here; none of it is a parameter of this class.
    kappa = None
    horizon = None
    threshold = 0.0
    loss = "squared"
    class_weight = None
    sample_rate = 0.0
    order = "hashed"
    random_state = 0

    @property
    def capacity(self) -> Any:  # type: ignore[override]
        """The regulariser under the name it has in ``ErasableClassifier``."""
        return self.alpha

    @property
    def guarantee(self) -> Guarantee:
        """Exact unlearning in the traditional sense, bitwise."""
        return Guarantee(
            "exact unlearning (Definition 2.1): equal to training on all remaining rows", of="state", bitwise=True
        )


_BLOCK = 2**20  # numbers put on the grid at once


class RidgeFromSums(ClassifierMixin, BaseEstimator):
    """Ridge classification on all rows that stores their exact sums and none of them.

    The Gram matrix, the sum of the rows of each class and their numbers are enough for ridge regression, and a row
    that is brought again can be subtracted from them, bit for bit. So ``d (d + 1) / 2`` integers do what
    ``RetrainedRidge`` does with all rows, and after ``forget`` the state is that of a refit.

    *What it cannot do*, for want of rows: show from its state that the state is right, or notice that a request brings
    a row that was never learnt, or the wrong one (only counts that would become negative are refused); find the
    rows of an id or a person; fit another loss, such as the logistic one, or another scaling.

    *Guarantee*: exact unlearning in the traditional sense (epsilon = delta = 0, Definition 2.1 of the paper), bitwise,
    of the state, as long as each request brings a row that was learnt and not forgotten since, with its label.

    Parameters
    ----------
    alpha : float, default=1.0
        The regulariser, lambda.
    fit_intercept, scaling, grid_bits
        As in ``ErasableClassifier``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining rows.
    coef_, intercept_ : array of shape (1 or n_classes, n_features) and (1 or n_classes,)
        Correctly rounded from the exact solution, as in ``ErasableClassifier``.
    stored_rows_, stored_bytes_ : int
        0; bytes of sums, counts and weights.
    guarantee : Guarantee

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from erasable.research.baselines import RetrainedRidge
    >>> from erasable.research.baselines.ridge import RidgeFromSums
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RidgeFromSums().fit(X, y)
    >>> model.forget(X[:5], y[:5])
    >>> bool((model.coef_ == RetrainedRidge().fit(X[5:], y[5:]).coef_).all())
    True
    >>> model.stored_bytes_
    324
    """

    n_features_in_: int
    _grid: Grid
    _units: int
    _gram: Float64s
    _sums: dict[Any, Float64s]
    _counts: dict[Any, int]
    _weights: Float32s | None

    def __init__(
        self, alpha: float = 1.0, *, fit_intercept: bool = True, scaling: Any = "row", grid_bits: int = 15
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.grid_bits = grid_bits

    def fit(self, X: Matrix, y: npt.ArrayLike, ids: object = None) -> Self:
        """Learn from nothing; ``ids`` are not looked at, since nothing is stored by them."""
        alpha = positive_number(self.alpha, "alpha")
        X, y, schema = check_rows(self, X, y, first=True)
        grid = grid_of(X.shape[1], fit_intercept=self.fit_intercept, scaling=self.scaling, grid_bits=self.grid_bits)
        units = regulariser(alpha, grid, "alpha")
        guard_exactness(X.shape[0], grid, units)
        rows = RawRows(X, grid)
        rows.check_ball()
        self.__dict__.update(schema, _grid=grid, _units=units, _gram=empty_gram(grid, units), _sums={}, _counts={})
        step = max(1, _BLOCK // grid.n_columns)
        for low in range(0, len(rows), step):
            at = np.arange(low, min(low + step, len(rows)))
            self._add(rows.take(at), pick(y, at), 1)
        return self

    def forget(self, X: Matrix, y: Array) -> None:
        """Subtract these rows, which the request brings with their labels.

        Raises InputError when a class would have fewer rows than none. A row that was never learnt is not noticed
        otherwise.
        """
        X = X if sp.issparse(X) else np.asarray(X, dtype=np.float64)
        labels: list[Any] = pick(np.asarray(y), np.arange(len(y)))
        numbers = X.data if sp.issparse(X) else X
        if X.shape != (len(labels), self.n_features_in_) or not np.isfinite(numbers).all():
            raise InputError(f"each request brings rows of {self.n_features_in_} finite numbers, and their labels.")
        if any(self._counts.get(label, 0) < count for label, count in Counter(labels).items()):
            raise InputError(
                "the request brings more rows of a class than there are: they cannot all have been learnt."
            )
        rows = RawRows(X, self._grid)
        rows.check_ball()
        self._add(rows.take(np.arange(len(rows))), labels, -1)

    def _add(self, rows: Matrix, labels: list[Any], sign: int) -> None:
        """Add grid rows to all sums, or take them off; a class without rows has no sum."""
        self._weights = None
        add_rows(self._gram, rows, float(sign), self._grid)
        add_sums(self._sums, sums_by_class(rows, labels, self._grid), float(sign))
        for label, count in Counter(labels).items():
            self._counts[label] = self._counts.get(label, 0) + sign * count
        for label in sorted(self._counts):  # in the order of the labels, whichever came first
            total, count = self._sums.pop(label), self._counts.pop(label)
            if count:
                self._sums[label], self._counts[label] = total, count

    def _solved(self) -> Float32s:
        if self._weights is None:
            if not self._counts:
                raise NoRowsError("no rows remain in this model, so it cannot predict: call fit with new rows.")
            b = targets(np.array(list(self._sums.values())))
            self._weights = solve_weights(self._gram, b, self._grid.bits, self._units)
        return self._weights

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes of the remaining rows, sorted."""
        return array_of(list(self._counts))

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        return self._solved()[:, : self._grid.n_features].astype(np.float64) * self._grid.stretch

    @property
    def intercept_(self) -> Float64s:
        """The constant that the appended coordinate adds."""
        W, grid = self._solved(), self._grid
        return W[:, -1] * np.ldexp(float(grid.constant), -grid.bits) if grid.intercept else np.zeros(len(W))

    def decision_function(self, X: Matrix) -> Float64s:
        """``w'x`` for each row: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        X, _, _ = check_rows(self, X, first=False)
        scores = np.asarray(scale_rows(X, self._grid) @ self.coef_.T + self.intercept_)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def predict(self, X: Matrix) -> npt.NDArray[Any]:
        """The class of each row."""
        scores, classes = self.decision_function(X), self.classes_
        winner = np.argmax(scores, axis=1) if scores.ndim > 1 else (scores > 0) & (len(classes) > 1)
        chosen: npt.NDArray[Any] = classes[winner.astype(np.intp)]
        return chosen

    @property
    def stored_rows_(self) -> int:
        """None of the rows is stored."""
        return 0

    @property
    def stored_bytes_(self) -> int:
        """Bytes of one triangle of the Gram matrix, of class sums and counts, and of the weights."""
        d, k = self._grid.n_columns, len(self._counts)
        return 8 * (d * (d + 1) // 2 + k * d + k) + self._solved().nbytes

    @property
    def guarantee(self) -> Guarantee:
        """Exact unlearning in the traditional sense, bitwise, of honest requests."""
        return Guarantee(
            "exact unlearning (Definition 2.1): equal to training on all remaining rows",
            of="state",
            bitwise=True,
            assumptions=(
                "each request brings a row that was learnt and not forgotten since, with its label: the state cannot "
                "show that it did not",
            ),
        )
