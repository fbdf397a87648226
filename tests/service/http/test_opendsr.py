"""A controller written from the OpenDSR specification alone completes its journey."""

from __future__ import annotations

import base64
import hashlib
import json
import uuid
from urllib.parse import unquote

import pytest
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from erasable import load
from erasable.core.names import Shape
from erasable.service.http.api import receipt_file
from erasable.service.tokens import make_token, revoke_token
from tests.waiting import until


class Controller:
    """Section by section, nothing of ours."""

    def __init__(self, http):
        self.http = http
        found = http.get("/v2/discovery").json()
        assert {"api_version", "supported_identities", "supported_subject_request_types"} <= found.keys()
        self.discovered = found
        path = found["processor_certificate"].split("example", 1)[1]
        self.public = x509.load_pem_x509_certificate(http.get(path).content).public_key()

    def checked(self, answer):
        """The body, once its signature holds over the raw bytes."""
        assert answer.headers["X-OpenDSR-Processor-Domain"] == "erasable.example"
        signature = base64.b64decode(answer.headers["X-OpenDSR-Signature"])
        self.public.verify(signature, answer.content, padding.PKCS1v15(), hashes.SHA256())
        return answer.json()

    def body(self, value, kind="erasure", form="raw", type_="email", request_id=None, **more):
        return {
            "regulation": "gdpr",
            "subject_request_id": request_id or str(uuid.uuid4()),
            "subject_request_type": kind,
            "submitted_time": "2026-01-02T15:00:00Z",
            "subject_identities": [{"identity_type": type_, "identity_value": value, "identity_format": form}],
            "api_version": "2.0",
            **more,
        }

    def post(self, body):
        return self.http.post("/v2/requests", json=body)

    def status(self, request_id):
        return self.checked(self.http.get(f"/v2/requests/{request_id}"))

    def completed(self, request_id):
        until(lambda: self.status(request_id)["request_status"] == "completed")
        return self.status(request_id)


def _stored(site, model="credit"):
    clf = load(site.configuration.model_files()[model])
    return {subject for owners in clf._model.core.subjects() for subject in _owners(owners)}


def _owners(owners):
    return owners if isinstance(owners, tuple | list) else [owners]


def test_the_whole_journey_from_request_to_signed_receipt(site):
    controller = Controller(site.as_("erase"))
    person = sorted(_stored(site))[0]
    body = controller.body(person, status_callback_urls=[])
    answer = controller.post(body)
    assert answer.status_code == 201
    said = controller.checked(answer)
    assert said["subject_request_id"] == body["subject_request_id"]
    assert json.loads(base64.b64decode(said["encoded_request"])) == body
    assert said["received_time"] <= said["expected_completion_time"]

    done = controller.completed(body["subject_request_id"])
    assert person not in _stored(site)
    assert person not in _stored(site, "named")
    path = done["results_url"].removeprefix("https://erasable.example")
    assert site.as_("erase").get(path).status_code == 403  # a digest would say whether they were stored
    auditor = site.as_("audit")
    assert auditor.get(path).status_code in (200, 202)
    until(lambda: auditor.get(path).status_code == 200)
    assert {one["model"] for one in auditor.get(path).json()} == {"credit", "named"}
    one = auditor.get(f"{path}/credit")
    assert one.json()["payloadType"] == "application/vnd.in-toto+json"
    statement = json.loads(base64.b64decode(one.json()["payload"]))
    assert "stateBefore" not in statement["predicate"]
    assert (statement["predicate"]["model"], statement["predicate"]["normalisation"]) == ("credit", {})
    shape = "1 identity (raw), 17 to 32 characters: small letters, digits, other characters"
    assert said["asked"] == done["asked"] == str(Shape.read(statement["predicate"]["asked"])) == shape
    listed = next(r for r in auditor.get("/v1/requests").json() if r["request_id"] == body["subject_request_id"])
    assert listed["asked"] == shape
    assert person not in json.dumps(listed)
    names = {auditor.get(f"{path}/{model}").headers["content-disposition"] for model in ("credit", "named")}
    assert sorted(name.split('"')[1] for name in names) == [
        f"receipt-{model}-{body['subject_request_id']}.json" for model in ("credit", "named")
    ]
    assert statement["predicate"]["requestId"] == body["subject_request_id"]


