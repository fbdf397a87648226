"""The model: learn rows, forget rows, predict, and give the state.

Each change is check-then-change: a refused call leaves the model as it was. Should an interrupt hit while a change is
being written, ``moment`` stays None and the model is not used again; nor is one that was erased. Nothing is kept of
what was asked.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from os import PathLike
from typing import Any, Self, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.keyed_hash import hashed_order
from erasable.core.names import Key, Label, Owners, Spelling
from erasable.core.selector import Progress
from erasable.errors import (
    ChangedMeanwhileError,
    ConfigurationError,
    InputError,
    InputTypeError,
    NoRowsError,
    VerificationError,
)
from erasable.features import FeatureMap
from erasable.models.configuration import Configuration
from erasable.models.core_rows import CoreRows, Named, Outline, overwrite
from erasable.models.feature_maps import described_map
from erasable.models.heads.linear import ExactSums
from erasable.models.inputs import (
    ONE,
    RowWeights,
    as_keys,
    check_ids,
    check_row_weights,
    check_subjects,
    pick,
    spelt_keys,
    spelt_names,
    taken,
    uneven,
)
from erasable.models.layouts import layout_of
from erasable.models.reports import ForgetReport, Guarantee, LearnReport, VerifyReport
from erasable.models.state import State

T = TypeVar("T")


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
    moment : object or None
        A fresh token after every change: it counts nothing. None after a change that was interrupted, and for a model
        whose arrays were overwritten.
    """

    def __init__(self, configuration: Configuration, feature_map: FeatureMap | None = None) -> None:
        selection, head = configuration.selection, configuration.head
        self.configuration, self.feature_map = configuration, feature_map
        self.core = CoreRows(selection.empty(), grid=selection.grid, classed=head.classifies)
        self.sums = ExactSums(configuration) if head.keeps_sums else None
        self.cache: dict[str, Any] = {}
        self.moment: object | None = object()

    @classmethod
    def restore(cls, state: State, feature_map: FeatureMap | None = None) -> Self:
        """The model that a state is of; sums and weights are taken over, for ``verify`` to judge."""
        c = state.configuration
        model = cls(c, feature_map)
        weights = None if state.row_weights is None else state.row_weights.tolist()
        names = state.ids, state.subjects, state.labels
        model.core = CoreRows(state.rows.copy(), *names, c.selection.grid, weights, classed=c.head.classifies)
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
        other.sums, other.cache, other.moment = None, {}, object()
        return other

    # -- learning and forgetting ---------------------------------------------------------------------------------

    def prepared(self, X: Any) -> Any:
        """Finite rows, dense or CSR, in the form that the selection reads; refused if they do not fit."""
        return self.configuration.selection.prepared(X, self.feature_map, self.core)

    def screening(self) -> Callable[[Any], npt.NDArray[np.bool_]] | None:
        """A test of prepared rows that rules out rows for good; see :meth:`Selection.screen`."""
        screen: Callable[[Any], npt.NDArray[np.bool_]] | None
        screen = self.configuration.selection.screen(self.core, self.sums)
        return screen

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
        selection, head = self.configuration.selection, self.configuration.head
        y = head.stored_labels(y, self)
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
        rows = rows if order is None else selection.in_order(rows, order)
        index, batches, decisions, H = selection.select(rows, self.core, self.sums, y, named, progress, **sizes)
        index = index if order is None else order[index]
        chosen_ids: list[Key] = index.tolist() if keys is None else pick(keys, index)
        chosen_owners: list[Owners] = [None] * len(index) if owners is None else pick(owners, index)
        labels: list[Any] = pick(y, index)
        trained: Any = {}
        if head.trains_at_once:
            kept, trained = head.train(self.configuration, batches, labels, chosen_ids)
            if len(kept) < len(index):
                index, batches = index[kept], [batches[0][kept]]
                chosen_ids, chosen_owners, labels = (
                    [part[i] for i in kept] for part in (chosen_ids, chosen_owners, labels)
                )
        counted = [ONE] * len(index) if weights is None else weights[index].tolist()
        head.check_chosen(self.configuration, self.core, counted)
        if self.moment is not before:
            raise ChangedMeanwhileError("the model changed while rows were being learnt, so none of them was learnt.")
        self.moment = None
        self.drop_caches()
        if self.sums is not None:
            self.sums.add(batches, labels, counted, H)
        self.core.append(batches, chosen_ids, chosen_owners, labels, counted)
        self.cache = trained
        self.moment = object()
        return LearnReport(n, len(index), len(self.core), decisions, n - len(y))

    def check_names_given(self, ids: Any) -> None:
        """Raise InputError if the selection draws a sample of ids and the caller gave no ids."""
        if ids is None and self.configuration.selection.always_kept([]) is not None:
            raise InputError(
                "ids are required: with sample_rate the hash of a row's id says whether it is kept, and a number that "
                "depends on other rows would not do: give ids=."
            )

    def checked_weights(self, sample_weight: Any, n: int) -> RowWeights | None:
        """Weights of n rows in sixteenths; refused where they are none, or this model has no use for any."""
        if sample_weight is None:
            return None
        if not self.configuration.head.takes_weights:
            kind = self.configuration.head.NAME
            raise ConfigurationError(f"rows of a {kind} model have no weights: leave them out.")
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
        found: Spelling = getattr(self.feature_map, "identity", {})
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
        """Remove these core rows; the number of rows trained on again.

        *Source*: Algorithm 1 and Algorithm 2, procedure DeletionUpdate.
        """
        if not keys:
            return 0
        head = self.configuration.head
        if head.trains_at_once:
            return int(head.forget(self, keys))
        kept = head.reusable_cache(self, keys)
        self.moment = None
        self.release(keys)
        self.drop_caches()
        self.cache = kept
        self.moment = object()
        return 0

    def release(self, keys: list[Key]) -> None:
        """Remove these rows from the core and from the sums; called while the change is written."""
        leaving = self.core.find(keys)
        if self.sums is None:
            self.core.remove(leaving)
            return
        rows, labels, weights = self.core.gather(leaving)
        self.core.remove(leaving, rows)
        self.sums.remove(rows, labels, weights, self.core)
        overwrite(rows)

    def drop_caches(self) -> None:
        """Overwrite and drop everything that was derived."""
        cache, self.cache = self.cache, {}
        self.configuration.head.overwrite(cache)

    def erase(self) -> None:
        """Overwrite every array this model holds: another takes its place, and this one is not used again."""
        self.moment = None
        self.core.erase()
        if self.sums is not None:
            self.sums.erase()
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

    def state(self) -> State:
        """The state as a frozen record."""
        c, core = self.configuration, self.core
        sums = {} if self.sums is None else self.sums.tensors(self.classes_with_rows())
        weights = uneven(core.weights()) if core.uneven else None
        return State(c, *core.names(), core.rows(), weights, sums | c.head.stored(self))

    def cached(self, name: str, derive: Callable[[], T]) -> T:
        """What was derived under this name, or is derived now and kept until the next change."""
        found: T | None = self.cache.get(name)
        return self.read(derive, partial(self._keep, name)) if found is None or self.moment is None else found

    def _keep(self, name: str, value: Any) -> None:
        if value is None:
            self.configuration.head.overwrite({name: self.cache.pop(name, None)})
        else:
            self.cache[name] = value

    def read(self, derive: Callable[[], T], keep: Callable[[T | None], None] | None = None) -> T:
        """What is derived from the rows, all of one moment: refused if the model is changing, or changed meanwhile.

        ``keep`` puts it at hand, and is told None where that was wrong. It is called before the moments are compared:
        a change that comes later drops what is at hand.
        """
        moment = self.moment
        if moment is not None:
            try:
                found = derive()
            except Exception:
                if self.moment is moment:
                    raise
            else:
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
        self.configuration.head.check_verifiable()
        report = (state or self.snapshot()).verify(progress)
        if not self.core.tables_agree():
            raise VerificationError("the tables that find rows by id, subject or class do not name the stored rows.")
        self.configuration.head.verify(self)
        return report

    @property
    def order_key(self) -> int | None:
        """The key of the hashes in whose order rows are decided; None where they are decided as they are given."""
        return self.configuration.order_key

    @property
    def classifies(self) -> bool:
        """Whether rows have labels, which are classes; otherwise they have targets, which are numbers."""
        return bool(self.configuration.head.classifies)

    @property
    def one_by_one(self) -> bool:
        """Whether rows are decided one after the other, so that their order matters."""
        return bool(self.configuration.selection.one_by_one)

    @property
    def n_core(self) -> int:
        """Number of core rows."""
        return len(self.core)

    @property
    def classes(self) -> tuple[Label, ...]:
        """The classes the caller fixed, or those of the core rows."""
        found: tuple[Label, ...] = self.configuration.head.classes(self)
        return found

    @property
    def n_classes(self) -> int:
        """How many classes there are."""
        return int(self.configuration.head.n_classes(self))

    def classes_with_rows(self) -> list[Label]:
        """The classes that core rows have; none in a regression."""
        return list(self.core.class_counts)

    @property
    def n_features(self) -> int | None:
        """Columns of the rows that are learnt and predicted; None for texts and tables."""
        text = self.configuration.feature_map
        n: int | None = self.configuration.selection.n_features if text is None else described_map(text)["n_features"]
        return n

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns, if the caller fixed them."""
        return self.configuration.feature_names

    @property
    def nbytes(self) -> int:
        """Bytes of numbers held: rows, sums and what is derived."""
        return int(self.core.nbytes + self.configuration.head.nbytes(self))

    @property
    def format_version(self) -> int:
        """The version of the format that its files have."""
        return layout_of(self.configuration).version

    @property
    def guarantee(self) -> Guarantee:
        """What holds after forgetting."""
        found: Guarantee = self.configuration.head.guarantee(self)
        return found

    def weights(self) -> npt.NDArray[np.float32]:
        """The weights that the head publishes, solved for when they are first needed."""
        found: npt.NDArray[np.float32] = self.configuration.head.weights(self)
        return found

    # -- predicting ----------------------------------------------------------------------------------------------

    def predictor(self) -> Model:
        """A model that predicts as this one does now, whatever becomes of this one, and is used for nothing else."""
        self.check_whole()
        found: Model = self.configuration.head.predictor(self)
        return found

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
        scores: Float64s = self.configuration.head.scores(self, X)
        return scores if scores.shape[1] > 1 else scores[:, 0]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row, or its targets."""
        self.check_rows_left()
        found: npt.NDArray[Any] = self.configuration.head.predict(self, X)
        return found

    def chosen(self, scores: Float64s) -> npt.NDArray[Any]:
        """The classes or targets that scores stand for."""
        found: npt.NDArray[Any] = self.configuration.head.predictions(self, scores)
        return found

    def probabilities(self, X: Any) -> Float64s:
        """Probability of each class, shape (n, n_classes); see ``predict_proba`` of the estimators."""
        self.check_rows_left()
        found: Float64s = self.configuration.head.predict_proba(self, X)
        return found

    def chances(self, scores: Float64s) -> Float64s:
        """The probabilities that scores stand for."""
        found: Float64s = self.configuration.head.probabilities(self, scores)
        return found


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
