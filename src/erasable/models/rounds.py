"""Rows that come in blocks, more of them than memory holds, decided in the order of their hashes: in rounds.

Leverage, and whatever else rows are selected by, only falls as rows are selected. So a row that the core rows decided
before it rule out is out for good, in whatever order it is asked about: *stale screening* is safe. One round is one
pass over the blocks, in any order: of the rows whose turn has not come yet, those that the core rows of the rounds
before do not rule out are held, the ones of lowest hash within a budget; then they are decided in their order. Rounds
follow until nothing was left over. The first of a new model, with no core rows yet, has nothing to rule out rows with;
as a rule the second is the last.

*Law*: the model is that of learning all rows in one call, whatever the blocks, their order and the budget.
*Contract*: whoever screens (:meth:`Model.screening`) needs no order and no other rows, so it can be done elsewhere.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.keyed_hash import Hashes, keyed_hash
from erasable.core.selector import Decisions
from erasable.errors import ConfigurationError, InputError
from erasable.models.checks import check_ids, check_labels, check_subjects, next_id
from erasable.models.keys import Column, as_key_column, label_type, same_kind
from erasable.models.model import Model
from erasable.models.order import LabelRuns
from erasable.models.reports import LearnReport
from erasable.models.weighting import ONE

BUDGET_BYTES = 2**28
_NUMBER_BYTES, _TEXT_BYTES = 24, 100  # about what label, id and subject take beside a row: numbers, and each text

Mask = npt.NDArray[np.bool_]


class Block(NamedTuple):
    """Some rows: finite ``X`` as a model takes it, labels, and ids, subjects and weights where they have any."""

    X: Any
    y: npt.NDArray[Any]
    ids: Any = None
    subjects: Any = None
    weights: Any = None


def learn_blocks(
    model: Model,
    blocks: Iterable[Block],
    *,
    once: bool = False,
    budget_bytes: int = BUDGET_BYTES,
    allow_no_subject: bool = False,
    progress: Callable[[int], None] | None = None,
) -> LearnReport:
    """Learn the rows of all blocks as one call: in the order of their hashes, or as they come.

    Parameters
    ----------
    model : Model
        Changed in place. Where this is refused or interrupted, it is not used again: part of the rows may be learnt.
    blocks : iterable of Block
        Gone through several times, unless ``once``. Rows without ids are numbered through all blocks.
    once : bool, default=False
        Whether the blocks can be gone through but once: then all rows have to fit the budget, where order counts.
    budget_bytes : int
        About how many bytes of rows are held. It changes the number of passes and nothing else.
    progress : callable, optional
        Called with the number of rows whose fate is known.

    Raises
    ------
    InputError
        When rows that can be read but once are more than the budget.
    """
    named = _NamedBlocks(model, blocks, allow_no_subject)
    try:
        if model.order_key is None:
            parts = list(_as_given(model, named, progress))
        else:
            parts = list(_in_rounds(model, named, model.order_key, once, budget_bytes, progress))
    except BaseException:
        model.moment = None
        raise
    rows = named.n_rows
    if not rows:
        raise ConfigurationError("there is nothing to learn: no rows came.")
    if progress is not None:
        progress(rows)
    decisions = sum((part.decisions for part in parts), Decisions())
    decisions.screened += rows - named.weightless - sum(part.rows for part in parts)
    added = sum(part.core_rows_added for part in parts)
    return LearnReport(rows, added, len(model.core), decisions, named.weightless)


def _as_given(model: Model, blocks: Iterable[Rows], progress: Callable[[int], None] | None) -> Iterator[LearnReport]:
    runs, done = LabelRuns(), 0
    for block in blocks:
        if not len(block):  # none of them has a weight
            continue
        runs.add(block.y)
        yield block.learnt_by(model, progress, done)
        done += len(block)
    if model.one_by_one:
        runs.warn(stacklevel=2)


def _in_rounds(
    model: Model,
    blocks: _NamedBlocks,
    key: int,
    once: bool,
    budget_bytes: int,
    progress: Callable[[int], None] | None,
) -> Iterator[LearnReport]:
    first, furthest = 0, 0
    while True:
        held, settled, screen = _Held(first, budget_bytes), 0, model.screening()
        for block in blocks:
            hashes = keyed_hash(block.ids, key)
            settled += int(np.count_nonzero(hashes < np.uint64(first)))
            open_rows = held.within(hashes)
            rows, hashes = block.take(open_rows), hashes[open_rows]
            if screen is not None and len(rows):
                left, always = screen(model.prepared(rows.X)), model.always_kept(rows.ids)
                left = left if always is None else left | always
                settled += len(rows) - int(np.count_nonzero(left))
                rows, hashes = rows.take(left), hashes[left]
            held.offer(rows, hashes)
            if once and held.end is not None:
                raise InputError(
                    f"these rows can be read only once, and are more than the {budget_bytes:,} bytes that are held of "
                    "them, so they cannot be put into the order of their hashes: save them to a file and give that, or "
                    'have them decided as they come, with order= "given".'
                )
            if progress is not None and settled > furthest:
                furthest = settled
                progress(furthest)
        if held.parts:
            rows = held.joined()
            furthest = min(furthest, blocks.n_rows - len(rows))  # some that were screened have their turn later
            yield rows.learnt_by(model, progress, furthest)
            furthest += len(rows)
        if held.end is None:
            return
        first = held.end


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows of a block whose names were checked.

    Subjects are None where no row has one, and weights, in sixteenths, where all are one.
    """

    X: Any
    y: npt.NDArray[Any]
    ids: Column
    subjects: Column | None
    weights: npt.NDArray[Any] | None = None

    def __len__(self) -> int:
        return len(self.y)

    def take(self, mask: Mask) -> Rows:
        """Those of them that the mask has."""
        if mask.all():
            return self
        owners = None if self.subjects is None else _taken(self.subjects, mask)
        weights = None if self.weights is None else self.weights[mask]
        return Rows(self.X[mask], self.y[mask], _taken(self.ids, mask), owners, weights)

    def that_count(self) -> Rows:
        """Those of them that have a weight above zero."""
        return self if self.weights is None else self.take(self.weights > 0)

    def sizes(self) -> npt.NDArray[np.float64]:
        """About how many bytes each of them takes."""
        sizes: npt.NDArray[np.float64]
        if sp.issparse(self.X):
            sizes = np.diff(self.X.indptr) * float(self.X.data.itemsize + self.X.indices.itemsize) + 8.0
        elif self.X.dtype == object:
            sizes = np.fromiter(map(sys.getsizeof, self.X), dtype=np.float64, count=len(self))
        else:
            sizes = np.full(len(self), self.X.nbytes / max(1, len(self)))
        texts = sum(isinstance(column, list) for column in (self.ids, self.subjects))
        return sizes + (_NUMBER_BYTES + _TEXT_BYTES * texts)

    def learnt_by(self, model: Model, progress: Callable[[int], None] | None, done: int) -> LearnReport:
        """Let a model learn them; names were checked before, so rows without a subject are allowed here."""
        watch = None if progress is None else (lambda now, _: progress(done + now))
        return model.learn(
            self.X,
            self.y,
            self.ids,
            self.subjects,
            sample_weight=None if self.weights is None else self.weights / ONE,
            allow_no_subject=True,
            progress=watch,
        )


