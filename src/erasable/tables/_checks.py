"""Sizes and seeds that callers hand in."""

from __future__ import annotations

import numbers

from erasable.errors import ConfigurationError, InputTypeError


def check_count(value: object, name: str, *, minimum: int = 1) -> int:
    """A whole number that is not too small."""
    number = _whole(value, name)
    if number < minimum:
        raise ConfigurationError(f"{name} must be at least {minimum}; got {number}.")
    return number


def check_seed(value: object) -> int:
    """A seed that gives the same numbers at every call; None, which would not, is refused."""
    number = _whole(value, "random_state")
    if not 0 <= number < 2**32:
        raise ConfigurationError(f"random_state must be at least 0 and below 2**32; got {number}.")
    return number


def check_fraction(value: object, name: str) -> float:
    """A number that is at least 0 and below 1."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        raise InputTypeError(f"{name} must be a number; got {type(value).__name__}.")
    number = float(value)
    if not 0 <= number < 1:
        raise ConfigurationError(f"{name} must be at least 0 and below 1; got {number!r}.")
    return number


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, numbers.Integral):
        raise InputTypeError(f"{name} must be an integer; got {type(value).__name__}.")
    return int(value)
