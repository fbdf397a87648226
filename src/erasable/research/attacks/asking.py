"""What is to be audited, as a user names it: a method or a model file, and the rows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from erasable.classes import LinearBall
from erasable.core.arrays import Float64s
from erasable.errors import ConfigurationError, InputError
from erasable.estimators import ErasableGeneralClassifier, ErasableKernelClassifier, load
from erasable.research.attacks.targets import TARGETS, Target, made, target_of
from erasable.research.sets import load_bundled, load_sklearn, make_margin
from erasable.schemas import Schema
from erasable.tables import Table, load_split, load_table

_MOST_CLASSES = 20  # more different floats than that are numbers to predict


def target_asked(method: str) -> Target:
    """The target of a method's name, or one that learns with the parameters of a model file.

    A model with a schema is audited over encoded rows: a schema is public and the same for every row, so what it makes
    of a row is all that is learnt, and all that can be left of it. ``Target.schema`` is for ``rows_asked``.

    Raises
    ------
    ConfigurationError
        When it is neither, or the model has another feature map, which no file holds.
    StateFormatError, StoreError
        When the file cannot be read.
    """
    if method in TARGETS or not os.path.exists(method):
        return target_of(method)
    held = load(method)
    schema = getattr(held, "feature_map", None)
    if schema is not None and not isinstance(schema, Schema):
        raise ConfigurationError(
            "this model was made with a feature map, which a file cannot hold: audit a model of the mapped rows that "
            "has none, or the method by its name."
        )
    plain: dict[str, Any] = {
        "classes": None,
        "feature_map": None,
        "feature_names": None,
        "class_weight": None,
        "target_range": (-1.5, 1.5),
    }
    like = clone(held)
    scaling = getattr(like, "scaling", None)
    slow = isinstance(like, ErasableKernelClassifier | ErasableGeneralClassifier)
    by_norm = not slow and scaling is not None and not isinstance(scaling, int | float)
    plain["scaling"] = "row" if by_norm else None
    like.set_params(**{name: value for name, value in plain.items() if name in like.get_params(deep=False)})
    inversion: str | None = "logistic" if getattr(like, "loss", "squared") == "logistic" else "squared"
    if isinstance(like, ErasableKernelClassifier):
        inversion = "kernel" if like.kernel == "rbf" else None
    elif isinstance(like, ErasableGeneralClassifier):
        inversion = "squared" if isinstance(like.function_class, LinearBall | None) else None
    return Target(
        "model file",
        f"{type(like).__name__}, as in the file",
        made(clone, estimator=like),
        most_rows=2000 if slow else None,
        ours=True,
        inversion=inversion,
        surroundings=True,
        schema=schema,
        divisor=1.0 if scaling is None or isinstance(scaling, str) else np.asarray(scaling, np.float64),
        by_norm=by_norm,
    )


def rows_asked(
    data: str,
    *,
    label: str | None = None,
    id: str | None = None,
    ignore: Sequence[str] = (),
    most: int = 20_000,
    schema: Schema | None = None,
) -> tuple[str, Float64s, npt.NDArray[np.int64]]:
    """A name for the rows, the rows, and labels -1 and 1.

    Of more than two classes it is the largest against the rest; of numbers to predict, those above the median.

    Parameters
    ----------
    data : str
        ``digits``, ``margin``, ``breast_cancer``, or a file.
    label : str, optional
        The column of labels; by default the one that a schema names, or ``"label"``.
    most : int
        How many rows are wanted at most: ``margin`` has so many, and of sparse rows so many are drawn.
    schema : Schema, optional
        Encodes a raw table.

    Raises
    ------
    ConfigurationError, InputError, InputTypeError
        As the readers of tables do.
    """
    table = _table(data, label, id, ignore, most, schema)
    X: Any = table.numbers
    y: Any = np.asarray(table.y)
    if sp.issparse(X) and X.shape[0] > most:
        drawn = np.sort(np.random.default_rng(0).permutation(X.shape[0])[:most])
        X, y = X[drawn], y[drawn]
    rows = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    return table.name or data, rows, _signs(y if y.ndim == 1 else y[:, 0])


def _signs(y: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    classes, codes = np.unique(y, return_inverse=True)
    if len(classes) < 2:
        raise InputError("an audit needs rows of two classes; got one: name the column of labels with label=.")
    if y.dtype.kind == "f" and len(classes) > _MOST_CLASSES:
        inside = y > np.median(y)
    else:
        inside = codes == (int(np.argmax(np.bincount(codes))) if len(classes) > 2 else 1)
    return np.where(inside, 1, -1).astype(np.int64)


def _table(
    data: str, label: str | None, id: str | None, ignore: Sequence[str], most: int, schema: Schema | None
) -> Table:
    if schema is not None:
        return load_table(data, label=label, id=id, ignore=ignore, schema=schema)
    if data == "digits":
        return load_bundled()
    if data == "margin":
        return make_margin(most, 100)
    if data == "breast_cancer":
        return load_sklearn(data)
    if not os.path.splitext(data)[1]:
        raise ConfigurationError("data must be digits, margin, breast_cancer, or a file; got another name.")
    if data.endswith("_train.npz"):
        return load_split(data).train
    return load_table(data, label=label or "label", id=id, ignore=ignore)
