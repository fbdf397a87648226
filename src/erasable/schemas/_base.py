"""What every kind of column is: public parameters, and a block of features that depends on one cell alone.

All encoded numbers are multiples of ``2**-20`` and at most one in size, so float32 holds each of them, and a block has
a norm that is at most a public number. Pure.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from erasable.core.arrays import Array, Booleans, Float32s, Float64s, Integers
from erasable.errors import ConfigurationError, InputTypeError
from erasable.schemas._cells import NUMBER, TEXT, VECTOR, VERSION, Cells, check_alone
from erasable.schemas._told import Bounds, Told
from erasable.validation import switch

STEPS = 2**20  # encoded numbers are multiples of one over this
ONE = STEPS**2  # the square of one, in squares of steps: norms are counted in these
NOWHERE = -1
COUNTS = ("missing", "unknown", "unparsable", "clipped")

Flags = dict[str, Booleans]
# Features of each cell, NOWHERE where there is none, and their numbers; None where all of them are one.
Entry = tuple[Integers, Float32s | None]


@dataclass
class Block:
    """The features of cells: entries, at most one number of each in a cell; before them, where texts need that, rows.

    ``codes`` are the places that crosses are made of; ``flags`` say which cells are missing, unknown, and so on.
    """

    entries: list[Entry]
    flags: Flags
    rows: Any = None
    codes: Integers | None = None


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column that becomes features. Subclasses are frozen records of public parameters.

    Parameters
    ----------
    name : str
    fill : optional
        What stands for a cell that is missing. Without it the features of such a cell are zero.
    indicator : bool, default=True
        Add a feature that is one where the cell is missing.
    version : int, default=2
        That of the schema, which all of its columns share.
    """

    KIND: ClassVar[str]
    HOLDS: ClassVar[tuple[str, ...]] = (TEXT, NUMBER)  # kinds of cells; version 1 knows the first two of them
    DOUBTS: ClassVar[tuple[int, ...]] = ()  # that version 1 refuses
    ABSENT: ClassVar[str] = "missing"  # what is encoded as nothing

    name: str = field(metadata={"unwritten": True})
    fill: Any = None
    indicator: bool = True
    version: int = field(default=VERSION, metadata={"unwritten": True})

    def __post_init__(self) -> None:
        self.set("indicator", switch(self.indicator, f"{self.where}: indicator"))
        self.check()
        if self.fill is not None:
            self.set("fill", self.checked_fill())

    def set(self, field_name: str, value: Any) -> None:
        """Set a field while the record is being made."""
        object.__setattr__(self, field_name, value)

    @property
    def where(self) -> str:
        """How messages name the column."""
        return f"column {self.name!r}"

    def refused(self, problem: str) -> ConfigurationError:
        """An error about the parameters of this column."""
        return ConfigurationError(f"{self.where}: {problem}")

    def parameters(self) -> dict[str, Any]:
        """The parameters that are not the default, in the order of the fields; these follow those of the kind."""
        own = [f for f in dataclasses.fields(self) if not f.metadata]
        own = [f for f in own if f.name not in ("fill", "indicator")] + [
            f for f in own if f.name in ("fill", "indicator")
        ]
        return {f.name: getattr(self, f.name) for f in own if getattr(self, f.name) != f.default}

    # -- what a kind says of itself --------------------------------------------------------------------------------

    @abstractmethod
    def check(self) -> None:
        """Refuse parameters that cannot work, and make those that can canonical."""

    @abstractmethod
    def checked_fill(self) -> Any:
        """The fill, canonical."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the features, without the indicator."""

    @property
    @abstractmethod
    def square(self) -> int:
        """The largest square of the norm of the features without the indicator, in squares of steps."""

    @property
    @abstractmethod
    def most(self) -> int:
        """How many features of a cell may differ from zero, without the indicator; of texts, how many often do."""

    @abstractmethod
    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Any, Flags]:
        """What the cells stand for, one value each, and which of them are odd."""

    @abstractmethod
    def is_empty(self, values: Any) -> Booleans:
        """Which values stand for nothing."""

    @abstractmethod
    def encode(self, values: Any, flags: Flags) -> Block:
        """The features of the values; where there is nothing, none."""

    @abstractmethod
    def told(self, own: Bounds) -> Told | None:
        """What features without the indicator say of a cell that is there; None where they are those of no such cell.

        *Law*: of every cell that is encoded as features within the bounds, it is told that it may have been there.
        """

    @abstractmethod
    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """Between which numbers the one lies that the features were divided by, as far as their sizes are known."""

    # -- what follows from it --------------------------------------------------------------------------------------

    @property
    def n_codes(self) -> int | None:
        """How many places a cell may have in a cross, that of missing ones left out; None where it has no place."""
        return None

    @property
    def own_width(self) -> int:
        """How many features, without the indicator."""
        return len(self.names())

    @property
    def width(self) -> int:
        """How many features."""
        return int(self.own_width) + self.indicator

    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [*self.names(), f"{self.name}=(missing)"] if self.indicator else self.names()

    @property
    def bound_square(self) -> int:
        """The largest square of the norm of the features, in squares of steps."""
        if not self.indicator:
            return self.square
        return max(self.square, ONE) if self.fill is None else self.square + ONE

    def block(self, cells: Cells, missing: Collection[str]) -> Block:
        """The features of the cells, one block for each of their values."""
        holds = self.HOLDS if self.version > 1 else self.HOLDS[:2]
        odd = sorted(cells.kinds.difference(holds))
        if odd and cells.are_all_missing():
            cells, odd = Cells(self.HOLDS[0], [None] * len(cells.values)), []
        if odd:
            raise InputTypeError(
                f"{self.where} holds {' and '.join(odd)}, and the schema says {self.KIND}: correct the schema, or the "
                "table."
            )
        if cells.doubts is not None:
            check_alone(cells, missing, self.where, self.DOUBTS)
        values, flags = self.read(cells, missing)
        empty = self.is_empty(values)
        flags["missing"] = empty & ~flags.get("unknown", empty & False) & ~flags.get("unparsable", empty & False)
        if self.fill is not None and empty.any():
            values[empty] = self.read(self.fill_cell(), ())[0][0]
        block = self.encode(values, flags)
        block.flags = flags
        if self.indicator:
            block.entries = _with_indicator(block.entries, empty, self.own_width, alone=self.fill is None)
        return block

    def fill_cell(self) -> Cells:
        """The fill as a cell."""
        if isinstance(self.fill, tuple):
            return Cells(VECTOR, np.array([self.fill], dtype=np.float64))
        return Cells(TEXT, [self.fill if isinstance(self.fill, str) else repr(self.fill)])


