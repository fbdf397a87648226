"""What was accepted between two commits, with identities: a journal for each such epoch, erased when it is over."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from erasable.errors import StoreError
from erasable.store import Disk, Journal, Position, journal_key, locked, read_journal

_FILE = re.compile(r"(?:open-([0-9]{8,})|\.open-([0-9]{8,})\.(?:new|old|lock))")


class Epochs:
    """The files ``open-N`` of a folder, and which requests are in which; for whoever holds the ledger's turn.

    A file is *stale* when it may hold more than these requests: what was settled, moved or refused.
    """

    def __init__(self, folder: str, key: bytes, disk: Disk) -> None:
        self._folder, self._key, self._disk = folder, key, disk
        self._names: dict[int, set[str]] = {}
        self._stale: set[int] = set()
        self._journal: Journal | None = None  # of the last epoch, while it takes requests
        self.any_old = False  # whether a file that was found is from before records were chained

    def found(self) -> Iterator[dict[str, Any]]:
        """The records of all files that an earlier process left, in order; each of these files is stale.

        Raises
        ------
        StoreError, InputError
            When a file is damaged, or was written with another key: see ``read_journal``.
        """
        names = filter(None, map(_FILE.fullmatch, self._disk.names(self._folder)))
        for number in sorted({int(match[1] or match[2]) for match in names}):
            self._names[number] = set()
            self._stale.add(number)
            contents = read_journal(self._path(number), self._key_of(number), disk=self._disk)
            self.any_old = self.any_old or contents.is_old
            for record in contents:
                yield record.content

    def hold(self, name: str) -> None:
        """The request of the record that was found or put last is in the last file, and needed in no other."""
        for names in self._names.values():
            names.discard(name)
        self._names[max(self._names)].add(name)

    def put(self, records: Mapping[str, Mapping[str, Any]]) -> None:
        """Records of requests, by their ids, are durable on return.

        Raises
        ------
        StoreError
            Half of it may be there: the file is stale, and takes no more.
        """
        if self._journal is None:
            number = max(self._names, default=0) + 1
            self._journal = Journal(self._path(number), self._key_of(number), at=Position(), disk=self._disk)
            self._names[number] = set()
        try:
            self._journal.append(records.values())
        except StoreError:
            self._stale.add(max(self._names))
            self.close()
            raise
        for name in records:
            self.hold(name)

    def close(self) -> None:
        """What is put next begins another file."""
        if self._journal is not None:
            self._journal.close()
            self._journal = None

    def drop(self, name: str) -> None:
        """A request is settled: its file is stale."""
        for number, names in self._names.items():
            if name in names:
                names.discard(name)
                self._stale.add(number)

    def doomed(self, needed: Collection[str]) -> dict[int, list[str]]:
        """Files to be erased, and which of the requests that are needed would go with them."""
        taking = max(self._names) if self._journal is not None else None
        left = {number: [name for name in needed if name in names] for number, names in self._names.items()}
        return {
            number: kept
            for number, kept in sorted(left.items())
            if number != taking and (number in self._stale or len(kept) < len(self._names[number]) or not kept)
        }

    def erase(self, number: int) -> None:
        """A file and its bytes are gone on return. Nobody holds the turn meanwhile, and nobody needs to."""
        with locked(self._path(number), disk=self._disk) as writer:
            if writer.exists():
                writer.remove()

    def forget(self, number: int) -> None:
        """A file was erased."""
        del self._names[number]
        self._stale.discard(number)

    def _path(self, number: int) -> str:
        return os.path.join(self._folder, f"open-{number:08d}")

    def _key_of(self, number: int) -> bytes:
        return journal_key(self._key, f"open-{number:08d}")
