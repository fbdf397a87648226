"""Columns that are no features, and crosses of two columns that are. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasable.core.arrays import Integers
from erasable.core.target_grid import check_range
from erasable.errors import ConfigurationError
from erasable.schemas._base import Column
from erasable.schemas._cells import VERSION, canonical_text
from erasable.schemas._placed import MOST_PLACES, places_of
from erasable.schemas._told import Bounds, Told, one_of, places_told
from erasable.validation import choice, finite_number, whole_number

ROLES = ("label", "target", "id", "subject", "weight", "ignore")
_ONCE = ("label", "id", "weight")


@dataclass(frozen=True, kw_only=True)
class Role:
    """A column that is no feature.

    Parameters
    ----------
    name : str
    role : "label", "target", "id", "subject", "weight" or "ignore"
        There may be several subjects, as a row may belong to several people, and several targets.
    classes : list, optional
        Of a label: all of them, as canonical texts.
    range : pair of numbers, optional
        Of a target: between which numbers it lies. In tables that are learnt, what is beyond is clipped, and counted.
    version : int, default=2
        That of the schema, which all of its columns share.
    """

    name: str
    role: str
    classes: tuple[str, ...] | None = None
    range: tuple[float, float] | None = None
    version: int = field(default=VERSION, metadata={"unwritten": True})

    def __post_init__(self) -> None:
        choice(self.role, f"column {self.name!r}: role", ROLES)
        if self.range is not None:
            self._check_range()
        if self.classes is not None:
            self._check_classes()

    def _check_range(self) -> None:
        where, given = f"column {self.name!r}", self.range
        if self.role != "target":
            raise ConfigurationError(f"{where}: a role has a range where it is that of a target.")
        if not isinstance(given, list | tuple) or len(given) != 2:
            raise ConfigurationError(f"{where}: range must be two numbers, [low, high].")
        low, high = (finite_number(end, f"{where}: range") + 0.0 for end in given)
        try:
            check_range((low, high))
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: {error}") from None
        object.__setattr__(self, "range", (low, high))

    def _check_classes(self) -> None:
        given: Any = self.classes
        if self.role != "label":
            raise ConfigurationError(f"column {self.name!r}: classes are for a label.")
        if not isinstance(given, list | tuple) or not all(isinstance(c, str | int | float) for c in given):
            raise ConfigurationError(f"column {self.name!r}: classes must be a list of texts, numbers or truths.")
        classes = tuple(canonical_text(c, self.version) for c in given)
        if len(classes) < 2 or len(set(classes)) < len(classes):
            raise ConfigurationError(f"column {self.name!r}: classes must list two or more, each once.")
        object.__setattr__(self, "classes", classes)

    def parameters(self) -> dict[str, Any]:
        """The parameters that are not the default."""
        given = {"classes": self.classes, "range": self.range}
        return {"role": self.role, **{name: value for name, value in given.items() if value is not None}}


@dataclass(frozen=True, kw_only=True)
class Cross:
    """Pairs of places of two columns, one-hot: a category, levels, yes or no, or a number in bins.

    Parameters
    ----------
    columns : pair of str
    hashed : int, optional
        Places that the pairs are hashed into; by default each pair has its own.
    """

    columns: tuple[str, str]
    hashed: int | None = None

    def __post_init__(self) -> None:
        pair: Any = self.columns
        named = isinstance(pair, list | tuple) and len(pair) == 2 and all(isinstance(c, str) for c in pair)
        if not named or pair[0] == pair[1]:
            raise ConfigurationError("a cross needs columns = [...], the names of two different columns.")
        object.__setattr__(self, "columns", tuple(pair))
        if self.hashed is not None:
            whole_number(self.hashed, f"{self.where}: hashed", 1, MOST_PLACES)

    @property
    def where(self) -> str:
        """How messages name the cross."""
        return f"the cross of {self.columns[0]!r} and {self.columns[1]!r}"

    def parameters(self) -> dict[str, Any]:
        """The parameters that are not the default."""
        return {"columns": self.columns} if self.hashed is None else {"columns": self.columns, "hashed": self.hashed}

    def check(self, columns: Mapping[str, Column | Role]) -> None:
        """Refuse columns that are not there, have a role, or have no places."""
        for name in self.columns:
            column = columns.get(name)
            if isinstance(column, Role):
                raise ConfigurationError(f"{self.where}: {name!r} has the role {column.role!r}, so it is no feature.")
            if column is None:
                raise ConfigurationError(f"{self.where}: there is no column {name!r}.")
            if column.n_codes is None:
                raise ConfigurationError(
                    f"{self.where}: {name!r} has no places: cross a category, levels, yes/no, or a number with edges."
                )
        if self.width(columns) > MOST_PLACES:
            raise ConfigurationError(f"{self.where}: there are more than {MOST_PLACES:,} pairs: give hashed = n.")

    def _codes(self, columns: Mapping[str, Any]) -> tuple[int, int]:
        """How many places each column has, with that of missing cells."""
        a, b = (columns[name].n_codes + 1 for name in self.columns)
        return a, b

    def width(self, columns: Mapping[str, Any]) -> int:
        """How many features."""
        a, b = self._codes(columns)
        return a * b if self.hashed is None else self.hashed

    def names(self, columns: Mapping[str, Any]) -> list[str]:
        """Both names and the place."""
        head = "×".join(self.columns)
        return [f"{head}#{j}" for j in range(self.width(columns))]

    def places(self, left: Integers, right: Integers, columns: Mapping[str, Any]) -> Integers:
        """The place of each pair of codes, of which -1 is missing."""
        a, b = self._codes(columns)
        pairs = (left.astype(np.int64) % a) * b + right.astype(np.int64) % b  # Python's rest: -1 is the last one
        if self.hashed is None:
            return pairs.astype(np.int32)
        there, inverse = np.unique(pairs, return_inverse=True)
        texts = [f"{p // b} {p % b}" for p in there.tolist()]
        return places_of(texts, self.hashed)[inverse].astype(np.int32)

    def told(self, own: Bounds, columns: Mapping[str, Any]) -> Told:
        """Which pairs it may have been, or which places."""
        codes = own.one_hot()
        if self.hashed is not None:
            return places_told(codes, self.hashed, lost="the pair that was hashed is not stored")
        sizes = self._codes(columns)
        pairs = [
            [_code_told(columns[n], c, k) for n, c, k in zip(self.columns, divmod(p, sizes[1]), sizes, strict=True)]
            for p in codes
        ]
        return Told(one_of([" and ".join(pair) for pair in pairs]), facts={"pairs": pairs})


def _code_told(column: Any, code: int, n_codes: int) -> str:
    """What a code of a column stands for; the last of them for nothing."""
    text: str = column.ABSENT if code == n_codes - 1 else column.told_codes([code]).text
    return text


def check_roles(columns: Mapping[str, Column | Role]) -> None:
    """Refuse a role that two columns have and only one may have.

    Raises
    ------
    ConfigurationError
    """
    for role in _ONCE:
        having = [c.name for c in columns.values() if isinstance(c, Role) and c.role == role]
        if len(having) > 1:
            raise ConfigurationError(f"{len(having)} columns have the role {role!r}: {', '.join(map(repr, having))}.")
    if {"label", "target"} <= {c.role for c in columns.values() if isinstance(c, Role)}:
        raise ConfigurationError("a label and a target are both there: a table is learnt for one of them.")
