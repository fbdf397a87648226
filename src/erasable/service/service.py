"""The erasure service as one object: what HTTP, a test or another program calls."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.models.access import StoredRows
from erasable.models.reports import LearnReport, VerifyReport
from erasable.service.identities import Identity
from erasable.service.ledger import Entry, Kind
from erasable.service.settings import Settings
from erasable.service.snapshots import Snapshot

#: Tells one callback url what became of a request; whatever it raises is tried again later.
Send = Callable[[str, Entry], None]


@dataclass(frozen=True)
class Health:
    """How the service is; no identities, no digests.

    Attributes
    ----------
    ready : bool
        Whether it has recovered, takes requests and its last commit went well.
    problem : str or None
        What went wrong with the last commit or receipt, in words: a full disk, say.
    doubts : tuple of str
        Where overwritten bytes may stay on the medium, in words (see ``erasable.store.doubt_about_blocks``).
    waiting : int
        Requests that are not settled.
    overdue : int
        Those of them that are past their expected completion.
    receipts_owed, callbacks_owed : int
    resumed : int
        Requests that an earlier run had accepted and not completed, found at the start.
    """

    ready: bool
    problem: str | None = None
    doubts: tuple[str, ...] = ()
    waiting: int = 0
    overdue: int = 0
    receipts_owed: int = 0
    callbacks_owed: int = 0
    resumed: int = 0


@dataclass(frozen=True)
class Verification:
    """A verification in the background.

    Attributes
    ----------
    model : str
    started : datetime
    ended : datetime or None
    done, total : int
        Rows recomputed so far, and in all.
    report : VerifyReport or None
        Where it passed.
    problem : str or None
        Where it did not.
    """

    model: str
    started: datetime
    ended: datetime | None = None
    done: int = 0
    total: int = 0
    report: VerifyReport | None = None
    problem: str | None = None


class ErasureService:
    """Several model files, the requests that concern them, and the one thread that changes them.

    Parameters
    ----------
    models : mapping of str to path
        Model files by name; each must exist.
    folder : str or path
        Where the ledger is kept. One process at a time.
    signer : PrivateKey
        Signs receipts.
    operator_key : bytes
        32 bytes or more: seals the bodies of requests.
    settings : Settings
    send : callable, optional
        Delivers callbacks: called with a url on an allowed host, and the entry. Without it none are accepted.
    suppression : SuppressionList, optional
        Takes those who were erased, so that ``learn`` passes over them.
    clock, draw : callables
        The time in UTC, and random names.

    Examples
    --------
    ``with ErasureService(...) as service:`` starts it and, at the end, drains and stops it.
    """

    def __init__(
        self,
        models: Mapping[str, str | os.PathLike[str]],
        folder: str | os.PathLike[str],
        *,
        signer: PrivateKey,
        operator_key: bytes,
        settings: Settings | None = None,
        send: Send | None = None,
        suppression: Any = None,
        clock: Callable[[], datetime] | None = None,
        draw: Callable[[], str] | None = None,
    ) -> None:
        raise NotImplementedError

    def start(self) -> Health:
        """Recover what a crash left, load snapshots, resume requests, receipts and callbacks; then take requests."""
        raise NotImplementedError

    def stop(self, timeout: float = 30.0) -> None:
        """Take no more requests, commit and sign for what was accepted, and end; what is left goes on at the next start."""
        raise NotImplementedError

    # -- requests ------------------------------------------------------------------------------------------------

    def accept(
        self, request_id: str, kind: Kind, identities: Iterable[Identity], body: bytes, callbacks: Sequence[str] = ()
    ) -> Entry:
        """See ``Ledger.accept``. Callbacks on hosts that are not allowed are refused with ``ConfigurationError``.

        ``identity(type, format, value)`` makes the identities.
        """
        raise NotImplementedError

    def identity(self, type: str, format: str, value: str) -> Identity:
        """An identity of a type that the settings name; ``InputError`` for any other."""
        raise NotImplementedError

    def entry(self, request_id: str) -> Entry:
        """See ``Ledger.entry``."""
        raise NotImplementedError

    def entries(self) -> list[Entry]:
        """All requests, the oldest first."""
        raise NotImplementedError

    def cancel(self, request_id: str) -> Entry:
        """See ``Ledger.cancel``."""
        raise NotImplementedError

    def receipts(self, request_id: str) -> dict[str, str] | None:
        """The receipts of a completed erasure by model; None while one is owed (``results_url`` answers 202)."""
        raise NotImplementedError

    def stored_of(self, request_id: str) -> dict[str, StoredRows]:
        """The answer to a completed request for access, by model, as stored now.

        ``UnknownRequestError`` once it has expired, or the service was started again: ask again with another id.
        """
        raise NotImplementedError

    def purge(self, before: datetime) -> int:
        """See ``Ledger.purge``."""
        raise NotImplementedError

    # -- models --------------------------------------------------------------------------------------------------

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        raise NotImplementedError

    def snapshot(self, name: str) -> Snapshot:
        """What to predict with; costs nothing."""
        raise NotImplementedError

    def learn(self, name: str, blocks: Iterable[Any], **options: Any) -> LearnReport:
        """Learn blocks, all of which are read before the lock is taken; options as in ``ModelFile.learn``.

        Rows of people on the suppression list are passed over, and counted (``rows_suppressed``). Receipts that are
        owed are signed first, so that none speaks of a state that has learnt more.
        """
        raise NotImplementedError

    def verify(self, name: str) -> Verification:
        """Begin to verify a model in the background, unless that is going on; see ``verification``."""
        raise NotImplementedError

    def verification(self, name: str) -> Verification | None:
        """The last verification of a model, or that going on; None where there was none since the start."""
        raise NotImplementedError

    def digest(self, name: str) -> str:
        """Digest of the state that the file holds now. For auditors alone."""
        raise NotImplementedError

    def health(self) -> Health:
        """How it is."""
        raise NotImplementedError
