"""What is stored of a person: the core rows that a request names, converted back to original values where possible.

A row on a grid is no longer the row that came: it was scaled by public numbers and rounded. Which of that can be undone
is said with the values. :func:`named_values` is the one place where a stored row becomes values with names, and
:func:`decode_cells` the one where it becomes cells of a raw table.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float64s, Matrix
from erasable.core.grid import Grid, read_scaling
from erasable.core.layout import read_rows
from erasable.core.names import Key, Label, Owners, each_owner, owners_of
from erasable.core.target_grid import off_grid
from erasable.errors import InputError
from erasable.features import INDICATOR, LogFeatures
from erasable.models.configuration import described_log, schema_in, spelling_in
from erasable.models.inputs import ONE, Names, as_keys, as_requested, same_kind, spelt_keys
from erasable.models.selections.leverage import read_grid
from erasable.models.state import State
from erasable.schemas import DecodedCell, Schema, decode_raw, decode_row
from erasable.schemas.decode import with_margin

_EXACT = "each value is that of the row"
_CELLS = (
    "each cell of the table is shown as far as the encoded and rounded row determines it: its value is within the "
    "bounds, or among those listed"
)
_AS_READ = (
    "each value is that of the row as the schema read it: numbers, codes of categories, parts of dates; of texts the "
    "places that words were hashed into"
)
_LOG_CELLS = (
    "each cell is shown as far as the stored row determines it, within bounds: the row went through the log map, was "
    "divided by a number and rounded; the values are the numbers that this made of it"
)
_DIRECTION = "only the direction of a row is stored, all its values divided by one number that is not stored"


_HALF_STEP = 0.5 + 2.0**-20  # by which numbers on the grid were rounded, and float64 before


@dataclass(frozen=True, repr=False)
class StoredRow:
    """A core row of a person."""

    id: Key
    label: Label | tuple[float, ...]  # the label, or the targets of a regression
    weight: float  # how much the row counts; 1 unless it was learnt with another weight
    other_subjects: int  # how many subjects it has in addition to those in the request
    # By the names of the features where the model has them, otherwise by their numbers from 0; of rows that are stored
    # sparse, those that are not zero.
    values: dict[str, float]
    # For a model with a schema or the log map, what these values say of each column of the raw table.
    cells: dict[str, DecodedCell] | None = None
    # The values for people: of all numbers that round to the stored one, that with the fewest digits. So a cell that
    # held 0.3 is shown as 0.3.
    shown: dict[str, str] = field(default_factory=dict)
    shown_label: str = ""  # the label likewise

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON; bytes in hexadecimal."""
        plain = {name: value for name, value in vars(self).items() if name not in ("cells", "shown", "shown_label")}
        plain["id"] = self.id.hex() if isinstance(self.id, bytes) else self.id
        cells = self.cells or {}
        return {**plain, **({"cells": {name: cell.as_json() for name, cell in cells.items()}} if cells else {})}

    def __repr__(self) -> str:
        return f"<StoredRow of {len(self.values)} values>"


@dataclass(frozen=True, repr=False)
class StoredRows:
    """All rows that are stored of the people in a request."""

    # requested, not_stored: ids and subjects that were named, and how many of them no stored row has.
    requested: int
    not_stored: int
    rows: list[StoredRow]  # in learning order; empty where nothing is stored
    values_are: str  # what the values say of the row that came
    has_subjects: bool  # whether any stored row has a subject: if none has, nobody can be found by subject

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        counts = {"requested": self.requested, "not_stored": self.not_stored}
        return {**counts, "values_are": self.values_are, "rows": [row.as_json() for row in self.rows]}

    def __repr__(self) -> str:
        return f"<StoredRows: {len(self.rows)} rows>"


def rows_of(state: State, ids: Names = None, subjects: Names = None) -> StoredRows:
    """What a state holds of the rows with these ids, and of these subjects; see :func:`stored_rows`."""
    tensors = {name: np.asarray(array) for name, (_, array) in state.row_tensors().items()}
    return stored_rows(state.header(), (state.ids, state.subjects, state.labels), tensors, ids, subjects)


