"""Who is signed in to the console."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from fastapi import Request

from erasable.service.http.guard import Guard
from erasable.service.http.problems import Refused
from erasable.service.tokens import Token

COOKIE = "erasable_session"
SECONDS = 8 * 3600.0
_MOST, _MOST_OF_ONE = 1000, 20


@dataclass
class Session:
    """Somebody who signed in with a token. Only its hash is held, and only in memory."""

    hash: str
    form: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    until: float = field(default_factory=lambda: time.monotonic() + SECONDS)


class Sessions:
    """Those who are signed in."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self._open: dict[str, Session] = {}

    def begin(self, text: str) -> str:
        """The name of a new session; ``Refused`` where the token is none."""
        token = self.guard.admitted(text)
        now = time.monotonic()
        self._open = {name: one for name, one in self._open.items() if one.until > now}
        own = [name for name, one in self._open.items() if one.hash == token.hash]
        for name in own[: len(own) + 1 - _MOST_OF_ONE]:  # the oldest
            del self._open[name]
        if len(self._open) >= _MOST:
            raise Refused(429, "too many people are signed in.", {"Retry-After": "600"})
        name = secrets.token_urlsafe(32)
        self._open[name] = Session(token.hash)
        return name

    def of(self, request: Request) -> tuple[Session, Token] | None:
        """Who asks, where a session is open and its token has not been revoked."""
        session = self._open.get(request.cookies.get(COOKIE, ""))
        if session is None or session.until <= time.monotonic():
            return None
        token = self.guard.tokens.known(session.hash)
        return None if token is None else (session, token)

    def end(self, request: Request) -> None:
        """Sign out."""
        self._open.pop(request.cookies.get(COOKIE, ""), None)
