"""A model kept in a file: every change is durable when the call returns, and many requests share one rewrite."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import check_request_id, make_receipt
from erasable.core.layout import digest_of
from erasable.core.selector import Decisions
from erasable.errors import (
    BusyError,
    ConfigurationError,
    InputError,
    InputTypeError,
    StoreError,
    UnknownOutcomeError,
)
from erasable.models.files import model_of, naming, refuse_odd_size, write
from erasable.models.model import Model
from erasable.models.reports import ForgetReport, LearnReport, VerifyReport, warn_of_emptied_classes
from erasable.models.shards import files_of, shards_of
from erasable.models.state import State
from erasable.operations.verify import code_in, verify_file
from erasable.store import PRIVATE, Fetch, Writer, check_mode, check_timeout, locked
from erasable.store import read as read_file

__all__ = ["ModelFile", "Request"]

#: From the model that a file holds, or None: rows to learn, and an unfitted estimator to start or to agree with.
Prepare = Callable[[Model | None], tuple[Iterable[Any], Any]]


@dataclass(frozen=True)
class Request:
    """Rows to forget: by their ids, by whose they are, or both; and what the receipt is to call the request.

    Examples
    --------
    >>> from erasable.operations.model_file import Request
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

    def __repr__(self) -> str:
        counts = ((self.ids, "ids"), (self.subjects, "subjects"))
        named = [f"{len(v) if hasattr(v, '__len__') else 'some'} {what}" for v, what in counts if v is not None]
        return f"Request({', '.join(named)})"


