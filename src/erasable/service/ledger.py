"""Requests that last: accepted once they are durable, and without anybody's identity once they are settled.

A folder holds ``past``, a journal of what became of requests, with nobody's identity in it, and ``open-N``, a journal
of what was accepted between two commits, with identities; that is erased when all of it is settled. A journal that is
damaged is refused, and so is one that lacks entries: see :mod:`erasable.service.past`. The order of the
steps is the point: the outcome is in ``past``, durably, before the identities go, and they are gone before anybody is
told. A request that is found in ``open-N`` and not in ``past`` may have been begun: it is carried out again, which
changes nothing that was done, and can no longer be cancelled.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.errors import ConflictError, InputError, StoreError, UnknownRequestError
from erasable.service.arrivals import Arrival, arrived, judged
from erasable.service.entries import Entry, Kind, State, as_record, check_id, from_record, key_of, read_past
from erasable.service.epochs import Epochs
from erasable.service.folder import taken
from erasable.service.identities import Identity
from erasable.service.known_files import KnownFiles
from erasable.service.past import Past
from erasable.service.purges import make_tombstone
from erasable.service.settings import Settings
from erasable.service.suppression import SuppressionList
from erasable.store import REAL_DISK, Disk, Record

Open = tuple[Entry, tuple[Identity, ...]]


class Ledger:
    """All requests of a folder; one process at a time, any number of its threads.

    Parameters
    ----------
    folder : str or path
        Made where it is not there.
    operator_key : bytes
        What bodies are sealed with.
    clock : callable
        Gives the time, in UTC.
    disk : Disk
        The system calls to use.

    Raises
    ------
    BusyError
        When another process has it open.
    StoreError
        When it cannot be read or written, is damaged, or lacks entries that it has had.
    InputError
        When it was written with another key.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        operator_key: bytes,
        settings: Settings,
        clock: Callable[[], datetime],
        *,
        disk: Disk = REAL_DISK,
    ) -> None:
        self._key, self._settings, self._clock, self._disk = operator_key, settings, clock, disk
        home = os.path.abspath(folder)
        self._lock = taken(home, disk)
        # Where both are taken, in this order. What is accepted waits for the second alone.
        self._past_turn, self._turn, self._door = threading.RLock(), threading.RLock(), threading.Lock()
        self._arriving: list[Arrival] = []
        self._entries: dict[str, Entry] = {}  # by their keys, as everything below
        self._of_id: dict[str, set[str]] = {}  # keys of the requests that have an id: one, unless controllers share it
        self._open: dict[str, tuple[Identity, ...]] = {}  # of all that is not settled
        self._places: dict[tuple[str, str], Record] = {}  # of receipts in ``past``
        self._owing: set[str] = set()  # receipts or callbacks
        self._epochs = Epochs(home, operator_key, disk)
        past: Past | None = None
        try:
            past = self._past = Past(home, operator_key, settings.anchor, disk)
            self.files = KnownFiles(past, operator_key, self._past_turn, settings.vouch, self.owing, self._replace)
            entries, self._places = self._read_past()
            for entry in entries.values():
                self._known(entry)
            self._read_open()
            self._upgrade()
        except BaseException:
            self._epochs.close()
            if past is not None:
                past.close()
            disk.close(self._lock)
            raise

    # -- for everybody -------------------------------------------------------------------------------------------

    def accept(
        self,
        request_id: str,
        kind: Kind,
        identities: Sequence[Identity],
        body: bytes,
        callbacks: Sequence[str] = (),
        controller: str = "",
    ) -> Entry:
        """The entry of a request, durable on return; that which is there already where the same body comes again.

        Raises
        ------
        InputError
            When the id is no UUID, the kind is not known, or nobody is named.
        ConflictError
            When the id was accepted with another body.
        QueueFullError
            When too many wait.
        StoreError
            When it could not be made durable (a full disk): it is not accepted.
        """
        given = request_id, kind, identities, body, callbacks, controller
        arrival = arrived(self._key, self._clock(), self._settings, *given)
        with self._door:
            self._arriving.append(arrival)
        with self._turn:
            if arrival.outcome is None:  # otherwise somebody who came meanwhile has seen to it
                with self._door:
                    together, self._arriving = self._arriving, []
                self._let_in(together)
        if not isinstance(arrival.outcome, Entry):
            raise arrival.outcome or StoreError("whether the request was accepted is not known: send it again.")
        return arrival.outcome

    def cancel(self, request_id: str, controller: str = "", *, others: bool = True) -> Entry:
        """The entry, cancelled for good; only while it is pending. Its identities are erased with the next commit.

        Raises
        ------
        UnknownRequestError
        ConflictError
            When it is in progress or completed; a cancelled one stays so. Or as in ``entry``.
        """
        with self._past_turn, self._turn:
            entry = self.entry(request_id, controller, others=others)
            if entry.state is State.CANCELLED:
                return entry
            if entry.state is not State.PENDING:
                raise ConflictError(f"the request is {entry.state.value}: only one that is pending can be cancelled.")
            entry = replace(entry, state=State.CANCELLED, settled=self._clock())
            self._past.append([as_record(entry)])
            self._settled(entry)
            return entry

    def entry(self, request_id: str, controller: str = "", *, others: bool = True) -> Entry:
        """The entry of a controller's request; where it has none of this id, and may see ``others``, of whosever is.

        Raises
        ------
        UnknownRequestError
            When there is none, or only those of others, which do not show.
        ConflictError
            When several others have one.
        """
        name = check_id(request_id)
        own = self._entries.get(key_of(name, controller))
        if own is not None:
            return own
        keys = tuple(self._of_id.get(name, ())) if others else ()
        found = [entry for key in keys if (entry := self._entries.get(key)) is not None]
        if not found:
            raise UnknownRequestError("no request of this id is known here: it was not accepted, or it was purged.")
        if len(found) > 1:
            raise ConflictError("several controllers have filed a request of this id: say whose with ?controller=.")
        return found[0]

    def entries(self, controller: str | None = None) -> list[Entry]:
        """All entries, or those of one controller, the oldest first."""
        entries = self._entries.copy().values()
        seen = [entry for entry in entries if controller is None or entry.controller == controller]
        return sorted(seen, key=lambda entry: entry.received)

    def receipt(self, entry: Entry, model: str) -> str | None:
        """The text of a receipt; None while it is not there. ``StoreError`` where the journal is damaged."""
        with self._past_turn:
            place = self._places.get((entry.key, model))
            return None if place is None else self._past.text_of(place)

    def purge(self, before: datetime, by: str, signer: PrivateKey) -> int:
        """Entries that were settled before a moment, and owe nothing, are erased; how many.

        A request of that id is a new one afterwards. A signed tombstone says how many requests and receipts of which
        time were purged, and by whom. It is durable before anything is erased, so a purge that a crash interrupts is
        counted once more when it is repeated.

        Raises
        ------
        InputError
            When the moment is in the future.
        """
        now = self._clock()
        if before > now:
            raise InputError("only the past can be purged: give a moment that is not in the future.")
        with self._past_turn, self._turn:
            settled = {e.key: e for e in self._entries.values() if e.settled is not None and e.settled < before}
            gone = settled.keys() - self._owing
            if not gone:
                return 0
            times = [at for key in gone if (at := settled[key].settled) is not None]
            tombstone = make_tombstone(
                signer,
                purgedAt=now,
                purgedBefore=before,
                purgedBy=by,
                requests=len(gone),
                receipts=sum(key in gone for key, _ in self._places),
                settledFrom=min(times),
                settledUntil=max(times),
            )
            self._past.append([{"tombstone": tombstone}])
            # Of records that name a request by its id alone, which were all of one controller.
            gone |= {name for key in gone if self._of_id[name := settled[key].request_id] <= gone}

            def stays(record: Mapping[str, Any]) -> bool:
                return self.files.stays(record) and record.get("request") not in gone

            try:
                self._past.rewrite(stays)
            finally:
                _, self._places = self._read_past()
            for entry in (settled[key] for key in gone & settled.keys()):
                del self._entries[entry.key]
                self._of_id[entry.request_id].discard(entry.key)
                if not self._of_id[entry.request_id]:
                    del self._of_id[entry.request_id]
            return len(gone & settled.keys())

    def tombstones(self) -> list[str]:
        """The signed statements of all purges, the oldest first."""
        with self._past_turn:
            return list(self._tombstones)

    @property
    def newest(self) -> datetime | None:
        """The last moment at which a request was received or settled."""
        return max((e.settled or e.received for e in self._entries.values()), default=None)

    # -- for the one writer --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many requests are not settled."""
        return len(self._open)

    def overdue(self, now: datetime) -> int:
        """How many of them are past their expected completion."""
        return sum(self._entries[name].expected < now for name in list(self._open))

    def begin(self) -> list[Open]:
        """All that is not settled, in progress from now on."""
        with self._turn:
            self._epochs.close()
            for name in self._open:
                self._entries[name] = replace(self._entries[name], state=State.IN_PROGRESS)
            return [(self._entries[name], identities) for name, identities in self._open.items()]

    def complete(
        self, keys: Collection[str] = (), models: Sequence[str] = (), listed: SuppressionList | None = None
    ) -> None:
        """These are durable in all models: completed for good, and identities erased, those of cancelled ones too.

        Where there is a list, everybody whom they named is on it.

        Raises
        ------
        StoreError
            When that could not be made durable, or identities not erased: ask again.
        """
        now, done = self._clock(), []
        with self._turn:
            for entry in (self._entries[name] for name in keys):
                entry = replace(entry, state=State.COMPLETED, settled=now)
                if entry.kind == "erasure":
                    entry = replace(entry, models=tuple(models), listed=listed is not None)
                done.append(entry)
        if done:
            with self._past_turn:
                self._past.append([*map(as_record, done), *self.files.records_of(listed)])
                self.files.completed({model for e in done for model in e.models}, listed)
        self._tidy(frozenset(keys))
        with self._turn:
            for entry in done:
                self._settled(entry)

    def owing(self) -> list[Entry]:
        """Settled entries that owe receipts or callbacks, the oldest first."""
        with self._turn:
            return sorted((self._entries[name] for name in self._owing), key=lambda entry: entry.received)

    def under_way(self) -> list[Entry]:
        """Entries that are in progress, the oldest first."""
        with self._turn:
            return [self._entries[e] for e in self._open if self._entries[e].state is State.IN_PROGRESS]

    @property
    def position(self) -> str:
        """See ``Past.position``."""
        with self._past_turn:
            return self._past.position

    def put_receipts(self, receipts: Iterable[tuple[str, str, str]]) -> None:
        """Receipts (key of a request, model, text) made durable; the first of a request and model stays."""
        with self._past_turn:
            fresh = {(name, model): text for name, model, text in receipts if (name, model) not in self._places}
            records = [{"request": name, "model": model, "text": text} for (name, model), text in fresh.items()]
            places = self._past.append(records) if records else []
            with self._turn:
                for (name, model), place in zip(fresh, places, strict=True):
                    self._places[name, model] = place._replace(content={})
                    self._known(self._entries[name].with_receipt(model))

    def told(self, key: str, url: str) -> None:
        """A callback was delivered, or given up."""
        with self._past_turn:
            self._past.append([{"request": key, "told": url}])
            with self._turn:
                self._known(self._entries[key].without_callback(url))

    def close(self) -> None:
        """Let another process have it."""
        with self._past_turn, self._turn:
            self._epochs.close()
            self._past.close()
            self._disk.close(self._lock)

    # -- how -----------------------------------------------------------------------------------------------------

    def _read_past(self) -> tuple[dict[str, Entry], dict[tuple[str, str], Record]]:
        self._tombstones: list[str] = []

        def noted(records: Iterable[Record]) -> Iterable[Record]:
            for record in records:
                self._tombstones += filter(None, [record.content.get("tombstone")])
                yield record

        return read_past(noted(self.files.read(self._past.read())))

    def _upgrade(self) -> None:
        """Erase what holds more than what is open; journals from before records were chained are written anew."""
        if self._epochs.any_old and self._past.has_entries:
            raise StoreError("requests that wait have an older format than the ledger: put its newest copy back.")
        try:
            self._tidy()
        except StoreError:  # on a full disk it is for the next commit, which says so
            if self._epochs.any_old:
                raise
        if self._past.is_old:
            self._past.rewrite()
            _, self._places = self._read_past()

    def _replace(self, entry: Entry) -> None:
        with self._turn:
            self._known(entry)

    def _known(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._of_id.setdefault(entry.request_id, set()).add(entry.key)
        if entry.owes_receipts or entry.owes_callbacks:
            self._owing.add(entry.key)
        else:
            self._owing.discard(entry.key)

    def _settled(self, entry: Entry) -> None:
        self._known(entry)
        self._open.pop(entry.key, None)
        self._epochs.drop(entry.key)

    def _read_open(self) -> None:
        for record in self._epochs.found():
            entry, identities = from_record(record)
            if entry.key not in self._entries or entry.key in self._open:
                self._open[entry.key] = identities
                self._known(replace(entry, state=State.IN_PROGRESS))
                self._epochs.hold(entry.key)

    def _let_in(self, together: list[Arrival]) -> None:
        """Those that can be accepted are made durable with one fsync; each gets an answer."""
        fresh, failure = judged(together, self._entries, len(self._open), self._settings), None
        try:
            if fresh:
                self._put([(arrival.entry, arrival.identities) for arrival in fresh.values()])
        except StoreError as error:
            failure = error
        for arrival in together:
            arrival.outcome = arrival.outcome or failure or fresh[arrival.entry.key].entry

    def _put(self, accepted: list[Open]) -> None:
        """Requests made durable, with their identities."""
        self._epochs.put({entry.key: as_record(entry, identities) for entry, identities in accepted})
        for entry, identities in accepted:
            self._known(entry)
            self._open[entry.key] = identities

    def _tidy(self, settled: Collection[str] = ()) -> None:
        """Erase what holds more than what is open; what is open moves elsewhere first."""
        with self._turn:
            doomed = self._epochs.doomed([name for name in self._open if name not in settled])
            moving = [name for names in doomed.values() for name in names]
            if moving:
                self._put([(self._entries[name], self._open[name]) for name in moving])
        for number in doomed:
            self._epochs.erase(number)
            with self._turn:
                self._epochs.forget(number)
