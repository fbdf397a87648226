"""Batches: ``/v1/erasures`` takes a list of identities as one request, and reads it as it arrives.

A batch is one request of the ledger: it is completed in one commit of each model, and has one receipt for each. Of the
body, only the identities are kept in memory, and at most as many as one request may name.
"""

from __future__ import annotations

import codecs
import hashlib
import json
import re
import uuid
from collections.abc import Generator
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Depends, Header, Query, Request
from pydantic import BaseModel
from starlette.concurrency import run_in_threadpool

from erasable.core.names import REFERENCE_PATTERN, doubt_of_reference
from erasable.service.http.api import Receipt
from erasable.service.http.opendsr import Day, Name, RequestId, read_day, rfc3339
from erasable.service.http.problems import Refused
from erasable.service.http.site import Eraser, Site, TheSite, needs
from erasable.service.requests import MOST_IDENTITIES, Case, Entry
from erasable.service.tokens import Token

_GATHERED = 2**18  # bytes that are read in a thread at a time
_TOKEN = re.compile(r'[ \t\n\r]*(?:([{}\[\]:,])|("(?:[^"\\\x00-\x1f]|\\["\\/bfnrtu])*")|(null))')
_LONGEST = 6 * 4096 + 2  # characters of an identity that is escaped, with its quotes
_FIELDS = ("identities", "identity_type", "reference", "received")
_TEXT = {"type": "string"}
_REFERENCE: Any = {
    "maxLength": 64,
    "pattern": REFERENCE_PATTERN,
    "description": "Your own reference, kept until a purge: it should name nobody.",
}
_SCHEMA = {
    "type": "object",
    "required": ["identities"],
    "properties": dict.fromkeys(_FIELDS, _TEXT)
    | {"identities": {"type": "array", "items": _TEXT}, "reference": _TEXT | _REFERENCE},
}
_BODY = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": _SCHEMA}, "text/plain": {"schema": _TEXT}},
    }
}

router = APIRouter(tags=["Service"])


class Batch(BaseModel):
    """A batch, without any identity. Receipts are for tokens that may audit, once all are signed."""

    batch: str
    status_url: str
    identities: int
    state: Literal["pending", "in_progress", "completed", "cancelled"]
    reference: str
    received: str
    due: str | None
    expected: str
    settled: str | None
    receipts: list[Receipt] | None = None
    warning: str | None = None  # if the reference looks like a name or an address


class Lines:
    """Reads a body of one identity per line; empty lines are passed over."""

    def __init__(self) -> None:
        self.identities: list[str] = []
        self.fields: dict[str, str | None] = {}
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._rest = ""

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """Read more of the body; ``Refused`` if it cannot be a list of identities."""
        try:
            *lines, self._rest = (self._rest + self._decoder.decode(data, final=last)).split("\n")
        except UnicodeDecodeError:
            raise Refused(400, "the body is not text in UTF-8: encode it so.") from None
        for line in [*lines, self._rest] if last else lines:
            if line := line.removesuffix("\r"):
                self.take(line)
        if len(self._rest) > _LONGEST:
            raise Refused(400, "a line is too long for an identity: send one identity per line.")

    def take(self, identity: str) -> None:
        """Add an identity."""
        if len(self.identities) >= MOST_IDENTITIES:
            raise Refused(413, f"a batch may name {MOST_IDENTITIES:,} identities: send several batches.")
        self.identities.append(identity)


class Object(Lines):
    """Reads a body that is a JSON object with a list of identities, token by token."""

    def __init__(self) -> None:
        super().__init__()
        self._grammar = self._read()
        next(self._grammar)

    def feed(self, data: bytes, *, last: bool = False) -> None:
        """See ``Lines``."""
        wrong = Refused(400, f"the body is not a JSON object of {', '.join(_FIELDS)}, with a list of texts.")
        try:
            text, at = self._rest + self._decoder.decode(data, final=last), 0
            while (token := _TOKEN.match(text, at)) is not None:
                self._grammar.send(token[token.lastindex or 0])
                at = token.end()
        except (UnicodeDecodeError, ValueError, StopIteration):
            raise wrong from None
        self._rest = text[at:].lstrip(" \t\n\r")
        cut_short = self._rest[:1] in ("", '"', "n") and len(self._rest) <= _LONGEST
        if not cut_short or (last and (self._rest or not self.is_whole)):
            raise wrong

    is_whole = False

    def _read(self) -> Generator[None, str, None]:
        """The grammar: it is sent one token at a time, and raises ``ValueError`` at one that does not fit."""
        _expect((yield), "{")
        token = ","
        while token == ",":
            name = _text((yield))
            _expect((yield), ":")
            if name not in _FIELDS or name in self.fields:
                raise ValueError
            token = yield
            self.fields[name] = None if token == "null" or name == "identities" else _text(token)
            if name == "identities":
                _expect(token, "[")
                if (token := (yield)) != "]":
                    self.take(_text(token))
                    while (token := (yield)) == ",":
                        self.take(_text((yield)))
                    _expect(token, "]")
            token = yield
        _expect(token, "}")
        self.is_whole = True
        yield


