"""What anybody can send without a token: heads, addresses, connections and idle time are bounded, and so is the log."""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import resource
import socket
import time
from pathlib import Path

import pytest

from erasable.errors import ConfigurationError, StoreError
from erasable.service.http import connections
from erasable.service.http.configuration import Configuration, read_configuration
from erasable.service.http.connections import BoundedLog, Connection, listeners
from erasable.service.http.problems import refusal_of
from tests.service.http.conftest import serving
from tests.waiting import PATIENCE, until

HEAD_BYTES = 2048
FLOOD = 4 * 2**20  # bytes, in parts


async def app(scope, receive, send):
    """Reads the body, then answers."""
    if scope["type"] == "http":
        while (await receive()).get("more_body"):
            pass
        told = str(len(scope["headers"])).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(told))]})
        await send({"type": "http.response.body", "body": told})


class Watched(Connection):
    """Knows how much memory a head has taken: all that is kept of one is in these."""

    head_bytes, seconds, most, parsed, queued = HEAD_BYTES, PATIENCE, 0, 0, 0

    def data_received(self, data):
        type(self).parsed += len(data)
        super().data_received(data)
        kept = sum(len(name) + len(value) for name, value in self.headers or ()) + len(getattr(self, "url", b""))
        type(self).most, type(self).queued = max(self.most, kept), max(self.queued, len(self.pipeline))


