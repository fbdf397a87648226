"""The two kinds of models there are plans for, of classes and of numbers: all that the planner does differently."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from erasable.errors import InputError
from erasable.estimators import ErasableClassifier, ErasableRegressor
from erasable.models.configuration import configure
from erasable.models.inputs import label_type
from erasable.models.model import Model
from erasable.operations.plan._metrics import OF_CLASSES, OF_NUMBERS, Metric
from erasable.operations.scoring import RegressionScores, Scores, regression_scores_of, scores_of

Parameters = dict[str, Any]
Estimator = ErasableClassifier | ErasableRegressor
AnyScores = Scores | RegressionScores
Index = npt.NDArray[np.intp]


class Answers(NamedTuple):
    """What rows answer, as it is learnt: classes as codes 0, 1, 2, ..., or numbers."""

    y: npt.NDArray[Any]
    groups: Index  # classes as codes; one group where there are none
    names: npt.NDArray[Any]  # of the groups


@dataclass(frozen=True, repr=False)
class Kind:
    """A kind of model.

    Attributes
    ----------
    estimator : type
    metrics : dict
        By name, the default first.
    heads : tuple of dict
        Parameters that are tried on the same core rows.
    answers : callable
        Labels or targets, checked for an estimator and so many features.
    differ : callable
        Whether answers can tell a model from a constant.
    differing : str
        Such answers, in words.
    scores : callable
        Of a model, for rows and their answers.
    otherwise : str
        What to do where no candidate is any good.
    """

    estimator: type[Estimator]
    metrics: dict[str, Metric]
    heads: tuple[Parameters, ...]
    answers: Callable[[Estimator, npt.NDArray[Any], int], Answers]
    differ: Callable[[npt.NDArray[Any]], bool]
    differing: str
    scores: Callable[[Any, Any, npt.NDArray[Any]], AnyScores]
    otherwise: str


def kind_of(estimator: Estimator) -> Kind:
    """What an estimator predicts."""
    return CLASSES if isinstance(estimator, CLASSES.estimator) else NUMBERS


def _classes(estimator: Estimator, y: npt.NDArray[Any], n_features: int) -> Answers:
    label_type(y)
    labels, codes = np.unique(y, return_inverse=True)
    if len(labels) < 2:
        raise InputError("the rows are all of one class: a plan needs rows of two or more classes.")
    if len(y) < 10 * len(labels):
        raise InputError(
            f"{len(y)} rows have {len(labels)} distinct labels: a plan needs at least ten rows a class. "
            "Give more rows, or labels that are classes; for numbers to be predicted, declare target_range=."
        )
    codes = codes.astype(np.intp)
    return Answers(codes, codes, labels)


def _numbers(estimator: Estimator, y: npt.NDArray[Any], n_features: int) -> Answers:
    n_targets = y.shape[1] if y.ndim > 1 else 1
    c = configure(estimator, n_features, len(y), None, streaming=False, n_targets=n_targets)
    Model(c).encode_labels(y)
    if not _numbers_differ(y):
        raise InputError("a target is the same for all rows: a plan needs targets that differ.")
    return Answers(y[:, 0] if y.ndim > 1 == y.shape[1] else y, np.zeros(len(y), dtype=np.intp), np.empty(1))


def _numbers_differ(y: npt.NDArray[Any]) -> bool:
    return len(y) > 1 and bool((y != y[0]).any(axis=0).all())


def _score_classes(model: Any, X: Any, y: npt.NDArray[Any]) -> Scores:
    return scores_of(y, list(model.classes), model.predict_proba(X), model.predict(X))


CLASSES = Kind(
    ErasableClassifier,
    OF_CLASSES,
    ({"loss": "squared"}, {"loss": "logistic"}),
    _classes,
    lambda y: len(np.unique(y)) > 1,
    "rows of two classes",
    _score_classes,
    "give columns of different size public scales (scaling in Python), use a feature_map, or ErasableKernelClassifier",
)
NUMBERS = Kind(
    ErasableRegressor,
    OF_NUMBERS,
    ({},),
    _numbers,
    _numbers_differ,
    "targets that differ",
    lambda model, X, y: regression_scores_of(y, model.predict(X)),
    "divide rows by a number instead of their norms, or columns of different size by public scales (scaling), declare "
    "a target_range closer to what is common, or use a feature_map",
)
