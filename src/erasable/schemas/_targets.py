"""The targets of a table as numbers, read as columns of numbers are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from erasable.core.arrays import Float64s
from erasable.errors import InputTypeError
from erasable.schemas._cells import NUMBER, TEXT, check_alone, missing_texts, numbers_of
from erasable.schemas._containers import Columns
from erasable.schemas.schema import Schema


def read_targets(schema: Schema, table: Any, names: Sequence[str]) -> tuple[Float64s, dict[str, int]]:
    """Numbers to be predicted, of shape (n_rows, n_targets), and for each column how many lie beyond its range.

    A cell that is missing, is no number or is infinite comes as NaN.

    Parameters
    ----------
    schema : Schema
        Says what a missing cell is, and the ranges where it declares any.
    table : Arrow table, pandas or polars dataframe, or dict of columns
    names : sequence of str
        The columns.

    Raises
    ------
    InputTypeError
        When a column holds something else than numbers or text.
    """
    columns = Columns(table, schema.version)
    missing = missing_texts(schema.missing, schema.version)
    y, beyond = np.empty((columns.n_rows, len(names))), dict[str, int]()
    for j, name in enumerate(names):
        cells = columns[name]
        if not cells.kinds <= {TEXT, NUMBER}:
            raise InputTypeError(f"column {name!r} holds {cells.kind}, and a target must hold numbers.")
        check_alone(cells, missing, f"column {name!r}", ())
        values, _ = numbers_of(cells, missing, schema.version)
        y[:, j] = values if cells.inverse is None else values[cells.inverse]
        ends = getattr(schema.by_name.get(name), "range", None)
        beyond[name] = 0 if ends is None else int(np.count_nonzero((y[:, j] < ends[0]) | (y[:, j] > ends[1])))
    return np.where(np.isfinite(y), y, np.nan), beyond
