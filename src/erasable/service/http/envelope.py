"""What surrounds every request, and the one bypass of FastAPI: direct routes.

:class:`Envelope` limits bodies and time, adds headers to every answer, counts it and logs one line.

Predictions and erasure requests go to a :class:`DirectRoute`. FastAPI's own handling of signatures, dependencies and
middleware would add 110 microseconds of processor time or more to the 280 of a prediction of one row, which itself
takes 26. So the envelope calls these handlers itself with the request and its path parameters, once the token is
admitted; their signatures only describe them. A direct route must be added to the application itself, not to a router.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Callable
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import FastAPI, Request, Response
from fastapi.routing import APIRoute
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from erasable.service.http.problems import Refused
from erasable.service.http.site import site_of, source_of
from erasable.service.tokens import Token

log = logging.getLogger("erasable.service")
T = TypeVar("T")

#: Of every answer. No script but our own files, nothing framed, nothing kept by caches.
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "same-origin",  # without any, browsers leave the origin out of forms
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Cache-Control": "no-store",
}
_RAW_HEADERS = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]
_HOST = re.compile(rb"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?")
#: Headers that must not be repeated: a proxy and this service could each obey another one.
_SINGLE = (b"host", b"authorization", b"content-type", b"idempotency-key")
#: Probes name the address of a container, or no host at all. They learn one bit.
_PROBED = ("/v2/health/live", "/v2/health/ready")
_LATE = "the request took longer than its deadline and is given up, unless it is being written."


class DirectRoute(APIRoute):
    """A route whose handler is called without FastAPI; see the top of this file and :func:`direct`."""

    scopes: tuple[str, ...] = ()

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.app = self._answer

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        text = token.strip() if kind.lower() == "bearer" else ""
        scope["caller"] = site_of(request).admit(text, source_of(request), *self.scopes)
        answer: Response = await self.endpoint(request, **scope["path_params"])
        await answer(scope, receive, send)


def direct(*scopes: str) -> type[DirectRoute]:
    """The class of direct routes for callers with one of these scopes."""
    return type("Admitting", (DirectRoute,), {"scopes": scopes})


def caller_of(request: Request) -> Token:
    """The token of a request to a direct route."""
    found: Token = request.scope["caller"]
    return found


class WaitingClient:
    """Whether the client still waits for the answer to its request.

    A thread cannot be stopped from outside. So long work calls ``check`` between two blocks of rows, and stops there.
    Nothing half-done stays, since a model is changed in memory and written once.
    """

    def __init__(self, body_bytes: int) -> None:
        self._over = False
        self.body_bytes = body_bytes  # the longest body; a route may lower it before it reads

    def end(self) -> None:
        """Note that the deadline is over, or that the client has disconnected."""
        self._over = True

    def check(self) -> None:
        """Raise ``Refused`` if the client does not wait any more."""
        if self._over:
            raise Refused(504, "the client does not wait any more: this was given up, and nothing was changed.")


def waiting_of(request: Request) -> WaitingClient:
    """Whether the client of a request still waits; it ends with the request."""
    found: WaitingClient = request.scope["waiting"]
    return found


async def in_thread(request: Request, call: Callable[..., T], *given: Any, limiter: CapacityLimiter | None = None) -> T:
    """The result of a call in a thread, which is told when the client disconnects. The body was read before."""
    waiting = waiting_of(request)

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        waiting.end()

    watching = asyncio.create_task(watch())
    try:
        return await to_thread.run_sync(call, *given, limiter=limiter)
    finally:
        watching.cancel()


class Envelope:
    """The ASGI application around all routes, in place of FastAPI's middleware.

    ``answer`` makes an answer of an exception.
    """

    def __init__(self, app: FastAPI, answer: Callable[[Request, Exception], Response]) -> None:
        self._whole, self._answer = app, answer
        # Within FastAPI's own handler of errors, which is not needed.
        self._app: ASGIApp = app.build_middleware_stack().app  # type: ignore[attr-defined]
        self._limits, self._metrics = app.state.site.configuration, app.state.site.metrics
        self._direct = [route for route in app.routes if isinstance(route, DirectRoute)]

    def _inside(self, scope: Scope) -> ASGIApp:
        """The direct route of a request, or FastAPI."""
        for route in self._direct:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route.app
        return self._app

    def _check_head(self, scope: Scope) -> None:
        """Raise ``Refused`` for headers that occur twice, and for a host that the service does not answer for."""
        given = [(name, value) for name, value in scope["headers"] if name in _SINGLE]
        if len({name for name, _ in given}) < len(given):
            raise Refused(400, "a header that may occur once occurs twice: host, authorization, content-type or a key.")
        host = dict(given).get(b"host", b"")
        if scope["path"] in _PROBED and not (host == b"" and scope.get("http_version") == "1.1"):
            return
        if (named := _HOST.fullmatch(host)) is None:
            raise Refused(400, "the request must name its host in one Host header.")
        if not self._limits.serves_host(named[1].decode(), (scope.get("server") or ("",))[0]):
            raise Refused(421, "the service does not answer for this host: its operator can add it to allowed_hosts.")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        scope["app"] = self._whole
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["path"].endswith("/") and len(scope["path"]) > 1:  # as OpenDSR writes its addresses
            scope["path"] = scope["path"][:-1]
        began, status, read = time.perf_counter(), 0, 0
        scope["waiting"] = waiting = WaitingClient(self._limits.body_bytes)

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > waiting.body_bytes:
                raise Refused(413, f"the body is longer than the {waiting.body_bytes:,} bytes that are read.")
            return message

        async def with_headers(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _RAW_HEADERS if pair[0] not in names)]
            await send(message)

        try:
            self._check_head(scope)
            async with asyncio.timeout(self._limits.deadline):
                await self._inside(scope)(scope, limited, with_headers)
        except Exception as error:
            if status:  # part of an answer was sent
                raise ConnectionError("an answer was cut off") from None
            problem = Refused(504, _LATE) if isinstance(error, TimeoutError) else error
            await self._answer(Request(scope, receive), problem)(scope, receive, with_headers)
        finally:
            waiting.end()
            route = getattr(scope.get("route"), "path", "none")
            seconds = time.perf_counter() - began
            self._metrics.answered(scope["method"], route, status, seconds)
            log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)
