"""How a service is, in a few numbers and sentences."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Health:
    """How the service is; no identities, no digests.

    Attributes
    ----------
    ready : bool
        Whether it has recovered, takes requests and its last rounds went well.
    problem : str or None
        What went wrong with the last commit, receipt or callback, in words: a full disk, say.
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
