"""The operator's decisions, fixed while the service runs."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal
from urllib.parse import urlsplit

from erasable.core.names import Spelling, read_spelling
from erasable.errors import ConfigurationError

#: What an identity names: one row, or a person who may have many.
Role = Literal["id", "subject"]

_HTTPS = 443
_MOST_DAYS = 3650
_MOST_NICE = 19


@dataclass(frozen=True)
class Settings:
    """Limits, times and names of a service, one for each line of the table of settings in ``docs/service.md``."""

    identity_types: Mapping[str, Role] = field(default_factory=lambda: {"controller_customer_id": "subject"})
    identity: Spelling = field(default_factory=dict)
    tick: float = 0.25  # seconds between group commits
    niceness: int = 5  # of the processes that write, read and verify, above that of the first one
    receipts_within: timedelta = timedelta(minutes=2)  # until a receipt that is owed makes the service not ready
    queue: int = 10_000  # requests that may wait
    promise: timedelta = timedelta(hours=1)  # until a request is overdue
    grace: timedelta = timedelta(0)  # for which a request can be cancelled before it is carried out
    due_in: int = 0  # days until an answer is due; 0 stands for one month
    callback_hosts: frozenset[str] = frozenset()
    callback_tries: int = 16  # the pause doubles from a second up to an hour
    access_for: timedelta = timedelta(hours=1)  # how long the answer to a request for access is held, in memory
    keep_for: timedelta | None = None  # settled requests; None keeps them until a purge
    trust_clock: bool = False  # the operator's word that the clock is right: for one start
    vouch: bool = False  # the operator's word that no erased person is back: for one start
    anchor: str | None = None  # a position that the ledger must have had

    def __post_init__(self) -> None:
        if not self.tick > 0 or self.queue < 1 or self.callback_tries < 1:
            raise ConfigurationError("tick must be positive, queue and callback_tries at least 1.")
        if not 0 <= self.niceness <= _MOST_NICE or self.receipts_within <= timedelta(0):
            raise ConfigurationError(f"niceness must be 0 to {_MOST_NICE}, and receipts_within positive.")
        if self.grace < timedelta(0) or not 0 <= self.due_in <= _MOST_DAYS:
            raise ConfigurationError(f"grace must not be negative, and due_in must be 0 to {_MOST_DAYS:,} days.")
        try:
            known = all(host for host, _ in map(_host_and_port, self.callback_hosts))
        except ValueError:
            known = False
        if not known:
            raise ConfigurationError(
                "callback_hosts must be names of hosts, each with its port or without, such as c.example:8443."
            )
        if not self.identity_types or set(self.identity_types.values()) - {"id", "subject"}:
            raise ConfigurationError('identity_types must name at least one type, each as "id" or "subject".')
        object.__setattr__(self, "identity", read_spelling(self.identity, "identity"))

    def due_on(self, arrived: date) -> date:
        """The day on which the answer to a request is due; a month ends with the last day of the next one."""
        if self.due_in:
            return arrived + timedelta(days=self.due_in)
        year, month = divmod(arrived.year * 12 + arrived.month, 12)
        return date(year, month + 1, min(arrived.day, monthrange(year, month + 1)[1]))

    def allows_callbacks_to(self, host: str | None, port: int) -> bool:
        """Whether callbacks may go to this port of this host."""
        return (host, port) in map(_host_and_port, self.callback_hosts)


def _host_and_port(name: str) -> tuple[str | None, int]:
    """Split an entry of ``callback_hosts``; a plain IPv6 address has no port."""
    parts = urlsplit(f"//[{name}]" if name.count(":") > 1 and "[" not in name else f"//{name}")
    if f"//{parts.netloc}" != parts.geturl() or parts.port == 0:
        raise ValueError
    return parts.hostname, parts.port or _HTTPS
