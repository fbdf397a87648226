"""Dask dataframes and arrays as tables: their partitions are computed where their rows are read.

Dask is not imported; only methods of the collections are called. The process that reads a partition computes it. A
partition that was persisted stays on its cluster: an engine passes its future to the worker that screens it
(``awaited``, ``filled``), and any other reader fetches it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Self

import numpy as np

from erasable.core.arrays import ColumnLike, MatrixLike
from erasable.errors import InputError, InputTypeError
from erasable.models.row_source import Rows, RowSource
from erasable.tables.arrow_rows import ArrowStream, row_bytes, typed_columns
from erasable.tables.columns import Roles
from erasable.tables.reading import read_or_refuse
from erasable.validation import ArrowTable, pyarrow


class FrameStream(ArrowStream):
    """A Dask dataframe, or some of its partitions, in their order. The index is no column."""

    def __init__(self, frame: Any, path: Path, roles: Roles) -> None:
        schema = read_or_refuse(
            lambda: pyarrow().Schema.from_pandas(frame._meta, preserve_index=False), path, "columns that Arrow has"
        )
        columns = typed_columns(schema, roles, path)
        super().__init__(path, path.name, columns, row_bytes(schema, columns))
        self._partitions = _parts_in(frame)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_partitions": [] if self.awaited() else self._partitions}

    def awaited(self) -> list[Any]:
        """Partitions that are on a cluster."""
        return [part for part in self._partitions if isinstance(part, Persisted)]

    def filled(self, values: Sequence[Any]) -> Self:
        """See :class:`~erasable.models.row_source.RowSource`."""
        part = copy(self)
        part._partitions = list(values)
        return part

    def parts(self) -> Sequence[RowSource] | None:
        """One for each partition; its number of rows is known only when it is computed."""
        parts: list[RowSource] = []
        for k, partition in enumerate(self._partitions):
            part = copy(self)
            part._partitions, part._path = [partition], Path(f"partition {k}")
            parts.append(part)
        return parts

    def arrow_tables(self, rows: int | None) -> Iterator[ArrowTable]:
        """One partition after the other, computed."""
        made = pyarrow()
        tables = (
            made.Table.from_pandas(_computed(partition, self._path)[self._columns_read], preserve_index=False)
            for partition in self._partitions
        )
        if rows is None:
            yield made.concat_tables(list(tables), promote_options="permissive")
            return
        for table in tables:
            for low in range(0, table.num_rows, rows):
                yield table.slice(low, rows)


class ArrayRows(RowSource):
    """Rows of Dask arrays, in the order of their chunks: what ``learn_blocks`` of an estimator takes.

    Parameters
    ----------
    X : dask.array of shape (n_samples, n_features)
        In chunks of whole rows.
    y : dask.array or array of shape (n_samples,)
    ids, subjects, weights : the same, optional
        Rows without ids are numbered in the order of the chunks, whose lengths then have to be known.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.tables import ArrayRows
    >>> import dask.array as da  # doctest: +SKIP
    >>> rows = ArrayRows(da.ones((10, 2), chunks=(5, 2)), np.zeros(10))  # doctest: +SKIP
    """

    def __init__(
        self, X: MatrixLike, y: ColumnLike, ids: ColumnLike = None, subjects: ColumnLike = None, weights: Any = None
    ) -> None:
        if not (hasattr(X, "to_delayed") and hasattr(X, "chunks")):
            raise InputTypeError(f"X must be a Dask array; got {type(X).__name__}.")
        if len(X.chunks) != 2 or len(X.chunks[1]) != 1:
            raise InputError("X must have two dimensions and chunks of whole rows: rechunk it with X.rechunk({1: -1}).")
        self._lengths = [None if math.isnan(n) else int(n) for n in X.chunks[0]]
        self._X = _parts_in(X)
        given = {"y": y, "ids": ids, "subjects": subjects, "weights": weights}
        self._columns = [self._cut(column, name) for name, column in given.items()]

    def _cut(self, column: Any, name: str) -> list[Any]:
        if column is None:
            return [None] * len(self._X)
        if hasattr(column, "to_delayed"):
            lengths = [None if math.isnan(n) else int(n) for n in column.chunks[0]]
            if lengths != self._lengths:
                raise InputError(f"{name} has other chunks than X: rechunk it with {name}.rechunk(X.chunks[0]).")
            return _parts_in(column)
        known = [n for n in self._lengths if n is not None]
        if len(known) < len(self._lengths) or sum(known) != len(column):
            raise InputError(
                f"{name} must be a Dask array with the chunks of X, or have one entry for each of its rows."
            )
        ends = np.cumsum(known).tolist()
        return [column[end - n : end] for n, end in zip(known, ends, strict=True)]

    def parts(self) -> list[RowSource]:
        """One for each chunk."""
        return [ChunkOfRows(*part) for part in zip(self._lengths, self._X, *self._columns, strict=True)]

    def __iter__(self) -> Iterator[Rows]:
        for part in self.parts():
            yield from part


class ChunkOfRows(RowSource):
    """The rows of a chunk, not computed yet. It is sent without the columns that are on a cluster."""

    def __init__(self, n_rows: int | None, *columns: Any) -> None:
        self.n_rows, self.columns = n_rows, columns

    def __iter__(self) -> Iterator[Rows]:
        columns: list[Any] = [_computed(column, Path("a chunk")) for column in self.columns]
        if len(columns[0]):
            yield Rows(*columns)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "columns": [_WAITING if isinstance(c, Persisted) else c for c in self.columns]}

    def awaited(self) -> list[Any]:
        """Columns that are on a cluster."""
        return [column for column in self.columns if isinstance(column, Persisted)]

    def filled(self, values: Sequence[Any]) -> ChunkOfRows:
        """See :class:`~erasable.models.row_source.RowSource`."""
        coming = iter(values)
        waiting = (column is _WAITING or isinstance(column, Persisted) for column in self.columns)
        columns = [next(coming) if wait else column for wait, column in zip(waiting, self.columns, strict=True)]
        return ChunkOfRows(self.n_rows, *columns)


class Persisted:
    """A part of a persisted collection, or of one that is computed from it: a Future or a Delayed, and its client."""

    def __init__(self, client: Any, part: Any) -> None:
        self.client, self._part = client, part

    def future(self) -> Any:
        """The future of this part."""
        return self.client.compute(self._part) if hasattr(self._part, "__dask_graph__") else self._part

    def fetched(self) -> Any:
        """The value of this part, in this process."""
        return read_or_refuse(lambda: self.future().result(), _PART, "a part of a Dask collection", _LOST)


_WAITING = ...  # the place of a column that was not sent
_PART = Path("a persisted part")
_LOST = " It was persisted on a cluster: check that its workers still hold it, or persist it again."


def _parts_in(collection: Any) -> list[Any]:
    """The parts of a collection, as :class:`Persisted` if it was persisted."""
    graph = dict(collection.__dask_graph__())
    client = next((value.client for value in graph.values() if hasattr(value, "client")), None)
    if client is None:
        return _flat(collection.to_delayed())
    found: list[Any] = []
    for part in _flat(collection.to_delayed(optimize_graph=False)):  # optimising would drop persisted parts
        entry = graph.get(part.key)
        entry = graph.get(getattr(entry, "target", None), entry)  # an alias
        found.append(Persisted(client, entry if hasattr(entry, "client") else part))
    return found


def _flat(parts: Any) -> list[Any]:
    return list(parts.ravel().tolist() if isinstance(parts, np.ndarray) else parts)


def _computed(part: Any, path: Path) -> Any:
    if isinstance(part, Persisted):
        return part.fetched()
    if not hasattr(part, "compute"):
        return part
    return read_or_refuse(lambda: part.compute(scheduler="synchronous"), path, "a part of a Dask collection")
