"""From a request to its receipts, in several models at once."""

from __future__ import annotations

import errno
import hashlib
import os
import threading
import time
import uuid
from dataclasses import replace
from datetime import timedelta
from types import SimpleNamespace

import numpy as np
import pytest

from erasable import ModelFile, load
from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt
from erasable.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    InputError,
    QueueFullError,
    ReceiptError,
    SignatureError,
    StoreError,
    UnknownRequestError,
    VerificationError,
)
from erasable.models.files import checksum_at
from erasable.operations.inspect import inspect
from erasable.service.model_files import ServedFile
from erasable.service.purges import check_tombstone
from erasable.service.service import ErasureService
from erasable.service.settings import Settings
from erasable.service.suppression import SuppressionList
from erasable.service.worker import PeriodicThread
from erasable.store import Disk, journal_key, read_journal
from tests.service.conftest import KEY, OPERATOR, TYPES, asked, committed, saved
from tests.waiting import PATIENCE, until


def people(path) -> set[str]:
    return {row["subject"] for row in inspect(path, rows=True).rows}


def rows(path) -> set[str]:
    return {row["id"] for row in inspect(path, rows=True).rows}


def rounds_of(service, what) -> PeriodicThread:
    return next(thread for thread in service._threads if thread.what == what)


def block(who="person-30", n=1, seed=None):
    """Rows to learn, new-0 and so on, of one person."""
    X = np.ones((n, 3)) if seed is None else np.random.default_rng(seed).standard_normal((n, 3))
    return SimpleNamespace(X=X, y=np.arange(n) % 2 == 0, ids=[f"new-{i}" for i in range(n)], subjects=[who] * n)


@pytest.fixture
def left_fails(monkeypatch):
    """One of two models does not verify, until the patch is undone."""
    verify = ServedFile.verify

    def failing(file, *asked):
        if file.path.endswith("left.erasable"):
            raise VerificationError("not what learning its own rows gives.")
        return verify(file, *asked)

    monkeypatch.setattr(ServedFile, "verify", failing)


def bytes_below(folder) -> bytes:
    return b"\n".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_request_reaches_all_models_and_gets_one_receipt_for_each(service, models, clock):
    name = asked(service)
    entry = service.ledger.entry(name)
    assert (entry.state, entry.received, entry.expected) == ("pending", clock.now, clock.now + timedelta(hours=1))
    clock.pass_by(3)
    service.worker.commit()
    assert service.ledger.entry(name).state == "completed"
    assert service.receipts(name) is None  # still to be verified
    assert all("person-3" not in people(path) for path in models.values())
    clock.pass_by(2)
    service.worker.sign()
    receipts = service.receipts(name)
    assert set(receipts) == set(models)
    for model, text in receipts.items():
        said = check_receipt(text, KEY.public)
        assert said.request_id == name
        assert said.state_before is None
        assert said.state_after == service.digest(model) == ModelFile(models[model]).verify().digest
        assert (said.completed_at - said.requested_at).total_seconds() == 5
    assert service.worker.sign() == 0  # nothing is signed twice


@pytest.mark.parametrize("format", ["sha256", "sha1", "md5"])
@pytest.mark.parametrize("upper", [False, True])
def test_hashed_identities_find_what_is_stored(service, models, format, upper):
    hashes = {who: hashlib.new(format, who.encode()).hexdigest() for who in ("person-7", "row-5", "nobody")}
    for who, type in (("person-7", "email"), ("row-5", "row"), ("nobody", "email")):
        asked(service, hashes[who].upper() if upper else hashes[who], type=type, format=format)
    service.worker.commit()
    for path in models.values():
        assert people(path) == {f"person-{i}" for i in range(20)} - {"person-7"}
        assert "row-5" not in rows(path)
        assert len(rows(path)) == 56
    assert service.health().waiting == 0


def test_whole_numbers_and_bytes_are_found_as_they_are_written(tmp_path):
    saved(tmp_path / "m", ids=range(60), people=[bytes([i % 20]) * 3 for i in range(60)])
    settings = Settings(identity_types=TYPES)
    service = ErasureService(
        {"m": tmp_path / "m"}, tmp_path / "ledger", signer=KEY, operator_key=OPERATOR, settings=settings
    )
    service.start(threads=False)
    for value in ("5", "007", "no number", "-1", "9" * 40):
        asked(service, value, type="row")
    asked(service, hashlib.sha256(b"8").hexdigest(), type="row", format="sha256")
    asked(service, "0A0a0A")
    asked(service, hashlib.md5(bytes([11] * 3)).hexdigest(), format="md5")
    committed(service, "no bytes")
    left = {row["id"] for row in inspect(tmp_path / "m", rows=True).rows}
    assert left == {i for i in range(60) if i not in (5, 8) and i % 20 not in (10, 11)}
    service.stop()


def test_requests_of_one_tick_share_a_rewrite_and_unknown_people_cause_one(service, models):
    facts = [os.stat(path) for path in models.values()]
    committed(service, "nobody here")
    after = [os.stat(path) for path in models.values()]
    assert all(a.st_ino != b.st_ino or a.st_mtime_ns != b.st_mtime_ns for a, b in zip(facts, after, strict=True))
    digests = [service.digest(name) for name in models]
    for i in range(5):
        asked(service, f"person-{i}")
    assert service.worker.commit() == 5
    assert digests != [service.digest(name) for name in models]
    facts = [os.stat(path).st_mtime_ns for path in models.values()]
    assert service.worker.commit() == 0
    assert facts == [os.stat(path).st_mtime_ns for path in models.values()]  # nothing was asked


def test_a_full_queue_says_when_to_come_again(opened):
    service = opened(settings=Settings(identity_types=TYPES, queue=2, tick=0.5))
    asked(service), asked(service)
    with pytest.raises(QueueFullError) as full:
        asked(service)
    assert full.value.retry_after == 0.5
    service.worker.commit()
    asked(service)


