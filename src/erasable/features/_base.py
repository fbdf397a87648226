"""What every feature map is: a frozen record that can be called, described, compared and pickled."""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Array, Float64s, summed
from erasable.core.layout import read_json
from erasable.errors import ConfigurationError, InputError
from erasable.validation import odd_cells

NUMBERS, TEXTS, TABLES = "numbers", "texts", "tables"
#: Raw rows in any container: numbers, texts, or a table.
Raw = Any
MOST_FEATURES = 2**24
_BLOCK = 2**17  # numbers handled at once, so that temporaries stay in the processor's cache


class FeatureMap(ABC):
    """A fixed function from raw rows to rows of ``n_features_out`` numbers; subclasses are frozen dataclasses.

    Two maps are equal when their descriptions are.

    Attributes
    ----------
    n_features_out : int
    takes : "numbers", "texts" or "tables"
        What a raw row is: numbers (an array, sparse matrix or dataframe of rows), a text (a list of them), or a row of
        a table with named columns of any kind.
    assumptions : tuple of str
        What the caller has to see to, for forgetting behind this map to be what it is without it.
    """

    n_features_out: int
    takes: str
    assumptions: ClassVar[tuple[str, ...]] = ()

    @abstractmethod
    def __call__(self, X: Raw) -> Any:
        """Mapped rows: a float array of shape (n, n_features_out), or CSR."""

    def mapped(self, X: Raw) -> Any:
        """The same rows, and where they were made: on a device they are ``core.arrays.DeviceRows``."""
        return self(X)

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Everything that the map depends on, ready for JSON: plain strings, numbers and lists."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, FeatureMap) and self.describe() == other.describe()

    def __hash__(self) -> int:
        return hash(repr(sorted(self.describe().items())))

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        fields = dataclasses.fields(self)  # type: ignore[arg-type]
        return _rebuild, (type(self), {f.name: getattr(self, f.name) for f in fields if f.init})


@dataclasses.dataclass(frozen=True, eq=False)
class AbsentMap(FeatureMap):
    """Stands for the map that a file was made with: rows can be forgotten and verified without it."""

    described: str
    n_features_out: int
    takes = NUMBERS

    def __call__(self, X: Raw) -> Any:
        """Refuse to learn or predict."""
        raise ConfigurationError(
            "this model was made with a feature map, which a file cannot hold: to predict or to learn, give it again "
            "with load(path, like=ErasableClassifier(feature_map=...))."
        )

    def describe(self) -> dict[str, Any]:
        """What the file says of the map."""
        return dict(read_json(self.described))


def _rebuild(kind: type[FeatureMap], arguments: dict[str, Any]) -> FeatureMap:
    return kind(**arguments)


def set_field(record: FeatureMap, name: str, value: Any) -> None:
    """Set a field of a frozen record while it is being made."""
    object.__setattr__(record, name, value)


def as_numbers(X: Raw, n_features: int | None = None, *, allow_nan: bool = False) -> Any:
    """Rows of finite numbers: CSR where a sparse matrix came in, otherwise a float64 array of shape (n, n_features).

    With ``allow_nan`` NaN may be among them, for a map that gives missing cells columns of their own.

    Raises InputError for anything else; no entry is quoted.
    """
    found = odd_cells(X)
    if found is not None:
        raise InputError(
            f"the rows must be real numbers; got {found[0]}: encode texts, categories and dates first, or use a map of "
            "texts."
        )
    if sp.issparse(X):
        rows = X.tocsr()
        kind, shape = rows.dtype.kind, rows.shape
    else:
        rows = _as_array(X)
        kind, shape = rows.dtype.kind, rows.shape
    if kind not in "fiub":
        raise InputError("the rows must be real numbers: encode texts and categories first, or use a map of texts.")
    if len(shape) != 2:
        raise InputError(f"rows of numbers must have shape (n_samples, n_features); got shape {tuple(shape)}.")
    if n_features is not None and shape[1] != n_features:
        raise InputError(f"this map takes rows of {n_features} features; got {shape[1]}.")
    with np.errstate(over="ignore"):  # of a longer type; found below
        rows = rows.astype(np.float64, copy=False)
    if sp.issparse(rows):
        rows = summed(rows)
    cells = rows.data if sp.issparse(rows) else rows
    if np.isinf(cells).any() if allow_nan else not np.isfinite(cells).all():
        raise InputError("the rows contain NaN or infinity: fill these entries in, or leave such rows out.")
    return rows


def _as_array(X: Raw) -> Array:
    try:
        array = np.asarray(X)
        return array.astype(np.float64) if array.dtype == object else array
    except (TypeError, ValueError, OverflowError):
        return np.empty(0, dtype=object)  # said by the caller, without the entries that the original message quotes


def dense_blocks(X: Raw, width: int) -> Iterator[tuple[slice, Float64s]]:
    """Consecutive blocks of rows as dense float64 arrays, small enough for work of ``width`` numbers a row."""
    step = max(1, _BLOCK // max(width, X.shape[1], 1))
    for low in range(0, X.shape[0], step):
        rows = slice(low, low + step)
        part = X[rows]
        yield rows, part if isinstance(part, np.ndarray) else part.toarray()
