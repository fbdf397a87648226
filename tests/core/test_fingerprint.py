"""Fingerprints differ exactly when something that is stored does."""

from __future__ import annotations

import pickle
import re
import threading
import types
import weakref
from array import array
from collections import defaultdict, deque
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Any, Self

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as hs

from erasable.core.fingerprint import fingerprint

plain = hs.sampled_from([None, False, True, 0, 1, -7, 0.0, -0.0, 1.0, 1e300, "", "a", "b", " ", b"", b"a", b" "])
values = hs.recursive(
    plain,
    lambda inner: hs.lists(inner, max_size=2) | hs.tuples(inner) | hs.dictionaries(hs.sampled_from("ab"), inner),
    max_leaves=4,
)


def told_apart(a: Any, b: Any) -> bool:
    """The slow way: types and structure spelt out."""

    def spelt(value: Any) -> str:
        if isinstance(value, dict):
            return "{" + ",".join(spelt(k) + ":" + spelt(v) for k, v in value.items()) + "}"
        if isinstance(value, list | tuple):
            return type(value).__name__ + "[" + ",".join(map(spelt, value)) + "]"
        return f"{type(value).__name__} {value!r}"

    return spelt(a) != spelt(b)


@given(values, values)
def test_two_values_have_one_fingerprint_exactly_when_they_are_spelt_alike(a: Any, b: Any) -> None:
    assert (fingerprint(a) != fingerprint(b)) == told_apart(a, b)
    assert fingerprint(a) == fingerprint(pickle.loads(pickle.dumps(a)))


def closed_over(value: Any) -> Any:
    return lambda: value


def with_default(value: Any, named: Any = None) -> Any:
    def made(a: Any = value, *, b: Any = named) -> Any:
        return a, b

    return made


def produced(value: Any) -> Any:
    yield value


class Named:
    """Adds an attribute to values that have none of their own."""

    def of(self, name: str) -> Self:
        self.name = name
        return self


class Labelled(Named, np.ndarray[Any, Any]): ...


class Entries(Named, list[Any]): ...


DIFFERENT = [
    (0.0, -0.0),
    (np.float32(1), np.float64(1)),
    (np.zeros(2), np.zeros((2, 1))),
    (np.zeros(2), np.array([0.0, 5e-324])),
    (np.array([1, 2], object), np.array([1, 3], object)),
    (np.array([1, 2]), [1, 2]),
    ({1, 2}, {1, 3}),
    ({1: 2, 3: 4}, {3: 4, 1: 2}),
    (sp.csr_array([[1.0, 0.0]]), sp.csr_array(([1.0, 0.0], ([0, 0], [0, 1])), shape=(1, 2))),
    (np.random.default_rng(0), np.random.default_rng(1)),
    (np.random.RandomState(0), np.random.RandomState(1)),
    (len, max),
    (int, float),
    (["a", "b"], ["ab"]),
    ([b"a", b"b"], [b"a b"]),
    (deque([1]), deque([2])),
    (array("d", [1.0]), array("d", [2.0])),
    (Decimal("1.0"), Decimal("1.00")),
    (date(2024, 1, 1), date(2024, 1, 2)),
    ({0, 8}, {8, 0}),  # equal, and iterated in another order
    (np.arange(4)[:2], np.arange(2)),
    (np.arange(4)[:0], np.arange(0)),
    (np.arange(4)[::2], np.array([0, 2])),
    (np.broadcast_to(np.arange(4)[:1], 4), np.zeros(4, int)),
    (np.frombuffer(bytes(24), count=2), np.zeros(2)),
    (np.array([(1, 2)], "i,i")[0], np.array([(1, 2), (3, 4)], "i,i")[0]),
    (np.ma.array([1, 2], mask=[0, 1]), np.ma.array([1, 2], mask=[0, 0])),
    (np.ones(2).view(Labelled), np.ones(2).view(Labelled).of("a")),
    (memoryview(b"ab")[:1], memoryview(b"a")),
    (sp.lil_array([[1.0, 0.0]]), sp.lil_array([[0.0, 1.0]])),
    (sp.dok_array([[1.0, 0.0]]), sp.dok_array([[0.0, 1.0]])),
    (sp.coo_array([[1.0, 0.0]]), sp.coo_array([[0.0, 1.0]])),
    (closed_over(1), closed_over(2)),
    (with_default(1), with_default(2)),
    (with_default(0, 1), with_default(0, 2)),
    (lambda: 1, lambda: 2),
    (lambda: lambda: 1, lambda: lambda: 2),
    (types.MethodType(closed_over(1), 0), types.MethodType(closed_over(2), 0)),
    (partial(closed_over(1)), partial(closed_over(2))),
    ([1].append, [2].append),
    (Entries([1]), Entries([1]).of("a")),
    (defaultdict(closed_over(1)), defaultdict(closed_over(2))),
    ({1: 2}.items(), {1: 3}.items()),
    (types.MappingProxyType({1: 2}), types.MappingProxyType({1: 3})),
    (produced(1), produced(2)),
]


