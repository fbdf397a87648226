"""Receipts: a signed statement that a state came out of a request to forget.

A receipt is a DSSE envelope around an in-toto Statement v1, signed with Ed25519. It names states by digest and the
request by the caller's own number. It holds no row id, no subject, no count of rows and no hash of one. The fields,
what they prove and what they tell are in ``docs/receipts.md``.

Version 1 is written where no field of version 2 is given: the model's name, the shape of what was asked for, and the
normalisation of names.
"""

from __future__ import annotations

import re
import uuid
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from typing import Any

import rfc8785

from erasable.audit._dsse import LARGEST_RECEIPT as LARGEST_RECEIPT
from erasable.audit._dsse import Envelope, as_base64, parse_json, pre_authentication, read_envelope, read_object
from erasable.audit.keys import PrivateKey, PublicKey
from erasable.core.names import Shape, Spelling, read_spelling
from erasable.errors import ConfigurationError, OtherStateError, ReceiptError, SignatureError

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:erasable:forget-receipt:v{}"
LONGEST_MODEL = 255  # characters: as long as the name of a file

_VERSIONS = 2
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_KIND = re.compile(r"urn:erasable:forget-receipt:v([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class Receipt:
    """What a receipt says.

    Attributes
    ----------
    request_id : str
        The caller's name for the request. Not shown by ``repr``.
    requested_at, completed_at : datetime
        UTC, whole seconds, by the signer's clock or by what the signer was told.
    state_before : str or None
        Digest of the state the request found, 64 hexadecimal digits; None when the signer left it out.
    state_after : str
        Digest of the state the request left behind.
    guarantee : str
        The definition of unlearning that the model meets, of what it speaks, and what it assumes.
    erasable_version : str
        The software that forgot.
    format_version : int
        The format of the state.
    model : str or None
        What the signer calls the model; None when the signer left it out.
    asked : Shape or None
        A rough description of the identities in the request, which names nobody; None when the signer left it out.
    normalisation : mapping or None
        The steps by which ids and subjects were normalised before they were compared, by role; empty where they were
        compared character by character. None when the signer left it out.
    signatures : int
        How many signatures the envelope carries. No part of what was signed, and not compared.
    """

    request_id: str = field(repr=False)
    requested_at: datetime
    completed_at: datetime
    state_before: str | None
    state_after: str
    guarantee: str
    erasable_version: str
    format_version: int
    signatures: int = field(default=1, compare=False)
    model: str | None = None
    asked: Shape | None = None
    normalisation: Spelling | None = field(default=None, hash=False)

    @property
    def version(self) -> int:
        """1, or 2 where one of its fields is given."""
        return 1 if self.model is None and self.asked is None and self.normalisation is None else 2

    def as_json(self) -> dict[str, Any]:
        """The statement that is signed, as JSON values."""
        predicate: dict[str, Any] = {
            "requestId": self.request_id,
            "requestedAt": _stamp(self.requested_at),
            "completedAt": _stamp(self.completed_at),
            "stateAfter": {"sha256": self.state_after},
            "guarantee": self.guarantee,
            "erasableVersion": self.erasable_version,
            "formatVersion": self.format_version,
        }
        if self.state_before is not None:
            predicate["stateBefore"] = {"sha256": self.state_before}
        if self.model is not None:
            predicate["model"] = self.model
        if self.asked is not None:
            predicate["asked"] = self.asked.as_json()
        if self.normalisation is not None:
            predicate["normalisation"] = {role: list(steps) for role, steps in self.normalisation.items()}
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "state", "digest": {"sha256": self.state_after}}],
            "predicateType": PREDICATE_TYPE.format(self.version),
            "predicate": predicate,
        }


