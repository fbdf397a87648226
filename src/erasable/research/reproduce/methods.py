"""The contestants: how each is built for an experiment, and when its model is ready after a request."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sklearn.linear_model import RidgeClassifier, SGDClassifier

from erasable.coresets import RandomSubsample
from erasable.estimators import CoreSetUnlearner, ErasableClassifier
from erasable.research.baselines import (
    CertifiedRemovalClassifier,
    NewtonUnlearner,
    RetrainedRidge,
    SISAClassifier,
)
from erasable.research.reproduce.settings import Settings


@dataclass(frozen=True)
class Method:
    """A contestant.

    ``build`` gets the settings, the number of training rows and the share of rows that ours stores (so that a
    subsample can be made as large). ``lazy``: weights are solved for when first read, so a request is over only when
    they have been read.
    """

    title: str
    build: Callable[[Settings, int, float], Any]
    lazy: bool = False
    exact: bool = True  # whether the same requests in other batches end in the same model


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
    ridge = RidgeClassifier(s.alpha, fit_intercept=_peers_have_one(s))
    return CoreSetUnlearner(RandomSubsample(max(share, min(1.0, 20.0 / n)), s.random_state), ridge)


METHODS = {
    "erasable": Method("Algorithm 1 (ours)", _erasable, lazy=True),
    "logistic": Method("Ours, logistic loss", _logistic, lazy=True),
    "retrained": Method("Exact retraining", _retrained, lazy=True),
    "sisa": Method("SISA", _sisa),
    "newton": Method("Sekhari et al.", _newton),
    "certified": Method("Certified removal", _certified, exact=False),
    "subsample": Method("Subsample", _subsample),
}
