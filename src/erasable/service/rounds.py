"""Threads of the service: one that repeats a task at fixed times, and a fair lock for those that change models."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from erasable.errors import ErasableError

_MOST_DOUBLINGS = 6
_ASK_AGAIN = 0.1  # seconds between two calls of ``stop``


class Rounds(threading.Thread):
    """Calls a function every so many seconds; an error is the ``problem`` until a call succeeds again.

    Calls begin at times of a fixed grid, whatever a call takes, so that the times tell nothing of what it did. A call
    that has to end at such a time too calls :meth:`until_next`. After failures more and more times are left out, up to
    64 in a row.

    Of an unforeseen error ``problem`` shows only the type: its text may name somebody.
    """

    def __init__(self, what: str, period: float, call: Callable[[], object]) -> None:
        super().__init__(name=f"erasable-{what}", daemon=True)
        self.what, self._period, self._call = what, period, call
        self._ending, self._begun, self._waited = threading.Event(), time.monotonic(), False
        self.problem: str | None = None
        self.calls, self.seconds = 0, 0.0

    def run(self) -> None:
        """See ``start``."""
        failed = 0
        while not self._ending.is_set():
            self._waited = False
            self.once()
            failed = 0 if self.problem is None else min(failed + 1, _MOST_DOUBLINGS)
            if failed or not self._waited:
                self.until_next(2**failed)

    def until_next(self, periods: int = 1) -> None:
        """Wait until the next time of the grid. Another thread, or one that is to end, does not wait."""
        if threading.current_thread() is self:
            period = self._period * periods
            self._ending.wait(period - (time.monotonic() - self._begun) % period)
            self._waited = True

    def once(self) -> None:
        """Call the function once."""
        begun = time.monotonic()
        try:
            self._call()
            self.problem = None
        except (ErasableError, MemoryError) as error:
            self.problem = f"could not {self.what}: {error}"
        except Exception as error:
            self.problem = f"could not {self.what}: {type(error).__name__}."
        finally:
            self.calls, self.seconds = self.calls + 1, self.seconds + time.monotonic() - begun

    def end(self) -> None:
        """Stop after the current call."""
        self._ending.set()


class FairLock:
    """A lock, ``with lock():``, that a thread cannot take twice while another waits."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._next = threading.Lock()  # held by the thread that is next

    @contextmanager
    def __call__(self, stop: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the lock; ``stop`` is called repeatedly while it waits, and may raise."""
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
