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
        datetime, typer.Option(help="Erase requests settled before this day, in UTC.", formats=["%Y-%m-%d"])
    ],
    folder: Annotated[Path, typer.Option(help="The folder of the service.")] = Path("erasable-service"),
    as_json: Json = False,
) -> None:
    """Erase what is left of settled requests: their ids, kinds and times, and their receipts. Download these before.

    For a service that is not running; a running one takes POST /v1/purge. A request with an id that was purged is a new
    one. Those that still owe a receipt or a callback stay.

    For example:

    - `erasable purge --before 2026-01-01`
    """
    from erasable.service.ledger import Ledger
    from erasable.service.settings import Settings
    from erasable.service.suppression import read_key

    if not (folder / "requests").is_dir():
        raise ConfigurationError(f"{folder} is no folder of a service: it has no ledger.")
    ledger = Ledger(folder / "requests", read_key(folder / "operator.key"), Settings(), lambda: datetime.now(UTC))
    try:
        gone = ledger.purge(before.replace(tzinfo=UTC))
    finally:
        ledger.close()
    if as_json:
        print_json({"purged": gone})
        return
    say(f"{gone} requests are gone from the ledger.")
