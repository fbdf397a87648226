"""Stored rows and settled requests, hour by hour since the start, in memory alone.

A file of them would tell, by its counts before and after, whether a lone request changed anything.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from erasable.errors import StoreError
from erasable.service.entries import State
from erasable.service.service import ErasureService
from erasable.store import locked

_MOST = 24 * 366  # hours that are kept


@dataclass(frozen=True)
class Hour:
    """One hour.

    Attributes
    ----------
    start : str
        Such as ``2026-01-31T12:00Z``.
    rows : dict of int
        Rows stored at its end, by model.
    settled : int
        Requests settled until then that are still in the ledger.
    """

    start: str
    rows: dict[str, int]
    settled: int


class History:
    """The hours so far; the hour that is going on is seen as it is now.

    Parameters
    ----------
    path : Path
        A file in which an earlier version kept them: it is erased.
    service : ErasureService
    """

    def __init__(self, path: Path, service: ErasureService) -> None:
        self.service, self._lock = service, threading.Lock()
        self._hours: list[Hour] = []
        if path.exists():
            with suppress(StoreError), locked(path) as writer:
                writer.remove()

    def hours(self) -> list[Hour]:
        """All of them, the oldest first."""
        now = self._now()
        with self._lock:
            before = self._hours
            if before and before[-1].start == now.start:
                before = before[:-1]
            self._hours = [*before, now][-_MOST:]
            return list(self._hours)

    def _now(self) -> Hour:
        rows = {name: len(self.service.snapshot(name).model.core) for name in self.service.models}
        done = sum(e.state in (State.COMPLETED, State.CANCELLED) for e in self.service.entries())
        return Hour(datetime.now(UTC).strftime("%Y-%m-%dT%H:00Z"), rows, done)
