"""OpenDSR 2.0: requests of people to be erased, or to see what is stored, as privacy programs send them.

Source: the frozen specification ``opengdpr/OpenDSR``. Where it does not agree with itself:

- It asks for ``processor_signature`` inside the body that it signs, and its own examples leave it out. So do we: the
  signature is in the header, over the raw bytes of the body.
- ``regulation`` is required in the text, absent in its example and unknown to version 1: it is optional here.
- Errors "must" be 400. Two are told apart where a client has to act otherwise: 409, an id that was used with another
  body or a request that can no longer be cancelled, and 429, too many waiting; and 401, 403, 404, 413, 503 as usual.
- ``results_count`` is never given: it would say whether somebody was in the core set.
- Whose a request is, it does not say: that of the controller that filed it (``controller_id``, the name of the token).
  For others there is none of this id, and they may use it for one of their own.
- It has no field for what a request was understood as: ``asked`` describes its identities roughly, and names nobody.
- Version 1 (OpenGDPR) has its routes, ``/v1/opengdpr_requests``, and its headers, beside those of version 2.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Collection
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, FastAPI, Path, Query, Request, Response
from pydantic import AwareDatetime, BaseModel, ConfigDict, Field
from starlette.concurrency import run_in_threadpool

from erasable.core.names import FORMATS
from erasable.service.entries import Entry, State
from erasable.service.http.guard import Guard, caller_of
from erasable.service.http.problems import Refused
from erasable.service.http.signing import Signer
from erasable.service.http.tables import unique_keys
from erasable.service.service import ErasureService
from erasable.service.tokens import Token

VERSION = "2.0"
_LONGEST_BODY = 2**22  # a thousand of the longest identities, and as much again
_UUID = r"^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$"
RequestId = Annotated[str, Path(pattern=_UUID, description="UUID v4 in lower case.")]
Name = Annotated[str | None, Query(max_length=200)]


class Identity(BaseModel):
    """Section 5.3."""

    identity_type: str = Field(max_length=64)
    identity_value: str = Field(min_length=1, max_length=1024)
    identity_format: Literal["raw", "sha256", "sha1", "md5"]


class DataSubjectRequest(BaseModel):
    """Section 7.1.1; fields that are not known are passed over."""

    model_config = ConfigDict(extra="ignore", hide_input_in_errors=True)

    regulation: Literal["gdpr", "ccpa"] | None = None
    subject_request_id: str = Field(pattern=_UUID)
    subject_request_type: Literal["erasure", "access"]
    subject_identities: list[Identity] = Field(min_length=1, max_length=1000)
    submitted_time: AwareDatetime
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


class _Pem(Response):
    media_type = "application/x-pem-file"


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


_ERRORS: dict[int | str, Any] = {
    code: {"model": ErrorBody, "description": text}
    for code, text in {
        400: "The request cannot be used.",
        401: "No valid token.",
        403: "The token lacks the scope.",
        404: "No such request.",
        409: "The id was used with another body, or the request can no longer be cancelled.",
        413: "The body is too long.",
        429: "Too many requests, or too many waiting.",
        503: "The disk of the service is full or failing.",
        504: "Not answered in time.",
    }.items()
}


def as_error(request: Request, refused: Refused) -> Response:
    """An error in the form of section 7.6."""
    detail = _Detail(domain="OpenDSR", reason=f"Status{refused.status}", message=refused.detail)
    body = ErrorBody(error=_Error(code=refused.status, message=refused.detail, errors=[detail]))
    headers = {**refused.headers, "Pragma": "no-cache"}
    return Response(body.model_dump_json(), refused.status, headers, media_type="application/json")


def moment(time: datetime) -> str:
    """RFC 3339 in UTC, in whole seconds."""
    return time.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def status_of(entry: Entry, url: str) -> dict[str, Any]:
    """The body that says how a request stands."""
    body = {
        "controller_id": entry.controller,
        "expected_completion_time": moment(entry.expected),
        "subject_request_id": entry.request_id,
        "request_status": entry.state.value,
        "api_version": VERSION,
    }
    if entry.asked is not None:
        body["asked"] = str(entry.asked)
    if entry.state is State.COMPLETED:
        body["results_url"] = f"{url}/v1/{'receipts' if entry.kind == 'erasure' else 'access'}/{entry.request_id}"
    return body


def signed_headers(body: bytes, signer: Signer, domain: str) -> dict[str, str]:
    """What an answer or a callback carries, under the names of both versions."""
    signature = signer.signature(body)
    return {
        f"X-{name}-{what}": value
        for name in ("OpenDSR", "OpenGDPR")
        for what, value in (("Processor-Domain", domain), ("Signature", signature))
    }


def add_routes(
    app: FastAPI,
    service: ErasureService,
    guard: Guard,
    signer: Signer,
    *,
    identity_types: Collection[str],
    domain: str,
    url: str,
) -> None:
    """Serve the protocol under ``/v2``, and what version 1 called it under ``/v1``."""
    router = APIRouter(tags=["OpenDSR"])
    erasing: Any = Depends(guard.needs("erase"))
    direct = guard.direct("erase")

    def signed(content: dict[str, Any], status: int) -> Response:
        body = json.dumps(content, separators=(",", ":")).encode()
        return Response(body, status, signed_headers(body, signer, domain), media_type="application/json")

    supported = {
        "api_version": VERSION,
        "supported_identities": [
            {"identity_type": kind, "identity_format": form} for kind in sorted(identity_types) for form in FORMATS
        ],
        "supported_subject_request_types": ["erasure", "access"],
        "processor_certificate": f"{url}/v2/certificate",
    }
    discovered = signed(supported, 200)  # once: anybody may ask, and a signature costs a millisecond

    async def discovery() -> Response:
        """What is supported: no token is needed."""
        return Response(discovered.body, 200, dict(discovered.headers))

    async def certificate() -> _Pem:
        """The certificate that answers and callbacks are signed with: no token is needed."""
        return _Pem(signer.certificate)

    async def receive(request: Request) -> Response:
        """Accept a request: it is durable when this is answered. The same again gives the same answer."""
        body = await request.body()
        if len(body) > _LONGEST_BODY:
            raise Refused(413, f"a request may have {_LONGEST_BODY:,} bytes.")
        try:
            json.loads(body, object_pairs_hook=unique_keys)
        except (ValueError, RecursionError):
            raise Refused(400, "body: is not JSON, or has a key twice") from None
        asked = DataSubjectRequest.model_validate_json(body)
        identities = [
            service.identity(one.identity_type, one.identity_format, one.identity_value)
            for one in asked.subject_identities
        ]
        given = asked.subject_request_id, asked.subject_request_type, identities, body, asked.status_callback_urls

        def accepted() -> Response:  # signed in the thread that waits for the disk, so that no prediction waits for it
            entry = service.accept(*given, caller_of(request).name)
            answer = {
                "controller_id": entry.controller,
                "expected_completion_time": moment(entry.expected),
                "received_time": moment(entry.received),
                "encoded_request": base64.b64encode(body).decode(),  # owed to the caller, kept nowhere
                "subject_request_id": entry.request_id,
                "asked": str(entry.asked),
            }
            return signed(answer, 201)

        return await run_in_threadpool(accepted)

    async def status(request_id: RequestId, controller: Name = None, caller: Token = erasing) -> Response:
        """How a request of the caller's stands. ``results_url`` leads to the receipt, for those who may audit.

        They see those of others too; ``controller`` says whose, where several have filed a request of this id.
        """
        whose, others = caller.looks_for(controller)
        return signed(status_of(service.entry(request_id, whose, others=others), url), 200)

    async def cancel(request_id: RequestId, controller: Name = None, caller: Token = erasing) -> Response:
        """Cancel a request of the caller's, while it is pending; ``controller`` as for its status."""
        whose, others = caller.looks_for(controller)
        entry = await run_in_threadpool(service.cancel, request_id, whose, others=others)
        assert entry.settled is not None
        return signed(
            {
                "controller_id": entry.controller,
                "received_time": moment(entry.settled),
                "subject_request_id": entry.request_id,
                "api_version": VERSION,
            },
            202,
        )

    def all_well(caller: Token = erasing) -> Response:
        """Whether requests are taken."""
        health = service.health()
        return signed({"api_version": VERSION, "status": "ready" if health.ready else "not ready"}, 200)

    body_of = {"requestBody": {"required": True, "content": {"application/json": {"schema": _schema()}}}}
    for base, requests in (("/v2", "/requests"), ("/v1", "/opengdpr_requests")):
        for end in ("", "/"):
            shown = base == "/v2" and not end
            common: dict[str, Any] = {"include_in_schema": shown}

            def route(path: str, handler: Any, method: str, base: str = base, end: str = end, **more: Any) -> None:
                router.add_api_route(base + path + end, handler, methods=[method], **more)

            route("/discovery", discovery, "GET", **common)
            route("/certificate", certificate, "GET", response_class=_Pem, **common)
            route("/status", all_well, "GET", responses=_ERRORS, **common)
            app.router.add_api_route(
                base + requests + end, receive, methods=["POST"], tags=["OpenDSR"], dependencies=[erasing],
                status_code=201, response_model=Accepted, responses=_ERRORS, openapi_extra=body_of,
                route_class_override=direct, **common,
            )  # fmt: skip
            route(requests + "/{request_id}", status, "GET", response_model=Status, responses=_ERRORS, **common)
            route(
                requests + "/{request_id}", cancel, "DELETE",
                status_code=202, response_model=Cancelled, responses=_ERRORS, **common,
            )  # fmt: skip
    app.include_router(router)


def _schema() -> dict[str, Any]:
    schema = DataSubjectRequest.model_json_schema()
    inner = schema.pop("$defs")["Identity"]
    schema["properties"]["subject_identities"]["items"] = inner
    return schema
