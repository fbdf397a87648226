"""Routes of our own: learning, the state at a glance, verification, receipts, access, figures."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterable, AsyncIterator, Callable
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from anyio import CapacityLimiter
from fastapi import APIRouter, Depends, FastAPI, Query, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from pydantic import AwareDatetime, BaseModel
from starlette.concurrency import run_in_threadpool

from erasable.operations.model_file import stored_bytes
from erasable.operations.schemas import schema_of
from erasable.service.beside import APART, Parcel
from erasable.service.entries import Entry
from erasable.service.http.configuration import Configuration
from erasable.service.http.guard import Guard
from erasable.service.http.learning import ARROW, JSON_LINES, read_blocks
from erasable.service.http.metrics import CONTENT_TYPE, Metrics
from erasable.service.http.opendsr import Name, RequestId, moment
from erasable.service.http.patience import in_thread, patience_of
from erasable.service.http.problems import Problem, Refused
from erasable.service.http.tables import columns_of
from erasable.service.service import ErasureService
from erasable.service.snapshots import Snapshot
from erasable.service.tokens import Token
from erasable.service.verifications import Verification

_UNPACKED = 4  # times the longest body: what an Arrow stream may be once it is unpacked
_LEARNING = 2  # at once, one of which reads: those who wait for it take no thread from erasures

_ERRORS: dict[int | str, Any] = {
    code: {"model": Problem, "description": "A problem.", "content": {"application/problem+json": {}}}
    for code in (400, 401, 403, 404, 409, 413, 415, 429, 503, 504)
}


class Checked(BaseModel):
    """A verification, going on or over."""

    model: str
    state: Literal["running", "passed", "failed"]
    started: str
    ended: str | None
    done: int
    total: int
    digest: str | None = None
    problem: str | None = None


class ModelState(BaseModel):
    """A model at a glance."""

    model: str
    version: str
    rows_stored: int
    features: int | None
    classes: int
    bytes: int
    digest: str
    verification: Checked | None


class Filed(BaseModel):
    """A request, with nobody's identity."""

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


class Learnt(BaseModel):
    """What learning did."""

    model: str
    rows: int
    rows_added: int
    rows_stored: int
    rows_known: int
    rows_suppressed: int


class Well(BaseModel):
    """How the service is."""

    ready: bool
    problem: str | None
    doubts: list[str]
    waiting: int
    overdue: int
    receipts_owed: int
    callbacks_owed: int
    resumed: int
    anchor: str


class Purged(BaseModel):
    """How many requests were erased from the ledger."""

    purged: int


class Receipt(BaseModel):
    """A signed receipt of one model."""

    model: str
    receipt: dict[str, Any]


def checked(found: Verification) -> Checked:
    """A verification for JSON."""
    passed = "passed" if found.report is not None else "failed"
    return Checked(
        model=found.model,
        state="running" if found.ended is None else passed,  # type: ignore[arg-type]
        started=moment(found.started),
        ended=_maybe(found.ended),
        done=found.done,
        total=found.total,
        digest=None if found.report is None else found.report.digest,
        problem=found.problem,
    )


def filed(entry: Entry, *, audits: bool) -> Filed:
    """A request for JSON; which receipts there are is for those who may audit."""
    return Filed(
        request_id=entry.request_id,
        controller=entry.controller,
        kind=entry.kind,
        state=entry.state.value,
        received=moment(entry.received),
        expected=moment(entry.expected),
        settled=_maybe(entry.settled),
        asked=None if entry.asked is None else str(entry.asked),
        receipts=sorted(entry.receipts) if audits else [],
        receipts_owed=len(set(entry.models) - entry.receipts) if audits else 0,
    )


def receipt_file(model: str, request_id: str) -> dict[str, str]:
    """The header that gives a downloaded receipt a file name of its own, with the model and the request in it."""
    name = f"receipt-{model}-{request_id}.json"
    plain, exact = re.sub(r"[^A-Za-z0-9._-]", "_", name), quote(name, safe="", errors="replace")
    return {"Content-Disposition": f"attachment; filename=\"{plain}\"; filename*=UTF-8''{exact}"}


