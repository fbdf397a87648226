"""Batches over HTTP, the body that is read as it arrives, and the audit trail."""

from __future__ import annotations

import json
import uuid

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from erasable.audit.receipts import check_receipt
from erasable.core.names import REFERENCE_PATTERN
from erasable.service.http.erasures import Lines, Object
from erasable.service.http.problems import Refused
from erasable.service.requests import MOST_IDENTITIES
from tests.service.http.conftest import PEOPLE
from tests.waiting import until


def fed(reader, body, sizes):
    """A reader that was given a body in pieces of these sizes."""
    at = 0
    for size in sizes:
        reader.feed(body[at : at + size])
        at += size
    reader.feed(body[at:], last=True)
    return reader


identity = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20)
sizes = st.lists(st.integers(0, 9), max_size=40)


@given(identities=st.lists(identity), type=st.none() | identity, ascii=st.booleans(), sizes=sizes, indent=st.booleans())
def test_json_is_read_in_pieces_as_json_reads_it_at_once(identities, type, ascii, sizes, indent):
    value = {"identity_type": type, "identities": identities, "reference": "r"}
    body = json.dumps(value, ensure_ascii=ascii, indent=1 if indent else None).encode()
    reader = fed(Object(), body, sizes)
    assert reader.identities == identities
    assert {**reader.fields, "identities": None} == {"identity_type": type, "identities": None, "reference": "r"}


@given(text=st.text(st.sampled_from('{}[]:,"\\ nul0idetsxa\n'), max_size=30), sizes=sizes, whole=st.booleans())
def test_what_is_no_such_object_is_refused_and_nothing_else_is(text, sizes, whole):
    text = f'{{"identities": ["a", {text}]}}' if whole else text
    try:
        value = json.loads(text)
        fits = (
            isinstance(value, dict)
            and value.keys() == {"identities"}
            and isinstance(value["identities"], list)
            and all(isinstance(who, str) for who in value["identities"])
            and text.count("identities") == 1
        )
    except ValueError:
        fits = False
    if fits:
        assert fed(Object(), text.encode(), sizes).identities == value["identities"]
    else:
        with pytest.raises(Refused, match="not a JSON object"):
            fed(Object(), text.encode(), sizes)


