"""Rows of which a model holds only what is not zero, as an array of rows as far as its pages need one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from erasable.core.arrays import Float64s, Int64s, Integers
from erasable.core.grid import Grid
from erasable.core.row_layout import csr, position_type


@dataclass(eq=False, repr=False)
class SparseRows:
    """Entries of some grid rows, one row after the other.

    Attributes
    ----------
    values : array of integers
        None is zero but those of a row that was overwritten.
    columns : array of the narrowest type that holds the number of features
        Ascending in each row.
    starts : array of shape (n + 1,)
        Where each row begins, and where the last one ends.
    """

    values: Integers
    columns: Integers
    starts: Int64s

    @classmethod
    def of(cls, rows: Any, grid: Grid) -> Self:
        """Those of a CSR array; its values become this object's own."""
        return cls(rows.data, rows.indices.astype(position_type(grid)), rows.indptr.astype(np.int64))

    @classmethod
    def joined(cls, parts: Sequence[SparseRows]) -> Self:
        """Copies of the rows of all parts, of which there is one at least."""
        lengths = [np.diff(part.starts) for part in parts]
        return cls(
            np.concatenate([part.values[part.starts[0] : part.starts[-1]] for part in parts]),
            np.concatenate([part.columns[part.starts[0] : part.starts[-1]] for part in parts]),
            np.concatenate([[0], np.cumsum(np.concatenate(lengths))]),
        )

    def csr(self, grid: Grid) -> Any:
        """The rows as a CSR array."""
        return csr(self.values, self.columns, self.starts, grid)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: slice | Sequence[int]) -> SparseRows:
        """Consecutive rows, on the same memory; or copies of the rows at some positions."""
        if isinstance(index, slice):
            low, high, _ = index.indices(len(self))
            first, last = self.starts[low], self.starts[high]
            return SparseRows(self.values[first:last], self.columns[first:last], self.starts[low : high + 1] - first)
        starts, lengths = self.starts[:-1][index], np.diff(self.starts)[index]
        ends = np.cumsum(lengths)
        entries = np.repeat(starts - ends + lengths, lengths) + np.arange(lengths.sum())
        return SparseRows(self.values[entries], self.columns[entries], np.concatenate([[0], ends]))

    def __setitem__(self, i: int, zero: int) -> None:
        """Overwrite the entries of one row; how many they were is to be seen until rows are taken out of here."""
        entries = slice(self.starts[i], self.starts[i + 1])
        self.values[entries] = self.columns[entries] = zero

    def scatter(self, i: int, row: Float64s) -> None:
        """Write the entries of one row to where they belong."""
        entries = slice(self.starts[i], self.starts[i + 1])
        row[self.columns[entries]] = self.values[entries]

    def fill(self, zero: int) -> None:
        """Overwrite all."""
        for array in (self.values, self.columns, self.starts):
            array.fill(zero)

    def any(self) -> bool:
        """Whether anything is left of the rows."""
        return bool(self.values.any() or self.columns.any())
