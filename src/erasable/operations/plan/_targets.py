"""What a plan has to reach, and how hard to look for it; checked before any row is looked at."""

from __future__ import annotations

import math
from dataclasses import dataclass

from erasable.errors import ConfigurationError
from erasable.operations.plan._metrics import METRICS, Metric
from erasable.validation import choice, number_between, positive_number

DISTRIBUTIONS = ("uniform", "subject", "label", "worst", "weights")
_MONTHS = 12.0


@dataclass(frozen=True)
class Targets:
    """What the planned model has to reach. ``None`` stands for no such target.

    Parameters
    ----------
    max_loss : float, default=0.01
        What may be lost of the metric, twice: by storing a core set instead of all rows, and then by deletions until
        the model has to be learnt afresh. At most 1, but of ``mae``, which has the units of the targets.
    max_stored : float in (0, 1], optional
        The largest share of the rows that may be stored.
    max_bytes : int, optional
        The most bytes of rows, sums and weights that may be stored.
    deletions_per_month : float, optional
        Requests expected: rows, or subjects where whole subjects are deleted.
    months : float, optional
        How long the model is to hold. Default: 12, where deletions are expected.
    distribution : str, default="uniform"
        ``uniform``: any rows. ``subject``: all rows of a subject at once. ``label``: rows of one class. ``worst``:
        core rows only. ``weights``: rows with probability in proportion to their weights.
    metric : str, default="accuracy"
        What candidates are compared by: ``accuracy``, ``balanced`` (accuracy, in the mean over the classes), ``auc``
        or ``logloss``, of which lower is better. Of numbers: ``r2``, or ``mae``, of which lower is better; with several
        targets each in the mean.

    Raises
    ------
    ConfigurationError
        When a target is out of range or no number.

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
    metric: str = "accuracy"

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
        if self.distribution not in DISTRIBUTIONS:
            raise ConfigurationError(
                f"distribution must be one of {', '.join(DISTRIBUTIONS)}; got {self.distribution!r}."
            )
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
    """How much is tried: numbers of candidates, of divisions of the rows, and of simulated orders.

    Attributes
    ----------
    capacities, thresholds, rates : tuple of float
        The candidates. Thresholds fall, so that what is stored rises; rates are shares of rows kept by their ids.
    tried, splits : int
        Divisions into rows to learn and rows to score: for trying candidates, and for those that may be recommended.
    small_tried, small_splits : int
        The same for small samples.
    orders : int
        Simulated orders of deletion for each division.
    simulated : int
        The most candidates that deletions are simulated for.
    numbers : float
        Rows times features that are learnt at a time while candidates are compared; of more rows some are drawn. What
        is recommended learns them all.
    """

    capacities: tuple[float, ...]
    thresholds: tuple[float, ...]
    rates: tuple[float, ...]
    tried: int
    splits: int
    small_tried: int
    small_splits: int
    orders: int
    simulated: int
    numbers: float


def _falling(*digits: float) -> tuple[float, ...]:
    return tuple(round(digit / 10**power, 9) for power in range(4) for digit in digits)


EFFORTS = {
    "quick": Effort((1.0, 0.1), _falling(1.0, 0.3), (0.05, 0.2), 1, 2, 2, 8, 1, 3, 3e6),
    "default": Effort((1.0, 0.1, 0.01), _falling(1.0, 0.5, 0.2), (0.05, 0.1, 0.2, 0.4), 1, 6, 5, 20, 1, 5, 1e7),
    "thorough": Effort(
        (10.0, 1.0, 0.1, 0.01),
        _falling(1.0, 0.7, 0.5, 0.35, 0.25, 0.18, 0.13),
        (0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.6),
        *(3, 8, 20, 60, 3, 10, math.inf),
    ),
}


def effort_named(name: object) -> Effort:
    """The effort of that name.

    Raises
    ------
    ConfigurationError
    """
    if not isinstance(name, str) or name not in EFFORTS:
        raise ConfigurationError(f"effort must be one of {', '.join(EFFORTS)}; got {name!r}.")
    return EFFORTS[name]
