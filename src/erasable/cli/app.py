"""The command ``erasable``: parse, call one operation, render. Here are the table of commands and the exit codes."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from importlib import import_module
from typing import Annotated, Any, TextIO

import typer
import typer.main
from typer.core import TyperCommand, TyperGroup

from erasable.cli._shared import console, say, unmarked, with_option_groups
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
from erasable.version import VERSION

DONE, FAILED, BAD_INPUT, BAD_RECEIPT, UNVERIFIED, BAD_FILE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
NOT_ERASED, UNKNOWN = 6, 7

#: The meaning of every exit code, as ``erasable --help`` prints it.
EXIT_CODES = {
    DONE: "done",
    FAILED: "a check found something, or another failure",
    BAD_INPUT: "wrong usage or unusable input; nothing was changed",
    BAD_RECEIPT: "a receipt or its signature is wrong",
    UNVERIFIED: "a model does not verify",
    BAD_FILE: "a file could not be read or written, or is busy; the model is unchanged, unless the message says "
    "that rows are forgotten",
    NOT_ERASED: "a file was changed, but its old bytes could not be erased; run it again",
    UNKNOWN: "it is not known whether a file was changed durably; run it again",
    INTERRUPTED: "interrupted",
}

# The first class that matches decides, so subclasses come before their base classes.
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


@dataclass(frozen=True)
class Entry:
    """A command: its line in ``erasable --help``, and the module that is imported when it runs."""

    module: str
    panel: str
    line: str


#: Every command. Its module defines a function of the same name, or ``app``, a Typer group.
COMMANDS = {
    "learn": Entry("erasable.cli.learn", "Model", "Learn rows of a table into a model file, new or existing."),
    "forget": Entry("erasable.cli.forget", "Model", "Forget rows or all rows of subjects, durably."),
    "verify": Entry("erasable.cli.verify", "Model", "Recompute a model from its own rows and compare every bit."),
    "predict": Entry("erasable.cli.predict", "Model", "Predict labels for the rows of a table."),
    "inspect": Entry("erasable.cli.inspect", "Model", "Show configuration, size and digest; no rows unless asked."),
    "export": Entry("erasable.cli.export", "Model", "Write the weights for other programs, stamped with the digest."),
    "replay": Entry("erasable.cli.replay", "Model", "After a restore, repeat the erasures since the backup."),
    "schema": Entry("erasable.cli.schema", "Model", "Draft a public schema for a raw table, or check one."),
    "moments": Entry("erasable.cli.moments", "Model", "Compute second moments of a public table, for selection."),
    "receipt": Entry("erasable.cli.receipt", "Proof", "Check receipts of forgetting."),
    "keys": Entry("erasable.cli.keys", "Proof", "Make keys that sign receipts."),
    "scan": Entry("erasable.cli.scan", "Proof", "Look for remains of rows in every file of a folder."),
    "audit": Entry("erasable.cli.audit", "Proof", "Attack a way of forgetting, and report what works."),
    "evidence": Entry("erasable.cli.evidence", "Proof", "Write a page about a model and its receipts, for your files."),
    "mlflow": Entry("erasable.cli.mlflow", "Proof", "List registered copies of a model that hold forgotten rows."),
    "serve": Entry("erasable.cli.serve", "Service", "Serve models: predictions out, erasure requests in."),
    "token": Entry("erasable.cli.token", "Service", "Make, list and revoke tokens of the service."),
    "request": Entry("erasable.cli.request", "Service", "File a list of identities with a service."),
    "purge": Entry("erasable.cli.purge", "Service", "Erase settled requests from the ledger of a service."),
    "plan": Entry("erasable.cli.plan", "Research", "Choose parameters; foresee accuracy, storage and lifetime."),
    "reproduce": Entry("erasable.cli.reproduce", "Research", "Run the paper's experiments, on its data or on yours."),
    "demo": Entry("erasable.cli.demo", "Research", "Learn, forget, verify: the whole idea in one short run."),
}


def load_command(name: str) -> Any:
    """Import the module of a command and return the command."""
    module = import_module(COMMANDS[name].module)
    if isinstance(group := getattr(module, "app", None), typer.Typer):
        group.rich_markup_mode = "markdown"
        command: Any = typer.main.get_group(group)
        command.no_args_is_help = True
    else:
        alone = typer.Typer(add_completion=False, rich_markup_mode="markdown")
        alone.command(name)(with_option_groups(getattr(module, name)))
        command = typer.main.get_command(alone)
    command.name = name
    for leaf in getattr(command, "commands", {name: command}).values():
        leaf.callback = _finishing(leaf.callback)
    return command


def _finishing(work: Callable[..., object]) -> Callable[..., object]:
    """Wrap a command so that it returns ``_FINISHED`` if it ran to its end."""

    @wraps(work)
    def finished(*args: object, **kwargs: object) -> object:
        work(*args, **kwargs)
        return _FINISHED

    return finished


class LazyGroup(TyperGroup):
    """Lists all commands but imports only the one that is run, explained or completed."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.line, rich_help_panel=entry.panel))

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the names in the order of ``COMMANDS``."""
        return list(self.commands)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the name, the imported command and the remaining arguments."""
        name, command, rest = super().resolve_command(ctx, args)
        return name, load_command(name) if name in COMMANDS else command, rest


