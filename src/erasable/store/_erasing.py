"""Bytes that leave the disk: zeros over a file before its name goes, and what a crash left behind."""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections.abc import Callable, Iterable

from erasable.errors import ErasableError
from erasable.store._disk import Disk, close_quietly, same_file
from erasable.store._failures import refusal
from erasable.store._names import Place
from erasable.store._reading import LIMIT, read_all

PartsOf = Callable[[bytes], Iterable[str]]

# Bytes from one fsync to the next: whoever makes another file of that disk durable waits for what lies before it.
_AT_ONCE = 1 << 22
# One small buffer, used again and again: fresh pages for the zeros would cost more than writing them.
_ZEROS = memoryview(bytes(1 << 20))


def write_fully(disk: Disk, descriptor: int, data: memoryview) -> None:
    """All of the bytes written, the last of them not durable yet: the system may take fewer at a time."""
    while data.nbytes:
        taken = disk.write(descriptor, data[:_AT_ONCE])
        if taken <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = data[taken:]
        if taken == _AT_ONCE:
            disk.fsync(descriptor)


def overwrite(disk: Disk, descriptor: int, path: str) -> None:
    """Zeros over the whole of a file, made durable; the descriptor must stand at its start.

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
    """Refuse to erase a file that has a second name: the content of that one would go too."""
    if facts.st_nlink > 1:
        message = "has another name (a hard link), whose content would be erased with it"
        raise refusal(f"{path} {message}: remove that name and run it again.", errno.EMLINK)


def erase(disk: Disk, path: str, facts: os.stat_result) -> None:
    """A file overwritten, then its name removed; that this is durable is for the caller's next folder fsync."""
    if stat.S_ISREG(facts.st_mode):
        descriptor = disk.open_to_overwrite(path)
        try:
            overwrite(disk, descriptor, path)
        finally:
            close_quietly(disk, descriptor)
    # A link or a pipe under one of our names holds nothing of ours; what it leads to is not touched.
    disk.unlink(path)


def erase_parts(place: Place, names: Iterable[str]) -> None:
    """Parts overwritten and removed, durably; their folder too, once nothing is in it."""
    disk = place.disk
    for name in sorted(names):
        path = place.part(name)
        facts = place.look(path)
        if facts is not None:
            erase(disk, path, facts)
    disk.fsync_folder(place.parts)
    if not place.part_names():
        # Something that is not ours may be in there: then the folder stays.
        with contextlib.suppress(OSError):
            disk.rmdir(place.parts)


def has_leftovers(place: Place, parts_of: PartsOf | None) -> bool:
    """Whether there is something for :func:`recover` to erase, or a change under way."""
    if place.look(place.new) is not None or place.look(place.old) is not None:
        return True
    # A loss of power may have kept the names of parts and lost the other two; and there may be no hard links.
    return _stray_parts(place, place.look(place.head), parts_of) is not None


def refuse_lost_head(place: Place) -> None:
    """Ask the user, where there is no head, but what it held before: no crash leads there, and it may be all there is.

    Raises
    ------
    StoreError
    """
    if place.look(place.head) is None and place.look(place.old) is not None:
        message = "it holds what was there before an interrupted change. Rename it to keep it, or delete it, and run it"
        raise refusal(f"{place.head} is missing but {place.old} is there: {message} again.", errno.ENOENT)


def recover(place: Place, parts_of: PartsOf | None) -> None:
    """What an interrupted change left behind, erased; for the holder of the lock only.

    What the head holds is not touched: it is wholly the content from before or wholly that from after.
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
    """Parts that the head does not refer to; None when there is nothing to clean, not even an empty folder."""
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
    """All parts, where a first write or a removal that was cut short explains that there is no head; else refused."""
    if place.look(place.new) is None:
        sizes = [facts.st_size for name in names if (facts := place.look(place.part(name))) is not None]
        # A first write makes its names, and makes them durable, before it writes a byte.
        if any(sizes):
            message = "Put the file back if it was moved, or delete that folder, and run it again."
            raise refusal(f"{place.head} is missing but its parts are there, in {place.parts}. {message}", errno.ENOENT)
    return names
