"""The forgetting protocol that classifiers share: ``fit(X, y, ids=...)``, ``forget(ids=...)`` and what is stored."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from erasable.core.layout import Key
from erasable.errors import ChangedMeanwhileError, ConfigurationError, InputError, NoRowsError
from erasable.estimators._guarantee import Guarantee
from erasable.estimators._input import check_ids, check_rows
from erasable.estimators._keys import array_of, as_keys, label_type, same_kind
from erasable.estimators._reports import warn_of_emptied_classes


@dataclass(frozen=True)
class RemovalReport:
    """The outcome of one call of ``forget``; the model keeps nothing of it.

    Attributes
    ----------
    requested : int
        Ids named in the call.
    rows_removed : int
        Stored rows that left the model.
    rows_left : int
        Stored rows that remain.
    rows_gone_over : int
        Rows that had to be trained on again.
    """

    requested: int
    rows_removed: int
    rows_left: int
    rows_gone_over: int


class ForgettingClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that can forget rows by id. Subclasses say how rows are held, learnt and removed.

    Every check comes before every change. Should an interrupt hit while a removal is being written, the model refuses
    to work until it is fitted again.
    """

    classes_: Any
    _place: dict[Key, Any]  # where each stored row is, by id
    _key_type: type
    _whole: bool

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds after ``forget``."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse constructor arguments that cannot work."""

    @abstractmethod
    def _learn(self, X: Any, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        """Every attribute of the model that these rows give, ``_place`` included; nothing is set here."""

    @abstractmethod
    def _remove(self, keys: list[Key]) -> int:
        """Remove these stored rows and bring the model up to date; the number of rows trained on again."""

    @abstractmethod
    def _erase(self) -> None:
        """Overwrite the rows held: another fit replaces them."""

    def fit(self, X: Any, y: Any, ids: Any = None) -> Self:
        """Learn from nothing.

        Parameters
        ----------
        X : array, SciPy sparse matrix or dataframe of shape (n_samples, n_features)
        y : array of shape (n_samples,)
        ids : array of shape (n_samples,), optional
            Distinct integers, strings or bytes that name the rows; by default 0, 1, 2, ...

        Returns
        -------
        self
        """
        self._check_parameters()
        X, y, schema = check_rows(self, X, y, first=True)
        label_type(y)
        column = check_ids(ids, X.shape[0], {})
        keys = range(X.shape[0]) if column is None else column
        keys = keys.tolist() if isinstance(keys, np.ndarray) else keys
        fitted = {**schema, **self._learn(X, y, keys), "_key_type": type(keys[0]), "_whole": True}
        if self.__sklearn_is_fitted__():
            self._erase()
        for name in ("feature_names_in_", *fitted):  # attributes stand in the order of a first fit
            self.__dict__.pop(name, None)
        self.__dict__.update(fitted)
        return self

    def forget(self, *, ids: Any) -> RemovalReport:
        """Rows with these ids stop existing for the model, which is ready to predict afterwards.

        Parameters
        ----------
        ids : array-like
            Unknown ids are no error and change nothing. All rows of one call are removed together.

        Returns
        -------
        RemovalReport

        Warns
        -----
        EmptiedClassWarning
            When the last stored row of a class has left, and others remain.
        """
        report, emptied = self._forget(ids)
        warn_of_emptied_classes(emptied, self)
        return report

    def _forget(self, ids: Any, subjects: Any = None) -> tuple[RemovalReport, int]:
        """The report, and how many classes lost their last row; nothing is said of a model that is empty now."""
        requested, _, found = self._named(ids, subjects)
        before, gone_over = len(self.classes_), 0
        if found:
            self._whole = False
            gone_over = self._remove(found)
            self._whole = True
        report = RemovalReport(requested, len(found), len(self._place), gone_over)
        return report, before - len(self.classes_) if report.rows_left else 0

    def _named(self, ids: Any, subjects: Any = None) -> tuple[int, int, list[Key]]:
        """How many ids a request names, how many of them no stored row has, and those that one has."""
        self._check_whole("forget")
        if subjects is not None:
            raise InputError(f"{type(self).__name__} knows no subjects: give ids.")
        if ids is None:
            raise InputError("forget needs ids=.")
        keys = as_keys(ids, "ids")
        same_kind(keys, self._key_type if self._place else None, "ids")
        absent = sum(key not in self._place for key in keys)
        return len(keys), absent, [key for key in dict.fromkeys(keys) if key in self._place]

    @property
    def stored_rows_(self) -> int:
        """Number of training rows the model holds."""
        if not self.__sklearn_is_fitted__():
            raise AttributeError(f"{type(self).__name__} has no stored_rows_ before fit.")
        return len(self._place)

    def _rows_to_predict(self, X: Any) -> Any:
        """Rows checked for prediction by a model that has rows left."""
        self._check_whole("predict")
        X, _, _ = check_rows(self, X, first=False)
        if not self._place:
            raise NoRowsError("no rows remain in this model, so it cannot predict: call fit with new rows.")
        return X

    def _check_whole(self, purpose: str) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFittedError(f"This {type(self).__name__} instance is not fitted yet: call fit before {purpose}.")
        if not self._whole:
            raise ChangedMeanwhileError("this model was interrupted while it was forgetting: call fit again.")

    def __sklearn_is_fitted__(self) -> bool:
        return "_place" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


def encode(labels: Sequence[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[np.intp]]:
    """Distinct plain labels in order, and the position of each label among them.

    The array of classes is made from these labels alone: one cut out of a larger array would be as wide as a label that
    has been forgotten.
    """
    classes = sorted(set(labels))
    place = {label: i for i, label in enumerate(classes)}
    return array_of(classes), np.fromiter((place[v] for v in labels), dtype=np.intp, count=len(labels))


def check_seed(value: Any, name: str = "random_state") -> int:
    """A seed that can be written down: forgetting must be able to draw the same lots again."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 0:
        raise ConfigurationError(f"{name} must be a non-negative integer, for a refit to draw the same; got {value!r}.")
    return int(value)


def check_count(value: Any, name: str) -> int:
    """A positive integer."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, int | np.integer) or value < 1:
        raise ConfigurationError(f"{name} must be a positive integer; got {value!r}.")
    return int(value)


def check_number(value: Any, name: str, low: float, high: float, *, closed: bool = False) -> float:
    """A number strictly above ``low`` and below ``high`` (or equal to it when ``closed``)."""
    right = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool | np.bool_)
    try:
        number = float(value) if right else math.nan
    except OverflowError:
        number = math.inf
    if not (low < number < high or (closed and number == high)):
        limit = f"above {low:g}" + ("" if high == np.inf else f" and {'at most' if closed else 'below'} {high:g}")
        raise ConfigurationError(f"{name} must be a number {limit}; got {value!r}.")
    return number


def n_bytes(X: Any) -> int:
    """Bytes of a dense array or of the three arrays of a CSR one."""
    return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def overwrite(X: Any) -> None:
    """Zeros in place of the entries of a dense array or a CSR one."""
    (X if isinstance(X, np.ndarray) else X.data).fill(0)
