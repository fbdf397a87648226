"""A service from its configuration, and the server that runs it until it is told to stop."""

from __future__ import annotations

import gc
import ipaddress
import json
import logging
import os
import secrets
import signal
import stat
import sys
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3
import uvicorn
from starlette.types import ASGIApp

from erasable.audit.keys import PrivateKey, new_key, read_private_key, write_key
from erasable.errors import ConfigurationError, StoreError
from erasable.models.files import checksum_at
from erasable.service.http.app import create_app, warm
from erasable.service.http.configuration import Configuration
from erasable.service.http.connections import Connection, listening
from erasable.service.http.opendsr import Signer, status_of
from erasable.service.processes import processors
from erasable.service.requests import Entry
from erasable.service.service import ErasureService, Health
from erasable.service.suppression import SuppressionList, read_key
from erasable.service.tokens import TokenFile
from erasable.store import check_private, locked

log = logging.getLogger("erasable.service")
TOKENS = "tokens.json"
_CALLBACK_SECONDS = 10.0
_COLLECTIONS = 20_000, 20, 50  # a request leaves hardly any garbage that has to be searched for
_SWITCH_SECONDS = 0.0005  # how long another thread may keep a prediction waiting for the interpreter


def callbacks(
    signer: Signer, configuration: Configuration, client: urllib3.PoolManager | None = None
) -> Callable[..., None]:
    """Return a function that delivers signed callbacks, without following redirections or reading the answer."""

    def send(url: str, entry: Entry) -> None:
        body = status_of(entry, configuration.url) | {"status_callback_url": url}
        raw = json.dumps(body, separators=(",", ":")).encode()
        headers = {"Content-Type": "application/json"} | signer.headers(raw, configuration.processor_domain)
        answer = (client or client_for(url)).request(
            "POST",
            url,
            body=raw,
            headers=headers,
            redirect=False,
            retries=False,
            preload_content=False,
            timeout=_CALLBACK_SECONDS,
        )
        answer.close()
        if not 200 <= answer.status < 300:
            raise urllib3.exceptions.HTTPError(f"the receiver of a callback answered {answer.status}.")

    return send


def client_for(url: str) -> urllib3.PoolManager:
    """Return a client for one request, through the proxy that the environment names for this host, if any."""
    parts = urlsplit(url)
    proxy = None if proxy_bypass(parts.hostname or "") else getproxies().get(parts.scheme)
    return urllib3.PoolManager(num_pools=1) if proxy is None else urllib3.ProxyManager(proxy, num_pools=1)


def made_of(configuration: Configuration) -> tuple[ErasureService, TokenFile, Signer | None]:
    """The service, its tokens and the signer of OpenDSR answers; missing keys are made.

    Raises ``ConfigurationError`` if it would use the network without TLS, or files cannot be used.
    """
    _refuse_without_tls(configuration)
    signer = None
    if configuration.opendsr_certificate is not None and configuration.opendsr_key is not None:
        signer = Signer(configuration.opendsr_certificate, configuration.opendsr_key)
        if not signer.is_issued_to(configuration.processor_domain):
            raise ConfigurationError(
                f"the OpenDSR certificate is not issued to {configuration.processor_domain}: set processor_domain to "
                "the domain that it names, since that is what controllers check."
            )
    models = configuration.model_files()
    if wrong := [str(path) for path in models.values() if checksum_at(path) is None]:
        raise ConfigurationError(f"{wrong[0]} is no model, or cannot be read: name a file that erasable has written.")
    _refuse_open_to_others(configuration, models.values())
    folder = configuration.folder  # nothing is created before this line
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if (history := folder / "history.json").exists():  # version 0.1.0 kept counts there that may tell who was stored
        with suppress(StoreError), locked(history) as writer:
            writer.remove()
    operator = _operator_key(configuration.operator_key or folder / "operator.key")
    listed = configuration.suppression_list
    service = ErasureService(
        models,
        folder / "requests",
        signer=_receipt_key(configuration.receipt_key or folder / "receipts.pem"),
        operator_key=operator,
        settings=configuration.service,
        send=None if signer is None else callbacks(signer, configuration),
        suppression=None if listed is None else SuppressionList(listed, operator),
        processes=True,
        tokens=folder / TOKENS,
        managed_at=configuration.url,
    )
    return service, TokenFile(folder / TOKENS), signer


