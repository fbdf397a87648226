"""System calls behind one object that tests can replace, errors that explain their failures, and access to files."""

from __future__ import annotations

import errno
import os
import re
import stat
import struct
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

from erasable.errors import ConfigurationError, StoreError

if sys.platform != "win32":
    import fcntl

# Missing on Windows, where files are only read.
_CLOEXEC = getattr(os, "O_CLOEXEC", 0)
_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)

#: The attribute that holds an access list as POSIX drafted it.
ACL = "system.posix_acl_access"


#: Systems on which files are written; elsewhere they can be read.
WRITABLE_ON = ("linux", "darwin", "freebsd")


def refuse_other_systems() -> None:
    """Raise StoreError where files are only read, before anything is created."""
    if not sys.platform.startswith(WRITABLE_ON):
        system = "Windows" if sys.platform == "win32" else sys.platform
        message = f"files are written on Linux and macOS only, and this is {system}. Nothing was changed: load, predict"
        raise refusal(f"{message} and verify here, and write on Linux or macOS, for instance in WSL.", errno.ENOTSUP)


class Disk:
    """The file system of this machine: thin wrappers around :mod:`os`, one per step that can fail or be cut short.

    Paths are absolute strings; descriptors are integers. Everything raises :class:`OSError` as the system does.
    """

    def real_path(self, path: str) -> str:
        """The path with every symbolic link resolved."""
        return os.path.realpath(path)

    def open_to_read(self, path: str) -> int:
        """Return a descriptor to read from; symbolic links are followed, and a pipe does not block."""
        return os.open(path, os.O_RDONLY | _CLOEXEC | _NONBLOCK | _BINARY)

    def open_to_overwrite(self, path: str) -> int:
        """Return a descriptor at the start of an existing file; never through a symbolic link."""
        return os.open(path, os.O_WRONLY | _CLOEXEC | _NOFOLLOW | _NONBLOCK | _BINARY)

    def open_cache(self, path: str) -> int:
        """Return a descriptor at the start of an existing file, to read and to overwrite; never through a link."""
        refuse_other_systems()
        return os.open(path, os.O_RDWR | _CLOEXEC | _NOFOLLOW | _NONBLOCK | _BINARY)

    def open_to_append(self, path: str) -> int:
        """Return a descriptor at the end of an existing file; never through a symbolic link."""
        refuse_other_systems()
        return os.open(path, os.O_WRONLY | os.O_APPEND | _CLOEXEC | _NOFOLLOW | _NONBLOCK | _BINARY)

    def create(self, path: str, mode: int) -> int:
        """Return a descriptor of a new, empty file; the name must be free."""
        refuse_other_systems()
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _CLOEXEC | _NOFOLLOW | _BINARY, mode)

    def open_lock(self, path: str) -> int:
        """Return a descriptor of the lock file, which is created for this user alone if it is missing."""
        refuse_other_systems()
        return os.open(path, os.O_RDWR | os.O_CREAT | _CLOEXEC | _NOFOLLOW | _NONBLOCK | _BINARY, 0o600)

    def lock(self, descriptor: int, *, wait: bool) -> bool:
        """Return whether the lock was taken; with ``wait``, return only when it is."""
        refuse_other_systems()
        if sys.platform == "win32":
            return False
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            raise
        return True

    def unlock(self, descriptor: int) -> None:
        """Release the lock, also for copies of the descriptor that a forked child may still have open."""
        if sys.platform != "win32":
            fcntl.flock(descriptor, fcntl.LOCK_UN)

    def read(self, descriptor: int, size: int) -> bytes:
        """Return at most ``size`` bytes; none at the end."""
        return os.read(descriptor, size)

    def read_at(self, descriptor: int, size: int, start: int) -> bytes:
        """Return at most ``size`` bytes from ``start`` on."""
        return os.pread(descriptor, size, start)

    def write(self, descriptor: int, data: memoryview) -> int:
        """Write bytes and return how many were taken, perhaps not all."""
        return os.write(descriptor, data)

    def close(self, descriptor: int) -> None:
        """Close a descriptor."""
        os.close(descriptor)

    def fsync(self, descriptor: int) -> None:
        """Make the content of a file durable, but not its name."""
        if sys.platform == "darwin":
            # There fsync leaves the bytes in the cache of the drive.
            try:
                fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            except OSError as error:
                if error.errno not in (errno.ENOTSUP, errno.EINVAL, errno.ENOTTY):
                    raise
            else:
                return
        os.fsync(descriptor)

    def fsync_folder(self, path: str) -> None:
        """Make the names in a folder durable."""
        descriptor = os.open(path, os.O_RDONLY | _CLOEXEC)
        try:
            self.fsync(descriptor)
        except OSError as error:
            # Some file systems keep names durable by themselves and say that there is nothing to do.
            if error.errno not in (errno.EINVAL, errno.ENOTSUP):
                raise
        finally:
            close_quietly(self, descriptor)

    def free(self, path: str) -> int | None:
        """Return how many bytes this user can still write in a folder; None if the system does not say."""
        if not hasattr(os, "statvfs"):
            return None
        volume = os.statvfs(path)
        if not volume.f_blocks:  # some file systems count nothing
            return None
        if volume.f_files and not volume.f_favail:
            return 0
        return volume.f_bavail * volume.f_frsize

    def facts(self, target: str | int) -> os.stat_result:
        """Return inode, size, mode and link count of a path, following links, or of a descriptor."""
        return os.stat(target)

    def facts_of_name(self, path: str) -> os.stat_result:
        """Return the same of the name itself: a symbolic link is not followed."""
        return os.lstat(path)

    def chown(self, descriptor: int, user: int, group: int) -> None:
        """Change the owner of a file."""
        os.fchown(descriptor, user, group)

    def chmod(self, descriptor: int, mode: int) -> None:
        """Change the permissions of a file."""
        os.fchmod(descriptor, mode)

    def attributes(self, target: str | int) -> dict[str, bytes]:
        """Return the access list and the user attributes of a file; none on systems without them."""
        if sys.platform != "linux":
            return {}
        follow = isinstance(target, int)
        try:
            names = os.listxattr(target, follow_symlinks=follow)
        except OSError as error:
            if error.errno in (errno.ENOTSUP, errno.ENOSYS):
                return {}
            raise
        # What begins with security or trusted belongs to the kernel and to the administrator.
        ours = [name for name in names if name == ACL or name.startswith("user.")]
        return {name: os.getxattr(target, name, follow_symlinks=follow) for name in ours}

    def set_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        """Set an attribute of a file."""
        if sys.platform == "linux":
            os.setxattr(descriptor, name, value)

    def remove_attribute(self, descriptor: int, name: str) -> None:
        """Remove an attribute of a file."""
        if sys.platform == "linux":
            os.removexattr(descriptor, name)

    def link(self, source: str, target: str) -> None:
        """Give a file a second name."""
        os.link(source, target, follow_symlinks=False)

    def rename(self, source: str, target: str) -> None:
        """Rename a file in one step; an existing file with the target name is replaced."""
        os.replace(source, target)

    def unlink(self, path: str) -> None:
        """Remove a name."""
        os.unlink(path)

    def names(self, path: str) -> list[str]:
        """Return the names in a folder."""
        return os.listdir(path)

    def mkdir(self, path: str) -> None:
        """Create a folder for this user alone."""
        os.mkdir(path, 0o700)

    def rmdir(self, path: str) -> None:
        """Remove an empty folder."""
        os.rmdir(path)


