"""Check from a state alone that it is what learning its own rows gives."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from typing import Any

from erasable.models.files import Code, read_model
from erasable.models.model import model_behind
from erasable.models.reports import VerifyReport
from erasable.operations.pipelines import is_pipeline, model_in


def verify(
    model: Any, *, public: Collection[str] = (), progress: Callable[[int, int], None] | None = None
) -> VerifyReport:
    """Rerun learning over the stored core rows from nothing and compare everything with what is stored.

    This computes the right-hand side of the definition of exact system-aware unlearning, ``I(S' - U, {})``, with no
    trust in the code that forgot.

    Parameters
    ----------
    model : estimator, or a model of ``erasable.models``
        Fitted; not changed. Also a ``Pipeline`` of scikit-learn that ends in one: then no step before it may hold
        what was learnt from rows, see ``model_in``.
    public : collection of str
        Names of steps of the pipeline that were fitted on nothing that may have to be forgotten.
    progress : callable, optional
        Called with (rows done, rows in all) after every block.

    Returns
    -------
    VerifyReport

    Raises
    ------
    VerificationError
        Naming the first thing that differs, or the step that was fitted on rows.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, verify
    >>> clf = ErasableClassifier().fit(*load_iris(return_X_y=True))
    >>> _ = clf.forget(ids=[0, 50, 100])
    >>> report = verify(clf)
    >>> report.core_rows == clf.n_core_, report.digest == clf.state_digest()
    (True, True)
    """
    if is_pipeline(model) or public:
        model = model_in(model, public=public)
    return model_behind(model, "verify").verify(progress)


def verify_file(
    path: str | os.PathLike[str], *, like: Any = None, progress: Callable[[int, int], None] | None = None
) -> VerifyReport:
    """:func:`erasable.verify` for the model that a file holds; the digest reported is that of the file.

    Raises
    ------
    VerificationError
        When the state is not what learning its own rows gives.
    StateFormatError, StoreError
        When the file is damaged, or cannot be read.
    """
    return read_model(path, code_in(like))[0].verify(progress)


def code_in(like: Any) -> Code | None:
    """The code that a file cannot hold, from an unfitted model that has it."""
    if like is None:
        return None
    from erasable.estimators.files import code_of  # only here: forgetting and verifying need no scikit-learn

    return code_of(like)
