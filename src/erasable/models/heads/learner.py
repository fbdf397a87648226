"""Learners from an allow-list as heads: trained on the core rows when they are first needed, and never stored.

The state holds the name of the learner and its parameters, and no code. This room needs no scikit-learn:
:mod:`erasable.estimators.trained` builds and trains.
"""

from __future__ import annotations

from collections.abc import Collection
from copy import copy
from dataclasses import dataclass, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s, Matrix
from erasable.core.grid import to_grid
from erasable.core.sums import guard_exactness
from erasable.core.target_grid import Range
from erasable.errors import ConfigurationError, StateFormatError, VerificationError
from erasable.models.core_rows import CoreRows, overwrite
from erasable.models.heads.allowed import LEARNERS, AllowedLearner, allowed, checked_parameters
from erasable.models.heads.targets import Targets, read_ranges, refuse_classes
from erasable.models.inputs import ONE, Labels, RowWeights, array_of
from erasable.models.reports import BITWISE, BITWISE_ON_ALL_ROWS, Guarantee, TrainedLearner
from erasable.models.selections import GridSelection, Leverage, RawStorage
from erasable.models.strategies import Derived, Head, Specification, class_codes, dense

if TYPE_CHECKING:
    from erasable.models.configuration import Configuration
    from erasable.models.heads.linear import ExactSums
    from erasable.models.model import Model

_SMALLEST = 1e-300  # of a probability whose logarithm is taken
#: Of linear models sums and weights show it; a file with a learner holds nothing that follows from labels.
NOT_ALTERED = "nobody altered labels, parameters or numbers in the file, which only its digest can show"
SAME_LIBRARY = (
    "state and rows are bitwise the same on any machine; the fitted learner has the same bits for the same library "
    "version and platform"
)


class FittedLearner(Protocol):
    """A learner that was trained; see ``erasable.estimators.trained``."""

    facts: TrainedLearner
    usable: bool  # whether the library that trained it is the one that is installed

    def probabilities(self, X: Float64s) -> Float64s:
        """The probability of each class that it was trained on."""

    def numbers(self, X: Float64s) -> Float64s:
        """The targets, shape (n, n_targets)."""


