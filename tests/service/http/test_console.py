"""The console in a real browser: from a request to a verified receipt, with and without JavaScript; and errors."""

from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
import uuid
import zipfile
from datetime import UTC, datetime

import pytest

from erasable import load
from erasable.audit.keys import new_key, read_public_key
from erasable.audit.receipts import Receipt, check_receipt, make_receipt
from erasable.errors import BusyError, StoreError
from erasable.models.access import StoredRow, StoredRows
from erasable.schemas import DecodedCell
from erasable.service.index import Query
from erasable.service.ledger import Debts, Ledger
from tests.service.http.conftest import PEOPLE, shot, shown
from tests.waiting import until


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_the_whole_journey_from_request_to_verified_receipt(open_page, tmp_path, script):
    page = open_page(script=script, accept_downloads=True)
    page.get_by_role("link", name="File a request").click()
    page.get_by_label("Identity", exact=True).select_option("email")
    page.get_by_label("Whose").fill(PEOPLE[5 if script else 6])
    shot(page, "file")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text(PEOPLE[5 if script else 6], exact=True).wait_for()
    shot(page, "confirm")
    page.get_by_role("button", name="Erase", exact=True).click()
    shown(page, page.get_by_role("link", name="Download receipt (credit)"), script)
    shot(page, "request")
    assert PEOPLE[5 if script else 6] not in page.content()
    saved = set()
    for model in ("named", "credit"):
        with page.expect_download() as download:
            page.get_by_role("link", name=f"Download receipt ({model})").click()
        assert model in download.value.suggested_filename
        saved.add(download.value.suggested_filename)
    assert len(saved) == 2
    download.value.save_as(tmp_path / "receipt.json")
    page.get_by_role("link", name="Check a receipt").first.click()
    page.get_by_label("A receipt from a file").set_input_files(tmp_path / "receipt.json")
    page.get_by_role("button", name="Check").click()
    page.get_by_role("heading", name="The receipt of credit holds").wait_for()
    page.locator("dd", has_text="credit").first.wait_for()
    page.get_by_text("17 to 32 characters").wait_for()
    page.get_by_text("This is the state that").wait_for()
    shot(page, "receipt")
    page.get_by_role("link", name="Overview").click()
    page.locator("section", has_text="credit").get_by_role("button", name="Verify now").click()
    shown(page, page.get_by_text("every bit is what learning"), script)
    page.get_by_text("verified", exact=True).first.wait_for()
    shot(page, "overview" if script else "overview-without-script")
    assert page.complaints == []


def test_it_works_by_keyboard_alone(open_page):
    page = open_page()
    page.goto("/requests/new")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    seen = []
    for _ in range(25):
        page.keyboard.press("Tab")
        seen.append(page.evaluate("document.activeElement.id || document.activeElement.textContent.trim()"))
        if seen[-1] == "value":
            break
    assert seen[-1] == "value"
    page.keyboard.type("nobody@example.org")
    for _ in range(9):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.textContent") == "Continue":
            break
    page.keyboard.press("Enter")
    page.get_by_role("heading", name="Erase this identity?").wait_for()
    for _ in range(25):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.value") == "file":
            break
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/requests/[0-9a-f-]{36}"))
    assert page.complaints == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone_in_light_and_dark(open_page, scheme):
    page = open_page(viewport={"width": 375, "height": 700}, color_scheme=scheme)
    for path in ("/", "/requests", "/receipts", "/trail", "/api", "/requests/new"):
        page.goto(path)
        assert page.evaluate("document.documentElement.scrollWidth") <= 375, path
        for wide in page.locator(".wide").all():
            assert wide.evaluate("it => it.scrollWidth <= it.clientWidth"), path
        shot(page, f"phone-{scheme}-{path.strip('/').replace('/', '-') or 'overview'}")
    page.get_by_label("Whose").fill("a" * 80 + ", \u0430")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("This looks like a list of 2.").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 375
    shot(page, f"phone-{scheme}-confirm")
    assert page.complaints == []


