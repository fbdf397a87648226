"""A classifier that can forget and holds its rows in its own way, without a ``Model`` or canonical bytes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, ClassifierMixin

from erasable.core.arrays import Matrix
from erasable.core.names import Key
from erasable.errors import ChangedMeanwhileError, NoRowsError
from erasable.estimators.base import check_attribute, check_fitted, install, without_values
from erasable.estimators.validated import check_rows
from erasable.models.core_rows import CoreRows
from erasable.models.inputs import check_ids, check_subjects, label_type, pick
from erasable.models.reports import ForgetReport, Guarantee, warn_of_emptied_classes


class RowsClassifier(ClassifierMixin, BaseEstimator):
    """A classifier that can forget rows by id, or all rows of a subject. Subclasses store, learn and remove rows.

    Every check comes before every change. ``_names`` has ids, subjects and labels of the stored rows; its rows have no
    columns.
    """

    classes_: Any
    _names: CoreRows
    _whole: bool

    @property
    @abstractmethod
    def guarantee(self) -> Guarantee:
        """What holds after ``forget``."""

    @abstractmethod
    def _check_parameters(self) -> None:
        """Refuse constructor arguments that cannot work."""

    @abstractmethod
    def _learn(self, X: Matrix, y: npt.NDArray[Any], keys: Sequence[Key]) -> dict[str, Any]:
        """Return every attribute of the model that these rows give; nothing is set here.

        ``_stored`` among them are the ids of the rows that are kept, where these are not all.
        """

    @abstractmethod
    def _remove(self, keys: list[Key]) -> int:
        """Remove these stored rows and update the model; return the number of rows trained on again."""

    @abstractmethod
    def _erase(self) -> None:
        """Overwrite the rows held: another fit replaces them."""

    def fit(
        self,
        X: Matrix,
        y: npt.ArrayLike,
        ids: object = None,
        subjects: object = None,
        *,
        allow_no_subject: bool = False,
    ) -> Self:
        """Learn from nothing; parameters as in ``ErasableClassifier.fit``."""
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
        install(self, schema, **fitted, _names=names, _whole=True)
        return self

    def forget(self, *, ids: object = None, subjects: object = None) -> ForgetReport:
        """Remove rows with these ids, or of these subjects; as ``ErasableClassifier.forget``."""
        report = self.forget_quietly(ids, subjects)
        warn_of_emptied_classes(report.classes_emptied, fixable=hasattr(self, "classes"))
        return report

    def forget_quietly(self, ids: object = None, subjects: object = None) -> ForgetReport:
        """``forget`` without warnings, for callers that give their own."""
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

    def _rows_to_predict(self, X: Matrix) -> Any:
        """Return validated rows to predict, if the model has rows left."""
        self._check_whole("predict")
        X, _, _ = check_rows(self, X, first=False)
        if not len(self._names):
            raise NoRowsError("no rows remain in this model, so it cannot predict: call fit with new rows.")
        return X

    def _check_attribute(self, name: str) -> None:
        check_attribute(self, name)

    def _check_whole(self, purpose: str) -> None:
        check_fitted(self, purpose)
        if not self._whole:
            raise ChangedMeanwhileError("this model was interrupted while it was forgetting: call fit again.")

    def __sklearn_is_fitted__(self) -> bool:
        return "_names" in vars(self)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _get_fitted_attr_html(self, doc_link: str = "") -> Any:
        """Return scikit-learn's table for notebooks, without values that come from rows."""
        return without_values(super()._get_fitted_attr_html(doc_link))
