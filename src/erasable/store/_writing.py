"""Replace a file and erase what it replaces: the writer, and what it recovers after an interruption."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType

from erasable.errors import (
    ConfigurationError,
    ErasableError,
    InputError,
    NotErasedError,
    StateFormatError,
    UnknownOutcomeError,
)
from erasable.store._disk import AS_IT_WAS, Disk, close_quietly, explained, failure, reason, refusal, same_file
from erasable.store._files import (
    LIMIT,
    Access,
    Fetch,
    Parse,
    Place,
    T,
    access_to,
    check_mode,
    for_folder,
    for_part,
    grant,
    read_all,
    read_part,
    read_settled,
)

PartsOf = Callable[[bytes], Iterable[str]]

# Bytes from one fsync to the next: whoever makes another file of that disk durable waits for what lies before it.
_AT_ONCE = 1 << 22
# One small buffer, used again and again: fresh pages for the zeros would cost more than writing them.
_ZEROS = memoryview(bytes(1 << 20))


def write_fully(disk: Disk, descriptor: int, data: memoryview) -> None:
    """All of the bytes written, the last of them not durable yet: the system may take fewer at a time."""
    while data.nbytes:
        taken = disk.write(descriptor, data[:_AT_ONCE])
        if taken <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = data[taken:]
        if taken == _AT_ONCE:
            disk.fsync(descriptor)


def overwrite(disk: Disk, descriptor: int, path: str) -> None:
    """Zeros over the whole of a file, made durable; the descriptor must stand at its start.

    The file keeps its length: cutting it would free blocks that the zeros have not reached yet.
    """
    facts = disk.facts(descriptor)
    refuse_other_names(path, facts)
    left = facts.st_size
    while left > 0:
        size = min(left, _ZEROS.nbytes)
        write_fully(disk, descriptor, _ZEROS[:size])
        left -= size
        if left % _AT_ONCE == 0:
            disk.fsync(descriptor)
    disk.fsync(descriptor)


def refuse_other_names(path: str, facts: os.stat_result) -> None:
    """Refuse to erase a file that has a second name: the content of that one would go too."""
    if facts.st_nlink > 1:
        message = "has another name (a hard link), whose content would be erased with it"
        raise refusal(f"{path} {message}: remove that name and run it again.", errno.EMLINK)


def erase(disk: Disk, path: str, facts: os.stat_result) -> None:
    """Overwrite a file, then remove its name. The caller's next fsync of the folder makes the removal durable."""
    if stat.S_ISREG(facts.st_mode):
        descriptor = disk.open_to_overwrite(path)
        try:
            overwrite(disk, descriptor, path)
        finally:
            close_quietly(disk, descriptor)
    # A link or a pipe under one of our names holds nothing of ours; what it leads to is not touched.
    disk.unlink(path)


def erase_parts(place: Place, names: Iterable[str]) -> None:
    """Parts overwritten and removed, durably; their folder too, once nothing is in it."""
    disk = place.disk
    for name in sorted(names):
        path = place.part(name)
        facts = place.look(path)
        if facts is not None:
            erase(disk, path, facts)
    disk.fsync_folder(place.parts)
    if not place.part_names():
        # Something that is not ours may be in there: then the folder stays.
        with contextlib.suppress(OSError):
            disk.rmdir(place.parts)


def has_leftovers(place: Place, parts_of: PartsOf | None) -> bool:
    """Whether there is something for :func:`recover` to erase, or a change under way."""
    if place.look(place.new) is not None or place.look(place.old) is not None:
        return True
    # A loss of power may have kept the names of parts and lost the other two; and there may be no hard links.
    return _stray_parts(place, place.look(place.head), parts_of) is not None


def refuse_lost_head(place: Place) -> None:
    """Refuse if the head is missing but its old content exists: no crash causes this, and it may be the only copy.

    Raises
    ------
    StoreError
    """
    if place.look(place.head) is None and place.look(place.old) is not None:
        message = "it holds what was there before an interrupted change. Rename it to keep it, or delete it, and run it"
        raise refusal(f"{place.head} is missing but {place.old} is there: {message} again.", errno.ENOENT)


