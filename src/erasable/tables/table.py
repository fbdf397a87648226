"""Rows with their labels, ids, subjects and weights, as checked arrays: a whole table, and columns of any format."""

from __future__ import annotations

import math
import numbers
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import summed
from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.models.inputs import as_subject_column
from erasable.schemas import EncodedTable
from erasable.validation import number_between, whole_number

_ARRAYS: dict[type, Any] = {bool: bool, int: np.int64, float: np.float64}


@dataclass(frozen=True, eq=False, repr=False)
class Table:
    """A data set: rows and, where known, labels, ids and subjects.

    Parameters
    ----------
    X : ndarray of float32 or float64, or scipy.sparse.csr_array, of shape (n_rows, n_features); or EncodedTable
        The rows; those that a schema encoded are known as such.
    y : array of shape (n_rows,), optional
        Their labels; without, there is nothing to learn, but rows to predict or to look for. Numbers to be predicted
        may have the shape (n_rows, n_targets).
    ids : array of shape (n_rows,), optional
        The name of every row, for ``fit(..., ids=table.ids)``.
    subjects : array of shape (n_rows,) or (n_rows, n), or list of lists, optional
        Whose row it is, None where nobody's; for ``fit(..., subjects=table.subjects)``. Several subjects of a row are
        held as a sorted tuple.
    name : str, default=""
        What the data set is called.
    feature_names : tuple of str, optional
        One name per column.
    fitted : str, default=""
        What was fitted on rows that may have to be deleted later (labels by clustering, a vocabulary), in a sentence;
        empty when nothing was. Such a thing is a trace that forgetting rows does not remove.
    weights : array of shape (n_rows,), optional
        How much each row counts, for ``fit(..., sample_weight=table.weights)``.

    Raises
    ------
    InputError, InputTypeError
        When the parts do not fit each other.

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
        """How many rows there are."""
        return int(self.X.shape[0])

    @property
    def n_features(self) -> int:
        """How many numbers a row has."""
        return int(self.numbers.shape[1])

    @property
    def numbers(self) -> Any:
        """The rows as an array or csr_array, those of a table that was encoded too."""
        return self.X.rows if isinstance(self.X, EncodedTable) else self.X

    def __repr__(self) -> str:
        kind = f"{'sparse' if sp.issparse(self.numbers) else 'dense'} {self.numbers.dtype}"
        has = [part for part in ("ids", "subjects", "weights") if getattr(self, part) is not None]
        extra = (f", with {' and '.join(has)}" if has else "") + (", without labels" if self.y is None else "")
        return f"<Table {self.name!r}: {self.n_rows} rows × {self.n_features} features, {kind}{extra}>"

    def take(self, index: npt.ArrayLike | slice) -> Table:
        """A copy of some rows, in the order asked for.

        Parameters
        ----------
        index : array of integers, boolean mask, or slice
            Which rows; negative integers count from the end.

        Raises
        ------
        InputError, InputTypeError
            When the index is no list of rows of this table.
        """
        rows = self._rows(index)

        columns = self.y, self.ids, self.subjects, self.weights
        y, ids, subjects, weights = (None if c is None else c[rows] for c in columns)
        return replace(self, X=self.X[rows], y=y, ids=ids, subjects=subjects, weights=weights)

    def _rows(self, index: npt.ArrayLike | slice) -> npt.NDArray[np.intp]:
        """Row numbers as an array, so that what is taken by them is a copy."""
        if isinstance(index, slice):
            return np.arange(self.n_rows)[index]
        asked = np.asarray(index)
        if asked.ndim != 1:
            raise InputError(f"index must have one dimension; got {asked.ndim}.")
        if asked.dtype == bool:
            if len(asked) != self.n_rows:
                raise InputError(f"index is a mask of {len(asked)} entries for {self.n_rows} rows: give one per row.")
            return np.flatnonzero(asked)
        if not len(asked):
            return np.empty(0, np.intp)
        if asked.dtype.kind not in "iu":
            raise InputTypeError(f"index must hold integers or booleans; got {asked.dtype}.")
        outside = int(np.count_nonzero((asked < -self.n_rows) | (asked >= self.n_rows)))
        if outside:
            raise InputError(f"{outside} of {len(asked)} entries of index name no row: there are {self.n_rows} rows.")
        return asked.astype(np.intp)

    def split(self, test_size: float = 0.2, random_state: int = 0, *, in_order: bool = False) -> Split:
        """The rows, shuffled by a seed, in two tables; the same division as ``train_test_split`` of scikit-learn.

        Parameters
        ----------
        test_size : float or int, default=0.2
            The share of the rows to test with, rounded up, or their number.
        random_state : int, default=0
            The seed.
        in_order : bool, default=False
            Divide the rows in the same way, but leave those of each side in the order that they have here.

        Raises
        ------
        ConfigurationError
            When a side would have no rows, or a parameter cannot be used.
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


