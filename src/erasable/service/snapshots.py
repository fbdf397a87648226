"""Models to predict with, warm: loaded once, and another in their place when the file has changed."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from erasable.models.model import Model


@dataclass(frozen=True)
class Snapshot:
    """A model as a file held it at one moment. It never changes: whoever predicts keeps it as long as needed.

    Attributes
    ----------
    name : str
        Of the model.
    version : str
        Drawn at random for this snapshot: it says nothing of what is stored.
    model : Model
        To call ``predict`` and ``probabilities`` of; see ``erasable.models.model``.
    """

    name: str
    version: str
    model: Model


class Snapshots:
    """The newest snapshot of each model.

    Parameters
    ----------
    paths : mapping of str to path
        The files by the names of their models.
    draw : callable
        Gives a random name.
    """

    def __init__(self, paths: Mapping[str, str | os.PathLike[str]], draw: Callable[[], str]) -> None:
        raise NotImplementedError

    def of(self, name: str) -> Snapshot:
        """The newest snapshot of a model; no file is touched.

        Raises
        ------
        UnknownRequestError
            When there is no such model.
        """
        raise NotImplementedError

    def refresh(self) -> list[str]:
        """Load what has changed on disk, by whomever; the names of those that did."""
        raise NotImplementedError
