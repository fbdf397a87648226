"""``erasable forget``: remove rows from a model file durably, with a receipt if one is wanted."""

from __future__ import annotations

from dataclasses import dataclass
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
    from erasable.operations.forget import Forgotten


@dataclass(frozen=True)
class NameOptions:
    """The rows to forget."""

    id: Annotated[list[str] | None, typer.Option(metavar="ID", help="Id of a row. Repeat it for several.")] = None
    ids_file: Annotated[
        list[str] | None,
        typer.Option(
            help="File of ids, or pattern: one a line, or .csv, .parquet, .npy with one column, text also with .gz, "
            ".bz2, .zst; `-` is standard input. Repeat it for several.",
            metavar="FILE",
        ),
    ] = None
    subject: Annotated[
        list[str] | None, typer.Option(metavar="SUBJECT", help="Subject whose rows to forget. Repeat it for several.")
    ] = None
    subjects_file: Annotated[
        list[str] | None, typer.Option(help="File of subjects, like `--ids-file`.", metavar="FILE")
    ] = None
    column: Annotated[
        str | None, typer.Option(help="Column of these files that holds the names, if they have several.")
    ] = None

    def __post_init__(self) -> None:
        if not (self.id or self.ids_file or self.subject or self.subjects_file):
            raise ConfigurationError("name what to forget: --id, --ids-file, --subject or --subjects-file.")
        if "-" in (self.ids_file or ()) and "-" in (self.subjects_file or ()):
            raise ConfigurationError("standard input can be read only once: give one of the lists as a file.")


@dataclass(frozen=True)
class ReceiptOptions:
    """The receipt and the key that signs it."""

    receipt: Annotated[Path | None, typer.Option(help="Write a signed receipt to this file; needs `--key`.")] = None
    key: Annotated[Path | None, typer.Option(help="The private key that signs: see `erasable keys new`.")] = None
    passphrase_file: Annotated[Path | None, typer.Option(help="File with the passphrase of the key.")] = None
    ask_passphrase: Annotated[bool, typer.Option("--ask-passphrase", help="Type in the passphrase of the key.")] = False
    request_id: Annotated[
        str | None,
        typer.Option(help="Your own identifier for the request; do not use a name of a person. [default: random]"),
    ] = None
    after_only: Annotated[
        bool, typer.Option("--after-only", help="Leave the digest of the state before out of the receipt.")
    ] = False

    def signer(self) -> PrivateKey | None:
        """Return the key, after checking before anything is forgotten that a receipt can be written."""
        if self.receipt is None:
            if self != ReceiptOptions():
                raise ConfigurationError(
                    "--key, --passphrase-file, --ask-passphrase, --request-id and --after-only are for --receipt FILE."
                )
            return None
        if self.key is None:
            raise ConfigurationError("--receipt needs --key, the private key that signs: erasable keys new makes one.")
        folder = self.receipt.absolute().parent
        if not folder.is_dir():
            raise StoreError(f"{folder} is not a folder: the receipt could not be written there.")
        from erasable.audit.keys import read_private_key

        return read_private_key(self.key, passphrase=passphrase_of(self.passphrase_file, self.ask_passphrase))


def forget(
    model: ModelPath, names: NameOptions, receipt: ReceiptOptions, timeout: Timeout = 60, as_json: Json = False
) -> None:
    """Forget rows by id, or all rows of subjects. When the command has ended they are gone from the disk, too.

    Ids and subjects that the model does not hold are no error, so a request can be repeated, also after a kill or a
    loss of power: both leave a whole receipt or none. All names in one command cost one rewrite of the file.

    For example:

    - `erasable forget model.erasable --id A17 --id B4`

    - `erasable forget model.erasable --subjects-file leavers.txt --receipt out.json --key signer.pem`
    """
    from erasable.operations.forget import forget as forget_in_file
    from erasable.operations.requests import Names

    signer = receipt.signer()
    with catch_warnings(record=True) as caught:
        simplefilter("always", EmptiedClassWarning)
        try:
            done = forget_in_file(
                model,
                ids=Names(tuple(names.id or ()), tuple(names.ids_file or ()), names.column, "--id"),
                subjects=Names(tuple(names.subject or ()), tuple(names.subjects_file or ()), names.column, "--subject"),
                receipt=receipt.receipt,
                key=signer,
                after_only=receipt.after_only,
                request_id=receipt.request_id,
                timeout=timeout,
            )
        except ReceiptNotWrittenError as error:
            say(error.receipt.strip(), aside=True)
            raise
    note_doubt(model)
    warnings = [*([NO_SUBJECTS] if done.no_subjects_stored else []), *(str(warning.message) for warning in caught)]
    warnings += [done.report.thin_text] if done.report.thin_text is not None else []
    if as_json:
        fields = "requested", "not_stored", "core_rows_removed", "core_rows", "digest_before", "digest"
        result = {"model": str(model), **{name: getattr(done.report, name) for name in fields}}
        written = None if receipt.receipt is None else str(receipt.receipt)
        print_json({**result, "receipt": written, "warnings": warnings})
        return
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    _show(model, done, names, receipt.receipt)


def _show(model: Path, done: Forgotten, names: NameOptions, receipt: Path | None) -> None:
    report = done.report
    if report.not_stored and not done.no_subjects_stored:
        named = [("rows", names.id or names.ids_file), ("subjects", names.subject or names.subjects_file)]
        what = " and ".join(name for name, given in named if given)
        say(
            f"note: {report.not_stored:,} of {report.requested:,} named {what} are not stored: they were never learnt, "
            "were not kept, or are forgotten already.",
            aside=True,
        )
    gone = counted(report.core_rows_removed, "core row")
    say(f"{report.requested:,} named; {gone} forgotten, {report.core_rows:,} left.")
    say(f"state digest {report.digest}")
    if done.receipt_kept:
        say(f"{receipt} exists already, from an interrupted run, and is of this state: it was kept.")
    if receipt is not None:
        say(f"{receipt} is the receipt: erasable receipt verify {receipt} --key PUBLIC --state {model}")