def add_routes(app: FastAPI, service: ErasureService, guard: Guard, metrics: Metrics, limits: Configuration) -> None:
    """Serve them under ``/v1``."""
    files = limits.model_files()
    learning = CapacityLimiter(_LEARNING)
    router = APIRouter(tags=["Service"], responses=_ERRORS)
    auditor: Any = Depends(guard.needs("audit"))
    auditing = [auditor]

    def one(name: str | None) -> str:
        if name is None and len(service.models) > 1:
            raise Refused(400, "several models are served: name one with ?model=.")
        return service.snapshot(name if name is not None else service.models[0]).name

    @router.post("/v1/learn", dependencies=[Depends(guard.needs("learn"))], openapi_extra=_LEARNT_FROM)
    async def learn(
        request: Request,
        model: Name = None,
        label: Name = None,
        id: Name = None,
        subject: Annotated[list[str] | None, Query(max_length=16)] = None,
        target: Annotated[list[str] | None, Query(max_length=64)] = None,
        skip_known: bool = False,
    ) -> Learnt:
        """Learn rows: JSON Lines, CSV or an Arrow stream. All is read and checked before the model is touched."""
        name = one(model)
        kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
        body = Parcel(*[part async for part in _gathered(request.stream())])
        columns = {"label": label, "id": id, "subject": subject, "targets": target or ()}
        given = service, name, kind, body, columns, skip_known, limits, patience_of(request).check
        return await in_thread(request, _learn, *given, limiter=learning)

    @router.get("/v1/state", dependencies=auditing)
    async def state(model: Name = None) -> list[ModelState]:
        """Each model at a glance, or one of them."""
        names = service.models if model is None else (one(model),)
        return [await run_in_threadpool(model_state, service, name, files[name]) for name in names]

    @router.post("/v1/verify", status_code=202, dependencies=auditing)
    async def verify(model: Name = None) -> Checked:
        """Begin to learn the stored rows again, from nothing, and to compare every bit; in the background."""
        return checked(await run_in_threadpool(service.verify, one(model)))

    @router.get("/v1/verify", dependencies=auditing)
    async def verification(model: Name = None) -> Checked:
        """The last verification, or how far the one that is going on has come."""
        found = service.verification(one(model))
        if found is None:
            raise Refused(404, "nothing was verified since the service started: POST to this address.")
        return checked(found)

    @router.get("/v1/health", dependencies=auditing)
    def health() -> Well:
        """How the service is, in words: a full disk, say, or a file system where overwritten bytes may stay."""
        return Well(**asdict(service.health()))

    @router.get("/v1/requests")
    def requests(
        limit: Annotated[int, Query(ge=1, le=10_000)] = 1000,
        skip: Annotated[int, Query(ge=0, le=2**31)] = 0,
        caller: Token = Depends(guard.needs("erase", "audit")),  # noqa: B008
    ) -> list[Filed]:
        """The last requests, the oldest of them first, with nobody's identity; ``skip`` leaves out the newest.

        Those of others, and which receipts there are, is for those who may audit.
        """
        entries = service.entries(None if caller.audits else caller.name)
        return [filed(entry, audits=caller.audits) for entry in entries[: max(0, len(entries) - skip)][-limit:]]

    @router.get("/v1/receipts/{request_id}", responses={202: {"description": "Not signed yet."}})
    async def receipts(request_id: RequestId, controller: Name = None, caller: Token = auditor) -> list[Receipt]:
        """The signed receipts of an erasure, one for each model; 202 until all are there.

        ``controller`` says whose, where several have filed a request of this id.
        """
        whose, others = caller.looks_for(controller)
        found = await run_in_threadpool(service.receipts, request_id, whose, others=others)
        if found is None:
            return JSONResponse([], 202, {"Retry-After": "1"})  # type: ignore[return-value]
        return [Receipt(model=name, receipt=json.loads(text)) for name, text in sorted(found.items())]

    @router.get("/v1/receipts/{request_id}/{model}", responses={202: {"description": "Not signed yet."}})
    async def receipt(request_id: RequestId, model: str, controller: Name = None, caller: Token = auditor) -> Response:
        """One receipt as a file, for ``erasable receipt verify``."""
        whose, others = caller.looks_for(controller)
        found = await run_in_threadpool(service.receipts, request_id, whose, others=others)
        if found is None:
            return Response(status_code=202, headers={"Retry-After": "1"})
        if model not in found:
            raise Refused(404, "this erasure has no receipt of such a model.")
        return Response(found[model], headers=receipt_file(model, request_id), media_type="application/json")

    @router.get("/v1/access/{request_id}")
    async def access(request_id: RequestId, controller: Name = None, caller: Token = auditor) -> dict[str, Any]:
        """What is stored of somebody who asked, by model."""
        whose, others = caller.looks_for(controller)
        found = await run_in_threadpool(service.stored_of, request_id, whose, others=others)
        return {name: rows.as_json() for name, rows in found.items()}

    @router.post("/v1/purge")
    async def purge(before: AwareDatetime, caller: Token = Depends(guard.needs("purge"))) -> Purged:  # noqa: B008
        """Erase what is left of requests that were settled before a moment, not in the future, and owe nothing."""
        return Purged(purged=await run_in_threadpool(service.purge, before, caller.name))

    @router.get("/v1/purges", dependencies=[Depends(guard.needs("audit", "purge"))])
    async def purges() -> list[dict[str, Any]]:
        """A signed statement of every purge: when, by which token, and how many requests and receipts of which time."""
        return [json.loads(text) for text in await run_in_threadpool(service.tombstones)]

    @router.get("/metrics", dependencies=auditing, response_class=PlainTextResponse)
    async def figures() -> Response:
        """Figures for Prometheus."""
        return Response(await run_in_threadpool(metrics.text), media_type=CONTENT_TYPE)

    app.include_router(router)


