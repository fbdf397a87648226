"""A child process carries out calls, and may die, hang or be ended at any time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from erasable.errors import BusyError, InputError, StoreError, UnknownOutcomeError
from erasable.service.model_files import call_here
from erasable.service.processes import ChildProcess, Packed, within_memory
from tests.service.calls import (
    CANARY,
    Named,
    Unreadable,
    counted,
    dying,
    failing,
    hold,
    is_held,
    taking,
    turned_round,
    working,
)
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")


def pid_in(folder):
    path = folder / "pid"
    return int(until(lambda: path.exists() and path.read_text()))


def is_there(pid):
    """Whether a process is running, and no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def gone(pid):
    return until(lambda: not is_there(pid))


@pytest.fixture(scope="module")
def shared():
    process = ChildProcess(3)
    yield process
    process.end()


@pytest.fixture
def child(shared):
    """A process that is running; all tests share it, and some leave it ended."""
    shared.begin()
    return shared


def test_a_call_takes_no_more_memory_than_it_may_and_the_next_one_may_take_more(child):
    child(os.getpid)
    pid = child.pid
    assert child(within_memory, 2**28, taking, 2**20) == 2**20
    with pytest.raises(MemoryError):
        child(within_memory, 2**28, taking, 2**30)
    assert child(taking, 2**30) == 2**30
    assert child.pid == pid


def test_results_exceptions_and_progress_come_back(child):
    far = []
    total, pid, niceness = child(counted, 1, 2, progress=lambda *given: far.append(given))
    assert (total, far) == (3, [(0, 3), (1, 3), (2, 3)])
    assert pid == child.pid != os.getpid()
    assert niceness == min(os.nice(0) + 3, 19)
    if sys.platform == "linux":  # threads of libraries that were imported before, too
        threads = [int(name) for name in os.listdir(f"/proc/{pid}/task")]
        assert len(threads) > 1
        assert {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads} == {niceness}
    with pytest.raises(InputError, match=r"^text$"):
        child(failing, "ours", "text")
    with pytest.raises(ZeroDivisionError):
        child(failing, "other", "text")
    with pytest.raises(RuntimeError, match=r"^NotForOthersError$"):  # of an error that cannot be sent, its type alone
        child(failing, "odd", "")
    for number in (signal.SIGTERM, signal.SIGINT):  # which whoever stops the service sends to all of it
        os.kill(pid, number)
    assert child(counted, 5) == (5, pid, niceness)
    assert call_here(counted, 5)[:2] == (5, os.getpid())


def full(*_):
    raise StoreError("full")


@pytest.mark.parametrize(
    ("kind", "text", "given", "progress"),
    [
        (StoreError, "^full$", 1, full),
        (InputError, "it cannot be read", Unreadable(), None),
    ],
)
def test_an_exception_of_progress_or_of_reading_leaves_the_process(child, kind, text, given, progress):
    pid = child(counted)[1]
    with pytest.raises(kind, match=text):
        child(counted, given, progress=progress)
    assert child(counted, 5)[:2] == (5, pid)


def test_an_argument_that_cannot_be_sent_is_an_error_of_the_caller(child):
    with pytest.raises(Exception, match="pickle"):
        child(counted, lambda: 0)
    assert child(counted, 5)[0] == 5


def test_arguments_do_not_stay_in_memory(child):
    child(hold, Named())
    assert not child(is_held)


def test_a_call_is_repeated_once_in_another_process(child, tmp_path):
    first = child(counted)[1]
    assert child(dying, tmp_path, 1) == 1
    assert child(counted)[1] != first
    with pytest.raises(UnknownOutcomeError, match="ended while it worked"):
        child(dying, tmp_path, 3)
    assert child(dying, tmp_path, 3) == 3
    os.kill(child.pid, signal.SIGKILL)  # while it is idle
    assert child(counted, 5)[0] == 5


