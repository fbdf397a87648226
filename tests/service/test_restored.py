"""Journals that are damaged in any way, and models restored to any earlier version, at every state of the ledger."""

from __future__ import annotations

import itertools
from itertools import pairwise

import pytest

from erasable.audit.receipts import check_receipt
from erasable.errors import ConfigurationError, InputError, StoreError, VerificationError
from erasable.service.requests import State
from tests.service.world import IDS, KEY, MODELS, PEOPLE, VERIFIED, World, fresh_disk
from tests.store.simulated import File, SimulatedDisk

REFUSED = (StoreError, InputError, ConfigurationError)


def put(disk: SimulatedDisk, path: str, data: bytes | None) -> SimulatedDisk:
    """The disk, with other bytes in a file, or without it."""
    disk = disk.copy()
    if disk._find(path) is not None:
        disk.unlink(path)
        disk.fsync_folder(path.rpartition("/")[0] or "/")
    if data is not None:
        disk._new(File(durable=data, current=data), path)
    return disk


# -- damage ------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def used() -> SimulatedDisk:
    """A is completed and signed for, in both models, and on the list; B waits."""
    world = World(fresh_disk(), listed=True)
    for action in (lambda: world.accept("A"), world.commit, world.sign, world.tell, lambda: world.accept("B")):
        action()
    return world.disk


def known(world: World) -> object:
    """All that a process knows of requests, receipts, files and the list."""
    entries = world.ledger.entries()
    receipts = [world.ledger.receipt(entry, model) for entry in entries for model in MODELS]
    marks = [world.ledger.files.marks(model) for model in MODELS]
    return entries, receipts, marks, world.ledger.begin(), world.listed._marks


