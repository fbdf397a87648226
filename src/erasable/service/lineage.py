"""Whether a model file is one that the service left behind, or one that somebody put in its place: a backup, say.

Before a commit replaces a file, a mark of what it is going to hold goes into the ledger: an HMAC, under the operator's
key and with fresh salt, of the checksum of the file. So marks tell nobody without the key whether a commit has changed
anything. A file that has none of the marks since the last completion holds what another program wrote: receipts that
are owed for what was completed before are then in doubt, since nobody's identity is left to look for in it.

What the service learns has no marks: it signs all that a model owes before it learns.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from erasable.store import Record

Marks = tuple[dict[str, str], ...]


class Lineage:
    """The marks of each model since its last completion, the newest last."""

    def __init__(self, operator_key: bytes) -> None:
        self._key = operator_key
        self._marks: dict[str, list[dict[str, str]]] = {}

    def read(self, records: Iterable[Record]) -> Iterator[Record]:
        """All records of a ledger that are no marks; marks are taken in."""
        self._marks = {}
        for record in records:
            if "mark" in record.content:
                self.add(record.content)
            else:
                if record.content.get("state") == "completed":
                    self.completed(record.content["models"])
                yield record

    def mark(self, model: str, checksum: str) -> dict[str, str]:
        """A record that marks what the file of a model is going to hold; see ``add``."""
        salt = secrets.token_hex(16)
        return {"model": model, "salt": salt, "mark": self._hmac(model, checksum, salt)}

    def add(self, mark: dict[str, str]) -> None:
        """A mark is in the ledger: from now on the file may be that, or still one of those before."""
        self._marks.setdefault(mark["model"], []).append(mark)

    def completed(self, models: Iterable[str]) -> None:
        """What was marked last is durable: the files of these models hold that, and nothing from before."""
        for model in models:
            del self._marks.get(model, [])[:-1]

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

    def is_waiting_for(self, model: str, checksum: str) -> bool:
        """Whether this was marked before by a commit that has failed, so that trying again adds no mark."""
        marks = self._marks.get(model, ())
        return len(marks) > 1 and hmac.compare_digest(marks[-1]["mark"], self._hmac(model, checksum, marks[-1]["salt"]))

    def _hmac(self, model: str, checksum: str, salt: str) -> str:
        return hmac.new(self._key, f"{salt}\n{model}\n{checksum}".encode(), hashlib.sha256).hexdigest()
