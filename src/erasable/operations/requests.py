"""Requests to forget rows, and the queue in which threads of one process wait for a model file.

The first thread in the queue carries out the requests of all waiting threads with one rewrite.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erasable.audit.receipts import check_request_id
from erasable.core.names import Key, Steps
from erasable.errors import BusyError, InputError, InputTypeError, UnknownOutcomeError
from erasable.models.core_rows import NamedRows
from erasable.models.model import Model
from erasable.models.reports import ForgetReport
from erasable.store import check_timeout

#: The type of ids and subjects, by its name in the header of a file.
KEY_TYPES: dict[str | None, type | None] = {"int": int, "str": str, "bytes": bytes, None: None}
#: For each request: how many names it has, how many rows it removes, how many names are not stored.
Counts = list[tuple[int, int, int]]
_WHOLE = re.compile(r"-?[0-9]{1,40}")


@dataclass(frozen=True)
class Names:
    """Ids or subjects as people write them: texts, and files of texts. The model determines their type."""

    texts: tuple[str, ...] = ()
    # Paths as in ``erasable.tables.read_keys``, or patterns as in ``erasable.tables.files_of``.
    files: tuple[str | os.PathLike[str], ...] = ()
    column: str | None = None  # the column of these files
    called: str = "names"  # what errors call them

    def of(self, kind: type | None, steps: Steps = ()) -> list[Any] | None:
        """Return the names as keys of type ``kind``, or None if there are none.

        ``steps`` are those by which the model normalises names.
        """
        if not self.texts and not self.files:
            return None
        keys: list[Any] = [self._key(text, kind) for text in self.texts]
        if self.files:
            from erasable.tables import files_of, read_keys  # only here: names on a command line need no reader

            files: list[str | Path] = [*files_of(self.files)] or ["-"]
            for file in files:
                keys += read_keys(file, kind=kind, column=self.column, trim="trim" in steps)
        return keys

    def read_once(self) -> Names:
        """Return the same names, with those on standard input read: they can be used for several models."""
        if "-" not in self.files:
            return self
        from erasable.tables import read_keys

        return replace(self, texts=(*self.texts, *read_keys("-", kind=str)), files=())

    def _key(self, text: str, kind: type | None) -> Key:
        if kind is int:
            if not _WHOLE.fullmatch(text):  # int() would take 1_0 for ten
                raise InputError(f"{self.called}: those of this model are whole numbers, and a given one is not.")
            return int(text)
        if kind is bytes:
            try:
                return bytes.fromhex(text)
            except ValueError:
                raise InputError(f"{self.called}: those of this model are bytes: give hexadecimal digits.") from None
        return text


def keys_named(given: Names | list[Any] | None, kind: type | None, steps: Steps) -> list[Any] | None:
    """Return keys of type ``kind``, from a list of keys or from names as people write them."""
    return given.of(kind, steps) if isinstance(given, Names) else given


@dataclass(frozen=True)
class Request:
    """A request to forget rows by their ids, their subjects, or both; the receipt names it by ``request_id``.

    Examples
    --------
    >>> from erasable.operations.requests import Request
    >>> Request(ids=["row-7"], subjects=["ann", "bob"])
    Request(1 ids, 2 subjects)
    """

    ids: object = None
    subjects: object = None
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
            raise InputError("requested_at must be a time that exists in UTC.") from None

    @classmethod
    def of(cls, given: object) -> Request:
        """Return a request, or the request that a mapping describes."""
        if isinstance(given, cls):
            return given
        if isinstance(given, dict) and given and set(given) <= {"ids", "subjects", "request_id", "requested_at"}:
            return cls(**given)
        raise InputTypeError(
            "every request must be a Request, or a mapping with ids or subjects and, if need be, request_id, "
            "requested_at."
        )

    def named_in(self, model: Model) -> NamedRows:
        """Find the rows that it names in a model; names of the wrong type are refused."""
        return model.named(self.ids, self.subjects)

    def __repr__(self) -> str:
        counts = ((self.ids, "ids"), (self.subjects, "subjects"))
        named = [f"{len(v) if hasattr(v, '__len__') else 'some'} {what}" for v, what in counts if v is not None]
        return f"Request({', '.join(named)})"


class Ticket:
    """The requests of one caller, and their outcome."""

    def __init__(self, requests: list[Request], digests: bool) -> None:
        self.requests, self.digests = requests, digests
        self._outcome: list[ForgetReport] | BaseException | None = None

    def collect_rows(self, model: Model, leaving: dict[Any, None]) -> Counts:
        """Add the rows that the requests name to ``leaving`` and return the counts.

        If one of the requests is refused, none of their rows is added, and the error is their outcome.
        """
        counts, rows = [], dict[Any, None]()
        try:
            for request in self.requests:
                named = request.named_in(model)
                fresh = [key for key in named.found if key not in leaving and key not in rows]
                rows.update(dict.fromkeys(fresh))
                counts.append((named.requested, len(fresh), named.not_stored))
        except Exception as error:  # concerns this caller alone
            self.settle(error)
            return []
        leaving.update(rows)
        return counts

    @property
    def done(self) -> bool:
        """Whether the outcome is known."""
        return self._outcome is not None

    def settle(self, outcome: list[ForgetReport] | BaseException) -> None:
        """Set the outcome; only the first call counts."""
        if self._outcome is None:
            self._outcome = outcome

    def result(self) -> list[ForgetReport]:
        """Return the reports, or raise the error."""
        if not isinstance(self._outcome, list):
            raise self._outcome or UnknownOutcomeError("the outcome of this request is not known: send it again.")
        return self._outcome


class RequestQueue:
    """Threads of this process that wait for one file.

    Attributes
    ----------
    waiting : list of Ticket
        Those that no thread has begun to carry out.
    lock : lock
        Held by the thread that works with the file.
    """

    def __init__(self, path: str, timeout: float | None) -> None:
        self._path, self._timeout = path, timeout
        self.waiting: list[Ticket] = []
        self.lock, self._list_lock = threading.Lock(), threading.Lock()
        self._deadline: float | None = None  # of the thread that holds the lock

    def submit(self, ticket: Ticket, carry_out: Callable[[list[Ticket]], None]) -> list[ForgetReport]:
        """Wait for the file, then carry out all waiting tickets, unless another thread has done it meanwhile."""
        with self._list_lock:
            self.waiting.append(ticket)
        try:
            with self.exclusive(ticket):
                if not ticket.done:
                    with self._list_lock:
                        batch, self.waiting = self.waiting, []
                    carry_out(batch)
        except BaseException:
            self._withdraw(ticket)  # the caller no longer waits for the outcome
            raise
        return ticket.result()

    @contextmanager
    def exclusive(self, ticket: Ticket | None = None) -> Iterator[None]:
        """A block for one thread at a time; the rest of the timeout is left for the lock on the file."""
        check_timeout(self._timeout)
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        patience = -1 if self._timeout is None else min(self._timeout, threading.TIMEOUT_MAX)
        if not self.lock.acquire(timeout=patience):
            if self._withdraw(ticket):
                raise BusyError(
                    f"{self._path} is being changed by another thread of this process and was not free within "
                    f"{self._timeout:.3g} seconds. Nothing was changed: try again."
                )
            self.lock.acquire()
        try:
            self._deadline = deadline
            yield
        finally:
            self._deadline = None
            self.lock.release()

    def time_left(self) -> float | None:
        """Return the seconds that the thread with the lock may still wait; None means without limit."""
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _withdraw(self, ticket: Ticket | None) -> bool:
        """Remove a ticket from the queue; False if a thread has begun to carry it out."""
        with self._list_lock:
            waited = ticket is None or ticket in self.waiting
            self.waiting = [t for t in self.waiting if t is not ticket]
        return waited
