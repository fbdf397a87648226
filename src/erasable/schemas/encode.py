"""From the values of cells to rows: groups of features, sparse rows made of them, and the report on the cells.

All encoded numbers are multiples of ``2**-20`` and at most one in size, so float32 holds each of them, and the norm of
the features of a cell is at most a public number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp

from erasable.core.arrays import Array, Booleans, Float32s, Float64s, Int64s, Integers

if TYPE_CHECKING:
    from erasable.schemas.schema import Schema

STEPS = 2**20  # encoded numbers are multiples of one over this
ONE = STEPS**2  # the square of one, in squared steps: squared norms are counted in these
_DOUBT = 2.0**-20  # of a step: logarithms of libraries are off by far less
ABSENT = -1  # the place of a feature that a cell does not have
COUNTS = ("missing", "unknown", "unparsable", "clipped")
Flags = dict[str, Booleans]  # for each of these, which cells it is true of
# The place of one feature of each cell, or ABSENT, and its numbers; None where all of them are one.
Entry = tuple[Integers, Float32s | None]


# -- groups of features ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Group:
    """Features that are made of one value of a cell.

    ``square`` is the largest square of their norm, in squared steps, and ``most`` how many of the ``width`` features
    may differ from zero; of texts, how many often do.
    """

    width: int
    square: int = ONE
    most: int = 1

    def entries(self, values: Array, first: int) -> Iterator[Entry]:
        """The features of values, at places from ``first`` on; none where a code is negative or a number NaN."""
        raise NotImplementedError


class Scaled(Group):
    """One number between -1 and 1, to the nearest multiple of ``2**-20``."""

    def entries(self, values: Float64s, first: int) -> Iterator[Entry]:
        """One entry; where the number is zero or NaN there is no feature."""
        rounded: Float32s = (np.rint(np.nan_to_num(values, nan=0.0) * STEPS) / STEPS).astype(np.float32)
        yield np.where(rounded == 0, ABSENT, first).astype(np.int32), rounded


class OneHot(Group):
    """A feature for each code."""

    run = 1  # neighbouring codes that share a feature

    @property
    def level(self) -> float:
        """The size of the feature of a code."""
        return 1.0

    def entries(self, values: Int64s, first: int) -> Iterator[Entry]:
        """One entry."""
        yield np.where(values < 0, ABSENT, values + first).astype(np.int32), None


@dataclass(frozen=True)
class JoinedCodes(OneHot):
    """A feature for each run of neighbouring codes: one of ``n_groups`` groups whose norm is one at most together."""

    run: int = 1
    n_groups: int = 1

    @classmethod
    def halved(cls, n_codes: int, least: int) -> tuple[JoinedCodes, ...]:
        """Groups of runs of 1, 2, 4, ... codes, as long as they have so many features; that of single codes first."""
        runs = [1]
        while -(-n_codes // (2 * runs[-1])) >= least:
            runs.append(2 * runs[-1])
        square = math.isqrt(ONE // len(runs)) ** 2
        return tuple(cls(-(-n_codes // run), square, run=run, n_groups=len(runs)) for run in runs)

    @property
    def level(self) -> float:
        """The size of the feature of a run."""
        return math.isqrt(ONE // self.n_groups) / STEPS

    def entries(self, values: Int64s, first: int) -> Iterator[Entry]:
        """One entry."""
        places = np.where(values < 0, ABSENT, values // self.run + first).astype(np.int32)
        yield places, np.full(len(values), self.level, dtype=np.float32)


class Thermometer(Group):
    """A feature for each code above the first that is reached, all of one size and of norm one at most."""

    @classmethod
    def of(cls, n_codes: int) -> Thermometer:
        """A thermometer of so many codes."""
        width = n_codes - 1
        return cls(width, width * math.isqrt(ONE // width) ** 2, width)

    @property
    def level(self) -> float:
        """The size of a feature that is reached."""
        return math.isqrt(ONE // self.width) / STEPS

    def entries(self, values: Int64s, first: int) -> Iterator[Entry]:
        """One entry for each feature."""
        level = np.full(len(values), self.level, dtype=np.float32)
        for j in range(self.width):
            yield np.where(values > j, first + j, ABSENT).astype(np.int32), level


@dataclass(frozen=True)
class Circle(Group):
    """Cosine and sine of the n-th parts of a circle, to the nearest multiples of ``2**-20``.

    None of them is near the middle of two such multiples, so every library rounds them alike; a test checks it.
    """

    n: int = 1

    @classmethod
    def of(cls, n: int) -> Circle:
        """A circle of n parts."""
        cosines, sines = cls(2, n=n).points
        return cls(2, int(((cosines * STEPS) ** 2 + (sines * STEPS) ** 2).max()), 2, n)

    @property
    def points(self) -> tuple[Float64s, Float64s]:
        """The cosines and the sines."""
        turns = [2 * math.pi * k / self.n for k in range(self.n)]
        cosines, sines = (np.array([round(f(t) * STEPS) / STEPS for t in turns]) for f in (math.cos, math.sin))
        return cosines, sines

    def entries(self, values: Int64s, first: int) -> Iterator[Entry]:
        """One entry for each of the two."""
        for k, table in enumerate(self.points):
            yield from Scaled(1).entries(np.where(values < 0, np.nan, table[values]), first + k)


def log_share(x: Float64s, low: float, high: float, *, shifted: bool) -> Float64s:
    """``2 t - 1`` rounded to steps, where ``t`` is the share of x in the logarithm of the range, or of ``1 + x``.

    The middle of two steps is never hit: ``t`` would be a fraction with denominator ``2**22``, and the range a power of
    a rational number with that exponent.
    """
    doubt = _DOUBT if shifted else max(_DOUBT, 2.0**-28 / math.log(high / low))  # x / low is rounded
    with np.errstate(invalid="ignore"):
        t = np.log1p(x) / math.log1p(high) if shifted else np.log(x / low) / math.log(high / low)
        steps = (2.0 * t - 1.0) * STEPS
        rounded = np.rint(steps)
        doubtful = np.abs(np.abs(steps - rounded) - 0.5) < doubt
    for j in np.flatnonzero(doubtful).tolist():
        rounded[j] = _nearest_step(float(x[j]), low, high, shifted=shifted)
    out: Float64s = np.clip(rounded, -STEPS, STEPS) / STEPS
    return out


def _nearest_step(x: float, low: float, high: float, *, shifted: bool) -> int:
    """The nearest integer to ``(2 t - 1) 2**20``, in ball arithmetic of as many bits as that takes."""
    from flint import arb, ctx  # imported where it is used: hardly ever

    bits = 128
    while True:
        with ctx.workprec(bits):
            top, whole = (arb(1) + x, arb(1) + high) if shifted else (arb(x) / low, arb(high) / low)
            steps = (2 * top.log() / whole.log() - 1) * STEPS
            nearest = (steps + arb(0.5)).floor()
            if nearest.is_exact():
                return int(str(nearest.unique_fmpz()))
        bits *= 2


# -- rows --------------------------------------------------------------------------------------------------------------


@dataclass
class Features:
    """The features of the distinct cells of a column."""

    entries: list[Entry]  # at most one feature of each cell per entry
    flags: Flags = field(default_factory=dict)  # which cells are missing, unknown, and so on
    rows: Any = None  # the first features of a column of texts, which have too many for entries
    codes: Integers | None = None  # the code of each cell, -1 where it has none: what crosses are made of

    def counts(self, inverse: Integers | None) -> dict[str, int]:
        """How many rows have a cell that is missing, unknown, and so on."""
        found = {what: self.flags[what] for what in COUNTS if what in self.flags and self.flags[what].any()}
        if not found or inverse is None:
            return {what: int(np.count_nonzero(mask)) for what, mask in found.items()}
        often = np.bincount(inverse, minlength=len(next(iter(found.values()))))
        return {what: int(often[mask].sum()) for what, mask in found.items()}


def for_each_row(values: Any, inverse: Integers | None) -> Any:
    """What is known of distinct cells, repeated for each row."""
    return values if inverse is None else values[inverse]


def join_features(n_rows: int, columns: Sequence[tuple[Features, Integers | None, int]]) -> Any:
    """The features of all columns side by side, as a csr_array of float32.

    Parameters
    ----------
    n_rows : int
    columns : sequence of (features, inverse, width)
        ``inverse`` has for each row the position of its cell among the distinct ones.
    """
    done: list[Any] = []
    entries: list[Entry] = []
    width = 0
    for features, inverse, own_width in columns:
        if features.rows is not None:
            if width:
                done.append(_sparse(n_rows, width, entries))
            done.append(for_each_row(features.rows, inverse))
            entries, width, shift = [], own_width - features.rows.shape[1], -features.rows.shape[1]
        else:
            width, shift = width + own_width, width
        for places, numbers in features.entries:
            shifted = np.where(places < 0, ABSENT, places + shift).astype(np.int32)
            entries.append(
                (for_each_row(shifted, inverse), None if numbers is None else for_each_row(numbers, inverse))
            )
    if width:
        done.append(_sparse(n_rows, width, entries))
    return done[0] if len(done) == 1 else sp.csr_array(sp.hstack(done, format="csr"))


def _sparse(n_rows: int, width: int, entries: list[Entry]) -> Any:
    shape = n_rows, len(entries)
    places, numbers = np.empty(shape, dtype=np.int32), np.ones(shape, dtype=np.float32)
    for j, (where, values) in enumerate(entries):
        places[:, j] = where
        if values is not None:
            numbers[:, j] = values
    present = places >= 0
    if present.all():
        parts = numbers.ravel(), places.ravel(), np.arange(n_rows + 1) * shape[1]
    else:
        parts = numbers[present], places[present], np.concatenate([[0], np.cumsum(np.count_nonzero(present, axis=1))])
    return sp.csr_array(parts, shape=(n_rows, width))


@dataclass(frozen=True)
class EncodingReport:
    """How many cells were missing, unknown, unparsable or clipped, by column: counts, never cells.

    Reports of blocks add up to that of the whole table.
    """

    n_rows: int
    # For each column with any, how many cells were "missing", "unknown" (not listed), "unparsable" (no number, date,
    # time or vector) and "clipped" (beyond the range).
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    extra: tuple[str, ...] = ()  # columns of the table that the schema does not name. They were ignored.

    def __post_init__(self) -> None:
        kept = {c: {w: n for w in COUNTS if (n := found.get(w, 0))} for c, found in self.counts.items()}
        object.__setattr__(self, "counts", {c: found for c, found in kept.items() if found})

    def __add__(self, other: EncodingReport) -> EncodingReport:
        both = {
            c: {w: self.counts.get(c, {}).get(w, 0) + other.counts.get(c, {}).get(w, 0) for w in COUNTS}
            for c in dict.fromkeys([*self.counts, *other.counts])
        }
        extra = tuple(dict.fromkeys([*self.extra, *other.extra]))
        return EncodingReport(self.n_rows + other.n_rows, both, extra)

    def __str__(self) -> str:
        lines = [f"{self.n_rows:,} rows"]
        for column, found in self.counts.items():
            lines.append(f"{column}: " + ", ".join(f"{n:,} {what}" for what, n in found.items()))
        if self.extra:
            lines.append(f"ignored, not in the schema: {', '.join(self.extra)}")
        return "\n".join(lines)


class EncodedTable:
    """The rows of a table, encoded by a schema: one-dimensional, since a row of a table is one thing.

    ``report`` counts what became of the cells; rows that are taken from a table have none. ``raw`` are the raw numbers
    of the cells, for models with a learner that sees these; otherwise None.
    """

    ndim = 1

    def __init__(
        self, schema: Schema, rows: Any, report: EncodingReport | None = None, raw: Float64s | None = None
    ) -> None:
        self.schema, self.rows, self.report, self.raw = schema, rows, report, raw
        self.shape = (rows.shape[0],)

    @classmethod
    def joined(cls, parts: Sequence[EncodedTable]) -> EncodedTable:
        """The rows of all parts, of one schema."""
        reports = [part.report for part in parts if part.report is not None]
        whole = sum(reports, EncodingReport(0)) if len(reports) == len(parts) else None
        raw = [part.raw for part in parts if part.raw is not None]
        rows = sp.vstack([part.rows for part in parts], format="csr")
        return cls(parts[0].schema, rows, whole, np.concatenate(raw) if raw else None)

    def __len__(self) -> int:
        return int(self.rows.shape[0])

    def __getitem__(self, which: Any) -> EncodedTable:
        """Some of the rows."""
        return EncodedTable(self.schema, self.rows[which], raw=None if self.raw is None else self.raw[which])
