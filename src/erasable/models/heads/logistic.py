"""Logistic regression on the core rows: the exact minimiser, rounded with a certificate (:mod:`core.logistic`)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from erasable.core.arrays import Float32s, Float64s
from erasable.core.logistic import guard_rows, logistic_weights
from erasable.core.sums import LARGEST_EXACT
from erasable.errors import ConfigurationError
from erasable.models.heads.base import Specification, classes_of
from erasable.models.heads.linear import LinearHead
from erasable.models.weighting import (
    ONE,
    ClassWeights,
    RowWeights,
    check_class_weights,
    class_weights_of,
    described_class_weights,
    read_class_weights,
)

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.exact_sums import ExactSums
    from erasable.models.model import Model
    from erasable.models.rows import CoreRows


@dataclass(frozen=True)
class Logistic(LinearHead):
    """One class against the rest; ``alpha_units`` is the regulariser in squared grid steps."""

    alpha_units: int
    class_weight: ClassWeights = None

    NAME = "logistic"
    takes_weights = True

    def __post_init__(self) -> None:
        if not 1 <= self.alpha_units < LARGEST_EXACT // 2:
            raise ConfigurationError("alpha is outside what the grid can hold.")

    def check(self, c: Configuration) -> None:
        """Class weights must be of the fixed classes."""
        super().check(c)
        check_class_weights(self.class_weight, c.classes)

    def check_chosen(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:
        """There must be few enough rows for a certificate."""
        super().check_chosen(c, core, weights)
        guard_rows(len(core) + len(weights))

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """See :class:`LinearHead`."""
        found = super().specification(c, labels, n, weighted=weighted)
        return found | {"weights": found["weights"]._replace(words="the logistic weights w")}

    def solve(
        self, c: Configuration, rows: Any, labels: Sequence[Any], row_weights: RowWeights | None, sums: ExactSums
    ) -> Float32s:
        """Weights from the core rows; zero if there are no rows.

        A row counts as often as its weight times that of its class: a product that float64 holds exactly. ``H`` only
        leads the first steps.
        """
        classes = classes_of(c.classes, labels)
        place = {label: k for k, label in enumerate(classes)}
        codes = np.fromiter((place[label] for label in labels), dtype=np.intp, count=len(labels))
        sixteenths = np.full(len(labels), ONE, dtype=np.int64) if row_weights is None else row_weights.astype(np.int64)
        totals = {label: int(sixteenths[codes == k].sum()) for label, k in place.items()}
        counts = class_weights_of(self.class_weight, classes, totals)[codes] * (sixteenths / ONE)
        positive = np.arange(len(classes)) if len(classes) > 2 else np.array([len(classes) - 1])
        signs = np.where(codes == positive[:, None], 1.0, -1.0)
        return logistic_weights(rows, signs, counts, c.grid, self.alpha_units, gram=sums.H)

    def probabilities(self, model: Model, scores: Float64s) -> Float64s:
        """The sigmoid of the scores; of several classes divided by their sum."""
        return super().probabilities(model, scores) if model.n_classes == 1 else sigmoids(scores)

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        return {"alpha_units": str(self.alpha_units), "class_weight": described_class_weights(self.class_weight)}

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote."""
        return cls(int(meta["alpha_units"]), read_class_weights(meta["class_weight"]))


def sigmoids(scores: Float64s) -> Float64s:
    """Probabilities of all classes: the sigmoid and its complement, or sigmoids divided by their sum."""
    if scores.ndim == 1:
        return np.exp(_log_sigmoid(np.column_stack([-scores, scores])))
    logs = _log_sigmoid(scores)
    P = np.exp(logs - logs.max(axis=1, keepdims=True))
    total: Float64s = P / P.sum(axis=1, keepdims=True)
    return total


def _log_sigmoid(scores: Float64s) -> Float64s:
    found: Float64s = np.minimum(scores, 0.0) - np.log1p(np.exp(-np.abs(scores)))
    return found
