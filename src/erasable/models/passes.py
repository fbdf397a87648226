"""One pass over rows: what is done with each part of them, wherever it is, and what comes back.

A :class:`Sieve` is all that a part of the rows is looked at with: how rows are checked and prepared, the key of their
hashes, and the screen. It is frozen and can be sent. What it makes of a part, :class:`Seen`, can be sent back: the rows
that may be selected, those of lowest hash within the budget, and counts. ``Seen`` adds up, in any order and grouping.
An :class:`Engine` says where the parts are looked at: here, one after the other, unless another one is given.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from erasable.core.keyed_hash import Hashes, keyed_hash
from erasable.core.names import each_owner
from erasable.errors import ConfigurationError, InputError
from erasable.models.blocks import Block, Held, Rows
from erasable.models.inputs import (
    Column,
    as_key_column,
    as_subject_column,
    check_subjects,
    distinct_ids,
    label_type,
    next_id,
    refuse_kind,
    refuse_known,
    spelt_names,
)
from erasable.models.model import Model
from erasable.schemas import EncodedTable, EncodingReport

LAST_EIGHTH = 7 * 2**61  # of the hashes
_NUMBERS_END = 2**63
_MOST = 0.75  # of the rows of a block

Screening = Callable[[Any], npt.NDArray[np.bool_]]
Hashing = Callable[[Any, int], Hashes]


class Limits(NamedTuple):
    """Hashes from which on a pass needs no more rows, by what it has seen so far; None where it needs all.

    They only fall, so those of an earlier moment are as good: more comes back than is needed.
    """

    held: int | None = None
    shown: int | None = None
    repeated: int | None = None


_NO_LIMITS = Limits()


@dataclass(eq=False)
class Seen:
    """What a pass has seen: of a block, of a part, or of all.

    Attributes
    ----------
    held : Held
        The rows that may be selected.
    shown : Held or None
        Rows to be shown before they are learnt.
    rows, weightless, settled : int
        Rows in all; those whose weight rounds to zero; those whose fate is known.
    hashes : list of Hashes
        Of rows that came with ids, in a first pass.
    kinds : dict
        Of which type labels, ids and subjects are.
    numbered : bool or None
        Whether rows came without ids.
    offered
        What rows are to answer, in a first pass, where somebody asked.
    encoding : EncodingReport or None
        What became of cells that a schema encoded, in a first pass.
    """

    held: Held
    shown: Held | None = None
    rows: int = 0
    weightless: int = 0
    settled: int = 0
    hashes: list[Hashes] = field(default_factory=list)
    kinds: dict[str, type] = field(default_factory=dict)
    numbered: bool | None = None
    offered: Any = None
    encoding: EncodingReport | None = None

    def add(self, other: Seen) -> None:
        """What was seen elsewhere.

        Raises
        ------
        InputError, InputTypeError
            When the two are not of one table.
        """
        if other.numbered is not None:
            self.note_numbered(other.numbered)
        for name, kind in other.kinds.items():
            self.note_kind(name, kind)
        self.held.take_over(other.held)
        if self.shown is not None and other.shown is not None:
            self.shown.take_over(other.shown)
        self.rows += other.rows
        self.weightless += other.weightless
        self.settled += other.settled
        self.hashes += other.hashes
        if self.offered is not None and other.offered is not None:
            self.offered.join(other.offered)
        self.note_encoding(other.encoding)

    def note_kind(self, name: str, kind: type) -> None:
        """Of which type labels, ids or subjects are; refused where others were of another."""
        known = self.kinds.setdefault(name, kind)
        if kind is known:
            return
        if name == "labels":
            raise InputError("y holds labels of another type than in the blocks before: give labels of one type.")
        refuse_kind(kind, known, name)

    def note_numbered(self, numbered: bool) -> None:
        """Whether rows came without ids; refused where others came with them."""
        if self.numbered not in (None, numbered):
            raise InputError("ids must come with all blocks, or with none.")
        self.numbered = numbered

    def note_encoding(self, report: EncodingReport | None) -> None:
        """What became of cells."""
        if report is not None:
            self.encoding = report if self.encoding is None else self.encoding + report

    @property
    def nbytes(self) -> int:
        """About how many bytes are sent when this is."""
        shown = 0.0 if self.shown is None else self.shown.bytes
        return int(self.held.bytes + shown) + sum(part.nbytes for part in self.hashes)


@dataclass(frozen=True, eq=False, repr=False)
class Sieve:
    """What a pass looks at rows with.

    Parameters
    ----------
    model : Model
        An outline: it checks and prepares rows, and holds none.
    key : int
        Of the hashes.
    first : int
        The hash from which on rows have not had their turn.
    budget : float
        About how many bytes of rows are held.
    sparing : bool
        Whether fewer are enough, see :class:`~erasable.models.blocks.Held`.
    screen : callable or None
        A test of prepared rows, as :meth:`Model.screening` has it.
    looking : bool
        Whether this is the first pass, in which all is checked.
    start : int or None
        What rows without ids are numbered from; in a first pass it shows here.
    shown_bytes : float or None
        The budget for rows that are shown; None for none.
    check : callable or None
        Makes of a block as it came one as :class:`~erasable.models.blocks.Block` has it, or refuses it.
    hashing : callable or None
        Hashes ids, as ``keyed_hash`` does.
    distinct : bool
        Whether all ids of the table are known to be.
    """

    model: Model
    key: int
    first: int = 0
    budget: float = 0.0
    sparing: bool = False
    screen: Screening | None = None
    looking: bool = True
    start: int | None = None
    shown_bytes: float | None = None
    allow_no_subject: bool = False
    offered: Any = None
    check: Callable[[Any], Block] | None = None
    hashing: Hashing | None = None
    distinct: bool = False

    def nothing(self, limits: Limits = _NO_LIMITS) -> Seen:
        """What is seen of no rows."""
        held = Held(self.first, self.budget, sparing=self.sparing, end=limits.held)
        if not self.looking:
            return Seen(held)
        shown = None if self.shown_bytes is None else Held(LAST_EIGHTH, self.shown_bytes, end=limits.shown)
        return Seen(held, shown, offered=deepcopy(self.offered))

    def seen(self, blocks: Iterable[Any], low: int | None, limits: Limits) -> Seen:
        """What there is to be seen of blocks that follow each other.

        Parameters
        ----------
        low : int or None
            How many rows are before them in the table; None where that is not known.

        Raises
        ------
        InputError, InputTypeError, ConfigurationError
            When a row cannot be learnt.
        """
        seen = self.nothing(limits)
        for block in blocks:
            n, known = len(block.y), getattr(block, "known", None)
            if known is None or known.rows is None:
                rows = self.checked(block, low, seen) if self.looking else self.again(block, low)
                hashes = self.hashed(rows.ids)
                if known is not None and len(rows) == n:  # of fewer there would be a copy to hold
                    known.note(rows, hashes)
            else:
                rows, hashes = known.rows, known.hashes
            seen.rows += n
            seen.weightless += n - len(rows)
            low = None if low is None else low + n
            if self.looking:
                self._look(rows, hashes, limits, seen)
            self._sift(rows, hashes, seen)
        return seen

    def hashed(self, ids: Column) -> Hashes:
        """The hashes of some ids."""
        return keyed_hash(ids, self.key) if self.hashing is None else self.hashing(ids, self.key)

    def _look(self, rows: Rows, hashes: Hashes, limits: Limits, seen: Seen) -> None:
        """What is done with every row, once."""
        if not (self.distinct or isinstance(rows.ids, range)):
            repeated = limits.repeated
            seen.hashes.append(hashes if repeated is None else hashes[hashes < np.uint64(repeated)])
        if seen.shown is not None:
            late = seen.shown.within(hashes)
            seen.shown.offer(rows.take(late), hashes[late])

    def _sift(self, rows: Rows, hashes: Hashes, seen: Seen) -> None:
        """Hold those of the rows whose turn has not come and that may be selected."""
        seen.settled += int(np.count_nonzero(hashes < np.uint64(self.first)))
        left = seen.held.within(hashes)
        if self.screen is not None and left.any():
            selection = self.model.configuration.selection
            raw, most, may = self.model.prepared(rows.X), _MOST * len(rows), left.copy()
            if np.count_nonzero(left) < most:  # else it costs less to screen some in vain than to gather most
                may[left] = self.screen(selection.in_order(raw, np.flatnonzero(left)))
            else:
                may &= self.screen(raw)
            always = selection.always_kept(rows.ids)
            may = may if always is None else may | (left & always)
            seen.settled += int(np.count_nonzero(left)) - int(np.count_nonzero(may))
            left = may
        seen.held.offer(rows.take(left), hashes[left])

    # -- names -----------------------------------------------------------------------------------------------------

    def checked(self, block: Any, low: int | None, seen: Seen) -> Rows:
        """The rows that count of a block in a first pass, all of it checked; ``seen`` notes of which kind they are."""
        block = self._spelt(block if self.check is None else self.check(block))
        n, model = block.X.shape[0], self.model
        model.configuration.head.stored_labels(block.y, model)
        if model.classifies:
            seen.note_kind("labels", label_type(block.y))
        model.check_names_given(block.ids)
        seen.note_numbered(block.ids is None)
        if block.ids is None:
            ids = self._numbered(low, n)
        else:
            ids = block.ids if self.distinct else distinct_ids(block.ids, n)
            refuse_known(ids, model.core.place)
        self._note_names(ids, "ids", seen)
        subjects = None
        if block.subjects is not None:
            known = model.core.subject_type
            subjects = check_subjects(block.subjects, n, known, allow_no_subject=self.allow_no_subject)
            self._note_names(subjects if isinstance(subjects, np.ndarray) else each_owner(subjects), "subjects", seen)
        if model.order_key is not None:
            model.prepared(block.X)  # refuses rows that no model of this kind learns
        if seen.offered is not None:
            seen.offered.add(block.y)
        if isinstance(block.X, EncodedTable):
            seen.note_encoding(block.X.report)
        return Rows(block.X, block.y, ids, subjects, model.checked_weights(block.weights, n)).that_count()

    def again(self, block: Any, low: int | None) -> Rows:
        """The same in a later pass."""
        block = self._spelt(block if self.check is None else self.check(block))
        n = block.X.shape[0]
        ids = self._numbered(low, n) if block.ids is None else as_key_column(block.ids, "ids")
        owners = None if block.subjects is None else as_subject_column(block.subjects)
        return Rows(block.X, block.y, ids, owners, self.model.checked_weights(block.weights, n)).that_count()

    def _spelt(self, block: Any) -> Any:
        """A block with its names normalised; those of one call in memory are so already."""
        if self.distinct or not self.model.spelling:
            return block
        ids, subjects = spelt_names(block.ids, block.subjects, self.model.spelling)
        return Block(block.X, block.y, ids, subjects, block.weights)

    @cached_property
    def first_number(self) -> int:
        """What rows without ids are numbered from."""
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

    def _note_names(self, keys: Any, name: str, seen: Seen) -> None:
        if len(keys):
            seen.note_kind(name, int if isinstance(keys, np.ndarray | range) else type(keys[0]))


class Engine:
    """Where the parts of a pass are looked at: here, one block after the other. Others are in ``erasable.engines``.

    *Law*: whatever the engine, the state is the same, bit for bit: it is no part of it.

    Attributes
    ----------
    moved : int
        About how many bytes went from and to other processes so far.
    block_bytes : int
        About how large blocks of rows that lie in memory should be.
    sends : bool
        Whether rows go to other processes, in every pass anew.
    """

    moved = 0
    block_bytes = 2**24
    sends = False

    def screening(self, model: Model) -> Screening | None:
        """The screen of a model as it is now, for rows to be sifted with where this engine does that."""
        return model.screening()

    def hashing(self) -> Hashing | None:
        """What hashes ids where this engine looks at rows; None for the processor."""
        return None

    def seen(self, blocks: Any, sieve: Sieve, limits: Callable[[], Limits]) -> Iterator[Seen]:
        """What a sieve sees of all blocks, part by part, in any order.

        Parameters
        ----------
        blocks : iterable of blocks
            Where it has ``parts``, a method, these are gone through in place of its blocks, each an iterable of blocks
            that can be sent, with ``n_rows``, the number of its rows or None; unless it gives None.
        sieve : Sieve
        limits : callable
            Gives what is needed at the moment.
        """
        low = 0
        for block in blocks:
            yield sieve.seen((block,), low, limits())
            low += len(block.y)

    def close(self) -> None:
        """Let go of what this engine opened itself: threads, processes, clusters. It can be used again."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self  # copies of an estimator share threads, processes and clusters

    def refuse_given(self) -> None:
        """Refuse rows that are decided as they come, where this engine would look at them in another order.

        Raises
        ------
        ConfigurationError
        """
        if type(self) is not Engine:
            raise ConfigurationError(
                'engine= screens rows in any order, and with order= "given" they are decided as they come: leave one '
                "of them out."
            )
