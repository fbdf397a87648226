"""Open a path: to read it, or as its only writer, who replaces the file and erases the old one."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import MappingProxyType

from erasable.errors import (
    ConfigurationError,
    InputError,
    NotErasedError,
    StateFormatError,
    UnknownOutcomeError,
)
from erasable.store._disk import (
    AS_IT_WAS,
    REAL_DISK,
    Access,
    Disk,
    access_to,
    check_mode,
    close_quietly,
    explained,
    failure,
    for_folder,
    for_part,
    grant,
    reason,
    refusal,
    same_file,
)
from erasable.store._files import (
    LIMIT,
    Fetch,
    Parse,
    PartsOf,
    Place,
    T,
    digest_of_head,
    erase,
    erase_parts,
    has_leftovers,
    holding_lock,
    overwrite,
    read_part,
    read_settled,
    recover,
    refuse_lost_head,
    refuse_other_names,
    write_fully,
)
from erasable.store._marks import refuse_managed

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

    def holds(self, digest: str) -> bool:
        """Return whether the bytes of the path, without its parts, have this SHA-256; they are read piece by piece."""
        with explained("read", self.path):
            return digest_of_head(self._place) == digest

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
            error.add_note(f"What was half written next to {self.path} could not be removed: {_NEXT}.")

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


def read(
    path: str | os.PathLike[str],
    parse: Parse[T],
    *,
    parts_of: PartsOf | None = None,
    limit: int = LIMIT,
    disk: Disk = REAL_DISK,
) -> T:
    """Return ``parse(head, fetch)`` of the content of ``path``: all of it from before a change, or all from after.

    It takes no lock and waits for no writer. If the path is replaced while ``parse`` runs, ``parse`` is called again.
    Leftovers of an interrupted change are erased first if the lock is free and the folder is writable.

    Parameters
    ----------
    path : str or path-like
        The file, or a symbolic link to it.
    parse : callable
        Called with the bytes of the head and ``fetch``, a function from the name of a part to its bytes.
    parts_of : callable, optional
        The names of the parts that a head (bytes) refers to; only used to erase leftovers.
    limit : int
        The most bytes that the head, or one part, may have.
    disk : Disk
        The system calls to use.

    Raises
    ------
    StoreError
        When the path cannot be read; the message states why.
    StateFormatError
        When the bytes of a part do not match its name. Errors of ``parse`` are passed on.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable import store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "m.erasable")
    ...     _ = path.write_bytes(b"rows")
    ...     store.read(path, lambda head, fetch: len(head))
    4
    """
    # Side files are next to the real file, not next to a link to it.
    place = Place(disk.real_path(Place(path, disk).head), disk)
    # Cleaning up is optional: a failure of it must not fail the read.
    with contextlib.suppress(Exception):
        _erase_leftovers(place, parts_of)
    with explained("read", place.head):
        refuse_lost_head(place)
    return read_settled(place, parse, limit)


def _erase_leftovers(place: Place, parts_of: PartsOf | None) -> None:
    if not has_leftovers(place, parts_of) and place.look(place.head) is not None:
        return
    # Without parts_of, leave them: they show the next process that parts may have to be erased too. And make no lock
    # file: it would belong to a user who may only read, and would shut out the users who write.
    if (parts_of is None and place.look(place.parts) is not None) or place.look(place.lock) is None:
        return
    with holding_lock(place, 0.0):
        recover(place, parts_of)
        _remove_unused_lock(place)


@contextmanager
def locked(
    path: str | os.PathLike[str],
    *,
    parts_of: PartsOf | None = None,
    timeout: float | None = None,
    managed_as: str | None = None,
    disk: Disk = REAL_DISK,
) -> Iterator[Writer]:
    """Return the only writer of ``path`` while the block runs; leftovers of an interrupted change are erased first.

    Parameters
    ----------
    path : str or path-like
        The file, which need not exist yet; its folder must. A symbolic link is refused.
    parts_of : callable, optional
        The names of the parts that a head (bytes) refers to. Without it, parts on disk are left alone on entry.
    timeout : float, optional
        Seconds to wait for another writer; by default without limit.
    managed_as : str, optional
        The ``id`` of the mark of the program that manages the file, if it is this one: see ``set_mark``.
    disk : Disk
        The system calls to use.

    Raises
    ------
    BusyError
        When another writer held the lock for longer than ``timeout``.
    StoreError
        When the path cannot be written, or another program manages it; the message states why. Nothing was changed.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable import store
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "m.erasable")
    ...     with store.locked(path) as writer:
    ...         writer.replace([b"rows of ", b"three people"])
    ...         writer.replace([writer.read(lambda head, fetch: head.replace(b"three", b"two"))])
    ...     store.read(path, lambda head, fetch: head)
    b'rows of two people'
    """
    place = Place(path, disk)
    with explained("write", place.head, "Nothing was changed."):
        place.check_writable_kind()
        refuse_managed(place, managed_as)
    owner = os.getpid()
    with holding_lock(place, timeout):
        with explained("write", place.head, "Nothing was changed."):
            refuse_managed(place, managed_as)  # it may have been marked while this writer waited
        with explained("clean up after an interrupted change of", place.head, "What it holds was not touched."):
            recover(place, parts_of)
        writer = Writer(place, parts_of)
        try:
            yield writer
        finally:
            writer.close()
            if os.getpid() == owner:  # in a forked child the lock is still the parent's
                _remove_unused_lock(place)


def _remove_unused_lock(place: Place) -> None:
    """Remove the lock file if there is no model: it would be the only trace of a change that did not happen.

    A process that waits for this lock notices that the file was removed, and makes a new one.
    """
    with contextlib.suppress(OSError):
        if all(place.look(path) is None for path in (place.head, place.new, place.old, place.parts)):
            place.disk.unlink(place.lock)