def _expect(token: str, wanted: str) -> None:
    if token != wanted:
        raise ValueError


def _text(token: str) -> str:
    _expect(token[0], '"')
    return str(json.loads(token)) if "\\" in token else token[1:-1]


@router.post("/v1/erasures", status_code=202, openapi_extra=_BODY)
async def file(
    request: Request,
    site: TheSite,
    caller: Eraser,
    identity_type: Name = None,
    reference: Annotated[str, Query(json_schema_extra=_REFERENCE)] = "",
    received: Day | None = None,
    idempotency_key: Annotated[str | None, Header(max_length=255)] = None,
) -> Batch:
    """File a batch: JSON, or one identity per line as text. It is durable before the answer is sent.

    With the same ``Idempotency-Key`` and body the answer is the same batch; with another body it is 409.
    """
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind not in ("application/json", "text/plain"):
        raise Refused(415, "send application/json, or text/plain with one identity per line.")
    body, seal = (Object() if kind == "application/json" else Lines()), hashlib.sha256(kind.encode())
    parts, size = [], 0
    async for part in request.stream():
        parts.append(part)
        size += len(part)
        if size >= _GATHERED:
            await run_in_threadpool(_feed, body, seal, b"".join(parts))
            parts, size = [], 0
    await run_in_threadpool(_feed, body, seal, b"".join(parts), last=True)
    given = {"identity_type": identity_type, "reference": reference, "received": received and received.isoformat()}
    fields = {name: value for name, value in (given | body.fields).items() if value}
    seal.update(json.dumps(fields, sort_keys=True).encode())
    return await run_in_threadpool(_file, site, caller, body.identities, fields, seal.digest(), idempotency_key)


def _feed(body: Lines, seal: Any, data: bytes, *, last: bool = False) -> None:
    seal.update(data)
    body.feed(data, last=last)


def _file(
    site: Site, caller: Token, named: list[str], fields: dict[str, str], seal: bytes, idempotency_key: str | None
) -> Batch:
    service = site.service
    types = sorted(service.settings.identity_types)
    if "identity_type" not in fields and len(types) > 1:
        raise Refused(400, f"several types of identity are accepted: name one as identity_type ({', '.join(types)}).")
    arrived = read_day(fields["received"], "received") if "received" in fields else None
    identities = service.identities(fields.get("identity_type", types[0]), named)
    request_id = str(uuid.uuid4()) if idempotency_key is None else service.id_of(caller.name, idempotency_key)
    case = Case(fields.get("reference", ""), arrived)
    entry = service.accept(request_id, "erasure", identities, seal, controller=caller.name, case=case)
    return _batch(site, entry)


@router.get("/v1/erasures/{batch}")
def status(
    batch: RequestId,
    site: TheSite,
    caller: Annotated[Token, Depends(needs("erase", "audit"))],
    controller: Name = None,
) -> Batch:
    """The state of a batch, and its receipts for tokens that may audit."""
    ledger = site.service.ledger
    entry = ledger.entry(batch, *caller.looks_for(controller))
    found = ledger.receipts(entry) if caller.audits else None
    if found:
        site.service.note("download", caller.name, entry.request_id)
    receipts = found and [Receipt(model=name, receipt=json.loads(text)) for name, text in sorted(found.items())]
    return _batch(site, entry, receipts or None)


def _batch(site: Site, entry: Entry, receipts: list[Receipt] | None = None) -> Batch:
    return Batch(
        batch=entry.request_id,
        status_url=f"{site.configuration.url}/v1/erasures/{entry.request_id}",
        identities=0 if entry.asked is None else entry.asked.identities,
        state=entry.state.value,
        reference=entry.reference,
        received=rfc3339(entry.received),
        due=None if entry.due is None else entry.due.isoformat(),
        expected=rfc3339(entry.expected),
        settled=None if entry.settled is None else rfc3339(entry.settled),
        receipts=receipts,
        warning=doubt_of_reference(entry.reference),
    )
