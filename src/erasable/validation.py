"""Numbers and switches that callers give as parameters: checked here and nowhere else.

Every function returns the value as a plain Python one, or raises ``ConfigurationError`` with the name of the parameter,
what is required of it and what arrived.
"""

from __future__ import annotations

import math
import numbers
from typing import Any

from erasable.errors import ConfigurationError


def finite_number(value: Any, name: str) -> float:
    """A finite number as a float."""
    number = _float(value)
    if not math.isfinite(number):
        raise ConfigurationError(f"{name} must be a finite number; got {value!r}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """A positive finite number as a float."""
    number = finite_number(value, name)
    if number <= 0.0:
        raise ConfigurationError(f"{name} must be positive; got {value!r}.")
    return number


def number_not_negative(value: Any, name: str) -> float:
    """A finite number, zero or more, as a float; minus zero is zero."""
    number = finite_number(value, name)
    if number < 0.0:
        raise ConfigurationError(f"{name} must not be negative; got {value!r}.")
    return number + 0.0


def number_between(value: Any, name: str, low: float, high: float, *, closed: str = "") -> float:
    """A number between two others, which count themselves where ``closed`` names them: "low", "high" or "both"."""
    number = _float(value)
    above = number >= low if closed in ("low", "both") else number > low
    below = number <= high if closed in ("high", "both") else number < high
    if not (above and below and math.isfinite(number)):
        left = "at least" if closed in ("low", "both") else "above"
        right = "at most" if closed in ("high", "both") else "below"
        limit = "" if high == math.inf else f" and {right} {high:g}"
        raise ConfigurationError(f"{name} must be a number {left} {low:g}{limit}; got {value!r}.")
    return number


def probability(value: Any, name: str) -> float:
    """A number between 0 and 1, but neither of them."""
    return number_between(value, name, 0.0, 1.0)


def count(value: Any, name: str, least: int = 1) -> int:
    """An integer that float64 arithmetic can go on with: at most 1e300."""
    if whole_number(value, name, least) > 10**300:
        raise ConfigurationError(f"{name} must be at most 1e300, so that float64 holds it; got a larger integer.")
    return int(value)


def whole_number(value: Any, name: str, least: int = 1, most: int | None = None) -> int:
    """An integer in a range."""
    if not _is_whole(value) or not (least <= int(value) and (most is None or int(value) <= most)):
        if most is not None:
            wanted = f"an integer between {least} and {most}"
        else:
            wanted = {0: "a non-negative integer", 1: "a positive integer"}.get(least, f"an integer, at least {least}")
        raise ConfigurationError(f"{name} must be {wanted}; got {value!r}.")
    return int(value)


def seed(value: Any, name: str = "random_state") -> int:
    """A seed that can be written down: forgetting must be able to draw the same again."""
    if not _is_whole(value) or value < 0:
        raise ConfigurationError(f"{name} must be a non-negative integer, for a refit to draw the same; got {value!r}.")
    return int(value)


def switch(value: Any, name: str) -> bool:
    """True or False, also NumPy's."""
    if not isinstance(value, bool) and type(value).__name__ not in ("bool_", "bool"):
        raise ConfigurationError(f"{name} must be True or False; got {value!r}.")
    return bool(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def _float(value: Any) -> float:
    """A real number as a float; NaN for anything else, infinity for what is too large."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real) or type(value).__name__ in ("bool_", "bool"):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf
