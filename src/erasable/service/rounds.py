"""A thread that does one thing again and again, at fixed times, and says what went wrong the last time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from erasable.errors import ErasableError

_MOST_DOUBLINGS = 6


class Rounds(threading.Thread):
    """Calls a function every so many seconds; what it raises is the problem until it goes well again.

    The times are those of a grid, whatever a call takes, so that they tell nothing of what it did; one that is to end
    at such a time too calls :meth:`until_next`. While it goes wrong, more and more of them are left out, up to 64 in a
    row.

    Attributes
    ----------
    what : str
        What it does, as a verb.
    problem : str or None
        What was wrong the last time. Of an error that nobody foresaw only its kind: its text may name somebody.
    calls : int
        How many there were.
    seconds : float
        How long they took together.
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
        """For the call that is going on: wait until the next time of the grid, when the call after it is due.

        Nobody waits who was not called by this thread, or once it is to end.
        """
        if threading.current_thread() is self:
            period = self._period * periods
            self._ending.wait(period - (time.monotonic() - self._begun) % period)
            self._waited = True

    def once(self) -> None:
        """One call."""
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
        """No more calls, once that going on is done."""
        self._ending.set()
