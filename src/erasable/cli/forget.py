"""``erasable forget``: rows leave a model file, durably, with a receipt where one is wanted."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from warnings import catch_warnings, simplefilter

import typer

from erasable.cli._shared import Json, Timeout, note_doubt, print_json, say

if TYPE_CHECKING:
    from erasable.audit.keys import PrivateKey
    from erasable.audit.receipts import Receipt
    from erasable.operations.files import ModelFile, Request

_WHOLE = re.compile(r"-?[0-9]{1,40}")
_NO_SUBJECTS = "this model stores no subjects, so none could be found: rows can only be named by --id."


def forget(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False, readable=False)],
    id: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Id of a row; may be given again.", show_default=False)
    ] = None,
    ids_file: Annotated[
        str | None,
        typer.Option(help="File of ids: one a line, or .csv, .parquet, .npy with one column; `-` is standard input."),
    ] = None,
    subject: Annotated[
        list[str] | None,
        typer.Option(metavar="SUBJECT", help="Whose rows are to go; may be given again.", show_default=False),
    ] = None,
    subjects_file: Annotated[str | None, typer.Option(help="File of subjects, like `--ids-file`.")] = None,
    column: Annotated[
        str | None, typer.Option(help="Column of these files that holds the names, where there are several.")
    ] = None,
    receipt: Annotated[Path | None, typer.Option(help="Write a signed receipt there; needs `--key`.")] = None,
    key: Annotated[Path | None, typer.Option(help="The private key that signs: see `erasable keys new`.")] = None,
    passphrase_file: Annotated[Path | None, typer.Option(help="File with the passphrase of the key.")] = None,
    ask_passphrase: Annotated[
        bool, typer.Option("--ask-passphrase", help="Type in the passphrase of the key.")
    ] = False,
    request_id: Annotated[
        str | None, typer.Option(help="Your name for the request; no name of a person. [default: a random one]")
    ] = None,
    after_only: Annotated[
        bool,
        typer.Option("--after-only", help="Leave the digest of the state before out of the receipt."),
    ] = False,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Forget rows by id, or all rows of subjects. When the command has ended they are gone from the disk, too.

    Ids and subjects that the model does not hold are no error, so that a request can be repeated: also after a kill or
    a loss of power, which at any moment leaves a whole receipt or none. All that is named in one command costs one
    rewrite of the file.

    For example:

    - `erasable forget model.erasable --id A17 --id B4`

    - `erasable forget model.erasable --subjects-file leavers.txt --receipt out.json --key signer.pem`
    """
    from datetime import UTC, datetime

    from erasable.errors import ConfigurationError, EmptiedClassWarning, StoreError
    from erasable.operations.files import ModelFile, Request

    requested_at = datetime.now(UTC)
    if not (id or ids_file or subject or subjects_file):
        raise ConfigurationError("name what to forget: --id, --ids-file, --subject or --subjects-file.")
    if ids_file == "-" and subjects_file == "-":
        raise ConfigurationError("standard input can be read only once: give one of the lists as a file.")
    signer = _signer(receipt, key, passphrase_file, ask=ask_passphrase, after_only=after_only or request_id is not None)
    file = ModelFile(model, timeout=timeout, key=signer, after_only=after_only)
    id_type, subject_type = file.key_types()
    request = Request(
        _keys(id, ids_file, id_type, "--id", column),
        _keys(subject, subjects_file, subject_type, "--subject", column),
        request_id,
        requested_at,
    )
    finished = None if receipt is None else _finished(receipt, request, after_only, signer, file)
    with _place_for(receipt if finished is None else None) as put, catch_warnings(record=True) as told:
        simplefilter("always", EmptiedClassWarning)
        report = file.forget_together([request], digests=True)[0]
        try:
            put(report.receipt or "")
        except OSError as error:
            say((report.receipt or "").strip(), aside=True)
            raise StoreError(
                f"the rows are forgotten, but {receipt} could not be written ({error.strerror}): keep the receipt, it "
                "stands above on standard error."
            ) from error
    if finished is not None and finished.state_after != report.after:
        raise StoreError(f"{receipt} is of an earlier state, and the model was changed meanwhile: choose another name.")
    blind = request.subjects is not None and subject_type is None
    note_doubt(model)
    warnings = [*([_NO_SUBJECTS] if blind else []), *(str(warning.message) for warning in told)]
    if as_json:
        counts = {"requested": report.requested, "core_rows_removed": report.core_rows_removed}
        counts["not_stored"] = report.not_stored
        digests = {"digest_before": report.before, "digest": report.after}
        where = None if receipt is None else str(receipt)
        print_json(
            {
                "model": str(model),
                **counts,
                "core_rows": report.rows_left,
                **digests,
                "receipt": where,
                "warnings": warnings,
            }
        )
        return
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    if report.not_stored and not blind:
        say(f"note: {_absence(report, request)}", aside=True)
    say(f"{report.requested:,} named; {report.core_rows_removed:,} core rows forgotten, {report.rows_left:,} left.")
    say(f"state digest {report.after}")
    if finished is not None:
        say(f"{receipt} was there already, from a run that was cut short, and speaks of this state: it was kept.")
    if receipt is not None:
        say(f"{receipt} is the receipt: erasable receipt verify {receipt} --key PUBLIC --state {model}")


