"""The keyed hash: a function of id and key alone, the same on every machine and for ever."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.core import names as module
from erasable.core.names import _siphash, hashed_order, keyed_hash
from tests.oracle import siphash, turn
from tests.strategies import keys

EXPECTED = [
    8752957855691692002,
    6084734725903098097,
    8652974795520337996,
    7281353110225314599,
    16517547103799808508,
]
# The key 00 01 ... 0f and the texts 00 01 ... of a length: the paper's appendix A, and the authors' table of vectors.
VECTORS = {0: 0x726FDB47DD0E0E31, 8: 0x93F5F5799A932462, 15: 0xA129CA6149BE45E5}


@pytest.mark.parametrize("length", VECTORS)
def test_the_definition_gives_the_published_vectors(length):
    assert siphash(bytes(range(length)), bytes(range(16))) == VECTORS[length]


def test_eight_bytes_give_the_published_vector():
    words = np.frombuffer(bytes(range(8)), dtype="<u8")
    assert _siphash(words, bytes(range(16))).tolist() == [VECTORS[8]]


@given(st.integers(1, 20).flatmap(lambda n: keys(n, distinct=True)), st.integers(0, 2**70))
def test_it_is_what_its_definition_says(ids, key):
    found = keyed_hash(ids, key)
    assert found.dtype == np.uint64
    assert found.tolist() == [turn(i, key) for i in ids]


def test_it_stays_as_it_is():
    """Core sets were drawn with it: other numbers would be other models."""
    assert keyed_hash([0, -1, 2**62], 0).tolist() == [turn(i, 0) for i in (0, -1, 2**62)] == EXPECTED[:3]
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


# -- the order of rows -------------------------------------------------------------------------------------------


@given(st.integers(1, 20).flatmap(lambda n: keys(n, distinct=True)), st.integers(0, 2**70), st.randoms())
def test_the_order_is_that_of_the_set(ids, key, random):
    ordered = [ids[i] for i in hashed_order(ids, key)]
    assert ordered == sorted(ids, key=lambda i: turn(i, key))
    shuffled = random.sample(ids, len(ids))
    assert [shuffled[i] for i in hashed_order(shuffled, key)] == ordered


@given(st.integers(1, 20).flatmap(lambda n: keys(n, distinct=True)), st.integers(1, 4))
def test_ids_with_one_hash_stand_in_their_own_order(ids, n_hashes):
    def few(given, key):
        return np.array([turn(i, key) % n_hashes for i in given], dtype=np.uint64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "keyed_hash", few)
        order = hashed_order(ids, 5)
    plain = [i.encode() if isinstance(i, str) else i for i in ids]
    assert order.tolist() == sorted(range(len(ids)), key=lambda i: (turn(ids[i], 5) % n_hashes, plain[i]))


def test_arrays_ranges_and_lists_have_one_order():
    orders = [hashed_order(ids, 3).tolist() for ids in (range(-5, 50), list(range(-5, 50)), np.arange(-5, 50))]
    assert orders[0] == orders[1] == orders[2]
    assert hashed_order([], 0).tolist() == []


@given(st.integers(1, 20).flatmap(lambda n: keys(n, distinct=True)), st.integers(1, 3), st.integers(1, 3))
def test_hashes_that_differ_in_their_last_bits_only_are_told_apart(ids, n_highs, n_lows):
    def near(given, key):
        return np.array([(turn(i, key) % n_highs << 62) + turn(i, key) // 7 % n_lows for i in given], dtype=np.uint64)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "keyed_hash", near)
        order = hashed_order(ids, 5)
    plain = [i.encode() if isinstance(i, str) else i for i in ids]
    assert order.tolist() == sorted(range(len(ids)), key=lambda i: (near([ids[i]], 5)[0], plain[i]))
