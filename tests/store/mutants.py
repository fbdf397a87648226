"""Disks on which one step of the writing does not happen, or happens too late: each must be found out."""

from __future__ import annotations

import errno

from tests.store.simulated import SimulatedDisk


class NoHeadFsync(SimulatedDisk):
    def fsync(self, descriptor: int) -> None:
        if self.path_of(descriptor) != "/.m.new" or not any(self._file(descriptor).current):
            super().fsync(descriptor)


class NoPartFsync(SimulatedDisk):
    def fsync(self, descriptor: int) -> None:
        if "parts/" not in self.path_of(descriptor) or not any(self._file(descriptor).current):
            super().fsync(descriptor)


class NoZerosFsync(SimulatedDisk):
    def fsync(self, descriptor: int) -> None:
        if any(self._file(descriptor).current):
            super().fsync(descriptor)


class NoFsyncOfNewNames(SimulatedDisk):
    """The folder is not synced between making the names and writing the bytes."""

    def fsync_folder(self, path: str) -> None:
        if path != "/" or self.last not in ("create", "link"):
            super().fsync_folder(path)


class NoFsyncOfPartNames(SimulatedDisk):
    def fsync_folder(self, path: str) -> None:
        if "parts" not in path or self.last != "create":
            super().fsync_folder(path)


class NoFsyncOfRename(SimulatedDisk):
    """The folder is not synced before the old file is overwritten."""

    def fsync_folder(self, path: str) -> None:
        if self.last != "rename":
            super().fsync_folder(path)


class NoLastFsync(SimulatedDisk):
    def fsync_folder(self, path: str) -> None:
        if path != "/" or self.last not in ("unlink", "rmdir"):
            super().fsync_folder(path)


class NoFsyncOfRemovedParts(SimulatedDisk):
    def fsync_folder(self, path: str) -> None:
        if "parts" not in path or self.last != "unlink":
            super().fsync_folder(path)


class OverwritesBeforeFsync(SimulatedDisk):
    """The folder fsync of the rename comes, but only after the zeros."""

    late = False

    def fsync_folder(self, path: str) -> None:
        if self.last == "rename":
            self.late = True
        else:
            super().fsync_folder(path)

    def fsync(self, descriptor: int) -> None:
        super().fsync(descriptor)
        if self.late:
            self.late = False
            super().fsync_folder("/")


class CopiesInPlace(SimulatedDisk):
    """The new bytes are written over the old ones instead of taking their name."""

    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EPERM, "with a second name the writer would notice by itself", target)

    def rename(self, source: str, target: str) -> None:
        new, old = self._must(source), self._find(target)
        if old is None or target != "/m":
            super().rename(source, target)
            return
        descriptor = self._open(old)
        self._put(descriptor, self.inodes[new].current)  # type: ignore[union-attr]
        self._sync(descriptor)
        self.unlink(source)

    def write(self, descriptor: int, data: memoryview) -> int:
        # The old file is the new one here: spare it the zeros, so that only the copying itself is judged.
        if not any(data) and self.open_files[descriptor][0] == self._find("/m"):
            return len(data)
        return super().write(descriptor, data)


class NoOverwrite(SimulatedDisk):
    def write(self, descriptor: int, data: memoryview) -> int:
        return super().write(descriptor, data) if any(data) else len(data)


class NoLink(SimulatedDisk):
    def link(self, source: str, target: str) -> None:
        raise OSError(errno.EPERM, "no hard links here", target)


class UnlinksBeforeZeros(SimulatedDisk):
    """The last name of the old file goes, durably, before the zeros come."""

    def write(self, descriptor: int, data: memoryview) -> int:
        if not any(data) and self.path_of(descriptor) == "/.m.old":
            super().unlink("/.m.old")
            super().fsync_folder("/")
        return super().write(descriptor, data)

    def unlink(self, path: str) -> None:
        if self._find(path) is not None:
            super().unlink(path)


class NoFsyncInRecovery(SimulatedDisk):
    """Whoever comes after a killed writer overwrites without making the rename durable first."""

    def fsync_folder(self, path: str) -> None:
        # The first steps of a recovery: the lock file is opened, perhaps made, and the head synced.
        recovering = self.last in ("", "open_lock", "fsync")
        if not (recovering and ({"/.m.new", "/.m.old"} & set(self.named()))):
            super().fsync_folder(path)
