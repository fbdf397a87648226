"""Columns whose cells are one of several: categories, ordered levels, yes or no. Pure."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Int64s
from erasable.core.keyed_hash import keyed_hash
from erasable.schemas._base import ONE, Block, Column, Flags, code_entries, share
from erasable.schemas._cells import CLOCK, MOMENT, NUMBER, RESPELT, TEXT, Cells, canonical_text, spelling, texts_of
from erasable.schemas._told import Bounds, Told, one_of, places_told, scales_of
from erasable.validation import whole_number

HASH_KEY = 1  # public, and the same for all schemas
MOST_PLACES = 2**24
MOST_LISTED = 2**16


def places_of(texts: Sequence[str], n: int) -> Int64s:
    """Places of texts among n: their 64-bit keyed BLAKE2b under a public key, modulo n."""
    encoded = [t.encode("utf-8", "surrogatepass") for t in texts]  # of broken texts, too, there is one hash
    return (keyed_hash(encoded, HASH_KEY) % np.uint64(n)).astype(np.int64) if encoded else np.empty(0, np.int64)


@dataclass(frozen=True, kw_only=True)
class Placed(Column):
    """A column whose cells have codes 0, 1, ..., or none."""

    HOLDS = (TEXT, NUMBER, MOMENT, CLOCK)
    DOUBTS = (RESPELT,)

    def is_empty(self, values: Int64s) -> Booleans:
        """Which cells have no code."""
        return values < 0

    def encode(self, values: Int64s, flags: Flags) -> Block:
        """One-hot features."""
        return Block(code_entries(values, self.n_codes or 0, thermometer=False), {}, codes=values)

    def told(self, own: Bounds) -> Told | None:
        """What its code stands for, or what the codes do that it may have had."""
        codes = self.stored_codes(own)
        return self.told_codes(codes) if codes else None

    def stored_codes(self, own: Bounds) -> list[int]:
        """The codes that features may be those of."""
        return own.one_hot()

    @abstractmethod
    def told_codes(self, codes: Sequence[int]) -> Told:
        """What codes stand for, of which the cell had one."""

    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """What is not zero is one."""
        yield scales_of(own, 1.0)

    @property
    def square(self) -> int:
        """Of one."""
        return ONE

    @property
    def most(self) -> int:
        """One of the places."""
        return 1

    def listed(self, given: Any, parameter: str, least: int) -> tuple[str, ...]:
        """Values that a parameter lists, as canonical texts."""
        if not isinstance(given, list | tuple) or not all(isinstance(v, str | int | float) for v in given):
            raise self.refused(f"{parameter} must be a list of texts, numbers or truths.")
        values = tuple(canonical_text(v, self.version) for v in given)
        if len(values) < least:
            raise self.refused(f"{parameter} must list {least} or more; got {len(values)}.")
        if len(values) > MOST_LISTED and self.version > 1:
            raise self.refused(f"{parameter} lists {len(values):,}, and {MOST_LISTED:,} are allowed: give hashed = n.")
        if len(set(values)) < len(values):
            double = len(values) - len(set(values))
            raise self.refused(f"{parameter} lists {double} of its {len(values)} twice (39, 39.0 and ' 39' are one).")
        return values

    def codes_of(
        self, cells: Cells, missing: Collection[str], known: dict[str, int], other: int
    ) -> tuple[Int64s, Flags]:
        """The codes of cells, ``other`` for those that are not known."""
        texts = texts_of(cells, missing, self.version)
        codes = np.array([-1 if t is None else known.get(t, other) for t in texts], dtype=np.int64)
        unknown = np.array([t is not None and t not in known for t in texts], dtype=bool)
        return codes, {"unknown": unknown}


@dataclass(frozen=True, kw_only=True)
class Category(Placed):
    """One of a list, with a place for all others; or hashed into so many places. One-hot.

    Parameters
    ----------
    values : list, optional
        Texts, numbers or truths, compared by their canonical texts.
    hashed : int, optional
        Places, instead of a list.
    """

    KIND = "category"

    values: tuple[str, ...] | None = None
    hashed: int | None = None

    def check(self) -> None:
        """One of list and places."""
        if (self.values is None) == (self.hashed is None):
            raise self.refused("a category has either values, a list, or hashed, a number of places.")
        if self.values is not None:
            self.set("values", self.listed(self.values, "values", 1))
        else:
            self.set("hashed", whole_number(self.hashed, f"{self.where}: hashed", 1, MOST_PLACES))

    def checked_fill(self) -> str:
        """Any text: one that is not listed is one of the others."""
        if not isinstance(self.fill, str | int | float):
            raise self.refused("fill must be a text, a number or a truth.")
        return canonical_text(self.fill, self.version)

    @property
    def n_codes(self) -> int:
        """The list and the others, or the places."""
        return self.hashed if self.values is None else len(self.values) + 1  # type: ignore[return-value]

    @property
    def own_width(self) -> int:
        """As many as there are codes: millions of names are not made to be counted."""
        return self.n_codes

    def names(self) -> list[str]:
        """Name and value."""
        if self.values is None:
            return [f"{self.name}#{j}" for j in range(self.n_codes)]
        return [*(f"{self.name}={v}" for v in self.values), f"{self.name}=(others)"]

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        """Codes; what is not listed has the last one."""
        if self.values is not None:
            known = {v: j for j, v in enumerate(self.values)}
            return self.codes_of(cells, missing, known, len(known))
        texts = texts_of(cells, missing, self.version)
        codes = np.full(len(texts), -1, dtype=np.int64)
        there = [j for j, t in enumerate(texts) if t is not None]
        codes[there] = places_of([texts[j] for j in there], self.n_codes)  # type: ignore[misc]
        return codes, {}

    def told_codes(self, codes: Sequence[int]) -> Told:
        """Values, that it was none of them, or places."""
        if self.values is None:
            return places_told(codes, self.n_codes, lost="the text that was hashed is not stored")
        values = [self.values[c] for c in codes if c < len(self.values)]
        others = len(values) < len(codes)
        shown = [*values, "none of the values that the schema lists"] if others else values
        return Told(one_of(shown), facts={"one_of": values, "others": others})


@dataclass(frozen=True, kw_only=True)
class Ordered(Placed):
    """One of levels that have an order: a thermometer, one feature for each level above the first that is reached.

    Parameters
    ----------
    levels : list
        From the lowest. A cell that is none of them counts as unknown and is encoded as a missing one.
    """

    KIND = "ordered"
    ABSENT = "missing, or none of the levels"

    levels: tuple[str, ...] = ()

    def check(self) -> None:
        """Two levels or more."""
        self.set("levels", self.listed(self.levels, "levels", 2))

    def checked_fill(self) -> str:
        """A level."""
        fill = canonical_text(self.fill, self.version) if isinstance(self.fill, str | int | float) else None
        if fill not in self.levels:
            raise self.refused("fill must be one of the levels.")
        return fill

    @property
    def n_codes(self) -> int:
        """The levels."""
        return len(self.levels)

    def names(self) -> list[str]:
        """Name and level."""
        return [f"{self.name}>={level}" for level in self.levels[1:]]

    @property
    def square(self) -> int:
        """All levels reached."""
        return (self.n_codes - 1) * int(share(self.n_codes - 1) * 2**20) ** 2

    @property
    def most(self) -> int:
        """All levels but the first."""
        return self.n_codes - 1

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        """Places of the levels."""
        return self.codes_of(cells, missing, {v: j for j, v in enumerate(self.levels)}, -1)

    def encode(self, values: Int64s, flags: Flags) -> Block:
        """A thermometer."""
        return Block(code_entries(values, self.n_codes, thermometer=True), {}, codes=values)

    def stored_codes(self, own: Bounds) -> list[int]:
        """How far the thermometer may reach."""
        return own.thermometer(share(self.n_codes - 1))

    def told_codes(self, codes: Sequence[int]) -> Told:
        """Levels."""
        levels = [self.levels[c] for c in codes]
        return Told(one_of(levels), facts={"one_of": levels, "others": False})

    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """All levels have one size."""
        yield scales_of(own, share(self.n_codes - 1))


@dataclass(frozen=True, kw_only=True)
class YesNo(Placed):
    """Yes or no: one feature, 1 or 0.

    Parameters
    ----------
    yes, no : lists of texts
        Spellings, of which the capitals of ASCII do not matter. A cell that is none of them counts as unknown and is
        encoded as a missing one.
    """

    KIND = "yes/no"
    ABSENT = "missing, or neither yes nor no"

    yes: tuple[str, ...] = ("1", "t", "true", "y", "yes")
    no: tuple[str, ...] = ("0", "f", "false", "n", "no")

    def check(self) -> None:
        """No spelling is both."""
        for parameter in ("yes", "no"):
            given = self.listed(getattr(self, parameter), parameter, 1)
            self.set(parameter, tuple(sorted({spelling(v) for v in given})))
        if set(self.yes) & set(self.no):
            raise self.refused("a spelling is listed under both yes and no.")

    def checked_fill(self) -> str:
        """A spelling."""
        fill = spelling(canonical_text(self.fill, self.version)) if isinstance(self.fill, str | int | float) else None
        if fill not in (*self.yes, *self.no):
            raise self.refused("fill must be one of the spellings of yes or no.")
        return fill

    @property
    def n_codes(self) -> int:
        """No and yes."""
        return 2

    def names(self) -> list[str]:
        """The name."""
        return [self.name]

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        """One for yes, zero for no."""
        known = {**dict.fromkeys(self.no, 0), **dict.fromkeys(self.yes, 1)}
        texts = [None if t is None else spelling(t) for t in texts_of(cells, missing, self.version)]
        return self.codes_of(Cells(TEXT, texts), (), known, -1)

    def encode(self, values: Int64s, flags: Flags) -> Block:
        """One feature."""
        return Block(code_entries(values - 1, 1, thermometer=False), {}, codes=values)

    def stored_codes(self, own: Bounds) -> list[int]:
        """Whether it may be no, and yes."""
        return [code for code in (0, 1) if own.may_be(code)[0]]

    def told_codes(self, codes: Sequence[int]) -> Told:
        """No, yes or both."""
        names = [("no", "yes")[c] for c in codes]
        return Told(one_of(names), facts={"one_of": names, "others": False})
