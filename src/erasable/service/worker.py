"""The one writer: what was accepted meanwhile is carried out in all models at once, then signed for, then told.

Three rounds, each of which can be repeated after a crash at any moment: :meth:`Worker.commit`, :meth:`Worker.sign` and
:meth:`Worker.tell`. Threads call them again and again; a test calls them by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol
from urllib.parse import urlsplit

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import LONGEST_MODEL, Receipt, make_receipt
from erasable.errors import ConfigurationError, ErasableError, UnknownRequestError, VerificationError
from erasable.models.files import checksum_at
from erasable.models.reports import VerifyReport
from erasable.operations.requests import Request
from erasable.service.entries import Entry, State
from erasable.service.identities import Erasure, Identity
from erasable.service.ledger import Ledger
from erasable.service.lineage import Erased, Origin
from erasable.service.questions import Verified, Verify, verified
from erasable.service.settings import Settings
from erasable.service.snapshots import Snapshots
from erasable.service.suppression import Listed, SuppressionList
from erasable.service.turns import Turn

#: Tells one callback url what became of a request; whatever it raises is tried again later.
Send = Callable[[str, Entry], None]


class File(Protocol):
    """What is needed of a model file."""

    path: str

    def forget_together(self, requests: list[Request], /) -> object:
        """Durable on return: see ``ModelFile``."""


_BACK = (
    "{name} stores rows again of whom {back} completed requests named: another program learnt them, or restored an "
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
_BREATH = 0.0005  # seconds from one signature to the next, so that predictions do not wait for hundreds of them
_THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
_FIRST_PAUSE, _LONGEST_PAUSE = timedelta(seconds=1), timedelta(hours=1)


@dataclass
class _Tries:
    """How often somebody was to be told of a change, when it is to be tried again, and what came of it."""

    due: datetime
    count: int = 0
    sent: bool = False
    over: bool = False


def changes_of(entry: Entry) -> list[Entry]:
    """The entry at each change of its state so far, the first one first: what callbacks tell.

    That it is pending is said by the answer to whoever filed it.
    """
    if entry.state is not State.COMPLETED:
        return [entry]
    return [replace(entry, state=State.IN_PROGRESS, settled=None), entry]


class Worker:
    """Carries out what a ledger holds.

    Parameters
    ----------
    ledger : Ledger
    files : mapping of str to File
        Every model that an erasure has to reach, by name.
    signer : PrivateKey
    settings : Settings
    clock : callable
        The time in UTC.
    snapshots : Snapshots
        Swapped when a commit is done.
    suppression : SuppressionList, optional
    send : callable, optional
    verify, verify_in_turn : callables
        Verify the model in a file; the second while models are kept from changing, so that it must not have to wait,
        and with a ``progress`` that may raise.
    wait : callable
        Called when an erasure is durable in all models, before anybody is told: returns at a time that tells nothing of
        how long that took, which depends on whether anybody was stored.
    passed : callable
        Told of every state that was verified: whose it is, when that began, and the report.
    checksum : callable
        The checksum of the model in a file; None where it cannot be read.
    """

    def __init__(
        self,
        ledger: Ledger,
        files: Mapping[str, File],
        signer: PrivateKey,
        settings: Settings,
        clock: Callable[[], datetime],
        snapshots: Snapshots,
        suppression: SuppressionList | None = None,
        send: Send | None = None,
        verify: Verify = verified,
        verify_in_turn: Callable[..., Verified] = verified,
        wait: Callable[[], object] = lambda: None,
        passed: Callable[[str, datetime, VerifyReport], object] = lambda *_: None,
        checksum: Callable[[str], str | None] = checksum_at,
    ) -> None:
        self._ledger, self._files, self._signer, self._settings = ledger, files, signer, settings
        self._clock, self._snapshots, self._suppression, self._send = clock, snapshots, suppression, send
        self._verify, self._verify_in_turn = verify, verify_in_turn
        self._wait, self._passed, self._checksum = wait, passed, checksum
        self._listed = copy(suppression)  # all whom earlier runs erased; not those whose erasure is going on
        self._list_found = [0, ""] if suppression is None else suppression.position
        self._list_is_ahead = suppression is not None and self._list_found != ledger.files.list_position
        self._access: dict[str, tuple[datetime, tuple[Identity, ...]]] = {}
        self._unsigned: dict[str, tuple[Identity, ...]] = {}  # whom erasures named that owe receipts; in memory alone
        self._replayed: dict[str, str] = {}  # of foreign files: the checksum after the list was replayed
        self._tries: dict[tuple[str, str, State], _Tries] = {}
        self.turn, self._signing = Turn(), Turn()  # held while models are changed, and while receipts are signed

    def commit(self) -> int:
        """Carry out all that is not settled, with one rewrite of each model; how many requests were completed.

        Every model is rewritten, whether it held anything that was named or not. All of them, or none: where one
        fails, the next round does all again, which changes nothing in those that succeeded.

        Raises
        ------
        StoreError
            When a model or the ledger could not be written: what was accepted is in progress.
        """
        with self.turn():
            now = self._clock()
            self._access = {name: held for name, held in self._access.items() if held[0] > now}
            work = self._ledger.begin()
            try:
                named = tuple(who for entry, identities in work if entry.kind == "erasure" for who in identities)
                if named:
                    self._forget(named, now)
            except BaseException:
                self._ledger.complete()  # those that were cancelled do not wait for it
                raise
            for entry, identities in work:
                if entry.kind == "access":
                    self._access[entry.key] = now + self._settings.access_for, identities
                else:
                    self._unsigned[entry.key] = identities
            self._ledger.complete([entry.key for entry, _ in work], tuple(self._files), self._suppression)
        return len(work)

    def _forget(self, named: tuple[Identity, ...], now: datetime) -> None:
        if self._suppression is not None:
            self._suppression.add(named, now)
        for file in self._files.values():
            file.forget_together([Erasure(identities=named)])
        self._snapshots.refresh()  # nobody predicts with somebody whose erasure is completed
        self._wait()

    def compare(self) -> None:
        """Take over what other programs wrote, and compare each file with the last that the service left.

        A file that is another one is rewritten without everybody on the suppression list, where there is one. That is
        enough where all who were ever erased are on it; otherwise the operator has to vouch for the file. Where the
        list has come further than the ledger knows, the ledger may be the older one: every file is rewritten.

        Raises
        ------
        VerificationError
            When a file may store people who were erased.
        """
        problems: list[ErasableError] = []
        try:
            self._snapshots.refresh()
        except ErasableError as error:
            problems.append(error)
        for name, file in self._files.items():
            try:
                if self._list_is_ahead or self._ledger.files.origin(name, self._checksum(file.path)) is not Origin.OURS:
                    with self.turn():
                        self._judge(name, file)
            except ErasableError as error:
                problems.append(error)
        if problems:
            raise problems[0]
        if self._list_is_ahead:
            self._ledger.files.put_list(self._list_found)
            self._list_is_ahead = False

    def _judge(self, name: str, file: File) -> None:
        found = self._checksum(file.path)
        origin = self._ledger.files.origin(name, found)
        if found is None or (origin is Origin.OURS and not self._list_is_ahead):
            return
        listed = self._suppression is not None
        if listed and self._replayed.get(name) != found:
            file.forget_together([Listed(listed=self._suppression)])
            self._snapshots.refresh()
            if (found := self._checksum(file.path)) is None or not self._ledger.files.is_ours(name, found):
                raise VerificationError(_FOREIGN.format(name=name))  # somebody wrote it once more
            self._replayed[name] = found
        covered = listed and self._ledger.files.erased is not Erased.NOT_ALL_LISTED
        if not (covered or origin is not Origin.FOREIGN or self._settings.vouch):
            raise VerificationError(_FOREIGN.format(name=name))
        if origin is not Origin.OURS:
            self._ledger.files.adopt(name, found)

    @contextmanager
    def learning(self, name: str, stop: Callable[[], None]) -> Iterator[None]:
        """A block in which nothing else changes models, and that of this name owes no receipt.

        So no receipt speaks of a state that has learnt more. Who waits here, for a turn or for a verification that
        somebody asked for, keeps nobody from committing. ``stop`` is called again and again meanwhile, and may raise.
        """
        with ExitStack() as turn:
            with self._signing(stop):
                self._sign([name], self._verify)  # mostly all that is owed
                turn.enter_context(self.turn(stop))
                self._sign([name], partial(self._verify_in_turn, progress=lambda *_: stop()))
            stop()
            yield

    def sign(self) -> int:
        """Verify every model that owes receipts, as its file is now, and sign them; how many.

        A receipt names the state that was verified: that which the request left behind, or one after it. What the
        service learns waits for it. Nothing is signed where that state stores somebody whom the request named, since
        another program learnt or restored them meanwhile.

        Raises
        ------
        VerificationError
            When a state is not what learning its own rows gives, or stores somebody again.
        """
        with self._signing():
            return self._sign(self._files, self._verify)

    def _sign(self, names: Iterable[str], verify: Verify) -> int:
        signed, problems = 0, []
        for name in names:
            owed = [e for e in self._ledger.owing() if e.owes(name)]
            if not owed:
                continue
            marks, started = self._ledger.files.marks(name), self._clock()
            try:
                found, gone = self._verified_without(self._files[name].path, owed, verify)
                self._passed(name, started, found.report)
            except ErasableError as error:  # the other models sign all the same
                problems.append(error)
                continue
            doubtful = self._doubtful(owed, name, self._ledger.files.is_ours(name, found.checksum, marks))
            gone = [e for e in gone if e.key not in doubtful]
            if back := len(owed) - len(doubtful) - len(gone):
                problems.append(VerificationError(_BACK.format(name=name, back=back)))
            if doubtful:
                problems.append(VerificationError(_REPLACED.format(name=name, doubtful=len(doubtful))))
            receipt = partial(
                Receipt,
                state_before=None,
                state_after=found.report.digest,
                guarantee=found.guarantee,
                format_version=found.format_version,
                completed_at=self._clock(),
                model=name if name.isprintable() and len(name) <= LONGEST_MODEL else None,
            )
            receipts = []
            for e in gone:
                spelling = {**e.spelling, **found.spelling}
                made = receipt(requested_at=e.received, request_id=e.request_id, asked=e.asked, normalisation=spelling)
                receipts.append((e.key, name, make_receipt(self._signer, made)))
                time.sleep(_BREATH)
            self._ledger.put_receipts(receipts)
            signed += len(gone)
            for e in gone:
                if not e.with_receipt(name).owes_receipts:
                    self._unsigned.pop(e.key, None)
        if problems:
            raise problems[0]
        return signed

    def _doubtful(self, owed: list[Entry], model: str, ours: bool) -> set[str]:
        """Keys of those of an earlier run, of whom nothing is known, where the file is not the one of their commit.

        That is the file which was read and, since it was written over meanwhile perhaps, those that it came from. It
        does not matter for those who were on the suppression list when they were completed, since the list is the one
        that the ledger knows: the state stores nobody on it.
        """
        if self._settings.vouch:
            return set()
        in_doubt = {e.key for e in self._ledger.owing() if model in e.doubted}
        unknown = [e for e in owed if e.key not in self._unsigned and not (e.listed and self._suppression is not None)]
        return {e.key for e in unknown if not ours or e.key in in_doubt}

    def _verified_without(self, path: str, owed: list[Entry], verify: Verify) -> tuple[Verified, list[Entry]]:
        """A state, and the erasures whose people it does not store; of those before the last start, a list says so."""
        known = [e for e in owed if e.key in self._unsigned]
        earlier = [e for e in owed if e.key not in self._unsigned]
        named = [self._unsigned[e.key] for e in known]
        found = verify(path, named, self._listed if earlier else None)
        gone = [e for e, stored in zip(known, found.stores, strict=True) if not stored]
        return found, gone if found.stores_listed else gone + earlier

    def tell(self) -> int:
        """Try every callback that is due; how many outcomes were delivered.

        Every change of state is told, in order, until that succeeds or was tried often enough (OpenDSR, section 8.5):
        that a request is in progress also where it has been completed since. Of a host that fails, the rest waits for
        the next round, so that it holds up no other.
        """
        delivered = 0
        silent: set[str | None] = set()
        waiting = [*self._ledger.under_way(), *self._ledger.owing()]
        for entry in (entry for entry in waiting if entry.callbacks):
            changes = changes_of(entry)
            for url in entry.callbacks:
                over = all(self._is_over(url, change, silent) for change in changes)
                if over and entry.owes_callbacks:
                    delivered += self._tries[entry.key, url, entry.state].sent
                    self._ledger.told(entry.key, url)
                    for change in changes:
                        del self._tries[entry.key, url, change.state]
        return delivered

    def _is_over(self, url: str, change: Entry, silent: set[str | None]) -> bool:
        """Whether somebody was told of a change, now or before, or that is given up."""
        now = self._clock()
        tries = self._tries.setdefault((change.key, url, change.state), _Tries(now))
        waits = now < tries.due <= now + _LONGEST_PAUSE  # not for a clock that was set back
        if tries.over or waits or urlsplit(url).hostname in silent:
            return tries.over
        tries.due = now + min(_FIRST_PAUSE * 2**tries.count, _LONGEST_PAUSE)
        tries.count += 1
        tries.sent = self._sent(url, change, silent)
        hopeless = self._send is None or not self.is_allowed(url) or tries.count >= self._settings.callback_tries
        tries.over = tries.sent or hopeless
        return tries.over

    def _sent(self, url: str, entry: Entry, silent: set[str | None]) -> bool:
        """Whether somebody was told; the host is silent where it failed."""
        if self._send is None or not self.is_allowed(url):
            return False
        try:
            self._send(url, entry)
        except Exception:  # of whatever kind: nobody was told
            silent.add(urlsplit(url).hostname)
            return False
        return True

    def is_allowed(self, url: str) -> bool:
        """Whether callbacks may go there: to a host and port that the settings name, without a password, by HTTPS.

        By HTTP only to this machine, which a program beside the service may listen at.
        """
        try:
            parts = urlsplit(url)
            port = (443 if parts.scheme == "https" else 80) if parts.port is None else parts.port
        except ValueError:
            return False
        known = self._settings.allows_callbacks_to(parts.hostname, port)
        safe = parts.scheme == "https" or (parts.scheme == "http" and parts.hostname in _THIS_MACHINE)
        return known and safe and parts.username is None and url.isascii() and url.isprintable()

    def asked_by(self, entry: Entry) -> tuple[Identity, ...]:
        """Whom a completed request for access named.

        Raises
        ------
        ConfigurationError
            When it is no such request, or not completed yet.
        UnknownRequestError
            When it has expired, or was completed before the last start.
        """
        if entry.kind != "access" or entry.state is not State.COMPLETED:
            raise ConfigurationError("only a completed request for access has an answer: wait for it.")
        held = self._access.get(entry.key)
        if held is None or held[0] <= self._clock():
            raise UnknownRequestError("the answer is not held any more: ask again, with a new id.")
        return held[1]
