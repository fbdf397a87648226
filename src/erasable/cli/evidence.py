"""``erasable evidence``: a page about a model and its receipts that can be filed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from erasable.cli._shared import Bars, Json, counted, print_json, say
from erasable.cli.app import BAD_RECEIPT, FAILED, UNVERIFIED
from erasable.errors import StateFormatError, VerificationError


def evidence(
    model: Annotated[Path, typer.Argument(help="The model file; it is verified.", readable=False)],
    receipts: Annotated[Path, typer.Option(help="Folder of the receipts (`*.json`), or one receipt.", readable=False)],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pack, new or empty.")],
    key: Annotated[
        list[Path] | None,
        typer.Option(
            help="Public key of a signer. Repeat it for several. [default: signatures are not checked]", metavar="FILE"
        ),
    ] = None,
    scan: Annotated[Path | None, typer.Option(help="The output of `erasable scan --json`.", metavar="JSON")] = None,
    audit: Annotated[Path | None, typer.Option(help="Results of an audit.", metavar="JSON")] = None,
    request_ids: Annotated[
        bool,
        typer.Option("--request-ids", help="Also show request ids that are not random, if none names a person."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Write an evidence pack: one page that prints well and names nobody, with copies of the receipts.

    The page lists the requests with digests, whether the model verifies and the signatures are good, the results of a
    scan and an audit if given, what all of it covers and what not, and which attacks work.

    It is also written if a check fails, and states which. Exit code 4: the model does not verify, or is damaged and
    gets no page. Exit code 3: a file is no receipt, or its signature is wrong. Exit code 1: the scan found remains, or
    the audit a trace.

    For example:

    - `erasable evidence model.erasable --receipts receipts/ --key signer.pub.pem -o pack/`
    """
    from erasable.audit.keys import read_public_key
    from erasable.operations.evidence import PAGE
    from erasable.operations.evidence import evidence as make

    keys = [read_public_key(path) for path in key or ()]
    given: dict[str, Any] = {"keys": keys, "scan": scan, "audit": audit, "request_ids": request_ids}
    try:
        with Bars(quiet=as_json) as bars:
            found = make(model, receipts, out, **given, progress=bars.of("verifying"))
    except StateFormatError as error:
        raise VerificationError(str(error)) from error
    remains = 0 if found.scan is None else found.scan["found"]
    if as_json:
        print_json({"page": str(out / PAGE), **found.as_json()})
    else:
        say(f"{out / PAGE}: {counted(len(found.receipts), 'receipt')}, {found.copies:,} copied")
        say("the model verifies" if found.verified else "the model does NOT verify: see erasable verify")
        if found.wrong_receipts:
            say(f"{found.wrong_receipts:,} of the files: no receipts, or not signed with a key given")
        if remains:
            say(f"the scan found {counted(remains, 'remain')} of rows that should be gone: the page says so")
        if found.audit_holds is False:
            say("the audit says that forgetting left a trace: the page says so")
        if not keys:
            say("note: signatures were not checked: give --key", aside=True)
    if not found.verified or found.wrong_receipts or not found.holds:
        raise typer.Exit(UNVERIFIED if not found.verified else BAD_RECEIPT if found.wrong_receipts else FAILED)