def recover(place: Place, parts_of: PartsOf | None) -> None:
    """What an interrupted change left behind, erased; for the holder of the lock only.

    What the head holds is not touched: it is wholly the content from before or wholly that from after.
    """
    disk = place.disk
    head = place.check_writable_kind()
    new, old = place.look(place.new), place.look(place.old)
    stray = _stray_parts(place, head, parts_of)
    if new is None and old is None and stray is None:
        return
    refuse_lost_head(place)
    # A killed writer may have renamed without the fsync that makes it durable. Zeros written before that
    # fsync could outlive the rename, and the name would then lead to the zeros.
    if head is not None:
        descriptor = disk.open_to_read(place.head)
        try:
            disk.fsync(descriptor)
        finally:
            close_quietly(disk, descriptor)
    disk.fsync_folder(place.folder)
    if stray is not None:
        erase_parts(place, stray)
    for path, facts in ((place.new, new), (place.old, old)):
        if facts is None:
            continue
        if head is not None and same_file(facts, head):
            disk.unlink(path)
        else:
            erase(disk, path, facts)
    disk.fsync_folder(place.folder)


def _stray_parts(place: Place, head: os.stat_result | None, parts_of: PartsOf | None) -> set[str] | None:
    """Parts that the head does not refer to; None when there is nothing to clean, not even an empty folder."""
    if place.look(place.parts) is None:
        return None
    names = place.part_names()
    if not names:
        return set() if not place.disk.names(place.parts) else None
    if parts_of is None:
        return None
    if head is None:
        return _abandoned_parts(place, names)
    descriptor = place.disk.open_to_read(place.head)
    try:
        data = read_all(place.disk, descriptor, place.head, LIMIT)
    finally:
        close_quietly(place.disk, descriptor)
    try:
        return (names - set(parts_of(data))) or None
    except ErasableError:
        # A head that cannot be read does not say which parts are needed: keep them all.
        return None


def _abandoned_parts(place: Place, names: set[str]) -> set[str]:
    """All parts, where a first write or a removal that was cut short explains that there is no head; else refused."""
    if place.look(place.new) is None:
        sizes = [facts.st_size for name in names if (facts := place.look(place.part(name))) is not None]
        # A first write makes its names, and makes them durable, before it writes a byte.
        if any(sizes):
            message = "Put the file back if it was moved, or delete that folder, and run it again."
            raise refusal(f"{place.head} is missing but its parts are there, in {place.parts}. {message}", errno.ENOENT)
    return names


Pieces = Iterable[bytes | bytearray | memoryview]

