"""Working memory of a model over a general function class: named rows, and a cache of the predictors."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.classes._protocol import Predictor
from erasable.core.layout import Key, Label
from erasable.core.selector import Decisions, Progress
from erasable.core.shards import Files
from erasable.coresets.single_pass import SinglePass
from erasable.estimators._general_state import (
    GeneralConfiguration,
    GeneralState,
    general_digest,
    general_to_pieces,
)
from erasable.estimators._keys import Column, pick
from erasable.estimators._named_rows import NamedRows


class GeneralMemory(NamedRows):
    """Core rows of one model, and predictors fitted when asked for."""

    configuration: GeneralConfiguration

    def __init__(
        self,
        configuration: GeneralConfiguration,
        rows: npt.NDArray[Any],
        ids: list[Key],
        subjects: list[Key | None],
        labels: list[Label],
    ) -> None:
        self.configuration = configuration
        self._predictors: list[Predictor] | None = None
        super().__init__(rows, ids, subjects, labels)

    @classmethod
    def empty(cls, configuration: GeneralConfiguration) -> GeneralMemory:
        """Memory that holds no rows."""
        return cls(configuration, configuration.function_class.empty(configuration.n_features), [], [], [])

    @classmethod
    def restore(cls, state: GeneralState) -> GeneralMemory:
        """Memory holding a state."""
        return cls(state.configuration, state.rows.copy(), list(state.ids), list(state.subjects), list(state.labels))

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return int(self.rows.nbytes)

    def learn(
        self,
        X: Any,
        labels: npt.NDArray[Any],
        ids: Column | None,
        subjects: Column | None,
        *,
        progress: Progress | None = None,
        **_: int | None,
    ) -> Decisions:
        """Rows that the sampler selects become core rows, the others leave no trace. Algorithm 2, line 7.

        The decisions reported are not counted: all are zero.
        """
        c, before = self.configuration, self.moment
        if isinstance(c.sampler, SinglePass):
            measure = c.function_class.start(c.n_features)
            measure.add(self.rows)
            index, rows = c.sampler.gather(X, measure, progress)
        else:
            encoded = c.function_class.encode(X if isinstance(X, np.ndarray) else X.toarray())
            index = c.select(encoded, pick(labels, np.arange(len(labels))))
            rows = encoded[index]
            if progress is not None:
                progress(len(encoded), len(encoded))
        self._append(rows, index, labels, ids, subjects, before)
        rows.fill(0)
        return Decisions()

    def predictors(self) -> list[Predictor]:
        """The fit on the core rows: one function for one or two classes, one for each class against the rest otherwise.

        Departure: Algorithm 2, line 4 refits at once; here the fit waits until it is asked for, and is not stored.
        """
        if self._predictors is None:
            positive = self.classes if len(self.classes) > 2 else self.classes[-1:]
            fit = self.configuration.function_class.fit
            self._predictors = [
                fit(self.rows, np.array([int(label == c) for label in self.labels], dtype=np.int64)) for c in positive
            ]
        return self._predictors

    def _drop_caches(self) -> None:
        for predictor in self._predictors or ():
            if hasattr(predictor, "erase"):
                predictor.erase()
        self._predictors = None

    def snapshot(self) -> GeneralState:
        """The state as a frozen record."""
        return GeneralState(
            self.configuration, tuple(self.ids_), tuple(self.subjects), tuple(self.labels), self.rows.copy()
        )

    def digest(self) -> str:
        """SHA-256 of the state."""
        return general_digest(self.snapshot())

    def to_bytes(self) -> bytes:
        """The canonical bytes of the state."""
        return b"".join(general_to_pieces(self.snapshot()))

    def to_files(self) -> Files:
        """The canonical bytes as they are to be written."""
        return Files(general_to_pieces(self.snapshot()))
