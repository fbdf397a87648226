"""The extra service: a request over HTTP removes a person from a model and has a receipt."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

pytest.importorskip("fastapi", reason="FastAPI is not installed")

from erasable import load
from tests.extras.session import archive, printed
from tests.waiting import PATIENCE, until

LEARN = "/v1/learn?model=m&label=y&id=i&subject=s"


def called(port, path, token=None, body=None, kind="application/json"):
    """Status and body of an answer; what the standard library has is enough of a client."""
    named = {"Authorization": f"Bearer {token}"} if token else {}
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", data, {**named, "Content-Type": kind})
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=PATIENCE) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def test_a_request_is_carried_out_and_has_a_receipt(capsys):
    printed(capsys, "learn", archive(), "-o", "m.erasable")
    tokens = ["--file", "served/tokens.json", "--json"]
    Path("served").mkdir()
    scopes = ["--scope", "erase", "--scope", "audit", "--scope", "predict", "--scope", "learn"]
    token = json.loads(printed(capsys, "token", "make", "all", *scopes, *tokens))["token"]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    patient = f"tick = 0.05\ndeadline = {PATIENCE}\ndrain = {PATIENCE}\n"
    Path("serve.toml").write_text(f'models = ["m.erasable"]\nfolder = "served"\nport = {port}\n{patient}')
    with open("said", "wb") as said:
        process = subprocess.Popen(
            [sys.executable, "-m", "erasable", "serve", "--config", "serve.toml"], stdout=said, stderr=said
        )
    try:

        def ready():
            assert process.poll() is None, Path("said").read_text()
            with contextlib.suppress(OSError):
                return called(port, "/v2/health/ready")[0] == 200

        until(ready, 0.05)
        code, table = called(port, LEARN, token, b"a,b,c,y,i,s\n1,2,3,yes,n1,p1\n", "text/csv")
        assert code == 200, table
        assert table["rows"] == 1
        row = {"name": "X", "shape": [1, 3], "datatype": "FP64", "data": [1.0, 2.0, 3.0]}
        code, found = called(port, "/v2/models/m/infer", token, {"inputs": [row]})
        assert code == 200, found
        assert len(found["outputs"][0]["data"]) == 1
        code, batch = called(port, "/v1/erasures", token, b"p1\n", "text/plain")
        assert code == 202, batch
        receipts = until(lambda: called(port, f"/v1/erasures/{batch['batch']}", token)[1]["receipts"], 0.05)
        assert [one["model"] for one in receipts] == ["m"]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(PATIENCE) == 0, os.fsdecode(Path("said").read_bytes())
    assert "p1" not in {str(s) for s in load("m.erasable")._model.core.subjects()}
