"""A service on a simulated disk: the real ledger and the real worker, models of three lines each, and what was said.

Models are lists of people in files that are changed through the real store, so that every step of every change can be
the last one of its process.
"""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import partial

from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt
from erasable.errors import ConflictError, UnknownRequestError
from erasable.models.reports import VerifyReport
from erasable.service.index import Query, RequestPage
from erasable.service.ledger import Ledger
from erasable.service.lineage import Erased
from erasable.service.model_files import VerifiedState
from erasable.service.requests import Case, Erasure, Filing, Identity, State
from erasable.service.settings import Settings
from erasable.service.suppression import ListedPeople, SuppressionList
from erasable.service.worker import Callbacks, Worker
from erasable.store import journal_key, locked, read, read_journal
from tests.store.simulated import File, SimulatedDisk

KEY, OPERATOR = new_key(), b"k" * 32
NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SETTINGS = Settings(callback_hosts=frozenset({"controller.example"}), queue=3)
URL = "https://controller.example/status"
MODELS = ("left", "right")
#: By the letter of a request: its id, and whom it names.
IDS = {"A": "aaaaaaaa-0000-4000-8000-000000000000", "B": "bbbbbbbb-0000-4000-8000-000000000000"}
#: The second request is a batch.
PEOPLE = {"A": ("canary-ann",), "B": ("canary-bob", "canary-bea")}
OTHER = "canary-cyd"


#: Who was stored in each state that was verified, by its digest.
VERIFIED: dict[str, list[str]] = {}


class Line:
    """A model that is a list of people."""

    def __init__(self, name: str, disk: SimulatedDisk) -> None:
        self.path, self._disk = f"/{name}", disk
        self.announce = lambda name, before, after, erased=None: None

    def people(self) -> list[str]:
        return read(self.path, lambda head, _: head.decode().split(), disk=self._disk)

    def write(self, people: list[str]) -> None:
        with locked(self.path, disk=self._disk) as writer:
            writer.replace(["\n".join(people).encode()])

    def forget_together(self, requests: list[Erasure | ListedPeople]) -> None:
        before = self.people()
        gone = {who.value for request in requests if isinstance(request, Erasure) for who in request.identities}
        for request in requests:
            if isinstance(request, ListedPeople):
                gone |= {name for name in before if request.listed.holds("subject", name)}
        after = [name for name in before if name not in gone]
        self.announce(self.path.strip("/"), checksum_of(before), checksum_of(after))
        self.write(after)

    def verify(self, groups, listed) -> VerifiedState:
        people = self.people()
        digest = hashlib.sha256(" ".join(people).encode()).hexdigest()
        VERIFIED[digest] = people
        stores = tuple(any(who.value in people for who in named) for named in groups)
        held = listed is not None and any(listed.holds("subject", name) for name in people)
        return VerifiedState(VerifyReport(len(people), 0, 0, digest), "exact", stores, held, checksum_of(people))

    def checksum(self) -> str:
        return checksum_of(self.people())


def checksum_of(people: list[str]) -> str:
    return " ".join(people)


@dataclass(frozen=True)
class Said:
    """What the world outside was told, which no crash may take back."""

    accepted: frozenset[str] = frozenset()
    cancelled: frozenset[str] = frozenset()
    completed: frozenset[str] = frozenset()
    signed: frozenset[str] = frozenset()
    sent: frozenset[str] = frozenset()
    told: frozenset[str] = frozenset()
    asked_to_cancel: frozenset[str] = frozenset()
    noted: frozenset[str] = frozenset()


def fresh_disk() -> SimulatedDisk:
    disk = SimulatedDisk(largest_write=10_000)
    for name in MODELS:
        Line(name, disk).write([*itertools.chain(*PEOPLE.values()), OTHER])
    return disk


