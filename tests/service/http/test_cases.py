"""The officer's desk: lists filed without mistakes, cases found again, the audit trail; in a browser and without."""

from __future__ import annotations

import asyncio
import concurrent.futures
import csv
import io
import re
import uuid
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from erasable import load
from erasable.pages import when
from erasable.service.http.cases import csv_file
from erasable.service.http.opendsr import rfc3339
from erasable.service.index import Query
from erasable.service.requests import Case, Filing
from tests.service.http.conftest import PEOPLE, shot, shown
from tests.waiting import until


def today():
    return datetime.now(UTC).date()


@pytest.fixture
def desk(site, visitor):
    """Signs in as somebody and posts forms; ``send`` posts that of a request."""

    class Desk:
        def enter(self, who):
            visitor.enter(site.tokens[who])
            self.form = re.search(r'name="form" value="([^"]+)"', visitor.get("/receipts").text)[1]
            return self

        def send(self, value="", file=None, **fields):
            sent = {"form": self.form, "type": "email", "value": value, **fields}
            files = {"file": file} if file else {"file": ("", b"")}
            return visitor.post("/requests", data=sent, files=files)

        def get(self, path):
            return visitor.get(path)

    return Desk()


def file_by(site, case, controller="erase", who="nobody@example.org", kind="erasure"):
    name = str(uuid.uuid4())
    identity = site.service.identity("email", "raw", who)
    site.service.accept_each([Filing(name, kind, (identity,), name.encode(), (), controller, case)])
    return name


# -- lists -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("script", [True, False], ids=["script", "no script"])
def test_a_list_is_uploaded_looked_up_and_filed(open_page, site, tmp_path, script):
    stored = PEOPLE[45:50] if script else PEOPLE[50:55]
    lines = [
        *stored[:2],
        stored[0],
        f"{stored[2]}; {stored[3]}",
        f"{stored[4]} ",
        "nobody-else",
        "a\u0441e@example.org",
    ]
    (tmp_path / "list.csv").write_text("\n".join(lines) + "\n")
    reference = f"desk-{script}"
    page = open_page(script=script)
    page.goto("/requests/new")
    page.get_by_label("or a file with one identity").set_input_files(tmp_path / "list.csv")
    page.get_by_label("Your reference").fill(reference)
    page.get_by_role("button", name="Continue").click()
    page.get_by_text("1 line cannot be filed.").wait_for()
    assert page.get_by_role("button", name="Erase").count() == 0
    shot(page, "list-unusable")
    page.get_by_role("button", name="Remove the spaces").click()
    page.get_by_text("1 line may hold several identities.").wait_for()
    page.get_by_role("button", name="Split into separate identities").click()
    page.get_by_role("heading", name="Erase 7 identities?").wait_for()
    page.get_by_text("repeats line 1: filed once").wait_for()
    page.get_by_text("a name without digits, unlike most of the list").wait_for()
    page.get_by_text("U+0441 CYRILLIC SMALL LETTER ES").wait_for()
    page.get_by_role("button", name="Look up first").click()
    page.get_by_role("heading", name="Stored now").wait_for()
    assert page.get_by_text("No model stores anything under").count() == 1
    page.locator(".listed").get_by_text("nobody-else").last.wait_for()
    shot(page, "list-looked-up")
    before = site.service.ledger.counts().total
    page.get_by_role("button", name="Erase 7").click()
    page.get_by_text("7 requests filed.").wait_for()
    assert site.service.ledger.counts().total == before + 7
    found = site.service.ledger.search(Query(text=reference))
    assert (found.total, {e.asked.identities for e in found.entries}) == (7, {1})
    shot(page, "list-filed")
    assert not any(person in page.content() for person in stored)
    until(lambda: all(e.settled for e in site.service.ledger.search(Query(text=reference)).entries))
    for name, path in site.configuration.model_files().items():
        assert not load(path).rows_of(subjects=stored).rows, name
    assert page.complaints == []


