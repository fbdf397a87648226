"""Receipts: the auditor's tool and erasable agree, on good ones and on thousands that somebody altered."""

from __future__ import annotations

import base64
import copy
import hashlib
import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import jsonschema_rs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.audit.keys import PublicKey, new_key
from erasable.audit.receipts import Receipt, check_receipt, make_envelope, make_receipt
from erasable.core.names import Shape
from erasable.errors import InputError, ReceiptError
from erasable.models.reports import TrainedLearner
from erasable.store import BlockDoubt
from tests.audit.test_keys import known_key
from verifier import erasable_verify

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "verifier" / "example"
SCHEMA = jsonschema_rs.validator_for(json.loads((ROOT / "docs" / "forget-receipt.schema.json").read_text()))
KEY, RAW, NOW = known_key(), known_key().public.raw, datetime(2026, 1, 31, 12, tzinfo=UTC)
FIRST = Receipt("ab" * 32, "cd" * 32, "exact «bitwise»", 1, NOW, completed_at=NOW, request_id="a b")
SHAPES = [Shape.of([("raw", "ann"), ("raw", "Bob, 42"), ("sha256", "ef" * 32)]), Shape.of([("md5", "0" * 32)])]
LEARNER = TrainedLearner("lightgbm", "lightgbm", "4.7.0", "ef" * 32)
RECEIPTS = [
    FIRST,
    Receipt(None, "cd" * 32, "x" * 1000, 1_000_000, NOW, completed_at=NOW, request_id="r" * 128),
    Receipt("ab" * 32, "ab" * 32, "g", 2, NOW, completed_at=NOW, request_id="r", model="m", asked=SHAPES[0]),
    Receipt(None, "ab" * 32, "g", 1, NOW, completed_at=NOW, request_id="r", asked=SHAPES[1], normalisation={}),
    Receipt(None, "ab" * 32, "g", 1, NOW, completed_at=NOW, request_id="r", normalisation={"subject": ("trim", "nfc")}),
    Receipt(None, "ab" * 32, "g", 2, NOW, completed_at=NOW, request_id="r", learner=LEARNER),
    Receipt(None, "ab" * 32, "g", 2, NOW, completed_at=NOW, request_id="r", model="m", learner=LEARNER),
    Receipt(None, "ab" * 32, "g", 2, NOW, completed_at=NOW, request_id="r", old_bytes=BlockDoubt("btrfs", "copies")),
    Receipt(
        "ab" * 32,
        "cd" * 32,
        "g",
        2,
        NOW,
        completed_at=NOW,
        request_id="r",
        model="m",
        normalisation={},
        learner=LEARNER,
        old_bytes=BlockDoubt("fuse", "elsewhere"),
    ),
]


def both(text, raw=RAW):
    """What the two programs read from a receipt; None where it is refused. They must agree."""
    try:
        first = check_receipt(text, PublicKey(raw)).as_json()["predicate"]
    except ReceiptError:
        first = None
    try:
        second = erasable_verify.read_receipt(text, raw)
    except erasable_verify.WrongError:
        second = None
    assert first == second
    return second


@pytest.mark.parametrize("receipt", RECEIPTS)
def test_good_receipts_hold_and_fit_the_schema(receipt):
    text = make_receipt(KEY, receipt)
    assert both(text) is not None
    assert SCHEMA.is_valid(json.loads(base64.b64decode(json.loads(text)["payload"])))
    assert both(text, new_key().public.raw) is None


ODD = [None, True, 0, 1, -1, 1.5, 2**53 + 1, "", " ", "a", "a\n", "é", "2026-02-30T00:00:00Z", [], {}, ["raw"], [1, 4]]
ODD += [[5, 4], [1, 8], {"sha256": "AB" * 32}, {"sha256": "ab" * 32}, {"id": []}, {"id": ["nfc", "trim"]}, "x" * 2000]


def altered(value):
    """Every value with one member odd, missing, or one too many, at any depth."""
    if isinstance(value, dict):
        for name in value:
            yield {k: v for k, v in value.items() if k != name}
            for other in [*ODD, *altered(value[name])]:
                yield value | {name: other}
        yield value | {"who": "ann"}
    elif isinstance(value, list):
        yield [*value, *value]
        for i, one in enumerate(value):
            for other in [*ODD, *altered(one)]:
                yield [*value[:i], other, *value[i + 1 :]]


@pytest.mark.parametrize("receipt", RECEIPTS)
def test_signed_statements_of_another_form_are_refused_by_both(receipt, monkeypatch):
    monkeypatch.setattr(erasable_verify, "is_signed", lambda key, *given: PublicKey(key).matches(*given))
    seen = 0
    for statement in altered(receipt.as_json()):
        try:
            text = make_envelope(KEY, "application/vnd.in-toto+json", copy.deepcopy(statement))
        except Exception:  # numbers that canonical JSON does not have
            continue
        found = both(text)
        assert found is None or SCHEMA.is_valid(statement)
        seen += 1
    assert seen > 300