def _place_for(path: Path | None) -> AbstractContextManager[Callable[[str], None]]:
    """Where the receipt goes: a function of its text."""
    from erasable.audit._receipt_file import room_for

    return nullcontext(lambda text: None) if path is None else room_for(path)


def _finished(
    path: Path, request: Request, after_only: bool, key: PrivateKey | None, file: ModelFile
) -> Receipt | None:
    """The receipt that this very command wrote when it was cut short right after; whatever else is there is refused.

    It is signed with this key and speaks of the state that the file has, in which nothing is left to be forgotten.
    """
    from erasable.audit._receipt_file import drop_room
    from erasable.audit.receipts import LARGEST_RECEIPT, check_receipt
    from erasable.errors import ReceiptError, StoreError

    if key is None or not os.path.lexists(path):
        return None
    with suppress(OSError, ReceiptError, UnicodeDecodeError):
        with open(path, "rb") as there:
            found = check_receipt(there.read(4 * LARGEST_RECEIPT + 1).decode(), key.public)
        asked = request.request_id in (None, found.request_id) and after_only == (found.state_before is None)
        model = file.model
        if asked and found.state_after == model.state_digest() and not model._named(request.ids, request.subjects)[2]:
            drop_room(path)
            return found
    raise StoreError(f"{path} is there already: receipts are never overwritten, choose another name.")


def _absence(report: Any, request: Any) -> str:
    """How many of the names are not stored: nothing to be alarmed by, since most rows are never kept."""
    what = " and ".join(
        name for name, keys in (("rows", request.ids), ("subjects", request.subjects)) if keys is not None
    )
    return (
        f"{report.not_stored:,} of {report.requested:,} named {what} are not stored: they were never learnt, were not "
        "kept, or are gone already."
    )


def _keys(
    given: list[str] | None, file: str | None, kind: type | None, option: str, column: str | None
) -> list[Any] | None:
    """Ids or subjects as the model has them; None where none were named."""
    from erasable.datasets import read_keys
    from erasable.errors import InputError

    if not given and file is None:
        return None
    keys: list[Any] = []
    for text in given or ():
        if kind is int:
            if not _WHOLE.fullmatch(text):  # int() would take 1_0 for ten
                raise InputError(f"{option}: the model's are whole numbers, and one that was given is not.")
            keys.append(int(text))
        elif kind is bytes:
            try:
                keys.append(bytes.fromhex(text))
            except ValueError:
                raise InputError(f"{option}: the model's are bytes: give them in hexadecimal digits.") from None
        else:
            keys.append(text)
    if file is not None:
        keys += read_keys(file, kind=kind, column=column)
    return keys


def _signer(
    receipt: Path | None, key: Path | None, passphrase_file: Path | None, *, ask: bool, after_only: bool
) -> PrivateKey | None:
    """The key, once everything that a receipt needs was found to be there: before anything is forgotten."""
    from erasable.errors import ConfigurationError, StoreError

    if receipt is None:
        if key is not None or passphrase_file is not None or ask or after_only:
            raise ConfigurationError(
                "--key, --passphrase-file, --ask-passphrase, --request-id and --after-only are for --receipt FILE."
            )
        return None
    if key is None:
        raise ConfigurationError("--receipt needs --key, the private key that signs: erasable keys new makes one.")
    if not receipt.absolute().parent.is_dir():
        raise StoreError(f"{receipt.absolute().parent} is no folder: the receipt could not be written there.")
    from erasable.audit.keys import read_passphrase, read_private_key

    if ask and passphrase_file is not None:
        raise ConfigurationError("--passphrase-file and --ask-passphrase both name a passphrase: give one of them.")
    passphrase = None if passphrase_file is None else read_passphrase(passphrase_file)
    if ask:
        passphrase = typer.prompt("Passphrase", hide_input=True, err=True).encode()
    return read_private_key(key, passphrase=passphrase)
