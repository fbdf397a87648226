"""The erasure service as one object: what HTTP, a test or another program calls."""

from __future__ import annotations

import os
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar

from erasable.audit.keys import PrivateKey, PublicKey
from erasable.core.names import Steps, doubt, spelt
from erasable.errors import (
    BusyError,
    ConfigurationError,
    ConflictError,
    ErasableError,
    InputError,
    UnknownOutcomeError,
    UnknownRequestError,
)
from erasable.models.access import StoredRows
from erasable.models.files import checksum_at, shards_of
from erasable.models.reports import LearnReport
from erasable.service.beside import Beside, Here, Parcel
from erasable.service.entries import Entry, Kind, State
from erasable.service.health import Health
from erasable.service.held_files import PATIENCE, HeldFile, load_all, opened, read_predictor
from erasable.service.identities import Identity
from erasable.service.ledger import Ledger
from erasable.service.lineage import Erased
from erasable.service.purges import WatchedClock, elapsed
from erasable.service.questions import digest_in, stored_in, verified
from erasable.service.rounds import Rounds
from erasable.service.settings import Settings
from erasable.service.snapshots import Snapshot, Snapshots
from erasable.service.suppression import SuppressionList
from erasable.service.verifications import Verification, Verifications
from erasable.service.worker import Send, Worker
from erasable.store import doubt_about_blocks, locked

T = TypeVar("T")

_PURGES = 600.0  # seconds
_WRITER_NICENESS, _READER_NICENESS, _VERIFIER_NICENESS = 10, 10, 19
_SHORTEST_KEY = 16  # bytes


def _now() -> datetime:
    return datetime.now(UTC)


