"""How much a row counts, and how much a class does: weights as callers give them, checked, and the sums they enter.

The weight of a row is held in sixteenths, an integer from 1 to 256, beside its row; selection does not look at it. The
weight of a class is a float32 number from 2**-16 to 2**16: fixed by the caller, or, where it is ``"balanced"``, a
function of the core rows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from erasable.core.device_rows import here
from erasable.core.grid import Grid
from erasable.core.names import Label, kind_of, read_label, write_label
from erasable.core.sums import LARGEST_EXACT
from erasable.core.weights import to_float32
from erasable.errors import ConfigurationError, ExactnessError, InputError
from erasable.models.keys import label_type, pick
from erasable.validation import positive_number, real_numbers

ONE = 16  # the weight of a row to whom none was given, in sixteenths
LARGEST = 16 * ONE
LIGHTEST_CLASS, HEAVIEST_CLASS = 2.0**-16, 2.0**16
BALANCED = "balanced"

RowWeights = npt.NDArray[np.int16]
ClassWeights = str | tuple[tuple[Label, float], ...] | None


# -- of rows -----------------------------------------------------------------------------------------------------


def check_row_weights(given: Any, n: int) -> RowWeights:
    """Weights of n rows in sixteenths, rounded to the nearest (ties to even), 0 to 256.

    Raises
    ------
    InputError
        When they are not one number for each row, finite, not negative and at most 16.
    """
    values = real_numbers(here(given), "weights (sample_weight=)")
    if values.shape != (n,):
        raise InputError(
            f"weights (sample_weight=) have shape {values.shape} for {n} rows: give one number for each row."
        )
    unfit = int(np.count_nonzero(~((values >= 0.0) & (values <= LARGEST / ONE))))
    if unfit:
        raise InputError(
            f"weights (sample_weight=) must be between 0 and {LARGEST // ONE}, and {unfit:,} of {n:,} are not (missing "
            "ones among them, if any): divide all weights by one number, or correct these."
        )
    rounded: RowWeights = np.rint(values * ONE).astype(np.int16)
    return rounded


def uneven(weights: Sequence[int] | RowWeights) -> RowWeights | None:
    """The weights of rows as a state has them: None where every row has weight one."""
    array = np.asarray(weights, dtype=np.int16)
    return array if (array != ONE).any() else None


def guard_weights(total: int, grid: Grid, units: int) -> None:
    """Refuse so much weight that a weighted sum could round; ``total`` is in sixteenths.

    Raises
    ------
    ExactnessError
    """
    limit = (LARGEST_EXACT - ONE * units) // grid.radius**2
    if total > limit:
        raise ExactnessError(
            f"the weights of the core rows would add up to {total / ONE:,.1f}, but weighted sums on a grid of "
            f"{grid.bits} bits are exact only up to {max(0, limit) / ONE:,.1f} with this capacity: give smaller "
            "weights, raise the threshold (fewer core rows) or lower grid_bits."
        )


# -- of classes --------------------------------------------------------------------------------------------------


def plain_class_weights(given: Any) -> ClassWeights:
    """``class_weight`` as the caller gave it, checked: None, ``"balanced"``, or labels and float32 numbers, sorted.

    Raises
    ------
    ConfigurationError
    """
    if given is None or (isinstance(given, str) and given == BALANCED):
        return None if given is None else BALANCED
    if not isinstance(given, Mapping) or not given:
        raise ConfigurationError(
            'class_weight must be None, "balanced", or a dictionary from labels to weights; got '
            f"{'an empty one' if isinstance(given, Mapping) else type(given).__name__}."
        )
    keys = np.fromiter(given, dtype=object, count=len(given))
    label_type(keys, "class_weight")
    labels: list[Label] = pick(keys, np.arange(len(keys)))
    weights = []
    for label, weight in zip(labels, given.values(), strict=True):
        number = float(np.float32(min(positive_number(weight, "a weight in class_weight"), 1e30)))
        if not LIGHTEST_CLASS <= number <= HEAVIEST_CLASS:
            raise ConfigurationError(f"weights of classes must be between 2**-16 and 2**16; got {weight!r}.")
        weights.append((label, number))
    return tuple(sorted(weights, key=lambda entry: entry[0]))


def check_class_weights(weights: ClassWeights, classes: Sequence[Label] | None) -> None:
    """Refuse weights that :func:`plain_class_weights` does not give, or of classes that are not among the fixed ones.

    Raises
    ------
    ConfigurationError
    """
    if isinstance(weights, tuple) and plain_class_weights(dict(weights)) != weights:
        raise ConfigurationError("class_weight is not in canonical form.")
    if not (weights is None or weights == BALANCED or isinstance(weights, tuple)):
        raise ConfigurationError("class_weight is of no known kind.")
    if isinstance(weights, tuple) and classes is not None:
        kind, known = type(classes[0]), set(classes)
        unknown = sum(type(label) is not kind or label not in known for label, _ in weights)
        if unknown:
            raise ConfigurationError(
                f"class_weight names {unknown} labels that are not among the {len(classes)} fixed classes, or of "
                "another type: correct one of the two."
            )


def described_class_weights(weights: ClassWeights) -> Any:
    """As the header of a file has them."""
    if not isinstance(weights, tuple):
        return weights
    return {"kind": kind_of(weights[0][0]), "weights": [[write_label(c), w.hex()] for c, w in weights]}


def read_class_weights(written: Any) -> ClassWeights:
    """What :func:`described_class_weights` wrote."""
    if not isinstance(written, dict):
        known: ClassWeights = written
        return known
    return tuple((read_label(written["kind"], c), float.fromhex(w)) for c, w in written["weights"])


def class_weights_of(
    given: ClassWeights, classes: Sequence[Label], totals: Mapping[Label, int]
) -> npt.NDArray[np.float64]:
    """The weight of each class, in their order: float32 numbers, one where none was given.

    Parameters
    ----------
    totals : mapping
        The weights of the core rows of each class, added up, in sixteenths.

    Notes
    -----
    *Definition*: ``"balanced"`` is all weight, divided by the number of classes that have core rows times the weight of
    the class, correctly rounded to float32, and no less than 2**-16 and no more than 2**16.
    """
    if given is None:
        return np.ones(len(classes))
    if isinstance(given, tuple):
        named = dict(given)
        return np.array([named.get(c, 1.0) for c in classes])
    there = {c: totals[c] for c in classes if totals.get(c)}
    whole = sum(there.values())
    shares = [Fraction(whole, len(there) * there[c]) if c in there else Fraction(1) for c in classes]
    return np.array([min(max(float(to_float32(s)), LIGHTEST_CLASS), HEAVIEST_CLASS) for s in shares])
