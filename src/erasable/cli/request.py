"""``erasable request``: file a list of identities with a service, and get its receipts."""

from __future__ import annotations

import os
import stat
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar

import typer

from erasable.cli._shared import Bars, Json, print_json, say
from erasable.errors import ConfigurationError, StoreError

if TYPE_CHECKING:
    from erasable.operations.remote import Batch

_LONGEST_TOKEN = 4096  # bytes


@dataclass(frozen=True)
class ListOptions:
    """What is stated about the list."""

    PANEL: ClassVar = "The list"
    column: Annotated[str | None, typer.Option(help="Column of the file, if it has several.")] = None
    identity_type: Annotated[
        str | None, typer.Option(help="Type of the identities. [default: the only one that the service has]")
    ] = None
    reference: Annotated[
        str | None,
        typer.Option(help="Your own reference, at most 64 characters. It is kept until a purge, so use no names."),
    ] = None
    received: Annotated[
        str | None, typer.Option(help="When you received the request, as YYYY-MM-DD. [default: today]", metavar="DATE")
    ] = None
    idempotency_key: Annotated[
        str | None,
        typer.Option(help="With the key of an earlier run, the same list is filed once. [default: random]"),
    ] = None


def request(
    file: Annotated[
        str,
        typer.Option(
            help="The list: one identity a line, or .csv, .parquet, .npy with one column; `-` is standard input.",
            metavar="FILE",
        ),
    ],
    url: Annotated[str, typer.Option(help="The address of the service, such as https://erasure.example.")],
    token_file: Annotated[
        Path, typer.Option(help="File with a token that has the scope `erase`, and `audit` for receipts.")
    ],
    listed: ListOptions,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the list is completed and the receipts are signed.")
    ] = False,
    receipts: Annotated[
        Path | None, typer.Option(help="Folder for the receipts, one for each model; needs `--wait`.")
    ] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to go on trying and waiting.")] = 300,
    ca_file: Annotated[Path | None, typer.Option(help="Certificates to trust, in PEM. [default: the system's]")] = None,
    as_json: Json = False,
) -> None:
    """File one erasure request for a list of identities with a service.

    The list is one request: it is durable when the command has its answer, is carried out with one commit of each
    model, and has one receipt for each model. A list that was interrupted can be sent again with the same
    `--idempotency-key`, which is printed first.

    For example:

    - `erasable request --file leavers.csv --url https://erasure.example --token-file token --wait --receipts receipts`
    """
    from erasable.core.names import doubt_of_reference, read_reference
    from erasable.operations.remote import Client
    from erasable.tables import read_keys

    if receipts is not None and not wait:
        raise ConfigurationError("--receipts needs --wait: receipts are signed once the list is completed.")
    if receipts is not None and not receipts.is_dir():
        raise StoreError(f"{receipts} is not a folder: make it first.")
    reference = read_reference(listed.reference or "")
    if (warning := doubt_of_reference(reference)) is not None:
        say(f"warning: {warning}", aside=True)
    client = Client(url, _token(token_file), timeout=timeout, ca_file=None if ca_file is None else str(ca_file))
    identities = [str(key) for key in read_keys(file, kind=str, column=listed.column)]
    key = listed.idempotency_key or str(uuid.uuid4())
    if not as_json:
        say(f"idempotency key {key}", aside=True)
    options = {"identity_type": listed.identity_type, "reference": reference, "received": listed.received}
    with Bars(quiet=as_json) as bars:
        batch = client.file(identities, key, progress=bars.tick, **options)
        if wait:
            batch = client.wait(batch, bars.tick)
    written = [] if receipts is None else _write(receipts, batch.id, batch.receipts or {})
    if as_json:
        shown = {"batch": batch.id, "identities": batch.identities, "state": batch.state, "due": batch.due}
        print_json({**shown, "idempotency_key": key, "receipts": written})
    else:
        _show(batch, written, waited=wait)


def _show(batch: Batch, written: list[str], *, waited: bool) -> None:
    """Print what was filed, and the receipts that were written."""
    what = "1 identity" if batch.identities == 1 else f"{batch.identities:,} identities"
    say(f"{what} filed as one request, {batch.state}.")
    say(f"request {batch.id}, due {batch.due}")
    for path in written:
        say(f"{path} is a receipt")
    if waited and batch.state == "completed" and batch.receipts is None:
        say("note: receipts are for tokens with the scope audit.", aside=True)


def _token(path: Path) -> str:
    """Return the token in a file; StoreError if others may read the file."""
    from erasable.store import check_private

    with path.open("rb") as file:
        facts, text = os.fstat(file.fileno()), file.read(_LONGEST_TOKEN)
    if stat.S_ISREG(facts.st_mode):
        check_private(path, facts, "they could file requests in your name. Take their rights away: chmod 600.")
    return text.decode("ascii", "replace").strip()


def _write(folder: Path, batch: str, receipts: dict[str, str]) -> list[str]:
    """Write one file for each receipt, and return their paths; an existing file is never overwritten."""
    from erasable.operations.forget import receipt_name

    paths = []
    for model, text in sorted(receipts.items()):
        path = folder / receipt_name(model, batch)
        if not (path.exists() and path.read_text(encoding="utf-8") == text):
            with path.open("x", encoding="utf-8") as file:
                file.write(text)
        paths.append(str(path))
    return paths
