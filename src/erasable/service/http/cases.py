"""The pages about requests: the list, filing with a page to confirm, one request with its steps and receipts."""

from __future__ import annotations

import unicodedata
import uuid
from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from erasable.core.names import listed_in, spelling_in_words
from erasable.errors import ConflictError, ErasableError
from erasable.service.http.api import Filed, filed, receipt_file
from erasable.service.http.opendsr import rfc3339
from erasable.service.http.packs import download, pack_of
from erasable.service.http.problems import Refused, refusal_of
from erasable.service.http.viewer import Auditor, Filer, Follower, OwnForm, Viewer, controller_query
from erasable.service.requests import Entry, Identity, State
from erasable.service.tokens import Token

_MOST_NAMED = 8  # characters beyond ASCII that the page to confirm names

router = APIRouter(include_in_schema=False)


def _requests_page(viewer: Viewer, refused: Refused | None = None, typed: Mapping[str, str] | None = None) -> Response:
    entries = viewer.entries
    return viewer.page(
        "requests.html",
        200 if refused is None else refused.status,
        None if refused is None else refused.headers,
        entries=newest_first(entries[-200:], viewer.token),
        total=len(entries),
        types=sorted(viewer.site.configuration.service.identity_types),
        problem=None if refused is None else refused.detail,
        typed=typed or {},
    )


@router.get("/requests")
async def requests(viewer: Follower) -> Response:
    """All requests, and the form to file one."""
    return _requests_page(viewer)


@router.post("/requests")
async def file(viewer: Filer, form: OwnForm) -> Response:
    """File a request, once its identity is confirmed."""
    service, request_id = viewer.site.service, str(uuid.uuid4())
    try:
        kind: Any = form.get("kind", "erasure")
        if kind not in ("erasure", "access"):
            raise Refused(400, "a request is an erasure or an access.")
        if not (value := form.get("value", "")):
            raise Refused(400, "the identity is empty: type it.")
        identity = service.identity(form.get("type", ""), form.get("format", "raw"), value)
        if (step := form.get("step")) != "file":
            stored = None
            if step == "look up" and viewer.token.audits:
                found = await run_in_threadpool(service.look_up, [identity])
                stored = {name: len(rows.rows) for name, rows in found.items()}
            values = {"kind": kind, "type": form["type"], "format": identity.format, "stored": stored}
            return viewer.page("confirm.html", **values, **_hints(identity))
        given = request_id, kind, [identity], request_id.encode(), (), viewer.token.name
        await run_in_threadpool(service.accept, *given)
    except (ErasableError, Refused) as error:
        return _requests_page(viewer, refusal_of(error), form)
    return RedirectResponse(f"/requests/{request_id}", 303)


async def _request_page(viewer: Viewer, request_id: str, status: int = 200) -> Response:
    entry, audits = viewer.entry(request_id), viewer.token.audits
    receipts = await run_in_threadpool(viewer.site.service.ledger.receipts, entry) if audits else None
    return viewer.page(
        "request.html",
        status,
        entry=filed(entry, audits=audits),
        **_progress(entry, viewer.token),
        receipts=sorted(receipts or ()),
        too_late=status == 409,
        spelling=spelling_in_words(entry.spelling),
        separated=entry.asked is not None and "separators" in entry.asked.kinds,
    )


@router.get("/requests/{request_id}")
async def request(viewer: Follower, request_id: str) -> Response:
    """One request."""
    return await _request_page(viewer, request_id)


@router.post("/requests/{request_id}/cancel")
async def cancel(viewer: Filer, form: OwnForm, request_id: str) -> Response:
    """Cancel a request, unless it is too late."""
    given = request_id, viewer.controller, viewer.token.audits
    try:
        entry = await run_in_threadpool(viewer.site.service.ledger.cancel, *given)
    except ConflictError:
        return await _request_page(viewer, request_id, 409)
    return RedirectResponse(f"/requests/{entry.request_id}{controller_query(entry, viewer.token)}", 303)


@router.get("/requests/{request_id}/state.json")
async def progress(viewer: Follower, request_id: str) -> Response:
    """The progress of a request, for the script of its page."""
    return JSONResponse(_progress(viewer.entry(request_id), viewer.token))


@router.get("/requests/{request_id}/receipts/{model}")
async def receipt(viewer: Auditor, request_id: str, model: str) -> Response:
    """Download a receipt."""
    found = await run_in_threadpool(viewer.site.service.receipts, request_id, viewer.controller)
    return receipt_file(found, model, request_id)


@router.get("/requests/{request_id}/evidence.zip")
async def pack(viewer: Auditor, request_id: str) -> Response:
    """Download the receipts of a request, the key and pages that explain them, as one archive."""
    service, entry = viewer.site.service, viewer.entry(request_id)
    found = await run_in_threadpool(service.ledger.receipts, entry)
    if not found:
        raise Refused(404, "this request has no receipts, or not yet.")
    content = await pack_of(service, entry, found)
    return download(content, f"erasure-{entry.request_id}.zip", "application/zip")


@router.get("/requests/{request_id}/stored")
async def stored(viewer: Auditor, request_id: str) -> Response:
    """The stored rows of a person who asked."""
    found = await run_in_threadpool(viewer.site.service.stored_of, request_id, viewer.controller)
    query = f"?{viewer.request.url.query}" if viewer.request.url.query else ""
    return viewer.page("stored.html", request_id=request_id, query=query, stored=found)


def _progress(entry: Entry, token: Token) -> dict[str, Any]:
    """The steps of a request, each done or not, and whether it goes on; receipts are shown to auditors alone."""
    received = rfc3339(entry.received)
    settled = None if entry.settled is None else rfc3339(entry.settled)
    if entry.state is State.CANCELLED:
        steps = [("Received and saved", received), ("Cancelled", settled)]
    else:
        second = "Stored rows looked up" if entry.kind == "access" else "Forgotten in every model, old files erased"
        steps = [("Received and saved", received), (second, settled)]
        if entry.kind == "erasure" and token.audits:
            signed = entry.state is State.COMPLETED and not entry.owes_receipts
            steps.append(("State verified, receipt signed", "done" if signed else None))
    going = entry.settled is None or (entry.owes_receipts and token.audits)
    return {
        "steps": [{"what": what, "when": when, "done": when is not None} for what, when in steps],
        "going": going,
    }


def _hints(who: Identity) -> dict[str, Any]:
    """An identity as it was typed, and possible mistakes in it. Only the page has it; nothing is kept."""
    raw = who.format == "raw"
    odd = dict.fromkeys(c for c in who.value if not c.isascii()) if raw else {}
    return {
        "value": who.value,
        "raw": raw,
        "characters": len(who.value),
        "parts": listed_in(who.value) if raw else 1,
        "odd": [f"U+{ord(c):04X} {unicodedata.name(c, 'without a name')}" for c in [*odd][:_MOST_NAMED]],
        "more": max(0, len(odd) - _MOST_NAMED),
        "compared_as": who.spelt if who.spelt != who.value else None,
        "spelling": spelling_in_words({who.role: who.steps} if who.steps else {}),
        "capitals_count": raw and "casefold" not in who.steps,
    }


def newest_first(entries: list[Entry], token: Token) -> list[Filed]:
    """Entries as a token may see them."""
    return [filed(entry, audits=token.audits) for entry in reversed(entries)]
