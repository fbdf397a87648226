"""OpenDSR 2.0: requests for erasure or access, as privacy programs send them.

Source: the frozen specification ``opengdpr/OpenDSR``. Where it contradicts itself:

- It requires ``processor_signature`` inside the body that it signs, and its own examples leave it out. So do we: the
  signature is in the header, over the raw bytes of the body.
- ``regulation`` is required in the text and absent in its example: it is optional here.
- Errors "must" be 400. Two are told apart where a client has to act otherwise: 409, an id that was used with another
  body or a request that can no longer be cancelled, and 429, too many waiting; and 401, 403, 404, 413, 503 as usual.
- ``results_count`` is never given: it would say whether somebody was in the core set.
- It does not say who owns a request: here the controller that filed it (``controller_id``, the name of the token). For
  others no request of this id exists, and they may use the id for one of their own.
- It has no field for what a request was understood as: ``asked`` describes its identities roughly, and names nobody.
"""

from __future__ import annotations

import base64
import json
import os
import re
from contextlib import suppress
from datetime import UTC, date, datetime
from pathlib import Path as FilePath
from typing import Annotated, Any, Literal

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.serialization import load_pem_private_key
from cryptography.x509.oid import NameOID
from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from erasable.core.names import FORMATS
from erasable.errors import ConfigurationError
from erasable.service.http.configuration import Configuration
from erasable.service.http.envelope import caller_of, direct
from erasable.service.http.problems import Refused
from erasable.service.http.site import Eraser, Site, TheSite, needs, read_json, site_of
from erasable.service.requests import Entry, State

VERSION = "2.0"
_LONGEST_BODY = 2**22  # a thousand of the longest identities, and as much again
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
RequestId = Annotated[str, Path(pattern=_UUID, description="UUID v4 in lower case.")]
#: As RFC 3339 writes it, from 1970 on: pydantic by itself takes a number for seconds since then, also as a text.
_MOMENT = r"(?:19[7-9]|2[0-9]{2})[0-9]-[0-9]{2}-[0-9]{2}[Tt][0-9:]{8}(?:\.[0-9]{1,9})?(?:[Zz]|[+-][0-9]{2}:[0-9]{2})"


def _written_as(pattern: str) -> BeforeValidator:
    def check(value: object) -> object:
        if not (isinstance(value, str) and re.fullmatch(pattern, value)):
            raise ValueError
        return value

    return BeforeValidator(check)


Moment = Annotated[AwareDatetime, _written_as(_MOMENT)]
Day = Annotated[date, _written_as("[0-9]{4}-[0-9]{2}-[0-9]{2}")]
Name = Annotated[str | None, Query(max_length=200)]


class Identity(BaseModel):
    """Section 5.3."""

    identity_type: str = Field(max_length=64)
    identity_value: str = Field(min_length=1, max_length=1024)
    identity_format: Literal["raw", "sha256", "sha1", "md5"]


