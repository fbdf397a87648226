"""The model files of a service: changed and verified by its processes, and loaded as snapshots that predict.

The functions with a path as their first argument run in a process of the service (see
:mod:`erasable.service.processes`). One process changes the files and keeps the models in its memory.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from typing import Any, Protocol, TypeVar

from erasable.core.names import Spelling
from erasable.errors import BusyError, ErasableError, StoreError, UnknownRequestError
from erasable.models.access import StoredRows, rows_of
from erasable.models.files import checksum_at, read_model
from erasable.models.heads import Learner
from erasable.models.model import Model
from erasable.models.reports import LearnReport, VerifyReport
from erasable.operations.inspect import inspect
from erasable.operations.model_file import ModelFile
from erasable.operations.requests import Request
from erasable.service.processes import Packed, import_all
from erasable.service.requests import Identity, keys_in, keys_of_each
from erasable.service.suppression import SuppressionList
from erasable.store import BlockDoubt, doubt_about_blocks

#: Modules that the first call of each process would import, for a second or two: see ``import_all``.
READING = ("erasable.service.http.rows", "erasable.service.model_files", "pyarrow", "pandas")
LEARNING = ("erasable.estimators", "pyarrow", "pandas")
VERIFYING = ("erasable.service.model_files", "flint")
PATIENCE = 10.0  # seconds that a change waits for another program with the model
T = TypeVar("T")


class Caller(Protocol):
    """Calls a function, in this process or another: see ``ChildProcess``."""

    def __call__(
        self,
        function: Callable[..., T],
        /,
        *arguments: Any,
        progress: Callable[..., object] | None = None,
        again: bool = True,
    ) -> T:
        """Return what the function returns."""


def call_here(
    function: Callable[..., T], /, *arguments: Any, progress: Callable[..., object] | None = None, again: bool = True
) -> T:
    """Call a function in this process."""
    return function(*arguments) if progress is None else function(*arguments, progress=progress)


@dataclass(frozen=True)
class VerifiedState:
    """A state that equals what learning its own rows gives."""

    report: VerifyReport
    guarantee: str
    stores: tuple[bool, ...]  # for each group of identities, whether the state stores a row of one of them
    stores_listed: bool  # whether it stores a row of somebody on the suppression list
    checksum: str
    spelling: Spelling = field(default_factory=dict)
    format_version: int = 1
    old_bytes: BlockDoubt | None = None  # why bytes of earlier states may stay on the medium


class ServedFile:
    """A model file, changed by one process and verified by another.

    ``announce`` is called in this process with the checksums of the old and the new file before a file is replaced, and
    with ``erases``: whether rows are forgotten or learnt. ``mark`` is the id of the service's mark at the file.
    """

    def __init__(
        self, path: str, writer: Caller, verifier: Caller, announce: Callable[..., None], mark: str | None = None
    ) -> None:
        self.path, self._writer, self._verifier, self._announce = path, writer, verifier, announce
        self._place = path, mark

    def forget_together(self, requests: Iterable[Request]) -> None:
        """See ``ModelFile.forget_together``."""
        self._writer(_forget, self._place, list(requests), progress=partial(self._announce, erases=True))

    def learn(self, blocks: list[Any], stop: Callable[[], None], **options: Any) -> LearnReport:
        """See ``ModelFile.learn``; blocks may be packed. If ``stop`` raises, the model is as it was."""

        def progress(*checksums: str) -> None:
            if checksums:
                self._announce(*checksums, erases=False)
            else:
                stop()

        return self._writer(_learn, self._place, blocks, options, progress=progress, again=False)

    def predictor(self) -> Model:
        """See ``ModelFile.predictor``."""
        return self._writer(_predictor, self._place)

    def verify(self, named: Sequence[Sequence[Identity]], listed: SuppressionList | None) -> VerifiedState:
        """Verify the file; see ``verified``."""
        return self._verifier(verified, self.path, named, listed, progress=lambda *_: None)  # signs of life

    def size(self) -> int:
        """Bytes of the file, without its parts; 0 if it cannot be looked at."""
        try:
            return os.stat(self.path).st_size
        except OSError:
            return 0

    def checksum(self) -> str | None:
        """Checksum of the model in the file; None if it cannot be read."""
        return checksum_at(self.path)


#: The path of a model, and the id of the service's mark at it.
MarkedPath = tuple[str, str | None]


@cache
def opened(place: MarkedPath) -> ModelFile:
    """The file as a service changes it: always the same object, which keeps the model."""
    path, mark = place
    return ModelFile(path, timeout=PATIENCE, rewrite_unchanged=True, managed_as=mark)


def load_all(places: list[MarkedPath]) -> None:
    """Load the models, and the modules with which rows are learnt, before the first request for them."""
    for place in places:
        _predictor(place)
    import_all(*LEARNING)


def _forget(place: MarkedPath, requests: list[Request], progress: Callable[[str, str], None]) -> None:
    """``ModelFile.forget_together``; its reports stay in this process."""
    file = opened(place)
    file.announce = progress
    file.forget_together(requests)


def _learn(place: MarkedPath, blocks: list[Any], options: dict[str, Any], progress: Callable[..., None]) -> LearnReport:
    """``ModelFile.learn``; the list is emptied, so that no block is in memory twice.

    ``progress`` is called with two checksums before the file is replaced, and without arguments in between.
    """
    rows = []
    while blocks:
        block = blocks.pop(0)
        rows.append(block.opened() if isinstance(block, Packed) else block)
    file = opened(place)
    file.announce = progress
    return file.learn(rows, progress=lambda _: progress(), **options)


def _predictor(place: MarkedPath) -> Model:
    return opened(place).predictor()[0]


def read_predictor(path: str) -> Model:
    """The predictor of a file that is read in this process; no other row of it stays in memory."""
    model, _ = read_model(path)
    found = model.predictor()
    model.erase()
    return found


def verified(
    path: str,
    named: Sequence[Sequence[Identity]],
    listed: SuppressionList | None,
    progress: Callable[[int, int], None] | None = None,
) -> VerifiedState:
    """Verify the model in a file, and look up groups of identities and a list in it. The file is read once."""
    model, checksum = read_model(path)
    guarantee = " ".join(str(model.guarantee).split())
    report = model.verify(progress)
    stores = tuple(any(keys_in(model, group)) for group in named)
    stores_listed = listed is not None and any(listed.stored_in(model))
    return VerifiedState(
        report,
        guarantee,
        stores,
        stores_listed,
        checksum,
        model.spelling,
        model.format_version,
        doubt_about_blocks(path),
    )


def stored_in(path: str, identities: Sequence[Identity]) -> StoredRows:
    """The rows that the model in a file stores of these identities."""
    model, _ = read_model(path)
    return rows_of(model.snapshot(), *keys_in(model, identities))


def counts_in(path: str, identities: Sequence[Identity]) -> list[int]:
    """How many rows the model in a file stores of each of these identities."""
    model, _ = read_model(path)
    return [len(model.named(*keys).found) for keys in keys_of_each(model, identities)]


def digest_in(path: str) -> str:
    """Digest of the state in a file."""
    return inspect(path).digest


@dataclass(frozen=True)
class Snapshot:
    """A model as its file held it at one time. It never changes.

    Its version is drawn at random, also if the file was rewritten without a change: it says nothing about stored rows.
    """

    name: str
    version: str
    model: Model


class Snapshots:
    """The newest snapshot of each model."""

    def __init__(self, files: Mapping[str, ServedFile], draw: Callable[[], str]) -> None:
        self._files, self._draw = files, draw
        self._newest: dict[str, Snapshot] = {}
        self._training: set[str] = set()  # models whose learner is being trained on the rows left
        self._facts: dict[str, tuple[int, ...]] = {}  # of the file that was loaded last
        self._lock = threading.Lock()

    def of(self, name: str) -> Snapshot:
        """The newest snapshot of a model; no file is touched.

        ``UnknownRequestError`` for an unknown model, ``BusyError`` while its learner is being trained again. That is so
        after every change of the file, whether it stored a named person or not.
        """
        found = self._newest.get(name)
        if name in self._training:
            raise BusyError("the learner of this model is being trained again: ask again in a moment.")
        if found is None:
            raise UnknownRequestError("no model of this name is served: /v1/state lists the models.")
        return found

    def refresh(self, predictor: Callable[[ServedFile], Model] = ServedFile.predictor) -> list[str]:
        """Load the files that were written since, by any program; returns the names of their models.

        An unreadable file does not keep the others from being loaded: its error is raised at the end.
        """
        loaded, problems = [], []
        with self._lock:
            for name, file in self._files.items():
                try:
                    if (facts := _facts(file.path)) != self._facts.get(name):
                        held = self._newest.get(name)
                        if held is not None and isinstance(held.model.head, Learner):
                            self._training.add(name)  # until it is trained: the old one has learnt rows that are gone
                        self._newest[name] = Snapshot(name, self._draw(), predictor(file))
                        self._facts[name] = facts
                        self._training.discard(name)
                        loaded.append(name)
                except ErasableError as error:
                    problems.append(error)
        if problems:
            raise problems[0]
        return loaded


def _facts(path: str) -> tuple[int, ...]:
    try:
        facts = os.stat(path)
    except OSError as error:
        raise StoreError(f"could not look at {path}: {error.strerror}. Put the model back.") from error
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns
