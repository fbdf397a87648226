"""The index of a ledger: what it finds, that it is the one of the journal, and that a saved copy changes nothing."""

from __future__ import annotations

import itertools
import random
import re
import string
import unicodedata
import uuid
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.audit.keys import new_key
from erasable.core.names import REFERENCE_PATTERN, doubt_of_reference
from erasable.errors import (
    ConfigurationError,
    ConflictError,
    InputError,
    QueueFullError,
    StoreError,
    UnknownRequestError,
)
from erasable.service.index import Counts, Query
from erasable.service.ledger import Ledger
from erasable.service.purges import check_tombstone
from erasable.service.requests import MOST_IDENTITIES, Case, Filing, Identity, State
from erasable.service.settings import Settings
from tests.service.world import World, fresh_disk
from tests.store.simulated import SimulatedDisk

KEY = new_key()
NOW = datetime(2026, 1, 31, 3, 4, 5, tzinfo=UTC)
ANN = (Identity("subject", "raw", "ann"),)


class Book:
    """A ledger with a clock that can be moved, and which can be opened anew."""

    def __init__(self, folder, **settings):
        self.folder, self.settings, self.now, self.passed = folder, Settings(**settings), NOW, 0.0
        self.open()

    def open(self):
        clocks = {"clock": lambda: self.now, "elapsed": lambda: self.passed}
        self.ledger = Ledger(self.folder, b"k" * 32, self.settings, **clocks)
        return self.ledger

    def again(self, *, saved=True):
        self.ledger.close()
        if not saved:
            (self.folder / "index").unlink(missing_ok=True)
        return self.open()

    def file(self, reference="", controller="shop", **case):
        body = str(uuid.uuid4())
        filing = Filing(body, "erasure", ANN, body.encode(), controller=controller, case=Case(reference, **case))
        return self.ledger.accept_each([filing])[0]

    def commit(self, keys=None):
        ready = self.ledger.begin()
        self.ledger.complete([e.key for e, _ in ready] if keys is None else keys, ["m"])


@pytest.fixture(autouse=True, scope="module")
def save_always():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("erasable.service.ledger._UNSAVED", 0)
        yield


@pytest.fixture
def book(tmp_path):
    return Book(tmp_path / "ledger", queue=1000)


def filled(book, n=60):
    """Requests of two controllers in every state, due at different days."""
    draw = random.Random(1)
    for i in range(n):
        book.now += timedelta(minutes=1)
        arrived = NOW.date() - timedelta(days=draw.randrange(60))
        book.file(f"REF-{i:03d}" if i % 3 else "", ("shop", "bank")[i % 2], arrived=arrived)
        if i % 10 == 4:
            book.commit()
        if i % 7 == 3:
            waiting = [e for e in book.ledger.entries() if e.state is State.PENDING]
            if waiting:
                book.ledger.cancel(waiting[-1].request_id, by="desk")
    return book.ledger


def expected(entries, query, today):
    """The oracle: filter and sort a list."""
    tests = {
        "": lambda e: True,
        "open": lambda e: e.settled is None,
        "overdue": lambda e: e.is_overdue(today),
        "due_soon": lambda e: e.is_due_soon(today),
    }
    fits = tests.get(query.state, lambda e: e.state == query.state)
    text = query.text.lower()
    found = [
        e
        for e in entries
        if query.controller in (None, e.controller)
        and fits(e)
        and (e.request_id.startswith(text) or (not text or e.reference.lower().startswith(text)))
    ]
    found.sort(key=lambda e: e.received, reverse=query.sort != "received" or query.descending)
    keys = {
        "urgent": lambda e: (e.settled is not None, e.due.toordinal() if e.settled is None else 0),
        "due": lambda e: e.due,
        "reference": lambda e: e.reference.lower(),
        "settled": lambda e: e.settled or datetime(1970, 1, 1, tzinfo=UTC),
    }
    if query.sort in keys:
        found.sort(key=keys[query.sort], reverse=query.descending and query.sort != "urgent")
    return found