def _with_indicator(entries: list[Entry], empty: Booleans, place: int, *, alone: bool) -> list[Entry]:
    """Entries with one more feature; where it is ``alone`` in its cell, it takes the room of another one."""
    if not (alone and entries):
        return [*entries, (np.where(empty, place, NOWHERE).astype(np.int32), None)]
    places, numbers = entries[0]
    first = np.where(empty, place, places).astype(np.int32)
    return [(first, None if numbers is None else np.where(empty, np.float32(1), numbers)), *entries[1:]]


def on_steps(values: Float64s) -> Float32s:
    """Numbers of size at most one as the nearest multiples of ``2**-20``."""
    out: Float32s = (np.rint(values * STEPS) / STEPS).astype(np.float32)
    return out


def numbers_entry(values: Float64s, place: int) -> Entry:
    """Numbers of one feature; where they are zero or NaN there is none."""
    rounded = on_steps(np.nan_to_num(values, nan=0.0))
    return np.where(rounded == 0, NOWHERE, place).astype(np.int32), rounded


def code_entries(codes: Array, n_codes: int, *, thermometer: bool) -> list[Entry]:
    """Features of codes, of which negative ones have none: one-hot, or one feature for each code that is passed."""
    if not thermometer:
        return [(np.where(codes < 0, NOWHERE, codes).astype(np.int32), None)]
    level = np.full(len(codes), share(n_codes - 1), dtype=np.float32)
    return [(np.where(codes > j, j, NOWHERE).astype(np.int32), level) for j in range(n_codes - 1)]


def share(n: int) -> float:
    """The largest multiple of ``2**-20`` that n numbers may have for their norm to be at most one."""
    return math.isqrt(ONE // n) / STEPS
