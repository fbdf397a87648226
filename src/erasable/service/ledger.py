"""Durable requests: accepted once they are on disk, and without identities once they are settled.

A folder holds ``past``, a journal of outcomes that names nobody, and ``open-N``, journals of accepted requests with
their identities, erased once all of them are settled: see :mod:`erasable.service.journals`. The order of the steps is
the point. The outcome is durable in ``past`` before the identities are erased, and they are erased before anybody is
told. A request that is found in ``open-N`` and not in ``past`` may have been begun. It is carried out again, which
changes nothing that was done, and can no longer be cancelled; one with a grace period can, until ``past`` says that it
was begun. Requests are found by an index of ``past``: see :mod:`erasable.service.index`.
"""

from __future__ import annotations

import hmac
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

from erasable.audit.keys import PrivateKey, read_private_key
from erasable.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    ErasableError,
    InputError,
    QueueFullError,
    StoreError,
    UnknownRequestError,
)
from erasable.service.index import (
    DEEDS,
    Counts,
    Event,
    Index,
    JournalReader,
    Query,
    RequestPage,
    Trail,
    read_saved,
    remove_saved,
    save,
)
from erasable.service.journals import OpenJournals, PastJournal, lock_folder
from erasable.service.lineage import Lineage
from erasable.service.purges import WatchedClock, elapsed, make_tombstone
from erasable.service.requests import (
    MOST_IDENTITIES,
    Entry,
    Filing,
    People,
    State,
    as_record,
    check_id,
    entry_of,
    from_record,
    key_of,
)
from erasable.service.settings import Settings
from erasable.service.suppression import SuppressionList, read_key
from erasable.store import REAL_DISK, Disk, Record, check_room, check_writable

_RECENT = 1_000  # settled entries that are kept in memory
_ROOM = 2**20  # bytes that must be free for a request, its outcome and its receipts
_UNSAVED = 2_000  # records after which the index is saved again
_Open = tuple[Entry, People]


@dataclass(frozen=True)
class Debts:
    """How many receipts and callbacks settled requests owe, and for how long the oldest receipt has been owed."""

    receipts: int
    oldest_receipt_seconds: float
    callbacks: int


@dataclass
class _Arrival:
    """Requests that are being accepted together, all or none, and the outcome."""

    filed: list[_Open]
    outcome: list[Entry] | ErasableError | None = None


