"""Public moments and class shares that a schema states for independent selection.

They change no encoding. A model uses them when it is made and keeps them in its own configuration, so the text of the
schema in a model file is without them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from erasable.core.independent import LEAST_EXPONENT, MOST_EXPONENT
from erasable.errors import ConfigurationError
from erasable.schemas.cells import canonical_text
from erasable.validation import number_between, whole_number

Exponents = tuple[int, ...]


def read_moments(given: Any, widths: Sequence[tuple[str, int]]) -> dict[str, Exponents]:
    """The exponents of the moments of every feature, for each column and cross in the order of the schema.

    Parameters
    ----------
    given : mapping from names to an exponent or a list of exponents
        One for all features of the column, or one for each. A column without an entry has the smallest of all.
    widths : sequence of pairs
        Each column or cross that makes features, and how many.
    """
    if not isinstance(given, Mapping):
        raise ConfigurationError("moments must be a table, [selection.moments], with an entry for each column.")
    if not given:
        return {}
    names = [name for name, _ in widths]
    unknown = [name for name in given if name not in names]
    if unknown:
        raise ConfigurationError(f"moments names {unknown[0]!r}, which makes no features: delete its entry.")
    stated = {name: _exponents(given[name], name, width) for name, width in widths if name in given}
    least = min(min(exponents) for exponents in stated.values())
    return {name: stated.get(name, (least,) * width) for name, width in widths}


def _exponents(given: Any, name: str, width: int) -> Exponents:
    """The exponents of one column, one for each of its features."""
    listed = list(given) if isinstance(given, list | tuple) else [given] * width
    if len(listed) != width:
        raise ConfigurationError(
            f"moments of {name!r} has {len(listed)} exponents for {width} features: delete the entry, or give "
            "one for each."
        )
    where = f"moments of {name!r}: every exponent of two"
    return tuple(whole_number(exponent, where, LEAST_EXPONENT, MOST_EXPONENT) for exponent in listed)


def shortest(exponents: Exponents) -> int | Exponents:
    """One exponent if all are equal."""
    return exponents[0] if len(set(exponents)) == 1 else exponents


def read_shares(given: Any, classes: Sequence[str] | None, version: int) -> dict[str, float]:
    """The share of each class by its canonical text, sorted.

    Parameters
    ----------
    classes : sequence of str, optional
        Those that the schema lists for its label.
    """
    if not isinstance(given, Mapping) or not all(isinstance(label, str) for label in given):
        raise ConfigurationError("class_shares must be a table, [selection.class_shares], with a share for each class.")
    shares = {
        canonical_text(label, version): number_between(share, "every class share", 0.0, 1.0, closed="high")
        for label, share in given.items()
    }
    if not shares:
        return {}
    if len(shares) < max(2, len(given)):
        raise ConfigurationError("class_shares must name two classes or more, each once.")
    if classes is not None and set(shares) != set(classes):
        raise ConfigurationError(
            f"class_shares names {len(shares)} classes that are not the {len(classes)} of the label: name each of "
            "these, and no others."
        )
    return dict(sorted(shares.items()))
