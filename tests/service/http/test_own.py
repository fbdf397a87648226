"""Learning, state, verification, receipts and figures over HTTP; and what nobody may see."""

from __future__ import annotations

import json
import logging
import os
import re
import shutil
import subprocess
import uuid
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from erasable import ErasableClassifier, TableEncoder, load
from erasable.audit.receipts import check_receipt
from erasable.service.http.api import model_state
from erasable.service.http.envelope import HEADERS
from erasable.service.http.site import Rates
from erasable.service.purges import check_tombstone
from tests.schemas.raw import draft, table
from tests.service.http.conftest import PEOPLE
from tests.waiting import PATIENCE, until

NEW = np.random.default_rng(3).standard_normal((40, 4)) * 5


def lines(first, n=5, people="new@example.org"):
    return "".join(
        json.dumps(
            {**dict(zip("abcd", NEW[i].tolist(), strict=True)), "label": "yes", "key": f"new-{i:03d}", "who": people}
        )
        + "\n"
        for i in range(first, first + n)
    )


def learn(site, body, kind="application/jsonl", **params):
    params = {"model": "named", "id": "key", "subject": "who", **params}
    return site.as_("learn").post("/v1/learn", params=params, content=body, headers={"Content-Type": kind})


def test_rows_are_learnt_from_json_lines_and_csv(site):
    before = load(site.configuration.model_files()["named"]).n_core_
    said = learn(site, lines(0)).json()
    assert (said["rows"], said["rows_stored"]) == (5, before + said["rows_added"])
    records = [json.loads(line) for line in lines(5).splitlines()]
    names = list(records[0])
    text = "\n".join([",".join(names), *(",".join(str(r[n]) for n in names) for r in records)])
    assert learn(site, text, "text/csv").json()["rows"] == 5
    again = learn(site, lines(5), skip_known="true").json()
    assert again["rows_known"] + again["rows"] == 5
    assert load(site.configuration.model_files()["named"]).n_core_ == again["rows_stored"]


def test_the_types_of_a_csv_are_stated_and_never_those_of_other_rows(site):
    records = [json.loads(line) | {"key": str(900 + i)} for i, line in enumerate(lines(5).splitlines())]
    names = list(records[0])
    text = "\n".join([",".join(names), *(",".join(str(r[n]) for n in names) for r in records)])
    model = site.configuration.model_files()["named"]
    before = Path(model).read_bytes()
    refused = learn(site, text, "text/csv", id_type="int")
    assert refused.status_code == 400
    assert "for a CSV give id_type= str" in refused.json()["detail"]
    refused = learn(site, text.replace("900", "9OO"), "text/csv", id_type="int")
    assert "1 of 5 ids are not integers" in refused.json()["detail"]
    assert learn(site, lines(5), id_type="str").json()["detail"].startswith("id_type, subject_type and label_type are")
    assert learn(site, text, "text/csv", id_type="float").status_code == 400
    mixed = lines(0).replace('"yes"', "1", 1).replace('"yes"', "2.5")
    assert "columns of one type" in learn(site, mixed).json()["detail"]
    assert Path(model).read_bytes() == before
    assert learn(site, text, "text/csv", id_type="str").json()["rows"] == 5


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        (b"{", "application/jsonl", 400),
        (b"", "application/jsonl", 400),
        (b'{"a": 1}\n', "application/jsonl", 400),
        (lines(20).replace("0.", "canary."), "application/jsonl", 400),
        (b"rows", "application/xml", 415),
        (b"arrow", "application/vnd.apache.arrow.stream", 415),
    ],
)
def test_rows_that_cannot_be_learnt_change_nothing(site, body, kind, status):
    digest = load(site.configuration.model_files()["named"]).state_digest()
    answer = learn(site, body, kind)
    assert answer.status_code == status
    assert "canary" not in answer.text
    assert load(site.configuration.model_files()["named"]).state_digest() == digest


