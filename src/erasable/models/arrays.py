"""Rows as a dense array or a SciPy CSR one, whichever they came as: all of them, or a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

_BLOCK = 2**20  # numbers handled at once


def in_blocks(X: Any, width: int) -> Iterator[slice]:
    """Slices of rows, so many at a time that a block has about a million numbers of this width."""
    step = max(1, _BLOCK // max(1, width))
    return (slice(low, low + step) for low in range(0, X.shape[0], step))


def dense(X: Any) -> npt.NDArray[Any]:
    """Rows as a dense array."""
    return X if isinstance(X, np.ndarray) else X.toarray()


def n_bytes(X: Any) -> int:
    """Bytes of a dense array or of the three arrays of a CSR one."""
    return int(X.nbytes if isinstance(X, np.ndarray) else X.data.nbytes + X.indices.nbytes + X.indptr.nbytes)


def overwrite(X: Any) -> None:
    """Zeros in place of the entries of a dense array or a CSR one, and of where they stand."""
    for array in [X] if isinstance(X, np.ndarray) else [X.data, X.indices]:
        array.fill(0)