@pytest.mark.parametrize("form", ["raw", "sha256", "sha1", "md5"])
def test_every_format_of_an_identity_reaches_the_person(site, form):
    controller = Controller(site.as_("erase"))
    person = sorted(_stored(site))[0]
    value = person if form == "raw" else hashlib.new(form, person.encode()).hexdigest()
    body = controller.body(value, form=form)
    assert controller.post(body).status_code == 201
    controller.completed(body["subject_request_id"])
    assert person not in _stored(site)


@pytest.mark.parametrize("value", [" lead@ex.org", "lead@ex.org ", "lead\n@ex.org", " "])
def test_names_that_are_hardly_meant_are_refused_and_lists_are_described(site, value):
    controller = Controller(site.as_("erase"))
    answer = controller.post(controller.body(value))
    assert answer.status_code == 400
    assert "lead" not in answer.text
    said = controller.checked(controller.post(controller.body(f"a, {value.split()[0] if value.strip() else 'b'}")))
    assert "separators" in said["asked"]


@pytest.mark.parametrize("model", ["a b", "a_b", "\u00e9", 'a"b', "a\nb", "\udcff"])
def test_a_receipt_is_named_after_its_model_whatever_that_is_called(model):
    header = receipt_file({model: "{}"}, model, "7").headers["Content-Disposition"]
    assert header.isascii()
    assert header.isprintable()
    assert header.startswith('attachment; filename="receipt-')
    exact = unquote(header.partition("filename*=UTF-8''")[2])
    assert exact == f"receipt-{model}-7.json".replace("\udcff", "?")


def test_slashes_at_the_end_are_accepted(site):
    http = site.as_("erase")
    controller = Controller(http)
    body = controller.body("nobody@example.org")
    assert http.post("/v2/requests/", json=body).status_code == 201
    assert http.get(f"/v2/requests/{body['subject_request_id']}/").status_code == 200
    assert http.get("/v2/discovery/").status_code == 200


def test_the_same_request_again_has_the_same_answer_and_another_body_is_a_conflict(site):
    controller = Controller(site.as_("erase"))
    body = controller.body("nobody@example.org")
    first, second = controller.post(body), controller.post(body)
    assert (first.status_code, first.content) == (second.status_code, second.content)
    controller.completed(body["subject_request_id"])
    assert controller.post(body).content == first.content
    other = controller.body("somebody@example.org", request_id=body["subject_request_id"])
    late = site.as_("erase").delete(f"/v2/requests/{body['subject_request_id']}")  # what is done cannot be cancelled
    for answer in (controller.post(other), late):
        assert answer.status_code == answer.json()["error"]["code"] == 409


@pytest.mark.parametrize(
    "change",
    [
        {"subject_request_id": "A7551968-D5D6-44B2-9831-815AC9017798"},
        {"subject_request_id": "not-a-uuid"},
        {"subject_request_type": "portability"},
        {"subject_identities": []},
        {"subject_identities": [{"identity_type": "shoe", "identity_value": "canary", "identity_format": "raw"}]},
        {"subject_identities": [{"identity_type": "email", "identity_value": "canary", "identity_format": "rot13"}]},
        {"subject_identities": [{"identity_type": "email", "identity_value": "canary", "identity_format": "sha256"}]},
        {"submitted_time": "yesterday"},
        {"status_callback_urls": ["https://canary.example/hook"]},
        {"regulation": "canary"},
    ],
    ids=lambda change: next(iter(change)) + str(len(str(change))),
)
def test_what_cannot_be_used_is_refused_in_the_words_of_the_protocol_and_quotes_nothing(site, change):
    controller = Controller(site.as_("erase"))
    body = controller.body("canary@example.org") | change
    answer = controller.post(body)
    assert answer.status_code == answer.json()["error"]["code"] == 400
    assert "canary" not in answer.text
    assert site.as_("erase").get(f"/v2/requests/{uuid.uuid4()}").status_code == 404


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"a": NaN}', b"[" * 10_000])
def test_bodies_that_are_none_are_refused(site, raw):
    answer = site.as_("erase").post("/v2/requests", content=raw)
    assert answer.status_code == 400
    assert answer.json()["error"]["errors"]


@pytest.mark.parametrize("at", ["", '"subject_identities": [{', '"extensions": {"e.example": {'])
def test_a_body_with_a_key_twice_is_refused(site, at):
    """Whoever looks at it on its way may take the first one, and the service the last."""
    controller = Controller(site.as_("erase"))
    body = controller.body("canary@example.org") | {"extensions": {"e.example": {"identity_value": "a"}}}
    text = json.dumps(body)
    key, value = ("subject_request_type", "access") if not at else ("identity_value", "canary")
    assert site.as_("erase").post("/v2/requests", content=text).status_code == 201
    doubled = text.replace(at or "{", f'{at or "{"}"{key}": "{value}", ', 1)
    assert json.loads(doubled) == body
    answer = site.as_("erase").post("/v2/requests", content=doubled)
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, 400)
    assert "twice" in answer.text
    assert "canary" not in answer.text


