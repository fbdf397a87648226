"""The service as a process: started, told to stop, killed; files of `deploy/`; callbacks; answers that tell nothing."""

from __future__ import annotations

import contextlib
import http.server
import ipaddress
import itertools
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import tomllib
import uuid
from datetime import UTC, datetime, timedelta
from pathlib import Path

import httpx
import pytest
import urllib3
import yaml

from erasable import ErasableClassifier, load
from erasable.errors import ConfigurationError, StoreError
from erasable.service.http.configuration import Configuration, read_configuration
from erasable.service.http.connections import listening
from erasable.service.http.opendsr import Signer
from erasable.service.http.server import callbacks, client_for, made_of, serve
from erasable.service.requests import Entry, State
from erasable.service.tokens import make_token
from tests.service.http.conftest import IDS, PEOPLE, X, Y
from tests.waiting import PATIENCE, until

DEPLOY = Path(__file__).parents[3] / "deploy"
NUMBERS = itertools.cycle(range(16))


def erasure(person, kind="erasure"):
    return {
        "subject_request_id": str(uuid.uuid4()),
        "subject_request_type": kind,
        "submitted_time": "2026-01-02T15:00:00Z",
        "subject_identities": [{"identity_type": "email", "identity_value": person, "identity_format": "raw"}],
    }


def free_port():
    """One that nobody has, that no other worker tries, and that the system gives only to who asks for that number."""
    for number in NUMBERS:
        port = 10_000 + (16 * os.getpid() + number) % 20_000
        with socket.socket() as free, contextlib.suppress(OSError):
            free.bind(("127.0.0.1", port))
            return port
    raise AssertionError("no port is free")


@pytest.fixture
def home(tmp_path, rsa_files):
    """A folder with a model and a configuration, and the port that is in it."""
    ErasableClassifier(threshold=0.05, feature_map=None).fit(X, Y, ids=IDS, subjects=PEOPLE).save(
        tmp_path / "credit.erasable"
    )
    (tmp_path / "service").mkdir()
    port, patient = free_port(), f"deadline = {PATIENCE}\ndrain = {PATIENCE}\n"
    (tmp_path / "serve.toml").write_text(
        f'models = ["{tmp_path}/credit.erasable"]\nfolder = "{tmp_path}/service"\nport = {port}\ntick = 0.05\n{patient}'
        f'opendsr_certificate = "{rsa_files[0]}"\nopendsr_key = "{rsa_files[1]}"\n'
        'processor_domain = "erasable.example"\n[identity_types]\nemail = "subject"\n'
    )
    return tmp_path, port


def start(folder, port):
    command = [sys.executable, "-m", "erasable", "serve", "--config", str(folder / "serve.toml")]
    with open(folder / "said", "ab") as said:
        process = subprocess.Popen(command, stdout=said, stderr=said)

    def ready():
        assert process.poll() is None, (folder / "said").read_text()
        with contextlib.suppress(httpx.TransportError):
            return httpx.get(f"http://127.0.0.1:{port}/v2/health/ready", timeout=PATIENCE).status_code == 200

    until(ready, 0.05)
    return process


def test_killed_it_goes_on_afterwards_and_told_to_stop_it_finishes_what_was_accepted(home):
    folder, port = home
    token = make_token(folder / "service" / "tokens.json", "all", ["erase", "audit"])
    given = {"base_url": f"http://127.0.0.1:{port}", "headers": {"Authorization": f"Bearer {token}"}}

    def stored():
        return {str(subject) for subject in load(folder / "credit.erasable")._model.core.subjects()}

    first, second = sorted(stored())[:2]
    body = erasure(first)
    process = start(folder, port)
    with httpx.Client(**given, timeout=PATIENCE) as http:
        assert http.post("/v2/requests", json=body).status_code == 201
    process.kill()
    process.wait()
    process = start(folder, port)
    with httpx.Client(**given, timeout=PATIENCE) as http:
        receipts = f"/v1/receipts/{body['subject_request_id']}"
        until(lambda: http.get(receipts).status_code == 200)
        assert [one["model"] for one in http.get(receipts).json()] == ["credit"]
        assert first not in stored()
        assert http.post("/v2/requests", json=erasure(second)).status_code == 201
    process.send_signal(signal.SIGTERM)
    assert process.wait(PATIENCE) == 0
    assert second not in stored()
    assert token not in (folder / "said").read_text()
    for file in (folder / "service").rglob("*"):
        assert not file.is_file() or not any(name.encode() in file.read_bytes() for name in (first, second))


