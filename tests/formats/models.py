"""One small model of every kind that a file can hold, and what it takes to read it back."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.ensemble import RandomForestClassifier
from sklearn.linear_model import RidgeClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.tree import DecisionTreeClassifier

from erasable import (
    CoreSetUnlearner,
    ErasableClassifier,
    ErasableGeneralClassifier,
    ErasableKernelClassifier,
    ErasableRegressor,
)
from erasable.classes import FiniteClass, LinearBall
from erasable.coresets import IndependentSample, LeverageThreshold, RandomSubsample
from erasable.estimators.files import code_of, estimator_of
from erasable.features import HashedText, RandomFourierFeatures
from erasable.models.files import model_of
from erasable.research.baselines import RetrainedRidge

N, D = 40, 3


def rows(n: int = N, d: int = D, seed: int = 0) -> Any:
    """Numbers with few digits, so that they are the same on every machine."""
    rng = np.random.default_rng(seed)
    return rng.integers(-64, 65, (n, d)) / 16.0 + 1 / 32


def labels(X: Any) -> Any:
    """Three classes, by sign."""
    return np.array(["ape", "bee", "cow"])[(X[:, 0] > 0).astype(int) + (X[:, 1] > 1)]


def gaussian(X: Any, Z: Any) -> Any:
    """A kernel of the caller's: each pair by itself."""
    return np.exp(-((X[:, None, :] - Z[None, :, :]) ** 2).sum(axis=2))


def steps() -> FiniteClass:
    """Step functions of the first column."""
    return FiniteClass([functools.partial(_step, c) for c in (-3.0, -1.0, 0.0, 1.0, 3.0)])


def _step(c: float, X: Any) -> Any:
    return (X[:, 0] > c).astype(float)


class NearestMean(ClassifierMixin, BaseEstimator):
    """A learner that no release of another library can change."""

    def __init__(self, power: int = 2) -> None:
        self.power = power

    def fit(self, X: Any, y: Any) -> NearestMean:
        """The mean of each class."""
        self.classes_ = np.unique(y)
        self.means_ = np.array([X[y == c].mean(axis=0) for c in self.classes_])
        return self

    def predict(self, X: Any) -> Any:
        """The class whose mean is nearest."""
        far = (np.abs(np.asarray(X)[:, None, :] - self.means_) ** self.power).sum(axis=2)
        return self.classes_[far.argmin(axis=1)]


def texts(n: int = N) -> list[str]:
    """Short texts, all different."""
    words = ["red", "green", "blue", "round", "square", "small", "large", "old", "new"]
    return [" ".join(words[(i * k + k) % 9] for k in range(1, 5)) + f" n{i}" for i in range(n)]