@pytest.mark.parametrize(
    ("type", "format", "value"),
    [
        ("phone", "raw", "1"),
        ("email", "sha512", "1"),
        ("email", "sha256", "abc"),
        ("email", "md5", "g" * 32),
        ("email", "raw", ""),
        ("email", "raw", "x" * 5000),
        ("email", "raw", "\ud800"),
    ],
)
def test_identities_that_cannot_be_are_refused_without_being_quoted(service, type, format, value):
    with pytest.raises(InputError) as refused:
        service.identity(type, format, value)
    assert len(value) < 3 or value not in str(refused.value)


def test_requests_that_cannot_be_are_refused(service):
    who = [service.identity("email", "raw", "person-1")]
    with pytest.raises(InputError, match="UUID"):
        service.accept("../../etc/passwd", "erasure", who, b"")
    for kind, named in (("erasure", []), ("portability", who)):
        with pytest.raises(InputError, match="1 to 100,000"):
            service.accept(str(uuid.uuid4()), kind, named, b"")
    for url in ("https://evil.example/", "ftp://c.example/", "https://a:b@c.example/", "https://[", "c.example"):
        with pytest.raises(ConfigurationError, match="callback_hosts"):
            service.accept(str(uuid.uuid4()), "erasure", who, b"", [url])
    assert service.ledger.entries() == []


def test_a_full_disk_is_a_clear_state_and_nothing_is_half_accepted(service, models, monkeypatch, tmp_path):
    first = asked(service, "person-1")
    write, full = Disk.write, [True]

    def torn(self, descriptor, data):
        if full[0]:
            write(self, descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "full")
        return write(self, descriptor, data)

    monkeypatch.setattr(Disk, "write", torn)
    with pytest.raises(StoreError, match="the disk is full"):
        asked(service, "person-2")
    assert len(service.ledger.entries()) == 1
    commit = service._threads[0]
    commit.once()
    assert not service.health().ready
    assert "the disk is full" in service.health().problem
    assert service.ledger.entry(first).state == "in_progress"
    full[0] = False
    commit.once()
    rounds_of(service, "probe").once()
    assert service.health().ready
    assert service.ledger.entry(first).state == "completed"
    assert all("person-1" not in people(path) and "person-2" in people(path) for path in models.values())
    assert b"person" not in bytes_below(tmp_path / "ledger")


