"""The files of a ledger: ``past`` and ``anchor``, which name nobody, and ``open-N``, which hold identities.

``past`` has the outcomes of requests. ``anchor`` has the number and the MAC of every entry made in ``past``, so if one
of the two is removed, emptied or replaced by an older copy, the other shows it. If a backup of both is restored, only a
position written down elsewhere shows it: :attr:`PastJournal.position`.

Each ``open-N`` has the requests accepted between two commits, and is erased once all of them are settled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from typing import Any

from erasable.errors import BusyError, ConfigurationError, StoreError
from erasable.store import (
    Contents,
    Disk,
    Journal,
    Position,
    Record,
    journal_key,
    locked,
    read_journal,
    read_record,
    rewrite_journal,
)

_MOST_ANCHORS = 1000  # entries of ``anchor`` that are kept until the next start
_OPEN = re.compile(r"(?:open-([0-9]{8,})|\.open-([0-9]{8,})\.(?:new|old|lock))")


def lock_folder(folder: str, disk: Disk) -> int:
    """A descriptor that locks a folder while it is open; the folder is created if needed.

    Raises ``BusyError`` if another process holds it, ``StoreError`` if it cannot be created or written to.
    """
    try:
        with suppress(FileExistsError):
            disk.mkdir(folder)
            disk.fsync_folder(os.path.dirname(folder))
        lock = disk.open_lock(os.path.join(folder, "lock"))
    except OSError as error:
        raise StoreError(f"{folder} cannot hold requests: {error.strerror}. Give another folder.") from error
    if not disk.lock(lock, wait=False):
        disk.close(lock)
        raise BusyError(f"{folder} is in use by another process: stop that one first.")
    return lock


class PastJournal:
    """The files ``past`` and ``anchor`` of a folder; for one thread at a time.

    ``known`` is a position that the journal must have had. Raises ``StoreError`` if a file is damaged or lacks entries
    that it has had, ``InputError`` if it was written with another key, ``ConfigurationError`` if ``known`` is no
    position.
    """

    def __init__(self, folder: str, key: bytes, known: str | None, disk: Disk) -> None:
        self.path, anchor = (os.path.join(folder, name) for name in ("past", "anchor"))
        self._key, anchor_key = journal_key(key, "past"), journal_key(key, "anchor")
        self._disk = disk
        self._found: Contents | None = read_journal(self.path, self._key, disk=disk)
        found = self._found
        anchors = read_journal(anchor, anchor_key, disk=disk)
        last = [record.content["past"] for record in anchors][-1:]
        if not last and found.at.pieces:
            raise StoreError(f"{anchor} is missing or empty: put the newest copy of it back.")
        if last and not found.had(*last[0]):
            raise StoreError(f"{self.path} lacks entries that it has had: put the newest copy of it back.")
        if known is not None and not found.had(*_parsed(known)):
            raise StoreError(
                f"{self.path} does not hold the position in the setting anchor: it was restored from a backup. "
                "Put the newest ledger back, or erase again who was erased since, and start without anchor."
            )
        if anchors.at.pieces > _MOST_ANCHORS:
            rewrite_journal(anchor, anchor_key, lambda content: content["past"] == last[0], disk=disk)
        self._anchor = Journal(anchor, anchor_key, disk=disk)
        try:
            if not last:  # before the first entry, so that no entry is ever without an anchor
                self._anchor.append([{"past": [0, ""]}])
            #: Whether it was written before records were chained: then ``rewrite`` comes before ``append``.
            self.is_old = found.is_old
            self._journal = None if found.is_old else Journal(self.path, self._key, at=found.at, disk=disk)
        except BaseException:
            self._anchor.close()
            raise

    @property
    def has_entries(self) -> bool:
        """Whether a chained entry was ever made in it."""
        return self._journal is not None and self._journal.at.pieces > 0

    @property
    def at(self) -> Position:
        """The end of the journal."""
        return Position() if self._journal is None else self._journal.at

    @property
    def position(self) -> str:
        """The position of the journal: a number that only grows, a hyphen and a MAC. It names nobody."""
        return "0-" if self._journal is None else f"{self._journal.at.pieces}-{self._journal.at.mac}"

    def read(self) -> Contents:
        """All records, checked."""
        found, self._found = self._found, None  # the first time, what the constructor has checked
        return found or read_journal(self.path, self._key, disk=self._disk)

    def append(self, records: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Make records durable; see ``Journal.append``."""
        if self._journal is None:
            raise StoreError(f"{self.path} is not open.")
        places = self._journal.append(records)
        with suppress(StoreError):  # an anchor that lags does no harm: the next one covers it
            self._drop_anchor()
        return places

    def record(self, place: Record) -> dict[str, Any]:
        """The record at a place that ``append`` or ``read`` gave."""
        return read_record(self.path, place, disk=self._disk)

    def rewrite(self, keep: Callable[[dict[str, Any]], bool] = lambda content: True) -> None:
        """Erase all other records; durable on return. ``StoreError`` if that failed."""
        if self._journal is not None:
            self._drop_anchor()  # a rewritten journal knows no earlier position
            self._journal.close()
        try:
            rewrite_journal(self.path, self._key, keep, disk=self._disk)
            self.is_old = False
        finally:
            if not self.is_old:
                self._journal = Journal(self.path, self._key, disk=self._disk)
        with suppress(StoreError):
            self._drop_anchor()

    def close(self) -> None:
        """Close both files."""
        for journal in (self._journal, self._anchor):
            if journal is not None:
                journal.close()

    def _drop_anchor(self) -> None:
        if self._journal is not None:
            self._anchor.append([{"past": list(self._journal.at[:2])}])


