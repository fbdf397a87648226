"""A lock for threads of one process that is had by turns: who has just had it is not before one who waits."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ASK_AGAIN = 0.1  # seconds: whether who waits is to go on waiting


class Turn:
    """Held by one thread at a time: ``with turn():``. One that does the same again and again keeps nobody out."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._next = threading.Lock()  # by whoever has it next; the others wait for that

    @contextmanager
    def __call__(self, stop: Callable[[], None] = lambda: None) -> Iterator[None]:
        """A block for one thread; ``stop`` is called again and again while it waits, and may raise."""
        _wait_for(self._next, stop)
        try:
            _wait_for(self._held, stop)
        finally:
            self._next.release()
        try:
            yield
        finally:
            self._held.release()


def _wait_for(lock: threading.Lock, stop: Callable[[], None]) -> None:
    while not lock.acquire(timeout=_ASK_AGAIN):
        stop()
