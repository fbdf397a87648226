"""Crosses: one feature for each pair of codes of two columns. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from erasable.core.arrays import Integers
from erasable.errors import ConfigurationError
from erasable.schemas.columns import MOST_PLACES, Column, Number, hashed_places
from erasable.schemas.toml_text import toml_table
from erasable.validation import whole_number


@dataclass(frozen=True, kw_only=True)
class Cross:
    """Pairs of codes of two columns, one-hot: of categories, levels, yes/no, or numbers in bins.

    Parameters
    ----------
    columns : pair of str
    hashed : int, optional
        The number of places that the pairs are hashed into; by default each pair has its own.
    bins : int, optional
        At most so many bins of each number: neighbouring ones are joined, as many at a time as that takes.
    """

    columns: tuple[str, str]
    hashed: int | None = None
    bins: int | None = None

    def __post_init__(self) -> None:
        pair: Any = self.columns
        named = isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(c, str) for c in pair)
        if not named or pair[0] == pair[1]:
            raise ConfigurationError("a cross needs columns = [...], the names of two different columns.")
        object.__setattr__(self, "columns", tuple(pair))
        if self.hashed is not None:
            whole_number(self.hashed, f"{self.where}: hashed", 1, MOST_PLACES)
        if self.bins is not None:
            whole_number(self.bins, f"{self.where}: bins", 2, MOST_PLACES)

    @property
    def name(self) -> str:
        """Both names."""
        return "×".join(self.columns)

    @property
    def where(self) -> str:
        """How messages name the cross."""
        return f"the cross of {self.columns[0]!r} and {self.columns[1]!r}"

    def parameters(self) -> dict[str, Any]:
        """The parameters that differ from the default."""
        optional = {"hashed": self.hashed, "bins": self.bins}
        return {"columns": self.columns, **{name: n for name, n in optional.items() if n is not None}}

    @property
    def toml(self) -> str:
        """Its table in a schema file."""
        return toml_table("[[crosses]]", self.parameters())

    def check(self, columns: Mapping[str, Any]) -> None:
        """Refuse columns that do not exist, have a role, or have no codes."""
        for name in self.columns:
            column = columns.get(name)
            if column is None:
                raise ConfigurationError(f"{self.where}: there is no column {name!r}.")
            if not isinstance(column, Column):
                raise ConfigurationError(f"{self.where}: {name!r} has the role {column.role!r}, so it is no feature.")
            if column.n_codes is None:
                raise ConfigurationError(
                    f"{self.where}: {name!r} has no places: cross a category, levels, yes/no, or a number with edges."
                )
        if self.bins is not None and not any(isinstance(columns[name], Number) for name in self.columns):
            raise ConfigurationError(f"{self.where}: bins are for numbers, and neither is one: leave them out.")
        if self.width(columns) > MOST_PLACES:
            raise ConfigurationError(f"{self.where}: there are more than {MOST_PLACES:,} pairs: give hashed = n.")

    def _run(self, column: Any) -> int:
        """How many neighbouring codes of a column are joined."""
        n_codes: int = column.n_codes
        return -(-n_codes // self.bins) if self.bins is not None and isinstance(column, Number) else 1

    def sizes(self, columns: Mapping[str, Any]) -> tuple[int, int]:
        """How many codes each column has here; missing cells have one, too."""
        a, b = (-(-columns[name].n_codes // self._run(columns[name])) + 1 for name in self.columns)
        return a, b

    def width(self, columns: Mapping[str, Any]) -> int:
        """How many features."""
        a, b = self.sizes(columns)
        return a * b if self.hashed is None else self.hashed

    def names(self, columns: Mapping[str, Any]) -> list[str]:
        """Both names and the place."""
        return [f"{self.name}#{j}" for j in range(self.width(columns))]

    def _pairs(self, left: Integers, right: Integers, columns: Mapping[str, Any]) -> Integers:
        """The number of each pair of codes, of which -1 is missing."""
        a, b = self.sizes(columns)
        first, second = (self._run(columns[name]) for name in self.columns)
        left, right = left.astype(np.int64) // first, right.astype(np.int64) // second
        pairs: Integers = (left % a) * b + right % b  # -1 becomes the last code
        return pairs

    def places(self, left: Integers, right: Integers, columns: Mapping[str, Any]) -> Integers:
        """The place of each pair of codes, of which -1 is missing."""
        pairs, b = self._pairs(left, right, columns), self.sizes(columns)[1]
        if self.hashed is None:
            return np.asarray(pairs, dtype=np.int32)
        distinct, inverse = np.unique(pairs, return_inverse=True)
        texts = [f"{p // b} {p % b}" for p in distinct.tolist()]
        places: Integers = hashed_places(texts, self.hashed)[inverse].astype(np.int32)
        return places
