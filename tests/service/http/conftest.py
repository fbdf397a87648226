"""A service with two models behind HTTP, and clients with tokens."""

from __future__ import annotations

import contextlib
import datetime
import os
import shutil
import threading
from types import SimpleNamespace

import numpy as np
import pytest

pytest.importorskip("fastapi", reason="the extra `service` is not installed")

import httpx
import uvicorn
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from erasable import ErasableClassifier
from erasable.audit.keys import new_key
from erasable.service.http.app import create_app
from erasable.service.http.configuration import Configuration
from erasable.service.http.connections import Connection
from erasable.service.http.opendsr import Signer
from erasable.service.service import ErasureService
from erasable.service.settings import Settings
from erasable.service.tokens import SCOPES, TokenFile, make_token
from tests.waiting import PATIENCE, until

RNG = np.random.default_rng(11)
X = RNG.standard_normal((300, 4))
Y = np.where(X[:, 0] + X[:, 1] > 0, "yes", "no")
IDS = [f"row-{i:03d}" for i in range(300)]
PEOPLE = [f"person-{i % 60:02d}@example.org" for i in range(300)]
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
TYPES = {"email": "subject", "row": "id"}


def inference(rows):
    """A request for predictions of rows of numbers."""
    return {"inputs": [{"name": "X", "shape": rows.shape, "datatype": "FP64", "data": rows.ravel().tolist()}]}


@pytest.fixture(scope="session", autouse=True)
def nothing_goes_through_a_proxy():
    """Whatever is set for the rest of this machine: the servers are on it."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("no_proxy", "NO_PROXY"):
            patch.setenv(name, "*")
        yield


@pytest.fixture(scope="session")
def rsa_files(tmp_path_factory):
    """A self-signed certificate, which only tests may use."""
    folder = tmp_path_factory.mktemp("rsa")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "erasable.example")])
    now = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now)
        .not_valid_after(now + datetime.timedelta(days=3650))
        .sign(key, hashes.SHA256())
    )
    (folder / "cert.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / "key.pem").write_bytes(pem)
    (folder / "key.pem").chmod(0o600)
    return folder / "cert.pem", folder / "key.pem"


@pytest.fixture(scope="module")
def site(tmp_path_factory, rsa_files):
    """Everything of a running service, for all tests of a module; ``as_(scope)`` gives a client with a token."""
    tmp_path = tmp_path_factory.mktemp("site")
    models = tmp_path / "models"
    models.mkdir()
    for name, columns in (("credit", None), ("named", ["a", "b", "c", "d"])):
        clf = ErasableClassifier(threshold=0.05, feature_names=columns, feature_map=None)
        clf.fit(X, Y, ids=IDS, subjects=PEOPLE).save(models / f"{name}.erasable")
    configuration = Configuration(
        (models,),
        tmp_path / "service",
        public_url="https://erasable.example",
        processor_domain="erasable.example",
        allowed_hosts=("service.internal",),
        failed_sign_ins=10_000,
        body_bytes=2**20,
        rows=1000,
        deadline=PATIENCE,
        service=Settings(identity_types=TYPES, tick=0.02, queue=50),
    )
    configuration.folder.mkdir()
    signer, told = Signer(*rsa_files), []
    service = ErasureService(
        configuration.model_files(),
        configuration.folder / "requests",
        signer=new_key(),
        operator_key=b"k" * 32,
        settings=configuration.service,
        send=lambda url, entry: told.append((url, entry)),
    )
    tokens = configuration.folder / "tokens.json"
    made = {scope: make_token(tokens, scope, [scope]) for scope in SCOPES}
    made["all"] = make_token(tokens, "all", SCOPES)
    with (
        service,
        serving(create_app(service, TokenFile(tokens), configuration, signer)) as base,
        contextlib.ExitStack() as stack,
    ):

        def as_(who):
            headers = {} if who is None else {"Authorization": f"Bearer {made[who]}"}
            return stack.enter_context(httpx.Client(base_url=base, headers=headers, timeout=PATIENCE))

        yield SimpleNamespace(
            service=service, configuration=configuration, plain=as_(None), as_=as_, told=told, tokens=made, base=base,
            path=tmp_path,
        )  # fmt: skip


@contextlib.contextmanager
def serving(app, sockets=None, **options):
    """The address of a server in a thread, on a free port, which is given what the real one is given."""
    fixed = {"http": Connection, "ws": "none", "log_config": None, "access_log": False, "server_header": False}
    options = fixed | options
    server = uvicorn.Server(uvicorn.Config(getattr(app, "middleware_stack", app), port=0, **options))
    thread = threading.Thread(target=server.run, args=[sockets], daemon=True)
    thread.start()
    until(lambda: server.started)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        thread.join(PATIENCE)


@pytest.fixture(scope="module")
def browser():
    if CHROMIUM is None:
        pytest.skip("no chromium is installed here")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as play:
        found = play.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture
def open_page(browser, site):
    """A page of somebody who has signed in; complaints of the browser fail the test."""
    contexts = []

    def opened(who="all", *, script=True, **options):
        context = browser.new_context(base_url=site.base, java_script_enabled=script, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.complaints = []
        page.on("console", lambda m: page.complaints.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: page.complaints.append(str(e)))
        page.goto("/")
        page.get_by_label("Token").fill(site.tokens[who])
        page.get_by_role("button", name="Sign in").click()
        page.get_by_role("heading", name="Overview").wait_for()
        return page

    yield opened
    for context in contexts:
        context.close()


def shot(page, name):
    """A picture to look at, where a folder was named for them."""
    if folder := os.environ.get("ERASABLE_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/{name}.png", full_page=True)


def shown(page, what, script):
    """Once it is on the page, which without a script has to be asked for again."""
    if script:
        what.first.wait_for()
    else:
        until(lambda: what.count() or (page.reload() and False), 0.2)


@pytest.fixture
def visitor(site):
    """A client that shows no page and follows no redirection; ``enter`` signs it in."""
    with httpx.Client(base_url=site.base, follow_redirects=False, timeout=PATIENCE) as http:

        def enter(text):
            answer = http.post("/login", data={"token": text})
            assert answer.status_code == 303
            # The cookie is for HTTPS alone, which this client takes seriously.
            http.headers["Cookie"] = answer.headers["set-cookie"].partition(";")[0]
            return answer

        http.enter = enter
        yield http
