"""The files of one path: their names, the lock of its writers, reading while others replace it, and recovery.

docs/format.md numbers the steps of a change. A lock is one of the kernel, which ends with its holder.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import math
import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple, TypeVar

from erasable.errors import BusyError, ConfigurationError, ErasableError, StateFormatError
from erasable.store._disk import (
    REAL_DISK,
    Disk,
    access_to,
    close_quietly,
    explained,
    facts_or_none,
    failure,
    for_lock,
    grant,
    refusal,
    same_file,
)

_PART = re.compile(r"[0-9a-f]{64}")
_PROBE, _PROBED = ".room", 2**16  # the name of a file that is written to see whether that is possible, and its bytes


class SideFiles(NamedTuple):
    """The hidden names next to a path; each may or may not exist."""

    lock: Path
    new: Path
    old: Path
    parts: Path
    mark: Path


def side_files(path: str | os.PathLike[str]) -> SideFiles:
    """Return the names that a store may use next to ``path``, whether they exist or not.

    ``lock`` is empty and stays as long as the model exists. ``new`` (being written) and ``old`` (being erased) exist
    only during a change, or after one that was interrupted. ``parts`` is a folder that only very large models have.
    ``mark`` says which program manages the file.

    Examples
    --------
    >>> from erasable import store
    >>> [p.name for p in store.side_files("models/m.erasable")]
    ['.m.erasable.lock', '.m.erasable.new', '.m.erasable.old', '.m.erasable.parts', '.m.erasable.mark']
    """
    where = Path(path)
    return SideFiles(*(where.with_name(f".{where.name}.{what}") for what in SideFiles._fields))


class Place:
    """One path on one disk, and the names next to it, as absolute strings."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk) -> None:
        given = os.fsdecode(path)
        if "\0" in given:
            raise refusal("a path cannot hold a zero byte: give another path.", errno.EINVAL)
        # Absolute, so that a change of the working directory half way cannot split a model.
        self.head = os.path.abspath(given)
        self.folder, name = os.path.split(self.head)
        if not name:
            raise refusal(f"{self.head} is a folder: give the path of a file.", errno.EISDIR)
        self.disk = disk
        self.lock, self.new, self.old, self.parts, self.mark = (str(p) for p in side_files(self.head))

    def part(self, name: str) -> str:
        """Return the path of a part; refused unless its name is 64 hexadecimal digits, which no other path is."""
        if not _PART.fullmatch(name):
            raise StateFormatError(f"a part of {self.head} is not named by a SHA-256 in 64 hexadecimal digits.")
        return os.path.join(self.parts, name)

    def part_names(self) -> set[str]:
        """Return the parts on disk, also those that the head does not refer to; other files are ignored."""
        facts = self.look(self.parts)
        if facts is None:
            return set()
        if not stat.S_ISDIR(facts.st_mode):
            raise refusal(f"{self.parts} is not a folder: move it away and run it again.", errno.ENOTDIR)
        return {name for name in self.disk.names(self.parts) if _PART.fullmatch(name)}

    def look(self, path: str) -> os.stat_result | None:
        """Return the facts of a name without following links; None if it does not exist."""
        return facts_or_none(self.disk.facts_of_name, path)

    def check_writable_kind(self) -> os.stat_result | None:
        """Return the facts of the head, or None if it does not exist; refused unless it is a plain file."""
        facts = self.look(self.head)
        if facts is None:
            return None
        if stat.S_ISLNK(facts.st_mode):
            # Replacing the link would leave the file that it leads to as it is, rows and all.
            raise refusal(f"{self.head} is a symbolic link: give the real path to write to it.", errno.ELOOP)
        refuse_special(self.head, facts)
        return facts


