"""Whether a model file is one that the service left behind, or one that somebody put in its place: a backup, say.

Before the service replaces a file, a mark of the new one goes into the ledger: an HMAC, under the operator's key and
with fresh salt, of the checksum of the file. So marks tell nobody without the key whether a commit changed anything.
A file that has none of the marks since the last completion was written by another program, and people who were erased
may be back in it. The ledger remembers that until the operator vouches for the file, or a suppression list was replayed
that has everybody who was ever erased.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from enum import IntEnum, StrEnum
from typing import Any

from erasable.store import Record

Marks = tuple[dict[str, Any], ...]


class Erased(IntEnum):
    """Whether people were erased so far, and whether all of them are on the suppression list."""

    NOBODY = 0
    ALL_LISTED = 1
    NOT_ALL_LISTED = 2


class Origin(StrEnum):
    """Who wrote a model file: this service, another program, or nobody knows, since it was never compared before."""

    OURS = "ours"
    FOREIGN = "foreign"
    NEW = "new"


class Lineage:
    """The marks of each model since its last completion, the newest last, and which files were foreign.

    Attributes
    ----------
    erased : Erased
    """

    def __init__(self, operator_key: bytes) -> None:
        self._key = operator_key
        self._clear()

    def _clear(self) -> None:
        self._marks: dict[str, list[dict[str, Any]]] = {}
        self._foreign: set[str] = set()
        self._reached: set[str] = set()  # models that erasures were completed in
        self.erased = Erased.NOBODY

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """All records of a ledger that are no marks; marks are taken in."""
        self._clear()
        for record in records:
            content = record.content
            if "mark" in content:
                self.add(content)
                continue
            if content.get("lost"):
                self.erased = Erased.NOT_ALL_LISTED
            if content.get("state") == "completed" and content["models"]:
                listed = content.get("listed", False)
                self.completed(content["models"], Erased.ALL_LISTED if listed else Erased.NOT_ALL_LISTED)
            yield record

    def mark(self, model: str, checksum: str, erased: Erased, **more: bool) -> dict[str, Any]:
        """A record that marks what the file of a model is going to hold; see ``add``."""
        salt = secrets.token_hex(16)
        mark = {"model": model, "salt": salt, "mark": self._hmac(model, checksum, salt)}
        return mark | {"erased": int(max(erased, self.erased))} | more

    def add(self, mark: dict[str, Any]) -> None:
        """A mark is in the ledger: from now on the file may be that, or still one of those before.

        One that is ``adopted`` is the file now, whatever was before. One that ``follows`` replaces the file that was
        marked last: those before that are gone.
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
        # Marks of ledgers before this was written down came with erasures.
        self.erased = max(self.erased, Erased(mark.get("erased", Erased.NOT_ALL_LISTED)))

    def completed(self, models: Iterable[str], erased: Erased) -> None:
        """What was marked last is durable: the files of these models hold that, and nothing from before."""
        for model in models:
            del self._marks.get(model, [])[:-1]
            self._reached.add(model)
            self.erased = max(self.erased, erased)

    def holds(self, record: Mapping[str, Any]) -> bool:
        """Whether a mark is still one to compare with."""
        return record in self._marks.get(record["model"], ())

    def of(self, model: str) -> Marks:
        """The marks of a model at this moment."""
        return tuple(self._marks.get(model, ()))

    def is_ours(self, model: str, checksum: str | None, before: Marks = ()) -> bool:
        """Whether a file with this checksum is one of those that were marked, or of those before."""
        marks = (*before, *self.of(model)) if checksum is not None else ()
        return any(hmac.compare_digest(m["mark"], self._hmac(model, str(checksum), m["salt"])) for m in marks)

    def origin(self, model: str, checksum: str | None) -> Origin:
        """Who wrote the file of a model, which has this checksum; what was foreign once stays so until it is adopted.

        As long as nobody was erased, it does not matter: every file is ours.
        """
        if self.erased is Erased.NOBODY:
            return Origin.OURS
        if model not in self._marks and model not in self._reached:
            return Origin.NEW
        foreign = model in self._foreign or not self.is_ours(model, checksum)
        return Origin.FOREIGN if foreign else Origin.OURS

    def is_waiting_for(self, model: str, checksum: str) -> bool:
        """Whether this was marked before by a commit that has failed, so that trying again adds no mark."""
        return len(self._marks.get(model, ())) > 1 and self.is_last(model, checksum)

    def is_last(self, model: str, checksum: str) -> bool:
        """Whether this is the file that was marked last."""
        last = self._marks.get(model, ())[-1:]
        return any(hmac.compare_digest(mark["mark"], self._hmac(model, checksum, mark["salt"])) for mark in last)

    def _hmac(self, model: str, checksum: str, salt: str) -> str:
        return hmac.new(self._key, f"{salt}\n{model}\n{checksum}".encode(), hashlib.sha256).hexdigest()
