"""The estimator that learns a table into a file: a new one, or one like the model that is there.

Whatever is given, with the table, has to agree with that model; otherwise it is refused before a row is read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from erasable.errors import ConfigurationError, InputError
from erasable.estimators import ErasableClassifier, ErasableKernelClassifier, ErasableRegressor
from erasable.estimators.base import ErasableEstimator
from erasable.estimators.files import face_of
from erasable.models.model import Model
from erasable.models.selections import KernelDisagreement
from erasable.operations.schemas import schema_of
from erasable.schemas import Schema
from erasable.tables import TableStream
from erasable.tables.columns import read_texts
from erasable.tables.reading import compared

_READABLE = {"label": (bool, int, float, str), "id": (int, str), "subject": (int, str)}  # what text can stand for


def kinds_of(model: Model) -> dict[str, type]:
    """Of which type labels, ids and subjects of the model are: a few rows of text alone could not tell."""
    label = next((type(c) for c in model.classes), None)
    known = {"label": label, "id": model.core.id_type, "subject": model.core.subject_type}
    return {role: kind for role, kind in known.items() if kind is not None and kind in _READABLE[role]}


def check_types(known: dict[str, type], named: dict[str, type], width: int | None, n_features: int | None) -> None:
    """Refuse types, or a number of features, that differ from those of the model."""
    for role, kind in named.items():
        if known.get(role, kind) is not kind:
            raise ConfigurationError(
                f"{role}_type= says {kind.__name__}, and the model's are {known[role].__name__}: leave it out."
            )
    if n_features is not None and width is not None and n_features != width:
        raise ConfigurationError(f"n_features= says {n_features}, and the model has {width}: leave it out.")


def is_regression(
    model: Model | None,
    targets: Sequence[str],
    schema: Schema | None,
    given: Mapping[str, Any],
    kernel: str | None,
    label_type: type | None,
) -> bool:
    """Whether numbers are to be predicted; refused where what is given, and the model, do not agree on it."""
    asked = bool(targets) or "target_range" in given
    if asked and label_type is not None:
        raise ConfigurationError("label_type= is for labels, and targets are numbers: leave one of them out.")
    if asked and kernel is not None:
        raise ConfigurationError("kernel= makes a classifier, and targets are for regressions: leave one of them out.")
    if model is None:
        declared = schema is not None and schema.target_range is not None
        if targets and "target_range" not in given and not declared:
            raise ConfigurationError(
                "target_range= is required: declare between which numbers targets lie, from what you know beforehand; "
                "a range taken from the rows would be a trace of them."
            )
        return asked
    if asked and model.classifies:
        raise ConfigurationError("targets are for regressions, and the file holds a classifier: give label= instead.")
    return not model.classifies


def estimator_for(
    kernel: str | None, given: dict[str, Any], stream: TableStream, numeric: bool, schema: Schema | None
) -> ErasableEstimator:
    """A new model for a table."""
    if kernel is not None:
        if schema is not None:
            raise ConfigurationError("schema= is for linear models: leave it out, or kernel=.")
        return ErasableKernelClassifier(kernel, **given, feature_names=stream.feature_names)
    if "kappa" in given and "horizon" not in given:
        rows = stream.count_rows()
        if rows is None:
            raise ConfigurationError(
                "standard input does not say how many rows will come, and kappa= names a threshold by it: give "
                "horizon=, the number of rows you expect, or threshold= instead."
            )
        given["horizon"] = rows
    if numeric:
        if heads := given.keys() - ErasableRegressor().get_params().keys():
            raise ConfigurationError(f"{', '.join(sorted(heads))}: for classifiers, and this is a regression.")
        if schema is not None:
            return ErasableRegressor(**given, feature_map=schema)
        return ErasableRegressor(**given, feature_names=stream.feature_names)
    if schema is not None:
        return ErasableClassifier(**given, feature_map=schema)
    return ErasableClassifier(**given, feature_names=stream.feature_names)


def estimator_like(model: Model, given: dict[str, Any], kernel: str | None, stream: TableStream) -> ErasableEstimator:
    """An unfitted estimator like the model; parameters or columns that differ from the model's are refused."""
    if kernel is not None and not isinstance(model.configuration.selection, KernelDisagreement):
        raise ConfigurationError("kernel= names a kernel, and the file holds a linear model: leave it out.")
    if model.n_features is None and schema_of(model) is None:
        raise ConfigurationError(
            "the file was made with a map of texts, which no file can hold: learn with Python, as erasable.load says."
        )
    face = face_of(model)
    given = given if kernel is None else {**given, "kernel": kernel}
    if given.keys() - face.get_params().keys():
        raise ConfigurationError(
            "kappa=, horizon=, fit_intercept= and sample_rate= are for linear models, loss=, alpha= and class_weight= "
            "for linear classifiers: leave them out here."
        )
    if given.keys() & {"kappa", "horizon"}:
        if "horizon" not in given:
            raise ConfigurationError(
                "kappa= does not name a threshold without horizon=, and the model has one: leave it out."
            )
        given = {**given, "threshold": None}
    unfitted: ErasableEstimator = type(face)(**{**face.get_params(), **given})
    unfitted.check_agrees(model)
    names = model.feature_names
    if names is not None and stream.feature_names is not None and tuple(names) != stream.feature_names:
        difference = compared(stream.feature_names, names) or "has the same in another order"
        raise InputError(
            "the table has other columns of features, or in another order, than the model was made with: it "
            f"{difference}. Name columns that are no features with id=, subject= and ignore=."
        )
    if model.n_features is not None and stream.n_features != model.n_features:
        raise InputError(
            f"the table has {stream.n_features} features and the model {model.n_features}: name the columns that are "
            "none with id=, subject= and ignore=, or leave them out of the table."
        )
    return unfitted


def check_alike(new: Any, face: Any, path: str) -> None:
    """Refuse to go on learning with another model than the caller has in mind."""
    if not hasattr(face, "partial_fit"):
        raise ConfigurationError("a model of this kind learns all its rows at once: fit it and save it.")
    if new is None:
        return
    if type(new) is not type(face):
        raise ConfigurationError(f"{path} holds a model of {type(face).__name__}, and new is {type(new).__name__}.")
    try:
        new.check_agrees(face.model_)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path} holds a model with other parameters than new: {error}") from error


def as_labels(weights: Mapping[Any, Any], kind: type | None, stream: TableStream, name: str) -> dict[Any, Any]:
    """What belongs to labels, by labels of the type of the table: that of the model, as said, or of its first rows.

    ``name`` is what messages call it.
    """
    if not all(isinstance(label, str) for label in weights):
        return dict(weights)
    if kind is None:
        if stream.once:
            raise ConfigurationError(
                f"{name} names labels, and standard input does not say of which type labels are: give label_type=."
            )
        (kind,) = {type(v) for v in next(iter(stream)).y[:1].tolist()}
    try:
        return dict(zip(read_texts(list(weights), kind), weights.values(), strict=True))
    except (KeyError, ValueError):
        problem = f"{name} names a label that is no {kind.__name__}, as the labels of the table are."
    raise ConfigurationError(problem)
