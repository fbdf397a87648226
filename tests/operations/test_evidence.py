"""The evidence pack: what it says is true, it says so when something is wrong, and it names nobody."""

from __future__ import annotations

import base64
import html.parser
import json
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from erasable import ErasableClassifier, ErasableRegressor, ModelFile, evidence, load
from erasable.audit.keys import new_key, read_private_key, read_public_key, write_key
from erasable.audit.receipts import Receipt, make_receipt
from erasable.cli.app import run
from erasable.errors import ConfigurationError, InputError
from erasable.operations.scan import scan_for
from tests.formats.tampering import altered

NOW = datetime(2026, 5, 4, 3, 2, 1, tzinfo=UTC)
# Nothing of this may be in a pack: ids, subjects, labels, names of columns, values, request ids, names of files.
CANARIES = ["CANARY", "canary", "61.625", "-17.375"]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """A model, its signer's key and three receipts, in a folder that is the current one."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    X = rng.integers(-500, 500, (60, 3)) / 8
    X[0], X[1] = [61.625, -17.375, 1.0], [0.0, 61.625, -17.375]
    names = {"ids": [f"CANARY-row-{i}" for i in range(60)], "subjects": [f"canary {i % 20}" for i in range(60)]}
    y = np.where(X[:, 0] > 0, "CANARY yes", "CANARY no")
    clf = ErasableClassifier(threshold=0.02, feature_names=["CANARY_a", "b", "c"], feature_map=None).fit(X, y, **names)
    clf.save("canary.erasable")
    key = new_key()
    write_key(key, "signer")
    file = ModelFile("canary.erasable", key=key)
    (tmp_path / "in").mkdir()
    for i, name in enumerate([None, "CANARY-ticket", None]):
        report = file.forget(subjects=[f"canary {i}"], request_id=name)
        (tmp_path / "in" / f"CANARY-{i}.json").write_text(report.receipt)
    return tmp_path


def made(home, out="pack", **options):
    keys = [read_public_key(home / "signer.pub.pem")]
    found = evidence("canary.erasable", "in", out, **{"keys": keys, "now": NOW, **options})
    return found, (home / out / "evidence.html").read_text(encoding="utf-8")


def everything_in(folder):
    """All texts and names of a pack; payloads of receipts are read, too."""
    found = []
    for path in sorted(folder.rglob("*")):
        found.append(path.name)
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            found.append(text)
            if path.suffix == ".json":
                found.append(base64.b64decode(json.loads(text)["payload"]).decode())
    return "\n".join(found)


def test_it_says_what_was_done_and_that_it_holds(home):
    found, page = made(home)
    assert found.holds
    assert found.verified
    assert [filed.signature for filed in found.receipts] == ["good"] * 3
    assert found.digest == load("canary.erasable").state_digest()
    assert found.receipts[-1].of_this_state
    assert found.digest in page
    assert "3 requests carried out; the model verifies" in page
    assert "2026-05-04 03:02:01 UTC" in page
    for heading in ("In scope", "Out of scope", "Attacks that work"):
        assert f"<h3>{heading}" in page
    assert "No receipt speaks of this very state" not in page
    assert "No scan is part of this page" in page
    assert "No audit by attack" in page


def test_it_names_the_selection_and_the_attack_that_follows_from_it(home):
    found, page = made(home)
    assert (found.selection, found.independent) == ("leverage", False)
    assert "<li><b>Selection.</b>" in page
    X = np.random.default_rng(0).normal(size=(60, 3))
    shares = {"a": 0.25, "b": 0.75}
    clf = ErasableClassifier(selection="independent", rate=0.5, balance=0.5, class_shares=shares, feature_map=None)
    clf.fit(X, np.where(X[:, 0] > 0, "a", "b")).save("canary.erasable", overwrite=True)
    found, page = made(home, "other")
    assert (found.selection, found.independent) == ("independent, rate 0.5, balance 0.5", True)
    assert "<td>independent, rate 0.5, balance 0.5</td>" in page
    assert "equal to learning all surviving rows" in page
    assert "<li><b>Selection.</b>" not in page  # no row's place depends on another row


def test_the_same_pack_twice_is_the_same_page(home):
    assert made(home, "one")[1] == made(home, "two")[1]


def test_it_names_nobody(home):
    (home / "CANARY.json").write_text(
        json.dumps(scan_for(home, gone(home), id="row", exclude=["*.csv"]).as_json()), encoding="utf-8"
    )
    audit = home / "audit.json"
    audit.write_text(json.dumps({"results": [{"name": "replay", "verdict": "at chance", "rows": ["CANARY"]}]}))
    found, _ = made(home, scan="CANARY.json", audit=audit)
    assert found.scan["found"] > 0  # receipts in the folder are named by canaries
    said = everything_in(home / "pack") + json.dumps(found.as_json()) + repr(found)
    assert not [canary for canary in CANARIES if canary in said]
    withheld = [i for i, filed in enumerate(found.receipts, 1) if filed.request is None]
    assert len(withheld) == 1
    copied = [path.name for path in sorted((home / "pack" / "receipts").iterdir())]
    assert copied == [f"{i:04d}.json" for i in (1, 2, 3) if i not in withheld]


def gone(home):
    path = home / "gone.csv"
    path.write_text("row,a,b,c\nCANARY-row-0,61.625,-17.375,1.0\nCANARY-row-1,0,61.625,-17.375\nCANARY-1,1,2,3\n")
    return path


def test_request_ids_are_shown_where_the_caller_says_so(home):
    found, page = made(home, request_ids=True)
    assert "CANARY-ticket" in page
    assert found.copies == 3


def test_the_page_needs_nothing_from_elsewhere_and_is_well_formed(home):
    _, page = made(home)
    opened, voids = [], {"meta", "br"}

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag, attrs):
            assert tag not in ("script", "link", "img", "iframe")
            assert not {"src", "href", "onclick"} & dict(attrs).keys()
            if tag not in voids:
                opened.append(tag)

        def handle_endtag(self, tag):
            assert opened.pop() == tag

    Reader().feed(page)
    assert opened == []
    assert "://" not in page
    assert "url(" not in page
    assert "@page" in page


def test_a_model_that_does_not_verify_is_said_to(home):
    raw = (home / "canary.erasable").read_bytes()
    mutant = altered(raw, lambda header, meta: meta.update(alpha_units=str(2 * int(meta["alpha_units"]))))
    (home / "canary.erasable").write_bytes(mutant)
    found, page = made(home)
    assert not found.verified
    assert not found.holds
    assert "This does not hold as it stands" in page
    assert "does not verify" in page
    assert run(["evidence", "canary.erasable", "--receipts", "in", "-o", "again"]) == 4


def test_receipts_of_others_and_files_that_are_none_are_said_to_be(home):
    stranger = make_receipt(
        new_key(),
        Receipt(
            state_before=None,
            state_after="ab" * 32,
            guarantee="CANARY of all",
            format_version=1,
            requested_at=NOW - timedelta(days=40),
            completed_at=NOW,
        ),
    )
    (home / "in" / "stranger.json").write_text(stranger)
    (home / "in" / "other.json").write_bytes(b"\xff CANARY")
    found, page = made(home)
    assert [filed.signature for filed in found.receipts].count("wrong") == 1
    assert (found.no_receipts, found.wrong_receipts, found.holds) == (1, 2, False)
    assert "2 files among the receipts cannot be relied on" in page
    assert "40 days" in page
    assert found.copies == 2
    assert "CANARY" not in everything_in(home / "pack")
    argued = ["evidence", "canary.erasable", "--receipts", "in", "--key", "signer.pub.pem", "-o"]
    assert run([*argued, "again"]) == 3


def test_a_receipt_with_words_beside_what_is_signed_is_not_copied(home):
    path = home / "in" / "CANARY-0.json"
    envelope = json.loads(path.read_text())
    envelope["signatures"][0]["keyid"] = "CANARY"
    path.write_text(json.dumps(envelope))
    found, _ = made(home)
    assert [filed.signature for filed in found.receipts] == ["good"] * 3
    assert found.copies == 1
    assert "CANARY" not in everything_in(home / "pack")


def test_receipts_that_name_their_model_show_it_once_their_signature_is_good(home):
    key = read_private_key(home / "signer.pem")
    given = {"guarantee": "exact", "format_version": 1, "requested_at": NOW, "completed_at": NOW}
    for name in ("credit", "a<b"):
        text = make_receipt(key, Receipt(state_before=None, state_after=name[0] * 64, model=name, **given))
        (home / "in" / f"{name[0]}.json").write_text(text.replace("\n", ""))
    found, page = made(home)
    assert [filed.model for filed in found.receipts if filed.model] == ["a<b", "credit"]
    assert "credit<br>" in page
    assert "a&lt;b<br>" in page
    assert not any(filed.model for filed in made(home, "unchecked", keys=[])[0].receipts)


def test_without_a_key_signatures_are_said_to_be_unchecked(home):
    found, page = made(home, keys=[])
    assert found.holds
    assert found.copies == 0
    assert "no public key was given" in page
    assert "as unchecked receipts say" in page


def test_results_of_scan_and_audit_are_tables(home):
    scan = {"rows": 3, "files": 1234, "bytes": 5, "found": 0, "too_short": {"ids": 2}}
    scan |= {name: [] for name in ("twins", "not_looked_into", "ids_only", "unreadable", "skipped")}
    (home / "scan.json").write_text(json.dumps(scan))
    results = [
        {"name": "selection <leakage>", "verdict": "works", "auc": [0.61, 0.58, 0.64], "advantage": 0.1, "letter": "e"},
        {"name": "replay", "verdict": "at chance", "tpr_at_1_percent": 0.01},
    ]
    (home / "audit.json").write_text(json.dumps({"results": results}))
    found, page = made(home, scan="scan.json", audit="audit.json")
    assert found.holds
    assert "1,234 files" in page
    assert "selection &lt;leakage&gt;" in page
    assert "0.610<br><small>0.580 to 0.640</small>" in page
    assert page.count("(e) Selection") == 1
    assert "<td>2 ids</td>" in page
    assert "TPR at 1% FPR" in page
    assert "TPR at 0.1% FPR" not in page


@pytest.mark.parametrize(("holds", "code"), [(True, 0), (False, 1), (None, 0)])
def test_an_audit_that_found_a_trace_is_a_reason_not_to_hold(home, holds, code):
    results = [{"name": "replay", "verdict": "at chance"}]
    (home / "audit.json").write_text(json.dumps({"results": results, **({} if holds is None else {"holds": holds})}))
    found, page = made(home, audit="audit.json")
    assert found.holds is (code == 0)
    assert ("The audit says that forgetting left a trace." in page) is (code == 1)
    assert ("no trace of what was forgotten" in page) is (holds is True)
    argued = ["evidence", "canary.erasable", "--receipts", "in", "--key", "signer.pub.pem", "--audit", "audit.json"]
    assert run([*argued, "-o", "again"]) == code


def test_remains_are_a_reason_not_to_hold(home, capsys):
    found = scan_for(home, gone(home), id="row", exclude=["*.csv"]).as_json()
    (home / "scan.json").write_text(json.dumps(found))
    _, page = made(home, scan="scan.json")
    assert "of rows that should be gone" in page
    argued = ["evidence", "canary.erasable", "--receipts", "in", "--key", "signer.pub.pem", "--scan", "scan.json"]
    assert run([*argued, "-o", "again"]) == 1
    assert "of rows that should be gone" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("scan", "[]"),
        ("scan", '{"rows": 1}'),
        ("audit", "no"),
        ("audit", '{"results": [1]}'),
        ("audit", '{"results": [], "holds": "yes"}'),
        ("audit", '{"results": [{"name": "x", "verdict": "y\\n"}]}'),
        ("audit", '{"results": [{"name": "x", "verdict": "y", "auc": "high"}]}'),
        ("audit", '{"results": [{"name": "x", "verdict": "y", "auc": [0.5, 0.4]}]}'),
        ("audit", '{"results": [{"name": "x", "verdict": "y", "auc": NaN}]}'),
    ],
)
def test_other_forms_are_refused_before_anything_is_written(home, option, text):
    (home / "other.json").write_text(text)
    with pytest.raises(InputError):
        made(home, **{option: "other.json"})
    assert not (home / "pack").exists()


def test_folders_are_new_or_empty_and_receipts_are_there(home):
    made(home)
    with pytest.raises(ConfigurationError, match="not empty"):
        made(home)
    (home / "none").mkdir()
    with pytest.raises(InputError, match="no receipts"):
        evidence("canary.erasable", "none", "other")
    with pytest.raises(InputError, match="does not exist"):
        evidence("canary.erasable", "nowhere", "other")
    assert evidence("canary.erasable", "in/CANARY-0.json", "none", now=NOW).receipts[0].signature == "not checked"


def test_the_command_prints_json(home, capsys):
    argued = ["evidence", "canary.erasable", "--receipts", "in", "--key", "signer.pub.pem", "-o", "pack", "--json"]
    assert run(argued) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["holds"] is True
    assert found["verified"] is True
    assert len(found["receipts"]) == 3


def test_a_regression_has_no_classes(home):
    X = np.random.default_rng(1).standard_normal((20, 2))
    ErasableRegressor((-9, 9), feature_map=None).fit(X, X[:, 0]).save("numbers.erasable")
    found = evidence("numbers.erasable", "in", "pack", now=NOW)
    assert (found.classes, found.verified) == (0, True)
    page = (home / "pack" / "evidence.html").read_text()
    assert "2, none" in page
    assert "No receipt speaks of this very state" in page  # the receipts are about another model


def test_a_damaged_file_gets_no_page(home):
    raw = bytearray((home / "canary.erasable").read_bytes())
    raw[-1] ^= 1
    (home / "canary.erasable").write_bytes(raw)
    assert run(["evidence", "canary.erasable", "--receipts", "in", "-o", "pack"]) == 4
    assert not (home / "pack").exists()