def refuse_special(path: str, facts: os.stat_result) -> None:
    """Refuse folders, pipes, sockets and devices."""
    if stat.S_ISDIR(facts.st_mode):
        raise refusal(f"{path} is a folder: give the path of a file.", errno.EISDIR)
    if not stat.S_ISREG(facts.st_mode):
        raise refusal(f"{path} is not a plain file (a pipe, socket or device): give another path.", errno.EINVAL)


def share_lock(place: Place, descriptor: int) -> None:
    """Open the lock file to all users who may change the head, as far as this user is able to."""
    disk = place.disk
    with suppress(OSError):
        head = place.look(place.head)
        if head is not None and stat.S_ISREG(head.st_mode):
            wanted = access_to(disk, place.head).by(for_lock)
            if access_to(disk, descriptor) != wanted:
                grant(disk, descriptor, wanted)


T = TypeVar("T")
Fetch = Callable[[str], bytes]
Parse = Callable[[bytes, Fetch], T]

LIMIT = 1 << 32
_TRIES = 64


class _ReplacedMeanwhileError(Exception):
    """The path was replaced while it was read, so the bytes read may be half erased."""


def read_all(disk: Disk, descriptor: int, path: str, limit: int) -> bytes:
    """Return all bytes of a plain file; refused if there are more than ``limit``."""
    facts = disk.facts(descriptor)
    refuse_special(path, facts)
    size = facts.st_size
    if size > limit:
        raise refusal(f"{path} is larger than expected ({size} bytes, at most {limit}): it is not read.", errno.EFBIG)
    pieces = []
    left = limit
    want = size
    try:
        while piece := disk.read(descriptor, max(1, min(want, left + 1))):
            pieces.append(piece)
            left -= len(piece)
            want = max(want - len(piece), 1 << 16)
            if left < 0:
                raise refusal(f"{path} grows while it is read, beyond {limit} bytes.", errno.EFBIG)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except MemoryError:
        raise refusal(f"{path} does not fit into memory ({size} bytes).", errno.ENOMEM) from None


def read_part(place: Place, name: str, limit: int) -> bytes:
    """Return the bytes of a part; refused if their SHA-256 is not its name."""
    path = place.part(name)
    with explained("read", path):
        try:
            descriptor = place.disk.open_to_read(path)
        except FileNotFoundError:
            message = f"a part of {place.head} is missing: {place.parts} belongs to it and must be copied with it."
            raise refusal(message, errno.ENOENT) from None
        try:
            data = read_all(place.disk, descriptor, path, limit)
        finally:
            close_quietly(place.disk, descriptor)
    if hashlib.sha256(data).hexdigest() != name:
        raise StateFormatError(f"{path} does not hold the bytes that it is named by: it was altered or cut off.")
    return data


def read_once(place: Place, parse: Parse[T], limit: int) -> T:
    """Return ``parse`` of the head and its parts; raises ``_ReplacedMeanwhileError`` if the path was replaced."""
    disk = place.disk
    with explained("read", place.head):
        descriptor = disk.open_to_read(place.head)
    # Kept open to the end, so that no other file can get the same inode number.
    try:
        with explained("read", place.head):
            data = read_all(disk, descriptor, place.head, limit)
            # Zeros are written only after the name leads to a new file. As long as it leads to this one, all is good.
            _refuse_replaced(place, descriptor)
        try:
            return parse(data, lambda name: read_part(place, name, limit))
        except Exception:
            # The parts of this head may have been erased in the meantime.
            _refuse_replaced(place, descriptor)
            raise
    finally:
        close_quietly(disk, descriptor)


def digest_of_head(place: Place) -> str | None:
    """Return the SHA-256 of the head, which is never held as a whole; None if it was replaced meanwhile."""
    disk, sha = place.disk, hashlib.sha256()
    descriptor = disk.open_to_read(place.head)
    try:
        refuse_special(place.head, disk.facts(descriptor))
        while piece := disk.read(descriptor, _ZEROS.nbytes):
            sha.update(piece)
        with contextlib.suppress(_ReplacedMeanwhileError):
            _refuse_replaced(place, descriptor)
            return sha.hexdigest()
    finally:
        close_quietly(disk, descriptor)
    return None