def make_receipt(
    key: PrivateKey,
    *,
    state_before: str | None,
    state_after: str,
    guarantee: str,
    format_version: int,
    requested_at: datetime,
    completed_at: datetime | None = None,
    request_id: str | None = None,
    model: str | None = None,
    asked: Shape | None = None,
    normalisation: Spelling | None = None,
) -> str:
    """A signed receipt as one line of JSON, to be handed to the caller; nothing of it is kept.

    Parameters
    ----------
    key : PrivateKey
    state_before, state_after : str
        Digests of the states, 64 hexadecimal digits. ``state_before=None`` leaves it out: whoever holds the state
        after can test guesses of the forgotten rows against the digest before.
    guarantee : str
        The model's ``Guarantee`` as text, which says of what it speaks and what it assumes.
    format_version : int
        The format of the state.
    requested_at, completed_at : datetime
        With a time zone; seconds are kept. ``completed_at`` is now unless given.
    request_id : str, optional
        At most 128 printable ASCII characters, and no identity of anybody. By default a random UUID.
    model : str, optional
        What to call the model: one line of at most 255 printable characters, and no identity of anybody.
    asked : Shape, optional
        A rough description of the identities in the request.
    normalisation : mapping, optional
        The steps by which ids and subjects were normalised, by role; empty for none.

    Returns
    -------
    str
        RFC 8785 canonical JSON and one newline. The same arguments give the same text.

    Raises
    ------
    ConfigurationError
        When an argument cannot be used. See :func:`check_request_id` to know before anything is forgotten.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from erasable.audit.keys import new_key
    >>> from erasable.audit.receipts import check_receipt, make_receipt
    >>> key = new_key()
    >>> text = make_receipt(
    ...     key,
    ...     state_before="ab" * 32,
    ...     state_after="cd" * 32,
    ...     guarantee="exact system-aware unlearning",
    ...     format_version=1,
    ...     requested_at=datetime.now(UTC),
    ... )
    >>> check_receipt(text, key.public).state_after == "cd" * 32
    True
    """
    receipt = Receipt(
        check_request_id(str(uuid.uuid4()) if request_id is None else request_id),
        _in_utc("requested_at", requested_at),
        _in_utc("completed_at", datetime.now(UTC) if completed_at is None else completed_at),
        state_before,
        state_after,
        guarantee,
        _version(),
        format_version,
        model=model,
        asked=asked,
        normalisation=normalisation,
    )
    problem = _problem(receipt)
    if problem is not None:
        raise ConfigurationError(f"no receipt can be made: {problem}.")
    return make_envelope(key, PAYLOAD_TYPE, receipt.as_json())


def make_envelope(key: PrivateKey, payload_type: str, content: dict[str, Any]) -> str:
    """A signed statement of any kind: a DSSE envelope around canonical JSON, and one newline."""
    payload = rfc8785.dumps(content)
    signature = {"keyid": key.public.keyid, "sig": as_base64(key.sign(pre_authentication(payload_type, payload)))}
    envelope: dict[str, Any] = {"payloadType": payload_type, "payload": as_base64(payload), "signatures": [signature]}
    return rfc8785.dumps(envelope).decode() + "\n"


def check_envelope(text: str, public_key: PublicKey, payload_type: str) -> dict[str, Any]:
    """The content of a signed statement of a kind, once its signature has been found good.

    Raises
    ------
    SignatureError, ReceiptError
        When it was signed with another key, was changed since, or is of another kind.
    """
    envelope = _checked(text, public_key)
    content = parse_json(envelope.payload)
    if envelope.payload_type != payload_type or not isinstance(content, dict):
        raise ReceiptError(f"this is a signed statement of another kind: its payloadType must be {payload_type}.")
    return content


@cache
def _version() -> str:
    return version("erasable")


def check_request_id(text: str) -> str:
    """The request id itself, when a receipt can carry it.

    Raises
    ------
    ConfigurationError
        When it is too long, or not printable ASCII.
    """
    problem = _request_problem(text)
    if problem is not None:
        raise ConfigurationError(f"{problem}: give a shorter or plainer one, or none to get a random one.")
    return text


def check_receipt(text: str, public_key: PublicKey) -> Receipt:
    """What a receipt says, once its signature has been found good: the signature is checked first, the content then.

    Raises
    ------
    SignatureError
        When it was signed with another key, or changed after it was signed.
    ReceiptError
        When it is no receipt, or a signed statement of another kind.
    """
    return _read_statement(_checked(text, public_key))


def _checked(text: str, public_key: PublicKey) -> Envelope:
    """An envelope whose signature is good."""
    envelope = read_envelope(text)
    signed = pre_authentication(envelope.payload_type, envelope.payload)
    # A keyid is not signed: it never decides, it only says which way a failed check is put in words.
    if not any(public_key.matches(sig, signed) for _, sig in envelope.signatures):
        raise _signature_error([keyid for keyid, _ in envelope.signatures], public_key.keyid)
    return envelope


def read_receipt(text: str) -> Receipt:
    """What a receipt says, with **no** look at its signature: see :func:`check_receipt`.

    Raises
    ------
    ReceiptError
        When it is no receipt, or of a newer version.
    """
    return _read_statement(read_envelope(text))


def check_state(receipt: Receipt, digest: str) -> None:
    """Nothing, when this is the digest of the state that the receipt speaks of.

    Raises
    ------
    OtherStateError
        When it is not.
    """
    if digest != receipt.state_after:
        raise OtherStateError(
            f"the state is not the one this receipt speaks of: its digest begins {digest[:16]}, the receipt's "
            f"{receipt.state_after[:16]}. Any later change makes a new state: give the file as it was at that moment."
        )


