"""A whole table: rows with their labels, ids, subjects and weights, as checked arrays."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.schemas import EncodedTable
from erasable.tables.columns import number_columns, plain_array, subject_array
from erasable.validation import number_between, whole_number


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A data set: rows and, where known, labels, ids and subjects.

    Raises InputError or InputTypeError when the parts do not match.

    Parameters
    ----------
    X : ndarray of float32 or float64, or scipy.sparse.csr_array, of shape (n_rows, n_features); or EncodedTable
        The rows.
    y : array of shape (n_rows,), optional
        Their labels, or None for rows to predict. Targets may have the shape (n_rows, n_targets).
    ids : array of shape (n_rows,), optional
        The name of every row, for ``fit(..., ids=table.ids)``.
    subjects : array of shape (n_rows,) or (n_rows, n), or list of lists, optional
        The subject of each row, None where it has none; for ``fit(..., subjects=table.subjects)``. Several subjects
        of a row become a sorted tuple.
    name : str, default=""
        The name of the data set.
    feature_names : tuple of str, optional
        One name per column.
    fitted : str, default=""
        A sentence about what was fitted on these rows (labels by clustering, a vocabulary); empty if nothing was.
        Forgetting rows does not remove such a trace.
    weights : array of shape (n_rows,), optional
        The weight of each row, for ``fit(..., sample_weight=table.weights)``.

    Examples
    --------
    >>> import numpy as np
    >>> from erasable.tables import Table
    >>> table = Table(np.eye(5), [0, 1, 0, 1, 0], ids=["a", "b", "c", "d", "e"], name="unit vectors")
    >>> table
    <Table 'unit vectors': 5 rows × 5 features, dense float64, with ids>
    >>> table.split(test_size=2).train.n_rows
    3
    """

    X: Any
    y: Any = None
    ids: npt.NDArray[Any] | None = None
    subjects: npt.NDArray[Any] | None = None
    name: str = ""
    feature_names: tuple[str, ...] | None = None
    fitted: str = ""
    weights: npt.NDArray[Any] | None = None

    def __post_init__(self) -> None:
        X: Any = sp.csr_array(self.X) if sp.issparse(self.X) else self.X
        object.__setattr__(self, "X", X)
        numbers = self.numbers
        if not (sp.issparse(numbers) or isinstance(numbers, np.ndarray)):
            raise InputTypeError(f"X must be an array or a SciPy sparse array; got {type(X).__name__}.")
        if numbers.ndim != 2:
            raise InputError(f"X must have two dimensions, rows and features; got {X.ndim}.")
        if np.ma.is_masked(numbers):
            raise InputError("X has masked entries: fill them in with a fixed public number, or leave these rows out.")
        if numbers.dtype not in (np.float32, np.float64):
            raise InputTypeError(f"X must hold float32 or float64; got {X.dtype}: convert it with X.astype('float64').")
        for part in ("y", "ids", "subjects", "weights"):
            values = getattr(self, part)
            if values is None:
                continue
            several = part == "y" and getattr(values, "ndim", 1) == 2 and values.shape[1] > 1
            checked = number_columns if several else subject_array if part == "subjects" else plain_array
            column = checked(values, part)
            if len(column) != X.shape[0]:
                raise InputError(f"{part} has {len(column)} entries for {X.shape[0]} rows: give one per row.")
            object.__setattr__(self, part, column)
        if self.feature_names is not None:
            object.__setattr__(self, "feature_names", tuple(self.feature_names))
            if len(self.feature_names) != self.n_features:
                raise InputError(f"feature_names has {len(self.feature_names)} entries for {self.n_features} features.")

    @property
    def n_rows(self) -> int:
        """The number of rows."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """The number of numbers in a row."""
        return int(self.numbers.shape[1])

    @property
    def numbers(self) -> Any:
        """The rows as an array or csr_array, encoded ones too."""
        return self.X.rows if isinstance(self.X, EncodedTable) else self.X

    def __repr__(self) -> str:
        kind = f"{'sparse' if sp.issparse(self.numbers) else 'dense'} {self.numbers.dtype}"
        has = [part for part in ("ids", "subjects", "weights") if getattr(self, part) is not None]
        extra = (f", with {' and '.join(has)}" if has else "") + (", without labels" if self.y is None else "")
        return f"<Table {self.name!r}: {self.n_rows} rows × {self.n_features} features, {kind}{extra}>"

    def take(self, index: npt.ArrayLike | slice) -> Table:
        """A copy of some rows, in the order of the index.

        Raises InputError or InputTypeError when the index does not name rows of this table.

        Parameters
        ----------
        index : array of integers, boolean mask, or slice
            Which rows; negative integers count from the end.
        """
        rows = self._rows(index)

        columns = self.y, self.ids, self.subjects, self.weights
        y, ids, subjects, weights = (None if c is None else c[rows] for c in columns)
        return replace(self, X=self.X[rows], y=y, ids=ids, subjects=subjects, weights=weights)

    def _rows(self, index: npt.ArrayLike | slice) -> npt.NDArray[np.intp]:
        """Row numbers as an array, since indexing with an array copies."""
        if isinstance(index, slice):
            return np.arange(self.n_rows)[index]
        numbers = np.asarray(index)
        if numbers.ndim != 1:
            raise InputError(f"index must have one dimension; got {numbers.ndim}.")
        if numbers.dtype == bool:
            if len(numbers) != self.n_rows:
                raise InputError(f"index is a mask of {len(numbers)} entries for {self.n_rows} rows: give one per row.")
            return np.flatnonzero(numbers)
        if not len(numbers):
            return np.empty(0, np.intp)
        if numbers.dtype.kind not in "iu":
            raise InputTypeError(f"index must hold integers or booleans; got {numbers.dtype}.")
        outside = int(np.count_nonzero((numbers < -self.n_rows) | (numbers >= self.n_rows)))
        if outside:
            raise InputError(f"{outside} of {len(numbers)} entries of index name no row: there are {self.n_rows} rows.")
        return numbers.astype(np.intp)

    def split(self, test_size: float = 0.2, random_state: int = 0, *, in_order: bool = False) -> Split:
        """The rows, shuffled by a seed, in two tables: the division of ``train_test_split`` of scikit-learn.

        Raises ConfigurationError when a side would have no rows, or a parameter cannot be used.

        Parameters
        ----------
        test_size : float or int, default=0.2
            The share of the rows to test with, rounded up, or their number.
        random_state : int, default=0
            The seed.
        in_order : bool, default=False
            Leave the rows of each side in the order of this table.
        """
        seed = whole_number(random_state, "random_state", 0, 2**32 - 1)
        if isinstance(test_size, numbers.Integral) and not isinstance(test_size, bool):
            n_test = int(test_size)
        else:
            n_test = math.ceil(number_between(test_size, "test_size", 0, 1, closed="low") * self.n_rows)
        if not 0 < n_test < self.n_rows:
            raise ConfigurationError(
                f"test_size must leave rows on both sides; it asks for {n_test} of {self.n_rows} rows to test with."
            )
        shuffled = np.random.RandomState(seed).permutation(self.n_rows)  # as scikit-learn shuffles
        test, train = shuffled[:n_test], shuffled[n_test:]
        if in_order:
            train, test = np.sort(train), np.sort(test)
        return Split(self.take(train), self.take(test))


@dataclass(frozen=True, eq=False)
class Split:
    """Rows to learn from, and rows to measure with.

    Parameters
    ----------
    train, test : Table
        The two parts, with the same features.

    Examples
    --------
    >>> from erasable.research.sets import load_bundled
    >>> load_bundled().split(test_size=0.5)
    Split(train=<Table 'digits, even or odd': 898 rows × 64 features, dense float64>,
          test=<Table 'digits, even or odd': 899 rows × 64 features, dense float64>)
    """

    train: Table
    test: Table

    def __post_init__(self) -> None:
        if self.train.n_features != self.test.n_features:
            raise InputError(
                f"train has {self.train.n_features} features and test {self.test.n_features}: both need the same."
            )
