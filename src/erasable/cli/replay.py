"""``erasable replay``: make a model from a backup forget the people who were erased since."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Json, Timeout, counted, note_doubt, print_json, say


def replay(
    model: Annotated[Path, typer.Argument(help="The model file, restored.", readable=False)],
    list: Annotated[Path, typer.Option("--list", help="The suppression list of the service.", readable=False)],
    key: Annotated[Path, typer.Option(help="The operator's key of that list.", readable=False)],
    timeout: Timeout = 60,
    as_json: Json = False,
) -> None:
    """Forget every stored row of the people on a suppression list: after a restore, before anything else.

    A backup holds rows that were erased after it was made. The list, if the service keeps one, says whose they are.
    Running the command again changes nothing.

    For example:

    - `erasable replay model-from-backup.erasable --list suppressed.list --key operator.key`
    """
    from erasable.service.suppression import read_list
    from erasable.service.suppression import replay as replay_list

    listed = read_list(list, key)
    report = replay_list(model, listed, timeout=timeout)
    note_doubt(model)
    removed, left = report.core_rows_removed, report.core_rows
    if as_json:
        counts = {"listed": len(listed), "core_rows_removed": removed, "core_rows": left}
        print_json({"model": str(model), **counts, "digest": report.digest})
        return
    say(f"{len(listed):,} on the list; {counted(removed, 'core row')} forgotten, {left:,} left in {model}.")
    say(f"state digest {report.digest}")