def test_separators_have_to_be_split_or_confirmed(site, desk):
    desk.enter("all")
    pair, before = "left-1@example.org, left-2@example.org", site.service.ledger.counts().total
    page = desk.send(pair, step="file")
    assert (page.status_code, site.service.ledger.counts().total) == (400, before)
    assert 'name="belongs"' in page.text
    split = desk.send(pair, step="split").text
    assert "Erase 2 identities?" in split
    assert 'name="belongs"' not in split
    assert desk.send(pair, step="file", belongs="yes").status_code == 303
    assert site.service.ledger.counts().total == before + 1


@pytest.mark.parametrize(
    ("name", "content", "told"),
    [
        ("l.csv", b"a@ex.org,b\nc@ex.org,d\n", "the CSV has 2 columns"),
        ("l.csv", b'"a@ex.org\n', "a quote that is not closed"),
        ("l.txt", "caf\u00e9@ex.org".encode("latin-1"), "no UTF-8"),
        ("l.txt", b"\n\n", "the list is empty"),
    ],
)
def test_a_file_that_is_no_list_is_refused(site, desk, name, content, told):
    before = site.service.ledger.counts().total
    page = desk.enter("all").send(file=(name, content), step="file")
    assert (page.status_code, told in page.text) == (400, True)
    assert site.service.ledger.counts().total == before


@pytest.mark.parametrize(
    "fields",
    [
        {"reference": "Ann\u202eLee"},
        {"reference": "x" * 65},
        {"arrived": "2999-01-01"},
        {"arrived": "0001-01-01"},
        {"arrived": "20260131"},
        {"due": "9999-12-31"},
        {"arrived": "yesterday"},
        {"arrived": "2026-01-31", "due": "2026-01-30"},
        {"kind": "party"},
        {"type": ""},
        {"type": "canary"},
        {"format": "canary"},
    ],
)
def test_what_is_wrong_with_a_case_is_said_before_anything_is_filed(site, desk, fields):
    before = site.service.ledger.counts().total
    for step in ("", "file"):
        page = desk.enter("erase").send("a@example.org", step=step, **fields)
        assert page.status_code == 400
        assert 'role="alert"' in page.text
        assert "a@example.org" in page.text  # the form keeps what was typed
    assert site.service.ledger.counts().total == before


def test_pages_of_the_stored_and_of_the_unknown_are_alike_without_audit(site, desk):
    desk.enter("erase")
    shapes = []
    for people in (PEOPLE[10:13], ["person-90@example.org", "person-91@example.org", "person-92@example.org"]):
        text = desk.send("\n".join(people), step="look up").text
        for i, person in enumerate(people):
            text = text.replace(person, f"#{i}")
        shapes.append(re.sub(r'name="key" value="[^"]+"', "", text))
        assert "Completed does not mean" in desk.get("/requests/new").text
    assert shapes[0] == shapes[1]
    assert "Stored now" not in shapes[0]
    assert "completed does not mean that somebody was stored" in shapes[0]


def test_a_list_that_does_not_fit_the_queue_files_nothing(site, desk):
    before = site.service.ledger.counts().total
    page = desk.enter("erase").send("\n".join(f"full-{i}@example.org" for i in range(60)), step="file")
    assert (page.status_code, site.service.ledger.counts().total) == (429, before)


# -- cases -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def cases(site):
    """Cases of two controllers that stay open while the test runs; by the name of their reference."""
    days = {"late": -3, "soon": 2, "later": 40}
    with site.service.worker.changing():  # nothing is committed meanwhile
        made = {
            name: file_by(site, Case(f"{name}.{i}", today() - timedelta(days=30), today() + timedelta(days=days[name])))
            for i in range(2)
            for name in days
        }
        made["other"] = file_by(site, Case("other.1"), controller="all")
        yield made
    until(lambda: not site.service.ledger.counts().open)


