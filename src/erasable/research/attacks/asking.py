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
from erasable.tables import Table, load_split, load_table


def target_asked(method: str) -> Target:
    """The target of a method's name, or one that learns with the parameters of a model file.

    Raises
    ------
    ConfigurationError
        When it is neither, or the file's model maps its rows.
    StateFormatError, StoreError
        When the file cannot be read.
    """
    if method in TARGETS or not os.path.exists(method):
        return target_of(method)
    held = load(method)
    if getattr(held, "feature_map", None) is not None:
        raise ConfigurationError(
            "this model maps its rows (a schema, or another feature map), and attacks work on rows of numbers: audit "
            "a model without one, or the method by its name."
        )
    plain = {"classes": None, "feature_names": None, "class_weight": None, "target_range": (-1.5, 1.5)}
    like = clone(held)
    like.set_params(**{name: value for name, value in plain.items() if name in like.get_params(deep=False)})
    slow = isinstance(like, ErasableKernelClassifier | ErasableGeneralClassifier)
    inversion: str | None = "logistic" if getattr(like, "loss", "squared") == "logistic" else "squared"
    if isinstance(like, ErasableKernelClassifier):
        inversion = "kernel" if like.kernel == "rbf" and like.scaling is None else None
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
    )


def rows_asked(
    data: str, *, label: str = "label", id: str | None = None, ignore: Sequence[str] = (), most: int = 20_000
) -> tuple[str, Float64s, npt.NDArray[np.int64]]:
    """A name for the rows, the rows, and labels -1 and 1: of more than two classes, the largest against the rest.

    Parameters
    ----------
    data : str
        ``digits``, ``margin``, a set that ships with scikit-learn, or a file.
    most : int
        How many rows ``margin`` has.

    Raises
    ------
    ConfigurationError, InputError, InputTypeError
        As the readers of tables do.
    """
    table = _table(data, label, id, ignore, most)
    X: Any = table.numbers
    rows = np.asarray(X.toarray() if sp.issparse(X) else X, np.float64)
    classes, codes = np.unique(np.asarray(table.y), return_inverse=True)
    if len(classes) < 2:
        raise InputError("an audit needs rows of two classes; got one: name the column of labels with label=.")
    positive = int(np.argmax(np.bincount(codes))) if len(classes) > 2 else 1
    return table.name or data, rows, np.where(codes == positive, 1, -1).astype(np.int64)


def _table(data: str, label: str, id: str | None, ignore: Sequence[str], most: int) -> Table:
    if data == "digits":
        return load_bundled()
    if data == "margin":
        return make_margin(most, 100)
    if data in ("breast_cancer", "wine", "iris"):
        return load_sklearn(data)
    if data.endswith("_train.npz"):
        return load_split(data).train
    return load_table(data, label=label, id=id, ignore=ignore)
