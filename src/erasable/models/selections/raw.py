"""Selections that store rows as they were read, for learners that see raw columns.

A row is selected on the grid like any other, and stored as raw numbers in float64: what a schema read from the cells of
a table, or the numbers of an array. The row on the grid follows from these, so the state holds nothing twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s, Matrix, on_host
from erasable.core.grid import laid_out, to_grid
from erasable.core.layout import Tensors
from erasable.core.selector import RawRows
from erasable.errors import ConfigurationError, InputError, StateFormatError, VerificationError
from erasable.features import LogFeatures
from erasable.models.inputs import Labels
from erasable.models.selections.independent import Independent
from erasable.models.selections.leverage import GridSelection, Leverage
from erasable.models.strategies import Positions, SelectionResult, dense
from erasable.schemas import EncodedTable, Schema

if TYPE_CHECKING:
    from erasable.core.selector import Progress

MOST_COLUMNS = 2**13  # raw numbers of a row: each takes eight bytes


@dataclass(frozen=True)
class RawColumns:
    """The raw numbers of a row."""

    n: int  # how many there are
    # What reads them from the cells of a table; without one they are the numbers of an array.
    schema: Schema | None = None
    log: LogFeatures | None = None  # the map by which the numbers of an array are selected

    def __post_init__(self) -> None:
        if self.n > MOST_COLUMNS:
            raise ConfigurationError(
                f"the learner would see {self.n:,} columns, and at most {MOST_COLUMNS:,} are stored as they were read: "
                "give texts fewer places, or use a linear head."
            )

    @classmethod
    def of(cls, schema: Schema | LogFeatures | None, n_features: int) -> RawColumns:
        """The columns that a schema reads, those before the log map, or those of rows with so many features."""
        if isinstance(schema, LogFeatures):
            return cls(schema.n_features, log=schema)
        return cls(n_features) if schema is None else cls(len(schema.raw_names), schema)

    @property
    def codes(self) -> tuple[int | None, ...]:
        """For each column how many codes it may be, if it holds the codes of a category; otherwise None."""
        return (None,) * self.n if self.schema is None else self.schema.raw_codes

    def read(self, X: Any) -> Float64s:
        """The raw numbers of rows that were given; copies."""
        if self.schema is not None:
            table = X if isinstance(X, EncodedTable) else self.schema.keeping_raw.prepared(X)
            assert table.raw is not None
            return table.raw.copy()
        numbers: Float64s = dense(on_host(X)).astype(np.float64, order="C") + 0.0  # no minus zero
        numbers[np.isnan(numbers)] = np.nan  # one NaN
        return numbers

    def encoded(self, raw: Float64s) -> Any:
        """The rows that raw numbers become before they are scaled."""
        if self.log is not None:
            return self.log(raw)
        return raw if self.schema is None else self.schema.encode_raw(raw)

    def fit(self, raw: Float64s) -> npt.NDArray[np.bool_]:
        """Which rows can have been read; one sign of zero and one NaN are used."""
        bits = raw.view(np.int64)
        odd = np.isnan(raw) & (bits != np.float64(np.nan).view(np.int64)) | (bits == np.float64(-0.0).view(np.int64))
        if self.schema is not None:
            fits: Any = self.schema.raw_fits(raw)
        elif self.log is not None and self.log.missing is not None:
            fits = ~np.isinf(raw).any(axis=1)
        else:
            fits = np.isfinite(raw).all(axis=1)
        return np.asarray(fits & ~odd.any(axis=1))


@dataclass(frozen=True)
class RawStorage(GridSelection):
    """A selection whose rows are stored as raw numbers."""

    raw: RawColumns = field(kw_only=True)

    @property
    def storage_grid(self) -> None:
        """Stored rows are on no grid."""

    def empty(self) -> npt.NDArray[Any]:
        """No rows of raw numbers."""
        return np.empty((0, self.raw.n))

    def on_grid(self, rows: Matrix) -> Matrix:
        """Raw numbers as rows on the grid."""
        return laid_out(to_grid(self.raw.encoded(rows), self.grid), self.grid)

    def select(self, rows: RawRows, *args: Any, **sizes: Any) -> SelectionResult:
        """The selection on the grid; what is kept are raw numbers."""
        found = super().select(rows, *args, **sizes)  # type: ignore[safe-super]
        kept = [self.raw.read(rows.gathered(found.positions))] if len(found.positions) else []
        return found._replace(batches=kept, H=None)

    # -- verifying and files -----------------------------------------------------------------------------------------

    def select_again(
        self, rows: Matrix, labels: Labels, ids: Sequence[Any], progress: Progress | None
    ) -> tuple[Positions, Any]:
        """See :class:`Selection`."""
        return super().select_again(self.on_grid(rows), labels, ids, progress)  # type: ignore[safe-super]

    def check_stored(self, rows: Matrix) -> None:
        """Rows must be such as can have been read, and fit the grid."""
        unfit = ~self.raw.fit(rows)
        if unfit.any():
            first = int(np.flatnonzero(unfit)[0]) + 1
            raise VerificationError(f"core row {first} of {rows.shape[0]} holds numbers that no row can have.")
        try:
            outside = RawRows(self.raw.encoded(rows), self.grid)
            outside.check_ball()
        except InputError as error:
            raise VerificationError(f"the stored rows cannot be learnt: {error}") from None
        super().check_stored(self.on_grid(rows))

    def row_tensors(self, rows: Matrix) -> Tensors:
        """The bits of the raw numbers."""
        return {"rows": ("I64", np.ascontiguousarray(rows).view(np.int64))}

    def read_rows(self, tensors: dict[str, npt.NDArray[Any]]) -> Matrix:
        """See :class:`Selection`."""
        rows = tensors["rows"]
        if rows.dtype != np.int64 or rows.ndim != 2 or rows.shape[1] != self.raw.n:
            raise StateFormatError("its rows do not fit its columns.")
        return rows.view(np.float64)

    def describe(self) -> dict[str, Any]:
        """See :class:`Selection`."""
        return super().describe() | {"raw_columns": self.raw.n}

    @classmethod
    def read_storage(cls, meta: dict[str, Any]) -> dict[str, Any]:
        """The columns, from the schema in the header."""
        from erasable.models.configuration import described_log, schema_in  # it imports this module

        text = meta["feature_map"]
        log = None if text is None else described_log(text)
        raw = RawColumns.of(schema_in(text) if log is None else log, int(meta["n_features"]))
        if meta["raw_columns"] != raw.n:
            raise StateFormatError("its raw columns are not those of its schema.")
        return {"raw": raw}


@dataclass(frozen=True)
class RawLeverage(RawStorage, Leverage):
    """Selection by leverage, of rows that are stored as raw numbers."""

    NAME = "leverage-raw"


@dataclass(frozen=True)
class RawIndependent(RawStorage, Independent):
    """Independent selection, of rows that are stored as raw numbers."""

    NAME = "independent-raw"


def storing_raw(selection: Leverage | Independent, raw: RawColumns) -> RawStorage:
    """The same selection with rows stored as raw numbers."""
    kind = RawLeverage if isinstance(selection, Leverage) else RawIndependent
    named = {each.name: getattr(selection, each.name) for each in fields(selection)}
    return kind(**(named | {"raw": raw}))
