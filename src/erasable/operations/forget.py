"""Forget, in a model file, what a request names, and put its receipt where it is wanted: one operation.

The command ``erasable forget`` parses, calls :func:`forget` and renders; a process that goes on forgetting holds a
:class:`~erasable.operations.model_file.ModelFile`, which this goes through, too.
"""

from __future__ import annotations

import os
import re
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.audit.receipt_file import drop_room, room_for
from erasable.audit.receipts import LARGEST_RECEIPT, Receipt, check_receipt
from erasable.errors import InputError, ReceiptError, ReceiptNotWrittenError, StoreError
from erasable.models.reports import ForgetReport
from erasable.operations.model_file import ModelFile
from erasable.operations.requests import Request

_WHOLE = re.compile(r"-?[0-9]{1,40}")


@dataclass(frozen=True)
class Names:
    """Ids or subjects as people write them: texts, and files of them; a model says what kind they are.

    Attributes
    ----------
    texts : list of str
    files : list of str or path
        Paths as in ``erasable.tables.read_keys``, or patterns as in ``erasable.tables.files_of``.
    column : str, optional
        The column of these files.
    called : str
        What an error calls them.
    """

    texts: tuple[str, ...] = ()
    files: tuple[str | os.PathLike[str], ...] = ()
    column: str | None = None
    called: str = "names"

    def of(self, kind: type | None) -> list[Any] | None:
        """The keys, of the kind that a model has; None where nothing is named."""
        if not self.texts and not self.files:
            return None
        keys = [self._key(text, kind) for text in self.texts]
        if self.files:
            from erasable.tables import files_of, read_keys  # only here: names on a command line need no reader

            files: list[str | Path] = [*files_of(self.files)] or ["-"]
            for file in files:
                keys += read_keys(file, kind=kind, column=self.column)
        return keys

    def _key(self, text: str, kind: type | None) -> Any:
        if kind is int:
            if not _WHOLE.fullmatch(text):  # int() would take 1_0 for ten
                raise InputError(f"{self.called}: the model's are whole numbers, and one that was given is not.")
            return int(text)
        if kind is bytes:
            try:
                return bytes.fromhex(text)
            except ValueError:
                raise InputError(f"{self.called}: the model's are bytes: give them in hexadecimal digits.") from None
        return text


@dataclass(frozen=True)
class Forgotten:
    """What became of a request.

    Attributes
    ----------
    report : ForgetReport
    receipt_kept : bool
        Whether the receipt was there already, from a run that was cut short, and speaks of this state.
    blind : bool
        Whether subjects were named, and the model stores none.
    """

    report: ForgetReport
    receipt_kept: bool
    blind: bool


def forget(
    path: str | os.PathLike[str],
    *,
    ids: Names | list[Any] | None = None,
    subjects: Names | list[Any] | None = None,
    receipt: str | os.PathLike[str] | None = None,
    key: PrivateKey | None = None,
    after_only: bool = False,
    request_id: str | None = None,
    timeout: float | None = None,
) -> Forgotten:
    """Rows stop existing for the model in a file and leave the disk; durable on return, and so is the receipt.

    Asked again after a kill at any moment, it does what is left to do and gives a receipt.

    Parameters
    ----------
    path : str or path
        The model file.
    ids, subjects : list or Names, optional
        What is to go.
    receipt : str or path, optional
        Where a signed receipt goes; needs ``key``. Nothing that is there is overwritten.
    key, after_only, timeout
        As in ``ModelFile``.
    request_id : str, optional
        What the receipt calls the request; no name of a person.

    Raises
    ------
    StoreError
        When the file could not be replaced, or something else has the name of the receipt.
    ReceiptNotWrittenError
        When the rows are forgotten and the receipt could not be written.
    """
    requested_at = datetime.now(UTC)
    file = ModelFile(path, timeout=timeout, key=key, after_only=after_only)
    id_type, subject_type = file.key_types()
    request = Request(_named(ids, id_type), _named(subjects, subject_type), request_id, requested_at)
    target = None if receipt is None else Path(receipt)
    kept = None if target is None or key is None else _kept(target, request, after_only, key, file)
    with nullcontext(None) if target is None or kept is not None else room_for(target) as put:
        report = file.forget_together([request], digests=True)[0]
        if put is not None:
            try:
                put(report.receipt or "")
            except OSError as error:
                failure = ReceiptNotWrittenError(
                    f"the rows are forgotten, but {target} could not be written ({error.strerror}): keep the receipt, "
                    "which comes with this error."
                )
                failure.receipt = report.receipt or ""
                raise failure from error
    if kept is not None and kept.state_after != report.digest:
        raise StoreError(f"{target} is of an earlier state, and the model was changed meanwhile: choose another name.")
    return Forgotten(report, kept is not None, request.subjects is not None and subject_type is None)


def _named(given: Names | list[Any] | None, kind: type | None) -> list[Any] | None:
    return given.of(kind) if isinstance(given, Names) else given


def _kept(path: Path, request: Request, after_only: bool, key: PrivateKey, file: ModelFile) -> Receipt | None:
    """The receipt that this very request got when it was cut short right after; whatever else is there is refused.

    It is signed with this key and speaks of the state that the file has, in which nothing is left to be forgotten.
    """
    if not os.path.lexists(path):
        return None
    with suppress(OSError, ReceiptError, UnicodeDecodeError):
        with open(path, "rb") as there:
            found = check_receipt(there.read(4 * LARGEST_RECEIPT + 1).decode(), key.public)
        asked = request.request_id in (None, found.request_id) and after_only == (found.state_before is None)
        if asked and file.is_done(request, found.state_after):
            drop_room(path)
            return found
    raise StoreError(f"{path} is there already: receipts are never overwritten, choose another name.")
