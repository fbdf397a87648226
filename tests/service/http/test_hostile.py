"""What nobody in good faith sends, and files that were changed under the service: an answer, and nothing else."""

from __future__ import annotations

import concurrent.futures
import contextlib
import dataclasses
import json
import logging
import re
import socket
import time
import uuid

import httpx
import pytest

from erasable.service.http.app import create_app
from erasable.service.http.connections import Connection
from erasable.service.http.opendsr import Signer
from erasable.service.http.site import Rates
from erasable.service.index import RequestPage
from erasable.service.tokens import TokenFile
from tests.service.http.conftest import PEOPLE, serving
from tests.waiting import PATIENCE, until, with_longer

CANARY = "canary-3b1e@example.org"
JSON, LINES = {"Content-Type": "application/json"}, {"Content-Type": "application/jsonl"}


def tensor(shape, data, name="X", datatype="FP64"):
    return {"inputs": [{"name": name, "shape": shape, "datatype": datatype, "data": data}]}


def erasure(**change):
    who = {"identity_type": "email", "identity_value": CANARY, "identity_format": "raw"}
    return {
        "subject_request_id": str(uuid.uuid4()),
        "subject_request_type": "erasure",
        "submitted_time": "2026-01-02T15:00:00Z",
        "subject_identities": [who],
        **change,
    }


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/v2/models/credit/infer", tensor([10**15, 0], []), 413),
        ("/v2/models/credit/infer", tensor([500, 0], []), 400),
        ("/v2/models/credit/infer", tensor([1, 4], [10**400, 1, 1, 1]), 400),
        ("/v2/models/credit/infer", tensor([1, 4], [{"a": 1}, 1, 1, 1]), 400),
        ("/v2/models/credit/infer", tensor([1001, 4], [1, 2, 3, 4] * 1001), 413),
        ("/v2/models/named/infer", {"inputs": [tensor([1], [1], f"k{i}")["inputs"][0] for i in range(1000)]}, 400),
        ("/v2/models/named/infer", {"inputs": [tensor([1001], [1] * 1001, name)["inputs"][0] for name in "abcd"]}, 413),
    ],
)  # fmt: skip
def test_bodies_that_would_grow_are_refused_before_they_do(site, path, body, status):
    answer = site.as_("predict").post(path, json=body)
    assert answer.status_code == status


@pytest.mark.parametrize("time", ["9999999", 9999999, "0001-01-01T00:00:00Z", "2026-01-02", "2026-01-02T15:00:00", ""])
def test_a_time_is_a_moment_of_rfc_3339(site, time):
    before = site.service.ledger.counts().total
    assert site.as_("erase").post("/v2/requests", json=erasure(submitted_time=time)).status_code == 400
    assert site.as_("purge").post("/v1/purge", params={"before": time}).status_code == 400
    assert site.service.ledger.counts().total == before


@pytest.mark.parametrize("day", ["0001-01-01", "0", "9999999", "20260131", "2026-W05-6", "2999-01-01"])
def test_a_day_is_written_in_one_way_and_is_one_of_the_last_years(site, day):
    http, before = site.as_("erase"), site.service.ledger.counts().total
    body = {"identities": ["nobody@example.org"], "identity_type": "email"}
    assert http.post("/v1/erasures", json=body | {"received": day}).status_code == 400
    assert http.post("/v1/erasures", json=body, params={"received": day}).status_code == 400
    assert site.service.ledger.counts().total == before


def status_of(site, *lines, path="/v2/health/live", version="1.1"):
    """The status of an answer to a request with these headers and no other."""
    host, port = site.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), PATIENCE) as line:
        head = "".join(f"{one}\r\n" for one in (f"GET {path} HTTP/{version}", *lines, "Connection: close"))
        line.sendall(f"{head}\r\n".encode())
        return int(line.makefile("rb").readline().split()[1])


