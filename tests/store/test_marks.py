"""A mark next to a file: others refuse to change it and say what to run instead, whatever the mark holds."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
import threading

import pytest

from erasable import ErasableClassifier, ModelFile
from erasable.errors import BusyError, ConfigurationError, StoreError
from erasable.store import Disk, Mark, locked, read, set_mark, side_files
from erasable.store._marks import refuse_managed
from tests.waiting import PATIENCE

MARK = Mark("tester", "https://ask.example", "tester forget", "id-1")


@pytest.fixture
def path(tmp_path):
    with locked(tmp_path / "m.erasable") as writer:
        writer.replace([b"before"])
    return tmp_path / "m.erasable"


def text(path):
    return read(path, lambda head, _: head)


def change(path, **options):
    with locked(path, **options) as writer:
        writer.replace([b"after"])


def test_a_marked_file_is_changed_by_its_program_alone_until_the_mark_is_removed(path):
    held = set_mark(path, MARK)
    for options in ({}, {"managed_as": "id-2"}, {"managed_as": ""}):
        with pytest.raises(StoreError) as refused:
            change(path, **options)
        assert "m.erasable is managed by tester (https://ask.example)" in str(refused.value)
        assert "to forget rows, run: tester forget" in str(refused.value)
        assert text(path) == b"before"
    change(path, managed_as="id-1")
    assert text(path) == b"after"
    held.remove()
    held.remove()
    assert not side_files(path).mark.exists()
    change(path)


def test_a_mark_that_cannot_be_written_leaves_the_file_to_everybody(path, monkeypatch):
    with monkeypatch.context() as full:
        full.setattr(Disk, "write", lambda *_: (_ for _ in ()).throw(OSError(errno.ENOSPC, "full")))
        with pytest.raises(StoreError, match="the disk is full"):
            set_mark(path, MARK)
    assert not side_files(path).mark.exists()
    change(path)
    assert text(path) == b"after"


def test_a_second_program_cannot_manage_a_file_meanwhile(path, monkeypatch):
    monkeypatch.setattr("erasable.store._marks._PATIENCE", 0.05)
    held = set_mark(path, MARK)
    for other in (Mark("tester", id="id-2"), Mark("another", id="id-2")):
        with pytest.raises(BusyError, match="managed by tester"):
            set_mark(path, other)
    change(path, managed_as="id-1")
    held.remove()
    set_mark(path, Mark("another", id="id-2")).remove()


KILLED = """
import os, signal, sys
from erasable.store import Mark, set_mark
held = set_mark(sys.argv[1], Mark("tester", "https://ask.example", "tester forget", "of the dead" + "x" * 100))
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_mark_of_a_killed_program_says_how_to_go_on_and_is_taken_over_by_its_program(path):
    subprocess.run([sys.executable, "-c", KILLED, path], timeout=PATIENCE, check=False)
    mark = side_files(path).mark
    with pytest.raises(StoreError, match="which does not run now") as refused:
        change(path)
    assert f"delete {mark}" in str(refused.value)
    with pytest.raises(StoreError, match="which does not run now"):
        set_mark(path, Mark("another", id="id-2"))
    held = set_mark(path, MARK)
    assert json.loads(mark.read_text()) == vars(MARK)
    held.remove()
    subprocess.run([sys.executable, "-c", KILLED, path], timeout=PATIENCE, check=False)
    mark.unlink()
    change(path)
    assert text(path) == b"after"


def test_a_writer_that_waits_is_refused_once_the_file_is_marked(path, monkeypatch):
    problems, looked = [], threading.Event()

    def look(*given):
        refuse_managed(*given)
        looked.set()

    def wait():
        with pytest.raises(StoreError) as refused:
            change(path, timeout=PATIENCE)
        problems.append(str(refused.value))

    with locked(path):
        monkeypatch.setattr("erasable.store._writing.refuse_managed", look)
        waiting = threading.Thread(target=wait)
        waiting.start()
        assert looked.wait(PATIENCE)  # it has seen no mark, and waits for the lock
        held = set_mark(path, MARK)
    waiting.join(PATIENCE)
    held.remove()
    assert "managed by tester" in problems[0]
    assert text(path) == b"before"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"[1]",
        b"not json",
        b"\xff\xfe",
        b'{"by": ""}',
        b"[" * 5000,
        json.dumps({"by": "x" * 5000}).encode(),
        b'{"by": "x"}' + b" " * 2**20,
        json.dumps({"by": "tester\x1b[2J\u202e\n\x00", "ask": "\r\x9b1m", "id": "1"}).encode(),
    ],
)
def test_whatever_a_mark_holds_it_refuses_and_reaches_no_terminal(path, content):
    side_files(path).mark.write_bytes(content)
    with pytest.raises(StoreError, match="which does not run now") as refused:
        change(path)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 1500
    with pytest.raises(StoreError, match="managed by"):
        set_mark(path, MARK) if content else change(path)


@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_a_mark_that_is_no_plain_file_is_not_opened(path, kind, tmp_path):
    mark = side_files(path).mark
    (tmp_path / "elsewhere").write_text("mine")
    {"link": lambda: mark.symlink_to(tmp_path / "elsewhere"), "pipe": lambda: os.mkfifo(mark), "folder": mark.mkdir}[
        kind
    ]()
    for call in (lambda: change(path), lambda: set_mark(path, MARK)):
        with pytest.raises(StoreError, match="is no plain file"):
            call()
    assert (tmp_path / "elsewhere").read_text() == "mine"


def test_a_model_that_is_managed_is_neither_learnt_nor_forgotten_nor_saved_over(tmp_path):
    clf = ErasableClassifier().fit([[0.0], [1.0], [2.0]], [0, 1, 1], ids=["a", "b", "c"])
    clf.save(tmp_path / "m.erasable")
    held, before = set_mark(tmp_path / "m.erasable", MARK), (tmp_path / "m.erasable").read_bytes()
    file = ModelFile(tmp_path / "m.erasable")
    for call in (
        lambda: file.forget(ids=["a"]),
        lambda: file.learn([]),
        lambda: clf.save(tmp_path / "m.erasable", overwrite=True),
    ):
        with pytest.raises(StoreError, match="tester forget"):
            call()
    assert (tmp_path / "m.erasable").read_bytes() == before
    assert file.verify().core_rows == 3  # reading is not affected
    assert ModelFile(tmp_path / "m.erasable", managed_as="id-1").forget(ids=["a"]).core_rows == 2
    held.remove()


def test_a_mark_is_short_and_printable():
    for wrong in ({"by": ""}, {"by": "x\n"}, {"by": "x", "command": "y" * 401}, {"by": "x", "ask": "\u202e"}):
        with pytest.raises(ConfigurationError):
            Mark(**wrong)
