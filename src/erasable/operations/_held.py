"""The model of a file, held in memory, with what is known of the bytes that it stands for."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from erasable.core.layout import digest_of, read_meta
from erasable.models.files import (
    checksum_at,
    checksum_of,
    files_of,
    model_of,
    naming,
    refuse_odd_size,
    shards_of,
    write,
)
from erasable.models.model import Model
from erasable.models.state import State
from erasable.operations.verify import code_in
from erasable.store import PRIVATE, Fetch, Writer
from erasable.store import read as read_file


class HeldModel:
    """The model that a file held when it was last read or written, so that it is loaded only where others changed it.

    Attributes
    ----------
    model : Model or None
        None while the file may say something else.
    checksum : str
        The one in the header of the file when it held this model.
    """

    def __init__(self, path: str, like: Any) -> None:
        self._path, self._like = path, like
        self.model: Model | None = None
        self.checksum = ""
        # Of that file: its SHA-256, where that is known, and whether it was only the head of several.
        self._seal, self._in_parts = "", False

    def unchanged(self) -> Model | None:
        """The model in memory where the header of the file is still its own."""
        return self.model if self.model is not None and checksum_at(self._path) == self.checksum else None

    def read(self) -> Model:
        """The model that the file holds; every byte is read."""
        with naming(self._path):
            model: Model = read_file(self._path, self._same_or_loaded, parts_of=shards_of)
            return model

    def under_lock(self, writer: Writer, *, whole: bool = True) -> Model:
        """The model that the file holds, for whoever is changing it.

        Where nothing is to be said of the file's bytes, it is enough that its header is that of the model in memory:
        a change then replaces all of them. Otherwise every byte is read.
        """
        if not whole and self.model is not None and checksum_at(writer.path) == self.checksum:
            return self.model
        with naming(self._path):
            refuse_odd_size(self._path)
            return writer.read(self._same_or_loaded)

    def _same_or_loaded(self, head: bytes, fetch: Fetch) -> Model:
        """The model in memory where these bytes, every one, are still those that it stands for; otherwise theirs."""
        seal, parts = digest_of([head]), shards_of(head)
        if self.model is None or seal != self._seal:
            self.model = model_of(head, fetch, code_in(self._like))
            self._seal, self._in_parts, self.checksum = seal, bool(parts), str(read_meta(head)["checksum"])
        else:
            for name in parts:
                fetch(name)  # refused unless it has the bytes that the head names it by
        return self.model

    def digest(self, model: Model) -> str:
        """The digest of the state that was last read or written, in this call, under the lock."""
        return model.snapshot().digest if self._in_parts else self._seal

    def write(
        self,
        writer: Writer,
        state: State,
        mode: int = PRIVATE,
        *,
        digests: bool = False,
        announce: Callable[[str, str], None] | None = None,
    ) -> None:
        """Replace the file by this state; whoever calls says when ``model`` is the one that has it."""
        files = files_of(state)
        if announce is not None:
            announce(self.checksum, checksum_of(files))
        with undisturbed():
            write(writer, files, mode)
        self.checksum, self._in_parts = checksum_of(files), bool(files.parts)
        # Not hashed once more for nobody: who asks for digests next time reads the file anew.
        self._seal = "" if not digests else digest_of(files.head) if files.parts else state.digest


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block that Ctrl-C does not cut in two: it takes effect at the end. Only the main thread gets it anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[tuple[Any, ...]] = []
    try:
        before = signal.signal(signal.SIGINT, lambda *arguments: pressed.append(arguments))
    except ValueError:  # an interpreter within another one
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: set by something else
        if pressed and callable(before):
            before(*pressed[0])
