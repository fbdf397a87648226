"""The erasure service as one object: what HTTP, a test or another program calls."""

from __future__ import annotations

import errno
import hmac
import os
import secrets
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from erasable.audit.keys import PrivateKey, PublicKey
from erasable.core.names import Steps, doubt, spelt
from erasable.errors import (
    BusyError,
    ChangedMeanwhileError,
    ConfigurationError,
    ConflictError,
    ErasableError,
    InputError,
    StoreError,
    UnknownOutcomeError,
    UnknownRequestError,
    UnsignedError,
)
from erasable.models.access import StoredRows
from erasable.models.files import locked_model
from erasable.models.reports import LearnReport, VerifyReport
from erasable.operations.evidence import evidence_page
from erasable.operations.verify import verify_file
from erasable.service.incidents import Incidents
from erasable.service.ledger import Ledger
from erasable.service.lineage import Erased
from erasable.service.model_files import (
    PATIENCE,
    READING,
    VERIFYING,
    Caller,
    ServedFile,
    Snapshot,
    Snapshots,
    call_here,
    counts_in,
    digest_in,
    load_all,
    opened,
    read_predictor,
    stored_in,
)
from erasable.service.processes import ChildProcess, Packed, import_all, within_memory
from erasable.service.purges import WatchedClock, elapsed
from erasable.service.requests import Case, Entry, Filing, Identity, Kind
from erasable.service.settings import Settings
from erasable.service.suppression import Suppressed, SuppressionList
from erasable.service.tokens import TokenWatch
from erasable.service.worker import Callbacks, PeriodicThread, Send, Worker
from erasable.store import HeldMark, Mark, check_room, doubt_about_blocks, in_words, set_mark

T = TypeVar("T")

_PURGES, _PROBES = 600.0, 2.0  # seconds
_SPARE = 2**16  # bytes next to a new copy of a model
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)
_SHORTEST_KEY = 16  # bytes


@dataclass(frozen=True)
class Health:
    """The state of the service, without identities and digests."""

    # It has recovered, a request would be accepted and carried out, and the last call of each thread succeeded.
    ready: bool
    problem: str | None = None  # why it is not ready: the error of the last write, commit or receipt; a full disk, say
    doubts: tuple[str, ...] = ()  # where overwritten bytes may stay on the medium
    waiting: int = 0  # requests that are not settled
    overdue: int = 0  # those of them that are past their expected completion
    receipts_owed: int = 0
    oldest_receipt_seconds: float = 0.0  # for which the oldest of these has been owed
    callbacks_owed: int = 0
    resumed: int = 0  # requests found at the start that an earlier run had accepted and not completed
    anchor: str = ""  # the position of the ledger: for the setting of that name at a later start


@dataclass(frozen=True)
class Verification:
    """A verification, running or ended."""

    model: str
    started: datetime
    ended: datetime | None = None
    done: int = 0  # rows recomputed so far
    total: int = 0
    report: VerifyReport | None = None  # if it passed; it has a digest, so it is for auditors alone
    problem: str | None = None  # if it failed