def references(page):
    return re.findall(r'data-label="Reference">([^<]+)<', page)


def test_the_most_urgent_cases_come_first_and_can_be_searched_and_filtered(desk, cases):
    desk.enter("erase")
    page = desk.get("/requests").text
    assert [name.partition(".")[0] for name in references(page)[:6]] == [
        "late",
        "late",
        "soon",
        "soon",
        "later",
        "later",
    ]
    assert page.count(">overdue</span>") == page.count(">due soon</span>") == 2
    assert "other.1" not in page
    assert sorted(references(desk.get("/requests?q=late.").text)) == ["late.0", "late.1"]
    assert references(desk.get(f"/requests?q={cases['soon'][:13].upper()}").text) == ["soon.1"]
    assert len(references(desk.get("/requests?state=due_soon").text)) == 2
    assert len(references(desk.get("/requests?state=overdue").text)) == 2
    ordered = [r for r in references(desk.get("/requests?sort=reference&state=open").text) if "." in r]
    assert ordered == sorted(ordered)
    assert "No request matches." in desk.get("/requests?q=nothing-like-this").text
    assert desk.get("/requests?state=canary").status_code == 400
    assert desk.get("/requests?sort=canary").status_code == 400
    overview = desk.get("/").text
    assert re.search(r'state=overdue"><span class="number">2</span>', overview)


def test_cases_are_exported_as_they_are_listed(desk, cases):
    desk.enter("erase")
    answer = desk.get("/requests.csv?state=open")
    assert answer.headers["content-type"].startswith("text/csv")
    assert f"requests-{today()}.csv" in answer.headers["content-disposition"]
    rows = [*csv.DictReader(io.StringIO(answer.text))]
    assert {row["reference"] for row in rows} == {f"{name}.{i}" for name in ("late", "soon", "later") for i in (0, 1)}
    assert {row["overdue"] for row in rows if row["reference"].startswith("late.")} == {"yes"}
    assert {row["receipts"] for row in rows} == {""}
    assert desk.get("/requests.csv?state=canary").status_code == 400
    assert "other.1" in desk.enter("audit").get("/requests.csv?state=open").text


def test_a_page_that_is_sent_twice_files_its_requests_once(site, desk):
    desk.enter("erase")
    people, before = "a@example.org\nb@example.org", site.service.ledger.counts().total
    page = desk.send(people, reference="twice")
    fields = {"step": "file", "reference": "twice", "key": re.search(r'name="key" value="([^"]+)"', page.text)[1]}
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answers = [*pool.map(lambda _: desk.send(people, **fields), range(3))]
    assert {(one.status_code, one.headers["location"]) for one in answers} == {(303, "/requests?filed=2&q=twice")}
    assert site.service.ledger.counts().total == before + 2
    assert desk.send("a@example.org\nc@example.org", **fields).status_code == 409  # the page was altered
    assert site.service.ledger.counts().total == before + 2
    again = re.search(r'name="key" value="([^"]+)"', desk.send(people, reference="twice").text)[1]
    assert desk.send(people, **fields | {"key": again}).status_code == 303  # a page of its own
    assert site.service.ledger.counts().total == before + 4


def test_a_reference_is_text_on_every_page_and_in_every_cell(site, desk):
    desk.enter("erase")
    odd = "\uff1d1+<script>alert(1)</script> "
    page = desk.send("nobody@example.org", reference=odd)
    assert (page.status_code, "Check the reference" in page.text) == (200, False)
    assert "looks like an e-mail" in desk.send("nobody@example.org", reference="ann@example.org").text
    filed = desk.send("nobody@example.org", step="file", reference=odd)
    for path in (filed.headers["location"], "/requests"):
        assert "<script>alert" not in desk.get(path).text
        assert "\uff1d1+&lt;script&gt;" in desk.get(path).text
    rows = csv.DictReader(io.StringIO(desk.get("/requests.csv").text))
    assert "'" + odd.strip() in {row["reference"] for row in rows}


