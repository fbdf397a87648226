"""What a call did, handed to the caller. The model keeps no report, and no report keeps a row."""

from __future__ import annotations

import warnings
import weakref
from dataclasses import dataclass
from typing import Any

from erasable.core.selector import Decisions
from erasable.errors import EmptiedClassWarning, StaleReportError


class ForgetReport:
    """The outcome of one call of ``forget``.

    Attributes
    ----------
    requested : int
        Ids or subjects named in the call.
    core_rows_removed : int
        Core rows that left the model.
    rows_left : int
        Core rows that remain.
    digest : str
        SHA-256 of the state right after forgetting. Computed when first read, so that forgetting stays cheap; read
        it before the model changes again.
    """

    __slots__ = ("_digest", "_memory", "_moment", "core_rows_removed", "requested", "rows_left")

    def __init__(self, requested: int, core_rows_removed: int, memory: Any) -> None:
        self.requested = requested
        self.core_rows_removed = core_rows_removed
        self.rows_left = memory.n_core
        self._digest: str | None = None
        self._memory = weakref.ref(memory)
        self._moment = memory.moment

    @property
    def digest(self) -> str:
        """SHA-256 of the state right after forgetting, as 64 hexadecimal digits."""
        if self._digest is None:
            memory = self._memory()
            if memory is None or memory.moment is not self._moment:
                raise StaleReportError(
                    "the model has changed since this report was made, so its digest can no longer be computed: "
                    "read report.digest right after forget."
                )
            self._digest = str(memory.digest())
        return self._digest

    def __repr__(self) -> str:
        return (
            f"ForgetReport(requested={self.requested}, core_rows_removed={self.core_rows_removed}, "
            f"rows_left={self.rows_left})"
        )

    def __reduce__(self) -> tuple[object, ...]:
        return _frozen_report, (self.requested, self.core_rows_removed, self.rows_left, self.digest)


def _frozen_report(requested: int, core_rows_removed: int, rows_left: int, text: str) -> ForgetReport:
    report = ForgetReport.__new__(ForgetReport)
    report.requested, report.core_rows_removed, report.rows_left = requested, core_rows_removed, rows_left
    report._digest = text
    return report


@dataclass(frozen=True)
class LearnReport:
    """The outcome of one learning call.

    Attributes
    ----------
    rows : int
        Rows that were offered.
    core_rows_added : int
        Rows that became core rows.
    core_rows : int
        Core rows in the model now.
    decisions : Decisions
        How many rows each level of certainty decided.
    """

    rows: int
    core_rows_added: int
    core_rows: int
    decisions: Decisions


def warn_of_emptied_classes(emptied: int, model: Any, *, stacklevel: int = 3) -> None:
    """Say how many classes lost their last stored row; after the fact, for a warning must not stop an erasure."""
    if not emptied:
        return
    which = "a class" if emptied == 1 else f"{emptied} classes"
    remedy = " A model made with classes= keeps classes that have no rows." if hasattr(model, "classes") else ""
    warnings.warn(
        f"forgetting took the last stored row of {which}, which this model no longer predicts.{remedy}",
        EmptiedClassWarning,
        stacklevel=stacklevel,
    )
