"""What only root can try: files of several users, and access lists."""

from __future__ import annotations

import os
import shutil
import struct
import tempfile
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

ACL = "system.posix_acl_access"
ALICE, BOB, EVE = 50_001, 50_002, 50_003
TEAM = 50_100
_KINDS = {"user": 1, "named user": 2, "group": 4, "named group": 8, "mask": 16, "others": 32}
NOBODY = 2**32 - 1


def acl(*entries: tuple[str, int] | tuple[str, int, int]) -> bytes:
    """An access list as the system stores it: kind, rights and, where it is named, whose."""
    packed = (struct.pack("<HHI", _KINDS[kind], rights, *(whose or [NOBODY])) for kind, rights, *whose in entries)
    return struct.pack("<I", 2) + b"".join(packed)


def rights(path: Path) -> tuple[int, int, int, bytes | None]:
    """Owner, group, permissions and access list."""
    facts = path.stat()
    listed = os.getxattr(path, ACL) if ACL in os.listxattr(path) else None
    return facts.st_uid, facts.st_gid, facts.st_mode & 0o7777, listed


def may(path: Path, flags: int, user: int, *groups: int) -> bool:
    """Whether a user of these groups can open a file."""

    def attempt() -> None:
        os.close(os.open(path, flags))

    return run_as(user, groups, attempt, quietly=True)


def run_as(user: int, groups: tuple[int, ...], act: Callable[[], object], *, quietly: bool = False) -> bool:
    """Whether a function went through, in a child that is this user; its own group has the user's number."""
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            os.setgroups(groups)
            os.setgid(user)
            os.setuid(user)
            act()
            code = 0
        except BaseException:
            if not quietly:
                traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0


def open_folder() -> Iterator[Path]:
    """A folder that every user can reach and write to, on a file system with access lists."""
    if not hasattr(os, "setxattr") or os.geteuid() != 0:
        pytest.skip("only root on Linux can be several users")
    folder = Path(tempfile.mkdtemp(prefix="erasable-"))
    try:
        folder.chmod(0o777)
        tried = folder / "tried"
        tried.touch()
        try:
            os.setxattr(tried, ACL, acl(("user", 6), ("named user", 4, EVE), ("group", 0), ("mask", 4), ("others", 0)))
        except OSError:
            pytest.skip("this file system has no access lists")
        tried.unlink()
        yield folder
    finally:
        shutil.rmtree(folder)
