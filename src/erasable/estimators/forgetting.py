"""The face that scikit-learn sees: ``fit`` with ids and subjects, ``forget``, and what is stored.

:class:`ForgettingClassifier` is the protocol. :class:`ModelClassifier` puts it in front of a model of
``erasable.models``, which has a state, and :class:`ErasableBase` adds what models that select row by row can do.
:class:`RowsClassifier` is for learners whose state has no canonical bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from erasable.core.arrays import Float64s
from erasable.core.layout import Buffer, Key
from erasable.core.selector import Progress
from erasable.errors import ChangedMeanwhileError, ConfigurationError, NoRowsError
from erasable.estimators.saving import Savable
from erasable.estimators.validated import check_rows
from erasable.models.checks import check_ids, check_subjects
from erasable.models.files import KINDS
from erasable.models.guarantee import Guarantee
from erasable.models.keys import array_of, label_type, pick
from erasable.models.model import Model
from erasable.models.order import warn_of_runs
from erasable.models.reports import ForgetReport, LearnReport, warn_of_emptied_classes
from erasable.models.rows import CoreRows
from erasable.models.shards import Fetch

M = TypeVar("M", bound=Model)
_SCHEMA = ("feature_names_in_", "n_features_in_")


class ForgettingClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that can forget rows by id, or all rows of a subject.

    Every check comes before every change. Should an interrupt hit while a change is being written, the model refuses to
    work until it is fitted again.
    """

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds after ``forget``."""

    @abstractmethod
    def _fit(self, X: Any, y: Any, ids: Any, subjects: Any, *, allow_no_subject: bool) -> None: ...

    @abstractmethod
    def _forget(self, ids: Any, subjects: Any) -> ForgetReport: ...

    @abstractmethod
    def __sklearn_is_fitted__(self) -> bool: ...

    def fit(self, X: Any, y: Any, ids: Any = None, subjects: Any = None, *, allow_no_subject: bool = False) -> Self:
        """Learn from nothing: whatever the model held before is overwritten.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        y : array of shape (n_samples,)
            Labels: integers, strings, booleans or floats, two or more classes (one is allowed).
        ids : array of shape (n_samples,), optional
            Distinct integers, strings or bytes that name the rows; by default 0, 1, 2, ...
        subjects : array of shape (n_samples,), optional
            To whom each row belongs; a subject may have many rows.
        allow_no_subject : bool, default=False
            Learn rows for which ``subjects`` has None, NaN or an empty text. Otherwise they are refused: no erasure by
            subject could reach them, only one by id.

        Returns
        -------
        self
        """
        self._fit(X, y, ids, subjects, allow_no_subject=allow_no_subject)
        return self

    def forget(self, *, ids: Any = None, subjects: Any = None) -> ForgetReport:
        """Rows with these ids, or of these subjects, stop existing for the model.

        Parameters
        ----------
        ids : array-like, optional
            Ids of rows. Unknown ones are no error and change nothing.
        subjects : array-like, optional
            Subjects all of whose rows are to go. Rows learnt without ``subjects`` can only be found by id.

        Returns
        -------
        ForgetReport
            For the caller; the model keeps nothing of it.

        Warns
        -----
        EmptiedClassWarning
            When the last stored row of a class has left, and others remain.

        Notes
        -----
        What holds afterwards, ``guarantee`` says. All rows of one call leave together.
        """
        report = self._forget(ids, subjects)
        warn_of_emptied_classes(report, fixable=hasattr(self, "classes"))
        return report

    def forget_quietly(self, ids: Any = None, subjects: Any = None) -> ForgetReport:
        """``forget`` without warnings, for who says what there is to say, or simulates."""
        return self._forget(ids, subjects)

    def _check_fitted(self, purpose: str) -> None:
        if not self.__sklearn_is_fitted__():
            how = "fit or partial_fit" if hasattr(self, "partial_fit") else "fit"
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call {how} before {purpose}.")

    def _check_attribute(self, name: str) -> None:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {name} before fit.")

    def _install(self, schema: dict[str, Any], **fitted: Any) -> None:
        """Set what a first fit sets, in place of what an earlier one did."""
        fitted = {**schema, **fitted}
        for name in {**dict.fromkeys(_SCHEMA), **fitted}:  # attributes stand in the order of a first fit
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Scikit-learn's table for notebooks, less every value that comes from rows."""
        table = super()._get_fitted_attr_html(doc_link)
        for name in ("classes_", "coef_", "intercept_", "core_ids_"):
            if name in table:
                table[name] = {"type_name": f"{table[name]['type_name']}, not shown", "value": ""}
        return table