def test_a_model_file_that_is_not_there_is_one_line(tmp_path):
    command = [sys.executable, "-m", "erasable", "serve", str(tmp_path / "nothing.erasable")]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=PATIENCE)
    assert ended.returncode in (2, 5)
    assert "Traceback" not in ended.stderr
    assert "nothing.erasable" in ended.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("given", ["none.erasable", "nowhere", "empty", "m.erasable"])
def test_what_cannot_be_served_is_refused_and_nothing_is_made(tmp_path, given):
    (tmp_path / "empty").mkdir()
    (tmp_path / "m.erasable").write_bytes(b"something else altogether")
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ConfigurationError):
        serve(Configuration((tmp_path / given,), tmp_path / "deep" / "service"))
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("name", "mode", "refused"),
    [
        ("service/operator.key", 0o644, True),
        ("service/operator.key", 0o660, True),
        ("service/receipts.pem", 0o640, True),
        ("service/tokens.json", 0o666, True),
        ("service/tokens.json", 0o640, True),
        ("opendsr.key", 0o644, True),
        ("service", 0o777, True),
        ("service", 0o1777, True),
        ("service/requests", 0o777, True),
        ("m.erasable", 0o666, True),
        (".", 0o777, True),
        (".", 0o1777, False),
        ("service", 0o775, False),
        ("m.erasable", 0o644, False),
    ],
)
def test_files_that_others_may_use_are_refused_or_warned_of(tmp_path, rsa_files, caplog, name, mode, refused):
    ErasableClassifier(feature_map=None).fit(X, Y).save(tmp_path / "m.erasable")
    shutil.copy(rsa_files[1], tmp_path / "opendsr.key")
    (tmp_path / "opendsr.key").chmod(0o600)
    keys = {"opendsr_certificate": rsa_files[0], "opendsr_key": tmp_path / "opendsr.key"}
    configuration = Configuration(
        (tmp_path / "m.erasable",), tmp_path / "service", processor_domain="erasable.example", **keys
    )
    made_of(configuration)
    make_token(tmp_path / "service" / "tokens.json", "all", ["audit"])
    (tmp_path / "service" / "requests").mkdir(mode=0o700)
    made_of(configuration)
    assert not caplog.records
    (tmp_path / name).chmod(mode)
    if refused:
        with pytest.raises(StoreError, match=f"has mode {mode:04o}.*[Tt]ake their rights away"):
            made_of(configuration)
    else:
        made_of(configuration)
        assert f"{mode:04o}" in caplog.text


def test_no_answer_waits_for_a_client_to_confirm_its_head(tmp_path):
    """Sockets that do not name their protocol make asyncio leave Nagle's algorithm on: 40 milliseconds an answer."""
    with listening(Configuration((tmp_path / "m.erasable",), tmp_path / "service", port=0)) as bound:
        assert bound.proto == socket.IPPROTO_TCP


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "", "10.1.2.3", "2001:db8::1", "service.internal"])
def test_it_does_not_speak_to_the_world_in_the_clear(tmp_path, host):
    """The address that clients use says nothing of who reaches the port."""
    for url in (None, "https://erase.example.org"):
        public = Configuration((tmp_path / "m.erasable",), tmp_path / "service", host=host, public_url=url)
        with pytest.raises(ConfigurationError, match=r"in the clear.*tls_certificate.*behind_proxy = true"):
            made_of(public)
    assert not (tmp_path / "service").exists()


@pytest.mark.parametrize(
    "given",
    [
        {"host": "127.0.0.1"},
        {"host": "127.9.9.9"},
        {"host": "::1"},
        {"host": "localhost"},
        {"host": "0.0.0.0", "behind_proxy": True, "public_url": "https://erase.example.org"},
        {"host": "0.0.0.0", "tls_certificate": Path("tls.pem"), "tls_key": Path("tls.key")},
    ],
)
def test_it_listens_at_loopback_with_tls_or_behind_a_proxy_that_is_declared(tmp_path, given):
    with pytest.raises(ConfigurationError, match="does not exist"):  # the next thing that is looked at
        made_of(Configuration((tmp_path / "m.erasable",), tmp_path / "service", **given))


