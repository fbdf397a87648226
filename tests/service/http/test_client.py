"""``erasable request``: a list goes to a service as one request, and its receipts come back."""

from __future__ import annotations

import json
import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from erasable import load
from erasable.audit.receipts import check_receipt
from erasable.cli.app import run
from erasable.errors import ConfigurationError, UnknownOutcomeError
from erasable.operations.remote import Client
from erasable.service.index import Query
from tests.service.http.conftest import PEOPLE


@pytest.fixture
def asked(site, tmp_path):
    """Runs the command as somebody, on a list; gives the exit code."""

    def run_as(who, lines, *options):
        (tmp_path / "token").write_text(site.tokens[who] + "\n")
        (tmp_path / "token").chmod(0o600)
        (tmp_path / "list.csv").write_text("customer\n" + "".join(f"{line}\n" for line in lines))
        given = ["--file", str(tmp_path / "list.csv"), "--url", site.base, "--token-file", str(tmp_path / "token")]
        return run(["request", *given, "--identity-type", "email", "--timeout", "60", *options])

    return run_as


def test_a_list_is_one_request_and_its_receipts_come_back(site, asked, tmp_path, capsys):
    people = sorted(set(PEOPLE[14:18]))
    (tmp_path / "receipts").mkdir()
    options = [
        "--wait",
        "--receipts",
        str(tmp_path / "receipts"),
        "--reference",
        "leavers-7",
        "--idempotency-key",
        "k-7",
    ]
    assert asked("all", [*people, "nobody@example.org"], *options) == 0
    out, err = capsys.readouterr()
    assert "5 identities filed as one request, completed." in out
    assert "idempotency key k-7" in err
    (entry,) = site.service.ledger.search(Query(text="leavers-7")).entries
    assert entry.asked.identities == 5
    for name, path in site.configuration.model_files().items():
        assert not load(path).rows_of(subjects=people).rows
        text = (tmp_path / "receipts" / f"receipt-{name}-{entry.request_id}.json").read_text()
        assert text == site.service.receipts(entry.request_id)[name]
        assert check_receipt(text, site.service.receipt_key).model == name
    assert asked("all", [*people, "nobody@example.org"], *options, "--json") == 0  # sent again: filed once
    told = json.loads(capsys.readouterr().out)
    assert (told["batch"], told["state"], len(told["receipts"])) == (entry.request_id, "completed", 2)
    assert site.service.ledger.search(Query(text="leavers-7")).total == 1
    assert "warning" not in err
    assert asked("erase", people[:1], "--reference", "Ann Lee") == 0
    assert "the reference looks like a name" in capsys.readouterr().err
    assert asked("all", people, *options) == 2  # another list under this key
    assert people[0] not in capsys.readouterr().err


def test_a_token_without_audit_gets_no_receipts(asked, capsys):
    assert asked("erase", ["nobody@example.org"], "--wait") == 0
    out, err = capsys.readouterr()
    assert "1 identity filed as one request, completed." in out
    assert "receipts are for tokens with the scope audit" in err


def test_what_the_service_refuses_is_said(site, asked, tmp_path, capsys):
    before = site.service.ledger.counts().total
    assert asked("predict", ["a@example.org"]) == 2
    assert "must be valid and have the scope erase" in capsys.readouterr().err
    assert asked("erase", ["a@example.org"], "--reference", "no\tname") == 2
    assert asked("erase", ["a@example.org"], "--identity-type", "canary") == 2
    assert asked("erase", ["a@example.org"], "--receipts", str(tmp_path)) == 2
    assert asked("erase", ["a@example.org "]) == 2
    (tmp_path / "token").chmod(0o644)
    given = ["--file", str(tmp_path / "list.csv"), "--token-file", str(tmp_path / "token")]
    assert run(["request", *given, "--url", site.base]) == 5
    (tmp_path / "token").chmod(0o600)
    for url in ("http://erasure.example", "ftp://localhost", "https://user@erasure.example", "localhost"):
        assert run(["request", *given, "--url", url]) == 2
    assert site.service.ledger.counts().total == before


class Flaky(BaseHTTPRequestHandler):
    """A service that is busy first, then redirects somewhere else."""

    seen: list[str | None] = []  # noqa: RUF012

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        self.seen.append(self.headers["Idempotency-Key"])
        self.send_response(503 if len(self.seen) < 3 else 307)
        self.send_header("Retry-After", "0")
        self.send_header("Location", "http://127.0.0.1:1/v1/erasures")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def test_a_busy_service_is_asked_again_with_the_same_key_and_no_redirection_is_followed():
    with HTTPServer(("127.0.0.1", 0), Flaky) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        client = Client(f"http://127.0.0.1:{server.server_port}", "erasable_token", timeout=30)
        with pytest.raises(OSError, match="answered 307"):
            client.file(["a"], "key-1")
        server.shutdown()
        thread.join()
    assert Flaky.seen == ["key-1"] * 3


def test_no_answer_is_an_unknown_outcome_that_names_the_key(capsys, tmp_path):
    (tmp_path / "token").write_text("erasable_token")
    (tmp_path / "token").chmod(0o600)
    (tmp_path / "list.txt").write_text("canary-9\n")
    given = ["--file", str(tmp_path / "list.txt"), "--token-file", str(tmp_path / "token"), "--timeout", "0.1"]
    assert run(["request", *given, "--url", "http://127.0.0.1:1", "--idempotency-key", "key-2"]) == 7
    err = capsys.readouterr().err
    assert "--idempotency-key key-2" in err
    assert "canary-9" not in err


@pytest.mark.parametrize("answer", [b'HTTP/1.1 202 OK\r\nContent-Length: 100\r\n\r\n{"ba', b"garbage\r\n\r\n"])
def test_an_answer_that_is_cut_off_leaves_the_outcome_unknown(answer):
    def speak(server):
        for _ in range(2):
            with suppress(OSError):
                connection, _ = server.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=speak, args=(server,), daemon=True).start()
        client = Client(f"http://127.0.0.1:{server.getsockname()[1]}", "token", timeout=0.5)
        with pytest.raises(UnknownOutcomeError, match="idempotency-key"):
            client.file(["somebody"], "key-1")


@pytest.mark.parametrize("key", ["", "ключ", "a\nb", "k" * 256])
def test_a_key_that_no_header_can_hold_is_refused_at_once(key):
    with pytest.raises(ConfigurationError, match="printable ASCII"):
        Client("http://127.0.0.1:9", "token").file(["somebody"], key)