def test_on_a_full_disk_it_starts_predicts_and_goes_on_when_there_is_room(opened, models, monkeypatch, tmp_path):
    service = opened()
    names = [asked(service, f"person-{i}") for i in (1, 2)]
    service.ledger.cancel(names[0])
    with monkeypatch.context() as full:
        full.setattr(Disk, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        service = opened()
        assert service.health().waiting == 1
        assert len(service.snapshot("left").model.predict(np.ones((1, 3)))) == 1
        service._threads[0].once()
        assert "the disk is full" in service.health().problem
    service._threads[0].once()
    rounds_of(service, "probe").once()
    assert service.health().ready
    assert service.ledger.entry(names[1]).state == "completed"
    assert b"person" not in bytes_below(tmp_path / "ledger")


def test_it_is_ready_only_while_a_request_would_be_accepted(service, models, monkeypatch, tmp_path):
    rounds, full = rounds_of(service, "probe"), OSError(errno.ENOSPC, "full")
    rounds.once()
    assert service.health().ready
    with monkeypatch.context() as patch:  # nobody has asked for anything yet
        patch.setattr(Disk, "write", lambda *_: (_ for _ in ()).throw(full))
        rounds.once()
        assert not service.health().ready
        assert "the disk is full" in service.health().problem
    rounds.once()
    assert service.health().ready
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "fsync", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(StoreError, match="the disk is full"):
            asked(service)
        service._threads[0].once()  # there is nothing to commit
        assert not service.health().ready  # at once, and not only after the next round
        rounds.once()
        assert not service.health().ready
    rounds.once()
    assert service.health().ready
    with monkeypatch.context() as patch:
        patch.setattr(Disk, "fsync", lambda *_: (_ for _ in ()).throw(full))
        with pytest.raises(StoreError, match="the disk is full"):
            asked(service)
    asked(service, "person-4")
    assert service.health().ready  # a request was accepted
    for path, needed in ((tmp_path / "ledger", 2**20), (tmp_path, models["left"].stat().st_size)):
        with monkeypatch.context() as patch:
            free, ready = {str(path): needed - 1}, []

            def looked(_, folder, free=free, ready=ready):
                ready.append(service.health().ready)
                return free.get(folder)

            patch.setattr(Disk, "free", looked)
            rounds.once()
            assert "the disk is full" in service.health().problem
            assert str(path) in service.health().problem
            ready.clear()
            rounds.once()
            assert not any(ready)  # nor for a moment while it looks again
        rounds.once()
        assert service.health().ready
    assert not list(tmp_path.rglob(".room"))


def test_one_model_that_fails_holds_up_the_request_until_it_is_durable_in_all(service, models, monkeypatch):
    name = asked(service)
    forget, broken = ModelFile.forget_together, [True]

    def failing(self, requests, **options):
        if broken[0] and self.path.endswith("right.erasable"):
            raise StoreError("the disk is gone.")
        return forget(self, requests, **options)

    monkeypatch.setattr(ModelFile, "forget_together", failing)
    with pytest.raises(StoreError):
        service.worker.commit()
    assert service.ledger.entry(name).state == "in_progress"
    with pytest.raises(ConflictError, match="in_progress"):
        service.ledger.cancel(name)
    assert service.worker.sign() == 0
    broken[0] = False
    service.worker.commit()
    assert service.ledger.entry(name).state == "completed"
    assert all("person-3" not in people(path) for path in models.values())


def test_a_model_that_does_not_verify_signs_nothing_and_holds_up_no_other(service, left_fails, monkeypatch):
    name = committed(service)
    sign = rounds_of(service, "sign")
    sign.once()
    assert "not what learning" in service.health().problem
    assert service.ledger.entry(name).receipts == {"right"}
    assert service.receipts(name) is None
    assert service.learn("right", [block()]).rows == 1
    with pytest.raises(VerificationError):
        service.learn("left", [block()])
    monkeypatch.undo()
    sign.once()
    assert service.health().ready
    assert service.receipts(name).keys() == {"left", "right"}


def test_no_receipt_is_signed_for_a_state_that_stores_the_person_again(service, models):
    backup = models["left"].read_bytes()
    name = asked(service, "person-3")
    other = committed(service, hashlib.sha256(b"person-4").hexdigest(), format="sha256")
    models["left"].write_bytes(backup)  # a restore, before anybody has signed
    sign = rounds_of(service, "sign")
    sign.once()
    assert "stores rows again that 2 completed requests named" in service.health().problem
    assert service.ledger.entry(name).receipts == service.ledger.entry(other).receipts == {"right"}
    third = committed(service, "person-3")
    with pytest.raises(VerificationError, match="1 completed requests"):
        service.worker.sign()
    assert service.receipts(name).keys() == service.receipts(third).keys() == {"left", "right"}
    ModelFile(models["left"]).forget(subjects=["person-4"])
    sign.once()
    assert service.health().ready
    assert check_receipt(service.receipts(other)["left"], KEY.public).state_after == service.digest("left")
    assert service.worker._unsigned == {}


def test_a_model_restored_after_a_crash_is_not_signed_for_until_the_operator_vouches(opened, models):
    """Nobody's identity is left by then; that the file is not the one of the last commit is."""
    backup = models["left"].read_bytes()
    service = opened()
    name = committed(service, "person-3")
    models["left"].write_bytes(backup)
    service = opened()  # the one before has signed nothing
    sign = rounds_of(service, "sign")
    sign.once()
    assert "left is not the file that was last committed here" in service.health().problem
    assert service.ledger.entry(name).receipts == {"right"}
    later = asked(service, "person-4")
    service.worker.commit()  # of a file that is not ours: what was in doubt stays so
    with pytest.raises(VerificationError, match="for 1 requests that an earlier run completed"):
        service.worker.sign()
    assert service.ledger.entry(later).receipts == {"left", "right"}
    service = opened()
    with pytest.raises(VerificationError, match="not the file"):
        service.worker.sign()
    assert "person-3" in people(models["left"])
    ModelFile(models["left"]).forget(subjects=["person-3"])
    service = opened(settings=Settings(identity_types=TYPES, vouch=True))
    service.worker.sign()
    assert service.receipts(name).keys() == {"left", "right"}


def test_a_model_restored_between_a_start_and_its_first_signatures_is_not_signed_for(opened, models):
    backup = models["left"].read_bytes()
    service = opened()
    name = committed(service, "person-3")
    good, service._threads = models["left"].read_bytes(), []  # it stops without another try
    service = opened()  # the file is ours
    models["left"].write_bytes(backup)
    with pytest.raises(VerificationError, match="left is not the file that was last committed here"):
        service.worker.sign()
    assert service.ledger.entry(name).receipts == {"right"}
    models["left"].write_bytes(good)
    assert service.worker.sign() == 1  # the file that was verified is ours again


@pytest.mark.parametrize("restored", [False, True])
def test_commits_while_a_state_is_verified_hide_no_restored_file_and_hold_up_no_receipt(
    opened, models, monkeypatch, restored
):
    backup = models["left"].read_bytes()
    service = opened()
    name = committed(service, "person-3")
    service._threads = []  # it stops without another try
    service = opened()
    verify = ServedFile.verify

    def committing(file, named, listed):
        """Verifies what was committed from the older file, or what is replaced by a commit since."""
        if restored:
            models["left"].write_bytes(backup)
            committed(service, "person-4")
        found = verify(file, named, listed)
        committed(service, "person-5")
        return found

    monkeypatch.setattr(
        ServedFile, "verify", lambda file, *given: (committing if "left" in file.path else verify)(file, *given)
    )
    if restored:
        with pytest.raises(VerificationError, match="for 1 requests that an earlier run completed"):
            service.worker.sign()
        assert "person-3" in people(models["left"])
        assert service.ledger.entry(name).receipts == {"right"}
    else:
        service.worker.sign()
        assert service.receipts(name).keys() == {"left", "right"}


def test_whose_erasure_is_going_on_holds_up_no_receipt_of_an_earlier_run(opened, tmp_path, monkeypatch):
    """They are on the list a moment before they are forgotten."""
    service = opened(suppression=SuppressionList(tmp_path / "list", OPERATOR))
    name = committed(service, "person-3")
    service._threads = []  # it stops without another try
    service = opened(suppression=SuppressionList(tmp_path / "list", OPERATOR))
    forget, signed = ModelFile.forget_together, []

    def signing_first(self, requests, **options):
        signed.append(service.worker.sign())
        return forget(self, requests, **options)

    monkeypatch.setattr(ModelFile, "forget_together", signing_first)
    committed(service, "person-4")
    assert signed == [2, 0]
    assert service.receipts(name).keys() == {"left", "right"}


def test_a_model_restored_before_a_commit_and_a_crash_is_not_signed_for_either(opened, models):
    backup = models["left"].read_bytes()
    service = opened()
    name = committed(service, "person-3")
    models["left"].write_bytes(backup)
    other = committed(service, "person-4")
    service = opened()
    with pytest.raises(VerificationError, match="for 1 requests"):
        service.worker.sign()
    assert service.ledger.entry(name).receipts == {"right"}
    assert service.ledger.entry(other).receipts == {"left", "right"}


def test_what_a_crash_left_is_signed_for_whenever_it_came(opened, models, monkeypatch):
    """Between two commits, and while the second one had replaced only one of the files."""
    service = opened()
    first = committed(service, "person-3")
    second = asked(service, "person-4")
    forget = ModelFile.forget_together

    def dying(self, requests, **options):
        if self.path.endswith("right.erasable"):
            raise StoreError("killed.")
        return forget(self, requests, **options)

    with monkeypatch.context() as killed:
        killed.setattr(ModelFile, "forget_together", dying)
        with pytest.raises(StoreError):
            service.worker.commit()
    service = opened()
    service.worker.sign()
    assert service.receipts(first).keys() == {"left", "right"}
    service.worker.commit()
    service = opened()
    service.worker.sign()
    assert service.receipts(second).keys() == {"left", "right"}


def test_marks_in_the_ledger_do_not_tell_whether_a_commit_changed_a_model(service, models, clock, tmp_path):
    for person in ("person-3", "nobody", "nobody else"):
        committed(service, person)
    records = [
        record.content for record in read_journal(str(tmp_path / "ledger" / "past"), journal_key(OPERATOR, "past"))
    ]
    marks = [record for record in records if "mark" in record]
    first = ["left", "left", "right", "right"]  # before and after it
    assert [mark["model"] for mark in marks] == first + ["left", "right"] * 2
    assert len({mark["mark"] for mark in marks}) == 8
    data = bytes_below(tmp_path / "ledger")
    assert not any(checksum_at(path).encode() in data for path in models.values())
    service.worker.sign()
    clock.pass_by(1)
    assert service.purge(clock.now, "desk") == 3
    kept = [record.content for record in read_journal(str(tmp_path / "ledger" / "past"), journal_key(OPERATOR, "past"))]
    assert kept[:-1] == [*marks[-2:], {"tombstone": service.ledger.tombstones()[0]}]
    assert kept[-1] == {"event": "purge", "at": clock.now.isoformat(), "by": "desk"}


def test_rounds_that_go_wrong_are_tried_less_and_less_often_and_say_no_names():
    moments, gate = [], threading.Event()

    def call():
        moments.append(time.monotonic())
        if len(moments) < 5:
            raise RuntimeError("somebody@example.org")
        gate.set()

    rounds = PeriodicThread("commit", 0.01, call)
    rounds.once()
    assert rounds.problem == "could not commit: RuntimeError."
    rounds.start()
    assert gate.wait(PATIENCE)
    rounds.end()
    rounds.join()
    assert rounds.problem is None
    assert moments[4] - moments[1] > 0.03
    assert rounds.calls == len(moments)


def test_access_is_answered_as_stored_now_and_by_memory_alone(service, opened, clock, tmp_path):
    name = asked(service, "person-3", kind="access")
    with pytest.raises(ConfigurationError, match="completed"):
        service.stored_of(name)
    service.worker.commit()
    answer = service.stored_of(name)
    assert {model: {row.id for row in found.rows} for model, found in answer.items()} == {
        model: {"row-3", "row-23", "row-43"} for model in ("left", "right")
    }
    assert service.receipts(name) == {}
    assert b"person-3" not in bytes_below(tmp_path / "ledger")
    committed(service, "person-3")
    assert all(not found.rows for found in service.stored_of(name).values())
    clock.jump(-86_400)  # a clock that is set back keeps no name in memory for longer
    clock.pass_by(3601)
    with pytest.raises(UnknownRequestError, match="not held any more"):
        service.stored_of(name)
    other = committed(service, "person-4", kind="access")
    with pytest.raises(UnknownRequestError, match="not held any more"):
        opened().stored_of(other)


def test_the_age_of_the_oldest_receipt_that_is_owed_decides_whether_it_is_ready(opened, clock, left_fails, monkeypatch):
    settings = Settings(identity_types=TYPES, receipts_within=timedelta(seconds=30), callback_hosts={"c.example"})
    service = opened(settings=settings)
    committed(service, "person-1", callbacks=["https://c.example/1"])
    clock.pass_by(20)
    committed(service, "person-2")
    assert (service.health().receipts_owed, service.health().callbacks_owed) == (4, 1)
    clock.jump(86_400)  # the age is not by the wall clock
    assert service.health().oldest_receipt_seconds == 20
    clock.jump(-86_400)
    clock.passed += 10
    assert service.health().ready
    clock.pass_by(1)
    assert not service.health().ready
    assert service.health().problem.startswith("the oldest receipt has been owed for 31 seconds")
    with pytest.raises(VerificationError):
        service.worker.sign()
    assert (service.health().receipts_owed, service.health().oldest_receipt_seconds) == (2, 31)
    clock.pass_by(1)
    service = opened(settings=settings)  # the debt is as old after a restart
    assert (service.health().receipts_owed, service.health().oldest_receipt_seconds) == (2, 22)
    monkeypatch.undo()
    service.worker.sign()
    health = service.health()
    assert (health.ready, health.receipts_owed, health.oldest_receipt_seconds, health.callbacks_owed) == (True, 0, 0, 1)


def test_receipts_are_durable_in_blocks_while_others_are_still_signed(service, monkeypatch):
    monkeypatch.setattr("erasable.service.worker._TOGETHER", 2)
    names = [asked(service, f"person-{i}") for i in range(5)]
    service.worker.commit()
    put, blocks = service.ledger.put_receipts, []

    def full(name, receipts):
        if len(blocks) == 4:
            raise StoreError("the disk is full.")
        blocks.append(len(receipts))
        put(name, receipts)

    monkeypatch.setattr(service.ledger, "put_receipts", full)
    with pytest.raises(StoreError):
        service.worker.sign()
    assert blocks == [2, 2, 1, 2]
    assert service.health().receipts_owed == 3  # those of the blocks before are not signed again
    monkeypatch.setattr(service.ledger, "put_receipts", put)
    assert service.worker.sign() == 3
    assert all(len(service.receipts(name)) == 2 for name in names)


def test_callbacks_are_tried_again_later_and_later_then_given_up(opened, clock):
    sent, reachable = [], [False]

    def send(url, entry):
        sent.append((url, entry.state.value, clock.now))
        if not reachable[0]:
            raise ConnectionError("somebody@example.org")

    settings = Settings(identity_types=TYPES, callback_hosts=frozenset({"c.example"}), callback_tries=4)
    service = opened(settings=settings, send=send)
    url = "https://c.example/status"
    name = asked(service, callbacks=[url, url])
    assert service.callbacks.tell() == 0
    assert sent == []
    service.worker.commit()
    for _ in range(40):
        service.callbacks.tell()
        clock.pass_by(1)
    begun = sent[0][2]
    assert {to for to, _, _ in sent} == {url}
    assert [(state, (moment - begun).total_seconds()) for _, state, moment in sent] == [
        *(("in_progress", second) for second in (0, 1, 3, 7)),
        *(("completed", second) for second in (8, 9, 11, 15)),
    ]
    assert service.ledger.entry(name).callbacks == ()
    assert service.health().callbacks_owed == 0
    reachable[0] = True
    other = asked(service, "person-9", callbacks=[url])
    service.ledger.cancel(other)
    assert service.health().callbacks_owed == 1
    assert service.callbacks.tell() == 1
    assert sent[-1][:2] == (url, "cancelled")
    assert service.callbacks.tell() == 0


def test_a_clock_that_is_set_back_stops_no_callback(opened, clock):
    sent = []

    def send(url, entry):
        sent.append(clock.now)
        if len(sent) < 3:
            raise ConnectionError

    service = opened(send=send)
    committed(service, callbacks=["https://c.example/status"])
    service.callbacks.tell()
    clock.jump(-86_400)
    for seconds in (1, 2):
        service.callbacks.tell()
        clock.pass_by(seconds)
    assert service.callbacks.tell() == 1
    assert service.health().callbacks_owed == 0


@pytest.mark.parametrize("period", [0.25, 1.0, 7.0, 60.0, 600.0])
def test_a_thread_that_failed_is_called_again_within_a_minute(period):
    rounds = PeriodicThread("purge", period, lambda: None)
    pauses = [rounds.pause_after(failed) for failed in range(7)]
    assert pauses[0] == period  # without a failure
    assert pauses[1:] == sorted(pauses[1:])
    assert max(pauses[1:]) <= 60
    if period <= 60:  # calls that failed begin at times of the grid, too
        assert all((pause / period).is_integer() for pause in pauses)


def test_callbacks_go_on_after_a_restart_and_only_to_hosts_that_are_still_allowed(opened):
    sent = []
    service = opened(send=lambda url, entry: sent.append(url))
    committed(service, callbacks=["https://c.example/1"])
    service = opened(send=lambda url, entry: sent.append(url))
    assert service.health().callbacks_owed == 1
    service.callbacks.tell()
    assert sent == ["https://c.example/1"] * 2
    committed(service, "person-4", callbacks=["https://c.example/2"])
    service = opened(settings=Settings(identity_types=TYPES), send=lambda url, entry: sent.append(url))
    service.callbacks.tell()
    assert sent == ["https://c.example/1"] * 2
    assert service.health().callbacks_owed == 0


def test_every_change_of_state_is_told_once_and_in_order_however_short_it_was(opened, clock):
    """OpenDSR 2.0, section 8.5: callbacks must be invoked on every change of state."""
    told = []
    service = opened(send=lambda url, entry: told.append((entry.request_id, entry.state.value, entry.settled)))
    url = "https://c.example/status"
    first, second = asked(service, callbacks=[url]), asked(service, "person-4", callbacks=[url])
    service.ledger.cancel(second)
    service.callbacks.tell()
    service.worker.commit()
    assert service.callbacks.tell() == 1
    assert service.callbacks.tell() == 0
    assert told == [
        (second, "cancelled", clock.now),
        (first, "in_progress", None),
        (first, "completed", clock.now),
    ]
    assert service.callbacks._attempts == {}


def test_who_waits_long_is_told_that_it_is_in_progress_and_a_silent_host_holds_up_no_other(opened, clock, monkeypatch):
    tried = []

    def send(url, entry):
        tried.append((url, entry.state.value))
        if "silent" in url:
            raise TimeoutError

    hosts = frozenset({"silent.example", "c.example"})
    service = opened(settings=Settings(identity_types=TYPES, callback_hosts=hosts), send=send)
    asked(service, callbacks=["https://silent.example/1", "https://c.example/1"])
    clock.pass_by(1)
    asked(service, callbacks=["https://silent.example/2", "https://c.example/2"])
    monkeypatch.setattr(ModelFile, "forget_together", lambda *a, **o: (_ for _ in ()).throw(StoreError("full")))
    with pytest.raises(StoreError):
        service.worker.commit()
    monkeypatch.undo()
    service.callbacks.tell()
    service.callbacks.tell()
    begun = [("https://silent.example/1", "in_progress"), ("https://c.example/1", "in_progress"),
             ("https://c.example/2", "in_progress"), ("https://silent.example/2", "in_progress")]  # fmt: skip
    assert tried == begun  # once each, and the second of the silent host a round later
    tried.clear()
    service.worker.commit()
    assert service.callbacks.tell() == 2
    assert tried == [(f"https://c.example/{i}", "completed") for i in (1, 2)]
    clock.pass_by(1)
    service.callbacks.tell()
    assert tried[2:] == [("https://silent.example/1", "in_progress")]  # what was not heard is told again, in order


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("https://c.example/a", True), ("HTTPS://C.EXAMPLE/a", True), ("https://c.example:443/a?b=c", True),
        ("https://d.example:8443/a?b=c", True), ("http://localhost:9/a", True), ("http://[::1]:9/a", True),
        ("https://c.example:8443/a", False), ("https://d.example/a", False), ("https://d.example:443/a", False),
        ("http://localhost/a", False), ("http://localhost:80/a", False), ("http://localhost:99/a", False),
        ("http://[::1]/a", False), ("https://127.0.0.1/a", False), ("https://[::2]/a", True),
        ("http://c.example/a", False), ("https://c.example./a", False), ("https://x@c.example/a", False),
        ("https://c.example@evil.example/a", False), ("https://c.example:x@evil.example/", False),
        ("https://c.example\\@evil.example/", False), ("https://evil.example#@c.example/", False),
        ("https://c.example:99999/", False), ("https://c.example:0/", False), ("https://c.ex\nample/", False),
        ("https://c.example/\r\nX-A: b", False), ("https://127.0.0.1/", False), ("https://[::1/", False),
        ("//c.example/a", False), ("file://c.example/a", False), ("https:///c.example", False), ("", False),
        ("https://sub.c.example/", False), ("https://\uff43.example/", False),
    ],
)  # fmt: skip
def test_callbacks_go_to_hosts_that_are_named_however_they_are_spelt(opened, url, allowed):
    service = opened(
        settings=Settings(callback_hosts=frozenset({"c.example", "d.example:8443", "localhost:9", "[::1]:9", "::2"}))
    )
    assert service.callbacks.is_allowed(url) is allowed