def test_behind_a_proxy_the_address_of_the_proxy_is_known():
    with pytest.raises(ConfigurationError, match="needs public_url"):
        read_configuration(None, {"ERASABLE_BEHIND_PROXY": "yes"}, models=["m"])
    assert not read_configuration(None, {"ERASABLE_BEHIND_PROXY": ""}, models=["m"]).behind_proxy


@pytest.mark.parametrize("domain", ["localhost", "erasable.example.org", "www.erasable.example"])
def test_a_certificate_that_is_issued_to_somebody_else_is_refused(tmp_path, rsa_files, domain):
    signed = {"opendsr_certificate": rsa_files[0], "opendsr_key": rsa_files[1], "processor_domain": domain}
    with pytest.raises(ConfigurationError, match="not issued to"):
        made_of(Configuration((tmp_path / "m.erasable",), tmp_path / "service", **signed))


def test_settings_come_from_the_command_line_the_environment_and_the_file(tmp_path):
    (tmp_path / "serve.toml").write_text('models = ["a"]\nport = 1\ntick = 0.5\nhost = "::1"\n')
    environment = {"ERASABLE_PORT": "2", "ERASABLE_CALLBACK_HOSTS": "a.example, b.example", "OTHER": "x"}
    found = read_configuration(tmp_path / "serve.toml", environment, host="localhost")
    assert (found.host, found.port, found.service.tick) == ("localhost", 2, 0.5)
    assert found.service.callback_hosts == {"a.example", "b.example"}
    (tmp_path / "serve.toml").write_text('public_url = "https://a.example/"\nkeep_for = 60\nreceipt_key = "k.pem"\n')
    found = read_configuration(tmp_path / "serve.toml", {"ERASABLE_MODELS": f"a{os.pathsep}b", "ERASABLE_VOUCH": "Yes"})
    assert found.service.vouch
    for no in ("no", "False", "0", ""):
        assert not read_configuration(None, {"ERASABLE_VOUCH": no}, models=["a"]).service.vouch
    assert found.url == "https://a.example"
    assert found.service.keep_for == timedelta(minutes=1)
    assert (found.models, found.receipt_key) == ((Path("a"), Path("b")), Path("k.pem"))
    (tmp_path / "serve.toml").write_text('models = ["a"]\n[identity]\nsubject = ["casefold", "trim"]\n')
    for environment, told in (
        ({}, {"subject": ("trim", "casefold")}),
        ({"ERASABLE_IDENTITY": "subject=nfc, id=trim+nfc"}, {"subject": ("nfc",), "id": ("trim", "nfc")}),
    ):
        assert read_configuration(tmp_path / "serve.toml", environment).service.identity == told
    for wrong in (
        'models = ["a"]\nidentity = "subject"',
        'models = ["a"]\n[identity]\nemail = ["trim"]',
        'models = ["a"]\n[identity]\nsubject = "trim"',
        'models = ["a"]\nprot = 1',
        'models = ["a"]\nport = "x"',
        "port = 1",
        "port = ",
        'models = ["a"]\nrate = 0',
        'models = ["a"]\nvouch = "perhaps"',
    ):
        (tmp_path / "serve.toml").write_text(wrong)
        with pytest.raises(ConfigurationError):
            read_configuration(tmp_path / "serve.toml", {})


def test_the_files_to_deploy_with_name_settings_that_are_known():
    told = tomllib.loads((DEPLOY / "serve.toml").read_text())
    assert read_configuration(DEPLOY / "serve.toml", {}).url == told["public_url"]
    assert told["identity_types"]
    compose = (DEPLOY / "compose.yaml").read_text()
    for line in compose.splitlines() + (DEPLOY / "Containerfile").read_text().replace("=", "= ").split():
        if (name := line.strip().partition(":")[0].rstrip("=")).startswith("ERASABLE_"):
            value = "email=subject" if "TYPES" in name else "1"
            read_configuration(None, {name: value}, models=["m"], public_url="https://e.example")


def test_the_files_to_deploy_with_bound_what_clients_can_take():
    unit = (DEPLOY / "erasable.service").read_text().splitlines()
    for name in ("LimitNOFILE", "MemoryMax", "TasksMax", "ProcSubset", "RemoveIPC"):
        assert sum(line.startswith(f"{name}=") for line in unit) == 1
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert all(one["mem_limit"] == one["memswap_limit"] and one["pids_limit"] for one in compose.values())
    assert compose["erasable"]["environment"]["ERASABLE_BEHIND_PROXY"] == "yes"
    assert "ports" not in compose["erasable"]
    assert compose["erasable"]["ulimits"]["nofile"] >= Configuration.connections + 256
    nginx = (DEPLOY / "nginx.conf").read_text()
    for name in ("limit_conn", "limit_req", "client_header_timeout", "large_client_header_buffers"):
        assert re.search(rf"^    {name} .+;$", nginx, re.MULTILINE)


