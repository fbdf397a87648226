"""Requests at the door: which of those that come at the same time are new, and what the others are told."""

from __future__ import annotations

import hmac
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from erasable.errors import ConflictError, ErasableError, QueueFullError
from erasable.service.entries import Entry
from erasable.service.identities import Identity
from erasable.service.settings import Settings


@dataclass
class Arrival:
    """A request at the door, and what became of it."""

    entry: Entry
    identities: tuple[Identity, ...]
    outcome: Entry | ErasableError | None = None


def judged(
    together: Iterable[Arrival], known: Mapping[str, Entry], waiting: int, settings: Settings
) -> dict[str, Arrival]:
    """Those that are to be made durable, by their ids; all others have an outcome, but those that repeat one of these.

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
        name = arrival.entry.request_id
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
