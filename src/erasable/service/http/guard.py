"""Who may ask for what, how much at once, and what every answer carries."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated, Any

from fastapi import Depends, Request, Response
from fastapi.routing import APIRoute
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from starlette.routing import Match
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from erasable.service.http.configuration import Configuration
from erasable.service.http.metrics import Metrics
from erasable.service.http.patience import Patience
from erasable.service.http.problems import Refused
from erasable.service.tokens import Token, TokenFile

log = logging.getLogger("erasable.service")

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
_LONGEST_NAMED = 10_000  # tokens whose rate is known at a time

_bearer = HTTPBearer(auto_error=False, description="A token made with `erasable token make`.")


class Rates:
    """How often each token may ask: a bucket that fills at a rate and holds a burst."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Zero, and one is taken; or the seconds until there is one."""
        now = self._clock()
        left, then = self._left.get(name, (float(self._burst), now))
        left = min(float(self._burst), left + (now - then) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        if len(self._left) > _LONGEST_NAMED:
            self._left.clear()
        self._left[name] = (left - 1, now)
        return 0.0


class Direct(APIRoute):
    """Routes whose handlers are called with the request and what stands in its path, once the caller is admitted.

    What FastAPI makes of signatures and dependencies costs more than a prediction: here they describe alone. Errors
    are for :class:`Envelope`, which calls these routes by itself. They must be added to the application, not to a
    router within it.
    """

    #: Who sent a token; ``Refused`` where that must not ask.
    admitted: Callable[[str], Token]

    def __init__(self, *given: Any, **options: Any) -> None:
        super().__init__(*given, **options)
        self.app = self._answered

    async def _answered(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        kind, _, token = request.headers.get("Authorization", "").partition(" ")
        scope["caller"] = self.admitted(token.strip() if kind.lower() == "bearer" else "")
        answer: Response = await self.endpoint(request, **scope["path_params"])
        await answer(scope, receive, send)


def caller_of(request: Request) -> Token:
    """Whose request came to a direct route."""
    found: Token = request.scope["caller"]
    return found


class Guard:
    """Tokens and rates, as dependencies of routes."""

    def __init__(self, tokens: TokenFile, configuration: Configuration) -> None:
        self.tokens, self.rates = tokens, Rates(configuration.rate, configuration.burst)

    def needs(self, *scopes: str) -> Callable[..., Awaitable[Token]]:
        """A dependency: the token of the caller, who has one of these scopes, or any where none is named.

        Raises
        ------
        Refused
            401 without a token, 403 without the scope, 429 beyond the rate.
        """

        async def caller(given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]) -> Token:
            return self.admitted(given.credentials if given is not None else "", *scopes)

        return caller

    def direct(self, *scopes: str) -> type[Direct]:
        """Routes for callers that have one of these scopes; see :class:`Direct`."""
        return type("Admitting", (Direct,), {"admitted": staticmethod(lambda token: self.admitted(token, *scopes))})

    def admitted(self, token: str, *scopes: str) -> Token:
        """What is known of the token; see :meth:`needs`."""
        known = self.tokens.of(token)
        if known is None:
            raise Refused(401, "a valid bearer token is required.", {"WWW-Authenticate": "Bearer"})
        self.count(known)
        if scopes and set(known.scopes).isdisjoint(scopes):
            raise Refused(403, f"this token lacks the scope {' or '.join(scopes)}.")
        return known

    def count(self, token: Token) -> None:
        """One more request with this token; ``Refused`` with 429 beyond the rate."""
        if wait := self.rates.take(token.name):
            raise Refused(429, "too many requests with this token: slow down.", {"Retry-After": str(1 + int(wait))})


class Envelope:
    """Around all routes: limits on bodies and time, headers of every answer, figures, and one line of log."""

    def __init__(
        self,
        whole: ASGIApp,
        app: ASGIApp,
        configuration: Configuration,
        metrics: Metrics,
        answer: Callable[[Request, Exception], Response],
        form_bytes: Callable[[str], int | None],
        direct: Sequence[Direct],
    ) -> None:
        self.whole, self.app, self.limits, self.metrics, self.answer = whole, app, configuration, metrics, answer
        self.form_bytes, self.direct = form_bytes, direct

    def _inside(self, scope: Scope) -> ASGIApp:
        """What answers a request: a direct route, or all that FastAPI puts before the others."""
        for route in self.direct:
            match, found = route.matches(scope)
            if match is Match.FULL:
                scope.update(found)
                return route.app
        return self.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        scope["app"] = self.whole  # whoever called: what answers an address that leads nowhere asks for it
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began, status, read = time.perf_counter(), 0, 0
        scope["patience"] = patience = Patience()
        most = min(self.limits.body_bytes, self.form_bytes(scope["path"]) or self.limits.body_bytes)

        async def limited() -> Message:
            nonlocal read
            message = await receive()
            read += len(message.get("body", b""))
            if read > most:
                raise Refused(413, f"the body is longer than the {most:,} bytes that are read.")
            return message

        async def dressed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name for name, _ in message["headers"]}
                message["headers"] = [*message["headers"], *(pair for pair in _RAW_HEADERS if pair[0] not in names)]
            await send(message)

        try:
            async with asyncio.timeout(self.limits.deadline):
                await self._inside(scope)(scope, limited, dressed)
        except Exception as error:
            if status:  # part of an answer is on its way
                raise ConnectionError("an answer was cut off") from None
            late = isinstance(error, TimeoutError)
            known = Refused(
                504, "the request took longer than its deadline and is given up, unless it is being written."
            )
            await self.answer(Request(scope, receive), known if late else error)(scope, receive, dressed)
        finally:
            patience.end()
            route = getattr(scope.get("route"), "path", "none")
            seconds = time.perf_counter() - began
            self.metrics.answered(scope["method"], route, status, seconds)
            log.info("%s %s %d %.1f ms", scope["method"], route, status, 1000 * seconds)
