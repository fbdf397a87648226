"""What classifiers with a verifiable state share: learning, forgetting, looking, pickling."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from erasable.core.grid import Float64s
from erasable.core.selector import Progress
from erasable.core.shards import Files
from erasable.errors import ChangedMeanwhileError, InputError, NoRowsError
from erasable.estimators._guarantee import Guarantee
from erasable.estimators._input import check_ids, check_labels, check_rows, check_subjects
from erasable.estimators._keys import array_of, as_keys, same_kind
from erasable.estimators._reports import ForgetReport, LearnReport, warn_of_emptied_classes
from erasable.estimators._saving import Savable, without_file


class ErasableBase(Savable, ClassifierMixin, BaseEstimator):
    """A classifier whose whole state lives in one memory object: core rows, what is derived from them, and tables.

    Subclasses say how a memory is started and restored, how rows are prepared for it, and how it predicts.
    """

    _memory: Any

    @abstractmethod
    def _start(self, n_features: int, n_samples: int, classes: Any, *, streaming: bool) -> Any:
        """An empty memory with the configuration that the constructor arguments name."""

    @abstractmethod
    def _check_unchanged(self, memory: Any, classes: Any) -> None:
        """Refuse arguments that name another configuration than the memory's."""

    def _check_learnt(self, X: Any, y: Any, *, first: bool) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        """Rows and labels to learn, checked, and the attributes that a first fit sets beside the memory."""
        return check_rows(self, X, y, first=first)

    @abstractmethod
    def _prepare(self, X: Any, memory: Any) -> Any:
        """Checked rows in the form that the memory learns from."""

    @abstractmethod
    def _restored(self, data: bytes) -> Any:
        """The memory whose state has these canonical bytes."""

    @abstractmethod
    def decision_function(self, X: Any) -> Float64s:
        """Scores: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""

    # -- learning ------------------------------------------------------------------------------------------------

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
        self._learn(X, y, ids, subjects, fresh=True, allow_no_subject=allow_no_subject)
        return self

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
        fresh = not self.__sklearn_is_fitted__()
        self._learn(
            X, y, ids, subjects, classes=classes, fresh=fresh, streaming=True, allow_no_subject=allow_no_subject
        )
        return self

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
        n = X.shape[0]
        if fresh:
            memory = self._start(X.shape[-1], n, classes, streaming=streaming)
        else:
            memory = self._whole_memory()
            self._check_unchanged(memory, classes)
        check_labels(y, memory)
        keys = check_ids(ids, n, memory.place)
        owners = None
        if subjects is not None:
            owners = check_subjects(subjects, n, memory, allow_no_subject=allow_no_subject)
        rows = self._prepare(X, memory)
        before = memory.n_core
        decisions = memory.learn(rows, y, keys, owners, progress=progress, **sizes)
        if fresh:
            if self.__sklearn_is_fitted__():
                self._memory.erase()
            for name in ("feature_names_in_", "n_features_in_", "_memory", *schema):  # in the order of a first fit
                self.__dict__.pop(name, None)
            self.__dict__.update(schema, _memory=memory)
        return LearnReport(n, memory.n_core - before, memory.n_core, decisions)

    # -- forgetting ----------------------------------------------------------------------------------------------

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
            When the last core row of a class has left, and others remain.

        Notes
        -----
        *Law*: bitwise. The state afterwards is what learning the surviving core rows from nothing gives.
        *Cost*: a hash look-up for a row outside the core, one exact rank-k downdate for all others together.
        """
        report, emptied = self._forget(ids, subjects)
        warn_of_emptied_classes(emptied, self)
        return report

    def _forget(self, ids: Any, subjects: Any = None) -> tuple[ForgetReport, int]:
        """The report, and how many classes lost their last core row; nothing is said of a model that is empty now."""
        memory = self._fitted("forget")
        requested, _, keys = self._named(ids, subjects)
        before = _n_classes(memory)
        report = ForgetReport(requested, memory.forget(keys), memory)
        return report, before - _n_classes(memory) if report.rows_left else 0

    def _named(self, ids: Any, subjects: Any) -> tuple[int, int, list[Any]]:
        """How many ids and subjects a request names, how many of them no core row has, and the ids of all core rows."""
        memory = self._fitted("forget")
        if ids is None and subjects is None:
            raise InputError("forget needs ids= or subjects=.")
        keys = [] if ids is None else as_keys(ids, "ids")
        same_kind(keys, memory.id_type, "ids")
        owners = [] if subjects is None else as_keys(subjects, "subjects")
        same_kind(owners, memory.subject_type, "subjects")
        theirs = [key for owner in owners for key in memory.of_subject.get(owner, ())]
        absent = sum(key not in memory.place for key in keys) + sum(owner not in memory.of_subject for owner in owners)
        found = [key for key in dict.fromkeys([*keys, *theirs]) if key in memory.place]
        return len(keys) + len(owners), absent, found

    # -- predicting ----------------------------------------------------------------------------------------------

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row: the sign of ``w'x``, or the class with the largest one."""
        scores = self.decision_function(X)  # Algorithm 1, line 20; Algorithm 2, line 10
        classes = self.classes_
        several = scores.ndim > 1
        winner = np.argmax(scores, axis=1) if several else (scores > 0).astype(np.intp) * (len(classes) > 1)
        chosen: npt.NDArray[Any] = classes[winner]
        return chosen

    def predict_proba(self, X: Any) -> Float64s:
        """Probability of each class, shape (n_samples, n_classes).

        Under the paper's assumption ``E[y | x] = u'x`` the probability of the positive class is ``(1 + w'x) / 2``,
        clipped to [0, 1]. With more classes the vector of these is projected to the nearest probability vector, of
        which clipping is the case of two classes.
        """
        scores = self.decision_function(X)
        if scores.ndim > 1:
            return nearest_probabilities((1.0 + scores) / 2.0)
        if len(self.classes_) == 1:
            return np.ones((len(scores), 1))
        positive = np.clip((1.0 + scores) / 2.0, 0.0, 1.0)
        return np.column_stack([1.0 - positive, positive])

    # -- looking -------------------------------------------------------------------------------------------------

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise."""
        return Guarantee(
            "exact system-aware unlearning (Definition 2.3): equal to training on the surviving core rows",
            of="state",
            bitwise=True,
        )

    def state_digest(self) -> str:
        """SHA-256 of the whole stored state, as 64 hexadecimal digits; equal states have equal digests anywhere."""
        return str(self._fitted("state_digest").digest())

    def _files(self) -> Files:
        files: Files = self._fitted("save").to_files()
        return files

    def _state(self) -> Any:
        return self._fitted("state_digest").snapshot()

    def _rows_to_predict(self, X: Any) -> tuple[Any, Any]:
        """The memory and checked rows, for a model that has rows left."""
        memory = self._fitted("predict")
        X, _, _ = check_rows(self, X, first=False)
        if not memory.n_core:
            raise NoRowsError(
                "no rows remain in this model, so it cannot predict: every core row was forgotten, or none was "
                "selected. Call fit or partial_fit with new rows."
            )
        return memory, X

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes fixed by the caller, or those of the surviving core rows."""
        return array_of(self._attribute("classes_").classes)

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the core rows in learning order."""
        ids = self._attribute("core_ids_").ids()
        return array_of(ids) if ids else np.empty(0, dtype=np.int64)

    @property
    def n_core_(self) -> int:
        """Number of core rows."""
        return int(self._attribute("n_core_").n_core)

    @property
    def threshold_(self) -> float:
        """The threshold in force."""
        return float(self._attribute("threshold_").configuration.threshold)

    @property
    def stored_rows_(self) -> int:
        """Number of training rows the model holds: the core rows."""
        return int(self._attribute("stored_rows_").n_core)

    @property
    def stored_bytes_(self) -> int:
        """Bytes of rows, sums and weights the model holds."""
        return int(self._attribute("stored_bytes_").nbytes)

    # -- scikit-learn and pickle ---------------------------------------------------------------------------------

    def __sklearn_is_fitted__(self) -> bool:
        return "_memory" in vars(self)

    def _fitted(self, purpose: str) -> Any:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or partial_fit before {purpose}."
            )
        return self._whole_memory()

    def _whole_memory(self) -> Any:
        if self._memory.moment is None:
            raise ChangedMeanwhileError(
                "this model was interrupted while it was being changed and is neither what it was nor what it was to "
                "be: call fit, or load a copy."
            )
        return self._memory

    def _attribute(self, name: str) -> Any:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {name} before fit or partial_fit.")
        return self._whole_memory()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        attributes = without_file(super().__getstate__())
        if "_memory" in attributes:
            attributes["_memory"] = self._whole_memory().to_bytes()
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        attributes = dict(attributes)
        if "_memory" in attributes:
            data = attributes.pop("_memory")
            super().__setstate__(attributes)
            self._memory = self._restored(data)
            return
        super().__setstate__(attributes)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Scikit-learn's table for notebooks, less every value that comes from rows."""
        table = super()._get_fitted_attr_html(doc_link)
        for name in ("classes_", "coef_", "intercept_", "core_ids_"):
            if name in table:
                table[name] = {"type_name": f"{table[name]['type_name']}, not shown", "value": ""}
        return table


def _n_classes(memory: Any) -> int:
    return len(memory.configuration.classes or memory.class_counts)


def nearest_probabilities(P: Float64s) -> Float64s:
    """Euclidean projection of each row onto the probability simplex."""
    ordered = -np.sort(-P, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, P.shape[1] + 1)
    last = np.count_nonzero(ordered > excess, axis=1) - 1
    projected: Float64s = np.maximum(P - excess[np.arange(len(P)), last][:, None], 0.0)
    projected /= projected.sum(axis=1, keepdims=True)
    return projected