def flooded(port, start, part):
    """What is answered to a start and then one part after another, which are not read to their end."""
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        answer = b""
        with contextlib.suppress(ConnectionError):
            line.sendall(start)
            for _ in range(FLOOD // len(part)):
                line.sendall(part)
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(4096):
                answer += piece
        return answer


@pytest.fixture(scope="module")
def port():
    with serving(app, http=Watched, lifespan="off") as base:
        yield int(base.rpartition(":")[2])


GET = b"GET / HTTP/1.1\r\nHost: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("start", "part"),
    [
        (GET, b"X-Y: " + b"z" * 1000 + b"\r\n"),
        (GET, b"a:\r\n" * 300),
        (GET + b"X-Y: ", b"z" * 8192),
        (GET, b"x" * 8192),
        (b"GET /", b"a" * 8192),
        (b"GET /?", b"b=c&" * 2048),
        (b"", b"A" * 8192),
        (b"", b"\r\n" * 4096),
        (CHUNKED + b"1;", b"e" * 8192),
        (CHUNKED + b"0\r\n", b"X-Y: " + b"z" * 1000 + b"\r\n"),
        (CHUNKED + b"0\r\nX-Y: ", b"z" * 8192),
        (b"", GET.replace(b"GET", b"POST") + b"Content-Length: 5\r\n\r\n"),
        (b"", (GET + b"\r\n") * 400),
        (GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"z" * 8192),
    ],
)
def test_a_flood_before_a_token_is_cut_off_and_takes_no_memory(port, start, part):
    Watched.most = Watched.parsed = Watched.queued = 0
    answer = flooded(port, start, part)
    assert Watched.most <= HEAD_BYTES
    assert Watched.queued <= connections._MOST_PIPELINED + 1
    assert Watched.parsed <= 3 * 2**18, "it was read on after it was refused"
    assert not answer or answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 414", b"HTTP/1.1 431", b"HTTP/1.1 200")


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + b"\r\n", 200),
        (GET + b"a:\r\n" * 99 + b"\r\n", 200),
        (GET + b"a:\r\n" * 100 + b"\r\n", 431),
        (GET + b"a: " + b"b" * HEAD_BYTES + b"\r\n\r\n", 431),
        (b"GET /" + b"c" * (HEAD_BYTES // 4 - 1) + b" HTTP/1.1\r\nHost: x\r\n\r\n", 200),
        (b"GET /" + b"c" * (HEAD_BYTES // 4) + b" HTTP/1.1\r\nHost: x\r\n\r\n", 414),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_a_head_at_a_limit_is_served_and_one_beyond_is_refused_with_its_status(port, head, status):
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        line.sendall(head)
        assert line.recv(4096).startswith(b"HTTP/1.1 %d " % status)


def test_headers_after_a_body_are_no_headers_of_the_request(port):
    with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
        line.sendall(CHUNKED + b"3\r\nabc\r\n0\r\nAuthorization: Bearer x\r\n\r\n" + GET + b"\r\n")
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 2 or not answer.endswith(b"\r\n\r\n1"):
            answer += line.recv(4096)
        assert b"\r\n\r\n2HTTP/1.1" in answer


@pytest.mark.parametrize("first", [b"", GET + b"\r\n"])
def test_a_head_that_trickles_is_given_up_and_a_body_is_not(first):
    quick = type("Quick", (Connection,), {"seconds": 0.2})
    with serving(app, http=quick, lifespan="off") as base:
        port = int(base.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as line, contextlib.suppress(ConnectionError):
            line.sendall(first)
            assert not first or line.recv(4096).startswith(b"HTTP/1.1 200")
            line.settimeout(0.01)
            sent, answer, end = 0, None, time.monotonic() + PATIENCE
            while answer is None:  # one byte after another, for ever
                assert time.monotonic() < end
                line.sendall(b"GET / HTTP/1.1\r\nX: "[sent : sent + 1] or b"y")
                sent += 1
                with contextlib.suppress(TimeoutError):
                    answer = line.recv(4096)
            assert answer == b""
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as line:
            line.sendall(GET + b"Content-Length: 1\r\n\r\n")
            time.sleep(0.5)
            line.sendall(b"z")
            assert line.recv(4096).startswith(b"HTTP/1.1 200")


def limits(**given):
    return Configuration((Path("m"),), Path("s"), port=0, **given)


def opened(line):
    """Whether a connection is served."""
    with contextlib.suppress(ConnectionError):
        line.sendall(GET + b"\r\n")
        return line.recv(4096).startswith(b"HTTP/1.1 200")
    return False


@pytest.mark.parametrize(
    ("given", "most"),
    [
        ({"connections": 8, "connections_each": 5}, 5),
        ({"connections": 8, "connections_each": 5, "proxies": ("127.0.0.0/8",)}, 8),
        ({"connections": 4, "connections_each": 5}, 4),
    ],
)
def test_connections_are_limited_in_all_and_for_each_address(given, most, caplog):
    sockets = listeners(limits(**given))
    with (
        serving(app, sockets, http=Connection, lifespan="off", loop="asyncio") as base,
        contextlib.ExitStack() as stack,
    ):
        port = int(base.rpartition(":")[2])
        connect = lambda: stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))  # noqa: E731
        lines = []
        for _ in range(most):
            lines.append(connect())
            assert opened(lines[-1])
        for _ in range(50):
            assert not opened(connect())
        assert all(map(opened, lines)), "those that were served before are served on"
        lines.pop().close()
        until(lambda: opened(connect()))
        assert sockets[0]._opened.total() == most
    assert not sockets[0]._opened
    warned = [record for record in caplog.records if "too many" in record.getMessage()]
    assert warned
    assert not any("127.0.0.1" in record.getMessage() for record in warned)


def test_addresses_of_one_network_count_together():
    from erasable.service.http.connections import _client

    assert str(_client(("::ffff:10.1.2.3", 1, 0, 0))) == "10.1.2.3"
    assert _client(("2001:db8::1", 1, 0, 0)).version == 6


def test_descriptors_suffice_for_the_connections_or_nothing_starts(monkeypatch):
    set_to = []
    monkeypatch.setattr(resource, "getrlimit", lambda _: (300, 1000))
    monkeypatch.setattr(resource, "setrlimit", lambda _, both: set_to.append(both))
    for one in listeners(limits(connections=400)):
        one.close()
    assert set_to == [(400 + connections._OTHER_FILES, 1000)]
    with pytest.raises(ConfigurationError, match="may open 1000"):
        listeners(limits(connections=1000))


def test_an_address_that_is_taken_is_an_error_of_the_configuration():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            listeners(Configuration((Path("m"),), Path("s"), port=port))


def test_the_log_of_a_flood_is_short_and_says_what_it_leaves_out(caplog):
    now, logger = [0.0], logging.getLogger("erasable.test-floods")
    fewer = BoundedLog(lambda: now[0])
    logger.addFilter(fewer)
    try:
        for again in (False, True):
            for _ in range(1 if again else 1000):
                logger.warning("a flood of %d", 3)
                logger.debug("not counted")
            logger.error("another kind")  # is not left out for the flood
            assert len(caplog.records) == connections._LINES + (3 if again else 1)
            now[0] = connections._PER
        left_out = 1000 - connections._LINES
        assert (
            caplog.records[-2].getMessage() == f"a flood of 3 ({left_out} such warnings before this one were left out)"
        )
    finally:
        logger.removeFilter(fewer)


@pytest.mark.parametrize(
    ("number", "said"),
    [
        (errno.EMFILE, "files and connections"),
        (errno.ENFILE, "files and connections"),
        (errno.ENOSPC, "disk"),
        (errno.EDQUOT, "disk"),
        (errno.EACCES, "cannot be read"),
    ],
)
def test_descriptors_are_told_from_disks(number, said):
    for kind in (OSError, StoreError):
        error = kind("canary")
        error.errno = number
        refused = refusal_of(error)
        assert refused.status == 503
        assert said in refused.detail
        assert "canary" not in refused.detail
        assert ("disk" in refused.detail) == (said == "disk")


def test_a_service_without_descriptors_is_not_ready(site, monkeypatch):
    assert site.plain.get("/v2/health/ready").status_code == 200
    real = os.open

    def none_left(path, *given, **options):
        if path == os.devnull:
            raise OSError(errno.EMFILE, "too many")
        return real(path, *given, **options)

    monkeypatch.setattr(os, "open", none_left)
    assert site.plain.get("/v2/health/ready").status_code == 503
    assert "too many" in site.as_("audit").get("/v1/health").json()["problem"]


def test_limits_come_from_the_settings():
    found = read_configuration(None, {"ERASABLE_PROXIES": "10.0.0.2, 10.1.0.0/16"}, models=["m"], head_bytes="4096")
    assert (found.proxies, found.head_bytes) == (("10.0.0.2", "10.1.0.0/16"), 4096)
    for wrong in ({"proxies": ["nginx"]}, {"connections": 0}, {"head_seconds": -1}):
        with pytest.raises(ConfigurationError):
            read_configuration(None, {}, models=["m"], **wrong)
