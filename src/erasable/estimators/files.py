"""``load``: a model back from its file, with the face that scikit-learn knows."""

from __future__ import annotations

import os
from typing import Any

from sklearn.base import clone

from erasable.core.kernels import KERNEL_BITS
from erasable.core.sums import capacity_of
from erasable.errors import ConfigurationError, InputTypeError, StateFormatError
from erasable.estimators.faces import ModelFace
from erasable.estimators.kernel import ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier
from erasable.estimators.regressor import ErasableRegressor
from erasable.models.files import Code, mark_of, read_model
from erasable.models.kernel import KernelModel
from erasable.models.linear import LinearModel
from erasable.models.model import Model
from erasable.models.order import order_of
from erasable.models.regression import RegressionModel


def load(path: str | os.PathLike[str], *, like: Any = None) -> Any:
    """The model that a file holds, ready to predict, to learn and to forget.

    Parameters
    ----------
    path : str or path
        A file written by ``save`` or by the command line. It is read without waiting for anybody; a change that is
        under way shows either wholly or not at all.
    like : estimator, optional
        An unfitted model with the code that a file cannot hold. Needed for ``ErasableGeneralClassifier`` and
        ``CoreSetUnlearner``, for a kernel that is a function, and to predict or learn behind a feature map. What the
        file says of it must agree.

    Returns
    -------
    ErasableClassifier, ErasableRegressor, ErasableKernelClassifier or another of their kind
        Its parameters are those in force; ``kappa`` and ``horizon``, which only name a threshold, are not stored.

    Raises
    ------
    StateFormatError
        When the file is damaged, altered, of a newer version, or something else altogether. Whether the state is what
        learning its rows gives is another question: see ``verify``.
    StoreError
        When the file cannot be read.
    ConfigurationError
        When ``like`` is needed, or is not what the file was made with.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, load, verify
    >>> X, y = load_iris(return_X_y=True)
    >>> clf = ErasableClassifier().fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "iris.erasable")
    ...     clf.save(file)
    ...     again = load(file)
    >>> again.state_digest() == clf.state_digest() == verify(again).digest
    True
    """
    mark = mark_of(path)  # before it is read: a file that replaces it meanwhile is another one
    face = face_of(read_model(path, code_of(like))[0], like)
    face._on_disk = {os.path.realpath(path): mark}
    return face


def face_of(model: Model, like: Any = None) -> Any:
    """An estimator in front of a model: with the parameters of ``like``, or with those that the model was made with.

    Raises
    ------
    StateFormatError
        When the model has parameters that no estimator has.
    """
    face: ModelFace = _made_for(model) if like is None else clone(like)
    try:
        face._check_unchanged(model, None)
    except ConfigurationError as error:
        raise StateFormatError(f"not a state: {error}") from error
    face._take_over(model)
    return face


def code_of(like: Any) -> Code | None:
    """How an unfitted model that the caller gave makes a model of a file; refused if it is none."""
    if like is None:
        return None
    if isinstance(like, type) or not isinstance(like, ModelFace):
        raise InputTypeError("like must be an unfitted model, such as ErasableClassifier(feature_map=...).")
    fresh: ModelFace = clone(like)
    return fresh._from_file


def _made_for(model: Any) -> ModelFace:
    """An estimator with the parameters of a model."""
    c = model.configuration
    if isinstance(model, KernelModel):
        return ErasableKernelClassifier(
            c.kernel.name,
            capacity_of(c.units, 2**KERNEL_BITS),
            c.threshold,
            gamma=c.kernel.gamma,
            nu=c.kernel.nu,
            degree=c.kernel.degree,
            coef0=c.kernel.coef0,
            scaling=c.points.scaling,
            classes=c.classes,
            feature_names=c.feature_names,
            grid_bits=c.points.bits,
            **order_of(c.order_key),
        )
    assert isinstance(model, LinearModel)
    selecting = {
        "capacity": capacity_of(c.units, 4**c.grid.bits),
        "threshold": c.threshold,
        "fit_intercept": c.grid.intercept,
        "scaling": c.grid.scaling,
        "feature_map": model.feature_map,
        "feature_names": c.feature_names,
        "grid_bits": c.grid.bits,
        "sample_rate": c.sample_rate,
        **order_of(c.order_key, c.sample_key),
    }
    if isinstance(model, RegressionModel):
        one = len(set(c.target_ranges)) == 1
        return ErasableRegressor(c.target_ranges[0] if one else c.target_ranges, **selecting)
    return ErasableClassifier(
        classes=c.classes,
        loss=c.loss,
        alpha=None if c.alpha_units in (None, c.units) else capacity_of(c.alpha_units, 4**c.grid.bits),
        class_weight=dict(c.class_weight) if isinstance(c.class_weight, tuple) else c.class_weight,
        **selecting,
    )
