"""A table by name in which nothing shows that a name was in it and left.

A dictionary keeps the slot of an entry that was deleted, between those that came before it and after it, and does not
get smaller. Here names are spread over small dictionaries by their hashes: how many there are depends on the number of
names alone, each is in the order of its names, and one that a name leaves is made anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

from erasable.core.names import Key

V = TypeVar("V")

_SHARE = 8  # names of a small dictionary, at most on average
_MIXED = 20  # the lower bits of the hash of a tuple may be the same for many numbers; a whole number is its own hash


class NameTable(Mapping[Key, V]):
    """Values by name. It is iterated in no order that means anything."""

    def __init__(self) -> None:
        self._n = 0
        self._parts: list[dict[Key, V]] = [{} for _ in range(1)]  # as large as :meth:`_fit` would make it

    def __len__(self) -> int:
        return self._n

    def __iter__(self) -> Iterator[Key]:
        return chain.from_iterable(self._parts)

    def __contains__(self, name: Any) -> bool:
        return name in self._parts[(hash((name,)) >> _MIXED) % len(self._parts)]

    def __getitem__(self, name: Key) -> V:
        return self._parts[(hash((name,)) >> _MIXED) % len(self._parts)][name]

    def _places(self, names: Collection[Key]) -> list[int]:
        """Which of the small dictionaries each name is in, or would be."""
        n = len(self._parts)
        return [(mixed >> _MIXED) % n for mixed in map(hash, zip(names))]

    def among(self, names: Collection[Key]) -> list[Key]:
        """Those of these names that are here."""
        parts, n = self._parts, len(self._parts)
        return [name for name in names if name in parts[(hash((name,)) >> _MIXED) % n]]

    def values_of(self, names: Collection[Key]) -> list[V]:
        """The values of these names, all of which are here."""
        parts, n = self._parts, len(self._parts)
        return [parts[(hash((name,)) >> _MIXED) % n][name] for name in names]

    def put(self, entries: Mapping[Key, V]) -> None:
        """Names come, or have another value."""
        new = dict(entries)
        if self._n:
            for at, name in zip(self._places(entries), entries, strict=True):
                if name in self._parts[at]:
                    self._parts[at][name] = new.pop(name)
        if new:
            self._n += len(new)
            self._fit()
            self._insert(new)

    def drop(self, names: Collection[Key]) -> None:
        """These names, all of which are here and distinct, leave."""
        parts, n = self._parts, len(self._parts)
        for name in names:
            at = (hash((name,)) >> _MIXED) % n
            part = parts[at]
            del part[name]
            parts[at] = {k: v for k, v in part.items()}  # noqa: C416 (dict() would copy the gap)
        self._n -= len(names)
        self._fit()

    def _fit(self) -> None:
        """As many small dictionaries as there are for so many names."""
        wanted = 1 << (self._n // _SHARE).bit_length()
        if wanted != len(self._parts):
            old, self._parts = self._parts, [{} for _ in range(wanted)]
            everything: dict[Key, V] = {}
            for part in old:
                everything.update(part)
            self._insert(everything)

    def _insert(self, new: Mapping[Key, V]) -> None:
        """New names come; a dictionary that has some of them is made anew, in order."""
        parts = self._parts
        coming: defaultdict[int, list[Key]] = defaultdict(list)
        for at, name in zip(self._places(new), new, strict=True):
            coming[at].append(name)
        for at, names in coming.items():
            entries = {**parts[at], **{name: new[name] for name in names}} if parts[at] else new
            parts[at] = {name: entries[name] for name in sorted([*parts[at], *names])}