def test_every_search_gives_what_filtering_and_sorting_all_entries_gives(book):
    ledger = filled(book)
    entries, today = ledger.entries(), book.now.date()
    assert len(entries) == 60
    assert {e.state for e in entries} == {"pending", "completed", "cancelled"}
    some = entries[7].request_id
    states = ("", "open", "overdue", "due_soon", "pending", "completed", "cancelled")
    sorts = ("urgent", "received", "due", "reference", "settled")
    texts = ("", "ref-0", "REF-01", some, some[:3], "nothing", "%", "_")
    for whose, state, sort, text in itertools.product((None, "shop", "nobody"), states, sorts, texts):
        for descending in (True, False):
            query = Query(whose, text, state, sort, descending)
            wanted = expected(entries, query, today)
            whole = ledger.search(replace(query, limit=100))
            assert (whole.entries, whole.total) == (wanted, len(wanted)), query
        page = ledger.search(replace(query, limit=7, skip=5))
        assert (page.entries, page.total) == (wanted[5:12], len(wanted)), query
    for whose in (None, "shop", "bank", "nobody"):
        mine = [e for e in entries if whose in (None, e.controller)]
        counted = [sum(e.state == s for e in mine) for s in ("completed", "cancelled")]
        late = [sum(e.is_overdue(today) for e in mine), sum(e.is_due_soon(today) for e in mine)]
        assert ledger.counts(whose) == Counts(len(mine), len(mine) - sum(counted), *counted, *late)


def test_a_saved_index_a_new_one_and_the_one_in_memory_are_one(book):
    ledger = filled(book)
    ledger.note("look-up", "auditor", "some-id", "m")

    def seen(ledger):
        entries = [replace(e, state=State.PENDING) if e.state == "in_progress" else e for e in ledger.entries()]
        return entries, ledger.trail(limit=1000), ledger.owing(), ledger.newest, ledger.files.saved(), ledger.position

    before = seen(ledger)
    assert seen(book.again(saved=False)) == before
    assert seen(book.again()) == before
    owed = [e.key for e in book.ledger.owing()][:3]
    book.ledger.put_receipts("m", {key: f"text of {key}" for key in owed})
    before = seen(book.ledger)
    book.ledger.put_receipts("m", dict.fromkeys(owed, "another"))
    for saved in (True, True, False):
        assert seen(book.again(saved=saved)) == before
        found = [book.ledger.entry(*key.split("/")) for key in owed]
        assert [book.ledger.receipts(e) for e in found] == [{"m": f"text of {key}"} for key in owed]


@given(data=st.data())
def test_a_damaged_older_or_foreign_copy_of_the_index_is_passed_over(data, tmp_path_factory):
    book = Book(tmp_path_factory.mktemp("ledger"))
    first = book.file("first")
    book.commit()
    book.again()
    path = book.folder / "index"
    older = path.read_bytes()
    second = book.file("second")
    book.commit()
    book.ledger.close()
    newest = path.read_bytes()
    change = data.draw(st.sampled_from(["flip", "cut", "older", "empty", "none"]))
    at = data.draw(st.integers(0, len(newest) - 1))
    flipped = newest[:at] + bytes([newest[at] ^ 1]) + newest[at + 1 :]
    path.write_bytes({"flip": flipped, "cut": newest[:at], "older": older, "empty": b"", "none": newest}[change])
    ledger = book.open()
    assert [e.request_id for e in ledger.entries()] == [first.request_id, second.request_id]
    assert ledger.search(Query(text="sec")).total == 1
    ledger.close()


def test_a_saved_index_does_not_hide_that_the_journal_was_changed(book):
    for _ in range(3):
        book.file()
        book.commit()
    book.ledger.close()
    past = book.folder / "past"
    whole = past.read_bytes()
    past.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])  # long before the saved position
    with pytest.raises((StoreError, InputError)):
        book.open()
    past.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(StoreError):
        book.open()
    past.write_bytes(whole)
    assert len(book.open().entries()) == 3


def test_a_saved_index_holds_nothing_that_the_journal_does_not_say(book):
    """That a file is in doubt is found out at each start; that the list is lost is said by the operator once."""
    entry = book.file()
    book.commit()
    book.again()
    saved = (book.folder / "index").read_bytes()
    book.ledger.files.found("m", "a checksum that no mark has")
    assert book.ledger.owing()[0].doubted == {"m"}
    book.again()
    assert (book.folder / "index").read_bytes() == saved
    assert book.ledger.entry(entry.request_id).doubted == frozenset()
    book.settings = Settings(vouch=True)
    book.again()
    book.file()
    book.ledger.begin()
    book.ledger.complete([])
    book.ledger.close()
    assert (book.folder / "index").read_bytes() == saved
    book.open()


