"""Any scikit-learn classifier as a part of a model that forgets: one class, or none, must not stop it."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.base import clone, is_regressor

from erasable.errors import InputTypeError


class Constant:
    """Predicts the only class there is."""

    def __init__(self, code: int) -> None:
        self.code = code

    def predict(self, X: Any) -> npt.NDArray[np.intp]:
        """The same class for every row."""
        return np.full(X.shape[0], self.code, dtype=np.intp)


def check_estimator_parameter(estimator: Any) -> None:
    """Refuse a base estimator that cannot be cloned, fitted or asked."""
    able = all(hasattr(estimator, name) for name in ("get_params", "fit", "predict"))
    if isinstance(estimator, type) or not able or is_regressor(estimator):
        raise InputTypeError(
            "estimator must be a scikit-learn classifier (an instance with fit and predict); "
            f"got {f'the class {estimator.__name__}' if isinstance(estimator, type) else type(estimator).__name__}."
        )


def fresh(estimator: Any, seed: int) -> Any:
    """An unfitted copy; where it has a ``random_state`` that is None, it gets this seed."""
    copy = clone(estimator)
    if "random_state" in copy.get_params() and copy.get_params()["random_state"] is None:
        copy.set_params(random_state=seed % 2**32)
    return copy


def fit_voter(base: Any, X: Any, codes: npt.NDArray[np.intp]) -> Any:
    """A copy of the estimator fitted on rows; a constant for one class, None for no rows."""
    if not len(codes):
        return None
    if (codes == codes[0]).all():
        return Constant(int(codes[0]))
    return clone(base).fit(X, codes)
