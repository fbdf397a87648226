"""Limits on connections, and on what arrives over them before a token is checked.

A listener closes surplus connections as it accepts them, before TLS begins. A connection counts bytes as they arrive,
before the parser keeps them. Warnings that clients can cause are logged at a bounded rate.
"""

from __future__ import annotations

import errno
import ipaddress
import logging
import resource
import socket
import time
from asyncio import TimerHandle
from collections import Counter
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from erasable.errors import ConfigurationError
from erasable.service.http.configuration import Configuration

log = logging.getLogger("erasable.service")

_OTHER_FILES = 256  # descriptors that are kept free for models, the ledger and other processes
_MOST_HEADERS, _MOST_PIPELINED = 100, 16
_LINGERING = 1.0  # seconds
_LINES, _PER = 20, 60.0  # warnings of one kind that are written in so many seconds


class _HeadWithBody:
    """A transport that sends the head of an answer together with its body, in one packet."""

    def __init__(self, transport: Any) -> None:
        self._transport, self._head = transport, b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Send, unless this is the head of an answer; a 1xx answer has no body and is sent."""
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 1") and not self._head:
            self._head = data
        else:
            data, self._head = self._head + data, b""
            self._transport.write(data)

    def flush(self) -> None:
        """Send a head that nothing followed."""
        if self._head:
            self.write(b"")

    def close(self) -> None:
        """Send what is left, and close."""
        self.flush()
        self._transport.close()


class _TooMuch(Exception):  # noqa: N818 - an answer
    """The client sent more than it may before its request is handled."""


class Connection(HttpToolsProtocol):
    """A connection that limits the head of a request in bytes, headers and seconds; see ``Configuration``.

    ``head_bytes`` also bounds anything else that is no body. ``seconds`` count from the first byte of a head, or from
    the beginning of the connection. Bodies have their own limits.
    """

    head_bytes = Configuration.head_bytes
    seconds = Configuration.head_seconds

    _late: TimerHandle | None = None
    _unused = 0  # bytes since the parser last finished a head or passed on a part of a body
    _size, _in_head, _refusal = 0, True, 400

    @property
    def _idle(self) -> bool:
        cycle: Any = self.cycle  # None before the first request
        return cycle is None or cycle.response_complete

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self.transport = _HeadWithBody(transport)  # type: ignore[assignment]
        self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._expect_no_head()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Parse bytes as they arrive, at most 256 KiB at a time, and refuse the rest of a head that is too long."""
        self._unused += len(data)
        super().data_received(data)
        if not self.transport.is_closing():
            if self._unused > self.head_bytes:
                self._refusal = 431
                self.send_400_response("")
            elif self._idle:
                self._expect_head()

    def on_message_begin(self) -> None:
        """Count a head from its beginning."""
        super().on_message_begin()
        self._size, self._in_head = 0, True

    def on_url(self, url: bytes) -> None:
        """Take a part of the address."""
        if len(self.url) + len(url) > self.head_bytes // 4:
            self._refuse(414)
        self._count(len(url))
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; those that follow a body are counted and dropped."""
        self._count(len(name) + len(value) + 4)
        if self._in_head:
            if len(self.headers) >= _MOST_HEADERS:
                self._refuse(431)
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Pass the request on; from here on its deadline applies."""
        super().on_headers_complete()
        self._unused, self._in_head = 0, False
        self._expect_no_head()
        if len(self.pipeline) > _MOST_PIPELINED:
            self._refuse(429)

    def on_body(self, body: bytes) -> None:
        """Take a part of a body."""
        self._unused = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Take the end of a request."""
        self._unused = 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """An answer is over, perhaps without a body."""
        self.transport.flush()  # type: ignore[attr-defined]
        super().on_response_complete()

    def send_400_response(self, msg: str) -> None:
        """Answer with the refusal, unless another answer is being sent, and close."""
        if self._idle:
            status = f"{self._refusal} {HTTPStatus(self._refusal).phrase}"
            head = f"HTTP/1.1 {status}\r\ncontent-type: text/plain\r\nconnection: close\r\n"
            self.transport.write(f"{head}content-length: {len(status)}\r\n\r\n{status}".encode())
        self._close()

    def _count(self, size: int) -> None:
        self._size += size
        if self._size > self.head_bytes:
            self._refuse(431)

    def _refuse(self, status: int) -> None:
        """Stop the parser, which has ``send_400_response`` called."""
        self._refusal = status
        raise _TooMuch

    def _expect_head(self) -> None:
        if self._late is None:
            self._late = self.loop.call_later(self.seconds, self._give_up)

    def _expect_no_head(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _give_up(self) -> None:
        self._late = None
        if self._idle:
            self._close()

    def _close(self) -> None:
        """Close, and abort soon after if the client does not end TLS or read the answer."""
        self.transport.close()
        self.loop.call_later(_LINGERING, self.transport.abort)


class _Accepted(socket.socket):
    """A connection that calls ``closed`` when it is closed."""

    closed: Callable[[], None] | None = None

    def close(self) -> None:
        closed, self.closed = self.closed, None
        super().close()
        if closed is not None:
            closed()


class Listener(socket.socket):
    """A listening socket that closes connections beyond the limits as soon as it has accepted them.

    The limits are ``connections`` in all and ``connections_each`` for each address; ``proxies`` stand for many clients,
    so only the first applies to them. A network of 2^64 IPv6 addresses counts as one address. ``opened`` has the number
    of connections of each address, and is shared by all listeners.
    """

    def __init__(self, family: int, limits: Configuration, opened: Counter[Any]) -> None:
        super().__init__(family, socket.SOCK_STREAM)
        self._limits, self._opened = limits, opened
        self._proxies = [ipaddress.ip_network(text) for text in limits.proxies]

    def accept(self) -> tuple[socket.socket, Any]:
        """Accept a connection; ``BlockingIOError``, as if there had been none, if it is one too many."""
        descriptor, address = self._accept()  # type: ignore[attr-defined]
        accepted = _Accepted(self.family, self.type, self.proto, fileno=descriptor)
        client = _client(address)
        trusted = any(client in network for network in self._proxies)
        key = client if client.version == 4 else int(client) >> 64
        in_all, of_one = self._opened.total() >= self._limits.connections, self._opened[key]
        if in_all or (of_one >= self._limits.connections_each and not trusted):
            accepted.close()
            log.warning("a connection was closed: too many are open %s.", "in all" if in_all else "from one address")
            raise BlockingIOError
        self._opened[key] += 1

        def closed() -> None:
            self._opened[key] -= 1
            if not self._opened[key]:
                del self._opened[key]

        accepted.closed = closed
        return accepted, address


def listeners(limits: Configuration) -> list[socket.socket]:
    """Sockets bound to the configured host and port; ``ConfigurationError`` if the address cannot be used."""
    _allow_files(limits)
    bound: list[socket.socket] = []
    opened: Counter[Any] = Counter()
    try:
        found = socket.getaddrinfo(limits.host, limits.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        for family, _, _, _, address in dict.fromkeys(found):
            one = Listener(family, limits, opened)
            bound.append(one)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                one.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                one.bind(address)
            except OSError as error:
                if error.errno != errno.EADDRNOTAVAIL or len(found) == 1:  # such as ::1 where there is no IPv6
                    raise
                bound.pop().close()
    except OSError as error:
        for each in bound:
            each.close()
        raise ConfigurationError(
            f"cannot listen at {limits.host}, port {limits.port}: {error.strerror}. Choose another host or port."
        ) from error
    return bound


def _allow_files(limits: Configuration) -> None:
    """Raise the limit of open files to what the connections need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = limits.connections + _OTHER_FILES
    if soft != resource.RLIM_INFINITY and soft < needed:
        if hard != resource.RLIM_INFINITY and hard < needed:
            raise ConfigurationError(
                f"connections = {limits.connections} needs {needed} open files, and this process may open {hard}: "
                "raise that limit (LimitNOFILE, ulimit -n), or allow fewer connections."
            )
        resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


class BoundedLog(logging.Filter):
    """Lets each place in the code log some warnings a minute, and then says how many were left out."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._clock = clock
        self._counts: dict[tuple[str, int], tuple[float, int]] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is written."""
        if record.levelno < logging.WARNING:
            return True
        place, now = (record.pathname, record.lineno), self._clock()
        since, count = self._counts.get(place, (now, 0))
        if now - since >= _PER:
            if count > _LINES:
                left_out = f"{count - _LINES} such warnings before this one were left out"
                record.msg, record.args = f"{record.getMessage()} ({left_out})", ()
            since, count = now, 0
        self._counts[place] = since, count + 1
        return count < _LINES


def bound_logs() -> None:
    """Bound the rate of the loggers that clients can make write."""
    for name in ("uvicorn.error", "asyncio", log.name):
        logger = logging.getLogger(name)
        if not any(isinstance(one, BoundedLog) for one in logger.filters):
            logger.addFilter(BoundedLog())


def _client(address: tuple[str, ...]) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    client = ipaddress.ip_address(address[0])
    return getattr(client, "ipv4_mapped", None) or client