@pytest.mark.parametrize(
    ("hosts", "status"),
    [
        (["127.0.0.1:8080"], 200),
        (["127.0.0.1"], 200),
        (["LOCALHOST:1"], 200),
        (["[::1]:8080"], 200),
        (["erasable.example"], 200),  # of public_url
        (["Erasable.Example.:443"], 200),
        (["service.internal"], 200),  # of allowed_hosts
        (["evil.example"], 421),
        (["erasable.example.evil.example"], 421),
        (["10.1.2.3:8080"], 421),
        ([], 400),
        ([""], 400),
        (["erasable.example", "erasable.example"], 400),
        (["127.0.0.1", "evil.example"], 400),
        (["user@localhost"], 400),
        (["localhost:port"], 400),
        (["local host"], 400),
        (["a/b"], 400),
    ],
)
def test_one_host_is_named_and_it_is_ours(site, hosts, status):
    given = [f"Host: {host}" for host in hosts]
    assert status_of(site, *given, path="/login") == status
    probed = status_of(site, *given, path="/v2/health/ready")  # by whatever address a probe has
    assert probed == (400 if len(hosts) != 1 or not hosts[0] else 200)


def test_a_probe_without_a_host_is_answered_in_the_version_that_has_none(site):
    assert status_of(site, version="1.0") == 200
    assert status_of(site, path="/login", version="1.0") == 400


@pytest.mark.parametrize("name", ["Authorization: Bearer x", "Content-Type: a/b", "Idempotency-Key: k"])
def test_a_header_that_decides_occurs_once(site, name):
    assert status_of(site, "Host: localhost", name, path="/login") == 200
    assert status_of(site, "Host: localhost", name, name, path="/login") == 400


@pytest.mark.parametrize("text", ["a,b\n1,\r2\n", "a\n" + "x" * 200_000 + "\n", "a,b\n1,\x002\n"])
def test_csv_that_its_reader_refuses_is_a_problem_of_the_client(site, text):
    answer = site.as_("learn").post("/v1/learn?model=named", content=text, headers={"Content-Type": "text/csv"})
    assert answer.status_code == 400


@pytest.mark.parametrize("depth", [500, 100_000])
def test_json_of_any_depth_is_read_or_refused(site, depth):
    nested = "[" * depth + "]" * depth
    http = site.as_("all")
    text = json.dumps(erasure())[:-1] + f', "extensions": {{"erasable.example": {nested}}}}}'
    assert http.post("/v2/requests", content=text, headers=JSON).status_code == 400
    inputs = f'{{"inputs": {nested}}}'
    assert http.post("/v2/models/credit/infer", content=inputs, headers=JSON).status_code == 400
    lines = f'{{"a": {nested}}}'
    answer = http.post("/v1/learn?model=named", content=lines, headers=LINES)
    assert answer.status_code == 400


def test_waiting_is_told_in_whole_seconds(site):
    http, seen = site.as_("erase"), None
    with site.service.worker.changing():  # nothing is committed meanwhile
        for _ in range(site.service.settings.queue + 1):
            seen = http.post("/v2/requests", json=erasure())
        assert seen.status_code == 429
        assert seen.headers["Retry-After"] == "1"
        assert seen.json()["error"]["code"] == 429
    until(lambda: site.service.health().waiting == 0)


