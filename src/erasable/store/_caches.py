"""A cache next to a file: for its owner alone, written once, and erased. It has no side files of its own.

A program erases one under a lock of the cache itself, so that none removes the cache that another has just written.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Callable

from erasable.errors import BusyError
from erasable.store._disk import REAL_DISK, close_quietly, explained, facts_or_none, failure, same_file
from erasable.store._files import overwrite, write_fully

_FIRST = 512  # bytes by which a cache is recognised
_PAUSE = 0.01  # seconds between two attempts to get the lock of a cache


def read_cache(path: str | os.PathLike[str], limit: int = _FIRST) -> bytes | None:
    """Return the first bytes of a cache, all if there are fewer than ``limit``; None for what is no plain file.

    Symbolic links are not followed. Raises OSError.
    """
    name, disk = os.path.abspath(path), REAL_DISK
    facts = facts_or_none(disk.facts_of_name, name)
    if facts is None or not stat.S_ISREG(facts.st_mode):
        return None
    descriptor = disk.open_to_read(name)
    try:
        if not same_file(facts, disk.facts(descriptor)):
            return None
        return disk.read_at(descriptor, min(limit, facts.st_size), 0)
    finally:
        close_quietly(disk, descriptor)


def write_cache(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a cache whose name must be free. It need not survive a loss of power.

    Raises OSError.
    """
    name, disk = os.path.abspath(path), REAL_DISK
    descriptor = disk.create(name, 0o600)
    try:
        write_fully(disk, descriptor, memoryview(content))
    except BaseException:
        disk.unlink(name)
        raise
    finally:
        close_quietly(disk, descriptor)


def erase_cache(path: str | os.PathLike[str], ours: Callable[[bytes], bool], timeout: float = 0.0) -> bool:
    """Overwrite and remove a plain file if ``ours`` is true of its first bytes; whether it was removed, durably.

    Raises StoreError, after ``timeout`` seconds also if another program is erasing it.
    """
    name, disk = os.path.abspath(path), REAL_DISK
    with explained("erase", name):
        facts = facts_or_none(disk.facts_of_name, name)
        if facts is None or not stat.S_ISREG(facts.st_mode):
            return False
        try:
            descriptor = disk.open_cache(name)
        except FileNotFoundError:
            return False
        try:
            _lock(name, descriptor, timeout)
            # Another program may have erased it, and a new one may have the name: that one is not looked at.
            now = facts_or_none(disk.facts_of_name, name)
            if now is None or not same_file(now, disk.facts(descriptor)) or not same_file(now, facts):
                return False
            if not ours(disk.read_at(descriptor, _FIRST, 0)):
                return False
            overwrite(disk, descriptor, name)
            disk.unlink(name)
            disk.fsync_folder(os.path.dirname(name))
        finally:
            close_quietly(disk, descriptor)
    return True


def _lock(name: str, descriptor: int, timeout: float) -> None:
    deadline = time.monotonic() + timeout
    while not REAL_DISK.lock(descriptor, wait=False):
        if time.monotonic() >= deadline:
            raise failure(f"{name} is being erased by another process: try again.", errno.ETIMEDOUT, BusyError)
        time.sleep(_PAUSE)
