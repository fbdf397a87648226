"""A journal: records appended to a file, each durable before it counts, in a chain that shows every later change.

All records of one call are one *piece*: the byte 0x1E, a MAC, the number of the piece, the place where the piece before
it ends, then each record as a JSON object, separated by 0x1F, and a line break. The MAC is an HMAC, under the caller's
key, of the MAC of the piece before it, the place where this one begins, and its text. So without the key no piece can
be added, altered, moved, or removed from the middle. A caller who writes down how many pieces there were
(:class:`Position`) also notices when some were removed from the end.

A piece that a crash or a full disk cut short has no line break at its end, or zeros where blocks did not reach the
medium. Readers skip it, and the next piece follows the one before it. Any other damage is refused.

Files older than this format have a line for each record: 16 digits of its SHA-256, a space, the object. They can be
read but not appended to; :func:`rewrite_journal` turns them into journals.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from erasable.errors import InputError, StoreError
from erasable.store._disk import REAL_DISK, Disk, close_quietly, explained, facts_or_none, same_file
from erasable.store._files import Place, refuse_special, write_fully
from erasable.store._writing import locked

_PRIVATE = 0o600
_BEGIN, _BETWEEN, _END = b"\x1e", b"\x1f", b"\n"
_TOGETHER = 1000  # records in a piece of a file that is rewritten
_WINDOW = 2**22  # bytes of a file that are in memory while it is read
_MAC = 16  # bytes of a MAC
_REWRITTEN = b'{"rewritten":'


class Record(NamedTuple):
    """A record, and the bytes of the file that hold it, with their checksum: see :func:`read_record`."""

    start: int
    end: int
    checksum: bytes
    content: dict[str, Any]


class Position(NamedTuple):
    """The end of a journal: the number of pieces, the MAC of the last one, where it ends, and the size of the file."""

    pieces: int = 0
    mac: str = ""
    end: int = 0
    size: int = 0


def journal_key(key: bytes, name: str) -> bytes:
    """Return the key of one of several journals of an owner, so that none can be taken for another."""
    return hmac.digest(key, f"the journal {name}".encode(), "sha256")


class _FileBytes:
    """The bytes of a file, of which one window is in memory at a time. The file must not change meanwhile."""

    def __init__(self, path: str, disk: Disk) -> None:
        self._path, self._disk, self._first, self._window = path, disk, 0, b""
        self._size = len(self._read(0))

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, cut: slice) -> bytes:
        start, stop, _ = cut.indices(self._size)
        if not (self._first <= start and stop <= self._first + len(self._window)):
            self._read(start, stop - start)
        return self._window[start - self._first : max(start, stop) - self._first]

    def find(self, byte: bytes, start: int) -> int:
        """The first place of a byte from ``start`` on; -1 if it does not occur."""
        while start < self._size:
            if not self._first <= start < self._first + len(self._window):
                self._read(start)
            if (found := self._window.find(byte, start - self._first)) >= 0:
                return self._first + found
            start = self._first + max(1, len(self._window))
        return -1

    def startswith(self, prefix: bytes, start: int = 0) -> bool:
        """Whether these bytes are at this place."""
        return self[start : start + len(prefix)] == prefix

    def _read(self, start: int, least: int = 0) -> range:
        """Move the window; returns the places of all bytes of the file."""
        with explained("read", self._path):
            try:
                descriptor = self._disk.open_to_read(self._path)
            except FileNotFoundError:
                return range(0)
            try:
                facts = self._disk.facts(descriptor)
                refuse_special(self._path, facts)
                self._first, self._window = start, self._disk.read_at(descriptor, max(least, _WINDOW), start)
                while len(self._window) < least and (
                    more := self._disk.read_at(descriptor, least - len(self._window), start + len(self._window))
                ):
                    self._window += more
            finally:
                close_quietly(self._disk, descriptor)
        return range(facts.st_size)


class Contents:
    """The records of a journal, in order, once all of it was checked. They are read from the file when they are needed.

    Attributes
    ----------
    at : Position
        The end of it; no pieces where the file does not exist or is empty.
    is_old : bool
        Whether the file was written before records were chained.
    """

    def __init__(self, path: str, key: bytes, disk: Disk) -> None:
        self._data = _FileBytes(path, disk)
        self._starts, self._ends = array("Q"), array("Q")  # of the records of each piece
        self._macs, self._first = bytearray(), 1  # of all pieces, and the number of the first
        self._before: tuple[int, str] | None = None  # the last piece before the file was rewritten
        self.at, self.is_old = Position(size=len(self._data)), self._data.startswith(_END)
        if self.is_old:
            self._check_old(path)
        else:
            self._check(path, key)

    def __iter__(self) -> Iterator[Record]:
        return self.since(0)

    def since(self, place: int) -> Iterator[Record]:
        """The records of all pieces that begin at or after this place of the file."""
        for start, end in zip(self._starts, self._ends, strict=True):
            if start < place:
                continue
            for text in self._data[start:end].split(_BETWEEN):
                if not text.startswith(_REWRITTEN):
                    yield Record(start, start + len(text), _checksum(text), json.loads(text))
                start += len(text) + 1

    def had(self, pieces: int, mac: str) -> bool:
        """Return whether the journal once ended with this piece, or may have, if it was rewritten since."""
        before = self._before
        if pieces >= self._first:
            return self.holds(pieces, mac)
        return before is None or before[0] != pieces or before[1] == mac

    def holds(self, pieces: int, mac: str) -> bool:
        """Return whether the file holds this piece."""
        at = _MAC * (pieces - self._first)
        return self._first <= pieces <= self.at.pieces and self._macs[at : at + _MAC].hex() == mac

    def close(self) -> None:
        """Free the records; afterwards only ``had`` and ``at`` can be used."""
        self._starts, self._ends = array("Q"), array("Q")

    def _check(self, path: str, key: bytes) -> None:
        # A piece follows the last one or, where appending that failed for its writer, the one before.
        last = before = self.at
        odd: list[bytes] = []  # what has come since the last piece
        start, data = 0, self._data
        while start < len(data):
            stop = data.find(_BEGIN, start + 1)
            stop = len(data) if stop < 0 else stop
            line, ended, rest = data[start:stop].partition(_END)
            followed = _followed(key, line, start, last, before)
            if followed is None and not ended:  # a line break that was altered spoils no record
                line = line[:-1]
                followed = _followed(key, line, start, last, before)
            if followed is None:
                odd.append(data[start:stop])
            else:
                if followed == before and self._starts:
                    self._starts.pop(), self._ends.pop()
                    del self._macs[-_MAC:]
                mac, number, _, texts = line[1:].split(b" ", 3)
                before, last = followed, Position(int(number), mac.decode(), start + len(line) + 1, len(data))
                self._first = self._first if self._starts else last.pieces
                self._starts.append(start + len(line) - len(texts))
                self._ends.append(start + len(line))
                self._macs += bytes.fromhex(last.mac)
                odd = [rest] if rest else []
            start = stop
        self.at = last
        if not all(map(_is_torn, odd)):
            if not self._starts:
                raise InputError(f"{path} was written with another key, or is damaged: give that key, or a whole copy.")
            raise StoreError(
                f"{path} is damaged after byte {last.end:,}: {last.pieces:,} entries before that are whole, and what "
                "follows is not what was written. Nothing was changed: put a whole copy of the file back."
            )
        if self._starts:
            start, end = self._starts[0], self._ends[0]
            if data.startswith(_REWRITTEN, start):
                number, earlier = json.loads(data[start:end].split(_BETWEEN, 1)[0])["rewritten"]
                self._before = number, earlier

    def _check_old(self, path: str) -> None:
        start = 0
        for line in self._data[:].split(_END):
            seal, _, text = line.partition(b" ")
            if _old_seal(text) == seal:
                self._starts.append(start + len(seal) + 1)
                self._ends.append(start + len(line))
            else:  # cut short, unless it ends as a record does, or its last byte alone was altered
                is_last = start + len(line) == len(self._data)
                ends = line.endswith(b"}") and not is_last
                ends = ends or seal in (_old_seal(text[:-1]), _old_seal(text[:-1] + b"}"))
                if ends and not _is_torn(line + _END):
                    raise StoreError(
                        f"{path} is damaged at byte {start:,}. Nothing was changed: put a whole copy back."
                    )
            start += len(line) + 1


class Journal:
    """A file that records are appended to, by one thread of one process at a time; created if it does not exist.

    To erase it, close it and call ``remove`` of ``locked(path)``.

    Parameters
    ----------
    path : str or path-like
    key : bytes
        For the MACs: see :func:`journal_key`.
    at : Position, optional
        The end of the journal as it was last read or written, so that it is not read again. The file must be that one.

    Raises
    ------
    StoreError
        When it cannot be opened or made durable, is damaged, or is not as ``at`` says.
    InputError
        When it was written with another key.
    """

    def __init__(
        self, path: str | os.PathLike[str], key: bytes, *, at: Position | None = None, disk: Disk = REAL_DISK
    ) -> None:
        self._place, self._key, self._disk = Place(path, disk), key, disk
        self.path = self._place.head
        if at is None:
            found = read_journal(self.path, key, disk=disk)
            if found.is_old:
                raise StoreError(f"{self.path} has an old format: rewrite it first.")
            at = found.at
        self.at = at
        with explained("open", self.path):
            try:
                self._descriptor = disk.create(self.path, _PRIVATE) if not at.size else disk.open_to_append(self.path)
            except FileExistsError:
                self._place.check_writable_kind()
                self._descriptor = disk.open_to_append(self.path)
            try:
                disk.fsync_folder(self._place.folder)
                self._refuse_changed()
            except BaseException:
                self.close()
                raise

    def append(self, contents: Iterable[Mapping[str, Any]]) -> list[Record]:
        """Append records durably, and return where each of them is.

        Raises
        ------
        StoreError
            When none of them counts for the caller. The next reader may find all of them, or none.
        """
        taken = list(contents)
        with explained("append to", self.path, "Nothing of it counts."):
            self._refuse_changed()
            start = self.at.size
            piece, mac = _piece(self._key, self.at, start, texts := list(map(_text, taken)))
            try:
                write_fully(self._disk, self._descriptor, memoryview(piece))
                self._disk.fsync(self._descriptor)
            except BaseException:
                self.at = self.at._replace(size=self._disk.facts(self._descriptor).st_size)
                raise
        self.at = Position(self.at.pieces + 1, mac, start + len(piece), start + len(piece))
        places, end = [], self.at.end - 1
        for text, content in zip(reversed(texts), reversed(taken), strict=True):
            places.append(Record(end - len(text), end, _checksum(text), dict(content)))
            end -= len(text) + 1
        return places[::-1]

    def close(self) -> None:
        """Close the file: appending is refused from now on."""
        if self._descriptor >= 0:
            close_quietly(self._disk, self._descriptor)
        self._descriptor = -1

    def _refuse_changed(self) -> None:
        facts, named = self._disk.facts(self._descriptor), facts_or_none(self._disk.facts_of_name, self.path)
        if facts.st_size != self.at.size or named is None or not same_file(facts, named):
            raise StoreError(f"{self.path} was changed by another program. Put it back as it was, and start again.")


def read_journal(path: str | os.PathLike[str], key: bytes, *, disk: Disk = REAL_DISK) -> Contents:
    """Return the records of a file, in the order in which they were appended; none if the file does not exist.

    Raises
    ------
    StoreError
        When it cannot be read, or is damaged anywhere but at an end that was cut short.
    InputError
        When it was written with another key.
    """
    return Contents(Place(path, disk).head, key, disk)


def rewrite_journal(
    path: str | os.PathLike[str],
    key: bytes,
    keep: Callable[[dict[str, Any]], bool] = lambda content: True,
    *,
    disk: Disk = REAL_DISK,
) -> None:
    """Replace a journal by one with only the records to keep, durably, and erase the others.

    The numbers of its pieces continue those of the old one, and the first piece names the last old one. No process may
    have the file open to append.

    Raises
    ------
    StoreError
        As in ``Writer.replace`` and ``read_journal``.
    """
    with locked(path, disk=disk) as writer:
        found = read_journal(path, key, disk=disk)
        kept = [_text({"rewritten": [found.at.pieces, found.at.mac]})]
        kept += [_text(record.content) for record in found if keep(record.content)]
        pieces, at = [], Position(found.at.pieces)
        for i in range(0, len(kept), _TOGETHER):
            piece, mac = _piece(key, at, at.end, kept[i : i + _TOGETHER])
            pieces.append(piece)
            at = Position(at.pieces + 1, mac, at.end + len(piece))
        writer.replace(pieces)


def read_record(path: str | os.PathLike[str], record: Record, *, disk: Disk = REAL_DISK) -> dict[str, Any]:
    """Return the content of a record, read again from its place in the file.

    Raises
    ------
    StoreError
        When it cannot be read, or is not what was written.
    """
    place = Place(path, disk)
    with explained("read", place.head):
        descriptor = disk.open_to_read(place.head)
        try:
            text = disk.read_at(descriptor, record.end - record.start, record.start)
        finally:
            close_quietly(disk, descriptor)
    if _checksum(text) != record.checksum:
        raise StoreError(f"{place.head} is damaged at byte {record.start:,}: put a whole copy of the file back.")
    content: dict[str, Any] = json.loads(text)
    return content


def _text(content: Mapping[str, Any]) -> bytes:
    return json.dumps(content, separators=(",", ":"), allow_nan=False).encode()  # ASCII, without control characters


def _checksum(text: bytes) -> bytes:
    return hashlib.sha256(text).digest()


def _old_seal(text: bytes) -> bytes:
    return _checksum(text).hex()[:16].encode()


def _mac(key: bytes, previous: str, start: int, text: bytes) -> str:
    return hmac.digest(key, f"{previous} {start} ".encode() + text, "sha256").hex()[:32]


def _piece(key: bytes, at: Position, start: int, texts: list[bytes]) -> tuple[bytes, str]:
    """Return a piece that follows another one and begins at this place of the file, and its MAC."""
    text = f"{at.pieces + 1:012d} {at.end:012d} ".encode() + _BETWEEN.join(texts)  # of one length for the same records
    mac = _mac(key, at.mac, start, text)
    return _BEGIN + mac.encode() + b" " + text + _END, mac


def _followed(key: bytes, line: bytes, start: int, *candidates: Position) -> Position | None:
    """Return which of several pieces this one, without its line break, follows; None if it is no piece."""
    mac, _, text = line.removeprefix(_BEGIN).partition(b" ")
    for one in candidates:
        # The first piece of a file that was rewritten has any number.
        number = f"{one.pieces + 1:012d}".encode() if one.end else text.partition(b" ")[0]
        fits = text.startswith(b"%s %012d " % (number, one.end))
        if fits and line.startswith(_BEGIN) and hmac.compare_digest(mac, _mac(key, one.mac, start, text).encode()):
            return one
    return None


def _is_torn(odd: bytes) -> bool:
    """Return whether bytes are the rest of a piece whose writing was interrupted: cut short, or with missing blocks.

    No piece holds zeros. A single zero may be a flipped bit, but not at the beginning of a piece.
    """
    return not odd.endswith(_END) or odd.startswith(b"\0") or b"\0\0" in odd
