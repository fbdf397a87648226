"""Approximate sample compression: between a model of the core rows and a private model of all rows."""

from __future__ import annotations

import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
import numpy.typing as npt
from scipy.special import ndtri

from erasable.core.arrays import Float64s, Matrix
from erasable.core.grid import Grid
from erasable.core.names import Key
from erasable.core.selector import RawRows
from erasable.coresets import CoreSetMap, check_core_set, core_positions
from erasable.errors import ConfigurationError
from erasable.estimators.learners import CoreSetRows
from erasable.models.configuration import check_memory, grid_of_parameters
from erasable.models.core_rows import overwrite
from erasable.models.inputs import array_of, encode, pick
from erasable.models.reports import SAME_BITS_AGAIN, Guarantee
from erasable.models.strategies import n_bytes
from erasable.research.baselines.unit_ball import UnitBallScores, UnitRows, minimise, targets
from erasable.validation import number_between, positive_number, seed

Uniforms = Callable[[int], Float64s]


class _Plan(NamedTuple):
    private_share: float
    epsilon: float
    alpha: float
    random_state: int | None

    def scale(self, n_functions: int) -> float:
        """The noise has a density proportional to ``exp(-|b| / scale)`` in each of the functions."""
        return 2.0 * self.private_share * n_functions / (self.epsilon * self.alpha)


