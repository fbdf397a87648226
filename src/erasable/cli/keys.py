"""``erasable keys``: the keys that receipts are signed and checked with."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, passphrase_of, print_json, say

app = typer.Typer(name="keys", help="Keys to sign receipts with.", no_args_is_help=True)


@app.command()
def new(
    out: Annotated[
        Path, typer.Option("-o", "--out", help="Name of the files, without their endings: NAME.pem and NAME.pub.pem.")
    ] = Path("erasable-key"),
    passphrase_file: Annotated[
        Path | None,
        typer.Option(help="Encrypt the private key with the first line of this file. [default: not encrypted]"),
    ] = None,
    ask_passphrase: Annotated[
        bool, typer.Option("--ask-passphrase", help="Encrypt the private key with a passphrase typed in twice.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a new pair of Ed25519 keys: a private one that signs receipts, a public one that checks them.

    Nothing is ever overwritten. Any holder of the private key can sign receipts in your name.

    For example:

    - `erasable keys new -o signer`

    - `erasable forget model.erasable --id A --receipt out.json --key signer.pem`

    - `erasable receipt verify out.json --key signer.pub.pem`
    """
    from erasable.audit.keys import new_key, write_key

    passphrase = passphrase_of(passphrase_file, ask_passphrase, twice=True)
    key = new_key()
    files = write_key(key, out, passphrase=passphrase)
    if as_json:
        said = {"private_key": str(files.private), "public_key": str(files.public), "keyid": key.public.keyid}
        print_json({**said, "encrypted": passphrase is not None})
        return
    how = "Encrypted with your passphrase. " if passphrase is not None else ""
    say(f"{files.private}  signs. {how}Keep it where only the signer can read it, with a copy that lasts.")
    say(f"{files.public}  checks. Give it to all who check receipts, in a way they can trust.")
    say(f"key id {key.public.keyid}")
