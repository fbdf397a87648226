"""Ridge regression for targets that are numbers: Algorithm 1's solution with another right-hand side.

Which rows are selected does not depend on their targets, so the sums of rows times their targets take the place of the
sums by class.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid
from erasable.core.layout import Tensors
from erasable.core.target_grid import Range, centre_of, check_range, on_grid, outside, span_of, sums_by_target
from erasable.errors import ConfigurationError, InputError, InputTypeError, VerificationError
from erasable.models.heads.squared import RidgeHead

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.model import Model
    from erasable.models.rows import CoreRows

_TYPES = {2: "I16", 4: "I32"}


@dataclass(frozen=True)
class Regression(RidgeHead):
    """A number for each target; targets lie in ranges that the caller declared, and are stored on a grid of these."""

    target_ranges: tuple[Range, ...]

    NAME = "regression"
    SUMS = "target_sums"
    classifies = False

    def __post_init__(self) -> None:
        if not self.target_ranges:
            raise ConfigurationError("a regression needs a range for each target.")
        for ends in self.target_ranges:
            check_range(ends)

    def check(self, c: Configuration) -> None:
        """There are no classes."""
        super().check(c)
        if c.classes is not None:
            raise ConfigurationError("a regression has no classes.")

    # -- targets ---------------------------------------------------------------------------------------------------

    def stored_labels(self, y: npt.NDArray[Any], model: Model) -> npt.NDArray[Any]:
        """Targets on their grid, shape (n_samples, n_targets); refused outside of their ranges."""
        ranges = self.target_ranges
        if y.dtype.kind not in "biuf":
            raise InputTypeError(f"targets must be numbers; got {y.dtype}.")
        numbers = y.astype(np.float64).reshape(len(y), -1)
        if numbers.shape[1] != len(ranges):
            raise InputError(f"y has {numbers.shape[1]} targets for each row, and the model has {len(ranges)}.")
        unfit = outside(numbers, ranges)
        if unfit:
            raise InputError(
                f"{unfit} of {numbers.size} targets are outside of the declared range, or no finite numbers: declare a "
                "range that holds all that will ever come, with target_range=, or correct y."
            )
        return on_grid(numbers, ranges, model.configuration.grid)

    def check_stored_labels(self, c: Configuration, labels: Sequence[Any]) -> None:
        """Targets must be on their grid."""
        for place, targets in enumerate(labels):
            if len(targets) != len(self.target_ranges) or max(map(abs, targets)) > c.grid.radius:
                raise VerificationError(f"the targets of core row {place + 1} of {len(labels)} are not on the grid.")

    def label_tensors(self, c: Configuration, labels: Sequence[Any]) -> Tensors:
        """The targets in integers like those of the rows."""
        dtype, shape = c.grid.dtype, (len(labels), len(self.target_ranges))
        return {"targets": (_TYPES[dtype.itemsize], np.array(labels, dtype=dtype).reshape(shape))}

    # -- sums ------------------------------------------------------------------------------------------------------

    def sum_order(self, c: Configuration, labels: Collection[Any]) -> tuple[int, ...]:
        """The numbers of the targets."""
        return tuple(range(len(self.target_ranges)))

    def summed_labels(self, labels: Sequence[Any]) -> Collection[Any]:
        """All targets, if there are rows."""
        return range(len(self.target_ranges)) if len(labels) else ()

    def labels_present(self, core: CoreRows) -> Collection[Any]:
        """All targets, if there are core rows."""
        return range(len(self.target_ranges)) if len(core) else ()

    def sums_of(self, rows: Any, labels: Sequence[Any], grid: Grid) -> dict[Any, Float64s]:
        """For each target the sum of the rows times it."""
        return sums_by_target(rows, labels, grid)

    def right_hand_side(self, c: Configuration, by_label: Float64s) -> tuple[Float64s, int]:
        """``b`` is the sums: with targets ``t * 2**-bits`` the solution is ``H^-1`` times them."""
        return np.ascontiguousarray(by_label.T), 0

    def n_functions(self, c: Configuration, labels: Any) -> int:
        """One function for each target."""
        return len(self.target_ranges)

    def nbytes(self, model: Model) -> int:
        """Bytes of sums and weights, and of the targets."""
        targets = len(model.core) * len(self.target_ranges) * model.configuration.grid.dtype.itemsize
        return super().nbytes(model) + targets

    # -- predicting ------------------------------------------------------------------------------------------------

    def published(self, model: Model) -> tuple[Float64s, Float64s]:
        """Coefficients and constants in the units of the targets: each function begins at the centre of its range."""
        coefficients, constants = super().published(model)
        ranges, grid = self.target_ranges, model.configuration.grid
        spans, centres = np.array([span_of(r, grid) for r in ranges]), np.array([centre_of(r) for r in ranges])
        return coefficients * spans[:, None], constants * spans + centres

    def predictions(self, model: Model, scores: Float64s) -> Float64s:
        """The targets of each row, clipped to their declared ranges: shape (n,) for one, (n, n_targets) for several."""
        low, high = np.array(self.target_ranges).T
        return np.clip(scores, low, high)

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        return {"target_ranges": [[low.hex(), high.hex()] for low, high in self.target_ranges]}

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote; minus zero, which no estimator writes, is then not canonical."""
        return cls(tuple((float.fromhex(low) + 0.0, float.fromhex(high) + 0.0) for low, high in meta["target_ranges"]))
