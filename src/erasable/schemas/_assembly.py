"""Blocks of features side by side, as sparse rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.schemas._base import COUNTS, NOWHERE, Block, Entry
from erasable.schemas._cells import Cells


class Parts:
    """Features of the rows of a table, put together column by column."""

    def __init__(self, n_rows: int) -> None:
        self._n_rows, self._width = n_rows, 0
        self._entries: list[Entry] = []
        self._gaps = False  # whether an entry may be nowhere
        self._done: list[Any] = []

    def add(self, block: Block, cells: Cells, width: int) -> None:
        """The features of one column, a block for each of the values of its cells."""
        shift = self._width
        if block.rows is not None:
            self._close()
            self._done.append(spread(block.rows, cells))
            shift = -block.rows.shape[1]
            width += shift
        for places, numbers in block.entries:
            absent = places < 0
            self._gaps |= bool(absent.any())
            shifted = np.where(absent, NOWHERE, places + shift).astype(np.int32)
            self._entries.append((spread(shifted, cells), None if numbers is None else spread(numbers, cells)))
        self._width += width

    def _close(self) -> None:
        if not self._width:
            return
        shape = self._n_rows, len(self._entries)
        places, numbers = np.empty(shape, dtype=np.int32), np.ones(shape, dtype=np.float32)
        for j, (where, values) in enumerate(self._entries):
            places[:, j] = where
            if values is not None:
                numbers[:, j] = values
        if self._gaps:
            there = places >= 0
            ends = np.concatenate([[0], np.cumsum(np.count_nonzero(there, axis=1))])
            listed = numbers[there], places[there], ends
        else:
            listed = numbers.ravel(), places.ravel(), np.arange(self._n_rows + 1) * shape[1]
        self._done.append(sp.csr_array(listed, shape=(self._n_rows, self._width)))
        self._entries, self._width, self._gaps = [], 0, False

    def stacked(self) -> Any:
        """All of them."""
        self._close()
        return self._done[0] if len(self._done) == 1 else sp.csr_array(sp.hstack(self._done, format="csr"))


def spread(values: Any, cells: Cells) -> Any:
    """What is known of distinct cells, for all rows."""
    return values if cells.inverse is None else values[cells.inverse]


def counted(block: Block, cells: Cells) -> dict[str, int]:
    """How many cells were missing, unknown, and so on."""
    flags = {what: block.flags[what] for what in COUNTS if what in block.flags and block.flags[what].any()}
    if not flags or cells.inverse is None:
        return {what: int(np.count_nonzero(mask)) for what, mask in flags.items()}
    often = np.bincount(cells.inverse, minlength=len(cells.values))
    return {what: int(often[mask].sum()) for what, mask in flags.items()}
