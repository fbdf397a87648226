"""Parquet files under the eyes of a scan: their cells, whatever compression and encoding they are stored in."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.arrow import BYTES, NUMERIC, TEXTS, is_kind, open_parquet
from erasable.audit._words import as_text

MAGIC = b"PAR1"
_AT_ONCE = 1 << 20  # cells
_NAMES = (*TEXTS, *BYTES, "fixed_size_binary")


class UndecodedError(Exception):
    """A Parquet file, or a part of it, could not be decoded here."""


@dataclass(frozen=True, eq=False, repr=False)
class Cells:
    """Some neighbouring rows of a Parquet file.

    Attributes
    ----------
    first : int
        The number of the first of them in the file.
    numbers : array of shape (rows, columns), float64
        The columns that were named, in that order, or all columns of numbers in the order of the file.
    names : list of (column, cells)
        The columns of texts and bytes, and those of integers that were not named as features: their cells as they would
        stand in a text file, None where one is missing.
    """

    first: int
    numbers: npt.NDArray[np.float64]
    names: list[tuple[str, list[bytes | None]]]


class Parquet:
    """A Parquet file that is open for reading.

    Parameters
    ----------
    fd : int
        Its descriptor, which stays open.
    features : sequence of str, optional
        The columns to take for numbers. Where some is missing, all columns of numbers are taken.

    Raises
    ------
    UndecodedError
        When it is none, is damaged or encrypted, or pyarrow is not installed.
    """

    def __init__(self, fd: int, features: Sequence[str] | None) -> None:
        self._source = os.fdopen(os.dup(fd), "rb")
        try:
            self._file = open_parquet(self._source)
            self._schema = self._file.schema_arrow
        except Exception:
            self._source.close()
            raise UndecodedError from None
        columns = self._schema.names
        numeric = [j for j, kind in enumerate(self._schema.types) if is_kind(kind, *NUMERIC)]
        wanted = [columns.index(f) for f in features or () if columns.count(f) == 1]
        self.is_named = features is not None and len(wanted) == len(features) and set(wanted) <= set(numeric)
        self._numbers = wanted if self.is_named else numeric

    def __enter__(self) -> Parquet:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._source.close()

    @property
    def is_flat(self) -> bool:
        """Whether no column holds lists, structs or maps, which are not looked into."""
        return not any(is_kind(kind, "nested") for kind in self._schema.types)

    def cells(self) -> Iterator[Cells]:
        """The rows of the file, some at a time.

        Raises
        ------
        UndecodedError
            When some of it cannot be decoded.
        """
        step, first = max(1, _AT_ONCE // max(1, len(self._schema.names))), 0
        try:
            for batch in self._file.iter_batches(batch_size=step, use_threads=False):
                yield self._plain(batch, first)
                first += batch.num_rows
        except Exception:
            raise UndecodedError from None

    def _plain(self, batch: Any, first: int) -> Cells:
        numbers = np.empty((batch.num_rows, len(self._numbers)))
        for k, j in enumerate(self._numbers):
            numbers[:, k] = batch.column(j).cast("float64", safe=False).to_numpy(zero_copy_only=False)
        names = []
        for j, column in enumerate(self._schema.names):
            kind = self._schema.types[j]
            kind = kind.value_type if is_kind(kind, "dictionary") else kind
            is_feature = self.is_named and j in self._numbers
            if is_kind(kind, *_NAMES) or (is_kind(kind, "integer") and not is_feature):
                names.append((column, [None if v is None else as_text(v) for v in batch.column(j).to_pylist()]))
        return Cells(first, numbers, names)
