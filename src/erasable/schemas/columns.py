"""The kinds of columns: what all of them share, and numbers, categories, ordered levels and yes/no.

A kind is a frozen record whose fields are the parameters of the schema file, each with the function that checks it. To
add a parameter, add such a field, use it in ``groups``, ``names`` and ``_parts``, and document it in the class and in
the table of ``docs/schemas.md``. Parsing, the canonical text, rows, bounds and sparsity follow. Pure.
"""

from __future__ import annotations

import dataclasses
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from erasable.core.arrays import Array, Booleans, Float64s, Int64s
from erasable.core.names import keyed_hash
from erasable.errors import ConfigurationError, InputTypeError
from erasable.schemas.cells import VERSION, Cells, Kind, canonical_text, canonical_texts, folded, read_numbers
from erasable.schemas.encode import (
    ABSENT,
    ONE,
    Entry,
    Features,
    Flags,
    Group,
    JoinedCodes,
    OneHot,
    Scaled,
    Thermometer,
    log_share,
)
from erasable.validation import choice, finite_number, positive_number, switch, whole_number

MOST_PLACES = 2**24
_MOST_LISTED = 2**16
_MOST_EDGES = 10_000
_FEWEST_JOINED = 4  # features of the coarsest of several scales, at least
_HASH_KEY = 1  # public, and the same for all schemas


def hashed_places(texts: Sequence[str], n: int) -> Int64s:
    """The places of texts among n: their 64-bit keyed BLAKE2b under a public key, modulo n."""
    encoded = [t.encode("utf-8", "surrogatepass") for t in texts]  # broken texts have a hash, too
    return (keyed_hash(encoded, _HASH_KEY) % np.uint64(n)).astype(np.int64) if encoded else np.empty(0, np.int64)


# -- what all kinds share ----------------------------------------------------------------------------------------------

Check = Callable[[Any, str], Any]  # from a value and the name that messages give it to the canonical value


def parameter(default: Any, check: Check) -> Any:
    """A field of a kind with the function that checks it; None passes if it is the default."""
    return field(default=default, metadata={"check": check})


def one_of(*known: str) -> Check:
    """A check for one of these texts."""
    return lambda value, name: choice(value, name, known)


def whole(least: int, most: int) -> Check:
    """A check for an integer between these two."""
    return lambda value, name: whole_number(value, name, least, most)


def increasing(least: int, most: int) -> Check:
    """A check for a list of so many increasing numbers."""

    def check(given: Any, name: str) -> tuple[float, ...]:
        if not isinstance(given, list | tuple) or not least <= len(given) <= most:
            raise ConfigurationError(f"{name} must be a list of {least} to {most} numbers, each above the one before.")
        values = tuple(finite_number(v, name) + 0.0 for v in given)
        if any(a >= b for a, b in pairwise(values)):
            raise ConfigurationError(f"{name} must increase: each above the one before.")
        return values

    return check


