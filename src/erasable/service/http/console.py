"""The console: pages for a privacy officer, at ``/``. All of the journey works without JavaScript.

Who may erase files requests and follows them. Who may audit sees the state, verifies it, and gets receipts.
"""

from __future__ import annotations

import hmac
import json
import uuid
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urljoin

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from jinja2 import Environment, PackageLoader, StrictUndefined
from starlette.concurrency import run_in_threadpool

from erasable.audit.keys import PublicKey
from erasable.audit.receipts import check_receipt
from erasable.core.names import told_spelling
from erasable.errors import ConflictError, ErasableError
from erasable.service.entries import Entry, State
from erasable.service.health import Health
from erasable.service.http.charts import HEIGHT, WIDTH, history_charts
from erasable.service.http.configuration import Configuration
from erasable.service.http.confirming import told_of
from erasable.service.http.guard import Guard
from erasable.service.http.history import History
from erasable.service.http.opendsr import moment
from erasable.service.http.own import Filed, checked, filed, model_state, receipt_file
from erasable.service.http.problems import Refused, refusal_of
from erasable.service.http.sessions import COOKIE, SECONDS, Session, Sessions
from erasable.service.service import ErasureService
from erasable.service.tokens import Token

_FORM_BYTES, _LOGIN_BYTES = 2**18, 2**13  # forms are read in the loop, and that to sign in from anybody
_KEPT = "What was accepted is kept, and carried out as soon as all is well. The operator is told what is wrong."
_HERE = Path(__file__).parent
_STATIC = {"console.css": "text/css", "console.js": "text/javascript", "icon.svg": "image/svg+xml"}


