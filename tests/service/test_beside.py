"""A process beside this one: what it is asked comes back, and it may die, hang or be ended at any moment."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from pathlib import Path

import numpy as np
import pytest

from erasable.errors import BusyError, InputError, StoreError, UnknownOutcomeError
from erasable.service.beside import Beside, Here, Parcel
from tests.waiting import PATIENCE, until

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="looks at /proc")
CANARY = "canary-ann@example.org"


class NotForOthersError(Exception):
    """It cannot be sent."""

    def __init__(self, one, two):
        super().__init__(CANARY)


def counted(*numbers, progress=None):
    for i in range(3 if progress else 0):
        progress(i, 3)
    return sum(numbers), os.getpid(), os.nice(0)


def failing(kind, text):
    raise InputError(text) if kind == "ours" else NotForOthersError(1, 2) if kind == "odd" else ZeroDivisionError(text)


def dying(folder, times):
    """It dies so many times, and is done then."""
    before = len(list(Path(folder).iterdir()))
    if before < times:
        (Path(folder) / str(before)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return before


def working(folder, name, *_):
    (Path(folder) / name).write_text(str(os.getpid()))
    time.sleep(2 * PATIENCE)


def hanging(folder, name, progress):
    """It says something, and nothing more."""
    (Path(folder) / name).write_text(str(os.getpid()))
    progress()
    time.sleep(2 * PATIENCE)


def seen(path):
    """Once it is there and has something in it."""
    return until(lambda: path.exists() and path.read_text())


def is_there(pid):
    """Whether a process is, and is not only remembered."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def gone(pid):
    return until(lambda: not is_there(pid))


@pytest.fixture
def beside():
    process = Beside(3)
    process.begin()
    yield process
    process.end()


def test_what_a_function_gives_raises_and_says_comes_back(beside):
    told = []
    total, pid, niceness = beside(counted, 1, 2, progress=lambda *far: told.append(far))
    assert (total, told) == (3, [(0, 3), (1, 3), (2, 3)])
    assert pid == beside.pid != os.getpid()
    assert niceness == min(os.nice(0) + 3, 19)
    with pytest.raises(InputError, match=r"^text$"):
        beside(failing, "ours", "text")
    with pytest.raises(ZeroDivisionError):
        beside(failing, "other", "text")
    with pytest.raises(RuntimeError, match=r"^NotForOthersError$"):  # of what cannot be sent, its kind alone
        beside(failing, "odd", "")
    for number in (signal.SIGTERM, signal.SIGINT):  # which whoever stops the service sends to all of it
        os.kill(pid, number)
    assert beside(counted, 5) == (5, pid, niceness)
    assert Here()(counted, 5)[:2] == (5, os.getpid())


def test_what_progress_raises_is_raised_there_too_and_the_process_goes_on(beside):
    def full(*far):
        raise StoreError("full")

    pid = beside(counted)[1]
    with pytest.raises(StoreError, match=r"^full$"):
        beside(counted, 1, progress=full)
    assert beside(counted, 5)[:2] == (5, pid)


class Unreadable:
    """Whoever reads it fails."""

    def __reduce__(self):
        return failing, ("ours", "it cannot be read")


def test_what_cannot_be_read_there_is_told(beside):
    pid = beside(counted)[1]
    with pytest.raises(InputError, match="it cannot be read"):
        beside(counted, Unreadable())
    assert beside(counted, 5)[:2] == (5, pid)


HELD = []


class Named:
    """Something that a call is about."""


def hold(named):
    HELD.append(weakref.ref(named))


def is_held():
    gc.collect()
    return HELD[0]() is not None


def test_what_a_call_was_about_does_not_stay(beside):
    beside(hold, Named())
    assert not beside(is_held)


def test_what_cannot_be_sent_leaves_it_as_it_was(beside):
    with pytest.raises(Exception, match="pickle"):
        beside(counted, lambda: 0)
    assert beside(counted, 5)[0] == 5


def test_killed_while_it_works_another_is_asked_and_twice_it_says_so(beside, tmp_path):
    first = beside(counted)[1]
    assert beside(dying, tmp_path, 1) == 1
    assert beside(counted)[1] != first
    with pytest.raises(UnknownOutcomeError, match="ended while it worked"):
        beside(dying, tmp_path, 3)
    assert beside(dying, tmp_path, 3) == 3
    os.kill(beside.pid, signal.SIGKILL)  # and while it does not
    assert beside(counted, 5)[0] == 5