@dataclass(frozen=True, kw_only=True)
class Column(ABC):
    """A column that becomes features. Subclasses are frozen records of public parameters.

    Parameters
    ----------
    name : str
    fill : optional
        The value that stands for a missing cell. Without it the features of such a cell are zero.
    indicator : bool, default=True
        Add a feature that is one where the cell is missing.
    version : int, default=2
        The version of the schema, which all of its columns share.
    """

    KIND: ClassVar[str]
    HOLDS: ClassVar[tuple[str, ...]] = (Kind.TEXT, Kind.NUMBER)  # kinds of cells
    HOLDS_IN_VERSION_1: ClassVar[tuple[str, ...]] = (Kind.TEXT, Kind.NUMBER)
    ABSENT: ClassVar[str] = "missing"  # how people call what is encoded as a missing cell
    EMPTY: ClassVar[int] = -1  # the integer that stands for a missing cell

    name: str = field(metadata={"unwritten": True})
    fill: Any = None
    indicator: bool = parameter(True, switch)
    version: int = field(default=VERSION, metadata={"unwritten": True})

    def __post_init__(self) -> None:
        for each in dataclasses.fields(self):
            check, value = each.metadata.get("check"), getattr(self, each.name)
            if check is not None and not value is each.default is None:
                self._set(each.name, check(value, f"{self.where}: {each.name}"))
        self._check()
        if self.fill is not None:
            self._set("fill", self._canonical_fill())

    def _set(self, field_name: str, value: Any) -> None:
        """Set a field while the record is being made."""
        object.__setattr__(self, field_name, value)

    @property
    def where(self) -> str:
        """How messages name the column."""
        return f"column {self.name!r}"

    def _refused(self, problem: str) -> ConfigurationError:
        """An error about the parameters of this column."""
        return ConfigurationError(f"{self.where}: {problem}")

    def parameters(self) -> dict[str, Any]:
        """The parameters that differ from the default, those of the kind first."""
        shared = ("fill", "indicator")
        written = (f for f in dataclasses.fields(self) if "unwritten" not in f.metadata)
        own = sorted(written, key=lambda f: f.name in shared)
        return {f.name: getattr(self, f.name) for f in own if getattr(self, f.name) != f.default}

    # -- what each kind defines ------------------------------------------------------------------------------------

    def _check(self) -> None:  # noqa: B027
        """Refuse parameters that cannot work together, and make those that depend on others canonical."""

    @abstractmethod
    def _canonical_fill(self) -> Any:
        """The fill, canonical."""

    @property
    @abstractmethod
    def groups(self) -> tuple[Group, ...]:
        """The groups of features of a cell, without the indicator."""

    @abstractmethod
    def names(self) -> list[str]:
        """The names of the features, without the indicator."""

    @abstractmethod
    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Any, Flags]:
        """The value of each cell, and which cells are unknown or unparsable."""

    def _parts(self, values: Any, flags: Flags) -> Sequence[Array]:
        """For each group its codes or numbers; negative or NaN where a value is missing."""
        return (values,)

    @property
    def n_codes(self) -> int | None:
        """How many codes a cell may have in a cross, without that of missing cells; None where it has no code."""
        return None

    # -- what follows from it --------------------------------------------------------------------------------------

    @cached_property
    def own_width(self) -> int:
        """How many features, without the indicator."""
        return sum(group.width for group in self.groups)

    @property
    def width(self) -> int:
        """How many features."""
        return self.own_width + self.indicator

    @property
    def most(self) -> int:
        """How many features of a cell may differ from zero, without the indicator; of texts, how many often do."""
        return sum(group.most for group in self.groups)

    def feature_names(self) -> list[str]:
        """The names of the features."""
        return [*self.names(), f"{self.name}=(missing)"] if self.indicator else self.names()

    @property
    def square(self) -> int:
        """The largest square of the norm of the features, in squared steps."""
        square = sum(group.square for group in self.groups)
        if not self.indicator:
            return square
        return max(square, ONE) if self.fill is None else square + ONE

    def encode(self, cells: Cells, missing: Collection[str]) -> Features:
        """The features of the distinct cells."""
        return self.features_of(*self.read(cells, missing))

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Any, Flags]:
        """The value of each cell, and which cells are unknown or unparsable; refused if they are of another kind."""
        holds = self.HOLDS if self.version > 1 else self.HOLDS_IN_VERSION_1
        odd = sorted(cells.kinds.difference(holds))
        if odd and cells.are_all_missing():
            cells, odd = Cells(self.HOLDS[0], [None] * len(cells.values)), []
        if odd:
            raise InputTypeError(
                f"{self.where} holds {' and '.join(odd)}, and the schema says {self.KIND}: correct the schema, or the "
                "table."
            )
        return self._read(cells, missing)

    def features_of(self, values: Any, flags: Flags) -> Features:
        """The features of values that were read; values that are missing are overwritten by the fill."""
        empty = self._is_empty(values)
        flags["missing"] = empty.copy()
        for odd_cells in (flags.get("unknown"), flags.get("unparsable")):
            if odd_cells is not None:
                flags["missing"] &= ~odd_cells
        if self.fill is not None and empty.any():
            values[empty] = self._read(self._fill_cell(), ())[0][0]
        return self._indicated(self._features(values, flags), empty)

    def _indicated(self, features: Features, empty: Booleans) -> Features:
        """The features with the indicator of missing cells, if the column has one."""
        if self.indicator:
            features.entries = _with_indicator(features.entries, empty, self.own_width, alone=self.fill is None)
        return features

    # -- raw numbers: what learners see of a cell, and what is stored for them ---------------------------------------

    def raw_names(self) -> list[str]:
        """The names of the raw numbers of a cell."""
        return [self.name]

    @property
    def raw_codes(self) -> int | None:
        """How many codes the raw number may be, if it is the code of a category; None for a number with an order."""
        return None

    def to_raw(self, values: Any) -> Float64s:
        """Values that were read as float64 numbers, one row for each cell; NaN where a value is missing."""
        numbers: Float64s = values.astype(np.float64) + 0.0  # no minus zero
        numbers[self._is_empty(values)] = np.nan
        return numbers[:, None]

    def raw_features(self, raw: Float64s) -> Features:
        """The features of a column of raw numbers.

        *Law*: of ``to_raw(values)`` they are those of the values.
        """
        return self.features_of(self._from_raw(raw), {})

    def _from_raw(self, raw: Float64s) -> Any:
        return raw[:, 0].copy()

    def raw_fits(self, raw: Float64s) -> Booleans:
        """Which rows of raw numbers a cell can have."""
        return np.ones(len(raw), dtype=bool)

    def _is_empty(self, values: Any) -> Booleans:
        """Which values stand for missing cells."""
        empty: Booleans = np.isnan(values) if values.dtype.kind == "f" else values == self.EMPTY
        return empty

    def _features(self, values: Any, flags: Flags) -> Features:
        """The features of values without the indicator; none where a value is missing."""
        entries: list[Entry] = []
        first = 0
        parts = self._parts(values, flags)
        for group, part in zip(self.groups, parts, strict=True):
            entries += group.entries(part, first)
            first += group.width
        return Features(entries, flags, codes=None if self.n_codes is None else parts[0])

    def _fill_cell(self) -> Cells:
        """The fill as a cell."""
        return Cells(Kind.TEXT, [self.fill if isinstance(self.fill, str) else repr(self.fill)])


