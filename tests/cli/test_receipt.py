"""``erasable keys`` and ``erasable receipt`` as a user types them."""

from __future__ import annotations

import json
import tracemalloc
from datetime import UTC, datetime
from types import SimpleNamespace

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import erasable.operations.verify
from erasable import ErasableClassifier
from erasable.audit.keys import new_key, read_private_key, read_public_key, write_key
from erasable.audit.receipts import LARGEST_RECEIPT, Receipt, make_receipt
from erasable.cli import keys, receipt
from erasable.cli.app import run
from erasable.core.names import Shape
from erasable.errors import (
    ConfigurationError,
    ReceiptError,
    StateFormatError,
    StoreError,
    VerificationError,
)
from tests.cli.session import printed

AFTER = "cd" * 32
app = typer.Typer()
app.add_typer(keys.app, name="keys")
app.add_typer(receipt.app, name="receipt")


@pytest.fixture
def command(monkeypatch, tmp_path):
    """Run a command in an empty folder; an error that was foreseen is raised as it is."""
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.chdir(tmp_path)

    def invoke(*arguments, **options):
        result = CliRunner().invoke(app, arguments, **options)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return result

    return invoke


@pytest.fixture
def signed(tmp_path):
    """A key and its receipt in the folder, ``signer.pub.pem`` and ``receipt.json``."""
    key = new_key()
    write_key(key, tmp_path / "signer")
    text = make_receipt(
        key,
        Receipt(
            state_before="ab" * 32,
            state_after=AFTER,
            guarantee="exact [bold]unlearning[/]",
            format_version=1,
            requested_at=datetime(2026, 1, 1, tzinfo=UTC),
            request_id="req [red] 1",
        ),
    )
    (tmp_path / "receipt.json").write_text(text)
    return key


def test_the_model_the_shape_and_the_spelling_are_shown(command, signed, tmp_path):
    given = {"state_before": None, "state_after": AFTER, "guarantee": "exact", "format_version": 1}
    asked = Shape.of([("raw", "ann, bob")])
    text = make_receipt(
        signed, Receipt(requested_at=datetime.now(UTC), model="credit", asked=asked, normalisation={}, **given)
    )
    (tmp_path / "receipt.json").write_text(text)
    shown = command("receipt", "verify", "receipt.json", "--key", "signer.pub.pem").output
    assert "model         credit" in shown
    assert f"asked for     {asked}" in shown
    assert "spelling      names are compared character by character" in shown


@pytest.fixture
def models(monkeypatch):
    """What is verified when a model file is named: a digest, or an error to raise."""
    held = {}

    def verify_file(path, progress=None):
        progress(1, 2)
        found = held[path.name]
        if isinstance(found, Exception):
            raise found
        return SimpleNamespace(digest=found, core_rows=17, learner=None)

    monkeypatch.setattr(erasable.operations.verify, "verify_file", verify_file)
    return held


VERIFY = ("receipt", "verify", "receipt.json", "--key", "signer.pub.pem")


def test_new_keys_are_written_and_explained(command, tmp_path):
    result = command("keys", "new", "-o", "signer")
    assert result.exit_code == 0
    key = read_private_key(tmp_path / "signer.pem")
    assert read_public_key(tmp_path / "signer.pub.pem") == key.public
    assert "signer.pem  signs. Keep it where only the signer can read it" in result.stdout
    assert "signer.pub.pem  checks. Give it to all who check receipts" in result.stdout
    assert f"key id {key.public.keyid}" in result.stdout


def test_new_keys_as_json(command, tmp_path):
    said = json.loads(command("keys", "new", "--json").stdout)
    assert said == {
        "private_key": "erasable-key.pem",
        "public_key": "erasable-key.pub.pem",
        "keyid": read_public_key(tmp_path / "erasable-key.pub.pem").keyid,
        "encrypted": False,
    }


def test_a_passphrase_comes_from_a_file_or_is_asked_for(command, tmp_path):
    (tmp_path / "word").touch(0o600)
    (tmp_path / "word").write_text("sesame\n")
    assert json.loads(command("keys", "new", "-o", "a", "--passphrase-file", "word", "--json").stdout)["encrypted"]
    read_private_key(tmp_path / "a.pem", passphrase=b"sesame")
    asked = command("keys", "new", "-o", "b", "--ask-passphrase", "--json", input="open\nopen\n")
    assert json.loads(asked.stdout)["encrypted"]
    read_private_key(tmp_path / "b.pem", passphrase=b"open")
    with pytest.raises(ConfigurationError, match="give one of them"):
        command("keys", "new", "-o", "c", "--ask-passphrase", "--passphrase-file", "word")
    assert not (tmp_path / "c.pem").exists()