def plain_array(values: Any, name: str) -> npt.NDArray[Any]:
    """One-dimensional array of the values: of numbers where all are of one kind, of Python objects otherwise.

    Text stays Python text, since NumPy's own drops zeros at its end.
    """
    if isinstance(values, np.ndarray):
        if values.ndim != 1:
            raise InputError(f"{name} must have one dimension; got {values.ndim}.")
        if np.ma.is_masked(values):
            raise InputError(f"{name} has masked entries: fill them in, or leave these rows out.")
        if values.dtype.kind in "mM":  # of which NumPy makes integers where the unit is fine
            raise InputTypeError(f"{name} holds dates or times: convert them to strings.")
        return values.astype(object) if values.dtype.kind in "US" else np.asarray(values)
    if isinstance(values, str | bytes) or not isinstance(values, Sequence):
        raise InputTypeError(f"{name} must be an array or a list; got {type(values).__name__}.")
    kinds = set(map(type, values))
    kind = kinds.pop() if len(kinds) == 1 else object
    fits = kind is not int or (min(values) >= -(2**63) and max(values) < 2**63)
    array: npt.NDArray[Any] = np.empty(len(values), _ARRAYS.get(kind, object) if fits else object)
    array[:] = values
    return array


def subject_array(values: Any, name: str) -> npt.NDArray[Any]:
    """To whom each row belongs: :func:`plain_array`, with sorted tuples where rows belong to several.

    The subjects of a row may come in a list, or in a row of an array of two dimensions.
    """
    wide = getattr(values, "ndim", 1) == 2
    listed = isinstance(values, list | tuple) or getattr(getattr(values, "dtype", None), "hasobject", False)
    kinds = set(map(type, values)) if listed else set()
    if not wide and not any(issubclass(kind, list | tuple | np.ndarray) for kind in kinds):
        array = plain_array(values, name)
        empty = (
            [i for i, v in enumerate(array) if isinstance(v, str | bytes) and not v] if array.dtype == object else []
        )
        if empty:
            array = array.copy()
            array[empty] = None
        return array
    column = as_subject_column(values, name)
    if isinstance(column, np.ndarray) or tuple not in set(map(type, column)):
        return plain_array(column, name)
    array = np.empty(len(column), dtype=object)
    for i, owners in enumerate(column):  # NumPy would make two dimensions of tuples of one length
        array[i] = owners
    return array


def checked_column(values: Any, role: str, where: str, first: int = 0) -> npt.NDArray[Any]:
    """The values of a label, id, subject or weight, one per row, as an array that a model can hold.

    ``first`` is how many rows of the file come before these.
    """
    array = subject_array(values, where) if role == "subject" else plain_array(values, where)
    if array.dtype == object and tuple in set(map(type, array)):
        return array  # checked when it was made
    if role == "weight":
        return _check_weights(array, where, first)
    if role == "label":
        return _check_labels(array, where, first)
    return check_keys(array, where, optional=role == "subject", first=first)


def _none_missing(missing: Any, what: str, where: str, first: int, advice: str) -> None:
    """Refuse a column with missing entries: how many, and where the first is, counted from one."""
    at = np.flatnonzero(missing)
    if len(at):
        row = f"the first in row {first + int(at[0]) + 1:,}"
        raise InputError(f"{where}: {len(at)} of {len(missing)}{what} are missing, {row}: {advice}.")


def _check_labels(y: npt.NDArray[Any], where: str, first: int) -> npt.NDArray[Any]:
    """Labels, none missing, all of one type that a model can hold."""
    missing: Any = [v is None for v in y] if y.dtype == object else ~np.isfinite(y) if y.dtype.kind == "f" else ()
    _none_missing(missing, " labels", where, first, "leave those rows out, or label them")
    kinds = {type(v) for v in y} if y.dtype == object else set()
    too_large = y.dtype.kind == "u" and len(y) > 0 and int(y.max()) >= 2**63
    if y.dtype.kind not in "biufO" or not kinds <= {str} or too_large:
        found = ", ".join(sorted(t.__name__ for t in kinds)) or str(y.dtype)
        raise InputTypeError(f"{where}: labels must be all 64-bit integers, strings, booleans or floats; got {found}.")
    return y


