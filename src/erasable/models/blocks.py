"""Rows as they come, a block at a time, and rows that are held for a round: those of lowest hash within a budget."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import DeviceRows, on_host
from erasable.core.keyed_hash import Hashes
from erasable.core.selector import picked
from erasable.models.inputs import ONE, Column, RowWeights, taken
from erasable.models.model import Model
from erasable.models.reports import LearnReport
from erasable.schemas import EncodedTable

_NUMBER_BYTES, _TEXT_BYTES = 24, 100  # about what label, id and subject take beside a row: numbers, and each text
_FIRST_BYTES, _FIRST_ROWS = 2**25, 100  # held without a screen: so many bytes, or so many rows for each column
_KEPT = 0.75  # of the budget, when it is full: rows are not sorted again with every block

Mask = npt.NDArray[np.bool_]


def first_rows(row_bytes: float, width: int, budget_bytes: float) -> float:
    """How many rows of about so many bytes, beside their names, are held without a screen."""
    row_bytes += _NUMBER_BYTES
    return _KEPT * _sparing(row_bytes, width, budget_bytes) / row_bytes


def _sparing(row_bytes: float, width: int, budget_bytes: float) -> float:
    return min(budget_bytes, max(_FIRST_BYTES, _FIRST_ROWS * width * row_bytes))


class Block(NamedTuple):
    """Some rows: finite ``X`` as a model takes it, labels, and ids, subjects and weights where they have any.

    ``known`` is where a first pass may leave what it found, for those after it: of rows that do not change meanwhile.
    """

    X: Any
    y: npt.NDArray[Any]
    ids: Any = None
    subjects: Any = None
    weights: Any = None
    known: Known | None = None


class Known:
    """What a first pass found of a block: its rows, checked, and their hashes."""

    def __init__(self) -> None:
        self.rows: Rows | None = None
        self.hashes: Hashes | None = None

    def note(self, rows: Rows, hashes: Hashes) -> None:
        """These are the rows."""
        self.rows, self.hashes = rows, hashes


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of a block whose names were checked.

    Subjects are None where no row has one, and weights, in sixteenths, where all are one.
    """

    X: Any
    y: npt.NDArray[Any]
    ids: Column
    subjects: Column | None
    weights: RowWeights | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, mask: Mask) -> Rows:
        """Those of them that the mask has."""
        if mask.all():
            return self
        index = np.flatnonzero(mask)
        owners = None if self.subjects is None else taken(self.subjects, index)
        weights = None if self.weights is None else self.weights[index]
        return Rows(picked(self.X, index), self.y[index], taken(self.ids, index), owners, weights)

    def on_host(self) -> Rows:
        """The same, with none on a device."""
        if not isinstance(self.X, DeviceRows):
            return self
        return Rows(on_host(self.X), self.y, self.ids, self.subjects, self.weights)

    def that_count(self) -> Rows:
        """Those of them that have a weight above zero."""
        return self if self.weights is None else self.take(self.weights > 0)

    def part(self, low: int, high: int) -> Rows:
        """Those of them from one place to another, not copied."""
        if low == 0 and high >= len(self):
            return self
        cut = slice(low, high)
        owners = None if self.subjects is None else self.subjects[cut]
        weights = None if self.weights is None else self.weights[cut]
        return Rows(self.X[cut], self.y[cut], self.ids[cut], owners, weights)

    def sizes(self) -> npt.NDArray[np.float64]:
        """About how many bytes each of them takes."""
        sizes: npt.NDArray[np.float64]
        X = self.X.rows if isinstance(self.X, EncodedTable) else self.X
        if sp.issparse(X):
            sizes = np.diff(X.indptr) * float(X.data.itemsize + X.indices.itemsize) + 8.0
        elif self.X.dtype == object:
            sizes = np.fromiter(map(sys.getsizeof, self.X), dtype=np.float64, count=len(self))
        else:
            sizes = np.full(len(self), self.X.nbytes / max(1, len(self)))
        texts = sum(isinstance(column, list) for column in (self.ids, self.subjects))
        return sizes + (_NUMBER_BYTES + _TEXT_BYTES * texts)

    def learnt_by(self, model: Model, progress: Callable[[int], None] | None, done: int) -> LearnReport:
        """Let a model learn them; names were checked before, so rows without a subject are allowed here."""
        watch = None if progress is None else (lambda now, _: progress(done + now))
        weights = None if self.weights is None else self.weights / ONE
        names = self.ids, self.subjects
        return model.learn(self.X, self.y, *names, sample_weight=weights, allow_no_subject=True, progress=watch)


