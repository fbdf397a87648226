"""Rows and labels from any container, checked by scikit-learn, without touching the estimator."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from erasable.errors import InputError

_SCHEMA = ("n_features_in_", "feature_names_in_")


def check_rows(
    estimator: Any, X: Any, y: Any = "no_validation", *, first: bool
) -> tuple[Any, npt.NDArray[Any] | None, Any]:
    """Rows (dense float32/float64 or CSR), labels (1-d) and the schema (feature count and names) they came with.

    The checks run on a stand-in, so that a refused call leaves the estimator as it was.

    Raises
    ------
    InputError
        For NaN, infinities, ragged, empty or non-numeric input, and for lengths or feature counts that do not match.
    """
    stand_in = type(estimator)()
    if not first:
        vars(stand_in).update({k: v for k, v in vars(estimator).items() if k in _SCHEMA})
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": [np.float64, np.float32], "reset": first}
    try:
        checked = validate_data(stand_in, X, y, **options)
        if isinstance(y, str) and y == "no_validation":
            X, y = checked, None
        else:
            X, y = checked
            check_classification_targets(y)
    except ValueError as error:
        if isinstance(error, InputError):
            raise
        message = str(error)
        if "could not convert" in message:  # NumPy's message would quote the value
            message = "X holds text where numbers are required: encode categories as numbers first."
            raise InputError(message) from None
        raise InputError(message) from error
    return X, y, {k: v for k, v in vars(stand_in).items() if k in _SCHEMA}
