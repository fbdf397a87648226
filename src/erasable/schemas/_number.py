"""Columns of numbers: scaled into [-1, 1], or put into bins. Pure."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Float64s
from erasable.schemas._base import ONE, STEPS, Block, Column, Flags, code_entries, numbers_entry, share
from erasable.schemas._cells import Cells, numbers_of
from erasable.schemas._told import Bounds, Told, between, scales_of
from erasable.validation import choice, finite_number, positive_number

SPACINGS = ("linear", "log", "log1p")
_MOST_EDGES = 10_000
_ROUNDING = 2.0**-48  # of a few operations in float64, and more; logarithms may reach 2**10
_DOUBT = 2.0**-20  # of a step: logarithms of libraries are off by far less


@dataclass(frozen=True, kw_only=True)
class Number(Column):
    """A number: clipped and scaled, one feature; or in bins.

    Parameters
    ----------
    range : pair of numbers, optional
        What becomes -1 and 1; what is beyond is clipped, and counted.
    scale : number, optional
        What becomes 1; its negative becomes -1, and what is beyond is clipped.
    edges : list of numbers, optional
        Where a new bin begins: below the first, from each to the next, from the last on.
    spacing : "linear", "log" or "log1p", default="linear"
        For a range: how it becomes [-1, 1]. "log" needs a range above 0, "log1p", the logarithm of ``1 + x``, one from
        0 on.
    bins : "one-hot" or "thermometer", default="one-hot"
        For edges: one feature for the bin that it is in, or one for each edge that is reached.

    Notes
    -----
    *Law*: bitwise the same on every machine. Bins compare float64 numbers. Linear scaling is one subtraction, division
    and rounding, each as IEEE 754 has it. Logarithms are correctly rounded to multiples of ``2**-20``: those of the
    library where they are nowhere near the middle of two, those of ball arithmetic in the other cases.
    """

    KIND = "number"
    ABSENT = "missing, or no number"

    range: tuple[float, float] | None = None
    scale: float | None = None
    edges: tuple[float, ...] | None = None
    spacing: str = "linear"
    bins: str = "one-hot"

    def check(self) -> None:
        """One of range, scale and edges."""
        if sum(v is not None for v in (self.range, self.scale, self.edges)) != 1:
            raise self.refused("a number has one of range = [low, high], scale = s or edges = [...].")
        choice(self.spacing, f"{self.where}: spacing", SPACINGS)
        choice(self.bins, f"{self.where}: bins", ("one-hot", "thermometer"))
        if self.spacing != "linear" and self.range is None:
            raise self.refused("spacing is for a range.")
        if self.bins != "one-hot" and self.edges is None:
            raise self.refused("bins are for edges.")
        if self.scale is not None:
            self.set("scale", positive_number(self.scale, f"{self.where}: scale"))
        if self.range is not None:
            low, high = self._increasing(self.range, "range", 2, 2)
            if not math.isfinite(high - low):
                raise self.refused("range is wider than float64 holds.")
            if (self.spacing == "log" and low <= 0) or (self.spacing == "log1p" and low != 0):
                raise self.refused("spacing log needs a range above 0, and log1p one that begins with 0.")
            if self.spacing == "log" and not math.isfinite(high / low):
                raise self.refused("range is too wide for a logarithm in float64.")
            self.set("range", (low, high))
        if self.edges is not None:
            self.set("edges", self._increasing(self.edges, "edges", 1, _MOST_EDGES))

    def _increasing(self, given: Any, parameter: str, least: int, most: int) -> tuple[float, ...]:
        if not isinstance(given, list | tuple) or not least <= len(given) <= most:
            raise self.refused(f"{parameter} must be a list of {least} to {most} numbers, each above the one before.")
        values = tuple(finite_number(v, f"{self.where}: {parameter}") + 0.0 for v in given)
        if any(a >= b for a, b in pairwise(values)):
            raise self.refused(f"{parameter} must increase: each above the one before.")
        return values

    def checked_fill(self) -> float:
        """A number."""
        return finite_number(self.fill, f"{self.where}: fill") + 0.0

    @property
    def n_codes(self) -> int | None:
        """The bins."""
        return None if self.edges is None else len(self.edges) + 1

    def names(self) -> list[str]:
        """The name; of bins also their edges."""
        if self.edges is None:
            return [self.name]
        shown = [f"{e:g}" if float(f"{e:g}") == e else repr(e) for e in self.edges]
        if self.bins == "thermometer":
            return [f"{self.name}>={e}" for e in shown]
        between = [f"{a}<={self.name}<{b}" for a, b in pairwise(shown)]
        return [f"{self.name}<{shown[0]}", *between, f"{self.name}>={shown[-1]}"]

    @property
    def square(self) -> int:
        """Of one, or of all edges reached."""
        if self.edges is None or self.bins == "one-hot":
            return ONE
        return len(self.edges) * int(share(len(self.edges)) * STEPS) ** 2

    @property
    def most(self) -> int:
        """One, or all edges."""
        return len(self.edges) if self.edges is not None and self.bins == "thermometer" else 1

    def read(self, cells: Cells, missing: Collection[str]) -> tuple[Float64s, Flags]:
        """Numbers, NaN where there is none."""
        values, bad = numbers_of(cells, missing, self.version)
        return values, {"unparsable": bad}

    def is_empty(self, values: Float64s) -> Booleans:
        """Which are NaN."""
        return np.isnan(values)

    def encode(self, values: Float64s, flags: Flags) -> Block:
        """One scaled number, or the bin."""
        if self.edges is not None:
            codes = np.searchsorted(np.array(self.edges), values, side="right").astype(np.int64)
            codes[np.isnan(values)] = -1
            return Block(
                code_entries(codes, len(self.edges) + 1, thermometer=self.bins == "thermometer"), {}, codes=codes
            )
        scale = self.scale or 1.0
        low, high = self.range or (-scale, scale)
        with np.errstate(invalid="ignore"):
            flags["clipped"] = (values < low) | (values > high)
        inside = np.clip(values, low, high)
        if self.spacing != "linear":
            return Block([numbers_entry(self._log(inside, low, high), 0)], {})
        scaled = inside / high if self.range is None else (inside - low) / (high - low) * 2.0 - 1.0
        return Block([numbers_entry(scaled, 0)], {})

    def told(self, own: Bounds) -> Told | None:
        """Between which numbers it was: the edges of its bin, or what the scaled number allows."""
        if self.edges is not None:
            codes = own.thermometer(share(len(self.edges))) if self.bins == "thermometer" else own.one_hot()
            return self.told_codes(codes) if codes else None
        scale = self.scale or 1.0
        ends = self.range or (-scale, scale)
        below, above = float(own.low[0]) - 0.5 / STEPS, float(own.high[0]) + 0.5 / STEPS
        low = None if below <= -1.0 else self._unscaled(below, *ends, -_ROUNDING)
        high = None if above >= 1.0 else self._unscaled(above, *ends, _ROUNDING)
        return between(low, high, ends)

    def told_codes(self, codes: Sequence[int]) -> Told:
        """The same of the number of a bin, or of several."""
        edges = [None, *(self.edges or ()), None]
        low, high = edges[min(codes)], edges[max(codes) + 1]
        shown = "any number" if low is high is None else f"{low:.15g} or more" if high is None else f"below {high:.15g}"
        text = shown if low is None or high is None else f"{low:.15g} to {shown}"
        return Told(text, facts={"low": low, "high": high})

    def scales(self, own: Bounds) -> Iterator[tuple[float, float]]:
        """Of bins."""
        if self.edges is not None:
            yield scales_of(own, 1.0 if self.bins == "one-hot" else share(len(self.edges)))

    def _unscaled(self, t: float, low: float, high: float, rounding: float) -> float:
        """The number that is scaled to t, and further by its rounding and that of the scaling."""
        way = (t + 1.0) / 2.0
        if self.spacing == "log":
            return low * math.exp(way * math.log(high / low)) * (1.0 + 2**8 * rounding)
        if self.spacing == "log1p":
            return math.expm1(way * math.log1p(high)) * (1.0 + 2**8 * rounding)
        return (low + way * (high - low)) + rounding * max(abs(low), abs(high))

    def _log(self, x: Float64s, low: float, high: float) -> Float64s:
        """``2 t - 1``, rounded to steps, for x in the range and ``t`` its share of the logarithm of the range.

        The middle of two steps is never hit: ``t`` would be a fraction with denominator ``2**22``, and the range a
        power of a rational number with that exponent.
        """
        shifted = self.spacing == "log1p"
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
    from flint import arb, ctx  # only here: hardly ever needed

    bits = 128
    while True:
        with ctx.workprec(bits):
            top, whole = (arb(1) + x, arb(1) + high) if shifted else (arb(x) / low, arb(high) / low)
            steps = (2 * top.log() / whole.log() - 1) * STEPS
            nearest = (steps + arb(0.5)).floor()
            if nearest.is_exact():
                return int(str(nearest.unique_fmpz()))
        bits *= 2