def test_the_state_at_a_glance_and_its_verification(site):
    auditor = site.as_("audit")
    found = {one["model"]: one for one in auditor.get("/v1/state").json()}
    clf = load(site.configuration.model_files()["credit"])
    assert (found["credit"]["rows_stored"], found["credit"]["digest"]) == (clf.n_core_, clf.state_digest())
    assert auditor.post("/v1/verify", params={"model": "credit"}).status_code == 202
    asked = {"model": "credit"}
    until(lambda: auditor.get("/v1/verify", params=asked).json()["state"] != "running")
    told = auditor.get("/v1/verify", params=asked).json()
    assert (told["state"], told["digest"], told["problem"]) == ("passed", clf.state_digest(), None)
    assert auditor.get("/v1/verify").status_code == 400  # one of two models
    assert auditor.get("/v1/verify", params={"model": "canary"}).status_code == 404


def test_requests_are_listed_with_nobodys_identity_and_counted(site):
    http = site.as_("erase")
    request_id = str(uuid.uuid4())
    body = {
        "subject_request_id": request_id,
        "subject_request_type": "erasure",
        "submitted_time": "2026-01-02T15:00:00Z",
        "subject_identities": [{"identity_type": "email", "identity_value": PEOPLE[3], "identity_format": "raw"}],
    }
    assert http.post("/v2/requests", json=body).status_code == 201
    listed = http.get("/v1/requests")
    assert request_id in listed.text
    assert PEOPLE[3] not in listed.text
    assert [one["request_id"] for one in http.get("/v1/requests?limit=1").json()] == [listed.json()[-1]["request_id"]]
    page = http.get("/v1/requests?limit=2&skip=1").json()
    assert [one["request_id"] for one in page] == [one["request_id"] for one in listed.json()[-3:-1]]
    assert http.get(f"/v1/requests?skip={len(listed.json())}").json() == []
    figures = site.as_("audit").get("/metrics").text
    assert 'erasable_http_answers_total{method="POST",route="/v2/requests",status="201"}' in figures
    assert "erasable_ready 1.0" in figures
    assert PEOPLE[3] not in figures


OPEN = {"/v2/health/live", "/v2/health/ready", "/v2/discovery", "/v2/certificate"}


def test_nothing_is_answered_without_a_token_but_health_discovery_and_the_certificate(site):
    described = site.as_("all").get("/openapi.json").json()
    tried = 0
    for path, methods in described["paths"].items():
        for method in methods:
            where = path.replace("{request_id}", str(uuid.uuid4())).replace("{name}", "credit").replace("{model}", "m")
            answer = site.plain.request(method, where)
            assert answer.status_code == (200 if path in OPEN else 401), (method, path)
            tried += 1
    assert tried >= 18
    assert site.plain.get("/openapi.json").status_code == 401


@pytest.mark.parametrize(
    "path", ["/v1/state", "/v1/verify", "/v1/receipts/00000000-0000-4000-8000-000000000000", "/metrics"]
)
@pytest.mark.parametrize("who", ["predict", "learn", "erase"])
def test_what_tells_of_the_state_needs_the_audit_scope(site, path, who):
    assert site.as_(who).get(path).status_code == 403


def test_every_answer_carries_secure_headers(site):
    for answer in (site.plain.get("/v2/health/live"), site.plain.get("/nowhere"), site.plain.get("/v1/state")):
        for name, value in HEADERS.items():
            assert answer.headers[name] == value
        assert "unsafe" not in answer.headers["Content-Security-Policy"]
        assert "server" not in answer.headers


