"""Rows that come in blocks, more of them than memory holds, decided in the order of their hashes: in rounds.

Leverage, and whatever else rows are selected by, only falls as rows are selected. So a row that the core rows decided
before it rule out is out for good, in whatever order it is asked about: *stale screening* is safe. One round is one
pass over the blocks, in any order: of the rows whose turn has not come yet, those that the core rows of the rounds
before do not rule out are held, the ones of lowest hash within a budget; then they are decided in their order. Rounds
follow until nothing was left over. The first of a new model, with no core rows yet, has nothing to rule out rows with,
so it holds few; as a rule the second is the last.

*Law*: the model is that of learning all rows in one call, whatever the blocks, their order and the budget.
*Contract*: whoever screens (:meth:`Model.screening`) needs no order and no other rows, so it can be done elsewhere.

*Rows before they are learnt*: whoever asks is shown rows that come later and a model of all that come before, to see
how well it predicts them. In the order of the hashes that is done once all is learnt: the rows are those of the last
eighth, and the model is the one at hand without what it kept of them, which is bit for bit the model that it was.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from typing import Any

import numpy as np

from erasable.core.keyed_hash import Hashes, keyed_hash
from erasable.core.layout import each_owner
from erasable.core.selector import Decisions
from erasable.errors import ConfigurationError, InputError
from erasable.models.blocks import Block, Held, Rows
from erasable.models.checks import check_ids, check_labels, check_subjects, next_id
from erasable.models.keys import Column, as_key_column, as_subject_column, label_type, pick, same_kind
from erasable.models.model import Model
from erasable.models.order import LabelRuns
from erasable.models.reports import LearnReport

BUDGET_BYTES = 2**28
_SHOWN = 1 / 16  # of the budget: for rows that are shown before they are learnt
_LAST_EIGHTH = 7 * 2**61  # of the hashes
_FIRST_SHOWN, _ENOUGH_SHOWN = 128, 100  # rows

#: Called with a model that has learnt all rows before these, and these.
Ahead = Callable[[Model, Rows], None]


def learn_blocks(
    model: Model,
    blocks: Iterable[Block],
    *,
    once: bool = False,
    budget_bytes: int = BUDGET_BYTES,
    allow_no_subject: bool = False,
    progress: Callable[[int], None] | None = None,
    reading: Callable[[int], None] | None = None,
    ahead: Ahead | None = None,
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
    reading : callable, optional
        Called with the number of rows read so far in the first pass of a new model, when no fate is known yet.
    ahead : callable, optional
        Called with a model of the rows before, not to be changed, and rows that it has not learnt, of a sixteenth of
        the budget at most. In the order of the hashes once, with the last eighth; as they come, at doublings of their
        number, from 128 on.

    Raises
    ------
    InputError
        When rows that can be read but once are more than the budget; when ids repeat, see :class:`_Repeated`.
    """
    named = _NamedBlocks(model, blocks, allow_no_subject)
    try:
        if model.order_key is None:
            parts = list(_as_given(model, named, once, progress, ahead, _SHOWN * budget_bytes))
        else:
            shown = None if ahead is None else Held(_LAST_EIGHTH, _SHOWN * budget_bytes)
            rounds = _Rounds(model, named, model.order_key, once, budget_bytes, shown)
            before = len(model.core)
            parts = list(rounds.learnt(progress, reading))
            if ahead is not None and shown is not None and shown.parts:
                late = keyed_hash(new := model.core.ids()[before:], model.order_key) >= np.uint64(_LAST_EIGHTH)
                earlier = _without(model, [new[i] for i in np.flatnonzero(late).tolist()])
                ahead(earlier, shown.joined())
                earlier.erase()
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


def _as_given(
    model: Model,
    blocks: _NamedBlocks,
    once: bool,
    progress: Callable[[int], None] | None,
    ahead: Ahead | None,
    shown_bytes: float,
) -> Iterator[LearnReport]:
    runs, repeated, done, due = LabelRuns(), _Repeated(0), 0, _FIRST_SHOWN
    for block in blocks:
        if not len(block):  # none of them has a weight
            continue
        runs.add(block.y)
        repeated.add(block.ids)
        while len(block):
            wait = max(0, due - done)  # rows until some are shown; where the block has too few of them, its successor's
            if ahead is None or len(block) < wait + _ENOUGH_SHOWN:
                wait = len(block)
            elif not wait:
                ahead(model, block.part(0, min(done, max(1, int(shown_bytes / block.sizes().mean())))))
                due, wait = 2 * done, min(len(block), done)
            yield block.part(0, wait).learnt_by(model, progress, done)
            done += wait
            block = block.part(wait, len(block))
    if not once:
        repeated.refuse(blocks)
    if model.one_by_one:
        runs.warn(stacklevel=2)


