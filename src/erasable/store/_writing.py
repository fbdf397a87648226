"""Writing: a path replaced as a whole, durably, and what it held before erased. The order of the steps is the point.

1. Names for everything new (``.new``, the parts) and a second name for the old file (``.old``), all made durable by
   one folder fsync before a byte is written: from here on no crash can lose track of bytes that have to be erased.
2. The bytes, each file with its fsync.
3. The rename, and the folder fsync that makes it durable.
4. Zeros over the old file and over the parts that are not needed any more, with their fsyncs; only then their names
   are removed, ``.old`` last, and a last folder fsync. Returning is the acknowledgement.
"""

from __future__ import annotations

import errno
import hashlib
import os
from collections.abc import Iterable, Mapping
from types import MappingProxyType

from erasable.errors import ConfigurationError, InputError, NotErasedError, StateFormatError, UnknownOutcomeError
from erasable.store._access import Access, access_to, check_mode, for_folder, for_part, grant
from erasable.store._disk import Disk, close_quietly, same_file
from erasable.store._erasing import PartsOf, erase, erase_parts, overwrite, recover, refuse_other_names, write_fully
from erasable.store._failures import AS_IT_WAS, explained, failure, reason, refusal
from erasable.store._names import Place
from erasable.store._reading import LIMIT, Fetch, Parse, T, read_part, read_settled

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
        """The path holds the new bytes, durably, and the old ones are erased, once this returns.

        What is replaced hands on its permissions, owner, group, access list and attributes. Who is neither its owner
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
        """What the path holds survives a loss of power once this returns, also if whoever wrote it was killed before.

        For an answer that rests on what is there although nothing had to be written.
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
