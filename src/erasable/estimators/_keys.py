"""Ids, subjects and labels as plain Python values, copied out of whatever container they came in.

Copying at once matters: dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np

from erasable.core.state import Key, Label
from erasable.errors import InputError, InputTypeError

_PLURAL = {"int": "integers", "str": "strings", "bytes": "bytes"}
_NAMES: dict[type, str] = {int: "int", str: "str", bytes: "bytes"}
T = TypeVar("T", Key, Label)


def as_keys(values: Any, name: str) -> list[Key]:
    """Ids or subjects as a list of ints, of strings or of bytes; a bare value counts as a list of one.

    Raises
    ------
    InputTypeError
        When the values are of another type, or of several.
    """
    keys = _as_list(values, name)
    types = set(map(type, keys))
    if not types <= _NAMES.keys():
        keys = [v.item() if isinstance(v, np.generic) else v for v in keys]
        types = set(map(type, keys))
    unfit = [t.__name__ for t in types if t not in _NAMES]
    if unfit:
        raise InputTypeError(
            f"{name} must be integers, strings or bytes; got {', '.join(sorted(unfit))}. "
            "Convert them first, for example with str()."
        )
    if len(types) > 1:
        raise InputTypeError(
            f"{name} must be all integers, all strings or all bytes; got a mixture of "
            f"{' and '.join(sorted(_PLURAL[_NAMES[t]] for t in types))}."
        )
    if int in types and not (min(keys) >= -(2**63) and max(keys) < 2**63):
        raise InputError(f"integer {name} must fit 64 bits, signed: pass larger ones as strings.")
    if str in types:
        try:
            "".join(keys).encode()
        except UnicodeEncodeError:
            raise InputError(f"string {name} must be valid Unicode (no lone surrogates).") from None
    return keys


def _as_list(values: Any, name: str) -> list[Any]:
    if isinstance(values, str | bytes | int | np.generic):
        return [values]
    if isinstance(values, list | tuple | set | frozenset | range):
        return list(values)
    if hasattr(values, "to_pylist"):  # pyarrow
        return list(values.to_pylist())
    if not hasattr(values, "__array__") and not hasattr(values, "__iter__"):
        raise InputTypeError(f"{name} must be a list or an array; got {type(values).__name__}.")
    array = values if isinstance(values, np.ndarray) else np.asarray(list(values), dtype=object)
    if array.ndim != 1:
        raise InputError(f"{name} must be one-dimensional; got shape {array.shape}.")
    return list(array.tolist())


def same_kind(new: list[T], known: T | None, name: str) -> None:
    """Refuse keys of another type than those the model holds: they could never match.

    Raises
    ------
    InputTypeError
    """
    if new and known is not None and type(new[0]) is not type(known):
        raise InputTypeError(
            f"this model's {name} are {_plural(known)}, but {_plural(new[0])} were given: "
            f"an {_plural(known)[:-1] if name == 'ids' and type(known) is int else 'entry'} never equals one of "
            "another type, so nothing could match."
        )


def _plural(value: object) -> str:
    return _PLURAL.get(_NAMES.get(type(value), ""), type(value).__name__ + " values")


def as_labels(y: np.ndarray[Any, Any], name: str = "y") -> list[Label]:
    """Class labels as plain Python values of one type.

    Raises
    ------
    InputTypeError
        When labels are of a type that cannot be stored, or of several types.
    """
    labels = y.tolist()
    labels = [v.item() if isinstance(v, np.generic) else v for v in labels] if y.dtype == object else labels
    types = set(map(type, labels))
    if not types <= {bool, int, float, str, bytes} or len(types) > 1:
        raise InputTypeError(
            f"{name} must hold integers, strings, booleans, floats or bytes, all of one type; got "
            f"{', '.join(sorted(t.__name__ for t in types))}."
        )
    if float in types and any(v != v for v in labels):
        raise InputError(f"{name} contains NaN.")
    return labels
