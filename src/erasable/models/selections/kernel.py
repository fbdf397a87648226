"""Algorithm 2's selection for a ball of a kernel's space: a point is kept when the kept ones say little about it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s, Integers, Matrix
from erasable.core.grid import described_scaling, read_scaling
from erasable.core.kernel_selector import StalePoints, check_eigenvalues, check_points, kernel_matrix, select_points
from erasable.core.kernels import REACH, Kernel, Points
from erasable.core.layout import Tensors
from erasable.core.selector import Progress
from erasable.errors import ConfigurationError, ExactnessError, InputError, StateFormatError, VerificationError
from erasable.features import FeatureMap
from erasable.models.inputs import Labels, Names
from erasable.models.strategies import Positions, Selection, SelectionResult

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.heads.linear import ExactSums


@dataclass(frozen=True)
class KernelPoints(Selection):
    """Points on a grid, with the kernel of their head.

    ``units`` is ``mu = 1 / (4 B^2)``, the regulariser, in units of ``2**-30``.
    """

    points: Points
    kernel: Kernel
    units: int

    def __post_init__(self) -> None:
        if not 2 <= self.units < 2**50:
            raise ConfigurationError("capacity is outside what kernels can hold: between 2**-29 and 2**20.")

    def check(self, c: Configuration) -> None:
        """There are no feature maps before kernels."""
        if c.feature_map is not None:
            raise ConfigurationError("a kernel model has no feature map.")

    @property
    def grid(self) -> None:
        """There is none: stored rows are always dense."""

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return self.points.n_features

    # -- learning --------------------------------------------------------------------------------------------------

    def empty(self) -> npt.NDArray[Any]:
        """No points."""
        return np.empty((0, self.points.n_features), dtype=np.int32)

    def prepared(self, X: Matrix, feature_map: FeatureMap | None, core: CoreRows) -> Integers:
        """Rows as points of the grid."""
        return self.points.of_rows(X)

    def check_matrix(self, G: Integers) -> None:
        """Refuse points on which a function of the caller's is not positive definite; see ``check_eigenvalues``."""
        check_eigenvalues(kernel_matrix(G, self.kernel, self.points, self.units), self.kernel, self.units)

    # -- files -------------------------------------------------------------------------------------------------------

    def check_stored(self, rows: Matrix) -> None:
        """Rows must be points of the grid."""
        square = np.einsum("ij,ij->i", rows, rows, dtype=np.int64)
        if rows.shape[1] != self.points.n_features or (square > REACH**2).any():
            raise VerificationError("a core row is not a point of the grid.")

    def row_tensors(self, rows: Matrix) -> Tensors:
        """The points."""
        return {"rows": ("I32", rows)}

    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Matrix:
        """The points."""
        rows = tensors["rows"]
        if rows.shape != (len(rows), self.points.n_features) or rows.dtype != np.int32:
            raise StateFormatError("its parts do not fit together.")
        return rows

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`; the names are those of format version 1."""
        kernel, points = self.kernel, self.points
        return {
            "n_features": points.n_features,
            "bits": points.bits,
            "scaling": described_scaling(points.scaling),
            "kernel": kernel.name,
            "function": getattr(kernel.function, "__qualname__", None) if kernel.name == "custom" else None,
            "gamma": float(kernel.gamma).hex(),
            "nu": float(kernel.nu).hex(),
            "degree": kernel.degree,
            "coef0": float(kernel.coef0).hex(),
            "capacity_units": str(self.units),
        }

    @staticmethod
    def read_points(
        meta: dict[str, Any], function: Callable[[Float64s, Float64s], Any] | None
    ) -> tuple[Points, Kernel, int]:
        """What :meth:`describe` wrote; a custom kernel's function is not in a file and must be given."""
        custom = meta["kernel"] == "custom"
        if custom and function is None:
            raise StateFormatError("it has a kernel function of the caller's, which a file cannot hold: give it again.")
        kernel = Kernel(
            meta["kernel"],
            float.fromhex(meta["gamma"]),
            float.fromhex(meta["nu"]),
            int(meta["degree"]),
            float.fromhex(meta["coef0"]) + 0.0,  # minus zero, which no estimator writes, is then not canonical
            function if custom else None,
        )
        points = Points(int(meta["n_features"]), int(meta["bits"]), read_scaling(meta["scaling"]))
        return points, kernel, int(meta["capacity_units"])


@dataclass(frozen=True)
class KernelDisagreement(KernelPoints):
    """Points on a grid, kept while their disagreement D² is above a threshold."""

    threshold: float

    NAME = "kernel"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 < self.threshold < math.inf:
            raise ConfigurationError("threshold must be a positive finite number.")

    def screen(self, core: CoreRows, sums: ExactSums | None) -> StalePoints:
        """Rules out points about which the core points say enough already."""
        return StalePoints(core.rows(), self.kernel, self.points, self.units, self.threshold)

    def select(
        self,
        rows: Integers,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Names,
        progress: Progress | None,
        **sizes: Any,
    ) -> SelectionResult:
        """Algorithm 2, line 7, with the single pass."""
        index, decisions = select_points(rows, core.rows(), **self._parameters(), progress=progress, **sizes)
        return SelectionResult(index, [rows[index]] if len(index) else [], decisions)

    def _parameters(self) -> dict[str, Any]:
        return {"kernel": self.kernel, "points": self.points, "units": self.units, "tau": self.threshold}

    # -- verifying and files ---------------------------------------------------------------------------------------

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s | None]:
        """The single pass over stored points."""
        try:
            index, _ = select_points(rows, rows[:0], **self._parameters(), progress=progress)
            check_points(len(index), self.units)
        except (ConfigurationError, InputError, ExactnessError) as error:  # rows that were learnt raise none of these
            raise VerificationError(
                f"the stored rows cannot be learnt with the stored configuration: {error}"
            ) from error
        return index, None

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`; the names are those of format version 1."""
        return super().describe() | {"threshold": self.threshold.hex()}

    @classmethod
    def read(cls, meta: dict[str, Any], function: Callable[[Float64s, Float64s], Any] | None = None) -> Self:
        """What :meth:`describe` wrote; see :meth:`KernelPoints.read_points`."""
        return cls(*cls.read_points(meta, function), float.fromhex(meta["threshold"]))
