"""What a plan has to reach, the metrics it is measured by, and how hard to look; checked before any row is read."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.errors import ConfigurationError
from erasable.operations.scoring import RegressionScores, Scores
from erasable.validation import choice, number_between, positive_number

AnyScores = Scores | RegressionScores
DISTRIBUTIONS = ("uniform", "subject", "label", "worst", "rarest", "weights")
_MONTHS = 12.0
_FIGURES = 5  # printed digits of a metric in the units of the targets


@dataclass(frozen=True, repr=False)
class Metric:
    """One figure of :class:`Scores` or :class:`RegressionScores`, and how to compare two of them."""

    name: str
    title: str
    sign: float  # 1 where higher is better, -1 where lower is
    of: Callable[[Any], float]
    of_constant: Callable[[Any], float]  # the figure of the best constant on the same rows
    in_units: bool = False  # in the units of the targets; otherwise 0.01 is little of it and 1 is much

    def lost(self, value: float, against: float) -> float:
        """By how much a figure is worse than another; negative where it is better."""
        return self.sign * (against - value)

    def worse(self, value: float, by: float) -> float:
        """The figure that is worse than another by so much."""
        return value - self.sign * by

    def mean(self, scores: list[AnyScores]) -> float:
        """The metric in the mean over divisions of the rows."""
        return float(np.mean([self.of(s) for s in scores]))

    def scale(self, constant: float) -> float:
        """What is much of the metric, where a constant gets ``constant``."""
        return constant if self.in_units else 1.0

    def text(self, value: float) -> str:
        """A figure for people."""
        digits = 4
        if self.in_units and value != 0.0:
            digits = max(0, _FIGURES - 1 - math.floor(math.log10(abs(value))))
        return f"{value:,.{digits}f}"


def _classes_present(scores: Scores) -> int:
    return int(np.count_nonzero(scores.confusion.sum(axis=1)))


def _figures(value: float) -> float:
    return float(f"{value:.9g}")


# Nine figures: the last digits depend on the order in which products were summed, and no plan should.
CLASS_METRICS = {
    metric.name: metric
    for metric in (
        Metric("auc", "AUC", 1.0, lambda s: s.auc, lambda s: 0.5),
        Metric("logloss", "log-loss", -1.0, lambda s: round(s.log_loss, 9), lambda s: s.log_loss_of_shares),
        Metric("accuracy", "accuracy", 1.0, lambda s: s.accuracy, lambda s: s.largest_share),
        Metric("balanced", "balanced accuracy", 1.0, lambda s: s.balanced_accuracy, lambda s: 1 / _classes_present(s)),
    )
}
NUMBER_METRICS = {
    "r2": Metric("r2", "R²", 1.0, lambda s: round(s.r2, 9), lambda s: 0.0),
    "mae": Metric(
        "mae",
        "mean absolute error",
        -1.0,
        lambda s: _figures(s.mean_absolute_error),
        lambda s: _figures(s.mean_absolute_error_of_median),
        in_units=True,
    ),
}
METRICS = CLASS_METRICS | NUMBER_METRICS


@dataclass(frozen=True)
class Targets:
    """What the planned model has to reach. ``None`` stands for no such target.

    Raises ConfigurationError when a target is out of range or no number.

    Parameters
    ----------
    max_loss : float, default=0.01
        How much of the metric may be lost, twice: by storing a core set instead of all rows, and then by deletions
        until the model has to be learnt afresh. At most 1, except for ``mae``, which has the units of the targets.
    max_stored : float in (0, 1], optional
        The largest share of the rows that may be stored.
    max_bytes : int, optional
        The most bytes of rows, sums and weights that may be stored.
    deletions_per_month : float, optional
        Requests expected: rows, or subjects where whole subjects are deleted.
    months : float, optional
        How long the model is to last. Default: 12, where deletions are expected.
    distribution : str, default="uniform"
        ``uniform``: any rows. ``subject``: all rows of a subject at once. ``label``: rows of one class. ``worst``:
        core rows only. ``rarest``: all rows, the most unusual first. ``weights``: rows with probability in proportion
        to their weights.
    metric : str, default="auc"
        What candidates are compared by: ``auc``, ``logloss`` (lower is better), ``accuracy`` or ``balanced`` (accuracy,
        in the mean over the classes). For numbers ``r2``, or ``mae``, where lower is better; with several targets, the
        mean over them.

    Examples
    --------
    >>> from erasable.operations.plan import Targets
    >>> Targets(max_stored=0.2, deletions_per_month=500, months=6).deletions
    3000.0
    """

    max_loss: float = 0.01
    max_stored: float | None = None
    max_bytes: int | None = None
    deletions_per_month: float | None = None
    months: float | None = None
    distribution: str = "uniform"
    metric: str = "auc"

    def __post_init__(self) -> None:
        choice(self.metric, "metric", tuple(METRICS))
        if self.by.in_units:
            positive_number(self.max_loss, "max_loss")
        else:
            number_between(self.max_loss, "max_loss", 0.0, 1.0, closed="high")
        if self.max_stored is not None:
            number_between(self.max_stored, "max_stored", 0.0, 1.0, closed="high")
        for name in ("max_bytes", "deletions_per_month", "months"):
            if getattr(self, name) is not None:
                positive_number(getattr(self, name), name)
        choice(self.distribution, "distribution", DISTRIBUTIONS)
        if self.months is not None and self.deletions_per_month is None:
            raise ConfigurationError("months needs deletions_per_month: how many deletions are expected in each?")

    @property
    def by(self) -> Metric:
        """The metric itself."""
        return METRICS[self.metric]

    @property
    def deletions(self) -> float | None:
        """Deletions that have to be survived, over all months."""
        if self.deletions_per_month is None:
            return None
        return float(self.deletions_per_month) * float(_MONTHS if self.months is None else self.months)


@dataclass(frozen=True)
class Effort:
    """How much is tried: numbers of candidates, of divisions of the rows, and of simulated orders."""

    capacities: tuple[float, ...]
    thresholds: tuple[float, ...]  # falling, so that more and more rows are stored
    rates: tuple[float, ...]  # of independent selection, rising; all rows are tried in any case
    tried: int  # divisions on which every candidate is scored
    splits: int  # divisions on which those that may be recommended are scored
    small_tried: int  # the same two for samples of few rows
    small_splits: int
    orders: int  # simulated orders of deletion for each division
    simulated: int  # the most candidates that deletions are simulated for
    numbers: float  # rows times features learnt at a time while comparing; of more rows, some are drawn


def _falling(*digits: float) -> tuple[float, ...]:
    return tuple(round(digit / 10**power, 9) for power in range(4) for digit in digits)


EFFORTS = {
    "quick": Effort((1.0, 0.1), _falling(1.0, 0.3), (0.02, 0.05, 0.1, 0.2, 0.4), 1, 2, 2, 8, 1, 3, 3e6),
    "default": Effort(
        (1.0, 0.1, 0.01),
        _falling(1.0, 0.5, 0.2),
        (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6),
        *(1, 6, 5, 20, 1, 5, 1e7),
    ),
    "thorough": Effort(
        (10.0, 1.0, 0.1, 0.01),
        _falling(1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.13),
        (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6),
        *(3, 8, 20, 60, 3, 10, math.inf),
    ),
}
