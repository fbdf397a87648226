"""A linear regression as a model: Algorithm 1's rows and ridge solution, for targets that are numbers.

Which rows are selected does not depend on what they answer, so all that is different here is the right-hand side: sums
of rows times their targets in place of sums by class.
"""

from __future__ import annotations

from collections.abc import KeysView
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.target_grid import centre_of, on_grid, outside, span_of
from erasable.errors import InputError, InputTypeError
from erasable.models.linear import LinearModel
from erasable.models.regression_state import RegressionConfiguration, RegressionState


class RegressionModel(LinearModel):
    """Core rows with targets, sums and weights of one linear regression."""

    KIND = "regression"
    STATE = RegressionState
    classifies = False
    configuration: RegressionConfiguration

    def answers(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Targets on their grid, shape (n_samples, n_targets); refused outside of their ranges."""
        ranges = self.configuration.target_ranges
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
        return on_grid(numbers, ranges, self.configuration.grid)

    # -- sums ----------------------------------------------------------------------------------------------------

    def answered(self) -> KeysView[Any]:
        """What there are sums by: all targets, where there are rows."""
        return dict.fromkeys(self.configuration.answered(self.core.place)).keys()

    @property
    def widths(self) -> tuple[int, int]:
        """One sum and one function for each target."""
        return self.n_targets, self.n_targets

    @property
    def nbytes(self) -> int:
        """Bytes of numbers held: rows, targets, sums and weights."""
        return super().nbytes + len(self.core) * self.n_targets * self.configuration.grid.dtype.itemsize

    # -- predicting ----------------------------------------------------------------------------------------------

    @property
    def n_targets(self) -> int:
        """How many numbers are predicted for each row."""
        return len(self.configuration.target_ranges)

    def functions(self) -> tuple[Float64s, Float64s]:
        """Coefficients and constants in the units of the targets: each function begins at the centre of its range."""
        coefficients, constants = super().functions()
        ranges, grid = self.configuration.target_ranges, self.configuration.grid
        spans, centres = np.array([span_of(r, grid) for r in ranges]), np.array([centre_of(r) for r in ranges])
        return coefficients * spans[:, None], constants * spans + centres

    def chosen(self, scores: Float64s) -> Float64s:
        """The targets of each row, clipped to their declared ranges: shape (n,) for one, (n, n_targets) for several."""
        low, high = np.array(self.configuration.target_ranges).T
        return np.clip(scores, low, high)