_NO_PARTS: Mapping[str, Pieces] = MappingProxyType({})
# What file systems without hard links answer.
_NO_LINKS = {errno.EPERM, errno.EACCES, errno.EMLINK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_PLACED = "The new content is in place and durable"
_NEXT = "the next one to open the file for writing tries again"
_NOT_ERASED = f"{_PLACED}, but not all of the old one could be erased: {_NEXT}."
_LOOSE = "The new content is in place, but it may not survive a loss of power, and the old one is not erased"
_PERHAPS = f"{_LOOSE}: {_NEXT}."
_UNKNOWN = f"Whether the new content is in place could not be found out: {_NEXT}."

#: Permissions of a new file: it holds rows of people.
PRIVATE = 0o600


class Writer:
    """The right to change one path, as long as the block of :func:`locked` lasts."""

    def __init__(self, place: Place, parts_of: PartsOf | None) -> None:
        self._place = place
        self._disk = place.disk
        self._parts_of = parts_of
        self._owner: int | None = os.getpid()
        self._spent = False
        # Parts whose bytes were compared with their name under this lock.
        self._sound: set[str] = set()

    @property
    def path(self) -> str:
        """The absolute path that this writer may change."""
        return self._place.head

    def exists(self) -> bool:
        """Whether the path holds anything yet."""
        with explained("look at", self.path):
            return self._place.look(self.path) is not None

    def read(self, parse: Parse[T], *, limit: int = LIMIT) -> T:
        """What ``parse(head, fetch)`` makes of the path; it cannot change before it is replaced here."""
        return read_settled(self._place, lambda head, _: parse(head, self._fetch(limit)), limit)

    def replace(self, pieces: Pieces, parts: Mapping[str, Pieces] = _NO_PARTS, *, mode: int | None = PRIVATE) -> None:
        """Replace what the path holds; on return the new bytes are durable and the old ones erased.

        The new file takes over permissions, owner, group, access list and attributes. A caller who is neither the owner
        nor the administrator becomes the owner.

        Parameters
        ----------
        pieces : iterable of bytes-like
            The head, piece by piece; pieces are written as they are, never joined.
        parts : mapping of str to iterable of bytes-like
            Every part that the new head refers to, by the SHA-256 of its bytes. Those on disk already are not
            written again (nor is their iterable touched) once their bytes were compared with their name.
        mode : int, optional
            Permissions where the path held nothing before, whatever the umask; None for those that the umask leaves.

        Raises
        ------
        StoreError
            Nothing was changed: the path holds what it held.
        NotErasedError
            The new bytes are in place, durably, but the old ones could not be erased.
        UnknownOutcomeError
            The path holds the old bytes or the new ones, and after a loss of power perhaps the others.
        """
        self._check_usable()
        check_mode(mode)
        if parts and self._parts_of is None:
            raise ConfigurationError("parts need parts_of: open the file with locked(path, parts_of=...).")
        place = self._place
        old: int | None = None
        try:
            with explained("write", place.head, AS_IT_WAS):
                before, fresh, doomed = self._plan(set(parts))
                access = None if mode is None else Access(mode)
                if before is not None:
                    old = self._disk.open_to_overwrite(place.head)
                    access = access_to(self._disk, old)
                self._write(access, old, pieces, {name: parts[name] for name in fresh})
            self._sound.update(fresh)
            self._settle(old, place.old, doomed, named=before is not None)
        finally:
            if old is not None:
                close_quietly(self._disk, old)

    def make_durable(self) -> None:
        """Make what the path holds durable, even if the process that wrote it was killed.

        Call it when the answer depends on existing content and nothing was written.
        """
        self._check_usable()
        place = self._place
        with explained("make durable", place.head):
            descriptor = self._disk.open_to_read(place.head)
            try:
                self._disk.fsync(descriptor)
            finally:
                close_quietly(self._disk, descriptor)
            self._disk.fsync_folder(place.folder)

    def remove(self) -> None:
        """The path, its parts and all their bytes are gone once this returns."""
        self._check_usable()
        place = self._place
        with explained("remove", place.head, AS_IT_WAS):
            before, _, doomed = self._plan(set())
            if before is None:
                raise refusal(f"{place.head} does not exist: there is nothing to remove.", errno.ENOENT)
            old = self._disk.open_to_overwrite(place.head)
        try:
            with explained("remove", place.head, AS_IT_WAS):
                # Under this name, and without a head, it is rubbish to whoever comes after a crash.
                self._rename(place.head, place.new, self._disk.facts(old))
            self._settle(old, place.new, doomed, named=True)
        finally:
            close_quietly(self._disk, old)

    def _check_usable(self) -> None:
        if self._owner != os.getpid():
            raise refusal(f"the lock of {self.path} is not held any more: open it again.", errno.EBADF)
        if self._spent:
            raise refusal(f"an earlier change of {self.path} failed half way: open it again.", errno.EBADF)

    def _fetch(self, limit: int) -> Fetch:
        def fetch(name: str) -> bytes:
            data = read_part(self._place, name, limit)
            self._sound.add(name)
            return data

        return fetch

    def _plan(self, wanted: set[str]) -> tuple[os.stat_result | None, list[str], set[str]]:
        """The old head, the parts to write and the parts to erase; refused if something must not be touched."""
        place = self._place
        before = place.check_writable_kind()
        paths = {name: place.part(name) for name in sorted(wanted)}
        present = place.part_names()
        doomed = present - wanted
        for path in ([place.head] if before is not None else []) + [place.part(name) for name in sorted(doomed)]:
            facts = place.look(path)
            if facts is not None:
                refuse_other_names(path, facts)
        fresh = []
        for name, path in paths.items():
            if name not in present:
                fresh.append(name)
            elif not self._is_sound(name):
                # Whoever reads the old head fails already; a new file of that name makes the new head whole.
                facts = self._disk.facts_of_name(path)
                refuse_other_names(path, facts)
                erase(self._disk, path, facts)
                fresh.append(name)
        return before, fresh, doomed

    def _is_sound(self, name: str) -> bool:
        if name in self._sound:
            return True
        try:
            self._fetch(LIMIT)(name)
        except StateFormatError:
            return False
        return True

    def _write(self, access: Access | None, old: int | None, pieces: Pieces, parts: Mapping[str, Pieces]) -> None:
        """Steps 1 to 3 up to the rename; whatever fails, the head stays as it was and nothing is left beside it."""
        place, disk = self._place, self._disk
        new: int | None = None
        try:
            # First of all: it is the sign for whoever comes after a kill that there is something to erase.
            new = self._create(place.new, access)
            if old is not None:
                self._keep_second_name(old)
            if parts:
                self._make_folder(access)
            for name in parts:
                close_quietly(disk, self._create(place.part(name), access and access.by(for_part)))
            if parts:
                disk.fsync_folder(place.parts)
            disk.fsync_folder(place.folder)
            for name, content in parts.items():
                self._write_part(name, content)
            for piece in pieces:
                _pour(disk, new, piece)
            disk.fsync(new)
            self._rename(place.new, place.head, disk.facts(new))
        except UnknownOutcomeError:
            raise
        except BaseException as error:
            self._abandon(error)
            raise
        finally:
            if new is not None:
                close_quietly(disk, new)

    def _create(self, path: str, access: Access | None) -> int:
        """A new file that those may use who are meant to; without ``access``, as the umask says."""
        if access is None:
            return self._disk.create(path, 0o666)
        descriptor = self._disk.create(path, 0o600)
        try:
            grant(self._disk, descriptor, access)
        except BaseException:
            close_quietly(self._disk, descriptor)
            raise
        return descriptor

    def _make_folder(self, access: Access | None) -> None:
        """The folder of parts, for those who may use the head."""
        place, disk = self._place, self._disk
        if place.look(place.parts) is not None:
            return
        disk.mkdir(place.parts)
        descriptor = disk.open_to_read(place.parts)
        try:
            if access is not None:
                grant(disk, descriptor, access.by(for_folder))
        finally:
            close_quietly(disk, descriptor)

    def _keep_second_name(self, old: int) -> None:
        place = self._place
        try:
            self._disk.link(place.head, place.old)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            # Without hard links the old file is erased through the open descriptor. Only a crash between the
            # rename and the zeros then leaves its blocks on the disk, without a name.
            return
        if not same_file(self._disk.facts_of_name(place.old), self._disk.facts(old)):
            raise refusal(f"{place.head} was replaced by a program that does not take the lock.", errno.EBUSY)

    def _write_part(self, name: str, content: Pieces) -> None:
        path = self._place.part(name)
        digest = hashlib.sha256()
        descriptor = self._disk.open_to_overwrite(path)
        try:
            for piece in content:
                digest.update(piece)
                _pour(self._disk, descriptor, piece)
            self._disk.fsync(descriptor)
        finally:
            close_quietly(self._disk, descriptor)
        if digest.hexdigest() != name:
            raise InputError("a part must be named by the SHA-256 of its bytes; one is not. The file is as it was.")

    def _rename(self, source: str, target: str, moved: os.stat_result) -> None:
        """The step that counts; a failure that is reported need not be one."""
        try:
            self._disk.rename(source, target)
        except OSError as error:
            # A network file system may have done it all the same: what is there now decides.
            try:
                now = self._place.look(target)
            except OSError:
                self._spent = True
                what, advice = reason(error)
                message = f"could not write {self.path}: {what}. {_UNKNOWN} {advice}"
                raise failure(message, error.errno or 0, UnknownOutcomeError) from error
            if now is None or not same_file(now, moved):
                raise

    def _abandon(self, error: BaseException) -> None:
        """Nothing left of a change that failed; the head itself says which of its parts are needed."""
        try:
            recover(self._place, self._parts_of)
        except Exception:
            self._spent = True
            error.add_note(f"What was half written beside {self.path} could not be removed: {_NEXT}.")

    def _settle(self, old: int | None, name: str, doomed: set[str], *, named: bool) -> None:
        """The rest of step 3, and step 4."""
        place, disk = self._place, self._disk
        # Whatever fails from here on is for the next one to open the file: an fsync that failed is not asked twice.
        self._spent = True
        with explained("make durable the change of", place.head, _PERHAPS, UnknownOutcomeError):
            disk.fsync_folder(place.folder)
        with explained("erase the old content of", place.head, _NOT_ERASED, NotErasedError):
            if old is not None:
                overwrite(disk, old, name)
            if doomed:
                erase_parts(place, doomed)
            if named:
                _unlink_if_there(disk, name)
            disk.fsync_folder(place.folder)
        self._sound -= doomed
        self._spent = False

    def close(self) -> None:
        """No more changes: the lock is about to be given back."""
        self._owner = None


def _pour(disk: Disk, descriptor: int, piece: bytes | bytearray | memoryview) -> None:
    view = memoryview(piece)
    if view.nbytes:
        write_fully(disk, descriptor, view.cast("B"))


def _unlink_if_there(disk: Disk, path: str) -> None:
    try:
        disk.unlink(path)
    except FileNotFoundError:
        return