@dataclass(frozen=True)
class Learner(Head):
    """A classifier of the allow-list, trained on the core rows."""

    learner: str  # its name
    parameters: tuple[tuple[str, Any], ...] = ()  # those that differ from the defaults of the list, sorted by name

    NAME: ClassVar[str] = "named-learner"
    takes_weights = True
    any_selection = True

    @property
    def allowed(self) -> AllowedLearner:
        """The entry of the allow-list."""
        return allowed(self.learner, classifies=self.classifies)

    def check(self, c: Configuration) -> None:
        """Rows are stored as the learner sees them, and balance has no other weights next to it."""
        if self.parameters != checked_parameters(self.learner, dict(self.parameters), classifies=self.classifies):
            raise ConfigurationError("the parameters of the learner are not in their canonical form.")
        if not isinstance(c.selection, GridSelection) or isinstance(c.selection, RawStorage) != self.allowed.sees_raw:
            raise ConfigurationError(f"rows are not stored as the learner {self.learner} sees them.")
        if getattr(c.selection, "balance", 0.0) and dict(self.parameters).get("class_weight") is not None:
            raise ConfigurationError("balance and class_weight both make up for rare classes: leave one of them out.")

    def check_room(self, c: Configuration, core: CoreRows, weights: list[int]) -> None:
        """The sums that leverages are computed from must stay exact."""
        if isinstance(c.selection, Leverage):
            guard_exactness(len(core) + len(weights), c.grid, c.units)

    def guarantee(self, model: Model) -> Guarantee:
        """What the state promises, and what the fitted learner does."""
        return learner_guarantee(independent=model.selection.independent)

    # -- training --------------------------------------------------------------------------------------------------

    def fitted(self, model: Model) -> FittedLearner:
        """The learner, trained on the core rows when it is first needed."""
        model.check_rows_left()
        held: Any = model.cache.get("learner")
        if held is not None and not held.usable:
            model.cache.pop("learner", None)
        return model.cached("learner", lambda: self._trained(model))

    def _trained(self, model: Model) -> FittedLearner:
        core, selection = model.core, model.configuration.selection
        rows = core.rows()
        X = np.array(rows, dtype=np.float64) if self.allowed.sees_raw else _as_selected(rows, selection)
        weights = core.uneven_weights()
        try:
            return room().train(  # type: ignore[no-any-return]
                self, X, self._answers(model), None if weights is None else weights / ONE, codes_of(model)
            )
        finally:
            overwrite([rows, X])

    def _answers(self, model: Model) -> npt.NDArray[Any]:
        """What is learnt: the position of each label among the classes."""
        return class_codes(model.classes, model.core.labels())

    def verify(self, model: Model) -> TrainedLearner | None:
        """Train on the stored rows from nothing; the bits must be those of a learner that was trained before."""
        if not len(model.core):
            return None
        known: Any = model.cache.get("learner")
        if known is None:
            return self.fitted(model).facts  # and predictions need not train again
        again = self._trained(model).facts
        if known.facts.version != again.version:
            return replace(again, other_version=known.facts.version)
        if known.facts.digest != again.digest:
            raise VerificationError(
                f"the learner is not what training {self.learner} on the stored rows gives: its digest begins "
                f"{known.facts.digest[:16]}, and that of the learner trained now {again.digest[:16]}."
            )
        return replace(again, compared=True)

    # -- predicting ------------------------------------------------------------------------------------------------

    def seen(self, model: Model, X: Matrix) -> Float64s:
        """Rows as the learner sees them."""
        selection = model.configuration.selection
        if isinstance(selection, RawStorage):
            return selection.raw.read(X)
        rows: Any = X if model.feature_map is None else model.feature_map(X)
        return _as_selected(to_grid(rows, selection.grid), selection)

    def scores(self, model: Model, X: Matrix) -> Float64s:
        """Log-odds of the second of two classes, logarithms of probabilities of several; without balance."""
        logs = np.log(np.maximum(self._chances(model, X), _SMALLEST))
        if logs.shape[1] > 2:
            return logs
        return logs[:, 1:] - logs[:, :1] if logs.shape[1] == 2 else np.zeros((len(logs), 1))

    def untilted(self, scores: Float64s, tilts: Float64s) -> Float64s:
        """See :class:`Head`; on the scale of logarithms this is a shift."""
        found: Float64s = scores - np.log(tilts) if scores.ndim > 1 else scores - np.log(tilts[1] / tilts[0])
        return found

    def predict(self, model: Model, X: Matrix) -> npt.NDArray[Any]:
        """The class of the largest probability."""
        found: npt.NDArray[Any] = array_of(model.classes)[self.predict_proba(model, X).argmax(axis=1)]
        return found

    def predict_proba(self, model: Model, X: Matrix) -> Float64s:
        """The learner's probabilities; divided by the tilts and by their sum, if labels counted in the selection."""
        found = self._chances(model, X)
        tilts = model.selection.tilts_of(model.classes) if found.shape[1] > 1 else None
        if tilts is None:
            return found
        tilted = found / tilts
        chances: Float64s = tilted / tilted.sum(axis=1, keepdims=True)
        return chances

    def probabilities(self, model: Model, scores: Float64s) -> Float64s:
        """The probabilities that scores stand for."""
        if scores.ndim == 1:
            if model.n_classes == 1:
                return np.ones((len(scores), 1))
            scores = np.column_stack([np.zeros(len(scores)), scores])
        chances = np.exp(scores - scores.max(axis=1, keepdims=True))
        found: Float64s = chances / chances.sum(axis=1, keepdims=True)
        return found

    def _chances(self, model: Model, X: Matrix) -> Float64s:
        """The probability of each class of the model; zero for a fixed class without rows."""
        fitted, seen = self.fitted(model), self.seen(model, X)
        classes = model.classes
        present = [k for k, label in enumerate(classes) if label in model.core.class_counts]
        chances = np.zeros((len(seen), len(classes)))
        chances[:, present] = fitted.probabilities(seen)
        return chances

    def predictor(self, model: Model) -> Model:
        """A model with the fitted learner and without rows."""
        if not len(model.core):
            return super().predictor(model)
        learner = self.fitted(model)

        def without_rows() -> Model:
            twin = copy(model)
            twin.core, twin.cache = model.core.counted(), {"learner": learner}
            return twin

        return model.consistent_read(without_rows)

    # -- files -----------------------------------------------------------------------------------------------------

    def derive(
        self,
        c: Configuration,
        rows: Matrix,
        labels: Labels,
        row_weights: RowWeights | None,
        sums: ExactSums | None,
    ) -> Derived:
        """Nothing is stored."""
        return {}

    def specification(self, c: Configuration, labels: Collection[Any], n: int, *, weighted: bool) -> Specification:
        """Nothing is stored."""
        return {}

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        known = self.allowed.parameters(classifies=self.classifies)
        return {
            "learner": self.learner,
            "learner_parameters": {name: known[name].written(value) for name, value in self.parameters},
        }

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote. Values of other types may raise anything."""
        return cls(*_read_learner(meta, classifies=cls.classifies))


@dataclass(frozen=True)
class LearnerRegression(Targets, Learner):
    """A regressor of the allow-list, trained on the core rows."""

    target_ranges: tuple[Range, ...] = ()

    NAME = "named-learner-regression"

    def check(self, c: Configuration) -> None:
        """There are no classes, and as many targets as the learner can have."""
        super().check(c)
        refuse_classes(c)
        if len(self.target_ranges) > 1 and not self.allowed.several_targets:
            raise ConfigurationError(
                f"the learner {self.learner} predicts one number, and there are {len(self.target_ranges)} targets: "
                "make a model for each."
            )

    def _answers(self, model: Model) -> npt.NDArray[Any]:
        """The targets as the numbers that they stand for."""
        found = self.decoded_targets(model.core.labels(), model.configuration.grid)
        return found if found.shape[1] > 1 else found[:, 0]

    def scores(self, model: Model, X: Matrix) -> Float64s:
        """The learner's predictions, not clipped."""
        return self.fitted(model).numbers(self.seen(model, X))

    def predict(self, model: Model, X: Matrix) -> npt.NDArray[Any]:
        """The targets of each row."""
        return self.predictions(model, model.decision(X))

    def describe(self) -> dict[str, Any]:
        """See :class:`Head`."""
        return super().describe() | self.described_ranges()

    @classmethod
    def read(cls, meta: dict[str, Any]) -> Self:
        """What :meth:`describe` wrote. Values of other types may raise anything."""
        return cls(*_read_learner(meta, classifies=False), read_ranges(meta))