class ModelClassifier(Savable, ForgettingClassifier):
    """A face of a :class:`~erasable.models.model.Model`, which does the work.

    Subclasses say how a model is started from their parameters, and which parameters it has to agree with.
    """

    _model: Model

    @abstractmethod
    def _start(self, n_features: int | None, n_samples: int, classes: Any, *, streaming: bool) -> Model:
        """An empty model with the configuration that the constructor arguments name."""

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
                "like has other parameters than the file was made with: give the same, or leave threshold, kappa and "
                f"horizon out where they may be. Found: {error}"
            ) from error
        return model

    def _take_over(self, model: Model) -> None:
        """Stand in front of a model that came from a file."""
        self._model = model
        if model.n_features is not None:
            self.n_features_in_ = model.n_features

    def _check_learnt(self, X: Any, y: Any, *, first: bool) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        """Rows and labels to learn, checked, and the attributes that a first fit sets beside the model."""
        return check_rows(self, X, y, first=first)

    def _check_asked(self, X: Any) -> Any:
        """Rows to predict, checked."""
        return check_rows(self, X, first=False)[0]

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def _fit(self, X: Any, y: Any, ids: Any, subjects: Any, *, allow_no_subject: bool) -> None:
        self._learn(X, y, ids, subjects, fresh=True, allow_no_subject=allow_no_subject)

    def _learn(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        *,
        classes: Any = None,
        fresh: bool,
        streaming: bool = False,
        allow_no_subject: bool = False,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> LearnReport:
        """Check everything, then learn; a refused call changes nothing. ``sizes`` go to ``core.selector.select``."""
        X, y, schema = self._check_learnt(X, y, first=fresh)
        if fresh:
            width = X.shape[1] if X.ndim > 1 else None
            model = self._start(width, X.shape[0], classes, streaming=streaming)
        else:
            model = self._model
            model.check_whole()
            self._check_unchanged(model, classes)
        if model.one_by_one and model.order_key is None:
            warn_of_runs(y, stacklevel=5)  # who called fit
        report = model.learn(X, y, ids, subjects, allow_no_subject=allow_no_subject, progress=progress, **sizes)
        if fresh:
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

    def state_digest(self) -> str:
        """SHA-256 of the whole stored state, as 64 hexadecimal digits; equal states have equal digests anywhere."""
        self._check_fitted("state_digest")
        return self._model.snapshot().digest

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes fixed by the caller, or those of the surviving core rows."""
        return array_of(self._attribute("classes_").classes)

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

    def __getstate__(self) -> dict[str, Any]:
        attributes = super().__getstate__()
        if "_model" in attributes:
            attributes["_model"] = self._bytes()
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        attributes = dict(attributes)
        data = attributes.pop("_model", None)
        super().__setstate__(attributes)
        if data is not None:
            self._model = self._from_bytes(data)


class ErasableBase(ModelClassifier):
    """A model that selects rows by a threshold, one after the other: it goes on learning, and predicts by itself."""

    def learn(
        self,
        X: Any,
        y: Any,
        *,
        ids: Any = None,
        subjects: Any = None,
        classes: Any = None,
        streaming: bool = False,
        allow_no_subject: bool = False,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Learn rows after those learnt before, and get a report instead of the model.

        Parameters
        ----------
        X, y, ids, subjects, classes, allow_no_subject
            As in ``partial_fit``.
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
            fresh=not self.__sklearn_is_fitted__(),
            streaming=streaming,
            allow_no_subject=allow_no_subject,
            progress=progress,
        )

    def check_agrees(self, model: Model) -> None:
        """Refuse parameters that name another configuration than a model has.

        Raises
        ------
        ConfigurationError
        """
        self._check_unchanged(model, None)

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

    # -- predicting ----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Float64s:
        """Scores: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        X = self._asked(X)
        return self._model.decision(X)

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row: the sign of its score, or the class with the largest one."""
        X = self._asked(X)
        return self._model.predict(X)

    def predict_proba(self, X: Any) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes).

        Under the paper's assumption ``E[y | x] = u'x`` the probability of the positive class is ``(1 + w'x) / 2``,
        clipped to [0, 1]. With more classes the vector of these is projected to the nearest probability vector, of
        which clipping is the case of two classes.
        """
        X = self._asked(X)
        return self._model.probabilities(X)

    @property
    def threshold_(self) -> float:
        """The threshold in force."""
        return float(self._attribute("threshold_").configuration.threshold)


class RowsClassifier(ForgettingClassifier):
    """A classifier that holds rows in its own way. Subclasses say how rows are held, learnt and removed.

    ``_names`` has ids, subjects and labels of the stored rows; its rows have no columns.
    """

    classes_: Any
    _names: CoreRows
    _whole: bool

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse constructor arguments that cannot work."""

    @abstractmethod
    def _learn(self, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        """Every attribute of the model that these rows give; nothing is set here.

        ``_stored`` among them are the ids of the rows that are kept, where these are not all.
        """

    @abstractmethod
    def _remove(self, keys: list[Key]) -> int:
        """Remove these stored rows and bring the model up to date; the number of rows trained on again."""

    @abstractmethod
    def _erase(self) -> None:
        """Overwrite the rows held: another fit replaces them."""

    def _fit(self, X: Any, y: Any, ids: Any, subjects: Any, *, allow_no_subject: bool) -> None:
        self._check_parameters()
        X, y, schema = check_rows(self, X, y, first=True)
        label_type(y)
        n = X.shape[0]
        column = check_ids(ids, n, {})
        keys: Any = range(n) if column is None else column
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        owners: Any = [None] * n
        if subjects is not None:
            owners = check_subjects(subjects, n, None, allow_no_subject=allow_no_subject)
        fitted = self._learn(X, y, keys)
        stored = fitted.pop("_stored", keys)
        place = {key: i for i, key in enumerate(keys)}
        kept = np.fromiter((place[key] for key in stored), dtype=np.intp, count=len(stored))
        names = CoreRows(np.empty((len(kept), 0)), stored, pick(owners, kept), pick(y, kept))
        if self.__sklearn_is_fitted__():
            self._erase()
        self._install(schema, **fitted, _names=names, _whole=True)

    def _forget(self, ids: Any, subjects: Any) -> ForgetReport:
        self._check_whole("forget")
        requested, not_stored, found = self._names.named(ids, subjects)
        retrained, before = 0, len(self.classes_)
        if found:
            self._whole = False
            retrained = self._remove(found)
            self._names.remove(found)
            self._whole = True
        emptied = before - len(self.classes_) if len(self._names) else 0
        counts = requested, len(found), len(self._names), not_stored
        return ForgetReport(*counts, rows_retrained=retrained, classes_emptied=emptied)

    @property
    def stored_rows_(self) -> int:
        """Number of training rows the model holds."""
        self._check_attribute("stored_rows_")
        return len(self._names)

    def _rows_to_predict(self, X: Any) -> Any:
        """Rows checked for prediction by a model that has rows left."""
        self._check_whole("predict")
        X, _, _ = check_rows(self, X, first=False)
        if not len(self._names):
            raise NoRowsError("no rows remain in this model, so it cannot predict: call fit with new rows.")
        return X

    def _check_whole(self, purpose: str) -> None:
        self._check_fitted(purpose)
        if not self._whole:
            raise ChangedMeanwhileError("this model was interrupted while it was forgetting: call fit again.")

    def __sklearn_is_fitted__(self) -> bool:
        return "_names" in vars(self)

    def __getstate__(self) -> dict[str, Any]:
        if self.__sklearn_is_fitted__():
            self._names.settle()  # a pickle shows no gaps
        attributes: dict[str, Any] = super().__getstate__()
        return attributes