@given(lines=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n\r\ufeff"))), sizes=sizes)
@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_lines_are_read_in_pieces_as_they_are_split_at_once(lines, sizes, end, mark):
    assert fed(Lines(), (mark + end.join(lines)).encode(), sizes).identities == [line for line in lines if line]


def test_bodies_that_are_too_long_or_no_text_are_refused():
    many = ["x"] * (MOST_IDENTITIES + 1)
    for reader, body in ((Object(), json.dumps({"identities": many}).encode()), (Lines(), "\n".join(many).encode())):
        with pytest.raises(Refused) as refused:
            reader.feed(body, last=True)
        assert refused.value.status == 413
    for reader, body in ((Object(), b'{"identities": ["'), (Lines(), b"")):
        with pytest.raises(Refused) as refused:
            reader.feed(body + b"x" * 30_000)
        assert refused.value.status == 400
    for reader in (Object(), Lines()):
        with pytest.raises(Refused):
            reader.feed(b"\xff", last=True)
    for body in (
        b'{"identities": ["a"], "identities": ["b"]}',
        b'{"reference": [, "identities": ["a"]}',
        b'{"identities": null}',
    ):
        with pytest.raises(Refused, match="not a JSON object"):
            fed(Object(), body, ())


def stored(site, who):
    """Whether somebody is stored in any model."""
    named = [site.service.identity("email", "raw", who)]
    return any(rows.rows for rows in site.service.look_up(named).values())


def filed(client, identities, **more):
    return client.post("/v1/erasures", json={"identities": identities, "identity_type": "email"} | more)


def test_a_batch_is_one_request_with_one_receipt_for_each_model(site):
    erase, audit = site.as_("erase"), site.as_("audit")
    answer = filed(erase, [*PEOPLE[:3], "nobody@example.org"], reference="march-1", received="2026-01-31")
    assert answer.status_code == 202
    batch = answer.json()
    assert (batch["identities"], batch["reference"], batch["due"]) == (4, "march-1", "2026-02-28")
    assert batch["status_url"] == f"https://erasable.example/v1/erasures/{batch['batch']}"
    address = f"/v1/erasures/{batch['batch']}"
    found = until(lambda: (now := audit.get(address).json())["receipts"] and now)
    assert (found["state"], [one["model"] for one in found["receipts"]]) == ("completed", ["credit", "named"])
    for one in found["receipts"]:
        receipt = check_receipt(json.dumps(one["receipt"]), site.service.receipt_key)
        assert (receipt.request_id, receipt.asked.identities) == (batch["batch"], 4)
    assert not any(stored(site, who) for who in PEOPLE[:3])
    assert erase.get(address).json() == found | {"receipts": None}  # without the scope, nothing else differs
    assert site.as_("all").get(address).json()["receipts"] == found["receipts"]
    assert site.as_("predict").get(address).status_code == 403
    assert site.as_("learn").post("/v1/erasures", json={}).status_code == 403
    listed = erase.get("/v1/requests", params={"q": "march"}).json()
    assert [(one["request_id"], one["arrived"]) for one in listed] == [(batch["batch"], "2026-01-31")]


def test_a_reference_with_spaces_is_taken_and_its_form_is_described(site):
    client = site.as_("erase")
    batch = filed(client, ["nobody@example.org"], reference="case 7, '<b>'").json()
    assert (batch["reference"], batch["warning"]) == ("case 7, '<b>'", None)
    assert "a name" in filed(client, ["nobody@example.org"], reference="Ann Lee").json()["warning"]
    described = client.get("/openapi.json").json()["paths"]["/v1/erasures"]["post"]
    (parameter,) = (one["schema"] for one in described["parameters"] if one["name"] == "reference")
    body = described["requestBody"]["content"]["application/json"]["schema"]["properties"]["reference"]
    for schema in (parameter, body):
        assert (schema["pattern"], schema["maxLength"]) == (REFERENCE_PATTERN, 64)


def test_lines_of_text_and_an_idempotency_key(site):
    client = site.as_("erase")

    def post(key, body=f"{PEOPLE[3]}\r\n\n{PEOPLE[4]}\n", **params):
        headers = {"Content-Type": "text/plain; charset=utf-8"} | ({"Idempotency-Key": key} if key else {})
        params = {"identity_type": "email", "reference": "lines"} | params
        return client.post("/v1/erasures", content=body.encode(), headers=headers, params=params)

    first = post("a key").json()
    assert first["identities"] == 2
    assert post("a key").json()["batch"] == first["batch"]
    for other in (post("a key", PEOPLE[3]), post("a key", reference="other")):
        assert (other.status_code, other.json()["title"]) == (409, "Conflict")
    assert uuid.UUID(first["batch"]).version == 4
    assert len({post(key, "nobody").json()["batch"] for key in ("b", "c", None, None)}) == 4
    assert site.as_("all").post(
        "/v1/erasures", json={"identities": ["nobody"], "identity_type": "email"}, headers={"Idempotency-Key": "a key"}
    ).json()["batch"] != first["batch"]  # another controller's key is another key  # fmt: skip


def test_a_batch_is_accepted_as_a_whole_or_not_at_all(site):
    client = site.as_("erase")
    before = site.service.ledger.counts().total
    wrong = [
        filed(client, [PEOPLE[5], " canary-with-a-space"]),
        filed(client, []),
        filed(client, [PEOPLE[5], ""]),
        filed(client, [PEOPLE[5]], identity_type="shoe size"),
        filed(client, [PEOPLE[5]], reference="not\ta reference"),
        filed(client, [PEOPLE[5]], received="yesterday"),
        filed(client, [PEOPLE[5]], received="2999-01-01"),
        filed(client, [PEOPLE[5]], more="x"),
        client.post("/v1/erasures", json={"identities": [PEOPLE[5]]}),  # which of two types it is, is not said
        client.post("/v1/erasures", json=[PEOPLE[5]]),
    ]
    assert [answer.status_code for answer in wrong] == [400] * len(wrong)
    assert "identity 2 of 2" in wrong[0].json()["detail"]
    assert not any("canary" in answer.text or PEOPLE[5] in answer.text for answer in wrong)
    assert client.post("/v1/erasures", content=b"x", headers={"Content-Type": "image/png"}).status_code == 415
    assert (
        client.post("/v1/erasures", content=b"x\n" * 2**20, headers={"Content-Type": "text/plain"}).status_code == 413
    )
    assert site.service.ledger.counts().total == before
    assert stored(site, PEOPLE[5])


def test_a_batch_of_others_does_not_exist(site):
    batch = filed(site.as_("all"), ["nobody"]).json()["batch"]
    address = f"/v1/erasures/{batch}"
    unknown = site.as_("erase").get(f"/v1/erasures/{uuid.uuid4()}")
    assert (site.as_("erase").get(address).text, 404) == (unknown.text, unknown.status_code)
    assert site.as_("audit").get(address).status_code == 200


def test_answers_are_alike_for_stored_and_unknown_people(site):
    """Bodies and sizes, from acceptance until the batch is completed."""
    client = site.as_("erase")
    seen = []
    for person in (PEOPLE[6], "person-99@example.org"):
        assert stored(site, person) == (person == PEOPLE[6])
        answers = [filed(client, [person], reference="alike")]
        batch = answers[0].json()["batch"]
        answers.append(until(lambda b=batch: (a := client.get(f"/v1/erasures/{b}")).json()["settled"] and a))
        hidden = ("batch", "status_url", "received", "expected", "settled")
        seen.append([(a.status_code, {k: v for k, v in a.json().items() if k not in hidden}) for a in answers])
        seen[-1] += [len(answers[0].content), [*answers[0].json()]]
    assert seen[0] == seen[1]


def test_the_trail_shows_what_tokens_did_to_auditors_alone(site):
    audit = site.as_("audit")
    batch = filed(site.as_("erase"), ["canary-person@example.org"]).json()["batch"]
    until(lambda: audit.get(f"/v1/erasures/{batch}").json()["receipts"])
    for model in ("credit", "named"):
        assert audit.get(f"/v1/receipts/{batch}/{model}").status_code == 200
    assert audit.get(f"/v1/receipts/{batch}").status_code == 200
    audit.post("/v1/verify", params={"model": "named"})
    events = audit.get("/v1/trail", params={"request_id": batch}).json()
    assert [(e["what"], e["by"], e["model"]) for e in events] == [
        ("download", "audit", ""),
        ("download", "audit", "named"),
        ("download", "audit", "credit"),
        ("download", "audit", ""),
        ("request", "erase", ""),
    ]
    everything = audit.get("/v1/trail", params={"by": "audit", "limit": 2}).json()
    assert [(e["what"], e["model"]) for e in everything] == [("export", ""), ("export", "")]
    assert [e["model"] for e in audit.get("/v1/trail", params={"what": "verification"}).json()] == ["named"]
    whole = audit.get("/v1/trail").text
    assert "canary" not in whole
    for scope in ("erase", "predict", "learn", "purge"):
        assert site.as_(scope).get("/v1/trail").status_code == 403


def test_a_client_that_goes_away_in_the_middle_files_nothing(site):
    before = site.service.ledger.counts().total

    def body():
        yield b'{"identity_type": "email", "identities": ["nobody@example.org"'
        raise httpx.WriteError("gone")

    with pytest.raises(httpx.HTTPError):
        site.as_("erase").post("/v1/erasures", content=body(), headers={"Content-Type": "application/json"})
    assert filed(site.as_("erase"), ["nobody"]).status_code == 202
    assert site.service.ledger.counts().total == before + 1
