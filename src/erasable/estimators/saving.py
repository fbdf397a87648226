"""``save`` and ``load``: a model's state as a file that lasts, and back."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from erasable.errors import ChangedMeanwhileError, NotErasedError, UnknownOutcomeError
from erasable.models.files import FileMark, checksum_at, files_of, mark_of, shards_of, write
from erasable.models.model import Model
from erasable.models.state import State
from erasable.store import PRIVATE, locked


class Savable:
    """A model whose whole state can be a file."""

    # For each path that this model was loaded from or saved to, which file that was: nothing that depends on its bytes,
    # from which rows that were forgotten since could be recognised. No part of the state: never written or pickled.
    _on_disk: Mapping[str, FileMark | None] = MappingProxyType({})

    _model: Model

    def _savable(self) -> State:
        """The state, once it is known that a file of it can bring the model back."""
        self._check_fitted("save")  # type: ignore[attr-defined]
        return self._model.snapshot()

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
        A file is known again by its inode and the time when it was last written, so one that was copied, or restored
        from a backup, counts as changed. Where several processes change one file, use ``ModelFile``.
        """
        files = files_of(self._savable())
        if getattr(self, "feature_names", ()) is None and hasattr(self, "feature_names_in_"):
            warnings.warn(
                "the rows had names of columns, which are no part of the state: a model loaded from the file will take "
                "columns by their places. Make the model with feature_names= to have them stored.",
                stacklevel=2,
            )
        with locked(path, parts_of=shards_of) as writer:
            where = os.path.realpath(writer.path)  # its folder may have several names
            there = mark_of(writer.path) if writer.exists() else None
            if there is not None and not overwrite and checksum_at(writer.path) is None:
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
            try:
                write(writer, files, mode)
            except (NotErasedError, UnknownOutcomeError):
                self._on_disk = {**self._on_disk, where: mark_of(writer.path)}
                raise
            self._on_disk = {**self._on_disk, where: mark_of(writer.path)}

    def __getstate__(self) -> dict[str, Any]:
        attributes: Any = super().__getstate__()
        return {name: value for name, value in attributes.items() if name != "_on_disk"}
