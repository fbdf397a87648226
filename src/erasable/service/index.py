"""An index of the ledger: which requests exist, in which state, and where ``past`` holds them. It names nobody.

It is an SQLite database in memory, made from the records of ``past``, so that pages of a long ledger cost no more than
those of a short one. The journals alone decide what happened. A copy of the index is saved from time to time, under a
MAC and with the position of ``past`` that it stands for, so that a start reads only the records after that position.
A copy that is missing, damaged or of another ledger is passed over: the index is then made from all of ``past``.
"""

from __future__ import annotations

import hmac
import itertools
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from erasable.errors import ErasableError, InputError
from erasable.service.requests import SOON, Entry, State, as_record, entry_of, key_of
from erasable.store import Contents, Disk, Record, journal_key, locked

_MOST = 10_000  # entries or events of one page
_MAC = 32  # bytes
_READ, _TOGETHER = 5_000, 250  # records that are read, and rows that are put, at a time
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_TABLES = """
CREATE TABLE entries (
    n INTEGER PRIMARY KEY, request TEXT NOT NULL, controller TEXT NOT NULL, state TEXT NOT NULL,
    received INTEGER NOT NULL, settled INTEGER, due INTEGER, reference TEXT NOT NULL COLLATE NOCASE,
    start INTEGER, stop INTEGER, checksum BLOB,
    UNIQUE (request, controller), CHECK ((settled IS NULL) = (start IS NULL))
);
CREATE INDEX by_received ON entries (received);
CREATE INDEX by_controller ON entries (controller, received);
CREATE INDEX by_state ON entries (state, received);
CREATE INDEX by_due ON entries (due, received);
CREATE INDEX by_settled ON entries (settled);
CREATE INDEX by_reference ON entries (reference, received);
CREATE INDEX while_open ON entries (controller, due) WHERE settled IS NULL;
CREATE TABLE receipts (
    n INTEGER NOT NULL REFERENCES entries, model TEXT NOT NULL, start INTEGER NOT NULL, stop INTEGER NOT NULL,
    checksum BLOB NOT NULL, PRIMARY KEY (n, model)
) WITHOUT ROWID;
CREATE TABLE events (
    n INTEGER PRIMARY KEY, at INTEGER NOT NULL, what TEXT NOT NULL, who TEXT NOT NULL, request TEXT NOT NULL,
    model TEXT NOT NULL, times INTEGER NOT NULL
);
CREATE INDEX by_time ON events (at);
CREATE TABLE tombstones (n INTEGER PRIMARY KEY, text TEXT NOT NULL);
"""
_PUT = """
INSERT INTO entries (request, controller, state, received, settled, due, reference, start, stop, checksum)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (request, controller) DO UPDATE SET state = excluded.state,
settled = excluded.settled, start = excluded.start, stop = excluded.stop, checksum = excluded.checksum
"""
_SORTS = ("urgent", "received", "due", "reference", "settled")
#: Open requests are few, and have an index of their own; a plus sign keeps SQLite from using another one.
_OPEN, _DONE = "entries INDEXED BY while_open WHERE settled IS NULL", "entries WHERE +settled IS NOT NULL"
_SETTLED = (State.COMPLETED, State.CANCELLED)
_FILTERS = {
    "open": "settled IS NULL",
    "overdue": "settled IS NULL AND due < :today",
    "due_soon": "settled IS NULL AND due BETWEEN :today AND :soon",
}


@dataclass(frozen=True)
class Query:
    """Which requests to list.

    ``controller`` None means those of all. ``text`` is the beginning of a reference or of a request id. ``state`` is
    one of the states, ``"open"``, ``"overdue"``, ``"due_soon"``, or empty for all. ``sort`` is ``"urgent"`` (open
    requests first, by due date), ``"received"``, ``"due"``, ``"reference"`` or ``"settled"``.
    """

    controller: str | None = None
    text: str = ""
    state: str = ""
    sort: str = "urgent"
    descending: bool = True
    limit: int = 50
    skip: int = 0

    def __post_init__(self) -> None:
        if self.state not in ("", *_FILTERS, *State) or self.sort not in _SORTS:
            known = ", ".join((*_FILTERS, *State))
            raise InputError(f"a list has one of these states: {known}; and is sorted by one of {', '.join(_SORTS)}.")
        if not 1 <= self.limit <= _MOST or not 0 <= self.skip < 2**62:
            raise InputError(f"a page has 1 to {_MOST:,} requests, and what is skipped is a number from 0 on.")


