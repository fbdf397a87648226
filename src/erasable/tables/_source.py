"""What a stream reads from: something that gives rows block by block."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

from erasable.tables._reading import read_or_refuse
from erasable.tables._rows import Rows

T = TypeVar("T")


class Source(ABC):
    """Rows of one file or pipe. ``once``: they can be read but once; ``typed``: their columns have types."""

    once = False
    typed = True
    feature_names: tuple[str, ...] | None = None
    n_rows: int | None = None

    @property
    @abstractmethod
    def n_features(self) -> int:
        """How many numbers a row has."""

    @abstractmethod
    def blocks(self) -> Iterator[Rows]:
        """The rows, block by block; what is open is closed when the iterator is."""

    def count_rows(self) -> int | None:
        """How many rows there are, if need be by reading the file; None where that is not possible."""
        return self.n_rows


class WholeSource(Source):
    """Rows that are in memory already, given in slices."""

    def __init__(self, rows: Rows, block_bytes: int) -> None:
        self.rows = rows
        self.feature_names, self.n_rows = rows.feature_names, rows.n_rows
        total = rows.X.nbytes if hasattr(rows.X, "nbytes") else rows.X.data.nbytes + rows.X.indices.nbytes
        self._step = block_rows(block_bytes, total // rows.n_rows)

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return self.rows.n_features

    def blocks(self) -> Iterator[Rows]:
        """Slices, copied."""
        r = self.rows
        for low in range(0, r.n_rows, self._step):
            s = slice(low, low + self._step)
            ids, subjects, y = (None if c is None else c[s].copy() for c in (r.ids, r.subjects, r.y))
            yield Rows(r.X[s].copy(), ids, subjects, y, r.name, r.feature_names)


def block_rows(block_bytes: int, row_bytes: int) -> int:
    """How many rows of a width make a block."""
    return max(1, block_bytes // max(1, row_bytes))


def where_in(path: Path, first: int, n: int) -> str:
    """How messages name a block: by the rows of the file, counted from one."""
    return f"{path.name}, rows {first + 1:,} to {first + n:,}"


def refused_each(items: Iterator[T], path: Path, form: str) -> Iterator[T]:
    """The items; when the reader fails at one, an error without the entries that its own message may quote."""
    end: Any = object()
    while (item := read_or_refuse(lambda: next(items, end), path, form)) is not end:
        yield item