def stored_rows(
    meta: Mapping[str, Any],
    names: tuple[Sequence[Key], Sequence[Owners], Sequence[Label]],
    tensors: dict[str, npt.NDArray[Any]],
    ids: Names = None,
    subjects: Names = None,
) -> StoredRows:
    """What a file holds of the rows with these ids, and of these subjects.

    Raises InputError or InputTypeError when nobody is named, or names are of another type than the model's.

    Parameters
    ----------
    meta, tensors
        Its metadata, and the tensors of its rows. Nothing else is needed, whatever code the model needs.
    names : (ids, subjects, labels) of all rows
    ids, subjects : array-like, optional
        Who is asked for. Unknown ones are no error.
    """
    if ids is None and subjects is None:
        raise InputError("name whose rows, or which, with subjects= or ids=.")
    of_ids, of_rows, labels = names
    owners = set(each_owner(of_rows))
    spelling = spelling_in(meta)
    asked = set() if ids is None else set(spelt_keys(as_keys(ids, "ids"), spelling.get("id", ())))
    people = set() if subjects is None else set(spelt_keys(as_requested(subjects, owners), spelling.get("subject", ())))
    same_kind(list(asked), type(of_ids[0]) if of_ids else None, "ids")
    same_kind(list(people), type(next(iter(owners))) if owners else None, "subjects")
    index = [i for i, key in enumerate(of_ids) if key in asked or not people.isdisjoint(owners_of(of_rows[i]))]
    rows, weights = _rows_in(meta, tensors)[index], tensors.get("row_weights")
    found = [
        StoredRow(
            of_ids[i],
            _label_value(meta, labels[i]),
            1.0 if weights is None else float(weights[i]) / ONE,
            len(set(owners_of(of_rows[i])) - people),
            named_values(meta, rows[[k]]),
            _cells(meta, rows[[k]]),
            _shown_values(meta, rows[[k]]),
            _label_text(meta, labels[i]),
        )
        for k, i in enumerate(index)
    ]
    absent = len(asked.difference(of_ids)) + len(people - owners)
    return StoredRows(len(asked) + len(people), absent, found, _what_values_are(meta), bool(owners))


def _cells(meta: Mapping[str, Any], row: Matrix) -> dict[str, DecodedCell] | None:
    """What one stored row says of the cells of the raw table; None where its values are all that can be shown."""
    schema = schema_in(meta.get("feature_map"))
    if schema is not None:
        return decode_raw(schema, row) if "raw_columns" in meta else decode_cells(schema, read_grid(dict(meta)), row)
    if not _undoes_log(meta):
        return None
    log = described_log(meta["feature_map"])
    assert log is not None
    return decode_log(log, meta.get("feature_names"), read_grid(dict(meta)), row)


def _undoes_log(meta: Mapping[str, Any]) -> bool:
    """Whether stored rows went through the log map, and how long they were before they were divided is known."""
    text = meta.get("feature_map")
    log = None if text is None else described_log(text)
    if log is None or "raw_columns" in meta:
        return False
    return bool(log.constant) or not read_grid(dict(meta)).normalises


def _label_value(meta: Mapping[str, Any], label: Any) -> Any:
    """A label as it is; targets as the numbers that they stand for."""
    if "target_ranges" not in meta:
        return label
    grid = read_grid(dict(meta))
    return tuple(off_grid(t, ends, grid) for t, ends in zip(label, _ranges(meta), strict=True))


def _ranges(meta: Mapping[str, Any]) -> list[tuple[float, float]]:
    return [(float.fromhex(low), float.fromhex(high)) for low, high in meta["target_ranges"]]


def _label_text(meta: Mapping[str, Any], label: Any) -> str:
    """A label, or targets with as few digits as they are stored with, for people."""
    value = _label_value(meta, label)
    if value is label:
        return str(label)
    halves = [(high - low) / 4 / read_grid(dict(meta)).radius for low, high in _ranges(meta)]
    return ", ".join(map(fewest_digits, value, halves))


def _rows_in(meta: Mapping[str, Any], tensors: dict[str, npt.NDArray[Any]]) -> Matrix:
    """The stored rows, dense or sparse, as the numbers that they are stored as; those of 64 bits are floats."""
    if _on_grid(meta):
        return read_rows(tensors, read_grid(dict(meta)))
    if "rows.data" in tensors:
        parts = tensors["rows.data"].view(np.float64), tensors["rows.indices"], tensors["rows.ends"]
        return sp.csr_array(parts, shape=(len(parts[2]) - 1, meta["n_features"]))
    return tensors["rows"].view(np.float64) if tensors["rows"].dtype == np.int64 else tensors["rows"]


def _on_grid(meta: Mapping[str, Any]) -> bool:
    """Whether rows are stored on a grid, with a constant at their end if there is an intercept."""
    return "intercept" in meta and "raw_columns" not in meta


def named_values(meta: Mapping[str, Any], row: Matrix) -> dict[str, float]:
    """One stored row, of shape (1, columns), as values of the columns that it was learnt from, by their names.

    Parameters
    ----------
    meta : mapping
        The metadata of the file: they say what a stored number stands for.
    row : array or CSR
    """
    places, stored = _places(meta, row)
    return dict(zip(_names_at(meta, places), _undone(meta, places, stored).tolist(), strict=True))