def test_a_good_signature_is_reported_with_what_was_not_looked_at(command, signed, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    result = command(*VERIFY)
    assert result.exit_code == 0
    assert f"good, by key {signed.public.keyid[:16]}" in result.stdout
    assert "not checked: give --state MODEL" in result.stdout
    assert "req [red] 1" in result.stdout
    assert "exact [bold]unlearning[/]" in result.stdout
    assert AFTER in result.stdout


def test_a_model_is_compared_and_verified(command, signed, models):
    models["model.erasable"] = AFTER
    result = command(*VERIFY, "--state", "model.erasable")
    assert result.exit_code == 0
    assert "the model is the state after" in result.stdout
    assert "17 core rows learnt again give the same state" in result.stdout


def test_json_is_all_that_is_printed_on_request(command, signed, models):
    models["model.erasable"] = AFTER
    said = json.loads(command(*VERIFY, "--state", "model.erasable", "--json").stdout)
    assert said["checked"] == {
        "signature": True,
        "keyid": signed.public.keyid,
        "signatures": 1,
        "state": {"digest": AFTER, "verified": True, "core_rows": 17},
    }
    assert said["statement"]["predicate"]["requestId"] == "req [red] 1"
    assert json.loads(command(*VERIFY, "--json").stdout)["checked"]["state"] is None


def test_several_signatures_are_mentioned(command, signed, tmp_path):
    envelope = json.loads((tmp_path / "receipt.json").read_text())
    envelope["signatures"].append({"sig": "AAAA"})
    (tmp_path / "receipt.json").write_text(json.dumps(envelope))
    assert "the receipt has 2 signatures" in command(*VERIFY).stdout


KEY = ("--key", "signer.pub.pem")
ABOUT = "the state is not the one this receipt is about: "


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        (("receipt.json", *KEY, "--state", "same"), 0, ""),
        (("receipt.json",), 2, "--key"),
        (("receipt.json", "--key", "signer.pem"), 2, "this is a private one"),
        (("receipt.json", "--key", "receipt.json"), 2, "Ed25519 public key in PEM"),
        (("receipt.json", "--key", "other.pub.pem", "--state", "never read"), 3, "signed with another key"),
        (("signer.pub.pem", *KEY), 3, "not a receipt"),
        (("noise", *KEY), 3, "not a receipt: noise is not text in UTF-8"),
        (("huge", *KEY), 3, "not a receipt: it has more than 65536"),
        (("receipt.json", *KEY, "--state", "another"), 4, ABOUT + "its digest begins efefefef"),
        (("receipt.json", *KEY, "--state", "no model"), 4, ABOUT + "cut off"),
        (("receipt.json", *KEY, "--state", "damaged"), 4, "A differs"),
        (("receipt.json", *KEY, "--state", "absent"), 5, "cannot be read"),
        (("absent.json", *KEY), 5, "absent.json cannot be read: No such file"),
        (("receipt.json", "--key", "absent.pem"), 5, "absent.pem cannot be read: No such file"),
    ],
)
def test_each_outcome_has_its_exit_code_and_each_error_one_line(
    command, signed, models, tmp_path, capsys, arguments, code, says
):
    models |= {"same": AFTER, "another": "ef" * 32, "damaged": VerificationError("A differs.")}
    models |= {"no model": StateFormatError("cut off."), "absent": StoreError("cannot be read.")}
    write_key(new_key(), tmp_path / "other")
    (tmp_path / "noise").write_bytes(b"\xff\xfe\x00")
    (tmp_path / "huge").write_bytes(b" " * (5 * LARGEST_RECEIPT))
    assert run(["receipt", "verify", *arguments]) == code
    err = capsys.readouterr().err
    assert (err.count("\n"), err[:7]) == ((1, "error: ") if code else (0, ""))
    assert says in err


def test_a_huge_file_is_not_read_into_memory(command, signed, tmp_path):
    with open(tmp_path / "huge", "wb") as file:
        file.truncate(64 * 2**20)
    tracemalloc.start()
    try:
        with pytest.raises(ReceiptError, match="more than 65536"):
            command("receipt", "verify", "huge", "--key", "signer.pub.pem")
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()


def test_a_real_model_before_after_and_altered(command, tmp_path, capsys):
    rng = np.random.default_rng(0)
    model = ErasableClassifier(kappa=0.5).fit(rng.standard_normal((60, 3)), rng.integers(2, size=60))
    model.save(tmp_path / "before.erasable")
    before, asked = model.state_digest(), datetime.now(UTC)
    model.forget(ids=model.core_ids_[:2])
    model.save(tmp_path / "after.erasable")
    key = new_key()
    write_key(key, tmp_path / "signer")
    text = make_receipt(
        key,
        Receipt(
            state_before=before,
            state_after=model.state_digest(),
            guarantee=model.guarantee.definition,
            format_version=1,
            requested_at=asked,
        ),
    )
    (tmp_path / "receipt.json").write_text(text)
    altered = bytearray((tmp_path / "after.erasable").read_bytes())
    altered[-5] ^= 1
    (tmp_path / "altered.erasable").write_bytes(altered)
    assert f"{model.n_core_} core rows learnt again" in printed(capsys, [*VERIFY, "--state", "after.erasable"]).out
    for other in ("before.erasable", "altered.erasable"):
        assert run([*VERIFY, "--state", other]) == 4
    assert run([*VERIFY, "--state", "absent.erasable"]) == 5
