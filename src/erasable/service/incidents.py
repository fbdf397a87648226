"""Events that must neither wait for the disk nor fill it: counted in memory, and written by a thread of the service.

The first event of a kind is written within a second. What follows is counted and written as one event, after a minute,
then after two, and so on up to an hour, as long as it goes on: a flood for a year is about 9,000 events.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime

from erasable.service.index import Event

_SHORTEST, _LONGEST = 60.0, 3600.0  # seconds between two events of one kind and token


@dataclass
class _Pause:
    """Until when nothing is written of a kind and token, and how long that pause is."""

    until: float
    seconds: float


class Incidents:
    """Counts events by kind and token, and passes them to ``write``, which makes them durable."""

    def __init__(
        self, write: Callable[[Iterable[Event]], None], clock: Callable[[], datetime], elapsed: Callable[[], float]
    ) -> None:
        self._write, self._clock, self._elapsed = write, clock, elapsed
        self._lock = threading.Lock()
        self._waiting: dict[tuple[str, str], Event] = {}
        self._pauses: dict[tuple[str, str], _Pause] = {}

    def add(self, what: str, by: str = "") -> None:
        """Count an event; this waits for nothing."""
        with self._lock:
            counted = self._waiting.get((what, by))
            if counted is None:
                self._waiting[what, by] = Event(self._clock(), what, by)
            else:
                self._waiting[what, by] = replace(counted, times=counted.times + 1)

    def flush(self, *, at_once: bool = False) -> None:
        """Write the events that are due, or all; if that fails, they go on waiting."""
        now = self._elapsed()
        with self._lock:
            self._pauses = {key: pause for key, pause in self._pauses.items() if pause.until + _LONGEST > now}
            paused = set() if at_once else {key for key, pause in self._pauses.items() if pause.until > now}
            due = {key: self._waiting.pop(key) for key in [*self._waiting] if key not in paused}
        if not due:
            return
        try:
            self._write(due.values())
        except BaseException:
            with self._lock:
                for key, event in due.items():
                    more = self._waiting.get(key)
                    self._waiting[key] = event if more is None else replace(event, times=event.times + more.times)
            raise
        with self._lock:
            for key in due:
                last = self._pauses.get(key)
                seconds = _SHORTEST if last is None else min(2 * last.seconds, _LONGEST)
                self._pauses[key] = _Pause(now + seconds, seconds)