class ModelFile:
    """A model in a file, for processes that go on changing it: the model stays in memory between calls.

    Every change takes the file's lock, reads the file, loads what others wrote meanwhile, and returns only when the
    new file is durable and the old one erased. The lock is held for the change alone, so several processes can work on
    one file, and readers are never held up. Calls from several threads at the same time share one rewrite.

    Parameters
    ----------
    path : str or path
        The file. It must exist, except for ``learn`` with ``new``.
    like : estimator, optional
        As in ``erasable.load``.
    timeout : float, optional
        Seconds to wait for another process, or another thread of this one, that is changing the file; by default as
        long as it takes. Who asks for what another thread is carrying out already waits for the outcome.
    key : PrivateKey, optional
        Sign a receipt for every request with it; see ``erasable.audit.keys``.
    after_only : bool, default=False
        Leave the digest of the state before out of receipts: whoever holds the state after could test guesses of the
        forgotten rows against it.
    verify_first : bool, default=True
        With a key: before anything is written, verify the state that a receipt will speak of. One that does not verify
        is refused, and nothing is forgotten. This takes about as long as learning the core rows did, once for all
        requests that share a rewrite.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier, ModelFile
    >>> X, y = load_iris(return_X_y=True)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "iris.erasable")
    ...     ErasableClassifier(kappa=0.5).fit(X, y).save(path)
    ...     file = ModelFile(path)
    ...     report = file.forget(ids=[0, 50, 100])
    ...     reports = file.forget_together([{"ids": [1]}, {"ids": [2, 3]}])
    ...     file.verify().rows == reports[-1].rows_left == file.model.n_core_
    True
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        like: Any = None,
        timeout: float | None = None,
        key: PrivateKey | None = None,
        after_only: bool = False,
        verify_first: bool = True,
    ) -> None:
        self.path = os.fspath(path)
        self._like, self._timeout = like, timeout
        self._key, self._after_only, self._verify_first = key, after_only, verify_first
        self._cached: Model | None = None
        # SHA-256 of the file when it held the model in memory, and whether that was only the head of several files.
        self._seal, self._in_parts = "", False
        self._waiting: list[_Ticket] = []
        self._list_lock, self._turn = threading.Lock(), threading.Lock()
        self._deadline: float | None = None  # of the thread whose turn it is

    def __repr__(self) -> str:
        return f"ModelFile({self.path!r})"

    @property
    def model(self) -> Any:
        """The model as the file holds it now. A copy in memory: what is changed in it does not reach the file."""
        from erasable.estimators.files import load  # only here: files are changed without scikit-learn

        return load(self.path, like=self._like)

    def key_types(self) -> tuple[type | None, type | None]:
        """Of which types the ids and the subjects of the core rows are: int, str or bytes; None where there are none.

        What a person types in has to be one of these to be found.
        """
        with self._in_turn():
            if self._cached is None:
                with naming(self.path):
                    refuse_odd_size(self.path)
                    read_file(self.path, self._same_or_loaded, parts_of=shards_of)
            assert self._cached is not None
            return self._cached.core.id_type, self._cached.core.subject_type

    def is_done(self, request: Request, digest: str) -> bool:
        """Whether the file holds the state with this digest, and nothing that the request names is left in it."""
        with self._in_turn():
            with naming(self.path):
                model = read_file(self.path, self._same_or_loaded, parts_of=shards_of)
            return self._digest(model) == digest and not model.named(request.ids, request.subjects).found

    # -- changing ------------------------------------------------------------------------------------------------

    def forget(
        self, *, ids: Any = None, subjects: Any = None, request_id: str | None = None, digests: bool = False
    ) -> ForgetReport:
        """Rows stop existing for the model and leave the disk; durable on return.

        Parameters
        ----------
        ids, subjects : array-like, optional
            As in ``ErasableClassifier.forget``. Unknown ones are no error.
        request_id : str, optional
            What the receipt calls this request; no name of a person. By default a random one.
        digests : bool, default=False
            Compute the digests before and after also where no receipt is wanted.

        Raises
        ------
        StoreError
            When the file could not be replaced; it is then as it was, and nothing is forgotten.
        NotErasedError
            When the rows are forgotten, but the old file could not be erased: ask again.
        UnknownOutcomeError
            When it could not be found out, or not made to last, whether the rows are forgotten: ask again.

        Warns
        -----
        EmptiedClassWarning
            When the last core row of a class has left: after the file was replaced.
        """
        return self._join([Request(ids, subjects, request_id)], digests)[0]

    def forget_together(self, requests: Iterable[Any], *, digests: bool = False) -> list[ForgetReport]:
        """Many requests with one rewrite: all of them are durable on return, or none.

        Parameters
        ----------
        requests : iterable of Request, or of mappings with ``ids`` and ``subjects``
        digests : bool, default=False
            As in ``forget``.

        Returns
        -------
        list of ForgetReport
            One for each request. A row that several of them name counts for the first.
        """
        asked = [r if isinstance(r, Request) else _request(r) for r in requests]
        return self._join(asked, digests) if asked else []

    def learn(
        self,
        blocks: Iterable[Any],
        *,
        new: Any = None,
        allow_no_subject: bool = False,
        progress: Callable[[int], None] | None = None,
        mode: int = PRIVATE,
    ) -> LearnReport:
        """Learn blocks of rows one after the other, then write the file once: all of it, or nothing.

        The lock is held until all is learnt, so forgetting waits that long.

        Parameters
        ----------
        blocks : iterable of Table
            Anything with ``X``, ``y``, ``ids`` and ``subjects``. Only one is held at a time. It must not change the
            same file: that would wait for itself.
        new : estimator, optional
            An unfitted model to start with where the file does not exist; it is not changed, and needs ``horizon`` or
            ``threshold``, since the number of rows is not known when the first block comes. Without it a missing file
            is an error. Where the file exists, its model must have these parameters.
        allow_no_subject : bool, default=False
            As in ``ErasableClassifier.fit``.
        progress : callable, optional
            Called with the number of rows done.
        mode : int, default=0o600
            Permissions of a new file, as in ``save``; one that is there keeps its own.
        """
        if new is not None and getattr(new, "__sklearn_is_fitted__", lambda: True)():
            raise InputTypeError("new must be an unfitted model, such as ErasableClassifier(horizon=100_000).")
        return self.learn_prepared(
            lambda _: (blocks, new), allow_no_subject=allow_no_subject, progress=progress, mode=mode
        )

    def learn_prepared(
        self,
        prepare: Prepare,
        *,
        allow_no_subject: bool = False,
        progress: Callable[[int], None] | None = None,
        mode: int = PRIVATE,
    ) -> LearnReport:
        """``learn``, for rows that can only be read once it is known what the file holds.

        Parameters
        ----------
        prepare : callable
            Called under the lock with the model that the file holds, or None; gives blocks and, where the file does
            not exist, an unfitted estimator.
        allow_no_subject, progress, mode
            As in ``learn``.
        """
        from sklearn.base import clone

        from erasable.estimators.files import face_of  # learning validates rows as scikit-learn does

        check_mode(mode)
        with self._in_turn(), self._locked() as writer:
            model = self._current(writer) if writer.exists() else None
            blocks, new = prepare(model)
            if model is not None:
                face = face_of(model, self._like)
                _check_alike(new, face, self.path)
            elif new is not None:
                face = clone(new)  # the caller's own stays the caller's
            else:
                raise StoreError(f"{self.path} does not exist: check the path, or give a new model to start with.")
            self._cached = None  # until the file says the same as this model
            report = _learn_blocks(face, blocks, progress, allow_no_subject)
            self._write(writer, face.model_.snapshot(), mode)
            self._cached = face.model_
            return report

    # -- checking ------------------------------------------------------------------------------------------------

    def verify(self, *, progress: Callable[[int, int], None] | None = None) -> VerifyReport:
        """Recompute what the file holds from its own rows; see ``erasable.verify``."""
        return verify_file(self.path, like=self._like, progress=progress)

    # -- how -----------------------------------------------------------------------------------------------------

    def _join(self, requests: list[Request], digests: bool) -> list[ForgetReport]:
        """Wait in line with other threads; whoever is first does the work of all who wait."""
        ticket = _Ticket(requests, digests or self._key is not None)
        with self._list_lock:
            self._waiting.append(ticket)
        try:
            with self._in_turn(ticket):
                if not ticket.done:
                    with self._list_lock:
                        batch, self._waiting = self._waiting, []
                    self._forget_all(batch)
        except BaseException:
            self._take_back(ticket)  # nobody waits for the answer any more
            raise
        reports = ticket.result()
        for report in reports[:1]:  # those of one ticket share a rewrite
            warn_of_emptied_classes(report, stacklevel=4)
        return reports

    def _take_back(self, ticket: _Ticket | None) -> bool:
        """Whether the requests of a ticket can no longer be carried out; not so where a thread has begun to."""
        with self._list_lock:
            waited = ticket is None or ticket in self._waiting
            self._waiting = [t for t in self._waiting if t is not ticket]
        return waited

    def _forget_all(self, batch: list[_Ticket]) -> None:
        """Carry out what all of these ask for with one rewrite; whatever happens, each of them gets an answer."""
        try:
            with self._locked() as writer:
                model = self._current(writer)
                self._cached = None  # until the file says the same as this model
                digests = any(t.digests for t in batch)
                before = self._digest(model) if digests else None
                leaving: dict[Any, None] = {}
                found = [_found(model, t, leaving) for t in batch]
                _, emptied = model.remove(list(leaving))
                signing = self._key is not None and self._verify_first
                state = model.snapshot() if leaving or signing else None  # verified, written, signed and reported
                if signing:
                    model.verify(state=state)
                if leaving and state is not None:
                    self._write(writer, state)
                else:
                    writer.make_durable()
                self._cached = model
                after = before if not leaving or state is None else state.digest if digests else None
            for ticket, counts in zip(batch, found, strict=True):
                answer = (
                    counts if isinstance(counts, Exception) else self._reports(ticket, counts, before, after, emptied)
                )
                ticket.settle(answer)
        except Exception as error:
            for ticket in batch:
                ticket.settle(error)
        finally:  # an interrupt belongs to the thread that works; the others are told
            for ticket in batch:
                ticket.settle(
                    UnknownOutcomeError(
                        "the change was interrupted, and whether it was carried out is not known: ask again."
                    )
                )

    def _reports(
        self, ticket: _Ticket, counts: list[tuple[int, int, int]], before: str | None, after: str | None, emptied: int
    ) -> list[ForgetReport]:
        model = self._cached
        assert model is not None
        return [
            ForgetReport(
                asked,
                removed,
                len(model.core),
                absent,
                classes_emptied=emptied if removed else 0,
                digest=after if ticket.digests else None,
                digest_before=before if ticket.digests else None,
                receipt=self._receipt(request, before, after, model),
            )
            for request, (asked, removed, absent) in zip(ticket.requests, counts, strict=True)
        ]

    def _receipt(self, request: Request, before: str | None, after: str | None, model: Model) -> str | None:
        if self._key is None or after is None:
            return None
        return make_receipt(
            self._key,
            state_before=None if self._after_only else before,
            state_after=after,
            guarantee=" ".join(str(model.guarantee).split()),
            format_version=State.VERSION,
            requested_at=request.requested_at,
            request_id=request.request_id,
        )

    @contextmanager
    def _in_turn(self, ticket: _Ticket | None = None) -> Iterator[None]:
        """A block for one thread of this process at a time; what is left of the time to wait is for the file's lock."""
        check_timeout(self._timeout)
        deadline = None if self._timeout is None else time.monotonic() + self._timeout
        patience = -1 if self._timeout is None else min(self._timeout, threading.TIMEOUT_MAX)
        if not self._turn.acquire(timeout=patience):
            if self._take_back(ticket):
                raise BusyError(
                    f"{self.path} is being changed by another thread of this process and was not free within "
                    f"{self._timeout:.3g} seconds. Nothing was changed: try again."
                )
            self._turn.acquire()
        try:
            self._deadline = deadline
            yield
        finally:
            self._deadline = None
            self._turn.release()

    @contextmanager
    def _locked(self) -> Iterator[Writer]:
        left = None if self._deadline is None else max(0.0, self._deadline - time.monotonic())
        with locked(self.path, parts_of=shards_of, timeout=left) as writer:
            yield writer

    def _current(self, writer: Writer) -> Model:
        """The model that the file holds."""
        with naming(self.path):
            return writer.read(self._same_or_loaded)

    def _same_or_loaded(self, head: bytes, fetch: Fetch) -> Model:
        """The model in memory where these bytes, every one, are still those that it stands for; otherwise theirs."""
        seal, parts = digest_of([head]), shards_of(head)
        if self._cached is None or seal != self._seal:
            self._cached = model_of(head, fetch, code_in(self._like))
            self._seal, self._in_parts = seal, bool(parts)
        else:
            for name in parts:
                fetch(name)  # refused unless it has the bytes that the head names it by
        return self._cached

    def _digest(self, model: Model) -> str:
        """The digest of the state that was last read or written, in this call, under the lock."""
        return model.snapshot().digest if self._in_parts else self._seal

    def _write(self, writer: Writer, state: State, mode: int = PRIVATE) -> None:
        files = files_of(state)
        with undisturbed():
            write(writer, files, mode)
        self._seal, self._in_parts = digest_of(files.head) if files.parts else state.digest, bool(files.parts)


