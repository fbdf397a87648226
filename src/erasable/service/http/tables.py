"""Rows that come in over HTTP, in whichever form, as what a model predicts from."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from erasable.errors import InputError
from erasable.models.model import Model
from erasable.operations.schemas import schema_of

Table = dict[str, list[Any]]
_BLOCK = 4096  # rows predicted at a time


def columns_of(model: Model) -> list[str] | None:
    """The columns that a model finds by name; None where it takes them by their places."""
    schema = schema_of(model)
    if schema is not None:
        return [column.name for column in schema.features]
    return None if model.feature_names is None else list(model.feature_names)


def rows_of_table(model: Model, table: Mapping[str, Sequence[Any]]) -> Any:
    """A table of named columns as rows that the model predicts from.

    Raises
    ------
    InputError
        When columns are missing, of different lengths, or hold what is no number where one is needed.
    """
    names = columns_of(model) or list(table)
    if missing := [name for name in names if name not in table]:
        raise InputError(
            f"{len(missing)} of {len(names)} columns that the model needs are missing: /v2/models/{{name}} lists them."
        )
    if len({len(table[name]) for name in names}) > 1:
        raise InputError("the columns are of different lengths.")
    if schema_of(model) is not None:
        return _encoded(model, {name: list(table[name]) for name in names})
    return rows_of_numbers(model, [list(row) for row in zip(*(table[name] for name in names), strict=True)])


def rows_of_numbers(model: Model, rows: Any) -> Any:
    """Lists of numbers as rows that the model predicts from.

    Raises
    ------
    InputError
    """
    names, width = columns_of(model), model.n_features
    if schema_of(model) is not None:
        assert names is not None
        if any(not isinstance(row, list) or len(row) != len(names) for row in rows):
            raise InputError(f"each row must have the {len(names)} columns of the model's schema, in its order.")
        return _encoded(model, {name: [row[j] for row in rows] for j, name in enumerate(names)})
    try:
        X = np.array(rows, dtype=np.float64)
    except (OverflowError, TypeError, ValueError) as error:
        raise InputError("rows must be lists of numbers, all of one length.") from error
    if X.ndim != 2 or (width is not None and X.shape[1] != width):
        raise InputError(f"rows must be of {width} numbers each.")
    if not np.isfinite(X).all():
        raise InputError("rows must be of finite numbers.")
    return X


def no_constant(name: str) -> Any:
    """For ``json.loads``: NaN and the infinities, which JSON does not have, are refused."""
    raise ValueError(name)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For ``json.loads``: an object with a key that occurs twice is refused, since readers take one or the other."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


def table_of_csv(text: str) -> Table:
    """CSV text with a line of names; cells that are numbers are numbers, empty ones are missing."""
    try:
        lines = list(csv.reader(io.StringIO(text)))
    except csv.Error as error:
        raise InputError("CSV could not be read: a cell is too long, or a line break stands alone.") from error
    if not lines or len(set(lines[0])) < len(lines[0]):
        raise InputError("CSV needs a first line of different names of columns.")
    if any(len(line) != len(lines[0]) for line in lines[1:]):
        raise InputError("CSV has lines with more or fewer cells than names.")
    return {name: [_cell(line[j]) for line in lines[1:]] for j, name in enumerate(lines[0])}


def table_of_records(model: Model, records: Sequence[Any]) -> Table:
    """The columns that a model needs, or all, of a list of objects; a key that one lacks is missing there.

    What no model needs is not copied: a key that only one of many objects has would be a column of its own.
    """
    if not all(isinstance(record, dict) for record in records):
        raise InputError("records must be JSON objects.")
    needed = columns_of(model)
    if needed is None and any(record.keys() != records[0].keys() for record in records):
        raise InputError("records must have the same keys, since the model knows no names of columns.")
    names = list(records[0]) if needed is None and records else needed or []
    return {
        name: [record.get(name) for record in records] for name in names if any(name in record for record in records)
    }


def _encoded(model: Model, table: Table) -> Any:
    schema = schema_of(model)
    assert schema is not None
    try:
        return schema.prepared(table)
    except OverflowError:
        raise InputError("a cell is a number that is larger than float64 has.") from None


def _cell(text: str) -> Any:
    if not text:
        return None
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) else text


def predicted(
    model: Model, rows: Any, stop: Callable[[], None] = lambda: None
) -> tuple[list[Any], list[list[float]] | None]:
    """Answers, and the probability of every class where the model classifies; ``stop`` is called between blocks."""
    answers: list[Any] = []
    shares: list[list[float]] = []
    for low in range(0, max(1, rows.shape[0]), _BLOCK):
        stop()
        scores = model.decision(rows[low : low + _BLOCK])
        answers += model.predictions_for_scores(scores).tolist()
        shares += model.probabilities_for_scores(scores).tolist() if model.classifies else []
    return answers, shares if model.classifies else None