def test_a_call_that_must_not_be_repeated_is_not(child, tmp_path):
    child(counted)
    with pytest.raises(UnknownOutcomeError, match="ended while it worked"):
        child(dying, tmp_path, 1, again=False)
    assert len(list(tmp_path.iterdir())) == 1
    assert child(dying, tmp_path, 1, again=False) == 1
    child._process.kill()  # while it is idle
    child._process.wait()
    assert child(counted, 5, again=False)[0] == 5


def test_a_process_that_hangs_is_replaced(child, tmp_path, monkeypatch):
    with pytest.raises(UnknownOutcomeError, match=r"no sign of life for 0\.3 seconds"):
        child(working, tmp_path, progress=lambda: monkeypatch.setattr(child, "_patience", 0.3))
    assert gone(pid_in(tmp_path))
    monkeypatch.undo()
    assert child(counted, 5)[0] == 5


def test_ending_the_process_ends_its_call_and_its_arguments_are_nowhere(child, tmp_path, capfd):
    raised = []

    def ask():
        try:
            child(working, tmp_path, CANARY)
        except BusyError as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    pid = pid_in(tmp_path)
    shown = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ", "comm")]
    assert b"erasable.service.processes" in shown[0]
    assert not any(CANARY.encode() in text for text in shown)
    child.end()
    asking.join(PATIENCE)
    assert len(raised) == 1
    assert gone(pid)
    assert child.pid is None
    with pytest.raises(BusyError, match="start it"):
        child(counted)
    child.end()
    child.begin()
    for kind, error in (("other", ZeroDivisionError), ("odd", RuntimeError)):
        with pytest.raises(error):
            child(failing, kind, CANARY)
    child.end()
    assert capfd.readouterr() == ("", "")


def test_the_first_call_is_made_by_every_process_and_may_fail(tmp_path):
    for first, calls in (((dying, tmp_path, 2), 2), ((failing, "other", ""), 1)):
        child = ChildProcess(0, first)
        child.begin()
        if calls == 2:
            with pytest.raises(UnknownOutcomeError):
                child(counted)
        assert child(counted, 5)[0] == 5
        child.end()


@pytest.mark.parametrize("length", [0, 10, 2**16 - 1, 2**16, 10**7])
def test_buffers_of_any_length_cross_unchanged(child, length):
    data = np.random.default_rng(0).bytes(length)
    packed, array = child(turned_round, Packed(data, b"", data), np.frombuffer(data, np.uint8))
    assert bytes(packed) == (2 * data)[::-1]
    assert array.tobytes() == data[::-1]
    assert Packed.of({"a": data}).opened() == {"a": data}


ISOLATED = """
import sys
flags, sys.path = sys.flags, sys.argv[2:]
from erasable.service.processes import ChildProcess
from tests.service.calls import told_to_leave_alone
child = ChildProcess(0)
child.begin()
assert child(told_to_leave_alone) == told_to_leave_alone(), (child(told_to_leave_alone), told_to_leave_alone())
child.end()
"""


@pytest.mark.parametrize("flags", [["-E", "-P"], ["-I", "-S"], ["-s", "-P"]])
def test_the_process_ignores_what_this_interpreter_ignores(tmp_path, flags):
    (tmp_path / "sitecustomize.py").write_text(f"open({str(tmp_path / 'seen')!r}, 'a').write('x')")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    command = [sys.executable, *flags, "-c", ISOLATED, "", *sys.path]
    subprocess.run(command, env=environment, check=True, timeout=300)
    read = {"-I", "-E"}.isdisjoint(flags)
    assert (tmp_path / "seen").exists() == read
    if read:
        assert (tmp_path / "seen").read_text() == "xx"


PARENT = """
import sys
from erasable.service.processes import ChildProcess
from tests.service.calls import working
child = ChildProcess(0)
child.begin()
child(working, sys.argv[1])
"""


def test_the_process_ends_with_its_parent(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=environment) as parent:
        pid = pid_in(tmp_path)
        assert is_there(pid)
        parent.kill()
    assert gone(pid)
