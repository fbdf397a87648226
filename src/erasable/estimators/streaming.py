"""Faces of models that select row by row, which go on learning and predict by themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

import numpy.typing as npt
from sklearn.base import clone

from erasable.core.arrays import Float64s
from erasable.core.selector import Progress
from erasable.engines import opened_engine
from erasable.errors import ConfigurationError
from erasable.estimators.faces import ModelClassifier, ModelFace
from erasable.models.model import Model
from erasable.models.passes import BUDGET_BYTES, Ahead, learn_rows
from erasable.models.reports import LearnReport
from erasable.models.row_source import RowSource, StartedSource
from erasable.validation import whole_number


class StreamingFace(ModelFace):
    """A model that selects rows by a threshold, one after the other: it goes on learning, and predicts by itself."""

    def learn(
        self,
        X: Any,
        y: Any,
        *,
        ids: Any = None,
        subjects: Any = None,
        classes: Any = None,
        sample_weight: Any = None,
        streaming: bool = False,
        allow_no_subject: bool = False,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Learn rows after those learnt before, and get a report instead of the model.

        Parameters
        ----------
        X, y, ids, subjects, classes, allow_no_subject
            As in ``partial_fit``.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts, for models that have a use for it; see ``ErasableClassifier.fit``.
        streaming : bool, default=False
            Whether more rows will come, so that the number of these names no horizon.
        progress : callable, optional
            Called with (rows done, rows in all) after every block.
        """
        return self._learn(
            X,
            y,
            ids,
            subjects,
            classes=classes,
            sample_weight=sample_weight,
            fresh=not self.__sklearn_is_fitted__(),
            streaming=streaming,
            allow_no_subject=allow_no_subject,
            progress=progress,
        )

    def learn_blocks(
        self,
        blocks: Iterable[Any],
        *,
        allow_no_subject: bool = False,
        progress: Callable[[int], None] | None = None,
        budget_bytes: int = BUDGET_BYTES,
        reading: Callable[[int], None] | None = None,
        ahead: Ahead | None = None,
        engine: Any = None,
    ) -> LearnReport:
        """Learn the rows of many blocks as if they came in one call, without holding them all.

        With ``order="hashed"`` the blocks are gone through several times; see ``erasable.models.passes``. Where a call
        is refused, rows of earlier blocks are forgotten again, and the model is as it was.

        Parameters
        ----------
        blocks : iterable of Table
            Anything with ``X``, ``y``, ``ids`` and ``subjects``, and ``weights`` where rows have any. What can be gone
            through but once, an iterator or a pipe, has to fit the budget, unless rows are decided as given.
        allow_no_subject : bool, default=False
            As in ``fit``.
        progress : callable, optional
            Called with the number of rows whose fate is known.
        budget_bytes : int, default=256 MiB
            About how many bytes of rows are held at a time. It changes the number of passes and nothing else.
        reading : callable, optional
            Called with the number of rows read in the first pass of a new model, when no fate is known yet.
        ahead : callable, optional
            Called with a model of the rows before and rows that it has not learnt; see ``erasable.models.passes``.
        engine : None, "local", "torch", "dask" or Engine, optional
            Where rows are screened, in place of the parameter ``engine``.
        """
        source = RowSource.of(blocks)
        budget = whole_number(budget_bytes, "budget_bytes")
        face, fresh = self, not self.__sklearn_is_fitted__()
        schema: dict[str, Any] = {}
        if fresh:
            source = started = StartedSource(source)
            if started.first is None:
                raise ConfigurationError("there is nothing to learn: no rows came.")
            X, y, schema = self._check_learnt(started.first.X, started.first.y, first=True)
            face = clone(self)
            face._install(schema, _model=self._start(X, y, None, streaming=True))
        face._model.check_whole()
        face._check_unchanged(face._model, None)
        offered = face._offered()
        with opened_engine(getattr(self, "engine", None) if engine is None else engine) as where:
            report = learn_rows(
                face._model,
                source,
                budget_bytes=budget,
                allow_no_subject=allow_no_subject,
                progress=progress,
                reading=reading,
                ahead=ahead,
                engine=where,
                offered=offered,
                check=face._without_model().check_block,
            )
        offered.warn(face._model, new=fresh, stacklevel=2)
        if fresh:
            self._install(schema, _model=face._model)
        return report

    def check_block(self, block: Any) -> tuple[Any, npt.NDArray[Any]]:
        """The rows and labels of a block, checked like those of ``partial_fit``; workers call it, too."""
        X, y, _ = self._check_learnt(block.X, block.y, first=False)
        return X, y

    def check_agrees(self, model: Model) -> None:
        """Refuse parameters that name another configuration than a model has.

        Raises
        ------
        ConfigurationError
        """
        self._check_unchanged(model, None)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row: the sign of its score, or the class with the largest one; or its targets."""
        X = self._asked(X)
        return self._model.predict(X)

    @property
    def threshold_(self) -> float:
        """The threshold in force."""
        return float(self._attribute("threshold_").configuration.selection.threshold)


class ErasableBase(StreamingFace, ModelClassifier):
    """A classifier of this kind."""

    def partial_fit(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        classes: Any = None,
        *,
        allow_no_subject: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects, allow_no_subject
            As in ``fit``. Give ``ids`` in earnest use: without them rows are numbered on from the largest id among
            the *core* rows, because a count of all rows ever seen would be a trace of them.
        classes : array-like, optional
            At the first call: all classes, fixed from then on.

        Returns
        -------
        self
        """
        self.learn(X, y, ids=ids, subjects=subjects, classes=classes, streaming=True, allow_no_subject=allow_no_subject)
        return self

    def decision_function(self, X: Any) -> Float64s:
        """Scores: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        X = self._asked(X)
        return self._model.decision(X)

    def predict_proba(self, X: Any) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes).

        Under the paper's assumption ``E[y | x] = u'x`` the probability of the positive class is ``(1 + w'x) / 2``,
        clipped to [0, 1]. With more classes the vector of these is projected to the nearest probability vector, of
        which clipping is the case of two classes. With the logistic loss it is the sigmoid of the score, and with more
        classes the sigmoids divided by their sum.
        """
        X = self._asked(X)
        return self._model.probabilities(X)