def test_attributes_of_a_function_count() -> None:
    a, b = closed_over(1), closed_over(1)
    assert fingerprint(a) == fingerprint(b)
    a.seen = [3]  # type: ignore[attr-defined]
    assert fingerprint(a) != fingerprint(b)


def test_a_function_may_call_itself_and_have_an_empty_cell() -> None:
    def make(n: int) -> Any:
        def again(k: int) -> int:
            return n if k == 0 else again(k - 1) + later

        if n < 0:
            later = n
        return again

    assert fingerprint(make(1)) == fingerprint(make(1)) != fingerprint(make(2))


@pytest.mark.parametrize(("a", "b"), DIFFERENT)
def test_small_differences_are_seen(a: Any, b: Any) -> None:
    assert fingerprint(a) != fingerprint(b)
    assert fingerprint(a) == fingerprint(a)


def test_equal_bits_have_equal_fingerprints_whatever_memory_they_stand_in() -> None:
    X = np.arange(12.0).reshape(3, 4)
    assert fingerprint(X[::-1].T) == fingerprint(np.ascontiguousarray(X[::-1].T))
    assert fingerprint(np.frombuffer(bytes(16))) == fingerprint(np.zeros(2))
    used = np.random.default_rng(0)
    used.random(3)
    assert fingerprint(used) != fingerprint(np.random.default_rng(0))


def test_what_is_shared_is_looked_at_once_and_counts_as_if_it_were_not() -> None:
    shared: list[Any] = [np.arange(3)]
    for _ in range(60):
        shared = [shared, shared]  # two to the sixtieth arrays, were they copies
    assert fingerprint(shared) != fingerprint([shared, shared])
    one, copies = np.arange(3), [np.arange(3), np.arange(3)]
    assert fingerprint([one, one]) == fingerprint(copies)


def test_an_object_that_holds_itself_has_a_fingerprint() -> None:
    class Node:
        value = 0

    a, b = Node(), Node()
    a.me = b.me = None  # type: ignore[attr-defined]
    a.me = a  # type: ignore[attr-defined]
    b.me = b  # type: ignore[attr-defined]
    assert fingerprint(a) == fingerprint(b)
    b.more = 1  # type: ignore[attr-defined]
    assert fingerprint(a) != fingerprint(b)


def local_of(value: Any) -> threading.local:
    held = threading.local()
    held.value = value
    return held


class Locked:
    """Attributes beside something that no pickle holds."""

    def __init__(self, value: Any) -> None:
        self.value, self.lock = value, threading.Lock()


@pytest.mark.parametrize(
    "make", [lambda: threading.Lock(), lambda: weakref.ref(Locked), lambda: (i for i in "ab"), lambda: local_of(1)]
)
def test_what_cannot_be_pickled_is_its_type_and_attributes(make: Any) -> None:
    assert fingerprint(make()) == fingerprint(make())
    assert fingerprint([make(), 1]) != fingerprint([make(), 2])
    assert fingerprint(make()) != fingerprint(threading.RLock())


def test_attributes_of_what_cannot_be_pickled_count() -> None:
    assert fingerprint(Locked(1)) == fingerprint(Locked(1)) != fingerprint(Locked(2))
    assert fingerprint(local_of(1)) != fingerprint(local_of(2))
    assert fingerprint(re.compile("a")) == fingerprint(re.compile("a")) != fingerprint(re.compile("b"))
