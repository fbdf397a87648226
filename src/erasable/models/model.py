"""What every model does: learn rows, forget rows, predict, and give its state.

Each change is check-then-change: a refused call leaves the model as it was. Should an interrupt hit while a change is
being written, ``moment`` stays None and the model is not used again; nor is one that was erased. Nothing is kept of
what was asked.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from copy import deepcopy
from os import PathLike
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.keyed_hash import hashed_order
from erasable.core.names import Key, Label, Owners
from erasable.core.selector import Decisions, Progress
from erasable.core.spelling import Spelling
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    InputError,
    InputTypeError,
    NoRowsError,
    VerificationError,
)
from erasable.models.checks import check_ids, check_labels, check_subjects
from erasable.models.guarantee import Guarantee
from erasable.models.heads import nearest_probabilities
from erasable.models.keys import array_of, as_keys, pick, spelt_keys, spelt_names, taken
from erasable.models.reports import ForgetReport, LearnReport, VerifyReport
from erasable.models.rows import CoreRows, Named, Outline
from erasable.models.state import State, classes_of
from erasable.models.weighting import ONE, RowWeights, check_row_weights

T = TypeVar("T")


class Model(ABC):
    """Core rows under a configuration, and what is derived from them when it is asked for.

    Attributes
    ----------
    configuration
        All that the caller fixed; frozen.
    core : CoreRows
        The core rows, and the tables that find them.
    moment : object or None
        A fresh token after every change: it counts nothing. None after a change that was interrupted, and for a model
        whose arrays were overwritten.
    """

    KIND: ClassVar[str]  # what people call it
    one_by_one = True  # whether rows are decided one after the other, so that their order counts
    takes_weights = False  # whether a row may count more or less than another
    classifies = True  # whether rows have labels, which are classes; else they have targets, which are numbers

    configuration: Any
    core: CoreRows
    moment: object | None

    # -- what each kind does -------------------------------------------------------------------------------------

    @abstractmethod
    def prepared(self, X: Any) -> Any:
        """Finite rows, dense or CSR, in the form that this model selects from; refused if they do not fit."""

    def in_order(self, rows: Any, order: npt.NDArray[np.intp]) -> Any:
        """Prepared rows in another order."""
        return rows[order]

    def screening(self) -> Callable[[Any], npt.NDArray[np.bool_]] | None:
        """A test of prepared rows, block by block: one that fails it is ruled out by the core rows as they are now.

        And so it is by any core rows that these are a part of. None where there is no such test. It can be sent.
        """
        return None

    def outline(self, *, names: bool) -> Self:
        """A model of this kind that checks and prepares rows and holds none: what screening needs, and can be sent.

        With ``names`` it refuses rows that could not be learnt beside those of this model.
        """
        other = object.__new__(type(self))
        for part in ("configuration", "feature_map"):
            if hasattr(self, part):
                setattr(other, part, getattr(self, part))
        core = self.core
        known: Any = Outline(core.place, core.subject_type, core.class_counts) if names else Outline()
        other.core, other.moment = known, object()
        return other

    def always_kept(self, ids: Any) -> npt.NDArray[np.bool_] | None:
        """Which of these ids are kept whatever else there is, where some are by the rule of this model; else None."""
        return None

    @abstractmethod
    def select(
        self, rows: Any, labels: npt.NDArray[Any], keys: Any, progress: Progress | None, **sizes: int | None
    ) -> tuple[npt.NDArray[np.intp], list[npt.NDArray[Any]], Decisions, Any]:
        """What learning would keep: positions, the rows in batches, who decided, and something for :meth:`adopt`."""

    def check_chosen(self, weights: list[int]) -> None:  # noqa: B027
        """Refuse rows that were selected, with these weights in sixteenths, and cannot be held exactly."""

    def adopt(  # noqa: B027
        self, labels: list[Any], batches: list[npt.NDArray[Any]], extra: Any, weights: list[int]
    ) -> None:
        """Take over what was derived while selecting; called while the change is written."""

    def release(self, keys: list[Key]) -> None:
        """Take these rows out of the core, and out of whatever is derived; called while the change is written."""
        self.core.remove(self.core.find(keys))

    @abstractmethod
    def drop_caches(self) -> None:
        """Overwrite and drop what is only derived to be at hand."""

    @abstractmethod
    def state(self) -> State:
        """The state as a frozen record."""

    @abstractmethod
    def scores(self, X: Any) -> Float64s:
        """Scores of finite rows: shape (n, 1) for one or two classes, (n, n_classes) otherwise."""

    @property
    @abstractmethod
    def nbytes(self) -> int:
        """Bytes of numbers held."""

    @property
    @abstractmethod
    def n_features(self) -> int | None:
        """Columns of the rows that are learnt and predicted; None where rows are no numbers."""

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, where the caller fixed them."""
        names: tuple[str, ...] | None = getattr(self.configuration, "feature_names", None)
        return names

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def learn(
        self,
        X: Any,
        y: npt.NDArray[Any],
        ids: Any = None,
        subjects: Any = None,
        *,
        sample_weight: Any = None,
        allow_no_subject: bool = False,
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> LearnReport:
        """Stream rows through the selector; those selected become core rows, the others leave no trace.

        The rows of this call are decided in the order of their keyed hashes where the model has a key, else as they
        come; in any case after the core rows already there.

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
        n = X.shape[0]
        y = self.answers(y)
        self.check_names_given(ids)
        ids, subjects = spelt_names(ids, subjects, self.spelling)
        keys = check_ids(ids, n, self.core.place)
        owners = None
        if subjects is not None:
            owners = check_subjects(subjects, n, self.core.subject_type, allow_no_subject=allow_no_subject)
        named: Any = range(n) if keys is None else keys
        weights = self.checked_weights(sample_weight, n)
        if weights is not None and not weights.all():  # a row that counts for nothing is as good as not offered
            there = np.flatnonzero(weights)
            if not len(there):
                raise InputError("every weight (sample_weight=) rounds to zero, so there is nothing to learn.")
            self.prepared(X)
            X, y, named, weights = X[there], y[there], taken(named, there), weights[there]
            keys, owners = named, None if owners is None else taken(owners, there)
        rows, before, key = self.prepared(X), self.moment, self.order_key
        order = None if key is None else hashed_order(named, key)
        rows = rows if order is None else self.in_order(rows, order)
        index, batches, decisions, extra = self.select(rows, y, named, progress, **sizes)
        index = index if order is None else order[index]
        chosen_ids: list[Key] = index.tolist() if keys is None else pick(keys, index)
        chosen_owners: list[Owners] = [None] * len(index) if owners is None else pick(owners, index)
        labels: list[Any] = pick(y, index)
        counted = [ONE] * len(index) if weights is None else weights[index].tolist()
        self.check_chosen(counted)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        self.moment = None
        self.drop_caches()
        self.adopt(labels, batches, extra, counted)
        self.core.append(batches, chosen_ids, chosen_owners, labels, counted)
        self.moment = object()
        return LearnReport(n, len(index), len(self.core), decisions, n - len(y))

    def answers(self, y: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """What rows are to answer, as it is stored; refused where this model could not hold it."""
        check_labels(y, self)
        return y

    def check_names_given(self, ids: Any) -> None:
        """Refuse rows without ids where ids say which of them are kept: numbers would be drawn for their places."""
        if ids is None and self.always_kept([]) is not None:
            raise InputError(
                "ids are required: with sample_rate the hash of a row's id says whether it is kept, and a number that "
                "depends on other rows would not do: give ids=."
            )

    def checked_weights(self, sample_weight: Any, n: int) -> RowWeights | None:
        """Weights of n rows in sixteenths; refused where they are none, or this model has no use for any."""
        if sample_weight is None:
            return None
        if not self.takes_weights:
            raise ConfigurationError(f"rows of a {self.KIND} model have no weights: leave them out.")
        return check_row_weights(sample_weight, n)

    def named(self, ids: Any = None, subjects: Any = None) -> Named:
        """What a request names; refused if no row could have such names."""
        self.check_whole()
        if ids is not None and "id" in self.spelling:
            ids = spelt_keys(as_keys(ids, "ids"), self.spelling["id"])
        if subjects is not None and "subject" in self.spelling:
            subjects = spelt_keys(as_keys(subjects, "subjects"), self.spelling["subject"])
        return self.core.named(ids, subjects)

    @property
    def spelling(self) -> Spelling:
        """The normalisation of ids and subjects that the schema of this model declares; empty without one."""
        found: Spelling = getattr(getattr(self, "feature_map", None), "identity", {})
        return found

    def forget(self, *, ids: Any = None, subjects: Any = None) -> ForgetReport:
        """Rows with these ids, or of these subjects, stop existing for the model; unknown ones change nothing."""
        asked = self.named(ids, subjects)
        retrained, emptied = self.remove(asked.found)
        counts = asked.requested, len(asked.found), len(self.core), asked.not_stored
        return ForgetReport(*counts, rows_retrained=retrained, classes_emptied=emptied, model=self)

    def remove(self, keys: list[Key]) -> tuple[int, int]:
        """These core rows leave: how many rows had to be trained on again, and how many classes lost their last row.

        Of a model that is empty now, no class counts as lost.
        """
        before = self.n_classes
        retrained = self.take_out(keys)
        return retrained, before - self.n_classes if len(self.core) else 0

    def take_out(self, keys: list[Key]) -> int:
        """Algorithm 1 and Algorithm 2, procedure DeletionUpdate; the number of rows trained on again."""
        if keys:
            self.moment = None
            self.release(keys)
            self.drop_caches()
            self.moment = object()
        return 0

    def erase(self) -> None:
        """Overwrite every array this model holds: another takes its place, and this one is not used again."""
        self.moment = None
        self.core.erase()
        self.drop_caches()

    def check_whole(self) -> None:
        """Refuse a model whose last change was interrupted, or that was erased."""
        if self.moment is None:
            raise ChangedMeanwhileError(
                "this model was interrupted while it was being changed, or another took its place, and is neither what "
                "it was nor what it was to be: call fit, or load a copy."
            )

    # -- looking -------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """The state as a frozen record, with its bytes and its digest."""
        self.check_whole()
        return self.read(self.state)

    def read(self, derive: Callable[[], T], keep: Callable[[T | None], None] | None = None) -> T:
        """What is derived from the rows, all of one moment: refused if the model is changing, or changed meanwhile.

        ``keep`` puts it at hand, and is told None where that was wrong. It is called before the moments are compared:
        a change that comes later drops what is at hand.
        """
        moment = self.moment
        if moment is not None:
            found = derive()
            if keep is not None:
                keep(found)
            if self.moment is moment:
                return found
            if keep is not None:
                keep(None)
        raise ChangedMeanwhileError("the model changed while it was being read: read it again.")

    def verify(self, progress: Progress | None = None, state: State | None = None) -> VerifyReport:
        """Recompute the state from its own rows and compare everything; see ``erasable.verify``.

        ``state`` is a snapshot of this moment, where there is one already.
        """
        self.check_whole()
        report = (state or self.snapshot()).verify(progress)
        if not self.core.tables_agree():
            raise VerificationError("the tables that find rows by id, subject or class do not name the stored rows.")
        return report

    @property
    def order_key(self) -> int | None:
        """The key of the hashes in whose order rows are decided; None where they are decided as they are given."""
        key: int | None = getattr(self.configuration, "order_key", None)
        return key

    @property
    def n_core(self) -> int:
        """Number of core rows."""
        return len(self.core)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows."""
        return classes_of(self.configuration.classes, list(self.core.class_counts))

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        fixed = self.configuration.classes
        return len(self.core.class_counts if fixed is None else fixed)

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds after forgetting."""

    # -- predicting ----------------------------------------------------------------------------------------------

    def predictor(self) -> Model:
        """What predicts as this model does now, whatever becomes of this one; it is for nothing else."""
        self.check_whole()
        return deepcopy(self)

    def check_rows_left(self) -> None:
        """Refuse to predict from nothing."""
        self.check_whole()
        if not len(self.core):
            raise NoRowsError(
                "no rows remain in this model, so it cannot predict: every core row was forgotten, or none was "
                "selected. Call fit or partial_fit with new rows."
            )

    def decision(self, X: Any) -> Float64s:
        """Scores: shape (n,) for one or two classes, (n, n_classes) otherwise."""
        self.check_rows_left()
        scores = self.scores(X)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row: the sign of the score, or the class with the largest one."""
        return self.chosen(self.decision(X))  # Algorithm 1, line 20; Algorithm 2, line 10

    def chosen(self, scores: Float64s) -> npt.NDArray[Any]:
        """The classes that scores stand for."""
        classes = array_of(self.classes)
        several = scores.ndim > 1
        winner = np.argmax(scores, axis=1) if several else (scores > 0).astype(np.intp) * (len(classes) > 1)
        chosen: npt.NDArray[Any] = classes[winner]
        return chosen

    def shares(self, scores: Float64s) -> Float64s:
        """From a score to the probability that it stands for: ``E[y | x] = u'x`` with labels in -1, +1."""
        return (1.0 + scores) / 2.0

    def probabilities(self, X: Any) -> Float64s:
        """Probability of each class, shape (n, n_classes); see ``predict_proba`` of the estimators."""
        return self.chances(self.decision(X))

    def chances(self, scores: Float64s) -> Float64s:
        """The probabilities that scores stand for."""
        if scores.ndim > 1:
            return nearest_probabilities(self.shares(scores))
        if len(self.classes) == 1:
            return np.ones((len(scores), 1))
        positive = np.clip(self.shares(scores), 0.0, 1.0)
        return np.column_stack([1.0 - positive, positive])


def is_model(estimator: Any) -> bool:
    """Whether this is a model, or an estimator that is the face of one."""
    return isinstance(estimator, Model) or hasattr(type(estimator), "model_")


def model_behind(estimator: Any, purpose: str) -> Model:
    """The model that an estimator is a face of; refused if it is none, or not fitted."""
    if isinstance(estimator, Model):
        return estimator
    if not is_model(estimator):
        path = ": read a file with load(path) first" if isinstance(estimator, str | PathLike) else ""
        kind = type(estimator).__name__
        raise InputTypeError(f"{purpose} needs a model that can forget bit for bit; got {kind}{path}.")
    model: Model = estimator.fitted_model(purpose)
    return model
