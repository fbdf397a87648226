"""What all routes share: the service, tokens and their rates, signed-in people, figures. Routes depend on it."""

from __future__ import annotations

import json
import math
import secrets
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

from anyio import CapacityLimiter
from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from erasable.service.http.configuration import Configuration
from erasable.service.http.problems import Refused
from erasable.service.service import ErasureService
from erasable.service.tokens import Token, TokenFile

if TYPE_CHECKING:
    from erasable.service.http.opendsr import Signer

_LONGEST_NAMED = 10_000  # tokens whose rate is known at a time
_LONGEST_WAIT, _FORGIVEN = 900.0, 3600.0  # seconds between two failed sign-ins, and until they are forgotten
_LEARNING = 2  # at once, one of which reads: those that wait for it take no thread from erasures
_SESSION_SECONDS = 8 * 3600.0
_MOST_SESSIONS, _MOST_SESSIONS_EACH = 1000, 20
_METHODS = ("GET", "POST", "DELETE", "HEAD", "PUT", "PATCH", "OPTIONS")
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_GAUGES = {
    "ready": "Whether the service has recovered, accepts requests and its last commit succeeded.",
    "waiting": "Requests that are not settled.",
    "overdue": "Of these, past their expected completion.",
    "receipts_owed": "Receipts that are not signed yet.",
    "oldest_receipt_seconds": "For how long the oldest of these has been owed; 0 without any.",
    "callbacks_owed": "Callbacks that are not delivered yet.",
}

_bearer = HTTPBearer(auto_error=False, description="A token made with `erasable token make`.")


