"""Requests: the identities in them and the stored rows that these name, and the record that the ledger keeps.

A hashed identity is matched by hashing the stored keys: the UTF-8 bytes of a text, the decimal digits of a whole
number, bytes as they are. A raw identity that is no number matches nothing where ids are numbers. That is no error,
since an answer must not show what is stored. Where a normalisation is declared, stored names and names in requests are
normalised alike before they are compared. The sender chose the spelling of a hashed identity, so it is compared with
the hash of the stored name and with the hash of the normalised name.

A request belongs to the controller that filed it, so two controllers that draw the same id have two requests. Records
name a request by its :attr:`Entry.key`. In older ledgers they name it by its id alone, which was unique then.
"""

from __future__ import annotations

import hashlib
import hmac
import itertools
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, datetime, timedelta
from enum import StrEnum
from typing import Any, Literal, get_args

from erasable.core.names import FORMATS, Key, Shape, Spelling, Steps, normalise, read_reference, read_spelling
from erasable.errors import InputError
from erasable.models.core_rows import NamedRows
from erasable.models.model import Model
from erasable.operations.requests import Request
from erasable.service.settings import Role, Settings

Kind = Literal["erasure", "access"]
MOST_IDENTITIES = 100_000  # of one request; and how many may wait before no more are accepted

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_DIGITS = {"sha256": 64, "sha1": 40, "md5": 32}
_WHOLE = re.compile(r"0|-?[1-9][0-9]{0,18}")
_HEXADECIMAL = re.compile(r"([0-9a-fA-F]{2})+")
_LONGEST = 4096  # characters
_BYTES = "bytes"  # a raw identity with capital hexadecimal digits, where it names bytes

_TEN_YEARS = timedelta(days=3653)
SOON = timedelta(days=7)  # before the due date: then an open request is due soon


@dataclass(frozen=True)
class Identity:
    """A person, or a row, as a request names it.

    Raises InputError when the format is unknown, or the value does not fit it.

    Parameters
    ----------
    role : "id" or "subject"
    format : str
        One of ``FORMATS``.
    value : str
        Never shown by ``repr``. The digits of a hash are kept in lower case.
    steps : tuple of str
        How it is normalised before it is compared.
    """

    role: Role
    format: str
    value: str = field(repr=False)
    steps: Steps = ()

    def __post_init__(self) -> None:
        if self.role not in ("id", "subject") or self.format not in FORMATS:
            raise InputError(f"an identity must have one of these formats: {', '.join(FORMATS)}.")
        if not 1 <= len(self.value) <= _LONGEST:
            raise InputError(f"the value of an identity must be a text of 1 to {_LONGEST:,} characters.")
        if self.format != "raw":
            if len(self.value) != _DIGITS[self.format] or not _HEXADECIMAL.fullmatch(self.value):
                raise InputError(f"a {self.format} identity must have {_DIGITS[self.format]} hexadecimal digits.")
            object.__setattr__(self, "value", self.value.lower())
        try:
            self.value.encode()
        except UnicodeEncodeError:
            raise InputError("the value of an identity must be text that can be encoded as UTF-8.") from None
        object.__setattr__(self, "steps", tuple(self.steps))

    @property
    def spelt(self) -> str:
        """The value as it is compared: normalised, unless it is a hash."""
        return normalise(self.value, self.steps) if self.format == "raw" else self.value

    @property
    def forms(self) -> list[tuple[str, str]]:
        """Each format and value under which a suppression list has it: see ``forms_of``."""
        spelt = self.spelt
        may_be_bytes = self.format == "raw" and spelt != spelt.lower() and _HEXADECIMAL.fullmatch(spelt)
        return [(self.format, spelt), *([(_BYTES, spelt.lower())] if may_be_bytes else [])]


class People(tuple[Identity, ...]):
    """Identities that are written down, and sent to another process, in runs of one kind: many cost little."""

    __slots__ = ()

    def runs(self) -> list[tuple[str, str, Steps, list[str]]]:
        """Role, format, steps and values of each run."""
        grouped = itertools.groupby(self, lambda who: (who.role, who.format, who.steps))
        return [(*kind, [who.value for who in run]) for kind, run in grouped]

    @classmethod
    def read(cls, runs: Iterable[Any]) -> People:
        """The identities of some runs."""
        return cls(Identity(role, format, value, steps) for role, format, steps, values in runs for value in values)

    def __reduce__(self) -> tuple[Any, ...]:
        return People.read, (self.runs(),)


