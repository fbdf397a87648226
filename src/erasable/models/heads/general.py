"""The best fit of a function class to the core rows; fitted when it is first needed and never stored."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.classes import FunctionClass, Predictor
from erasable.core.arrays import Float64s, Matrix
from erasable.errors import ConfigurationError
from erasable.models.inputs import Labels, RowWeights
from erasable.models.reports import BITWISE, Guarantee
from erasable.models.selections.general import FunctionClassSelection
from erasable.models.strategies import Derived, Head, Specification, dense, in_blocks

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.heads.linear import ExactSums
    from erasable.models.model import Model


@dataclass(frozen=True)
class FunctionClassFit(Head):
    """One function for one or two classes, one for each class against the rest otherwise."""

    NAME = "general"

    def check(self, c: Configuration) -> None:
        """The selection must have a function class."""
        if not isinstance(c.selection, FunctionClassSelection):
            raise ConfigurationError("the fit of a function class needs rows that the class selected.")

    def guarantee(self, model: Model) -> Guarantee:
        """Exact system-aware unlearning, bitwise, for the single pass over an exact class; otherwise no bound."""
        s = model.configuration.selection
        return general_guarantee(s.function_class, staged=not s.one_by_one)

    def derive(
        self, c: Configuration, rows: Matrix, labels: Labels, row_weights: RowWeights | None, sums: ExactSums | None
    ) -> Derived:
        """Nothing is stored."""
        return {}

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """Nothing is stored."""
        return {}

    def predictors(self, model: Model) -> list[Predictor]:
        """The fit to the core rows.

        Departure: Algorithm 2, line 4 refits at once; here the fit waits until it is needed, and is not stored.
        """

        def fitted() -> tuple[npt.NDArray[Any], list[Predictor]]:
            positive = model.classes if model.n_classes > 2 else model.classes[-1:]
            fit, rows, labels = model.configuration.selection.function_class.fit, model.core.rows(), model.core.labels()
            found = [fit(rows, np.array([int(label == c) for label in labels], dtype=np.int64)) for c in positive]
            return rows, found  # with the rows, which the predictors may refer to

        found: list[Predictor] = model.cached("predictors", fitted)[1]
        return found

    def scores(self, model: Model, X: Matrix) -> Float64s:
        """``f(x) - 1/2`` for each row."""
        predictors, s = self.predictors(model), model.configuration.selection
        embed, width = s.function_class.embed, s.empty().shape[1]
        scores = np.empty((X.shape[0], len(predictors)))
        for block in in_blocks(X, max(X.shape[1], width)):
            rows = embed(dense(X[block]))
            for k, f in enumerate(predictors):
                scores[block, k] = f(rows) - 0.5
        return scores

    def shares(self, scores: Float64s) -> Float64s:
        """``f(x)`` is the probability itself."""
        return 0.5 + scores

    def describe(self) -> dict[str, Any]:
        """There are no parameters but those of the selection."""
        return {}


def general_guarantee(function_class: FunctionClass, *, staged: bool) -> Guarantee:
    """Exact system-aware unlearning, bitwise, for the single pass over an exact class; otherwise no bound."""
    if not staged and getattr(function_class, "exact", False):
        return replace(BITWISE, assumptions=tuple(function_class.assumptions))
    reason = "the staged sampler is not stable" if staged else "the class decides by rounded numbers"
    return Guarantee(
        "approximate: forgotten rows are removed and the predictor is fitted to the surviving core rows, but training "
        f"on these rows may select fewer of them, because {reason}; no bound is claimed",
        of="state",
        epsilon=math.inf,
        delta=1.0,
    )
