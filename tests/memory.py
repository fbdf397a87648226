"""What a model holds of its rows in memory, for tests that look at it or spoil it."""

from __future__ import annotations

from typing import Any

import numpy as np

from erasable.models.core_rows import CoreRows, Row


def held_rows(core: CoreRows) -> list[Row]:
    """The rows in their order."""
    return core.find(core.ids())


def pieces(core: CoreRows) -> list[bytearray]:
    """The memory of each row."""
    return [row.numbers for row in held_rows(core)]


def numbers(core: CoreRows, i: int, dtype: Any = np.int16) -> Any:
    """The numbers of a dense row, to be changed."""
    return np.frombuffer(held_rows(core)[i].numbers, dtype=dtype)
