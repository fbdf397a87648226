"""All that an estimator stores, component by component, as fingerprints that are equal when all bits are.

Names of components are names of tensors and attributes; fingerprints are hashes. Neither shows a value, a label or an
id, so both may stand in messages.
"""

from __future__ import annotations

import hashlib
import types
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.models.state import State

_PLAIN = (bool, int, str, type(None))
_PARTS_OF_SPARSE = ("data", "indices", "indptr", "row", "col", "offsets")


def stored_components(estimator: Any) -> dict[str, str]:
    """A fingerprint of each thing that an estimator stores, by name.

    An estimator with a method ``audit_state()`` says itself what it stores: a mapping from names to values of any kind.
    Of a model of this package it is the header and the tensors of its canonical bytes, and whatever else
    hangs on the estimator. Of any other, its attributes, as a pickle would hold them.
    """
    said = getattr(estimator, "audit_state", None)
    if callable(said):
        return {name: fingerprint(value) for name, value in dict(said()).items()}
    attributes = _attributes(estimator)
    found = {}
    state = state_of(estimator)
    if state is not None:
        found["header"] = fingerprint(state.header())
        for name, (kind, array) in {**state.derived(), **state.named_rows()}.items():
            found[name] = fingerprint((kind, array))
        held = attributes.get("_model")
        parts = held if isinstance(held, tuple) else (held,)
        attributes["_model"] = [part for part in parts if not isinstance(part, bytes)]  # bytes are the tensors again
    return {**found, **{name: fingerprint(value) for name, value in attributes.items()}}


def state_of(estimator: Any) -> State | None:
    """The canonical state of a fitted model of this package, else None."""
    snapshot = getattr(getattr(estimator, "model_", None), "snapshot", None)
    state = snapshot() if callable(snapshot) else None
    return state if isinstance(state, State) else None


def fingerprint(value: Any) -> str:
    """SHA-256 of types, structure and bits of a value, as hexadecimal digits.

    Numbers differ when their bits do, so 0.0 and -0.0 do. Order counts but in sets. Functions and classes stand for
    their names. An object is its type and what a pickle holds of it.
    """
    digest = hashlib.sha256()
    _feed(value, digest.update, {})
    return digest.hexdigest()


def _feed(value: Any, write: Any, above: dict[int, int]) -> None:
    """Write a value so that no two values are written alike; ``above`` are the objects it is inside of."""
    kind = type(value)
    write(f"({kind.__module__}.{kind.__qualname__} ".encode())
    if id(value) in above:
        write(f"again {above[id(value)]})".encode())
        return
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
        write(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode())
    elif isinstance(value, _PLAIN):
        write(repr(value).encode())
    elif isinstance(value, float | complex):
        write(np.asarray(value).tobytes())
    elif isinstance(value, bytes | bytearray | memoryview):
        write(f"{memoryview(value).nbytes} ".encode() + bytes(value))
    else:
        _feed_parts(value, write, {**above, id(value): len(above)})
    write(b")")


def _feed_parts(value: Any, write: Any, above: dict[int, int]) -> None:
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        write(f"{array.dtype.str} {array.shape} ".encode())
        if array.dtype == object or array.dtype.names:  # fields have padding between them
            _feed(array.tolist(), write, above)
        else:
            write(array.tobytes())
    elif sp.issparse(value):
        write(f"{value.format} {value.shape} ".encode())
        for name in _PARTS_OF_SPARSE:
            _feed(getattr(value, name, None), write, above)
    elif isinstance(value, Mapping):
        for entry in value.items():
            _feed(entry, write, above)
    elif isinstance(value, set | frozenset):
        write(" ".join(sorted(map(fingerprint, value))).encode())
    elif isinstance(value, list | tuple):
        for entry in value:
            _feed(entry, write, above)
    elif isinstance(value, np.random.Generator):
        _feed(value.bit_generator.state, write, above)
    elif isinstance(value, np.random.RandomState):
        _feed(value.get_state(), write, above)
    else:
        _feed(_attributes(value), write, above)


def _attributes(value: Any) -> dict[str, Any]:
    """What a pickle would hold of an object, by name."""
    held = value.__getstate__()
    parts = held if isinstance(held, tuple) else (held,)  # attributes, and those in slots
    if all(part is None or isinstance(part, Mapping) for part in parts):
        return {str(name): entry for part in parts if part for name, entry in part.items()}
    return {"state": held}