@pytest.mark.parametrize("who", ["person-3", "nobody"])
def test_a_request_is_cancelled_until_a_commit_begins_and_carried_out_from_then_on(service, models, monkeypatch, who):
    """Whichever it is, the answer says so, and the same for those who are stored and those who are not."""
    told, forget = [], ServedFile.forget_together
    first, second = asked(service, who), asked(service, who)
    assert service.ledger.cancel(first).state == "cancelled"

    def cancelling(self, requests):
        with pytest.raises(ConflictError) as refused:
            service.ledger.cancel(second)
        told.append(str(refused.value))
        return forget(self, requests)

    monkeypatch.setattr(ServedFile, "forget_together", cancelling)
    service.worker.commit()
    assert len(told) == len(models)
    assert set(told) == {"the request is in_progress: only one that is pending can be cancelled."}
    assert (service.ledger.entry(first).state, service.ledger.entry(second).state) == ("cancelled", "completed")
    with pytest.raises(ConflictError, match="is completed"):
        service.ledger.cancel(second)
    third = asked(service, "person-5")
    service.ledger.cancel(third)
    service.worker.commit()
    assert "person-5" in load(models["left"])._model.core.subjects()


@pytest.mark.parametrize("name", ["", "https://c.example", "c.example:x", "c.example:0", "c.example/a", "[::1", ":443"])
def test_names_of_hosts_that_are_none_are_refused(name):
    with pytest.raises(ConfigurationError, match="callback_hosts"):
        Settings(callback_hosts=frozenset({name}))


