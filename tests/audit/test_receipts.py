"""Receipts: made and read, refused when anything is wrong, checked by others, silent about rows."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
import rfc8785
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from hypothesis import given
from hypothesis import strategies as st

from erasable import ErasableClassifier
from erasable.audit import receipts
from erasable.audit.keys import new_key
from erasable.audit.receipts import (
    Receipt,
    check_receipt,
    check_request_id,
    check_state,
    compare_learner,
    make_receipt,
    pre_authentication,
    read_receipt,
)
from erasable.core.names import Shape
from erasable.errors import ConfigurationError, OtherStateError, ReceiptError, SignatureError, VerificationError
from erasable.models.reports import TrainedLearner
from erasable.models.state import State
from tests.audit.test_keys import known_key

ROOT = Path(__file__).parents[2]
KEPT = ROOT / "tests" / "formats" / "receipt-v1.json"
KEPT_KEY = KEPT.with_name("receipt-v1.pub.pem")
BEFORE, AFTER = hashlib.sha256(b"before").hexdigest(), hashlib.sha256(b"after").hexdigest()
ARGUMENTS = {
    "state_before": BEFORE,
    "state_after": AFTER,
    "guarantee": "exact system-aware unlearning, bitwise: equal to learning the surviving core rows",
    "format_version": 1,
    "requested_at": datetime(2026, 1, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    "completed_at": datetime(2026, 2, 1, 1, 0, 1, tzinfo=timezone(timedelta(hours=1))),
    "request_id": "req-0001",
}
STATEMENT = {
    "_type": "https://in-toto.io/Statement/v1",
    "subject": [{"name": "state", "digest": {"sha256": AFTER}}],
    "predicateType": "urn:erasable:forget-receipt:v1",
    "predicate": {
        "requestId": "req-0001",
        "requestedAt": "2026-01-31T23:59:59Z",
        "completedAt": "2026-02-01T00:00:01Z",
        "stateBefore": {"sha256": BEFORE},
        "stateAfter": {"sha256": AFTER},
        "guarantee": ARGUMENTS["guarantee"],
        "erasableVersion": "0.1.0",
        "formatVersion": 1,
    },
}


@pytest.fixture(autouse=True)
def of_this_version(monkeypatch):
    monkeypatch.setattr(receipts, "VERSION", "0.1.0")


def made(**changes):
    """A receipt with some fields changed, or left out with ``...``."""
    fields = {name: value for name, value in {**ARGUMENTS, **changes}.items() if value is not ...}
    return make_receipt(known_key(), Receipt(**fields))


def sealed(payload, key=None, kind="application/vnd.in-toto+json"):
    """An envelope around any payload, with a good signature: written from the specification alone."""
    key = known_key() if key is None else key
    body = payload if isinstance(payload, bytes) else rfc8785.dumps(payload)
    message = b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(body)).encode(), body])
    signature = {"keyid": key.public.keyid, "sig": base64.b64encode(key.sign(message)).decode()}
    return {"payloadType": kind, "payload": base64.b64encode(body).decode(), "signatures": [signature]}


def changed(path, value):
    """The statement with one entry set to a value, or taken out (...)."""
    statement = json.loads(json.dumps(STATEMENT))
    place = statement
    for name in path[:-1]:
        place = place[name]
    if value is ...:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return statement


# -- what is made ------------------------------------------------------------------------------------------------


def test_the_kept_receipt_of_this_version_is_what_is_made_and_what_is_read():
    text = KEPT.read_text(encoding="ascii")
    assert made() == text
    key = load_pem_public_key(KEPT_KEY.read_bytes())
    assert key.public_bytes_raw() == known_key().public.raw
    assert check_receipt(text, known_key().public) == Receipt(
        BEFORE,
        AFTER,
        ARGUMENTS["guarantee"],
        1,
        datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC),
        datetime(2026, 2, 1, 0, 0, 1, tzinfo=UTC),
        "req-0001",
        erasable_version="0.1.0",
    )


NEW = {
    "model": "credit",
    "asked": {"identities": 1, "formats": ["raw"], "characters": [9, 16], "kinds": ["small letters", "digits"]},
    "normalisation": {"subject": ["trim", "casefold"]},
}
SECOND = {
    **STATEMENT,
    "predicateType": "urn:erasable:forget-receipt:v2",
    "predicate": {**STATEMENT["predicate"], **NEW},
}


def test_version_2_names_the_model_the_shape_and_the_normalisation():
    asked, spelling = Shape.of([("raw", "customer1")]), {"subject": ("trim", "casefold")}
    text = made(model="credit", asked=asked, normalisation=spelling)
    assert text == rfc8785.dumps(sealed(SECOND)).decode() + "\n"
    found = check_receipt(text, known_key().public)
    assert (found.model, found.asked, found.normalisation, found.version) == ("credit", asked, spelling, 2)
    for name in NEW:
        alone = {**STATEMENT["predicate"], name: NEW[name]}
        assert read_receipt(json.dumps(sealed({**SECOND, "predicate": alone}))).version == 2
    assert read_receipt(made(normalisation={})).normalisation == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("model", None),
        ("model", "a\nb"),
        ("model", "a" * 256),
        ("asked", None),
        ("asked", {**NEW["asked"], "identity": "ann"}),
        ("asked", {**NEW["asked"], "kinds": ["ann"]}),
        ("asked", {**NEW["asked"], "characters": [9, 12]}),
        ("normalisation", None),
        ("normalisation", {"subject": []}),
        ("normalisation", {"subject": ["casefold", "trim"]}),
        ("normalisation", {"subject": ["ann"]}),
        ("normalisation", {"ann": ["trim"]}),
        ("person", "ann"),
    ],
)
def test_no_identity_hides_in_a_receipt_of_version_2(name, value):
    statement = {**SECOND, "predicate": {**SECOND["predicate"], name: value}}
    with pytest.raises(ReceiptError, match="not a receipt"):
        check_receipt(json.dumps(sealed(statement)), known_key().public)


def test_the_envelope_is_the_one_of_the_specification():
    text = made()
    assert text == rfc8785.dumps(sealed(STATEMENT)).decode() + "\n"
    assert json.loads(base64.b64decode(json.loads(text)["payload"])) == STATEMENT


def test_the_signed_bytes_are_those_of_dsse():
    # The example of the DSSE protocol.
    assert (
        pre_authentication("http://example.com/HelloWorld", b"hello world")
        == b"DSSEv1 29 http://example.com/HelloWorld 11 hello world"
    )


def test_the_digest_before_the_request_id_and_the_time_can_be_left_out():
    first, second = (read_receipt(made(request_id=..., completed_at=...)) for _ in range(2))
    assert first.request_id != second.request_id
    assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}", first.request_id)
    assert timedelta() <= datetime.now(UTC) - first.completed_at < timedelta(minutes=5)
    text = made(state_before=None)
    assert check_receipt(text, known_key().public).state_before is None
    assert BEFORE not in base64.b64decode(json.loads(text)["payload"]).decode()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"request_id": ""}, "1 to 128 printable ASCII characters \\(it has 0\\)"),
        ({"request_id": "x" * 129}, "1 to 128 printable ASCII characters \\(it has 129\\)"),
        ({"request_id": "a\nb"}, "printable ASCII"),
        ({"request_id": "a\x1b[2J"}, "printable ASCII"),
        ({"request_id": "für"}, "printable ASCII"),
        ({"request_id": " a"}, "no space at its ends"),
        ({"request_id": 7}, "printable ASCII"),
        ({"state_before": ""}, "64 hexadecimal digits"),
        ({"state_after": AFTER.upper()}, "64 hexadecimal digits"),
        ({"state_after": AFTER + "\n"}, "64 hexadecimal digits"),
        ({"state_after": None}, "64 hexadecimal digits"),
        ({"guarantee": "two\nlines"}, "one line of at most 1000"),
        ({"guarantee": "x" * 1001}, "one line of at most 1000"),
        ({"format_version": 0}, "format version must be an integer"),
        ({"format_version": True}, "format version must be an integer"),
        ({"requested_at": datetime(2026, 1, 1)}, "requested_at must say its time zone"),
        ({"completed_at": datetime(2026, 1, 1)}, "completed_at must say its time zone"),
    ],
)
def test_what_cannot_be_signed_is_refused(changes, message):
    with pytest.raises(ConfigurationError, match=message):
        made(**changes)


def test_a_request_id_can_be_tried_beforehand():
    assert check_request_id("DSR 2026/17 (a)") == "DSR 2026/17 (a)"
    with pytest.raises(ConfigurationError, match="or none to get a random one") as refused:
        check_request_id("jane.doe@example.org\n")
    assert "jane" not in str(refused.value)
    assert "req-0001" not in repr(read_receipt(made()))


# -- what is refused ---------------------------------------------------------------------------------------------


def test_another_key_is_said_to_be_another_key():
    other = new_key()
    with pytest.raises(SignatureError, match="signed with another key") as wrong:
        check_receipt(made(), other.public)
    assert known_key().public.keyid[:16] in str(wrong.value)
    assert other.public.keyid[:16] in str(wrong.value)


def test_an_altered_receipt_is_said_to_be_altered():
    envelope = json.loads(made())
    envelope["payload"] = sealed(changed(["predicate", "requestId"], "req-0002"))["payload"]
    with pytest.raises(SignatureError, match="was altered: it names the key given"):
        check_receipt(json.dumps(envelope), known_key().public)
    assert read_receipt(json.dumps(envelope)).request_id == "req-0002"


def test_the_signature_is_checked_before_the_content_is_looked_at():
    envelope = sealed({"anything": "at all"}, new_key())
    with pytest.raises(SignatureError):
        check_receipt(json.dumps(envelope), known_key().public)
    with pytest.raises(ReceiptError, match="not a receipt: the payload must hold"):
        check_receipt(json.dumps(sealed({"anything": "at all"})), known_key().public)


def test_a_signature_over_the_payload_alone_does_not_count():
    envelope = json.loads(made())
    envelope["signatures"][0]["sig"] = base64.b64encode(
        known_key().sign(base64.b64decode(envelope["payload"]))
    ).decode()
    with pytest.raises(SignatureError, match="was altered"):
        check_receipt(json.dumps(envelope), known_key().public)


def test_a_keyid_does_not_make_a_signature_good_or_bad():
    envelope = json.loads(made())
    forged = json.loads(json.dumps(envelope))
    forged["signatures"] = sealed(STATEMENT, new_key())["signatures"]
    forged["signatures"][0]["keyid"] = known_key().public.keyid
    with pytest.raises(SignatureError, match="was altered"):
        check_receipt(json.dumps(forged), known_key().public)
    for keyid in ("someone's own name", "", None):
        envelope["signatures"][0]["keyid"] = keyid
        if keyid is None:
            del envelope["signatures"][0]["keyid"]
        assert check_receipt(json.dumps(envelope), known_key().public) == read_receipt(made())
        with pytest.raises(SignatureError, match="it names none that is known here"):
            check_receipt(json.dumps(envelope), new_key().public)


def test_one_good_signature_among_several_is_enough_and_their_number_is_said():
    envelope, other = json.loads(made()), new_key()
    envelope["signatures"].insert(0, sealed(STATEMENT, other)["signatures"][0])
    text = json.dumps(envelope)
    for key in (known_key(), other):
        assert check_receipt(text, key.public).signatures == 2
    with pytest.raises(SignatureError, match="another key"):
        check_receipt(text, new_key().public)


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        (["_type"], "https://in-toto.io/Statement/v0.1", "of type https://in-toto.io/Statement/v1"),
        (["predicateType"], "urn:erasable:forget-receipt:v5", "of version 5, and this erasable reads versions 1 to 4"),
        (["predicateType"], "urn:erasable:forget-receipt:v2", "canonical form"),  # nothing in it needs version 2
        (["predicate", "model"], "credit", "and nothing else"),  # of version 2
        (["predicateType"], "https://slsa.dev/provenance/v1", "a statement of another kind"),
        (["predicateType"], 1, "a statement of another kind"),
        (["predicate"], [], "the predicate must hold"),
        (["predicate", "rowsRemoved"], 3, "and nothing else"),
        (["predicate", "guarantee"], ..., "the predicate must hold"),
        (["predicate", "requestId"], 7, "the request id must be"),
        (["predicate", "requestId"], "\u202e", "the request id must be"),
        (["predicate", "requestedAt"], "2026-01-31T23:59:59+00:00", "requestedAt must be a time"),
        (["predicate", "requestedAt"], "2026-01-31T23:59:59.5Z", "requestedAt must be a time"),
        (["predicate", "completedAt"], "2026-02-30T00:00:00Z", "completedAt must be a time"),
        (["predicate", "completedAt"], "2026-02-01T00:00:60Z", "completedAt must be a time"),
        (["predicate", "completedAt"], "२०२६-02-01T00:00:00Z", "completedAt must be a time"),
        (["predicate", "completedAt"], None, "completedAt must be a time"),
        (["predicate", "stateBefore"], None, "stateBefore must hold sha256"),
        (["predicate", "stateBefore"], {"sha256": None}, "canonical form"),
        (["predicate", "stateBefore"], {"sha256": ""}, "64 hexadecimal digits"),
        (["predicate", "stateBefore"], {"sha256": BEFORE, "sha1": "00"}, "stateBefore must hold sha256"),
        (["predicate", "stateAfter"], {"sha256": AFTER[:-1]}, "64 hexadecimal digits"),
        (["predicate", "stateAfter"], {"sha256": BEFORE}, "the subject must be the state after"),
        (["predicate", "guarantee"], "a\nb", "the guarantee must be one line"),
        (["predicate", "erasableVersion"], 1, "the version of erasable"),
        (["predicate", "formatVersion"], True, "the format version"),
        (["predicate", "formatVersion"], "1", "the format version"),
        (["predicate", "formatVersion"], 1.5, "the format version"),
        (["subject"], [], "the subject must be"),
        (["subject"], STATEMENT["subject"] * 2, "the subject must be"),
        (["subject"], [{"name": "alice", "digest": {"sha256": AFTER}}], "the subject must be"),
        (["extra"], 1, "and nothing else"),
    ],
)
def test_a_signed_statement_that_is_no_receipt_is_refused(path, value, message):
    text = json.dumps(sealed(changed(path, value)))
    for read in (read_receipt, lambda text: check_receipt(text, known_key().public)):
        with pytest.raises(ReceiptError, match=message) as refused:
            read(text)
        assert not isinstance(refused.value, SignatureError)


@pytest.mark.parametrize(
    "payload",
    [
        json.dumps(STATEMENT).encode(),
        json.dumps(STATEMENT, sort_keys=True, separators=(",", ":")).encode() + b"\n",
        rfc8785.dumps(STATEMENT).replace(b"req-0001", b"req\\u002d0001"),
        rfc8785.dumps(STATEMENT).replace(b'"formatVersion":1', b'"formatVersion":1.0'),
        rfc8785.dumps(STATEMENT).replace(b'{"_type"', b'{"_type":"x","_type"', 1),
        rfc8785.dumps(STATEMENT).decode().encode("utf-16"),
        b"\xef\xbb\xbf" + rfc8785.dumps(STATEMENT),
        b"\xff",
        b"",
    ],
)
def test_a_payload_has_one_form_only(payload):
    with pytest.raises(ReceiptError, match="not a receipt"):
        check_receipt(json.dumps(sealed(payload)), known_key().public)


def test_a_payload_of_another_type_is_no_receipt_even_when_signed():
    with pytest.raises(ReceiptError, match="payloadType must be application"):
        check_receipt(json.dumps(sealed(STATEMENT, kind="application/json")), known_key().public)


GOOD = sealed(STATEMENT)
SIGNATURE = GOOD["signatures"][0]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        "[" * 60_000,
        '{"a":' * 10_000,
        "1" * 5000,
        json.dumps(GOOD)[:-1],
        json.dumps(GOOD) + "{}",
        "\ufeff" + json.dumps(GOOD),
        " " * 70_000 + json.dumps(GOOD),
        json.dumps({**GOOD, "note": "12 rows"}),
        json.dumps({**GOOD, "payload": 1}),
        json.dumps({**GOOD, "payloadType": 1}),
        json.dumps({**GOOD, "payloadType": "é"}),
        json.dumps({**GOOD, "payloadType": "\ud800"}),
        json.dumps({**GOOD, "signatures": []}),
        json.dumps({**GOOD, "signatures": SIGNATURE}),
        json.dumps({**GOOD, "signatures": [SIGNATURE] * 17}),
        json.dumps({**GOOD, "signatures": [{**SIGNATURE, "keyid": 1}]}),
        json.dumps({**GOOD, "signatures": [{**SIGNATURE, "cert": ""}]}),
        json.dumps({**GOOD, "signatures": [{"keyid": SIGNATURE["keyid"]}]}),
        json.dumps({**GOOD, "payload": GOOD["payload"].rstrip("=") + "!"}),
        json.dumps({**GOOD, "payload": GOOD["payload"] + "\n"}),
        json.dumps({**GOOD, "payload": GOOD["payload"][:-1]}),
        json.dumps(GOOD).replace('{"payloadType"', '{"payload":"","payloadType"', 1),
    ],
)
def test_what_is_no_envelope_is_refused(text):
    for read in (read_receipt, lambda text: check_receipt(text, known_key().public)):
        with pytest.raises(ReceiptError, match="not a receipt") as refused:
            read(text)
        assert not isinstance(refused.value, SignatureError)


def test_an_envelope_wrapped_anew_by_another_tool_still_counts():
    envelope = json.loads(made())
    wrapped = json.dumps(dict(reversed(envelope.items())), indent=4)
    assert check_receipt(wrapped, known_key().public) == read_receipt(made())
    safe = {ord("+"): "-", ord("/"): "_"}
    envelope["payload"] = envelope["payload"].translate(safe)
    envelope["signatures"][0]["sig"] = envelope["signatures"][0]["sig"].translate(safe)
    assert check_receipt(json.dumps(envelope), known_key().public) == read_receipt(made())


def test_base64_has_one_form_in_each_alphabet():
    assert receipts._unbase64("+/8=", "x") == receipts._unbase64("-_8=", "x") == b"\xfb\xff"
    for text in ("+_8=", "+/9=", "+/8", "+/8==", "+/8=\n", " +/8=", "+/8=+/8=", "é", None):
        with pytest.raises(ReceiptError, match="x must be base64"):
            receipts._unbase64(text, "x")


SIGNED, KEY = KEPT.read_text(encoding="ascii"), known_key().public


@given(place=st.integers(0, len(SIGNED) - 1), new=st.characters(), how=st.sampled_from(["put", "insert", "drop"]))
def test_any_change_of_one_character_is_refused_or_changes_nothing(place, new, how):
    _refused_or_the_same(SIGNED[:place] + ("" if how == "drop" else new) + SIGNED[place + (how != "insert") :])


@pytest.mark.parametrize("bit", range(7))
def test_every_single_flipped_bit_is_refused_or_changes_nothing(bit):
    kept = [p for p in range(len(SIGNED)) if _refused_or_the_same(_flipped(SIGNED, p, bit))]
    keyid = SIGNED.index(KEY.keyid)
    ends = {len(SIGNED) - 1}
    assert set(kept) <= set(range(keyid, keyid + 64)) | ends  # the unsigned hint, and the newline


def _flipped(text, place, bit):
    return text[:place] + chr(ord(text[place]) ^ 1 << bit) + text[place + 1 :]


def _refused_or_the_same(text):
    try:
        receipt = check_receipt(text, KEY)
    except ReceiptError:
        return False
    assert receipt == read_receipt(SIGNED)
    return True


@given(text=st.text() | st.recursive(st.none() | st.text() | st.integers(), st.lists).map(json.dumps))
def test_nothing_but_our_own_error_comes_out_of_the_reader(text):
    with pytest.raises(ReceiptError):
        read_receipt(text)


# -- what it is compared with ------------------------------------------------------------------------------------


def test_the_state_is_compared_by_its_digest():
    receipt = read_receipt(made())
    check_state(receipt, AFTER)
    with pytest.raises(OtherStateError, match="the state is not the one this receipt is about") as other:
        check_state(receipt, BEFORE)
    assert BEFORE[:16] in str(other.value)
    assert AFTER[:16] in str(other.value)
    assert isinstance(other.value, ReceiptError)
    assert isinstance(other.value, VerificationError)


# -- what it tells -----------------------------------------------------------------------------------------------


def test_all_that_it_holds_is_documented():
    names = {re.sub("([A-Z])", r"_\1", name).lower() for name in SECOND["predicate"]}
    more = {"learner", "old_bytes", "signatures"}
    assert {f.name for f in dataclasses.fields(Receipt)} == names | more  # nothing of the rows
    page = (ROOT / "docs" / "receipts.md").read_text(encoding="utf-8")
    for name in SECOND["predicate"]:
        assert f"`{name}`" in page


def test_whoever_holds_the_state_after_can_test_guesses_against_the_digest_before():
    # Why state_before can be left out, and why docs/receipts.md warns: this is no defect of the digest.
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 3)), rng.integers(2, size=40)
    clf = ErasableClassifier(kappa=0.5, feature_map=None).fit(X, y)
    before, gone = clf._model.snapshot(), clf.core_ids_[2]
    clf.forget(ids=[gone])
    receipt = read_receipt(made(state_before=before.digest, state_after=clf.state_digest()))

    def guess(candidate):
        one = (
            ErasableClassifier(threshold=0.0, feature_map=None)
            .fit(X[[candidate]], y[[candidate]], ids=[candidate])
            ._model.snapshot()
        )
        after = clf._model.snapshot()
        return any(_with_row(after, one, at).digest == receipt.state_before for at in range(len(after.ids) + 1))

    assert [c for c in range(40) if c not in clf.core_ids_ and guess(c)] == [gone]


def _with_row(state: State, one: State, at: int) -> State:
    def put(all_, new):
        return (*all_[:at], *new, *all_[at:])

    rows = np.insert(state.rows, at, one.rows, axis=0)
    names = (put(state.ids, one.ids), put(state.subjects, one.subjects), put(state.labels, one.labels))
    return State.learnt(state.configuration, *names, rows)[0]


# -- others check it ---------------------------------------------------------------------------------------------


def test_the_commands_in_the_documentation_check_it(tmp_path):
    for tool in ("bash", "openssl", "jq", "sha256sum"):
        if shutil.which(tool) is None:
            pytest.skip(f"{tool} is not installed")
    page = (ROOT / "docs" / "receipts.md").read_text(encoding="utf-8")
    script = re.search(r"```bash\n(.*?)```", page, re.DOTALL)[1]
    (tmp_path / "signer.pub.pem").write_bytes(KEPT_KEY.read_bytes())

    def run(text):
        (tmp_path / "receipt.json").write_text(text)
        arguments = ["bash", "-e", "-c", script]
        return subprocess.run(arguments, cwd=tmp_path, capture_output=True, encoding="utf-8", timeout=300, check=False)

    good = run(made())
    assert "Signature Verified Successfully" in good.stdout
    assert known_key().public.keyid in good.stdout
    assert '"requestId": "req-0001"' in good.stdout
    bad = run(
        json.dumps({**json.loads(made()), "payload": sealed(changed(["predicate", "requestId"], "x"))["payload"]})
    )
    assert bad.returncode != 0
    assert "Signature Verified Successfully" not in bad.stdout


LEARNER = TrainedLearner("lightgbm", "lightgbm", "4.7.0", "ab" * 32)


def test_a_receipt_names_the_learner_in_version_3():
    receipt = dataclasses.replace(read_receipt(json.dumps(sealed(STATEMENT))), learner=LEARNER)
    text = make_receipt(known_key(), receipt)
    assert check_receipt(text, known_key().public) == receipt
    assert receipt.version == 3
    assert receipt.as_json()["predicate"]["learner"] == {
        "name": "lightgbm",
        "library": "lightgbm",
        "version": "4.7.0",
        "sha256": "ab" * 32,
    }
    for wrong in (
        dataclasses.replace(LEARNER, digest="ab"),
        dataclasses.replace(LEARNER, name="a\nb"),
        dataclasses.replace(LEARNER, version=""),
    ):
        with pytest.raises(ConfigurationError, match="learner"):
            make_receipt(known_key(), dataclasses.replace(receipt, learner=wrong))


def test_learners_are_compared_where_the_library_is_the_same():
    receipt = dataclasses.replace(read_receipt(json.dumps(sealed(STATEMENT))), learner=LEARNER)
    assert compare_learner(receipt, LEARNER) == "lightgbm trained again has the same bits"
    assert "not compared" in compare_learner(receipt, dataclasses.replace(LEARNER, version="4.6.0", digest="cd" * 32))
    assert compare_learner(receipt, None) is None
    assert compare_learner(dataclasses.replace(receipt, learner=None), LEARNER) is None
    with pytest.raises(OtherStateError, match="not the one this receipt is about"):
        compare_learner(receipt, dataclasses.replace(LEARNER, digest="cd" * 32))
