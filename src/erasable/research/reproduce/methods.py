"""The contestants: how each is built for an experiment, and when its model is ready after a request."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from sklearn.linear_model import RidgeClassifier, SGDClassifier

from erasable.estimators import ErasableClassifier
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.baselines.sums import RidgeFromSums
from erasable.research.reproduce.settings import Settings


@dataclass(frozen=True)
class Method:
    """A contestant.

    ``build`` gets the settings, the number of training rows and the share of rows that ours stores (so that a
    subsample can be made as large). ``lazy``: weights are solved for when first read, so a request is over only when
    they have been read. ``note`` says what a reader of its line has to know.
    """

    title: str
    build: Callable[[Settings, int, float], Any]
    lazy: bool = False
    exact: bool = True  # whether the same requests in other batches end in the same model
    note: str = ""


class Bringing:
    """A model that stores no rows, with the clients who ask it to forget and bring their rows.

    The rows are the clients': they are no part of what is stored, and no clock runs while they are looked up.
    """

    def __init__(self, model: RidgeFromSums) -> None:
        self.model = model

    def fit(self, X: Any, y: Any, ids: Any) -> Self:
        """Let the model learn, and the clients keep their rows."""
        self.model.fit(X, y)
        self._X, self._y, ids = X, y, np.asarray(ids)
        self._order = np.argsort(ids, kind="stable")
        self._ids = ids[self._order]
        return self

    def brought(self, ids: Any) -> tuple[Any, Any]:
        """Rows and labels of these ids, as a request brings them."""
        at = self._order[np.searchsorted(self._ids, np.asarray(ids))]
        return self._X[at], self._y[at]

    def forget_quietly(self, rows: tuple[Any, Any]) -> None:
        """Have the model forget the rows that a request brings."""
        self.model.forget(*rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.model, name)


def _erasable(s: Settings, n: int, share: float) -> Any:
    assert s.kappa is not None
    assert s.capacity is not None
    intercept = s.intercept == "all"
    return ErasableClassifier(s.capacity, kappa=s.kappa, fit_intercept=intercept, order="given")  # as in the paper


def _logistic(s: Settings, n: int, share: float) -> Any:
    return _erasable(s, n, share).set_params(loss="logistic")  # the same core rows


def _peers_have_one(s: Settings) -> bool:
    return s.intercept in ("all", "peers")


def _retrained(s: Settings, n: int, share: float) -> Any:
    return RetrainedRidge(s.alpha, fit_intercept=_peers_have_one(s))


def _sisa(s: Settings, n: int, share: float) -> Any:
    kind = RidgeClassifier if s.shards == "ridge" else SGDClassifier
    return SISAClassifier(kind(fit_intercept=_peers_have_one(s)), random_state=s.random_state)


def _newton(s: Settings, n: int, share: float) -> Any:
    # Its regulariser counts per row.
    return NewtonUnlearner("squared", s.alpha / n, fit_intercept=_peers_have_one(s), random_state=s.random_state)


def _certified(s: Settings, n: int, share: float) -> Any:
    return CertifiedRemovalClassifier(fit_intercept=_peers_have_one(s), random_state=s.random_state)


def _subsample(s: Settings, n: int, share: float) -> Any:
    """As many rows as ours stores, drawn by a hash of their ids, with the sums and kernels of ours."""
    rate = max(share, min(1.0, 20.0 / n))
    return ErasableClassifier(
        s.alpha,
        threshold=math.inf,
        sample_rate=rate,
        fit_intercept=_peers_have_one(s),
        order="given",
        random_state=s.random_state,
    )


def _sums(s: Settings, n: int, share: float) -> Any:
    return Bringing(RidgeFromSums(s.alpha, fit_intercept=_peers_have_one(s)))


METHODS = {
    "erasable": Method("Algorithm 1 (ours)", _erasable, lazy=True),
    "logistic": Method("Ours, logistic loss", _logistic, lazy=True),
    "retrained": Method("Exact retraining", _retrained, lazy=True),
    "sums": Method(
        "Exact sums alone",
        _sums,
        lazy=True,
        note="stores no row, so each request has to bring its row; it cannot verify itself from its state, refuse a "
        "forged request or fit a logistic loss",
    ),
    "sisa": Method("SISA", _sisa, note="trains each slice once, without the replay of earlier slices"),
    "newton": Method(
        "Sekhari et al.",
        _newton,
        note="stores all rows since requests name ids; were each request to bring its row, the d x d sums would do, as "
        "for exact sums alone",
    ),
    "certified": Method("Certified removal", _certified, exact=False),
    "subsample": Method("Subsample", _subsample, lazy=True, note="random rows in our own engine"),
}