class World:
    """A process on a disk, with a suppression list or without."""

    def __init__(self, disk: SimulatedDisk, said: Said | None = None, *, listed: bool = False, **settings) -> None:
        self.disk, self.said, self.reachable = disk, said or Said(), True
        self.files = {name: Line(name, disk) for name in MODELS}
        self.delivered: Counter[str] = Counter()
        settings = replace(SETTINGS, **settings)
        self.ledger = Ledger("/ledger", OPERATOR, settings, lambda: NOW, disk=disk)
        self.listed = SuppressionList("/list", OPERATOR, disk=disk) if listed else None
        self.ledger.files.check_list(self.listed)
        erased = Erased.ALL_LISTED if listed else Erased.NOT_ALL_LISTED
        for name, file in self.files.items():
            file.announce = partial(self.ledger.files.announce, erased=erased)
            self.ledger.files.found(name, file.checksum())
        self.worker = Worker(
            self.ledger,
            self.files,
            KEY,
            settings,
            lambda: NOW,
            lambda: None,
            self.listed,
        )
        self.callbacks = Callbacks(self.ledger, settings, self.send)

    def send(self, url: str, entry) -> None:
        assert url == URL
        if not self.reachable:
            raise ConnectionError
        if entry.settled is None:
            return  # that it is in progress may be told again
        self.delivered[entry.request_id] += 1
        self.note(sent=next(letter for letter, name in IDS.items() if name == entry.request_id))

    def note(self, **more: str) -> None:
        """Something was said."""
        self.said = replace(self.said, **{name: getattr(self.said, name) | {who} for name, who in more.items()})

    def accept(self, letter: str) -> None:
        self.accept_each(letter)

    def accept_each(self, letters: str) -> None:
        entries = self.ledger.accept_each([filing(letter, b"body of " + letter.encode()) for letter in letters])
        for letter, entry in zip(letters, entries, strict=True):
            self.note(accepted=letter)
            assert (entry.received, entry.reference, entry.due) == (NOW, f"case-{letter}", date(2026, 2, 2))

    def look_up(self) -> None:
        if "look-up" not in self.said.noted:  # more of them lead to nothing new
            self.ledger.note("look-up", "auditor", IDS["A"])
            self.note(noted="look-up")

    def cancel(self, letter: str) -> None:
        try:
            before = self.ledger.entry(IDS[letter]).state
        except UnknownRequestError:
            return
        if before is State.PENDING:
            self.note(asked_to_cancel=letter)
        try:
            entry = self.ledger.cancel(IDS[letter])
        except ConflictError:
            assert before in (State.IN_PROGRESS, State.COMPLETED)
            return
        assert before in (State.PENDING, State.CANCELLED)
        assert entry.state is State.CANCELLED
        self.note(cancelled=letter)

    def commit(self) -> None:
        self.worker.commit()
        self.look()

    def look(self) -> None:
        """Note what whoever asks for the state of a request is answered."""
        for letter in sorted(self.said.accepted):
            entry = self.ledger.entry(IDS[letter])
            if entry.state is State.COMPLETED:
                self.note(completed=letter)
                if not entry.owes_receipts:
                    self.note(signed=letter)
            if entry.state in (State.COMPLETED, State.CANCELLED) and not entry.callbacks:
                self.note(told=letter)

    def sign(self) -> None:
        self.worker.sign()
        self.look()

    def tell(self) -> None:
        self.callbacks.tell()
        self.look()

    def fail_to_tell(self) -> None:
        self.reachable = False
        self.callbacks.tell()
        self.reachable = True
        self.look()

    def memory(self) -> object:
        """What this process knows beside the disk."""
        ledger = self.ledger
        states = tuple((entry.key, entry.state.value) for entry in ledger.entries())
        tries = tuple(sorted((*key, t.count, t.over) for key, t in self.callbacks._attempts.items()))
        held = ledger._epochs
        epochs = tuple((number in held._stale, *sorted(names)) for number, names in sorted(held._names.items()))
        return states, tries, epochs, held._journal is not None


ACTIONS = {
    "accept A": lambda world: world.accept("A"),
    "accept B": lambda world: world.accept("B"),
    "cancel A": lambda world: world.cancel("A"),
    "commit": World.commit,
    "sign": World.sign,
    "tell": World.tell,
    "fail to tell": World.fail_to_tell,
    "look up": World.look_up,
}
#: These are part of journeys only, since they multiply what can happen.
FURTHER_ACTIONS = {
    "accept both": lambda world: world.accept_each("AB"),
    "save the index": lambda world: world.ledger.save_index(),
}


