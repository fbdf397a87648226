"""The file of a receipt: room before, a whole one after, and never the place of another."""

from __future__ import annotations

import errno
import os
import stat
from unittest import mock

import pytest

from erasable.audit.receipts import remove_second_name, reserved_receipt
from erasable.errors import BusyError
from erasable.store import Disk


def names(folder):
    return sorted(p.name for p in folder.iterdir())


def test_room_is_taken_before_and_the_name_appears_with_the_whole_text(tmp_path):
    path = tmp_path / "r.json"
    with reserved_receipt(path) as put:
        assert names(tmp_path) == [".r.json.new"]
        assert (tmp_path / ".r.json.new").read_bytes().isspace()
        put("text\n")
        assert names(tmp_path) == ["r.json"]
        assert path.read_text() == "text\n"
    assert names(tmp_path) == ["r.json"]
    mask = os.umask(0)
    os.umask(mask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o666 & ~mask


def test_nothing_stays_when_the_block_fails(tmp_path):
    with pytest.raises(ZeroDivisionError), reserved_receipt(tmp_path / "r.json"):
        raise ZeroDivisionError
    assert names(tmp_path) == []


@pytest.mark.parametrize("left", [b"", b" " * 8192, b"half a rec", b"x" * 20_000])
def test_what_a_kill_left_is_taken_over(tmp_path, left):
    (tmp_path / ".r.json.new").write_bytes(left)
    with reserved_receipt(tmp_path / "r.json") as put:
        put("text\n")
    assert names(tmp_path) == ["r.json"]
    assert (tmp_path / "r.json").read_text() == "text\n"


def test_two_commands_do_not_share_a_room(tmp_path):
    path = tmp_path / "r.json"
    with reserved_receipt(path) as put:
        with pytest.raises(BusyError, match="another command"), reserved_receipt(path):
            pass
        put("mine\n")
    assert path.read_text() == "mine\n"
    assert names(tmp_path) == ["r.json"]


def test_a_room_that_became_a_receipt_while_it_was_waited_for_is_nobody_elses(tmp_path):
    path = tmp_path / "r.json"
    lock = Disk.lock

    def lock_late(self, descriptor, *, wait):
        os.rename(tmp_path / ".r.json.new", path)  # its owner was faster
        return lock(self, descriptor, wait=wait)

    (tmp_path / ".r.json.new").write_text("theirs")
    with mock.patch.object(Disk, "lock", lock_late), pytest.raises(BusyError), reserved_receipt(path):
        pass
    assert path.read_text() == "theirs"


def test_a_name_that_was_taken_meanwhile_is_left_alone(tmp_path):
    path = tmp_path / "r.json"
    with reserved_receipt(path) as put:
        path.write_text("theirs")
        with pytest.raises(FileExistsError):
            put("mine\n")
    assert path.read_text() == "theirs"


def test_a_link_in_the_place_of_the_room_is_not_followed(tmp_path):
    (tmp_path / "victim").write_text("mine")
    (tmp_path / ".r.json.new").symlink_to("victim")
    with pytest.raises(OSError, match=r"symbolic links|Too many levels"), reserved_receipt(tmp_path / "r.json"):
        pass
    assert (tmp_path / "victim").read_text() == "mine"


def test_without_hard_links_it_is_renamed(tmp_path):
    with (
        mock.patch.object(Disk, "link", side_effect=OSError(errno.EPERM, "no hard links")),
        reserved_receipt(tmp_path / "r.json") as put,
    ):
        put("text\n")
    assert names(tmp_path) == ["r.json"]
    assert (tmp_path / "r.json").read_text() == "text\n"


def test_text_and_name_are_made_durable_in_this_order(tmp_path):
    done = []

    def noted(name):
        real = getattr(Disk, name)

        def call(self, *arguments):
            done.append(name)
            return real(self, *arguments)

        return call

    steps = ("fsync", "link", "rename", "unlink", "fsync_folder")
    with (
        mock.patch.multiple(Disk, **{name: noted(name) for name in steps}),
        reserved_receipt(tmp_path / "r.json") as put,
    ):
        assert done == ["fsync"]
        put("text\n")
    assert done == ["fsync", "fsync", "link", "unlink", "fsync_folder", "fsync"]


def test_a_second_name_that_a_kill_left_is_dropped_and_another_file_is_not(tmp_path):
    path, hidden = tmp_path / "r.json", tmp_path / ".r.json.new"
    path.write_text("text")
    remove_second_name(path)
    hidden.write_text("another")
    remove_second_name(path)
    assert names(tmp_path) == [".r.json.new", "r.json"]
    hidden.unlink()
    os.link(path, hidden)
    remove_second_name(path)
    assert names(tmp_path) == ["r.json"]
