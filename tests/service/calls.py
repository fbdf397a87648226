"""Functions that tests have child processes call: with few imports, since every process has to import them."""

from __future__ import annotations

import gc
import os
import signal
import sys
import time
import weakref
from pathlib import Path

from erasable.errors import InputError
from erasable.service.processes import Packed
from tests.waiting import PATIENCE

CANARY = "canary-ann@example.org"


class NotForOthersError(Exception):
    """It cannot be pickled."""

    def __init__(self, one, two):
        super().__init__(CANARY)


def counted(*numbers, progress=None):
    for i in range(3 if progress else 0):
        progress(i, 3)
    return sum(numbers), os.getpid(), os.nice(0)


def imported():
    return {name.partition(".")[0] for name in sys.modules}


def failing(kind, text):
    raise InputError(text) if kind == "ours" else NotForOthersError(1, 2) if kind == "odd" else ZeroDivisionError(text)


def dying(folder, times):
    """Dies so many times, then returns how often it did."""
    before = len(list(Path(folder).iterdir()))
    if before < times:
        (Path(folder) / str(before)).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return before


def working(folder, *_, progress=lambda: None):
    """Writes its process id down, and does not end by itself."""
    (Path(folder) / "pid").write_text(str(os.getpid()))
    progress()
    time.sleep(2 * PATIENCE)


class Unreadable:
    """Unpickling it fails."""

    def __reduce__(self):
        return failing, ("ours", "it cannot be read")


HELD = []


class Named:
    """Something that a call is about."""


def hold(named):
    HELD.append(weakref.ref(named))


def is_held():
    gc.collect()
    return HELD[0]() is not None


def turned_round(packed, array):
    return Packed(bytes(packed)[::-1]), array[::-1].copy()


def told_to_leave_alone():
    """What the interpreter of this process ignores, and where it finds modules."""
    flags = sys.flags
    return flags.ignore_environment, flags.no_user_site, flags.no_site, flags.safe_path, sys.path


def killing_itself(marks, progress):
    """Hands on two blocks, and is killed between them as often as there are marks."""
    progress(Packed.of("first"))
    for mark in map(Path, marks):
        if mark.exists():
            mark.unlink()
            os.kill(os.getpid(), signal.SIGKILL)
    progress(Packed.of("second"))


def taking(size, progress=lambda: None):
    """Take so many bytes, none of which is written to, for as long as the call lasts."""
    progress()
    return len(bytearray(size))
