"""Who may use a file: the same people before a change and after it, whoever makes it."""

from __future__ import annotations

import errno
import os
import stat

import pytest

from erasable import store
from erasable.errors import StoreError
from tests.store import child
from tests.store.child import AFTER, BEFORE, parts_of
from tests.store.other_users import ACL, ALICE, BOB, EVE, TEAM, acl, may, open_folder, rights, run_as

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
folder = pytest.fixture(open_folder)
# The group may read and write, says the list; the mask takes it away, and the mode shows only the mask.
MASKED = acl(("user", 6), ("named user", 4, EVE), ("group", 6), ("mask", 4), ("others", 0))


def write(path, data=b"new", **options):
    with store.locked(path) as writer:
        writer.replace([data], **options)


def shared(path, mode=0o660, listed=None, *, parts=False):
    """A file of Alice's that the team may change."""
    child.put(path, BEFORE, parts=parts)
    files = [path, *(store.side_files(path).parts.glob("*") if parts else [])]
    for file in files:
        os.chown(file, ALICE, TEAM)
        file.chmod(mode)
        if listed is not None:
            os.setxattr(file, ACL, listed)
    if parts:
        where = store.side_files(path).parts
        os.chown(where, ALICE, TEAM)
        where.chmod(0o770)
    store.side_files(path).lock.unlink()


# -- new files -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077, 0o277])
@pytest.mark.parametrize("mode", [0o600, 0o640, 0o664])
def test_a_new_file_is_private_whatever_the_umask_unless_asked_otherwise(tmp_path, umask, mode):
    path = tmp_path / "m"
    before = os.umask(umask)
    try:
        head, named = child.content(BEFORE, parts=True)
        with store.locked(path, parts_of=parts_of) as writer:
            writer.replace([head], named, **({} if mode == 0o600 else {"mode": mode}))
    finally:
        os.umask(before)
    side = store.side_files(path)
    assert {stat.S_IMODE(p.stat().st_mode) for p in [path, *side.parts.iterdir()]} == {mode}
    assert stat.S_IMODE(side.parts.stat().st_mode) == {0o600: 0o700, 0o640: 0o750, 0o664: 0o775}[mode]
    assert stat.S_IMODE(side.lock.stat().st_mode) == {0o600: 0o600, 0o640: 0o600, 0o664: 0o660}[mode]


def test_the_umask_decides_where_that_is_asked_for(tmp_path):
    before = os.umask(0o027)
    try:
        write(tmp_path / "m", mode=None)
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o640


def test_the_mode_of_a_file_that_is_there_is_its_own(tmp_path):
    write(tmp_path / "m", b"old", mode=0o644)
    write(tmp_path / "m", mode=0o600)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o644


# -- access lists and attributes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [False, True])
def test_an_access_list_is_carried_over(folder, parts):
    path = folder / "m"
    shared(path, 0o640, MASKED, parts=parts)
    os.setxattr(path, "user.note", b"of somebody")
    before = rights(path)
    assert not may(path, os.O_WRONLY, BOB, TEAM)
    child.put(path, AFTER, parts=parts)
    assert rights(path) == before
    assert os.getxattr(path, "user.note") == b"of somebody"
    assert may(path, os.O_RDONLY, EVE)
    assert not may(path, os.O_WRONLY, BOB, TEAM)
    for part in store.side_files(path).parts.glob("*"):
        assert rights(part) == before
        assert os.listxattr(part) == [ACL]


def test_a_list_that_the_folder_hands_down_gives_nobody_more(folder):
    path = folder / "m"
    shared(path, 0o640)
    os.setxattr(
        folder,
        "system.posix_acl_default",
        acl(("user", 7), ("named user", 7, EVE), ("group", 7), ("mask", 7), ("others", 7)),
    )
    write(path)
    assert rights(path) == (ALICE, TEAM, 0o640, None)
    assert not may(path, os.O_RDONLY, EVE)
    write(folder / "new")
    assert not may(folder / "new", os.O_RDONLY, EVE)


