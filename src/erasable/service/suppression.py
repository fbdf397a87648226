"""The suppression list: who was erased, as HMACs under the operator's key, so that nobody is learnt again.

It is an optional trace: a holder of the list *and* the key can test whether a given identity is on it. It is kept
outside of every model. A record has the HMAC of role, format and value of an identity, and the time. Where names are
normalised, the HMAC is that of the normalised value and of the steps, and the record has the steps. The list is a
journal under the same key, so a damaged list, or one made with another key, is refused rather than finding nobody.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import pickle
import secrets
import stat
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from erasable.core.arrays import ColumnLike
from erasable.core.names import Key, Steps, owners_of
from erasable.errors import InputError, StoreError, UnsignedError
from erasable.models.core_rows import NamedRows
from erasable.models.inputs import as_key_column, as_subject_column
from erasable.models.model import Model
from erasable.models.reports import ForgetReport
from erasable.operations.model_file import ModelFile
from erasable.operations.requests import Request
from erasable.service.requests import Identity, forms_of
from erasable.service.settings import Role
from erasable.store import REAL_DISK, Contents, Disk, Journal, check_private, journal_key, read_journal, rewrite_journal

_SHORTEST_KEY, _LONGEST_KEY = 16, 4096  # bytes


def read_key(path: str | os.PathLike[str]) -> bytes:
    """The operator's key: the bytes of a file without line breaks at its end.

    Raises ``StoreError`` if it cannot be read or others may read or change it, ``InputError`` if it is too short.
    """
    try:
        with open(path, "rb") as file:
            key, facts = file.read(_LONGEST_KEY + 1).rstrip(b"\r\n"), os.fstat(file.fileno())
    except OSError as error:
        raise StoreError(f"could not read {os.fspath(path)!s}: {error.strerror}.") from error
    if not _SHORTEST_KEY <= len(key) <= _LONGEST_KEY:
        raise InputError(
            f"the operator's key must have {_SHORTEST_KEY} to {_LONGEST_KEY:,} bytes: make one with "
            "openssl rand -hex 32."
        )
    if stat.S_ISREG(facts.st_mode):
        check_private(path, facts, "they could forge the ledger. Take their rights away (chmod 600).")
    return key


class SuppressionList:
    """The people who must not be learnt again.

    Raises InputError when the list was made with another key. Raises StoreError when it is damaged.

    Parameters
    ----------
    path : str or path
        The list; created when the first identity is added.
    key : bytes
        The operator's key.
    disk : Disk
        The system calls to use.
    """

    def __init__(self, path: str | os.PathLike[str], key: bytes, *, disk: Disk = REAL_DISK) -> None:
        self._path, self._key, self._disk = os.path.abspath(path), key, disk
        self._journal_key = journal_key(key, "suppression list")
        self._lock = threading.Lock()
        self.read()

    @classmethod
    def of(cls, identities: Iterable[Identity]) -> SuppressionList:
        """A list of these identities in memory alone, under a key of its own."""
        found, key = cls.__new__(cls), secrets.token_bytes(32)
        found.__setstate__({"_key": key, "_spellings": {()}, "_packed": b""})
        named = found._named(identities)
        found._marks, found._spellings = {*named}, {(), *named.values()}
        return found

    def _named(self, identities: Iterable[Identity]) -> dict[str, Steps]:
        return {self._mark(who.role, *form, who.steps): who.steps for who in identities for form in who.forms}

    def read(self, *, upgrade: bool = False) -> None:
        """Read the file again; raises as the constructor does. ``upgrade`` rewrites a list of an old format."""
        if upgrade and self._found.is_old:
            rewrite_journal(self._path, self._journal_key, lambda record: "hmac" in record, disk=self._disk)
        found = read_journal(self._path, self._journal_key, disk=self._disk)
        records = [record.content for record in found]
        self._marks = {record["hmac"] for record in records if "hmac" in record}
        self._spellings = {(), *(tuple(record["steps"]) for record in records if "steps" in record)}
        self._packed: bytes | None = None  # all marks, since the last one was added
        self._found: Contents = found
        self._at = found.at
        found.close()
        # Before records were chained, the first of them had an HMAC of a fixed text.
        own = hmac.new(self._key, b"the key of a suppression list", hashlib.sha256).hexdigest()
        if found.is_old and {record["key"] for record in records if "key" in record} != {own}:
            raise InputError(f"{self._path} was made with another operator's key, or is damaged: give that key.")

    def __getstate__(self) -> dict[str, Any]:
        """What lookups need, for another process: the file may not exist there."""
        with self._lock:
            if self._packed is None:
                self._packed = " ".join(self._marks).encode()
            return {"_key": self._key, "_spellings": self._spellings, "_packed": pickle.PickleBuffer(self._packed)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        marks = set(bytes(state["_packed"]).decode().split())
        self.__dict__.update(state, _lock=threading.Lock(), _marks=marks, _packed=None)

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, identities: Iterable[Identity], at: datetime) -> None:
        """Put identities on the list durably; those that are on it already keep their time."""
        with self._lock:
            fresh = {mark: steps for mark, steps in self._named(identities).items() if mark not in self._marks}
            if self._found.is_old:
                self.read(upgrade=True)
            if fresh:
                time = at.isoformat(timespec="seconds")
                records = [
                    {"hmac": mark, "time": time, **({"steps": steps} if steps else {})} for mark, steps in fresh.items()
                ]
                journal = Journal(self._path, self._journal_key, at=self._at, disk=self._disk)
                try:
                    journal.append(records)
                finally:
                    self._at = journal.at
                    journal.close()
                self._marks.update(fresh)
                self._spellings = {*self._spellings, *fresh.values()}
                self._packed = None

    @property
    def position(self) -> list[Any]:
        """How far the list has come: how many times it was added to, and a MAC; see ``had``."""
        return list(self._at[:2])

    def had(self, pieces: int, mac: str) -> bool:
        """Whether the list, as it was read, was once at a position: everybody on it then is on it now."""
        return self._found.had(pieces, mac)

    def holds(self, role: Role, key: Key) -> bool:
        """Whether an id or a subject is on the list, in whatever format it was named and however normalised."""
        return any(
            self._mark(role, *form, steps) in self._marks for steps in self._spellings for form in forms_of(key, steps)
        )

    def rows_of(self, ids: ColumnLike, subjects: ColumnLike) -> list[bool]:
        """Which rows of a block belong to somebody on the list: by their ids, or by any of their subjects."""
        known: dict[tuple[Role, Key], bool] = {}

        def is_held(role: Role, key: Key) -> bool:
            if (role, key) not in known:
                known[role, key] = self.holds(role, key)
            return known[role, key]

        by_id = [] if ids is None else [is_held("id", key) for key in _plain(as_key_column(ids, "ids"))]
        owners = [] if subjects is None else _plain(as_subject_column(subjects))
        by_subject = [any(is_held("subject", owner) for owner in owners_of(each)) for each in owners]
        if not by_id or not by_subject:
            return by_id or by_subject
        return [one or other for one, other in zip(by_id, by_subject, strict=True)]

    def stored_in(self, model: Model) -> tuple[list[Key], list[Key]]:
        """The ids and the subjects that a model stores and the list holds.

        *Cost*: four HMACs for each stored id and subject, and up to seven more for each normalisation on the list.
        """
        ids = [key for key in model.core.place if self.holds("id", key)]
        return ids, [key for key in model.core.of_subject if self.holds("subject", key)]

    def _mark(self, role: str, format: str, value: str, steps: Steps = ()) -> str:
        written = "+".join((format, *steps))
        return hmac.new(self._key, f"{role}\n{written}\n{value}".encode(), hashlib.sha256).hexdigest()


def read_list(path: str | os.PathLike[str], key: str | os.PathLike[str]) -> SuppressionList:
    """The list in a file, with the operator's key in another.

    Raises ``StoreError`` if one of them cannot be read or the list is damaged or empty, ``InputError`` if the key is
    not that of the list.
    """
    if not os.path.exists(path):
        raise StoreError(f"{os.fspath(path)!s} does not exist: give the suppression list of the service.")
    listed = SuppressionList(path, read_key(key))
    if not len(listed):
        raise StoreError(f"{os.fspath(path)!s} has nobody on it: put the newest copy of the list back.")
    return listed


@dataclass(frozen=True, repr=False)
class Suppressed:
    """Which rows of a block are passed over: those of people on the list.

    Raises ``UnsignedError`` for a block with other rows of people whose erasures are ``unsigned``.
    """

    listed: SuppressionList | None
    unsigned: SuppressionList | None

    def __call__(self, ids: ColumnLike, subjects: ColumnLike) -> list[bool]:
        """See ``SuppressionList.rows_of``."""
        passed = [] if self.listed is None else self.listed.rows_of(ids, subjects)
        named = [] if self.unsigned is None else self.unsigned.rows_of(ids, subjects)
        if any(row and not (passed and passed[i]) for i, row in enumerate(named)):
            raise UnsignedError("rows of people who were just erased are learnt once receipts are signed: try again.")
        return passed


@dataclass(frozen=True, repr=False)
class ListedPeople(Request):
    """A request to forget all rows of the people on a list."""

    listed: SuppressionList | None = None

    def named_in(self, model: Model) -> NamedRows:
        """See ``Request``."""
        return model.named([], []) if self.listed is None else model.named(*self.listed.stored_in(model))


def replay(path: str | os.PathLike[str], listed: SuppressionList, *, timeout: float | None = None) -> ForgetReport:
    """Make a model from a backup forget every stored id and subject that is on the list; durable on return.

    *Law*: afterwards the list holds no id and no subject that the file stores. Repeating it changes nothing.
    """
    (report,) = ModelFile(path, timeout=timeout).forget_together([ListedPeople(listed=listed)], digests=True)
    return report


def _plain(column: Any) -> list[Any]:
    return column.tolist() if hasattr(column, "tolist") else list(column)