def test_a_list_typed_as_one_identity_is_pointed_out_before_and_after(open_page, site):
    page = open_page()
    page.goto("/requests/new")
    page.get_by_label("Whose").fill(f"{PEOPLE[20]}, {PEOPLE[21]}")
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("This looks like a list of 2.").wait_for()
    page.get_by_role("button", name="Look up first").click()
    page.get_by_text("No model stores anything under this identity.").wait_for()
    assert page.get_by_text("credit: nothing").count() == 1
    shot(page, "confirm-list")
    assert all(PEOPLE[20] not in str(entry) for entry in site.service.ledger.search(Query()).entries)
    page.get_by_role("checkbox").check()
    page.get_by_role("button", name="Erase", exact=True).click()
    page.get_by_text("It has separators.").wait_for()
    shown(page, page.get_by_role("link", name="Download receipt (credit)"), True)
    page.get_by_text("33 to 64 characters: small letters, digits, separators, other characters").wait_for()
    assert PEOPLE[20] not in page.content()
    shot(page, "request-list")
    assert page.complaints == []


def test_nobody_gets_in_without_a_token(visitor):
    http = visitor
    for path in ("/", "/requests", "/requests/new", "/requests.csv", "/receipts", "/trail", "/trail.csv", "/api"):
        assert http.get(path).headers["location"] == "/login"
    assert http.post("/login", data={"token": "canary"}).status_code == 401
    assert "canary" not in http.post("/login", data={"token": "canary"}).text
    assert http.post("/requests", data={"value": "x"}).headers["location"] == "/login"


def test_an_address_that_leads_nowhere_is_a_page_for_browsers_and_a_problem_for_programs(visitor):
    browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"
    for path in ("/nowhere", "/v1/nowhere", "/v2/requests/a/b/c"):
        page = visitor.get(path, headers={"Accept": browser})
        assert (page.status_code, page.headers["content-type"]) == (404, "text/html; charset=utf-8")
        assert "There is no such page" in page.text
        assert 'href="/login"' in page.text
        assert "nowhere" not in page.text
    for accept in ("*/*", "application/json"):
        problem = visitor.get("/nowhere", headers={"Accept": accept})
        assert (problem.status_code, problem.headers["content-type"]) == (404, "application/problem+json")
    answer = visitor.get("/v1/state", headers={"Accept": browser})  # a route, for programs
    assert (answer.status_code, answer.headers["content-type"]) == (401, "application/problem+json")


def test_cells_of_a_model_with_a_schema_are_told_as_cells(site, visitor, monkeypatch):
    row = StoredRow(
        "row-1", "yes", 1.0, 0, {"encoded": 0.25}, {"town": DecodedCell("Ulm, or a town that is not listed")}
    )
    found = StoredRows(1, 0, [row], "each cell is told as far as it is stored", True)
    monkeypatch.setattr(site.service, "stored_of", lambda *_: {"credit": found})
    visitor.enter(site.tokens["audit"])
    page = visitor.get(f"/requests/{uuid.uuid4()}/stored").text
    assert "Ulm, or a town that is not listed" in page
    assert "each cell is told as far as it is stored" in page
    assert "encoded" not in page


