"""A mark next to a file: which program manages it, so that no other one changes it behind that program's back.

``.NAME.mark`` is a JSON object of texts: ``by`` (the program), ``ask`` (where it is reached), ``command`` (what to run
to have rows forgotten) and ``id`` (drawn by the program, which may change the file as that ``id``). Its program holds
an exclusive ``flock`` on it. A mark that nobody locks was left by a program that was killed.

Anybody who may write in the folder may have written the mark: it is read only if it is a small plain file of texts that
can be shown.
"""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from contextlib import suppress
from dataclasses import asdict, dataclass

from erasable.errors import BusyError, ConfigurationError, StoreError
from erasable.store._disk import REAL_DISK, Disk, close_quietly, explained, failure, refusal, same_file
from erasable.store._files import Place, read_all, write_fully

_LARGEST = 2**14  # bytes
_LONGEST = 400  # characters of one text
_PATIENCE, _PAUSE = 2.0, 0.02  # seconds: a program that reads the mark locks it for a moment


@dataclass(frozen=True)
class Mark:
    """The program that manages a file; see the top of this module."""

    by: str
    ask: str = ""
    command: str = ""
    id: str = ""

    def __post_init__(self) -> None:
        for text in asdict(self).values():
            if len(text) > _LONGEST or not text.isprintable():
                raise ConfigurationError(f"the texts of a mark have at most {_LONGEST} printable characters.")
        if not self.by:
            raise ConfigurationError("a mark needs the name of its program.")


class HeldMark:
    """A mark that this process has set; ``remove`` it when the file may be changed by others again."""

    def __init__(self, place: Place, descriptor: int) -> None:
        self._place, self._descriptor, self._owner = place, descriptor, os.getpid()

    def remove(self) -> None:
        """Remove the mark. Calling it again, or in a forked child, does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor < 0:
            return
        if os.getpid() == self._owner:
            with suppress(OSError):
                if same_file(self._place.disk.facts_of_name(self._place.mark), self._place.disk.facts(descriptor)):
                    self._place.disk.unlink(self._place.mark)
        close_quietly(self._place.disk, descriptor)


def set_mark(path: str | os.PathLike[str], mark: Mark, *, disk: Disk = REAL_DISK) -> HeldMark:
    """Mark a file as managed by this process, until ``remove`` is called or the process ends.

    A change that another program has begun goes on: take the lock of the file once, to wait for it.

    Raises
    ------
    BusyError
        When a running program manages the file.
    StoreError
        When another program has left its mark, or the mark cannot be written.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from erasable import store
    >>> from erasable.errors import StoreError
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "m.erasable")
    ...     held = store.set_mark(path, store.Mark("my program", command="my-program forget", id="7f3a"))
    ...     try:
    ...         with store.locked(path) as writer:
    ...             pass
    ...     except StoreError as error:
    ...         print("my-program forget" in str(error))
    ...     held.remove()
    True
    """
    place = Place(path, disk)
    with explained("mark", place.head, "Nothing was changed."):
        while True:
            descriptor = _lock_of_mark(place)
            try:
                if disk.facts(descriptor).st_size == 0:
                    _write(place, descriptor, mark)
                    return HeldMark(place, descriptor)
                stale = _read(place, descriptor)
                if stale is None or stale.by != mark.by:
                    raise _refused(place, stale, running=False)
                disk.unlink(place.mark)  # this program left it when it was killed
            except BaseException:
                close_quietly(disk, descriptor)
                raise
            close_quietly(disk, descriptor)


def _write(place: Place, descriptor: int, mark: Mark) -> None:
    try:
        write_fully(place.disk, descriptor, memoryview(json.dumps(asdict(mark)).encode() + b"\n"))
        place.disk.chmod(descriptor, 0o644)
    except BaseException:
        with suppress(OSError):
            place.disk.unlink(place.mark)  # an empty mark would keep everybody from changing the file
        raise


def _lock_of_mark(place: Place) -> int:
    """A locked descriptor of the mark, which is created if it is missing; ``BusyError`` if its program runs."""
    until = time.monotonic() + _PATIENCE
    while True:
        _refuse_odd(place)
        descriptor = place.disk.open_lock(place.mark)
        try:
            if place.disk.lock(descriptor, wait=False):
                with suppress(FileNotFoundError):  # removed meanwhile: then this is no mark any more
                    if same_file(place.disk.facts_of_name(place.mark), place.disk.facts(descriptor)):
                        return descriptor
            elif time.monotonic() > until:
                managed = f"{os.path.basename(place.head)} is managed by {_program(_read(place, descriptor))} already"
                message = f"{managed}, and by one program at a time. Stop that one first, or use another file."
                raise failure(message, errno.EBUSY, BusyError)
        except BaseException:
            close_quietly(place.disk, descriptor)
            raise
        close_quietly(place.disk, descriptor)
        time.sleep(_PAUSE)


def refuse_managed(place: Place, managed_as: str | None) -> None:
    """Raise StoreError if another program manages a path, or has left its mark."""
    if place.look(place.mark) is None:
        return
    _refuse_odd(place)
    try:
        descriptor = place.disk.open_to_read(place.mark)
    except FileNotFoundError:
        return
    try:
        mark = _read(place, descriptor)
        if mark is None or not mark.id or mark.id != managed_as:
            raise _refused(place, mark, running=not place.disk.lock(descriptor, wait=False))
    finally:
        close_quietly(place.disk, descriptor)


def _refuse_odd(place: Place) -> None:
    """Refuse a mark that is no plain file: opening it could lead elsewhere, or wait."""
    facts = place.look(place.mark)
    if facts is not None and not stat.S_ISREG(facts.st_mode):
        raise refusal(f"{place.mark} is no plain file, so it is no mark of a program: delete it.", errno.EINVAL)


def _read(place: Place, descriptor: int) -> Mark | None:
    """The mark in a file; None if it cannot be read as one, also if it has characters that are not printable."""
    try:
        members = json.loads(read_all(place.disk, descriptor, place.mark, _LARGEST))
        return Mark(**{name: str(members[name]) for name in ("by", "ask", "command", "id") if name in members})
    except (StoreError, ConfigurationError, ValueError, TypeError, LookupError, RecursionError):
        return None


def _program(mark: Mark | None) -> str:
    """The program that a mark names, and where it is reached."""
    if mark is None:
        return "another program"
    return f"{mark.by} ({mark.ask})" if mark.ask else mark.by


def _refused(place: Place, mark: Mark | None, *, running: bool) -> StoreError:
    """The error that says which program manages a file, and what to do."""
    managed = f"{os.path.basename(place.head)} is managed by {_program(mark)}"
    if running:
        instead = "Ask that program."
        if mark is not None and mark.command:
            instead = f"Ask that program; to forget rows, run: {mark.command}"
        message = f"{managed}, and only that program may change it. Nothing was changed. {instead}"
    else:
        message = (
            f"{managed}, which does not run now. Nothing was changed. Start that program and ask it; if it is not used "
            f"any more, delete {place.mark} and run this again."
        )
    return refusal(message, errno.EBUSY)
