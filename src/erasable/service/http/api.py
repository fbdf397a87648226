"""Routes of our own, under ``/v1``: learning, state, verification, receipts, access, purges, figures."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Callable
from datetime import datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from erasable.operations.model_file import stored_bytes
from erasable.operations.schemas import schema_of
from erasable.service.http.envelope import in_thread, waiting_of
from erasable.service.http.opendsr import Moment, Name, RequestId, rfc3339
from erasable.service.http.packs import download
from erasable.service.http.problems import Problem, Refused
from erasable.service.http.rows import JSON_LINES, columns_of, read_blocks
from erasable.service.http.site import Auditor, Site, TheSite, needs
from erasable.service.index import Query as Search
from erasable.service.processes import APART, Packed
from erasable.service.requests import Entry
from erasable.service.service import Health, Verification
from erasable.service.tokens import Token

_CELLS = 4  # times the longest body: the cells of rows to learn, at 8 bytes each
_MEMORY = 2**31, 16  # bytes, and times the longest body: what reading rows to learn may take
_METRICS = "text/plain; version=0.0.4; charset=utf-8"
_LEARNT_FROM = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for kind in (JSON_LINES, "text/csv")},
    }
}
#: Of all routes under ``/v1``.
ERRORS: dict[int | str, Any] = {
    code: {"model": Problem, "description": "A problem.", "content": {"application/problem+json": {}}}
    for code in (400, 401, 403, 404, 409, 413, 415, 421, 429, 503, 504)
}
_NOT_YET: dict[int | str, Any] = {202: {"description": "Not signed yet."}}

router = APIRouter(tags=["Service"], responses=ERRORS)
_TYPES: dict[str, type] = {"int": int, "str": str, "float": float, "bool": bool}


class Checked(BaseModel):
    """A verification, running or ended."""

    model: str
    state: Literal["running", "passed", "failed"]
    started: str
    ended: str | None
    done: int
    total: int
    digest: str | None = None
    problem: str | None = None


class ModelState(BaseModel):
    """The state of a model."""

    model: str
    version: str
    rows_stored: int
    features: int | None
    classes: int
    bytes: int
    digest: str
    verification: Checked | None


class Filed(BaseModel):
    """A request, without any identity."""

    request_id: str
    controller: str
    kind: Literal["erasure", "access"]
    state: Literal["pending", "in_progress", "completed", "cancelled"]
    received: str
    expected: str
    settled: str | None
    asked: str | None
    receipts: list[str]
    receipts_owed: int
    reference: str
    arrived: str | None
    due: str | None


class Noted(BaseModel):
    """One event of the audit trail."""

    at: str
    what: str
    by: str
    request_id: str
    model: str
    times: int


class Learnt(BaseModel):
    """The result of learning."""

    model: str
    rows: int
    rows_added: int
    rows_stored: int
    rows_known: int
    rows_suppressed: int


class Purged(BaseModel):
    """How many requests were erased from the ledger."""

    purged: int


class Receipt(BaseModel):
    """A signed receipt of one model."""

    model: str
    receipt: dict[str, Any]


@router.post("/v1/learn", dependencies=[Depends(needs("learn"))], openapi_extra=_LEARNT_FROM)
async def learn(
    request: Request,
    site: TheSite,
    model: Name = None,
    label: Name = None,
    id: Name = None,
    subject: Annotated[list[str] | None, Query(max_length=16)] = None,
    target: Annotated[list[str] | None, Query(max_length=64)] = None,
    skip_known: bool = False,
    id_type: Annotated[Literal["int", "str"] | None, Query()] = None,
    subject_type: Annotated[Literal["int", "str"] | None, Query()] = None,
    label_type: Annotated[Literal["int", "str", "float", "bool"] | None, Query()] = None,
) -> Learnt:
    """Learn rows: JSON Lines or CSV. All is read and checked before the model is touched.

    Ids, subjects and labels of CSV are texts as they are written, unless `id_type` and the like state another type.
    """
    name = site.only_model(model)
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    body = Packed(*[part async for part in _gathered(request.stream())])
    named = {"label": label_type, "id": id_type, "subject": subject_type}
    types = {role: _TYPES[name] for role, name in named.items() if name is not None}
    columns = {"label": label, "id": id, "subject": subject, "targets": target or (), "kinds": types}
    given = site, name, kind, body, columns, skip_known, waiting_of(request).check
    return await in_thread(request, _learn, *given, limiter=site.learning)


@router.get("/v1/state")
async def state(site: TheSite, caller: Auditor, model: Name = None) -> list[ModelState]:
    """The state of each model, or of one of them."""
    names = site.service.models if model is None else (site.only_model(model),)
    return [await run_in_threadpool(model_state, site, name) for name in names]


@router.post("/v1/verify", status_code=202)
async def verify(site: TheSite, caller: Auditor, model: Name = None) -> Checked:
    """Start to learn the stored rows again, from nothing, and to compare every bit; in the background."""
    name = site.only_model(model)
    await run_in_threadpool(site.service.note, "verification", caller.name, "", name)
    return checked(await run_in_threadpool(site.service.verify, name))


@router.get("/v1/verify")
async def verification(site: TheSite, caller: Auditor, model: Name = None) -> Checked:
    """The last verification, or the progress of the one that is running."""
    found = site.service.verification(site.only_model(model))
    if found is None:
        raise Refused(404, "nothing was verified since the service started: POST to this address.")
    return checked(found)


@router.get("/v1/health")
def health(site: TheSite, caller: Auditor) -> Health:
    """The state of the service in words: a full disk, say, or a file system where overwritten bytes may stay."""
    return site.service.health()


@router.get("/v1/requests")
def requests(
    site: TheSite,
    caller: Annotated[Token, Depends(needs("erase", "audit"))],
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    skip: Annotated[int, Query(ge=0, le=2**31)] = 0,
    q: Annotated[str, Query(max_length=64)] = "",
    state: Annotated[str, Query(max_length=16)] = "",
    sort: Annotated[str, Query(max_length=16)] = "",
) -> list[Filed]:
    """The last requests, the oldest of them first, without any identity; ``skip`` leaves out the newest.

    ``q`` is the beginning of a reference or of a request id. ``state`` is a state, ``open``, ``overdue`` or
    ``due_soon``. ``sort`` is ``urgent``, ``due``, ``reference``, ``settled`` or ``received``, the newest or latest
    first. Requests of others, and their receipts, are shown only to tokens that may audit.
    """
    query = Search(None if caller.audits else caller.name, q, state, sort or "received", limit=limit, skip=skip)
    entries = site.service.ledger.search(query).entries
    return [filed(entry, audits=caller.audits) for entry in (entries if sort else reversed(entries))]


@router.get("/v1/trail")
async def trail(
    site: TheSite,
    caller: Auditor,
    what: Annotated[str, Query(max_length=16)] = "",
    by: Annotated[str, Query(max_length=64)] = "",
    request_id: Annotated[str, Query(max_length=36)] = "",
    limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
    skip: Annotated[int, Query(ge=0, le=2**31)] = 0,
) -> list[Noted]:
    """The audit trail, the newest event first: what each token did, and when. It names nobody else."""
    await run_in_threadpool(site.service.note, "export", caller.name)
    found = await run_in_threadpool(site.service.ledger.trail, what, by, request_id, limit, skip)
    return [Noted(**(vars(event) | {"at": rfc3339(event.at)})) for event in found.events]


@router.get("/v1/receipts/{request_id}", responses=_NOT_YET)
async def receipts(request_id: RequestId, site: TheSite, caller: Auditor, controller: Name = None) -> list[Receipt]:
    """The signed receipts of an erasure, one for each model; 202 until all are signed.

    ``controller`` says whose, if several have filed a request of this id.
    """
    found = await run_in_threadpool(site.service.receipts, request_id, *caller.looks_for(controller))
    if found is None:
        return JSONResponse([], 202, {"Retry-After": "1"})  # type: ignore[return-value]
    await run_in_threadpool(site.service.note, "download", caller.name, request_id)
    return [Receipt(model=name, receipt=json.loads(text)) for name, text in sorted(found.items())]


@router.get("/v1/receipts/{request_id}/{model}", responses=_NOT_YET)
async def receipt(
    request_id: RequestId, model: str, site: TheSite, caller: Auditor, controller: Name = None
) -> Response:
    """One receipt as a file, for ``erasable receipt verify``."""
    found = await run_in_threadpool(site.service.receipts, request_id, *caller.looks_for(controller))
    if found is None:
        return Response(status_code=202, headers={"Retry-After": "1"})
    await run_in_threadpool(site.service.note, "download", caller.name, request_id, model if model in found else "")
    return receipt_file(found, model, request_id)


@router.get("/v1/access/{request_id}")
async def access(request_id: RequestId, site: TheSite, caller: Auditor, controller: Name = None) -> dict[str, Any]:
    """The stored rows of a person who asked, by model."""
    found = await run_in_threadpool(site.service.stored_of, request_id, *caller.looks_for(controller))
    await run_in_threadpool(site.service.note, "look-up", caller.name, request_id)
    return {name: rows.as_json() for name, rows in found.items()}


@router.post("/v1/purge")
async def purge(before: Moment, site: TheSite, caller: Annotated[Token, Depends(needs("purge"))]) -> Purged:
    """Erase requests that were settled before a time, not in the future, and owe nothing."""
    return Purged(purged=await run_in_threadpool(site.service.purge, before, caller.name))


@router.get("/v1/purges", dependencies=[Depends(needs("audit", "purge"))])
async def purges(site: TheSite) -> list[dict[str, Any]]:
    """A signed statement of every purge: when, by which token, and how many requests and receipts of which time."""
    return [json.loads(text) for text in await run_in_threadpool(site.service.ledger.tombstones)]


@router.get("/metrics", response_class=PlainTextResponse)
async def metrics(site: TheSite, caller: Auditor) -> Response:
    """Figures for Prometheus."""
    return Response(await run_in_threadpool(site.metrics.text, site.service), media_type=_METRICS)


def checked(found: Verification) -> Checked:
    """A verification for JSON."""
    passed = "passed" if found.report is not None else "failed"
    return Checked(
        model=found.model,
        state="running" if found.ended is None else passed,  # type: ignore[arg-type]
        started=rfc3339(found.started),
        ended=_maybe(found.ended),
        done=found.done,
        total=found.total,
        digest=None if found.report is None else found.report.digest,
        problem=found.problem,
    )


def filed(entry: Entry, *, audits: bool) -> Filed:
    """A request for JSON; its receipts are shown to auditors alone."""
    return Filed(
        request_id=entry.request_id,
        controller=entry.controller,
        kind=entry.kind,
        state=entry.state.value,
        received=rfc3339(entry.received),
        expected=rfc3339(entry.expected),
        settled=_maybe(entry.settled),
        asked=None if entry.asked is None else str(entry.asked),
        receipts=sorted(entry.receipts) if audits else [],
        receipts_owed=entry.receipts_owed if audits else 0,
        reference=entry.reference,
        arrived=None if entry.arrived is None else entry.arrived.isoformat(),
        due=None if entry.due is None else entry.due.isoformat(),
    )


def receipt_file(receipts: dict[str, str] | None, model: str, request_id: str) -> Response:
    """A receipt as a download, whose file name has the model and the request in it."""
    if not receipts or model not in receipts:
        raise Refused(404, "this request has no receipt of such a model, or not yet.")
    return download(receipts[model], f"receipt-{model}-{request_id}.json", "application/json")


def model_state(site: Site, name: str) -> ModelState:
    """The state of a model."""
    snapshot, found = site.service.snapshot(name), site.service.verification(name)
    model, schema = snapshot.model, schema_of(snapshot.model)
    return ModelState(
        model=name,
        version=snapshot.version,
        rows_stored=len(model.core),
        features=model.n_features if schema is None else schema.n_features_out,
        classes=len(model.classes) if model.classifies else 0,
        bytes=stored_bytes(site.files[name]),
        digest=site.service.digest(name),
        verification=None if found is None else checked(found),
    )


async def _gathered(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The parts of a body, joined to pieces that cross to another process without a copy."""
    short, size = [], 0
    async for part in parts:
        short.append(part)
        size += len(part)
        if size >= APART:
            yield b"".join(short)
            short, size = [], 0
    yield b"".join(short)


def _learn(
    site: Site,
    name: str,
    kind: str,
    body: Packed,
    columns: dict[str, Any],
    skip_known: bool,
    stop: Callable[[], None],
) -> Learnt:
    service, limits = site.service, site.configuration
    model = service.snapshot(name).model
    schema = schema_of(model)
    columns = {key: value for key, value in columns.items() if value} | {"features": model.feature_names}
    if schema is None and model.classifies:
        columns.setdefault("label", "label")
    most = _CELLS * limits.body_bytes, limits.rows
    known = {*(columns_of(model) or ()), "label"}
    memory = _MEMORY[0] + _MEMORY[1] * limits.body_bytes
    blocks = service.read(read_blocks, kind, body, schema, columns, known, *most, stop=stop, memory=memory)
    report = service.learn(name, blocks, stop=stop, skip_known=skip_known)
    return Learnt(
        model=name,
        rows=report.rows,
        rows_added=report.core_rows_added,
        rows_stored=report.core_rows,
        rows_known=report.rows_known,
        rows_suppressed=report.rows_suppressed,
    )


def _maybe(time: datetime | None) -> str | None:
    return None if time is None else rfc3339(time)