REAL_DISK = Disk()


def close_quietly(disk: Disk, descriptor: int) -> None:
    """Close a descriptor and ignore errors.

    For descriptors that were only read from, or whose bytes are durable already: nothing depends on the close.
    """
    with suppress(OSError):
        disk.close(descriptor)


def facts_or_none(look: Callable[[Any], os.stat_result], target: str) -> os.stat_result | None:
    """Return ``look(target)``, or None if there is no such file."""
    try:
        return look(target)
    except FileNotFoundError:
        return None


def same_file(one: os.stat_result, other: os.stat_result) -> bool:
    """Return whether two names lead to one inode."""
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


E = TypeVar("E", bound=StoreError)

AS_IT_WAS = "The file is as it was."

_REASONS = {
    errno.ENOSPC: ("the disk is full", "Free some space and run it again."),
    errno.EDQUOT: ("the disk quota is used up", "Free some space or raise the quota, and run it again."),
    errno.EFBIG: ("the file would be larger than the file system or the process limit allows", "Raise the limit."),
    errno.EROFS: ("the file system is read-only", "Mount it writable, or give a path elsewhere."),
    errno.EACCES: ("permission was denied", "Check the permissions of the file and of its folder."),
    errno.EPERM: ("permission was denied", "Check the permissions of the file and of its folder."),
    errno.EIO: ("the disk reported an input/output error", "Check the disk before anything else."),
    errno.ENOENT: ("the file or its folder does not exist", "Check the path; make the folder first."),
    errno.ENOTDIR: ("a part of the path is not a folder", "Check the path."),
    errno.EISDIR: ("a folder is in the way", "Give the path of a file."),
    errno.ENAMETOOLONG: ("the name is too long", "Side files add 7 characters to it: give a shorter name."),
    errno.ELOOP: ("there is a symbolic link in the way", "Give the real path."),
    errno.EMFILE: ("too many files are open", "Close some, or raise the limit of open files."),
    errno.ENFILE: ("too many files are open on this machine", "Close some, or raise the limit of open files."),
}


def failure(message: str, number: int, kind: type[E]) -> E:
    """Return an error with this message and ``errno``."""
    error = kind(message)
    error.errno = number
    return error


def refusal(message: str, number: int) -> StoreError:
    """Return a :class:`StoreError` for a call that is refused before anything was changed."""
    return failure(message, number, StoreError)


def reason(error: OSError) -> tuple[str, str]:
    """Return what went wrong and what to do about it, in words."""
    number = error.errno or 0
    return _REASONS.get(number, (os.strerror(number) if number else "the system refused", "Then run it again."))


