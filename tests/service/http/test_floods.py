"""What anybody can send without a token: heads and waiting for them are bounded here, the rest by nginx before it."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import socket
import ssl
import threading
import time
from pathlib import Path

import httpx
import pytest

from erasable.errors import ConfigurationError, StoreError
from erasable.service.http.configuration import Configuration, read_configuration
from erasable.service.http.connections import Connection, listening
from erasable.service.http.problems import refusal_of
from erasable.service.http.server import _server_options
from tests.service.http.conftest import serving
from tests.service.http.test_proxy import HOST, NGINX, Here, certify, proxied
from tests.waiting import PATIENCE, until

HEAD_BYTES = 2048
READ = 2**18  # bytes that asyncio reads at a time
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
    """Knows how much a connection has kept of what it could not use yet."""

    most, parsed = 0, 0

    def data_received(self, data):
        type(self).parsed += len(data)
        super().data_received(data)
        type(self).most = max(self.most, len(self.conn.trailing_data[0]))


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


OPTIONS = {"h11_max_incomplete_event_size": HEAD_BYTES, "lifespan": "off", "log_level": "error"}


@pytest.fixture(scope="module")
def port():
    with serving(app, http=Watched, **OPTIONS) as base:
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
        (GET + b"Connection: upgrade\r\nUpgrade: websocket\r\n\r\n", b"z" * 8192),
    ],
)
def test_a_flood_before_a_token_is_cut_off_and_takes_no_memory_and_no_line_of_the_log(port, start, part, caplog):
    Watched.most = Watched.parsed = 0
    answer = flooded(port, start, part)
    assert Watched.most <= HEAD_BYTES + READ
    assert Watched.parsed <= 3 * READ, "it was read on after it was refused"
    assert not answer or answer[:12] in (b"HTTP/1.1 400", b"HTTP/1.1 200")
    assert not caplog.records


def test_requests_that_follow_before_an_answer_wait_on_the_wire():
    go_on = threading.Event()

    async def slow(scope, receive, send):
        while not go_on.is_set():
            await asyncio.sleep(0.01)

    Watched.most = 0
    with serving(slow, http=Watched, **OPTIONS) as base:
        with socket.create_connection(("127.0.0.1", int(base.rpartition(":")[2])), PATIENCE) as line:
            line.settimeout(0.2)
            with contextlib.suppress(TimeoutError):  # it is read no more
                while True:
                    line.sendall((GET + b"\r\n") * 400)
        go_on.set()
    assert Watched.most <= HEAD_BYTES + READ


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (GET + b"\r\n", 200),
        (GET + b"a: " + b"b" * (HEAD_BYTES - 100) + b"\r\n\r\n", 200),
        (GET + b"a: " + b"b" * HEAD_BYTES, 400),
        (b"GET /" + b"c" * HEAD_BYTES, 400),
        (b"nonsense\r\n\r\n", 400),
    ],
)
def test_a_head_within_the_limit_is_served_and_one_beyond_is_refused(port, head, status):
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
    quick = type("Quick", (Connection,), {"head_seconds": 0.2})
    with serving(app, http=quick, **OPTIONS) as base:
        port = int(base.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port), PATIENCE) as line, contextlib.suppress(ConnectionError):
            line.sendall(first)
            whole = b""
            while first and not whole.endswith(b"\r\n\r\n1"):  # the head and the body may arrive apart
                whole += line.recv(4096)
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
    return Configuration((Path("m"),), Path("s"), **given)


def test_the_server_has_the_limits_of_the_settings():
    options = _server_options(limits(connections=7, head_bytes=4096, drain=3.5), app)
    assert (options.limit_concurrency, options.h11_max_incomplete_event_size) == (7, 4096)
    assert (options.timeout_graceful_shutdown, options.timeout_keep_alive) == (3, 30)
    options.load()
    assert (options.http_protocol_class, options.log_level, options.access_log) == (Connection, "error", False)


def test_beyond_the_limit_of_connections_requests_are_refused_and_served_again_afterwards():
    with serving(app, limit_concurrency=4, **OPTIONS) as base:
        port = int(base.rpartition(":")[2])
        with contextlib.ExitStack() as stack:
            idle = [stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE)) for _ in range(4)]
            until(lambda: httpx.get(base).status_code == 503)
            idle.pop().close()
            idle.pop().close()
            until(lambda: httpx.get(base).status_code == 200)


def test_an_address_that_is_taken_is_an_error_of_the_configuration():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigurationError, match=f"port {port}"):
            listening(limits(port=port))


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
    assert read_configuration(None, {"ERASABLE_CONNECTIONS": "9"}, models=["m"], head_bytes="4096").head_bytes == 4096
    for wrong in ({"connections": 0}, {"head_bytes": -1}, {"proxies": ["10.0.0.2"]}):
        with pytest.raises(ConfigurationError):
            read_configuration(None, {}, models=["m"], **wrong)


@pytest.mark.skipif(NGINX is None, reason="no nginx is installed")
def test_floods_end_at_nginx(tmp_path):
    """With the configuration of ``deploy/``, except that a head may take one second."""
    seen, go_on = [], threading.Event()

    async def behind(scope, receive, send):
        seen.append(scope["path"])
        while scope["path"] == "/slow" and not go_on.is_set():
            await asyncio.sleep(0.01)
        await app(scope, receive, send)

    context = ssl.create_default_context(cafile=certify(tmp_path / "tls"))
    with (
        serving(behind, **OPTIONS) as base,
        proxied(tmp_path, int(base.rpartition(":")[2]), {"header_timeout 10s": "header_timeout 1s"}) as port,
        contextlib.ExitStack() as stack,
    ):
        stack.callback(go_on.set)

        def opened():
            plain = socket.create_connection(("127.0.0.1", port), PATIENCE)
            return stack.enter_context(context.wrap_socket(plain, server_hostname=HOST))

        def status(line):
            with contextlib.suppress(ConnectionError):  # what was not read is answered with a reset
                return int(line.recv(12)[9:12] or 0)
            return 0

        get = f"GET /%s HTTP/1.1\r\nHost: {HOST}\r\n"
        # Heads that do not end: too long ones are refused, slow ones closed.
        for part in (f"X-Y: {'z' * 9000}\r\n\r\n", "X-Y: z\r\n" * 5000):
            line = opened()
            with contextlib.suppress(ConnectionError):
                line.sendall((get % "long" + part).encode())
            assert status(line) in (400, 0)
        slow = opened()
        slow.sendall((get % "trickled").encode())
        assert status(slow) in (0, 408)
        # More connections than one address may have, each with a request that is not answered yet.
        lines = [opened() for _ in range(32)]
        for line in lines:
            line.sendall((get % "slow" + "\r\n").encode())
        until(lambda: seen.count("/slow") == 32)
        further = opened()
        further.sendall((get % "further" + "\r\n").encode())
        assert status(further) == 429
        assert httpx.get(f"{base}/direct").status_code == 200  # the service itself answers
        go_on.set()
        assert [status(line) for line in lines] == [200] * 32
        # More requests than one address may send.
        with httpx.Client(base_url=f"https://{HOST}", transport=Here(context, port), timeout=PATIENCE) as http:
            found = [http.get("/many").status_code for _ in range(320)]
        assert 429 in found
        assert set(seen) == {"/slow", "/direct", "/many"}
        assert seen.count("/many") == found.count(200) < 320
