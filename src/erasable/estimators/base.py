"""What every estimator of this package shares: it validates input as scikit-learn does, and a ``Model`` does the work.

:class:`ErasableEstimator` has fit, partial_fit, forget, predict, save and pickles; :class:`ErasableClassifierBase` adds
what only classifiers have.
"""

from __future__ import annotations

import os
import warnings
from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext, suppress
from copy import deepcopy
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_html_repr
from sklearn.utils.metaestimators import available_if

from erasable.core.arrays import ColumnLike, Float64s, MatrixLike
from erasable.core.layout import Buffer
from erasable.core.selector import Progress
from erasable.engines import engine_of, opened_engine
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    ErasableError,
    InputError,
    NotErasedError,
    UnknownOutcomeError,
)
from erasable.estimators.validated import INPUT_ATTRIBUTES, check_rows
from erasable.models.access import StoredRows, rows_of
from erasable.models.files import Fetch, FileMark, checksum_at, files_of, locked_model, mark_of, write
from erasable.models.inputs import array_of
from erasable.models.model import Model
from erasable.models.passes import BUDGET_BYTES, Ahead, copy_without, learn_rows
from erasable.models.reports import (
    ForgetReport,
    Guarantee,
    LabelRuns,
    LearnReport,
    OfferedColumns,
    OfferedLabels,
    OfferedRows,
    OfferedTargets,
    is_of_numbers,
    ranges_in,
    warn_of_columns,
    warn_of_emptied_classes,
)
from erasable.models.row_source import ArraySource, Rows, RowSource, StartedSource
from erasable.models.selections import GridSelection
from erasable.models.state import KINDS, State
from erasable.pages import facts
from erasable.store import PRIVATE
from erasable.validation import whole_number

F = TypeVar("F", bound=Callable[..., Any])

_FROM_ROWS = ("classes_", "coef_", "intercept_", "core_ids_")  # attributes whose values come from rows


def _if_streaming(method: F) -> F:
    """Make a method exist only for estimators that can learn more rows later."""
    limited: F = available_if(lambda self: self._streaming)(method)
    return limited


