"""Learn rows from a source, more of them than memory holds: in passes over the source, in one or several rounds.

*Rows in the order of their hashes.* Leverage only falls as rows are selected. So a row that is ruled out by core rows
decided before it stays ruled out, no matter when it is tested: *stale screening* is safe. One round is one pass over
the source, in any order. Of the undecided rows, the pass buffers those that the present core rows do not rule out, the
ones of lowest hash within a budget; then they are decided in the order of their hashes. Rounds follow until no row is
left. The first round of a new model has no core rows to rule out rows with, so it buffers few; as a rule the second is
the last. Over rows in memory each round takes at most sixteen times the rows of all before: every row is screened about
once, against a younger core, and fewer survive. *Rows in the given order* are decided block by block, in one pass.

*Law*: the model is that of learning all rows in one call, whatever the blocks, their order, the budget and the engine.
*Contract*: a :class:`Pass` needs no order and no other rows, so an :class:`Engine` may run it on workers. Its results
are merged in any order and grouping.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike, MatrixLike
from erasable.core.names import Hashes, Key, each_owner, keyed_hash
from erasable.core.selector import Decisions
from erasable.errors import ConfigurationError, InputError
from erasable.models.inputs import (
    Column,
    as_key_column,
    as_subject_column,
    check_subjects,
    distinct_ids,
    label_type,
    next_id,
    pick,
    refuse_kind,
    refuse_known,
    spelt_names,
)
from erasable.models.model import Model
from erasable.models.reports import LabelRuns, LearnReport, OfferedRows, Round
from erasable.models.row_source import RowBuffer, Rows, RowSource
from erasable.models.selections import IndependentSelection
from erasable.schemas import EncodedTable, EncodingReport

BUDGET_BYTES = 2**28
_GROWTH = 16  # of the rows decided so far: so many are taken in the next round over rows in memory
_PREVIEW = 1 / 16  # of the budget, for rows that a caller sees before they are learnt
_FIRST_PREVIEW, _ENOUGH_PREVIEW = 128, 100  # rows
_LAST_EIGHTH = 7 * 2**61  # of the hashes
_NUMBERS_END = 2**63
_MOST = 0.75  # of the rows of a block

Screening = Callable[[Any], npt.NDArray[np.bool_]]
Hashing = Callable[[Any, int], Hashes]
Check = Callable[[Any], tuple[Any, npt.NDArray[Any]]]
Watch = Callable[[int], None] | None
#: Called with a model that has learnt all rows before these, and these.
Ahead = Callable[[Model, Rows], None]


class Limits(NamedTuple):
    """Hashes from which on a pass needs no more rows; None where it needs all.

    They only fall during a pass. Earlier ones are safe to use: then more rows come back than are needed.
    """

    survivors: int | None = None
    preview: int | None = None
    repeated: int | None = None


_NO_LIMITS = Limits()


@dataclass(eq=False)
class PassResult:
    """What a pass found in a block, in a part, or in all rows."""

    survivors: RowBuffer  # rows that may be selected
    preview: RowBuffer | None = None  # rows that a caller sees before they are learnt
    rows: int = 0
    weightless: int = 0  # rows whose weight rounds to zero
    settled: int = 0  # rows that are decided
    # What only the first pass finds:
    hashes: list[Hashes] = field(default_factory=list)  # of rows that came with ids
    kinds: dict[str, type] = field(default_factory=dict)  # the types of labels, ids and subjects
    numbered: bool | None = None  # whether rows came without ids
    offered: OfferedRows | None = None  # counts of all labels or targets, ranges of columns
    encoding: EncodingReport | None = None  # how a schema encoded the cells

    def merge(self, other: PassResult) -> None:
        """Add the result of other blocks; refused where the two are not of one table."""
        if other.numbered is not None:
            self.note_numbered(other.numbered)
        for name, kind in other.kinds.items():
            self.note_kind(name, kind)
        self.survivors.merge(other.survivors)
        if self.preview is not None and other.preview is not None:
            self.preview.merge(other.preview)
        self.rows += other.rows
        self.weightless += other.weightless
        self.settled += other.settled
        self.hashes += other.hashes
        if self.offered is not None and other.offered is not None:
            self.offered.join(other.offered)
        self.note_encoding(other.encoding)

    def note_kind(self, name: str, kind: type) -> None:
        """Note the type of labels, ids or subjects; refused where others had another type."""
        known = self.kinds.setdefault(name, kind)
        if kind is not known and name == "labels":
            raise InputError("y holds labels of another type than in the blocks before: give labels of one type.")
        if kind is not known:
            refuse_kind(kind, known, name)

    def note_names(self, keys: ColumnLike, name: str) -> None:
        """Note the type of ids or subjects, if there are any."""
        if len(keys):
            self.note_kind(name, int if isinstance(keys, np.ndarray | range) else type(keys[0]))

    def note_numbered(self, numbered: bool) -> None:
        """Note whether rows came without ids; refused where others came with them."""
        if self.numbered not in (None, numbered):
            raise InputError("ids must come with all blocks, or with none.")
        self.numbered = numbered

    def note_encoding(self, report: EncodingReport | None) -> None:
        """Add a report of encoded cells."""
        if report is not None:
            self.encoding = report if self.encoding is None else self.encoding + report

    @property
    def nbytes(self) -> int:
        """About how many bytes are sent with this."""
        preview = 0.0 if self.preview is None else self.preview.bytes
        return int(self.survivors.bytes + preview) + sum(part.nbytes for part in self.hashes)


@dataclass(frozen=True, eq=False, repr=False)
class Pass:
    """One pass over rows: checks, hashes and screens them, wherever they are. It can be sent to workers."""

    model: Model  # an outline, which checks and prepares rows and holds none
    key: int  # of the hashes
    first: int = 0  # the hash from which on rows are undecided
    budget: float = 0.0  # about how many bytes of rows are buffered
    sparing: bool = False  # whether fewer are enough
    screen: Screening | None = None  # a test of prepared rows, see Model.screening
    initial: bool = True  # whether this is the first pass, in which rows are checked and counted
    start: int | None = None  # the number of the first row without an id; the first pass finds it
    preview_bytes: float | None = None  # the budget for rows that a caller sees before they are learnt
    allow_no_subject: bool = False
    offered: OfferedRows | None = None
    check: Check | None = None  # checks a block where it is read, and returns its rows and labels
    hashing: Hashing | None = None  # hashes ids on a device, as keyed_hash does
    checked: bool = False  # whether names and weights were checked for all rows together

    def empty(self, limits: Limits = _NO_LIMITS) -> PassResult:
        """The result of no rows."""
        survivors = RowBuffer(self.first, self.budget, sparing=self.sparing, end=limits.survivors)
        if not self.initial:
            return PassResult(survivors)
        result = PassResult(survivors, offered=deepcopy(self.offered))
        if self.preview_bytes is not None:
            result.preview = RowBuffer(_LAST_EIGHTH, self.preview_bytes, end=limits.preview)
        return result

    def run(self, blocks: Iterable[Any], low: int | None, limits: Limits) -> PassResult:
        """The result of some consecutive blocks; ``low`` rows of the table come before them, None if not known.

        Raises InputError, InputTypeError or ConfigurationError when a row cannot be learnt.
        """
        result = self.empty(limits)
        for block in blocks:
            n, rows = len(block.y), self.rows_of(block, low, result)
            if rows.hashes is None:
                rows.hashes = (self.hashing or keyed_hash)(rows.ids, self.key)
            if rows.weights is not None:
                rows = rows.take(rows.weights > 0)
            result.rows += n
            result.weightless += n - len(rows)
            low = None if low is None else low + n
            hashes = rows.hashes
            assert hashes is not None
            if self.initial and not (self.checked or isinstance(rows.ids, range)):
                end = limits.repeated
                result.hashes.append(hashes if end is None else hashes[hashes < np.uint64(end)])
            if result.preview is not None:
                result.preview.add(rows.take(result.preview.within(hashes)))
            self._screen(rows, hashes, result)
        return result

    def _screen(self, rows: Rows, hashes: Hashes, result: PassResult) -> None:
        """Buffer the undecided rows that may be selected."""
        chosen = self.model.selection
        if isinstance(chosen, IndependentSelection):
            kept, _ = chosen.keeps(self.model.prepared(rows.X), hashes, rows.y)
            result.settled += len(rows) - int(np.count_nonzero(kept))
            result.survivors.add(rows.take(kept))
            return
        result.settled += int(np.count_nonzero(hashes < np.uint64(self.first)))
        left = result.survivors.within(hashes)
        if self.screen is not None and left.any():
            selection = self.model.configuration.selection
            raw, most, may = self.model.prepared(rows.X), _MOST * len(rows), left.copy()
            if np.count_nonzero(left) < most:  # otherwise screening all costs less than gathering most of them
                may[left] = self.screen(selection.in_order(raw, np.flatnonzero(left)))
            else:
                may &= self.screen(raw)
            always = selection.always_kept(rows.ids)
            may = may if always is None else may | (left & always)
            result.settled += int(np.count_nonzero(left)) - int(np.count_nonzero(may))
            left = may
        result.survivors.add(rows.take(left))

    def rows_of(self, block: Any, low: int | None, result: PassResult) -> Rows:
        """The rows of a block with checked names and weights; ``result`` notes what the first pass finds."""
        if self.checked:
            if self.initial and self.model.order_key is not None:
                self.model.prepared(block.X)  # refuses rows that no model of this kind learns
            rows: Rows = block
            return rows
        X, y = (block.X, block.y) if self.check is None else self.check(block)
        ids, subjects = spelt_names(block.ids, block.subjects, self.model.spelling)
        n = X.shape[0]
        if self.initial:
            names = self._checked(X, y, ids, subjects, low, result)
        else:
            names = (
                self._numbered(low, n) if ids is None else as_key_column(ids, "ids"),
                None if subjects is None else as_subject_column(subjects),
            )
        return Rows(X, y, *names, self.model.checked_weights(getattr(block, "weights", None), n))

    def _checked(
        self,
        X: MatrixLike,
        y: npt.NDArray[Any],
        ids: ColumnLike,
        subjects: ColumnLike,
        low: int | None,
        result: PassResult,
    ) -> tuple[Column, Column | None]:
        """Ids and subjects of a block in the first pass, after a check of everything that could be refused later."""
        model, n = self.model, X.shape[0]
        model.encode_labels(y)
        if model.classifies:
            result.note_kind("labels", label_type(y))
        model.check_names_given(ids)
        result.note_numbered(ids is None)
        if ids is None:
            keys = self._numbered(low, n)
        else:
            keys = distinct_ids(ids, n)
            refuse_known(keys, model.core.place)
        result.note_names(keys, "ids")
        owners = None
        if subjects is not None:
            owners = check_subjects(subjects, n, model.core.subject_type, allow_no_subject=self.allow_no_subject)
            result.note_names(owners if isinstance(owners, np.ndarray) else each_owner(owners), "subjects")
        if model.order_key is not None:
            model.prepared(X)  # refuses rows that no model of this kind learns
        if result.offered is not None:
            result.offered.add(X, y)
        if isinstance(X, EncodedTable):
            result.note_encoding(X.report)
        return keys, owners

    @cached_property
    def first_number(self) -> int:
        """The number of the first row without an id."""
        return next_id(self.model.core.place) if self.start is None else self.start

    def _numbered(self, low: int | None, n: int) -> Column:
        if low is None:
            raise InputError(
                "ids are required: where parts of a table do not say how many rows they have, rows cannot be numbered "
                "through all of them."
            )
        if self.first_number + low + n > _NUMBERS_END:
            raise InputError("ids are required: numbering on from the largest id in the model would pass 64 bits.")
        return range(self.first_number + low, self.first_number + low + n)


class Engine:
    """Runs passes over a source: in this process, one block after the other. Others are in ``erasable.engines``.

    *Law*: the engine is no part of the state, which is the same bit for bit with any engine.

    Attributes
    ----------
    moved : int
        About how many bytes were sent to and from other processes so far.
    block_bytes : int
        About how large blocks of arrays should be.
    sends : bool
        Whether rows are sent to other processes, in every pass anew.
    helps_in_memory : bool
        Whether passes over arrays are worth their cost; without them, arrays are learnt as if there were no engine.
    """

    moved = 0
    block_bytes = 2**24
    sends = False
    helps_in_memory = True

    def screening(self, model: Model) -> Screening | None:
        """The screen of a model in its present state, for this engine."""
        return model.screening()

    def hashing(self) -> Hashing | None:
        """The function that hashes ids on this engine's device; None for the processor."""
        return None

    def results(self, source: RowSource, scan: Pass, limits: Callable[[], Limits]) -> Iterator[PassResult]:
        """The results of a pass over a source, part by part, in any order; ``limits`` returns the present limits."""
        low = 0
        for block in source:
            yield scan.run((block,), low, limits())
            low += len(block.y)

    def close(self) -> None:
        """Close what this engine opened itself: threads, processes, clusters. It can be used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # copies of an estimator share threads, processes and clusters


def learn_rows(
    model: Model,
    source: RowSource,
    *,
    budget_bytes: int = BUDGET_BYTES,
    allow_no_subject: bool = False,
    progress: Watch = None,
    reading: Watch = None,
    ahead: Ahead | None = None,
    engine: Engine | None = None,
    offered: OfferedRows | None = None,
    check: Check | None = None,
) -> LearnReport:
    """Learn the rows of all blocks as one call: in the order of their hashes, or in the given order.

    The model is changed in place. A refused call forgets the rows learnt so far, which leaves the model as it was.

    Raises InputError when rows that can be read only once exceed the budget; when ids repeat, see
    :class:`_RepeatedIds`. Raises ConfigurationError when the engine cannot do this, or there are no rows.

    Parameters
    ----------
    source : RowSource
        Read several times, unless ``source.once``: then all rows have to fit the budget, where order counts. Rows
        without ids are numbered through all blocks.
    budget_bytes : int
        About how many bytes of rows are buffered. Budget and ``engine`` change the speed and nothing else.
    progress, reading : callable, optional
        Called with the number of rows that are decided; and with that of rows read in the first pass of a new model,
        when none is decided yet.
    ahead : callable, optional
        Called with a model of the rows before, not to be changed, and rows that it has not learnt, of a sixteenth of
        the budget at most. In the given order at doublings of their number, from 128 on. In the order of the hashes
        once, at the end: with the last eighth, and the model without its core rows among them, which is bit for bit
        the model before them.
    offered : OfferedRows, optional
        Counts the labels or targets of all rows, and finds the ranges of their columns.
    check : callable, optional
        Checks a block where it is read, and returns its rows and labels; it has to be such as can be sent.
    """
    scan = Pass(model, model.order_key or 0, offered=offered, check=check, checked=source.checked)
    scan = replace(scan, allow_no_subject=allow_no_subject)
    run = _Run(model, source, engine or Engine(), budget_bytes, scan, progress, reading, ahead)
    before = set(model.core.ids())
    try:
        parts = list(run.in_given_order() if model.order_key is None else run.in_hash_order())
        run.show_last_eighth(before)
    except BaseException:
        if model.version_token is not None:  # otherwise it was interrupted while rows were being written
            model.remove(_added(model, before))
        raise
    if not run.n_rows:
        raise ConfigurationError("there is nothing to learn: no rows came.")
    if progress is not None:
        progress(run.n_rows)
    return run.report(parts)


def _added(model: Model, before: set[Key]) -> list[Key]:
    """Ids of the core rows that are not among those before, in learning order."""
    return [key for key in model.core.ids() if key not in before]


@dataclass(eq=False)
class _Run:
    """One call of :func:`learn_rows`."""

    model: Model
    source: RowSource
    engine: Engine
    budget: int
    scan: Pass
    progress: Watch
    reading: Watch
    ahead: Ahead | None
    n_rows: int = 0  # in the first pass
    weightless: int = 0
    furthest: int = 0  # rows reported as decided
    preview: RowBuffer | None = None
    rounds: list[Round] = field(default_factory=list)

    def show_last_eighth(self, before: set[Key]) -> None:
        """Call ``ahead`` with rows of the last eighth and the model without its new core rows among them."""
        if self.ahead is None or self.preview is None or not self.preview.parts:
            return
        new = _added(self.model, before)
        late = keyed_hash(new, self.scan.key) >= np.uint64(_LAST_EIGHTH)
        earlier = copy_without(self.model, [new[i] for i in np.flatnonzero(late).tolist()])
        self.ahead(earlier, self.preview.release())
        earlier.erase()

    def report(self, parts: list[LearnReport]) -> LearnReport:
        """Return one report of all rounds or blocks."""
        decisions = sum((part.decisions for part in parts), Decisions())
        decisions.screened += self.n_rows - self.weightless - sum(part.rows for part in parts)
        added = sum(part.core_rows_added for part in parts)
        counts = self.n_rows, added, len(self.model.core), decisions, self.weightless
        return LearnReport(*counts, rounds=tuple(self.rounds), **self.model.selection.rate_facts())

    def in_given_order(self) -> Iterator[LearnReport]:
        """Learn the blocks in one pass; one report for each run of rows that was learnt together."""
        if type(self.engine) is not Engine:
            raise ConfigurationError(
                'engine= screens rows in any order, and with order= "given" they are decided in their order: leave '
                "one of them out."
            )
        model, ahead, done, due = self.model, self.ahead, 0, _FIRST_PREVIEW
        runs, repeated = LabelRuns(), _RepeatedIds(0)
        for block in self._checked_blocks():
            if model.classifies and len(block):
                runs.add(block.y)
            if not isinstance(block.ids, range):
                repeated.add(keyed_hash(block.ids, 0))
            while len(block):
                wait = max(0, due - done)  # rows until some are previewed; with too few in the block, in the next one
                if ahead is None or len(block) < wait + _ENOUGH_PREVIEW:
                    wait = len(block)
                elif not wait:
                    most = max(1, int(_PREVIEW * self.budget / block.sizes().mean()))
                    ahead(model, block.part(0, min(done, most)))
                    due, wait = 2 * done, min(len(block), done)
                yield block.part(0, wait).learnt_by(model, self.progress, done)
                done += wait
                block = block.part(wait, len(block))
        if not self.source.once:
            repeated.refuse(self._read_again(self.scan))
        if model.selection.one_by_one:
            runs.warn(stacklevel=2)

    def _checked_blocks(self) -> Iterator[Rows]:
        """The blocks, checked, without the rows whose weights round to zero."""
        result = self.scan.empty()
        result.offered = self.scan.offered
        for block in self.source:
            rows = self.scan.rows_of(block, self.n_rows, result)
            kept = rows if rows.weights is None else rows.take(rows.weights > 0)
            self.n_rows += len(rows)
            self.weightless += len(rows) - len(kept)
            yield kept

    def in_hash_order(self) -> Iterator[LearnReport]:
        """Learn in rounds, until every row is decided; one report for each round with survivors."""
        first: int | None = 0
        while first is not None:
            began, cpu_began, moved = time.perf_counter(), time.process_time(), self.engine.moved
            result = self.one_pass(first)
            buffer, passed, added = result.survivors, time.perf_counter(), 0
            survivors = len(buffer)
            if survivors:
                # Rows that were screened may be left over for a later round.
                self.furthest = min(self.furthest, self.n_rows - survivors)
                report = buffer.release().learnt_by(self.model, self.progress, self.furthest)  # no name keeps the rows
                added = report.core_rows_added
                yield report
                self.furthest += survivors
            times = passed - began, time.perf_counter() - passed, time.process_time() - cpu_began
            self.rounds.append(Round(result.rows, survivors, added, self.engine.moved - moved, *times))
            first = buffer.end

    def one_pass(self, first: int) -> PassResult:
        """The result of a pass over the rows from a hash on."""
        initial, source = not self.n_rows, self.source
        screen, alone = self.engine.screening(self.model), self.model.selection.independent
        scan = replace(
            self.scan,
            model=self.model.outline(names=initial),
            first=first,
            budget=math.inf if alone else self.budget,  # every row that is kept is stored
            sparing=screen is None and not source.once and not alone,
            screen=screen,
            initial=initial,
            preview_bytes=None if self.ahead is None else _PREVIEW * self.budget,
            hashing=self.engine.hashing(),
        )
        total = scan.empty(Limits(None if alone else self._end(first, screen)))
        repeated = _RepeatedIds(scan.key)

        def limits() -> Limits:
            end = None if repeated.end is None else int(repeated.end)
            return Limits(total.survivors.end, None if total.preview is None else total.preview.end, end)

        for result in self.engine.results(source, scan, limits):
            total.merge(result)
            for hashes in total.hashes:
                repeated.add(hashes)
            total.hashes.clear()
            if source.once and total.survivors.end is not None:
                raise InputError(
                    f"these rows can be read only once, and exceed the {self.budget:,} bytes that are held in memory, "
                    "so they cannot be put into the order of their hashes: save them to a file and give that, or "
                    'have them decided in their order, with order= "given".'
                )
            if self.progress is not None and total.settled > self.furthest:
                self.furthest = total.settled
                self.progress(total.settled)
            elif self.reading is not None and initial and screen is None:
                self.reading(total.rows)
        if total.rows < self.n_rows:
            raise InputError("the table changed while it was read: it has fewer rows than before.")
        if initial:
            self.n_rows, self.weightless, self.preview = total.rows, total.weightless, total.preview
            self.scan = replace(self.scan, start=scan.first_number if total.numbered else None)
            if scan.offered is not None and total.offered is not None:
                scan.offered.join(total.offered)
            if total.encoding is not None:
                source.note_encoding(total.encoding)
            if not source.once:
                repeated.refuse(self._read_again(scan))
        return total

    def _end(self, first: int, screen: Screening | None) -> int | None:
        """The hash up to which a round that begins at ``first`` takes rows; None for all."""
        share = self.source.first_share(self.budget)
        few = 0 if share is None else int(share * 2**64)
        if screen is None:
            end = first + few if few else 0
        else:
            end = _GROWTH * (first or few) if self.source.in_memory else 0
        return end if 0 < end < 2**64 else None

    def _read_again(self, scan: Pass) -> Iterator[Rows]:
        """All rows, read lazily."""
        again = replace(scan, initial=False, start=0)
        for block in self.source:
            yield again.rows_of(block, 0, again.empty())


class _RepeatedIds:
    """Ids that repeat, in whatever blocks: of their hashes the lowest, about a million, are compared.

    *Law*: no table of distinct ids is refused. In one of up to a million rows (2^20) every repetition is. Of n rows
    beyond that, a repeated id is noticed with chance ``2**20 / n``, so k of them go unnoticed with chance
    ``(1 - 2**20 / n) ** k``. Repetitions within a block, and among rows that are buffered together, are always noticed;
    those among rows that can be read only once and are decided in the given order, only where one became a core row.
    *Cost*: 16 bytes for each of the million, and one more pass where two hashes are equal.
    """

    MOST = 2**20

    def __init__(self, key: int) -> None:
        self.key = key
        self.lowest: Hashes = np.empty(0, dtype=np.uint64)  # filled up to ``held``; room for twice as many at most
        self.held = 0
        self.end: np.uint64 | None = None

    def add(self, hashes: Hashes) -> None:
        """Add the hashes of ids."""
        for low in range(0, len(hashes), self.MOST):
            some = hashes[low : low + self.MOST]
            kept = some if self.end is None else some[some < self.end]
            if self.held + len(kept) > 2 * self.MOST:
                self.lowest[: self.held].partition(self.MOST)
                self.end, self.held = self.lowest[self.MOST].copy(), self.MOST
                kept = kept[kept < self.end]
            if self.held + len(kept) > len(self.lowest):
                room = np.empty(min(2 * (self.held + len(kept)), 2 * self.MOST), dtype=np.uint64)
                room[: self.held] = self.lowest[: self.held]
                self.lowest = room
            self.lowest[self.held : self.held + len(kept)] = kept
            self.held += len(kept)

    def refuse(self, blocks: Iterable[Rows]) -> None:
        """Raise InputError if ids repeat; where hashes are equal, the ids in ``blocks`` are compared."""
        ordered, self.lowest = self.lowest[: self.held], np.empty(0, dtype=np.uint64)
        self.held = 0
        ordered.sort()
        suspects = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(suspects):
            return
        counts: Counter[Any] = Counter()
        for block in blocks:
            counts.update(pick(block.ids, np.flatnonzero(np.isin(keyed_hash(block.ids, self.key), suspects))))
        if repeated := counts.total() - len(counts):
            raise InputError(f"ids must be distinct: {repeated} or more repeat an earlier one, in another block.")


def copy_without(model: Model, keys: list[Any]) -> Model:
    """Another model, of the core rows that are left without these; no array is shared with the first."""
    core, fixed = model.core, (model.configuration, model.feature_map)
    known: dict[int, Any] = {id(part): part for part in fixed}
    known[id(core)] = core.copy()
    other = deepcopy(model, known)
    other.remove(keys)
    return other
