"""Forget the rows that a request names in one model file or in several, and write a receipt for each."""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Iterable, Iterator
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from erasable.audit.keys import PrivateKey
from erasable.audit.receipts import (
    Receipt,
    check_receipt,
    check_request_id,
    read_receipt_text,
    remove_second_name,
    reserved_receipt,
)
from erasable.errors import ErasableError, InputError, ReceiptError, ReceiptNotWrittenError, StoreError
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
    no_subjects_stored : bool
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


@dataclass(frozen=True)
class FileOutcome:
    """What became of a request in one of several files: ``done``, or the ``problem`` that kept it from being done."""

    path: Path
    receipt: Path | None
    done: Forgotten | None = None
    problem: ErasableError | OSError | None = None


def forget_in_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    ids: Names | list[Any] | None = None,
    subjects: Names | list[Any] | None = None,
    receipts: str | os.PathLike[str] | None = None,
    request_id: str | None = None,
    **options: Any,
) -> Iterator[FileOutcome]:
    """Yield the outcome of one request in each of several model files, which are changed one after the other.

    All files are read and the names are checked before the first file is changed. A file that cannot be changed keeps
    none of the others from it. Called again after a kill or a failure, it completes the request.

    Parameters
    ----------
    paths : iterable of str or path
        Model files, or folders of files that end in ``.erasable``.
    ids, subjects
        As in ``forget``.
    receipts : str or path, optional
        An existing folder for one signed receipt of each file, ``receipt-MODEL-REQUEST.json``; needs ``key``.
    request_id : str, optional
        As in ``forget``; by default one random id for all files.
    **options
        ``key``, ``after_only`` and ``timeout`` as in ``forget``.
    """
    files = model_files(paths)
    request_id = str(uuid.uuid4()) if request_id is None else check_request_id(request_id)
    targets: list[Path | None] = [None] * len(files)
    if receipts is not None:
        if not os.path.isdir(receipts):
            raise StoreError(f"{receipts} is not a folder: receipts of several models need one.")
        targets = [Path(receipts, receipt_name(file.stem, request_id)) for file in files]
        if len({*targets}) < len(files):
            raise InputError("two models have the same name, and so would their receipts: rename one of the files.")
    names = [given.read_once() if isinstance(given, Names) else given for given in (ids, subjects)]
    requests = [_named_in(file, *names) for file in files]
    for file, target, (of_ids, of_subjects) in zip(files, targets, requests, strict=True):
        try:
            named: dict[str, Any] = {"ids": of_ids, "subjects": of_subjects, "request_id": request_id}
            yield FileOutcome(file, target, forget(file, receipt=target, **named, **options))
        except (ErasableError, OSError) as error:
            yield FileOutcome(file, target, problem=error)


def model_files(paths: Iterable[str | os.PathLike[str]]) -> list[Path]:
    """Return the model files that paths name, each once; a folder stands for its files that end in ``.erasable``."""
    found: dict[str, Path] = {}
    given = [Path(path) for path in paths]
    if missing := sum(not path.exists() for path in given):  # not named: one may be an id that was given without --id
        raise InputError(
            f"{missing} of {len(given)} model files do not exist: check the paths. Name rows with ids=, and people "
            "with subjects=."
        )
    for path in given:
        files = sorted(path.glob("*.erasable")) if path.is_dir() else [path]
        if not files:
            raise InputError(f"{path} holds no files that end in .erasable: name the model files.")
        found |= {os.path.realpath(file): file for file in files}
    return list(found.values())


def receipt_name(model: str, request_id: str) -> str:
    """Return a file name for the receipt of a model, with the request in it: receipts do not replace each other."""
    return f"receipt-{re.sub(r'[^A-Za-z0-9._-]', '_', f'{model}-{request_id}')}.json"


def _named_in(path: Path, ids: Any, subjects: Any) -> tuple[list[Any] | None, list[Any] | None]:
    """Return the names as keys of the types that a file has; errors name the file."""
    file = ModelFile(path)
    try:
        (id_type, subject_type), spelling = file.key_types(), file.spelling()
        return (
            keys_named(ids, id_type, spelling.get("id", ())),
            keys_named(subjects, subject_type, spelling.get("subject", ())),
        )
    except InputError as error:
        raise InputError(f"{path}: {error} Nothing was forgotten in any file.") from error


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
