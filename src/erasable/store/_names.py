"""The names that belong to one path: the head, and the hidden files beside it."""

from __future__ import annotations

import errno
import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from erasable.errors import StateFormatError
from erasable.store._disk import Disk, facts_or_none
from erasable.store._failures import refusal

_PART = re.compile(r"[0-9a-f]{64}")


class SideFiles(NamedTuple):
    """The hidden names beside a path; each may or may not exist."""

    lock: Path
    new: Path
    old: Path
    parts: Path


def side_files(path: str | os.PathLike[str]) -> SideFiles:
    """The names that a store may use beside ``path``, whether they exist or not.

    ``lock`` is empty and stays as long as there is a file. ``new`` (being written) and ``old`` (being erased) are there
    only while a change is under way, or after one that was cut short. ``parts`` is a folder, there only for very large
    models.

    Examples
    --------
    >>> from erasable import store
    >>> [p.name for p in store.side_files("models/m.erasable")]
    ['.m.erasable.lock', '.m.erasable.new', '.m.erasable.old', '.m.erasable.parts']
    """
    where = Path(path)
    return SideFiles(*(where.with_name(f".{where.name}.{what}") for what in SideFiles._fields))


class Place:
    """One path on one disk, and the names beside it, as absolute strings."""

    def __init__(self, path: str | os.PathLike[str], disk: Disk) -> None:
        given = os.fsdecode(path)
        if "\0" in given:
            raise refusal("a path cannot hold a zero byte: give another path.", errno.EINVAL)
        # Absolute, so that a change of the working directory half way cannot split a model.
        self.head = os.path.abspath(given)
        self.folder, name = os.path.split(self.head)
        if not name:
            raise refusal(f"{self.head} is a folder: give the path of a file.", errno.EISDIR)
        self.disk = disk
        self.lock, self.new, self.old, self.parts = (str(p) for p in side_files(self.head))

    def part(self, name: str) -> str:
        """The path of a part; refused unless the name is 64 hexadecimal digits, so that none leads elsewhere."""
        if not _PART.fullmatch(name):
            raise StateFormatError(f"a part of {self.head} is not named by a SHA-256 in 64 hexadecimal digits.")
        return os.path.join(self.parts, name)

    def part_names(self) -> set[str]:
        """The parts on disk, whether the head refers to them or not; other files in that folder are not ours."""
        facts = self.look(self.parts)
        if facts is None:
            return set()
        if not stat.S_ISDIR(facts.st_mode):
            raise refusal(f"{self.parts} is not a folder: move it away and run it again.", errno.ENOTDIR)
        return {name for name in self.disk.names(self.parts) if _PART.fullmatch(name)}

    def look(self, path: str) -> os.stat_result | None:
        """What a name is, itself, or None when there is none."""
        return facts_or_none(self.disk.facts_of_name, path)

    def check_writable_kind(self) -> os.stat_result | None:
        """The facts of the head, or None when there is none; refused unless it is a plain file."""
        facts = self.look(self.head)
        if facts is None:
            return None
        if stat.S_ISLNK(facts.st_mode):
            # Replacing the link would leave the file that it leads to as it is, rows and all.
            raise refusal(f"{self.head} is a symbolic link: give the real path to write to it.", errno.ELOOP)
        refuse_special(self.head, facts)
        return facts


def refuse_special(path: str, facts: os.stat_result) -> None:
    """Refuse folders, pipes, sockets and devices."""
    if stat.S_ISDIR(facts.st_mode):
        raise refusal(f"{path} is a folder: give the path of a file.", errno.EISDIR)
    if not stat.S_ISREG(facts.st_mode):
        raise refusal(f"{path} is not a plain file (a pipe, socket or device): give another path.", errno.EINVAL)