def damages(data: bytes):
    """Every way in which pieces are damaged, by its name."""
    starts = [place for place, byte in enumerate(data) if byte == 0x1E] + [len(data)]
    pieces = [data[start:end] for start, end in pairwise(starts)]
    for n, (start, end) in enumerate(pairwise(starts)):
        rest = pieces[:n] + pieces[n + 1 :]
        for place in (
            start,
            start + 1,
            start + 33,
            start + 40,
            start + 50,
            start + 60,
            (start + 60 + end) // 2,
            end - 1,
        ):
            for bit in (0, 5):
                yield "flipped", data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :]
        yield "deleted" if n + 1 < len(pieces) else "cut off", b"".join(rest)
        yield "repeated", b"".join([*pieces[: n + 1], *pieces[n:]])
        yield (
            "swapped",
            b"".join([*rest[:n], *rest[n : n + 1], pieces[n], *rest[n + 1 :]]) if n < len(rest) else data + data,
        )
        yield "cut off", data[:start]
        yield "cut short", data[: (start + end) // 2]
        yield "zeros", data[: start + 40] + b"\0" * 300 + data[start + 340 :]
    yield "empty", b""
    yield "missing", None


@pytest.mark.parametrize("name", ["/ledger/past", "/ledger/anchor", "/ledger/open-00000001", "/list"])
def test_a_damaged_journal_is_refused_or_nothing_of_it_is_lost(used, name):
    whole, data, unnoticed = known(World(used.copy(), listed=True)), used.named()[name], set()
    for how, damaged in damages(data):
        disk = put(used, name, damaged)
        try:
            found = known(World(disk, listed=True))
        except REFUSED:
            assert disk.named().get(name) == damaged  # and left as it was
            continue
        assert (name, how) not in {("/ledger/anchor", "empty"), ("/ledger/anchor", "missing")}
        if found != whole:
            unnoticed.add(how)
    # Requests that were accepted since the last commit are in one place alone: where its end is missing, they are.
    assert unnoticed <= ({"cut off", "cut short", "zeros", "empty", "missing"} if "open" in name else set())


def test_an_older_ledger_is_refused_where_its_position_was_written_down_elsewhere(used):
    world = World(used.copy(), listed=True)
    older = world.ledger.position
    world.commit()
    newer = world.ledger.position
    for anchor, disk in ((older, used), (older, world.disk), (newer, world.disk), (None, used)):
        World(disk.copy(), listed=True, anchor=anchor)
    for anchor in (newer, older[:-1] + "01"[older[-1] == "0"]):
        with pytest.raises(StoreError, match="restored from a backup"):
            World(used.copy(), listed=True, anchor=anchor)
    with pytest.raises(ConfigurationError, match="/v1/health"):
        World(used.copy(), listed=True, anchor="nonsense")


@pytest.mark.parametrize("signed", [False, True])
def test_a_list_that_was_lost_proves_nothing_of_those_who_were_on_it(signed):
    disk = fresh_disk()
    backup, world = disk.named()["/left"], World(disk, listed=True)
    for action in (lambda: world.accept("A"), world.commit, world.sign, world.tell)[: 4 if signed else 2]:
        action()
    lost = put(disk, "/list", None)
    World(lost, listed=True, vouch=True)  # once, and nothing is signed in that run
    world = World(put(lost, "/left", backup), listed=True)
    assert not check(world, world.disk)
    assert world.ledger.entry(IDS["A"]).receipts == ({"left", "right"} if signed else {"right"})


# -- restores ----------------------------------------------------------------------------------------------------


def history(listed: tuple[bool, bool], signed: bool) -> list[SimulatedDisk]:
    """The disk before two erasures, in runs of their own with a list or without, and after each step of them."""
    disk = fresh_disk()
    moments = [disk.copy()]
    for letter, with_list in zip("AB", listed, strict=True):
        world = World(disk, listed=with_list)
        for action in (lambda world=world, letter=letter: world.accept(letter), world.commit, world.sign):
            if signed or action != world.sign:
                action()
                moments.append(disk.copy())
    return moments


def people(disk: SimulatedDisk) -> set[str]:
    return set(b" ".join(disk.named()[f"/{name}"] for name in MODELS).decode().split())


def check(world: World, disk: SimulatedDisk) -> bool:
    """Whether a process is ready; no receipt of it is false, and where it is ready, nobody who was erased is stored."""
    before = {e.key: e.receipts for e in world.ledger.entries()}
    ready = True
    for rounds in (world.worker.compare, world.worker.sign, world.worker.compare):
        try:
            rounds()
        except VerificationError:
            ready = False
    for letter, name in IDS.items():
        entry = next((e for e in world.ledger.entries() if e.request_id == name), None)
        if entry is None or entry.state is not State.COMPLETED:
            continue
        for model in entry.receipts - before.get(entry.key, frozenset()):
            receipt = check_receipt(world.ledger.receipt(entry, model), KEY.public)
            assert not {*PEOPLE[letter]} & {*VERIFIED[receipt.state_after]}
        assert not ready or not {*PEOPLE[letter]} & {*people(disk)}
    return ready


@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
@pytest.mark.parametrize("listed", [(True, True), (False, True), (False, False)], ids=["list", "late list", "no list"])
def test_no_restored_file_is_signed_for_or_served_as_if_nothing_had_happened(listed, signed):
    moments = history(listed, signed)
    lists = {None, b""} | {disk.named().get("/list") for disk in moments}
    seen, outcomes = set(), set()
    for (then, disk), running in itertools.product(enumerate(moments), (False, True)):
        for older, kept in itertools.product(moments, lists):
            restored = older.named()["/left"]
            with_list = any(listed) if kept is None else True
            case = then, restored, kept, running
            if case in seen or (running and kept != disk.named().get("/list")):
                continue
            seen.add(case)
            now = put(disk, "/list", kept)
            try:
                if running:
                    world = World(now, listed=kept is not None)
                    world.files["left"].write(restored.decode().split())
                else:
                    world = World(put(now, "/left", restored), listed=with_list)
            except REFUSED:
                outcomes.add("refused")
                continue
            ready = check(world, world.disk)
            outcomes.add("ready" if ready else "not ready")
    assert outcomes == {"ready"} | ({"refused"} if any(listed) else set()) | (set() if all(listed) else {"not ready"})
