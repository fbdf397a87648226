"""Purges of the ledger: the signed statement that each leaves behind, and whether the clock can be trusted for it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from erasable.audit.keys import PrivateKey, PublicKey
from erasable.audit.receipts import check_envelope, make_envelope
from erasable.errors import StateFormatError, StoreError
from erasable.store import locked, read

PAYLOAD_TYPE = "application/vnd.erasable.purge+json"

_JUMP = timedelta(hours=1)  # by which the wall clock may differ from the time that has passed
_ABSENCE = timedelta(days=1)  # for which a service may have been stopped
_LARGEST = 100  # bytes of a time


def make_tombstone(key: PrivateKey, **content: str | int | datetime) -> str:
    """The signed statement that requests were purged: a DSSE envelope as one line of JSON."""
    plain = {name: value if isinstance(value, int | str) else _stamp(value) for name, value in content.items()}
    return make_envelope(key, PAYLOAD_TYPE, plain)


def check_tombstone(text: str, public_key: PublicKey) -> dict[str, Any]:
    """The content of a tombstone, once its signature is verified.

    Raises SignatureError or ReceiptError when it was signed with another key, was changed since, or is no tombstone.
    """
    return check_envelope(text, public_key, PAYLOAD_TYPE)


def elapsed() -> float:
    """Seconds since the machine was started, asleep or awake, whatever the wall clock says."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class WatchedClock:
    """Notices when the wall clock jumps forward, which would make everything seem old.

    Within a run the wall clock is compared with the time that has passed. From one run to the next there is only the
    time that the earlier run wrote down: if the service seems to have been stopped for more than a day, the clock may
    have jumped.

    ``path`` is the file with that time, ``newest`` the newest time in the ledger, used if the file does not exist, and
    ``trusted`` the operator's word that the clock is right now.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        clock: Callable[[], datetime],
        elapsed: Callable[[], float],
        newest: datetime | None,
        *,
        trusted: bool,
    ) -> None:
        self._path, self._clock, self._elapsed = path, clock, elapsed
        last = newest
        with suppress(StoreError, StateFormatError, ValueError):
            last = read(path, _time, limit=_LARGEST)
        self._wall, self._passed = clock(), elapsed()
        if last is not None and self._wall - last > _ABSENCE and not trusted:
            self._wall = last  # as if it had run on since then

    def doubt(self) -> str | None:
        """What is wrong with the clock, in words; None if nothing is."""
        ahead = self._clock() - self._wall - timedelta(seconds=self._elapsed() - self._passed)
        if ahead <= _JUMP:
            return None
        return (
            f"the clock went forward by {ahead.total_seconds() / 3600:,.0f} hours, or the service was stopped for that "
            "long: nothing is purged. If the clock is right, start once with the setting trust_clock."
        )

    def note(self) -> None:
        """Write down that the clock is right now, for the next run."""
        if self.doubt() is None:
            with locked(self._path) as writer:
                writer.replace([_stamp(self._clock()).encode()])


def _stamp(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds")


def _time(head: bytes, _: object) -> datetime:
    found = datetime.fromisoformat(head.decode("ascii"))
    if found.tzinfo is None:
        raise ValueError
    return found
