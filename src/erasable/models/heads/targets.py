"""What heads share that predict numbers: targets in declared ranges, stored on a grid of these."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid
from erasable.core.layout import Tensors
from erasable.core.target_grid import Range, check_range, off_grid, on_grid, outside
from erasable.errors import ConfigurationError, InputError, InputTypeError, VerificationError
from erasable.models.inputs import Labels

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.model import Model

_TYPES = {2: "I16", 4: "I32"}


class Targets:
    """A number for each target; targets lie in ranges that the caller declared, and are stored on a grid of these."""

    classifies = False
    target_ranges: tuple[Range, ...]

    def __post_init__(self) -> None:
        if not self.target_ranges:
            raise ConfigurationError("a regression needs a range for each target.")
        for ends in self.target_ranges:
            check_range(ends)

    def encode_targets(self, y: npt.NDArray[Any], grid: Grid) -> npt.NDArray[Any]:
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
        return on_grid(numbers, ranges, grid)

    def decoded_targets(self, labels: Labels, grid: Grid) -> Float64s:
        """The numbers that targets on their grid stand for, shape (n, n_targets)."""
        rows = [[off_grid(t, ends, grid) for t, ends in zip(row, self.target_ranges, strict=True)] for row in labels]
        return np.array(rows, dtype=np.float64).reshape(len(labels), len(self.target_ranges))

    def check_encoded_labels(self, c: Configuration, labels: Labels) -> None:
        """Targets must be on their grid."""
        for place, row in enumerate(labels):
            if len(row) != len(self.target_ranges) or max(map(abs, row)) > c.grid.radius:
                raise VerificationError(f"the targets of core row {place + 1} of {len(labels)} are not on the grid.")

    def label_tensors(self, c: Configuration, labels: Labels) -> Tensors:
        """The targets in integers like those of the rows."""
        dtype, shape = c.grid.dtype, (len(labels), len(self.target_ranges))
        return {"targets": (_TYPES[dtype.itemsize], np.array(labels, dtype=dtype).reshape(shape))}

    def predictions(self, model: Model, scores: Float64s) -> Float64s:
        """The targets of each row, clipped to their declared ranges: shape (n,) for one, (n, n_targets) for several."""
        low, high = np.array(self.target_ranges).T
        return np.clip(scores, low, high)

    def described_ranges(self) -> dict[str, Any]:
        """The ranges as values that JSON can hold."""
        return {"target_ranges": [[low.hex(), high.hex()] for low, high in self.target_ranges]}


def read_ranges(meta: dict[str, Any]) -> tuple[Range, ...]:
    """The ranges in a header; minus zero, which no estimator writes, is then not canonical."""
    return tuple((float.fromhex(low) + 0.0, float.fromhex(high) + 0.0) for low, high in meta["target_ranges"])


def refuse_classes(c: Configuration) -> None:
    """Raise ConfigurationError for a regression with classes."""
    if c.classes is not None:
        raise ConfigurationError("a regression has no classes.")
