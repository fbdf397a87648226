"""Ids hashed on a device: the same numbers, bit for bit. What a GPU would do is done by PyTorch on the processor."""

from __future__ import annotations

import pickle
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.core.names import keyed_hash
from erasable.engines import Torch, device_hash
from erasable.engines.device_hash import DeviceHash, hashed_there
from erasable.errors import EngineError

torch = pytest.importorskip("torch", reason="needs PyTorch")
HERE = torch.device("cpu")
INTEGERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(INTEGERS, min_size=1, max_size=30), st.integers(0, 2**70))
def test_the_hashes_are_those_of_the_processor(ids, key):
    found = hashed_there(torch, HERE, np.array(ids, dtype=np.int64), key)
    assert found.dtype == np.uint64
    assert found.tolist() == keyed_hash(ids, key).tolist()


@pytest.mark.parametrize("numbers", [range(5, 5000), range(5, 5000, 7), range(50, -50, -3)])
def test_numbered_rows_are_hashed_as_their_numbers(numbers):
    wanted = keyed_hash(np.array(numbers), 3).tolist()
    assert hashed_there(torch, HERE, numbers, 3).tolist() == keyed_hash(numbers, 3).tolist() == wanted


def test_ids_in_any_layout_and_width_are_hashed():
    ids = np.arange(-50, 50)
    for some in (ids[::-1], ids[::3], ids.astype(np.int16), ids.astype(">i8")):
        assert hashed_there(torch, HERE, some, 3).tolist() == keyed_hash(some.tolist(), 3).tolist()


def test_ids_that_may_not_be_written_to_are_hashed_too():
    ids = np.arange(100)
    ids.flags.writeable = False
    assert hashed_there(torch, HERE, ids, 0).tolist() == keyed_hash(ids, 0).tolist()


@pytest.fixture
def there(monkeypatch):
    """A device that is none, and how many ids were hashed on it."""
    counts = []

    def hashed(made, device, ids, key):
        counts.append(len(ids))
        return hashed_there(made, HERE, ids, key)

    monkeypatch.setattr(device_hash, "torch_device", lambda name: SimpleNamespace(type=name))
    monkeypatch.setattr(device_hash, "hashed_there", hashed)
    return counts


@pytest.mark.parametrize("ids", [range(5000), np.arange(-5000, 0)])
def test_many_integers_are_hashed_there(there, ids):
    hashing = pickle.loads(pickle.dumps(DeviceHash("far")))
    for _ in range(2):
        assert hashing(ids, 7).tolist() == keyed_hash(ids, 7).tolist()
    assert there == [5000, 5000]


@pytest.mark.parametrize("ids", [range(20), np.arange(0), [str(i) for i in range(5000)]])
def test_few_and_texts_are_hashed_here(there, ids):
    assert DeviceHash("far")(ids, 7).tolist() == keyed_hash(ids, 7).tolist()
    assert there == []


def test_what_the_device_cannot_do_is_done_here(there, monkeypatch):
    def fails(*_):
        raise torch.OutOfMemoryError("none left")

    monkeypatch.setattr(device_hash, "hashed_there", fails)
    assert DeviceHash("far")(range(5000), 7).tolist() == keyed_hash(range(5000), 7).tolist()
    monkeypatch.undo()
    assert DeviceHash("there is no such device")(range(5000), 7).tolist() == keyed_hash(range(5000), 7).tolist()


def test_a_device_that_hashes_otherwise_is_refused(there, monkeypatch):
    monkeypatch.setattr(device_hash, "hashed_there", lambda made, device, ids, key: keyed_hash(ids, key + 1))
    with pytest.raises(EngineError, match="otherwise"):
        DeviceHash("far")(range(5000), 7)


@pytest.mark.parametrize("named", [True, False])
def test_a_fit_asks_it_once_for_each_id(there, named, monkeypatch):
    X = np.random.default_rng(0).standard_normal((9000, 3)).astype(np.float32)
    ids = np.random.default_rng(1).permutation(9000) if named else None
    plain = ErasableClassifier().fit(X, X[:, 0] > 0, ids=ids)
    engine = Torch("cpu")
    monkeypatch.setattr(engine, "hashing", lambda: DeviceHash("far"))
    clf = ErasableClassifier(engine=engine).fit(X, X[:, 0] > 0, ids=ids)
    assert clf.state_digest() == plain.state_digest()
    assert sum(there) == 9000