def test_what_was_accepted_resumes_and_a_lost_receipt_is_issued_again(opened, models):
    service = opened()
    name, other = asked(service, "person-1"), asked(service, "person-2")
    service.ledger.cancel(other)
    service = opened()
    assert service.health().resumed == 1
    assert service.ledger.entry(name).state == "in_progress"
    service.worker.commit()
    service = opened()
    assert service.health().receipts_owed == 2
    service.worker.sign()
    receipts = service.receipts(name)
    assert {check_receipt(text, KEY.public).request_id for text in receipts.values()} == {name}
    assert opened().receipts(name) == receipts


def test_a_second_process_is_kept_out(service, models, tmp_path):
    second = ErasureService(models, tmp_path / "ledger", signer=KEY, operator_key=OPERATOR)
    with pytest.raises(BusyError, match="another process"):
        second.start()
    assert not second.health().ready
    with pytest.raises(BusyError, match="not running"):
        second.ledger.entries()


def test_a_purge_erases_what_is_settled_and_owes_nothing_and_leaves_a_tombstone(service, opened, clock, tmp_path):
    old, owing = asked(service, "person-1"), asked(service, "person-2", callbacks=["https://c.example/x"])
    service.worker.commit()
    service.worker.sign()
    clock.pass_by(100)
    young, waiting = asked(service, "person-3"), asked(service, "person-4")
    service.ledger.cancel(young)
    receipts = service.receipts(owing)
    with pytest.raises(InputError, match="future"):
        service.purge(clock.now + timedelta(seconds=1), "desk")
    before = service.ledger.entry(old).settled
    assert service.purge(clock.now, "desk") == 1
    assert {entry.request_id for entry in service.ledger.entries()} == {owing, young, waiting}
    assert old.encode() not in bytes_below(tmp_path / "ledger")
    assert service.receipts(owing) == receipts
    with pytest.raises(UnknownRequestError):
        service.ledger.entry(old)
    assert service.purge(clock.now, "desk") == 0
    (tombstone,) = service.ledger.tombstones()
    assert check_tombstone(tombstone, KEY.public) == {
        "purgedAt": clock.now.isoformat(),
        "purgedBefore": clock.now.isoformat(),
        "purgedBy": "desk",
        "requests": 1,
        "receipts": 2,
        "events": 0,
        "settledFrom": before.isoformat(),
        "settledUntil": before.isoformat(),
    }
    with pytest.raises(SignatureError):
        check_tombstone(tombstone, new_key().public)
    with pytest.raises(ReceiptError, match="another kind"):
        check_tombstone(receipts["left"], KEY.public)
    service.worker.commit()
    assert service.ledger.entry(waiting).state == "completed"
    service.worker.sign()
    clock.pass_by(1)
    assert service.purge(clock.now, "(keep_for)") == 2  # whoever still has to be told stays
    service = opened()
    told = [check_tombstone(text, KEY.public) for text in service.ledger.tombstones()]
    assert [(one["purgedBy"], one["requests"], one["receipts"]) for one in told] == [
        ("desk", 1, 2),
        ("(keep_for)", 2, 2),
    ]