def test_who_may_only_erase_is_not_shown_what_receipts_wait_for(site, monkeypatch):
    """They wait, among other things, where somebody is stored again."""
    body = erasure()
    assert site.as_("erase").post("/v2/requests", json=body).status_code == 201
    name = body["subject_request_id"]
    until(lambda: site.service.ledger.entry(name).settled and not site.service.ledger.entry(name).owes_receipts)
    done = site.service.ledger.entry(name)
    unwell = dataclasses.replace(site.service.health(), ready=False, problem="canary")
    seen = {}
    for owed in (False, True):
        shown = dataclasses.replace(done, receipts=frozenset()) if owed else done
        with monkeypatch.context() as patch, httpx.Client(base_url=site.base, timeout=PATIENCE) as http:
            patch.setattr(site.service.ledger, "entry", lambda *_, shown=shown, **__: shown)
            patch.setattr(site.service.ledger, "search", lambda _, shown=shown: RequestPage([shown], 1))
            patch.setattr(site.service, "health", lambda: unwell)
            listed = site.as_("erase").get("/v1/requests").json()
            cookie = http.post("/login", data={"token": site.tokens["erase"]}).headers["set-cookie"].partition(";")[0]
            paths = (f"/requests/{name}", f"/requests/{name}/state.json", "/")
            pages = [http.get(path, headers={"Cookie": cookie}).text for path in paths]
            pages = [re.sub(r'name="form" value="[^"]+"', "", page) for page in pages]
            assert not any("canary" in page for page in pages)
            seen[owed] = listed, pages
            assert site.as_("audit").get("/v1/requests").json()[0]["receipts_owed"] == 2 * owed
    assert seen[False] == seen[True]


def test_the_health_is_said_to_auditors(site):
    said = site.as_("audit").get("/v1/health").json()
    assert said["ready"] is True
    assert said.keys() == {field.name for field in dataclasses.fields(site.service.health())}
    assert site.as_("erase").get("/v1/health").status_code == 403


def test_canaries_in_odd_places_come_back_nowhere(site, caplog):
    """Names of headers, queries, keys, models, columns, addresses of callbacks and parts of forms."""
    caplog.set_level(logging.DEBUG)
    http = site.as_("all")
    table = {"Content-Type": "text/csv"}
    part = {"file": (CANARY, CANARY.encode(), CANARY), CANARY: (None, CANARY)}
    answers = [
        http.get(f"/v1/state?model={CANARY}", headers={"X-" + CANARY.replace("@", "-"): CANARY}),
        http.get(f"/{CANARY}?{CANARY}={CANARY}"),
        http.get(f"/static/{CANARY}"),
        http.get(f"/static/..%2f{CANARY}"),
        http.get(f"/requests/{CANARY}"),
        http.post(f"/v1/learn?model=named&label={CANARY}", content=f"{CANARY},a\n1,{CANARY}\n", headers=table),
        http.post("/v1/learn?model=named", content=f"a,b,c,d,label\n1,2,3,{CANARY},yes\n", headers=table),
        http.post("/v1/learn?model=named", content=b'{"%b": "x"}' % CANARY.encode(), headers=LINES),
        http.post("/v1/learn?model=named", content=CANARY, headers={"Content-Type": f"text/{CANARY}"}),
        http.post("/v2/models/named/infer", json=tensor([1], [CANARY], CANARY, CANARY)),
        http.post("/v2/requests", json=erasure(status_callback_urls=[f"https://{CANARY}/{CANARY}"])),
        http.post("/v2/requests", json=erasure(subject_identities=[{CANARY: CANARY}])),
        http.post("/v2/requests", json={CANARY: CANARY}),
        http.post("/receipts", files=part, headers={"Cookie": f"erasable_session={CANARY}"}),
        http.post("/login", files=part),
        http.request(CANARY.split("@")[0].upper(), f"/v2/requests/{CANARY}"),
        site.plain.get("/metrics", headers={"Authorization": f"Bearer {CANARY}"}),
    ]  # fmt: skip
    for answer in answers:
        assert answer.status_code < 500, answer.request.url
        assert CANARY not in answer.text + str(answer.headers), answer.request.url
    ours = (record for record in caplog.records if record.name.startswith(("erasable", "uvicorn.error")))
    logged = "\n".join(record.getMessage() + str(record.exc_info) for record in ours)
    assert CANARY not in logged
    assert CANARY not in http.get("/metrics").text


def test_tokens_of_odd_characters_are_none(site):
    for text in ("", " ", "é", "a" * 7000, "../../etc/passwd", "%00", "erasable_"):
        headers = {"Authorization": b"Bearer ." + text.encode() + b"."}
        assert site.plain.get("/v1/state", headers=headers).status_code == 401
        assert site.plain.post("/login", data={"token": text}).status_code == 401


