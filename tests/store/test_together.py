"""Writers exclude each other, readers never wait, and a dead writer holds nothing."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import threading

import pytest

from erasable import store
from erasable.errors import BusyError, StoreError
from erasable.store import _files
from tests.store import child
from tests.store.child import AFTER, BEFORE, parts_of
from tests.waiting import PATIENCE


def start(*arguments):
    command = [sys.executable, child.__file__, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def raw(head, fetch):
    return head


def test_two_processes_lose_nothing(tmp_path):
    path = tmp_path / "m"
    running = [start("add", path, prefix, 40) for prefix in "ab"]
    for process in running:
        out, _ = process.communicate(timeout=PATIENCE)
        assert "acknowledged" in out
    words = store.read(path, raw).decode().split()
    assert sorted(words) == sorted(f"{prefix}{i}" for prefix in "ab" for i in range(40))


def test_two_threads_lose_nothing(tmp_path):
    path = tmp_path / "m"
    threads = [threading.Thread(target=child.add_words, args=(path, prefix, 40)) for prefix in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    words = store.read(path, raw).decode().split()
    assert sorted(words) == sorted(f"{prefix}{i}" for prefix in "ab" for i in range(40))


def test_a_second_writer_gives_up_in_time_and_a_reader_does_not_wait(tmp_path):
    path = tmp_path / "m"
    with store.locked(path) as writer:
        writer.replace([b"content"])
        with pytest.raises(BusyError, match="another process") as caught, store.locked(path, timeout=0.02):
            pass
        assert isinstance(caught.value, TimeoutError)
        assert store.read(path, raw) == b"content"
    with store.locked(path, timeout=0):
        pass


def test_the_death_of_the_holder_frees_the_lock(tmp_path):
    path = tmp_path / "m"
    holder = start("hold", path)
    try:
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(BusyError), store.locked(path, timeout=0):
            pass
    finally:
        holder.kill()
        holder.communicate(timeout=PATIENCE)
    with store.locked(path, timeout=PATIENCE) as writer:
        writer.replace([b"free"])
    assert store.read(path, raw) == b"free"


def test_readers_always_see_a_whole_content(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    wholes = []
    for mark in (BEFORE, AFTER):
        head, parts = child.content(mark, parts=True)
        wholes.append((head, [b"".join(data) for data in parts.values()]))
    writer = start("flip", path, 200)
    while True:
        assert store.read(path, child.whole, parts_of=parts_of) in wholes
        if writer.poll() is not None:
            break
    assert "acknowledged" in writer.communicate()[0]
    assert store.read(path, child.whole) == wholes[1]


def test_a_reader_that_opened_the_old_file_reads_the_new_one(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    class Late(store.Disk):
        """Replaces the file as soon as a reader has opened it."""

        replaced = False

        def read(self, descriptor, size):
            if not self.replaced:
                self.replaced = True
                with store.locked(path) as writer:
                    writer.replace([b"new"])
            return super().read(descriptor, size)

    assert store.read(path, raw, disk=Late()) == b"new"


def test_a_reader_whose_parts_were_erased_reads_again(tmp_path):
    path = tmp_path / "m"
    child.put(path, BEFORE, parts=True)
    tries = []

    def parse(head, fetch):
        tries.append(head)
        if len(tries) == 1:
            child.put(path, AFTER, parts=True)
        return child.whole(head, fetch)

    assert store.read(path, parse)[0] == child.content(AFTER, parts=True)[0]
    assert len(tries) == 2


def test_a_path_that_never_rests_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(_files, "_TRIES", 5)
    path = tmp_path / "m"
    path.write_bytes(b"old")

    def parse(head, fetch):
        with store.locked(path) as writer:
            writer.replace([b"new"])
        raise StoreError("a part is gone")

    with pytest.raises(BusyError, match="try again"):
        store.read(path, parse)


def test_an_error_of_the_content_itself_goes_out_at_once(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")
    tries = []

    def parse(head, fetch):
        tries.append(head)
        raise StoreError("not mine")

    with pytest.raises(StoreError, match="not mine"):
        store.read(path, parse)
    assert len(tries) == 1


def test_a_deleted_lock_file_does_not_let_two_writers_in(tmp_path):
    path = tmp_path / "m"
    lock = store.side_files(path).lock

    class Deleting(store.Disk):
        """The lock file is deleted just before it is locked, once."""

        deleted = False

        def lock(self, descriptor, *, wait):
            if not self.deleted:
                self.deleted = True
                lock.unlink()
            return super().lock(descriptor, wait=wait)

    with store.locked(path, disk=Deleting()), pytest.raises(BusyError), store.locked(path, timeout=0):
        pass


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_neither_writes_nor_unlocks(tmp_path):
    path = tmp_path / "m"
    with store.locked(path) as writer:
        block = store.locked(tmp_path / "other")
        with block as other:
            other.replace([b"x"])
            pid = os.fork()
            if pid == 0:
                try:
                    other.replace([b"y"])
                except StoreError:
                    block.__exit__(None, None, None)
                    os._exit(0)
                os._exit(1)
            assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
            with pytest.raises(BusyError), store.locked(tmp_path / "other", timeout=0):
                pass
        writer.replace([b"z"])
    assert store.read(tmp_path / "other", raw) == b"x"


def test_a_writer_knows_the_bytes_of_the_path_by_their_digest(tmp_path):
    path, content = tmp_path / "m", bytes(range(256)) * 8192  # two pieces
    path.write_bytes(content)
    with store.locked(path) as writer:
        assert writer.holds(hashlib.sha256(content).hexdigest())
        assert not writer.holds(hashlib.sha256(content[:-1]).hexdigest())
        assert not writer.holds("")
        path.write_bytes(content[:-1] + b"x")
        assert not writer.holds(hashlib.sha256(content).hexdigest())


def test_a_writer_knows_nothing_of_a_path_that_is_replaced_meanwhile(tmp_path):
    path = tmp_path / "m"
    path.write_bytes(b"old")

    class Late(store.Disk):
        """Another program replaces the file as soon as it is read."""

        def read(self, descriptor, size):
            (tmp_path / "other").write_bytes(b"new")
            (tmp_path / "other").replace(path)
            return super().read(descriptor, size)

    with store.locked(path, disk=Late()) as writer:
        assert not writer.holds(hashlib.sha256(b"old").hexdigest())
