"""Learning, forgetting and verifying beside ordinary ridge regression, measured on this machine."""

from __future__ import annotations

import gc
import os
import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from statistics import median
from typing import Any

import numpy as np
import sklearn
from sklearn.linear_model import RidgeClassifier

from erasable.errors import ConfigurationError
from erasable.estimators import ErasableClassifier
from erasable.operations.verify import verify
from erasable.research.sets import make_margin

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
    machine : dict of str to str
        Processor count and versions, without which times say little.
    """

    rows: int
    features: int
    rounds: int
    core_rows: int
    accuracy: float
    other_accuracy: float
    measurements: tuple[Measurement, ...]
    machine: dict[str, str]

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
    for name, value, least in (("rows", rows, _LEAST_ROWS), ("features", features, _LEAST_FEATURES)):
        if value < least:
            raise ConfigurationError(f"{name} must be at least {least:,} to measure anything; got {value:,}.")
    if rounds < 1:
        raise ConfigurationError(f"rounds must be at least 1; got {rounds:,}.")
    watch = progress or (lambda what, done, total: None)
    watch("making data", 0, 1)
    X, y = make_margin(rows + _HELD_OUT, features, return_X_y=True)
    X_test, y_test, X, y = X[rows:], y[rows:], X[:rows], y[:rows]
    watch("making data", 1, 1)

    def fit() -> ErasableClassifier:
        clf = ErasableClassifier(kappa=0.2).fit(X, y)
        _ = clf.coef_  # the solve waits until weights are read
        return clf

    def fit_ridge(keep: slice = slice(None)) -> RidgeClassifier:
        return RidgeClassifier(solver="cholesky").fit(X[keep], y[keep])

    clf, ridge = fit(), fit_ridge()
    core_rows = int(clf.n_core_)
    accuracy, other = (float(model.score(X_test, y_test)) for model in (clf, ridge))

    learning: list[float] = []
    training: list[float] = []
    for k in range(rounds):
        watch("learn", k, rounds)
        learning.append(_timed(fit, warm=True))
        training.append(_timed(fit_ridge, warm=True))
    watch("learn", rounds, rounds)

    keys = np.random.default_rng(0).permutation(clf.core_ids_)[: min(_FORGETS * rounds, core_rows // 2)]
    forgetting: list[float] = []
    retraining: list[float] = []

    def forget(key: int) -> None:
        clf.forget_quietly([key])
        _ = clf.coef_

    for k, some in enumerate(np.array_split(keys, rounds)):
        watch("forget", k, rounds)
        forgetting += [_timed(partial(forget, key)) for key in some.tolist()]
        retraining.append(_timed(partial(fit_ridge, slice(1, None))))
    watch("forget", rounds, rounds)

    verifying: list[float] = []
    again: list[float] = []
    for k in range(rounds):
        watch("verify", k, rounds)
        verifying.append(_timed(partial(verify, clf), warm=True))
        again.append(_timed(fit, warm=True))
    watch("verify", rounds, rounds)
    measured = (
        _measurement("learn", learning, "ridge on all rows", training),
        _measurement("forget one core row", forgetting, "ridge trained again", retraining),
        _measurement("verify", verifying, "learning all rows", again),
    )
    return Bench(rows, features, rounds, core_rows, accuracy, other, measured, _machine())


def _timed(work: Callable[[], Any], *, warm: bool = False) -> float:
    """Seconds that a call takes; with ``warm``, right after another one, so that memory and caches are as it likes."""
    if warm:
        work()
    gc.collect()
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _measurement(name: str, ours: Sequence[float], other: str, others: Sequence[float]) -> Measurement:
    ranges = ((min(ours), max(ours)), (min(others), max(others)))
    return Measurement(name, other, median(ours), median(others), *ranges)


def _machine() -> dict[str, str]:
    return {
        "processor": platform.machine(),
        "processors": str(os.cpu_count()),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
