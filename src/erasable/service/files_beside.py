"""Model files that a process beside this one changes: the model is in its memory, and here what predicts alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from functools import cache

from erasable.errors import EmptiedClassWarning
from erasable.models.files import read_model
from erasable.models.model import Model
from erasable.operations.model_file import ModelFile
from erasable.operations.requests import Request
from erasable.service.beside import Beside

PATIENCE = 10.0  # seconds that a commit waits for another process with the model


class FileBeside:
    """What a service needs of a :class:`ModelFile`, carried out in another process.

    Parameters
    ----------
    path : str
    writer : Beside
    announce : callable
        As of a ``ModelFile``, called here.
    """

    def __init__(self, path: str, writer: Beside, announce: Callable[[str, str], None]) -> None:
        self.path, self._writer, self._announce = path, writer, announce

    def forget_together(self, requests: Iterable[Request]) -> None:
        """See ``ModelFile.forget_together``."""
        self._writer(forget_in, self.path, list(requests), progress=self._announce)

    def predictor(self) -> tuple[Model, str]:
        """See ``ModelFile.predictor``; while the process does not answer yet, the file is read here."""
        if self._writer.is_starting():
            model, checksum = read_model(self.path)
            return model.predictor(), checksum
        return self._writer(predictor_of, self.path)


@cache
def opened(path: str) -> ModelFile:
    """The file as a service changes it, the same whenever it is asked for: it keeps the model."""
    return ModelFile(path, timeout=PATIENCE, rewrite_unchanged=True)


def load_all(paths: list[str]) -> None:
    """Have the models in memory before somebody waits for it."""
    for path in paths:
        predictor_of(path)


def forget_in(path: str, requests: list[Request], progress: Callable[[str, str], None]) -> None:
    """``ModelFile.forget_together``; what is said of it stays here, but for what is announced."""
    file = opened(path)
    file.announce = progress
    with warnings.catch_warnings():  # whether it took the last row of a class is for nobody who reads a log
        warnings.simplefilter("ignore", EmptiedClassWarning)
        file.forget_together(requests)


def predictor_of(path: str) -> tuple[Model, str]:
    """``ModelFile.predictor``."""
    return opened(path).predictor()
