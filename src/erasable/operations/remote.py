"""A client of ``POST /v1/erasures``: files a list of identities with a service and waits for its receipts.

The standard library is enough, so a machine that only sends requests does not need the extra ``service``.
"""

from __future__ import annotations

import http.client
import json
import ssl
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from email.message import Message
from typing import IO, Any
from urllib.parse import urlsplit

import rfc8785

from erasable.errors import BusyError, ConfigurationError, ConflictError, InputError, StoreError, UnknownOutcomeError

Progress = Callable[[str, int, int], None]

_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_LATER = (429, 503, 504)  # the service asks to try again
_CHUNK, _LONGEST_PAUSE, _PER_CALL = 2**16, 10.0, 60.0  # bytes, seconds, seconds
_FORBIDDEN = "the service refuses this token: it must be valid and have the scope erase."


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Follows no redirection: the token is for one service alone."""

    def redirect_request(self, *_: Any) -> None:
        """Refuse it, which makes the answer an error."""


@dataclass(frozen=True)
class Batch:
    """Where a list stands: ``receipts`` by model, or None if they are not signed or not for this token."""

    id: str
    identities: int
    state: str
    due: str
    receipts: dict[str, str] | None = field(default=None, repr=False)


class Client:
    """A service, as a program with a token sees it.

    Raises ConfigurationError if the address or the certificates cannot be used.

    Parameters
    ----------
    url : str
        Where the service is: HTTPS, or HTTP on this machine.
    token : str
        With the scope ``erase``; with ``audit`` too, to get receipts.
    timeout : float, default=300
        Seconds for which calls that fail are repeated, and for which ``wait`` waits.
    ca_file : str, optional
        Certificates to trust, in PEM. By default those of the system.
    """

    def __init__(self, url: str, token: str, *, timeout: float = 300.0, ca_file: str | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username is not None:
            raise ConfigurationError("--url must be an address such as https://erasure.example.")
        if parts.scheme == "http" and parts.hostname not in _THIS_MACHINE:
            raise ConfigurationError("--url must begin with https: a token must not travel in plain text.")
        if not token.isascii() or not token.isprintable() or not token.strip():
            raise ConfigurationError("the token must be one line of text, as erasable token make printed it.")
        self._url, self._token, self._timeout = url.rstrip("/"), token.strip(), timeout
        try:
            trusted = ssl.create_default_context(cafile=ca_file)
        except (OSError, ssl.SSLError) as error:
            raise ConfigurationError(f"the certificates of --ca-file cannot be read: {error}.") from error
        self._open = urllib.request.build_opener(_NoRedirect, urllib.request.HTTPSHandler(context=trusted)).open

    def file(
        self, identities: Sequence[str], key: str, *, progress: Progress = lambda *_: None, **options: str | None
    ) -> Batch:
        """File a list; it is durable on return. With the same key, the same list is filed once.

        ``options`` are ``identity_type``, ``reference`` and ``received``, as in ``POST /v1/erasures``.

        Raises ``InputError`` or ``ConfigurationError`` if the service refuses the list or the token, ``ConflictError``
        if the key was used with another list, ``UnknownOutcomeError`` if no answer came: file it again with this key.
        """
        if not (1 <= len(key) <= 255 and key.isascii() and key.isprintable()):
            raise ConfigurationError("an idempotency key has 1 to 255 printable ASCII characters: give another.")
        body = json.dumps({"identities": list(identities)} | {k: v for k, v in options.items() if v}).encode()
        headers = {"Content-Type": "application/json", "Content-Length": str(len(body)), "Idempotency-Key": key}

        def parts() -> Any:
            for start in range(0, len(body), _CHUNK):
                yield body[start : start + _CHUNK]
                progress("sending", min(start + _CHUNK, len(body)), len(body))

        try:
            answer = self._call("POST", "/v1/erasures", headers, parts)
        except BusyError as error:
            raise UnknownOutcomeError(
                f"no answer came ({error}), so it is not known whether the list was received: run it again with "
                f"--idempotency-key {key}."
            ) from error
        if not isinstance(answer, dict) or not {"batch", "identities", "state", "due"} <= answer.keys():
            raise UnknownOutcomeError(
                f"what answered is no erasure service, so the list may not have been received: check --url, and run it "
                f"again with --idempotency-key {key}."
            )
        return Batch(answer["batch"], answer["identities"], answer["state"], answer["due"])

    def wait(self, batch: Batch, progress: Progress = lambda *_: None) -> Batch:
        """Wait until a list is completed and signed for; ``BusyError`` if that takes longer than the timeout."""
        until, pause = time.monotonic() + self._timeout, 0.2
        while True:
            found = self._call("GET", f"/v1/erasures/{batch.id}")
            receipts = self._receipts(batch.id) if found["state"] == "completed" else None
            step = 1 + (found["state"] != "pending") + (found["state"] in ("completed", "cancelled"))
            progress("waiting", step + (receipts is not None), 4)
            if found["state"] == "cancelled" or receipts is not None:
                return Batch(batch.id, batch.identities, found["state"], batch.due, receipts or None)
            if time.monotonic() > until:
                raise BusyError(f"the list is filed, and still {found['state']}: ask again later for {batch.id}.")
            time.sleep(pause)
            pause = min(pause * 1.5, _LONGEST_PAUSE)

    def _receipts(self, batch: str) -> dict[str, str] | None:
        """The receipts by model; None while they are not all signed, and none if they are not for this token."""
        try:
            found = self._call("GET", f"/v1/receipts/{batch}")
        except ConfigurationError:
            return {}
        return {one["model"]: rfc8785.dumps(one["receipt"]).decode() + "\n" for one in found} if found else None

    def _call(
        self, method: str, path: str, headers: dict[str, str] | None = None, parts: Callable[[], Any] | None = None
    ) -> Any:
        """The JSON of an answer; asked again while the service cannot be reached or says that it is busy."""
        until = time.monotonic() + self._timeout
        while True:
            data = None if parts is None else parts()
            request = urllib.request.Request(self._url + path, data, headers or {}, method=method)
            request.add_unredirected_header("Authorization", f"Bearer {self._token}")
            pause = 1.0
            try:
                with self._open(request, timeout=_PER_CALL) as answer:
                    return json.load(answer)
            except urllib.error.HTTPError as error:
                with error:
                    detail = _detail(error)
                if error.code not in _LATER:
                    raise _refusal(error.code, detail) from None
                problem = f"{error.code}: {detail}"
                pause = float(_seconds(error.headers))
            except (OSError, ValueError, http.client.HTTPException) as error:  # also an answer cut off, or no JSON
                if isinstance(getattr(error, "reason", None), ssl.SSLCertVerificationError):
                    raise ConfigurationError("the certificate of the service is not trusted: see --ca-file.") from None
                problem = f"the service cannot be reached: {type(error).__name__}"
            if time.monotonic() + pause > until:
                raise BusyError(problem) from None
            time.sleep(min(pause, _LONGEST_PAUSE))


def _detail(answer: IO[bytes]) -> str:
    """What a problem says of itself."""
    try:
        return str(json.load(answer)["detail"])
    except (ValueError, LookupError, TypeError, OSError):
        return "the service gave no reason."


def _seconds(headers: Message) -> int:
    text = headers.get("Retry-After") or "1"
    return int(text) if text.isdecimal() else 1


def _refusal(status: int, detail: str) -> Exception:
    if status in (401, 403):
        return ConfigurationError(_FORBIDDEN)
    if status == 409:
        return ConflictError(detail)
    if status in (400, 413, 415, 422):
        return InputError(detail)
    return StoreError(f"the service answered {status}: {detail}")
