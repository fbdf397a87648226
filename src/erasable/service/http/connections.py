"""The listening socket, and the one limit on connections that uvicorn does not have: time for the head of a request."""

from __future__ import annotations

import socket
from asyncio import TimerHandle
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

from erasable.errors import ConfigurationError
from erasable.service.http.configuration import Configuration


class Connection(H11Protocol):
    """A connection that is closed if the head of a request takes longer than ``head_seconds`` to arrive.

    uvicorn waits for a head for ever, and counts the connection among those that it serves. So a few clients that send
    nothing would keep out all others. Bodies have the deadline of their request.
    """

    head_seconds = 10.0
    _late: TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        """Wait for the first head."""
        super().connection_made(transport)
        self._watch_head()

    def data_received(self, data: bytes) -> None:
        """Wait for the rest of a head, if this is not its end."""
        super().data_received(data)
        self._watch_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._end_watch()
        super().connection_lost(exc)

    def _watch_head(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._end_watch()
        elif self._late is None:
            self._late = self.loop.call_later(self.head_seconds, self.timeout_keep_alive_handler)

    def _end_watch(self) -> None:
        if self._late is not None:
            self._late.cancel()
            self._late = None


def listening(configuration: Configuration) -> socket.socket:
    """A socket bound to the configured host and port; ``ConfigurationError`` if the address cannot be used.

    Clients are refused until uvicorn listens, when the service has recovered.
    """
    host, port = configuration.host, configuration.port
    bound = None
    try:
        found = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = min(found)  # IPv4 where a name has both, such as localhost
        # With the protocol named, asyncio sends head and body of an answer at once. Otherwise the body waits until the
        # client has confirmed the head, which takes many of them 40 milliseconds.
        bound = socket.socket(family, kind, protocol)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            bound.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        bound.bind(address)
        return bound
    except OSError as error:
        if bound is not None:
            bound.close()
        raise ConfigurationError(
            f"cannot listen at {host}, port {port}: {error.strerror}. Choose another host or port."
        ) from error