def _refuse_replaced(place: Place, descriptor: int) -> None:
    now = facts_or_none(place.disk.facts, place.head)
    if now is None or not same_file(now, place.disk.facts(descriptor)):
        raise _ReplacedMeanwhileError


def read_settled(place: Place, parse: Parse[T], limit: int) -> T:
    """Return :func:`read_once`, repeated until the path was not replaced meanwhile."""
    for _ in range(_TRIES):
        with contextlib.suppress(_ReplacedMeanwhileError):
            return read_once(place, parse, limit)
    message = f"{place.head} was replaced {_TRIES} times while it was read. Nothing was read: try again."
    raise failure(message, errno.EAGAIN, BusyError)


PartsOf = Callable[[bytes], Iterable[str]]
# Bytes from one fsync to the next. Other programs that call fsync on this disk wait for the bytes before theirs.
_AT_ONCE = 1 << 22
# One small buffer, used again and again: fresh pages for the zeros would cost more than writing them.
_ZEROS = memoryview(bytes(1 << 20))


def write_fully(disk: Disk, descriptor: int, data: memoryview) -> None:
    """Write all bytes, although one call may take fewer; the last ones are not durable yet."""
    while data.nbytes:
        taken = disk.write(descriptor, data[:_AT_ONCE])
        if taken <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = data[taken:]
        if taken == _AT_ONCE:
            disk.fsync(descriptor)


def check_room(folder: str, size: int, *, disk: Disk = REAL_DISK) -> None:
    """Raise StoreError if a file of so many bytes would not fit into a folder, as far as the file system says."""
    with explained("write in", folder):
        free = disk.free(folder)
        if free is not None and free < size:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def check_writable(folder: str, *, durably: bool, disk: Disk = REAL_DISK) -> None:
    """Raise StoreError if a small file cannot be written in a folder; it is removed again.

    Quotas, limits and file systems that became read-only are noticed in no other way. ``durably`` waits for the medium.
    """
    path = os.path.join(folder, _PROBE)
    with explained("write in", folder):
        with suppress(FileNotFoundError):
            disk.unlink(path)
        descriptor = disk.create(path, 0o600)
        try:
            write_fully(disk, descriptor, _ZEROS[:_PROBED])
            if durably:
                disk.fsync(descriptor)
        finally:
            close_quietly(disk, descriptor)
            disk.unlink(path)


def overwrite(disk: Disk, descriptor: int, path: str) -> None:
    """Overwrite a whole file with zeros, durably; the descriptor must be at its start.

    The file keeps its length: cutting it would free blocks that the zeros have not reached yet.
    """
    facts = disk.facts(descriptor)
    refuse_other_names(path, facts)
    left = facts.st_size
    while left > 0:
        size = min(left, _ZEROS.nbytes)
        write_fully(disk, descriptor, _ZEROS[:size])
        left -= size
        if left % _AT_ONCE == 0:
            disk.fsync(descriptor)
    disk.fsync(descriptor)


def refuse_other_names(path: str, facts: os.stat_result) -> None:
    """Refuse to erase a file that has a second name: erasing would destroy the content under that name, too."""
    if facts.st_nlink > 1:
        message = "has another name (a hard link), whose content would be erased with it"
        raise refusal(f"{path} {message}: remove that name and run it again.", errno.EMLINK)


def erase(disk: Disk, path: str, facts: os.stat_result) -> None:
    """Overwrite a file, then remove its name. The caller's next fsync of the folder makes the removal durable."""
    if stat.S_ISREG(facts.st_mode):
        descriptor = disk.open_to_overwrite(path)
        try:
            overwrite(disk, descriptor, path)
        finally:
            close_quietly(disk, descriptor)
    # A link or a pipe under this name holds no rows; the file that a link leads to is not touched.
    disk.unlink(path)


