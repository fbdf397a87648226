"""A disk that loses power: what POSIX lets survive, and nothing more.

The model. Data written to a file is durable after an fsync of that file; before, any subset of the blocks written
since the last one may have reached the medium, with or without the new length. A name is durable after an fsync of its
folder; before, any subset of the changes made to that folder since the last one may have reached the medium (a rename
is one change). An fsync of a file says nothing of its name. A file without a name stays on the medium, as freed blocks
do.

Owner, permissions and attributes are changed before anything is in a file; they are taken to last at once. A close that
fails gives the descriptor back all the same, as on Linux.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property

from erasable.store import Disk

BLOCK = 64
ROOT = 2
# Per moment; a test that could cross it fails instead of looking at a part only.
MOST_STATES = 20_000


@dataclass(frozen=True)
class Owned:
    """What files and folders have besides their content."""

    user: int = 0
    group: int = 0
    attributes: tuple[tuple[str, bytes], ...] = ()


@dataclass(frozen=True)
class File(Owned):
    """Content on the medium, content as programs see it, and which blocks were written since the last fsync."""

    durable: bytes = b""
    current: bytes = b""
    dirty: frozenset[int] = frozenset()
    mode: int = stat.S_IFREG | 0o644

    def survivals(self) -> list[bytes]:
        """Every content that a loss of power may leave."""
        dirty = sorted(self.dirty)
        subsets = [kept for count in range(len(dirty) + 1) for kept in itertools.combinations(dirty, count)]
        lengths = (self.durable, self.durable.ljust(len(self.current), b"\0"))
        return list(dict.fromkeys(self._with(base, kept) for base in lengths for kept in subsets))

    def _with(self, content: bytes, blocks: tuple[int, ...]) -> bytes:
        for b in blocks:
            piece = self.current[b * BLOCK : (b + 1) * BLOCK]
            content = content.ljust(b * BLOCK, b"\0")
            content = content[: b * BLOCK] + piece + content[b * BLOCK + len(piece) :]
        return content


@dataclass(frozen=True)
class Folder(Owned):
    """Names on the medium, and the changes since the last fsync, each a set of names with their inodes or None."""

    durable: tuple[tuple[str, int], ...] = ()
    pending: tuple[tuple[tuple[str, int | None], ...], ...] = ()
    mode: int = stat.S_IFDIR | 0o755

    @cached_property
    def now(self) -> dict[str, int]:
        """The names as programs see them."""
        return self.entries()

    def entries(self, kept: tuple[bool, ...] | None = None) -> dict[str, int]:
        names: dict[str, int | None] = dict(self.durable)
        for i, change in enumerate(self.pending):
            if kept is None or kept[i]:
                names.update(change)
        return {name: inode for name, inode in names.items() if inode is not None}

    def survivals(self) -> list[dict[str, int]]:
        """Every set of names that a loss of power may leave."""
        subsets = itertools.product((True, False), repeat=len(self.pending))
        return list({tuple(sorted(self.entries(kept).items())): self.entries(kept) for kept in subsets}.values())


Inode = File | Folder


@dataclass
class SimulatedDisk(Disk):
    """Files and folders in memory, with a hook after each step that changes something and one before every call."""

    inodes: dict[int, Inode] = field(default_factory=lambda: {ROOT: Folder()})
    largest_write: int = 150
    after_step: Callable[[SimulatedDisk], None] | None = None
    before_call: Callable[[str, str], None] | None = None
    open_files: dict[int, list[int]] = field(default_factory=dict)
    last: str = ""

    # Inspection

    def copy(self) -> SimulatedDisk:
        """The machine after its program was killed: what programs see is there, what is durable is another matter."""
        return type(self)(inodes=dict(self.inodes), largest_write=self.largest_write)

    def key(self) -> tuple[object, ...]:
        return tuple(sorted(self.inodes.items()))

    def crash_states(self) -> Iterator[SimulatedDisk]:
        """Every state that the machine may come back with after a loss of power at this moment."""
        choices: list[list[tuple[int, Inode]]] = []
        count = 1
        for number, inode in self.inodes.items():
            options: list[Inode]
            if isinstance(inode, File):
                options = [replace(inode, durable=c, current=c, dirty=frozenset()) for c in inode.survivals()]
            else:
                options = [replace(inode, durable=tuple(sorted(e.items())), pending=()) for e in inode.survivals()]
            count *= len(options)
            choices.append([(number, option) for option in options])
        assert count <= MOST_STATES, count
        for state in itertools.product(*choices):
            yield type(self)(inodes=dict(state), largest_write=self.largest_write)

    def named(self, number: int = ROOT, prefix: str = "") -> dict[str, bytes]:
        """Every file that a program can open, with its content."""
        found: dict[str, bytes] = {}
        folder = self.inodes[number]
        assert isinstance(folder, Folder)
        for name, inode in folder.now.items():
            node = self.inodes[inode]
            if isinstance(node, File):
                found[f"{prefix}/{name}"] = node.current
            else:
                found[f"{prefix}/{name}/"] = b""
                found.update(self.named(inode, f"{prefix}/{name}"))
        return found

    def medium(self) -> bytes:
        """All bytes on the medium, those of files without a name included."""
        return b"\n".join(node.durable for node in self.inodes.values() if isinstance(node, File))

    # The calls

    def _call(self, name: str, target: str | int = "") -> None:
        if self.before_call is not None:
            self.before_call(name, target if isinstance(target, str) else self.path_of(target))

    def _step(self, name: str) -> None:
        self.last = name
        if self.after_step is not None:
            self.after_step(self)

    def _find(self, path: str) -> int | None:
        number = ROOT
        for name in path.strip("/").split("/") if path.strip("/") else []:
            folder = self.inodes[number]
            if not isinstance(folder, Folder):
                raise NotADirectoryError(errno.ENOTDIR, "not a folder", path)
            if name not in folder.now:
                return None
            number = folder.now[name]
        return number

    def _must(self, path: str) -> int:
        number = self._find(path)
        if number is None:
            raise FileNotFoundError(errno.ENOENT, "no such file", path)
        return number

    def _change(self, folder: str, **changes: int | None) -> None:
        number = self._must(folder)
        node = self.inodes[number]
        assert isinstance(node, Folder)
        self.inodes[number] = replace(node, pending=(*node.pending, tuple(sorted(changes.items()))))

    def _open(self, number: int) -> int:
        descriptor = 3 + len(self.open_files)
        self.open_files[descriptor] = [number, 0]
        return descriptor

    def _file(self, descriptor: int) -> File:
        node = self.inodes[self.open_files[descriptor][0]]
        assert isinstance(node, File)
        return node

    def path_of(self, descriptor: int) -> str:
        """A name of an open file, or nothing."""
        number = self.open_files[descriptor][0]
        return next((p for p in self.named() if self._find(p) == number), "")

    def real_path(self, path: str) -> str:
        return path

    def open_to_read(self, path: str) -> int:
        self._call("open_to_read", path)
        return self._open(self._must(path))

    def open_to_overwrite(self, path: str) -> int:
        self._call("open_to_overwrite", path)
        return self._open(self._must(path))

    def open_to_append(self, path: str) -> int:
        self._call("open_to_append", path)
        descriptor = self._open(self._must(path))
        self.open_files[descriptor][1] = len(self._file(descriptor).current)
        return descriptor

    def create(self, path: str, mode: int) -> int:
        self._call("create", path)
        if self._find(path) is not None:
            raise FileExistsError(errno.EEXIST, "exists", path)
        number = self._new(File(mode=stat.S_IFREG | mode & 0o755), path)
        self._step("create")
        return self._open(number)

    def _new(self, node: Inode, path: str) -> int:
        number = max(self.inodes) + 1
        self.inodes[number] = node
        folder, name = os.path.split(path)
        self._change(folder, **{name: number})
        return number

    def open_lock(self, path: str) -> int:
        self._call("open_lock", path)
        number = self._find(path)
        if number is None:
            number = self._new(File(), path)
            self._step("open_lock")
        return self._open(number)

    def lock(self, descriptor: int, *, wait: bool) -> bool:
        self._call("lock")
        return True

    def unlock(self, descriptor: int) -> None:
        self._call("unlock", descriptor)

    def read(self, descriptor: int, size: int) -> bytes:
        self._call("read", descriptor)
        handle = self.open_files[descriptor]
        data = self._file(descriptor).current[handle[1] : handle[1] + size]
        handle[1] += len(data)
        return data

    def read_at(self, descriptor: int, size: int, start: int) -> bytes:
        self._call("read_at", descriptor)
        return self._file(descriptor).current[start : start + size]

    def write(self, descriptor: int, data: memoryview) -> int:
        self._call("write", descriptor)
        return self._put(descriptor, bytes(data[: self.largest_write]))

    def _put(self, descriptor: int, piece: bytes) -> int:
        number, at = self.open_files[descriptor]
        file = self._file(descriptor)
        content = file.current.ljust(at, b"\0")
        content = content[:at] + piece + content[at + len(piece) :]
        blocks = range(at // BLOCK, (at + len(piece) - 1) // BLOCK + 1)
        self.inodes[number] = replace(file, current=content, dirty=file.dirty | set(blocks))
        self.open_files[descriptor][1] = at + len(piece)
        self._step("write")
        return len(piece)

    def close(self, descriptor: int) -> None:
        path = self.path_of(descriptor)
        self.open_files[descriptor] = [0, 0]
        self._call("close", path)

    def fsync(self, descriptor: int) -> None:
        self._call("fsync", descriptor)
        self._sync(descriptor)

    def _sync(self, descriptor: int) -> None:
        file = self._file(descriptor)
        number = self.open_files[descriptor][0]
        self.inodes[number] = replace(file, durable=file.current, dirty=frozenset())
        self._step("fsync")

    def fsync_folder(self, path: str) -> None:
        self._call("fsync_folder", path)
        number = self._must(path)
        node = self.inodes[number]
        assert isinstance(node, Folder)
        self.inodes[number] = replace(node, durable=tuple(sorted(node.entries().items())), pending=())
        self._step("fsync_folder")

    def facts(self, target: str | int) -> os.stat_result:
        self._call("facts", target)
        return self._facts(self._must(target) if isinstance(target, str) else self.open_files[target][0])

    def facts_of_name(self, path: str) -> os.stat_result:
        self._call("facts_of_name", path)
        return self._facts(self._must(path))

    def _facts(self, number: int) -> os.stat_result:
        node = self.inodes[number]
        folders = [f for f in self.inodes.values() if isinstance(f, Folder)]
        links = sum(inode == number for f in folders for inode in f.now.values())
        size = len(node.current) if isinstance(node, File) else 0
        return os.stat_result((node.mode, number, 1, links, node.user, node.group, size, 0, 0, 0))

    def _set(self, descriptor: int, **changes: object) -> None:
        number = self.open_files[descriptor][0]
        self.inodes[number] = replace(self.inodes[number], **changes)  # type: ignore[arg-type]

    def chown(self, descriptor: int, user: int, group: int) -> None:
        self._call("chown", descriptor)
        facts = self._facts(self.open_files[descriptor][0])
        self._set(
            descriptor,
            user=facts.st_uid if user == -1 else user,
            group=facts.st_gid if group == -1 else group,
        )

    def chmod(self, descriptor: int, mode: int) -> None:
        self._call("chmod", descriptor)
        self._set(descriptor, mode=stat.S_IFMT(self._facts(self.open_files[descriptor][0]).st_mode) | mode)

    def attributes(self, target: str | int) -> dict[str, bytes]:
        self._call("attributes", target)
        return dict(
            self.inodes[self._must(target) if isinstance(target, str) else self.open_files[target][0]].attributes
        )

    def set_attribute(self, descriptor: int, name: str, value: bytes) -> None:
        self._call("set_attribute", descriptor)
        has = dict(self.inodes[self.open_files[descriptor][0]].attributes)
        self._set(descriptor, attributes=tuple(sorted({**has, name: value}.items())))

    def remove_attribute(self, descriptor: int, name: str) -> None:
        self._call("remove_attribute", descriptor)
        has = dict(self.inodes[self.open_files[descriptor][0]].attributes)
        del has[name]
        self._set(descriptor, attributes=tuple(sorted(has.items())))

    def link(self, source: str, target: str) -> None:
        self._call("link", target)
        number = self._must(source)
        if self._find(target) is not None:
            raise FileExistsError(errno.EEXIST, "exists", target)
        folder, name = os.path.split(target)
        self._change(folder, **{name: number})
        self._step("link")

    def rename(self, source: str, target: str) -> None:
        self._call("rename", target)
        number = self._must(source)
        folder, old = os.path.split(source)
        self._change(folder, **{old: None, os.path.basename(target): number})
        self._step("rename")

    def unlink(self, path: str) -> None:
        self._call("unlink", path)
        self._must(path)
        folder, name = os.path.split(path)
        self._change(folder, **{name: None})
        self._step("unlink")

    def names(self, path: str) -> list[str]:
        self._call("names", path)
        node = self.inodes[self._must(path)]
        assert isinstance(node, Folder)
        return list(node.entries())

    def mkdir(self, path: str) -> None:
        self._call("mkdir", path)
        if self._find(path) is not None:
            raise FileExistsError(errno.EEXIST, "exists", path)
        self._new(Folder(mode=stat.S_IFDIR | 0o700), path)
        self._step("mkdir")

    def rmdir(self, path: str) -> None:
        self._call("rmdir", path)
        if self.names(path):
            raise OSError(errno.ENOTEMPTY, "not empty", path)
        folder, name = os.path.split(path)
        self._change(folder, **{name: None})
        self._step("rmdir")