def test_what_is_settled_is_kept_as_long_as_the_settings_say(opened, clock):
    service = opened(settings=Settings(identity_types=TYPES, keep_for=timedelta(days=30)))
    purge = rounds_of(service, "purge")
    name = committed(service)
    service.worker.sign()
    clock.pass_by(29 * 86400)
    purge.once()
    assert service.ledger.entry(name).state == "completed"
    clock.pass_by(2 * 86400)
    purge.once()
    assert service.ledger.entries() == []
    assert purge.calls == 2


@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("noted", [False, True])
def test_nothing_is_purged_after_the_clock_went_forward_until_the_operator_trusts_it(
    opened, clock, tmp_path, restarted, noted
):
    """Where nothing was noted, as after an update, the newest moment in the ledger is what there is to compare with."""
    settings = Settings(identity_types=TYPES, keep_for=timedelta(days=30))

    service = opened(settings=settings)
    name = committed(service)
    service.worker.sign()
    if noted:
        rounds_of(service, "purge").once()
        assert (tmp_path / "ledger" / "clock").stat().st_mode & 0o777 == 0o600
    clock.jump(40 * 86400)
    if not restarted:
        asked(service)  # accepted at a moment that has not come yet
        service.worker.commit()
        rounds_of(service, "purge").once()
    if restarted or noted:
        service = opened(settings=settings)
    for _ in range(2):
        rounds_of(service, "purge").once()
        assert service.ledger.entry(name).state == "completed"
        assert [doubt for doubt in service.health().doubts if "960 hours" in doubt and "trust_clock" in doubt]
        assert service.health().ready
        with pytest.raises(ConflictError, match="trust_clock"):
            service.purge(clock.now, "desk")
    clock.jump(-40 * 86400)  # set right again
    assert not [doubt for doubt in service.health().doubts if "clock" in doubt]
    assert service.purge(clock.now - timedelta(days=30), "desk") == 0
    clock.jump(40 * 86400)
    service = opened(settings=replace(settings, trust_clock=True))
    rounds_of(service, "purge").once()
    with pytest.raises(UnknownRequestError):
        service.ledger.entry(name)
    clock.pass_by(3600)
    service = opened(settings=settings)
    assert not [doubt for doubt in service.health().doubts if "clock" in doubt]