class InterpolatedClassifier(UnitBallScores):
    r"""A linear classifier between one trained on the core rows and a private one trained on all rows.

    The weights are ``(1 - gamma) f(C - U) + (gamma f(S) + b)``, where gamma is ``private_share``, f regularised
    logistic regression, C the core rows, U the forgotten ones, S all rows of ``fit``, and b noise that is drawn once,
    in ``fit``. Only the core rows and the noised sum in the second bracket are stored; ``f(S)`` without noise is not.
    Forgetting trains ``f(C - U)`` anew and leaves the second bracket as it is; rows outside the core are forgotten for
    free.

    *Guarantee*: approximate, epsilon-system-aware unlearning (epsilon, delta = 0; Definition 2.3) with S' = C(S), for
    the whole stored state and any number of requests: the state is epsilon-indistinguishable from that of training on
    the surviving core rows. With ``private_share=0`` there is no noise and nothing of S: epsilon is zero, and on one
    machine the model is that of a refit. There is no digest to check that by, so ``guarantee`` does not say bitwise.

    Parameters
    ----------
    core_set : CoreSetMap
        A stable one, such as ``LeverageThreshold`` or ``RandomSubsample``.
    private_share : float in [0, 1]
        Share of the private model, the paper's gamma. 0 is sample compression alone, 1 the private model alone.
    epsilon : float
        Shared evenly by the functions of more than two classes.
    alpha : float
        The regulariser, per row.
    fit_intercept, scaling
        As in ``ErasableClassifier``.
    random_state : None or int, default=None
        None draws the noise from the operating system. A number is for tests: anyone who knows it can remove the noise,
        and nothing is private.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        Those of the remaining core rows. Rows of S of other classes play no part.
    coef_, intercept_ : array of shape (1 or n_classes, n_features) and (1 or n_classes,)
        The weights, for rows as ``scaling`` leaves them.
    noise_scale_ : float
        The noise of each function has a norm of ``noise_scale_`` times the number of coordinates, on average.
    core_ids_ : array of shape (n_core,)
        Ids of the core rows in order of selection.
    n_core_, stored_rows_, stored_bytes_ : int
        The core rows; bytes of rows, labels, noised sum and weights.
    guarantee : Guarantee

    Notes
    -----
    docs/baselines.md has the noise, why it is enough, and the cost.

    Examples
    --------
    >>> from sklearn.datasets import load_breast_cancer
    >>> from erasable.coresets import RandomSubsample
    >>> from erasable.research.baselines.interpolated import InterpolatedClassifier
    >>> X, y = load_breast_cancer(return_X_y=True)
    >>> settings = {"private_share": 0.01, "epsilon": 2.0, "alpha": 0.001}
    >>> model = InterpolatedClassifier(RandomSubsample(0.3), **settings).fit(X, y)
    >>> model.noise_scale_
    10.0
    >>> model.forget(ids=range(100)).core_rows == model.n_core_ < 0.3 * 569
    True

    Without the private part, forgetting equals a refit:

    >>> plain = InterpolatedClassifier(RandomSubsample(0.3), **settings | {"private_share": 0.0}).fit(X, y)
    >>> _ = plain.forget(ids=range(100))
    >>> left = plain.core_ids_
    >>> again = InterpolatedClassifier(RandomSubsample(0.3), **settings | {"private_share": 0.0})
    >>> again = again.fit(X[left], y[left], ids=left)
    >>> bool((plain.coef_ == again.coef_).all())
    True
    """

    _plan: _Plan
    _core: CoreSetRows
    _noised: Float64s  # gamma f(S) + b, one line per function; no line where gamma is 0
    noise_scale_: float

    def __init__(
        self,
        core_set: CoreSetMap,
        *,
        private_share: float,
        epsilon: float,
        alpha: float,
        fit_intercept: bool = True,
        scaling: Any = "row",
        random_state: int | None = None,
    ) -> None:
        self.core_set = core_set
        self.private_share = private_share
        self.epsilon = epsilon
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.random_state = random_state

    @property
    def guarantee(self) -> Guarantee:
        """Epsilon-system-aware unlearning with S' = C(S); exact without a private share."""
        plan = self._plan if self.__sklearn_is_fitted__() else self._plan_of_parameters()
        if plan.private_share == 0.0:
            return Guarantee(
                "exact system-aware unlearning (Definition 2.3) with S' = C(S): equal to training on the surviving "
                "core rows",
                of="state",
                assumptions=(SAME_BITS_AGAIN,),
            )
        return Guarantee(
            "epsilon-system-aware unlearning (Definition 2.3) with S' = C(S): indistinguishable from training on the "
            "surviving core rows",
            of="state",
            epsilon=plan.epsilon,
            assumptions=(
                "the random numbers are unknown: no random_state",
                "noise is drawn in floating point, whose last bits are not those of the continuous law",
                "requests do not depend on the noise",
                SAME_BITS_AGAIN,
            ),
        )

    def _plan_of_parameters(self) -> _Plan:
        return _Plan(
            number_between(self.private_share, "private_share", 0.0, 1.0, closed="both") + 0.0,  # minus zero is zero
            positive_number(self.epsilon, "epsilon"),
            positive_number(self.alpha, "alpha"),
            None if self.random_state is None else seed(self.random_state),
        )

    def _check_parameters(self) -> None:
        check_core_set(self.core_set)
        if not self.core_set.stable:
            raise ConfigurationError(
                f"core_set must be a stable map, for the surviving core rows to be their own core set; "
                f"{type(self.core_set).__name__} is not: use LeverageThreshold or RandomSubsample."
            )
        plan = self._plan_of_parameters()
        if plan.private_share > 0.0 and not (plan.scale(1) > 0.0 and math.isfinite(plan.scale(2**20))):
            raise ConfigurationError(
                "private_share / (epsilon * alpha) is beyond the noise that float64 can hold: change one of them."
            )

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def _learn(self, X: Matrix, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        plan, grid = self._plan_of_parameters(), grid_of_parameters(cast(Any, self), X.shape[1])
        check_memory(grid)
        RawRows(X, grid).check_ball()
        core = CoreSetRows.chosen(X, y, keys, core_positions(self.core_set, X, y, keys))
        classes, codes = encode(core.labels)
        noised = np.empty((0, grid.n_columns))
        if plan.private_share > 0.0:
            place = {label: i for i, label in enumerate(sorted(set(core.labels)))}
            labels: list[Any] = pick(y, np.arange(len(y)))
            of_all = np.fromiter((place.get(v, -1) for v in labels), dtype=np.intp, count=len(y))
            known = of_all >= 0
            noised = _noised(X if known.all() else X[known], of_all[known], len(classes), grid, plan)
        return {
            "_plan": plan,
            "_grid": grid,
            "_core": core,
            "classes_": classes,
            "_noised": noised,
            "_weights": _mixed(core, codes, grid, plan, noised),
            "noise_scale_": plan.scale(len(noised)),
            "_stored": core.ids,
        }

    def _remove(self, keys: list[Key]) -> int:
        leaving, old, plan = set(keys), self._core, self._plan
        core = old.take([i for i, key in enumerate(old.ids) if key not in leaving])
        classes, codes = encode(core.labels)
        noised, retrained = self._noised, 0 if plan.private_share == 1.0 else len(core.ids)
        if plan.private_share > 0.0 and len(classes) < len(self.classes_):
            noised = _noised(core.rows, codes, len(classes), self._grid, plan)
            retrained = len(core.ids)
        weights = _mixed(core, codes, self._grid, plan, noised)
        overwrite(old.rows)
        self._weights.fill(0.0)
        if noised is not self._noised:
            self._noised.fill(0.0)
        self._core, self.classes_, self._noised, self._weights = core, classes, noised, weights
        self.noise_scale_ = plan.scale(len(noised))
        return retrained if len(classes) > 1 else 0

    def _erase(self) -> None:
        overwrite(self._core.rows)
        self._noised.fill(0.0)

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the core rows in order of selection."""
        self._check_attribute("core_ids_")
        return array_of(self._core.ids) if self._core.ids else np.empty(0, dtype=np.int64)

    @property
    def n_core_(self) -> int:
        """Number of core rows."""
        self._check_attribute("n_core_")
        return len(self._core.ids)

    @property
    def stored_bytes_(self) -> int:
        """Bytes of the core rows, their labels, the noised sum and the weights."""
        self._check_attribute("stored_bytes_")
        return n_bytes(self._core.rows) + 8 * len(self._core.labels) + self._noised.nbytes + self._weights.nbytes


def _trained(rows: UnitRows, codes: npt.NDArray[np.intp], n_classes: int, alpha: float) -> Float64s:
    """f: the minimiser for each function, none of them longer than ``1 / alpha``."""
    T = targets(codes, n_classes)
    W = np.zeros((len(T), rows.n_columns))
    for w, signs in zip(W, T, strict=True):
        w[:], _ = minimise(rows, signs, len(codes) * alpha)
        w /= max(1.0, alpha * float(np.linalg.norm(w)))
    return W


def _noised(X: Matrix, codes: npt.NDArray[np.intp], n_classes: int, grid: Grid, plan: _Plan) -> Float64s:
    """``gamma f + b``, one line per function; f itself is overwritten."""
    if n_classes < 2:
        return np.empty((0, grid.n_columns))
    W = _trained(UnitRows.scaled(X, grid), codes, n_classes, plan.alpha)
    uniforms, scale = _uniforms(plan.random_state), plan.scale(len(W))
    for w in W:
        w *= plan.private_share
        w += noise(len(w), scale, uniforms)
    return W


def _mixed(core: CoreSetRows, codes: npt.NDArray[np.intp], grid: Grid, plan: _Plan, noised: Float64s) -> Float64s:
    """``(1 - gamma) f(C) + noised``; zeros where there is no function."""
    n_classes = len(set(core.labels))
    if n_classes < 2:
        return np.zeros((1, grid.n_columns))
    if plan.private_share == 1.0:
        return noised.copy()
    W = (1.0 - plan.private_share) * _trained(UnitRows.scaled(core.rows, grid), codes, n_classes, plan.alpha)
    return W + noised if len(noised) else W


def _uniforms(random_state: int | None) -> Uniforms:
    """Numbers strictly between 0 and 1, 52 bits each: from the operating system, or from a seed for tests."""
    draw = secrets.token_bytes if random_state is None else np.random.default_rng(random_state).bytes

    def uniforms(n: int) -> Float64s:
        whole = np.frombuffer(draw(8 * n), dtype="<u8") >> np.uint64(12)
        return (whole.astype(np.float64) + 0.5) * 2.0**-52

    return uniforms


def noise(d: int, scale: float, uniforms: Uniforms) -> Float64s:
    """A vector of density proportional to ``exp(-|b| / scale)`` in d dimensions.

    A standard normal vector points in a uniform direction; the norm has the law Gamma(d, scale), that of a sum of d
    exponentials.
    """
    normal = ndtri(uniforms(d))
    length = float(np.linalg.norm(normal))
    b: Float64s = normal * (-scale * float(np.log(uniforms(d)).sum()) / length)
    return b