def _shown_values(meta: Mapping[str, Any], row: Matrix) -> dict[str, str]:
    """The values of :func:`named_values` for people: half a step of the grid is as far as they are known."""
    places, stored = _places(meta, row)
    halves = _undone(meta, places, np.full(len(places), 0.5)).tolist() if _is_rounded(meta) else [0.0] * len(places)
    texts = map(fewest_digits, _undone(meta, places, stored).tolist(), halves)
    return dict(zip(_names_at(meta, places), texts, strict=True))


def fewest_digits(value: float, within: float) -> str:
    """The decimal number with the fewest digits that is at most ``within`` away from a value.

    Examples
    --------
    >>> from erasable.models.access import fewest_digits
    >>> fewest_digits(0.29998779296875, 1.6e-05), fewest_digits(1 / 3, 0.0)
    ('0.3', '0.3333333333333333')
    """
    rounded = (float(f"{value:.{digits}g}") for digits in range(1, 17))
    text = repr(next((number for number in rounded if abs(number - value) <= within), value))
    return text.removesuffix(".0")


def _places(meta: Mapping[str, Any], row: Matrix) -> tuple[list[int], Float64s]:
    """The columns and the stored numbers of a row, without the constant of an intercept."""
    if sp.issparse(row):
        return row.indices.tolist(), np.asarray(row.data, dtype=np.float64)
    if "raw_columns" in meta:
        known = np.flatnonzero(~np.isnan(row[0]))
        return known.tolist(), row[0][known]
    stored = row[0][: int(meta["n_features"])] if _on_grid(meta) else row[0]
    return list(range(len(stored))), np.asarray(stored, dtype=np.float64)


def _names_at(meta: Mapping[str, Any], places: list[int]) -> list[str]:
    schema = schema_in(meta.get("feature_map")) if "raw_columns" in meta else None
    if "raw_columns" in meta and schema is None:
        fixed = meta.get("feature_names")
        return [str(j) if fixed is None else fixed[j] for j in places]
    names = schema.raw_names if schema is not None else mapped_names(meta.get("feature_map"), meta.get("feature_names"))
    return [str(j) if names is None else names[j] for j in places]


def decode_cells(schema: Schema, grid: Grid, row: Matrix) -> dict[str, DecodedCell]:
    """What one stored row says of the cells of the raw table that it was encoded from.

    Parameters
    ----------
    schema : Schema
    grid : Grid
    row : array or CSR of shape (1, columns)

    Notes
    -----
    *Law*: what is decoded contains the original cell. Whole numbers on the grid are half a step away at most; the
    number that all features were divided by is known, or follows from the features if rows are divided by their norms.
    """
    stored = np.asarray(row.toarray()[0] if sp.issparse(row) else row[0][: grid.n_features], dtype=np.float64)
    scales = np.asarray(grid.scaling if isinstance(grid.scaling, tuple) else 1.0)
    low, high = (stored - 0.5) * scales, (stored + 0.5) * scales
    return decode_row(schema, low, high, (0.0, math.inf) if grid.normalises else _divisors(stored, grid))


def decode_log(log: LogFeatures, names: Sequence[str] | None, grid: Grid, row: Matrix) -> dict[str, DecodedCell]:
    """What one stored row says of the cells that went through the log map.

    Of a row that is stored sparse, the columns of zeros are left out, unless they have a centre.

    Parameters
    ----------
    log : LogFeatures
    names : sequence of str, optional
        The names of the columns; their numbers from 0 without.
    grid : Grid
    row : array or CSR of shape (1, columns)

    Notes
    -----
    *Law*: what is decoded contains the original cell. The number that the row was divided by follows from the constant
    of the map, which is known.
    """
    d, sparse = log.n_features, sp.issparse(row)
    stored = np.asarray(row.toarray()[0] if sparse else row[0], dtype=np.float64)[: grid.n_features]
    scales = np.asarray(grid.scaling if isinstance(grid.scaling, tuple) else 1.0)
    low, high = (stored - _HALF_STEP) * scales, (stored + _HALF_STEP) * scales
    least, most = (0.0, math.inf) if grid.normalises else _divisors(stored, grid)
    if log.constant:
        least = max(least, log.constant / high[-1])
        most = min(most, log.constant / low[-1]) if low[-1] > 0 else most
    lows, highs = log.undo(_times(low[:d], least, most), _times(high[:d], most, least))
    maybe, surely = np.zeros(d, dtype=bool), np.zeros(d, dtype=bool)
    if log.missing == INDICATOR:
        surely = stored[d : 2 * d] > 0
        maybe = surely | (high[d : 2 * d] * most >= 1.0)
    elif log.missing is not None:
        maybe = (low[:d] <= 0) & (high[:d] >= 0)
    shown = (stored[:d] != 0) | surely | (not sparse or bool(any(log.centres or ())))
    return {
        str(j) if names is None else names[j]: _decoded_number(lows[j], highs[j], bool(maybe[j]), bool(surely[j]))
        for j in np.flatnonzero(shown).tolist()
    }


