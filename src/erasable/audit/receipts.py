"""Receipts: a signed statement that a state is the result of a request to forget, and the file that it is written to.

A receipt is a DSSE envelope around an in-toto Statement v1, signed with Ed25519. It names states by digest and the
request by the caller's own number. It holds no row id, no subject, no count of rows and no hash of one. The fields,
what they prove and what they reveal are in ``docs/receipts.md``.

Version 1 is written if no field of version 2 is given: the model's name, the shape of the request, and the
normalisation of names. Version 3 is written for models with a learner, and version 4 where overwritten bytes may stay
on the medium.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import re
import uuid
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import rfc8785

from erasable.audit.keys import PrivateKey, PublicKey
from erasable.core.names import Shape, Spelling, read_spelling
from erasable.errors import (
    BusyError,
    ConfigurationError,
    OtherStateError,
    ReceiptError,
    SignatureError,
    StoreError,
)
from erasable.models.reports import TrainedLearner
from erasable.store import REAL_DISK, REASONS, BlockDoubt, half_written
from erasable.version import VERSION

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
PREDICATE_TYPE = "urn:erasable:forget-receipt:v{}"
LONGEST_MODEL = 255  # characters: as long as the name of a file
LARGEST_RECEIPT = 65_536  # characters; one of ours has about 1,300

_VERSIONS = 4
_MOST_SIGNATURES = 16
_RESERVED = 8192  # bytes of a receipt's file before it is written: more than any receipt that is made here has
_DIGEST = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z")
_FILE_SYSTEM = re.compile(r"[a-z0-9][a-z0-9._-]{0,31}")
_KIND = re.compile(r"urn:erasable:forget-receipt:v([1-9][0-9]{0,8})")


@dataclass(frozen=True)
class Receipt:
    """The statement of a receipt."""

    # Digest of the state before the request, 64 hexadecimal digits. None leaves it out: a holder of the state after
    # could test guesses of the forgotten rows against it.
    state_before: str | None
    state_after: str  # digest of the state after the request
    guarantee: str  # the model's ``Guarantee`` as text: the definition of unlearning that it meets, and what it assumes
    format_version: int  # the format of the state
    # requested_at, completed_at: with a time zone; seconds are kept. By the signer's clock, or as given by the caller.
    requested_at: datetime
    completed_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    # The caller's name for the request: at most 128 printable ASCII characters, and no identity of anybody. By default
    # a random UUID. Not shown by ``repr``.
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()), repr=False)
    # What the signer calls the model: one line of at most 255 printable characters, and no identity of anybody.
    model: str | None = None
    asked: Shape | None = None  # a rough description of the identities in the request, which names nobody
    # The steps by which ids and subjects were normalised before they were compared, by role; empty if they were
    # compared character by character.
    normalisation: Spelling | None = field(default=None, hash=False)
    # For a model with a learner: what training it on the rows left gave, and with which library.
    learner: TrainedLearner | None = None
    # Why bytes of the old file may stay on the medium. None if no reason is known, which is no promise.
    old_bytes: BlockDoubt | None = None
    erasable_version: str = field(default_factory=lambda: VERSION)  # the software that forgot
    # How many signatures the envelope carries. No part of what was signed, and not compared.
    signatures: int = field(default=1, compare=False)

    @property
    def version(self) -> int:
        """4 with a doubt about old bytes, 3 with a learner; otherwise 1, or 2 if one of its fields is given."""
        if self.old_bytes is not None:
            return 4
        if self.learner is not None:
            return 3
        return 1 if self.model is None and self.asked is None and self.normalisation is None else 2

    def as_json(self) -> dict[str, Any]:
        """Return the statement that is signed, as JSON values."""
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
        if self.learner is not None:
            predicate["learner"] = self.learner.as_json()
        if self.old_bytes is not None:
            doubt = self.old_bytes
            predicate["oldBytes"] = {"fileSystem": doubt.file_system, "reason": doubt.reason}
        return {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "state", "digest": {"sha256": self.state_after}}],
            "predicateType": PREDICATE_TYPE.format(self.version),
            "predicate": predicate,
        }


def make_receipt(key: PrivateKey, receipt: Receipt) -> str:
    """Return a signed receipt as one line of JSON, to be handed to the caller; nothing of it is kept.

    Raises ConfigurationError if a value cannot be used. Call :func:`check_request_id` before anything is forgotten.

    Parameters
    ----------
    key : PrivateKey
    receipt : Receipt

    Returns
    -------
    str
        RFC 8785 canonical JSON and one newline. The same arguments give the same text.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> from erasable.audit.keys import new_key
    >>> from erasable.audit.receipts import Receipt, check_receipt, make_receipt
    >>> key = new_key()
    >>> text = make_receipt(key, Receipt("ab" * 32, "cd" * 32, "exact system-aware unlearning", 1, datetime.now(UTC)))
    >>> check_receipt(text, key.public).state_after == "cd" * 32
    True
    """
    requested, completed = _in_utc("requested_at", receipt.requested_at), _in_utc("completed_at", receipt.completed_at)
    check_request_id(receipt.request_id)
    signed = replace(receipt, requested_at=requested, completed_at=completed)
    if (problem := _problem(signed)) is not None:
        raise ConfigurationError(f"no receipt can be made: {problem}.")
    return make_envelope(key, PAYLOAD_TYPE, signed.as_json())


def check_request_id(text: str) -> str:
    """Return a request id if a receipt can carry it.

    Raises ConfigurationError if it is too long, or not printable ASCII.
    """
    if (problem := _request_problem(text)) is not None:
        raise ConfigurationError(f"{problem}: give a shorter or plainer one, or none to get a random one.")
    return text


def check_receipt(text: str, public_key: PublicKey) -> Receipt:
    """Return what a receipt states, once its signature has been found good.

    Raises SignatureError if it was signed with another key, or changed after it was signed. Raises ReceiptError if it
    is no receipt, or a signed statement of another kind.
    """
    return _read_statement(_checked(text, public_key))


def read_receipt(text: str) -> Receipt:
    """Return what a receipt states **without** checking its signature: see :func:`check_receipt`.

    Raises ReceiptError if it is no receipt, or of a newer version.
    """
    return _read_statement(_read_envelope(text))


def check_state(receipt: Receipt, digest: str) -> None:
    """Raise OtherStateError if this is not the digest of the state that the receipt is about."""
    if digest != receipt.state_after:
        raise OtherStateError(
            f"the state is not the one this receipt is about: its digest begins {digest[:16]}, the receipt's "
            f"{receipt.state_after[:16]}. Any later change makes a new state: give the file as it was at that time."
        )


def compare_learner(receipt: Receipt, found: TrainedLearner | None) -> str | None:
    """Return what comparing the learner in a receipt with one that was trained now gave; None if it names none.

    Raises OtherStateError if the same version of the library trained another learner.
    """
    said = receipt.learner
    if said is None or found is None:
        return None
    if (said.library, said.version) != (found.library, found.version):
        return (
            f"not compared: {said.library} {said.version} trained the learner in the receipt, and "
            f"{found.library} {found.version} is installed; the state is compared all the same"
        )
    if said.digest != found.digest:
        raise OtherStateError(
            f"the learner is not the one this receipt is about: its digest begins {found.digest[:16]}, the receipt's "
            f"{said.digest[:16]}. On another platform bits may differ: check it there."
        )
    return f"{found.name} trained again has the same bits"


def _read_statement(envelope: _Envelope) -> Receipt:
    """Return the receipt in an envelope; every value has one form only."""
    if envelope.payload_type != PAYLOAD_TYPE:
        raise ReceiptError(f"not a receipt: payloadType must be {PAYLOAD_TYPE}.")
    statement = _read_object(
        _parse_json(envelope.payload), "the payload", {"_type", "subject", "predicateType", "predicate"}
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
    optional |= {"learner"} if kind[1] == "4" else set()
    required |= {"formatVersion"} | {"3": {"learner"}, "4": {"oldBytes"}}.get(kind[1], set())
    said = _read_object(statement["predicate"], "the predicate", required, optional)
    receipt = Receipt(
        state_before=_sha256(said["stateBefore"], "stateBefore") if "stateBefore" in said else None,
        state_after=_sha256(said["stateAfter"], "stateAfter"),
        guarantee=said["guarantee"],
        format_version=said["formatVersion"],
        requested_at=_time(said["requestedAt"], "requestedAt"),
        completed_at=_time(said["completedAt"], "completedAt"),
        request_id=said["requestId"],
        model=said.get("model"),
        asked=_read_shape(said["asked"]) if "asked" in said else None,
        normalisation=_normalisation(said["normalisation"]) if "normalisation" in said else None,
        learner=_learner(said["learner"]) if "learner" in said else None,
        old_bytes=_doubt(said["oldBytes"]) if "oldBytes" in said else None,
        erasable_version=said["erasableVersion"],
        signatures=len(envelope.signatures),
    )
    if (problem := _problem(receipt)) is not None:
        raise ReceiptError(f"not a receipt: {problem}.")
    if statement["subject"] != receipt.as_json()["subject"]:
        raise ReceiptError("not a receipt: the subject must be the state after, and that alone.")
    if rfc8785.dumps(receipt.as_json()) != envelope.payload:  # what was not checked so far has one form only
        raise ReceiptError("not a receipt: the payload is not in canonical form (RFC 8785).")
    return receipt


def _problem(receipt: Receipt) -> str | None:
    """Return what is wrong with the values of a receipt, if anything: one list for writer and reader."""
    before = receipt.state_before
    if not _is_digest(receipt.state_after) or not (before is None or _is_digest(before)):
        return "a digest of a state must be 64 hexadecimal digits, in lower case"
    if not _is_line(receipt.guarantee, 1000):
        return "the guarantee must be one line of at most 1000 printable characters"
    if not _is_line(receipt.erasable_version, 64):
        return "the version of erasable must be one line of at most 64 printable characters"
    if type(receipt.format_version) is not int or not 1 <= receipt.format_version <= 1_000_000:
        return "the format version must be an integer, 1 or more"
    learner = receipt.learner
    if learner is not None:
        if not all(_is_line(text, 64) for text in (learner.name, learner.library, learner.version)):
            return "the name, library and version of a learner must be lines of at most 64 printable characters"
        if not _is_digest(learner.digest):
            return "a digest of a learner must be 64 hexadecimal digits, in lower case"
    doubt = receipt.old_bytes
    if doubt is not None and not (_FILE_SYSTEM.fullmatch(doubt.file_system) and doubt.reason in REASONS):
        return f"a doubt about old bytes must name a file system, and as its reason one of {', '.join(REASONS)}"
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


def _read_shape(value: object) -> Shape:
    try:
        return Shape.read(value)
    except ValueError:
        raise ReceiptError("not a receipt: asked must describe a number, formats, lengths and kinds alone.") from None


def _normalisation(value: object) -> Spelling:
    try:
        return read_spelling(value, "normalisation")
    except ConfigurationError as error:
        raise ReceiptError(f"not a receipt: {error}") from None


def _learner(value: object) -> TrainedLearner:
    said = _read_object(value, "learner", {"name", "library", "version", "sha256"})
    return TrainedLearner(said["name"], said["library"], said["version"], said["sha256"])


def _doubt(value: object) -> BlockDoubt:
    said = _read_object(value, "oldBytes", {"fileSystem", "reason"})
    return BlockDoubt(str(said["fileSystem"]), str(said["reason"]))


def _sha256(value: object, name: str) -> Any:
    return _read_object(value, name, {"sha256"})["sha256"]


def _time(value: object, name: str) -> datetime:
    with suppress(ValueError):
        if isinstance(value, str) and _TIME.fullmatch(value):
            return datetime.fromisoformat(value)
    raise ReceiptError(f"not a receipt: {name} must be a time such as 2026-01-31T12:00:00Z.")


def _stamp(time: datetime) -> str:
    return time.replace(tzinfo=None).isoformat(timespec="seconds") + "Z"


def _in_utc(name: str, time: datetime) -> datetime:
    if time.utcoffset() is None:
        raise ConfigurationError(f"{name} must say its time zone: use datetime.now(UTC).")
    return time.astimezone(UTC)


# -- envelopes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Envelope:
    """The parts of a DSSE envelope; signatures are pairs of a keyid and bytes."""

    payload_type: str
    payload: bytes
    signatures: tuple[tuple[str, bytes], ...]


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that DSSE signs: ``DSSEv1 SP length SP type SP length SP payload``."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def make_envelope(key: PrivateKey, payload_type: str, content: dict[str, Any]) -> str:
    """Return a signed statement of any kind: a DSSE envelope around canonical JSON, and one newline."""
    payload = rfc8785.dumps(content)
    signature = {"keyid": key.public.keyid, "sig": _base64(key.sign(pre_authentication(payload_type, payload)))}
    envelope: dict[str, Any] = {"payloadType": payload_type, "payload": _base64(payload), "signatures": [signature]}
    return rfc8785.dumps(envelope).decode() + "\n"


def check_envelope(text: str, public_key: PublicKey, payload_type: str) -> dict[str, Any]:
    """Return the content of a signed statement of a kind, once its signature has been found good.

    Raises SignatureError or ReceiptError if it was signed with another key, was changed since, or is of another kind.
    """
    envelope = _checked(text, public_key)
    content = _parse_json(envelope.payload)
    if envelope.payload_type != payload_type or not isinstance(content, dict):
        raise ReceiptError(f"this is a signed statement of another kind: its payloadType must be {payload_type}.")
    return content


def _checked(text: str, public_key: PublicKey) -> _Envelope:
    """Return an envelope whose signature is good."""
    envelope = _read_envelope(text)
    signed = pre_authentication(envelope.payload_type, envelope.payload)
    if any(public_key.matches(sig, signed) for _, sig in envelope.signatures):
        return envelope
    # A keyid is not signed: it decides nothing, and only chooses the words for a failed check.
    named, own = [keyid for keyid, _ in envelope.signatures], public_key.keyid
    if own in named:
        raise SignatureError(
            f"the receipt was altered: it names the key given, {own[:16]}, but its signature does not match what it "
            "says. Ask the signer for the receipt as it was handed out."
        )
    known = sorted({keyid[:16] for keyid in named if _is_digest(keyid)})
    raise SignatureError(
        f"the receipt was signed with another key: it names {', '.join(known) or 'none that is known here'}, "
        f"the key given is {own[:16]}. Check with the public key of the one who signed it."
    )


def _read_envelope(text: str) -> _Envelope:
    """Return the parts of an envelope. Its layout is free: the payload is signed, and tools reformat JSON."""
    if len(text) > LARGEST_RECEIPT:
        raise ReceiptError(f"not a receipt: it has more than {LARGEST_RECEIPT} characters.")
    envelope = _read_object(_parse_json(text), "it", {"payloadType", "payload", "signatures"})
    kind, listed = envelope["payloadType"], envelope["signatures"]
    if not isinstance(kind, str) or not kind.isascii():
        raise ReceiptError("not a receipt: payloadType must be ASCII text.")
    if not isinstance(listed, list) or not 1 <= len(listed) <= _MOST_SIGNATURES:
        raise ReceiptError(f"not a receipt: signatures must be a list of 1 to {_MOST_SIGNATURES}.")
    signatures = []
    for entry in listed:
        found = _read_object(entry, "a signature", {"sig"}, {"keyid"})
        keyid = found.get("keyid", "")
        if not isinstance(keyid, str):
            raise ReceiptError("not a receipt: keyid must be text.")
        signatures.append((keyid, _unbase64(found["sig"], "sig")))
    return _Envelope(kind, _unbase64(envelope["payload"], "payload"), tuple(signatures))


def _parse_json(text: str | bytes) -> Any:
    """Return what a JSON text holds; ReceiptError also if a name occurs twice."""
    try:
        return json.loads(text, object_pairs_hook=_without_duplicates)
    except (ValueError, RecursionError):
        raise ReceiptError("not a receipt: it is no JSON in UTF-8, or cut off, or says a name twice.") from None


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name occurs twice")
    return found


def _read_object(value: object, what: str, required: set[str], optional: Set[str] = frozenset()) -> dict[str, Any]:
    """Return the value if it is an object with these names and no others."""
    if not isinstance(value, dict) or not required <= value.keys() <= required | optional:
        names = ", ".join(sorted(required)) + "".join(f", maybe {name}" for name in sorted(optional))
        raise ReceiptError(f"not a receipt: {what} must hold {names}, and nothing else.")
    return value


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _unbase64(text: object, name: str) -> bytes:
    """Return the bytes; DSSE allows both alphabets, padding and unused bits have one form."""
    if isinstance(text, str) and text.isascii():
        for encode, mixed in ((base64.b64encode, b"+/"), (base64.urlsafe_b64encode, b"-_")):
            try:
                data = base64.b64decode(text, altchars=mixed, validate=True)
            except binascii.Error:
                continue
            if encode(data).decode() == text:
                return data
    raise ReceiptError(f"not a receipt: {name} must be base64, padded and without line breaks.")


# -- files ---------------------------------------------------------------------------------------------------------


@contextmanager
def reserved_receipt(path: Path) -> Iterator[Callable[[str], None]]:
    """Reserve a name and disk space for a receipt; yield a function that puts the receipt there, durably.

    Until then the space is a hidden file next to it. Nothing of it stays if the block fails. After a kill it stays, and
    the next command that wants the same name takes it over.

    Raises BusyError if another process has reserved the same name. Raises OSError if there is no space. The function
    raises it, too, if something has taken the name meanwhile.
    """
    path = path.absolute()
    _remove_reservations(path.parent)
    with half_written(path) as file:
        hidden = str(file.name)

        def fill(text: str) -> None:
            file.seek(0)
            file.write(text)
            file.truncate()
            file.flush()
            REAL_DISK.fsync(file.fileno())

        def put(text: str) -> None:
            fill(text)  # as durable as what it attests
            try:
                REAL_DISK.link(hidden, str(path))  # unlike a rename, it replaces nothing
            except FileExistsError:
                raise
            except OSError:  # the file system has no hard links
                REAL_DISK.rename(hidden, str(path))
            else:
                REAL_DISK.unlink(hidden)
            REAL_DISK.fsync_folder(str(path.parent))

        fill(" " * _RESERVED)
        yield put


def _remove_reservations(folder: Path) -> None:
    """Remove what killed commands have reserved in a folder: hidden files that no process has locked."""
    for path in folder.glob(".*.new"):
        with suppress(OSError, BusyError, UnicodeDecodeError):
            if path.is_symlink() or not path.is_file() or path.stat().st_size != _RESERVED or path.read_text().strip():
                continue
            with half_written(path.with_name(path.name[1:-4])):
                REAL_DISK.unlink(str(path))


def remove_second_name(path: Path) -> None:
    """Remove the hidden name of a receipt that is in place, which a kill may have left."""
    hidden = str(path.with_name(f".{path.name}.new"))
    with suppress(FileNotFoundError):
        if os.path.samefile(hidden, path):
            REAL_DISK.unlink(hidden)


def read_receipt_text(path: Path) -> str:
    """Return the text of a receipt, or the beginning of one that is too long.

    Raises StoreError if it cannot be read. Raises ReceiptError if it is no text.
    """
    try:
        with open(path, "rb") as file:
            return file.read(4 * LARGEST_RECEIPT + 1).decode()  # the longest text in UTF-8, and one byte more
    except OSError as error:
        raise StoreError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError:
        raise ReceiptError(f"not a receipt: {path} is not text in UTF-8.") from None
