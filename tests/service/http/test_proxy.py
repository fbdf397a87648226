"""The service behind nginx, with the configuration of `deploy/`: ports and paths are other ones, nothing else is."""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
from types import SimpleNamespace

import httpx
import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from erasable.service.tokens import make_token
from tests.service.http.conftest import PEOPLE, X, inference
from tests.service.http.test_process import DEPLOY, erasure, free_port, home, start
from tests.waiting import PATIENCE, until

NGINX = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
HOST = "erase.example.org"
pytestmark = pytest.mark.skipif(NGINX is None, reason="no nginx is installed here")
__all__ = ["home"]  # a fixture


def certify(folder):
    """A certificate for the host, signed by itself, where the configuration looks for it."""
    folder.mkdir()
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, HOST)])
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - datetime.timedelta(days=1))
    made = made.not_valid_after(now + datetime.timedelta(days=2))
    made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(HOST)]), critical=False)
    signed = made.sign(key, hashes.SHA256())
    (folder / "fullchain.pem").write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "privkey.pem").write_bytes(pem)
    return folder / "fullchain.pem"


@contextlib.contextmanager
def proxied(folder, service_port, further=()):
    """The port of an nginx with the configuration of ``deploy/``, which keeps all it writes in a folder."""
    site, port = (DEPLOY / "nginx.conf").read_text(), free_port()
    changes = {
        "listen 443 ssl": f"listen 127.0.0.1:{port} ssl",
        "http://erasable:8080": f"http://127.0.0.1:{service_port}",
        "/tls/fullchain.pem": f"{folder}/tls/fullchain.pem",
        "/tls/privkey.pem": f"{folder}/tls/privkey.pem",
    }
    for before, after in {**changes, **dict(further)}.items():
        assert site.count(before) == 1
        site = site.replace(before, after)
    kinds = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    kept = "".join(f"{kind}_temp_path {folder}/kept/{kind};\n" for kind in kinds)
    who = "user root;\n" if os.geteuid() == 0 else ""
    (folder / "kept").mkdir()
    (folder / "nginx.conf").write_text(
        f"{who}daemon off;\nworker_processes 1;\npid {folder}/pid;\nevents {{}}\nhttp {{\n{kept}{site}}}\n"
    )
    with open(folder / "nginx-said", "wb") as said:
        nginx = subprocess.Popen(
            [NGINX, "-p", str(folder), "-c", str(folder / "nginx.conf"), "-e", "stderr"], stdout=said, stderr=said
        )
    try:

        def listens():
            assert nginx.poll() is None, (folder / "nginx-said").read_text()
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), PATIENCE):
                return True

        until(listens)
        yield port
    finally:
        nginx.send_signal(signal.SIGQUIT)
        nginx.wait(PATIENCE)


@pytest.fixture
def front(home):
    """A service behind a proxy; ``as_(scope)`` is a client that trusts the proxy's certificate and no other."""
    folder, service_port = home
    settings = (folder / "serve.toml").read_text()
    (folder / "serve.toml").write_text(f'public_url = "https://{HOST}"\n{settings}')
    tokens = {s: make_token(folder / "service" / "tokens.json", s, [s]) for s in ("predict", "erase", "audit", "learn")}
    context = ssl.create_default_context(cafile=certify(folder / "tls"))
    service = start(folder, service_port)
    try:
        with proxied(folder, service_port) as port, contextlib.ExitStack() as stack:

            def as_(scope=None):
                http = httpx.Client(base_url=f"https://{HOST}", transport=Here(context, port), timeout=PATIENCE)
                stack.enter_context(http)
                if scope is not None:
                    http.headers["Authorization"] = f"Bearer {tokens[scope]}"
                return http

            yield SimpleNamespace(as_=as_, port=port, folder=folder, context=context, tokens=tokens)
    finally:
        service.send_signal(signal.SIGTERM)
        service.wait(PATIENCE)


class Here(httpx.HTTPTransport):
    """Connects to this machine, whatever the host is called, and asks for the certificate of that host."""

    def __init__(self, context, port):
        super().__init__(verify=context)
        self.port = port

    def handle_request(self, request):
        request.extensions["sni_hostname"] = HOST
        request.url = request.url.copy_with(host="127.0.0.1", port=self.port)
        return super().handle_request(request)


def test_the_whole_journey_goes_through_the_proxy(front):
    app, controller, auditor = front.as_("predict"), front.as_("erase"), front.as_("audit")
    # Predictions, of a large body too, also where its length is not said before.
    infer = "/v2/models/credit/infer"
    small = app.post(infer, json=inference(X[:3]))
    assert (small.status_code, small.json()["outputs"][0]["shape"]) == (200, [3])
    many = json.dumps(inference(np.tile(X, (60, 1)))).encode()
    assert len(many) > 10**6
    headers = {"Content-Type": "application/json"}
    for content in (many, iter([many[:1000], many[1000:]])):
        answer = app.post(infer, content=content, headers=headers)
        assert (answer.status_code, answer.json()["outputs"][0]["shape"]) == (200, [60 * len(X)])
    assert app.post(infer, content=bytes(65 * 2**20), headers=headers).status_code == 413

    # An erasure, up to its receipt, by addresses that the service gave out.
    found = front.as_().get("/v2/discovery", headers={"X-Forwarded-Host": "evil.example", "X-Forwarded-Proto": "http"})
    assert found.json()["processor_certificate"] == f"https://{HOST}/v2/certificate"
    body = erasure(PEOPLE[0])
    assert controller.post("/v2/requests", json=body).status_code == 201
    request = f"/v2/requests/{body['subject_request_id']}"
    until(lambda: controller.get(request).json()["request_status"] == "completed")
    address = controller.get(request).json()["results_url"]
    assert address.startswith(f"https://{HOST}/")
    receipts = address.removeprefix(f"https://{HOST}")
    assert auditor.get(receipts).status_code in (200, 202)
    until(lambda: auditor.get(receipts).status_code == 200)
    assert [one["model"] for one in auditor.get(receipts).json()] == ["credit"]

    # The console.
    browser = front.as_()
    page = browser.get("/", follow_redirects=False)
    assert (page.status_code, page.headers["location"]) == (303, "/login")
    page = browser.get("/login")
    assert page.headers["strict-transport-security"] == "max-age=31536000"
    assert "script-src 'self'" in page.headers["content-security-policy"]
    assert page.headers["server"] == "nginx"  # and no version
    entered = browser.post("/login", data={"token": front.tokens["audit"]}, follow_redirects=False)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    assert "secure" in entered.headers["set-cookie"].lower()
    cookie = entered.headers["set-cookie"].partition(";")[0]
    overview = browser.get("/", headers={"Cookie": cookie})
    assert "Rows stored" in overview.text
    for name in re.findall(r'(?:href|src)="(/static/[^"]+)"', overview.text):
        assert browser.get(name).status_code == 200

    # Nothing of it is in files or logs of the proxy.
    assert [path for path in (front.folder / "kept").rglob("*") if path.is_file()] == []
    said = (front.folder / "nginx-said").read_text()
    assert not any(text in said for text in (PEOPLE[0], body["subject_request_id"], *front.tokens.values()))


def test_it_speaks_tls_alone(front):
    plain = httpx.get(f"http://127.0.0.1:{front.port}/v2/health/live", timeout=PATIENCE)
    assert plain.status_code == 400
    with pytest.raises(httpx.ConnectError, match="certificate"):
        httpx.get(f"https://127.0.0.1:{front.port}/v2/health/live", timeout=PATIENCE)