def _is_alive(*_: int) -> None:
    """How far something has come: whoever carries it out has not died."""


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
        At least 16 random bytes: seals the bodies of requests.
    settings : Settings, optional
    send : callable, optional
        Delivers callbacks: called with a url on an allowed host, and the entry. It must not follow redirects.
    suppression : SuppressionList, optional
        Takes those who were erased, so that ``learn`` passes over them.
    processes : bool, default=False
        Three processes beside this one, which stand back where processors are few: one changes models and has them in
        its memory, one reads what is to be learnt and what is asked of files, one verifies. Nothing here waits for
        the interpreter meanwhile. By default all happens here, which is as right and starts sooner.
    clock, elapsed, draw : callables, optional
        The time in UTC, seconds that only ever pass, and random names.

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
        clock: Callable[[], datetime] = _now,
        elapsed: Callable[[], float] = elapsed,
        draw: Callable[[], str] = lambda: secrets.token_hex(8),
    ) -> None:
        if not models:
            raise ConfigurationError("a service needs at least one model.")
        if len(operator_key) < _SHORTEST_KEY:
            raise ConfigurationError(f"the operator's key must have at least {_SHORTEST_KEY} bytes.")
        paths = {name: os.path.abspath(path) for name, path in models.items()}
        self._writer: Beside | Here = Here()
        self._reader: Beside | Here = Here()
        self._verifier: Beside | Here = Here()
        if processes:
            self._writer = Beside(_WRITER_NICENESS, (load_all, [*paths.values()]))
            self._reader, self._verifier = Beside(_READER_NICENESS), Beside(_VERIFIER_NICENESS)
        self._files = {
            name: HeldFile(path, self._writer, partial(self._announce, name)) for name, path in paths.items()
        }
        self._folder, self._signer, self._operator_key = os.path.abspath(folder), signer, operator_key
        self.settings = settings or Settings()
        self._send, self._suppression, self._clock, self._elapsed = send, suppression, clock, elapsed
        self._snapshots = Snapshots(self._files, draw)
        self._verifications = Verifications(clock, self._verifier)
        self._ledger: Ledger | None = None
        self._rounds: list[Rounds] = []
        self._doubts: tuple[str, ...] = ()
        self._resumed, self._open = 0, False
        self._starting = threading.Lock()

    def __enter__(self) -> ErasureService:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self, *, threads: bool = True) -> Health:
        """Recover what a crash left, load snapshots, resume requests, receipts and callbacks; then take requests.

        Without ``threads``, whoever calls sees to the rounds: ``service.worker.commit()`` and so on.

        Raises
        ------
        StoreError, StateFormatError
            When a model or the ledger cannot be read or written, or a journal is damaged or lacks entries;
            BusyError when another process has the ledger.
        ConfigurationError, InputError
            When the ledger knows of a suppression list and none is given, or keys are others.
        """
        with self._starting:
            if self._ledger is not None:
                raise BusyError("the service is running already.")
            try:
                self._recover()
                for process in (self._writer, self._reader, self._verifier):  # now that all can be read
                    process.begin()
                self._comparing.once()
            except BaseException:  # so that it can be tried again
                self._end_processes()
                ledger, self._ledger = self._ledger, None
                if ledger is not None:
                    ledger.close()
                raise
            if threads:
                for rounds in self._rounds:
                    rounds.start()
            self._open = True
        return self.health()

    def _recover(self) -> None:
        for file in self._files.values():
            with locked(file.path, parts_of=shards_of, timeout=PATIENCE):
                pass  # what an interrupted change left behind is erased
        self._snapshots.refresh(lambda file: read_predictor(file.path))  # sooner than the writer is there
        self._agreed_spelling()  # or nothing begins
        ledger = Ledger(self._folder, self._operator_key, self.settings, self._clock)
        self._ledger, self._resumed = ledger, ledger.waiting
        self._watched = WatchedClock(
            os.path.join(self._folder, "clock"),
            self._clock,
            self._elapsed,
            ledger.newest,
            trusted=self.settings.trust_clock,
        )
        if self._suppression is not None:
            self._suppression.read(upgrade=True)
        ledger.files.check_list(self._suppression)
        for name, file in self._files.items():
            ledger.files.found(name, checksum_at(file.path))
        places = {os.path.dirname(file.path): file.path for file in self._files.values()}
        doubts = map(doubt_about_blocks, [*places.values(), self._folder])
        self._doubts = tuple(dict.fromkeys(doubt for doubt in doubts if doubt is not None))
        self.worker = Worker(
            ledger,
            self._files,
            self._signer,
            self.settings,
            self._clock,
            self._snapshots,
            self._suppression,
            self._send,
            verify=partial(self._verifier, verified, progress=_is_alive),
            verify_in_turn=partial(self._writer, verified),  # nothing else is asked of it then
            wait=lambda: self._rounds[0].until_next(),
            passed=self._verifications.passed,
        )
        tick = self.settings.tick
        self._comparing = Rounds("compare", max(tick, 1.0), self._compare)
        self._rounds = [
            Rounds("commit", tick, self.worker.commit),
            Rounds("sign", max(tick, 1.0), self.worker.sign),
            Rounds("tell", max(tick, 1.0), self.worker.tell),
            self._comparing,
            Rounds("purge", _PURGES, self._purge_old),
        ]

    def _compare(self) -> None:
        self.worker.compare()
        self._agreed_spelling()  # other programs may have brought another schema

    def _agreed_spelling(self) -> dict[str, Steps]:
        """How names are normalised: as the settings and the schemas of the models declare it, which must agree."""
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
        """Take no more requests, carry out and sign for what was accepted, and end.

        What is left when the time is over goes on at the next start.
        """
        with self._starting:
            ledger, self._open = self._ledger, False
            if ledger is None:
                return
            until = time.monotonic() + timeout
            late = threading.Timer(timeout, self._end_processes)  # nobody waits for them any longer
            late.daemon = True
            late.start()
            running = [rounds for rounds in self._rounds if rounds.is_alive()]
            for rounds in running:
                rounds.end()
            for rounds in running:
                rounds.join(max(0.0, until - time.monotonic()))
            for rounds in running[:3]:
                if not rounds.is_alive() and time.monotonic() < until:
                    rounds.once()
            late.cancel()
            self._end_processes()
            with self.worker.turn():
                self._ledger = None
                ledger.close()

    def _end_processes(self) -> None:
        for process in (self._writer, self._reader, self._verifier):
            process.end()
        opened.cache_clear()  # what was carried out here left models in memory

    # -- requests ------------------------------------------------------------------------------------------------

    def identity(self, type: str, format: str, value: str) -> Identity:
        """An identity of a type that the settings name.

        Raises
        ------
        InputError
            When the type is not known, or hardly any row has such a name: it is empty, say, or has a space at one end.
        ConfigurationError
            When a model that came meanwhile normalises names in another way than the others or the settings.
        """
        role = self.settings.role_of(type)
        who = Identity(role, format, value, self._agreed_spelling().get(role, ()))
        if format == "raw":
            if (found := doubt(value, who.steps)) is not None:
                raise InputError(
                    f"the identity has {found}, and hardly any row has such a name: correct it, or send its SHA-256 "
                    "where the name is really so."
                )
            spelt(value, who.steps)
        return who

    def accept(
        self,
        request_id: str,
        kind: Kind,
        identities: Iterable[Identity],
        body: bytes,
        callbacks: Sequence[str] = (),
        controller: str = "",
    ) -> Entry:
        """See ``Ledger.accept``. Callbacks to hosts that are not allowed are refused with ``ConfigurationError``."""
        ledger = self._running()
        if not self._open:
            raise BusyError("the service is stopping and takes no more requests: try again later.")
        if not all(map(self.worker.is_allowed, callbacks)):
            raise ConfigurationError(
                "callbacks go only to hosts and ports that the operator allows (callback_hosts), by HTTPS."
            )
        return ledger.accept(request_id, kind, tuple(identities), body, callbacks, controller)

    def entry(self, request_id: str, controller: str = "", *, others: bool = True) -> Entry:
        """See ``Ledger.entry``."""
        return self._running().entry(request_id, controller, others=others)

    def entries(self, controller: str | None = None) -> list[Entry]:
        """All requests, or those of one controller, the oldest first."""
        return self._running().entries(controller)

    def cancel(self, request_id: str, controller: str = "", *, others: bool = True) -> Entry:
        """See ``Ledger.cancel``."""
        return self._running().cancel(request_id, controller, others=others)

    def receipts(self, request_id: str, controller: str = "", *, others: bool = True) -> dict[str, str] | None:
        """The receipts of a completed erasure by model; None while one is owed (``results_url`` answers 202)."""
        ledger = self._running()
        entry = ledger.entry(request_id, controller, others=others)
        if entry.state is not State.COMPLETED or entry.owes_receipts:
            return None
        texts = ((model, ledger.receipt(entry, model)) for model in entry.models)
        return {model: text for model, text in texts if text is not None}

    def stored_of(self, request_id: str, controller: str = "", *, others: bool = True) -> dict[str, StoredRows]:
        """The answer to a completed request for access, by model, as stored now; see ``Worker.asked_by``."""
        return self.look_up(self.worker.asked_by(self._running().entry(request_id, controller, others=others)))

    def look_up(self, who: Sequence[Identity]) -> dict[str, StoredRows]:
        """What is stored of somebody now, by model. For auditors alone."""
        return {
            name: self._read(partial(self._reader, stored_in, file.path, who)) for name, file in self._files.items()
        }

    def purge(self, before: datetime, by: str) -> int:
        """See ``Ledger.purge``; ``ConflictError`` where the clock may be wrong."""
        if (wrong := self._watched.doubt()) is not None:
            raise ConflictError(wrong)
        return self._running().purge(before, by, self._signer)

    def tombstones(self) -> list[str]:
        """See ``Ledger.tombstones``."""
        return self._running().tombstones()

    def _purge_old(self) -> None:
        if self.settings.keep_for is not None and self._watched.doubt() is None:
            self.purge(self._clock() - self.settings.keep_for, "(keep_for)")
        self._watched.note()

    # -- models --------------------------------------------------------------------------------------------------

    @property
    def models(self) -> tuple[str, ...]:
        """Names of the models."""
        return tuple(self._files)

    def snapshot(self, name: str) -> Snapshot:
        """What to predict with; costs nothing. ``UnknownRequestError`` where there is no such model."""
        return self._snapshots.of(name)

    def read(self, function: Callable[..., None], *given: Any, stop: Callable[[], None]) -> list[Parcel]:
        """What a function makes of what is given, read by another process and packed: blocks to be learnt.

        Parameters
        ----------
        function : callable
            Of a module, by its name; it hands each block, as a ``Parcel``, to the ``progress`` that it is given, or
            calls that without one where nothing is ready yet.
        given
            Such as can be pickled.
        stop : callable
            Called whenever that is; what it raises ends it.

        Raises
        ------
        BusyError
            When the process died, was asked once more from the beginning, and died again.
        """

        def blocks() -> list[Parcel]:
            found: list[Parcel] = []

            def take(*blocks: Parcel) -> None:
                stop()
                found.extend(blocks)

            self._reader(function, *given, progress=take, again=False)
            return found

        try:
            return blocks()
        except UnknownOutcomeError:  # the process died: what it had handed on comes again
            return self._read(blocks)

    def _read(self, question: Callable[[], T]) -> T:
        """What a question to the reader gives; where nobody answered, nothing was done."""
        try:
            return question()
        except UnknownOutcomeError as error:
            raise BusyError("the process that reads ended while it worked, and nothing was done: try again.") from error

    def learn(
        self, name: str, blocks: Iterable[Any], *, stop: Callable[[], None] = lambda: None, **options: Any
    ) -> LearnReport:
        """Learn blocks, all of which are read before the lock is taken; options as in ``ModelFile.learn``.

        Rows of people on the suppression list are passed over, and counted (``rows_suppressed``). Receipts that the
        model owes are signed first, so that none speaks of a state that has learnt more.

        ``stop`` is called again and again until the file is written; where it raises, the model is as it was.

        Raises
        ------
        UnknownOutcomeError
            When the process that learns died: whether it had written the file is to be looked up.
        """
        self._running()
        file, read = self._file(name), list(blocks)
        if self._suppression is not None:
            options["suppressed"] = self._suppression.rows_of
        with self.worker.learning(name, stop):
            report = file.learn(read, stop, **options)
        with suppress(ErasableError):  # it is learnt, whatever becomes of the files: the next round says what is wrong
            self._snapshots.refresh()
        return report

    def verify(self, name: str) -> Verification:
        """Begin to verify a model in the background, unless that is going on; see ``verification``."""
        return self._verifications.begin(name, self._file(name).path)

    def verification(self, name: str) -> Verification | None:
        """The last verification of a model, or that going on; None where there was none since the start."""
        self._file(name)
        return self._verifications.last(name)

    @property
    def receipt_key(self) -> PublicKey:
        """What receipts are checked with."""
        return self._signer.public

    def digest(self, name: str) -> str:
        """Digest of the state that the file holds now. For auditors alone."""
        return self._read(partial(self._reader, digest_in, self._file(name).path))

    def health(self) -> Health:
        """How it is."""
        ledger = self._ledger
        if ledger is None:
            return Health(False, "the service is not running.", self._doubts)
        problems = [rounds.problem for rounds in self._rounds if rounds.problem is not None]
        now, resumed, clock = self._clock(), self._resumed, self._watched.doubt()
        doubts = self._doubts if clock is None else (*self._doubts, clock)
        return Health.of(ledger, now, taking=self._open, problems=problems, doubts=doubts, resumed=resumed)

    def figures(self) -> dict[str, tuple[int, float]]:
        """How often each round was gone through since the start, and how many seconds that took."""
        return {rounds.what: (rounds.calls, rounds.seconds) for rounds in self._rounds}

    def _announce(self, name: str, before: str, after: str, *, erases: bool) -> None:
        listed = Erased.NOT_ALL_LISTED if self._suppression is None else Erased.ALL_LISTED
        self._running().files.announce(name, before, after, listed if erases else Erased.NOBODY)

    def _running(self) -> Ledger:
        if self._ledger is None:
            raise BusyError("the service is not running: start it.")
        return self._ledger

    def _file(self, name: str) -> HeldFile:
        if name not in self._files:
            raise UnknownRequestError("no model of this name is held here.")
        return self._files[name]
