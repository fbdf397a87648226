"""Replace a file and erase the old one, and clean up after an interruption; docs/format.md numbers the steps."""

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

# Bytes from one fsync to the next. Other programs that call fsync on this disk wait for the bytes before theirs.
_AT_ONCE = 1 << 22
# One small buffer, used again and again: fresh pages for the zeros would cost more than writing them.
_ZEROS = memoryview(bytes(1 << 20))


def write_fully(disk: Disk, descriptor: int, data: memoryview) -> None:
    """Write all bytes, although one call may take fewer; the last ones are not durable yet."""
    while data.nbytes:
        taken = disk.write(descriptor, data[:_AT_ONCE])
        if taken <= 0:
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        data = data[taken:]
        if taken == _AT_ONCE:
            disk.fsync(descriptor)


def overwrite(disk: Disk, descriptor: int, path: str) -> None:
    """Overwrite a whole file with zeros, durably; the descriptor must be at its start.

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
    """Refuse to erase a file that has a second name: erasing would destroy the content under that name, too."""
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
    # A link or a pipe under this name holds no rows; the file that a link leads to is not touched.
    disk.unlink(path)


def erase_parts(place: Place, names: Iterable[str]) -> None:
    """Overwrite and remove parts, durably, and their folder if it is empty then."""
    disk = place.disk
    for name in sorted(names):
        path = place.part(name)
        facts = place.look(path)
        if facts is not None:
            erase(disk, path, facts)
    disk.fsync_folder(place.parts)
    if not place.part_names():
        # If it holds other files, the folder stays.
        with contextlib.suppress(OSError):
            disk.rmdir(place.parts)


def has_leftovers(place: Place, parts_of: PartsOf | None) -> bool:
    """Return whether :func:`recover` has something to erase, or a change is under way."""
    if place.look(place.new) is not None or place.look(place.old) is not None:
        return True
    # A loss of power may keep the names of parts and lose the other two; without hard links, ``old`` never exists.
    return _stray_parts(place, place.look(place.head), parts_of) is not None


def refuse_lost_head(place: Place) -> None:
    """Raise StoreError if only the old content of a head exists: no crash causes this, and it may be the only copy."""
    if place.look(place.head) is None and place.look(place.old) is not None:
        message = "it holds what was there before an interrupted change. Rename it to keep it, or delete it, and run it"
        raise refusal(f"{place.head} is missing but {place.old} is there: {message} again.", errno.ENOENT)


def recover(place: Place, parts_of: PartsOf | None) -> None:
    """Erase what an interrupted change left behind; only the holder of the lock may call it.

    The head is not touched: it has the whole content from before the change, or the whole content from after.
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
    """Return the parts that the head does not refer to; None if there is nothing to clean, not even an empty folder."""
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
    """Return all parts if an interrupted first write or removal explains the missing head; otherwise refused."""
    if place.look(place.new) is None:
        sizes = [facts.st_size for name in names if (facts := place.look(place.part(name))) is not None]
        # A first write makes its names, and makes them durable, before it writes a byte.
        if any(sizes):
            message = "Put the file back if it was moved, or delete that folder, and run it again."
            raise refusal(f"{place.head} is missing but its parts are there, in {place.parts}. {message}", errno.ENOENT)
    return names


Pieces = Iterable[bytes | bytearray | memoryview]

_NO_PARTS: Mapping[str, Pieces] = MappingProxyType({})
# Errors of file systems without hard links.
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
    """Changes one path. It can be used until the block of :func:`locked` ends."""

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
        """Return whether the path exists."""
        with explained("look at", self.path):
            return self._place.look(self.path) is not None

    def read(self, parse: Parse[T], *, limit: int = LIMIT) -> T:
        """Return ``parse(head, fetch)`` of the path; nobody else can change it meanwhile."""
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
            Every part that the new head refers to, by the SHA-256 of its bytes. Parts that are on disk and match
            their names are not written again, and their iterables are not read.
        mode : int, optional
            Permissions of a new file, whatever the umask; None for those that the umask leaves.

        Raises
        ------
        StoreError
            When nothing was changed.
        NotErasedError
            When the new bytes are in place, durably, but the old ones could not be erased.
        UnknownOutcomeError
            When the path holds the old bytes or the new ones, and a loss of power may change which.
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
        """Remove the path and its parts; all their bytes are overwritten when this returns."""
        self._check_usable()
        place = self._place
        with explained("remove", place.head, AS_IT_WAS):
            before, _, doomed = self._plan(set())
            if before is None:
                raise refusal(f"{place.head} does not exist: there is nothing to remove.", errno.ENOENT)
            old = self._disk.open_to_overwrite(place.head)
        try:
            with explained("remove", place.head, AS_IT_WAS):
                # Under this name, and without a head, the next process after a crash erases it.
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
        """Return the old head, the parts to write and the parts to erase; refused if one must not be touched."""
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
                # The old head cannot be read any more in any case; a new file of that name completes the new head.
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
        """Do steps 2 to 4 up to the rename. After a failure the head is unchanged and nothing is left next to it."""
        place, disk = self._place, self._disk
        new: int | None = None
        try:
            # Comes first: it shows the next process after a kill that there is something to erase.
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
        """Create a file with this access; without ``access``, with the permissions that the umask leaves."""
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
        """Create the folder of parts, for the users who may use the head."""
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
        """Rename a file, the step that decides; a reported failure is checked, because the rename may have happened."""
        try:
            self._disk.rename(source, target)
        except OSError as error:
            # A network file system may have renamed it in spite of the error: the present name decides.
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
        """Erase what a failed change left; the head tells which of its parts are needed."""
        try:
            recover(self._place, self._parts_of)
        except Exception:
            self._spent = True
            error.add_note(f"What was half written beside {self.path} could not be removed: {_NEXT}.")

    def _settle(self, old: int | None, name: str, doomed: set[str], *, named: bool) -> None:
        """Make the rename durable and erase the old content: the rest of step 4, and step 5."""
        place, disk = self._place, self._disk
        # After a failure from here on, the next writer finishes the work: an fsync that failed is not asked twice.
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
        """Refuse further changes: the lock is about to be released."""
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
