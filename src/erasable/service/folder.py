"""A folder for one process at a time."""

from __future__ import annotations

import os
from contextlib import suppress

from erasable.errors import BusyError, StoreError
from erasable.store import Disk


def taken(folder: str, disk: Disk) -> int:
    """A descriptor that keeps others out of a folder as long as it is open; the folder is made where it is not there.

    Raises
    ------
    BusyError
        When another process has it.
    StoreError
        When it cannot be made or written to.
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