@contextmanager
def explained(doing: str, path: str, state: str = "", kind: type[StoreError] = StoreError) -> Iterator[None]:
    """Turn an error of the system in this block into a :class:`StoreError` that states what is on disk now."""
    try:
        yield
    except StoreError as error:
        if kind is StoreError or isinstance(error, kind):
            raise
        raise failure(f"{error} {state}", error.errno or 0, kind) from error
    except OSError as error:
        what, advice = reason(error)
        message = " ".join(filter(None, [f"could not {doing} {path}: {what}.", state, advice]))
        raise failure(message, error.errno or 0, kind) from error


_COPIES = {"apfs", "bcachefs", "btrfs", "f2fs", "jffs2", "nilfs2", "ubifs", "zfs"}
_LAYERS = {"aufs", "ecryptfs", "overlay"}
_ELSEWHERE = {"9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs", "vboxsf", "virtiofs"}
_JOURNALS = {"ext3", "ext4", "reiserfs"}
_MOUNTS = "/proc/self/mountinfo"

#: Why overwritten bytes may stay on the medium, each in words that follow the name of a file system.
REASONS = {
    "copies": "writes to new blocks and leaves the old ones as they are",
    "layer": "is a layer over another file system, which may keep a copy of its own",
    "elsewhere": "leaves the writing to another program or machine",
    "journal": "with data=journal keeps a copy of what was written in its journal",
}
NOT_KNOWN = (
    "Whether the medium keeps copies of overwritten bytes is not known: SSDs, snapshots and volume managers such as "
    "LVM cannot be examined."
)


@dataclass(frozen=True)
class BlockDoubt:
    """A reason why overwritten bytes of a file may stay on the medium: a file system, and one of ``REASONS``."""

    file_system: str
    reason: str

    def __str__(self) -> str:
        return f"Overwritten bytes may stay on the medium for a while: {self.why}."

    @property
    def why(self) -> str:
        """The reason in words."""
        return f"{self.file_system} {REASONS[self.reason]}"

    def about(self, path: str | os.PathLike[str]) -> str:
        """Return the doubt about the files at a path, and what to do about it."""
        return (
            f"{os.fspath(path)} is on a file system where overwritten bytes may stay on the medium for a while: "
            f"{self.why}. Encrypt that disk, or keep models where files are overwritten in place (ext4 or XFS with "
            "default options)."
        )


class _Mount(NamedTuple):
    point: str
    kind: str
    device: str
    number: str  # of the device, such as 254:0
    options: frozenset[str]


def doubt_about_blocks(path: str | os.PathLike[str]) -> BlockDoubt | None:
    """Return why overwritten bytes of a file at this path may stay on the medium; None if no reason is known.

    None is no promise: the work of the drive (SSDs remap blocks) and of volumes (snapshots) cannot be detected. In a
    text, state ``in_words`` of it.

    Examples
    --------
    >>> from erasable.store import doubt_about_blocks, in_words
    >>> doubt_about_blocks("/proc/self/status") is None
    True
    >>> "not known" in in_words(None)
    True
    """
    mount = _mount_of(os.path.realpath(path), _read(_MOUNTS))
    if mount is None:
        return None
    if mount.kind in _COPIES:
        return BlockDoubt(mount.kind, "copies")
    if mount.kind in _LAYERS:
        return BlockDoubt(mount.kind, "layer")
    if mount.kind in _ELSEWHERE or mount.kind.startswith("fuse"):
        fuse = mount.kind.startswith("fuse")  # what follows that word is the choice of the one who mounted it
        return BlockDoubt("fuse" if fuse else mount.kind, "elsewhere")
    if mount.kind in _JOURNALS and _journals_data(mount):
        return BlockDoubt(mount.kind, "journal")
    return None


def in_words(*doubts: BlockDoubt | None) -> str:
    """Return what is known of overwritten bytes in one place, or several: each doubt, or else that nothing is known."""
    return " ".join(dict.fromkeys(str(doubt) for doubt in doubts if doubt is not None)) or NOT_KNOWN


def _mount_of(path: str, table: str) -> _Mount | None:
    """Return the mount of a path: the one with the longest name, and the last of several in one place."""
    found: _Mount | None = None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        place, what = left.split(" "), right.split(" ")
        if len(place) < 6 or len(what) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (found is None or len(point) >= len(found.point)):
            found = _Mount(point, what[0], what[1], place[2], frozenset(f"{place[5]},{what[2]}".split(",")))
    return found


def _journals_data(mount: _Mount) -> bool:
    if "data=journal" in mount.options:
        return True
    # The table of mounts leaves out what the file system has as its own default, and may call the device /dev/root.
    devices = {os.path.basename(os.path.realpath(path)) for path in (mount.device, f"/sys/dev/block/{mount.number}")}
    return any("data=journal" in _read(f"/proc/fs/{mount.kind}/{device}/options").split() for device in devices)


def _read(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
    return ""


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
