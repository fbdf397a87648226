"""Forget the rows that a request names in a model file, and write its receipt."""

from __future__ import annotations

import os
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import Receipt, check_receipt, read_receipt_text, remove_second_name, reserved_receipt
from erasable.errors import ReceiptError, ReceiptNotWrittenError, StoreError
from erasable.models.reports import ForgetReport
from erasable.operations.model_file import ModelFile
from erasable.operations.requests import Names, Request, keys_named


@dataclass(frozen=True)
class Forgotten:
    """The outcome of a request.

    Attributes
    ----------
    report : ForgetReport
    receipt_kept : bool
        Whether the receipt existed already, from an interrupted run, and is of this state.
    blind : bool
        Whether subjects were named and the model stores none.
    """

    report: ForgetReport
    receipt_kept: bool
    no_subjects_stored: bool


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
    """Remove rows from the model in a file and from the disk; on return this and the receipt are durable.

    Called again after a kill at any time, it completes the request and gives a receipt. An existing receipt is accepted
    if it has the same ``request_id``.

    Parameters
    ----------
    path : str or path
    ids, subjects : list or Names, optional
        The rows to forget.
    receipt : str or path, optional
        The file for a signed receipt; needs ``key``. An existing file is never overwritten.
    key, after_only, timeout
        As in ``ModelFile``.
    request_id : str, optional
        The name of the request in the receipt; no name of a person.

    Raises
    ------
    StoreError
        When the file could not be replaced, or another file has the name of the receipt.
    ReceiptNotWrittenError
        When the rows are forgotten and the receipt could not be written.
    """
    requested_at, target = datetime.now(UTC), None if receipt is None else Path(receipt)
    file = ModelFile(path, timeout=timeout, key=key, after_only=after_only)
    (id_type, subject_type), spelling = file.key_types(), file.spelling()
    request = Request(
        keys_named(ids, id_type, spelling.get("id", ())),
        keys_named(subjects, subject_type, spelling.get("subject", ())),
        request_id,
        requested_at,
    )
    earlier_receipt = (
        None if target is None or key is None else _receipt_of_interrupted_run(target, request, after_only, key, file)
    )
    with (
        nullcontext(None)
        if target is None or earlier_receipt is not None
        else reserved_receipt(target) as write_receipt
    ):
        report = file.forget_together([request], digests=True)[0]
        if write_receipt is not None:
            try:
                write_receipt(report.receipt or "")
            except OSError as error:
                failure = ReceiptNotWrittenError(
                    f"the rows are forgotten, but {target} could not be written ({error.strerror}): keep the receipt, "
                    "which comes with this error."
                )
                failure.receipt = report.receipt or ""
                raise failure from error
    if earlier_receipt is not None and earlier_receipt.state_after != report.digest:
        raise StoreError(
            f"the rows are forgotten, but {target} is the receipt of an earlier state, because the model was changed "
            "in the meantime: run it again with another receipt file."
        )
    return Forgotten(report, earlier_receipt is not None, request.subjects is not None and subject_type is None)


def _receipt_of_interrupted_run(
    path: Path, request: Request, after_only: bool, key: PrivateKey, file: ModelFile
) -> Receipt | None:
    """Return the receipt that an interrupted run of this request wrote; any other existing file is refused.

    It has the id of the request, is signed with this key and is of the state in the file, which holds none of the rows.
    """
    if not os.path.lexists(path):
        return None
    remove_second_name(path)
    if request.request_id is not None and path.is_file():  # reading a named pipe would wait for a writer
        with suppress(StoreError, ReceiptError):
            found = check_receipt(read_receipt_text(path), key.public)
            same_request = request.request_id == found.request_id and after_only == (found.state_before is None)
            if same_request and file.is_done(request, found.state_after):
                return found
    raise StoreError(
        f"{path} exists already, and receipts are never overwritten: choose another name. An existing receipt is only "
        "accepted if it has the same request_id=."
    )
