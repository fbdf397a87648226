"""The operator's decisions, fixed while the service runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal
from urllib.parse import urlsplit

from erasable.core.names import Spelling, read_spelling
from erasable.errors import ConfigurationError

#: What an identity names: one row, or a person who may have many.
Role = Literal["id", "subject"]

_HTTPS = 443


@dataclass(frozen=True)
class Settings:
    """Limits, times and names.

    Attributes
    ----------
    identity_types : mapping of str to "id" or "subject"
        The accepted types of identity, and what each names in the models.
    identity : mapping of "id" and "subject" to steps
        How ids and subjects are normalised before they are compared: any of ``trim``, ``nfc`` and ``casefold``. By
        default as the schemas of the models declare it, otherwise not at all.
    tick : float
        Seconds between group commits. All requests accepted meanwhile share one rewrite of each model.
    queue : int
        Requests that may wait; one more is refused with ``QueueFullError``.
    promise : timedelta
        From receipt of a request to its expected completion. The health counts overdue requests.
    callback_hosts : frozenset of str
        Hosts that callbacks may go to, each with its port, such as ``c.example:8443``; the default port is 443.
    callback_tries : int
        How often a callback is tried; the pause doubles from one second up to an hour.
    access_for : timedelta
        How long the answer to a request for access can be fetched. It is held in memory only.
    keep_for : timedelta, optional
        How long the ledger keeps settled requests that owe nothing; by default until a purge.
    trust_clock : bool
        The operator's word that the clock is right after it went forward, or after the service was stopped for more
        than a day. Nothing is purged without it. Set it for one start.
    vouch : bool
        The operator's word that no erased person is back, although a model file is not the one last committed or the
        suppression list is not the one that the ledger knows. Set it for one start.
    anchor : str, optional
        A position of the ledger that was written down elsewhere, as the health shows it. A ledger without it was
        restored from an older backup and is refused.
    """

    identity_types: Mapping[str, Role] = field(default_factory=lambda: {"controller_customer_id": "subject"})
    identity: Spelling = field(default_factory=dict)
    tick: float = 0.25
    queue: int = 10_000
    promise: timedelta = timedelta(hours=1)
    callback_hosts: frozenset[str] = frozenset()
    callback_tries: int = 16
    access_for: timedelta = timedelta(hours=1)
    keep_for: timedelta | None = None
    trust_clock: bool = False
    vouch: bool = False
    anchor: str | None = None

    def __post_init__(self) -> None:
        if not self.tick > 0 or self.queue < 1 or self.callback_tries < 1:
            raise ConfigurationError("tick must be positive, queue and callback_tries at least 1.")
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

    def allows_callbacks_to(self, host: str | None, port: int) -> bool:
        """Whether callbacks may go to this port of this host."""
        return (host, port) in map(_host_and_port, self.callback_hosts)


def _host_and_port(name: str) -> tuple[str | None, int]:
    """Split an entry of ``callback_hosts``; a plain IPv6 address has no port."""
    parts = urlsplit(f"//[{name}]" if name.count(":") > 1 and "[" not in name else f"//{name}")
    if f"//{parts.netloc}" != parts.geturl() or parts.port == 0:
        raise ValueError
    return parts.hostname, parts.port or _HTTPS
