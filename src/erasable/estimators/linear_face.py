"""What linear estimators that forget have in common: feature maps, pickles and files, weights, tags."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from erasable.core.arrays import Float64s
from erasable.core.layout import Buffer
from erasable.errors import InputError
from erasable.estimators.streaming import StreamingFace
from erasable.estimators.table_encoder import TableEncoder
from erasable.features import TABLES, TEXTS, as_texts
from erasable.models.configuration import map_of
from erasable.models.files import Fetch, from_files
from erasable.models.heads.linear import functions_of, linear_guarantee
from erasable.models.model import Model
from erasable.models.reports import Guarantee
from erasable.models.state import State


class LinearFace(StreamingFace):
    """An estimator whose head is a linear function of rows on a grid."""

    FORMAT: ClassVar[str] = "erasable-linear"
    _tensors = True

    # -- rows ----------------------------------------------------------------------------------------------------

    def _check_learnt(self, X: Any, y: Any, *, first: bool) -> tuple[Any, npt.NDArray[Any], dict[str, Any]]:
        rows = _unnumbered(map_of(self), X)
        if rows is None:
            return super()._check_learnt(X, y, first=first)
        _, y, _ = super()._check_learnt(np.zeros((len(rows), 1)), y, first=True)  # for the labels and their number
        return rows, y, {}

    def _check_asked(self, X: Any) -> Any:
        rows = _unnumbered(self._model.feature_map, X)
        if rows is None:
            return super()._check_asked(X)
        if not len(rows):
            raise InputError("at least one row is required; got 0.")
        return rows

    # -- learning ------------------------------------------------------------------------------------------------

    def fit(
        self,
        X: Any,
        y: Any,
        ids: Any = None,
        subjects: Any = None,
        *,
        sample_weight: Any = None,
        allow_no_subject: bool = False,
    ) -> Self:
        """Learn from nothing: whatever the model held before is overwritten.

        Parameters
        ----------
        X : array, SciPy sparse matrix, dataframe or tensor of PyTorch of shape (n_samples, n_features)
            The state is that of the numbers, whatever they come in. Missing and masked entries, dates and times, text
            and complex numbers are refused: what they stand for is for a schema to say (``TableEncoder``). A tensor on
            a GPU stays there, and rows are copied as they are needed: with ``engine="torch"``, those that survive its
            screen. Gradients play no part.
        y : array of shape (n_samples,)
            Labels: integers, strings, booleans or floats, two or more classes (one is allowed). For a regression
            numbers within their ranges, also of shape (n_samples, n_targets).
        ids : array of shape (n_samples,), optional
            Distinct integers, strings or bytes that name the rows; by default 0, 1, 2, ...
        subjects : array of shape (n_samples,) or (n_samples, n), list of lists or dataframe, optional
            To whom each row belongs; a subject may have many rows, and a row several subjects, in any order: it goes
            when any of them is forgotten. None, NaN, missing or masked entries and empty texts name nobody.
        sample_weight : array of shape (n_samples,), optional
            How much each row counts in the weights, 0 to 16, rounded to multiples of 1/16; by default 1. It is stored
            with its row. One that rounds to 0 means that the row is not learnt. Which rows are selected does not
            depend on the weights of the others.
        allow_no_subject : bool, default=False
            Learn rows for which ``subjects`` names nobody. Otherwise they are refused: no erasure by subject can reach
            them, only one by id.

        Returns
        -------
        self
        """
        self._fit(X, y, ids, subjects, sample_weight=sample_weight, allow_no_subject=allow_no_subject)
        return self

    # -- pickles and files ---------------------------------------------------------------------------------------

    def _bytes(self) -> Any:
        return self._model.feature_map, super()._bytes()  # the bytes cannot hold the map

    def _from_bytes(self, data: Any) -> Model:
        feature_map, written = data
        return Model.restore(State.from_bytes(written), feature_map)

    def _from_file(self, meta: dict[str, Any], head: Buffer, fetch: Fetch) -> Model:
        self._check_kind(meta, self.FORMAT, f"{self.FORMAT}-sharded")
        return self._agreed(Model.restore(from_files(head, fetch), map_of(self)))

    @property
    def guarantee(self) -> Guarantee:
        """Exact system-aware unlearning, bitwise, and what a feature map makes you see to."""
        return self._model.guarantee if self.__sklearn_is_fitted__() else linear_guarantee(map_of(self))

    @property
    def coef_(self) -> Float64s:
        """Weights of the features, for rows as ``scaling`` leaves them."""
        coefficients: Float64s = functions_of(self._attribute("coef_"))[0]
        return coefficients

    @property
    def intercept_(self) -> Float64s:
        """The constant that is added to each score."""
        constants: Float64s = functions_of(self._attribute("intercept_"))[1]
        return constants

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        given = getattr(self, "feature_map", None)
        takes = TABLES if isinstance(given, TableEncoder) else getattr(given, "takes", None)
        if takes == TEXTS:
            tags.input_tags.string = True
            tags.input_tags.one_d_array = True
            tags.input_tags.two_d_array = tags.input_tags.sparse = False
        elif takes == TABLES:
            tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
            tags.input_tags.sparse = False
        return tags


def width_of(X: Any) -> int | None:
    """Columns of checked rows; None where they are texts."""
    return X.shape[1] if X.ndim > 1 else None


def _unnumbered(feature_map: Any, X: Any) -> Any:
    """Texts, or the rows of a table encoded; None where the map, or the model without one, takes numbers."""
    takes = getattr(feature_map, "takes", None)
    if takes == TABLES:
        return feature_map.prepared(X)
    return as_texts(X) if takes == TEXTS else None
