"""Verification in the background, one at a time for each model, with its progress."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime

from erasable.errors import ErasableError
from erasable.models.reports import VerifyReport
from erasable.operations.verify import verify_file
from erasable.service.beside import Beside, Here


@dataclass(frozen=True)
class Verification:
    """A verification, as far as it has come.

    Attributes
    ----------
    model : str
    started : datetime
    ended : datetime or None
    done, total : int
        Rows recomputed so far, and in all; both 0 until the first is.
    report : VerifyReport or None
        Where it passed. It has a digest: for auditors alone.
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


class Verifications:
    """The last verification of each model.

    Parameters
    ----------
    clock : callable
        The time in UTC.
    verifier : Beside or Here
        Where they are carried out.
    """

    def __init__(self, clock: Callable[[], datetime], verifier: Beside | Here) -> None:
        self._clock, self._verifier = clock, verifier
        self._last: dict[str, Verification] = {}
        self._turn = threading.Lock()

    def last(self, name: str) -> Verification | None:
        """That of a model; None where there was none."""
        return self._last.get(name)

    def begin(self, name: str, path: str) -> Verification:
        """One of the model in a file that has begun, or that going on."""
        with self._turn:
            last = self._last.get(name)
            if last is not None and last.ended is None:
                return last
            self._last[name] = begun = Verification(name, self._clock())
            threading.Thread(target=self._run, args=(name, path), name="erasable-verify", daemon=True).start()
            return begun

    def passed(self, name: str, started: datetime, report: VerifyReport) -> None:
        """A model was verified by somebody else, for a receipt; where that is going on here too, this one counts."""
        with self._turn:
            last = self._last.get(name)
            if last is None or last.ended is not None:
                rows = report.core_rows
                self._last[name] = Verification(name, started, self._clock(), rows, rows, report)

    def _run(self, name: str, path: str) -> None:
        def progress(done: int, total: int) -> None:
            self._last[name] = replace(self._last[name], done=done, total=total)

        report, problem = None, None
        try:
            report = self._verifier(verify_file, path, progress=progress)
        except ErasableError as error:
            problem = str(error)
        except Exception as error:  # its text may name somebody
            problem = type(error).__name__
        self._last[name] = replace(self._last[name], ended=self._clock(), report=report, problem=problem)
