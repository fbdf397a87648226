"""Learn, and tell what happened."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from erasable.errors import InputTypeError
from erasable.estimators import LearnReport
from erasable.estimators._erasable import ErasableBase


def learn(
    clf: ErasableBase,
    X: Any,
    y: Any,
    *,
    ids: Any = None,
    subjects: Any = None,
    classes: Any = None,
    allow_no_subject: bool = False,
    progress: Callable[[int, int], None] | None = None,
) -> LearnReport:
    """Learn rows like ``clf.partial_fit`` and get a report instead of the model.

    An unfitted model takes ``horizon`` from the number of rows, as ``fit`` does.

    Parameters
    ----------
    clf : ErasableClassifier, ErasableKernelClassifier or another of their kind
        Fitted or not; changed in place.
    X, y, ids, subjects, classes, allow_no_subject
        As in ``ErasableClassifier.partial_fit``.
    progress : callable, optional
        Called with (rows done, rows in all) after every block.

    Returns
    -------
    LearnReport
        Rows offered, core rows added, and how many rows each level of certainty decided. The model keeps none of this.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable import ErasableClassifier, learn
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 4))
    >>> report = learn(ErasableClassifier(kappa=0.4), X, X[:, 0] > 0)
    >>> report.rows, report.decisions.exact
    (5000, 0)
    """
    if not isinstance(clf, ErasableBase):
        raise InputTypeError(f"learn needs a model that can forget bit for bit; got {type(clf).__name__}.")
    fresh = not clf.__sklearn_is_fitted__()
    return clf._learn(
        X, y, ids, subjects, classes=classes, fresh=fresh, allow_no_subject=allow_no_subject, progress=progress
    )