def _raw(value: str, kind: type | None) -> Key | None:
    """The key that people write so; None where no key of this kind is."""
    if kind is int:
        return int(value) if _WHOLE.fullmatch(value) else None
    if kind is bytes:
        return bytes.fromhex(value) if _HEXADECIMAL.fullmatch(value) else None
    return value


def in_format(key: Key, format: str, steps: Steps = ()) -> str:
    """A stored key as an identity of this format has it; a text is normalised first."""
    key = normalise(key, steps) if steps and isinstance(key, str) else key
    if format == "raw":
        return key.hex() if isinstance(key, bytes) else str(key)
    data = key if isinstance(key, bytes) else str(key).encode()
    return hashlib.new(format, data, usedforsecurity=False).hexdigest()


def forms_of(key: Key, steps: Steps) -> set[tuple[str, str]]:
    """Each format and value of an identity, normalised by these steps, that names a stored key."""
    forms = {(format, in_format(key, format, steps)) for format in FORMATS}
    forms |= {(format, in_format(key, format)) for format in FORMATS if steps and format != "raw"}
    return forms | ({(_BYTES, key.hex())} if isinstance(key, bytes) else set())


def keys_in(model: Model, identities: Iterable[Identity]) -> tuple[list[Key], list[Key]]:
    """The ids and the subjects that a model stores and that some of these identities name; see ``keys_of_each``."""
    ids: list[Key] = []
    subjects: list[Key] = []
    for of_ids, of_subjects in keys_of_each(model, identities):
        ids += of_ids
        subjects += of_subjects
    return ids, subjects


def keys_of_each(model: Model, identities: Iterable[Identity]) -> Iterator[tuple[list[Key], list[Key]]]:
    """The ids and the subjects that a model stores and that each of these identities names.

    *Cost*: one pass over all stored ids, or subjects, for each format of hashes among them, and for each normalisation
    that the model does not declare itself.
    """
    core = model.core
    stored: dict[str, Collection[Key]] = {"id": core.place, "subject": core.of_subject}
    kinds = {"id": core.id_type, "subject": core.subject_type}
    tables: dict[tuple[str, str, Steps], dict[str, list[Key]]] = {}
    for who in identities:
        found: dict[str, list[Key]] = {"id": [], "subject": []}
        declared = model.spelling.get(who.role, ())
        if who.format == "raw" and (who.steps in ((), declared) or kinds[who.role] in (int, bytes)):
            key = _raw(normalise(who.value, who.steps or declared), kinds[who.role])
            found[who.role] += [key] if key is not None and key in stored[who.role] else []
            yield found["id"], found["subject"]
            continue
        for steps in {who.steps, declared, ()} if who.format != "raw" else {who.steps}:
            if (at := (who.role, who.format, steps)) not in tables:
                tables[at] = {}
                for key in stored[who.role]:
                    tables[at].setdefault(in_format(key, who.format, steps), []).append(key)
            found[who.role] += tables[at].get(who.spelt, [])
        yield found["id"], found["subject"]


@dataclass(frozen=True, repr=False)
class Erasure(Request):
    """A request to forget the rows that identities name, looked up in each model under its lock."""

    identities: tuple[Identity, ...] = ()

    def named_in(self, model: Model) -> NamedRows:
        """See ``Request``; an identity that is not stored is no error."""
        ids, subjects = keys_in(model, self.identities)
        return NamedRows(len({*self.identities}), 0, model.named(ids, subjects).found)


