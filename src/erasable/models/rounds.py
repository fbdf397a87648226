"""Rows that come in blocks, more of them than memory holds, decided in the order of their hashes: in rounds.

Leverage, and whatever else rows are selected by, only falls as rows are selected. So a row that the core rows decided
before it rule out is out for good, in whatever order it is asked about: *stale screening* is safe. One round is one
pass over the blocks, in any order: of the rows whose turn has not come yet, those that the core rows of the rounds
before do not rule out are held, the ones of lowest hash within a budget; then they are decided in their order. Rounds
follow until nothing was left over. The first of a new model, with no core rows yet, has nothing to rule out rows with,
so it holds few; as a rule the second is the last. Where rows lie in memory and their hashes are known, a pass costs
next to nothing but its screening, and each round looks at no more than sixteen times the rows of all before: every row
is still screened about once, against a younger core, and fewer survive.

*Law*: the model is that of learning all rows in one call, whatever the blocks, their order and the budget.
*Contract*: whoever screens (:meth:`Model.screening`) needs no order and no other rows, so it can be done elsewhere: one
pass is what an engine sees of the parts, see :mod:`erasable.models.passes`.

*Rows before they are learnt*: whoever asks is shown rows that come later and a model of all that come before, to see
how well it predicts them. In the order of the hashes that is done once all is learnt: the rows are those of the last
eighth, and the model is the one at hand without what it kept of them, which is bit for bit the model that it was.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from erasable.core.keyed_hash import Hashes, keyed_hash
from erasable.core.names import Key
from erasable.core.selector import Decisions
from erasable.errors import ConfigurationError, InputError
from erasable.models.blocks import Block, Held, Rows
from erasable.models.class_balance import LabelRuns
from erasable.models.inputs import Column, pick
from erasable.models.model import Model
from erasable.models.passes import LAST_EIGHTH, Engine, Limits, Seen, Sieve
from erasable.models.reports import LearnReport, Round

BUDGET_BYTES = 2**28
_GROWTH = 16  # of the rows that had their turn, in a round over rows that are at hand
_SHOWN = 1 / 16  # of the budget: for rows that are shown before they are learnt
_FIRST_SHOWN, _ENOUGH_SHOWN = 128, 100  # rows

#: Called with a model that has learnt all rows before these, and these.
Ahead = Callable[[Model, Rows], None]


def learn_blocks(
    model: Model,
    blocks: Iterable[Any],
    *,
    once: bool = False,
    budget_bytes: int = BUDGET_BYTES,
    allow_no_subject: bool = False,
    progress: Callable[[int], None] | None = None,
    reading: Callable[[int], None] | None = None,
    ahead: Ahead | None = None,
    engine: Engine | None = None,
    offered: Any = None,
    check: Callable[[Any], Block] | None = None,
) -> LearnReport:
    """Learn the rows of all blocks as one call: in the order of their hashes, or as they come.

    Parameters
    ----------
    model : Model
        Changed in place. Where this is refused, the rows learnt so far are forgotten again, which leaves the model
        as it was.
    blocks : iterable of Block, or of what ``check`` makes one of
        Gone through several times, unless ``once``. Rows without ids are numbered through all blocks.
    once : bool, default=False
        Whether the blocks can be gone through but once: then all rows have to fit the budget, where order counts.
    budget_bytes : int
        About how many bytes of rows are held. It changes the number of passes and nothing else.
    progress : callable, optional
        Called with the number of rows whose fate is known.
    reading : callable, optional
        Called with the number of rows read so far in the first pass of a new model, when no fate is known yet.
    ahead : callable, optional
        Called with a model of the rows before, not to be changed, and rows that it has not learnt, of a sixteenth of
        the budget at most. In the order of the hashes once, with the last eighth; as they come, at doublings of their
        number, from 128 on.
    engine : Engine, optional
        Where rows are screened: by default here, block by block. It changes the speed and nothing else.
    offered : OfferedLabels or OfferedTargets, optional
        Is given what all rows are to answer.
    check : callable, optional
        Checks a block as it came, wherever it is read; it has to be such as can be sent.

    Raises
    ------
    InputError
        When rows that can be read but once are more than the budget; when ids repeat, see :class:`_Repeated`.
    ConfigurationError
        When the engine cannot do this.
    """
    engine = Engine() if engine is None else engine
    before = set(model.core.ids())
    rounds: _Rounds | _InTurn
    if model.order_key is None:
        engine.refuse_given()
        rounds = _InTurn(model, blocks, once, allow_no_subject, ahead, _SHOWN * budget_bytes, offered, check)
    else:
        shown_bytes = None if ahead is None else _SHOWN * budget_bytes
        rounds = _Rounds(model, blocks, engine, once, budget_bytes, allow_no_subject, shown_bytes, offered, check)
    try:
        parts = list(rounds.learnt(progress, reading))
        if ahead is not None and isinstance(rounds, _Rounds) and rounds.shown is not None and rounds.shown.parts:
            assert model.order_key is not None
            late = keyed_hash(new := _added(model, before), model.order_key) >= np.uint64(LAST_EIGHTH)
            earlier = copy_without(model, [new[i] for i in np.flatnonzero(late).tolist()])
            ahead(earlier, rounds.shown.joined())
            earlier.erase()
    except BaseException:
        if model.moment is not None:  # else it was interrupted while rows were being written
            model.take_out(_added(model, before))
        raise
    rows = rounds.n_rows
    if not rows:
        raise ConfigurationError("there is nothing to learn: no rows came.")
    if progress is not None:
        progress(rows)
    decisions = sum((part.decisions for part in parts), Decisions())
    decisions.screened += rows - rounds.weightless - sum(part.rows for part in parts)
    added = sum(part.core_rows_added for part in parts)
    return LearnReport(
        rows, added, len(model.core), decisions, rounds.weightless, rounds=tuple(getattr(rounds, "reports", ()))
    )


def _added(model: Model, before: set[Key]) -> list[Key]:
    """Ids of the core rows that are not among those that there were before, in learning order."""
    return [key for key in model.core.ids() if key not in before]


class _InTurn:
    """Blocks gone through once, their rows decided as they come."""

    def __init__(
        self,
        model: Model,
        blocks: Iterable[Any],
        once: bool,
        allow_no_subject: bool,
        ahead: Ahead | None,
        shown_bytes: float,
        offered: Any,
        check: Any,
    ) -> None:
        self.model, self.blocks, self.once, self.ahead, self.shown_bytes = model, blocks, once, ahead, shown_bytes
        self.sieve = Sieve(model, 0, allow_no_subject=allow_no_subject, check=check)
        self.seen = self.sieve.nothing()
        self.seen.offered = offered
        self.n_rows = self.weightless = 0

    def learnt(self, progress: Callable[[int], None] | None, reading: Any = None) -> Iterator[LearnReport]:
        """One report for each run of rows that was learnt together."""
        model, ahead = self.model, self.ahead
        runs, repeated, done, due = LabelRuns(), _Repeated(0), 0, _FIRST_SHOWN  # of targets, no runs
        for block in self._checked():
            if not len(block):  # none of them has a weight
                continue
            if model.classifies:
                runs.add(block.y)
            repeated.add(block.ids)
            while len(block):
                wait = max(0, due - done)  # rows until some are shown; where the block has too few, its successor's
                if ahead is None or len(block) < wait + _ENOUGH_SHOWN:
                    wait = len(block)
                elif not wait:
                    ahead(model, block.part(0, min(done, max(1, int(self.shown_bytes / block.sizes().mean())))))
                    due, wait = 2 * done, min(len(block), done)
                yield block.part(0, wait).learnt_by(model, progress, done)
                done += wait
                block = block.part(wait, len(block))
        if not self.once:
            repeated.refuse(_once_more(self.sieve, self.blocks))
        if model.one_by_one:
            runs.warn(stacklevel=2)

    def _checked(self) -> Iterator[Rows]:
        for block in self.blocks:
            rows = self.sieve.checked(block, self.n_rows, self.seen)
            self.n_rows += len(block.y)
            self.weightless += len(block.y) - len(rows)
            yield rows


class _Rounds:
    """Blocks gone through again and again, until every row was decided."""

    def __init__(
        self,
        model: Model,
        blocks: Iterable[Any],
        engine: Engine,
        once: bool,
        budget_bytes: int,
        allow_no_subject: bool,
        shown_bytes: float | None,
        offered: Any,
        check: Any,
    ) -> None:
        assert model.order_key is not None
        self.model, self.blocks, self.engine, self.key = model, blocks, engine, model.order_key
        self.once, self.budget, self.allow_no_subject = once, budget_bytes, allow_no_subject
        self.shown_bytes, self.offered, self.check = shown_bytes, offered, check
        self.shown: Held | None = None
        self.repeated = _Repeated(self.key)
        self.furthest = 0  # how many rows' fate is known
        self.n_rows = self.weightless = 0  # in the first pass
        self.start: int | None = None  # what rows without ids are numbered from
        self.reports: list[Round] = []

    def learnt(
        self, progress: Callable[[int], None] | None, reading: Callable[[int], None] | None
    ) -> Iterator[LearnReport]:
        """The rounds, one report for each that decided rows."""
        first: int | None = 0
        while first is not None:
            began, here = time.perf_counter(), time.process_time()
            moved = self.engine.moved
            seen = self._one_pass(first, progress, reading)
            held, passed, added = seen.held, time.perf_counter(), 0
            survivors = sum(len(rows) for rows, _, _ in held.parts)
            if held.parts:
                # Some that were screened have their turn later.
                self.furthest = min(self.furthest, self.n_rows - survivors)
                report = held.joined().learnt_by(self.model, progress, self.furthest)  # no name: let go of at once
                added = report.core_rows_added
                yield report
                self.furthest += survivors
            times = passed - began, time.perf_counter() - passed, time.process_time() - here
            self.reports.append(Round(seen.rows, survivors, added, self.engine.moved - moved, *times))
            first = held.end

    def _one_pass(
        self, first: int, progress: Callable[[int], None] | None, reading: Callable[[int], None] | None
    ) -> Seen:
        """What is seen of the rows from a hash on."""
        looking = not self.n_rows
        screen = self.engine.screening(self.model)
        sieve = Sieve(
            self.model.outline(names=looking),
            self.key,
            first,
            self.budget,
            screen is None and not self.once,
            screen,
            looking,
            self.start,
            self.shown_bytes,
            self.allow_no_subject,
            self.offered,
            self.check,
            self.engine.hashing(),
            getattr(self.blocks, "distinct", False),
        )
        total = sieve.nothing(Limits(held=self._end(first, screen)))

        def limits() -> Limits:
            end = None if self.repeated.end is None else int(self.repeated.end)
            return Limits(total.held.end, None if total.shown is None else total.shown.end, end)

        for part in self.engine.seen(self.blocks, sieve, limits):
            total.add(part)
            for hashes in total.hashes:
                self.repeated.note(hashes)
            total.hashes.clear()
            if self.once and total.held.end is not None:
                raise InputError(
                    f"these rows can be read only once, and are more than the {self.budget:,} bytes that are held of "
                    "them, so they cannot be put into the order of their hashes: save them to a file and give that, or "
                    'have them decided as they come, with order= "given".'
                )
            if progress is not None and total.settled > self.furthest:
                self.furthest = total.settled
                progress(total.settled)
            elif reading is not None and looking and screen is None:
                reading(total.rows)
        if total.rows < self.n_rows:
            raise InputError("the table changed while it was read: it has fewer rows than before.")
        if looking:
            self._looked(total, sieve)
        return total

    def _end(self, first: int, screen: Any) -> int | None:
        """The hash up to which rows have their turn in a round that begins at one; None for all."""
        blocks: Any = self.blocks
        share = blocks.first_share(self.budget) if hasattr(blocks, "first_share") else None
        few = 0 if share is None else int(share * 2**64)
        if screen is None:
            end = first + few if few else 0
        else:
            end = _GROWTH * (first or few) if getattr(blocks, "at_hand", False) else 0
        return end if 0 < end < 2**64 else None

    def _looked(self, total: Seen, sieve: Sieve) -> None:
        """What the first pass is for, beside its rows."""
        self.n_rows, self.weightless, self.shown = total.rows, total.weightless, total.shown
        self.start = sieve.first_number if total.numbered else None
        if self.offered is not None:
            self.offered.join(total.offered)
        if total.encoding is not None and hasattr(self.blocks, "noted"):
            self.blocks.noted(total.encoding)
        if not self.once:
            self.repeated.refuse(_once_more(sieve, self.blocks))


class _Repeated:
    """Ids that come twice, in whatever blocks: of their hashes under a key the lowest, some million, are looked at.

    *Law*: no table of distinct ids is refused. In one of up to a million rows (2^20) every repetition is. Of n rows
    beyond that, a repeated id is noticed with chance ``2**20 / n``, so k of them go unnoticed with chance
    ``(1 - 2**20 / n) ** k``. Repetitions within a block, and among rows that are held together, are always noticed;
    those among rows that can be read but once and are decided as they come, only where one of them became a core row.
    *Cost*: 16 bytes for each of the million, and one more pass where two hashes are equal.
    """

    MOST = 2**20

    def __init__(self, key: int) -> None:
        self.key = key
        self.lowest: Hashes = np.empty(0, dtype=np.uint64)  # filled up to ``held``; room for twice as many at most
        self.held = 0
        self.end: np.uint64 | None = None

    def add(self, ids: Column) -> None:
        """Ids that follow; rows that were numbered here need no look."""
        if not isinstance(ids, range):
            self.note(keyed_hash(ids, self.key))

    def note(self, hashes: Hashes) -> None:
        """Hashes of ids that follow."""
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
        """Refuse ids that repeat: equal hashes do not say so, and the ids are looked at.

        Raises
        ------
        InputError
        """
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


def _once_more(sieve: Sieve, blocks: Iterable[Any]) -> Iterator[Rows]:
    """The rows of all blocks, which are not gone through before the first is asked for."""
    for block in blocks:
        yield sieve.again(block, 0)


def copy_without(model: Model, keys: list[Any]) -> Model:
    """Another model, of the core rows that are left without these; no array is shared with the first."""
    core, fixed = model.core, (model.configuration, model.feature_map)
    known: dict[int, Any] = {id(part): part for part in fixed}
    known[id(core)] = core.copy()
    other = deepcopy(model, known)
    other.take_out(keys)
    return other
