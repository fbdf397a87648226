"""Who may do what with a file: owner, group, permissions and access list, carried over to what takes its place."""

from __future__ import annotations

import errno
import os
import stat
import struct
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from erasable.errors import ConfigurationError
from erasable.store._disk import ACL, Disk
from erasable.store._failures import AS_IT_WAS, reason, refusal
from erasable.store._names import Place

# What a system says that gives no files away, or does not know this user.
_NOT_GIVEN_AWAY = {errno.EPERM, errno.EACCES, errno.EINVAL, errno.ENOSYS, errno.ENOTSUP}

Rule = Callable[[int], int]


@dataclass(frozen=True)
class Access:
    """Permissions, owner, group and attributes; -1 and None leave what a new file has."""

    mode: int
    user: int = -1
    group: int = -1
    attributes: Mapping[str, bytes] | None = None

    def by(self, rule: Rule) -> Access:
        """What ``rule`` makes of the rights (4 to read, 2 to write, 1 to execute) of everybody that is named."""
        mode = sum(rule(self.mode >> shift & 7) << shift for shift in (6, 3, 0))
        lists = {name: _acl_by(rule, value) for name, value in (self.attributes or {}).items() if name == ACL}
        return Access(mode, self.user, self.group, None if self.attributes is None else lists)


def check_mode(mode: int | None) -> None:
    """Refuse what are no permissions of a file, or permissions that shut out its owner.

    Raises
    ------
    ConfigurationError
    """
    if mode is not None and not (0 <= mode <= 0o777 and mode & 0o600 == 0o600):
        raise ConfigurationError(
            "mode must be permissions in octal with which the owner may read and write, such as 0o600 or 0o640."
        )


def check_private(path: str | os.PathLike[str], facts: os.stat_result, harm: str, *, refused: int = 0o077) -> None:
    """Refuse a file or folder that others may use, as ssh does; one lent by another user may be open to a group.

    Parameters
    ----------
    path : str or path
    facts : os.stat_result
    harm : str
        What whoever may use it could do, and what to do about it, for the message.
    refused : int
        The permissions that nobody else may have: all of them, or only to write.

    Raises
    ------
    StoreError
    """
    mode = stat.S_IMODE(facts.st_mode)
    if os.name == "posix" and mode & refused & (0o077 if facts.st_uid == os.geteuid() else 0o007):
        may = "read or change" if refused & 0o044 else "change"
        raise refusal(f"{os.fspath(path)} has mode {mode:04o}, so others may {may} it: {harm}", errno.EPERM)


def for_part(rights: int) -> int:
    """Of a part: those of the head."""
    return rights


def for_folder(rights: int) -> int:
    """Of the folder of parts: who may read the head may also reach what is in it."""
    return rights | rights >> 2 & 1


def for_lock(rights: int) -> int:
    """Of the lock file: who can open it can hold up every writer, so only those who write themselves."""
    return 6 if rights & 2 else 0


def access_to(disk: Disk, target: str | int) -> Access:
    """Who may do what with a file."""
    facts = disk.facts_of_name(target) if isinstance(target, str) else disk.facts(target)
    return Access(stat.S_IMODE(facts.st_mode), facts.st_uid, facts.st_gid, disk.attributes(target))


def grant(disk: Disk, descriptor: int, access: Access) -> None:
    """Make a new, empty file of ours one that the same people may use as ``access`` says, and nobody else.

    Only the administrator gives files away: otherwise the file stays ours, and only its group is kept.

    Raises
    ------
    StoreError
        When the access list or an attribute cannot be carried over.
    """
    facts = disk.facts(descriptor)
    mode = access.mode
    if stat.S_ISDIR(facts.st_mode):
        mode |= facts.st_mode & stat.S_ISGID  # what comes into it gets its group
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
    """The lock file is for those who may change the head, whoever made it; as far as this user can see to that."""
    disk = place.disk
    with suppress(OSError):
        head = place.look(place.head)
        if head is not None and stat.S_ISREG(head.st_mode):
            wanted = access_to(disk, place.head).by(for_lock)
            if access_to(disk, descriptor) != wanted:
                grant(disk, descriptor, wanted)


def _owned(disk: Disk, descriptor: int, facts: os.stat_result, access: Access) -> bool:
    """Whether the file has the group that it should have; the owner, too, where that can be."""
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
    """The attributes wanted, and no access list that the folder hands down to new files."""
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
