"""The ledger by itself: threads at the door, what cannot be erased, what a journal must not be."""

from __future__ import annotations

import hashlib
import json
import threading
import uuid
from datetime import UTC, datetime, timedelta

import pytest

from erasable.errors import ConflictError, NotErasedError, QueueFullError, StoreError, UnknownRequestError
from erasable.service.journals import OpenJournals
from erasable.service.ledger import Ledger
from erasable.service.purges import check_tombstone
from erasable.service.requests import Identity, State, key_of
from erasable.service.settings import Settings
from erasable.store import Disk, Journal, Writer, journal_key, read_journal
from tests.service.conftest import KEY
from tests.waiting import until

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
ANN = [Identity("subject", "raw", "canary-ann")]


@pytest.fixture
def ledger(tmp_path):
    made = Ledger(tmp_path / "ledger", b"k" * 32, Settings(queue=50), lambda: NOW)
    yield made
    made.close()


def together(calls):
    """What many calls at the same time gave."""
    outcomes, gate = [None] * len(calls), threading.Barrier(len(calls))

    def run(i):
        gate.wait()
        try:
            outcomes[i] = calls[i]()
        except Exception as error:
            outcomes[i] = error

    threads = [threading.Thread(target=run, args=(i,)) for i in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def test_threads_that_come_together_share_an_fsync_and_each_gets_its_own_answer(ledger, monkeypatch):
    syncs = []

    def fsync(self, descriptor):
        if not syncs:  # the disk is slow, and all others come meanwhile
            until(lambda: len(ledger._arriving) == 29)
        syncs.append(descriptor)

    ledger.accept(str(uuid.uuid4()), "erasure", ANN, b"")  # which makes its files
    monkeypatch.setattr(Disk, "fsync", fsync)
    names = [str(uuid.uuid4()) for _ in range(30)]
    found = together([lambda name=name: ledger.accept(name, "erasure", ANN, name.encode()) for name in names])
    assert [entry.request_id for entry in found] == names
    assert len(syncs) == 2
    assert ledger.waiting == 31


def test_the_same_id_at_the_same_time_is_one_request(ledger):
    name = str(uuid.uuid4())
    bodies = [b"one", b"one", b"two", b"one", b"two"]
    spelt = [name, name.upper(), name, name.upper(), name]  # ids are the same in any case
    filed = zip(spelt, bodies, strict=True)
    found = together([lambda key=key, body=body: ledger.accept(key, "erasure", ANN, body) for key, body in filed])
    accepted = {body for body, entry in zip(bodies, found, strict=True) if not isinstance(entry, Exception)}
    assert len(accepted) == 1
    for body, entry in zip(bodies, found, strict=True):
        assert isinstance(entry, ConflictError) == (body not in accepted)
    assert ledger.waiting == 1


def test_no_more_are_taken_than_the_queue_holds_however_they_come(ledger):
    found = together([lambda: ledger.accept(str(uuid.uuid4()), "erasure", ANN, b"") for _ in range(60)])
    assert sum(isinstance(entry, QueueFullError) for entry in found) == 10
    assert ledger.waiting == 50


def test_all_who_wait_are_told_when_the_disk_is_full(ledger, monkeypatch):
    def refuse(self, contents):
        raise StoreError("the disk is full.")

    monkeypatch.setattr(Journal, "append", refuse)
    found = together([lambda: ledger.accept(str(uuid.uuid4()), "erasure", ANN, b"") for _ in range(8)])
    assert all(isinstance(error, StoreError) for error in found)
    assert ledger.entries() == []
    monkeypatch.undo()
    ledger.accept(str(uuid.uuid4()), "erasure", ANN, b"")
    assert ledger.waiting == 1


def test_nobody_is_told_of_a_completion_before_identities_are_erased(ledger, monkeypatch, tmp_path):
    name = str(uuid.uuid4())
    ledger.accept(name, "erasure", ANN, b"")
    ledger.begin()
    remove, broken = Writer.remove, [True]

    def failing(self):
        if broken[0]:
            raise NotErasedError("not all could be erased.")
        remove(self)

    monkeypatch.setattr(Writer, "remove", failing)
    with pytest.raises(NotErasedError):
        ledger.complete([key_of(name, "")], ["m"])
    assert ledger.entry(name).state is State.IN_PROGRESS
    assert [entry.request_id for entry, _ in ledger.begin()] == [name]
    broken[0] = False
    ledger.complete([key_of(name, "")], ["m"])
    assert ledger.entry(name).state is State.COMPLETED
    assert all(b"canary" not in path.read_bytes() for path in (tmp_path / "ledger").iterdir())


def test_what_was_accepted_while_a_commit_was_under_way_waits_for_the_next(ledger):
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    ledger.accept(first, "erasure", ANN, b"")
    assert [entry.request_id for entry, _ in ledger.begin()] == [first]
    ledger.accept(second, "erasure", ANN, b"")
    ledger.complete([key_of(first, "")], ["m"])
    assert (ledger.entry(first).state, ledger.entry(second).state) == (State.COMPLETED, State.PENDING)
    assert ledger.cancel(second).state is State.CANCELLED


def test_what_is_open_moves_on_when_its_file_has_to_go(ledger, tmp_path):
    """A model that cannot be written for long does not keep the identities of those who cancelled."""
    bob = [Identity("subject", "raw", "canary-bob")]
    first, second = str(uuid.uuid4()), str(uuid.uuid4())
    ledger.accept(first, "erasure", ANN, b"")
    ledger.accept(second, "erasure", bob, b"")
    ledger.cancel(second)
    ledger.begin()
    ledger.complete()  # nothing was carried out
    (path,) = (tmp_path / "ledger").glob("open-*")
    assert b"canary-ann" in path.read_bytes()
    assert b"canary-bob" not in path.read_bytes()
    assert [(e.request_id, who) for e, who in ledger.begin()] == [(first, tuple(ANN))]


def test_an_epoch_is_left_alone_while_all_of_it_is_open(tmp_path):
    epochs = OpenJournals(str(tmp_path), b"k" * 32, Disk())
    epochs.put({"a": {"request": "a"}, "b": {"request": "b"}})
    assert epochs.doomed(["a", "b"]) == {}  # it takes requests
    epochs.close()
    assert epochs.doomed(["a", "b"]) == {}
    assert epochs.doomed(["a"]) == {1: ["a"]}
    epochs.drop("b")
    assert epochs.doomed(["a"]) == {1: ["a"]}
    epochs.put({"a": {"request": "a"}})
    assert epochs.doomed(["a"]) == {1: []}


def test_two_controllers_may_draw_one_id_and_neither_sees_the_others(tmp_path):
    ledger = Ledger(tmp_path / "ledger", b"k" * 32, Settings(), lambda: NOW)
    name = str(uuid.uuid4())
    shop = ledger.accept(name, "erasure", ANN, b"body", controller="shop")
    bank = ledger.accept(name, "access", ANN, b"another body", controller="bank")
    assert ledger.accept(name, "erasure", ANN, b"body", controller="shop") == shop
    with pytest.raises(ConflictError, match="another body"):
        ledger.accept(name, "erasure", ANN, b"another body", controller="shop")
    assert ledger.entry(name, "shop") == ledger.entry(name, "shop", others=False) == shop
    assert ledger.entry(name, "bank") == bank
    assert (ledger.entries("shop"), ledger.entries("bank"), ledger.entries("x")) == ([shop], [bank], [])
    for call in (ledger.entry, ledger.cancel):
        with pytest.raises(UnknownRequestError):
            call(name, "x", others=False)
        with pytest.raises(ConflictError, match="controller="):
            call(name, "x")
    ledger.cancel(name, "bank", others=False)
    ledger.begin()
    ledger.complete([shop.key], ["m"])
    ledger.put_receipts("m", {shop.key: "text"})
    ledger.close()
    again = Ledger(tmp_path / "ledger", b"k" * 32, Settings(), lambda: NOW)
    assert [(e.controller, e.state) for e in again.entries()] == [("bank", "cancelled"), ("shop", "completed")]
    assert again.receipts(again.entry(name, "shop")) == {"m": "text"}
    assert again.receipts(again.entry(name, "bank")) is None
    again._clock = lambda: NOW + timedelta(days=1)
    assert again.purge(NOW + timedelta(days=1), "desk", KEY) == 2
    assert again.entries() == []
    assert ledger_is_empty(tmp_path / "ledger" / "past")
    assert check_tombstone(again.tombstones()[0], KEY.public)["requests"] == 2
    again.close()


def ledger_is_empty(path):
    records = read_journal(path, journal_key(b"k" * 32, "past"))
    return [next(iter(record.content)) for record in records] == ["tombstone", "event"]


def old_line(record):
    """A record as journals before they were chained had it."""
    text = json.dumps(record).encode()
    return b"\n" + hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text + b"\n"


def test_a_ledger_from_before_requests_had_owners_is_read_and_written_anew(tmp_path):
    """Its records name requests by their ids alone; those without a controller are nobody's, and auditors see them."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    mine, nobodys, waiting = (str(uuid.uuid4()) for _ in range(3))
    record = {"kind": "erasure", "received": NOW.isoformat(), "expected": NOW.isoformat(), "callbacks": [], "seal": "s"}
    done = {**record, "state": "completed", "settled": NOW.isoformat(), "models": ["m"]}
    settled = [{"request": mine, "controller": "shop", **done}, {"request": nobodys, **done, "callbacks": ["u"]}]
    settled += [{"request": mine, "model": "m", "text": "signed"}, {"request": nobodys, "told": "u"}]
    (folder / "past").write_bytes(b"".join(map(old_line, settled)) + b"\n0123456789abcdef {cut")
    pending = {**record, "state": "pending", "settled": None, "models": []}
    waits = {"request": waiting, "controller": "shop", **pending, "identities": [["subject", "raw", "ann"]]}
    (folder / "open-00000001").write_bytes(old_line(waits))
    ledger = Ledger(folder, b"k" * 32, Settings(), lambda: NOW)
    assert ledger.receipts(ledger.entry(mine, "shop", others=False)) == {"m": "signed"}
    assert ledger.entry(nobodys, "shop").callbacks == ()
    with pytest.raises(UnknownRequestError):
        ledger.entry(nobodys, "shop", others=False)
    ((entry, identities),) = ledger.begin()
    assert (entry.request_id, entry.controller, identities[0].value) == (waiting, "shop", "ann")
    ledger.complete([entry.key], [])
    ledger.put_receipts("m", {ledger.entry(nobodys).key: "signed"})
    ledger._clock = lambda: NOW + timedelta(days=1)
    assert ledger.purge(NOW + timedelta(days=1), "desk", KEY) == 3
    ledger.close()
    assert ledger_is_empty(folder / "past")