def filing(letter: str, body: bytes) -> Filing:
    """A request by its letter."""
    identities = [Identity("subject", "raw", name) for name in PEOPLE[letter]]
    return Filing(IDS[letter], "erasure", identities, body, [URL], case=Case(f"case-{letter}"))


def finished(disk: SimulatedDisk, said: Said, *, listed: bool = False) -> None:
    """A process that comes after a crash keeps every promise that was made before it, and takes no file for another."""
    world = World(disk, said, listed=listed)
    world.worker.compare()
    for letter in said.completed:
        assert world.ledger.entry(IDS[letter]).state is State.COMPLETED
        assert letter in said.sent or world.ledger.entry(IDS[letter]).callbacks == (URL,)
    for letter in said.cancelled:
        assert world.ledger.entry(IDS[letter]).state is State.CANCELLED
    for letter in said.accepted - said.cancelled - said.completed:
        assert world.ledger.entry(IDS[letter]).state in {State.IN_PROGRESS, State.COMPLETED, State.CANCELLED}
    for rounds in (world.worker.commit, world.worker.sign, world.callbacks.tell, world.worker.compare):
        rounds()
    check_laws(world, said)


def check_laws(world: World, before: Said) -> None:
    """The laws, of a world in which nothing is left to do, and what had been said before its process began."""
    ledger, said = world.ledger, world.said
    assert ledger.waiting == 0
    assert ledger.owing() == []
    records = [
        record.content for record in read_journal("/ledger/past", journal_key(OPERATOR, "past"), disk=world.disk)
    ]
    for letter, name in IDS.items():
        try:
            entry = ledger.entry(name)
        except UnknownRequestError:
            assert letter not in said.accepted  # no accepted request is lost
            continue
        stored = [name in file.people() for file in world.files.values() for name in PEOPLE[letter]]
        signed = Counter(
            record["model"] for record in records if record.get("request") == entry.key and "text" in record
        )
        if entry.state is State.CANCELLED:
            assert letter in said.asked_to_cancel  # only while it was pending
            assert letter not in said.completed
            assert all(stored)
            assert not signed
        else:
            assert entry.state is State.COMPLETED
            assert letter not in said.cancelled
            assert not any(stored)  # none comes back
            assert signed == Counter(MODELS)  # exactly one receipt for each model
            for model in MODELS:
                receipt = check_receipt(ledger.receipts(entry)[model], KEY.public)
                assert receipt.request_id == name
                assert receipt.state_before is None
                assert not {*PEOPLE[letter]} & {*VERIFIED[receipt.state_after]}  # signed for a state without them
        assert letter in said.sent  # by this process, or by one before it
        assert world.delivered[name] <= (letter not in before.told)  # once it is noted, never again
        assert ledger.accept_each([filing(letter, b"body of " + letter.encode())]) == [entry]
        assert ledger.search(Query(text=f"case-{letter}")) == RequestPage([entry], 1)
        filed = [event.what for event in ledger.trail(request_id=name).events if event.what != "look-up"]
        assert sorted(filed) == ["cancel"] * (entry.state is State.CANCELLED) + ["request"]
        try:
            ledger.accept_each([filing(letter, b"another body")])
        except ConflictError:
            pass
        else:
            raise AssertionError("another body was taken for the same")
    looked_up = [event.what for event in ledger.trail(what="look-up").events]
    assert len(looked_up) <= 1
    assert {*looked_up} >= said.noted  # no event that was noted is lost
    people = [name for names in PEOPLE.values() for name in names]
    canaries = [name.encode() for name in people]
    for path, data in world.disk.named().items():
        if path.startswith("/ledger"):
            assert not any(canary in data for canary in canaries), path
            assert not path.endswith((".new", ".old")), path
    erased = [name.encode() for name in people if all(name not in f.people() for f in world.files.values())]
    on_medium = b"\n".join(node.current for node in world.disk.inodes.values() if isinstance(node, File))
    assert not any(canary in on_medium for canary in erased)  # not even in files that have no name any more