def test_an_export_misses_and_repeats_nothing_while_requests_come_and_go(site, desk, monkeypatch):
    """Between two pages a request is filed and another one settled, and events are noted."""
    monkeypatch.setattr("erasable.service.http.cases._EXPORTED", 2)
    monkeypatch.setattr("erasable.service.http.console._EXPORTED", 3)
    desk.enter("audit")
    ledger = site.service.ledger
    search, trail = ledger.search, ledger.trail
    with site.service.worker.changing():
        filed = [file_by(site, Case(f"moving.{i}")) for i in range(7)]
        waiting = iter(filed)

        def busy_search(query):
            found = search(query)
            if len(filed) < 12:
                filed.append(file_by(site, Case("moving.9")))
                ledger.cancel(next(waiting), "erase", by="erase")
            return found

        monkeypatch.setattr(ledger, "search", busy_search)
        rows = [*csv.DictReader(io.StringIO(desk.get("/requests.csv?q=moving.").text))]
        assert [row["request"] for row in rows] == filed
        notes = iter(range(4))

        def busy_trail(**options):
            found = trail(**options)
            if next(notes, None) is not None:
                site.service.note("export", "erase")
            return found

        known = [(rfc3339(e.at), e.what, e.by, e.request_id) for e in trail(limit=1000).events]
        monkeypatch.setattr(ledger, "trail", busy_trail)
        told = [tuple(row.values())[:4] for row in csv.DictReader(io.StringIO(desk.get("/trail.csv").text))]
        assert told[1:] == known  # the first is the export itself


def test_a_long_list_has_pages(site, desk, monkeypatch):
    monkeypatch.setattr("erasable.service.http.cases._PAGE", 2)
    monkeypatch.setattr("erasable.service.http.cases._EXPORTED", 2)
    for i in range(5):
        file_by(site, Case(f"page.{i}"))
    until(lambda: not site.service.ledger.counts().open)
    desk.enter("erase")
    seen, address = [], "/requests?q=page.&sort=reference"
    for _ in range(3):
        page = desk.get(address).text
        seen += references(page)
        address = html_of(re.search(r'rel="next" href="([^"]+)"', page))
    assert (seen, address) == ([f"page.{i}" for i in range(5)], None)
    assert "5 to 5 of 5" in page
    assert len(desk.get("/requests.csv?q=page.").text.splitlines()) == 6
    for odd in ("0", "-1", "x", "99999999999999", "\u0663"):
        assert desk.get(f"/requests?page={odd}").status_code == 200


def html_of(found):
    return None if found is None else found[1].replace("&amp;", "&")


def test_a_case_shows_its_days_and_can_be_cancelled_until_it_begins(open_page, site, cases):
    page = open_page("all")
    page.goto("/requests")
    shot(page, "cases")
    page.get_by_label("Reference or request id").fill("late.1")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("cell", name="late.1").first.wait_for()
    page.locator("tbody a").first.click()
    page.locator("dd", has_text="overdue").wait_for()
    shot(page, "case-overdue")
    page.get_by_role("button", name="Cancel the request").click()
    page.get_by_text("cancelled", exact=True).wait_for()
    assert site.service.ledger.entry(cases["late"]).state == "cancelled"
    trail = site.service.ledger.trail(what="cancel", request_id=cases["late"])
    assert [event.by for event in trail.events] == ["all"]
    assert page.complaints == []


def test_a_case_with_a_grace_period_says_until_when_it_can_be_cancelled(site, desk, visitor, monkeypatch):
    desk.enter("erase")
    slow = replace(site.configuration.service, grace=timedelta(hours=2))
    with monkeypatch.context() as patch:
        patch.setattr(site.service.ledger, "_settings", slow)
        name = file_by(site, Case("graceful"))
    until_when = site.service.ledger.entry(name).cancel_until
    page = desk.get(f"/requests/{name}").text
    assert f"It is carried out after {when(until_when)}, and can be cancelled until then." in page
    assert visitor.post(f"/requests/{name}/cancel", data={"form": desk.form}).status_code == 303
    assert site.service.ledger.entry(name).state == "cancelled"


