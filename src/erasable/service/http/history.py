"""Stored rows and settled requests, hour by hour: sums alone, so that nobody is seen in them."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from erasable.service.entries import State
from erasable.service.service import ErasureService

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
    """The hours so far, in a file beside the ledger; the hour that is going on is seen as it is now."""

    def __init__(self, path: Path, service: ErasureService) -> None:
        self.path, self.service, self._lock = path, service, threading.Lock()
        self._hours: list[Hour] = []
        with suppress(OSError, ValueError, TypeError, KeyError):
            self._hours = [Hour(**one) for one in json.loads(path.read_text())]

    def hours(self) -> list[Hour]:
        """All of them, the oldest first; the last one is written when another begins."""
        now = self._now()
        with self._lock:
            before = self._hours
            if before and before[-1].start == now.start:
                before = before[:-1]
            self._hours = [*before, now][-_MOST:]
            if len(self._hours) != len(before) or not self.path.exists():
                self._write()
            return list(self._hours)

    def _now(self) -> Hour:
        rows = {name: self.service.snapshot(name).model.n_core for name in self.service.models}
        done = sum(e.state in (State.COMPLETED, State.CANCELLED) for e in self.service.entries())
        return Hour(datetime.now(UTC).strftime("%Y-%m-%dT%H:00Z"), rows, done)

    def _write(self) -> None:
        with suppress(OSError):  # a full disk is told elsewhere, and a picture is no reason to stop
            half = self.path.with_suffix(".new")
            half.write_text(json.dumps([vars(hour) for hour in self._hours]))
            os.replace(half, self.path)
