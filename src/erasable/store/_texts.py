"""Text files that are replaced as a whole: a kill leaves the old file, and a hidden one that the next writer reuses."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from erasable.errors import BusyError
from erasable.store._disk import REAL_DISK, refuse_other_systems

#: Errors of writing alone, which Python raises without the name of the file.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def half_written(path: Path, *, wait: bool = False) -> Iterator[TextIO]:
    """Open a hidden file next to a path, empty and locked; its ``name`` is its path. An exception removes it.

    Each path has one hidden name, so the next writer reuses the file that a killed one left.

    Raises
    ------
    BusyError
        When another writer holds the file and ``wait`` is False.
    """
    refuse_other_systems()
    hidden = str(path.with_name(f".{path.name}.new"))
    while True:
        with open(hidden, "r+", encoding="utf-8", newline="", opener=_opened) as file:
            if not REAL_DISK.lock(file.fileno(), wait=wait) or not _names(hidden, file.fileno()):
                if wait:  # the other writer has renamed it into place
                    continue
                raise BusyError(f"{path} is being written by another command: wait for it, or choose another name.")
            try:
                file.truncate()
                yield file
            except BaseException:
                with suppress(FileNotFoundError):
                    REAL_DISK.unlink(hidden)
                raise
            return


def _opened(name: str, _: int) -> int:
    return os.open(name, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o666)


@contextmanager
def replaced_text(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a text file that replaces the path when the block ends: completely and durably, or not at all.

    An existing file keeps its permissions. A path that is no plain file, such as a pipe, is written to directly.
    """
    there = os.stat(path).st_mode if os.path.exists(path) else None
    if there is not None and not stat.S_ISREG(there):
        with open(path, "w", encoding="utf-8", newline="") as file:
            yield file
        return
    place = Path(os.path.realpath(path))
    try:
        with half_written(place, wait=True) as file:
            yield file
            file.flush()
            if there is not None:
                REAL_DISK.chmod(file.fileno(), stat.S_IMODE(there))
            REAL_DISK.fsync(file.fileno())
            REAL_DISK.rename(str(file.name), str(place))
            REAL_DISK.fsync_folder(str(place.parent))
    except OSError as error:
        hidden = error.filename and os.path.basename(error.filename) == f".{place.name}.new"
        if hidden or (error.filename is None and error.errno in _FULL):
            error.filename = os.fspath(path)  # as the caller knows it
        raise


def write_text(path: str | os.PathLike[str], text: str) -> None:
    """Replace a text file as a whole; see :func:`replaced_text`."""
    with replaced_text(path) as file:
        file.write(text)


def _names(path: str, descriptor: int) -> bool:
    """Return whether the name still leads to the open file; another writer may have renamed that file into place."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    return False