def test_a_doubt_that_the_journal_notes_outlasts_a_saved_index(book):
    entry = book.file()
    book.commit()
    for _ in range(2):
        book.ledger.files.found("m", "another program's")
        book.ledger.files.announce("m", "another program's", "ours")  # a commit on top of it
        book.again()
        assert book.ledger.entry(entry.request_id).doubted == {"m"}


def test_a_purge_leaves_nothing_in_the_saved_index(book):
    gone = book.file("case-gone")
    book.commit()
    book.ledger.put_receipts("m", {gone.key: "text"})
    book.ledger.note("download", "auditor", gone.request_id, "m")
    book.again()
    older = (book.folder / "index").read_bytes()
    assert gone.request_id.encode() in older
    book.now += timedelta(days=1)
    stays = book.file("case-stays")
    assert book.ledger.purge(book.now, "desk", KEY) == 1
    assert not any(gone.request_id.encode() in path.read_bytes() for path in book.folder.iterdir())
    tombstone = check_tombstone(book.ledger.tombstones()[0], KEY.public)
    assert [tombstone[name] for name in ("requests", "receipts", "events")] == [1, 1, 1]
    for begin in (lambda: book.ledger, book.again, partial(book.again, saved=False)):
        ledger = begin()
        assert [e.key for e in ledger.entries()] == [stays.key]
        assert [(e.what, e.by) for e in ledger.trail().events] == [("purge", "desk"), ("request", "shop")]
        assert ledger.search(Query(text="case-gone")).total == 0
    for path in book.folder.iterdir():
        assert gone.request_id.encode() not in path.read_bytes()
        assert b"case-gone" not in path.read_bytes()
    assert book.ledger.purge(book.now, "desk", KEY) == 0
    assert len(book.ledger.tombstones()) == 1  # nothing was left to purge, so there is no second one
    book.ledger.close()
    (book.folder / "index").write_bytes(older)  # a backup
    assert [e.key for e in book.open().entries()] == [stays.key]


def test_a_purge_moves_records_under_the_hands_of_nobody(book):
    """An entry is found while all records move, and after it."""
    entries = []
    for i in range(5):
        book.now += timedelta(days=1)
        entries.append(book.file(f"case-{i}"))
        book.commit()
        book.ledger.put_receipts("m", {entries[-1].key: f"text {i}"})
    book.ledger.purge(NOW + timedelta(days=3), "desk", KEY)
    for i, entry in enumerate(entries):
        if i < 2:
            with pytest.raises(UnknownRequestError):
                book.ledger.entry(entry.request_id, "shop")
            continue
        found = book.ledger.entry(entry.request_id, "shop")
        assert (found.reference, found.state) == (f"case-{i}", "completed")
        assert book.ledger.receipts(found) == {"m": f"text {i}"}


def test_references_days_and_their_limits(book):
    book.now = NOW
    entry = book.file("A.b_c-1")
    assert (entry.reference, entry.arrived, entry.due) == ("A.b_c-1", date(2026, 1, 31), date(2026, 2, 28))
    assert book.file(arrived=date(2025, 11, 30)).due == date(2025, 12, 30)
    assert book.file(due=date(2026, 3, 1)).due == date(2026, 3, 1)
    assert [Case(text).reference for text in (" case 7 ", "é/ü", "a@b")] == ["case 7", "é/ü", "a@b"]
    for wrong in ("x" * 65, "a\n", "a\tb", *(f"a{c}b" for c in "\u202e\u200b\u00a0\x1b\ud800\u2028\ufeff")):
        with pytest.raises(InputError, match="64 printable"):
            Case(wrong)
    with pytest.raises(InputError, match="before"):
        Case(arrived=date(2026, 1, 2), due=date(2026, 1, 1))
    with pytest.raises(InputError, match="future"):
        book.file(arrived=date(2026, 2, 1))
    assert Settings(due_in=10).due_on(date(2026, 1, 31)) == date(2026, 2, 10)
    assert Settings().due_on(date(2025, 12, 31)) == date(2026, 1, 31)
    for wrong in ({"due_in": -1}, {"grace": timedelta(seconds=-1)}):
        with pytest.raises(ConfigurationError, match="grace"):
            Settings(**wrong)
    for wrong in ({"state": "done"}, {"sort": "name"}, {"limit": 0}, {"skip": -1}):
        with pytest.raises(InputError):
            Query(**wrong)
    with pytest.raises(InputError, match="event"):
        book.ledger.note("ann@example.org", "desk")


