"""The console: pages for a privacy officer, at ``/``. All of it works without JavaScript.

Tokens that may erase file requests and follow them. Tokens that may audit see the state, verify it, and get receipts.
"""

from __future__ import annotations

import hmac
import unicodedata
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, urljoin

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from erasable.audit.receipts import check_receipt
from erasable.core.names import listed_in, told_spelling
from erasable.errors import ConflictError, ErasableError
from erasable.pages import render
from erasable.service.http.api import Filed, checked, filed, model_state, receipt_file
from erasable.service.http.envelope import waiting_of
from erasable.service.http.opendsr import rfc3339
from erasable.service.http.problems import Refused, refusal_of
from erasable.service.http.site import Session, Site, TheSite, check_scopes, site_of
from erasable.service.requests import Entry, Identity, State
from erasable.service.tokens import Token

COOKIE = "erasable_session"
_FORM_BYTES, _LOGIN_BYTES = 2**18, 2**13  # forms are read in the event loop, and that to sign in from anybody
_KEPT = "Accepted requests are kept, and carried out as soon as it is ready. The operator sees what is wrong."
_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_MOST_NAMED = 8  # characters beyond ASCII that the page to confirm names

router = APIRouter(include_in_schema=False)


class _SignIn(Exception):  # noqa: N818 - an answer
    """Nobody is signed in."""


class Viewer:
    """A person who is signed in, and the request for a page."""

    def __init__(self, request: Request, session: Session, token: Token) -> None:
        self.request, self.session, self.token = request, session, token
        self.site: Site = site_of(request)

    @property
    def entries(self) -> list[Entry]:
        """The requests that the viewer may see: all, or the viewer's own."""
        return self.site.service.ledger.entries(None if self.token.audits else self.token.name)

    @property
    def controller(self) -> str:
        """Whose request an address means: the viewer's, unless an auditor's address names another controller."""
        name = self.token.name
        return self.request.query_params.get("controller", name) if self.token.audits else name

    def entry(self, request_id: str) -> Entry:
        """The request of an address."""
        return self.site.service.ledger.entry(request_id, self.controller, self.token.audits)

    def page(
        self, name: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: object
    ) -> HTMLResponse:
        """A page for the viewer."""
        health = self.site.service.health()
        if not self.token.audits and health.problem is not None:  # it may say that somebody is stored again
            health = replace(health, problem=_KEPT)
        common = {
            "token": self.token,
            "may_audit": self.token.audits,
            "may_erase": "erase" in self.token.scopes,
            "form": self.session.form,
            "health": health,
            "path": self.request.url.path,
        }
        return _page(name, status, headers, **common, **values)


async def signed_in(request: Request, site: TheSite) -> Viewer:
    """A dependency: the viewer."""
    found = site.session(request.cookies.get(COOKIE, ""))
    if found is None:
        raise _SignIn
    site.count(found[1])
    return Viewer(request, *found)


AnyViewer = Annotated[Viewer, Depends(signed_in)]


def _viewer(*scopes: str) -> Callable[[Viewer], Viewer]:
    """A dependency: the viewer, whose token has one of these scopes."""

    def viewer(viewer: AnyViewer) -> Viewer:
        check_scopes(viewer.token, *scopes)
        return viewer

    return viewer


Follower = Annotated[Viewer, Depends(_viewer("erase", "audit"))]
Filer = Annotated[Viewer, Depends(_viewer("erase"))]
Auditor = Annotated[Viewer, Depends(_viewer("audit"))]


async def login_form(request: Request, site: TheSite) -> Mapping[str, str]:
    """A dependency: the fields of a form; ``Refused`` if a page of another site sent it."""
    host = request.headers.get("host", "").lower()
    own = urljoin(site.configuration.url, "/")[:-1].lower(), f"http://{host}", f"https://{host}"
    fetched = request.headers.get("sec-fetch-site", "same-origin")
    if fetched not in ("same-origin", "none") or request.headers.get("origin", own[0]) not in own:
        raise Refused(403, "this form was sent by a page of another site.")
    waiting = waiting_of(request)
    waiting.body_bytes = min(waiting.body_bytes, _LOGIN_BYTES if request.url.path == "/login" else _FORM_BYTES)
    async with request.form(max_files=1, max_fields=16, max_part_size=_FORM_BYTES) as sent:
        fields: dict[str, str] = {}
        for name, value in sent.items():
            fields[name] = value if isinstance(value, str) else (await value.read()).decode("utf-8", "replace")
    return fields