@dataclass(frozen=True)
class RequestPage:
    """One page of requests, and how many there are in all."""

    entries: list[Entry]
    total: int


@dataclass(frozen=True)
class Counts:
    """How many requests there are, by state. Those that are overdue or due soon are open, too."""

    total: int
    open: int
    completed: int
    cancelled: int
    overdue: int
    due_soon: int


@dataclass(frozen=True)
class Event:
    """One line of the audit trail: what a token did, and when. It names nobody whose data is concerned."""

    at: datetime
    what: str  # one of ``DEEDS``
    by: str  # the name of the token
    request_id: str = ""
    model: str = ""
    times: int = 1  # how often it happened since the last such event, if it is counted: see ``Incidents``

    def as_record(self) -> dict[str, Any]:
        """The record that the ledger keeps."""
        of = {"of": self.request_id, "model": self.model, "times": self.times if self.times > 1 else None}
        return {"event": self.what, "at": self.at.isoformat(), "by": self.by, **{k: v for k, v in of.items() if v}}


@dataclass(frozen=True)
class Trail:
    """One page of the audit trail, the newest event first, and how many events there are in all."""

    events: list[Event]
    total: int


#: What the audit trail records. The ledger itself notes requests, cancellations and purges.
DEEDS = (
    *("sign-in", "sign-out", "request", "cancel", "look-up", "download", "verification", "export", "purge"),
    *("sign-in-failed", "scope-refused", "token-made", "token-revoked", "vouch", "trust-clock"),
)


