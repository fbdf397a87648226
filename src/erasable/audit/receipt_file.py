"""A file for a receipt: room is taken before anything is forgotten, and its name leads to a whole one or nowhere."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from erasable.audit.receipts import LARGEST_RECEIPT
from erasable.errors import BusyError, ReceiptError, StoreError
from erasable.store import Disk, half_written

_ROOM = 8192  # bytes: more than any receipt that is made here has
_DISK = Disk()


@contextmanager
def room_for(path: Path) -> Iterator[Callable[[str], None]]:
    """A block with a function that puts a receipt at this path, durably; there is room for it, and the name is free.

    Until then the room is a hidden file beside it. Nothing stays of it when the block fails. After a kill it stays, and
    whoever wants the same name next takes it over.

    Raises
    ------
    BusyError
        When another process has taken the same room.
    OSError
        When there is no room. The function raises it, too, when something has taken the name meanwhile.
    """
    path = path.absolute()
    _remove_rooms(path.parent)
    with half_written(path) as file:
        hidden = str(file.name)

        def fill(text: str) -> None:
            file.seek(0)
            file.write(text)
            file.truncate()
            file.flush()
            _DISK.fsync(file.fileno())

        def put(text: str) -> None:
            fill(text)  # as durable as what it attests
            try:
                _DISK.link(hidden, str(path))  # unlike a rename it takes the place of nothing
            except FileExistsError:
                raise
            except OSError:  # no hard links here
                _DISK.rename(hidden, str(path))
            else:
                _DISK.unlink(hidden)
            _DISK.fsync_folder(str(path.parent))

        fill(" " * _ROOM)
        yield put


def _remove_rooms(folder: Path) -> None:
    """Remove the rooms that killed commands left in a folder: hidden files of spaces that nobody has locked."""
    for path in folder.glob(".*.new"):
        with suppress(OSError, BusyError, UnicodeDecodeError):
            if path.is_symlink() or not path.is_file() or path.stat().st_size != _ROOM or path.read_text().strip():
                continue
            with half_written(path.with_name(path.name[1:-4])):
                _DISK.unlink(str(path))


def read_receipt_text(path: Path) -> str:
    """The text of a receipt, or the beginning of one that is too long.

    Raises
    ------
    StoreError
        When it cannot be read.
    ReceiptError
        When it is no text.
    """
    try:
        with open(path, "rb") as file:
            return file.read(4 * LARGEST_RECEIPT + 1).decode()  # the longest text in UTF-8, and one byte more
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ReceiptError(f"not a receipt: {path} is not text in UTF-8.") from None


def drop_room(path: Path) -> None:
    """The hidden name of a receipt that is in place, which a kill has left, is gone."""
    with suppress(FileNotFoundError):
        if os.path.samefile(_hidden(path), path):
            _DISK.unlink(_hidden(path))


def _hidden(path: Path) -> str:
    return str(path.with_name(f".{path.name}.new"))