def test_a_body_that_is_too_long_is_refused(site):
    answer = site.as_("erase").post("/v2/requests", content=b"x" * (2**20 + 1))
    assert answer.status_code == answer.json()["error"]["code"] == 413


@pytest.mark.parametrize("who", ["predict", "learn", "audit"])
def test_only_those_who_may_erase_can_ask_for_it(site, who):
    controller = Controller(site.as_(who))
    body = controller.body("nobody@example.org")
    assert controller.post(body).status_code == 403
    assert site.plain.post("/v2/requests", json=body).status_code == 401


def test_a_changed_answer_fails_its_signature(site):
    controller = Controller(site.as_("erase"))
    answer = controller.post(controller.body("nobody@example.org"))
    signature = base64.b64decode(answer.headers["X-OpenDSR-Signature"])
    with pytest.raises(InvalidSignature):
        controller.public.verify(signature, answer.content + b" ", padding.PKCS1v15(), hashes.SHA256())


def test_access_shows_what_is_stored_to_auditors(site):
    controller = Controller(site.as_("erase"))
    person = sorted(_stored(site))[0]
    body = controller.body(person, kind="access")
    assert controller.post(body).status_code == 201
    done = controller.completed(body["subject_request_id"])
    path = done["results_url"].removeprefix("https://erasable.example")
    assert site.as_("erase").get(path).status_code == 403
    found = site.as_("audit").get(path).json()
    assert found["credit"]["rows"]
    assert person in _stored(site)


def test_controllers_see_and_cancel_their_own_requests_alone(site):
    """For others there is no such request, and whoever files one of the same id has one of their own."""
    tokens = site.configuration.folder / "tokens.json"

    def controller(name):
        site.tokens[name] = make_token(tokens, name, ["erase"])
        return Controller(site.as_(name))

    shop, bank, auditor = controller("shop"), controller("bank"), site.as_("audit")
    with site.service.worker.changing():  # nothing is committed meanwhile
        body = shop.body("somebody@example.net")
        name = body["subject_request_id"]
        address = f"/v2/requests/{name}"
        unknown = bank.http.get(f"/v2/requests/{uuid.uuid4()}")
        assert shop.post(body).status_code == 201
        for answer in (bank.http.get(address), bank.http.delete(address)):
            assert (answer.status_code, answer.content) == (404, unknown.content)
        assert bank.http.get("/v1/requests").json() == []
        assert [(one["request_id"], one["controller"]) for one in shop.http.get("/v1/requests").json()] == [
            (name, "shop")
        ]
        listed = auditor.get("/v1/requests").json()
        assert (listed[-1]["request_id"], listed[-1]["controller"]) == (name, "shop")
        assert bank.post(bank.body("another@example.net", request_id=name)).status_code == 201  # and not 409
        assert bank.checked(bank.http.get(address))["controller_id"] == "bank"
        assert bank.http.delete(address).status_code == 202
        assert shop.status(name)["request_status"] == "pending"
    assert shop.completed(name)["controller_id"] == "shop"
    assert auditor.get(f"/v1/receipts/{name}").status_code == 409
    assert auditor.get(f"/v1/receipts/{name}?controller=shop").status_code in (200, 202)
    revoke_token(tokens, "shop")
    assert shop.http.get(address).status_code == 401
    assert controller("shop").status(name)["controller_id"] == "shop"  # made anew under its name
    site.tokens["both"] = make_token(tokens, "both", ["erase", "audit"])
    assert {one["controller"] for one in site.as_("both").get("/v1/requests").json()} >= {"shop", "bank"}
    both = Controller(site.as_("both"))
    assert both.http.get(address).status_code == 409
    assert both.checked(both.http.get(f"{address}?controller=shop"))["controller_id"] == "shop"
    assert both.http.delete(f"{address}?controller=bank").status_code == 202  # it is cancelled, and stays so
    for other in (f"{address}?controller=nobody", f"/v1/receipts/{name}?controller=nobody"):
        assert both.http.get(other).status_code == 404
    assert bank.checked(bank.http.get(f"{address}?controller=shop"))["controller_id"] == "bank"
