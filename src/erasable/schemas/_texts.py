"""Columns of free text, hashed into places, and of vectors. Pure.

Small letters are those of :func:`~erasable.schemas._cells.lowered`. A word is a run of letters and digits of ASCII,
underscores, and all characters beyond ASCII but those of ``_BETWEEN``: a rule that no version of Unicode changes.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Booleans, Float64s, Int64s
from erasable.schemas._base import NOWHERE, ONE, STEPS, Block, Column, Flags
from erasable.schemas._cells import (
    CLOCK,
    MOMENT,
    NUMBER,
    PADDED,
    RESPELT,
    TEXT,
    VECTOR,
    Cells,
    lowered,
    raw_texts_of,
    texts_of,
)
from erasable.schemas._placed import MOST_PLACES, places_of
from erasable.schemas._told import Bounds, Told, about, scale_of_length
from erasable.validation import finite_number, positive_number, whole_number

# What stands between words beyond ASCII: controls and signs of Latin-1, general punctuation, CJK punctuation, and the
# full-width forms of the signs of ASCII.
_BETWEEN = "\x80-\xbf\xd7\xf7\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"
_WORD = re.compile(rf"[a-z0-9_]*(?:[^\x00-\x7f{_BETWEEN}][a-z0-9_]*)+|[a-z0-9_]+")
_ASCII_WORD = re.compile("[a-z0-9_]+")  # the same, faster
_PART = 2**14  # words or characters of a text whose terms are counted at a time
_OFTEN = 64  # terms that are different in a text of usual length
_MOST_TERMS = 10
_SHOWN = 16  # places of a text, and numbers of a vector, that are shown to people


@dataclass(frozen=True, kw_only=True)
class Text(Column):
    """Free text: its words, or runs of its characters, hashed into places and counted.

    Counts are capped, and then divided by their norm, downwards to multiples of ``2**-20``: the features of a text
    have a norm of about one, and never more, however long it is. A long text is read until every place has its largest
    count.

    Parameters
    ----------
    words : pair of int, optional
        Shortest and longest run of words that counts as a term; [1, 1] is single words.
    characters : pair of int, optional
        Instead: shortest and longest run of characters, with one space between words and at both ends.
    places : int, default=256
        How many features.
    cap : int, default=3
        The largest count.
    """

    KIND = "text"
    HOLDS = (TEXT, NUMBER, MOMENT, CLOCK)
    DOUBTS = (RESPELT, PADDED)

    words: tuple[int, int] | None = None
    characters: tuple[int, int] | None = None
    places: int = 256
    cap: int = 3

    def check(self) -> None:
        """One of words and characters."""
        if (self.words is None) == (self.characters is None):
            raise self.refused("a text has either words = [1, 1] or characters = [3, 5], say.")
        for parameter in ("words", "characters"):
            pair: Any = getattr(self, parameter)
            if pair is None:
                continue
            if not isinstance(pair, list | tuple) or len(pair) != 2:
                raise self.refused(f"{parameter} must be the shortest and the longest run.")
            low, high = (whole_number(n, f"{self.where}: {parameter}", 1, _MOST_TERMS) for n in pair)
            if low > high:
                raise self.refused(f"{parameter} must have the shortest run first: write [{high}, {low}].")
            self.set(parameter, (low, high))
        whole_number(self.places, f"{self.where}: places", 1, MOST_PLACES)
        whole_number(self.cap, f"{self.where}: cap", 1, 1000)

    def checked_fill(self) -> str:
        """A text."""
        if not isinstance(self.fill, str):
            raise self.refused("fill must be a text.")
        return self.fill

    @property
    def own_width(self) -> int:
        """The places: millions of names are not made to be counted."""
        return self.places

    def names(self) -> list[str]:
        """Name and place."""
        return [f"{self.name}#{j}" for j in range(self.places)]

    @property
    def square(self) -> int:
        """Of one."""
        return ONE

    @property
    def most(self) -> int:
        """As many as there often are."""
        return min(self.places, _OFTEN)

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[npt.NDArray[np.object_], Flags]:
        """Texts, None where missing."""
        texts = texts_of(cells, missing) if self.version > 1 else raw_texts_of(cells, missing)
        values = np.empty(len(texts), dtype=object)
        values[:] = texts
        return values, {}

    def is_empty(self, values: npt.NDArray[np.object_]) -> Booleans:
        """Which are None."""
        return np.array([v is None for v in values], dtype=bool)

    def terms(self, text: str) -> Iterator[list[str]]:
        """The terms of a text, with repetitions: those that begin in one part of it, then in the next."""
        words: list[str] = (_ASCII_WORD if text.isascii() else _WORD).findall(lowered(text))
        low, high = self.words or self.characters or (1, 1)
        line: Any = words if self.words is not None else f" {' '.join(words)} " if words else ""
        for first in range(0, len(line), _PART):
            starts = {n: range(first, min(first + _PART, len(line) - n + 1)) for n in range(low, high + 1)}
            if self.words == (1, 1):
                yield words[first : first + _PART]
            elif self.words is not None:
                yield [" ".join(words[i : i + n]) for n, part in starts.items() for i in part]
            else:
                yield [line[i : i + n] for n, part in starts.items() for i in part]

    def _long(self, parts: Iterator[list[str]]) -> list[int]:
        """The places of a long text, as often as they count: once all are at the cap, no further term changes them."""
        counts = np.zeros(self.places, dtype=np.int64)
        for terms in parts:
            often = Counter(terms)
            np.add.at(counts, places_of(list(often), self.places), list(often.values()))
            np.minimum(counts, self.cap, out=counts)
            if counts.min() == self.cap:
                break
        found: list[int] = np.repeat(np.arange(self.places), counts).tolist()
        return found

    def encode(self, values: npt.NDArray[np.object_], flags: Flags) -> Block:
        """Sparse rows."""
        number: defaultdict[str, int] = defaultdict()  # of each term, which the first look at it gives it
        number.default_factory = number.__len__
        found: list[int] = []
        ends = [0]
        for text in values:
            if text is not None and len(text) > _PART:
                found.extend(-1 - p for p in self._long(self.terms(text)))
            elif text is not None:
                for terms in self.terms(text):
                    found.extend(map(number.__getitem__, terms))
            ends.append(len(found))
        which = np.array(found, dtype=np.int64)
        places = -1 - which  # of long texts; of the others the numbers of terms stand there
        places[which >= 0] = places_of(list(number), self.places)[which[which >= 0]]
        counts = sp.csr_array(
            (np.ones(len(found), dtype=np.int64), places, np.array(ends)), shape=(len(values), self.places)
        )
        counts.sum_duplicates()
        np.minimum(counts.data, self.cap, out=counts.data)
        row = np.repeat(np.arange(len(values)), np.diff(counts.indptr))
        squares = np.bincount(row, weights=counts.data**2, minlength=len(values))  # whole numbers: exact
        steps = np.floor(counts.data * float(STEPS) / np.sqrt(squares)[row])
        return Block([], {}, rows=_rows(steps, counts.indices, counts.indptr, counts.shape))

    def told(self, own: Bounds) -> Told:
        """Which places its terms were hashed into, and how often, up to a common factor."""
        there = np.flatnonzero(own.low > 0)
        least = 1.0 / math.sqrt((self.places - 1) * self.cap**2 + 1)  # a place that is not zero has more
        perhaps = bool((np.delete(own.high, there) >= least - 2.0 / STEPS).any())
        counts = self._stored_counts(own[there])
        often = [str(p) if n is None or n == 1 else f"{p} ({n} times)" for p, n in zip(there, counts, strict=True)]
        more = f" and {len(often) - _SHOWN:,} more" if len(often) > _SHOWN else ""
        what = f"places {', '.join(often[:_SHOWN])}{more} of {self.places:,}" if often else "no place"
        text = f"{what}{', and perhaps rare ones' if perhaps else ''}: the words that were hashed are not stored"
        facts = {"places": {str(p): n for p, n in zip(there.tolist(), counts, strict=True)}, "of": self.places}
        return Told(text, facts={**facts, "complete": not perhaps})

    def _stored_counts(self, own: Bounds) -> list[int | None]:
        """The smallest counts whose features are within bounds; None where there are none, as on a coarse grid."""
        middles = (own.low + own.high) / 2
        for top in range(1, self.cap + 1) if len(middles) else ():
            counts = np.clip(np.rint(middles * (top / middles.max())), 1, self.cap)
            features = np.floor(counts * STEPS / np.sqrt((counts**2).sum())) / STEPS
            if own.may_be(features).all():
                return [int(c) for c in counts]
        return [None] * len(middles)

    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """Their norm is one, but for what was rounded down."""
        yield scale_of_length(own, 1.0 - math.sqrt(self.places) / STEPS, 1.0)


def _rows(steps: Float64s, indices: Any, indptr: Any, shape: tuple[int, int]) -> Any:
    parts = (steps / STEPS).astype(np.float32), indices.astype(np.int32), indptr.astype(np.int64)
    return sp.csr_array(parts, shape=shape)


@dataclass(frozen=True, kw_only=True)
class Vector(Column):
    """A list of numbers of one length, such as an embedding: divided by a public scale.

    A vector with a norm above the scale is shortened to it, and counted as clipped; one of another length, or with gaps
    or infinities, is unparsable and encoded as a missing one.

    Parameters
    ----------
    length : int
    scale : number, default=1
        The norm that becomes one.
    """

    KIND = "vector"
    ABSENT = "missing, or no such vector"
    HOLDS = (VECTOR,)

    length: int = 0
    scale: float = 1.0

    def check(self) -> None:
        """A length and a scale."""
        whole_number(self.length, f"{self.where}: length", 1, 2**16)
        self.set("scale", positive_number(self.scale, f"{self.where}: scale"))

    def checked_fill(self) -> tuple[float, ...]:
        """As many numbers."""
        if not isinstance(self.fill, list | tuple) or len(self.fill) != self.length:
            raise self.refused(f"fill must be a list of {self.length} numbers.")
        return tuple(finite_number(v, f"{self.where}: fill") + 0.0 for v in self.fill)

    def names(self) -> list[str]:
        """Name and place."""
        return [f"{self.name}[{j}]" for j in range(self.length)]

    @property
    def square(self) -> int:
        """Of one."""
        return ONE

    @property
    def most(self) -> int:
        """All of them."""
        return self.length

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Float64s, Flags]:
        """Vectors, rows of NaN where there are none."""
        given = cells.values
        if isinstance(given, np.ndarray) and given.shape[1] == self.length:
            values = given.copy()
            gone = np.zeros(len(given), dtype=bool)
        else:
            values = np.full((len(given), self.length), np.nan)
            gone = np.array([v is None for v in given], dtype=bool)
            fitting = [j for j, v in enumerate(given) if v is not None and len(v) == self.length]
            if fitting:
                values[fitting] = np.stack([given[j] for j in fitting])
        if cells.missing is not None:
            gone = gone | cells.missing
        bad = ~gone & ~np.isfinite(values).all(axis=1)
        values[gone | bad] = np.nan
        return values, {"unparsable": bad}

    def is_empty(self, values: Float64s) -> Booleans:
        """Which are rows of NaN."""
        return np.isnan(values[:, 0])

    def encode(self, values: Float64s, flags: Flags) -> Block:
        """One number for each place."""
        given = np.nan_to_num(values)
        largest = np.abs(given).max(axis=1)
        steps = np.rint(given / np.maximum(largest, self.scale)[:, None] * STEPS)
        whole: Int64s = steps.astype(np.int64)
        squares = (whole * whole).sum(axis=1)  # exact in whatever order
        flags["clipped"] = long = (squares > ONE) | (largest > self.scale)
        norms = np.sqrt(np.maximum(squares[long], ONE).astype(np.float64))
        steps[long] = np.trunc(steps[long] * STEPS / norms[:, None])
        out = (steps / STEPS).astype(np.float32)
        places = np.where(out == 0, NOWHERE, np.arange(self.length, dtype=np.int32))
        return Block([(places[:, j], out[:, j]) for j in range(self.length)], {})

    def told(self, own: Bounds) -> Told:
        """Between which numbers each was; where it may have been shortened, what it was shortened to."""
        step = (2.0 + 2.0**-20) / STEPS  # rounded, and where it was shortened cut off
        low, high = (own.low - step) * self.scale, (own.high + step) * self.scale
        clipped = own.lengths()[1] >= 1.0 - self.length * 2.0 / STEPS
        numbers = ", ".join(about(a, b) for a, b in zip(low[:_SHOWN].tolist(), high[:_SHOWN].tolist(), strict=True))
        more = f" and {self.length - _SHOWN:,} more" if self.length > _SHOWN else ""
        longer = "; or longer, in this direction (clipped)" if clipped else ""
        facts = {"low": low.tolist(), "high": high.tolist(), "clipped": clipped}
        return Told(f"{numbers}{more}{longer}", facts=facts)

    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """Nothing: its length is not known."""
        return iter(())
