"""Which cells of a table tell a row wherever they stand, and how each may be written: what a scan looks for as text.

Most cells tell nobody: ages, towns and amounts stand everywhere. Looked for are texts of eight bytes or more, and
numbers of seven significant digits or more; what is shorter is counted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.arrow import TEXTS, is_kind
from erasable.schemas import Category, Number, Role, Schema, Text, canonical_text

_BYTES = 8  # of a text that hardly stands somewhere by chance
_DIGITS = 7  # of such a number, without zeros at its ends
_OF_A_ROW = 16  # cells that are looked for
_IN_ALL = 200_000  # unless there are more rows
_NUMBER = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")


@dataclass
class Telling:
    """Texts to be looked for, with the number of their row, and how many cells are not.

    Attributes
    ----------
    texts, numbers : lists of (row, text)
        Numbers in all their spellings.
    passed_over : dict
        How many ``"texts"`` and ``"numbers"`` are too short, and how many ``"cells"`` are too many.
    """

    n_rows: int
    texts: list[tuple[int, str]] = field(default_factory=list)
    numbers: list[tuple[int, str]] = field(default_factory=list)
    passed_over: dict[str, int] = field(default_factory=lambda: {"texts": 0, "numbers": 0, "cells": 0})

    def __post_init__(self) -> None:
        self.of_a_row = min(_OF_A_ROW, max(1, _IN_ALL // max(1, self.n_rows)))
        self._left = np.full(self.n_rows, self.of_a_row)

    def add_text(self, row: int, text: str) -> None:
        """A text, unless it is too short or the row has enough."""
        if len(text.encode("utf-8", "surrogatepass")) < _BYTES:
            self.passed_over["texts"] += 1
        elif self._takes(row):
            self.texts.append((row, text))

    def add_number(self, row: int, value: Any, written: str | None = None) -> None:
        """A number, unless it is too short or the row has enough."""
        if _digits(canonical_text(value, 1)) < _DIGITS:
            self.passed_over["numbers"] += 1
        elif self._takes(row):
            self.numbers += ((row, text) for text in spellings(value, written))

    def _takes(self, row: int) -> bool:
        taken = bool(self._left[row] > 0)
        self._left[row] -= taken
        self.passed_over["cells"] += not taken
        return taken


def spellings(value: Any, written: str | None = None) -> set[str]:
    """How a number is written in CSV, JSON and logs, and how it stands in the table.

    Its shortest text that reads back as the same float64, that of the nearest float32, and where that is the same
    number, one or two decimals: 2156461, 2156461.0 and 2156461.00; 1234567.5 and 1234567.50.
    """
    found = {canonical_text(value), canonical_text(value, 1), *([] if written is None else [written])}
    number = float(value)
    with np.errstate(over="ignore"):
        single = canonical_text(float(str(np.float32(number))), 1)
    if _digits(single) >= _DIGITS:
        found.add(single)
    if abs(number) < 2**53:
        found |= {text for text in (f"{number:.1f}", f"{number:.2f}") if float(text) == number}
    return found


def _digits(text: str) -> int:
    """Significant digits of a number."""
    return len(text.lower().partition("e")[0].replace(".", "").lstrip("+-").strip("0"))


def telling_numbers(X: npt.NDArray[Any]) -> Telling:
    """Of a table of numbers."""
    found = Telling(len(X))
    digits = 10.0 ** (_DIGITS - 2)
    with np.errstate(divide="ignore", over="ignore", under="ignore", invalid="ignore"):
        sizes = np.abs(X.astype(np.float64))
        scaled = sizes * 10.0 ** -np.floor(np.log10(sizes)) * digits  # in front of the point: one digit less than told
        near = np.abs(scaled - np.rint(scaled)) < (0.07 if X.dtype == np.float32 else 1e-6)
    long = ~near & np.isfinite(scaled)
    taken = long & (np.cumsum(long, axis=1) <= found.of_a_row)
    found.passed_over["numbers"] += int(np.count_nonzero(~long))
    found.passed_over["cells"] += int(np.count_nonzero(long & ~taken))
    for row, column in np.argwhere(taken).tolist():
        value = X[row, column]
        found.add_number(row, float(str(value)) if X.dtype == np.float32 else float(value), repr(float(value)))
    return found


def telling_cells(schema: Schema, table: Any) -> Telling:
    """Of a raw table, each cell of a column once.

    Of columns of numbers, texts, hashed categories and ignored ones all cells; of listed categories those that are not
    listed. Levels, yes and no, dates and times are everybody's.
    """
    found = Telling(table.num_rows)
    for name in table.column_names:
        kind = schema.by_name.get(name)
        ignored = isinstance(kind, Role) and kind.role == "ignore"
        if not (ignored or isinstance(kind, Number | Text | Category)):
            continue
        listed = set(getattr(kind, "values", None) or ())
        for row, cell in _cells_once(table.column(name)):
            if isinstance(cell, str):
                text = cell.strip()
                if text.lower() in schema.missing or canonical_text(text, schema.version) in listed:
                    continue
                if _NUMBER.fullmatch(text) and (isinstance(kind, Number) or _digits(text) >= _DIGITS):
                    found.add_number(row, _value(text), text)
                else:
                    found.add_text(row, text)
            elif canonical_text(cell, schema.version) not in listed:
                found.add_number(row, cell)
    return found


def _value(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)


def _cells_once(column: Any) -> Iterator[tuple[int, Any]]:
    """Texts and finite numbers of a column, with the row where each stands first."""
    if not is_kind(column.type, "integer", "floating", *TEXTS):
        return
    single = is_kind(column.type, "float32", "float16")
    seen: set[Any] = set()
    for row, cell in enumerate(column.to_pylist()):
        if cell is None or cell in seen or (isinstance(cell, float) and not np.isfinite(cell)):
            continue
        seen.add(cell)
        yield row, float(str(np.float32(cell))) if single else cell
