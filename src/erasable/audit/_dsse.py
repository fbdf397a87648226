"""DSSE envelopes in JSON, read strictly: any change of a character is refused or leaves what is read the same."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Set
from dataclasses import dataclass
from typing import Any

from erasable.errors import ReceiptError

LARGEST_RECEIPT = 65_536  # characters; one of ours has about 1,300
_MOST_SIGNATURES = 16


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """The bytes that DSSE signs: ``DSSEv1 SP length SP type SP length SP payload``."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


@dataclass(frozen=True)
class Envelope:
    """The parts of an envelope; signatures are pairs of a keyid and bytes."""

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def read_envelope(text: str) -> Envelope:
    """The parts of the envelope. Its layout is free: the signature is over the payload, and tools wrap JSON anew."""
    if len(text) > LARGEST_RECEIPT:
        raise ReceiptError(f"not a receipt: it has more than {LARGEST_RECEIPT} characters.")
    envelope = read_object(parse_json(text), "it", {"payloadType", "payload", "signatures"})
    kind, listed = envelope["payloadType"], envelope["signatures"]
    if not isinstance(kind, str) or not kind.isascii():
        raise ReceiptError("not a receipt: payloadType must be ASCII text.")
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST_SIGNATURES:
        raise ReceiptError(f"not a receipt: signatures must be a list of 1 to {_MOST_SIGNATURES}.")
    signatures = []
    for entry in listed:
        found = read_object(entry, "a signature", {"sig"}, {"keyid"})
        keyid = found.get("keyid", "")
        if not isinstance(keyid, str):
            raise ReceiptError("not a receipt: keyid must be text.")
        signatures.append((keyid, _unbase64(found["sig"], "sig")))
    return Envelope(kind, _unbase64(envelope["payload"], "payload"), tuple(signatures))


def parse_json(text: str | bytes) -> Any:
    """What a JSON text holds; ``ReceiptError`` for a name that occurs twice, too."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise ReceiptError("not a receipt: it is no JSON in UTF-8, or cut off, or says a name twice.") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def read_object(value: Any, what: str, required: set[str], optional: Set[str] = frozenset()) -> dict[str, Any]:
    """The value as an object with these names and no others: beside what is signed and known, nothing is said."""
    if not isinstance(value, dict) or not required <= value.keys() <= required | optional:
        names = ", ".join(sorted(required)) + "".join(f", maybe {name}" for name in sorted(optional))
        raise ReceiptError(f"not a receipt: {what} must hold {names}, and nothing else.")
    return value


def as_base64(data: bytes) -> str:
    """Base64, padded."""
    return base64.b64encode(data).decode()


def _unbase64(text: Any, name: str) -> bytes:
    """The bytes; DSSE allows both alphabets, padding and unused bits have one form."""
    if isinstance(text, str) and text.isascii():
        for encode, mixed in ((base64.b64encode, b"+/"), (base64.urlsafe_b64encode, b"-_")):
            try:
                data = base64.b64decode(text, altchars=mixed, validate=True)
            except binascii.Error:
                continue
            if encode(data).decode() == text:
                return data
    raise ReceiptError(f"not a receipt: {name} must be base64, padded and without line breaks.")