class DataSubjectRequest(BaseModel):
    """Section 7.1.1; unknown fields are ignored."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    regulation: Literal["gdpr", "ccpa"] | None = None
    subject_request_id: str = Field(pattern=_UUID)
    subject_request_type: Literal["erasure", "access"]
    subject_identities: list[Identity] = Field(min_length=1, max_length=1000)
    submitted_time: Moment
    api_version: str | None = Field(default=None, max_length=16)
    status_callback_urls: list[Annotated[str, Field(max_length=2048)]] = Field(default=[], max_length=16)
    extensions: dict[str, Any] | None = None


class Accepted(BaseModel):
    """Section 7.3, and the shape of the request: ``asked``."""

    controller_id: str
    expected_completion_time: str
    received_time: str
    encoded_request: str
    subject_request_id: str
    asked: str


class Status(BaseModel):
    """Section 8.3, and the shape of the request: ``asked``."""

    controller_id: str
    expected_completion_time: str
    subject_request_id: str
    request_status: Literal["pending", "in_progress", "completed", "cancelled"]
    api_version: str
    asked: str | None = None
    results_url: str | None = None


class Cancelled(BaseModel):
    """Section 9.2."""

    controller_id: str
    received_time: str
    subject_request_id: str
    api_version: str


class _Detail(BaseModel):
    domain: str
    reason: str
    message: str


class _Error(BaseModel):
    code: int
    message: str
    errors: list[_Detail]


class ErrorBody(BaseModel):
    """Section 7.6."""

    error: _Error


class _Pem(Response):
    media_type = "application/x-pem-file"


_ERRORS: dict[int | str, Any] = {
    code: {"model": ErrorBody, "description": text}
    for code, text in {
        400: "The request cannot be used.",
        401: "No valid token.",
        403: "The token lacks the scope.",
        404: "No such request.",
        409: "The id was used with another body, or the request can no longer be cancelled.",
        413: "The body is too long.",
        421: "The service does not answer for this host.",
        429: "Too many requests, or too many waiting.",
        503: "The disk of the service is full or failing.",
        504: "Not answered in time.",
    }.items()
}

router = APIRouter(prefix="/v2", tags=["OpenDSR"])


class Signer:
    """Signs bodies with RSA (PKCS #1 v1.5, SHA-256). Receipts are signed with another key: Ed25519.

    Raises ConfigurationError when they cannot be read, do not belong together, or the key is no RSA key of 2,048 bits
    or more.

    Parameters
    ----------
    certificate, key : str or path
        PEM files: the certificate, followed by its chain, and its private key.
    """

    def __init__(self, certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> None:
        try:
            self.certificate = FilePath(certificate).read_bytes()
            self._certificate = x509.load_pem_x509_certificate(self.certificate)
            private = load_pem_private_key(FilePath(key).read_bytes(), None)
        except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
            raise ConfigurationError(
                f"the certificate and key of OpenDSR cannot be read ({type(error).__name__}): PEM files are required, "
                "the key not encrypted."
            ) from error
        if not isinstance(private, rsa.RSAPrivateKey) or private.key_size < 2048:
            raise ConfigurationError("OpenDSR answers are signed with RSA: a key of 2,048 bits or more is required.")
        public = self._certificate.public_key()
        if not isinstance(public, rsa.RSAPublicKey) or public.public_numbers() != private.public_key().public_numbers():
            raise ConfigurationError(
                "the OpenDSR certificate is not that of the key: give the two that belong together."
            )
        self._private = private

    def is_issued_to(self, domain: str) -> bool:
        """Whether the certificate names a domain, also by a wildcard for its first label."""
        names = {str(name.value) for name in self._certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)}
        with suppress(x509.ExtensionNotFound):
            others = self._certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
            names.update(others.get_values_for_type(x509.DNSName))
        return not names.isdisjoint({domain, f"*.{domain.partition('.')[2]}"})

    def headers(self, body: bytes, domain: str) -> dict[str, str]:
        """The headers of a signed answer or callback."""
        signature = base64.b64encode(self._private.sign(body, padding.PKCS1v15(), hashes.SHA256())).decode()
        return {"X-OpenDSR-Processor-Domain": domain, "X-OpenDSR-Signature": signature}


def as_error(request: Request, refused: Refused) -> Response:
    """An error in the form of section 7.6."""
    detail = _Detail(domain="OpenDSR", reason=f"Status{refused.status}", message=refused.detail)
    body = ErrorBody(error=_Error(code=refused.status, message=refused.detail, errors=[detail]))
    headers = {**refused.headers, "Pragma": "no-cache"}
    return Response(body.model_dump_json(), refused.status, headers, media_type="application/json")


def rfc3339(time: datetime) -> str:
    """A time in UTC, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read_day(text: str, name: str) -> date:
    """A day of a form or a body; ``Refused`` if it is not written as in RFC 3339."""
    try:
        if re.fullmatch("[0-9]{4}-[0-9]{2}-[0-9]{2}", text):
            return date.fromisoformat(text)
    except ValueError:
        pass
    raise Refused(400, f"{name} must be a day, such as 2026-01-31.")


def status_of(entry: Entry, url: str) -> dict[str, Any]:
    """The body that reports the state of a request."""
    body = {
        "controller_id": entry.controller,
        "expected_completion_time": rfc3339(entry.expected),
        "subject_request_id": entry.request_id,
        "request_status": entry.state.value,
        "api_version": VERSION,
    }
    if entry.asked is not None:
        body["asked"] = str(entry.asked)
    if entry.state is State.COMPLETED:
        body["results_url"] = f"{url}/v1/{'receipts' if entry.kind == 'erasure' else 'access'}/{entry.request_id}"
    return body


def signed(site: Site, content: dict[str, Any], status: int) -> Response:
    """An answer with its signature."""
    body = json.dumps(content, separators=(",", ":")).encode()
    headers = site.signer.headers(body, site.configuration.processor_domain)
    return Response(body, status, headers, media_type="application/json")


def discovery_of(configuration: Configuration) -> dict[str, Any]:
    """What is supported."""
    types = sorted(configuration.service.identity_types)
    identities = [{"identity_type": kind, "identity_format": form} for kind in types for form in FORMATS]
    return {
        "api_version": VERSION,
        "supported_identities": identities,
        "supported_subject_request_types": ["erasure", "access"],
        "processor_certificate": f"{configuration.url}/v2/certificate",
    }


@router.get("/discovery")
async def discovery(request: Request) -> Response:
    """What is supported: no token is needed."""
    found: Response = request.app.state.discovery  # signed once: anybody may ask, and a signature takes a millisecond
    return Response(found.body, 200, dict(found.headers))


@router.get("/certificate", response_class=_Pem)
async def certificate(site: TheSite) -> _Pem:
    """The certificate that answers and callbacks are signed with: no token is needed."""
    return _Pem(site.signer.certificate)


@router.get("/status", responses=_ERRORS)
def ready(site: TheSite, caller: Eraser) -> Response:
    """Whether requests are accepted."""
    state = "ready" if site.service.health().ready else "not ready"
    return signed(site, {"api_version": VERSION, "status": state}, 200)


async def receive(request: Request) -> Response:
    """Accept a request: it is durable when this is answered. The same request again gives the same answer."""
    body, site = await request.body(), site_of(request)
    if len(body) > _LONGEST_BODY:
        raise Refused(413, f"a request may have {_LONGEST_BODY:,} bytes.")
    read_json(body)
    asked = DataSubjectRequest.model_validate_json(body)
    identities = [
        site.service.identity(one.identity_type, one.identity_format, one.identity_value)
        for one in asked.subject_identities
    ]
    given = asked.subject_request_id, asked.subject_request_type, identities, body, asked.status_callback_urls

    def accept() -> Response:  # signed in the thread that waits for the disk, so that no prediction waits for it
        entry = site.service.accept(*given, caller_of(request).name)
        answer = {
            "controller_id": entry.controller,
            "expected_completion_time": rfc3339(entry.expected),
            "received_time": rfc3339(entry.received),
            "encoded_request": base64.b64encode(body).decode(),  # required by section 7.3; it is kept nowhere
            "subject_request_id": entry.request_id,
            "asked": str(entry.asked),
        }
        return signed(site, answer, 201)

    return await run_in_threadpool(accept)


@router.get("/requests/{request_id}", response_model=Status, responses=_ERRORS)
async def status(request_id: RequestId, site: TheSite, caller: Eraser, controller: Name = None) -> Response:
    """The state of a request of the caller's. ``results_url`` leads to the receipt, for tokens that may audit.

    These see the requests of others too; ``controller`` says whose, if several have filed a request of this id.
    """
    entry = site.service.ledger.entry(request_id, *caller.looks_for(controller))
    return signed(site, status_of(entry, site.configuration.url), 200)


@router.delete("/requests/{request_id}", status_code=202, response_model=Cancelled, responses=_ERRORS)
async def cancel(request_id: RequestId, site: TheSite, caller: Eraser, controller: Name = None) -> Response:
    """Cancel a request of the caller's, while it is pending; ``controller`` as for its state."""
    entry = await run_in_threadpool(site.service.ledger.cancel, request_id, *caller.looks_for(controller), caller.name)
    assert entry.settled is not None
    answer = {
        "controller_id": entry.controller,
        "received_time": rfc3339(entry.settled),
        "subject_request_id": entry.request_id,
        "api_version": VERSION,
    }
    return signed(site, answer, 202)


def add_routes(app: FastAPI) -> None:
    """Serve the protocol."""
    schema = DataSubjectRequest.model_json_schema()
    schema["properties"]["subject_identities"]["items"] = schema.pop("$defs")["Identity"]
    app.router.add_api_route(
        "/v2/requests", receive, methods=["POST"], tags=["OpenDSR"], dependencies=[Depends(needs("erase"))],
        status_code=201, response_model=Accepted, responses=_ERRORS, route_class_override=direct("erase"),
        openapi_extra={"requestBody": {"required": True, "content": {"application/json": {"schema": schema}}}},
    )  # fmt: skip
    app.include_router(router)
    site: Site = app.state.site
    app.state.discovery = signed(site, discovery_of(site.configuration), 200)