def test_one_archive_has_all_that_is_needed_to_check_a_request_without_us(site, visitor, tmp_path):
    visitor.enter(site.tokens["all"])
    request_id = str(uuid.uuid4())
    who = site.service.identity("email", "raw", PEOPLE[40])
    site.service.accept(request_id, "erasure", [who], b"body", controller="erase")
    until(lambda: not site.service.ledger.entry(request_id).owes_receipts and site.service.receipts(request_id))
    address = f"/requests/{request_id}/evidence.zip?controller=erase"
    page = visitor.get(f"/requests/{request_id}?controller=erase").text
    assert "old files overwritten" in page
    assert html.escape(site.service.old_bytes) in page
    assert "is not known" in site.service.old_bytes
    answer = visitor.get(address)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/zip")
    assert f"erasure-{request_id}.zip" in answer.headers["content-disposition"]
    with zipfile.ZipFile(io.BytesIO(answer.content)) as archive:
        archive.extractall(tmp_path)
    expected = {"READ-ME-FIRST.html", "receipts.pub.pem"}
    for model in ("credit", "named"):
        expected |= {f"receipt-{model}-{request_id}.json", f"evidence-{model}-{request_id}.html"}
    assert {path.name for path in tmp_path.iterdir()} == expected
    assert not any(PEOPLE[40] in path.read_text() for path in tmp_path.iterdir())
    assert site.service.old_bytes in (tmp_path / "READ-ME-FIRST.html").read_text()
    key, about = read_public_key(tmp_path / "receipts.pub.pem"), (tmp_path / "READ-ME-FIRST.html").read_text()
    for model in ("credit", "named"):
        name = f"receipt-{model}-{request_id}.json"
        assert check_receipt((tmp_path / name).read_text(), key).model == model
        evidence = (tmp_path / f"evidence-{model}-{request_id}.html").read_text()
        assert f"<b>{model}</b>" in evidence
        assert site.service.old_bytes in evidence
        assert "1 request carried out; the model verifies." in evidence
        assert request_id in evidence
        assert name in about
    script = re.search(r"<td><code>(jq.*?)</code>", about, re.DOTALL)[1]
    if shutil.which("jq") and shutil.which("openssl"):  # as the page tells people to do it
        script = html.unescape(script.replace("<br>", ""))
        told = subprocess.run(["bash", "-ec", script], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        assert "Signature Verified Successfully" in told
    visitor.enter(site.tokens["erase"])
    assert visitor.get(address).status_code == 403
    visitor.enter(site.tokens["audit"])
    assert visitor.get(f"/requests/{uuid.uuid4()}/evidence.zip").status_code == 404


def test_the_evidence_of_a_model_comes_from_the_overview(site, visitor):
    visitor.enter(site.tokens["audit"])
    assert 'href="/evidence/credit"' in visitor.get("/").text
    answer = visitor.get("/evidence/credit")
    assert answer.status_code == 200
    assert re.search(r'filename="evidence-credit-\d{4}-\d\d-\d\d.html"', answer.headers["content-disposition"])
    assert site.service.digest("credit") in answer.text
    assert visitor.get("/evidence/nowhere").status_code == 404
    visitor.enter(site.tokens["erase"])
    assert "/evidence/" not in visitor.get("/").text
    assert visitor.get("/evidence/credit").status_code == 403


def test_receipts_that_wait_for_long_show_wherever_the_state_does(site, visitor, monkeypatch):
    owed = "1,200 are owed; the oldest has been owed for 190 seconds."
    auditor = site.as_("audit")
    visitor.enter(site.tokens["audit"])
    assert "are owed" not in visitor.get("/").text
    assert "erasable_oldest_receipt_seconds 0.0" in auditor.get("/metrics").text
    monkeypatch.setattr(Ledger, "debts", Debts(1200, 190.4, 0))
    assert owed in visitor.get("/").text
    assert "erasable_oldest_receipt_seconds 190.4" in auditor.get("/metrics").text
    health = auditor.get("/v1/health").json()
    assert (health["ready"], health["receipts_owed"], health["oldest_receipt_seconds"]) == (False, 1200, 190.4)
    assert "receipts_within" in health["problem"]
    assert site.plain.get("/v2/health/ready").status_code == 503
    visitor.enter(site.tokens["erase"])
    assert "are owed" not in visitor.get("/").text


@pytest.mark.parametrize("scope", ["predict", "learn", "purge"])
def test_a_token_without_pages_is_told_what_it_may_do(site, visitor, scope):
    """It was sent from the overview to an error, and from there to the overview."""
    visitor.enter(site.tokens[scope])
    page = visitor.get("/")
    assert page.status_code == 200
    assert f"<code>{scope}</code>:" in page.text
    assert page.text.count("</code>:") == 1
    assert 'href="/requests"' not in page.text
    for path in ("/requests", "/receipts"):
        refused = visitor.get(path)
        assert refused.status_code == 403
        assert 'href="/"' in refused.text


@pytest.mark.parametrize("who", [PEOPLE[7], "nobody@example.net"])
def test_a_request_that_is_cancelled_too_late_says_so(site, visitor, who):
    visitor.enter(site.tokens["erase"])
    form = {"form": re.search(r'name="form" value="([^"]+)"', visitor.get("/receipts").text)[1]}
    told = []
    for late in (False, True):
        request_id = str(uuid.uuid4())
        with site.service.worker.changing():  # nothing is committed meanwhile
            identity = site.service.identity("email", "raw", who)
            site.service.accept(request_id, "erasure", [identity], b"body", controller="erase")
            if not late:
                answer = visitor.post(f"/requests/{request_id}/cancel", data=form)
                assert answer.headers["location"] == f"/requests/{request_id}"
        until(lambda: site.service.ledger.entry(request_id).settled)  # noqa: B023
        answer = visitor.post(f"/requests/{request_id}/cancel", data=form)
        told.append(
            (answer.status_code, site.service.ledger.entry(request_id).state, "Too late to cancel" in answer.text)
        )
    assert told == [(303, "cancelled", False), (409, "completed", True)]


def test_cookies_are_kept_from_scripts_and_other_sites(site, visitor):
    cookie = visitor.enter(site.tokens["all"]).headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert "secure" in cookie


def test_texts_from_outside_are_shown_as_texts(site, visitor):
    visitor.enter(site.tokens["all"])
    form = re.search(r'name="form" value="([^"]+)"', visitor.get("/receipts").text)[1]
    sent = {"form": form, "type": "<script>alert(1)</script>", "format": "raw", "value": "x", "step": "file"}
    answer = visitor.post("/requests", data=sent)
    assert answer.status_code == 400
    assert "<script>alert" not in answer.text


@pytest.fixture
def send(site, visitor):
    """Posts the form of a request, as somebody who has signed in."""

    def sent(value, who="all", **fields):
        if "Cookie" not in visitor.headers:
            visitor.enter(site.tokens[who])
        form = re.search(r'name="form" value="([^"]+)"', visitor.get("/receipts").text)[1]
        return visitor.post("/requests", data={"form": form, "type": "email", "value": value, **fields})

    return sent


def test_nothing_is_filed_before_it_is_confirmed(site, send):
    before = site.service.ledger.counts().total
    page = send("Person-01@example.org")
    assert (page.status_code, site.service.ledger.counts().total) == (200, before)
    assert "21 characters" in page.text
    assert "Spelling counts." in page.text
    assert "capitals are not small letters" in page.text
    assert "looks like a list" not in page.text
    assert send("Person-01@example.org", step="file").status_code == 303
    (entry,) = site.service.ledger.search(Query(sort="received", limit=1)).entries
    assert (site.service.ledger.counts().total, entry.asked.characters) == (before + 1, (17, 32))
    assert "capitals" in entry.asked.kinds


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("a@ex.org;b@ex.org", "a list of 2"),
        ("a@ex.org b@ex.org\tc@ex.org".replace("\t", " "), "a list of 3"),
        ("\u0430nn@ex.org", "U+0430 CYRILLIC SMALL LETTER A"),
        ("E\u0301va", "U+0301 COMBINING ACUTE ACCENT"),
        ("<b>ann</b>", "&lt;b&gt;ann&lt;/b&gt;"),
    ],
)
def test_what_may_be_a_mistake_is_pointed_out(send, value, found):
    assert found in send(value).text


