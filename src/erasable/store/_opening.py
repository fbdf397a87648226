"""One writer at a time, through a kernel lock that dies with its holder."""

from __future__ import annotations

import contextlib
import errno
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from erasable.errors import BusyError, ConfigurationError
from erasable.store._disk import REAL_DISK, Disk, close_quietly, explained, facts_or_none, failure, refusal, same_file
from erasable.store._files import LIMIT, Parse, Place, T, read_settled, refuse_special, share_lock
from erasable.store._writing import PartsOf, Writer, has_leftovers, recover, refuse_lost_head


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


def read(
    path: str | os.PathLike[str],
    parse: Parse[T],
    *,
    parts_of: PartsOf | None = None,
    limit: int = LIMIT,
    disk: Disk = REAL_DISK,
) -> T:
    """What ``parse(head, fetch)`` makes of the whole content of ``path``: that before a change, or that after it.

    No lock is taken and no writer is waited for. ``parse`` may be called again when the path was replaced while it
    worked. Leftovers of an interrupted change are erased on the way when nobody holds the lock and the folder allows.

    Parameters
    ----------
    path : str or path-like
        The file, or a symbolic link to it.
    parse : callable
        Given the bytes of the head and ``fetch``, which gives the bytes of a part by its name.
    parts_of : callable, optional
        The names of the parts that a head (bytes) refers to; only used to erase leftovers.
    limit : int
        The most bytes that the head, or one part, may have.
    disk : Disk
        The system calls to use.

    Raises
    ------
    StoreError
        The path cannot be read, for the reason given.
    StateFormatError
        A part does not hold the bytes that it is named by. Whatever ``parse`` raises goes out too.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable import store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "m.erasable")
    ...     _ = path.write_bytes(b"rows")
    ...     store.read(path, lambda head, fetch: len(head))
    4
    """
    # Side files are beside the real file, not beside a link to it.
    place = Place(disk.real_path(Place(path, disk).head), disk)
    # A read does not fail for what it only tidies up.
    with contextlib.suppress(Exception):
        _erase_leftovers(place, parts_of)
    with explained("read", place.head):
        refuse_lost_head(place)
    return read_settled(place, parse, limit)


def _erase_leftovers(place: Place, parts_of: PartsOf | None) -> None:
    if not has_leftovers(place, parts_of) and place.look(place.head) is not None:
        return
    # They are the sign for the next one that parts may have to be erased too, which needs parts_of. A lock file
    # made here might belong to a user who only looks, and shut out those who write.
    if (parts_of is None and place.look(place.parts) is not None) or place.look(place.lock) is None:
        return
    with held(place, 0.0):
        recover(place, parts_of)
        _remove_unused_lock(place)


@contextmanager
def locked(
    path: str | os.PathLike[str],
    *,
    parts_of: PartsOf | None = None,
    timeout: float | None = None,
    disk: Disk = REAL_DISK,
) -> Iterator[Writer]:
    """A block with the sole right to change ``path``; what an interrupted change left behind is erased first.

    Parameters
    ----------
    path : str or path-like
        The file, which need not exist yet; its folder must. A symbolic link is refused.
    parts_of : callable, optional
        The names of the parts that a head (bytes) refers to. Without it, parts on disk are left alone on entry.
    timeout : float, optional
        Seconds to wait for another writer; by default as long as it takes.
    disk : Disk
        The system calls to use.

    Raises
    ------
    BusyError
        Another writer had the lock for longer than ``timeout``.
    StoreError
        The path cannot be written, for the reason given. Nothing was changed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable import store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "m.erasable")
    ...     with store.locked(path) as writer:
    ...         writer.replace([b"rows of ", b"three people"])
    ...         writer.replace([writer.read(lambda head, fetch: head.replace(b"three", b"two"))])
    ...     store.read(path, lambda head, fetch: head)
    b'rows of two people'
    """
    place = Place(path, disk)
    with explained("write", place.head, "Nothing was changed."):
        place.check_writable_kind()
    owner = os.getpid()
    with held(place, timeout):
        with explained("clean up after an interrupted change of", place.head, "What it holds was not touched."):
            recover(place, parts_of)
        writer = Writer(place, parts_of)
        try:
            yield writer
        finally:
            writer.close()
            if os.getpid() == owner:  # in a forked child the lock is still the parent's
                _remove_unused_lock(place)


def _remove_unused_lock(place: Place) -> None:
    """No lock file where there is nothing to lock: it would be the only trace of a change that never came about.

    Whoever waits for it meanwhile finds that its name is gone, and makes a new one.
    """
    with contextlib.suppress(OSError):
        if all(place.look(path) is None for path in (place.head, place.new, place.old, place.parts)):
            place.disk.unlink(place.lock)
