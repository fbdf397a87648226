"""``erasable purge``: erase settled requests from the ledger of a service."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, print_json, say

Before = Annotated[
    datetime,
    typer.Option(
        help="Erase requests settled before this time, in UTC; not in the future.",
        formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
    ),
]


def purge(
    before: Before,
    folder: Annotated[Path, typer.Option(help="The folder of the service.")] = Path("erasable-service"),
    key: Annotated[
        Path | None, typer.Option(help="The key that signs receipts. [default: receipts.pem in the folder]")
    ] = None,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Purge although the clock went forward or the service was stopped.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Erase settled requests: their ids, kinds and times, and their receipts. Download the receipts before.

    For a service that is not running; a running one takes POST /v1/purge. Requests that still owe a receipt or a
    callback stay. A request with a purged id is a new one. A signed statement of the purge is kept in the ledger; a
    running service shows it at /v1/purges.

    For example:

    - `erasable purge --before 2026-01-01`
    """
    from erasable.service.ledger import purge_stopped

    gone = purge_stopped(folder, before.replace(tzinfo=UTC), key, trust_clock=trust_clock)
    if as_json:
        print_json({"purged": gone})
    else:
        say(f"{gone} requests are gone from the ledger.")
