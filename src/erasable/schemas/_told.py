"""What features that are known within bounds say of the cell that they came from. Pure.

A stored row is an encoded row that was scaled and rounded. So every feature lies between two numbers, and what fits
between them may be what the cell held: the true one always does.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from erasable.core.arrays import Booleans, Float64s

_MOST_SHOWN = 8  # of a list in a text


@dataclass(frozen=True, repr=False)
class Told:
    """What is stored of one cell.

    Attributes
    ----------
    text : str
        For people.
    missing : bool or None
        Whether the cell was missing, or could not be read as what its column holds; None where that cannot be told.
    facts : dict
        The same in values that JSON has, by the kind of the column; none where the cell was missing.

        - a number: ``low`` and ``high``, between which it was; None where there is no bound;
        - a category, levels, yes/no: ``one_of``, what it may have been, and ``others``, whether it may have been
          something that the schema does not list; of hashed ones ``places``, and ``of``, how many there are;
        - a date or a time: ``parts``, for each part the numbers that it may have had, or ``low`` and ``high``;
        - a text: ``places`` with the count of each, up to a common factor, and ``of``;
        - a vector: ``low`` and ``high``, a list each, and ``clipped``, whether it may have been longer;
        - a cross: ``pairs``, or ``places`` and ``of``.
    """

    text: str
    missing: bool | None = False
    facts: dict[str, Any] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"text": self.text, "missing": self.missing, **self.facts}

    def __repr__(self) -> str:
        return "<Told of a cell>"


@dataclass(frozen=True)
class Bounds:
    """Between which numbers features lie."""

    low: Float64s
    high: Float64s

    def __getitem__(self, which: Any) -> Bounds:
        """Those of some features."""
        return Bounds(self.low[which], self.high[which])

    def may_be(self, values: Any) -> Booleans:
        """Which features may have these values."""
        return np.asarray((self.low <= values) & (values <= self.high))

    def lengths(self) -> tuple[float, float]:
        """The least and the largest norm that the features may have."""
        nearest = np.maximum(np.maximum(self.low, -self.high), 0.0)
        return float(np.linalg.norm(nearest)), float(np.linalg.norm(np.maximum(-self.low, self.high)))

    def one_hot(self) -> list[int]:
        """Which of the features may be the only one that is not zero, and one."""
        fits, never_zero = self.may_be(1.0), np.flatnonzero(~self.may_be(0.0))
        if len(never_zero):
            return [int(never_zero[0])] if len(never_zero) == 1 and fits[never_zero[0]] else []
        return list(np.flatnonzero(fits).tolist())

    def thermometer(self, level: float) -> list[int]:
        """How many features, from the first on, may be ``level`` while the others are zero."""
        reached = np.concatenate([[True], np.logical_and.accumulate(self.may_be(level))])
        rest = np.concatenate([np.logical_and.accumulate(self.may_be(0.0)[::-1])[::-1], [True]])
        return list(np.flatnonzero(reached & rest).tolist())

    def scaled(self, least: float, most: float) -> Bounds:
        """The same times a number between two, neither of them negative."""
        return Bounds(
            np.where(self.low >= 0, least, most) * self.low,
            np.where(self.high >= 0, most, least) * self.high,
        )


def scales_of(bounds: Bounds, value: float) -> tuple[float, float]:
    """Between which numbers the one lies that makes ``value`` of all features that cannot be zero."""
    low, high = bounds.low[bounds.low > 0], bounds.high[bounds.low > 0]
    return (value / float(high.min()), value / float(low.max())) if len(low) else (0.0, math.inf)


def scale_of_length(bounds: Bounds, least: float, most: float) -> tuple[float, float]:
    """The same where the norm of the features, unless they are all zero, is known within bounds."""
    short, long = bounds.lengths()
    return (least / long, most / short) if short > 0 else (0.0, math.inf)


def about(low: float, high: float) -> str:
    """Two numbers as one with its margin, in few digits, and never less than is between them."""
    half = (high - low) / 2
    if not 0 < half < math.inf:
        return f"{low:.15g}"
    digits = -math.floor(math.log10(half))
    middle = round((low + high) / 2, digits)
    unit = 10.0**-digits
    margin = math.ceil(max(high - middle, middle - low) / unit * (1 - 2.0**-40)) * unit
    if digits < -15 or digits > 15:
        return f"{middle:.3g} ± {margin:.1g}"
    return f"{middle:.{max(0, digits)}f} ± {margin:.{max(0, digits)}f}"


def between(low: float | None, high: float | None, ends: tuple[float, float]) -> Told:
    """A number of which two bounds are known, one or none; it was clipped at the ends."""
    facts = {"low": low, "high": high}
    if low is not None and high is not None:
        return Told(about(low, high), facts=facts)
    if low is not None:
        return Told(f"at or above {_outward(low, math.floor)} (clipped at {ends[1]:.15g})", facts=facts)
    if high is not None:
        return Told(f"at or below {_outward(high, math.ceil)} (clipped at {ends[0]:.15g})", facts=facts)
    return Told("any number", facts=facts)


def _outward(value: float, whole: Callable[[float], int]) -> str:
    """Six digits of a number, rounded down or up."""
    if not value:
        return "0"
    unit = 10.0 ** (math.floor(math.log10(abs(value))) - 5)
    return f"{whole(value / unit) * unit:.6g}" if unit > 0 else f"{value:.15g}"


def one_of(names: Sequence[str]) -> str:
    """A name, or several of which one holds."""
    if len(names) == 1:
        return names[0]
    more = f" and {len(names) - _MOST_SHOWN:,} more" if len(names) > _MOST_SHOWN else ""
    return f"one of {', '.join(names[:_MOST_SHOWN])}{more}"


def places_told(places: Sequence[int], n: int, *, lost: str) -> Told:
    """Places that texts were hashed into: what was hashed is not stored."""
    shown = one_of([str(p) for p in places])
    return Told(f"place {shown} of {n:,}: {lost}", facts={"places": list(places), "of": n})
