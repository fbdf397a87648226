"""Algorithm 1's selection: a row is kept when its leverage against the rows kept before it is above a threshold.

Rows are stored on a grid, so their sums are exact. A keyed hash of ids (:mod:`erasable.core.names`) draws a sample
that is kept whatever its leverage is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float64s, Matrix, on_host
from erasable.core.confirming import all_selected
from erasable.core.grid import Grid, described_scaling, read_scaling
from erasable.core.layout import Tensors, read_rows, row_tensors
from erasable.core.names import keyed_hash
from erasable.core.selector import GridRows, Progress, RawRows, select, stale_screen
from erasable.core.sums import LARGEST_EXACT, add_rows, empty_gram, squares, unpacked
from erasable.errors import ConfigurationError, VerificationError
from erasable.features import FeatureMap
from erasable.models.inputs import Labels, Names
from erasable.models.strategies import Derived, Positions, Screen, Selection, SelectionResult

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.core_rows import CoreRows
    from erasable.models.heads.linear import ExactSums


@dataclass(frozen=True)
class MappedRows(RawRows):
    """Raw rows that are mapped when they are read, a block at a time."""

    feature_map: FeatureMap = field(kw_only=True)

    @property
    def sparse(self) -> bool:
        """Whether the map gives sparse rows."""
        return len(self) > 0 and bool(sp.issparse(self.in_place(slice(0, 1))))

    def in_place(self, rows: Matrix) -> Any:
        """The named rows, mapped, where the map leaves them."""
        return self.feature_map.mapped(on_host(self.gathered(rows)))


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

    one_by_one = True

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

    def prepared(self, X: Matrix, feature_map: FeatureMap | None, core: CoreRows) -> RawRows:
        """Rows as the selector reads them; refused if they leave the unit ball."""
        rows = RawRows(X, self.grid) if feature_map is None else MappedRows(X, self.grid, feature_map=feature_map)
        rows.check_ball()
        return rows

    def in_order(self, rows: RawRows, order: Positions) -> RawRows:
        """Rows that are gathered while the selector reads them."""
        return replace(rows, order=order)

    def on_grid(self, rows: Matrix) -> Matrix:
        """Stored rows as rows on the grid."""
        return rows

    # -- verifying and files -----------------------------------------------------------------------------------------

    def check_stored(self, rows: Matrix) -> None:
        """Rows must be on the grid."""
        grid = self.grid
        if sp.issparse(rows):  # the constant is what the grid says
            entries = np.concatenate([[0], np.cumsum(rows.data.astype(np.int64) ** 2)])
            unfit = np.diff(entries[rows.indptr]) > grid.radius**2 - grid.constant**2
        else:
            square = squares(rows)
            unfit = (square > grid.radius**2) | (rows[:, grid.n_features :] != grid.constant).any(axis=1)
        if unfit.any():
            first = int(np.flatnonzero(unfit)[0]) + 1
            raise VerificationError(f"core row {first} of {rows.shape[0]} is not a row of the grid.")

    def row_tensors(self, rows: Matrix) -> Tensors:
        """The rows in the narrowest integers that hold them."""
        return row_tensors(rows, self.grid)

    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Matrix:
        """Grid rows, dense or sparse."""
        return read_rows(tensors, self.grid)

    @classmethod
    def read_storage(cls, meta: dict[str, Any]) -> dict[str, Any]:
        """The fields that say how rows are stored, if not on the grid. Values of other types may raise anything."""
        return {}

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


def read_grid(meta: dict[str, Any]) -> Grid:
    """The grid that metadata describe. Values of other types may raise anything."""
    return Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), read_scaling(meta["scaling"]))


_LARGEST_KEY = 2**128 - 1


def in_sample(ids: Names, rate: float, key: int) -> npt.NDArray[np.bool_]:
    """Which ids are in the sample: those with a keyed hash ``h < rate * 2**64``, compared as integers."""
    limit = math.ceil(Fraction(rate) * 2**64)
    hashes = keyed_hash(ids, key)
    return hashes <= np.uint64(limit - 1) if limit else np.zeros(len(hashes), dtype=bool)


def check_order_key(key: int | None) -> None:
    """Raise ConfigurationError for a key that no estimator has."""
    if key is not None and not 0 <= key <= _LARGEST_KEY:
        raise ConfigurationError("the key of the order of rows is out of range.")


def check_sample(rate: float, key: int | None, order_key: int | None) -> None:
    """Refuse a sample that no estimator has: one without a key, or with another than that of the order.

    Raises ConfigurationError.
    """
    if not 0.0 <= rate <= 1.0 or math.copysign(1.0, rate) < 0.0 or (key is None) != (rate == 0.0):
        raise ConfigurationError("the rate of the sample must be between 0 and 1, and above 0 have a key.")
    check_order_key(key)
    if None not in (key, order_key) and key != order_key:
        raise ConfigurationError("the sample has another key than the order of rows.")


def described_order(key: int | None) -> str | None:
    """The key as the header of a file has it: digits, since it may be of any size."""
    return None if key is None else str(key)


def read_order(written: Any) -> int | None:
    """What :func:`described_order` wrote."""
    return None if written is None else int(written)


def _all_ruled_out(rows: RawRows) -> npt.NDArray[np.bool_]:
    return np.zeros(len(rows), dtype=bool)


@dataclass(frozen=True)
class Leverage(GridSelection):
    """Rows on a grid, kept while their leverage is above a threshold, and a sample of ids kept whatever theirs is.

    Attributes
    ----------
    grid, units
        As in :class:`GridSelection`.
    threshold : float
        ``math.inf`` if only the sample is kept.
    sample_rate, sample_key
        The share of ids that are always kept, and the key of the hash that draws them; no key without a sample.
    """

    threshold: float
    sample_rate: float = 0.0
    sample_key: int | None = None

    NAME = "leverage"
    MEASURE = "leverage"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.threshold <= math.inf or math.copysign(1.0, self.threshold) < 0.0:
            raise ConfigurationError("threshold must be a number, zero or more, and not minus zero.")
        check_sample(self.sample_rate, self.sample_key, None)
        if self.threshold == math.inf and not self.sample_rate:
            raise ConfigurationError("with an infinite threshold and no sample_rate no row would ever be kept.")

    def check(self, c: Configuration) -> None:
        """The sample has the key of the order, and the head is one that goes with leverages."""
        check_sample(self.sample_rate, self.sample_key, c.order_key)
        if not (c.head.keeps_sums or c.head.any_selection):
            raise ConfigurationError(f"selection by leverage needs exact sums, which the head {c.head.NAME!r} lacks.")

    # -- learning --------------------------------------------------------------------------------------------------

    def always_kept(self, ids: Names) -> npt.NDArray[np.bool_] | None:
        """The ids that the sample draws; None without a sample."""
        return None if self.sample_key is None else in_sample(ids, self.sample_rate, self.sample_key)

    def screen(self, core: CoreRows, sums: ExactSums | None) -> Screen | None:
        """Rules out rows whose leverage is at or below the threshold already."""
        if self.threshold == math.inf:
            return _all_ruled_out
        H = self._gram(core, sums) if len(core) else None
        return None if H is None else stale_screen(H, self.grid, self.units, self.threshold)

    def _gram(self, core: CoreRows, sums: ExactSums | None) -> Float64s:
        """``H`` of the core rows: from the sums, or computed anew where the head keeps none."""
        if sums is not None:
            return sums.H
        H = empty_gram(self.grid, self.units)
        if len(core):
            add_rows(H, self.on_grid(core.rows()), 1.0, self.grid)
        return H

    def select(
        self,
        rows: RawRows,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Names,
        progress: Progress | None,
        **sizes: Any,
    ) -> SelectionResult:
        """Algorithm 1, procedure BBQSampler, on a copy of ``H``."""
        H, forced = self._gram(core, sums).copy(order="F"), self.always_kept(ids)
        if forced is not None and rows.order is not None:
            forced = forced[rows.order]
        parameters: dict[str, Any] = {"grid": self.grid, "units": self.units, "tau": self.threshold, "forced": forced}
        found = select(rows, H, len(core), **parameters, progress=progress, **sizes)
        return SelectionResult(found.index, found.batches, found.decisions, H)

    # -- verifying and files -----------------------------------------------------------------------------------------

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s]:
        """Algorithm 1 on grid rows."""
        H, forced = empty_gram(self.grid, self.units), self.always_kept(ids)
        parameters: dict[str, Any] = {"grid": self.grid, "units": self.units, "tau": self.threshold, "forced": forced}
        return select(GridRows(rows, self.grid), H, 0, **parameters, progress=progress).index, H

    def confirmed(
        self, rows: Matrix, ids: Sequence[Any], derived: Derived, progress: Progress | None
    ) -> Float64s | None:
        """See :class:`Selection`; of dense rows whose Gram matrix is claimed."""
        d, triangle = self.grid.n_columns, derived.get("gram")
        if triangle is None or triangle.shape != (d * (d + 1) // 2,) or not 0.0 < self.threshold < math.inf:
            return None
        G, H = self.on_grid(rows), unpacked(triangle, d)
        H.flat[:: d + 1] += self.units
        parameters: dict[str, Any] = {"grid": self.grid, "units": self.units, "tau": self.threshold}
        dense = isinstance(G, np.ndarray)
        return (
            H if dense and all_selected(G, H, **parameters, forced=self.always_kept(ids), progress=progress) else None
        )

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`; the names are those of format version 1."""
        return super().describe() | {
            "threshold": self.threshold.hex(),
            "sample_rate": self.sample_rate.hex(),
            "sample_key": described_order(self.sample_key),
        }

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote. Values of other types may raise anything."""
        return cls(
            read_grid(meta),
            int(meta["capacity_units"]),
            float.fromhex(meta["threshold"]),
            float.fromhex(meta["sample_rate"]),
            read_order(meta["sample_key"]),
            **cls.read_storage(meta),
        )
