"""Algorithm 1 as a scikit-learn classifier that forgets bit for bit."""

from __future__ import annotations

import math
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from erasable.core.grid import Float64s, scale_rows
from erasable.core.selector import Progress, RawRows
from erasable.core.state import State, digest, from_bytes, to_bytes
from erasable.errors import ChangedMeanwhileError, InputError, NoRowsError
from erasable.estimators._guarantee import Guarantee
from erasable.estimators._input import check_ball, check_ids, check_labels, check_rows, check_subjects
from erasable.estimators._keys import array_of, as_keys, same_kind
from erasable.estimators._memory import CoreMemory
from erasable.estimators._parameters import check_unchanged, configure
from erasable.estimators._reports import ForgetReport, LearnReport

_PREDICT_BLOCK = 2**20  # numbers handled at once when predicting


class ErasableClassifier(ClassifierMixin, BaseEstimator):
    """A linear classifier that stores a small core set and forgets rows bit for bit.

    Rows stream through a selector that keeps a row only when the rows kept so far say little about its direction
    (its *leverage* is above a threshold). The model is the ridge solution on the kept rows, and nothing else is
    stored. After ``forget``, the whole state is byte for byte what learning the surviving core rows gives;
    ``erasable.verify`` recomputes that from the state alone.

    Parameters
    ----------
    capacity : float, default=1.0
        The paper's K, which is also the regulariser lambda: how many core deletions the accuracy bound is made for.
        Held on the grid's own resolution, as a multiple of ``4**-grid_bits``.
    kappa : float in [0, 1], default=0.2
        Sets the threshold to ``horizon ** -kappa``. Higher keeps more rows.
    threshold : float, optional
        The threshold itself; ``kappa`` and ``horizon`` then play no part. Refitting survivors with
        ``threshold=clf.threshold_`` gives the same state.
    horizon : int, optional
        The number of rows expected, T. ``fit`` takes the number of rows it is given; ``partial_fit`` on a new model
        needs this or ``threshold``, since a threshold that moved with the stream would break forgetting.
    fit_intercept : bool, default=True
        Append a constant to every row (regularised like the other coordinates).
    scaling : "row", None, float or array of shape (n_features,), default="row"
        How rows get into the unit ball. ``"row"`` divides each row by its norm; a number divides by it and refuses
        rows outside; an array divides columns by public scales and then each row by its norm; ``None`` requires
        norm at most one. This is configuration: it must not be fitted on rows that may have to be forgotten.
    classes : array-like, optional
        All classes, fixed by the caller. Otherwise the classes are those of the surviving core rows.
    grid_bits : int, default=15
        Rows are rounded to multiples of ``2**-grid_bits``.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    coef_ : array of shape (1 or n_classes, n_features)
        The exact ridge solution, correctly rounded to float32, times the length that unit rows have on the grid. Acts
        on rows as ``scaling`` leaves them: with ``"row"``, scores are ``X / |X| @ coef_.T + intercept_``.
    intercept_ : array of shape (1 or n_classes,)
    core_ids_ : array of shape (n_core_,)
        Ids of the core rows in learning order.
    n_core_ : int
    threshold_ : float
    stored_rows_, stored_bytes_ : int
        What the model holds: rows, and bytes of rows, sums and weights.
    guarantee : Guarantee
        What holds after ``forget``, as a record.
    n_features_in_ : int
    feature_names_in_ : array of shape (n_features,)
        Only when the input has column names.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.base import clone
    >>> from erasable import ErasableClassifier, verify
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 5))
    >>> y = np.where(X[:, 0] > 0, "spam", "ham")
    >>> clf = ErasableClassifier(kappa=0.5).fit(X, y)
    >>> report = clf.forget(ids=clf.core_ids_[:3])
    >>> report.core_rows_removed
    3
    >>> kept = clf.core_ids_
    >>> refit = clone(clf).set_params(threshold=clf.threshold_).fit(X[kept], y[kept], ids=kept)
    >>> refit.state_digest() == clf.state_digest() == report.digest
    True
    >>> verify(clf).rows == clf.n_core_
    True
    """

    def __init__(
        self,
        capacity: float = 1.0,
        kappa: float = 0.2,
        *,
        threshold: float | None = None,
        horizon: int | None = None,
        fit_intercept: bool = True,
        scaling: Any = "row",
        classes: Any = None,
        grid_bits: int = 15,
    ) -> None:
        self.capacity = capacity
        self.kappa = kappa
        self.threshold = threshold
        self.horizon = horizon
        self.fit_intercept = fit_intercept
        self.scaling = scaling
        self.classes = classes
        self.grid_bits = grid_bits

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any, ids: Any = None, subjects: Any = None) -> Self:
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

        Returns
        -------
        self
        """
        self._learn(X, y, ids, subjects, fresh=True)
        return self

    def partial_fit(self, X: Any, y: Any, ids: Any = None, subjects: Any = None, classes: Any = None) -> Self:
        """Learn more rows after those learnt before.

        Parameters
        ----------
        X, y, ids, subjects
            As in ``fit``. Give ``ids`` in earnest use: without them rows are numbered on from the largest id among
            the *core* rows, because a count of all rows ever seen would be a trace of them.
        classes : array-like, optional
            At the first call: all classes, fixed from then on.

        Returns
        -------
        self
        """
        self._learn(X, y, ids, subjects, classes=classes, fresh=not self.__sklearn_is_fitted__(), streaming=True)
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
        progress: Progress | None = None,
        **sizes: int | None,
    ) -> LearnReport:
        """Check everything, then learn; a refused call changes nothing. ``sizes`` go to ``core.selector.select``."""
        X, y, schema = check_rows(self, X, y, first=fresh)
        n = X.shape[0]
        if fresh:
            memory = CoreMemory.empty(configure(self, X.shape[1], n, classes, streaming=streaming))
        else:
            memory = self._whole_memory()
            check_unchanged(self, memory.configuration, classes)
        check_labels(y, memory)
        keys = check_ids(ids, n, memory.place)
        owners = None if subjects is None else check_subjects(subjects, n, memory)
        rows = RawRows(X, memory.configuration.grid)
        check_ball(rows)
        before = memory.n_core
        decisions = memory.learn(rows, y, keys, owners, progress=progress, **sizes)
        if fresh:
            if self.__sklearn_is_fitted__():
                self._memory.erase()
            for name in ("feature_names_in_", "n_features_in_", "_memory"):
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

        Notes
        -----
        *Law*: bitwise. The state afterwards is what learning the surviving core rows from nothing gives.
        *Cost*: a hash look-up for a row outside the core, one exact rank-k downdate for all others together.
        """
        memory = self._fitted("forget")
        if ids is None and subjects is None:
            raise InputError("forget needs ids= or subjects=.")
        keys = [] if ids is None else as_keys(ids, "ids")
        same_kind(keys, memory.id_type, "ids")
        if subjects is None:
            return ForgetReport(len(keys), memory.forget(keys), memory)
        owners = as_keys(subjects, "subjects")
        same_kind(owners, memory.subject_type, "subjects")
        return ForgetReport(len(keys) + len(owners), memory.forget(keys) + memory.forget_subjects(owners), memory)

    # -- predicting ----------------------------------------------------------------------------------------------

    def decision_function(self, X: Any) -> Float64s:
        """``w'x`` for each row: shape (n_samples,) for one or two classes, (n_samples, n_classes) otherwise."""
        memory = self._fitted("predict")
        X, _, _ = check_rows(self, X, first=False)
        if not memory.n_core:
            raise NoRowsError(
                "no rows remain in this model, so it cannot predict: every core row was forgotten, or none was "
                "selected. Call fit or partial_fit with new rows."
            )
        W, offset, grid = self.coef_, self.intercept_, memory.configuration.grid
        scores = np.empty((X.shape[0], len(W)))
        step = max(1, _PREDICT_BLOCK // grid.n_columns)
        for low in range(0, X.shape[0], step):
            part = X[low : low + step]
            part = part if isinstance(part, np.ndarray) else part.toarray()
            scores[low : low + step] = scale_rows(part, grid) @ W.T + offset
        return scores if len(W) > 1 else scores[:, 0]

    def predict(self, X: Any) -> npt.NDArray[Any]:
        """The class of each row: the sign of ``w'x``, or the class with the largest one."""
        scores = self.decision_function(X)  # Algorithm 1, line 20
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
            "exact system-aware unlearning (Definition 2.3), bitwise: equal to training on the surviving core rows",
            0.0,
            0.0,
        )

    def state_digest(self) -> str:
        """SHA-256 of the whole stored state, as 64 hexadecimal digits; equal states have equal digests anywhere."""
        return digest(self._state())

    def _state(self) -> State:
        return self._fitted("state_digest").snapshot()

    @property
    def classes_(self) -> npt.NDArray[Any]:
        """The classes fixed by the caller, or those of the surviving core rows."""
        return array_of(self._attribute("classes_").classes)

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        return self._attribute("coef_").coefficients()

    @property
    def intercept_(self) -> Float64s:
        """The constant that the appended coordinate adds to ``w'x``."""
        memory = self._attribute("intercept_")
        grid = memory.configuration.grid
        if not grid.intercept:
            return np.zeros(len(memory.weights()))
        return memory.weights()[:, -1].astype(np.float64) * math.ldexp(grid.constant, -grid.bits)

    @property
    def core_ids_(self) -> npt.NDArray[Any]:
        """Ids of the core rows in learning order."""
        ids = self._attribute("core_ids_").ids()
        return array_of(ids) if ids else np.empty(0, dtype=np.int64)

    @property
    def n_core_(self) -> int:
        """Number of core rows."""
        return self._attribute("n_core_").n_core

    @property
    def threshold_(self) -> float:
        """The threshold in force."""
        return self._attribute("threshold_").configuration.threshold

    @property
    def stored_rows_(self) -> int:
        """Number of training rows the model holds: the core rows."""
        return self._attribute("stored_rows_").n_core

    @property
    def stored_bytes_(self) -> int:
        """Bytes of rows, sums and weights the model holds."""
        return self._attribute("stored_bytes_").nbytes

    # -- scikit-learn and pickle ---------------------------------------------------------------------------------

    _memory: CoreMemory

    def __sklearn_is_fitted__(self) -> bool:
        return "_memory" in vars(self)

    def _fitted(self, purpose: str) -> CoreMemory:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(
                f"This {type(self).__name__} instance is not fitted yet: call fit or partial_fit before {purpose}."
            )
        return self._whole_memory()

    def _whole_memory(self) -> CoreMemory:
        if self._memory.moment is None:
            raise ChangedMeanwhileError(
                "this model was interrupted while it was being changed and is neither what it was nor what it was to "
                "be: call fit, or load a copy."
            )
        return self._memory

    def _attribute(self, name: str) -> CoreMemory:
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no {name} before fit or partial_fit.")
        return self._whole_memory()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def __getstate__(self) -> dict[str, Any]:
        attributes = dict(super().__getstate__())
        if "_memory" in attributes:
            attributes["_memory"] = to_bytes(self._whole_memory().snapshot())
        return attributes

    def __setstate__(self, attributes: dict[str, Any]) -> None:
        attributes = dict(attributes)
        if "_memory" in attributes:
            attributes["_memory"] = CoreMemory.restore(from_bytes(attributes["_memory"]))
        super().__setstate__(attributes)

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Scikit-learn's table for notebooks, less every value that comes from rows."""
        table = super()._get_fitted_attr_html(doc_link)
        for name in ("classes_", "coef_", "intercept_", "core_ids_"):
            if name in table:
                table[name] = {"type_name": f"{table[name]['type_name']}, not shown", "value": ""}
        return table


def nearest_probabilities(P: Float64s) -> Float64s:
    """Euclidean projection of each row onto the probability simplex."""
    ordered = -np.sort(-P, axis=1)
    excess = (np.cumsum(ordered, axis=1) - 1.0) / np.arange(1, P.shape[1] + 1)
    last = np.count_nonzero(ordered > excess, axis=1) - 1
    projected: Float64s = np.maximum(P - excess[np.arange(len(P)), last][:, None], 0.0)
    projected /= projected.sum(axis=1, keepdims=True)
    return projected
