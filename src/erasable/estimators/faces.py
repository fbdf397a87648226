"""Faces of the models of ``erasable.models``, which do the work: learning, forgetting, predicting, pickles.

:class:`ModelFace` stands in front of any model, :class:`ModelClassifier` of one whose rows have labels.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import clone

from erasable.core.layout import Buffer
from erasable.core.selector import Progress
from erasable.engines import opened_engine
from erasable.errors import ConfigurationError
from erasable.estimators.forgetting import Forgetting, ForgettingClassifier
from erasable.estimators.saving import Savable
from erasable.estimators.validated import SCHEMA, check_rows
from erasable.models.access import StoredRows, rows_of
from erasable.models.class_balance import LabelRuns, OfferedLabels
from erasable.models.files import KINDS, Fetch
from erasable.models.inputs import array_of
from erasable.models.model import Model
from erasable.models.passes import copy_without, learn_rows
from erasable.models.reports import ForgetReport, LearnReport
from erasable.models.row_source import ArraySource, Rows

M = TypeVar("M", bound=Model)


class ModelFace(Savable, Forgetting):
    """A face of a :class:`~erasable.models.model.Model`, which does the work.

    Subclasses say how a model is started from their parameters, and which parameters it has to agree with.
    """

    _model: Model
    _tensors = False  # whether rows in a tensor on a device are left there

    @abstractmethod
    def _start(self, X: Any, y: Any, classes: Any, *, streaming: bool) -> Model:
        """An empty model for checked rows like these, with the configuration that the constructor arguments name."""

    @abstractmethod
    def _check_unchanged(self, model: Any, classes: Any) -> None:
        """Refuse arguments that name another configuration than the model's."""

    @abstractmethod
    def _from_bytes(self, data: Any) -> Model:
        """The model whose state has these canonical bytes, with the code that bytes cannot hold."""

    @abstractmethod
    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        """The model that a file holds, with the code that files cannot hold; refused where the two do not agree."""

    def _check_kind(self, meta: dict[str, Any], *formats: str) -> None:
        if meta["format"] not in formats:
            raise ConfigurationError(
                f"the file holds a model of another kind ({KINDS[meta['format']]}), and like is one of "
                f"{type(self).__name__}."
            )

    def _agreed(self, model: M) -> M:
        """The model, if these parameters are those that it was made with."""
        try:
            self._check_unchanged(model, None)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"like has other parameters than the file was made with: give the same. Found: {error}"
            ) from error
        return model

    def _without_model(self) -> Self:
        """An estimator that checks rows as this one does, and holds none."""
        other: Self = clone(self)
        other._install({name: vars(self)[name] for name in SCHEMA if name in vars(self)})
        return other

    def _take_over(self, model: Model) -> None:
        """Stand in front of a model that came from a file, with the attributes of a first fit in its order."""
        self._install({} if model.n_features is None else {"n_features_in_": model.n_features}, _model=model)

    def _offered(self) -> Any:
        """What is noted of labels while rows are learnt, for a warning of a weak model."""
        return OfferedLabels()

    def _check_learnt(self, X: Any, y: Any, *, first: bool) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        """Rows and labels to learn, checked, and the attributes that a first fit sets beside the model."""
        return check_rows(self, X, y, first=first, tensors=self._tensors)

    def _check_asked(self, X: Any) -> Any:
        """Rows to predict, checked."""
        return check_rows(self, X, first=False, tensors=self._tensors)[0]

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def _fit(
        self, X: Any, y: Any, ids: Any, subjects: Any, *, allow_no_subject: bool, sample_weight: Any = None
    ) -> None:
        self._learn(X, y, ids, subjects, sample_weight=sample_weight, fresh=True, allow_no_subject=allow_no_subject)

    def _learn(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        *,
        classes: Any = None,
        sample_weight: Any = None,
        fresh: bool,
        streaming: bool = False,
        allow_no_subject: bool = False,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> LearnReport:
        """Check everything, then learn; a refused call changes nothing. ``sizes`` go to ``core.selector.select``."""
        X, y, schema = self._check_learnt(X, y, first=fresh)
        if fresh:
            model = self._start(X, y, classes, streaming=streaming)
        else:
            model = self._model
            model.check_whole()
            self._check_unchanged(model, classes)
        if model.one_by_one and model.classifies and model.order_key is None:
            LabelRuns().add(y).warn(stacklevel=4)  # who called fit
        with opened_engine(getattr(self, "engine", None)) as engine:
            if engine is None:
                names: dict[str, Any] = {"ids": ids, "subjects": subjects, "sample_weight": sample_weight}
                names.update(sizes, allow_no_subject=allow_no_subject)
                report = model.learn(X, y, progress=progress, **names)
            else:
                model = model if fresh else copy_without(model, [])  # should this be refused, the other one is whole
                rows = Rows(X, y, ids, subjects, sample_weight)
                source = ArraySource(model, rows, engine, allow_no_subject=allow_no_subject)
                watch = None if progress is None else (lambda done: progress(done, X.shape[0]))
                report = learn_rows(model, source, engine=engine, progress=watch)
        if not fresh and model is not self._model:
            self._model.erase()
            self._model = model
        if fresh:
            if model.one_by_one and not streaming:
                self._offered().add(y).warn(model, new=True, stacklevel=4)  # who called fit
            if self.__sklearn_is_fitted__():
                self._model.erase()
            self._install(schema, _model=model)
        return report

    def _forget(self, ids: Any, subjects: Any) -> ForgetReport:
        self._check_fitted("forget")
        return self._model.forget(ids=ids, subjects=subjects)

    def _asked(self, X: Any) -> Any:
        self._check_fitted("predict")
        X = self._check_asked(X)
        self._model.check_rows_left()
        return X

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def model_(self) -> Model:
        """The model behind this face: what files, commands and operations work on."""
        model: Model = self._attribute("model_")
        return model

    def fitted_model(self, purpose: str) -> Model:
        """The model behind this face, for a purpose that an error can name.

        Raises
        ------
        NotFittedError
        """
        self._check_fitted(purpose)
        return self._model

    def rows_of(self, *, ids: Any = None, subjects: Any = None) -> StoredRows:
        """What the model stores of somebody: the core rows with these ids, and all of these subjects.

        Parameters
        ----------
        ids, subjects : array-like, optional
            As in ``forget``. Unknown ones are no error: nothing is stored of them.

        Returns
        -------
        StoredRows
            Ids, labels and the values of features, as far as the grid allows; ``values_are`` says how far that is. With
            a schema, also what they say of the cells of the raw table.
        """
        self._check_fitted("rows_of")
        return rows_of(self._model.snapshot(), ids, subjects)

    def state_digest(self) -> str:
        """SHA-256 of the whole stored state, as 64 hexadecimal digits; equal states have equal digests anywhere."""
        self._check_fitted("state_digest")
        return self._model.snapshot().digest

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the core rows in learning order."""
        ids = self._attribute("core_ids_").core.ids()
        return array_of(ids) if ids else np.empty(0, dtype=np.int64)

    @property
    def n_core_(self) -> int:
        """Number of core rows."""
        return len(self._attribute("n_core_").core)

    @property
    def stored_rows_(self) -> int:
        """Number of training rows the model holds: the core rows."""
        return len(self._attribute("stored_rows_").core)

    @property
    def stored_bytes_(self) -> int:
        """Bytes of rows, sums and weights the model holds."""
        return int(self._attribute("stored_bytes_").nbytes)

    def _attribute(self, name: str) -> Any:
        self._check_attribute(name)
        self._model.check_whole()
        return self._model

    # -- scikit-learn and pickle ---------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    def _bytes(self) -> Any:
        """What a pickle holds of the model."""
        return self._model.snapshot().to_bytes()

    def __copy__(self) -> Self:
        return self._copied(self.__getstate__())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._copied(deepcopy(self.__getstate__(), memo))

    def _copied(self, attributes: dict[str, Any]) -> Self:
        """Another of these attributes, with the engine of this one, which no pickle has."""
        other = object.__new__(type(self))
        other.__setstate__(attributes)
        if "engine" in attributes:
            other.engine = self.engine
        return other

    def __getstate__(self) -> dict[str, Any]:
        attributes = super().__getstate__()
        if attributes.get("engine") is not None:
            attributes["engine"] = None  # it is no part of a model, and where this is read there may be none
        if "_model" in attributes:
            attributes["_model"] = self._bytes()
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        attributes = dict(attributes)
        data = attributes.pop("_model", None)
        super().__setstate__(attributes)
        if data is not None:
            self._model = self._from_bytes(data)


class ModelClassifier(ModelFace, ForgettingClassifier):
    """A face of a model whose rows have labels."""

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes fixed by the caller, or those of the surviving core rows."""
        return array_of(self._attribute("classes_").classes)