def learner_guarantee(*, independent: bool) -> Guarantee:
    """What a model with a learner promises."""
    base = BITWISE_ON_ALL_ROWS if independent else BITWISE
    definition = f"{base.definition}; {SAME_LIBRARY}"
    return replace(base, definition=definition, assumptions=(*base.assumptions, NOT_ALTERED))


def _read_learner(meta: dict[str, Any], *, classifies: bool) -> tuple[str, tuple[tuple[str, Any], ...]]:
    name, given = meta["learner"], meta["learner_parameters"]
    if not isinstance(name, str) or name not in LEARNERS or not isinstance(given, dict):
        raise StateFormatError("its learner is unknown: install a newer erasable.")
    try:
        known = allowed(name, classifies=classifies).parameters(classifies=classifies)
        if unknown := given.keys() - known.keys():
            raise ConfigurationError(f"{len(unknown)} of its parameters are not known.")
        return name, tuple((p, known[p].read(given[p])) for p in sorted(given))
    except ConfigurationError as error:
        raise StateFormatError(f"its learner is no learner that a model can have: {error}") from None


def room() -> Any:
    """The room that trains. It needs scikit-learn, which a model that only forgets does not."""
    return import_module("erasable.estimators.trained")


def _as_selected(rows: Matrix, selection: GridSelection) -> Float64s:
    """Rows on the grid as numbers, without the constant of an intercept."""
    found: Float64s = dense(rows)[:, : selection.grid.n_features].astype(np.float64)
    return found / 2.0**selection.grid.bits


def codes_of(model: Model) -> tuple[int | None, ...] | None:
    """For each column that the learner of a model sees how many codes it may be; None if none are codes."""
    selection = model.configuration.selection
    return selection.raw.codes if isinstance(selection, RawStorage) else None
