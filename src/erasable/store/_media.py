"""On which file systems zeros written over a file do not reach the blocks that its bytes are in."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from typing import NamedTuple

_COPIES = {"apfs", "bcachefs", "btrfs", "f2fs", "nilfs2", "zfs"}
_LAYERS = {"aufs", "ecryptfs", "overlay"}
_ELSEWHERE = {"9p", "afs", "ceph", "cifs", "glusterfs", "lustre", "nfs", "nfs4", "smb3", "smbfs", "vboxsf", "virtiofs"}


class _Mount(NamedTuple):
    point: str
    kind: str
    device: str
    options: frozenset[str]


def doubt_about_blocks(path: str | os.PathLike[str]) -> str | None:
    """Why blocks of a file there may outlive being overwritten, in words; None where nothing speaks for it.

    What the drive does (SSDs remap blocks, snapshots of volumes keep them) cannot be seen from here.

    Examples
    --------
    >>> from erasable.store import doubt_about_blocks
    >>> doubt_about_blocks("/proc/self/status") is None
    True
    """
    mount = _mount_of(os.path.realpath(path), _read("/proc/self/mountinfo"))
    if mount is None:
        return None
    if mount.kind in _COPIES:
        why = f"{mount.kind} writes to new blocks and leaves the old ones as they are"
    elif mount.kind in _LAYERS:
        why = f"{mount.kind} is a layer over another file system, which may keep a copy of its own"
    elif mount.kind in _ELSEWHERE or mount.kind.startswith("fuse"):
        why = f"{mount.kind} leaves the writing to another program or machine"
    elif mount.kind in ("ext3", "ext4") and _journals_data(mount):
        why = f"{mount.kind} with data=journal keeps a copy of what was written in its journal"
    else:
        return None
    return (
        f"{os.fspath(path)} is on a file system where overwritten bytes may stay on the medium for a while: {why}. "
        "Encrypt that disk, or keep models where files are overwritten in place (ext4 or XFS as they come)."
    )


def _mount_of(path: str, table: str) -> _Mount | None:
    """The mount that a path is on: that with the longest name, and of several in one place the last."""
    found: _Mount | None = None
    for line in table.splitlines():
        left, _, right = line.partition(" - ")
        place, what = left.split(" "), right.split(" ")
        if len(place) < 6 or len(what) < 3:
            continue
        point = re.sub(r"\\([0-7]{3})", lambda octal: chr(int(octal[1], 8)), place[4])
        inside = path == point or path.startswith(point.rstrip("/") + "/")
        if inside and (found is None or len(point) >= len(found.point)):
            found = _Mount(point, what[0], what[1], frozenset(f"{place[5]},{what[2]}".split(",")))
    return found


def _journals_data(mount: _Mount) -> bool:
    # The table of mounts leaves out what the file system has as its own default.
    device = os.path.basename(os.path.realpath(mount.device))
    return "data=journal" in mount.options or "data=journal" in _read(f"/proc/fs/{mount.kind}/{device}/options").split()


def _read(path: str) -> str:
    with suppress(OSError), open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
    return ""