class Ledger:
    """All requests of a folder; for one process at a time, and any number of its threads.

    The folder is created if needed. ``files`` has what is known of model files and the suppression list. Raises
    ``BusyError`` if another process has the ledger, ``StoreError`` if it is damaged or lacks entries that it has had,
    ``InputError`` if it was written with another key.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        operator_key: bytes,
        settings: Settings,
        clock: Callable[[], datetime],
        *,
        disk: Disk = REAL_DISK,
        elapsed: Callable[[], float] = elapsed,
    ) -> None:
        self._key, self._settings, self._clock, self._disk = operator_key, settings, clock, disk
        self._elapsed = elapsed
        home = self._folder = os.path.abspath(folder)
        self._failure: StoreError | None = None  # of the last write, until one succeeds
        self._folder_lock = lock_folder(home, disk)
        # A thread takes both in this order. Accepting needs the second alone, so it waits for no commit.
        self._past_lock, self._lock = threading.RLock(), threading.RLock()
        self._arriving_lock = threading.Lock()
        self._arriving: list[_Arrival] = []
        self._live: dict[str, Entry] = {}  # by key, as everything below: entries that are open or owe something
        self._open: dict[str, People] = {}  # of all requests that are not settled
        self._held_since: dict[str, float] = {}  # when this process took each of them in, by ``elapsed``
        self._named = 0  # identities in these
        self._owing: dict[str, float] = {}  # receipts or callbacks, in order, and since when, by ``elapsed``
        self._receipts_owed = self._callbacks_owed = 0
        self._index, self._index_path = Index(), os.path.join(home, "index")
        self._unsaved, self._is_between = 0, False  # whether ``past`` has outcomes that the index lacks
        self._epochs = OpenJournals(home, operator_key, disk)
        past: PastJournal | None = None
        try:
            past = self._past = PastJournal(home, operator_key, settings.anchor, disk)
            self.files = Lineage(past, operator_key, self._past_lock, settings.vouch, self.owing, self._replace)
            self._index, reading = self._read_past()
            for entry in reading.entries():
                self._put_live(entry)
            self._read_open(reading.begun)
            self._upgrade()
        except BaseException:
            self._epochs.close()
            if past is not None:
                past.close()
            disk.close(self._folder_lock)
            raise

    # -- for clients ---------------------------------------------------------------------------------------------

    def accept(self, *filing: Any, **more: Any) -> Entry:
        """The entry of one request, given as the fields of a ``Filing``; see ``accept_each``."""
        return self.accept_each([Filing(*filing, **more)])[0]

    def accept_each(self, filings: Iterable[Filing]) -> list[Entry]:
        """The entry of each request, durable on return, or none; the existing entry if it was accepted before.

        Raises ``InputError`` if an id is no UUID or no identity is given, ``ConflictError`` if an id was accepted
        with another body, ``QueueFullError`` if too many wait, and ``StoreError`` if it could not be made durable: then
        none is accepted.
        """
        now = self._clock()
        arrival = _Arrival(
            [(filing.entry(self._key, self._settings, now), People(filing.identities)) for filing in filings]
        )
        with self._arriving_lock:
            self._arriving.append(arrival)
        with self._lock:
            if arrival.outcome is None:  # otherwise another thread has accepted it with its own
                with self._arriving_lock:
                    together, self._arriving = self._arriving, []
                self._accept_together(together)
        if not isinstance(arrival.outcome, list):
            raise arrival.outcome or StoreError("whether the request was accepted is not known: send it again.")
        return arrival.outcome

    def _accept_together(self, together: list[_Arrival]) -> None:
        """Make all new requests durable with one fsync, and set the outcome of each."""
        fresh: dict[str, _Open] = {}
        for arrival in together:
            try:
                arrival.outcome = self._judged(arrival, fresh)
            except ErasableError as error:
                arrival.outcome = error
        try:
            if fresh:
                self._put_open(fresh.values())
                self._failure = None
        except StoreError as error:
            self._failure = error
            for arrival in together:
                if any(entry.key in fresh for entry, _ in arrival.filed) and isinstance(arrival.outcome, list):
                    arrival.outcome = error

    def _judged(self, arrival: _Arrival, fresh: dict[str, _Open]) -> list[Entry]:
        """The entries of an arrival, of which new ones are added to ``fresh``; raises if one cannot be accepted."""
        new: dict[str, _Open] = {}
        outcome = []
        for entry, identities in arrival.filed:
            known = (new.get(entry.key) or fresh.get(entry.key) or (self._entry(entry.key), ()))[0]
            if known is None:
                new[entry.key] = entry, identities
            elif not hmac.compare_digest(known.seal, entry.seal):
                raise ConflictError("a request of this id was accepted with another body: draw a new id.")
            outcome.append(known or entry)
        named = self._named + sum(len(identities) for _, identities in fresh.values())
        waiting = len(self._open) + len(fresh)
        if new and (waiting + len(new) > self._settings.queue or named >= MOST_IDENTITIES):
            full = QueueFullError(f"{len(self._open):,} requests wait, and no more are accepted: try again later.")
            full.retry_after = self._settings.tick
            raise full
        fresh |= new
        return outcome

    def cancel(self, request_id: str, controller: str = "", others: bool = True, by: str = "") -> Entry:
        """The entry, cancelled; only while it is pending. The next commit erases its identities.

        The audit trail says that ``by`` did it, by default the controller.

        Raises ``UnknownRequestError`` as ``entry`` does, and ``ConflictError`` if it is in progress or completed.
        """
        with self._past_lock, self._lock:
            entry = self.entry(request_id, controller, others)
            if entry.state is State.CANCELLED:
                return entry
            if entry.state is not State.PENDING:
                raise ConflictError(f"the request is {entry.state.value}: only one that is pending can be cancelled.")
            entry = replace(entry, state=State.CANCELLED, settled=self._clock())
            event = Event(self._clock(), "cancel", by or controller, entry.request_id).as_record()
            self._settle([(entry, self._append([as_record(entry), event])[0])])
            return entry

    def entry(self, request_id: str, controller: str = "", others: bool = True) -> Entry:
        """The entry of a controller's request; if it has none of this id and may see ``others``, the one of another.

        Raises ``UnknownRequestError`` if none is visible, ``ConflictError`` if several others have one.
        """
        name = check_id(request_id)
        own = self._entry(key_of(name, controller))
        if own is not None:
            return own
        keys = self._index.keys_of(name) if others else ()
        found = [entry for key in keys if (entry := self._entry(key)) is not None]
        if not found:
            raise UnknownRequestError("no request of this id is known: it was not accepted, or it was purged.")
        if len(found) > 1:
            raise ConflictError("several controllers have filed a request of this id: name one with ?controller=.")
        return found[0]

    def _entry(self, key: str) -> Entry | None:
        """The entry of a key: the live one, or that of the record in ``past``."""
        index = self._index
        if (known := self._live.get(key) or index.recent.get(key)) is not None:
            return known
        try:
            return self._settled_entry(key, index)
        except StoreError:
            with self._past_lock:  # a purge has moved all records
                return self._settled_entry(key, self._index)

    def _settled_entry(self, key: str, index: Index) -> Entry | None:
        if (place := index.place(key)) is None:
            return None
        if len(index.recent) >= _RECENT:
            index.recent.clear()
        found = index.recent[key] = entry_of(self._past.record(place))
        return found

    def search(self, query: Query) -> RequestPage:
        """A page of requests, and how many there are in all."""
        keys, total = self._index.search(query, self._clock().date())
        return RequestPage([entry for key in keys if (entry := self._entry(key)) is not None], total)

    def counts(self, controller: str | None = None) -> Counts:
        """How many requests of a controller, or of all, there are by state."""
        return self._index.counts(controller, self._clock().date())

    def entries(self, controller: str | None = None) -> list[Entry]:
        """All entries, or those of one controller, the oldest first. It reads all of them: see ``search``."""
        query = Query(controller, sort="received", descending=False, limit=10_000)
        pages = [self.search(query)]
        while sum(len(page.entries) for page in pages) < pages[0].total and pages[-1].entries:
            pages.append(self.search(replace(query, skip=query.limit * len(pages))))
        return [entry for page in pages for entry in page.entries]

    def receipts(self, entry: Entry) -> dict[str, str] | None:
        """The receipts of a completed erasure by model; None while one is owed."""
        if entry.state is not State.COMPLETED or entry.owes_receipts:
            return None
        texts = {model: self.receipt(entry, model) for model in entry.models}
        return {model: text for model, text in texts.items() if text is not None}

    def receipt(self, entry: Entry, model: str) -> str | None:
        """The receipt of one model; None while it is owed."""
        with self._past_lock:
            place = self._index.receipt(entry.key, model)
            return None if place is None else str(self._past.record(place)["text"])

    def note(self, what: str, by: str, request_id: str = "", model: str = "") -> None:
        """Add an event to the audit trail, durably: one of ``DEEDS`` that a token did. It must name no person."""
        if what not in DEEDS:
            raise InputError(f"an event must be one of {', '.join(DEEDS)}.")
        self.note_each([Event(self._clock(), what, by, request_id, model)])

    def note_each(self, events: Iterable[Event]) -> None:
        """Add events to the audit trail, durably, with one fsync."""
        with self._past_lock:
            self._append([event.as_record() for event in events])

    def trail(self, what: str = "", by: str = "", request_id: str = "", limit: int = 100, skip: int = 0) -> Trail:
        """A page of the audit trail: the events of a kind, a token or a request, or all; the newest first."""
        return self._index.trail(what, by, request_id, limit, skip)

    def purge(self, before: datetime, by: str, signer: PrivateKey) -> int:
        """Erase entries that were settled before a time and owe nothing; returns how many.

        A request of such an id is a new one afterwards. A signed tombstone says how many requests and receipts of which
        time were purged, and by whom. It is durable before anything is erased, so a purge that a crash interrupts is
        counted once more when it is repeated. Raises ``InputError`` for a time in the future.
        """
        now = self._clock()
        if before > now:
            raise InputError("only the past can be purged: give a time that is not in the future.")
        with self._past_lock:
            if self._is_between:
                raise BusyError("a commit is being written, and nothing was purged: try again.")
            settled = self._index.settled_before(before)
            with self._lock:
                gone = settled.keys() - self._owing
            events = self._index.events_before(before)
            if not gone and not events:
                return 0
            times = [settled[key] for key in gone] or [before]
            counts = {"requests": len(gone), "receipts": self._index.receipts_of(gone), "events": events}
            settled_in = {"settledFrom": min(times), "settledUntil": max(times)}
            about: dict[str, str | int | datetime] = {
                "purgedAt": now,
                "purgedBefore": before,
                "purgedBy": by,
                **counts,
                **settled_in,
            }
            tombstone = make_tombstone(signer, **about)
            self._append([{"tombstone": tombstone}, Event(now, "purge", by).as_record()])
            # Some records name a request by its id alone; they go once all requests of that id do.
            names = {key.partition("/")[0] for key in gone}
            leaving = gone | {name for name in names if gone.issuperset(self._index.keys_of(name))}

            def stays(record: Mapping[str, Any]) -> bool:
                if "event" in record:
                    return record["event"] == "purge" or datetime.fromisoformat(record["at"]) >= before
                return self.files.stays(record) and record.get("request") not in leaving

            remove_saved(self._index_path, self._disk)
            try:
                self._past.rewrite(stays)
            finally:
                index, _ = self._read_past()
                with self._lock:
                    self._replace_index(index)
            return len(gone)

    def tombstones(self) -> list[str]:
        """The signed statements of all purges, the oldest first."""
        return self._index.tombstones()

    @property
    def problem(self) -> str | None:
        """Why the last write failed, or a request would not be accepted now; None if nothing is known."""
        failure = self._failure
        return None if failure is None else str(failure)

    def probe(self) -> None:
        """Find out whether a request could be made durable; see ``problem``. After a failure the medium decides."""
        failure = self._failure
        try:
            check_room(self._folder, _ROOM, disk=self._disk)
            check_writable(self._folder, durably=failure is not None, disk=self._disk)
        except StoreError as error:
            self._failure = error
        else:
            if self._failure is failure:  # otherwise a write has failed meanwhile
                self._failure = None

    @property
    def newest(self) -> datetime | None:
        """The last time at which a request was received or settled."""
        return self._index.newest

    # -- for the one writer --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many requests are not settled."""
        return len(self._open)

    def overdue(self, now: datetime) -> int:
        """How many of them are past their expected completion."""
        with self._lock:
            entries = [self._live[name] for name in self._open]
            return sum(self._has_come(entry.expected, entry, now) for entry in entries)

    def begin(self) -> list[tuple[Entry, People]]:
        """All requests that are not settled and past their grace period, from now on in progress, with identities.

        Of those that had one, ``past`` says first that they were begun: they cannot be cancelled any more.
        """
        now = self._clock()
        with self._past_lock:
            with self._lock:
                entries = [self._live[name] for name in self._open]
            ready = [e for e in entries if e.state is State.IN_PROGRESS or self._has_come(e.cancel_until, e, now)]
            pending = [e for e in ready if e.state is State.PENDING]
            if begun := [{"request": e.key, "begun": True} for e in pending if e.cancel_until is not None]:
                self._append(begun)
            with self._lock:
                if ready or self._epochs.any_stale:
                    self._epochs.close()
                for entry in pending:
                    self._live[entry.key] = replace(entry, state=State.IN_PROGRESS)
            self._index.put([(self._live[entry.key], None) for entry in pending])
            return [(self._live[entry.key], self._open[entry.key]) for entry in ready]

    def complete(
        self, keys: Collection[str] = (), models: Sequence[str] = (), listed: SuppressionList | None = None
    ) -> None:
        """Complete requests that are durable in all models, and erase identities, those of cancelled requests too.

        If a list is given, all identities that they named are on it. On ``StoreError`` something could not be made
        durable or erased: call it again.
        """
        now, done = self._clock(), []
        with self._lock:
            for entry in (self._live[name] for name in keys):
                entry = replace(entry, state=State.COMPLETED, settled=now)
                if entry.kind == "erasure":
                    entry = replace(entry, models=tuple(models), listed=listed is not None)
                done.append(entry)
        places: list[Record] = []
        if done:
            with self._past_lock:
                self._is_between = True
                places = self._append([*map(as_record, done), *self.files.records_of(listed)])
                self.files.completed({model for e in done for model in e.models}, listed)
        self._erase_settled(frozenset(keys))
        if done:
            with self._past_lock:
                self._settle(list(zip(done, places[: len(done)], strict=True)))
                self._is_between = False

    @property
    def debts(self) -> Debts:
        """What is owed now."""
        with self._lock:
            waiting = (since for key, since in self._owing.items() if self._live[key].owes_receipts)
            oldest = next(waiting, None)  # the first is the oldest
            seconds = 0.0 if oldest is None else max(0.0, self._elapsed() - oldest)
            return Debts(self._receipts_owed, seconds, self._callbacks_owed)

    def owing(self) -> list[Entry]:
        """Settled entries that owe receipts or callbacks, the oldest first."""
        with self._lock:
            return sorted((self._live[name] for name in self._owing), key=lambda entry: entry.received)

    def in_progress(self) -> list[Entry]:
        """Entries that are in progress, the oldest first."""
        with self._lock:
            return [self._live[e] for e in self._open if self._live[e].state is State.IN_PROGRESS]

    @property
    def position(self) -> str:
        """See ``PastJournal.position``."""
        with self._past_lock:
            return self._past.position

    def put_receipts(self, model: str, receipts: Mapping[str, str]) -> None:
        """Make receipts of a model durable, by the keys of their requests; the first receipt of a request stays."""
        with self._past_lock:
            fresh = {key: text for key, text in receipts.items() if self._index.receipt(key, model) is None}
            if fresh:
                places = self._append([{"request": key, "model": model, "text": text} for key, text in fresh.items()])
                self._index.put_receipts({(key, model): place for key, place in zip(fresh, places, strict=True)})
                with self._lock:
                    for key in fresh:
                        self._put_live(self._live[key].with_receipt(model))

    def end_callback(self, key: str, url: str) -> None:
        """Note durably that a callback was delivered or given up."""
        with self._past_lock:
            self._append([{"request": key, "told": url}])
            with self._lock:
                self._put_live(self._live[key].without_callback(url))

    def close(self) -> None:
        """Release the folder."""
        with suppress(StoreError):  # the next start reads more
            self.save_index()
        with self._past_lock, self._lock:
            self._epochs.close()
            self._past.close()
            self._disk.close(self._folder_lock)

    # -- internals -----------------------------------------------------------------------------------------------

    def save_index(self) -> None:
        """Save the index, if it has changed by much, so that the next start reads few records of ``past``.

        It must hold nothing but what ``past`` says: not that a file is in doubt, or vouched for, in this run.
        """
        with self._past_lock, self._lock:
            owing, waiting = ([self._live[key] for key in keys] for keys in (self._owing, self._open))
            if self._unsaved < _UNSAVED or self._is_between or self._settings.vouch or any(e.doubted for e in owing):
                return
            state = {
                "at": self._past.at[:3],
                "files": self.files.saved(),
                "owing": [as_record(e) | {"receipts": [*e.receipts], "doubted": []} for e in owing],
                "begun": [e.key for e in waiting if e.cancel_until and e.state is State.IN_PROGRESS],
            }
            self._unsaved, image = 0, self._index.image()
        save(self._index_path, self._key, state, image, self._disk)

    def _read_past(self) -> tuple[Index, JournalReader]:
        """An index from its saved copy and the records after that, or from all records; and what these say."""
        contents = self._past.read()
        state, index = read_saved(self._index_path, self._key, contents, self._disk)
        self.files.restore(state.get("files", {}))
        reading = JournalReader(index, state.get("owing", ()), state.get("begun", ()))
        reading.read(self.files.read(contents.since(state.get("at", (0, "", 0))[2])))
        self._unsaved = reading.records
        return index, reading

    def _replace_index(self, index: Index) -> None:
        """Use another index of the same requests."""
        index.put([(self._live[key], None) for key in self._open])
        self._index = index

    def _append(self, records: Sequence[Mapping[str, Any]]) -> list[Record]:
        """Make records durable in ``past``; for the holder of its lock."""
        try:
            places = self._past.append(records)
        except StoreError as error:
            self._failure = error
            raise
        self._unsaved += len(records)
        self._index.add_events(record for record in records if "event" in record)
        return places

    def _read_open(self, begun: Collection[str]) -> None:
        for record in self._epochs.found():
            entry, identities = from_record(record)
            if entry.key in self._open or self._entry(entry.key) is None:
                waits = entry.cancel_until is not None and entry.key not in begun
                entry = replace(entry, state=State.PENDING if waits else State.IN_PROGRESS)
                self._hold([(entry, identities)])
                self._epochs.hold(entry.key)

    def _upgrade(self) -> None:
        """Erase stale ``open-N``; write journals from before records were chained anew."""
        if self._epochs.any_old and self._past.has_entries:
            raise StoreError("requests that wait have an older format than the ledger: put its newest copy back.")
        try:
            self._erase_settled()
        except StoreError:  # on a full disk it is left to the next commit, which reports it
            if self._epochs.any_old:
                raise
        if self._past.is_old:
            self._past.rewrite()
            self._replace_index(self._read_past()[0])

    def _replace(self, entry: Entry) -> None:
        with self._lock:
            self._put_live(entry)

    def _put_live(self, entry: Entry) -> None:
        """Keep an entry in memory as long as it is open or owes something."""
        before = self._live.get(entry.key)
        self._receipts_owed += entry.receipts_owed - (0 if before is None else before.receipts_owed)
        self._callbacks_owed += _callbacks_owed(entry) - (0 if before is None else _callbacks_owed(before))
        if entry.owes_receipts or entry.owes_callbacks:
            waited = (self._clock() - (entry.settled or entry.received)).total_seconds()  # in an earlier run
            self._owing.setdefault(entry.key, self._elapsed() - max(0.0, waited))
        else:
            self._owing.pop(entry.key, None)
        if entry.settled is None or entry.key in self._owing:
            self._live[entry.key] = entry
        else:
            self._live.pop(entry.key, None)

    def _has_come(self, at: datetime | None, entry: Entry, now: datetime) -> bool:
        """Whether a time that an open entry was given has come, by the wall clock or by the time that has passed.

        A wall clock that is set back must not hold a request. After a restart only the wall clock is left, so an entry
        waits from then on for at most as long as it was to wait when it was received.
        """
        if at is None or at <= now:
            return True
        return self._elapsed() - self._held_since[entry.key] >= (at - entry.received).total_seconds()

    def _settle(self, settled: list[tuple[Entry, Record]]) -> None:
        self._index.put(settled)
        with self._lock:
            for entry, _ in settled:
                self._held_since.pop(entry.key, None)
                self._put_live(entry)
                self._named -= len(self._open.pop(entry.key, ()))
                self._epochs.drop(entry.key)

    def _hold(self, accepted: Collection[_Open]) -> None:
        """Take in open requests."""
        self._index.put([(entry, None) for entry, _ in accepted])
        since = self._elapsed()
        for entry, identities in accepted:
            self._held_since.setdefault(entry.key, since)  # those that move to another file were held before
            self._put_live(entry)
            self._named += len(identities) - len(self._open.get(entry.key, ()))
            self._open[entry.key] = identities

    def _put_open(self, accepted: Collection[_Open]) -> None:
        """Make open requests durable, with their identities."""
        self._epochs.put({entry.key: as_record(entry, identities) for entry, identities in accepted})
        self._hold(accepted)

    def _erase_settled(self, settled: Collection[str] = ()) -> None:
        """Erase every ``open-N`` with settled requests; its open requests move to another file first."""
        with self._lock:
            doomed = self._epochs.doomed({name for name in self._open if name not in settled})
            moving = [name for names in doomed.values() for name in names]
            if moving:
                self._put_open([(self._live[name], self._open[name]) for name in moving])
        for number in doomed:
            self._epochs.erase(number)
            with self._lock:
                self._epochs.forget(number)


