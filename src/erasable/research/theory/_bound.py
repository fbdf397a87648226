"""What every bound in this room returns, and the checks of the numbers that go in."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import Any

from erasable.errors import ConfigurationError


@dataclass(frozen=True)
class Bound:
    """A number that a theorem promises, with what the promise rests on.

    Attributes
    ----------
    value : float
        The bound.
    vacuous : bool
        Whether it says nothing for these numbers: a probability or a risk of one or more, a capacity below one row,
        a core set as large as the data.
    source : str
        Theorem or equation of the paper, or the argument given in the docstring of the function.
    assumptions : tuple of str
        What has to be true of the data for the promise to hold.

    Examples
    --------
    >>> from erasable.research.theory import core_set_size
    >>> bound = core_set_size(1_000_000, 10, lam=10.0, tau=0.01)
    >>> float(bound), bound.vacuous
    (3639.0, False)
    >>> print(bound)
    3639 [Theorem 4.3 with Theorem D.7, explicit] if rows have norm at most 1
    """

    value: float
    vacuous: bool
    source: str
    assumptions: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value

    def __str__(self) -> str:
        text = f"{self.value:.6g} [{self.source}]"
        if self.vacuous:
            text += ", which says nothing for these numbers"
        return text + (f" if {'; '.join(self.assumptions)}" if self.assumptions else "")


NORM = "rows have norm at most 1"
REALISABLE = "E[y|x] = u'x with |u| at most 1, y in {-1, +1}"
IID = "rows and labels are independent draws from one distribution"


def integer(name: str, value: Any, least: int) -> int:
    """``value`` as an int of at least ``least``.

    Raises
    ------
    ConfigurationError
        When it is something else.
    """
    right = isinstance(value, numbers.Integral) and not isinstance(value, bool)
    if right and int(value) > 10**300:
        raise ConfigurationError(f"{name} must be at most 1e300, so that float64 holds it; got a larger integer.")
    if not right or int(value) < least:
        raise ConfigurationError(f"{name} must be an integer of at least {least}; got {value!r}.")
    return int(value)


def real(name: str, value: Any, low: float, high: float = math.inf, *, ends: bool = False) -> float:
    """``value`` as a finite float between ``low`` and ``high``; the two themselves are allowed when ``ends``.

    Raises
    ------
    ConfigurationError
        When it is something else.
    """
    right = isinstance(value, numbers.Real) and not isinstance(value, bool)
    try:
        number = float(value) if right else math.nan
    except OverflowError:
        number = math.inf
    inside = low <= number <= high if ends else low < number < high
    if not (inside and math.isfinite(number)):
        if high == math.inf:
            wanted = f"finite and {'at least' if ends else 'above'} {low:g}"
        else:
            wanted = f"in {'[' if ends else '('}{low:g}, {high:g}{']' if ends else ')'}"
        raise ConfigurationError(f"{name} must be a number {wanted}; got {value!r}.")
    return number


def probability(name: str, value: Any) -> float:
    """``value`` as a float strictly between 0 and 1."""
    return real(name, value, 0.0, 1.0)
