"""A program to be killed: one change of a path, and a word when it is done. Run as a script, imported by tests."""

from __future__ import annotations

import hashlib
import os
import re
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from erasable import store

BEFORE, AFTER, COMMON = b"before-secret;", b"after-secret;", b"common-to-both;"
# The calls that leave something on the disk.
STEPS = {
    "chmod",
    "chown",
    "create",
    "fsync",
    "fsync_folder",
    "link",
    "mkdir",
    "open_to_overwrite",
    "rename",
    "rmdir",
    "set_attribute",
    "unlink",
    "write",
}


class KillingDisk(store.Disk):
    """The real disk, until the n-th call that leaves something on it: a kill comes instead, or half way through."""

    def __init__(self, n: int) -> None:
        self._left = n

    def __getattribute__(self, name: str) -> object:
        if name not in STEPS:
            return super().__getattribute__(name)
        self._left -= 1
        if self._left == 0:
            if name == "write":
                return lambda descriptor, data: (os.write(descriptor, data[: len(data) // 2]), kill())
            return lambda *arguments: kill()
        return super().__getattribute__(name)


def kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def part(mark: bytes) -> tuple[str, bytes]:
    data = mark * 2000
    return hashlib.sha256(data).hexdigest(), data


def content(mark: bytes, *, parts: bool) -> tuple[bytes, dict[str, list[bytes]]]:
    """A head, and the parts that it names at its end."""
    named = dict([part(mark), part(COMMON)]) if parts else {}
    head = mark * 3000 + b"".join(b"@" + name.encode() for name in named)
    return head, {name: [data] for name, data in named.items()}


def parts_of(head: bytes) -> list[str]:
    return [name.decode() for name in re.findall(rb"@([0-9a-f]{64})", head)]


def pieces(head: bytes) -> Iterator[bytes]:
    for start in range(0, len(head), 16_000):
        yield head[start : start + 16_000]


def put(path: Path, mark: bytes, *, parts: bool, disk: store.Disk | None = None) -> None:
    head, named = content(mark, parts=parts)
    with store.locked(path, parts_of=parts_of, disk=disk or store.Disk()) as writer:
        writer.replace(pieces(head), named)


def whole(head: bytes, fetch: store.Fetch) -> tuple[bytes, list[bytes]]:
    return head, [fetch(name) for name in parts_of(head)]


def add_words(path: Path, prefix: str, count: int) -> None:
    """Read, add a word, write: lost if anybody else gets in between."""
    for i in range(count):
        with store.locked(path) as writer:
            before = writer.read(lambda head, fetch: head) if writer.exists() else b""
            writer.replace([before, f"{prefix}{i} ".encode()])


def main(action: str, path: Path, *rest: str) -> None:
    match action, rest:
        case (("replace" | "replace-parts"), (n,)):
            put(path, AFTER, parts=action == "replace-parts", disk=KillingDisk(int(n)))
        case "remove", (n,):
            with store.locked(path, parts_of=parts_of, disk=KillingDisk(int(n))) as writer:
                writer.remove()
        case "add", (prefix, count):
            add_words(path, prefix, int(count))
        case "flip", (count,):
            for i in range(int(count)):
                put(path, (BEFORE, AFTER)[i % 2], parts=True)
        case "hold", ():
            with store.locked(path):
                print("held", flush=True)
                time.sleep(3600)
    print("acknowledged", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), *sys.argv[3:])
