"""What is asked of a model file, and the line in which threads of one process wait for it.

Whoever is first in line carries out what all who wait have asked for, with one rewrite, and answers them.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erasable.audit.receipts import check_request_id
from erasable.core.names import Steps
from erasable.errors import BusyError, InputError, InputTypeError, UnknownOutcomeError
from erasable.models.core_rows import Named
from erasable.models.model import Model
from erasable.models.reports import ForgetReport
from erasable.store import check_timeout

#: What ids and subjects are, by what the header of a file says of them.
KEY_TYPES: dict[str | None, type | None] = {"int": int, "str": str, "bytes": bytes, None: None}
#: For each request how much it names, how many rows it removes, how much is not stored.
Counts = list[tuple[int, int, int]]
_WHOLE = re.compile(r"-?[0-9]{1,40}")


@dataclass(frozen=True)
class Names:
    """Ids or subjects as people write them: texts, and files of them; a model says what kind they are.

    Attributes
    ----------
    texts : list of str
    files : list of str or path
        Paths as in ``erasable.tables.read_keys``, or patterns as in ``erasable.tables.files_of``.
    column : str, optional
        The column of these files.
    called : str
        What an error calls them.
    """

    texts: tuple[str, ...] = ()
    files: tuple[str | os.PathLike[str], ...] = ()
    column: str | None = None
    called: str = "names"

    def of(self, kind: type | None, steps: Steps = ()) -> list[Any] | None:
        """The keys, of the kind that a model has, which normalises them by ``steps``; None where nothing is named."""
        if not self.texts and not self.files:
            return None
        keys = [self._key(text, kind) for text in self.texts]
        if self.files:
            from erasable.tables import files_of, read_keys  # only here: names on a command line need no reader

            files: list[str | Path] = [*files_of(self.files)] or ["-"]
            for file in files:
                keys += read_keys(file, kind=kind, column=self.column, trim="trim" in steps)
        return keys

    def _key(self, text: str, kind: type | None) -> Any:
        if kind is int:
            if not _WHOLE.fullmatch(text):  # int() would take 1_0 for ten
                raise InputError(f"{self.called}: the model's are whole numbers, and one that was given is not.")
            return int(text)
        if kind is bytes:
            try:
                return bytes.fromhex(text)
            except ValueError:
                raise InputError(f"{self.called}: the model's are bytes: give them in hexadecimal digits.") from None
        return text


def keys_named(given: Names | list[Any] | None, kind: type | None, steps: Steps) -> list[Any] | None:
    """Keys of a kind, from a list of them or from what people wrote; a model normalises them by ``steps``."""
    return given.of(kind, steps) if isinstance(given, Names) else given


@dataclass(frozen=True)
class Request:
    """Rows to forget: by their ids, by whose they are, or both; and what the receipt is to call the request.

    Examples
    --------
    >>> from erasable.operations.requests import Request
    >>> Request(ids=["row-7"], subjects=["ann", "bob"])
    Request(1 ids, 2 subjects)
    """

    ids: Any = None
    subjects: Any = None
    request_id: str | None = None
    requested_at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def __post_init__(self) -> None:
        if self.request_id is not None:
            check_request_id(self.request_id)
        if getattr(self.requested_at, "tzinfo", None) is None:
            raise InputTypeError("requested_at must be a datetime with a time zone.")
        try:
            object.__setattr__(self, "requested_at", self.requested_at.astimezone(UTC))
        except (OverflowError, ValueError):
            raise InputError("requested_at must be a time that there is in UTC.") from None

    @classmethod
    def of(cls, given: Any) -> Request:
        """The request itself, or that which a mapping stands for."""
        if isinstance(given, cls):
            return given
        if isinstance(given, dict) and given and set(given) <= {"ids", "subjects", "request_id", "requested_at"}:
            return cls(**given)
        raise InputTypeError(
            "every request must be a Request, or a mapping with ids or subjects and, if need be, request_id, "
            "requested_at."
        )

    def named_in(self, model: Model) -> Named:
        """What it names in a model; refused if no row could have such names."""
        return model.named(self.ids, self.subjects)

    def __repr__(self) -> str:
        counts = ((self.ids, "ids"), (self.subjects, "subjects"))
        named = [f"{len(v) if hasattr(v, '__len__') else 'some'} {what}" for v, what in counts if v is not None]
        return f"Request({', '.join(named)})"


class Ticket:
    """Requests of one caller, and what became of them."""

    def __init__(self, requests: list[Request], digests: bool) -> None:
        self.requests, self.digests = requests, digests
        self._outcome: list[ForgetReport] | BaseException | None = None

    def found(self, model: Model, leaving: dict[Any, None]) -> Counts:
        """What the requests name in a model.

        The rows join ``leaving``; where a request cannot be carried out none does, and that is what became of them.
        """
        counts, rows = [], dict[Any, None]()
        try:
            for request in self.requests:
                asked = request.named_in(model)
                fresh = [key for key in asked.found if key not in leaving and key not in rows]
                rows.update(dict.fromkeys(fresh))
                counts.append((asked.requested, len(fresh), asked.not_stored))
        except Exception as error:  # of this caller alone
            self.settle(error)
            return []
        leaving.update(rows)
        return counts

    @property
    def done(self) -> bool:
        """Whether it is known what became of them."""
        return self._outcome is not None

    def settle(self, outcome: list[ForgetReport] | BaseException) -> None:
        """Say what became of the requests; only the first time counts."""
        if self._outcome is None:
            self._outcome = outcome

    def result(self) -> list[ForgetReport]:
        """The reports; or the error is raised."""
        if not isinstance(self._outcome, list):
            raise self._outcome or UnknownOutcomeError("nobody answered, so what became of it is not known: ask again.")
        return self._outcome


class Line:
    """Threads of this process that want one file.

    Attributes
    ----------
    waiting : list of Ticket
        Those that nobody has begun to carry out.
    turn : lock
        Held by the thread that works with the file.
    """

    def __init__(self, path: str, timeout: float | None) -> None:
        self._path, self._timeout = path, timeout
        self.waiting: list[Ticket] = []
        self.turn, self._list_lock = threading.Lock(), threading.Lock()
        self._deadline: float | None = None  # of the thread whose turn it is

    def join(self, ticket: Ticket, work: Callable[[list[Ticket]], None]) -> list[ForgetReport]:
        """Wait in line; ``work`` carries out what all ask who wait by then, unless another thread has done it."""
        with self._list_lock:
            self.waiting.append(ticket)
        try:
            with self.in_turn(ticket):
                if not ticket.done:
                    with self._list_lock:
                        batch, self.waiting = self.waiting, []
                    work(batch)
        except BaseException:
            self._take_back(ticket)  # nobody waits for the answer any more
            raise
        return ticket.result()

    @contextmanager
    def in_turn(self, ticket: Ticket | None = None) -> Iterator[None]:
        """A block for one thread at a time; what is left of the time to wait is for the file's lock."""
        check_timeout(self._timeout)
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        patience = -1 if self._timeout is None else min(self._timeout, threading.TIMEOUT_MAX)
        if not self.turn.acquire(timeout=patience):
            if self._take_back(ticket):
                raise BusyError(
                    f"{self._path} is being changed by another thread of this process and was not free within "
                    f"{self._timeout:.3g} seconds. Nothing was changed: try again."
                )
            self.turn.acquire()
        try:
            self._deadline = deadline
            yield
        finally:
            self._deadline = None
            self.turn.release()

    def time_left(self) -> float | None:
        """Seconds that the thread whose turn it is may still wait; None for as long as it takes."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _take_back(self, ticket: Ticket | None) -> bool:
        """Whether the requests of a ticket can no longer be carried out; not so where a thread has begun to."""
        with self._list_lock:
            waited = ticket is None or ticket in self.waiting
            self.waiting = [t for t in self.waiting if t is not ticket]
        return waited
