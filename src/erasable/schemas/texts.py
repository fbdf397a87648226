"""Columns of free text, hashed into places, and of vectors. Pure.

Small letters are those of :func:`~erasable.schemas.cells.lowered`. A word is a run of ASCII letters and digits,
underscores, and all characters beyond ASCII but those of ``_BETWEEN``: a rule that no version of Unicode changes.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Booleans, Float64s, Int64s
from erasable.errors import ConfigurationError
from erasable.schemas.cells import Cells, Kind, canonical_texts, lowered, stripped_texts
from erasable.schemas.columns import MOST_PLACES, Column, hashed_places, parameter, whole
from erasable.schemas.encode import ABSENT, ONE, STEPS, Features, Flags, Group
from erasable.validation import finite_number, positive_number, whole_number

# What separates words beyond ASCII: controls and signs of Latin-1, general punctuation, CJK punctuation, and the
# full-width forms of ASCII signs.
_BETWEEN = "\x80-\xbf\xd7\xf7\u2000-\u206f\u3000-\u303f\uff00-\uff0f\uff1a-\uff20"
_WORD = re.compile(rf"[a-z0-9_]*(?:[^\x00-\x7f{_BETWEEN}][a-z0-9_]*)+|[a-z0-9_]+")
_ASCII_WORD = re.compile("[a-z0-9_]+")  # the same, faster
_PART = 2**14  # words or characters of a text whose terms are counted at a time
_OFTEN = 64  # different terms in a text of usual length
_MOST_TERMS = 10


def _run_lengths(pair: Any, name: str) -> tuple[int, int]:
    if not isinstance(pair, list | tuple) or len(pair) != 2:
        raise ConfigurationError(f"{name} must be the shortest and the longest run.")
    low, high = (whole_number(n, name, 1, _MOST_TERMS) for n in pair)
    if low > high:
        raise ConfigurationError(f"{name} must have the shortest run first: write [{high}, {low}].")
    return low, high


@dataclass(frozen=True, kw_only=True)
class Text(Column):
    """Free text: its words, or runs of its characters, hashed into places and counted.

    Counts are capped and divided by their norm, downwards to multiples of ``2**-20``: the features of a text have a
    norm of about one, and never more, however long it is. A long text is read until every place has its largest count.

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
    HOLDS = (Kind.TEXT, Kind.NUMBER, Kind.DATE, Kind.TIME)

    words: tuple[int, int] | None = parameter(None, _run_lengths)
    characters: tuple[int, int] | None = parameter(None, _run_lengths)
    places: int = parameter(256, whole(1, MOST_PLACES))
    cap: int = parameter(3, whole(1, 1000))

    def _check(self) -> None:
        if (self.words is None) == (self.characters is None):
            raise self._refused("a text has either words = [1, 1] or characters = [3, 5], say.")

    def _canonical_fill(self) -> str:
        if not isinstance(self.fill, str):
            raise self._refused("fill must be a text.")
        return self.fill

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """The places."""
        return (Group(self.places, most=min(self.places, _OFTEN)),)

    def names(self) -> list[str]:
        """Name and place."""
        return [f"{self.name}#{j}" for j in range(self.places)]

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[npt.NDArray[np.object_], Flags]:
        texts = canonical_texts(cells, missing) if self.version > 1 else stripped_texts(cells, missing)
        values = np.empty(len(texts), dtype=object)
        values[:] = texts
        return values, {}

    def _is_empty(self, values: npt.NDArray[np.object_]) -> Booleans:
        return np.array([v is None for v in values], dtype=bool)

    def raw_names(self) -> list[str]:
        """Name and place."""
        return self.names()

    def to_raw(self, values: npt.NDArray[np.object_]) -> Float64s:
        """The features: what words are in their places is not stored."""
        raw: Float64s = self._features(values, {}).rows.toarray().astype(np.float64)
        raw[self._is_empty(values)] = np.nan
        return raw

    def raw_fits(self, raw: Float64s) -> Booleans:
        """None, or numbers between 0 and 1 in whole steps."""
        with np.errstate(invalid="ignore"):
            fits = (raw >= 0) & (raw <= 1) & (raw * STEPS == np.rint(raw * STEPS))
        return np.asarray(np.isnan(raw).all(axis=1) | fits.all(axis=1))

    def raw_features(self, raw: Float64s) -> Features:
        """See :class:`Column`."""
        empty = np.isnan(raw[:, 0])
        features = np.where(empty[:, None], 0.0, raw)
        if self.fill is not None:
            features[empty] = self.to_raw(self._read(self._fill_cell(), ())[0])[0]
        return self._indicated(Features([], rows=sp.csr_array(features.astype(np.float32))), empty)

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

    def _long_text(self, parts: Iterator[list[str]]) -> list[int]:
        """The places of a long text, as often as they count: once all are at the cap, no further term changes them."""
        counts = np.zeros(self.places, dtype=np.int64)
        for terms in parts:
            often = Counter(terms)
            np.add.at(counts, hashed_places(list(often), self.places), list(often.values()))
            np.minimum(counts, self.cap, out=counts)
            if counts.min() == self.cap:
                break
        found: list[int] = np.repeat(np.arange(self.places), counts).tolist()
        return found

    def _features(self, values: npt.NDArray[np.object_], flags: Flags) -> Features:
        number: defaultdict[str, int] = defaultdict()  # each term gets its number when it first appears
        number.default_factory = number.__len__
        found: list[int] = []
        ends = [0]
        for text in values:
            if text is not None and len(text) > _PART:
                found.extend(-1 - p for p in self._long_text(self.terms(text)))
            elif text is not None:
                for terms in self.terms(text):
                    found.extend(map(number.__getitem__, terms))
            ends.append(len(found))
        which = np.array(found, dtype=np.int64)
        places = -1 - which  # right for long texts; the terms of the others follow
        places[which >= 0] = hashed_places(list(number), self.places)[which[which >= 0]]
        counts = sp.csr_array(
            (np.ones(len(found), dtype=np.int64), places, np.array(ends)), shape=(len(values), self.places)
        )
        counts.sum_duplicates()
        np.minimum(counts.data, self.cap, out=counts.data)
        row = np.repeat(np.arange(len(values)), np.diff(counts.indptr))
        squares = np.bincount(row, weights=counts.data**2, minlength=len(values))  # whole numbers: exact
        steps = np.floor(counts.data * float(STEPS) / np.sqrt(squares)[row])
        parts = (steps / STEPS).astype(np.float32), counts.indices.astype(np.int32), counts.indptr.astype(np.int64)
        return Features([], flags, rows=sp.csr_array(parts, shape=counts.shape))


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
    HOLDS = HOLDS_IN_VERSION_1 = (Kind.VECTOR,)

    length: int = parameter(0, whole(1, 2**16))
    scale: float = parameter(1.0, positive_number)

    def _canonical_fill(self) -> tuple[float, ...]:
        if not isinstance(self.fill, list | tuple) or len(self.fill) != self.length:
            raise self._refused(f"fill must be a list of {self.length} numbers.")
        return tuple(finite_number(v, f"{self.where}: fill") + 0.0 for v in self.fill)

    def _fill_cell(self) -> Cells:
        return Cells(Kind.VECTOR, np.array([self.fill], dtype=np.float64))

    @cached_property
    def groups(self) -> tuple[Group, ...]:
        """All numbers."""
        return (Group(self.length, most=self.length),)

    def names(self) -> list[str]:
        """Name and place."""
        return [f"{self.name}[{j}]" for j in range(self.length)]

    def _read(self, cells: Cells, missing: Collection[str]) -> tuple[Float64s, Flags]:
        given = cells.values
        if isinstance(given, np.ndarray) and given.shape[1] == self.length:
            values = given.copy()
            absent = np.zeros(len(given), dtype=bool)
        else:
            values = np.full((len(given), self.length), np.nan)
            absent = np.array([v is None for v in given], dtype=bool)
            fitting = [j for j, v in enumerate(given) if v is not None and len(v) == self.length]
            if fitting:
                values[fitting] = np.stack([given[j] for j in fitting])
        if cells.missing is not None:
            absent = absent | cells.missing
        bad = ~absent & ~np.isfinite(values).all(axis=1)
        values[absent | bad] = np.nan
        return values, {"unparsable": bad}

    def raw_names(self) -> list[str]:
        """Name and place."""
        return self.names()

    def to_raw(self, values: Float64s) -> Float64s:
        """The numbers of the vector."""
        return values + 0.0

    def raw_fits(self, raw: Float64s) -> Booleans:
        """None, or finite numbers."""
        return np.asarray(np.isnan(raw).all(axis=1) | np.isfinite(raw).all(axis=1))

    def _from_raw(self, raw: Float64s) -> Float64s:
        return raw.copy()

    def _is_empty(self, values: Float64s) -> Booleans:
        return np.isnan(values[:, 0])

    def _features(self, values: Float64s, flags: Flags) -> Features:
        given = np.nan_to_num(values)
        largest = np.abs(given).max(axis=1)
        steps = np.rint(given / np.maximum(largest, self.scale)[:, None] * STEPS)
        whole: Int64s = steps.astype(np.int64)
        squares = (whole * whole).sum(axis=1)  # exact in any order
        flags["clipped"] = long = (squares > ONE) | (largest > self.scale)
        norms = np.sqrt(np.maximum(squares[long], ONE).astype(np.float64))
        steps[long] = np.trunc(steps[long] * STEPS / norms[:, None])
        out = (steps / STEPS).astype(np.float32)
        places = np.where(out == 0, ABSENT, np.arange(self.length, dtype=np.int32))
        return Features([(places[:, j], out[:, j]) for j in range(self.length)], flags)