def erase_parts(place: Place, names: Iterable[str]) -> None:
    """Overwrite and remove parts, durably, and their folder if it is empty then."""
    disk = place.disk
    for name in sorted(names):
        path = place.part(name)
        facts = place.look(path)
        if facts is not None:
            erase(disk, path, facts)
    disk.fsync_folder(place.parts)
    if not place.part_names():
        # If it holds other files, the folder stays.
        with contextlib.suppress(OSError):
            disk.rmdir(place.parts)


def has_leftovers(place: Place, parts_of: PartsOf | None) -> bool:
    """Return whether :func:`recover` has something to erase, or a change is under way."""
    if place.look(place.new) is not None or place.look(place.old) is not None:
        return True
    # A loss of power may keep the names of parts and lose the other two; without hard links, ``old`` never exists.
    return _stray_parts(place, place.look(place.head), parts_of) is not None


def refuse_lost_head(place: Place) -> None:
    """Raise StoreError if only the old content of a head exists: no crash causes this, and it may be the only copy."""
    if place.look(place.head) is None and place.look(place.old) is not None:
        message = (
            "it holds the content from before an interrupted change. Rename it to keep it, or delete it, and run it"
        )
        raise refusal(f"{place.head} is missing but {place.old} exists: {message} again.", errno.ENOENT)


def recover(place: Place, parts_of: PartsOf | None) -> None:
    """Erase what an interrupted change left behind; only the holder of the lock may call it.

    The head is not touched: it has the whole content from before the change, or the whole content from after.
    """
    disk = place.disk
    head = place.check_writable_kind()
    new, old = place.look(place.new), place.look(place.old)
    stray = _stray_parts(place, head, parts_of)
    if new is None and old is None and stray is None:
        return
    refuse_lost_head(place)
    # A killed writer may have renamed without the fsync that makes it durable. Zeros written before that
    # fsync could outlive the rename, and the name would then lead to the zeros.
    if head is not None:
        descriptor = disk.open_to_read(place.head)
        try:
            disk.fsync(descriptor)
        finally:
            close_quietly(disk, descriptor)
    disk.fsync_folder(place.folder)
    if stray is not None:
        erase_parts(place, stray)
    for path, facts in ((place.new, new), (place.old, old)):
        if facts is None:
            continue
        if head is not None and same_file(facts, head):
            disk.unlink(path)
        else:
            erase(disk, path, facts)
    disk.fsync_folder(place.folder)


def _stray_parts(place: Place, head: os.stat_result | None, parts_of: PartsOf | None) -> set[str] | None:
    """Return the parts that the head does not refer to; None if there is nothing to clean, not even an empty folder."""
    if place.look(place.parts) is None:
        return None
    names = place.part_names()
    if not names:
        return set() if not place.disk.names(place.parts) else None
    if parts_of is None:
        return None
    if head is None:
        return _abandoned_parts(place, names)
    descriptor = place.disk.open_to_read(place.head)
    try:
        data = read_all(place.disk, descriptor, place.head, LIMIT)
    finally:
        close_quietly(place.disk, descriptor)
    try:
        return (names - set(parts_of(data))) or None
    except ErasableError:
        # A head that cannot be read does not say which parts are needed: keep them all.
        return None


def _abandoned_parts(place: Place, names: set[str]) -> set[str]:
    """Return all parts if an interrupted first write or removal explains the missing head; otherwise refused."""
    if place.look(place.new) is None:
        sizes = [facts.st_size for name in names if (facts := place.look(place.part(name))) is not None]
        # A first write makes its names, and makes them durable, before it writes a byte.
        if any(sizes):
            message = "Put the file back if it was moved, or delete that folder, and run it again."
            raise refusal(f"{place.head} is missing but its parts exist, in {place.parts}. {message}", errno.ENOENT)
    return names


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
