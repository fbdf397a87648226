"""Waiting for what must happen. However busy the machine: only what never happens fails."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

#: Seconds, and far more than anything takes here.
PATIENCE = 300.0


def until(found: Callable[[], T], pause: float = 0.01) -> T:
    """What a call gives, once that is true."""
    end = time.monotonic() + PATIENCE
    while not (answer := found()):
        assert time.monotonic() < end, "it never was"
        time.sleep(pause)
    return answer


def with_longer(seconds: float, attempt: Callable[[float], bool]) -> None:
    """Make an attempt that needs something done within some seconds, with ever more of them until it says that it was.

    For deadlines that have to pass: what comes before them takes time too, and how much is not for a test to say.
    """
    while not attempt(seconds):
        assert seconds < PATIENCE, "however long it was given"
        seconds *= 5