class _Rounds:
    """Blocks gone through again and again, until every row was decided."""

    def __init__(
        self, model: Model, blocks: _NamedBlocks, key: int, once: bool, budget_bytes: int, shown: Held | None
    ) -> None:
        self.model, self.blocks, self.key = model, blocks, key
        self.once, self.budget, self.shown = once, budget_bytes, shown
        self.repeated = _Repeated(key)
        self.furthest = 0  # how many rows' fate is known

    def learnt(
        self, progress: Callable[[int], None] | None, reading: Callable[[int], None] | None
    ) -> Iterator[LearnReport]:
        """The rounds, one report for each that decided rows."""
        first: int | None = 0
        while first is not None:
            held = self._one_pass(first, progress, reading)
            if held.parts:
                rows = held.joined()
                # Some that were screened have their turn later.
                self.furthest = min(self.furthest, self.blocks.n_rows - len(rows))
                yield rows.learnt_by(self.model, progress, self.furthest)
                self.furthest += len(rows)
            first = held.end

    def _one_pass(
        self, first: int, progress: Callable[[int], None] | None, reading: Callable[[int], None] | None
    ) -> Held:
        """Rows from a hash on that may be selected."""
        screen, looking, settled, read = self.model.screening(), not self.blocks.passes, 0, 0
        held = Held(first, self.budget, sparing=screen is None and not self.once)
        for block in self.blocks:
            hashes = keyed_hash(block.ids, self.key)
            if looking:
                self._look(block, hashes)
            settled += int(np.count_nonzero(hashes < np.uint64(first)))
            open_rows = held.within(hashes)
            rows, hashes = block.take(open_rows), hashes[open_rows]
            if screen is not None and len(rows):
                left, always = screen(self.model.prepared(rows.X)), self.model.always_kept(rows.ids)
                left = left if always is None else left | always
                settled += len(rows) - int(np.count_nonzero(left))
                rows, hashes = rows.take(left), hashes[left]
            held.offer(rows, hashes)
            if self.once and held.end is not None:
                raise InputError(
                    f"these rows can be read only once, and are more than the {self.budget:,} bytes that are held of "
                    "them, so they cannot be put into the order of their hashes: save them to a file and give that, or "
                    'have them decided as they come, with order= "given".'
                )
            read += len(block)
            if progress is not None and settled > self.furthest:
                self.furthest = settled
                progress(settled)
            elif reading is not None and looking and screen is None:
                reading(read)
        if looking and not self.once:
            self.repeated.refuse(self.blocks)
        return held

    def _look(self, block: Rows, hashes: Hashes) -> None:
        """What is done with every row, once."""
        self.repeated.add(block.ids, hashes)
        if self.shown is not None:
            late = self.shown.within(hashes)
            self.shown.offer(block.take(late), hashes[late])


class _Repeated:
    """Ids that come twice, in whatever blocks: of their hashes under a key the lowest, some million, are looked at.

    *Law*: no table of distinct ids is refused. In one of up to a million rows (2^20) every repetition is. Of n rows
    beyond that, a repeated id is noticed with chance ``2**20 / n``, so k of them go unnoticed with chance
    ``(1 - 2**20 / n) ** k``. Repetitions within a block, and among rows that are held together, are always noticed;
    those among rows that can be read but once and are decided as they come, only where one of them became a core row.
    *Cost*: 8 bytes a hash, and one more pass where two hashes are equal.
    """

    MOST = 2**20

    def __init__(self, key: int) -> None:
        self.key = key
        self.parts: list[Hashes] = []
        self.held = 0
        self.end: np.uint64 | None = None

    def add(self, ids: Column, hashes: Hashes | None = None) -> None:
        """Ids that follow, and their hashes where they are known; rows that were numbered here need none."""
        if isinstance(ids, range):
            return
        hashes = keyed_hash(ids, self.key) if hashes is None else hashes
        kept = hashes if self.end is None else hashes[hashes < self.end]
        self.parts.append(kept)
        self.held += len(kept)
        if self.held > 2 * self.MOST:
            lowest = np.partition(np.concatenate(self.parts), self.MOST)
            self.end = lowest[self.MOST]
            self.parts, self.held = [lowest[: self.MOST].copy()], self.MOST

    def refuse(self, blocks: Iterable[Rows]) -> None:
        """Refuse ids that repeat: equal hashes do not say so, and the ids are looked at.

        Raises
        ------
        InputError
        """
        ordered = np.sort(np.concatenate([np.empty(0, np.uint64), *self.parts]))
        self.parts = []
        suspects = np.unique(ordered[1:][ordered[1:] == ordered[:-1]])
        if not len(suspects):
            return
        counts: Counter[Any] = Counter()
        for block in blocks:
            counts.update(pick(block.ids, np.flatnonzero(np.isin(keyed_hash(block.ids, self.key), suspects))))
        if repeated := counts.total() - len(counts):
            raise InputError(f"ids must be distinct: {repeated} or more repeat an earlier one, in another block.")


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
            self._check_kind(subjects if isinstance(subjects, np.ndarray) else each_owner(subjects), "subjects")
        if self.model.order_key is not None:
            self.model.prepared(block.X)  # refuses rows that no model of this kind learns
        rows = Rows(block.X, block.y, ids, subjects, self.model.checked_weights(block.weights, n)).that_count()
        self.weightless += n - len(rows)
        return rows

    def _again(self, block: Block, low: int, n: int) -> Rows:
        ids = self._numbered(low, n) if block.ids is None else as_key_column(block.ids, "ids")
        owners = None if block.subjects is None else as_subject_column(block.subjects)
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


def _without(model: Model, keys: list[Any]) -> Model:
    """Another model, of the core rows that are left without these; no array is shared with the first."""
    core, fixed = model.core, (model.configuration, getattr(model, "feature_map", None))
    known: dict[int, Any] = {id(part): part for part in fixed}
    known[id(core)] = core.copy()
    other = deepcopy(model, known)
    other.take_out(keys)
    return other
