"""Everything that the holder of an estimator can read in it: numbers, names and bytes, by where they lie."""

from __future__ import annotations

import pickle
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cached_property
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.sparse as sp

from erasable.core.arrays import Float64s
from erasable.models.core_rows import CoreRows

_CODE = (bool, type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, np.random.Generator, np.dtype)
SAME_DIRECTION = 1.0 - 1e-6  # a cosine above it: the row itself, rounded to a grid or scaled


@dataclass
class Contents:
    """What was found in an object, by its path."""

    arrays: dict[str, npt.NDArray[Any]] = field(default_factory=dict)  # copies; of sparse matrices the three arrays
    numbers: dict[str, Any] = field(default_factory=dict)  # lone ones
    names: set[Any] = field(default_factory=set)  # texts, bytes and whole numbers that may be ids
    raw: dict[str, bytes] = field(default_factory=dict)  # longer byte strings, such as checkpoints
    sparse: list[Any] = field(default_factory=list)  # rows that are held sparse

    @cached_property
    def _tables(self) -> list[npt.NDArray[Any]]:
        numeric = [a for a in self.arrays.values() if a.dtype.kind in "fiu" and a.ndim in (1, 2) and a.size]
        return [np.atleast_2d(a) for a in numeric] + [a.T for a in numeric if a.ndim == 2]

    def holds_row(self, x: Float64s) -> bool:
        """Whether the direction of a row lies in here, or its bytes."""
        unit = x / max(float(np.linalg.norm(x)), 1e-300)
        for table in self._tables:  # a constant may stand behind the features
            if table.shape[1] in (len(x), len(x) + 1):
                V = table[:, : len(x)].astype(np.float64)
                if (np.abs(V @ unit) > SAME_DIRECTION * np.maximum(np.linalg.norm(V, axis=1), 1e-300)).any():
                    return True
        for held in self.sparse:
            if held.shape[1] <= len(x) + 1:
                width = min(held.shape[1], len(x))
                V = held[:, :width].astype(np.float64)
                length = np.sqrt(np.asarray(V.multiply(V).sum(axis=1)).ravel())
                if (np.abs(V @ unit[:width]) > SAME_DIRECTION * np.maximum(length, 1e-300)).any():
                    return True
        needles = [x.astype(kind).tobytes() for kind in (np.float64, np.float32)]
        return any(needle in haystack for haystack in self.raw.values() for needle in needles)

    def rows_as_wide_as(self, width: int) -> list[Float64s]:
        """Every table whose rows have this width, or one more for a constant, which is left out."""
        found = [t[:, :width].astype(np.float64) for t in self._tables if t.shape[1] in (width, width + 1)]
        for held in self.sparse:
            if held.shape[1] <= width + 1:
                rows = np.zeros((held.shape[0], width + 1))
                rows[:, : held.shape[1]] = held.toarray()
                found.append(rows[:, :width])
        return found

    def holds_name(self, name: object) -> bool:
        """Whether an id lies in here: as an entry, or as text within longer bytes."""
        text = str(name).encode()
        return name in self.names or any(text in haystack for haystack in self.raw.values())

    def share_that_differs(self, other: Contents) -> float:
        """The share of numbers, bytes and texts that are not the same, bit for bit, in another reading."""
        mine, theirs = self._bytes(), other._bytes()
        total = different = 0
        for path in mine.keys() | theirs.keys():
            a, b = mine.get(path), theirs.get(path)
            size = max(len(part) for part in (a, b) if part is not None)
            total += size
            if a is None or b is None or a.shape != b.shape:
                different += size
            else:
                different += int((a != b).sum())
        lone = self.numbers.keys() | other.numbers.keys()
        different += sum(repr(self.numbers.get(path)) != repr(other.numbers.get(path)) for path in lone)
        texts = sum(isinstance(name, str) for name in self.names ^ other.names)
        return (different + texts) / max(total + len(lone) + texts, 1)

    def _bytes(self) -> dict[str, npt.NDArray[np.void]]:
        """Each array as one entry of raw bytes for each number: NaN equals itself, and minus zero is not zero."""
        found = {}
        for path, array in self.arrays.items():
            if array.size:
                flat = np.ascontiguousarray(array).reshape(-1)
                found[path] = flat.view(np.dtype((np.void, flat.dtype.itemsize)))
        for path, text in self.raw.items():
            if text:
                found[path] = np.frombuffer(text, dtype=np.dtype((np.void, 1)))
        return found


def read_stored(estimator: Any) -> Contents:
    """What can be read in an estimator that was written down and read again: of ours, its canonical state."""
    return read(pickle.loads(pickle.dumps(estimator)))


def read(thing: Any) -> Contents:
    """All that can be reached from an object: attributes, entries, arrays; not code, and not generators of noise."""
    found, seen = Contents(), set()
    waiting: list[tuple[str, Any]] = [("", thing)]
    while waiting:
        path, part = waiting.pop()
        if part is None or isinstance(part, _CODE):
            continue
        if isinstance(part, np.ndarray):
            if part.dtype.hasobject or part.dtype.kind in "US":
                waiting += [(f"{path}[{i}]", entry) for i, entry in enumerate(part.ravel().tolist())]
            else:
                found.arrays[path] = part.copy()
                if part.dtype.kind in "iu" and part.ndim == 1:
                    found.names.update(part.tolist())
        elif isinstance(part, int | float | complex | np.number):
            found.numbers[path] = part
            found.names.add(part)
        elif isinstance(part, str):
            found.names.add(part)
        elif isinstance(part, bytes | bytearray | memoryview):
            found.names.add(bytes(part))
            found.raw[path] = bytes(part)
        elif id(part) not in seen:
            seen.add(id(part))
            if sp.issparse(part):
                found.sparse.append(sp.csr_array(part, copy=True))
            elif isinstance(part, CoreRows):  # rows are held as bytes, each in a piece of memory of its own
                waiting.append((f"{path}.numbers", part.rows()))
            waiting += _parts(path, part)
    return found


def _parts(path: str, thing: Any) -> Iterator[tuple[str, Any]]:
    if sp.issparse(thing):
        yield from ((f"{path}.{name}", getattr(thing, name)) for name in ("data", "indices", "indptr"))
    elif isinstance(thing, Mapping):
        for i, (key, value) in enumerate(thing.items()):
            yield f"{path}<key {i}>", key
            yield f"{path}[{key if isinstance(key, str) and len(key) < 40 else i}]", value
    else:
        if isinstance(thing, Collection):
            yield from ((f"{path}[{i}]", entry) for i, entry in enumerate(thing))
        yield from ((f"{path}.{name}", value) for name, value in getattr(thing, "__dict__", {}).items())
        slots = [n for kind in type(thing).__mro__ for n in _listed(getattr(kind, "__slots__", ()))]
        names = [*slots, *(f.name for f in fields(thing))] if is_dataclass(thing) else slots
        yield from ((f"{path}.{name}", getattr(thing, name, None)) for name in names if name not in _HIDDEN)


_HIDDEN = ("__weakref__", "__dict__")


def _listed(names: Any) -> tuple[str, ...]:
    return (names,) if isinstance(names, str) else tuple(names)
