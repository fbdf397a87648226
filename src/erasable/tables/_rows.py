"""Rows whose labels may be unknown: to predict, or to look for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.errors import InputError
from erasable.tables._table import Table


@dataclass(frozen=True, eq=False, repr=False)
class Rows:
    """Rows and, where known, their ids, subjects and labels: a ``Table`` that may have no labels.

    Parameters
    ----------
    X : ndarray of float32 or float64, or scipy.sparse.csr_array, of shape (n_rows, n_features)
        The rows.
    ids, subjects, y : array of shape (n_rows,), optional
        The name of every row, whose it is, and its label.
    name : str, default=""
        What the rows are called.
    feature_names : tuple of str, optional
        One name per column.

    Raises
    ------
    InputError, InputTypeError
        When the parts do not fit each other.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.tables import Rows
    >>> Rows(np.eye(3), ids=["a", "b", "c"], name="unit vectors")
    <Rows 'unit vectors': 3 rows × 3 features, dense float64, with ids>
    """

    X: Any
    ids: npt.NDArray[Any] | None = None
    subjects: npt.NDArray[Any] | None = None
    y: npt.NDArray[Any] | None = None
    name: str = ""
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        no_labels = np.zeros(getattr(self.X, "shape", (0,))[0])
        y = no_labels if self.y is None else self.y
        checked = Table(self.X, y, self.ids, self.subjects, self.name, self.feature_names)
        for part in ("X", "ids", "subjects", "feature_names"):
            object.__setattr__(self, part, getattr(checked, part))
        if self.y is not None:
            object.__setattr__(self, "y", checked.y)

    @property
    def n_rows(self) -> int:
        """How many rows there are."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return int(self.X.shape[1])

    def __repr__(self) -> str:
        kind = f"{'sparse' if sp.issparse(self.X) else 'dense'} {self.X.dtype}"
        parts = (("ids", self.ids), ("subjects", self.subjects), ("labels", self.y))
        has = [part for part, values in parts if values is not None]
        extra = f", with {', '.join(has)}" if has else ""
        return f"<Rows {self.name!r}: {self.n_rows} rows × {self.n_features} features, {kind}{extra}>"

    def table(self) -> Table:
        """The same rows as a ``Table``.

        Raises
        ------
        InputError
            When there are no labels.
        """
        if self.y is None:
            raise InputError("these rows have no labels: a table needs one for every row.")
        return Table(self.X, self.y, self.ids, self.subjects, self.name, self.feature_names)


def joined(blocks: Sequence[Rows]) -> Rows:
    """Blocks of one stream as one."""
    first = blocks[0]
    if len(blocks) == 1:
        return first
    stack = sp.vstack if sp.issparse(first.X) else np.concatenate

    def column(part: str) -> npt.NDArray[Any] | None:
        # Integers of one block and integers with gaps of another become Python's, as in one block.
        return None if getattr(first, part) is None else np.concatenate([getattr(b, part) for b in blocks])

    X = stack([b.X for b in blocks])
    return Rows(X, column("ids"), column("subjects"), column("y"), first.name, first.feature_names)
