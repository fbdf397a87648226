"""What the heads on a grid have in common: weights of the columns, solved for when they are first needed."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from erasable.core.arrays import Float32s, Float64s
from erasable.core.device_rows import here
from erasable.core.grid import Grid, scale_rows
from erasable.core.names import Label
from erasable.core.sums import guard_exactness, sums_by_class
from erasable.errors import ConfigurationError
from erasable.features import FeatureMap
from erasable.models.arrays import in_blocks
from erasable.models.guarantee import BITWISE, Guarantee
from erasable.models.heads.base import Derived, Head, Specification, Tensor
from erasable.models.selections.grid import GridSelection
from erasable.models.weighting import RowWeights, uneven

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.exact_sums import ExactSums, Stacked
    from erasable.models.model import Model
    from erasable.models.rows import CoreRows
    from erasable.models.state import State


class LinearHead(Head):
    """Weights of the columns of grid rows: float32, a pure function of the rows, the same on every machine."""

    keeps_sums = True
    needs_rows: ClassVar[bool] = True  # whether the weights depend on more than the sums

    def check(self, c: Configuration) -> None:
        """Rows must be on a grid."""
        if not isinstance(c.selection, GridSelection):
            raise ConfigurationError(f"the head {self.NAME!r} needs rows on a grid.")

    def guarantee(self, model: Model) -> Guarantee:
        """Exact system-aware unlearning, bitwise, and what the feature map assumes of the caller."""
        return linear_guarantee(model.feature_map)

    # -- weights ---------------------------------------------------------------------------------------------------

    def check_chosen(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:
        """Sums must stay exact."""
        guard_exactness(len(core) + len(weights), c.grid, c.units)

    @abstractmethod
    def solve(
        self, c: Configuration, rows: Any, labels: Sequence[Any], row_weights: RowWeights | None, sums: ExactSums
    ) -> Float32s:
        """The weights, shape (n_functions, n_columns); called only if there are classes or targets."""

    def n_functions(self, c: Configuration, labels: Any) -> int:
        """One function for one or two classes, one for each class otherwise."""
        k = len(self.sum_order(c, labels))
        return k if k > 2 else 1

    def derive(
        self, c: Configuration, rows: Any, labels: Sequence[Any], row_weights: RowWeights | None, sums: ExactSums | None
    ) -> Derived:
        """The weights."""
        assert sums is not None
        if not len(self.sum_order(c, labels)):
            return {"weights": np.zeros((1, c.grid.n_columns), dtype=np.float32)}
        return {"weights": self.solve(c, rows, labels, row_weights, sums)}

    def weights(self, model: Model) -> Float32s:
        """The weights of a model, solved for when they are first needed."""
        c, core = model.configuration, model.core

        def solved() -> Float32s:
            row_weights = uneven(core.weights()) if core.uneven else None
            rows, labels = (core.rows(), core.labels()) if self.needs_rows else (None, model.classes_with_rows())
            return self.derive(c, rows, labels, row_weights, model.sums)["weights"]

        found: Float32s = model.cached("weights", solved)
        return found

    def stored(self, model: Model) -> Derived:
        """A copy of the weights."""
        return {"weights": self.weights(model).copy()}

    def cache_from(self, state: State) -> dict[str, Any]:
        """The weights, taken over for ``verify`` to judge."""
        return {"weights": state.derived["weights"].copy()}

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """The Gram matrix, the sums by label, both of them weighted where some row's weight is not one; weights."""
        d, k = c.grid.n_columns, len(self.sum_order(c, labels))
        name = self.SUMS.replace("_", " ")
        found = {
            "gram": Tensor("I64", (d * (d + 1) // 2,), "A"),
            self.SUMS: Tensor("I64", (k, d), f"the {name} b"),
        }
        if weighted:
            found["weighted_gram"] = found["gram"]._replace(words="the weighted A")
            found[f"weighted_{self.SUMS}"] = found[self.SUMS]._replace(words=f"the weighted {name} b")
        return found | {"weights": Tensor("F32", (self.n_functions(c, labels), d), "the weights w")}

    def nbytes(self, model: Model) -> int:
        """Bytes of sums and weights, and of the weights of rows where some is not one."""
        c, sums, n = model.configuration, model.sums, len(model.core)
        if sums is None:
            return 0
        seen, columns, copies = model.classes_with_rows(), c.grid.n_columns, 1 if sums.weighted is None else 2
        by_label = copies * len(self.sum_order(c, seen)) * columns * 8
        of_rows = 2 * n if model.core.uneven else 0
        return sums.nbytes + by_label + self.n_functions(c, seen) * columns * 4 + of_rows

    # -- predicting ------------------------------------------------------------------------------------------------

    def functions(self, model: Model) -> tuple[Float64s, Float64s]:
        """Coefficients for rows of norm one, shape (n_functions, n_features), and constants; copies for the caller."""
        moment = model.moment
        found: tuple[Float64s, Float64s] = model.cached("functions", lambda: self.published(model))
        copies = found[0].copy(), found[1].copy()
        return copies if model.moment is moment else self.functions(model)  # a change overwrote them meanwhile

    def published(self, model: Model) -> tuple[Float64s, Float64s]:
        """Coefficients and constants: the appended coordinate's share, less what class weights subtract."""
        c, grid, W = model.configuration, model.configuration.grid, self.weights(model)
        assert model.sums is not None
        subtracted = self.shifts(
            c, model.classes, model.core.class_totals, W, model.sums.stacked(model.classes_with_rows())
        )
        of_constant = W[:, -1].astype(np.float64) * math.ldexp(grid.constant, -grid.bits) if grid.intercept else 0.0
        # 24 and 15 bits: exact
        return W[:, : grid.n_features].astype(np.float64) * grid.stretch, of_constant - subtracted

    def shifts(
        self,
        c: Configuration,
        classes: Sequence[Label],
        totals: Mapping[Label, int],
        W: Float32s,
        sums: tuple[Stacked, Stacked | None],
    ) -> Float64s:
        """What class weights subtract from each score; by default nothing."""
        return np.zeros(len(W))

    def scores(self, model: Model, X: Any) -> Float64s:
        """``w'x`` for each row."""
        grid, (W, offset) = model.configuration.grid, self.functions(model)
        scores = np.empty((X.shape[0], len(W)))
        for block in in_blocks(X, grid.n_columns):
            rows = here(X[block])
            rows = rows if model.feature_map is None else model.feature_map(rows)
            scores[block] = scale_rows(rows, grid) @ W.T + offset
        return scores

    def predictor(self, model: Model) -> Model:
        """A model with weights and without rows."""
        return model.read(lambda: self._twin(model))

    def _twin(self, model: Model) -> Model:
        twin = copy(model)
        kept = {"weights": self.weights(model).copy()}
        if len(model.core):
            kept["functions"] = self.functions(model)  # type: ignore[assignment]
        twin.core, twin.sums, twin.cache = model.core.counted(), None, kept
        return twin

    def sums_of(self, rows: Any, labels: Sequence[Any], grid: Grid) -> dict[Any, Float64s]:
        """The sum of the rows of each class."""
        return sums_by_class(rows, labels, grid)


def linear_guarantee(feature_map: FeatureMap | None) -> Guarantee:
    """Exact system-aware unlearning, bitwise, and what the feature map assumes of the caller."""
    return replace(BITWISE, assumptions=() if feature_map is None else feature_map.assumptions)


def functions_of(model: Model) -> tuple[Float64s, Float64s]:
    """Coefficients and constants of a model with a linear head; copies for the caller."""
    found: tuple[Float64s, Float64s] = model.configuration.head.functions(model)
    return found
