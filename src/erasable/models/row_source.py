"""Rows on their way to a model: the record that holds them, where they are read from, and a buffer of bounded size.

A :class:`RowSource` yields blocks of :class:`Rows`. Engines run passes over it and know nothing of files.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import DeviceRows, MatrixLike, on_host
from erasable.core.names import Hashes
from erasable.core.selector import picked
from erasable.errors import InputError
from erasable.models.inputs import ONE, Column, check_ids, check_subjects, spelt_names, taken
from erasable.models.model import Model
from erasable.models.reports import LearnReport
from erasable.schemas import EncodedTable, EncodingReport

if TYPE_CHECKING:
    from erasable.models.passes import Engine

_NUMBER_BYTES, _TEXT_BYTES = 24, 100  # about what label, id and subject of a row take: numbers, and each text
_FIRST_BYTES, _FIRST_ROWS = 2**25, 100  # buffered without a screen: so many bytes, or so many rows for each column
_KEPT = 0.75  # of a full budget, so that rows are not sorted again with every block
_CACHE_BYTES, _CACHED_PER_ROW = 2**30, 16  # of ids and hashes of rows in memory that are kept between passes
_DEVICE_BLOCKS = 16  # blocks on a device are so many times as large, since they are not copied

Mask = npt.NDArray[np.bool_]


@dataclass(eq=False, repr=False)
class Rows:
    """Rows with their labels, ids, subjects and weights.

    As read, each is in any form that ``fit`` takes, or None where rows have none. Once checked, ids and subjects are
    columns of :mod:`erasable.models.inputs`, and weights are in sixteenths.
    """

    X: Any
    y: Any
    ids: Any = None
    subjects: Any = None
    weights: Any = None
    hashes: Hashes | None = None  # of the ids, where they are known

    def __len__(self) -> int:
        return int(self.X.shape[0]) if self.y is None else len(self.y)

    def take(self, mask: Mask) -> Rows:
        """The rows that the mask selects, copied unless these are all."""
        if mask.all():
            return self
        index = np.flatnonzero(mask)
        names: list[Any] = [None if c is None else taken(c, index) for c in (self.ids, self.subjects)]
        numbers = [None if c is None else c[index] for c in (self.weights, self.hashes)]
        return Rows(picked(self.X, index), self.y[index], *names, *numbers)

    def part(self, low: int, high: int) -> Rows:
        """The rows from ``low`` to ``high``, not copied."""
        if low == 0 and high >= len(self):
            return self
        cut = slice(low, high)
        columns = self.ids, self.subjects, self.weights, self.hashes
        return Rows(self.X[cut], self.y[cut], *(None if c is None else c[cut] for c in columns))

    def sizes(self) -> npt.NDArray[np.float64]:
        """About how many bytes each row takes."""
        sizes: npt.NDArray[np.float64]
        X = self.X.rows if isinstance(self.X, EncodedTable) else self.X
        if sp.issparse(X):
            raw = getattr(self.X, "raw", None)
            raw_bytes = 0 if raw is None else 8 * raw.shape[1]
            sizes = np.diff(X.indptr) * float(X.data.itemsize + X.indices.itemsize) + (8.0 + raw_bytes)
        elif X.dtype == object:
            sizes = np.fromiter(map(sys.getsizeof, X), dtype=np.float64, count=len(self))
        else:
            sizes = np.full(len(self), X.nbytes / max(1, len(self)))
        texts = sum(isinstance(column, list) for column in (self.ids, self.subjects))
        return sizes + (_NUMBER_BYTES + _TEXT_BYTES * texts)

    def learnt_by(self, model: Model, progress: Callable[[int], None] | None, done: int) -> LearnReport:
        """Let a model learn these checked rows; whether rows need a subject was checked before."""
        watch = None if progress is None else (lambda now, _: progress(done + now))
        weights = None if self.weights is None else self.weights / ONE
        names = self.ids, self.subjects
        return model.learn(self.X, self.y, *names, sample_weight=weights, allow_no_subject=True, progress=watch)

    @classmethod
    def joined(cls, parts: list[Rows]) -> Rows:
        """The rows of all parts; the list is emptied, so that parts are released while they are copied."""
        if len(parts) == 1:
            return parts.pop()
        y = ids = owners = weights = None
        if parts[0].y is not None:
            y = np.concatenate([rows.y for rows in parts])
        if parts[0].ids is not None:
            ids = _joined([rows.ids for rows in parts])
        if any(rows.subjects is not None for rows in parts):
            owners = _joined([[None] * len(r) if r.subjects is None else r.subjects for r in parts])
        if any(rows.weights is not None for rows in parts):
            weights = np.concatenate([np.full(len(r), ONE) if r.weights is None else r.weights for r in parts])
        X = [rows.X for rows in parts]
        parts.clear()
        return cls(_stacked(X), y, ids, owners, weights)


class RowSource:
    """Rows in blocks: an iterable of :class:`Rows`, or of anything with the same attributes.

    Attributes
    ----------
    once : bool
        Whether the rows can be read only once.
    n_rows : int or None
        The number of rows, where it is known.
    checked : bool
        Whether names and weights were checked for all rows together, so that blocks need no check of their own.
    in_memory : bool
        Whether blocks are kept between passes, so that another pass costs little.
    """

    once = False
    n_rows: int | None = None
    checked = False
    in_memory = False

    def __iter__(self) -> Iterator[Any]:
        raise NotImplementedError

    def parts(self) -> Sequence[RowSource] | None:
        """The rows in parts that can be sent to workers, in order, each with its ``n_rows``; None if impossible."""
        return None

    def awaited(self) -> list[Any]:
        """The objects on a cluster that this part is made of; they are not sent with it."""
        return []

    def filled(self, values: Sequence[Any]) -> RowSource:
        """The same part with the values of the objects it awaits."""
        return self

    def note_encoding(self, report: EncodingReport) -> None:
        """Note how workers encoded the cells of the rows."""

    def first_share(self, budget_bytes: float) -> float | None:
        """The share of all rows that the first round should take; None where the size of rows is not known."""
        return None

    @staticmethod
    def of(blocks: Iterable[Any]) -> RowSource:
        """The source that these blocks are, or one of them."""
        return blocks if isinstance(blocks, RowSource) else _Blocks(blocks)


class _Blocks(RowSource):
    """Any iterable of blocks."""

    def __init__(self, blocks: Iterable[Any]) -> None:
        self.blocks, self.once = blocks, isinstance(blocks, Iterator)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.blocks)


class StartedSource(RowSource):
    """A source whose first block was read ahead; the first pass continues after it instead of starting again."""

    def __init__(self, source: RowSource) -> None:
        self.source, self.once, self.n_rows = source, source.once, source.n_rows
        self._rest: Iterator[Any] | None = iter(source)
        self.first = next(self._rest, None)

    def __iter__(self) -> Iterator[Any]:
        rest, first, self._rest, self.first = self._rest, self.first, None, None
        return iter(self.source) if rest is None else chain([first], rest)

    def parts(self) -> Sequence[RowSource] | None:
        """See :class:`RowSource`."""
        return self.source.parts()

    def note_encoding(self, report: EncodingReport) -> None:
        """See :class:`RowSource`."""
        self.source.note_encoding(report)


class ArraySource(RowSource):
    """Arrays of one call, checked together, in blocks of a given size; no row is copied.

    Raises InputError when ids repeat or are in the model already, and where lengths do not match.
    """

    checked = True

    def __init__(self, model: Model, rows: Rows, engine: Engine, *, allow_no_subject: bool) -> None:
        X, n = rows.X, rows.X.shape[0]
        model.encode_labels(rows.y)
        model.check_names_given(rows.ids)
        ids, subjects = spelt_names(rows.ids, rows.subjects, model.spelling)
        keys = check_ids(ids, n, model.core.place)
        if subjects is not None:
            subjects = check_subjects(subjects, n, model.core.subject_type, allow_no_subject=allow_no_subject)
        weights = model.checked_weights(rows.weights, n)
        if weights is not None and not weights.any():
            raise InputError("every weight (sample_weight=) rounds to zero, so there is nothing to learn.")
        self.rows, self.n_rows = Rows(X, rows.y, range(n) if keys is None else keys, subjects, weights), n
        width = X.shape[1] if X.ndim > 1 else 64
        self.row_bytes = getattr(getattr(X, "dtype", None), "itemsize", 8) * max(1, width)
        self.step = max(1, engine.block_bytes * (_DEVICE_BLOCKS if isinstance(X, DeviceRows) else 1) // self.row_bytes)
        # A mapped file may change between passes, so nothing is kept of it.
        in_memory = not isinstance(_base_array(X), np.memmap)
        self.in_memory = in_memory and not engine.sends and _CACHED_PER_ROW * n <= _CACHE_BYTES
        self._kept: list[Rows] | None = list(self._blocks()) if self.in_memory else None

    def _blocks(self) -> Iterator[Rows]:
        return (self.rows.part(low, low + self.step) for low in range(0, len(self.rows), self.step))

    def __iter__(self) -> Iterator[Rows]:
        return self._blocks() if self._kept is None else iter(self._kept)

    def first_share(self, budget_bytes: float) -> float | None:
        """See :class:`RowSource`."""
        X = self.rows.X
        if not isinstance(X, np.ndarray | DeviceRows) or X.ndim != 2:
            return None
        row_bytes = self.row_bytes + _NUMBER_BYTES
        return _KEPT * _first_budget(row_bytes, X.shape[1], budget_bytes) / row_bytes / max(1, len(X))

    def parts(self) -> list[RowSource] | None:
        """Blocks of a mapped file, which workers map again; None for rows in memory."""
        X, file = self.rows.X, _base_array(self.rows.X)
        if not isinstance(file, np.memmap) or file.filename is None or not X.flags.c_contiguous or X.ndim != 2:
            return None
        start = X.__array_interface__["data"][0] - file.__array_interface__["data"][0] + int(file.offset)
        row = X.shape[1] * X.dtype.itemsize
        path, step = Path(file.filename).resolve(), self.step
        return [MappedBlock(rows, path, start + i * step * row) for i, rows in enumerate(self._blocks())]


class MappedBlock(RowSource):
    """A block of rows in a mapped file. It is sent without the rows, and maps them again where it arrives."""

    checked = True

    def __init__(self, rows: Rows, path: Path, offset: int) -> None:
        self.rows, self.path, self.offset, self.n_rows = rows, path, offset, len(rows)
        self.layout = rows.X.dtype.str, rows.X.shape

    def __iter__(self) -> Iterator[Rows]:
        if self.rows.X is None:
            if not self.path.exists():
                raise InputError(f"{self.path.name} does not exist on the worker that screens rows: copy it there.")
            dtype, shape = self.layout
            self.rows = replace(self.rows, X=np.memmap(self.path, dtype, "r", self.offset, shape))
        yield self.rows

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "rows": replace(self.rows, X=None)}


class RowBuffer:
    """Rows from a hash on: those of lowest hash that fit a budget. Rows of equal hash stay together.

    ``end`` is the lowest hash of a row that did not fit; None while all fit. With ``sparing`` the budget is reduced.
    """

    def __init__(self, first: int, budget_bytes: float, *, sparing: bool = False, end: int | None = None) -> None:
        self.first, self.budget, self.sparing, self.end = first, budget_bytes, sparing, end
        self.parts: list[Rows] = []
        self.bytes = 0.0

    def __len__(self) -> int:
        return sum(map(len, self.parts))

    def within(self, hashes: Hashes) -> Mask:
        """Which of these rows this buffer may still take."""
        mine: Mask = hashes >= np.uint64(self.first)
        return mine if self.end is None else mine & (hashes < np.uint64(self.end))

    def add(self, rows: Rows) -> None:
        """Add rows, and release those that no longer fit."""
        if len(rows):
            rows = replace(rows, X=on_host(rows.X)) if isinstance(rows.X, DeviceRows) else rows
            self._add([rows])

    def merge(self, other: Self) -> None:
        """Take over the rows of another buffer of the same round, and release those that no longer fit.

        *Law*: in whatever order and grouping rows are added and merged, all rows below ``end`` that were added
        anywhere are in the buffer.
        """
        parts, other.parts = other.parts, []
        if other.end is not None and (self.end is None or other.end < self.end):
            self._cut_at(other.end)
        if self.end is not None and other.end != self.end:
            parts = _below(parts, self.end)
        self._add(parts)

    def _add(self, parts: list[Rows]) -> None:
        if not parts:
            return
        if self.sparing:
            X, sizes, self.sparing = parts[0].X, parts[0].sizes(), False
            self.budget = _first_budget(float(sizes.mean()), X.shape[1] if X.ndim > 1 else 0, self.budget)
        self.parts += parts
        self.bytes += sum(float(rows.sizes().sum()) for rows in parts)
        if self.bytes <= self.budget:
            return
        hashes = np.concatenate([_hashes(rows) for rows in self.parts])
        order = np.argsort(hashes, kind="stable")
        ordered, sizes = hashes[order], np.concatenate([rows.sizes() for rows in self.parts])[order]
        fit = int(np.searchsorted(np.cumsum(sizes), _KEPT * self.budget, side="right"))
        fit = max(fit, int(np.searchsorted(ordered, ordered[0], side="right")))  # one hash at least, or no round ends
        if fit < len(ordered):
            self._cut_at(int(ordered[fit]))

    def _cut_at(self, end: int) -> None:
        self.end, self.parts = end, _below(self.parts, end)
        self.bytes = sum(float(rows.sizes().sum()) for rows in self.parts)

    def release(self) -> Rows:
        """All rows, in any order; the buffer is empty afterwards."""
        return Rows.joined(self.parts)


def _first_budget(row_bytes: float, width: int, budget_bytes: float) -> float:
    """The budget of a round without a screen, which would hold many rows in vain."""
    return min(budget_bytes, max(_FIRST_BYTES, _FIRST_ROWS * width * row_bytes))


def _hashes(rows: Rows) -> Hashes:
    assert rows.hashes is not None
    return rows.hashes


def _below(parts: list[Rows], end: int) -> list[Rows]:
    """The rows whose hashes are below an end; the list is emptied, so that each part is released when it is copied."""
    parts.reverse()
    kept: list[Rows] = []
    while parts:
        rows = parts.pop()
        mask = _hashes(rows) < np.uint64(end)
        if mask.any():
            kept.append(rows.take(mask))
    return kept


def _stacked(parts: list[Any]) -> Any:
    """One array of the rows of all parts, each of which is released when it is copied."""
    if isinstance(parts[0], EncodedTable):
        return EncodedTable.joined(parts)
    if any(map(sp.issparse, parts)):
        return sp.vstack([sp.csr_array(part) for part in parts], format="csr")
    n = sum(len(part) for part in parts)
    X, high = np.empty((n, *parts[0].shape[1:]), dtype=np.result_type(*(part.dtype for part in parts))), n
    while parts:
        part = parts.pop()
        X[high - len(part) : high] = part
        high -= len(part)
    return X


def _joined(columns: Sequence[Any]) -> Column:
    if all(isinstance(c, range) or (isinstance(c, np.ndarray) and c.dtype != object) for c in columns):
        return np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])
    return list(chain.from_iterable(c.tolist() if isinstance(c, np.ndarray) else c for c in columns))


def _base_array(X: MatrixLike) -> Any:
    """The array that owns the memory: a slice of a memmap has the offset of the whole."""
    while isinstance(X, np.ndarray) and isinstance(X.base, np.ndarray):
        X = X.base
    return X