def test_a_list_that_cannot_be_carried_over_is_a_refusal(folder):
    path = folder / "m"
    shared(path, 0o640, MASKED)
    before = path.read_bytes()

    class Without(store.Disk):
        def set_attribute(self, descriptor, name, value):
            raise OSError(errno.ENOTSUP, "no lists here")

    with store.locked(path, disk=Without()) as writer, pytest.raises(StoreError, match=r"access list.*as it was"):
        writer.replace([b"new"])
    assert path.read_bytes() == before
    assert sorted(p.name for p in folder.iterdir()) == [".m.lock", "m"]


def test_a_list_is_not_handed_to_another_group(folder):
    """Eve may write, says the list; a group that she cannot keep would be hers in the new file."""
    path = folder / "m"
    shared(path, 0o660, acl(("user", 6), ("named user", 6, EVE), ("group", 6), ("mask", 6), ("others", 0)))
    before = rights(path), path.read_bytes()
    assert not run_as(EVE, (), lambda: write(path), quietly=True)
    assert (rights(path), path.read_bytes()) == before


# -- several users -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("setgid", [True, False])
@pytest.mark.parametrize("parts", [False, True])
def test_a_member_of_the_group_does_not_lock_the_team_out(folder, setgid, parts):
    path = folder / "m"
    shared(path, parts=parts)
    os.chown(folder, ALICE, TEAM)
    folder.chmod(0o2770 if setgid else 0o770)
    for user, mark in ((BOB, AFTER), (ALICE, BEFORE), (BOB, AFTER), (0, BEFORE), (ALICE, AFTER)):
        assert run_as(user, (TEAM,), lambda mark=mark: child.put(path, mark, parts=parts))
        assert rights(path)[1:] == (TEAM, 0o660, None)
        assert path.read_bytes() == child.content(mark, parts=parts)[0]
        assert not may(path, os.O_RDONLY, EVE)
    assert run_as(BOB, (TEAM,), lambda: store.read(path, child.whole))


def test_a_group_that_cannot_be_kept_gets_no_more_than_everybody_and_everybody_no_more_than_it(folder):
    path = folder / "m"
    for before, after in ((0o666, 0o666), (0o606, 0o600), (0o626, 0o622)):
        write(path, b"old")
        path.chmod(before)
        os.chown(path, ALICE, TEAM)
        store.side_files(path).lock.unlink()
        # The owner is no member of the group that the file was given.
        assert run_as(ALICE, (), lambda: write(path))
        assert rights(path)[:3] == (ALICE, ALICE, after)


@pytest.mark.parametrize("change", ["replace", "look"])
def test_the_lock_file_is_for_those_who_may_change_the_file(folder, change):
    path = folder / "m"
    shared(path)
    lock = store.side_files(path).lock
    with store.locked(path) as writer:  # root comes first
        if change == "replace":
            writer.replace([b"new"])
    assert rights(lock) == (ALICE, TEAM, 0o660, None)
    assert not may(lock, os.O_RDONLY, EVE)
    for user in (ALICE, BOB):
        assert run_as(user, (TEAM,), lambda: write(path))
    path.chmod(0o644)
    write(path)
    assert rights(lock)[2] == 0o600
    assert not may(lock, os.O_RDONLY, EVE, TEAM)  # who only reads could hold up those who write


def test_the_lock_file_has_the_access_list_of_the_file(folder):
    path = folder / "m"
    shared(
        path,
        0o660,
        acl(("user", 6), ("named user", 6, BOB), ("named user", 4, EVE), ("group", 4), ("mask", 6), ("others", 4)),
    )
    write(path)
    lock = store.side_files(path).lock
    assert may(lock, os.O_RDWR, BOB)
    assert not may(lock, os.O_RDONLY, EVE)
    assert not may(lock, os.O_RDONLY, 50_009)


def test_a_lock_file_of_somebody_else_is_said(folder):
    path = folder / "m"
    shared(path)
    lock = store.side_files(path).lock
    lock.touch(0o600)

    def refused():
        with pytest.raises(StoreError, match=r"take turns, is another user's\. Nothing was changed: give it"):
            write(path)

    assert run_as(ALICE, (), refused)
    write(path)  # root sets it right
    assert run_as(ALICE, (), lambda: write(path))
