"""``erasable verify``: recompute a model from its own rows and compare every bit."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from erasable.cli._shared import Bars, Json, print_json, say


def verify(
    model: Annotated[Path, typer.Argument(help="The model file.", show_default=False)],
    as_json: Json = False,
) -> None:
    """Learn the stored core rows again, from nothing, and compare everything with what the file holds.

    Nothing but the file is needed, and the code that forgot is not trusted. Exit code 4: the state is not what learning
    its own rows gives, or the file is damaged, or no model that is known here.

    For example:

    - `erasable verify model.erasable`
    """
    from erasable.errors import StateFormatError, VerificationError
    from erasable.operations.verify import verify_file

    try:
        with Bars(quiet=as_json) as bars:
            report = verify_file(model, progress=bars.of("verifying"))
    except StateFormatError as error:
        raise VerificationError(str(error)) from error
    if as_json:
        print_json({"model": str(model), "verified": True, **asdict(report)})
        return
    for line in str(report).splitlines():
        say(line)
