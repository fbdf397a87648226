"""One Newton step and noise (Sekhari et al., Remember What You Want to Forget, NeurIPS 2021)."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from scipy.linalg import blas
from scipy.special import expit

from erasable.core.arrays import Float64s, Matrix
from erasable.core.threads import few_threads
from erasable.errors import ConfigurationError
from erasable.models.heads import nearest_probabilities
from erasable.models.reports import Guarantee
from erasable.research.baselines.unit_ball import (
    LIPSCHITZ_CURVATURE,
    UnitBallClassifier,
    UnitRows,
    check_generator,
    diagonal_of,
    minimise,
    noise_for_unit_shift,
    solve,
    targets,
)
from erasable.validation import positive_number, probability, whole_number

_SECRET_STATE = (
    "the stored state, which holds the minimiser over forgotten rows too, without noise, and their gradients, stays "
    "secret"
)


class _Plan(NamedTuple):
    loss: str
    alpha: float
    epsilon: float
    delta: float
    max_deletions: int


class NewtonUnlearner(UnitBallClassifier):
    r"""A linear classifier that forgets by one Newton step from stored sums, and publishes weights with noise.

    Training minimises ``F(w) = 1/n sum f(w; z_i)`` with ``f = loss + alpha/2 |w|^2`` and keeps the minimiser ``w_hat``,
    the Hessian there, and the rows, since requests name ids. Forgetting a set U of rows moves to

        w_hat + (sum of Hessians of the remaining rows at w_hat)^-1 (sum of gradients of U at w_hat),

    where U is *all* rows forgotten since training: order and batches of requests play no part. What is published,
    after training too (the request of no rows), is that point plus fresh Gaussian noise.

    *Guarantee*: approximate, (epsilon, delta)-unlearning (Definition 2.1 of the paper; Sekhari et al., Definition 2)
    for up to ``max_deletions`` forgotten rows: a published model is (epsilon, delta)-indistinguishable from the one
    that training on the remaining rows publishes with noise of the same size. It is about one published model, not
    about what is stored: ``w_hat`` and the sum of gradients are secret, and the sum over one forgotten row *is* that
    row up to a factor. One row more than ``max_deletions``, or the last row of a class, and the model is retrained on
    what remains. With ``loss="squared"`` the Newton step is exact: no noise, no limit, epsilon = delta = 0, of the
    published model again: the sum of gradients is stored all the same.

    Parameters
    ----------
    loss : {"logistic", "squared"}, default="logistic"
        ``log(1 + exp(-s w'x))`` or ``(w'x - s)^2 / 2`` with s = 1 or -1. More than two classes: one against the rest.
    alpha : float, default=1e-3
        The regulariser, per row. The noise grows with ``alpha ** -3``.
    epsilon, delta : float, default=1.0 and 1e-5
        Shared evenly by the functions of more than two classes.
    max_deletions : int, default=1
        Rows that may be forgotten between two trainings, the paper's m. The noise grows with its square.
    fit_intercept, scaling
        As in ``ErasableClassifier``.
    random_state : None, int or numpy.random.Generator, default=None
        Draws the noise. None asks the operating system; anyone who knows a number given here can remove the noise.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining rows.
    coef_, intercept_ : array of shape (1 or n_classes, n_features) and (1 or n_classes,)
        The published weights, noise included, for rows as ``scaling`` leaves them.
    noise_std_ : float
        Standard deviation of the noise in each coordinate of ``(coef_, intercept_)``, times ``sqrt 2`` if there is an
        intercept.
    stored_rows_, stored_bytes_ : int
        All remaining rows; bytes of rows, labels, Hessians and weights.
    guarantee : Guarantee

    Notes
    -----
    docs/baselines.md has the noise, why it is enough, and the cost.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from erasable.research.baselines import NewtonUnlearner
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> model = NewtonUnlearner(alpha=0.1, max_deletions=3, random_state=0).fit(X, y)
    >>> round(model.noise_std_, 4)
    0.0488
    >>> model.forget(ids=[3, 70]).rows_retrained
    0
    >>> model.forget(ids=[4, 5]).rows_retrained == len(X) - 4
    True
    """

    _plan: _Plan
    _center: Float64s  # w_hat, one line per function
    _hessians: list[Float64s]  # over the remaining rows, lower triangles; one for all functions of the squared loss
    _gone: Float64s  # gradients of forgotten rows at w_hat, summed
    _n_gone: int
    noise_std_: float

    def __init__(
        self,
        loss: str = "logistic",
        alpha: float = 1e-3,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-5,
        max_deletions: int = 1,
        fit_intercept: bool = True,
        scaling: Any = "row",
        random_state: object = None,
    ) -> None:
        self.loss = loss
        self.alpha = alpha
        self.epsilon = epsilon
        self.delta = delta
        self.max_deletions = max_deletions
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.random_state = random_state

    @property
    def guarantee(self) -> Guarantee:
        """(epsilon, delta)-unlearning of the published model; exact for the squared loss."""
        plan = self._plan if self.__sklearn_is_fitted__() else self._plan_of_parameters()
        if plan.loss == "squared":
            return Guarantee(
                "exact unlearning (Definition 2.1): equal to training on all remaining rows",
                of="model",
                assumptions=(
                    _SECRET_STATE,
                    "arithmetic is exact: the weights differ from retrained ones by rounding",
                ),
            )
        return Guarantee(
            "(epsilon, delta)-unlearning (Definition 2.1; Sekhari et al. 2021): indistinguishable from training on all "
            "remaining rows",
            of="model",
            epsilon=plan.epsilon,
            delta=plan.delta,
            assumptions=(
                _SECRET_STATE,
                "the random numbers are unknown: no random_state that others know",
                "the model it is compared with has noise of the same size, though its fewer rows would ask for more",
                "it holds for each published model by itself, and for requests that do not depend on published models",
            ),
        )

    def _plan_of_parameters(self) -> _Plan:
        if self.loss not in ("logistic", "squared"):
            raise ConfigurationError(f"loss must be 'logistic' or 'squared'; got {self.loss!r}.")
        check_generator(self.random_state)
        return _Plan(
            str(self.loss),
            positive_number(self.alpha, "alpha"),
            positive_number(self.epsilon, "epsilon"),
            probability(self.delta, "delta"),
            whole_number(self.max_deletions, "max_deletions"),
        )

    def _train(
        self, rows: UnitRows, codes: npt.NDArray[np.intp], n_classes: int, plan: _Plan, rng: np.random.Generator
    ) -> dict[str, Any]:
        T = targets(codes, n_classes)
        n, p = len(codes), rows.n_columns
        hessians, std = [], 0.0
        W = np.zeros((len(T), p))
        if len(T) and plan.loss == "squared":
            hessians = [rows.weighted_gram(diagonal=n * plan.alpha)]
            solution = solve(hessians[0], rows.X.T @ T.T)
            if solution is None:
                raise ConfigurationError("alpha is too small for float64 to solve the normal equations: raise it.")
            W[:] = solution.T
        elif len(T):
            if not math.isfinite(_gamma(plan, n)):
                raise ConfigurationError("alpha is so small that no finite noise would do: raise it.")
            for w, signs in zip(W, T, strict=True):
                w[:], _ = minimise(rows, signs, n * plan.alpha)
                z = rows.X @ w
                hessians.append(rows.weighted_gram(expit(z) * expit(-z), n * plan.alpha))
            std = _gamma(plan, n) * noise_for_unit_shift(plan.epsilon / len(T), plan.delta / len(T))
        return {
            "_center": W,
            "_hessians": hessians,
            "_gone": np.zeros_like(W),
            "_n_gone": 0,
            "noise_std_": std,
            "_weights": _published(W, std, rng),
        }

    def _update(self, Z: Float64s, codes: npt.NDArray[np.intp]) -> int:
        plan, T = self._plan, targets(codes, len(self.classes_))
        self._n_gone += len(Z)
        if plan.loss == "logistic" and self._n_gone > plan.max_deletions:
            return self._refit()
        scores = self._center @ Z.T
        if plan.loss == "squared":
            slopes, roots = scores - T, np.ones((1, len(Z)))
        else:
            slopes, roots = -T * expit(-T * scores), np.sqrt(expit(scores) * expit(-scores))
        self._gone += slopes @ Z + (len(Z) * plan.alpha) * self._center
        point = np.empty_like(self._center)
        with few_threads(float(Z.size) * Z.shape[1]):
            for j, root in enumerate(roots):
                H = blas.dsyrk(-1.0, (Z * root[:, None]).T, beta=1.0, c=self._hessians[j], lower=1, overwrite_c=1)
                diagonal_of(H)[:] -= len(Z) * plan.alpha
                self._hessians[j] = H
        shares = np.split(np.arange(len(point)), len(self._hessians))  # the functions of each Hessian
        for H, share in zip(self._hessians, shares, strict=True):
            step = solve(H, self._gone[share].T)
            if step is None:  # so little is left of the sums that rounding has the upper hand
                return self._refit()
            point[share] = self._center[share] + step.T
        self._weights = _published(point, self.noise_std_, self._rng)
        return 0

    def _statistics(self) -> list[Float64s]:
        return [self._center, self._gone, *self._hessians]

    def predict_proba(self, X: Matrix) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes).

        The logistic function of the scores, normalised; for the squared loss the probability vector nearest to
        ``(1 + score) / 2``.
        """
        if not self.__sklearn_is_fitted__() or self._plan.loss == "logistic" or len(self.classes_) < 2:
            return super().predict_proba(X)
        half = (1.0 + self.decision_function(X)) / 2.0
        return nearest_probabilities(half if half.ndim > 1 else np.column_stack([1.0 - half, half]))


def _gamma(plan: _Plan, n: int) -> float:
    """How far from the retrained minimiser the Newton step may end: the paper's bound."""
    L = 1.0 + min(1.0, math.sqrt(2.0 * plan.alpha * math.log(2.0)))
    share = L * min(plan.max_deletions, n) / n  # no more than all rows can go
    return 2.0 * LIPSCHITZ_CURVATURE * share**2 / plan.alpha / plan.alpha / plan.alpha


def _published(W: Float64s, std: float, rng: np.random.Generator) -> Float64s:
    """Weights with noise; zeros where there is no function."""
    return W + rng.normal(0.0, std, W.shape) if len(W) else np.zeros((1, W.shape[1]))
