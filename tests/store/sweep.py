"""Every moment of a change, every state that a loss of power at that moment may leave: is the promise kept?"""

from __future__ import annotations

import hashlib
import re
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace

from erasable import store
from erasable.errors import StoreError
from tests.store.simulated import BLOCK, SimulatedDisk

PATH = "/m"


def blocks(mark: str, count: int = 2, rest: int = 3) -> bytes:
    """Bytes in which every block, also the last and short one, carries the mark of the content it belongs to."""
    return "".join(f"{mark}{i:0{BLOCK - len(mark)}d}" for i in range(count)).encode() + (mark.encode() * rest)[:10]


@dataclass(frozen=True)
class Content:
    """What a path may hold: a head, the parts that it names, and the mark in every block of its own."""

    mark: str
    head: bytes
    parts: tuple[bytes, ...] = ()

    def named_parts(self) -> dict[str, list[bytes]]:
        return {hashlib.sha256(p).hexdigest(): [p[:20], p[20:]] for p in self.parts}

    def put(self, writer: store.Writer) -> None:
        writer.replace([self.head[:5], b"", memoryview(self.head)[5:]], self.named_parts())

    def names(self) -> set[str]:
        folder = {"/.m.parts/"} if self.parts else set()
        return {PATH} | folder | {f"/.m.parts/{name}" for name in self.named_parts()}

    def marks(self) -> set[bytes]:
        return {m for m in MARKS if any(m in b for b in (self.head, *self.parts))}


MARKS = {b"beforeX", b"afterXX", b"commonX", b"lastXXX"}
COMMON = blocks("commonX", 1)


def content(mark: str, *parts: bytes) -> Content:
    """A head of marked blocks that ends with the names of its parts."""
    names = b"".join(b"@" + hashlib.sha256(p).hexdigest().encode() for p in parts)
    return Content(mark, blocks(mark) + names, parts)


def with_part(mark: str) -> Content:
    """A head with a part of its own and one that others share."""
    return content(mark, blocks(mark, 1), COMMON)


BEFORE, AFTER = content("beforeX"), content("afterXX")
BEFORE_PARTS, AFTER_PARTS, LAST_PARTS = with_part("beforeX"), with_part("afterXX"), with_part("lastXXX")


def parts_of(head: bytes) -> list[str]:
    return [name.decode() for name in re.findall(rb"@([0-9a-f]{64})", head)]


def held(disk: SimulatedDisk) -> tuple[bytes, tuple[bytes, ...]] | None:
    """What a reader gets, or None when there is nothing."""
    try:
        return store.read(
            PATH, lambda head, fetch: (head, tuple(fetch(n) for n in parts_of(head))), parts_of=parts_of, disk=disk
        )
    except StoreError:
        if PATH in disk.named():
            raise
        return None


def same(got: tuple[bytes, tuple[bytes, ...]] | None, wanted: Content | None) -> bool:
    return got == (None if wanted is None else (wanted.head, wanted.parts))


def extra_names(disk: SimulatedDisk, content: Content | None) -> set[str]:
    return set(disk.named()) - {"/.m.lock"} - (content.names() if content else set())


@dataclass(frozen=True)
class Scenario:
    """A disk, what it may hold from the start, and a change of it."""

    disk: SimulatedDisk
    possible: tuple[Content | None, ...]
    change: Callable[[store.Writer], None]
    result: Content | None

    @property
    def access(self) -> dict[str, object]:
        """What the content, new or old, is to have of owner, group, permissions and attributes."""
        return PRIVATE if self.possible[0] is None else SHARED

    def run(self, disk: SimulatedDisk) -> None:
        with store.locked(PATH, parts_of=parts_of, disk=disk) as writer:
            self.change(writer)


# Whose the content is: owner, group, what its group's mask leaves, an access list, a note of somebody's.
SHARED = {
    "user": 7,
    "group": 8,
    "mode": stat.S_IFREG | 0o640,
    "attributes": (
        ("system.posix_acl_access", struct.pack("<I", 2) + struct.pack("<HHI", 1, 6, 2**32 - 1)),
        ("user.note", b"keep me"),
    ),
}
PRIVATE = {"user": 0, "group": 0, "mode": stat.S_IFREG | 0o600, "attributes": ()}


def has_access(disk: SimulatedDisk, wanted: dict[str, object]) -> bool:
    """Whether those may use the content, if there is any, who are meant to."""
    number = disk._find(PATH)
    return number is None or all(getattr(disk.inodes[number], name) == value for name, value in wanted.items())


