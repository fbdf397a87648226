"""Theorem 4.6, measured: the time of a deletion is the share of deletions that fall on core rows, times that of one."""

from __future__ import annotations

import time
import warnings
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from erasable.estimators import ErasableClassifier
from erasable.operations.rendering import TextTable
from erasable.research.reproduce.requests import leverages
from erasable.research.sets import make_margin
from erasable.research.theory.deletions import (
    deletion_time,
    encounters,
    printed_total_deletions_uniform,
    total_deletions,
    total_deletions_uniform,
)
from erasable.research.theory.linear import Bound, threshold

_ORDERS = 8  # of the rows, to estimate how often each is kept


@dataclass(frozen=True)
class DeletionTime:
    """Deletions drawn from a distribution, timed one at a time, next to what Theorem 4.6 allows."""

    distribution: str  # how deletions are drawn, and where ``total`` comes from
    K: int  # the core-set capacity
    total: int  # deletions for which at most a share c of runs exhausts the capacity
    core_deletions: float  # those of core rows, on average over the runs
    seconds: float  # mean time until the model can predict again: of all deletions,
    core_seconds: float  # of those of core rows,
    other_seconds: float  # and of the others
    bound: Bound  # K / total times core_seconds, without the time to find out that a row is not in the core set


def measure_deletion_time(
    n_rows: int = 200_000,
    n_features: int = 100,
    *,
    K: int = 50,
    c: float = 0.5,
    kappa: float = 0.2,
    capacity: float = 1.0,
    runs: int = 5,
    random_state: int = 0,
) -> list[DeletionTime]:
    """Time deletions on the Margin set, drawn uniformly and in proportion to leverage, and bound them by Theorem 4.6.

    The number of deletions comes from the first half of Theorem 4.4, from Lemma 4.5 with the actual size of the core
    set, and from Lemma 4.5 as printed. Every run learns the rows in another random order and draws other deletions.
    """
    table = make_margin(n_rows, n_features, random_state=random_state)
    X, y = table.X, table.y
    tau = threshold(n_rows, kappa)
    met = encounters(X, lam=capacity, tau=tau, n_orders=_ORDERS, random_state=random_state)
    equal, unusual = np.ones(n_rows), leverages(X, capacity)
    lemma = total_deletions_uniform(n_rows, met.size, K=K, c=c)
    printed = printed_total_deletions_uniform(n_rows, n_features, kappa=kappa, K=K, c=c)
    cases = {
        "uniform, Lemma 4.5": (equal, lemma),
        "uniform, Lemma 4.5 as printed": (equal, printed),
        "by leverage, Theorem 4.4": (unusual, total_deletions(met, unusual, K=K, c=c, random_state=random_state)),
    }
    found = []
    for name, (weights, total) in cases.items():
        many = max(1, int(total.value))
        core: list[float] = []
        other: list[float] = []
        for run in range(runs):
            rng = np.random.default_rng([random_state, run])
            order = rng.permutation(n_rows)
            model = ErasableClassifier(
                capacity, threshold=tau, fit_intercept=False, loss="squared", order="given", feature_map=None
            )
            gone = np.argsort(rng.standard_exponential(n_rows) / weights)[:many]
            with warnings.catch_warnings(action="ignore"):
                model.fit(X[order], y[order], ids=order)
                _time(model, gone.tolist(), core, other)
        seconds = (sum(core) + sum(other)) / (runs * many)
        core_seconds = float(np.mean(core)) if core else 0.0
        found.append(
            DeletionTime(
                name,
                K,
                many,
                len(core) / runs,
                seconds,
                core_seconds,
                float(np.mean(other)) if other else 0.0,
                deletion_time(K, many, core_time=core_seconds),
            )
        )
    return found


def _time(model: ErasableClassifier, gone: list[int], core: list[float], other: list[float]) -> None:
    """Delete rows one at a time, the model ready after each, and note the times of core rows and of others."""
    _ = model.coef_
    for key in gone:
        start = time.perf_counter()
        report = model.forget(ids=[key])
        _ = model.coef_
        took = time.perf_counter() - start
        (core if report.core_rows_removed else other).append(took)


def as_table(found: list[DeletionTime]) -> TextTable:
    """The measurements as rows of text, times in microseconds."""
    rows = []
    for f in found:
        times = (f.seconds, f.core_seconds, f.other_seconds, f.bound.value)
        numbers = [f"{1e6 * t:,.{0 if t >= 1e-4 else 1}f}" for t in times]
        shares = (f.seconds * f.total, f.core_deletions * f.core_seconds)
        numbers += [f"{s / f.total / f.bound.value:.2f}" if f.bound.value else "" for s in shares]
        rows.append((f.distribution, f"{f.K}", f"{f.total:,}", f"{f.core_deletions:.1f}", *numbers))
    head = (
        "deletions",
        "K",
        "in all",
        "of core rows",
        "µs each",
        "core row",
        "other row",
        "bound",
        "share",
        "core only",
    )
    note = (
        "Times in µs, until the model can predict again: of a deletion, of one of a core row, of one of another row. "
        "Share: of the bound; core only: of the bound, without the time to look up other rows."
    )
    return TextTable("Theorem 4.6: the expected time of a deletion, on Margin", head, rows, (note,))


def as_json(found: list[DeletionTime]) -> list[dict[str, Any]]:
    """The measurements as plain values."""
    return [{**asdict(f), "bound": f.bound.value} for f in found]