def add_routes(
    app: FastAPI,
    service: ErasureService,
    guard: Guard,
    configuration: Configuration,
    receipt_key: PublicKey,
) -> None:
    """Serve the pages."""
    router, sessions = APIRouter(include_in_schema=False), Sessions(guard)
    files = configuration.model_files()
    history = History(configuration.folder / "history.json", service)
    pages = Environment(
        loader=PackageLoader("erasable.service.http"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    pages.filters |= {"size": _size, "when": _shown, "whose": _whose}

    def page(name: str, *answer: Any, **values: Any) -> HTMLResponse:
        return HTMLResponse(pages.get_template(name).render(**values), *answer)

    def who(request: Request, *scopes: str) -> tuple[Session, Token]:
        found = sessions.of(request)
        if found is None:
            raise _SignIn
        guard.count(found[1])
        if scopes and set(scopes).isdisjoint(found[1].scopes):
            raise Refused(403, f"this token lacks the scope {' or '.join(scopes)}.")
        return found

    async def form_of(request: Request, session: Session | None) -> Mapping[str, str]:
        """The fields of a form that this service made; ``Refused`` where another site sent it."""
        host = request.headers.get("host", "").lower()
        own = urljoin(configuration.url, "/")[:-1].lower(), f"http://{host}", f"https://{host}"
        fetched = request.headers.get("sec-fetch-site", "same-origin")
        if fetched not in ("same-origin", "none") or request.headers.get("origin", own[0]) not in own:
            raise Refused(403, "this form was sent by a page of another site.")
        async with request.form(max_files=1, max_fields=16, max_part_size=_FORM_BYTES) as sent:
            told: dict[str, str] = {}
            for name, value in sent.items():
                told[name] = value if isinstance(value, str) else (await value.read()).decode("utf-8", "replace")
        if session is not None and not hmac.compare_digest(told.get("form", "").encode(), session.form.encode()):
            raise Refused(403, "this form is out of date: go back, load the page again and send it once more.")
        return told

    def shared(request: Request, session: Session, token: Token) -> dict[str, Any]:
        return {
            "token": token,
            "may_audit": token.audits,
            "may_erase": "erase" in token.scopes,
            "form": session.form,
            "health": _told(service.health(), token),
            "path": request.url.path,
        }

    def seen(token: Token) -> list[Entry]:
        """Requests that somebody may see: all, or those of their own."""
        return service.entries(None if token.audits else token.name)

    def whose(request: Request, token: Token) -> str:
        """Whose request an address means where several have one of its id: the reader's, unless an auditor says so."""
        return request.query_params.get("controller", token.name) if token.audits else token.name

    @router.get("/")
    async def overview(request: Request) -> Response:
        session, token = who(request)
        common = shared(request, session, token)
        if not (common["may_erase"] or common["may_audit"]):
            return page("scopes.html", **common)
        entries = seen(token)
        waiting = [entry for entry in entries if entry.settled is None]
        values: dict[str, Any] = {
            "total": len(entries),
            "completed": sum(entry.state is State.COMPLETED for entry in entries),
            "waiting": len(waiting),
            "overdue": sum(entry.expected < datetime.now(UTC) for entry in waiting),
            "models": [],
            "charts": [],
        }
        if common["may_audit"]:
            values["models"] = [
                {
                    **(await run_in_threadpool(model_state, service, name, path)).model_dump(),
                    "forecast": _forecast(path),
                }
                for name, path in files.items()
            ]
            hours = await run_in_threadpool(history.hours)
            values["charts"] = history_charts(hours, list(files))
        return page(
            "overview.html", **common, **values, width=WIDTH, height=HEIGHT, recent=_listed(entries[-5:], token)
        )

    def requests_page(request: Request, session: Session, token: Token, *answer: Any, **values: Any) -> HTMLResponse:
        entries = seen(token)
        return page(
            "requests.html",
            *answer,
            **shared(request, session, token),
            entries=_listed(entries[-200:], token),
            total=len(entries),
            types=sorted(configuration.service.identity_types),
            **{"problem": None, "typed": {}, **values},
        )

    @router.get("/requests")
    async def requests(request: Request) -> Response:
        return requests_page(request, *who(request, "erase", "audit"))

    @router.post("/requests")
    async def file(request: Request) -> Response:
        session, token = who(request, "erase")
        told = await form_of(request, session)
        request_id = str(uuid.uuid4())
        try:
            kind: Any = told.get("kind", "erasure")
            if kind not in ("erasure", "access"):
                raise Refused(400, "a request is an erasure or an access.")
            if not (value := told.get("value", "")):
                raise Refused(400, "say who asks: the identity is empty.")
            identity = service.identity(told.get("type", ""), told.get("format", "raw"), value)
            if (step := told.get("step")) != "file":
                stored = None
                if step == "look up" and token.audits:
                    found = await run_in_threadpool(service.look_up, [identity])
                    stored = {name: len(rows.rows) for name, rows in found.items()}
                given = {"kind": kind, "type": told["type"], "format": identity.format, "stored": stored}
                return page("confirm.html", **shared(request, session, token), **given, **told_of(identity))
            await run_in_threadpool(service.accept, request_id, kind, [identity], request_id.encode(), (), token.name)
        except (ErasableError, Refused) as error:
            refused = refusal_of(error)
            assert refused is not None
            answer = refused.status, refused.headers
            return requests_page(request, session, token, *answer, problem=refused.detail, typed=told)
        return RedirectResponse(f"/requests/{request_id}", 303)

    @router.get("/requests/{request_id}")
    async def one(request: Request, request_id: str) -> Response:
        return await request_page(request, *who(request, "erase", "audit"), request_id)

    async def request_page(
        request: Request, session: Session, token: Token, request_id: str, *answer: Any, too_late: bool = False
    ) -> HTMLResponse:
        entry = service.entry(request_id, whose(request, token), others=token.audits)
        receipts = await run_in_threadpool(service.receipts, request_id, entry.controller) if token.audits else None
        return page(
            "request.html",
            *answer,
            **shared(request, session, token),
            entry=filed(entry, audits=token.audits),
            **_way(entry, token),
            receipts=sorted(receipts or ()),
            too_late=too_late,
            spelling=told_spelling(entry.spelling),
            separated=entry.asked is not None and "separators" in entry.asked.kinds,
        )

    @router.post("/requests/{request_id}/cancel")
    async def cancel(request: Request, request_id: str) -> Response:
        session, token = who(request, "erase")
        await form_of(request, session)
        try:
            entry = await run_in_threadpool(service.cancel, request_id, whose(request, token), others=token.audits)
        except ConflictError:
            return await request_page(request, session, token, request_id, 409, too_late=True)
        return RedirectResponse(f"/requests/{entry.request_id}{_whose(entry, token)}", 303)

    @router.get("/requests/{request_id}/state.json")
    async def state(request: Request, request_id: str) -> Response:
        _, token = who(request, "erase", "audit")
        return JSONResponse(_way(service.entry(request_id, whose(request, token), others=token.audits), token))

    @router.get("/requests/{request_id}/receipts/{model}")
    async def receipt(request: Request, request_id: str, model: str) -> Response:
        _, token = who(request, "audit")
        found = await run_in_threadpool(service.receipts, request_id, whose(request, token))
        if not found or model not in found:
            raise Refused(404, "there is no such receipt, or not yet.")
        return Response(found[model], headers=receipt_file(model, request_id), media_type="application/json")

    @router.get("/requests/{request_id}/stored")
    async def stored(request: Request, request_id: str) -> Response:
        session, token = who(request, "audit")
        found = await run_in_threadpool(service.stored_of, request_id, whose(request, token))
        told = {name: rows.as_json() for name, rows in found.items()}
        query = f"?{request.url.query}" if request.url.query else ""
        values: dict[str, Any] = {"request_id": request_id, "query": query, "stored": told}
        return page("stored.html", **shared(request, session, token), **values)

    @router.post("/verify/{model}")
    async def verify(request: Request, model: str) -> Response:
        session, _ = who(request, "audit")
        await form_of(request, session)
        await run_in_threadpool(service.verify, model)
        return RedirectResponse("/", 303)

    @router.get("/verify/{model}/state.json")
    async def verification(request: Request, model: str) -> Response:
        who(request, "audit")
        found = service.verification(model)
        return JSONResponse(None if found is None else checked(found).model_dump())

    def receipts_page(request: Request, session: Session, token: Token, *answer: Any, **values: Any) -> HTMLResponse:
        given = {"result": None, "problem": None, "keyid": receipt_key.keyid, **values}
        return page("receipts.html", *answer, **shared(request, session, token), **given)

    @router.get("/receipts")
    async def check_page(request: Request) -> Response:
        return receipts_page(request, *who(request, "erase", "audit"))

    @router.post("/receipts")
    async def check(request: Request) -> Response:
        session, token = who(request, "erase", "audit")
        told = await form_of(request, session)
        try:
            found = check_receipt(told.get("file") or told.get("text", ""), receipt_key)
        except ErasableError as error:
            return receipts_page(request, session, token, 400, problem=str(error))
        now = {name: await run_in_threadpool(service.digest, name) for name in files} if token.audits else {}
        result = {
            "request_id": found.request_id,
            "model": found.model,
            "asked": None if found.asked is None else str(found.asked),
            "spelling": None if found.normalisation is None else told_spelling(found.normalisation),
            "requested": moment(found.requested_at),
            "completed": moment(found.completed_at),
            "digest": found.state_after,
            "guarantee": found.guarantee,
            "is_now": [name for name, digest in now.items() if digest == found.state_after],
            "compared": bool(now),
        }
        return receipts_page(request, session, token, result=result)

    @router.get("/login")
    async def sign_in(request: Request) -> Response:
        return page("login.html", problem=None)

    @router.post("/login")
    async def signed_in(request: Request) -> Response:
        told = await form_of(request, None)
        try:
            name = sessions.begin(told.get("token", "").strip())
        except Refused as refused:
            invalid = "This is no valid token, or it was revoked. Ask the operator for a new one."
            problem = invalid if refused.status == 401 else refused.detail
            return page("login.html", refused.status, refused.headers, problem=problem)
        answer = RedirectResponse("/", 303)
        secure = configuration.url.startswith("https")
        answer.set_cookie(COOKIE, name, max_age=int(SECONDS), httponly=True, samesite="strict", secure=secure)
        return answer

    @router.post("/logout")
    async def sign_out(request: Request) -> Response:
        session, _ = who(request)
        await form_of(request, session)
        sessions.end(request)
        answer = RedirectResponse("/login", 303)
        answer.delete_cookie(COOKIE)
        return answer

    @router.get("/api")
    async def described(request: Request) -> Response:
        session, token = who(request)
        return page("api.html", **shared(request, session, token), api=app.openapi())

    @router.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in _STATIC:
            raise Refused(404, "there is no such file.")
        body = (_HERE / "static" / name).read_bytes()
        return Response(body, headers={"Cache-Control": "max-age=3600"}, media_type=_STATIC[name])

    async def sent_away(request: Request, error: Exception) -> Response:
        return RedirectResponse("/login", 303)

    app.add_exception_handler(_SignIn, sent_away)
    app.include_router(router)

    def as_page(request: Request, refused: Refused) -> Response:
        try:
            found = sessions.of(request)
        except ErasableError:  # tokens cannot be read: nobody is signed in
            found = None
        common = {} if found is None else shared(request, *found)
        lost = refused.status == 404 and "route" not in request.scope
        values = {**common, "signed_in": found is not None, "refused": refused, "lost": lost}
        return page("problem.html", refused.status, refused.headers, **values)

    app.state.as_page = as_page


class _SignIn(Exception):  # noqa: N818 - an answer
    """Nobody is signed in."""


def is_page(path: str) -> bool:
    """Whether people look at this path, rather than programs."""
    return path in ("/", "/login", "/logout", "/api", "/receipts", "/requests") or path.startswith(
        ("/requests/", "/verify/", "/static/")
    )


def form_bytes(path: str) -> int | None:
    """How long a body may be that is sent to a page; None for what is no page."""
    return (_LOGIN_BYTES if path == "/login" else _FORM_BYTES) if is_page(path) else None


def _told(health: Health, token: Token) -> Health:
    """How the service is; what exactly is wrong, which may be that somebody is stored again, is for auditors."""
    return health if token.audits or health.problem is None else replace(health, problem=_KEPT)


def _way(entry: Entry, token: Token) -> dict[str, Any]:
    """How far a request has come, and whether it goes on; receipts are for those who may audit."""
    steps, owed = _steps(entry), entry.owes_receipts and token.audits
    if entry.kind == "erasure" and entry.state is not State.CANCELLED and not token.audits:
        steps = steps[:2]
    return {"steps": steps, "going": entry.settled is None or owed}


def _steps(entry: Entry) -> list[dict[str, Any]]:
    """The way of a request, each step done or not."""
    if entry.state is State.CANCELLED:
        return [_step("Accepted", moment(entry.received)), _step("Cancelled", _when(entry))]
    done = entry.state is State.COMPLETED
    if entry.kind == "access":
        return [
            _step("Accepted, durably", moment(entry.received)),
            _step("Stored rows looked up", _when(entry) if done else None),
        ]
    signed = done and not entry.owes_receipts
    return [
        _step("Accepted, durably", moment(entry.received)),
        _step("Forgotten in every model, old files erased", _when(entry) if done else None),
        _step("State verified, receipt signed", "done" if signed else None),
    ]


def _step(what: str, when: str | None) -> dict[str, Any]:
    return {"what": what, "when": when, "done": when is not None}


def _when(entry: Entry) -> str | None:
    return None if entry.settled is None else moment(entry.settled)


def _listed(entries: list[Entry], token: Token) -> list[Filed]:
    """Requests for a page, the newest first."""
    return [filed(entry, audits=token.audits) for entry in reversed(entries)]


def _forecast(model: Path) -> dict[str, Any] | None:
    """What ``erasable plan --json`` foresaw, where it lies beside the model as ``NAME.plan.json``."""
    try:
        told = json.loads(model.with_suffix(".plan.json").read_text())
        months = told["months_until_refresh"]
        return {"months": None if months is None else float(months)}
    except (OSError, ValueError, TypeError, KeyError):
        return None


def _whose(entry: Filed | Entry, token: Token) -> str:
    """What an address has to add to mean the request of another, whose id the reader may have used too."""
    return "" if entry.controller in ("", token.name) else f"?controller={quote(entry.controller)}"


def _shown(text: str) -> str:
    """A time as people write it: 31 Jan 2026, 12:00:05 UTC."""
    then = datetime.fromisoformat(text)
    return f"{then.day} {then:%b %Y, %H:%M:%S} UTC"


def _size(n: int) -> str:
    return f"{n / 1e6:,.1f} MB" if n >= 1e6 else f"{n / 1e3:,.1f} kB"
