"""Second moments of the rows of a public table, for independent selection."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Float64s
from erasable.core.grid import Grid, scale_rows
from erasable.errors import ConfigurationError, InputError
from erasable.tables import Dialect, stream_table

_BITS = 12  # rows are scaled and not rounded, so any number of bits would do
_NPY = b"\x93NUMPY"


@dataclass(frozen=True)
class TableMoments:
    """Second moments of the features of a table, each row divided by its norm."""

    # of shape (n_features,) or (n_features, n_features): for the parameter ``moments`` of ``ErasableClassifier``
    # and ``ErasableRegressor``.
    moments: Float64s
    rows: int  # the number of rows
    raised: int  # features that are zero in every row; they have the smallest moment of the others

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the moments to a .npy file; ConfigurationError if the path is an existing file of another kind."""
        if Path(path).is_file():
            with open(path, "rb") as file:
                if file.read(len(_NPY)) != _NPY:
                    raise ConfigurationError(f"{os.fspath(path)} exists and is no .npy file: choose another name.")
        with open(path, "wb") as file:
            np.save(file, self.moments, allow_pickle=False)


def table_moments(
    source: Any,
    *,
    matrix: bool = False,
    ignore: Sequence[str] = (),
    dialect: Dialect | None = None,
    progress: Callable[[int, int | None], None] | None = None,
) -> TableMoments:
    r"""The second moments of the features of a public table, read in blocks.

    Raises InputError when all rows are zero.

    Parameters
    ----------
    source
        A table of numbers, as ``stream_table`` reads it. It must be public: moments are part of a model, and are
        not forgotten with any row.
    matrix : bool, default=False
        Moments of all pairs of features, for features that depend on each other, such as embeddings.
    ignore : sequence of str
        Columns that are not features.

    Examples
    --------
    >>> import io
    >>> from erasable.operations.moments import table_moments
    >>> table_moments(io.BytesIO(b"a,b\n3,4\n0,5\n")).moments.round(2).tolist()
    [0.18, 0.82]
    """
    total: Any = 0.0
    n = 0
    with stream_table(source, label=None, labelled=False, ignore=ignore, dialect=dialect) as stream:
        for block in stream:
            Z = scale_rows(block.X, Grid(block.X.shape[1], _BITS, True, "row"))
            if matrix:
                products = Z.T @ Z
                total = total + (products.toarray() if sp.issparse(products) else products)
            else:
                total = total + np.asarray((Z.multiply(Z) if sp.issparse(Z) else np.square(Z)).sum(axis=0)).ravel()
            n += len(block)
            if progress is not None:
                progress(n, stream.n_rows)
    if not np.any(total):
        raise InputError("the moments of this table are all zero: give a table with rows that are not zero.")
    if matrix:
        upper = np.triu(total) / n  # a library may round the two halves differently
        return TableMoments(upper + np.triu(upper, 1).T, n, 0)
    zero = total == 0.0
    return TableMoments(np.where(zero, total[~zero].min(), total) / n, n, int(np.count_nonzero(zero)))