def _learn_blocks(
    face: Any, blocks: Iterable[Any], progress: Callable[[int], None] | None, allow_no_subject: bool
) -> LearnReport:
    rows, added, decisions = 0, 0, Decisions()
    for block in blocks:
        watch = None if progress is None else (lambda done, total, start=rows: progress(start + done))
        part = face.learn(
            block.X,
            block.y,
            ids=block.ids,
            subjects=block.subjects,
            streaming=True,
            allow_no_subject=allow_no_subject,
            progress=watch,
        )
        rows, added, decisions = rows + part.rows, added + part.core_rows_added, decisions + part.decisions
    if not rows:
        raise ConfigurationError("there is nothing to learn: no rows came.")
    return LearnReport(rows, added, face.n_core_, decisions)


@contextmanager
def undisturbed() -> Iterator[None]:
    """A block that Ctrl-C does not cut in two: it takes effect at the end. Only the main thread gets it anyway."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[tuple[Any, ...]] = []
    try:
        before = signal.signal(signal.SIGINT, lambda *arguments: pressed.append(arguments))
    except ValueError:  # an interpreter within another one
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.SIG_DFL if before is None else before)  # None: set by something else
        if pressed and callable(before):
            before(*pressed[0])


def _request(given: Any) -> Request:
    if isinstance(given, dict) and given and set(given) <= {"ids", "subjects", "request_id", "requested_at"}:
        return Request(**given)
    raise InputTypeError(
        "every request must be a Request, or a mapping with ids or subjects and, if need be, request_id, requested_at."
    )


def _found(model: Model, ticket: _Ticket, leaving: dict[Any, None]) -> list[tuple[int, int, int]] | Exception:
    """For each request how much it names, how many rows it removes, and how much is not stored; or why it cannot be.

    The rows join ``leaving``.
    """
    counts, rows = [], dict[Any, None]()
    try:
        for request in ticket.requests:
            asked = model.named(request.ids, request.subjects)
            fresh = [key for key in asked.found if key not in leaving and key not in rows]
            rows.update(dict.fromkeys(fresh))
            counts.append((asked.requested, len(fresh), asked.not_stored))
    except Exception as error:  # of this caller alone
        return error
    leaving.update(rows)
    return counts


def _check_alike(new: Any, face: Any, path: str) -> None:
    """Refuse to go on learning with another model than the caller has in mind."""
    if not hasattr(face, "partial_fit"):
        raise ConfigurationError("a model of this kind learns all its rows at once: fit it and save it.")
    if new is None:
        return
    if type(new) is not type(face):
        raise ConfigurationError(f"{path} holds a model of {type(face).__name__}, and new is {type(new).__name__}.")
    try:
        new.check_agrees(face.model_)
    except ConfigurationError as error:
        raise ConfigurationError(f"{path} holds a model with other parameters than new: {error}") from error


class _Ticket:
    """Requests of one caller, and what became of them."""

    def __init__(self, requests: list[Request], digests: bool) -> None:
        self.requests, self.digests = requests, digests
        self._outcome: list[ForgetReport] | BaseException | None = None

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
