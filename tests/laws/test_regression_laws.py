"""The laws for targets: a regression is what learning its own rows gives, bit for bit, and what the oracle gives."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from erasable import ErasableRegressor, load, verify
from erasable.models import files as shards
from erasable.models.files import read_model

RNG = np.random.default_rng(3)
X = RNG.standard_normal((300, 6)) * (RNG.random((300, 6)) < 0.5)
Y = np.stack([X[:, 0] * 2.0, 30.0 + X[:, 1]], axis=1)
IDS = np.array([f"r{i}" for i in range(300)])
MADE = ErasableRegressor([(-20.0, 20.0), (0.0, 60.0)], threshold=0.05)


def digest_of(X, y, ids):
    reg = clone(MADE).fit(X, y, ids=ids)
    reg.forget(ids=IDS[::7])
    return reg.state_digest()


def test_the_order_of_the_rows_the_container_and_blocks_leave_the_digest_alone():
    index = RNG.permutation(300)
    right = digest_of(X, Y, IDS)
    assert right == digest_of(X[index], Y[index], IDS[index])
    assert right == digest_of(sp.csr_array(X), Y.tolist(), list(IDS))

    class Block:
        def __init__(self, at):
            self.X, self.y, self.ids, self.subjects = X[at], Y[at], IDS[at], None

    reg = clone(MADE)
    reg.learn_blocks([Block(index[:50]), Block(index[50:210]), Block(index[210:])], budget_bytes=20_000)
    reg.forget(ids=IDS[::7])
    assert reg.state_digest() == right


def test_targets_do_not_decide_which_rows_are_kept():
    other = clone(MADE).fit(X, -Y[::-1] + [0.0, 60.0], ids=IDS)
    assert other.core_ids_.tolist() == clone(MADE).fit(X, Y, ids=IDS).core_ids_.tolist()


def test_what_is_kept_of_a_forgotten_row_is_nothing():
    """Targets in the state are those of survivors: the bytes are the same whatever the row that left had answered."""
    states = []
    for changed in (0.0, 1.5):
        y = Y.copy()
        y[7] += changed
        reg = clone(MADE).set_params(threshold=0.0).fit(X, y, ids=IDS)
        reg.forget(ids=[IDS[7]])
        states.append(pickle.dumps(reg))
    assert states[0] == states[1]


@pytest.mark.parametrize("container", [np.array, sp.csr_array])
def test_several_files_say_what_one_does(tmp_path, monkeypatch, container):
    wide = np.zeros((120, 50))
    wide[np.arange(120)[:, None], (np.arange(120)[:, None] * 7 + np.arange(6) * 11) % 50] = X[:120] + 0.01
    reg = (
        clone(MADE)
        .set_params(threshold=1e-6)
        .fit(container(wide), Y[:120], ids=IDS[:120], sample_weight=1 + X[:120, 0] ** 2)
    )
    reg.save(tmp_path / "one")
    monkeypatch.setattr(shards, "LARGEST_FILE", 500)
    monkeypatch.setattr(shards, "LARGEST_SHARD", 300)
    reg.save(tmp_path / "many")
    assert len(list((tmp_path / ".many.parts").iterdir())) > 3
    again = load(tmp_path / "many")
    assert again.state_digest() == reg.state_digest() == verify(read_model(tmp_path / "one")[0]).digest
    assert again.get_params()["target_range"] == ((-20.0, 20.0), (0.0, 60.0))