def test_one_that_hangs_is_ended_and_the_next_call_has_another(tmp_path):
    beside = Beside(0)
    beside.begin()
    with pytest.raises(UnknownOutcomeError, match=r"no sign of life for 0\.3 seconds"):
        beside(hanging, tmp_path, "a", progress=lambda: setattr(beside, "_patience", 0.3))
    assert gone(int((tmp_path / "a").read_text()))
    beside._patience = PATIENCE
    assert beside(counted, 5)[0] == 5
    beside.end()


def test_ended_while_it_works_nobody_waits_and_nothing_is_left(beside, tmp_path):
    raised = []

    def ask():
        try:
            beside(working, tmp_path, "a")
        except BusyError as error:
            raised.append(error)

    asking = threading.Thread(target=ask)
    asking.start()
    pid = int(seen(tmp_path / "a"))
    beside.end()
    asking.join(PATIENCE)
    assert len(raised) == 1
    assert gone(pid)
    assert beside.pid is None
    with pytest.raises(BusyError, match="start it"):
        beside(counted)
    beside.end()
    beside.begin()
    assert beside(counted, 5)[0] == 5


def test_what_is_to_be_done_first_is_done_by_every_process_and_may_fail(tmp_path):
    beside = Beside(0, (dying, tmp_path, 2))
    beside.begin()
    with pytest.raises(UnknownOutcomeError):
        beside(counted)
    assert beside(counted, 5)[0] == 5
    beside.end()
    beside = Beside(0, (failing, "other", ""))
    beside.begin()
    assert beside(counted, 5)[0] == 5
    beside.end()


@pytest.mark.parametrize("length", [0, 10, 2**16 - 1, 2**16, 10**7])
def test_what_is_long_crosses_as_it_is(beside, length):
    data = np.random.default_rng(0).bytes(length)
    parcel, array = beside(turned_round, Parcel(data, b"", data), np.frombuffer(data, np.uint8))
    assert bytes(parcel) == (2 * data)[::-1]
    assert array.tobytes() == data[::-1]
    assert Parcel.of({"a": data}).opened() == {"a": data}


def turned_round(parcel, array):
    return Parcel(bytes(parcel)[::-1]), array[::-1].copy()


def test_what_may_not_be_done_twice_is_not(beside, tmp_path):
    beside(counted)
    with pytest.raises(UnknownOutcomeError, match="ended while it worked"):
        beside(dying, tmp_path, 1, again=False)
    assert len(list(tmp_path.iterdir())) == 1
    assert beside(dying, tmp_path, 1, again=False) == 1
    beside._process.kill()  # while it does nothing
    beside._process.wait()
    assert beside(counted, 5, again=False)[0] == 5


ISOLATED = """
import sys
flags, sys.path = sys.flags, sys.argv[2:]
from erasable.service.beside import Beside
from tests.service.test_beside import told_to_leave_alone
beside = Beside(0)
beside.begin()
assert beside(told_to_leave_alone) == told_to_leave_alone(), (beside(told_to_leave_alone), told_to_leave_alone())
beside.end()
"""


def told_to_leave_alone():
    """What the interpreter of this process does not look at, and where it finds modules."""
    flags = sys.flags
    return flags.ignore_environment, flags.no_user_site, flags.no_site, flags.safe_path, sys.path


@pytest.mark.parametrize("flags", [["-I"], ["-E", "-P"], ["-s", "-P"], ["-I", "-S"], ["-P"]])
def test_what_the_interpreter_leaves_alone_its_processes_leave_alone(tmp_path, flags):
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
from erasable.service.beside import Beside
from tests.service.test_beside import working
beside = Beside(0)
beside.begin()
beside(working, sys.argv[1], "a")
"""


def test_it_ends_with_whoever_began_it_whatever_it_does(tmp_path):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path)], env=environment) as parent:
        pid = int(seen(tmp_path / "a"))
        assert is_there(pid)
        parent.kill()
    assert gone(pid)


def test_nothing_of_a_call_is_in_its_command_line_environment_or_output(beside, tmp_path, capfd):
    def ask():
        with pytest.raises(BusyError):
            beside(working, tmp_path, "a", CANARY)

    asking = threading.Thread(target=ask)
    asking.start()
    pid = int(seen(tmp_path / "a"))
    shown = [Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ", "comm")]
    assert b"erasable.service.beside" in shown[0]
    assert not any(CANARY.encode() in text for text in shown)
    beside.end()
    asking.join(PATIENCE)
    beside.begin()
    with pytest.raises(ZeroDivisionError):
        beside(failing, "other", CANARY)
    with pytest.raises(RuntimeError):
        beside(failing, "odd", CANARY)
    beside.end()
    assert CANARY not in "".join(capfd.readouterr())
