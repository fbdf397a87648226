"""``erasable forget``: rows leave a model file, durably, with a receipt where one is wanted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated
from warnings import catch_warnings, simplefilter

import typer

from erasable.cli._shared import (
    NO_SUBJECTS,
    Json,
    ModelPath,
    Timeout,
    counted,
    note_doubt,
    passphrase_of,
    print_json,
    say,
)
from erasable.errors import ConfigurationError, EmptiedClassWarning, ReceiptNotWrittenError, StoreError

if TYPE_CHECKING:
    from erasable.audit.keys import PrivateKey


def forget(
    model: ModelPath,
    id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Id of a row; may be given again.")] = None,
    ids_file: Annotated[
        list[str] | None,
        typer.Option(
            help="File of ids, or pattern: one a line, or .csv, .parquet, .npy with one column, text also with .gz, "
            ".bz2, .zst; `-` is standard input. May be given again.",
            metavar="FILE",
        ),
    ] = None,
    subject: Annotated[
        list[str] | None, typer.Option(metavar="SUBJECT", help="Whose rows are to go; may be given again.")
    ] = None,
    subjects_file: Annotated[
        list[str] | None, typer.Option(help="File of subjects, like `--ids-file`.", metavar="FILE")
    ] = None,
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
        bool, typer.Option("--after-only", help="Leave the digest of the state before out of the receipt.")
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
    from erasable.operations.forget import forget as forget_in_file
    from erasable.operations.requests import Names

    if not (id or ids_file or subject or subjects_file):
        raise ConfigurationError("name what to forget: --id, --ids-file, --subject or --subjects-file.")
    if "-" in (ids_file or ()) and "-" in (subjects_file or ()):
        raise ConfigurationError("standard input can be read only once: give one of the lists as a file.")
    signer = _signer(receipt, key, passphrase_file, ask=ask_passphrase, after_only=after_only or request_id is not None)
    with catch_warnings(record=True) as told:
        simplefilter("always", EmptiedClassWarning)
        try:
            done = forget_in_file(
                model,
                ids=Names(tuple(id or ()), tuple(ids_file or ()), column, "--id"),
                subjects=Names(tuple(subject or ()), tuple(subjects_file or ()), column, "--subject"),
                receipt=receipt,
                key=signer,
                after_only=after_only,
                request_id=request_id,
                timeout=timeout,
            )
        except ReceiptNotWrittenError as error:
            say(error.receipt.strip(), aside=True)
            raise
    note_doubt(model)
    report = done.report
    warnings = [*([NO_SUBJECTS] if done.blind else []), *(str(warning.message) for warning in told)]
    if as_json:
        print_json(
            {
                "model": str(model),
                "requested": report.requested,
                "not_stored": report.not_stored,
                "core_rows_removed": report.core_rows_removed,
                "core_rows": report.core_rows,
                "digest_before": report.digest_before,
                "digest": report.digest,
                "receipt": None if receipt is None else str(receipt),
                "warnings": warnings,
            }
        )
        return
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    if report.not_stored and not done.blind:
        named = [("rows", id or ids_file), ("subjects", subject or subjects_file)]
        what = " and ".join(name for name, given in named if given)
        say(
            f"note: {report.not_stored:,} of {report.requested:,} named {what} are not stored: they were never learnt, "
            "were not kept, or are gone already.",
            aside=True,
        )
    gone = counted(report.core_rows_removed, "core row")
    say(f"{report.requested:,} named; {gone} forgotten, {report.core_rows:,} left.")
    say(f"state digest {report.digest}")
    if done.receipt_kept:
        say(f"{receipt} was there already, from a run that was cut short, and speaks of this state: it was kept.")
    if receipt is not None:
        say(f"{receipt} is the receipt: erasable receipt verify {receipt} --key PUBLIC --state {model}")


def _signer(
    receipt: Path | None, key: Path | None, passphrase_file: Path | None, *, ask: bool, after_only: bool
) -> PrivateKey | None:
    """The key, once everything that a receipt needs was found to be there: before anything is forgotten."""
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
    from erasable.audit.keys import read_private_key

    return read_private_key(key, passphrase=passphrase_of(passphrase_file, ask))
