"""``save``: a model's state as a file that lasts."""

from __future__ import annotations

import os
import stat
import warnings
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import MappingProxyType
from typing import Any

from erasable.core.layout import LONGEST_HEADER, check_size, read_meta
from erasable.core.shards import Files, shards_of
from erasable.errors import ChangedMeanwhileError, NotErasedError, StateFormatError, StoreError, UnknownOutcomeError
from erasable.store import LARGEST, PRIVATE, Writer, locked

_LARGE = 2**25  # bytes


class Savable:
    """A model whose whole state can be a file."""

    # For each path that this model was loaded from or saved to, the checksum that the file had then. One for a path:
    # an older one may be that of the file again once others have forgotten what this model still holds. Beside the
    # state: never written or pickled.
    _on_disk: Mapping[str, str] = MappingProxyType({})

    @abstractmethod
    def _files(self) -> Files:
        """The canonical bytes of the state."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, mode: int = PRIVATE) -> None:
        """Write the state to a file: on return it is durable, and what the file held before is erased.

        The bytes are a pure function of the state: whatever was learnt and forgotten on the way, equal states give
        equal files, and ``sha256sum`` of the file is ``state_digest()`` (unless the state is so large that it is
        written as several files).

        Parameters
        ----------
        path : str or path
            The file. Other processes may read it meanwhile; one that is changing it is waited for.
        overwrite : bool, default=False
            Replace a file that holds something else than this model was loaded from or saved to. Otherwise that is
            refused: it would bring back rows that were forgotten there.
        mode : int, default=0o600
            Permissions of a new file, whatever the umask: it holds rows of people. A file that is there keeps its own,
            its owner, group and access list.

        Raises
        ------
        StoreError
            When the file cannot be written; it is then as it was.
        NotErasedError
            When the file was written, but what it held before could not be erased: save again.
        UnknownOutcomeError
            When the file holds this or what it held before, and which could not be found out, or not made to last.
        ChangedMeanwhileError
            When the file holds something else.

        Warns
        -----
        UserWarning
            When rows came with names of columns and ``feature_names`` was not given, so that the file has no names.

        Notes
        -----
        Where several processes change one file, use ``ModelFile``: a checksum cannot tell a file that did not change
        from one that others changed and changed back.
        """
        files = self._files()
        if getattr(self, "feature_names", ()) is None and hasattr(self, "feature_names_in_"):
            warnings.warn(
                "the rows had names of columns, which are no part of the state: a model loaded from the file will take "
                "columns by their places. Make the model with feature_names= to have them stored.",
                stacklevel=2,
            )
        with locked(path, parts_of=shards_of) as writer:
            where = os.path.realpath(writer.path)  # its folder may have several names
            there = checksum_of_file(writer) if writer.exists() else None
            if writer.exists() and not overwrite and there is None:
                raise ChangedMeanwhileError(
                    f"{os.fspath(path)!s} is there already and holds no model: choose another name, or say "
                    "overwrite=True to replace it."
                )
            if there is not None and not overwrite and there != self._on_disk.get(where):
                raise ChangedMeanwhileError(
                    f"{os.fspath(path)!s} holds another model, or this one changed since it was loaded: saving could "
                    "bring back rows that were forgotten there. Load it anew and change that model, or say "
                    "overwrite=True to replace it."
                )
            tied = {**self._on_disk, where: checksum_of(files)}
            try:
                write(writer, files, mode)
            except (NotErasedError, UnknownOutcomeError):
                self._on_disk = tied
                raise
            self._on_disk = tied


def write(writer: Writer, files: Files, mode: int = PRIVATE) -> None:
    """Replace what the path holds by these files; refused if nobody could read them again."""
    size = max(sum(memoryview(p).nbytes for p in pieces) for pieces in (files.head, *files.parts.values()))
    if size > LARGEST:
        raise StoreError(f"the model needs a file of {size:,} bytes; at most {LARGEST:,} are read: store fewer rows.")
    writer.replace(files.head, files.parts, mode=mode)


def checksum_of(files: Files) -> str:
    """The checksum in the header of what is to be written."""
    return str(read_meta(files.head[0])["checksum"])


def checksum_of_file(writer: Writer) -> str | None:
    """The checksum in the header of what a path holds, under its lock; None where that is no model of ours."""
    with suppress(StateFormatError, OSError):
        return str(read_meta(head_of(writer.path)[0])["checksum"])
    return None


def head_of(path: str | os.PathLike[str]) -> tuple[bytes, os.stat_result]:
    """The header of a file, unless it is too long, and what the system says of the file; of a pipe nothing."""
    with open(path, "rb", opener=_without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            return b"", facts
        length = file.read(8)
        return length + file.read(min(int.from_bytes(length, "little"), LONGEST_HEADER)), facts


def refuse_odd_size(path: str | os.PathLike[str]) -> None:
    """Refuse a large file that is longer or shorter than its header says, before all of it is read.

    Raises
    ------
    StateFormatError
    """
    with suppress(OSError):  # who reads it is told what is wrong
        head, facts = head_of(path)
        # A file that has been replaced meanwhile may be half erased: what was read of it says nothing.
        if facts.st_size > _LARGE and os.path.samestat(facts, os.stat(path)):
            check_size(head, facts.st_size)


@contextmanager
def naming(path: str | os.PathLike[str]) -> Iterator[None]:
    """A block whose complaints about the bytes of a file say which file it is."""
    try:
        yield
    except StateFormatError as error:
        raise StateFormatError(f"{os.fspath(path)!s}: {error}") from error


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | getattr(os, "O_NONBLOCK", 0))


def without_file(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a model less its tie to a file, for pickling."""
    return {name: value for name, value in attributes.items() if name != "_on_disk"}
