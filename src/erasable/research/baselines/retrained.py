"""Exact retraining on all rows, as fast as it can be: every row is kept and the exact sums are downdated."""

from __future__ import annotations

from typing import Any

from erasable.estimators import ErasableClassifier
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
        classes: Any = None,
        grid_bits: int = 15,
    ) -> None:
        self.alpha = alpha
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.classes = classes
        self.grid_bits = grid_bits

    def _check_parameters(self, classes: Any) -> None:
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
