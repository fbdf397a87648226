"""Certified removal (Guo et al., Certified Data Removal from Machine Learning Models, ICML 2020)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import eigh
from scipy.special import expit

from erasable.core.arrays import Float64s
from erasable.core.sums import alone
from erasable.models.reports import Guarantee
from erasable.research.baselines.unit_ball import (
    LIPSCHITZ_CURVATURE,
    UnitBallClassifier,
    UnitRows,
    check_generator,
    minimise,
    noise_for_unit_shift,
    solve,
    targets,
)
from erasable.validation import positive_number, probability

_UNIT_ROUNDOFF = 2.0**-53


class _Plan(NamedTuple):
    alpha: float
    epsilon: float
    delta: float
    sigma: float


class CertifiedRemovalClassifier(UnitBallClassifier):
    r"""Logistic regression with a secret random tilt; forgetting takes Newton steps until a budget is spent.

    Training minimises ``sum log(1 + exp(-s w'x)) + alpha n/2 |w|^2 + b'w`` with ``b`` drawn from ``N(0, sigma^2 I)``. A
    call of ``forget`` takes one Newton step for all its rows. The gradient that the step leaves is bounded, the bounds
    add up, and as long as their sum is within the budget ``sigma epsilon / sqrt(2 log(1.5 / delta))`` the tilt hides
    it. A removal that would pass the budget retrains on the remaining rows with a new ``b`` instead.

    *Guarantee*: approximate, (epsilon, delta)-certified removal (Guo et al., Theorem 3): the weights are
    (epsilon, delta)-indistinguishable from those that training on the remaining rows gives. It is about the published
    weights, not about what is stored: the tilt and the budget spent are secret. All rows stay stored.

    Parameters
    ----------
    alpha : float, default=1e-3
        The regulariser, per row.
    epsilon, delta : float, default=1.0 and 1e-4
        Shared evenly by the functions of more than two classes.
    sigma : float, default=1.0
        Standard deviation of the tilt: higher is less accurate and retrains more seldom.
    fit_intercept, scaling
        As in ``ErasableClassifier``.
    random_state : None, int or numpy.random.Generator, default=None
        Draws the tilt. None asks the operating system; anyone who knows a number given here knows the tilt.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining rows; when a class vanishes the model is retrained.
    coef_, intercept_ : array of shape (1 or n_classes, n_features) and (1 or n_classes,)
        The weights, for rows as ``scaling`` leaves them.
    budget_ : float
        The largest gradient residual that the tilt hides, for each function.
    spent_ : array of shape (1 or n_classes,)
        Bound on the norm of the gradient of the objective on the remaining rows at the present weights. When one
        function would pass the budget all are retrained, which ``ForgetReport.rows_retrained`` shows.
    stored_rows_, stored_bytes_ : int
        All remaining rows; bytes of rows, labels, tilts and weights.
    guarantee : Guarantee

    Notes
    -----
    docs/baselines.md has the noise, why it is enough, and the cost.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from erasable.research.baselines import CertifiedRemovalClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = CertifiedRemovalClassifier(alpha=0.1, random_state=0).fit(X, y)
    >>> round(model.budget_, 4)
    0.228
    >>> model.forget(ids=[3, 70]).rows_retrained
    0
    >>> bool(0 < model.spent_[0] < model.budget_)
    True
    """

    _plan: _Plan
    _tilt: Float64s  # b, one line per function
    _norm: float  # no less than the spectral norm of the rows
    budget_: float
    spent_: Float64s

    def __init__(
        self,
        alpha: float = 1e-3,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-4,
        sigma: float = 1.0,
        fit_intercept: bool = True,
        scaling: Any = "row",
        random_state: object = None,
    ) -> None:
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.sigma = sigma
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.random_state = random_state

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)-certified removal."""
        plan = self._plan if self.__sklearn_is_fitted__() else self._plan_of_parameters()
        return Guarantee(
            "(epsilon, delta)-certified removal (Definition 2.1; Guo et al. 2020): indistinguishable from training on "
            "all remaining rows",
            of="model",
            epsilon=plan.epsilon,
            delta=plan.delta,
            assumptions=(
                "the rest of the stored state, with the tilt, stays secret",
                "the random numbers are unknown: no random_state that others know",
                "training finds the minimiser, and the gradient left by a removal does not depend on the tilt",
                "it holds for each published model by itself, and for requests that do not depend on published models",
            ),
        )

    def _plan_of_parameters(self) -> _Plan:
        check_generator(self.random_state)
        return _Plan(
            positive_number(self.alpha, "alpha"),
            positive_number(self.epsilon, "epsilon"),
            probability(self.delta, "delta"),
            positive_number(self.sigma, "sigma"),
        )

    def _train(
        self, rows: UnitRows, codes: npt.NDArray[np.intp], n_classes: int, plan: _Plan, rng: np.random.Generator
    ) -> dict[str, Any]:
        T = targets(codes, n_classes)
        k, n, p = len(T), len(codes), rows.n_columns
        B = rng.normal(0.0, plan.sigma, (k, p))
        W, spent = np.zeros((max(k, 1), p)), np.zeros(k)
        for j in range(k):
            W[j], left = minimise(rows, T[j], n * plan.alpha, B[j])
            spent[j] = left + _rounding(n, p, plan.alpha, W[j])
        share = max(k, 1)
        return {
            "_weights": W,
            "_tilt": B,
            "_norm": _spectral_norm(rows) if k else 0.0,
            "budget_": plan.sigma / noise_for_unit_shift(plan.epsilon / share, plan.delta / share, 1.5),
            "spent_": spent,
        }

    def _update(self, Z: Float64s, codes: npt.NDArray[np.intp]) -> int:
        alpha, n, X = self._plan.alpha, len(self._place), self._rows.X
        W, spent = self._weights.copy(), self.spent_.copy()
        for j, signs in enumerate(targets(codes, len(self.classes_))):
            w = self._weights[j]
            lost = alpha * len(Z) * w - (signs * expit(-signs * (Z @ w))) @ Z
            scores = X @ w
            step = solve(self._rows.weighted_gram(expit(scores) * expit(-scores), alpha * n), lost)
            if step is None:
                return self._refit()
            lengths = float(np.linalg.norm(step)) * float(np.linalg.norm(X @ step))
            W[j] = w + step
            spent[j] += LIPSCHITZ_CURVATURE * self._norm * lengths + _rounding(X.shape[0], len(w), alpha, w, step)
            if not spent[j] <= self.budget_:
                return self._refit()
        self._weights, self.spent_ = W, spent
        return 0

    def _statistics(self) -> list[Float64s]:
        return [self._tilt, self.spent_]


def _spectral_norm(rows: UnitRows) -> float:
    """The largest singular value of the rows, rounded up."""
    n, p = rows.X.shape
    gram = rows.weighted_gram()
    with alone(gram):
        top = float(eigh(gram, lower=True, eigvals_only=True, subset_by_index=[p - 1, p - 1])[0])
    # A sum of n products is off by n roundings of the sum of their sizes, and these sum to n at most over unit rows.
    return math.sqrt(max(top, 0.0) + 2.0 * (n + 8 * p) * _UNIT_ROUNDOFF * n)


def _rounding(n: int, p: int, alpha: float, *points: Float64s) -> float:
    """What rounding can add to a gradient over n unit rows when points of this size are summed and solved for."""
    size = 1.0 + sum(float(np.linalg.norm(point)) for point in points)
    return 8.0 * (p + 8) * _UNIT_ROUNDOFF * n * (1.0 + alpha) * size
