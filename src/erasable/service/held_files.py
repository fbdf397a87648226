"""Model files of a service: one process, this one or another, changes them and has the models in its memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, partial
from typing import Any

from erasable.models.files import read_model
from erasable.models.model import Model
from erasable.models.reports import LearnReport
from erasable.operations.model_file import ModelFile
from erasable.operations.requests import Request
from erasable.service.beside import Beside, Here, Parcel

PATIENCE = 10.0  # seconds that a change waits for another program with the model


class HeldFile:
    """What a service needs of a :class:`ModelFile`, carried out by whoever writes.

    Parameters
    ----------
    path : str
    writer : Beside or Here
    announce : callable
        As of a ``ModelFile``, called here, and told with ``erases`` whether that is to forget or to learn.
    """

    def __init__(self, path: str, writer: Beside | Here, announce: Callable[..., None]) -> None:
        self.path, self._writer, self._announce = path, writer, announce

    def forget_together(self, requests: Iterable[Request]) -> None:
        """See ``ModelFile.forget_together``."""
        self._writer(forget_in, self.path, list(requests), progress=partial(self._announce, erases=True))

    def learn(self, blocks: list[Any], stop: Callable[[], None], **options: Any) -> LearnReport:
        """See ``ModelFile.learn``; blocks may be parcels. Where ``stop`` raises, the model is as it was."""

        def progress(*checksums: str) -> None:
            if checksums:
                self._announce(*checksums, erases=False)
            else:
                stop()

        return self._writer(learn_in, self.path, blocks, options, progress=progress, again=False)

    def predictor(self) -> Model:
        """See ``ModelFile.predictor``."""
        return self._writer(predictor_in, self.path)


@cache
def opened(path: str) -> ModelFile:
    """The file as a service changes it, the same whenever it is asked for: it keeps the model."""
    return ModelFile(path, timeout=PATIENCE, rewrite_unchanged=True)


def load_all(paths: list[str]) -> None:
    """Have the models in memory before somebody waits for it."""
    for path in paths:
        predictor_in(path)


def forget_in(path: str, requests: list[Request], progress: Callable[[str, str], None]) -> None:
    """``ModelFile.forget_together``; what is said of it stays here, but for what is announced."""
    file = opened(path)
    file.announce = progress
    file.forget_together(requests)


def learn_in(path: str, blocks: list[Any], options: dict[str, Any], progress: Callable[..., None]) -> LearnReport:
    """``ModelFile.learn``; the list is emptied, so that nothing is in memory twice.

    ``progress`` is called with two checksums before the file is replaced, and without any in between.
    """
    rows = []
    while blocks:
        block = blocks.pop(0)
        rows.append(block.opened() if isinstance(block, Parcel) else block)
    file = opened(path)
    file.announce = progress
    return file.learn(rows, progress=lambda _: progress(), **options)


def predictor_in(path: str) -> Model:
    """``ModelFile.predictor``, less the checksum."""
    return opened(path).predictor()[0]


def read_predictor(path: str) -> Model:
    """The same, read here; no row of it stays in memory but what predicts."""
    model, _ = read_model(path)
    found = model.predictor()
    model.erase()
    return found