def test_several_requests_are_accepted_all_or_none(tmp_path):
    book = Book(tmp_path / "ledger", queue=3)

    def filings(n, body=b"body"):
        return [Filing(str(uuid.UUID(int=i)), "erasure", ANN, body, case=Case(f"r-{i}")) for i in range(n)]

    with pytest.raises(QueueFullError):
        book.ledger.accept_each(filings(4))
    assert book.ledger.entries() == []
    two = book.ledger.accept_each(filings(2))
    assert book.ledger.accept_each(filings(3))[:2] == two
    with pytest.raises(ConflictError):
        book.ledger.accept_each(filings(3, b"another"))
    assert [e.reference for e in book.again().entries()] == ["r-0", "r-1", "r-2"]


def test_identities_that_wait_are_bounded(tmp_path):
    book = Book(tmp_path / "ledger", queue=1000)
    many = tuple(Identity("subject", "raw", f"p-{i}") for i in range(MOST_IDENTITIES))
    batch = book.ledger.accept(str(uuid.uuid4()), "erasure", many, b"")
    assert batch.asked.identities == MOST_IDENTITIES
    with pytest.raises(QueueFullError):
        book.file()
    with pytest.raises(InputError, match="1 to 100,000"):
        book.ledger.accept(str(uuid.uuid4()), "erasure", (*many, *ANN), b"")
    ((_, found),) = book.again().begin()
    assert found == many
    book.commit()
    book.file()


def test_a_request_can_be_cancelled_in_its_grace_period_also_after_a_restart(tmp_path):
    book = Book(tmp_path / "ledger", grace=timedelta(hours=1))
    first, second = book.file("first"), book.file("second")
    assert first.cancel_until == NOW + timedelta(hours=1)
    assert first.expected == NOW + timedelta(hours=2)
    assert book.ledger.begin() == []
    assert book.again().entry(first.request_id).state is State.PENDING
    book.ledger.cancel(first.request_id, by="desk")
    book.commit()
    assert not any(b"ann" in path.read_bytes() for path in book.folder.glob("open-*")) or book.ledger.waiting == 1
    book.settings = Settings()  # a grace period that was promised does not depend on the setting now
    assert book.again().entry(second.request_id).state is State.PENDING
    book.now += timedelta(hours=1)
    assert [e.reference for e, _ in book.ledger.begin()] == ["second"]
    book.now -= timedelta(hours=1)  # somebody sets the clock back
    assert book.again().entry(second.request_id).state is State.IN_PROGRESS
    with pytest.raises(ConflictError):
        book.ledger.cancel(second.request_id)
    assert [e.reference for e, _ in book.ledger.begin()] == ["second"]
    book.commit()
    assert book.again().counts() == Counts(2, 0, 1, 1, 0, 0)
    assert not list(book.folder.glob("open-*"))
    assert [(e.what, e.by) for e in book.ledger.trail(request_id=first.request_id).events if e.what == "cancel"] == [
        ("cancel", "desk")
    ]


def test_a_clock_that_is_set_back_holds_no_request_beyond_its_grace_period(tmp_path):
    book = Book(tmp_path / "ledger", grace=timedelta(hours=1), promise=timedelta(hours=1))
    book.file("first")
    book.now -= timedelta(days=30)
    book.file("second")
    book.passed += 3599
    assert book.ledger.begin() == []
    book.passed += 1
    assert [e.reference for e, _ in book.ledger.begin()] == ["first", "second"]
    assert book.ledger.overdue(book.now) == 0
    book.passed += 3600
    assert book.ledger.overdue(book.now) == 2
    book.commit()
    book.file("third")
    book.now -= timedelta(days=30)
    book.again()  # only the wall clock goes on: it waits for a grace period from now on, and no longer
    book.passed += 3599
    assert book.ledger.begin() == []
    book.passed += 1
    assert [e.reference for e, _ in book.ledger.begin()] == ["third"]
    book.commit()
    book.file("fourth")
    book.now += timedelta(hours=1)  # the wall clock alone
    assert [e.reference for e, _ in book.ledger.begin()] == ["fourth"]


def test_a_request_that_reached_a_model_is_in_progress_after_a_kill_at_any_step():
    """With a grace period, it may only be taken for pending while no model has changed."""
    disk, moments = fresh_disk(), []
    grace = {"grace": timedelta(hours=1)}
    world = World(disk, **grace)
    world.ledger._clock = lambda: NOW - timedelta(days=2)
    world.ledger.accept_each(
        [Filing(str(uuid.UUID(int=1)), "erasure", [Identity("subject", "raw", "canary-ann")], b"")]
    )
    before = {name: file.people() for name, file in world.files.items()}
    world.ledger._clock = lambda: NOW
    moments.append(disk.copy())
    disk.after_step = lambda now: moments.append(now.copy())
    world.worker.commit()
    disk.after_step = None
    states = set()
    for moment in moments:
        after = World(moment, **grace)
        state = after.ledger.entry(str(uuid.UUID(int=1))).state
        changed = any(file.people() != before[name] for name, file in after.files.items())
        assert not (changed and state is State.PENDING)
        states.add(state)
    assert states == {State.PENDING, State.IN_PROGRESS, State.COMPLETED}


def test_the_trail_is_durable_chained_and_filtered(book):
    entry = book.file()
    book.now += timedelta(seconds=1)
    book.ledger.note("sign-in", "desk")
    book.now += timedelta(seconds=1)
    book.ledger.note("download", "auditor", entry.request_id, "m")
    for begin in (lambda: book.ledger, book.again, partial(book.again, saved=False)):
        ledger = begin()
        events = ledger.trail().events
        assert [(e.what, e.by, e.request_id, e.model) for e in events] == [
            ("download", "auditor", entry.request_id, "m"),
            ("sign-in", "desk", "", ""),
            ("request", "shop", entry.request_id, ""),
        ]
        assert ledger.trail(what="request").total == ledger.trail(by="desk").total == 1
        assert [e.what for e in ledger.trail(request_id=entry.request_id.upper()).events] == ["download", "request"]
        assert (ledger.trail(limit=1, skip=1).events, ledger.trail(limit=1).total) == (events[1:2], 3)
    book.ledger.close()
    past = book.folder / "past"
    past.write_bytes(past.read_bytes().replace(b'"by":"auditor"', b'"by":"another"'))
    with pytest.raises((StoreError, InputError)):
        book.open()


def test_a_disk_without_room_for_the_index_stops_nothing():
    class Full(SimulatedDisk):
        def create(self, path, mode):
            if "index" in path:
                raise OSError(28, "No space left on device")
            return super().create(path, mode)

    disk = Full()
    ledger = Ledger("/ledger", b"k" * 32, Settings(), lambda: NOW, disk=disk)
    entry = ledger.accept(str(uuid.uuid4()), "erasure", ANN, b"body")
    with pytest.raises(StoreError):
        ledger.save_index()
    ledger.close()
    assert Ledger("/ledger", b"k" * 32, Settings(), lambda: NOW, disk=disk).entry(entry.request_id).state


def test_a_reference_is_shown_by_no_character_that_is_not_seen():
    allowed = re.compile(REFERENCE_PATTERN)
    seen = {chr(c) for c in range(0x10000) if allowed.fullmatch(chr(c))}
    assert {*string.ascii_letters, *string.digits, *string.punctuation, " ", "é", "ß", "中", "ب", "€"} <= seen
    assert not [c for c in seen if unicodedata.category(c) in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")]
    assert [c for c in seen if unicodedata.category(c) == "Zs"] == [" "]


@pytest.mark.parametrize(
    ("text", "what"),
    [
        *((text, None) for text in ("case 7", "Case 7", "DSR EU 2026", "march leavers", "Retention", "案件7", "")),
        *((text, "a name") for text in ("Ann Lee", "LEE, Ann", "中村")),
        *((text, "a name or an address") for text in ("Case 7 Ann Lee", "case 7 LEE, Ann", "12 High Street")),
        ("ann@example.org", "an e-mail"),
    ],
)
def test_a_reference_that_looks_like_a_person_is_warned_of(text, what):
    warning = doubt_of_reference(text)
    assert (warning is None) == (what is None)
    assert warning is None or (what in warning and text not in warning)


def test_a_purge_erases_references_from_every_file(book):
    entry = book.file("canary of Ann Lee")
    book.ledger.begin()
    book.ledger.complete([entry.key], ["m"])
    book.ledger.put_receipts("m", {entry.key: "text"})
    stored = lambda: [p.name for p in book.folder.rglob("*") if p.is_file() and b"canary of" in p.read_bytes()]  # noqa: E731
    assert stored() == ["past"]
    book.now += timedelta(days=1)
    assert book.ledger.purge(book.now, "officer", new_key()) == 1
    assert stored() == []