def _read_statement(envelope: Envelope) -> Receipt:
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ReceiptError(f"not a receipt: payloadType must be {PAYLOAD_TYPE}.")
    statement = read_object(
        parse_json(envelope.payload), "the payload", {"_type", "subject", "predicateType", "predicate"}
    )
    if statement["_type"] != STATEMENT_TYPE:
        raise ReceiptError(f"not a receipt: the payload must be of type {STATEMENT_TYPE}.")
    if (kind := _KIND.fullmatch(str(statement["predicateType"]))) is None:
        raise ReceiptError("not a receipt: a statement of another kind, not that rows were forgotten.")
    if int(kind[1]) > _VERSIONS:
        raise ReceiptError(
            f"this receipt is of version {kind[1]}, and this erasable reads versions 1 to {_VERSIONS}: use a newer one."
        )
    required = {"requestId", "requestedAt", "completedAt", "stateAfter", "guarantee", "erasableVersion"}
    optional = {"stateBefore"} if kind[1] == "1" else {"stateBefore", "model", "asked", "normalisation"}
    said = read_object(statement["predicate"], "the predicate", required | {"formatVersion"}, optional)
    receipt = Receipt(
        said["requestId"],
        _time(said["requestedAt"], "requestedAt"),
        _time(said["completedAt"], "completedAt"),
        _sha256(said["stateBefore"], "stateBefore") if "stateBefore" in said else None,
        _sha256(said["stateAfter"], "stateAfter"),
        said["guarantee"],
        said["erasableVersion"],
        said["formatVersion"],
        len(envelope.signatures),
        said.get("model"),
        _asked(said["asked"]) if "asked" in said else None,
        _normalisation(said["normalisation"]) if "normalisation" in said else None,
    )
    problem = _problem(receipt)
    if problem is not None:
        raise ReceiptError(f"not a receipt: {problem}.")
    if statement["subject"] != receipt.as_json()["subject"]:
        raise ReceiptError("not a receipt: the subject must be the state after, and that alone.")
    if rfc8785.dumps(receipt.as_json()) != envelope.payload:  # what was not looked at so far has one form only
        raise ReceiptError("not a receipt: the payload is not in canonical form (RFC 8785).")
    return receipt


def _problem(receipt: Receipt) -> str | None:
    """What is wrong with the values of a receipt, if anything: one list for writer and reader."""
    before = receipt.state_before
    if not _is_digest(receipt.state_after) or not (before is None or _is_digest(before)):
        return "a digest of a state must be 64 hexadecimal digits, in lower case"
    if not _is_line(receipt.guarantee, 1000):
        return "the guarantee must be one line of at most 1000 printable characters"
    if not _is_line(receipt.erasable_version, 64):
        return "the version of erasable must be one line of at most 64 printable characters"
    if type(receipt.format_version) is not int or not 1 <= receipt.format_version <= 1_000_000:
        return "the format version must be an integer, 1 or more"
    if receipt.model is not None and not _is_line(receipt.model, LONGEST_MODEL):
        return f"the name of the model must be one line of at most {LONGEST_MODEL} printable characters"
    return _request_problem(receipt.request_id)


def _request_problem(text: object) -> str | None:
    if _is_line(text, 128) and isinstance(text, str) and text.isascii() and text == text.strip():
        return None
    length = f" (it has {len(text)})" if isinstance(text, str) else ""
    return f"the request id must be 1 to 128 printable ASCII characters{length}, with no space at its ends"


def _is_digest(text: object) -> bool:
    return isinstance(text, str) and _DIGEST.fullmatch(text) is not None


def _is_line(text: object, most: int) -> bool:
    return isinstance(text, str) and 1 <= len(text) <= most and text.isprintable()


def _asked(value: Any) -> Shape:
    try:
        return Shape.read(value)
    except ValueError:
        raise ReceiptError("not a receipt: asked must describe a number, formats, lengths and kinds alone.") from None


def _normalisation(value: Any) -> Spelling:
    try:
        return read_spelling(value, "normalisation")
    except ConfigurationError as error:
        raise ReceiptError(f"not a receipt: {error}") from None


def _sha256(value: Any, name: str) -> Any:
    return read_object(value, name, {"sha256"})["sha256"]


def _time(value: Any, name: str) -> datetime:
    try:
        return datetime.fromisoformat(_TIME.fullmatch(value)[0])  # type: ignore[index]
    except (TypeError, ValueError):
        raise ReceiptError(f"not a receipt: {name} must be a time such as 2026-01-31T12:00:00Z.") from None


def _stamp(moment: datetime) -> str:
    return moment.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _in_utc(name: str, moment: datetime) -> datetime:
    if moment.utcoffset() is None:
        raise ConfigurationError(f"{name} must say its time zone: use datetime.now(UTC).")
    return moment.astimezone(UTC)


def _signature_error(named: list[str], own: str) -> SignatureError:
    if own in named:
        return SignatureError(
            f"the receipt was altered: it names the key given, {own[:16]}, but its signature does not match what it "
            "says. Ask the signer for the receipt as it was handed out."
        )
    known = sorted({keyid[:16] for keyid in named if _is_digest(keyid)})
    return SignatureError(
        f"the receipt was signed with another key: it names {', '.join(known) or 'none that is known here'}, "
        f"the key given is {own[:16]}. Check with the public key of the one who signed it."
    )
