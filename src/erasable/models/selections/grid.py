"""Rows on a grid: how selections with exact sums read, store and check them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.device_rows import here
from erasable.core.grid import Grid
from erasable.core.layout import Tensors
from erasable.core.row_layout import read_rows, row_tensors
from erasable.core.scaling import described_scaling, read_scaling
from erasable.core.selector import RawRows
from erasable.core.sums import LARGEST_EXACT
from erasable.errors import ConfigurationError, VerificationError
from erasable.features import FeatureMap
from erasable.models.selections.base import Positions, Selection

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.rows import CoreRows


@dataclass(frozen=True)
class MappedRows(RawRows):
    """Raw rows that are mapped when they are read, a block at a time."""

    feature_map: FeatureMap = field(kw_only=True)

    @property
    def sparse(self) -> bool:
        """Whether the map gives sparse rows."""
        return len(self) > 0 and bool(sp.issparse(self.lying(slice(0, 1))))

    def lying(self, rows: Any) -> Any:
        """The named rows, mapped, where the map leaves them."""
        return self.feature_map.mapped(here(self.gathered(rows)))


@dataclass(frozen=True)
class GridSelection(Selection):
    """A selection from rows on a grid, whose sums are exact.

    Attributes
    ----------
    grid : Grid
        How rows become integers.
    units : int
        The regulariser lambda in squared grid steps.
    """

    grid: Grid
    units: int

    def __post_init__(self) -> None:
        if not 1 <= self.units < LARGEST_EXACT // 2:
            raise ConfigurationError("capacity is outside what the grid can hold.")

    def check(self, c: Configuration) -> None:
        """Any head, names of columns, feature map and order will do."""

    @property
    def n_features(self) -> int:
        """Columns of the rows, mapped if there is a feature map."""
        return self.grid.n_features

    # -- learning --------------------------------------------------------------------------------------------------

    def empty(self) -> npt.NDArray[Any]:
        """No grid rows."""
        return np.empty((0, self.grid.n_columns), dtype=self.grid.dtype)

    def prepared(self, X: Any, feature_map: FeatureMap | None, core: CoreRows) -> RawRows:
        """Rows as the selector reads them; refused if they leave the unit ball."""
        rows = RawRows(X, self.grid) if feature_map is None else MappedRows(X, self.grid, feature_map=feature_map)
        rows.check_ball()
        return rows

    def in_order(self, rows: RawRows, order: Positions) -> RawRows:
        """Rows that are gathered while the selector reads them."""
        return replace(rows, order=order)

    # -- verifying and files -----------------------------------------------------------------------------------------

    def check_stored(self, rows: Any) -> None:
        """Rows must be on the grid."""
        grid = self.grid
        if sp.issparse(rows):  # the constant is what the grid says
            entries = np.concatenate([[0], np.cumsum(rows.data.astype(np.int64) ** 2)])
            unfit = np.diff(entries[rows.indptr]) > grid.radius**2 - grid.constant**2
        else:
            square = np.einsum("ij,ij->i", rows, rows, dtype=np.int64)
            unfit = (square > grid.radius**2) | (rows[:, grid.n_features :] != grid.constant).any(axis=1)
        if unfit.any():
            first = int(np.flatnonzero(unfit)[0]) + 1
            raise VerificationError(f"core row {first} of {rows.shape[0]} is not a row of the grid.")

    def row_tensors(self, rows: Any) -> Tensors:
        """The rows in the narrowest integers that hold them."""
        return row_tensors(rows, self.grid)

    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Any:
        """Grid rows, dense or sparse."""
        return read_rows(tensors, self.grid)

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`; the names are those of format version 1."""
        grid = self.grid
        return {
            "n_features": grid.n_features,
            "bits": grid.bits,
            "intercept": grid.intercept,
            "scaling": described_scaling(grid.scaling),
            "capacity_units": str(self.units),
        }


def grid_of(meta: dict[str, Any]) -> Grid:
    """The grid that metadata describe. Values of other types may raise anything."""
    return Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), read_scaling(meta["scaling"]))