class ErasureService:
    """Several model files, the requests that concern them, and the one thread that changes them.

    Parameters
    ----------
    models : mapping of str to path
        Model files by name; each must exist.
    folder : str or path
        The folder of the ledger, for one process at a time.
    signer : PrivateKey
        Signs receipts.
    operator_key : bytes
        At least 16 random bytes: seals the bodies of requests.
    settings : Settings, optional
    send : callable, optional
        Delivers callbacks: called with a URL on an allowed host, and the entry. It must not follow redirects.
    suppression : SuppressionList, optional
        Records the people who were erased, so that ``learn`` passes over their rows.
    processes : bool, default=False
        Use three child processes with a low priority: one changes models and keeps them in its memory, one reads
        tables and files, one verifies. Predictions then do not wait for them. By default all happens in this process,
        which gives the same results and starts sooner.
    tokens : str or path, optional
        The file of tokens: those that are made and revoked are events of the audit trail.
    managed_at : str, optional
        The address of this service. If it is given, the models are marked while the service runs: other programs then
        refuse to change them and name the command that files a request. A second service does not start.
    clock, elapsed, draw : callables, optional
        The time in UTC, a monotonic time in seconds, and random versions of snapshots.

    Examples
    --------
    >>> import pathlib, tempfile, uuid
    >>> from sklearn.datasets import load_iris
    >>> from erasable import ErasableClassifier
    >>> from erasable.audit.keys import new_key
    >>> from erasable.audit.receipts import check_receipt
    >>> from erasable.service.service import ErasureService
    >>> X, y = load_iris(return_X_y=True)
    >>> people = [f"person-{i % 50}" for i in range(150)]
    >>> key, request = new_key(), str(uuid.uuid4())
    >>> with tempfile.TemporaryDirectory() as home:
    ...     path = pathlib.Path(home, "iris.erasable")
    ...     ErasableClassifier().fit(X, y, subjects=people).save(path)
    ...     with ErasureService({"iris": path}, home + "/ledger", signer=key, operator_key=bytes(16)) as service:
    ...         who = service.identity("controller_customer_id", "raw", "person-7")
    ...         entry = service.accept(request, "erasure", [who], b"the body of the request")
    ...     with ErasureService({"iris": path}, home + "/ledger", signer=key, operator_key=bytes(16)) as service:
    ...         receipts = service.receipts(request)
    >>> str(entry.state), check_receipt(receipts["iris"], key.public).request_id == request
    ('pending', True)
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
        suppression: SuppressionList | None = None,
        processes: bool = False,
        tokens: str | os.PathLike[str] | None = None,
        managed_at: str | None = None,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        elapsed: Callable[[], float] = elapsed,
        draw: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        if not models:
            raise ConfigurationError("a service needs at least one model.")
        if len(operator_key) < _SHORTEST_KEY:
            raise ConfigurationError(f"the operator's key must have at least {_SHORTEST_KEY} bytes.")
        paths = {name: os.path.abspath(path) for name, path in models.items()}
        self._managed_at, self._marks = managed_at, dict[str, HeldMark]()  # by the path of the model
        self._mark_id = None if managed_at is None else secrets.token_hex(8)
        self._writer: Caller = call_here
        self._reader: Caller = call_here
        self._verifier: Caller = call_here
        self._processes: list[ChildProcess] = []
        if processes:
            niceness = (settings or Settings()).niceness
            writer = ChildProcess(niceness, (load_all, [(path, self._mark_id) for path in paths.values()]))
            reader, verifier = (ChildProcess(niceness, (import_all, *names)) for names in (READING, VERIFYING))
            self._writer, self._reader, self._verifier = writer, reader, verifier
            self._processes = [writer, reader, verifier]
        self._files = {
            name: ServedFile(path, self._writer, self._verifier, partial(self._announce, name), self._mark_id)
            for name, path in paths.items()
        }
        self._folder, self._signer, self._operator_key = os.path.abspath(folder), signer, operator_key
        self.settings = settings or Settings()
        self._send, self._suppression, self._clock, self._elapsed = send, suppression, clock, elapsed
        self._snapshots = Snapshots(self._files, draw)
        self._token_watch = None if tokens is None else TokenWatch(tokens, os.path.join(self._folder, "tokens-noted"))
        self.incidents = Incidents(lambda events: self.ledger.note_each(events), clock, elapsed)
        self._verifications: dict[str, Verification] = {}
        self._verifying = threading.Lock()  # guards the mapping
        self._ledger: Ledger | None = None
        self._threads: list[PeriodicThread] = []
        self._doubts: tuple[str, ...] = ()
        self._old_bytes = in_words(None)
        self._no_room: str | None = None  # why a model could not be rewritten now
        self._resumed, self._open = 0, False
        self._starting = threading.Lock()

    def __enter__(self) -> ErasureService:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # -- start and stop ------------------------------------------------------------------------------------------

    def start(self, *, threads: bool = True) -> Health:
        """Recover after a crash, load snapshots, resume requests, receipts and callbacks, then accept requests.

        Without ``threads`` the caller does the work: ``service.worker.commit()`` and so on.

        Raises ``StoreError`` or ``StateFormatError`` if a model or the ledger cannot be read or written, or a journal
        is damaged; ``BusyError`` if another process has the ledger; ``ConfigurationError`` or ``InputError`` if the
        ledger knows of a suppression list and none is given, or keys are others.
        """
        with self._starting:
            if self._ledger is not None:
                raise BusyError("the service is running already.")
            try:
                self._recover()
                for process in self._processes:  # now that all files can be read
                    process.begin()
                self._comparing.once()
            except BaseException:  # so that the start can be repeated
                self._end_processes()
                ledger, self._ledger = self._ledger, None
                if ledger is not None:
                    ledger.close()
                self._remove_marks()
                raise
            if threads:
                for thread in self._threads:
                    thread.start()
            self._open = True
        return self.health()

    def _recover(self) -> None:
        try:
            self._set_marks()
        except StoreError as error:
            if error.errno not in _NO_ROOM:
                raise  # with a full disk it predicts all the same, and ``_probe`` tries again
        for file in self._files.values():
            with locked_model(file.path, PATIENCE, managed_as=self._mark_id):
                pass  # taking the lock erases what an interrupted change or a renamed model left behind
        self._snapshots.refresh(lambda file: read_predictor(file.path))  # the writer has not started yet
        self._agreed_spelling()  # raises if the models contradict each other
        ledger = Ledger(self._folder, self._operator_key, self.settings, self._clock, elapsed=self._elapsed)
        self._ledger, self._resumed = ledger, ledger.waiting
        for what, stated in (("vouch", self.settings.vouch), ("trust-clock", self.settings.trust_clock)):
            if stated:  # before it has an effect
                ledger.note(what, "(settings)")
        clock_file, trusted = os.path.join(self._folder, "clock"), self.settings.trust_clock
        self._watched = WatchedClock(clock_file, self._clock, self._elapsed, ledger.newest, trusted=trusted)
        if self._suppression is not None:
            self._suppression.read(upgrade=True)
        ledger.files.check_list(self._suppression)
        for name, file in self._files.items():
            ledger.files.found(name, file.checksum())
        folders = {os.path.dirname(file.path): file.path for file in self._files.values()}
        doubts = [(path, doubt_about_blocks(path)) for path in (*folders.values(), self._folder)]
        self._doubts = tuple(dict.fromkeys(doubt.about(path) for path, doubt in doubts if doubt is not None))
        self._old_bytes = in_words(*(doubt for _, doubt in doubts))
        self.worker = Worker(
            ledger,
            self._files,
            self._signer,
            self.settings,
            self._clock,
            self._snapshots.refresh,
            self._suppression,
            wait=lambda: self._threads[0].until_next(),
            passed=self._note_passed,
            elapsed=self._elapsed,
        )
        self.callbacks = Callbacks(ledger, self.settings, self._send, self._elapsed)
        tick = self.settings.tick
        self._comparing = PeriodicThread("compare", max(tick, 1.0), self._compare)
        self._threads = [
            PeriodicThread("commit", tick, self.worker.commit),
            PeriodicThread("sign", max(tick, 1.0), self.worker.sign),
            PeriodicThread("tell", max(tick, 1.0), self.callbacks.tell),
            self._comparing,
            PeriodicThread("purge", _PURGES, self._purge_old),
            PeriodicThread("note", max(tick, 1.0), self.note_incidents),
            PeriodicThread("probe", _PROBES, self._probe),
        ]
        self._probe()

    def _probe(self) -> None:
        """Find out whether a request would be accepted and carried out. It never raises: it is not to become rarer."""
        self.ledger.probe()
        problem = None
        try:
            for file in self._files.values():
                check_room(os.path.dirname(file.path), file.size() + _SPARE)
            self._set_marks()
        except StoreError as error:
            problem = str(error)
        self._no_room = problem  # at once, so that no answer in between says that it is ready

    def _compare(self) -> None:
        self.worker.compare()
        self._agreed_spelling()  # another program may have written a file with another schema

    def _agreed_spelling(self) -> dict[str, Steps]:
        """How names are normalised, as the settings and the schemas of the models declare it; they must agree."""
        agreed = dict(self.settings.identity)
        for name in self._files:
            for role, steps in self._snapshots.of(name).model.spelling.items():
                if agreed.setdefault(role, steps) != steps:
                    raise ConfigurationError(
                        f"the schema of {name} normalises {role}s by {', '.join(steps)}, and the setting identity or "
                        f"another model by {', '.join(agreed[role])}: make them agree, or serve the models apart."
                    )
        return agreed

    def stop(self, timeout: float = 30.0) -> None:
        """Accept no more requests, carry out and sign for those that were accepted, and end.

        What is left after the timeout goes on at the next start.
        """
        with self._starting:
            ledger, self._open = self._ledger, False
            if ledger is None:
                return
            until = time.monotonic() + timeout
            late = threading.Timer(timeout, self._end_processes)  # calls that take longer are cut short
            late.daemon = True
            late.start()
            running = [thread for thread in self._threads if thread.is_alive()]
            for thread in running:
                thread.end()
            for thread in running:
                thread.join(max(0.0, until - time.monotonic()))
            for thread in running[:3]:  # commit, sign, tell
                if not thread.is_alive() and time.monotonic() < until:
                    thread.once()
            late.cancel()
            self._end_processes()
            with suppress(ErasableError):
                self.incidents.flush(at_once=True)
            with self.worker.changing():
                self._ledger = None
                ledger.close()
            self._remove_marks()

    def _set_marks(self) -> None:
        """Mark the models that are not marked, so that other programs ask this service; their changes go on."""
        if self._managed_at is None or self._mark_id is None:
            return
        command = f"erasable request --url {self._managed_at} --token-file TOKEN --file LIST"
        mark = Mark("erasable serve", self._managed_at, command, self._mark_id)
        for file in self._files.values():
            if file.path not in self._marks:
                self._marks[file.path] = set_mark(file.path, mark)

    def _remove_marks(self) -> None:
        while self._marks:
            self._marks.popitem()[1].remove()

    def _end_processes(self) -> None:
        for process in self._processes:
            process.end()
        opened.cache_clear()  # models that calls in this process left in memory

    # -- requests ------------------------------------------------------------------------------------------------

    @property
    def ledger(self) -> Ledger:
        """The requests and their receipts; ``BusyError`` if the service is not running."""
        if self._ledger is None:
            raise BusyError("the service is not running: start it.")
        return self._ledger

    def identity(self, type: str, format: str, value: str) -> Identity:
        """An identity of a type that the settings name; see ``identities``."""
        return self.identities(type, [value], format)[0]

    def identities(self, type: str, values: Iterable[str], format: str = "raw") -> list[Identity]:
        """Identities of a type that the settings name.

        Raises ``InputError`` if the type is unknown, or hardly any row has such a name: it is empty, say, or ends with
        a space; ``ConfigurationError`` if models normalise names in different ways.
        """
        role = self.settings.identity_types.get(type)
        if role is None:
            known = ", ".join(sorted(self.settings.identity_types))
            raise InputError(f"this type of identity is not accepted: use one of {known}.")
        steps = self._agreed_spelling().get(role, ())
        identities = [Identity(role, format, value, steps) for value in values]
        for number, who in enumerate(identities if format == "raw" else (), start=1):
            if (found := doubt(who.value, steps)) is not None:
                which = "the identity" if len(identities) == 1 else f"identity {number:,} of {len(identities):,}"
                raise InputError(
                    f"{which} has {found}, and hardly any row has such a name: correct it, or send its SHA-256 "
                    "where the name is really so."
                )
            spelt(who.value, steps)
        return identities

    def id_of(self, controller: str, key: str) -> str:
        """The id of the request that a controller files under a key of its own choice: always the same."""
        drawn = hmac.digest(self._operator_key, f"the request {controller}\n{key}".encode(), "sha256")
        return str(uuid.UUID(bytes=drawn[:16], version=4))

    def accept(
        self,
        request_id: str,
        kind: Kind,
        identities: Iterable[Identity],
        body: bytes,
        callbacks: Sequence[str] = (),
        controller: str = "",
        case: Case | None = None,
    ) -> Entry:
        """See ``accept_each``, for one request."""
        given = request_id, kind, tuple(identities), body, callbacks, controller, case or Case()
        return self.accept_each([Filing(*given)])[0]

    def accept_each(self, filings: Sequence[Filing]) -> list[Entry]:
        """See ``Ledger.accept_each``; ``ConfigurationError`` for callbacks to hosts that are not allowed."""
        ledger = self.ledger
        if not self._open:
            raise BusyError("the service is stopping and accepts no more requests: try again later.")
        if not all(self.callbacks.is_allowed(url) for filing in filings for url in filing.callbacks):
            raise ConfigurationError(
                "callbacks go only to hosts and ports that the operator allows (callback_hosts), by HTTPS."
            )
        return ledger.accept_each(filings)

    def note(self, what: str, by: str, request_id: str = "", model: str = "") -> None:
        """See ``Ledger.note``: call it before a token gets what it asked for."""
        self.ledger.note(what, by, request_id.lower(), model)  # pages take ids in any case

    def note_or_count(self, what: str, by: str) -> None:
        """Note an event that must not be refused: if it cannot be written, it is counted and written later."""
        try:
            self.note(what, by)
        except StoreError:
            self.incidents.add(what, by)

    def note_incidents(self) -> None:
        """Write what was counted, and which tokens were made and revoked since the last call."""
        self.incidents.flush()
        if self._token_watch is not None:
            self._token_watch.look(self.note)

    def receipts(self, request_id: str, controller: str = "", others: bool = True) -> dict[str, str] | None:
        """See ``Ledger.receipts``; a request as in ``Ledger.entry``."""
        return self.ledger.receipts(self.ledger.entry(request_id, controller, others))

    def stored_of(self, request_id: str, controller: str = "", others: bool = True) -> dict[str, StoredRows]:
        """The answer to a completed request for access, by model, as stored now; see ``Worker.identities_of``."""
        return self.look_up(self.worker.identities_of(self.ledger.entry(request_id, controller, others)))

    def look_up(self, who: Sequence[Identity]) -> dict[str, StoredRows]:
        """The stored rows of these identities now, by model. For auditors alone."""
        return {
            name: self._read(partial(self._reader, stored_in, file.path, who)) for name, file in self._files.items()
        }

    def count_stored(self, who: Sequence[Identity]) -> dict[str, list[int]]:
        """How many rows each model stores of each of these identities now. For auditors alone."""
        return {
            name: self._read(partial(self._reader, counts_in, file.path, who)) for name, file in self._files.items()
        }

    def purge(self, before: datetime, by: str) -> int:
        """See ``Ledger.purge``; ``ConflictError`` if the clock may be wrong."""
        if (wrong := self._watched.doubt()) is not None:
            raise ConflictError(wrong)
        with self.worker.changing():
            return self.ledger.purge(before, by, self._signer)

    def _purge_old(self) -> None:
        if self.settings.keep_for is not None and self._watched.doubt() is None:
            self.purge(self._clock() - self.settings.keep_for, "(keep_for)")
        self._watched.note()
        self.ledger.save_index()

    # -- models --------------------------------------------------------------------------------------------------

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self._files)

    def snapshot(self, name: str) -> Snapshot:
        """The newest snapshot of a model, at no cost. ``UnknownRequestError`` for an unknown model."""
        return self._snapshots.of(name)

    def read(
        self, function: Callable[..., None], *given: Any, stop: Callable[[], None], memory: int | None = None
    ) -> list[Packed]:
        """The blocks that a function reads in the reading process, packed for ``learn``.

        With ``memory``, that process may take so many bytes more meanwhile.

        The function passes each block, as a ``Packed``, to the ``progress`` that it is given, and calls that without
        one as a sign of life; ``stop`` is called with each of these, and may raise. Raises ``BusyError`` if the process
        died twice.
        """

        def blocks() -> list[Packed]:
            found: list[Packed] = []

            def take(*blocks: Packed) -> None:
                stop()
                found.extend(blocks)

            call = (function, *given)
            if memory is not None and self._processes:
                call = (within_memory, memory, *call)
            self._reader(*call, progress=take, again=False)
            return found

        try:
            return blocks()
        except UnknownOutcomeError:  # the process died: the blocks that it had passed on come again
            return self._read(blocks)

    def _read(self, question: Callable[[], T]) -> T:
        """The answer of the reading process; if it died, nothing was changed."""
        try:
            return question()
        except UnknownOutcomeError as error:
            raise BusyError("the process that reads ended while it worked, and nothing was done: try again.") from error

    def learn(
        self, name: str, blocks: Iterable[Any], *, stop: Callable[[], None] = lambda: None, **options: Any
    ) -> LearnReport:
        """Learn blocks, all of which are read before the lock is taken; options as in ``ModelFile.learn``.

        Rows of people on the suppression list are passed over and counted (``rows_suppressed``). Rows of people whose
        erasure has no receipt yet are learnt once it is signed. ``stop`` is called repeatedly until the file is
        written; if it raises, the model is as it was.

        Raises ``UnknownOutcomeError`` if the process that learns died: the file may or may not have been written.
        """
        self.ledger  # noqa: B018 - raises if the service is not running
        file, read = self._file(name), list(blocks)
        while True:
            try:
                with self.worker.learning(name, stop) as unsigned:
                    either = unsigned is not None or self._suppression is not None
                    passed_over = Suppressed(self._suppression, unsigned) if either else None
                    report = file.learn([*read], stop, suppressed=passed_over, **options)
                break
            except UnsignedError:
                self.worker.sign_for(name, stop)
        with suppress(ErasableError):  # the rows are learnt; the next round reports problems with other files
            self._snapshots.refresh()
        return report

    def verify(self, name: str) -> Verification:
        """Start to verify a model in the background, unless that is running; see ``verification``."""
        path = self._file(name).path
        with self._verifying:
            last = self._verifications.get(name)
            if last is not None and last.ended is None:
                return last
            self._verifications[name] = begun = Verification(name, self._clock())
            threading.Thread(target=self._verify, args=(name, path), name="erasable-verify", daemon=True).start()
            return begun

    def _verify(self, name: str, path: str) -> None:
        def note(**changes: Any) -> None:
            self._verifications[name] = replace(self._verifications[name], **changes)

        report, problem = None, None
        try:
            report = self._verifier(verify_file, path, progress=lambda done, total: note(done=done, total=total))
        except ErasableError as error:
            problem = str(error)
        except Exception as error:  # its text may name somebody
            problem = type(error).__name__
        note(ended=self._clock(), report=report, problem=problem)

    def _note_passed(self, name: str, started: datetime, report: VerifyReport) -> None:
        """Note a verification that was done for a receipt, unless another one is running."""
        with self._verifying:
            last = self._verifications.get(name)
            if last is None or last.ended is not None:
                rows = report.core_rows
                self._verifications[name] = Verification(name, started, self._clock(), rows, rows, report)

    def verification(self, name: str) -> Verification | None:
        """The last verification of a model, or the one that is running; None if there was none since the start."""
        self._file(name)
        return self._verifications.get(name)

    def evidence(self, name: str, receipts: Sequence[str]) -> str | None:
        """A page about a model, with these receipts; None if its state now was not verified. For auditors alone."""
        file, found = self._file(name), self.verification(name)
        if found is None or found.report is None:
            return None
        given = file.path, name, receipts, self.receipt_key, found.report
        try:
            return self._read(partial(self._reader, evidence_page, *given))
        except ChangedMeanwhileError:
            return None

    @property
    def receipt_key(self) -> PublicKey:
        """The key that checks receipts."""
        return self._signer.public

    def digest(self, name: str) -> str:
        """Digest of the state that the file holds now. For auditors alone."""
        return self._read(partial(self._reader, digest_in, self._file(name).path))

    def health(self) -> Health:
        """The state of the service."""
        ledger = self._ledger
        if ledger is None:
            return Health(False, "the service is not running.", self._doubts)
        states = ledger.problem, self._no_room, *(thread.problem for thread in self._threads)
        problems = [problem for problem in states if problem is not None]
        try:
            os.close(os.open(os.devnull, os.O_RDONLY))
        except OSError:  # threads that need no file succeed all the same
            problems.append("no file can be opened: too many files and connections are open. Raise the limit of them.")
        debts, clock = ledger.debts, self._watched.doubt()
        if debts.oldest_receipt_seconds > self.settings.receipts_within.total_seconds():
            problems.append(
                f"the oldest receipt has been owed for {debts.oldest_receipt_seconds:,.0f} seconds, longer than "
                "receipts_within: give the service more time of the processor, or lower its niceness."
            )
        return Health(
            ready=self._open and not problems,
            problem=problems[0] if problems else None,
            doubts=self._doubts if clock is None else (*self._doubts, clock),
            waiting=ledger.waiting,
            overdue=ledger.overdue(self._clock()),
            receipts_owed=debts.receipts,
            oldest_receipt_seconds=round(debts.oldest_receipt_seconds, 1),
            callbacks_owed=debts.callbacks,
            resumed=self._resumed,
            anchor=ledger.position,
        )

    @property
    def old_bytes(self) -> str:
        """What is known of bytes of old files, of models and of the ledger, on the medium. It names no path."""
        return self._old_bytes

    def _announce(self, name: str, before: str, after: str, *, erases: bool) -> None:
        listed = Erased.NOT_ALL_LISTED if self._suppression is None else Erased.ALL_LISTED
        self.ledger.files.announce(name, before, after, listed if erases else Erased.NOBODY)

    def _file(self, name: str) -> ServedFile:
        if name not in self._files:
            raise UnknownRequestError("no model of this name is served: /v1/state lists the models.")
        return self._files[name]