class _NamedBlocks:
    """Blocks with checked names: all is checked in the first pass, when the model holds no row of them yet."""

    def __init__(self, model: Model, blocks: Iterable[Block], allow_no_subject: bool) -> None:
        self.model, self.blocks, self.allow_no_subject = model, blocks, allow_no_subject
        self.passes = 0
        self.n_rows = 0  # in the first pass
        self.weightless = 0  # of these
        self.start: int | None = None  # what rows without ids are numbered from
        self.kinds: dict[str, type] = {}

    def __iter__(self) -> Iterator[Rows]:
        self.passes += 1
        low = 0
        for block in self.blocks:
            n = block.X.shape[0]
            rows = self._first(block, low, n) if self.passes == 1 else self._again(block, low, n)
            yield rows
            low += n
            self.n_rows = max(self.n_rows, low)
        if low < self.n_rows:
            raise InputError("the table changed while it was read: it has fewer rows than before.")

    def _first(self, block: Block, low: int, n: int) -> Rows:
        check_labels(block.y, self.model)
        if self.kinds.setdefault("labels", label_type(block.y)) is not label_type(block.y):
            raise InputError("y holds labels of another type than in the blocks before: give labels of one type.")
        self.model.check_names_given(block.ids)
        if low and (block.ids is None) != (self.start is not None):
            raise InputError("ids must come with all blocks, or with none.")
        self.start = next_id(self.model.core.place) if block.ids is None and not low else self.start
        ids = self._numbered(low, n) if block.ids is None else check_ids(block.ids, n, self.model.core.place)
        assert ids is not None
        self._check_kind(ids, "ids")
        subjects = None
        if block.subjects is not None:
            subjects = check_subjects(
                block.subjects, n, self.model.core.subject_type, allow_no_subject=self.allow_no_subject
            )
            self._check_kind(
                subjects if isinstance(subjects, np.ndarray) else [s for s in subjects if s is not None], "subjects"
            )
        if self.model.order_key is not None:
            self.model.prepared(block.X)  # refuses rows that no model of this kind learns
        rows = Rows(block.X, block.y, ids, subjects, self.model.checked_weights(block.weights, n)).that_count()
        self.weightless += n - len(rows)
        return rows

    def _again(self, block: Block, low: int, n: int) -> Rows:
        ids = self._numbered(low, n) if block.ids is None else as_key_column(block.ids, "ids")
        owners = None if block.subjects is None else as_key_column(block.subjects, "subjects", optional=True)
        return Rows(block.X, block.y, ids, owners, self.model.checked_weights(block.weights, n)).that_count()

    def _numbered(self, low: int, n: int) -> Column:
        assert self.start is not None
        if self.start + low + n > 2**63:
            raise InputError("ids are required: numbering on from the largest id in the model would pass 64 bits.")
        return range(self.start + low, self.start + low + n)

    def _check_kind(self, keys: Any, name: str) -> None:
        if len(keys):
            same_kind(keys, self.kinds.get(name), name)
            self.kinds[name] = int if isinstance(keys, np.ndarray) else type(keys[0])


