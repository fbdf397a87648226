"""Whether a model file is one that the service wrote, or one that was put in its place: a backup, say.

Before the service replaces a file, a mark of the new one goes into the ledger: a salted HMAC, under the operator's key,
of the file's checksum. So marks tell nobody without the key whether a commit changed anything. A file without one of
the marks since the last completion was written by another program, and erased people may be back in it. The ledger
remembers that until the operator vouches for the file, or a suppression list with everybody who was ever erased is
replayed. The ledger therefore also notes how far that list had come with each completion.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import IntEnum, StrEnum
from typing import Any

from erasable.errors import ConfigurationError, StoreError
from erasable.service.journals import PastJournal
from erasable.service.requests import Entry
from erasable.service.suppression import SuppressionList
from erasable.store import Record

Mark = dict[str, Any]


class Erased(IntEnum):
    """Whether anybody was erased so far, and whether all of them are on the suppression list."""

    NOBODY = 0
    ALL_LISTED = 1
    NOT_ALL_LISTED = 2


class Origin(StrEnum):
    """Who wrote a model file: this service, another program, or unknown, since it was never compared before."""

    OURS = "ours"
    FOREIGN = "foreign"
    NEW = "new"


class Lineage:
    """The marks of each model file since its last completion, and the position of the suppression list.

    ``lock`` guards the past; ``owing`` returns the entries that owe receipts or callbacks; ``put`` replaces the known
    copy of an entry. ``erased`` says whether anybody was erased so far.
    """

    def __init__(
        self,
        past: PastJournal,
        operator_key: bytes,
        lock: threading.RLock,
        vouch: bool,
        owing: Callable[[], list[Entry]],
        put: Callable[[Entry], None],
    ) -> None:
        self._past, self._key, self._lock, self._vouch, self._owing, self._put = (
            past, operator_key, lock, vouch, owing, put
        )  # fmt: skip
        self.restore({})

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Begin with what ``saved`` was when some of the past was read, instead of nothing."""
        self._list: list[Any] | None = saved.get("list")  # position of the suppression list at the last completion
        self._marks: dict[str, list[Mark]] = dict(saved.get("marks", {}))  # by model, the newest last
        self._foreign = set(saved.get("foreign", ()))
        self._reached = set(saved.get("reached", ()))  # models in which erasures were completed
        self.erased = Erased(saved.get("erased", Erased.NOBODY))

    def saved(self) -> dict[str, Any]:
        """What is known, as JSON values: see ``restore``."""
        sets = {"foreign": sorted(self._foreign), "reached": sorted(self._reached)}
        return {"list": self._list, "marks": self._marks, "erased": int(self.erased), **sets}

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """All records of the past that are no marks; marks and positions are taken in."""
        for record in records:
            content = record.content
            if "mark" in content:
                self._add(content)
                continue
            if content.get("lost"):
                self.erased = Erased.NOT_ALL_LISTED
            if content.get("state") == "completed" and content["models"]:
                self._complete(content["models"], listed=content.get("listed", False))
            self._list = content.get("list", self._list)
            yield record

    def stays(self, record: Mapping[str, Any]) -> bool:
        """Whether a purge keeps a record of a file or of the list; it keeps all others."""
        if "mark" in record:
            return record in self._marks.get(record["model"], ())
        return "list" not in record or "lost" in record or bool(record["list"] == self._list)

    def records_of(self, listed: SuppressionList | None) -> list[dict[str, Any]]:
        """The record to write with a completion: the position of the list, if it has grown."""
        moved = listed is not None and listed.position[0] > self.list_position[0]
        return [{"list": listed.position}] if listed is not None and moved else []

    def completed(self, models: Iterable[str], listed: SuppressionList | None) -> None:
        """Note that erasures were completed in these models, and that ``records_of`` the list was written."""
        for record in self.records_of(listed):
            self._list = record["list"]
        self._complete(models, listed=listed is not None)

    def found(self, model: str, checksum: str | None) -> None:
        """Compare the file of a model at the start; receipts owed by a file that is not ours are in doubt.

        The next start finds that out again, unless a commit comes first: then the ledger notes it with the mark.
        """
        with self._lock:
            if not self.is_ours(model, checksum):
                for entry in self._owing():
                    if entry.owes(model):
                        self._put(entry.with_doubt(model))

    def marks(self, model: str) -> tuple[Mark, ...]:
        """The marks of a model now; see ``is_ours``."""
        with self._lock:
            return tuple(self._marks.get(model, ()))

    def is_ours(self, model: str, checksum: str | None, before: tuple[Mark, ...] = ()) -> bool:
        """Whether a file with this checksum has one of the marks, or of those ``before``."""
        return any(self._fits(mark, model, checksum) for mark in (*before, *self.marks(model)))

    def origin(self, model: str, checksum: str | None) -> Origin:
        """Who wrote the file of a model, which has this checksum now. A foreign file stays so until it is adopted.

        As long as nobody was erased it does not matter: every file counts as ours.
        """
        with self._lock:
            if self.erased is Erased.NOBODY:
                return Origin.OURS
            if model not in self._marks and model not in self._reached:
                return Origin.NEW
            foreign = model in self._foreign or not self.is_ours(model, checksum)
            return Origin.FOREIGN if foreign else Origin.OURS

    def adopt(self, model: str, checksum: str) -> None:
        """Note durably that the file with this checksum holds nobody who was erased."""
        with self._lock:
            self._write([], [self._mark(model, checksum, Erased.NOBODY, adopted=True)])

    @property
    def list_position(self) -> list[Any]:
        """The position of the suppression list when it was last written down; see ``SuppressionList.position``."""
        return [0, ""] if self._list is None else self._list

    def put_list(self, position: list[Any]) -> None:
        """Note durably that no model stores anybody on the list up to this position."""
        with self._lock:
            if position[0] > self.list_position[0]:  # otherwise a commit has come further meanwhile
                self._past.append([{"list": position}])
                self._list = position

    def check_list(self, listed: SuppressionList | None) -> None:
        """Refuse a suppression list that does not continue the one of the last completion.

        If the operator vouches, the known list counts as lost: it proves nothing any more. Otherwise raises
        ``ConfigurationError`` if no list is given, ``StoreError`` if it is another one or an older one.
        """
        if self._list is None or (listed is not None and listed.had(*self._list)):
            return
        if not self._vouch:
            if listed is None:
                raise ConfigurationError(
                    f"the ledger knows of a suppression list, with {self._list[0]:,} entries, and none is given: set "
                    "suppression_list. To go on without it, start once with the setting vouch."
                )
            raise StoreError(
                f"the suppression list is not the one that the ledger knows of, which had {self._list[0]:,} entries. "
                "Put the newest copy of it back; if it is lost, start once with the setting vouch."
            )
        with self._lock:
            self._past.append([{"list": None, "lost": True}])
            self._list, self.erased = None, Erased.NOT_ALL_LISTED

    def announce(self, model: str, before: str, after: str, erased: Erased = Erased.NOBODY) -> None:
        """Note durably, under the file's lock, that a file is about to be replaced; files are given by checksum.

        ``erased`` says whether the change erases people, and whether they are on the suppression list. On
        ``StoreError`` nothing was noted, and the file must not be replaced.
        """
        with self._lock:
            self.found(model, before)
            foreign = self.origin(model, before) is Origin.FOREIGN
            marked = self._marks.get(model, [])
            is_retry = len(marked) > 1 and self._fits(marked[-1], model, after)  # of a commit that failed
            if foreign or not is_retry:
                doubted = [
                    {"request": e.key, "doubted": model} for e in self._owing() if e.owes(model) and model in e.doubted
                ]
                follows = bool(marked) and self._fits(marked[-1], model, before)
                marks = [self._mark(model, after, erased, foreign=foreign, follows=follows)]
                if not foreign and not self.is_ours(model, before):  # it is not replaced yet
                    marks.insert(0, self._mark(model, before, Erased.NOBODY, adopted=True))
                self._write(doubted, marks)

    def _write(self, records: list[dict[str, Any]], marks: list[Mark]) -> None:
        self._past.append([*records, *marks])
        for mark in marks:
            self._add(mark)

    def _mark(self, model: str, checksum: str, erased: Erased, **more: bool) -> Mark:
        """A record that marks what the file of a model is going to hold; see ``_add``."""
        salt = secrets.token_hex(16)
        mark = {"model": model, "salt": salt, "mark": self._hmac(model, checksum, salt)}
        return mark | {"erased": int(max(erased, self.erased))} | more

    def _add(self, mark: Mark) -> None:
        """Take in a mark: the file may have it from now on, or still one of those before.

        An ``adopted`` mark is that of the file now, whatever was before. One that ``follows`` replaces the file marked
        last, so the files before that are gone.
        """
        model = mark["model"]
        if mark.get("adopted"):
            self._marks[model] = []
            self._foreign.discard(model)
        elif mark.get("foreign"):
            self._foreign.add(model)
        elif mark.get("follows"):
            del self._marks.get(model, [])[:-1]
        self._marks.setdefault(model, []).append(mark)
        # In older ledgers, which did not write this down, marks came with erasures.
        self.erased = max(self.erased, Erased(mark.get("erased", Erased.NOT_ALL_LISTED)))

    def _complete(self, models: Iterable[str], *, listed: bool) -> None:
        """The files of these models have the last mark, and no earlier one."""
        for model in models:
            del self._marks.get(model, [])[:-1]
            self._reached.add(model)
            self.erased = max(self.erased, Erased.ALL_LISTED if listed else Erased.NOT_ALL_LISTED)

    def _fits(self, mark: Mark, model: str, checksum: str | None) -> bool:
        if checksum is None:
            return False
        return hmac.compare_digest(mark["mark"], self._hmac(model, checksum, mark["salt"]))

    def _hmac(self, model: str, checksum: str, salt: str) -> str:
        return hmac.new(self._key, f"{salt}\n{model}\n{checksum}".encode(), hashlib.sha256).hexdigest()
