"""All that an estimator stores, component by component, as fingerprints that are equal when all bits are.

Names of components are names of tensors and attributes; fingerprints are hashes. Neither shows a value, a label or an
id, so both may stand in messages.
"""

from __future__ import annotations

import copyreg
import hashlib
import types
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import scipy.sparse as sp

from erasable.models.state import State

_PLAIN = (bool, int, str, type(None))
_PARTS_OF_SPARSE = ("data", "indices", "indptr", "row", "col", "offsets")


def stored_components(estimator: Any) -> dict[str, str]:
    """A fingerprint of each thing that an estimator stores, by name.

    An estimator with a method ``audit_state()`` says itself what it stores: a mapping from names to values of any kind.
    Of a model of this package it is each field of the header and each tensor of its canonical bytes, and whatever else
    hangs on the estimator. Of any other, its attributes, as a pickle would hold them.
    """
    said = getattr(estimator, "audit_state", None)
    if callable(said):
        return {name: fingerprint(value) for name, value in dict(said()).items()}
    attributes = _attributes(estimator)
    found: dict[str, str] = {}
    state = state_of(estimator)
    if state is not None:
        found = {f"header {field}": fingerprint(value) for field, value in state.header().items()}
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
    their names. An object is its type and what a pickle holds of it; one that cannot be pickled, its attributes.
    """
    return _mark(value, {}, {}).hex()


def _mark(value: Any, above: dict[int, int], known: dict[int, tuple[Any, bytes]]) -> bytes:
    """The hash of a value.

    ``above`` are the objects it is inside of, ``known`` those that were met before: they are hashed once, and held so
    that no other object gets their place in memory meanwhile.
    """
    if id(value) in above:
        return hashlib.sha256(f"again {above[id(value)]}".encode()).digest()
    if id(value) in known:
        return known[id(value)][1]
    digest = hashlib.sha256(f"{type(value).__module__}.{type(value).__qualname__} ".encode())
    inside = {**above, id(value): len(above)}
    for part in _parts(value):
        raw = part if isinstance(part, bytes) else _mark(part[0], inside, known)
        digest.update(f"{len(raw)} ".encode())
        digest.update(raw)
    known[id(value)] = value, digest.digest()
    return known[id(value)][1]


def _parts(value: Any) -> list[bytes | tuple[Any]]:
    """What a value is written as: bytes, and in tuples of one the values inside of it."""
    if isinstance(value, type | types.FunctionType | types.BuiltinFunctionType | types.ModuleType):
        return [f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode()]
    if isinstance(value, _PLAIN):
        return [repr(value).encode()]
    if isinstance(value, float | complex):
        return [np.asarray(value).tobytes()]
    if isinstance(value, bytes | bytearray | memoryview):
        return [bytes(value)]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        loose = array.dtype == object or array.dtype.names  # fields have padding between them
        return [f"{array.dtype.str} {array.shape}".encode(), (array.tolist(),) if loose else array.tobytes()]
    if sp.issparse(value):
        parts = [(getattr(value, name, None),) for name in _PARTS_OF_SPARSE]
        return [f"{value.format} {value.shape}".encode(), *parts]
    if isinstance(value, Mapping):
        return [(entry,) for pair in value.items() for entry in pair]
    if isinstance(value, set | frozenset):
        return [mark.encode() for mark in sorted(map(fingerprint, value))]
    if isinstance(value, list | tuple):
        return [(entry,) for entry in value]
    if isinstance(value, np.random.Generator):
        return [(value.bit_generator.state,)]
    if isinstance(value, np.random.RandomState):
        return [(value.get_state(),)]
    try:  # how to make it, attributes, and what a list or a mapping of its own kind holds
        known = copyreg.dispatch_table.get(type(value))
        reduced = value.__reduce_ex__(4) if known is None else known(value)
    except TypeError:  # a lock, a generator, a weak reference: nothing that a pickle could hold
        return [(getattr(value, "__dict__", None),), (_attributes(value),)]  # a thread's own are only in the first
    return [(list(part) if isinstance(part, Iterator) else part,) for part in reduced]


def _attributes(value: Any) -> dict[str, Any]:
    """What a pickle would hold of an object, by name."""
    held = value.__getstate__()
    parts = held if isinstance(held, tuple) else (held,)  # attributes, and those in slots
    if all(part is None or isinstance(part, Mapping) for part in parts):
        return {str(name): entry for part in parts if part for name, entry in part.items()}
    return {"state": held}