def _parsed(position: str) -> tuple[int, str]:
    pieces, hyphen, mac = position.strip().partition("-")
    if not hyphen or not pieces.isascii() or not pieces.isdigit():
        raise ConfigurationError("anchor must be a position as /v1/health shows it: a number, a hyphen, digits.")
    return int(pieces), mac


class OpenJournals:
    """The files ``open-N`` of a folder, and which requests are in which; for the holder of the ledger's lock.

    A file is *stale* if it may hold more than these requests: some were settled, moved or refused.
    """

    def __init__(self, folder: str, key: bytes, disk: Disk) -> None:
        self._folder, self._key, self._disk = folder, key, disk
        self._names: dict[int, dict[str, None]] = {}  # the keys of the requests in each file, in order
        self._number_of: dict[str, int] = {}  # the file of each request
        self._stale: set[int] = set()
        self._journal: Journal | None = None  # of the last epoch, while it takes requests
        self.any_old = False  # whether a file that was found is from before records were chained

    def found(self) -> Iterator[dict[str, Any]]:
        """The records of all files that an earlier process left, in order. Each of these files is stale.

        Raises ``StoreError`` or ``InputError`` if a file is damaged or was written with another key.
        """
        names = filter(None, map(_OPEN.fullmatch, self._disk.names(self._folder)))
        for number in sorted({int(match[1] or match[2]) for match in names}):
            self._names[number] = {}
            self._stale.add(number)
            path, key = self._file(number)
            contents = read_journal(path, key, disk=self._disk)
            self.any_old = self.any_old or contents.is_old
            for record in contents:
                yield record.content

    def hold(self, name: str) -> None:
        """Note that the request found or put last is in the last file, and needed in no other."""
        if (number := self._number_of.pop(name, None)) in self._names:
            del self._names[number][name]
        last = self._number_of[name] = next(reversed(self._names))
        self._names[last][name] = None

    def put(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Make records of requests, by their keys, durable.

        On ``StoreError`` half of it may be written: the file is stale and takes no more.
        """
        if self._journal is None:
            number = max(self._names, default=0) + 1
            path, key = self._file(number)
            self._journal = Journal(path, key, at=Position(), disk=self._disk)
            self._names[number] = {}
        try:
            self._journal.append(records.values())
        except StoreError:
            self._stale.add(max(self._names))
            self.close()
            raise
        for name in records:
            self.hold(name)

    def close(self) -> None:
        """End the epoch: the next ``put`` begins another file."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def drop(self, name: str) -> None:
        """Note that a request is settled: its file is stale."""
        if (number := self._number_of.pop(name, None)) in self._names:
            del self._names[number][name]
            self._stale.add(number)

    @property
    def any_stale(self) -> bool:
        """Whether a file holds more than open requests."""
        return bool(self._stale)

    def doomed(self, needed: Collection[str]) -> dict[int, list[str]]:
        """The files to erase, each with the needed requests that have to be moved first."""
        taking = max(self._names) if self._journal is not None else None
        left = {number: [name for name in names if name in needed] for number, names in self._names.items()}
        return {
            number: kept
            for number, kept in sorted(left.items())
            if number != taking and (number in self._stale or len(kept) < len(self._names[number]) or not kept)
        }

    def erase(self, number: int) -> None:
        """Erase a file and its bytes. This takes long and needs no lock."""
        with locked(self._file(number)[0], disk=self._disk) as writer:
            if writer.exists():
                writer.remove()

    def forget(self, number: int) -> None:
        """Note that a file was erased."""
        del self._names[number]
        self._stale.discard(number)

    def _file(self, number: int) -> tuple[str, bytes]:
        """The path and the key of a file."""
        name = f"open-{number:08d}"
        return os.path.join(self._folder, name), journal_key(self._key, name)