class Rates:
    """How often each token may ask: a bucket that fills at a rate and holds a burst."""

    def __init__(self, rate: float, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._rate, self._burst, self._clock = rate, burst, clock
        self._left: dict[str, tuple[float, float]] = {}

    def take(self, name: str) -> float:
        """Take one and return zero, or return the seconds until there is one."""
        now = self._clock()
        left, then = self._left.get(name, (float(self._burst), now))
        left = min(float(self._burst), left + (now - then) * self._rate)
        if left < 1:
            return (1 - left) / self._rate
        if len(self._left) > _LONGEST_NAMED:
            self._left.clear()
        self._left[name] = (left - 1, now)
        return 0.0


class FailedSignIns:
    """How long each source has to wait after sending texts that are no tokens: a few are free, then ever longer.

    Valid tokens are accepted meanwhile. Nobody can guess one, and so a stranger behind the same address, or the same
    proxy, locks nobody out.
    """

    def __init__(self, free: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._free, self._clock = free, clock
        self._counts: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def add(self, source: str) -> float:
        """Count a failure and return zero, or return the seconds that are left to wait."""
        now = self._clock()
        count, until = self._counts.pop(source, (0, now))
        if now < until:
            self._counts[source] = (count, until)
            return until - now
        count = 1 if now - until > _FORGIVEN else count + 1
        # 2.0 ** 1024 would overflow.
        wait = min(2.0 ** min(count - self._free, 30), _LONGEST_WAIT) if count >= self._free else 0.0
        self._counts[source] = (count, now + wait)
        if len(self._counts) > _LONGEST_NAMED:
            self._counts.popitem(last=False)
        return 0.0


def source_of(request: Request) -> str:
    """The address that a request came from; a network of 2^64 IPv6 addresses counts as one."""
    try:
        client = ip_address(request.client.host if request.client else "")
    except ValueError:
        return ""
    client = getattr(client, "ipv4_mapped", None) or client
    return str(client) if client.version == 4 else str(ip_network((client, 64), strict=False))


@dataclass
class Session:
    """A person who signed in to the console with a token. Only its hash is held, and only in memory."""

    hash: str
    form: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    until: float = field(default_factory=lambda: time.monotonic() + _SESSION_SECONDS)


class Metrics:
    """Figures for Prometheus: counts and times of routes, requests by state. No identity, and no digest."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        labels = ["method", "route", "status"]
        self._answers = Counter("erasable_http_answers", "Answers by route and status.", labels, registry=registry)
        self._seconds = Histogram(
            "erasable_http_seconds", "Time to an answer.", labels[:2], registry=registry, buckets=_BUCKETS
        )
        self._rows = Counter("erasable_rows_predicted", "Rows predicted.", ["model"], registry=registry)
        self._gauges = {name: Gauge(f"erasable_{name}", text, registry=registry) for name, text in _GAUGES.items()}
        self._labelled: dict[tuple[Any, ...], Any] = {}  # looking labels up takes long

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count an answer."""
        method = method if method in _METHODS else "other"
        self._of(self._answers, method, route, status).inc()
        self._of(self._seconds, method, route).observe(seconds)

    def predicted(self, model: str, rows: int) -> None:
        """Count predicted rows."""
        self._of(self._rows, model).inc(rows)

    def _of(self, metric: Counter | Histogram, *labels: str | int) -> Any:
        if (metric, *labels) not in self._labelled:
            self._labelled[metric, *labels] = metric.labels(*labels)
        return self._labelled[metric, *labels]

    def text(self, service: ErasureService) -> bytes:
        """All figures in the format of Prometheus."""
        health = service.health()
        for name, gauge in self._gauges.items():
            gauge.set(float(getattr(health, name)))
        return generate_latest(self.registry)


class Site:
    """One service and everything around it that routes need: see ``create_app``."""

    def __init__(
        self, service: ErasureService, tokens: TokenFile, configuration: Configuration, signer: Signer | None = None
    ) -> None:
        self.service, self.tokens, self.configuration, self._signer = service, tokens, configuration, signer
        self.files: dict[str, Path] = configuration.model_files()
        self.metrics, self.rates = Metrics(), Rates(configuration.rate, configuration.burst)
        self.failures = FailedSignIns(configuration.failed_sign_ins)
        self.learning = CapacityLimiter(_LEARNING)
        self._sessions: dict[str, Session] = {}

    @property
    def signer(self) -> Signer:
        """The signer of OpenDSR answers, whose routes are served only with one."""
        assert self._signer is not None
        return self._signer

    def admit(self, token: str, source: str, *scopes: str) -> Token:
        """The record of a token that has one of these scopes, or any scope if none is named.

        Raises ``Refused``: 401 without a valid token, 403 without the scope, 429 beyond the rate, or if the source has
        sent too many texts that are no tokens. The last is looked at after the token, in the same way for all texts.
        """
        known = self.tokens.of(token)
        if known is None:
            self._note_failure(token, source)
            raise Refused(401, "a valid bearer token is required.", {"WWW-Authenticate": "Bearer"})
        self.count(known)
        return self.check_scopes(known, *scopes)

    def _note_failure(self, token: str, source: str) -> None:
        """Count a text that is no token; ``Refused`` with 429 if the source has to wait. None at all is no attempt."""
        if not token:
            return
        self.service.incidents.add("sign-in-failed")
        if wait := self.failures.add(source):
            seconds = math.ceil(wait)
            raise Refused(
                429,
                f"too many invalid tokens came from this address: try again in {seconds} seconds. A valid token is "
                "accepted meanwhile.",
                {"Retry-After": str(seconds)},
            )

    def check_scopes(self, token: Token, *scopes: str) -> Token:
        """The token; ``Refused`` if it has none of these scopes, which the audit trail counts."""
        if scopes and set(token.scopes).isdisjoint(scopes):
            self.service.incidents.add("scope-refused", token.name)
            raise Refused(403, f"this token lacks the scope {' or '.join(scopes)}.")
        return token

    def count(self, token: Token) -> None:
        """Count a request with this token; ``Refused`` with 429 beyond the rate."""
        if wait := self.rates.take(token.name):
            raise Refused(429, "too many requests with this token: slow down.", {"Retry-After": str(1 + int(wait))})

    def sign_in(self, text: str, source: str) -> tuple[str, int]:
        """The name of a new session and its seconds; ``Refused`` for an invalid token."""
        token, now = self.admit(text, source), time.monotonic()
        self._sessions = {name: one for name, one in self._sessions.items() if one.until > now}
        own = [name for name, one in self._sessions.items() if one.hash == token.hash]
        for name in own[: len(own) + 1 - _MOST_SESSIONS_EACH]:  # the oldest
            del self._sessions[name]
        if len(self._sessions) >= _MOST_SESSIONS:
            raise Refused(429, "too many people are signed in.", {"Retry-After": "600"})
        name = secrets.token_urlsafe(32)
        self._sessions[name] = Session(token.hash)
        return name, int(_SESSION_SECONDS)

    def session(self, name: str) -> tuple[Session, Token] | None:
        """A session that is open and whose token was not revoked."""
        session = self._sessions.get(name)
        if session is None or session.until <= time.monotonic():
            return None
        token = self.tokens.of_hash(session.hash)
        return None if token is None else (session, token)

    def sign_out(self, name: str) -> None:
        """End a session."""
        self._sessions.pop(name, None)

    def only_model(self, name: str | None) -> str:
        """The name of a model: the given one, or that of the only one."""
        if name is None and len(self.service.models) > 1:
            raise Refused(400, "several models are served: name one with ?model=.")
        return self.service.snapshot(name if name is not None else self.service.models[0]).name


def site_of(request: Request) -> Site:
    """The site of the application that a request came to."""
    site: Site = request.app.state.site
    return site


def needs(*scopes: str) -> Callable[..., Awaitable[Token]]:
    """A dependency: the token of the caller, which has one of these scopes, or any if none is named."""

    async def caller(
        request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_bearer)]
    ) -> Token:
        text = given.credentials if given is not None else ""
        return site_of(request).admit(text, source_of(request), *scopes)

    return caller


def no_constant(name: str) -> NoReturn:
    """For ``json.loads``: refuse NaN and the infinities, which JSON does not have."""
    raise ValueError(name)


def unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For ``json.loads``: refuse an object with a key that occurs twice, since readers differ in which they take."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError
    return found


_STRICT_JSON = json.JSONDecoder(parse_constant=no_constant, object_pairs_hook=unique_keys)  # to make one takes long


def read_json(body: bytes) -> Any:
    """A body of JSON; ``Refused`` if it is none, or if an object has a key twice."""
    try:
        return _STRICT_JSON.decode(body.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise Refused(400, "body: is not JSON, or has a key twice") from None


TheSite = Annotated[Site, Depends(site_of)]
Auditor = Annotated[Token, Depends(needs("audit"))]
Eraser = Annotated[Token, Depends(needs("erase"))]