_EPILOG = "\n\n".join(
    [
        "With `--json`, results and errors are JSON on standard output. `--install-completion` sets up completion of "
        "commands and options in your shell.",
        "**Exit codes**",
        *(f"- {code}: {meaning}" for code, meaning in EXIT_CODES.items()),
    ]
)

app = typer.Typer(
    name="erasable",
    cls=LazyGroup,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
)


def _show_version(wanted: bool) -> None:
    if wanted:
        say(VERSION)
        raise typer.Exit


@app.callback(epilog=_EPILOG)
def options(
    show: Annotated[
        bool, typer.Option("--version", is_eager=True, callback=_show_version, help="Show the version and exit.")
    ] = False,
) -> None:
    """Machine learning that can forget, bit for bit."""


# The base class of all usage errors. Typer does not export it, and may bring its own copy of Click.
_ClickException: type[Exception] = typer.BadParameter.__mro__[2]


def main() -> None:
    """Run the command line and exit; an expected error becomes one line and an exit code."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # the parent process closed it
            setattr(sys, name, open(os.devnull, "w"))  # noqa: SIM115
    warnings.showwarning = _show_warning
    sys.exit(run(sys.argv[1:]))


def _show_warning(message: Warning | str, *_: object, **__: object) -> None:
    """Print a Python warning as one line, without the place in the code."""
    say(f"warning: {as_options(str(message))}", aside=True)


def run(arguments: list[str]) -> int:
    """Run one command and return its exit code; see ``EXIT_CODES``. Only unexpected errors are raised."""
    as_json = wants_json(arguments)
    try:
        result = typer.main.get_command(app).main(arguments, prog_name="erasable", standalone_mode=False)
        sys.stdout.flush()  # while a failure can still be reported
        code = result if isinstance(result, int) else DONE
        if code == DONE and result is not _FINISHED and not _only_shows_something(arguments):
            code, kind, text = FAILED, "NotRunError", _NOT_RUN
        elif code != INTERRUPTED:
            return code
        else:
            kind, text = "KeyboardInterrupt", _INTERRUPTED
    except BrokenPipeError:  # the reader of our output has stopped reading
        mute(sys.stdout)
        return FAILED
    except (ErasableError, OSError, MemoryError) as error:
        code, kind, text = exit_code(error), type(error).__name__, message(error)
    except (KeyboardInterrupt, typer.Abort):
        code, kind, text = INTERRUPTED, "KeyboardInterrupt", _INTERRUPTED
    except _ClickException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # the help was printed already
            return BAD_INPUT
        code, kind, text = getattr(error, "exit_code", BAD_INPUT), "UsageError", _usage(error)
    except Exception as error:
        if as_json:
            report(type(error).__name__, "unexpected: see the traceback on standard error.", FAILED, as_json=True)
        raise
    report(kind, text, code, as_json=as_json)
    return code


#: Returned by a command that ran to its end; no other result counts as success.
_FINISHED = object()
_SHOWING = {"--help", "--version", "--install-completion", "--show-completion"}
_NOT_RUN = (
    "the command did not run to its end and may have done nothing: the installed versions of typer and click may not "
    "fit together. Install typer 0.20 or later, and run it again."
)


def _only_shows_something(arguments: list[str]) -> bool:
    """Whether the arguments only ask for help, the version or completion; a bare group name shows its help."""
    match arguments:
        case []:
            return True
        case [name] if name in COMMANDS:
            return hasattr(load_command(name), "commands")
        case _:
            return not _SHOWING.isdisjoint(before_dashes(arguments))


_INTERRUPTED = "interrupted: every file is as before the command or as after it; run it again to be sure."


def _usage(error: Any) -> str:
    """Format a usage error as one line that names the command's help."""
    where = getattr(getattr(error, "ctx", None), "command_path", "erasable")
    text = " ".join(error.format_message().split()).rstrip(".")
    if text.startswith("Got unexpected extra argument"):  # the argument may be an id or a name
        text = text.partition(" (")[0]
    return f"{text}{'' if text.endswith('?') else '.'} See {where} --help."


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
    """Return the exit code for an error.

    Examples
    --------
    >>> from erasable.errors import BusyError, InputError, SignatureError
    >>> from erasable.cli.app import exit_code
    >>> exit_code(InputError("")), exit_code(SignatureError("")), exit_code(BusyError(""))
    (2, 3, 5)
    """
    return next((code for kind, code in _BY_ERROR if isinstance(error, kind)), FAILED)


