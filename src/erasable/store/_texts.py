"""Text files that are written as a whole: a kill leaves the one from before, and a hidden file for the next writer."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TextIO

from erasable.errors import BusyError
from erasable.store._disk import REAL_DISK

#: Errors of writing alone, which Python raises without the name of the file.
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@contextmanager
def half_written(path: Path, *, wait: bool = False) -> Iterator[TextIO]:
    """A hidden file beside a path, empty and locked, whose ``name`` is its path; a failure removes it.

    It has one name for each path, so what a killed writer left is taken over by the next one.

    Raises
    ------
    BusyError
        When another writer has it, unless this one may ``wait``.
    """
    hidden = str(path.with_name(f".{path.name}.new"))
    while True:
        with open(hidden, "r+", encoding="utf-8", newline="", opener=_opened) as file:
            if not REAL_DISK.lock(file.fileno(), wait=wait) or not _names(hidden, file.fileno()):
                if wait:  # whoever had it has put it in its place
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
    """A text file that takes the place of a path when the block ends: all of it, durably, or nothing.

    A file that exists keeps its permissions; what is no file, such as a pipe, is written to as it is.
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
    """Whether the name still leads to the open file: whoever had it before may have put it in its place."""
    with suppress(FileNotFoundError):
        return os.path.samestat(os.lstat(path), os.fstat(descriptor))
    return False