def test_a_service_that_was_stopped_for_a_night_asks_nobody(opened, clock):
    for seconds in (3600, 86400):
        service = opened(settings=Settings(identity_types=TYPES, keep_for=timedelta(hours=1)))
        committed(service)
        service.worker.sign()
        rounds_of(service, "purge").once()
        clock.jump(seconds)  # nothing of the service runs meanwhile
    service = opened()
    assert not [doubt for doubt in service.health().doubts if "clock" in doubt]


def test_rows_of_somebody_who_was_just_erased_are_learnt_once_the_receipt_is_signed(service, models, monkeypatch):
    name = committed(service)
    order = []
    sign, learn = service.worker._sign, ModelFile.learn
    monkeypatch.setattr(service.worker, "_sign", lambda *given: (order.append("sign"), sign(*given))[1])
    monkeypatch.setattr(ModelFile, "learn", lambda *a, **o: (order.append("learn"), learn(*a, **o))[1])

    def blocks():
        order.append("read")
        yield block("person-3", 5, seed=9)

    version = service.snapshot("left").version
    report = service.learn("left", blocks())
    assert order == ["read", "learn", "sign", "learn"]  # the first time, nothing was learnt
    assert report.core_rows == 62
    assert service.ledger.entry(name).receipts == {"left"}
    service.worker.sign()
    said = check_receipt(service.receipts(name)["left"], KEY.public)
    assert said.state_after != service.digest("left")
    assert service.snapshot("left").version != version
    with pytest.raises(UnknownRequestError):
        service.learn("no such model", [])


@pytest.mark.parametrize("format", ["raw", "sha256"])
def test_rows_of_others_are_learnt_without_waiting_for_receipts(service, monkeypatch, format):
    who = "person-3" if format == "raw" else hashlib.sha256(b"person-3").hexdigest()
    name = committed(service, who, format=format)
    monkeypatch.setattr(ServedFile, "verify", lambda *_: pytest.fail("it waits for a verification"))
    assert service.learn("left", [block("somebody-else", 5, seed=9)]).core_rows == 62
    assert service.ledger.entry(name).receipts == frozenset()
    monkeypatch.undo()
    service.worker.sign()
    said = check_receipt(service.receipts(name)["left"], KEY.public)
    assert said.state_after == service.digest("left")  # the receipt names the later state, which was verified


def test_learning_after_a_crash_waits_for_one_verification_at_most(service, opened, monkeypatch):
    """The identities are erased, so whether rows are those of an erased person is not known any more."""
    name = committed(service)
    again, verified = opened(), []
    verify = ServedFile.verify
    monkeypatch.setattr(ServedFile, "verify", lambda *given: (verified.append(1), verify(*given))[1])
    for seed in range(3):
        again.learn("left", [block("somebody-else", seed + 1, seed=seed)], skip_known=True)
    assert len(verified) == 1
    assert again.ledger.entry(name).receipts == {"left"}


def test_learning_waits_for_no_verification_in_its_turn_and_comes_before_the_next_commit(service, monkeypatch):
    """Somebody commits just before it has its turn, and whoever verifies for receipts is busy with something else."""
    committing, waiting, go, order = threading.Event(), threading.Event(), threading.Event(), []
    learn, forget = ModelFile.learn, ModelFile.forget_together
    monkeypatch.setattr(ModelFile, "learn", lambda *a, **o: (order.append("learn"), learn(*a, **o))[1])
    monkeypatch.setattr(ModelFile, "forget_together", lambda *a, **o: (order.append("forget"), forget(*a, **o))[1])
    monkeypatch.setattr(ServedFile, "verify", lambda *_: go.clear() or go.wait())
    monkeypatch.setattr(service.worker, "_wait", lambda: (committing.set(), go.wait(60)))

    def commit_again_and_again():
        service.worker.commit()
        committed(service, "person-4")

    first = asked(service)
    commits = threading.Thread(target=commit_again_and_again)
    commits.start()
    assert committing.wait(60)
    learning = threading.Thread(target=service.learn, args=("left", [block()]), kwargs={"stop": waiting.set})
    learning.start()
    assert waiting.wait(60)
    go.set()
    for thread in (learning, commits):
        thread.join(60)
        assert not thread.is_alive()
    assert order == ["forget", "forget", "learn", "forget", "forget"]
    assert service.ledger.entry(first).receipts == frozenset()


@pytest.mark.parametrize("processes", [False, True])
def test_a_client_who_has_gone_is_not_waited_for(opened, monkeypatch, processes):
    service = opened(processes=processes)
    verify, late = ServedFile.verify, []

    def committing(*given):
        found = verify(*given)
        late.append(asked(service, "person-4"))
        service.worker.commit()
        return found

    def stop():
        if late:
            raise TimeoutError("gone")

    monkeypatch.setattr(ServedFile, "verify", committing)
    first = committed(service)
    with pytest.raises(TimeoutError, match="gone"):
        service.learn("left", [block("person-3", 5)], stop=stop)
    assert (service.ledger.entry(first).receipts, service.ledger.entry(late[0]).receipts) == ({"left"}, frozenset())
    monkeypatch.undo()
    assert service.worker.sign() == 3  # the locks are free


