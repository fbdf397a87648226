"""How a command ends: the table of exit codes, and an error as one line, or as JSON where JSON was asked for."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import TextIO

from erasable.cli._shared import console, say, unmarked
from erasable.errors import (
    ChangedMeanwhileError,
    EngineError,
    ErasableError,
    NotErasedError,
    ReceiptError,
    StaleReportError,
    StoreError,
    UnknownOutcomeError,
    VerificationError,
)

DONE, FAILED, BAD_INPUT, BAD_RECEIPT, UNVERIFIED, BAD_FILE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
NOT_ERASED, UNKNOWN = 6, 7

#: What every exit code means. ``erasable --help`` shows it.
EXIT_CODES = {
    DONE: "done",
    FAILED: "a check found something, or another failure",
    BAD_INPUT: "wrong usage or input that cannot be used; nothing was changed",
    BAD_RECEIPT: "a receipt or its signature is wrong",
    UNVERIFIED: "a model does not verify",
    BAD_FILE: "a file could not be read or written, or is busy; it is as it was",
    NOT_ERASED: "a file was changed, but what it held before could not be erased; run it again",
    UNKNOWN: "whether a file was changed, for good, is not known; run it again",
    INTERRUPTED: "interrupted",
}

# The first class that fits decides, so children stand before their parents.
_BY_ERROR: tuple[tuple[type[BaseException], int], ...] = (
    (VerificationError, UNVERIFIED),
    (ReceiptError, BAD_RECEIPT),
    (NotErasedError, NOT_ERASED),
    (UnknownOutcomeError, UNKNOWN),
    (StoreError, BAD_FILE),
    (ChangedMeanwhileError, FAILED),
    (EngineError, FAILED),
    (StaleReportError, FAILED),
    (ErasableError, BAD_INPUT),
    (OSError, BAD_FILE),
    (KeyboardInterrupt, INTERRUPTED),
)

_ADVICE = {
    errno.ENOENT: "check the path",
    errno.ENOTDIR: "check the path",
    errno.EISDIR: "give a file, not a folder",
    errno.EEXIST: "choose another path",
    errno.EACCES: "check who may read and write there",
    errno.EPERM: "check who may read and write there",
    errno.EROFS: "choose a place that can be written to",
    errno.ENOSPC: "free some space and run it again",
    errno.EDQUOT: "free some space and run it again",
}


def exit_code(error: BaseException) -> int:
    """The exit code that an error ends a command with.

    Examples
    --------
    >>> from erasable.errors import BusyError, InputError, SignatureError
    >>> from erasable.cli._exits import exit_code
    >>> exit_code(InputError("")), exit_code(SignatureError("")), exit_code(BusyError(""))
    (2, 3, 5)
    """
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), FAILED)


def message(error: BaseException) -> str:
    """What went wrong and what to do next, on one line."""
    if isinstance(error, MemoryError):
        return "memory ran out: use fewer rows or columns at a time, or a parameter that stores fewer rows."
    if isinstance(error, OSError) and not isinstance(error, ErasableError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        advice = _ADVICE.get(error.errno or 0, "check the path, the space left and who may write there")
        return f"{where}{error.strerror}; {advice}."
    return as_options(" ".join(str(error).split()))


# Names of arguments as Python writes them, and not those of a call: ``id=``, but not ``load(path, like=...)``.
_KEYWORD = re.compile(r"(?<![\w.])([a-z]\w*)=(?=[\s,;:)]|\.(?!\.)|$)")
#: Arguments whose options have other names than theirs.
OPTIONS = {"ids": "id", "subjects": "subject", "targets": "target", "sample_weight": "weight"}
OPTIONS |= {"fit_intercept": "intercept", "n_features": "features", "processes": "workers"}


def as_options(text: str) -> str:
    """A text of Python's in which arguments are named as options of the command line."""
    text = text.replace("header=False", "--no-header").replace("header=True", "--header")
    return _KEYWORD.sub(as_option, text)


def as_option(found: re.Match[str]) -> str:
    """The option of the command line that stands for an argument."""
    return "--" + OPTIONS.get(found[1], found[1].replace("_", "-"))


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is among the options of a command line."""
    return "--json" in before_dashes(arguments)


def before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    """The arguments among which options may stand: those before ``--``."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def report(kind: str, text: str, code: int, *, as_json: bool) -> None:
    """Say what went wrong: JSON on standard output, otherwise one line on standard error."""
    try:
        if as_json:
            say(json.dumps({"error": {"kind": kind, "message": text}, "exit": code}))
        sys.stdout.flush()
    except OSError:  # standard output itself is what failed
        mute(sys.stdout)
        as_json = False
    if not as_json:
        console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {unmarked(text)}")


def mute(stream: TextIO) -> None:
    """Send what a stream still holds nowhere, so that Python does not complain of it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
