"""Fingerprints of Python objects: hashes that are equal when types, structure and bits are."""

from __future__ import annotations

import copyreg
import hashlib
import types
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp

_PLAIN = (bool, int, str, type(None))
_PARTS_OF_SPARSE = ("data", "indices", "indptr", "row", "col", "coords", "offsets", "rows", "_dict")
_OF_CODE = ("co_code", "co_consts", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_flags")

#: What is looked at inside of a value of just this type.
_INSIDE: dict[type, Callable[[Any], Iterable[Any]]] = {
    list: iter,
    tuple: iter,
    set: iter,  # in the order in which it is iterated, which a pickle holds, and which may tell what was removed
    frozenset: iter,
    dict: lambda value: chain.from_iterable(value.items()),
    memoryview: lambda value: (value.tobytes(), value.obj),
    types.CodeType: lambda value: (getattr(value, name) for name in _OF_CODE),
    types.CellType: lambda value: (value.cell_contents for _ in range(value != types.CellType())),
    types.MethodType: lambda value: (value.__func__, value.__self__),
    types.GeneratorType: lambda value: (value.gi_code, value.gi_frame and value.gi_frame.f_locals),
}


def fingerprint(value: Any, *, contents_only: bool = False) -> str:
    """SHA-256 of types, structure and bits of a value, as hexadecimal digits.

    Numbers differ when their bits do, so 0.0 and -0.0 do. Order counts, also the order in which a set is iterated. A
    function is its name, its code, its closure, its defaults and its attributes. An array that shows a part of a larger
    one is that part and the larger one. Classes, modules and functions written in C are their names. Any other object
    is its type and what a pickle holds of it; one that cannot be pickled, its attributes and its entries.

    With ``contents_only`` an object has the fingerprint of its pickled copy: the order of a set, the memory around an
    array and the counters of a search tree play no part.
    """
    return _mark(value, {}, {}, contents_only).hex()


def _mark(value: Any, above: dict[int, int], known: dict[int, tuple[Any, bytes]], contents_only: bool) -> bytes:
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
    for part in _contents(value) if contents_only else _parts(value):
        raw = part if isinstance(part, bytes) else _mark(part[0], inside, known, contents_only)
        digest.update(f"{len(raw)} ".encode())
        digest.update(raw)
    known[id(value)] = value, digest.digest()
    return known[id(value)][1]


def _parts(value: Any) -> list[bytes | tuple[Any]]:
    """What a value is written as: bytes, and in tuples of one the values inside of it."""
    kind = type(value)
    if isinstance(value, type | types.ModuleType | types.BuiltinFunctionType):
        name = f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', value.__name__)}".encode()
        owner = getattr(value, "__self__", None)  # of a method written in C, such as that of a list
        return [name] if owner is None or isinstance(owner, types.ModuleType) else [name, (owner,)]
    if kind is types.FunctionType:
        inside = (value.__code__, value.__closure__, value.__defaults__, value.__kwdefaults__, value.__dict__)
        return [f"{value.__module__}.{value.__qualname__}".encode(), *((part,) for part in inside)]
    if kind in _INSIDE:
        return [(part,) for part in _INSIDE[kind](value)]
    if kind in _PLAIN:
        return [repr(value).encode()]
    if kind in (float, complex):
        return [np.asarray(value).tobytes()]
    if kind in (bytes, bytearray):
        return [bytes(value)]
    if kind in (np.random.Generator, np.random.RandomState):
        return [(value.bit_generator.state if kind is np.random.Generator else value.get_state(),)]
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        loose = array.dtype == object or array.dtype.names  # fields have padding between them
        bits = (array.tolist(),) if loose else array.tobytes()
        return [f"{array.dtype.str} {array.shape}".encode(), bits, (_around(value),), (attributes_of(value),)]
    if sp.issparse(value):
        return [f"{value.format} {value.shape}".encode(), *((getattr(value, n, None),) for n in _PARTS_OF_SPARSE)]
    try:  # how to make it, attributes, and what a list or a mapping of its own kind holds
        known = copyreg.dispatch_table.get(kind)
        reduced = value.__reduce_ex__(4) if known is None else known(value)
    except TypeError:  # a lock, a weak reference, a view of a mapping: nothing that a pickle could hold
        entries = value.items() if isinstance(value, Mapping) else value if isinstance(value, Collection) else ()
        # A thread's own attributes are only in the first.
        return [(getattr(value, "__dict__", None),), (attributes_of(value),), (list(entries),)]
    return [(list(part) if isinstance(part, Iterator) else part,) for part in reduced]


def _contents(value: Any) -> list[bytes | tuple[Any]]:
    """What a value is written as, without what a pickled copy of it would not have."""
    if isinstance(value, set | frozenset):
        return [(part,) for part in sorted(value, key=repr)]
    if isinstance(value, np.ndarray) and type(value) is np.ndarray:
        return _parts(value)[:2]
    if sp.issparse(value):
        rows = value.tocsr()
        return [f"{value.format} {value.shape}".encode(), (rows.data,), (rows.indices,), (rows.indptr,)]
    if hasattr(value, "get_tree_stats"):  # scikit-learn's KDTree and BallTree count the queries made
        return [(np.asarray(array),) for array in value.get_arrays()]
    return _parts(value)


def _around(value: Any) -> Any:
    """The memory that an array shows a part of; None where it shows all of it."""
    owner = value
    while isinstance(owner, np.ndarray | np.generic) and owner.base is not None:
        owner = owner.base
    if owner is value:
        return None
    step = value.itemsize
    for stride, length in sorted(zip(map(abs, value.strides), value.shape, strict=True)):
        if length > 1 and stride != step:
            return owner
        step *= length
    held = getattr(owner, "nbytes", None)
    if held is None:
        with suppress(TypeError):  # a capsule of another library: whatever it holds is not seen
            held = memoryview(owner).nbytes
    return None if step == held else owner


def attributes_of(value: Any) -> dict[str, Any]:
    """What a pickle would hold of an object, by name."""
    held = value.__getstate__()
    parts = held if isinstance(held, tuple) else (held,)  # attributes, and those in slots
    if all(part is None or isinstance(part, Mapping) for part in parts):
        return {str(name): entry for part in parts if part for name, entry in part.items()}
    return {"state": held}
