"""What every page of the console depends on: the viewer, forms of our own pages, and the rendering of pages."""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Annotated
from urllib.parse import quote, urljoin

from fastapi import Depends, Request
from fastapi.responses import HTMLResponse

from erasable.pages import render
from erasable.service.http.api import Filed
from erasable.service.http.envelope import waiting_of
from erasable.service.http.problems import Refused
from erasable.service.http.site import Session, Site, TheSite, site_of
from erasable.service.requests import Entry
from erasable.service.tokens import Token

COOKIE = "erasable_session"
_FORM_BYTES, _LOGIN_BYTES = 2**18, 2**13  # forms are read in the event loop, and that to sign in from anybody
_LONGEST_NUMBER = 7  # digits of a page
_FORMATS = {"raw": "Plain text", "sha256": "SHA-256", "sha1": "SHA-1", "md5": "MD5"}
_KEPT = "Accepted requests are kept, and carried out as soon as it is ready. The operator sees what is wrong."


class SignIn(Exception):  # noqa: N818 - an answer
    """Nobody is signed in."""


class Viewer:
    """A person who is signed in, and the request for a page."""

    def __init__(self, request: Request, session: Session, token: Token) -> None:
        self.request, self.session, self.token = request, session, token
        self.site: Site = site_of(request)

    @property
    def scope(self) -> str | None:
        """The controller whose requests the viewer may see; None for those of all."""
        return None if self.token.audits else self.token.name

    @property
    def page_number(self) -> int:
        """Which page of a list the address means, from 0 on."""
        text = self.request.query_params.get("page", "")
        return max(int(text) - 1, 0) if text.isdecimal() and len(text) < _LONGEST_NUMBER else 0

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
        return page(name, status, headers, **common, **values)


async def signed_in(request: Request, site: TheSite) -> Viewer:
    """A dependency: the viewer."""
    found = site.session(request.cookies.get(COOKIE, ""))
    if found is None:
        raise SignIn
    site.count(found[1])
    return Viewer(request, *found)


AnyViewer = Annotated[Viewer, Depends(signed_in)]


def _viewer(*scopes: str) -> Callable[[Viewer], Viewer]:
    """A dependency: the viewer, whose token has one of these scopes."""

    def viewer(viewer: AnyViewer) -> Viewer:
        viewer.site.check_scopes(viewer.token, *scopes)
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
            if isinstance(value, str):
                fields[name] = value
            else:
                fields[name] = (await value.read()).decode("utf-8", "replace")
                fields[f"{name}.name"] = value.filename or ""
    return fields


async def own_form(viewer: AnyViewer, fields: Annotated[Mapping[str, str], Depends(login_form)]) -> Mapping[str, str]:
    """A dependency: the fields of a form that was made for this session."""
    if not hmac.compare_digest(fields.get("form", "").encode(), viewer.session.form.encode()):
        raise Refused(403, "this form is out of date: go back, load the page again and send it once more.")
    return fields


OwnForm = Annotated[Mapping[str, str], Depends(own_form)]


def page(name: str, status: int = 200, headers: Mapping[str, str] | None = None, **values: object) -> HTMLResponse:
    """A page that needs no viewer."""
    shared = {"whose": controller_query, "formats": _FORMATS, "type_words": _type_words}
    return HTMLResponse(render(f"console/{name}", **shared, **values), status, headers)


def _type_words(name: str) -> str:
    """A type of identity in words: ``controller_customer_id`` is a customer id."""
    words = name.removeprefix("controller_").replace("_", " ")
    return words[:1].upper() + words[1:]


def controller_query(entry: Filed | Entry, token: Token) -> str:
    """What an address adds to mean the request of another controller, whose id the viewer may have used too."""
    return "" if entry.controller in ("", token.name) else f"?controller={quote(entry.controller)}"
