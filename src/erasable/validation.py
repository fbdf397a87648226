"""Numbers, switches, choices and texts that callers give as parameters: checked here and nowhere else.

Every function returns the value as a plain Python one, or raises ``ConfigurationError`` with the name of the parameter,
what is required of it and what arrived. Pure; every room may use it, and it knows no other but ``errors``.
"""

from __future__ import annotations

import math
import numbers
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from erasable.errors import ConfigurationError

T = TypeVar("T")


def finite_number(value: Any, name: str) -> float:
    """A finite number as a float."""
    number = _float(value)
    if not math.isfinite(number):
        raise ConfigurationError(f"{name} must be a finite number; got {_shown(value)}.")
    return number


def positive_number(value: Any, name: str) -> float:
    """A positive finite number as a float."""
    number = _float(value)
    if not 0.0 < number < math.inf:
        raise ConfigurationError(f"{name} must be a positive finite number; got {_shown(value)}.")
    return number


def number_not_negative(value: Any, name: str) -> float:
    """A finite number, zero or more, as a float; minus zero is zero."""
    number = _float(value)
    if not 0.0 <= number < math.inf:
        raise ConfigurationError(f"{name} must be a finite number that is not negative; got {_shown(value)}.")
    return number + 0.0


def number_between(value: Any, name: str, low: float, high: float, *, closed: str = "") -> float:
    """A number between two others, which count themselves where ``closed`` names them: "low", "high" or "both"."""
    number = _float(value)
    above = number >= low if closed in ("low", "both") else number > low
    below = number <= high if closed in ("high", "both") else number < high
    if not (above and below and math.isfinite(number)):
        left = "at least" if closed == "low" else "above"
        right = "at most" if closed == "high" else "below"
        limits = f"{left} {low:g}" if high == math.inf else f"{left} {low:g} and {right} {high:g}"
        limits = f"between {low:g} and {high:g}" if closed == "both" else limits
        raise ConfigurationError(f"{name} must be a number {limits}; got {_shown(value)}.")
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
        raise ConfigurationError(f"{name} must be {wanted}; got {_shown(value)}.")
    return int(value)


def seed(value: Any, name: str = "random_state", most: int | None = None) -> int:
    """An integer that random numbers are drawn from. No None and no generator: a refit has to draw the same."""
    if not _is_whole(value) or not (int(value) >= 0 and (most is None or int(value) <= most)):
        limit = "" if most is None else f" up to {most}"
        raise ConfigurationError(
            f"{name} must be a non-negative integer{limit}, for a refit to draw the same; got {_shown(value)}."
        )
    return int(value)


def switch(value: Any, name: str) -> bool:
    """True or False, also NumPy's."""
    if not _is_bool(value):
        raise ConfigurationError(f"{name} must be True or False; got {_shown(value)}.")
    return bool(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, numbers.Integral) and not isinstance(value, bool)


def choice(value: Any, name: str, among: Sequence[T]) -> T:
    """The one of these that the value equals."""
    for known in among:
        if isinstance(value, type(known)) and value == known:
            return known
    raise ConfigurationError(f"{name} must be one of {', '.join(map(repr, among))}; got {_shown(value)}.")


def text(value: Any, name: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise ConfigurationError(f"{name} must be text; got {type(value).__name__}.")
    return str(value)


def function(value: Any, name: str) -> Callable[..., Any]:
    """Something that can be called."""
    if not callable(value):
        raise ConfigurationError(f"{name} must be callable; got {type(value).__name__}.")
    called: Callable[..., Any] = value
    return called


def _float(value: Any) -> float:
    """A real number as a float; NaN for anything else, infinity for what is too large."""
    if _is_bool(value) or not isinstance(value, numbers.Real):
        return math.nan
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_bool(value: Any) -> bool:
    return isinstance(value, bool) or type(value).__name__ in ("bool_", "bool")  # the others are NumPy's


def _shown(value: Any) -> str:
    """A value for a message; of what is no short plain value its type alone, for it may be rows."""
    plain = isinstance(value, str | bytes | numbers.Number | None)
    large = isinstance(value, int) and value.bit_length() > 1000  # Python refuses to write the longest
    shown = repr(value) if plain and not large else ""
    return shown if 0 < len(shown) <= 60 else type(value).__name__
