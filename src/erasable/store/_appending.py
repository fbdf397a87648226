"""A journal: records appended to a file, each durable before it counts. One that was cut short is none.

A record is a line: the first 16 hexadecimal digits of the SHA-256 of a JSON object, a space, the object. A line break
comes before it too, so that what a crash or a full disk cut short spoils no other.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any, NamedTuple

from erasable.store._disk import REAL_DISK, Disk, close_quietly
from erasable.store._erasing import write_fully
from erasable.store._failures import explained
from erasable.store._names import Place
from erasable.store._opening import locked
from erasable.store._reading import LIMIT, read_all

_PRIVATE = 0o600


class Record(NamedTuple):
    """A record, and where in the file its line begins and ends."""

    start: int
    end: int
    content: dict[str, Any]


class Journal:
    """A file that records are appended to, by one thread of one process at a time; made where it is not there.

    Erasing it is for ``locked(path)`` and ``remove``, once it is closed.

    Raises
    ------
    StoreError
        When it cannot be opened, or made durable.
    """

    def __init__(self, path: str | os.PathLike[str], *, disk: Disk = REAL_DISK) -> None:
        self._place, self._disk = Place(path, disk), disk
        self.path = self._place.head
        with explained("open", self.path):
            try:
                self._descriptor = disk.create(self.path, _PRIVATE)
            except FileExistsError:
                self._place.check_writable_kind()
                self._descriptor = disk.open_to_append(self.path)
            try:
                disk.fsync_folder(self._place.folder)
                self.size = disk.facts(self._descriptor).st_size
            except BaseException:
                self.close()
                raise

    def append(self, contents: Iterable[Mapping[str, Any]]) -> list[tuple[int, int]]:
        """These records are durable once this returns; where each line begins and ends.

        Raises
        ------
        StoreError
            None of them counts for whoever asked. Some may be found by whoever reads the file next.
        """
        lines = [_line(content) for content in contents]
        with explained("append to", self.path, "Nothing of it counts."):
            try:
                write_fully(self._disk, self._descriptor, memoryview(b"".join(lines)))
                self._disk.fsync(self._descriptor)
            finally:
                before, self.size = self.size, self._disk.facts(self._descriptor).st_size
        ends = [before]
        for line in lines:
            ends.append(ends[-1] + len(line))
        return list(pairwise(ends))

    def close(self) -> None:
        """No more records: whoever appends one is refused, whatever file has the number of the descriptor by then."""
        if self._descriptor >= 0:
            close_quietly(self._disk, self._descriptor)
        self._descriptor = -1


def read_journal(path: str | os.PathLike[str], *, disk: Disk = REAL_DISK) -> Iterator[Record]:
    """The records of a file, in the order in which they were appended; none where there is no file.

    Raises
    ------
    StoreError
        When it cannot be read.
    """
    place = Place(path, disk)
    with explained("read", place.head):
        try:
            descriptor = disk.open_to_read(place.head)
        except FileNotFoundError:
            return
        try:
            data = read_all(disk, descriptor, place.head, LIMIT)
        finally:
            close_quietly(disk, descriptor)
    end = 0
    for line in data.splitlines(keepends=True):
        start, end = end, end + len(line)
        if (content := _content(line)) is not None:
            yield Record(start, end, content)


def rewrite_journal(
    path: str | os.PathLike[str], keep: Callable[[dict[str, Any]], bool], *, disk: Disk = REAL_DISK
) -> None:
    """The file holds the records that are to be kept, durably, and the others are erased, once this returns.

    Nobody may have it open to append.

    Raises
    ------
    StoreError
        As in ``Writer.replace``.
    """
    with locked(path, disk=disk) as writer:
        writer.replace([_line(record.content) for record in read_journal(path, disk=disk) if keep(record.content)])


def read_record(path: str | os.PathLike[str], start: int, end: int, *, disk: Disk = REAL_DISK) -> dict[str, Any] | None:
    """The record between two places of a file; None where there is none."""
    place = Place(path, disk)
    with explained("read", place.head):
        descriptor = disk.open_to_read(place.head)
        try:
            return _content(disk.read_at(descriptor, end - start, start))
        finally:
            close_quietly(disk, descriptor)


def _line(content: Mapping[str, Any]) -> bytes:
    text = json.dumps(content, separators=(",", ":"), allow_nan=False).encode()
    return b"\n" + hashlib.sha256(text).hexdigest()[:16].encode() + b" " + text + b"\n"


def _content(line: bytes) -> dict[str, Any] | None:
    seal, _, text = line.strip(b"\n").partition(b" ")
    if hashlib.sha256(text).hexdigest()[:16].encode() != seal:
        return None
    with suppress(ValueError):
        content = json.loads(text)
        return content if isinstance(content, dict) else None
    return None
