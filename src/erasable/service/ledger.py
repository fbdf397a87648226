"""Requests that last: accepted once they are durable, and without anybody's identity once they are settled."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Literal

from erasable.service.identities import Identity
from erasable.service.settings import Settings

Kind = Literal["erasure", "access"]


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
    callbacks : tuple of str
        Where its outcome is still to be told.
    seal : str
        HMAC of the body under the operator's key.
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


class Ledger:
    """All requests of a folder; one process at a time.

    Parameters
    ----------
    folder : str or path
        Made where it is not there. It holds ``past`` (what became of requests; nobody's identity) and ``open-N`` (what
        was accepted between two commits, with identities), which is erased when all of it is settled.
    operator_key : bytes
        What bodies are sealed with.
    clock : callable
        Gives the time, in UTC.

    Raises
    ------
    BusyError
        When another process has it open.
    StoreError
        When it cannot be read or written.
    """

    def __init__(
        self, folder: str | os.PathLike[str], operator_key: bytes, settings: Settings, clock: Callable[[], datetime]
    ) -> None:
        raise NotImplementedError

    def accept(
        self,
        request_id: str,
        kind: Kind,
        identities: Sequence[Identity],
        body: bytes,
        callbacks: Sequence[str] = (),
    ) -> Entry:
        """The entry of a request, durable on return; that which is there already where the same body comes again.

        Raises
        ------
        ConflictError
            When the id was accepted with another body.
        QueueFullError
            When too many wait.
        StoreError
            When it could not be made durable (a full disk): it is not accepted.
        """
        raise NotImplementedError

    def cancel(self, request_id: str) -> Entry:
        """The entry, cancelled for good; only while it is pending.

        Raises
        ------
        UnknownRequestError
        ConflictError
            When it is in progress or completed; a cancelled one stays so.
        """
        raise NotImplementedError

    def entry(self, request_id: str) -> Entry:
        """The entry of a request.

        Raises
        ------
        UnknownRequestError
        """
        raise NotImplementedError

    def entries(self) -> list[Entry]:
        """All entries, the oldest first."""
        raise NotImplementedError

    def receipt(self, request_id: str, model: str) -> str | None:
        """The text of a receipt; None while it is not there."""
        raise NotImplementedError

    def purge(self, before: datetime) -> int:
        """Entries that were settled before a moment, and owe nothing, are erased; how many.

        A request of that id is a new one afterwards.
        """
        raise NotImplementedError

    # -- for the one writer --------------------------------------------------------------------------------------

    def begin(self) -> list[tuple[Entry, tuple[Identity, ...]]]:
        """All that is not settled, in progress from now on."""
        raise NotImplementedError

    def complete(self, request_ids: Iterable[str], models: Sequence[str]) -> None:
        """These are durable in all models: completed for good, and identities erased."""
        raise NotImplementedError

    def put_receipts(self, receipts: Iterable[tuple[str, str, str]]) -> None:
        """Receipts (request id, model, text) made durable; the first of a request and model stays."""
        raise NotImplementedError

    def told(self, request_id: str, url: str) -> None:
        """A callback was delivered, or given up."""
        raise NotImplementedError

    def close(self) -> None:
        """Let another process have it."""
        raise NotImplementedError
