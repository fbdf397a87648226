"""Parts of a table on their way to whoever looks at them, a bounded number at a time."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from typing import Any

from erasable.errors import ConfigurationError
from erasable.models.passes import Seen


def parts_of(blocks: Any, least: int) -> Iterator[tuple[Any, int | None]]:
    """Parts, each an iterable of blocks, with the number of rows before it, where that is known.

    A table that can be read elsewhere comes in parts that say where their rows are; but where these are fewer than
    ``least``, and for any other rows, each block is a part of its own.
    """
    parts = blocks.parts() if hasattr(blocks, "parts") else None
    low: int | None = 0
    if parts is None or len(parts) < least:
        for block in blocks:
            yield (block,), low
            assert low is not None
            low += len(block.y)
        return
    for part in parts:
        yield part, low
        low = None if low is None or part.n_rows is None else low + part.n_rows


def awaited(part: Any) -> list[Any]:
    """What of a part waits on a cluster and is not sent with it."""
    found: list[Any] = part.awaits() if hasattr(part, "awaits") else []
    return found


def in_window(
    parts: Iterator[tuple[Any, int | None]], submit: Callable[[Any, int | None], Future[Seen]], width: int
) -> Iterator[Seen]:
    """What comes of each part, as it comes; no more than ``width`` are under way at a time.

    Where one fails, those that have not begun are not looked at.
    """
    pending: set[Future[Seen]] = set()
    try:
        for part, low in parts:
            pending.add(submit(part, low))
            if len(pending) >= width:
                done, pending = wait(pending, return_when=FIRST_COMPLETED)
                while done:
                    yield done.pop().result()
        while pending:
            done, pending = wait(pending, return_when=FIRST_COMPLETED)
            while done:
                yield done.pop().result()
    finally:
        for future in pending:
            future.cancel()


def packed(sieve: Any, dumps: Callable[[Any], bytes] = pickle.dumps) -> bytes:
    """Something as bytes, to be sent.

    Raises
    ------
    ConfigurationError
        When a function of the caller's, a map or a kernel, cannot be sent.
    """
    try:
        return dumps(sieve)
    except (pickle.PicklingError, AttributeError, TypeError):
        problem = (
            "engine= sends the model's parameters to other processes, and a function among them (feature_map=, "
            "kernel=) cannot be sent: define it in a module, not as a lambda or within another function."
        )
    raise ConfigurationError(problem)