def message(error: BaseException) -> str:
    """Return one line: what went wrong and what to do next."""
    if isinstance(error, MemoryError):
        return "memory ran out: use fewer rows or columns at a time, or a parameter that stores fewer rows."
    if isinstance(error, OSError) and not isinstance(error, ErasableError) and error.strerror:
        where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, str | bytes) else ""
        advice = _ADVICE.get(error.errno or 0, "check the path, the space left and who may write there")
        return f"{where}{error.strerror}; {advice}."
    return as_options(" ".join(str(error).split()))


# A keyword as messages write it, ``id=``, but not one inside a call such as ``load(path, like=...)``.
_KEYWORD = re.compile(r"(?<![\w.])([a-z]\w*)=(?=[\s,;:)]|\.(?!\.)|$)")
# Arguments with a number for each column are no options: a schema holds them.
_BY_COLUMN = re.compile(r"(?:centres|scaling)=, public [\w ]+, one for each column")
#: Arguments whose option has another name.
OPTIONS = {"ids": "id", "subjects": "subject", "targets": "target", "sample_weight": "weight"}
OPTIONS |= {"fit_intercept": "intercept", "n_features": "features", "processes": "workers"}


def as_options(text: str) -> str:
    """Rewrite a message so that it names options instead of Python arguments."""
    text = text.replace("header=False", "--no-header").replace("header=True", "--header")
    text = _BY_COLUMN.sub("a --schema, which `erasable schema` drafts", text)
    return _KEYWORD.sub(as_option, text)


def as_option(found: re.Match[str]) -> str:
    """Return the option for a matched argument name."""
    return "--" + OPTIONS.get(found[1], found[1].replace("_", "-"))


def wants_json(arguments: Sequence[str]) -> bool:
    """Whether ``--json`` is among the options."""
    return "--json" in before_dashes(arguments)


def before_dashes(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments before ``--``, where options are allowed."""
    return arguments[: arguments.index("--")] if "--" in arguments else arguments


def report(kind: str, text: str, code: int, *, as_json: bool) -> None:
    """Report an error: as JSON on standard output, or as one line on standard error."""
    try:
        if as_json:
            say(json.dumps({"error": {"kind": kind, "message": text}, "exit": code}))
        sys.stdout.flush()
    except OSError:  # standard output itself failed
        mute(sys.stdout)
        as_json = False
    if not as_json:
        console(stderr=True, soft_wrap=True).print(f"[bold red]error:[/] {unmarked(text)}")


def mute(stream: TextIO) -> None:
    """Discard what a stream still holds, so that Python does not complain at exit."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, stream.fileno())
    finally:
        os.close(nowhere)
