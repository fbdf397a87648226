"""A call that fails, at any step: what is said of the outcome is true of the disk.

Unchanged (StoreError), changed (the call returns), changed but not erased (NotErasedError), unknown
(UnknownOutcomeError): there is nothing else.
"""

from __future__ import annotations

import errno
import os
import re

import pytest

from erasable import store
from erasable.errors import InputError, NotErasedError, StoreError, UnknownOutcomeError
from tests.store import child
from tests.store.simulated import SimulatedDisk
from tests.store.sweep import (
    AFTER,
    AFTER_PARTS,
    BEFORE,
    BEFORE_PARTS,
    MARKS,
    PATH,
    Scenario,
    extra_names,
    has_access,
    held,
    holding,
    parts_of,
    replacing,
    same,
)

CHANGING = {
    *("create", "fsync", "fsync_folder", "link", "mkdir", "rename", "rmdir", "unlink", "write"),
    *("chmod", "chown", "set_attribute", "remove_attribute", "close", "unlock"),
}
SCENARIOS = {
    "first write": lambda: replacing(None, AFTER),
    "replace": lambda: replacing(BEFORE, AFTER),
    "first write with parts": lambda: replacing(None, AFTER_PARTS),
    "parts come": lambda: replacing(BEFORE, AFTER_PARTS),
    "replace with parts": lambda: replacing(BEFORE_PARTS, AFTER_PARTS),
    "remove with parts": lambda: Scenario(holding(BEFORE_PARTS), (BEFORE_PARTS,), store.Writer.remove, None),
}


def failing(disk, number, at, *, lasting):
    """The disk fails at a call, once or from then on for all calls that change something."""
    calls = []

    def before_call(name, path):
        calls.append((name, path))
        if len(calls) - 1 == at or (lasting and len(calls) > at and name in CHANGING):
            raise OSError(number, os.strerror(number), path)

    disk.before_call = before_call
    return calls


def outcome(scenario, number, at, *, lasting):
    disk = scenario.disk.copy()
    calls = failing(disk, number, at, lasting=lasting)
    error = None
    try:
        scenario.run(disk)
    except StoreError as raised:
        error = raised
    disk.before_call = None
    assert all(handle == [0, 0] for handle in disk.open_files.values()), "a descriptor was left open"
    return disk, calls, error


def possible(scenario, error):
    """What the path may hold, given what was said."""
    before, after = scenario.possible[0], scenario.result
    if isinstance(error, UnknownOutcomeError):
        return (before, after)
    return (after,) if error is None or isinstance(error, NotErasedError) else (before,)


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.parametrize("lasting", [False, True])
def test_a_failure_at_any_call_has_the_outcome_that_is_reported(name, lasting):
    scenario = SCENARIOS[name]()
    _, calls, error = outcome(scenario, 0, 10**9, lasting=False)
    assert error is None
    assert {"close", "unlock", "chmod", "attributes"} <= {call for call, _ in calls}
    kinds = set()
    for at, call in enumerate(calls):
        for number in (errno.ENOSPC, errno.EIO, errno.EROFS, errno.EACCES, errno.EDQUOT, errno.EPERM):
            disk, _, error = outcome(scenario, number, at, lasting=lasting)
            where = (call, errno.errorcode[number], error)
            kinds.add(type(error))
            left = possible(scenario, error)
            assert any(same(held(disk.copy()), c) for c in left), where
            if number == errno.EIO:
                # Also after a loss of power: "changed" and "unchanged" are for good.
                assert all(any(same(held(crashed), c) for c in left) for crashed in disk.crash_states()), where
            denied = call[0] == "chown" and number in (errno.EACCES, errno.EPERM)
            assert error is None or error.errno == number or denied, where
            assert denied or has_access(disk, scenario.access), where
            if error is None:
                # Only an empty folder, or a name that holds zeros, may have been let be.
                foreign = MARKS - (scenario.result.marks() if scenario.result else set())
                assert not any(m in disk.medium() for m in foreign), where
            elif not lasting and type(error) is StoreError:
                assert not extra_names(disk, left[0]), where
                assert re.search("as it was|Nothing was changed|not touched|could not read", str(error)), where
            with store.locked(PATH, parts_of=parts_of, disk=disk):
                pass
            settled = next(c for c in left if same(held(disk), c))
            assert not extra_names(disk, settled), where
            if number not in (errno.EACCES, errno.EPERM) or call[0] != "link":
                assert not any(m in disk.medium() for m in MARKS - (settled.marks() if settled else set())), where
    assert {StoreError, NotErasedError, UnknownOutcomeError} <= kinds


@pytest.mark.parametrize("name", ["replace", "remove with parts"])
@pytest.mark.parametrize("happened", [False, True])
@pytest.mark.parametrize("seen", [False, True])
def test_a_rename_that_reports_failure_is_looked_into(name, happened, seen):
    """What a network file system may do: the answer is lost, and perhaps the next one too."""
    scenario = SCENARIOS[name]()

    class Network(SimulatedDisk):
        lost = False

        def rename(self, source, target):
            if happened:
                super().rename(source, target)
            self.lost = not seen
            raise OSError(errno.EIO, "the answer was lost")

        def facts_of_name(self, path):
            if self.lost:
                self.lost = False
                raise OSError(errno.EIO, "so was this one")
            return super().facts_of_name(path)

    disk, error = Network(inodes=dict(scenario.disk.inodes)), None
    try:
        scenario.run(disk)
    except StoreError as raised:
        error = raised
    expected = UnknownOutcomeError if not seen else type(None) if happened else StoreError
    assert type(error) is expected
    left = scenario.result if happened else scenario.possible[0]
    plain = SimulatedDisk(inodes=disk.inodes)
    assert same(held(plain.copy()), left)
    with store.locked(PATH, parts_of=parts_of, disk=plain):
        pass
    assert same(held(plain), left)
    assert not extra_names(plain, left)