# -- the audit trail -------------------------------------------------------------------------------------------------


def test_what_people_do_is_in_the_trail_and_names_nobody(site, desk, visitor):
    desk.enter("all")
    who = PEOPLE[33]
    desk.send(who, step="look up")
    name = file_by(site, Case("trail-1"), controller="all", who=who)
    until(lambda: site.service.receipts(name))
    desk.get(f"/requests/{name}/receipts/credit")
    desk.get(f"/requests/{name}/evidence.zip")
    visitor.post("/verify/credit", data={"form": desk.form})
    desk.get("/evidence/credit")
    desk.get("/requests.csv")
    asked = file_by(site, Case("trail-2"), controller="all", who=who, kind="access")
    until(lambda: site.service.ledger.entry(asked).settled)
    desk.get(f"/requests/{asked}/stored")
    answer = desk.get("/trail.csv?by=all")
    rows = [*csv.DictReader(io.StringIO(answer.text))]
    assert {row["token"] for row in rows} == {"all"}
    newest = [(row["what"], row["request"], row["model"]) for row in reversed(rows)]
    done = [
        ("sign-in", "", ""), ("look-up", "", ""), ("request", name, ""), ("download", name, "credit"),
        ("download", name, ""), ("verification", "", "credit"), ("download", "", "credit"), ("export", "", ""),
        ("request", asked, ""), ("look-up", asked, ""), ("export", "", ""),
    ]  # fmt: skip
    assert newest[-len(done) :] == done
    page = desk.get(f"/trail?request_id={name}").text
    assert page.count('data-label="What">download<') == 2
    assert who not in page + answer.text
    assert "Nothing matches." in desk.get("/trail?by=canary").text
    visitor.post("/logout", data={"form": desk.form})
    assert site.service.ledger.trail(limit=1).events[0].what == "sign-out"
    for path in ("/trail", "/trail.csv"):
        assert desk.enter("erase").get(path).status_code == 403


def test_the_trail_can_be_read_by_people(open_page):
    page = open_page("audit")
    page.get_by_role("link", name="Audit trail").click()
    page.get_by_label("What").select_option("sign-in")
    page.get_by_role("button", name="Search").click()
    page.get_by_role("cell", name="sign-in").first.wait_for()
    shot(page, "trail")
    assert page.complaints == []


def test_a_printed_page_has_no_forms(open_page, site):
    page = open_page("all")
    page.emulate_media(media="print")
    for path in ("/", "/requests", "/trail", "/receipts"):
        page.goto(path)
        assert not [it for it in page.locator("form, button, .button, nav").all() if it.is_visible()], path
        shot(page, f"print-{path.strip('/') or 'overview'}")


def test_without_a_script_a_page_still_follows_its_request(open_page, site):
    page = open_page("all", script=False)
    name = file_by(site, Case("followed"), controller="all")
    page.goto(f"/requests/{name}")
    shown(page, page.get_by_role("link", name="Download everything (zip)"), script=False)
    with page.expect_download() as download:
        page.get_by_role("link", name="Download everything (zip)").click()
    assert download.value.suggested_filename == f"erasure-{name}.zip"


def test_no_cell_of_an_export_is_a_formula():
    given = [["=1+1", "-1-1", "+2", "@x", "case-7", 3, None]]
    response = csv_file(lambda: iter([given]), "a,b,c,d,e,f,g", "cases")
    lines = list(asyncio.run(_collected(response)))
    assert lines[-1].strip() == "'=1+1,'-1-1,'+2,'@x,case-7,3,"


async def _collected(response):
    return [part if isinstance(part, str) else part.decode() async for part in response.body_iterator]
