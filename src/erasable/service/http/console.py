"""The console: pages for a privacy officer, at ``/``. All of it works without JavaScript.

Tokens that may erase file requests and follow them. Tokens that may audit see the state, verify it, and get receipts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse, RedirectResponse, Response
from starlette.concurrency import run_in_threadpool

from erasable.audit.receipts import check_receipt
from erasable.core.names import spelling_in_words
from erasable.errors import ErasableError
from erasable.service.http import cases
from erasable.service.http.api import checked, model_state
from erasable.service.http.cases import csv_file, rows_of
from erasable.service.http.opendsr import rfc3339
from erasable.service.http.packs import download, evidence_of
from erasable.service.http.problems import Refused
from erasable.service.http.site import TheSite, site_of, source_of
from erasable.service.http.viewer import COOKIE, AnyViewer, Auditor, Follower, OwnForm, SignIn, Viewer, login_form, page
from erasable.service.index import DEEDS, Query
from erasable.service.service import ErasureService
from erasable.store import in_words

_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}
_PAGES = ("", "login", "logout", "api", "evidence", "receipts", "requests", "static", "trail", "verify")
_EVENTS, _EXPORTED = 100, 1000  # events on a page, and read at a time for an export
_MOST_RECEIPTS = 1000  # on the evidence page of a model

router = APIRouter(include_in_schema=False)


@router.get("/")
def overview(viewer: AnyViewer) -> Response:
    """The overview, or the scopes of a token that has no pages."""
    token, site = viewer.token, viewer.site
    if not ("erase" in token.scopes or token.audits):
        return viewer.page("scopes.html")
    ledger, names = site.service.ledger, site.files if token.audits else ()
    counts = ledger.counts(viewer.scope)
    return viewer.page(
        "overview.html",
        figures={name: getattr(counts, name) for name in ("open", "overdue", "due_soon", "completed")},
        models=[model_state(site, name) for name in names],
        recent=rows_of(ledger.search(Query(viewer.scope, sort="received", limit=5)).entries, token),
    )


@router.post("/verify/{model}")
def verify(viewer: Auditor, form: OwnForm, model: str) -> Response:
    """Verify a model in the background."""
    viewer.site.service.verify(model)
    viewer.site.service.note("verification", viewer.token.name, model=model)
    return RedirectResponse("/", 303)


@router.get("/verify/{model}/state.json")
async def verification(viewer: Auditor, model: str) -> Response:
    """The progress of a verification, for the script of the overview."""
    found = viewer.site.service.verification(model)
    return JSONResponse(None if found is None else checked(found).model_dump())


@router.get("/evidence/{model}")
async def evidence(viewer: Auditor, model: str) -> Response:
    """Download the evidence page of a model, with its newest receipts."""
    service = viewer.site.service
    page = await evidence_of(service, model, await run_in_threadpool(_newest_receipts, service, model))
    await run_in_threadpool(service.note, "download", viewer.token.name, model=model)
    return download(page, f"evidence-{model}-{datetime.now(UTC):%Y-%m-%d}.html", "text/html")


def _newest_receipts(service: ErasureService, model: str) -> list[str]:
    found = service.ledger.search(Query(state="completed", sort="settled", limit=_MOST_RECEIPTS))
    return [text for e in found.entries if (text := service.ledger.receipt(e, model)) is not None]


def _receipts_page(viewer: Viewer, status: int = 200, **values: object) -> Response:
    keyid = viewer.site.service.receipt_key.keyid
    return viewer.page("receipts.html", status, None, **({"result": None, "problem": None, "keyid": keyid} | values))


@router.get("/receipts")
def receipts(viewer: Follower) -> Response:
    """The form to check a receipt."""
    return _receipts_page(viewer)


@router.post("/receipts")
def check(viewer: Follower, form: OwnForm) -> Response:
    """Check a receipt."""
    service = viewer.site.service
    try:
        found = check_receipt(form.get("file") or form.get("text", ""), service.receipt_key)
    except ErasableError as error:
        return _receipts_page(viewer, 400, problem=str(error))
    names = viewer.site.files if viewer.token.audits else ()
    digests = {name: service.digest(name) for name in names}
    result = {
        "keyid": service.receipt_key.keyid,
        "request_id": found.request_id,
        "model": found.model,
        "asked": None if found.asked is None else str(found.asked),
        "spelling": None if found.normalisation is None else spelling_in_words(found.normalisation),
        "requested": rfc3339(found.requested_at),
        "completed": rfc3339(found.completed_at),
        "digest": found.state_after,
        "guarantee": found.guarantee,
        "old_bytes": in_words(found.old_bytes),
        "is_now": [name for name, digest in digests.items() if digest == found.state_after],
        "compared": bool(digests),
    }
    return _receipts_page(viewer, result=result)


def _trail_query(viewer: Viewer) -> dict[str, Any]:
    return {name: viewer.request.query_params.get(name, "").strip() for name in ("what", "by", "request_id")}


@router.get("/trail")
def trail(viewer: Auditor) -> Response:
    """Who did what, and when."""
    values, page = _trail_query(viewer), viewer.page_number
    found = viewer.site.service.ledger.trail(**values, limit=_EVENTS, skip=_EVENTS * page)
    pages: dict[str, Any] = {"total": found.total, "page": page, "size": _EVENTS, "values": values}
    return viewer.page("trail.html", events=found.events, deeds=DEEDS, **pages)


@router.get("/trail.csv")
def trail_export(viewer: Auditor) -> Response:
    """Download the audit trail as CSV."""
    service, values = viewer.site.service, _trail_query(viewer)
    service.note("export", viewer.token.name)

    def blocks() -> Iterator[list[list[Any]]]:
        skip, total = 0, None
        while (found := service.ledger.trail(**values, limit=_EXPORTED, skip=skip)).events:
            if total is not None and found.total > total:  # events were added in front of this page
                skip += found.total - total
            else:
                yield [[rfc3339(e.at), e.what, e.by, e.request_id, e.model, e.times] for e in found.events]
                skip += len(found.events)
            total = found.total

    return csv_file(blocks, "at,what,token,request,model,times", "trail")


@router.get("/login")
async def login_page() -> Response:
    """The form to sign in."""
    return page("login.html", problem=None)


@router.post("/login")
async def login(request: Request, site: TheSite, form: Annotated[Mapping[str, str], Depends(login_form)]) -> Response:
    """Sign in."""
    try:
        name, seconds = site.sign_in(form.get("token", "").strip(), source_of(request))
    except Refused as refused:
        invalid = "This is no valid token, or it was revoked. Ask the operator for a new one."
        problem = invalid if refused.status == 401 else refused.detail
        return page("login.html", refused.status, refused.headers, problem=problem)
    if (session := site.session(name)) is not None:
        await run_in_threadpool(site.service.note_or_count, "sign-in", session[1].name)
    answer = RedirectResponse("/", 303)
    secure = site.configuration.url.startswith("https")
    answer.set_cookie(COOKIE, name, max_age=seconds, httponly=True, samesite="strict", secure=secure)
    return answer


@router.post("/logout")
async def logout(viewer: AnyViewer, form: OwnForm) -> Response:
    """Sign out."""
    await run_in_threadpool(viewer.site.service.note_or_count, "sign-out", viewer.token.name)
    viewer.site.sign_out(viewer.request.cookies.get(COOKIE, ""))
    answer = RedirectResponse("/login", 303)
    answer.delete_cookie(COOKIE)
    return answer


@router.get("/api")
def described(viewer: AnyViewer) -> Response:
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

    app.add_exception_handler(SignIn, to_login)
    app.include_router(router)
    app.include_router(cases.router)


def as_page(request: Request, refused: Refused) -> Response:
    """An error as a page."""
    try:
        found = site_of(request).session(request.cookies.get(COOKIE, ""))
    except ErasableError:  # tokens cannot be read: nobody is signed in
        found = None
    values = {"refused": refused, "lost": refused.status == 404 and "route" not in request.scope}
    if found is None:
        return page("problem.html", refused.status, refused.headers, signed_in=False, **values)
    return Viewer(request, *found).page("problem.html", refused.status, refused.headers, signed_in=True, **values)


def is_page(path: str) -> bool:
    """Whether people look at this path, rather than programs."""
    return path.strip("/").partition("/")[0].removesuffix(".csv") in _PAGES
