"""Requests at the door: which of those that come at the same time are new, and what the others are told."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import get_args

from erasable.core.names import Shape
from erasable.errors import ConflictError, ErasableError, InputError, QueueFullError
from erasable.service.entries import Entry, Kind, State, check_id
from erasable.service.identities import Identity
from erasable.service.settings import Settings


@dataclass
class Arrival:
    """A request at the door, and what became of it."""

    entry: Entry
    identities: tuple[Identity, ...]
    outcome: Entry | ErasableError | None = None


def arrived(
    key: bytes,
    now: datetime,
    settings: Settings,
    request_id: str,
    kind: Kind,
    identities: Sequence[Identity],
    body: bytes,
    callbacks: Sequence[str],
    controller: str,
) -> Arrival:
    """A request that has just come, its body sealed with the operator's key.

    Raises
    ------
    InputError
        When the id is no UUID, the kind is not known, or nobody is named.
    """
    name = check_id(request_id)
    if kind not in get_args(Kind) or not identities:
        raise InputError("a request must be for erasure or access, and name at least one identity.")
    seal = hmac.new(key, name.encode() + b"\n" + body, hashlib.sha256).hexdigest()
    urls = tuple(dict.fromkeys(callbacks))
    entry = Entry(
        name,
        kind,
        State.PENDING,
        now,
        now + settings.promise,
        callbacks=urls,
        seal=seal,
        controller=controller,
        asked=Shape.of((who.format, who.value) for who in identities),
        spelling={who.role: who.steps for who in identities if who.steps},
    )
    return Arrival(entry, tuple(identities))


def judged(
    together: Iterable[Arrival], known: Mapping[str, Entry], waiting: int, settings: Settings
) -> dict[str, Arrival]:
    """Those that are to be made durable, by their keys; all others have an outcome, but those that repeat one of these.

    Parameters
    ----------
    together : iterable of Arrival
        In the order in which they came.
    known : mapping of str to Entry
        What was accepted before.
    waiting : int
        How much of that is not settled.
    """
    fresh: dict[str, Arrival] = {}
    for arrival in together:
        name = arrival.entry.key
        there = fresh[name].entry if name in fresh else known.get(name)
        if there is None and waiting + len(fresh) >= settings.queue:
            arrival.outcome = QueueFullError(f"{waiting:,} requests wait, and no more are taken: try again later.")
            arrival.outcome.retry_after = settings.tick
        elif there is None:
            fresh[name] = arrival
        elif not hmac.compare_digest(there.seal, arrival.entry.seal):
            arrival.outcome = ConflictError("a request of this id was accepted with another body: draw a new id.")
        elif name not in fresh:
            arrival.outcome = there
    return fresh
