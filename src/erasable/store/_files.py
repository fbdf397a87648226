"""The files of one path: their names, their permissions, and how to read them while others replace them."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import re
import stat
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, TypeVar

from erasable.errors import BusyError, ConfigurationError, StateFormatError
from erasable.store._disk import (
    ACL,
    AS_IT_WAS,
    Disk,
    close_quietly,
    explained,
    facts_or_none,
    failure,
    reason,
    refusal,
    same_file,
)

_PART = re.compile(r"[0-9a-f]{64}")


class SideFiles(NamedTuple):
    """The hidden names next to a path; each may or may not exist."""

    lock: Path
    new: Path
    old: Path
    parts: Path


def side_files(path: str | os.PathLike[str]) -> SideFiles:
    """Return the names that a store may use next to ``path``, whether they exist or not.

    ``lock`` is empty and stays as long as the model exists. ``new`` (being written) and ``old`` (being erased) exist
    only during a change, or after one that was interrupted. ``parts`` is a folder that only very large models have.

    Examples
    --------
    >>> from erasable import store
    >>> [p.name for p in store.side_files("models/m.erasable")]
    ['.m.erasable.lock', '.m.erasable.new', '.m.erasable.old', '.m.erasable.parts']
    """
    where = Path(path)
    return SideFiles(*(where.with_name(f".{where.name}.{what}") for what in SideFiles._fields))


class Place:
    """One path on one disk, and the names next to it, as absolute strings."""

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
        """Return the path of a part; refused unless its name is 64 hexadecimal digits, which no other path is."""
        if not _PART.fullmatch(name):
            raise StateFormatError(f"a part of {self.head} is not named by a SHA-256 in 64 hexadecimal digits.")
        return os.path.join(self.parts, name)

    def part_names(self) -> set[str]:
        """Return the parts on disk, also those that the head does not refer to; other files are ignored."""
        facts = self.look(self.parts)
        if facts is None:
            return set()
        if not stat.S_ISDIR(facts.st_mode):
            raise refusal(f"{self.parts} is not a folder: move it away and run it again.", errno.ENOTDIR)
        return {name for name in self.disk.names(self.parts) if _PART.fullmatch(name)}

    def look(self, path: str) -> os.stat_result | None:
        """Return the facts of a name without following links; None if it does not exist."""
        return facts_or_none(self.disk.facts_of_name, path)

    def check_writable_kind(self) -> os.stat_result | None:
        """Return the facts of the head, or None if it does not exist; refused unless it is a plain file."""
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


# Errors of systems that do not let this user give files away.
_NOT_GIVEN_AWAY = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}

Rule = Callable[[int], int]


@dataclass(frozen=True)
class Access:
    """Permissions, owner, group and attributes; -1 and None leave the default of a new file."""

    mode: int
    user: int = -1
    group: int = -1
    attributes: Mapping[str, bytes] | None = None

    def by(self, rule: Rule) -> Access:
        """Return the access after ``rule`` changed the rights (4 read, 2 write, 1 execute) of every user and group."""
        mode = sum(rule(self.mode >> shift & 7) << shift for shift in (6, 3, 0))
        lists = {name: _acl_by(rule, value) for name, value in (self.attributes or {}).items() if name == ACL}
        return Access(mode, self.user, self.group, None if self.attributes is None else lists)


def check_mode(mode: int | None) -> None:
    """Raise ConfigurationError unless these are permissions of a file that its owner may read and write."""
    if mode is not None and not (0 <= mode <= 0o777 and mode & 0o600 == 0o600):
        raise ConfigurationError(
            "mode must be permissions in octal with which the owner may read and write, such as 0o600 or 0o640."
        )


def check_private(path: str | os.PathLike[str], facts: os.stat_result, harm: str, *, refused: int = 0o077) -> None:
    """Raise StoreError for a file or folder that others may use, as ssh does; another user's may be open to a group.

    Parameters
    ----------
    path : str or path
    facts : os.stat_result
    harm : str
        The end of the message: the harm that others could do, and the remedy.
    refused : int
        The permissions that no other user may have: all of them, or only to write.
    """
    mode = stat.S_IMODE(facts.st_mode)
    if os.name == "posix" and mode & refused & (0o077 if facts.st_uid == os.geteuid() else 0o007):
        may = "read or change" if refused & 0o044 else "change"
        raise refusal(f"{os.fspath(path)} has mode {mode:04o}, so others may {may} it: {harm}", errno.EPERM)


def for_part(rights: int) -> int:
    """Return the rights to a part: those to the head."""
    return rights


def for_folder(rights: int) -> int:
    """Return the rights to the folder of parts: a user who may read the head may enter it."""
    return rights | rights >> 2 & 1


def for_lock(rights: int) -> int:
    """Return the rights to the lock file: only for users who may write, because its holder stops every writer."""
    return 6 if rights & 2 else 0


def access_to(disk: Disk, target: str | int) -> Access:
    """Return the permissions, owner, group and attributes of a file."""
    facts = disk.facts_of_name(target) if isinstance(target, str) else disk.facts(target)
    return Access(stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid, disk.attributes(target))


def grant(disk: Disk, descriptor: int, access: Access) -> None:
    """Give a new, empty file of this user exactly this access.

    Only the administrator can change the owner. Otherwise the file stays this user's, and only its group is kept.

    Raises
    ------
    StoreError
        When the access list or an attribute cannot be carried over.
    """
    facts = disk.facts(descriptor)
    mode = access.mode
    if stat.S_ISDIR(facts.st_mode):
        mode |= facts.st_mode & stat.S_ISGID  # new files in it get its group
    if not _owned(disk, descriptor, facts, access):
        if ACL in (access.attributes or {}):
            raise refusal(f"the access list speaks of a group that this user cannot keep. {AS_IT_WAS}", errno.EPERM)
        # Members of the old group count as others from now on, and those of the new one did before.
        both = mode >> 3 & mode & 7
        mode = mode & 0o7700 | both << 3 | both
    if access.attributes is not None:
        _set_attributes(disk, descriptor, access.attributes)
    disk.chmod(descriptor, mode)


def share_lock(place: Place, descriptor: int) -> None:
    """Open the lock file to all users who may change the head, as far as this user is able to."""
    disk = place.disk
    with suppress(OSError):
        head = place.look(place.head)
        if head is not None and stat.S_ISREG(head.st_mode):
            wanted = access_to(disk, place.head).by(for_lock)
            if access_to(disk, descriptor) != wanted:
                grant(disk, descriptor, wanted)


def _owned(disk: Disk, descriptor: int, facts: os.stat_result, access: Access) -> bool:
    """Set the owner if possible, and the group; return whether the group is right."""
    user, group = access.user, access.group
    if user not in (-1, facts.st_uid) and _given(disk, descriptor, user, group):
        return True
    return group in (-1, facts.st_gid) or _given(disk, descriptor, -1, group)


def _given(disk: Disk, descriptor: int, user: int, group: int) -> bool:
    try:
        disk.chown(descriptor, user, group)
    except OSError as error:
        if error.errno not in _NOT_GIVEN_AWAY:
            raise
        return False
    return True


def _set_attributes(disk: Disk, descriptor: int, wanted: Mapping[str, bytes]) -> None:
    """Set these attributes and remove all others, such as an access list that new files inherit from the folder."""
    has = disk.attributes(descriptor)
    try:
        for name in sorted(has.keys() - wanted.keys()):
            disk.remove_attribute(descriptor, name)
        for name, value in wanted.items():
            if has.get(name) != value:
                disk.set_attribute(descriptor, name, value)
    except OSError as error:
        what = "its access list or an attribute could not be carried over to the new file"
        raise refusal(f"{what}: {reason(error)[0]}. {AS_IT_WAS}", error.errno or 0) from error


_ENTRY = struct.Struct("<HHI")  # kind, rights, user or group; after four bytes of version


def _acl_by(rule: Rule, value: bytes) -> bytes:
    entries = (_ENTRY.pack(kind, rule(rights), whose) for kind, rights, whose in _ENTRY.iter_unpack(value[4:]))
    return value[:4] + b"".join(entries)


T = TypeVar("T")
Fetch = Callable[[str], bytes]
Parse = Callable[[bytes, Fetch], T]

LIMIT = 1 << 32
_TRIES = 64


class _ReplacedMeanwhileError(Exception):
    """The path was replaced while it was read, so the bytes read may be half erased."""


def read_all(disk: Disk, descriptor: int, path: str, limit: int) -> bytes:
    """Return all bytes of a plain file; refused if there are more than ``limit``."""
    facts = disk.facts(descriptor)
    refuse_special(path, facts)
    size = facts.st_size
    if size > limit:
        raise refusal(f"{path} is larger than expected ({size} bytes, at most {limit}): it is not read.", errno.EFBIG)
    pieces = []
    left = limit
    want = size
    try:
        while piece := disk.read(descriptor, max(1, min(want, left + 1))):
            pieces.append(piece)
            left -= len(piece)
            want = max(want - len(piece), 1 << 16)
            if left < 0:
                raise refusal(f"{path} grows while it is read, beyond {limit} bytes.", errno.EFBIG)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)
    except MemoryError:
        raise refusal(f"{path} does not fit into memory ({size} bytes).", errno.ENOMEM) from None


def read_part(place: Place, name: str, limit: int) -> bytes:
    """Return the bytes of a part; refused if their SHA-256 is not its name."""
    path = place.part(name)
    with explained("read", path):
        try:
            descriptor = place.disk.open_to_read(path)
        except FileNotFoundError:
            message = f"a part of {place.head} is missing: {place.parts} belongs to it and must be copied with it."
            raise refusal(message, errno.ENOENT) from None
        try:
            data = read_all(place.disk, descriptor, path, limit)
        finally:
            close_quietly(place.disk, descriptor)
    if hashlib.sha256(data).hexdigest() != name:
        raise StateFormatError(f"{path} does not hold the bytes that it is named by: it was altered or cut off.")
    return data


def read_once(place: Place, parse: Parse[T], limit: int) -> T:
    """Return ``parse`` of the head and its parts; raises ``_ReplacedMeanwhileError`` if the path was replaced."""
    disk = place.disk
    with explained("read", place.head):
        descriptor = disk.open_to_read(place.head)
    # Kept open to the end, so that no other file can get the same inode number.
    try:
        with explained("read", place.head):
            data = read_all(disk, descriptor, place.head, limit)
            # Zeros are written only after the name leads to a new file. As long as it leads to this one, all is good.
            _refuse_replaced(place, descriptor)
        try:
            return parse(data, lambda name: read_part(place, name, limit))
        except Exception:
            # The parts of this head may have been erased in the meantime.
            _refuse_replaced(place, descriptor)
            raise
    finally:
        close_quietly(disk, descriptor)


def _refuse_replaced(place: Place, descriptor: int) -> None:
    now = facts_or_none(place.disk.facts, place.head)
    if now is None or not same_file(now, place.disk.facts(descriptor)):
        raise _ReplacedMeanwhileError


def read_settled(place: Place, parse: Parse[T], limit: int) -> T:
    """Return :func:`read_once`, repeated until the path was not replaced meanwhile."""
    for _ in range(_TRIES):
        with contextlib.suppress(_ReplacedMeanwhileError):
            return read_once(place, parse, limit)
    message = f"{place.head} was replaced {_TRIES} times while it was read. Nothing was read: try again."
    raise failure(message, errno.EAGAIN, BusyError)