def serve(configuration: Configuration, *, started: Callable[[Health], None] | None = None) -> None:
    """Recover, accept requests, and on SIGTERM or SIGINT finish those that were accepted.

    Parameters
    ----------
    configuration : Configuration
    started : callable, optional
        Called with the health of the service once it has recovered, before the first request.
    """
    service, tokens, signer = made_of(configuration)
    # uvicorn raises the signal once more when it has stopped: that must not end the process before all is done.
    signal.signal(signal.SIGTERM, lambda *_: None)
    sys.setswitchinterval(_SWITCH_SECONDS)
    if len(both := processors()) == 2:  # a thread that waits for the second, busy one would hold up all others
        with suppress(OSError):  # without permission it works all the same
            os.sched_setaffinity(0, {min(both)})
    bound = listening(configuration)
    try:
        health = service.start()
        if started is not None:
            started(health)
        app = create_app(service, tokens, configuration, signer)
        warm(app)
        server = uvicorn.Server(_server_options(configuration, app.middleware_stack or app))
        gc.freeze()  # objects that exist now stay: searching them again would hold up everybody
        gc.set_threshold(*_COLLECTIONS)
        server.run([bound])
    finally:
        service.stop(configuration.drain)
        bound.close()


def _server_options(configuration: Configuration, app: ASGIApp) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        access_log=False,  # its lines would hold what clients put into addresses
        log_config=None,
        log_level="error",  # anybody can cause warnings
        loop="asyncio",  # uvloop releases the interpreter at every callback, and predictions wait for threads
        http=Connection,
        h11_max_incomplete_event_size=configuration.head_bytes,
        limit_concurrency=configuration.connections,
        ws="none",
        proxy_headers=False,  # anybody can send them
        server_header=False,
        date_header=True,
        timeout_graceful_shutdown=max(1, int(configuration.drain)),
        timeout_keep_alive=30,
        ssl_certfile=configuration.tls_certificate,
        ssl_keyfile=configuration.tls_key,
    )


def _refuse_without_tls(configuration: Configuration) -> None:
    if configuration.tls_certificate is not None or configuration.behind_proxy:
        return
    try:
        inside = ipaddress.ip_address(configuration.host).is_loopback
    except ValueError:
        inside = configuration.host == "localhost"
    if not inside:
        raise ConfigurationError(
            f"the service would listen at {configuration.host or 'all addresses'}, where tokens and identities cross "
            "the network in the clear. Give tls_certificate and tls_key; or, if only a proxy that speaks TLS reaches "
            "this address, set behind_proxy = true and public_url."
        )


def _refuse_open_to_others(configuration: Configuration, models: Collection[Path]) -> None:
    """Refuse files with which others could get in or change models; keys are checked when they are read."""
    folder = configuration.folder
    secret = "they could get in, or pose as this service. Take their rights away (chmod 600)."
    for path in (folder / TOKENS, configuration.tls_key, configuration.opendsr_key):
        if path is not None and path.exists():
            check_private(path, path.stat(), secret)
    served = "they could decide what is served and signed. Take their rights away (chmod go-w)."
    for path in (folder, folder / "requests", *models, *{model.absolute().parent for model in models}):
        if path.exists():
            facts = path.stat()
            sticky = path.is_dir() and facts.st_mode & stat.S_ISVTX and path not in (folder, folder / "requests")
            check_private(path, facts, served, refused=0 if sticky else 0o002)
            if stat.S_IMODE(facts.st_mode) & (0o020 if path.is_dir() else 0o064):
                log.warning("%s has mode %04o: others may read or change it.", path, stat.S_IMODE(facts.st_mode))


def _operator_key(path: Path) -> bytes:
    """The key in a file, which is made if it does not exist."""
    if not path.exists():
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w") as file:
            file.write(secrets.token_hex(32) + "\n")
    return read_key(path)


def _receipt_key(path: Path) -> PrivateKey:
    if not path.exists():
        write_key(new_key(), path.with_suffix(""))
    return read_private_key(path)