def test_an_upload_that_is_cut_off_is_no_error_of_the_service(site, caplog):
    caplog.set_level(logging.INFO)
    host, port = site.base.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port))) as cut:
        head = f"POST /v2/requests HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {site.tokens['erase']}\r\n"
        cut.sendall(f"{head}Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{{".encode())
    until(lambda: any("POST /v2/requests 400" in record.getMessage() for record in caplog.records))
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.fixture
def signed_in(site):
    """A client with a cookie, and the secret of its forms."""
    with httpx.Client(base_url=site.base, follow_redirects=False, timeout=PATIENCE) as http:
        answer = http.post("/login", data={"token": site.tokens["all"]})
        http.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
        http.form = re.search(r'name="form" value="([^"]+)"', http.get("/requests").text)[1]
        yield http


def test_forms_are_those_of_this_site_and_of_this_session(site, signed_in):
    sent = {"type": "email", "format": "raw", "value": PEOPLE[0], "step": "file", "form": signed_in.form}
    before = site.service.ledger.counts().total
    for change, headers in (
        ({"form": "guessed"}, {}),
        ({"form": "é"}, {}),
        ({"form": ""}, {}),
        ({}, {"Sec-Fetch-Site": "cross-site"}),
        ({}, {"Sec-Fetch-Site": "same-site"}),
        ({}, {"Origin": "https://evil.example"}),
        ({}, {"Origin": "null"}),
        ({}, {"Origin": "https://erasable.example.evil.example", "Sec-Fetch-Site": "same-origin"}),
    ):
        assert signed_in.post("/requests", data=sent | change, headers=headers).status_code == 403
    assert signed_in.post("/requests", data={k: v for k, v in sent.items() if k != "form"}).status_code == 403
    assert site.service.ledger.counts().total == before
    fixed = {"Cookie": "erasable_session=chosen-by-somebody-else"}
    token = {"token": site.tokens["all"]}
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}, {"Origin": "null"}):
        assert site.plain.post("/login", data=token, headers=headers).status_code == 403
    for origin in (site.configuration.url, site.base, site.base.replace("http:", "https:")):
        assert site.plain.post("/login", data=token, headers={"Origin": origin}).status_code == 303
    answer = site.plain.post("/login", data=token, headers=fixed)
    assert "chosen" not in answer.headers["set-cookie"]


def test_pages_are_shown_at_the_rate_of_their_token(site, signed_in, monkeypatch):
    monkeypatch.setattr(Rates, "take", lambda *_: 2.5)
    answer = signed_in.get("/requests")
    assert answer.status_code == 429
    assert answer.headers["Retry-After"] == "3"
    assert "slow down" in signed_in.post("/login", data={"token": site.tokens["all"]}).text


def test_forms_are_short_and_one_token_signs_nobody_else_out(site, signed_in):
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    assert site.plain.post("/login", content="a&" * 5000, headers=form).status_code == 413
    long = {"form": signed_in.form, "text": "x" * 2**18}
    assert signed_in.post("/receipts", data=long).status_code == 413
    for _ in range(25):
        assert site.plain.post("/login", data={"token": site.tokens["audit"]}).status_code == 303
    assert signed_in.get("/requests").status_code == 200
    for _ in range(25):
        site.plain.post("/login", data={"token": site.tokens["all"]})
    assert signed_in.get("/requests").headers["location"] == "/login"  # the oldest session of the same token


