"""The state of a linear regression: that of a linear model, with targets on a grid in place of labels."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.layout import Tensors
from erasable.core.names import Key, Label, Owners, owner_fields, read_owners
from erasable.core.target_grid import Range, check_range, sums_by_target
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.models.linear_configuration import LinearConfiguration, read_selection
from erasable.models.linear_state import LinearState

_TYPES = {2: "I16", 4: "I32"}


@dataclass(frozen=True)
class RegressionConfiguration(LinearConfiguration):
    """All that the caller fixed: that of a linear model, and for each target the range that it lies in.

    The loss is squared, and there are neither classes nor weights of them.
    """

    target_ranges: tuple[Range, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.loss != "squared" or self.classes is not None or self.class_weight is not None:
            raise ConfigurationError("a regression has the squared loss, and no classes.")
        if not self.target_ranges:
            raise ConfigurationError("a regression needs a range for each target.")
        for ends in self.target_ranges:
            check_range(ends)

    def for_a_part(self, classes: tuple[Label, ...]) -> RegressionConfiguration:
        """The configuration of a part of the rows: the same."""
        return self

    def answers(self, labels: Sequence[Any]) -> tuple[int, ...]:
        """What sums of rows are kept by: the numbers of the targets."""
        return tuple(range(len(self.target_ranges)))

    def answered(self, labels: Iterable[Any]) -> Collection[Any]:
        """All of them, where there are rows."""
        return self.answers(()) if any(True for _ in labels) else ()

    def sums_of(self, rows: Any, labels: Sequence[Any]) -> dict[Any, Float64s]:
        """For each target the sum of the rows times it."""
        return sums_by_target(rows, labels, self.grid)

    def system(self, sums: Float64s) -> tuple[Float64s, int]:
        """``b`` is the sums: with targets ``t * 2**-bits`` the solution is ``H^-1`` times them."""
        return np.ascontiguousarray(sums.T), 0


@dataclass(frozen=True, eq=False, repr=False)
class RegressionState(LinearState):
    """Configuration, core rows in learning order with their targets, their exact sums, and the weights.

    Attributes
    ----------
    labels : tuple of length n_core
        The targets of each row on their grid: a tuple of ``n_targets`` integers.
    class_sums : array of shape (n_targets, n_columns), int64
        Sum of the rows times each target.
    weights : array of shape (n_targets, n_columns), float32
        Those of targets ``t * 2**-bits``; see :func:`erasable.core.target_grid.span_of`.
    """

    configuration: RegressionConfiguration

    FORMAT = "erasable-regression"
    ANSWER = "targets"
    SUMS = "target sums"

    @property
    def classes(self) -> tuple[Label, ...]:
        """There are none."""
        return ()

    def described(self) -> dict[str, Any]:
        """The configuration as the header of a file has it."""
        c = self.configuration
        return {**c.described_selection(), "target_ranges": [[low.hex(), high.hex()] for low, high in c.target_ranges]}

    def name_fields(self) -> dict[str, Any]:
        """Of what kind ids and subjects are."""
        return owner_fields(self.ids, self.subjects)

    def answer_tensors(self) -> Tensors:
        """The targets in integers like those of the rows."""
        dtype = self.configuration.grid.dtype
        shape = len(self.labels), len(self.configuration.target_ranges)
        return {self.ANSWER: (_TYPES[dtype.itemsize], np.array(self.labels, dtype=dtype).reshape(shape))}

    def check_rows(self) -> None:
        """Refuse rows that are not on the grid, and targets that are not on theirs."""
        super().check_rows()
        c = self.configuration
        for place, targets in enumerate(self.labels):
            if len(targets) != len(c.target_ranges) or max(map(abs, targets)) > c.grid.radius:
                raise VerificationError(f"the targets of core row {place + 1} of {len(self.ids)} are not on the grid.")

    @classmethod
    def read_configuration(cls, meta: dict[str, Any]) -> RegressionConfiguration:
        """What :meth:`described` wrote."""
        # Minus zero, which no estimator writes, is then not canonical.
        ranges = tuple((float.fromhex(low) + 0.0, float.fromhex(high) + 0.0) for low, high in meta["target_ranges"])
        return RegressionConfiguration(**read_selection(meta), target_ranges=ranges)

    @classmethod
    def read_names(
        cls, meta: dict[str, Any], tensors: dict[str, npt.NDArray[Any]], c: Any, n: int
    ) -> tuple[tuple[Key, ...], tuple[Owners, ...], tuple[Any, ...]]:
        """Ids, subjects and targets of n rows."""
        targets = tensors[cls.ANSWER]
        if targets.shape != (n, len(c.target_ranges)) or targets.dtype != c.grid.dtype:
            raise StateFormatError("its targets do not fit its rows or its ranges.")
        return *read_owners(meta, tensors, n), tuple(map(tuple, targets.tolist()))

    @classmethod
    def read_widths(cls, meta: dict[str, Any], c: Any) -> tuple[int, int]:
        """One sum and one function for each target."""
        return len(c.target_ranges), len(c.target_ranges)
