"""A schema as scikit-learn knows transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt
from sklearn.base import BaseEstimator, TransformerMixin

from erasable.errors import ConfigurationError
from erasable.schemas import Schema
from erasable.validation import choice


class TableEncoder(TransformerMixin, BaseEstimator):
    """Encodes dataframes by a public schema: ``fit`` learns nothing, so there is nothing to forget.

    Parameters
    ----------
    schema : Schema
    sparse_output : "auto", True or False, default="auto"
        Whether rows are sparse; "auto" is as the schema has it. ``set_output`` needs False.

    Notes
    -----
    As a step of a ``Pipeline``, or as ``ErasableClassifier(feature_map=TableEncoder(schema))``: then the schema is part
    of the model's state, its digest and its file.

    Examples
    --------
    >>> import pandas as pd
    >>> from erasable.estimators import ErasableClassifier, TableEncoder
    >>> from erasable.schemas import Category, Number, Schema
    >>> schema = Schema([Category(name="town", values=["Bern", "Oslo"]), Number(name="age", range=(0, 100))])
    >>> table = pd.DataFrame({"town": ["Bern", "Oslo", "Rome", None], "age": [20, 30, 40, None]})
    >>> clf = ErasableClassifier(feature_map=TableEncoder(schema), threshold=0.1)
    >>> clf = clf.fit(table, [0, 1, 1, 0], ids=["a", "b", "c", "d"])
    >>> again = ErasableClassifier(feature_map=TableEncoder(schema), threshold=0.1)
    >>> again = again.fit(table[:3], [0, 1, 1], ids=["a", "b", "c"])
    >>> clf.forget(ids=["d"]).digest == again.state_digest()
    True
    """

    if TYPE_CHECKING:  # scikit-learn has no types for it

        def fit_transform(self, X: object, y: object = None, **fit_params: Any) -> Any:
            """Return the encoded rows."""

    def __init__(self, schema: object, *, sparse_output: object = "auto") -> None:
        self.schema = schema
        self.sparse_output = sparse_output

    @property
    def feature_map(self) -> Schema:
        """The schema, checked to be one."""
        if not isinstance(self.schema, Schema):
            raise ConfigurationError(f"schema must be a Schema; got {type(self.schema).__name__}: see Schema.load.")
        return self.schema

    def fit(self, X: object, y: object = None) -> Self:
        """Check that the table has the columns and is of their kinds; nothing is kept.

        Parameters
        ----------
        X : Arrow table, pandas or polars dataframe, or dict of columns
        y : ignored
        """
        self.transform(X)
        return self

    def transform(self, X: object) -> Any:
        """Encoded rows: a float32 array, or a csr_array.

        Parameters
        ----------
        X : Arrow table, pandas or polars dataframe, or dict of columns
        """
        schema = self.feature_map
        sparse = choice(self.sparse_output, "sparse_output", ("auto", True, False))
        rows, _ = schema.encode_sparse(X)
        return rows if sparse is True or (sparse == "auto" and schema.sparse) else rows.toarray()

    def get_feature_names_out(self, input_features: object = None) -> npt.NDArray[np.object_]:
        """The names of the features; those of the input are the schema's.

        Parameters
        ----------
        input_features : ignored
        """
        return np.array(self.feature_map.feature_names_out(), dtype=object)

    def __sklearn_is_fitted__(self) -> bool:
        return True

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string = tags.input_tags.categorical = tags.input_tags.allow_nan = True
        return tags
