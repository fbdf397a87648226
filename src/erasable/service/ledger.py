"""Requests that last: accepted once they are durable, and without anybody's identity once they are settled.

A folder holds ``past``, a journal of what became of requests, with nobody's identity in it, and ``open-N``, a journal
of what was accepted between two commits, with identities; that is erased when all of it is settled. The order of the
steps is the point: the outcome is in ``past``, durably, before the identities go, and they are gone before anybody is
told. A request that is found in ``open-N`` and not in ``past`` may have been begun: it is carried out again, which
changes nothing that was done, and can no longer be cancelled.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import threading
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime

from erasable.errors import BusyError, ConflictError, InputError, QueueFullError, StoreError, UnknownRequestError
from erasable.service.entries import Entry, Kind, State, as_record, check_id, from_record
from erasable.service.identities import Identity
from erasable.service.settings import Settings
from erasable.store import REAL_DISK, Disk, Journal, locked, read_journal, read_record, rewrite_journal

_OPEN = re.compile(r"(?:open-([0-9]{8,})|\.open-([0-9]{8,})\.(?:new|old|lock))")

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
        When it cannot be read or written.
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
        self._folder, self._disk = os.path.abspath(folder), disk
        self._key, self._settings, self._clock = operator_key, settings, clock
        self._turn = threading.RLock()
        self._lock = self._taken()
        self._entries: dict[str, Entry] = {}
        self._open: dict[str, tuple[Identity, ...]] = {}  # of all that is not settled
        self._places: dict[tuple[str, str], tuple[int, int]] = {}  # of receipts in ``past``
        self._owing: set[str] = set()  # receipts or callbacks
        self._epochs: dict[int, set[str]] = {}  # which of these are in which ``open-N``
        self._stale: set[int] = set()  # those that hold more than these
        self._journal: Journal | None = None  # of the last epoch, while it takes requests
        try:
            self._read_past()
            self._read_open()
            self._past = Journal(self._path("past"), disk=disk)
            self._tidy()
        except BaseException:
            self.close()
            raise

    # -- for everybody -------------------------------------------------------------------------------------------

    def accept(
        self, request_id: str, kind: Kind, identities: Sequence[Identity], body: bytes, callbacks: Sequence[str] = ()
    ) -> Entry:
        """The entry of a request, durable on return; that which is there already where the same body comes again.

        Raises
        ------
        InputError
            When the id is no UUID, or nobody is named.
        ConflictError
            When the id was accepted with another body.
        QueueFullError
            When too many wait.
        StoreError
            When it could not be made durable (a full disk): it is not accepted.
        """
        name = check_id(request_id)
        if not identities:
            raise InputError("a request must name at least one identity.")
        seal = hmac.new(self._key, name.encode() + b"\n" + body, hashlib.sha256).hexdigest()
        with self._turn:
            if (known := self._entries.get(name)) is not None:
                if not hmac.compare_digest(known.seal, seal):
                    raise ConflictError("a request of this id was accepted with another body: draw a new id.")
                return known
            if len(self._open) >= self._settings.queue:
                full = QueueFullError(f"{len(self._open):,} requests wait, and no more are taken: try again later.")
                full.retry_after = self._settings.tick
                raise full
            now = self._clock()
            times = now, now + self._settings.promise
            entry = Entry(name, kind, State.PENDING, *times, callbacks=tuple(dict.fromkeys(callbacks)), seal=seal)
            self._put([(entry, tuple(identities))])
            return entry

    def cancel(self, request_id: str) -> Entry:
        """The entry, cancelled for good; only while it is pending. Its identities are erased with the next commit.

        Raises
        ------
        UnknownRequestError
        ConflictError
            When it is in progress or completed; a cancelled one stays so.
        """
        with self._turn:
            entry = self.entry(request_id)
            if entry.state is State.CANCELLED:
                return entry
            if entry.state is not State.PENDING:
                raise ConflictError(f"the request is {entry.state.value}: only one that is pending can be cancelled.")
            entry = replace(entry, state=State.CANCELLED, settled=self._clock())
            self._past.append([as_record(entry)])
            self._settled(entry)
            return entry

    def entry(self, request_id: str) -> Entry:
        """The entry of a request.

        Raises
        ------
        UnknownRequestError
        """
        found = self._entries.get(check_id(request_id))
        if found is None:
            raise UnknownRequestError("no request of this id is known here: it was not accepted, or it was purged.")
        return found

    def entries(self) -> list[Entry]:
        """All entries, the oldest first."""
        return sorted(self._entries.copy().values(), key=lambda entry: entry.received)

    def receipt(self, request_id: str, model: str) -> str | None:
        """The text of a receipt; None while it is not there."""
        with self._turn:
            place = self._places.get((check_id(request_id), model))
            record = None if place is None else read_record(self._past.path, *place, disk=self._disk)
        return None if record is None else str(record["text"])

    def purge(self, before: datetime) -> int:
        """Entries that were settled before a moment, and owe nothing, are erased; how many.

        A request of that id is a new one afterwards.
        """
        with self._turn:
            settled = [e for e in self._entries.values() if e.settled is not None and e.settled < before]
            gone = {e.request_id for e in settled} - self._owing
            if not gone:
                return 0
            self._past.close()
            try:
                rewrite_journal(self._past.path, lambda record: record["request"] not in gone, disk=self._disk)
            finally:
                self._past = Journal(self._past.path, disk=self._disk)
                kept = {name: self._entries[name] for name in self._open}
                self._read_past()
                self._entries.update(kept)
            return len(gone)

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
            self._close_epoch()
            for name in self._open:
                self._entries[name] = replace(self._entries[name], state=State.IN_PROGRESS)
            return [(self._entries[name], identities) for name, identities in self._open.items()]

    def complete(self, request_ids: Collection[str] = (), models: Sequence[str] = ()) -> None:
        """These are durable in all models: completed for good, and identities erased, those of cancelled ones too.

        Raises
        ------
        StoreError
            When that could not be made durable, or identities not erased: ask again.
        """
        with self._turn:
            now, asked = self._clock(), [self._entries[name] for name in request_ids]
            done = [
                replace(e, state=State.COMPLETED, settled=now, models=tuple(models) if e.kind == "erasure" else ())
                for e in asked
            ]
            if done:
                self._past.append(map(as_record, done))
            self._tidy(frozenset(request_ids))
            for entry in done:
                self._settled(entry)

    def owing(self) -> list[Entry]:
        """Settled entries that owe receipts or callbacks, the oldest first."""
        with self._turn:
            return sorted((self._entries[name] for name in self._owing), key=lambda entry: entry.received)

    def put_receipts(self, receipts: Iterable[tuple[str, str, str]]) -> None:
        """Receipts (request id, model, text) made durable; the first of a request and model stays."""
        with self._turn:
            fresh = {(name, model): text for name, model, text in receipts if (name, model) not in self._places}
            records = [{"request": name, "model": model, "text": text} for (name, model), text in fresh.items()]
            for (name, model), place in zip(fresh, self._past.append(records) if records else (), strict=True):
                self._places[name, model] = place
                self._known(self._entries[name].with_receipt(model))

    def told(self, request_id: str, url: str) -> None:
        """A callback was delivered, or given up."""
        with self._turn:
            self._past.append([{"request": request_id, "told": url}])
            self._known(self._entries[request_id].without_callback(url))

    def close(self) -> None:
        """Let another process have it."""
        with self._turn:
            for journal in (self._journal, getattr(self, "_past", None)):
                if journal is not None:
                    journal.close()
            self._journal = None
            self._disk.close(self._lock)

    # -- how -----------------------------------------------------------------------------------------------------

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, name)

    def _taken(self) -> int:
        """The folder, made where it is not there, for this process alone."""
        try:
            with suppress(FileExistsError):
                self._disk.mkdir(self._folder)
                self._disk.fsync_folder(os.path.dirname(self._folder))
            lock = self._disk.open_lock(self._path("lock"))
        except OSError as error:
            raise StoreError(f"{self._folder} cannot hold requests: {error.strerror}. Give another folder.") from error
        if not self._disk.lock(lock, wait=False):
            self._disk.close(lock)
            raise BusyError(f"{self._folder} is in use by another process: stop that one first.")
        return lock

    def _known(self, entry: Entry) -> None:
        self._entries[entry.request_id] = entry
        if entry.owes_receipts or entry.owes_callbacks:
            self._owing.add(entry.request_id)
        else:
            self._owing.discard(entry.request_id)

    def _settled(self, entry: Entry) -> None:
        self._known(entry)
        self._open.pop(entry.request_id, None)
        for number, names in self._epochs.items():
            if entry.request_id in names:
                names.discard(entry.request_id)
                self._stale.add(number)

    def _read_past(self) -> None:
        """Every record says all of one thing, so that one that is there twice says it once."""
        self._entries, self._places, self._owing = {}, {}, set()
        for start, end, record in read_journal(self._path("past"), disk=self._disk):
            name = record["request"]
            if "state" in record:
                self._known(from_record(record)[0])
            elif name in self._entries and "told" in record:
                self._known(self._entries[name].without_callback(record["told"]))
            elif name in self._entries and (name, record["model"]) not in self._places:
                self._places[name, record["model"]] = (start, end)
                self._known(self._entries[name].with_receipt(record["model"]))

    def _read_open(self) -> None:
        found = filter(None, map(_OPEN.fullmatch, self._disk.names(self._folder)))
        for number in sorted({int(match[1] or match[2]) for match in found}):
            self._epochs[number] = set()
            self._stale.add(number)
            for _, _, record in read_journal(self._epoch(number), disk=self._disk):
                if (name := record["request"]) not in self._entries or name in self._open:
                    entry, self._open[name] = from_record(record)
                    self._entries[name] = replace(entry, state=State.IN_PROGRESS)
                    for names in self._epochs.values():
                        names.discard(name)
                    self._epochs[number].add(name)

    def _epoch(self, number: int) -> str:
        return self._path(f"open-{number:08d}")

    def _put(self, accepted: list[Open]) -> None:
        """Requests made durable, with their identities, in the epoch that takes requests."""
        if self._journal is None:
            number = max(self._epochs, default=0) + 1
            self._journal = Journal(self._epoch(number), disk=self._disk)
            self._epochs[number] = set()
        number = max(self._epochs)
        try:
            self._journal.append(as_record(entry, identities) for entry, identities in accepted)
        except StoreError:
            self._stale.add(number)  # of what was refused, half may be there
            self._close_epoch()
            raise
        for entry, identities in accepted:
            self._entries[entry.request_id], self._open[entry.request_id] = entry, identities
            for names in self._epochs.values():
                names.discard(entry.request_id)
            self._epochs[number].add(entry.request_id)

    def _close_epoch(self) -> None:
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def _tidy(self, settled: Collection[str] = ()) -> None:
        """Erase epochs that hold more than what is open; what is open moves to another one first."""
        closed = [number for number in sorted(self._epochs) if self._journal is None or number != max(self._epochs)]
        for number in closed:
            left = [name for name in self._open if name in self._epochs[number] and name not in settled]
            if number not in self._stale and len(left) == len(self._epochs[number]) > 0:
                continue
            if left:
                self._put([(self._entries[name], self._open[name]) for name in left])
            with locked(self._epoch(number), disk=self._disk) as writer:
                if writer.exists():
                    writer.remove()
            del self._epochs[number]
            self._stale.discard(number)
