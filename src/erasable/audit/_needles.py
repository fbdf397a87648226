"""What rows look like as bytes: every encoding in which a row may have been left behind."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from erasable.core.grid import Grid, read_scaling, to_grid
from erasable.core.kernels import Points
from erasable.core.layout import dense_bytes, position_type, sparse_bytes
from erasable.errors import ConfigurationError, InputError

Bytes = npt.NDArray[np.uint8]
Form = Grid | Points

_AT_ONCE = 1 << 21  # numbers in the rows of a batch
FEWEST_BYTES = 8  # of a row, and of those that are not zero: fewer are found everywhere by chance


class RowType(NamedTuple):
    """Type and number of the entries of a stored row; the constant of an intercept may be left out."""

    dtype: str
    columns: int
    features_alone: bool = False


@dataclass(frozen=True, eq=False, repr=False)
class Encoding:
    """Rows of the table in one encoding.

    Attributes
    ----------
    what : str
        ``"float32 row"``, ``"float64 row"`` or ``"grid row"``.
    rows : array of shape (k, columns), little endian
    numbers : array of shape (k,)
        The table's numbers of these rows: an encoding may not be able to hold all of them.
    sparse : bool
        Whether ``rows`` are the values, or the columns, of what is not zero: as many in each row.
    """

    what: str
    rows: npt.NDArray[Any]
    numbers: npt.NDArray[np.intp]
    sparse: bool = False

    @property
    def kind(self) -> RowType:
        """Type and number of the entries: what a stored array must have to be compared with it."""
        return RowType(self.rows.dtype.str, int(self.rows.shape[1]))

    def as_stored(self, kind: RowType) -> Bytes | None:
        """The bytes of the rows as they stand in a stored array of this type; None where that holds no such rows."""
        if self.sparse or self.kind.dtype != kind.dtype:
            return None
        if not kind.features_alone:
            return self.raw if self.kind.columns == kind.columns else None
        if self.what != "grid row" or self.kind.columns - kind.columns not in (0, 1):
            return None
        return np.ascontiguousarray(self.rows[:, : kind.columns]).view(np.uint8)

    @property
    def raw(self) -> Bytes:
        """The bytes, shape (k, bytes of a row)."""
        return self.rows.view(np.uint8).reshape(len(self.rows), -1)


def batches(X: npt.NDArray[Any]) -> list[npt.NDArray[np.intp]]:
    """Numbers of rows to be looked for in one go, so that memory is bounded; of equal rows, the first."""
    first: dict[bytes, int] = {}
    for i, row in enumerate(X):
        first.setdefault(row.tobytes(), i)
    numbers, step = np.array(list(first.values())), max(1, _AT_ONCE // X.shape[1])
    return [numbers[i : i + step] for i in range(0, len(numbers), step)]


def encodings(X: npt.NDArray[Any], forms: Iterable[Form], numbers: npt.NDArray[np.intp]) -> list[Encoding]:
    """Some rows as float32, as float64, and on every grid that is given and the default ones; no encoding twice."""
    d = X.shape[1]
    X = X[numbers]
    with np.errstate(over="ignore"):
        single = X.astype("<f4")
    held = np.flatnonzero(np.isfinite(single).all(axis=1))
    found = [
        Encoding("float32 row", single[held], held),
        Encoding("float64 row", X.astype("<f8"), np.arange(len(X))),
        Encoding("float64 row", single[held].astype("<f8"), held),
    ]
    grids = {form: None for form in (*default_forms(d), *forms) if form.n_features == d}
    for form in grids:
        whole = _on_grid(X, form)
        if len(whole.rows):
            found += [whole, *(_entries(whole, form) if isinstance(form, Grid) else ())]
    kept: list[Encoding] = []
    for new in found:
        if not any(old.kind == new.kind and old.rows.tobytes() == new.rows.tobytes() for old in kept):
            kept.append(new)
    return [replace(e, numbers=numbers[e.numbers]) for e in kept]


def default_forms(n_features: int) -> list[Form]:
    """What a classifier does with rows unless it is told otherwise, with and without intercept."""
    made: list[Form] = []
    for intercept in (True, False):
        try:
            made.append(Grid(n_features, intercept=intercept))
        except ConfigurationError:  # too many features for that grid: no model can have it
            continue
    return made


def _on_grid(X: npt.NDArray[Any], form: Form) -> Encoding:
    """The rows that the form can hold, as it holds them."""
    numbers = np.arange(len(X))
    if isinstance(form, Points):
        return _points(X, form)
    if not form.normalises:
        with np.errstate(over="ignore", invalid="ignore"):
            Z = X.astype(np.float64) / (form.scaling if isinstance(form.scaling, float) else 1.0)
            longest = 1.0 + math.ldexp(1.001, -form.bits)
            numbers = np.flatnonzero(np.einsum("ij,ij->i", Z, Z) <= longest**2)
    try:
        rows = to_grid(X[numbers], form)
    except InputError:  # some row overflows: no model can have held it
        return _one_by_one(X, numbers, form)
    return Encoding("grid row", rows.astype(rows.dtype.newbyteorder("<")), numbers)


def _entries(whole: Encoding, grid: Grid) -> Iterator[Encoding]:
    """Rows that take fewer bytes where a model holds only what is not zero of them: rows of one length together.

    The values of such a row stand in one place and their columns in another. Where all values are the same, as those of
    yes-or-no features are, the columns tell the row.
    """
    features, narrow = whole.rows[:, : grid.n_features], position_type(grid).newbyteorder("<")
    lengths = np.count_nonzero(features, axis=1)
    for m in np.unique(lengths).tolist():
        if not m or sparse_bytes(1, m, grid) >= dense_bytes(1, grid):
            continue
        numbers, mine = whole.numbers[lengths == m], features[lengths == m]
        values, columns = mine[mine != 0].reshape(-1, m), np.nonzero(mine)[1].reshape(-1, m).astype(narrow)
        one_value = (values == values[:, :1]).all(axis=1)
        for rows, which in ((values, ~one_value), (columns, one_value)):
            if which.any():
                yield Encoding("grid row", rows[which], numbers[which], sparse=True)


def _points(X: npt.NDArray[Any], form: Points) -> Encoding:
    try:
        return Encoding("grid row", form.of_rows(X).astype("<i4"), np.arange(len(X)))
    except InputError:
        return _one_by_one(X, np.arange(len(X)), form)


def _one_by_one(X: npt.NDArray[Any], numbers: npt.NDArray[np.intp], form: Form) -> Encoding:
    rows, kept = [], []
    for i in numbers.tolist():
        try:
            rows.append(form.of_rows(X[i : i + 1]) if isinstance(form, Points) else to_grid(X[i : i + 1], form))
        except InputError:
            continue
        kept.append(i)
    stacked = np.concatenate(rows) if rows else np.empty((0, form.n_features), np.int32)
    return Encoding("grid row", stacked.astype(stacked.dtype.newbyteorder("<")), np.array(kept, dtype=np.intp))


def telling(encoding: Encoding) -> npt.NDArray[np.bool_]:
    """Which rows can be told from filling: long enough, not nearly all zero bytes, not one entry over and over."""
    raw, rows = encoding.raw, encoding.rows
    return np.asarray((np.count_nonzero(raw, axis=1) >= FEWEST_BYTES) & (rows != rows[:, :1]).any(axis=1))


def form_of(meta: dict[str, Any], feature_map: str | None = None) -> Form | None:
    """How a model makes integers of rows, as its metadata says; None where it does not, or in no way known here.

    Also None where the integers are those of rows that went through another feature map.
    """
    if meta.get("feature_map") != feature_map:
        return None
    try:
        match meta.get("format"):
            case "erasable-kernel":
                return Points(int(meta["n_features"]), int(meta["bits"]), read_scaling(meta["scaling"]))
            case "erasable-general":
                of = meta["sampler"]["function_class"]
                bits = int(of["grid_bits"])
                if of["class"] == "kernel-ball":
                    return Points(int(meta["n_features"]), bits, read_scaling(of["scaling"]))
                return Grid(int(meta["n_features"]), bits, bool(of["fit_intercept"]), read_scaling(of["scaling"]))
        return Grid(int(meta["n_features"]), int(meta["bits"]), bool(meta["intercept"]), read_scaling(meta["scaling"]))
    except (ConfigurationError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
        return None
