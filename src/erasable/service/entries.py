"""What is known of a request, and how it is written down.

A request belongs to the controller that filed it, so two controllers that draw the same id have two requests. Records
name a request by its :attr:`Entry.key`; in ledgers before that they name it by its id alone, which was its only one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, Literal

from erasable.core.names import Shape, Spelling, read_spelling
from erasable.errors import InputError
from erasable.service.identities import Identity
from erasable.store import Record

Kind = Literal["erasure", "access"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


class State(StrEnum):
    """Where a request is: pending, in progress, then completed; or cancelled while it was pending."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    CANCELLED = "cancelled"


@dataclass(frozen=True)
class Entry:
    """A request, with nobody's identity.

    Attributes
    ----------
    request_id : str
        A UUID in lower case.
    kind : "erasure" or "access"
    state : State
    received, expected : datetime
        UTC: when it was accepted, and when it is expected to be completed.
    settled : datetime or None
        When it was completed or cancelled.
    models : tuple of str
        Of a completed erasure: the models that it is durable in, each of which owes it a receipt.
    receipts : frozenset of str
        Those of them whose receipt is there.
    doubted : frozenset of str
        Those of the models whose file is not the one that a commit left: another program wrote it since.
    callbacks : tuple of str
        Where its outcome is still to be told.
    seal : str
        HMAC of the body under the operator's key.
    controller : str
        Who filed it and whose it is, by the name of a token. Nobody's where it is empty: then auditors alone see it.
    asked : Shape or None
        A rough description of the identities in it, which names nobody; None in ledgers of an earlier version.
    spelling : mapping
        How the identities are normalised, by role, where no schema of a model declares it.
    listed : bool
        Of a completed erasure: whether everybody that it named was on the suppression list by then.
    """

    request_id: str
    kind: Kind
    state: State
    received: datetime
    expected: datetime
    settled: datetime | None = None
    models: tuple[str, ...] = ()
    receipts: frozenset[str] = frozenset()
    callbacks: tuple[str, ...] = field(default=(), repr=False)
    seal: str = field(default="", repr=False)
    controller: str = ""
    doubted: frozenset[str] = frozenset()
    asked: Shape | None = None
    spelling: Spelling = field(default_factory=dict, hash=False)
    listed: bool = False

    @property
    def key(self) -> str:
        """What tells it from all others, also from those of another controller that drew the same id."""
        return key_of(self.request_id, self.controller)

    @property
    def owes_receipts(self) -> bool:
        """Whether a model that it reached has not signed for it yet."""
        return not self.receipts.issuperset(self.models)

    @property
    def owes_callbacks(self) -> bool:
        """Whether it is settled and somebody has not been told."""
        return self.settled is not None and bool(self.callbacks)

    def owes(self, model: str) -> bool:
        """Whether this model has not signed for it yet."""
        return model in self.models and model not in self.receipts

    def with_receipt(self, model: str) -> Entry:
        """The same, signed for by one more model."""
        return replace(self, receipts=self.receipts | {model})

    def with_doubt(self, model: str) -> Entry:
        """The same, with one more model whose file another program wrote."""
        return replace(self, doubted=self.doubted | {model})

    def without_callback(self, url: str) -> Entry:
        """The same, with one fewer to tell."""
        return replace(self, callbacks=tuple(other for other in self.callbacks if other != url))


def key_of(request_id: str, controller: str) -> str:
    """The key of a controller's request."""
    return f"{request_id}/{controller}"


def check_id(request_id: str) -> str:
    """The id in lower case.

    Raises
    ------
    InputError
        When it is no UUID.
    """
    if not _UUID.fullmatch(request_id.lower()):
        raise InputError("the id of a request must be a UUID, such as a7551968-d5d6-44b2-9831-815ac9017798.")
    return request_id.lower()


def as_record(entry: Entry, identities: tuple[Identity, ...] = ()) -> dict[str, Any]:
    """An entry in values that JSON has; identities only where they are given. Receipts are records of their own."""
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
    if identities:
        record["identities"] = [[who.role, who.format, who.value, *filter(None, [who.steps])] for who in identities]
    return record


def from_record(record: dict[str, Any]) -> tuple[Entry, tuple[Identity, ...]]:
    """What :func:`as_record` wrote."""
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
    )
    return entry, tuple(Identity(*who) for who in record.get("identities", ()))


def read_past(records: Iterable[Record]) -> tuple[dict[str, Entry], dict[tuple[str, str], Record]]:
    """The settled entries by key, and where the receipt of each request and model is (without its content).

    Every record says all of one thing, so that one that is there twice says it once. Those of no request are passed
    over, but for one that the list before is lost: it proves nothing any more.
    """
    entries: dict[str, Entry] = {}
    places: dict[tuple[str, str], Record] = {}
    by_id: dict[str, str] = {}  # of records that name a request by its id alone
    for place in records:
        record = place.content
        if record.get("lost"):
            entries = {key: replace(entry, listed=False) for key, entry in entries.items()}
        if "request" not in record:
            continue
        name = by_id.get(record["request"], record["request"])
        if "state" in record:
            entry = from_record(record)[0]
            entries[entry.key], by_id[record["request"]] = entry, entry.key
        elif name in entries and "told" in record:
            entries[name] = entries[name].without_callback(record["told"])
        elif name in entries and "doubted" in record:
            entries[name] = entries[name].with_doubt(record["doubted"])
        elif name in entries and (name, record["model"]) not in places:
            places[name, record["model"]] = place._replace(content={})
            entries[name] = entries[name].with_receipt(record["model"])
    return entries, places