def _times(ends: Float64s, below: float, above: float) -> Float64s:
    """Numbers times the factor that moves them outwards: one for those from zero on, and one for those below."""
    with np.errstate(invalid="ignore"):
        return np.where(ends == 0.0, 0.0, np.where(ends > 0.0, below * ends, above * ends))


def _decoded_number(low: float, high: float, maybe_missing: bool, missing: bool) -> DecodedCell:
    """A number between two bounds, or a missing cell."""
    if missing:
        return DecodedCell("missing", missing=True)
    ends = [float(end) if math.isfinite(end) else None for end in (low, high)]
    if None not in ends:
        text = with_margin(float(low), float(high))
    elif ends == [None, None]:
        text = "any number"
    else:
        text = f"at or above {low:.3g}" if ends[1] is None else f"at or below {high:.3g}"
    text = f"{text}; or missing" if maybe_missing else text
    return DecodedCell(text, None if maybe_missing else False, {"low": ends[0], "high": ends[1]})


def _divisors(stored: Float64s, grid: Grid) -> tuple[float, float]:
    """Between which numbers the length of a step lies; rows on the edge of the ball may have been shrunk a little."""
    scale, slack = (grid.scaling if isinstance(grid.scaling, float) else 1.0), 0.5 * math.sqrt(grid.n_features) + 1.0
    shrunk = float(np.linalg.norm(stored)) >= (grid.ball - slack) * grid.reach / grid.unit - slack
    return scale / grid.unit, scale / (grid.reach if shrunk else grid.unit)


def mapped_names(feature_map: str | None, names: Sequence[str] | None) -> list[str] | None:
    """The names of the columns that weights and stored rows have; None where they have none.

    Parameters
    ----------
    feature_map : str or None
        The description of the map of rows: a schema names its columns, and the log map keeps those of the rows.
    names : sequence of str or None
        The names of the columns of rows, where the caller fixed them.
    """
    log = None if feature_map is None else described_log(feature_map)
    if log is not None:
        return log.names_out([str(j) for j in range(log.n_features)] if names is None else list(names))
    return _encoded_names(feature_map) or (None if names is None else list(names))


@lru_cache(maxsize=4)
def _encoded_names(feature_map: str | None) -> list[str] | None:
    """The names of the features that a schema makes, where the map is one."""
    schema = schema_in(feature_map)
    return None if schema is None else schema.feature_names_out()


def _is_rounded(meta: Mapping[str, Any]) -> bool:
    """Whether stored numbers were scaled and rounded."""
    return "scaling" in meta and "raw_columns" not in meta


def _undone(meta: Mapping[str, Any], places: list[int], stored: Float64s) -> Float64s:
    """Stored numbers divided by the steps of the grid and multiplied by the scales that columns were divided by."""
    if not _is_rounded(meta):  # stored as they came, or as a function class made them
        return stored
    scaling = read_scaling(meta["scaling"])
    scales = np.asarray(scaling)[places] if isinstance(scaling, tuple) else scaling if isinstance(scaling, float) else 1
    return stored / _steps(meta) * scales


def _steps(meta: Mapping[str, Any]) -> int:
    """How many steps of the grid a number one has, once it is scaled."""
    if not _on_grid(meta):
        return int(2 ** meta["bits"])
    grid = read_grid(dict(meta))
    return grid.reach if grid.normalises else grid.unit


def _what_values_are(meta: Mapping[str, Any]) -> str:
    if meta["format"] == "erasable-general":
        return "the numbers that the function class of the model makes of a row"
    if "raw_columns" in meta and schema_in(meta.get("feature_map")) is not None:
        return _AS_READ
    if not _is_rounded(meta):
        return _EXACT
    scaling = read_scaling(meta["scaling"])
    by_row = _on_grid(meta) and read_grid(dict(meta)).normalises
    times = "" if scaling in (None, "row") else " times the scale of its column"
    if schema_in(meta.get("feature_map")) is not None:
        return _CELLS
    if _undoes_log(meta):
        return _LOG_CELLS
    mapped = "; the values are those that a feature map has made of the row" if meta.get("feature_map") else ""
    return f"{_DIRECTION if by_row else _EXACT}, to within {0.5 / _steps(meta):.2g}{times}{mapped}"
