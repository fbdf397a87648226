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
def holding_lock(place: Place, timeout: float | None) -> Iterator[None]:
    """Hold the lock of a path while the block runs; wait at most ``timeout`` seconds for it.

    The lock belongs to an open descriptor, and each block opens its own, so two threads exclude each other as two
    processes do. A nested block for the same path in one thread would wait for itself.
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
            # The outcome of the change is known by now, and the end of the process frees the lock in any case.
            with suppress(OSError):
                place.disk.unlock(descriptor)
        close_quietly(place.disk, descriptor)


def check_timeout(timeout: float | None) -> None:
    """Raise ConfigurationError unless this is None or a number of seconds, zero or more."""
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
        # If the lock file was deleted while this process waited, another one may hold the lock file made since.
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
    """Return ``parse(head, fetch)`` of the content of ``path``: all of it from before a change, or all from after.

    It takes no lock and waits for no writer. If the path is replaced while ``parse`` runs, ``parse`` is called again.
    Leftovers of an interrupted change are erased first if the lock is free and the folder is writable.

    Parameters
    ----------
    path : str or path-like
        The file, or a symbolic link to it.
    parse : callable
        Called with the bytes of the head and ``fetch``, a function from the name of a part to its bytes.
    parts_of : callable, optional
        The names of the parts that a head (bytes) refers to; only used to erase leftovers.
    limit : int
        The most bytes that the head, or one part, may have.
    disk : Disk
        The system calls to use.

    Raises
    ------
    StoreError
        When the path cannot be read; the message states why.
    StateFormatError
        When the bytes of a part do not match its name. Errors of ``parse`` are passed on.

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
    # Side files are next to the real file, not next to a link to it.
    place = Place(disk.real_path(Place(path, disk).head), disk)
    # Cleaning up is optional: a failure of it must not fail the read.
    with contextlib.suppress(Exception):
        _erase_leftovers(place, parts_of)
    with explained("read", place.head):
        refuse_lost_head(place)
    return read_settled(place, parse, limit)


def _erase_leftovers(place: Place, parts_of: PartsOf | None) -> None:
    if not has_leftovers(place, parts_of) and place.look(place.head) is not None:
        return
    # Without parts_of, leave them: they show the next process that parts may have to be erased too. And make no lock
    # file: it would belong to a user who may only read, and would shut out the users who write.
    if (parts_of is None and place.look(place.parts) is not None) or place.look(place.lock) is None:
        return
    with holding_lock(place, 0.0):
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
    """Return the only writer of ``path`` while the block runs; leftovers of an interrupted change are erased first.

    Parameters
    ----------
    path : str or path-like
        The file, which need not exist yet; its folder must. A symbolic link is refused.
    parts_of : callable, optional
        The names of the parts that a head (bytes) refers to. Without it, parts on disk are left alone on entry.
    timeout : float, optional
        Seconds to wait for another writer; by default without limit.
    disk : Disk
        The system calls to use.

    Raises
    ------
    BusyError
        When another writer held the lock for longer than ``timeout``.
    StoreError
        When the path cannot be written; the message states why. Nothing was changed.

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
    with holding_lock(place, timeout):
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
    """Remove the lock file if there is no model: it would be the only trace of a change that did not happen.

    A process that waits for this lock notices that the file was removed, and makes a new one.
    """
    with contextlib.suppress(OSError):
        if all(place.look(path) is None for path in (place.head, place.new, place.old, place.parts)):
            place.disk.unlink(place.lock)
