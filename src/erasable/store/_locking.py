"""One writer at a time, through a kernel lock that dies with its holder."""

from __future__ import annotations

import errno
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from erasable.errors import BusyError, ConfigurationError
from erasable.store._access import share_lock
from erasable.store._disk import close_quietly, facts_or_none, same_file
from erasable.store._failures import explained, failure, refusal
from erasable.store._names import Place, refuse_special


@contextmanager
def held(place: Place, timeout: float | None) -> Iterator[None]:
    """A block that no other thread or process is in for the same path; waiting for it ends after ``timeout`` seconds.

    The lock belongs to an open descriptor, and each block opens its own, so two threads exclude each other as two
    processes do. A block inside another one for the same path, in one thread, would wait for itself.
    """
    check_timeout(timeout)
    deadline = None if timeout is None else time.monotonic() + timeout
    with explained("take the lock", place.lock, "Nothing was changed."):
        descriptor = _acquire(place, deadline, timeout)
    owner = os.getpid()
    try:
        share_lock(place, descriptor)
        yield
    finally:
        # In a forked child this descriptor is a copy: unlocking it would free the lock of the parent.
        if os.getpid() == owner:
            share_lock(place, descriptor)  # the head may be new
            # What became of the change is known by now, and the end of the process frees the lock if all else fails.
            with suppress(OSError):
                place.disk.unlock(descriptor)
        close_quietly(place.disk, descriptor)


def check_timeout(timeout: float | None) -> None:
    """Refuse what is no time to wait.

    Raises
    ------
    ConfigurationError
    """
    if timeout is not None and not (timeout >= 0 and math.isfinite(timeout)):
        raise ConfigurationError(f"timeout must be a number of seconds >= 0 or None (wait), not {timeout!r}.")


def _acquire(place: Place, deadline: float | None, timeout: float | None) -> int:
    disk = place.disk
    while True:
        try:
            descriptor = disk.open_lock(place.lock)
        except PermissionError as error:
            if place.look(place.lock) is None:
                raise
            advice = "give it the owner and the group of the model, or run it once as the user whose it is."
            message = f"{place.lock}, by which writers take turns, is another user's. Nothing was changed: {advice}"
            raise refusal(message, error.errno or 0) from error
        try:
            facts = disk.facts(descriptor)
            refuse_special(place.lock, facts)
            _wait(place, descriptor, deadline, timeout)
            now = facts_or_none(disk.facts_of_name, place.lock)
        except BaseException:
            close_quietly(disk, descriptor)
            raise
        # Somebody may have deleted the lock file, and a third one may hold the one made since.
        if now is not None and same_file(now, facts):
            return descriptor
        close_quietly(disk, descriptor)


def _wait(place: Place, descriptor: int, deadline: float | None, timeout: float | None) -> None:
    pause = 0.001
    while not place.disk.lock(descriptor, wait=deadline is None):
        left = 0.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            message = f"{place.head} is being changed by another process and was not free within {timeout:.3g} seconds."
            raise failure(f"{message} Nothing was changed: try again.", errno.ETIMEDOUT, BusyError)
        time.sleep(min(pause, left))
        pause = min(2 * pause, 0.05)
