"""Tables in the text format of SVMlight and LIBSVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.datasets import load_svmlight_file

from erasable.datasets._columns import as_rows, check_labels
from erasable.datasets._reading import read_or_refuse
from erasable.datasets._table import Table
from erasable.errors import InputError


def read_svmlight(path: Path, name: str, *, subjects: bool) -> Table:
    """The table in a file; with ``subjects``, the query id of every row (``qid:7``) as its subject."""
    X, y, *query = read_or_refuse(lambda: load_svmlight_file(str(path), query_id=subjects), path, "SVMlight text")
    if not X.shape[0]:
        raise InputError(f"{path.name}: there are no rows.")
    owners: npt.NDArray[Any] | None = query[0] if query else None
    if owners is not None and len(owners) != X.shape[0]:
        raise InputError(f"{path.name}: {len(owners)} of {X.shape[0]} rows have a query id: every row needs one.")
    y = check_labels(y, path.name)
    whole = np.abs(y).max() < 2**53 and bool((y == np.floor(y)).all())
    return Table(as_rows(X, path.name), y.astype(np.int64) if whole else y, subjects=owners, name=name)