class ErasableEstimator(BaseEstimator):
    """An estimator that can forget rows by id, or all rows of a subject.

    A :class:`~erasable.models.model.Model` holds the rows; a subclass says how its parameters configure one. Every
    check comes before every change. If an interrupt hits while a change is being written, the model refuses to work
    until it is fitted again.
    """

    if TYPE_CHECKING:  # scikit-learn has no types for these

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """Return the parameters by name."""

        def set_params(self, **params: Any) -> Self:
            """Set parameters by name and return the estimator."""

    _model: Model
    _streaming = True  # whether more rows can be learnt after fit
    _tensors = False  # whether rows in a tensor on a device are left there
    _takes_missing = False  # whether NaN may be among rows of numbers

    # Which file this model was loaded from or saved to, by path. A mark does not depend on the bytes of the file, from
    # which forgotten rows could be recognised. It is no part of the state: never written or pickled.
    _on_disk: Mapping[str, FileMark | None] = MappingProxyType({})

    # -- what a subclass defines ---------------------------------------------------------------------------------

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds after ``forget``."""

    @abstractmethod
    def _start(self, X: object, y: object, classes: object, *, streaming: bool) -> Model:
        """Return an empty model for validated rows like these, configured by the constructor arguments."""

    @abstractmethod
    def _check_unchanged(self, model: Model, classes: object) -> None:
        """Raise ConfigurationError if the constructor arguments name another configuration than the model's."""

    @abstractmethod
    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        """Return the model in a file, with the code that files cannot hold; refused if the two disagree."""

    def _code(self) -> Any:
        """Return the code that the bytes of a state cannot hold; pickles hold it next to the bytes."""
        return None

    def _check_rows_to_learn(
        self, X: object, y: object, *, first: bool
    ) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        """Return validated rows and labels to learn, and the attributes that a first fit sets."""
        return check_rows(self, X, y, first=first, tensors=self._tensors, missing=self._takes_missing)

    def _check_rows_to_predict(self, X: object) -> Any:
        """Return validated rows to predict."""
        return check_rows(self, X, first=False, tensors=self._tensors, missing=self._takes_missing)[0]

    def _html_repr(self) -> str:
        """Return what notebooks show: scikit-learn's diagram and, of a fitted model, what it stores and promises."""
        diagram: str = estimator_html_repr(self)
        if not self.__sklearn_is_fitted__() or self._model.version_token is None:
            return diagram
        digest = None
        with suppress(ErasableError):  # of a model whose state has no canonical bytes
            digest = self.state_digest()
        state = ("rows stored", len(self._model.core)), ("state digest", digest)
        return diagram + facts(type(self).__name__, [*state, ("guarantee", str(self.guarantee))])

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(
        self, X: object, y: object, ids: object = None, subjects: object = None, *, allow_no_subject: bool = False
    ) -> Self:
        """Fit a new model; everything that this estimator held before is overwritten.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        y, ids, subjects, allow_no_subject
            As in ``ErasableClassifier.fit``.

        Returns
        -------
        self
        """
        self._learn(Rows(X, y, ids, subjects), fresh=True, allow_no_subject=allow_no_subject)
        return self

    @_if_streaming
    def partial_fit(
        self,
        X: object,
        y: object,
        ids: object = None,
        subjects: object = None,
        classes: object = None,
        *,
        allow_no_subject: bool = False,
        replace: bool = False,
    ) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects, allow_no_subject
            As in ``fit``. Give ``ids`` in production: without them rows are numbered on from the largest id among the
            *core* rows, because a count of all rows ever seen would be a trace of them.
        classes : array-like, optional
            At the first call: all classes, fixed from then on.
        replace : bool, default=False
            As in ``ErasableClassifier.partial_fit``.

        Returns
        -------
        self
        """
        rows = Rows(X, y, ids, subjects)
        self._learn(rows, classes=classes, streaming=True, allow_no_subject=allow_no_subject, replacing=replace)
        return self

    @_if_streaming
    def learn(
        self,
        X: MatrixLike,
        y: ColumnLike,
        *,
        ids: ColumnLike = None,
        subjects: ColumnLike = None,
        classes: ColumnLike = None,
        sample_weight: ColumnLike = None,
        streaming: bool = False,
        allow_no_subject: bool = False,
        replace: bool = False,
        progress: Progress | None = None,
    ) -> LearnReport:
        """Learn rows after those learnt before, and return a report instead of the model.

        Parameters
        ----------
        X, y, ids, subjects, classes, allow_no_subject, replace
            As in ``partial_fit``.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts, for linear models; see ``ErasableClassifier.fit``.
        streaming : bool, default=False
            Whether more rows will come, so that the number of these names no horizon.
        progress : callable, optional
            Called with (rows done, rows in all) after every block.
        """
        rows = Rows(X, y, ids, subjects, sample_weight)
        options = {"streaming": streaming, "allow_no_subject": allow_no_subject, "replacing": replace}
        return self._learn(rows, classes=classes, progress=progress, **options)

    def _learn(
        self,
        given: Rows,
        *,
        classes: object = None,
        fresh: bool = False,
        streaming: bool = False,
        allow_no_subject: bool = False,
        replacing: bool = False,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> LearnReport:
        """Check everything, then learn; a refused call changes nothing. Tests set ``sizes`` of blocks."""
        fresh = fresh or not self.__sklearn_is_fitted__()
        X, y, attributes = self._check_rows_to_learn(given.X, given.y, first=fresh)
        if fresh:
            model = self._start(X, y, classes, streaming=streaming)
        else:
            model = self._model
            model.check_whole()
            self._check_unchanged(model, classes)
        if model.selection.independent and streaming and given.ids is None:
            raise InputError(
                "partial_fit needs ids with independent selection: the hash of a row's id says whether it is kept. "
                "Give ids=."
            )
        replaced, classes_before = self._stored(model, given.ids) if replacing else [], model.classes
        if model.selection.one_by_one and model.classifies and model.order_key is None:
            LabelRuns().add(y).warn(stacklevel=3)  # the caller of fit
        engine = getattr(self, "engine", None)
        if not fresh and (replaced or engine is not None):
            model = copy_without(model, replaced)  # a refused call leaves the original whole
        if engine is None or (model.order_key is not None and not engine_of(engine).helps_in_memory):
            options: dict[str, Any] = {"sample_weight": given.weights, "allow_no_subject": allow_no_subject, **sizes}
            report = model.learn(X, y, given.ids, given.subjects, progress=progress, **options)
        else:
            with opened_engine(engine) as where:
                source = ArraySource(model, replace(given, X=X, y=y), where, allow_no_subject=allow_no_subject)
                watch = None if progress is None else (lambda done: progress(done, X.shape[0]))
                report = learn_rows(model, source, engine=where, progress=watch)
        if fresh and model.selection.one_by_one and not streaming:
            self._offered().add(y).warn(model, new=True, stacklevel=3)  # the caller of fit
        if fresh and isinstance(model.selection, GridSelection):
            names = model.feature_names or attributes.get("feature_names_in_")
            warn_of_columns(model, X.shape, ranges_in(X), names, stacklevel=3)  # the caller of fit
        if self.__sklearn_is_fitted__() and model is not self._model:
            self._model.erase()
        if fresh:
            install(self, attributes, _model=model)
        else:
            self._model = model
        if replaced and len(model.core):
            warn_of_emptied_classes(len(set(classes_before) - set(model.classes)), stacklevel=4)  # the caller
        return replace(report, rows_replaced=len(replaced))

    def _stored(self, model: Model, ids: Any) -> list[Any]:
        """Return those of these ids that the model stores, for rows that replace them."""
        if ids is None:
            raise InputError("replace=True knows rows by their ids, and these have none: give ids=.")
        return model.named(ids=ids).found

    @_if_streaming
    def learn_blocks(
        self,
        blocks: Iterable[Any],
        *,
        allow_no_subject: bool = False,
        progress: Callable[[int], None] | None = None,
        budget_bytes: int = BUDGET_BYTES,
        reading: Callable[[int], None] | None = None,
        ahead: Ahead | None = None,
        engine: object = None,
    ) -> LearnReport:
        """Learn the rows of many blocks as if they came in one call, without holding them all.

        With ``order="hashed"`` the blocks are read several times; see ``erasable.models.passes``. If a call is
        refused, rows of earlier blocks are forgotten again, and the model is as it was.

        Parameters
        ----------
        blocks : iterable of Table
            Anything with ``X``, ``y``, ``ids`` and ``subjects``, and ``weights`` if rows have any. What can be read
            only once, an iterator or a pipe, has to fit the budget, unless ``order="given"``.
        allow_no_subject, engine
            As in ``fit``; and an engine in place of the parameter ``engine``.
        progress : callable, optional
            Called with the number of rows decided.
        budget_bytes : int, default=256 MiB
            About how many bytes of rows are held at a time. It changes the number of passes and nothing else.
        reading : callable, optional
            Called with the number of rows read in the first pass of a new model, before any is decided.
        ahead : callable, optional
            Called with a model of the rows before and rows that it has not learnt; see ``erasable.models.passes``.
        """
        source, budget = RowSource.of(blocks), whole_number(budget_bytes, "budget_bytes")
        learning, fresh = self, not self.__sklearn_is_fitted__()
        if fresh:
            source = StartedSource(source)
            learning = self._started(source.first)
        learning._model.check_whole()
        learning._check_unchanged(learning._model, None)
        attributes = {name: value for name, value in vars(learning).items() if name in INPUT_ATTRIBUTES}
        numbers = fresh and isinstance(learning._model.selection, GridSelection) and is_of_numbers(learning._model)
        columns = OfferedColumns(learning._model) if numbers else None
        offered = OfferedRows(self._offered(), columns, new=fresh)
        checking = clone(learning)  # which validates as this one does, and holds no rows
        install(checking, attributes)
        engine = getattr(self, "engine", None) if engine is None else engine
        with nullcontext() if engine is None else opened_engine(engine) as where:
            report = learn_rows(
                learning._model,
                source,
                budget_bytes=budget,
                allow_no_subject=allow_no_subject,
                progress=progress,
                reading=reading,
                ahead=ahead,
                engine=where,
                offered=offered,
                check=checking.check_block,
            )
        names = learning._model.feature_names or attributes.get("feature_names_in_")
        offered.warn(learning._model, names, stacklevel=2)
        if fresh:
            install(self, attributes, _model=learning._model)
        return report

    def _started(self, first: Rows | None) -> Self:
        """Return a copy of this estimator with an empty model for rows like these."""
        if first is None:
            raise ConfigurationError("there is nothing to learn: no rows came.")
        X, y, attributes = self._check_rows_to_learn(first.X, first.y, first=True)
        started: Self = clone(self)
        install(started, attributes, _model=self._start(X, y, None, streaming=True))
        return started

    def check_block(self, block: Any) -> tuple[Any, npt.NDArray[Any]]:
        """Return the rows and labels of a block, validated as by ``partial_fit``; workers call it, too."""
        X, y, _ = self._check_rows_to_learn(block.X, block.y, first=False)
        return X, y

    def _offered(self) -> Any:
        """Return an empty tally of labels or targets, which warns of a weak model."""
        return OfferedTargets() if isinstance(self, RegressorMixin) else OfferedLabels()

    # -- forgetting ----------------------------------------------------------------------------------------------

    def forget(self, *, ids: object = None, subjects: object = None) -> ForgetReport:
        """Forget rows with these ids, and all rows of these subjects.

        Parameters
        ----------
        ids : array-like, optional
            Ids of rows. Unknown ones are no error and change nothing.
        subjects : array-like, optional
            Subjects whose rows are all forgotten, in one flat list. Rows learnt without ``subjects`` can only be
            forgotten by id. An empty text names nobody and is refused.

        Returns
        -------
        ForgetReport
            For the caller; the model keeps nothing of it.

        Warns
        -----
        EmptiedClassWarning
            When the last stored row of a class is forgotten, and rows of other classes remain.

        Notes
        -----
        ``guarantee`` states what holds afterwards. All rows of one call are forgotten together. With the logistic loss,
        new weights are computed in this call if the old ones were used since the last change, otherwise when needed.
        """
        report = self.forget_quietly(ids, subjects)
        warn_of_emptied_classes(report.classes_emptied, fixable=hasattr(self, "classes"))
        return report

    def forget_quietly(self, ids: object = None, subjects: object = None) -> ForgetReport:
        """``forget`` without warnings, for callers that give their own."""
        check_fitted(self, "forget")
        return self._model.forget(ids=ids, subjects=subjects)

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict(self, X: object) -> npt.NDArray[Any]:
        """The class of each row: the sign of its score, or the class with the largest one; or its targets.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        """
        X = self._rows_to_predict(X)
        return self._model.predict(X)

    def _rows_to_predict(self, X: object) -> Any:
        """Return validated rows for a model that can predict."""
        check_fitted(self, "predict")
        X = self._check_rows_to_predict(X)
        self._model.check_rows_left()
        return X

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def model_(self) -> Model:
        """The model behind this estimator: what files, commands and operations work on."""
        return self._fitted("model_")

    def fitted_model(self, purpose: str) -> Model:
        """The model behind this estimator, for a purpose that an error can name.

        Raises
        ------
        NotFittedError
        """
        check_fitted(self, purpose)
        return self._model

    def check_agrees(self, model: Model) -> None:
        """Raise ConfigurationError if the parameters name another configuration than the model's."""
        self._check_unchanged(model, None)

    def rows_of(self, *, ids: object = None, subjects: object = None) -> StoredRows:
        """Return the core rows that the model stores with these ids, and all of these subjects.

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
        return rows_of(self.fitted_model("rows_of").snapshot(), ids, subjects)

    def state_digest(self) -> str:
        """SHA-256 of the whole stored state, as 64 hexadecimal digits; equal states have equal digests anywhere."""
        return self.fitted_model("state_digest").snapshot().digest

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the core rows in learning order."""
        ids = self._fitted("core_ids_").core.ids()
        return array_of(ids) if ids else np.empty(0, dtype=np.int64)

    @property
    def n_core_(self) -> int:
        """Number of core rows."""
        return len(self._fitted("n_core_").core)

    @property
    def stored_rows_(self) -> int:
        """Number of training rows the model holds: the core rows."""
        return len(self._fitted("stored_rows_").core)

    @property
    def stored_bytes_(self) -> int:
        """Bytes of rows, sums and weights the model holds."""
        return int(self._fitted("stored_bytes_").nbytes)

    def _fitted(self, attribute: str) -> Model:
        """Return the model that an attribute is read from; AttributeError before fit, as scikit-learn expects."""
        check_attribute(self, attribute)
        self._model.check_whole()
        return self._model

    # -- files ---------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False, mode: int = PRIVATE) -> None:
        """Write the state to a file: on return it is durable, and what the file held before is erased.

        Equal states give equal files, whatever was learnt and forgotten on the way. ``sha256sum`` of the file is
        ``state_digest()``, unless the state is so large that it is written as several files.

        Parameters
        ----------
        path : str or path
            The file. Other processes may read it meanwhile; one that is changing it is waited for.
        overwrite : bool, default=False
            Replace a file that holds something else than this model was loaded from or saved to. Otherwise that is
            refused: it would bring back rows that were forgotten there.
        mode : int, default=0o600
            Permissions of a new file, whatever the umask. An existing file keeps its own, and its owner.

        Raises
        ------
        StoreError
            When the file cannot be written; it is then as it was.
        NotErasedError
            When the file was written, but what it held before could not be erased: save again.
        UnknownOutcomeError
            When the file holds this or what it held before, and which could not be found out, or not made to last.
        ChangedMeanwhileError
            When the file holds something else.

        Notes
        -----
        A file is recognised by its inode and the time when it was last written, so one that was copied, or restored
        from a backup, counts as changed. Where several processes change one file, use ``ModelFile``. A warning says
        when rows had names of columns that ``feature_names`` does not store.
        """
        files = files_of(self._savable())
        if getattr(self, "feature_names", ()) is None and hasattr(self, "feature_names_in_"):
            warnings.warn(
                "the rows had names of columns, which are no part of the state: a model loaded from the file will take "
                "columns by their places. Make the model with feature_names= to have them stored.",
                stacklevel=2,
            )
        with locked_model(path) as writer:
            where = os.path.realpath(writer.path)  # its folder may have several names
            existing = mark_of(writer.path) if writer.exists() else None
            if existing is not None and not overwrite and checksum_at(writer.path) is None:
                raise ChangedMeanwhileError(
                    f"{os.fspath(path)!s} exists already and holds no model: choose another name, or say "
                    "overwrite=True to replace it."
                )
            if existing is not None and not overwrite and existing != self._on_disk.get(where):
                raise ChangedMeanwhileError(
                    f"{os.fspath(path)!s} holds another model, or this one changed since it was loaded: saving could "
                    "bring back rows that were forgotten there. Load it anew and change that model, or say "
                    "overwrite=True to replace it."
                )
            try:
                write(writer, files, mode)
            except (NotErasedError, UnknownOutcomeError):
                self._on_disk = {**self._on_disk, where: mark_of(writer.path)}
                raise
            self._on_disk = {**self._on_disk, where: mark_of(writer.path)}

    def _savable(self) -> State:
        """Return the state, if a file of it can bring the model back."""
        return self.fitted_model("save").snapshot()

    def _check_kind(self, meta: dict[str, Any], *formats: str) -> None:
        """Raise ConfigurationError if a file is of none of these formats."""
        if meta["format"] not in formats:
            raise ConfigurationError(
                f"the file holds a model of another kind ({KINDS[meta['format']]}), and like is one of "
                f"{type(self).__name__}."
            )

    def _agreed(self, model: Model) -> Model:
        """Return the model of a file, if these parameters are those that it was made with."""
        try:
            self._check_unchanged(model, None)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"like has other parameters than the file was made with: give the same. Found: {error}"
            ) from error
        return model

    def _take_over(self, model: Model) -> None:
        """Take a model that came from a file, with the attributes of a first fit."""
        install(self, {} if model.n_features is None else {"n_features_in_": model.n_features}, _model=model)

    # -- pickles and scikit-learn --------------------------------------------------------------------------------

    def _bytes(self) -> Any:
        """Return what a pickle holds of the model."""
        return self._code(), self._model.feature_map, self._model.snapshot().to_bytes()

    def _from_bytes(self, data: Any) -> Model:
        """Return the model that a pickle holds."""
        code, feature_map, written = data
        return Model.restore(State.from_bytes(written, code), feature_map)

    def __getstate__(self) -> dict[str, Any]:
        attributes: dict[str, Any] = dict(super().__getstate__())
        attributes.pop("_on_disk", None)
        if attributes.get("engine") is not None:
            attributes["engine"] = None  # it is no part of a model, and may not exist where this is read
        if "_model" in attributes:
            attributes["_model"] = self._bytes()
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        attributes = dict(attributes)
        data = attributes.pop("_model", None)
        super().__setstate__(attributes)
        if data is not None:
            self._model = self._from_bytes(data)

    def __copy__(self) -> Self:
        return self._copied(self.__getstate__())

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self._copied(deepcopy(self.__getstate__(), memo))

    def _copied(self, attributes: dict[str, Any]) -> Self:
        """Return another estimator with these attributes, and the engine of this one, which no pickle has."""
        other = object.__new__(type(self))
        other.__setstate__(attributes)
        if "engine" in attributes:
            other.engine = self.engine
        return other

    def __sklearn_is_fitted__(self) -> bool:
        return "_model" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return scikit-learn's table for notebooks, without values that come from rows."""
        return without_values(super()._get_fitted_attr_html(doc_link))