def test_identities_values_and_tokens_are_in_no_log_and_in_no_file(site, caplog):
    caplog.set_level(logging.DEBUG)
    http, canary = site.as_("all"), "canary-7f3a@example.org"
    request_id = str(uuid.uuid4())
    body = {
        "subject_request_id": request_id,
        "subject_request_type": "erasure",
        "submitted_time": "2026-01-02T15:00:00Z",
        "subject_identities": [{"identity_type": "email", "identity_value": canary, "identity_format": "raw"}],
        "extensions": {"erasable.example": {"note": canary}},
    }
    said = [http.post("/v2/requests", json=body).text]
    said += [http.post("/v2/requests", json={**body, "subject_request_type": canary}).text]
    said += [http.post("/v2/models/named/infer", json={"inputs": [[canary]]}).text]
    said += [http.get(f"/v2/models/{canary}").text, http.get(f"/v1/receipts/{canary}").text]
    said += [site.plain.get("/v1/state", headers={"Authorization": f"Bearer {canary}"}).text]
    until(lambda: http.get(f"/v1/receipts/{request_id}").status_code == 200)
    logged = "\n".join(
        record.getMessage() + str(record.exc_info) for record in caplog.records if record.name[:8] == "erasable"
    )
    assert logged
    for secret in (canary, *site.tokens.values()):
        assert secret not in logged
    assert all(canary not in text for text in said[1:])
    assert canary not in http.get("/metrics").text
    for file in site.configuration.folder.rglob("*"):
        assert not file.is_file() or canary.encode() not in file.read_bytes()


def test_a_token_asks_at_its_rate():
    now = 0.0
    rates = Rates(2.0, 3, lambda: now)
    assert [rates.take("a") for _ in range(4)] == [0, 0, 0, 0.5]
    assert rates.take("b") == 0
    now = 0.5
    assert [rates.take("a"), rates.take("a")] == [0, 0.5]