@pytest.mark.parametrize("value", [" lead@ex.org", "lead@ex.org ", "lead\t@ex.org", ""])
def test_names_that_are_hardly_meant_are_refused(site, send, value):
    before = site.service.ledger.counts().total
    for step in ("", "look up", "file"):
        answer = send(value, step=step)
        assert (answer.status_code == 400) == (step == "file" or not value)
        assert site.service.ledger.counts().total == before
        assert 'value="file"' not in answer.text


def test_looking_up_is_for_auditors(site, send):
    owners = load(site.configuration.model_files()["credit"]).model_.core.subjects()
    person = max(owners, key=owners.count)
    assert f"credit: {owners.count(person)} rows" in send(person, step="look up").text
    assert "credit: nothing" in send(person.upper(), step="look up").text


def test_a_revoked_token_is_signed_out(site, visitor):
    from erasable.service.tokens import make_token, revoke_token

    tokens = site.configuration.folder / "tokens.json"
    text = make_token(tokens, "leaver", ["erase"])
    visitor.enter(text)
    assert visitor.get("/").status_code == 200
    revoke_token(tokens, "leaver")
    assert visitor.get("/").status_code == 303


@pytest.mark.parametrize("error", [StoreError("could not read /canary"), BusyError("/canary"), MemoryError("canary")])
def test_a_receipt_is_not_to_blame_where_the_state_cannot_be_read(site, visitor, monkeypatch, error):
    def failing(name):
        raise error

    visitor.enter(site.tokens["all"])
    form = re.search(r'name="form" value="([^"]+)"', visitor.get("/receipts").text)[1]
    key = new_key()
    now = datetime.now(UTC)
    given = {"request_id": str(uuid.uuid4()), "requested_at": now, "completed_at": now, "guarantee": "exact"}
    text = make_receipt(key, Receipt(state_before=None, state_after="0" * 64, format_version=1, **given))
    assert visitor.post("/receipts", data={"form": form, "text": text}).status_code == 400  # of another key
    monkeypatch.setattr("erasable.service.http.console.check_receipt", lambda *_: None)
    monkeypatch.setattr(site.service, "digest", failing)
    answer = visitor.post("/receipts", data={"form": form, "text": text})
    assert (answer.status_code, answer.headers["content-type"]) == (503, "text/html; charset=utf-8")
    assert "canary" not in answer.text
    state = site.as_("audit").get("/v1/state")
    assert (state.status_code, "Retry-After" in state.headers) == (503, True)
    assert "not known" not in state.json()["detail"]
