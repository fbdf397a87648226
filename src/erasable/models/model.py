"""The model: learn rows, forget rows, predict, and give the state.

Each change is check-then-change: a refused call leaves the model as it was. If an interrupt hits while a change is
being written, ``version_token`` stays None and the model refuses to be used again, as does an erased model. Requests
leave no trace.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from os import PathLike
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import ColumnLike, Float32s, Float64s, Matrix
from erasable.core.names import Key, Label, Owners, Spelling, hashed_order
from erasable.core.selector import Decisions, Progress
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    InputError,
    InputTypeError,
    NoRowsError,
    VerificationError,
)
from erasable.features import FeatureMap
from erasable.models.configuration import Configuration, described_map
from erasable.models.core_rows import CoreRows, NamedRows, Outline, overwrite
from erasable.models.heads.linear import ExactSums
from erasable.models.inputs import (
    ONE,
    Names,
    RowWeights,
    as_keys,
    check_ids,
    check_labels,
    check_row_weights,
    check_subjects,
    pick,
    spelt_keys,
    spelt_names,
    taken,
)
from erasable.models.reports import ForgetReport, Guarantee, LearnReport, VerifyReport, thinned
from erasable.models.state import State, layout_of
from erasable.models.strategies import Head, Screen, Selection

T = TypeVar("T")


class _Checked(NamedTuple):
    """Rows of one call that may be learnt: those whose weight is above zero, under names that were checked."""

    X: Matrix
    labels: npt.NDArray[Any]
    keys: Any  # None if rows are numbered from 0
    owners: Any  # None if no row has a subject
    weights: RowWeights | None


class _Chosen(NamedTuple):
    """Selected rows under their names, and what was computed on the way."""

    batches: list[Any]
    ids: list[Key]
    owners: list[Owners]
    labels: list[Any]
    weights: list[int]
    H: Float64s | None
    trained: dict[str, Any]
    decisions: Decisions


class Model:
    """A configuration and core rows. Everything else is derived from these when it is needed.

    Parameters
    ----------
    configuration : Configuration
        All that the caller fixed: the selection says which rows are kept, the head what is computed from them.
    feature_map : FeatureMap, optional
        The map that the configuration describes; for a file that was read without its code, an ``AbsentMap``.

    Attributes
    ----------
    core : CoreRows
        The core rows, and the tables that find them.
    sums : ExactSums or None
        Exact sums of the core rows, for heads that keep them.
    cache : dict
        What the head derived from the rows; overwritten and dropped with every change.
    version_token : object or None
        A fresh object after every change: it counts nothing. None after a change that was interrupted, and for a model
        whose arrays were overwritten.
    """

    def __init__(self, configuration: Configuration, feature_map: FeatureMap | None = None) -> None:
        selection, head = configuration.selection, configuration.head
        self.configuration, self.feature_map = configuration, feature_map
        self.core = CoreRows(selection.empty(), grid=selection.storage_grid, classed=head.classifies)
        self.sums = ExactSums(configuration) if head.keeps_sums else None
        self.cache: dict[str, Any] = {}
        self.version_token: object | None = object()

    @classmethod
    def restore(cls, state: State, feature_map: FeatureMap | None = None) -> Self:
        """The model that a state is of; sums and weights are taken over, for ``verify`` to judge."""
        c = state.configuration
        model = cls(c, feature_map)
        weights = None if state.row_weights is None else state.row_weights.tolist()
        names = state.ids, state.subjects, state.labels
        grid = c.selection.storage_grid
        model.core = CoreRows(state.rows.copy(), *names, grid, weights, classed=c.head.classifies)
        model.sums = ExactSums.read(c, state.labels, state.derived) if c.head.keeps_sums else None
        model.cache = c.head.cache_from(state)
        return model

    def outline(self, *, names: bool) -> Self:
        """A model that checks and prepares rows and holds none: all that screening needs, and small enough to send.

        With ``names`` it refuses rows that could not be learnt in addition to those of this model.
        """
        core, other = self.core, object.__new__(type(self))
        known: Any = Outline(core.place, core.subject_type, core.class_counts) if names else Outline()
        other.configuration, other.feature_map, other.core = self.configuration, self.feature_map, known
        other.sums, other.cache, other.version_token = None, {}, object()
        return other

    @property
    def selection(self) -> Selection:
        """Which rows are kept."""
        selection: Selection = self.configuration.selection
        return selection

    @property
    def head(self) -> Head:
        """What is computed from them."""
        head: Head = self.configuration.head
        return head

    # -- learning --------------------------------------------------------------------------------------------------

    def prepared(self, X: Matrix) -> Matrix:
        """Finite rows, dense or CSR, in the form that the selection reads; refused if they do not fit."""
        return self.selection.prepared(X, self.feature_map, self.core)

    def screening(self) -> Screen | None:
        """A test of prepared rows that rules out rows for good; see :meth:`Selection.screen`."""
        return self.selection.screen(self.core, self.sums)

    def learn(
        self,
        X: Matrix,
        y: npt.NDArray[Any],
        ids: Names = None,
        subjects: Names = None,
        *,
        sample_weight: ColumnLike = None,
        allow_no_subject: bool = False,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> LearnReport:
        """Stream rows through the selector; those selected become core rows, the others leave no trace.

        The rows of this call are decided in the order of their keyed hashes if the model has a key, else in the given
        order; in any case after the existing core rows.

        Parameters
        ----------
        X : array or CSR of shape (n_samples, n_features)
            Finite float32 or float64, or what the feature map takes.
        y : array of shape (n_samples,)
            Labels; or targets, then also of shape (n_samples, n_targets).
        ids, subjects, sample_weight, allow_no_subject
            As in ``ErasableClassifier.partial_fit``.
        progress : callable, optional
            Called with (rows done, rows in all) after every block.
        """
        self.check_whole()
        n, before = X.shape[0], self.version_token
        rows = self._checked(X, y, ids, subjects, sample_weight, allow_no_subject=allow_no_subject)
        chosen = self._chosen(rows, progress, sizes)
        self.head.check_room(self.configuration, self.core, chosen.weights)
        if self.version_token is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        self.version_token = None
        self.drop_caches()
        if self.sums is not None:
            self.sums.add(chosen.batches, chosen.labels, chosen.weights, chosen.H)
        is_new = not len(self.core)
        self.core.append(chosen.batches, chosen.ids, chosen.owners, chosen.labels, chosen.weights)
        if self.selection.independent and self.order_key is not None and not is_new:
            self.core.sort(self.order_key)
        self.cache = chosen.trained
        self.version_token = object()
        counts = n, len(chosen.ids), len(self.core), chosen.decisions, n - len(rows.labels)
        return LearnReport(*counts, **self.selection.rate_facts())

    def _checked(
        self,
        X: Matrix,
        y: npt.NDArray[Any],
        ids: Names,
        subjects: Names,
        sample_weight: ColumnLike,
        *,
        allow_no_subject: bool,
    ) -> _Checked:
        """The rows to select from; raises InputError if this model cannot hold them under their names."""
        n, y = X.shape[0], self.encode_labels(y)
        self.check_names_given(ids)
        ids, subjects = spelt_names(ids, subjects, self.spelling)
        keys = check_ids(ids, n, self.core.place)
        owners = None
        if subjects is not None:
            owners = check_subjects(subjects, n, self.core.subject_type, allow_no_subject=allow_no_subject)
        weights = self.checked_weights(sample_weight, n)
        if weights is None or weights.all():
            return _Checked(X, y, keys, owners, weights)
        counting = np.flatnonzero(weights)  # a row whose weight is zero is as good as not offered
        if not len(counting):
            raise InputError("every weight (sample_weight=) rounds to zero, so there is nothing to learn.")
        self.prepared(X)  # also refuses rows without weight that no model of this kind learns
        keys = taken(range(n) if keys is None else keys, counting)
        owners = None if owners is None else taken(owners, counting)
        return _Checked(X[counting], y[counting], keys, owners, weights[counting])

    def _chosen(self, given: _Checked, progress: Progress | None, sizes: dict[str, int | None]) -> _Chosen:
        """The rows that are selected; heads that train at once are trained on them. Changes nothing."""
        selection, head, key = self.selection, self.head, self.order_key
        rows, labels = self.prepared(given.X), given.labels
        named: Any = range(len(labels)) if given.keys is None else given.keys
        order = None if key is None or selection.independent else hashed_order(named, key)
        rows = rows if order is None else selection.in_order(rows, order)
        index, batches, decisions, H = selection.select(rows, self.core, self.sums, labels, named, progress, **sizes)
        index = index if order is None else order[index]
        ids: list[Key] = index.tolist() if given.keys is None else pick(given.keys, index)
        trained: dict[str, Any] = {}
        if head.trains_at_once:
            kept, trained = head.train(self.configuration, batches, pick(labels, index), ids)
            if len(kept) < len(index):
                index, batches, ids = index[kept], [batches[0][kept]], [ids[i] for i in kept]
        owners: list[Owners] = [None] * len(index) if given.owners is None else pick(given.owners, index)
        weights = [ONE] * len(index) if given.weights is None else given.weights[index].tolist()
        return _Chosen(batches, ids, owners, pick(labels, index), weights, H, trained, decisions)

    def encode_labels(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Labels, or targets on their grid; raises InputError if this model cannot hold them."""
        if not self.classifies:
            return self.head.encode_targets(y, self.configuration.grid)
        check_labels(y, self.configuration.classes, self.head.class_weight, self.core.class_counts)
        return y

    def check_names_given(self, ids: Names) -> None:
        """Raise InputError if the selection draws a sample of ids and the caller gave no ids."""
        if ids is None and self.selection.independent and len(self.core):
            raise InputError(
                "ids are required: the hash of a row's id decides whether it is kept, and row numbers depend on other "
                "rows. Give ids=."
            )
        if ids is None and self.selection.always_kept([]) is not None:
            raise InputError(
                "ids are required: with sample_rate the hash of a row's id decides whether it is kept, and row numbers "
                "depend on other rows. Give ids=."
            )

    def checked_weights(self, sample_weight: ColumnLike, n: int) -> RowWeights | None:
        """Weights of n rows in sixteenths; refused if they do not fit the rows, or if this model takes no weights."""
        if sample_weight is None:
            return None
        if not self.head.takes_weights:
            raise ConfigurationError(f"rows of a {self.head.NAME} model have no weights: leave them out.")
        return check_row_weights(sample_weight, n)

    # -- forgetting ------------------------------------------------------------------------------------------------

    def named(self, ids: Names = None, subjects: Names = None) -> NamedRows:
        """The core rows that a request names; refused if no row could have such names."""
        self.check_whole()
        if ids is not None and "id" in self.spelling:
            ids = spelt_keys(as_keys(ids, "ids"), self.spelling["id"])
        if subjects is not None and "subject" in self.spelling:
            subjects = spelt_keys(as_keys(subjects, "subjects"), self.spelling["subject"])
        return self.core.named(ids, subjects)

    @property
    def spelling(self) -> Spelling:
        """The normalisation of ids and subjects that the schema of this model declares; empty without one."""
        found: Spelling = getattr(self.feature_map, "identity", {})
        return found

    def forget(self, *, ids: Names = None, subjects: Names = None) -> ForgetReport:
        """Rows with these ids, or of these subjects, stop existing for the model; unknown ones change nothing."""
        request = self.named(ids, subjects)
        before = self.rows_by_class()
        retrained, emptied = self.remove(request.found)
        counts = request.requested, len(request.found), len(self.core), request.not_stored
        thin = thinned(before, self.rows_by_class())
        return ForgetReport(
            *counts, rows_retrained=retrained, classes_emptied=emptied, classes_thinned=thin, model=self
        )

    def rows_by_class(self) -> dict[Any, int]:
        """The number of stored rows of each class; of all rows where there are no classes."""
        return dict(self.core.class_counts) if self.classifies else {None: len(self.core)}

    def remove(self, keys: list[Key]) -> tuple[int, int]:
        """Remove these core rows; return how many rows were trained on again and how many classes were emptied.

        If no row is left, no class counts as lost.

        *Source*: Algorithm 1 and Algorithm 2, procedure DeletionUpdate.
        """
        if not keys:
            return 0, 0
        before = self.n_classes
        retrained = self.head.forget(self, keys) if self.head.trains_at_once else self._remove(keys)
        return retrained, before - self.n_classes if len(self.core) else 0

    def _remove(self, keys: list[Key]) -> int:
        """Remove rows from the core and from the sums. No row is trained on again.

        What was derived before is overwritten at the end, whatever happens: the head may begin with it.
        """
        before, reusable = self.cache, self.head.reusable_cache(self, keys)
        try:
            self.version_token = None
            leaving = self.core.find(keys)
            if self.sums is None:
                self.core.remove(leaving)
            else:
                rows, labels, weights = self.core.gather(leaving)
                self.core.remove(leaving, rows)
                self.sums.remove(rows, labels, weights, self.core)
                overwrite(rows)
            self.cache = reusable
            self.version_token = object()
            with suppress(Exception):  # the rows are removed in any case; what is missing is derived when it is needed
                self.head.derive_ahead(self, before)
        finally:
            overwrite(before)
        return 0

    def drop_caches(self) -> None:
        """Overwrite and drop everything that was derived."""
        cache, self.cache = self.cache, {}
        overwrite(cache)

    def erase(self) -> None:
        """Overwrite every array of this model; it refuses to be used again."""
        self.version_token = None
        self.core.erase()
        if self.sums is not None:
            self.sums.erase()
        self.drop_caches()

    def check_whole(self) -> None:
        """Refuse a model whose last change was interrupted, or that was erased."""
        if self.version_token is None:
            raise ChangedMeanwhileError(
                "this model cannot be used: a change of it was interrupted, or it was replaced by another. Call fit, "
                "or load a copy."
            )

    # -- reading ---------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The state as a frozen record, with its bytes and its digest."""
        self.check_whole()
        return self.consistent_read(self._state)

    def _state(self) -> State:
        c, core = self.configuration, self.core
        sums = {} if self.sums is None else self.sums.tensors(self.classes_with_rows())
        return State(c, *core.names(), core.rows(), core.uneven_weights(), sums | self.head.derived_tensors(self))

    def cached(self, name: str, derive: Callable[[], T]) -> T:
        """The value cached under this name; if there is none, it is derived now and kept until the next change."""
        found: T | None = None if self.version_token is None else self.cache.get(name)
        return self.consistent_read(derive, partial(self._keep, name)) if found is None else found

    def _keep(self, name: str, value: Any) -> None:
        if value is None:
            overwrite(self.cache.pop(name, None))
        else:
            self.cache[name] = value

    def consistent_read(self, derive: Callable[[], T], keep: Callable[[T | None], None] | None = None) -> T:
        """What ``derive`` returns, all of one version of the model; refused if the model changes meanwhile.

        ``keep`` stores the value in the cache, before the versions are compared, because a later change drops the
        caches. If the versions differ, ``keep(None)`` removes it again.
        """
        token = self.version_token
        if token is not None:
            try:
                found = derive()
            except Exception:
                if self.version_token is token:
                    raise
            else:
                if keep is not None:
                    keep(found)
                if self.version_token is token:
                    return found
                if keep is not None:
                    keep(None)
        raise ChangedMeanwhileError("the model changed while it was being read: read it again.")

    def verify(self, progress: Progress | None = None, state: State | None = None) -> VerifyReport:
        """Recompute the state from its own rows and compare everything; see ``erasable.verify``.

        ``state`` is a snapshot of this version of the model, if the caller has one.
        """
        self.check_whole()
        self.head.check_verifiable()
        report = (state or self.snapshot()).verify(progress)
        if not self.core.tables_agree():
            raise VerificationError("the tables that find rows by id, subject or class do not name the stored rows.")
        learner = self.head.verify(self)
        return report if learner is None else replace(report, learner=learner)

    @property
    def order_key(self) -> int | None:
        """The key of the hashes in whose order rows are decided; None if they are decided in the given order."""
        return self.configuration.order_key

    @property
    def classifies(self) -> bool:
        """Whether rows have labels, which are classes; otherwise they have targets, which are numbers."""
        return self.head.classifies

    @property
    def one_by_one(self) -> bool:
        """Whether rows are decided one after the other, so that their order matters."""
        return self.selection.one_by_one

    @property
    def n_core(self) -> int:
        """Number of core rows."""
        return len(self.core)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows."""
        return self.head.classes(self)

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return self.head.n_classes(self)

    def classes_with_rows(self) -> Sequence[Label]:
        """The classes that core rows have; none in a regression."""
        return list(self.core.class_counts)

    @property
    def n_features(self) -> int | None:
        """Columns of the rows that are learnt and predicted; None for texts and tables."""
        text = self.configuration.feature_map
        n: int | None = self.selection.n_features if text is None else described_map(text)["n_features"]
        return n

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, if the caller fixed them."""
        return self.configuration.feature_names

    @property
    def nbytes(self) -> int:
        """Bytes of numbers held: rows, sums and what is derived."""
        return self.core.nbytes + self.head.nbytes(self)

    @property
    def format_version(self) -> int:
        """The version of the format that its files have."""
        return layout_of(self.configuration).version

    @property
    def guarantee(self) -> Guarantee:
        """What holds after forgetting."""
        return self.head.guarantee(self)

    def weights(self) -> Float32s:
        """The weights that the head publishes, solved for when they are first needed."""
        return self.head.weights(self)

    # -- predicting ------------------------------------------------------------------------------------------------

    def predictor(self) -> Model:
        """A model that predicts as this one does now, whatever becomes of this one, and is used for nothing else."""
        self.check_whole()
        return self.head.predictor(self)

    def check_rows_left(self) -> None:
        """Refuse to predict from nothing."""
        self.check_whole()
        if not len(self.core):
            raise NoRowsError(
                "no rows remain in this model, so it cannot predict: every core row was forgotten, or none was "
                "selected. Call fit or partial_fit with new rows."
            )

    def decision(self, X: Matrix) -> Float64s:
        """Scores: shape (n,) for one or two classes, (n, n_classes) otherwise."""
        self.check_rows_left()
        scores = self.head.scores(self, X)
        scores = scores if scores.shape[1] > 1 else scores[:, 0]
        tilts = self.selection.tilts_of(self.classes) if self.classifies and self.n_classes > 1 else None
        return scores if tilts is None else self.head.untilted(scores, tilts)

    def predict(self, X: Matrix) -> npt.NDArray[Any]:
        """The class of each row, or its targets."""
        self.check_rows_left()
        return self.head.predict(self, X)

    def predict_proba(self, X: Matrix) -> Float64s:
        """Probability of each class, shape (n, n_classes); see ``predict_proba`` of the estimators."""
        self.check_rows_left()
        return self.head.predict_proba(self, X)

    def predictions_for_scores(self, scores: Float64s) -> npt.NDArray[Any]:
        """The classes or targets that scores stand for."""
        return self.head.predictions(self, scores)

    def probabilities_for_scores(self, scores: Float64s) -> Float64s:
        """The probabilities that scores stand for."""
        return self.head.probabilities(self, scores)


def is_model(estimator: object) -> bool:
    """Whether this is a model, or an estimator that wraps one."""
    return isinstance(estimator, Model) or hasattr(type(estimator), "model_")


def model_behind(estimator: Any, purpose: str) -> Model:
    """The model that an estimator wraps; refused if there is none, or if it is not fitted."""
    if isinstance(estimator, Model):
        return estimator
    if not is_model(estimator):
        path = ": read a file with load(path) first" if isinstance(estimator, str | PathLike) else ""
        kind = type(estimator).__name__
        raise InputTypeError(f"{purpose} needs a model that can forget bit for bit; got {kind}{path}.")
    model: Model = estimator.fitted_model(purpose)
    return model