def _callbacks_owed(entry: Entry) -> int:
    return len(entry.callbacks) if entry.owes_callbacks else 0


def purge_stopped(
    folder: str | os.PathLike[str], before: datetime, key: str | Path | None = None, *, trust_clock: bool
) -> int:
    """Purge the ledger of a service that is not running, with its own keys; see ``Ledger.purge``.

    Raises ``ConfigurationError`` if the folder has no ledger, or the clock may be wrong and is not trusted.
    """
    home = os.path.join(folder, "requests")
    if not os.path.isdir(home):
        raise ConfigurationError(f"{os.fspath(folder)!s} is no folder of a service: it has no ledger.")
    signer = read_private_key(key or os.path.join(folder, "receipts.pem"))
    clock: Callable[[], datetime] = partial(datetime.now, UTC)
    try:
        ledger = Ledger(home, read_key(os.path.join(folder, "operator.key")), Settings(), clock)
    except BusyError as error:
        raise BusyError(
            f"{os.fspath(folder)} belongs to a service that is running: ask it, by POST /v1/purge?before=..., or stop "
            "it first."
        ) from error
    try:
        watched = WatchedClock(os.path.join(home, "clock"), clock, elapsed, ledger.newest, trusted=trust_clock)
        if watched.doubt() is not None:
            raise ConfigurationError(
                "by the clock the service has not run for more than a day: if the clock is right, add --trust-clock."
            )
        return ledger.purge(before, "(command line)", signer)
    finally:
        ledger.close()
