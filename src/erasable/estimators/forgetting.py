"""The face that scikit-learn sees: ``fit`` with ids and subjects, ``forget``, and what is stored.

:class:`Forgetting` is the protocol; :mod:`erasable.estimators.faces` puts it in front of models that have a
state. :class:`RowsClassifier` is for learners whose state has no canonical bytes.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.exceptions import NotFittedError

from erasable.core.names import Key
from erasable.errors import ChangedMeanwhileError, NoRowsError
from erasable.estimators.validated import check_rows
from erasable.models.core_rows import CoreRows
from erasable.models.inputs import check_ids, check_subjects, label_type, pick
from erasable.models.reports import ForgetReport, Guarantee, warn_of_emptied_classes

_SCHEMA = ("feature_names_in_", "n_features_in_")


class Forgetting(BaseEstimator):
    """An estimator that can forget rows by id, or all rows of a subject.

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
        subjects : array of shape (n_samples,) or (n_samples, n), list of lists or dataframe, optional
            To whom each row belongs; a subject may have many rows, and a row several subjects, in any order: it goes
            when any of them is forgotten. None, NaN, missing or masked entries and empty texts name nobody.
        allow_no_subject : bool, default=False
            Learn rows for which ``subjects`` names nobody. Otherwise they are refused: no erasure by subject can reach
            them, only one by id.

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
            Subjects all of whose rows are to go, in one flat list. Rows learnt without ``subjects`` can only be found
            by id; an empty text names nobody and is refused.

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


class ForgettingClassifier(ClassifierMixin, Forgetting):
    """A classifier that can forget."""


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
            self._names.remove(self._names.find(found))
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
