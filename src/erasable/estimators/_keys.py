"""Ids, subjects and labels as plain Python values, copied out of whatever container they came in.

Copying at once matters: dictionary and string-view columns keep deleted strings alive after a filter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from erasable.core.state import Key, Label
from erasable.errors import InputError, InputTypeError

_PLURAL = {"int": "integers", "str": "strings", "bytes": "bytes"}
_NAMES: dict[type, str] = {int: "int", str: "str", bytes: "bytes"}
T = TypeVar("T", Key, Label)


def as_key_column(values: Any, name: str) -> Sequence[Key] | npt.NDArray[np.int64]:
    """Ids or subjects of the rows of a batch: an integer array stays one, everything else becomes a list."""
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iu":
        _check_64_bits(values, name)
        return values.astype(np.int64)
    return as_keys(values, name)


def pick(column: Sequence[T] | npt.NDArray[Any], index: npt.NDArray[np.intp]) -> list[T]:
    """The entries at these positions, as plain values."""
    if isinstance(column, np.ndarray):
        return [v.item() if isinstance(v, np.generic) else v for v in column[index].tolist()]
    return [column[i] for i in index.tolist()]


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
    if int in types:
        _check_64_bits(keys, name)
    if str in types:
        try:
            "".join(keys).encode()
        except UnicodeEncodeError:
            raise InputError(f"string {name} must be valid Unicode (no lone surrogates).") from None
    return keys


def _check_64_bits(values: Any, name: str) -> None:
    if len(values) and not (min(values) >= -(2**63) and max(values) < 2**63):
        raise InputError(f"integer {name} must fit 64 bits, signed: pass larger ones as strings.")


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


def same_kind(new: Sequence[Key] | npt.NDArray[np.int64], known: Key | None, name: str) -> None:
    """Refuse keys of another type than those the model holds: they could never match.

    Raises
    ------
    InputTypeError
    """
    if known is None or not len(new):
        return
    kind = int if isinstance(new, np.ndarray) else type(new[0])
    if kind is not type(known):
        raise InputTypeError(
            f"this model's {name} are {_PLURAL[_NAMES[type(known)]]}, but {_PLURAL[_NAMES[kind]]} were given, which "
            f"can never match: convert them to {type(known).__name__} first."
        )


def check_label_types(y: npt.NDArray[Any], name: str = "y") -> type:
    """The one plain Python type of the labels.

    Raises
    ------
    InputTypeError
        When labels are of a type that cannot be stored, or of several types.
    """
    if y.dtype == object:
        types = {type(v.item()) if isinstance(v, np.generic) else type(v) for v in y}
    else:
        types = {type(y.dtype.type().item())}
    if not types <= {bool, int, float, str, bytes} or len(types) != 1:
        raise InputTypeError(
            f"{name} must hold integers, strings, booleans, floats or bytes, all of one type; got "
            f"{', '.join(sorted(t.__name__ for t in types))}."
        )
    kind: type = types.pop()
    if kind is float and bool((y != y).any()):
        raise InputError(f"{name} contains NaN.")
    return kind