async def own_form(viewer: AnyViewer, fields: Annotated[Mapping[str, str], Depends(login_form)]) -> Mapping[str, str]:
    """A dependency: the fields of a form that was made for this session."""
    if not hmac.compare_digest(fields.get("form", "").encode(), viewer.session.form.encode()):
        raise Refused(403, "this form is out of date: go back, load the page again and send it once more.")
    return fields


OwnForm = Annotated[Mapping[str, str], Depends(own_form)]


@router.get("/")
async def overview(viewer: AnyViewer) -> Response:
    """The overview, or the scopes of a token that has no pages."""
    token, site = viewer.token, viewer.site
    if not ("erase" in token.scopes or token.audits):
        return viewer.page("scopes.html")
    entries = viewer.entries
    waiting = [entry for entry in entries if entry.settled is None]
    names = site.files if token.audits else ()
    return viewer.page(
        "overview.html",
        total=len(entries),
        completed=sum(entry.state is State.COMPLETED for entry in entries),
        waiting=len(waiting),
        overdue=sum(entry.expected < datetime.now(UTC) for entry in waiting),
        models=[await run_in_threadpool(model_state, site, name) for name in names],
        recent=_newest_first(entries[-5:], token),
    )


def _requests_page(viewer: Viewer, refused: Refused | None = None, typed: Mapping[str, str] | None = None) -> Response:
    entries = viewer.entries
    return viewer.page(
        "requests.html",
        200 if refused is None else refused.status,
        None if refused is None else refused.headers,
        entries=_newest_first(entries[-200:], viewer.token),
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
        spelling=told_spelling(entry.spelling),
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
    return RedirectResponse(f"/requests/{entry.request_id}{_controller_query(entry, viewer.token)}", 303)


@router.get("/requests/{request_id}/state.json")
async def progress(viewer: Follower, request_id: str) -> Response:
    """The progress of a request, for the script of its page."""
    return JSONResponse(_progress(viewer.entry(request_id), viewer.token))


@router.get("/requests/{request_id}/receipts/{model}")
async def receipt(viewer: Auditor, request_id: str, model: str) -> Response:
    """Download a receipt."""
    found = await run_in_threadpool(viewer.site.service.receipts, request_id, viewer.controller)
    return receipt_file(found, model, request_id)


@router.get("/requests/{request_id}/stored")
async def stored(viewer: Auditor, request_id: str) -> Response:
    """The stored rows of a person who asked."""
    found = await run_in_threadpool(viewer.site.service.stored_of, request_id, viewer.controller)
    rows = {name: each.as_json() for name, each in found.items()}
    query = f"?{viewer.request.url.query}" if viewer.request.url.query else ""
    return viewer.page("stored.html", request_id=request_id, query=query, stored=rows)


@router.post("/verify/{model}")
async def verify(viewer: Auditor, form: OwnForm, model: str) -> Response:
    """Verify a model in the background."""
    await run_in_threadpool(viewer.site.service.verify, model)
    return RedirectResponse("/", 303)


@router.get("/verify/{model}/state.json")
async def verification(viewer: Auditor, model: str) -> Response:
    """The progress of a verification, for the script of the overview."""
    found = viewer.site.service.verification(model)
    return JSONResponse(None if found is None else checked(found).model_dump())


def _receipts_page(viewer: Viewer, status: int = 200, **values: object) -> Response:
    keyid = viewer.site.service.receipt_key.keyid
    return viewer.page("receipts.html", status, None, **({"result": None, "problem": None, "keyid": keyid} | values))


@router.get("/receipts")
async def receipts(viewer: Follower) -> Response:
    """The form to check a receipt."""
    return _receipts_page(viewer)


@router.post("/receipts")
async def check(viewer: Follower, form: OwnForm) -> Response:
    """Check a receipt."""
    service = viewer.site.service
    try:
        found = check_receipt(form.get("file") or form.get("text", ""), service.receipt_key)
    except ErasableError as error:
        return _receipts_page(viewer, 400, problem=str(error))
    names = viewer.site.files if viewer.token.audits else ()
    digests = {name: await run_in_threadpool(service.digest, name) for name in names}
    result = {
        "request_id": found.request_id,
        "model": found.model,
        "asked": None if found.asked is None else str(found.asked),
        "spelling": None if found.normalisation is None else told_spelling(found.normalisation),
        "requested": rfc3339(found.requested_at),
        "completed": rfc3339(found.completed_at),
        "digest": found.state_after,
        "guarantee": found.guarantee,
        "is_now": [name for name, digest in digests.items() if digest == found.state_after],
        "compared": bool(digests),
    }
    return _receipts_page(viewer, result=result)


@router.get("/login")
async def login_page() -> Response:
    """The form to sign in."""
    return _page("login.html", problem=None)


@router.post("/login")
async def login(site: TheSite, form: Annotated[Mapping[str, str], Depends(login_form)]) -> Response:
    """Sign in."""
    try:
        name, seconds = site.sign_in(form.get("token", "").strip())
    except Refused as refused:
        invalid = "This is no valid token, or it was revoked. Ask the operator for a new one."
        problem = invalid if refused.status == 401 else refused.detail
        return _page("login.html", refused.status, refused.headers, problem=problem)
    answer = RedirectResponse("/", 303)
    secure = site.configuration.url.startswith("https")
    answer.set_cookie(COOKIE, name, max_age=seconds, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
async def logout(viewer: AnyViewer, form: OwnForm) -> Response:
    """Sign out."""
    viewer.site.sign_out(viewer.request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


@router.get("/api")
async def described(viewer: AnyViewer) -> Response:
    """The routes for programs."""
    return viewer.page("api.html", api=viewer.request.app.openapi())


@router.get("/static/{name}")
async def static(name: str) -> Response:
    """A style sheet, script or picture."""
    if name not in _STATIC:
        raise Refused(404, "no such file exists.")
    body = (Path(__file__).parent / "static" / name).read_bytes()
    return Response(body, headers={"Cache-Control": "max-age=3600"}, media_type=_STATIC[name])


def add_routes(app: FastAPI) -> None:
    """Serve the pages."""

    async def to_login(request: Request, error: Exception) -> Response:
        return RedirectResponse("/login", 303)

    app.add_exception_handler(_SignIn, to_login)
    app.include_router(router)


def as_page(request: Request, refused: Refused) -> Response:
    """An error as a page."""
    try:
        found = site_of(request).session(request.cookies.get(COOKIE, ""))
    except ErasableError:  # tokens cannot be read: nobody is signed in
        found = None
    values = {"refused": refused, "lost": refused.status == 404 and "route" not in request.scope}
    if found is None:
        return _page("problem.html", refused.status, refused.headers, signed_in=False, **values)
    return Viewer(request, *found).page("problem.html", refused.status, refused.headers, signed_in=True, **values)


def is_page(path: str) -> bool:
    """Whether people look at this path, rather than programs."""
    return path in ("/", "/login", "/logout", "/api", "/receipts", "/requests") or path.startswith(
        ("/requests/", "/verify/", "/static/")
    )


def _page(name: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: object) -> HTMLResponse:
    return HTMLResponse(render(f"console/{name}", whose=_controller_query, **values), status, headers)


def _progress(entry: Entry, token: Token) -> dict[str, Any]:
    """The steps of a request, each done or not, and whether it goes on; receipts are shown to auditors alone."""
    received = rfc3339(entry.received)
    settled = None if entry.settled is None else rfc3339(entry.settled)
    if entry.state is State.CANCELLED:
        steps = [("Accepted", received), ("Cancelled", settled)]
    else:
        second = "Stored rows looked up" if entry.kind == "access" else "Forgotten in every model, old files erased"
        steps = [("Accepted, durably", received), (second, settled)]
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
        "spelling": told_spelling({who.role: who.steps} if who.steps else {}),
        "capitals_count": raw and "casefold" not in who.steps,
    }


def _newest_first(entries: list[Entry], token: Token) -> list[Filed]:
    return [filed(entry, audits=token.audits) for entry in reversed(entries)]


def _controller_query(entry: Filed | Entry, token: Token) -> str:
    """What an address adds to mean the request of another controller, whose id the viewer may have used too."""
    return "" if entry.controller in ("", token.name) else f"?controller={quote(entry.controller)}"
