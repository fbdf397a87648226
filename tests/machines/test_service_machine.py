"""A service lives through requests, kills, restarts, learning and the command line; a plain model says what must be."""

from __future__ import annotations

import hashlib
import tempfile
import uuid
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from unittest import mock

import numpy as np
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from erasable import ErasableClassifier, ModelFile
from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt
from erasable.errors import ConflictError, UnknownRequestError
from erasable.operations.inspect import inspect
from erasable.service.service import ErasureService
from erasable.service.settings import Settings
from erasable.store import Disk, journal_key, read_journal
from tests.machines.mortal import Killed, killed_at

KEY = new_key()
SETTINGS = Settings(identity_types={"email": "subject", "row": "id"}, callback_hosts=frozenset({"c.example"}))
URL = "https://c.example/status"
MODELS = ("left", "right")
PEOPLE = [f"canary-{i:02d}" for i in range(8)]


class Block:
    def __init__(self, numbers: list[int]) -> None:
        self.X = np.array([np.random.default_rng(n).standard_normal(3) for n in numbers])
        self.y, self.weights = self.X[:, 0] > 0, None
        self.ids = [f"row-{n}-row" for n in numbers]
        self.subjects = [PEOPLE[n % len(PEOPLE)] for n in numbers]


class ServiceMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.home = Path(self.folder.name)
        self.patch = mock.patch.multiple(Disk, fsync=lambda *_: None, fsync_folder=lambda *_: None)
        self.patch.start()
        self.paths = {name: self.home / f"{name}.erasable" for name in MODELS}
        self.stored: dict[str, dict[str, str]] = {}  # of each model: ids, and whose they are
        self.requests: dict[str, tuple[str, str, str]] = {}  # acknowledged: role, value and what it may have become
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.next = 24
        self.sent: Counter[str] = Counter()
        self.reachable = True
        self.touched = False  # by another program, whose operator says that it brought nobody back

    @initialize()
    def begin(self) -> None:
        for name, path in self.paths.items():
            block = Block(list(range(24)))
            ErasableClassifier(threshold=0.0, feature_map=None).fit(
                block.X, block.y, ids=block.ids, subjects=block.subjects
            ).save(path)
            self.stored[name] = dict(zip(block.ids, block.subjects, strict=True))
        self.start()

    def start(self) -> None:
        self.service = ErasureService(
            self.paths,
            self.home / "ledger",
            signer=KEY,
            operator_key=b"o" * 16,
            settings=replace(SETTINGS, vouch=self.touched),
            send=self.send,
            clock=lambda: self.now,
            elapsed=lambda: self.now.timestamp(),
        )
        self.service.start(threads=False)
        for name, (role, value, state) in self.requests.items():
            if state == "pending":
                self.requests[name] = role, value, "begun"

    def send(self, url: str, entry) -> None:
        if not self.reachable:
            raise ConnectionError
        self.sent[entry.request_id] += entry.settled is not None

    # -- what comes in -------------------------------------------------------------------------------------------

    @rule(person=st.sampled_from([*PEOPLE, "canary-99"]), format=st.sampled_from(["raw", "sha256", "md5"]))
    def ask_for_a_person(self, person, format):
        value = person if format == "raw" else hashlib.new(format, person.encode()).hexdigest()
        self.ask("email", format, value, "subject", person)

    @rule(number=st.integers(0, 30))
    def ask_for_a_row(self, number):
        self.ask("row", "raw", f"row-{number}-row", "id", f"row-{number}-row")

    def ask(self, type: str, format: str, value: str, role: str, key: str) -> None:
        name = str(uuid.UUID(int=len(self.requests) + 1))
        identity = self.service.identity(type, format, value)
        entry = self.service.accept(name, "erasure", [identity], name.encode(), [URL])
        assert entry.state == "pending"
        assert self.service.accept(name, "erasure", [identity], name.encode(), [URL]) == entry
        self.requests[name] = role, key, "pending"

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def ask_again(self, data):
        name = data.draw(st.sampled_from(sorted(self.requests)))
        identity = self.service.identity("email", "raw", "somebody else")
        assert self.service.accept(name, "erasure", [identity], name.encode()) == self.service.ledger.entry(name)
        try:
            self.service.accept(name, "erasure", [identity], b"another")
        except ConflictError:
            return
        raise AssertionError

    @precondition(lambda self: self.requests)
    @rule(data=st.data())
    def cancel(self, data):
        name = data.draw(st.sampled_from(sorted(self.requests)))
        role, key, state = self.requests[name]
        try:
            entry = self.service.ledger.cancel(name)
        except ConflictError:
            assert state in ("begun", "completed")
            return
        assert state in ("pending", "cancelled")
        assert entry.state == "cancelled"
        self.requests[name] = role, key, "cancelled"

    # -- what the service does -----------------------------------------------------------------------------------

    def erased(self, *states: str) -> None:
        for name, (role, key, state) in self.requests.items():
            if state in states:
                for rows in self.stored.values():
                    gone = [i for i, who in rows.items() if (i if role == "id" else who) == key]
                    for i in gone:
                        del rows[i]
                self.requests[name] = role, key, "completed"

    @rule()
    def commit(self):
        self.service.worker.commit()
        self.erased("pending", "begun")

    @rule()
    def sign(self):
        self.service.worker.sign()

    @rule(reachable=st.booleans(), seconds=st.sampled_from([0, 1, 5000]))
    def tell(self, reachable, seconds):
        self.reachable, self.now = reachable, self.now + timedelta(seconds=seconds)
        self.service.callbacks.tell()
        self.reachable = True

    @rule(step=st.integers(0, 160), torn=st.booleans(), what=st.sampled_from(["commit", "sign", "tell"]))
    def be_killed(self, step, torn, what):
        died = False
        with killed_at(step, torn=torn):
            try:
                getattr(self.service.callbacks if what == "tell" else self.service.worker, what)()
            except Killed:
                died = True
        if died:
            self.service._ledger.close()  # as the end of a process does: nothing is written
            if what == "commit":
                self.requests = {n: (r, k, "begun" if s == "pending" else s) for n, (r, k, s) in self.requests.items()}
            self.start()
        if what == "commit":
            if died:  # what was begun goes on
                self.service.worker.commit()
            self.erased("pending", "begun")

    @rule()
    def restart(self):
        self.service.stop()
        self.start()

    @rule(count=st.integers(1, 5))
    def learn(self, count):
        block = Block(list(range(self.next, self.next + count)))
        self.next += count
        for name in MODELS:
            self.service.learn(name, [block])
            self.stored[name] |= dict(zip(block.ids, block.subjects, strict=True))

    @rule(person=st.sampled_from(PEOPLE), name=st.sampled_from(MODELS))
    def forget_on_the_command_line(self, person, name):
        ModelFile(self.paths[name]).forget(subjects=[person])
        self.touched = True
        self.stored[name] = {i: who for i, who in self.stored[name].items() if who != person}
        self.service._snapshots.refresh()

    # -- what must be --------------------------------------------------------------------------------------------

    @invariant()
    def states_are_those_that_were_said(self):
        if not self.stored:
            return
        for name, (_, _, state) in self.requests.items():
            found = self.service.ledger.entry(name).state
            assert found == ("in_progress" if state == "begun" else state), (found, state)

    @invariant()
    def models_hold_what_they_should(self):
        for name, rows in self.stored.items():
            assert {row["id"] for row in inspect(self.paths[name], rows=True).rows} == set(rows)
            assert len(self.service.snapshot(name).model.core) == len(rows)

    def teardown(self) -> None:
        try:
            if self.stored:
                self.finish()
        finally:
            self.patch.stop()
            self.folder.cleanup()

    def finish(self) -> None:
        self.service.worker.commit()
        self.erased("pending", "begun")
        self.service.worker.sign()
        self.now += timedelta(hours=2)
        self.service.callbacks.tell()
        self.models_hold_what_they_should()
        health = self.service.health()
        assert (health.waiting, health.receipts_owed, health.callbacks_owed) == (0, 0, 0)
        records = [
            record.content for record in read_journal(self.home / "ledger" / "past", journal_key(b"o" * 16, "past"))
        ]
        signed = Counter((r["request"].partition("/")[0], r["model"]) for r in records if "text" in r)
        done = [name for name, (_, _, state) in self.requests.items() if state == "completed"]
        assert signed == Counter((name, model) for name in done for model in MODELS)
        for name in done:
            for text in self.service.receipts(name).values():
                assert check_receipt(text, KEY.public).request_id == name
            assert self.sent[name] >= 1
        for name in MODELS:
            ModelFile(self.paths[name]).verify()
        self.service.stop()
        for path in (self.home / "ledger").iterdir():
            data = path.read_bytes()
            assert b"canary" not in data
            assert b"-row" not in data
            assert not path.name.startswith((".open", "open"))
        again = ErasureService(self.paths, self.home / "ledger", signer=KEY, operator_key=b"o" * 16)
        assert again.start(threads=False).resumed == 0
        try:
            again.ledger.entry(str(uuid.uuid4()))
        except UnknownRequestError:
            again.stop()


TestServiceMachine = ServiceMachine.TestCase
TestServiceMachine.settings = settings(max_examples=25, stateful_step_count=20, deadline=None)
