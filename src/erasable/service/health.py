"""How a service is, in a few numbers and sentences."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from erasable.service.ledger import Ledger


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
    anchor : str
        How far the ledger has come: for the setting of that name at a later start.
    """

    ready: bool
    problem: str | None = None
    doubts: tuple[str, ...] = ()
    waiting: int = 0
    overdue: int = 0
    receipts_owed: int = 0
    callbacks_owed: int = 0
    resumed: int = 0
    anchor: str = ""

    @classmethod
    def of(
        cls,
        ledger: Ledger,
        now: datetime,
        *,
        taking: bool,
        problems: Sequence[str],
        doubts: tuple[str, ...],
        resumed: int,
    ) -> Health:
        """That of a service with this ledger; ``taking`` says whether it takes requests."""
        owing = ledger.owing()
        problems = [*problems, *_no_descriptors()]
        return cls(
            ready=taking and not problems,
            problem=problems[0] if problems else None,
            doubts=doubts,
            waiting=ledger.waiting,
            overdue=ledger.overdue(now),
            receipts_owed=sum(len(set(entry.models) - entry.receipts) for entry in owing),
            callbacks_owed=sum(len(entry.callbacks) for entry in owing if entry.owes_callbacks),
            resumed=resumed,
            anchor=ledger.position,
        )


def _no_descriptors() -> list[str]:
    """That no file can be opened, where that is so: whatever needs no file would go well all the same."""
    try:
        os.close(os.open(os.devnull, os.O_RDONLY))
    except OSError:
        return ["no file can be opened: too many files and connections are open. Raise the limit of open files."]
    return []