def _check_weights(weights: npt.NDArray[Any], where: str, first: int) -> npt.NDArray[Any]:
    """Numbers, none missing; whether they are weights is for the model to say."""
    missing = [v is None or v != v for v in weights.tolist()]
    _none_missing(missing, " weights", where, first, "fill them in, or leave those out")
    if weights.dtype == object and all(type(v) in (int, float) for v in weights):
        weights = weights.astype(np.float64)
    if weights.dtype.kind not in "iuf":
        raise InputTypeError(f"{where}: weights of rows must be numbers; got {weights.dtype}.")
    return weights


def check_keys(keys: npt.NDArray[Any], where: str, *, optional: bool, first: int = 0) -> npt.NDArray[Any]:
    """Ids or subjects: integers, strings or bytes; with ``optional``, None where there is none."""
    if keys.dtype == object:
        missing = sum(v is None for v in keys)
        kinds = {type(v) for v in keys if v is not None}
    else:
        missing, kinds = 0, {int if keys.dtype.kind in "iu" else type(np.zeros(1, keys.dtype).tolist()[0])}
    if missing and not optional:
        _none_missing([v is None for v in keys], "", where, first, "every row needs one")
    if len(kinds) > 1 or not kinds <= {int, str, bytes}:
        found = ", ".join(sorted(t.__name__ for t in kinds))
        raise InputTypeError(
            f"{where}: must be all integers, all strings or all bytes; got {found}: convert them first."
        )
    if kinds == {int}:
        known = [v for v in keys if v is not None] if missing else keys
        if not (int(np.min(known)) >= -(2**63) and int(np.max(known)) < 2**63):
            raise InputError(f"{where}: integers must fit 64 bits, signed: store larger ones as strings.")
        return keys if missing else keys.astype(np.int64)
    return keys


def number_columns(values: npt.NDArray[Any], where: str) -> npt.NDArray[Any]:
    """Several targets for each row, shape (n, n_targets): finite numbers.

    Raises
    ------
    InputError, InputTypeError
    """
    if values.dtype.kind not in "biuf":
        raise InputTypeError(f"{where}: several targets must be numbers; got {values.dtype}.")
    unfit = int(np.count_nonzero(~np.isfinite(values)))
    if unfit:
        raise InputError(f"{where}: {unfit} of {values.size} targets are missing or not finite: leave those rows out.")
    return values


def as_rows(X: Any, where: str, shown: Sequence[str] | None = None, first: int = 0) -> Any:
    """Rows as float32 where that holds every number they can have, as float64 otherwise; sparse ones as a csr_array.

    ``first`` is how many rows of the file come before these.

    Raises
    ------
    InputError, InputTypeError
        When there are none, when they are no numbers, or some are missing or not finite.
    """
    check_shape(X.shape, X.dtype, where)
    if sp.issparse(X):
        if hasattr(X, "check_format"):  # before anything is computed with them: indices may lie outside
            X.check_format(full_check=True)
        X = summed(sp.csr_array(X, dtype=row_dtype([X.dtype])))
        odd = np.flatnonzero(~np.isfinite(X.data))
        bad = np.bincount(X.indices[odd], minlength=X.shape[1])
        row = int(np.searchsorted(X.indptr, odd[0], side="right")) - 1 if len(odd) else 0
    else:
        X = np.ascontiguousarray(X, dtype=row_dtype([X.dtype]))
        finite = np.isfinite(X)
        bad = X.shape[0] - finite.sum(axis=0)
        row = int(finite.all(axis=1).argmin()) if bad.any() else 0
    unfit = np.flatnonzero(bad)
    if len(unfit):
        counts = [f"{bad[j]} entries of {shown[j] if shown else f'column {j}'}" for j in unfit[:10].tolist()]
        more = f" and some of {len(unfit) - 10} other columns" if len(unfit) > 10 else ""
        raise InputError(
            f"{where}: {', '.join(counts)}{more} are missing or not finite, the first in row {first + row + 1:,}: "
            "fill them in with a fixed public number, or leave those rows out."
        )
    return X


def check_shape(shape: Sequence[int], dtype: np.dtype[Any], where: str) -> None:
    """Refuse what are no rows of numbers."""
    if len(shape) != 2:
        raise InputError(f"{where}: X must have two dimensions, rows and features; got {len(shape)}.")
    if dtype.kind not in "biuf":
        raise InputTypeError(f"{where}: X must hold real numbers or booleans; got {dtype}.")
    if 0 in shape:
        raise InputError(f"{where}: there are {shape[0]} rows of {shape[1]} features: at least one of each is needed.")


def row_dtype(dtypes: Sequence[np.dtype[Any]]) -> type[np.floating[Any]]:
    """The smaller of float32 and float64 that holds all numbers of these types, or float64."""
    small = all(t.itemsize <= (4 if t.kind == "f" else 2) for t in dtypes)
    return np.float32 if small else np.float64
