"""``erasable verify``: recompute a model from its own rows and compare every bit."""

from __future__ import annotations

from erasable.cli._shared import Bars, Json, ModelPath, print_json, say
from erasable.errors import StateFormatError, VerificationError


def verify(
    model: ModelPath,
    as_json: Json = False,
) -> None:
    """Learn the stored core rows again, from nothing, and compare everything with what the file holds.

    Only the file is needed; the code that forgot is not trusted. Exit code 4: learning the stored rows does not give
    this state, or the file is damaged or not a model.

    A note names files in the folder that hold something of a model file which was renamed, removed or replaced: fitted
    learners, which the next command that changes a model in the folder erases, and what an interrupted change left.
    Nothing is changed.

    For example:

    - `erasable verify model.erasable`
    """
    from erasable.operations.verify import verify_file

    try:
        with Bars(quiet=as_json) as bars:
            report = verify_file(model, progress=bars.of("verifying"))
    except StateFormatError as error:
        raise VerificationError(str(error)) from error
    if as_json:
        print_json({"model": str(model), "verified": True, **report.as_json()})
        return
    for line in str(report).splitlines():
        say(line)
