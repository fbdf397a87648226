"""Durable requests: accepted once they are on disk, and without identities once they are settled.

A folder holds ``past``, a journal of outcomes that names nobody, and ``open-N``, journals of accepted requests with
their identities, erased once all of them are settled: see :mod:`erasable.service.journals`. The order of the steps is
the point. The outcome is durable in ``past`` before the identities are erased, and they are erased before anybody is
told. A request that is found in ``open-N`` and not in ``past`` may have been begun. It is carried out again, which
changes nothing that was done, and can no longer be cancelled.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, get_args

from erasable.audit.keys import PrivateKey, read_private_key
from erasable.core.names import Shape
from erasable.errors import (
    ConfigurationError,
    ConflictError,
    ErasableError,
    InputError,
    QueueFullError,
    StoreError,
    UnknownRequestError,
)
from erasable.service.journals import Epochs, Past, lock_folder
from erasable.service.lineage import Lineage
from erasable.service.purges import WatchedClock, elapsed, make_tombstone
from erasable.service.requests import Entry, Identity, Kind, State, as_record, check_id, from_record, key_of, read_past
from erasable.service.settings import Settings
from erasable.service.suppression import SuppressionList, read_key
from erasable.store import REAL_DISK, Disk, Record


@dataclass
class _Arrival:
    """A request that is being accepted, and its outcome."""

    entry: Entry
    identities: tuple[Identity, ...]
    outcome: Entry | ErasableError | None = None


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
    ) -> None:
        self._key, self._settings, self._clock, self._disk = operator_key, settings, clock, disk
        home = os.path.abspath(folder)
        self._folder_lock = lock_folder(home, disk)
        # Whoever needs both takes them in this order. Accepting needs the second alone, so it waits for no commit.
        self._past_lock, self._lock = threading.RLock(), threading.RLock()
        self._arriving_lock = threading.Lock()
        self._arriving: list[_Arrival] = []
        self._entries: dict[str, Entry] = {}  # by key, as everything below
        self._of_id: dict[str, set[str]] = {}  # keys by request id: several if controllers share it
        self._open: dict[str, tuple[Identity, ...]] = {}  # of all requests that are not settled
        self._places: dict[tuple[str, str], Record] = {}  # of receipts in ``past``
        self._owing: set[str] = set()  # receipts or callbacks
        self._epochs = Epochs(home, operator_key, disk)
        past: Past | None = None
        try:
            past = self._past = Past(home, operator_key, settings.anchor, disk)
            self.files = Lineage(past, operator_key, self._past_lock, settings.vouch, self.owing, self._replace)
            entries, self._places = self._read_past()
            for entry in entries.values():
                self._put_entry(entry)
            self._read_open()
            self._upgrade()
        except BaseException:
            self._epochs.close()
            if past is not None:
                past.close()
            disk.close(self._folder_lock)
            raise

    # -- for clients ---------------------------------------------------------------------------------------------

    def accept(
        self,
        request_id: str,
        kind: Kind,
        identities: Sequence[Identity],
        body: bytes,
        callbacks: Sequence[str] = (),
        controller: str = "",
    ) -> Entry:
        """The entry of a request, durable on return; the existing entry if the same body was accepted before.

        Raises ``InputError`` if the id is no UUID or no identity is given, ``ConflictError`` if the id was accepted
        with another body, ``QueueFullError`` if too many wait, and ``StoreError`` if it could not be made durable: then
        it is not accepted.
        """
        name = check_id(request_id)
        if kind not in get_args(Kind) or not identities:
            raise InputError("a request must be for erasure or access, and name at least one identity.")
        now = self._clock()
        entry = Entry(
            name,
            kind,
            State.PENDING,
            now,
            now + self._settings.promise,
            callbacks=tuple(dict.fromkeys(callbacks)),
            seal=hmac.new(self._key, name.encode() + b"\n" + body, hashlib.sha256).hexdigest(),
            controller=controller,
            asked=Shape.of((who.format, who.value) for who in identities),
            spelling={who.role: who.steps for who in identities if who.steps},
        )
        arrival = _Arrival(entry, tuple(identities))
        with self._arriving_lock:
            self._arriving.append(arrival)
        with self._lock:
            if arrival.outcome is None:  # otherwise another thread has accepted it with its own
                with self._arriving_lock:
                    together, self._arriving = self._arriving, []
                self._accept_together(together)
        if not isinstance(arrival.outcome, Entry):
            raise arrival.outcome or StoreError("whether the request was accepted is not known: send it again.")
        return arrival.outcome

    def _accept_together(self, together: list[_Arrival]) -> None:
        """Make all new requests durable with one fsync, and set the outcome of each."""
        fresh: dict[str, _Arrival] = {}
        for arrival in together:
            name = arrival.entry.key
            known = fresh[name].entry if name in fresh else self._entries.get(name)
            if known is None and len(self._open) + len(fresh) >= self._settings.queue:
                full = QueueFullError(f"{len(self._open):,} requests wait, and no more are accepted: try again later.")
                full.retry_after = self._settings.tick
                arrival.outcome = full
            elif known is None:
                fresh[name] = arrival
            elif not hmac.compare_digest(known.seal, arrival.entry.seal):
                arrival.outcome = ConflictError("a request of this id was accepted with another body: draw a new id.")
            elif name not in fresh:
                arrival.outcome = known
        failure = None
        try:
            if fresh:
                self._put_open([(arrival.entry, arrival.identities) for arrival in fresh.values()])
        except StoreError as error:
            failure = error
        for arrival in together:
            arrival.outcome = arrival.outcome or failure or fresh[arrival.entry.key].entry

    def cancel(self, request_id: str, controller: str = "", others: bool = True) -> Entry:
        """The entry, cancelled; only while it is pending. The next commit erases its identities.

        Raises ``UnknownRequestError`` as ``entry`` does, and ``ConflictError`` if it is in progress or completed.
        """
        with self._past_lock, self._lock:
            entry = self.entry(request_id, controller, others)
            if entry.state is State.CANCELLED:
                return entry
            if entry.state is not State.PENDING:
                raise ConflictError(f"the request is {entry.state.value}: only one that is pending can be cancelled.")
            entry = replace(entry, state=State.CANCELLED, settled=self._clock())
            self._past.append([as_record(entry)])
            self._settle(entry)
            return entry

    def entry(self, request_id: str, controller: str = "", others: bool = True) -> Entry:
        """The entry of a controller's request; if it has none of this id and may see ``others``, the one of another.

        Raises ``UnknownRequestError`` if none is visible, ``ConflictError`` if several others have one.
        """
        name = check_id(request_id)
        own = self._entries.get(key_of(name, controller))
        if own is not None:
            return own
        keys = tuple(self._of_id.get(name, ())) if others else ()
        found = [entry for key in keys if (entry := self._entries.get(key)) is not None]
        if not found:
            raise UnknownRequestError("no request of this id is known: it was not accepted, or it was purged.")
        if len(found) > 1:
            raise ConflictError("several controllers have filed a request of this id: name one with ?controller=.")
        return found[0]

    def entries(self, controller: str | None = None) -> list[Entry]:
        """All entries, or those of one controller, the oldest first."""
        entries = self._entries.copy().values()
        visible = [entry for entry in entries if controller is None or entry.controller == controller]
        return sorted(visible, key=lambda entry: entry.received)

    def receipts(self, entry: Entry) -> dict[str, str] | None:
        """The receipts of a completed erasure by model; None while one is owed."""
        if entry.state is not State.COMPLETED or entry.owes_receipts:
            return None
        texts = {model: self.receipt(entry, model) for model in entry.models}
        return {model: text for model, text in texts.items() if text is not None}

    def receipt(self, entry: Entry, model: str) -> str | None:
        """The receipt of one model; None while it is owed."""
        with self._past_lock:
            place = self._places.get((entry.key, model))
            return None if place is None else self._past.text_of(place)

    def purge(self, before: datetime, by: str, signer: PrivateKey) -> int:
        """Erase entries that were settled before a time and owe nothing; returns how many.

        A request of such an id is a new one afterwards. A signed tombstone says how many requests and receipts of which
        time were purged, and by whom. It is durable before anything is erased, so a purge that a crash interrupts is
        counted once more when it is repeated. Raises ``InputError`` for a time in the future.
        """
        now = self._clock()
        if before > now:
            raise InputError("only the past can be purged: give a time that is not in the future.")
        with self._past_lock, self._lock:
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
            # Some records name a request by its id alone; they go once all requests of that id do.
            ids = {name for key in gone if self._of_id[name := settled[key].request_id] <= gone}

            def stays(record: Mapping[str, Any]) -> bool:
                return self.files.stays(record) and record.get("request") not in gone | ids

            try:
                self._past.rewrite(stays)
            finally:
                _, self._places = self._read_past()
            for key in gone:
                del self._entries[key]
                same_id = self._of_id[settled[key].request_id]
                same_id.discard(key)
                if not same_id:
                    del self._of_id[settled[key].request_id]
            return len(gone)

    def tombstones(self) -> list[str]:
        """The signed statements of all purges, the oldest first."""
        with self._past_lock:
            return list(self._tombstones)

    @property
    def newest(self) -> datetime | None:
        """The last time at which a request was received or settled."""
        return max((e.settled or e.received for e in self._entries.values()), default=None)

    # -- for the one writer --------------------------------------------------------------------------------------

    @property
    def waiting(self) -> int:
        """How many requests are not settled."""
        return len(self._open)

    def overdue(self, now: datetime) -> int:
        """How many of them are past their expected completion."""
        return sum(self._entries[name].expected < now for name in list(self._open))

    def begin(self) -> list[tuple[Entry, tuple[Identity, ...]]]:
        """All requests that are not settled, from now on in progress, with their identities."""
        with self._lock:
            self._epochs.close()
            for name in self._open:
                self._entries[name] = replace(self._entries[name], state=State.IN_PROGRESS)
            return [(self._entries[name], identities) for name, identities in self._open.items()]

    def complete(
        self, keys: Collection[str] = (), models: Sequence[str] = (), listed: SuppressionList | None = None
    ) -> None:
        """Complete requests that are durable in all models, and erase identities, those of cancelled requests too.

        If a list is given, all identities that they named are on it. On ``StoreError`` something could not be made
        durable or erased: call it again.
        """
        now, done = self._clock(), []
        with self._lock:
            for entry in (self._entries[name] for name in keys):
                entry = replace(entry, state=State.COMPLETED, settled=now)
                if entry.kind == "erasure":
                    entry = replace(entry, models=tuple(models), listed=listed is not None)
                done.append(entry)
        if done:
            with self._past_lock:
                self._past.append([*map(as_record, done), *self.files.records_of(listed)])
                self.files.completed({model for e in done for model in e.models}, listed)
        self._erase_settled(frozenset(keys))
        with self._lock:
            for entry in done:
                self._settle(entry)

    def owing(self) -> list[Entry]:
        """Settled entries that owe receipts or callbacks, the oldest first."""
        with self._lock:
            return sorted((self._entries[name] for name in self._owing), key=lambda entry: entry.received)

    def in_progress(self) -> list[Entry]:
        """Entries that are in progress, the oldest first."""
        with self._lock:
            return [self._entries[e] for e in self._open if self._entries[e].state is State.IN_PROGRESS]

    @property
    def position(self) -> str:
        """See ``Past.position``."""
        with self._past_lock:
            return self._past.position

    def put_receipts(self, model: str, receipts: Mapping[str, str]) -> None:
        """Make receipts of a model durable, by the keys of their requests; the first receipt of a request stays."""
        with self._past_lock:
            fresh = {key: text for key, text in receipts.items() if (key, model) not in self._places}
            records = [{"request": key, "model": model, "text": text} for key, text in fresh.items()]
            places = self._past.append(records) if records else []
            with self._lock:
                for key, place in zip(fresh, places, strict=True):
                    self._places[key, model] = place._replace(content={})
                    self._put_entry(self._entries[key].with_receipt(model))

    def end_callback(self, key: str, url: str) -> None:
        """Note durably that a callback was delivered or given up."""
        with self._past_lock:
            self._past.append([{"request": key, "told": url}])
            with self._lock:
                self._put_entry(self._entries[key].without_callback(url))

    def close(self) -> None:
        """Release the folder."""
        with self._past_lock, self._lock:
            self._epochs.close()
            self._past.close()
            self._disk.close(self._folder_lock)

    # -- internals -----------------------------------------------------------------------------------------------

    def _read_past(self) -> tuple[dict[str, Entry], dict[tuple[str, str], Record]]:
        self._tombstones: list[str] = []

        def note_tombstones(records: Iterable[Record]) -> Iterable[Record]:
            for record in records:
                self._tombstones += filter(None, [record.content.get("tombstone")])
                yield record

        return read_past(note_tombstones(self.files.read(self._past.read())))

    def _read_open(self) -> None:
        for record in self._epochs.found():
            entry, identities = from_record(record)
            if entry.key not in self._entries or entry.key in self._open:
                self._open[entry.key] = identities
                self._put_entry(replace(entry, state=State.IN_PROGRESS))
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
            _, self._places = self._read_past()

    def _replace(self, entry: Entry) -> None:
        with self._lock:
            self._put_entry(entry)

    def _put_entry(self, entry: Entry) -> None:
        self._entries[entry.key] = entry
        self._of_id.setdefault(entry.request_id, set()).add(entry.key)
        if entry.owes_receipts or entry.owes_callbacks:
            self._owing.add(entry.key)
        else:
            self._owing.discard(entry.key)

    def _settle(self, entry: Entry) -> None:
        self._put_entry(entry)
        self._open.pop(entry.key, None)
        self._epochs.drop(entry.key)

    def _put_open(self, accepted: list[tuple[Entry, tuple[Identity, ...]]]) -> None:
        """Make open requests durable, with their identities."""
        self._epochs.put({entry.key: as_record(entry, identities) for entry, identities in accepted})
        for entry, identities in accepted:
            self._put_entry(entry)
            self._open[entry.key] = identities

    def _erase_settled(self, settled: Collection[str] = ()) -> None:
        """Erase every ``open-N`` with settled requests; its open requests move to another file first."""
        with self._lock:
            doomed = self._epochs.doomed([name for name in self._open if name not in settled])
            moving = [name for names in doomed.values() for name in names]
            if moving:
                self._put_open([(self._entries[name], self._open[name]) for name in moving])
        for number in doomed:
            self._epochs.erase(number)
            with self._lock:
                self._epochs.forget(number)


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
    ledger = Ledger(home, read_key(os.path.join(folder, "operator.key")), Settings(), clock)
    try:
        watched = WatchedClock(os.path.join(home, "clock"), clock, elapsed, ledger.newest, trusted=trust_clock)
        if watched.doubt() is not None:
            raise ConfigurationError(
                "by the clock the service has not run for more than a day: if the clock is right, add --trust-clock."
            )
        return ledger.purge(before, "(command line)", signer)
    finally:
        ledger.close()
