"""Every file below a folder, and its bytes block by block."""

from __future__ import annotations

import fnmatch
import os
import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from erasable.audit._report import Unread
from erasable.errors import InputError

BLOCK = 1 << 23
_PACKED = (
    b"PAR1",
    b"ORC",
    b"Obj\x01",
    b"PK\x03\x04",
    b"PK\x05\x06",
    b"\x1f\x8b",
    b"\x28\xb5\x2f\xfd",
    b"\xfd7zXZ\x00",
    b"BZh",
    b"\x04\x22\x4d\x18",
    b"7z\xbc\xaf\x27\x1c",
    b"Rar!\x1a\x07",
    b"\xff\x06\x00\x00sNaPpY",
    b"\x89HDF\r\n\x1a\n",
)


class ChangedError(Exception):
    """A file changed while it was read."""


@dataclass
class Listing:
    """What lies below a folder. ``files`` holds (path to open, path shown, bytes)."""

    files: list[tuple[str, str, int]] = field(default_factory=list)
    unreadable: list[Unread] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    links: int = 0


def shown(path: str) -> str:
    """A path with what is no text in it made visible."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def why(error: OSError) -> str:
    """What the system says of a failure, without the path."""
    return (error.strerror or type(error).__name__).lower()


def list_files(
    folder: str | os.PathLike[str], skip: Sequence[str | os.PathLike[str]], exclude: Sequence[str]
) -> Listing:
    """All files below a folder, hidden ones too, in order; links are not followed.

    Parameters
    ----------
    skip : paths
        Files to leave out, by whatever name or link they are found.
    exclude : glob patterns
        Left out where one fits the path below the folder or the name alone.

    Raises
    ------
    InputError
        When there is no such folder.
    """
    root = Path(folder)
    if not root.exists():
        raise InputError(f"{root} does not exist: give the folder to look through.")
    left_out = {(s.st_dev, s.st_ino) for s in (os.stat(p) for p in skip)}
    found = Listing()
    if not root.is_dir():
        _note(found, str(root), root.name, left_out, exclude)
        return found
    stack = [(str(root), "")]
    while stack:
        where, below = stack.pop()
        try:
            with os.scandir(where) as entries:
                names = sorted(entry.name for entry in entries)
        except OSError as error:
            found.unreadable.append(Unread(shown(below or "."), why(error)))
            continue
        folders = []
        for name in names:
            path, relative = os.path.join(where, name), f"{below}/{name}" if below else name
            if _note(found, path, relative, left_out, exclude):
                folders.append((path, relative))
        stack += reversed(folders)
    return found


def _note(found: Listing, path: str, relative: str, left_out: set[tuple[int, int]], exclude: Sequence[str]) -> bool:
    """Put an entry where it belongs; whether it is a folder to go into."""
    name = relative.rpartition("/")[2]
    if any(fnmatch.fnmatchcase(relative, e) or fnmatch.fnmatchcase(name, e) for e in exclude):
        found.skipped.append(shown(relative))
        return False
    try:
        facts = os.lstat(path)
    except OSError as error:
        found.unreadable.append(Unread(shown(relative), why(error)))
        return False
    if stat.S_ISDIR(facts.st_mode):
        return True
    if not stat.S_ISREG(facts.st_mode):
        found.links += 1
    elif (facts.st_dev, facts.st_ino) in left_out:
        found.skipped.append(shown(relative))
    else:
        found.files.append((path, relative, facts.st_size))
    return False


@contextmanager
def open_file(path: str) -> Iterator[int]:
    """A descriptor to read a plain file with; a link or a pipe that took its place meanwhile is refused."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise ChangedError
        yield fd
    finally:
        os.close(fd)


def starts_with(fd: int, magic: bytes) -> bool:
    """Whether these are the first bytes of the file."""
    return os.pread(fd, len(magic), 0) == magic


def is_packed(fd: int) -> bool:
    """Whether the file is compressed or an archive, by its first bytes."""
    return os.pread(fd, 16, 0).startswith(_PACKED)


Interval = tuple[int, int]


def blocks(
    fd: int, size: int, reach: int, without: Sequence[Interval]
) -> Iterator[tuple[int, npt.NDArray[np.uint8], int, int]]:
    """Offset in the file, bytes, and the stretch of these bytes that is new, for one block after the other.

    A block holds ``reach`` bytes more on both sides where the file has them. Blocks that lie wholly in one of the
    intervals ``without`` are left out, and bytes of other such intervals are zero.
    """
    step = max(BLOCK, 4 * reach)
    for start in range(0, size, step):
        stop = min(start + step, size)
        low, high = max(0, start - reach), min(size, stop + reach)
        if any(a <= low and high <= b for a, b in without):
            continue
        buffer = bytearray(high - low)
        view, done = memoryview(buffer), 0
        while done < len(buffer):
            got = os.preadv(fd, [view[done:]], low + done)
            if not got:
                raise ChangedError
            done += got
        block = np.frombuffer(buffer, dtype=np.uint8)
        blank(block, low, without)
        yield low, block, start - low, stop - low


def blank(block: npt.NDArray[np.uint8], low: int, intervals: Sequence[Interval]) -> None:
    """Overwrite with zeros what lies in the intervals of the file."""
    for a, b in intervals:
        block[max(0, a - low) : max(0, b - low)] = 0
