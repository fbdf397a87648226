"""The inverse of the encoding, as far as a stored row allows: what it says of each cell of the table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from erasable.core.arrays import Float64s
from erasable.schemas._assembly import Parts
from erasable.schemas._base import Column
from erasable.schemas._cells import Cells
from erasable.schemas._others import Cross
from erasable.schemas._told import Bounds, Told, scales_of
from erasable.schemas.schema import Schema

_TINY = 2.0**-1000
_SLACK = 2.0**-30  # for the rounding of float64; encoded numbers are multiples of 2**-20


def decode_row(schema: Schema, low: Float64s, high: Float64s, scale: tuple[float, float]) -> dict[str, Told]:
    """What a row says of each cell that it was encoded from, and of each cross.

    Parameters
    ----------
    schema : Schema
    low, high : arrays of shape (n_features_out,)
        Between these lies the encoded row, divided by a number that is not known.
    scale : pair of float
        Between these, which may be 0 and infinity, lies that number. What the schema says of the length of features
        narrows it down: a place of a category is one, wherever it is not zero.

    Returns
    -------
    dict of Told
        By the names of columns and crosses, in the order of the schema.

    Notes
    -----
    *Law*: what is told of a cell contains the cell: whatever it held, it lies within the bounds that are given, or is
    among those that are listed.

    *Cost*: O(n_features_out) time and memory.

    Examples
    --------
    >>> from erasable.schemas import Category, Number, Schema, decode_row
    >>> schema = Schema([Number(name="age", range=[0, 100]), Category(name="town", values=["Bern", "Oslo"])])
    >>> row = schema.encode({"age": [39], "town": ["Oslo"]})[0][0]
    >>> stored = (row / 2).round(2)
    >>> for name, told in decode_row(schema, stored - 0.005, stored + 0.005, (0.0, 10.0)).items():
    ...     print(f"{name}: {told.text}")
    age: 39.0 ± 0.7
    town: Oslo
    """
    stored = Bounds(low, high)
    least, most = scale[0], min(scale[1], schema.bound / max(stored.lengths()[0], _TINY))
    parts = list(_parts(schema, stored))
    for column, mine in parts:
        for smallest, largest in _scales(column, mine):
            least, most = max(least, smallest), min(most, largest)
    told = {}
    for column, mine in parts:
        row = mine.scaled(least, max(least, most))
        row = Bounds(np.maximum(row.low, -1.0) - _SLACK, np.minimum(row.high, 1.0) + _SLACK)
        if isinstance(column, Cross):
            told["×".join(column.columns)] = column.told(row, schema.by_name)
        else:
            told[column.name] = _told(column, row)
    return told


def _parts(schema: Schema, stored: Bounds) -> Iterator[tuple[Column | Cross, Bounds]]:
    """Columns and crosses with the bounds of their features."""
    first = 0
    all_parts: list[Column | Cross] = [*schema.features, *schema.crosses]
    for part, width in zip(all_parts, schema.widths, strict=True):
        yield part, stored[first : first + width]
        first += width


def _scales(part: Column | Cross, stored: Bounds) -> Iterator[tuple[float, float]]:
    """What features of known size say of the number that the row was divided by."""
    if isinstance(part, Cross):
        yield scales_of(stored, 1.0)
        return
    if part.indicator:
        yield scales_of(stored[-1:], 1.0)
        stored = stored[:-1]
    yield from part.scales(stored)


def _told(column: Column, row: Bounds) -> Told:
    """What the features of a column say of its cell."""
    own = row[:-1] if column.indicator else row
    if column.indicator:
        may_be_missing, may_be_there = (bool(row[-1:].may_be(v)[0]) for v in (1.0, 0.0))
    else:
        may_be_missing, may_be_there = bool(own.may_be(_features_of_nothing(column, len(own.low))).all()), True
    told = column.told(own) if may_be_there else None
    if told is None:
        return Told(column.ABSENT, missing=True)
    return replace(told, text=f"{told.text}; or {column.ABSENT}", missing=None) if may_be_missing else told


def _features_of_nothing(column: Column, width: int) -> Float64s:
    """The features of a missing cell, without the indicator."""
    cells, parts = Cells(column.HOLDS[0], [None]), Parts(1)
    parts.add(column.block(cells, ()), cells, width)
    features: Float64s = parts.stacked().toarray()[0].astype(np.float64)
    return features
