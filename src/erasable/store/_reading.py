"""Reading without a lock: what a path holds, whole, while others may be replacing it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
from collections.abc import Callable
from typing import TypeVar

from erasable.errors import BusyError, StateFormatError
from erasable.store._disk import Disk, close_quietly, facts_or_none, same_file
from erasable.store._failures import explained, failure, refusal
from erasable.store._names import Place, refuse_special

T = TypeVar("T")
Fetch = Callable[[str], bytes]
Parse = Callable[[bytes, Fetch], T]

LIMIT = 1 << 32
_TRIES = 64


class _ReplacedMeanwhileError(Exception):
    """The path leads to another file by now: what was read may be half erased."""


def read_all(disk: Disk, descriptor: int, path: str, limit: int) -> bytes:
    """All bytes of a plain file, provided that they are at most ``limit``."""
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
    """The bytes of a part, provided that they are those that its name stands for."""
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
    """What ``parse`` makes of the head and its parts, or the sign that they were replaced meanwhile."""
    disk = place.disk
    with explained("read", place.head):
        descriptor = disk.open_to_read(place.head)
    # Held to the end: as long as it is, no other file can get the same inode number.
    try:
        with explained("read", place.head):
            data = read_all(disk, descriptor, place.head, limit)
            # The zeros come only after the name has moved on, so a name that has not vouches for all bytes.
            _refuse_replaced(place, descriptor)
        try:
            return parse(data, lambda name: read_part(place, name, limit))
        except Exception:
            # The parts of this head may have been erased under our hands.
            _refuse_replaced(place, descriptor)
            raise
    finally:
        close_quietly(disk, descriptor)


def _refuse_replaced(place: Place, descriptor: int) -> None:
    now = facts_or_none(place.disk.facts, place.head)
    if now is None or not same_file(now, place.disk.facts(descriptor)):
        raise _ReplacedMeanwhileError


def read_settled(place: Place, parse: Parse[T], limit: int) -> T:
    """As :func:`read_once`, again and again until no replacement came in between."""
    for _ in range(_TRIES):
        with contextlib.suppress(_ReplacedMeanwhileError):
            return read_once(place, parse, limit)
    message = f"{place.head} was replaced {_TRIES} times while it was read. Nothing was read: try again."
    raise failure(message, errno.EAGAIN, BusyError)