class Index:
    """The requests of a ledger by key, reference, state and time; for any number of threads."""

    def __init__(self, image: memoryview | None = None) -> None:
        self._lock = threading.RLock()
        self.recent: dict[str, Entry] = {}  # settled entries that were read
        self._base = sqlite3.connect(":memory:", check_same_thread=False, isolation_level=None)
        if image is None:
            self._base.executescript(_TABLES)
        else:
            self._base.deserialize(image)
            self._ask("DELETE FROM entries WHERE settled IS NULL")  # the files ``open-N`` have these
        self.count_settled()

    def _ask(self, command: str, values: Mapping[str, Any] | tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._base.execute(command, values).fetchall()

    def _put_all(self, command: str, rows: Iterable[tuple[Any, ...]]) -> None:
        rows = iter(rows)
        while block := list(itertools.islice(rows, _TOGETHER)):
            with self._lock:  # not for long, since answers wait for it
                self._base.execute("BEGIN")
                self._base.executemany(command, block)
                self._base.execute("COMMIT")

    def image(self) -> bytes:
        """All of it as bytes: see the constructor."""
        with self._lock:
            return self._base.serialize()

    def __del__(self) -> None:
        self._base.close()  # not before: other threads may still use it

    # -- requests ------------------------------------------------------------------------------------------------

    def put(self, entries: Iterable[tuple[Entry, Record | None]]) -> None:
        """Take in requests, or changes of them, each with the place of its record in ``past`` when it is settled."""
        rows = [_row(as_record(entry), place) for entry, place in entries]
        self._put_all(_PUT, rows)
        self._settled.update(
            (controller, state) for _, controller, state, _, settled, *_ in rows if settled is not None
        )

    def put_records(self, records: Iterable[Record]) -> None:
        """Take in settled requests as ``past`` holds them; afterwards ``count_settled`` has to be called."""
        self._put_all(_PUT, (_row(place.content, place) for place in records))

    def count_settled(self) -> None:
        """Count settled requests by controller and state, once all records were taken in."""
        text = "SELECT controller, state, count(*) FROM entries WHERE settled IS NOT NULL GROUP BY controller, state"
        self._settled = Counter({(who, state): n for who, state, n in self._ask(text)})

    def put_receipts(self, receipts: Mapping[tuple[str, str], Record]) -> None:
        """Take in the places of receipts by request and model; the first receipt of a request stays."""
        self._put_all(
            "INSERT OR IGNORE INTO receipts SELECT n, ?, ?, ?, ? FROM entries WHERE request = ? AND controller = ?",
            [(model, *place[:3], *_parted(key)) for (key, model), place in receipts.items()],
        )

    def place(self, key: str) -> Record | None:
        """Where ``past`` holds a settled request; None if it is open or unknown."""
        found = self._ask(
            "SELECT start, stop, checksum FROM entries WHERE request = ? AND controller = ? AND start IS NOT NULL",
            _parted(key),
        )
        return _place(found)

    def receipt(self, key: str, model: str) -> Record | None:
        """Where ``past`` holds a receipt; None if it does not."""
        found = self._ask(
            "SELECT receipts.start, receipts.stop, receipts.checksum FROM receipts JOIN entries USING (n) "
            "WHERE request = ? AND controller = ? AND model = ?",
            (*_parted(key), model),
        )
        return _place(found)

    def keys_of(self, request_id: str) -> list[str]:
        """The keys of all requests of this id: several if controllers share it."""
        found = self._ask("SELECT controller FROM entries WHERE request = ? ORDER BY controller", (request_id,))
        return [key_of(request_id, controller) for (controller,) in found]

    def settled_before(self, before: datetime) -> dict[str, datetime]:
        """When requests were settled, by key; of those settled before a time."""
        found = self._ask("SELECT request, controller, settled FROM entries WHERE settled < ?", (_number(before),))
        return {key_of(request, controller): _time(settled) for request, controller, settled in found}

    def receipts_of(self, keys: Collection[str]) -> int:
        """How many receipts these requests have."""
        found = self._ask("SELECT request, controller, count(*) FROM receipts JOIN entries USING (n) GROUP BY n")
        return sum(count for request, controller, count in found if key_of(request, controller) in keys)

    @property
    def newest(self) -> datetime | None:
        """The last time at which a request was received or settled."""
        ((received, settled),) = self._ask("SELECT max(received), (SELECT max(settled) FROM entries) FROM entries")
        return None if received is None else _time(max(received, settled or 0))

    def search(self, query: Query, today: date) -> tuple[list[str], int]:
        """The keys of a page of requests, and how many requests fit in all."""
        text, where = query.text.strip(), ""
        if query.controller is not None:
            where += " AND +controller = :controller" if text else " AND controller = :controller"
        if query.state:
            where += " AND " + _FILTERS.get(query.state, "state = :state")
        if text:
            where += " AND (request BETWEEN :id AND :id_end OR reference BETWEEN :text AND :text_end)"
        values = _days(today) | {"controller": query.controller, "state": query.state, "id": text.lower()}
        values |= {"id_end": text.lower() + "g", "text": text, "text_end": text + "\U0010ffff"}
        keys: list[str] = []
        total = 0
        for part, order in ((_OPEN, "due IS NULL, due, received DESC"), (_DONE, "received DESC")):
            if part == _DONE and not text:  # counting them would visit them all
                count = sum(self._done(query.controller, state) for state in _SETTLED if query.state in ("", state))
            else:
                ((count,),) = self._ask(f"SELECT count(*) FROM {part}{where}", values)
            if query.sort == "urgent" and query.skip < total + count and len(keys) < query.limit:
                values |= {"limit": query.limit - len(keys), "skip": max(0, query.skip - total)}
                keys += self._page(part + where, order, values)
            total += count
        if query.sort != "urgent":
            way = "DESC" if query.descending else "ASC"
            order = f"{query.sort} {way}" + (", received DESC" if query.sort != "received" else "")
            keys = self._page(f"entries WHERE 1{where}", order, values | {"limit": query.limit, "skip": query.skip})
        return keys, total

    def _page(self, source: str, order: str, values: Mapping[str, Any]) -> list[str]:
        text = f"SELECT request, controller FROM {source} ORDER BY {order} LIMIT :limit OFFSET :skip"
        return [key_of(*row) for row in self._ask(text, values)]

    def _done(self, controller: str | None, state: State) -> int:
        settled = self._settled.copy().items()
        return sum(n for (who, found), n in settled if found == state and controller in (None, who))

    def counts(self, controller: str | None, today: date) -> Counts:
        """How many requests of a controller, or of all, there are by state."""
        whose = " AND controller = :controller" if controller is not None else ""
        text = f"SELECT count(*), sum(due < :today), sum(due BETWEEN :today AND :soon) FROM {_OPEN}{whose}"
        ((waiting, overdue, soon),) = self._ask(text, _days(today) | {"controller": controller})
        completed, cancelled = (self._done(controller, state) for state in _SETTLED)
        return Counts(waiting + completed + cancelled, waiting, completed, cancelled, overdue or 0, soon or 0)

    # -- the audit trail -----------------------------------------------------------------------------------------

    def add_events(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Take in records of events."""
        self._put_all(
            "INSERT INTO events (at, what, who, request, model, times) VALUES (?, ?, ?, ?, ?, ?)",
            [
                (
                    _number(datetime.fromisoformat(e["at"])),
                    *(e["event"], e["by"], e.get("of", ""), e.get("model", ""), e.get("times", 1)),
                )
                for e in events
            ],
        )

    def events_before(self, before: datetime) -> int:
        """How many events are older than a time; those of purges stay."""
        ((count,),) = self._ask("SELECT count(*) FROM events WHERE at < ? AND what <> 'purge'", (_number(before),))
        return int(count)

    def trail(self, what: str, by: str, request_id: str, limit: int, skip: int) -> Trail:
        """A page of the audit trail; an empty text stands for all. Requests count as events of their own."""
        given = {"what": what, "who": by, "request": request_id.lower()}
        noted = " AND ".join(["1", *(f"{name} = :{name}" for name, value in given.items() if value)])
        filed = noted.replace("what =", "'request' =").replace("who =", "controller =")
        page: dict[str, Any] = given | {"limit": max(1, min(limit, _MOST)), "skip": max(0, skip)}
        found = self._ask(
            f"SELECT at, what, who, request, model, times FROM events WHERE {noted} UNION ALL "
            f"SELECT received, 'request', controller, request, '', 1 FROM entries WHERE {filed} "
            "ORDER BY 1 DESC LIMIT :limit OFFSET :skip",
            page,
        )
        counts = f"(SELECT count(*) FROM events WHERE {noted}) + (SELECT count(*) FROM entries WHERE {filed})"
        ((total,),) = self._ask(f"SELECT {counts}", given)
        return Trail([Event(_time(at), *rest) for at, *rest in found], total)

    # -- purges --------------------------------------------------------------------------------------------------

    def add_tombstones(self, texts: Iterable[str]) -> None:
        """Take in signed statements of purges."""
        self._put_all("INSERT INTO tombstones (text) VALUES (?)", [(text,) for text in texts])

    def tombstones(self) -> list[str]:
        """The signed statements of all purges, the oldest first."""
        return [text for (text,) in self._ask("SELECT text FROM tombstones ORDER BY n")]


class JournalReader:
    """Takes in the records of ``past``, in order: settled requests go to the index, and those that owe stay here.

    Each record is complete in itself, so reading one twice changes nothing. ``owing`` has the records of requests that
    owe receipts or callbacks, by key; ``begun`` the keys of requests whose commit began after a grace period.
    """

    def __init__(self, index: Index, owing: Iterable[dict[str, Any]] = (), begun: Iterable[str] = ()) -> None:
        self._index, self.begun, self.records = index, set(begun), 0
        self.owing = {key_of(*_parted(record["request"], record["controller"])): record for record in owing}

    def read(self, records: Iterator[Record]) -> None:
        """Take in records."""
        by_id: dict[str, str] = {}  # in older ledgers, records name a request by its id alone
        while block := list(itertools.islice(records, _READ)):
            self._read(block, by_id)
        self._index.count_settled()

    def _read(self, block: list[Record], by_id: dict[str, str]) -> None:
        settled: list[Record] = []
        receipts: dict[tuple[str, str], Record] = {}
        for place in block:
            content = place.content
            name: str | None = content.get("request")
            name = by_id.get(name, name) if name else None
            if name is None:
                if content.get("lost"):  # the suppression list
                    self.owing = {key: record | {"listed": False} for key, record in self.owing.items()}
            elif "state" in content:
                key = key_of(*_parted(name, content.get("controller", "")))
                by_id |= {} if "/" in name else {name: key}
                self.begun.discard(key)
                settled.append(place)
                if content["models"] or content["callbacks"]:
                    self.owing[key] = content | {"receipts": [], "doubted": []}
            elif "begun" in content:
                self.begun.add(name)
            elif "text" in content:
                receipts.setdefault((name, content["model"]), place)
                self._note(name, "receipts", [content["model"]])
            elif "doubted" in content:
                self._note(name, "doubted", [content["doubted"]])
            elif name in self.owing:
                left = [url for url in self.owing[name]["callbacks"] if url != content["told"]]
                self.owing[name] = self.owing[name] | {"callbacks": left}
                self._note(name)
        self.records += len(block)
        self._index.put_records(settled)
        self._index.put_receipts(receipts)
        self._index.add_events(place.content for place in block if "event" in place.content)
        self._index.add_tombstones(place.content["tombstone"] for place in block if "tombstone" in place.content)

    def entries(self) -> list[Entry]:
        """The entries that owe receipts or callbacks."""
        return [entry_of(record) for record in self.owing.values()]

    def _note(self, name: str, what: str = "receipts", more: Collection[str] = ()) -> None:
        if (record := self.owing.get(name)) is None:
            return
        record = self.owing[name] = record | {what: [*record[what], *more]}
        if not record["callbacks"] and {*record["receipts"]} >= {*record["models"]}:
            del self.owing[name]


def _index_key(key: bytes) -> bytes:
    """The key of saved indexes; one with other tables has another key."""
    return journal_key(key, "index " + _TABLES)


def save(path: str, key: bytes, state: Mapping[str, Any], image: bytes, disk: Disk) -> None:
    """Save an image of an index, and further state as JSON, under a MAC; ``StoreError`` if that failed."""
    head = json.dumps(state).encode() + b"\n"
    mac = hmac.new(_index_key(key), head, "sha256")
    mac.update(image)
    with locked(path, disk=disk) as writer:
        writer.replace([mac.digest(), head, image])


def remove_saved(path: str, disk: Disk) -> None:
    """Erase a saved index, if there is one."""
    with locked(path, disk=disk) as writer:
        if writer.exists():
            writer.remove()


def read_saved(path: str, key: bytes, past: Contents, disk: Disk) -> tuple[dict[str, Any], Index]:
    """The saved state and index, if ``past`` holds the position that they stand for; else no state and a new index."""

    def parse(data: bytes, _: object) -> tuple[dict[str, Any], Index] | None:
        content = memoryview(data)[_MAC:]
        if not hmac.compare_digest(hmac.digest(_index_key(key), content, "sha256"), data[:_MAC]):
            return None
        end = data.index(b"\n", _MAC) + 1
        state = json.loads(data[_MAC:end])
        pieces, mac, _ = state["at"]
        return (state, Index(memoryview(data)[end:])) if past.holds(pieces, mac) else None

    try:
        with locked(path, disk=disk) as writer:  # which erases what an interrupted save left
            found = writer.read(parse) if writer.exists() else None
    except (ErasableError, sqlite3.Error, AttributeError):  # it does not exist, say, or SQLite cannot load images
        found = None
    return found or ({}, Index())


def _parted(key: str, controller: str = "") -> tuple[str, str]:
    """The id and the controller of a request; older ledgers have an id alone as its key."""
    request, _, own = key.partition("/")
    return request, own or controller


def _row(content: Mapping[str, Any], place: Record | None) -> tuple[Any, ...]:
    """A row of the table of entries, from a record of a request."""
    return (
        *_parted(content["request"], content.get("controller", "")),
        content["state"],
        _number(datetime.fromisoformat(content["received"])),
        None if place is None else _number(datetime.fromisoformat(content["settled"])),
        date.fromisoformat(content["due"]).toordinal() if "due" in content else None,
        content.get("reference", ""),
        *((None, None, None) if place is None else place[:3]),
    )


def _place(found: list[tuple[Any, ...]]) -> Record | None:
    return Record(found[0][0], found[0][1], found[0][2], {}) if found else None


def _days(today: date) -> dict[str, Any]:
    return {"today": today.toordinal(), "soon": (today + SOON).toordinal()}


def _number(at: datetime) -> int:
    """Microseconds since 1970."""
    return (at - _EPOCH) // timedelta(microseconds=1)


def _time(number: int) -> datetime:
    return _EPOCH + timedelta(microseconds=number)