def test_whoever_waits_for_a_verification_before_learning_keeps_nobody_from_committing(service, monkeypatch):
    begun, busy, verify = threading.Event(), threading.Event(), ServedFile.verify

    def late(*given):
        begun.set()
        assert busy.wait(60)
        return verify(*given)

    monkeypatch.setattr(ServedFile, "verify", late)
    committed(service)
    learning = threading.Thread(target=service.learn, args=("left", [block("person-3")]))
    learning.start()
    assert begun.wait(60)
    asked(service, "person-4")
    assert service.worker.commit() == 1
    busy.set()
    learning.join(60)
    assert len(service.snapshot("left").model.core) == 55
    assert [e.receipts for e in service.ledger.entries()] == [{"left"}, frozenset()]


def test_the_start_names_file_systems_that_do_not_overwrite(opened, models, tmp_path, request):
    service = opened()
    assert service.health().doubts == ()
    assert "not known" in service.old_bytes
    receipts = {}
    for i in range(2):
        name = committed(service, f"person-{i}")
        service.worker.sign()
        receipts = {model: check_receipt(text, KEY.public) for model, text in service.receipts(name).items()}
        if i == 0:
            assert {(receipt.old_bytes, receipt.version) for receipt in receipts.values()} == {(None, 2)}
            doubt = request.getfixturevalue("on_btrfs")
            service = opened()
    assert {(receipt.old_bytes, receipt.version) for receipt in receipts.values()} == {(doubt, 4)}
    assert service.health().doubts == tuple(doubt.about(path) for path in (models["right"], tmp_path / "ledger"))
    assert service.old_bytes == str(doubt)


def test_the_start_erases_what_an_interrupted_change_left(opened, models):
    left = models["left"].with_name(".left.erasable.new")
    left.write_bytes(b"rows of somebody")
    opened()
    assert not left.exists()


def test_threads_do_the_rounds_and_a_stop_drains(models, tmp_path):
    settings = Settings(identity_types=TYPES, tick=0.02)
    service = ErasureService(models, tmp_path / "ledger", signer=KEY, operator_key=OPERATOR, settings=settings)
    with service:
        with pytest.raises(BusyError, match="running already"):
            service.start()
        name = asked(service)
        until(lambda: service.receipts(name))
        assert service.receipts(name).keys() == models.keys()
        last = asked(service, "person-4")
        service.stop(PATIENCE)
    with pytest.raises(BusyError, match="not running"):
        service.ledger.entry(last)
    service.start(threads=False)
    assert service.receipts(last).keys() == models.keys()
    service.stop()
    service.stop()


def test_keys_and_models_are_required(models, tmp_path):
    with pytest.raises(ConfigurationError, match="operator's key"):
        ErasureService(models, tmp_path, signer=KEY, operator_key=b"short")
    with pytest.raises(ConfigurationError, match="at least one model"):
        ErasureService({}, tmp_path, signer=KEY, operator_key=OPERATOR)
    with pytest.raises(ConfigurationError, match="tick"):
        Settings(tick=0)
    with pytest.raises(ConfigurationError, match="identity_types"):
        Settings(identity_types={"email": "person"})
    missing = ErasureService({"m": tmp_path / "none"}, tmp_path / "l", signer=KEY, operator_key=OPERATOR)
    with pytest.raises(StoreError):
        missing.start()


def test_snapshots_are_swapped_before_anybody_is_told(service, monkeypatch):
    versions = []
    complete = service._ledger.complete
    monkeypatch.setattr(
        service._ledger,
        "complete",
        lambda *given: (versions.append(service.snapshot("left").version), complete(*given))[1],
    )
    before = service.snapshot("left").version
    committed(service)
    assert versions == [service.snapshot("left").version] != [before]


def test_a_snapshot_never_changes_and_another_takes_its_place(service, models):
    X = np.random.default_rng(3).standard_normal((20, 3))
    before = service.snapshot("left")
    answers, chances = before.model.predict(X), before.model.predict_proba(X)
    committed(service, "person-1")
    after = service.snapshot("left")
    assert after.version != before.version
    assert after is service.snapshot("left")
    assert np.array_equal(before.model.predict(X), answers)
    assert np.array_equal(before.model.predict_proba(X), chances)
    file = load(models["left"])
    assert np.array_equal(after.model.predict_proba(X), file.predict_proba(X))
    assert not np.array_equal(after.model.predict_proba(X), chances)
    ModelFile(models["left"]).forget(subjects=["person-2"])  # as the command line does
    assert service._snapshots.refresh() == ["left"]
    assert np.array_equal(service.snapshot("left").model.predict_proba(X), load(models["left"]).predict_proba(X))
    assert service._snapshots.refresh() == []
    with pytest.raises(UnknownRequestError):
        service.snapshot("nowhere")


def test_what_was_verified_for_a_receipt_counts_as_the_last_verification(service):
    assert service.verification("left") is None
    committed(service, "person-3")
    service.worker.sign()
    found = service.verification("left")
    assert found.report.digest == service.digest("left")
    assert found.ended is not None
    assert found.done == found.total == found.report.core_rows > 0
    committed(service, "person-4")
    assert service.verification("left") == found
    assert found.report.digest != service.digest("left")  # it has changed since


@pytest.mark.parametrize("content", [None, b"no model"])
def test_what_is_learnt_is_said_to_be_whatever_became_of_the_file_of_another_model(service, models, content):
    models["left"].unlink()
    if content is not None:
        models["left"].write_bytes(content)
    version = service.snapshot("right").version
    assert service.learn("right", [block()]).rows == 1
    assert "new-0" in rows(models["right"])
    assert service.snapshot("right").version != version  # though the other comes before it
    notice = rounds_of(service, "compare")
    notice.once()
    assert "could not compare" in service.health().problem