_Part = tuple[Rows, Hashes, npt.NDArray[np.float64]]  # with their hashes and sizes


class Held:
    """Rows from a hash on, those of lowest hash that fit a budget; rows of one hash stay together.

    ``end`` is the hash from which on rows were left over; None where there were none. With ``sparing`` fewer are held.
    """

    def __init__(self, first: int, budget_bytes: float, *, sparing: bool = False, end: int | None = None) -> None:
        self.first, self.budget, self.sparing, self.end = first, budget_bytes, sparing, end
        self.parts: list[_Part] = []
        self.bytes = 0.0

    def within(self, hashes: Hashes) -> Mask:
        """Which of these rows are still to be looked at in this round."""
        mine: Mask = hashes >= np.uint64(self.first)
        return mine if self.end is None else mine & (hashes < np.uint64(self.end))

    def offer(self, rows: Rows, hashes: Hashes) -> None:
        """Hold these rows, and let go of what no longer fits."""
        if not len(rows):
            return
        rows = rows.on_host()
        self._hold([(rows, hashes, rows.sizes())])

    def take_over(self, other: Held) -> None:
        """Hold what others of the same round held elsewhere, and let go of what no longer fits.

        *Law*: in whatever order and grouping rows were held and taken over, all rows below ``end`` that were offered
        anywhere are held.
        """
        parts, other.parts = other.parts, []
        if other.end is not None and (self.end is None or other.end < self.end):
            self.end = other.end
            self._let_go()
        if self.end is not None and other.end != self.end:
            parts = _below(parts, self.end)
        self._hold(parts)

    def _hold(self, parts: list[_Part]) -> None:
        if not parts:
            return
        self.parts += parts
        self.bytes += sum(float(sizes.sum()) for _, _, sizes in parts)
        if self.sparing:
            rows, _, sizes = parts[0]
            width = rows.X.shape[1] if rows.X.ndim > 1 else 0
            self.budget = _sparing(float(sizes.mean()), width, self.budget)
            self.sparing = False
        if self.bytes > self.budget:
            self._cut()

    def _cut(self) -> None:
        hashes = np.concatenate([part[1] for part in self.parts])
        sizes = np.concatenate([part[2] for part in self.parts])
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        fit = int(np.searchsorted(np.cumsum(sizes[order]), _KEPT * self.budget, side="right"))
        fit = max(fit, int(np.searchsorted(ordered, ordered[0], side="right")))  # one hash at least, or no round ends
        if fit == len(ordered):
            return
        self.end = int(ordered[fit])
        self._let_go()

    def _let_go(self) -> None:
        """Hold no rows from ``end`` on."""
        assert self.end is not None
        self.parts = _below(self.parts, self.end)
        self.bytes = sum(float(sizes.sum()) for _, _, sizes in self.parts)

    def joined(self) -> Rows:
        """All rows held, in any order; they are held no longer."""
        parts, self.parts = [rows for rows, _, _ in self.parts], []
        if len(parts) == 1:
            return parts[0]
        y, ids = np.concatenate([rows.y for rows in parts]), _joined([rows.ids for rows in parts])
        owners = None
        if any(rows.subjects is not None for rows in parts):
            owners = _joined([[None] * len(r) if r.subjects is None else r.subjects for r in parts])
        weights = None
        if any(rows.weights is not None for rows in parts):
            weights = np.concatenate([np.full(len(r), ONE) if r.weights is None else r.weights for r in parts])
        X = [rows.X for rows in parts]
        del parts
        return Rows(_stacked(X), y, ids, owners, weights)


def _below(parts: list[_Part], end: int) -> list[_Part]:
    """The rows of these parts whose hashes are below an end; the list is emptied."""
    parts.reverse()
    kept: list[_Part] = []
    while parts:  # each is let go of when its rows are copied
        rows, hashes, sizes = parts.pop()
        mask = hashes < np.uint64(end)
        if mask.any():
            kept.append((rows.take(mask), hashes[mask], sizes[mask]))
    return kept


def _stacked(parts: list[Any]) -> Any:
    """One array of the rows of all parts, which are let go of one after the other."""
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
    if all(isinstance(column, np.ndarray | range) for column in columns):
        return np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])
    return list(chain.from_iterable(c.tolist() if isinstance(c, np.ndarray) else c for c in columns))