class ErasableClassifierBase(ClassifierMixin, ErasableEstimator):
    """A classifier that can forget: adds classes, scores and probabilities."""

    if TYPE_CHECKING:  # scikit-learn has no types for it

        def score(self, X: object, y: object, sample_weight: object = None) -> float:
            """Return the share of rows whose label is predicted."""

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes fixed by the caller, or those of the surviving core rows."""
        return array_of(self._fitted("classes_").classes)

    def decision_function(self, X: object) -> Float64s:
        """Scores: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        """
        X = self._rows_to_predict(X)
        return self._model.decision(X)

    def predict_proba(self, X: object) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes).

        Under the paper's assumption ``E[y | x] = u'x`` the probability of the positive class is ``(1 + w'x) / 2``,
        clipped to [0, 1]. With more classes the vector of these is projected to the nearest probability vector, of
        which clipping is the case of two classes. With the logistic loss it is the sigmoid of the score, and with more
        classes the sigmoids divided by their sum.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        """
        X = self._rows_to_predict(X)
        return self._model.predict_proba(X)


def install(estimator: object, attributes: dict[str, Any], **fitted: Any) -> None:
    """Set what a first fit sets, in place of what an earlier one set."""
    fitted = {**attributes, **fitted}
    for name in {**dict.fromkeys(sorted(INPUT_ATTRIBUTES)), **fitted}:  # attributes stand in the order of a first fit
        vars(estimator).pop(name, None)
    vars(estimator).update(fitted)


def check_fitted(estimator: Any, purpose: str) -> None:
    """Raise NotFittedError before a first fit."""
    if not estimator.__sklearn_is_fitted__():
        kind, how = type(estimator).__name__, "fit or partial_fit" if hasattr(estimator, "partial_fit") else "fit"
        raise NotFittedError(f"This {kind} instance is not fitted yet: call {how} before {purpose}.")


def check_attribute(estimator: Any, name: str) -> None:
    """Raise AttributeError before a first fit."""
    if not estimator.__sklearn_is_fitted__():
        raise AttributeError(f"{type(estimator).__name__} has no {name} before fit.")


def without_values(table: Any) -> Any:
    """Return scikit-learn's table of fitted attributes without the values that come from rows."""
    for name in _FROM_ROWS:
        if name in table:
            table[name] = {"type_name": f"{table[name]['type_name']}, not shown", "value": ""}
    return table
