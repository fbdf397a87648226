"""Algorithm 1's selection: a row is kept when its leverage against the rows kept before it is above a threshold."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.selector import GridRows, Progress, RawRows, select, stale_screen
from erasable.core.sums import empty_gram
from erasable.errors import ConfigurationError
from erasable.models.order import check_sample, described_order, in_sample, read_order
from erasable.models.selections.base import Positions, Screen, SelectionResult
from erasable.models.selections.grid import GridSelection, grid_of

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.exact_sums import ExactSums
    from erasable.models.rows import CoreRows


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
        """The sample has the key of the order, and the head keeps the sums that leverages are computed from."""
        check_sample(self.sample_rate, self.sample_key, c.order_key)
        if not c.head.keeps_sums:
            raise ConfigurationError(f"selection by leverage needs exact sums, which the head {c.head.NAME!r} lacks.")

    # -- learning --------------------------------------------------------------------------------------------------

    def always_kept(self, ids: Any) -> npt.NDArray[np.bool_] | None:
        """The ids that the sample draws; None without a sample."""
        return None if self.sample_key is None else in_sample(ids, self.sample_rate, self.sample_key)

    def screen(self, core: CoreRows, sums: ExactSums | None) -> Screen | None:
        """Rules out rows whose leverage is at or below the threshold already."""
        if self.threshold == math.inf:
            return _all_ruled_out
        assert sums is not None
        return stale_screen(sums.H, self.grid, self.units, self.threshold) if len(core) else None

    def select(
        self,
        rows: RawRows,
        core: CoreRows,
        sums: ExactSums | None,
        labels: npt.NDArray[Any],
        ids: Any,
        progress: Progress | None,
        **sizes: Any,
    ) -> SelectionResult:
        """Algorithm 1, procedure BBQSampler, on a copy of ``H``."""
        assert sums is not None
        H, forced = sums.H.copy(order="F"), self.always_kept(ids)
        if forced is not None and rows.order is not None:
            forced = forced[rows.order]
        parameters: dict[str, Any] = {"grid": self.grid, "units": self.units, "tau": self.threshold, "forced": forced}
        found = select(rows, H, len(core), **parameters, progress=progress, **sizes)
        return SelectionResult(found.index, found.batches, found.decisions, H)

    # -- verifying and files -----------------------------------------------------------------------------------------

    def select_again(
        self, rows: Any, labels: Sequence[Any], ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Float64s]:
        """Algorithm 1 on grid rows."""
        H, forced = empty_gram(self.grid, self.units), self.always_kept(ids)
        parameters: dict[str, Any] = {"grid": self.grid, "units": self.units, "tau": self.threshold, "forced": forced}
        return select(GridRows(rows, self.grid), H, 0, **parameters, progress=progress).index, H

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
            grid_of(meta),
            int(meta["capacity_units"]),
            float.fromhex(meta["threshold"]),
            float.fromhex(meta["sample_rate"]),
            read_order(meta["sample_key"]),
        )
