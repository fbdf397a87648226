"""``erasable forget``: remove rows from a model file durably, with a receipt if one is wanted."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar
from warnings import catch_warnings, simplefilter

import typer

from erasable.cli._shared import (
    NO_SUBJECTS,
    Json,
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
    from erasable.operations.forget import FileOutcome, Forgotten


@dataclass(frozen=True)
class NameOptions:
    """The rows to forget."""

    PANEL: ClassVar = "Rows to forget"
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

    PANEL: ClassVar = "Receipt"
    receipt: Annotated[
        Path | None,
        typer.Option(
            help="Write a signed receipt to this file, or one for each of several models to this folder; needs `--key`."
        ),
    ] = None
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

    def signer(self, *, folder: bool = False) -> PrivateKey | None:
        """Return the key, after checking before anything is forgotten that a receipt, or a folder of them, can be."""
        if self.receipt is None:
            if self != ReceiptOptions():
                raise ConfigurationError(
                    "--key, --passphrase-file, --ask-passphrase, --request-id and --after-only are for --receipt FILE."
                )
            return None
        if self.key is None:
            raise ConfigurationError("--receipt needs --key, the private key that signs: erasable keys new makes one.")
        home = self.receipt if folder else self.receipt.absolute().parent
        if not home.is_dir():
            what = "receipts of several models need one" if folder else "the receipt could not be written there"
            raise StoreError(f"{home} is not a folder: {what}.")
        from erasable.audit.keys import read_private_key

        return read_private_key(self.key, passphrase=passphrase_of(self.passphrase_file, self.ask_passphrase))


def forget(
    models: Annotated[
        list[Path],
        typer.Argument(
            help="The model file. Several files, or a folder of files that end in `.erasable`, are changed one after "
            "the other.",
            readable=False,
        ),
    ],
    names: NameOptions,
    receipt: ReceiptOptions,
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Forget rows by id, or all rows of subjects. When the command ends, the old file is overwritten and removed.

    Ids and subjects that the model does not hold are no error, so a request can be repeated, also after a kill or a
    loss of power: both leave a whole receipt or none. All names in one command cost one rewrite of each file. With
    several models, `--receipt` names a folder, which gets one receipt for each of them.

    For example:

    - `erasable forget model.erasable --id A17 --id B4`

    - `erasable forget model.erasable --subjects-file leavers.txt --receipt out.json --key signer.pem`

    - `erasable forget credit.erasable churn.erasable --subject customer-7 --receipt receipts --key signer.pem`
    """
    from erasable.operations.forget import forget_in_files
    from erasable.operations.requests import Names

    several = len(models) > 1 or models[0].is_dir()
    signer = receipt.signer(folder=several)
    given: dict[str, Any] = {
        "ids": Names(tuple(names.id or ()), tuple(names.ids_file or ()), names.column, "--id"),
        "subjects": Names(tuple(names.subject or ()), tuple(names.subjects_file or ()), names.column, "--subject"),
        "key": signer,
        "after_only": receipt.after_only,
        "request_id": receipt.request_id,
        "timeout": timeout,
    }
    with catch_warnings(record=True) as caught:
        simplefilter("always", EmptiedClassWarning)
        if not several:
            _forget_in_one(models[0], given, names, receipt.receipt, caught, as_json)
            return
        outcomes = []
        for outcome in forget_in_files(models, receipts=receipt.receipt, **given):
            warnings = _warnings_of(outcome.path, outcome.done, caught)
            caught.clear()
            outcomes.append((outcome, warnings))
            if isinstance(outcome.problem, ReceiptNotWrittenError):
                say(outcome.problem.receipt.strip(), aside=True)
            if not as_json:
                _show_file(outcome, warnings)
    _sum_up(outcomes, as_json)


def _forget_in_one(
    model: Path, given: dict[str, Any], names: NameOptions, receipt: Path | None, caught: list[Any], as_json: bool
) -> None:
    from erasable.operations.forget import forget as forget_in_file

    try:
        done = forget_in_file(model, receipt=receipt, **given)
    except ReceiptNotWrittenError as error:
        say(error.receipt.strip(), aside=True)
        raise
    warnings = _warnings_of(model, done, caught)
    if as_json:
        print_json({**_as_json(model, done, receipt), "warnings": warnings})
        return
    for warning in warnings:
        say(f"warning: {warning}", aside=True)
    _show(model, done, names, receipt)


def _warnings_of(model: Path, done: Forgotten | None, caught: list[Any]) -> list[str]:
    """Return what to warn of after a change, and print a note where old blocks may stay on the disk."""
    if done is None:
        return []
    note_doubt(model)
    warnings = [*([NO_SUBJECTS] if done.no_subjects_stored else []), *(str(warning.message) for warning in caught)]
    return warnings + ([done.report.thin_text] if done.report.thin_text is not None else [])


def _as_json(model: Path, done: Forgotten, receipt: Path | None) -> dict[str, Any]:
    from erasable.store import doubt_about_blocks, in_words

    fields = "requested", "not_stored", "core_rows_removed", "core_rows", "digest_before", "digest"
    result = {"model": str(model), **{name: getattr(done.report, name) for name in fields}}
    old_bytes = in_words(doubt_about_blocks(model))
    return {**result, "old_bytes": old_bytes, "receipt": None if receipt is None else str(receipt)}


def _show_file(outcome: FileOutcome, warnings: list[str]) -> None:
    """Print one line for a file, and its warnings or its problem."""
    for warning in warnings:
        say(f"warning: {outcome.path}: {warning}", aside=True)
    if outcome.done is None:
        say(f"{outcome.path}: not done")
        return
    report, line = outcome.done.report, ""
    if outcome.receipt is not None:
        line = f"; receipt {outcome.receipt}{', kept from an interrupted run' if outcome.done.receipt_kept else ''}"
    gone = counted(report.core_rows_removed, "core row")
    say(f"{outcome.path}: {gone} forgotten, {report.core_rows:,} left{line}")


def _sum_up(outcomes: list[tuple[FileOutcome, list[str]]], as_json: bool) -> None:
    """Print the summary of several files; raise the first problem, or exit with its code after JSON."""
    from erasable.cli.app import exit_code, message

    done = [outcome.done.report for outcome, _ in outcomes if outcome.done is not None]
    problems = [(outcome.path, outcome.problem) for outcome, _ in outcomes if outcome.problem is not None]
    rows = sum(report.core_rows_removed for report in done)
    if as_json:
        files: list[dict[str, Any]] = [{"model": str(path), "problem": message(problem)} for path, problem in problems]
        for one, warnings in outcomes:
            if one.done is not None:
                files.append({**_as_json(one.path, one.done, one.receipt), "warnings": warnings, "problem": None})
        print_json({"models": files, "done": len(done), "failed": len(problems), "core_rows_removed": rows})
    else:
        named = f"{done[0].requested:,} named; " if done else ""
        say(f"{named}{counted(rows, 'core row')} forgotten in {len(done):,} of {counted(len(outcomes), 'model')}.")
        if done and not rows:
            say("note: none of these models stores anything that was named.", aside=True)
        for path, problem in problems:
            say(f"{path}: {message(problem)}", aside=True)
    if problems:
        if not as_json:
            say("run the same command again once this is mended: models that are done stay as they are.", aside=True)
        raise typer.Exit(exit_code(problems[0][1]))


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