def _with_indicator(entries: list[Entry], empty: Booleans, place: int, *, alone: bool) -> list[Entry]:
    """Entries with the indicator, which takes the room of another feature if it is alone in its cell."""
    if not (alone and entries):
        return [*entries, (np.where(empty, place, ABSENT).astype(np.int32), None)]
    places, numbers = entries[0]
    first = np.where(empty, place, places).astype(np.int32)
    return [(first, None if numbers is None else np.where(empty, np.float32(1), numbers)), *entries[1:]]


# -- numbers -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Number(Column):
    """A number: clipped and scaled to one feature, or put into bins.

    Parameters
    ----------
    range : pair of numbers, optional
        What becomes -1 and 1; numbers beyond are clipped, and counted.
    scale : number, optional
        What becomes 1; its negative becomes -1, and numbers beyond are clipped.
    edges : list of numbers, optional
        Where a new bin begins: below the first, from each to the next, from the last on.
    spacing : "linear", "log" or "log1p", default="linear"
        How a range becomes [-1, 1]. "log" needs a range above 0; "log1p", the logarithm of ``1 + x``, one from 0 on.
    bins : "one-hot", "thermometer" or "multiscale", default="one-hot"
        For edges: one feature for the bin of the number; one for each edge that it reaches; or one for its bin, one for
        its pair of neighbouring bins, one for its four, and so on while there are four of them or more.

    Notes
    -----
    *Law*: bitwise the same on every machine. Bins compare float64 numbers. Linear scaling is one subtraction, division
    and rounding of IEEE 754. Logarithms are correctly rounded to multiples of ``2**-20``: by the library where they
    are nowhere near the middle of two, and by ball arithmetic otherwise.
    """

    KIND = "number"
    ABSENT = "missing, or no number"
    HOLDS_IN_VERSION_1 = (Kind.TEXT, Kind.NUMBER, Kind.DECIMAL)

    range: tuple[float, float] | None = parameter(None, increasing(2, 2))
    scale: float | None = parameter(None, positive_number)
    edges: tuple[float, ...] | None = parameter(None, increasing(1, _MOST_EDGES))
    spacing: str = parameter("linear", one_of("linear", "log", "log1p"))
    bins: str = parameter("one-hot", one_of("one-hot", "thermometer", "multiscale"))

    def _check(self) -> None:
        if sum(v is not None for v in (self.range, self.scale, self.edges)) != 1:
            raise self._refused("a number has one of range = [low, high], scale = s or edges = [...].")
        if self.spacing != "linear" and self.range is None:
            raise self._refused("spacing is for a range.")
        if self.bins != "one-hot" and self.edges is None:
            raise self._refused("bins are for edges.")
        if self.range is not None:
            low, high = self.range
            if not math.isfinite(high - low):
                raise self._refused("range is wider than float64 holds.")
            if (self.spacing == "log" and low <= 0) or (self.spacing == "log1p" and low != 0):
                raise self._refused("spacing log needs a range above 0, and log1p one that begins with 0.")
            if self.spacing == "log" and not math.isfinite(high / low):
                raise self._refused("range is too wide for a logarithm in float64.")

    def _canonical_fill(self) -> float:
        return finite_number(self.fill, f"{self.where}: fill") + 0.0

    @property
    def n_codes(self) -> int | None:
        """The number of bins."""
        return None if self.edges is None else len(self.edges) + 1

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """A scaled number, or bins."""
        if self.n_codes is None:
            return (Scaled(1),)
        if self.bins == "multiscale":
            return JoinedCodes.halved(self.n_codes, _FEWEST_JOINED)
        return (Thermometer.of(self.n_codes) if self.bins == "thermometer" else OneHot(self.n_codes),)

    def names(self) -> list[str]:
        """The name; for bins with their edges."""
        if self.edges is None:
            return [self.name]
        shown = [f"{e:g}" if float(f"{e:g}") == e else repr(e) for e in self.edges]
        if self.bins == "thermometer":
            return [f"{self.name}>={e}" for e in shown]
        names = self._bin_names(shown)
        for group in self.groups[1:]:
            run = group.run  # type: ignore[attr-defined]
            names += [f"{n} (of {run} bins)" for n in self._bin_names(shown[run - 1 :: run])]
        return names

    def _bin_names(self, edges: Sequence[str]) -> list[str]:
        between = [f"{a}<={self.name}<{b}" for a, b in pairwise(edges)]
        return [f"{self.name}<{edges[0]}", *between, f"{self.name}>={edges[-1]}"]

    @property
    def ends(self) -> tuple[float, float]:
        """The numbers that are scaled to -1 and 1."""
        return self.range or (-(self.scale or 1.0), self.scale or 1.0)

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Float64s, Flags]:
        values, bad = read_numbers(cells, missing, self.version)
        return values, {"unparsable": bad}

    def _parts(self, values: Float64s, flags: Flags) -> Sequence[Array]:
        if self.edges is not None:
            codes = np.searchsorted(np.array(self.edges), values, side="right").astype(np.int64)
            codes[np.isnan(values)] = -1
            return (codes,) * len(self.groups)
        low, high = self.ends
        with np.errstate(invalid="ignore"):
            flags["clipped"] = (values < low) | (values > high)
        inside = np.clip(values, low, high)
        if self.spacing != "linear":
            return (log_share(inside, low, high, shifted=self.spacing == "log1p"),)
        return (inside / high if self.range is None else (inside - low) / (high - low) * 2.0 - 1.0,)


