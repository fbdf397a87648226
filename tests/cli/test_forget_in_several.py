"""``erasable forget`` in several files at once: each durable, one receipt each, one summary; killed, it is repeated."""

from __future__ import annotations

import io
import itertools
import shutil
from pathlib import Path

import numpy as np
import pytest

from erasable import ErasableClassifier, load, verify
from erasable.audit.keys import read_public_key
from erasable.audit.receipts import check_receipt, check_state
from erasable.cli.app import run
from tests.cli.session import answered, printed
from tests.machines.mortal import Killed, killed_at

RNG = np.random.default_rng(2)
X = RNG.standard_normal((60, 4))
OWNERS = [f"owner-{i % 7}" for i in range(60)]
MODELS = ("churn", "credit", "fraud")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "models").mkdir()
    (tmp_path / "receipts").mkdir()
    for j, name in enumerate(MODELS):
        rows = X + j
        ErasableClassifier(threshold=0.01).fit(rows, rows[:, 0] > j, range(60), OWNERS).save(f"models/{name}.erasable")
    assert run(["keys", "new", "-o", "signer"]) == 0
    return tmp_path


FORGET = ["forget", "models", "--subject", "owner-3"]
SIGN = ["--receipt", "receipts", "--key", "signer.pem"]


def stores(name, owner="owner-3"):
    return bool(load(f"models/{name}.erasable").rows_of(subjects=[owner]).rows)


def check_receipts(request_id, names=MODELS):
    for name in names:
        text = Path(f"receipts/receipt-{name}-{request_id}.json").read_text()
        found = check_receipt(text, read_public_key("signer.pub.pem"))
        assert found.request_id == request_id
        check_state(found, load(f"models/{name}.erasable").state_digest())


def test_one_command_reaches_every_file_with_a_receipt_for_each(folder, capsys):
    alone = ErasableClassifier(threshold=0.01).fit(X, X[:, 0] > 0, range(60), OWNERS)
    alone.forget(subjects=["owner-3"])
    capsys.readouterr()
    assert run([*FORGET, *SIGN, "--request-id", "case-7"]) == 0
    out, err = capsys.readouterr()
    assert [line.partition(":")[0] for line in out.splitlines()[:3]] == [f"models/{n}.erasable" for n in MODELS]
    assert out.splitlines()[3].startswith("1 named; ")
    assert out.splitlines()[3].endswith("forgotten in 3 of 3 models.")
    assert err == ""
    assert load("models/churn.erasable").state_digest() == alone.state_digest()
    assert not any(map(stores, MODELS))
    check_receipts("case-7")


def test_files_named_one_by_one_and_twice_are_each_changed_once(folder, capsys):
    files = ["models/credit.erasable", "models/churn.erasable", "models/../models/credit.erasable"]
    told = answered(capsys, ["forget", *files, "--subject", "owner-3", "--json"])
    assert (told["done"], told["failed"], len(told["models"])) == (2, 0, 2)
    assert told["core_rows_removed"] == sum(one["core_rows_removed"] for one in told["models"])
    assert [stores(name) for name in MODELS] == [False, False, True]


def test_a_list_on_standard_input_is_read_once_for_all_of_them(folder, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"owner-3\nowner-5\n")))
    assert "2 named" in printed(capsys, ["forget", "models", "--subjects-file", "-"]).out
    assert not any(stores(name, owner) for name in MODELS for owner in ("owner-3", "owner-5"))


def test_nothing_is_changed_where_a_name_cannot_be_of_one_of_the_models(folder, capsys):
    ErasableClassifier(threshold=0.01).fit(X, X[:, 0] > 0, range(60), range(60)).save("models/numbers.erasable")
    before = {path: path.read_bytes() for path in (folder / "models").glob("*.erasable")}
    assert "models/numbers.erasable: --subject: those of this model are whole numbers" in printed(capsys, FORGET, 2).err
    assert run(["forget", "models", "models/gone.erasable", "--subject", "owner-3"]) == 2
    assert run([*FORGET, "--receipt", "nowhere", "--key", "signer.pem"]) == 5
    assert run([*FORGET, "--receipt", "signer.pem", "--key", "signer.pem"]) == 5
    (folder / "empty").mkdir()
    assert run(["forget", "empty", "--subject", "owner-3"]) == 2
    shutil.copytree("models", "copies")
    assert run(["forget", "models", "copies", "--subject", "owner-3", *SIGN]) == 2
    assert {path: path.read_bytes() for path in before} == before
    assert not list((folder / "receipts").iterdir())


def test_a_file_that_fails_keeps_none_of_the_others_from_it(folder, capsys):
    clf = load("models/churn.erasable")
    clf._model.sums.H[0, 0] += 1
    clf.save("models/churn.erasable", overwrite=True)  # it does not verify, so it gets no receipt and no change
    capsys.readouterr()
    assert run([*FORGET, *SIGN, "--request-id", "case-8"]) == 4
    out, err = capsys.readouterr()
    assert "models/churn.erasable: not done" in out
    assert "forgotten in 2 of 3 models" in out
    assert "run the same command again" in err
    assert [stores(name) for name in MODELS] == [True, False, False]
    check_receipts("case-8", MODELS[1:])
    told = answered(capsys, [*FORGET, *SIGN, "--request-id", "case-8", "--json"], 4)
    assert (told["done"], told["failed"]) == (2, 1)
    assert "problem" in told["models"][0]
    (folder / "models" / "churn.erasable").unlink()
    assert "kept from an interrupted run" in printed(capsys, [*FORGET, *SIGN, "--request-id", "case-8"]).out


def test_killed_at_every_step_and_repeated_it_is_done_in_all_of_them(folder, tmp_path):
    (folder / "models" / "fraud.erasable").unlink()
    command, start = [*FORGET, *SIGN, "--request-id", "case-9"], tmp_path / "start"
    shutil.copytree("models", start)
    for step in itertools.count(0, 3):
        shutil.rmtree("models")
        shutil.rmtree("receipts")
        shutil.copytree(start, "models")
        (folder / "receipts").mkdir()
        finished = False
        try:
            with killed_at(step, torn=True):
                finished = run(command) == 0
        except Killed:
            pass
        assert run(command) == 0, step
        for name in MODELS[:2]:
            verify(load(f"models/{name}.erasable"))
            assert not stores(name)
        check_receipts("case-9", MODELS[:2])
        assert len(list((folder / "receipts").iterdir())) == 2
        if finished:
            break
    assert step > 30
