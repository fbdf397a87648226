"""The parameter ``scaling``: public numbers that divide rows or columns, never fitted on rows. Pure."""

from __future__ import annotations

import numbers
from contextlib import suppress
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.errors import ConfigurationError, InputError, InputTypeError
from erasable.validation import finite_number, positive_number, real_numbers

Scaling = str | float | tuple[float, ...] | None


def plain_scaling(scaling: Any) -> Scaling:
    """``scaling`` as the caller gave it, as a value that can be hashed and written down; see :func:`check_scaling`.

    Raises
    ------
    ConfigurationError
        For anything but None, a text, a finite number or a sequence of numbers.
    """
    if scaling is None or isinstance(scaling, str):
        return scaling
    if isinstance(scaling, numbers.Real) and not isinstance(scaling, bool):
        return finite_number(scaling, "scaling")
    scales: npt.NDArray[np.float64] = np.empty((0, 0))
    with suppress(InputError, InputTypeError):
        scales = real_numbers(scaling, "scaling")
    if scales.ndim != 1:
        raise ConfigurationError(
            f"scaling must be 'row', None, a positive number or one positive number per feature; "
            f"got {type(scaling).__name__}."
        )
    return tuple(float(scale) for scale in scales)


def described_scaling(scaling: Scaling) -> Any:
    """A plain scaling as a value that JSON can hold; floats in hexadecimal, so that nothing is rounded."""
    if isinstance(scaling, tuple):
        return [s.hex() for s in scaling]
    return scaling.hex() if isinstance(scaling, float) else scaling


def read_scaling(written: Any) -> Scaling:
    """The plain scaling that :func:`described_scaling` describes like this."""
    if written is None or written == "row":
        return written  # type: ignore[no-any-return]
    return tuple(map(float.fromhex, written)) if isinstance(written, list) else float.fromhex(written)


def check_scaling(scaling: Scaling, n_features: int, *, by_row: bool) -> None:
    """Refuse a plain scaling that rows of so many features cannot be divided by.

    Parameters
    ----------
    by_row : bool
        Whether ``"row"``, which divides each row by its own norm, is among the choices.

    Raises
    ------
    ConfigurationError
    """
    if scaling is None or (by_row and isinstance(scaling, str) and scaling == "row"):
        return
    if isinstance(scaling, tuple):
        if len(scaling) != n_features:
            raise ConfigurationError(
                f"scaling gives {len(scaling)} scales for {n_features} features: pass one positive number per feature."
            )
        for scale in scaling:
            positive_number(scale, "every scale in scaling")
    elif isinstance(scaling, float):
        positive_number(scaling, "scaling")
    else:
        row = "'row', " if by_row else ""
        raise ConfigurationError(
            f"scaling must be None, {row}a positive number or one positive number per feature; got {scaling!r}."
        )