def test_closing_and_unlocking_decide_nothing():
    """By then all is durable, or nothing was changed: no failure of theirs is told, let alone told wrongly."""
    disk = holding(BEFORE_PARTS)

    def failing(name, path):
        if name in ("close", "unlock"):
            raise OSError(errno.EIO, "bad cable", path)

    disk.before_call = failing
    with store.locked(PATH, parts_of=parts_of, disk=disk) as writer:
        AFTER_PARTS.put(writer)
    assert same(held(disk), AFTER_PARTS)
    assert b"before" not in disk.medium()


def test_no_close_on_the_real_disk_decides_anything(tmp_path, monkeypatch):
    real = os.close

    def close(descriptor):
        real(descriptor)
        raise OSError(errno.EIO, "bad cable")

    path = tmp_path / "m"
    with monkeypatch.context() as patch:
        patch.setattr(os, "close", close)
        for mark in (child.BEFORE, child.AFTER):
            child.put(path, mark, parts=True)
        got = store.read(path, child.whole)
    assert got[0] == child.content(child.AFTER, parts=True)[0]
    assert not any(child.BEFORE in p.read_bytes() for p in tmp_path.rglob("*") if p.is_file())
    assert not list(tmp_path.glob(".m.old"))


def test_the_message_says_what_happened_and_what_to_do():
    disk = holding(BEFORE)
    disk.before_call = full
    with pytest.raises(StoreError, match=r"the disk is full\. The file is as it was\. Free some space") as caught:
        replacing(None, AFTER).run(disk)
    assert caught.value.errno == errno.ENOSPC


def full(name, path):
    if name == "write" and path == "/.m.new":
        raise OSError(errno.ENOSPC, "no space", path)


def test_after_the_rename_the_message_says_that_the_new_content_is_there():
    disk = holding(BEFORE)

    def broken(name, path):
        if name == "write" and path == "/.m.old":
            raise OSError(errno.EIO, "bad sector", path)

    disk.before_call = broken
    with store.locked(PATH, disk=disk) as writer:
        with pytest.raises(NotErasedError, match="in place and durable, but not all of the old one"):
            AFTER.put(writer)
        # Under this lock nothing is tried again.
        with pytest.raises(StoreError, match="open it again"):
            AFTER.put(writer)
    assert "/.m.old" in disk.named()


def test_a_failed_folder_fsync_is_not_taken_for_durable_and_nothing_is_overwritten():
    disk = holding(BEFORE)
    disk.before_call = lambda name, path: failed_after_rename(disk, name)
    with pytest.raises(UnknownOutcomeError, match="may not survive a loss of power"):
        replacing(None, AFTER).run(disk)
    assert disk.named()["/.m.old"] == BEFORE.head
    assert disk.named()["/m"] == AFTER.head


def failed_after_rename(disk, name):
    if name == "fsync_folder" and disk.last == "rename":
        raise OSError(errno.EIO, "cannot sync")


@pytest.mark.parametrize("most", [1, 7, 10**6])
def test_writes_that_take_less_than_asked_are_carried_on(most):
    disk = holding(BEFORE_PARTS)
    disk.largest_write = most
    replacing(None, AFTER_PARTS).run(disk)
    assert same(held(disk), AFTER_PARTS)
    assert b"before" not in disk.medium()


def test_a_write_that_takes_nothing_is_an_error():
    disk = holding(BEFORE)
    disk.largest_write = 0
    with pytest.raises(StoreError, match="input/output"):
        replacing(None, AFTER).run(disk)
    assert same(held(disk), BEFORE)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ZeroDivisionError])
def test_a_caller_that_breaks_off_leaves_nothing(error):
    disk = holding(BEFORE)

    def pieces():
        yield b"afterXX"
        raise error

    with pytest.raises(error), store.locked(PATH, disk=disk) as writer:
        writer.replace(pieces())
    assert same(held(disk), BEFORE)
    assert not extra_names(disk, BEFORE)
    assert b"afterXX" not in disk.medium()


def test_a_part_under_a_wrong_name_is_refused():
    disk = holding(BEFORE)
    with store.locked(PATH, parts_of=parts_of, disk=disk) as writer, pytest.raises(InputError, match="SHA-256"):
        writer.replace([b"head"], {"0" * 64: [b"not zero"]})
    assert same(held(disk), BEFORE)
    assert not extra_names(disk, BEFORE)


def test_a_part_that_rotted_is_written_anew():
    disk = holding(BEFORE_PARTS)
    path = next(p for p, data in disk.named().items() if data.startswith(b"commonX"))
    descriptor = disk.open_to_overwrite(path)
    disk.write(descriptor, memoryview(b"rotten"))
    disk.fsync(descriptor)
    with store.locked(PATH, parts_of=parts_of, disk=disk) as writer:
        AFTER_PARTS.put(writer)
    assert same(held(disk), AFTER_PARTS)


def test_parts_on_disk_are_not_written_again():
    disk = holding(BEFORE_PARTS)
    written = []
    disk.before_call = lambda name, path: written.append(path) if name == "write" else None
    replacing(None, AFTER_PARTS).run(disk)
    shared = set(BEFORE_PARTS.named_parts()) & set(AFTER_PARTS.named_parts())
    assert len(shared) == 1
    assert not any(name in path for name in shared for path in written)
