"""The one writer: it carries out accepted requests in all models at once and signs for them; callbacks report them.

Each of :meth:`Worker.commit`, :meth:`Worker.sign`, :meth:`Worker.compare` and :meth:`Callbacks.tell` can be repeated
after a crash at any time. A :class:`PeriodicThread` of the service calls each of them; tests call them directly.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol
from urllib.parse import urlsplit

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import LONGEST_MODEL, Receipt, make_receipt
from erasable.errors import ConfigurationError, ErasableError, UnknownRequestError, VerificationError
from erasable.models.reports import VerifyReport
from erasable.operations.requests import Request
from erasable.service.ledger import Ledger
from erasable.service.lineage import Erased, Origin
from erasable.service.model_files import VerifiedState
from erasable.service.purges import elapsed
from erasable.service.requests import Entry, Erasure, Identity, People, State
from erasable.service.settings import Settings
from erasable.service.suppression import ListedPeople, SuppressionList

#: Reports the outcome of a request to one callback URL; whatever it raises is tried again later.
Send = Callable[[str, Entry], None]

_BACK = (
    "{name} stores rows again that {back} completed requests named: another program learnt them, or restored an "
    "older file. No receipt is signed for these until the rows are forgotten: file requests again, or replay a list."
)
_REPLACED = (
    "{name} is not the file that was last committed here: another program wrote it since, or restored an older one. No "
    "receipt is signed for {doubtful} requests that an earlier run completed. If nobody was brought back, say so once "
    "with the setting vouch; otherwise file requests for them again first."
)
_FOREIGN = (
    "{name} is not the file that the service left: another program wrote it or restored an older one, so people who "
    "were erased may be stored again. Put the newest file back; or make sure that nobody is back, and start once with "
    "the setting vouch."
)
_TURN, _PAUSE = 0.001, 0.0005  # seconds of signing, and then of a pause, in which predictions go on
_TOGETHER = 500  # receipts that are made durable together; a model that owes thousands hands them out as it goes
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 3600.0  # seconds


class File(Protocol):
    """The part of ``ServedFile`` that a worker needs."""

    def forget_together(self, requests: list[Request], /) -> object:
        """Forget rows; durable on return."""

    def verify(self, named: Sequence[Sequence[Identity]], listed: SuppressionList | None, /) -> VerifiedState:
        """Verify the file."""

    def checksum(self) -> str | None:
        """Checksum of the model in the file."""


class Worker:
    """Carries out the requests of a ledger.

    ``refresh`` loads new snapshots of changed files. ``wait`` is called when an erasure is durable in all models,
    before it is completed; it returns at a time that tells nothing of how long the erasure took, which depends on
    whether anybody was stored. ``passed`` is called for every verified state with its model, the time when that began,
    and the report.
    """

    def __init__(
        self,
        ledger: Ledger,
        files: Mapping[str, File],
        signer: PrivateKey,
        settings: Settings,
        clock: Callable[[], datetime],
        refresh: Callable[[], object],
        suppression: SuppressionList | None = None,
        wait: Callable[[], object] = lambda: None,
        passed: Callable[[str, datetime, VerifyReport], object] = lambda *_: None,
        elapsed: Callable[[], float] = elapsed,
    ) -> None:
        self._ledger, self._files, self._signer, self._settings = ledger, files, signer, settings
        self._clock, self._refresh, self._suppression = clock, refresh, suppression
        self._wait, self._passed, self._elapsed = wait, passed, elapsed
        self._listed = copy(suppression)  # all who were erased by earlier runs, without erasures in progress
        self._list_found = [0, ""] if suppression is None else suppression.position
        self._list_is_ahead = suppression is not None and self._list_found != ledger.files.list_position
        self._access: dict[str, tuple[float, People]] = {}  # with the end of each, by ``elapsed``
        self._unsigned: dict[str, People] = {}  # of erasures that owe receipts; in memory only
        self._failed: set[str] = set()  # models that could not sign the last time
        self._replayed: dict[str, str] = {}  # for foreign files, the checksum after the list was replayed
        self.changing, self._signing = FairLock(), FairLock()  # held while models change, and while receipts are signed

    def commit(self) -> int:
        """Carry out all open requests, with one rewrite of each model; returns how many were completed.

        Every model is rewritten, whether it stored a named person or not. If one fails, the next round repeats all of
        them, which changes nothing in those that succeeded. On ``StoreError`` a model or the ledger could not be
        written: accepted requests are in progress.
        """
        with self.changing():
            now, passed = self._clock(), self._elapsed()
            self._access = {name: held for name, held in self._access.items() if held[0] > passed}
            work = self._ledger.begin()
            try:
                named = People(who for entry, identities in work if entry.kind == "erasure" for who in identities)
                if named:
                    self._forget(named, now)
            except BaseException:
                self._ledger.complete()  # cancelled requests do not wait for it
                raise
            for entry, identities in work:
                if entry.kind == "access":
                    self._access[entry.key] = passed + self._settings.access_for.total_seconds(), identities
                else:
                    self._unsigned[entry.key] = identities
            self._ledger.complete([entry.key for entry, _ in work], tuple(self._files), self._suppression)
        return len(work)

    def _forget(self, named: People, now: datetime) -> None:
        if self._suppression is not None:
            self._suppression.add(named, now)
        for file in self._files.values():
            file.forget_together([Erasure(identities=named)])
        self._refresh()  # no prediction uses rows of an erasure that is completed
        self._wait()

    def compare(self) -> None:
        """Load files that other programs wrote, and compare each file with the last one that the service wrote.

        A foreign file is rewritten without everybody on the suppression list, if there is one. That is enough if all
        who were ever erased are on it; otherwise the operator has to vouch for the file, and ``VerificationError`` is
        raised. If the list has come further than the ledger knows, the ledger may be an older copy: every file is
        rewritten.
        """
        problems: list[ErasableError] = []
        try:
            self._refresh()
        except ErasableError as error:
            problems.append(error)
        for name, file in self._files.items():
            try:
                if self._list_is_ahead or self._ledger.files.origin(name, file.checksum()) is not Origin.OURS:
                    with self.changing():
                        self._judge(name, file)
            except ErasableError as error:
                problems.append(error)
        if problems:
            raise problems[0]
        if self._list_is_ahead:
            self._ledger.files.put_list(self._list_found)
            self._list_is_ahead = False

    def _judge(self, name: str, file: File) -> None:
        """Replay the list on a file that is foreign or new, and adopt it or raise."""
        found = file.checksum()
        origin = self._ledger.files.origin(name, found)
        if found is None or (origin is Origin.OURS and not self._list_is_ahead):
            return
        listed = self._suppression is not None
        if listed and self._replayed.get(name) != found:
            file.forget_together([ListedPeople(listed=self._suppression)])
            self._refresh()
            if (found := file.checksum()) is None or not self._ledger.files.is_ours(name, found):
                raise VerificationError(_FOREIGN.format(name=name))  # another program wrote it once more
            self._replayed[name] = found
        covered = listed and self._ledger.files.erased is not Erased.NOT_ALL_LISTED
        if not (covered or origin is not Origin.FOREIGN or self._settings.vouch):
            raise VerificationError(_FOREIGN.format(name=name))
        if origin is not Origin.OURS:
            self._ledger.files.adopt(name, found)

    @contextmanager
    def learning(self, name: str, stop: Callable[[], None]) -> Iterator[SuppressionList | None]:
        """A block in which nothing else changes models; with the people for whom the model still has to sign.

        It must not learn their rows: a receipt is signed only for a state without them. Where an earlier run has
        erased people who are not known any more, or the model could not sign, receipts are signed first, with one
        verification.
        ``stop`` is called repeatedly while it waits, and may raise.
        """
        owed = [e for e in self._ledger.owing() if e.owes(name)]
        if name in self._failed or any(e.key not in self._unsigned and not self._is_listed(e) for e in owed):
            self.sign_for(name, stop)
        with self.changing(stop):
            stop()
            owed = [e for e in self._ledger.owing() if e.owes(name) and e.key in self._unsigned]
            yield SuppressionList.of([who for e in owed for who in self._unsigned[e.key]]) if owed else None

    def sign_for(self, name: str, stop: Callable[[], None]) -> None:
        """Sign the receipts that a model owes; see ``sign``."""
        with self._signing(stop):
            self._sign([name])

    def sign(self) -> int:
        """Verify every model that owes receipts, as its file is now, and sign them; returns how many.

        A receipt names the verified state: the one that the request left behind, or a later one.
        Nothing is signed for a state that stores a person whom the request named, since another program learnt or
        restored them meanwhile. Then, or if a state does not verify, ``VerificationError`` is raised.
        """
        with self._signing():
            return self._sign(self._files)

    def _sign(self, names: Iterable[str]) -> int:
        signed, problems = 0, []
        for name in names:
            owed = [e for e in self._ledger.owing() if e.owes(name)]
            try:
                signed += self._sign_for(name, owed) if owed else 0
                self._failed.discard(name)
            except ErasableError as error:  # the other models sign all the same
                self._failed.add(name)
                problems.append(error)
        if problems:
            raise problems[0]
        return signed

    def _sign_for(self, name: str, owed: list[Entry]) -> int:
        """Sign the receipts that a model owes and may sign; raises if it may not sign some of them."""
        marks, started = self._ledger.files.marks(name), self._clock()
        found, gone = self._verified_without(self._files[name], owed)
        self._passed(name, started, found.report)
        doubtful = self._doubtful(owed, name, self._ledger.files.is_ours(name, found.checksum, marks))
        gone = [e for e in gone if e.key not in doubtful]
        completed_at = self._clock()
        for i in range(0, len(gone), _TOGETHER):
            self._sign_block(name, gone[i : i + _TOGETHER], found, completed_at)
        if back := len(owed) - len(doubtful) - len(gone):
            raise VerificationError(_BACK.format(name=name, back=back))
        if doubtful:
            raise VerificationError(_REPLACED.format(name=name, doubtful=len(doubtful)))
        return len(gone)

    def _sign_block(self, name: str, gone: list[Entry], found: VerifiedState, completed_at: datetime) -> None:
        """Sign the receipts of a model for some erasures, and make them durable."""
        receipts, until = {}, time.monotonic() + _TURN
        for e in gone:
            receipt = Receipt(
                state_before=None,
                state_after=found.report.digest,
                guarantee=found.guarantee,
                format_version=found.format_version,
                requested_at=e.received,
                completed_at=completed_at,
                request_id=e.request_id,
                model=name if name.isprintable() and len(name) <= LONGEST_MODEL else None,
                asked=e.asked,
                normalisation={**e.spelling, **found.spelling},
                learner=found.report.learner,
                old_bytes=found.old_bytes,
            )
            receipts[e.key] = make_receipt(self._signer, receipt)
            if time.monotonic() >= until:
                time.sleep(_PAUSE)
                until = time.monotonic() + _TURN
        self._ledger.put_receipts(name, receipts)
        for e in gone:
            if not e.with_receipt(name).owes_receipts:
                self._unsigned.pop(e.key, None)

    def _doubtful(self, owed: list[Entry], model: str, ours: bool) -> set[str]:
        """Keys of erasures of an earlier run, whose identities are unknown, if the file is not that of their commit.

        The file that was read must be ours, and so must the files that it came from, since it may have been rewritten.
        Erasures whose people were on the suppression list when they were completed are not in doubt: the list is the
        one that the ledger knows, and the state stores nobody on it.
        """
        if self._settings.vouch:
            return set()
        in_doubt = {e.key for e in self._ledger.owing() if model in e.doubted}
        unknown = [e for e in owed if e.key not in self._unsigned and not self._is_listed(e)]
        return {e.key for e in unknown if not ours or e.key in in_doubt}

    def _is_listed(self, entry: Entry) -> bool:
        """Whether the suppression list keeps the people of an erasure from being learnt."""
        return entry.listed and self._suppression is not None

    def _verified_without(self, file: File, owed: list[Entry]) -> tuple[VerifiedState, list[Entry]]:
        """A verified state, and the erasures whose people it does not store; for earlier runs the list decides."""
        known = [e for e in owed if e.key in self._unsigned]
        earlier = [e for e in owed if e.key not in self._unsigned]
        found = file.verify([self._unsigned[e.key] for e in known], self._listed if earlier else None)
        gone = [e for e, stored in zip(known, found.stores, strict=True) if not stored]
        return found, gone if found.stores_listed else gone + earlier

    def identities_of(self, entry: Entry) -> tuple[Identity, ...]:
        """The identities in a completed request for access.

        Raises ``ConfigurationError`` if it is no such request or not completed, ``UnknownRequestError`` if its answer
        has expired or the service was restarted since.
        """
        if entry.kind != "access" or entry.state is not State.COMPLETED:
            raise ConfigurationError("only a completed request for access has an answer: wait for it.")
        held = self._access.get(entry.key)
        if held is None or held[0] <= self._elapsed():
            raise UnknownRequestError("the answer is not held any more: ask again, with a new id.")
        return held[1]


@dataclass
class _Attempts:
    """How often one change was sent to one URL, when the next attempt is due, and the outcome."""

    due: float  # by ``elapsed``, so that a wall clock that is set back delays nothing
    count: int = 0
    sent: bool = False
    over: bool = False


class Callbacks:
    """Reports every change of state to the URLs that requests name."""

    def __init__(
        self, ledger: Ledger, settings: Settings, send: Send | None = None, elapsed: Callable[[], float] = elapsed
    ) -> None:
        self._ledger, self._settings, self._send, self._elapsed = ledger, settings, send, elapsed
        self._attempts: dict[tuple[str, str, State], _Attempts] = {}

    def tell(self) -> int:
        """Try every callback that is due; returns how many outcomes were delivered.

        Every change of state is reported, in order, until that succeeds or was tried often enough (OpenDSR, section
        8.5), also that a request is in progress if it has been completed since. If a host fails, its other callbacks
        wait for the next round, so that it holds up no other host.
        """
        delivered = 0
        failed: set[str | None] = set()
        waiting = [*self._ledger.in_progress(), *self._ledger.owing()]
        for entry in (entry for entry in waiting if entry.callbacks):
            changes = [entry]
            if entry.state is State.COMPLETED:
                changes = [replace(entry, state=State.IN_PROGRESS, settled=None), entry]
            for url in entry.callbacks:
                over = all(self._is_over(url, change, failed) for change in changes)
                if over and entry.owes_callbacks:
                    delivered += self._attempts[entry.key, url, entry.state].sent
                    self._ledger.end_callback(entry.key, url)
                    for change in changes:
                        del self._attempts[entry.key, url, change.state]
        return delivered

    def _is_over(self, url: str, change: Entry, failed: set[str | None]) -> bool:
        """Try to report a change, if that is due; whether it was delivered, now or before, or given up."""
        now, host = self._elapsed(), urlsplit(url).hostname
        attempts = self._attempts.setdefault((change.key, url, change.state), _Attempts(now))
        if attempts.over or now < attempts.due or host in failed:
            return attempts.over
        attempts.due = now + min(_FIRST_PAUSE * 2**attempts.count, _LONGEST_PAUSE)
        attempts.count += 1
        if self._send is None or not self.is_allowed(url):
            attempts.over = True
            return True
        try:
            self._send(url, change)
            attempts.sent = True
        except Exception:  # of any type: it was not delivered
            failed.add(host)
        attempts.over = attempts.sent or attempts.count >= self._settings.callback_tries
        return attempts.over

    def is_allowed(self, url: str) -> bool:
        """Whether callbacks may go there: to a host and port that the settings name, without a password, by HTTPS.

        HTTP is allowed only to this machine, where another program may listen.
        """
        try:
            parts = urlsplit(url)
            port = (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port
        except ValueError:
            return False
        known = self._settings.allows_callbacks_to(parts.hostname, port)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)
        return known and safe and parts.username is None and url.isascii() and url.isprintable()


_MOST_DOUBLINGS, _LONGEST_WAIT = 6, 60.0  # of the pause after failures; seconds
_ASK_AGAIN = 0.1  # seconds between two calls of ``stop``


class PeriodicThread(threading.Thread):
    """Calls a function every so many seconds; an error is the ``problem`` until a call succeeds again.

    Calls begin at times of a fixed grid, whatever a call takes, so that the times tell nothing of what it did. A call
    that has to end at such a time too calls :meth:`until_next`. After failures more and more times are left out, up to
    64 in a row, or a minute: once a disk has room again, no thread is left that says otherwise.

    Of an unforeseen error ``problem`` shows only the type: its text may name somebody.
    """

    def __init__(self, what: str, period: float, call: Callable[[], object]) -> None:
        super().__init__(name=f"erasable-{what}", daemon=True)
        self.what, self._period, self._call = what, period, call
        self._ending, self._begun, self._waited = threading.Event(), time.monotonic(), False
        self.problem: str | None = None
        self.calls, self.seconds = 0, 0.0

    def run(self) -> None:
        """See ``start``."""
        failed = 0
        while not self._ending.is_set():
            self._waited = False
            self.once()
            failed = 0 if self.problem is None else min(failed + 1, _MOST_DOUBLINGS)
            if failed or not self._waited:
                self.until_next(self.pause_after(failed))

    def pause_after(self, failed: int) -> float:
        """The period until the next call, in seconds, after some failures in a row."""
        if not failed:
            return self._period
        if self._period > _LONGEST_WAIT:
            return _LONGEST_WAIT
        periods: int = min(2**failed, int(_LONGEST_WAIT / self._period))
        return self._period * periods

    def until_next(self, period: float | None = None) -> None:
        """Wait until the next time of the grid. Another thread, or one that is to end, does not wait."""
        if threading.current_thread() is self:
            period = period or self._period
            self._ending.wait(period - (time.monotonic() - self._begun) % period)
            self._waited = True

    def once(self) -> None:
        """Call the function once."""
        begun = time.monotonic()
        try:
            self._call()
            self.problem = None
        except (ErasableError, MemoryError) as error:
            self.problem = f"could not {self.what}: {error}"
        except Exception as error:
            self.problem = f"could not {self.what}: {type(error).__name__}."
        finally:
            self.calls, self.seconds = self.calls + 1, self.seconds + time.monotonic() - begun

    def end(self) -> None:
        """Stop after the current call."""
        self._ending.set()


class FairLock:
    """A lock, ``with lock():``, that a thread cannot take twice while another waits."""

    def __init__(self) -> None:
        self._held = threading.Lock()
        self._next = threading.Lock()  # held by the thread that is next

    @contextmanager
    def __call__(self, stop: Callable[[], None] = lambda: None) -> Iterator[None]:
        """Hold the lock; ``stop`` is called repeatedly while it waits, and may raise."""
        _wait_for(self._next, stop)
        try:
            _wait_for(self._held, stop)
        finally:
            self._next.release()
        try:
            yield
        finally:
            self._held.release()


def _wait_for(lock: threading.Lock, stop: Callable[[], None]) -> None:
    while not lock.acquire(timeout=_ASK_AGAIN):
        stop()