@dataclass(frozen=True)
class Case:
    """How to make an unfitted model, what it learns from, and whether reading its file needs it."""

    make: Callable[[], Any]
    X: Callable[[], Any] = rows
    needed: bool = False  # like= is needed to load
    streams: bool = True
    key: str = "str"
    weighted: bool = False  # whether rows have weights
    numeric: int = 0  # how many targets rows have, in place of labels

    def answers(self) -> Any:
        """What the rows answer: one of three classes, or numbers."""
        if not self.numeric:
            return labels(rows())
        y = np.stack([rows()[:, 0] * 3.0, rows()[:, 1] - 1.0], axis=1)
        return y[:, 0] if self.numeric == 1 else y

    def ids(self, n: int = N) -> list[Any]:
        """Names of rows of the kind that this case has."""
        match self.key:
            case "int":
                return [(-1) ** i * i * 2**40 for i in range(n)]
            case "bytes":
                return [b"\0%d\xff" % i for i in range(n)]
            case _:
                return [f"rów {i}" for i in range(n)]

    def owners(self, n: int = N) -> list[Any]:
        """Whose the rows are; where ids are bytes, every second row is that of two or three."""
        if self.key == "bytes":
            return [[f"owner {i % 7}", f"kin {i % 5}", "żona"][: 1 + i % 2 * (1 + i % 3)] for i in range(n)]
        return [f"owner {i % 7}" for i in range(n)]

    def weights(self, index: Any) -> dict[str, Any]:
        """How much the rows count, where they have weights: those of the second half do not count alike."""
        counted = np.where(np.arange(N) < N // 2, 1.0, 0.5 + np.arange(N) % 3)
        return {"sample_weight": counted[index]} if self.weighted else {}

    def fitted(self, index: Any = None, classes: Any = None) -> Any:
        """A model that has learnt these of the rows, the first half of them without subjects where they stream."""
        X, y = self.X(), np.asarray(self.answers() if classes is None else classes)
        index = np.arange(N) if index is None else np.asarray(index, dtype=int)
        model = self.make()
        named = self.ids()
        if not self.streams:
            owners = [self.owners()[i] for i in index]
            return model.fit(taken(X, index), y[index], ids=[named[i] for i in index], subjects=owners)
        for part, owned in ((index[index < N // 2], False), (index[index >= N // 2], True)):
            owners = [self.owners()[i] for i in part] if owned else None
            if len(part):
                names = {"ids": [named[i] for i in part], "subjects": owners}
                model.partial_fit(taken(X, part), y[part], **names, **self.weights(part))
        return model

    def positions(self, model: Any) -> list[int]:
        """Where the core rows stand among all."""
        at = {key: i for i, key in enumerate(self.ids())}
        return [at[key] for key in model.core_ids_.tolist()]


def read_back(data: Any, like: Any = None) -> Any:
    """The estimator that bytes of a file give, as ``load`` makes it."""
    return estimator_of(model_of(data, None, code_of(like)), like)


def taken(X: Any, index: Any) -> Any:
    """Some rows of a list or an array."""
    return [X[i] for i in index] if isinstance(X, list) else X[index]


def sparse_rows() -> Any:
    """Rows with zeros, as CSR."""
    X = rows()
    X[np.abs(X) < 1.5] = 0.0
    X[:, 0] += X[:, 0] == 0
    return sp.csr_array(X)


def wide_rows() -> Any:
    """Rows with few entries among many features, as CSR."""
    X = np.zeros((N, 30))
    X[np.arange(N)[:, None], (np.arange(N)[:, None] * 7 + np.arange(3) * 11) % 30] = rows()
    return sp.csr_array(X)


def kernel(name: Any, **parameters: Any) -> ErasableKernelClassifier:
    """A kernel model that keeps some of the rows and drops others."""
    return ErasableKernelClassifier(
        name, **{"capacity": 0.1, "threshold": 1.0, "scaling": 4.0, "grid_bits": 8, **parameters}
    )


def core_set(learner: Any, threshold: float = 0.1, **parameters: Any) -> CoreSetUnlearner:
    """A learner on a core set."""
    return CoreSetUnlearner(LeverageThreshold(threshold, scaling=8.0), learner, **parameters)


CASES = {
    "linear": Case(
        lambda: ErasableClassifier(threshold=0.2, feature_names=["a", "b,", 'ć"\\'], loss="squared", feature_map=None)
    ),
    "linear, int ids": Case(
        lambda: ErasableClassifier(
            threshold=0.05,
            classes=["ape", "bee", "cow", "zoé"],
            scaling=[8.0, 8.0, 9.5],
            loss="squared",
            feature_map=None,
        ),
        key="int",
    ),
    "linear, bytes ids": Case(
        lambda: ErasableClassifier(
            2.0, threshold=0.05, fit_intercept=False, grid_bits=20, loss="squared", feature_map=None
        ),
        key="bytes",
    ),
    "linear, sparse": Case(lambda: ErasableClassifier(threshold=0.05, loss="squared", feature_map=None), X=wide_rows),
    "linear, sparse, 20 bits": Case(
        lambda: ErasableClassifier(
            threshold=0.02,
            fit_intercept=False,
            grid_bits=20,
            classes=["ape", "bee", "cow"],
            loss="squared",
            feature_map=None,
        ),
        X=wide_rows,
        key="int",
    ),
    "logistic": Case(
        lambda: ErasableClassifier(
            threshold=0.1, loss="logistic", alpha=0.25, class_weight="balanced", feature_map=None
        ),
        weighted=True,
    ),
    "spread": Case(
        lambda: ErasableClassifier(threshold=0.1, head_scaling="spread", class_weight="balanced", feature_map=None),
        weighted=True,
    ),
    "independent, spread, sparse": Case(
        lambda: ErasableClassifier(
            selection="independent", rate=0.6, head_scaling="spread", alpha=0.25, feature_map=None
        ),
        X=wide_rows,
        key="int",
    ),
    "weighted": Case(
        lambda: ErasableClassifier(threshold=0.1, loss="squared", feature_map=None), weighted=True, key="int"
    ),
    "sampled": Case(
        lambda: ErasableClassifier(
            threshold=math.inf,
            sample_rate=0.7,
            class_weight={"ape": 0.5, "zebu": 3.0},
            order="given",
            random_state=2**70,
            loss="squared",
            feature_map=None,
        ),
        weighted=True,
        key="bytes",
    ),
    "regression": Case(
        lambda: ErasableRegressor((-20.0, 20.0), threshold=0.1, feature_names=["a", "b", "c"], feature_map=None),
        numeric=1,
    ),
    "regression, weighted": Case(
        lambda: ErasableRegressor([(-13.0, 14.0), (-6.0, 5.5)], threshold=0.1, sample_rate=0.5, feature_map=None),
        numeric=2,
        weighted=True,
        key="bytes",
    ),
    "regression, sparse, 20 bits": Case(
        lambda: ErasableRegressor(
            (-16, 16), threshold=0.02, fit_intercept=False, grid_bits=20, order="given", feature_map=None
        ),
        X=wide_rows,
        numeric=2,
        key="int",
    ),
    "independent": Case(
        lambda: ErasableClassifier(
            selection="independent", rate=0.6, feature_names=["a", "b,", 'ć"\\'], loss="squared", feature_map=None
        )
    ),
    "independent, moments, int ids": Case(
        lambda: ErasableClassifier(
            selection="independent",
            rate=0.5,
            moments=[0.5, 0.25, 0.2],
            balance=0.5,
            class_shares={"ape": 0.5, "bee": 0.25, "cow": 0.25},
            loss="logistic",
            alpha=0.25,
            feature_map=None,
        ),
        key="int",
        weighted=True,
    ),
    "independent, matrix, bytes ids": Case(
        lambda: ErasableClassifier(
            selection="independent",
            rate=0.5,
            moments=np.array([[4, 1, 0], [1, 3, -1], [0, -1, 2]]) / 8,
            fit_intercept=False,
            grid_bits=20,
            random_state=2**70,
            loss="squared",
            feature_map=None,
        ),
        key="bytes",
    ),
    "independent regression, weighted": Case(
        lambda: ErasableRegressor(
            [(-13.0, 14.0), (-6.0, 5.5)], selection="independent", rate=0.5, moments=[0.5, 0.5, 0.25], feature_map=None
        ),
        numeric=2,
        weighted=True,
        key="int",
    ),
    "independent, sparse": Case(
        lambda: ErasableClassifier(
            selection="independent", rate=0.5, moments=[2.0**-5] * 30, loss="squared", feature_map=None
        ),
        X=wide_rows,
    ),
    "independent kernel": Case(
        lambda: ErasableKernelClassifier(selection="independent", rate=0.6, scaling=4.0, moments=[0.5, 0.25, 0.2])
    ),
    "ridge": Case(lambda: RetrainedRidge(0.5)),
    "rbf": Case(lambda: kernel("rbf")),
    "matern": Case(lambda: kernel("matern", nu=2.5, scaling=[4.0, 5.0, 6.0]), key="int"),
    "poly": Case(lambda: kernel("poly", degree=2, feature_names=["a", "b", "c"]), key="bytes"),
    "linear kernel": Case(lambda: kernel("linear", classes=["ape", "bee", "cow"])),
    "kernel function": Case(lambda: kernel(gaussian), needed=True),
    "general": Case(lambda: ErasableGeneralClassifier(steps(), threshold=0.1), needed=True),
    "general, int ids": Case(
        lambda: ErasableGeneralClassifier(LinearBall(), threshold=0.3, classes=["ape", "bee", "cow"]),
        X=lambda: rows() / 16,
        needed=True,
        key="int",
    ),
    "general, staged": Case(lambda: ErasableGeneralClassifier(steps(), sampler="staged"), needed=True, streams=False),
    "mapped": Case(
        lambda: ErasableClassifier(
            feature_map=RandomFourierFeatures(6, gamma=0.1, random_state=3), threshold=0.1, loss="squared"
        )
    ),
    "mapped texts": Case(
        lambda: ErasableClassifier(feature_map=HashedText(8), threshold=0.1, loss="squared"), X=texts, key="bytes"
    ),
    "log": Case(
        lambda: ErasableClassifier(
            feature_map="log",
            threshold=0.05,
            feature_names=["a", "b", "c"],
            centres=[0.5, 0.0, -1.0],
            scaling=[1, 2, 3],
        ),
        weighted=True,
        key="int",
    ),
    "log, sparse": Case(
        lambda: ErasableRegressor(
            (-16, 16), feature_map="log", missing="indicator", fit_intercept=False, selection="independent", rate=0.7
        ),
        X=wide_rows,
        numeric=1,
    ),
    "core set, forest": Case(lambda: core_set(RandomForestClassifier(3)), needed=True, streams=False),
    "core set, tree on sparse": Case(
        lambda: core_set(DecisionTreeClassifier(random_state=1)),
        X=sparse_rows,
        needed=True,
        streams=False,
        key="int",
    ),
    "core set, ridge": Case(lambda: core_set(RidgeClassifier()), needed=True, streams=False, key="bytes"),
    "core set, independent": Case(
        lambda: CoreSetUnlearner(IndependentSample(0.6), RidgeClassifier()), needed=True, streams=False, key="int"
    ),
    "core set, bayes": Case(lambda: CoreSetUnlearner(RandomSubsample(0.7), GaussianNB()), needed=True, streams=False),
    "core set, ours": Case(
        lambda: core_set(ErasableClassifier(threshold=0.1, loss="squared", feature_map=None)),
        needed=True,
        streams=False,
    ),
}
