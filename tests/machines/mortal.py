"""A disk that dies: from some operation on nothing reaches it any more, as if the process had been killed there."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from unittest import mock

from erasable.store._disk import Disk

#: What changes the disk, or makes a change last.
CHANGES = (
    *("open_to_overwrite", "open_to_append", "create", "write", "fsync", "fsync_folder"),
    *("chmod", "chown", "set_attribute", "remove_attribute", "link", "rename", "unlink", "mkdir", "rmdir"),
)
_OPENS = ("open_to_read", "open_to_overwrite", "open_to_append", "create", "open_lock")
_OTHERS = ("read", "read_at", "close", "unlock", "lock", "names", "facts", "facts_of_name", "attributes")


class Killed(BaseException):
    """The process is gone."""


@contextmanager
def killed_at(step: int, *, torn: bool = False) -> Iterator[list[str]]:
    """The disk dies at the change of this number; a write may get half of its bytes through before.

    Gives the changes made so far. Descriptors that the dead process held are closed at the end, and its lock with them.
    """
    made: list[str] = []
    held: set[int] = set()
    dead = False

    def patched(name: str):  # type: ignore[no-untyped-def]
        real = getattr(Disk, name)

        def call(self, *args, **options):  # type: ignore[no-untyped-def]
            nonlocal dead
            if dead:
                raise Killed
            if name in CHANGES:
                if len(made) == step:
                    dead = True
                    if torn and name == "write":
                        real(self, args[0], args[1][: len(args[1]) // 2])
                    raise Killed
                made.append(name)
            result = real(self, *args, **options)
            if name in _OPENS:
                held.add(result)
            elif name == "close":
                held.discard(args[0])
            return result

        return call

    names = dict.fromkeys((*CHANGES, *_OPENS, *_OTHERS))
    try:
        with mock.patch.multiple(Disk, **{name: patched(name) for name in names}):
            yield made
    finally:
        for descriptor in held:
            with suppress(OSError):
                os.close(descriptor)