def model_state(service: ErasureService, name: str, file: Path) -> ModelState:
    """A model at a glance."""
    snapshot: Snapshot = service.snapshot(name)
    found = service.verification(name)
    model = snapshot.model
    schema = schema_of(model)
    return ModelState(
        model=name,
        version=snapshot.version,
        rows_stored=len(model.core),
        features=model.n_features if schema is None else schema.n_features_out,
        classes=len(model.classes) if model.classifies else 0,
        bytes=stored_bytes(file),
        digest=service.digest(name),
        verification=None if found is None else checked(found),
    )


async def _gathered(parts: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """The parts of a body, as they arrive, put together to such as cross to another process by themselves."""
    short, size = [], 0
    async for part in parts:
        short.append(part)
        size += len(part)
        if size >= APART:
            yield b"".join(short)
            short, size = [], 0
    yield b"".join(short)


def _learn(
    service: ErasureService,
    name: str,
    kind: str,
    body: Parcel,
    columns: dict[str, Any],
    skip_known: bool,
    limits: Configuration,
    stop: Callable[[], None],
) -> Learnt:
    model = service.snapshot(name).model
    schema = schema_of(model)
    columns = {key: value for key, value in columns.items() if value} | {"features": model.feature_names}
    if schema is None and model.classifies:
        columns.setdefault("label", "label")
    most = _UNPACKED * limits.body_bytes, limits.rows
    known = {*(columns_of(model) or ()), "label"}
    blocks = service.read(read_blocks, kind, body, schema, columns, known, *most, stop=stop)
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
    return None if time is None else moment(time)


_LEARNT_FROM = {
    "requestBody": {
        "required": True,
        "content": {kind: {"schema": {"type": "string"}} for kind in (JSON_LINES, "text/csv", ARROW)},
    }
}