def test_the_description_matches_the_service(site):
    schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")
    from hypothesis import HealthCheck, Phase, given, settings

    described = site.as_("all").get("/openapi.json").json()
    headers = {"Authorization": f"Bearer {site.tokens['all']}"}
    schema = schemathesis.openapi.from_dict(described)
    schema.config.update(base_url=site.base, request_timeout=PATIENCE)
    checks = [
        schemathesis.checks.not_a_server_error,
        schemathesis.specs.openapi.checks.status_code_conformance,
        schemathesis.specs.openapi.checks.response_schema_conformance,
        schemathesis.specs.openapi.checks.content_type_conformance,
    ]
    tried = 0
    for found in schema.get_all_operations():
        operation = found.ok()

        @given(case=operation.as_strategy())
        @settings(
            max_examples=10,
            deadline=None,
            derandomize=True,
            database=None,
            phases=[Phase.explicit, Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        def attack(case):
            case.call_and_validate(headers=headers, checks=checks)

        attack()
        tried += 1
    assert tried >= 18


@pytest.mark.parametrize("twice", ['"label": "no", ', '"a": 2.0, '])
def test_a_row_with_a_key_twice_is_refused(site, twice):
    assert learn(site, lines(0, 1).replace("{", "{" + twice)).status_code == 400


def test_a_text_is_no_number_to_learn(site):
    assert learn(site, re.sub(r'"a": [^,]+', '"a": "1.5"', lines(0, 3))).status_code == 400


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl is installed here")
def test_the_line_of_the_page_waits_for_the_receipt(site, tmp_path):
    page = (Path(__file__).parents[3] / "docs" / "service.md").read_text()
    (line,) = (line.strip() for line in page.splitlines() if "-o receipt.json" in line)
    line, request_id = line.replace("localhost:8080", site.base), str(uuid.uuid4())
    who = site.service.identity("email", "raw", "nobody@example.org")
    with site.service.worker.changing():  # nothing is committed meanwhile
        site.service.accept(request_id, "erasure", [who], b"body", controller="all")
        environment = {**os.environ, "id": request_id, "officer": site.tokens["all"]}
        waiting = subprocess.Popen(["bash", "-c", line], cwd=tmp_path, env=environment)
        until(lambda: (tmp_path / "receipt.json").exists() or waiting.poll() is not None)
        assert waiting.poll() is None
    assert waiting.wait(PATIENCE) == 0
    receipt = check_receipt((tmp_path / "receipt.json").read_text(), site.service.receipt_key)
    assert receipt.request_id == request_id


def test_settled_requests_can_be_purged(site):
    http, request_id = site.as_("all"), str(uuid.uuid4())
    who = site.service.identity("email", "raw", "nobody@example.org")
    site.service.accept(request_id, "erasure", [who], b"body")
    until(lambda: http.get(f"/v1/receipts/{request_id}").status_code == 200)
    assert http.post("/v1/purge", params={"before": "2000-01-01T00:00:00Z"}).json() == {"purged": 0}
    assert http.get("/v1/purges").json() == []
    for wrong in ("2000-01-01", "2999-01-01T00:00:00Z", "9999999999"):
        assert http.post("/v1/purge", params={"before": wrong}).status_code == 400
    now = {"before": datetime.now(UTC).isoformat()}
    for who in ("erase", "audit", "learn", "predict"):
        assert site.as_(who).post("/v1/purge", params=now).status_code == 403
    assert http.get(f"/v2/requests/{request_id}").status_code == 200
    gone = http.post("/v1/purge", params=now).json()["purged"]
    assert gone >= 1
    assert http.get(f"/v2/requests/{request_id}").status_code == 404
    for who in ("audit", "purge"):
        (tombstone,) = site.as_(who).get("/v1/purges").json()
        told = check_tombstone(json.dumps(tombstone), site.service.receipt_key)
        assert (told["purgedBy"], told["requests"]) == ("all", gone)
    assert site.as_("erase").get("/v1/purges").status_code == 403


def test_a_model_with_a_schema_has_as_many_features_as_the_schema_makes(tmp_path):
    raw, schema = table(), draft()
    labels = raw.column("outcome").to_pylist()
    ErasableClassifier(feature_map=TableEncoder(schema)).fit(raw, labels).save(tmp_path / "raw.erasable")
    model = load(tmp_path / "raw.erasable").model_
    site = SimpleNamespace(files={"raw": tmp_path / "raw.erasable"})
    site.service = SimpleNamespace(
        snapshot=lambda name: SimpleNamespace(model=model, version="1"),
        verification=lambda name: None,
        digest=lambda name: "0" * 64,
    )
    assert model_state(site, "raw").features == schema.n_features_out


@pytest.mark.parametrize(
    ("method", "path", "status", "form"),
    [
        ("GET", "/nowhere", 404, "application/problem+json"),
        ("GET", "/v2/nowhere", 404, "application/json"),
        ("GET", "/v1/learn", 405, "application/problem+json"),
        ("DELETE", "/v1/state", 405, "application/problem+json"),
    ],
)
def test_addresses_that_lead_nowhere_are_answered_in_the_form_of_their_neighbours(site, method, path, status, form):
    answer = site.plain.request(method, path)
    assert (answer.status_code, answer.headers["content-type"]) == (status, form)
    assert {"detail", "error"} & answer.json().keys()


def test_parts_of_a_body_are_put_together_to_such_as_cross_by_themselves(site, monkeypatch):
    body, crossed = lines(0, n=2, people="parts@example.org").encode(), []
    read = site.service.read

    def watched(function, kind, packed, *given, **options):
        crossed.append([len(part) for part in packed._parts])
        assert options["memory"] == 2**31 + 16 * site.configuration.body_bytes
        return read(function, kind, packed, *given, **options)

    monkeypatch.setattr(site.service, "read", watched)
    blank = b" \n" * 40_000
    parts = [blank[at : at + 1000] for at in range(0, len(blank), 1000)] + [body]
    answer = site.as_("learn").post(
        "/v1/learn?model=named&id=key&subject=who&skip_known=true",
        content=iter(parts),
        headers={"Content-Type": "application/jsonl"},
    )
    assert answer.status_code == 200, answer.text
    assert sum(crossed[0]) == len(blank) + len(body)
    assert all(size >= 2**16 for size in crossed[0][:-1])
