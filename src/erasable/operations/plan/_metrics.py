"""What candidates are compared by: metrics of classes and of numbers, each with what a constant gets."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.operations.scoring import RegressionScores, Scores

_FIGURES = 5  # of a metric that has the units of the targets


@dataclass(frozen=True, repr=False)
class Metric:
    """One figure of :class:`Scores` or :class:`RegressionScores`, and how to compare two of them.

    Attributes
    ----------
    name, title : str
        What callers type, and what people read.
    sign : float
        1 where higher is better, -1 where lower is.
    of, of_constant : callable
        The figure for these predictions, and the one for the best constant on the same rows.
    in_units : bool
        Whether it has the units of the targets; otherwise 0.01 is little of it and 1 is much.
    """

    name: str
    title: str
    sign: float
    of: Callable[[Any], float]
    of_constant: Callable[[Any], float]
    in_units: bool = False

    def lost(self, value: float, against: float) -> float:
        """By how much a figure is worse than another; negative where it is better."""
        return self.sign * (against - value)

    def worse(self, value: float, by: float) -> float:
        """The figure that is worse than another by so much."""
        return value - self.sign * by

    def scale(self, constant: float) -> float:
        """What is much of it, where a constant gets so much."""
        return constant if self.in_units else 1.0

    def text(self, value: float) -> str:
        """A figure for people."""
        digits = 4
        if self.in_units and value != 0.0:
            digits = max(0, _FIGURES - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{digits}f}"


def _area(scores: Scores) -> float:
    assert scores.auc is not None  # rows to score are of two classes or more
    return scores.auc


def _chance(scores: Scores) -> float:
    return 1.0 / float(np.count_nonzero(scores.confusion.sum(axis=1)))


def _explained(scores: RegressionScores) -> float:
    assert scores.r2 is not None  # targets to score differ
    return round(scores.r2, 9)


def _figures(value: float) -> float:
    return float(f"{value:.9g}")


# Last digits of what is no share of rows depend on how products were added up, which no plan should.
OF_CLASSES = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", 1.0, lambda s: s.accuracy, lambda s: s.largest_share),
        Metric("balanced", "balanced accuracy", 1.0, lambda s: s.balanced_accuracy, _chance),
        Metric("auc", "AUC", 1.0, _area, lambda s: 0.5),
        Metric("logloss", "log-loss", -1.0, lambda s: round(s.log_loss, 9), lambda s: s.log_loss_of_shares),
    )
}
OF_NUMBERS = {
    metric.name: metric
    for metric in (
        Metric("r2", "R²", 1.0, _explained, lambda s: 0.0),
        Metric(
            "mae",
            "mean absolute error",
            -1.0,
            lambda s: _figures(s.mean_absolute_error),
            lambda s: _figures(s.mean_absolute_error_of_median),
            in_units=True,
        ),
    )
}
METRICS = OF_CLASSES | OF_NUMBERS