def test_other_texts_of_one_envelope(monkeypatch):
    monkeypatch.setattr(erasable_verify, "is_signed", lambda key, *given: PublicKey(key).matches(*given))
    envelope = json.loads(make_receipt(KEY, FIRST))
    good = base64.urlsafe_b64encode(base64.b64decode(envelope["payload"])).decode()
    assert both(json.dumps(envelope, indent=2)) is not None
    assert both(json.dumps(envelope | {"payload": good})) is not None
    (signature,) = envelope["signatures"]
    assert both(json.dumps(envelope | {"signatures": [{"sig": "AAAA"}, {"sig": signature["sig"]}]})) is not None
    for change in altered(envelope):
        both(json.dumps(change))
    text = json.dumps(envelope)
    for bad in ("", "[]", text[:-1], text.replace('"payload"', '"payload":"","payload"'), text + " " * 65_536):
        assert both(bad) is None
    payload = base64.b64decode(envelope["payload"])
    signed = b"DSSEv1 %d %b %d %b" % (28, b"application/vnd.in-toto+json", len(payload) + 1, payload + b" ")
    spaced = {"payload": base64.b64encode(payload + b" ").decode(), "payloadType": "application/vnd.in-toto+json"}
    assert both(json.dumps(spaced | {"signatures": [{"sig": base64.b64encode(KEY.sign(signed)).decode()}]})) is None


@given(st.binary(max_size=200), st.integers(0, 511), st.binary(min_size=32, max_size=32))
def test_signatures_are_those_of_cryptography(message, bit, raw):
    key = new_key()
    signature = key.sign(message)
    assert erasable_verify.is_signed(key.public.raw, signature, message)
    flipped = (int.from_bytes(signature, "little") ^ 1 << bit).to_bytes(64, "little")
    assert not erasable_verify.is_signed(key.public.raw, flipped, message)
    assert not erasable_verify.is_signed(key.public.raw, signature, message + b"!")
    large = int.from_bytes(signature[32:], "little") + erasable_verify.ORDER_OF_BASE
    if large < 2**256:
        assert not erasable_verify.is_signed(key.public.raw, signature[:32] + large.to_bytes(32, "little"), message)
    assert not erasable_verify.is_signed(raw, signature, message)


def test_keys_of_small_order_are_refused():
    """With such a key, and R the neutral point, s = 0 would sign everything."""
    small = [1, 0, erasable_verify.P - 1, 2**255 - 18, 1 + 2**255]
    of_order_8 = bytes.fromhex("26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05")
    small += [int.from_bytes(of_order_8, "little")]
    assert len(small) == 6
    for y in small:
        raw = (y % 2**256).to_bytes(32, "little")
        assert erasable_verify.decoded(raw) is None
        with pytest.raises(InputError):
            PublicKey(raw)


def run(*arguments):
    done = subprocess.run(
        [sys.executable, "-I", str(ROOT / "verifier" / "erasable_verify.py"), *map(str, arguments)],
        capture_output=True,
        encoding="utf-8",
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_the_command(tmp_path):
    model, key = EXAMPLE / "model.erasable", EXAMPLE / "signer.pub.pem"
    assert run("--receipt", EXAMPLE / "receipt.json", "--key", key, model)[0] == 0
    other, pem = tmp_path / "receipt.json", tmp_path / "key.pem"
    other.write_text(make_receipt(KEY, FIRST))
    code, said = run("--receipt", other, "--key", key)
    assert (code, "receipt holds" in said) == (0, True)
    code, said = run("--receipt", other, "--key", key, model)
    assert (code, "not in the state" in said) == (4, True)
    pem.write_bytes(new_key().public.pem())
    code, said = run("--receipt", other, "--key", pem, model)
    assert (code, "another key signed it" in said) == (3, True)
    pem.write_bytes(KEY.pem())
    assert run("--receipt", other, "--key", pem)[0] == 2
    assert [run(*given)[0] for given in ([], ["--receipt", other], ["--key", key, model])] == [2, 2, 2]
    assert run("--receipt", tmp_path / "none", "--key", key)[0] == 5
    assert run("--version")[1].strip() == erasable_verify.__version__


def test_the_tool_is_tested_alone():
    done = subprocess.run([sys.executable, "test_alone.py"], cwd=ROOT / "verifier", capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


def test_the_example_is_a_kept_file():
    kept = (ROOT / "tests" / "formats" / "linear-v1.erasable").read_bytes()
    assert (EXAMPLE / "model.erasable").read_bytes() == kept
    digest = both((EXAMPLE / "receipt.json").read_text())["stateAfter"]["sha256"]
    assert digest == hashlib.sha256(kept).hexdigest()
