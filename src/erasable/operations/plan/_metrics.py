"""What candidates are compared by: four metrics, each with what a constant gets."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from erasable.operations.scoring import Scores


@dataclass(frozen=True, repr=False)
class Metric:
    """One figure of :class:`Scores`, and how to compare two of them.

    Attributes
    ----------
    name, title : str
        What callers type, and what people read.
    sign : float
        1 where higher is better, -1 where lower is.
    of, of_constant : callable
        The figure for these predictions, and the one for the best constant on the same rows.
    """

    name: str
    title: str
    sign: float
    of: Callable[[Scores], float]
    of_constant: Callable[[Scores], float]

    def lost(self, value: float, against: float) -> float:
        """By how much a figure is worse than another; negative where it is better."""
        return self.sign * (against - value)

    def worse(self, value: float, by: float) -> float:
        """The figure that is worse than another by so much."""
        return value - self.sign * by


def _area(scores: Scores) -> float:
    assert scores.auc is not None  # rows to score are of two classes or more
    return scores.auc


def _chance(scores: Scores) -> float:
    return 1.0 / float(np.count_nonzero(scores.confusion.sum(axis=1)))


METRICS = {
    metric.name: metric
    for metric in (
        Metric("accuracy", "accuracy", 1.0, lambda s: s.accuracy, lambda s: s.largest_share),
        Metric("balanced", "balanced accuracy", 1.0, lambda s: s.balanced_accuracy, _chance),
        Metric("auc", "AUC", 1.0, _area, lambda s: 0.5),
        # Its last digits depend on how products were added up, which no plan should.
        Metric("logloss", "log-loss", -1.0, lambda s: round(s.log_loss, 9), lambda s: s.log_loss_of_shares),
    )
}