def test_a_damaged_file_of_tokens_lets_nobody_in_and_is_said(site, signed_in):
    tokens = site.configuration.folder / "tokens.json"
    whole = tokens.read_bytes()
    other = json.loads(whole)
    other["tokens"][0]["sha256"] = "é"
    naive = json.loads(whole)
    naive["tokens"][-1]["expires"] = "2020-01-01T00:00:00"
    try:
        for text in (whole[:-20], b"", b"{}", json.dumps(other).encode(), json.dumps(naive).encode()):
            tokens.write_bytes(text)
            for http, path in ((site.as_("all"), "/v1/state"), (signed_in, "/requests"), (signed_in, "/")):
                answer = http.get(path)
                assert answer.status_code == 503
                assert "damaged" in answer.text
            assert site.plain.get("/v2/health/live").status_code == 200
    finally:
        tokens.write_bytes(whole)
    assert site.as_("all").get("/v1/state").status_code == 200


@contextlib.contextmanager
def another(site, signer=None, **change):
    """A second server around the same service, with other settings."""
    options = {"http": change.pop("http")} if "http" in change else {}
    configuration = dataclasses.replace(site.configuration, **change)
    tokens = TokenFile(site.configuration.folder / "tokens.json")
    with serving(create_app(site.service, tokens, configuration, signer), **options) as base:
        headers = {"Authorization": f"Bearer {site.tokens['all']}"}
        with httpx.Client(base_url=base, headers=headers, timeout=2 * PATIENCE) as http:
            yield http


def test_learning_that_waits_is_given_up_in_time_and_takes_no_thread_from_others(site, rsa_files):
    def learn(http, i):
        row = f"a,b,c,d,label,i\n1,2,3,4,yes,late-{i}\n"
        return http.post("/v1/learn?model=named&id=i", content=row, headers={"Content-Type": "text/csv"}).status_code

    def answered_meanwhile(deadline):
        with (
            another(site, Signer(*rsa_files), deadline=deadline) as http,
            concurrent.futures.ThreadPoolExecutor(60) as pool,
            site.service.worker.changing(),  # a commit that does not end
        ):
            waiting = [pool.submit(learn, http, i) for i in range(60)]
            time.sleep(deadline / 3)
            answer = http.post("/v2/requests", json=erasure()).status_code
            in_time = answer == 201 and not all(one.done() for one in waiting)
            assert {one.result() for one in waiting} == {504}
        return in_time

    with_longer(1.0, answered_meanwhile)


def test_slow_bodies_and_slow_heads_are_given_up(site):
    token = site.tokens["predict"]
    head = f"POST /v2/models/named/infer HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {token}\r\n"

    def given_up(seconds):
        quick = type("Quick", (Connection,), {"head_seconds": seconds})
        with another(site, http=quick, deadline=2.5 * seconds) as http:
            host, port = http.base_url.host, http.base_url.port
            answers = []
            try:
                for sent in (b"", b"GET / HTTP/1.1\r\nHost:", f"{head}Content-Length: 100\r\n\r\n[".encode()):
                    with socket.create_connection((host, port), PATIENCE) as slow:
                        slow.sendall(sent)
                        answers.append(slow.recv(12))
                lives = [http.get("/v2/health/live").status_code]
                time.sleep(3 * seconds)
                lives += [http.get("/v2/health/live").status_code]  # what was idle meanwhile is opened anew
            except (ConnectionError, httpx.NetworkError, httpx.RemoteProtocolError):
                return False  # this thread was not let run between opening a connection and asking
            assert answers[:2] == [b"", b""]
            return lives == [200, 200] and answers[2] == b"HTTP/1.1 504"

    with_longer(0.2, given_up)


def test_who_waits_to_be_told_to_go_on_is_told_before_the_body():
    async def app(scope, receive, send):
        if scope["type"] == "http":
            await receive()
            await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
            await send({"type": "http.response.body", "body": b"ok"})

    with serving(app, lifespan="off") as base:
        host, port = base.removeprefix("http://").split(":")
        line = socket.create_connection((host, int(port)), PATIENCE)
        line.sendall(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\nExpect: 100-continue\r\n\r\n")
        assert line.recv(4096).startswith(b"HTTP/1.1 100 ")
        line.sendall(b"x")
        assert line.recv(4096).startswith(b"HTTP/1.1 200 ")
        line.close()
