"""Forgetting in a model file as one operation: names of the model's own kind, and a receipt where one is wanted."""

import numpy as np
import pytest

from erasable import ErasableClassifier, load
from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt
from erasable.errors import ReceiptNotWrittenError
from erasable.operations.forget import forget
from erasable.store import Disk

X = np.random.default_rng(0).standard_normal((60, 3))
KEY = new_key()


@pytest.fixture
def path(tmp_path):
    new = ErasableClassifier(threshold=0.01, feature_map=None)
    new.fit(X, X[:, 0] > 0, ids=range(60), subjects=[f"s{i % 7}" for i in range(60)]).save(tmp_path / "m.erasable")
    return tmp_path / "m.erasable"


def test_rows_go_and_the_receipt_is_of_the_state_that_is_left(path, tmp_path):
    core, before = load(path).core_ids_.tolist(), load(path).state_digest()
    done = forget(path, ids=core[:2], subjects=["nobody"], receipt=tmp_path / "r.json", key=KEY)
    assert (done.report.requested, done.report.core_rows_removed, done.report.not_stored) == (3, 2, 1)
    assert (done.receipt_kept, done.no_subjects_stored) == (False, False)
    assert load(path).core_ids_.tolist() == core[2:]
    receipt = check_receipt((tmp_path / "r.json").read_text(), KEY.public)
    assert (receipt.state_before, receipt.state_after) == (before, done.report.digest)
    assert done.report.digest == load(path).state_digest()


def test_a_receipt_whose_name_was_taken_meanwhile_is_in_the_error(path, tmp_path, monkeypatch):
    key, link = load(path).core_ids_[0], Disk.link

    def taken(self, source, target):
        if target == str(tmp_path / "r.json"):
            (tmp_path / "r.json").write_text("theirs")
        link(self, source, target)

    monkeypatch.setattr(Disk, "link", taken)
    with pytest.raises(ReceiptNotWrittenError, match="the rows are forgotten") as caught:
        forget(path, ids=[key], receipt=tmp_path / "r.json", key=KEY)
    check_receipt(caught.value.receipt, KEY.public)
    assert (tmp_path / "r.json").read_text() == "theirs"
    assert key not in load(path).core_ids_