class State(StrEnum):
    """The state of a request: pending, in progress, then completed; or cancelled while it was pending."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Case:
    """An own reference of a request, the day on which it was received, and the day on which the answer is due.

    The reference is kept until a purge, so it should name nobody: see ``doubt_of_reference``. It has at most 64
    printable characters; spaces at its ends are removed. By default a request is received when it is filed, and due as
    ``Settings.due_on`` says. Raises ``InputError`` for another reference, or if it is due before it was received.
    """

    reference: str = ""
    arrived: date | None = None
    due: date | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "reference", read_reference(self.reference))
        if self.arrived is not None and self.due is not None and self.due < self.arrived:
            raise InputError("the due date is before the date of receipt: correct one of them.")

    def dated(self, settings: Settings, today: date) -> Case:
        """The case with both of its days.

        ``InputError`` for a receipt in the future or more than ten years ago, or an answer due in more than ten years.
        """
        arrived = self.arrived or today
        if not today - _TEN_YEARS <= arrived <= today:
            when = "in the future" if arrived > today else "more than ten years ago"
            raise InputError(f"the date of receipt is {when}: correct it.")
        due = self.due or settings.due_on(arrived)
        if due > today + _TEN_YEARS:
            raise InputError("the due date is in more than ten years: correct it.")
        return Case(self.reference, arrived, due)


@dataclass(frozen=True)
class Filing:
    """A request as it is filed; see ``Ledger.accept_each``."""

    request_id: str
    kind: Kind
    identities: Sequence[Identity] = field(repr=False)
    body: bytes = field(repr=False)
    callbacks: Sequence[str] = ()
    controller: str = ""
    case: Case = Case()

    def entry(self, key: bytes, settings: Settings, now: datetime) -> Entry:
        """The entry of the request; ``InputError`` if it cannot be accepted."""
        name, case = check_id(self.request_id), self.case.dated(settings, now.date())
        if self.kind not in get_args(Kind) or not 1 <= len(self.identities) <= MOST_IDENTITIES:
            raise InputError(f"a request must be for erasure or access, and name 1 to {MOST_IDENTITIES:,} identities.")
        return Entry(
            name,
            self.kind,
            State.PENDING,
            now,
            now + settings.grace + settings.promise,
            callbacks=tuple(dict.fromkeys(self.callbacks)),
            seal=hmac.new(key, name.encode() + b"\n" + self.body, hashlib.sha256).hexdigest(),
            controller=self.controller,
            asked=Shape.of((who.format, who.value) for who in self.identities),
            spelling={who.role: who.steps for who in self.identities if who.steps},
            reference=case.reference,
            arrived=case.arrived,
            due=case.due,
            cancel_until=now + settings.grace if settings.grace else None,
        )


@dataclass(frozen=True)
class Entry:
    """A request, without any identity. Times are in UTC."""

    request_id: str  # a UUID in lower case
    kind: Kind
    state: State
    received: datetime
    expected: datetime  # when it is expected to be completed
    settled: datetime | None = None  # when it was completed or cancelled
    models: tuple[str, ...] = ()  # in which a completed erasure is durable; each owes it a receipt
    receipts: frozenset[str] = frozenset()  # the models that have signed
    callbacks: tuple[str, ...] = field(default=(), repr=False)  # URLs that are not told yet
    seal: str = field(default="", repr=False)  # HMAC of the body under the operator's key
    controller: str = ""  # the token that filed it; if empty, only auditors see it
    doubted: frozenset[str] = frozenset()  # models whose file another program wrote since
    asked: Shape | None = None  # rough description of its identities; None in older ledgers
    spelling: Spelling = field(default_factory=dict, hash=False)  # normalisation that no schema declares
    listed: bool = False  # whether all identities of a completed erasure are on the suppression list
    reference: str = ""  # of the officer who filed it: see ``Case``
    arrived: date | None = None  # when the controller received it; None in older ledgers
    due: date | None = None  # when the answer is due; None in older ledgers
    cancel_until: datetime | None = None  # the end of its grace period, if it has one

    @property
    def key(self) -> str:
        """The id and the controller: unique in the ledger."""
        return key_of(self.request_id, self.controller)

    @property
    def owes_receipts(self) -> bool:
        """Whether a model that it reached has not signed for it yet."""
        return not self.receipts.issuperset(self.models)

    @property
    def receipts_owed(self) -> int:
        """How many models have not signed for it yet."""
        return len(set(self.models) - self.receipts)

    @property
    def owes_callbacks(self) -> bool:
        """Whether it is settled and a callback is outstanding."""
        return self.settled is not None and bool(self.callbacks)

    def is_overdue(self, today: date) -> bool:
        """Whether it is open after its due date."""
        return self.settled is None and self.due is not None and self.due < today

    def is_due_soon(self, today: date) -> bool:
        """Whether it is open, and due within a week."""
        return self.settled is None and self.due is not None and today <= self.due <= today + SOON

    def owes(self, model: str) -> bool:
        """Whether this model has not signed for it yet."""
        return model in self.models and model not in self.receipts

    def with_receipt(self, model: str) -> Entry:
        """A copy with one more receipt."""
        return replace(self, receipts=self.receipts | {model})

    def with_doubt(self, model: str) -> Entry:
        """A copy with one more model whose file another program wrote."""
        return replace(self, doubted=self.doubted | {model})

    def without_callback(self, url: str) -> Entry:
        """A copy with one callback less."""
        return replace(self, callbacks=tuple(other for other in self.callbacks if other != url))


def key_of(request_id: str, controller: str) -> str:
    """The key of a controller's request."""
    return f"{request_id}/{controller}"


