"""What became of requests, with nobody's identity: a journal that cannot be cut short without a sign.

The file ``past`` is a journal, and so is ``anchor``, which has the number and the MAC of every entry that was made in
``past``. So where one of the two was removed, emptied, or replaced by an older one, the other shows it. Where a backup
of both was restored, only a position that was written down elsewhere does: :attr:`Past.position`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import Any

from erasable.errors import ConfigurationError, StoreError
from erasable.store import Contents, Disk, Journal, Record, journal_key, read_journal, read_record, rewrite_journal

_MOST_ANCHORS = 1000  # entries of ``anchor`` that are kept until the next start


class Past:
    """The files ``past`` and ``anchor`` of a folder; for one thread at a time.

    Parameters
    ----------
    folder : str
    key : bytes
        The operator's.
    known : str or None
        A position that the journal has had: see ``position``.
    disk : Disk

    Raises
    ------
    StoreError
        When a file is damaged, or lacks entries that it has had.
    InputError
        When they were written with another key.
    ConfigurationError
        When ``known`` is no position.
    """

    def __init__(self, folder: str, key: bytes, known: str | None, disk: Disk) -> None:
        self._paths = [os.path.join(folder, name) for name in ("past", "anchor")]
        self._keys = [journal_key(key, name) for name in ("past", "anchor")]
        self._disk = disk
        found = self.read()
        anchors = read_journal(self._paths[1], self._keys[1], disk=disk)
        last = [record.content["past"] for record in anchors][-1:]
        if not last and found.at.pieces:
            raise StoreError(f"{self._paths[1]} is missing or empty: put the newest copy of it back.")
        if last and not found.had(*last[0]):
            raise StoreError(f"{self._paths[0]} lacks entries that it has had: put the newest copy of it back.")
        if known is not None and not found.had(*_parsed(known)):
            raise StoreError(
                f"{self._paths[0]} does not hold the position in the setting anchor: it was restored from a backup. "
                "Put the newest ledger back, or erase again who was erased since, and start without anchor."
            )
        if anchors.at.pieces > _MOST_ANCHORS:
            rewrite_journal(self._paths[1], self._keys[1], lambda content: content["past"] == last[0], disk=disk)
        self._anchor = Journal(self._paths[1], self._keys[1], disk=disk)
        try:
            if not last:  # before the first entry, so that there is never one without it
                self._anchor.append([{"past": [0, ""]}])
            #: Whether it was written before records were chained: then ``rewrite`` comes before ``append``.
            self.is_old = found.is_old
            self._journal = None if found.is_old else Journal(self._paths[0], self._keys[0], at=found.at, disk=disk)
        except BaseException:
            self._anchor.close()
            raise

    @property
    def path(self) -> str:
        """Of the journal."""
        return self._paths[0]

    @property
    def has_entries(self) -> bool:
        """Whether a chained entry was ever made in it."""
        return self._journal is not None and self._journal.at.pieces > 0

    @property
    def position(self) -> str:
        """How far the journal has come: a number that only grows, a hyphen and a MAC. It names nobody."""
        return "0-" if self._journal is None else f"{self._journal.at.pieces}-{self._journal.at.mac}"

    def read(self) -> Contents:
        """All records, checked."""
        return read_journal(self._paths[0], self._keys[0], disk=self._disk)

    def append(self, records: Iterable[Mapping[str, Any]]) -> list[Record]:
        """These records are durable on return; see ``Journal.append``."""
        if self._journal is None:
            raise StoreError(f"{self.path} is not open.")
        places = self._journal.append(records)
        with suppress(StoreError):  # an anchor that lags is none the worse: the next one says more
            self._drop_anchor()
        return places

    def text_of(self, place: Record) -> str:
        """The text of a receipt at a place that ``append`` or ``read`` gave."""
        return str(read_record(self.path, place, disk=self._disk)["text"])

    def rewrite(self, keep: Callable[[dict[str, Any]], bool] = lambda content: True) -> None:
        """Erase all other records; durable on return. ``StoreError`` when that failed."""
        if self._journal is not None:
            self._drop_anchor()  # it is the last position that a rewritten journal knows of
            self._journal.close()
        try:
            rewrite_journal(self.path, self._keys[0], keep, disk=self._disk)
            self.is_old = False
        finally:
            if not self.is_old:
                self._journal = Journal(self.path, self._keys[0], disk=self._disk)
        with suppress(StoreError):
            self._drop_anchor()

    def close(self) -> None:
        """No more records."""
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
