"""A linear regression that forgets bit for bit, as scikit-learn knows regressors."""

from __future__ import annotations

from typing import Any, Self

from sklearn.base import RegressorMixin

from erasable.core.arrays import Float64s
from erasable.errors import ConfigurationError
from erasable.estimators.linear_face import LinearFace, width_of
from erasable.models.class_balance import OfferedTargets
from erasable.models.configuration import check_unchanged, configure, map_of, warn_of_signs
from erasable.models.model import Model


class ErasableRegressor(RegressorMixin, LinearFace):
    """A linear regression that stores a small core set and forgets rows bit for bit.

    Rows are kept as by ``ErasableClassifier``: selection does not look at what they answer. Targets lie in a range that
    the caller declares and are rounded to a grid of it, so that their sums are integers; the model is the ridge
    solution on the kept rows. After ``forget``, the whole state is byte for byte what learning the surviving core rows
    gives; ``erasable.verify`` recomputes that from the state alone.

    Parameters
    ----------
    target_range : pair of float, or one pair for each target, default=None
        Between which numbers targets lie, the ends included; one pair stands for all targets. By default what the
        schema in ``feature_map`` declares, and -1000 to 1000 where there is none. Declare what you know of
        them beforehand: a range taken from rows would be a trace of them. A target outside is refused. Targets are
        rounded to ``2**(grid_bits + 1) - 1`` equally spaced numbers from end to end, and where the targets of a call
        lie within 32 of these a warning says so. Predictions shrink towards the middle of the range, as the intercept
        is regularised, and are clipped to its ends.
    capacity : float, default=0.02
        The regulariser lambda, held on the grid's own resolution, as a multiple of ``4**-grid_bits``. Lower fits closer
        and stores a little more. The paper's bounds are about classes, and cover no deletions here.
    threshold, kappa, horizon, fit_intercept, scaling, feature_map, feature_names, grid_bits, sample_rate
        As in ``ErasableClassifier``.
    order, random_state, engine
        As in ``ErasableClassifier``.

    Attributes
    ----------
    coef_ : array of shape (n_features,) or (n_targets, n_features)
        Acts on rows as ``scaling`` leaves them: with ``"row"``, predictions are ``X / |X| @ coef_.T + intercept_``,
        clipped to the range.
    intercept_ : float or array of shape (n_targets,)
    core_ids_, n_core_, threshold_, stored_rows_, stored_bytes_, guarantee, n_features_in_, feature_names_in_
        As in ``ErasableClassifier``.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from sklearn.datasets import load_diabetes
    >>> from erasable import ErasableRegressor, verify
    >>> X, y = load_diabetes(return_X_y=True)
    >>> reg = ErasableRegressor(target_range=(0, 400), scaling=0.5).fit(X, y)
    >>> report = reg.forget(ids=reg.core_ids_[:3])
    >>> kept = reg.core_ids_
    >>> refit = clone(reg).fit(X[kept], y[kept], ids=kept)
    >>> refit.state_digest() == reg.state_digest() == report.digest == verify(reg).digest
    True
    """

    FORMAT = "erasable-regression"

    def __init__(
        self,
        target_range: Any = None,
        capacity: float = 0.02,
        *,
        threshold: float | None = None,
        kappa: float | None = None,
        horizon: int | None = None,
        fit_intercept: bool = True,
        scaling: Any = "row",
        feature_map: Any = None,
        feature_names: Any = None,
        grid_bits: int = 15,
        sample_rate: float = 0.0,
        order: str = "hashed",
        random_state: int = 0,
        engine: Any = None,
    ) -> None:
        self.target_range = target_range
        self.capacity = capacity
        self.threshold = threshold
        self.kappa = kappa
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.feature_map = feature_map
        self.feature_names = feature_names
        self.grid_bits = grid_bits
        self.sample_rate = sample_rate
        self.order = order
        self.random_state = random_state
        self.engine = engine

    # -- learning ------------------------------------------------------------------------------------------------

    def partial_fit(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        *,
        sample_weight: Any = None,
        allow_no_subject: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects, sample_weight, allow_no_subject
            As in ``fit``. Give ``ids`` in earnest use: without them rows are numbered on from the largest id among
            the *core* rows, because a count of all rows ever seen would be a trace of them.

        Returns
        -------
        self
        """
        self.learn(
            X,
            y,
            ids=ids,
            subjects=subjects,
            sample_weight=sample_weight,
            streaming=True,
            allow_no_subject=allow_no_subject,
        )
        return self

    def _offered(self) -> OfferedTargets:
        return OfferedTargets()

    # -- the model behind it -------------------------------------------------------------------------------------

    def _start(self, X: Any, y: Any, classes: Any, *, streaming: bool) -> Model:
        _refuse_classes(classes)
        n_targets = y.shape[1] if y.ndim > 1 else 1
        configuration = configure(self, width_of(X), X.shape[0], None, streaming=streaming, n_targets=n_targets)
        warn_of_signs(configuration.grid)
        return Model(configuration, map_of(self))

    def _check_unchanged(self, model: Model, classes: Any) -> None:
        _refuse_classes(classes)
        check_unchanged(self, model.configuration)

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        found = super().coef_
        return found if len(found) > 1 else found[0]

    @property
    def intercept_(self) -> Any:
        """The constant that is added to each prediction."""
        found = super().intercept_
        return found if len(found) > 1 else float(found[0])

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = True
        return tags


def _refuse_classes(classes: Any) -> None:
    if classes is not None:
        raise ConfigurationError("a regression has no classes: leave them out.")
