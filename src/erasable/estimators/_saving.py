"""``save``: a model's state as a file that lasts."""

from __future__ import annotations

import os
from abc import abstractmethod
from contextlib import suppress
from typing import Any

from erasable.core.layout import LONGEST_HEADER, read_meta
from erasable.core.shards import Files, shards_of
from erasable.errors import ChangedMeanwhileError, StateFormatError
from erasable.store import Writer, locked


class Savable:
    """A model whose whole state can be a file."""

    # Checksums of the files that this model was loaded from or saved to. Beside the state: never written or pickled.
    _on_disk: frozenset[str] = frozenset()

    @abstractmethod
    def _files(self) -> Files:
        """The canonical bytes of the state."""

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
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

        Raises
        ------
        StoreError
            When the file cannot be written; it is then as it was.
        ChangedMeanwhileError
            When the file holds something else.
        """
        files = self._files()
        with locked(path, parts_of=shards_of) as writer:
            there = checksum_of_file(writer) if writer.exists() else None
            if writer.exists() and not overwrite and there is None:
                raise ChangedMeanwhileError(
                    f"{os.fspath(path)!s} is there already and holds no model: choose another name, or say "
                    "overwrite=True to replace it."
                )
            if there is not None and not overwrite and there not in self._on_disk:
                raise ChangedMeanwhileError(
                    f"{os.fspath(path)!s} holds another model, or this one changed since it was loaded: saving could "
                    "bring back rows that were forgotten there. Load it anew and change that model, or say "
                    "overwrite=True to replace it."
                )
            write(writer, files)
        self._on_disk |= {checksum_of(files)}


def write(writer: Writer, files: Files) -> None:
    """Replace what the path holds by these files."""
    writer.replace(files.head, files.parts)


def checksum_of(files: Files) -> str:
    """The checksum in the header of what is to be written."""
    return str(read_meta(files.head[0])["checksum"])


def checksum_of_file(writer: Writer) -> str | None:
    """The checksum in the header of what a path holds, under its lock; None where that is no model of ours."""
    with suppress(StateFormatError, OSError), open(writer.path, "rb") as file:
        length = file.read(8)
        head = length + file.read(min(int.from_bytes(length, "little"), LONGEST_HEADER))
        return str(read_meta(head)["checksum"])
    return None


def without_file(attributes: dict[str, Any]) -> dict[str, Any]:
    """Attributes of a model less its tie to a file, for pickling."""
    return {name: value for name, value in attributes.items() if name != "_on_disk"}