def check_id(request_id: str) -> str:
    """The id in lower case; ``InputError`` if it is no UUID."""
    if not _UUID.fullmatch(request_id.lower()):
        raise InputError("the id of a request must be a UUID, such as a7551968-d5d6-44b2-9831-815ac9017798.")
    return request_id.lower()


def as_record(entry: Entry, identities: People | None = None) -> dict[str, Any]:
    """An entry as JSON values, with identities only if they are given. Receipts are records of their own."""
    record: dict[str, Any] = {
        "request": entry.key,
        "kind": entry.kind,
        "state": entry.state.value,
        "received": entry.received.isoformat(),
        "expected": entry.expected.isoformat(),
        "settled": None if entry.settled is None else entry.settled.isoformat(),
        "models": entry.models,
        "callbacks": entry.callbacks,
        "seal": entry.seal,
        "controller": entry.controller,
        "listed": entry.listed,
    }
    if entry.asked is not None:
        record["asked"] = entry.asked.as_json()
    if entry.spelling:
        record["spelling"] = {**entry.spelling}
    case = {"reference": entry.reference, "arrived": entry.arrived, "due": entry.due}
    case["cancel_until"] = entry.cancel_until
    record |= {name: value if isinstance(value, str) else value.isoformat() for name, value in case.items() if value}
    if identities is not None:
        record["named"] = identities.runs()
    return record


def from_record(record: dict[str, Any]) -> tuple[Entry, People]:
    """The entry and identities that :func:`as_record` wrote; older versions wrote down each identity by itself."""
    settled = record["settled"]
    entry = Entry(
        record["request"].partition("/")[0],
        record["kind"],
        State(record["state"]),
        datetime.fromisoformat(record["received"]),
        datetime.fromisoformat(record["expected"]),
        None if settled is None else datetime.fromisoformat(settled),
        tuple(record["models"]),
        callbacks=tuple(record["callbacks"]),
        seal=record["seal"],
        controller=record.get("controller", ""),
        asked=Shape.read(record["asked"]) if "asked" in record else None,
        spelling=read_spelling(record.get("spelling", {}), "the ledger"),
        listed=record.get("listed", False),
        reference=record.get("reference", ""),
        arrived=date.fromisoformat(record["arrived"]) if "arrived" in record else None,
        due=date.fromisoformat(record["due"]) if "due" in record else None,
        cancel_until=datetime.fromisoformat(record["cancel_until"]) if "cancel_until" in record else None,
    )
    older = People(Identity(*who) for who in record.get("identities", ()))
    return entry, older or People.read(record.get("named", ()))


def entry_of(record: dict[str, Any]) -> Entry:
    """The entry of a settled request from its record; it owes nothing, unless the record says what it has."""
    entry, _ = from_record(record)
    if "receipts" not in record:
        return replace(entry, receipts=frozenset(entry.models), callbacks=())
    return replace(entry, receipts=frozenset(record["receipts"]), doubted=frozenset(record["doubted"]))
