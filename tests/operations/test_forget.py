"""Forgetting in a model file as one operation: names of the model's own kind, and a receipt where one is wanted."""

import numpy as np
import pytest

from erasable import ErasableClassifier, load
from erasable.audit.keys import new_key
from erasable.audit.receipts import check_receipt
from erasable.errors import InputError, ReceiptNotWrittenError, StoreError
from erasable.operations.forget import Names, forget
from erasable.store import Disk

X = np.random.default_rng(0).standard_normal((60, 3))
KEY = new_key()


@pytest.fixture
def path(tmp_path):
    new = ErasableClassifier(threshold=0.01)
    new.fit(X, X[:, 0] > 0, ids=range(60), subjects=[f"s{i % 7}" for i in range(60)]).save(tmp_path / "m.erasable")
    return tmp_path / "m.erasable"


def test_rows_go_and_the_receipt_is_of_the_state_that_is_left(path, tmp_path):
    core, before = load(path).core_ids_.tolist(), load(path).state_digest()
    done = forget(path, ids=core[:2], subjects=["nobody"], receipt=tmp_path / "r.json", key=KEY)
    assert (done.report.requested, done.report.core_rows_removed, done.report.not_stored) == (3, 2, 1)
    assert (done.receipt_kept, done.blind) == (False, False)
    assert load(path).core_ids_.tolist() == core[2:]
    receipt = check_receipt((tmp_path / "r.json").read_text(), KEY.public)
    assert (receipt.state_before, receipt.state_after) == (before, done.report.digest)
    assert done.report.digest == load(path).state_digest()


def test_asked_again_it_keeps_the_receipt_of_the_run_that_was_cut_short(path, tmp_path):
    key = load(path).core_ids_[0]
    asked = {"receipt": tmp_path / "r.json", "key": KEY, "request_id": "one"}
    forget(path, ids=[key], **asked)
    text = (tmp_path / "r.json").read_bytes()
    assert forget(path, ids=[key], **asked).receipt_kept
    assert (tmp_path / "r.json").read_bytes() == text
    with pytest.raises(StoreError, match="never overwritten"):  # another request
        forget(path, ids=load(path).core_ids_[:1], **asked)
    with pytest.raises(StoreError, match="never overwritten"):  # perhaps another one
        forget(path, ids=[key], receipt=tmp_path / "r.json", key=KEY)
    with pytest.raises(StoreError, match="never overwritten"):  # another signer
        forget(path, ids=[key], **{**asked, "key": new_key()})


def test_texts_become_keys_of_the_models_kind(path, tmp_path):
    core = load(path).core_ids_.tolist()
    (tmp_path / "gone.txt").write_text(f"{core[1]}\n")
    done = forget(path, ids=Names((str(core[0]),), (tmp_path / "gone.txt",)))
    assert done.report.core_rows_removed == 2
    with pytest.raises(InputError, match="--id: the model's are whole numbers"):
        forget(path, ids=Names(("1_0",), called="--id"))


def test_subjects_that_no_row_can_have_are_told(tmp_path):
    ErasableClassifier(threshold=0.01).fit(X, X[:, 0] > 0).save(tmp_path / "m.erasable")
    done = forget(tmp_path / "m.erasable", subjects=["ann"])
    assert done.blind
    assert done.report.not_stored == 1


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
