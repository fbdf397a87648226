"""``erasable token``: the bearer tokens of the service."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, print_json, say, say_cells
from erasable.errors import ConfigurationError

app = typer.Typer(name="token", help="Bearer tokens of the service.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the token; requests belong to it.")]
File = Annotated[
    Path, typer.Option("--file", help="The file of tokens, which holds their hashes.", envvar="ERASABLE_TOKENS")
]
_SCOPES = "predict, learn, erase, audit or purge. Repeat the option for several."


@app.command()
def make(
    name: Name,
    scope: Annotated[list[str], typer.Option(help=_SCOPES, metavar="SCOPE")],
    days: Annotated[float | None, typer.Option(help="Days until it expires. [default: it does not]")] = None,
    file: File = Path("tokens.json"),
    as_json: Json = False,
) -> None:
    """Make a token and print it, once: the file keeps its hash alone. A running service knows it at once.

    `predict` predicts; `learn` learns rows; `erase` submits, tracks and cancels requests, without seeing who
    is stored; `audit` sees digests, receipts, verifications and what is stored about a person; `purge` erases settled
    requests and their receipts from the ledger.

    For example:

    - `erasable token make privacy-desk --scope erase --days 90`
    """
    from erasable.service.tokens import make_token

    if days is not None and not 0 < days <= 36_500:
        raise ConfigurationError("--days must be more than 0, and at most 36500.")
    until = None if days is None else (datetime.now(UTC) + timedelta(days=days)).replace(microsecond=0)
    token = make_token(file, name, scope, expires=until)
    if as_json:
        print_json({"name": name, "token": token, "expires": None if until is None else until.isoformat()})
        return
    say(token)
    say(f"{file} keeps its hash: it is not shown again. Send it as: Authorization: Bearer TOKEN", aside=True)


@app.command("list")
def listed(file: File = Path("tokens.json"), as_json: Json = False) -> None:
    """List tokens: their names, scopes, and when they were made and expire.

    For example:

    - `erasable token list --file tokens.json`
    """
    from erasable.service.tokens import list_tokens

    tokens = [(t, t.made.isoformat(), None if t.expires is None else t.expires.isoformat()) for t in list_tokens(file)]
    if as_json:
        print_json([{"name": t.name, "scopes": [*t.scopes], "made": made, "expires": end} for t, made, end in tokens])
        return
    for token, made, expires in tokens:
        say_cells([token.name, ",".join(token.scopes), made, expires or "-"])


@app.command()
def revoke(name: Name, file: File = Path("tokens.json"), as_json: Json = False) -> None:
    """Revoke a token: a running service refuses it at once.

    For example:

    - `erasable token revoke privacy-desk`
    """
    from erasable.service.tokens import revoke_token

    revoke_token(file, name)
    if as_json:
        print_json({"revoked": name})
    else:
        say(f"{name} is revoked.")