class _Held:
    """Rows from a hash on, those of lowest hash that fit a budget; rows of one hash stay together.

    ``end`` is the hash from which on rows were left over; None where there were none.
    """

    def __init__(self, first: int, budget_bytes: int) -> None:
        self.first, self.budget = first, budget_bytes
        self.end: int | None = None
        self.parts: list[tuple[Rows, Hashes, npt.NDArray[np.float64]]] = []
        self.bytes = 0.0

    def within(self, hashes: Hashes) -> Mask:
        """Which of these rows are still to be looked at in this round."""
        mine: Mask = hashes >= np.uint64(self.first)
        return mine if self.end is None else mine & (hashes < np.uint64(self.end))

    def offer(self, rows: Rows, hashes: Hashes) -> None:
        """Hold these rows, and let go of what no longer fits."""
        if not len(rows):
            return
        sizes = rows.sizes()
        self.parts.append((rows, hashes, sizes))
        self.bytes += float(sizes.sum())
        if self.bytes > self.budget:
            self._cut()

    def _cut(self) -> None:
        hashes = np.concatenate([part[1] for part in self.parts])
        sizes = np.concatenate([part[2] for part in self.parts])
        order = np.argsort(hashes, kind="stable")
        ordered = hashes[order]
        fit = int(np.searchsorted(np.cumsum(sizes[order]), self.budget, side="right"))
        fit = max(fit, int(np.searchsorted(ordered, ordered[0], side="right")))  # one hash at least, or no round ends
        if fit == len(ordered):
            return
        self.end = int(ordered[fit])
        kept = []
        for rows, of_rows, size in self.parts:
            mask = of_rows < np.uint64(self.end)
            if mask.any():
                kept.append((rows.take(mask), of_rows[mask], size[mask]))
        self.parts = kept
        self.bytes = float(sum(size.sum() for _, _, size in kept))

    def joined(self) -> Rows:
        """All rows held, in any order; they are held no longer."""
        parts, self.parts = [rows for rows, _, _ in self.parts], []
        if len(parts) == 1:
            return parts[0]
        X = [rows.X for rows in parts]
        sparse = any(map(sp.issparse, X))
        stacked = sp.vstack([sp.csr_array(x) for x in X], format="csr") if sparse else np.concatenate(X)
        owners = None
        if any(rows.subjects is not None for rows in parts):
            owners = _joined([[None] * len(r) if r.subjects is None else r.subjects for r in parts])
        weights = None
        if any(rows.weights is not None for rows in parts):
            weights = np.concatenate([np.full(len(r), ONE) if r.weights is None else r.weights for r in parts])
        return Rows(stacked, np.concatenate([r.y for r in parts]), _joined([r.ids for r in parts]), owners, weights)


def _taken(column: Any, mask: Mask) -> Column:
    if isinstance(column, np.ndarray):
        return column[mask]
    if isinstance(column, range):
        return np.arange(column.start, column.stop, dtype=np.int64)[mask]
    return [column[i] for i in np.flatnonzero(mask).tolist()]


def _joined(columns: Sequence[Any]) -> Column:
    if all(isinstance(column, np.ndarray | range) for column in columns):
        return np.concatenate([np.asarray(column, dtype=np.int64) for column in columns])
    return list(chain.from_iterable(c.tolist() if isinstance(c, np.ndarray) else c for c in columns))
