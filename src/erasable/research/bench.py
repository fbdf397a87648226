"""Learning, forgetting and verifying beside ordinary ridge regression, measured on this machine."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
from sklearn.linear_model import RidgeClassifier

from erasable.estimators import ErasableClassifier
from erasable.operations.verify import verify
from erasable.research.measuring import clock, machine, take_turns
from erasable.research.sets import make_margin
from erasable.validation import whole_number

Watch = Callable[[str, int, int], None]
_LEAST_ROWS, _LEAST_FEATURES = 1000, 2
_HELD_OUT = 10_000
_FORGETS = 4  # in a round: one alone takes too short a time to be measured well


@dataclass(frozen=True)
class Measurement:
    """How long one thing takes with ours, and what it is compared with.

    Attributes
    ----------
    name, other : str
        What is measured, and the other way.
    ours_s, other_s : float
        Seconds, medians.
    ours_range_s, other_range_s : tuple of float
        The fastest and the slowest.
    """

    name: str
    other: str
    ours_s: float
    other_s: float
    ours_range_s: tuple[float, float]
    other_range_s: tuple[float, float]

    @property
    def ratio(self) -> float:
        """How many times as long the other way takes."""
        return self.other_s / self.ours_s


@dataclass(frozen=True)
class Bench:
    """What was measured.

    Attributes
    ----------
    rows, features, rounds : int
    core_rows : int
        Rows that the model stores after learning.
    accuracy, other_accuracy : float
        On rows that were not learnt: ours, and ridge regression that stores every row.
    measurements : tuple of Measurement
    machine : dict
        Cores, versions and threads, without which times say little.
    """

    rows: int
    features: int
    rounds: int
    core_rows: int
    accuracy: float
    other_accuracy: float
    measurements: tuple[Measurement, ...]
    machine: dict[str, Any]

    def as_json(self) -> dict[str, Any]:
        """Everything, in types that JSON has."""
        return {**asdict(self), "measurements": [{**asdict(m), "ratio": m.ratio} for m in self.measurements]}


def bench(rows: int = 50_000, features: int = 100, *, rounds: int = 5, progress: Watch | None = None) -> Bench:
    """Measure learning, forgetting a core row and verifying on the paper's Margin set.

    The contestants take turns, each timed call right after an untimed one of its own where it can be repeated; figures
    are medians. Ridge regression stores every row, and forgets by training again without the one.

    Parameters
    ----------
    rows, features : int
        Size of the data, at least 1,000 by 2.
    rounds : int, default=5
    progress : callable, optional
        Called with (what is being done, how much is done, how much there is).

    Returns
    -------
    Bench

    Raises
    ------
    ConfigurationError
        When the data would be too small to measure anything.

    Examples
    --------
    >>> from erasable.research.bench import bench
    >>> report = bench(2000, 5, rounds=1)
    >>> [m.name for m in report.measurements]
    ['learn', 'forget one core row', 'verify']
    """
    rows, features = whole_number(rows, "rows", _LEAST_ROWS), whole_number(features, "features", _LEAST_FEATURES)
    rounds = whole_number(rounds, "rounds")
    watch = progress or (lambda what, done, total: None)
    watch("making data", 0, 1)
    X, y = make_margin(rows + _HELD_OUT, features, return_X_y=True)
    X_test, y_test, X, y = X[rows:], y[rows:], X[:rows], y[:rows]
    watch("making data", 1, 1)

    def fit() -> ErasableClassifier:
        with warnings.catch_warnings(action="ignore"):  # how good it is, is said
            clf = ErasableClassifier(1.0, kappa=0.2).fit(X, y)
        _ = clf.coef_  # the solve waits until weights are read
        return clf

    def fit_ridge(keep: slice = slice(None)) -> RidgeClassifier:
        return RidgeClassifier(solver="cholesky").fit(X[keep], y[keep])

    clf, ridge = fit(), fit_ridge()
    core_rows = int(clf.n_core_)
    accuracy, other = (float(model.score(X_test, y_test)) for model in (clf, ridge))

    learning = take_turns({"ours": fit, "ridge": fit_ridge}, rounds, partial(watch, "learn"))

    keys = np.random.default_rng(0).permutation(clf.core_ids_)[: min(_FORGETS * rounds, core_rows // 2)]
    forgetting: list[float] = []
    retraining: list[float] = []

    def forget(key: int) -> None:
        clf.forget_quietly([key])
        _ = clf.coef_

    for k, some in enumerate(np.array_split(keys, rounds)):
        watch("forget", k, rounds)
        forgetting += [clock(partial(forget, key)) for key in some.tolist()]
        retraining.append(clock(partial(fit_ridge, slice(1, None))))
    watch("forget", rounds, rounds)

    verifying = take_turns({"ours": lambda: verify(clf), "learning": fit}, rounds, partial(watch, "verify"))
    measured = (
        _measurement("learn", learning["ours"], "ridge on all rows", learning["ridge"]),
        _measurement("forget one core row", forgetting, "ridge trained again", retraining),
        _measurement("verify", verifying["ours"], "learning all rows", verifying["learning"]),
    )
    return Bench(rows, features, rounds, core_rows, accuracy, other, measured, machine())


def _measurement(name: str, ours: Sequence[float], other: str, others: Sequence[float]) -> Measurement:
    ranges = ((min(ours), max(ours)), (min(others), max(others)))
    return Measurement(name, other, median(ours), median(others), *ranges)