# -- categories, levels, yes or no -------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Coded(Column):
    """A column whose cells have codes 0, 1, ..., or none."""

    HOLDS = (Kind.TEXT, Kind.NUMBER, Kind.DATE, Kind.TIME)

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """A thermometer, one feature for each code above the first."""
        return (Thermometer.of(self.n_codes or 0),)

    def _listed(self, given: Any, parameter: str, least: int) -> tuple[str, ...]:
        """The values that a parameter lists, as canonical texts."""
        if not isinstance(given, list | tuple) or not all(isinstance(v, str | int | float) for v in given):
            raise self._refused(f"{parameter} must be a list of texts, numbers or truths.")
        values = tuple(canonical_text(v, self.version) for v in given)
        if len(values) < least:
            raise self._refused(f"{parameter} must list {least} or more; got {len(values)}.")
        if len(values) > _MOST_LISTED and self.version > 1:
            raise self._refused(
                f"{parameter} lists {len(values):,}, and {_MOST_LISTED:,} are allowed: give hashed = n."
            )
        if len(set(values)) < len(values):
            double = len(values) - len(set(values))
            raise self._refused(f"{parameter} lists {double} of its {len(values)} twice (39, 39.0 and ' 39' are one).")
        return values

    def _from_raw(self, raw: Float64s) -> Int64s:
        return np.where(np.isnan(raw[:, 0]), -1.0, raw[:, 0]).astype(np.int64)

    def raw_fits(self, raw: Float64s) -> Booleans:
        """None, or one of the codes."""
        return np.isnan(raw[:, 0]) | np.isin(raw[:, 0], np.arange(float(self.n_codes or 0)))

    def _codes_of(
        self, cells: Cells, missing: Collection[str], known: dict[str, int], other: int
    ) -> tuple[Int64s, Flags]:
        """The codes of cells, ``other`` for values that are not known."""
        texts = canonical_texts(cells, missing, self.version)
        codes = np.array([-1 if t is None else known.get(t, other) for t in texts], dtype=np.int64)
        unknown = np.array([t is not None and t not in known for t in texts], dtype=bool)
        return codes, {"unknown": unknown}


