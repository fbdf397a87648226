"""``erasable receipt``: check a receipt and show what it states."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from erasable.cli._shared import Bars, Json, console, print_json, say, text_table
from erasable.errors import OtherStateError, StateFormatError

if TYPE_CHECKING:
    from erasable.audit.receipts import Receipt

app = typer.Typer(name="receipt", help="Receipts of what was forgotten.", no_args_is_help=True)


@app.command()
def verify(
    file: Annotated[Path, typer.Argument(help="The receipt.", readable=False)],
    key: Annotated[Path, typer.Option(help="The signer's public key: a .pub.pem file.", readable=False)],
    state: Annotated[
        Path | None,
        typer.Option(help="The model the receipt is about. [default: only the signature is checked]", readable=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Check a receipt: its signature, and with `--state` that the model has the signed digest and verifies.

    Exit code 3: the receipt or its signature is wrong. Exit code 4: the model is another one, or does not verify.

    For example:

    - `erasable receipt verify out.json --key signer.pub.pem --state model.erasable`
    """
    from erasable.audit.keys import read_public_key
    from erasable.audit.receipts import check_receipt, read_receipt_text

    public_key = read_public_key(key)
    receipt = check_receipt(read_receipt_text(file), public_key)
    rows, learner = (None, None) if state is None else _check_model(receipt, state, quiet=as_json)
    if as_json:
        checked = {"signature": True, "keyid": public_key.keyid, "signatures": receipt.signatures}
        model = None if rows is None else {"digest": receipt.state_after, "verified": True, "core_rows": rows}
        if model is not None and learner is not None:
            model["learner"] = learner
        print_json({"checked": {**checked, "state": model}, "statement": receipt.as_json()})
        return
    _show(receipt, public_key.keyid, rows, learner)


def _check_model(receipt: Receipt, path: Path, *, quiet: bool) -> tuple[int, str | None]:
    """Verify the model that the receipt is about; return how many rows it stores, and what was found of its learner."""
    from erasable.audit.receipts import check_state, compare_learner
    from erasable.operations.verify import verify_file

    try:
        with Bars(quiet=quiet) as bars:
            report = verify_file(path, progress=bars.of("verifying"))
    except StateFormatError as error:
        raise OtherStateError(f"the state is not the one this receipt is about: {error}") from error
    check_state(receipt, report.digest)
    return int(report.core_rows), compare_learner(receipt, report.learner)


def _show(receipt: Receipt, keyid: str, rows: int | None, learner: str | None) -> None:
    """Print what was checked, and what the receipt states."""
    from erasable.core.names import spelling_in_words
    from erasable.store import in_words

    others = f"; the receipt has {receipt.signatures} signatures" if receipt.signatures > 1 else ""
    checks = [("signature", f"good, by key {keyid[:16]}{others}")]
    if rows is None:
        checks.append(("state", "not checked: give --state MODEL"))
    else:
        checks.append(("state", "the model is the state after"))
        checks.append(("verified", f"{rows} core rows learnt again give the same state"))
        checks += [] if learner is None else [("learner", learner)]
    statement = receipt.as_json()["predicate"]
    said = [
        ("request", receipt.request_id),
        *([] if receipt.model is None else [("model", receipt.model)]),
        *([] if receipt.asked is None else [("asked for", str(receipt.asked))]),
        *([] if receipt.normalisation is None else [("spelling", spelling_in_words(receipt.normalisation))]),
        ("requested", statement["requestedAt"]),
        ("completed", statement["completedAt"]),
        ("state before", receipt.state_before or "left out"),
        ("state after", receipt.state_after),
        *([] if receipt.learner is None else [("learner", " ".join(str(receipt.learner).split()))]),
        ("guarantee", receipt.guarantee),
        ("old bytes", in_words(receipt.old_bytes)),
        ("made with", f"erasable {receipt.erasable_version}, state format {receipt.format_version}"),
    ]
    console().print(text_table("", ("checked", "found"), checks, numbers=False))
    say("The signer says:")
    for name, value in said:  # no table: digests must not be cut where the window is narrow
        say(f"  {name:<13} {value}")
