"""Sparse rows whose entries are each listed once.

SciPy lets an entry be listed several times and stand for the sum. Numbers that are finite one by one may then add up to
infinity, so what is checked must be the sums.

Changes nothing it is given.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float64s


def checked_layout(X: Any) -> Any:
    """The same CSR or CSC rows without flags that others set, once all positions are known to lie inside.

    Raises
    ------
    ValueError
        Where they do not; SciPy would read or write memory that is not its own.
    """
    X = type(X)((X.data, X.indices, X.indptr), shape=X.shape)
    X.check_format(full_check=True)
    return X


def summed(X: Any) -> Any:
    """CSR rows with sorted columns, each listed once; those listed several times are added up. ``X`` stays as it is.

    *Law*: the entries are those of ``X.toarray()``, bit for bit: added in the order in which they are listed.
    """
    X = checked_layout(X)
    if X.has_canonical_format:
        return X
    out = X.copy()
    out.sort_indices()
    if out.has_canonical_format:
        return out
    row = rows_of(X)
    order = np.lexsort((X.indices, row))  # stable, which sort_indices is not
    out = type(X)((X.data[order], X.indices[order], X.indptr.copy()), shape=X.shape)
    out.sum_duplicates()
    return out


def rows_of(X: Any) -> npt.NDArray[np.intp]:
    """For each entry that CSR rows list the number of its row."""
    return np.repeat(np.arange(X.shape[0]), np.diff(X.indptr))


def added_up(values: npt.NDArray[Any], at: npt.NDArray[Any], size: int) -> Float64s:
    """Sums of the values that have one number, for each number below ``size``; in float64."""
    return np.bincount(at, values, size).astype(np.float64, copy=False)


def stacked(batches: Sequence[Any]) -> Any:
    """Batches of rows, one at least, all of them dense or all of them sparse, as one."""
    return sp.vstack(batches, format="csr") if sp.issparse(batches[0]) else np.concatenate(batches)