def holding(content: Content | None) -> SimulatedDisk:
    """A disk that holds a content, durably, and has never held anything else."""
    disk = SimulatedDisk()
    with store.locked(PATH, parts_of=parts_of, disk=disk) as writer:
        if content is not None:
            content.put(writer)
    if content is not None:
        number = disk._must(PATH)
        disk.inodes[number] = replace(disk.inodes[number], **SHARED)  # type: ignore[arg-type]
    disk.fsync_folder("/")
    return disk.copy()


def replacing(before: Content | None, after: Content) -> Scenario:
    return Scenario(holding(before), (before,), after.put, after)


@dataclass
class Sweep:
    """Looks at every crash state once; ``checked`` counts them, ``found`` holds what went wrong."""

    scenario: Scenario
    make: Callable[[SimulatedDisk], SimulatedDisk] = SimulatedDisk.copy
    # Whether the medium is looked at too when the change was not acknowledged.
    deep: bool = True
    checked: int = 0
    seen: set[object] = field(default_factory=set)

    def violations(self, *, recovery_every: int = 0, kills: bool = True) -> Iterator[str]:
        """What goes wrong, in words; ``recovery_every`` takes each n-th state to crash again in its recovery."""
        moments = self.moments(self.scenario.disk, self.scenario.run)
        for number, moment in enumerate(moments):
            done = number == len(moments) - 1
            where = f"after step {number} of {len(moments) - 1} ({moment.last})"
            for state in self._unseen(moment, done):
                yield from self._check(state, done, where)
                if recovery_every and self.checked % recovery_every == 0:
                    yield from self._again(state, done, where + ", power lost")
            if kills:
                yield from self._again(moment, done, where + ", killed")

    def _again(self, state: SimulatedDisk, done: bool, where: str) -> Iterator[str]:
        """The recovery itself is cut short by a loss of power."""
        try:
            moments = self.moments(state, self._reopen)
        except StoreError as error:
            yield f"{where}: cannot be opened: {error}"
            return
        for number, moment in enumerate(moments):
            for second in self._unseen(moment, done):
                again = f"{where}, power lost at step {number} of the recovery"
                yield from self._check(second, done, again, tidy=False)

    def moments(self, start: SimulatedDisk, act: Callable[[SimulatedDisk], object]) -> list[SimulatedDisk]:
        """The disk before, after every step that changes it, and once more when the call has returned."""
        disk = self.make(start)
        moments = [disk.copy()]

        def note(now: SimulatedDisk) -> None:
            moments.append(now.copy())
            moments[-1].last = now.last

        disk.after_step = note
        act(disk)
        moments.append(disk.copy())
        return moments

    def _reopen(self, disk: SimulatedDisk) -> None:
        with store.locked(PATH, parts_of=parts_of, disk=disk):
            pass

    def _unseen(self, moment: SimulatedDisk, done: bool) -> Iterable[SimulatedDisk]:
        for state in moment.crash_states():
            key = (done, state.key())
            if key not in self.seen:
                self.seen.add(key)
                yield state

    def _check(self, crashed: SimulatedDisk, done: bool, where: str, *, tidy: bool = True) -> Iterator[str]:
        self.checked += 1
        result = self.scenario.result
        allowed = (result,) if done else (*self.scenario.possible, result)
        if done and tidy:
            if extra_names(crashed, result):
                yield f"{where}: acknowledged, and a side file is back"
            if any(m in crashed.medium() for m in MARKS - (result.marks() if result else set())):
                yield f"{where}: acknowledged, and the medium holds what was erased"
        disk = self.make(crashed)
        if self.checked % 2:
            early = None
            try:
                early = held(disk)
            except Exception as error:
                yield f"{where}: cannot be read: {error}"
                return
            if not any(same(early, c) for c in allowed):
                yield f"{where}: a reader gets neither before nor after"
                return
            # A reader makes no lock file.
            if "/.m.lock" in disk.named() and all(extra_names(disk, c) for c in allowed):
                yield f"{where}: a reader leaves what it could have erased"
        try:
            self._reopen(disk)
            got = held(disk)
        except Exception as error:
            yield f"{where}: cannot be opened: {error}"
            return
        visible = next((c for c in allowed if same(got, c)), "neither")
        if visible == "neither":
            yield f"{where}: neither before nor after"
            return
        assert not isinstance(visible, str)
        if not has_access(disk, self.scenario.access):
            yield f"{where}: others may use it than before"
        if extra_names(disk, visible):
            yield f"{where}: leftovers after the recovery"
        foreign = MARKS - (visible.marks() if visible else set())
        if any(m in data for m in foreign for data in disk.named().values()):
            yield f"{where}: a file holds what is not the content"
        if self.deep and any(m in disk.medium() for m in foreign):
            yield f"{where}: the medium holds what is not the content"
