"""``erasable replay``: a model from a backup forgets those who were erased since."""

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
    """Forget every stored row of those who are on a suppression list: after a restore, before anything else.

    A backup holds rows that were erased after it was made. The list, where the service keeps one, says whose they are.
    Run again, the command changes nothing.

    For example:

    - `erasable replay model-from-backup.erasable --list suppressed.list --key operator.key`
    """
    from erasable.service.suppression import read_list
    from erasable.service.suppression import replay as replay_list

    listed = read_list(list, key)
    report = replay_list(model, listed, timeout=timeout)
    note_doubt(model)
    if as_json:
        counts = {"core_rows_removed": report.core_rows_removed, "core_rows": report.core_rows}
        print_json({"model": str(model), "listed": len(listed), **counts, "digest": report.digest})
        return
    say(
        f"{len(listed):,} on the list; {counted(report.core_rows_removed, 'core row')} forgotten, "
        f"{report.core_rows:,} left in {model}."
    )
    say(f"state digest {report.digest}")
