"""The keyed hash: a function of id and key alone, the same on every machine and for ever."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core.keyed_hash import keyed_hash
from tests.strategies import keys

EXPECTED = [
    1999189469129643863,
    12628011937364776581,
    11603455848518277627,
    7281353110225314599,
    16517547103799808508,
]


def by_hand(key, salted):
    """The definition, one id at a time, in integers of any size."""
    salt = hashlib.blake2b(str(salted).encode(), digest_size=16).digest()
    if not isinstance(key, int):
        key = key.encode() if isinstance(key, str) else key
        return int.from_bytes(hashlib.blake2b(key, digest_size=8, key=salt).digest(), "little")
    z = (key + int.from_bytes(salt[:8], "little")) % 2**64
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        z = (z ^ (z >> shift)) * factor % 2**64
    return z ^ (z >> 31)


@given(st.integers(1, 20).flatmap(lambda n: keys(n, distinct=True)), st.integers(0, 2**70))
def test_it_is_what_its_definition_says(ids, key):
    found = keyed_hash(ids, key)
    assert found.dtype == np.uint64
    assert found.tolist() == [by_hand(i, key) for i in ids]


def test_it_stays_as_it_is():
    """Core sets were drawn with it: other numbers would be other models."""
    assert keyed_hash([0, -1, 2**62], 0).tolist() == [by_hand(i, 0) for i in (0, -1, 2**62)] == EXPECTED[:3]
    assert keyed_hash(["", "row 1"], 7).tolist() == EXPECTED[3:5]
    assert keyed_hash([b"row 1"], 7).tolist() == EXPECTED[4:]


def test_no_ids_have_no_hashes():
    for nothing in ([], range(0)):
        assert keyed_hash(nothing, 0).tolist() == []


@pytest.mark.parametrize("name", [int, str, lambda i: str(i).encode()])
def test_every_bit_is_set_half_of_the_time(name):
    n = 4000
    found = keyed_hash([name(i) for i in range(n)], 1)
    bits = (found[:, None] >> np.arange(64, dtype=np.uint64)) & np.uint64(1)
    assert (np.abs(bits.sum(axis=0).astype(float) - n / 2) < 5 * np.sqrt(n) / 2).all()