def test_images_are_named_by_digests_and_dependencies_by_hashes():
    """Neither has a default, so that nothing is built from whatever a tag means that day."""
    image = (DEPLOY / "Containerfile").read_text().splitlines()
    assert [line for line in image if line.startswith(("ARG", "FROM"))] == [
        "ARG PYTHON_DIGEST",
        "FROM python@${PYTHON_DIGEST}",
    ]
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert compose["erasable"]["build"]["args"]["PYTHON_DIGEST"].startswith("${PYTHON_DIGEST:?")
    assert compose["proxy"]["image"].startswith("nginx@${NGINX_DIGEST:?")
    installs = [part for line in image for part in line.split("&&") if "pip install" in part and line[0] != "#"]
    assert len(installs) == 2
    assert "--require-hashes" in installs[0]
    assert {"--no-deps", "--no-build-isolation", "--no-index"} <= set(installs[1].split())


def test_the_image_is_given_all_that_the_package_is_made_of():
    """What is not copied is left out of the wheel, and nobody says so."""
    project = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    page = project["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["fragments"]
    parts = {*(one["path"] for one in page), *project["project"]["license-files"]}
    parts |= {*wheel["packages"], *wheel["shared-data"]}
    lines = [line.split()[1:-1] for line in (DEPLOY / "Containerfile").read_text().splitlines() if line[:5] == "COPY "]
    copied = {name for names in lines for name in names}
    assert [name for name in parts if not copied & {name, *map(str, Path(name).parents)}] == []


def test_a_proxy_finds_the_service_again_after_a_restart():
    """nginx looks a name up once, when it starts: the address has to be a fixed one."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    (network,) = compose["networks"]
    (config,) = compose["networks"][network]["ipam"]["config"]
    addresses = {name: one["networks"][network]["ipv4_address"] for name, one in compose["services"].items()}
    assert len(set(addresses.values())) == len(addresses) == 2
    assert all(ipaddress.ip_address(one) in ipaddress.ip_network(config["subnet"]) for one in addresses.values())
    assert "http://erasable:8080" in (DEPLOY / "nginx.conf").read_text()


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="no systemd is installed here")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    """Neither a name that it does not know nor much that the service could do to the machine."""
    unit = (DEPLOY / "erasable.service").read_text()
    assert unit.count("/opt/erasable/bin/erasable serve") == 1
    unit = unit.replace("/opt/erasable/bin/erasable serve", f"{sys.executable} -m erasable serve")
    (tmp_path / "erasable.service").write_text(unit)
    for command in (["verify", "--man=no"], ["security", "--offline=yes", "--threshold=20", "--no-pager"]):
        ended = subprocess.run(
            ["systemd-analyze", *command, str(tmp_path / "erasable.service")], capture_output=True, text=True
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        assert "Unknown" not in ended.stderr


def test_callbacks_are_signed_and_go_nowhere_else(rsa_files):
    import base64

    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import padding

    now = datetime.now(UTC)
    entry = Entry(str(uuid.uuid4()), "erasure", State.COMPLETED, now, now, now, controller="shop")
    seen = []

    class Answers(urllib3.PoolManager):
        def urlopen(self, method, url, redirect=True, **given):
            seen.append((method, url, given))
            assert (redirect, given["retries"]) == (False, False)
            return urllib3.HTTPResponse(status=302 if len(seen) > 1 else 202)

    configuration = Configuration((Path("m"),), Path("s"), public_url="https://e.example", processor_domain="e.example")
    with Answers() as client:
        send = callbacks(Signer(*rsa_files), configuration, client)
        send("https://hook.example/a", entry)
        with pytest.raises(urllib3.exceptions.HTTPError, match="302"):
            send("https://hook.example/a", entry)
    assert [one[:2] for one in seen] == [("POST", "https://hook.example/a")] * 2
    given = seen[0][2]
    body = json.loads(given["body"])
    assert body["status_callback_url"] == "https://hook.example/a"
    assert (body["controller_id"], body["request_status"]) == ("shop", "completed")
    public = x509.load_pem_x509_certificate(rsa_files[0].read_bytes()).public_key()
    signature = base64.b64decode(given["headers"]["X-OpenDSR-Signature"])
    public.verify(signature, given["body"], padding.PKCS1v15(), hashes.SHA256())


def test_answers_do_not_tell_who_was_stored(site):
    """Stored and unknown: one answer, one shape. What is done for them: `tests/service/test_what_shows.py`."""
    http = site.as_("erase")
    kept = {str(s) for s in load(site.configuration.model_files()["credit"])._model.core.subjects()}
    groups = {"stored": sorted(kept)[:4], "unknown": [f"person-{i}@example.net" for i in range(4)]}
    shapes = {name: set() for name in groups}
    for name, people in groups.items():
        for person in people:
            body = erasure(person)
            answer, address = http.post("/v2/requests", json=body), f"/v2/requests/{body['subject_request_id']}"
            until(lambda: http.get(address).json()["request_status"] == "completed")  # noqa: B023
            told = http.get(address)
            shapes[name].add((answer.status_code, *sorted(answer.json()), *sorted(told.json()), len(told.content)))
    assert shapes["stored"] == shapes["unknown"]


def test_the_ledger_of_a_service_that_does_not_run_is_purged_by_command(tmp_path, capsys):
    from erasable.cli.app import run

    ErasableClassifier(threshold=0.05, feature_map=None).fit(X, Y, ids=IDS, subjects=PEOPLE).save(
        tmp_path / "credit.erasable"
    )
    (tmp_path / "service").mkdir(mode=0o700)
    (tmp_path / "service" / "history.json").write_text("[]")
    service, _, _ = made_of(Configuration((tmp_path / "credit.erasable",), tmp_path / "service"))
    assert not (tmp_path / "service" / "history.json").exists()  # its counts could tell who was stored
    with service:
        who = service.identity("controller_customer_id", "raw", PEOPLE[0])
        service.accept(str(uuid.uuid4()), "erasure", [who], b"body")
        purge = ["purge", "--folder", str(tmp_path / "service"), "--json", "--before"]
        assert run([*purge, "2026-01-01"]) == 5
        assert "POST /v1/purge" in capsys.readouterr().out
        service.stop(PATIENCE)
    now = f"{datetime.now(UTC) + timedelta(seconds=1):%Y-%m-%dT%H:%M:%S}"  # in whole seconds
    assert run([*purge, "2999-01-01"]) == 2
    (tmp_path / "service" / "requests" / "clock").write_text("2026-01-01T00:00:00+00:00")
    assert run([*purge, "2026-01-01"]) == 2
    assert "--trust-clock" in capsys.readouterr().out
    until(lambda: f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S}" >= now)
    assert run([*purge, now, "--trust-clock"]) == 0
    assert json.loads(capsys.readouterr().out) == {"purged": 1}
    assert run(["purge", "--before", "2026-01-01", "--folder", str(tmp_path)]) == 2


@pytest.mark.parametrize("status", [202, 302, 500])
def test_callbacks_are_delivered_once_and_follow_nothing(rsa_files, status, monkeypatch):
    seen = []

    class Receiver(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            seen.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.send_response(status)
            self.send_header("Location", "/elsewhere")
            self.send_header("Content-Length", "1000000")  # it is never sent, and nobody waits for it
            self.end_headers()

        def log_message(self, *_):
            pass

    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    now = datetime.now(UTC)
    entry = Entry(str(uuid.uuid4()), "erasure", State.COMPLETED, now, now, now, controller="shop")
    configuration = Configuration((Path("m"),), Path("s"), public_url="https://e.example", processor_domain="e.example")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        send = callbacks(Signer(*rsa_files), configuration)
        refused = pytest.raises(urllib3.exceptions.HTTPError, match=str(status))
        with contextlib.nullcontext() if status == 202 else refused:
            send(f"http://127.0.0.1:{server.server_port}/hook", entry)
        server.shutdown()
    assert [(path, body["request_status"]) for path, body in seen] == [("/hook", "completed")]


def test_callbacks_use_the_proxy_that_the_environment_names(monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "near.example")
    assert client_for("https://far.example/hook").proxy.host == "proxy.example"
    assert client_for("https://near.example/hook").proxy is None
    monkeypatch.delenv("https_proxy")
    monkeypatch.delenv("HTTPS_PROXY", raising=False)
    assert client_for("https://far.example/hook").proxy is None
