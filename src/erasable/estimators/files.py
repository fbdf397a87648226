"""``load``: the estimator of a model that a file holds."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from sklearn.base import clone

from erasable.core.kernels import KERNEL_BITS
from erasable.core.sums import capacity_of
from erasable.errors import ConfigurationError, InputTypeError, StateFormatError
from erasable.estimators.base import ErasableEstimator
from erasable.estimators.kernel import ErasableKernelClassifier
from erasable.estimators.linear import ErasableClassifier, ErasableRegressor
from erasable.features import DEFAULT_CONSTANT, INDICATOR, ZERO, LogFeatures
from erasable.models.configuration import order_of
from erasable.models.files import Code, mark_of, read_model
from erasable.models.heads import Learner, LearnerRegression, Logistic, Regression, Squared
from erasable.models.model import Model
from erasable.models.selections import (
    Independent,
    IndependentSelection,
    KernelDisagreement,
    KernelPoints,
    Leverage,
    RawStorage,
)


def load(path: str | os.PathLike[str], *, like: object = None) -> Any:
    """Return the model in a file, ready to predict, to learn and to forget.

    Parameters
    ----------
    path : str or path
        A file written by ``save`` or by the command line. It is read without a lock; a change in progress shows
        either wholly or not at all.
    like : estimator, optional
        An unfitted estimator with the code that a file cannot hold. Needed for ``ErasableGeneralClassifier`` and
        ``CoreSetUnlearner``, for a kernel that is a function, and for a feature map of your own. Its parameters must
        be those that the file was made with.

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
    estimator = estimator_of(read_model(path, code_of(like))[0], like)
    estimator._on_disk = {os.path.realpath(path): mark}
    return estimator


def estimator_of(model: Model, like: object = None) -> Any:
    """An estimator in front of a model: with the parameters of ``like``, or with those that the model was made with.

    Raises
    ------
    StateFormatError
        When the model has parameters that no estimator has.
    """
    estimator: ErasableEstimator = _made_for(model) if like is None else clone(like)
    try:
        estimator._check_unchanged(model, None)
    except ConfigurationError as error:
        # Without like, nobody changed a parameter: the file has a combination that no estimator writes.
        reason = "no estimator has these parameters together." if like is None else error
        raise StateFormatError(f"not a state: {reason}") from error
    estimator._take_over(model)
    return estimator


def code_of(like: object) -> Code | None:
    """How an unfitted model that the caller gave makes a model of a file; refused if it is none."""
    if like is None:
        return None
    if isinstance(like, type) or not isinstance(like, ErasableEstimator):
        raise InputTypeError("like must be an unfitted model, such as ErasableClassifier(feature_map=...).")
    fresh: ErasableEstimator = clone(like)
    return fresh._from_file


def _made_for(model: Model) -> ErasableEstimator:
    """An estimator with the parameters of a model."""
    c, selection, head = model.configuration, model.configuration.selection, model.configuration.head
    if isinstance(selection, KernelPoints):
        kernel, points = selection.kernel, selection.points
        return ErasableKernelClassifier(
            kernel.name,
            capacity_of(selection.units, 2**KERNEL_BITS),
            selection.threshold if isinstance(selection, KernelDisagreement) else None,
            gamma=kernel.gamma,
            nu=kernel.nu,
            degree=kernel.degree,
            coef0=kernel.coef0,
            scaling=points.scaling,
            classes=c.classes,
            feature_names=c.feature_names,
            grid_bits=points.bits,
            **(_independent(selection) if isinstance(selection, IndependentSelection) else {}),
            **order_of(c.order_key),
        )
    heads = Squared | Logistic | Regression | Learner
    if not (isinstance(selection, Leverage | Independent) and isinstance(head, heads)):
        raise ConfigurationError("no estimator has this selection with this head: read it with erasable.models.files.")
    grid = selection.grid
    selecting: dict[str, Any] = {
        "capacity": capacity_of(selection.units, 4**grid.bits),
        **_mapping(model),
        "feature_names": c.feature_names,
        "grid_bits": grid.bits,
    }
    if isinstance(selection, Leverage):
        selecting |= {"selection": "leverage", "threshold": selection.threshold, "sample_rate": selection.sample_rate}
        selecting |= order_of(c.order_key, selection.sample_key)
    else:
        selecting |= _independent(selection) | order_of(c.order_key)
    if isinstance(head, Learner):
        selecting["learner"] = {"learner": head.learner, **dict(head.parameters)} if head.parameters else head.learner
    if isinstance(head, Regression | LearnerRegression):
        one = len(set(head.target_ranges)) == 1
        selecting.pop("balance", None)
        return ErasableRegressor(head.target_ranges[0] if one else head.target_ranges, **selecting)
    if isinstance(head, Learner):
        return ErasableClassifier(classes=c.classes, **selecting)
    return ErasableClassifier(
        classes=c.classes,
        class_weight=dict(head.class_weight) if isinstance(head.class_weight, tuple) else head.class_weight,
        **_loss(head, grid.bits),
        **selecting,
    )


def _loss(head: Squared | Logistic, bits: int) -> dict[str, Any]:
    """The arguments of a classifier that name its loss."""
    if not isinstance(head, Logistic):
        return {"loss": "squared"}
    return {"loss": "logistic", "alpha": capacity_of(head.alpha_units, 4**bits), "head_scaling": head.SCALING}


def _mapping(model: Model) -> dict[str, Any]:
    """The arguments of an estimator that name the map of rows, and how they get onto the grid.

    The log map has a name, and its parameters are arguments, where these arguments make the same map.
    """
    log, grid = model.feature_map, model.configuration.grid
    raw = isinstance(model.configuration.selection, RawStorage)
    if isinstance(log, LogFeatures) and grid.scaling == "row" and not grid.intercept:
        same_constant = log.constant in (0.0, DEFAULT_CONSTANT)
        if same_constant and (log.missing == INDICATOR or log.missing == (ZERO if raw else None)):
            return {
                "feature_map": "log",
                "fit_intercept": bool(log.constant),
                "scaling": "row" if log.scales is None else log.scales,
                "centres": log.centres,
                "missing": INDICATOR if log.missing == INDICATOR else None,
            }
    return {"feature_map": log, "fit_intercept": grid.intercept, "scaling": grid.scaling}


def _independent(selection: IndependentSelection) -> dict[str, Any]:
    """The arguments of an estimator that name an independent selection."""
    rarity, moments = selection.rarity, None
    if rarity.exponents is not None:
        moments = np.ldexp(1.0, rarity.exponents)
    elif rarity.matrix is not None:
        moments = rarity.moments
    named = {"selection": "independent", "rate": selection.rate, "moments": moments, "balance": selection.balance}
    return named if selection.class_shares is None else {**named, "class_shares": dict(selection.class_shares)}