@dataclass(frozen=True, kw_only=True)
class Category(Coded):
    """One of a list, with a place for all other values; or hashed into a number of places. One-hot.

    Parameters
    ----------
    values : list, optional
        Texts, numbers or truth values, compared by their canonical texts.
    hashed : int, optional
        The number of places, instead of a list.
    """

    KIND = "category"

    values: tuple[str, ...] | None = None
    hashed: int | None = parameter(None, whole(1, MOST_PLACES))

    def _check(self) -> None:
        if (self.values is None) == (self.hashed is None):
            raise self._refused("a category has either values, a list, or hashed, a number of places.")
        if self.values is not None:
            self._set("values", self._listed(self.values, "values", 1))

    def _canonical_fill(self) -> str:
        if not isinstance(self.fill, str | int | float):
            raise self._refused("fill must be a text, a number or a truth.")
        return canonical_text(self.fill, self.version)

    @property
    def n_codes(self) -> int:
        """The list and the others, or the places."""
        return self.hashed if self.values is None else len(self.values) + 1  # type: ignore[return-value]

    @property
    def raw_codes(self) -> int:
        """The codes have no order."""
        return self.n_codes

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """One feature for each code."""
        return (OneHot(self.n_codes),)

    def names(self) -> list[str]:
        """Name and value."""
        if self.values is None:
            return [f"{self.name}#{j}" for j in range(self.n_codes)]
        return [*(f"{self.name}={v}" for v in self.values), f"{self.name}=(others)"]

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        if self.values is not None:
            known = {v: j for j, v in enumerate(self.values)}
            return self._codes_of(cells, missing, known, len(known))
        texts = canonical_texts(cells, missing, self.version)
        codes = np.full(len(texts), -1, dtype=np.int64)
        present = [j for j, t in enumerate(texts) if t is not None]
        codes[present] = hashed_places([texts[j] for j in present], self.n_codes)  # type: ignore[misc]
        return codes, {}


@dataclass(frozen=True, kw_only=True)
class Ordered(Coded):
    """One of levels that have an order: a thermometer, one feature for each level above the first that is reached.

    Parameters
    ----------
    levels : list
        From the lowest. A cell that is none of them counts as unknown and is encoded as a missing one.
    """

    KIND = "ordered"
    ABSENT = "missing, or none of the levels"

    levels: tuple[str, ...] = ()

    def _check(self) -> None:
        self._set("levels", self._listed(self.levels, "levels", 2))

    def _canonical_fill(self) -> str:
        fill = canonical_text(self.fill, self.version) if isinstance(self.fill, str | int | float) else None
        if fill not in self.levels:
            raise self._refused("fill must be one of the levels.")
        return fill

    @property
    def n_codes(self) -> int:
        """The number of levels."""
        return len(self.levels)

    def names(self) -> list[str]:
        """Name and level."""
        return [f"{self.name}>={level}" for level in self.levels[1:]]

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        return self._codes_of(cells, missing, {v: j for j, v in enumerate(self.levels)}, -1)


@dataclass(frozen=True, kw_only=True)
class YesNo(Coded):
    """Yes or no: one feature, 1 or 0.

    Parameters
    ----------
    yes, no : lists of texts
        Spellings, in any ASCII capitals. A cell that is none of them counts as unknown and is encoded as a missing one.
    """

    KIND = "yes/no"
    ABSENT = "missing, or neither yes nor no"

    yes: tuple[str, ...] = ("1", "t", "true", "y", "yes")
    no: tuple[str, ...] = ("0", "f", "false", "n", "no")

    def _check(self) -> None:
        for parameter in ("yes", "no"):
            given = self._listed(getattr(self, parameter), parameter, 1)
            self._set(parameter, tuple(sorted({folded(v) for v in given})))
        if set(self.yes) & set(self.no):
            raise self._refused("a spelling is listed under both yes and no.")

    def _canonical_fill(self) -> str:
        fill = folded(canonical_text(self.fill, self.version)) if isinstance(self.fill, str | int | float) else None
        if fill not in (*self.yes, *self.no):
            raise self._refused("fill must be one of the spellings of yes or no.")
        return fill

    @property
    def n_codes(self) -> int:
        """No and yes."""
        return 2

    def names(self) -> list[str]:
        """The name."""
        return [self.name]

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Int64s, Flags]:
        known = {**dict.fromkeys(self.no, 0), **dict.fromkeys(self.yes, 1)}
        texts = [None if t is None else folded(t) for t in canonical_texts(cells, missing, self.version)]
        return self._codes_of(Cells(Kind.TEXT, texts), (), known, -1)
