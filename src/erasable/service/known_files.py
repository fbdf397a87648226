"""What the ledger knows of model files and of the suppression list: which of them are its own.

See :mod:`erasable.service.lineage` for how a file is told from another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from erasable.errors import ConfigurationError, StoreError
from erasable.service.entries import Entry
from erasable.service.lineage import Erased, Lineage, Marks, Origin
from erasable.service.past import Past
from erasable.service.suppression import SuppressionList
from erasable.store import Record


class KnownFiles:
    """Marks of model files, and the position of the suppression list, in the past of a ledger.

    Parameters
    ----------
    past : Past
    operator_key : bytes
    turn : RLock
        Held by whoever appends to the past.
    vouch : bool
        See ``Settings``.
    owing : callable
        Gives the entries that owe receipts or callbacks, the oldest first.
    put : callable
        Takes an entry in place of the one that is known.
    """

    def __init__(
        self,
        past: Past,
        operator_key: bytes,
        turn: threading.RLock,
        vouch: bool,
        owing: Callable[[], list[Entry]],
        put: Callable[[Entry], None],
    ) -> None:
        self._past, self._turn, self._vouch, self._owing, self._put = past, turn, vouch, owing, put
        self._lineage = Lineage(operator_key)
        self._list: list[Any] | None = None  # how far the suppression list had come with the last completion

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """All records of the past that are no marks; marks and positions are taken in."""
        for record in self._lineage.read(records):
            self._list = record.content.get("list", self._list)
            yield record

    def stays(self, record: Mapping[str, Any]) -> bool:
        """Whether a purge keeps a record of a file or of the list; it keeps all others."""
        if "mark" in record:
            return self._lineage.holds(record)
        return "list" not in record or "lost" in record or bool(record["list"] == self._list)

    def records_of(self, listed: SuppressionList | None) -> list[dict[str, Any]]:
        """What is written down of the list with a completion: its position, where it has come further."""
        moved = listed is not None and listed.position[0] > self.list_position[0]
        return [{"list": listed.position}] if listed is not None and moved else []

    def completed(self, models: Iterable[str], listed: SuppressionList | None) -> None:
        """Erasures were completed in these models, and ``records_of`` the list was written down."""
        for record in self.records_of(listed):
            self._list = record["list"]
        self._lineage.completed(models, Erased.NOT_ALL_LISTED if listed is None else Erased.ALL_LISTED)

    def found(self, model: str, checksum: str | None) -> None:
        """The file of a model has this checksum at the start; whoever it owes a receipt is in doubt if it is not ours.

        That is known again at the next start, unless a commit comes before: then it goes into the ledger with its mark.
        """
        with self._turn:
            if not self._lineage.is_ours(model, checksum):
                for entry in self._owing():
                    if entry.owes(model):
                        self._put(entry.with_doubt(model))

    def marks(self, model: str) -> Marks:
        """What is known now of the files that were committed; see ``is_ours``."""
        with self._turn:
            return self._lineage.of(model)

    def is_ours(self, model: str, checksum: str, before: Marks = ()) -> bool:
        """Whether a file that was read since ``before`` was known was one that was committed here."""
        with self._turn:
            return self._lineage.is_ours(model, checksum, before)

    def origin(self, model: str, checksum: str | None) -> Origin:
        """Who wrote the file of a model, which has this checksum now."""
        with self._turn:
            return self._lineage.origin(model, checksum)

    @property
    def erased(self) -> Erased:
        """Whether people were erased so far, and whether all of them are on the suppression list."""
        return self._lineage.erased

    def adopt(self, model: str, checksum: str) -> None:
        """The file of a model with this checksum holds nobody who was erased; durable on return."""
        with self._turn:
            mark = self._lineage.mark(model, checksum, Erased.NOBODY, adopted=True)
            self._past.append([mark])
            self._lineage.add(mark)

    @property
    def list_position(self) -> list[Any]:
        """How far the suppression list had come when it was last written down; see ``SuppressionList.position``."""
        return [0, ""] if self._list is None else self._list

    def put_list(self, position: list[Any]) -> None:
        """No model stores anybody on the list, as far as it has come; durable on return."""
        with self._turn:
            if position[0] > self.list_position[0]:  # otherwise a commit has come further meanwhile
                self._past.append([{"list": position}])
                self._list = position

    def check_list(self, listed: SuppressionList | None) -> None:
        """Refuse a suppression list that is not the one of the last completion, or that has grown from it.

        Where the operator vouches, the list that was known is lost: it proves nothing any more.

        Raises
        ------
        ConfigurationError
            When there is none.
        StoreError
            When it is another one, or an older one.
        """
        if self._list is None or (listed is not None and listed.had(*self._list)):
            return
        if not self._vouch:
            if listed is None:
                raise ConfigurationError(
                    f"the ledger knows of a suppression list, with {self._list[0]:,} entries, and none is given: set "
                    "suppression_list. To go on without it, start once with the setting vouch."
                )
            raise StoreError(
                f"the suppression list is not the one that the ledger knows of, which had {self._list[0]:,} entries. "
                "Put the newest copy of it back; if it is lost, start once with the setting vouch."
            )
        with self._turn:
            self._past.append([{"list": None, "lost": True}])
            self._list, self._lineage.erased = None, Erased.NOT_ALL_LISTED

    def announce(self, model: str, before: str, after: str, erased: Erased = Erased.NOBODY) -> None:
        """The file of a model is going to be replaced, by the checksums; durable on return, under the file's lock.

        ``erased`` says whether that erases people, and whether they are on the suppression list.

        Raises
        ------
        StoreError
            When that could not be written down: the file must not be replaced.
        """
        with self._turn:
            self.found(model, before)
            foreign = self._lineage.origin(model, before) is Origin.FOREIGN
            if foreign or not self._lineage.is_waiting_for(model, after):
                doubted = [{"request": e.key, "doubted": model} for e in self._owing() if self._in_doubt(e, model)]
                follows = self._lineage.is_last(model, before)
                marks = [self._lineage.mark(model, after, erased, foreign=foreign, follows=follows)]
                if not foreign and not self._lineage.is_ours(model, before):  # it is not replaced yet
                    marks.insert(0, self._lineage.mark(model, before, Erased.NOBODY, adopted=True))
                self._past.append([*doubted, *marks])
                for mark in marks:
                    self._lineage.add(mark)

    def _in_doubt(self, entry: Entry, model: str) -> bool:
        return entry.owes(model) and model in entry.doubted
