"""Work that ends when nobody waits for it any more: past its deadline, or when the client has gone.

A thread cannot be stopped from outside. So whoever works for long asks now and then, between two blocks of rows, and
stops there; nothing half-done stays, since a model is changed in memory and written once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread
from fastapi import Request

from erasable.service.http.problems import Refused

T = TypeVar("T")


class Patience:
    """Whether somebody still waits for the answer to a request."""

    def __init__(self) -> None:
        self._over = False

    def end(self) -> None:
        """Nobody waits any more."""
        self._over = True

    def check(self) -> None:
        """Nothing while somebody waits; ``Refused`` otherwise, in whichever thread asks."""
        if self._over:
            raise Refused(504, "nobody waits for this any more: it was given up, and nothing was changed.")


def patience_of(request: Request) -> Patience:
    """That of whoever sent a request; it ends with the request, see ``Envelope``."""
    found: Patience = request.scope["patience"]
    return found


async def in_thread(request: Request, call: Callable[..., T], *given: Any, limiter: CapacityLimiter | None = None) -> T:
    """What a call gives in a thread, which is told when the client has gone. The body has been read before."""
    patience = patience_of(request)

    async def watch() -> None:
        while (await request.receive())["type"] != "http.disconnect":
            pass
        patience.end()

    watching = asyncio.create_task(watch())
    try:
        return await to_thread.run_sync(call, *given, limiter=limiter)
    finally:
        watching.cancel()
