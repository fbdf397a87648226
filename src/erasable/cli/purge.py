"""``erasable purge``: erase settled requests from the ledger of a service."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, print_json, say

_BEFORE = "Erase requests settled before this time, in UTC; not in the future."
_KEY = "The key that signs receipts. [default: receipts.pem in the folder]"
_TRUST = "Purge although the clock went forward or the service was stopped."


def purge(
    before: Annotated[datetime, typer.Option(help=_BEFORE, formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"])],
    folder: Annotated[Path, typer.Option(help="The folder of the service.")] = Path("erasable-service"),
    key: Annotated[Path | None, typer.Option(help=_KEY)] = None,
    trust_clock: Annotated[bool, typer.Option("--trust-clock", help=_TRUST)] = False,
    as_json: Json = False,
) -> None:
    """Erase settled requests: their ids, kinds and times, and their receipts. Download the receipts first.

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
