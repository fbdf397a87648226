"""What is attacked: every method in the box, stores that forget badly, and how each of them is built and read."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp
from sklearn.base import clone

from erasable.classes import LinearBall
from erasable.core.arrays import Float64s
from erasable.coresets import LeverageThreshold
from erasable.errors import ConfigurationError, InputError
from erasable.estimators import (
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
    load,
)
from erasable.features import LogFeatures
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    InterpolatedClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.controls import (
    ForgetsLate,
    ForgetsNothing,
    KeepsLog,
    LeavesTombstone,
    PlainAlgorithm1,
    SoftDeletes,
    with_constant,
)
from erasable.research.sets import load_bundled, load_sklearn, make_margin
from erasable.schemas import Schema
from erasable.tables import Table, load_split, load_table

SAMPLE_SHARE = 0.1  # of the targets that keep a sample and nothing else


@dataclass(frozen=True)
class Target:
    """A method under attack."""

    name: str
    title: str
    build: Callable[[int], Any]  # an estimator from a seed, from which only secret noise may come; see made()
    most_rows: int | None = None  # offered at most, where more would take too long
    ours: bool = False  # the promise on trial is ours: the state is that of learning the surviving rows, bitwise
    control: str | None = None  # of a store that forgets badly: the letter of the attack that must catch it
    inversion: str | None = "squared"  # how weights before and after give a row, see row_from_weights; None: unknown
    surroundings: bool = False  # whether what may stand around a model is attacked too, the same for every method
    noisy: bool = False  # learning twice gives different bits, since noise is part of the method
    schema: Schema | None = None  # of a model file: encodes a raw table before its rows are offered
    divisor: float | Float64s = 1.0  # of a model file: rows are divided by it, and by their norms, before
    by_norm: bool = True


def made(kind: Callable[..., Any], *, seeded: bool = False, **parameters: Any) -> Callable[[int], Any]:
    """How an estimator is built from a seed, its ``random_state`` or nothing; a lambda cannot be sent to a process."""
    return partial(_build, kind, parameters, seeded)


def _build(kind: Callable[..., Any], parameters: dict[str, Any], seeded: bool, seed: int) -> Any:
    return kind(**parameters, **({"random_state": seed} if seeded else {}))


def _listed(*targets: Target) -> dict[str, Target]:
    return {target.name: target for target in targets}


# Rows as they are and the capacity that the paper's experiments have.
RAW_ROWS: dict[str, Any] = {"feature_map": None, "capacity": 0.02}

TARGETS = _listed(
    Target(
        "linear",
        "ErasableClassifier, squared loss",
        made(ErasableClassifier, **RAW_ROWS, loss="squared"),
        ours=True,
        surroundings=True,
    ),
    Target(
        "logistic",
        "ErasableClassifier, logistic loss",
        made(ErasableClassifier, **RAW_ROWS, loss="logistic", alpha=0.02),
        ours=True,
        inversion="logistic",
    ),
    Target(
        "sample",
        "ErasableClassifier, a sample alone",
        made(
            ErasableClassifier,
            feature_map=None,
            capacity=0.02,
            threshold=math.inf,
            sample_rate=SAMPLE_SHARE,
            loss="squared",
        ),
        ours=True,
    ),
    Target(
        "independent",
        "ErasableClassifier, independent selection",
        made(
            ErasableClassifier,
            feature_map=None,
            capacity=0.02,
            selection="independent",
            rate=SAMPLE_SHARE,
            loss="squared",
        ),
        ours=True,
    ),
    Target(
        "regressor",
        "ErasableRegressor",
        made(ErasableRegressor, **RAW_ROWS, target_range=(-1.5, 1.5)),
        ours=True,
    ),
    Target(
        "kernel",
        "ErasableKernelClassifier",
        made(ErasableKernelClassifier, gamma=2.0),
        most_rows=2000,
        ours=True,
        inversion="kernel",
    ),
    Target("general", "ErasableGeneralClassifier", made(ErasableGeneralClassifier), most_rows=2000, ours=True),
    Target("retrained", "Exact retraining", made(RetrainedRidge)),
    Target("sisa", "SISA", made(SISAClassifier, n_shards=5, n_slices=3), inversion="voters"),
    Target(
        "newton",
        "One Newton step and noise",
        made(NewtonUnlearner, seeded=True, alpha=0.1, max_deletions=200),
        inversion="logistic",
        noisy=True,
    ),
    Target("newton-squared", "One Newton step, squared loss", made(NewtonUnlearner, seeded=True, loss="squared")),
    Target(
        "certified",
        "Certified removal",
        made(CertifiedRemovalClassifier, seeded=True),
        inversion="logistic",
        noisy=True,
    ),
    Target(
        "interpolated",
        "Interpolated (Section 2.2)",
        made(
            InterpolatedClassifier,
            seeded=True,
            core_set=LeverageThreshold(0.06, capacity=0.02),
            private_share=0.01,
            epsilon=1.0,
            alpha=1e-3,
        ),
        inversion="logistic",
        noisy=True,
    ),
    Target("plain", "Algorithm 1 in plain float64", made(PlainAlgorithm1), control="a"),
    Target("soft-delete", "A soft-delete store", made(SoftDeletes), control="b"),
    Target("forgets-nothing", "Control: forgets nothing", made(ForgetsNothing), control="b"),
    Target("forgets-late", "Control: forgets late", made(ForgetsLate), control="b"),
    Target("keeps-log", "Control: keeps a log", made(KeepsLog), control="b"),
    Target("tombstone", "Control: leaves a tombstone", made(LeavesTombstone), control="b"),
)


def target_of(name: str) -> Target:
    """Return the target of a name; ConfigurationError if there is none."""
    if name not in TARGETS:
        raise ConfigurationError(f"method must be one of {', '.join(TARGETS)}, or a model file; got another name.")
    return TARGETS[name]


def stored_ids(estimator: Any, offered: Sequence[Any]) -> list[Any]:
    """Ids of the rows that an estimator stores, among those it was offered and not asked to forget."""
    core = getattr(estimator, "core_ids_", None)
    return list(offered) if core is None else list(np.asarray(core).tolist())


def outputs(estimator: Any, X: Float64s) -> Float64s:
    """One number for each row: the score, the prediction, or the mean score of the voters."""
    if hasattr(estimator, "_shards"):  # an attacker who reads the state sees each voter, not the vote alone
        voters = [shard.voter for shard in estimator._shards if shard.voter is not None]
        scores = [voter.decision_function(X) for voter in voters if hasattr(voter, "decision_function")]
        return np.asarray(np.mean(scores, axis=0), np.float64)
    ask = estimator.decision_function if hasattr(estimator, "decision_function") else estimator.predict
    return np.asarray(ask(X), np.float64)


def novelty(stored: Float64s, X: Float64s, ridge: float = 0.02) -> Float64s:
    """How new each row is to the stored ones: its leverage ``x'(ridge I + sum zz')^-1 x``, rows scaled to norm one.

    A row that was stored and has left leaves a hole: what lay near it was not kept while it was there.
    """
    Z, V = with_constant(stored), with_constant(X)
    A = 2.0 * ridge * np.eye(V.shape[1]) + Z.T @ Z
    found: Float64s = np.einsum("ij,ji->i", V, np.linalg.solve(A, V.T))
    return found


_MOST_CLASSES = 20  # more different floats than that are numbers to predict


def target_named(method: str) -> Target:
    """The target of a method's name, or one that learns with the parameters of a model file.

    A model with a schema is audited over encoded rows: a schema is public and the same for every row, so what it makes
    of a row is all that is learnt, and all that can be left of it. ``Target.schema`` is for ``rows_named``.

    Raises ConfigurationError when it is neither, or the model has another feature map, which no file holds. Raises
    StateFormatError or StoreError when the file cannot be read.
    """
    if method in TARGETS or not os.path.exists(method):
        return target_of(method)
    held = load(method)
    schema = getattr(held, "feature_map", None)
    if isinstance(schema, LogFeatures | str):  # public like a schema, and rows of an audit are of one size
        schema = None
    if schema is not None and not isinstance(schema, Schema):
        raise ConfigurationError(
            "this model was made with a feature map, which a file cannot hold: audit a model of the mapped rows that "
            "has none, or the method by its name."
        )
    plain: dict[str, Any] = {
        "classes": None,
        "feature_map": None,
        "centres": None,
        "missing": None,
        "feature_names": None,
        "class_weight": None,
        "balance": 0.0,  # an audit's labels are others than those of the file
        "class_shares": None,
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


def rows_named(
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

    Raises ConfigurationError, InputError or InputTypeError as the readers of tables do.

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
