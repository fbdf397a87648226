"""``erasable purge``: settled requests out of the ledger of a service."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, print_json, say
from erasable.errors import ConfigurationError


def purge(
    before: Annotated[
        datetime,
        typer.Option(
            help="Erase requests settled before this moment, in UTC; not in the future.",
            formats=["%Y-%m-%d", "%Y-%m-%dT%H:%M:%S"],
        ),
    ],
    folder: Annotated[Path, typer.Option(help="The folder of the service.")] = Path("erasable-service"),
    key: Annotated[
        Path | None, typer.Option(help="The key that signs receipts. [default: receipts.pem in the folder]")
    ] = None,
    trust_clock: Annotated[
        bool, typer.Option("--trust-clock", help="Purge although the clock went forward or the service was stopped.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Erase what is left of settled requests: their ids, kinds and times, and their receipts. Download these before.

    For a service that is not running; a running one takes POST /v1/purge. A request with an id that was purged is a new
    one. Those that still owe a receipt or a callback stay. A signed statement of the purge is kept in the ledger; a
    running service shows it at /v1/purges.

    For example:

    - `erasable purge --before 2026-01-01`
    """
    from erasable.audit.keys import read_private_key
    from erasable.service.ledger import Ledger
    from erasable.service.purges import WatchedClock, elapsed
    from erasable.service.settings import Settings
    from erasable.service.suppression import read_key

    if not (folder / "requests").is_dir():
        raise ConfigurationError(f"{folder} is no folder of a service: it has no ledger.")
    signer, now = read_private_key(key or folder / "receipts.pem"), lambda: datetime.now(UTC)
    ledger = Ledger(folder / "requests", read_key(folder / "operator.key"), Settings(), now)
    try:
        watched = WatchedClock(folder / "requests" / "clock", now, elapsed, ledger.newest, trusted=trust_clock)
        if watched.doubt() is not None:
            raise ConfigurationError(
                "by the clock the service has not run for more than a day: if the clock is right, add --trust-clock."
            )
        gone = ledger.purge(before.replace(tzinfo=UTC), "(command line)", signer)
    finally:
        ledger.close()
    if as_json:
        print_json({"purged": gone})
        return
    say(f"{gone} requests are gone from the ledger.")
