"""Models to predict with, warm: made once, and another in their place when the file has changed."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from erasable.errors import ErasableError, StoreError, UnknownRequestError
from erasable.models.model import Model


class File(Protocol):
    """What is needed of a model file."""

    path: str

    def predictor(self) -> Model:
        """What predicts as the file does now."""


@dataclass(frozen=True)
class Snapshot:
    """A model as a file held it at one moment. It never changes: whoever predicts keeps it as long as needed.

    Attributes
    ----------
    name : str
        Of the model.
    version : str
        Drawn at random for this snapshot, also where the file was rewritten as it was: it says nothing of what is
        stored.
    model : Model
        To call ``predict`` and ``probabilities`` of; see ``erasable.models.model``. It is for nothing else.
    """

    name: str
    version: str
    model: Model


class Snapshots:
    """The newest snapshot of each model.

    Parameters
    ----------
    files : mapping of str to File
        By the names of their models.
    draw : callable
        Gives a random name.
    """

    def __init__(self, files: Mapping[str, File], draw: Callable[[], str]) -> None:
        self._files, self._draw = files, draw
        self._newest: dict[str, Snapshot] = {}
        self._seen: dict[str, tuple[int, ...]] = {}  # what the system said of the file
        self._turn = threading.Lock()

    def of(self, name: str) -> Snapshot:
        """The newest snapshot of a model; no file is touched.

        Raises
        ------
        UnknownRequestError
            When there is no such model.
        """
        found = self._newest.get(name)
        if found is None:
            raise UnknownRequestError("no model of this name is held here.")
        return found

    def refresh(self, predictor: Callable[[File], Model] = lambda file: file.predictor()) -> list[str]:
        """Take over what was written to disk, by whomever; the names of what was.

        A file that cannot be read keeps no other from being taken over: what was wrong is raised in the end.
        """
        written, problems = [], []
        with self._turn:
            for name, file in self._files.items():
                try:
                    if (facts := _facts(file.path)) != self._seen.get(name):
                        self._newest[name] = Snapshot(name, self._draw(), predictor(file))
                        self._seen[name] = facts
                        written.append(name)
                except ErasableError as error:
                    problems.append(error)
        if problems:
            raise problems[0]
        return written


def _facts(path: str) -> tuple[int, ...]:
    try:
        facts = os.stat(path)
    except OSError as error:
        raise StoreError(f"could not look at {path}: {error.strerror}. Put the model back.") from error
    return facts.st_dev, facts.st_ino, facts.st_size, facts.st_mtime_ns
