"""Algorithm 2 over any function class as a model: core rows, and predictors that are fitted when asked for."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from erasable.classes import FunctionClass, Predictor
from erasable.core.arrays import Float64s
from erasable.core.selector import Decisions, Progress
from erasable.coresets.single_pass import SinglePass
from erasable.errors import ConfigurationError
from erasable.models.arrays import dense, in_blocks
from erasable.models.general_state import GeneralConfiguration, GeneralState
from erasable.models.guarantee import BITWISE, Guarantee
from erasable.models.keys import pick
from erasable.models.model import Model
from erasable.models.rows import CoreRows


class GeneralModel(Model):
    """Core rows of one model over a function class."""

    KIND = "general"
    configuration: GeneralConfiguration

    def __init__(self, configuration: GeneralConfiguration) -> None:
        self.configuration = configuration
        self.core = CoreRows(configuration.function_class.empty(configuration.n_features))
        self._predictors: list[Predictor] | None = None
        self._fitted_to: npt.NDArray[Any] | None = None  # the rows of the predictors, which may hold on to them
        self.moment = object()

    @property
    def one_by_one(self) -> bool:  # type: ignore[override]
        """True for the single pass; the staged sampler looks at all rows at once."""
        return isinstance(self.configuration.sampler, SinglePass)

    @classmethod
    def restore(cls, state: GeneralState) -> Self:
        """The model that a state is of."""
        model = cls(state.configuration)
        model.core = CoreRows(state.rows.copy(), state.ids, state.subjects, state.labels)
        return model

    def prepared(self, X: Any) -> Any:
        """The rows as they are: they are encoded a block at a time."""
        if len(self.core) and not isinstance(self.configuration.sampler, SinglePass):
            raise ConfigurationError(
                "the staged sampler looks at all rows at once, so it cannot learn more rows: call fit with all of them."
            )
        return X

    def select(
        self, rows: Any, labels: npt.NDArray[Any], keys: Any, progress: Progress | None, **_: int | None
    ) -> tuple[npt.NDArray[np.intp], list[npt.NDArray[Any]], Decisions, None]:
        """Algorithm 2, line 7. The decisions are not counted: all are zero."""
        c = self.configuration
        if isinstance(c.sampler, SinglePass):
            measure = c.function_class.start(c.n_features)
            measure.add(self.core.rows())
            index, chosen = c.sampler.gather(rows, measure, progress)
        else:
            encoded = c.function_class.encode(dense(rows))
            index = c.select(encoded, pick(labels, np.arange(len(labels))))
            chosen = encoded[index]
            if progress is not None:
                progress(len(encoded), len(encoded))
        return index, [chosen] if len(index) else [], Decisions(), None

    def drop_caches(self) -> None:
        """Overwrite and drop the predictors."""
        for predictor in self._predictors or ():
            if hasattr(predictor, "erase"):
                predictor.erase()
        rows = self._fitted_to
        if rows is not None:
            rows.fill(0)
        self._predictors = self._fitted_to = None

    def predictors(self) -> list[Predictor]:
        """The fit on the core rows: one function for one or two classes, one for each class against the rest otherwise.

        Departure: Algorithm 2, line 4 refits at once; here the fit waits until it is asked for, and is not stored.
        """
        predictors = self._predictors
        return self.read(self._fitted, self._keep)[1] if predictors is None else predictors

    def _keep(self, fitted: tuple[npt.NDArray[Any], list[Predictor]] | None) -> None:
        self._fitted_to, self._predictors = fitted or (None, None)

    def _fitted(self) -> tuple[npt.NDArray[Any], list[Predictor]]:
        positive = self.classes if len(self.classes) > 2 else self.classes[-1:]
        fit, rows, labels = self.configuration.function_class.fit, self.core.rows(), self.core.labels()
        return rows, [fit(rows, np.array([int(label == c) for label in labels], dtype=np.int64)) for c in positive]

    def state(self) -> GeneralState:
        """See :class:`Model`."""
        return GeneralState(self.configuration, *self.core.names(), self.core.rows())

    @property
    def nbytes(self) -> int:
        """Bytes of the rows."""
        return self.core.nbytes

    @property
    def n_features(self) -> int:
        """Columns of the rows."""
        return self.configuration.n_features

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, for the single pass over an exact class; otherwise no bound."""
        c = self.configuration
        return general_guarantee(c.function_class, staged=not isinstance(c.sampler, SinglePass))

    def scores(self, X: Any) -> Float64s:
        """``f(x) - 1/2`` for each row."""
        predictors, c = self.predictors(), self.configuration
        embed, width = c.function_class.embed, c.function_class.empty(c.n_features).shape[1]
        scores = np.empty((X.shape[0], len(predictors)))
        for block in in_blocks(X, max(X.shape[1], width)):
            rows = embed(dense(X[block]))
            for k, f in enumerate(predictors):
                scores[block, k] = f(rows) - 0.5
        return scores

    def shares(self, scores: Float64s) -> Float64s:
        """``f(x)`` is the probability itself."""
        return 0.5 + scores


def general_guarantee(function_class: FunctionClass, *, staged: bool) -> Guarantee:
    """Exact system-aware unlearning, bitwise, for the single pass over an exact class; otherwise no bound."""
    if not staged and getattr(function_class, "exact", False):
        return replace(BITWISE, assumptions=tuple(function_class.assumptions))
    reason = "the staged sampler is not stable" if staged else "the class decides by rounded numbers"
    return Guarantee(
        "approximate: forgotten rows are gone and the predictor is fitted to the surviving core rows, but training "
        f"on these rows may select fewer of them, because {reason}; no bound is claimed",
        of="state",
        epsilon=math.inf,
        delta=1.0,
    )
