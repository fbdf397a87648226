"""How much work one change is: a snapshot is made once, and is what is verified, written, signed and reported."""

import hashlib
import sys
from collections import Counter

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableKernelClassifier, load
from erasable.audit.keys import new_key, write_key
from erasable.cli.app import run
from erasable.core import layout
from erasable.store import _files

X = np.random.default_rng(0).standard_normal((2000, 20))
IDS = [f"row-{i}" for i in range(len(X))]
NEW = ErasableClassifier(threshold=0.01), ErasableKernelClassifier(gamma=0.1, scaling=4.0, threshold=0.01)


@pytest.fixture(params=NEW, ids=["linear", "kernel"])
def path(request, tmp_path, monkeypatch):
    """A model that is large beside its header, in a folder with a key."""
    monkeypatch.chdir(tmp_path)
    rows = X if isinstance(request.param, ErasableClassifier) else X[:300]
    request.param.fit(rows, rows[:, 0] > 0, ids=IDS[: len(rows)]).save("m.erasable")
    write_key(new_key(), "signer")
    return tmp_path / "m.erasable"


@pytest.fixture
def counts(monkeypatch):
    """A function that runs a command and counts serialisations, SHA-256 passes over whole states, and loads."""
    found = Counter()
    serialise, sha256, read_once = layout.parts, hashlib.sha256, _files.read_once

    def parts(*arguments):
        found["serialisations"] += 1
        return serialise(*arguments)

    def load_once(*arguments):
        found["loads"] += 1
        return read_once(*arguments)

    class Sha256:
        """One hash; counted once it has gone over as many bytes as a state has."""

        def __init__(self, data=b""):
            self.whole, self.inner, self.bytes = found["bytes of a state"], sha256(), 0
            self.update(data)

        def update(self, data):
            self.inner.update(data)
            before, self.bytes = self.bytes, self.bytes + memoryview(data).nbytes
            found["hashes"] += before < self.whole <= self.bytes

        def __getattr__(self, name):
            return getattr(self.inner, name)

    def counted(arguments, path):
        import erasable.operations.forget
        import erasable.operations.learn  # noqa: F401

        found["bytes of a state"] = int(0.9 * path.stat().st_size)
        for module in [m for name, m in sys.modules.items() if name.startswith("erasable.")]:
            for name, value in list(vars(module).items()):
                if value is serialise:
                    monkeypatch.setattr(module, name, parts)
        monkeypatch.setattr(_files, "read_once", load_once)
        monkeypatch.setattr(hashlib, "sha256", Sha256)
        assert run(arguments) == 0
        monkeypatch.undo()
        return {name: found[name] for name in ("serialisations", "hashes", "loads")}

    return counted


def test_forgetting_with_a_receipt(path, counts):
    arguments = ["forget", str(path), "--id", "row-0", "--receipt", str(path.with_name("r.json")), "--key"]
    # What is read is written again and compared; then the snapshot. Both carry a checksum, and the digests are those of
    # the bytes read and of the snapshot. What learning its rows from nothing gives is compared without being written.
    found = counts([*arguments, str(path.with_name("signer.pem"))], path)
    assert found == {"serialisations": 2, "hashes": 4, "loads": 1}
    assert "row-0" not in load(path).core_ids_


def test_forgetting_without_a_receipt(path, counts):
    found = counts(["forget", str(path), "--id", "row-0"], path)
    assert found == {"serialisations": 2, "hashes": 4, "loads": 1}


def test_learning_into_a_file_that_is_there(path, counts):
    n = len(load(path).core_ids_)
    table = path.with_name("more.npz")
    np.savez(table, X=X[:5] + 1, y=X[:5, 0] > 0, ids=[f"more-{i}" for i in range(5)])
    found = counts(["learn", str(table), "-o", str(path)], path)
    assert found == {"serialisations": 2, "hashes": 3, "loads": 1}
    assert len(load(path).core_ids_) > n


def test_verifying(path, counts):
    assert counts(["verify", str(path)], path) == {"serialisations": 2, "hashes": 3, "loads": 1}
